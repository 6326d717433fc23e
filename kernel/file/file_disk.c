/*
 * file_disk.c - /dev/import: the block device "import" as a file, which init takes apart.
 *
 * Bytes come on demand, in chunks, through a few places whose memory is taken at boot. A chunk can
 * be in one of them only, by its index.
 *
 * Invariants
 *   IM1  A place that is busy belongs to one reader: it keeps its index and its bytes.
 *
 * Locks: import.lock (RANK_FILE); not held while the disk works or bytes are copied.
 */
#include "block/block.h"
#include "file/file.h"
#include "thread/thread.h"

#define CHUNK_BYTES (128u << 10)
#define CHUNKS 8

struct chunk {
    bool busy;
    uint64_t next;                     /* index + 1 of what is in it; 0: nothing */
    char *bytes;
};

static struct {
    struct lock lock;
    struct block_device *disk;
    struct chunk chunks[CHUNKS];
    struct list waiters;               /* threads, by wait_link */
} import = {.lock = LOCK_INIT(RANK_FILE, "import"), .waiters = LIST_INIT(import.waiters)};

/* chunk_get takes the chunk with this index, which is read if it is not here. 0, -EIO: nothing is
 * in it, and it is to be given back all the same. */
static int chunk_get(uint64_t index, struct chunk **out)
{
    struct chunk *c = *out = &import.chunks[index % CHUNKS];
    lock_acquire(&import.lock);
    while (c->busy)
        (void)thread_wait(&import.waiters, &import.lock, thread_park_until_uninterrupted);
    c->busy = true;
    lock_release(&import.lock);
    uint64_t at = index * CHUNK_BYTES;
    int error = c->next == index + 1 ? 0 : block_read(import.disk, at, c->bytes,
                                                      MIN(import.disk->bytes - at, CHUNK_BYTES));
    c->next = error ? 0 : index + 1;
    return error;
}

static void chunk_put(struct chunk *c)
{
    lock_acquire(&import.lock);
    assert(c->busy); /* IM1 */
    c->busy = false;
    thread_wake_all(&import.waiters);
    lock_release(&import.lock);
}

long disk_read(uint64_t disk_offset, void *to, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        uint64_t at = disk_offset + done;
        size_t part = MIN(bytes - done, CHUNK_BYTES - at % CHUNK_BYTES);
        struct chunk *c;
        int error = chunk_get(at / CHUNK_BYTES, &c);
        if (!error)
            memcpy((char *)to + done, c->bytes + at % CHUNK_BYTES, part);
        chunk_put(c);
        if (error)
            return done ? (long)done : error;
        done += part;
    }
    return (long)done;
}

void file_disk_init(void)
{
    struct node *n;
    import.disk = block_find("import");
    for (struct chunk *c = import.chunks; import.disk && c < import.chunks + CHUNKS; c++)
        if (!(c->bytes = kalloc_raw(CHUNK_BYTES)))
            import.disk = NULL;
    if (!import.disk || node_make(node_root(), "dev/import", NODE_DISK, 0444, true, &n))
        return;
    n->bytes = import.disk->bytes;
    node_put(n);
}
