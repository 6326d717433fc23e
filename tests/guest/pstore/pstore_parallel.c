/*
 * pstore_parallel.c - a structure over three disks, and queries that all of them answer at once
 * (uDatabase, section 6.1): MU-37, MU-38.
 *
 * Aim     generators hand out what a range of one tree has, in this process and in others; one that
 *         was begun before a commit sees nothing of it; an exact match reads one leaf, on however
 *         many disks; who dies with a query open leaves nothing; a build that is killed leaves the
 *         one before, or the new one.
 * Method  sums of records against those of the tree as it was built. This program once more is
 *         another process that asks, dies, or spreads.
 */
#include <errno.h>
#include <kit.h>
#include <structures/parallel.h>
#include <time.h>
#include <unistd.h>

#include "pstore_test.h"

struct key { uint32_t n; };
struct value { uint64_t version, n, more; };
static int by_number(const struct key *a, const struct key *b)
{
    return a->n < b->n ? -1 : a->n > b->n;
}
PS_TREE(numbers, struct key, struct value, by_number);
PS_PARALLEL_TREE(numbers);
PS_RTREE(boxes, struct value, 2);
PS_PARALLEL_RTREE(boxes);

enum { RECORDS = 30000, PARTS = 3, KILLS = 10 };
static struct ps_segment segment = {.name = "numbers", .parts = PARTS};
static struct ps_segment places = {.name = "places", .parts = PARTS};
static struct numbers_head kept;
static struct numbers numbers;

struct sum { uint64_t count, sum, versions; };

static int same(struct sum a, struct sum b)
{
    return a.count == b.count && a.sum == b.sum && a.versions == b.versions;
}

static void sum_add(struct sum *s, const struct value *v)
{
    s->count++;
    s->sum += (v->n + 1) * (v->n + 1);
    s->versions += v->version;
}

static int parts_open(void)
{
    static const char *const stores[PARTS] = {"store", "store2", "store3"};
    for (int i = 0; i < PARTS; i++) {
        ps_container *c = ps_connect(stores[i]) == 0 ? ps_open("parts", PS_CREATE | PS_WRITE, NULL)
                                                     : NULL;
        if (!c)
            return -errno;
        segment.part[i] = places.part[i] = c;
    }
    return 0;
}

static int build(uint64_t version)
{
    static struct ps_builder builder;
    if (numbers.head)
        numbers_tear_down(&numbers);
    numbers = (struct numbers){.head = &kept, .memory = ps_building(&builder)};
    int error = numbers_set_up(&numbers);
    PS_ACCESS(numbers_keyed, a, &numbers, PS_CHANGE);
    for (uint32_t i = 0; i < RECORDS && !error; i++) {
        struct key key = {i * 7919u % RECORDS};
        error = numbers_insert(&a, &key, &(struct value){version, key.n, 0});
    }
    return error;
}

static struct sum wanted(uint32_t from, uint32_t to)
{
    struct sum s = {0};
    PS_ACCESS(numbers_range, r, &numbers, &(struct key){from}, &(struct key){to}, PS_UP, PS_LOOK);
    for (const struct value *v; (v = numbers_next(&r));)
        sum_add(&s, v);
    return s;
}

static struct sum asked(struct ps_administrator *a, uint32_t from, uint32_t to, size_t bytes)
{
    struct sum s = {0};
    PS_ACCESS(numbers_query, q, a, &(struct key){from}, &(struct key){to}, bytes);
    for (const struct value *v; (v = numbers_query_next(&q));)
        sum_add(&s, v);
    s.count += errno ? 1u << 30 : 0;
    return s;
}

/* ---- the same program as another process ---- */

static int other(const char *what)
{
    if (strcmp(what, "spread") == 0) {
        ps_area *area = ps_area_open("phase");
        int error = !area ? -errno : parts_open();
        if (!error)
            error = build(100);
        if (!error)
            __atomic_store_n((int *)ps_area_memory(area), 1, __ATOMIC_SEQ_CST);
        return error ? -error : -ps_spread(&segment, PS_SPREAD_TREE(numbers, &numbers),
                                           PS_ROUND_ROBIN);
    }
    struct ps_administrator *a = ps_administrator_open("numbers");
    if (!a)
        return 90;
    if (strcmp(what, "ask") == 0)
        return build(1) || !same(asked(a, 500, 25000, 0), wanted(500, 25000)) ||
               !same(asked(a, 7, 7, 0), wanted(7, 7)) || ps_administrator_close(a);
    PS_ACCESS(numbers_query, q, a, NULL, NULL, 0);
    if (!numbers_query_next(&q))
        return 91;
    kd_call3(KD_PROCESS_KILL, getpid(), 9, 0);
    return 92;
}

