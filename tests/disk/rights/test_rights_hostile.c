/*
 * test_rights_hostile.c - directories and grants that somebody forged on the disk.
 *
 * Aim     rows and entries that break DG1 to DG3 (user/store/directory.h) are not there: they give
 *         nobody a right, no call hangs or crashes over them, and what is sound beside them stays.
 * Method  names are set behind the module's back, and the store is started again. Runs under gcc's
 *         sanitizers.
 */
#include "crew.h"
#include "directory_rig.h"

static uint64_t y, x, a, b;             /* containers: x in b in a; y in the root */

static int setup(void **state)
{
    (void)state;
    dir_make(16 << 20, 1 << 20);
    assert_int_equal(done(directory_make(dir, ROOT, "a", true)), 0);
    assert_int_equal(done(directory_make(dir, ROOT, "a/b", true)), 0);
    assert_int_equal(done(directory_make(dir, ROOT, "a/b/x", false)), 0);
    assert_int_equal(done(directory_make(dir, ROOT, "y", false)), 0);
    y = at(ROOT, "y").container;
    x = at(ROOT, "a/b/x").container;
    a = at(ROOT, "a").container;
    b = at(ROOT, "a/b").container;
    /* serials 1 and 2: a link of y, and one of that */
    assert_int_equal(done(directory_link(dir, handle(ROOT, "y", ALL), R | W | G, ROOT, "a/y")), 0);
    assert_int_equal(done(directory_link(dir, handle(ROOT, "a/y", ALL), R, ROOT, "a/z")), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dir_unmake();
    return 0;
}

static void forge(uint64_t of, const char *name, uint64_t address, uint64_t bytes)
{
    struct store_op set = { .type = STORE_OP_NAME_SET, .object = of, .name = name,
                            .address = address, .bytes = bytes };
    assert_int_equal(ops_commit(&set, 1), 0);
}

static void forge_row(uint64_t of, uint64_t serial, uint64_t parent, uint64_t rights)
{
    char name[STORE_NAME_BYTES];
    row_name(name, serial);
    forge(of, name, parent, rights);
}

/* What is sound is as it was; what is not goes with the next start. */
static void sound_stays(uint64_t forged, uint64_t dangling)
{
    dir_reopen();
    assert_int_equal(dir_report.forged, forged);
    assert_int_equal(dir_report.dangling, dangling);
    assert_int_equal(at(ROOT, "a/y").rights, R | W | G);
    assert_int_equal(at(ROOT, "a/z").rights, R);
    assert_int_equal(at(ROOT, "a/b/x").rights, ALL);
    int r;
    while ((r = done(directory_mend(dir))) == 0)
        ;
    assert_int_equal(r, -ENOENT);
    dir_reopen();
    assert_int_equal(dir_report.forged + dir_report.dangling, 0);
    assert_int_equal(at(ROOT, "a/z").rights, R);
}

static void a_forged_row_is_not_there_DG1(void **state)
{
    (void)state;
    forge_row(x, 10, 0, ALL);                           /* a link of nothing */
    forge_row(x, 11, DIRECTORY_FIRST | y, ALL);         /* of another container's */
    forge_row(x, 12, 1, R);
    forge_row(y, 13, 1, ALL);                           /* with more rights */
    forge_row(y, 14, 2, 0);                             /* with none */
    forge_row(y, 15, 1, R | 1ull << 40);                /* with some that are not */
    forge_row(y, 16, 17, R);                            /* in circles */
    forge_row(y, 17, 16, R);
    forge_row(y, 18, 18, R);
    forge_row(y, 20, 19, R);                            /* of one that is not there */
    forge_row(y, 21, 13, R);                            /* of a forged one */
    forge_row(y, 1ull << 62, 1, R);                     /* too large a serial */
    forge_row(y, DIRECTORY_FIRST | y, 1, R);
    forge(y, "\4zz", 1, R);
    for (int i = 10; i <= 21; i++) {
        char name[STORE_NAME_BYTES];
        snprintf(name, sizeof name, "e%d", i);
        forge(a, name, (uint64_t)i, i < 13 ? x : y);
    }
    dir_reopen();
    for (int i = 10; i <= 21; i++) {
        char path[STORE_NAME_BYTES];
        snprintf(path, sizeof path, "a/e%d", i);
        assert_int_equal(walks(ROOT, path), -ENOENT);
        assert_int_equal(walks((struct directory_at){ (uint64_t)i, ALL }, ""), -EIDRM);
    }
    sound_stays(13, 12);
}

/* Of two rows with one serial neither is there, nor what was made of it. */
static void a_serial_that_two_rows_have_is_nobodys_DG1(void **state)
{
    (void)state;
    forge_row(x, 1, DIRECTORY_FIRST | x, ALL);
    dir_reopen();
    assert_int_equal(dir_report.forged, 3);
    assert_int_equal(walks(ROOT, "a/y"), -ENOENT);
    assert_int_equal(walks(ROOT, "a/z"), -ENOENT);
    assert_int_equal(at(ROOT, "a/b/x").rights, ALL);
    assert_int_equal(at(ROOT, "y").rights, ALL);
}

static void a_forged_entry_is_not_there_DG2(void **state)
{
    (void)state;
    forge(b, "two", 2, y);                              /* a grant's second entry */
    forge(b, "wrong", 1, x);                            /* another container than the grant's */
    forge(b, "first", DIRECTORY_FIRST | y, x);
    forge(b, "none", DIRECTORY_FIRST | 99, 99);
    forge(b, "root", DIRECTORY_FIRST, 0);
    forge(b, "root2", DIRECTORY_FIRST | dir->root, dir->root);
    forge(b, "sla/sh", DIRECTORY_FIRST | object, object);
    forge(dir->root, "taken", DIRECTORY_FIRST | object, object);
    forge(b, "next", 77, y);
    dir_reopen();
    const char *entries[] = { "two", "wrong", "first", "none", "root", "root2", "next" };
    for (unsigned i = 0; i < sizeof entries / sizeof *entries; i++)
        assert_int_equal(walks(handle(ROOT, "a/b", ALL), entries[i]), -ENOENT);
    assert_int_equal(walks(ROOT, "taken"), -ENOENT);
    sound_stays(0, 9);
}

/* An entry that waits for a serial does not take it from the one that gets it. */
static void an_entry_does_not_wait_for_a_serial_DG2(void **state)
{
    (void)state;
    forge(b, "early", dir->next, x);
    assert_int_equal(done(directory_link(dir, handle(ROOT, "y", ALL), R, ROOT, "a/late")), 0);
    assert_int_equal(walks(handle(ROOT, "a/b", ALL), "early"), -ENOENT);
    dir_reopen();
    assert_int_equal(walks(handle(ROOT, "a/b", ALL), "early"), -ENOENT);
    assert_int_equal(at(ROOT, "a/late").rights, R);
    assert_int_equal(dir_report.dangling, 1);
}

/* Anybody may give his container the type "directory", and names. */
static void a_container_that_calls_itself_directory_is_none(void **state)
{
    struct store_layout layout = { .type = "directory", .version = 1 };
    struct store_op set = { .type = STORE_OP_LAYOUT, .object = y, .layout = &layout };
    (void)state;
    assert_int_equal(ops_commit(&set, 1), 0);
    forge(y, "x", DIRECTORY_FIRST | x, x);
    forge(y, "all", DIRECTORY_ROOT_SERIAL, 0);
    forge(y, "c", DIRECTORY_FIRST | object, object);
    dir_reopen();
    assert_int_equal(dir_report.dangling, 0);
    assert_int_equal(walks(ROOT, "c"), 0);              /* nothing of others goes there */
    assert_false(at(ROOT, "y").is_directory);
    assert_int_equal(walks(ROOT, "y/x"), -ENOTDIR);
    assert_int_equal(at(ROOT, "a/b/x").rights, ALL);
    assert_int_equal(directory_make(dir, ROOT, "y/z", false), -ENOTDIR);
}

static void directories_in_circles_are_in_the_root_DG3(void **state)
{
    (void)state;
    struct store_op unset = { .type = STORE_OP_NAME_UNSET, .object = a, .name = "b" };
    forge(b, "a", DIRECTORY_FIRST | a, a);              /* a in b, and b in a */
    dir_reopen();
    assert_int_equal(dir_report.lost, 1);
    unsigned directories = 0;
    struct directory_entry entry[16];
    uint64_t cursor = 0, up[DIRECTORY_DEPTH + 1];
    unsigned count;
    assert_int_equal(directory_list(dir, ROOT, &cursor, entry, 16, &count), -ENOENT);
    for (unsigned i = 0; i < count; i++)
        directories += entry[i].is_directory;
    assert_int_equal(directories, 1);
    assert_true(directory_up(dir, x, up) <= 3);
    assert_int_equal(up[directory_up(dir, x, up) - 1], DIRECTORY_ROOT);
    struct directory_who_cursor w = { .queue = NULL };
    struct directory_who who;
    for (count = 0; directory_who(dir, x, &w, &who) == 0; count++)
        ;
    directory_who_end(&w);
    assert_true(count >= 2 && count < 6);
    /* one whose entry is gone is there by the catalogue's name */
    char name[STORE_NAME_BYTES];
    assert_int_equal(ops_commit(&unset, 1), 0);
    dir_reopen();
    snprintf(name, sizeof name, "#%llu", (unsigned long long)b);
    assert_int_equal(walks(ROOT, name), 0);
    assert_int_equal(walks(handle(ROOT, name, ALL), "x"), 0);
    assert_int_equal(walks(handle(ROOT, name, ALL), "a"), 0);
}

static void the_next_serial_is_behind_all_that_are_there_RT8(void **state)
{
    (void)state;
    forge(dir->root, "\4next", 1, 0);
    dir_reopen();
    assert_int_equal(dir->next, 3);
    forge_row(y, 500, 77, R);           /* forged, and not used again all the same */
    dir_reopen();
    assert_int_equal(dir->next, 501);
    forge(dir->root, "\4next", ~0ull, 0);
    dir_reopen();
    assert_int_equal(dir->next, 501);
    forge(dir->root, "\4next", SERIAL_MAX - 1, 0);
    dir_reopen();
    assert_int_equal(directory_link(dir, handle(ROOT, "y", ALL), R, ROOT, "new"), -ENOSPC);
    assert_int_equal(at(ROOT, "a/z").rights, R);
}

static void a_chain_of_grants_is_as_deep_as_it_may_be(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 200; i++)
        forge_row(y, 100 + i, i ? 99 + i : DIRECTORY_FIRST | y, R);
    dir_reopen();
    assert_int_equal(dir_report.grants, 2 + DIRECTORY_DEPTH);
    assert_int_equal(dir_report.forged, 200 - DIRECTORY_DEPTH);
    assert_int_equal(done(directory_take_back(dir, handle(ROOT, "y", ALL), 100)), 0);
    assert_int_equal(dir->links, 2);
}

