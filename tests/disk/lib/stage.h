/*
 * stage.h - one disk with one open store that has one container, and the acts of which tests of
 * single calls are made. An act that returns nothing asserts that it succeeds.
 */
#ifndef TESTS_DISK_STAGE_H
#define TESTS_DISK_STAGE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "device.h"
#include "internal.h"

extern struct device device;
extern struct disk_io io;
extern struct store *store;
extern struct store_report report;
extern uint64_t object;                         /* the container */
extern const uint8_t page_bytes[STORE_PAGE_BYTES];

void make(uint64_t disk_bytes, uint64_t log_bytes);
void make_here(uint64_t log_bytes);             /* on a device that is open */
/* and a checkpoint holds the container */
void make_saved(uint64_t disk_bytes, uint64_t log_bytes);
void unmake(void);                              /* the store's own check; no memory is lost */
void abandon(void);                             /* without the check; store may be NULL */
int  open_with(uint32_t flags);

struct store_group *group_open(void);
void group_done(struct store_group *group);     /* sealed, written, applied */
int  txn_next(struct store_group *group);       /* ends the transaction and begins another */
int  op(struct store_group *group, enum store_op_type type, uint64_t of, const char *name);
int  create(struct store_group *group, const char *name, uint64_t want, uint64_t address,
            uint64_t *made);
int  pages_op(struct store_group *group, enum store_op_type type, uint64_t from, uint64_t count);
int  spill(struct store_group *group, struct store_chain *chain, uint64_t of, uint64_t page);
struct store_chain *chain_of_two(void);         /* a checkpoint lies between its two groups */
void commit_pages(uint64_t from, uint64_t to);
void all_home(void);                            /* no page is dirty any more */
void seal(void);                                /* a checkpoint, in as many steps as it takes */
void checkpoint(void);

/* The i-th allocation of what follows fails; alloc_fired() says whether there was one, and ends
 * it. */
void alloc_fail(uint32_t i);
bool alloc_fired(void);

#endif
