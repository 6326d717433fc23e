/*
 * hostile.h - images whose checksums are right and whose contents are not.
 *
 * A mutator that does not mend the checksums tests nothing but them. Here bytes are laid over a
 * good image: over the newest superblock slot and its metadata, or over its log. All checksums
 * on the way are then made right, and the store has to live with the rest: open it or refuse, show
 * it, commit to it, save a checkpoint, and open what it saved itself.
 */
#ifndef TESTS_DISK_HOSTILE_H
#define TESTS_DISK_HOSTILE_H

#include "internal.h"
#include "device.h"

#define HOSTILE_BYTES_MAX (512u * 1024)

enum hostile_part { HOSTILE_IMAGE, HOSTILE_LOG };

struct hostile {
    struct device device;
    struct superblock super;    /* the newest */
    size_t bytes[2];            /* of each part: as in the good image */
    uint64_t refused, opened;
};

void slot_mend(uint8_t *block);         /* the CRC of a superblock's slot */
void hostile_open(struct hostile *hostile, uint64_t seed);
void hostile_close(struct hostile *hostile);
/* The good bytes of a part: slot (512 bytes), map, metadata pages; or groups, from the redo LSN. */
size_t hostile_take(const struct hostile *hostile, enum hostile_part part, uint8_t *out);
/* Lays bytes over the good image, mends checksums, tries, and takes all back. Aborts by `require`
 * of crew.h or a sanitizer if the store misbehaves. */
void hostile_try(struct hostile *hostile, enum hostile_part part, const uint8_t *bytes,
                 size_t count);
/* The same, but what is tried is the caller's. */
void hostile_with(struct hostile *hostile, enum hostile_part part, const uint8_t *bytes,
                  size_t count, void (*what)(struct hostile *hostile));
/* Changes a few fields of such bytes; the same seed gives the same changes. */
void hostile_mutate(enum hostile_part part, uint8_t *bytes, size_t count, uint64_t *random);

#endif
