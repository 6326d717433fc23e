/*
 * syscall.c - the table of system calls: Linux's by number, Katydid's own singly where they are hot
 * and else by their tens.
 *
 * A call gets its six arguments as they lie in the trap frame; trap.S indexes the table itself. An
 * unknown number gives -ENOSYS and is counted, and the log says once that somebody asked for it.
 */
#include "linux/linux.h"
#include "message/port.h"
#include "look/look.h"
#include "store/view.h"

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

/* All numbers behind the table share one line. */
static void say_once(uint64_t number)
{
    static uint64_t said[TRAP_CALLS / 64 + 1];
    uint64_t slot = MIN(number, (uint64_t)TRAP_CALLS), bit = 1ull << slot % 64;
    if (!(__atomic_fetch_or(&said[slot / 64], bit, __ATOMIC_RELAXED) & bit))
        printk("%s[%d]: there is no call %llu (%s)", process_this()->name, process_this()->pid,
               (unsigned long long)number, missing_name(number));
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

static unsigned this_number(void)
{
    return (unsigned)trap_call_number(arch_user_frame(&thread_this()->arch));
}

#define BY_NUMBER(fn) \
    static long fn##_by_number(const uint64_t a[6]) { return fn(this_number(), a); }
BY_NUMBER(handle_call)
BY_NUMBER(process_call)
BY_NUMBER(port_syscall)
BY_NUMBER(object_syscall)
BY_NUMBER(txn_syscall)
BY_NUMBER(block_syscall)

_Static_assert(KD_CALL_END <= TRAP_CALLS, "the table has room for all numbers");

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init" /* unknown, unless it is known */
trap_call *const trap_calls[TRAP_CALLS] = {
    [0 ... TRAP_CALLS - 1] = trap_call_unknown,
#define LINUX_CALL(number, name) [number] = linux_##name,
    LINUX_CALLS(LINUX_CALL)
#undef LINUX_CALL
    [1000 ... 1009] = handle_call_by_number, [KD_OBJECT_REVOKE] = object_syscall_by_number,
    [1010 ... 1019] = process_call_by_number,
    [1020 ... 1039] = port_syscall_by_number, [1040 ... 1059] = object_syscall_by_number,
    [KD_PORT_CALL] = port_call, [KD_PORT_CALL_UNTIL] = port_call_until, [KD_PORT_RECEIVE] = port_receive_call,
    [KD_PORT_REPLY] = port_reply, [KD_PORT_REPLY_RECEIVE] = port_reply_receive,
    [1060 ... 1099] = txn_syscall_by_number,
    [KD_TXN_BEGIN] = txn_begin, [KD_TXN_COMMIT] = txn_commit, [1100 ... 1109] = block_syscall_by_number,
    [KD_SYSTEM_INFO] = kd_system_info, [KD_KERNEL_COMMAND_LINE] = kd_kernel_command_line,
    [KD_CHECK] = kd_check, [KD_LOOK] = kd_look, [KD_TRACE] = trace_call,
};
#pragma GCC diagnostic pop
