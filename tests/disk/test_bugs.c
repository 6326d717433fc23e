/*
 * test_bugs.c - the tests of the crash tests: each planted bug of disk/bug.h must be found.
 *
 * Method: one job per bug. With the bug on, lives (life.h) are recorded and their crash states
 * recovered until one fails; then the same life without the bug must pass the same states (else it
 * was not the bug that failed). What a crash alone cannot show is looked for by other means: bytes
 * on the disk that depend on what the memory held, requests that fail, bytes that rot. And some
 * bugs need a store or a damage that no life has: the test that is there for them must fail.
 *
 * SEED=n N=1 runs one bug, by its number in disk/bug.h.
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

#include "bug.h"
#include "crew.h"
#include "life.h"

#define STEPS           40u
#define LIVES_MAX       400u
#define STATES_MAX      200000u
#define CPU_SECONDS     20u     /* of one life; it takes one */
#define STATES_PER_LIFE 3000u

#define GUARD_SECONDS   60u     /* of CPU, for a test that guards against a bug */

enum { KILLED, LEFT_OUT, STATES };

static char folder[2048];       /* where the test programs are */

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

/* ---- one bug */

static void seed_run(uint64_t seed, struct enumerate_result *result)
{
    crash_method(seed, result);
    if (!result->failed && seed % 8 < 4)
        bytes_method(seed, result);
    if (!result->failed && seed % 8 == 3)
        error_method(seed, result);
}

/* The known-good control: the same life without the bug passes the same states. */
static void control_require(uint64_t seed)
{
    struct enumerate_result result = { .states = 0 };
    bug_on = BUG_NONE;
    seed_run(seed, &result);
    if (result.failed)
        crew_fail("life %llu without a bug: %s: %s", (unsigned long long)seed, result.method,
                  result.text);
}

/* It needs a group redone bit by bit, with another behind it: other lives are not tried. */
static bool skipped(enum bug bug, uint64_t seed)
{
    struct world_options shape = life_options(seed);
    return bug == BUG_NO_EPOCH && !(shape.full_only && shape.ahead);
}

/* A bug may crash the store or make it never come back: each life has a process of its own. */
static void life_in_child(enum bug bug, uint64_t seed, struct enumerate_result *result)
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGABRT, SIG_DFL);
        setrlimit(RLIMIT_CPU, &(struct rlimit){ CPU_SECONDS, CPU_SECONDS });
        bug_on = bug;
        seed_run(seed, result);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        crew_fail("no process for a life");
    if (WIFSIGNALED(status)) {
        result->failed = true;
        result->method = "crash";
        snprintf(result->text, sizeof result->text, "ended by signal %d", WTERMSIG(status));
    }
}

/* ---- bugs that another test is there for: it must fail with them */

struct guard { enum bug bug; const char *program, *only; };

static const struct guard guards[] = {
    { BUG_SLOT_CRC, "test_damage", "every_flipped_byte_of_metadata_is_noticed" },
    { BUG_META_CRC, "test_damage", "every_flipped_byte_of_metadata_is_noticed" },
    { BUG_KEEP_NEWER, "test_areas", "the_older_checkpoint_can_always_take_over" },
    { BUG_RANGE_TWICE, "test_areas", "containers_of_one_group_lie_apart" },
    { BUG_SHRINK_TOUCH, "test_areas", "checkpoints_keep_a_table_that_grows_and_shrinks" },
    { BUG_SPLIT_TOUCH, "test_areas", "checkpoints_keep_a_table_that_grows_and_shrinks" },
    { BUG_CHAIN_PLACE, "test_areas", "checkpoints_keep_a_table_that_grows_and_shrinks" },
    { BUG_UNSET_TOUCH, "test_directory", "an_unset_name_is_saved_as_unset" },
    { BUG_NO_RETRY, "test_errors", "every_failed_request_is_survived" },
    { BUG_SCAN_LSN, "test_chain", "checkpoints_go_on_beside_a_running_chain" },
    { BUG_CHAIN_CHECK, "test_chain", "a_commit_needs_its_whole_chain" },
    { BUG_SPILL_CRC, "test_kcheck", "*" },
    { BUG_CHAIN_OLD, "test_chain", "a_chain_older_than_half_the_log_is_dropped" },
    { BUG_LOGGED_STALE, "test_chain", "a_page_written_again_is_not_the_spilled_one" },
    { BUG_CLAIM_REPLAY, "test_store", "claimed_pages_are_held_without_a_write" },
    { BUG_CLAIM_WRITTEN, "test_store", "claimed_pages_are_held_without_a_write" },
    { BUG_FREE_CLAIMED, "test_store", "claimed_pages_are_held_without_a_write" },
    { BUG_CLAIM_UNSEEN, "test_store", "claimed_pages_are_held_without_a_write" },
    { BUG_HOME_EARLY, "test_scope", "a_killed_manager_survives_every_crash_state" },
    { BUG_SLOT_BACK, "test_unflushed", "a_garbled_superblock_that_comes_back_does_no_harm" },
    { BUG_AREA_NAMED, "test_unflushed", "an_area_that_is_lost_is_forgotten" },
    { BUG_EPOCH_LEARN, "test_one_fault", "commits_since_a_start_survive_its_superblock" },
    { BUG_EPOCH_AGAIN, "test_one_fault", "a_group_behind_the_end_stays_dead" },
    { BUG_END_READ, "test_one_fault", "unreadable_blocks_of_dead_log_do_no_harm" },
    { BUG_READ_WHOLE, "test_one_fault", "unreadable_blocks_of_dead_log_do_no_harm" },
    { BUG_BLANK_SHORT, "test_one_fault", "a_store_whose_first_blocks_are_zero_is_not_blank" },
    { BUG_EPOCH_NO_FLUSH, "test_unflushed", "a_clean_start_begins_its_epoch_before_work" },
    { BUG_EPOCH_PROVES, "test_unflushed", "an_epoch_proves_the_log_before_it" },
    { BUG_GROW_EARLY, "test_grow", "growing_survives_every_crash_state" },
    { BUG_MERGE_LOST, "test_grow", "the_hash_table_grows_and_shrinks" },
};

