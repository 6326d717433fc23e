/*
 * bug.h - planted bugs: each breaks one rule of the store on purpose.
 *
 * A checker that nobody has seen fail is no evidence. BUG(n) is 0 in a normal build; a build with
 * -DKATYDID_BUGS switches bug n on by bit n of bug_mask, and the crash tests must find every one.
 */
#ifndef KATYDID_DISK_BUG_H
#define KATYDID_DISK_BUG_H

enum bug {
    BUG_ACK_EARLY = 1,      /* a group is acknowledged when its write completes, before the flush */
    BUG_NO_FLUSH,           /* checkpoint: no flush between what the superblock names and itself */
    BUG_NO_CRC,             /* a group's CRC is not compared: torn groups are replayed */
    BUG_HEADER_CRC,         /* a group's CRC covers its header only */
    BUG_NO_LSN,             /* a group's LSN is not compared: the last lap is replayed */
    BUG_NO_EPOCH,           /* recovery begins no new epoch: a cut-off tail comes back to life */
    BUG_SUPERBLOCK_FIRST,   /* the superblock is written before what it names */
    BUG_SUPERBLOCK_ONE,     /* only slot A is ever written, over itself */
    BUG_CHECKPOINT_SAME,    /* a checkpoint overwrites the area that is in use */
    BUG_CHECKPOINT_SKIP,    /* recovery leaves a home page alone whose first sector looks new */
    BUG_TRUNCATE_EARLY,     /* log space is released when a checkpoint begins, not when it ends */
    BUG_RECOVERY_ORDER,     /* recovery's superblock is not preceded by a flush of the home pages */
    BUG_SKIP_BAD,           /* scan 1 steps over a bad group instead of ending there */
    BUG_FULL_BELOW,         /* no full image is asked for after a checkpoint: differences go on */
    BUG_CLEANED_STALE,      /* cleaning an old version marks the page clean at its newer one */
    BUG_NO_FREEZE,          /* a checkpoint saves metadata newer than its redo LSN */
    BUG_CHECKPOINT_DIRTY,   /* a checkpoint ends although old dirty pages have not gone home */
    BUG_AREA_DIRTY,         /* metadata changed before the last checkpoint is not saved again */
    BUG_SCAN_LSN,           /* a checkpoint forgets the SPILL records of running chains */
    BUG_CHAIN_CHECK,        /* recovery does not compare a chain with its commit record */
    BUG_SPILL_CRC,          /* a spilled page's CRC is not compared */
    BUG_CHAIN_OLD,          /* a chain may grow older than half the log */
    BUG_LOGGED_STALE,       /* a spilled image stays a page's newest after the page was rewritten */
    BUG_COUNT
};

#ifdef KATYDID_BUGS
#include <stdint.h>
extern uint64_t bug_mask;
#define BUG(n) ((bug_mask >> (n)) & 1)
#else
#define BUG(n) 0
#endif

#endif
