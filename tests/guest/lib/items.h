/*
 * items.h - for tests of item mode: transactions on words of own_manager.h's object, several of one
 * thread, which the test steps by hand.
 */
#ifndef TEST_ITEMS_H
#define TEST_ITEMS_H

#include "own_manager.h"

/* The running transaction means its store to these bytes. */
long declare(volatile void *at, uint64_t bytes);

/* A transaction in the view of *c, which stays open; 0 or -errno. `how`: KD_SERIALISABLE, say. */
long begin(struct context *c, unsigned how);

/* The transaction of *c commits: 0 or -errno. */
long commit(struct context *c);

/* It is undone. */
void undo(struct context *c);

/* In the running transaction: word i of a page becomes `value`, declared; or so much is added. */
void put(uint64_t page, unsigned i, uint64_t value);
void add(uint64_t page, unsigned i, uint64_t more);

/* Word i of a page, as a new transaction sees it; and as it is home. */
uint64_t seen(uint64_t page, unsigned i);
uint64_t at_home(uint64_t page, unsigned i);

#endif
