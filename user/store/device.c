/*
 * device.c - what the disk library is handed: the disk, memory, and a clock.
 *
 * The kernel's block calls return when the device has completed the request; a write is durable
 * after the next flush. A failed write or flush is not tried again: the library fences the store.
 *
 * DV1  After a failed flush none succeeds. Flushes go one by one: what the failed one should have
 *     made durable may be lost, and another one that began before the fence would cover it up.
 * DV2  A flush that began after a caller came serves that caller, too.
 */
#include "server.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define READ_TRIES 3
#define LARGE_BYTES (1u << 20)

#define GENTLE_BYTES (64u << 10)

_Thread_local uint64_t device_reads, device_writes, device_flushes;
static pthread_t gentle_thread;
static atomic_bool gentle_now;

void device_gentle(bool on)
{
    gentle_thread = pthread_self();
    gentle_now = on;
}

static int device_read(void *context, uint64_t offset, void *buffer, size_t bytes)
{
    (void)context;
    long r = -EIO;
    for (int i = 0; i < READ_TRIES && r < 0; i++, device_reads++)
        r = KD4(KD_BLOCK_READ, server.disk, offset, buffer, bytes);
    return r < 0 ? (int)r : 0;
}

static int device_write(void *context, uint64_t offset, const void *buffer, size_t bytes)
{
    long r = 0;
    size_t part;
    bool gentle = gentle_now && pthread_equal(gentle_thread, pthread_self());
    (void)context;
    for (size_t at = 0; at < bytes && r >= 0; at += part) {
        part = gentle && bytes - at > GENTLE_BYTES ? GENTLE_BYTES : bytes - at;
        device_writes++;
        r = KD4(KD_BLOCK_WRITE, server.disk, offset + at, (const char *)buffer + at, part);
        if (!gentle) continue;
        server_lock();
        cleaner_step();
        server_unlock();
    }
    return r < 0 ? (int)r : 0;
}

static int device_flush(void *context)
{
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    static atomic_ulong begun, done;
    static int failed; /* DV1 */
    (void)context;
    unsigned long wanted = begun + 1; /* DV2 */
    pthread_mutex_lock(&one);
    if (!failed && done < wanted) {
        unsigned long mine = ++begun;
        device_flushes++;
        long r = KD1(KD_BLOCK_FLUSH, server.disk);
        if (r < 0) failed = (int)r;
        done = mine;
    }
    int r = failed;
    pthread_mutex_unlock(&one);
    return r;
}

void disk_io_init(struct disk_io *io, uint64_t bytes)
{
    *io = (struct disk_io){
        .bytes = bytes, .read = device_read, .write = device_write, .flush = device_flush};
}

/* The library's large blocks are its two group buffers. The first touch of a page of them may have
 * to wait until frames are free, so of pages that the cleaner brings home: it must not happen with
 * the lock held or inside the gate. The committer has them made memory before; if all memory is
 * copies of the transaction that is to commit, they stay as they are, and its copies go to the log
 * first (spill.c). */
static struct { const char *memory; size_t bytes, touched; } large[2];

static void *memory_alloc(void *context, size_t bytes)
{
    (void)context;
    char *memory = malloc(bytes);
    for (int i = 0; memory && bytes >= LARGE_BYTES && i < 2; i++) {
        if (large[i].memory) continue;
        large[i].memory = memory;
        large[i].bytes = bytes;
        large[i].touched = 0;
        break;
    }
    return memory;
}

static void *memory_zeroed(void *context, size_t bytes)
{
    (void)context;
    return calloc(1, bytes);
}

static void memory_free(void *context, void *memory, size_t bytes)
{
    (void)context;
    for (int i = 0; bytes >= LARGE_BYTES && i < 2; i++)
        if (large[i].memory == memory) large[i].memory = NULL;
    free(memory);
}

/* What only larger groups need is given back. */
static void memory_spare(void)
{
    for (int i = 0; i < 2; i++) {
        uintptr_t memory = (uintptr_t)large[i].memory, end = memory + large[i].touched;
        uintptr_t from = (memory + TOUCH_BYTES) / PAGE_BYTES * PAGE_BYTES + PAGE_BYTES;
        if (end < from + PAGE_BYTES) continue;
        madvise((void *)from, (end - from) / PAGE_BYTES * PAGE_BYTES, MADV_DONTNEED);
        large[i].touched = TOUCH_BYTES;
    }
}

int memory_touch(size_t bytes)
{
    enum { SMALL_GROUPS = 256, POPULATE = 23 /* MADV_POPULATE_WRITE */ };
    static unsigned small;              /* groups since the last larger one; of the committer */
    small = bytes <= TOUCH_BYTES ? small + 1 : 0;
    if (small == SMALL_GROUPS) memory_spare(); /* both had smaller groups for long */
    int r = 0;
    for (int i = 0; i < 2 && r == 0; i++) {
        size_t end = bytes < large[i].bytes ? bytes : large[i].bytes;
        const volatile char *memory = large[i].memory;
        for (; memory && large[i].touched < end && large[i].touched < TOUCH_BYTES;
             large[i].touched += PAGE_BYTES)
            (void)memory[large[i].touched]; /* there is no commit without these: it waits */
        if (!memory || large[i].touched >= end) continue;
        uintptr_t from = (uintptr_t)(memory + large[i].touched) / PAGE_BYTES * PAGE_BYTES;
        if (madvise((void *)from, (uintptr_t)memory + end - from, POPULATE)) r = -errno;
        large[i].touched = end;
    }
    if (r < 0) memory_spare();
    return r;
}

static uint64_t clock_microseconds(void *context)
{
    (void)context;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

const struct disk_memory disk_memory = {
    .alloc = memory_alloc, .free = memory_free, .alloc_zeroed = memory_zeroed};
const struct disk_clock disk_clock = {.microseconds = clock_microseconds};
