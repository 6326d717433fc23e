/*
 * kernel_away.c - leaves of pages that only their manager's log has.
 *
 * Aim     transactions larger than memory change a page in each of more leaves than memory could
 *         keep: the leaves go as soon as their manager has said that nothing older than the pages'
 *         versions is on its way (SP4), and not before, so an older version that comes late is
 *         refused; every page is found again.
 * Method  own_manager.h, with a manager that keeps no page, as its contents follow from its number,
 *         and grants few credits, so that transactions spill.
 */
#include <stdio.h>

#define STEP 64ull                      /* pages: one of each leaf */
enum { CREDITS = 96, LEAVES = 256, BULKS = 50, PRESSED = 9000 };
enum { WRITTEN = (BULKS + 3) * LEAVES }; /* leaves; those behind are only read */
#define PAGES ((WRITTEN + 4 * PRESSED) * STEP)
#include "own_manager.h"
#include "pstore_test.h"

static _Atomic bool written[WRITTEN];
static uint64_t next_pressed = WRITTEN;
static _Atomic uint64_t settled;        /* what a publication says; ~0: its own number */

static long supply(uint64_t page, uint64_t csn, bool filled)
{
    static uint64_t bytes[KD_PAGE_BYTES / 8];
    bytes[0] = filled ? page + 1 : 0;
    struct kd_supply s = {.object = object, .source = KD_SUPPLY_MEMORY, .page = page, .count = 1,
                          .rights = KD_READ | KD_WRITE, .memory = bytes, .csn = csn};
    return kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
}

/* Half of the copies go; so many credits are free again. */
static void take_copies(const struct kd_message *m)
{
    static uint8_t buffer[64 * (KD_PAGE_BYTES + sizeof(struct kd_run))];
    struct kd_diff d = {.view = m->word[0], .token = m->token, .flags = KD_DIFF_SPILL,
                        .buffer = buffer, .buffer_bytes = sizeof buffer};
    long e = kd_call3(KD_TXN_DIFF, (long)&d, 0, 0);
    long n = kd_call4(KD_TXN_SPILLED, (long)m->word[0], (long)m->token, e ? 0 : (long)d.pages, 1);
    kd_call3(KD_CREDIT_GRANT, commit_port, n < 0 ? 0 : n, 0);
}

static void publish(const struct kd_message *m)
{
    static uint8_t buffer[CREDITS * (KD_PAGE_BYTES + sizeof(struct kd_run))];
    struct kd_diff d = {.view = m->word[0], .token = m->token, .buffer = buffer,
                        .buffer_bytes = sizeof buffer};
    struct kd_publish p = {m->word[0], m->token, next_csn++};
    long e = kd_call3(KD_TXN_DIFF, (long)&d, 0, 0);
    uint64_t is = settled == ~0ull ? p.csn : settled;
    if (!e) e = kd_call3(KD_TXN_PUBLISH, (long)&p, 1, (long)is);
    if (e || d.cursor != ~0ull) printf("# commit: %ld\n", e);
    kd_call3(KD_CREDIT_GRANT, commit_port, (long)m->word[1], 0); /* those that it spent */
    for (uint64_t at = 0; !e && at < d.buffer_bytes;) { /* what did not spill is home at once */
        const struct kd_run *r = (const void *)(buffer + at);
        kd_call3(KD_OBJECT_CLEANED, object, (long)r->page, (long)KD_CSN_ANY);
        at += sizeof *r + ((r->bytes + 7u) & ~7u);
    }
}

static bool serve(struct kd_message *m)
{
    uint64_t leaf = m->word[1] / STEP;
    if (m->kind == (uint32_t)KD_MSG_SPILL)
        take_copies(m);
    else if (m->kind == (uint32_t)KD_MSG_COMMIT)
        publish(m);
    else if (m->kind == (uint32_t)KD_MSG_CREDIT_LOW)
        kd_call3(KD_CREDIT_GRANT, commit_port, 0, 0);
    else if (m->kind == (uint32_t)KD_MSG_PAGE && leaf < WRITTEN && written[leaf])
        return supply(m->word[1], next_csn - 1, true) == 0;
    else
        return false;
    return true;
}

