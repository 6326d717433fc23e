/* look.c - built-ins that show what the kernel and the store are doing. */
#include "sh.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <katydid/abi.h>

#include "katydid/call.h"
#include "pstore.h"
#include "store_protocol.h"

#define LOOK_BYTES 65536

/* The kernel's text goes out as it is, or as a table of 80 columns: `head`, then each line by
 * `say`. A refusal is an error message alone, without the head. */
static int show_by(const struct io *io, const char *who, enum kd_look what, int pid,
                   const char *head, void (*say)(int out, const char *line))
{
    char *text = malloc(LOOK_BYTES);
    long n = text ? syscall(KD_LOOK, what, pid, text, LOOK_BYTES - 1) : -1;
    if (n < 0)
        dprintf(io->error, "%s: %s\n", who,
                errno == ESRCH   ? "no such process (ps lists them)"
                : errno == EPERM ? ps_strerror(ps_lacks(KD_RIGHT_LOOK))
                                 : strerror(errno));
    if (say && n >= 0) {
        text[n] = 0;
        dprintf(io->out, "%s\n", head);
        for (char *rest, *line = strtok_r(text, "\n", &rest); line;
             line = strtok_r(NULL, "\n", &rest))
            say(io->out, line);
        n = 0;
    }
    for (long done = 0, part; done < n; done += part)
        if ((part = write(io->out, text + done, (size_t)(n - done))) < 0)
            break;
    free(text);
    return n < 0;
}

static int show(const struct io *io, const char *who, enum kd_look what, int pid)
{
    return show_by(io, who, what, pid, NULL, NULL);
}

static int show_process(const struct io *io, int argc, char **argv, enum kd_look what)
{
    if (argc != 2)
        return dprintf(io->error, "use: %s PID\n", argv[0]), 2;
    return show(io, argv[0], what, atoi(argv[1]));
}

int do_dmesg(const struct io *io, int argc, char **argv)
{
    (void)argc;
    return show(io, argv[0], KD_LOOK_LOG, 0);
}

static const char *object_wanted;        /* a container's name; NULL: all */
static unsigned objects_said;

static void say_object(int out, const char *line)
{
    unsigned long long base, pages, resident, dirty, written, old;
    unsigned users, touches[3];
    int end = 0;
    if (sscanf(line,
               "%llx %llu pages, %llu resident, %llu dirty, %llu being written, %llu old versions, "
               "%u users, "
               "%u sequential, %u clustered, %u random touches%n",
               &base, &pages, &resident, &dirty, &written, &old, &users, &touches[0], &touches[1],
               &touches[2], &end) != 10 ||
        !end)
        return;
    const char *flags = line + end, *name = strstr(flags, "  ");       /* ", plain, dead  NAME" */
    int length = name && *flags == ',' ? (int)(name - flags) - 2 : 0;
    name = name ? name + strspn(name, " ") : "";
    if (object_wanted && strcmp(name, object_wanted))
        return;
    objects_said++;
    dprintf(out, "0x%012llx %8llu %6llu %5llu %4llu %5u %6u %6u %6u %s", base, resident, dirty,
            written, old, users, touches[0], touches[1], touches[2], name);
    dprintf(out, length ? " (%.*s)\n" : "\n", length, flags + 2);
}

int do_objects(const struct io *io, int argc, char **argv)
{
    if (argc > 2)
        return dprintf(io->error, "use: %s [CONTAINER]\n", argv[0]), 2;
    object_wanted = argv[1];
    objects_said = 0;
    int error = show_by(io, argv[0], KD_LOOK_OBJECTS, 0,
                        "address        resident  dirty  held  old users    seq  clust random name",
                        say_object);
    if (error || !object_wanted || objects_said)
        return error;
    dprintf(io->error, "%s: %s: no such container is open (containers lists all)\n", argv[0],
            object_wanted);
    return 1;
}

