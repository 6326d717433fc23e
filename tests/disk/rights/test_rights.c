/*
 * test_rights.c - directories and grants (user/store/directory.h): each rule on its own.
 *
 * Aim     what tests/model/rights.md says of the directory service, RT6 to RT10, holds in the code
 *         that is the service; and what user/store/directories.md says of names, paths and limits.
 * Method  lib/directory_rig.h: plans are committed to a store in memory. Random operations are
 *         test_rights_random.c, power cuts test_rights_crash.c, forged bytes
 *         test_rights_hostile.c.
 */
#include "directory_rig.h"

static int setup(void **state)
{
    (void)state;
    dir_make(64 << 20, 4 << 20);
    assert_int_equal(done(directory_make(dir, ROOT, "a", true)), 0);
    assert_int_equal(done(directory_make(dir, ROOT, "a/b", true)), 0);
    assert_int_equal(done(directory_make(dir, ROOT, "a/b/x", false)), 0);
    assert_int_equal(done(directory_make(dir, ROOT, "y", false)), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dir_unmake();
    return 0;
}

/* ---- names and paths */

static void a_name_is_bytes_without_slash_colon_and_control(void **state)
{
    char longest[STORE_NAME_BYTES + 1];
    (void)state;
    memset(longest, 'n', sizeof longest);
    longest[63] = 0;
    assert_true(directory_name_ok(longest));
    assert_int_equal(done(directory_make(dir, ROOT, longest, false)), 0);
    longest[63] = 'n';
    longest[64] = 0;
    assert_false(directory_name_ok(longest));
    assert_int_equal(directory_make(dir, ROOT, longest, false), -ENAMETOOLONG);
    const char *bad[] = { "", ".", "..", "a:b", "a\nb", "\4root", "\177", "a/b" };
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(directory_name_ok(bad[i]));
    for (unsigned i = 1; i + 1 < sizeof bad / sizeof *bad; i++)
        assert_int_equal(walks(ROOT, bad[i]), -EINVAL);
    assert_true(directory_name_ok("...") && directory_name_ok(" ") && directory_name_ok("\xff"));
    assert_true(directory_name_reserved("\3manager") && directory_name_reserved("\4next") &&
                directory_name_reserved("\5pages"));
    assert_false(directory_name_reserved("\1root") || directory_name_reserved("a"));
}

static void names_that_differ_in_case_and_encoding_are_two(void **state)
{
    const char *names[] = { "note", "Note", "NOTE", "\xc3\xa4", "a\xcc\x88", "\xe4", " note" };
    enum { NAMES = sizeof names / sizeof *names };
    (void)state;
    for (unsigned round = 0; round < 2; round++)
        for (unsigned i = 0; i < NAMES; i++) {
            char path[STORE_NAME_BYTES] = "a/";
            strcpy(path + (round ? 2 : 0), names[i]);
            assert_int_equal(done(directory_make(dir, ROOT, path, false)), 0);
            assert_int_equal(directory_make(dir, ROOT, path, false), -EEXIST);
            assert_int_equal(at(ROOT, path).container, object + 5 + round * NAMES + i);
        }
}

static void a_path_leads_down_and_never_up(void **state)
{
    (void)state;
    struct directory_found x = at(ROOT, "a/b/x");
    assert_true(x.serial == (DIRECTORY_FIRST | x.container) && !x.is_directory);
    assert_string_equal(x.name, "x");
    assert_int_equal(at(handle(ROOT, "a/b", ALL), "x").serial, x.serial);
    assert_int_equal(walks(ROOT, "a/b/../b/x"), -EINVAL);
    assert_int_equal(walks(ROOT, "/a"), -EINVAL);
    assert_int_equal(walks(ROOT, "a//b"), -EINVAL);
    assert_int_equal(walks(ROOT, "a/"), -EINVAL);
    assert_int_equal(walks(ROOT, "y/z"), -ENOTDIR);
    assert_int_equal(walks(ROOT, "q/z"), -ENOENT);
    struct directory_found missing;
    assert_int_equal(directory_walk(dir, ROOT, "q/z", &missing), -ENOENT);
    assert_string_equal(missing.name, "");
    assert_int_equal(directory_walk(dir, ROOT, "a/b/z", &missing), -ENOENT);
    assert_string_equal(missing.name, "z");
    assert_int_equal(missing.directory, at(ROOT, "a/b").container);
    assert_int_equal(missing.serial, 0);
    /* what lies in a directory has no name in the root */
    assert_int_equal(walks(ROOT, "x"), -ENOENT);
    char catalogue[STORE_NAME_BYTES];
    snprintf(catalogue, sizeof catalogue, "#%llu", (unsigned long long)x.container);
    assert_int_equal(walks(ROOT, catalogue), -ENOENT);
    struct store_container c;
    assert_int_equal(store_container_find(store, catalogue, &c), 0);
    assert_int_equal(directory_make(dir, ROOT, catalogue, false), -EEXIST);
}

static void paths_are_cut_off_where_they_are_too_long(void **state)
{
    char path[2 * DIRECTORY_PATH] = "a";
    (void)state;
    for (int i = 1; i < DIRECTORY_PARTS; i++) {
        strcat(path, "/d");
        assert_int_equal(done(directory_make(dir, ROOT, path, true)), 0);
    }
    assert_int_equal(walks(ROOT, path), 0);
    strcat(path, "/d");
    assert_int_equal(walks(ROOT, path), -ELOOP);
    memset(path, 'a', DIRECTORY_PATH);
    assert_int_equal(walks(ROOT, path), -ENAMETOOLONG);
}

static void directories_are_as_deep_as_they_may_be(void **state)
{
    struct directory_at here = handle(ROOT, "a/b", ALL);
    int depth = 2;
    (void)state;
    for (; done(directory_make(dir, here, "d", true)) == 0; depth++)
        here = handle(here, "d", ALL);
    assert_int_equal(depth, DIRECTORY_DEPTH);
    assert_int_equal(directory_make(dir, here, "d", true), -ELOOP);
    assert_int_equal(done(directory_make(dir, here, "leaf", false)), 0);
    /* one that has others below it does not go where they would be too deep */
    assert_int_equal(done(directory_make(dir, ROOT, "e", true)), 0);
    assert_int_equal(directory_move(dir, ROOT, "a", ROOT, "e/a"), -ELOOP);
    assert_int_equal(done(directory_move(dir, ROOT, "a/b", ROOT, "e/b")), 0);
    dir_reopen();
    assert_int_equal(dir_report.lost, 0);
}

/* ---- rights on the way */

static void rights_only_shrink_on_the_way_RT7(void **state)
{
    (void)state;
    assert_int_equal(at(ROOT, "a/b/x").rights, ALL);
    assert_int_equal(at(handle(ROOT, "a", R | W), "b/x").rights, R | W);
    /* the entry's own */
    assert_int_equal(done(directory_link(dir, handle(ROOT, "y", ALL), R | D, ROOT, "a/y")), 0);
    assert_int_equal(at(ROOT, "a/y").rights, R | D);
    assert_int_equal(at(handle(ROOT, "a", R | W), "y").rights, R);
    assert_int_equal(at(handle(ROOT, "a/y", ALL), "").rights, R | D);
    /* and those of a directory's entry in between */
    assert_int_equal(done(directory_link(dir, handle(ROOT, "a", ALL), R | G, ROOT, "less")), 0);
    assert_int_equal(at(ROOT, "less/b/x").rights, R | G);
    assert_int_equal(at(ROOT, "less/y").rights, R);
}

static void a_link_has_the_rights_that_its_handle_has_RT7(void **state)
{
    struct directory_at y = handle(ROOT, "y", R | G);
    (void)state;
    assert_int_equal(done(directory_link(dir, y, ALL, ROOT, "a/y")), 0);
    assert_int_equal(at(ROOT, "a/y").rights, R | G);
    assert_int_equal(directory_link(dir, y, W | M, ROOT, "a/none"), -EACCES);
    assert_int_equal(directory_link(dir, handle(ROOT, "y", R | W), R, ROOT, "a/z"), -EACCES);
    y = handle(ROOT, "a/y", ALL);
    y.rights = ALL;                     /* a kernel that attests more does not help */
    assert_int_equal(done(directory_link(dir, y, ALL, ROOT, "a/z")), 0);
    assert_int_equal(at(ROOT, "a/z").rights, R | G);
    dir_reopen();
    assert_int_equal(at(ROOT, "a/z").rights, R | G);
}

/* A result that is -EACCES says that this right is missing, so far above the path's end. */
static int lacks(int result, uint32_t right, uint32_t up)
{
    if (result == -EACCES) {
        assert_int_equal(directory_lack.missing, right);
        assert_int_equal(directory_lack.up, right == R ? up & 255 : up);
        assert_int_equal(directory_lack.has & right, 0);
    }
    return result;
}

/* What is named is the lowest part of the way that lacks it itself, not what it is lost on. */
static void what_is_named_is_the_part_that_lacks_it(void **state)
{
    struct directory_found f;
    (void)state;
    struct directory_at a = handle(ROOT, "a", R | W | D | G), b = handle(ROOT, "a/b", ALL);
    assert_int_equal(done(directory_link(dir, b, R | W | N, ROOT, "a/l")), 0);
    assert_int_equal(directory_walk(dir, a, "l/x", &f), 0);
    assert_int_equal(f.rights, R | W);
    assert_int_equal(f.parts, 2);
    static const struct { uint32_t right, up, has; } named[] = {
        { D, 1, R | W }, { G, 1, R | W }, { N, 2, R | W | D | G }, { M, 1, R | W } };
    for (int i = 0; i < 4; i++) {
        int r = directory_way_needs(&f, f.parts, named[i].right, 0);
        assert_int_equal(lacks(r, named[i].right, named[i].up), -EACCES);
        assert_int_equal(directory_lack.has, named[i].has);
    }
    assert_int_equal(directory_way_needs(&f, f.parts, R | W, 0), 0);
}

static void each_call_needs_its_right(void **state)
{
    struct directory_found f;
    (void)state;
    for (int i = 0; i < 6; i++) {
        uint32_t right[] = { R, W, D, N, M, G }, rights = ALL & ~right[i];
        struct directory_at a = handle(ROOT, "a", rights), x = handle(ROOT, "a/b/x", rights);
        bool no = false;
        assert_int_equal(directory_walk(dir, a, "b", &f), right[i] == R ? -EACCES : 0);
        int r = lacks(directory_walk(dir, a, "b/x", &f), right[i], 2);
        assert_int_equal(r, right[i] == R ? -EACCES : 0);
        r = lacks(directory_make(dir, a, "made", false), right[i], 1);
        no |= right[i] == R || right[i] == W;
        assert_int_equal(r, no ? -EACCES : 0);
        directory_dropped(dir);
        r = lacks(directory_move(dir, a, "b", a, "c"), right[i], 1);
        assert_int_equal(r, right[i] == R || right[i] == N ? -EACCES : 0);
        directory_dropped(dir);
        r = lacks(directory_remove(dir, a, "b/x", NULL), right[i], 2);
        assert_int_equal(r, right[i] == R || right[i] == D ? -EACCES : 0);
        directory_dropped(dir);
        r = lacks(directory_link(dir, x, R | W, ROOT, "linked"), right[i], DIRECTORY_LACK_HANDLE);
        assert_int_equal(r, right[i] == G ? -EACCES : 0);
        directory_dropped(dir);
        r = lacks(directory_limit_set(dir, a, "", LIMIT_PAGES, 7), right[i], 0);
        assert_int_equal(r, right[i] == M ? -EACCES : 0);
        directory_dropped(dir);
    }
    int moved = directory_move(dir, ROOT, "a/b/x", handle(ROOT, "a", R), "x");
    assert_int_equal(lacks(moved, W, 1 | DIRECTORY_LACK_TO), -EACCES);
    struct directory_entry entry;
    uint64_t cursor = 0;
    unsigned count;
    assert_int_equal(directory_list(dir, handle(ROOT, "a", ALL & ~R), &cursor, &entry, 1, &count),
                     -EACCES);
}

/* ---- grants */

static void one_change_at_a_time_RT6(void **state)
{
    struct directory_at y = handle(ROOT, "y", ALL);
    (void)state;
    assert_int_equal(done(directory_link(dir, y, ALL, ROOT, "a/y")), 0);
    struct directory_at link = handle(ROOT, "a/y", ALL);
    assert_int_equal(directory_take_back(dir, y, link.serial), 0);
    /* nothing is made of what is about to end */
    assert_int_equal(directory_link(dir, link, R, ROOT, "a/z"), -EBUSY);
    assert_int_equal(directory_make(dir, ROOT, "a/z", false), -EBUSY);
    assert_int_equal(directory_move(dir, ROOT, "a/y", ROOT, "a/z"), -EBUSY);
    assert_int_equal(directory_remove(dir, ROOT, "a/y", NULL), -EBUSY);
    assert_int_equal(directory_unlink(dir, ROOT, "a/y"), -EBUSY);
    assert_int_equal(directory_take_back(dir, y, link.serial), -EBUSY);
    assert_int_equal(directory_limit_set(dir, ROOT, "", LIMIT_PAGES, 1), -EBUSY);
    assert_int_equal(directory_mend(dir), -EBUSY);
    assert_int_equal(done(0), 0);
    assert_int_equal(directory_link(dir, link, R, ROOT, "a/z"), -EIDRM);
    assert_int_equal(walks(link, ""), -EIDRM);
}

static void a_serial_is_never_used_again_RT8(void **state)
{
    struct directory_at y = handle(ROOT, "y", ALL);
    uint64_t last = 0;
    (void)state;
    for (int i = 0; i < 40; i++) {
        assert_int_equal(done(directory_link(dir, y, ALL, ROOT, "a/y")), 0);
        uint64_t serial = at(ROOT, "a/y").serial;
        assert_true(serial > last);
        last = serial;
        if (i % 3 == 0)
            dir_reopen();
        int r = i % 2 ? directory_unlink(dir, ROOT, "a/y")
                      : directory_take_back(dir, y, serial);
        assert_int_equal(done(r), 0);
        if (i % 3 == 1)
            dir_reopen();               /* the last serials are of no grant */
        if (i % 5 == 0)
            checkpoint();
    }
    /* nor is a container's number, and so its first serial */
    uint64_t first = at(ROOT, "y").serial;
    assert_int_equal(done(directory_remove(dir, ROOT, "y", NULL)), 0);
    dir_reopen();
    assert_int_equal(done(directory_make(dir, ROOT, "y", false)), 0);
    assert_true(at(ROOT, "y").serial > first);
    assert_int_equal(walks((struct directory_at){ first, ALL }, ""), -EIDRM);
}

static void a_link_is_one_transaction_RT9(void **state)
{
    (void)state;
    assert_int_equal(directory_link(dir, handle(ROOT, "y", ALL), R, ROOT, "a/y"), 0);
    struct directory_change *c = directory_change(dir);
    unsigned names = 0;
    for (unsigned i = 0; i < c->count; i++)
        names += c->ops[i].type == STORE_OP_NAME_SET;
    assert_int_equal(names, 3);         /* grant, next serial, entry */
    assert_int_equal(c->serial, 1);
    assert_false(c->more);
    /* it is not there before it is durable, and not if it was refused */
    assert_int_equal(walks(ROOT, "a/y"), -ENOENT);
    directory_dropped(dir);
    assert_int_equal(walks(ROOT, "a/y"), -ENOENT);
    assert_int_equal(directory_parent(dir, 1), 0);
    dir_reopen();
    assert_int_equal(dir_report.grants, 0);
}

/* y; y1 of y; y2, y3 of y1; y4 of y3 */
static void family(void)
{
    struct { const char *of, *name; } const links[] = {
        { "y", "y1" }, { "y1", "y2" }, { "y1", "y3" }, { "y3", "y4" } };
    for (int i = 0; i < 4; i++)
        assert_int_equal(done(directory_link(dir, handle(ROOT, links[i].of, ALL), ALL, ROOT,
                                             links[i].name)), 0);
}

static unsigned ended_count(void)
{
    uint64_t cursor = 0, serial;
    unsigned count = 0;
    while (directory_ended(dir, &cursor, &serial))
        count++;
    return count;
}

static void what_was_granted_out_of_a_grant_ends_with_it_RT10(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        family();
        uint64_t y3 = at(ROOT, "y3").serial;
        if (round)
            dir_reopen();
        struct directory_at y = handle(ROOT, "y", ALL), y1 = handle(ROOT, "y1", ALL);
        assert_int_equal(directory_take_back(dir, y1, y3), 0);
        assert_int_equal(ended_count(), 2);
        assert_int_equal(done(0), 0);
        assert_int_equal(walks(ROOT, "y3"), -ENOENT);
        assert_int_equal(walks(ROOT, "y4"), -ENOENT);
        assert_int_equal(walks(ROOT, "y2"), 0);
        if (round)
            dir_reopen();
        assert_int_equal(directory_take_back(dir, y, y1.serial), 0);
        assert_int_equal(ended_count(), 2);
        assert_int_equal(done(0), 0);
        assert_int_equal(walks(ROOT, "y2"), -ENOENT);
        assert_int_equal(walks(ROOT, "y"), 0);
        dir_reopen();
        assert_int_equal(dir_report.grants + dir_report.forged + dir_report.dangling, 0);
    }
}

