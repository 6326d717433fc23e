/*
 * right.h - rights: the page table entries of views. A view's page table is the lock table (TR1: a
 * right is a PTE), and each change of an entry is a function here, in grant.h or in right.c.
 * Callers say what is to happen, never how. The states of an entry, when TLBs are flushed, and
 * which thread may change which entry: rights.md.
 *
 * Locks: leaf and view, where no others are named.
 */
#ifndef KERNEL_RIGHT_H
#define KERNEL_RIGHT_H

#include "store/view.h"

enum right_state {
    RIGHT_EMPTY = 1, RIGHT_SHARED = 2, RIGHT_COPY = 4, RIGHT_FROZEN = 8, RIGHT_HELD = 16,
    RIGHT_SPILLED = 32,
    RIGHT_PLAIN = 64, RIGHT_WRONG = 128
};

enum { RIGHT_REACH_BYTES = 512 * PAGE_BYTES }; /* of one page table */
#define PTE_USED PTE_SOFT0
#define PTE_HELD PTE_SOFT2
#define PTE_SHARED (PTE_PRESENT | PTE_USER | PTE_NX)
#define PTE_PRIVATE (PTE_SHARED | PTE_WRITE | PTE_ACCESSED | PTE_DIRTY | PTE_COPY)

/* A debt is the CPUs whose TLBs may hold entries that were taken; {0}: none. */
struct debt { uint64_t cpus; };

/* In view->last.rights, instead of KD_RIGHT_WRITE: the object has a guard. */
enum { RIGHTS_GUARDED = 1 << 30, RIGHTS_STORE = KD_RIGHT_WRITE | RIGHTS_GUARDED };

static inline enum right_state right_state(pte_t e)
{
    if (!pte_present(e))
        return e == 0          ? RIGHT_EMPTY
               : e == PTE_HELD ? RIGHT_HELD
               : e & PTE_COPY  ? RIGHT_SPILLED
                               : RIGHT_WRONG;
    if (e & PTE_COPY)
        return pte_writable(e) ? RIGHT_COPY : RIGHT_FROZEN;
    return pte_writable(e) ? RIGHT_PLAIN : RIGHT_SHARED;
}
/* right_used: the view has it, and a transaction has used it. */
static inline bool right_used(pte_t e)
{
    return e & (PTE_COPY | PTE_HELD | PTE_ACCESSED | PTE_USED);
}
/* pte_copy finds the struct of a private copy, whose entry is e: its frame's owner, or named by a
 * SPILLED e. */
static inline struct copy *pte_copy(pte_t e)
{
    return pte_present(e)
               ? frame_at(pte_frame_paddr(e))->owner
               : (struct copy *)((char *)arch_phys(0) + (pte_frame_paddr(e) >> PAGE_SHIFT << 4));
}

/* ---- looking; view locked, or by the owner thread ---- */
/* right_entry finds the view's entry, mostly in its owner's last table; NULL: none. right_at: 0. */
static inline pte_t *right_entry(const struct view *v, vaddr_t at)
{
    if (likely(at - v->last.base < RIGHT_REACH_BYTES && v->last.ptes))
        return &v->last.ptes[(at - v->last.base) >> PAGE_SHIFT];
    return v->table ? arch_pte(v->table, at, NULL) : NULL;
}
static inline pte_t right_at(const struct view *v, vaddr_t at)
{
    pte_t *pte = right_entry(v, at);
    return pte ? pte_load(pte) : 0;
}
/* right_check returns the rule that the view's entry e for a page breaks, or NULL: the states above
 * as code. Leaf locked, too. */
const char *right_check(const struct view *v, const struct leaf *l, unsigned slot, pte_t e);

/* ---- what others do to a view's rights ---- */

/* right_take takes whatever the entry is, and returns it. */
pte_t right_take(struct view *v, struct page *p, vaddr_t at, struct debt *debt);
/* right_take_unused takes a right that was never used. True: none is left. */
bool right_take_unused(struct view *v, struct page *p, vaddr_t at, struct debt *debt);
/* right_take_version takes an entry that maps this version; a view without one is no user. */
void right_take_version(struct view *v, struct page *p, vaddr_t at, const struct frame *version,
                        struct debt *debt);
/* right_keep gives a holder the right to a page, for which it has a page table, as HELD. */
void right_keep(struct view *holder, struct leaf *l, unsigned slot);
/* what the evictor does to rights: evict.h */
/* right_pay shoots down, with the leaf locked under which the debt was made (KR1) */
void right_pay(struct debt *debt);

/* ---- private copies; the view locked, by its owner or a manager that has claimed it ---- */
/* right_freeze takes the right to store to a copy. `many`: right_flush_due is to follow */
void right_freeze(struct view *v, vaddr_t at, bool many);
void right_guard(struct view *v, vaddr_t at); /* a copy gets the key; by the owner thread */
void right_retire(struct view *v, vaddr_t at);             /* published; from the log: HELD */
/* right_retire_item: the page's frame is f, and the copy's may be freed when the debt is paid. */
void right_retire_item(struct view *v, vaddr_t at, const struct frame *f, struct debt *debt);
/* right_drop_copy takes the entry of a copy, and flushes this CPU; leaf locked. */
void right_drop_copy(struct view *v, struct page *p, const struct copy *c);
void right_spill(struct view *v, const struct copy *c, struct debt *debt);
void right_unspill(struct view *v, const struct copy *c);  /* c->frame has its contents */

/* right_kind: the view, which has no rights now, is one of right_snapshots from now on, or is not.
 * Entries are made behind that: with a leaf locked no other view has one of a snapshot there. */
void right_kind(struct view *v, bool snapshot);
extern struct vmask right_snapshots;

/* ---- begin and end; view locked, by the owner where nobody else is named ---- */
/* somebody waits for it: it goes at the end. By anybody */
void right_owe(struct view *v, vaddr_t at);
void right_owe_all(struct view *v);              /* the same for all rights */
/* those that are owed; all; what a retry wants for itself */
void right_drop(struct view *v, bool all, bool want_x);

/* right_flush_due pays what is due to the view, whose table this CPU has loaded. */
HOT void right_flush_due(struct view *v)
{
    if (v->stale) {
        arch_flush_all();
        v->stale = false;
    }
}

/* ---- aliases of entries, in windows ---- */
/* right_alias copies the entry of the page that a window shows at `at`. 0; -EAGAIN: that gives no
 * such access now; -ENOMEM: no page table. */
must_check int right_alias(struct view *v, vaddr_t at, bool write);
/* right_alias_drop takes the aliases of an entry (WI2), by a flush unless the caller owes one. View
 * locked. */
void right_alias_drop(struct view *v, vaddr_t at, bool owed) __attribute__((cold));
void right_aliases_drop(struct view *v); /* all of the view, with their tables; view locked */

/* right_next looks at a portion of the entries from *at on, which becomes how far it came, for one
 * with any of the bits. 0: there is none, and at tables.to there are no more. View locked. */
pte_t right_next(const struct view *v, vaddr_t *at, pte_t bits);
/* ---- tables ---- */
/* view_pte_make: the entry for `at`, with its tables made; NULL: no memory, or the process's limit.
 * View locked. */
pte_t *view_pte_make(struct view *v, vaddr_t at);
extern struct vmask view_tabled; /* views that ever had such tables; atomic */
/* so many of its page tables are free, or will be; view locked */
void view_tables_gone(struct view *v, uint64_t n);
void right_tables_new(struct view *v, paddr_t table); /* an empty one; view locked */
void right_tables_free(struct view *v);  /* all rights with it; owner thread, no locks */

#endif
