/*
 * large.c - the sixth process of crashload: each of its transactions changes every page of a large
 * object, so that it has to spill: it is larger than a group (store.group_kib), than the credits
 * that the log can lend, or than the part of memory that transactions may have.
 *
 * Step NUMBER writes NUMBER into each page, and another word at a place that moves. One in four is
 * first done and aborted: its pages were in the log and may never be seen.
 */
#include <time.h>

#include "load.h"

enum { PAGE_WORDS = 512, MOVES = 500, OTHER = 1000, TRIES = 20, PAUSE_US = 500 };

static uint64_t pause_us;
struct large { uint64_t number, pages; uint64_t *words; };  /* known to tests/crash/crashload.py */

static ps_container *open_large;

static int large_open(int flags)
{
    if (!open_large)
        open_large = ps_open("crash.large", flags, PS_LAYOUT(struct large, 1));
    return open_large ? 0 : -errno;
}

static int large_make(void *arg)
{
    const uint64_t *pages = arg;
    struct large *large = ps_root(open_large);
    if (!large)
        return -errno;
    if (large->words)
        return 0;
    uint64_t *words = ps_alloc(open_large, *pages * PAGE_WORDS * 8 - 64, NULL);
    if (!words)
        return -errno;
    SET(large->pages, *pages);
    SET(large->words, words);
    return 0;
}

static void large_close(void)
{
    if (open_large)
        ps_close(open_large);
    open_large = NULL;
}

int large_begin(uint64_t pages, int encoder)
{
    int error = large_open(PS_CREATE | PS_WRITE);
    if (!error)
        error = ps_transaction(large_make, &pages);
    if (!error)
        error = ps_encoder(open_large, encoder);
    large_close();
    return error;
}

static int large_do(void *arg)
{
    const uint64_t *number = arg;
    struct large *large = ps_root(open_large);
    if (!large)
        return -errno;
    pause_us = large->pages * PAUSE_US;
    for (uint64_t i = 0; i < large->pages; i++) {
        uint64_t *page = large->words + i * PAGE_WORDS;
        SET(page[0], *number);
        SET(page[1 + *number % MOVES], *number * OTHER + i);
    }
    SET(large->number, *number);
    return 0;
}

static int large_abort(void *arg)
{
    int error = large_do(arg);
    return error ? error : -ECANCELED;
}

/* E2BIG: others have filled half of the log meanwhile. */
static int large_run(int (*body)(void *), uint64_t *number)
{
    int error = -E2BIG;
    for (int i = 0; i < TRIES && error == -E2BIG; i++)
        error = ps_transaction(body, number);
    return error;
}

/* The others are to do most of the work, however large this object is. */
int large_step(uint64_t number)
{
    nanosleep(&(struct timespec){ (time_t)(pause_us / 1000000), (long)(pause_us % 1000000) * 1000 },
              NULL);
    int error = large_open(PS_WRITE);
    if (!error && number % 4 == 0)
        error = large_run(large_abort, &number);
    if (!error || error == -ECANCELED)
        error = large_run(large_do, &number);
    if (error)
        large_close();
    return error;
}

struct look { uint64_t number; const char *wrong; };

static int look(void *arg)
{
    struct look *l = arg;
    const struct large *large = ps_root(open_large);
    if (!large)
        return -errno;
    *l = (struct look){.number = large->number};
    for (uint64_t i = 0; l->number && i < large->pages; i++) {
        const uint64_t *page = large->words + i * PAGE_WORDS;
        if (page[0] != l->number || page[1 + l->number % MOVES] != l->number * OTHER + i)
            l->wrong = "a page of the large object is not as the last step left it (CL8)";
    }
    return 0;
}

int large_counter(uint64_t *counter, const char **wrong)
{
    struct look l = {0};
    int error = large_open(0);
    if (!error)
        error = ps_transaction(look, &l);
    large_close();
    *counter = l.number;
    *wrong = l.wrong;
    return error == -ENOENT ? 0 : error;
}
