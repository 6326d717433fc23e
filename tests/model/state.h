/*
 * state.h - the state of the modelled system: views, pages, CPUs with their TLBs, the manager, and
 * the history that is checked.
 *
 * Everything is a byte, so that a State can be copied, compared and fingerprinted as memory. "x1"
 * fields hold a number plus one; 0 is none.
 */
#pragma once
#include <cstdint>
typedef uint8_t u8;

enum {
    NV = 4,
    NP = 2,
    NC = 2,
    NF = 9,
    NT = 8,
    NOLD = 4,
    ALIAS_WRITE = 0x80
}; /* views, pages, CPUs, frames, transactions, versions */
/* FROZEN: a COPY made read-only at CM1 */
enum Right : u8 { EMPTY, SHARED, COPY, FROZEN, HELD, SPILLED };
enum ViewState : u8 { IDLE, ACTIVE, COMMITTING };
enum Doom : u8 { NONE, DEADLOCK, KILLED, MANAGER_DEAD, REFUSED, CONVERSION, STALE };
enum TxnState : u8 { UNUSED, RUNNING, LOGGED, PUBLISHED, READONLY, ACKED, ABORTED };
enum Pc : u8 {
    NEXT,
    SNAP2,
    USER,
    FAULT,
    CF2,
    R2STORE,
    CF3,
    CF3WAIT,
    CF4,
    INVLPG,
    CF5MARK,
    CF5,
    SLEEP,
    PAGEWAIT,
    CREDITWAIT,
    CM3,
    CSLEEP,
    CM8,
    CM8IDLE,
    ABORT,
    CLOCK,
    F3MAP,
    F5ADMITTED,
    SHUTOUT,
    ASKWAIT,
    END1,
    END2,
    END3,
    SPILLASK,
    BRING,
    DONE
};

struct Pte {
    u8 right, frame, used;
}; /* used: 1 is A, 2 the software bit USED */
struct View {
    u8 state, pc, number, op, doom, owed, ticket, wantx, waits, woken, page, want, upgrade, cand,
        block, shoot, cpu, snap1, lastsnap1, stale, credits, answer, aborts, killed, expired, clock,
        rmw, epoch, copying1, untouched, late, then, asked, askpage1, askaccess, asknum, handnum,
        handpage, handaccess, place, look /* ask.h: order */, word, given, closed, exclusive,
        told /* pages whose copies the manager was told, to spill */,
        cursor, logged /* of KD_TXN_DIFF: places in the list; pages that were told */,
        left /* a snapshot that looked for its versions and leaves the list later */,
        faults, behind; /* of its transaction, 2 at most; who stood in the container's queue when it
                           began, and does still. Of scenarios that escalate */
    u8 copy1[NP], allowed[NP];
    u8 alias1[NP], late1 /* an alias that is still to be stored */; /* frame, ALIAS_WRITE */
    Pte pte[NP];
};
struct Version {
    /* keeper1: the snapshot view that it is attached to, or PUBLISHER */
    u8 frame1, csn, until, keeper1;
};
struct Page {
    u8 frame1, csn, writer1, mask, queue[NV], queued, lock, dirty, asked, home, homecsn,
        log1, away, lost, read1, readcsn, since /* published when the manager read */,
        stale, held /* the tick when a right was HELD last */,
        lacks, recalled, users, told, site, back; /* ask.h */
    Version old[NOLD];
};
struct Cpu {
    u8 table1, ipi, walk1, walkframe, walkwrite;
    struct {
        u8 frame1, write;
    } tlb[2 * NP]; /* by address: behind the pages' first addresses their second ones */
};
struct Frame {
    u8 used, content;
}; /* content: the transaction whose bytes it holds; 0: the first version */
struct Txn {
    u8 state, csn, wrote, before, reads[NP];
}; /* before: transactions acknowledged before this one began */
struct Sweep {
    u8 pc, page, cand, shoot, index;
}; /* evictor, version collector, manager death; the evictor's index: the page stays */
struct State {
    View v[NV];
    Page p[NP];
    Cpu c[NC];
    Frame f[NF];
    Txn t[NT];
    Sweep evict, gc, death, recall;
    u8 mpc, group[NV], grouped, group2[NV], grouped2, flushed2, failed, flushfails, gi, gp,
        queue[NV], queued, dead, published, csn, tick, pool, consumed, clock1, shared, drainer1,
        drains, firstwalk, again,
        clockqueue[NV],
        clockwaits, epoch, creditqueue[NV], creditwaits;
    u8 evictions, kills, deaths, refusals, stales, spills, timeouts, suspends, destroys,
        users /* of the leaf, with groups: all masks of its pages, or more */,
        written, durable /* groups in the log, by csn; of these the ones that a flush covers */,
        forgets, floor /* the greatest csn that was forgotten with a leaf */,
        settled /* the manager said that nothing older than versions up to here comes any more */,
        gone, /* pages of destroyed objects */
        recalls, taking, leaves, remotes, /* ask.h */
        entered; /* of views 0 and 1, if they are one thread's: the one that it runs */
};
/* holders of a leaf lock other than view + 1 */
enum { LOCK_EVICT = 10, LOCK_GC, LOCK_DEATH, LOCK_RECALL };
/* who sent a shootdown, other than a view */
enum { IPI_EVICT = NV, IPI_GC, IPI_DEATH, IPI_RECALL };
