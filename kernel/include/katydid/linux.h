/*
 * katydid/linux.h - the Linux calls that the kernel has, and those that it has not and programs ask
 * for: X(number, name). What each does: kernel/linux/. Katydid's own calls are in abi.h.
 */
#ifndef KATYDID_LINUX_H
#define KATYDID_LINUX_H

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

#endif