/* ---- the tests ---- */

static int bump(void *arg)
{
    struct numbers moved = {.head = PS_SEGMENT_HEAD(&segment),
                            .memory = ps_segment_memory(&segment)};
    PS_ACCESS(numbers_keyed, a, &moved, PS_CHANGE);
    const int part = *(int *)arg;
    int changed = 0;
    for (uint32_t i = 0; i < RECORDS; i += 10) {
        const struct value *v = numbers_find(&a, &(struct key){i});
        if (!v)
            return -errno;
        if (ps_segment_part(&segment, (const void *)((uintptr_t)v / 4096 * 4096)) != part)
            continue;
        numbers_change(&a, &(struct key){i})->version++;
        changed++;
    }
    *(int *)arg = changed;
    return 0;
}

static int stray(void *arg)
{
    struct numbers moved = {.head = PS_SEGMENT_HEAD(&segment),
                            .memory = ps_segment_memory(&segment)};
    PS_ACCESS(numbers_keyed, a, &moved, PS_CHANGE);
    (void)arg;
    for (uint32_t i = 0; i < RECORDS; i += 500)
        numbers_change(&a, &(struct key){i})->version++;
    return 0;
}

/* Queries that were begun before a commit and go on behind it. */
static void one_state(struct ps_administrator *a)
{
    struct sum before = wanted(0, RECORDS), s = {0};
    int changed = 1;
    PS_ACCESS(numbers_query, q, a, NULL, NULL, 2048);
    const struct value *v = numbers_query_next(&q);
    is(ps_transaction(bump, &changed), 0, "while a generator is open, records of one disk change");
    tap_ok(changed > 100, "many of them (%d)", changed);
    for (; v; v = numbers_query_next(&q))
        sum_add(&s, v);
    tap_ok(same(s, before), "it sees nothing of that (%lu, %lu)", (long)s.count, (long)s.versions);
    s = asked(a, 0, RECORDS, 0);
    is((long)(s.versions - before.versions), changed, "the next one sees all");
    before = asked(a, 0, RECORDS, 0);
    is(ps_transaction(stray, NULL), 0, "leaves on several disks are changed by one transaction");
    s = asked(a, 0, RECORDS, 0);
    is((long)(s.versions - before.versions), (RECORDS + 499) / 500, "which changes them all");
}

static uint64_t leaves_read(const struct ps_administrator_stats *s)
{
    uint64_t n = 0;
    for (int i = 0; i < PARTS; i++)
        n += s->retrieved[i];
    return n;
}

static void exact_match(struct ps_administrator *a)
{
    struct ps_administrator_stats before, after;
    ps_administrator_stats(a, &before);
    for (uint32_t i = 0; i < 100; i++)
        asked(a, i * 77, i * 77, 0);
    ps_administrator_stats(a, &after);
    uint64_t leaves = leaves_read(&after) - leaves_read(&before);
    tap_ok(leaves >= 100 && leaves <= 110,
           "an exact match reads one leaf, so other disks have nothing to do (100: %lu)",
           (long)leaves);
    ps_administrator_stats(a, &before);
    asked(a, 0, RECORDS, 0);
    ps_administrator_stats(a, &after);
    int all = 0;
    for (int i = 0; i < PARTS; i++)
        all += (after.retrieved[i] - before.retrieved[i]) * PARTS * 10 >
               9 * (leaves_read(&after) - leaves_read(&before));
    is(all, PARTS, "a large range is shared by all disks");
}

