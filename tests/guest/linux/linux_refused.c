/*
 * linux_refused.c - what Linux can do and Katydid cannot is refused, and never only seems to be
 * done.
 *
 * Aim     a program that needs such a call learns it from an errno.
 * Method  each is called as a program would; Linux would succeed in most. tests/linux/ has what is
 *         the same.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <katydid/abi.h>

#include "tap.h"

enum { POPULATE_WRITE = 23 }; /* MADV_POPULATE_WRITE, which older headers lack */

static int refused(long result, int error) { return result == -1 && errno == error; }

static void locks_on_files(void)
{
    int fd = open("/tmp/locked", O_CREAT | O_RDWR, 0600), good = 1;
    const int commands[] = {F_GETLK, F_SETLK, F_SETLKW, F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW};
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        good &= refused(fcntl(fd, commands[i], &l), ENOLCK);
    }
    tap_ok(good, "records_of_files_cannot_be_locked");
    tap_ok(refused(flock(fd, LOCK_EX), ENOLCK) && refused(flock(99, LOCK_EX), EBADF), "nor_files");
    close(fd);
    unlink("/tmp/locked");
}

static int map_refused(int protection, int flags, int fd, int error)
{
    return refused((long)mmap(NULL, 4096, protection, flags, fd, 0), error);
}

static void memory_that_is_shared(void)
{
    int fd = open("/tmp/shared", O_CREAT | O_RDWR, 0600), only = open("/bin/sh", O_RDONLY);
    int good = ftruncate(fd, 8192) == 0;
    tap_ok(good && map_refused(PROT_READ, MAP_SHARED, fd, ENODEV)
               && map_refused(PROT_READ | PROT_WRITE, MAP_SHARED, fd, ENODEV),
           "a_file_that_can_change_is_not_shared");
    tap_ok(map_refused(PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, ENODEV),
           "nor_memory_over_fork");
    char *m = mmap(NULL, 4096, PROT_READ, MAP_SHARED, only, 0);
    tap_ok(m != MAP_FAILED && memcmp(m, "\177ELF", 4) == 0
               && refused(mprotect(m, 4096, PROT_READ | PROT_WRITE), EACCES)
               && map_refused(PROT_WRITE, MAP_SHARED, only, EACCES),
           "one_that_never_changes_is_but_not_for_writing");
    const int flags[] = {MAP_32BIT, MAP_GROWSDOWN, MAP_HUGETLB};
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        good &= map_refused(PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | flags[i], -1, EINVAL);
    char *own = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    good &= refused(madvise(own, 4096, MADV_DONTFORK), EINVAL)
        && refused(madvise(own, 4096, MADV_WIPEONFORK), EINVAL);
    good &= madvise(own, 4096, POPULATE_WRITE) == 0 && own[0] == 0
        && munmap(own, 4096) == 0 && refused(madvise(own, 4096, POPULATE_WRITE), ENOMEM);
    tap_ok(good, "what_memory_cannot_do");
    close(fd), close(only);
    unlink("/tmp/shared");
}

static int lines_with(const char *text)
{
    static char log[1 << 16];
    int n = 0;
    long bytes = syscall(KD_LOOK, KD_LOOK_LOG, 0, log, sizeof(log) - 1);
    log[bytes > 0 ? bytes : 0] = 0;
    for (const char *at = log; (at = strstr(at, text)); at++)
        n++;
    return n;
}

static void unknown_calls_are_named(void)
{
    struct kd_system_info a, b;
    syscall(KD_SYSTEM_INFO, &a);
    for (int i = 0; i < 3; i++)
        if (syscall(SYS_socket, 1, 1, 0) != -1 || errno != ENOSYS || syscall(517) != -1
            || syscall(1 << 20) != -1 || syscall(5000) != -1)
            break;
    syscall(KD_SYSTEM_INFO, &b);
    tap_ok(b.unknown_calls == a.unknown_calls + 12, "unknown_calls_are_counted");
    tap_ok(lines_with("there is no call 41 (socket)") == 1 && lines_with("linux_refused[") >= 3
               && lines_with("there is no call 517 (") == 1
               && lines_with("there is no call 1048576 (") == 1
               && lines_with("there is no call 5000 (") == 1, "and_named_once");
    for (int i = 0; i < 80; i++)
        syscall(6000 + i % 40);
    tap_ok(lines_with("there is no call 60") == 15 && lines_with("(no name here)") == 18
               && lines_with("are only counted") == 1, "of_any_numbers_sixteen_and_one");
}

static void count(int number) { (void)number; }

static void signals_that_stop_or_queue(void)
{
    sigset_t set, old;
    tap_ok(refused(kill(getpid(), SIGSTOP), ENOSYS) && refused(raise(SIGTSTP), ENOSYS)
               && refused(kill(getpid(), SIGTTOU), ENOSYS) && kill(getpid(), SIGCONT) == 0,
           "nothing_can_be_stopped");
    signal(SIGRTMIN + 1, count);
    signal(SIGUSR1, count);
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 1), sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, &old);
    int good = raise(SIGRTMIN + 1) == 0 && refused(raise(SIGRTMIN + 1), EAGAIN)
        && kill(getpid(), SIGRTMIN + 1) == 0 && refused(kill(getpid(), SIGRTMIN + 1), EAGAIN)
        && raise(SIGUSR1) == 0 && raise(SIGUSR1) == 0;
    sigprocmask(SIG_SETMASK, &old, NULL);
    tap_ok(good && raise(SIGRTMIN + 1) == 0, "real_time_signals_do_not_queue");
    tap_ok(refused(kill(-1, 0), EPERM) && refused(kill(0, 0), EPERM)
               && refused(kill(-getpid(), 0), EPERM), "nobody_signals_many");
    tap_ok(refused(setpgid(0, 0), ENOSYS) && refused(setsid(), ENOSYS) && getpgrp() == getpid()
               && lines_with("there is no call 109 (setpgid)") == 1, "groups_and_sessions");
    tap_ok(refused(syscall(SYS_set_robust_list, 0, 24), ENOSYS), "robust_mutexes");
}

int main(void)
{
    tap_plan(14);
    signals_that_stop_or_queue();
    locks_on_files();
    memory_that_is_shared();
    unknown_calls_are_named();
    return tap_end();
}
