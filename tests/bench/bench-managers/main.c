/*
 * main.c - bench-managers: what managers cost that are programs, in counted instructions of all
 * processes and the kernel.
 *
 *   bench-managers [PART...]   these parts of the table below, or all
 *
 * Prints lines `name <tab> unit <tab> value <tab> reach`; scripts/bench runs it by
 * tests/bench/managers.sh, with QEMU's -icount: there the time stamp counter counts instructions.
 *
 * `bench-managers --serve PART NUMBER` is one of a part's other processes.
 */
#include <signal.h>

#include "user/start.h"
#include "bench.h"

static const struct part *const parts[] = {
    &pages_part,
    &rights_part,
    &asked_part,
    &nested_part,
    &replacement_part,
    &windows_part,
    &compressed_part,
    &imported_part,
    &stacked_part,
    &optimistic_part,
    &congeries_part,
    &collected_part,
    &metadata_part,
    &kept_part,
};
enum { PARTS = sizeof parts / sizeof *parts, SYSTEM_YIELD = 24 };

void row(const char *name, const char *unit, double value, const char *reach)
{
    printf("%s\t%s\t%.4g\t%s\n", name, unit, value, reach);
}

_Noreturn void fail(const char *what, long error)
{
    fprintf(stderr, "bench-managers: %s: %s\n", what, ps_strerror((int)error));
    exit(1);
}

uint64_t busy(void)
{
    struct kd_system_info s = {0};
    kd_call3(KD_SYSTEM_INFO, (long)&s, 0, 0);
    return counter() - s.idle_cycles;
}

uint64_t counter_cost(void)
{
    static uint64_t cost = ~0ull;
    for (int i = 0; i < 100; i++) {
        uint64_t t = counter();
        t = counter() - t;
        cost = t < cost ? t : cost;
    }
    return cost;
}

/* ---- other processes ---- */

long server_start(const struct part *part, int number, const char *name, int *port)
{
    char digits[12];
    const char *argv[] = {"bench-managers", "--serve", part->name, digits, NULL};
    snprintf(digits, sizeof digits, "%d", number);
    long pid = start_program("/bin/bench-managers", argv, 0, 1), handle;
    if (pid < 0)
        fail("starting a server", pid);
    while ((handle = kd_call3(KD_NAME_FIND, (long)name, 0, 0)) == -ENOENT)
        kd_call3(SYSTEM_YIELD, 0, 0, 0);
    if (handle < 0)
        fail(name, handle);
    if (port)
        *port = (int)handle;
    else
        kd_call3(KD_HANDLE_CLOSE, handle, 0, 0);
    return pid;
}

void server_end(long pid)
{
    int status;
    kill((int)pid, SIGTERM);
    kd_call3(KD_PROCESS_WAIT, pid, (long)&status, 0);
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
    long error = view < 0 ? view : kd_call3(KD_VIEW_ENTER, view, 0, 0);
    if (error < 0)
        fail("view", error);
    return (int)view;
}

void view_end(int view)
{
    kd_call3(KD_VIEW_ENTER, -1, 0, 0);
    kd_call3(KD_HANDLE_CLOSE, view, 0, 0);
}

void txn_begin(void)
{
    struct kd_begin b = {.entry = (uint64_t)on_abort,
                         .stack = (uint64_t)(abort_stack + sizeof abort_stack - 8)};
    long e = kd_call3(KD_TXN_BEGIN, (long)&b, 0, 0);
    if (e)
        fail("begin", e);
}

void txn_undo(void)
{
    kd_call3(KD_TXN_ABORT, 0, 0, 0);
}

double touch_all(volatile char *pages, unsigned count, int write)
{
    enum { JUMP = 29 };
    uint64_t sum = 0, cost = counter_cost();
    for (unsigned i = 0; i < count; i++) {
        volatile char *at = pages + (size_t)(i * JUMP % count) * KD_PAGE_BYTES;
        uint64_t t = counter();
        if (write)
            *at = 1;
        else
            (void)*at;
        sum += counter() - t - cost;
    }
    return (double)sum / count;
}

/* ---- what to do ---- */

static const struct part *part_named(const char *name)
{
    for (int i = 0; i < PARTS; i++)
        if (strcmp(parts[i]->name, name) == 0)
            return parts[i];
    return NULL;
}

/* Runs a part in a process of its own: some enter views behind the library's back, and the
 * library's next transaction would find its thread in none. */
static void part_apart(const char *name)
{
    const char *argv[] = {"bench-managers", name, NULL};
    int status = -1;
    long pid = start_program("/bin/bench-managers", argv, 0, 1);
    long e = pid < 0 ? pid : kd_call3(KD_PROCESS_WAIT, pid, (long)&status, 0);
    if (e < 0)
        fail(name, e);
    if (status)
        exit(1);
}

int main(int argc, char **argv)
{
    const struct part *served = argc == 4 && strcmp(argv[1], "--serve") == 0 ? part_named(argv[2])
                                                                            : NULL;
    int good = 1;
    if (served && served->serve)
        return served->serve(atoi(argv[3]));
    for (int i = 1; i < argc; i++)
        good &= part_named(argv[i]) != NULL;
    usage(argc, argv, good,
          "usage: bench-managers [pages] [nested] [replacement] [windows] [compressed] [imported]\n"
          "       [stacked] [optimistic] [congeries] [collected] [metadata] [rights]\n"
          "       [asked] [kept]\n"
          "Counts instructions; run it by `make bench ONLY=managers`, which boots with -icount.\n");
    for (int i = 0; i < PARTS && argc == 1; i++)
        part_apart(parts[i]->name);
    for (int i = 1; i < argc; i++)
        part_named(argv[i])->run();
    return 0;
}
