/*
 * syscall.c - the table of system calls: Linux's by number, Katydid's own singly where they are hot
 * and else by their tens.
 *
 * A call gets its six arguments as they lie in the trap frame; trap.S indexes the table itself. An
 * unknown number gives -ENOSYS and is counted, so that a program that misses something can be
 * noticed.
 */
#include "linux.h"
#include "port.h"
#include "view.h"

uint64_t syscall_unknown_count;

long trap_call_unknown(const uint64_t a[6])
{
    (void)a;
    __atomic_fetch_add(&syscall_unknown_count, 1, __ATOMIC_RELAXED);
    return -ENOSYS;
}

static long linux_getpid(const uint64_t a[6])
{
    (void)a;
    return process_this()->pid;
}

/* trap.S: store the registers that clone and fork copy */
long linux_clone_entry(const uint64_t a[6]), linux_fork_entry(const uint64_t a[6]);

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
    [0] = linux_read, [1] = linux_write, [2] = linux_open, [3] = linux_close, [4] = linux_stat,
    [5] = linux_fstat, [6] = linux_stat /* lstat: there are no links */, [8] = linux_lseek,
    [9] = linux_mmap, [10] = linux_mprotect, [11] = linux_munmap, [12] = linux_brk,
    [13] = linux_rt_sigaction, [14] = linux_rt_sigprocmask, [15] = linux_rt_sigreturn,
    [16] = linux_ioctl, [17] = linux_pread64, [18] = linux_pwrite64, [19] = linux_readv,
    [20] = linux_writev, [21] = linux_access, [22] = linux_pipe, [24] = linux_sched_yield,
    [25] = linux_mremap, [28] = linux_madvise, [32] = linux_dup, [33] = linux_dup2,
    [35] = linux_nanosleep, [39] = linux_getpid, [34] = linux_pause, [56] = linux_clone_entry,
    [57] = linux_fork_entry, [58] = linux_fork_entry /* vfork */, [59] = linux_execve,
    [60] = linux_exit, [61] = linux_wait4, [62] = linux_kill, [63] = linux_uname,
    [72] = linux_fcntl, [74] = linux_fsync,
    [75] = linux_fsync, [77] = linux_ftruncate, [79] = linux_getcwd, [80] = linux_chdir,
    [81] = linux_fchdir, [82] = linux_rename, [83] = linux_mkdir, [84] = linux_rmdir,
    [87] = linux_unlink, [89] = linux_readlink, [96] = linux_gettimeofday, [97] = linux_getrlimit,
    [95] = linux_umask, [98] = linux_getrusage, [99] = linux_sysinfo,
    [102] = linux_zero /* getuid */, [104] = linux_zero /* getgid */,
    [107] = linux_zero /* geteuid */, [108] = linux_zero /* getegid */,
    [109] = linux_zero /* setpgid */, [110] = linux_getppid,
    [111] = linux_getpid /* getpgrp */, [112] = linux_getpid /* setsid */, [121] = linux_getpgid,
    [124] = linux_getpgid /* getsid */, [127] = linux_rt_sigpending, [130] = linux_rt_sigsuspend,
    [131] = linux_zero /* sigaltstack */, [158] = linux_arch_prctl, [186] = linux_gettid,
    [200] = linux_tkill, [201] = linux_time, [202] = linux_futex, [204] = linux_sched_getaffinity,
    [217] = linux_getdents64, [218] = linux_set_tid_address, [228] = linux_clock_gettime,
    [229] = linux_clock_getres, [230] = linux_clock_nanosleep, [231] = linux_exit_group,
    [234] = linux_tgkill, [257] = linux_openat, [258] = linux_mkdirat, [262] = linux_newfstatat,
    [263] = linux_unlinkat, [264] = linux_renameat, [269] = linux_faccessat,
    [273] = linux_zero /* set_robust_list */, [292] = linux_dup3, [293] = linux_pipe2,
    [302] = linux_prlimit64, [316] = linux_renameat, [318] = linux_getrandom,
    [1000 ... 1009] = handle_call_by_number, [1010 ... 1019] = process_call_by_number,
    [1020 ... 1039] = port_syscall_by_number, [1040 ... 1059] = object_syscall_by_number,
    [KD_PORT_CALL] = port_call, [KD_PORT_RECEIVE] = port_receive_call,
    [KD_PORT_REPLY] = port_reply, [KD_PORT_REPLY_RECEIVE] = port_reply_receive,
    [1060 ... 1099] = txn_syscall_by_number,
    [KD_TXN_BEGIN] = txn_begin, [KD_TXN_COMMIT] = txn_commit, [1100 ... KD_CALL_END - 1] = block_syscall_by_number,
};
#pragma GCC diagnostic pop
