/*
 * stack-cut.c - the load of stack-cut.sh: a container of the store and one of a stacked manager,
 * changed step by step until the power goes.
 *
 *     stack-cut SEED STEPS    each step is one transaction on both. `ack N`: its commit returned
 *     stack-cut check SEED    the step that the store's container tells, and whether the manager's
 *                             has what all steps up to that have left
 */
#include <errno.h>
#include <pstore.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "manager.h"

enum { WORDS = 4 * 512, EACH = 40 };
struct root { uint64_t step; };
static ps_container *box;
static uint64_t *words, model[WORDS];

struct work { uint64_t seed, step; };
static void change(uint64_t *to, const struct work *w)
{
    for (uint64_t i = 0; i < EACH; i++)
        to[(w->seed + w->step * 7 + i * 131) % WORDS] = w->step * 1000 + i;
}

static int step(void *arg)
{
    const struct work *w = arg;
    ((struct root *)ps_root(box))->step = w->step;
    change(words, w);
    return 0;
}

static int check(void *seed)
{
    uint64_t last = ((struct root *)ps_root(box))->step;
    for (struct work w = {*(uint64_t *)seed, 1}; w.step <= last; w.step++) change(model, &w);
    int same = memcmp(model, words, sizeof model) == 0;
    printf("step %lu: %s\n", last, same ? "equal, all of them" : "DIFFERENT");
    return same ? 0 : -EUCLEAN;
}

int main(int argc, char **argv)
{
    if (argc != 3) return 2;
    box = ps_open("ledger", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    int error = box ? 0 : -errno, only_check = strcmp(argv[1], "check") == 0;
    words = ps_address(ps_open("vault", PS_WRITE, NULL)); /* of a manager that the store starts */
    while (!error && !words && !(words = km_open("vault", "vault", KM_READ | KM_WRITE)))
        sched_yield();
    uint64_t seed = strtoull(argv[only_check ? 2 : 1], NULL, 0), steps = strtoull(argv[2], NULL, 0);
    if (!error && only_check) error = ps_transaction(check, &seed);
    for (struct work w = {seed, 1}; !error && !only_check && w.step <= steps; w.step++) {
        error = ps_transaction(step, &w);
        if (!error) printf("ack %lu\n", w.step), fflush(stdout);
    }
    if (error) fprintf(stderr, "stack-cut: %s\n", ps_strerror(error));
    return error != 0;
}
