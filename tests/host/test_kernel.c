/*
 * test_kernel.c - the parts of the kernel that need no machine: strings, printf's conversions,
 * page frames, kernel memory. The kernel's files are included, with their names of
 * libc's functions changed; RAM is an array.
 */
#include "tests/host/kernel_names.h"
#include "kernel/base/string.c"
#include "kernel/base/format.c"
#include "kernel/base/random.c"
#undef NO_LIBRARY_CALLS
#include "kernel/memory/frame.c"
#include "kernel/memory/kmem.c"
#include "tests/host/kernel_names.h"
#include "tests/host/steps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- the machine ---- */
enum { RAM_PAGES = 4096, HOLE_START = 1000, HOLE_END = 1100 };
static _Alignas(4096) uint8_t ram[RAM_PAGES][PAGE_BYTES];
static unsigned evict_calls;

void *arch_phys(paddr_t pa) { return (uint8_t *)ram + pa; }
static unsigned cpu;
unsigned arch_cpu_id(void) { return cpu; }
unsigned arch_cpu_count(void) { return CPU_MAX; }
static void evict_wake(void) { evict_calls++; }
static bool never(void) { return false; }

const struct frame_seam frame_seam = {.low = evict_wake, .can_wait = never};
void lock_acquire(struct lock *l) { l->taken++; }
void lock_release(struct lock *l) { l->taken--; }
void printk(const char *format, ...) { (void)format; }

void panic(const char *format, ...)
{
    fail_msg("%s", format);
    abort();
}

void boot_memory_for(boot_range_fn *fn, void *arg)
{
    fn(PAGE_BYTES, (paddr_t)RAM_PAGES * PAGE_BYTES, arg);
}

/* The array of frames has taken the last pages; a hole lies in the middle. */
enum { ARRAY_PAGES = RAM_PAGES * sizeof(struct frame) / PAGE_BYTES };
void boot_free_for(boot_range_fn *fn, void *arg)
{
    fn(PAGE_BYTES, HOLE_START * PAGE_BYTES, arg);
    fn(HOLE_END * PAGE_BYTES, (RAM_PAGES - ARRAY_PAGES) * PAGE_BYTES, arg);
}

paddr_t boot_take(size_t bytes, paddr_t limit)
{
    assert_int_equal(bytes, ARRAY_PAGES * PAGE_BYTES);
    return limit - bytes;
}

static int start(void **state)
{
    (void)state;
    memset(ram, 0xa5, sizeof ram);
    memset(&frames, 0, sizeof frames);
    memset(&kept, 0, sizeof kept);
    memset(&kmem, 0, sizeof kmem);
    frame_init();
    kmem_init();
    evict_calls = 0;
    return 0;
}

static uint64_t seed;
static uint64_t any(uint64_t below)
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (seed >> 33) % below;
}

/* ---- strings ---- */

/* Every length up to 80 and every alignment, overlapping both ways, against libc. */
static void memory_functions_agree_with_libc(void **state)
{
    uint8_t ours[256], theirs[256];

    (void)state;
    for (size_t n = 0; n <= 80; n++) {
        for (size_t to = 0; to < 24; to++) {
            for (size_t from = 0; from < 24; from++) {
                for (size_t i = 0; i < sizeof ours; i++)
                    ours[i] = theirs[i] = (uint8_t)any(256);
                kernel_memmove(ours + to, ours + from, n);
                memmove(theirs + to, theirs + from, n);
                kernel_memcpy(ours + 128 + to, ours + from, n);
                memcpy(theirs + 128 + to, theirs + from, n);
                kernel_memset(ours + 240 - n, (int)to, n);
                memset(theirs + 240 - n, (int)to, n);
                assert_memory_equal(ours, theirs, sizeof ours);
            }
        }
    }
}

static void comparison_finds_the_first_difference(void **state)
{
    uint8_t a[64], b[64];

    (void)state;
    memset(a, 0x80, sizeof a);
    memset(b, 0x80, sizeof b);
    assert_int_equal(kernel_memcmp(a, b, sizeof a), 0);
    for (size_t i = 0; i < sizeof a; i++) {
        b[i] = 0x7f;
        if (i + 1 < sizeof a)
            b[i + 1] = 0xff;
        assert_true(kernel_memcmp(a, b, sizeof a) > 0);
        assert_true(kernel_memcmp(b, a, sizeof a) < 0);
        assert_int_equal(kernel_memcmp(a, b, i), 0);
        memset(b, 0x80, sizeof b);
    }
}

