/*
 * hostile_signal.c - forged frames for rt_sigreturn, and bad pointers to the calls that tell of a
 * child's end.
 *
 * Aim     a frame whose rip is good is taken, whatever else it says; any other ends its own
 *         process. A status that cannot be told is an errno. Nothing is lost.
 * Method  a child per frame. It lands on code that uses neither stack nor the frame's other
 *         registers, but the FPU: what the kernel loads there would fault.
 */
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "hostile.h"

enum { STEPS = 0x100, LANDED = 7, FRAMES_AT_RANDOM = 300, FPU_BYTES = 512, MXCSR_AT = 24 };

extern const char landed[];
__asm__(".text\nlanded: xorps %xmm0, %xmm0\n mov $231, %eax\n mov $7, %edi\n syscall\n hlt\n");

static struct { ucontext_t context; unsigned char fpu[FPU_BYTES]; } frame;

static uint64_t state = 1;
static unsigned dice(void)
{
    return (unsigned)((state = state * 6364136223846793005 + 1442695040888963407) >> 33);
}

static void frame_good(void)
{
    memset(&frame, 0, sizeof frame);
    frame.context.uc_mcontext.fpregs = (void *)frame.fpu;
    frame.context.uc_mcontext.gregs[REG_RIP] = (greg_t)landed;
}

/* Returns through a frame there, in a child: its status. */
static int returned(const void *at)
{
    int status = -1;
    int pid = fork();
    if (pid == 0)
        __asm__ volatile("mov %0, %%rsp\n\tmov $15, %%eax\n\tsyscall\n\thlt"
                         :
                         : "r"(at)
                         : "memory");
    return waitpid(pid, &status, 0) == pid ? status : -1;
}

static int lands(const char *what, unsigned long value)
{
    int status = returned(&frame), good = WIFEXITED(status) && WEXITSTATUS(status) == LANDED;
    if (!good) printf("# %s %lx: status %x\n", what, value, (unsigned)status);
    frame_good();
    return good;
}

static int ends(const char *what, unsigned long value, const void *at)
{
    int status = returned(at),
        good = status > 0 && !(WIFEXITED(status) && WEXITSTATUS(status) == LANDED);
    if (!good) printf("# %s %lx: status %x\n", what, value, (unsigned)status);
    frame_good();
    return good;
}

static void fields(void)
{
    greg_t *r = frame.context.uc_mcontext.gregs;
    int good;
    frame_good();
    good = lands("nothing", 0);
    memset(frame.fpu + MXCSR_AT, 0xff, 4), good &= lands("mxcsr", ~0ul);
    memset(frame.fpu, 0xff, FPU_BYTES), good &= lands("fpu", ~0ul);
    r[REG_EFL] = ~STEPS, good &= lands("flags", ~STEPS);
    r[REG_EFL] = STEPS, good &= ends("the trap flag", STEPS, &frame); /* SIGTRAP */
    r[REG_CSGSFS] = -1, good &= lands("selectors", ~0ul);
    r[REG_CSGSFS] = 0x10, good &= lands("selectors", 0x10);
    memset(&frame.context.uc_sigmask, 0xff, 8), good &= lands("mask", ~0ul);
    frame.context.uc_mcontext.fpregs = (void *)(frame.fpu - 1),
    good &= lands("fpu at an odd place", 0);
    for (int i = 0; i < BAD_POINTERS; i++)
        r[REG_RSP] = (greg_t)bad_pointers[i], good &= lands("rsp", bad_pointers[i]);
    tap_ok(good,
           "flags, selectors, stacks, FPU registers: whatever the frame says, its code goes on");
}

static void places(void)
{
    int good = 1;
    for (int i = 0; i < BAD_POINTERS; i++) {
        unsigned long bad = bad_pointers[i];
        frame.context.uc_mcontext.gregs[REG_RIP] = (greg_t)bad, good &= ends("rip", bad, &frame);
        frame.context.uc_mcontext.fpregs = (void *)bad, good &= ends("fpu", bad, &frame);
        good &= ends("frame", bad, (void *)bad);
    }
    good &= ends("frame", 8, writable_end - 8) && ends("frame", 0, writable_end);
    frame.context.uc_mcontext.fpregs = (void *)(read_only_end - 8), good &= ends("fpu", 8, &frame);
    tap_ok(good, "a rip, FPU registers, a frame that are nowhere: the process ends");
}

static void at_random(void)
{
    int good = 1;
    for (int i = 0; i < FRAMES_AT_RANDOM; i++) {
        for (unsigned n = 1 + dice() % 200; n > 0; n--)
            ((unsigned char *)&frame)[dice() % sizeof frame] = (unsigned char)dice();
        frame.context.uc_mcontext.fpregs = (void *)frame.fpu;
        frame.context.uc_mcontext.gregs[REG_RIP] = (greg_t)landed;
        frame.context.uc_mcontext.gregs[REG_EFL] &= ~STEPS;
        good &= lands("at random", (unsigned long)i);
    }
    tap_ok(good, "%d frames at random", FRAMES_AT_RANDOM);
}

static int child_ended(int status)
{
    int pid = fork();
    if (pid == 0) _exit(status);
    return pid;
}

static void ends_told(void)
{
    int good = 1;
    for (int i = 0; i < BAD_POINTERS; i++) {
        const unsigned long bad = bad_pointers[i];
        const int pid = child_ended(1);
        const long told[] = {
            CALL(KD_PROCESS_WAIT, bad ? pid : -1, bad, 0),
            CALL(SYS_wait4, bad ? child_ended(1) : -1, bad, 0, 0),
            CALL(SYS_wait4, bad ? child_ended(1) : -1, 0, 0, bad),
            CALL(SYS_getrusage, 0, bad),
            CALL(SYS_times, bad),
            CALL(SYS_rt_sigpending, bad, 8),
        };
        for (int k = 0; k < (int)(sizeof told / sizeof told[0]); k++)
            if (bad && told[k] != -EFAULT)
                good = 0, printf("# call %d, 0x%lx: %ld\n", k, bad, told[k]);
        const int forgets = fork();
        if (forgets == 0) {
            CALL(SYS_set_tid_address, bad);
            _exit(LANDED);
        }
        int status = 0;
        good &= waitpid(forgets, &status, 0) == forgets && WEXITSTATUS(status) == LANDED;
        while (waitpid(-1, NULL, 0) > 0) {}
    }
    tap_ok(good, "wait4, process_wait, getrusage, times, rt_sigpending, set_tid_address: memory "
                 "that is nowhere");
}

int main(void)
{
    area_make();
    tap_plan(5);
    frame_good();
    returned(&frame); /* what is kept for the next time is kept now */
    const struct counts before = counts_now();
    fields();
    places();
    at_random();
    ends_told();
    tap_ok(counts_back(before, 64),
           "frames, objects, processes, views, handles and credits are back");
    return tap_end();
}
