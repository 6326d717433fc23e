/*
 * kernel.h - the part of a kernel that the store manager's files (user/store) run over in tests:
 * pages and views. They are linked; a test that looks at what is static in one of them compiles
 * that file in.
 *
 * Who links it brings kd_system(), a disk (home_write) and what an answered view is to do
 * (view_answered): threads/rig.c does, and turns/time.c in virtual time.
 */
#ifndef TESTS_DISK_MANAGER_KERNEL_H
#define TESTS_DISK_MANAGER_KERNEL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pstore.h"
#include "user/store/group.h"
#include "user/store/options.h"
#include "user/store/votes.h"

#include <cmocka.h>

#include "crc32c.h"

enum { PAGES = 2048, VIEWS = 64, CLIENT = 9, OBJECT = 100 };
enum { WORD_A = 8, WORD_B = 511 };      /* the words of a page that are written */

struct kernel_page { uint64_t word[512], csn; };
extern struct kernel_page page[PAGES];                      /* current versions */
struct view {
    bool queued, answered;
    int answer;
    uint32_t asks;                                          /* KD_MSG_SPILL, _UNSPILL; 0: COMMIT */
    uint64_t token, first, count, value;  /* it writes value into these pages, twice */
    uint64_t spilled, told, asks_for;     /* the first of them; then told with SPILL;
                                           * how many SPILL wants, UNSPILL's
                                           * page */
    uint64_t helpers;                     /* views whose changes go with it (stack.md) */
    uint32_t lazy;                        /* kd_commit.flags */
    const void *batch;
    uint64_t batch_bytes;
};
extern struct view view[VIEWS];

#define helpers_each(h, v) for (uint64_t left_ = (v)->helpers, h; \
                                left_ && (h = (uint64_t)__builtin_ctzll(left_), true); \
                                left_ &= left_ - 1)

extern int encoder;                     /* PS_ENCODE_...: what kernel_diff tells of a page */
extern uint64_t settled_told;           /* by the last publication (SP4) */
extern bool unwanted[PAGES];            /* they were freed (GL6) */
extern uint64_t home_calls, home_most, home_chunk, home_crossed;    /* chunk 0: not looked at */
extern uint64_t home_gated;             /* calls while nobody could commit */
extern uint64_t page_hit;               /* not what was committed (codewords.md); ~0: none */
extern int mend_error;                  /* why it cannot be mended */
extern char log_line[256];              /* the manager's last one */
extern long snapshot_waits;             /* 1: for what is in doubt here */
extern _Thread_local int niceness;      /* that the thread asked for: it stays as nice as it is */

void view_answered(void);
int home_write(uint64_t offset, const void *bytes);         /* 0, -EIO */

bool manager_start(void);               /* main.c: the disk, the store, the threads */
/* manager_stop: a process asks the manager to end: false, it may not. */
bool manager_stop(uint64_t process);
int manager_request(const struct kd_message *m);            /* of a client: its status */

void page_damage(uint64_t p);
/* commit_take: what waits at the commit port; -EAGAIN. */
long commit_take(struct kd_message *m);
/* kernel_diff, kernel_publish, kernel_homes: KD_TXN_DIFF, _TXN_PUBLISH, _BLOCK_WRITE_PAGES. */
long kernel_diff(struct kd_diff *d);
long kernel_publish(const struct kd_publish *p, long count);
long kernel_homes(struct kd_page_io *io, long count);
/* kernel_plain: calls that need no disk and no waiting; 0 for those that no test looks at. */
long kernel_plain(long number, long a, long b, long c, long d);

/* index.c, in place of user/store/index.c. */
enum { INDEX_VIEW = VIEWS - 1, INDEX_PAGE = PAGES - 1, INDEX_WORD = 77 };
enum { CHANGE_FAILS = 1000, COMMIT_FAILS, CHANGE_LOSES };   /* values of a change */

#endif
