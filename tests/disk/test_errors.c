/*
 * test_errors.c - a failure of every single request and of every single allocation.
 *
 * Method: a world's life is counted once without failures; then it is run again with request i
 * failing, once or from then on, for every i; then with allocation i failing. A failure must be
 * seen, nothing may be acknowledged after a failed write or flush, and what a later open finds
 * must be a commit between the last acknowledged and the last submitted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "world.h"

#define LIVES 80u
#define STEPS 5u

static const struct world_options shape_of_all = {
    .disk_bytes = 768 * 1024, .log_bytes = 64 * 1024, .extent_bytes = 16384, .checkpoint_odds = 3,
};

/* The last error of a life; it goes on after -ENOMEM, which must leave the store usable. */
static int life(struct world *world, struct device *device, uint64_t seed, uint32_t *out_of_memory)
{
    struct store_report report;
    struct world_options shape = shape_of_all;
    shape.ahead = seed & 1;
    int error = world_format(world, device, seed, &shape);
    if (error)
        return error;
    error = world_open(world, &report);
    for (uint32_t i = 0; i < STEPS && !error; i++) {
        error = world_step(world);
        if (error == -ENOMEM && !store_error(world->store)) {
            ++*out_of_memory;
            error = 0;
        }
    }
    if (!error)
        error = world_checkpoint(world);
    if (!error)
        error = world_close(world);
    if (!error)
        error = world_open(world, &report);
    return error;
}

/* Opens without failures and looks for the commit. */
static void state_require(struct world *world, uint64_t seed, uint32_t i, const char *what)
{
    struct store_report report;
    uint64_t digest = 0, k;
    int error = world_open(world, &report);
    if (error == -ENODATA && world->submitted == 0)
        return;                         /* format had not got far enough */
    if (!error)
        error = store_digest(world->store, &digest);
    for (k = world->acked; k < world->submitted && world->digests[k] != digest; k++)
        ;
    if (error || world->digests[k] != digest)
        fail_msg("seed %llu, %s %u: error %d, no commit from %llu to %llu",
                 (unsigned long long)seed, what, i, error, (unsigned long long)world->acked,
                 (unsigned long long)world->submitted);
    world_abandon(world);
}

static void request_fails(uint64_t seed, uint32_t kinds, bool sticky, uint32_t *fired)
{
    static struct world world;
    for (uint32_t i = 1;; i++) {
        struct device device;
        uint32_t none = 0;
        device_open(&device, shape_of_all.disk_bytes);
        device.fail_kinds = kinds;
        device.fail_at = i;
        device.fail_sticky = sticky;
        int error = life(&world, &device, seed, &none);
        uint32_t hits = device.fired;
        bool fenced = world.store && store_error(world.store);
        if (hits && !error && kinds != FAIL_READ)
            fail_msg("seed %llu request %u: the failure was swallowed", (unsigned long long)seed, i);
        if (fenced) {
            struct store_group *group;
            assert_int_equal(store_group_begin(world.store, &group), store_error(world.store));
            assert_int_equal(store_checkpoint_begin(world.store), store_error(world.store));
        }
        if (world.store)
            world_abandon(&world);
        device.fail_kinds = 0;
        state_require(&world, seed, i, "request");
        device_close(&device);
        *fired += hits;
        if (!hits)
            return;
    }
}

/* Aim: each write, flush and read of many lives fails, once and for good. */
static void every_failed_request_is_survived(void **state)
{
    (void)state;
    uint32_t fired = 0;
    for (uint64_t seed = 1; seed <= LIVES; seed++) {
        request_fails(seed, FAIL_WRITE | FAIL_FLUSH, seed % 2, &fired);
        request_fails(seed, FAIL_READ, seed % 3 == 0, &fired);
    }
    assert_true(fired > 1000);
    assert_int_equal(memory_live, 0);
    printf("# %u failures injected\n", fired);
}

/* Aim: each allocation fails once; the store stays usable or says no, and leaks nothing. */
static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    static struct world world;
    uint32_t fired = 0, refused = 0;
    for (uint64_t seed = 1; seed <= LIVES; seed++)
        for (uint32_t i = 1;; i++) {
            struct device device;
            device_open(&device, shape_of_all.disk_bytes);
            memory_count = memory_fired = 0;
            memory_fail_at = i;
            life(&world, &device, seed, &refused);
            uint32_t hits = memory_fired;
            memory_fail_at = 0;
            if (world.store)
                world_abandon(&world);
            assert_int_equal(memory_live, 0);
            state_require(&world, seed, i, "allocation");
            device_close(&device);
            fired += hits;
            if (!hits)
                break;
        }
    assert_true(fired > 1000);
    printf("# %u failures injected, %u transactions or checkpoints put off\n", fired, refused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_failed_request_is_survived),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
