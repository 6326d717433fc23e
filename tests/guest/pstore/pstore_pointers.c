/*
 * pstore_pointers.c - pointers between two containers of one store.
 *
 * Aim     an object of one container holds the plain address of an object of another one, and that
 *         holds one back. After a restart of the manager, and after a reboot
 *         (tests/system/pointers.sh), they lead to the same objects, whichever container is opened
 *         first.
 * Method  one transaction makes a ring of shelves and books, by turns in two containers. Another
 *         process walks it. "pstore_pointers make" and "pstore_pointers follow" do one half.
 */
#include <stdbool.h>
#include <time.h>

#include "pstore_test.h"

enum { RING = 40 };
struct item { struct item *next; uint64_t number; };
static ps_container *container[2];

/* The first to be opened is that of `first`. */
static int both_open(int first)
{
    static const char *const names[] = {"shelves", "books"};
    for (int i = 0; i < 2; i++) {
        int which = i ^ first;
        container[which] = ps_open(names[which], PS_CREATE | PS_WRITE, PS_LAYOUT(struct item, 1));
        if (!container[which])
            return -errno;
    }
    return 0;
}

static int make(void *unused)
{
    (void)unused;
    struct item *first = ps_root(container[0]), *last = first;
    for (uint64_t number = 1; number < RING; number++) {
        last->next = ps_new(container[number % 2], struct item, NULL);
        if (!last->next)
            return -errno;
        last = last->next;
        last->number = number;
    }
    last->next = first;
    return 0;
}

static bool lies_in(const struct item *item, int which)
{
    const char *root = ps_root(container[which]);
    return (const char *)item >= root - (1 << 20) && (const char *)item < root + (16 << 20);
}

/* How many steps of the ring lead where they should, from the shelves' root on. */
static int follow(void *good)
{
    struct item *at = ps_root(container[0]);
    int *steps = good;
    *steps = 0;
    while (at && *steps < RING && at->number == (uint64_t)*steps && lies_in(at, *steps % 2)) {
        at = at->next;
        ++*steps;
    }
    return at == ps_root(container[0]) ? 0 : -EPROTO;
}

static int follow_from(int first)
{
    int steps = 0, error = -ENOTCONN;
    for (int i = 0; i < 20000 && (error == -ENOTCONN || error == -EOWNERDEAD); i++) {
        error = both_open(first);       /* init starts a manager that died, and it recovers */
        if (error)
            nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    error = error ? error : ps_transaction(follow, &steps);
    printf("# %d of %d pointers followed (%d)\n", steps, RING, error);
    return error || steps != RING;
}

static void test_both(const char *self)
{
    tap_plan(5);
    is(both_open(0) || ps_transaction(make, NULL), 0,
       "a ring through two containers is made in one transaction");
    is(child_run(self, "follow", ""), 0, "another process follows its pointers");
    is(ps_checkpoint(), 0, "a checkpoint");
    is(kd_call3(KD_PROCESS_KILL, store_pid(), 9, 0), 0, "the manager dies");
    is(child_run(self, "back", ""), 0, "and after its recovery they lead to the same objects");
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "make"))
        return both_open(0) || ps_transaction(make, NULL);
    if (argc > 1)
        return follow_from(!strcmp(argv[1], "back"));
    test_both(argv[0]);
    return tap_end();
}
