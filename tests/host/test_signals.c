/*
 * test_signals.c - a signal is sent to a process that ends: the end may come between any two
 * instructions of the sender, on another CPU, and frees what the sender would write into.
 * kernel/linux/signal.c is included; the machine and the rooms beside it are a few lines here.
 */
#include "tests/host/kernel_names.h"
#include "arch.h"
#define cpu_current host_current
static struct thread *host_current(void);
#include "kernel/linux/signal.c"
#include "tests/host/kernel_names.h"
#include "tests/host/steps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- the machine ---- */

static struct process sender_process, process;
static struct thread sender = {.process = &sender_process};
static struct thread *host_current(void) { return &sender; }

static union { struct signal_actions of; uint8_t byte[sizeof(struct signal_actions)]; } memory;
static volatile bool memory_freed;
static jmp_buf other_waits;

/* Only the other CPU finds a lock taken: it would spin, so it comes later. */
void lock_acquire(struct lock *l)
{
    if (__atomic_exchange_n(&l->taken, 1, __ATOMIC_SEQ_CST))
        longjmp(other_waits, 1);
}
void lock_release(struct lock *l)
{
    uint32_t was = __atomic_exchange_n(&l->taken, 0, __ATOMIC_SEQ_CST);
    assert_int_equal(was, 1);
}

enum { POISON = 0xdd };
void kfree(void *p)
{
    if (!p)
        return;
    assert_ptr_equal(p, &memory);
    assert_false(memory_freed);
    memory_freed = true;
    memset(&memory, POISON, sizeof memory);
}

/* ---- what the sender does not come to ---- */

void panic(const char *format, ...)
{
    fail_msg("%s", format);
    abort();
}
void process_end_by(struct process *p, int signal) { (void)p, (void)signal, fail(); }
void process_kill(struct process *p, int status, const char *format, ...)
{
    (void)p, (void)status, (void)format, fail();
}
void thread_signal(struct thread *t) { (void)t, fail(); }

/* ---- the two CPUs ---- */

static void process_ends(void)
{
    if (setjmp(other_waits) == 0)
        signal_process_free(&process);
}

enum { HANDLER = 0x1000 };
static const struct signal_info info = {.pid = 7, .status = 9};

static void begin(void)
{
    memset(&process, 0, sizeof process);
    memset(&memory, 0, sizeof memory);
    memory_freed = false;
    list_init(&process.threads);
    process.signals.actions = &memory.of;
    memory.of.of[SIGNAL_CHILD].handler = HANDLER;
}

/* All its threads have ended, so the signal stays pending, with what was sent along. */
static void a_sender_does_not_write_into_what_the_end_freed(void **state)
{
    unsigned freed = 0, waited = 0, step = 1;

    (void)state;
    for (steps_left = 0; steps_left == 0; step++) {
        begin();
        steps_begin(step, process_ends);
        steps_on(true);
        int error = signal_send(&process, 0, SIGNAL_CHILD, &info);
        steps_on(false);
        assert_int_equal(error, 0);
        freed += memory_freed;
        if (!memory_freed) {
            assert_int_equal(memory.of.info[SIGNAL_CHILD].pid, info.pid);
            waited += steps_left == 0;
            process_ends();
        }
        assert_true(memory_freed);
        assert_null(process.signals.actions);
        for (size_t i = 0; i < sizeof memory; i++)
            assert_int_equal(memory.byte[i], POISON);
    }
    assert_in_range(freed, 2, step); /* before the sender looked, and behind it */
    assert_in_range(waited, 1, step);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sender_does_not_write_into_what_the_end_freed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
