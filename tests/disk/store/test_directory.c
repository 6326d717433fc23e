/*
 * test_directory.c - thousands of containers: all are found by id, name and address, in a time that
 * does not grow with their number; and a name that was unset stays unset.
 *
 * Method: a list of what must be there is kept beside; containers are made, renamed, deleted and
 * made again in the slots that are free; after a restart the same is found.
 */
#include "stage.h"

#include <stdlib.h>
#include <time.h>

#define MANY  5000u
#define A_GROUP 100u

static struct { uint64_t object, address; uint32_t name; } made[MANY];
static uint32_t names_given;

static void name_of(uint32_t number, char *name)
{
    snprintf(name, STORE_NAME_BYTES, "container-%u", number);
}

static void make_one(struct store_group *group, uint32_t i)
{
    char name[STORE_NAME_BYTES];
    struct store_op what = { .type = STORE_OP_CREATE, .name = name };
    made[i].name = names_given++;
    name_of(made[i].name, name);
    assert_int_equal(store_txn_op(group, &what), 0);
    made[i].object = what.object;
    made[i].address = what.address;
}

static void delete_one(struct store_group *group, uint32_t i)
{
    assert_int_equal(op(group, STORE_OP_DELETE, made[i].object, NULL), 0);
    made[i].object = 0;
}

static void rename_one(struct store_group *group, uint32_t i)
{
    char name[STORE_NAME_BYTES];
    made[i].name = names_given++;
    name_of(made[i].name, name);
    assert_int_equal(op(group, STORE_OP_RENAME, made[i].object, name), 0);
}

/* That to each `step`-th container, a hundred in a group. */
static void to_each(void (*act)(struct store_group *, uint32_t), uint32_t count, uint32_t step)
{
    for (uint32_t i = 0; i < count;) {
        struct store_group *group = group_open();
        store_txn_begin(group, 1);
        for (uint32_t n = 0; n < A_GROUP && i < count; n++, i += step) {
            act(group, i);
            assert_int_equal(txn_next(group), 0);
        }
        store_txn_cancel(group);
        group_done(group);
        if (store_should_checkpoint(store))
            checkpoint();
    }
}

static void all_are_found(uint32_t count)
{
    const char *why = "";
    char name[STORE_NAME_BYTES];
    struct store_container found = { .object = 0 };
    uint64_t last = 0, page;
    uint32_t seen = 0;
    if (store_check(store, &why))
        fail_msg("the store's own check: %s", why);
    for (uint32_t i = 0; i < count; i++) {
        name_of(made[i].name, name);
        assert_int_equal(store_container_find(store, name, &found), made[i].object ? 0 : -ENOENT);
        if (!made[i].object)
            continue;
        assert_int_equal(found.object, made[i].object);
        assert_int_equal(store_container_get(store, made[i].object, &found), 0);
        assert_string_equal(found.name, name);
        assert_int_equal(store_container_at(store, made[i].address + 3 * 4096 + 5, &found, &page),
                         0);
        assert_int_equal(found.object, made[i].object);
        assert_int_equal(page, 3);
        seen++;
    }
    for (found.object = 0; store_container_next(store, found.object, &found) == 0; seen--) {
        assert_true(found.object > last);
        last = found.object;
    }
    assert_int_equal(seen, UINT32_MAX); /* and the stage's own */
}

static void thousands_of_containers_are_found(void **state)
{
    (void)state;
    make(1ull << 30, 16 << 20);
    names_given = 0;
    to_each(make_one, MANY, 1);
    all_are_found(MANY);
    to_each(rename_one, MANY, 7);
    to_each(delete_one, MANY, 3);
    all_are_found(MANY);
    to_each(make_one, MANY, 3);         /* where the others were */
    assert_true(directory_slots(store) < MANY + 2 * CONTAINERS_PER_PAGE);
    for (uint32_t i = 0; i < 3; i++) {
        all_are_found(MANY);
        store_abandon(store);           /* the power is cut; then from a checkpoint only */
        assert_int_equal(open_with(0), 0);
        if (i)
            checkpoint();
    }
    all_are_found(MANY);
    unmake();
}