/* Thousands of cycles, but the longest ones. */
static void say_lock(int out, const char *line)
{
    char name[24];
    unsigned long long waits, waited, longest, holds, held, held_longest;
    if (sscanf(line, "%23s %llu %llu %llu %llu %llu %llu", name, &waits, &waited, &longest, &holds,
               &held, &held_longest) == 7)
        dprintf(out, "%-14s %9llu %8llu %10llu %9llu %8llu %10llu\n", name, waits, waited / 1000,
                longest, holds, held / 1000, held_longest);
}

int do_lockstat(const struct io *io, int argc, char **argv)
{
    bool on = argc == 2 && strcmp(argv[1], "on") == 0,
         off = argc == 2 && strcmp(argv[1], "off") == 0;
    if (argc > 1 && !on && !off)
        return dprintf(io->error, "use: %s [on|off]\n", argv[0]), 2;
    return show_by(io, argv[0], KD_LOOK_LOCKS, on ? 1 : off ? 2 : 0,
                   "lock               waits  Kcycles    longest     holds  Kcycles    longest",
                   say_lock);
}

int do_vmmap(const struct io *io, int argc, char **argv)
{
    return show_process(io, argc, argv, KD_LOOK_MAP);
}

int do_handles(const struct io *io, int argc, char **argv)
{
    return show_process(io, argc, argv, KD_LOOK_HANDLES);
}

/* caps: a line of KD_LOOK_HANDLES in words: "   3  badge    --c--g  7, own 2  of store[2]". */
static void say_cap(int out, const char *line)
{
    static const char *const words[] = {"read", "write", "call", "receive", "manage", "pass on"};
    char type[16], rights[8];
    unsigned own;
    int number, end = 0;
    if (sscanf(line, "%d %15s %7s%n", &number, type, rights, &end) != 3 || !strchr("r-", *rights))
        return;
    const char *rest = line + end + strspn(line + end, " "), *of = strstr(rest, "own ");
    unsigned long long value;
    int manager;
    if (sscanf(rest, "%llu, own %x of %*[^[][%d]", &value, &own, &manager) == 3 &&
        handle_say(out, number, value, manager, own | (rights[5] != '-' ? PS_MAY_GRANT : 0)))
        return;
    bool badge = strcmp(type, "badge") == 0, object = strcmp(type, "object") == 0;
    int length = (int)(badge && of ? strcspn(rest, ",") : strcspn(rest, ""));
    const char *server = badge ? strstr(rest, "  of ") : NULL;
    if (strcmp(type, "system") == 0) {
        dprintf(out, "%6d  system: %s\n", number, rest);
        return;
    }
    dprintf(out, "%6d  %s%s%.*s%s:", number, object ? "container" : type, *rest ? " " : "", length,
            rest, server ? server + 1 : "");
    const char *before = " ";
    for (unsigned i = 0; i < 6; i++)
        if (rights[i] != '-') {
            dprintf(out, "%s%s", before, words[i]);
            before = ", ";
        }
    if (badge && of && sscanf(of, "own %x", &own) == 1 && own)
        dprintf(out, "%sown %x", before, own);
    dprintf(out, "\n");
}

static int caps_of(const struct io *io, const char *who, int pid, const char *head)
{
    int error = show_by(io, who, KD_LOOK_HANDLES, pid, head, say_cap);
    if (!error)
        openings_say(io->out, pid);
    return error;
}

static int caps_of_all(const struct io *io, const char *who)
{
    char head[64];
    long count;
    int error = 0;
    struct kd_process_info *all = processes(&count);
    for (long i = 0; all && i < count; i++) {
        snprintf(head, sizeof head, "%s[%d]", all[i].name, all[i].pid);
        if (all[i].state == 0) /* it does not end, or has */
            error = caps_of(io, who, all[i].pid, head);
        if (error && i == 0) /* init is always there: this shell may not look */
            break;
        error = 0; /* others may have ended meanwhile */
    }
    free(all);
    return error;
}

/* caps [PID]: what a process, or each one, holds rights to. */
int do_caps(const struct io *io, int argc, char **argv)
{
    if (argc > 2)
        return dprintf(io->error, "use: %s [PID]\n", argv[0]), 2;
    holders_learn();
    int error = argc == 1 ? caps_of_all(io, argv[0])
                          : caps_of(io, argv[0], atoi(argv[1]), "handle  what: rights");
    holders_forget();
    return error;
}

