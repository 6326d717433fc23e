/*
 * store_rig.h - one store with one container on a simulated disk, and groups of its log: for
 * test_chain.c and, by prepared_rig.h, for the tests of prepared transactions.
 */
#ifndef TESTS_DISK_STORE_RIG_H
#define TESTS_DISK_STORE_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "device.h"
#include "internal.h"

struct bench {
    struct device device;
    struct disk_io io;
    struct store *store;
    struct store_report report;
    uint64_t object;
};

void bench_open(struct bench *b, uint64_t disk_bytes, uint64_t log_bytes);
void bench_close(struct bench *b);
void bench_reopen(struct bench *b);
struct store_group *bench_group(struct bench *b);
void group_done(struct store_group *group);     /* stage.c: sealed, written, applied */
int  bench_op(struct bench *b, struct store_op *op);
int  bench_spill(struct bench *b, struct store_group *group, struct store_chain *chain,
                 uint64_t page, uint64_t value);
void value_fill(uint8_t *bytes, uint64_t value);
void page_is(struct bench *b, uint64_t page, uint64_t value);

#endif