/* The bulk's page in each of its leaves. */
static uint64_t page_of(uint64_t leaf) { return leaf * STEP + leaf % STEP; }
static int write_bulk(void *bulk)
{
    for (uint64_t leaf = (uint64_t)bulk * LEAVES, end = leaf + LEAVES; leaf < end; leaf++)
        *word_of(page_of(leaf), 0) = page_of(leaf) + 1;
    return 0;
}
static int bulk(uint64_t number)
{
    int e = run(write_bulk, (void *)number, 0, 0);
    for (uint64_t leaf = number * LEAVES; !e && leaf < (number + 1) * LEAVES; leaf++)
        written[leaf] = true;
    return e;
}
static int check_bulk(void *bulk)
{
    int bad = 0;
    for (uint64_t leaf = (uint64_t)bulk * LEAVES, end = leaf + LEAVES; leaf < end; leaf++)
        bad += *word_of(page_of(leaf), 0) != page_of(leaf) + 1;
    return bad;
}

/* Others are read, more than memory has room for; 0 or -errno. */
static int read_some(void *unused)
{
    uint64_t sum = (uint64_t)(uintptr_t)unused;
    for (unsigned i = 0; i < 60; i++) sum += *word_of((next_pressed + i) * STEP, 0);
    return sum != 0;
}
static int press(void)
{
    int e = 0;
    for (unsigned i = 0; i < PRESSED && !e; i += 60, next_pressed += 60)
        e = run(read_some, NULL, 0, 0);
    return e;
}

/* The last of a bulk's pages that is known to lie in the log only, or ~0; *count: how many. */
static uint64_t away(uint64_t number, unsigned *count)
{
    uint64_t last = ~0ull;
    *count = 0;
    for (uint64_t leaf = number * LEAVES; leaf < (number + 1) * LEAVES; leaf++) {
        uint8_t bits = 0;
        kd_call4(KD_OBJECT_INFO, object, (long)page_of(leaf), 1, (long)&bits);
        if (!(bits & KD_PAGE_AWAY)) continue;
        last = page_of(leaf);
        ++*count;
    }
    return last;
}

static uint64_t memory_used(void) { return process_self().used[KD_LIMIT_MEMORY] >> 10; }

static void test_late(void)
{
    unsigned at_first, pressed;
    int e = bulk(0);
    uint64_t late = away(0, &at_first), old = next_csn - 2;
    tap_ok(e == 0 && at_first > LEAVES / 4, "a bulk of which %u pages spilled (%d)", at_first, e);
    e = press();
    away(0, &pressed);
    tap_ok(e == 0 && pressed == at_first, "they are known when much else was read: %u (%d)",
           pressed, e);
    is(supply(late, old, false), -ESTALE, "an older version that comes late is refused");
    settled = ~0ull;
    e = bulk(1);
    settled = old;
    tap_ok(e == 0 && press() == 0 && away(0, &pressed) == ~0ull && away(1, &at_first) == ~0ull,
           "none is on its way any more: all are forgotten (%u, %u, %d)", pressed, at_first, e);
}

static void test_bulks(void)
{
    uint64_t before = memory_used(), most = 0;
    int e = 0, bad = 0;
    settled = ~0ull;
    for (uint64_t i = 2; i < BULKS + 2 && !e; i++) {
        e = bulk(i);
        most = memory_used() > most ? memory_used() : most;
    }
    tap_ok(e == 0, "bulks that change %u leaves commit (%d)", BULKS * LEAVES, e);
    printf("# %llu KiB of leaves and the like at first, %llu at most\n",
           (unsigned long long)before, (unsigned long long)most);
    for (uint64_t i = 0; i < BULKS + 2 && !e; i++) bad += run(check_bulk, (void *)i, 0, 0) != 0;
    is(bad, 0, "every page is found");
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    tap_plan(8);
    tap_ok(start_manager((struct own_manager){.pages = PAGES, .home_pages = 1,
                                              .flags = KD_OBJECT_SPILLS, .messages = serve}) &&
               kd_call3(KD_CREDIT_GRANT, commit_port, CREDITS, 0) >= 0,
           "a manager that takes copies");
    test_late();
    test_bulks();
    is(check(), 0, "kcheck");
    return tap_end();
}
