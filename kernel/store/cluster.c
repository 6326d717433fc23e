/*
 * cluster.c - cluster grants: a read fault maps neighbours of its page, too, as many as are likely
 * to be read next; a request asks for as many (faults.md). Nothing here ever waits.
 *
 * A score of the container tells clustered touches from random ones: each near fault raises the
 * score, each far one lowers it. A view that has locked the container gets the whole leaf.
 *
 * Locks: leaf. The counters are approximate.
 */
#include "store/evict.h"
#include "store/fault.h"
#include "store/grant.h"
#include "store/holder.h"
#include "store/mapping.h"

enum { CLUSTER_DISK = 4 }; /* pages asked for together where touches are clustered */
enum { CLUSTER_PAGES = 8, NEAR_PAGES = 8 };

/* cluster_map maps those of the leaf's pages [first, last) that are free; ptes: the leaf's. */
static __attribute__((noinline)) void cluster_map(struct view *v, struct leaf *l, pte_t *ptes,
                                                unsigned first, unsigned last)
{
    bool rights = !v->snapshot_rights;
    uint64_t newest = rights ? ~0ull : v->snapshot.newest;
    unsigned mapped = 0, id = v->id;
    struct page *p = &l->pages[first];
    for (unsigned slot = first; slot < last; slot++, p++) {
        if (!page_resident(p) || ptes[slot] || p->sequence > newest ||
            (p->writer != WRITER_NONE && rights) ||
            (unlikely(p->looks & LOOKS_ACCESS) &&
             ((rights && p->rmw | p->queue) ||
              (!(v->supply.slots >> slot & 1) && page_closed(p, false, 0, false)))))
            continue;
        right_neighbour(id, p, &ptes[slot]);
        mapped++;
    }
    TRACE(GROUP, mapped, page_address(l, first), 0);
    count_add(grants_cluster, mapped);
}

/* cluster_more chooses more than the page alone: [*first, *last) of the leaf. */
static void cluster_more(struct view *v, struct object *o, bool next, unsigned slot,
                         unsigned *first, unsigned *last)
{
    /* others may set it now */
    unsigned fixed = __atomic_load_n(&o->cluster_fixed, __ATOMIC_RELAXED);
    if (fixed) {
        *first = slot & ~(fixed - 1u);
        *last = *first + fixed;
    } else if (next) {
        v->touch.run = (uint8_t)MIN(v->touch.run * 4, LEAF_PAGES);
        o->touches[TOUCH_SEQUENTIAL]++;
        *last = MIN(slot + v->touch.run, LEAF_PAGES);
    } else {
        v->touch.run = 1;
        o->touches[TOUCH_CLUSTERED]++;
        *first = slot & ~(CLUSTER_PAGES - 1u);
        *last = *first + CLUSTER_PAGES;
    }
}

/* cluster_locked gives a holder of the container's lock the leaf; a request for what is away grows
 * as without the lock. */
static __attribute__((noinline, cold)) void cluster_locked(struct view *v, struct leaf *l,
                                                           unsigned slot, pte_t *ptes)
{
    vaddr_t at = page_address(l, slot);
    if (!container_locked_by(v, l->object))
        return;
    v->touch.run = at == v->touch.next ? (uint8_t)MIN(v->touch.run * 4, LEAF_PAGES) : 1;
    v->touch.last = at;
    cluster_map(v, l, ptes, 0, LEAF_PAGES);
    while (++slot < LEAF_PAGES && ptes[slot])
        continue;
    v->touch.next = page_address(l, slot);
}

/* touch_note tells whether touches of the container lie near each other. `count`: this one
 * counts. */
HOT bool touch_note(struct view *v, struct object *o, vaddr_t at, bool count)
{
    bool near = at - v->touch.last + NEAR_PAGES * PAGE_BYTES < 2 * NEAR_PAGES * PAGE_BYTES;
    if (count && near)
        o->near_score += o->near_score < SCORE_MAX;
    else if (count && o->near_score)
        o->near_score--;
    return o->near_score >= SCORE_CLUSTERED;
}

