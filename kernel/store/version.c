/*
 * version.c - publications, snapshots, and the old versions that snapshots still need (C7).
 *
 * Managers number commits as they like (csn); the kernel numbers publications, over all managers,
 * and snapshots see "everything up to publication s". An old version is needed while a registered
 * snapshot s has sequence <= s < superseded. A snapshot reads `published` and registers under one
 * lock, so a version that nobody needs after its successor was published never will be.
 *
 * A snapshot for which more versions are kept than its process may have (KD_LIMIT_VERSIONS) expires: it
 * ends with -ESTALE when it touches a page whose version is gone. All together may take a quarter of
 * memory; beyond it the snapshots that need the oldest expire.
 *
 * V1  A version is linked in page->versions and in the FIFO, or it is in the collector's hands.
 * V2  Whoever finds a version in page->versions, under the leaf lock, may unlink and free it.
 *
 * Locks: publish lock, leaf, versions lock.
 */
#include "store/view.h"

static struct lock publish_lock = LOCK_INIT(RANK_PUBLISH, "publish");
static struct lock versions_lock = LOCK_INIT(RANK_VERSIONS, "versions");
static uint64_t published, collectable;
static struct list snapshots = {&snapshots, &snapshots};
static struct list fifo = {&fifo, &fifo}; /* old versions, oldest first */

static void version_collect(void);

uint64_t version_publish_begin(void)
{
    lock_acquire(&publish_lock);
    return published + 1;
}

void version_publish(uint64_t sequence)
{
    lock_acquire(&versions_lock);
    published = sequence;
    counters.publications = sequence;
    lock_release(&versions_lock);
}

void version_publish_end(uint64_t sequence)
{
    lock_acquire(&versions_lock);
    collectable = sequence;
    lock_release(&versions_lock);
    lock_release(&publish_lock);
    version_collect();
}

uint64_t version_newest(void) { return __atomic_load_n(&published, __ATOMIC_ACQUIRE); }

static void snapshot_add(struct snapshot *s, uint64_t sequence)
{
    s->sequence = sequence;
    s->expired = false;
    s->kept = 0;
    s->kept_most = process_this()->limits.most[KD_LIMIT_VERSIONS];
    list_push_back(&snapshots, &s->link);
}

int version_snapshot_begin(struct view *v, struct snapshot *shared)
{
    int e = 0;
    lock_acquire(&versions_lock);
    if (shared && shared->expired) {
        e = -ESTALE;
    } else {
        v->snapshot = shared ? shared->sequence : published;
        if (BUG(SNAP_BEGIN))
            bug_window_without(&versions_lock);
        snapshot_add(&v->seen, v->snapshot);
    }
    lock_release(&versions_lock);
    return e;
}

int version_snapshot_share(struct view *v, struct snapshot *s)
{
    list_init(&s->link);
    lock_acquire(&versions_lock);
    int e = v->seen.expired ? -ESTALE : 0;
    if (!e)
        snapshot_add(s, v->snapshot);
    lock_release(&versions_lock);
    return e;
}

uint64_t version_most_kept(const struct process *p)
{
    uint64_t most = 0;
    for (unsigned i = 0; i < KD_VIEW_MAX; i++)
        if (views[i].process == p && !list_empty(&views[i].seen.link))
            most = MAX(most, views[i].seen.kept);
    return most;
}

static void snapshot_remove(struct snapshot *s)
{
    lock_acquire(&versions_lock);
    list_remove(&s->link);
    lock_release(&versions_lock);
    version_collect();
}

void version_snapshot_end(struct view *v)
{
    if (!list_empty(&v->seen.link))
        snapshot_remove(&v->seen);
}

void snapshot_get(void *snapshot)
{
    __atomic_fetch_add(&((struct snapshot *)snapshot)->references, 1, __ATOMIC_RELAXED);
}

