/*
 * pstore_kit.c - the concurrency kit between processes (uDatabase, section 6): MU-36.
 *
 * Aim     a latch lets one thread in, of however many processes; a semaphore neither makes nor
 *         loses units; nobody sleeps for ever; a latch whose holder was killed says so, to each
 *         until it is repaired; a task hears of who has gone, and may answer later.
 * Method  this program starts itself as workers. What they count under a latch is no atomic, so
 *         two inside at once lose counts. Those that are to be killed say in the area that they
 *         are where they are to die; one lets a latch go without a wake, as one does that dies
 *         between the two.
 */
#include <errno.h>
#include <kit_private.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "process.h"
#include "tap.h"

enum { PROCESSES = 3, THREADS = 3, ROUNDS = 1500, TOKENS = 2, LONG_MS = 20000 };

struct desk {
    struct ps_latch latch, slow;
    struct ps_semaphore tokens, there, begin;
    volatile long count, inside, most_inside;   /* under the latch */
    _Atomic long ready;
};
static ps_area *area;
static struct desk *desk;

static void nap(void) { nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); }

static void wait_ready(long wanted)
{
    while (__atomic_load_n(&desk->ready, __ATOMIC_SEQ_CST) < wanted)
        nap();
}

static void say_ready(void) { __atomic_fetch_add(&desk->ready, 1, __ATOMIC_SEQ_CST); }

/* ---- the workers ---- */

static void *hammer(void *unused)
{
    long errors = 0;
    (void)unused;
    for (int i = 0; i < ROUNDS && !errors; i++) {
        errors += ps_latch_take(area, &desk->latch, LONG_MS) != 0;
        long n = desk->count;
        if (i % 64 == 0)
            sched_yield();
        desk->count = n + 1;
        errors += ps_latch_give(area, &desk->latch) != 0;
        errors += ps_semaphore_take(area, &desk->tokens, LONG_MS) != 0;
        long now = __atomic_add_fetch(&desk->inside, 1, __ATOMIC_SEQ_CST);
        if (now > desk->most_inside)
            desk->most_inside = now;
        if (i % 64 == 1)
            sched_yield();
        __atomic_fetch_sub(&desk->inside, 1, __ATOMIC_SEQ_CST);
        errors += ps_semaphore_give(area, &desk->tokens, 1) != 0;
    }
    return (void *)errors;
}

static long hammer_threads(void)
{
    pthread_t threads[THREADS];
    long errors = 0;
    for (int i = 0; i < THREADS; i++)
        errors += pthread_create(&threads[i], NULL, hammer, NULL) != 0;
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        errors += (long)result;
    }
    return errors;
}

static _Noreturn int hang(void)
{
    for (;;)
        nap();
}

static long say(uint32_t kind, uint64_t first, uint64_t second, uint64_t third);

static int worker(const char *what)
{
    if (strcmp(what, "stranger") == 0)
        return say(KIT_WAKE, 0, 1, 0) != -EPERM || say(KIT_ASK, 0, 0, 0) != -EPERM ||
               say(KIT_CLOSE, 0, 0, 0) != -EPERM || say(KIT_END, 0, 0, 0) != -EPERM;
    area = ps_area_open("desk");
    if (!area)
        return 90;
    desk = ps_area_memory(area);
    if (strcmp(what, "hammer") == 0)
        return hammer_threads() != 0;
    if (strcmp(what, "hold") == 0) {    /* dies as the holder */
        ps_latch_take(area, &desk->slow, -1);
        desk->count = -1;
        say_ready();
        return hang();
    }
    if (strcmp(what, "quiet") == 0) {   /* ... having let it go, before the wake */
        ps_latch_take(area, &desk->slow, -1);
        say_ready();
        while (!(__atomic_load_n(&desk->slow.word, __ATOMIC_SEQ_CST) & 1))
            nap();
        nap(); /* he sleeps, most likely */
        __atomic_store_n(&desk->slow.word, 0, __ATOMIC_SEQ_CST);
        say_ready();
        return hang();
    }
    if (strcmp(what, "sleep") == 0) {   /* dies asleep */
        say_ready();
        ps_latch_take(area, &desk->slow, -1);
        return hang();
    }
    if (strcmp(what, "ask") == 0) {     /* ... while it waits for an answer */
        long number = 7;
        say_ready();
        return ps_ask(area, &number, sizeof number, -1);
    }
    return 91;
}

