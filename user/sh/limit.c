/*
 * limit.c - ps and limit: what processes have, and may have at most.
 *
 *   limit                       use and limits of the shell, which its programs begin with
 *   limit PID                   of another process
 *   limit WHAT N                the shell's, and so those of all that it starts from now on; N up
 *                               to `max`
 *   limit WHAT N PROGRAM ...    of this program and what it starts: it cannot raise them again
 *
 * N may end with K, M or G (times 1024); memory is in bytes, `max` is as much as may be.
 */
#include "sh.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <katydid/abi.h>

#define PROCESSES_MAX 256
#define ANSWER_EVER (1ull << 40) /* milliseconds: what the kernel has where nobody set a limit */

static const char *const names[KD_LIMITS] = {
    [KD_LIMIT_MEMORY] = "memory", [KD_LIMIT_HANDLES] = "handles", [KD_LIMIT_THREADS] = "threads",
    [KD_LIMIT_VIEWS] = "views", [KD_LIMIT_COPIES] = "copies", [KD_LIMIT_MESSAGES] = "messages",
    [KD_LIMIT_FILES] = "files", [KD_LIMIT_PROCESSES] = "processes", [KD_LIMIT_PINS] = "pins",
    [KD_LIMIT_VERSIONS] = "versions", [KD_LIMIT_ANSWER] = "answer",
};

/* All processes, to be freed; *count of them. NULL and errno. */
struct kd_process_info *processes(long *count)
{
    struct kd_process_info *p = calloc(PROCESSES_MAX, sizeof(*p));
    *count = p ? syscall(KD_PROCESS_LIST, p, PROCESSES_MAX) : -1;
    if (*count > PROCESSES_MAX)
        *count = PROCESSES_MAX;
    if (*count >= 0)
        return p;
    free(p);
    return NULL;
}

#define N(x) (unsigned long long)(x)

/* use/limit; the limit without unit */
static void print_pair(int fd, const struct kd_process_info *p, int which, int width, uint64_t unit)
{
    char text[48];
    snprintf(text, sizeof(text), "%llu/%llu", N(p->used[which] / unit), N(p->most[which] / unit));
    dprintf(fd, " %*s", width, text);
}

/* Where a call of process i is, and whose calls are with it. */
static void print_loci(int fd, const struct kd_process_info *i, const struct kd_process_info *all,
                       long count)
{
    for (const struct kd_process_info *p = all; i->at && p < all + count; p++)
        if (p->pid == i->at)
            dprintf(fd, " at %s", p->name);
    const char *word = " for";
    for (const struct kd_process_info *p = all; p < all + count; p++)
        if (p->at == i->pid) {
            dprintf(fd, "%s %d", word, p->pid);
            word = "";
        }
    dprintf(fd, "\n");
}

int do_ps(const struct io *io, int argc, char **argv)
{
    static const char *const states[] = {"", "ending", "ended"};
    long count;
    struct kd_process_info *p = processes(&count);
    (void)argc;
    if (!p)
        return complain(argv[0], strerror(errno), 1);
    dprintf(io->out,
            "  pid parent   threads   handles     views       KiB of most   cpu ms name\n");
    for (const struct kd_process_info *i = p; i < p + count; i++) {
        dprintf(io->out, "%5d %6d", i->pid, i->parent);
        print_pair(io->out, i, KD_LIMIT_THREADS, 9, 1);
        print_pair(io->out, i, KD_LIMIT_HANDLES, 9, 1);
        print_pair(io->out, i, KD_LIMIT_VIEWS, 9, 1);
        print_pair(io->out, i, KD_LIMIT_MEMORY, 17, 1024);
        dprintf(io->out, " %8llu %s %s", N(i->cpu_ns / 1000000), i->name, states[i->state % 3]);
        print_loci(io->out, i, p, count);
    }
    free(p);
    return 0;
}

/* False: there is none, or `errno`, which is 0 else. */
static bool process_get(int pid, struct kd_process_info *out)
{
    long count;
    bool found = false;
    errno = 0;
    struct kd_process_info *p = processes(&count);
    for (long i = 0; p && i < count && !found; i++)
        if ((found = p[i].pid == pid))
            *out = p[i];
    free(p);
    return found;
}

static int print_table(const struct io *io, int pid)
{
    struct kd_process_info p;
    if (!process_get(pid, &p))
        return complain("limit", errno ? strerror(errno) : "no such process (ps lists them)", 1);
    dprintf(io->out, "%-10s %14s %14s\n", "", "used", "limit");
    for (int which = 0; which < KD_LIMITS; which++) {
        dprintf(io->out, "%-10s %14llu", names[which], N(p.used[which]));
        if (which == KD_LIMIT_ANSWER && p.most[which] >= ANSWER_EVER)
            dprintf(io->out, " %14s\n", "for ever");
        else
            dprintf(io->out, " %14llu\n", N(p.most[which]));
    }
    return 0;
}

/* -1: there is no such limit. */
static int limit_find(const char *name)
{
    for (int i = 0; i < KD_LIMITS; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

static int parse_amount(const char *text, uint64_t *out)
{
    char *end;
    unsigned long long n = strtoull(text, &end, 10);
    const char *unit = strchr("KMG", *end);
    int shift = *end && unit ? 10 * (int)(unit - "KMG" + 1) : 0;
    *out = strcmp(text, "max") == 0 ? ~0ull : n << shift;
    return *out == ~0ull ||
           (end != text && *text != '-' && !end[shift > 0] && n << shift >> shift == n);
}

static int set_own(int which, uint64_t most)
{
    struct rlimit l;
    struct kd_process_info own;
    if (process_get(getpid(), &own) && most < own.used[which])
        return complain("limit",
                        "the shell itself has more than that (`limit` shows it); for one program: "
                        "limit WHAT N PROGRAM ...",
                        1);
    if (prlimit(0, KD_RLIMIT + which, NULL, &l))
        return complain("limit", strerror(errno), 1);
    l.rlim_cur = most == ~0ull || most > l.rlim_max ? l.rlim_max : most;
    return prlimit(0, KD_RLIMIT + which, &l, NULL) ? complain("limit", strerror(errno), 1) : 0;
}

int limit_prefix(char **argv, uint64_t *limits)
{
    uint64_t most;
    int which = limit_find(argv[1]);
    if (which < 0 || !parse_amount(argv[2], &most) || most == 0)
        return -1;
    limits[which] = most;
    return 0;
}

int do_limit(const struct io *io, int argc, char **argv)
{
    uint64_t most;
    int which = argc > 1 ? limit_find(argv[1]) : -1;
    if (argc == 1)
        return print_table(io, getpid());
    if (argc == 2 && which < 0 && argv[1][strspn(argv[1], "0123456789")] == 0)
        return print_table(io, atoi(argv[1]));
    if (argc != 3 || which < 0 || !parse_amount(argv[2], &most) || most == 0)
        return dprintf(io->error,
                       "use: limit [PID]   limit WHAT N|max [PROGRAM ...], WHAT one of those that "
                       "`limit` shows; N may end with K, M or G, memory is in bytes\n"),
               2;
    return set_own(which, most);
}
