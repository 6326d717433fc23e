/* buffer.c - the buffer manager: a hash table of units, a list of frames by age, pins. */
#include "buffer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "disk/crc32c.h"
#include "katydid/call.h"
#include "pstore.h"

int buffer_open(struct buffer_pool *pool, const struct buffer_file *file, unsigned frames)
{
    *pool = (struct buffer_pool){.file = *file, .table_mask = 1};
    pool->ends.older = pool->ends.newer = &pool->ends;
    while (pool->table_mask < 2 * frames)
        pool->table_mask *= 2;
    pool->table = calloc(pool->table_mask--, sizeof *pool->table);
    for (unsigned i = 0; pool->table && i < frames; i++) {
        struct buffer_frame *f = calloc(1, sizeof *f);
        if (!f || posix_memalign((void **)&f->bytes, KD_PAGE_BYTES, file->unit_bytes))
            return -ENOMEM;
        f->unit = UINT64_MAX;
        f->newer = &pool->ends;
        f->older = pool->ends.older;
        f->older->newer = f->newer->older = f;
    }
    return pool->table ? 0 : -ENOMEM;
}

static struct buffer_frame **bucket(struct buffer_pool *pool, uint64_t unit)
{
    return &pool->table[(uint32_t)(unit * 0x9e3779b1u >> 7) & pool->table_mask];
}

static void newest(struct buffer_pool *pool, struct buffer_frame *f)
{
    f->older->newer = f->newer;
    f->newer->older = f->older;
    f->newer = &pool->ends;
    f->older = pool->ends.older;
    f->older->newer = f->newer->older = f;
}

static _Noreturn void fail(const char *what, long error)
{
    fprintf(stderr, "udatabase: buffer manager: %s: %s\n", what, ps_strerror((int)error));
    exit(1);
}

/* The frame that was not used longest gets another unit. */
static struct buffer_frame *frame_read(struct buffer_pool *pool, uint64_t unit)
{
    const struct buffer_file *file = &pool->file;
    struct buffer_frame *f = pool->ends.newer;
    while (f->pins > 0)
        f = f->newer;
    if (f == &pool->ends || unit >= file->units)
        fail("no frame, or no such unit", -EINVAL);
    if (f->unit != UINT64_MAX) {
        struct buffer_frame **link = bucket(pool, f->unit);
        while (*link != f)
            link = &(*link)->chain;
        *link = f->chain;
    }
    long error = kd_call4(KD_BLOCK_READ, file->disk,
                          (long)(file->offset + unit * file->unit_bytes), (long)f->bytes,
                          file->unit_bytes);
    if (error || crc32c(0, f->bytes, file->unit_bytes) != file->sums[unit])
        fail("a read", error ? error : -EIO);
    f->unit = unit;
    f->chain = *bucket(pool, unit);
    *bucket(pool, unit) = f;
    pool->reads++;
    return f;
}

void *buffer_fix(void *arg, unsigned place, void *node)
{
    struct buffer_way *way = arg;
    struct buffer_pool *pool = way->pool;
    uint64_t at = (uint64_t)node - pool->file.base, unit = at / pool->file.stride;
    if (way->pinned[place])
        way->pinned[place]->pins--;
    struct buffer_frame *f = *bucket(pool, unit);
    while (f && f->unit != unit)
        f = f->chain;
    if (f)
        pool->hits++;
    else
        f = frame_read(pool, unit);
    newest(pool, f);
    f->pins++;
    way->pinned[place] = f;
    return f->bytes + at % pool->file.stride;
}

void buffer_leave(struct buffer_way *way)
{
    for (unsigned i = 0; i < BUFFER_PLACES; i++)
        if (way->pinned[i]) {
            way->pinned[i]->pins--;
            way->pinned[i] = NULL;
        }
}
