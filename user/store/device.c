/*
 * device.c - what the disk library is handed: the disk, memory, and a clock.
 *
 * The kernel's block calls return when the device has completed the request; a write is durable
 * after the next flush. A failed write or flush is not tried again: the library fences the store.
 *
 * DV1  After a failed flush none succeeds. Flushes go one by one: what the failed one should have
 *     made durable may be lost, and another one that began before the fence would cover it up.
 * DV2  A flush that began after a caller came serves that caller, too.
 * DV3  A call of the kernel is about one disk. Pages that lie on several are brought and written by
 *     several threads, one for each disk, as far as these are idle, so that all disks work at once.
 */
#include "options.h"
#include "server.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define READ_TRIES 3
#define LARGE_BYTES (1u << 20)
#define TABLE_BYTES 16384u

#define GENTLE_BYTES (64u << 10)

_Thread_local uint64_t device_reads, device_writes, device_flushes;
static pthread_t gentle_thread;
static atomic_bool gentle_now;

void device_gentle(bool on)
{
    gentle_thread = pthread_self();
    gentle_now = on;
}

/* ---- one disk */

static struct block_disk {
    int handle;
    pthread_mutex_t flush;
    atomic_ulong begun, done;
    int failed;                         /* DV1 */
} disks[SPAN_DISKS_MAX];
static struct span span;                /* of these */

static long block_io(long number, int disk, uint64_t offset, const void *buffer, size_t bytes)
{
    if (options.mapped && mapped_has(buffer))
        return mapped_io(number, disk, offset, (void *)buffer, bytes);
    return KD4(number, disk, offset, buffer, bytes);
}

static int device_read(void *context, uint64_t offset, void *buffer, size_t bytes)
{
    const struct block_disk *disk = context;
    long r = -EIO;
    for (int i = 0; i < READ_TRIES && r < 0; i++, device_reads++)
        r = block_io(KD_BLOCK_READ, disk->handle, offset, buffer, bytes);
    return r < 0 ? (int)r : 0;
}

static int device_write(void *context, uint64_t offset, const void *buffer, size_t bytes)
{
    const struct block_disk *disk = context;
    long r = 0;
    size_t part;
    bool gentle = gentle_now && pthread_equal(gentle_thread, pthread_self());
    for (size_t at = 0; at < bytes && r >= 0; at += part) {
        part = gentle && bytes - at > GENTLE_BYTES ? GENTLE_BYTES : bytes - at;
        device_writes++;
        r = block_io(KD_BLOCK_WRITE, disk->handle, offset + at, (const char *)buffer + at, part);
        if (!gentle) continue;
        server_lock();
        cleaner_step();
        server_unlock();
    }
    return r < 0 ? (int)r : 0;
}

static int device_flush(void *context)
{
    struct block_disk *disk = context;
    unsigned long wanted = disk->begun + 1; /* DV2 */
    pthread_mutex_lock(&disk->flush);
    if (!disk->failed && disk->done < wanted) {
        unsigned long mine = ++disk->begun;
        device_flushes++;
        long r = KD1(KD_BLOCK_FLUSH, disk->handle);
        if (r < 0) disk->failed = (int)r;
        disk->done = mine;
    }
    int r = disk->failed;
    pthread_mutex_unlock(&disk->flush);
    return r;
}

int disks_join(const int handles[], const uint64_t bytes[], uint32_t count,
                struct span_report *report)
{
    struct disk_io io[SPAN_DISKS_MAX];
    for (uint32_t i = 0; i < count; i++) {
        disks[i].handle = handles[i];
        pthread_mutex_init(&disks[i].flush, NULL);
        io[i] = (struct disk_io){.context = &disks[i], .bytes = bytes[i], .read = device_read,
                                 .write = device_write, .flush = device_flush};
    }
    return span_open(io, count, &span, &server.disk, report);
}

uint32_t device_count(void) { return span.count; }

/* ---- pages of objects, on several disks at once */

struct page_job {                       /* DV3 */
    int handle;
    bool writes, done;
    struct kd_page_io *io;
    unsigned count;
};
static struct {
    pthread_mutex_t lock;
    pthread_cond_t posted, ended;
    struct page_job *job[SPAN_DISKS_MAX]; /* what the thread has to do or does */
    bool ready[SPAN_DISKS_MAX];
} workers = {.lock = PTHREAD_MUTEX_INITIALIZER, .posted = PTHREAD_COND_INITIALIZER,
             .ended = PTHREAD_COND_INITIALIZER};

static void job_do(const struct page_job *job)
{
    if (job->writes)
        kd_write_pages(job->handle, job->io, job->count);
    else
        kd_read_pages(job->handle, job->io, job->count);
}

