/*
 * pager.c - page requests: where does the page lie, bring it, check it, supply it.
 *
 * A page that was never written is supplied as zeros. Another one is read by the kernel straight
 * into a frame, its CRC is compared with the one that its leaf keeps, and it is supplied with the
 * leaf's LSN as its csn. The other pages of its extent, and as many behind it as the kernel expects
 * to want, come along when they are on disk and not in memory, by one request; unless the kernel
 * says that touches are random.
 *
 * Who receives a request brings the page, too, unless READERS_MAX threads read already: then it is
 * queued for them. So some threads always receive, and nobody else waits for a slow read: not for a
 * lease, a name or a new page.
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
#define READERS_MAX  (PAGER_THREADS / 2)
#define QUEUE_MAX    1024u              /* as many as the kernel has threads */

struct bring {
    bool taken;  /* by a thread: its pages are being brought, until each is done */
    uint64_t container, first;          /* `count` pages: whole extents, or one page */
    int object;
    uint64_t shift;                     /* page of the container - page of the object */
    char name[STORE_NAME_BYTES];
    uint64_t address;                   /* of `first` */
    uint64_t since;                     /* the newest version when its pages were looked up */
    unsigned count, page;               /* the one that the request names, of these */
    bool closed;                        /* pages come without rights (decide.c) */
    bool asked, looked;                 /* the kernel waits for it; all are looked up already */
    bool done[PAGES_MAX];               /* atomic: supplied, failed, or no concern */
    struct store_page at[PAGES_MAX];    /* where they lay when that was looked up last */
};

/* Guarded by server.lock: */
static struct bring bringing[PAGER_THREADS]; /* one at a time for each thread */
static struct kd_message queue[QUEUE_MAX];  /* PAGE, STORE_ADVISE: what waits for a reader */
static unsigned queue_count, readers;

/* ---- a page at a time ---- */

static bool done(const struct bring *b, unsigned i)
{
    return __atomic_load_n(&b->done[i], __ATOMIC_ACQUIRE);
}
static void done_set(struct bring *b, unsigned i)
{
    __atomic_store_n(&b->done[i], true, __ATOMIC_RELEASE);
}
static bool is_asked(const struct bring *b, unsigned i) { return b->asked && i == b->page; }

bool is_brought(uint64_t container, uint64_t page)
{
    for (unsigned i = 0; i < PAGER_THREADS; i++) {
        const struct bring *b = &bringing[i];
        if (b->taken && b->container == container && page - b->first < b->count
            && !done(b, (unsigned)(page - b->first)))
            return true;
    }
    return false;
}

/* claim takes the pages, lock held. Nobody brings the one asked for; others that somebody brings
 * are none of our business. */
static void claim(struct bring *b)
{
    for (unsigned i = 0; i < b->count; i++)
        if (is_brought(b->container, b->first + i) || votes_held(b->container, b->first + i))
            done_set(b, i);
    b->taken = true;
    b->since = server.last_csn;
    container_by_id(b->container)->busy++;
}

static void release(struct bring *b)
{
    container_by_id(b->container)->busy--;
    b->taken = false;
    pthread_cond_broadcast(&server.changed);
}

uint64_t pager_settled(void)
{
    uint64_t settled = server.fenced ? 0 : server.last_csn; /* or not all of those are found */
    for (const struct bring *b = bringing; b < bringing + PAGER_THREADS; b++)
        if (b->taken && b->since < settled) settled = b->since;
    return settled;
}

bool pager_brings_open(uint64_t id)
{
    for (unsigned i = 0; i < PAGER_THREADS; i++)
        if (bringing[i].taken && bringing[i].container == id && !bringing[i].closed) return true;
    return false;
}

/* ---- answers ---- */

