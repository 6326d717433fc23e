/*
 * block_call.c - the system calls for disks.
 *
 * Owns      nothing: each call pins memory, makes requests, waits for all of them, and unpins.
 * Not here  requests (block.c), object frames and their states (object.c).
 *
 * A call is over when its last request is: whatever it did to a disk is known, good or bad, and no
 * device touches its memory any more. So a process can die only between requests.
 *
 * Cleaning pages is what makes memory free again, so a call that finds no memory for its lists does
 * the same work in small pieces, from its stack.
 */
#include "block/block.h"
#include "disk/crc32c.h"
#include "process/handle.h"
#include "process/vm.h"
#include "store/store.h"

enum {
    FEW_PAGES = 3,                  /* 8 KiB at any address: a commit's log group, mostly */
    FEW_IOS = 8,
    PAGE_IOS_MAX = 256,
    PART_BYTES = 4u << 20,          /* of one read or write: submitted together */
};

_Static_assert(BLOCK_SEGMENTS_MIN >= FEW_PAGES, "a few pages are one request");

/* ---- the disk behind a handle ---- */

/* on_disk calls fn with the disk behind argument 0, if the handle allows the operation. */
typedef long disk_call(struct block_device *d, enum block_operation operation, const uint64_t a[6]);
static long on_disk(const uint64_t a[6], enum block_operation operation, disk_call *fn)
{
    uint32_t rights = operation == BLOCK_READ ? KD_RIGHT_READ : KD_RIGHT_WRITE;
    struct block_device *d = handle_find((int)a[0], HANDLE_BLOCK, rights, block_get);
    if (handle_failed(d))
        return (long)d;
    long result = fn(d, operation, a);
    block_put(d);
    return result;
}

long kd_block_open(const uint64_t a[6])
{
    char name[sizeof(((struct block_device *)0)->name)];
    if (!system_allows(KD_RIGHT_DISKS))
        return -EPERM;
    long result = copy_string_from_user(name, a[0], sizeof name);
    if (result < 0)
        return result == -ENAMETOOLONG ? -ENODEV : result;
    struct block_device *d = block_find(name);
    if (!d)
        return -ENODEV;
    struct kd_block_info info = {d->bytes, d->sector_bytes, d->read_only};
    result = copy_to_user(a[1], &info, sizeof info) ?: block_claim(d);
    return result ?: handle_new(process_this(), HANDLE_BLOCK, d,
                                KD_RIGHT_READ | KD_RIGHT_WRITE | KD_RIGHT_MANAGE);
}

/* ---- own memory ---- */

struct transfer {
    struct block_device *device;
    enum block_operation operation;
    uint64_t offset_bytes, bytes;
    vaddr_t at;
    unsigned segment_count, request_count;
    struct block_segment *segments;
    struct block_request *requests;
};

static unsigned pages_touched(vaddr_t at, uint64_t bytes)
{
    return (unsigned)((at % PAGE_BYTES + bytes + PAGE_BYTES - 1) / PAGE_BYTES);
}

/* add_page pins the page at byte `from` and appends it to the request's segments; memory that
 * follows the last segment joins it. *bytes: how many that were; 0: the request has all the
 * segments that it may have. */
static int add_page(struct transfer *t, struct block_request *r, uint64_t from, uint32_t *bytes)
{
    vaddr_t at = t->at + from;
    struct frame *f;
    int error = vm_pin(process_this(), at, t->operation == BLOCK_READ, &f);
    if (error)
        return error;
    paddr_t address = frame_paddr(f) + at % PAGE_BYTES;
    struct block_segment *last = &r->segments[r->segment_count - 1];
    *bytes = (uint32_t)MIN(PAGE_BYTES - at % PAGE_BYTES, t->bytes - from);
    if (r->segment_count > 0 && last->address + last->bytes == address) {
        last->bytes += *bytes;
    } else if (r->segment_count < t->device->segments_max) {
        r->segments[r->segment_count++] = (struct block_segment){address, *bytes};
        t->segment_count++;
    } else {
        *bytes = 0;
        frame_unpin(f);
    }
    return 0;
}

/* add_request makes one request from byte *from on, of whole sectors and as long as possible, and
 * moves *from behind it. */
static int add_request(struct transfer *t, uint64_t *from)
{
    struct block_request *r = &t->requests[t->request_count++];
    uint64_t bytes = 0;
    uint32_t more = 1;
    block_prepare(r, t->device, t->operation, t->offset_bytes + *from,
                  &t->segments[t->segment_count], 0);
    for (; more && *from + bytes < t->bytes; bytes += more) {
        int error = add_page(t, r, *from + bytes, &more);
        if (error)
            return error;
        if (bytes / PAGE_BYTES % 64 == 63)
            thread_breathe();
    }
    struct block_segment *last = &r->segments[r->segment_count - 1];
    uint32_t excess = (uint32_t)(bytes % t->device->sector_bytes);
    assert(excess < last->bytes); /* only a request that is cut short has any, in a whole page */
    last->bytes -= excess;
    *from += bytes - excess;
    return 0;
}

