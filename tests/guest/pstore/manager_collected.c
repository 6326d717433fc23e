/*
 * manager_collected.c - /bin/collected: a heap that is collected while its mutator runs on.
 *
 * Aim     whatever the mutator reaches is what it made, at any moment of a collection; memory stays
 *         bounded, while many times more is allocated; pages are scanned when they are touched, if
 *         nobody was there before. A pointer that was kept past a flip leads nowhere: who follows
 *         it is ended.
 * Method  lists and a tree with shared parts and a ring, changed at random beside a model, in two
 *         heaps: with the thread that scans, and without, where each page waits for a touch.
 */
#include <errno.h>
#include <stdlib.h>

#include "process.h"
#include "system.h"
#include "tap.h"
#include "user/managers/collected.h"
#include "user/start.h"

enum { LISTS = 60, TREE = LISTS, RING = LISTS + 1, STEPS = 12000, LENGTH_MAX = 120, DEPTH = 9,
       RING_CELLS = 700, CONS_AT_LEAST = 1500000 };
static struct collected heap;
static int64_t sum[LISTS];
static uint64_t length[LISTS], made;
static int full;

static uint64_t rng = 88172645463325252ull;
static uint64_t draw(uint64_t below)
{
    rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17;
    return (rng >> 11) % below;
}

static uint64_t cons(uint64_t car, uint64_t cdr)
{
    uint64_t cell = collected_cons(&heap, car, cdr);
    made++;
    full |= cell == 0;
    return cell;
}

/* ---- lists: numbers, or pairs of numbers that two lists may share ---- */

static void push(int list)
{
    int64_t n = (int64_t)draw(1000);
    uint64_t car = collected_number(n);
    if (draw(2)) car = cons(car, collected_number(-n)); /* the list is in its root meanwhile */
    uint64_t cell = full ? 0 : cons(car, heap.call.root[list]);
    if (!cell) return;
    heap.call.root[list] = cell;
    sum[list] += n;
    length[list]++;
}

static int list_wrong(int list)
{
    int64_t total = 0;
    uint64_t count = 0, wrong = 0;
    for (uint64_t v = heap.call.root[list]; v && count <= LENGTH_MAX; v = collected_at(v)->cdr) {
        uint64_t car = collected_at(v)->car;
        if (!(car & 1)) {
            wrong += collected_at(car)->cdr != collected_number(
                         -collected_value(collected_at(car)->car));
            car = collected_at(car)->car;
        }
        total += collected_value(car);
        count++;
    }
    return wrong || total != sum[list] || count != length[list];
}

/* Reversed in place: stores into pages of copies. */
static void reverse(int list)
{
    uint64_t done = 0;
    for (uint64_t v = heap.call.root[list], next; v; v = next) {
        next = collected_at(v)->cdr;
        collected_at(v)->cdr = done;
        done = v;
    }
    heap.call.root[list] = done;
}

/* ---- a tree, made from its leaves, and a ring ---- */

static void tree_make(void)
{
    heap.call.root[TREE] = collected_number(1);
    for (int depth = 0; depth < DEPTH && !full; depth++) /* both halves are one: shared */
        heap.call.root[TREE] = cons(heap.call.root[TREE], heap.call.root[TREE]);
}
static int64_t leaves(uint64_t v)
{
    return v & 1 ? collected_value(v) : leaves(collected_at(v)->car) + leaves(collected_at(v)->cdr);
}

static void ring_make(void)
{
    heap.call.root[RING] = cons(collected_number(0), 0);
    collected_at(heap.call.root[RING])->cdr = heap.call.root[RING];
    for (int i = 1; i < RING_CELLS && !full; i++) {
        uint64_t cell = cons(collected_number(i), collected_at(heap.call.root[RING])->cdr);
        collected_at(heap.call.root[RING])->cdr = cell;
    }
}
static int ring_wrong(void)
{
    uint64_t v = heap.call.root[RING], bits = 0;
    for (int i = 0; i < RING_CELLS; i++, v = collected_at(v)->cdr)
        bits += (uint64_t)collected_value(collected_at(v)->car);
    return v != heap.call.root[RING] || bits != (uint64_t)RING_CELLS * (RING_CELLS - 1) / 2;
}

