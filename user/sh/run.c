/*
 * run.c - runs lists, pipelines and commands.
 *
 * There is no fork: a program is started by one call with its three descriptors. A built-in that is
 * part of a pipeline or in the background, or that Ctrl-C must be able to end, is run by another
 * shell: `sh --builtin NAME WORD ...`.
 */
#include "sh.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <katydid/abi.h>

#define JOBS_MAX 64

struct job {                       /* one command under way */
    int pid;                       /* or 0: it is over, with this status */
    int status;
};
struct pipeline {
    struct command commands[COMMANDS_MAX];
    int count;
};

bool exit_wanted, interactive;
static struct job background[JOBS_MAX];
static int background_count;

static int complain(const char *what, const char *why, int status)
{
    fprintf(stderr, "sh: %s: %s\n", what, why);
    return status;
}

/* ---- one command ---- */

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

static struct job job_done(int status)
{
    return (struct job){.status = status};
}

static struct job start_process(const char *path, char **argv, const struct io *io,
                                bool foreground)
{
    static const char *const envp[] = {"PATH=/bin", "HOME=/tmp", "TERM=vt100", NULL};
    struct kd_process_create create = {
        .path = path, .argv = (const char *const *)argv, .envp = envp,
        .fds = {io->in, io->out, io->error}, .flags = foreground ? KD_PROCESS_FOREGROUND : 0,
    };
    long handle = syscall(KD_PROCESS_CREATE, &create);
    if (handle >= 0) {
        syscall(KD_HANDLE_CLOSE, handle);
        return (struct job){.pid = create.pid};
    }
    const char *why = errno == ENOENT ? "not found"
        : errno == ENOEXEC            ? "no program (the kernel's log says why)"
                                      : strerror(errno);
    int status = errno == ENOENT ? 127 : 126;
    dprintf(io->error, "sh: %s: %s\n", argv[0], why);
    return job_done(status);
}

static struct job start_program(struct command *c, const struct io *io, bool foreground)
{
    char path[512];
    snprintf(path, sizeof(path), "%s%s", strchr(c->argv[0], '/') ? "" : "/bin/", c->argv[0]);
    return start_process(path, c->argv, io, foreground);
}

static struct job start_builtin(struct command *c, const struct io *io, bool foreground)
{
    char *argv[WORDS_MAX + 3] = {"sh", "--builtin"};
    memcpy(argv + 2, c->argv, (size_t)(c->argc + 1) * sizeof(argv[0]));
    return start_process("/bin/sh", argv, io, foreground);
}

static struct job start_command(struct command *c, struct io io, bool alone, bool foreground)
{
    struct job j = job_done(1);
    bool lasts = false;
    builtin_fn *fn = c->argc ? builtin_find(c->argv[0], &lasts) : NULL;
    if (!io_redirect(&io, c)) {
        io_close(&io);
        return j;
    }
    if (fn && (!alone || (lasts && interactive)))
        j = start_builtin(c, &io, foreground);
    else if (fn)
        j = job_done(fn(&io, c->argc, c->argv));
    else if (c->argc)
        j = start_program(c, &io, foreground);
    else
        j = job_done(0); /* only redirections */
    io_close(&io);
    return j;
}

static int job_wait(struct job *j)
{
    if (j->pid > 0 && syscall(KD_PROCESS_WAIT, j->pid, &j->status, 0) < 0)
        j->status = 1;
    return j->status;
}

int wait_background(void)
{
    int status = 0;
    for (int i = 0; i < background_count; i++)
        status = job_wait(&background[i]);
    background_count = 0;
    return status;
}

/* ---- pipelines ---- */

static int run_pipeline(struct pipeline *p, bool in_background)
{
    struct job jobs[COMMANDS_MAX];
    int in = 0, status = 0;
    fflush(stdout);
    for (int i = 0; i < p->count; i++) {
        bool last = i == p->count - 1;
        int ends[2] = {0, 1};
        if (!last && pipe(ends)) {
            complain("pipe", strerror(errno), 1);
            last = true;
            p->count = i + 1;
        }
        struct io io = {in, last ? 1 : ends[1], 2};
        jobs[i] = start_command(&p->commands[i], io, p->count == 1 && !in_background,
                                !in_background);
        in = last ? 0 : ends[0];
    }
    for (int i = 0; i < p->count; i++) {
        if (!in_background)
            status = job_wait(&jobs[i]);
        else if (background_count < JOBS_MAX)
            background[background_count++] = jobs[i];
        else
            status = job_wait(&jobs[i]);
    }
    return status;
}

