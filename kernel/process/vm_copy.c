/*
 * vm_copy.c - a process's own memory as a whole: fork copies it, execve exchanges it.
 *
 * Invariants and locks: vm.c.
 */
#include "process/vm_private.h"

struct page_copy {
    struct process *to;
    const struct region *region; /* of the copy */
    int error;
    unsigned left;               /* pages until others have their turn */
};

enum { COPIED_AT_ONCE = 64 };     /* pages, and regions */

/* A page without any right keeps its frame, too. False: the rest is for the next time. */
static bool entry_copy(pte_t *pte, vaddr_t at, void *arg)
{
    struct page_copy *c = arg;
    if (!c->left)
        return false;
    c->left--;
    pte_t *new = arch_pte(c->to->home.table, at, &c->to->limits.tables);
    struct frame *f = new && limit_memory_left(c->to) ? frame_alloc(FRAME_MEMORY) : NULL;
    if (!f) {
        c->error = -ENOMEM;
        return false;
    }
    memcpy(frame_memory(f), arch_phys(pte_frame_paddr(*pte)), PAGE_BYTES);
    assert(*new == 0); /* VM4 */
    pte_exchange(new, pte_make(frame_paddr(f), region_flags(c->region->protection)));
    c->to->frames++;
    return true;
}

/* region_copy_pages copies a region's pages in portions, and waits for pages to go, but lets no
 * program end for its frames. The copy has some of what other threads of `from` change in between,
 * and its own region's rights (VM2). */
static void region_copy_pages(struct page_copy *c, struct process *from)
{
    for (vaddr_t at = c->region->start, end = c->region->end; !c->error && at < end;) {
        c->left = COPIED_AT_ONCE;
        lock_acquire(&from->space_lock);
        at = arch_pte_walk(from->home.table, at, end, entry_copy, c);
        lock_release(&from->space_lock);
        thread_breathe();
        if (c->error && limit_memory_left(c->to) && frame_seam.together(1))
            c->error = 0;
    }
}

/* regions_copy_some copies a portion of the regions from *at on. False: those were the last.
 * from->space_lock held. */
static bool regions_copy_some(struct process *to, struct process *from, vaddr_t *at, int *error)
{
    struct region *r = region_after(from, *at);
    for (unsigned n = 0; r && n < COPIED_AT_ONCE; n++, r = region_next(from, r)) {
        if (r->source.memory) {
            *at = r->end;
            continue;
        }
        struct region *copy = region_like(to, r);
        if (!copy) {
            *error = -ENOMEM;
            return false;
        }
        copy->start = MAX(r->start, *at); /* it may have grown into what was copied before */
        copy->source = source_skip(r->source, copy->start - r->start);
        to->limits.promised_bytes += promised_by(copy);
        list_push_back(&to->regions, &copy->link);
        *at = r->end;
    }
    return r;
}

/* vm_copy_space: other threads of `from` may store and map meanwhile: each page and each region is
 * as it was at some moment. */
int vm_copy_space(struct process *to, struct process *from)
{
    struct page_copy c = {.to = to};
    vaddr_t at = VM_START;
    for (bool more = true; more; thread_breathe()) {
        lock_acquire(&from->space_lock);
        more = regions_copy_some(to, from, &at, &c.error);
        to->brk.start = from->brk.start;
        to->brk.end = from->brk.end;
        lock_release(&from->space_lock);
    }
    list_each(struct region, r, &to->regions, link) {
        c.region = r;
        if (!c.error && !r->source.shared) /* what nobody changes is found again */
            region_copy_pages(&c, from);
    }
    return c.error;
}

#define EXCHANGE(field) \
    do { __auto_type kept_ = a->field; a->field = b->field; b->field = kept_; } while (0)

void vm_exchange(struct process *a, struct process *b)
{
    struct list kept = LIST_INIT(kept);
    lock_acquire(&a->space_lock); /* b is nobody's */
    list_move_all(&a->regions, &kept);
    list_move_all(&b->regions, &a->regions);
    list_move_all(&kept, &b->regions);
    EXCHANGE(home.table);
    EXCHANGE(region_count);
    EXCHANGE(limits.promised_bytes);
    EXCHANGE(frames);
    EXCHANGE(limits.tables);
    EXCHANGE(brk);
    lock_release(&a->space_lock);
}
