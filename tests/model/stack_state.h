/*
 * stack_state.h - the state of stack.cpp's model, the form of its scenarios, and the rules that can
 * be switched.
 */
#pragma once
enum { CLIENTS = 3, LAYERS = 3, PAGES = 7, ITEMS = 4, OPS = 3, TRIES = 4, AGAIN = 2, HISTORY = 8,
       ENTRIES = 6, WORK_OPS = 5, NOTHING = 0xff };
enum { S0, S1, A0, A1, B0, B1, Q };     /* pages of layers 0, 1, 2; Q is the store's, too */
enum { NAME = 3 };                      /* the item that a batch changes: it lies in no page */

#define RULES(X) \
    X(OWN_COMMIT, "SK5: a manager commits its helper by itself, then passes on") \
    X(TAKE_READ, "SK6: a helper takes its transaction's read right away") \
    X(SELF_WAIT, "SK6: a helper waits for a page that its transaction has written") \
    X(SEES_BASE, "SK6: a helper reads the old version of such a page") \
    X(UNLOCK_AT_PASS, "SK7: helpers give up their locks when they pass on") \
    X(ANSWER_AT_PASS, "SK7: a transaction is answered when its manager passes it on") \
    X(PASS_UNCLAIMED, "SK8: passing on does not look whether the transaction was taken back") \
    X(GROUP_SPLIT, "SK9: helpers' changes go into another log group than their transaction's") \
    X(REFUSE_PART, "SK9: the store refuses a transaction alone, its helpers are published") \
    X(REFUSE_KEEPS, "SK9: helpers of a refused transaction stay frozen") \
    X(PUBLISH_TWICE, "SK10: helpers are published before their transaction, in two steps") \
    X(PUBLISH_ANY, "SK10: groups are published in another order than logged") \
    X(SUPPLY_LATE, "SK11: a page read before its last publication is taken") \
    X(SNAPSHOT_OTHER, "SK11: a snapshot is served from what its manager sees, not at its number") \
    X(OWN_EDGES, "SK12: waits of a helper do not count as its transaction's") \
    X(NO_PORT_EDGE, "SK13: a commit that no thread has received waits for nobody") \
    X(ANY_ORDER, "SK13: a manager receives commits in any order") \
    X(HELPER_FOREVER, "SK13: in a deadlock the helper alone is always the victim") \
    X(DEATH_SKIPS, "SK14: when a manager dies its commits go to the next one") \
    X(DEATH_GOES_ON, "SK14: a group that it passed on goes on at a lower manager") \
    X(SWEPT_READER, "SK14: who commits goes on though a page that it read is gone") \
    X(DEATH_UNDOES, "SK15: its death answers those that the store has: undone") \
    X(HEIR_EARLY, "SK16: its successor serves while a group that it passed on is under way") \
    X(UPPER_SURVIVES, "SK17: upper layers stay as they were when the store dies") \
    X(BATCH_LOST, "SK20: the store hears of its client's batch only") \
    X(BATCH_OWN, "SK20: a helper's batch goes to the store when it passes on") \
    X(BATCH_STAYS, "SK20: a helper that begins anew keeps the batch of its first run") \
    X(LAZY_BEHIND, "SK19: a lazy commit is published first and logged later") \
    X(LAZY_PART, "SK19: a lazy transaction's helpers are logged with the next flush")
#include "small.h"

enum kind : u8 { STRICT, LAZY, SNAPSHOT };
/* What manager 1 does for a transaction, beside one write for each page that was written. */
enum work : u8 { PLAIN, PACKED /* reads the other page */, READS_Q, WRITES_Q,
                 NAMES /* as PACKED, with a batch that sets a name */ };

struct Op { char what; u8 page; };      /* 'w'rite, 'r'ead; 0: no more */
struct Program { enum kind kind; Op op[OPS]; };
struct Scenario {
    const char *name, *what;
    u8 top;                             /* the highest layer */
    Program program[CLIENTS];
    enum work work;
    u8 threads, missing;                /* of each manager; a page that is never there, or 0 */
    u8 cuts, deaths, refusals, kills, evictions;
};

/* A group's phases: RUN; at manager `at`: its item waits, is worked on; at the store: it waits, is
 * in the log, is flushed; published; its program was told. */
enum phase : u8 { RUN, ASKED, WORK, STORE, LOGGED, DURABLE, PUBLISHED, OVER };
enum told : u8 { NOT_YET, DONE, UNDONE, UNKNOWN };
enum view_state : u8 { IDLE, ACTIVE, FROZEN };
enum right : u8 { NO_RIGHT, SHARED, COPY };

struct View {
    u8 state, right[PAGES], value[PAGES];
    u8 want, mode, turn;                /* the page that it waits for, how, its place in the line */
};
struct Client {
    u8 phase, at, pc, tries, told;
    u8 arrival;                         /* of its item in the port of `at`: 1, 2, ... */
    u8 pos, again;                      /* of the helper at work: done so far; it began anew */
    u8 orphan;                          /* its manager died behind PASS */
    u8 batch;                           /* so many operations its helpers' batches have */
    u8 items, half;                     /* written, as a mask; a switched rule did one half */
    u8 seen;                            /* a snapshot's number + 1 */
    u8 read[PAGES], kept[PAGES];        /* values + 1: as read; old versions kept for it */
    View v[LAYERS];
};
struct Entry { u8 client, items, group; };
struct State {
    Client c[CLIENTS];
    u8 current[PAGES], resident[PAGES], since[PAGES];
    u8 supply[PAGES], supplied[PAGES], outdated[PAGES]; /* under way: read as; published since */
    u8 alive[LAYERS];
    u8 number, history[HISTORY][ITEMS]; /* of publications; the items behind each */
    u8 disk[ITEMS];                     /* what the log stands on */
    Entry log[ENTRIES];
    u8 entries, groups, flushed;        /* flushed: so many groups are */
    u8 order[CLIENTS], ordered;         /* transactions as they were logged (or published) */
    u8 cuts, deaths, refusals, kills, evictions, off;
};

static u8 bit(unsigned n) { return (u8)(1u << n); }
static int layer_of(int p) { return p == Q ? 0 : p / 2; }
static int item_of(int p) { return p == Q ? 2 : p % 2; }
