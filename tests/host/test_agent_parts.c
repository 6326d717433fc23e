/*
 * test_agent_parts.c - the home's side of a transaction of several stores
 * (user/sites/agent_parts.c).
 *
 * Aim     a site hears that it has a vote when the store here has voted, and that its outcome is
 *         applied when the transaction has ended; each COMMIT and each DECIDE is answered once,
 *         whatever order things happen in, and its place is free again.
 * Method  the file itself, with its threads, between a store and transactions that are small
 *         machines here; the store votes, refuses, and is slow, by seeds.
 */
#define KATYDID_CALL_H                  /* the kernel is here */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "katydid/abi.h"

static long kd_call6(long number, long a, long b, long c, long d, long e, long f);
#define kd_call3(n, a, b, c) kd_call6(n, a, b, c, 0, 0, 0)
#include "user/sites/agent_parts.c"
#include <cmocka.h>

enum { JOBS = 64 };

/* ---- the agent's lock and threads ---- */

struct agent agent = {.site = "b"};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed[AGENT_WAITS];
static bool held;

void agent_lock(void)
{
    pthread_mutex_lock(&lock);
    held = true;
}
void agent_unlock(void)
{
    held = false;
    pthread_mutex_unlock(&lock);
}
void agent_wait(enum agent_wait w)
{
    pthread_cond_wait(&changed[w], &lock);
    held = true;
}
void agent_changed(enum agent_wait w) { pthread_cond_signal(&changed[w]); }
void agent_changed_all(enum agent_wait w) { pthread_cond_broadcast(&changed[w]); }
void agent_start(void *(*function)(void *), void *argument)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, function, argument), 0);
    pthread_detach(thread);
}
_Noreturn void agent_ends(const char *why)
{
    (void)why;
    abort();
}

/* ---- the store: votes by id; the lock of its own ---- */

enum vote { NONE, ASKED, REFUSED, PREPARED, ENDED };
struct commit {
    uint64_t number;
    uint8_t batch[sizeof(struct wire_op) + sizeof(struct wire_vote)];
    int early;                          /* the transaction ends so, before its COMMIT */
    enum vote is;
    bool commits, gone, freed;
    int busy;                           /* the store says -EBUSY so many times */
};
static struct commit job[JOBS];
static pthread_mutex_t store = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t said_so = PTHREAD_COND_INITIALIZER;
static unsigned voters, lazy, locked;
static int full;                        /* so many times too many ask the store */

static struct commit *job_of(const void *id)
{
    for (struct commit *c = job; c < job + JOBS; c++)
        if (c->number && !c->freed &&
            !memcmp(c->batch + sizeof(struct wire_op), id, sizeof(struct store_txn_id)))
            return c;
    return NULL;
}

/* Waits until the store votes about it, or it does not come. */
static int hears(struct commit *c, bool leaves)
{
    if (!leaves && full > 0) return full--, -EAGAIN;
    if (leaves) c->gone = true;
    pthread_cond_broadcast(&said_so);
    while (!leaves && c->is < REFUSED && !c->gone) pthread_cond_wait(&said_so, &store);
    return leaves || c->is == PREPARED ? 0 : -ECANCELED;
}

static int decided(struct commit *c, bool commits)
{
    if (c->busy-- > 0) return -EBUSY;
    assert_int_equal(c->is, PREPARED);
    c->commits = commits;
    c->is = ENDED;
    pthread_cond_broadcast(&said_so);
    return 0;
}

static long kd_call6(long number, long a, long b, long c, long d, long e, long f)
{
    struct kd_message *m = (void *)b;
    (void)a, (void)c, (void)d, (void)e, (void)f;
    assert_int_equal(number, KD_PORT_CALL);
    pthread_mutex_lock(&store);
    struct commit *j = m->data_bytes == sizeof(struct store_txn_id) ? job_of(m->data) : NULL;
    m->status = -EINVAL;
    switch (m->word[0]) {
    case WIRE_TXN_VOTER:
        m->status = 0;
        voters += m->data_bytes == 1 && *(const char *)m->data == 'b'; /* whose share it is */
        break;
    case WIRE_TXN_VOTED: m->status = hears(j, m->word[1]); break;
    case WIRE_TXN_COMMIT:
    case WIRE_TXN_UNDO:
        lazy += m->word[1] == 1;
        m->status = decided(j, m->word[0] == WIRE_TXN_COMMIT);
        break;
    default: break;
    }
    pthread_mutex_unlock(&store);
    return 0;
}

