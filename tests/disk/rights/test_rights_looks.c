/*
 * test_rights_looks.c - what is asked of directories (user/store/directory.h): lists, who can
 * reach a container, limits.
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

/* ---- lists */

static unsigned list_all(struct directory_at of, unsigned most, unsigned *calls)
{
    struct directory_entry entry[8];
    uint64_t cursor = 0;
    unsigned all = 0, count;
    int r = 0;
    for (*calls = 0; r == 0; all += count, ++*calls) {
        r = directory_list(dir, of, &cursor, entry, most, &count);
        for (unsigned i = 0; i < count; i++)
            assert_int_equal(at(of, entry[i].name).serial, entry[i].serial);
    }
    assert_int_equal(r, -ENOENT);
    return all;
}

static void a_list_tells_each_entry_once(void **state)
{
    char path[STORE_NAME_BYTES];
    unsigned calls;
    (void)state;
    assert_int_equal(list_all(ROOT, 8, &calls), 3);     /* c, a, y */
    for (int i = 0; i < 300; i++) {
        snprintf(path, sizeof path, i % 3 ? "a/l%d" : "l%d", i);
        assert_int_equal(done(directory_link(dir, handle(ROOT, "y", ALL), R, ROOT, path)), 0);
    }
    for (unsigned most = 1; most <= 8; most++) {
        assert_int_equal(list_all(ROOT, most, &calls), 3 + 100);
        assert_int_equal(list_all(handle(ROOT, "a", R), most, &calls), 1 + 200);
        assert_true(calls >= 201 / most);
    }
    assert_int_equal(list_all(handle(ROOT, "a/b", R), 8, &calls), 1);
}

/* ---- who */

static void who_tells_all_ways_to_a_container(void **state)
{
    struct directory_who_cursor cursor = { .queue = NULL };
    struct directory_who who;
    unsigned count = 0;
    uint64_t seen = 0;
    (void)state;
    assert_int_equal(done(directory_link(dir, handle(ROOT, "a/b/x", ALL), R, ROOT, "x")), 0);
    assert_int_equal(done(directory_link(dir, handle(ROOT, "a", ALL), R, ROOT, "a/b/a")), 0);
    assert_int_equal(done(directory_link(dir, ROOT, R, ROOT, "a/root")), 0);
    while (directory_who(dir, at(ROOT, "y").container, &cursor, &who) == 0)
        count++;
    directory_who_end(&cursor);
    assert_int_equal(count, 5);         /* y; the root's link in a; a twice; b */
    for (count = 0; directory_who(dir, at(ROOT, "a/b/x").container, &cursor, &who) == 0; count++)
        seen += crc32c(0, who.entry.name, strlen(who.entry.name));
    assert_int_equal(count, 6);         /* x twice, b, a twice, root */
    uint64_t wanted = 2ull * crc32c(0, "a", 1) + 2ull * crc32c(0, "x", 1) + crc32c(0, "b", 1) +
                      crc32c(0, "root", 4);
    assert_int_equal(seen, wanted);
    directory_who_end(&cursor);
    assert_int_equal(directory_who(dir, object, &cursor, &who), 0);
    assert_int_equal(done(directory_make(dir, ROOT, "new", false)), 0);
    assert_int_equal(directory_who(dir, object, &cursor, &who), -ESTALE);
    directory_who_end(&cursor);
}

/* ---- ways */

/* Who may give a container on gives it to many directories of his own: no way of others is hidden
 * by that. */
static void a_way_is_not_lost_among_others_links(void **state)
{
    enum { MANY = 300 };
    char path[DIRECTORY_PATH];
    (void)state;
    struct directory_at give = handle(ROOT, "a/b/x", ALL);
    uint64_t x = at(ROOT, "a/b/x").container;
    assert_int_equal(done(directory_make(dir, ROOT, "mine", true)), 0);
    assert_int_equal(done(directory_link(dir, give, R | W, ROOT, "mine/x")), 0);
    assert_int_equal(done(directory_make(dir, ROOT, "his", true)), 0);
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(path, sizeof path, "his/d%u", i);
        assert_int_equal(done(directory_make(dir, ROOT, path, true)), 0);
        strcat(path, "/x");
        assert_int_equal(done(directory_link(dir, give, R | W, ROOT, path)), 0);
    }
    assert_int_equal(directory_way(dir, handle(ROOT, "mine", ALL), x, R | W, path), 0);
    assert_string_equal(path, "x");
    assert_int_equal(directory_way(dir, handle(ROOT, "his", ALL), x, R | W, path), 0);
    assert_int_equal(at(handle(ROOT, "his", ALL), path).container, x);
    assert_int_equal(directory_way(dir, handle(ROOT, "a/b", ALL), x, R | W, path), 0);
    assert_int_equal(done(directory_unlink(dir, ROOT, "mine/x")), 0);
    assert_int_equal(directory_way(dir, handle(ROOT, "mine", ALL), x, R | W, path), -ENOENT);
}

/* ---- limits */

