/*
 * kernel_gone.c - what a manager hears of transactions that have ended (VIEW_GONE).
 *
 * Aim     each manager of objects with KD_OBJECT_NOTICES hears of each transaction that wrote to
 *         them: however late it listens, whatever the same view did elsewhere meanwhile, and also
 *         if other managers' containers were written, too. Nobody hears of anything else.
 * Method  the ports of two managers, and of one that stands on the first, in this process. Pages
 *         are supplied before, transactions are aborted, and nobody receives until the test does.
 */
#include "own_manager.h"

enum { VIEWS = 40 };
struct hears { int port; uint64_t base; };
static struct hears store, other, upper;
static struct context contexts[VIEWS];

static bool manager_new(struct hears *h, const int *below)
{
    h->port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    if (below && kd_call3(KD_PORT_BELOW, h->port, (long)below, 1)) return false;
    struct kd_object_create c = {.port = h->port, .commit_port = h->port, .pages = VIEWS,
                                 .flags = KD_OBJECT_TRANSACTIONAL | KD_OBJECT_NOTICES,
                                 .name = "hears"};
    long o = kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    struct kd_supply s = {.object = (int)o, .source = KD_SUPPLY_ZERO, .count = VIEWS,
                          .rights = KD_READ | KD_WRITE};
    h->base = c.base;
    return o >= 0 && kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0) == 0 &&
           kd_call3(KD_SPACE_ATTACH, getpid(), o, KD_RIGHT_READ | KD_RIGHT_WRITE) == 0;
}

/* A transaction of this view that writes to one container, or to two, and is aborted. */
static bool aborted(unsigned i, const struct hears *h, const struct hears *more)
{
    if (txn_open(&contexts[i], (struct kd_begin){0})) return false;
    *(volatile uint64_t *)(h->base + i * KD_PAGE_BYTES) = 1;
    if (more) *(volatile uint64_t *)(more->base + i * KD_PAGE_BYTES) = 1;
    return kd_call3(KD_TXN_ABORT, EDOM, 0, 0) == 0;
}

/* The views of which it hears next; none: nothing is told. */
struct ends { uint64_t word[KD_VIEW_MAX / 64]; };
static struct ends hear(const struct hears *h)
{
    struct kd_message m = {0};
    struct ends none = {{0}};
    long e = kd_call3(KD_PORT_RECEIVE, h->port, (long)&m, 0);
    if (e || m.kind != (uint32_t)KD_MSG_VIEW_GONE) return none;
    return (struct ends){{m.word[0], m.word[1]}};
}

static unsigned count(struct ends e)
{
    return (unsigned)(__builtin_popcountll(e.word[0]) + __builtin_popcountll(e.word[1]));
}

static bool same(struct ends a, struct ends b) { return !memcmp(&a, &b, sizeof a); }

static void late(void)
{
    bool good = aborted(0, &store, NULL) && aborted(0, &other, NULL);
    struct ends view = hear(&store), again = hear(&other);
    tap_ok(good && count(view) == 1,
           "a manager hears of an end, though its view has ended another's meanwhile (%u)",
           count(view));
    tap_ok(same(view, again) && !count(hear(&store)) && !count(hear(&other)),
           "and the other of its own, each once (%u)", count(again));
    good = aborted(0, &store, NULL);
    kd_call3(KD_HANDLE_CLOSE, contexts[0].view, 0, 0);
    contexts[0].view = 0;
    good &= aborted(0, &other, NULL);
    tap_ok(good && same(hear(&store), view) && same(hear(&other), view) && !count(hear(&store)),
           "also if the view is another one's by then");
}

/* All that it hears of; each once, else more than there are. */
static unsigned hear_all(const struct hears *h)
{
    unsigned n = 0;
    for (struct ends e; count(e = hear(h)) > 0;) n += count(e);
    return n;
}

static void many(void)
{
    bool good = true;
    for (unsigned i = 0; i < VIEWS; i++) good &= aborted(i, &store, NULL);
    for (unsigned i = 0; i < VIEWS; i += 2) good &= aborted(i, &other, NULL);
    unsigned n = hear_all(&store);
    tap_ok(good && n == VIEWS, "it hears of all that ended before it listened (%u)", n);
    n = hear_all(&other);
    tap_ok(n == VIEWS / 2, "and nobody of others (%u)", n);
}

static void two(void)
{
    bool good = aborted(1, &upper, &store);
    struct ends high = hear(&upper), low = hear(&store);
    tap_ok(good && count(high) == 1 && same(low, high) && hear_all(&upper) + hear_all(&store) == 0,
           "a transaction over two managers' containers: both hear of its end (%u, %u)",
           count(high), count(low));
    good = aborted(1, &store, &upper);
    high = hear(&upper), low = hear(&store);
    tap_ok(good && count(high) == 1 && same(low, high), "whichever it wrote last (%u, %u)",
           count(high), count(low));
}

/* Two that wait are told of many ends while these come. */
enum { LISTENERS = 2 };
static unsigned told; /* atomic */
static void *listens(void *unused)
{
    struct kd_message m = {0};
    while (__atomic_load_n(&told, __ATOMIC_SEQ_CST) < VIEWS &&
           kd_call3(KD_PORT_RECEIVE, store.port, (long)&m, -1) == 0) {
        unsigned n = count((struct ends){{m.word[0], m.word[1]}});
        if (m.kind == (uint32_t)KD_MSG_VIEW_GONE)
            __atomic_fetch_add(&told, n, __ATOMIC_SEQ_CST);
    }
    for (unsigned i = 0; i < LISTENERS; i++) kd_call3(KD_PORT_NOTIFY, store.port, 1, 0);
    return unused;
}

static void waiting(void)
{
    pthread_t t[LISTENERS];
    bool good = true;
    for (int i = 0; i < LISTENERS; i++) pthread_create(&t[i], NULL, listens, NULL);
    for (unsigned i = 0; i < VIEWS; i++) good &= aborted(i, &store, NULL);
    for (int i = 0; i < LISTENERS; i++) pthread_join(t[i], NULL);
    tap_ok(good && told == VIEWS, "two that listen hear of all, each once (%u)", told);
}

int main(void)
{
    tap_plan(9);
    bool good = manager_new(&store, NULL) && manager_new(&other, NULL) &&
                manager_new(&upper, &store.port);
    for (unsigned i = 0; i < VIEWS && good; i++) {
        in_view(&contexts[i]);
        good = contexts[i].view >= 0;
    }
    tap_ok(good, "two managers, one that stands on the first, and views");
    late();
    many();
    two();
    waiting();
    return tap_end();
}
