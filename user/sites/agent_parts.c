/*
 * agent_parts.c - a transaction of the site that has a part here and others elsewhere (remote.md):
 * the store here votes, or decides; it is told what became of it; and it is asked in the name of
 * the site's own store.
 *
 *     COMMIT, WIRE_VOTE first       a thread carries it out, and waits for its end; another one
 *                                   hears from the store how it votes: VOTED
 *     DECIDE                        the second one tells the store; when the first one has ended:
 *                                   APPLIED
 *     COMMIT, WIRE_DECISION first   as any COMMIT
 *
 * When this process ends what is prepared stays so, and the store asks who decides (parts.c there).
 *
 * Invariants
 *   AP1  A COMMIT that asks for a vote has threads of its own at once, or is refused: it waits for
 *        what others decide, perhaps for a COMMIT behind it.
 *   AP2  One COMMIT is answered by one VOTED: 0 after the store has voted, the error of its
 *        transaction if that ends before.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent.h"
#include "katydid/call.h"

enum { PREPARED_MAX = 8, UNDONE_MAX = 256 };

static struct part {
    struct commit *commit;              /* NULL: the slot is free */
    struct store_txn_id id;
    uint64_t decide;                    /* number of the DECIDE; 0: it has not come */
    bool commits;
    bool runs, ended;                   /* its transaction */
    bool voted, said;                   /* said: VOTED was sent */
    bool threads;
    int error;
} parts[PREPARED_MAX];

static bool voter;                      /* the store knows that this process votes */

static int txn(enum wire_txn what, uint64_t word1, const void *data, size_t bytes,
               uint64_t word[2])
{
    struct kd_message m = {.kind = STORE_TXN, .word = {what, word1}, .data = data,
                           .data_bytes = bytes, .handle = -1};
    long r = kd_call3(KD_PORT_CALL, agent.store, (long)&m, 0);
    if (r == -EOWNERDEAD) agent_ends("the store has ended");
    if (r == 0 && word) memcpy(word, m.word, 2 * sizeof *word);
    return r < 0 ? (int)r : m.status;
}

static int txn_of(const struct part *p, enum wire_txn what, uint64_t word1)
{
    const struct store_txn_id id = p->id;
    return txn(what, word1, &id, sizeof id, NULL);
}

static void said(struct part *p, int error)
{
    if (p->said) return;                                                        /* AP2 */
    p->said = true;
    agent_send(&(struct site_message){.kind = SITE_VOTED, .answer_to = commit_number(p->commit),
                                      .error = error < 0 ? -error : error});
}

static struct part *part_of(const struct commit *c)
{
    struct part *p = parts;
    while (p->commit != c) p++;
    return p;
}

static void ended(struct commit *c, int error)
{
    struct part *p = part_of(c);
    p->error = error;
    /* the store takes the id for one that it was asked for (VO3): the next one has another */
    if (error == -ECANCELED) error = -EDEADLK;
    if (!p->voted) said(p, error ? error : EIO);
}

/* ---- threads, two for each slot ---- */

static void *transact(void *part)
{
    struct part *p = part;
    agent_lock();
    for (;;) {
        while (!p->commit || !p->runs) agent_wait(AGENT_PARTS);
        commit_run(p->commit, ended);
        bool heard = p->voted;
        agent_unlock();
        if (!heard) (void)txn_of(p, WIRE_TXN_VOTED, 1); /* who waits for the vote goes */
        agent_lock();
        p->runs = false;
        p->ended = true;
        agent_changed_all(AGENT_PARTS);
    }
    return part;
}

static const struct timespec moment = {.tv_nsec = 2000000};

/* While too many ask the store, it is asked again: else nobody would hear that it has voted. */
static void hear_vote(struct part *p)
{
    int error = -EAGAIN;
    while (error == -EAGAIN && !p->ended) {
        agent_unlock();
        error = txn_of(p, WIRE_TXN_VOTED, 0);
        if (error == -EAGAIN) nanosleep(&moment, NULL);
        agent_lock();
    }
    if (error || p->said) return;
    p->voted = true;
    said(p, 0);
}

/* Whoever decides at the same moment is waited for. */
static void tell_outcome(struct part *p)
{
    int error = -EAGAIN;
    agent_unlock();
    while (error == -EAGAIN || error == -EBUSY) {
        error = txn_of(p, p->commits ? WIRE_TXN_COMMIT : WIRE_TXN_UNDO, 1);
        if (error == -EAGAIN || error == -EBUSY) nanosleep(&moment, NULL);
    }
    agent_lock();
}

