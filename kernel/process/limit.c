/*
 * limit.c - one table of counters and limits per process, and who ends when memory is gone
 * (processes.md).
 *
 * LM1  used[w] is what the process has at this moment: 0 when the last of it is gone.
 *
 * Locks: none for the table. The process table's in limit_end_largest().
 */
#include "process/limit.h"

#include "file/file.h"
#include "process/descriptor.h"
#include "process/process_make.h"
#include "process/vm_private.h"

/* Limits as processes begin, but for those that init starts itself: so the shell has something left
 * when its programs have taken all that they may. `can`: how many there can be, 0: frames of
 * memory; of these `parts` of eight, 0: all. */
static const struct { uint64_t can, parts; } defaults[KD_LIMITS] = {
    [KD_LIMIT_MEMORY] = {.parts = 6},
    [KD_LIMIT_HANDLES] = {.can = PROCESS_HANDLES_MAX},
    [KD_LIMIT_THREADS] = {.can = PROCESS_THREADS_MAX},
    [KD_LIMIT_VIEWS] = {.can = KD_VIEW_MAX, .parts = 6},
    [KD_LIMIT_COPIES] = {.parts = 4},
    [KD_LIMIT_MESSAGES] = {.can = PROCESS_THREADS_MAX},
    [KD_LIMIT_FILES] = {.can = PROCESS_FILES_MAX},
    [KD_LIMIT_PROCESSES] = {.can = PROCESS_MAX, .parts = 7},
    [KD_LIMIT_PINS] = {.parts = 2},
    [KD_LIMIT_VERSIONS] = {.parts = 2},
    [KD_LIMIT_ANSWER] = {.can = LIMIT_ANSWER_EVER},
};

/* unit_shift: memory is given in bytes, where we count pages. */
static unsigned unit_shift(int which) { return which == KD_LIMIT_MEMORY ? PAGE_SHIFT : 0; }

static uint64_t at_start(enum kd_limit which, bool of_init)
{
    uint64_t can = defaults[which].can ? defaults[which].can : frame_total_count();
    return of_init || !defaults[which].parts ? can : can / 8 * defaults[which].parts;
}

void limit_begin(struct process *p, const struct process *parent, const uint64_t *asked)
{
    bool of_init = !parent || parent->pid == process_table.init;
    p->limits.mapped_most = parent ? parent->limits.mapped_most : ~0ull;
    p->limits.mapped_ceiling = parent ? parent->limits.mapped_ceiling : ~0ull;
    for (unsigned i = 0; i < KD_LIMITS; i++) {
        uint64_t most = at_start(i, of_init), ceiling = most;
        if (parent) {
            most = MIN(most, parent->limits.most[i]);
            ceiling = MIN(ceiling, parent->limits.ceiling[i]);
        }
        if (asked && asked[i])
            most = ceiling = MIN(asked[i] >> unit_shift((int)i), ceiling);
        p->limits.most[i] = most;
        p->limits.ceiling[i] = ceiling;
    }
    /* others begin with a lower one */
    p->home.takes_kept = p->limits.ceiling[KD_LIMIT_VIEWS] == KD_VIEW_MAX;
}

bool limit_may_take_kept(const struct process *p) { return !p || p->home.takes_kept; }

/* ---- charging ---- */

/* filled_frames: frames that are counted where they are: pages, page tables, those that regions lie
 * in, the table of handles, badges of its ports, its objects, and who has these attached. */
static uint64_t filled_frames(const struct process *p)
{
    return p->frames + p->limits.tables + p->region_count / VM_REGIONS_A_FRAME
           + (p->handles != NULL) + p->limits.badges / BADGES_A_FRAME +
           p->limits.objects / OBJECTS_A_FRAME + p->limits.clients / CLIENTS_A_FRAME;
}

/* own_frames adds those of its ports and of its spilled copies. Ports and spills are refused at the
 * limit, so these do not count against what it was promised (limit_memory_left). */
static uint64_t own_frames(const struct process *p)
{
    return filled_frames(p) + p->limits.ports / PORTS_A_FRAME +
           p->limits.records / RECORDS_A_FRAME;
}

uint64_t limit_used(const struct process *p, enum kd_limit which)
{
    return p->limits.used[which] + (which == KD_LIMIT_MEMORY ? own_frames(p) : 0);
}

uint64_t limit_left(const struct process *p, enum kd_limit which)
{
    uint64_t used = limit_used(p, which), most = p->limits.most[which];
    return most > used ? most - used : 0;
}

uint64_t limit_charge_some(struct process *p, enum kd_limit which, uint64_t n)
{
    uint64_t most = p->limits.most[which];
    uint64_t now = __atomic_add_fetch(&p->limits.used[which], n, __ATOMIC_RELAXED)
                   + (which == KD_LIMIT_MEMORY ? own_frames(p) : 0);
    uint64_t over = now > most ? MIN(n, now - most) : 0;
    limit_uncharge(p, which, over);
    return n - over;
}

bool limit_charge(struct process *p, enum kd_limit which, uint64_t n)
{
    uint64_t some = limit_charge_some(p, which, n);
    if (some < n)
        limit_uncharge(p, which, some);
    return some == n;
}

void limit_uncharge(struct process *p, enum kd_limit which, uint64_t n)
{
    uint64_t left = __atomic_sub_fetch(&p->limits.used[which], n, __ATOMIC_RELAXED);
    assert((int64_t)left >= 0); /* LM1 */
}

