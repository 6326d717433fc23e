/*
 * limit.h - what each process may have at most: one table of counters and limits (limit.c).
 */
#ifndef KERNEL_LIMIT_H
#define KERNEL_LIMIT_H

#include <katydid/abi.h>
#include <stdbool.h>

struct process;
enum { BADGES_A_FRAME = 64, OBJECTS_A_FRAME = 4, CLIENTS_A_FRAME = 16, PORTS_A_FRAME = 4,
       RECORDS_A_FRAME = 25 };

/* Memory is counted in frames, everything else one by one. */
struct limits {
    uint64_t used[KD_LIMITS];    /* atomic. Memory: the kernel's for it; its own is process->frames.
                                  * Files, processes and versions are counted where they are */
    uint64_t most[KD_LIMITS];    /* what is over it is refused from now on */
    uint64_t ceiling[KD_LIMITS]; /* `most` may be raised to it */
    /* in frames: RLIMIT_AS, for what is promised from now on */
    uint64_t mapped_most, mapped_ceiling;
    uint64_t promised_bytes;     /* of regions with any right, which may be filled; vm.c */
    uint64_t tables;             /* page tables of slot 0; space lock */
    unsigned badges;             /* of its ports, whoever holds them; badge.c */
    uint32_t objects, clients;   /* atomic: it manages, object_charge(); attached to these */
    uint32_t ports, records;     /* atomic: its ports; spilled copies of its transactions */
};

/* limit_begin fills a process's table as it begins: its parent's, and the defaults for all but what
 * init starts. `asked` (KD_LIMITS values, 0: none; may be NULL) lowers it. */
void limit_begin(struct process *p, const struct process *parent, const uint64_t *asked);
/* VIEWS_KEPT and THREADS_KEPT: the last entries of tables that all processes share are kept for
 * init and what it starts itself: shell and managers go on when several programs have taken all
 * that each may. */
enum { VIEWS_KEPT = 8 }; /* and THREADS_KEPT */
bool limit_may_take_kept(const struct process *p); /* NULL: the kernel itself */
/* limit_charge charges n more, or nothing and returns false: the limit is reached. */
bool limit_charge(struct process *p, enum kd_limit which, uint64_t n);
/* limit_charge_some charges as many of n as there may be, and returns how many. */
uint64_t limit_charge_some(struct process *p, enum kd_limit which, uint64_t n);
void limit_uncharge(struct process *p, enum kd_limit which, uint64_t n);
/* limit_alloc is kalloc_raw for a call that copies to or from its caller's memory: that may wait
 * for a page for as long as p likes, so p pays, until limit_free. NULL: none, or the limit. */
void *limit_alloc(struct process *p, size_t bytes);
void limit_free(struct process *p, void *memory, size_t bytes);
uint64_t limit_left(const struct process *p, enum kd_limit which);
uint64_t limit_used(const struct process *p, enum kd_limit which);
/* limit_memory_left: may the process fill one more page? It was promised that, unless its limit was
 * lowered. */
bool limit_memory_left(const struct process *p);
/* limit_info tells use and limits, in KD_LIMIT_*'s units. */
void limit_info(struct process *p, uint64_t used[KD_LIMITS], uint64_t most[KD_LIMITS]);
/* limit_resource: prlimit64's resources, Linux's and KD_RLIMIT's. in and out: limit and ceiling;
 * either may be NULL. 0, -EINVAL; -EPERM: above the ceiling, or nothing that can be set. */
int limit_resource(struct process *p, uint64_t resource, const uint64_t in[2], uint64_t out[2]);

/* limit_end_largest is called when no frame is left, neither free nor to be evicted: it ends the
 * process that has most above an equal share, with a message. `for_manager`: for the memory of a
 * manager that takes spilled copies the largest ends, however little it has. False: nobody but init
 * and such managers has more than its share; then the caller looks at the free frames again, since
 * a process that has ended by now gave its memory back before. No locks held. */
bool limit_end_largest(bool for_manager);

#define LIMIT_ANSWER_EVER (1ull << 40)

#endif
