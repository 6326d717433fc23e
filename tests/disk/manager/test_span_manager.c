/*
 * test_span_manager.c - the store manager's disks (user/store/device.c) are several.
 *
 * Its file is compiled in, and kd_system() is ours: three disks in memory, each of which counts
 * what it is asked for. Pages go to and come from the right places, all disks work at once, and a
 * flush reaches each disk that pages were written to.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "user/store/device.c"
#include "user/store/mapped.c"

#undef fail
#include "tools/lib/tools.h"

struct options options;                 /* the metadata in its own memory */
enum { DISKS = 3, MIB = 1 << 20, UNIT = 16384 };
static uint8_t *bytes_of[DISKS];
static const uint64_t sizes[DISKS] = { 3 * MIB, 2 * MIB, 2 * MIB };
static atomic_uint flushes[DISKS], calls[DISKS];
static int flush_error[DISKS];
/* calls about pages wait until so many disks have one; 0: they do not wait */
static unsigned together;
static atomic_uint inside;

struct server server;
void cleaner_step(void) {}

static void meet(void)
{
    inside++;
    while (together && inside < together)
        nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
}

/* A page of an object is the number of the object, everywhere. */
static long pages(int disk, struct kd_page_io *io, long count, bool writes)
{
    calls[disk]++;
    meet();
    for (long i = 0; i < count; i++) {
        uint8_t *at = bytes_of[disk] + io[i].offset_bytes;
        assert_true(io[i].offset_bytes + PAGE_BYTES <= sizes[disk]);
        if (writes)
            memset(at, (int)io[i].page, PAGE_BYTES);
        io[i].crc = at[0];
        io[i].csn = 1000 + io[i].page;
        io[i].status = at[0] == 99 ? -EIO : 0;
    }
    return 0;
}

long kd_system(long number, long a, long b, long c, long d)
{
    switch (number) {
    case KD_BLOCK_READ: memcpy((void *)c, bytes_of[a] + b, (size_t)d); return 0;
    case KD_BLOCK_WRITE: memcpy(bytes_of[a] + b, (const void *)c, (size_t)d); return 0;
    case KD_BLOCK_FLUSH: flushes[a]++; return flush_error[a];
    case KD_BLOCK_READ_PAGES: return pages((int)a, (void *)b, c, false);
    case KD_BLOCK_WRITE_PAGES: return pages((int)a, (void *)b, c, true);
    default: return -ENOSYS;
    }
}

static int disks_make(void **state)
{
    (void)state;
    static const int handles[DISKS] = { 2, 0, 1 };      /* in another order than they are made */
    uint64_t given[DISKS];
    struct store_options options = { .uuid = { 1 }, .log_bytes = 65536 };
    struct disk_io io[DISKS];
    struct span made;
    struct span_report report;
    for (int i = 0; i < DISKS; i++) {
        bytes_of[i] = calloc(1, sizes[i]);
        disks[i].handle = i;
        pthread_mutex_init(&disks[i].flush, NULL);
        io[i] = (struct disk_io){ .context = &disks[i], .bytes = sizes[i], .read = device_read,
                                  .write = device_write, .flush = device_flush };
    }
    if (span_format(io, DISKS, &disk_memory, &options, UNIT, &made))
        return -1;
    memset(disks, 0, sizeof disks);
    for (int i = 0; i < DISKS; i++)
        given[i] = sizes[handles[i]];
    if (disks_join(handles, given, DISKS, &report) || !device_workers())
        return -1;
    for (uint32_t i = 1; i < DISKS; i++)
        while (!__atomic_load_n(&workers.ready[i], __ATOMIC_ACQUIRE))
            nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
    return server.disk.flush(server.disk.context);
}

static void pages_name(struct kd_page_io *io, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        io[i] = (struct kd_page_io){ .page = 1 + i, .status = -EIO,
                                     .offset_bytes = span.head_bytes + (uint64_t)i * PAGE_BYTES };
}

static void counts_forget(void)
{
    for (int i = 0; i < DISKS; i++)
        flushes[i] = calls[i] = 0;
    inside = together = 0;
}

/* Aim (DV3): each page goes to its place in the whole, and results come back in the caller's
 * order; each disk has one call, and all three are under way at once. */
static void pages_go_to_their_places_at_once(void **state)
{
    (void)state;
    struct kd_page_io io[48];
    uint8_t page[PAGE_BYTES];
    counts_forget();
    together = DISKS;
    pages_name(io, 48);
    device_pages(true, io, 48);
    for (int i = 0; i < DISKS; i++)
        assert_int_equal(calls[i], 1);
    for (unsigned i = 0; i < 48; i++) {
        uint64_t at = span.head_bytes + (uint64_t)i * PAGE_BYTES;
        assert_true(io[i].offset_bytes == at && io[i].page == 1 + i && io[i].csn == 1001 + i);
        assert_int_equal(io[i].crc, 1 + i);
        assert_int_equal(io[i].status, 0);
        assert_int_equal(server.disk.read(server.disk.context, at, page, sizeof page), 0);
        assert_true(page[0] == 1 + i && page[PAGE_BYTES - 1] == 1 + i);
    }
    counts_forget();
    pages_name(io, 48);
    device_pages(false, io, 48);
    for (unsigned i = 0; i < 48; i++)
        assert_true(io[i].crc == 1 + i && io[i].csn == 1001 + i);
}

/* Aim (SN1): pages that were written are flushed, on the disks that they lie on and no other; a
 * commit's flush reaches the first disk only. */
static void pages_that_were_written_are_flushed(void **state)
{
    (void)state;
    struct kd_page_io io[3 * UNIT / PAGE_BYTES];
    const unsigned in_unit = UNIT / PAGE_BYTES;
    (void)server.disk.flush(server.disk.context);
    for (unsigned disk = 0; disk < DISKS; disk++) {
        counts_forget();
        pages_name(io, 3 * in_unit);
        device_pages(true, io + disk * in_unit, in_unit);
        assert_int_equal(server.disk.flush_log(server.disk.context), 0);
        for (unsigned i = 0; i < DISKS; i++)
            assert_int_equal(flushes[i], i == disk && !disk);
        assert_int_equal(server.disk.flush(server.disk.context), 0);
        for (unsigned i = 0; i < DISKS; i++)
            assert_int_equal(flushes[i], i == disk);
        assert_int_equal(server.disk.flush(server.disk.context), 0);
        assert_int_equal(flushes[disk], 1);
        pages_name(io, 3 * in_unit);
        device_pages(false, io, 3 * in_unit);           /* reading makes nothing to flush */
        assert_int_equal(server.disk.flush(server.disk.context), 0);
        assert_int_equal(flushes[disk], 1);
    }
}

/* Aim (DV1): when the flush of one disk has failed none of it succeeds later. */
static void a_disk_whose_flush_failed_stays_failed(void **state)
{
    (void)state;
    struct kd_page_io io[1];
    pages_name(io, 1);
    io->offset_bytes += UNIT;
    device_pages(true, io, 1);
    flush_error[1] = -EIO;
    assert_int_equal(server.disk.flush(server.disk.context), -EIO);
    flush_error[1] = 0;
    assert_int_equal(server.disk.flush(server.disk.context), -EIO);
    assert_int_equal(server.disk.flush_log(server.disk.context), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_go_to_their_places_at_once),
        cmocka_unit_test(pages_that_were_written_are_flushed),
        cmocka_unit_test(a_disk_whose_flush_failed_stays_failed),
    };
    return cmocka_run_group_tests(tests, disks_make, NULL);
}
