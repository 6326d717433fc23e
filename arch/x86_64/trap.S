/*
 * trap.S - the ways into the kernel and out of it, and the few other things C cannot say.
 *
 * The kernel runs with interrupts off; a trap that it takes itself is an interrupt in arch_idle(),
 * a page fault of a user copy, or its end. So a frame of user mode always is at the top of the
 * thread's kernel stack, and there is one rule for swapgs: what comes from ring 3 does it.
 *
 * The three traps that can hit between an entry and its swapgs (double fault, NMI, machine check)
 * have stacks of their own and never return, so they need no care for what they interrupted.
 */
#include "asm.h"

/* The places in struct trap_frame. */
    .set at, 0
    .irp r, FRAME_SAVED, FRAME_PUSHED
    .set FRAME_\r, at
    .set at, at + 8
    .endr
    .if at != FRAME_BYTES
    .error "FRAME_BYTES"
    .endif

/* clac and stac are taken out (smap_table) on a CPU without SMAP. */
.macro patchable instruction
0:  \instruction
    .pushsection .smap_table, "a"
    .quad 0b
    .popsection
.endm

/* A fault at the instruction that follows resumes at \fixup. */
.macro may_fault fixup
0:
    .pushsection .exception_table, "a"
    .quad 0b, \fixup
    .popsection
.endm

/* save_registers stores the rest of struct trap_frame, behind vector and error code. */
.macro save_registers
    .irp r, rax, r9, r8, r10, rdx, rsi, rdi, r11, rcx, rbx, rbp, r12, r13, r14, r15
    push %\r
    .endr
    patchable clac
    cld
.endm

.macro restore_registers
    .irp r, FRAME_SAVED
    pop %\r
    .endr
    add $16, %rsp
.endm

/* These directives tell debuggers that a whole struct trap_frame is at rsp, up to .cfi_endproc. */
    .cfi_sections .debug_frame
.macro frame_whole
    .cfi_startproc simple
    .cfi_signal_frame
    .cfi_def_cfa %rsp, FRAME_BYTES
    .irp r, FRAME_SAVED, rip, rsp
    .cfi_offset \r, FRAME_\r - FRAME_BYTES
    .endr
.endm

    .text
/* ---- exceptions and interrupts ---- */
    .balign 16
    .globl trap_stubs
trap_stubs:                           /* 16 bytes each */
    .set vector, 0
    .rept 256
    .balign 16
    .if !(vector == 8 || (vector >= 10 && vector <= 14) || vector == 17 || vector == 21)
    push $0                           /* these bring no error code */
    .endif
    push $vector
    jmp trap_common
    .set vector, vector + 1
    .endr

trap_common:
    testb $3, 24(%rsp)                /* cs */
    jz 1f
    swapgs
1:  save_registers
    frame_whole
    mov %rsp, %rdi
    call trap_dispatch                /* void trap_dispatch(struct trap_frame *f) */
trap_leave:
    testb $3, FRAME_cs(%rsp)
    jz leave_to_kernel
leave_to_user:
    mov %gs:CPU_CURRENT, %rax
    cmpb $0, THREAD_ATTENTION(%rax)
    jne attention
leave_checked:
    mov FRAME_rip(%rsp), %rax         /* iretq to a non-canonical address would fault in here */
    shr $47, %rax
    jnz bad_address
    restore_registers
    swapgs
    iretq
leave_to_kernel:
    restore_registers
    iretq
attention:                            /* comes back here until the flag stays clear */
    mov %rsp, %rdi
    call trap_return_to_user          /* void trap_return_to_user(struct trap_frame *f) */
    jmp leave_to_user
bad_address:
    mov %rsp, %rdi
    call trap_bad_address             /* void trap_bad_address(struct trap_frame *f) */
    jmp leave_to_user
    .cfi_endproc

/* trap_page_fault_entry: the entry for vector 14, with less on the way. */
    .balign 16
    .globl trap_page_fault_entry
trap_page_fault_entry:
    push $VECTOR_PAGE_FAULT
    testb $3, 24(%rsp)
    jz 1f
    swapgs
1:  save_registers
    frame_whole
    mov %rsp, %rdi
    mov %cr2, %rsi
    call trap_page_fault_dispatch     /* void (struct trap_frame *f, uint64_t address) */
    jmp trap_leave
    .cfi_endproc

/* _Noreturn void trap_leave_to_user(struct trap_frame *f): f is at the top of this stack. */
    .globl trap_leave_to_user
trap_leave_to_user:
    mov %rdi, %rsp
    jmp leave_to_user

/* ---- system calls ----
 * In: rax number; rdi rsi rdx r10 r8 r9 arguments; rcx user rip, r11 user rflags; interrupts off,
 * the user's stack. Out: rax. rcx and r11 are lost, by the instruction's nature.
 *
 * The frame is not pushed but stored, and what cannot have changed since the thread's first entry
 * (cs, ss: always the user's) is not stored at all. C keeps rbx, rbp and r12 to r15, so r12 to r15
 * are stored only if the call does not simply return: for clone before it, for a program that goes
 * on elsewhere behind it. rbx remembers rip, to notice the latter. */
    .balign 16
    .globl trap_syscall_entry
