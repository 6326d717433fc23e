/*
 * lazy-cut.c - the load of lazy-cut.sh: lazy and strict commits, until the power goes.
 *
 *     lazy-cut STEPS   each step is a transaction that numbers a place and counts; each tenth is
 *                      strict, the others are lazy. `ack N` is printed when a strict one, or a
 *                      ps_flush behind step N, has returned.
 *     lazy-cut check   prints how many steps are there; they must be the first ones, as wholes
 */
#include <pstore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 1000 };
struct root { uint64_t *count, *places; };
static ps_container *box;

static int step(void *unused)
{
    (void)unused;
    struct root *root = ps_root(box);
    if (!root->count) {
        root->count = ps_alloc(box, 8192, NULL);
        root->places = ps_alloc(box, ROOM * sizeof *root->places, NULL);
        if (!root->count || !root->places)
            return -ENOSPC;
    }
    uint64_t n = *root->count;
    if (n == ROOM)
        return -ERANGE;
    root->places[n] = n + 1;
    *root->count = n + 1;
    return 0;
}

static int check(void *out)
{
    const struct root *root = ps_root(box);
    uint64_t n = root->count ? *root->count : 0;
    for (uint64_t i = 0; root->count && i < ROOM; i++)
        if (root->places[i] != (i < n ? i + 1 : 0))
            return -EUCLEAN;
    *(uint64_t *)out = n;
    return 0;
}

static int steps(unsigned long count)
{
    static const struct ps_options lazy = {.lazy = 1, .lazy_ms = 60000};
    for (unsigned long n = 1; n <= count; n++) {
        int strict = n % 10 == 0;
        int error = ps_transaction_opt(step, NULL, strict ? NULL : &lazy);
        if (error == 0 && n % 25 == 0)
            error = ps_flush();
        if (error) {
            fprintf(stderr, "lazy-cut: step %lu: %s\n", n, ps_strerror(error));
            return 1;
        }
        if (strict || n % 25 == 0)
            printf("ack %lu\n", n);
    }
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t n = 0;
    box = ps_open("box", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    if (!box || argc != 2) {
        fprintf(stderr, "lazy-cut: %s\n", box ? "STEPS or check" : ps_strerror(errno));
        return 2;
    }
    if (strcmp(argv[1], "check") != 0)
        return steps(strtoul(argv[1], NULL, 10));
    int error = ps_transaction(check, &n);
    if (error)
        printf("wrong: %s\n", ps_strerror(error));
    else
        printf("step %llu\n", (unsigned long long)n);
    return error != 0;
}
