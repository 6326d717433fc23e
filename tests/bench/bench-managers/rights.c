/*
 * rights.c - rights of pages that come and go: what it costs a manager to give one, and to call it
 * back from a view that is idle, and from one that uses it. The manager counts around its own
 * calls, and tells its client.
 */
#include "bench.h"

enum { PAGES = 64, ROUNDS = 32, RW = KM_READ | KM_WRITE };
enum { GRANT = 1, RECALL };
static const char object_name[] = "bench-rights";

struct order { uint64_t what, page, count, to, cost, result, told; };
static volatile uint64_t told;

static void recalled(struct km_object *o)
{
    (void)o;
    told++;
}

static void call(struct km_object *o, void *message, int bytes)
{
    struct order *order = message;
    if (bytes != sizeof *order)
        return;
    uint64_t t = counter();
    int e = order->what == GRANT ? km_grant_all(o, order->page, order->count, (int)order->to)
                                 : km_recall(o, order->page, order->count, (int)order->to, NULL);
    order->cost = counter() - t - counter_cost();
    order->result = (uint64_t)e;
    order->told = told;
}

static int serve(int unused)
{
    static const struct km_ops ops = {.call = call, .recalled = recalled};
    static char contents[KD_PAGE_BYTES];
    struct km_object *o;
    (void)unused;
    int e = km_create(object_name, PAGES, KM_WRITE | KM_TRANSACTIONAL | KM_ASK, &ops, NULL, &o);
    for (uint64_t i = 0; !e && i < PAGES; i++)
        e = km_push(o, i, 1, contents);
    return e ? e : km_serve(1);
}

/* What the manager's call cost; it must say `result`. */
static double order(uint64_t what, uint64_t page, uint64_t count, uint64_t to, uint64_t result)
{
    struct order m = {.what = what, .page = page, .count = count, .to = to};
    int e = km_call(object_name, object_name, &m, sizeof m);
    if (e < 0 || m.result != result)
        fail("a manager's call", e < 0 ? e : (long)m.result);
    return (double)m.cost;
}

static uint64_t told_now(void)
{
    struct order m = {.what = GRANT, .page = 0, .count = 1, .to = RW};
    int e = km_call(object_name, object_name, &m, sizeof m);
    if (e < 0)
        fail("km_call", e);
    return m.told;
}

static void txn_end(void)
{
    struct kd_commit c = {.port = -1};
    long e = kd_call3(KD_TXN_COMMIT, (long)&c, 0, 0);
    if (e < 0)
        fail("commit", e);
}

static void touch(volatile char *pages, unsigned page, int write)
{
    if (write)
        pages[(size_t)page * KD_PAGE_BYTES]++;
    else
        (void)pages[(size_t)page * KD_PAGE_BYTES];
}

/* Of an idle view: the mean of pages that its last transaction read, or wrote. */
static double from_idle(volatile char *pages, int write)
{
    double sum = 0;
    order(GRANT, 0, PAGES, RW, 0);
    for (unsigned i = 1; i <= ROUNDS; i++) {
        txn_begin();
        touch(pages, i, write);
        txn_end();
        sum += order(RECALL, i, 1, 0, 0);
    }
    return sum / ROUNDS;
}

static double range_from_idle(volatile char *pages)
{
    order(GRANT, 0, PAGES, RW, 0);
    txn_begin();
    for (unsigned i = 0; i < PAGES; i++)
        touch(pages, i, 0);
    txn_end();
    return order(RECALL, 0, PAGES, 0, 0) / PAGES;
}

/* Of a view that uses it: the call that finds it used; the second, when the end was told. */
static double from_used(volatile char *pages, double *second)
{
    double sum = *second = 0;
    order(GRANT, 0, PAGES, RW, 0);
    for (unsigned i = 1; i <= ROUNDS; i++) {
        uint64_t before = told_now();
        txn_begin();
        touch(pages, i, 0);
        sum += order(RECALL, i, 1, 0, 1);
        txn_end();
        while (told_now() == before) {}
        *second += order(RECALL, i, 1, 0, 0);
    }
    *second /= ROUNDS;
    return sum / ROUNDS;
}

static double grants(void)
{
    double sum = 0;
    order(RECALL, 0, PAGES, 0, 0);
    for (unsigned i = 1; i <= ROUNDS; i++)
        sum += order(GRANT, i, 1, RW, 0);
    return sum / ROUNDS;
}

static void run(void)
{
    double second, first;
    long pid = server_start(&rights_part, 0, object_name, NULL);
    volatile char *pages = km_open(object_name, object_name, RW);
    if (!pages)
        fail(object_name, -errno);
    int view = view_new();
    row("recall of an idle right: a page that the last transaction read", "instructions",
        from_idle(pages, 0), "1500");
    row("recall of an idle right: a page that the last transaction wrote", "instructions",
        from_idle(pages, 1), "1500");
    row("recall of 64 idle rights in one call, each", "instructions", range_from_idle(pages), "-");
    first = from_used(pages, &second);
    row("recall of a right in use: the call", "instructions", first, "-");
    row("recall of a right in use: the second call, when the end was told", "instructions", second,
        "-");
    row("grant of a right to a page for all", "instructions", grants(), "-");
    view_end(view);
    server_end(pid);
}

const struct part rights_part = {"rights", run, serve};
