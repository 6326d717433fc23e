/*
 * site_state.h - the state of sites.cpp's model, the form of its scenarios, and the rules that can
 * be switched.
 */
#pragma once
enum { SITES = 4, PAGES = 4, THREADS = 4, TXNS = 8, MSGS = 15, VERSIONS = 6, QUEUE = 5, POOL = 3 };
enum { NO, SHARED, EXCLUSIVE };
enum { AWAY = 0xff };                   /* contents that were evicted: the site keeps its right */

#define RULES(X) \
    X(GONE_ANY, "NR5: GONE is taken for an answer whatever grant it names") \
    X(FREE_AT_LOSS, "NS4: a home frees a lost site's rights before its lease is over") \
    X(NO_GRACE, "NS6: a home that was started again grants at once") \
    X(KEEP_AT_LOSS, "NS3: a site keeps cached pages beyond the loss of its session") \
    X(WORK_ON, "NS3: a transaction goes on although a session that it used is gone") \
    X(UNDONE_FORGOT, "NC6: 'undone' is answered and not remembered") \
    X(OLD_COMMIT, "NS2: a COMMIT of an ended session is believed if nobody asked about it") \
    X(UNDONE_AT_LOSS, "NC7: a client that lost the home behind its COMMIT says 'undone'") \
    X(AGAIN_AT_LOSS, "NC7: ... or runs it again without asking") \
    X(SAME_ID, "NC1: a transaction that runs again keeps its id") \
    X(NO_VALIDATE, "NC4: homes that were only read are not asked (a clock is wrong)") \
    X(PREPARED_FREED, "NC5: a session's end frees pages of its prepared transactions") \
    X(VOTE_EARLY, "NC5: yes is said before the prepare record is durable") \
    X(VOTE_SHIFT, "NC5: who voted and lost the session changes its mind") \
    X(DOUBT_SERVED, "NC5: a home that was started again serves pages in doubt") \
    X(CLIENT_DECIDES, "NC3: the client decides when all have voted, the log comes later") \
    X(ASK_PASSES, "NC6: who asks is told 'undone' while the COMMIT waits for its flush") \
    X(LOGGED_FREED, "NC6: a session's end frees pages of a COMMIT that waits for its flush") \
    X(LAZY_READ, "NC9: a home votes yes though it has shown what is not durable") \
    X(LAZY_LOCAL, "NC9: the own store that was only read is not flushed first") \
    X(LAZY_PREPARED, "NC9: a lazy commit of several homes is prepared, nothing flushed") \
    X(LAZY_DECIDED, "NC9: a lazy commit of several homes is decided before its flush") \
    X(SNAP_CROSSES, "NV2: SNAPPED may overtake the DONE of a commit that it contains") \
    X(SNAP_LATER, "NV3: a snapshot uses what was granted after it began") \
    X(SNAP_ANY, "NM2: an answer to a snapshot's earlier question counts") \
    X(SNAP_STILL, "NV5: homes of one snapshot are not asked whether they stood still") \
    X(STILL_EARLY, "NV5: a home is asked that before all have answered SNAP") \
    X(STILL_VOTES, "NV5: a home stands still although it has voted for something") \
    X(STILL_SHOWS, "NV5: ... or although it has shown something") \
    X(SNAP_DOUBT, "NV6: a snapshot begins while something is prepared there") \
    X(SNAP_ORPHANS, "NV6: a snapshot waits for orphans only") \
    X(DONE_APPLIED, "NV6: ... and DONE is told when all have applied it") \
    X(NO_HOLD, "NV7: a snapshot of several homes never asks them to hold") \
    X(HOLD_LOGGING, "NV7: ... or answers before what it has taken is flushed") \
    X(HOLD_SNAPPED, "NV7: a home holds until SNAPPED alone") \
    X(HOLD_COMMITS, "NV7: a home that holds puts back COMMITs of several homes") \
    X(ANSWER_ACTIVE, "NR4: a callback is answered although a transaction uses the page") \
    X(HOME_TAKES, "NR3: the home takes an idle site's pages without a callback") \
    X(RECALL_STOPS, "NR6: a recall stops also who uses the page from raising its use") \
    X(KEEP_OWED, "NR8: a victim keeps the rights that others wait for") \
    X(NO_FIRST_USE, "NR7: a recall may come before the use that asked for the page") \
    X(TWO_ASKS, "NR1: a second fault of a site sends a second GET") \
    X(DRAIN_IDLE, "NR10: a container lock takes pages of idle sites without a callback") \
    X(DRAIN_ONE, "NR10: a container lock calls back its first page only") \
    X(DRAIN_PASSED, "NR10: newcomers of a site pass a container lock that drains") \
    X(PROBE_EARLY, "ND1: the search follows a holder that was not called back yet") \
    X(NO_SEARCH, "ND1: no search for deadlocks over sites") \
    X(NO_WORKER_EDGE, "ND2: a GET that waits for a worker waits for nobody") \
    X(NO_DRAIN_EDGE, "ND2: who waits at a container that drains waits for nobody") \
    X(OLD_VICTIM, "ND3: the victim is the oldest") \
    X(UPDATE_KEEPS, "NU1: what is to be sent anew is used until it comes") \
    X(UPDATE_EARLY, "NU2: it is sent before the commit that changes it is over") \
    X(RECALL_SHARED, "planted: a page called back to S stays X") \
    X(STALE_GRANT, "planted: GRANT carries the page before the last commit") \
    X(DECISION_LOST, "planted: the decision is not in the log") \
    X(HALF_COMMIT, "planted: one of two pages is logged")