/* supply supplies pages that follow each other; csn: of each one that was read. */
static void supply(const struct bring *b, unsigned i, unsigned count, const uint64_t *csn)
{
    struct kd_supply s = {
        .object = b->object, .source = csn ? KD_SUPPLY_READ : KD_SUPPLY_ZERO,
        .rights = b->closed ? 0 : KD_READ | KD_WRITE, .page = b->first + i - b->shift,
        .count = count, .memory = csn};
    long r = kd_object_supply(&s);
    if (r == -ENOMEM) kd_object_fail(b->object, s.page, count, ENOMEM);
    if (r < 0 && r != -ESTALE) /* STALE: a newer version was published; it asks again */
        say("%s, page %llu: the kernel did not take it: error %ld", b->name,
            (unsigned long long)(b->first + i), -r);
}

static void fail(const struct bring *b, unsigned i, const char *why)
{
    say("%s, address %#llx: %s", b->name, (unsigned long long)(b->address + i * PAGE_BYTES), why);
    kd_object_fail(b->object, b->first + i - b->shift, 1, EIO);
}

/* ---- one round: look up, read, compare ---- */

/* in_log: a page of a chain lies in the log as a whole until it goes home. */
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

/* look_up finds the pages, lock held; what came to nothing is looked up again next round. */
static void look_up(struct bring *b)
{
    if (!b->looked &&
        store_pages_find(server.store, b->container, b->first, b->count, b->at) < 0)
        memset(b->at, 0, b->count * sizeof(b->at[0]));
    b->looked = false;
}

/* drop_neighbours drops those that are absent, or newer in memory, as none of our business; nor are
 * those in memory already, which are not read (EALREADY). */
static void drop_neighbours(struct bring *b)
{
    for (unsigned i = 0; i < b->count; i++)
        if (!is_asked(b, i) && !on_disk(&b->at[i])) done_set(b, i);
}

static bool all_done(const struct bring *b)
{
    for (unsigned i = 0; i < b->count; i++)
        if (!done(b, i)) return false;
    return true;
}

/* supply_zeros supplies the page asked for; absent neighbours are done already. */
static void supply_zeros(struct bring *b)
{
    if (done(b, b->page) || b->at[b->page].present) return;
    supply(b, b->page, 1, NULL);
    done_set(b, b->page);
}

/* is_newest: is what was read the page's newest version? */
static bool is_newest(const struct store_page *was, const struct store_page *now,
                      const struct kd_page_io *io)
{
    return io->status == 0 && on_disk(was) && io->crc == place_crc(was) && on_disk(now)
           && now->lsn == was->lsn;
}

/* supply_read supplies what was read and is the newest version still; the rest is not done. The
 * kernel answers at once: the frames are there. */
static void supply_read(struct bring *b, const struct kd_page_io io[], const unsigned of[],
                        unsigned count)
{
    struct store_page now[PAGES_MAX];
    uint64_t csn[PAGES_MAX];
    bool good[PAGES_MAX] = {false};
    server_lock();
    bool found = store_pages_find(server.store, b->container, b->first, b->count, now) == 0;
    for (unsigned i = 0; i < count; i++) {
        good[of[i]] = found && is_newest(&b->at[of[i]], &now[of[i]], &io[i]);
        csn[of[i]] = now[of[i]].lsn;
        if (good[of[i]] || io[i].status == -EALREADY) done_set(b, of[i]);
    }
    for (unsigned i = b->count, run; i > 0; i -= run ? run : 1) {
        for (run = 0; run < i && good[i - 1 - run]; run++) {}
        if (run) supply(b, i - run, run, &csn[i - run]);
    }
    server_unlock();
}

/* read_failed: a page that was read is damaged, or has changed. `last`: it is not tried again. */
static void read_failed(struct bring *b, unsigned i, const struct kd_page_io *io, bool last)
{
    bool gives_up = is_asked(b, i) && last;
    if (!gives_up || io->status == -ENOMEM) /* EAGAIN drops the frame: look again */
        kd_object_fail(b->object, b->first + i - b->shift, 1, gives_up ? ENOMEM : EAGAIN);
    else if (io->status < 0)
        fail(b, i, "the disk cannot read this page; restore the store from a copy");
    else if (b->at[i].dirty)
        fail(b, i, "its newest version is in the log only; restart to recover it");
    else
        fail(b, i, "this page is damaged on disk (wrong checksum); restore it from a copy");
    if (!is_asked(b, i) || last) done_set(b, i);
}

