/*
 * bench-loads.c - what goes into the log, and what past it: loads, and commits beside a checkpoint.
 *
 *     bench-loads load     100,000 tuples, as inserts of 1,000 in a transaction and as one load
 *                         (ps_bulk), a checkpoint behind each: instructions (-icount), bytes
 *     bench-loads paper   the same in seconds by the clock, and a load by a server: Table 3
 *     bench-loads beside  commits of one page alone, and while a checkpoint takes DIRTY pages
 *                         home: by chunks, mixed ones, and (whole, with store.chunk_pages=256) all
 *                         of the store in one go
 *
 * The tuples are those of bench-dali: a key and a value of 8 bytes each, and a hash index of the
 * keys, an array of twice as many places, in which the next one is tried where one is taken.
 */
#include <errno.h>
#include <kit.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "katydid/call.h"
#include "pstore.h"
#include "tests/bench/measure.h"
#include "user/start.h"

enum { TUPLES = 100000, PART = 1000, PLACES = 262144, PIECES = 3 };
struct tuple { uint64_t key, value; };
struct root { struct tuple *tuple; uint32_t *index; };
static ps_container *c;
static struct root *root;

static void row(const char *name, const char *unit, double value, const char *reach)
{
    printf("%s\t%s\t%.4g\t%s\n", name, unit, value, reach);
}

_Noreturn static void fail(const char *what, long error)
{
    fprintf(stderr, "bench-loads: %s: %s\n", what, ps_strerror((int)-error));
    exit(1);
}

static void good(const char *what, int error)
{
    if (error)
        fail(what, error);
}

