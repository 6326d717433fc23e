/*
 * fake_store.h - a double of kernel and store manager in one process, for tests of libpstore.
 *
 * One thread, any number of views, one store. Container memory lies at its real addresses and is
 * mapped page by page on faults, as the kernel does it; an abort puts the old pages back and sends
 * the thread to the entry given at begin. Isolation is not imitated: two views see each other's
 * pages only after a commit, but nobody waits for anybody.
 */
#ifndef FAKE_STORE_H
#define FAKE_STORE_H

#include <stddef.h>
#include <stdint.h>

#define FAKE_PAGES 65536u                 /* of each container that can be touched */

struct fake_counts {
    unsigned faults, write_faults, requests, leases, spaces, commits, aborts;
    unsigned pages_used, pages_freed, names;
    unsigned wrong_pages;                 /* written in a commit, but neither used nor leased */
};
extern struct fake_counts fake_counts;
extern uint64_t fake_protocol;            /* the version that the manager speaks */

/* Before the first test and between tests: an empty store, no view. */
void fake_reset(void);
/* The nth fault from now on (1: the next) aborts the transaction with `reason`; 0: none does. */
void fake_abort_at_fault(unsigned nth, int reason);
/* The next commit is refused. */
void fake_refuse_commit(int error);
/* Another process makes a name just before the next commit. */
void fake_steal_name(const char *name, uint64_t address, uint64_t bytes);
/* At most so many pages are given as leases from now on. */
void fake_space_left(unsigned pages);
/* The manager dies (the store keeps what was committed) and starts again, or not. */
void fake_manager_dies(int starts_again);
/* Pages of the first container that are in use, in order of address; returns how many. */
unsigned fake_used_pages(uint64_t *address, unsigned count);
/* Makes committed pages readable outside a transaction, for checks. */
void fake_look(int on);

#endif