static void who_takes_back_manages_a_grant_above_RT10(void **state)
{
    (void)state;
    family();
    struct directory_at y = handle(ROOT, "y", ALL), y1 = handle(ROOT, "y1", ALL),
                        y2 = handle(ROOT, "y2", ALL), y3 = handle(ROOT, "y3", ALL);
    assert_int_equal(directory_take_back(dir, y2, y3.serial), -EACCES);
    assert_int_equal(directory_take_back(dir, y3, y1.serial), -EACCES);
    assert_int_equal(directory_take_back(dir, y3, y.serial), -EACCES);
    assert_int_equal(directory_take_back(dir, handle(ROOT, "c", ALL), y1.serial), -EACCES);
    struct directory_at weak = { y.serial, ALL & ~M };
    assert_int_equal(directory_take_back(dir, weak, y1.serial), -EACCES);
    assert_int_equal(directory_take_back(dir, y2, y2.serial), -ENOENT);
    assert_int_equal(directory_take_back(dir, y, 99), -EIDRM);
    /* all below, and that itself stays */
    assert_int_equal(done(directory_take_back(dir, y1, y1.serial)), 0);
    assert_int_equal(walks(ROOT, "y1"), 0);
    assert_int_equal(walks(ROOT, "y4"), -ENOENT);
    assert_int_equal(dir->links, 1);
}