void *limit_alloc(struct process *p, size_t bytes)
{
    bool can = limit_charge(p, KD_LIMIT_MEMORY, page_up(bytes) >> PAGE_SHIFT);
    void *memory = can ? kalloc_raw(bytes) : NULL;
    if (can && !memory)
        limit_uncharge(p, KD_LIMIT_MEMORY, page_up(bytes) >> PAGE_SHIFT);
    return memory;
}

void limit_free(struct process *p, void *memory, size_t bytes)
{
    if (memory)
        limit_uncharge(p, KD_LIMIT_MEMORY, page_up(bytes) >> PAGE_SHIFT);
    kfree(memory);
}

bool limit_memory_left(const struct process *p)
{
    return filled_frames(p) < p->limits.most[KD_LIMIT_MEMORY];
}

/* ---- seen and set ---- */

void limit_info(struct process *p, uint64_t used[KD_LIMITS], uint64_t most[KD_LIMITS])
{
    for (unsigned i = 0; i < KD_LIMITS; i++) {
        used[i] = limit_used(p, i) << unit_shift((int)i);
        most[i] = p->limits.most[i] << unit_shift((int)i);
    }
    used[KD_LIMIT_FILES] = fd_count(p);
    used[KD_LIMIT_PROCESSES] = process_table.count;
    used[KD_LIMIT_VERSIONS] = process_seam.versions(p);
}

enum { DATA = 2, STACK = 3, RSS = 5, NPROC = 6, NOFILE = 7, MEMLOCK = 8, AS = 9,
       LINUX_RESOURCES = 16 };
/* Which limit is behind each of prlimit64's resources that count for something here, + 1. */
static const uint8_t of_linux[LINUX_RESOURCES] = {
    [NPROC] = KD_LIMIT_PROCESSES + 1, [NOFILE] = KD_LIMIT_FILES + 1, [MEMLOCK] = KD_LIMIT_PINS + 1,
    [DATA] = KD_LIMIT_MEMORY + 1, [RSS] = KD_LIMIT_MEMORY + 1, [AS] = KD_LIMIT_MEMORY + 1,
};

int limit_resource(struct process *p, uint64_t resource, const uint64_t in[2], uint64_t out[2])
{
    bool of_ours = resource >= KD_RLIMIT && resource - KD_RLIMIT < KD_LIMITS;
    if (resource >= LINUX_RESOURCES && !of_ours)
        return -EINVAL;
    int which = of_ours ? (int)(resource - KD_RLIMIT) : of_linux[resource] - 1;
    unsigned shift = resource == MEMLOCK ? PAGE_SHIFT : unit_shift(which);
    if (which < 0) { /* Linux has it, and nothing here depends on it: it cannot be changed */
        out[0] = out[1] = resource == STACK ? VM_STACK_BYTES : ~0ull;
        return in && (in[0] != out[0] || in[1] != out[1]) ? -EPERM : 0;
    }
    struct limits *l = &p->limits;
    bool mapped = resource == AS || resource == DATA; /* what was promised before stays so */
    uint64_t *most_at = mapped ? &l->mapped_most : &l->most[which];
    uint64_t *ceiling_at = mapped ? &l->mapped_ceiling : &l->ceiling[which];
    uint64_t highest = MIN(*ceiling_at, l->ceiling[which]);
    out[0] = MIN(*most_at, l->most[which]) << shift;
    out[1] = highest << shift;
    if (!in)
        return 0;
    uint64_t most = in[0] >> shift, ceiling = in[1] >> shift; /* endless: as far as it goes */
    if (in[1] == ~0ull)
        ceiling = highest;
    if (in[0] == ~0ull)
        most = ceiling;
    if (most > ceiling)
        return -EINVAL;
    if (ceiling > highest)
        return -EPERM;
    *most_at = most;
    *ceiling_at = ceiling;
    return 0;
}

/* ---- out of memory ---- */

/* holds: the frames that a process keeps from others: its own, the kernel's for it, its private
 * copies, and pages that are pinned or dirty because it does not clean them. */
static uint64_t holds(const struct process *p)
{
    return limit_used(p, KD_LIMIT_MEMORY) + p->dirty + limit_used(p, KD_LIMIT_PINS) +
           limit_used(p, KD_LIMIT_COPIES);
}

/* an end that takes longer waits for a silent manager, perhaps for ever */
#define ENDING_NS 5000000000ull

/* largest finds the process that holds most above an equal share; a reference, or NULL. *ending: a
 * process ends at this moment, so there will be memory. */
static struct process *largest(bool *ending, bool for_manager)
{
    struct process *found = NULL;
    uint64_t now = arch_time_ns();
    *ending = false;
    lock_acquire(&process_table.lock);
    uint64_t most = for_manager ? 0 : frame_total_count() / MAX(process_table.count, 1u);
    list_each(struct process, p, &process_table.all, link) {
        uint64_t has = holds(p);
        *ending |= p->dying && !p->ended && now < p->dying_ns + ENDING_NS;
        if (p->dying || p->pid == process_table.init || p->takes_reserve || has <= most)
            continue;
        found = p;
        most = has;
    }
    if (found)
        process_get(found);
    lock_release(&process_table.lock);
    return found;
}

bool limit_end_largest(bool for_manager)
{
    bool ending;
    struct process *p = largest(&ending, for_manager);
    if (!p)
        return ending;
    if (!ending)
        process_kill(p, 137,
                     "out of memory: of all programs it holds the most, %llu of %llu KiB; give "
                     "the machine more memory, or it less (limit memory)",
                     (unsigned long long)holds(p) * (PAGE_BYTES / 1024),
                     (unsigned long long)frame_total_count() * (PAGE_BYTES / 1024));
    process_put(p);
    return true;
}
