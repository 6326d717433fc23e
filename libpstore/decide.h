/*
 * decide.h - a program decides about each first touch of a container's pages, as Cricket's server
 * did; or it hands the kernel rights and calls them back (kernel/store/recall.md). decide.md says
 * when, and how such a program is written.
 *
 * A transaction that first touches a page without a right waits for an answer; the right is then
 * its own until its end, or for all, until it is called back. Whatever is answered, transactions
 * stay serialisable: the kernel locks pages as ever. A touch that nobody answers ends by its
 * transaction's timeout_ms, or with the program that decides: then the kernel decides again.
 *
 * Not in a transaction. Results: 0 or -errno. Errors that all functions have: -EINVAL: not open, no
 * such page; -EACCES: it is not open for writing; -EPERM: this program does not decide;
 * -EOWNERDEAD: the store manager is gone, and with it what it was told here.
 */
#ifndef KATYDID_DECIDE_H
#define KATYDID_DECIDE_H

#include <stdint.h>

#include "pstore.h"

enum {
    PS_DECIDE_KERNEL,   /* the kernel has all rights: the default */
    PS_DECIDE_STORE,    /* each first touch comes to the store manager, which says yes */
    PS_DECIDE_PROGRAM,  /* each first touch goes to this program */
};
/* ps_decide sets who decides, for all who have c open, until another call, or until nobody has it
 * open and it is forgotten. Rights that transactions use now stay with them to their ends. -EBUSY:
 * another program decides; -EROFS. */
int ps_decide(ps_container *c, int who);

enum { PS_ASKED, PS_RECALLED };               /* kind */
enum { PS_LATER, PS_GRANT, PS_GRANT_ALL };    /* answer; or -errno, with which the touch fails */
struct ps_question {
    /* PS_RECALLED: a user has ended of what was called back; or a touch asks no more (its time is
     * up, it is killed, it aborts): look again at all that is kept */
    int kind;
    int write;          /* else: it wants to store */
    int answer;         /* for the next call; PS_LATER: ps_decide_answer comes some time */
    void *page;         /* its first byte, in the container */
    uint64_t view;      /* who asks: a number below 128 */
    uint64_t number;    /* of the question */
};
/* ps_decide_next answers *q, and waits for the next one; a fresh q is 0. For one thread at a time:
 * -EINTR tells an earlier one that it was replaced; -ECANCELED, -EPERM: ps_decide says otherwise.
 * Who keeps a question for later does that before this call: if nobody asks it any more,
 * PS_RECALLED tells it, now or when it happens. */
int ps_decide_next(ps_container *c, struct ps_question *q);
/* ps_decide_answer answers now, from any thread; -ESRCH: nobody asks. PS_LATER: 0, it stands. */
int ps_decide_answer(ps_container *c, const struct ps_question *q);
/* ps_decide_grant gives all rights to pages from `page` on: the kernel asks for none until they are
 * called back. write 0: to read only. */
int ps_decide_grant(ps_container *c, const void *page, uint64_t pages, int write);
/* ps_decide_recall calls them back; to_read: but for reading. How many are still used, by which
 * views (users may be NULL); PS_RECALLED comes when one of them has ended: then call once more. */
long ps_decide_recall(ps_container *c, const void *page, uint64_t pages, int to_read,
                      uint64_t users[2]);
/* ps_decide_waits: the view that asks waits for the end of these; deadlocks are found. -EDEADLK: it
 * is aborted for one; -ESRCH: it has ended. */
int ps_decide_waits(ps_container *c, uint64_t view, const uint64_t users[2]);

#endif
