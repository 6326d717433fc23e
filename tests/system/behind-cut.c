/*
 * behind-cut.c - the load of behind-cut.sh: commits of a write-behind container, until the power
 * goes.
 *
 *     behind-cut STEPS   each step is a transaction that numbers a place, in a page of its own, and
 *                        counts in another; `ack N` is printed when the manager was asked to have
 *                        step N durable, and has answered
 *     behind-cut check   prints how many steps are there; they must be the first ones, as wholes
 */
#include <errno.h>
#include <pstore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "manager.h"

enum { WORDS = 512, PAGES = 1024, ACK_EACH = 16 };
struct behind_counts { uint64_t flush, commits, durable, batches; };
static volatile uint64_t *box;

static int step(void *unused)
{
    (void)unused;
    uint64_t n = box[0];
    if (n + 1 >= PAGES) return -ERANGE;
    box[(n + 1) * WORDS + n % WORDS] = n + 1;
    box[0] = n + 1;
    return 0;
}

static int check(void *out)
{
    uint64_t n = box[0];
    for (uint64_t i = 0; i + 1 < PAGES && i < n + 40; i++)
        if (box[(i + 1) * WORDS + i % WORDS] != (i < n ? i + 1 : 0)) return -EUCLEAN;
    *(uint64_t *)out = n;
    return 0;
}

static int steps(unsigned long count)
{
    for (unsigned long n = 1; n <= count; n++) {
        struct behind_counts c = {.flush = n % ACK_EACH == 0 || n == count};
        int error = ps_transaction(step, NULL);
        if (!error && c.flush) error = km_call("box", "box", &c, sizeof c);
        if (error) {
            fprintf(stderr, "behind-cut: step %lu: %s\n", n, ps_strerror(error));
            return 1;
        }
        if (c.durable) printf("ack %lu\n", n);
    }
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t n = 0;
    const struct timespec moment = {.tv_nsec = 1000000};
    for (int i = 0; i < 20000 && !(box = km_open("box", "box", KM_READ | KM_WRITE)); i++)
        nanosleep(&moment, NULL);
    if (!box || argc != 2) return fprintf(stderr, "behind-cut: STEPS or check\n"), 2;
    if (strcmp(argv[1], "check") != 0) return steps(strtoul(argv[1], NULL, 10));
    int error = ps_transaction(check, &n);
    if (error)
        printf("wrong: %s\n", ps_strerror(error));
    else
        printf("step %llu\n", (unsigned long long)n);
    return error != 0;
}
