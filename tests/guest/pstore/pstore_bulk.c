/*
 * pstore_bulk.c - loads past the log (ps_bulk).
 *
 * Aim     a load six times as large as the log, and larger than the memory, commits as one
 *         transaction, writes next to nothing to the log, and every byte of it is there, also after
 *         the manager's death; small objects and large ones, into a container that has data
 *         already; one that is given up, refused for the disk is full, or whose process or manager
 *         is killed in the middle leaves nothing, and the space is there again; a load finds what
 *         it has written; others commit meanwhile, no more than the log holds beside a load's old
 *         pages (HL2). "pstore_bulk steps N": the manager ends N times
 *         in a load, at the steps that store.die names (tests/system/store-death.sh).
 * Method  word w of page p is a hash of p, w and the load that wrote it.
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "pstore_test.h"

enum { LARGE = 6400 /* 25 MiB */, MEDIUM = 1500, TUPLES = 5000, DISK = 10000 };
enum { OTHERS = 300 /* commits: half the log is 512 groups of 4 KiB */ };
struct tuple { struct tuple *next; uint64_t number; char text[80]; };
struct root {
    volatile uint64_t *large;
    uint64_t pages, load;
    struct tuple *tuples;
    uint64_t count, others;
};
static ps_container *box, *beside;
static struct root *root;

struct load { uint64_t pages, number; int result; };

static uint64_t word_of(uint64_t page, uint64_t word, uint64_t load)
{
    return (page << 32 | word << 16 | load) * 0x9e3779b97f4a7c15ull;
}
static volatile uint64_t *page_at(uint64_t p)
{
    return (volatile uint64_t *)(((uintptr_t)root->large + 4095) & ~4095ull) + p * 512;
}

static int begin(void *unused)
{
    (void)unused;
    root = ps_root(box);
    return *(volatile uint64_t *)ps_root(beside) + root->load == UINT64_MAX;
}

/* A large object, each page with a few words; it takes the place of the one before. */
static int load_large(void *arg)
{
    const struct load *l = arg;
    if (root->large) ps_free((void *)root->large);
    root->large = ps_alloc(box, (l->pages + 1) * 4096, NULL);
    if (!root->large) return -errno;
    root->pages = l->pages;
    root->load = l->number;
    for (uint64_t p = 0; p < l->pages; p++)
        for (uint64_t w = p % 64; w < 512; w += 64) page_at(p)[w] = word_of(p, w, l->number);
    return l->result;
}

static int load_tuples(void *arg)
{
    const struct load *l = arg;
    for (uint64_t i = 0; i < l->pages; i++) {
        struct tuple *t = ps_new(box, struct tuple, NULL);
        if (!t) return -errno;
        t->number = root->count++;
        snprintf(t->text, sizeof t->text, "tuple %lu of load %lu", (unsigned long)t->number,
                 (unsigned long)l->number);
        t->next = root->tuples;
        root->tuples = t;
    }
    return l->result;
}

static long bad;
static int check_part(void *arg)
{
    uint64_t from = *(uint64_t *)arg;
    bad = 0;
    if (from >= root->pages) return 2;
    for (uint64_t p = from; p < root->pages && p < from + 2048; p++)
        for (uint64_t w = p % 64; w < 512; w += 64)
            bad += page_at(p)[w] != word_of(p, w, root->load);
    return bad != 0;
}
static int check_tuples(void *arg)
{
    uint64_t *count = arg;
    *count = root->count;
    for (struct tuple *t = root->tuples; t; t = t->next) {
        unsigned long number;
        if (t->number != --*count || sscanf(t->text, "tuple %lu", &number) != 1 ||
            number != t->number)
            return 1;
    }
    return *count != 0;
}

static int number_read(void *arg)
{
    *(uint64_t *)arg = root->load;
    return 0;
}
/* The load that is there; -1: it is not as it was written. */
static long loaded(void)
{
    uint64_t count, number = 0;
    int r = 0;
    for (uint64_t p = 0; !r; p += 2048) r = ps_transaction(check_part, &p);
    if (r == 2) r = ps_transaction(check_tuples, &count);
    if (!r) r = ps_transaction(number_read, &number);
    if (r) printf("# loaded: %d, bad %ld\n", r, bad);
    return r ? -1 : (long)number;
}

static long load_number(void)
{
    uint64_t number = 0;
    int r = ps_transaction(number_read, &number);
    return r ? r : (long)number;
}

static int written_then_read(void *arg)
{
    struct load *l = arg;
    int r = load_large(l);
    for (uint64_t p = 0; !r && p < root->pages; p += 2048) r = check_part(&p);
    for (uint64_t p = 0; !r && p < root->pages; p += 3)       /* and changes some of it again */
        page_at(p)[p % 64] = word_of(p, p % 64, l->number);
    return r;
}

static void manager_kill(void)
{
    int pid = store_pid();
    is(kd_call3(KD_PROCESS_KILL, pid, 9, 0), 0, "the manager is killed");
    while (pid && store_pid() == pid) pause_ms(1);
}
static int manager_await(void)
{
    int r = -ENOTCONN;
    for (int i = 0; i < 20000; i++) {
        r = ps_transaction(begin, NULL);
        if (r != -EOWNERDEAD && r != -ENOTCONN) break;
        pause_ms(10);
    }
    return r;
}

