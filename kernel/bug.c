/* bug.c - the switch of the planted bugs (bug.h); empty in a normal build. */
#include "base/bug.h"
#include "arch.h"
#include "base/boot.h"
#include "base/panic.h"
#include "store/view.h"

#ifdef KATYDID_BUGS
enum kernel_bug bug_on;

static const char *const names[] = {
    "none",
#define BUG_ENTRY(name, rule, text) #name,
    KERNEL_BUGS(BUG_ENTRY)
#undef BUG_ENTRY
};

static const char word[] = "bug=", no_shadow[] = "shadow=off";
bool shadow_off;

/* The bug that `at` names, up to a blank or the end. */
static unsigned bug_find(const char *at)
{
    for (unsigned i = 0; i < ARRAY_COUNT(names); i++) {
        size_t n = strlen(names[i]);
        if (!memcmp(names[i], at, n) && (at[n] == ' ' || !at[n]))
            return i;
    }
    panic("the command line asks for a bug that is not in kernel/base/bug.h");
}

int shadow_cpu_of(paddr_t top)
{
    for (unsigned i = 0; i < KD_VIEW_MAX; i++)
        if (views[i].table == top && views[i].state != VIEW_FREE)
            return views[i].state == VIEW_PLAIN ? -1 : __atomic_load_n(&views[i].cpu, __ATOMIC_SEQ_CST);
    return -2;
}

int shadow_is_right(paddr_t top)
{
    for (unsigned i = 0; i < KD_VIEW_MAX; i++)
        if (views[i].table == top)
            return !views[i].snapshot_rights;
    return 0;
}

static __attribute__((noinline)) unsigned deeper(volatile unsigned *depth)
{
    volatile unsigned here[64] = {*depth + 1};
    return here[0] ? deeper(here) + here[1] : 0;
}

static __attribute__((noinline)) char overrun(unsigned n)
{
    volatile char array[16];
    for (unsigned i = 0; i < n; i++)
        array[i] = 1;
    return array[0];
}

void bug_stack(void)
{
    volatile unsigned depth = 1, bytes = 40;
    if (BUG(STACK_OVERFLOW))
        (void)deeper(&depth);
    if (BUG(STACK_SMASH))
        (void)overrun(bytes);
}

void bug_window(void)
{
    for (unsigned i = 0; i < 50000; i++)
        arch_spin_hint();
}

void bug_window_without(struct lock *l)
{
    lock_release(l);
    for (int i = 0; i < 8; i++)
        bug_window();
    lock_acquire(l);
}

void bug_yield_without(struct lock *l)
{
    lock_release(l);
    thread_yield();
    lock_acquire(l);
}

/* One thread at a time, by its number, which no later one gets; no other one writes these. */
static uint64_t dies, dies_in;

long bug_die_in(uint64_t n)
{
    dies = (uint64_t)thread_this()->id;
    dies_in = n;
    return 0;
}

/* As thread_kill(), but with any locks held: it runs, so nobody need be woken. */
void bug_event(void)
{
    struct thread *t = thread_this();
    if ((uint64_t)t->id != dies || !dies_in || --dies_in)
        return;
    t->killed = true;
    __atomic_store_n(&t->attention, true, __ATOMIC_SEQ_CST);
}

void bug_init(void)
{
    static char line[BOOT_LINE_BYTES + 64];
    boot_get_line(line);
    for (const char *at = line; *at; at++)
        if (!memcmp(at, word, sizeof word - 1) && (at == line || at[-1] == ' '))
            bug_on = bug_find(at + sizeof word - 1);
        else if (!memcmp(at, no_shadow, sizeof no_shadow - 1))
            shadow_off = true;
    printk("planted bug: %s\n", names[bug_on]);
}
#endif
