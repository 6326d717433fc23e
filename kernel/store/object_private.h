/* object_private.h - what object.c, overlap.c, attach.c, sweep.c and page.c share. */
#ifndef KERNEL_OBJECT_PRIVATE_H
#define KERNEL_OBJECT_PRIVATE_H

#include "process/handle.h"
#include "store/right.h"

/* ---- object.c ---- */
extern struct lock objects_lock; /* all objects: ports' lists of them, the tree (overlap.c) */
/* object_enlists tells whether transactions enlist at its port: else it commits on its own. */
static inline bool object_enlists(const struct object *o)
{
    return (o->flags & (KD_OBJECT_TRANSACTIONAL | KD_OBJECT_UNLOCKED)) == KD_OBJECT_TRANSACTIONAL;
}
/* object_charge counts an object that its owner has. */
static inline void object_charge(struct process *owner, int n)
{
    __atomic_fetch_add(&owner->limits.objects, (uint32_t)n, __ATOMIC_RELEASE);
}
static inline vaddr_t object_end(const struct object *o)
{
    return o->base + (o->pages << PAGE_SHIFT);
}

/* range_ok tells whether [page, page + n) are pages of o, at least one. */
static inline bool range_ok(const struct object *o, uint64_t page, uint64_t n)
{
    return n > 0 && page < o->pages && n <= o->pages - page;
}

/* ---- overlap.c ---- */
/* object_place puts o among all objects, object_unplace takes it out. Objects lock held. */
void object_place(struct object *o);
void object_unplace(struct object *o);
void object_meets(struct object *o); /* a new one: others may lie at its addresses (OV1) */
bool object_misplaced(const struct object *o); /* for kcheck: OV3 or OV4 is broken */
void overlaps_forget(const struct object *o); /* it is freed */

/* ---- leaf.c ---- */
/* leaves_in calls fn for each leaf that exists of the pages [page, end), in portions; leaves_for
 * does for all pages. */
void leaves_in(struct object *o, uint64_t page, uint64_t end, leaf_fn *fn, void *arg);
typedef void page_fn(struct leaf *l, unsigned slot, void *arg);
struct each { page_fn *fn; void *arg; };
HOT unsigned leaf_each(struct leaf *l, unsigned slot, unsigned end, void *each)
{
    const struct each *e = each;
    lock_acquire(&l->lock);
    for (; slot < end; slot++)
        e->fn(l, slot, e->arg);
    lock_release(&l->lock);
    return end;
}
/* pages_for calls fn for each page of a range that has a leaf, with the leaf locked. 0; -EINVAL: no
 * such range. */
HOT long pages_for(struct object *o, uint64_t page, uint64_t n, page_fn *fn, void *arg)
{
    struct each each = {fn, arg};
    unsigned slot = (unsigned)(page % LEAF_PAGES);
    if (!range_ok(o, page, n))
        return -EINVAL;
    struct leaf *l = object_leaf_find(o, page);
    if (l && n <= LEAF_PAGES - slot)
        (void)leaf_each(l, slot, slot + (unsigned)n, &each); /* no sleep since: it is there (LF2) */
    else
        leaves_in(o, page, page + n, leaf_each, &each);
    return 0;
}
/* leaf_portion returns the end of a portion of [slot, end), short enough where each page is looked
 * at in each of the leaf's users. Leaf locked. */
unsigned leaf_portion(const struct leaf *l, unsigned slot, unsigned end);
/* leaf_charge charges n frames to the owner, who lives while the object is not dead. A dead one
 * gets no leaf more. Object locked. */
bool leaf_charge(struct object *o, uint64_t n);
/* leaves_freed notes of pages without a leaf that they were freed (LF3); `oldest`: what the oldest
 * snapshot sees. */
void leaves_freed(struct object *o, struct freed new, uint64_t oldest);
struct leaf ***leaf_tables_new(uint64_t n); /* empty ones; NULL: no memory. No lock is held */
void leaves_free(struct object *o); /* with the object */

/* object_table_frames: the table of the leaves' tables, which the owner is charged for. */
static inline uint64_t object_table_frames(const struct object *o)
{
    return o->table_count * sizeof *o->tables / PAGE_BYTES;
}

/* OBJECT_CALL(kd_object_pin, 0) { ... }: a HANDLE_CALL whose argument 0 is a manager's object. */
#define OBJECT_CALL(name, argument)                                                               \
    HANDLE_CALL(name, struct object *o, HANDLE_OBJECT, KD_RIGHT_MANAGE, argument)

/* ---- sweep.c: taking rights by force ---- */
struct unmap {
    struct process *only;    /* views of this process; NULL: all */
    int reason;              /* active views that lose a PTE are doomed with it */
    bool dying;              /* the copies of committing views go too: nobody will publish them */
    bool stale;              /* only bits of masks without an entry go */
    bool waits;              /* a call works on what goes next (QU3) */
    uint64_t newest;         /* the largest sequence of a page that was swept */
    struct debt debt;
    struct list frames;      /* of copies and pages that went: free behind the shootdown (FR1) */
};
#define UNMAP(u, ...) struct unmap u = {__VA_ARGS__, .frames = LIST_INIT((u).frames)}
/* unmap_page takes the page's PTE in the views that `u` means. Leaf locked. */
void unmap_page(struct leaf *l, unsigned slot, struct unmap *u);
/* unmap_end pays the debt of all pages by one shootdown, and frees what went. Their leaf is still
 * locked. */
void unmap_end(struct unmap *u);
leaf_fn leaf_unmap;          /* both for a portion of a leaf, which it locks; arg: struct unmap */
/* object_die ends an object whose manager is gone or destroys it: a power cut for the object. Not
 * if it is to be unused, and is not: false. */
bool object_die(struct object *o, bool unused);
/* object_used tells whether somebody has the object, or its manager has not all of it. Locked. */
static inline bool object_used(const struct object *o)
{
    return !list_empty(&o->attachments) || __atomic_load_n(&o->dirty, __ATOMIC_RELAXED) ||
           __atomic_load_n(&o->container_lock.state, __ATOMIC_RELAXED);
}

/* ---- page.c ---- */
/* page_drop_filling frees the frame of a page that is on its way, if it is. Leaf locked. */
void page_drop_filling(struct leaf *l, struct page *p);
/* waits_end tells the page's waiters that it came, or which rights they have, or the manager's
 * error. `number`: only who asked this question has them, others look again; 0: all. False: nobody
 * asks it. Leaf locked. */
bool waits_end(struct leaf *l, unsigned slot, int error, unsigned rights, uint32_t number);
/* object_supply_old takes a page for the snapshots whose number is s->csn (old.c). 0; -ESRCH: there
 * is none; -errno. */
int object_supply_old(struct object *o, const struct kd_supply *s);

#endif
