/*
 * who.c - who can reach what of the store: entries, open containers, handles; for who and caps.
 *
 * All of it is what the shell itself may know: entries to which it can walk, holders of what it
 * manages (ps_holders), and, if it may look, which processes have the handles (KD_LOOK).
 */
#include "sh.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <katydid/abi.h>

#include "pstore.h"

#define PATH_BYTES 256
#define FIRST (1ull << 63)             /* a container's first grant (grant_text) */
#define LOOK_BYTES 65536
#define HOLDERS_MAX 1024

struct reach { struct ps_entry entry; char path[PATH_BYTES]; bool marked; };
static struct reach *found;            /* all entries, in the order of ps_walk */
static int found_count;

static int failed(const struct io *io, const char *who, const char *what, int error)
{
    dprintf(io->error, "%s: %s: %s\n", who, what, ps_strerror(error));
    return 1;
}

/* ---- entries ---- */

static int collect(const char *path, const struct ps_entry *e, void *unused)
{
    struct reach *more = realloc(found, (size_t)(found_count + 1) * sizeof(*found));
    (void)unused;
    if (!more)
        return -ENOMEM;
    found = more;
    found[found_count].entry = *e;
    found[found_count].marked = false;
    snprintf(found[found_count++].path, PATH_BYTES, "%s", path);
    return 0;
}

static void forget(void)
{
    free(found);
    found = NULL;
    found_count = 0;
}

static const struct reach *entry_of(uint64_t grant)
{
    for (int i = 0; i < found_count; i++)
        if (found[i].entry.grant == grant)
            return &found[i];
    return NULL;
}

/* The first grant that this one was made of, as far as it can be seen from here. */
static uint64_t first_of(uint64_t grant)
{
    const struct reach *r = grant & FIRST ? NULL : entry_of(grant);
    while (r && r->entry.made_of) {
        grant = r->entry.made_of;
        r = grant & FIRST ? NULL : entry_of(grant);
    }
    return grant;
}

static bool lies_in(const struct reach *r, const struct reach *directory)
{
    size_t bytes = strlen(directory->path);
    return strncmp(r->path, directory->path, bytes) == 0 && r->path[bytes] == '/' &&
           !strchr(r->path + bytes + 1, '/');
}

static int mark(uint64_t first)
{
    int n = 0;
    for (int i = 0; i < found_count; i++)
        if (!found[i].marked && first_of(found[i].entry.grant) == first) {
            found[i].marked = true;
            n++;
        }
    return n;
}

/* All entries of the container, and of the directories that lead to them. */
static void mark_all(uint64_t first)
{
    for (int i = 0; i < found_count; i++)
        found[i].marked = false;
    for (int n = mark(first); n > 0;) {
        n = 0;
        for (int d = 0; d < found_count; d++)
            for (int i = 0; found[d].entry.directory && i < found_count; i++)
                if (found[i].marked && lies_in(&found[i], &found[d]))
                    n += mark(first_of(found[d].entry.grant));
    }
}

/* ---- holders ---- */

static struct kd_process_info *all_processes;
static long process_count;

static const char *name_of(int pid)
{
    for (long i = 0; all_processes && i < process_count; i++)
        if (all_processes[i].pid == pid)
            return all_processes[i].name;
    return "?";
}

static void say_holder(const struct io *io, unsigned rights, uint64_t grant, const char *how,
                       int pid, const char *of)
{
    char letters[RIGHTS_LETTERS], text[24];
    rights_letters(rights, letters);
    grant_text(grant, text);
    dprintf(io->out, "%s %6s %-9s %s[%d]%s%s%s\n", letters, text, how, name_of(pid), pid,
            *of ? ", of " : "", of, *of ? "/" : "");
}

/* The process's handles of this number: lines `   3  badge    --c--g  7, own 2  of store[2]`. */
static int say_handles(const struct io *io, const struct ps_holder *h, int pid, const char *of)
{
    char *text = malloc(LOOK_BYTES), letters[8];
    long n = text ? syscall(KD_LOOK, KD_LOOK_HANDLES, pid, text, LOOK_BYTES - 1) : -1;
    unsigned long long badge;
    unsigned own;
    int said = n < 0 ? -1 : 0, server;
    if (n >= 0)
        text[n] = 0;
    for (char *rest, *line = n < 0 ? NULL : strtok_r(text, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest))
        if (sscanf(line, "%*d badge %7s %llu, own %x of %*[^[][%d]", letters, &badge, &own,
                   &server) == 4 &&
            badge == h->badge && server == h->manager) {
            unsigned grant = strchr(letters, 'g') ? PS_MAY_GRANT : 0;
            say_holder(io, own | grant, h->grant, "handle", pid, of);
            said++;
        }
    free(text);
    return said;
}