static void strings_are_cut_and_found(void **state)
{
    char text[4] = "xyz";

    (void)state;
    assert_int_equal(kernel_strlcpy(text, "hello", sizeof text), 5);
    assert_string_equal(text, "hel");
    assert_int_equal(kernel_strlcpy(text, "", sizeof text), 0);
    assert_string_equal(text, "");
    assert_int_equal(kernel_strnlen("hello", 3), 3);
    assert_true(kernel_strcmp("a", "b") < 0 && kernel_strcmp("ab", "a") > 0);
    assert_true(kernel_strcmp("\x80", "a") > 0 && kernel_strncmp("abc", "abd", 2) == 0);
}

/* ---- printf ---- */

#define SAME_AS_LIBC(...)                                                                         \
    do {                                                                                          \
        char ours[128], theirs[128];                                                              \
        assert_int_equal(snprintk(ours, sizeof ours, __VA_ARGS__),                                \
                         snprintf(theirs, sizeof theirs, __VA_ARGS__));                           \
        assert_string_equal(ours, theirs);                                                        \
    } while (0)

static void conversions_agree_with_libc(void **state)
{
    (void)state;
    SAME_AS_LIBC("%d %u|%5d|%-5d|%05d|%-5u|%3d", -1, 3000000000u, -42, -42, -42, 7, -12345);
    SAME_AS_LIBC("%x %08x %lx %llx %02x", 0xbeefu, 0xbeefu, ~0ul, 1ull << 40, 0xabcu);
    SAME_AS_LIBC("%ld %lu %zu %06ld", -5l, 5ul, (size_t)9, -5l);
    SAME_AS_LIBC("%s|%8s|%-8s|%.2s|%6.2s|%c%%|%3c|", "abc", "abc", "abc", "abc", "abc", 'x', 'y');
    SAME_AS_LIBC("%016lx %d %ld", 0xfful, (-2147483647 - 1), -9223372036854775807l - 1);
}

static void output_is_cut_at_the_buffer(void **state)
{
    char text[5] = "????";

    (void)state;
    assert_int_equal(snprintk(text, sizeof text, "%s", "abcdefgh"), 8);
    assert_string_equal(text, "abcd");
    assert_int_equal(snprintk(NULL, 0, "%d", 123), 3);
}

/* ---- frames ---- */

/* Each frame is in order, and as many are free as the count says. */
static bool all_frames_good(void)
{
    uint64_t uses[FRAME_USES] = {0};
    bool good = true;

    for (paddr_t at = 0; frame_of(at); at += FRAME_RUN_MAX * PAGE_BYTES)
        good &= frame_check(at, uses);
    return good && uses[FRAME_UNUSED] == frame_free_count();
}

static void all_frames_can_be_taken_and_come_back_whole(void **state)
{
    static struct frame *taken[RAM_PAGES];
    size_t total = frame_free_count(), count = 0;

    (void)state;
    assert_int_equal(total, RAM_PAGES - 1 - (HOLE_END - HOLE_START) - ARRAY_PAGES);
    while ((taken[count] = frame_alloc(FRAME_PAGE)) != NULL) {
        const uint8_t *memory = frame_memory(taken[count++]);

        assert_int_equal(memory[0] | memory[PAGE_BYTES - 1], 0);
    }
    assert_int_equal(count, total - frames.reserve_count); /* FR4 */
    assert_true(evict_calls >= frames.low_mark - frames.reserve_count);
    while ((taken[count] = frame_alloc_raw(FRAME_MANAGER)) != NULL)
        count++;
    assert_int_equal(count, total - frames.reserve_count / 4);
    while ((taken[count] = frame_alloc_raw(FRAME_KERNEL)) != NULL)
        count++;
    assert_int_equal(count, total);
    while (count > 0)
        frame_free(taken[--count]);
    assert_true(all_frames_good());
    assert_non_null(frame_alloc_run(FRAME_RUN_MAX));
}

static void take(struct frame **taken, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_non_null(taken[i] = frame_alloc_raw(FRAME_PAGE));
}

