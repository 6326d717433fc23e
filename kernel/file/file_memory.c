/*
 * file_memory.c - the bytes of files in memory: a tree of frames; holes read as zeros.
 *
 * Invariants
 *   FM1  Bytes at and behind node->bytes are zero in every frame, so growing a file shows zeros.
 *   FM2  memory.frames counts all frames of all such files, and stays within a quarter of the RAM:
 *       files never crowd out programs.
 *
 * Locks: memory.lock (RANK_FILE) guards sizes and frames; copies happen under it, a page at a time.
 */
#include "file/file.h"

#include "thread/thread.h"

#define ENTRIES (PAGE_BYTES / sizeof(struct frame *))
#define MEMORY_FILE_BYTES_MAX ((uint64_t)ENTRIES * ENTRIES * PAGE_BYTES) /* 1 GiB */

static struct {
    struct lock lock;
    size_t frames;
} memory = {.lock = LOCK_INIT(RANK_FILE, "files in memory")};

static bool frames_left(void) { return memory.frames < frame_total_count() / 4; } /* FM2 */

static struct frame *take_frame(void)
{
    struct frame *f = frames_left() ? frame_alloc(FRAME_FILE) : NULL;
    if (f)
        memory.frames++;
    return f;
}

static void give_frame(struct frame *f)
{
    assert(memory.frames > 0); /* FM2 */
    memory.frames--;
    frame_free(f);
}

static struct frame **entries(struct frame *f) { return frame_memory(f); }

/* page finds the frame of a page, and makes it with `create`; NULL: a hole, or no memory. Lock
 * held. */
static struct frame *page(struct node *n, uint64_t index, bool create)
{
    struct frame **entry = &n->top;
    for (unsigned level = 0; level < 3; level++) {
        if (!*entry && !(create && (*entry = take_frame())))
            return NULL;
        if (level < 2)
            entry = &entries(*entry)[level == 0 ? index / ENTRIES : index % ENTRIES];
    }
    return *entry;
}

long memory_read(struct node *n, void *to, size_t bytes, uint64_t at)
{
    size_t done = 0;
    while (done < bytes) {
        lock_acquire(&memory.lock);
        uint64_t left = at < n->bytes ? n->bytes - at : 0;
        size_t part = MIN(MIN(bytes - done, PAGE_BYTES - at % PAGE_BYTES), left);
        struct frame *f = part ? page(n, at / PAGE_BYTES, false) : NULL;
        if (f)
            memcpy((char *)to + done, (char *)frame_memory(f) + at % PAGE_BYTES, part);
        else
            memset((char *)to + done, 0, part);
        lock_release(&memory.lock);
        if (part == 0)
            break;
        done += part;
        at += part;
    }
    return (long)done;
}

/* memory_write copies bytes into the file, a page at a time; with `append` each part goes to the
 * end of the file. *end is where the last part ended. Returns the bytes written, or -EFBIG, -ENOSPC
 * if there are none. */
long memory_write(struct node *n, const void *from, size_t bytes, uint64_t at, bool append,
                  uint64_t *end)
{
    size_t done = 0;
    int error = 0;
    while (done < bytes && !error) {
        lock_acquire(&memory.lock);
        if (append)
            at = n->bytes;
        size_t part = MIN(bytes - done, PAGE_BYTES - at % PAGE_BYTES);
        struct frame *f = NULL;
        if (at >= MEMORY_FILE_BYTES_MAX)
            error = -EFBIG;
        else if (!(f = page(n, at / PAGE_BYTES, true)))
            error = -ENOSPC;
        else {
            memcpy((char *)frame_memory(f) + at % PAGE_BYTES, (const char *)from + done, part);
            n->bytes = MAX(n->bytes, at + part);
            n->time_ns = arch_time_ns();
            done += part;
            at += part;
        }
        lock_release(&memory.lock);
        if (error == -ENOSPC && frames_left() && frame_seam.pages())
            error = 0;
    }
    *end = at;
    return done ? (long)done : error;
}

/* Frees the pages from `first` on that its middle table has, and the table, if those are all. Lock
 * held. */
static void pages_free(struct node *n, uint64_t first)
{
    if (!n->top || first / ENTRIES >= ENTRIES) /* behind the last page that there can be */
        return;
    struct frame **middle = &entries(n->top)[first / ENTRIES];
    for (uint64_t k = first % ENTRIES; *middle && k < ENTRIES; k++) {
        if (entries(*middle)[k])
            give_frame(entries(*middle)[k]);
        entries(*middle)[k] = NULL;
    }
    if (*middle && first % ENTRIES == 0) {
        give_frame(*middle);
        *middle = NULL;
    }
}

/* resize_some resizes by a step: a file loses what one middle table has. Returns its size then. */
static uint64_t resize_some(struct node *n, uint64_t bytes)
{
    lock_acquire(&memory.lock);
    if (bytes < n->bytes) {
        bytes = MAX(bytes, (n->bytes - 1) / (ENTRIES * PAGE_BYTES) * (ENTRIES * PAGE_BYTES));
        struct frame *f = bytes % PAGE_BYTES ? page(n, bytes / PAGE_BYTES, false) : NULL;
        if (f) /* FM1 */
            memset((char *)frame_memory(f) + bytes % PAGE_BYTES, 0,
                   PAGE_BYTES - bytes % PAGE_BYTES);
        pages_free(n, (bytes + PAGE_BYTES - 1) / PAGE_BYTES);
    }
    n->bytes = bytes;
    n->time_ns = arch_time_ns();
    lock_release(&memory.lock);
    return bytes;
}

int memory_resize(struct node *n, uint64_t bytes)
{
    if (bytes > MEMORY_FILE_BYTES_MAX)
        return -EFBIG;
    while (resize_some(n, bytes) != bytes)
        thread_breathe();
    return 0;
}

void memory_free(struct node *n)
{
    while (resize_some(n, 0) != 0)
        if (lock_holds_none())
            thread_breathe();
    lock_acquire(&memory.lock);
    for (uint64_t i = 0; i < ENTRIES; i++) /* behind its end a write may have left frames */
        pages_free(n, i * ENTRIES);
    if (n->top)
        give_frame(n->top);
    n->top = NULL;
    lock_release(&memory.lock);
}
