/*
 * run.c - runs lists and pipelines; `time` and `repeat N` before a pipeline.
 */
#include "sh.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <katydid/abi.h>

#define REPEAT_MAX 1000000

struct pipeline {
    struct command commands[COMMANDS_MAX];
    int count;
    bool timed;
    long repeat;
    const char *text;                  /* where it begins in the text, for `jobs` */
    int bytes;
};

bool exit_wanted, interactive;

/* ---- pipelines ---- */

static int run_once(struct pipeline *p, bool in_background)
{
    struct process processes[COMMANDS_MAX];
    /* the keys are the shell's */
    int in = in_background && interactive ? open("/dev/null", O_RDONLY) : 0, status = 0;
    in = in < 0 ? 0 : in;
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
        processes[i] = start_command(&p->commands[i], io, p->count == 1 && !in_background,
                                     !in_background);
        in = last ? 0 : ends[0];
    }
    if (in_background && job_add(processes, p->count, p->text, p->bytes))
        return 0;
    for (int i = 0; i < p->count; i++)
        status = process_wait(&processes[i]);
    return status;
}

/* What a pipeline cost: the clock, and the counters of the whole system. */
struct cost {
    struct timespec clock;
    struct kd_system_info system;
};

static void cost_now(struct cost *c)
{
    syscall(KD_SYSTEM_INFO, &c->system);
    clock_gettime(CLOCK_MONOTONIC, &c->clock);
}

static void cost_print(const struct cost *before)
{
    struct cost now;
    cost_now(&now);
    long long ns = (long long)(now.clock.tv_sec - before->clock.tv_sec) * 1000000000
        + now.clock.tv_nsec - before->clock.tv_nsec;
#define DELTA(field) (unsigned long long)(now.system.field - before->system.field)
    fprintf(stderr, "real %lld.%03lld s; whole system: faults %llu read, %llu write; "
            "disk %llu reads, %llu writes, %llu flushes\n", ns / 1000000000, ns / 1000000 % 1000,
            DELTA(read_faults), DELTA(write_faults), DELTA(block_reads), DELTA(block_writes),
            DELTA(block_flushes));
#undef DELTA
}

/* In the background another shell counts and takes the time: one job, and its runs one by one. */
static int run_apart(struct pipeline *p)
{
    char allowed[64], text[LINE_BYTES + sizeof(allowed) + 16];
    allow_text(allowed, sizeof(allowed));
    snprintf(text, sizeof(text), "allow %s; %.*s", allowed, p->bytes, p->text);
    p->count = 1;
    p->commands[0] = (struct command){.argc = 5, .argv = {"allow", "all", "sh", "-c", text}};
    return run_once(p, true);
}

static int run_pipeline(struct pipeline *p, bool in_background)
{
    struct cost before;
    int status = 0;
    if (in_background && (p->timed || p->repeat > 1))
        return run_apart(p);
    if (p->timed)
        cost_now(&before);
    for (long i = 0; i < p->repeat && !exit_wanted && status != 130; i++)
        status = run_once(p, in_background);
    if (p->timed)
        cost_print(&before);
    return status;
}

/* ---- parsing: list of pipelines ---- */

struct parser {
    struct scanner scanner;
    const char *start;                 /* of the token */
    enum token token;
    char *word;
    int status;
};

static void next(struct parser *p)
{
    p->start = p->scanner.at;
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

/* `time` and `repeat N`, in any order. */
static const char *parse_prefixes(struct parser *p, struct pipeline *out)
{
    out->timed = false;
    out->repeat = 1;
    while (p->token == TOKEN_WORD) {
        if (strcmp(p->word, "time") == 0) {
            out->timed = true;
        } else if (strcmp(p->word, "repeat") == 0) {
            char *end = "";
            next(p);
            out->repeat = p->token == TOKEN_WORD ? strtol(p->word, &end, 10) : 0;
            if (*end || out->repeat < 1 || out->repeat > REPEAT_MAX)
                return "use: repeat N COMMAND, N from 1 to 1000000";
        } else {
            break;
        }
        next(p);
    }
    return NULL;
}

static const char *parse_pipeline(struct parser *p, struct pipeline *out)
{
    out->text = p->start + strspn(p->start, " \t\n");
    const char *bad = parse_prefixes(p, out);
    if (bad)
        return bad;
    for (out->count = 0;;) {
        const char *wrong = parse_command(p, &out->commands[out->count++]);
        out->bytes = (int)(p->start - out->text);
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
