/*
 * store_execve.c - a program that has containers open puts another one in its place, which opens
 * some of them.
 *
 * Aim     what the store hears of the old program, however late, ends no opening of the new one;
 *         and nothing that the old one might do is the new one's.
 * Method  bare calls (store_client.h). A child has many containers open, so that several threads of
 *         the store hear of its execve, and opens the one in question at once, in turns for writing
 *         and for reading; then it looks what it may do, asks the store, and closes it.
 */
#include <stdlib.h>

#include "store_client.h"

enum { OTHERS = 12, ROUNDS = 1000, ROUNDS_TEST = 250 };

static long may(uint64_t address)
{
    struct kd_space_info info = {0};
    long e = kd_call3(KD_CONTAINER_INFO, (long)address, (long)&info, 0);
    return e ? e : (long)info.rights;
}

static long says(uint32_t kind, const struct wire_opened *box)
{
    return client_call(kind, box->container, 0, 0, NULL, 0, NULL, 0);
}

/* What is wrong in a round, by bits; 0: nothing. */
static int wrong(unsigned writes)
{
    struct wire_opened box;
    long right = KD_RIGHT_READ | (writes ? KD_RIGHT_WRITE : 0);
    if (client_open("box", writes, NULL, 0, 0, &box) < 0) return 1;
    bool first = may(box.base) == right;
    usleep(2000); /* what is late comes now */
    int found = (first && may(box.base) == right ? 0 : 2) | (says(STORE_NEXT, &box) == 0 ? 0 : 4);
    if (client_open("box", writes, NULL, 0, 0, &box) < 0) return found | 1;
    if (says(STORE_CLOSE, &box) < 0 || says(STORE_CLOSE, &box) < 0) found |= 8;
    if (may(box.base) != -ENOENT || says(STORE_CLOSE, &box) != -ENOENT) found |= 16;
    return found;
}

/* One program: argument 1 is how many come behind it, argument 2 what was wrong so far. It leaves
 * "box" open for writing or for reading. */
static int round_of(char **argv)
{
    struct wire_opened other;
    int left = atoi(argv[1]);
    char name[16], next[16], found[16];
    if (client_connect() < 0) return 32;
    int bad = atoi(argv[2]) | wrong(left % 2 ? PS_WRITE : 0);
    if (left == 0) return bad;
    for (int i = 0; i < OTHERS; i++) {
        snprintf(name, sizeof(name), "other%d", i);
        if (client_open(name, PS_CREATE, NULL, 0, 0, &other) < 0) return 33;
    }
    if (client_open("box", left % 3 ? PS_WRITE : 0, NULL, 0, 0, &other) < 0) return 34;
    snprintf(next, sizeof(next), "%d", left - 1);
    snprintf(found, sizeof(found), "%d", bad);
    execl("/bin/store_execve", argv[0], next, found, (char *)NULL);
    return 35;
}

int main(int argc, char **argv)
{
    struct wire_opened box;
    char rounds[16];
    if (argc > 2) return round_of(argv);
    tap_plan(2);
    bool good = client_connect() == 0 &&
                client_open("box", PS_CREATE | PS_WRITE, NULL, 0, 0, &box) == 0 &&
                says(STORE_CLOSE, &box) == 0;
    tap_ok(good, "a container");
    snprintf(rounds, sizeof(rounds), "%d", tap_long() ? ROUNDS : ROUNDS_TEST);
    is(child_run(argv[0], rounds, "0"), 0,
       "each program has what it opens, and nothing of the one before");
    return tap_end();
}
