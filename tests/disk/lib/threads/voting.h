/*
 * voting.h - what clients say of transactions of several stores, over rig.h.
 */
#ifndef TESTS_DISK_THREADS_VOTING_H
#define TESTS_DISK_THREADS_VOTING_H

#include "threads/rig.h"

struct store_txn_id id_of(unsigned number);
/* vote_post posts a commit that wants a vote. */
void vote_post(unsigned view, unsigned number, uint64_t first, uint64_t count, uint64_t value);
bool answered(unsigned view);
/* vote posts it and waits for the vote, or its refusal. */
int  vote(unsigned view, unsigned number, uint64_t first, uint64_t count, uint64_t value);
uint64_t logged(void);                  /* bytes of the log since it was called last */

#endif
