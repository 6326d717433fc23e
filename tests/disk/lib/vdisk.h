/*
 * vdisk.h - a sparse disk in memory: of as many bytes as one likes, of which only the blocks that
 * were written are kept. For stores whose numbers are too large for a disk of the tests.
 */
#ifndef TESTS_DISK_VDISK_H
#define TESTS_DISK_VDISK_H

#include "store.h"
#include "tools/kcheck/kcheck.h"

struct vblock { uint64_t number; uint8_t *bytes; };     /* bytes NULL: a free place */

struct vdisk {
    struct vblock *blocks;      /* by the hash of their numbers; room is a power of two */
    uint64_t room, count, bytes;
    uint64_t reads, writes;     /* requests */
};

void vdisk_open(struct vdisk *disk, uint64_t bytes);
void vdisk_close(struct vdisk *disk);
struct disk_io vdisk_io(struct vdisk *disk);
struct kcheck_io vdisk_kcheck_io(struct vdisk *disk);

#endif