int do_threads(const struct io *io, int argc, char **argv)
{
    return show_process(io, argc, argv, KD_LOOK_THREADS);
}

/* A request that any client may make. */
static int store_ask(struct kd_message m, struct kd_message *answer)
{
    const char *name = getenv("PS_STORE");
    int port = (int)kd_call3(KD_NAME_FIND, (long)(name && *name ? name : "store"), 0, 0);
    if (port < 0)
        return port == -EPERM ? ps_lacks(0) : port; /* confined */
    long r = kd_call3(KD_PORT_CALL, port, (long)&m, 0);
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    *answer = m;
    return r < 0 ? (int)r : m.status;
}

/* store scrub: waits until the manager has read every copy on the disk once. */
static int store_scrub(const struct io *io)
{
    struct kd_message before, after;
    int error = store_ask((struct kd_message){.kind = STORE_SCRUB}, &before);
    if (!error)
        error = store_ask((struct kd_message){.kind = STORE_SCRUB, .word = {1}}, &after);
    if (error) {
        dprintf(io->error, "store scrub: %s\n", ps_strerror(error));
        return 1;
    }
    unsigned long long lost = after.word[3] - before.word[3];
    dprintf(io->out, "%llu KiB read, %llu repairs, %llu lost%s\n",
            (unsigned long long)(after.word[1] - before.word[1]),
            (unsigned long long)(after.word[2] - before.word[2]), lost,
            lost ? "; `dmesg` says what" : "");
    return lost ? 1 : 0;
}

static int store_usage(const struct io *io)
{
    dprintf(io->error, "store [scrub | backup [--force] [DISK] | manager NAME [PROGRAM ...]]\n"
                       "manager NAME: says which program serves the container; with a\n"
                       "    PROGRAM and its arguments: that one does from now on; with -: the\n"
                       "    store does\n"
                       "    store export NAME SITE read|write: another site may open it\n"
                       "    store status [--wait], store take-over, store recast NAME LIKE: of\n"
                       "    one of two copies (spare.md)\n");
    return 2;
}

/* store manager NAME: says who serves the container. With a program, of /bin if it is no path, that
 * one does from now on; with -, the store does. */
static int store_manager(const struct io *io, char **words)
{
    char text[512], path[512] = "/bin/";
    const char *name = words[0], *program = name ? words[1] : NULL;
    if (!name || *name == '-') return store_usage(io);
    if (program && !strchr(program, '/')) {
        snprintf(path + 5, sizeof(path) - 5, "%s", program);
        program = path;
    }
    int error = ps_connect(NULL); /* PS_STORE may have changed */
    if (!error)
        error = !words[1]                    ? ps_manager_of(name, text, sizeof(text))
                : strcmp(words[1], "-") == 0 ? ps_manager(name, NULL, NULL)
                                             : ps_manager(name, program,
                                                          (const char *const *)words + 2);
    if (error < 0) {
        dprintf(io->error, "store manager: %s: %s\n", name,
                !words[1] && error == -ENOENT ? "the store serves it, or it is not there"
                                              : ps_strerror(error));
        return 1;
    }
    if (!words[1]) dprintf(io->out, "%s\n", text);
    return 0;
}

static const char *backup_text(int error, bool opening)
{
    switch (error) {
    case -ENODEV: return "there is no such disk; attach one (scripts/run --backup FILE)";
    case -EPERM: return ps_strerror(opening ? ps_lacks(KD_RIGHT_DISKS) : error);
    case -EBUSY:
        return opening ? "somebody uses that disk"
                       : "another copy is being made, or others write faster than this one";
    case -ENOSPC: return "that disk is smaller than the store";
    case -EEXIST: return "something is on that disk; `store backup --force` overwrites it";
    case -EIO: return "a disk does not read or write; `dmesg` says more. Try `store scrub` first";
    default: return ps_strerror(error);
    }
}

