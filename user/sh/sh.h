/* sh.h - the parts of the shell: words (parse.c), lists and pipelines (run.c), one command
 * (start.c), jobs (job.c), what it can do itself (builtin.c), reading a line (line.c, history.c,
 * complete.c). */
#ifndef SH_H
#define SH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WORDS_MAX 256
#define COMMANDS_MAX 16            /* of one pipeline */
#define LINE_BYTES 65536

/* ---- parse.c ---- */
enum token { TOKEN_END, TOKEN_WORD, TOKEN_SEMICOLON, TOKEN_AND, TOKEN_OR, TOKEN_PIPE,
             TOKEN_BACKGROUND, TOKEN_IN, TOKEN_OUT, TOKEN_APPEND, TOKEN_ERROR_OUT,
             TOKEN_ERROR_TO_OUT, TOKEN_BAD };
struct scanner {
    const char *at;
    char *words, *words_end;       /* where words are built */
};
/* The next token; of a word the text in *word, where `$?` became the status and `$NAME` a
 * variable of the environment. */
enum token scan(struct scanner *s, int status, char **word);

/* ---- start.c ---- */
struct command {
    char *argv[WORDS_MAX + 1];
    int argc;
    char *in, *out, *error;        /* redirections, or NULL */
    bool append, error_to_out;
};
struct io { int in, out, error; };
struct process {
    int pid;                       /* or 0: it is over, with this status */
    int status;
};
/* Closes the descriptors of `io` that are not the shell's own. `alone`: a built-in may run here. */
struct process start_command(struct command *c, struct io io, bool alone, bool foreground);
/* "sh: WHAT: WHY"; returns the status. */
int complain(const char *what, const char *why, int status);

/* ---- job.c ---- */
int process_wait(struct process *p);
/* A pipeline goes to the background; false: there are too many, it is the caller's still. */
bool job_add(const struct process *processes, int count, const char *text, int bytes);
bool jobs_running(void);
void jobs_report(void);            /* tells which have ended since, and forgets them */
void jobs_list(int fd);
/* `%N` or a pid; NULL: all; its status, 130: Ctrl-C; -1: no such job */
int jobs_wait(const char *name);
/* waits for one, the newest if NULL, which Ctrl-C ends; -1: no such job */
int job_front(const char *name);
int job_kill(const char *name, int status);    /* `%N` or a pid; -1: no such job, or errno */

/* ---- run.c ---- */
/* Runs a whole text; the status of its last command. */
int run_text(const char *text, int status);
extern bool exit_wanted;           /* `exit` or `halt` was run: its status is the shell's */
extern char **script_words; /* parse.c */
extern int script_word_count;
extern bool interactive;
extern bool one_builtin;               /* this process is there for one built-in */

/* ---- builtin.c ---- */
typedef int builtin_fn(const struct io *io, int argc, char **argv);
/* NULL: it is a program's name. *lasts: Ctrl-C should be able to end it. */
builtin_fn *builtin_find(const char *name, bool *lasts);
int builtin_run(const struct io *io, int argc, char **argv); /* one that there is */
/* look.c */
int store_export(const struct io *io, char **words);   /* export.c */
int store_status(const struct io *io, char **words);    /* copy.c */
int store_take_over(const struct io *io, char **words);
int store_recast(const struct io *io, char **words);
struct kd_message;
int store_copy_backup(const struct kd_message *asked, struct kd_message *answer);
builtin_fn do_dmesg, do_objects, do_lockstat, do_vmmap, do_handles, do_caps, do_threads, do_store;
/* allow.c */
builtin_fn do_allow;
void allow_begin(void);  /* first of all: what has the shell itself of the system's handle? */
bool allow_prefix(const char *text, uint32_t *rights);
#define ALLOW_ALL UINT32_MAX
/* The handle to pass to a program with `asked` and what it has anyway, to be closed; -1: none. */
void allow_text(char *out, size_t bytes);
int allow_handle(const char *path, uint32_t asked);
/* root.c */
builtin_fn do_with, do_run;
#define ROOTS_MAX 7
#define RIGHTS_BYTES 64
#define WITH_USE \
    "with DIR[:RIGHTS] [run] PROGRAM ...   its root in the store is DIR; RIGHTS as for run"