static void give(struct frame **taken, size_t n)
{
    for (size_t i = 0; i < n; i++)
        frame_free(taken[i]);
}

/* Each transaction of 88 pages took 65 frames out of the blocks and put them back, one by one: an
 * update cost 64 instructions more, or not, by how many the CPU had kept before. After a moment
 * with many more, any number below what is kept is taken and given some times. */
static void the_same_number_again_takes_no_frame_out_of_the_blocks(void **state)
{
    static struct frame *taken[RAM_PAGES];
    (void)state;
    for (size_t n = 1; n <= frames.batch * 7 / 4; n++) {
        take(taken, 5 * frames.batch);
        give(taken, 5 * frames.batch);
        for (int round = 0; round < 3; round++) {
            take(taken, n);
            size_t left = frames.free_count;
            give(taken, n);
            assert_true(round == 0 || frames.free_count == left);
        }
    }
    assert_true(all_frames_good());
}

static void reserved_memory_is_never_handed_out(void **state)
{
    struct frame *f;

    (void)state;
    while ((f = frame_alloc_raw(FRAME_KERNEL)) != NULL) {
        size_t page = frame_paddr(f) / PAGE_BYTES;

        assert_true(page > 0 && page < RAM_PAGES - ARRAY_PAGES);
        assert_true(page < HOLE_START || page >= HOLE_END);
    }
}

static void pinned_frame_is_freed_by_the_last_unpin(void **state)
{
    struct frame *f = frame_alloc(FRAME_PAGE);
    size_t before = frame_free_count();

    (void)state;
    frame_pin(f);
    frame_pin(f);
    frame_free(f);
    assert_int_equal(frame_free_count(), before);
    frame_unpin(f);
    assert_int_equal(f->state, FRAME_DYING);
    frame_unpin(f);
    assert_int_equal(f->state, FRAME_FREE);
    assert_int_equal(frame_free_count(), before + 1);
}

/* FR5: two threads wait, frames come back, and a third one takes all that it can get. */
static void those_who_wait_have_frames_set_aside(void **state)
{
    static struct frame *taken[RAM_PAGES];
    size_t count = 0;
    (void)state;
    while ((taken[count] = frame_alloc_raw(FRAME_PAGE)) != NULL)
        count++;
    frame_wait_begin();
    frame_wait_begin();
    assert_false(frame_promise());
    for (unsigned i = 0; i < FRAME_MEAL + 1; i++)
        frame_free(taken[--count]);
    assert_null(frame_alloc_raw(FRAME_MEMORY));
    assert_true(frame_promise());
    assert_true(frame_promise()); /* of one frame */
    assert_false(frame_promise());
    frame_wait_end(true);
    for (unsigned i = 0; i < FRAME_MEAL; i++)
        assert_non_null(taken[count++] = frame_alloc_raw(FRAME_LEAF));
    assert_null(frame_alloc_raw(FRAME_LEAF)); /* the other one's */
    frame_wait_end(true);
    assert_non_null(taken[count++] = frame_alloc_raw(FRAME_PAGE));
    assert_null(frame_alloc_raw(FRAME_PAGE));
    frame_wait_begin();
    frame_free(taken[--count]);
    assert_null(frame_alloc_raw(FRAME_PAGE));
    assert_non_null(taken[count++] = frame_alloc_raw(FRAME_TABLE)); /* who cannot wait takes it */
    frame_wait_end(false); /* in vain */
    while (count > 0)
        frame_free(taken[--count]);
    assert_int_equal(frames.leave, frames.reserve_count);
    assert_int_equal(frames.promised, 0);
    assert_true(all_frames_good());
}

