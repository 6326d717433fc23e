/*
 * hunt.c - looks for a planted bug: this program is built with the store that has it
 * (scripts/bugs).
 *
 *   hunt [WORD,...]   lives (life.h), one after the other: their crash states are recovered until
 *                     one fails
 *   hunt life SEED    one life: the known-good control, of a store without a bug
 *
 * What a crash alone cannot show is looked for by other means: bytes on the disk that depend on
 * what the memory held, requests that fail, bytes that rot. WORDs choose the lives: "full" writes
 * full pages only, "ahead" issues groups ahead. The last line is `found SEED STATES METHOD: TEXT`,
 * and the status 1; or `nothing in STATES states`, and 0.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "crew.h"
#include "life.h"

#define STEPS           40u
#define LIVES_MAX       400u
#define STATES_MAX      200000u
#define CPU_SECONDS     20u     /* of one life; it takes one */
#define STATES_PER_LIFE 3000u

static const struct enumerate_options all_methods = {
    .tear = true, .garble = true, .depth = 1, .second_odds = 40, .second_steps = 3,
    .random_subsets = 3,
};

/* ---- crash states */

static void crash_method(uint64_t seed, struct enumerate_result *result)
{
    struct enumerate_options options = all_methods;
    options.states_max = result->states + STATES_PER_LIFE;
    options.second_odds = seed % 2 ? 40 : 500;          /* deep into one life, or all along it */
    options.rot_flips = 6;
    life_run(seed, STEPS, &options, result);
}

/* ---- the same bytes, whatever the memory held */

static uint64_t events_digest(uint64_t seed, uint8_t fill)
{
    static struct world world;
    struct device device;
    uint64_t sum = 0;
    device_open(&device, life_options(seed).disk_bytes);
    memory_fill = fill;
    life_record(&world, &device, seed, STEPS);
    for (uint32_t i = 0; i < device.event_count; i++) {
        const struct event *event = &device.events[i];
        sum = sum * 0x9e3779b97f4a7c15ull + event->kind + event->offset;
        if (event->kind == WRITE_ISSUE)
            sum += crc32c(0, event->data, event->bytes);
    }
    device_close(&device);
    return sum;
}

static void bytes_method(uint64_t seed, struct enumerate_result *result)
{
    if (events_digest(seed, 0x5a) == events_digest(seed, 0xc3))
        return;
    result->failed = true;
    result->method = "other bytes";
    snprintf(result->text, sizeof result->text, "two runs write different bytes");
}

/* ---- requests that fail */

static const char *error_life(uint64_t seed, uint32_t kinds, uint32_t at, bool *fired)
{
    static struct world world;
    struct device device;
    struct store_report report;
    struct world_options options = life_options(seed);
    const char *wrong = NULL;
    int error = 0;
    device_open(&device, options.disk_bytes);
    if (world_format(&world, &device, seed, &options) || world_open(&world, &report))
        return "a store cannot be made";
    device.fail_kinds = kinds;
    device.fail_at = at;
    for (int i = 0; i < 6 && !error; i++)
        error = world_step(&world);
    if (!error)
        error = world_checkpoint(&world);
    if (error == -ENOSPC || error == -ENODATA)
        error = world_checkpoint(&world);
    *fired = device.fired;
    uint64_t acked = world.acked;
    if (device.fired && kinds == FAIL_READ && error && error != -ENOSPC && error != -ENODATA)
        wrong = "a read that failed once was not tried again";
    if (device.fired && kinds != FAIL_READ && !error)
        wrong = "a failed request was not reported";
    if (device.fired && kinds == FAIL_FLUSH && error && (!store_error(world.store) ||
        world_commit(&world, 1, false) == 0 || world.acked != acked))
        wrong = "the store goes on after a failed request";
    world_abandon(&world);
    device.requests = 0;
    device.fail_at = kinds == FAIL_READ ? 3 : 0;
    error = world_open(&world, &report);
    if (error)
        wrong = "a store cannot be opened after a failed request";
    else
        world_abandon(&world);
    device_close(&device);
    return wrong;
}

static void error_method(uint64_t seed, struct enumerate_result *result)
{
    static const uint32_t kinds[] = { FAIL_WRITE, FAIL_FLUSH, FAIL_READ };
    for (int k = 0; k < 3 && !result->failed; k++) {
        bool fired = true;
        for (uint32_t at = 1; fired && !result->failed; at++) {
            const char *wrong = error_life(seed, kinds[k], at, &fired);
            if (!wrong)
                continue;
            result->failed = true;
            result->method = "I/O error";
            snprintf(result->text, sizeof result->text, "request %u of kind %u: %s", at, kinds[k],
                     wrong);
        }
    }
}

/* ---- lives */

static void seed_run(uint64_t seed, struct enumerate_result *result)
{
    crash_method(seed, result);
    if (!result->failed && seed % 8 < 4)
        bytes_method(seed, result);
    if (!result->failed && seed % 8 == 3)
        error_method(seed, result);
}

static bool wanted(const char *words, uint64_t seed)
{
    struct world_options shape = life_options(seed);
    return (shape.full_only || !strstr(words, "full")) && (shape.ahead || !strstr(words, "ahead"));
}

/* A bug may crash the store, stop it at an assertion or make it never come back: each life has a
 * process of its own. */
static void life_in_child(uint64_t seed, struct enumerate_result *result)
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        setrlimit(RLIMIT_CPU, &(struct rlimit){ CPU_SECONDS, CPU_SECONDS });
        setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
        seed_run(seed, result);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        abort();
    if (!WIFSIGNALED(status))
        return;
    result->failed = true;
    result->method = WTERMSIG(status) == SIGILL ? "assertion" : "crash";
    snprintf(result->text, sizeof result->text, "ended by signal %d", WTERMSIG(status));
}

/* Its seed if a life fails, else 0. */
static uint64_t hunt(const char *words, struct enumerate_result *result)
{
    for (uint64_t seed = 1; seed <= LIVES_MAX && result->states <= STATES_MAX; seed++) {
        if (wanted(words, seed))
            life_in_child(seed, result);
        if (result->failed)
            return seed;
    }
    return 0;
}

int main(int count, char **words)
{
    struct enumerate_result *result = mmap(NULL, sizeof *result, PROT_READ | PROT_WRITE,
                                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bool one = count == 3 && !strcmp(words[1], "life");
    if (result == MAP_FAILED || (count > 2 && !one))
        return 2;
    uint64_t seed = one ? strtoull(words[2], NULL, 0) : hunt(count > 1 ? words[1] : "", result);
    if (one)
        life_in_child(seed, result);
    if (result->failed)
        printf("found %llu %llu %s: %s\n", (unsigned long long)seed,
               (unsigned long long)result->states, result->method, result->text);
    else
        printf("nothing in %llu states\n", (unsigned long long)result->states);
    return result->failed;
}
