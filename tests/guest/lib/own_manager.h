/*
 * own_manager.h - for tests of the kernel's transactions without a store: this process is manager
 * and client of one object.
 *
 * A manager thread keeps "home" pages in its memory, takes commits by KD_TXN_DIFF into them and
 * publishes; client threads run transactions by the bare calls.
 */
#ifndef OWN_MANAGER_H
#define OWN_MANAGER_H

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "katydid/call.h"
#include "process.h"
#include "system.h"
#include "tap.h"

/* ---- the manager ---- */

extern int port, commit_port, object;
extern uint64_t base, next_csn;         /* where the object lies; of the next commit */
extern uint8_t (*home)[KD_PAGE_BYTES];
extern _Atomic long commits_seen, pages_logged;
extern _Atomic uint64_t asked_most;    /* pages of a request */
extern _Atomic uint64_t asked_alone;   /* requests without neighbours */
extern _Atomic int held_commits;       /* one is */
extern _Atomic int fail_pages, hold_commits; /* while set: pages fail; commits are not answered */

struct own_manager {
    uint64_t pages;                     /* of the object */
    uint64_t home_pages;                /* of `home`: those behind are all zero; 0: as many */
    uint32_t flags;                     /* KD_OBJECT_*, beside KD_OBJECT_TRANSACTIONAL */
    bool closed;                        /* pages come without rights: each touch asks */
    bool (*messages)(struct kd_message *m); /* sees each first; true: the test has dealt with it */
};

/* Makes the object, attaches it and starts two threads, for pages and for commits. Are both
 * there? */
bool start_manager(struct own_manager how);

/* What it does with each message that the test has not dealt with. */
void serve_page(struct kd_message *m);
void serve_commit(struct kd_message *m);

/* ---- transactions ---- */

struct context {
    jmp_buf env;
    int view;
    struct kd_begin begin;
    long aborts;
    char stack[8192] __attribute__((aligned(16)));
};
extern __thread struct context *mine;

/* The calling thread goes on in the view of *c, which is made the first time. */
void in_view(struct context *c);

/* Rights that no earlier transaction of the thread left: its view is made anew. */
void view_anew(void);

/* Begins a transaction in the view of *c, which stays open; 0 or -errno. An abort by the system
 * goes to c->env. */
long txn_open(struct context *c, struct kd_begin how);

/* Runs body until it commits; 0 or -errno. *like says how: mode, weight, time limit and so on. */
int run_like(int (*body)(void *), void *arg, const struct kd_begin *like);
int run(int (*body)(void *), void *arg, unsigned mode, unsigned timeout_ms);

/* Word i of a page of the object. */
volatile uint64_t *word_of(uint64_t page, unsigned i);

/* Does the page of the object lie in memory? */
bool page_resident(uint64_t page);

/* kcheck: 0, or -EIO. */
long check(void);

#endif