void cluster_grant(struct view *v, struct leaf *l, unsigned slot, vaddr_t at, pte_t *ptes)
{
    struct object *o = l->object;
    if (__builtin_expect(o->container_lock.state, 0)) {
        cluster_locked(v, l, slot, ptes);
        return;
    }
    bool next = at == v->touch.next;
    bool clustered = touch_note(v, o, at, true);
    v->touch.last = at;
    if (!next && !clustered && !o->cluster_fixed) {
        o->touches[TOUCH_RANDOM]++;
        v->touch.run = 1;
        v->touch.next = at + PAGE_BYTES;
        return;
    }
    unsigned first = slot, last = slot + 1;
    cluster_more(v, o, next, slot, &first, &last);
    v->touch.next = at + ((vaddr_t)(last - slot) << PAGE_SHIFT);
    cluster_map(v, l, ptes, first, last);
}

/* cluster_request tells how many pages to ask for, from a page away on (0: that page alone), as
 * cluster_grant decides for resident ones; reads note their touch there. */
static unsigned cluster_request(struct view *v, struct leaf *l, unsigned slot, bool write)
{
    struct object *o = l->object;
    vaddr_t at = page_address(l, slot);
    bool next = at == v->touch.next;
    unsigned rest = LEAF_PAGES - slot, count = 0;
    unsigned fixed = __atomic_load_n(&o->cluster_fixed, __ATOMIC_RELAXED);
    if (fixed)
        count = fixed > 1 ? fixed - slot % fixed : 0;
    else if (next)
        count = MIN(MAX(v->touch.run, 1u) * 4u, rest);
    else if (touch_note(v, o, at, write))
        count = MIN(CLUSTER_DISK, rest);
    if (write) {
        v->touch.last = at;
        v->touch.run = next ? (uint8_t)count : 1;
        v->touch.next = at + ((vaddr_t)MAX(count, 1u) << PAGE_SHIFT);
    }
    return count;
}

int page_get(struct view *v, struct leaf *l, unsigned slot, bool write)
{
    unsigned access = (write ? KD_WRITE : KD_READ) | KD_PAGE_HERE;
    uint64_t pages = 1;
    if (heir_is(v) && heir_opens(v, l, slot)) {
        lock_release(&l->lock);
        return 0;
    }
    if (snapshot_asks(v, l->object)) {
        access = KD_READ | KD_PAGE_OLD;
    } else if (!page_resident(&l->pages[slot])) {
        pages = cluster_request(v, l, slot, write);
        access ^= KD_PAGE_HERE | (pages ? 0 : KD_PAGE_ALONE);
        pages = MIN(MAX(pages, 1), l->object->pages - l->first - slot);
    }
    int e = page_request(&v->supply, l, slot, access, pages, v->txn.deadline_ns);
    if (v->wait.is_told)
        waits_clear(v); /* what its manager told */
    return e ? e : v->supply.leaf && !v->doom ? 0 : -EAGAIN;
}

long object_policy(struct object *o, uint64_t policy, uint64_t value)
{
    if (policy == KD_POLICY_CLUSTER && value <= LEAF_PAGES && !(value & (value - 1)))
        __atomic_store_n(&o->cluster_fixed, (uint8_t)value, __ATOMIC_RELAXED);
    else if (policy == KD_POLICY_ESCALATE && value <= 1u << 30)
        o->escalate = (uint32_t)value;
    else if (policy == KD_POLICY_MEMORY && (value >= KD_MEMORY_LEAST || value == 0))
        evict_limit(o, value ? value : ~0ull);
    else if (policy == KD_POLICY_ITEMS || policy == KD_POLICY_OWN)
        return item_policy(o, policy, value);
    else
        return -EINVAL;
    return 0;
}

long kd_container_policy(const uint64_t a[6])
{
    uint32_t rights;
    struct process *p = process_this();
    struct object *o = object_at(p, mapping_first(p, a[0], 1), &rights);
    if (!o)
        return -ENOENT;
    long result = rights & KD_RIGHT_WRITE ? object_policy(o, a[1], a[2]) : -EACCES;
    object_put(o);
    return result;
}
