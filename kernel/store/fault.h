/* fault.h - loads and stores become rights: for one page, its neighbours, and what no transaction
 * serves (fault.c, cluster.c, fault_other.c). */
#ifndef KERNEL_FAULT_H
#define KERNEL_FAULT_H

#include "store/view.h"

/* view_touch gives the view's transaction the right that it wants to the page at `at`. 0;
 * -ECANCELED: doomed; -EFAULT: nothing lies there; -EACCES: it is open read-only; -EINVAL: it is
 * not transactional. */
must_check int view_touch(struct view *v, vaddr_t at, enum view_want want);

/* fault.c, for fault_other.c: */
/* leaf_memory finds memory for a leaf or a page table: pages that can go, or the transaction's own
 * copies, may fill it all. -EAGAIN: look again; -ECANCELED; -ENOMEM; `refused`, if not 0. */
RARE int leaf_memory(struct view *v, int refused);
/* fault_ended ends a fault that got no grant. 0, -ENXIO: the view goes on; -ECANCELED: doomed. */
RARE int fault_ended(struct view *v, int e);
__attribute__((noinline)) int store_touch(struct view *v, vaddr_t at, unsigned flags);

struct object *object_look_up(struct view *v, vaddr_t at, uint32_t generation);
/* view_object_at finds the object at `at`, first where the view found the last one. Not counted:
 * the reference is the view's. */
static inline struct object *view_object_at(struct view *v, vaddr_t at, uint32_t *rights)
{
    struct object *o = v->last.object;
    uint32_t generation = __atomic_load_n(&v->process->attach_generation, __ATOMIC_SEQ_CST);
    if (!o || v->last.generation != generation || at - o->base >= o->pages << PAGE_SHIFT)
        o = object_look_up(v, at, generation);
    *rights = v->last.rights;
    return o;
}

/* fault_other.c */
/* guard_allows: FT8, the view's last object has a guard, and the transaction has said that it
 * stores there, now or (its copy is in the log, or came back meanwhile) before. */
RARE bool guard_allows(struct view *v, vaddr_t at, enum view_want want);
/* guard_key: FT9, a copy in item mode is stored to by who has the key; the view's last object has a
 * guard. */
RARE void guard_key(struct view *v, vaddr_t at);
/* both -errno, after the program was ended or told, or 0: served. */
int fault_outside(vaddr_t at, unsigned flags); /* in the store region, but by no transaction */
RARE int table_memory(struct view *v); /* leaf_memory for a page table of the view's */
RARE int window_fault(vaddr_t at, unsigned flags);
int fault_memory(struct trap_frame *f, vaddr_t at, unsigned flags);

/* cluster.c */
/* cluster_grant maps neighbours of the page at `slot`, which was granted for reading, if they are
 * free and likely to be read. Leaf locked; at: its address; ptes: the view's entries of the leaf.
 * Never waits. */
void cluster_grant(struct view *v, struct leaf *l, unsigned slot, vaddr_t at, pte_t *ptes);
/* page_get asks the manager for the page, or for a right to it, and waits. Leaf locked on entry,
 * not on return. 0: it was given what it asked for, and the leaf stays until it is used. */
int page_get(struct view *v, struct leaf *l, unsigned slot, bool write);

/* old.c */
/* snapshot_asks: its manager has old versions of this object's pages. */
static inline bool snapshot_asks(const struct view *v, const struct object *o)
{
    return v->snapshot_rights && o->flags & KD_OBJECT_VERSIONS && v->txn.mode == KD_SNAPSHOT;
}
/* snapshot_look maps what the view's snapshot sees of the page. 0; 1: its manager is to be asked;
 * -ESTALE. Leaf locked. */
int snapshot_look(struct view *v, struct leaf *l, unsigned slot, pte_t *pte);

#endif
