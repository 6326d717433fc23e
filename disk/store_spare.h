/*
 * store_spare.h - a home and its copy: groups of one store's log, as they are, in another's. A part
 * of store.h, which includes it. The rules are those of NH in tests/model/sites.md; who may be home
 * is the caller's matter.
 *
 * The two have the same uuid and the same geometry: one began as a copy of the other (backup.h).
 *
 *     home                                       spare
 *                                                store_spare_open, store_spare_tell
 *     store_feed_begin, _seek ...       <--
 *     store_epochs_tell, _mark_tell     -->      store_spare_join
 *     store_feed_next ...               -->      take, write, taken
 *     each group behind its seal:
 *       store_group_sealed_bytes        -->      take, write, taken
 *       store_group_write (beside it)   <--      what is durable there
 *       store_group_apply                        store_spare_apply
 *                                                store_spare_take_over: it is a store like any
 */
#ifndef KATYDID_DISK_STORE_SPARE_H
#define KATYDID_DISK_STORE_SPARE_H

#include "store.h"

#define STORE_EPOCHS 8u

/* struct epoch_info: a log's groups are of `epoch` from first_lsn on, until the next one begins. */
struct epoch_info { uint32_t epoch; store_lsn_t first_lsn; };
struct store_epochs {
    uint32_t count;
    struct epoch_info of[STORE_EPOCHS];
};

/* struct store_mark is a checkpoint that a home began: a copy that has applied all before redo_lsn,
 * and no more, may make one there, too, for the log behind it needs nothing older. */
struct store_mark {
    store_lsn_t redo_lsn;
    store_lsn_t pages_lsn, scan_lsn;    /* as in the superblock; pages_lsn 0: redo_lsn */
    store_lsn_t keep_lsn;               /* the home keeps its log from here when it is done */
    uint32_t    pages_crc, scan_crc;    /* of the groups before */
};

/* ---------------------------------------------------------------- at the home
 *
 * A home applies a group, and so answers for it, when its spare has it durably, too: no home page
 * and no metadata has anything that a copy may lack. All with the mutex, unless they say NO MUTEX.
 */
void store_epochs_tell(const struct store *store, struct store_epochs *out);
/* store_mark_tell tells the newest checkpoint begun: goes with the join, and with each group that
 * is sent: a copy that has applied what lies behind it makes it no more. */
void store_mark_tell(const struct store *store, struct store_mark *out);
/* store_group_sealed_bytes returns a sealed group's bytes, until it is applied. NO MUTEX. */
const void *store_group_sealed_bytes(const struct store_group *group, size_t *bytes);
/* store_group_sealed_used returns behind how many there are zeros, to the block's end. NO MUTEX. */
size_t store_group_sealed_used(const struct store_group *group);

/* struct store_feed reads groups of the log back, from `lsn` on, for a copy that lacks them. */
struct store_feed {
    store_lsn_t lsn;            /* where the next one begins, or what is before it ends */
    store_lsn_t common_lsn;     /* where the log of the copy is no more this one's */
    uint32_t    prev_crc;       /* of the group before lsn */
    struct feed_reader *reader;         /* the library's */
};
/* store_feed_begin makes a feed for a copy whose log ends at end_lsn; reads nothing. 0; -ESTALE:
 * where the two logs part is no more in this one, so the copy has to be made anew; -ENOMEM, the
 * fence; -EBUSY: a checkpoint is about to end. store_feed_end follows, whatever the result. */
store_must_check int store_feed_begin(struct store *store, struct store_feed *feed,
                                      const struct store_epochs *copy, store_lsn_t end_lsn);
/* store_feed_is tells if it is a feed for that copy. */
bool store_feed_is(const struct store *store, const struct store_feed *feed,
                   const struct store_epochs *copy, store_lsn_t end_lsn);
/* store_feed_seek looks for common_lsn in the next `most` bytes of log. 1: not there yet. 0: `lsn`
 * is common_lsn. -ESTALE: no group begins there, or the log has run ahead; -EIO, the fence. */
