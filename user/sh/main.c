/*
 * main.c - a small shell.
 *
 *   sh              interactive, with line editing, if its input is a terminal
 *   sh -c TEXT      runs TEXT
 *   sh FILE [WORD ...]   runs the lines of FILE, in which $1 to $9 are the words and $# is their
 *                        number
 *   sh --builtin NAME WORD ...   one built-in, for another shell or `trace run ...`
 */
#include "sh.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int run_lines(FILE *f)
{
    static char text[LINE_BYTES];
    size_t n = fread(text, 1, sizeof(text), f);
    if (n == sizeof(text)) {
        fprintf(stderr, "sh: the script is too long\n");
        return 2;
    }
    text[n] = 0;
    return run_text(text, 0);
}

static int run_terminal(void)
{
    int status = 0;
    char *line;
    history_open();
    while (!exit_wanted && (line = line_read("katydid> "))) {
        history_add(line);
        status = run_text(line, status);
        jobs_report();
    }
    return status;
}

/* `run` and `with` have a program behind them. */
static int run_builtin(int argc, char **argv)
{
    struct command c = {.argc = argc};
    bool lasts;
    if (argc > WORDS_MAX || !builtin_find(argv[0], &lasts))
        return 127;
    memcpy(c.argv, argv, (size_t)argc * sizeof(*argv));
    one_builtin = true;
    struct process p = start_command(&c, (struct io){0, 1, 2}, true, true);
    return process_wait(&p);
}

int main(int argc, char **argv)
{
    int status;
    allow_begin();
    roots_begin();
    setenv("PATH", "/bin", 0);
    setenv("HOME", "/tmp", 0);
    setenv("TERM", "vt100", 0);
    if (argc >= 3 && strcmp(argv[1], "--builtin") == 0)
        return run_builtin(argc - 2, argv + 2);
    if (argc >= 3 && strcmp(argv[1], "-c") == 0) {
        status = run_text(argv[2], 0);
    } else if (argc >= 2) {
        FILE *f = fopen(argv[1], "r");
        if (!f) {
            fprintf(stderr, "sh: %s: %s\n", argv[1], strerror(errno));
            return 127;
        }
        script_words = argv + 1;
        script_word_count = argc - 1;
        status = run_lines(f);
        fclose(f);
    } else {
        interactive = isatty(0);
        status = interactive ? run_terminal() : run_lines(stdin);
    }
    fflush(stdout);
    return status;
}
