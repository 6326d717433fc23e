/* crc32c.h - CRC-32C (Castagnoli), for the store, its tools and the kernel. Needs nothing else of
 * the tree. */
#ifndef KATYDID_DISK_CRC32C_H
#define KATYDID_DISK_CRC32C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* struct disk_clock is optional everywhere (NULL): only reports and crc32c_choose use it. */
struct disk_clock {
    void     *context;
    uint64_t (*microseconds)(void *context);
};

/* crc32c is chained as usual: crc32c(crc32c(seed, a), b) is the CRC of a then b; seed 0 is a plain
 * CRC-32C. */
uint32_t crc32c(uint32_t seed, const void *bytes, size_t count);
/* crc32c_padded is the same, quicker, where the last `zeros` of these bytes are zero. */
uint32_t crc32c_padded(uint32_t seed, const void *bytes, size_t count, size_t zeros);
/* crc32c_choose, called once, at start-up, with one thread, chooses: without a clock the
 * instruction is used where there is one (fixed, so runs repeat); with a clock, of any unit, the
 * fastest of "instruction", "table" and "sums" whose result is the tables'. */
void     crc32c_choose(const struct disk_clock *clock);
bool     crc32c_fix(const char *name);  /* takes one of these; false: this machine lacks it */
const char *crc32c_chosen(void);        /* its name, for the boot message */
uint64_t crc32c_cost(const char *name); /* what 16 KiB took by it at the choice; 0: not measured */

#endif