static int transfer_part(struct transfer *t)
{
    int result = 0;
    t->segment_count = t->request_count = 0;
    for (uint64_t from = 0; from < t->bytes && result == 0;)
        result = add_request(t, &from);
    unsigned count = result == 0 ? t->request_count : 0;
    for (unsigned i = 0; i < count; i++)
        block_submit(&t->requests[i]);
    for (unsigned i = 0; i < count; i++) {
        int status = block_wait(&t->requests[i]);
        result = result != 0 ? result : status;
    }
    for (struct block_segment *s = t->segments; s < t->segments + t->segment_count; s++)
        for (paddr_t at = page_down(s->address); at < s->address + s->bytes; at += PAGE_BYTES)
            frame_unpin(frame_of(at));
    return result;
}

/* transfer_next does the next part of the `bytes` that are left; t->bytes says how long that part
 * was. A commit's write is one request here, and allocates no memory. 0 or -errno. */
static int transfer_next(struct transfer *t, uint64_t bytes)
{
    struct block_segment segments[FEW_PAGES];
    struct block_request request;
    t->bytes = MIN(bytes, PART_BYTES);
    unsigned pages = pages_touched(t->at, t->bytes);
    /* Each request has segments_max - 1 whole pages at least; a page that two share counts
     * twice. */
    unsigned requests = pages / (t->device->segments_max - 1) + 1;
    void *memory = NULL;
    if (pages > FEW_PAGES) {
        memory = kalloc(requests * sizeof *t->requests + (pages + requests) * sizeof *t->segments);
        if (!memory)
            t->bytes = (FEW_PAGES - 1) * PAGE_BYTES;
    }
    t->requests = memory ? memory : &request;
    t->segments = memory ? (void *)(t->requests + requests) : segments;
    int result = transfer_part(t);
    kfree(memory);
    return result;
}

static long transfer(struct block_device *d, enum block_operation operation, const uint64_t a[6])
{
    struct transfer t = {.device = d, .operation = operation, .offset_bytes = a[1], .at = a[2]};
    uint64_t bytes = a[3];
    int result = block_holds(d, t.offset_bytes, bytes) ? vm_own(t.at, bytes) : -EINVAL;
    while (bytes > 0 && result == 0) {
        result = transfer_next(&t, bytes);
        t.offset_bytes += t.bytes;
        t.at += t.bytes;
        bytes -= t.bytes;
    }
    return result;
}

static long flush(struct block_device *d, enum block_operation operation, const uint64_t a[6])
{
    struct block_request r;
    (void)a;
    block_prepare(&r, d, operation, 0, NULL, 0);
    return block_run(&r);
}

long kd_block_read(const uint64_t a[6]) { return on_disk(a, BLOCK_READ, transfer); }
long kd_block_write(const uint64_t a[6]) { return on_disk(a, BLOCK_WRITE, transfer); }
long kd_block_flush(const uint64_t a[6]) { return on_disk(a, BLOCK_FLUSH, flush); }

/* ---- object frames ---- */

struct page_work {
    struct object *object;          /* with a reference; NULL: this page takes no part */
    struct frame *frame;
    struct block_request *request;  /* the one that this page is in */
    struct block_request own;       /* used if it is the first in it */
};

struct page_batch {
    struct block_device *device;
    enum block_operation operation;
    unsigned count, begun; /* pages that hold a frame wait for no other's (evict_page) */
    struct kd_page_io *ios;
    struct page_work *works;
    struct block_segment *segments;
};

/* page_begin gets the page's frame from its object. */
static int page_begin(struct page_batch *b, unsigned i)
{
    struct kd_page_io *io = &b->ios[i];
    struct page_work *w = &b->works[i];
    *w = (struct page_work){0};
    if (!block_holds(b->device, io->offset_bytes, PAGE_BYTES))
        return -EINVAL;
    struct object *o = handle_find(io->object, HANDLE_OBJECT, KD_RIGHT_MANAGE, object_get);
    if (handle_failed(o))
        return (int)(long)o;
    int error = b->operation == BLOCK_READ
                    ? object_io_begin_read(o, io->page, b->begun == 0, &w->frame)
                    : object_io_begin_write(o, io->page, &w->frame, &io->csn);
    if (error == 0)
        w->object = o;
    else
        object_put(o);
    b->begun += error == 0;
    return error;
}

