/*
 * test_rights_crash.c - the power is cut while directories change.
 *
 * Aim     a link, a move, a revocation is there as a whole or not at all (RT9), and is there once
 *         it was answered; serials are not used again (RT8); an old store is mended whenever its
 *         start is cut off.
 * Method  what a change writes is recorded; then the disk is made that each cut can leave: all
 *         writes before one, and that one torn at each sector from either side. Each is recovered,
 *         and the table of grants is read from it.
 */
#include "directory_rig.h"

static uint64_t before, after, next_before, next_after, states;

static void place(const struct event *write, size_t from, size_t to)
{
    undo_save(&device, write->offset, write->bytes);
    memcpy(device.image + write->offset + from, write->data + from, to - from);
}

/* The disk as it lies there is started from; then it is as it was. */
static void state_check(bool answered, void (*look)(bool answered))
{
    assert_int_equal(open_with(0), 0);
    dir_open();
    look(answered);
    directory_close(dir);
    store_abandon(store);
    store = NULL;
    states++;
}

static void whole_or_nothing(bool answered)
{
    uint64_t found = dir_picture();
    assert_int_equal(dir_report.forged + dir_report.dangling + dir_report.lost, 0);
    if (answered)
        assert_true(found == after);
    else
        assert_true(found == before || found == after);
    assert_true(dir->next >= (found == after ? next_after : next_before));
}

/* Cuts at each write of what `act` does; `look` judges. The last state is the answered one. */
static void cuts(void (*act)(void), void (*look)(bool answered))
{
    before = dir_picture();
    next_before = dir->next;
    device_record(&device, true);
    undo_begin(&device);
    act();
    device_record(&device, false);
    after = dir_picture();
    next_after = dir->next;
    undo_to(&device, 0);
    directory_close(dir);
    store_abandon(store);
    for (uint32_t e = 0; e < device.event_count; e++) {
        const struct event *write = &device.events[e];
        if (write->kind != WRITE_ISSUE)
            continue;
        uint32_t mark = device.undo_count;
        for (size_t cut = 0; cut < write->bytes; cut += SECTOR_BYTES) {
            place(write, 0, cut);
            state_check(false, look);
            undo_to(&device, mark);
            place(write, cut, write->bytes);
            state_check(false, look);
            undo_to(&device, mark);
        }
        place(write, 0, write->bytes);
    }
    state_check(true, look);
    assert_int_equal(open_with(0), 0);  /* as the last cut left it: answered */
    dir_open();
}

static int setup(void **state)
{
    (void)state;
    states = 0;
    dir_make(24 << 20, 1 << 20);
    assert_int_equal(done(directory_make(dir, ROOT, "a", true)), 0);
    assert_int_equal(done(directory_make(dir, ROOT, "a/b", true)), 0);
    assert_int_equal(done(directory_make(dir, ROOT, "a/b/x", false)), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    printf("# %llu states\n", (unsigned long long)states);
    dir_unmake();
    return 0;
}

static void act_link(void)
{
    assert_int_equal(done(directory_link(dir, handle(ROOT, "a/b/x", ALL), R | G | M, ROOT, "a/x")),
                     0);
}

static void act_link_again(void)
{
    assert_int_equal(done(directory_link(dir, handle(ROOT, "a/x", ALL), R, ROOT, "y")), 0);
}

static void a_link_is_whole_or_not_there_RT9(void **state)
{
    (void)state;
    cuts(act_link, whole_or_nothing);   /* makes the root's container, too */
    cuts(act_link_again, whole_or_nothing);
    assert_int_equal(at(ROOT, "y").rights, R);
}

static void act_take_back(void)
{
    struct directory_at x = handle(ROOT, "a/b/x", ALL);
    assert_int_equal(done(directory_take_back(dir, x, at(ROOT, "a/x").serial)), 0);
}

static void act_unlink(void)
{
    assert_int_equal(done(directory_unlink(dir, ROOT, "a/x")), 0);
}

static void a_revocation_is_whole_or_not_there_RT9(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        act_link();
        act_link_again();
        cuts(i ? act_take_back : act_unlink, whole_or_nothing);
        assert_int_equal(walks(ROOT, "y"), -ENOENT);
    }
}

static void act_make(void)
{
    assert_int_equal(done(directory_make(dir, ROOT, "a/b/new", true)), 0);
}

static void act_move(void)
{
    assert_int_equal(done(directory_move(dir, ROOT, "a/b", ROOT, "b")), 0);
}

static void act_remove(void)
{
    assert_int_equal(done(directory_remove(dir, ROOT, "b/x", NULL)), 0);
}

static void makes_moves_and_deletes_are_whole_or_not_there(void **state)
{
    (void)state;
    act_link();
    cuts(act_make, whole_or_nothing);
    cuts(act_move, whole_or_nothing);
    cuts(act_remove, whole_or_nothing);
    assert_int_equal(walks(ROOT, "a/x"), -ENOENT);
    assert_int_equal(walks(ROOT, "b/new"), 0);
}

