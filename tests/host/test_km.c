/*
 * test_km.c - the library of managers (libpstore/manager.c) on a kernel of the test's own.
 *
 * Aim     cleaning goes on where it stopped: to clean a whole object, a few pages at a time, looks
 *         at each page a bounded number of times, not at all that lie before it at every notice.
 *         All pages get their turn. A request that km_answer gets has exactly one answer, also
 *         where the kernel has no memory for the pages.
 * Method  manager.c is compiled in, with calls that answer from one array of dirty bits and count,
 *         and refuse pages when they are told to.
 */
#define KATYDID_CALL_H /* the calls are these */
#include "katydid/abi.h"

static long kd_call3(long number, long a, long b, long c);
static long kd_call4(long number, long a, long b, long c, long d);
#define kd_call6(number, a, b, c, d, e, f) ((void)(e), (void)(f), kd_call4(number, a, b, c, d))

#include "libpstore/manager.c"
#include "libpstore/manager_serve.c"
#include "libpstore/manager_commit.c"
#include "libpstore/kept.c"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { OBJECT_PAGES = 10000, WANTED = 16 };

static uint8_t dirty[OBJECT_PAGES];
static uint64_t looked_at, cleaned, out_of_order, last_cleaned;
static struct kd_supply supplied;
static int supply_result;
static struct { long page, count, error; int times; } failed;

static long kd_call3(long number, long a, long b, long c)
{
    (void)b, (void)c;
    if (number == KD_OBJECT_SUPPLY) {
        supplied = *(struct kd_supply *)a;
        return supply_result;
    }
    if (number == KD_OBJECT_CREATE) {
        ((struct kd_object_create *)a)->base = KD_STORE_BASE;
        return 9;
    }
    return number == KD_PORT_CREATE ? 8 : 0;
}

static long kd_call4(long number, long a, long b, long c, long d)
{
    (void)a;
    if (number == KD_OBJECT_FAIL) {
        failed.page = b, failed.count = c, failed.error = d;
        failed.times++;
    }
    if (number != KD_OBJECT_INFO)
        return 0;
    looked_at += (uint64_t)c;
    for (long i = 0; i < c; i++)
        ((uint8_t *)d)[i] = dirty[b + i] ? KD_PAGE_RESIDENT | KD_PAGE_DIRTY : 0;
    return 0;
}

static void clean(struct km_object *o, const uint64_t *pages, unsigned count)
{
    assert_true(km_address(o) == (void *)KD_STORE_BASE);
    for (unsigned i = 0; i < count; i++) {
        assert_true(dirty[pages[i]]);
        dirty[pages[i]] = 0;
        cleaned++;
        out_of_order += pages[i] < last_cleaned;
        last_cleaned = pages[i];
    }
}

/* A notice as the kernel sends it. */
static void notice(uint64_t pages)
{
    on_kernel(&(struct kd_message){.kind = (uint32_t)KD_MSG_CLEAN, .word = {pages}});
}

static void cleaning_goes_on_where_it_stopped(void **state)
{
    static const struct km_ops ops = {.clean = clean};
    struct km_object *o;
    (void)state;
    assert_int_equal(km_create("test", OBJECT_PAGES, KM_READ | KM_WRITE | KM_TRANSACTIONAL, &ops,
                               NULL, &o),
                     0);
    memset(dirty, 1, sizeof dirty);
    for (int i = 0; i < OBJECT_PAGES / WANTED; i++)
        notice(WANTED);
    assert_int_equal(cleaned, OBJECT_PAGES);
    assert_int_equal(out_of_order, 0);
    print_message("%d pages are cleaned, %llu looked at\n", OBJECT_PAGES,
                  (unsigned long long)looked_at);
    assert_true(looked_at <= OBJECT_PAGES / WANTED * INFO_PAGES);
}

/* Pages behind the place where it stopped come first, those before it when it has gone round. */
static void cleaning_goes_round(void **state)
{
    (void)state;
    dirty[5000] = 1;
    notice(1);
    assert_int_equal(last_cleaned, 5000);
    dirty[100] = dirty[7000] = 1;
    looked_at = 0;
    notice(1);
    assert_int_equal(last_cleaned, 7000);
    notice(1);
    assert_int_equal(last_cleaned, 100);
    assert_true(looked_at <= OBJECT_PAGES + INFO_PAGES);
    notice(1); /* none is dirty: once round, no further */
    assert_true(looked_at <= 2 * OBJECT_PAGES + 2 * INFO_PAGES);
}

/* So many of these pages are answered while the kernel supplies, or says what stands there. */
static void answer(const void *pages, uint64_t count, int error, int result)
{
    static const struct km_ops ops = {0};
    static struct km_object object = {.ops = &ops, .handle = 9};
    struct km_request r = {.object = &object, .page = 20, .count = 8, .token = 3};
    supplied = (struct kd_supply){0};
    failed.times = 0;
    supply_result = result;
    km_answer(&r, pages, count, error);
}

static void an_answer_is_one(void **state)
{
    static char pages[3 * KM_PAGE_BYTES];
    (void)state;
    answer(pages, 3, 0, 0);
    assert_int_equal(failed.times, 0);
    assert_true(supplied.source == KD_SUPPLY_MEMORY && supplied.memory == pages);
    assert_true(supplied.page == 20 && supplied.count == 3);
    answer(NULL, 2, 0, 0);
    assert_int_equal(failed.times, 0);
    assert_true(supplied.source == KD_SUPPLY_ZERO && supplied.count == 2);
    answer(pages, 0, ENOSPC, 0);
    assert_true(failed.times == 1 && failed.error == ENOSPC && !supplied.count);
    assert_true(failed.page == 20 && failed.count == 1);
}

static void an_answer_without_memory_fails(void **state)
{
    static char pages[2 * KM_PAGE_BYTES];
    (void)state;
    answer(pages, 2, 0, -ENOMEM);
    assert_true(failed.times == 1 && failed.error == ENOMEM);
    assert_true(failed.page == 20 && failed.count == 2);
    answer(NULL, 1, 0, -ENOMEM);
    assert_true(failed.times == 1 && failed.error == ENOMEM && failed.count == 1);
    answer(pages, 2, 0, -ESTALE); /* the kernel asks again */
    assert_int_equal(failed.times, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cleaning_goes_on_where_it_stopped),
        cmocka_unit_test(cleaning_goes_round),
        cmocka_unit_test(an_answer_is_one),
        cmocka_unit_test(an_answer_without_memory_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
