/*
 * start.c - starts one command of a pipeline.
 *
 * There is no fork: a program is started by one call with its three descriptors. A built-in that is
 * part of a pipeline or in the background, or that Ctrl-C must be able to end, is run by another
 * shell: `sh --builtin NAME WORD ...`.
 */
#include "sh.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <katydid/abi.h>

int complain(const char *what, const char *why, int status)
{
    fprintf(stderr, "sh: %s: %s\n", what, why);
    return status;
}

static int open_to(const char *path, int flags)
{
    int fd = open(path, flags, 0644);
    if (fd < 0)
        complain(path, strerror(errno), 1);
    return fd;
}

/* Replaces a descriptor of the pipeline by a redirection's. False: it cannot be opened. */
static bool redirect(int *fd, int standard, const char *path, int flags)
{
    if (!path)
        return true;
    int to = open_to(path, flags);
    if (to < 0)
        return false;
    if (*fd != standard)
        close(*fd);
    *fd = to;
    return true;
}

static bool io_redirect(struct io *io, const struct command *c)
{
    int out = O_WRONLY | O_CREAT | (c->append ? O_APPEND : O_TRUNC);
    if (!redirect(&io->in, 0, c->in, O_RDONLY) || !redirect(&io->out, 1, c->out, out)
        || !redirect(&io->error, 2, c->error, O_WRONLY | O_CREAT | O_TRUNC))
        return false;
    if (c->error_to_out)
        io->error = io->out;
    return true;
}

static void io_close(const struct io *io)
{
    if (io->error != 2 && io->error != io->out)
        close(io->error);
    if (io->in != 0)
        close(io->in);
    if (io->out != 1)
        close(io->out);
}

static struct process process_done(int status)
{
    return (struct process){.status = status};
}

/* What a program has of the shell's: fewer limits, rights over the system, a part of the store. */
struct share { uint64_t limits[KD_LIMITS]; uint32_t rights; struct roots roots; };

static struct process start_process(const char *path, char **argv, const struct io *io,
                                bool foreground, const struct share *share)
{
    struct kd_process_create create = {
        .path = path, .argv = (const char *const *)argv,
        .fds = {io->in, io->out, io->error}, .flags = foreground ? KD_PROCESS_FOREGROUND : 0,
    };
    char *roots;
    memcpy(create.limits, share->limits, sizeof(create.limits));
    int system = create.handles[KD_SYSTEM_HANDLE] = allow_handle(path, share->rights);
    create.handle_count = system >= 0;
    roots_pass(&share->roots, &create, &roots);
    create.envp = (const char *const *)environ;
    long handle = syscall(KD_PROCESS_CREATE, &create);
    int error = errno;
    roots_passed(roots);
    if (system >= 0)
        syscall(KD_HANDLE_CLOSE, system);
    if (handle >= 0) {
        syscall(KD_HANDLE_CLOSE, handle);
        return (struct process){.pid = create.pid};
    }
    const char *why = error == ENOENT ? "not found"
        : error == ENOEXEC            ? "no program (the kernel's log says why)"
        : error == EACCES && roots_own() ? "what this shell has of the store it may not pass on "
                                           "(who started it gives it `grant`)"
                                      : strerror(error);
    int status = error == ENOENT ? 127 : 126;
    dprintf(io->error, "sh: %s: %s\n", argv[0], why);
    return process_done(status);
}

/* A built-in as a process of its own, with all that the shell may. */
static struct process start_builtin(char **words, const struct io *io, bool foreground,
                                    struct share share)
{
    char *argv[WORDS_MAX + 3] = {"sh", "--builtin"};
    share.rights = ALLOW_ALL;
    for (int i = 0; i == 0 || words[i - 1]; i++)
        argv[2 + i] = words[i];
    return start_process("/bin/sh", argv, io, foreground, &share);
}

static bool is_roots(const char *word)
{
    return strcmp(word, "with") == 0 || strcmp(word, "run") == 0;
}

/* `limit WHAT N`, `allow WHAT`, `nice N`, `with DIR` and `run` before a command, also several:
 * where that begins, or NULL, and it was said. */
static char **prefixes(char **argv, struct share *share, int *niceness)
{
    while (argv[0]) {
        if (strcmp(argv[0], "limit") == 0) {
            if (!argv[1] || !argv[2] || !argv[3] || limit_prefix(argv, share->limits))
                return complain("limit", "use: limit WHAT N PROGRAM ... (`limit` shows them)", 2),
                       NULL;
            argv += 3;
        } else if (strcmp(argv[0], "allow") == 0) {
            if (!argv[1] || !argv[2] || !allow_prefix(argv[1], &share->rights))
                return NULL;
            argv += 2;
        } else if (strcmp(argv[0], "nice") == 0) {
            char *end = "x";
            *niceness = argv[1] && argv[2] ? (int)strtol(argv[1], &end, 10) : 0;
            if (*end || end == argv[1])
                return complain("nice", "use: nice N PROGRAM ..., N from -20 (first) to 19 (last)",
                                2),
                       NULL;
            argv += 2;
        } else if (is_roots(argv[0]) && argv[1] && share->roots.count == 0) {
            if (roots_prefix(&argv, &share->roots))
                return NULL;
        } else {
            break;
        }
    }
    return argv;
}

