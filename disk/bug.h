/*
 * bug.h - planted bugs: each breaks one rule of the store on purpose.
 *
 * A checker that nobody has seen fail is no evidence. BUG(n) is 0 in a normal build; in a build
 * with -DKATYDID_BUGS bug n is on while bug_on is n, and test_bugs must find every one.
 */
#ifndef KATYDID_DISK_BUG_H
#define KATYDID_DISK_BUG_H

/* X(name, class, what it breaks) */
#define BUGS(X) \
    X(ACK_EARLY, "commit", "a group is acknowledged when its write completes, before the flush") \
    X(AHEAD_NO_FLUSH, "commit", "a group that was issued ahead is acknowledged without a flush") \
    X(NO_CRC, "log", "a group's CRC is not compared: torn groups are replayed") \
    X(HEADER_CRC, "log", "a group's CRC covers its header only") \
    X(NO_LSN, "log", "a group's LSN is not compared: the last lap is replayed") \
    X(NO_PREV_CRC, "log", "the CRC of the group before is not compared: a lost group is stepped over") \
    X(NO_UUID, "log", "neither header nor CRC knows the uuid: an earlier store's log is replayed") \
    X(SKIP_BAD, "log", "scan 1 steps over a bad group instead of ending there") \
    X(REPLAY_SHORT, "log", "replay ends after four groups") \
    X(DURABLE_AHEAD, "log", "durable_lsn promises what is not yet flushed") \
    X(GROUP_PADDING, "log", "the end of a group's last block holds what the memory held") \
    X(RECORD_PADDING, "log", "the padding of a record holds what the memory held") \
    X(CSN_GROUP, "log", "replay gives pages the group's LSN instead of their commit record's") \
    X(READ_WHOLE, "damage", "a block of the ring that cannot be read, live or not, is the end of it all") \
    X(END_READ, "damage", "where the log's end cannot be read nothing has been") \
    X(WRAP_OVER, "wrap", "a group may cross the end of the ring by a block") \
    X(LOG_OVER, "wrap", "the ring takes two blocks more than it has: live log is overwritten") \
    X(WRAP_END, "wrap", "replay ends where the writer skipped the end of the ring") \
    X(DAMAGE_BLIND, "damage", "damaged history always passes for a torn tail") \
    X(DAMAGE_FALSE, "damage", "a torn tail is taken for damage if any later group is there") \
    X(NO_EPOCH, "epoch", "recovery begins no new epoch: a cut-off tail comes back to life") \
    X(EPOCH_LATE, "epoch", "the first group of an epoch is not believed") \
    X(EPOCH_NO_FLUSH, "epoch", "the superblock with the next epoch is not flushed before work begins") \
    X(EPOCH_LEARN, "epoch", "a group of an epoch that no superblock names ends the log") \
    X(EPOCH_AGAIN, "epoch", "the next epoch may be that of groups behind the end") \
    X(EPOCH_PROVES, "epoch", "the start of an epoch does not prove that the log to there was durable") \
    X(NO_FLUSH, "superblock", "checkpoint: no flush between what the superblock names and itself") \
    X(SUPERBLOCK_FIRST, "superblock", "the superblock is written before what it names") \
    X(SUPERBLOCK_ONE, "superblock", "only slot A is ever written, over itself") \
    X(SLOT_CRC, "superblock", "a slot's CRC is not compared") \
    X(SLOT_OLDER, "superblock", "of two good slots the older is believed") \
    X(SLOT_A_ONLY, "superblock", "slot B is never read") \
    X(SAME_SLOT, "superblock", "a restart overwrites the newest slot") \
    X(SLOT_B_DATA, "superblock", "the extent that holds slot B is used for data") \
    X(CHECKPOINT_SAME, "checkpoint", "a checkpoint overwrites the area that is in use") \
    X(TRUNCATE_EARLY, "checkpoint", "log space is released when a checkpoint begins, not when it ends") \
    X(RELEASE_EARLY, "checkpoint", "log space is released before the superblock is flushed") \
    X(KEEP_NEWER, "checkpoint", "the log that the older checkpoint needs is released") \
    X(FULL_BELOW, "checkpoint", "no full image is asked for after a checkpoint: differences go on") \
    X(CLEANED_STALE, "checkpoint", "cleaning an old version marks the page clean at its newer one") \
    X(NO_FREEZE, "checkpoint", "a checkpoint saves metadata newer than its redo LSN") \
    X(TOUCH_LATE, "checkpoint", "a metadata page is copied for a checkpoint after it was changed") \
    X(CHECKPOINT_DIRTY, "checkpoint", "a checkpoint ends although old dirty pages have not gone home") \
    X(DIRTY_FIRST, "checkpoint", "only the first page of an extent is asked to go home") \
    X(DIRTY_LOST, "checkpoint", "a committed page is not dirty: nobody brings it home") \
    X(AREA_DIRTY, "checkpoint", "metadata changed before the last checkpoint is not saved again") \
    X(OTHER_AREA, "checkpoint", "after a restart the other area is taken to hold what this one does") \
    X(AREA_LAST, "checkpoint", "the last run of metadata pages is not written") \
    X(CRC_ENTER, "checkpoint", "CRCs of pages that went home are not entered") \
    X(CLOSE_DIRTY, "checkpoint", "a store closes although pages are dirty") \
    X(META_CRC, "checkpoint", "the CRC of a metadata page is not compared") \
    X(CHECKPOINT_SKIP, "recovery", "recovery leaves a home page alone whose first sector looks new") \
    X(RECOVERY_ORDER, "recovery", "recovery's superblock is not preceded by a flush of the home pages") \
    X(HOME_EARLY, "recovery", "home pages are written from a log that was not flushed") \
    X(SLOT_BACK, "recovery", "home pages are written before the superblock over a bad slot is flushed") \
    X(AREA_NAMED, "recovery", "recovery's first superblock still names the area that was lost") \
    X(RECOVERY_CRC, "recovery", "recovered pages go home without their CRC") \
    X(HOME_SHORT, "recovery", "the last page of a run is not written home") \
    X(IMAGE_KEPT, "recovery", "a freed page's image stays, and goes home") \
    X(ZERO_BASE, "encoder", "a difference against zeros is applied to what the memory holds") \
    X(RUN_SHORT, "encoder", "replay loses the last byte of each run") \
    X(RUN_FIRST, "encoder", "replay applies the first run only") \
    X(STALE_BASE, "encoder", "a difference against a version that is not the newest is taken") \
    X(MASK_LOST, "record", "a second page of an extent is not entered") \
    X(LEAF_TOUCH, "record", "a changed leaf is not saved by the next checkpoint") \
    X(FREE_SHORT, "record", "a free leaves the last page of each extent") \
    X(CLAIM_REPLAY, "record", "recovery does not replay a claim") \
    X(CLAIM_WRITTEN, "record", "the first write of an extent's page ends the claims of the others") \
    X(FREE_CLAIMED, "record", "a free forgets the claimed pages: they stay claimed") \
    X(DELETE_PAGES, "record", "a deleted container's pages stay") \
    X(ABORT_STAYS, "transaction", "an aborted transaction's records stay in the group") \
    X(ABORT_PLANNED, "transaction", "an aborted transaction's directory operations stay planned") \
    X(FREE_UNSEEN, "transaction", "a free of the group before is not seen") \
    X(RANGE_TWICE, "transaction", "two containers that are being made get one address range") \
    X(NAME_TAKEN, "transaction", "two containers that are being made get one name") \
    X(CLAIM_UNSEEN, "allocator", "pages claimed by a group that is not applied count as unused") \
    X(NEAR_TAKEN, "allocator", "the extent behind the neighbour's is taken, free or not") \
    X(CLAIM_LEAK, "allocator", "an extent that an aborted transaction claimed stays claimed") \
    X(FREE_EARLY, "allocator", "a freed extent is used again before the free is checkpointed") \
    X(FREE_NEVER, "allocator", "a freed extent is never used again") \
    X(FREE_NO_AGE, "allocator", "a checkpoint does not take the freed extents along") \
    X(HOLE_STAYS, "hash", "removing a leaf loses the last one of its chain") \
    X(SHRINK_TOUCH, "hash", "the page that a removed leaf's successor came from is not saved again") \
    X(SPLIT_STAYS, "hash", "a split moves no leaf") \
    X(SPLIT_WRAP, "hash", "the split pointer begins its next round at 1") \
    X(SPLIT_TOUCH, "hash", "the page that a split takes leaves from is not saved again") \
    X(CHAIN_PLACE, "hash", "the map forgets the order of a bucket's chain") \
    X(LEAF_OLD, "hash", "a new leaf keeps pages, CRCs and LSNs of the one that was there") \
    X(META_OLD, "hash", "a new metadata page is not zeroed") \
    X(ID_AGAIN, "directory", "the next container gets the id of the last one") \
    X(NAMES_STAY, "directory", "a deleted container's names stay") \
    X(RENAME_TOUCH, "directory", "a new name is not saved by the next checkpoint") \
    X(NAME_TWICE, "names", "setting a name again adds a second one") \
    X(NAME_TOUCH, "names", "a name that was set is not saved by the next checkpoint") \
    X(UNSET_TOUCH, "names", "an unset name is not saved as unset by the next checkpoint") \
    X(FLUSH_SWALLOWED, "errors", "a failed flush counts as done") \
    X(NO_FENCE, "errors", "after a failed write or flush of a group the store goes on") \
    X(CHECKPOINT_FENCE, "errors", "after a failed write of a checkpoint the store goes on") \
    X(NO_RETRY, "errors", "a read that fails once is not tried again") \
    X(PAGE_CRC, "errors", "a page's CRC is not compared") \
    X(SCAN_LSN, "chain", "a checkpoint forgets the SPILL records of running chains") \
    X(CHAIN_CHECK, "chain", "recovery does not compare a chain with its commit record") \
    X(SPILL_CRC, "chain", "a spilled page's CRC is not compared") \
    X(CHAIN_OLD, "chain", "a chain may grow older than half the log") \
    X(LOGGED_STALE, "chain", "a spilled image stays a page's newest after the page was rewritten") \
    X(GROW_EARLY, "grow", "the superblock names the larger areas before they are written") \
    X(MERGE_LOST, "hash", "a shrinking table leaves the leaves of its last bucket behind") \
    X(BLANK_SHORT, "format", "a disk is blank if a few blocks of it are") \
    X(FORMAT_KEEPS, "format", "no signpost to nowhere: what was there counts until the end") \
    X(FORMAT_ORDER, "format", "the signpost to nowhere is not flushed before the new areas") \
    X(FORMAT_END, "format", "the signpost is written before slot A is flushed")

enum bug {
    BUG_NONE,
#define BUG_NUMBER(name, class, text) BUG_##name,
    BUGS(BUG_NUMBER)
#undef BUG_NUMBER
    BUG_COUNT
};

struct store;
/* CHECKPOINT_SKIP: the first sectors of home page `number` and of its recovered image are equal. */
int bug_home_looks_new(struct store *store, unsigned long long number, const void *image,
                       void *scratch);

#ifdef KATYDID_BUGS
struct bug_entry { const char *name, *class, *breaks; };
extern enum bug bug_on;
extern const struct bug_entry bug_table[BUG_COUNT];
enum bug bug_find(const char *name_or_number);      /* BUG_NONE: there is no such bug */
#endif

/*
 * never(c): c cannot be true, whatever the disk holds; it is handled all the same. A test build
 * without a planted bug stops there; `make coverage` compiles both kinds of branches out.
 */
#if defined KATYDID_COVERAGE
#define BUG(n) 0
#define never(condition) ((void)sizeof(condition), 0)
#elif defined KATYDID_BUGS
#define BUG(n) (bug_on == (n))
#define never(condition) ((condition) && (bug_on || (__builtin_trap(), 1)))
#else
#define BUG(n) 0
#define never(condition) (condition)
#endif

#endif
