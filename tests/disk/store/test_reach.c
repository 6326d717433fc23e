/*
 * test_reach.c - what the disk library needs for its work: log bytes, writes, flushes.
 *
 * Aim     difference records take little more log than what was changed; a checkpoint needs two
 *         flushes, a recovery three; opening a large store takes no more requests than a small one;
 *         metadata is read and written in runs, and only what changed is written.
 * Method  the library over an anonymous file that counts requests. `--bench` prints the figures for
 *         scripts/bench; `--image FILE log MIB` and `--image FILE records N` leave a store in FILE
 *         whose log has that much to recover, which `--recover FILE NAME REACH` does; with NAME
 *         "-" it prints the microseconds only, and those that the verifying scan takes.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "device.h"
#include "internal.h"

enum { PAGES = 1024 };

static struct { uint64_t reads, writes, flushes, write_bytes; } seen;
static int file;

static int file_read(void *c, uint64_t at, void *to, size_t n)
{
    (void)c;
    seen.reads++;
    ssize_t got = pread(file, to, n, (off_t)at);
    return got == (ssize_t)n ? 0 : -5;
}
static int file_write(void *c, uint64_t at, const void *from, size_t n)
{
    (void)c;
    seen.writes++;
    seen.write_bytes += n;
    return pwrite(file, from, n, (off_t)at) == (ssize_t)n ? 0 : -5;
}
static int file_flush(void *c) { (void)c; seen.flushes++; return 0; }

static struct store *store;
static struct disk_io io = { .read = file_read,
                            .write = file_write, .flush = file_flush };

static void must(int error, const char *what)
{
    if (error == 0) return;
    dprintf(1, "# %s: error %d\n", what, -error);
    exit(1);
}
#define MUST(e) must((e), #e)

static void fresh(uint64_t disk_bytes, uint64_t log_bytes)
{
    const struct store_options options = {.uuid = {1, 2, 3}, .log_bytes = log_bytes};
    struct store_report report;
    io.bytes = disk_bytes;
    MUST(ftruncate(file, 0) || ftruncate(file, (off_t)disk_bytes));
    MUST(store_format(&io, &test_memory, &options));
    MUST(store_open(&io, &test_memory, NULL, &store, &report));
    memset(&seen, 0, sizeof seen);
}

static void again(struct store_report *report)
{
    store_abandon(store);
    memset(&seen, 0, sizeof seen);
    MUST(store_open(&io, &test_memory, NULL, &store, report));
}

static struct store_group *begin(void)
{
    struct store_group *group;
    MUST(store_group_begin(store, &group));
    MUST(store_txn_begin(group, 1));
    return group;
}

static uint64_t finish(struct store_group *group)
{
    uint32_t position;
    MUST(store_txn_end(group, &position));
    MUST(store_group_seal(group));
    uint64_t bytes = group_bytes(group->buffer);
    MUST(store_group_write(group));
    MUST(store_group_apply(group));
    return bytes;
}

static uint64_t create(void)
{
    struct store_op op = {.type = STORE_OP_CREATE, .name = "box"};
    struct store_group *group = begin();
    MUST(store_txn_op(group, &op));
    finish(group);
    return op.object;
}

static uint8_t page_bytes[4096];

static void pages_write(uint64_t object, uint64_t first, uint64_t count)
{
    struct store_group *group = begin();
    for (uint64_t p = first; p < first + count; p++) {
        memset(page_bytes, (int)p + 1, sizeof page_bytes);
        MUST(store_txn_page(group, object, p, page_bytes));
    }
    finish(group);
}

static void checkpoint(void)
{
    uint64_t object, page, offset;
    store_lsn_t lsn;
    MUST(store_checkpoint_begin(store));
    int error;
    while ((error = store_checkpoint_next(store, &object, &page, &lsn)) != -ENOENT) {
        if (error == -EAGAIN)
            continue;
        MUST(error);
        MUST(store_page_home(store, object, page, &offset));
        memset(page_bytes, (int)page + 1, sizeof page_bytes);
        MUST(io.write(NULL, offset, page_bytes, sizeof page_bytes));
        MUST(
            store_page_cleaned(store, object, page, lsn, crc32c(0, page_bytes, sizeof page_bytes)));
    }
    while ((error = store_checkpoint_seal(store)) == -EAGAIN)
        MUST(store_checkpoint_write(store));
    MUST(error);
    MUST(store_checkpoint_write(store));
    MUST(store_checkpoint_apply(store));
}

/* One transaction that changes `runs` runs of 16 bytes in each of `count` pages. */
static uint64_t differences(uint64_t object, uint64_t count, uint32_t runs)
{
    struct diff_run run[64];
    struct store_group *group = begin();
    for (uint32_t i = 0; i < runs; i++) run[i] = (struct diff_run){(uint16_t)(i * 48), 16};
    for (uint64_t p = 0; p < count; p++) {
        struct store_page at;
        MUST(store_page_find(store, object, p, &at));
        MUST(txn_diff(group, object, p, at.lsn, run, runs, page_bytes));
    }
    return finish(group);
}

