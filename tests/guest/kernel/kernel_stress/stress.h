/* stress.h - what the parts of kernel_stress share. */
#ifndef STRESS_H
#define STRESS_H

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "katydid/call.h"
#include "system.h"
#include "tap.h"

enum {
    PAGES = 20480, FEW = 512,       /* of the large object: more than memory holds; of the others */
    ACCOUNTS = 64, ACCOUNT_STEP = 97,
    KEPT = 4,                       /* words of a page that can be changed: balance, free, pair */
    OBJECTS = 3, LARGE = 0, LENT = 1, ASKED = 2,
    KIND_OPEN = 1, KIND_CREDIT = 2,
    STATUS_KILLED = 77, STATUS_WRONG = 3,
};

/* Threads that exist before memory is full: later there may be no stack for a new one. */
enum { POOL = 5, SPARE = 4 };

enum { RING = 60 };

struct managed {
    int handle;
    uint64_t base, pages, (*home)[KEPT], *csn;
};

struct actor {
    jmp_buf env;
    int view;                       /* + 1 */
    uint64_t rng, arg[4];
    long aborts;
    char stack[8192] __attribute__((aligned(16)));
};

/* ---- manager.c: the manager, whose pages are computed ---- */

extern const char *self;
extern uint64_t seed;
extern struct managed objects[OBJECTS];
extern int port, commit_port, lent_port;
extern _Atomic int hold_commits, lend, asked_error; /* lend: what each checkpoint grants */
extern _Atomic uint64_t consumed, odd_runs, asks;

uint64_t next(uint64_t *x);
uint64_t now_ms(void);
void nap(unsigned ms);
uint64_t computed(uint64_t object, uint64_t page, unsigned word);
long call(long number, long a, long b, long c);
int views_used(void);
long check(void);
int start_manager(int attach);

/* ---- txn.c: transactions, and threads that run them ---- */

extern _Thread_local struct actor me;
extern uint64_t starved;
extern _Atomic int stop;
extern uint64_t done_count;

int enter(void);
void leave(void);
long begin(unsigned mode, uint64_t *ticket, unsigned timeout_ms);
long commit(void);

/* Memory is full on purpose, so a transaction may find none for a while. */
int run(int (*body)(void *), void *arg, unsigned mode, unsigned timeout_ms);

volatile uint64_t *word_of(unsigned object, uint64_t page, unsigned word);
volatile uint64_t *account(unsigned object, uint64_t i);

/* One transaction of a random kind; 0, or what it should not have been. */
int any(unsigned object);

int all_work(int n);
int pool_start(void);
void spawn(int i, void *(*fn)(void *), void *arg);
int joined(int i);

/* Runs n workers, and `body` beside them; the first result that is not 0. */
int beside(int n, unsigned object, int (*body)(void));

/* ---- memory.c: eviction, snapshots, waits and credits under load ---- */

extern _Atomic int ring_views, ring_met;

/* Until so much has come and gone, however slow this machine is. */
int many_evictions(void);

int held(void);
int snapshots(void);
int look_too_long(void *arg);

/* Each holds a page and wants its neighbour's. */
int ring(void);

/* Two views of one thread: the second cannot wait for the first. */
int two_views(void);

int write_n(void *arg);

/* Until so many transactions have shared a few credits. */
int credits(void);

/* ---- misuse.c: calls that a manager should not make ---- */

/* Objects of a second manager in this process, one after the other: destroyed under commits, closed
 * and not destroyed. */
int bad_manager(void);

/* An object is destroyed while its manager reads a commit's differences. */
int destroyed_under_diff(void);

/* Other ids, tokens, handles and ranges than those it may use; all refused. */
int nonsense(void);

int all_views(void);
int asking(void);


#endif
