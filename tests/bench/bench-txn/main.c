/*
 * main.c - bench-txn: what transactions cost at memory speed.
 *
 *   bench-txn begin            begin and end, alone and while eight writers run
 *   bench-txn tree             a tree of 16,105 nodes on 1,343 pages, searched again and again
 *   bench-txn cached           transactions over pages that are at hand; rights that others hold
 *   bench-txn items            locks of items without contention
 *   bench-txn lazy             a lazy commit beside a strict one
 *   bench-txn cricket          Cricket's Table 3
 *   bench-txn clients MS       commits per second of 1 to 8 processes, for MS milliseconds each
 *   bench-txn replace PAGES N  N random updates over a container of PAGES pages; pages read, and
 *                              how many an exact LRU of the same memory would have read for them
 *   bench-txn tables           leaves and page tables of a GiB; with 1,400 MiB of memory
 *   bench-txn crossover        lines `plot series x y` for scripts/plots
 *
 * Prints `name <tab> unit <tab> value <tab> reach`; scripts/bench runs it by tests/bench/txn.sh.
 * All but clients and replace are for -icount: there the time stamp counter counts instructions.
 */
#include <signal.h>

#include "user/start.h"
#include "bench.h"

void row(const char *name, const char *unit, double value, const char *reach)
{
    printf("%s\t%s\t%.4g\t%s\n", name, unit, value, reach);
}

_Noreturn void fail(const char *what, long error)
{
    fprintf(stderr, "bench-txn: %s: %s\n", what, ps_strerror((int)error));
    exit(1);
}

uint64_t counter_cost(void)
{
    uint64_t cost = ~0ull;
    for (int i = 0; i < 100; i++) {
        uint64_t t = counter();
        cost = least(cost, counter() - t);
    }
    return cost;
}

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

uint64_t median(uint64_t *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    return values[n / 2];
}

long self_start(const char *command, const char *number)
{
    const char *argv[] = {"bench-txn", command, number, NULL};
    long pid = start_program("/bin/bench-txn", argv, 0, 1);
    if (pid < 0)
        fail("starting another process", pid);
    return pid;
}

int self_wait(long pid)
{
    int status = 0;
    return kd_call3(KD_PROCESS_WAIT, pid, (long)&status, 0) == pid ? status : -1;
}

void self_end(long pid)
{
    kill((int)pid, SIGTERM);
    self_wait(pid);
}

struct kd_system_info system_now(void)
{
    struct kd_system_info s = {0};
    kd_call3(KD_SYSTEM_INFO, (long)&s, 0, 0);
    return s;
}

struct kd_view_stats stats_now(void)
{
    struct kd_view_stats s = {0};
    kd_call3(KD_VIEW_STATS, (long)&s, 0, 0);
    return s;
}

/* ---- bare transactions ---- */

static void on_abort(long reason)
{
    fail("aborted", reason);
}
static char abort_stack[16384] __attribute__((aligned(16)));

int view_new(void)
{
    long view = kd_call3(KD_VIEW_CREATE, 0, 0, 0);
    if (view < 0 || kd_call3(KD_VIEW_ENTER, view, 0, 0))
        fail("view", view);
    return (int)view;
}

void view_end(int view)
{
    kd_call3(KD_VIEW_ENTER, -1, 0, 0);
    kd_call3(KD_HANDLE_CLOSE, view, 0, 0);
}

struct kd_begin txn_how(unsigned mode)
{
    return (struct kd_begin){.mode = mode, .entry = (uint64_t)on_abort,
                             .stack = (uint64_t)(abort_stack + sizeof abort_stack - 8)};
}

void txn_begin(unsigned mode)
{
    struct kd_begin b = txn_how(mode);
    long e = kd_call3(KD_TXN_BEGIN, (long)&b, 0, 0);
    if (e)
        fail("begin", e);
}

void txn_end(void)
{
    struct kd_commit k = {.port = -1};
    long e = kd_call3(KD_TXN_COMMIT, (long)&k, 0, 0);
    if (e)
        fail("commit", e);
}

void txn_undo(void)
{
    kd_call3(KD_TXN_ABORT, 0, 0, 0);
}

uint64_t touch(volatile char *pages, unsigned count, unsigned step, int write)
{
    uint64_t t = counter();
    for (unsigned i = 0; i < count; i++)
        if (write)
            ++pages[(size_t)i * step * KD_PAGE_BYTES];
        else
            (void)pages[(size_t)i * step * KD_PAGE_BYTES];
    return counter() - t;
}

/* ---- what to do ---- */

static const struct { const char *name; void (*run)(void);
} groups[] = {
    { "begin", group_begin },     { "tree", group_tree },           { "cached", group_cached },
    { "lazy", group_lazy },       { "items", group_items },
    { "cricket", group_cricket }, { "crossover", group_crossover }, { "tables", group_tables },
};

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";
    uint64_t number = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    uint64_t second = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
    for (unsigned i = 0; argc == 2 && i < sizeof groups / sizeof *groups; i++)
        if (strcmp(command, groups[i].name) == 0) {
            groups[i].run();
            return 0;
        }
    if (strcmp(command, "--manager") == 0)
        return manager_main();
    if (strcmp(command, "--writers") == 0)
        return writers_main();
    if (strcmp(command, "--client") == 0)
        return client_main((unsigned)number);
    if (strcmp(command, "--tables") == 0)
        return tables_main((unsigned)number);
    if (strcmp(command, "clients") == 0 && argc == 3 && number) {
        group_clients((unsigned)number);
    } else if (strcmp(command, "replace") == 0 && argc == 4 && number >= 1024 && second >= 1024) {
        group_replace(number, second);
    } else {
        usage(argc, argv, 0,
              "usage: bench-txn begin | tree | cached | items | lazy | cricket | tables | "
              "crossover | clients MS | replace PAGES UPDATES\n"
              "Counts instructions; run it by `make bench ONLY=txn`, which boots with -icount.\n");
    }
    return 0;
}
