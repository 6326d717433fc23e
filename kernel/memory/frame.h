/*
 * frame.h - page frames: the RAM. Every frame has one struct; free ones form a list. Invariants FR1
 * to FR5: frame.c.
 */
#ifndef KERNEL_FRAME_H
#define KERNEL_FRAME_H

#include "arch.h"

struct frame {
    struct list link;    /* free list, or what its user likes (store/clock.c) */
    union {
        struct {
            uint32_t pins; /* atomic: I/O or kernel copies under way; a pinned frame is not freed.
                            * frame_unpin frees it when frame_free was called meanwhile */
            union {
                struct { uint8_t state, use; uint16_t flags; }; /* enum frame_state, frame_use */
                uint32_t state_flags; /* all at once (FR2) */
            };
        };
        uint64_t pins_state; /* all three at once (FR3): pins in the low half */
    };
    void *owner;         /* the page or version it belongs to; NULL for anonymous memory; of a free
                          * one FRAME_OF_ZEROS: it holds zeros, whoever freed it knew */
};
/* FRAME_LISTED: used, by a page that may be evicted (store/clock.c). */
enum frame_state { FRAME_RESERVED, FRAME_FREE, FRAME_USED, FRAME_DYING, FRAME_LISTED };

/* enum frame_use: what a used frame is for, and so how much of the reserve its allocation may use.
 * Up to FRAME_LEAF: nothing, their takers wait for more. Memory of managers that take pages off
 * others: most of it. The kernel's own pieces, whose takers do not wait: all of it. */
enum frame_use {
    FRAME_PAGE,                /* contents of pages: current, old, private */
    FRAME_MEMORY, FRAME_FILE,  /* of a process's own; of files in memory */
    FRAME_DATA,                /* of messages and calls under way */
    FRAME_RECORD, FRAME_LEAF,  /* struct copy; leaves and their tables */
    FRAME_MANAGER, FRAME_TABLE, /* memory of such a manager; page tables */
    FRAME_KERNEL,              /* kmem.c, stacks, devices */
    FRAME_UNUSED,              /* a free one; only counted */
    FRAME_USES
};
/* frame_alloc takes a zeroed frame, or NULL. frame_alloc_raw does not zero it. */
must_check struct frame *frame_alloc(enum frame_use use);
must_check struct frame *frame_alloc_raw(enum frame_use use);
void frame_free(struct frame *f);
void frames_free(struct list *frames); /* all of them, by link */
void frame_pin(struct frame *f);
void frame_unpin(struct frame *f);
/* frame_alloc_run takes contiguous frames, not zeroed, for devices, stacks and tables; NULL if
 * there are none. Freed one by one. */
#define FRAME_RUN_MAX 1024
must_check struct frame *frame_alloc_run(size_t count);
struct frame *frame_of(paddr_t pa);      /* NULL: no RAM there */
extern struct frame *frame_all;          /* of the page at 0; FR1 and the rest: frame.c */
#define FRAME_OF_ZEROS ((void *)&frame_all) /* no owner is there */
static inline struct frame *frame_at(paddr_t pa) /* of what is RAM */
{
    return &frame_all[pa / PAGE_BYTES];
}
static inline paddr_t frame_paddr(const struct frame *f)
{
    return (paddr_t)((uintptr_t)f - (uintptr_t)frame_all) * (PAGE_BYTES / sizeof *f);
}
static inline void *frame_memory(const struct frame *f) { return arch_phys(frame_paddr(f)); }
static inline struct frame *frame_of_memory(const void *p)
{
    return frame_at((paddr_t)((const char *)p - (const char *)arch_phys(0)));
}
size_t frame_free_count(void);
bool frame_spare(void);      /* more than the reserve is free */
/* A thread that waits for frames has FRAME_MEAL set aside between frame_wait_begin and
 * frame_wait_end (FR5). frame_promise tells whether there are any for the next one; then
 * frame_wait_end(true), called by that thread, gives them to its CPU, and it finds them if it does
 * not sleep before it looks. */
#define FRAME_MEAL 8u
void frame_wait_begin(void);
must_check bool frame_promise(void);
void frame_wait_end(bool promised);
size_t frame_total_count(void);
size_t frame_all_count(void);  /* of frame_all, holes and reserved memory included */
size_t frame_low_mark(void); /* below it, frame_alloc calls frame_seam.low */
void frame_init(void);       /* from the boot loader's memory map */
/* frame_check looks at FRAME_RUN_MAX frames from address `from` on, a multiple of their bytes, and
 * adds them to uses[]. False: a free one is in no block, or in two; it says so. */
bool frame_check(paddr_t from, uint64_t uses[FRAME_USES]);

/* kmem.c: kernel memory, zeroed, 16-byte aligned; NULL when there is none. */
must_check void *kalloc(size_t bytes);
must_check void *kalloc_raw(size_t bytes);     /* the same, not zeroed */
void kfree(void *p);
void kmem_init(void);

/* frame_seam: the functions that take frames back from pages; kernel/seams.c names them
 * (store/evict.c). */
struct frame_seam {
    /* low is called at every allocation that leaves fewer than the low mark: cheap, without frames'
     * lock, but with whatever lock the caller of frame_alloc holds. */
    void (*low)(void);
    /* take and the rest wait, no locks held: for an unzeroed frame. NULL: none, or killed. */
    struct frame *(*take)(enum frame_use use);
    /* wait is for a caller that found no frame: it waits for some. *vain is 0 at first. False:
     * there will be none, or the thread is killed. */
    bool (*wait)(uint64_t *vain);
    /* together is for a caller that found no `count` frames that lie together; pages for one that
     * found no frame, and has a limit of its own. False: none can be taken back. */
    bool (*together)(size_t count);
    bool (*pages)(void);
    /* can_wait tells whether the caller may wait in those: it holds no lock, and pages do not wait
     * for its process to go. */
    bool (*can_wait)(void);
};
extern const struct frame_seam frame_seam;

#endif