/* ---- the time of a look-up, in a store of so many containers: the least of many tries */

static double nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double lookup_time(uint32_t count)
{
    double least = 1e9;
    for (uint32_t i = 0; i < 200; i++) {
        uint32_t at = i * 7919 % count;
        char name[STORE_NAME_BYTES];
        struct store_container found;
        struct store_page where;
        uint64_t page;
        name_of(made[at].name, name);
        double start = nanoseconds();
        for (int n = 0; n < 10; n++) {
            assert_int_equal(store_container_find(store, name, &found), 0);
            assert_int_equal(store_container_next(store, made[at].object - 1, &found), 0);
            assert_int_equal(store_container_at(store, made[at].address, &found, &page), 0);
            assert_int_equal(store_page_find(store, made[at].object, 9, &where), 0);
        }
        double time = (nanoseconds() - start) / 40;
        least = time < least ? time : least;
    }
    return least;
}

/* A container is made and its first page written, in groups of ten; then all is taken back. */
static double create_time(uint32_t count)
{
    double least = 1e9;
    for (uint32_t i = 0; i < 50; i++) {
        struct store_group *group = group_open();
        double start = nanoseconds();
        store_txn_begin(group, 1);
        for (uint32_t n = count; n < count + 10; n++) {
            make_one(group, n);
            store_txn_page(group, made[n].object, 0, page_bytes);
        }
        double time = (nanoseconds() - start) / 10;
        least = time < least ? time : least;
        store_txn_cancel(group);
        store_group_cancel(group);
    }
    return least;
}

/* Aim: fifty times as many containers do not make a look-up ten times as slow. */
static void lookups_do_not_walk_over_the_containers(void **state)
{
    (void)state;
    double find[2], create[2];
    make(1ull << 30, 16 << 20);
    names_given = 0;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t count = i ? MANY - 10 : 100;
        if (i)
            for (uint32_t n = 0; n < 100; n++)
                made[n].object = 0;
        to_each(make_one, count, 1);
        find[i] = lookup_time(count);
        create[i] = create_time(count);
    }
    printf("# of 100 and of 5,000 containers: a look-up takes %.0f and %.0f ns, a create with a "
           "page "
           "%.0f and %.0f ns of this machine\n",
           find[0], find[1], create[0], create[1]);
    assert_true(find[1] < 10 * find[0]);
    assert_true(create[1] < 10 * create[0]);
    unmake();
}

/* ---- names */

/* Aim: what a checkpoint saved of a name is saved again when the name is unset. Method: both areas
 * hold it; then a checkpoint follows whose log before is needed no longer. */
static void an_unset_name_is_saved_as_unset(void **state)
{
    (void)state;
    struct store_name found;
    make(1 << 20, 128 << 10);
    for (int unset = 0; unset < 2; unset++) {
        struct store_group *group = group_open();
        store_txn_begin(group, 1);
        if (!unset)                     /* else it would have their page saved */
            assert_int_equal(op(group, STORE_OP_NAME_SET, object, "stays"), 0);
        assert_int_equal(op(group, unset ? STORE_OP_NAME_UNSET : STORE_OP_NAME_SET, object, "root"),
                         0);
        assert_int_equal(txn_next(group), 0);
        store_txn_cancel(group);
        group_done(group);
        checkpoint();
        checkpoint();
    }
    store_abandon(store);
    assert_int_equal(open_with(0), 0);
    assert_false(report.older_checkpoint);
    assert_int_equal(store_name_find(store, object, "root", &found), -ENOENT);
    assert_int_equal(store_name_find(store, object, "stays", &found), 0);
    unmake();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thousands_of_containers_are_found),
        cmocka_unit_test(lookups_do_not_walk_over_the_containers),
        cmocka_unit_test(an_unset_name_is_saved_as_unset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
