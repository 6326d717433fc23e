/*
 * version.c - publications, snapshots, and the old versions that snapshots still need (CM7;
 * versions.md).
 *
 * VS1  A version is linked in page->versions, which changes with the leaf locked, and in its
 *     keeper's list, which changes with the leaf and versions_lock held. Those of the open
 *     publication are in no list and not counted: its thread alone has them, and gives them on.
 * VS2  The list of snapshots is ordered by sequence. A version's keeper is the last that needs it,
 *     but for those that are over.
 * VS3  A keeper leaves that list in the section that finds its list of versions empty.
 * VS4  A version may be rough while its publication is open: it came from an item copy, and has
 *      stores in it that were not declared. Those words are the next version's, the current one's
 *      in the end, which stays for that. It is put right before a snapshot has it, and versions are
 *      released oldest first.
 * VS6  What comes to the addresses of an object that was cut off, by its manager's death or while
 *      others had it attached, is seen by no snapshot of a point before that: it may be newer; nor,
 *      of one that its manager destroyed unused, by one older than its last change.
 *
 * Locks: publish lock, leaf, versions lock. While a publication is open no lock is held: it is as
 * long as its transactions have copies, so others run between its pages.
 */
#include "process/handle.h"
#include "store/right.h"

static struct lock publish_lock = LOCK_INIT(RANK_PUBLISH, "publish"); /* for these two: */
static bool publishing;                                /* a publication is open */
/* threads that wait for their turn, by wait_link */
static struct list publishers = LIST_INIT(publishers);
static struct lock versions_lock = LOCK_INIT(RANK_VERSIONS, "versions");
static uint64_t published;
static struct list snapshots = LIST_INIT(snapshots); /* oldest first */
static struct list expired = LIST_INIT(expired);     /* they need nothing; by expired_link */
static uint64_t superseded_count;                    /* by the open publication */
/* Walks over all snapshots are as long as this: points behind handles, and which are kept for
 * managers (limit_may_take_kept). */
enum { SHARED_MAX = 1024, SHARED_KEPT = 128 };
static unsigned shared_count; /* atomic */
static uint64_t cut_points[1024]; /* VS6: by a hash of addresses: the first that may see them */

/* publication is the keeper of versions that the open publication supersedes. It stands in the
 * list, behind all snapshots that may need them, as soon as no other snapshot can come to need
 * them. */
static struct snapshot publication = {.link = LIST_INIT(publication.link), .over = true};
static bool needed; /* there was one of these snapshots; the publication's thread alone */

/* ---- publications ---- */

uint64_t version_publish_begin(void)
{
    lock_acquire(&publish_lock);
    while (publishing)
        (void)!thread_wait(&publishers, &publish_lock, thread_park_until_uninterrupted);
    publishing = true;
    thread_this()->ahead.urgent = true; /* SC1: all managers wait for it */
    lock_release(&publish_lock);
    superseded_count = 0;
    return published + 1;
}

void version_publish(uint64_t sequence)
{
    lock_acquire(&versions_lock);
    publication.sequence = sequence - 1;
    list_remove(&publication.link);
    list_push_back(&snapshots, &publication.link);
    needed = publication.link.prev != &snapshots;
    published = sequence;
    counters.publications = sequence;
    lock_release(&versions_lock);
}

static uint64_t *cut_point(vaddr_t base)
{
    return &cut_points[(base >> PAGE_SHIFT) * 0x9e3779b97f4a7c15 >> 54];
}

void version_cut(vaddr_t base, uint64_t first)
{
    lock_acquire(&versions_lock);
    *cut_point(base) = MAX(*cut_point(base), first);
    lock_release(&versions_lock);
}

uint64_t version_first(vaddr_t base)
{
    lock_acquire(&versions_lock);
    uint64_t first = *cut_point(base);
    bool reached = published >= first;
    lock_release(&versions_lock);
    return reached ? first : version_tick();
}

static bool over_budget(void) { return counters.versions > frame_total_count() / 4; }

void version_publish_end(void)
{
    uint64_t most = 2 * superseded_count + SHED_MORE; /* more than are added, but no more at once */
    lock_acquire(&versions_lock);
    list_remove(&publication.link);
    bool shed = !list_empty(&expired) || over_budget();
    lock_release(&versions_lock);
    lock_acquire(&publish_lock);
    publishing = thread_this()->ahead.urgent = false;
    struct thread *next = list_take(struct thread, &publishers, wait_link);
    if (next)
        thread_wake(next);
    lock_release(&publish_lock);
    if (shed)
        version_shed(most);
}

uint64_t version_tick(void)
{
    uint64_t sequence = version_publish_begin();
    version_publish(sequence);
    version_publish_end();
    return sequence;
}

uint64_t version_newest(void) { return __atomic_load_n(&published, __ATOMIC_ACQUIRE); }