/* Aim (LG6): a name that begins as a group of the log is given to nothing, so that nobody has to
 * take it away again, a start least of all; and nothing of what was asked for is left. */
static void no_entry_is_called_as_a_group_begins(void **state)
{
    (void)state;
    char path[80] = "a/";
    uint64_t magic = GROUP_MAGIC, before = dir_picture();
    for (unsigned at = 0; at + 8 < STORE_NAME_BYTES; at += 8) {
        memset(path + 2, 'x', STORE_NAME_BYTES - 1);
        memcpy(path + 2 + at, &magic, 8);
        assert_int_equal(done(directory_link(dir, handle(ROOT, "y", ALL), R, ROOT, path)), -EINVAL);
        assert_int_equal(done(directory_make(dir, ROOT, path, true)), -EINVAL);
        assert_int_equal(done(directory_make(dir, ROOT, path + 2, false)), -EINVAL);
        assert_int_equal(done(directory_move(dir, ROOT, "a/y", ROOT, path)), -EINVAL);
        assert_int_equal(done(directory_move(dir, ROOT, "y", ROOT, path + 2)), -EINVAL);
    }
    assert_int_equal(dir_picture(), before);
    memcpy(path + 3, &magic, 8);
    path[2] = path[11] = 'x';
    path[12] = '\0';
    assert_int_equal(done(directory_make(dir, ROOT, path, true)), 0);
    sound_stays(0, 0);
}