static void *worker_main(void *number)
{
    struct page_job **mine = &workers.job[(uintptr_t)number];
    pthread_mutex_lock(&workers.lock);
    for (workers.ready[(uintptr_t)number] = true;;) {
        while (!*mine) pthread_cond_wait(&workers.posted, &workers.lock);
        pthread_mutex_unlock(&workers.lock);
        job_do(*mine);
        pthread_mutex_lock(&workers.lock);
        (*mine)->done = true;
        *mine = NULL;
        pthread_cond_broadcast(&workers.ended);
    }
    return NULL;
}

bool device_workers(void)
{
    for (uintptr_t i = 1; i < span.count; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, worker_main, (void *)i)) return false;
        pthread_detach(thread);
    }
    return true;
}

/* job_post: is the job given to the thread of this disk? */
static bool job_post(struct page_job *job, uint32_t disk)
{
    pthread_mutex_lock(&workers.lock);
    bool free = workers.ready[disk] && !workers.job[disk];
    if (free) workers.job[disk] = job;
    pthread_cond_broadcast(&workers.posted);
    pthread_mutex_unlock(&workers.lock);
    return free;
}

static void job_wait(const struct page_job *job)
{
    pthread_mutex_lock(&workers.lock);
    while (!job->done) pthread_cond_wait(&workers.ended, &workers.lock);
    pthread_mutex_unlock(&workers.lock);
}

/* pages_of copies those that lie on the disk to `part`, with their places there; how many. */
static unsigned pages_of(uint32_t disk, const struct kd_page_io io[], unsigned count,
                         struct kd_page_io part[])
{
    unsigned n = 0;
    for (unsigned i = 0; i < count; i++) {
        uint32_t number;
        uint64_t at;
        span_place(&span, io[i].offset_bytes, &number, &at);
        if (number != disk) continue;
        part[n] = io[i];
        part[n++].offset_bytes = at;
    }
    return n;
}

static void results_take(uint32_t disk, struct kd_page_io io[], unsigned count,
                         const struct kd_page_io *part)
{
    for (unsigned i = 0; i < count; i++) {
        uint32_t number;
        uint64_t at, offset = io[i].offset_bytes;
        span_place(&span, offset, &number, &at);
        if (number != disk) continue;
        io[i] = *part++;
        io[i].offset_bytes = offset;
    }
}

void device_pages(bool writes, struct kd_page_io *io, unsigned count)
{
    struct page_job job[SPAN_DISKS_MAX];
    struct kd_page_io part[CLEAN_BATCH];
    bool posted[SPAN_DISKS_MAX] = {false};
    unsigned begin = 0;
    if (span.count == 1) {
        job_do(&(struct page_job){disks[0].handle, writes, false, io, count});
        return;
    }
    for (uint32_t i = span.count; i-- > 0;) {
        const struct block_disk *disk = span.disk[i].context;
        unsigned n = pages_of(i, io, count, part + begin);
        job[i] = (struct page_job){disk->handle, writes, false, part + begin, n};
        begin += n;
        posted[i] = n && begin < count && job_post(&job[i], i);
        if (n && !posted[i]) job_do(&job[i]);
    }
    for (uint32_t i = 0; i < span.count; i++) {
        if (posted[i]) job_wait(&job[i]);
        if (writes && job[i].count) span_wrote(&span, i);
        results_take(i, io, count, job[i].io);
    }
}

/* `large`: the library's large blocks are its two group buffers. The first touch of a page of them
 * may have to wait until frames are free, so of pages that the cleaner brings home: it must not
 * happen with the lock held or inside the gate. The committer has them made memory before; if all
 * memory is copies of the transaction that is to commit, they stay as they are, and its copies go
 * to the log first (spill.c). */
static struct { const char *memory; size_t bytes, touched; } large[2];

static void *memory_alloc(void *context, size_t bytes)
{
    (void)context;
    if (options.mapped && bytes == PAGE_BYTES) return mapped_alloc(bytes); /* of the metadata */
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
    return options.mapped && bytes >= TABLE_BYTES ? mapped_alloc(bytes) : calloc(1, bytes);
}

static void memory_free(void *context, void *memory, size_t bytes)
{
    (void)context;
    for (int i = 0; bytes >= LARGE_BYTES && i < 2; i++)
        if (large[i].memory == memory) large[i].memory = NULL;
    if (!options.mapped || !mapped_free(memory, bytes)) free(memory);
}

/* memory_spare gives back what only larger groups need. */
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

uint64_t time_of_day(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

const struct disk_memory disk_memory = {
    .alloc = memory_alloc, .free = memory_free, .alloc_zeroed = memory_zeroed};
const struct disk_clock disk_clock = {.microseconds = clock_microseconds};
