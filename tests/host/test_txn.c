/*
 * test_txn.c - transactions of libpstore against a double of kernel and store manager
 * (fake_store.h).
 */
#include "fake_box.h"

/* ---- one transaction at a time ---- */

static int count_up(void *arg)
{
    struct root *root = ps_root(container);
    if (!root)
        return -errno;
    root->count++;
    *(struct root **)arg = root;
    return 0;
}

static uint64_t counted;

static int count_read(void *arg)
{
    struct root *root = ps_root(container);
    (void)arg;
    counted = root ? root->count : 0;
    return 0;
}

static void the_root_is_made_once_and_kept(void **state)
{
    (void)state;
    struct root *first, *second;
    assert_int_equal(ps_transaction(count_up, &first), 0);
    assert_int_equal(ps_transaction(count_up, &second), 0);
    assert_ptr_equal(first, second);
    assert_ptr_equal(ps_container_of(first), container);
    assert_int_equal(ps_transaction(count_read, NULL), 0);
    assert_int_equal(counted, 2);
    assert_int_equal(fake_counts.names, 1);
}

static int fail_with_7(void *arg)
{
    struct root *root = ps_root(container);
    (void)arg;
    root->count = 100;
    ps_alloc(container, 100, NULL);
    return 7;
}

static int abort_with_einval(void *arg)
{
    (void)arg;
    fail_with_7(NULL);
    ps_abort(EINVAL);
}

static void what_a_body_gives_up_is_undone(void **state)
{
    (void)state;
    struct root *root;
    assert_int_equal(ps_transaction(fail_with_7, NULL), 7); /* takes its root along */
    assert_int_equal(fake_counts.names, 0);
    assert_int_equal(ps_transaction(count_up, &root), 0);
    assert_int_equal(ps_transaction(fail_with_7, NULL), 7);
    assert_int_equal(ps_transaction(abort_with_einval, NULL), -EINVAL);
    assert_int_equal(ps_transaction(count_read, NULL), 0);
    assert_int_equal(counted, 1);
    assert_false(ps_active());
}

static unsigned runs;

static int run_and_count(void *arg)
{
    runs++;
    return count_up(arg);
}

static void a_deadlock_victim_runs_again(void **state)
{
    (void)state;
    struct root *root;
    assert_int_equal(ps_transaction(count_up, &root), 0);
    runs = 0;
    fake_abort_at_fault(1, EDEADLK);
    assert_int_equal(ps_transaction(run_and_count, &root), 0);
    assert_int_equal(runs, 2);
    assert_int_equal(ps_transaction(count_read, NULL), 0);
    assert_int_equal(counted, 2);
}

static char said[32];

static void say(void *letter)
{
    assert_false(ps_active());
    strcat(said, letter);
}

static int says(void *arg)
{
    assert_int_equal(ps_on_commit(say, "a") | ps_on_abort(say, "x") | ps_on_commit(say, "b"), 0);
    return count_up(arg);
}

static void functions_run_behind_the_end_of_each_run(void **state)
{
    (void)state;
    struct root *root;
    said[0] = '\0';
    assert_int_equal(ps_transaction(says, &root), 0);
    assert_string_equal(said, "ab");
    fake_abort_at_fault(1, EDEADLK);
    assert_int_equal(ps_transaction(says, &root), 0);
    assert_string_equal(said, "abxab");
    fake_abort_at_fault(1, ETIMEDOUT);
    assert_int_equal(ps_transaction(says, &root), -ETIMEDOUT);
    assert_string_equal(said, "abxabx");
    assert_int_equal(ps_on_commit(say, "?"), -EPERM);
}

static void other_aborts_are_returned(void **state)
{
    (void)state;
    static const int reasons[] = {ETIMEDOUT, ENOSPC, EIO, ESTALE, ENOMEM, E2BIG, EXDEV};
    struct root *root;
    for (unsigned i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        runs = 0;
        fake_abort_at_fault(1, reasons[i]);
        assert_int_equal(ps_transaction(run_and_count, &root), -reasons[i]);
        assert_int_equal(runs, 1);
        fake_refuse_commit(reasons[i]);
        assert_int_equal(ps_transaction(count_up, &root), -reasons[i]);
    }
    assert_int_equal(fake_counts.names, 0);
}

