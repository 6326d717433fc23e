/*
 * group.h - a group of transactions from its beginning to its publication.
 *
 *     in the gate                      |  in the air                          |
 *     group_begin  (filled)  launch    |  group_land: its turn, one flush,    |
 *                  seal, one write     |  apply, publish, answer              |
 *
 * A group of lazy commits only lands without the flush: the next group's covers it, or group_flush.
 *
 * At most two groups are in the air or being filled: while one is flushed, the next collects what
 * arrives and may be written, too. They land in the order in which they were launched.
 */
#ifndef USER_STORE_GROUP_H
#define USER_STORE_GROUP_H

#include "server.h"

struct name_change { uint64_t container; bool set; char name[STORE_NAME_BYTES]; };

struct group {
    struct store_group *disk;
    uint64_t number;                    /* of its launch */
    bool handed;                        /* over to the publisher thread */
    bool left;                          /* durable here; lands when the other copy has it */
    bool counted;                       /* it has transactions, so its steps are counted (step()) */
    unsigned count;
    struct kd_publish publish[KD_VIEW_MAX];
    uint32_t position[KD_VIEW_MAX];
    uint64_t copies;                    /* pages logged */
    bool spills;                        /* SPILL records only: it needs no flush */
    bool voted;                         /* it commits what is prepared: limits were asked then */
    bool ends_chain;                    /* its last transaction of a client does ... */
    uint64_t chain_view;                /* ... which is of this view */
    unsigned changes;                   /* of indexes, made (index.c) */
    uint64_t bytes;                     /* what its transactions may take of the buffer */
    bool flushed;
    uint64_t lazy_us;   /* the group's flush may wait so long: all commits are lazy; else 0 */
    /* what else happens when it is committed */
    struct free_range *freed;
    unsigned freed_count, freed_room;
    struct name_change *names;
    unsigned name_count, name_room;
    uint64_t layout;                    /* the container whose layout it changes; 0: none */
};

/* All functions here are called with the lock held. */
bool group_flying(void);                /* is one in the air? */
bool checkpoint_helps(int error);       /* could a checkpoint help after this? */
/* group_begin, inside the gate, which leaves one of the two free: 0, -ENOMEM, or the fence. */
int group_begin(struct group **out);
void group_cancel(struct group *g);
/* group_txn_begin is store_txn_begin; the transaction gets an id. Lock held. */
int group_txn_begin(struct group *g, uint64_t tag);
int group_freed_add(struct group *g, const struct free_range *freed, unsigned count);
int group_name_add(struct group *g, const struct store_op *op);
/* group_name_exists: does the name exist for a transaction behind those of the group? */
bool group_name_exists(const struct group *g, const struct store_op *op);
/* group_changes_layout: does a group not landed yet change the container's layout? */
bool group_changes_layout(uint64_t container);
/* group_launch writes a group inside the gate, the lock dropped. 0: it is in the air and has to be
 * landed, even if the write failed. Else it is cancelled: -EAGAIN (empty, and the log is full), the
 * fence. */
int group_launch(struct group *g);
/* group_land, not in the gate, waits for the group's turn. 0: it is durable, or lazy and written,
 * and its views are published; else they are refused and the store is fenced. */
int group_land(struct group *g);
/* group_leave lands it for who is not told how it ends: a group that the other copy has still to
 * answer for is left to whoever hears that, who calls group_copied. */
void group_leave(struct group *g);
void group_copied(void);
/* group_flush makes all groups that have landed durable: 0, or the fence. Drops the lock. */
int group_flush(void);
/* group_flush_due: have lazy groups waited as long as they may? No lock needed. */
bool group_flush_due(void);
/* group_hand_over has the publisher thread land the group. */
void group_hand_over(struct group *g);
/* group_notice: is the commit port to hear of the next landing (NOTICE_LANDED)? */
void group_notice(bool wanted);

void *publisher_main(void *unused);

/* commit_ops (commit.c) puts a batch's operations into a transaction. Lock held. */
int commit_ops(struct group *g, uint64_t process, struct batch *b);
/* votes_decision (votes.c) makes the record of a decision, first in its transaction. */
int votes_decision(struct group *g, const struct kd_message *m, const struct batch *b);

/* changes.c; by the committer, lock held. A transaction begins. */
void changes_begin(const struct group *g, const struct batch *b);
/* changes_note: it changes this container, whose durability is returned. */
enum store_durability changes_note(const struct group *g, uint64_t id);
/* changes_spill writes those pages as images of a chain, outside of a transaction. */
int changes_spill(struct group *g, const struct kd_message *m, const struct batch *b,
                  struct store_chain *chain, uint64_t *pages);
/* changes_strict: is one of them durable, so that its commit is not lazy of itself? */
bool changes_strict(void);
/* changes_add adds records of what it changed, and of what managers that stand on this one did for
 * it. The lock is dropped meanwhile. *pages: increased by how many. */
int changes_add(struct group *g, const struct kd_message *m, const struct batch *b,
                uint64_t full_below, uint64_t *pages);
int changes_init(void);

/* index.c; by the committer, inside the gate, lock held and dropped meanwhile. */
/* index_room: has a group room for changes of indexes, beside so many bytes of a transaction? 0;
 * -ENOBUFS, -E2BIG, -EAGAIN as store_txn_end says it. */
int index_room(const struct group *g, uint64_t bytes);
/* index_change makes a transaction's changes, behind those of the group's others: 0; else those are
 * as they were, or, with -ECANCELED, are lost, and the group with them. -EFBIG: no group has room
 * for so many changed pages. */
int index_change(struct group *g, const struct index_op *ops, unsigned count);
/* index_take_back takes the last transaction's back, down to so many: 0, or -ECANCELED. */
int index_take_back(struct group *g, unsigned changes);
/* index_commit: all have been made: our own transaction asks for its commit. 0: *m is that COMMIT;
 * -errno: there is none any more. */
int index_commit(struct kd_message *m);
/* index_cancel: the group is cancelled before that. */
void index_cancel(struct group *g);

/* quota.c; lock held. quota_is: is there any limit? */
bool quota_is(void);
/* quota_txn_end ends a transaction as store_txn_end does, if it keeps to the limits of the
 * directories that its containers are in; else -EDQUOT: it is cancelled. What it takes is counted
 * at once, and what the disk library says of it when the group is applied. */
int quota_txn_end(struct group *g, const struct batch *b, uint32_t *position);
/* quota_txn_try asks the same and does not end it: it is cancelled, whatever the limits say. */
int quota_txn_try(struct group *g, const struct batch *b);
/* quota_before, quota_after stand around the group's application, or cancelling. */
void quota_before(struct group *g);
void quota_after(struct group *g, bool applied);
/* versions_keep (versions.c), lock held: a group was published: limits of versions are kept. */
void versions_keep(void);
uint64_t versions_held(uint64_t directory);
void quota_again(void);         /* a limit was set, or a container moved or went */

/* Bits of the notices to the commit port. */
enum { NOTICE_OWN = 1, NOTICE_LANDED = 2, NOTICE_LAZY = 4 };

#endif
