/*
 * fire.h - each manager that the system has, under fire: its clients are killed at each step, it is
 * killed at each step, it stalls, many clients fight for the same pages, memory ends, and clients
 * say what makes no sense.
 *
 * A test program gives a table of managers to fire_main(). The clients of all do the same: they
 * store a number to some pages of what it serves, in one transaction where it has those. The next
 * client finds the last number that was acknowledged, or the one behind it, and nothing half.
 */
#ifndef TEST_FIRE_H
#define TEST_FIRE_H

#include <stdbool.h>
#include <stdint.h>

enum fire_how {
    FIRE_PLAIN,         /* any thread stores; a client that is killed leaves the first few words */
    FIRE_COMMITS,       /* all or nothing */
    FIRE_READS,         /* nobody stores: always the same words */
    FIRE_CELLS,         /* /bin/collected: a list is made and read, and older ones are collected */
};
struct fire {
    const char *program; /* /bin/PROGRAM; the first 8 bytes of its name are its process's alone */
    const char *name;    /* what clients open */
    const char *argv[6]; /* how it is started; none: the store starts it, with its container */
    enum fire_how how;
    bool is_store;       /* what it serves is a store, with containers */
    bool keeps;          /* what is acknowledged outlives it; else nothing of it does */
    bool strict;         /* its clients give all rights back (ps_strict) */
    uint64_t first, pages; /* the page where clients begin; how many are read; one more is there */
    uint64_t (*initial)(uint64_t i); /* word i at first; NULL: 0 */
    int (*prepare)(void); /* once, before it is started: 0 or -errno */
    int (*after)(void);   /* a client does this after each change: 0 or -errno */
    int message_bytes;    /* of its own protocol (km_call) */
    int beside;           /* threads of other managers; each makes its view when it first works */
};

/* The main of such a program: for each manager the same results. The status for main(). */
int fire_main(const struct fire *managers, unsigned count, int argc, char **argv);

/* ---- fire_client.c ---- */

enum {
    FIRE_END = 9, FIRE_UNDONE, FIRE_WRONG, /* statuses of clients */
    FIRE_FOUND = 20,    /* and: 0, what was there at first; 1, the number before; 2, this number */
    FIRE_ROUNDS = 12,   /* of a client in a storm */
    FIRE_LIMIT_MS = 30,
};

/* What the process is to do for manager f: argument 1 says what. Its status. */
int fire_role(const struct fire *f, const char *role, uint64_t number, long argument);

/* Opens what it serves: 0 or -errno. */
int fire_open(const struct fire *f);

/* ---- fire_lies.c ---- */

/* For a process of its own: says to the manager what makes no sense. A status of clients. */
int fire_lies(const struct fire *f);

/* ---- of the kernel with tests/bugs/kernel-support.patch ---- */

/* The process of this name ends by its n-th event (0: not any more). How many were left of the n
 * before; 0: it has ended, or will not go on. */
long fire_die(long n, const char *program);
long fire_hold(int pid);                    /* it stands still; 0: it goes on */

#endif
