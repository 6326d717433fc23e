/*
 * hostile_unmap.c - memory that another thread unmaps while a call works on it.
 *
 * Aim     messages and their data, supplies and differences: each is done, or ends with EFAULT (a
 *         call with EIO, if it is its receiver's memory); nothing is half done, and frames are as
 *         before.
 * Method  one thread maps and unmaps some pages for ever, others make calls with pointers into
 *         them: a client that calls, a server that receives and replies there, a manager that
 *         supplies and diffs there. What ends with EFAULT is done once more with memory that stays.
 */
enum { PAGES = 4 };
#include "own_manager.h"

#include <sched.h>
#include <stdio.h>

#include "hostile.h"

enum { ROUNDS = 600, KIND_ECHO = 1, THERE_PAGES = 4, DATA_BYTES = 3 * KD_PAGE_BYTES, SLACK = 64 };

static char *there;                     /* now and then */
static char stays[2][THERE_PAGES * KD_PAGE_BYTES] __attribute__((aligned(4096)));
static volatile bool over;
static volatile long faulted, done, wrong;

static void *unmapper(void *unused)
{
    while (!over) {
        munmap(there + KD_PAGE_BYTES, 2 * KD_PAGE_BYTES);
        sched_yield();
        mmap(there + KD_PAGE_BYTES, 2 * KD_PAGE_BYTES, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        sched_yield();
    }
    return unused;
}

static void counted(long r, const char *what)
{
    if (r == 0) done++;
    /* EIO: a call that its receiver could not take */
    else if (r == -EFAULT || r == -EIO) faulted++;
    else wrong++, printf("# %s: %ld\n", what, r);
}

/* COMMITs: first into memory that comes and goes. */
static bool serve(struct kd_message *m)
{
    if (m->kind == (uint32_t)KD_MSG_COMMIT) {
        struct kd_diff d = {.view = m->word[0], .token = m->token, .buffer = there + KD_PAGE_BYTES,
                            .buffer_bytes = 2 * KD_PAGE_BYTES};
        counted(CALL(KD_TXN_DIFF, &d), "diff");
    } else if (m->kind == (uint32_t)KD_MSG_PAGE) {
        struct kd_supply s = { .object = object, .source = KD_SUPPLY_MEMORY, .rights = 3,
                               .page = m->word[1], .count = 1, .memory = there + KD_PAGE_BYTES };
        long r = CALL(KD_OBJECT_SUPPLY, &s);
        counted(r, "supply");
        return r == 0; /* zeros */
    }
    return false; /* own_manager.h does it again */
}

static int echo_port;
static void *server(void *unused)
{
    for (;;) {
        struct kd_message m = { .handle = -1,
                                .buffer = there,
                                .buffer_bytes = THERE_PAGES * KD_PAGE_BYTES };
        long r = CALL(KD_PORT_RECEIVE, echo_port, &m, -1);
        if (r == -EBADF) return unused;
        if (r) { /* the caller hears of it */
            counted(r, "receive");
            continue;
        }
        struct kd_message reply = {.handle = -1, .data = there, .data_bytes = m.data_bytes};
        r = CALL(KD_PORT_REPLY, m.token, &reply);
        counted(r, "reply");
        reply.data = stays[1];
        if (r && (r = CALL(KD_PORT_REPLY, m.token, &reply)))
            wrong++, printf("# reply again: %ld\n", r);
    }
}

static void calls(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        struct kd_message m = {.kind = KIND_ECHO, .handle = -1, .data = i % 2 ? there : stays[0],
                               .data_bytes = DATA_BYTES, .buffer = i % 3 ? there : stays[0],
                               .buffer_bytes = DATA_BYTES};
        struct kd_message *at = &m;
        if (i % 5 == 0) at = (void *)(there + KD_PAGE_BYTES - 64); /* across two pages */
        if (at != &m) memcpy(at, &m, 64);  /* the rest is what lies there: zeros */
        counted(CALL(KD_PORT_CALL, echo_port, at), "call");
    }
}

static int change(void *arg)
{
    for (unsigned p = 0; p < PAGES; p++) *word_of(p, 3) = (uintptr_t)arg;
    return 0;
}
static int look(void *arg)
{
    int bad = 0;
    for (unsigned p = 0; p < PAGES; p++) bad += *word_of(p, 3) != (uintptr_t)arg;
    return bad;
}
static void commits(void)
{
    for (uintptr_t i = 1; i <= ROUNDS; i++) {
        wrong += run(change, (void *)i, KD_SERIALISABLE, 0) != 0;
        wrong += run(look, (void *)i, KD_SERIALISABLE, 0) != 0;
    }
}
static void supplies(void)
{
    struct kd_object_create c = {
        .port = port, .commit_port = port, .pages = ROUNDS, .name = "plain"
    };
    int o = (int)CALL(KD_OBJECT_CREATE, &c);
    for (int i = 0; i < ROUNDS; i++) {
        struct kd_supply s = { .object = o,
                               .source = KD_SUPPLY_MEMORY,
                               .rights = 3,
                               .page = (uint64_t)i,
                               .count = 1,
                               .memory = there + KD_PAGE_BYTES };
        counted(CALL(KD_OBJECT_SUPPLY, &s), "supply");
    }
    wrong += CALL(KD_OBJECT_DESTROY, o) != 0;
}

static void scene(void (*body)(void), const char *what)
{
    pthread_t t;
    int tries = 0;
    faulted = done = wrong = 0;
    over = false;
    pthread_create(&t, NULL, unmapper, NULL);
    do body();
    while (!(faulted && done) && !wrong && ++tries < 50);
    over = true;
    pthread_join(t, NULL);
    tap_ok(!wrong && faulted && done, "%s: %ld were done, %ld were refused, %ld ended otherwise",
           what, done, faulted, wrong);
}

int main(void)
{
    pthread_t t;
    tap_plan(6);
    there = mmap(NULL, THERE_PAGES * KD_PAGE_BYTES, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    echo_port = (int)CALL(KD_PORT_CREATE, 0);
    tap_ok(start_manager((struct own_manager){.pages = PAGES, .messages = serve}) &&
           !pthread_create(&t, NULL, server, NULL) && !run(change, (void *)0, KD_SERIALISABLE, 0),
           "a manager, a server and memory that comes and goes");
    struct counts before = counts_now();
    scene(calls, "calls and replies");
    scene(commits, "differences");
    scene(supplies, "supplies");
    tap_ok(counts_back(before, SLACK), "frames and objects are as before");
    tap_ok(check() == 0, "kcheck");
    return tap_end();
}
