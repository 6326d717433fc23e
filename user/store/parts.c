/*
 * parts.c - transactions that have parts in several stores of this machine (votes.md): what the
 * kernel asks of this one, and what the stores ask each other.
 *
 *     KD_PART_VOTE      votes.c, as any vote                                the committer
 *     KD_PART_DECIDE    a commit, and a decision that is kept               the committer
 *     KD_PART_COMMIT, _UNDO   what was voted for ends, by a lazy group      here
 *     KD_PART_ASK, and votes of an earlier life: the store that decides is asked, until it answers
 *
 * A decision is kept until no store has its transaction prepared any more, which this one asks
 * when there are many, or when nothing was decided for a while.
 *
 *   VO6  Stores believe each other by the names of their ports alone: who says that it is the store
 *        of a zone is the process that receives at the port of that name.
 *   VO7  What a store says not to have prepared is durable there, whatever became of it.
 *   VO12  An outcome that cannot be written keeps no other one from being written: they have turns,
 *        and one that has failed rests, twice as long each time, for a second at most.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "../sites/rest.h"
#include "votes.h"

#define ASK_US       100000u            /* between two questions about one vote */
#define SAY_US       2000000u           /* so long without an answer, then it is said */
#define FORGET_MANY  16u                /* decisions; then they are looked through */
#define FORGET_US    500000u            /* behind the last one */
#define LONG_US      60000000u          /* nothing is due */
#define AGAIN_US     200000u            /* between two looks, if many are needed still */
#define CALL_MS      2000
#define LOOK_US      250000u            /* so often: has an agent ended that has voted? */
#define REST_US      10000u             /* behind an outcome that cannot be written, at first */
#define REST_MOST_US 1000000u
#define DOUBT_US     500000u            /* so long snapshots wait for a vote's outcome */

/* `part` is of the COMMIT that was received last; by the committer. */
static struct {
    unsigned kind;
    struct wire_vote vote;
    struct { struct wire_decision head; struct wire_participant to[KD_PARTS_MAX]; } decision;
    unsigned participants;
} part;

static pthread_cond_t something = PTHREAD_COND_INITIALIZER; /* for asks_main */
static pthread_cond_t outcomes = PTHREAD_COND_INITIALIZER;  /* for outcomes_main */
static unsigned decided;                /* since decisions were looked through */
static uint64_t full_since, forget_after;
static int peer_port;

static void kick(void)
{
    pthread_cond_signal(&something);
    pthread_cond_signal(&outcomes);
}

unsigned part_of_commit(void) { return part.kind; }
void parts_look(void) { kick(); }

int parts_full(void)
{
    uint64_t now = disk_clock.microseconds(NULL);
    if (!full_since) full_since = now;
    decided += FORGET_MANY;
    kick();
    return now - full_since < FULL_US ? -EDEADLK : -ENOSPC;
}

void part_decided(void)
{
    decided++;
    kick();
}

/* ---- the committer's side ---- */

static void outcome_told(const struct kd_message *m, const struct kd_parts *k)
{
    struct store_txn_id id;
    memcpy(&id, k->id, sizeof(id));
    server_lock();
    struct vote *v = vote_of(&id);
    if (v && v->prepared) {
        v->token = m->token;
        v->told = k->part == KD_PART_ASK ? 0 : k->part;
        v->asks = k->part == KD_PART_ASK;
        v->since_us = disk_clock.microseconds(NULL);
        kick();
    } else {
        kd_txn_refuse(m->word[0], m->token, ECANCELED);
    }
    server_unlock();
}

static void participants_note(const struct kd_parts *k)
{
    memcpy(&part.decision.head.id, k->id, sizeof(k->id));
    part.participants = k->count - 1;
    for (unsigned i = 0; i < part.participants; i++) {
        part.decision.to[i] = (struct wire_participant){.number = i};
        memcpy(part.decision.to[i].store, k->base[i], sizeof(k->base[i]));
    }
}