/* Aim: as many names as a store can have. In the long tier the largest store's: 32,768. */
static void a_store_full_of_names_is_read_and_listed(void **state)
{
    unsigned mib = crew_long() ? 1024 : 128, made = 0, count, calls = 0;
    struct directory_entry entry[64];
    uint64_t cursor = 0;
    char name[STORE_NAME_BYTES];
    int r = 0;
    (void)state;
    dir_unmake();
    dir_make((uint64_t)mib << 20, 8 << 20);
    assert_int_equal(done(directory_make(dir, ROOT, "d", true)), 0);
    for (; r == 0; made += r == 0) {
        snprintf(name, sizeof name, made % 2 ? "d/link %u" : "link %u", made);
        r = done(directory_link(dir, handle(ROOT, "c", ALL), R | (made % 3 ? W : 0), ROOT, name));
    }
    assert_int_equal(r, -ENOSPC);
    assert_int_equal(made, (mib * 32 - 1) / 2);         /* two each, and the next serial */
    dir_reopen();
    assert_int_equal(dir_report.grants, made);
    assert_int_equal(dir_report.forged + dir_report.dangling + dir_report.lost, 0);
    unsigned all = 0;
    for (r = 0; r == 0; all += count, calls++)
        r = directory_list(dir, handle(ROOT, "d", R), &cursor, entry, 64, &count);
    assert_int_equal(all, made / 2);
    assert_true(calls >= all / 64);
    assert_int_equal(done(directory_take_back(dir, handle(ROOT, "c", ALL),
                                              DIRECTORY_FIRST | object)), 0);
    assert_int_equal(dir->links, made - DIRECTORY_NAMES / 2);
    assert_int_equal(done(directory_remove(dir, ROOT, "c", NULL)), 0);
    dir_reopen();
    assert_int_equal(dir_report.grants, 0);
    assert_true(dir_report.dangling > 0);               /* more than one transaction has */
    while ((r = done(directory_mend(dir))) == 0)
        ;
    assert_int_equal(r, -ENOENT);
    dir_reopen();
    assert_int_equal(dir_report.dangling, 0);
    assert_int_equal(done(directory_remove(dir, ROOT, "d", NULL)), 0);
}

