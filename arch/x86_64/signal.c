/*
 * signal.c - the frame on a user's stack through which a signal handler returns, laid out as Linux
 * has it, so that handlers of three arguments find what they expect.
 *
 *   rsp at the handler's entry -> restorer's address; struct context; struct signal_info (128
 *   bytes); FPU registers (fxsave); then, but for an alternate stack, 128 bytes that the
 *   interrupted function may be using (red zone)
 *
 * What rt_sigreturn reads is input: flags and selectors are ours (arch_user_resume), a bad rip is
 * noticed on the way out, reserved bits of MXCSR are cleared, and keys (PKRU), which lie in the
 * first of Linux's reserved words, may be any. A handler begins with those of a new thread.
 */
#include "x86.h"

#include "base/signal.h"
#include "switch.h"

#define RED_ZONE_BYTES 128
#define FPU_BYTES 512
#define MXCSR_AT 24
#define MXCSR_VALID 0xffffu

struct context {                         /* Linux's struct ucontext, with its struct sigcontext */
    uint64_t flags, link;
    struct signal_stack stack;
    uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip,
        rflags;
    uint16_t cs, gs, fs, ss;
    uint64_t error, vector, old_mask, cr2, fpu_at, keys, reserved[7];
    uint64_t mask;
};
struct signal_frame {
    uint64_t restorer;
    struct context context;
    struct signal_info info;
    uint8_t info_rest[128 - sizeof(struct signal_info)];
};
_Static_assert(offsetof(struct context, mask) == 296, "Linux's place of uc_sigmask");

#define BOTH(x)                                                                              \
    x(r8) x(r9) x(r10) x(r11) x(r12) x(r13) x(r14) x(r15) x(rdi) x(rsi) x(rbp) x(rbx) x(rdx) \
        x(rax) x(rcx) x(rsp) x(rip) x(rflags)

int arch_signal_enter(struct trap_frame *f, const struct signal_call *c)
{
    struct signal_frame s = {.restorer = c->action.restorer, .info = c->info};
    struct arch_thread *t = &thread_this()->arch;
    vaddr_t top = c->top ? c->top : f->rsp - RED_ZONE_BYTES, fpu_at = (top - FPU_BYTES) & ~63ull;
    vaddr_t at = ((fpu_at - sizeof(s)) & ~15ull) - 8; /* as if the handler had been called */
#define SAVE(r) s.context.r = f->r;
    BOTH(SAVE)
    s.context.cs = SELECTOR_USER_CODE;
    s.context.ss = SELECTOR_USER_DATA;
    s.context.fpu_at = fpu_at;
    s.context.mask = c->mask;
    s.context.stack = c->stack;
    arch_thread_copy_fpu(t, t);
    if (cpu_keys) {
        s.context.keys = keys_load();
        keys_store(KEYS_CLOSED); /* also for these copies */
    }
    if (top > USER_LIMIT || top < 2 * PAGE_BYTES || at < c->bottom
        || copy_to_user(fpu_at, t->fpu, FPU_BYTES) || copy_to_user(at, &s, sizeof(s)))
        return -EFAULT;
    f->rdi = (uint64_t)c->info.number;
    f->rsi = at + offsetof(struct signal_frame, info);
    f->rdx = at + offsetof(struct signal_frame, context);
    f->rax = 0;
    f->rsp = at;
    f->rip = c->action.handler;
    f->rflags &= ~(0x400 | RFLAGS_TF); /* the direction flag is clear at a function's entry */
    return 0;
}

int arch_signal_leave(struct trap_frame *out, uint64_t *mask, struct signal_stack *stack)
{
    struct arch_thread *t = &thread_this()->arch;
    struct context c;
    _Alignas(16) uint8_t fpu[FPU_BYTES];
    vaddr_t at = arch_user_frame(t)->rsp; /* the handler's return took the restorer's address */
    if (copy_from_user(&c, at, sizeof(c)) || copy_from_user(fpu, c.fpu_at, sizeof(fpu)))
        return -EFAULT;
    *(uint32_t *)&fpu[MXCSR_AT] &= MXCSR_VALID;
    arch_thread_set_fpu(t, fpu);
    if (cpu_keys)
        keys_store((uint32_t)c.keys);
    memset(out, 0, sizeof(*out));
#define LOAD(r) out->r = c.r;
    BOTH(LOAD)
    *mask = c.mask;
    *stack = c.stack;
    return 0;
}
