/*
 * item_state.h - the state of items.cpp's model, the form of its scenarios, and the rules that can
 * be switched; their labels are those of items.md.
 */
#pragma once
enum { VIEWS = 3, PAGES = 2, WORDS = 4, HALVES = 8, FRAMES = 9, OLD = 4, ENTRIES = 8, HISTORY = 6 };

#define RULES(X) \
    X(NO_RECHECK, "IP1: the grant takes the copy made before the leaf lock as it is") \
    X(PULL, "IP2: a copy is brought up to date when its view takes a lock, not at publications") \
    X(FLIP, "IP3: as in page mode, the copy becomes the current frame; entries stay") \
    X(NO_PATCH, "IP3: others' copies are not brought up to date at publication") \
    X(PATCH_WORDS, "IP3: others' copies get the words, not the differences") \
    X(PATCH_ACTIVE, "IP3: copies of those that commit are not brought up to date") \
    X(SNAP_KEEPS, "IP3: snapshots keep their entries on the current frame at a publication") \
    X(SNAP_IDLE, "IP3: views between two snapshots keep such entries") \
    X(SNAP_STALE, "IP3: such a view does not flush when its next snapshot begins") \
    X(SHOOT_AFTER, "IP3: snapshots' TLBs are shot down when the words were exchanged") \
    X(NO_PRESERVE, "IP3: old words are not kept if no snapshot runs at that moment") \
    X(KEEP_ENTRY, "IP3: behind its publication the owner's entry stays on the copy's frame") \
    X(NO_END_FLUSH, "IP4: the owner's TLB is not flushed at the end of its commit") \
    X(COLLECT_EARLY, "IP5: an old version is freed while its publication is under way") \
    X(EVICT_BASE, "IP6: a page with copies is evicted") \
    X(EVICT_EMPTY, "IP6: eviction leaves nothing in views that used the page") \
    X(HOME_BLIND, "IP7: a home write that a publication overtook marks the page clean") \
    X(LIMIT_NONE, "IP9: any number of copies") \
    X(LIMIT_EDGES, "IP9: who waits for a copy to go waits for each owner, though one runs") \
    X(LIMIT_BLIND, "IP9: who waits for a copy to go waits for nobody, though all owners wait") \
    X(LIMIT_PARTLY, "IP9: who waits for a copy to go is seen to wait while owners are noted yet") \
    X(WATCH_SKIPPED, "IP11: a publication of the only copy looks at no other view") \
    X(WATCH_LATE, "IP11: ps_retry lets go first, and watches then") \
    X(MODE_REPLACED, "IL1: a second mode at an item takes the place of the first") \
    X(NO_CYCLES, "IL3: no search for deadlocks") \
    X(RELEASE_ASK, "IL5: locks are given up when the commit is asked for") \
    X(RELEASE_FLUSH, "IL5: locks are given up at the point of commit, before publication") \
    X(ADD_PLAIN, "IL10: an addition is a load and a store") \
    X(LOCK_COPIES, "IK1: a container lock waits for copies only, as readers have item locks") \
    X(LOCK_FAULT, "IK1: a fault that began before the container lock is granted behind it") \
    X(KIND_LATE, "IK2: what kind a copy is, the lock says at its publication") \
    X(NO_UNDO, "IC2: undeclared stores stay in a copy that is told whole") \
    X(UNDO_UNLOCKED, "IC2: undeclared stores are put back without the leaf lock") \
    X(ROUGH_SEEN, "IP12: a snapshot maps an old version that is rough") \
    X(ROUGH_KEPT, "IP12: a rough version is kept for a snapshot as it is") \
    X(ROUGH_NEWEST, "IP12: a rough version takes all its words from the current version") \
    X(ROUGH_ORDER, "IP12: of versions of one publication the newest is released first") \
    X(EVICT_ROUGH, "IP12: a page is evicted while a version of it is rough") \
    X(DIFF_OWN, "IC2: a difference tells the copy's words alone") \
    X(FULL_OWN, "IC2: a whole image tells the copy's words alone") \
    X(REFUSED_PENDING, "IC2: a refused transaction is in the log's order until its owner aborts") \
    X(PUBLISH_ANY, "IC2: transactions of a group are published in another order than logged") \
    X(DUE_REWOUND, "IC3: a refused transaction's whole image counts as logged") \
    X(BASE_APPLIED, "IC4: a difference names the applied version, not the newest in the log") \
    X(BASE_REWOUND, "IC4: a refused transaction's record is the next one's base")