uint64_t version_oldest(void)
{
    uint64_t oldest = UINT64_MAX;
    lock_acquire(&versions_lock);
    for (struct list *l = snapshots.next; l != &snapshots && oldest == UINT64_MAX; l = l->next)
        if (!container_of(l, struct snapshot, link)->over)
            oldest = container_of(l, struct snapshot, link)->sequence;
    lock_release(&versions_lock);
    return oldest;
}

/* ---- versions; the versions lock is held where no other is named ---- */

static void expire(struct snapshot *s)
{
    s->over = true;
    list_remove(&s->expired_link);
    list_push_back(&expired, &s->expired_link);
}

/* expire_most has the snapshot expire that keeps the most versions. */
static void expire_most(void)
{
    struct snapshot *most = NULL;
    list_each(struct snapshot, s, &snapshots, link)
        if (!s->over && (!most || s->kept > most->kept))
            most = s;
    if (most)
        expire(most);
}

static void attach(struct snapshot *keeper, struct copy *c)
{
    c->keeper = keeper;
    c->leaf->object->versions++;
    count(versions);
    list_push_back(&keeper->versions, &c->link);
    if (++keeper->kept > keeper->kept_most)
        expire(keeper);
}

static void detach(struct copy *c)
{
    list_remove(&c->link);
    c->keeper->kept--;
    c->keeper = NULL;
    c->leaf->object->versions--;
    count_add(versions, -1ull);
}

/* heir returns the snapshot before the keeper, if it needs c (VS2). A snapshot that is over may be
 * given c, too: it gives c on (VS3). */
static struct snapshot *heir(const struct snapshot *keeper, const struct copy *c)
{
    if (keeper->link.prev == &snapshots)
        return NULL;
    struct snapshot *s = container_of(keeper->link.prev, struct snapshot, link);
    return s->sequence >= c->sequence ? s : NULL;
}

void version_unmap(struct page *p, const struct frame *f, vaddr_t at, bool all)
{
    struct debt debt = {0};
    struct vmask users = p->mask;
    if (!all)
        vmask_keep(&users, &right_snapshots);
    if (vmask_empty(&users))
        return;
    views_each_locked(v, &users)
        if (all || v->snapshot_rights)
            right_take_version(v, p, at, f, &debt);
    right_pay(&debt);
}

/* version_end frees a version without a keeper. Leaf locked. */
HOT void version_end(struct page *p, struct copy *c)
{
    if (c->next)
        c->next->previous = c->previous;
    if (c->previous)
        c->previous->next = c->next;
    else
        p->versions = c->next;
    struct vmask readers = p->mask;
    vmask_keep(&readers, &right_snapshots); /* only snapshots and dirty readers map old ones */
    if (!vmask_empty(&readers))
        version_unmap(p, c->frame, c->at, false);
    frame_free(c->frame);
    copy_free(c);
}

void version_add(struct page *p, struct copy *c)
{
    c->next = p->versions;
    c->previous = NULL;
    if (c->next)
        c->next->previous = c;
    p->versions = c;
    superseded_count++;
    __atomic_store_n(&c->keeper, &publication, __ATOMIC_RELAXED);
}

/* rough_fill takes the words between those of a rough version from the next one. */
static void rough_fill(const struct copy *c, const uint64_t *next)
{
    enum { WORDS = PAGE_BYTES / 8 };
    uint64_t *own = frame_memory(c->frame);
    unsigned from = 0;
    for (int i = 0; (i = bit_next(c->words, WORDS, (unsigned)i)) >= 0; from = (unsigned)++i)
        memcpy(own + from, next + from, ((unsigned)i - from) * sizeof *own);
    memcpy(own + from, next + from, (WORDS - from) * sizeof *own);
}

void version_settle(const struct page *p, struct copy *c)
{
    struct copy *newest = c;
    while (newest->previous && version_rough(newest))
        newest = newest->previous;
    for (struct copy *v = newest;; v = v->next) {
        const struct frame *next = v->previous ? v->previous->frame : p->frame;
        if (version_rough(v) && next) { /* else it is swept, and nobody maps it any more */
            rough_fill(v, frame_memory(next));
            v->rough = false;
        }
        if (v == c)
            return;
    }
}

void version_free(struct page *p, struct copy *c)
{
    lock_acquire(&versions_lock);
    assert(c->keeper != &publication); /* VS1 */
    detach(c);
    lock_release(&versions_lock);
    version_end(p, c);
}

unsigned version_forget(struct leaf *l, unsigned slot, unsigned end, void *unused)
{
    enum { AT_ONCE = 8 };
    (void)unused;
    lock_acquire(&l->lock);
    for (unsigned n = 0; slot < end && n < AT_ONCE;) {
        struct copy *c = l->pages[slot].versions;
        while (c && c->keeper == &publication) /* it is to be released */
            c = c->next;
        if (!c)
            slot++;
        else
            version_free(&l->pages[slot], c), n++;
    }
    lock_release(&l->lock);
    return slot;
}

