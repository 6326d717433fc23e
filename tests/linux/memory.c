/*
 * memory.c - mappings: what they show, what they refuse, and what limits say. Prints the same on
 * Linux and on Katydid.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096 };

static void say(const char *what, long value)
{
    printf("%s %ld\n", what, value);
    fflush(stdout);
}

static long error_of(long result) { return result < 0 ? errno : 0; }

static sigjmp_buf back;
static void *expected;
static void fault(int number, siginfo_t *i, void *context)
{
    (void)context;
    printf("signal %d, code %d, there %d\n", number, i->si_code, i->si_addr == expected);
    fflush(stdout);
    siglongjmp(back, 1);
}

static void touch(const char *what, volatile char *at, int write)
{
    expected = (void *)at;
    if (sigsetjmp(back, 1) == 0) {
        if (write)
            *at = 1;
        printf("%s %d\n", what, *at);
        fflush(stdout);
    }
}

static void files_end(void)
{
    int fd = open("file", O_CREAT | O_RDWR | O_TRUNC, 0600);
    if (ftruncate(fd, PAGE + 10) || pwrite(fd, "\1\2\3", 3, PAGE + 7) != 3)
        exit(9);
    char *m = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    touch("the last byte", m + PAGE + 9, 0);
    touch("behind it in its page", m + PAGE + 10, 0);
    touch("the page behind", m + 2 * PAGE, 0);
    touch("a store behind", m + 3 * PAGE + 5, 1);
    say("a call", error_of(write(fd, m + 2 * PAGE, 1)));
    if (pwrite(fd, "\7", 1, 3 * PAGE) != 1)
        exit(9);
    touch("a longer file", m + 3 * PAGE, 0);
    mprotect(m, PAGE, PROT_READ);
    touch("no right", m, 1);
    munmap(m, PAGE);
    touch("nothing there", m, 0);
    if (ftruncate(fd, 0))
        exit(9);
    m = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
    touch("an empty file", m, 0);
    close(fd);
}

static void mappings_are_refused(void)
{
    int fd = open("file", O_RDWR), only = open("file", O_WRONLY), path = open("file", O_PATH);
    long top = -PAGE;
    say("neither shared nor private", error_of((long)mmap(NULL, PAGE, 1, MAP_ANONYMOUS, -1, 0)));
    say("odd offset", error_of(syscall(SYS_mmap, 0, PAGE, 1, MAP_PRIVATE, fd, 100)));
    say("offset that wraps", error_of(syscall(SYS_mmap, 0, 2 * PAGE, 1, MAP_PRIVATE, fd, top)));
    say("written only", error_of((long)mmap(NULL, PAGE, 1, MAP_PRIVATE, only, 0)));
    say("a path", error_of((long)mmap(NULL, PAGE, 1, MAP_PRIVATE, path, 0)));
    char *m = mmap(NULL, PAGE, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    say("no such advice", error_of(syscall(SYS_madvise, m, PAGE, 77)));
    say("a hint", error_of(madvise(m, PAGE, MADV_SEQUENTIAL)));
    close(fd), close(only), close(path);
}

static void limits_are_for_what_comes(void)
{
    struct rlimit old, l;
    char *m = mmap(NULL, 64 * PAGE, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    getrlimit(RLIMIT_AS, &old);
    l = old;
    l.rlim_cur = PAGE;
    m[0] = 1;
    say("below what is mapped", error_of(setrlimit(RLIMIT_AS, &l)));
    memset(m, 5, 64 * PAGE);
    say("what was mapped is there", m[64 * PAGE - 1]);
    say("no more", error_of((long)mmap(NULL, PAGE, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)));
    void *end = sbrk(0);
    say("no longer heap", sbrk(1 << 20) == (void *)-1 && sbrk(0) == end);
    getrlimit(RLIMIT_AS, &l);
    say("as it was set", l.rlim_cur == PAGE && l.rlim_max == old.rlim_max);
    setrlimit(RLIMIT_AS, &old);
    say("more again", mmap(NULL, PAGE, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
}

int main(void)
{
    char folder[] = "/tmp/memory-XXXXXX";
    struct sigaction a = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO};
    if (!mkdtemp(folder) || chdir(folder))
        return 9;
    sigaction(SIGSEGV, &a, NULL);
    sigaction(SIGBUS, &a, NULL);
    files_end();
    mappings_are_refused();
    limits_are_for_what_comes();
    return 0;
}