/* Log bytes against 1.3 times the changed bytes and 64 for each page; the worst of several. */
static double difference_ratio(void)
{
    double worst = 0;
    fresh(64 << 20, 16 << 20);
    uint64_t object = create();
    for (uint64_t p = 0; p < PAGES; p += 256) pages_write(object, p, 256);
    for (uint32_t runs = 1; runs <= 64; runs *= 2) {
        double ratio = (double)differences(object, PAGES, runs) / (PAGES * (1.3 * 16 * runs + 64));
        if (ratio > worst) worst = ratio;
    }
    store_abandon(store);
    return worst;
}

static void difference_records_are_small(void **state)
{
    (void)state;
    assert_true(difference_ratio() <= 1.0);
}

static uint64_t checkpoint_flushes(void)
{
    fresh(64 << 20, 16 << 20);
    pages_write(create(), 0, 256);
    memset(&seen, 0, sizeof seen);
    checkpoint();
    return seen.flushes;
}
static uint64_t recovery_flushes(void)
{
    struct store_report report;
    pages_write(create(), 0, 256);
    again(&report);
    assert_true(report.pages >= 256);
    uint64_t flushes = seen.flushes;
    store_abandon(store);
    return flushes;
}

/* Recovery flushes before it writes, for what it read may lie in the disk's cache only, before the
 * superblock that names what it wrote, and behind that. */
static void flushes_of_checkpoint_and_recovery(void **state)
{
    (void)state;
    assert_int_equal(checkpoint_flushes(), 2);
    store_abandon(store);
    fresh(64 << 20, 16 << 20);
    assert_int_equal(recovery_flushes(), 3);
}

static void start_requests(uint64_t disk_bytes, uint64_t *reads, uint64_t *writes)
{
    struct store_report report;
    fresh(disk_bytes, 2 << 20);
    pages_write(create(), 0, 16);
    checkpoint();
    MUST(store_close(store));
    memset(&seen, 0, sizeof seen);
    MUST(store_open(&io, &test_memory, NULL, &store, &report));
    assert_true(report.was_clean);
    *reads = seen.reads;
    *writes = seen.writes;
    store_abandon(store);
}

static void a_large_store_opens_with_the_requests_of_a_small_one(void **state)
{
    uint64_t small[2], large[2];
    (void)state;
    start_requests(16ull << 20, &small[0], &small[1]);
    start_requests(16ull << 30, &large[0], &large[1]);
    printf("# start of 16 MiB: %llu reads, %llu writes; of 16 GiB: %llu, %llu\n",
           (unsigned long long)small[0], (unsigned long long)small[1],
           (unsigned long long)large[0], (unsigned long long)large[1]);
    assert_true((large[0] + large[1]) * 10 <= (small[0] + small[1]) * 11);
}

/* Extents that are claimed: each has a leaf, and nothing has to go home. */
static void claim(uint64_t object, uint64_t extents)
{
    for (uint64_t at = 0; at < extents; at += 4096) {
        struct store_op op = {.type = STORE_OP_PAGE_CLAIM, .object = object, .page = at * 4,
                              .count = 4096 * 4};
        struct store_group *group = begin();
        MUST(store_txn_op(group, &op));
        finish(group);
    }
}

/* Aim: metadata is read in runs; what both areas hold at a start is not written again, neither by
 * the first checkpoint nor by later ones, and what then changes is. */
static void metadata_goes_in_runs_and_only_if_it_changed(void **state)
{
    struct store_report report;
    (void)state;
    fresh(4ull << 30, 8 << 20);
    uint64_t object = create();
    claim(object, 16 * 4096);
    checkpoint();
    uint64_t all = seen.write_bytes;
    checkpoint();
    assert_true(all > 8 << 20);
    MUST(store_close(store));
    store = NULL;
    for (int i = 0; i < 3; i++) {
        again(&report);
        assert_true(report.was_clean);
        assert_true(seen.reads < 12 + all / 4096 / 32);
        if (i == 1) pages_write(object, 0, 4);
        memset(&seen, 0, sizeof seen);
        checkpoint();
        assert_true(seen.write_bytes < all / 8);
        MUST(store_check(store, &report.message));
        MUST(store_close(store));
        store = NULL;
    }
}