/* store backup [-f] [DISK]: the manager copies its store there, while others go on. */
static int store_backup(const struct io *io, char **words)
{
    struct kd_message answer = {0};
    bool force = words[0] && (strcmp(words[0], "-f") == 0 || strcmp(words[0], "--force") == 0);
    const char *name = words[force] ? words[force] : "backup";
    if (words[force] && (*name == '-' || words[force + 1])) return store_usage(io);
    struct kd_message ask = {.kind = STORE_BACKUP, .data = name, .data_bytes = strlen(name),
                             .word = {force},
                             .handle = KD_SYSTEM_HANDLE, .handle_rights = KD_RIGHT_DISKS};
    int error = store_ask(ask, &answer);
    if (error == -ENOENT)
        error = store_copy_backup(&ask, &answer);
    if (error) {
        dprintf(io->error, "store backup: not done: %s\n",
                backup_text(error, answer.word[0] == 1));
        return 1;
    }
    dprintf(io->out, "%llu KiB copied in %llu rounds, %llu blocks not read%s\n",
            (unsigned long long)answer.word[0], (unsigned long long)answer.word[2],
            (unsigned long long)answer.word[1],
            answer.word[1] ? "; `kstore check` of the copy says if a page needs them" : "");
    return answer.word[1] ? 1 : 0;
}

int do_store(const struct io *io, int argc, char **argv)
{
    struct wire_stats s;
    struct kd_system_info k;
    struct kd_message stats = {.kind = STORE_STATS, .buffer = &s, .buffer_bytes = sizeof(s)}, scrub;
    if (argc > 1 && strcmp(argv[1], "backup") == 0)
        return store_backup(io, argv + 2);
    if (argc > 1 && strcmp(argv[1], "export") == 0)
        return store_export(io, argv + 2);
    if (argc > 1 && strcmp(argv[1], "status") == 0)
        return store_status(io, argv + 2);
    if (argc > 1 && strcmp(argv[1], "take-over") == 0)
        return store_take_over(io, argv + 2);
    if (argc > 1 && strcmp(argv[1], "recast") == 0)
        return store_recast(io, argv + 2);
    if (argc > 1 && strcmp(argv[1], "manager") == 0)
        return store_manager(io, argv + 2);
    if (argc > 1)
        return argc > 2 || strcmp(argv[1], "scrub") ? store_usage(io) : store_scrub(io);
    int error = store_ask(stats, &stats);
    if (!error)
        error = store_ask((struct kd_message){.kind = STORE_SCRUB}, &scrub);
    if (error || syscall(KD_SYSTEM_INFO, &k) < 0) {
        dprintf(io->error, "%s: %s\n", argv[0], error ? ps_strerror(error) : strerror(errno));
        return 1;
    }
#define N(x) (unsigned long long)(x)
    dprintf(io->out,
            "containers   %llu\n"
            "disk         %llu of %llu KiB free\n"
            "log          %llu of %llu KiB free, ends at %llu\n"
            "commits      %llu in %llu groups, %llu refused\n"
            "log writes   %llu, %llu bytes; %llu flushes\n"
            "checkpoints  %llu; %llu pages written home, %llu read\n"
            "scrub        %llu rounds, %llu KiB read, %llu repairs, %llu lost\n"
            "memory       %llu pages resident, %llu dirty, %llu private copies, %llu old "
            "versions\n",
            N(s.containers), N(s.disk_bytes_free / 1024), N(s.disk_bytes_total / 1024),
            N(s.log_bytes_free / 1024), N(s.log_bytes_total / 1024), N(s.lsn), N(s.commits),
            N(s.groups), N(s.refused), N(s.log_writes), N(s.log_bytes), N(s.flushes),
            N(s.checkpoints), N(s.home_writes), N(s.pages_read), N(scrub.word[0]), N(scrub.word[1]),
            N(scrub.word[2]), N(scrub.word[3]), N(k.resident_pages), N(k.dirty_pages), N(k.copies),
            N(k.versions));
#undef N
    return 0;
}