/* ---- random bytes: the invariants hold, whatever is there */

static uint64_t random_state;

static uint64_t some_number(void)
{
    uint64_t numbers[] = { y, x, a, b, object, dir->root, 1, 2, 3, 4, 5, 0, ~0ull, SERIAL_MAX };
    uint64_t number = numbers[random_below(&random_state, sizeof numbers / sizeof *numbers)];
    return random_below(&random_state, 3) ? number : number | DIRECTORY_FIRST;
}

static void forge_something(void)
{
    static const char *const names[] = { "a", "b", "x", "y", "z", "e", "\4next", "\5pages", "\4x" };
    uint64_t of[] = { y, x, a, b, object, dir->root }, rights = some_number();
    uint64_t where = of[random_below(&random_state, 6)];
    if (random_below(&random_state, 3))
        rights = (random_next(&random_state) & DIRECTORY_ALL) | (rights & 1 ? 0 : DIRECTORY_ALL);
    if (random_below(&random_state, 2))
        forge_row(where, 1 + random_below(&random_state, 12), some_number(), rights);
    else
        forge(where, names[random_below(&random_state, 9)], some_number(), some_number());
}

static void invariants_check(void)
{
    uint64_t up[DIRECTORY_DEPTH + 1];
    for (uint32_t i = 1; i < dir->top; i++) {
        const struct grant *g = &dir->grants[i], *p = &dir->grants[g->parent];
        if (!(g->flags & GRANT_USED))
            continue;
        bool first = g->serial & DIRECTORY_FIRST;
        assert_true(first ? !g->parent && g->rights == ALL : g->parent != 0);
        assert_true(first || (g->serial < dir->next && p->flags & GRANT_USED &&
                              p->container == g->container && !(g->rights & ~p->rights) &&
                              (p->serial & DIRECTORY_FIRST || p->serial < g->serial)));
        assert_int_equal(up[directory_up(dir, g->container, up) - (g->container != 0)],
                         g->container ? DIRECTORY_ROOT : up[0]);
    }
    dir_picture();
}

static void use_everything(void)
{
    struct directory_who_cursor w = { .queue = NULL };
    struct directory_who who;
    struct directory_entry entry[8];
    uint64_t cursor = 0, full, of[] = { y, x, a, b, object, 0 };
    unsigned count, steps = 0;
    for (int i = 0; i < 6; i++) {
        while (directory_who(dir, of[i], &w, &who) == 0)
            assert_true(++steps < 10000);
        directory_who_end(&w);
        assert_true(directory_limit_check(dir, of[i], LIMIT_PAGES, 5, &full) <= 0);
    }
    while (directory_list(dir, ROOT, &cursor, entry, 8, &count) == 0)
        assert_true(++steps < 20000);
    for (int i = 0; i < 6; i++) {
        struct directory_at by = { DIRECTORY_FIRST | of[i], ALL };
        done(directory_link(dir, by, R, ROOT, "a/new"));
        done(directory_take_back(dir, by, by.serial));
        done(directory_move(dir, ROOT, "a/b", ROOT, "moved"));
        done(directory_remove(dir, ROOT, i % 2 ? "a/new" : "x", NULL));
        invariants_check();
    }
}

static void random_bytes_break_no_invariant(void **state)
{
    uint64_t count = crew_count(60);
    (void)state;
    for (uint64_t seed = 1; seed <= count; seed++) {
        random_state = seed;
        if (seed > 1) {
            dir_unmake();
            setup(NULL);
        }
        for (uint64_t i = 0, most = 1 + random_below(&random_state, 30); i < most; i++)
            forge_something();
        dir_reopen();
        invariants_check();
        for (unsigned i = 0; done(directory_mend(dir)) == 0; i++)
            assert_true(i < 10);
        dir_reopen();
        assert_int_equal(dir_report.forged + dir_report.dangling, 0);
        use_everything();
        dir_reopen();
        invariants_check();
    }
}

