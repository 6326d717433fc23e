/*
 * manager_clone.c - /bin/clone: a writable copy of a container.
 *
 * Aim     the clone has what the original has, at addresses of its own, and its pointers lead into
 *         itself; what is changed in it is not changed in the original; transactions of several
 *         processes on it are isolated, undone by aborts and deaths. Nobody writes the original
 *         while it lives, and everybody can when its manager was killed. Pages that were not
 *         changed leave memory and come again; those that were stay.
 * Method  a list over many pages, the same code on both.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "manager.h"
#include "press.h"
#include "pstore_test.h"
#include "user/managers/clone.h"
#include "user/start.h"

enum { NODES = 600, KILLS = 6, SHORT_MS = 60, LONG_MS = 20000 };
struct node { struct node *next; long value; char other[1500]; };
struct list { struct node *first; long count; };
static ps_container *c;
static struct list *clone_list;          /* the clone's root */
static struct clone_info clone_info;

static int make(void *unused)
{
    struct list *list = ps_root(c);
    (void)unused;
    for (int i = 0; list && i < NODES; i++) {
        struct node *n = ps_new(c, struct node, NULL);
        if (!n) return -errno;
        *n = (struct node){.next = list->first, .value = i};
        list->first = n;
        list->count++;
    }
    return list ? 0 : -errno;
}

struct walk { int of_clone; long add, sum, count, outside; };
static int walk(void *arg)
{
    struct walk *w = arg;
    struct list *list = w->of_clone ? clone_list : ps_root(c);
    uint64_t from = w->of_clone ? clone_info.base : clone_info.original;
    w->sum = w->count = w->outside = 0;
    for (struct node *n = list->first; n; n = n->next, w->count++) {
        w->outside += (uint64_t)(uintptr_t)n - from >= clone_info.pages * 4096;
        if (w->add && w->count % 3 == 0) n->value += w->add;
        w->sum += n->value;
    }
    return w->add < 0 ? -ECANCELED : 0;
}
static long sum_of(int of_clone)
{
    struct walk w = {.of_clone = of_clone};
    int e = ps_transaction(walk, &w);
    return e ? e : w.outside || w.count != NODES ? -1 : w.sum;
}
static int add_to_clone(long add)
{
    struct walk w = {.of_clone = 1, .add = add};
    return ps_transaction(walk, &w);
}
static int root_at(void *out) { return *(void **)out = ps_root(c), 0; }

/* Finds the clone; its root is where the original's is. */
static int clone_open(void)
{
    char *at = NULL, *root = NULL;
    for (int i = 0; i < 30000 && !at; i++) {
        at = km_open("trial", "trial", KM_READ | KM_WRITE);
        if (!at) pause_ms(1);
    }
    if (!at || km_call("trial", "trial", &clone_info, sizeof clone_info) ||
        ps_transaction(root_at, &root))
        return 0;
    clone_list = (struct list *)(at + (root - (char *)(uintptr_t)clone_info.original));
    return (uint64_t)(uintptr_t)at == clone_info.base;
}

static int child(long rounds)
{
    c = ps_open("original", 0, PS_LAYOUT(struct list, 1));
    if (!c || !clone_open()) return 2;
    for (long i = 0; i < rounds; i++, child_begun())
        if (add_to_clone(1) || sum_of(1) < 0) return 3;
    return 0;
}

static int write_original(void *unused)
{
    (void)unused;
    ((struct list *)ps_root(c))->count++;
    return 0;
}
static int try_original(unsigned ms)
{
    struct ps_options o = {.timeout_ms = ms};
    return ps_transaction_opt(write_original, NULL, &o);
}

static void clients(const char *self, long each)
{
    long before = sum_of(1);
    int a = child_start(self, "add", "5"), b = child_start(self, "add", "5");
    int bad = child_wait(a) | child_wait(b);
    tap_ok(!bad && sum_of(1) == before + 10 * each, "processes change it, one after the other");
    bad = 0;
    for (int i = 0; i < KILLS; i++) {
        int pid = child_start(self, "add", "100000");
        bad += !child_has_begun(pid);
        pause_ms(5 * i);
        kill(pid, SIGKILL);
        (void)child_wait(pid);
        long now = sum_of(1);
        bad += now < before || (now - before) % each != 0;
    }
    is(bad, 0, "clients are killed, and leave whole transactions");
}

int main(int argc, char **argv)
{
    const char *start[] = {"clone", "original", "trial", "8", NULL};
    const long first = (long)NODES * (NODES - 1) / 2, each = (NODES + 2) / 3;
    if (argc > 2) return child(atol(argv[2]));
    tap_plan(12);
    c = ps_open("original", PS_CREATE | PS_WRITE, PS_LAYOUT(struct list, 1));
    if (!tap_ok(c && ps_transaction(make, NULL) == 0, "a list of %d", NODES)) return tap_end();
    int manager = (int)start_program("/bin/clone", start, 0, 1);
    tap_ok(clone_open(), "a clone of it");
    is(sum_of(1), first, "it has the same list, whose pointers lead into itself");
    tap_ok(add_to_clone(1000) == 0 && sum_of(1) == first + 1000 * each, "it is changed");
    is(sum_of(0), first, "the original is not");
    tap_ok(add_to_clone(-7) == -ECANCELED && sum_of(1) == first + 1000 * each, "an abort undoes");
    is(try_original(SHORT_MS), -ETIMEDOUT, "nobody writes the original meanwhile");
    clients(argv[0], each);
    long was = sum_of(1);
    uint64_t evictions = system_info().evictions;
    bool pressed = press_memory(3000);
    tap_ok(pressed && system_info().evictions > evictions && sum_of(1) == was && sum_of(0) == first,
           "pages leave memory, and all is as it was");
    kd_call3(KD_PROCESS_KILL, manager, 9, 0);
    kd_call3(KD_PROCESS_WAIT, manager, 0, 0);
    tap_ok(sum_of(1) < 0 && try_original(LONG_MS) == 0,
           "with its manager the clone and the lock end");
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck");
    return tap_end();
}