/* Where the handles of this number are; who may not look hears only how many there are. */
static void say_badges(const struct io *io, const struct ps_holder *h, const char *of)
{
    int said = 0, may = 0;
    for (long i = 0; all_processes && i < process_count; i++)
        if (all_processes[i].state == 0) {
            int n = say_handles(io, h, all_processes[i].pid, of);
            said += n > 0 ? n : 0;
            may |= n >= 0;
        }
    if (said < (int)h->handles) {
        char text[24];
        grant_text(h->grant, text);
        dprintf(io->out, "?????? %6s handle    %d more, asked for by %s[%d]%s%s%s\n", text,
                (int)h->handles - said, name_of(h->process), h->process, *of ? ", of " : "", of,
                *of ? "/" : "");
    }
}

/* Of a directory only handles: who has one walks on. 0 or -errno. */
static int say_holders(const struct io *io, const char *path, bool directory)
{
    static struct ps_holder h[HOLDERS_MAX];
    int n = ps_holders(path, h, HOLDERS_MAX);
    for (int i = 0; i < n && i < HOLDERS_MAX; i++)
        if (h[i].badge)
            say_badges(io, &h[i], directory ? path : "");
        else if (!directory)
            say_holder(io, h[i].rights, h[i].grant, "open", h[i].process, "");
    return n < 0 ? n : 0;
}

/* ---- who ---- */

static int who(const struct io *io, const char *path)
{
    struct ps_entry wanted;
    int error = ps_rights(path, &wanted);
    if (error < 0)
        return failed(io, "who", path, error);
    const struct reach *first = entry_of(first_of(wanted.grant));
    mark_all(first_of(wanted.grant));
    for (int i = 0; i < found_count; i++)
        if (found[i].marked && (found[i].entry.made_of || &found[i] == first))
            entry_say(io, &found[i].entry, found[i].path);
    if (found_count == 0)
        entry_say(io, &wanted, path);
    error = say_holders(io, first ? first->path : path, wanted.directory);
    if (error < 0)
        failed(io, "who: processes are not told", path, error);
    for (int i = 0; i < found_count; i++)
        if (found[i].marked && &found[i] != first && found[i].entry.directory &&
            !found[i].entry.made_of)
            say_holders(io, found[i].path, true);
    if (!roots_own())
        dprintf(io->out, "rwdnmg      - of -      each program that is started without `with` and "
                         "`run --only`\n");
    return 0;
}

int do_who(const struct io *io, int argc, char **argv)
{
    int status = 0, error = argc < 2 || argv[1][0] == '-' ? 0 : ps_connect(NULL);
    if (argc < 2 || argv[1][0] == '-')
        return dprintf(io->error, "use: who NAME ...   all entries by which it can be reached, of "
                                  "those that this shell can\n     walk to, and, of what it "
                                  "manages, processes that have it open or hold handles\n"), 2;
    error = error ? error : ps_walk("", collect, NULL);
    if (error && error != -ENOTDIR) /* the shell has a container, and no directory */
        return forget(), failed(io, "who", "the store", error);
    all_processes = processes(&process_count);
    for (int i = 1; i < argc; i++)
        status |= who(io, argv[i]);
    free(all_processes);
    all_processes = NULL;
    forget();
    return status;
}

/* ---- caps ---- */

static struct ps_holder *known;        /* of all that the shell manages */
static int known_count;

static void know(const char *path)
{
    int n = ps_holders(path, NULL, 0);
    struct ps_holder *more =
        n > 0 ? realloc(known, (size_t)(known_count + n) * sizeof(*known)) : NULL;
    if (!more)
        return;
    known = more;
    int got = ps_holders(path, known + known_count, n);
    known_count += got < 0 ? 0 : got < n ? got : n;
}

/* What is found by a first entry is told with that; a link's is asked for if that is out of
 * sight. */
void holders_learn(void)
{
    if (ps_connect(NULL) != 0 || ps_walk("", collect, NULL) != 0)
        return;
    know("");
    for (int i = 0; i < found_count; i++)
        if (found[i].entry.rights & PS_MAY_MANAGE && !entry_of(found[i].entry.made_of))
            know(found[i].path);
}

void holders_forget(void)
{
    free(known);
    known = NULL;
    known_count = 0;
    forget();
}

static void say_known(int out, const struct ps_holder *h, unsigned rights)
{
    const struct reach *r = entry_of(h->grant);
    char words[RIGHTS_BYTES], text[24];
    rights_text(rights, words);
    grant_text(h->grant, text);
    dprintf(out, "%s%s: %s; grant %s\n", r ? r->path : "", r ? r->entry.directory ? "/" : "" : "?",
            words, text);
}

bool handle_say(int out, int number, unsigned long long badge, int manager, unsigned rights)
{
    for (int i = 0; i < known_count; i++)
        if (known[i].badge == badge && known[i].manager == manager) {
            dprintf(out, "%6d  ", number);
            say_known(out, &known[i], rights);
            return true;
        }
    return false;
}

void openings_say(int out, int pid)
{
    for (int i = 0; i < known_count; i++)
        if (!known[i].badge && known[i].process == pid) {
            dprintf(out, "  open  ");
            say_known(out, &known[i], known[i].rights);
        }
}
