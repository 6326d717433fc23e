/*
 * shadow.c - the stale-TLB checker of the kernel with planted bugs; empty in a normal build.
 *
 * TLBs cannot be read, so it is recorded what they may hold. An entry may be in the TLB of a CPU that
 * has its table loaded once ACCESSED or USED was set. When such an entry is lost (not present, another
 * frame, no longer writable, or ACCESSED cleared), the frame notes the CPU, the address and how many
 * flushes that CPU had begun. The debt is paid when a flush that was begun later has ended: all of the
 * TLB, or this address. It must be paid
 *     when the frame is freed (FR1), and then no page table may map it either;
 *     when another view gets a private copy of that page, unless it was of a snapshot;
 *     for the table that the CPU has loaded itself: on the way to user mode.
 *
 * A CPU that is left with a table whose view ran elsewhere since owes nothing: it flushes before it runs
 * that view again (KR5). Top-level slot 0, a process's own memory, is left out. A CPU with an unserved request
 * is in the kernel or asleep and flushes before it touches user memory (TL2). The first two CPUs are watched,
 * and 128 MiB.
 */
#include "shadow.h"
#include "arch.h"
#include "memory/frame.h"
#include "base/panic.h"

#ifdef KATYDID_BUGS
enum { WATCHED = 2, PAGES_KEPT = 256, FRAMES_MAX = 32768 };
struct debt { uint64_t at, flushes, top, right, by; }; /* at: ALL_PAGES: only a full flush pays it */
#define ALL_PAGES (~0ull)

struct shadow {
    uint64_t top, base;                     /* of a frame that is a lowest page table; 0: it is none */
    uint64_t mapped;                        /* page table entries that map it; atomic */
    struct debt gone[WATCHED];              /* flushes + 1, so that 0 is no debt; top: the table */
};
static struct shadow *shadows;

static struct {
    uint64_t begun, full;                   /* flushes begun; number of the last full one that ended */
    struct debt pages[PAGES_KEPT];          /* the last flushes of single addresses */
    uint64_t forgotten[PAGES_KEPT];         /* a newer one took the place of one with this number */
    struct debt self;
    bool due;                               /* it will load a table before it goes to user mode */
} tlb[CPU_MAX];

void shadow_init(void)
{
    size_t count = (FRAMES_MAX * sizeof *shadows + PAGE_BYTES - 1) / PAGE_BYTES;
    struct frame *run;
    if (shadow_off)
        return;
    run = frame_alloc_run(count);
    assert(run);
    memset(frame_memory(run), 0, count * PAGE_BYTES);
    shadows = frame_memory(run);
}

static struct shadow *shadow_of(paddr_t pa)
{
    return shadows && pa >> PAGE_SHIFT < FRAMES_MAX ? &shadows[pa >> PAGE_SHIFT] : NULL;
}

static bool used_elsewhere(unsigned cpu, uint64_t top)
{
    int last = shadow_cpu_of(top);
    return tlb[cpu].due || (last != -1 && last != (int)cpu);
}

/* Has the CPU flushed `at` since, or will it? The second is looked at first: what ends it is a flush. */
static bool paid(unsigned cpu, struct debt d)
{
    unsigned slot = (d.at >> PAGE_SHIFT) % PAGES_KEPT;
    uint64_t since = d.flushes - 1;
    if (!d.flushes || used_elsewhere(cpu, d.top) ||
        __atomic_load_n(&cpus[cpu].flush_done, __ATOMIC_SEQ_CST) !=
            __atomic_load_n(&cpus[cpu].flush_asked, __ATOMIC_SEQ_CST))
        return true;
    if (__atomic_load_n(&tlb[cpu].full, __ATOMIC_SEQ_CST) > since)
        return true;
    return d.at != ALL_PAGES &&
           ((tlb[cpu].pages[slot].at == d.at && tlb[cpu].pages[slot].flushes > since) ||
            tlb[cpu].forgotten[slot] > since);
}

uint64_t shadow_flush_begin(void) { return __atomic_add_fetch(&tlb[arch_cpu_id()].begun, 1, __ATOMIC_SEQ_CST); }

void shadow_flush_end(uint64_t begun)
{
    unsigned cpu = arch_cpu_id();
    __atomic_store_n(&tlb[cpu].full, begun, __ATOMIC_SEQ_CST);
    __atomic_store_n(&tlb[cpu].due, false, __ATOMIC_SEQ_CST);
}

void shadow_due(void) { __atomic_store_n(&tlb[arch_cpu_id()].due, true, __ATOMIC_SEQ_CST); }