#include "small.h"

/*
 * A program is its transactions; S before one: it is a snapshot. Words 0 and 1 are in page 0, 2 and
 * 3 in page 1; each has two halves, which are items.
 *   r0 w0 a0   reads, writes, adds to word 0, under the lock of both halves
 *   l0 h0      writes its low, its high half
 *   x0         a stray store: no lock, not declared
 *   c0         locks the container: no items from here on
 *   t0         reads word 0; while it is 0: ps_retry
 */
struct Scenario {
    const char *name, *what;
    const char *program[VIEWS][3];
    u8 kills, refusals, checkpoints, evictions;
    u8 most;                            /* copies of a page; 0: as many as views */
    bool full, speculates;              /* each record is whole; the MMU walks by itself */
};

enum modes : u8 { MODE_S = 1, MODE_X = 2, MODE_A = 4 };     /* those of a transaction add up */
enum kind : u8 { EMPTY, SHARED, COPY, FROZEN, SNAP };
enum pc : u8 { NEXT, OP, ACCESS, GRANT, COMMIT, ASKED, ENDING, ABORTS, WATCHES, LETS_GO, DONE };

struct View {
    u8 pc, txn, op;
    u8 snapshot, stale;                 /* its number + 1; the next begin flushes its TLB */
    u8 lock[HALVES];
    u8 copy[PAGES], declared[PAGES], logged[PAGES]; /* frame + 1; words; place in the log + 1 */
    u8 used, paged;                     /* pages: used; copied under the container lock */
    u8 rough;                           /* pages told with what was not declared in them (IP12) */
    u8 stray, loaded, sum;
    u8 noted;                           /* LIMIT_PARTLY: owners of copies that it waits for */
    u8 seen[2], seen_changes;           /* the page as a fault copied it without the leaf lock */
    u8 in_log;                          /* told as a whole, not published */
    u8 reads, read[WORDS];
    u8 set_mask[WORDS], set[WORDS], add[WORDS];     /* what it did to each word */
    struct { u8 frame, kind; } entry[PAGES];        /* the page table */
    struct { u8 frame, writes; } tlb[PAGES];
};
struct Page {
    u8 frame, sequence, changes, csn, lsn;          /* csn: the kernel's, lsn: the metadata's */
    u8 copies, writer;                  /* item copies; whose page copy there is, + 1 */
    u8 home[2], clean, home_csn, home_step;
    u8 newest;                          /* record + 1 that the next difference names */
    struct Old { u8 frame, sequence, superseded, rough, words; } old[OLD]; /* oldest first */
};
struct Record { u8 page, full, mask, base, value[2]; };
enum air : u8 { NONE, LAUNCHED, FLUSHED, APPLIED, PUBLISHED, COLLECTED };
struct State {
    View v[VIEWS];
    Page p[PAGES];
    struct { u8 used, word[2]; } frame[FRAMES];
    Record log[ENTRIES];
    u8 entries, durable, air_end, redo, next_redo, checkpointing, due[PAGES];
    u8 queue[VIEWS], queued;            /* commits that were asked for */
    u8 told, told_page, told_from;      /* view + 1 that is being told; from there in the log */
    u8 base_read, base[2];
    u8 open[VIEWS], opened, air[VIEWS], aired, air_state, publish_view, publish_page;
    u8 shoot, shoot_page;
    u8 published, history[HISTORY][WORDS];
    u8 truth[WORDS], log_truth[WORDS], disk_truth[WORDS], air_truth[WORDS];
    u8 kills, refusals, checkpoints, evictions;
    u8 holder, drained;                 /* of the container lock: view + 1 */
};

static u8 bit(int n) { return (u8)(1 << n); }
static bool runs(const View &x) { return x.pc >= OP && x.pc <= COMMIT; }
static bool open(const View &x) { return x.pc >= OP && x.pc <= ABORTS; }
