/*
 * void tx_entry(void);
 * The kernel aborted the transaction and continues the thread here: rdi = the reason, rsp = the
 * landing stack of its ps_tx, whose first word is the ps_tx. No register of the body's is kept.
 * Goes to tx_landed(reason, tx), which does not return.
 */
        .text
        .globl  tx_entry
        .type   tx_entry, @function
tx_entry:
        mov     (%rsp), %rsi            /* the transaction */
        and     $-16, %rsp              /* as a C function expects it ... */
        xor     %ebp, %ebp              /* ... and the end of the back trace */
        cld
        call    tx_landed
        ud2
        .size   tx_entry, . - tx_entry
        .section .note.GNU-stack,"",@progbits