static const struct guard *guard_of(enum bug bug)
{
    for (uint32_t i = 0; i < sizeof guards / sizeof guards[0]; i++)
        if (guards[i].bug == bug)
            return &guards[i];
    return NULL;
}

/* Runs the guard with its bug. That it passes without is seen when it runs for itself. */
static bool guard_passes(const struct guard *guard)
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, guard->program);
        setenv("ONLY", guard->only, 1);
        setenv("TEST_TIER", "check", 1);
        setenv("PLANTED", bug_table[guard->bug].name, 1);
        unsetenv("SEED");
        unsetenv("N");
        setrlimit(RLIMIT_CPU, &(struct rlimit){ GUARD_SECONDS, GUARD_SECONDS });
        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
            _exit(0);
        execl(path, path, (char *)NULL);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        crew_fail("no process for %s", guard->program);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void guard_run(const struct guard *guard, struct enumerate_result *result)
{
    result->failed = !guard_passes(guard);
    result->method = guard->program;
    snprintf(result->text, sizeof result->text, "%s", guard->only);
}

/* ---- the job */

/* Lives, one after the other; the seed of the one that shows the bug, or 0. */
static uint64_t lives_run(enum bug bug, struct enumerate_result *result)
{
    uint64_t seed = 1;
    struct enumerate_result *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        crew_fail("out of memory");
    for (;; seed++) {
        crew_at("life", seed);
        if (!skipped(bug, seed))
            life_in_child(bug, seed, shared);
        if (shared->failed || seed == LIVES_MAX || shared->states > STATES_MAX)
            break;
    }
    *result = *shared;
    munmap(shared, sizeof *shared);
    if (result->failed)
        control_require(seed);
    return seed;
}

static void bug_is_killed(uint64_t number)
{
    enum bug bug = (enum bug)number;
    const struct guard *guard = guard_of(bug);
    struct enumerate_result result = { .states = 0 };
    uint64_t seed = 0;
    bool left_out = crew_short() && number % 4;         /* make check: every fourth */
    crew_add(LEFT_OUT, left_out);
    if (left_out)
        return;
    if (guard)
        guard_run(guard, &result);
    else
        seed = lives_run(bug, &result);
    crew_add(STATES, result.states);
    crew_add(KILLED, result.failed);
    printf("# %-16s %-11s %-13s %7llu states, life %2llu: %.90s\n", bug_table[bug].name,
           bug_table[bug].class, result.failed ? result.method : "ALIVE",
           (unsigned long long)result.states, (unsigned long long)seed,
           result.failed ? result.text : bug_table[bug].breaks);
    fflush(stdout);
}

static void every_planted_bug_is_killed(void **state)
{
    (void)state;
    uint64_t bugs = crew_count(BUG_COUNT - 1, BUG_COUNT - 1);
    assert_true(crew_run(__func__, bugs, bug_is_killed));
    printf("# %llu of %llu planted bugs killed, in %llu states; %llu left out\n",
           (unsigned long long)crew_sum(KILLED), (unsigned long long)bugs,
           (unsigned long long)crew_sum(STATES), (unsigned long long)crew_sum(LEFT_OUT));
    assert_int_equal(crew_sum(KILLED) + crew_sum(LEFT_OUT), bugs);
}

/* Aim: the table in the chapter lists the bugs of bug.h, each with its class and text, and no other. */
static void the_chapter_lists_the_planted_bugs(void **state)
{
    (void)state;
    char line[400], wanted[300];
    uint32_t found = 0;
    FILE *chapter = fopen("tests/disk/testing.md", "r");
    assert_non_null(chapter);
    while (fgets(line, sizeof line, chapter)) {
        char name[32];
        int end = 0;
        sscanf(line, "| `%31[A-Z_]` |%n", name, &end);
        if (!end)
            continue;
        enum bug bug = bug_find(name);
        if (bug == BUG_NONE)
            fail_msg("not in bug.h: %s", line);
        snprintf(wanted, sizeof wanted, "| `%s` | %s | %s |", name, bug_table[bug].class,
                 bug_table[bug].breaks);
        assert_memory_equal(line, wanted, strlen(wanted));
        found++;
    }
    fclose(chapter);
    assert_int_equal(found, BUG_COUNT - 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_planted_bug_is_killed),
        cmocka_unit_test(the_chapter_lists_the_planted_bugs),
    };
    char *slash = strrchr(argv[0], '/');
    (void)argc;
    crew_begin(argv[0]);
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - argv[0]) : 1,
             slash ? argv[0] : ".");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
