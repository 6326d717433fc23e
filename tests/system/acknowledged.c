/*
 * acknowledged.c - the load of engine.py and of tests/ceph: commits that are counted outside.
 *
 *     acknowledged N [PROCESSES]   so many processes (1) make N commits each, one after the other;
 *                                  `ack PROCESS VALUE` is printed when one has returned
 *     acknowledged check           prints each counter that is not zero: `found PROCESS VALUE`
 *
 * Each process has a container of its own. A commit changes two pages, which must agree.
 */
#include <pstore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES_MAX = 8 };
struct root {
    uint64_t value;
    char apart[8192];
    uint64_t echo;
};
static ps_container *box;

static int step(void *value)
{
    struct root *root = ps_root(box);
    if (!root)
        return -errno;
    root->value++;
    root->echo = root->value;
    *(uint64_t *)value = root->value;
    return 0;
}

static int look(void *value)
{
    const struct root *root = ps_root(box);
    if (!root)
        return -errno;
    *(uint64_t *)value = root->value;
    return root->value == root->echo ? 0 : -EUCLEAN;
}

/* Lines of several processes come whole. */
static void say(const char *word, unsigned process, uint64_t value)
{
    char line[64];
    int n = snprintf(line, sizeof line, "%s %u %llu\n", word, process, (unsigned long long)value);
    if (write(STDOUT_FILENO, line, (size_t)n) != n)
        exit(1);
}

static int open_box(unsigned process, int flags)
{
    char name[24];
    snprintf(name, sizeof name, "ack%u", process);
    box = ps_open(name, flags, PS_LAYOUT(struct root, 1));
    return box ? 0 : -errno;
}

static int work(unsigned process, unsigned long count)
{
    uint64_t value = 0;
    int error = open_box(process, PS_CREATE | PS_WRITE);
    for (unsigned long n = 0; error == 0 && n < count; n++) {
        error = ps_transaction(step, &value);
        if (error == 0)
            say("ack", process, value);
    }
    if (error)
        printf("acknowledged: process %u: %s\n", process, ps_strerror(error));
    fflush(stdout);
    return error != 0;
}

static int check(void)
{
    for (unsigned process = 0; process < PROCESSES_MAX; process++) {
        uint64_t value = 0;
        int error = open_box(process, 0);
        if (error == -ENOENT)
            continue;
        error = error ? error : ps_transaction(look, &value);
        if (error)
            return printf("acknowledged: process %u: %s\n", process, ps_strerror(error)), 1;
        if (value != 0)
            say("found", process, value);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "check") == 0)
        return check();
    unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    unsigned processes = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 1;
    if (count == 0 || processes == 0 || processes > PROCESSES_MAX)
        return fprintf(stderr, "acknowledged: a number of commits, and 1 to 8 processes\n"), 2;
    for (unsigned process = 1; process < processes; process++)
        if (fork() == 0)
            return work(process, count);
    int failed = work(0, count), status;
    while (wait(&status) > 0)
        failed |= status != 0;
    return failed;
}
