/* builtin.c - what the shell can do itself. Output goes to the descriptors that it is given. */
#include "sh.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <katydid/abi.h>

#include "pstore.h"

static int failed(const struct io *io, const char *who, const char *what, int error)
{
    dprintf(io->error, "%s: %s%s%s\n", who, what, *what ? ": " : "", strerror(error));
    return 1;
}

static int write_all(int fd, const char *text, size_t bytes)
{
    while (bytes) {
        ssize_t n = write(fd, text, bytes);
        if (n < 0)
            return -1;
        text += n;
        bytes -= (size_t)n;
    }
    return 0;
}

/* The same of an error that libpstore explains. */
static int store_failed(const struct io *io, const char *who, const char *what, int error)
{
    dprintf(io->error, "%s: %s%s%s\n", who, what, *what ? ": " : "", ps_strerror(error));
    return 1;
}

/* ---- files ---- */

static int do_cd(const struct io *io, int argc, char **argv)
{
    const char *to = argc > 1 ? argv[1] : "/";
    return chdir(to) ? failed(io, "cd", to, errno) : 0;
}

static int do_pwd(const struct io *io, int argc, char **argv)
{
    char path[1024];
    (void)argc, (void)argv;
    if (!getcwd(path, sizeof(path)))
        return failed(io, "pwd", "", errno);
    return dprintf(io->out, "%s\n", path) < 0;
}

static int list_entry(const struct io *io, const char *folder, const char *name)
{
    char path[2048];
    struct stat s;
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (stat(path, &s))
        return failed(io, "ls", path, errno);
    if (S_ISDIR(s.st_mode))
        return dprintf(io->out, "         - %s/\n", name) < 0;
    return dprintf(io->out, "%10lld %s\n", (long long)s.st_size, name) < 0;
}

static int list(const struct io *io, const char *path)
{
    struct stat s;
    struct dirent *e;
    int status = 0;
    if (stat(path, &s))
        return failed(io, "ls", path, errno);
    if (!S_ISDIR(s.st_mode))
        return dprintf(io->out, "%10lld %s\n", (long long)s.st_size, path) < 0;
    DIR *d = opendir(path);
    if (!d)
        return failed(io, "ls", path, errno);
    while ((e = readdir(d)))
        status |= list_entry(io, path, e->d_name);
    closedir(d);
    return status;
}

static int do_ls(const struct io *io, int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "-l") == 0) {
        int all = argc > 2 ? 0 : list_rights(io, "");
        for (int i = 2; i < argc; i++)
            all |= list_rights(io, argv[i]);
        return all;
    }
    int status = argc > 1 ? 0 : list(io, ".");
    for (int i = 1; i < argc; i++)
        status |= list(io, argv[i]);
    return status;
}

static int copy(const struct io *io, int from, int to, const char *who, const char *name)
{
    static const size_t bytes = 65536;
    char *buffer = malloc(bytes);
    ssize_t n = buffer ? 0 : -1;
    while (buffer && (n = read(from, buffer, bytes)) > 0)
        if (write_all(to, buffer, (size_t)n)) {
            n = -1;
            break;
        }
    int error = errno;
    free(buffer);
    return n < 0 ? failed(io, who, name, error) : 0;
}

static int do_cat(const struct io *io, int argc, char **argv)
{
    int status = argc > 1 ? 0 : copy(io, io->in, io->out, "cat", "input");
    for (int i = 1; i < argc; i++) {
        int fd = open(argv[i], O_RDONLY);
        if (fd < 0) {
            status |= failed(io, "cat", argv[i], errno);
            continue;
        }
        status |= copy(io, fd, io->out, "cat", argv[i]);
        close(fd);
    }
    return status;
}

static int do_cp(const struct io *io, int argc, char **argv)
{
    if (argc != 3)
        return dprintf(io->error, "use: cp FROM TO\n"), 2;
    int from = open(argv[1], O_RDONLY);
    if (from < 0)
        return failed(io, "cp", argv[1], errno);
    char path[PATH_MAX];
    const char *slash = strrchr(argv[1], '/');
    struct stat s;
    bool folder = stat(argv[2], &s) == 0 && S_ISDIR(s.st_mode);
    if (snprintf(path, sizeof(path), folder ? "%s/%s" : "%s", argv[2],
                 slash ? slash + 1 : argv[1]) >= PATH_MAX)
        path[0] = 0; /* too long: opening it fails */
    int to = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    int status = to < 0 ? failed(io, "cp", path, errno) : copy(io, from, to, "cp", path);
    close(from);
    if (to >= 0)
        close(to);
    return status;
}