/* page_joins: does page i belong into the request of the page before it, which it follows on the
 * disk? */
static bool page_joins(const struct page_batch *b, unsigned i)
{
    return i > 0 && b->works[i - 1].object != NULL &&
           b->ios[i].offset_bytes == b->ios[i - 1].offset_bytes + PAGE_BYTES &&
           b->works[i - 1].request->segment_count < b->device->segments_max;
}

/* breathe_at breathes at each sixteenth page: a batch has many. */
static void breathe_at(unsigned i)
{
    if (i % 16 == 15)
        thread_breathe();
}

static void batch_prepare(struct page_batch *b)
{
    for (unsigned i = 0; i < b->count; i++, breathe_at(i)) {
        struct page_work *w = &b->works[i];
        b->ios[i].status = page_begin(b, i);
        if (!w->object)
            continue;
        b->segments[i] = (struct block_segment){frame_paddr(w->frame), PAGE_BYTES};
        if (page_joins(b, i)) {
            w->request = b->works[i - 1].request;
            w->request->segment_count++;
        } else {
            w->request = &w->own;
            block_prepare(&w->own, b->device, b->operation, b->ios[i].offset_bytes,
                          &b->segments[i], 1);
        }
    }
}

static void page_checksum(struct page_batch *b, unsigned i)
{
    thread_breathe(); /* it is thousands of instructions, where the CPU has none for it */
    b->ios[i].crc = crc32c(0, frame_memory(b->works[i].frame), PAGE_BYTES);
}

static void page_end(struct page_batch *b, unsigned i)
{
    struct page_work *w = &b->works[i];
    int status = w->request->status;
    bool read = b->operation == BLOCK_READ;
    if (read && !status)
        page_checksum(b, i);
    b->ios[i].status = object_io_end(w->object, b->ios[i].page, w->frame, read, status);
    object_put(w->object);
}

/* batch_run makes the requests of a batch and waits for them. Checksums of pages that are written
 * are computed while the disk works: nobody changes a version. */
static void batch_run(struct page_batch *b)
{
    batch_prepare(b);
    for (unsigned i = 0; i < b->count; i++, breathe_at(i))
        if (b->works[i].request == &b->works[i].own)
            block_submit(&b->works[i].own);
    for (unsigned i = 0; i < b->count; i++)
        if (b->works[i].object != NULL && b->operation == BLOCK_WRITE)
            page_checksum(b, i);
    for (unsigned i = 0; i < b->count; i++)
        if (b->works[i].request == &b->works[i].own)
            (void)!block_wait(&b->works[i].own); /* page_end() looks at it, for each of its pages */
    for (unsigned i = 0; i < b->count; i++)
        if (b->works[i].object != NULL)
            page_end(b, i);
}

/* batch_user runs all batches of a call. Returns the first page's error; each page's own is in its
 * kd_page_io. */
static int batch_user(struct page_batch *b, vaddr_t ios_at, unsigned count)
{
    int result = 0, error;
    unsigned capacity = b->count;
    for (unsigned done = 0; done < count; done += b->count) {
        vaddr_t at = ios_at + done * sizeof(struct kd_page_io);
        b->count = MIN(capacity, count - done);
        error = copy_from_user(b->ios, at, b->count * sizeof(struct kd_page_io));
        if (error != 0)
            return error;
        batch_run(b);
        for (unsigned i = 0; i < b->count && result == 0; i++)
            result = (int)b->ios[i].status;
        error = copy_to_user(at, b->ios, b->count * sizeof(struct kd_page_io));
        if (error != 0)
            return error;
    }
    return result;
}

static long transfer_pages(struct block_device *d, enum block_operation operation,
                           const uint64_t a[6])
{
    uint64_t count = a[2];
    struct kd_page_io ios[FEW_IOS];
    struct page_work works[FEW_IOS];
    struct block_segment segments[FEW_IOS];
    struct page_batch b = {.device = d, .operation = operation};
    if (count > PAGE_IOS_MAX)
        return -EINVAL;
    void *memory = NULL;
    if (count > FEW_IOS)
        memory = kalloc(count * (sizeof *b.works + sizeof *b.segments + sizeof *b.ios));
    b.count = memory ? (unsigned)count : FEW_IOS;
    b.works = memory ? memory : works;
    b.segments = memory ? (void *)(b.works + count) : segments;
    b.ios = memory ? (void *)(b.segments + count) : ios;
    int result = batch_user(&b, a[1], (unsigned)count);
    kfree(memory);
    return result;
}

long kd_block_read_pages(const uint64_t a[6]) { return on_disk(a, BLOCK_READ, transfer_pages); }
long kd_block_write_pages(const uint64_t a[6]) { return on_disk(a, BLOCK_WRITE, transfer_pages); }
