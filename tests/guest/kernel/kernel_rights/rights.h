/* rights.h - what the parts of kernel_rights share. */
#ifndef RIGHTS_H
#define RIGHTS_H

#include "own_manager.h"

#define HOME_PAGES 64
enum { SCAN_PAGES = 1024, SCANS = 10, PAGES = HOME_PAGES + SCANS * SCAN_PAGES, SHORT_MS = 60,
       LONG_MS = 20000 };

/* ---- bodies.c: a second thread at a marked place, and bodies of transactions ---- */

extern _Atomic long credits_low;  /* how often the manager was told that somebody waits for one */
/* between a place and what comes then: it is to meet the first thread's fault */
extern _Atomic int delay;

struct other {
    pthread_t thread;
    int (*body)(void *);
    unsigned mode;
    _Atomic int at, go;            /* where it is; how far it may go */
    _Atomic int result;
    _Atomic unsigned long turns;   /* of its loop at a place */
};
extern struct other other;              /* the second thread */

bool hears_of_credits(struct kd_message *m);

/* The second thread waits here in user mode, without a system call. */
void stop_at(int place);

void other_start(int (*body)(void *), unsigned mode);
void other_reaches(int place);
/* Waits until it runs at a place, on another CPU than the caller. */
void other_runs(void);
int other_ends(void);
int read_page(void *page);
int write_page(void *page);
int try_write(unsigned page, unsigned ms);
int value(unsigned page);
int reads_1(void *arg);
int reads_1_by_hint(void *arg);
int reads_24(void *arg);
int reads_25_and_ends(void *arg);
int reads_32_then_33(void *arg);
int reads_30(void *arg);
int upgrades_30(void *arg);
int upgrades_30_second(void *arg);
int writes_2(void *arg);
int writes_26(void *arg);
int writes_22(void *arg);
int writes_23_then_22(void *arg);
int reads_3_writes_4(void *arg);
int reads_5_then_6(void *arg);
int crosses(void *arg);
int crosses_back(void *arg);

/* Looks at so many pages that page 1 goes out; others are in the transaction of nobody. */
int scan(void *from);

/* ---- rights.c: rights over evictions, snapshots, commits and deaths ---- */

void held_over_eviction(void);

/* Of two that write what both read one is a victim; then the page is taken exclusively by who reads
 * it. */
void unused_right_to_write(void);

void waits_end(void);
void copied_anew(void);

/* It sleeps before the end begins. */
void woken_by_end(void);

void committing_is_active(void);
void snapshots(void);

/* A commit point needs one version of page 13, another one the next. */
void old_versions(void);

void tickets(void);
void deadlock(void);
void published_at_once(void);
void credits(void);

#endif
