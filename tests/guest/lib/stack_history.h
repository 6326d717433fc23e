/*
 * stack_history.h - histories of random transactions over stacked managers, and whether some serial
 * order shows the same (tests/history/check.h).
 *
 * Six threads of this process run transactions on items, words of pages of several managers, by the
 * bare calls (own_manager.h). Each history is checked from the values that they have read and
 * stored.
 */
#ifndef STACK_HISTORY_H
#define STACK_HISTORY_H

#include "own_manager.h"

enum { HISTORY_WORKERS = 6 };

struct stack_history {
    uint64_t items, seed;
    /* where the topmost manager's pages lie, which are others when it has died; an item's word */
    uint64_t (*top)(void);
    volatile uint64_t *(*item_at)(uint64_t top, uint64_t item);
    /* what happens beside a history, now and then, the first time with `first` set; false: it went
     * wrong */
    bool (*disturb)(uint64_t history, bool first, uint64_t *rng);
};
extern struct history_sum { uint64_t txns, committed; } history_sum;

uint64_t history_next(uint64_t *rng);
uint64_t history_seed(const char *given); /* or of the clock */

/* Starts the threads. */
bool histories_begin(const struct stack_history *how);
/* Runs so many; returns how many were good before the first that was not, which is printed. */
uint64_t histories_run(uint64_t count);

#endif
