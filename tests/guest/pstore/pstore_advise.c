/*
 * pstore_advise.c - ps_advise: what a program says about its pages, and what comes of it.
 *
 * Aim     DONT_NEED pages go first when memory is short, and come back when they are touched;
 *         WILL_NEED brings pages without a lock, so that a later read asks nobody; wrong use is
 *         told.
 * Method  a container that fills more than half of the memory that programs leave; requests to
 *         the manager are counted, not timed.
 */
#include <sys/mman.h>

#include "pstore_test.h"

enum { PAGES = 4000, STEP = 100, FROM = 1000, COUNT = 512, WORDS = KD_PAGE_BYTES / 8 };
struct root { uint64_t *array; };
static ps_container *c;
static uint64_t *array;

static int make(void *unused)
{
    (void)unused;
    struct root *r = ps_root(c);
    array = r->array = ps_alloc(c, (size_t)PAGES * KD_PAGE_BYTES, NULL);
    return array ? 0 : -errno;
}

static int fill(void *from)
{
    for (uintptr_t i = (uintptr_t)from; i < (uintptr_t)from + STEP; i++) array[i * WORDS] = i + 1;
    return 0;
}

static int sum(void *from)
{
    for (uintptr_t i = (uintptr_t)from; i < (uintptr_t)from + COUNT; i++)
        if (array[i * WORDS] != i + 1) return 1;
    return 0;
}

/* Requests for pages that reading COUNT of them took; -1: they are not what they were. */
static long requests(uintptr_t from)
{
    struct ps_stats before, after;
    ps_stats(&before);
    int e = ps_transaction(sum, (void *)from);
    ps_stats(&after);
    return e ? -1 : (long)(after.pages_read - before.pages_read);
}

static uint64_t evictions(void)
{
    struct kd_system_info s;
    kd_call3(KD_SYSTEM_INFO, (long)&s, 0, 0);
    return s.evictions;
}

/* Uses memory until so many pages have been evicted. True: they have. */
static int press(uint64_t count)
{
    enum { PIECE = 64 << 10, MOST = 512 };
    static char *pieces[MOST];
    uint64_t before = evictions();
    int n = 0;
    while (n < MOST && evictions() - before < count) {
        pieces[n] = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pieces[n] == MAP_FAILED) break;
        memset(pieces[n++], 1, PIECE);
    }
    while (n) munmap(pieces[--n], PIECE);
    return evictions() - before >= count;
}

static int away(void)
{
    return ps_advise(array + FROM * WORDS, COUNT * KD_PAGE_BYTES, PS_DONT_NEED) == 0 &&
           press(COUNT / 2);
}

int main(void)
{
    int e = 0;
    tap_plan(11);
    ps_delete("advice");
    c = ps_open("advice", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    is(c ? ps_transaction(make, NULL) : -errno, 0, "an array of 16 MB");
    for (uintptr_t i = 0; i < PAGES && !e; i += STEP) e = ps_transaction(fill, (void *)i);
    is(e ? e : ps_checkpoint(), 0, "it is filled, and home");
    is(requests(0) == 0 && requests(FROM) == 0, 1, "it is in memory");
    tap_ok(away(), "some pages are not needed any more, and memory is short");
    is(requests(0), 0, "others are still there");
    long asked = requests(FROM);
    tap_ok(asked > 0, "they had gone, and come back (%ld requests)", asked);
    tap_ok(away() && ps_advise(array + FROM * WORDS, COUNT * KD_PAGE_BYTES, PS_WILL_NEED) == 0,
           "again, but they will be needed");
    is(requests(FROM), 0, "so they are there before they are touched");
    is(ps_advise(&e, 1, PS_WILL_NEED) == -ENOENT && ps_advise(array, 1, 9) == -EINVAL &&
           ps_advise(array, 1, PS_RANDOM) == 0 && ps_advise(array, 1, PS_NORMAL) == 0,
       1, "advice has a place and a kind");
    ps_close(c);
    c = ps_open("advice", 0, PS_LAYOUT(struct root, 1));
    is(c ? ps_advise(array, 1, PS_RANDOM) : 0, -EROFS,
       "a reader has no say in how pages are given to all");
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck");
    return tap_end();
}
