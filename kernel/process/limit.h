/*
 * limit.h - what each process may have at most: one table of counters and limits (limit.c).
 */
#ifndef KERNEL_LIMIT_H
#define KERNEL_LIMIT_H

#include <katydid/abi.h>
#include <stdbool.h>

struct process;

/* Memory is counted in frames, everything else one by one. */
struct limits {
    uint64_t used[KD_LIMITS];    /* atomic. Memory: the kernel's for it; its own is process->frames.
                                  * Files, processes and versions are counted where they are */
    uint64_t most[KD_LIMITS];    /* what is over it is refused from now on */
    uint64_t ceiling[KD_LIMITS]; /* `most` may be raised to it */
    uint64_t mapped_most, mapped_ceiling; /* in frames: RLIMIT_AS, for what is promised from now on */
    uint64_t promised_bytes;     /* of regions with any right, which may be filled; vm.c */
    uint64_t tables;             /* page tables of slot 0; space lock */
};

/* A process's table as it begins: its parent's, and the defaults for all but what init starts. `asked`
 * (KD_LIMITS values, 0: none; may be NULL) lowers it. */
void limit_begin(struct process *p, const struct process *parent, const uint64_t *asked);
/* Of the tables that all processes share, the last entries are kept for init and what it starts itself:
 * shell and managers go on when several programs have taken all that each may. */
enum { VIEWS_KEPT = 8 }; /* and THREADS_KEPT */
bool limit_may_take_kept(const struct process *p); /* NULL: the kernel itself */
/* n more, or nothing and false: the limit is reached. */
bool limit_charge(struct process *p, enum kd_limit which, uint64_t n);
/* As many of n as there may be. */
uint64_t limit_charge_some(struct process *p, enum kd_limit which, uint64_t n);
void limit_uncharge(struct process *p, enum kd_limit which, uint64_t n);
uint64_t limit_left(const struct process *p, enum kd_limit which);
uint64_t limit_used(const struct process *p, enum kd_limit which);
/* May it fill one more page? It was promised that, unless its limit was lowered. */
bool limit_memory_left(const struct process *p);
/* For people and programs: in KD_LIMIT_*'s units. */
void limit_info(const struct process *p, uint64_t used[KD_LIMITS], uint64_t most[KD_LIMITS]);
/* prlimit64's resources, Linux's and KD_RLIMIT's. in and out: limit and ceiling; either may be NULL.
 * 0, -EINVAL; -EPERM: above the ceiling, or nothing that can be set. */
int limit_resource(struct process *p, uint64_t resource, const uint64_t in[2], uint64_t out[2]);

/* Nothing is left, neither free nor to be evicted: ends the process that has most above an equal share,
 * with a message. False: nobody has more than that, but init and managers that take spilled copies; then
 * the caller looks at the free frames again: who has ended by now was not seen ending, and gave its memory
 * back before. For such a manager's own memory whoever has most ends, however little it is. No locks held. */
bool limit_end_largest(bool for_manager);

#endif