/* ---- stores to be recovered in the guest ---- */

static int image_make(const char *path, const char *what, uint64_t n)
{
    struct store_stats stats;
    file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    bool records = strcmp(what, "records") == 0;
    uint64_t wanted = records ? 0 : n << 20;
    fresh(1024u << 20, records ? 64 << 20 : wanted + (8 << 20));
    uint64_t object = create();
    for (uint64_t p = 0; p < PAGES; p += 256) pages_write(object, p, 256);
    for (uint64_t done = 0; records && done < n; done += 1000) differences(object, 1000, 1);
    for (store_stats(store, &stats); stats.log_bytes_written < wanted; store_stats(store, &stats))
        pages_write(object, stats.groups % 4 * 256, 255);
    store_abandon(store);
    return close(file);
}

/* ---- how long a recovery takes here: of an image in memory, the least of five */

static uint8_t *mapped;

static int map_read(void *c, uint64_t at, void *to, size_t n)
{
    (void)c;
    memcpy(to, mapped + at, n);
    return 0;
}
static int map_write(void *c, uint64_t at, const void *from, size_t n)
{
    (void)c;
    memcpy(mapped + at, from, n);
    return 0;
}
static uint64_t clock_now(void *c)
{
    struct timespec now;
    (void)c;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}
static void *plain_alloc(void *c, size_t n) { (void)c; return malloc(n); }
static void *plain_zeroed(void *c, size_t n) { (void)c; return calloc(1, n); }
static void plain_free(void *c, void *memory, size_t n) { (void)c; (void)n; free(memory); }

static int image_recover(const char *path, const char *name, const char *reach)
{
    const struct disk_memory memory = { NULL, plain_alloc, plain_free, plain_zeroed };
    const struct disk_clock clock = { NULL, clock_now };
    const struct store_open_options how = { .clock = &clock };
    struct store_report report;
    uint64_t least = UINT64_MAX, verify = 0;
    file = open(path, O_RDONLY);
    off_t bytes = lseek(file, 0, SEEK_END);
    const struct disk_io map = { .bytes = (uint64_t)bytes, .read = map_read, .write = map_write,
                                 .flush = file_flush };
    for (int i = 0; i < 5; i++) {
        mapped = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
        MUST(mapped == MAP_FAILED);
        MUST(store_open(&map, &memory, &how, &store, &report));
        verify = report.microseconds < least ? report.verify_microseconds : verify;
        least = report.microseconds < least ? report.microseconds : least;
        store_abandon(store);
        MUST(munmap(mapped, (size_t)bytes));
    }
    if (strcmp(name, "-") == 0) {
        printf("%llu\t%llu\n", (unsigned long long)least, (unsigned long long)verify);
        return close(file);
    }
    printf("%s\tms\t%.0f\t%s\n", name, (double)least / 1000, reach);
    printf("%s: share of the verifying scan (DA-22)\t%%\t%.0f\t-\n", name,
           100 * (double)verify / (double)(least ? least : 1));
    return close(file);
}

static int bench(void)
{
    printf("log bytes of differences against 1.3 x changed bytes + 64 a page\ttimes\t%.2f\t1\n",
           difference_ratio());
    printf("checkpoint: flushes\tflushes\t%llu\t2\n", (unsigned long long)checkpoint_flushes());
    store_abandon(store);
    fresh(64 << 20, 16 << 20);
    printf("recovery that brings pages home: flushes\tflushes\t%llu\t3\n",
           (unsigned long long)recovery_flushes());
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(difference_records_are_small),
        cmocka_unit_test(flushes_of_checkpoint_and_recovery),
        cmocka_unit_test(a_large_store_opens_with_the_requests_of_a_small_one),
        cmocka_unit_test(metadata_goes_in_runs_and_only_if_it_changed),
    };
    crc32c_choose(NULL);
    if (argc == 5 && strcmp(argv[1], "--image") == 0)
        return image_make(argv[2], argv[3], strtoull(argv[4], NULL, 10));
    if (argc == 5 && strcmp(argv[1], "--recover") == 0)
        return image_recover(argv[2], argv[3], argv[4]);
    file = memfd_create("disk", 0);
    if (argc > 1 && strcmp(argv[1], "--bench") == 0) return bench();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
