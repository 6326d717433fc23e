/*
 * kernel_stack_history.c - histories of random transactions through two stacked managers.
 *
 * Aim     isolation over stacked commits: whatever six threads do to pages of a manager that stands
 *         on another one, to pages of that one, and to pages of the base below both, some serial
 *         order shows the same, in real time and in the order of commits (tests/history/check.h);
 *         snapshots see a prefix of it. That holds while transactions are aborted by their clients
 *         and by the base, at any moment, and while the upper manager dies and another one begins.
 * Method  a base and managers over it in this process. Each history is checked from the values that
 *         its transactions have read and stored; in each third the upper manager dies.
 *             kernel_stack_history SEED COUNT    chooses the same programs again
 */
#include "stack_history.h"
#include "stacked_manager.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    PAGES = 64, Q_PAGE = 56, Q_PAGES = 2,   /* of the base; clients write Q themselves */
    LOWER_AT = 16, LOWER_PAGES = 32,    /* of the lower manager; where the base keeps them */
    OWN_PAGE = 4, OWN_PAGES = 2,        /* of those, what clients write themselves */
    UPPER_AT = 16, UPPER_PAGES = 4,     /* of the upper one; where the lower keeps them */
    WORDS = 2, STEP = 256, ITEMS = (UPPER_PAGES + OWN_PAGES + Q_PAGES) * WORDS,
    COMMIT_THREADS = 2, HISTORIES = 60, HISTORIES_LONG = 600,
};

static struct stacked lower = {.key = 0x5555555555555555};
static struct stacked *volatile upper;
static long aborts, deaths;

static uint64_t top(void) { return upper->base; }

/* Where an item lies; the upper manager's pages are others when it has died. */
static volatile uint64_t *item_at(uint64_t top, uint64_t item)
{
    uint64_t page = item / WORDS, word = item % WORDS * STEP;
    if (page < UPPER_PAGES) return word_at(top, page, (unsigned)word);
    page -= UPPER_PAGES;
    if (page < OWN_PAGES) return word_at(lower.base, OWN_PAGE + page, (unsigned)word);
    return word_of(Q_PAGE + page - OWN_PAGES, (unsigned)word);
}

static bool upper_begin(void)
{
    struct stacked *s = calloc(1, sizeof *s); /* threads of one that has died may look at theirs */
    s->key = 0x0f0f0f0f0f0f0f0f;
    s->below = lower.base + UPPER_AT * KD_PAGE_BYTES;
    long e = stacked_start(s, &lower.port, 1, UPPER_PAGES, COMMIT_THREADS);
    if (!e) upper = s;
    return !e;
}

/* The base aborts some transaction now and then; in each third history the upper manager dies. */
static bool disturb(uint64_t history, bool first, uint64_t *rng)
{
    if (first && history % 3 == 0) {
        kd_call3(KD_HANDLE_CLOSE, upper->commit_port, 0, 0);
        kd_call3(KD_HANDLE_CLOSE, upper->port, 0, 0);
        deaths++;
        return upper_begin();
    }
    long view = (long)(history_next(rng) % (2 * HISTORY_WORKERS));
    aborts += kd_call3(KD_VIEW_ABORT, view, ECANCELED, 0) == 0;
    return true;
}

static bool begin(uint64_t seed)
{
    bool good = start_manager((struct own_manager){.pages = PAGES});
    lower.below = base + LOWER_AT * KD_PAGE_BYTES;
    good = good && !stacked_start(&lower, &port, 1, LOWER_PAGES, COMMIT_THREADS) && upper_begin();
    return good && histories_begin(&(struct stack_history){ITEMS, seed, top, item_at, disturb});
}

int main(int argc, char **argv)
{
    uint64_t count = tap_long() ? HISTORIES_LONG : HISTORIES;
    uint64_t seed = history_seed(argc > 1 ? argv[1] : NULL);
    if (argc > 2) count = strtoull(argv[2], NULL, 0);
    tap_plan(3);
    if (!tap_ok(begin(seed), "a base, a manager, and one over that; seed %lu", seed))
        return tap_end();
    uint64_t good = histories_run(count);
    tap_ok(good == count, "%lu of %lu histories through two stacked managers are serialisable",
           good, count);
    printf("# %lu attempts, %lu committed; %ld aborted by the base, %ld deaths, %lu deadlocks\n",
           history_sum.txns, history_sum.committed, aborts, deaths, system_info().deadlocks);
    tap_ok(history_sum.committed > good * 4 && (good < 20 || (aborts > 0 && deaths > 0)),
           "which had commits, aborts and deaths");
    return tap_end();
}
