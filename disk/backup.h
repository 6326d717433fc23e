/*
 * backup.h - who else needs a store's log: holds; copies of a store at work; and a copy that goes
 * on with what was archived since. A part of store.h, which includes it.
 */
#ifndef KATYDID_DISK_BACKUP_H
#define KATYDID_DISK_BACKUP_H

#include "store.h"

/* ---------------------------------------------------------------- holds on the log
 *
 * While a hold stands, no log from the newest checkpoint's scan LSN on is overwritten. A hold lives
 * for half the log at most: when more was logged since, the next checkpoint that begins ends it
 * (expired; store_stats tells whose), and its owner has to begin anew. So a hold keeps nobody's
 * commits waiting. One that stays does not expire: when the log is full of what it holds, commits
 * are refused (-EAGAIN, and no checkpoint helps) until its owner moves or ends it. A hold is the
 * owner's memory; the owner ends it before store_close (-EBUSY), and forgets it after
 * store_abandon. -EBUSY: a checkpoint is about to end, try again. -ENOSPC: there are
 * STORE_HOLDS_MAX. Or the fence. */
#define STORE_HOLDS_MAX 16u     /* those of chains are not counted */
struct store_hold {
    struct store_hold *next;
    const char *owner;          /* a static text; NULL: a chain */
    store_lsn_t lsn;
    uint32_t    prev_crc;       /* of the group before */
    bool        stays, expired;
    uint8_t     areas;          /* bit a: a checkpoint has begun to write metadata area a */
};
store_must_check int store_hold_begin(struct store *store, struct store_hold *hold,
                                      const char *owner, bool stays);
/* store_hold_move lets go of all that is applied so far. -EINVAL: the hold has expired. */
store_must_check int store_hold_move(struct store *store, struct store_hold *hold);
void store_hold_end(struct store *store, struct store_hold *hold);  /* also a hold that is none */

/* ---------------------------------------------------------------- backup of a store at work
 *
 *   while ((error = store_backup_next(store, &b)) == 0 || error == -EAGAIN)
 *       error == 0: the piece is read (or zeros, if b.zeros), and written to the copy at the same
 *                   offset; without the mutex
 *       else        a checkpoint that begins now is run to its end
 *   error == -ENOENT: that was all. The copy is flushed; each b.slot[i] is written at
 *       b.slot_offset[i], the last one first, and flushed.
 *
 * Before, the copy's first block is made the mark of one that is not finished (no store is opened
 * that begins with it), and flushed. The copy is a store as after a power cut, with all that was
 * committed before the log's copying began. Only the last round, a short one, holds the log.
 * -EBUSY: the hold expired so often that writers seem to be faster than the copy; or the fence.
 * *b is the caller's, zero at first; store_backup_end gives the hold up, whatever the result. */
#define STORE_BACKUP_BYTES (384u << 10)
struct store_backup {
    uint64_t offset;            /* the piece */
    uint32_t bytes;             /* 0: nothing this time */
    uint32_t most;              /* bytes of a piece; 0: STORE_BACKUP_BYTES. One extent at least */
    bool     zeros;
    bool     homes;             /* the piece is of extents: not all in it is needed */
    uint64_t slot_offset[3];    /* slot A, slot B, signpost */
    uint8_t  slot[3][STORE_PAGE_BYTES];
    uint64_t end_lsn;           /* the copy has the log up to here */
    uint32_t rounds, lost;      /* done; begun anew because the hold expired */
    /* the library's */
    struct store_hold hold;
    bool     held;
    uint32_t phase, area, map_pages;
    uint64_t at, wanted, since, redo_lsn, changed;
    uint64_t from, walked;      /* pages at or after it are copied; the log's end as that began */
};
store_must_check int store_backup_next(struct store *store, struct store_backup *backup);
void store_backup_end(struct store *store, struct store_backup *backup);
void store_backup_mark(void *block);

/* ---------------------------------------------------------------- rolling forward
 *
 * Rolling forward is recovery of a copy (store_backup, which nobody else has open) that goes on
 * behind its log with the groups of an archive, up to a transaction or a time, or to their end.
 * Then the store begins a new life: with another uuid. A power cut inside leaves no store: begin
 * again with the copy. -EUCLEAN: a group does not follow (a hole: report->end_lsn says where), or
 * the copy is newer than that, or damaged. */
struct store_roll {
    void *context;
    /* `next` gives the archive's first group at or behind `lsn`, as it lay in the log; the bytes
     * stay until the next call. 1; 0: it has none; or an error, which store_open returns. */
    int    (*next)(void *context, store_lsn_t lsn, const void **group, size_t *bytes);
    /* `page` gives page number `index`, in the order of its records, of what a transaction had
     * loaded past the log. 0; -ENODATA: the archive has not got it. NULL: it has none */
    int    (*page)(void *context, store_lsn_t csn, uint64_t index, void *bytes);
    store_lsn_t to_csn;         /* the last transaction; 0: all */
    uint64_t to_time;           /* all before the first that is later than that; 0: all */
    uint8_t  uuid[16];          /* of the new life: must differ for all that was ever made */
    /* filled */
    bool        reached;        /* what follows is later than to_csn or to_time */
    uint64_t    groups, transactions;
    store_lsn_t last_csn;       /* of the last transaction rolled; 0: none */
    uint64_t    last_time;
    store_lsn_t load_csn;       /* of the load met last, and how many pages it has had */
    uint64_t    load_pages;
};

#endif