#include "small.h"

/*
 * A page has its home, a thread its site: a digit each. Programs are transactions with commas
 * between: r and w with a page, c with a home: its container's lock; S before it: a snapshot,
 * L: lazy. f among the hazards: sites have pages sent anew (NU). Each other letter is one: b a link
 * breaks, k a site crashes, d a page is evicted or given back, u a transaction undoes itself, e a
 * participant asks early, s a clock is wrong.
 */
struct Scenario {
    const char *name, *what, *home, *where, *program[THREADS], *hazards;
    int bound;                          /* so many times may a transaction be a victim; 0: 4 */
    int workers;                        /* of a session at a home; 0: enough */
    int patience;                       /* rounds of a snapshot before it says hold; 0: 2 */
};

enum pc : u8 { NEXT, RUN, VOTING, COMMITTING, ASKING, APPLYING, BACKOFF, SNAPPING, STANDING,
               FETCHING, END };
enum kind : u8 { GET, CANCEL, GONE, COMMIT, PREPARE, DECIDE, QUERY, SNAP, STILL, SNAP_END, GET_OLD,
                 ASK, TOLD,             /* between homes */
                 GRANT, DENIED, CALL, DONE, REFUSED, VOTED, OUTCOME, SNAPPED, STOOD, OLD, APPLIED };
static const char *const kind_name[] = {
    "GET", "CANCEL", "GONE", "COMMIT", "PREPARE", "DECIDE", "QUERY", "SNAP", "STILL",
    "SNAP_END", "GET_OLD",
    "ASK", "TOLD",
    "GRANT", "DENIED", "CALL", "DONE", "REFUSED", "VOTED", "OUTCOME", "SNAPPED", "STOOD", "OLD",
    "APPLIED"};

/* txn: the transaction, or the thread that asks; serial: of a grant, an attempt, a round. */
struct Msg { u8 way, kind, page, txn, serial, value, extra; };
struct Cache { u8 right, content, serial, recall /* to + 1 */, asked, asker /* + 1 */; };
struct Want { u8 site, want, thread, page, again; };
struct Page {
    u8 content, right[SITES], serial[SITES], called[SITES] /* to + 1 */;
    u8 waiting, versions, version[VERSIONS];
    Want queue[QUEUE];
};
/* Masks of transactions, but for those that say more. client[j]: the generation of the link in
 * which the session with home j began; server[i]: of the session that this home keeps for i. */
struct Site {
    u8 up, grace /* sites */, client[SITES], server[SITES];
    u8 event;                           /* so often has it shown something */
    u8 came, logging, lazy, done, unanswered;   /* put aside; in the log; not flushed; flushed */
    u8 prepared, unlogged, orphan;
    u8 open[THREADS], held;             /* snapshots asked for: round + 1; threads that hold */
    u8 lock, drained;                   /* of the container: thread + 1 */
    u8 at[TXNS], attempt[TXNS], tomb[TXNS], undone[TXNS];
};
struct Thread {
    u8 pc, number, op, attempt, sure, used[PAGES], aborts, asks, wantx, voted, sent, round;
    u8 seen[PAGES] /* content + 1 */, snap[SITES] /* event + 1 */, stood /* homes */;
};
struct Txn { u8 before, reads[PAGES], acked, undone, lost; };
struct State {
    u8 messages;
    Msg m[MSGS];
    u8 generation[SITES][SITES];
    Cache cache[SITES][PAGES];
    Page page[PAGES];
    Site site[SITES];
    Thread thread[THREADS];
    Want pool[POOL];                    /* GETs that no worker has, in order */
    u8 pooled;
    Txn txn[TXNS];
    u8 committed, which[TXNS], breaks, crashes, drops, dooms, earlies, skews;
};

static u8 bit(int n) { return (u8)(1u << n); }
static bool has(int mask, int n) { return mask >> n & 1; }
