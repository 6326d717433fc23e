/* asm.h - numbers that assembly and C share. cpu.c asserts that the offsets are right. */
#ifndef ARCH_ASM_H
#define ARCH_ASM_H

#define KERNEL_BASE 0xffffffff80000000 /* the kernel image: physical address + this */
#define DIRECT_BASE 0xffff800000000000 /* all RAM */
#define STACK_BASE  0xffffa00000000000 /* RAM again, for stacks: map.c */
#define DEVICE_BASE 0xffffc00000000000 /* device registers, handed out upwards */
#define USER_LIMIT  0x00007ffffffff000 /* the last user page is never mapped: see boot.md */

/* The order in the descriptor table is the one that syscall and sysret want. */
#define SELECTOR_KERNEL_CODE 0x08
#define SELECTOR_KERNEL_DATA 0x10
#define SELECTOR_SYSRET      0x1b /* + 8: user data, + 16: user code */
#define SELECTOR_USER_DATA   0x23
#define SELECTOR_USER_CODE   0x2b
#define SELECTOR_TSS         0x30

#define VECTOR_NMI         2
#define VECTOR_PAGE_FAULT  14
#define VECTOR_FIRST       0x20 /* below: exceptions */
#define VECTOR_DEVICES     0x40 /* arch_vector_alloc: 0x40 up to 0xef */
#define VECTOR_TIMER       0xf0
#define VECTOR_KICK        0xf1
#define VECTOR_SHOOTDOWN   0xf2
#define VECTOR_SPURIOUS    0xff
#define TRAP_CALLS         1152  /* entries of trap_calls */

/* struct trap_frame: what save_registers (trap.S) stores, then what entries and the CPU push. In
 * assembly FRAME_rdi is the place of rdi. */
#define FRAME_SAVED  r15, r14, r13, r12, rbp, rbx, rcx, r11, rdi, rsi, rdx, r10, r8, r9, rax
#define FRAME_PUSHED vector, error, rip, cs, rflags, rsp, ss
#define FRAME_BYTES  176

/* struct cpu */
#define CPU_SELF       0
#define CPU_USER_FRAME 8
#define CPU_USER_RSP   16
#define CPU_CURRENT    24
#define CPU_LOCKS_HELD 48
#define CPU_MARK       52

/* struct thread */
#define THREAD_ATTENTION 565

#endif