/* ---- transactions ---- */

void commit_run(struct commit *c, void (*tell)(struct commit *, int))
{
    int error = c->early;
    agent_unlock();
    pthread_mutex_lock(&store);
    if (!error && c->is == NONE) c->is = ASKED;
    pthread_cond_broadcast(&said_so);
    while (!error && c->is != REFUSED && c->is != ENDED) pthread_cond_wait(&said_so, &store);
    if (!error) error = c->is == REFUSED ? -EEXIST : c->commits ? 0 : -ECANCELED;
    pthread_mutex_unlock(&store);
    agent_lock();
    tell(c, error);
}
uint64_t commit_number(const struct commit *c) { return c->number; }
const uint8_t *commit_batch(const struct commit *c, size_t *bytes)
{
    *bytes = sizeof c->batch;
    return c->batch;
}
void commit_free(struct commit *c) { c->freed = true; }

/* ---- the site ---- */

static struct { unsigned voted, applied; int vote, end; enum vote at_vote, at_end; } heard[JOBS];
enum { DECIDES = 1000 };                /* DECIDE of COMMIT n has the number DECIDES + n */

void agent_send(const struct site_message *m)
{
    unsigned i = (unsigned)m->answer_to % DECIDES - 1;
    locked += held;
    if (m->kind == SITE_VOTED) {
        heard[i].voted++;
        heard[i].vote = m->error;
        heard[i].at_vote = job[i].is;
    } else {
        assert_int_equal(m->kind, SITE_APPLIED);
        heard[i].applied++;
        heard[i].end = m->error;
        heard[i].at_end = job[i].is;
    }
}

static void post(unsigned i, int early, uint8_t id)
{
    const struct wire_op op = {.kind = WIRE_VOTE, .op_bytes = sizeof job[i].batch};
    struct wire_vote v = {.id = {{id, 7}}, .coordinator = {9}};
    job[i] = (struct commit){.number = i + 1, .early = early};
    memcpy(job[i].batch, &op, sizeof op);
    memcpy(job[i].batch + sizeof op, &v, sizeof v);
    agent_lock();
    assert_true(parts_commit(&job[i]));
    agent_unlock();
}

static void store_says(unsigned i, enum vote v)
{
    pthread_mutex_lock(&store);
    while (job[i].is != ASKED) pthread_cond_wait(&said_so, &store);
    job[i].is = v;
    pthread_cond_broadcast(&said_so);
    pthread_mutex_unlock(&store);
}

static void decide(unsigned i, bool commits)
{
    struct site_message m = {.kind = SITE_DECIDE, .number = DECIDES + i + 1, .right = commits};
    memcpy(m.word, job[i].batch + sizeof(struct wire_op), sizeof(struct store_txn_id));
    parts_decided(&m);
}

#define UNTIL(x) do { bool is_; do { agent_lock(); is_ = (x); agent_unlock(); usleep(100);         \
                 pthread_cond_broadcast(&said_so); } while (!is_ && waits++ < 1000000);            \
                 assert_true(is_); } while (0)
static unsigned waits;

static void begin(void)
{
    waits = 0;
    memset(job, 0, sizeof job);
    memset(heard, 0, sizeof heard);
}

