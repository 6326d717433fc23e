/*
 * start.S - from the boot loader to C, and the way of the further CPUs.
 *
 * Both loaders enter in 32-bit protected mode without paging: QEMU by the PVH note (ebx: start
 * info), GRUB by the multiboot2 header (eax: magic, ebx: info), under BIOS as well as under UEFI.
 */
#include "asm.h"

#define MULTIBOOT2_MAGIC  0xe85250d6
#define MULTIBOOT2_LOADER 0x36d76289
#define PVH_MAGIC         0x336ec578
#define NOTE_PVH_ENTRY    18

#define CR0_START 0x80010033          /* PG WP NE ET MP PE */
#define CR4_START 0x620               /* PAE OSFXSR OSXMMEXCPT */
#define EFER_START 0x901              /* NXE LME SCE */
#define MSR_EFER  0xc0000080
#define STACK_BYTES 16384

#define ENTRY_TABLE 3                 /* present, writable */
#define ENTRY_LARGE 0x83              /* present, writable, 2 MiB */

    .section .boot.header, "a"
    .balign 8
header:
    .long MULTIBOOT2_MAGIC, 0, header_end - header
    .long -(MULTIBOOT2_MAGIC + (header_end - header))
    .short 6, 0                       /* modules begin at pages */
    .long 8
    .short 0, 0                       /* no further tags */
    .long 8
header_end:

    .section .note.Xen, "a", @note
    .balign 4
    .long 4, 4, NOTE_PVH_ENTRY
    .asciz "Xen"
    .long entry_pvh

/* enter_long_mode: 64-bit mode with paging, by the tables in cr3, from the next far jump on.
 * Changes eax, ecx, edx. */
.macro enter_long_mode
    mov $MSR_EFER, %ecx
    rdmsr
    or $EFER_START, %eax
    wrmsr
    mov $CR0_START, %eax
    mov %eax, %cr0
.endm

.macro clear_segments
    xor %eax, %eax
    .irp segment, ds, es, ss, fs, gs
    mov %eax, %\segment
    .endr
.endm

/* ---- 32 bits, at physical addresses ---- */
    .section .boot.text, "ax"
    .code32
    .globl entry_pvh, entry_multiboot
entry_pvh:
    mov $PVH_MAGIC, %eax
entry_multiboot:
    cli
    cld
    mov %eax, %esi                    /* esi and ebx: kept until C */
#define PHYSICAL(symbol) (symbol - KERNEL_BASE)

    /* The first 4 GiB, twice: where they are, and as the direct map. */
    movl $PHYSICAL(low_pdpt) + ENTRY_TABLE, PHYSICAL(boot_top)
    movl $PHYSICAL(low_pdpt) + ENTRY_TABLE, PHYSICAL(boot_top) + 256 * 8
    mov $PHYSICAL(low_pd) + ENTRY_TABLE, %eax
    mov $PHYSICAL(low_pdpt), %edi
    mov $4, %ecx
1:  mov %eax, (%edi)
    add $4096, %eax
    add $8, %edi
    loop 1b
    mov $ENTRY_LARGE, %eax
    mov $PHYSICAL(low_pd), %edi
    mov $2048, %ecx
2:  mov %eax, (%edi)
    add $0x200000, %eax
    add $8, %edi
    loop 2b
    /* The kernel image: the same first page directory, in the last 2 GiB. */
    movl $PHYSICAL(high_pdpt) + ENTRY_TABLE, PHYSICAL(boot_top) + 511 * 8
    movl $PHYSICAL(low_pd) + ENTRY_TABLE, PHYSICAL(high_pdpt) + 510 * 8

    mov $CR4_START, %eax
    mov %eax, %cr4
    mov $PHYSICAL(boot_top), %eax
    mov %eax, %cr3
    enter_long_mode
    lgdt boot_gdt_pointer
    ljmp $SELECTOR_KERNEL_CODE, $start64

    .code64
start64:
    movabs $start_high, %rax
    jmp *%rax

    .balign 8
boot_gdt:
    .quad 0, 0x00af9a000000ffff, 0x00cf92000000ffff
boot_gdt_pointer:
    .short . - boot_gdt - 1
    .long boot_gdt

/* ---- 64 bits, at the kernel's own addresses ---- */
    .text
start_high:
    clear_segments
    mov $boot_stack + STACK_BYTES, %rsp
    xor %ebp, %ebp                    /* back traces end here */
    mov %esi, %edi
    mov %ebx, %esi
    call arch_boot                    /* _Noreturn void arch_boot(uint32_t magic, paddr_t info) */
    ud2

cpu_start_high:
    mov kernel_table(%rip), %rax      /* the stack may lie above 4 GiB */
    mov %rax, %cr3
    call cpu_start                    /* _Noreturn void cpu_start(unsigned id) */
    ud2

/* The trampoline is the first code that a further CPU runs, copied to a page below 1 MiB. It starts
 * in real mode and goes to long mode in one step, with the boot tables, which map the page where it
 * is. smp.c fills in the words at the end; their order is struct trampoline_words there. */
    .section .rodata
    .globl trampoline_start, trampoline_end
#define HERE(symbol) (symbol - trampoline_start)
    .code16
trampoline_start:
    cli
    cld
    mov %cs, %ax
    mov %ax, %ds
    lgdtl HERE(words_gdt)
    mov $CR4_START, %eax
    mov %eax, %cr4
    mov HERE(words_table), %eax
    mov %eax, %cr3
    enter_long_mode
    ljmpl *HERE(words_far)
    .code64
trampoline64:
    clear_segments
    mov words_stack(%rip), %rsp
    mov words_id(%rip), %rdi
    xor %ebp, %ebp
    movabs $cpu_start_high, %rax
    jmp *%rax
words_gdt:                            /* of start_high's way; above 1 MiB, where it was loaded */
    .short boot_gdt_pointer - boot_gdt - 1
    .long boot_gdt
    .balign 8
words_stack: .quad 0
words_id:    .quad 0
words_table: .long 0
words_far:   .long HERE(trampoline64), SELECTOR_KERNEL_CODE /* + the page's address: smp.c */
trampoline_end:

    .bss
    .balign 4096
    .globl boot_top, boot_guard
boot_top:  .skip 4096
low_pdpt:  .skip 4096
high_pdpt: .skip 4096
low_pd:    .skip 4 * 4096
boot_guard: .skip 4096                /* map.c leaves it out */
boot_stack: .skip STACK_BYTES

    .section .note.GNU-stack, "", @progbits
