/*
 * test_instances.c - uDatabase's example (section 4.4): two B+-trees of one type, BTree<int,
 * Record, 4 Kb>, each with its name and order, and one of them with 30 KB to begin with.
 */
#include "structures/tree.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct record { uint64_t id; uint32_t twice; };
static int less(const int *a, const int *b) { return (*a > *b) - (*a < *b); }
static int greater(const int *a, const int *b) { return less(b, a); }
PS_TREE_OF(db, int, struct record, less, 4096);

static unsigned nodes_taken;
static void *counted_take(void *arg, size_t bytes, const void *near)
{
    nodes_taken++;
    return ps_volatile().take(arg, bytes, near);
}

static void filled_in_order(const struct db *i, int first, int last, int step)
{
    PS_ACCESS(db_keyed, a, i, PS_CHANGE);
    for (int key = 1; key <= 300; key++)
        assert_int_equal(db_insert(&a, &key, &(struct record){.id = (uint64_t)key}), 0);
    PS_ACCESS(db_range, r, i, NULL, NULL, PS_UP, PS_LOOK);
    int key = first;
    for (const struct record *record; (record = db_next(&r)); key += step)
        assert_true(*db_key(&r) == key && record->id == (uint64_t)key);
    assert_int_equal(key, last + step);
}

static void instances_of_one_type_have_names_orders_and_initial_sizes(void **s)
{
    (void)s;
    struct { struct db_head db1, db2; } root = {0};
    struct ps_memory counted = {.take = counted_take, .give = ps_volatile().give};
    struct db db1 = {.head = &root.db1, .memory = counted, .name = "db1BTree"};
    struct db db2 = {.head = &root.db2, .memory = counted, .name = "db2BTree", PS_ORDER(greater),
                     .initial = 30 << 10};
    nodes_taken = 0;
    assert_int_equal(db_set_up(&db1), 0);
    assert_int_equal(nodes_taken, 1);
    assert_int_equal(db_set_up(&db2), 0);
    assert_int_equal(nodes_taken, 1 + 7);                   /* 7 nodes of 4 KiB fit 30 KiB */
    filled_in_order(&db2, 300, 1, -1);
    assert_int_equal(nodes_taken, 1 + 7);                   /* they are enough */
    filled_in_order(&db1, 1, 300, 1);
    assert_true(nodes_taken > 1 + 7);
    assert_string_equal(root.db1.kept.head.name, "db1BTree");
    assert_string_equal(root.db2.kept.head.name, "db2BTree");
    struct db swapped = {.head = &root.db2, .memory = counted};
    PS_ACCESS(db_keyed, a, &swapped, PS_LOOK);              /* the order is a part of the type */
    assert_true(!db_find(&a, &(int){5}) && errno == EPROTOTYPE);
    assert_true(db_tear_down(&db1) == 0 && db_tear_down(&db2) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instances_of_one_type_have_names_orders_and_initial_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