static void a_grant_ends_with_its_entry_or_its_container_RT10(void **state)
{
    (void)state;
    family();
    assert_int_equal(directory_unlink(dir, ROOT, "y"), -EPERM);
    assert_int_equal(directory_unlink(dir, (struct directory_at){ ROOT.serial, R | W }, "y1"),
                     -EACCES);          /* others have what came out of it */
    assert_int_equal(done(directory_unlink(dir, (struct directory_at){ ROOT.serial, R | W },
                                           "y4")), 0);
    assert_int_equal(done(directory_unlink(dir, ROOT, "y3")), 0);
    assert_int_equal(walks(ROOT, "y4"), -ENOENT);
    uint64_t y2 = at(ROOT, "y2").serial;
    assert_int_equal(directory_remove(dir, ROOT, "y2", NULL), 0);
    assert_int_equal(ended_count(), 3); /* y, y1, y2 */
    assert_int_equal(done(0), 0);
    assert_int_equal(walks(ROOT, "y"), -ENOENT);
    assert_int_equal(walks(ROOT, "y1"), -ENOENT);
    assert_int_equal(walks((struct directory_at){ y2, ALL }, ""), -EIDRM);
    dir_reopen();
    assert_int_equal(dir_report.dangling, 0);
}

/* Aim: what does not fit into one transaction goes from the leaves on, the target last. */
static void many_grants_are_taken_back_in_pieces(void **state)
{
    enum { LINKS = 500 };
    char name[STORE_NAME_BYTES], of[STORE_NAME_BYTES] = "y";
    unsigned rounds = 0;
    (void)state;
    for (int i = 0; i < LINKS; i++) {
        snprintf(name, sizeof name, "a/l%d", i);
        assert_int_equal(done(directory_link(dir, handle(ROOT, of, ALL), ALL, ROOT, name)), 0);
        if (i % 10 == 0)
            strcpy(of, name);
    }
    struct directory_at y = handle(ROOT, "y", ALL);
    uint64_t target = at(ROOT, "a/l0").serial;
    for (bool more = true; more; rounds++) {
        assert_int_equal(directory_take_back(dir, y, target), 0);
        assert_true(directory_change(dir)->count <= DIRECTORY_NAMES);
        more = directory_change(dir)->more;
        assert_int_equal(walks(ROOT, "a/l0"), 0);
        assert_int_equal(done(0), 0);
    }
    assert_int_equal(rounds, (2 * LINKS + DIRECTORY_NAMES - 1) / DIRECTORY_NAMES);
    assert_int_equal(dir->links, 0);
    assert_int_equal(walks(ROOT, "a/l0"), -ENOENT);
}