static void a_limit_counts_all_that_is_below(void **state)
{
    uint64_t full = 0, x = at(ROOT, "a/b/x").container, a = at(ROOT, "a").container,
             b = at(ROOT, "a/b").container, was = object;
    (void)state;
    assert_int_equal(directory_limit_check(dir, x, LIMIT_PAGES, ~0ull, &full), 0);
    assert_int_equal(done(directory_limit_set(dir, ROOT, "a", LIMIT_PAGES, 100)), 0);
    assert_int_equal(done(directory_limit_set(dir, ROOT, "a/b", LIMIT_PAGES, 50)), 0);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(directory_limit_check(dir, x, LIMIT_PAGES, 50, &full), 0);
        assert_int_equal(directory_limit_check(dir, x, LIMIT_PAGES, 51, &full), -EDQUOT);
        assert_int_equal(full, b);
        assert_int_equal(directory_limit_check(dir, x, LIMIT_PAGES, 101, &full), -EDQUOT);
        assert_int_equal(full, a);      /* the one nearest to the root */
        dir_reopen();
    }
    directory_limit_count(dir, x, LIMIT_PAGES, 45);
    assert_int_equal(directory_limit_check(dir, x, LIMIT_PAGES, 6, &full), -EDQUOT);
    directory_limit_count(dir, x, LIMIT_PAGES, -45);
    object = x;
    commit_pages(0, 10);
    object = was;
    dir_reopen();                       /* what is held is counted by the disk */
    assert_int_equal(directory_limit_check(dir, x, LIMIT_PAGES, 40, &full), 0);
    assert_int_equal(directory_limit_check(dir, x, LIMIT_PAGES, 41, &full), -EDQUOT);
    assert_int_equal(done(directory_move(dir, ROOT, "a/b", ROOT, "b")), 0);
    assert_int_equal(directory_limit_check(dir, x, LIMIT_PAGES, 60, &full), -EDQUOT);
    assert_int_equal(directory_limit_check(dir, a, LIMIT_PAGES, 101, &full), 0);
    assert_int_equal(done(directory_limit_set(dir, ROOT, "b", LIMIT_PAGES, LIMIT_NONE)), 0);
    assert_int_equal(directory_limit_check(dir, x, LIMIT_PAGES, 1000, &full), 0);
    assert_int_equal(done(directory_limit_set(dir, ROOT, "", LIMIT_COMMITS, 5)), 0);
    dir_reopen();
    assert_int_equal(directory_limit_get(dir, DIRECTORY_ROOT, LIMIT_COMMITS), 5);
    assert_int_equal(directory_limit_get(dir, b, LIMIT_PAGES), LIMIT_NONE);
    assert_int_equal(directory_limit_check(dir, x, LIMIT_COMMITS, 6, &full), -EDQUOT);
    assert_int_equal(full, DIRECTORY_ROOT);
}

static void a_second_has_so_many_commits(void **state)
{
    uint64_t full = 0, x = at(ROOT, "a/b/x").container, y = at(ROOT, "y").container;
    (void)state;
    assert_int_equal(done(directory_limit_set(dir, ROOT, "a", LIMIT_COMMITS, 2)), 0);
    assert_true(directory_limited(dir));
    for (uint64_t second = 5000000; second < 5000000 + 3 * 1000000; second += 1000000)
        for (unsigned i = 0; i < 4; i++) {
            directory_commit_mark(dir, x);
            directory_commit_mark(dir, x);          /* a directory counts a commit once */
            int r = directory_commit_check(dir, second + i, &full);
            assert_int_equal(r, i < 2 ? 0 : -EDQUOT);
            directory_commit_end(dir, r == 0);
        }
    assert_int_equal(full, at(ROOT, "a").container);
    directory_commit_mark(dir, y);                  /* it is not below */
    assert_int_equal(directory_commit_check(dir, 7000003, &full), 0);
    directory_commit_end(dir, true);
    directory_commit_mark(dir, x);                  /* refused ones were not counted */
    assert_int_equal(directory_commit_check(dir, 8000000, &full), 0);
    directory_commit_end(dir, false);
    assert_int_equal(directory_limit_used(dir, at(ROOT, "a").container, LIMIT_COMMITS), 0);
}

static uint64_t names(const char *path)
{
    uint64_t directory = *path ? at(ROOT, path).container : DIRECTORY_ROOT;
    uint64_t now = directory_limit_used(dir, directory, LIMIT_NAMES);
    dir_reopen();                       /* what the disk says is the same */
    assert_int_equal(directory_limit_used(dir, directory, LIMIT_NAMES), now);
    return now;
}

