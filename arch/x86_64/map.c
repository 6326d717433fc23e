/*
 * map.c - the kernel half of every address space.
 *
 * Owns      kernel_table: its top-level slots, made at boot and copied into every table: the direct
 *           map (all RAM, nothing else), stacks, devices, the kernel image. Below these slots the
 *           tables are shared, so a later device mapping appears everywhere.
 *
 * Stacks    RAM is mapped a second time, with an unmapped page below each KERNEL_STACK_BYTES of it.
 *           A stack is such a piece at its place there, so below each stack there is a guard, and
 *           making one changes no mapping that a TLB could know.
 *
 * Invariants
 *   MP1  Nothing here is writable and executable, or accessible to user mode.
 *   MP2  All leaves are global (they survive a reload of CR3) and never change once present.
 *
 * Locks: none; changed at boot only, by one CPU.
 */
#include "x86.h"
#include "switch.h"
#include "base/boot.h"
#include "memory/frame.h"

#define LARGE_BYTES (1ull << 21)
#define EARLY_LIMIT (1ull << 32)      /* what the tables of start.S map */
#define SLOT(at) ((at) >> 39 & 511)

paddr_t kernel_table;
static vaddr_t device_next = DEVICE_BASE;

paddr_t table_page(void)
{
    if (frame_total_count() > 0) {
        struct frame *f = frame_alloc(FRAME_TABLE);
        return f ? frame_paddr(f) : 0;
    }
    paddr_t pa = boot_take(PAGE_BYTES, EARLY_LIMIT);
    if (!pa)
        panic("no memory for the kernel's page tables");
    memset(arch_phys(pa), 0, PAGE_BYTES);
    return pa;
}

/* The entry for `at` that maps 1 << shift bytes. NULL: no memory. */
static pte_t *entry_make(vaddr_t at, int shift)
{
    uint64_t made = 0;
    return table_entry(kernel_table, at, shift, PTE_PRESENT | PTE_WRITE, &made);
}

static bool map_range(vaddr_t at, paddr_t pa, uint64_t bytes, uint64_t flags)
{
    flags |= PTE_PRESENT | PTE_GLOBAL | PTE_ACCESSED | PTE_DIRTY;
    for (uint64_t done = 0, step; done < bytes; done += step) {
        bool large = ((at + done) | (pa + done)) % LARGE_BYTES == 0 && bytes - done >= LARGE_BYTES;
        step = large ? LARGE_BYTES : PAGE_BYTES;
        pte_t *e = entry_make(at + done, large ? 21 : 12);
        if (!e)
            return false;
        *e = pte_make(pa + done, flags | (large ? PTE_LARGE : 0));
    }
    return true;
}

/* ---- stacks ---- */

#define STACK_STEP (KERNEL_STACK_BYTES + PAGE_BYTES)

static vaddr_t stack_place(paddr_t pa)
{
    return STACK_BASE + pa / KERNEL_STACK_BYTES * STACK_STEP + PAGE_BYTES + pa % KERNEL_STACK_BYTES;
}

void *arch_stack_new(void)
{
    struct frame *f = frame_alloc_run(STACK_FRAMES);
    assert(!f || frame_paddr(f) % KERNEL_STACK_BYTES == 0);
    for (unsigned i = 0; f && i < STACK_FRAMES; i++)
        page_zero(frame_memory(f + i)); /* kernel/memory/memory.md, "What held code" */
    return f ? (void *)stack_place(frame_paddr(f)) : NULL;
}

void arch_stack_free(void *stack)
{
    struct frame *f = frame_of(((vaddr_t)stack - STACK_BASE) / STACK_STEP * KERNEL_STACK_BYTES);
    for (unsigned i = 0; i < STACK_FRAMES; i++)
        frame_free(f + i);
}

bool stack_guard(vaddr_t at)
{
    vaddr_t offset = at - STACK_BASE, boot = at - (vaddr_t)boot_guard;
    return boot < PAGE_BYTES ||
           (offset < DEVICE_BASE - STACK_BASE && offset % STACK_STEP < PAGE_BYTES);
}

/* ---- all of it ---- */

static void map_ram(paddr_t start, paddr_t end, void *unused)
{
    (void)unused;
    if (end >= 1ull << 39)
        panic("memory at %lx: the direct map is one top-level slot, 512 GiB", end);
    (void)map_range(DIRECT_BASE + start, start, end - start, PTE_WRITE | PTE_NX);
    for (paddr_t pa = start; pa < end; pa += PAGE_BYTES)
        (void)map_range(stack_place(pa), pa, PAGE_BYTES, PTE_WRITE | PTE_NX);
}

static void map_image(const char *start, const char *end, uint64_t flags)
{
    uint64_t at = (uint64_t)start;
    for (; at < (uint64_t)end; at += PAGE_BYTES) /* page by page: no 2 MiB page spans two rights */
        (void)map_range(at, at - KERNEL_BASE, PAGE_BYTES, flags);
}

void map_init(void)
{
    kernel_table = table_page();
    boot_memory_for(map_ram, NULL);
    map_image(kernel_text_start, kernel_rodata_start, 0);
    map_image(kernel_rodata_start, kernel_data_start, PTE_NX);
    map_image(kernel_data_start, boot_guard, PTE_WRITE | PTE_NX);
    map_image(boot_guard + PAGE_BYTES, kernel_end, PTE_WRITE | PTE_NX);
    (void)entry_make(DEVICE_BASE, 30); /* the slot exists before the first copy is made */
    arch_table_load(kernel_table);
}

void *arch_map_device(paddr_t pa, size_t bytes)
{
    paddr_t first = page_down(pa);
    uint64_t whole = (pa + bytes - first + PAGE_BYTES - 1) & ~(uint64_t)(PAGE_BYTES - 1);
    vaddr_t at = device_next;
    if (whole > DEVICE_BASE + (1ull << 39) - at)
        return NULL;
    if (!map_range(at, first, whole, PTE_WRITE | PTE_NX | PTE_UNCACHED))
        return NULL;
    device_next += whole;
    return (void *)(at + (pa - first));
}
