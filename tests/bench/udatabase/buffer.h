/* buffer.h - an LRU buffer manager over a raw disk, as databases have it that do not map. */
#ifndef BUFFER_H
#define BUFFER_H

#include <stddef.h>
#include <stdint.h>

/* Units of so many bytes, which begin every `stride` bytes from `base` on in memory, and lie from
 * `offset` on on the disk. A unit's checksum is compared when it is read, as the store's is. */
struct buffer_file {
    int disk;
    uint64_t base, offset, units;
    uint32_t unit_bytes, stride;
    const uint32_t *sums;
};

struct buffer_frame {
    struct buffer_frame *older, *newer, *chain;             /* by age; of one hash */
    uint8_t *bytes;
    uint64_t unit;
    uint32_t pins;
};

struct buffer_pool {
    struct buffer_file file;
    struct buffer_frame ends;                               /* of the list by age */
    struct buffer_frame **table;
    uint32_t table_mask;
    uint64_t hits, reads;
};

/* Of one access object: a frame at each place of its way is in use, and stays where it is. */
enum { BUFFER_PLACES = 24 };
struct buffer_way {
    struct buffer_pool *pool;
    struct buffer_frame *pinned[BUFFER_PLACES];
};

/* Makes a pool of that many frames; they are never freed. 0 or -errno. */
int buffer_open(struct buffer_pool *pool, const struct buffer_file *file, unsigned frames);
/* ps_memory.fix: unpins what that place of the way had, reads the unit of a node if it is in no
 * frame, in place of the one that was not used longest, pins it. A disk's error ends the
 * program. */
void *buffer_fix(void *way, unsigned place, void *node);
/* Unpins all that the way has. */
void buffer_leave(struct buffer_way *way);

#endif