/* A link is two where its entry is; all else counts where it lies. */
static void a_limit_of_names_is_kept_by_who_makes_them(void **state)
{
    (void)state;
    struct directory_at x = handle(ROOT, "a/b/x", ALL), y = handle(ROOT, "y", ALL);
    assert_int_equal(done(directory_limit_set(dir, ROOT, "a", LIMIT_NAMES, 100)), 0);
    uint64_t had = names("a");
    assert_int_equal(had, 3);             /* b, x, and the limit */
    assert_int_equal(done(directory_make(dir, ROOT, "a/new", false)), 0);
    assert_int_equal(done(directory_make(dir, ROOT, "a/b/deep", true)), 0);
    assert_int_equal(names("a"), had + 2);
    assert_int_equal(done(directory_link(dir, y, R, ROOT, "a/b/deep/y")), 0);
    assert_int_equal(names("a"), had + 4);
    assert_int_equal(done(directory_link(dir, x, R, ROOT, "outside")), 0);      /* not a's */
    assert_int_equal(names("a"), had + 4);
    assert_int_equal(done(directory_limit_set(dir, ROOT, "a", LIMIT_NAMES, had + 5)), 0);
    assert_int_equal(done(directory_link(dir, y, R, ROOT, "a/two")), -EDQUOT);
    assert_int_equal(done(directory_make(dir, ROOT, "a/one", false)), 0);
    assert_int_equal(done(directory_make(dir, ROOT, "a/b/more", false)), -EDQUOT);
    assert_int_equal(done(directory_limit_set(dir, ROOT, "a/b", LIMIT_PAGES, 9)), -EDQUOT);
    assert_int_equal(done(directory_link(dir, x, R, ROOT, "free")), 0);
    assert_int_equal(names("a"), had + 5);
    assert_int_equal(directory_make(dir, ROOT, "out", false), 0);
    directory_dropped(dir);
    assert_int_equal(done(directory_unlink(dir, ROOT, "a/b/deep/y")), 0);
    assert_int_equal(names("a"), had + 3);
    assert_int_equal(directory_link(dir, y, R, ROOT, "a/two"), 0);
    directory_dropped(dir);                                         /* it gives them back */
    assert_int_equal(done(directory_link(dir, y, R, ROOT, "a/two")), 0);
    assert_int_equal(done(directory_make(dir, ROOT, "a/three", false)), -EDQUOT);
    assert_int_equal(done(directory_take_back(dir, y, y.serial)), 0);
    assert_int_equal(names("a"), had + 3);
    assert_int_equal(done(directory_remove(dir, ROOT, "a/new", NULL)), 0);
    assert_int_equal(done(directory_move(dir, ROOT, "a/one", ROOT, "one")), 0);
    assert_int_equal(names("a"), had + 1);
}

/* Many directories with limits: each is found, and counts on after another's is gone. */
static void limits_of_many_directories(void **state)
{
    enum { MANY = 40 };
    uint64_t of[MANY], full;
    char path[16];
    (void)state;
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(path, sizeof path, "many%u", i);
        assert_int_equal(done(directory_make(dir, ROOT, path, true)), 0);
        of[i] = at(ROOT, path).container;
    }
    for (unsigned k = 0; k < MANY; k++) {
        unsigned i = k * 7 % MANY;
        snprintf(path, sizeof path, "many%u", i);
        assert_int_equal(done(directory_limit_set(dir, ROOT, path, LIMIT_COMMITS, i + 1)), 0);
    }
    for (unsigned round = 0; round < 2; round++) {
        uint32_t cursor = 0;
        uint64_t next = 0, seen = 0;
        for (unsigned i = 0; i < MANY; i++) {
            uint64_t most = round && i % 3 == 0 ? LIMIT_NONE : i + 1;
            assert_int_equal(directory_limit_get(dir, of[i], LIMIT_COMMITS), most);
            if (round == 0) seen += of[i];
        }
        for (unsigned i = 0; round == 0 && i < MANY; i++) {
            assert_true(directory_limit_next(dir, LIMIT_COMMITS, &cursor, &next));
            seen -= next;
        }
        assert_int_equal(seen, 0);
        for (unsigned i = 0; round == 0 && i < MANY; i += 3) {
            snprintf(path, sizeof path, "many%u", i);
            assert_int_equal(done(directory_limit_set(dir, ROOT, path, LIMIT_COMMITS,
                                                      LIMIT_NONE)), 0);
        }
    }
    uint32_t cursor = 0;
    assert_false(directory_limit_next(dir, LIMIT_VERSIONS, &cursor, &full));
    assert_int_equal(done(directory_make(dir, ROOT, "many4/x", false)), 0);
    directory_commit_mark(dir, at(ROOT, "many4/x").container);
    directory_commit_end(dir, true);
    assert_int_equal(directory_limit_used(dir, of[4], LIMIT_COMMITS), 1);
    assert_int_equal(directory_limit_used(dir, of[5], LIMIT_COMMITS), 0);
}

#define named_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        named_test(a_list_tells_each_entry_once),
        named_test(who_tells_all_ways_to_a_container),
        named_test(a_way_is_not_lost_among_others_links),
        named_test(a_limit_counts_all_that_is_below),
        named_test(a_second_has_so_many_commits),
        named_test(a_limit_of_names_is_kept_by_who_makes_them),
        named_test(limits_of_many_directories),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