static void grants_are_as_deep_as_they_may_be(void **state)
{
    char name[STORE_NAME_BYTES];
    struct directory_at here = handle(ROOT, "y", ALL);
    int depth = 0;
    (void)state;
    for (;; depth++) {
        snprintf(name, sizeof name, "l%d", depth);
        int r = done(directory_link(dir, here, ALL, ROOT, name));
        if (r) {
            assert_int_equal(r, -EMLINK);
            break;
        }
        here = handle(ROOT, name, ALL);
    }
    assert_int_equal(depth, DIRECTORY_DEPTH);
    dir_reopen();
    assert_int_equal(dir_report.grants, DIRECTORY_DEPTH);
}

/* ---- moving and deleting */

static void an_entry_moves_with_no_more_rights_than_it_had(void **state)
{
    (void)state;
    assert_int_equal(done(directory_link(dir, handle(ROOT, "y", ALL), ALL, ROOT, "a/y")), 0);
    struct directory_at a = handle(ROOT, "a", R | W | N | G), b = handle(ROOT, "a/b", ALL);
    assert_int_equal(done(directory_move(dir, a, "y", a, "z")), 0);
    assert_int_equal(directory_move(dir, a, "z", b, "z"), -EACCES); /* D, M would be won */
    assert_int_equal(done(directory_move(dir, ROOT, "a/z", b, "z")), 0);
    assert_int_equal(at(b, "z").rights, ALL);
    assert_int_equal(walks(ROOT, "a/z"), -ENOENT);
    assert_int_equal(done(directory_move(dir, ROOT, "y", ROOT, "a/y")), 0);
    assert_int_equal(walks(ROOT, "y"), -ENOENT);
    /* between its commit and directory_applied it is found where it will be */
    assert_int_equal(directory_move(dir, ROOT, "a/y", ROOT, "a/w"), 0);
    assert_int_equal(ops_commit(directory_change(dir)->ops, directory_change(dir)->count), 0);
    assert_int_equal(walks(ROOT, "a/w"), 0);
    directory_applied(dir);
    assert_int_equal(done(directory_move(dir, ROOT, "a/w", ROOT, "a/y")), 0);
    assert_int_equal(done(directory_move(dir, ROOT, "a/y", ROOT, "a/y")), 0);
    assert_int_equal(directory_move(dir, ROOT, "a/y", ROOT, "a/b"), -EEXIST);
    dir_reopen();
    assert_int_equal(walks(ROOT, "a/y"), 0);
    assert_int_equal(done(directory_move(dir, ROOT, "a/y", ROOT, "again")), 0);
    assert_int_equal(done(directory_move(dir, ROOT, "again", ROOT, "y")), 0);
    struct store_container c;
    assert_int_equal(store_container_find(store, "y", &c), 0);
    dir_reopen();
    assert_int_equal(walks(ROOT, "y"), 0);
    assert_int_equal(walks(ROOT, "a/b/z"), 0);
}

