/* commit.h - how a transaction ends for its manager: what it changed, the manager's word, notices
 * (claim.c, commit.c, encode.c). */
#ifndef KERNEL_COMMIT_H
#define KERNEL_COMMIT_H

#include "store/view.h"

/* TXN_CALL(kd_txn_abort) { ... }: a call in a transaction; its body gets the view, too. -ENOENT: it
 * is in none. */
#define TXN_CALL(name)                                                                            \
    static long name##_in(struct view *v, const uint64_t a[6]);                                   \
    long name(const uint64_t a[6])                                                                \
    {                                                                                             \
        struct view *v = thread_this()->view;                                                     \
        return v && v->state == VIEW_ACTIVE ? name##_in(v, a) : -ENOENT;                          \
    }                                                                                             \
    static long name##_in(struct view *v, const uint64_t a[6])

/* view.c ends a commit. */
void view_end(struct view *v);                /* CM8 */

/* claim.c asks the manager, and takes its answers. */
/* view_ask posts v->question.item, the question, at `port` and sleeps until it is answered. 0, or
 * an errno: the manager's; EOWNERDEAD; ETIMEDOUT; EINTR: killed; EAGAIN: doomed. By the owner
 * thread, which may have no process afterwards (commit_forsaken). */
must_check int view_ask(struct view *v, struct port *port);
/* view_claim returns the view, claimed, if it was delivered to the calling process with this token,
 * asks for one of these (a mask), and is not answered: until view_claim_end() or view_answer() only
 * the caller works on its copies, and its owner sleeps. NULL otherwise, or killed. */
enum { ASKED_COMMIT = 1 << ITEM_COMMIT, ASKED_SPILL = 1 << ITEM_SPILL,
       ASKED_UNSPILL = 1 << ITEM_UNSPILL, ASKED_BASE = 1 << ITEM_KINDS, /* no stacked manager */
       ASKED_VOTE = 2 << ITEM_KINDS, ASKED_REFUSAL = 4 << ITEM_KINDS };
struct view *view_claim(uint64_t id, uint64_t token, unsigned asked);
/* all or none. 0, -ESRCH */
must_check int views_claim(const struct kd_publish *list, uint64_t n, unsigned asked);
void view_claim_end(struct view *v);
void view_answer(struct view *v, int answer);
must_check int view_await(struct view *v); /* the sleep of view_ask, where somebody answers */
/* view_claimed, for a sweep, which has its turn then: does a call work on v's copies? (QU3) View
 * locked. */
bool view_claimed(const struct view *v);

/* pages_breathe breathes behind each page of a commit that others use, and behind every eighth that
 * nobody else does: there is less to do for those. */
static inline void pages_breathe(bool others, unsigned *done)
{
    enum { OWN_AT_ONCE = 8 };
    if (++*done % OWN_AT_ONCE == 0 || others)
        thread_breathe();
}

/* encode.c */
/* encode_declare notes that the transaction stores to these bytes of containers, where their pages
 * have copies. Not for very many: a lock is held meanwhile. */
void encode_declare(struct view *v, const struct kd_range *some, uint64_t n);

#endif
