/*
 * right.h - rights: the page table entries of views. A view's page table is the lock table (TR1: a right is a PTE).
 *
 * PTEs of a view, below KD_STORE_END:
 *   EMPTY   0
 *   SHARED  present, read-only: the current version, or for a snapshot the one it sees
 *   COPY    present, PTE_COPY; writable until CM1 freezes it
 *   HELD    not present, PTE_HELD: the page was evicted, the right is kept
 *   SPILLED not present, PTE_COPY, and where its record is: the copy lies in the log (spill.c)
 * PTE_ACCESSED is set by the walker; the kernel moves it to PTE_USED. Neither set: never used.
 *
 * Locks: the view's, where no other is named.
 */
#ifndef KERNEL_RIGHT_H
#define KERNEL_RIGHT_H

#include "store/view.h"

#define PTE_USED PTE_SOFT0
#define PTE_COPY PTE_SOFT1
#define PTE_HELD PTE_SOFT2
#define PTE_SHARED (PTE_PRESENT | PTE_USER | PTE_NX)
#define PTE_PRIVATE (PTE_SHARED | PTE_WRITE | PTE_ACCESSED | PTE_DIRTY | PTE_COPY)

/* PTEs of private copies: a frame's owner is its record; a spilled one's is in the PTE. */
static inline bool pte_is_spilled(pte_t e) { return !pte_present(e) && e & PTE_COPY; }
static inline pte_t pte_spilled(const struct copy *c)
{
    uint64_t at = (uint64_t)((const char *)c - (const char *)arch_phys(0));
    return (at >> 4) << PAGE_SHIFT | PTE_COPY; /* records begin at multiples of 16 */
}
static inline struct copy *pte_copy(pte_t e) /* e has PTE_COPY */
{
    return pte_present(e) ? frame_of(pte_frame_paddr(e))->owner
                          : (struct copy *)((char *)arch_phys(0) + (pte_frame_paddr(e) >> PAGE_SHIFT << 4));
}

pte_t *view_pte(struct view *v, vaddr_t at);    /* NULL: EMPTY */
/* The private copy of a page that is in memory; NULL: none. View locked. */
struct copy *view_copy_at(struct view *v, vaddr_t page);
uint64_t view_cpu_bit(const struct view *v);    /* for arch_shootdown; after its PTE was changed */
void view_owe(struct view *v, vaddr_t at);      /* a right that goes at its end; view locked */
void view_drop_owed(struct view *v, bool all);  /* those, or all; view locked, the caller flushes */

#endif