bool version_keep(struct page *p, struct copy *c)
{
    struct copy *before = NULL;
    for (struct copy *o = p->versions; o && o->sequence > c->sequence; o = o->next)
        before = o;
    lock_acquire(&versions_lock);
    struct snapshot *keeper = NULL; /* the last snapshot of this number */
    list_each(struct snapshot, s, &snapshots, link)
        keeper = s->sequence == c->sequence && !s->over ? s : keeper;
    if (keeper) {
        c->previous = before;
        c->next = before ? before->next : p->versions;
        *(before ? &before->next : &p->versions) = c;
        if (c->next)
            c->next->previous = c;
        attach(keeper, c);
    }
    lock_release(&versions_lock);
    return keeper;
}

void version_release(struct page *p, struct copy *c)
{
    struct snapshot *next = NULL;
    if (needed) {
        lock_acquire(&versions_lock);
        next = heir(&publication, c);
        if (next)
            attach(next, c);
        lock_release(&versions_lock);
    }
    if (next && version_rough(c))
        version_settle(p, c);
    if (next)
        return;
    c->keeper = NULL;
    version_end(p, c);
}

/* hand_on gives the first version of a keeper that is over to the next snapshot that needs it, or
 * frees it. If it goes before its leaf is locked, its struct may serve as another copy, but stays a
 * struct copy (object.c). False: there is none, and the keeper is out of the lists (VS3). Versions
 * lock held on entry, not on return. */
static bool hand_on(struct snapshot *keeper)
{
    if (list_empty(&keeper->versions)) {
        list_remove(&keeper->link);
        list_remove(&keeper->expired_link);
        lock_release(&versions_lock);
        return false;
    }
    struct copy *c = list_first(&keeper->versions, struct copy, link);
    struct leaf *l = c->leaf;
    object_get(l->object);
    lock_release(&versions_lock);
    lock_acquire(&l->lock);
    lock_acquire(&versions_lock);
    bool there = c->keeper == keeper && keeper->over && c->leaf == l;
    struct snapshot *next = there ? heir(keeper, c) : NULL;
    assert(next != &publication); /* what it sees was superseded before this keeper began */
    if (there)
        detach(c);
    if (next)
        attach(next, c);
    lock_release(&versions_lock);
    if (there && !next)
        version_end(&l->pages[c->slot], c);
    lock_release(&l->lock);
    object_put(l->object);
    return true;
}

void version_shed(uint64_t most)
{
    for (; most; most--, thread_breathe()) {
        lock_acquire(&versions_lock);
        if (list_empty(&expired) && over_budget())
            expire_most();
        if (list_empty(&expired)) {
            lock_release(&versions_lock);
            return;
        }
        (void)hand_on(list_first(&expired, struct snapshot, expired_link));
    }
}

/* ---- snapshots ---- */

/* snapshot_add puts s before `behind`: a snapshot of the same sequence, or the list's end (VS2). */
static void snapshot_add(struct snapshot *s, uint64_t sequence, struct list *behind)
{
    s->sequence = sequence;
    s->over = false;
    s->kept_most = process_this()->limits.most[KD_LIMIT_VERSIONS];
    list_insert_before(behind, &s->link);
}

void version_snapshot_init(struct snapshot *s)
{
    list_init(&s->link);
    list_init(&s->expired_link);
    list_init(&s->versions);
    s->kept = 0;
}

int version_snapshot_begin(struct view *v, struct snapshot *shared)
{
    int e = 0;
    lock_acquire(&versions_lock);
    if (shared && shared->over) {
        e = -ESTALE;
    } else {
        v->snapshot.at = shared ? shared->sequence : published;
        snapshot_add(&v->snapshot.seen, v->snapshot.at, shared ? &shared->link : &snapshots);
    }
    lock_release(&versions_lock);
    return e;
}

uint64_t version_most_kept(struct process *p)
{
    uint64_t most = 0;
    for (unsigned i = 0; i < KD_VIEW_MAX; i++)
        if (views[i].process == p && !list_empty(&views[i].snapshot.seen.link))
            most = MAX(most, views[i].snapshot.seen.kept);
    lock_acquire(&p->handle_lock);
    for (int i = 0; p->handles && i < PROCESS_HANDLES_MAX; i++)
        if (p->handles[i].type == HANDLE_SNAPSHOT)
            most = MAX(most, ((struct snapshot *)p->handles[i].object)->kept);
    lock_release(&p->handle_lock);
    return most;
}

/* snapshot_end hands the snapshot's versions on, in portions, so that other threads run in
 * between. */