static void read_and_supply(struct bring *b, bool last)
{
    struct kd_page_io io[PAGES_MAX];
    unsigned of[PAGES_MAX], count = 0;
    for (unsigned i = 0; i < b->count; i++) {
        if (done(b, i)) continue;
        io[count] = (struct kd_page_io){.object = b->object, .page = b->first + i - b->shift,
                                        .offset_bytes = place(&b->at[i]), .status = -EIO};
        of[count++] = i;
    }
    if (count == 0) return;
    device_pages(false, io, count); /* each page's status says how it went */
    __atomic_fetch_add(&server.pages_read, count, __ATOMIC_RELAXED);
    supply_read(b, io, of, count);
    for (unsigned i = 0; i < count; i++)
        if (!done(b, of[i])) read_failed(b, of[i], &io[i], last);
}

/* read_from_log reads a read-only store's page: what its log says is in memory, not at home. */
static void read_from_log(struct bring *b)
{
    static _Thread_local uint8_t bytes[PAGE_BYTES];
    uint64_t page = b->first + b->page;
    if (is_asked(b, b->page) && !done(b, b->page)) {
        server_lock();
        int r = store_page_read(server.store, b->container, page, bytes);
        server_unlock();
        struct kd_supply s = {
            .object = b->object, .source = KD_SUPPLY_MEMORY, .rights = KD_READ,
            .page = page - b->shift, .count = 1, .csn = b->at[b->page].lsn, .memory = bytes};
        if (r < 0)
            fail(b, b->page, "this page is damaged on disk (wrong checksum)");
        else if (kd_object_supply(&s) == 0)
            __atomic_fetch_add(&server.pages_read, 1, __ATOMIC_RELAXED);
    }
    for (unsigned i = 0; i < b->count; i++) done_set(b, i);
}

/* ---- requests ---- */

/* bring_prepare takes, lock held, the extents around [page, page + count), cut to the segment; or
 * the page. NULL: the container was deleted meanwhile, and the kernel has ended its faults. */
static struct bring *bring_prepare(const struct kd_message *m)
{
    struct bring *b = bringing;
    uint64_t page, object_page, end, count = m->word[2] < WANTED_MAX ? m->word[2] : WANTED_MAX;
    while (b->taken) b++; /* there are as many as threads */
    memset(b, 0, offsetof(struct bring, done)); /* those that are used are set below */
    if (cookie_page(m->word[0], m->word[1], &b->container, &page) < 0
        || container_object(b->container, page, &b->object, &object_page) < 0)
        return NULL;
    const struct container *c = container_by_id(b->container);
    b->shift = page - object_page;
    b->first = page - page % server.extent_pages;   /* segments are whole extents */
    end = page + (count ? count : 1) + server.extent_pages - 1;
    end -= end % server.extent_pages;
    if (end > page + container_left(c, page)) end = page + container_left(c, page);
    if (m->word[3] & KD_PAGE_ALONE) {
        b->first = page;
        end = page + 1;
    }
    b->address = container_address(c, b->first);
    memcpy(b->name, c->name, sizeof(b->name));
    b->count = (unsigned)(end - b->first);
    b->page = (unsigned)(page - b->first);
    b->asked = m->kind == (uint32_t)KD_MSG_PAGE;
    b->closed = c->decided != WIRE_DECIDE_KERNEL;
    memset(b->done, false, b->count);
    return b;
}

/* bring brings the page, and in one call of the kernel what else is wanted and on disk. Lock held,
 * dropped for all that takes time. */
static void bring(struct bring *b)
{
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
    struct bring *b = bring_prepare(m);
    if (b) bring(b);
    server_unlock();
}

/* ---- the readers ---- */