static int do_rm(const struct io *io, int argc, char **argv)
{
    int status = 0;
    for (int i = 1; i < argc; i++)
        if (unlink(argv[i]) && (errno != EISDIR || rmdir(argv[i])))
            status = failed(io, "rm", argv[i], errno);
    return status;
}

static int do_mkdir(const struct io *io, int argc, char **argv)
{
    int status = 0;
    for (int i = 1; i < argc; i++)
        if (mkdir(argv[i], 0755))
            status = failed(io, "mkdir", argv[i], errno);
    return status;
}

static int do_echo(const struct io *io, int argc, char **argv)
{
    char text[LINE_BYTES / 4];
    size_t n = 0;
    for (int i = 1; i < argc && n < sizeof(text) - 1; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", i > 1 ? " " : "", argv[i]);
    if (n > sizeof(text) - 1)
        n = sizeof(text) - 1;
    text[n++] = '\n';
    return write_all(io->out, text, n) ? failed(io, "echo", "", errno) : 0;
}

/* ---- processes and the system ---- */

static int do_kill(const struct io *io, int argc, char **argv)
{
    int status = argc > 1 ? 0 : (dprintf(io->error, "use: kill PID|%%JOB ...\n"), 2);
    for (int i = 1; i < argc; i++) {
        errno = ESRCH;
        if (job_kill(argv[i], 128 + 9) < 0)
            status = errno == EPERM ? store_failed(io, "kill", argv[i],
                                                   ps_lacks(KD_RIGHT_PROCESSES))
                                    : failed(io, "kill", argv[i], errno);
    }
    return status;
}

static int do_sleep(const struct io *io, int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 0;
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    (void)io;
    return nanosleep(&t, NULL) != 0;
}

static int do_info(const struct io *io, int argc, char **argv)
{
    struct kd_system_info s;
    (void)argc, (void)argv;
    if (syscall(KD_SYSTEM_INFO, &s) < 0)
        return failed(io, "info", "", errno);
    const struct { const char *name; uint64_t value; } rows[] = {
        {"memory_bytes", s.memory_bytes}, {"free_bytes", s.free_bytes}, {"uptime_ns", s.uptime_ns},
        {"cpus", s.cpus}, {"processes", s.processes}, {"read_faults", s.read_faults},
        {"write_faults", s.write_faults}, {"grants_shared", s.grants_shared},
        {"grants_exclusive", s.grants_exclusive}, {"callbacks", s.callbacks},
        {"shootdowns", s.shootdowns}, {"deadlocks", s.deadlocks},
        {"page_requests", s.page_requests}, {"evictions", s.evictions},
        {"unknown_calls", s.unknown_calls}, {"publishes", s.publishes},
        {"block_reads", s.block_reads}, {"block_writes", s.block_writes},
        {"block_flushes", s.block_flushes}, {"block_read_bytes", s.block_read_bytes},
        {"block_write_bytes", s.block_write_bytes}, {"objects", s.objects},
        {"resident_pages", s.resident_pages}, {"dirty_pages", s.dirty_pages},
        {"versions", s.versions}, {"copies", s.copies},
        {"publications", s.publications},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        dprintf(io->out, "%-18s %llu\n", rows[i].name, (unsigned long long)rows[i].value);
    return 0;
}

static int do_check(const struct io *io, int argc, char **argv)
{
    (void)argc, (void)argv;
    if (syscall(KD_CHECK) == 0)
        return 0;
    return errno == EPERM ? store_failed(io, "check", "", ps_lacks(KD_RIGHT_LOOK))
                          : failed(io, "check", "the kernel's invariants", errno);
}

static int do_jobs(const struct io *io, int argc, char **argv)
{
    (void)argc, (void)argv;
    jobs_list(io->out);
    return 0;
}

static int do_wait(const struct io *io, int argc, char **argv)
{
    int status = argc > 1 ? 0 : jobs_wait(NULL);
    for (int i = 1; i < argc && status != 130; i++)
        if ((status = jobs_wait(argv[i])) < 0)
            return dprintf(io->error, "wait: %s: no such job\n", argv[i]), 127;
    return status;
}

static int do_fg(const struct io *io, int argc, char **argv)
{
    int status = job_front(argc > 1 ? argv[1] : NULL);
    if (status < 0)
        return dprintf(io->error, "fg: %s: no such job (`jobs` lists them)\n",
                       argc > 1 ? argv[1] : "none"),
               127;
    return status;
}

/* With a program behind it, it is a prefix of that (start.c). */
static int do_nice(const struct io *io, int argc, char **argv)
{
    (void)argc, (void)argv;
    return dprintf(io->error, "use: nice N PROGRAM ..., N from -20 (first) to 19 (last)\n"), 2;
}

static int do_history(const struct io *io, int argc, char **argv)
{
    int first = argc > 1 ? history_count() - atoi(argv[1]) : 0;
    for (int i = first < 0 ? 0 : first; i < history_count(); i++)
        dprintf(io->out, "%4d  %s\n", i + 1, history_line(i));
    return 0;
}

static int do_exit(const struct io *io, int argc, char **argv)
{
    char *end = "";
    long status = argc > 1 ? strtol(argv[1], &end, 10) : 0;
    if (*end || (argc > 1 && end == argv[1]))
        return dprintf(io->error, "%s: %s: a status is a number\n", argv[0], argv[1]), 2;
    exit_wanted = true;
    return (int)(status & 255);
}

static int do_env(const struct io *io, int argc, char **argv)
{
    (void)argc, (void)argv;
    for (char **e = environ; *e; e++)
        dprintf(io->out, "%s\n", *e);
    return 0;
}

static int do_true(const struct io *io, int argc, char **argv)
{
    (void)io, (void)argc, (void)argv;
    return 0;
}

static int do_date(const struct io *io, int argc, char **argv)
{
    char text[32];
    time_t now = time(NULL);
    (void)argc, (void)argv;
    strftime(text, sizeof(text), "%F %T UTC", gmtime(&now));
    dprintf(io->out, "%s\n", text);
    return 0;
}

static int do_false(const struct io *io, int argc, char **argv)
{
    (void)io, (void)argc, (void)argv;
    return 1;
}

/* ---- containers ---- */

int containers_all(const char *site, struct ps_info **out)
{
    *out = NULL;
    int n = ps_connect(site); /* PS_STORE may have changed */
    int room = n < 0 ? n : ps_list(NULL, 0);
    if (room <= 0)
        return room;
    *out = calloc((size_t)room, sizeof(**out));
    n = *out ? ps_list(*out, room) : -ENOMEM;
    return n < room ? n : room;
}

static int do_containers(const struct io *io, int argc, char **argv)
{
    struct ps_info *c;
    static const char *const kept[] = {"", "  lazy", "  volatile", "  rebuild", "  lost"};
    int n = containers_all(argc > 1 ? argv[1] : NULL, &c);
    for (int i = 0; i < n; i++) {
        char manager[512] = "";
        if (c[i].managed && argc == 1)
            ps_manager_of(c[i].name, manager, sizeof(manager));
        dprintf(io->out, "%8llu KiB  0x%llx  %s  (%s, version %u)%s%s%s%s%s%s\n",
                (unsigned long long)c[i].pages_used * 4, (unsigned long long)c[i].base, c[i].name,
                c[i].type, c[i].version, c[i].locking == PS_LOCK_ITEMS ? "  items" : "",
                c[i].protection & PS_PROTECT_GUARD ? "  guard" : "",
                c[i].protection & PS_PROTECT_CODEWORDS ? "  codewords" : "",
                kept[c[i].durability],
                *manager ? "  manager " : "", manager);
    }
    free(c);
    return n < 0 ? store_failed(io, "containers", argc > 1 ? argv[1] : "", n) : 0;
}

static int do_rm_container(const struct io *io, int argc, char **argv)
{
    int status = 0;
    for (int i = 1; i < argc; i++) {
        int error = ps_connect(NULL);
        error = error ? error : ps_delete(argv[i]);
        if (error)
            status = store_failed(io, "rm-container", argv[i], error);
    }
    return status;
}

/* ---- the table ---- */

static builtin_fn do_help;
static const struct {
    const char *name;
    builtin_fn *fn;
    const char *help;
    bool lasts;
} builtins[] = {
    { "allow", do_allow,
      "[WHAT [PROGRAM ...]]   what programs may: disks,names,processes,look, all or none", false },
    { "cap", do_cap,
      "[PATH]   what a path of the store gives; cap --help: gives with fewer rights, takes back",
      false },
    { "caps", do_caps, "[PID]   what a process, or each, may do: its handles in words", false },
    { "cat", do_cat, "[FILE ...]   shows files, or its input", true },
    { "cd", do_cd, "[FOLDER]   goes there", false },
    { "check", do_check, "walks the kernel's invariants", false },
    { "containers", do_containers, "[SITE:]   lists what lies in the store, or a site's",
      false },
    { "cp", do_cp, "FROM TO   copies a file, TO may be a folder", true },
    { "date", do_date, "the time, UTC", false },
    { "dmesg", do_dmesg, "the kernel's log", false },
    { "echo", do_echo, "[WORD ...]   prints its words", false },
    { "env", do_env, "the variables that programs get", false },
    { "exit", do_exit, "[STATUS]   ends the shell", false },
    { "false", do_false, "fails", false },
    { "fg", do_fg, "[PID|%JOB]   waits for what runs in the background; Ctrl-C ends it", false },
    { "halt", do_exit, "[STATUS]   powers off", false },
    { "handles", do_handles, "PID   what a process has handles for", false },
    { "help", do_help, "[WORD ...]   this list, or what these are", false },
    { "history", do_history, "[N]   the last lines typed; the store keeps them", false },
    { "info", do_info, "the system's counters", false },
    { "jobs", do_jobs, "what runs in the background", false },
    { "kill", do_kill, "PID|%JOB ...   ends processes", false },
    { "limit", do_limit,
      "[PID]   use and limits; WHAT N [PROGRAM ...]   sets one, or the program's", false },
    { "lockstat", do_lockstat, "the kernel's locks: how long CPUs waited; on: and held them",
      false },
    { "ls", do_ls,
      "[PATH ...]   lists folders: /bin /etc /tmp /export /import; all in memory, none\n"
      "               of their files is kept: what is to stay is in containers\n"
      "               -l [DIR ...]   directories of the store, with rights; SITE:DIR of what\n"
      "               another site has exported to this one",
      false },
    { "ls-store", do_containers, NULL, false },
    { "mkdir", do_mkdir, "FOLDER ...   makes folders in /tmp or /export", false },
    { "nice", do_nice, "N PROGRAM ...   runs it with niceness N: 19 goes last", false },
    { "objects", do_objects, "[CONTAINER]   memory objects, and which of their pages are in memory",
      false },
    { "ps", do_ps, "lists processes", false },
    { "pwd", do_pwd, "where you are", false },
    { "rm", do_rm, "FILE ...   removes files and empty folders", false },
    { "rm-container", do_rm_container, "NAME ...   deletes containers, for good", false },
    { "run", do_run, "--only NAME[:RIGHTS] PROGRAM ...   it reaches this container, nothing else",
      false },
    { "sleep", do_sleep, "SECONDS", true },
    { "store", do_store,
      "[scrub | backup [-f] [DISK]]   the store: space, log; reads all, mends; or is copied\n"
      "               manager NAME [PROGRAM ...]   which program serves a container; -: the store\n"
      "               export NAME SITE read|write   another site may open it",
      false },
    { "threads", do_threads, "PID   the threads of a process: state, niceness, CPU time", false },
    { "true", do_true, "succeeds", false },
    { "vmmap", do_vmmap, "PID   the memory of a process", false },
    { "wait", do_wait, "[PID|%JOB ...]   waits for what runs in the background", false },
    { "who", do_who, "NAME ...   who can reach a container: entries, programs", false },
    { "with", do_with, "DIR[:RIGHTS] [run] PROGRAM ...   its root in the store is this directory",
      false },
};
#define BUILTIN_COUNT (sizeof(builtins) / sizeof(builtins[0]))

/* What a program of this name is: a line of /etc/programs (scripts/programs), without the name and
 * the line's end; in `line`. NULL: the system came without it. */
static const char *program_help(const char *name, char line[256])
{
    FILE *all = fopen("/etc/programs", "r");
    const char *found = NULL;
    size_t length = strlen(name);
    while (all && !found && fgets(line, 256, all))
        if (strncmp(line, name, length) == 0 && line[length] == ' ')
            found = line + length + 1;
    if (found)
        line[strcspn(line, "\n")] = 0;
    if (all)
        fclose(all);
    return found;
}

static int is_builtin(const char *name)
{
    bool lasts;
    return builtin_find(name, &lasts) != NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The programs in /bin but those that a command of the shell's hides. */
static void help_of_programs(const struct io *io)
{
    static char *names[256];
    char line[256];
    size_t count = 0;
    struct dirent *e;
    DIR *d = opendir("/bin");
    while (d && count < sizeof(names) / sizeof(names[0]) && (e = readdir(d)))
        if (!is_builtin(e->d_name) && (names[count] = strdup(e->d_name)))
            count++;
    if (d)
        closedir(d);
    qsort(names, count, sizeof(names[0]), by_name);
    for (size_t i = 0; i < count; i++) {
        const char *what = program_help(names[i], line);
        dprintf(io->out, "  %-12s %s\n", names[i], what ? what : "");
        free(names[i]);
    }
}

/* What one word is: 0, or 1: nothing. */
static int help_of(const struct io *io, const char *word)
{
    char path[PATH_MAX], line[256];
    for (size_t i = 0; i < BUILTIN_COUNT; i++)
        if (strcmp(builtins[i].name, word) == 0) {
            const char *help = builtins[i].help;
            return dprintf(io->out, "%s %s\n", word, help ? help : "  another name") < 0;
        }
    snprintf(path, sizeof(path), "/bin/%s", word);
    const char *what = program_help(word, line);
    if (access(path, X_OK) == 0)
        return dprintf(io->out, "%s   %s: %s --help\n", word, what ? what : "a program", word) < 0;
    dprintf(io->error, "help: %s: no command and no program\n", word);
    return 1;
}

static int do_help(const struct io *io, int argc, char **argv)
{
    int unknown = 0;
    for (int i = 1; i < argc; i++)
        unknown |= help_of(io, argv[i]);
    if (argc > 1) return unknown;
    for (size_t i = 0; i < BUILTIN_COUNT; i++)
        if (builtins[i].help)
            dprintf(io->out, "  %-13s%s\n", builtins[i].name, builtins[i].help);
    dprintf(io->out, "Also: a; b  a && b  a || b  a | b  a & (background)  > >> < 2> 2>&1\n"
                     "      NAME=VALUE [COMMAND]  $NAME  $?  time COMMAND   repeat N COMMAND   sh "
                     "FILE ... ($1 $#)\n"
                     "Keys: arrows, Tab (complete), Ctrl-R (search the history), Ctrl-A E B F U K "
                     "W L\n"
                     "Programs (NAME --help says more):\n");
    help_of_programs(io);
    dprintf(io->out,
            "More: Debian's busybox-static has wc, grep, vi and many others: on the host\n"
            "      scripts/run --add /bin/busybox, here busybox wc FILE\n");
    return 0;
}

const char *builtin_name(int number)
{
    return number < (int)BUILTIN_COUNT ? builtins[number].name : NULL;
}

builtin_fn *builtin_find(const char *name, bool *lasts)
{
    for (size_t i = 0; i < BUILTIN_COUNT; i++)
        if (strcmp(builtins[i].name, name) == 0) {
            *lasts = builtins[i].lasts;
            return builtins[i].fn;
        }
    return NULL;
}

/* `NAME --help` is `help NAME`, but of those that say more themselves, or print all words. */
int builtin_run(const struct io *io, int argc, char **argv)
{
    static builtin_fn *const own[] = {do_cap, do_who, do_run, do_with, do_echo, do_true, do_false};
    bool lasts, help = argc == 2 && strcmp(argv[1], "--help") == 0;
    builtin_fn *fn = builtin_find(argv[0], &lasts);
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        help &= fn != own[i];
    return help ? help_of(io, argv[0]) : fn(io, argc, argv);
}
