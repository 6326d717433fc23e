/*
 * store_prepared.h - the part of store.h about transactions of several stores, which includes it.
 */
#ifndef KATYDID_DISK_STORE_PREPARED_H
#define KATYDID_DISK_STORE_PREPARED_H

#include "store.h"

/* ---------------------------------------------------------------- two-phase commit
 *
 * A transaction that is prepared has a chain with all its pages, and a PREPARED record: it can be
 * committed and undone, by a word of its coordinator, over any number of starts (TP1).
 *
 *     store_chain_begin; store_spill_page ..., store_prepare     in a group; written, flushed: YES
 *     store_txn_begin, store_txn_decided, operations, store_txn_end      it commits
 *     or store_undo                                                      it does not
 *
 * Who coordinates calls store_txn_decided in a transaction of its own, with an id that is not
 * prepared there: that it committed is kept until store_forget. Nobody keeps an undo. (prepared.c)
 */
#define STORE_PREPARED_MAX      32u     /* at a time; and so many decisions are kept */
#define STORE_DECISIONS_MAX     64u
#define STORE_PARTICIPANTS_MAX  8u

#ifndef STORE_TXN_ID                     /* store_protocol.h names them, too */
#define STORE_TXN_ID
struct store_txn_id { uint8_t bytes[16]; };
#endif

struct store_prepare {
    struct store_txn_id id;
    uint8_t     coordinator[16];        /* as the caller names stores */
    const void *data;                   /* kept with it, to make its operations of; the records */
    uint32_t    bytes;                  /* of these take at most four times as many bytes */
    uint32_t    names;                  /* names that the operations may set */
};

struct store_participant {
    uint8_t  store[16];
    uint64_t number;                    /* the caller's */
};

/* store_prepare, in an open group, outside of a transaction, makes the chain the store's, unless
 * the group is cancelled. -EEXIST: the id is known. -EAGAIN: too many are prepared, or pages in
 * them; or the log is full. -E2BIG: it alone is too large. -ENOSPC: there would be no room for its
 * commit. -ENOBUFS: use the next group. -EOPNOTSUPP: it has pages at home. -EBUSY, -ENOMEM. */
store_must_check int store_prepare(struct store_group *group, struct store_chain *chain,
                                   const struct store_prepare *what);
/* store_txn_decided makes a transaction, before all else of it, commit what is prepared under this
 * id, pages and all; or, if nothing is, a decision that is kept, for the participants. -EBUSY: its
 * record is in a group that is not applied: use the next. -EEXIST: it is decided. -EAGAIN: too many
 * decisions are kept. -EINVAL, -ENOBUFS, -ENOMEM. */
int store_txn_decided(struct store_group *group, const struct store_txn_id *id,
                      const struct store_participant *participants, uint32_t count);
/* store_undo ends what is prepared, store_forget forgets a decision: in an open group, outside of a
 * transaction. -ENOENT, -EBUSY, -ENOBUFS, -EAGAIN */
store_must_check int store_undo(struct store_group *group, const struct store_txn_id *id);
store_must_check int store_forget(struct store_group *group, const struct store_txn_id *id);

/* struct store_doubt is one that is prepared, or a decision that is kept. What it points to stays
 * until it ends, or is written again. */
struct store_doubt {
    struct store_txn_id id;
    bool        prepared;
    uint8_t     coordinator[16];
    uint64_t    pages;
    const void *data;
    uint32_t    bytes, participants;
};
/* store_doubt_next tells of the next one; *cursor is 0 at first. -ENOENT: that was all. */
store_must_check int store_doubt_next(const struct store *store, uint64_t *cursor,
                                      struct store_doubt *out);
store_must_check int store_doubt_find(const struct store *store, const struct store_txn_id *id,
                                      struct store_doubt *out);
struct store_participant store_doubt_participant(const struct store_doubt *doubt, uint32_t i);
/* store_doubt_page tells the pages of one that is prepared: object, page, where the image lies, its
 * CRC; *cursor is 0 at first. */
struct store_doubt_page { uint64_t object, page, offset_bytes; uint32_t crc; };
bool store_doubt_page(const struct store *store, const struct store_doubt *doubt, uint64_t *cursor,
                      struct store_doubt_page *out);
/* store_doubt_claims tells the store which pages the operations of one that is prepared claim,
 * written or not: they are nobody else's, and room for them is promised (TP3, TP4). Once: after
 * store_prepare, and after each start. -ENOSPC, -ENOENT, -ENOMEM */
store_must_check int store_doubt_claims(struct store *store, const struct store_txn_id *id,
                                        const struct store_op *ops, uint32_t count);
/* store_page_prepared tells if one that is prepared has the page: nobody else may have it (TP4). */
bool store_page_prepared(const struct store *store, uint64_t object, uint64_t page);

/* store_doubts_due tells if their oldest record is so old that it must be written again, before
 * anything else is. Each start with a group behind it makes it older, too (SB5).
 * store_doubts_renew, in an open group outside of a transaction, writes what fits, and reads that.
 * 1: there is more, for the next group; 0; the disk's error, -ENOMEM, -EAGAIN (the log is full). */
bool store_doubts_due(const struct store *store);
store_must_check int store_doubts_renew(struct store_group *group);

#endif