static int way(struct directory_at from, uint64_t to, uint32_t wanted, const char *path)
{
    char found[DIRECTORY_PATH];
    int r = directory_way(dir, from, to, wanted, found);
    if (r < 0) return r;
    assert_string_equal(found, path);
    assert_int_equal(at(from, found).container, to);
    assert_int_equal(at(from, found).rights & wanted, wanted);
    return 0;
}

/* From a container up to a root, by entries that have the rights; what is found can be walked. */
static void a_way_is_what_can_be_walked(void **state)
{
    (void)state;
    char path[DIRECTORY_PATH] = "a/b", found[DIRECTORY_PATH];
    assert_int_equal(way(ROOT, x, R | W, "a/b/x"), 0);
    assert_int_equal(way(handle(ROOT, "a/b", ALL), x, R, "x"), 0);
    assert_int_equal(way(handle(ROOT, "a/b/x", R), x, R, ""), 0);
    assert_int_equal(way(handle(ROOT, "a/b/x", R), x, R | W, ""), -ENOENT);
    assert_int_equal(way(handle(ROOT, "a/b", W), x, R, ""), -ENOENT);
    assert_int_equal(way(handle(ROOT, "y", ALL), x, R, ""), -ENOENT);
    assert_int_equal(way(ROOT, y, ALL, "y"), 0);
    assert_int_equal(way(handle(ROOT, "a", ALL), y, R | W, "y"), 0);   /* its link */
    assert_int_equal(way(handle(ROOT, "a", ALL), y, ALL, ""), -ENOENT);
    assert_int_equal(way(ROOT, 4711, R, ""), -ENOENT);
    /* b has a, to read: a circle */
    assert_int_equal(done(directory_link(dir, handle(ROOT, "a", ALL), R, ROOT, "a/b/up")), 0);
    assert_int_equal(way(handle(ROOT, "a/b", ALL), y, R | W, ""), -ENOENT);
    assert_int_equal(directory_way(dir, handle(ROOT, "a/b", ALL), y, R, found), 0);
    assert_true(strcmp(found, "up/y") == 0 || strcmp(found, "up/z") == 0);
    /* 16 parts, and one more */
    for (unsigned parts = 2; parts < DIRECTORY_PARTS; parts++) {
        strcat(path, "/d");
        assert_int_equal(done(directory_make(dir, ROOT, path, true)), 0);
    }
    assert_int_equal(way(ROOT, at(ROOT, path).container, R, path), 0);
    struct directory_at in = handle(ROOT, path, ALL);
    assert_int_equal(done(directory_make(dir, in, "e", false)), 0);
    assert_int_equal(way(ROOT, at(in, "e").container, R, ""), -ENOENT);
    assert_int_equal(way(handle(ROOT, "a", ALL), at(in, "e").container, R, strcat(path, "/e") + 2),
                     0);
    /* a path that is too long is none */
    in = handle(ROOT, "a", ALL);
    for (unsigned i = 0; i < 5; i++) {
        char name[STORE_NAME_BYTES];
        memset(name, 'n', sizeof name - 1);
        name[sizeof name - 1] = 0;
        assert_int_equal(done(directory_make(dir, in, name, true)), 0);
        in = handle(in, name, ALL);
    }
    assert_int_equal(done(directory_make(dir, in, "e", false)), 0);
    assert_int_equal(way(ROOT, at(in, "e").container, R, ""), -ENAMETOOLONG);
}

#define named_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        named_test(a_forged_row_is_not_there_DG1),
        named_test(a_serial_that_two_rows_have_is_nobodys_DG1),
        named_test(a_forged_entry_is_not_there_DG2),
        named_test(an_entry_does_not_wait_for_a_serial_DG2),
        named_test(a_container_that_calls_itself_directory_is_none),
        named_test(directories_in_circles_are_in_the_root_DG3),
        named_test(a_way_is_what_can_be_walked),
        named_test(the_next_serial_is_behind_all_that_are_there_RT8),
        named_test(a_chain_of_grants_is_as_deep_as_it_may_be),
        named_test(no_entry_is_called_as_a_group_begins),
        named_test(a_store_full_of_names_is_read_and_listed),
        named_test(random_bytes_break_no_invariant),
    };
    (void)argc;
    crew_begin(argv[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