store_must_check int store_feed_seek(struct store *store, struct store_feed *feed, size_t most);
/* store_feed_next reads. 1: a group, whose bytes stay until the next call. 0: no applied one is
 * left. -ESTALE: the log has run ahead of the feed, or the group has pages that are in no log (a
 * load). Or as above. */
store_must_check int store_feed_next(struct store *store, struct store_feed *feed,
                                     const void **group, size_t *bytes);
void store_feed_end(struct store *store, struct store_feed *feed);

/* ---------------------------------------------------------------- at the spare */

struct store_spare;

/* store_spare_open reads the store, and where its log ends; writes and applies nothing, for nobody
 * may know of that end. Results as of store_open; -ESTALE: it cannot be joined, copy it anew. */
store_must_check int store_spare_open(const struct disk_io *io, const struct disk_memory *memory,
                                      const struct store_open_options *options,
                                      struct store_spare **out, struct store_report *report);
void store_spare_abandon(struct store_spare *spare);    /* like a power cut */
struct store_spare_state {
    store_lsn_t end_lsn;        /* all before is durable here */
    store_lsn_t applied_lsn;
    store_lsn_t sure_lsn;       /* so much may be applied */
    uint64_t    groups, checkpoints;    /* taken and made here */
    uint64_t    images;         /* pages in memory */
    bool        joined;
    uint8_t     uuid[16];
    uint64_t    disk_bytes, log_bytes;
};
void store_spare_tell(const struct store_spare *spare, struct store_spare_state *state,
                      struct store_epochs *epochs);
/* store_spare_pages is the store as it is applied, to look at its directory and read its pages:
 * with the mutex, and until the spare is gone, or its store if it took over. */
struct store *store_spare_pages(struct store_spare *spare);
/* store_spare_join cuts the log at common_lsn, whose group before has common_crc, and has both
 * slots name the home's epochs. What of it the home says was durable there (sure_lsn) may be
 * applied; `mark` is of the same moment. -ESTALE: the two have no such log in common. Or the
 * device's error: then abandon it. */
store_must_check int store_spare_join(struct store_spare *spare, store_lsn_t common_lsn,
                                      uint32_t common_crc, const struct store_epochs *home,
                                      store_lsn_t sure_lsn, const struct store_mark *mark);
/* store_spare_take looks whether it is the next group. Its bytes stay until it is taken. 0;
 * -EINVAL: it is not, or is no group; -EOPNOTSUPP: it has pages that are in no log; -ENOSPC: there
 * is no room, and no checkpoint to be had for it, so the copy is to be made anew; or the fence. */
store_must_check int store_spare_take(struct store_spare *spare, const void *group, size_t bytes,
                                      const struct store_mark *mark);
/* store_spare_write does one write, one flush. NO MUTEX. */
store_must_check int store_spare_write(struct store_spare *spare);
/* store_spare_taken ends a group. 0: it is durable here. *end_lsn: all before is. */
store_must_check int store_spare_taken(struct store_spare *spare, store_lsn_t *end_lsn);
/* store_spare_apply applies groups that the home has, too, of so many bytes (0: all), and makes
 * checkpoints where the home began one. 1: there is more. An error but -ENOMEM: copy it anew. */
store_must_check int store_spare_apply(struct store_spare *spare, size_t most);
/* store_spare_needs tells if a backup of the spare's disk needs the block at this offset. It is
 * made byte by byte while the spare takes groups: if applied_lsn and checkpoints stay as they were,
 * nothing else changes; else it is none. What the log has behind end_lsn, the state's at the begin,
 * is zeros in it. */
bool store_spare_needs(const struct store_spare *spare, store_lsn_t end_lsn, uint64_t offset);
/* store_spare_take_over makes the copy a home: all its log is applied, a new epoch begins, in both
 * slots. Then the spare is gone, in any case. -EUCLEAN: it lacks what the home had made durable. */
store_must_check int store_spare_take_over(struct store_spare *spare, struct store **out,
                                           struct store_report *report);

#endif