/* ---- the mutator ---- */

static void step(void)
{
    int list = (int)draw(LISTS);
    if (length[list] == LENGTH_MAX || draw(30) == 0) {
        heap.call.root[list] = 0;            /* garbage */
        sum[list] = 0;
        length[list] = 0;
    } else if (draw(10) == 0) {
        reverse(list);
    }
    for (uint64_t n = draw(6); n > 0 && length[list] < LENGTH_MAX && !full; n--) push(list);
    for (uint64_t n = draw(200); n > 0 && !full; n--) (void)cons(heap.call.root[list], 1);
}

static int mutate(void)
{
    int wrong = 0;
    tree_make();
    ring_make();
    for (long i = 0; (i < STEPS || made < CONS_AT_LEAST) && !full && !wrong; i++) {
        step();
        wrong += list_wrong((int)draw(LISTS));
        if (i % 64 == 0) wrong += leaves(heap.call.root[TREE]) != 1 << DEPTH || ring_wrong();
    }
    for (int i = 0; i < LISTS; i++) wrong += list_wrong(i);
    return wrong;
}

static int heap_open(const char *name, const char *how)
{
    const char *argv[] = {"collected", name, "1", how, NULL};
    void *at = NULL;
    if (start_program("/bin/collected", argv, 0, 1) < 0) return 0;
    for (int i = 0; i < 30000 && !at; i++)
        if (!(at = km_open(name, name, KM_READ | KM_WRITE))) pause_ms(1);
    heap = (struct collected){.name = name};
    made = 0;
    for (int i = 0; i < LISTS; i++) sum[i] = 0, length[i] = 0;
    return at != NULL;
}

static struct collected_counts counts(void)
{
    return collected_say(&heap, COLLECTED_COUNTS) ? (struct collected_counts){0}
                                                  : heap.call.counts;
}

static void run(const char *name, const char *how)
{
    tap_ok(heap_open(name, how), "a heap of 1 MiB, %s", name);
    is(mutate(), 0, "all that is reached is what was made");
    struct collected_counts c = counts();
    printf("# %lu cells made, %lu collections, %lu cells copied; pages scanned: %lu touched before,"
           " %lu ahead\n", made, c.flips, c.copied, c.by_fault, c.by_scanner);
    tap_ok(!full && c.flips >= made * 16 / (1 << 20) && c.copied < made,
           "%d MiB were made in it", (int)(made >> 16));
    tap_ok(!how || (c.by_fault > c.flips && c.by_fault > 100),
           "pages are scanned as they are touched");
}

/* Follows a pointer of before the flip. */
static int stray(const char *at)
{
    if (!km_open("lazy", "lazy", KM_READ | KM_WRITE)) return 3;
    return (int)*(volatile uint64_t *)strtoull(at, NULL, 0) & 0;
}

static void old_space(const char *self)
{
    char text[32];
    uint64_t before = heap.call.root[RING];
    is(collected_flip(&heap), 0, "a flip");
    tap_ok(heap.call.root[RING] != before, "moves what is reached");
    snprintf(text, sizeof text, "%lu", before);
    tap_ok(child_run(self, "stray", text) != 0, "who follows an old pointer is ended");
    snprintf(text, sizeof text, "%lu", heap.call.root[RING]);
    is(child_run(self, "stray", text), 0, "not who follows a new one");
    is(ring_wrong(), 0, "and the heap is as it was");
}

/* What lives fills the space: it says so. */
static void fill(void)
{
    full = 0;
    while (!full) {
        uint64_t cell = cons(heap.call.root[0], heap.call.root[0]);
        if (cell) heap.call.root[0] = cell;
    }
    tap_ok(counts().flips > 0 && !ring_wrong(), "a heap that is full says so");
    heap.call.root[0] = 0;
    full = 0;
    is(collected_flip(&heap), 0, "some is let go");
    tap_ok(cons(1, 1) && !ring_wrong(), "and there is room again");
}

int main(int argc, char **argv)
{
    if (argc > 2) return stray(argv[2]);
    tap_plan(16);
    run("concurrent", NULL);
    run("lazy", "lazy");
    old_space(argv[0]);
    fill();
    return tap_end();
}
