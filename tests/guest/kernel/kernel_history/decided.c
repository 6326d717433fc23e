/*
 * decided.c - part DECIDED: a thread of this process decides about first touches of the pages in
 * the store (STORE_DECIDE).
 *
 * It grants for one touch or for all, calls rights back at random, or gives a page to one view at a
 * time, and lets others wait for its end.
 */
#include <pthread.h>

#include "history.h"

enum { RW = KD_READ | KD_WRITE, KEPT_MAX = 64 };

_Atomic long decided_asked, decided_kept;
static pthread_t thread;
static uint64_t container;
static int store_port;
static struct kd_message kept[KEPT_MAX]; /* questions, as they were told */
static unsigned kept_count;
static struct { uint64_t what, view, page, number; long result; } last[32]; /* what it did */
static unsigned lasts;

static void noted(uint64_t what, const struct kd_message *q, long result)
{
    unsigned n = lasts++ % 32;
    last[n].what = what;
    last[n].view = q->word[3];
    last[n].page = q->word[1];
    last[n].number = q->word[4];
    last[n].result = result;
}

static long decide(struct kd_message *m)
{
    m->kind = STORE_DECIDE;
    m->handle = -1;
    m->word[0] = container;
    long e = call(KD_PORT_CALL, store_port, (long)m, 0);
    return e ? e : m->status;
}
static long decide_by(uint64_t what, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    struct kd_message m = {.word = {0, what, a, b, c, d}};
    return decide(&m);
}

/* The answer to a question; the next one comes with it. */
static void grant(struct kd_message *m, bool all)
{
    uint64_t page = m->word[1], rights = all || m->word[2] == KD_WRITE ? RW : KD_READ;
    noted(WIRE_DECIDE_GRANT + (all ? 100 : 0), m,
          decide_by(WIRE_DECIDE_GRANT, page, 1, rights, all ? 0 : m->word[4]));
}

/* Grants it if nobody has the page in a way that forbids it; else who asks waits for them. True:
 * that is all. */
static bool alone(struct kd_message *q)
{
    struct kd_message m = {
        .word = {0, WIRE_DECIDE_RECALL, q->word[1], 1, q->word[2] == KD_WRITE ? 0 : KD_READ}};
    uint64_t view = q->word[3];
    long e = decide(&m);
    m.word[1 + view / 64] &= ~(1ull << view % 64);
    if (!e && (m.word[1] | m.word[2])) {
        e = decide_by(WIRE_DECIDE_WAITS, view, m.word[1], m.word[2], 0);
        noted(WIRE_DECIDE_WAITS, q, e);
        return e != 0; /* it is aborted, or has ended */
    }
    grant(q, false);
    return true;
}

static void alone_all(void)
{
    for (unsigned n = 0; n < kept_count;) {
        if (alone(&kept[n]))
            LIST_REMOVE(kept, n, kept_count);
        else
            n++;
    }
}

static void asked(struct kd_message *m, uint64_t dice)
{
    decided_asked++;
    if (dice % 8 == 0)
        decide_by(WIRE_DECIDE_RECALL, base + (dice / 64) % 32 * KD_PAGE_BYTES, dice / 2048 % 32 + 1,
                  dice / 16 % 2 ? KD_READ : 0, 0);
    if (dice / 8 % 2 || kept_count == KEPT_MAX || m->word[3] >= KD_VIEW_MAX) {
        grant(m, dice / 32 % 2);
    } else if (!alone(m)) {
        kept[kept_count++] = *m;
        decided_kept++;
    }
}

static void *decides(void *arg)
{
    uint64_t rng = seed | 1;
    for (;;) {
        struct kd_message m = {.word = {0, WIRE_DECIDE_NEXT}};
        if (decide(&m))
            return arg;
        if (m.word[0] == WIRE_RECALLED)
            alone_all();
        else
            asked(&m, next(&rng));
    }
}

void decided_say(void)
{
    for (unsigned n = 0; n < kept_count; n++)
        printf("# kept: view %lu, page %lx, access %lu, number %lu\n", kept[n].word[3],
               kept[n].word[1], kept[n].word[2], kept[n].word[4]);
    for (unsigned n = lasts < 32 ? 0 : lasts - 32; n < lasts; n++)
        printf("# did %lu: view %lu, page %lx, number %lu: %ld\n", last[n % 32].what,
               last[n % 32].view, last[n % 32].page, last[n % 32].number, last[n % 32].result);
}

bool decided_begin(uint64_t of)
{
    container = of;
    store_port = client_port;
    return decide_by(WIRE_DECIDE_CALLER, 0, 0, 0, 0) == 0 &&
           pthread_create(&thread, NULL, decides, NULL) == 0;
}

bool decided_end(void)
{
    bool good = decide_by(WIRE_DECIDE_KERNEL, 0, 0, 0, 0) == 0;
    pthread_join(thread, NULL);
    return good;
}
