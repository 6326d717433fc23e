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

#include <stdint.h>
#include "base/errno.h"

#define KERNEL_BUGS(X) \
    X(NO_SHOOTDOWN, "BUG_NO_SHOOTDOWN", "R3: no shootdown of rights that were taken") \
    X(NO_INVLPG, "BUG_NO_INVLPG", "F7: no invlpg behind the private copy") \
    X(COPY_OLD, "-", "F7: what was copied before the leaf was locked is used, whatever became of the page") \
    X(CLEAR_A, "BUG_CLEAR_A", "the clock clears ACCESSED, without USED and without a flush") \
    X(HELD_FORGOTTEN, "BUG_HELD_FORGOTTEN", "E3: eviction leaves EMPTY in active views") \
    X(EVICT_NO_IPI, "BUG_EVICT_NO_IPI", "E4: the frame is freed before any shootdown") \
    X(GC_SNAPSHOT, "BUG_GC_SNAPSHOT", "an old version is freed though a snapshot needs it") \
    X(EVICT_SNAPSHOT, "TEXT_EVICT_SNAPSHOT", "E3 leaves the entries of snapshots alone") \
    X(SUPPLY_SEQUENCE, "TEXT_SUPPLY_SEQUENCE", "a page that is supplied again is older than every snapshot") \
    X(GC_KEEPS, "BUG_GC_KEEPS", "a version is handed on to a snapshot that does not need it") \
    X(GC_NO_IPI, "BUG_GC_NO_IPI", "an old version is freed without shootdown") \
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
    X(DIRTY_KEEPS, "-", "F3: a snapshot keeps what a dirty read mapped before it was published") \
    X(LOCK_IGNORES, "BUG_LOCK_IGNORES", "a container lock does not wait for those who use pages") \
    X(SPILL_TOLD, "BUG_SPILL_TOLD", "what was told, and not spilled, counts as told when its manager is asked again") \
    X(EVICT_COPY, "TEXT_EVICT_COPY", "E3: a copy that comes back from the log while its base is evicted becomes HELD") \
    X(SPILL_NO_IPI, "BUG_SPILL_NO_IPI", "SP2: frames of spilled copies are freed without shootdown") \
    X(SPILL_HELD, "BUG_SPILL_HELD", "C7: a spilled copy that is published leaves its record in the PTE") \
    X(SPILL_AWAY, "BUG_SPILL_AWAY", "C7: an older version may come in place of a published spilled copy") \
    X(SPILL_CREDITS, "BUG_SPILL_CREDITS", "SP1: a spilled copy keeps its credit") \
    X(UNSPILL_OLD, "BUG_UNSPILL_OLD", "a spilled page is brought back without its bytes") \
    X(STALE_FOR_EVER, "BUG_STALE_FOR_EVER", "a manager may supply an older version again and again") \
    X(SUSPENDED_EDGE, "TEXT_SUSPENDED_EDGE", "R5: a suspended view does not wait for what its thread runs") \
    X(SUSPENDED_VICTIM, "TEXT_SUSPENDED_VICTIM", "R5: a suspended view can be the victim") \
    X(GONE_HANDS, "-", "A3: who is killed keeps the frames and credits in its hand") \
    X(HELD_TAKEN, "TEXT_HELD_TAKEN", "R2: HELD in an active view is taken like a right that was never used") \
    X(LOCK_AGAIN, "BUG_LOCK_AGAIN", "who is let in behind a container lock's walk is not noted") \
    X(LOCK_SHUT, "BUG_LOCK_SHUT", "those that a drain waits for are shut out, too") \
    X(LOCK_NEWCOMERS, "BUG_LOCK_NEWCOMERS", "who comes while a container is drained is let in") \
    X(LOCK_DRAINS, "BUG_LOCK_DRAINS", "an end does not leave `drains`") \
    X(LOCK_UNTOUCHED, "BUG_LOCK_UNTOUCHED", "a view that waits for its first lock keeps its rights") \
    X(TICKET_LATE, "TEXT_TICKET_LATE", "B1: the ticket is written when the view is active, and counts as untouched") \
    X(LOCK_UNFAIR, "TEXT_CLOCK_UNFAIR", "a container lock is taken by whoever comes, not by the head") \
    X(LOCK_FIRST_WALK, "TEXT_LOCK_FIRST_WALK", "a shared lock's first walk lets writers in beside others") \
    X(ENTER_NO_FLUSH, "BUG_ENTER_NO_FLUSH", "a thread enters its other view with the TLB of the first") \
    X(ASK_READ, "BUG_ASK_READ", "a manager's word for a load counts for a store") \
    X(ASK_KEPT, "BUG_ASK_KEPT", "a manager's word outlives the transaction that asked") \
    X(ASK_ANY, "BUG_ASK_ANY", "a manager's answer counts for whatever the view asks by then") \
    X(ASK_FAST, "BUG_ASK_FAST", "the next fault near by does not ask") \
    X(ASK_GROUP, "BUG_ASK_GROUP", "a group grant maps neighbours that nobody asked for") \
    X(ASK_DEAD, "BUG_ASK_DEAD", "who asks is not woken when the object dies") \
    X(QUEUE_KEEPS, "-", "a fault that ends keeps its place in the page's queue") \
    X(LOCK_KEEPS, "-", "who gives up keeps its place in the container's queue") \
    X(CREDIT_KEEPS, "-", "an end keeps its place in the queue for credits") \
    X(DEATH_KEEPS, "BUG_DEATH_KEEPS", "a sweep frees copies and pages before any shootdown") \
    X(QUEUE_NO_WAKE, "TEXT_QUEUE_NO_WAKE", "who leaves a page's queue does not wake those whose last edge it was") \
    X(NO_WAKE_NEXT, "TEXT_NO_WAKE_NEXT", "who leaves a page's queue wakes nobody") \
    X(UPGRADE_TAIL, "BUG_UPGRADE_TAIL", "F5: upgraders wait at the queue's tail") \
    X(XRO_QUEUE, "TEXT_XRO_QUEUE", "F5: who may write already queues behind those who wait for it") \
    X(UPGRADER_DOOMED, "TEXT_UPGRADER_DOOMED", "F5: an upgrader that is doomed counts as the first one") \
    X(WEIGHT_UPGRADE, "TEXT_WEIGHT_UPGRADE", "F5: the second upgrader is the victim, whatever it weighs") \
    X(WEIGHT_SEARCH, "TEXT_WEIGHT_SEARCH", "R5: the youngest is the victim, whatever it weighs") \
    X(WAIT_EARLIER, "TEXT_WAIT_EARLIER", "R5: no edges to those before in the queue") \
    X(WAIT_STALE, "TEXT_WAIT_STALE", "A4, C8: who is woken keeps its edge to the view that ended") \
    X(OWED_LATE, "TEXT_OWED_LATE", "R2: OWED and the edge are noted later than the blocker was found") \
    X(PLAIN_STORE, "BUG_PLAIN_STORE", "R2: ACCESSED is looked at, then EMPTY is stored") \
    X(SHOOT_A, "TEXT_SHOOT_A", "R2: a right that is USED, but not ACCESSED, is taken without shootdown") \
    X(NO_WANTX, "BUG_NO_WANTX", "a retry does not take pages exclusively, and pages do not remember") \
    X(ABORT_KEEPS, "TEXT_ABORT_KEEPS", "A4: wakes, but gives no rights up") \
    X(HELD_UNUSED, "TEXT_HELD_UNUSED", "F4: a HELD page is mapped with neither ACCESSED nor USED") \
    X(EVICT_COMMITTING, "TEXT_EVICT_COMMITTING", "E3: eviction leaves EMPTY in committing views") \
    X(XRO_WRITER, "TEXT_XRO_WRITER", "a right to write that was never used keeps the page in memory") \
    X(SNAP_OUTLIVES, "-", "a snapshot that has mapped nothing of an object goes on when that dies") \
    X(SNAP_BEGIN, "TEXT_SNAP_BEGIN", "B2: a snapshot reads `published`, and registers later") \
    X(F3_UNLOCKED, "TEXT_F3_UNLOCKED", "F3: a version is found, and mapped without the leaf lock") \
    X(FREE_AT_FLIP, "TEXT_FREE_AT_FLIP", "C7: a version is freed before its successor is published") \
    X(WRITER_AT_FLIP, "TEXT_WRITER_AT_FLIP", "C7: `writer` is cleared page by page, before `published` moves") \
    X(C8_CREDITS, "TEXT_C8_CREDITS", "C7: credits of logged copies go back to the pool") \
    X(CREDIT_UNFAIR, "TEXT_CREDIT_UNFAIR", "credits are taken by whoever comes, not by the head") \
    X(DOOM_COMMITS, "BUG_DOOM_COMMITS", "C1 does not look at the doom") \
    X(DOOM_ONCE, "TEXT_DOOM_ONCE", "a sweep takes rights and dooms nobody") \
    X(CLOCK_EARLY, "TEXT_CLOCK_EARLY", "the container lock is looked at before the leaf is locked") \
    X(CLOCK_IN_PAGE, "TEXT_CLOCK_IN_PAGE", "who is shut out of a container stays in the page's queue") \
    X(CLOCK_TLB, "TEXT_CLOCK_TLB", "a container lock's walk unlocks a leaf before its shootdown") \
    X(RESERVE_ANY, "-", "whoever makes an object with KD_OBJECT_SPILLS takes the reserve, and is not ended") \
    X(WORD_LOST, "-", "every 500th word to a disk is lost: no error of the kernel's, and none must come of it") \
    X(STACK_OVERFLOW, "-", "a check calls itself for ever: the guard below the kernel stack stops it") \
    X(STACK_SMASH, "-", "a check writes behind an array: the stack protector stops it") \
    X(INTERRUPTED, "-", "an idle CPU halts a second time, where no interrupt is expected")