/* Random runs and single frames, held in a model that notices an overlap. */
static void runs_do_not_overlap(void **state)
{
    enum { RUNS = 64 };
    struct { struct frame *first; size_t count; } runs[RUNS] = {0};
    static uint8_t used[RAM_PAGES];
    size_t total = frame_free_count();

    (void)state;
    memset(used, 0, sizeof used);
    for (unsigned step = 0; step < 20000; step++) {
        size_t r = any(RUNS), count = any(4) == 0 ? 1 + any(200) : 1;

        if (runs[r].first != NULL) {
            for (size_t i = 0; i < runs[r].count; i++) {
                used[frame_index(runs[r].first) + i] = 0;
                frame_free(runs[r].first + i);
            }
            runs[r].first = NULL;
        } else {
            runs[r].first = count == 1 ? frame_alloc_raw(FRAME_PAGE) : frame_alloc_run(count);
            runs[r].count = count;
            for (size_t i = 0; runs[r].first != NULL && i < count; i++) {
                assert_int_equal(used[frame_index(runs[r].first) + i], 0);
                used[frame_index(runs[r].first) + i] = 1;
            }
        }
        if (step % 1000 == 0)
            assert_true(all_frames_good());
    }
    for (size_t r = 0; r < RUNS; r++)
        for (size_t i = 0; runs[r].first != NULL && i < runs[r].count; i++)
            frame_free(runs[r].first + i);
    assert_true(all_frames_good());
    assert_int_equal(frame_free_count(), total);
}

/* Another CPU, which takes no lock for a frame that it keeps, comes between any two instructions
 * (steps.h). */
static struct frame *volatile taken_between;
static void take_one(void) { taken_between = frame_alloc_raw(FRAME_PAGE); }

/* A block looks whether its buddy is free while that one is kept, and taken. They were joined, and
 * the frame was given out twice: seen once in some million transactions of two processes. */
static void frame_that_is_taken_meanwhile_joins_no_block(void **state)
{
    struct frame *f, *buddy;

    for (unsigned step = 1; steps_left == 0; step++) {
        start(state);
        f = frame_alloc_run(2);
        buddy = f + 1;
        frame_free(f);
        assert_ptr_equal(kept[0].frame[0], f);
        steps_begin(step, take_one);
        steps_on(true);
        block_put(buddy, 0);
        steps_on(false);
        frames.free_count++;
        assert_true(steps_left != 0 || taken_between == f);
        assert_true(all_frames_good());
    }
    steps_left = 0;
}

/* The last pin of a frame goes, and before its CPU looks on, another one frees the frame, takes it
 * for contents of its own, begins to read into it, and gives it up: the first CPU freed it, under
 * the other one's I/O. */
static struct frame *unpinned;
static volatile bool pinned_again;
static void use_again(void)
{
    cpu = 1;
    if (unpinned->pins == 0) {
        frame_free(unpinned);
        assert_ptr_equal(frame_alloc_raw(FRAME_PAGE), unpinned);
        frame_pin(unpinned);
        frame_free(unpinned);
        pinned_again = true;
    }
    cpu = 0;
}

static void frame_that_is_used_again_behind_the_last_unpin_is_not_freed(void **state)
{
    unsigned again = 0, step = 1;

    for (steps_left = 0; steps_left == 0; step++) {
        start(state);
        unpinned = frame_alloc_raw(FRAME_PAGE);
        pinned_again = false;
        frame_pin(unpinned);
        steps_begin(step, use_again);
        steps_on(true);
        frame_unpin(unpinned);
        steps_on(false);
        assert_int_equal(unpinned->state, pinned_again ? FRAME_DYING : FRAME_USED);
        if (pinned_again) {
            again++;
            assert_int_equal(unpinned->pins, 1);
            frame_unpin(unpinned);
            assert_int_equal(unpinned->state, FRAME_FREE);
        }
        assert_true(all_frames_good());
    }
    assert_in_range(again, 2, step);
    steps_left = 0;
}

/* ---- kernel memory ---- */

static void kernel_memory_is_zeroed_aligned_and_apart(void **state)
{
    enum { PIECES = 200 };
    struct { uint8_t *p; size_t bytes; uint8_t mark; } pieces[PIECES] = {0};
    size_t free_before = frame_free_count();

    (void)state;
    for (unsigned step = 0; step < 40000; step++) {
        size_t i = any(PIECES), bytes = 1 + (any(16) == 0 ? any(20000) : any(2100));

        if (pieces[i].p != NULL) {
            for (size_t at = 0; at < pieces[i].bytes; at++)
                assert_int_equal(pieces[i].p[at], pieces[i].mark);
            kfree(pieces[i].p);
            pieces[i].p = NULL;
            continue;
        }
        pieces[i].p = kalloc(bytes);
        pieces[i].bytes = bytes;
        pieces[i].mark = (uint8_t)(1 + any(255));
        assert_non_null(pieces[i].p);
        assert_int_equal((uintptr_t)pieces[i].p % 16, 0);
        for (size_t at = 0; at < bytes; at++)
            assert_int_equal(pieces[i].p[at], 0);
        memset(pieces[i].p, pieces[i].mark, bytes);
    }
    for (size_t i = 0; i < PIECES; i++)
        kfree(pieces[i].p);
    /* a class keeps one slab at most */
    assert_in_range(free_before - frame_free_count(), 1, CLASS_COUNT);
    assert_true(all_frames_good());
}

