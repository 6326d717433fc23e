/*
 * pstore_fork.c - a child of fork uses the containers that its parent had opened.
 *
 * Aim     the child gets no handle and no view, but libpstore opens the containers again for it:
 *         parent and child write by turns, each sees what the other committed, and a transaction
 *         that was under way at the fork is the parent's alone.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "pstore_test.h"

struct root { uint64_t sum; };
static ps_container *box;

static int add(void *arg)
{
    struct root *root = ps_root(box);
    root->sum += *(uint64_t *)arg;
    return 0;
}
static int look(void *arg)
{
    *(uint64_t *)arg = ((struct root *)ps_root(box))->sum;
    return 0;
}
static uint64_t sum(void)
{
    uint64_t n = 0;
    int error = ps_transaction(look, &n);
    return error ? (uint64_t)error : n;
}

/* The child's exit status: what it found. */
static int ended(pid_t pid)
{
    int status = -1;
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status)
                                                                           : -1;
}
static int child_works(void)
{
    uint64_t one = 1;
    int found = (int)sum();
    for (int i = 0; i < 10; i++)
        if (ps_transaction(add, &one)) return 99;
    return found;
}
static int fork_within(void *arg)
{
    uint64_t n = 100;
    add(&n);
    *(pid_t *)arg = fork();
    if (*(pid_t *)arg == 0) _exit((int)sum());
    return 0;
}

int main(void)
{
    uint64_t five = 5;
    tap_plan(7);
    box = ps_open("fork", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    is(box && ps_transaction(add, &five) == 0, 1, "the parent commits");
    pid_t pid = fork();
    if (pid == 0) _exit(child_works());
    is(ended(pid), 5, "the child sees it, and commits");
    is((long)sum(), 15, "the parent sees what the child committed");
    is(ps_transaction(add, &five), 0, "and goes on");
    pid_t within = 0;
    is(ps_transaction(fork_within, &within), 0, "a transaction that forks commits");
    is(ended(within), 120, "its child waits for the commit as anybody does");
    is((long)sum(), 120, "all is there");
    return tap_end();
}
