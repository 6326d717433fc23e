/*
 * bench-disks.c - uDatabase's experiment of section 6.1.2: range queries over one to four disks.
 *
 *   bench-disks build PARTS RULE   100,000 records come in random order; the tree is spread, by
 *                                  RULE 0, round robin, or 1, Larson and Seeger
 *                                  RULE 2: round robin over containers of one store, on all disks
 *   bench-disks run PARTS QUERIES  the queries, while the disks take their time, and 50 commits, by
 *                                  what the kernel counts of all disks; prints a line
 *
 * Records are as those of tests/bench/udatabase: 27 bytes on average with their key, in nodes of 8
 * KiB. A query begins at a random record and has 1 to 3,999 records, 2,000 on average; the program
 * does nothing with them but the sum that shows that all came. Part i lies on store i + 1; or, of
 * one store (ONE=1 in the environment when it runs), all parts lie in it.
 */
#include <errno.h>
#include <pstore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <structures/parallel.h>
#include <time.h>

#include "katydid/call.h"
#include "tests/bench/measure.h"

enum { RECORDS = 100000, LENGTH_MAX = 3999, UNIT = 8192, SAME = 5, EXACT = 200,
       COMMITS = 50, MEMORY_PAGES = 64 };
struct text { char bytes[1]; };
PS_STRING_TREE_BYTES_OF(records, struct text, UNIT);
PS_PARALLEL_TREE(records);

static struct ps_segment segment = {.name = "records"};
static struct records_head head;
static struct ps_builder builder;
static struct records built = {.head = &head};

