/*
 * test_kit.c - the concurrency kit (libpstore/kit.h) among the threads of one process.
 *
 * Aim     latches exclude, semaphores neither make nor lose units, nobody sleeps for ever; a task
 *         serves one request at a time and may answer later; errors are those of the header.
 * Method  threads count under a latch by plain loads and stores, hand numbers through a bounded
 *         buffer made of semaphores and latches, and meet in pairs at a task. Between processes:
 *         tests/guest/pstore/pstore_kit.c.
 */
#include "kit.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

enum { THREADS = 8, ROUNDS = 20000, CELLS = 3, LONG_MS = 60000 };

static void together(int n, void *(*work)(void *), void *arg)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < n; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, arg), 0);
    for (int i = 0; i < n; i++) {
        void *errors;
        pthread_join(threads[i], &errors);
        assert_null(errors);
    }
}

/* ---- a latch ---- */

struct counted { struct ps_latch latch; volatile long count; };
static ps_area *area;

static void *count(void *unused)
{
    struct counted *c = ps_area_memory(area);
    long errors = 0;
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        errors += ps_latch_take(area, &c->latch, LONG_MS) != 0;
        long n = c->count;
        if (i % 128 == 0)
            sched_yield();
        c->count = n + 1;
        errors += ps_latch_give(area, &c->latch) != 0;
    }
    return (void *)errors;
}

static void a_latch_lets_one_in(void **state)
{
    (void)state;
    area = ps_area_private(sizeof(struct counted), NULL);
    struct counted *c = ps_area_memory(area);
    together(THREADS, count, NULL);
    assert_int_equal(c->count, THREADS * (long)ROUNDS);
    assert_int_equal(c->latch.word, 0);
    assert_int_equal(ps_latch_give(area, &c->latch), -EPERM);
    assert_int_equal(ps_latch_repaired(area, &c->latch), -EPERM);
    assert_int_equal(ps_latch_take(area, &c->latch, 0), 0);
    assert_int_equal(ps_latch_take(area, &c->latch, 0), -EDEADLK);
    assert_int_equal(ps_latch_give(area, &c->latch), 0);
    ps_area_close(area);
}

static void *try_it(void *unused)
{
    struct counted *c = ps_area_memory(area);
    (void)unused;
    return (void *)(long)(ps_latch_take(area, &c->latch, 0) != -ETIMEDOUT ||
                          ps_latch_take(area, &c->latch, 5) != -ETIMEDOUT ||
                          ps_latch_give(area, &c->latch) != -EPERM);
}

static void a_latch_that_is_held_is_not_taken(void **state)
{
    (void)state;
    area = ps_area_private(sizeof(struct counted), NULL);
    struct counted *c = ps_area_memory(area);
    assert_int_equal(ps_latch_take(area, &c->latch, -1), 0);
    together(1, try_it, NULL);
    assert_int_equal(ps_latch_give(area, &c->latch), 0);
    ps_area_close(area);
}

/* ---- semaphores: a bounded buffer ---- */

struct ring {
    struct ps_semaphore full, empty;
    struct ps_latch latch;
    unsigned first, last;
    long cells[CELLS];
    long sum, taken;
};

static int pass(struct ring *r, struct ps_semaphore *from, struct ps_semaphore *to, long *number,
                int put)
{
    int error = ps_semaphore_take(area, from, LONG_MS);
    if (error || (error = ps_latch_take(area, &r->latch, LONG_MS)))
        return error;
    if (put)
        r->cells[r->last++ % CELLS] = *number;
    else
        *number = r->cells[r->first++ % CELLS];
    if (!put) {
        r->sum += *number;
        r->taken++;
    }
    error = r->last - r->first > CELLS ? -EOVERFLOW : ps_latch_give(area, &r->latch);
    return error ? error : ps_semaphore_give(area, to, 1);
}

static void *put_or_take(void *unused)
{
    struct ring *r = ps_area_memory(area);
    static int who;
    const int put = __atomic_fetch_add(&who, 1, __ATOMIC_RELAXED) % 2;
    long errors = 0;
    (void)unused;
    for (long i = 1; i <= ROUNDS; i++) {
        long number = i;
        errors += pass(r, put ? &r->empty : &r->full, put ? &r->full : &r->empty, &number,
                       put) != 0;
    }
    return (void *)errors;
}

static void a_bounded_buffer_loses_nothing(void **state)
{
    (void)state;
    area = ps_area_private(sizeof(struct ring), NULL);
    struct ring *r = ps_area_memory(area);
    ps_semaphore_begin(&r->empty, CELLS);
    together(THREADS, put_or_take, NULL);
    assert_int_equal(r->taken, THREADS / 2 * (long)ROUNDS);
    assert_int_equal(r->sum, THREADS / 2 * (ROUNDS * (ROUNDS + 1l) / 2));
    assert_int_equal(r->empty.value, CELLS);
    assert_int_equal(r->full.value, 0);
    assert_int_equal(r->full.waiters + r->empty.waiters, 0);
    assert_int_equal(ps_semaphore_take(area, &r->full, 0), -ETIMEDOUT);
    assert_int_equal(ps_semaphore_take(area, &r->full, 5), -ETIMEDOUT);
    assert_int_equal(ps_semaphore_give(area, &r->full, 0x7fffffff), 0);
    assert_int_equal(ps_semaphore_give(area, &r->full, 1), -EOVERFLOW);
    ps_area_close(area);
}

