/*
 * stacked_manager.h - a stacked manager for tests, over own_manager.h's object or another one.
 *
 * It serves pages each of which is kept in a page of the object below, word by word XOR a key. So
 * whatever is committed through it must be found below, in the same publication.
 */
#ifndef STACKED_MANAGER_H
#define STACKED_MANAGER_H

#include "own_manager.h"

struct stacked {
    int port, commit_port, object;
    uint64_t base, below;               /* where its pages lie, and the pages that keep them */
    uint64_t key, pages;
    /* what a helper does beside its work; its result refuses the transaction */
    int (*beside)(struct stacked *s, uint64_t view);
    volatile bool blind;                /* it looks at no changes, and keeps none */
    volatile long commits, outcome;     /* received; of the last helper */
    pthread_t pager, committer;         /* the threads of stacked_start; the last for commits */
    volatile int serving;               /* threads that stacked_start began and that serve still */
    volatile uint64_t helpers, helpers_high; /* views that came with the last COMMIT */
};

/* Makes the object over these managers' ports, for `pages` pages kept from `below` on, and starts
 * a thread for its pages and `threads` for its commits. 0 or -errno. */
long stacked_start(struct stacked *s, const int *ports, unsigned count, uint64_t pages,
                   unsigned threads);
/* The same for a program of one thread: one port, and nobody is attached. */
long stacked_make(struct stacked *s, const int *ports, unsigned count, uint64_t pages);

/* Waits for a message at one of its ports, and answers it. False: the port is no more. */
bool stacked_serve(struct stacked *s, int at);

/* Reads a page in a snapshot, calls `between`, and supplies it, asked or not: 0 or -errno. */
long stacked_supply(struct stacked *s, uint64_t page, void (*between)(void));

static inline volatile uint64_t *word_at(uint64_t base, uint64_t page, unsigned i)
{
    return (volatile uint64_t *)(base + page * KD_PAGE_BYTES) + i;
}

#endif