static void *attend(void *part)
{
    struct part *p = part;
    agent_lock();
    for (;;) {
        while (!p->commit) agent_wait(AGENT_PARTS);
        hear_vote(p);
        while (p->voted ? !p->decide : !p->ended) agent_wait(AGENT_PARTS);
        if (p->voted && !p->ended) tell_outcome(p);
        while (!p->ended) agent_wait(AGENT_PARTS);
        if (p->voted)
            agent_send(&(struct site_message){.kind = SITE_APPLIED, .answer_to = p->decide,
                                              .error = p->error < 0 ? -p->error : p->error});
        commit_free(p->commit);
        agent.committing--;
        *p = (struct part){.threads = true};
    }
    return part;
}

/* ---- what the site says ---- */

uint32_t parts_of(const uint8_t *batch, size_t bytes)
{
    struct wire_op op;                  /* a batch is not aligned */
    if (bytes < sizeof op + sizeof(struct wire_vote)) return 0;
    memcpy(&op, batch, sizeof op);
    return op.kind == WIRE_VOTE || op.kind == WIRE_DECISION ? op.kind : 0;
}

static int voter_be(void)
{
    int error = voter ? 0 : txn(WIRE_TXN_VOTER, 0, agent.site, strlen(agent.site), NULL);
    voter |= !error;
    return error;
}

static int prepare(struct commit *c, const struct wire_vote *v)
{
    struct part *p = parts;
    while (p < parts + PREPARED_MAX && p->commit) p++;
    for (struct part *q = parts; q < parts + PREPARED_MAX; q++)
        if (q->commit && !memcmp(&q->id, &v->id, sizeof v->id)) return -EEXIST;
    if (p == parts + PREPARED_MAX) return -EDEADLK; /* AP1: others end soon */
    p->commit = c;
    agent.committing++;
    p->id = v->id;
    p->runs = true;
    if (!p->threads) {
        agent_start(transact, p);
        agent_start(attend, p);
    }
    p->threads = true;
    agent_changed_all(AGENT_PARTS);
    return 0;
}

bool parts_commit(struct commit *c)
{
    size_t bytes;
    const uint8_t *batch = commit_batch(c, &bytes);
    uint32_t part = parts_of(batch, bytes);
    struct wire_vote v;
    int error = part ? voter_be() : 0;
    if (part != WIRE_VOTE) return false;
    memcpy(&v, batch + sizeof(struct wire_op), sizeof v);
    if (!error) error = prepare(c, &v);
    if (!error) return true;
    agent_send(&(struct site_message){.kind = SITE_VOTED, .answer_to = commit_number(c),
                                      .error = -error});
    commit_free(c);
    return true;
}

void parts_decided(const struct site_message *m)
{
    agent_lock();
    struct part *p = parts;
    while (p < parts + PREPARED_MAX &&
           !(p->commit && p->voted && !p->decide && !memcmp(&p->id, m->word, sizeof p->id)))
        p++;
    if (p == parts + PREPARED_MAX) {
        agent_send(&(struct site_message){.kind = SITE_APPLIED, .answer_to = m->number,
                                          .error = ENOENT});
    } else {
        p->decide = m->number;
        p->commits = m->right;
        agent_changed_all(AGENT_PARTS);
    }
    agent_unlock();
}

/* ---- what the site's store asks the one here ---- */

/* An id that is asked for too early is undone for good, and takes room: so a site has so many. */
int parts_peer(uint64_t word[SITE_WORDS], const void *data, size_t bytes)
{
    static unsigned undone;
    uint64_t answer[2] = {0};
    if (undone == UNDONE_MAX) agent_ends("the site asks for what never was, again and again");
    int error = txn(WIRE_TXN_PEER, word[1], data, bytes, answer);
    undone += !error && word[1] == WIRE_PEER_OUTCOME && answer[0] == WIRE_UNDONE;
    word[0] = answer[0];
    return error;
}

/* What is kept of decisions is in no doubt. */
bool parts_none(void)
{
    struct wire_doubt doubt = {0};
    uint64_t next = 0;
    for (;;) {
        struct kd_message m = {.kind = STORE_TXN, .word = {WIRE_TXN_NEXT, next}, .handle = -1,
                               .buffer = &doubt, .buffer_bytes = sizeof doubt};
        long r = kd_call3(KD_PORT_CALL, agent.store, (long)&m, 0);
        if (r < 0 || doubt.prepared) return r == -ENOENT;
        next = m.word[0];
    }
}

int parts_hold(uint64_t *number)
{
    uint64_t word[2] = {0};
    int error = voter_be();
    if (!error) error = txn(WIRE_TXN_HOLD, 0, NULL, 0, word);
    *number = word[0];
    return error;
}

int parts_hold_end(uint64_t number) { return txn(WIRE_TXN_HOLD, number, NULL, 0, NULL); }

int parts_name(uint64_t word[SITE_WORDS]) { return txn(WIRE_TXN_NAME, 0, NULL, 0, word); }