/* ---- a task that lets two meet: each gets the other's number ---- */

static struct { uint64_t token; long number, served, inside, left; } meeting;

/* One goes home for good; the last who is left meets nobody. */
static int leave(void)
{
    const uint64_t waits = meeting.token;
    if (++meeting.left < THREADS - 1 || !waits)
        return 0;
    meeting.token = 0;
    return ps_answer(area, waits, -ECANCELED, NULL, 0);
}

static int meet(void *unused, struct ps_request *r)
{
    long mine = *(long *)r->message, nested = 1;
    (void)unused;
    if (meeting.inside++ || ps_ask(area, &nested, sizeof nested, -1) != -EDEADLK)
        return -EDEADLK;
    meeting.inside--;
    if (mine < 0)
        return mine == -2 ? leave() : -EINVAL;
    meeting.served++;
    if (meeting.left == THREADS - 1)
        return -ECANCELED;
    if (!meeting.token) {
        meeting.token = r->token;
        meeting.number = mine;
        return PS_LATER;
    }
    int error = ps_answer(area, meeting.token, 0, &mine, sizeof mine);
    *(long *)r->message = meeting.number;
    meeting.token = 0;
    return error;
}

static long numbers;

static void *meet_often(void *unused)
{
    long errors = 0;
    (void)unused;
    for (int i = 0; i < ROUNDS / 10; i++) {
        long mine = __atomic_add_fetch(&numbers, 1, __ATOMIC_RELAXED), other = mine;
        int result = ps_ask(area, &other, sizeof other, LONG_MS);
        errors += result != -ECANCELED && (result != 0 || other == mine || other < 1);
    }
    errors += ps_ask(area, &(long){-2}, sizeof(long), -1) != 0;
    return (void *)errors;
}

static void a_task_answers_now_or_later(void **state)
{
    (void)state;
    long number = -1;
    area = ps_area_private(1, &(struct ps_task){.serve = meet});
    together(THREADS, meet_often, NULL);
    assert_int_equal(meeting.served, THREADS * ROUNDS / 10);
    assert_int_equal(meeting.token, 0);
    meeting.left = 0;
    assert_int_equal(ps_ask(area, &number, sizeof number, -1), -EINVAL);
    number = 1;
    assert_int_equal(ps_ask(area, &number, sizeof number, 5), -ETIMEDOUT);
    assert_int_equal(ps_ask(area, &number, sizeof number, -1), -ESRCH); /* to whom it would go */
    assert_int_equal(ps_ask(area, NULL, PS_MESSAGE_MAX + 1, -1), -EMSGSIZE);
    ps_area_close(area);
    area = ps_area_private(1, NULL);
    assert_int_equal(ps_ask(area, &number, sizeof number, -1), -ENOSYS);
    ps_area_close(area);
    assert_null(ps_area_private(0, NULL));
    assert_null(ps_area_private(PS_AREA_MAX + 1, NULL));
}

/* ---- who is woken for nothing again and again ---- */

enum { TIME_MS = 30, OFTEN = 3000 };
static volatile int timed_out;

static int take_one(int timeout_ms, int semaphore)
{
    void *memory = ps_area_memory(area);
    return semaphore ? ps_semaphore_take(area, memory, timeout_ms)
                     : ps_latch_take(area, memory, timeout_ms);
}

static void *waits_in_vain(void *semaphore)
{
    int result = take_one(TIME_MS, semaphore != NULL);
    timed_out = 1;
    return (void *)(intptr_t)result;
}

/* Nothing is given, but whoever sleeps is woken, each millisecond. */
static void time_goes_on_for_who_is_woken(void **state)
{
    (void)state;
    for (long semaphore = 0; semaphore < 2; semaphore++) {
        pthread_t waiter;
        void *result;
        int rounds = 0;
        area = ps_area_private(sizeof(struct ps_semaphore), NULL);
        uint64_t *words = ps_area_memory(area);
        timed_out = 0;
        assert_true(semaphore || take_one(0, 0) == 0);
        pthread_create(&waiter, NULL, waits_in_vain, (void *)semaphore);
        for (; !timed_out && rounds < OFTEN; rounds++) {
            for (int i = 0; i < 2; i++)
                syscall(SYS_futex, words + i, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
            usleep(1000);
        }
        assert_true(timed_out); /* at once, where this thread was away for longer than TIME_MS */
        pthread_join(waiter, &result);
        assert_int_equal((int)(intptr_t)result, -ETIMEDOUT);
        ps_area_close(area);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_latch_lets_one_in),
        cmocka_unit_test(a_latch_that_is_held_is_not_taken),
        cmocka_unit_test(a_bounded_buffer_loses_nothing),
        cmocka_unit_test(a_task_answers_now_or_later),
        cmocka_unit_test(time_goes_on_for_who_is_woken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
