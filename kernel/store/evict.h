/* evict.h - pages leave memory, and threads wait for the room (evict.c). */
#ifndef KERNEL_EVICT_H
#define KERNEL_EVICT_H

#include "store/object.h"

void evict_init(void);

/* evict_add and evict_remove: a page comes to, or leaves, the lists of resident pages; `used`: by
 * its next version, which takes its place. Leaf
 * locked. */
void evict_add(struct leaf *l, unsigned slot);
void evict_remove(struct frame *f, bool used);
/* none of their pages is there: they may be forgotten; or not */
void evict_leaves(struct leaf *l[], unsigned n, bool bare);
void evict_cleaned(struct frame *f);            /* its page is not dirty any more */
void evict_wake(void);
/* evict_limit sets how many pages of o's container may be in memory, ~0: any, and has those beyond
 * go, but for what has to be cleaned: that goes before another page comes. No locks held. */
void evict_limit(struct object *o, uint64_t most);
/* evict_short says that memory was short when evict_still_short() looked last. Atomic; each first
 * write reads it. */
extern bool evict_short;
bool evict_still_short(void);
/* evict_frame takes a frame for the contents of a page (not zeroed), and waits for eviction and
 * cleaning. NULL: there will be none, or killed. No locks held. */
must_check struct frame *evict_frame(enum frame_use use);
/* evict_page is evict_frame for a page of o that is to come; where o has all the pages that it may
 * have, others go first (evict_room). NULL: also because none can; `wait` false: or not at once.
 * evict_page_back frees it if it did not become the page. */
must_check bool evict_room(struct object *o, struct frame *f, bool wait);
static inline struct frame *evict_page(struct object *o, bool wait)
{
    struct frame *f = evict_frame(FRAME_PAGE);
    return f && o->most != ~0ull && !evict_room(o, f, wait) ? NULL : f;
}
void evict_page_back(struct object *o, struct frame *f);
/* evict_wait waits for some frames. `vain`: of evict_vain() before. Where nothing can be evicted,
 * copies of the caller's own transaction go to the log, or else the largest program ends (limit.h).
 * False: that does not help, or killed. No locks held. */
uint64_t evict_vain(void);
bool evict_wait(uint64_t *vain);
/* evict_more is for a caller that found no frame, however far into the reserve it may go: it has a
 * few hundred pages evicted. `one`: single frames are enough, so it waits in the queue for them
 * (EV9). evict_together is for one that found no `count` frames that lie together, or that fails
 * without more memory: it frees some aligned pieces of memory in which only pages lie. False:
 * nothing could be evicted, or single frames are wanted and pages are not what fills the memory.
 * No locks held. */
bool evict_more(bool one);
bool evict_together(size_t count);
/* evict_forgotten lists what the evictor is to free when no thread can use it any more (LF2):
 * frames, by link, and the CPUs to shoot at before. */
struct forgotten { struct list leaves, frames; uint64_t cpus; };
#define FORGOTTEN_INIT(f) {LIST_INIT((f).leaves), LIST_INIT((f).frames), 0}
extern struct forgotten evict_forgotten;
void forgotten_move(struct forgotten *from, struct forgotten *to); /* one of them is that */
/* leaf_forget adds the leaf, and those around it within the reach of a page table, to what was
 * forgotten, if nothing of them is in use, and their object is dead, or is not. False: none. */
bool leaf_forget(struct leaf *l, bool dead, struct forgotten *gone);
/* leaves_stock adds leaves to the stock, of which new ones are made, and frees what is too much, in
 * portions; true: there is more to do. */
bool leaves_stock(struct list *leaves, uint64_t most);
/* evict_advise makes the page the last to go, or the first; false: it is in no list. Leaf
 * locked. */
bool evict_advise(struct leaf *l, unsigned slot, bool needed);
/* evict_now has those of these pages go that are clean and may, and counts them in a long. */
unsigned evict_now(struct leaf *l, unsigned slot, unsigned end, void *count);
/* evict_used tells whether the page was used since it was last asked, or looked at by the clock.
 * Leaf locked. */
bool evict_used(struct leaf *l, unsigned slot);
/* evict_slow_writer is the high-water mark: while too many of o's pages are dirty, a transaction
 * that is to write one more waits a moment for o's manager. Reads and commits never do. No locks
 * held. */
void evict_slow_writer(struct object *o);
uint64_t evict_resident_count(void);

/* ---- between clock.c, evict.c and together.c ---- */
extern struct lock evict_lock;
extern uint64_t bare_count;

/* clock_charge counts f, which is to hold a page of o (EV7). False: the container has all that it
 * may have. */
must_check bool clock_charge(struct object *o, struct frame *f);
bool never_cleaned(const struct object *o); /* its manager has closed its port's credits */
/* bare_turn is the leaf without resident pages whose turn was the longest ago, with a reference to
 * its object; or NULL. */
struct leaf *bare_turn(void);
/* A candidate is a page that is to be looked at, with those of its group; its object is kept alive
 * by the caller. clock_candidate: of a frame that stands in a list; evict lock held. */
struct candidate {
    struct leaf *leaf;
    struct frame *frame;
    unsigned slot;
    bool used;
    uint64_t group;
};
struct candidate clock_candidate(struct frame *f);
/* clock_first tells the first pages of a list, `most` at most, and one of neighbours in a group.
 * All go to its end; it returns how many. */
unsigned clock_first(struct object *o, enum place where, unsigned most, struct candidate found[],
                     unsigned *n);
/* clock_age tells of candidates whether they, or others of their groups, were used since then.
 * clock_look does with a page and its group what follows from that; what may go does, its frames
 * into `gone`, if that is not NULL. Tells of the page. It takes two looks to find what is not in
 * use. */
void clock_age(struct candidate c[], unsigned n);
enum look { LOOK_FREED, LOOK_DIRTY, LOOK_CLEAN, LOOK_USED, LOOK_BUSY };
enum look clock_look(const struct candidate *c, struct list *gone);

/* ---- right.c: what happens to rights; view and leaf locked, where nothing else is said ---- */
/* A reach keeps a view locked, and its table known, for several calls; {0}: none. */
struct reach { struct view *view; vaddr_t base; pte_t *ptes; };
void reach_end(struct reach *r);
/* right_age tells whether the page in f was used since the last call, and makes ACCESSED USED,
 * without a flush. No leaf need be locked. */
bool right_age(struct reach *r, const struct page *p, vaddr_t at, const struct frame *f);
/* right_hold takes the page's frame out of the entry; a transaction that used it keeps the right as
 * HELD. False: the view has a private copy in memory again (KD_TXN_UNSPILL), so its base stays. */
struct debt;
bool right_hold(struct reach *r, struct view *v, struct leaf *l, unsigned slot, struct debt *debt);
/* right_forget takes the right to a page that is away if it is HELD, and `held`. False: the view
 * has another one there, or that stays. */
bool right_forget(struct view *v, struct page *p, vaddr_t at, bool held);

#endif
