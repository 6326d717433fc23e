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

static struct process start_process(const char *path, char **argv, const struct io *io,
                                bool foreground)
{
    struct kd_process_create create = {
        .path = path, .argv = (const char *const *)argv, .envp = (const char *const *)environ,
        .fds = {io->in, io->out, io->error}, .flags = foreground ? KD_PROCESS_FOREGROUND : 0,
    };
    long handle = syscall(KD_PROCESS_CREATE, &create);
    if (handle >= 0) {
        syscall(KD_HANDLE_CLOSE, handle);
        return (struct process){.pid = create.pid};
    }
    const char *why = errno == ENOENT ? "not found"
        : errno == ENOEXEC            ? "no program (the kernel's log says why)"
                                      : strerror(errno);
    int status = errno == ENOENT ? 127 : 126;
    dprintf(io->error, "sh: %s: %s\n", argv[0], why);
    return process_done(status);
}

static struct process start_program(struct command *c, const struct io *io, bool foreground)
{
    char path[512];
    snprintf(path, sizeof(path), "%s%s", strchr(c->argv[0], '/') ? "" : "/bin/", c->argv[0]);
    return start_process(path, c->argv, io, foreground);
}

static struct process start_builtin(struct command *c, const struct io *io, bool foreground)
{
    char *argv[WORDS_MAX + 3] = {"sh", "--builtin"};
    memcpy(argv + 2, c->argv, (size_t)(c->argc + 1) * sizeof(argv[0]));
    return start_process("/bin/sh", argv, io, foreground);
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

static int assign(struct command *c)
{
    for (int i = 0; i < c->argc; i++) {
        char *value = strchr(c->argv[i], '=');
        *value++ = 0;
        if (setenv(c->argv[i], value, 1))
            return complain(c->argv[i], strerror(errno), 1);
    }
    return 0;
}

struct process start_command(struct command *c, struct io io, bool alone, bool foreground)
{
    struct process j = process_done(1);
    bool lasts = false;
    builtin_fn *fn = c->argc ? builtin_find(c->argv[0], &lasts) : NULL;
    if (!io_redirect(&io, c)) {
        io_close(&io);
        return j;
    }
    if (fn && (!alone || (lasts && interactive)))
        j = start_builtin(c, &io, foreground);
    else if (fn)
        j = process_done(fn(&io, c->argc, c->argv));
    else if (command_assigns(c))
        j = process_done(assign(c));
    else if (c->argc)
        j = start_program(c, &io, foreground);
    else
        j = process_done(0); /* only redirections */
    io_close(&io);
    return j;
}
