/*
 * block.c - block devices: which there are, and requests on their way.
 *
 * Owns      the list of devices, the requests in flight, counters, the repetition of reads.
 * Not here  the device's queue (virtio_blk.c), who may use a disk (block_call.c).
 *
 * Invariants
 *   BK1  A request is in device->active from block_submit() to block_complete(), and then never
 *       touched again: it usually lies on the stack of the thread that waits for it.
 *   BK2  No two writes in device->active overlap.
 *   BK3  A write or a flush reaches the device once. After a failed flush the device may have
 *       thrown the data away and say "fine" the second time.
 *   BK4  A disk is opened again only when no call of its last holder is under way: so nothing that
 *       a dead holder wrote arrives after the next one has read.
 *   BK5  A device that leaves a request waiting for ten seconds is told of in the log, again when
 *       the time has doubled, and when the last such request has ended.
 *
 * Lock: device->lock (RANK_BLOCK), also taken by the interrupt. The array of devices does not
 * change after boot.
 */
#include "block/block.h"

#include "thread/thread.h"

enum { DEVICES_MAX = 8, READ_ATTEMPTS_MAX = 4 };
#define POLL_NS     1000000000ull
#define COMPLAIN_NS 10000000000ull

static struct block_device *devices[DEVICES_MAX];
static unsigned device_count;

/* ---- devices ---- */

struct block_device *block_find(const char *name)
{
    for (unsigned i = 0; i < device_count; i++)
        if (strcmp(devices[i]->name, name) == 0)
            return devices[i];
    return NULL;
}

struct block_device *block_at(unsigned number)
{
    return number < device_count ? devices[number] : NULL;
}

void block_register(struct block_device *d)
{
    if (device_count == DEVICES_MAX || block_find(d->name) != NULL) {
        printk("disk %s is not used: %s", d->name,
               device_count == DEVICES_MAX ? "too many disks" : "another one has this serial");
        return;
    }
    d->number = device_count;
    devices[device_count++] = d;
    printk("disk %s: %lu MiB, sectors of %u bytes%s", d->name, d->bytes >> 20, d->sector_bytes,
           d->read_only ? ", read-only" : "");
}

int block_claim(struct block_device *d)
{
    unsigned none = 0;
    return __atomic_compare_exchange_n(&d->users, &none, 1, false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED) ? 0 : -EBUSY; /* BK4 */
}

void block_get(void *device)
{
    __atomic_add_fetch(&((struct block_device *)device)->users, 1, __ATOMIC_RELAXED);
}

void block_put(void *device)
{
    unsigned before = __atomic_fetch_sub(&((struct block_device *)device)->users, 1,
                                         __ATOMIC_RELEASE);
    assert(before > 0); /* BK4 */
}

void block_count(struct kd_system_info *s)
{
    for (unsigned i = 0; i < device_count; i++) {
        const struct block_did *did = devices[i]->did;
        s->block_reads += did[BLOCK_READ].times;
        s->block_writes += did[BLOCK_WRITE].times;
        s->block_flushes += did[BLOCK_FLUSH].times;
        s->block_read_bytes += did[BLOCK_READ].bytes;
        s->block_write_bytes += did[BLOCK_WRITE].bytes;
    }
}

/* ---- requests ---- */

/* check_request compares a request with the device's limits; one that breaks them never reaches the
 * device. */
static int check_request(const struct block_request *r)
{
    const struct block_device *d = r->device;
    if (r->operation != BLOCK_READ && r->operation != BLOCK_WRITE)
        return 0;
    if (r->bytes == 0 || r->segment_count > d->segments_max ||
        !block_holds(d, r->offset_bytes, r->bytes))
        return -EINVAL;
    return r->operation == BLOCK_WRITE && d->read_only ? -EROFS : 0;
}

/* overlaps_write: is a write under way that overlaps r (BK2)? The device's lock is held. */
static bool overlaps_write(const struct block_request *r)
{
    list_each(const struct block_request, other, &r->device->active, link)
        if (other->operation == BLOCK_WRITE && other->offset_bytes < r->offset_bytes + r->bytes &&
            r->offset_bytes < other->offset_bytes + other->bytes)
            return true;
    return false;
}

static void count_request(struct block_device *d, const struct block_request *r)
{
    struct thread_home *home = thread_home(thread_this());
    if (home != NULL)
        __atomic_fetch_add(&home->disk_bytes, r->bytes, __ATOMIC_RELAXED);
    d->did[r->operation].times++;
    d->did[r->operation].bytes += r->bytes;
}