/* ---- the task: adds one; a number above 100 is answered by the next one, with both ---- */

static struct { uint64_t token, client; long number; } held;
static _Atomic long gone_count;

static int serve(void *unused, struct ps_request *r)
{
    long *number = r->message, sum;
    (void)unused;
    if (r->bytes != sizeof *number)
        return -EBADMSG;
    if (*number == 7 || (*number > 100 && !held.token)) {
        held.token = r->token;
        held.client = r->client;
        held.number = *number;
        return PS_LATER;
    }
    sum = *number + 1;
    if (held.token) {
        sum = *number + held.number;
        if (ps_answer(area, held.token, 0, &sum, sizeof sum) != 0)
            return -ESRCH;
        held.token = 0;
    }
    *number = sum;
    return 0;
}

static void gone(void *unused, uint64_t client)
{
    (void)unused;
    if (held.token && held.client == client)
        held.token = 0;
    gone_count++;
}

static void *ask_large(void *answer)
{
    *(long *)answer = 200;
    return (void *)(long)ps_ask(area, answer, sizeof(long), -1);
}

/* ---- the tests ---- */

/* What all others would wait for in vain. */
static void must(long got, long wanted, const char *what)
{
    if (!is(got, wanted, what))
        exit(1);
}

static int kill_wait(int pid)
{
    kd_call3(KD_PROCESS_KILL, pid, 9, 0);
    return child_wait(pid);
}

static void many_processes(const char *self)
{
    int pids[PROCESSES], bad = 0;
    for (int i = 0; i < PROCESSES; i++)
        pids[i] = child_start(self, "hammer", NULL);
    long mine = hammer_threads();
    for (int i = 0; i < PROCESSES; i++)
        bad += child_wait_for(pids[i], CHILD_ENDS_S) != 0;
    must(bad + mine, 0, "threads of four processes take latch and semaphore, all end");
    is(desk->count, (PROCESSES + 1l) * THREADS * ROUNDS, "one at a time has the latch");
    tap_ok(desk->most_inside <= TOKENS && desk->most_inside > 0,
           "at most %d have a token (%ld)", TOKENS, desk->most_inside);
    is((long)desk->tokens.value, TOKENS, "all tokens are back");
    is((long)desk->latch.word, 0, "nobody has the latch");
}

static void a_holder_dies(const char *self)
{
    desk->ready = 0;
    int pid = child_start(self, "hold", NULL);
    wait_ready(1);
    is(ps_latch_take(area, &desk->slow, 0), -ETIMEDOUT, "a latch that another process has");
    is(ps_latch_take(area, &desk->slow, 20), -ETIMEDOUT, "... also after 20 ms");
    is(ps_latch_give(area, &desk->slow), -EPERM, "... which cannot give it up for it");
    kill_wait(pid);
    must(ps_latch_take(area, &desk->slow, LONG_MS), -EOWNERDEAD, "its holder was killed: told");
    is(ps_latch_take(area, &desk->slow, 0), -EDEADLK, "this thread has it");
    is(ps_latch_give(area, &desk->slow), 0, "given up as it is");
    is(ps_latch_take(area, &desk->slow, LONG_MS), -EOWNERDEAD, "the next one is told, too");
    is(ps_latch_repaired(area, &desk->slow), 0, "repaired");
    is(ps_latch_give(area, &desk->slow), 0, "given up");
    is(ps_latch_take(area, &desk->slow, LONG_MS), 0, "a latch like any other");
    ps_latch_give(area, &desk->slow);
}

struct taking { int result; };
static void *take_slow(void *arg)
{
    struct taking *t = arg;
    t->result = ps_latch_take(area, &desk->slow, LONG_MS);
    ps_latch_repaired(area, &desk->slow);
    ps_latch_give(area, &desk->slow);
    return NULL;
}

