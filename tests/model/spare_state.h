/*
 * spare_state.h - the state of spare.cpp's model, the form of its scenarios, and the rules that can
 * be switched.
 */
#pragma once
enum { LOG = 5, LINK = 6, WITNESS = 2 };

#define RULES(X) \
    X(ASYNC_ACK, "NH2: commits are acknowledged before the spare has them") \
    X(ALONE_AT_LOSS, "NH3: a home that loses its spare goes on alone without the witness") \
    X(TAKE_AT_LOSS, "NH4: a spare that loses its home takes over without the witness") \
    X(ACK_AFTER_ASK, "NH4: a spare acknowledges while it asks to take over") \
    X(OPEN_AT_RECORD, "NH4: who finds itself home in the record does not wait for the lease") \
    X(SYNC_LATE, "NH5: a home asks to name the spare before its answers wait for HAVE") \
    X(MATE_BEHIND, "NH5: a spare is named before it has all") \
    X(OPEN_TAIL, "NH6: a copy started again shows the end of its log before its mate has it") \
    X(START_HOME, "NH6: a copy started again goes on without asking the witness") \
    X(START_RECOVERS, "NH6: a copy started again writes the end of its log into pages") \
    X(OLD_TERM, "NH1: groups are taken outside the session in which the spare joined") \
    X(KEEP_TAIL, "NH7: a former home joins with the end of its log kept") \
    X(CUT_ONE_SLOT, "NH7: the cut is named in one superblock slot only") \
    X(SPARE_APPLIES, "NH7: a spare writes a group into pages as soon as it has it") \
    X(HOME_APPLIES, "NH7: a home writes a group into pages before its spare has it") \
    X(TAKE_SAME_EPOCH, "NH7: a take-over goes on in the epoch of the former home") \
    X(TERM_EPOCH, "NH7: the epoch is the term's, whoever opens how often") \
    X(TAKE_ONE_SLOT, "NH7: who opens names its epoch in one superblock slot only") \
    X(NO_FREEZE, "NH8: a home serves reads after its spare's lease has ended") \
    X(VOUCH_UNTOLD, "NH9: the other copy starts before the witness has heard of a person's word") \
    X(VOUCH_REFUSED, "NH9: the witness lets a person's word change nothing") \
    X(VOTE_ALONE, "NC4: a home votes though its spare has answered nothing since (a clock)") \
    X(VOTE_LAZY, "NC9: a home votes before what it has shown is durable") \
    X(WITNESS_FORGETS, "planted: the witness answers before its record is durable") \
    X(WITNESS_TWICE, "planted: the witness grants one term to both")
#include "small.h"

/* Hazards, one each: b a link breaks, c a crash, r a crash that takes the newest superblock slot
 * with it, d the home is taken for dead, s a clock is wrong, p a person says that the other copy,
 * which is down, stays so. */
struct Scenario {
    const char *name, *what, *hazards;
    u8 commits, votes;
    bool joined;
};

enum role : u8 { STARTING, HOME, SPARE, TAKING, OUT };
enum kind : u8 { READ_RECORD, WANT_RECORD, GIVEN, RECORD, JOIN, CATCH_UP, GROUP, HAVE, NAMED, BEAT,
                 HEARD, VOUCHED };
static const char *const kind_name[] = {"READ_RECORD", "WANT_RECORD", "GIVEN", "RECORD", "JOIN",
                                        "CATCH_UP", "GROUP", "HAVE", "NAMED", "BEAT", "HEARD",
                                        "VOUCHED"};
enum wants : u8 { NOTHING, ALONE, MATE, TO_READ, TO_VOUCH };   /* of the witness */

struct Record { u8 term, home, mate /* + 1 */; };
/* at: a place in the log, or how long it is; durable: of the home's; nobody: an answer to it is
 * of no interest any more. */
struct Msg { u8 kind, term, home, mate, at, commit, epoch, durable, common, nobody; };
struct Link { u8 count; Msg m[LINK]; };
/* length: written; flushed: durable; shown: published and acknowledged; applied: in pages. What is
 * behind length may still stand on the disk. slot[0] is the newer superblock: the least epoch that
 * it believes at each place. */
struct Copy {
    u8 up, role, frozen, lost, open, mate /* + 1 */, named, asked, joining, term, epoch;
    u8 length, flushed, shown, mate_has, met, sure, applied;
    u8 log[LOG], of[LOG], slot[2][LOG], known[3];
    u8 question /* length + 1 */, truly, heard;
    u8 vouched;                         /* home by a person's word, and W has not heard of it */
    Record record;
};
struct State {
    Copy c[2];
    Link link[3][3];
    u8 generation[3][3];
    Record record, kept;                /* the witness's, and what is durable of it */
    u8 witness_up, witness_known[3];
    u8 history[LOG], histories, next, dead /* commits that a home opened without */;
    u8 breaks, crashes, rots, deaths, skews, skewed, votes, persons;
    u8 off;                             /* copies that a person keeps down */
};

static u8 bit(int n) { return (u8)(1u << n); }
