/*
 * manager_branch.c - /bin/branch: a writable copy of a container that is kept in the store.
 *
 * Aim     the branch has what the original had, at addresses of its own, and its pointers lead into
 *         itself; what is changed in it is not changed in the original, persists, and takes room
 *         for changed pages only; where that ends a commit is undone. Nobody writes the original
 *         while the branch is open. What was written to it before the branch is opened again is an
 *         error there, not a page of another time; changed pages stay readable. The manager and the
 *         store are killed: what was committed is there.
 * Method  a list over many pages, the same code on both. Two branches of one container.
 */
#include <errno.h>
#include <string.h>

#include "manager.h"
#include "pstore_test.h"

enum { NODES = 700, BYTES = 1 << 20 };
struct node { struct node *next; long value; char other[1500]; };
struct list { struct node *first; long count; };
static ps_container *original, *opened;
static struct list *branch_list;        /* the branch's root, where the original's is */

static int make(void *unused)
{
    struct list *list = ps_root(original);
    (void)unused;
    for (int i = 0; list && i < NODES; i++) {
        struct node *n = ps_new(original, struct node, NULL);
        if (!n) return -errno;
        *n = (struct node){.next = list->first, .value = i};
        list->first = n;
    }
    return list ? 0 : -errno;
}

struct walk { const ps_container *of; long add, every, sum, count, outside; };
static int walk(void *arg)
{
    struct walk *w = arg;
    struct list *list = w->of == opened ? branch_list : ps_root(original);
    w->sum = w->count = w->outside = 0;
    for (struct node *n = list->first; n; n = n->next, w->count++) {
        w->outside += (uintptr_t)n - (uintptr_t)ps_address(w->of) >= 4 * BYTES;
        if (w->add && w->count % w->every == 0) n->value += w->add;
        w->sum += n->value;
    }
    return w->add < 0 ? -ECANCELED : 0;
}

static long sum_of(const ps_container *of)
{
    struct walk w = {.of = of};
    int e = ps_transaction(walk, &w);
    return e ? e : w.outside || w.count != NODES ? -EUCLEAN : w.sum;
}

static int add_to_branch(long add, long every)
{
    struct walk w = {.of = opened, .add = add, .every = every};
    return ps_transaction(walk, &w);
}

static int root_at(void *out) { return *(void **)out = ps_root(original), 0; }

static int branch_open(const char *name)
{
    char *root = NULL;
    opened = ps_open(name, PS_WRITE, NULL);
    int error = opened ? ps_transaction(root_at, &root) : -errno;
    if (!error)
        branch_list = (struct list *)((char *)ps_address(opened) +
                                      (root - (char *)ps_address(original)));
    return error;
}

static int write_last(void *add)
{
    struct node *n = ((struct list *)ps_root(original))->first;
    while (n->next) n = n->next;
    n->value += *(long *)add;
    return 0;
}

static int write_original(long add, uint32_t timeout_ms)
{
    return ps_transaction_opt(write_last, &add, &(struct ps_options){.timeout_ms = timeout_ms});
}

static int pid_of(const char *program)
{
    static struct kd_process_info rows[256];
    long n = kd_call3(KD_PROCESS_LIST, (long)rows, 256, 0);
    for (long i = 0; i < n && i < 256; i++)
        if (strcmp(rows[i].name, program) == 0) return rows[i].pid;
    return 0;
}

static void close_wait(void)
{
    ps_close(opened);
    for (int i = 0; i < 3000 && pid_of("branch"); i++) pause_ms(10);
}

static void test_deaths(long wanted)
{
    kd_call3(KD_PROCESS_KILL, pid_of("branch"), 9, 0);
    is(WHEN_BACK(sum_of(opened)), wanted, "its manager is killed: all is there");
    kd_call3(KD_PROCESS_KILL, store_pid(), 9, 0);
    is(WHEN_BACK(sum_of(opened)), wanted, "the store is killed: all is there");
}

static void test_stale(long changed)
{
    close_wait();
    is(write_original(50, 0), 0, "while nobody has the branch open the original is written");
    is(branch_open("trial"), 0, "opened again");
    is(sum_of(opened), -ESTALE, "that page is refused, not taken for one of the branch's");
    close_wait();
    is(write_original(-50, 0), 0, "(as it was)");
    is(branch_open("trial"), 0, "opened again");
    is(sum_of(opened), changed, "now it is the branch again");
}

static int is_there(const char *name)
{
    ps_container *c = ps_open(name, 0, NULL);
    return c ? ps_close(c) == 0 : errno != ENOENT;
}

static void test_refused(void)
{
    const char *too[] = {"original", "1", "2", NULL}, *none[] = {"original", "1", NULL};
    const char *of[] = {"no-such", "2", "1", NULL}, *full[] = {"original", "1024", "1024", NULL};
    is(ps_manager("wrong", "/bin/branch", too), -ECHILD, "more room than pages is refused");
    is(ps_manager("wrong", "/bin/branch", none), -ECHILD, "and a size that is missing");
    is(ps_manager("wrong", "/bin/branch", of), -ECHILD, "and an original that is not there");
    tap_ok(!is_there("wrong") && !is_there("wrong.pages"), "nothing was made");
    is(ps_manager("full", "/bin/branch", full), 0, "one that the store has no room for");
    tap_ok(!ps_open("full", PS_WRITE, NULL) && errno == ECHILD, "fails when it is opened");
    tap_ok(is_there("full") && !is_there("full.pages"), "and takes away what it made below");
}

int main(void)
{
    const char *how[] = {"original", "4", "1", NULL};
    const long first = (long)NODES * (NODES - 1) / 2;
    tap_plan(33);
    original = ps_open("original", PS_CREATE | PS_WRITE, PS_LAYOUT(struct list, 1));
    is(original ? ps_transaction(make, NULL) : -errno, 0, "a list over 350 pages");
    test_refused();
    is(ps_manager("trial", "/bin/branch", how), 0, "a branch of it");
    is(branch_open("trial"), 0, "is opened");
    is(sum_of(opened), first, "it has the same list, whose pointers lead into itself");
    is(add_to_branch(1000, 10), 0, "it is changed");
    is(sum_of(opened), first + NODES * 100, "(so)");
    is(sum_of(original), first, "the original is not");
    is(add_to_branch(-7, 10), -ECANCELED, "an abort");
    is(sum_of(opened), first + NODES * 100, "undoes");
    is(add_to_branch(1, 1), -ENOSPC, "more pages than there is room for are undone");
    is(sum_of(opened), first + NODES * 100, "(they are)");
    is(write_original(1, 60), -ETIMEDOUT, "nobody writes the original meanwhile");
    test_deaths(first + NODES * 100);
    test_stale(first + NODES * 100);
    close_wait();
    is(ps_manager("other", "/bin/branch", how) || branch_open("other"), 0, "another branch");
    is(sum_of(opened), first, "begins with the original");
    close_wait();
    /* in a directory: it is asked, and begins, with what lies there */
    is(ps_directory_create("apart") | ps_rename("original", "apart/list"), 0, "moved");
    const char *near[] = {"list", "4", "1", NULL}, *far[] = {"apart/list", "4", "1", NULL};
    is(ps_manager("apart/branch", "/bin/branch", far), -ECHILD, "one that has no such path");
    is(ps_manager("apart/branch", "/bin/branch", near), 0, "and one that finds it beside itself");
    tap_ok(branch_open("apart/branch") == 0 && sum_of(opened) == first &&
               is_there("apart/branch.pages"), "begins with it, and keeps its own there, too");
    return tap_end();
}
