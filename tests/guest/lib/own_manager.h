/*
 * own_manager.h - for tests of the kernel's transactions without a store: this process is manager and
 * client of one object of PAGES pages (define it before; and HOME_PAGES if those behind are all zero).
 *
 * A manager thread keeps "home" pages in its memory, takes commits by KD_TXN_DIFF into them and
 * publishes; client threads run transactions by the bare calls.
 */
#ifndef OWN_MANAGER_H
#define OWN_MANAGER_H

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "katydid/call.h"
#include "tap.h"

static int port, commit_port, object;
static uint64_t base, next_csn = 1;
#ifndef HOME_PAGES
#define HOME_PAGES PAGES
#endif
static uint8_t home[HOME_PAGES][KD_PAGE_BYTES];
static volatile long commits_seen, pages_logged;
static volatile uint64_t asked_most, asked_alone; /* pages of a request; requests without neighbours */
static volatile int held_commits; /* one is */
static volatile int fail_pages, hold_commits; /* while set: pages fail; commits are not answered */

#ifdef OWN_MESSAGES
static bool OWN_MESSAGES(struct kd_message *m); /* true: the test has dealt with it */
#endif

/* ---- the manager ---- */

static void serve_page(struct kd_message *m)
{
    asked_most = m->word[2] > asked_most ? m->word[2] : asked_most;
    asked_alone += (m->word[3] & KD_PAGE_ALONE) != 0;
    if (fail_pages) {
        kd_call4(KD_OBJECT_FAIL, object, (long)m->word[1], 1, EIO);
        return;
    }
    bool known = m->word[1] < HOME_PAGES;
    struct kd_supply s = {.object = object, .source = known ? KD_SUPPLY_MEMORY : KD_SUPPLY_ZERO,
                          .rights = KD_READ | KD_WRITE,
                          .page = m->word[1], .count = 1, .memory = known ? home[m->word[1]] : NULL};
    long e = kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
    if (e == -ENOMEM)
        kd_call4(KD_OBJECT_FAIL, object, (long)m->word[1], 1, ENOMEM);
    else if (e)
        printf("# supply failed: %ld\n", e);
}

static void serve_commit(struct kd_message *m)
{
    static uint8_t buffer[1 << 20];
    while (hold_commits) {
        held_commits = 1;
        usleep(1000);
    }
    held_commits = 0;
    struct kd_diff d = {.view = m->word[0], .token = m->token, .full_below = 0, .cursor = 0};
    long e = 0;
    while (d.cursor != ~0ull && !e) {
        d.buffer = buffer;
        d.buffer_bytes = sizeof buffer;
        e = kd_call3(KD_TXN_DIFF, (long)&d, 0, 0);
        for (uint64_t at = 0; !e && at < d.buffer_bytes;) {
            struct kd_run *r = (struct kd_run *)(buffer + at);
            if (r->page < HOME_PAGES)
                memcpy(home[r->page] + r->offset, r + 1, r->bytes);
            at += sizeof *r + ((r->bytes + 7u) & ~7u);
            pages_logged += (r->flags & KD_RUN_LAST) != 0;
        }
    }
    if (e) {
        printf("# diff: %ld\n", e);
        kd_call3(KD_TXN_REFUSE, (long)m->word[0], (long)m->token, EIO);
        return;
    }
    struct kd_publish p = {m->word[0], m->token, next_csn++};
    e = kd_call3(KD_TXN_PUBLISH, (long)&p, 1, 0);
    if (e)
        printf("# publish: %ld\n", e);
    commits_seen++;
}

static void *manager(void *arg)
{
    static uint8_t buffers[2][KD_PAGE_BYTES];
    int which = *(int *)arg;
    for (;;) {
        struct kd_message m = {.buffer = buffers[which], .buffer_bytes = KD_PAGE_BYTES};
        long e = kd_call3(KD_PORT_RECEIVE, which ? commit_port : port, (long)&m, -1);
        if (e) {
            printf("# receive: %ld\n", e);
            return NULL;
        }
#ifdef OWN_MESSAGES
        if (OWN_MESSAGES(&m))
            continue;
#endif
        if (m.kind == (uint32_t)KD_MSG_PAGE)
            serve_page(&m);
        else if (m.kind == (uint32_t)KD_MSG_COMMIT)
            serve_commit(&m);
    }
}

