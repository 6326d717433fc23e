/*
 * votes.h - what votes.c and parts.c share: transactions that have a part here and one elsewhere.
 */
#ifndef USER_STORE_VOTES_H
#define USER_STORE_VOTES_H

#include "group.h"

struct vote {
    struct store_txn_id id;
    uint8_t coordinator[16];            /* the store that decides */
    bool used, prepared, deciding;
    bool orphan;                        /* of an earlier life: there is no COMMIT */
    bool of_kernel;                     /* which asked for it (KD_PART_VOTE) */
    bool asks;                          /* the coordinator is to be asked */
    bool said;                          /* ... whose disk is not there: that was said */
    unsigned told;                      /* KD_PART_COMMIT, KD_PART_UNDO: what is to be done */
    uint64_t view, token, pages;
    uint64_t asked_us, since_us;        /* when that was done last, and first */
};
extern struct vote votes[STORE_PREPARED_MAX];

/* All with the lock held. NULL: it is not known here. */
struct vote *vote_of(const struct store_txn_id *id);
/* Commits or undoes what is prepared; drops the lock. 0: it is over; else it stays prepared. */
int vote_outcome(struct vote *v, bool commits);
/* What is known of an id, WIRE_*, when no group is in the air; of nothing: undone, for good
 * (VO3). 0, or the fence, -EAGAIN. Drops the lock. */
int outcome_ask(const struct store_txn_id *id, uint64_t *outcome);

#endif