static void other_processes(struct ps_administrator *a, const char *self)
{
    struct ps_administrator_stats s = {.open = 1};
    is(child_run(self, "ask", NULL), 0, "another process asks, without a container");
    is(child_run(self, "die", NULL) != 0, 1, "one dies with a query open");
    for (int i = 0; i < 60000 && s.open; i++) {
        ps_administrator_stats(a, &s);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    is(s.open, 0, "its query goes with it");
    is(s.leaves_most <= 512, 1, "leaves that wait are bounded");
}

/* A child that spreads another version is killed, later each time. */
static void killed_builds(const char *self)
{
    int whole = 0, fresh = 0;
    ps_area *area = ps_area_make("phase", sizeof(int), NULL);
    int *begun = ps_area_memory(area);
    for (int i = 0; i < KILLS; i++) {
        *begun = 0;
        int pid = child_start(self, "spread", NULL);
        while (!__atomic_load_n(begun, __ATOMIC_SEQ_CST))
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        nanosleep(&(struct timespec){.tv_nsec = 1 + (1 << i) * 500000}, NULL);
        kd_call3(KD_PROCESS_KILL, pid, 9, 0);
        child_wait(pid);
        int error = ps_segment_open(&segment);
        struct ps_administrator *a = error ? NULL : ps_administrator_make(
                                         &segment, PS_SPREAD_TREE(numbers, &numbers), NULL);
        struct sum s = a ? asked(a, 0, RECORDS, 0) : (struct sum){0}, w = wanted(0, RECORDS);
        int is_new = s.versions == 100ull * RECORDS;
        whole += s.count == w.count && s.sum == w.sum && (is_new || s.versions < 3 * RECORDS);
        fresh += is_new;
        if (a)
            ps_administrator_close(a);
    }
    ps_area_close(area);
    is(whole, KILLS, "whenever a build is killed, the segment is whole");
    printf("# %d of %d killed builds were done\n", fresh, KILLS);
}

static void rectangles(void)
{
    static struct boxes_head head;
    struct ps_builder builder = {0};
    struct boxes built = {.head = &head, .memory = ps_building(&builder)};
    struct sum want = {0}, came = {0};
    struct boxes_box window = {{20, 20}, {60, 50}};
    int error = boxes_set_up(&built);
    PS_ACCESS(boxes_boxes, a, &built, PS_CHANGE);
    for (uint64_t i = 0; i < 5000 && !error; i++) {
        double x = (double)(i * 7919 % 997) / 10, y = (double)(i * 104729 % 991) / 10;
        error = boxes_insert(&a, &(struct boxes_box){{x, y}, {x + 1, y + 2}},
                             &(struct value){1, i, 0});
    }
    is(error, 0, "an R*-tree");
    is(ps_spread(&places, PS_SPREAD_RTREE(boxes, &built), PS_LARSON_SEEGER), 0, "... is spread");
    struct ps_administrator *admin = ps_administrator_make(&places, PS_SPREAD_RTREE(boxes, &built),
                                                           NULL);
    if (!tap_ok(admin != NULL, "and served by the same administrator (%d)", errno))
        return;
    PS_ACCESS(boxes_range, r, &built, &window, PS_INTERSECT, PS_LOOK);
    for (const struct value *v; (v = boxes_next(&r));)
        sum_add(&want, v);
    PS_ACCESS(boxes_query, q, admin, &window, PS_INTERSECT, 0);
    for (const struct value *v; (v = boxes_query_next(&q));)
        sum_add(&came, v);
    tap_ok(same(came, want) && want.count > 100, "what meets a window (%lu)", (long)came.count);
    boxes_query_close(&q);
    ps_administrator_close(admin);
    is(ps_segment_clear(&places), 0, "and it is gone");
    is(ps_segment_open(&places), -ENODATA, "for all");
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return other(argv[1]);
    tap_plan(30);
    is(parts_open(), 0, "three stores");
    is(ps_segment_open(&segment), -ENODATA, "nothing was spread");
    is(build(1), 0, "a tree");
    is(ps_spread(&segment, PS_SPREAD_TREE(numbers, &numbers), PS_LARSON_SEEGER), 0, "is spread");
    struct ps_administrator_wish wish = {.name = "numbers"};
    struct ps_administrator *a = ps_administrator_make(&segment, PS_SPREAD_TREE(numbers, &numbers),
                                                       &wish);
    if (!tap_ok(a != NULL, "an administrator (%d)", errno))
        return 1;
    tap_ok(same(asked(a, 0, RECORDS, 0), wanted(0, RECORDS)), "all records come");
    tap_ok(same(asked(a, 333, 4444, 0), wanted(333, 4444)), "and those of a range");
    exact_match(a);
    other_processes(a, argv[0]);
    one_state(a);
    is(ps_administrator_close(a), 0, "closed");
    struct ps_segment swapped = segment;
    swapped.part[0] = segment.part[1];
    swapped.part[1] = segment.part[0];
    swapped.kept[0] = swapped.kept[1] = NULL;
    is(ps_segment_open(&swapped), -EUCLEAN, "disks in another order are noticed");
    killed_builds(argv[0]);
    is(ps_spread(&segment, PS_SPREAD_TREE(numbers, &numbers), PS_ROUND_ROBIN), 0, "spread again");
    rectangles();
    is(ps_segment_clear(&segment), 0, "cleared");
    return tap_end();
}