void block_prepare(struct block_request *r, struct block_device *d, enum block_operation operation,
                   uint64_t offset_bytes, struct block_segment *segments, unsigned segment_count)
{
    *r = (struct block_request){
        .link = LIST_INIT(r->link), .driver_link = LIST_INIT(r->driver_link), .device = d,
        .operation = operation, .offset_bytes = offset_bytes, .segments = segments,
        .segment_count = segment_count};
}

void block_submit(struct block_request *r)
{
    struct block_device *d = r->device;
    r->waiter = thread_this();
    r->done = false;
    r->bytes = 0;
    for (unsigned i = 0; i < r->segment_count; i++)
        r->bytes += r->segments[i].bytes;
    r->status = check_request(r);
    lock_acquire(&d->lock);
    if (r->status == 0 && r->operation == BLOCK_WRITE && overlaps_write(r))
        r->status = -EBUSY;
    if (r->status != 0) {
        r->done = true;
    } else {
        r->submitted_ns = arch_time_ns();
        list_push_back(&d->active, &r->link);
        d->in_flight++;
        count_request(d, r);
        TRACE_RARE(DISK, r->operation | d->number << 8, r->offset_bytes, r->bytes);
        block_driver_submit(r);
    }
    lock_release(&d->lock);
    block_driver_notify(d);
}

/* oldest_ns is how long the oldest of the requests on their way has waited, or 0. They are in the
 * order of their submission. The device's lock is held. */
static uint64_t oldest_ns(const struct block_device *d, uint64_t now_ns)
{
    list_each(const struct block_request, r, &d->active, link)
        return now_ns - MIN(r->submitted_ns, now_ns);
    return 0;
}

/* tell_of_silence says in the log that a request waits, when it is due (BK5). The device's lock is
 * held. */
static void tell_of_silence(struct block_device *d)
{
    uint64_t silent_ns = oldest_ns(d, arch_time_ns());
    if (silent_ns < COMPLAIN_NS || silent_ns < 2 * d->told_ns)
        return;
    d->told_ns = silent_ns;
    printk("disk %s does not answer for %lu s", d->name, silent_ns / 1000000000);
}

/* tell_of_answer says in the log that no request waits any more as told_ns says (BK5). The
 * device's lock is held. */
static void tell_of_answer(struct block_device *d, const struct block_request *r, int status)
{
    uint64_t now_ns = arch_time_ns();
    d->told_ns = MAX(d->told_ns, now_ns - MIN(r->submitted_ns, now_ns));
    if (oldest_ns(d, now_ns) >= COMPLAIN_NS)
        return;
    printk("disk %s %s after %lu s", d->name, status == 0 ? "answers" : "fails",
           d->told_ns / 1000000000);
    d->told_ns = 0;
}

void block_complete(struct block_request *r, int status)
{
    struct block_device *d = r->device;
    struct thread *waiter = r->waiter;
    TRACE_RARE(DONE, r->operation | d->number << 8, r->offset_bytes, (uint64_t)status);
    assert(!r->done && d->in_flight > 0); /* BK1 */
    list_remove(&r->link);
    d->in_flight--;
    d->errors += status != 0;
    if (d->told_ns != 0)
        tell_of_answer(d, r, status);
    r->status = status;
    __atomic_store_n(&r->done, true, __ATOMIC_RELEASE); /* BK1 */
    thread_wake(waiter);
}

/* wait_done sleeps until the request has ended. The interrupt wakes it; a lost one is made up for
 * after a second. The requests of a device that does not answer cannot be taken back: the log tells
 * of it. */
static void wait_done(struct block_request *r)
{
    struct block_device *d = r->device;
    while (!__atomic_load_n(&r->done, __ATOMIC_ACQUIRE)) {
        if (thread_park_until_uninterrupted(arch_time_ns() + POLL_NS) != -ETIMEDOUT)
            continue;
        lock_acquire(&d->lock);
        block_driver_poll(d);
        tell_of_silence(d);
        lock_release(&d->lock);
        block_driver_notify(d);
    }
}

int block_wait(struct block_request *r)
{
    wait_done(r);
    while (r->status == -EIO && r->operation == BLOCK_READ && ++r->attempts < READ_ATTEMPTS_MAX) {
        block_submit(r);
        wait_done(r);
    }
    return r->status;
}

int block_run(struct block_request *r)
{
    block_submit(r);
    return block_wait(r);
}

int block_read(struct block_device *d, uint64_t offset_bytes, void *to, size_t bytes)
{
    paddr_t address = (paddr_t)((char *)to - (char *)arch_phys(0));
    struct block_segment segment = {address, (uint32_t)bytes};
    struct block_request r;
    /* BK1: memory of the direct map, pinned for ever */
    assert(frame_of(address) != NULL && bytes <= UINT32_MAX);
    block_prepare(&r, d, BLOCK_READ, offset_bytes, &segment, 1);
    return block_run(&r);
}
