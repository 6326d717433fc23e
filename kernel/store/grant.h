/*
 * grant.h - grants: what a fault writes into its own view's page table: the hot part
 * of rights (right.h), inline.
 *
 * Locks: the leaf's, and the view's for copies; by the owner thread.
 */
#ifndef KERNEL_GRANT_H
#define KERNEL_GRANT_H

#include "store/right.h"

/* right_user_add names the view in the masks, before its entry is made (PG3). */
HOT void right_user_add(const struct view *v, struct leaf *l, struct page *p)
{
    vmask_add(&p->mask, &v->self);
    vmask_add(&l->users, &v->self);
}

/* right_share maps f, a version of the page, as used: the load that faulted uses it. */
HOT void right_share(const struct view *v, struct leaf *l, struct page *p, pte_t *pte,
                     const struct frame *f)
{
    right_user_add(v, l, p);
    pte_t was = pte_exchange(pte, pte_make(frame_paddr(f), PTE_SHARED | PTE_ACCESSED));
    assert((was & ~PTE_HELD) == 0); /* TR1 */
}

/* right_neighbour maps a page near the one asked for, as not used. The leaf's sum names the view
 * already. */
HOT void right_neighbour(unsigned view, struct page *p, pte_t *pte)
{
    p->mask.word[view / 64] |= 1ull << view % 64;
    pte_store(pte, pte_make(frame_paddr(p->frame), PTE_SHARED));
}

/* right_copy maps f, the private copy; no other view has a right. A TLB may hold what was mapped
 * before. */
HOT void right_copy(struct view *v, struct leaf *l, struct page *p, pte_t *pte,
                    const struct frame *f, vaddr_t at)
{
    right_user_add(v, l, p);
    p->writer = (int16_t)v->id;
    if (__builtin_expect(v->aliases, 0))
        right_alias_drop(v, at, false); /* WI2 */
    pte_t was = pte_exchange(pte, pte_make(frame_paddr(f), PTE_PRIVATE));
    assert(!(was & PTE_COPY)); /* PG2 */
    if (pte_present(was))
        arch_flush_page(at);
}

/* right_exclusive makes a shared right an exclusive one without a copy; it counts as used. */
static inline void right_exclusive(const struct view *v, struct page *p, pte_t *pte)
{
    for (pte_t e = pte_load(pte); !pte_compare_exchange(pte, &e, e | PTE_USED);)
        continue;
    p->writer = (int16_t)v->id;
}

/* right_plain maps a page that is not transactional. */
HOT void right_plain(const struct view *v, struct leaf *l, struct page *p, pte_t *pte, bool write)
{
    right_user_add(v, l, p);
    pte_exchange(pte, pte_make(frame_paddr(p->frame),
                               PTE_SHARED | PTE_ACCESSED | (write ? PTE_WRITE | PTE_DIRTY : 0)));
}

#endif
