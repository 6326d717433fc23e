/*
 * pstore_limit.c - PS_MEMORY: a container's share of memory is a hard limit.
 *
 * Aim     two containers with a limit each, and programs that read and change both at once: never
 *         more pages than both may have, and every word is right. A transaction that stores to far
 *         more pages than that commits, as its copies go to the log. Who may only read sets no
 *         limit; one that its setter set stays when that one dies, and goes for the next to say.
 * Method  Counters of the kernel: pages in memory are those of all containers, and there are two.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "pstore_test.h"

enum { PAGES = 500, FIRST = 60, SECOND = 100, ROUNDS = 30, LARGE = 400, CHILDREN = 2 };
static const char *const names[2] = {"first", "second"};
static ps_container *box[2];
static volatile uint64_t (*pages[2])[512];

static int make(void *which)
{
    ps_container *c = box[*(int *)which];
    uint64_t *root = ps_root(c);
    *root = (uint64_t)ps_alloc(c, (size_t)PAGES * 4096 + 4096, NULL);
    return *root ? 0 : -errno;
}
static int find(void *which)
{
    uint64_t *root = ps_root(box[*(int *)which]);
    pages[*(int *)which] = (void *)((*root + 4095) & ~4095ull);
    return 0;
}

struct part { int which; unsigned from, count; uint64_t add; long wrong; };

/* Each word of a page that is not 0 is the same: a transaction changes all that it changes. */
static int change(void *arg)
{
    const struct part *p = arg;
    for (unsigned i = p->from; i < p->from + p->count; i++)
        for (unsigned w = 0; w < 512; w += 128) pages[p->which][i][w] += p->add;
    return 0;
}
static int look(void *arg)
{
    struct part *p = arg;
    p->wrong = 0;
    for (unsigned i = p->from; i < p->from + p->count; i++)
        for (unsigned w = 0; w < 512; w += 128)
            p->wrong += p->add ? pages[p->which][i][w] != p->add
                               : pages[p->which][i][w] != pages[p->which][i][0];
    return 0;
}

static long resident(void) { return (long)system_info().resident_pages; }

static int both_open(int how)
{
    for (int i = 0; i < 2; i++) {
        box[i] = ps_open(names[i], how, PS_LAYOUT(uint64_t, 1));
        if (!box[i] || (how & PS_CREATE && ps_transaction(make, &i)) || ps_transaction(find, &i))
            return -1;
    }
    return 0;
}

/* Reads both in no order, and changes some pages of each. */
static int child(unsigned seed)
{
    if (both_open(PS_WRITE)) return 1;
    for (int i = 0; i < ROUNDS; i++) {
        struct part p = {.which = i % 2, .count = 20};
        p.from = (unsigned)rand_r(&seed) % (PAGES - 20);
        int e = ps_transaction(look, &p);
        if (e || p.wrong) {
            printf("# look at %u of %d in round %d: %d, %u words are wrong\n", p.from,
                   p.which, i, e, (unsigned)p.wrong);
            return 2;
        }
        p.from = (unsigned)rand_r(&seed) % (PAGES - 5);
        p.count = 5;
        p.add = 1;
        if (ps_transaction(change, &p)) return 3;
    }
    return 0;
}

static _Atomic bool stop;
static _Atomic long most;

static void *sampler(void *unused)
{
    (void)unused;
    while (!stop) {
        long now = resident();
        most = now > most ? now : most;
    }
    return NULL;
}

static void beside(const char *self)
{
    pthread_t watch;
    int pids[CHILDREN], failed = 0;
    pthread_create(&watch, NULL, sampler, NULL);
    for (int i = 0; i < CHILDREN; i++) {
        char seed[8];
        snprintf(seed, sizeof seed, "%d", i + 1);
        pids[i] = child_start(self, "child", seed);
    }
    for (int i = 0; i < CHILDREN; i++) {
        int r = child_wait(pids[i]);
        if (r) printf("# child: %d\n", r);
        failed += r != 0;
    }
    stop = true;
    pthread_join(watch, NULL);
    is(failed, 0, "programs read and change both, and all words are right");
    tap_ok(most <= FIRST + SECOND && most > (FIRST + SECOND) / 2,
           "at no moment are there more pages than both may have (%ld)", most);
}

static void large(void)
{
    struct part p = {.from = 0, .count = LARGE, .add = 1000000}, seen = p;
    uint64_t spills = system_info().spills;
    is(ps_transaction(look, &seen) || seen.wrong < 0, 0, "it is read");
    is(ps_transaction(change, &p), 0, "a transaction of more than six times the limit commits");
    tap_ok(system_info().spills - spills > LARGE / 2, "its copies go to the log (%ld)",
           (long)(system_info().spills - spills));
    seen.add = 0;
    is(ps_transaction(look, &seen) || seen.wrong, 0, "and are there");
    for (int i = 0; i < 3000 && resident() > FIRST + SECOND; i++) pause_ms(1);
    tap_ok(resident() <= FIRST + SECOND, "what was published goes (%ld)", resident());
}

static int setter(void)
{
    int opened = both_open(PS_WRITE), set = opened ? 0 : ps_policy(box[0], PS_MEMORY, 16);
    if (opened || set) printf("# opened: %d (%s); set: %d\n", opened, strerror(errno), set);
    return opened || set ? 1 : 17; /* without a close */
}

static int read_only(void)
{
    if (both_open(0)) return 1;
    return ps_policy(box[0], PS_MEMORY, 0) == -EROFS ? 0 : 2;
}

/* How many pages of the first are in memory once all were read. */
static long kept(void)
{
    struct part p = {.count = PAGES}, other = {.which = 1, .count = PAGES};
    if (ps_policy(box[1], PS_MEMORY, 16) || ps_transaction(look, &other)
        || ps_transaction(look, &p))
        return -1;
    return resident();
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "child")) return child((unsigned)atoi(argv[2]));
    if (argc > 1) return argv[1][0] == 's' ? setter() : read_only();
    tap_plan(15);
    if (both_open(PS_CREATE | PS_WRITE)) return printf("Bail out! no containers\n"), 1;
    is(ps_policy(box[0], PS_MEMORY, 15), -EINVAL, "fewer than 16 pages are no limit");
    is(ps_policy(box[0], PS_MEMORY, FIRST) | ps_policy(box[1], PS_MEMORY, SECOND), 0, "limits");
    struct part all = {.count = PAGES, .add = 1};
    for (all.which = 0; all.which < 2; all.which++)
        for (all.from = 0; all.from < PAGES; all.from += all.count) {
            all.count = 20;
            if (ps_transaction(change, &all)) return printf("Bail out! no change\n"), 1;
        }
    beside(argv[0]);
    large();
    is(child_run(argv[0], "read", ""), 0, "who may only read sets none");
    tap_ok(kept() <= FIRST + 16, "it is as it was");
    is(child_run(argv[0], "set", ""), 17, "a program sets one and ends");
    tap_ok(kept() <= 16 + 16, "the limit stays");
    is(ps_policy(box[0], PS_MEMORY, 0), 0, "the next takes it back");
    tap_ok(kept() >= PAGES, "and all pages stay");
    return tap_end();
}