static void no_directory_moves_below_itself(void **state)
{
    (void)state;
    assert_int_equal(directory_move(dir, ROOT, "a", ROOT, "a/a"), -ELOOP);
    assert_int_equal(directory_move(dir, ROOT, "a", ROOT, "a/b/a"), -ELOOP);
    assert_int_equal(done(directory_move(dir, ROOT, "a/b", ROOT, "b")), 0);
    assert_int_equal(done(directory_move(dir, ROOT, "a", ROOT, "b/a")), 0);
    assert_int_equal(walks(ROOT, "b/x"), 0);
    /* a link may make a circle: a path is as long as its parts */
    assert_int_equal(done(directory_link(dir, handle(ROOT, "b", ALL), ALL, ROOT, "b/a/b")), 0);
    assert_int_equal(walks(ROOT, "b/a/b/a/b/x"), 0);
    assert_int_equal(directory_remove(dir, ROOT, "b", NULL), -ENOTEMPTY);
    assert_int_equal(done(directory_unlink(dir, ROOT, "b/a/b")), 0);
    assert_int_equal(done(directory_remove(dir, ROOT, "b/a", NULL)), 0);
    assert_int_equal(done(directory_remove(dir, ROOT, "b/x", NULL)), 0);
    assert_int_equal(done(directory_remove(dir, ROOT, "b", NULL)), 0);
}