static void kernel_memory_has_an_end(void **state)
{
    size_t total = frame_free_count(), slabs = 0;
    void **last = NULL, **p;

    (void)state;
    assert_null(kalloc(((size_t)FRAME_RUN_MAX << PAGE_SHIFT) + 1));
    while ((p = kalloc(2048)) != NULL) {
        *p = last;
        last = p;
    }
    assert_int_equal(frame_free_count(), 0); /* one frame at a time: the kernel has all */
    for (; last != NULL; last = p) {
        p = *last;
        kfree(last);
    }
    for (unsigned class = 0; class < CLASS_COUNT; class++)
        list_for(l, &kmem.partial[class])
            slabs++;
    assert_true(slabs <= CLASS_COUNT);
    assert_int_equal(frame_free_count() + slabs, total);
}

/* ---- what looks random ---- */

static const char *seed_said;
uint64_t __stack_chk_guard;
const char *kernel_option(const char *name) { return strcmp(name, "seed") ? NULL : seed_said; }

enum { WORDS = 64 };
static void boot_with(const char *text, uint64_t life, uint64_t words[WORDS])
{
    random_state = 0;
    seed_said = text;
    random_init();
    if (life)
        random_mix(&life, sizeof life);
    for (unsigned i = 0; i < WORDS; i++)
        random_bytes(&words[i], sizeof words[i]);
}

static unsigned common(const uint64_t *one, const uint64_t *other)
{
    unsigned n = 0;
    for (unsigned i = 0; i < WORDS; i++)
        for (unsigned k = 0; k < WORDS; k++)
            n += one[i] == other[k];
    return n;
}

/* Two seeds that are alike once gave the same words, one place further on. */
static void seeds_and_lives_have_no_word_in_common(void **state)
{
    (void)state;
    static uint64_t one[WORDS], other[WORDS];
    boot_with("1310", 0, one);
    boot_with("1310", 0, other);
    assert_int_equal(common(one, other), WORDS);
    for (unsigned i = 1; i < 200; i++) {
        char text[8];
        snprintf(text, sizeof text, "%u", 1310 + i);
        boot_with(text, 0, other);
        assert_int_equal(common(one, other), 0);
    }
    boot_with("1310", 1, one);
    boot_with("1310", 2, other);
    assert_int_equal(common(one, other), 0);
    boot_with(NULL, 1, one);            /* by the clock */
    boot_with(NULL, 2, other);
    assert_int_equal(common(one, other), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_functions_agree_with_libc),
        cmocka_unit_test(comparison_finds_the_first_difference),
        cmocka_unit_test(strings_are_cut_and_found),
        cmocka_unit_test(conversions_agree_with_libc),
        cmocka_unit_test(output_is_cut_at_the_buffer),
        cmocka_unit_test(seeds_and_lives_have_no_word_in_common),
        cmocka_unit_test_setup(all_frames_can_be_taken_and_come_back_whole, start),
        cmocka_unit_test_setup(the_same_number_again_takes_no_frame_out_of_the_blocks, start),
        cmocka_unit_test_setup(reserved_memory_is_never_handed_out, start),
        cmocka_unit_test_setup(pinned_frame_is_freed_by_the_last_unpin, start),
        cmocka_unit_test_setup(those_who_wait_have_frames_set_aside, start),
        cmocka_unit_test_setup(runs_do_not_overlap, start),
        cmocka_unit_test_setup(frame_that_is_taken_meanwhile_joins_no_block, start),
        cmocka_unit_test_setup(frame_that_is_used_again_behind_the_last_unpin_is_not_freed, start),
        cmocka_unit_test_setup(kernel_memory_is_zeroed_aligned_and_apart, start),
        cmocka_unit_test_setup(kernel_memory_has_an_end, start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