static uint64_t random_next(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t x = *state;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t random_below(uint64_t *state, uint64_t below)
{
    return (uint64_t)((unsigned __int128)random_next(state) * below >> 64);
}

static void key_of(uint64_t rank, char key[16])
{
    uint64_t state = rank;
    snprintf(key, 16, "%05lu%05lu", (unsigned long)rank,
             (unsigned long)random_below(&state, 100000));
}

static int fail(const char *what, int error)
{
    fprintf(stderr, "bench-disks: %s: %s\n", what, ps_strerror(error));
    return 1;
}

static int parts_open(unsigned parts, int one)
{
    segment.parts = parts;
    for (unsigned p = 0; p < parts; p++) {
        char store[8] = "store", name[16] = "records";
        if (p > 0)
            snprintf(one ? name : store, sizeof store, one ? "part%u" : "store%u", p + 1);
        if (ps_connect(store) < 0 ||
            !(segment.part[p] = ps_open(name, PS_CREATE | PS_WRITE, NULL)))
            return -errno;
    }
    return 0;
}

/* The parts share what is to be memory for the tree. */
static int parts_limit(unsigned parts)
{
    int error = 0;
    for (unsigned p = 0; p < parts && !error; p++)
        error = ps_policy(segment.part[p], PS_MEMORY, MEMORY_PAGES / parts);
    return error;
}

static int build(unsigned parts, int rule)
{
    built.memory = ps_building(&builder);
    int error = records_set_up(&built);
    PS_ACCESS(records_keyed, a, &built, PS_CHANGE);
    for (uint64_t i = 0; i < RECORDS && !error; i++) {
        uint64_t rank = i * 61543 % RECORDS, state = rank + RECORDS;
        char key[16], text[32];
        key_of(rank, key);
        memset(text, 'a' + (int)(rank % 26), sizeof text);
        error = records_insert(&a, key, (const struct text *)(const void *)text,
                               4 + random_below(&state, 27));
    }
    if (!error)
        error = parts_open(parts, rule == 2);
    if (!error)
        error = ps_spread(&segment, PS_SPREAD_TREE(records, &built), (enum ps_placement)(rule % 2));
    return error ? fail("build", error) : 0;
}

/* ---- queries ---- */

static uint64_t record_sum(const char *key, const struct text *text, size_t bytes)
{
    uint64_t sum = bytes + (unsigned char)text->bytes[bytes - 1];
    for (int i = 0; key[i]; i++)
        sum = sum * 31 + (unsigned char)key[i];
    return sum * 0x9e3779b97f4a7c15u >> 20;
}

struct ends { char from[16], to[16]; uint64_t sum, count; };

static struct ends ends_draw(uint64_t *state, uint64_t length_max)
{
    struct ends e = {.sum = 0};
    uint64_t first = random_below(state, RECORDS), last = first + random_below(state, length_max);
    key_of(first, e.from);
    key_of(last < RECORDS ? last : RECORDS - 1, e.to);
    return e;
}

/* By all disks at once. */
static int ask(struct ps_administrator *a, struct ends *e)
{
    PS_ACCESS(records_query, q, a, e->from, e->to, 0);
    for (const struct text *t; (t = records_query_next(&q)); e->count++)
        e->sum += record_sum(records_query_key(&q), t, records_query_bytes(&q));
    return -errno;
}

/* One leaf after the other, as any tree is read. */
static int read_plainly(void *ends)
{
    struct ends *e = ends;
    struct records all = {.head = PS_SEGMENT_HEAD(&segment), .memory = ps_segment_memory(&segment)};
    e->sum = e->count = 0;
    PS_ACCESS(records_range, r, &all, e->from, e->to, PS_UP, PS_LOOK);
    for (const struct text *t; (t = records_next(&r)); e->count++)
        e->sum += record_sum(records_key(&r), t, records_bytes(&r));
    return -errno;
}

/* Some queries both ways: the sums are the same. */
static int check_same(struct ps_administrator *a)
{
    const struct ps_options snapshot = {.isolation = PS_SNAPSHOT};
    uint64_t state = 77;
    for (int i = 0; i < SAME; i++) {
        struct ends one = ends_draw(&state, LENGTH_MAX), other = one;
        int error = ask(a, &one);
        if (!error)
            error = ps_transaction_opt(read_plainly, &other, &snapshot);
        if (error || one.sum != other.sum || one.count != other.count)
            return fail("the disks together have another answer than leaf after leaf", error);
    }
    return 0;
}

/* From now on the disks take their time, or not any more (tests/bench/slow-disks.py). */
static int disks_slow(int on)
{
    static _Alignas(4096) char block[4096];
    struct kd_block_info info;
    long disk = kd_call3(KD_BLOCK_OPEN, (long)"signal", (long)&info, 0);
    block[0] = (char)on;
    long result = disk < 0 ? disk : kd_call4(KD_BLOCK_WRITE, disk, 0, (long)block, sizeof block);
    if (disk >= 0)
        kd_call3(KD_HANDLE_CLOSE, disk, 0, 0);
    return result < 0 ? (int)result : 0;
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static uint64_t leaves_read(struct ps_administrator *a, unsigned parts, uint64_t *fullest)
{
    struct ps_administrator_stats s;
    uint64_t sum = 0;
    *fullest = 0;
    ps_administrator_stats(a, &s);
    for (unsigned p = 0; p < parts; p++) {
        sum += s.retrieved[p];
        if (s.retrieved[p] > *fullest)
            *fullest = s.retrieved[p];
    }
    return sum;
}

/* Milliseconds for so many queries; adds to *sum and *count. */
static double timed(struct ps_administrator *a, int queries, uint64_t length_max, uint64_t *sum,
                    uint64_t *count, int *error)
{
    uint64_t state = 1;
    double start = now_ms();
    for (int i = 0; i < queries && !*error; i++) {
        struct ends e = ends_draw(&state, length_max);
        *error = ask(a, &e);
        *sum += e.sum;
        *count += e.count;
    }
    return now_ms() - start;
}

/* The head of the tree is in every store, and a build has a place for it that is not in use. */
static int one_change(void *unused)
{
    (void)unused;
    segment.kept[segment.parts - 1]->of[0].head[PS_SPREAD_HEAD - 1]++;
    return 0;
}

static int run(unsigned parts, int queries)
{
    int error = parts_open(parts, getenv("ONE") != NULL);
    if (!error)
        error = parts_limit(parts);
    if (!error)
        error = ps_segment_open(&segment);
    struct ps_administrator *a = error ? NULL : ps_administrator_make(
                                     &segment, PS_SPREAD_TREE(records, &built), NULL);
    if (!a)
        return fail("run", error ? error : -errno);
    if (check_same(a))
        return 1;
    uint64_t sum = 0, count = 0, single = 0, singles = 0, fullest;
    uint64_t before = leaves_read(a, parts, &fullest);
    error = disks_slow(1);
    double ms = timed(a, queries, LENGTH_MAX, &sum, &count, &error);
    uint64_t leaves = leaves_read(a, parts, &fullest) - before;
    double exact = timed(a, EXACT, 1, &single, &singles, &error);
    disks_slow(0);
    if (error)
        return fail("queries", error);
    struct kd_system_info was, is;
    kd_call3(KD_SYSTEM_INFO, (long)&was, 0, 0);
    for (int i = 0; i < COMMITS && !error; i++)
        error = ps_transaction(one_change, NULL);
    kd_call3(KD_SYSTEM_INFO, (long)&is, 0, 0);
    if (error)
        return fail("commits", error);
    printf("parts %u queries %d records %lu sum %016lx ms %.0f leaves %lu exact %.0f writes %.2f "
           "flushes %.2f\n", parts, queries, (unsigned long)count, (unsigned long)sum, ms,
           (unsigned long)leaves, exact, (double)(is.block_writes - was.block_writes) / COMMITS,
           (double)(is.block_flushes - was.block_flushes) / COMMITS);
    return ps_administrator_close(a) != 0;
}

int main(int argc, char **argv)
{
    unsigned parts = argc == 4 ? (unsigned)atoi(argv[2]) : 0;
    int builds = argc == 4 && strcmp(argv[1], "build") == 0;
    usage(argc, argv, parts >= 1 && parts <= 4 && (builds || strcmp(argv[1], "run") == 0),
          "usage: bench-disks build PARTS 0|1|2\n       bench-disks run PARTS QUERIES\n"
          "Spreads a tree over 1 to 4 disks, or asks it; `make bench ONLY=disks` does both.\n");
    return builds ? build(parts, atoi(argv[3])) : run(parts, atoi(argv[3]));
}
