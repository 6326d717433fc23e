/*
 * pager.c - page requests: where does the page lie, bring it, check it, supply it.
 *
 * A page that was never written is supplied as zeros. Another one is read by the kernel straight
 * into a frame, its CRC is compared with the one that its leaf keeps, and it is supplied with the
 * leaf's LSN as its csn. The other pages of its extent, and as many behind it as the kernel expects
 * to want, come along when they are on disk and not in memory, by one request; unless the kernel
 * says that touches are random.
 *
 * Who receives a request supplies zeros itself; what needs the disk is queued for the readers. So
 * nobody else waits for a slow read: not for a lease, a name or a new page.
 *
 * MG3: the pages that are being brought stand in a table, those of one thread together. Without it
 * a thread could read a page, sleep, and supply what meanwhile has become an old version. A request
 * for one of them stays in the queue. And a page that was read is supplied under the lock, if it
 * still is where it was: it may have been freed.
 */
#include "server.h"

#include <string.h>

#define WANTED_MAX   64u                /* pages that the kernel asks for together */
#define PAGES_MAX    (WANTED_MAX + 2 * STORE_EXTENT_PAGES_MAX)
#define PAGE_TRIES   3
#define BRINGING_MAX (PAGER_THREADS + READER_THREADS)
#define QUEUE_MAX    1024u              /* as many as the kernel has threads */

struct want {
    uint64_t page;                      /* in the container */
    bool asked, done;  /* by the kernel; supplied, failed, or no concern: this one is atomic */
    struct store_page at;
};

struct bring {
    bool taken;  /* by a thread: its pages are being brought, until each is done */
    uint64_t container, first;          /* `count` pages: whole extents, or one page */
    int object;
    uint64_t shift;                     /* page of the container - page of the object */
    char name[STORE_NAME_BYTES];
    uint64_t address;                   /* of `first` */
    unsigned count;
    struct want want[PAGES_MAX];
};

/* server.lock: */
static struct bring bringing[BRINGING_MAX]; /* one at a time for each thread */
static struct kd_message queue[QUEUE_MAX];  /* PAGE, STORE_ADVISE: what waits for a reader */
static unsigned queue_count;
static pthread_cond_t queue_moved = PTHREAD_COND_INITIALIZER;

/* ---- a page at a time ---- */

static bool done(const struct want *w) { return __atomic_load_n(&w->done, __ATOMIC_ACQUIRE); }
static void done_set(struct want *w) { __atomic_store_n(&w->done, true, __ATOMIC_RELEASE); }

/* Lock held. Does somebody bring this page? */
static bool is_brought(uint64_t container, uint64_t page)
{
    for (unsigned i = 0; i < BRINGING_MAX; i++) {
        const struct bring *b = &bringing[i];
        if (b->taken && b->container == container && page - b->first < b->count
            && !done(&b->want[page - b->first]))
            return true;
    }
    return false;
}

/* Lock held. The page that is asked for is brought by nobody; others that are, are none of our
 * business. */
static void claim(struct bring *b)
{
    for (unsigned i = 0; i < b->count; i++)
        if (is_brought(b->container, b->first + i)) done_set(&b->want[i]);
    b->taken = true;
    container_by_id(b->container)->busy++;
}

static void release(struct bring *b)
{
    container_by_id(b->container)->busy--;
    b->taken = false;
    pthread_cond_broadcast(&server.changed);
    if (queue_count) pthread_cond_broadcast(&queue_moved);
}

/* ---- answers ---- */

static void supply(const struct bring *b, const struct want *w, uint32_t source, uint64_t csn)
{
    struct kd_supply s = {
        .object = b->object, .source = source, .rights = KD_READ | KD_WRITE,
        .page = w->page - b->shift, .count = 1, .csn = csn};
    long r = kd_object_supply(&s);
    if (r == -ENOMEM) kd_object_fail(b->object, w->page - b->shift, 1, ENOMEM);
    if (r < 0 && r != -ESTALE && w->asked) /* STALE: a newer version was published; it asks again */
        say("%s, page %llu: the kernel did not take it: error %ld", b->name,
            (unsigned long long)w->page, -r);
}

static void fail(const struct bring *b, const struct want *w, const char *why)
{
    say("%s, address %#llx: %s", b->name,
        (unsigned long long)(b->address + (w->page - b->first) * PAGE_BYTES), why);
    kd_object_fail(b->object, w->page - b->shift, 1, EIO);
}

/* ---- one round: look up, read, compare ---- */

/* A page of a chain lies in the log as a whole until it goes home. */
static bool in_log(const struct store_page *at) { return at->dirty && at->log_offset_bytes; }
static bool on_disk(const struct store_page *at)
{
    return at->present && (!at->dirty || in_log(at));
}
static uint64_t place(const struct store_page *at)
{
    return in_log(at) ? at->log_offset_bytes : at->offset_bytes;
}
static uint32_t place_crc(const struct store_page *at)
{
    return in_log(at) ? at->log_crc : at->crc;
}