struct lock;

enum kernel_bug {
    BUG_NONE,
#define BUG_NUMBER(name, rule, text) BUG_##name,
    KERNEL_BUGS(BUG_NUMBER)
#undef BUG_NUMBER
};

#ifdef KATYDID_BUGS
extern enum kernel_bug bug_on;
void bug_init(void);                 /* reads bug=NAME; panics if there is no such bug */
void bug_stack(void);                /* STACK_OVERFLOW, STACK_SMASH */
void bug_window(void);               /* time for another CPU to see what is wrong */
void bug_window_without(struct lock *l); /* ... with l released */
void bug_yield_without(struct lock *l); /* ... and threads of this CPU */
long bug_die_in(uint64_t n);         /* KD_TRACE_DIE: the calling thread is killed by its n-th event */
void bug_event(void);                /* it has recorded one */
#define BUG(name) (bug_on == BUG_##name)
#else
static inline void bug_init(void) {}
static inline void bug_stack(void) {}
static inline void bug_window(void) {}
static inline void bug_window_without(struct lock *l) { (void)l; }
static inline void bug_yield_without(struct lock *l) { (void)l; }
static inline long bug_die_in(uint64_t n) { return n ? -EINVAL : 0; }
static inline void bug_event(void) {}
#define BUG(name) 0
#endif

#endif
