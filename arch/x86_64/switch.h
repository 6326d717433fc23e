/*
 * switch.h - what changes when a CPU goes from one thread to another. Inline: a message between two
 * processes does it twice. For thread.c, and for arch/.
 */
#ifndef ARCH_SWITCH_H
#define ARCH_SWITCH_H

#include "thread/thread.h"

void fpu_leave(struct cpu *c, struct arch_thread *from); /* cpu.c: FP1 ends */
void fpu_found(struct cpu *c);                           /* cpu.c: nobody has used them meanwhile */

/* ---- protection keys: PKRU belongs to user mode, which may set it to anything at any time. The
 * kernel's copies to and from user memory go by it, too; its own memory has no keys. ---- */
#define KEYS_CLOSED 8u                          /* no stores by key 1 (PTE_GUARDED) */
extern bool cpu_keys;                           /* cpu.c: this machine has them */

static inline uint32_t keys_load(void)
{
    uint32_t keys;
    __asm__ volatile("rdpkru" : "=a"(keys) : "c"(0) : "rdx");
    return keys;
}
static inline void keys_store(uint32_t keys)
{
    __asm__ volatile("wrpkru" :: "a"(keys), "c"(0), "d"(0) : "memory");
}

/* Loads a top-level table; always reloads, so the TLB is clean of user entries after it. */
static inline void table_load(struct cpu *c, paddr_t top)
{
    __atomic_store_n(&c->leaving_table, c->loaded_table, __ATOMIC_RELAXED);
    __atomic_store_n(&c->loaded_table, top, __ATOMIC_SEQ_CST); /* before the walker may use it */
    __asm__ volatile("movq %0, %%cr3" ::"r"(top) : "memory");
    __atomic_store_n(&c->leaving_table, 0, __ATOMIC_RELEASE);  /* after it may use the old one */
}

static inline void arch_table_load(paddr_t top) { table_load(cpu_this(), top); }

/* Pushes what the compiler does not save by itself, and where to go on; comes back on the other
 * stack, to whoever did this for that thread. A new one's first stop is thread_first (trap.S). */
HOT void stack_switch(uint64_t *save_rsp, uint64_t load_rsp)
{
    __asm__ volatile("pushq %%rbp\n\t"
                     "pushq $1f\n\t"
                     "movq %%rsp, (%0)\n\t"
                     "movq %1, %%rsp\n\t"
                     "ret\n"
                     "1:\tpopq %%rbp"
                     : "+D"(save_rsp), "+S"(load_rsp)
                     :
                     : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
                       "r15", "cc", "memory");
}

/* Saves FPU, keys and stack of `from`, loads FS base, keys and stack of `to`; tables are not
 * touched. */
HOT void arch_thread_switch(struct cpu *c, struct thread *from, struct thread *to)
{
    typedef uint64_t __attribute__((aligned(4), may_alias)) tss_word;
    struct arch_thread *next = &to->arch;
    if (c->fpu_open)
        fpu_leave(c, &from->arch);
    if (c->fpu_owner == next)
        fpu_found(c);
    if (cpu_keys) {
        from->arch.keys = keys_load();
        if (__builtin_expect(from->arch.keys != next->keys, 0))
            keys_store(next->keys);
    }
    c->user_frame = arch_user_frame(next);
    *(tss_word *)c->trap_stack = next->stack_top;
    __asm__ volatile("wrmsr" ::"c"(0xc0000100), "a"((uint32_t)next->fs_base),
                     "d"((uint32_t)(next->fs_base >> 32)) : "memory");
    stack_switch(&from->arch.rsp, next->rsp);
}

#endif