static struct kd_system_info system_now(void)
{
    struct kd_system_info s = {0};
    kd_call3(KD_SYSTEM_INFO, (long)&s, 0, 0);
    return s;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- the tuples ---- */

static int make(void *unused)
{
    (void)unused;
    root = ps_root(c);
    root->tuple = ps_alloc(c, TUPLES * sizeof *root->tuple, NULL);
    root->index = ps_alloc(c, PLACES * sizeof *root->index, NULL);
    return root->tuple && root->index ? 0 : -errno;
}

static inline uint64_t place_of(uint64_t key) { return key * 0x9e3779b97f4a7c15ull >> 46; }
_Static_assert(PLACES == 1 << (64 - 46), "the hash is a place");

static void insert(struct tuple *tuples, uint32_t *places, uint64_t i)
{
    uint64_t at = place_of(i * 1000003);
    while (places[at])
        at = (at + 1) % PLACES;
    tuples[i] = (struct tuple){.key = i * 1000003, .value = i};
    places[at] = (uint32_t)i + 1;
}

static int insert_part(void *first)
{
    for (uint64_t i = *(uint64_t *)first; i < *(uint64_t *)first + PART; i++)
        insert(root->tuple, root->index, i);
    return 0;
}

static int insert_all(void *unused)
{
    int error = make(unused);
    for (uint64_t i = 0; !error && i < TUPLES; i += PART)
        error = insert_part(&i);
    return error;
}

static int check(void *unused)
{
    (void)unused;
    for (uint64_t i = 0; i < TUPLES; i++) {
        uint64_t at = place_of(i * 1000003);
        while (root->index[at] && root->index[at] != i + 1)
            at = (at + 1) % PLACES;
        if (!root->index[at] || root->tuple[i].value != i)
            return -EUCLEAN;
    }
    return 0;
}

static void container_new(void)
{
    if (c) {
        ps_close(c);
        good("deleting", ps_delete("bench-loads"));
    }
    good("a checkpoint", ps_checkpoint());
    c = ps_open("bench-loads", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    if (!c)
        fail("the container", -errno);
}

static void load_normal(void)
{
    good("the tables", ps_transaction(make, NULL));
    for (uint64_t i = 0; i < TUPLES; i += PART)
        good("an insert", ps_transaction(insert_part, &i));
}

static void load_bulk(void)
{
    good("the load", ps_bulk(c, insert_all, NULL));
}

struct cost { double instructions, bytes, ns; };

static struct cost cost_of(void (*load)(void))
{
    container_new();
    struct kd_system_info before = system_now(), after;
    uint64_t count = counter(), ns = now_ns();
    load();
    good("a checkpoint", ps_checkpoint());
    count = counter() - count;
    ns = now_ns() - ns;
    after = system_now();
    good("the tuples", ps_transaction(check, NULL));
    return (struct cost){(double)(count - (after.idle_cycles - before.idle_cycles)),
                         (double)(after.block_write_bytes - before.block_write_bytes), (double)ns};
}

static void load_whole(void)
{
    good("the form", ps_encoder(c, PS_ENCODE_FULL));
    load_normal();
}

static void group_load(void)
{
    struct cost normal = cost_of(load_normal), bulk = cost_of(load_bulk);
    struct cost whole = cost_of(load_whole);
    row("100,000 tuples, 1,000 in a transaction", "million instructions",
        normal.instructions / 1e6, "-");
    row("100,000 tuples, one load past the log", "million instructions", bulk.instructions / 1e6,
        "-");
    row("the load, times fewer", "times", normal.instructions / bulk.instructions, ">=8");
    row("100,000 tuples, 1,000 in a transaction, written", "KiB", normal.bytes / 1024, "-");
    row("100,000 tuples, one load past the log, written", "KiB", bulk.bytes / 1024, "-");
    row("the load, times fewer bytes", "times", normal.bytes / bulk.bytes, ">=5");
    double pages = (TUPLES * sizeof *root->tuple + 4095) / 4096 +
                   PLACES * sizeof *root->index / 4096;
    row("the load, bytes written for a byte of its pages", "bytes", bulk.bytes / 4096 / pages,
        "1.05");
    row("the load, times fewer bytes if nothing but its pages were written", "times",
        normal.bytes / 4096 / pages, "-");
    row("the load, times fewer bytes than inserts in whole pages", "times",
        whole.bytes / bulk.bytes,
        ">=5");
}

/* ---- Table 3 of the paper: a server hands out places of tuples; the client stores them ---- */

struct asked { uint64_t place; };
static ps_area *server;

static int serve(void *next, struct ps_request *r)
{
    struct asked *a = r->message;
    a->place = (*(uint64_t *)next)++;
    return 0;
}

_Noreturn static void server_main(void)
{
    static uint64_t next;
    struct ps_task task = {.serve = serve, .arg = &next};
    if (!ps_area_make("bench-loads", 4096, &task))
        fail("the server", -errno);
    for (;;)
        pause();
}

static int insert_by_server(void *unused)
{
    int error = make(unused);
    for (uint64_t i = 0; !error && i < TUPLES; i++) {
        struct asked a = {0};
        error = ps_ask(server, &a, sizeof a, -1);
        insert(root->tuple, root->index, a.place % TUPLES);
    }
    return error;
}

static void load_by_server(void)
{
    const char *argv[] = {"bench-loads", "server", NULL};
    long pid = start_program("/bin/bench-loads", argv, 0, 1);
    for (int i = 0; pid > 0 && i < 1000 && !(server = ps_area_open("bench-loads")); i++)
        usleep(10000);
    if (!server)
        fail("the server", -errno);
    good("the load", ps_bulk(c, insert_by_server, NULL));
    int status;
    ps_area_close(server);
    kill((int)pid, SIGTERM);
    kd_call3(KD_PROCESS_WAIT, pid, (long)&status, 0);
}

/* The least of some: this shares its machine. */
static double seconds_of(void (*load)(void))
{
    double least = 0;
    for (int i = 0; i < PIECES; i++) {
        double ns = cost_of(load).ns;
        least = i == 0 || ns < least ? ns : least;
    }
    return least / 1e9;
}

static void group_paper(void)
{
    static const struct { const char *name; void (*load)(void); double paper; } table[] = {
        {"Table 3, loading 100,000 tuples: normal", load_normal, 320},
        {"Table 3: bulk", load_bulk, 23},
        {"Table 3: bulk by a server", load_by_server, 540}};
    double normal = 0;
    for (unsigned i = 0; i < 3; i++) {
        double s = seconds_of(table[i].load);
        char text[120];
        normal = i ? normal : s;
        row(table[i].name, "seconds", s, "-");
        snprintf(text, sizeof text, "%s, of normal (paper %.0f s, %.2f)", table[i].name,
                 table[i].paper, table[i].paper / table[0].paper);
        if (i)
            row(text, "times", s / normal, "-");
    }
}

/* ---- commits beside a checkpoint ---- */

enum { DIRTY = 1500, ROUNDS = 9, COMMITS_MAX = 4096 };
static ps_container *beside;
static volatile uint64_t *pages;
static volatile int over;

static int pages_find(void *unused)
{
    (void)unused;
    uint64_t **at = ps_root(c);
    if (!*at)
        *at = ps_alloc(c, (DIRTY + 1) * 4096ul, NULL);
    pages = (volatile uint64_t *)(((uintptr_t)*at + 4095) & ~4095ull);
    return *at ? 0 : -errno;
}

static int pages_dirty(void *from)
{
    for (uint64_t p = *(uint64_t *)from; p < *(uint64_t *)from + 500; p++)
        for (uint64_t w = 0; w < 512; w += 32)
            pages[p * 512 + w]++;
    return 0;
}

static int count_one(void *unused)
{
    (void)unused;
    ++*(uint64_t *)ps_root(beside);
    return 0;
}

static void *checkpoint(void *unused)
{
    (void)unused;
    good("a checkpoint", ps_checkpoint());
    over = 1;
    return NULL;
}

struct latency { double mean, most; };

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Commits until the checkpoint is over, or so many. */
static struct latency commits_time(uint64_t most)
{
    struct latency l = {0, 0};
    uint64_t i = 0;
    for (; i < most && !over; i++) {
        uint64_t ns = now_ns();
        good("a commit", ps_transaction(count_one, NULL));
        ns = now_ns() - ns;
        l.mean += (double)ns;
        l.most = (double)ns > l.most ? (double)ns : l.most;
    }
    l.mean /= (double)(i ? i : 1);
    return l;
}

static double median(double v[ROUNDS])
{
    qsort(v, ROUNDS, sizeof *v, by_value);
    return v[ROUNDS / 2];
}

/* Each round alone, then beside a checkpoint: this shares its machine, so medians of rounds. */
static void beside_rows(const char *how, const char *reach, int alone_too)
{
    double alone[ROUNDS], alone_most[ROUNDS], times[ROUNDS], most[ROUNDS];
    char name[120];
    pthread_t thread;
    for (int i = 0; i < ROUNDS; i++) {
        good("a checkpoint", ps_checkpoint());
        over = 0;
        struct latency l = commits_time(150);
        alone[i] = l.mean;
        alone_most[i] = l.most;
        for (uint64_t p = 0; p < DIRTY; p += 500)       /* less than what begins one by itself */
            good("changes", ps_transaction(pages_dirty, &p));
        if (pthread_create(&thread, NULL, checkpoint, NULL))
            fail("a thread", -ENOMEM);
        l = commits_time(COMMITS_MAX);
        pthread_join(thread, NULL);
        times[i] = l.mean / alone[i];
        most[i] = l.most;
    }
    if (alone_too) {
        row("a commit of one page, alone", "us", median(alone) / 1e3, "-");
        row("the longest of 150 such commits", "us", median(alone_most) / 1e3, "-");
    }
    snprintf(name, sizeof name, "a commit beside a checkpoint of 1,500 pages, %s, of one alone",
             how);
    row(name, "times", median(times), reach);
    snprintf(name, sizeof name, "the longest commit beside a checkpoint, %s", how);
    row(name, "us", median(most) / 1e3, "-");
}

/* whole: the manager was told to let nobody go first (store.chunk_pages=256). */
static void group_beside(int whole)
{
    c = ps_open("bench-loads-pages", PS_CREATE | PS_WRITE, PS_LAYOUT(uint64_t *, 1));
    beside = ps_open("bench-loads-beside", PS_CREATE | PS_WRITE, PS_LAYOUT(uint64_t, 1));
    if (!c || !beside)
        fail("the containers", -errno);
    good("the pages", ps_transaction(pages_find, NULL));
    if (whole) {
        beside_rows("the store as a whole", "-", 0);
        return;
    }
    beside_rows("by chunk", "1.3", 1);
    good("the chunk", ps_policy(c, PS_CHUNK, 64));
    beside_rows("by chunks of 64 pages", "-", 0);
}

int main(int argc, char **argv)
{
    usage(argc, argv, argc == 2 || (argc == 3 && !strcmp(argv[2], "whole")),
          "usage: bench-loads load|paper|beside [whole]\n");
    if (!strcmp(argv[1], "server"))
        server_main();
    if (!strcmp(argv[1], "load"))
        group_load();
    else if (!strcmp(argv[1], "paper"))
        group_paper();
    else if (!strcmp(argv[1], "beside"))
        group_beside(argc == 3);
    else
        return 2;
    return 0;
}