/* A new thread has the niceness of who makes it, so the shell has it meanwhile. */
static struct process start_program(struct command *c, const struct io *io, bool foreground)
{
    char path[512];
    struct share share = {0};
    int own = getpriority(PRIO_PROCESS, 0), niceness = own;
    bool lasts;
    char **argv = prefixes(c->argv, &share, &niceness);
    if (!argv) {
        roots_drop(&share.roots);
        return process_done(2);
    }
    if (niceness != own)
        setpriority(PRIO_PROCESS, 0, niceness);
    snprintf(path, sizeof(path), "%s%s", strchr(argv[0], '/') ? "" : "/bin/", argv[0]);
    struct process p = argv != c->argv && builtin_find(argv[0], &lasts)
                           ? start_builtin(argv, io, foreground, share)
                           : start_process(path, argv, io, foreground, &share);
    if (niceness != own)
        setpriority(PRIO_PROCESS, 0, own);
    roots_drop(&share.roots);
    return p;
}

/* `NAME=VALUE ...` alone sets variables, which every program from then on gets. */
static bool assigns(const char *word)
{
    const char *c = word;
    while (isalpha((unsigned char)*c) || *c == '_' || (c > word && isdigit((unsigned char)*c)))
        c++;
    return c > word && *c == '=';
}

static bool command_assigns(const struct command *c)
{
    for (int i = 0; i < c->argc; i++)
        if (!assigns(c->argv[i]))
            return false;
    return c->argc > 0;
}

/* Of `NAME=VALUE`, which stays as it is: `repeat` runs a command more than once. To be freed. */
static char *name_of(const char *word)
{
    return strndup(word, strcspn(word, "="));
}

static int assign(const char *word)
{
    char *name = name_of(word);
    int error = name && setenv(name, strchr(word, '=') + 1, 1) == 0 ? 0 : errno;
    free(name);
    return error ? complain(word, strerror(error), 1) : 0;
}

static int assign_all(const struct command *c)
{
    int status = 0;
    for (int i = 0; i < c->argc && status == 0; i++)
        status = assign(c->argv[i]);
    return status;
}

/* `NAME=VALUE COMMAND ...`: set while the command is started; so a program has it for good. */
static struct process start_with(const struct command *c, struct io io, bool alone, bool foreground)
{
    struct command rest = *c;
    char *name = name_of(c->argv[0]);
    const char *now = name ? getenv(name) : NULL;
    char *old = now ? strdup(now) : NULL;
    memmove(rest.argv, c->argv + 1, (size_t)c->argc * sizeof(c->argv[0]));
    rest.argc--;
    struct process j =
        assign(c->argv[0]) ? process_done(1) : start_command(&rest, io, alone, foreground);
    if (old)
        setenv(name, old, 1);
    else if (name)
        unsetenv(name);
    free(old);
    free(name);
    return j;
}

bool one_builtin;

/* The shell stays connected with no other site, for whose death it would wait: another looks. */
static bool command_elsewhere(const struct command *c)
{
    bool looks = !one_builtin && strcmp(c->argv[0], "containers") == 0;
    looks |= !one_builtin && strcmp(c->argv[0], "ls") == 0;
    for (int i = 1; looks && i < c->argc; i++)
        if (strchr(c->argv[i], ':'))
            return true;
    return false;
}

struct process start_command(struct command *c, struct io io, bool alone, bool foreground)
{
    struct process j = process_done(1);
    bool lasts = false;
    if (c->argc && assigns(c->argv[0]) && !command_assigns(c))
        return start_with(c, io, alone, foreground);
    bool prefix =
        c->argc > 2 && (strcmp(c->argv[0], "nice") == 0 || strcmp(c->argv[0], "allow") == 0 ||
                        is_roots(c->argv[0]) ||
                        (c->argc > 3 && strcmp(c->argv[0], "limit") == 0));
    prefix |= c->argc == 2 && strcmp(c->argv[0], "run") == 0 && c->argv[1][0] != '-';
    builtin_fn *fn = c->argc && !prefix ? builtin_find(c->argv[0], &lasts) : NULL;
    lasts |= c->argc == 3 && strcmp(c->argv[0], "store") == 0 && strcmp(c->argv[2], "--wait") == 0;
    if (!io_redirect(&io, c)) {
        io_close(&io);
        return j;
    }
    if (fn && (!alone || (lasts && interactive) || command_elsewhere(c)))
        j = start_builtin(c->argv, &io, foreground, (struct share){0});
    else if (fn)
        j = process_done(builtin_run(&io, c->argc, c->argv));
    else if (command_assigns(c))
        j = process_done(assign_all(c));
    else if (c->argc)
        j = start_program(c, &io, foreground);
    else
        j = process_done(0); /* only redirections */
    io_close(&io);
    return j;
}
