/*
 * bug.h - errors planted on purpose, to see that the tests find them.
 *
 * A normal build has none of it: BUG(n) is 0. build/bugs/kernel.elf is built with -DKATYDID_BUGS, and
 * the word bug=NAME on its command line switches one on. Such a kernel also keeps a shadow of what TLBs
 * may hold (shadow.c). The second column is the rule of tests/model/rules.h that is the same error, or
 * "-"; tests/system/kernel-bugs.py says which tests find it.
 */
#ifndef KERNEL_BUG_H
#define KERNEL_BUG_H

#define KERNEL_BUGS(X) \
    X(NO_SHOOTDOWN, "BUG_NO_SHOOTDOWN", "R3: no shootdown of rights that were taken") \
    X(NO_INVLPG, "BUG_NO_INVLPG", "F7: no invlpg behind the private copy") \
    X(CLEAR_A, "BUG_CLEAR_A", "the clock clears ACCESSED, without USED and without a flush") \
    X(HELD_FORGOTTEN, "BUG_HELD_FORGOTTEN", "E3: eviction leaves EMPTY in active views") \
    X(EVICT_NO_IPI, "BUG_EVICT_NO_IPI", "E4: the frame is freed before any shootdown") \
    X(GC_SNAPSHOT, "BUG_GC_SNAPSHOT", "an old version is freed though a snapshot needs it") \
    X(GC_NO_IPI, "-", "an old version is freed without shootdown") \
    X(SNAP_NO_MASK, "TEXT_SNAP_NO_MASK", "F3: a version is mapped, the mask is not told") \
    X(SNAP_RIGHT, "TEXT_SNAP_RIGHT", "R2: a snapshot's PTE is a right") \
    X(TWO_STEPS, "TEXT_PUBLISHED_FIRST", "C7: `published` moves before the pages do") \
    X(MASK_LOST, "BUG_MASK_LOST", "F7: the mask bit is lost at a grant") \
    X(GROUP_QUEUE, "TEXT_GROUP_QUEUE", "a group grant maps pages that others write or wait for") \
    X(NO_SEARCH, "BUG_NO_SEARCH", "R5: no search for cycles") \
    X(NEW_TICKET, "BUG_NEW_TICKET", "a retry gets a new ticket") \
    X(WAKE_LOST, "BUG_WAKE_LOST", "A4, C8: who waits for the end is not woken") \
    X(C8_ORDER, "TEXT_C8_ORDER", "C8: woken first, IDLE afterwards") \
    X(COMMITTING_IDLE, "TEXT_COMMITTING_IDLE", "R2: a committing view is treated like an idle one") \
    X(ABORT_INVLPG, "BUG_ABORT_INVLPG", "A2: a copy's frame is freed without invlpg") \
    X(ABORT_CREDITS, "BUG_ABORT_CREDITS", "A2: the credit is not returned") \
    X(NO_FREEZE_FLUSH, "BUG_NO_FREEZE_FLUSH", "C1: copies become read-only without a flush") \
    X(ACK_EARLY, "BUG_ACK_EARLY", "C3: the owner does not wait for publication") \
    X(STALE_IGNORED, "TEXT_BEGIN_STALE", "B1: begin does not look at `stale`") \
    X(SNAP_KEEPS, "BUG_SNAP_KEEPS", "B1: a transaction keeps what a snapshot mapped") \
    X(LOCK_IGNORES, "BUG_LOCK_IGNORES", "a container lock does not wait for those who use pages") \
    X(DEATH_KEEPS, "BUG_DEATH_KEEPS", "a sweep frees copies and pages before any shootdown")

enum kernel_bug {
    BUG_NONE,
#define BUG_NUMBER(name, rule, text) BUG_##name,
    KERNEL_BUGS(BUG_NUMBER)
#undef BUG_NUMBER
};

#ifdef KATYDID_BUGS
extern enum kernel_bug bug_on;
void bug_init(void);                 /* reads bug=NAME; panics if there is no such bug */
void bug_window(void);               /* time for another CPU to see what is wrong */
#define BUG(name) (bug_on == BUG_##name)
#else
static inline void bug_init(void) {}
static inline void bug_window(void) {}
#define BUG(name) 0
#endif

#endif
