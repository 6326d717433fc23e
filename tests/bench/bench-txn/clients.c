/*
 * clients.c - several processes in one container, each in pages of its own: how much they get done,
 * and how long the kernel's own locks make them wait.
 *
 * Three kinds of work. A commit writes 4 pages and waits for the disk. The others write 64 pages
 * and undo that, so they only need a CPU: pages that lie together, or every 8th, between which the
 * other processes' lie (64 pages share a lock of the kernel). Transactions are counted by the
 * kernel, by process. Here the counter counts time, not instructions.
 *
 * A wait is as long as its lock is held, but for the host: when that takes a CPU away from a guest
 * that holds a lock, the other one waits for milliseconds. So the time is measured in pieces, and
 * the least is told: a lock that is in the way is so in all of them in which the CPUs run beside
 * each other. How long locks are held is counted without any host by
 *     scripts/run --icount --cpus 1 -c 'lockstat on; bench-txn clients 200'
 */
#include <unistd.h>

#include "bench.h"

enum { CLIENTS_MAX = 8, PAGES_EACH = 64, COMMIT_PAGES = 4, PROCESSES_MAX = 64, LOCKS_MAX = 32,
       PIECES = 20 };
enum kind { COMMITS = 0, APART = 100, BETWEEN = 200 }; /* plus the client's number: its argument */
struct root { char *pages; };
static ps_container *c;
static char *pages;

static int pages_find(void *unused)
{
    struct root *r = ps_root(c);
    if (!r->pages)
        r->pages = ps_alloc(c, (size_t)(CLIENTS_MAX + 1) * PAGES_EACH * KD_PAGE_BYTES, NULL);
    enum { ALIGN = PAGES_EACH * KD_PAGE_BYTES };
    pages = (char *)(((uintptr_t)r->pages + ALIGN - 1) & ~(uintptr_t)(ALIGN - 1));
    (void)unused;
    return r->pages ? 0 : -errno;
}

static int work(void *arg)
{
    unsigned number = *(unsigned *)arg % APART, kind = *(unsigned *)arg - number;
    unsigned step = kind == BETWEEN ? CLIENTS_MAX : 1,
             first = kind == BETWEEN ? number : number * PAGES_EACH;
    for (unsigned i = 0; i < (kind == COMMITS ? COMMIT_PAGES : PAGES_EACH); i++)
        ++*(volatile uint64_t *)(pages + (size_t)(first + i * step) * KD_PAGE_BYTES);
    return kind == COMMITS ? 0 : ECANCELED;
}

