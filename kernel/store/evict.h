/* evict.h - which pages leave memory, and who waits for the room (evict.c). */
#ifndef KERNEL_EVICT_H
#define KERNEL_EVICT_H

#include "store/object.h"

void evict_init(void);

/* The lists of resident pages. Leaf locked. */
void evict_add(struct leaf *l, unsigned slot);
void evict_remove(struct frame *f);
void evict_leaf(struct leaf *l, bool bare);     /* none of its pages is there: it may be forgotten; or not */
void evict_cleaned(struct frame *f);            /* its page is not dirty any more */
void evict_look_again(void);                    /* a manager cleans nothing any more: a port is closed */
void evict_wake(void);
/* Fewer frames than the low mark were free when evict_still_short() looked last. Atomic; each first write reads it. */
extern bool evict_short;
bool evict_still_short(void);
/* A frame for the contents of a page (not zeroed); waits for eviction and cleaning. NULL: there is
 * none to be had, or killed. No locks held. */
must_check struct frame *evict_frame(void);
/* For whoever found no frame: waits for some. `vain`: of evict_vain() before. Where nothing can be
 * evicted, the largest program ends (limit.h). False: not even that helps, or killed. No locks held. */
uint64_t evict_vain(void);
bool evict_wait(uint64_t *vain);
/* For whoever needs frames that lie together and got none: evicts a few hundred pages more. False:
 * nothing could be evicted. No locks held. */
bool evict_more(void);
/* The page is the last to go, or the first. Leaf locked. Does it apply? */
bool evict_advise(struct leaf *l, unsigned slot, bool needed);
/* The high-water mark: while too many of o's pages are dirty, whoever wants to write one more waits a
 * moment for its manager. Reads and commits never do. No locks held. */
void evict_slow_writer(struct object *o);
uint64_t evict_resident_count(void);

#endif
