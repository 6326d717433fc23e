/*
 * main.c - board: an editor of circuit boards whose work is one transaction.
 *
 * Work begins with the first command that changes something and ends with `save`, a commit, or
 * `undo`, an abort; the end of the program, or of the machine, is an undo, too. Whoever only looks,
 * here before the work begins or in another process, sees what was saved last, in a snapshot.
 */
#include "board.h"

#include "katydid/call.h"
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "usage: board NAME [COMMAND]...   up to the first that fails; or they are read from lines\n"
    "  load FILE [X Y]           a .kicad_pcb file of KiCad's; a second one beside the first\n"
    "  list [PART]               what there is; parts of that name (also R*)\n"
    "  move PART X Y [STEPS]     by so many mm; what is connected follows; in so many steps\n"
    "  rip NET                   takes its tracks and vias out\n"
    "  route PART.PAD PART.PAD   lays a track, straight or with one corner, if a way is free\n"
    "  check [MM]                what of two nets is too near to each other (0.15): it fails\n"
    "  draw [FILE]               a picture, SVG\n"
    "  save                      all that was changed, at once: a new version\n"
    "  undo                      nothing that was changed since\n"
    "  at VERSION COMMAND        list, check, draw of an earlier version of this program's run\n"
    "Lengths are mm. A board is a container NAME; nothing of it is in files.\n";

enum { VERSIONS = 16, WORDS_MAX = 8, LINE_BYTES = 512 };
ps_container *container;
struct board *board;
struct parts parts = {.name = "parts", .flags = PS_DUPLICATES};
struct nets nets = {.name = "nets"};
struct places places = {.name = "places"};

static struct {
    int version[VERSIONS], versions;                    /* snapshots of ps_snapshot_share */
    ps_tx *work;                                        /* suspended by `at` */
    struct ps_stats before;                             /* the work */
    int created, saved, changed;
    jmp_buf again;
} now;

struct command { const char *name; int least, most, looks; int (*run)(char **words); };
static int save(char **words), undo(char **words), at(char **words);
static const struct command commands[] = {
    {"load", 1, 3, 0, load}, {"list", 0, 1, 1, list}, {"move", 3, 4, 0, move},
    {"rip", 1, 1, 0, rip}, {"route", 2, 2, 0, route}, {"check", 0, 1, 1, check},
    {"draw", 0, 1, 1, draw}, {"save", 0, 0, 0, save}, {"undo", 0, 0, 0, undo},
    {"at", 2, 4, 0, at}, {0},
};

/* ---- transactions ---- */

/* Finds the board, in the transaction that has just begun; a new one is set up. */
static int found(int looks) {
    board = ps_root(container);
    if (looks && !(board && board->copper))
        return fprintf(stderr, "board: nothing was ever saved\n"), 1;
    if (!board)
        return -errno;
    parts.head = &board->parts, nets.head = &board->nets, places.head = &board->places;
    parts.memory = nets.memory = places.memory = ps_in(container);
    if (board->copper)
        return 0;
    board->copper = sure(ps_arena_make(container));
    must(parts_set_up(&parts));
    must(nets_set_up(&nets));
    must(places_set_up(&places));
    return 0;
}

static int work_begin(void) {
    if (ps_active())
        return 0;
    ps_stats(&now.before);
    int error = ps_begin(NULL);
    return error ? error : found(0);
}

/* Runs a command that looks, in a snapshot: of that number, or of what was saved last. */
static int look(const struct command *c, char **words, int snapshot) {
    int error = ps_begin(&(struct ps_options){.isolation = PS_SNAPSHOT, .snapshot = snapshot});
    if (error)
        return error;
    error = found(1);
    if (error == 0)
        error = c->run(words);
    ps_rollback();
    return error;
}

/* What is saved now can be looked at until the program ends. */
static void version_keep(void) {
    int *slot = &now.version[now.versions++ % VERSIONS];
    if (*slot > 0)
        ps_snapshot_drop(*slot);
    *slot = -EIO;
    if (ps_begin(&(struct ps_options){.isolation = PS_SNAPSHOT}) == 0) {
        *slot = ps_snapshot_share();
        ps_rollback();
    }
}

/* What the only CPU has worked: instructions, with QEMU's -icount. 0: there are several. */
static int64_t worked(void) {
    struct kd_system_info s;
    uint32_t low, high;
    kd_call3(KD_SYSTEM_INFO, (long)&s, 0, 0);
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high)::"memory");
    return s.cpus == 1 ? (int64_t)(((uint64_t)high << 32 | low) - s.idle_cycles) : 0;
}

static int save(char **words) {
    struct ps_stats work, all, *before = &now.before;
    struct kd_view_stats begun, done;                   /* bytes of this process's commits alone */
    (void)words;
    if (!ps_active())
        return printf("nothing was changed\n"), 0;
    ps_stats(&work);
    kd_call3(KD_VIEW_STATS, (long)&begun, 0, 0);
    int64_t begin = worked();
    int error = ps_commit();
    if (error)
        return error;
    long cycles = (long)(worked() - begin), asked = (long)(work.pages_read - before->pages_read);
    kd_call3(KD_VIEW_STATS, (long)&done, 0, 0);
    ps_stats(&all);
    version_keep();
    now.saved = 1, now.changed = 0;
    printf("version %d: %ld pages, %ld bytes of log", now.versions - 1,
           (long)(all.pages_logged - before->pages_logged),
           (long)(done.log_bytes - begun.log_bytes));
    if (cycles)
        printf(", %ld cycles", cycles);
    long calls = (long)(work.manager_calls - before->manager_calls);
    printf("; before that %ld requests for pages, %ld other messages\n", asked,
           calls - asked + (long)(work.requests - before->requests));
    return 0;
}