#define RUN_USE                                                                             \
    "run --only NAME[:RIGHTS] [--only ...] PROGRAM ...   NAME a container or a directory of " \
    "the store,\n"                                                                          \
    "     RIGHTS of read,write,delete,rename,manage,grant, or letters of rwdnmg, or all;\n"      \
    "     without: read,write\n"                                                             \
    "run --via NAME[:RIGHTS] ... PROGRAM ...   operations of the server of NAME, not NAME itself"
struct root {
    int handle;
    uint32_t rights;                   /* of the handle that is passed; 0: all that it has */
    char store[32], name[64];          /* of a container; "": a directory */
};
struct roots { struct root root[ROOTS_MAX]; int count; bool confined; };
struct kd_process_create;
void roots_begin(void);
const char *roots_name(int number);     /* of those: 0, 1 ...; "": a directory; NULL: no more */
bool roots_own(void);                  /* does the shell itself have only roots that were passed? */
/* `with` or `run` at *argv, which moves on to the program. 0, or a status, and it was said; the
 * roots are to be dropped in any case. */
int roots_prefix(char ***argv, struct roots *r);
void roots_drop(struct roots *r);
/* What the program is given, and PS_ROOTS in the environment; roots_passed(*old) when it has been
 * started. `given` NULL: what the shell has. */
void roots_pass(const struct roots *given, struct kd_process_create *create, char **old);
void roots_passed(char *old);
/* `read,write`, `all`; false: those are no rights. */
bool rights_parse(const char *text, unsigned *out);
void rights_text(unsigned rights, char out[RIGHTS_BYTES]);
#define RIGHTS_WRONG \
    "rights are all, or of read,write,delete,rename,manage,grant, or letters of rwdnmg"
#define RIGHTS_LETTERS 7
void rights_letters(unsigned rights, char out[RIGHTS_LETTERS]);        /* `rw----` */
/* cap.c */
builtin_fn do_cap;
struct ps_entry;
int list_rights(const struct io *io, const char *path);        /* ls -l */
void grant_text(uint64_t grant, char out[24]);
void entry_say(const struct io *io, const struct ps_entry *e, const char *name);
/* who.c */
builtin_fn do_who;
void holders_learn(void);              /* who holds what, as far as the shell may know */
void holders_forget(void);
/* A line of that handle. False: it is not known what it is of. */
bool handle_say(int out, int number, unsigned long long badge, int manager, unsigned rights);
void openings_say(int out, int pid);   /* a line for each container that the process has open */
/* limit.c */
builtin_fn do_ps, do_limit;
struct kd_process_info;
struct kd_process_info *processes(long *count); /* all; NULL, errno. The caller frees them */
/* `limit WHAT N` in front of a program: into `limits` (KD_LIMITS of them). -1: that is no limit. */
int limit_prefix(char **argv, uint64_t *limits);
const char *builtin_name(int number);  /* 0, 1, ...; NULL: no more */
struct ps_info;
/* All containers of the store into *out, which the caller frees, also after an error. How many, or
 * -errno. */
int containers_all(const char *site, struct ps_info **out); /* NULL: in the own store */

/* ---- line.c, history.c, complete.c ---- */
/* One edited line without its end, or NULL at the end of input. */
char *line_read(const char *prompt);
void history_open(void);               /* reads what the store keeps */
void history_add(char *text);
int history_count(void);
const char *history_line(int entry);   /* 0: the oldest */

#define MATCHES_MAX 256
struct matches {
    int count, typed, common;          /* bytes of each that are typed already; that all share */
    char text[MATCHES_MAX][128];       /* with what follows: a space, or / */
};
void complete(const char *text, struct matches *out);

#endif
