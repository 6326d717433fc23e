/*
 * store_votes.c - transactions that vote: prepared, decided, over the store manager's death.
 *
 * Aim     the COMMIT of one that votes is answered when it is decided; until then others wait for
 *         its pages, also if the manager has died and nothing but its log knows of it.
 * Method  a thread commits two words with a vote, the first one says what becomes of it; a third
 *         one reads meanwhile. store_votes.opts has the manager die when the third vote is durable
 *         and nobody was told.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "store_client.h"
#include "two_words.h"

static struct wire_opened box;
static unsigned number;
static uint64_t written;                /* by the thread that votes */

static struct store_txn_id id_now(void)
{
    return (struct store_txn_id){{1, 2, 3, [15] = (uint8_t)number}};
}

static long txn(enum wire_txn what)
{
    struct store_txn_id id = id_now();
    size_t bytes = what == WIRE_TXN_VOTER || what == WIRE_TXN_NEXT ? 0 : sizeof(id);
    struct wire_doubt told;
    return client_call(STORE_TXN, what, 0, 0, &id, bytes, &told, sizeof(told));
}

static long vote(void *value)
{
    struct wire_op *op = (void *)client_txn.batch;
    struct wire_vote *v = (void *)op->name;
    *op = (struct wire_op){.kind = WIRE_VOTE, .op_bytes = sizeof(*op) + sizeof(*v)};
    *v = (struct wire_vote){.id = id_now(), .coordinator = {9}};
    client_txn.batch_bytes = op->op_bytes;
    return both(value);
}

static void *vote_main(void *result)
{
    *(long *)result = client_run(vote, (void *)written);
    return NULL;
}

static pthread_t voter;
static long vote_result;

/* What the store says of the vote; its COMMIT goes on. */
static long vote_begin(uint64_t value)
{
    number++;
    written = value;
    if (pthread_create(&voter, NULL, vote_main, &vote_result)) return -ENOMEM;
    return txn(WIRE_TXN_VOTED);
}

static long vote_end(void)
{
    pthread_join(voter, NULL);
    return vote_result;
}

static atomic_int readers_done;
static uint64_t seen;

static void *read_main(void *unused)
{
    (void)unused;
    if (client_run(equal, &seen) < 0) seen = ~0ull;
    readers_done++;
    return NULL;
}

/* A reader that begins now sees nothing before `what` is said of the vote, and then `wanted`. */
static void read_beside(enum wire_txn what, uint64_t wanted, const char *text)
{
    pthread_t reader;
    int before = readers_done;
    pthread_create(&reader, NULL, read_main, NULL);
    for (int i = 0; i < 20; i++) client_call(STORE_STATS, 0, 0, 0, NULL, 0, NULL, 0);
    bool waited = readers_done == before;
    long r = txn(what);
    pthread_join(reader, NULL);
    tap_ok(waited && r == 0 && seen == wanted, "%s (%ld, %llu)", text, r, (unsigned long long)seen);
}

static long reopened(void)
{
    return client_reopen("box", PS_WRITE, &box) < 0 ? -1 : txn(WIRE_TXN_VOTER);
}

int main(void)
{
    tap_plan(12);
    if (client_reopen("box", PS_CREATE | PS_WRITE, &box) < 0) {
        printf("Bail out! there is no store\n");
        return 1;
    }
    uint64_t *pages = client_lease(box.container, 8, NULL);
    a = pages;
    b = pages + 7 * 512;
    client_run(both, (void *)1);
    vote_begin(2);
    tap_ok(vote_end() == -EPERM, "who has not asked for it does not vote");
    tap_ok(txn(WIRE_TXN_VOTER) == 0 && vote_begin(2) == 0, "a vote is told");
    read_beside(WIRE_TXN_COMMIT, 2, "others wait for its pages, and see what it has committed");
    tap_ok(vote_end() == 0, "then the COMMIT is answered");
    long r = vote_begin(3);
    tap_ok(r == 0 && txn(WIRE_TXN_UNDO) == 0 && vote_end() == -ECANCELED, "another one is undone");
    r = vote_begin(4); /* the manager dies */
    long e = vote_end();
    tap_ok(r < 0 && e < 0, "a vote that was not told ends with the manager (%ld, %ld)", r, e);
    tap_ok(reopened() == 0 && txn(WIRE_TXN_ASK) == 0 && client_reply.word[0] == WIRE_IN_DOUBT,
           "the next manager has found it");
    read_beside(WIRE_TXN_UNDO, 2, "its pages are given to nobody before it is undone");
    r = vote_begin(5);
    kd_call3(KD_PROCESS_KILL, store_pid(), 9, 0);
    e = vote_end();
    tap_ok(r == 0 && e < 0 && reopened() == 0, "the manager is killed behind a vote (%ld)", e);
    read_beside(WIRE_TXN_COMMIT, 5, "the next one commits it");
    tap_ok(client_run(both, (void *)6) == 0 && client_run(equal, &seen) == 0 && seen == 6,
           "work goes on");
    tap_ok(kd_call3(KD_CHECK, 0, 0, 0) == 0, "kcheck");
    return tap_end();
}