static void the_root_is_reached_again_but_never_deleted(void **state)
{
    struct directory_at root = handle(ROOT, "", ALL);
    (void)state;
    assert_int_equal(done(directory_link(dir, root, R | G, ROOT, "a/all")), 0);
    assert_int_equal(at(ROOT, "a/all/a/all/a/b/x").rights, R | G);
    assert_int_equal(walks(ROOT, "\4root"), -EINVAL);
    assert_int_equal(done(directory_link(dir, root, ALL, ROOT, "a/more")), 0);
    assert_int_equal(directory_remove(dir, ROOT, "a/more", NULL), -EPERM);
    assert_int_equal(directory_remove(dir, ROOT, "", NULL), -EINVAL);
    dir_reopen();
    assert_int_equal(at(ROOT, "a/all/a/all/a/b/x").rights, R | G);
    assert_int_equal(done(directory_take_back(dir, ROOT, DIRECTORY_ROOT_SERIAL)), 0);
    assert_int_equal(walks(ROOT, "a/all"), -ENOENT);
}

#define named_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        named_test(a_name_is_bytes_without_slash_colon_and_control),
        named_test(names_that_differ_in_case_and_encoding_are_two),
        named_test(a_path_leads_down_and_never_up),
        named_test(paths_are_cut_off_where_they_are_too_long),
        named_test(directories_are_as_deep_as_they_may_be),
        named_test(rights_only_shrink_on_the_way_RT7),
        named_test(a_link_has_the_rights_that_its_handle_has_RT7),
        named_test(each_call_needs_its_right),
        named_test(what_is_named_is_the_part_that_lacks_it),
        named_test(one_change_at_a_time_RT6),
        named_test(a_serial_is_never_used_again_RT8),
        named_test(a_link_is_one_transaction_RT9),
        named_test(what_was_granted_out_of_a_grant_ends_with_it_RT10),
        named_test(who_takes_back_manages_a_grant_above_RT10),
        named_test(a_grant_ends_with_its_entry_or_its_container_RT10),
        named_test(many_grants_are_taken_back_in_pieces),
        named_test(grants_are_as_deep_as_they_may_be),
        named_test(an_entry_moves_with_no_more_rights_than_it_had),
        named_test(no_directory_moves_below_itself),
        named_test(the_root_is_reached_again_but_never_deleted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
