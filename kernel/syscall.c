/*
 * syscall.c - the table of system calls, Linux's (LINUX_CALLS) and Katydid's own (KD_CALLS).
 *
 * A call gets its six arguments as they lie in the trap frame; trap.S indexes the table itself. An
 * unknown number gives -ENOSYS and is counted, and the log says once that somebody asked for it.
 */
#include "linux/linux.h"

uint64_t syscall_unknown_count;

static const char *missing_name(uint64_t number)
{
    switch (number) {
#define LINUX_CALL(number, name) case number: return #name;
    LINUX_MISSING(LINUX_CALL)
#undef LINUX_CALL
    default: return "no name here";
    }
}

enum { BEHIND_TOLD = 16, LAST_TOLD = TRAP_CALLS + BEHIND_TOLD };

/* slot_of gives an unknown number its bit among those that were told: the first BEHIND_TOLD behind
 * the table have one each, as those in it have; all that come later share LAST_TOLD. */
static uint64_t slot_of(uint64_t number)
{
    static uint64_t behind[BEHIND_TOLD];
    for (unsigned i = 0; number >= TRAP_CALLS && i < BEHIND_TOLD; i++) {
        uint64_t was = 0;
        if (__atomic_compare_exchange_n(&behind[i], &was, number, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED) || was == number)
            return TRAP_CALLS + i;
    }
    return number < TRAP_CALLS ? number : LAST_TOLD;
}

/* say_once writes one line for each slot_of(). */
static void say_once(uint64_t number)
{
    static uint64_t told[LAST_TOLD / 64 + 1];
    uint64_t slot = slot_of(number), bit = 1ull << slot % 64;
    if (!(__atomic_fetch_or(&told[slot / 64], bit, __ATOMIC_RELAXED) & bit))
        printk("%s[%d]: there is no call %llu (%s)%s", process_this()->name, process_this()->pid,
               (unsigned long long)number, missing_name(number),
               slot == LAST_TOLD ? "; others of this kind are only counted" : "");
}

long trap_call_unknown(const uint64_t a[6])
{
    (void)a;
    __atomic_fetch_add(&syscall_unknown_count, 1, __ATOMIC_RELAXED);
    say_once(trap_call_number(arch_user_frame(&thread_this()->arch)));
    return -ENOSYS;
}

bool trap_call_keeps(unsigned number)
{
    return trap_calls[number] == linux_clone_entry || trap_calls[number] == linux_fork_entry;
}

_Static_assert(KD_CALL_END <= TRAP_CALLS, "the table has room for all numbers");

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init" /* unknown, unless it is known */
trap_call *const trap_calls[TRAP_CALLS] = {
    [0 ... TRAP_CALLS - 1] = trap_call_unknown,
#define LINUX_CALL(number, name) [number] = linux_##name,
    LINUX_CALLS(LINUX_CALL)
#undef LINUX_CALL
#define KD_CALL(number, call, function) [number] = function,
    KD_CALLS(KD_CALL)
#undef KD_CALL
};
#pragma GCC diagnostic pop
