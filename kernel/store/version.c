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

/* publication is the keeper of versions that the open publication supersedes. It stands in the
 * list, behind all snapshots that may need them, as soon as no other snapshot can come to need
 * them. */
static struct snapshot publication = {.link = LIST_INIT(publication.link), .over = true};
static bool needed; /* there was one of these snapshots; the publication's thread alone */

static void versions_shed(uint64_t most);

/* ---- publications ---- */

uint64_t version_publish_begin(void)
{
    lock_acquire(&publish_lock);
    while (publishing)
        (void)!thread_wait(&publishers, &publish_lock, thread_park_until_uninterrupted);
    publishing = true;
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

enum { SHED_MORE = 64 };
static bool over_budget(void) { return counters.versions > frame_total_count() / 4; }
static bool shed_due(void) { return !list_empty(&expired) || over_budget(); }

void version_publish_end(void)
{
    uint64_t most = 2 * superseded_count + SHED_MORE; /* more than are added, but no more at once */
    lock_acquire(&versions_lock);
    list_remove(&publication.link);
    bool shed = shed_due();
    lock_release(&versions_lock);
    lock_acquire(&publish_lock);
    publishing = false;
    struct thread *next = list_take(struct thread, &publishers, wait_link);
    if (next)
        thread_wake(next);
    lock_release(&publish_lock);
    if (shed)
        versions_shed(most);
}

void version_shed(void)
{
    lock_acquire(&versions_lock);
    bool shed = shed_due();
    lock_release(&versions_lock);
    if (shed)
        versions_shed(SHED_MORE);
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

static void attach(struct snapshot *keeper, struct copy *c)
{
    c->keeper = keeper;
    list_push_back(&keeper->versions, &c->link);
    if (++keeper->kept > keeper->kept_most)
        expire(keeper);
}

static void detach(struct copy *c)
{
    list_remove(&c->link);
    c->keeper->kept--;
    c->keeper = NULL;
}

static void tally(const struct copy *c, uint64_t n)
{
    c->leaf->object->versions += n;
    count_add(versions, n);
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

/* version_end frees a version without a keeper, all but its struct copy. Leaf locked. */
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
    c->frame = NULL;
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

struct copy *version_find(const struct page *p, uint64_t snapshot)
{
    for (struct copy *c = p->versions; c; c = c->next)
        if (c->sequence <= snapshot && snapshot < c->superseded)
            return c;
    return NULL;
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
    tally(c, -1ull);
    lock_release(&versions_lock);
    version_end(p, c);
    copy_free(c);
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

/* last_at returns the last snapshot of this number that is not over, or NULL. Versions lock. */
static struct snapshot *last_at(uint64_t number)
{
    struct snapshot *last = NULL;
    list_each(struct snapshot, s, &snapshots, link)
        if (s->sequence == number && !s->over)
            last = s;
    return last;
}

bool version_keep(struct page *p, struct copy *c)
{
    struct copy *before = NULL;
    for (struct copy *o = p->versions; o && o->sequence > c->sequence; o = o->next)
        before = o;
    lock_acquire(&versions_lock);
    struct snapshot *keeper = last_at(c->sequence);
    if (keeper) {
        c->previous = before;
        c->next = before ? before->next : p->versions;
        *(before ? &before->next : &p->versions) = c;
        if (c->next)
            c->next->previous = c;
        attach(keeper, c);
        tally(c, 1);
    }
    lock_release(&versions_lock);
    return keeper;
}

bool version_seen(const struct snapshot *s)
{
    unsigned n = 0;
    lock_acquire(&versions_lock);
    list_each(const struct snapshot, other, &snapshots, link)
        n += other != s && other != &publication && other->sequence == s->sequence;
    lock_release(&versions_lock);
    return n;
}

/* hand_on gives c, of a keeper that is over, to the next snapshot that needs it, or frees c. The
 * caller saw c before the leaf was locked: if c went meanwhile, its struct may serve as another
 * copy, but stays a struct copy (object.c). Leaf locked. */
static void hand_on(struct leaf *l, struct copy *c, struct snapshot *keeper)
{
    lock_acquire(&versions_lock);
    bool there = c->keeper == keeper && keeper->over && c->leaf == l;
    struct snapshot *next = there ? heir(keeper, c) : NULL;
    assert(next != &publication); /* what it sees was superseded before this keeper began */
    if (there)
        detach(c);
    if (next)
        attach(next, c);
    else if (there)
        tally(c, -1ull);
    lock_release(&versions_lock);
    if (there && !next) {
        version_end(&l->pages[c->slot], c);
        copy_free(c);
    }
}

void version_release(struct page *p, struct copy *c)
{
    struct snapshot *next = NULL;
    if (needed) {
        lock_acquire(&versions_lock);
        next = heir(&publication, c);
        if (next) {
            attach(next, c);
            tally(c, 1);
        }
        lock_release(&versions_lock);
    }
    if (next && version_rough(c))
        version_settle(p, c);
    if (next)
        return;
    c->keeper = NULL;
    version_end(p, c);
    copy_free(c);
}

/* first_version returns the first version of a keeper that is over, its leaf kept alive. NULL:
 * there is none, and the keeper is out of the lists (VS3). */
static struct copy *first_version(struct snapshot *s, struct leaf **l)
{
    if (list_empty(&s->versions)) {
        list_remove(&s->link);
        list_remove(&s->expired_link);
        return NULL;
    }
    struct copy *c = list_first(&s->versions, struct copy, link);
    *l = c->leaf;
    object_get((*l)->object);
    return c;
}

/* hand_on_first locks the leaf of c for hand_on. No lock is held. */
static void hand_on_first(struct leaf *l, struct copy *c, struct snapshot *s)
{
    lock_acquire(&l->lock);
    hand_on(l, c, s);
    lock_release(&l->lock);
    object_put(l->object);
}

/* most_kept returns the snapshot that keeps the most versions, or NULL. */
static struct snapshot *most_kept(void)
{
    struct snapshot *most = NULL;
    list_each(struct snapshot, s, &snapshots, link)
        if (!s->over && (!most || s->kept > most->kept))
            most = s;
    return most;
}

/* versions_shed takes up to `most` versions from expired snapshots, and lets more snapshots expire
 * while there are too many versions. */
static __attribute__((noinline, cold)) void versions_shed(uint64_t most)
{
    while (most--) {
        struct leaf *l = NULL;
        lock_acquire(&versions_lock);
        struct snapshot *s = list_empty(&expired) && over_budget() ? most_kept() : NULL;
        if (s)
            expire(s);
        s = list_empty(&expired) ? NULL : list_first(&expired, struct snapshot, expired_link);
        struct copy *c = s ? first_version(s, &l) : NULL;
        lock_release(&versions_lock);
        if (!s)
            return;
        if (c)
            hand_on_first(l, c, s);
        thread_breathe();
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

int version_snapshot_share(struct view *v, struct snapshot *s)
{
    version_snapshot_init(s);
    lock_acquire(&versions_lock);
    int e = v->snapshot.seen.over ? -ESTALE : 0;
    if (!e)
        snapshot_add(s, v->snapshot.at, &v->snapshot.seen.link);
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
    struct leaf *l;
    for (unsigned n = 1;; n++) {
        lock_acquire(&versions_lock);
        s->over = true;
        struct copy *c = first_version(s, &l);
        lock_release(&versions_lock);
        if (!c)
            return;
        hand_on_first(l, c, s);
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
    kfree(s);
}
COUNTED(snapshot, snapshot_free)

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
