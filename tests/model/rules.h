/*
 * rules.h - what can be switched. TEXT_*: a plausible but wrong reading of the protocol, which a
 * sentence of kernel/store/views.md or kernel/store/faults.md rules out. BUG_*: an error planted on
 * purpose. Each must make the checker report an error in some scenario. tests/bugs/kernel names the
 * rules that can be broken in the kernel, too.
 */
#pragma once
#define RULES(X) \
    X(TEXT_BEGIN_STALE, \
      "begin does not look for a shootdown still due to it (CF2..CF3 against begin)") \
    X(TEXT_HELD_UNUSED, "FT4 maps a HELD page with A = 0") \
    X(TEXT_HELD_TAKEN, "CF2 reads HELD in an active view as 'A = 0: take'") \
    X(TEXT_HELD_MAP, "FT4 maps without leaf lock and residency check") \
    X(TEXT_OWED_LATE, \
      "OWED is marked at CF5, not in the view-lock section in which CF2 found the blocker") \
    X(TEXT_C8_ORDER, "CM8: drop rights, wake, then idle") \
    X(TEXT_ABORT_KEEPS, "AB4 wakes but gives no rights up") \
    X(TEXT_NO_WAKE_NEXT, "who leaves a page's queue wakes nobody") \
    X(TEXT_SNAP_BEGIN, "snapshot begin reads `published` and registers in two steps") \
    X(TEXT_FREE_AT_FLIP, \
      "CM7 frees an old version at the flip if no registered snapshot needs it") \
    X(TEXT_WRITER_AT_FLIP, "CM7 clears `writer` page by page, before `published = csn`") \
    X(TEXT_SNAP_NO_MASK, "FT3 maps a version without setting the view's mask bit") \
    X(TEXT_SNAP_RIGHT, "CF2 treats a snapshot view's PTE as a right") \
    X(TEXT_COMMITTING_IDLE, \
      "CF2 treats a COMMITTING view like an idle one for pages it only read") \
    X(TEXT_FAULT_A0, "FT7 installs the faulting page's PTE with A = 0") \
    X(TEXT_XRO_WRITER, "nobody clears `writer` of an exclusive right without a copy") \
    X(TEXT_C3_DEAD, "CM3 enqueues at a dead manager's port") \
    X(TEXT_DOOM_ONCE, "manager death dooms the views active at that moment only") \
    X(TEXT_C8_CREDITS, "CM8 returns the credits of logged copies to the pool") \
    X(TEXT_CREDIT_LATE, "FT7 sets writer, then waits for the credit") \
    X(TEXT_GROUP_QUEUE, "a group grant maps neighbours whose queue is not empty") \
    X(TEXT_R6_FROM_F5, "a woken waiter goes on at FT5: residency is not looked at again") \
    X(TEXT_EVICT_COMMITTING, "EV3 leaves EMPTY in COMMITTING views") \
    X(TEXT_CLOCK_EARLY, "the container lock is looked at before the leaf is locked, not with it") \
    X(TEXT_CLOCK_IN_PAGE, \
      "a fault blocked by a container lock waits in the page's queue, in the holder's way") \
    X(TEXT_SHOOT_A, "CF2 and EV3 note a CPU only if A is 1 (USED does not count)") \
    X(TEXT_F3_UNLOCKED, "FT3 maps without the leaf lock") \
    X(TEXT_EMPTY_DIFF, \
      "CM7 drops the copy of a page that was not changed, while its PTE and TLB entry stand") \
    X(TEXT_CLOCK_TLB, "the container lock's walk unlocks a leaf before its shootdown") \
    X(TEXT_CREDIT_UNFAIR, "credits have no queue") \
    X(TEXT_KERNEL_PIN, \
      "a kernel copy round the user mapping neither pins the frame nor holds the view lock") \
    X(TEXT_XRO_QUEUE, \
      "a view that already is `writer` (no copy yet) queues behind those who wait for it") \
    X(TEXT_CLOCK_UNFAIR, "the container lock is taken by whoever comes, not by the queue's head") \
    X(TEXT_QUEUE_EDGES, "who leaves a page's queue stays an edge of those behind it") \
    X(TEXT_QUEUE_NO_WAKE, \
      "who leaves a page's queue wakes its head only, not those whose last edge it was") \
    X(TEXT_WEIGHT_UPGRADE, "the second upgrader is the victim, whatever it weighs") \
    X(TEXT_WEIGHT_SEARCH, "the search's victim is the youngest, whatever it weighs") \
    X(TEXT_UPGRADER_DOOMED, "an upgrader that is doomed counts as the first one") \
    X(TEXT_LOCK_EDGES_FIRST, "an end takes the edges to it away before its container locks") \
    X(TEXT_LOCK_DRAINS_FIRST, "an end leaves `drains` before the edges to it go") \
    X(TEXT_LOCK_FIRST_WALK, \
      "the first walk of a shared lock lets writers in beside other shared locks") \
    X(BUG_LOCK_AGAIN, "who is let in behind the walk is not noted: no other walk follows") \
    X(BUG_LOCK_SHUT, "those that a drain waits for are shut out, too") \
    X(BUG_LOCK_NEWCOMERS, "who comes while a container is drained is let in, always") \
    X(BUG_LOCK_DRAINS, "an end does not leave `drains`") \
    X(BUG_LOCK_BARGES, \
      "who begins anew in a container with escalation is before those whom its lock shut out") \
    X(BUG_LOCK_BEHIND, \
      "the first fault of who has a shared lock goes behind those who wait for that") \
    X(BUG_LOCK_UNTOUCHED, "a view that waits for its first lock keeps its rights") \
    X(BUG_ASK_READ, "a right for a load that was asked for counts for a store") \
    X(BUG_ASK_KEPT, "a right that was asked for outlives the touch and its transaction") \
    X(BUG_ASK_ANY, "a manager's answer counts for whatever the view asks by then") \
    X(BUG_ASK_FAST, "the next fault near by does not ask") \
    X(BUG_ASK_GROUP, "a group grant maps neighbours that nobody asked for") \
    X(BUG_ASK_DEAD, "who asks is not woken when the object dies") \
    X(BUG_ASK_GONE, "who asks no more, of what its manager has received, tells nobody") \
    X(TEXT_KEPT_UNSEEN, "a manager keeps a question, and does not look behind that if it stands") \
    X(TEXT_RECALL_LATE, \
      "who uses a page that is called back is noted at the call's end, not where it was seen") \
    X(BUG_RECALL_OPEN, "a page that is called back stays open to newcomers") \
    X(BUG_RECALL_FIRST, "a right is called back from a view that was just given it") \
    X(BUG_RECALL_IDLE, "a recall leaves the rights of idle views") \
    X(BUG_RECALL_TLB, "a recall is over before its shootdown") \
    X(BUG_RECALL_OWED, "who uses a page that is called back keeps its right behind its end") \
    X(BUG_RECALL_TOLD, "the end of the last user of a page that is called back tells nobody") \
    X(BUG_RECALL_LAST, "only the end of the last user of all that is called back tells") \
    X(BUG_RECALL_WRITER, "a recall to read does not look at who has a copy") \
    X(BUG_RECALL_COMMITS, "a recall takes what a committing view uses") \
    X(BUG_RELEASE_TLB, "KD_TXN_RELEASE gives a right up without a shootdown") \
    X(BUG_RELEASE_WAKES, "KD_TXN_RELEASE wakes nobody") \
    X(BUG_EXCLUSIVE_UPGRADE, "who wants a page exclusively that it has read is no upgrader") \
    X(BUG_USERS_PORTION, \
      "the container lock's walk sums the masks of its portion, not of the whole leaf") \
    X(TEXT_WAIT_STALE, "a wake-up leaves the bit in the waiter's waits-for mask") \
    X(TEXT_WAIT_EARLIER, "waits-for holds blockers only, not earlier waiters") \
    X(TEXT_PUBLISHED_FIRST, "CM7: `published` moves before the pages do") \
    X(TEXT_SUSPENDED_EDGE, "a suspended view does not wait for what its thread runs") \
    X(TEXT_SUSPENDED_VICTIM, "a suspended view can be the victim, though its thread cannot act") \
    X(BUG_ENTER_NO_FLUSH, "a thread enters its other view with the TLB of the first") \
    X(BUG_MASK_LOST, "FT7 does not set the mask bit") \
    X(BUG_WAKE_LOST, "AB4 and CM8 wake nobody") \
    X(BUG_SNAP_KEEPS, "a snapshot keeps what an older one mapped") \
    X(BUG_LOCK_IGNORES, "the container lock does not wait for those who use pages") \
    X(BUG_DOOM_COMMITS, "CM1 does not look at the doom") \
    X(BUG_FLUSH_LIES, "a failed flush counts as a good one") \
    X(BUG_FAILED_ONCE, "only the group whose flush failed is refused, not the later ones") \
    X(BUG_GROUP_ORDER, "of two groups under way the later one is published first") \
    X(BUG_LAZY_ORDER, "a strict commit's flush does not cover the lazy commits before it") \
    X(BUG_LAZY_SHARED, "a group of lazy and strict commits is answered without a flush") \
    X(BUG_LAZY_HOME, "a page goes home before the lazy commit that wrote it is durable") \
    X(BUG_LAZY_FAILED, "a lazy group is answered after a failed flush") \
    X(BUG_CLEAR_A, "A cleared at begin without flush") \
    X(BUG_NO_SHOOTDOWN, "shootdown skipped for A = 1") \
    X(BUG_PUBLISH_EARLY, "publish before flush") \
    X(BUG_HELD_FORGOTTEN, "eviction leaves EMPTY in active views") \
    X(BUG_KERNEL_COPY, "a kernel copy round the user mapping does not set USED") \
    X(TEXT_EVICT_COPY, \
      "EV3 turns whatever is present into HELD, the copy that came back since the look, too") \
    X(TEXT_EVICT_STAYS, \
      "a page that stays, as a copy came back, is unlocked before the shootdown") \
    X(TEXT_EVICT_SNAPSHOT, "EV3 leaves the entries of snapshots alone, as they are no rights") \
    X(TEXT_LEAF_FLOOR, \
      "LF1: a leaf that is made anew takes its pages for older than every snapshot") \
    X(TEXT_LEAF_HELD, "a leaf is forgotten with a right that is HELD for a running transaction") \
    X(TEXT_SUPPLY_SEQUENCE, "a page that is supplied again is older than every snapshot") \
    X(TEXT_TICKET_LATE, \
      "begin writes the ticket into a page of the store, while it is `untouched`") \
    X(TEXT_DIFF_PLACE, "KD_TXN_DIFF's cursor counts places in the list of copies") \
    X(TEXT_GC_FIFO, "old versions stand in a FIFO, and its head decides") \
    X(TEXT_GC_TWO_STEPS, "a snapshot finds that it has no version, and leaves the list later") \
    X(BUG_GC_KEEPS, \
      "a version is handed on to the next older snapshot, whether that needs it or not") \
    X(BUG_GC_NO_IPI, "an old version is freed without shootdown") \
    X(BUG_NO_INVLPG, "invlpg skipped after the private copy") \
    X(BUG_UPGRADE_TAIL, "upgraders wait at the queue's tail") \
    X(BUG_NEW_TICKET, "a retry gets a new ticket") \
    X(BUG_NO_FREEZE_FLUSH, "CM1 makes copies read-only without a local flush") \
    X(BUG_ABORT_INVLPG, "AB2 frees a copy without invlpg") \
    X(BUG_PLAIN_STORE, "CF2 looks at A, then stores EMPTY (no cmpxchg)") \
    X(BUG_HW_A_RACE, "the MMU writes A back without comparing the PTE (old emulators)") \
    X(BUG_LAZY_TABLE, "a CPU keeps a view's TLB although the view ran elsewhere since") \
    X(BUG_EVICT_NO_IPI, "eviction frees the frame without shootdown") \
    X(BUG_SPIN_DEAF, "a spinning CPU serves no shootdown") \
    X(BUG_TAKE_COPY, "CF2 forgets that a COPY is a use") \
    X(BUG_GC_SNAPSHOT, "an old version is freed though a snapshot needs it") \
    X(BUG_ABORT_CREDITS, "abort returns no credits") \
    X(BUG_NO_SEARCH, "no deadlock search") \
    X(BUG_NO_WANTX, "a retry does not take the page exclusively, and keeps its rights") \
    X(BUG_ACK_EARLY, "the commit is acknowledged before publication") \
    X(BUG_DEATH_KEEPS, "manager death drops frames without clearing PTEs") \
    X(TEXT_SWEEP_FREES, "a sweep frees a portion's frames, then shoots down its rights") \
    X(BUG_SWEEP_CLAIMED, "QU3: a sweep takes the copies of a view that a call has claimed") \
    X(BUG_SPILL_TOLD, \
      "what was told, and not spilled, counts as told when its manager is asked again") \
    X(BUG_SPILL_NO_IPI, "SP2: the frame of a spilled copy is freed without shootdown") \
    X(BUG_SPILL_HELD, "CM7: a spilled copy that is published leaves its record in the PTE") \
    X(BUG_SPILL_AWAY, "CM7: an older version may come in place of a published spilled copy") \
    X(BUG_SETTLED_EARLY, "SP4: a version counts as settled while an older one is on its way") \
    X(BUG_SPILL_CREDITS, "SP1: a spilled copy keeps its credit") \
    X(BUG_UNSPILL_OLD, "a spilled page is brought back without its bytes") \
    X(BUG_STALE_FOR_EVER, "a manager may supply an older version again and again") \
    X(BUG_SHOOT_AFTER, "X is granted before the shootdown is acknowledged") \
    X(TEXT_ALIAS_LATE, "WI3: an alias is stored after the lock under which its entry was read") \
    X(BUG_ALIAS_UNUSED, "WI3: an alias is made, and its entry does not become used") \
    X(BUG_ALIAS_GREATER, "WI1: an alias allows stores where its entry does not") \
    X(BUG_ALIAS_EVICT, "WI2: an alias stays when the page goes") \
    X(BUG_ALIAS_TAKE, "WI2: an alias stays when its right is taken, or given up at an end") \
    X(BUG_ALIAS_COPY, "WI2: an alias stays when its entry becomes a private copy") \
    X(BUG_ALIAS_PUBLISH, \
      "WI2: an alias stays, and allows stores, when the copy is frozen and published") \
    X(BUG_ALIAS_ABORT, "WI2: an alias stays when the private copy goes") \
    X(BUG_ALIAS_SPILL, "WI2: an alias stays when the private copy goes to the log") \
    X(BUG_ALIAS_VERSION, "WI2: an alias stays when a snapshot loses its version") \
    X(BUG_ALIAS_DEATH, "WI2: an alias stays when the object dies") \
    X(BUG_ALIAS_INVLPG, "WI4: an alias goes without invlpg at its own address")
typedef int Rules; /* the rule that is switched; -1: none */
enum Rule {
#define X(name, text) name,
    RULES(X)
#undef X
        RULE_COUNT
};
