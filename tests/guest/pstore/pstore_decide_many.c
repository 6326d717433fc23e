/*
 * pstore_decide_many.c - ps_decide of a container with many pages and several segments.
 *
 * Aim     whoever decides, all pages are told of it, those of every segment; others are answered by
 *         the store meanwhile; when two decide at a time, the last one's word holds for all pages;
 *         and a question that was asked before comes to who decides next.
 * Method  4,000 pages in memory, and two objects of which a page each is: three segments. Questions
 *         are counted. A grant of many pages is -ECANCELED only if another call was dealt with in
 *         the midst of it.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#include "decide.h"
#include "pstore_test.h"

enum { PAGES = 4000, STEP = 500, LARGE = 2, WORDS = KD_PAGE_BYTES / 8, TIMES = 10, LOOKED = 20,
       GRANTS = 1000, LIMIT_MS = 20000 };
#define LARGE_BYTES ((size_t)900 << 20)
struct root { uint64_t *array, *large[LARGE]; };
static ps_container *c;
static struct root at;                  /* a copy */

static int make(void *unused)
{
    (void)unused;
    struct root *r = ps_root(c);
    r->array = ps_alloc(c, (size_t)PAGES * KD_PAGE_BYTES, NULL);
    for (unsigned i = 0; i < LARGE; i++) {
        r->large[i] = ps_alloc(c, LARGE_BYTES, NULL);
        if (!r->large[i]) return -errno;
        r->large[i][LARGE_BYTES / 8 - 1] = i;
    }
    at = *r;
    return at.array ? 0 : -errno;
}

static int fill(void *from)
{
    for (uintptr_t i = (uintptr_t)from; i < (uintptr_t)from + STEP; i++) at.array[i * WORDS] = i;
    return 0;
}

/* Some pages of the array, one of each large object: PAGES / LOOKED and LARGE. */
static int look(void *sum)
{
    uint64_t wrong = 0;
    for (uintptr_t i = 0; i < PAGES; i += LOOKED) wrong += at.array[i * WORDS] != i;
    for (unsigned i = 0; i < LARGE; i++) wrong += at.large[i][LARGE_BYTES / 8 - 1] != i;
    *(uint64_t *)sum = wrong;
    return 0;
}

/* Questions of one look, in a view that has no rights; -1: it went wrong. */
static long asks(void)
{
    static int apart;
    struct ps_options o = {.apart = apart = apart % 8 + 1};
    struct ps_stats before, after;
    uint64_t wrong = 1;
    int strict = ps_strict(1);
    ps_stats(&before);
    int e = ps_transaction_opt(look, &wrong, &o);
    ps_stats(&after);
    ps_strict(strict);
    return e || wrong ? -1 : (long)(after.manager_calls - before.manager_calls);
}

/* ---- what goes on beside ---- */

static _Atomic int over;

static void *decider(void *unused)
{
    while (!over) ps_decide(c, PS_DECIDE_STORE);
    return unused;
}

static void *again(void *unused)
{
    while (!over) ps_decide(c, PS_DECIDE_PROGRAM);
    return unused;
}

/* This program decides. The grants are of a whole segment, 225 pieces. */
static void beside(void)
{
    const void *from = (const void *)(((uintptr_t)at.large[0] + KD_PAGE_BYTES - 1) &
                                      ~(uintptr_t)(KD_PAGE_BYTES - 1));
    pthread_t t;
    int e = 0, grants = 0;
    over = 0;
    pthread_create(&t, NULL, again, NULL);
    for (; grants < GRANTS && !e; grants++)
        e = ps_decide_grant(c, from, LARGE_BYTES / KD_PAGE_BYTES - 1, 0);
    over = 1;
    pthread_join(t, NULL);
    printf("# %d grants\n", grants);
    is(e, -ECANCELED, "others are answered between two pieces of a grant of many pages");
}

/* ---- a question, and who decides changes ---- */

static int stores_last(void *unused)
{
    (void)unused;
    at.large[LARGE - 1][LARGE_BYTES / 8 - 1] = LARGE - 1;
    return 0;
}
static void *touches(void *result)
{
    struct ps_options o = {.timeout_ms = LIMIT_MS, .apart = 9};
    *(int *)result = ps_transaction_opt(stores_last, NULL, &o);
    return NULL;
}
static void *kernel_decides(void *unused)
{
    ps_decide(c, PS_DECIDE_KERNEL);
    return unused;
}

/* Fetches questions, and answers those that come when it decides for the second time. */
static _Atomic int answers_over;
static void *answers_later(void *told)
{
    struct ps_question q = {0};
    for (int time = 1; time <= 2; time++) {
        while (ps_decide_next(c, &q) == 0) {
            *(volatile int *)told = time;
            q.answer = time == 1 || q.kind != PS_ASKED ? PS_LATER : PS_GRANT;
        }
        q = (struct ps_question){0};
        if (time == 1) ps_decide(c, PS_DECIDE_PROGRAM);
    }
    answers_over = 1;
    return NULL;
}

/* The kernel is to decide, and has not yet been told of the last page, which is waited for, as the
 * program decides again. */
static void question_stands(void)
{
    pthread_t asks, answers, kernel;
    volatile int told = 0;
    int result = 1;
    is(ps_decide(c, PS_DECIDE_PROGRAM), 0, "a program decides");
    pthread_create(&answers, NULL, answers_later, (void *)&told);
    pthread_create(&asks, NULL, touches, &result);
    while (!told) sched_yield();
    pthread_create(&kernel, NULL, kernel_decides, NULL);
    pthread_join(asks, NULL);
    pthread_join(kernel, NULL);
    is(result, 0, "who asked before goes on when who decides has changed twice");
    while (!answers_over) ps_decide(c, PS_DECIDE_KERNEL);
    pthread_join(answers, NULL);
}

static void two(void)
{
    pthread_t t;
    int e = 0;
    over = 0;
    pthread_create(&t, NULL, decider, NULL);
    for (int i = 0; i < TIMES && !e; i++) e = ps_decide(c, PS_DECIDE_KERNEL);
    over = 1;
    pthread_join(t, NULL);
    is(e, 0, "two threads say different things at a time");
    is(ps_decide(c, PS_DECIDE_KERNEL), 0, "(the kernel decides)");
    is(asks(), 0, "the last word holds for all pages: none asks");
    is(ps_decide(c, PS_DECIDE_STORE), 0, "(the store decides)");
    is(asks(), PAGES / LOOKED + LARGE, "or each does");
}

int main(void)
{
    uint64_t users[2];
    int e = 0;
    tap_plan(17);
    c = ps_open("many", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    is(c ? ps_transaction(make, NULL) : -errno, 0, "a container of three segments");
    for (uintptr_t i = 0; i < PAGES && !e; i += STEP) e = ps_transaction(fill, (void *)i);
    is(e, 0, "with many pages in memory");
    is(asks(), 0, "which the kernel decides about");
    is(ps_decide(c, PS_DECIDE_STORE), 0, "now the store");
    is(asks(), PAGES / LOOKED + LARGE, "each page asks, of every segment");
    is(ps_decide(c, PS_DECIDE_PROGRAM), 0, "now this program");
    beside();
    is(ps_decide_grant(c, at.array, PAGES, 0), 0, "which grants many pages at a time");
    is(ps_decide_recall(c, at.array, PAGES, 0, users), 0, "and calls them back");
    is(ps_decide(c, PS_DECIDE_KERNEL), 0, "the kernel again");
    two();
    question_stands();
    return tap_end();
}
