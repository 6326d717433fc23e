/*
 * votes.h - what votes.c and parts.c share: transactions that have a part here and one elsewhere.
 */
#ifndef USER_STORE_VOTES_H
#define USER_STORE_VOTES_H

#include "group.h"

#define FULL_US 10000000u               /* after so long without room that is said */
#define VOTES_EARLIER "?"               /* no site has such a name: of an earlier life */

struct vote {
    struct store_txn_id id;
    uint8_t coordinator[16];            /* the store that decides */
    bool used, prepared, deciding;
    bool orphan;                        /* of an earlier life: there is no COMMIT */
    bool of_kernel;                     /* which asked for it (KD_PART_VOTE) */
    bool lazy;                          /* its outcome need not be flushed: VO5 */
    bool asks;                          /* the coordinator is to be asked */
    bool said;                          /* ... whose disk is not there: that was said */
    unsigned told;                      /* KD_PART_COMMIT, KD_PART_UNDO: what is to be done */
    char site[WIRE_SITE_BYTES];         /* whose share it is of (VO11); "": nobody's */
    uint64_t view, token, pages, process;
    uint64_t bytes;                     /* of the log, more or less */
    uint64_t asked_us, since_us;        /* when that was done last, and first */
    uint64_t again_us, wait_us;         /* what is told is done then; so long after the last try */
    uint64_t begun_us;                  /* when it voted, or this life began */
};
extern struct vote votes[STORE_PREPARED_MAX];

/* vote_of, as all here with the lock held: NULL: the transaction is not known here. */
struct vote *vote_of(const struct store_txn_id *id);
/* vote_outcome commits or undoes what is prepared. 0: over; else it stays. Drops the lock. */
int vote_outcome(struct vote *v, bool commits);
/* outcome_ask: what is known of an id, WIRE_*, when no group is in the air; of nothing: undone, for
 * good (VO3). 0, or the fence, -EAGAIN. Drops the lock. */
int outcome_ask(const struct store_txn_id *id, uint64_t *outcome);
/* vote_decide: the outcome of an id, by whoever has made it; lazy: VO5. -ENOENT; -EBUSY: it is
 * decided just now. Drops the lock. */
int vote_decide(const struct store_txn_id *id, bool commits, bool lazy);
/* doubts_tell (parts.c) tells the kernel for how many votes snapshots are to wait (VO10), `more`
 * beside those that there are. True: some wait. *until: at that time there may be one less, if that
 * is before; or NULL. */
bool doubts_tell(unsigned more, uint64_t *until);
int decision_forget(const struct store_txn_id *id);     /* -ENOENT. Drops the lock */
bool same_txn(const struct store_txn_id *a, const struct store_txn_id *b);
bool is_undone(const struct store_txn_id *id);
/* hold_begin (hold.c), by who may vote (its place among them): no commit begins from now on; 0:
 * none is under way, and nothing is prepared; -EAGAIN: to be asked again. hold_end: 0: that was so
 * until now; -ESTALE. */
int hold_begin(unsigned voter, uint64_t *number);
int hold_end(unsigned voter, uint64_t number);
/* may_vote (votes_serve.c): may it? vote_told: who asked how this one votes hears it, or will. */
bool may_vote(uint64_t process);
const char *voter_site(uint64_t process);               /* "": of none, or it may not */
/* vote_share, decision_share (VO11): has the site's share room for one more vote of so many bytes,
 * or decision, which is noted then? 0; -EDEADLK: soon; -EDQUOT. */
int vote_share(const struct vote *v);
int decision_share(const char *site, const struct store_txn_id *id);
void decision_note(const char *site, const struct store_txn_id *id);
void vote_told(const struct store_txn_id *id, int status);
/* part_decided (parts.c): a decision was made, which is to be forgotten some time. */
void part_decided(void);
/* parts_full: no decision can be kept any more: -EDEADLK, as others will be forgotten soon;
 * -ENOSPC: that has been so for long, for a participant is away. */
int parts_full(void);
void parts_look(void);
/* peer_answer: what another store asks, struct wire_peer. 0; -ENOENT: not the store. Drops the
 * lock. */
int peer_answer(uint32_t kind, const void *data, uint64_t bytes, uint64_t *answer);

#endif