trap_syscall_entry:
    swapgs
    mov %rsp, %gs:CPU_USER_RSP
    mov %gs:CPU_USER_FRAME, %rsp
    mov %rcx, FRAME_rip(%rsp)
    mov %r11, FRAME_rflags(%rsp)
    .irp r, rax, rdi, rsi, rdx, r10, r8, r9, rbx, rbp /* back traces begin at rbp */
    mov %\r, FRAME_\r(%rsp)
    .endr
    mov %rcx, %rbx
    mov %gs:CPU_USER_RSP, %rcx
    mov %rcx, FRAME_rsp(%rsp)
    frame_whole                       /* but for: */
    .irp r, r12, r13, r14, r15
    .cfi_same_value \r
    .endr
    .cfi_undefined %rcx
    .cfi_undefined %r11
    lea FRAME_rdi(%rsp), %rdi
    cmp $TRAP_CALLS, %rax
    jae unknown_call
    call *trap_table(,%rax,8)         /* long fn(const uint64_t arguments[6]); trace.c */
call_done:
    mov %rax, FRAME_rax(%rsp)
    mov %gs:CPU_CURRENT, %rcx
    cmpb $0, THREAD_ATTENTION(%rcx)
    jne call_leave_slowly
    mov FRAME_rip(%rsp), %rcx
    cmp %rcx, %rbx
    jne call_leave_slowly             /* replaced: all registers come from the frame */
    mov FRAME_rflags(%rsp), %r11
    .irp r, rdi, rsi, rdx, r10, r8, r9, rbx, rsp
    mov FRAME_\r(%rsp), %\r
    .endr
    swapgs
    sysretq                           /* rcx came from the instruction: canonical (USER_LIMIT) */
unknown_call:
    call trap_call_unknown            /* long trap_call_unknown(const uint64_t arguments[6]) */
    jmp call_done
    .cfi_endproc

.macro store_kept frame
    .irp r, r12, r13, r14, r15
    mov %\r, FRAME_\r - FRAME_rdi(\frame)
    .endr
.endm
call_leave_slowly:
    lea FRAME_rdi(%rsp), %rdi
    store_kept %rdi
    jmp leave_to_user

/* long linux_clone_entry(const uint64_t arguments[6]): completes the frame for linux_clone, which
 * copies it. Nothing of C has run since the entry, so the registers are the user's. */
    .globl linux_clone_entry, linux_fork_entry
linux_clone_entry:
    store_kept %rdi
    jmp linux_clone
linux_fork_entry:
    store_kept %rdi
    jmp linux_fork

/* ---- the three that never return; each is on its own stack ---- */
.macro fatal name vector error
    .balign 16
    .globl \name
\name:
    .if !\error
    push $0
    .endif
    push $\vector
    save_registers
    mov $0xc0000101, %ecx             /* GS base: ours is negative, a user's cannot be */
    rdmsr
    test %edx, %edx
    js 1f
    swapgs
1:  frame_whole
    mov %rsp, %rdi
    call trap_fatal                   /* _Noreturn void trap_fatal(struct trap_frame *f) */
    ud2
    .cfi_endproc
.endm
    fatal trap_nmi_entry 2 0
    fatal trap_double_fault_entry 8 1
    fatal trap_machine_check_entry 18 0

/* ---- threads ---- */
/* The code to which a new thread's first switch returns (switch.h): its function and argument are
 * on the stack, put there by arch_thread_init(). */
    .globl thread_first
thread_first:
    .cfi_startproc simple
    .cfi_undefined %rip               /* back traces end here */
    pop %rax
    pop %rdi
    call *%rax
    ud2
    .cfi_endproc

/* ---- memory that may not be there: 0, or -14 (-EFAULT) after a fault nobody served ----
 * int user_copy(void *to, const void *from, size_t n): either side may be the user's.
 * Words, then the rest: an emulated CPU does `rep movsb` byte by byte. */
    .globl user_copy, user_string, peek
user_copy:
    mov %rdx, %rcx
    shr $3, %rcx
    and $7, %edx
    patchable stac
    may_fault user_failed
    rep movsq
    mov %edx, %ecx
    may_fault user_failed
    rep movsb
    patchable clac
    xor %eax, %eax
    ret
/* long user_string(char *to, const char *from, size_t n): bytes before the NUL; n: no NUL */
user_string:
    xor %eax, %eax
    patchable stac
1:  cmp %rdx, %rax
    je 2f
    may_fault user_failed
    movb (%rsi,%rax), %cl
    movb %cl, (%rdi,%rax)
    inc %rax
    test %cl, %cl
    jnz 1b
    dec %rax
2:  patchable clac
    ret
user_failed:
    patchable clac
    mov $-14, %rax
    ret
/* void trap_registers(struct trap_frame *f): those that a call keeps, as they are at its caller */
    .globl trap_registers
trap_registers:
    mov %rbx, FRAME_rbx(%rdi)
    mov %rbp, FRAME_rbp(%rdi)
    lea FRAME_rdi(%rdi), %rax
    store_kept %rax
    lea 8(%rsp), %rax
    mov %rax, FRAME_rsp(%rdi)
    mov (%rsp), %rax
    mov %rax, FRAME_rip(%rdi)
    ret
/* bool peek(uint64_t address, uint64_t *out) */
peek:
    may_fault 1f
    mov (%rdi), %rdx
    mov %rdx, (%rsi)
    mov $1, %eax
    ret
1:  xor %eax, %eax
    ret

    .section .note.GNU-stack, "", @progbits
