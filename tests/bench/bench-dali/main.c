/*
 * main.c - bench-dali: the benchmark of the Dali paper, by instructions and in its own form.
 *
 *   bench-dali instructions    for -icount and one CPU
 *   bench-dali parts           where an update's go: parts.c
 *   bench-dali indexes         the same, of indexes that two processes change
 *   bench-dali protection      likewise
 *   bench-dali codewords       the same, of updates with PS_PROTECT_CODEWORDS
 *   bench-dali paper MS        Tables 1 and 2, MS milliseconds for each figure; needs 2 CPUs
 *   bench-dali latency MS      look-ups beside updates
 *   bench-dali layer           brackets, relations; for -icount and one CPU
 *   bench-dali sums            sums in headers beside codewords; with scripts/run --wild, too
 *
 * Figures of LMDB and SQLite are of the same tuples on Linux in the same QEMU. Instructions are
 * those of all processes and the kernel, the manager's and the disk's share in them.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum { LOCKS = 100, ROUNDS = 21, COMMITS = 100, FEW = 5, OWN = 64 };

void row(const char *name, const char *unit, double value, const char *reach)
{
    printf("%s\t%s\t%.4g\t%s\n", name, unit, value, reach);
    fflush(stdout);
}

_Noreturn void fail(const char *what, long error)
{
    fprintf(stderr, "bench-dali: %s: %s\n", what, ps_strerror((int)error));
    exit(1);
}

struct kd_system_info system_now(void)
{
    struct kd_system_info s = {0};
    kd_call3(KD_SYSTEM_INFO, (long)&s, 0, 0);
    return s;
}

uint64_t busy(void)
{
    uint64_t now = counter();
    return now - system_now().idle_cycles;
}

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

double median_cost(int (*fn)(void *), void *arg, int rounds, int wanted)
{
    uint64_t each[COMMITS], none = busy();
    none = busy() - none;
    for (int i = 0; i < rounds; i++) {
        uint64_t t = busy();
        int e = ps_transaction(fn, arg);
        each[i] = busy() - t - none;
        if (e != wanted)
            fail("a transaction", e);
    }
    qsort(each, (size_t)rounds, sizeof *each, by_value);
    return (double)each[rounds / 2];
}

/* ---- look-ups, updates, locks ---- */

static int nothing(void *unused)
{
    (void)unused;
    return 0;
}

/* The mean of so many look-ups of tuples all over the table. */
static double lookups(unsigned each)
{
    struct work w = {.count = each};
    uint64_t t = busy();
    for (unsigned i = 0; i < TUPLES / 4; i += each) {
        int e = ps_transaction(operations, &w);
        if (e)
            fail("a look-up", e);
    }
    return (double)(busy() - t) / (TUPLES / 4);
}

struct locks { unsigned count; int mode; };
static int take(void *arg)
{
    const struct locks *l = arg;
    for (unsigned i = 0; i < l->count; i++)
        if (!ps_access(tuple_of(i * 1000003ull), sizeof(struct tuple), l->mode))
            return -errno;
    return 1;
}
static int take_none(void *arg)
{
    const struct locks *l = arg;
    for (unsigned i = 0; i < l->count; i++)
        if (!tuple_of(i * 1000003ull))
            return -ENOENT;
    return 1;
}

/* A lock and its share of the end, without the search for the tuple. */
static double lock_cost(int mode)
{
    struct locks few = {LOCKS, mode}, more = {2 * LOCKS, mode};
    double with = median_cost(take, &more, ROUNDS, 1) - median_cost(take, &few, ROUNDS, 1);
    double without = median_cost(take_none, &more, ROUNDS, 1) -
                     median_cost(take_none, &few, ROUNDS, 1);
    return (with - without) / LOCKS;
}

double updates(unsigned each)
{
    struct work w = {each, 1};
    tuples_settle();
    return median_cost(operations, &w, COMMITS, 0) / each;
}

/* Pages that were not logged since a checkpoint go to the log whole. */
static double updates_whole(unsigned each)
{
    struct work w = {each, 1};
    int e = ps_checkpoint();
    if (e)
        fail("a checkpoint", e);
    return median_cost(operations, &w, FEW, 0) / each;
}

/* Of tuples that lie side by side. */
static int update_row_of(void *arg)
{
    unsigned count = *(unsigned *)arg;
    uint64_t key = key_draw() % ((TUPLES - 100) * 1000003ull) / 1000003 * 1000003;
    for (unsigned i = 0; i < count; i++) {
        struct tuple *t = ps_write(tuple_of(key + i * 1000003ull));
        if (!t)
            return -errno;
        t->value++;
    }
    return 0;
}

/* ---- two processes, different items of the same pages ---- */

struct own { unsigned who, round; };
static int update_own(void *arg)
{
    struct own *o = arg;
    for (unsigned i = 0; i < 10; i++) {
        struct tuple *t = ps_write(tuple_of(((o->round * 10 + i) % OWN * 2 + o->who) * 1000003ull));
        if (!t)
            return -errno;
        t->value++;
    }
    return 0;
}

/* Waits for locks; or it fails. */
static uint64_t owns_update(unsigned who)
{
    struct kd_view_stats s = {0}, before = {0};
    kd_call3(KD_VIEW_STATS, (long)&before, 0, 0);
    for (struct own o = {who, 0}; o.round < COMMITS; o.round++) {
        int e = ps_transaction(update_own, &o);
        if (e)
            fail("an update", e);
    }
    kd_call3(KD_VIEW_STATS, (long)&s, 0, 0);
    return s.lock_waits - before.lock_waits;
}

