/*
 * imported.c - a page of a file by the manager "verified", checked against a manifest and not;
 * commits that need no disk, in the store "volatile" and by the manager "behind"; and encrypted
 * ones, by "sealed".
 */
#include <fcntl.h>
#include <unistd.h>

#include "bench.h"
#include "user/managers/clone.h"
#include "user/start.h"

enum { PAGES = 64, ROUNDS = 200, SYSTEM_YIELD = 24 };
static const char path[] = "/tmp/imported", sums[] = "/tmp/imported.sums";

static long start(const char *const *argv)
{
    char program[32];
    snprintf(program, sizeof program, "/bin/%s", argv[0]);
    long pid = start_program(program, argv, 0, 1);
    if (pid < 0)
        fail(argv[0], pid);
    return pid;
}

static double page_cost(const char *manifest)
{
    const char *argv[] = {"verified", path, manifest, NULL};
    long pid = start(argv);
    volatile char *pages;
    while (!(pages = km_open("verified", "verified", KM_READ)))
        kd_call3(SYSTEM_YIELD, 0, 0, 0);
    (void)pages[PAGES * KD_PAGE_BYTES]; /* page tables */
    double cost = touch_all(pages, PAGES, 0);
    server_end(pid);
    return cost;
}

static void verified(void)
{
    static const char page[KD_PAGE_BYTES] = "a page";
    const char *make[] = {"verified", "make", path, sums, NULL};
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600), status = 1;
    for (int i = 0; i <= PAGES; i++)
        if (write(fd, page, sizeof page) != sizeof page)
            fail(path, -errno);
    close(fd);
    kd_call3(KD_PROCESS_WAIT, start(make), (long)&status, 0);
    if (status)
        fail("verified make", -EIO);
    row("page of a file by the manager `verified`, checked", "instructions", page_cost(sums), "-");
    row("the same, not checked", "instructions", page_cost(NULL), "-");
}

static ps_container *c;
static int count(void *unused)
{
    long *root = ps_root(c);
    (void)unused;
    if (!root)
        return -errno;
    ++*root;
    return 0;
}

static void commits(void)
{
    const char *argv[] = {"volatile", NULL};
    long pid = start(argv);
    uint64_t least = ~0ull;
    while (ps_connect("volatile"))
        kd_call3(SYSTEM_YIELD, 0, 0, 0);
    c = ps_open("bench", PS_CREATE | PS_WRITE, PS_LAYOUT(long, 1));
    for (int i = 0; c && i < ROUNDS; i++) {
        uint64_t t = counter();
        int e = ps_transaction(count, NULL);
        t = counter() - t - counter_cost();
        if (e)
            fail("a commit", e);
        least = t < least ? t : least;
    }
    if (!c)
        fail("a volatile container", -errno);
    row("transaction of one changed page in the store `volatile`", "instructions", (double)least,
        "21560");
    server_end(pid);
}

static volatile uint64_t *box;
static int count_in_box(void *unused)
{
    (void)unused;
    ++*box;
    return 0;
}

/* A transaction of one changed page of an object that is a manager's; `now`: counter; or busy,
 * which leaves out waits for the disk. */
static void commits_by(uint64_t (*now)(void), const char *const *argv, const char *object,
                       const char *what, const char *reach)
{
    long pid = start(argv);
    uint64_t least = ~0ull;
    while (!(box = km_open(object, object, KM_READ | KM_WRITE)))
        kd_call3(SYSTEM_YIELD, 0, 0, 0);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t t = now();
        int e = ps_transaction(count_in_box, NULL);
        t = now() - t - counter_cost();
        if (e)
            fail(what, e);
        least = t < least ? t : least;
    }
    row(what, "instructions", (double)least, reach);
    server_end(pid);
}

static void behind(void)
{
    commits_by(counter, (const char *[]){"behind", "box", "1", NULL}, "box",
               "transaction of one changed page by the manager `behind`, until it is answered",
               "21560");
}

static void sealed(void)
{
    commits_by(busy, (const char *[]){"sealed", "bench-sealed", "a key", NULL}, "bench-sealed",
               "transaction of one changed page by the manager `sealed`, durable and encrypted",
               "-");
}

/* A page of a container of the store, by its clone. */
static int pages_make(void *unused)
{
    char *pages = ps_alloc(c, (PAGES + 2) * KD_PAGE_BYTES, NULL);
    (void)unused;
    for (int i = 0; pages && i < PAGES + 2; i++)
        pages[i * KD_PAGE_BYTES] = 1;
    *(char **)ps_root(c) = pages;
    return pages ? 0 : -errno;
}
static int pages_find(void *out) { return *(char **)out = *(char **)ps_root(c), 0; }

static void cloned(void)
{
    const char *argv[] = {"clone", "bench-clone", "trial", "16", NULL};
    char *pages, *base;
    ps_connect("store");
    c = ps_open("bench-clone", PS_CREATE | PS_WRITE, PS_LAYOUT(char *, 1));
    int e = c ? ps_transaction(pages_make, NULL) : -errno;
    if (e || ps_transaction(pages_find, &pages))
        fail("a container", e);
    long pid = start(argv);
    while (!(base = km_open("trial", "trial", KM_READ)))
        kd_call3(SYSTEM_YIELD, 0, 0, 0);
    struct clone_info info;
    if ((e = km_call("trial", "trial", &info, sizeof info)))
        fail("clone", e);
    base += (uint64_t)(uintptr_t)pages - info.original + KD_PAGE_BYTES;
    int view = view_new();
    txn_begin();
    (void)*(volatile char *)(base + PAGES * KD_PAGE_BYTES);
    row("first read of a page of a clone, resident in the original", "instructions",
        touch_all(base, PAGES, 0), "-");
    txn_undo();
    view_end(view);
    server_end(pid);
    ps_close(c);
}

static void run(void)
{
    verified();
    behind();
    sealed();
    commits();
    cloned();
}

const struct part imported_part = {"imported", run, NULL};