bool part_receive(struct kd_message *m)
{
    struct kd_parts k = {.view = m->word[0], .token = m->token};
    part.kind = (unsigned)(m->word[3] >> KD_PART_SHIFT);
    if (part.kind == KD_PART_ALL) return true;
    m->word[3] = 0;                     /* no part is lazy, or a load */
    if (kd_txn_parts(&k) < 0 || k.count < 2 || k.count > KD_PARTS_MAX) {
        kd_txn_refuse(m->word[0], m->token, ECANCELED);
        return false;
    }
    if (part.kind == KD_PART_VOTE) {
        memcpy(&part.vote.id, k.id, sizeof(k.id));
        memcpy(part.vote.coordinator, k.base[k.count - 1], sizeof(part.vote.coordinator));
        return true;
    }
    if (part.kind == KD_PART_DECIDE) {
        participants_note(&k);
        if (!server.fenced) return true;
        kd_txn_refuse(m->word[0], m->token, ECANCELED); /* not EIO: it is certain */
        return false;
    }
    outcome_told(m, &k);
    return false;
}

int part_batch(struct batch *b)
{
    if (part.kind == KD_PART_ALL) return 0;
    if (b->vote || b->decision) return -EINVAL;
    if (part.kind == KD_PART_VOTE) {
        b->vote = &part.vote;
        return 0;
    }
    b->decision = &part.decision.head;
    b->participants = part.participants;
    part_decided();
    return 0;
}

/* ---- questions to other stores ---- */

static uint64_t own_zone(struct kd_voter *own)
{
    struct store_stats stats;
    store_stats(server.store, &stats);
    if (own) memcpy(own->name, stats.uuid, sizeof(stats.uuid));
    if (own) own->life = stats.epoch;
    return stats.zone;
}

static long peer_find(uint64_t zone)
{
    char name[16];
    snprintf(name, sizeof(name), "peer %u", (unsigned)zone);
    return KD1(KD_NAME_FIND, name);
}

/* sites_want has managers of other sites' stores begin here: the next question may find it. */
static int sites_want(void)
{
    long port = KD1(KD_NAME_FIND, STORE_SITES);
    struct kd_message m = {.kind = STORE_SITES_WANT, .handle = -1};
    if (port < 0) return -ENOENT;
    (void)KD3(KD_PORT_CALL_UNTIL, port, &m, CALL_MS);
    KD1(KD_HANDLE_CLOSE, port);
    return -ENOENT;
}

/* zone_ask asks one peer; by asks_main alone. False: it is absent, is no such store, or rests. */
static bool zone_ask(uint32_t zone, struct kd_message *m)
{
    static struct rest rests[STORE_ZONE_MAX];
    const uint64_t number = m->word[1], now = disk_clock.microseconds(NULL);
    long port = peer_find(zone), r = -EAGAIN;
    uint64_t owner = port < 0 ? 0 : (uint64_t)KD1(KD_PORT_OWNER, port);
    if (port < 0) return false;
    if (rest_over(&rests[zone], owner, now)) r = KD3(KD_PORT_CALL_UNTIL, port, m, CALL_MS);
    KD1(KD_HANDLE_CLOSE, port);
    if (r == -ETIMEDOUT) rest_begin(&rests[zone], owner, disk_clock.microseconds(NULL));
    return r >= 0 && m->status >= 0 && m->word[1] == number;
}

/* peer_ask asks that store: 0, or -ENOENT: it is not there. No lock. */
static int peer_ask(enum wire_peer_request what, const struct wire_peer *q, uint64_t *answer)
{
    static uint64_t number;
    uint64_t own = own_zone(NULL);
    for (uint32_t zone = 0; zone < STORE_ZONE_MAX; zone++) {
        struct kd_message m = {.kind = what, .handle = -1, .word = {own, ++number}, .data = q,
                               .data_bytes = sizeof(*q)};
        if (zone == own || !store_zone_valid(zone) || !zone_ask(zone, &m)) continue;
        *answer = m.word[0];
        return 0;
    }
    return sites_want();
}

