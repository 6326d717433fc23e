/* vm_private.h - what vm.c shares with vm_fault.c and vm_copy.c, process.c and limit.c. */
#ifndef KERNEL_VM_PRIVATE_H
#define KERNEL_VM_PRIVATE_H

#include "process/vm.h"

#define VM_STACK_GUARD (VM_END - VM_STACK_BYTES - PAGE_BYTES) /* the page below it is nobody's */
#define VM_REGIONS_MAX 8192
enum { VM_REGIONS_A_FRAME = 32 };
must_check int vm_space_new(struct process *p);
void vm_space_free(struct process *p);         /* the last thread left user mode; not loaded */
bool vm_is_code(struct process *p, vaddr_t at);
void vm_check(struct process *p);              /* panics unless VM1 to VM3 hold */

/* region_at: the region that holds the address; or NULL. space_lock held. */
struct region *region_at(struct process *p, vaddr_t at);

/* region_like makes a copy of r, in no list; NULL: no memory, or too many regions. */
struct region *region_like(struct process *p, const struct region *r);

/* pays: a process that maps the frame is charged for it. */
static inline bool pays(const struct frame *f) { return f->state != FRAME_RESERVED; }

static inline uint64_t promised_by(const struct region *r)
{
    return r->protection ? r->end - r->start : 0;
}

static inline struct region *region_next(const struct process *p, const struct region *r)
{
    return r->link.next == &p->regions ? NULL : container_of(r->link.next, struct region, link);
}

/* region_before: the region before r, or the last one (r NULL); or NULL. */
static inline struct region *region_before(const struct process *p, const struct region *r)
{
    struct list *at = r ? r->link.prev : p->regions.prev;
    return at == &p->regions ? NULL : container_of(at, struct region, link);
}

static inline uint64_t pte_flags(unsigned protection)
{
    return PTE_PRESENT | PTE_USER | (protection & VM_WRITE ? PTE_WRITE : 0)
        | (protection & VM_EXECUTE ? 0 : PTE_NX);
}

/* region_flags: the flags of the entry of a page with these rights; without any right the entry is
 * not present. */
static inline uint64_t region_flags(unsigned protection)
{
    return protection ? pte_flags(protection) : PTE_SOFT0;
}

/* source_skip is the file part of a source, `skip` bytes further on. */
static inline struct vm_source source_skip(struct vm_source s, uint64_t skip)
{
    s.offset_bytes += skip;
    if (s.file_bytes != VM_WHOLE_FILE)
        s.file_bytes = s.file_bytes > skip ? s.file_bytes - skip : 0;
    return s;
}

#endif
