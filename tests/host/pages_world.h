/* pages_world.h - two clients and a home for test_pages.c: their tables and queues, and who may do
 * what. Included by that test alone. */
#ifndef KATYDID_PAGES_WORLD_H
#define KATYDID_PAGES_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "user/sites/message.h"
#include "user/sites/pages.h"

enum { PAGES = 3, CLIENTS = 2, HOME = CLIENTS, SITES, THREADS = 2, QUEUE = 64, OPS = 3,
       IDLE = 900 };
#define ADDRESS(p) (0x200000000000ull + (uint64_t)(p) * SITE_PAGE_BYTES)
#define PAGE(address) ((int)(((address) - 0x200000000000ull) / SITE_PAGE_BYTES))

struct queue { struct site_message m[QUEUE]; unsigned first, count; };
struct wait { int site, thread, want; };
struct thread { int used[PAGES], op, page[OPS], right[OPS], commits, waits; };

static struct {
    struct site_pages client[CLIENTS], agent[CLIENTS];
    struct queue to_home[CLIENTS], to_client[CLIENTS];
    uint64_t serial[CLIENTS], number[CLIENTS];
    int in_memory[CLIENTS][PAGES], copy[CLIENTS][PAGES];
    struct thread thread[SITES][THREADS];
    /* the home: rights of holders and of its own; workers that have taken a page; the queues */
    int kernel[CLIENTS][PAGES], taken[CLIENTS][PAGES], noted[CLIENTS][PAGES];
    int sent_copy[CLIENTS][PAGES];
    int at_once;                /* what is free need not stand in the queue */
    struct wait wait[PAGES][16];
    int waits[PAGES], version[PAGES], flushing[CLIENTS][THREADS];
    unsigned long uses, grants, calls, gone, breaks, commits, undone, crossed;
    unsigned long denied_late, passed, given, given_asked;
} w;
#include "any.h"

static void push(struct queue *q, struct site_message m)
{
    assert_true(q->count < QUEUE);
    q->m[(q->first + q->count++) % QUEUE] = m;
}
static struct site_message pull(struct queue *q)
{
    struct site_message m = q->m[q->first];
    q->first = (q->first + 1) % QUEUE;
    q->count--;
    return m;
}

/* ---- who may do what ---- */

static int used_by_others(int site, int thread, int page, int right)
{
    for (int t = 0; t < THREADS; t++)
        if (t != thread && w.thread[site][t].used[page] &&
            (right == SITE_EXCLUSIVE || w.thread[site][t].used[page] == SITE_EXCLUSIVE))
            return 1;
    return 0;
}

static int most_used(int site, int page)
{
    int most = 0;
    for (int t = 0; t < THREADS; t++)
        if (w.thread[site][t].used[page] > most) most = w.thread[site][t].used[page];
    return most;
}

/* The right that a site has in the home's kernel, its own transactions' being the home's. */
static int kernel_right(int site, int page)
{
    if (site == HOME) return most_used(HOME, page);
    int taken = w.taken[site][page];
    return taken > w.kernel[site][page] ? taken : w.kernel[site][page];
}

static void exclusive_alone(void)
{
    for (int p = 0; p < PAGES; p++)
        for (int a = 0; a < SITES; a++)
            for (int b = 0; b < SITES; b++) {
                const struct site_page *e = a < CLIENTS ? pages_find(&w.client[a], ADDRESS(p))
                                                        : NULL;
                int mine = a == HOME ? kernel_right(a, p) : e ? e->right : 0;
                if (a < CLIENTS) assert_true(mine <= kernel_right(a, p));
                if (a != b && mine == SITE_EXCLUSIVE) assert_int_equal(kernel_right(b, p), 0);
            }
}

#endif
