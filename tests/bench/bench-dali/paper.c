/*
 * paper.c - Tables 1 and 2 of the Dali paper in its own form: operations a second, and the paper's
 * figures beside them; then latencies. Times of a shared host: the median of PIECES pieces.
 *
 * Where the paper begins and commits transactions in a server, a server task here is asked at each
 * begin and commit, and keeps the table of transactions; reads and locks are the client's.
 */
#include <kit.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "user/start.h"

enum { PIECES = 5, PER_FLUSH = 100, TABLE = 64 };

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* ---- a server of transactions ---- */

struct asked { uint64_t ends, number; };                    /* ends: 0 begins one */
static uint64_t running[TABLE], last_number;

static int serve(void *unused, struct ps_request *r)
{
    (void)unused;
    struct asked *a = r->message;
    for (int i = 0; i < TABLE; i++)
        if (running[i] == (a->ends ? a->number : 0)) {
            running[i] = a->ends ? 0 : ++last_number;
            a->number = a->ends ? a->number : last_number;
            return 0;
        }
    return -ENOENT;
}

int server_main(void)
{
    struct ps_task task = {.serve = serve};
    if (!ps_area_make("bench-dali", 4096, &task))
        fail("the server", errno);
    for (;;)
        pause();
}

static ps_area *server;
static long server_pid;

static void server_begin(void)
{
    const char *argv[] = {"bench-dali", "--server", NULL};
    server_pid = start_program("/bin/bench-dali", argv, 0, 1);
    for (int i = 0; server_pid > 0 && i < 1000 && !(server = ps_area_open("bench-dali")); i++)
        usleep(10000);
    if (!server)
        fail("the server", errno);
}

static void server_end(void)
{
    int status;
    ps_area_close(server);
    kill((int)server_pid, SIGTERM);
    kd_call3(KD_PROCESS_WAIT, server_pid, (long)&status, 0);
}

/* ---- rates ---- */

struct load { unsigned count, one_in; int remote; };
static uint64_t unflushed;

static void ask(struct asked *a)
{
    int e = ps_ask(server, a, sizeof *a, -1);
    if (e)
        fail("asking the server", e);
}

/* Updates are flushed PER_FLUSH at a time: the commit that makes so many up is a strict one. */
static void one(const struct load *l)
{
    struct work w = {l->count, l->one_in};
    struct asked a = {0};
    unflushed += l->one_in ? l->count / l->one_in : 0;
    int lazy = unflushed < PER_FLUSH;
    if (!lazy)
        unflushed = 0;
    if (l->remote)
        ask(&a);
    int e = lazy && l->one_in ? ps_transaction_opt(operations, &w, &(struct ps_options){.lazy = 1})
                              : ps_transaction(operations, &w);
    if (e)
        fail("a transaction", e);
    a.ends = 1;
    if (l->remote)
        ask(&a);
}

/* One in ten transactions of one operation is an update. */
static void one_of_ten(const struct load *l)
{
    static unsigned turn;
    one(&(struct load){1, ++turn % l->one_in == 0, 0});
}

static double rate_of(const struct load *l, unsigned ms)
{
    void (*run)(const struct load *) = l->count == 1 && l->one_in > 1 ? one_of_ten : one;
    double rates[PIECES];
    run(l);
    for (int i = 0; i < PIECES; i++) {
        uint64_t begin = now_ns(), now = begin, done = 0;
        while (now - begin < ms * 1000000ull / PIECES) {
            for (unsigned k = 0; k < PER_FLUSH; k += l->count)
                run(l);
            done += PER_FLUSH;
            now = now_ns();
        }
        rates[i] = (double)done * 1e9 / (double)(now - begin);
    }
    qsort(rates, PIECES, sizeof *rates, by_value);
    return rates[PIECES / 2];
}

/* A child's rate comes by a pipe. */
static double two_rate(const struct load *l, unsigned ms)
{
    int ends[2], status;
    double mine, other = 0;
    if (pipe(ends))
        fail("a pipe", errno);
    long pid = fork();
    if (pid == 0) {
        tuples_open();
        mine = rate_of(l, ms);
        _exit(write(ends[1], &mine, sizeof mine) != sizeof mine);
    }
    mine = rate_of(l, ms);
    if (pid < 0 || read(ends[0], &other, sizeof other) != sizeof other || wait(&status) != pid)
        fail("another process", EIO);
    return (mine + other) / 2;
}

