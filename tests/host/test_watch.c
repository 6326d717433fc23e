/*
 * test_watch.c - watches of the store manager: pages that a client named, in pieces
 * (user/store/watch.c).
 *
 * Aim     a watch has the pages that were named, in whatever order and however often, and no other;
 *         one of too many has all. Naming many pages piece by piece costs little more than sorting
 *         them once.
 * Method  the file itself over a container of one segment. The cost is CPU time beside that of one
 *         qsort of as many, the least of some tries.
 */
#include "user/store/watch.c"

#include <setjmp.h>
#include <stdarg.h>
#include <time.h>

#include <cmocka.h>

#define BASE 0x200000000000ull
#define PAGE(n) (BASE + (uint64_t)(n) * PAGE_BYTES)
enum { SPAN = 9000, PROCESS = 7 };
struct server server = {.lock = PTHREAD_MUTEX_INITIALIZER};
static struct container container;
static bool named[SPAN];

int store_container_at(struct store *store, uint64_t address, struct store_container *c,
                       uint64_t *page)
{
    (void)store;
    *c = (struct store_container){.object = 1};
    *page = (address - BASE) / PAGE_BYTES;
    return address - BASE < SPAN * PAGE_BYTES ? 0 : -ENOENT;
}
struct container *container_by_id(uint64_t id) { return id == 1 ? &container : NULL; }
int container_allows(const struct container *c, uint64_t process, uint32_t rights)
{
    return c == &container && process == PROCESS && rights == KD_RIGHT_READ ? 0 : -EACCES;
}
bool process_known(uint64_t process) { return process == PROCESS; }
uint64_t container_left(const struct container *c, uint64_t page) { return (void)c, SPAN - page; }
uint64_t container_address(const struct container *c, uint64_t page) { return (void)c, PAGE(page); }
long kd_system(long number, long a, long b, long c, long d)
{
    (void)number, (void)a, (void)b, (void)c, (void)d;
    return 0;
}

static int tell(uint64_t key, bool more, uint64_t *pages, unsigned n)
{
    struct kd_message m = {.kind = STORE_WATCH, .process = PROCESS, .word = {key, more},
                           .buffer = pages, .data_bytes = n * sizeof *pages};
    return watch_request(&m);
}

static void check(const struct watch *w)
{
    for (unsigned i = 0; i < SPAN; i++)
        assert_int_equal(watch_has(w, PAGE(i), PAGE(i + 1)), w->all || named[i]);
    for (unsigned i = 1; i < w->count; i++) assert_true(w->page[i - 1] < w->page[i]);
}

static void pieces(void **state)
{
    unsigned all = 0;
    (void)state;
    srand(1);
    for (unsigned run = 0; run < 300; run++) {
        memset(named, 0, sizeof named);
        unsigned span = run % 3 ? 200 : SPAN, next = 0;
        for (unsigned n = 0, told = 0; told < run % 90 + 1; told++) {
            uint64_t page[PIECE_MAX];
            unsigned most = 1 + (unsigned)rand() % PIECE_MAX;
            for (n = 0; n < most; n++) {
                unsigned at = run % 2 ? (unsigned)rand() % span : next++ % span;
                page[n] = PAGE(at) + (uint64_t)rand() % PAGE_BYTES;
                named[at] = true;
            }
            assert_int_equal(tell(1, told > 0, page, n), 0);
        }
        all += watch_of(PROCESS, 1)->all;
        check(watch_of(PROCESS, 1));
    }
    watches_end(PROCESS);
    assert_int_equal(watched, 0);
    print_message("%u of too many\n", all);
    assert_true(all > 0);
}

static void refused(void **state)
{
    uint64_t page[PIECE_MAX + 1] = {PAGE(1), PAGE(SPAN)};
    (void)state;
    assert_int_equal(tell(1, false, page, 2), -ENOENT);
    assert_null(watch_of(PROCESS, 1));
    assert_int_equal(tell(1, false, page, PIECE_MAX + 1), -EINVAL);
    struct kd_message m = {.kind = STORE_WATCH, .process = PROCESS + 1, .word = {1, 1}};
    assert_int_equal(watch_request(&m), -EDQUOT); /* that has nothing open, and names no page */
    assert_int_equal(watched, 0);
}

static double cpu(void) { return (double)clock() / CLOCKS_PER_SEC; }

static double sort_once(const uint64_t *page)
{
    static uint64_t copy[WATCHED_MAX];
    double from = cpu();
    for (int i = 0; i < 20; i++) {
        memcpy(copy, page, sizeof copy);
        qsort(copy, WATCHED_MAX, sizeof *copy, address_order);
    }
    return cpu() - from;
}

static double tell_all(const uint64_t *page)
{
    static uint64_t copy[WATCHED_MAX];
    double from = cpu();
    for (int i = 0; i < 20; i++) {
        memcpy(copy, page, sizeof copy);
        for (unsigned n = 0; n < WATCHED_MAX; n += PIECE_MAX)
            assert_int_equal(tell(1, n > 0, copy + n, PIECE_MAX), 0);
    }
    return cpu() - from;
}

static double least(double (*of)(const uint64_t *), const uint64_t *page)
{
    double most = 1e9;
    for (int i = 0; i < 5; i++) {
        double took = of(page);
        most = took < most ? took : most;
    }
    return most;
}

/* In order, as the kernel tells them; and then once more, as who looks again names them. */
static void cost(void **state)
{
    static uint64_t page[WATCHED_MAX], mixed[WATCHED_MAX];
    (void)state;
    for (unsigned i = 0; i < WATCHED_MAX; i++) {
        page[i] = PAGE(2 * i);
        mixed[i] = PAGE(i * 2654435761u % 8192);
    }
    double once = least(sort_once, mixed), order = least(tell_all, page);
    double any = least(tell_all, mixed);
    print_message("of one sort: %.2f in order, %.2f in none\n", order / once, any / once);
    assert_true(order < 1.5 * once && any < 4 * once);
    watches_end(PROCESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces),
        cmocka_unit_test(refused),
        cmocka_unit_test(cost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