/* pager_busy: the cleaner watches how many receivers are busy: see cleaner_wait(). Lock held. */
static void pager_busy(bool busy)
{
    server.pagers_busy += busy ? 1 : -1u;
    server.pagers_done += !busy;
    if (server.pagers_busy == PAGER_THREADS) pthread_cond_signal(&server.work);
}

/* queue_put queues a request, lock held. Only beyond QUEUE_MAX do receivers wait for the disk. */
static void queue_put(const struct kd_message *m)
{
    pager_busy(true);
    while (queue_count == QUEUE_MAX) pthread_cond_wait(&server.changed, &server.lock);
    pager_busy(false);
    queue[queue_count++] = *m;
}

static bool can_begin(const struct kd_message *m)
{
    uint64_t id, page;
    return m->kind != (uint32_t)KD_MSG_PAGE || cookie_page(m->word[0], m->word[1], &id, &page) < 0
           || !is_brought(id, page);
}

/* queue_take, lock held, takes the oldest that can begin; what cannot has a reader that brings its
 * page, and looks here then. */
static bool queue_take(struct kd_message *m)
{
    unsigned i = 0;
    while (i < queue_count && !can_begin(&queue[i])) i++;
    if (i == queue_count) return false;
    *m = queue[i];
    if (queue_count-- == QUEUE_MAX) pthread_cond_broadcast(&server.changed);
    memmove(&queue[i], &queue[i + 1], (queue_count - i) * sizeof(*m));
    return true;
}

/* read_all reads until nothing that waits can begin. b: what m asks for, or NULL. Lock held,
 * dropped for the disk. */
static void read_all(const struct kd_message *m, struct bring *b)
{
    struct kd_message next;
    readers++;
    pager_busy(true);
    for (bool more = true; more; more = queue_take(&next), m = &next, b = NULL) {
        if (m->kind != (uint32_t)KD_MSG_PAGE) {
            server_unlock();
            request_advised(m);
            server_lock();
        } else if (b || (b = bring_prepare(m))) {
            bring(b);
        }
    }
    pager_busy(false);
    readers--;
}

void pager_advise(const struct kd_message *m)
{
    server_lock();
    if (readers < READERS_MAX)
        read_all(m, NULL);
    else
        queue_put(m);
    server_unlock();
}

/* ---- the threads that receive ---- */

void pager_init(void)
{
    /* These are memory from now on, not for the first time under the lock. */
    memset(bringing, 0, sizeof(bringing));
    memset(queue, 0, sizeof(queue));
}

/* zeros_supply supplies the page alone: nobody asked for others. Lock dropped meanwhile. */
static void zeros_supply(struct bring *b)
{
    struct kd_message next;
    for (unsigned i = 0; i < b->count; i++)
        if (i != b->page) done_set(b, i);
    claim(b);
    pager_busy(true);
    server_unlock();
    supply_zeros(b);
    server_lock();
    pager_busy(false);
    release(b);
    /* Who asked for the same page is in the queue, and no reader's business. */
    if (readers < READERS_MAX && queue_take(&next)) read_all(&next, NULL);
}

void pager_request(const struct kd_message *m)
{
    if (index_lock_request(m) || kept_page(m) || decide_asked(m)) return;
    server_lock();
    struct bring *b = bring_prepare(m);
    if (b && votes_hold(m, b->container, b->first + b->page)) b = NULL;
    if (b) {
        struct store_page *at = &b->at[b->page];
        if (b->count <= server.extent_pages) { /* as quick as the page alone */
            look_up(b);
            b->looked = true;
        } else if (store_page_find(server.store, b->container, b->first + b->page, at) < 0) {
            memset(at, 0, sizeof(*at));
        }
        if (is_brought(b->container, b->first + b->page))
            queue_put(m);
        else if (!at->present)
            zeros_supply(b);
        else if (readers < READERS_MAX)
            read_all(m, b);
        else
            queue_put(m);
    }
    server_unlock();
}
