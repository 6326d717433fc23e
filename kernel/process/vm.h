/*
 * vm.h - a process's own memory: regions in slot 0, below VM_END. Contract in vm.c.
 */
#ifndef KERNEL_VM_H
#define KERNEL_VM_H

#include "memory/frame.h"
#include "process/process.h"

struct node;

#define VM_START     0x10000ull         /* nothing is mapped below: a null pointer faults */
#define VM_IMAGE_END 0x4000000000ull    /* programs and their heaps lie below, mappings above */
#define VM_END       0x7ffff00000ull    /* the first thread's stack ends here, within slot 0 */
#define VM_STACK_BYTES (8ull << 20)     /* at most; it begins with one step, and grows by steps */
#define VM_STACK_STEP_BYTES (256ull << 10)

enum { VM_READ = 1, VM_WRITE = 2, VM_EXECUTE = 4 };           /* Linux's PROT_* */
enum { VM_FIXED = 1, VM_NO_REPLACE = 2 };

/* Frames that several processes map: each region of them has a reference. fork leaves it out. */
struct vm_memory {
    uint32_t references;                 /* atomic */
    uint64_t pages;
    struct frame *frames[];
};
must_check struct vm_memory *vm_memory_new(uint64_t pages); /* zeros; NULL: none. No locks */
void vm_memory_get(void *memory);
void vm_memory_put(void *memory);        /* the last one breathes; no locks */
/* vm_memory_map maps all of it, where p has not done that. The address, or -ENOMEM. */
must_check long vm_memory_map(struct process *p, struct vm_memory *m);

/* vm_source: the bytes that a mapping shows. node and memory NULL: zeros. Bytes at and after
 * file_bytes are zeros, too; a page for which the file has no byte left is an error. */
#define VM_WHOLE_FILE (~0ull)            /* file_bytes: what there is when a page is filled */
struct vm_source {
    struct node *node;
    struct vm_memory *memory;            /* or NULL */
    uint64_t offset_bytes, file_bytes;
    bool shared;                         /* of bytes that never change: it never becomes writable */
};

struct region {
    struct list link;
    vaddr_t start, end;
    unsigned protection;
    struct vm_source source;
};
/* region_after: the first region that ends behind the address; or NULL. space_lock held. */
struct region *region_after(struct process *p, vaddr_t at);

/* vm_copy_space copies (fork) all regions and pages into an empty, unused space. -ENOMEM. */
must_check int vm_copy_space(struct process *to, struct process *from);
/* vm_exchange exchanges (execve) two spaces, used by the calling thread alone, which reloads. */
void vm_exchange(struct process *a, struct process *b);

/* vm_map maps [at, at + bytes); without VM_FIXED `at` is a hint. bytes > 0. The address, or
 * -EINVAL, -EACCES (writable and executable), -ENOMEM, -EEXIST (VM_NO_REPLACE). */
must_check long vm_map(struct process *p, vaddr_t at, uint64_t bytes, unsigned protection,
                       unsigned flags, const struct vm_source *source);
must_check int vm_unmap(struct process *p, vaddr_t at, uint64_t bytes);
must_check int vm_protect(struct process *p, vaddr_t at, uint64_t bytes, unsigned protection);
vaddr_t vm_break(struct process *p, vaddr_t end);   /* the new end, or the old one: it failed */
/* vm_forget frees the frames but keeps the region, zero on demand (madvise). */
must_check int vm_forget(struct process *p, vaddr_t at, uint64_t bytes);
/* vm_populate makes the pages resident (madvise), of what is not kept for others, and ends no
 * program for that: pages of containers go. -ENOMEM: no memory; -EFAULT, -EACCES, -EINVAL, -EIO. */
must_check int vm_populate(struct process *p, vaddr_t at, uint64_t bytes);

/* vm_own: is all of the range the process's own memory, none of it in the store region, so that a
 * touch waits for no manager? 0, -EFAULT, -EINVAL. */
static inline int vm_own(vaddr_t at, uint64_t bytes)
{
    return !user_range_ok(at, bytes)                         ? -EFAULT
           : at < KD_WINDOW_END && at + bytes > KD_STORE_BASE ? -EINVAL
                                                             : 0;
}
/* vm_pin faults one page in and pins its frame (frame_unpin). 0, -EFAULT, -ENOMEM. May sleep. */
must_check int vm_pin(struct process *p, vaddr_t at, bool write, struct frame **out);
/* vm_copy_to copies into another process, or one that does not run yet. 0, -EFAULT, -ENOMEM. */
must_check int vm_copy_to(struct process *p, vaddr_t at, const void *from, size_t bytes);

#endif