static void a_holder_dies_while_others_sleep(const char *self)
{
    enum { SLEEPERS = 4 };
    pthread_t threads[SLEEPERS];
    struct taking taking[SLEEPERS];
    desk->ready = 0;
    int told = 0, fine = 0, pid = child_start(self, "hold", NULL);
    wait_ready(1);
    for (int i = 0; i < SLEEPERS; i++)
        pthread_create(&threads[i], NULL, take_slow, &taking[i]);
    while (!(__atomic_load_n(&desk->slow.word, __ATOMIC_SEQ_CST) & 1))
        nap();
    nap();
    kill_wait(pid);
    for (int i = 0; i < SLEEPERS; i++) {
        pthread_join(threads[i], NULL);
        told += taking[i].result == -EOWNERDEAD;
        fine += taking[i].result == 0;
    }
    must(told * 10 + fine, 10 + SLEEPERS - 1,
         "of those who slept one is told, then it is repaired");
}

static void a_wake_that_nobody_gives(const char *self)
{
    desk->ready = 0;
    int pid = child_start(self, "quiet", NULL);
    pthread_t thread;
    struct taking taking;
    wait_ready(1);
    pthread_create(&thread, NULL, take_slow, &taking);
    wait_ready(2);
    kill_wait(pid);
    pthread_join(thread, NULL);
    must(taking.result, 0, "who died between giving up and waking left nobody asleep");
}

static void a_sleeper_dies(const char *self)
{
    desk->ready = 0;
    pthread_t thread;
    struct taking taking;
    ps_latch_take(area, &desk->slow, -1);
    int pid = child_start(self, "sleep", NULL);
    wait_ready(1);
    while (!(__atomic_load_n(&desk->slow.word, __ATOMIC_SEQ_CST) & 1))
        nap();
    pthread_create(&thread, NULL, take_slow, &taking);
    nap();
    kill_wait(pid);
    ps_latch_give(area, &desk->slow);
    pthread_join(thread, NULL);
    is(taking.result, 0, "a sleeper that was killed takes no wake with it");
}

static void semaphores(void)
{
    is(ps_semaphore_take(area, &desk->there, 20), -ETIMEDOUT, "nothing is there");
    is((long)desk->there.waiters, 0, "who waited in vain is not counted any more");
    is(ps_semaphore_give(area, &desk->there, 0x7fffffff), 0, "as many as it can count");
    is(ps_semaphore_give(area, &desk->there, 1), -EOVERFLOW, "and one more");
    is(ps_semaphore_take(area, &desk->there, 0), 0, "one is taken");
}

static void tasks(const char *self)
{
    long number = 4, other;
    char text[8] = "";
    pthread_t thread;
    void *result;
    is(ps_ask(area, &number, sizeof number, -1), 0, "a task answers");
    is(number, 5, "with what it made of the message");
    is(ps_ask(area, text, 3, -1), -EBADMSG, "it may refuse");
    pthread_create(&thread, NULL, ask_large, &other);
    while (!*(volatile uint64_t *)&held.token)
        nap();
    number = 5;
    is(ps_ask(area, &number, sizeof number, LONG_MS), 0, "one asks, and another one is answered");
    pthread_join(thread, &result);
    tap_ok((long)result == 0 && other == 205 && number == 205, "with both numbers (%ld, %ld)",
           other, number);
    int error, ms = 20;
    do { /* the task may have come to it too late */
        number = 300;
        error = ps_ask(area, &number, sizeof number, ms);
    } while (error == -ETIMEDOUT && !*(volatile uint64_t *)&held.token && (ms *= 4) < LONG_MS);
    is(error, -ETIMEDOUT, "an answer that does not come");
    number = 5;
    is(ps_ask(area, &number, sizeof number, LONG_MS), -ESRCH, "... and has nobody to go to");
    held.token = 0;
    long before = gone_count;
    desk->ready = 0;
    int pid = child_start(self, "ask", NULL);
    wait_ready(1);
    while (!*(volatile uint64_t *)&held.token)
        nap();
    kill_wait(pid);
    for (int i = 0; i < LONG_MS && *(volatile uint64_t *)&held.token; i++) /* of others, too */
        nap();
    tap_ok(held.token == 0 && gone_count > before, "the task hears that one who asks was killed");
}

