/*
 * table.c - page tables of user mode, and what this CPU has loaded.
 *
 * Four levels; a table page is a zeroed frame, reached through the direct map. Upper entries grant
 * everything; the leaf decides. Slot 0 is there from the start and shared by a process's table and
 * its views' tables; all other slots below the kernel half belong to one table only.
 *
 * Locks: the caller's: the process's space lock for slot 0, the view lock for a view's slots.
 */
#include "x86.h"
#include "memory/frame.h"
#include "thread/thread.h"

enum { SLOTS = 512, SLOT_KERNEL = 256, SHIFT_TOP = 39, SHIFT_LOWEST = 21, TABLES_AT_ONCE = 8 };
#define TABLE_FLAGS (PTE_PRESENT | PTE_WRITE | PTE_USER | PTE_ACCESSED)

static pte_t *table_at(paddr_t pa) { return arch_phys(pa & PTE_FRAME); }

static paddr_t table_with_slot0(pte_t slot0)
{
    paddr_t top = table_page();
    if (!top)
        return 0;
    memcpy(table_at(top) + SLOT_KERNEL, table_at(kernel_table) + SLOT_KERNEL,
           (SLOTS - SLOT_KERNEL) * sizeof(pte_t));
    table_at(top)[0] = slot0;
    return top;
}

paddr_t arch_table_new(void)
{
    paddr_t slot0 = table_page();
    if (!slot0)
        return 0;
    paddr_t top = table_with_slot0(slot0 | TABLE_FLAGS);
    if (!top)
        frame_free(frame_of(slot0));
    return top;
}

paddr_t arch_table_new_view(paddr_t process_table)
{
    return table_with_slot0(table_at(process_table)[0]);
}

/* The table behind an entry at `shift` goes into a list; its frame's flags say what it is. */
static void table_cut(pte_t *e, int shift, struct list *cut)
{
    if (!*e)
        return;
    struct frame *f = frame_of(pte_frame_paddr(*e));
    f->flags = (uint16_t)shift;
    list_push_back(cut, &f->link);
    pte_store(e, 0);
}

uint64_t arch_tables_free(struct list *cut, unsigned most)
{
    struct frame *f;
    uint64_t n = 0;
    for (; n < most && (f = list_take(struct frame, cut, link)); n++) {
        pte_t *table = frame_memory(f);
        for (unsigned i = 0; f->flags > SHIFT_LOWEST && i < SLOTS; i++)
            table_cut(&table[i], f->flags - 9, cut);
        frame_free(f);
    }
    return n;
}

void arch_table_free(paddr_t top, bool is_view)
{
    struct list cut = LIST_INIT(cut);
    table_unload(top); /* no CPU has it in CR3 any more, not even an idle one */
    for (unsigned i = is_view; i < SLOT_KERNEL; i++)
        table_cut(&table_at(top)[i], SHIFT_TOP, &cut);
    while (arch_tables_free(&cut, TABLES_AT_ONCE))
        thread_breathe();
    frame_free(frame_of(top));
}

void arch_table_leave(paddr_t view_table)
{
    table_unload(view_table);
    table_at(view_table)[0] = 0;
}

/* entry is table_entry, and inline for arch_pte. */
HOT pte_t *entry(paddr_t top, vaddr_t at, int last, pte_t flags, uint64_t *made)
{
    pte_t *table = table_at(top);
#pragma GCC unroll 3
    for (int shift = SHIFT_TOP; shift > last; shift -= 9) {
        pte_t *e = &table[at >> shift & (SLOTS - 1)];
        if (!*e) {
            paddr_t pa = made ? table_page() : 0;
            if (!pa)
                return NULL;
            ++*made;
            pte_store(e, pa | flags);
        }
        table = table_at(*e);
    }
    return &table[at >> last & (SLOTS - 1)];
}

pte_t *table_entry(paddr_t top, vaddr_t at, int shift, pte_t flags, uint64_t *made)
{
    return entry(top, at, shift, flags, made);
}