static double shown(const char *what, const struct load *l, unsigned ms, double paper, double lmdb,
                    double sqlite)
{
    char name[200];
    double rate = rate_of(l, ms);
    int n = snprintf(name, sizeof name, "%s (paper: %.0f", what, paper);
    if (lmdb > 0)
        n += snprintf(name + n, sizeof name - (size_t)n, "; LMDB %.0f, SQLite %.0f", lmdb, sqlite);
    snprintf(name + n, sizeof name - (size_t)n, ")");
    row(name, "a second", rate, "-");
    if (lmdb > 0) {
        snprintf(name, sizeof name, "%s, of LMDB's", what);
        row(name, "times", rate / lmdb, "-");
        snprintf(name, sizeof name, "%s, of SQLite's", what);
        row(name, "times", rate / sqlite, "-");
    }
    return rate;
}

void group_paper(unsigned ms)
{
    double one_each = shown("Table 1, 1 look-up in a transaction", &(struct load){1, 0, 0}, ms,
                            26110, 718000, 89100);
    shown("Table 1, 25 look-ups in a transaction", &(struct load){25, 0, 0}, ms, 116000, 882000,
          248000);
    double local = shown("Table 1, 100 look-ups in a transaction", &(struct load){100, 0, 0}, ms,
                         130000, 861000, 270000);
    server_begin();
    double remote = shown("Table 1, the same, begin and commit in a server",
                          &(struct load){100, 0, 1}, ms, 24100, 0, 0);
    server_end();
    row("Table 1, 1 of 100 in a transaction (paper: 0.20)", "times", one_each / local, "-");
    row("Table 1, in a server of local (paper: 0.19)", "times", remote / local, "-");
    double two = two_rate(&(struct load){100, 0, 0}, ms);
    row("Two CPUs, 100 look-ups in a transaction, each (paper: 98000)", "a second", two, "-");
    row("Two CPUs, each of one alone (paper: 0.75)", "times", two / local, "-");
    double all = shown("Table 2, updates, 1 in a transaction, a flush for 100",
                       &(struct load){1, 1, 0}, ms, 720, 18700, 17100);
    double hundred = shown("Table 2, updates, 100 in a transaction", &(struct load){100, 1, 0}, ms,
                           1900, 25500, 32800);
    double tenth = shown("Table 2, 10 % updates, 1 in a transaction", &(struct load){1, 10, 0}, ms,
                         7140, 0, 0);
    double tenths = shown("Table 2, 10 % updates, 100 in a transaction",
                          &(struct load){100, 10, 0}, ms, 18180, 0, 0);
    row("Table 2, 100 of 1 in a transaction (paper: 2.64)", "times", hundred / all, "-");
    row("Table 2, 10 % of all updates, 1 in a transaction (paper: 9.92)", "times", tenth / all,
        "-");
    row("Table 2, 10 % of all updates, 100 in a transaction (paper: 9.57)", "times",
        tenths / hundred, "-");
}

/* ---- latencies ---- */

enum { SAMPLES = 200000 };
static double sample[SAMPLES];

static void latency_rows(const char *what, unsigned one_in, unsigned ms, const char *reach)
{
    struct work w = {1, one_in};
    uint64_t begin = now_ns(), now = begin, from;
    size_t n = 0;
    char name[120];
    for (; n < SAMPLES && now - begin < ms * 1000000ull; n++) {
        from = now_ns();
        int e = ps_transaction(operations, &w);
        if (e)
            fail("a transaction", e);
        now = now_ns();
        sample[n] = (double)(now - from) / 1e6;
    }
    qsort(sample, n, sizeof *sample, by_value);
    snprintf(name, sizeof name, "%s: a second", what);
    row(name, "a second", (double)n * 1e9 / (double)(now - begin), one_in ? "-" : ">=2000");
    const struct { const char *what; size_t at; } rank[] = {
        {"p50", n / 2}, {"p99", n * 99 / 100}, {"longest", n - 1}};
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s: %s", what, rank[i].what);
        row(name, "ms", sample[rank[i].at], reach);
    }
}

/* The other one works until it is killed. */
static void beside(const char *what, unsigned mine, unsigned others, unsigned ms, const char *reach)
{
    int status;
    long pid = fork();
    if (pid == 0) {
        struct work w = {1, others};
        tuples_open();
        while (ps_transaction(operations, &w) == 0) {}
        _exit(1);
    }
    latency_rows(what, mine, ms, reach);
    kill((int)pid, SIGKILL);
    wait(&status);
}

void group_latency(unsigned ms)
{
    beside("a look-up beside updates", 0, 1, ms, "50");
    beside("an update, flushed, beside updates", 1, 1, ms, "-");
}
