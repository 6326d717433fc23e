/*
 * prepared_rig.h - transactions of several stores in the store of store_rig.h: for test_prepared.c,
 * test_prepared_crash.c, test_prepared_starts.c and test_misleading.c.
 */
#ifndef TESTS_DISK_PREPARED_RIG_H
#define TESTS_DISK_PREPARED_RIG_H

#include "store_rig.h"

struct store_txn_id txn_id(uint8_t number);
/* prepare_in, in the open group: pages [from, to) with value 100 + page, and the record. */
int  prepare_in(struct bench *b, struct store_group *group, uint8_t number, uint64_t from,
                uint64_t to, struct store_chain **chain);
int  prepare(struct bench *b, uint8_t number, uint64_t from, uint64_t to);
int  decide(struct bench *b, uint8_t number);
/* bench_alone: in a group of its own. */
int  bench_alone(struct bench *b, uint8_t number,
                 int (*what)(struct store_group *, const struct store_txn_id *));
int  write_page(struct bench *b, uint64_t page, uint64_t value);
uint32_t in_doubt(struct bench *b, bool prepared);
void bench_clean(struct bench *b);               /* all dirty pages go home */
void bench_checkpoint(struct bench *b);
uint64_t bench_renew(struct bench *b);          /* what is due; in how many groups */
void kcheck_agrees(struct bench *b);

#endif
