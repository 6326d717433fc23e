/* evict.h - pages leave memory, and threads wait for the room (evict.c). */
#ifndef KERNEL_EVICT_H
#define KERNEL_EVICT_H

#include "store/view.h"

/* evict_add and evict_remove: a page comes to, or leaves, the lists of resident pages; `used`: by
 * its next version, which takes its place. Leaf locked. */
void evict_add(struct leaf *l, unsigned slot);
void evict_remove(struct frame *f, bool used);
/* evict_leaves: none of their pages is there, so they may be forgotten; or not */
void evict_leaves(struct leaf *l[], unsigned n, bool bare);
void evict_cleaned(struct frame *f);            /* its page is not dirty any more */
/* evict_limit sets how many pages of o's container may be in memory, ~0: any, and has those beyond
 * go, but for what has to be cleaned: that goes before another page comes. No locks held. */
void evict_limit(struct object *o, uint64_t most);
/* evict_short says that memory was short when evict_still_short() looked last. Atomic; each first
 * write reads it. */
extern bool evict_short;
bool evict_still_short(void);
/* evict_page is evict_frame for a page of o that is to come; where o has all the pages that it may
 * have, others go first (evict_room). NULL: also because none can; `wait` false: or not at once.
 * evict_page_back frees it if it did not become the page. */
must_check bool evict_room(struct object *o, struct frame *f, bool wait);
static inline struct frame *evict_page(struct object *o, bool wait)
{
    struct frame *f = evict_frame(FRAME_PAGE);
    return f && o->most != ~0ull && !evict_room(o, f, wait) ? NULL : f;
}
must_check struct frame *evict_page_zeroed(struct object *o); /* waits; of zeros */
void evict_page_back(struct object *o, struct frame *f);
/* evict_last is the last resort where nothing can be evicted: copies of the caller's transaction go
 * to the log; or some that managers have in hand go on; or the largest program ends (limit.h). */
bool evict_last(void);
/* evict_forgotten lists what the evictor is to free when no thread can use it any more (LF2):
 * frames, by link, and the CPUs to shoot at before. */
struct forgotten { struct list leaves, frames; uint64_t cpus; };
#define FORGOTTEN_INIT(f) {LIST_INIT((f).leaves), LIST_INIT((f).frames), 0}
extern struct forgotten evict_forgotten;
void forgotten_move(struct forgotten *from, struct forgotten *to); /* one of them is that */
/* evict_tables has the evictor free the table of an object that is dead and swept, without leaves:
 * who has a handle keeps the object, and pays for no memory. */
void evict_tables(struct object *o);
/* leaf_forget adds the leaf, and those around it within the reach of a page table, to what was
 * forgotten, if nothing of them is in use, and their object is dead, or is not. False: none. */
bool leaf_forget(struct leaf *l, bool dead, struct forgotten *gone);
/* leaves_stock adds leaves to the stock, of which new ones are made, and frees what is too much, in
 * portions; true: there is more to do. */
bool leaves_stock(struct list *leaves, uint64_t most);
/* evict_advise makes the page the last to go, or the first; false: in no list. Leaf locked. */
bool evict_advise(struct leaf *l, unsigned slot, bool needed);
/* evict_now has those of these pages go that are clean and may, and counts them in a long. */
unsigned evict_now(struct leaf *l, unsigned slot, unsigned end, void *count);
/* evict_used tells whether the page was used since it was last asked, or looked at by the clock.
 * Leaf locked. */
bool evict_used(struct leaf *l, unsigned slot);
/* evict_slow_writer is the high-water mark: while too many of o's pages are dirty, a transaction
 * that is to write one more waits a moment for o's manager, no read or commit. No locks held. */
void evict_slow_writer(struct object *o);

/* ---- between clock.c, evict.c and together.c ---- */
extern struct lock evict_lock;
extern uint64_t bare_count;

/* clock_charge counts f, which is to hold a page of o (EV7). False: the container has all that it
 * may have. */