static void a_vote_is_the_stores(void **state)
{
    (void)state;
    begin();
    full = 3;
    post(0, 0, 1);
    usleep(5000);
    assert_int_equal(heard[0].voted, 0);        /* it has not voted yet */
    store_says(0, PREPARED);
    UNTIL(heard[0].voted == 1);
    assert_true(heard[0].vote == 0 && heard[0].at_vote == PREPARED);
    assert_int_equal(agent.committing, 1);      /* to its end: no snapshot begins (SV1) */
    job[0].busy = 3;                    /* others decide it, too */
    decide(0, true);
    UNTIL(heard[0].applied == 1);
    assert_true(heard[0].end == 0 && heard[0].at_end == ENDED && job[0].commits && lazy > 0);
    UNTIL(agent.committing == 0);
    post(1, 0, 2);
    store_says(1, PREPARED);
    UNTIL(heard[1].voted == 1);
    decide(1, false);
    UNTIL(heard[1].applied == 1);
    assert_true(heard[1].end == ECANCELED && !job[1].commits);
    decide(2, true);                    /* of nothing */
    assert_true(heard[2].applied == 1 && heard[2].end == ENOENT);
    assert_int_equal(voters, 1);
}

static void what_is_refused_leaves_its_place(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4 * PREPARED_MAX; i++) {
        if (i % JOBS == 0) begin();
        bool early = i % 2, known = i % 4 == 3; /* known: its id, to the store */
        post(i, known ? -ECANCELED : early ? -EACCES : 0, (uint8_t)(i + 1));
        if (!early) store_says(i, REFUSED);
        UNTIL(heard[i].voted == 1 && job[i].freed);
        assert_int_equal(heard[i].vote, known ? EDEADLK : early ? EACCES : EEXIST);
        assert_int_equal(heard[i].applied, 0);
    }
}

static void there_are_so_many_places(void **state)
{
    (void)state;
    begin();
    for (unsigned i = 0; i < PREPARED_MAX; i++) post(i, 0, (uint8_t)(i + 1));
    post(PREPARED_MAX, 0, 100);
    assert_true(heard[PREPARED_MAX].voted == 1 && heard[PREPARED_MAX].vote == EDEADLK);
    for (unsigned i = 0; i < PREPARED_MAX; i++) store_says(i, PREPARED);
    post(PREPARED_MAX + 1, 0, 1);       /* an id twice */
    assert_true(heard[PREPARED_MAX + 1].voted == 1 && heard[PREPARED_MAX + 1].vote == EEXIST);
    for (unsigned i = 0; i < PREPARED_MAX; i++) UNTIL(heard[i].voted == 1 && !heard[i].vote);
    for (unsigned i = PREPARED_MAX; i-- > 0;) decide(i, i % 3);
    for (unsigned i = 0; i < PREPARED_MAX; i++) {
        UNTIL(heard[i].applied == 1 && job[i].freed);
        assert_int_equal(heard[i].end, i % 3 ? 0 : ECANCELED);
    }
}

#include "any.h"

static void all_are_answered_in_any_order(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        bool commits[PREPARED_MAX], votes[PREPARED_MAX];
        begin();
        for (unsigned i = 0; i < PREPARED_MAX; i++) {
            post(i, any(4) ? 0 : -EACCES, (uint8_t)(i + 1));
            job[i].busy = (int)any(3);
        }
        for (unsigned i = 0; i < PREPARED_MAX; i++) {
            votes[i] = !job[i].early && any(3);
            commits[i] = any(2);
            if (!job[i].early) store_says(i, votes[i] ? PREPARED : REFUSED);
            if (any(2)) usleep(any(300));
        }
        for (unsigned i = 0; i < PREPARED_MAX; i++) {
            UNTIL(heard[i].voted == 1);
            assert_int_equal(!heard[i].vote, votes[i]);
            if (votes[i]) decide(i, commits[i]);
        }
        for (unsigned i = 0; i < PREPARED_MAX; i++) {
            UNTIL(job[i].freed && heard[i].applied == votes[i]);
            assert_int_equal(heard[i].voted, 1);
            if (votes[i]) assert_int_equal(heard[i].end, commits[i] ? 0 : ECANCELED);
        }
    }
    assert_true(locked > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_vote_is_the_stores),
        cmocka_unit_test(what_is_refused_leaves_its_place),
        cmocka_unit_test(there_are_so_many_places),
        cmocka_unit_test(all_are_answered_in_any_order),
    };
    alarm(300);                         /* a thread that waits for ever is an error, too */
    for (int i = 0; i < AGENT_WAITS; i++) pthread_cond_init(&changed[i], NULL);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