static void container_open(void)
{
    c = ps_open("bench-clients", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    int e = c ? ps_transaction(pages_find, NULL) : -errno;
    if (e)
        fail("the container", e);
}

/* Works until it is killed. */
int client_main(unsigned number)
{
    container_open();
    for (;;) {
        int e = ps_transaction(work, &number);
        if (e && e != ECANCELED)
            fail("a client", e);
    }
}

/* Transactions that these processes ended. */
static uint64_t done(const long *pid, unsigned n)
{
    static struct kd_process_info info[PROCESSES_MAX];
    long count = kd_call3(KD_PROCESS_LIST, (long)info, PROCESSES_MAX, 0);
    uint64_t sum = 0;
    for (long i = 0; i < count && i < PROCESSES_MAX; i++)
        for (unsigned k = 0; k < n; k++)
            if (info[i].pid == pid[k])
                sum += info[i].stats.commits + info[i].stats.aborts;
    return sum;
}

/* ---- what CPUs spun for, and how long locks were held ---- */

struct lock_wait {
    char name[24];
    unsigned long long waits, cycles, longest, holds, held, held_longest;
};
struct lock_waits { int count; struct lock_wait lock[LOCKS_MAX]; };

static void locks_look(struct lock_waits *l)
{
    static char text[65536];
    long n = kd_call4(KD_LOOK, KD_LOOK_LOCKS, 0, (long)text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    l->count = 0;
    for (char *line = strtok(text, "\n"); line && l->count < LOCKS_MAX; line = strtok(NULL, "\n")) {
        struct lock_wait *w = &l->lock[l->count];
        l->count += sscanf(line, "%23s %llu %llu %llu %llu %llu %llu", w->name, &w->waits,
                           &w->cycles, &w->longest, &w->holds, &w->held, &w->held_longest) == 7;
    }
}

/* Cycles between two looks. *worst: of the lock that most of them were spent on; *most: that was
 * held most. The entries of a table only grow in number. */
static uint64_t locks_between(const struct lock_waits *from, const struct lock_waits *to,
                              struct lock_wait *worst, struct lock_wait *most)
{
    uint64_t sum = 0;
    *worst = *most = (struct lock_wait){.name = "none"};
    for (int i = 0; i < to->count; i++) {
        struct lock_wait w = to->lock[i];
        if (i < from->count) {
            w.waits -= from->lock[i].waits;
            w.cycles -= from->lock[i].cycles;
            w.holds -= from->lock[i].holds;
            w.held -= from->lock[i].held;
        }
        sum += w.cycles;
        if (w.cycles > worst->cycles)
            *worst = w;
        /* its own view's lock is nobody else's */
        if (w.held > most->held && strcmp(w.name, "view") != 0)
            *most = w;
    }
    return sum;
}

/* ---- measuring ---- */

/* The least share of the CPUs' time, in %, that waits had in a piece of the next `ms`. */
static double least_waited(unsigned ms)
{
    static struct lock_waits from, to;
    struct lock_wait worst, most;
    double least = 100;
    for (int i = 0; i < PIECES; i++) {
        locks_look(&from);
        uint64_t cycles = counter();
        usleep(ms * 1000 / PIECES);
        cycles = counter() - cycles;
        locks_look(&to);
        double now = (double)locks_between(&from, &to, &worst, &most) * 100 /
                     (double)(cycles * system_now().cpus);
        least = now < least ? now : least;
    }
    return least;
}

/* What n processes do in a second; *waited: least_waited. */
static double clients(unsigned n, enum kind kind, unsigned ms, double *waited)
{
    static struct lock_waits before_locks, after_locks;
    struct lock_wait worst, most;
    long pid[CLIENTS_MAX];
    char number[16];
    for (unsigned i = 0; i < n; i++) {
        snprintf(number, sizeof number, "%u", kind + i);
        pid[i] = self_start("--client", number);
    }
    for (unsigned i = 0; i < n; i++)
        while (done(&pid[i], 1) < 10)
            usleep(1000);
    struct kd_system_info before = system_now();
    locks_look(&before_locks);
    uint64_t first = done(pid, n), cycles = counter();
    *waited = least_waited(ms);
    uint64_t last = done(pid, n);
    struct kd_system_info after = system_now();
    cycles = counter() - cycles;
    locks_look(&after_locks);
    (void)locks_between(&before_locks, &after_locks, &worst, &most);
    double us = (double)(after.uptime_ns - before.uptime_ns) / 1e3;
    if (worst.waits)
        printf("# %u at work; mostly waited for: %s, %.0f times a second, %.1f us each\n", n,
               worst.name, (double)worst.waits * 1e6 / us,
               (double)worst.cycles * us / (double)cycles / (double)worst.waits);
    if (most.holds) /* after `lockstat on` */
        printf("# %u at work; held most: %s, %.2g %% of the time, %.0f instructions each\n", n,
               most.name, (double)most.held * 100 / (double)cycles,
               (double)most.held / (double)most.holds);
    for (unsigned i = 0; i < n; i++)
        self_end(pid[i]);
    return (double)(last - first) * 1e9 / (double)(after.uptime_ns - before.uptime_ns);
}

/* `what` with n clients: done a second, and what the locks cost. The rate. */
static double measured(const char *what, enum kind kind, unsigned n, unsigned ms)
{
    char name[120];
    double waited, rate = clients(n, kind, ms, &waited);
    snprintf(name, sizeof name, "%s, %u process%s", what, n, n > 1 ? "es" : "");
    row(name, "transactions a second", rate, "-");
    snprintf(name, sizeof name, "%s, %u process%s: waits for locks of the kernel", what, n,
             n > 1 ? "es" : "");
    row(name, "% of the CPUs' time", waited, "1");
    return rate;
}

static const struct { const char *what; enum kind kind; unsigned most; } works[] = {
    {"64 own pages written and undone", APART, 2},
    {"the same, each between others' pages", BETWEEN, 2},
    {"commits of 4 own pages", COMMITS, CLIENTS_MAX},
};

void group_clients(unsigned ms)
{
    container_open();
    for (unsigned i = 0; i < sizeof works / sizeof *works; i++)
        for (unsigned n = 1; n <= works[i].most; n *= 2)
            (void)measured(works[i].what, works[i].kind, n, ms);
    ps_close(c);
    ps_delete("bench-clients");
}