void shadow_gone(paddr_t top)
{
    for (paddr_t pa = 0; shadows && pa < (paddr_t)FRAMES_MAX << PAGE_SHIFT; pa += PAGE_BYTES)
        if (shadow_of(pa)->top == top)
            shadow_table(arch_phys(pa), 0, 0);
}

void shadow_flush_page(uint64_t at)
{
    unsigned cpu = arch_cpu_id(), slot = (at >> PAGE_SHIFT) % PAGES_KEPT;
    struct debt *d = &tlb[cpu].pages[slot];
    if (d->at != at)
        tlb[cpu].forgotten[slot] = d->flushes;
    *d = (struct debt){at, shadow_flush_begin(), 0, 0, 0};
}

/* A TLB may hold `old`, and `now` says less. */
static bool loses(pte_t old, pte_t now)
{
    if (!pte_present(old) || !(old & (PTE_ACCESSED | PTE_SOFT0)))
        return false;
    return !pte_present(now) || pte_frame_paddr(old) != pte_frame_paddr(now) ||
           (pte_writable(old) && !pte_writable(now)) || !(now & (PTE_ACCESSED | PTE_SOFT0));
}

void shadow_pte(pte_t *pte, pte_t old, pte_t now)
{
    paddr_t pa = (uint64_t)pte - DIRECT_BASE;
    struct shadow *table = shadow_of(pa);
    if (!table || !table->top)
        return;
    struct shadow *was = pte_present(old) ? shadow_of(pte_frame_paddr(old)) : NULL;
    struct shadow *is = pte_present(now) ? shadow_of(pte_frame_paddr(now)) : NULL;
    if (was)
        __atomic_fetch_sub(&was->mapped, 1, __ATOMIC_SEQ_CST);
    if (is)
        __atomic_fetch_add(&is->mapped, 1, __ATOMIC_SEQ_CST);
    if (!was || !loses(old, now))
        return;
    uint64_t at = table->base + (pa % PAGE_BYTES / sizeof(pte_t) << PAGE_SHIFT);
    for (unsigned cpu = 0; cpu < WATCHED; cpu++) {
        struct debt d = {at, __atomic_load_n(&tlb[cpu].begun, __ATOMIC_SEQ_CST) + 1, table->top,
                         shadow_is_right(table->top), (uint64_t)__builtin_return_address(0)};
        if (__atomic_load_n(&cpus[cpu].loaded_table, __ATOMIC_SEQ_CST) != table->top)
            continue; /* whoever loads it later starts with no entries */
        was->gone[cpu] = d;
        if (cpu != arch_cpu_id())
            continue;
        if (!paid(cpu, tlb[cpu].self) && tlb[cpu].self.at != at)
            d.at = ALL_PAGES;
        tlb[cpu].self = d;
    }
}

void shadow_table(void *memory, uint64_t top, uint64_t base)
{
    struct shadow *table = shadow_of((uint64_t)memory - DIRECT_BASE);
    if (!table)
        return;
    for (pte_t *e = memory; !top && table->top && (uint64_t)(e - (pte_t *)memory) < PAGE_BYTES / sizeof *e; e++)
        shadow_pte(e, *e, 0);
    table->top = base >> 39 ? top : 0;
    table->base = base;
}

static void complain(unsigned cpu, struct debt d, const char *when)
{
    panic("stale TLB: CPU %u may still hold 0x%lx when %s; table %lx of CPU %d, changed at %lx", cpu,
          d.at, when, d.top, shadow_cpu_of(d.top), d.by);
}

void shadow_check_copy(struct frame *f)
{
    struct shadow *s = shadow_of(frame_paddr(f));
    for (unsigned cpu = 0; s && cpu < WATCHED; cpu++)
        if (s->gone[cpu].right && !paid(cpu, s->gone[cpu]))
            complain(cpu, s->gone[cpu], "another view gets a private copy");
}

void shadow_check_free(struct frame *f)
{
    struct shadow *s = shadow_of(frame_paddr(f));
    if (!s)
        return;
    if (__atomic_load_n(&s->mapped, __ATOMIC_SEQ_CST))
        panic("stale TLB: a frame is freed that page tables map");
    for (unsigned cpu = 0; cpu < WATCHED; cpu++)
        if (!paid(cpu, s->gone[cpu]))
            complain(cpu, s->gone[cpu], "the frame is freed");
    memset(s->gone, 0, sizeof s->gone);
}

void shadow_check_self(void)
{
    unsigned cpu = arch_cpu_id();
    if (cpu < WATCHED && !paid(cpu, tlb[cpu].self))
        complain(cpu, tlb[cpu].self, "it goes to user mode");
}
#endif