static void two_processes(void)
{
    int go[2], ready[2], status = 0;
    char byte = 0;
    tuples_settle();
    owns_update(0);
    uint64_t t = busy();
    uint64_t waits = owns_update(0);
    double alone = (double)(busy() - t) / (10 * COMMITS);
    if (pipe(go) || pipe(ready))
        fail("a pipe", errno);
    long pid = fork();
    if (pid == 0) {
        owns_update(1);
        if (write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1)
            _exit(255);
        uint64_t waited = owns_update(1);
        _exit(waited < 254 ? (int)waited : 254);
    }
    if (pid < 0 || read(ready[0], &byte, 1) != 1)
        fail("another process", EIO);
    t = busy();
    if (write(go[1], &byte, 1) != 1)
        fail("another process", EIO);
    waits += owns_update(0);
    if (wait(&status) != pid || !WIFEXITED(status) || WEXITSTATUS(status) == 255)
        fail("another process", EIO);
    waits += (unsigned)WEXITSTATUS(status);
    double both = (double)(busy() - t) / (20 * COMMITS);
    row("an update, 10 in a transaction, one process", "instructions", alone, "-");
    row("the same, two processes, other tuples of the same pages, of one alone", "times",
        both / alone, "1.1");
    row("their waits for each other", "waits", (double)waits, "0");
}

/* ---- one changed item: item mode and page mode ---- */

static int change_item(void *unused)
{
    (void)unused;
    struct tuple *t = ps_write(tuple_of(0));
    if (!t)
        return -errno;
    t->value++;
    return 0;
}
static int change(void *unused)
{
    (void)unused;
    tuple_of(0)->value++;
    return 0;
}

static void instructions(void)
{
    uint64_t t = busy();
    tuples_load(TUPLES, 0);
    row("Table 3, in one transaction (paper: 23 s; LMDB 143.5, SQLite 440.7)",
        "million instructions", (double)(busy() - t) / 1e6, "-");
    tuples_touch();
    tuples_settle();
    (void)median_cost(change, NULL, 3, 0);
    double pages = median_cost(change, NULL, COMMITS, 0);
    t = busy();
    tuples_load(1000, 1);
    row("Table 3, 1,000 in a transaction (paper: 320 s)", "million instructions",
        (double)(busy() - t) / 1e6, "-");
    tuples_touch();
    (void)lookups(1);
    row("an empty ps_transaction", "instructions", median_cost(nothing, NULL, ROUNDS, 0), "600");
    row("a look-up, 1 in a transaction (LMDB 1,595; SQLite 9,271)", "instructions", lookups(1),
        "900");
    row("a look-up, 25 in a transaction (LMDB 1,430; SQLite 3,580)", "instructions", lookups(25),
        "200");
    row("a look-up, 100 in a transaction (LMDB 1,423; SQLite 3,358)", "instructions", lookups(100),
        "150");
    row("a lock to read, and unlock", "instructions", lock_cost(PS_S), "100");
    row("a lock to write, declared, and unlock", "instructions", lock_cost(PS_X), "100");
    row("an update, 1 in a transaction, flushed (LMDB 108,161; SQLite 67,724)", "instructions",
        updates(1), "25000");
    row("an update, 10 in a transaction, flushed", "instructions", updates(10), "5000");
    row("an update, 100 in a transaction, flushed (LMDB 15,514; SQLite 22,509)", "instructions",
        updates(100), "2500");
    row("an update right behind a checkpoint, 10 in a transaction", "instructions",
        updates_whole(10), "-");
    unsigned ten = 10, hundred = 100;
    tuples_settle();
    row("the same of tuples side by side, 10", "instructions",
        median_cost(update_row_of, &ten, COMMITS, 0) / ten, "-");
    row("the same of tuples side by side, 100", "instructions",
        median_cost(update_row_of, &hundred, COMMITS, 0) / hundred, "-");
    two_processes();
    tuples_settle();
    (void)median_cost(change_item, NULL, 3, 0);
    row("commit of one changed tuple, item mode", "instructions",
        median_cost(change_item, NULL, COMMITS, 0), "-");
    row("the same, of page mode", "times", median_cost(change_item, NULL, COMMITS, 0) / pages,
        "1.15");
}

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";
    unsigned ms = argc == 3 ? (unsigned)atoi(argv[2]) : 0;
    int counts = argc == 2 && strcmp(command, "instructions") == 0;
    int indexes = argc == 2 && strcmp(command, "indexes") == 0;
    int protects = argc == 2 && strcmp(command, "protection") == 0;
    int codewords = argc == 2 && strcmp(command, "codewords") == 0;
    int serves = argc == 2 && strcmp(command, "--server") == 0;
    int layer = argc == 2 && strcmp(command, "layer") == 0;
    int parts = argc == 2 && strcmp(command, "parts") == 0;
    int sums = argc == 2 && strcmp(command, "sums") == 0;
    int paper = ms && strcmp(command, "paper") == 0, late = ms && strcmp(command, "latency") == 0;
    usage(argc, argv,
          counts || indexes || codewords || layer || sums || protects || serves || paper || late ||
              parts,
          "usage: bench-dali instructions | parts | indexes | codewords | layer | sums | "
          "protection | paper MS | latency MS\n"
          "The benchmark of the Dali paper: run it by `make bench ONLY=dali`.\n");
    if (serves)
        return server_main();
    if (counts || indexes || layer || parts) {
        void (*group)(void) = layer ? group_layer : parts ? group_parts : group_indexes;
        (counts ? instructions : group)();
        return 0;
    }
    if (codewords || sums) {
        (sums ? group_sums : group_codewords)();
        return 0;
    }
    tuples_load(1000, 1);
    tuples_touch();
    if (protects)
        group_protection();
    else if (paper)
        group_paper(ms);
    else
        group_latency(ms);
    return 0;
}
