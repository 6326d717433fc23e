/*
 * collected.c - the heap of /bin/collected: how long a mutator stands still when a collection
 * begins, what it pays for a page that it touches before that is scanned, and how long it would
 * stand still if all was copied at once.
 */
#include "bench.h"
#include "user/managers/collected.h"
#include "user/start.h"

enum { CELLS = 20000, SYSTEM_YIELD = 24 };
static struct collected heap = {.name = "bench-collected"};

static void build(void)
{
    for (int i = 0; i < CELLS; i++)
        if (!(heap.call.root[0] = collected_cons(&heap, collected_number(i), heap.call.root[0])))
            fail("a cell", -ENOSPC);
}

static double flip_cost(void)
{
    uint64_t t = counter();
    int e = collected_flip(&heap);
    if (e)
        fail("a flip", e);
    return (double)(counter() - t);
}

static uint64_t scanned(void)
{
    int e = collected_say(&heap, COLLECTED_COUNTS);
    if (e)
        fail("counts", e);
    return heap.call.counts.by_fault;
}

/* The list is walked; a first touch of a page is what costs. */
static double touch_cost(void)
{
    uint64_t before = scanned(), t = counter(), sum = 0;
    for (uint64_t v = heap.call.root[0]; v; v = collected_at(v)->cdr)
        sum += collected_at(v)->car;
    t = counter() - t;
    return sum ? (double)t / (double)(scanned() - before) : 0;
}

static void run(void)
{
    const char *argv[] = {"collected", heap.name, "2", "lazy", NULL};
    long pid = start_program("/bin/collected", argv, 0, 1);
    if (pid < 0)
        fail("/bin/collected", pid);
    while (!km_open(heap.name, heap.name, KM_READ | KM_WRITE))
        kd_call3(SYSTEM_YIELD, 0, 0, 0);
    build();
    row("heap of cells, 20,000 live: the mutator's pause when a collection begins", "instructions",
        flip_cost(), "-");
    row("a page of 256 cells that it touches before it is scanned", "instructions", touch_cost(),
        "-");
    flip_cost();
    row("its pause if all is copied at once", "instructions", flip_cost(), "-");
    server_end(pid);
}

const struct part collected_part = {"collected", run, NULL};
