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

enum { VIEWS = 40, REASON = EDOM };
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
static bool aborted(unsigned i, const struct hears *h, const struct hears *more, int reason)
{
    if (txn_open(&contexts[i], (struct kd_begin){0})) return false;
    *(volatile uint64_t *)(h->base + i * KD_PAGE_BYTES) = 1;
    if (more) *(volatile uint64_t *)(more->base + i * KD_PAGE_BYTES) = 1;
    return kd_call3(KD_TXN_ABORT, reason, 0, 0) == 0;
}

/* What it heard last; -1: nothing. */
static struct kd_message heard;
static long hear(const struct hears *h)
{
    heard = (struct kd_message){0};
    long e = kd_call3(KD_PORT_RECEIVE, h->port, (long)&heard, 0);
    return e ? -1 : heard.kind == (uint32_t)KD_MSG_VIEW_GONE ? (long)heard.word[0] : -2;
}

static void late(void)
{
    bool good = aborted(0, &store, NULL, REASON) && aborted(0, &other, NULL, REASON + 1);
    long view = hear(&store);
    tap_ok(good && view >= 0 && heard.word[2] == REASON && !heard.word[1] &&
               heard.process == (uint64_t)getpid(),
           "a manager hears of an end, though its view has ended another's meanwhile (%ld, %lu)",
           view, heard.word[2]);
    long same = hear(&other);
    tap_ok(same == view && heard.word[2] == REASON + 1 && hear(&store) == -1 && hear(&other) == -1,
           "and the other of its own, each once (%ld, %lu)", same, heard.word[2]);
    good = aborted(0, &store, NULL, REASON);
    kd_call3(KD_HANDLE_CLOSE, contexts[0].view, 0, 0);
    contexts[0].view = 0;
    good &= aborted(0, &other, NULL, REASON);
    tap_ok(good && hear(&store) == view && hear(&other) == view && hear(&store) == -1,
           "also if the view is another one's by then");
}

static void many(void)
{
    uint64_t seen[KD_VIEW_MAX / 64] = {0};
    unsigned n = 0;
    bool good = true;
    for (unsigned i = 0; i < VIEWS; i++) good &= aborted(i, &store, NULL, REASON);
    for (unsigned i = 0; i < VIEWS; i += 2) good &= aborted(i, &other, NULL, REASON);
    for (long v; (v = hear(&store)) >= 0; n++) {
        good &= !(seen[v / 64] >> v % 64 & 1) && heard.word[2] == REASON;
        seen[v / 64] |= 1ull << v % 64;
    }
    tap_ok(good && n == VIEWS, "it hears of all that ended before it listened (%u)", n);
    for (n = 0; hear(&other) >= 0;) n++;
    tap_ok(n == VIEWS / 2, "and nobody of others (%u)", n);
}

static void two(void)
{
    bool good = aborted(1, &upper, &store, REASON);
    long high = hear(&upper), low = hear(&store);
    tap_ok(good && high >= 0 && low == high && hear(&upper) == -1 && hear(&store) == -1,
           "a transaction over two managers' containers: both hear of its end (%ld, %ld)", high,
           low);
    good = aborted(1, &store, &upper, REASON);
    high = hear(&upper), low = hear(&store);
    tap_ok(good && high >= 0 && low == high, "whichever it wrote last (%ld, %ld)", high, low);
}

/* Two that wait are told of two ends at once. */
static volatile long told[2] = {-1, -1};
static void *listens(void *to)
{
    struct kd_message m = {0};
    if (kd_call3(KD_PORT_RECEIVE, store.port, (long)&m, -1) == 0)
        *(volatile long *)to = (long)m.word[0];
    return NULL;
}

static void waiting(void)
{
    pthread_t t[2];
    for (int i = 0; i < 2; i++) pthread_create(&t[i], NULL, listens, (void *)&told[i]);
    bool good = aborted(2, &store, NULL, REASON) && aborted(3, &store, NULL, REASON);
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
    tap_ok(good && told[0] >= 0 && told[1] >= 0 && told[0] != told[1] && hear(&store) == -1,
           "two that listen hear of one each (%ld, %ld)", told[0], told[1]);
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