static void test_large(void)
{
    struct ps_stats before, after;
    struct load l = {LARGE, 1, 0};
    ps_stats(&before);
    is(ps_bulk(box, load_large, &l), 0, "25 MiB are loaded");
    ps_stats(&after);
    struct kd_system_info info = system_info();
    tap_ok(info.memory_bytes < LARGE * 4096ull, "into a memory of %ld MiB",
           (long)(info.memory_bytes >> 20));
    tap_ok(after.log_bytes - before.log_bytes < 1 << 20, "by %ld KiB of log",
           (long)(after.log_bytes - before.log_bytes) >> 10);
    is(load_number(), 1, "its number is there");
    is(loaded(), 1, "and each page");
    manager_kill();
    is(manager_await(), 0, "it is back");
    is(loaded(), 1, "each page is there still");
}

static void test_small(void)
{
    struct load l = {TUPLES, 2, 0};
    is(ps_transaction(load_tuples, &(struct load){10, 1, 0}), 0, "some tuples, the usual way");
    is(ps_bulk(box, load_tuples, &l), 0, "thousands of them beside those, by a load");
    is(ps_transaction(load_tuples, &(struct load){10, 3, 0}), 0, "and the usual way again");
    is(loaded(), 1, "all are there");
    manager_kill();
    is(manager_await(), 0, "it is back");
    is(loaded(), 1, "all are there still");
    is(ps_bulk(NULL, load_tuples, &l), -EINVAL, "no container");
}

static void test_abort(void)
{
    int r = 0;
    for (int i = 0; i < 2 && !r; i++)       /* together more than the disk */
        r = ps_bulk(box, load_large, &(struct load){LARGE, 4, 17}) != 17;
    is(r, 0, "loads are given up");
    is(load_number(), 1, "nothing of them is there");
    r = ps_bulk(box, load_large, &(struct load){DISK, 5, 0});
    is(r, -ENOSPC, "one is larger than the disk");
    is(loaded(), 1, "nothing of it is there");
    is(ps_bulk(box, load_large, &(struct load){MEDIUM, 6, 0}), 0, "the next one fits");
    is(loaded(), 6, "and is there");
    is(ps_bulk(box, written_then_read, &(struct load){2 * MEDIUM, 7, 0}), 0,
       "one reads what it wrote, and writes some of it again");
    is(loaded(), 7, "it is there");
}

static _Atomic int stop;
static int add_one(void *unused)
{
    (void)unused;
    uint64_t *n = ps_root(beside);
    ++*n;
    return 0;
}
static void *commits(void *arg)
{
    uint64_t *done = arg;
    while (!stop && *done < OTHERS && ps_transaction(add_one, NULL) == 0) ++*done;
    return NULL;
}

static void test_deaths(const char *self)
{
    pthread_t thread;
    uint64_t done = 0, spilled = system_info().spills;
    stop = 0;
    int e = pthread_create(&thread, NULL, commits, &done);
    is(ps_bulk(box, load_large, &(struct load){2 * MEDIUM, 8, 0}), 0, "a load while others commit");
    stop = 1;
    if (!e) pthread_join(thread, NULL);
    tap_ok(done > 0, "which they do: %ld", (long)done);
    spilled = system_info().spills;
    int pid = child_start(self, "child", "");
    for (int i = 0; i < 30000 && system_info().spills < spilled + 500; i++) pause_ms(1);
    kd_call3(KD_PROCESS_KILL, pid, 9, 0);
    child_wait(pid);
    is(loaded(), 8, "a process is killed in a load: nothing of it is there");
    is(ps_bulk(box, load_large, &(struct load){MEDIUM, 9, 0}), 0, "the next load commits");
    is(loaded(), 9, "and is there");
}

static int child(void)
{
    box = ps_open("load", PS_WRITE, NULL);
    beside = ps_open("beside", PS_WRITE, NULL);
    if (!box || !beside || ps_transaction(begin, NULL)) return 1;
    return ps_bulk(box, load_large, &(struct load){LARGE, 20, 17});
}

static int steps(int deaths)
{
    tap_plan(1 + 3 * deaths + 5);
    is(ps_transaction(begin, NULL), 0, "a root");
    for (int i = 0; i < deaths; i++) {
        is(ps_bulk(box, load_large, &(struct load){LARGE, 2, 0}), -EOWNERDEAD,
           "the manager ends in a load");
        is(manager_await(), 0, "it is back");
        is(load_number(), 0, "nothing is left");
    }
    is(ps_bulk(box, load_large, &(struct load){LARGE, 3, 0}), 0, "the next one commits");
    manager_kill();
    is(manager_await(), 0, "recovered");
    is(loaded(), 3, "it is there");
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck");
    return tap_end();
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "child")) return child();
    box = ps_open("load", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    beside = ps_open("beside", PS_CREATE | PS_WRITE, PS_LAYOUT(uint64_t, 1));
    if (!box || !beside) {
        printf("Bail out! no container: %s\n", ps_strerror(errno));
        return 1;
    }
    if (argc > 2) return steps(atoi(argv[2]));
    tap_plan(1 + 8 + 8 + 8 + 5 + 1);
    is(ps_transaction(begin, NULL), 0, "a root");
    test_large();
    test_small();
    test_abort();
    test_deaths(argv[0]);
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck");
    return tap_end();
}