static int count_up_and_deadlock(void *arg)
{
    fake_abort_at_fault(1, EDEADLK);
    return run_and_count(arg);
}

static void retries_end(void **state)
{
    (void)state;
    struct root *root;
    struct ps_options three = {.retries = 3};
    runs = 0;
    assert_int_equal(ps_transaction_opt(count_up_and_deadlock, &root, &three), -EDEADLK);
    assert_int_equal(runs, 4);
    fake_abort_at_fault(0, 0);
}

static void a_name_made_by_another_is_found_on_the_second_run(void **state)
{
    (void)state;
    struct root *root;
    uint64_t elsewhere = KD_STORE_BASE + 100 * 4096;
    fake_steal_name(ROOT_NAME, elsewhere, sizeof(struct root));
    runs = 0;
    assert_int_equal(ps_transaction(run_and_count, &root), 0);
    assert_int_equal(runs, 2);
    assert_int_equal((uintptr_t)root, elsewhere);
    fake_counts.wrong_pages = 0; /* the other's page is none of ours */
}

static int names_body(void *arg)
{
    void **out = arg;
    out[0] = ps_named(container, "first", 40);
    out[1] = ps_named(container, "second", 5000);
    assert_ptr_equal(ps_named(container, "first", 40), out[0]);
    assert_ptr_equal(ps_named(container, "first", 0), out[0]);
    assert_null(ps_named(container, "first", 41));
    assert_int_equal(errno, EPROTO);
    assert_null(ps_named(container, "third", 0));
    assert_int_equal(errno, ENOENT);
    assert_null(ps_named(container, "\1root", 8));
    assert_int_equal(errno, EINVAL);
    return 0;
}

static void named_objects_are_found_again(void **state)
{
    (void)state;
    void *once[2], *twice[2];
    assert_int_equal(ps_transaction(names_body, once), 0);
    assert_int_equal(ps_transaction(names_body, twice), 0);
    assert_memory_equal(once, twice, sizeof once);
    assert_int_equal(fake_counts.names, 2);
}

/* ---- explicit transactions, suspend and resume ---- */

static jmp_buf caught;

static void on_abort(int error, void *arg)
{
    *(int *)arg = error;
    longjmp(caught, 1);
}

static void explicit_transactions_commit_roll_back_and_are_caught(void **state)
{
    (void)state;
    static int error;
    struct root *root;
    ps_catch(on_abort, &error);
    assert_int_equal(ps_begin(NULL), 0);
    assert_int_equal(count_up(&root), 0);
    assert_int_equal(ps_commit(), 0);
    assert_int_equal(ps_begin(NULL), 0);
    assert_int_equal(count_up(&root), 0);
    assert_int_equal(ps_rollback(), 0);
    if (setjmp(caught) == 0) {
        assert_int_equal(ps_begin(NULL), 0);
        fake_abort_at_fault(1, EDEADLK);
        count_up(&root);
        fail();
    }
    assert_int_equal(error, EDEADLK);
    assert_false(ps_active());
    assert_int_equal(ps_transaction(count_read, NULL), 0);
    assert_int_equal(counted, 1);
    ps_catch(NULL, NULL);
}

static int outer_body(void *arg)
{
    struct root *root;
    count_up(&root);
    ps_tx *outer = ps_suspend();
    assert_non_null(outer);
    assert_false(ps_active());
    assert_int_equal(ps_transaction(count_read, NULL), 0); /* sees the committed count */
    *(uint64_t *)arg = counted;
    assert_int_equal(ps_resume(outer), 0);
    count_up(&root);
    return 0;
}

static void a_suspended_transaction_is_taken_up_again(void **state)
{
    (void)state;
    struct root *root;
    uint64_t between = 99;
    assert_int_equal(ps_transaction(count_up, &root), 0);
    assert_int_equal(ps_transaction(outer_body, &between), 0);
    assert_int_equal(between, 1);
    assert_int_equal(ps_transaction(count_read, NULL), 0);
    assert_int_equal(counted, 3);
}

