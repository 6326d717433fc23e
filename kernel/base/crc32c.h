/* crc32c.h - CRC-32C (Castagnoli), init ~0 and final xor ~0, of whole pages. */
#ifndef KERNEL_CRC32C_H
#define KERNEL_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Makes the tables and measures which way is quicker here. */
void crc32c_init(void);
/* bytes is a multiple of 8. */
uint32_t crc32c(const void *p, size_t bytes);

#endif
