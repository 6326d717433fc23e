/* sh.h - the parts of the shell: words and lists (parse.c), running them (run.c), what it can do
 * itself (builtin.c), reading a line (line.c). */
#ifndef SH_H
#define SH_H

#include <stdbool.h>
#include <stddef.h>

#define WORDS_MAX 256
#define COMMANDS_MAX 16            /* of one pipeline */
#define LINE_BYTES 65536

/* ---- parse.c ---- */
enum token { TOKEN_END, TOKEN_WORD, TOKEN_SEMICOLON, TOKEN_AND, TOKEN_OR, TOKEN_PIPE,
             TOKEN_BACKGROUND, TOKEN_IN, TOKEN_OUT, TOKEN_APPEND, TOKEN_ERROR_OUT, TOKEN_ERROR_TO_OUT, TOKEN_BAD };
struct scanner {
    const char *at;
    char *words, *words_end;       /* where words are built */
};
/* The next token; of a word the text in *word. `$?` becomes the status. */
enum token scan(struct scanner *s, int status, char **word);

/* ---- run.c ---- */
struct command {
    char *argv[WORDS_MAX + 1];
    int argc;
    char *in, *out, *error;        /* redirections, or NULL */
    bool append, error_to_out;
};
/* Runs a whole text; the status of its last command. */
int run_text(const char *text, int status);
extern bool exit_wanted;           /* `exit` or `halt` was run: its status is the shell's */
extern bool interactive;
int wait_background(void);         /* for all of it; the last one's status */

/* ---- builtin.c ---- */
struct io { int in, out, error; };
typedef int builtin_fn(const struct io *io, int argc, char **argv);
/* NULL: it is a program's name. *lasts: Ctrl-C should be able to end it. */
builtin_fn *builtin_find(const char *name, bool *lasts);

/* ---- line.c ---- */
/* One edited line without its end, or NULL at the end of input. */
char *line_read(const char *prompt);

#endif