/* ---- parsing: list of pipelines ---- */

struct parser {
    struct scanner scanner;
    enum token token;
    char *word;
    int status;
};

static void next(struct parser *p)
{
    p->token = scan(&p->scanner, p->status, &p->word);
}

static const char *parse_redirection(struct parser *p, struct command *c)
{
    enum token kind = p->token;
    if (kind == TOKEN_ERROR_TO_OUT) {
        c->error_to_out = true;
        next(p);
        return NULL;
    }
    next(p);
    if (p->token != TOKEN_WORD)
        return "a file name is missing";
    if (kind == TOKEN_IN)
        c->in = p->word;
    else if (kind == TOKEN_ERROR_OUT)
        c->error = p->word;
    else
        c->out = p->word, c->append = kind == TOKEN_APPEND;
    next(p);
    return NULL;
}

/* NULL, or what is wrong. */
static const char *parse_command(struct parser *p, struct command *c)
{
    memset(c, 0, sizeof(*c));
    bool any = false;
    for (;; any = true) {
        if (p->token == TOKEN_WORD) {
            if (c->argc == WORDS_MAX)
                return "too many words";
            c->argv[c->argc++] = p->word;
            next(p);
        } else if (p->token >= TOKEN_IN && p->token <= TOKEN_ERROR_TO_OUT) {
            const char *wrong = parse_redirection(p, c);
            if (wrong)
                return wrong;
        } else if (p->token == TOKEN_BAD) {
            return "a quote is not closed, or the line is too long";
        } else {
            return any ? NULL : "a command is missing";
        }
    }
}

static const char *parse_pipeline(struct parser *p, struct pipeline *out)
{
    for (out->count = 0;;) {
        const char *wrong = parse_command(p, &out->commands[out->count++]);
        if (wrong || p->token != TOKEN_PIPE)
            return wrong;
        if (out->count == COMMANDS_MAX)
            return "too many commands in a pipe";
        do
            next(p);
        while (p->token == TOKEN_SEMICOLON); /* a line may end with | */
    }
}

/* One pipeline; with `skip` it is parsed only. Where it ends: the operator behind it. */
static const char *run_one(struct parser *p, struct pipeline *line, bool skip)
{
    const char *wrong = parse_pipeline(p, line);
    if (!wrong && !skip)
        p->status = run_pipeline(line, p->token == TOKEN_BACKGROUND);
    return wrong;
}

int run_text(const char *text, int status)
{
    static char words[LINE_BYTES];
    static struct pipeline line; /* large; the shell's own thread only */
    struct parser p = {.scanner = {text, words, words + sizeof(words)}, .status = status};
    enum token before = TOKEN_SEMICOLON;
    next(&p);
    while (p.token != TOKEN_END && !exit_wanted) {
        if (p.token == TOKEN_SEMICOLON) {
            if (before == TOKEN_SEMICOLON || before == TOKEN_BACKGROUND)
                p.scanner.words = words; /* nothing of the former command is needed any more */
            next(&p);
            continue;
        }
        bool skip = (before == TOKEN_AND && p.status != 0) || (before == TOKEN_OR && p.status == 0);
        const char *wrong = run_one(&p, &line, skip);
        if (wrong)
            return complain("syntax", wrong, 2);
        before = p.token;
        if (p.token != TOKEN_END) {
            if (before == TOKEN_SEMICOLON || before == TOKEN_BACKGROUND)
                p.scanner.words = words;
            next(&p);
        }
    }
    if (!exit_wanted && (before == TOKEN_AND || before == TOKEN_OR))
        return complain("syntax", "a command is missing behind && or ||", 2);
    return p.status;
}
