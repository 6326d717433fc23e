/*
 * test_prepared_starts.c - transactions of several stores in a store that starts again and again,
 * or that is made again from its log.
 */
#define host_memory test_memory
#include "tools/kstore/copy.c"

#include "opinion.h"
#include "prepared_rig.h"

/* Aim (SB5): a vote that waits, and a decision that is kept, through any number of starts with a
 * group behind each: the table of epochs is never full of them. */
static void what_is_in_doubt_outlives_many_starts(void **state)
{
    (void)state;
    for (int kept = 0; kept < 2; kept++) {
        struct bench b;
        bench_open(&b, 4 << 20, 1 << 20);
        assert_int_equal(kept ? decide(&b, 1) : prepare(&b, 1, 0, 3), 0);
        for (int i = 0; i < 40; i++) {
            bench_renew(&b);
            assert_int_equal(write_page(&b, 9, 7), 0);
            if (i % 4 == 3) {
                bench_clean(&b);
                assert_int_equal(store_close(b.store), 0);
                b.store = NULL;
            }
            bench_reopen(&b);
            assert_int_equal(b.report.doubts, 1);
            assert_true(b.store->super.epoch_count <= EPOCH_MAX - 2);
        }
        kcheck_agrees(&b);
        assert_int_equal(kept ? bench_alone(&b, 1, store_forget) : decide(&b, 1), 0);
        bench_close(&b);
    }
}

/* Aim (SB5): of a store whose votes nobody writes again kcheck says when the next start has no room
 * for its epoch, and no earlier. */
static void kcheck_says_when_epochs_have_no_room(void **state)
{
    (void)state;
    struct bench b;
    struct kcheck_result own;
    char said[OPINION_BYTES];
    int error = 0, starts = 0;
    bench_open(&b, 4 << 20, 1 << 20);
    assert_int_equal(prepare(&b, 1, 0, 3), 0);
    for (; !error; starts++) {
        assert_int_equal(write_page(&b, 9, 7), 0);
        store_abandon(b.store);
        opinion_ask(&b.device, &own, said);
        assert_int_equal(own.error, 0);
        error = store_open(&b.io, &test_memory, NULL, &b.store, &b.report);
        assert_int_equal(own.damages, error != 0);
    }
    assert_int_equal(error, -EUCLEAN);
    assert_in_range(starts, EPOCH_MAX - 1, EPOCH_MAX + 1);
    b.store = NULL;
    bench_close(&b);
}

/* ---- a host tool that fills a store with votes or decisions in it, as kstore put and import do */

static const struct bench *copied_to;

struct disk_io image_disk_io(struct image *image)
{
    (void)image;
    return copied_to->io;
}

/* session: a container of its own, with some pages; closed, or cut off. */
static int session(struct bench *b, unsigned number, unsigned pages, bool close)
{
    struct copy copy = { .pages = 0 };
    uint8_t bytes[4096];
    char name[16];
    struct store_op make = { .type = STORE_OP_CREATE, .name = name };
    snprintf(name, sizeof name, "put %u", number);
    copied_to = b;
    int error = copy_begin(&copy);
    if (error)
        return error;
    error = copy_op(&copy, &make);
    for (unsigned i = 0; i < pages && !error; i++) {
        value_fill(bytes, i);
        error = copy_page(&copy, make.object, i, bytes);
    }
    return copy_end(&copy, close, error) ?: error;
}

static void in_doubt_for_sessions(struct bench *b, bool kept)
{
    bench_open(b, 32 << 20, 1 << 20);
    assert_int_equal(kept ? decide(b, 1) : prepare(b, 1, 0, 3), 0);
    assert_int_equal(store_close(b->store), 0);
    b->store = NULL;
}

static void still_in_doubt(struct bench *b, bool kept)
{
    bench_reopen(b);
    assert_int_equal(b->report.doubts, 1);
    kcheck_agrees(b);
    assert_int_equal(kept ? bench_alone(b, 1, store_forget) : decide(b, 1), 0);
    bench_close(b);
}

/* Aim (SB5): through any number of sessions, closed or not. */
static void what_is_in_doubt_outlives_many_sessions_of_kstore(void **state)
{
    (void)state;
    for (int kept = 0; kept < 2; kept++) {
        struct bench b;
        in_doubt_for_sessions(&b, kept);
        for (unsigned i = 0; i < 30; i++)
            assert_int_equal(session(&b, i, 3, i % 8 < 2), 0);
        still_in_doubt(&b, kept);
    }
}

/* Aim (TP2): through more pages than the log has, eight times over. */
static void what_is_in_doubt_does_not_fill_the_log_of_kstore(void **state)
{
    (void)state;
    for (int kept = 0; kept < 2; kept++) {
        struct bench b;
        in_doubt_for_sessions(&b, kept);
        assert_int_equal(session(&b, 0, 2048, true), 0);
        still_in_doubt(&b, kept);
    }
}

/* ---- another life of the store */

struct archive { struct bench *b; uint64_t end; };

/* The group at this LSN, from the ring of the store that is lost. */
static int group_archived(void *context, uint64_t lsn, const void **group, size_t *bytes)
{
    const struct archive *a = context;
    const struct superblock *super = &a->b->store->super;
    if (lsn >= a->end)
        return 0;
    *group = a->b->device.image + super->log_start + lsn % super->log_bytes;
    *bytes = group_bytes(*group);
    return 1;
}

/* Aim (RL3): what a store had promised is no promise of the one that is restored from its log. */
static void a_restored_store_has_no_part_in_votes(void **state)
{
    (void)state;
    struct bench b, copy;
    struct store *store;
    bench_open(&b, 4 << 20, 1 << 20);
    memset(&copy, 0, sizeof copy);
    device_open(&copy.device, 4 << 20);
    copy.io = device_io(&copy.device);
    memcpy(copy.device.image, b.device.image, 4 << 20);
    assert_int_equal(prepare(&b, 1, 0, 3), 0);
    assert_int_equal(write_page(&b, 9, 7), 0);
    struct archive archive = { &b, b.store->log.end };
    struct store_roll roll = { .context = &archive, .next = group_archived, .uuid = { 77 } };
    struct store_open_options options = { .roll = &roll };
    assert_int_equal(store_open(&copy.io, &test_memory, &options, &store, &copy.report), 0);
    assert_true(roll.groups >= 2);
    assert_int_equal(copy.report.doubts, 0);
    assert_int_equal(store->doubts.first || store->holds || store->chains, 0);
    for (int i = 0; i < 2; i++) {
        struct store_page page;
        assert_int_equal(store_page_find(store, b.object, 9, &page), 0);
        assert_true(page.present);
        assert_int_equal(store_page_find(store, b.object, 1, &page), 0);
        assert_false(page.present || store_page_prepared(store, b.object, 1));
        store_abandon(store);
        assert_int_equal(store_open(&copy.io, &test_memory, NULL, &store, &copy.report), 0);
        assert_int_equal(copy.report.doubts, 0);
    }
    store_abandon(store);
    device_close(&copy.device);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_in_doubt_outlives_many_starts),
        cmocka_unit_test(kcheck_says_when_epochs_have_no_room),
        cmocka_unit_test(what_is_in_doubt_outlives_many_sessions_of_kstore),
        cmocka_unit_test(what_is_in_doubt_does_not_fill_the_log_of_kstore),
        cmocka_unit_test(a_restored_store_has_no_part_in_votes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
