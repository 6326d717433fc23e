/*
 * steps.h - the load of a power cut test of keys: steps that follow from a seed, each a
 * transaction, each fifth one undone first, and what they leave (tree-cut.c, index-cut.c).
 *
 *     PROGRAM SEED STEPS      carries the steps out, and prints `ack N` behind each
 *     PROGRAM check SEED      compares what is there with what the steps that were counted left
 *
 * Whoever includes this has said before: enum { KEYS, EACH, GROWS }: how many keys there may be,
 * changes of a step at most, and how many of ten put a key while it grows.
 */
#ifndef TESTS_SYSTEM_STEPS_H
#define TESTS_SYSTEM_STEPS_H

#include <errno.h>
#include <pstore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct work { uint32_t seed; uint64_t step; int abort; };

static uint32_t random_state;
static uint64_t model[KEYS];            /* the step that put the key there; 0: none */

static uint32_t draw(uint32_t below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)random_state * below >> 32);
}

/* How many changes the step has. Steps grow what is there for a while, then shrink it. */
static uint32_t step_begin(const struct work *w)
{
    random_state = w->seed * 2654435761u + (uint32_t)w->step * 40503u;
    return 1 + draw(EACH);
}

/* The next change of the step: 1 puts key n, 0 removes it. */
static int step_draw(const struct work *w, uint32_t *n)
{
    *n = draw(KEYS);
    return draw(10) < (w->step / 25 % 2 ? 2u : (unsigned)GROWS);
}

/* What a step's transaction returns: one that is to be undone gives up when all is done. */
static int step_end(const struct work *w, int error)
{
    return error ? error : w->abort ? -ECANCELED : 0;
}

static char *word_of(uint32_t n, char *word)
{
    sprintf(word, "%s/%u", n % 3 ? "a-rather-long-prefix" : "short", n * 7919 % 100003);
    return word;
}

/* Makes the model of what the first steps left; how many keys. */
static uint64_t replay(uint32_t seed, uint64_t steps)
{
    uint64_t keys = 0;
    struct work w = {.seed = seed};
    for (w.step = 1; w.step <= steps; w.step++)
        for (uint32_t left = step_begin(&w), n; left > 0; left--) {
            int puts = step_draw(&w, &n);
            model[n] = puts ? w.step : 0;
        }
    for (uint32_t n = 0; n < KEYS; n++)
        keys += model[n] != 0;
    return keys;
}

static int steps_run(char **argv, int (*step)(void *), int (*check)(void *),
                     const struct ps_options *look)
{
    struct work w = {.seed = (uint32_t)atoi(argv[2])};
    if (strcmp(argv[1], "check") == 0)
        return ps_transaction_opt(check, &w, look) != 0;
    w.seed = (uint32_t)atoi(argv[1]);
    for (w.step = 1; w.step <= (uint64_t)atoi(argv[2]); w.step++) {
        w.abort = w.step % 5 == 0;
        if (w.abort && ps_transaction(step, &w) != -ECANCELED)
            return 1;
        w.abort = 0;
        if (ps_transaction(step, &w) != 0)
            return 1;
        printf("ack %lu\n", w.step);
    }
    return 0;
}

#endif
