/*
 * sites-away.c - for sites-away.sh: a program that has containers of two homes open, one of which
 * ends for good.
 *
 *     sites-away FIRST SECOND     says what the program is told of transactions at each
 *     sites-away box make         makes the container
 *     sites-away box COUNT        until so much was counted in it
 */
#include <errno.h>
#include <pstore.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TURNS = 100, ALL = 1000 };
struct root { uint64_t count; };

static void pause_ms(void) { nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL); }

static ps_container *box(const char *name, int flags)
{
    ps_container *c;
    while (!(c = ps_open(name, flags | PS_WRITE, PS_LAYOUT(struct root, 1)))) pause_ms();
    return c;
}

static int up(void *container)
{
    struct root *root = ps_root(container);
    if (!root) return -errno;
    root->count++;
    return 0;
}

static int looks(void *container)
{
    const struct root *root = ps_root(container);
    return root ? (int)root->count : -errno;
}

/* In a snapshot. */
static int looks_back(ps_container *container)
{
    struct ps_options options = {.isolation = PS_SNAPSHOT};
    return ps_transaction_opt(looks, container, &options);
}

static int ends(void *container)
{
    struct root *root = ps_root(container);
    if (!root) return -errno;
    root->count = ALL;
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 3) return 2;
    if (argv[2][0] == 'm') return !box(argv[1], PS_CREATE);
    if (atoi(argv[2])) {
        ps_container *own = box(argv[1], 0);
        while (ps_transaction(looks, own) < atoi(argv[2])) pause_ms();
        return 0;
    }
    ps_container *one = box(argv[1], 0), *two = box(argv[2], 0);
    int told = 0, done = 0, other = 0, refused = 0, found;
    if (ps_transaction(up, two)) return 1;
    while (ps_transaction(up, one) == 0) pause_ms();    /* until it ends */
    for (int i = 0; i < TURNS; i++) {                   /* the home that is there */
        int error = ps_transaction(up, two);
        done += error == 0 && looks_back(two) > 0;
        told += error == -ENOTCONN;
    }
    for (int i = 0; i < TURNS; i++) {                   /* the one that is not */
        int error = ps_transaction(up, one);
        refused += error == -EOWNERDEAD || error == -ENOTCONN;
        other += error != -EOWNERDEAD && error != -ENOTCONN;
    }
    printf("away: %d done at the other home, %d were told, %d refused, %d other\n", done,
           told, refused, other);
    fflush(stdout);
    while ((found = ps_transaction(ends, one)) != 0) pause_ms();
    printf("and is found again\n");
    return ps_transaction(ends, two) != 0;
}