/* What no program says by the functions of kit.h. */
static long say(uint32_t kind, uint64_t first, uint64_t second, uint64_t third)
{
    struct kd_message m = {.kind = kind, .handle = -1, .word = {first, second, third}};
    long port = kd_call3(KD_NAME_FIND, (long)"desk", 0, 0);
    long result = kd_call3(KD_PORT_CALL_UNTIL, port, (long)&m, LONG_MS);
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    return result;
}

/* A handle that travels with each message. */
static int handles_left_by(int messages)
{
    long port = kd_call3(KD_NAME_FIND, (long)"desk", 0, 0);
    long before = kd_call3(KD_PORT_CREATE, 0, 0, 0);
    kd_call3(KD_HANDLE_CLOSE, before, 0, 0);
    for (int i = 0; i < messages; i++) {
        struct kd_message m = {.kind = 99, .handle = (int)port, .handle_rights = KD_RIGHT_CALL};
        kd_call3(KD_PORT_CALL_UNTIL, port, (long)&m, LONG_MS);
    }
    long after = kd_call3(KD_PORT_CREATE, 0, 0, 0);
    kd_call3(KD_HANDLE_CLOSE, after, 0, 0);
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    return (int)(after - before);
}

static void the_keeper_believes_nothing(const char *self)
{
    is(handles_left_by(20), 0, "what is sent with a message does not stay with the keeper");
    uint64_t at = offsetof(struct desk, slow.word), word = desk->slow.word;
    is(say(KIT_WAIT, at, word + 4, 0), 0, "a word that has changed: nobody sleeps for it");
    is(say(KIT_WAIT, 4096, 0, 0), -EINVAL, "a word outside of the area");
    is(say(KIT_WAIT, at + 4, 0, 0), -EINVAL, "no word");
    is(say(99, 0, 0, 0), -ENOSYS, "no call");
    is(child_run(self, "stranger", NULL), 0, "who has not opened the area may do nothing in it");
}

static void areas(void)
{
    ps_area *again = ps_area_open("desk");
    tap_ok(again && ps_area_memory(again) == (void *)desk && ps_area_bytes(again) == 4096,
           "opened once more, it lies at the same address");
    is(ps_area_close(again), 0, "closed once");
    is(ps_latch_take(area, &desk->slow, 0), 0, "it is there still");
    ps_latch_give(area, &desk->slow);
    tap_ok(!ps_area_make("desk", 1, NULL) && errno == EEXIST, "one name, one area");
    tap_ok(!ps_area_make("desk2", PS_AREA_MAX + 1, NULL) && errno == EINVAL, "too large");
    tap_ok(!ps_area_open("desk2") && errno == ENOENT, "of this name there is none");
    ps_area *large = ps_area_make("desk2", PS_AREA_MAX, NULL);
    tap_ok(large && ((char *)ps_area_memory(large))[PS_AREA_MAX - 1] == 0, "the largest one");
    is(large ? ps_area_close(large) : -1, 0, "closed by its maker");
    tap_ok(!ps_area_open("desk2") && errno == ENOENT, "it is gone");
    is(ps_area_close(area), 0, "so is the first one");
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return worker(argv[1]);
    tap_plan(48);
    area = ps_area_make("desk", sizeof(struct desk), &(struct ps_task){serve, gone, NULL});
    if (!tap_ok(area != NULL, "an area (%d)", errno))
        return 1;
    desk = ps_area_memory(area);
    ps_semaphore_begin(&desk->tokens, TOKENS);
    many_processes(argv[0]);
    a_holder_dies(argv[0]);
    a_holder_dies_while_others_sleep(argv[0]);
    a_wake_that_nobody_gives(argv[0]);
    a_sleeper_dies(argv[0]);
    semaphores();
    tasks(argv[0]);
    the_keeper_believes_nothing(argv[0]);
    areas();
    return tap_end();
}