static int undo(char **words) {
    (void)words;
    now.changed = 0;
    return ps_active() ? ps_rollback() : 0;
}

static const struct command *command_of(char **words, int count) {
    const struct command *c = commands;
    while (c->name && (strcmp(c->name, words[0]) != 0 || count <= c->least || count > c->most + 1))
        c++;
    return c->name ? c : NULL;
}

static int at(char **words) {
    int count = 0, version = (int)strtol(words[0], NULL, 10);
    while (words[count + 1])
        count++;
    const struct command *c = command_of(words + 1, count);
    if (!c || !c->looks || version < 0 || version >= now.versions)
        return !c || !c->looks ? -EINVAL : -ENOENT;
    if (version + VERSIONS < now.versions || now.version[version % VERSIONS] < 0)
        return -ESTALE;
    now.work = ps_active() ? ps_suspend() : NULL;
    int error = look(c, words + 2, now.version[version % VERSIONS]);
    if (now.work)
        must(ps_resume(now.work));
    now.work = NULL;
    return error;
}

/* The system, or a command that could not go on, has ended a transaction. */
static void ended(int error, void *arg) {
    (void)arg;
    longjmp(now.again, error);
}

/* ---- commands ---- */

/* A board is made by its first load. */
static int container_open(const char *name, const struct command *c) {
    if (container)
        return 0;
    container = ps_open(name, PS_WRITE, PS_LAYOUT(struct board, 1));
    now.created = !container && errno == ENOENT && c->run == load;
    if (now.created)
        container = ps_open(name, PS_WRITE | PS_CREATE, PS_LAYOUT(struct board, 1));
    if (container)
        version_keep();
    return container ? 0 : -errno;
}

static int run(const char *name, char *line) {
    char *words[WORDS_MAX + 1] = {0};
    int count = 0;
    for (char *w = strtok(line, " \t"); w && count < WORDS_MAX; w = strtok(NULL, " \t"))
        words[count++] = w;
    const struct command *c = count ? command_of(words, count) : NULL;
    if (!c)
        return count ? fputs(help, stderr), 2 : 0;
    int error = container_open(name, c);
    if (error)
        return error;
    if (c->looks && !ps_active())
        return look(c, words + 1, 0);
    if (c->run == save || c->run == undo || c->run == at || c->looks)
        return c->run(words + 1);
    error = work_begin();
    if (error == 0)
        error = c->run(words + 1);
    now.changed |= error == 0;
    if (!now.changed)
        undo(NULL);
    return error;
}

static int said(const char *line, int error) {
    if (error < 0)
        fprintf(stderr, "board: %s: %s\n", line, ps_strerror(error));
    return error < 0 ? 1 : error;
}

/* The transaction has gone: of the work, or of a look at a version, from which the work goes on. */
static int lost(int error) {
    ps_tx *work = now.work;
    now.work = NULL;
    if (work && ps_resume(work) == 0)
        return said("at", -error);
    fprintf(stderr, "board: all that was not saved is undone: %s\n", ps_strerror(error));
    now.changed = 0;
    return 1;
}

/* The next command: of the command line, up to one that failed, or typed. */
static int next_line(char **argv, char line[LINE_BYTES], int failed) {
    static char **next;
    if (argv[2] == NULL && isatty(0))   /* the star: something is not saved */
        printf("%s%s> ", argv[1], now.changed ? "*" : ""), fflush(stdout);
    if (argv[2] == NULL)
        return fgets(line, LINE_BYTES, stdin) != NULL;
    next = next ? next + 1 : argv + 2;
    return *next && !failed && snprintf(line, LINE_BYTES, "%s", *next) < LINE_BYTES;
}

int main(int argc, char **argv) {
    static char line[LINE_BYTES], words[LINE_BYTES];
    static volatile int failed;
    int asked = argc == 2 && strcmp(argv[1], "--help") == 0;
    if (argc < 2 || argv[1][0] == '-')
        return fputs(help, asked ? stdout : stderr), asked ? 0 : 2;
    if (argc == 2 && isatty(0))
        puts("help lists the commands, Ctrl-D ends");
    ps_catch(ended, NULL);
    int error = setjmp(now.again);
    if (error)
        failed = lost(error);
    while (next_line(argv, line, failed)) {
        line[strcspn(line, "\n")] = 0;
        memcpy(words, line, sizeof words);
        failed = said(line, run(argv[1], words));
        fflush(stdout);
    }
    if (now.changed)
        fprintf(stderr, "board: what was not saved is undone\n");
    undo(NULL);
    if (container && now.created && !now.saved && ps_close(container) == 0)
        ps_delete(argv[1]);
    return failed;
}