/* say_missing says what the transaction's pages wait for; once. Lock held, dropped. */
static void say_missing(struct vote *v)
{
    char name[40];
    const uint8_t *u = v->coordinator;
    if (v->said || disk_clock.microseconds(NULL) - v->since_us < SAY_US) return;
    v->said = true;
    for (int i = 0, at = 0; i < 16; i++)
        at += snprintf(name + at, sizeof(name) - (size_t)at, "%s%02x",
                       i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", u[i]);
    uint64_t pages = v->pages;
    server_unlock();
    say("a transaction waits for the word of store %s, which is not there: attach its disk, too "
        "(scripts/run --store2 FILE), or start its site. Until then nobody gets the %llu pages "
        "that it has changed here; all else goes on", name, (unsigned long long)pages);
    server_lock();
}

/* vote_ask asks the coordinator of a vote. Lock held, dropped. */
static void vote_ask(struct vote *v)
{
    struct wire_peer q = {.count = 1};
    struct store_txn_id id = v->id;
    uint64_t outcome = WIRE_IN_DOUBT;
    memcpy(q.store, v->coordinator, sizeof(q.store));
    q.id[0] = id;
    server_unlock();
    int r = peer_ask(WIRE_PEER_OUTCOME, &q, &outcome);
    server_lock();
    v = vote_of(&id);
    if (!v || !v->prepared || v->told) return;  /* somebody else has ended it */
    v->asked_us = disk_clock.microseconds(NULL);
    if (r == 0 && outcome == WIRE_COMMITTED) v->told = KD_PART_COMMIT;
    else if (r == 0 && outcome == WIRE_UNDONE) v->told = KD_PART_UNDO;
    else say_missing(v);
    kick();
}

/* ---- decisions that nobody needs any more ---- */

static struct { struct store_txn_id id; bool needed; } decisions[STORE_DECISIONS_MAX];

/* doubts_question asks about the decisions with this store as a participant: those in q_of. */
static unsigned q_of[WIRE_PEER_IDS];
static void doubts_question(const uint8_t store[16], unsigned count, struct wire_peer *q)
{
    struct store_doubt d;
    *q = (struct wire_peer){0};
    memcpy(q->store, store, sizeof(q->store));
    for (unsigned i = 0; i < count; i++) {
        if (store_doubt_find(server.store, &decisions[i].id, &d) < 0 || d.prepared) continue;
        for (uint32_t p = 0; p < d.participants; p++) {
            struct store_participant to = store_doubt_participant(&d, p);
            if (memcmp(to.store, store, sizeof(to.store)) != 0) continue;
            q_of[q->count] = i;
            q->id[q->count++] = decisions[i].id;
            break;
        }
    }
}

/* participants_ask asks all stores that take part in these, each once. Lock held, dropped. */
static void participants_ask(unsigned count)
{
    static uint8_t asked[STORE_DECISIONS_MAX][16];
    static struct wire_peer q;
    unsigned stores = 0;
    for (unsigned i = 0; i < count; i++) {
        struct store_doubt d;
        if (store_doubt_find(server.store, &decisions[i].id, &d) < 0) continue;
        for (uint32_t p = 0; p < d.participants; p++) {
            struct store_participant to = store_doubt_participant(&d, p);
            unsigned k = 0;
            while (k < stores && memcmp(asked[k], to.store, sizeof(to.store)) != 0) k++;
            if (k == stores && stores < STORE_DECISIONS_MAX)
                memcpy(asked[stores++], to.store, sizeof(to.store));
        }
    }
    for (unsigned k = 0; k < stores; k++) {
        uint64_t prepared = ~0ull;
        doubts_question(asked[k], count, &q);
        server_unlock();
        if (peer_ask(WIRE_PEER_DOUBTS, &q, &prepared) < 0) prepared = ~0ull;
        server_lock();
        for (unsigned i = 0; i < q.count; i++) decisions[q_of[i]].needed |= prepared >> i & 1;
    }
}

/* decisions_forget forgets decisions that no participant needs. Lock held, dropped. */
static void decisions_forget(void)
{
    struct store_doubt d;
    uint64_t cursor = 0;
    unsigned count = 0, others = 0;     /* others: whoever made it forgets it */
    struct group *g;
    decided = 0;
    while (count < STORE_DECISIONS_MAX && store_doubt_next(server.store, &cursor, &d) == 0) {
        if (d.prepared) continue;
        decisions[count].needed = d.participants == 0;
        others += d.participants == 0;
        decisions[count++].id = d.id;
    }
    participants_ask(count);
    unsigned done = 0;
    for (unsigned i = 0; i < count; i++) done += !decisions[i].needed;
    bool many = count - done - others >= FORGET_MANY;
    forget_after = many ? disk_clock.microseconds(NULL) + AGAIN_US : 0;
    if (many) decided += FORGET_MANY;
    if (done == 0 || server.fenced) return;
    full_since = 0;
    gate_enter(true);
    int r = group_begin(&g);
    if (r == 0) {
        for (unsigned i = 0; r >= 0 && i < count; i++)
            if (!decisions[i].needed && (r = store_forget(g->disk, &decisions[i].id)) == -ENOENT)
                r = 0;
        g->lazy_us = options.lazy_ms * 1000;    /* lost, it is asked and forgotten again */
        if (r == 0 || r == -ENOBUFS) r = group_launch(g);
        else group_cancel(g);
    }
    gate_leave();
    if (r == 0) group_land(g);
    kd_notify(server.commit_port, NOTICE_LAZY);
}

/* ---- the threads: what is decided is done, whoever is silent meanwhile ---- */

/* outcome_do, lock dropped: what cannot be done now is tried again: who voted stays with it. It
 * rests before that (VO12). */
static void outcome_do(struct vote *v)
{
    bool commits = v->told == KD_PART_COMMIT;
    server_unlock();
    if (commits) step(STEP_VT2);
    server_lock();
    int r = vote_outcome(v, commits);
    kd_notify(server.commit_port, NOTICE_LAZY);
    if (r == 0) return;
    if (server.fenced) {                /* the next manager asks */
        v->told = 0;
        v->asks = false;
        return;
    }
    v->wait_us = v->wait_us ? 2 * v->wait_us : REST_US;
    if (v->wait_us > REST_MOST_US) v->wait_us = REST_MOST_US;
    v->again_us = disk_clock.microseconds(NULL) + v->wait_us;
}

/* abandoned: whoever was to say what becomes of it has ended, an agent with its session. What it
 * says in the next life of that site it has heard from who decides. */
static bool abandoned(const struct vote *v)
{
    return !v->of_kernel && v->process && process_parent(v->process) == 0;
}

/* outcome_due tells which is to be done now, the one behind the last first (VO12); NULL: none.
 * *until: at that time one is, if that is before. */
static struct vote *outcome_due(uint64_t now, uint64_t *until)
{
    static unsigned turn;
    for (unsigned i = 0; i < STORE_PREPARED_MAX; i++) {
        struct vote *v = &votes[turn++ % STORE_PREPARED_MAX];
        if (!v->used || !v->prepared || v->deciding || !v->told || (server.fenced && v->orphan))
            continue;
        if (v->again_us <= now) return v;
        if (v->again_us < *until) *until = v->again_us;
    }
    return NULL;
}

static void *outcomes_main(void *unused)
{
    (void)unused;
    server_lock();
    for (;;) {
        uint64_t now = disk_clock.microseconds(NULL), until = now + LONG_US;
        struct vote *v = outcome_due(now, &until);
        if (v) outcome_do(v);
        else server_wait(&outcomes, until - now);
    }
    return NULL;
}

/* vote_due tells which is to be asked for now; NULL: none. *until: at that time a question is due,
 * if that is before. */
static struct vote *vote_due(uint64_t now, uint64_t *until)
{
    struct vote *due = NULL;
    for (struct vote *v = votes; v < votes + STORE_PREPARED_MAX; v++) {
        if (!v->used || !v->prepared || v->deciding || (server.fenced && v->orphan)) continue;
        if (v->told) continue;
        if (abandoned(v)) v->asks = true;
        if (!v->asks && !v->orphan) {
            if (!v->of_kernel && now + LOOK_US < *until) *until = now + LOOK_US;
            continue;
        }
        if (!v->since_us) v->since_us = now;
        if (!v->asked_us || now - v->asked_us >= ASK_US) due = v;
        else if (v->asked_us + ASK_US < *until) *until = v->asked_us + ASK_US;
    }
    return due;
}

/* wait_until tells when decisions are to be looked through, if before `until`. */
static uint64_t wait_until(uint64_t now, uint64_t quiet, uint64_t until)
{
    uint64_t look = decided >= FORGET_MANY ? now : quiet;
    if (look < forget_after) look = forget_after;
    return decided && look < until ? look : until;
}

bool doubts_tell(unsigned more, uint64_t *until)
{
    static unsigned told;
    static struct kd_voter own;
    uint64_t now = disk_clock.microseconds(NULL);
    unsigned doubts = more;
    for (const struct vote *v = votes; v < votes + STORE_PREPARED_MAX; v++) {
        if (!v->used || now - v->begun_us >= DOUBT_US) continue;
        doubts++;
        if (until && v->begun_us + DOUBT_US < *until) *until = v->begun_us + DOUBT_US;
    }
    if ((doubts == told && !more) || server.read_only) return false;
    if (!told) own_zone(&own);
    told = doubts;
    return KD3(KD_PORT_VOTES, server.commit_port, &own, doubts) == 1;
}

static void *asks_main(void *unused)
{
    uint64_t seen = 0, at = 0;          /* so many were decided, then */
    (void)unused;
    server_lock();
    for (;;) {
        uint64_t now = disk_clock.microseconds(NULL), until = now + LONG_US;
        struct vote *v = vote_due(now, &until);
        (void)doubts_tell(0, &until);
        if (decided != seen) at = now;
        seen = decided;
        bool quiet = decided && now - at >= FORGET_US;
        if (v) vote_ask(v);
        else if ((decided >= FORGET_MANY || quiet) && now >= forget_after) decisions_forget();
        else server_wait(&something, wait_until(now, at + FORGET_US, until) - now);
    }
    return NULL;
}

/* ---- answers to other stores ---- */

/* peer_known: does the message come from the store of the zone that it names (VO6)? */
static bool peer_known(const struct kd_message *m)
{
    uint64_t zone = m->word[0];
    long port = zone < STORE_ZONE_MAX ? peer_find(zone) : -1;
    long owner = port < 0 ? -1 : KD1(KD_PORT_OWNER, port);
    if (port >= 0) KD1(KD_HANDLE_CLOSE, port);
    return owner > 0 && (uint64_t)owner == m->process;
}

static int doubts_answer(const struct wire_peer *q, uint64_t *mask)
{
    int r = group_flush();              /* VO7 */
    for (unsigned i = 0; r == 0 && i < q->count; i++) {
        struct store_doubt d;
        bool there = store_doubt_find(server.store, &q->id[i], &d) == 0 && d.prepared;
        *mask |= (uint64_t)there << i;
    }
    return r;
}

int peer_answer(uint32_t kind, const void *data, uint64_t bytes, uint64_t *answer)
{
    const struct wire_peer *q = data;
    struct kd_voter own;
    if (bytes != sizeof(*q) || q->count == 0 || q->count > WIRE_PEER_IDS) return -EINVAL;
    own_zone(&own);
    return memcmp(own.name, q->store, sizeof(own.name)) ? -ENOENT
           : kind == WIRE_PEER_OUTCOME ? outcome_ask(&q->id[0], answer)
           : kind == WIRE_PEER_DOUBTS  ? doubts_answer(q, answer)
                                       : -ENOSYS;
}

static int peer_serve(const struct kd_message *m, uint64_t *answer)
{
    if (!peer_known(m)) return -EPERM;
    server_lock();
    int r = peer_answer(m->kind, m->buffer, m->data_bytes, answer);
    server_unlock();
    return r;
}

static void *peer_main(void *unused)
{
    static struct wire_peer q;
    (void)unused;
    for (;;) {
        struct kd_message m = {.buffer = &q, .buffer_bytes = sizeof(q)}, reply = {.handle = -1};
        long r = kd_receive(peer_port, &m, -1);
        if (r < 0 || m.kind & 0x80000000u) continue;
        if (m.handle >= 0) KD1(KD_HANDLE_CLOSE, m.handle);
        reply.status = peer_serve(&m, &reply.word[0]);
        reply.word[1] = m.word[1];
        kd_reply(m.token, &reply);
    }
    return NULL;
}

/* ---- the start ---- */

/* parts_start names the store; then what waits from an earlier life can be asked for. */
bool parts_start(void)
{
    struct kd_voter own;
    char name[16];
    struct store_stats stats;
    snprintf(name, sizeof(name), "peer %u", (unsigned)own_zone(&own));
    peer_port = (int)KD1(KD_PORT_CREATE, 0);
    if (peer_port < 0 || KD2(KD_NAME_SET, name, peer_port) < 0 || server.read_only) {
        if (!server.read_only) say("the name \"%s\" is taken", name);
        return server.read_only;
    }
    store_stats(server.store, &stats);
    decided = stats.decisions;
    return KD3(KD_PORT_VOTES, server.commit_port, &own, 0) >= 0 && thread_make(asks_main) &&
           thread_make(outcomes_main);
}

bool parts_serve(void) { return server.read_only || thread_make(peer_main); }
