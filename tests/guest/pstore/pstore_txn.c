/*
 * pstore_txn.c - transactions of libpstore in the guest.
 *
 * Aim     commit, every way out of a body, explicit transactions, suspend and resume, isolation,
 *         and that a wild access ends the program and nothing else.
 * Method  one counter in a container; what a transaction should have done is compared with a fresh
 *         transaction. Programs that are to be killed are children: this program, called again.
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <unistd.h>

#include "pstore_test.h"

struct root { long count; char text[64]; };

static ps_container *c;
static long seen;
static int runs;

static int add(void *n)
{
    struct root *root = ps_root(c);
    runs++;
    if (!root)
        return -errno;
    root->count += *(int *)n;
    return 0;
}

static int look(void *unused)
{
    (void)unused;
    struct root *root = ps_root(c);
    seen = root ? root->count : -1;
    return 0;
}

static long count_now(void)
{
    return ps_transaction(look, NULL) == 0 ? seen : -1;
}

static int one = 1, ten = 10;
static _Atomic int goes_on;

static int add_and_fail(void *value)
{
    add(&one);
    return *(int *)value;
}

static int deep(int depth)
{
    add(&one);
    if (depth == 0 && !goes_on)
        ps_abort(ECANCELED);
    return depth == 0 ? 0 : deep(depth - 1) + 1;
}

static int add_and_abort(void *unused)
{
    (void)unused;
    return deep(20);
}

static void bodies(void)
{
    long before = count_now();
    is(ps_transaction(add, &one), 0, "a transaction commits");
    is(count_now(), before + 1, "what it stored is there");
    is(ps_transaction(add_and_fail, &(int){7}), 7, "a body's own value is returned");
    is(ps_transaction(add_and_fail, &(int){-EDEADLK}), -EDEADLK, "and never taken for a deadlock");
    is(ps_transaction(add_and_abort, NULL), -ECANCELED, "ps_abort leaves a body from any depth");
    is(count_now(), before + 1, "and all three are undone");
    is(ps_active(), 0, "no transaction is active afterwards");
}

static jmp_buf caught;

static void on_abort(int error, void *arg)
{
    *(int *)arg = error;
    longjmp(caught, 1);
}

static void explicit_ones(void)
{
    static int error;
    long before = count_now();
    is(ps_begin(NULL), 0, "an explicit transaction begins");
    is(ps_active(), 1, "and is active");
    is(ps_begin(NULL), -EALREADY, "beginning twice gives EALREADY");
    add(&one);
    is(ps_commit(), 0, "it commits");
    ps_begin(NULL);
    add(&one);
    is(ps_rollback(), 0, "another is rolled back");
    is(count_now(), before + 1, "and only the first counts");

    /* A transaction that this thread suspended holds the page: waiting for it is a deadlock. */
    ps_begin(NULL);
    add(&ten);
    ps_tx *holder = ps_suspend();
    error = 0;
    ps_catch(on_abort, &error);
    if (setjmp(caught) == 0) {
        ps_begin(NULL);
        add(&one);
        ps_rollback();
    }
    is(error, EDEADLK, "the system's abort of an explicit transaction goes to ps_catch");
    struct ps_options twice = {.retries = 2};
    runs = 0;
    is(ps_transaction_opt(add, &one, &twice), -EDEADLK, "retries end with EDEADLK");
    is(runs, 3, "after the first run and two more");
    struct ps_options snapshot = {.isolation = PS_SNAPSHOT};
    is(ps_transaction_opt(look, NULL, &snapshot), 0, "a snapshot waits for nobody");
    is(seen, before + 1, "and sees what is committed");
    is(ps_resume(holder), 0, "the suspended transaction is taken up again");
    add(&one);
    is(ps_commit(), 0, "and commits");
    is(count_now(), before + 12, "with what it did before and after");
    ps_catch(NULL, NULL);
}

static int file_body(void *descriptor)
{
    struct root *root = ps_root(c);
    int fd = *(int *)descriptor;
    if (write(fd, "from a file", 11) != 11 || lseek(fd, 0, SEEK_SET) != 0)
        return -errno;
    return read(fd, root->text, 11) == 11 ? 0 : -errno;
}

static int text_is_right(void *unused)
{
    (void)unused;
    struct root *root = ps_root(c);
    return memcmp(root->text, "from a file", 11) != 0;
}

static void system_calls(void)
{
    int fd = open("/tmp/pstore_txn", O_CREAT | O_RDWR, 0600);
    is(ps_transaction(file_body, &fd), 0, "a system call stores into a container");
    is(ps_transaction(text_is_right, NULL), 0, "and it is committed");
    close(fd);
}

static void *dies_in_a_transaction(void *unused)
{
    (void)unused;
    ps_begin(NULL);
    add(&ten);
    return NULL;
}

static void threads(void)
{
    pthread_t thread;
    long before = count_now();
    pthread_create(&thread, NULL, dies_in_a_transaction, NULL);
    pthread_join(thread, NULL);
    is(ps_transaction(add, &one), 0, "a thread that ended in a transaction holds nothing");
    is(count_now(), before + 1, "and its changes are gone");
}

/* ---- children ---- */

static int store_into_it(void *unused)
{
    (void)unused;
    ((struct root *)ps_root(c))->count = 12345;
    return 0;
}

static int child(const char *what)
{
    c = ps_open("txn", strcmp(what, "read-only") == 0 ? 0 : PS_WRITE, PS_LAYOUT(struct root, 1));
    if (!c)
        return 90;
    if (strcmp(what, "read-only") == 0)
        return ps_transaction(store_into_it, NULL) == 0 ? 91 : 92;
    struct root *root;
    ps_begin(NULL);
    root = ps_root(c);
    root->count = 54321;
    if (strcmp(what, "exit") == 0)
        return 0;
    ps_rollback();
    root->count = 99999;                  /* outside */
    return 93;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return child(argv[1]);
    tap_plan(31);
    ps_delete("txn");
    c = ps_open("txn", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    is(c != NULL, 1, "a container is created");
    is(ps_transaction(add, &(int){0}), 0, "with its root");
    bodies();
    explicit_ones();
    system_calls();
    threads();
    long before = count_now();
    int status = child_run(argv[0], "read-only", NULL);
    tap_ok(status != 0 && (status < 90 || status > 99), "a store into a read-only container kills");
    status = child_run(argv[0], "outside", NULL);
    tap_ok(status != 0 && (status < 90 || status > 99), "a store outside a transaction kills");
    is(child_run(argv[0], "exit", NULL), 0, "a program may exit in a transaction");
    is(count_now(), before, "none of them changed anything");
    return tap_end();
}
