/*
 * sites-zones.c - for sites-zones.sh: counts in the boxes of several sites, and points into them.
 *
 *     sites-zones box make        makes the container
 *     sites-zones SELF NAME ...   counts one up in box of each of these sites, and keeps a pointer
 *                                 to each in the own box; prints how many it finds again by them
 *     sites-zones box await=N     until so many have, and need it no more
 */
#include <errno.h>
#include <pstore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OTHERS_MAX = 8, AWAY_TRIES = 1000 };
struct root { uint64_t count, done; struct root *other[OTHERS_MAX]; char rest[4000 - 80]; };
struct work { ps_container *box; struct root *at; int i; uint64_t count; };

static void pause_ms(void) { nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL); }

static ps_container *box(const char *name, int flags)
{
    ps_container *c;
    while (!(c = ps_open(name, flags | PS_WRITE, PS_LAYOUT(struct root, 1))) &&
           (errno == ENOENT || errno == EACCES || errno == ENOTCONN || errno == EOWNERDEAD))
        pause_ms();
    return c;
}

static int up(void *work)
{
    struct work *w = work;
    w->at = ps_root(w->box);
    if (!w->at) return -errno;
    w->at->count++;
    return 0;
}

static int done(void *work)
{
    struct root *at = ps_root(((struct work *)work)->box);
    if (!at) return -errno;
    at->done++;
    return 0;
}

/* That site ends when it sees this, perhaps before it has answered: then nobody can say more, or it
 * is away for good. What was undone is done again. */
static int done_at_last(struct work *work)
{
    for (int away = 0; away < AWAY_TRIES;) {
        int error = ps_transaction(done, work);
        if (error == -ENOTRECOVERABLE) return 0;
        if (error != -EOWNERDEAD && error != -ECANCELED && error != -ENOTCONN) return error;
        away += error == -ENOTCONN;
        pause_ms();
    }
    return 0;
}

static int keep(void *work)
{
    const struct work *w = work;
    struct root *own = ps_root(w->box);
    if (!own) return -errno;
    own->other[w->i] = w->at;
    return 0;
}

static int look(void *work)
{
    struct work *w = work;
    const struct root *own = ps_root(w->box);
    if (!own) return -errno;
    w->at = own->other[w->i];
    w->count = own->done;
    return 0;
}

static int follow(void *work)
{
    struct work *w = work;
    w->count = w->at->count;
    return 0;
}

/* Sessions end when a site begins anew, with its store: then it was undone (-ECANCELED), or nobody
 * knows. */
static int again(int (*fn)(void *), void *work)
{
    int error;
    while ((error = ps_transaction(fn, work)) == -EOWNERDEAD || error == -ENOTCONN ||
           error == -ECANCELED)
        pause_ms();
    return error;
}

static int made(void *work) { return ps_root(((struct work *)work)->box) ? 0 : -errno; }

static int count(const char *self, int sites, char **names)
{
    struct work own = {.box = box("box", 0)}, at[OTHERS_MAX] = {0};
    int error = own.box ? 0 : -errno, found = 0;
    for (own.i = 0; !error && own.i < sites; own.i++) {
        char path[80];
        snprintf(path, sizeof path, "%s:box", names[own.i]);
        struct work w = {.box = strcmp(self, names[own.i]) ? box(path, 0) : own.box};
        error = w.box ? again(up, &w) : -errno;
        own.at = w.at;
        at[own.i] = w;
        if (!error) error = again(keep, &own);
    }
    for (own.i = 0; !error && own.i < sites; own.i++) {
        error = again(look, &own);
        if (!error) error = again(follow, &own);
        found += !error && own.count > 0;
    }
    for (int i = 0; !error && i < sites; i++) error = done_at_last(&at[i]);
    printf("counted %d\n", found);
    return error;
}

int main(int argc, char **argv)
{
    int error = -EINVAL;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 3 || argc - 2 > OTHERS_MAX) return 2;
    if (!strcmp(argv[2], "make")) {
        struct work w = {.box = box("box", PS_CREATE)};
        error = w.box ? ps_transaction(made, &w) : -errno;
    } else if (!strncmp(argv[2], "await=", 6)) {
        struct work w = {.box = box("box", 0)};
        uint64_t wanted = strtoull(argv[2] + 6, NULL, 10);
        error = w.box ? 0 : -errno;
        while (!error && !(error = again(look, &w)) && w.count < wanted) pause_ms();
    } else {
        error = count(argv[1], argc - 2, argv + 2);
    }
    if (error) printf("%s %s: %s (%d)\n", argv[1], argv[2], ps_strerror(error), error);
    return error != 0;
}