must_check bool clock_charge(struct object *o, struct frame *f);
/* never_cleaned: its manager has closed its port's credits. */
static inline bool never_cleaned(const struct object *o)
{
    return o->commit_port && o->commit_port->closed;
}
/* page_stays tells, for a look without a lock, that the page cannot go, used or not. */
static inline bool page_stays(const struct leaf *l, const struct page *p)
{
    return p->flags & PAGE_PINNED || (p->flags & PAGE_DIRTY && never_cleaned(l->object));
}
/* bare_turn is the leaf without resident pages whose turn was the longest ago, with a reference to
 * its object; or NULL. */
struct leaf *bare_turn(void);
/* A candidate is a page that is to be looked at, with those of its cluster, where that has a fixed
 * size, but few enough for one look (EV6). Its object is kept alive by the caller. clock_candidate
 * makes one of a frame that stands in a list; evict lock held. */
struct candidate {
    struct leaf *leaf;
    struct frame *frame;
    struct page *page;
    uint64_t cluster;        /* bits of its slots */
    unsigned slot;
    bool used;
};
enum { SLOT_MASK = LEAF_PAGES - 1, ZEROS = 0x8000 }; /* of frame->flags; EV11 */
static inline unsigned cluster_size(const struct object *o)
{
    return MIN(MAX(__atomic_load_n(&o->cluster_fixed, __ATOMIC_RELAXED), 1u), 8u);
}
static inline struct candidate clock_candidate(struct frame *f, unsigned cluster_size)
{
    struct leaf *l = f->owner;
    unsigned slot = f->flags & SLOT_MASK;
    uint64_t cluster = ((1ull << cluster_size) - 1) << (slot & ~(cluster_size - 1));
    return (struct candidate){l, f, &l->pages[slot], cluster, slot, false};
}
/* clock_first tells the first pages of a list, `most` at most, and one of neighbours in a cluster.
 * All go to its end; it returns how many. */
unsigned clock_first(struct object *o, enum place where, unsigned most, struct candidate found[],
                     unsigned *n);
/* A look at a page ends with what became of it. It takes two to find what is not in use. */
enum look { LOOK_FREED, LOOK_DIRTY, LOOK_CLEAN, LOOK_USED, LOOK_BUSY };
/* clock_look looks at a page and its cluster: what may go does, its frames into `gone`, if that is
 * not NULL; the others go where they belong in the lists. It tells of the page. */
enum look clock_look(struct candidate *c, struct list *gone);
/* clock_aside does it for those, of n, for which no leaf need be locked, and counts them in seen[];
 * it returns how many stay in c[]. `take`: those that are not used are to go. */
unsigned clock_aside(struct candidate c[], unsigned n, bool take, uint64_t seen[]);

/* ---- right.c: what happens to rights; leaf locked, where nothing else is said ---- */
/* A reach keeps a view locked, and its table known, for several calls; {0}: none. */
struct reach { struct view *view; vaddr_t base; pte_t *ptes; };
void reach_end(struct reach *r);
/* right_age tells of candidates whether they, or others of their clusters, were used since the last
 * call, and makes ACCESSED USED, without a flush. No leaf need be locked; what comes meanwhile is
 * not seen then. */
void right_age(struct candidate c[], unsigned n);
/* right_hold takes the page's frame out of all entries; a transaction that used it keeps the right
 * as HELD. But the page stays if it was used since right_age looked (`anyway`: it goes), or is the
 * base of a private copy that came back to memory (KD_TXN_UNSPILL); some entries may have gone. */
struct debt;
enum hold { HOLD_GONE, HOLD_USED, HOLD_COPY };
enum hold right_hold(struct reach *r, struct leaf *l, unsigned slot, bool anyway, struct debt *);
/* right_forget takes the right to a page that is away if it is HELD, and `held`. False: the view
 * has another one there, or that stays. */
bool right_forget(struct view *v, struct page *p, vaddr_t at, bool held);

#endif