static void snapshot_end(struct snapshot *s)
{
    enum { PORTION = 64 };
    for (unsigned n = 1;; n++) {
        lock_acquire(&versions_lock);
        s->over = true;
        if (!hand_on(s))
            return;
        if (n % PORTION == 0 && lock_holds_none())
            thread_yield();
    }
}

void version_snapshot_end(struct view *v)
{
    if (!list_empty(&v->snapshot.seen.link))
        snapshot_end(&v->snapshot.seen);
}

static void snapshot_free(struct snapshot *s)
{
    snapshot_end(s);
    __atomic_fetch_sub(&shared_count, 1, __ATOMIC_RELAXED);
    kfree(s);
}
COUNTED(snapshot, snapshot_free)

/* snapshot_used tells whether a shared point is anybody else's, too: 1 or 0. */
static long snapshot_used(int handle)
{
    struct snapshot *s = handle_find(handle, HANDLE_SNAPSHOT, 0, snapshot_get);
    if (handle_failed(s))
        return (long)s;
    bool used = __atomic_load_n(&s->references, __ATOMIC_RELAXED) > 2;
    lock_acquire(&versions_lock);
    const struct list *k = s->link.prev; /* VS2; it is in no list when it is over */
    k = s->over || k == &snapshots ? snapshots.next : k;
    for (; !used && k != &snapshots; k = k->next) {
        const struct snapshot *other = container_of(k, struct snapshot, link);
        used = other != s && other != &publication && other->sequence == s->sequence;
        if (other->sequence > s->sequence)
            break;
    }
    lock_release(&versions_lock);
    snapshot_put(s);
    return used;
}

/* kd_snapshot_share makes a handle for the running snapshot's commit point: others may begin at
 * that point, too, until the handle is closed. */
long kd_snapshot_share(const uint64_t a[6])
{
    struct view *v = thread_this()->view;
    if (a[0])
        return snapshot_used((int)a[0] - 1);
    if (!v || v->state != VIEW_ACTIVE || v->txn.mode != KD_SNAPSHOT)
        return -ENOENT;
    struct snapshot *s = kalloc(sizeof *s);
    if (!s)
        return -ENOMEM;
    version_snapshot_init(s);
    s->references = 1;
    s->only = v->snapshot.seen.only;
    s->generation = v->snapshot.seen.generation;
    unsigned most = SHARED_MAX - (limit_may_take_kept(process_this()) ? 0 : SHARED_KEPT);
    bool full = __atomic_add_fetch(&shared_count, 1, __ATOMIC_RELAXED) > most;
    lock_acquire(&versions_lock);
    int e = v->snapshot.seen.over ? -ESTALE : full ? -EAGAIN : 0;
    if (!e)
        snapshot_add(s, v->snapshot.at, &v->snapshot.seen.link);
    lock_release(&versions_lock);
    if (!e)
        return handle_new(process_this(), HANDLE_SNAPSHOT, s, KD_RIGHT_READ);
    snapshot_put(s);
    return e;
}

/* ---- for check.c ---- */

/* check_version returns the rule that a version breaks, or NULL. */
static const char *check_version(const struct leaf *l, const struct page *p, const struct copy *c)
{
    const struct snapshot *k = c->keeper, *next;
    if (!k || c->leaf != l || &l->pages[c->slot] != p || !c->frame || c->sequence > c->superseded)
        return "an old version without a keeper, or not of its page (VS1)";
    if (k == &publication)
        return NULL; /* one that it superseded itself goes with it: two item copies of a group */
    if (version_rough(c))
        return "a rough version is kept for a snapshot (VS4)";
    next = k->link.next == &snapshots ? NULL : container_of(k->link.next, struct snapshot, link);
    if (k->sequence < c->sequence || k->sequence >= c->superseded)
        return "an old version is kept for a snapshot that does not need it";
    if (next && !next->over && next->sequence >= c->sequence && next->sequence < c->superseded)
        return "an old version's keeper is not the last that needs it (VS2)";
    return NULL;
}

const char *version_check_page(const struct leaf *l, const struct page *p)
{
    const char *wrong = NULL;
    lock_acquire(&versions_lock);
    for (const struct copy *c = p->versions; c && !wrong; c = c->next)
        wrong = c->next && c->next->previous != c ? "old versions are not linked (VS1)"
                                                  : check_version(l, p, c);
    lock_release(&versions_lock);
    return wrong;
}

const char *version_check(void)
{
    uint64_t kept = 0, last = 0;
    const char *wrong = NULL;
    lock_acquire(&versions_lock);
    list_each(const struct snapshot, s, &snapshots, link) {
        wrong = s->sequence < last ? "snapshots are not in order (VS2)" : wrong;
        last = s->sequence;
        kept += s->kept;
    }
    if (kept != counters.versions)
        wrong = "old versions and what snapshots keep differ";
    lock_release(&versions_lock);
    return wrong;
}