void snapshot_put(void *snapshot)
{
    struct snapshot *s = snapshot;
    if (__atomic_sub_fetch(&s->references, 1, __ATOMIC_ACQ_REL))
        return;
    snapshot_remove(s);
    kfree(s);
}

struct copy *version_find(const struct page *p, uint64_t snapshot)
{
    for (struct copy *c = p->versions; c; c = c->next)
        if (c->sequence <= snapshot && snapshot < c->superseded)
            return c;
    return NULL;
}

static bool needed_by(const struct copy *c, const struct snapshot *s)
{
    return !s->expired && c->sequence <= s->sequence && s->sequence < c->superseded;
}

/* A snapshot for which too many are kept expires. */
void version_add(struct copy *c)
{
    lock_acquire(&versions_lock);
    list_push_back(&fifo, &c->link);
    list_each(struct snapshot, s, &snapshots, link)
        if (needed_by(c, s) && ++s->kept > s->kept_most)
            s->expired = true;
    lock_release(&versions_lock);
    count(versions);
}

/* A snapshot that needs it, or NULL. */
static struct snapshot *needs(const struct copy *c)
{
    list_each(struct snapshot, s, &snapshots, link)
        if (needed_by(c, s))
            return s;
    return NULL;
}

static bool over_budget(void)
{
    return counters.versions > frame_total_count() / 4;
}

static bool needed(const struct copy *c)
{
    struct snapshot *s;
    if (c->superseded > collectable && !BUG(FREE_AT_FLIP))
        return true; /* a snapshot may still begin before it, or its publisher holds it */
    while ((s = needs(c)) && over_budget())
        s->expired = true;
    return s != NULL && !BUG(GC_SNAPSHOT);
}

/* Unmaps a version wherever the mask leads: only snapshots and dirty readers map old ones. */
static void unmap(struct page *p, struct copy *c)
{
    uint64_t shoot = 0;
    vmask_for(i, &p->mask) {
        struct view *v = &views[i];
        lock_acquire(&v->lock);
        pte_t *pte = v->snapshot_rights ? view_pte(v, c->at) : NULL;
        pte_t e = pte ? pte_load(pte) : 0;
        if (pte_present(e) && pte_frame_paddr(e) == frame_paddr(c->frame)) {
            pte_exchange(pte, 0);
            v->stale = true;
            shoot |= view_cpu_bit(v);
        }
        lock_release(&v->lock);
    }
    if (shoot && !BUG(GC_NO_IPI))
        arch_shootdown(shoot);
}

void version_free(struct page *p, struct copy *c)
{
    struct copy **at = &p->versions;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    lock_acquire(&versions_lock);
    list_remove(&c->link);
    lock_release(&versions_lock);
    unmap(p, c);
    frame_free(c->frame);
    copy_free(c);
    count_add(versions, -1ull);
}

/* The oldest version, if nobody needs it, off the FIFO and with its leaf kept alive. */
static struct copy *collect_take(struct leaf **l, unsigned *slot)
{
    struct copy *c = NULL;
    lock_acquire(&versions_lock);
    if (!list_empty(&fifo)) {
        c = list_first(&fifo, struct copy, link);
        if (needed(c))
            c = NULL;
    }
    if (c) {
        list_remove(&c->link);
        *l = c->leaf;
        *slot = c->slot;
        object_get((*l)->object);
    }
    lock_release(&versions_lock);
    return c;
}

/* Frees versions from the old end of the FIFO until one is needed. */
static void version_collect(void)
{
    struct leaf *l;
    unsigned slot;
    for (struct copy *c; (c = collect_take(&l, &slot));) {
        lock_acquire(&l->lock);
        struct page *p = &l->pages[slot];
        struct copy *v = p->versions;
        while (v && v != c)
            v = v->next;
        if (v)
            version_free(p, v); /* else a sweep freed it meanwhile (V2) */
        lock_release(&l->lock);
        object_put(l->object);
    }
}