static __attribute__((noinline)) pte_t *pte_made(paddr_t top, vaddr_t at, uint64_t *made)
{
    return entry(top, at, 12, TABLE_FLAGS, made);
}

pte_t *arch_pte(paddr_t top, vaddr_t at, uint64_t *made)
{
    assert(at < USER_LIMIT);
    return made ? pte_made(top, at, made) : entry(top, at, 12, 0, NULL);
}

/* The first address behind the part that an entry at `shift` maps. */
static vaddr_t behind(vaddr_t at, int shift) { return ((at >> shift) + 1) << shift; }

/* empty_from counts the entries from the empty one e on, of `count`, that are empty: some, if not
 * all. */
static inline uint64_t empty_from(const pte_t *e, uint64_t count)
{
    uint64_t n = 0;
    for (count &= ~3ull; n < count && !(e[n] | e[n + 1] | e[n + 2] | e[n + 3]);)
        n += 4;
    return n ? n : 1;
}

vaddr_t arch_pte_walk(paddr_t top, vaddr_t at, vaddr_t to,
                      bool (*fn)(pte_t *pte, vaddr_t at, void *arg), void *arg)
{
    for (unsigned n = 0; at < to && n < TABLES_AT_ONCE; n++) {
        pte_t *e = &table_at(top)[at >> 39 & (SLOTS - 1)];
        int shift = 39;
        for (; shift > 12 && *e; shift -= 9)
            e = &table_at(*e)[at >> (shift - 9) & (SLOTS - 1)];
        if (shift > 12) { /* and what else is missing behind it in the same table */
            at = ((at >> shift) + empty_from(e, SLOTS - (at >> shift & (SLOTS - 1)))) << shift;
            continue;
        }
        vaddr_t end = MIN(behind(at, 21), to);
        for (uint64_t pages; at < end; at += pages * PAGE_BYTES, e += pages) {
            pages = 1;
            if (!*e)
                pages = empty_from(e, (end - at) >> 12);
            else if (!fn(e, at, arg))
                return at;
        }
    }
    return MIN(at, to);
}

uint64_t arch_tables_cut_empty(paddr_t top, vaddr_t from, vaddr_t to, vaddr_t low, vaddr_t high,
                               bool any, struct list *cut)
{
    uint64_t n = 0;
    for (int shift = SHIFT_LOWEST; shift < SHIFT_TOP; shift += 9)
        for (vaddr_t at = from >> shift << shift; at < to;) {
            pte_t *e = table_entry(top, at, shift, 0, NULL);
            if (e && *e && at >= low && behind(at, shift) <= high &&
                ((any && shift == SHIFT_LOWEST) || empty_from(table_at(*e), SLOTS) == SLOTS)) {
                table_cut(e, shift, cut);
                n++;
            }
            at = behind(at, e ? shift : shift + 9);
        }
    return n;
}

/* The entries are cut at the lowest level where there are only a few. Other CPUs that the view has
 * left may know the tables. */
void arch_tables_cut(paddr_t top, vaddr_t from, vaddr_t to, struct list *cut)
{
    enum { FEW = 8 };
    int shift = SHIFT_LOWEST;
    while (shift < SHIFT_TOP && ((to - 1) >> shift) - (from >> shift) >= FEW)
        shift += 9;
    for (vaddr_t at = from; at < to; at = behind(at, shift)) {
        pte_t *e = table_entry(top, at, shift, 0, NULL);
        if (e)
            table_cut(e, shift, cut);
    }
    arch_shootdown(table_cpus(top) & ~(1ull << arch_cpu_id()));
}

/* ---- what this CPU has loaded ---- */

void arch_flush_page(vaddr_t at)
{
    __asm__ volatile("invlpg (%0)" ::"r"(at) : "memory");
}

void arch_flush_all(void)
{
    write_cr3(cpu_this()->loaded_table);
}
