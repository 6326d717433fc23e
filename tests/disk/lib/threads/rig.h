/*
 * rig.h - the store manager over a kernel made of arrays and a disk that fails on command: for the
 * tests of folder manager/.
 *
 * The manager's files are linked, and kd_system() is ours: one container of 2048 pages, views that
 * commit words, a disk in shared memory. Each case runs in a child, so its end is a power cut; then
 * the parent recovers the disk and compares.
 */
#ifndef TESTS_DISK_THREADS_RIG_H
#define TESTS_DISK_THREADS_RIG_H

#include <stdatomic.h>
#include <sys/wait.h>

#include "internal.h"
#include "manager/kernel.h"
#include "tools/lib/tools.h"

enum { DISK_BYTES = 24 << 20 };

/* Shared with the parent. */
struct shared {
    uint64_t acknowledged[PAGES];       /* the last value whose commit was acknowledged */
    uint64_t tried[PAGES];
    uint8_t disk[DISK_BYTES];
    uint8_t copy[DISK_BYTES];           /* of disk COPY: where a backup goes */
};
extern struct shared *shared;
enum { COPY = 2, BACKUP_TOKEN = 77 };

/* ---- the disk */

extern atomic_int writes_left, flushes_left, homes_left;    /* then one fails; below 0: none */
extern int log_writes_after_failure;
extern bool failed;
extern uint64_t unreadable_from, unreadable_to;             /* of the store's disk */
extern atomic_bool copy_waits;                              /* disk COPY does not answer */
/* while a page goes home, one of metadata changes, and finds no memory */
extern atomic_bool starving;
/* what happens once while the disk does that */
extern void (*flush_beside)(void), (*read_beside)(void);

/* ---- the kernel */

extern pthread_mutex_t kernel;                              /* held over views and pages */
extern pthread_cond_t posted;
extern uint64_t credits;
extern bool no_object;                                      /* can be made */
extern long (*object_call)(long number, long a, long b);    /* of a test that knows its objects */
extern const void *next_batch;                              /* of the next commit that is posted */
extern uint64_t next_batch_bytes;
extern uint32_t next_lazy;
extern atomic_uint nice_reads, nice_answers;                /* by a thread that goes last */
extern size_t malloc_max;               /* more than this at once is not there for the manager */
extern atomic_uint malloc_refused;      /* so often */
extern bool eio_early;                  /* one heard EIO before the store was fenced */
extern struct kd_message backup_reply;
extern atomic_bool backup_replied;

/* ---- clients; each check in a child ends it with its line */

#define CHECK(e) \
    ((e) ? (void)0 : (dprintf(1, "# %s, line %d; log: %s\n", #e, __LINE__, log_line), _exit(3)))

void client_start(void);
void commit_post(unsigned i, uint64_t first, uint64_t count, uint64_t value);
int  commit_wait(unsigned i);
int  commit(uint64_t first, uint64_t count, uint64_t value);
void stop_and_wait(void);

/* ---- the parent */

/* memory_share is the first that a test's main does. */
void memory_share(void);
void run_child_to(int wanted, void (*body)(void));          /* the child's status */
void run_child(void (*body)(void));
void run_next(void (*body)(void));      /* another life of the manager, on the disk as it is */
struct disk_io disk_left(void);         /* as the child has left it */
/* recover_and_compare recovers; each page holds the last acknowledged value, or a later one whose
 * fate was unknown. True: the store had been closed. */
bool recover_and_compare(void);

#endif
