/*
 * linux.h - the Linux calls, which syscall.c puts into the table, and what processes, signals and
 * futexes offer the rooms below by their seams (seams.c). Arguments of calls are as the user gave
 * them: every pointer is a vaddr_t and hostile, and copies to and from it are made without locks.
 */
#ifndef KERNEL_LINUX_H
#define KERNEL_LINUX_H

#include "base/signal.h"
#include "process/process_make.h"

typedef long linux_call(const uint64_t a[6]);
/* FILE_CALL(name) { ... }: the call linux_name, whose first argument is a descriptor; its body gets
 * the open file, too, whose reference is dropped behind it. -EBADF: there is none. */
struct file;
typedef long file_call(struct file *f, const uint64_t a[6]);
long call_with_file(file_call *fn, const uint64_t a[6]);
#define FILE_CALL(name)                                                                           \
    static file_call name##_file;                                                                 \
    long linux_##name(const uint64_t a[6]) { return call_with_file(name##_file, a); }             \
    static long name##_file(struct file *f, const uint64_t a[6])

/* LINUX_CALLS lists the calls by number. Those with _entry begin in trap.S, which stores the
 * registers that they copy. */
#define LINUX_CALLS(X) \
    X(0, read) X(1, write) X(2, open) X(3, close) X(4, stat) X(5, fstat) \
    X(6, stat) /* lstat: there are no links */ X(8, lseek) X(9, mmap) X(10, mprotect) \
    X(11, munmap) X(12, brk) X(13, rt_sigaction) X(14, rt_sigprocmask) X(15, rt_sigreturn) \
    X(16, ioctl) X(17, pread64) X(18, pwrite64) X(19, readv) X(20, writev) X(21, access) \
    X(22, pipe) X(24, sched_yield) X(25, mremap) X(28, madvise) X(32, dup) X(33, dup2) \
    X(34, pause) X(35, nanosleep) X(39, getpid) X(56, clone_entry) X(57, fork_entry) \
    X(58, fork_entry) /* vfork */ X(59, execve) X(60, exit) X(61, wait4) X(62, kill) \
    X(63, uname) X(72, fcntl) X(73, flock) X(74, fsync) X(75, fsync) X(77, ftruncate) \
    X(79, getcwd) \
    X(80, chdir) X(81, fchdir) X(82, rename) X(83, mkdir) X(84, rmdir) X(87, unlink) \
    X(89, readlink) X(90, chmod) X(91, fchmod) X(95, umask) X(96, gettimeofday) X(97, getrlimit) \
    X(98, getrusage) X(99, sysinfo) X(100, times) X(102, zero) /* getuid */ \
    X(104, zero) /* getgid */ X(107, zero) /* geteuid */ X(108, zero) /* getegid */ \
    X(110, getppid) X(121, getpgid) X(127, rt_sigpending) X(130, rt_sigsuspend) \
    X(131, sigaltstack) X(140, getpriority) X(141, setpriority) X(158, arch_prctl) \
    X(160, setrlimit) X(186, gettid) X(200, tkill) X(201, time) X(202, futex) \
    X(204, sched_getaffinity) X(217, getdents64) X(218, set_tid_address) X(228, clock_gettime) \
    X(229, clock_getres) X(230, clock_nanosleep) X(231, exit_group) X(234, tgkill) \
    X(257, openat) X(258, mkdirat) X(262, newfstatat) X(263, unlinkat) X(264, renameat) \
    X(268, fchmodat) X(269, faccessat) X(292, dup3) X(293, pipe2) \
    X(302, prlimit64) X(316, renameat2) X(318, getrandom)