static int forgets_to_resume(void *arg)
{
    struct root *root;
    (void)arg;
    count_up(&root);
    ps_suspend();
    return 0;
}

static void a_body_that_ends_suspended_is_undone(void **state)
{
    (void)state;
    struct root *root;
    assert_int_equal(ps_transaction(count_up, &root), 0);
    assert_int_equal(ps_transaction(forgets_to_resume, NULL), -EPERM);
    assert_int_equal(ps_transaction(count_read, NULL), 0);
    assert_int_equal(counted, 1);
}

static ps_tx *outer_tx;

static int inner_abandoned(void *arg)
{
    struct root *root;
    (void)arg;
    count_up(&root);
    ps_suspend();
    fake_abort_at_fault(1, ETIMEDOUT);
    ps_resume(outer_tx);
    count_up(&root);                      /* leaves both bodies */
    fail();
    return 0;
}

static int outer_abandons(void *arg)
{
    struct root *root;
    (void)arg;
    count_up(&root);
    outer_tx = ps_suspend();
    ps_transaction(inner_abandoned, NULL);
    fail();
    return 0;
}

static void an_outer_abort_ends_inner_transactions(void **state)
{
    (void)state;
    struct root *root;
    assert_int_equal(ps_transaction(count_up, &root), 0);
    assert_int_equal(ps_transaction(outer_abandons, NULL), -ETIMEDOUT);
    unsigned aborts = fake_counts.aborts;
    assert_int_equal(aborts, 2);
    assert_int_equal(ps_transaction(count_read, NULL), 0);
    assert_int_equal(counted, 1);
}

/* ---- errors ---- */

static int one_object(void *arg)
{
    *(void **)arg = ps_alloc(container, 64, NULL);
    return *(void **)arg ? 0 : -errno;
}

static int bad_arguments(void *arg)
{
    static char volatile_memory[64];
    struct ps_container *none = (void *)volatile_memory;
    char *p = ps_alloc(container, 64, NULL);
    (void)arg;
    assert_null(ps_alloc(none, 8, NULL));
    assert_int_equal(errno, EINVAL);
    assert_null(ps_alloc(NULL, 8, NULL));
    assert_int_equal(errno, EINVAL);
    assert_null(ps_alloc(container, 0, NULL));
    assert_int_equal(errno, EINVAL);
    assert_null(ps_alloc(container, SIZE_MAX, NULL));
    assert_int_equal(errno, ENOSPC);
    assert_null(ps_alloc(container, 1ull << 40, p));
    assert_int_equal(errno, ENOSPC);
    assert_non_null(ps_alloc(container, 8, volatile_memory)); /* a hint is only a hint */
    assert_int_equal(ps_free(NULL), 0);
    assert_int_equal(ps_free(volatile_memory), -EINVAL);
    assert_int_equal(ps_free(p + 16), -EINVAL);
    assert_int_equal(ps_free(p + 1), -EINVAL);
    assert_int_equal(ps_free(p), 0);
    assert_int_equal(ps_free(p), -EINVAL);
    assert_int_equal(ps_free((void *)KD_STORE_BASE), -EINVAL);
    assert_int_equal(ps_size(p), 0);
    assert_int_equal(ps_touch(volatile_memory, 1), -EINVAL);
    assert_int_equal(ps_touch(ps_root(container), 16), 0);
    assert_int_equal(ps_free(ps_root(container)), -EBUSY); /* the commit would name what is gone */
    assert_int_equal(ps_transaction(bad_arguments, NULL), -EALREADY);
    assert_int_equal(ps_begin(NULL), -EALREADY);
    assert_int_equal(ps_commit(), -EPERM);
    assert_int_equal(ps_rollback(), -EPERM);
    assert_null(ps_open("new", PS_CREATE | PS_WRITE, NULL));
    assert_int_equal(errno, EBUSY);
    ps_container *again = ps_open("box", PS_WRITE, NULL);
    assert_ptr_equal(again, container);
    assert_int_equal(ps_close(container), -EBUSY);
    assert_int_equal(ps_delete("box"), -EBUSY);
    assert_int_equal(ps_rename("box", "bag"), -EBUSY);
    assert_int_equal(ps_list(NULL, 0), -EBUSY);
    assert_int_equal(ps_resume(NULL), -EALREADY);
    return 1;
}