static int start_manager(uint32_t flags)
{
    static int which[2] = {0, 1};
    pthread_t t;
    port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    commit_port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    struct kd_object_create c = {.port = port, .commit_port = commit_port,
                                 .flags = KD_OBJECT_TRANSACTIONAL | flags, .cookie = 7,
                                 .base = KD_STORE_BASE, .pages = PAGES, .name = "test"};
    object = (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    base = c.base;
    pthread_create(&t, NULL, manager, &which[0]);
    pthread_create(&t, NULL, manager, &which[1]);
    return object >= 0 &&
           kd_call3(KD_SPACE_ATTACH, getpid(), object, KD_RIGHT_READ | KD_RIGHT_WRITE) == 0;
}

/* ---- transactions ---- */

struct context {
    jmp_buf env;
    int view;
    struct kd_begin begin;
    long aborts;
    char stack[8192] __attribute__((aligned(16)));
};
static __thread struct context *mine;

/* The calling thread goes on in the view of *c, which is made the first time. */
static inline void in_view(struct context *c)
{
    if (!c->view)
        c->view = (int)kd_call3(KD_VIEW_CREATE, 0, 0, 0);
    mine = c;
    kd_call3(KD_VIEW_ENTER, c->view, 0, 0);
}

/* Time stamps: under --icount they count instructions. */
static inline uint64_t counter(void)
{
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high)::"memory");
    return (uint64_t)high << 32 | low;
}

static void on_abort(long reason) { longjmp(mine->env, (int)reason); }

/* Runs body until it commits; 0 or -errno. *like says how: mode, weight, time limit and so on. */
static int run_like(int (*body)(void *), void *arg, const struct kd_begin *like)
{
    static __thread struct context context;
    if (!mine) {
        mine = &context;
        mine->view = (int)kd_call3(KD_VIEW_CREATE, 0, 0, 0);
        if (mine->view < 0 || kd_call3(KD_VIEW_ENTER, mine->view, 0, 0))
            return -1;
    }
    mine->begin = *like;
    mine->begin.entry = (uint64_t)on_abort;
    mine->begin.stack = (uint64_t)(mine->stack + sizeof mine->stack - 8);
    for (;;) {
        int reason = setjmp(mine->env);
        if (reason && reason != EDEADLK)
            return -reason;
        if (reason)
            mine->aborts++;
        long e = kd_call3(KD_TXN_BEGIN, (long)&mine->begin, 0, 0); /* a retry keeps the ticket */
        if (e)
            return (int)e;
        int r = body(arg);
        if (r) {
            kd_call3(KD_TXN_ABORT, r, 0, 0);
            return r;
        }
        struct kd_commit k = {.port = -1};
        e = kd_call3(KD_TXN_COMMIT, (long)&k, 0, 0);
        if (e == -EDEADLK)
            continue;
        return (int)e;
    }
}

static int run(int (*body)(void *), void *arg, unsigned mode, unsigned timeout_ms)
{
    return run_like(body, arg, &(struct kd_begin){.mode = mode, .timeout_ms = timeout_ms});
}

/* Rights that no earlier transaction of the thread left: its view is made anew. */
static inline void view_anew(void)
{
    if (mine)
        kd_call3(KD_HANDLE_CLOSE, mine->view, 0, 0);
    mine = NULL;
}

static volatile uint64_t *word_of(unsigned page, unsigned i)
{
    return (volatile uint64_t *)(base + (uint64_t)page * KD_PAGE_BYTES) + i;
}

static long check(void) { return kd_call3(KD_CHECK, 0, 0, 0); }

#endif
