/*
 * bank.c - two processes at once move money between a container's accounts.
 *
 *     bank             opens 64 accounts with 1,000 each, moves 2 x 1,000 amounts, checks the sum
 *     bank N           the same with N transfers of each process
 *     bank work N SEED one worker
 *     bank check       the sum only
 *
 * Transfers read two accounts and then write both, from random ends: the pattern in which two
 * transactions deadlock. One of them is undone and runs again; the sum never changes.
 */
#include <katydid/call.h>
#include <pstore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "start.h"

enum { ACCOUNTS = 64, START = 1000, WORKERS = 2 };
struct account { int64_t amount; char owner[4088]; }; /* a page each */
struct bank { struct account *account[ACCOUNTS]; };

static ps_container *c;
static uint32_t seed;

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)seed * below >> 32);
}

static int found(void *unused)
{
    (void)unused;
    struct bank *bank = ps_root(c);
    if (!bank)
        return -errno;
    for (int i = 0; i < ACCOUNTS && !bank->account[i]; i++) {
        bank->account[i] = ps_new(c, struct account, NULL);
        if (!bank->account[i])
            return -errno;
        bank->account[i]->amount = START;
    }
    return 0;
}

struct transfer { int from, to; int64_t amount; };

static int transfer(void *arg)
{
    const struct transfer *t = arg;
    struct bank *bank = ps_root(c);
    int64_t from = bank->account[t->from]->amount, to = bank->account[t->to]->amount;
    int64_t amount = t->amount < from ? t->amount : from;
    if (t->from != t->to) {
        bank->account[t->from]->amount = from - amount;
        bank->account[t->to]->amount = to + amount;
    }
    return 0;
}

static int sum(void *arg)
{
    struct bank *bank = ps_root(c);
    int64_t total = 0;
    for (int i = 0; bank && i < ACCOUNTS; i++)
        total += bank->account[i] ? bank->account[i]->amount : 0;
    *(int64_t *)arg = total;
    return bank ? 0 : -errno;
}

static int work(unsigned count, uint32_t first_seed)
{
    seed = first_seed;
    for (unsigned i = 0; i < count; i++) {
        struct transfer t = {(int)draw(ACCOUNTS), (int)draw(ACCOUNTS), draw(50)};
        int error = ps_transaction(transfer, &t);
        if (error) {
            fprintf(stderr, "bank: transfer %u: %s\n", i, ps_strerror(error));
            return 1;
        }
    }
    struct ps_stats s;
    ps_stats(&s);
    printf("bank: %u transfers, %llu deadlocks, %llu waits\n", count,
           (unsigned long long)s.deadlocks, (unsigned long long)s.lock_waits);
    return 0;
}

/* Starts a worker process; its pid, or -errno. */
static long worker_start(const char *self, const char *count, const char *own_seed)
{
    char path[128];
    const char *name = strrchr(self, '/'), *argv[] = {self, "work", count, own_seed, NULL};
    snprintf(path, sizeof path, "/bin/%s", name ? name + 1 : self);
    return start_program(path, argv, 0, 0);
}

static int both_work(const char *self, const char *count)
{
    long worker[WORKERS];
    int failed = 0;
    for (int i = 0; i < WORKERS; i++) {
        char own_seed[12];
        snprintf(own_seed, sizeof own_seed, "%d", i + 1);
        worker[i] = worker_start(self, count, own_seed);
        failed |= worker[i] < 0;
    }
    for (int i = 0; i < WORKERS; i++) {
        int status = 0;
        if (worker[i] > 0 && kd_call3(KD_PROCESS_WAIT, worker[i], (long)&status, 0) > 0)
            failed |= status != 0;
        else
            failed = 1;
    }
    return failed;
}

static int check(void)
{
    int64_t total;
    int error = ps_transaction(sum, &total);
    if (error) {
        fprintf(stderr, "bank: %s\n", ps_strerror(error));
        return 1;
    }
    printf("bank: the sum is %lld, as it should be: %s\n", (long long)total,
           total == (int64_t)ACCOUNTS * START ? "yes" : "NO");
    return total != (int64_t)ACCOUNTS * START;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "check") != 0 && atoi(argv[1]) <= 0) {
        fputs("usage: bank [N] | bank check\n"
              "Two processes make N (1000) transfers each; the sum of all accounts never "
              "changes.\n",
              stderr);
        return 2;
    }
    c = ps_open("bank", PS_CREATE | PS_WRITE, PS_LAYOUT(struct bank, 1));
    int error = c ? ps_transaction(found, NULL) : -errno;
    if (error) {
        fprintf(stderr, "bank: %s\n", ps_strerror(error));
        return 1;
    }
    if (argc == 4 && strcmp(argv[1], "work") == 0)
        return work((unsigned)atoi(argv[2]), (uint32_t)atoi(argv[3]));
    if (argc == 2 && strcmp(argv[1], "check") == 0)
        return check();
    int failed = both_work(argv[0], argc > 1 ? argv[1] : "1000");
    if (failed)
        fprintf(stderr, "bank: a worker failed\n");
    return check() | failed;
}