/* Lock held. A page that came to nothing is looked up again in the next round. */
static void look_up(struct bring *b)
{
    for (unsigned i = 0; i < b->count; i++)
        if (!done(&b->want[i])
            && store_page_find(server.store, b->container, b->want[i].page, &b->want[i].at) < 0)
            memset(&b->want[i].at, 0, sizeof(b->want[i].at));
}

/* Neighbours that are absent, newer in memory, or in memory already are none of our business. */
static void drop_neighbours(struct bring *b)
{
    uint8_t bits[PAGES_MAX];
    unsigned left = 0;
    for (unsigned i = 0; i < b->count; i++) {
        struct want *w = &b->want[i];
        if (!w->asked && !on_disk(&w->at)) done_set(w);
        left += !w->asked && !done(w);
    }
    if (left == 0) return;
    memset(bits, KD_PAGE_RESIDENT, sizeof(bits));
    kd_object_info(b->object, b->first - b->shift, b->count, bits);
    for (unsigned i = 0; i < b->count; i++)
        if (!b->want[i].asked && (bits[i] & KD_PAGE_RESIDENT)) done_set(&b->want[i]);
}

static bool all_done(const struct bring *b)
{
    for (unsigned i = 0; i < b->count; i++)
        if (!done(&b->want[i])) return false;
    return true;
}

/* Here as below, the page that is waited for comes last: who goes on at the next one finds it here,
 * and does not ask again. */
static void supply_zeros(struct bring *b)
{
    for (int asked = 0; asked < 2; asked++)
        for (unsigned i = 0; i < b->count; i++) {
            struct want *w = &b->want[i];
            if (done(w) || w->at.present || w->asked != asked) continue;
            supply(b, w, KD_SUPPLY_ZERO, 0);
            done_set(w);
        }
}

/* Supplies what was read if it is the page's newest version. The kernel answers at once: the frame
 * is there. */
static bool read_supply(const struct bring *b, const struct want *w, const struct kd_page_io *io)
{
    struct store_page now;
    if (io->status != 0 || !on_disk(&w->at) || io->crc != place_crc(&w->at)) return false;
    server_lock();
    bool same = store_page_find(server.store, b->container, w->page, &now) == 0 && on_disk(&now)
                && now.lsn == w->at.lsn;
    if (same) supply(b, w, KD_SUPPLY_READ, now.lsn);
    server_unlock();
    return same;
}

/* What became of one page that was to be read. `last`: what is wrong is failed. */
static void read_settle(const struct bring *b, struct want *w, const struct kd_page_io *io,
                        bool last)
{
    if (io->status == -EALREADY || read_supply(b, w, io)) { /* EALREADY: in memory meanwhile */
        done_set(w);
        return;
    }
    if (!w->asked || !last)
        kd_object_fail(b->object, w->page - b->shift, 1, EAGAIN); /* drops the frame: look again */
    else if (io->status < 0)
        fail(b, w, "the disk cannot read this page; restore the store from a copy");
    else if (w->at.dirty)
        fail(b, w, "its newest version is in the log only; restart to recover it");
    else
        fail(b, w, "this page is damaged on disk (wrong checksum); restore it from a copy");
    if (!w->asked || last) done_set(w);
}

static void read_and_supply(struct bring *b, bool last)
{
    struct kd_page_io io[PAGES_MAX];
    struct want *of[PAGES_MAX];
    unsigned count = 0;
    for (unsigned i = 0; i < b->count; i++) {
        struct want *w = &b->want[i];
        if (done(w)) continue;
        io[count] = (struct kd_page_io){.object = b->object, .page = w->page - b->shift,
                                        .offset_bytes = place(&w->at), .status = -EIO};
        of[count++] = w;
    }
    if (count == 0) return;
    kd_read_pages(server.disk, io, count); /* each page's status says how it went */
    __atomic_fetch_add(&server.pages_read, count, __ATOMIC_RELAXED);
    for (int asked = 0; asked < 2; asked++)
        for (unsigned i = 0; i < count; i++)
            if (of[i]->asked == asked) read_settle(b, of[i], &io[i], last);
}

/* A store that is open for reading only keeps what its log says in memory, not at home. */
static void read_from_log(struct bring *b)
{
    static _Thread_local uint8_t bytes[PAGE_BYTES];
    for (unsigned i = 0; i < b->count; i++) {
        struct want *w = &b->want[i];
        if (done(w) || !w->asked) continue;
        server_lock();
        int r = store_page_read(server.store, b->container, w->page, bytes);
        server_unlock();
        struct kd_supply s = {
            .object = b->object, .source = KD_SUPPLY_MEMORY, .rights = KD_READ,
            .page = w->page - b->shift, .count = 1, .csn = w->at.lsn, .memory = bytes};
        if (r < 0)
            fail(b, w, "this page is damaged on disk (wrong checksum)");
        else if (kd_object_supply(&s) == 0)
            __atomic_fetch_add(&server.pages_read, 1, __ATOMIC_RELAXED);
    }
    for (unsigned i = 0; i < b->count; i++) done_set(&b->want[i]);
}

