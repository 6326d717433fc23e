/*
 * linux.h - the Linux calls, by subject; syscall.c has the table. Arguments are as the user gave
 * them: every pointer is a vaddr_t and hostile, and copies to and from it are made without locks.
 */
#ifndef KERNEL_LINUX_H
#define KERNEL_LINUX_H

#include "process.h"

typedef long linux_call(const uint64_t a[6]);

/* linux_file.c: descriptors and their bytes */
linux_call linux_read, linux_write, linux_readv, linux_writev, linux_pread64, linux_pwrite64,
    linux_lseek, linux_close, linux_dup, linux_dup2, linux_dup3, linux_pipe, linux_pipe2,
    linux_ioctl, linux_fcntl, linux_fsync, linux_ftruncate;
/* linux_path.c: names */
linux_call linux_open, linux_openat, linux_stat, linux_fstat, linux_newfstatat, linux_access,
    linux_faccessat, linux_getcwd, linux_chdir, linux_fchdir, linux_mkdir, linux_mkdirat,
    linux_rmdir, linux_unlink, linux_unlinkat, linux_rename, linux_renameat, linux_getdents64,
    linux_readlink;
/* linux_process.c: memory, threads, time, the rest */
linux_call linux_mmap, linux_munmap, linux_mprotect, linux_brk, linux_mremap, linux_madvise,
    linux_exit, linux_exit_group, linux_gettid, linux_getppid, linux_uname,
    linux_clock_gettime, linux_clock_getres, linux_gettimeofday, linux_time, linux_nanosleep,
    linux_clock_nanosleep, linux_sched_yield, linux_sched_getaffinity, linux_set_tid_address,
    linux_futex, linux_clone, linux_arch_prctl,
    linux_getrandom, linux_prlimit64, linux_getrlimit,
    linux_sysinfo, linux_zero, linux_umask, linux_getpgid;
/* fork.c, signal.c */
linux_call linux_fork, linux_execve, linux_wait4, linux_getrusage, linux_rt_sigaction,
    linux_rt_sigprocmask, linux_rt_sigpending, linux_rt_sigsuspend, linux_rt_sigreturn, linux_pause,
    linux_kill, linux_tkill, linux_tgkill;

#endif