/* LINUX_MISSING lists calls that are not here and that programs ask for: the log names them. */
#define LINUX_MISSING(X) \
    X(7, poll) X(23, select) X(26, msync) X(27, mincore) X(36, getitimer) X(37, alarm) \
    X(38, setitimer) X(40, sendfile) X(41, socket) X(53, socketpair) X(76, truncate) X(85, creat) \
    X(86, link) X(88, symlink) X(92, chown) X(93, fchown) X(101, ptrace) X(105, setuid) \
    X(106, setgid) X(109, setpgid) X(111, getpgrp) X(112, setsid) X(115, getgroups) \
    X(124, getsid) X(128, rt_sigtimedwait) X(129, rt_sigqueueinfo) X(132, utime) \
    X(133, mknod) X(137, statfs) X(138, fstatfs) X(149, mlock) X(157, prctl) X(162, sync) \
    X(203, sched_setaffinity) X(213, epoll_create) X(221, fadvise64) X(222, timer_create) \
    X(232, epoll_wait) X(233, epoll_ctl) X(235, utimes) X(247, waitid) X(260, fchownat) \
    X(265, linkat) X(266, symlinkat) X(267, readlinkat) X(270, pselect6) X(271, ppoll) \
    X(273, set_robust_list) X(274, get_robust_list) X(280, utimensat) X(281, epoll_pwait) \
    X(283, timerfd_create) X(285, fallocate) X(289, signalfd4) X(290, eventfd2) \
    X(291, epoll_create1) X(295, preadv) X(296, pwritev) X(297, rt_tgsigqueueinfo) \
    X(319, memfd_create) X(322, execveat) X(324, membarrier) X(332, statx) X(334, rseq) \
    X(425, io_uring_setup) X(435, clone3) X(436, close_range) X(437, openat2) X(439, faccessat2)

#define LINUX_CALL(number, name) linux_call linux_##name;
LINUX_CALLS(LINUX_CALL)
#undef LINUX_CALL
linux_call linux_clone, linux_fork;

/* ---- processes: elf.c, fork.c, process_call.c ---- */

/* For process_seam.load. */
must_check int elf_load(struct process *p, struct node *image, const char *path,
                        const char *const *argv, const char *const *envp, vaddr_t *entry,
                        vaddr_t *stack);
/* The registers are the child's. Its pid, -ENOMEM, -EAGAIN, -EFAULT. */
must_check long process_fork(const struct trap_frame *registers, vaddr_t child_tid, bool set,
                             bool clear);
/* How a child ended, and the CPU time that it and its own took. */
struct child_end { int32_t status, signal; uint64_t cpu_ns; };
/* Takes an ended child out of the table (pid -1: any; below: of the family -pid), waiting by
 * `park`: its pid; 0: none has ended, only with no_hang; -ECHILD; or what park returned. */
must_check long process_wait_child(int pid, bool no_hang, int (*park)(uint64_t deadline_ns),
                                   struct child_end *out);
/* 20 - the niceness of the thread, which was set before unless nice is NULL; -ESRCH. */
must_check long process_thread_nice(uint64_t id, const int *nice);
/* A process with this program, which does not run yet (process_load); path and strings are in the
 * caller's memory. -EFAULT, -E2BIG, -ENOMEM, ... */
must_check long process_load_user(vaddr_t path, vaddr_t argv, vaddr_t envp,
                                  struct thread_begin **begin, struct process **out);

/* ---- signals, as Linux defines them: signal.c has the contract ---- */

/* signal_send sends a signal to a process, or to one thread of it (tid not 0); number 0 only asks.
 * 0, -ESRCH (no such thread), -EINVAL, -ENOSYS (the process would have to stop), -EAGAIN (one of
 * that real-time number is pending). process->lock is not held. */
int signal_send(struct process *p, uint64_t tid, int number, const struct signal_info *info);
/* Functions of process_seam: Ctrl-C, and a child's end. */
void signal_interrupt(struct process *p);
bool signal_wants_no_child(struct process *p);
void signal_child_ended(struct process *parent, const struct process *child);
/* signal_fault: the calling thread did something impossible at `at`. True: its program handles
 * that. */
bool signal_fault(int number, int code, vaddr_t at);
/* Before user mode: calls a handler, or does what stands for it. thread.c */
void signal_return_to_user(struct trap_frame *f);
/* fork: the child gets the caller's actions; -ENOMEM. execve: handlers become defaults. */
must_check int signal_copy(struct process *to);
void signal_reset(struct process *p);
void signal_process_free(struct process *p);

/* ---- waiting for a word of user memory, and for time: futex.c ---- */

void futex_init(void);
/* The thread ends: clears its tid word and wakes who joins it. */
void futex_thread_gone(struct thread *t);
#define NS_PER_S 1000000000ull
/* Nanoseconds of a struct timespec, from user memory. */
must_check int time_from_user(vaddr_t at, uint64_t *ns);
/* The time since boot plus this is the time of day (option epoch=SECONDS). */
uint64_t time_of_day_offset_ns(void);

#endif