/* ---- requests ---- */

/* Lock held. The extents around [page, page + count), cut to the segment; or the page alone. NULL:
 * the container was deleted meanwhile, and the kernel has ended its faults. */
static struct bring *bring_prepare(const struct kd_message *m, bool alone)
{
    struct bring *b = bringing;
    uint64_t page, object_page, end, count = m->word[2] < WANTED_MAX ? m->word[2] : WANTED_MAX;
    while (b->taken) b++; /* there are as many as threads */
    memset(b, 0, offsetof(struct bring, want)); /* those that are used are set below */
    if (cookie_page(m->word[0], m->word[1], &b->container, &page) < 0
        || container_object(b->container, page, &b->object, &object_page) < 0)
        return NULL;
    const struct container *c = container_by_id(b->container);
    b->shift = page - object_page;
    b->first = page - page % server.extent_pages;   /* segments are whole extents */
    end = page + (count ? count : 1) + server.extent_pages - 1;
    end -= end % server.extent_pages;
    if (end > page + container_left(c, page)) end = page + container_left(c, page);
    if (alone || m->word[3] & KD_PAGE_ALONE) {
        b->first = page;
        end = page + 1;
    }
    b->address = container_address(c, b->first);
    memcpy(b->name, c->name, sizeof(b->name));
    b->count = (unsigned)(end - b->first);
    for (unsigned i = 0; i < b->count; i++) {
        bool asked = b->first + i == page && m->kind == (uint32_t)KD_MSG_PAGE;
        b->want[i] = (struct want){.page = b->first + i, .asked = asked};
    }
    return b;
}

/* Brings the page, and in the same call of the kernel what else is wanted and on disk. Lock held,
 * dropped for all that takes time. */
static void bring(const struct kd_message *m)
{
    struct bring *b = bring_prepare(m, false);
    if (!b) return;
    claim(b);
    for (int try = 1; try <= PAGE_TRIES && !all_done(b); try++) {
        look_up(b);
        server_unlock();
        drop_neighbours(b);
        supply_zeros(b);
        if (server.read_only)
            read_from_log(b);
        else
            read_and_supply(b, try == PAGE_TRIES);
        server_lock();
    }
    release(b);
}

void pager_bring(const struct kd_message *m)
{
    server_lock();
    bring(m);
    server_unlock();
}

/* ---- the readers ---- */

/* The cleaner watches how many of those that receive are busy: see cleaner_wait(). Lock held. */
static void pager_busy(bool busy)
{
    server.pagers_busy += busy ? 1 : -1u;
    server.pagers_done += !busy;
    if (server.pagers_busy == PAGER_THREADS) pthread_cond_signal(&server.work);
}

/* Lock held. Only beyond QUEUE_MAX does a thread that receives wait for the disk. */
static void queue_put(const struct kd_message *m)
{
    pager_busy(true);
    while (queue_count == QUEUE_MAX) pthread_cond_wait(&server.changed, &server.lock);
    pager_busy(false);
    queue[queue_count++] = *m;
    pthread_cond_signal(&queue_moved);
}

static bool can_begin(const struct kd_message *m)
{
    uint64_t id, page;
    return m->kind != (uint32_t)KD_MSG_PAGE || cookie_page(m->word[0], m->word[1], &id, &page) < 0
           || !is_brought(id, page);
}

/* Lock held. The oldest of those that can begin; a release lets others. */
static struct kd_message queue_take(void)
{
    unsigned i = 0;
    while (i == queue_count || !can_begin(&queue[i])) {
        if (i < queue_count && ++i < queue_count) continue;
        pthread_cond_wait(&queue_moved, &server.lock);
        i = 0;
    }
    struct kd_message m = queue[i];
    if (queue_count-- == QUEUE_MAX) pthread_cond_broadcast(&server.changed);
    memmove(&queue[i], &queue[i + 1], (queue_count - i) * sizeof(m));
    return m;
}

void *reader_main(void *unused)
{
    (void)unused;
    server_lock();
    for (;;) {
        struct kd_message m = queue_take();
        if (m.kind == (uint32_t)KD_MSG_PAGE) {
            bring(&m);
        } else {
            server_unlock();
            request_advised(&m);
            server_lock();
        }
    }
}

void pager_queue(const struct kd_message *m)
{
    server_lock();
    queue_put(m);
    server_unlock();
}

/* ---- the threads that receive ---- */

void pager_init(void)
{
    /* memory from now on, not for the first time under the lock */
    memset(bringing, 0, sizeof(bringing));
    memset(queue, 0, sizeof(queue));
}

static void zeros_supply(struct bring *b)
{
    claim(b);
    pager_busy(true);
    server_unlock();
    supply_zeros(b);
    server_lock();
    pager_busy(false);
    release(b);
}

void pager_request(const struct kd_message *m)
{
    server_lock();
    struct bring *b = bring_prepare(m, true);
    if (b) {
        look_up(b);
        if (b->want->at.present || is_brought(b->container, b->first))
            queue_put(m);
        else
            zeros_supply(b);
    }
    server_unlock();
}