/* ---- a revocation of more than one transaction */

enum { LINKS = 300 };

static void act_take_back_many(void)
{
    bool more = true;
    while (more) {
        struct directory_at x = handle(ROOT, "a/b/x", ALL);
        assert_int_equal(directory_take_back(dir, x, at(ROOT, "l0").serial), 0);
        more = directory_change(dir)->more;
        assert_int_equal(done(0), 0);
    }
}

/* Until nothing is left, the target is there, and can be taken back again. */
static void target_goes_last(bool answered)
{
    assert_int_equal(dir_report.forged + dir_report.dangling, 0);
    assert_true(answered ? dir->links == 0 : dir->links <= LINKS);
    assert_int_equal(walks(ROOT, "l0"), dir->links ? 0 : -ENOENT);
    if (dir->links && dir->links < LINKS) {
        act_take_back_many();
        assert_int_equal(dir->links, 0);
    }
}

static void a_long_revocation_goes_from_the_leaves_on(void **state)
{
    char name[STORE_NAME_BYTES];
    (void)state;
    for (int i = 0; i < LINKS; i++) {
        snprintf(name, sizeof name, "l%d", i);
        assert_int_equal(done(directory_link(dir, handle(ROOT, i ? "l0" : "a/b/x", ALL), ALL, ROOT,
                                             name)), 0);
    }
    cuts(act_take_back_many, target_goes_last);
}

/* ---- old stores */

static unsigned renamed;

static void act_mend(void)
{
    const char *from, *to;
    int r;
    while ((r = directory_mend(dir)) == 0) {
        for (unsigned i = 0; directory_renamed(dir, i, &from, &to); i++) {
            renamed++;
            assert_true(directory_name_ok(to) && !directory_name_ok(from));
        }
        assert_true(directory_change(dir)->count <= DIRECTORY_NAMES);
        assert_int_equal(done(0), 0);
    }
    assert_int_equal(r, -ENOENT);
}

static void mends_to_the_same(bool answered)
{
    if (answered)
        assert_true(dir_picture() == after);
    act_mend();
    assert_true(dir_picture() == after);
}

static uint64_t named(const char *name)
{
    struct store_op create = { .type = STORE_OP_CREATE, .name = name };
    assert_int_equal(ops_commit(&create, 1), 0);
    return store_object_next(store) - 1;
}

static void an_old_store_is_mended_whenever_it_is_cut_off(void **state)
{
    char name[STORE_NAME_BYTES], longest[STORE_NAME_BYTES];
    (void)state;
    directory_close(dir);
    unmake();
    make(48 << 20, 1 << 20);
    memset(longest, '/', sizeof longest);
    longest[63] = 0;
    uint64_t plain = named("a_b"), slash = named("a/b"), colon = named("a:b");
    uint64_t long1 = named(longest);
    longest[5] = ':';
    uint64_t long2 = named(longest), dots = named("..");
    for (int i = 0; i < 280; i++) {
        snprintf(name, sizeof name, i % 2 ? "n/%d" : "n:%d", i / 2);
        named(name);
    }
    dir_open();
    renamed = 0;
    assert_int_equal(walks(ROOT, "a/b"), -ENOENT);
    cuts(act_mend, mends_to_the_same);
    assert_true(renamed >= 285);
    assert_int_equal(at(ROOT, "a_b").container, plain);
    assert_int_equal(at(ROOT, "a_b_2").container, slash);
    assert_int_equal(at(ROOT, "a_b_3").container, colon);
    assert_int_equal(at(ROOT, "_.").container, dots);
    memset(longest, '_', 63);
    assert_int_equal(at(ROOT, longest).container, long1);
    longest[62] = '2';
    assert_int_equal(at(ROOT, longest).container, long2);
    assert_int_equal(at(ROOT, "n_139_2").container, dots + 280);
    renamed = 0;
    dir_reopen();
    act_mend();
    assert_int_equal(renamed, 0);
}

/* Aim: a start without a single thing to mend writes nothing; nor does an old store get rows. */
static void an_old_store_takes_no_names(void **state)
{
    struct store_stats stats;
    (void)state;
    store_stats(store, &stats);
    assert_int_equal(stats.names, 2);   /* b in a, x in b */
    assert_int_equal(directory_mend(dir), -ENOENT);
    assert_int_equal(at(ROOT, "c").serial, DIRECTORY_FIRST | object);
    assert_int_equal(at(ROOT, "c").rights, ALL);
    assert_int_equal(dir->root, 0);
}

#define named_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        named_test(a_link_is_whole_or_not_there_RT9),
        named_test(a_revocation_is_whole_or_not_there_RT9),
        named_test(makes_moves_and_deletes_are_whole_or_not_there),
        named_test(a_long_revocation_goes_from_the_leaves_on),
        named_test(an_old_store_is_mended_whenever_it_is_cut_off),
        named_test(an_old_store_takes_no_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
