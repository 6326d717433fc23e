/*
 * old.c - what snapshots see of a page: the version that is here, or the one that its manager is
 * asked for (KD_OBJECT_VERSIONS; versions.md).
 *
 * VS5  A version that was supplied for the number of a snapshot is seen at that number alone, and
 *      is there only while some snapshot has the number.
 *
 * Locks: leaf, versions lock (version.c).
 */
#include "process/handle.h"
#include "store/evict.h"
#include "store/fault.h"
#include "store/grant.h"
#include "store/object_private.h"

static struct copy *version_find(const struct page *p, uint64_t snapshot)
{
    for (struct copy *c = p->versions; c; c = c->next)
        if (c->sequence <= snapshot && snapshot < c->superseded)
            return c;
    return NULL;
}

/* snapshot_map maps the newest version not younger than the snapshot (FT3). 0 or -ESTALE. */
static int snapshot_map(struct view *v, struct leaf *l, unsigned slot, pte_t *pte)
{
    struct page *p = &l->pages[slot];
    v->snapshot.newest = v->txn.mode == KD_DIRTY_READ ? version_newest() : v->snapshot.at;
    bool current = p->sequence <= v->snapshot.at && page_resident(p);
    struct copy *old = current ? NULL : version_find(p, v->snapshot.at);
    struct frame *f = current ? p->frame : old ? old->frame : NULL;
    if (!f)
        return -ESTALE;
    if (old && version_rough(old))
        version_settle(p, old);
    lock_acquire(&v->lock);
    if (old || p->sequence > v->snapshot.newest)
        /* an old version, or not published yet: not for its next snapshot */
        right_owe(v, page_address(l, slot));
    right_share(v, l, p, pte, f);
    lock_release(&v->lock);
    return 0;
}

int snapshot_look(struct view *v, struct leaf *l, unsigned slot, pte_t *pte)
{
    const struct page *p = &l->pages[slot];
    bool asks = snapshot_asks(v, l->object);
    if (!asks && !page_resident(p) && p->sequence <= v->snapshot.at)
        return 1;
    unsigned given = v->supply.leaf ? v->supply.rights : 0;
    if (!asks && page_resident(p) && p->closed &&
        page_closed(p, right_used(pte_load(pte)), given, false))
        return 1;
    int e = snapshot_map(v, l, slot, pte);
    return e && asks ? 1 : e;
}

/* version_take makes c, with frame f, a version for the snapshots of this number. Leaf locked. */
static int version_take(struct leaf *l, unsigned slot, struct copy *c, struct frame *f, uint64_t at)
{
    struct page *p = &l->pages[slot];
    if ((page_resident(p) && p->sequence <= at) || version_find(p, at))
        return -EEXIST;
    *c = (struct copy){.link = c->link, .leaf = l, .slot = (uint8_t)slot, .frame = f,
                       .at = page_address(l, slot), .sequence = at, .superseded = at + 1};
    if (!version_keep(p, c))
        return -ESRCH;
    l->touched |= 1ull << slot;
    return 0;
}

int object_supply_old(struct object *o, const struct kd_supply *s)
{
    if (s->source != (KD_SUPPLY_MEMORY | KD_SUPPLY_OLD) || s->rights || s->count != 1 ||
        !range_ok(o, s->page, 1))
        return -EINVAL;
    struct copy *c = copy_alloc();
    struct frame *f = c ? evict_frame(FRAME_PAGE) : NULL;
    int e = !f ? -ENOMEM : copy_from_user(frame_memory(f), (vaddr_t)s->memory, PAGE_BYTES);
    struct leaf *l = e ? NULL : leaf_lock(o, s->page);
    if (!l && !e)
        e = o->dead ? -EOWNERDEAD : -ENOMEM;
    if (l) {
        unsigned slot = s->page % LEAF_PAGES;
        e = o->dead ? -EOWNERDEAD : version_take(l, slot, c, f, s->csn);
        if (s->number) /* it looks again, or its snapshot has expired */
            waits_end(l, slot, e == -ESRCH ? -ESTALE : 0, 0, s->number);
        lock_release(&l->lock);
    }
    if (e && f)
        frame_free(f);
    if (e && c)
        copy_free(c);
    version_shed(SHED_MORE);
    return e == -EEXIST ? 0 : e;
}