static void bad_calls_inside_a_transaction_give_errors(void **state)
{
    (void)state;
    assert_int_equal(ps_transaction(bad_arguments, NULL), 1);
    assert_int_equal(ps_close(container), 0);
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static void bad_calls_outside_give_errors(void **state)
{
    (void)state;
    struct ps_options o = {.isolation = 9};
    char name[65];
    memset(name, 'x', 64);
    name[64] = 0;
    assert_null(ps_alloc(container, 8, NULL));
    assert_int_equal(errno, EPERM);
    assert_null(ps_root(container));
    assert_int_equal(errno, EPERM);
    assert_int_equal(ps_free((void *)(KD_STORE_BASE + 64)), -EPERM);
    assert_int_equal(ps_touch((void *)KD_STORE_BASE, 1), -EPERM);
    assert_int_equal(ps_transaction(NULL, NULL), -EINVAL);
    assert_int_equal(ps_transaction_opt(nothing, NULL, &o), -EINVAL);
    o = (struct ps_options){.isolation = PS_CONTAINER_LOCK};
    assert_int_equal(ps_transaction_opt(nothing, NULL, &o), -EINVAL);
    o.locked = container;
    assert_int_equal(ps_transaction_opt(nothing, NULL, &o), 0);
    assert_int_equal(ps_commit(), -EPERM);
    assert_int_equal(ps_rollback(), -EPERM);
    assert_null(ps_suspend());
    assert_int_equal(errno, EPERM);
    assert_int_equal(ps_resume(NULL), -EINVAL);
    assert_int_equal(ps_resume((ps_tx *)name), -EPERM);
    assert_null(ps_open(NULL, 0, NULL));
    assert_int_equal(errno, EINVAL);
    assert_null(ps_open("", 0, NULL));
    assert_int_equal(errno, EINVAL);
    assert_null(ps_open(name, 0, NULL));
    assert_int_equal(errno, ENAMETOOLONG);
    assert_null(ps_open("box", PS_EXCLUSIVE, NULL));
    assert_int_equal(errno, EINVAL);
    assert_null(ps_open("box", PS_CREATE | PS_EXCLUSIVE, NULL));
    assert_int_equal(errno, EEXIST);
    assert_null(ps_open("none", PS_WRITE, NULL));
    assert_int_equal(errno, ENOENT);
    assert_null(ps_open("box", PS_WRITE, PS_LAYOUT(struct root, 2)));
    assert_int_equal(errno, EPROTO);
    assert_int_equal(ps_close(NULL), -EINVAL);
    assert_int_equal(ps_close((ps_container *)name), -EINVAL);
    assert_int_equal(ps_delete("none"), -ENOENT);
    assert_int_equal(ps_list(NULL, 1), -EINVAL);
    assert_int_equal(ps_list(NULL, 0), 1);
}

static int read_only_body(void *arg)
{
    (void)arg;
    assert_null(ps_alloc(container, 8, NULL));
    assert_int_equal(errno, EROFS);
    assert_null(ps_root(container));
    assert_int_equal(errno, ENOENT);
    return 0;
}

static void a_container_open_for_reading_is_not_allocated_in(void **state)
{
    (void)state;
    struct ps_options snapshot = {.isolation = PS_SNAPSHOT};
    assert_int_equal(ps_close(container), 0);
    container = ps_open("box", 0, PS_LAYOUT(struct root, 1));
    assert_int_equal(ps_transaction(read_only_body, NULL), 0);
    assert_ptr_equal(ps_open("box", PS_WRITE, NULL), container);
    assert_int_equal(ps_transaction_opt(one_object, &(void *){0}, &snapshot), -EROFS);
    assert_int_equal(ps_close(container), 0);
}

static void a_full_store_is_an_error_and_harms_nothing(void **state)
{
    (void)state;
    void *object;
    struct root *root;
    assert_int_equal(ps_transaction(count_up, &root), 0);
    fake_space_left(1);
    for (unsigned i = 0; i < 20 * 64; i++)
        if (ps_transaction(one_object, &object) != 0)
            break;
    assert_int_equal(ps_transaction(one_object, &object), -ENOSPC);
    assert_int_equal(ps_transaction(count_up, &root), 0);
    assert_int_equal(root != NULL, 1);
}

static void a_dead_manager_is_found_again(void **state)
{
    (void)state;
    struct root *root;
    assert_int_equal(ps_transaction(count_up, &root), 0);
    assert_int_equal(ps_begin(NULL), 0);
    fake_manager_dies(1);                 /* between two instructions */
    tx_active()->active = 0;              /* what tx_landed() does */
    stores_note_death();
    assert_int_equal(ps_transaction(count_up, &root), 0);
    assert_int_equal(ps_transaction(count_read, NULL), 0);
    assert_int_equal(counted, 2);
    fake_manager_dies(0);
    assert_int_equal(ps_transaction(count_up, &root), -EOWNERDEAD);
    assert_int_equal(ps_transaction(count_up, &root), -ENOTCONN);
    fake_manager_dies(1);
    assert_int_equal(ps_transaction(count_up, &root), 0);
}

/* Aim: a program and a manager of different versions do not work together by luck; the error says
 * so. */
static void a_manager_of_another_version_is_refused(void **state)
{
    (void)state;
    struct root *root;
    assert_int_equal(ps_transaction(count_up, &root), 0);
    fake_protocol++;
    fake_manager_dies(1);
    stores_note_death();
    assert_int_equal(ps_transaction(count_up, &root), -EPROTONOSUPPORT);
    assert_non_null(strstr(ps_strerror(-EPROTONOSUPPORT), "build the program again"));
    fake_protocol--;
    assert_int_equal(ps_transaction(count_up, &root), 0);
}

static int aborts(void *error) { ps_abort(*(int *)error); }
static int allocates_pages(void *pages)
{
    return ps_alloc(container, *(size_t *)pages * 4096, NULL) ? 0 : -errno;
}
/* All of them were read, to see that they are zero. */
static void pages_of_a_fresh_large_object_are_not_touched(void **state)
{
    size_t pages = 300;
    (void)state;
    for (int round = 0; round < 2; round++) {
        unsigned before = fake_counts.faults;
        assert_int_equal(ps_transaction(allocates_pages, &pages), 0);
        assert_true(fake_counts.faults - before < 5);
    }
}

static void an_abort_takes_an_error_of_either_sign(void **state)
{
    (void)state;
    int errors[] = {ENOENT, -ENOENT, 0, INT_MIN}, wanted[] = {-ENOENT, -ENOENT, -EINVAL, -EINVAL};
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(ps_transaction(aborts, &errors[i]), wanted[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_root_is_made_once_and_kept),
        TEST(what_a_body_gives_up_is_undone),
        TEST(a_deadlock_victim_runs_again),
        TEST(functions_run_behind_the_end_of_each_run),
        TEST(other_aborts_are_returned),
        TEST(retries_end),
        TEST(a_name_made_by_another_is_found_on_the_second_run),
        TEST(named_objects_are_found_again),
        TEST(explicit_transactions_commit_roll_back_and_are_caught),
        TEST(a_suspended_transaction_is_taken_up_again),
        TEST(a_body_that_ends_suspended_is_undone),
        TEST(an_outer_abort_ends_inner_transactions),
        TEST(bad_calls_inside_a_transaction_give_errors),
        TEST(bad_calls_outside_give_errors),
        TEST(a_container_open_for_reading_is_not_allocated_in),
        TEST(a_full_store_is_an_error_and_harms_nothing),
        TEST(a_dead_manager_is_found_again),
        TEST(a_manager_of_another_version_is_refused),
        TEST(pages_of_a_fresh_large_object_are_not_touched),
        TEST(an_abort_takes_an_error_of_either_sign),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
