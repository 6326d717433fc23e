/* item.h - item mode: several transactions store to one page at the same time (item_page.c,
 * items.md). */
#ifndef KERNEL_ITEM_H
#define KERNEL_ITEM_H

#include "store/right.h"

/* words_each: each word i of an item copy; a page and all its copies have many. */
#define words_each(i, c)                                                                     \
    for (unsigned groups = (c)->groups, i; groups; groups &= groups - 1)                      \
        for (uint64_t k = (uint64_t)__builtin_ctz(groups), left = (c)->words[k];              \
             left && (i = (unsigned)k * 64 + (unsigned)__builtin_ctzll(left), true);          \
             left &= left - 1)
/* word_exchange: a snapshot may read the current one at this moment. */
static inline void word_exchange(uint64_t *now, uint64_t *own)
{
    uint64_t was = *now;
    __atomic_store_n(now, *own, __ATOMIC_RELEASE);
    *own = was;
}
/* item_copies: how many item copies the page has; leaf locked. */
static inline unsigned item_copies(const struct leaf *l, const struct page *p)
{
    return l->object->flags & KD_OBJECT_ITEMS ? p->copies : 0;
}
/* item_apart tells whether what v stores to is an item copy: it has not locked all of o (IT7). */
static inline bool item_apart(const struct view *v, const struct object *o)
{
    return o->flags & KD_OBJECT_ITEMS && o->container_lock.exclusive != v->id;
}
enum { ITEM_COPIES_MAX = 16 }; /* IT1 */
/* item_free tells whether v gets an item copy of the page at once. Leaf locked. */
static inline bool item_free(const struct view *v, const struct object *o, const struct page *p)
{
    return item_apart(v, o) && p->copies < ITEM_COPIES_MAX && !p->queue;
}
/* item_busy tells whether a store to a page in item mode has to wait; a load never does. Leaf
 * locked. */
bool item_busy(struct view *v, const struct page *p);
/* item_granted makes c, which was granted just now, an item copy. Leaf and view locked. */
static inline void item_granted(struct view *v, struct page *p, struct copy *c)
{
    p->writer = WRITER_NONE;
    p->copies++;
    v->items.count++;
    c->items = true;
    uint64_t *w = c->words; /* a call of memset costs thrice as much */
    w[0] = w[1] = w[2] = w[3] = w[4] = w[5] = w[6] = w[7] = 0;
    _Static_assert(PAGE_BYTES / 8 / 64 == 8, "all of them");
}
/* item_weight is what a word adds to the sum of a told copy (copy->told). */
static inline uint64_t item_weight(uint64_t own, uint64_t now, uint64_t i)
{
    return (own - now) * (2 * i + 1);
}
/* struct item_before: others' copies of a page that are in the log and not published (IT6). */
struct item_before {
    unsigned count;
    bool changed;              /* one of them was told to change words */
    const struct copy *copy[ITEM_COPIES_MAX];
};
/* item_before lists those of c's page, for v to be told behind; returns how many. Leaf locked, as
 * long as they are used. */
unsigned item_before(const struct view *v, const struct copy *c, struct item_before *before);
/* item_behind makes words of c's page, as c's transaction leaves them, what the log is to have of
 * them behind these (IT6). */
void item_behind(const struct copy *c, const struct item_before *before, unsigned from, unsigned n,
                 uint64_t *words);
/* item_words reads words of an item copy so. */
void item_words(const struct copy *c, const struct item_before *before, unsigned from, unsigned n,
                uint64_t *out);
/* item_sum is one number for what a copy changes in its words, or in all of the page: the
 * differences, each times a number of its own (item_weight). Leaf locked. */
uint64_t item_sum(const struct copy *c, bool all);
/* item_told notes that c is told to change c->words, if c->changed, and their item_sum. Leaf
 * locked. */
void item_told(struct view *v, struct copy *c, uint64_t sum);
bool item_copy_ok(const struct view *v, const struct copy *c); /* IT3; leaf and view locked */
/* item_tells_right tells whether what was told of c is what its transaction did, and its page as it
 * was committed, as its codewords say (CW2). `whole`: the whole page was told. */
bool item_tells_right(const struct view *v, const struct copy *c, bool whole);
/* item_publish is publish_flip for an item copy, whose frame may go when items.cpus is paid: do
 * others have rights to the page? */
bool item_publish(struct view *v, struct copy *c, csn_t csn, uint64_t sequence);

/* ---- the order of the log (IT6); the view is claimed ---- */
void item_take_back(struct view *v);  /* it, and who came behind it, is not in the log from here */
must_check int item_tell_end(struct view *v);   /* -EAGAIN: to be told anew, from item_take_back */
void item_leaves_log(struct view *v);           /* it is published, or its manager died */
must_check bool items_in_order(const struct kd_publish *list, uint64_t n);

#endif
