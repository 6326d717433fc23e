/*
 * file_import.c - /import: the members of a ustar archive on the block device "import".
 *
 * Only the headers are read at start; bytes come on demand through a small cache of chunks.
 *
 * Invariants
 *   IM1  A chunk that is busy belongs to one reader: it keeps its index and its frames.
 *   IM2  At most one chunk has a given index.
 *
 * Locks: cache.lock (RANK_FILE); not held while the disk works or bytes are copied.
 */
#include "block/block.h"
#include "file/file.h"
#include "thread/thread.h"

#define CHUNK_PAGES 32u
#define CHUNK_BYTES ((uint64_t)CHUNK_PAGES * PAGE_BYTES)
#define CHUNKS 16

struct chunk {
    bool busy, valid;                  /* valid: the frames hold what is on the disk */
    uint64_t index, used;
    struct frame *frames[CHUNK_PAGES]; /* all there, or none */
};

static struct {
    struct lock lock;
    struct block_device *disk;
    struct chunk chunks[CHUNKS];
    struct list waiters;               /* threads, by wait_link */
    uint64_t clock;
} cache = {.lock = LOCK_INIT(RANK_FILE, "import cache"), .waiters = LIST_INIT(cache.waiters)};

static bool chunk_frames(struct chunk *c)
{
    if (c->frames[0])
        return true;
    for (unsigned i = 0; i < CHUNK_PAGES; i++)
        if (!(c->frames[i] = frame_seam.take(FRAME_FILE))) {
            while (i-- > 0) {
                frame_free(c->frames[i]);
                c->frames[i] = NULL;
            }
            return false;
        }
    return true;
}

static int chunk_fill(struct chunk *c)
{
    struct block_segment segments[CHUNK_PAGES];
    uint64_t offset = c->index * CHUNK_BYTES;
    uint64_t left = MIN(cache.disk->bytes - offset, CHUNK_BYTES);
    struct block_request r = {
        .device = cache.disk, .operation = BLOCK_READ, .offset_bytes = offset,
        .segments = segments,
    };
    for (; left; r.segment_count++) {
        uint32_t part = (uint32_t)MIN(left, PAGE_BYTES);
        segments[r.segment_count] = (struct block_segment){
            .address = frame_paddr(c->frames[r.segment_count]), .bytes = part};
        left -= part;
    }
    return block_run(&r);
}

/* chunk_pick chooses the chunk with this index, or the free one that was not used for longest;
 * NULL: wait for one. Lock held. */
static struct chunk *chunk_pick(uint64_t index)
{
    struct chunk *victim = NULL;
    for (struct chunk *c = cache.chunks; c < cache.chunks + CHUNKS; c++) {
        if (c->index == index && (c->valid || c->busy))
            return c->busy ? NULL : c; /* IM2 */
        if (!c->busy && (!victim || c->used * c->valid < victim->used * victim->valid))
            victim = c; /* IM1 */
    }
    return victim;
}

/* chunk_get takes the chunk with this index, which is read if it is not here. 0, -ENOMEM, -EIO: it
 * is not valid, and to be given back all the same. */
static int chunk_get(uint64_t index, struct chunk **out)
{
    struct chunk *c;
    lock_acquire(&cache.lock);
    while (!(c = chunk_pick(index)))
        (void)thread_wait(&cache.waiters, &cache.lock, thread_park_until_uninterrupted);
    c->valid = c->valid && c->index == index;
    c->busy = true;
    c->index = index;
    c->used = ++cache.clock;
    lock_release(&cache.lock);
    int error = c->valid ? 0 : chunk_frames(c) ? chunk_fill(c) : -ENOMEM;
    *out = c;
    return error;
}

static void chunk_put(struct chunk *c, bool valid)
{
    lock_acquire(&cache.lock);
    assert(c->busy); /* IM1 */
    c->busy = false;
    c->valid = valid;
    thread_wake_all(&cache.waiters);
    lock_release(&cache.lock);
}

long import_read(uint64_t disk_offset, void *to, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        uint64_t at = disk_offset + done;
        size_t part = MIN(bytes - done, PAGE_BYTES - at % PAGE_BYTES);
        struct chunk *c;
        int error = chunk_get(at / CHUNK_BYTES, &c);
        if (!error)
            memcpy((char *)to + done,
                   (char *)frame_memory(c->frames[at % CHUNK_BYTES / PAGE_BYTES]) + at % PAGE_BYTES,
                   part);
        chunk_put(c, !error);
        if (error)
            return done ? (long)done : error;
        done += part;
    }
    return (long)done;
}

/* Headers only: they are far apart, so read-ahead would read the whole archive. */
struct import_source {
    struct ustar_source source;
    uint64_t window_at;                /* what `window` holds; ~0: nothing */
    uint8_t *window;
};

static int header_read(struct ustar_source *s, uint64_t offset, uint8_t *block)
{
    struct import_source *i = container_of(s, struct import_source, source);
    uint64_t page = offset / PAGE_BYTES * PAGE_BYTES;
    if (i->window_at != page) {
        int error = block_read(cache.disk, page, i->window,
                               MIN((uint64_t)PAGE_BYTES, cache.disk->bytes - page));
        if (error)
            return error;
        i->window_at = page;
    }
    memcpy(block, i->window + offset % PAGE_BYTES, 512);
    return 0;
}

void file_import_init(void)
{
    struct node *n;
    cache.disk = block_find("import");
    if (!cache.disk)
        return;
    struct frame *f = frame_alloc(FRAME_FILE);
    if (!f || node_make(node_root(), "import", NODE_FOLDER, 0555, true, &n)) {
        printk("import: no memory");
        return;
    }
    n->read_only = true;
    node_put(n);
    struct import_source s = {
        .source = {.read = header_read, .folder = "/import", .name = "import disk",
                   .bytes = cache.disk->bytes / 512 * 512},
        .window_at = ~0ull, .window = frame_memory(f),
    };
    ustar_add(&s.source);
    frame_free(f);
}
