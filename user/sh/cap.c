/*
 * cap.c - rights in the store, for a person: ls -l, cap, who.
 *
 * All of it goes through the same calls that any program has, by the shell's own root.
 */
#include "sh.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pstore.h"

#define PATH_BYTES 256
#define DEPTH_MAX 15                   /* of a path: 16 parts */
#define FIRST (1ull << 63)             /* a container's first grant, with its number below */

static int failed(const struct io *io, const char *who, const char *what, int error)
{
    dprintf(io->error, "%s: %s: %s\n", who, what, ps_strerror(error));
    return 1;
}

/* ---- ls -l ---- */

/* `#N`: the first grant of container N; `N`: a link's. */
static void grant_text(uint64_t grant, char out[24])
{
    snprintf(out, 24, grant & FIRST ? "#%llu" : grant ? "%llu" : "-",
             (unsigned long long)(grant & ~FIRST));
}

static void say(const struct io *io, const struct ps_entry *e, const char *name)
{
    char rights[] = "rwdnmg", grant[24], of[24];
    for (int i = 0; i < 6; i++)
        if (!(e->rights >> i & 1))
            rights[i] = '-';
    grant_text(e->grant, grant);
    grant_text(e->made_of, of);
    dprintf(io->out, "%s %6s of %-6s %s%s\n", rights, grant, of, name, e->directory ? "/" : "");
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct ps_entry *)a)->name, ((const struct ps_entry *)b)->name);
}

/* All entries of a directory, in the order of their names; to be freed. How many, or -errno. */
static int entries(const char *path, struct ps_entry **out)
{
    *out = NULL;
    int room = ps_directory_list(path, NULL, 0);
    if (room <= 0)
        return room;
    *out = calloc((size_t)room, sizeof(**out));
    int n = *out ? ps_directory_list(path, *out, room) : -ENOMEM;
    n = n < room ? n : room;
    if (n > 0)
        qsort(*out, (size_t)n, sizeof(**out), by_name);
    return n;
}

int list_rights(const struct io *io, const char *path)
{
    struct ps_entry one, *all = NULL;
    int n = ps_connect(NULL);
    n = n < 0 ? n : ps_rights(path, &one);
    if (n < 0)
        return failed(io, "ls", *path ? path : "the store", n);
    if (!one.directory)
        return say(io, &one, path), 0;
    n = entries(path, &all);
    for (int i = 0; i < n; i++)
        say(io, &all[i], all[i].name);
    free(all);
    return n < 0 ? failed(io, "ls", *path ? path : "the store", n) : 0;
}

/* ---- who ---- */

struct reach { struct ps_entry entry; char path[PATH_BYTES]; };
static struct reach *found;
static int found_count;

/* Walks all directories below; one that was seen already, by whatever link, is not walked again. */
static int collect(const char *path, int depth)
{
    struct ps_entry *all;
    int n = entries(path, &all);
    for (int i = 0; i < n; i++) {
        struct reach *more = realloc(found, (size_t)(found_count + 1) * sizeof(*found));
        if (!more) {
            n = -ENOMEM;
            break;
        }
        found = more;
        struct reach *r = &found[found_count++];
        r->entry = all[i];
        snprintf(r->path, sizeof(r->path), "%s%s%s", path, *path ? "/" : "", all[i].name);
    }
    free(all);
    int end = found_count;
    for (int i = end - (n > 0 ? n : 0); i < end && depth < DEPTH_MAX; i++) {
        char below[PATH_BYTES];
        strcpy(below, found[i].path);
        if (found[i].entry.directory && !found[i].entry.made_of && found[i].entry.rights & 1)
            collect(below, depth + 1);
    }
    return n < 0 ? n : 0;
}

/* The first grant that this one was made of, as far as it can be seen from here. */
static uint64_t first_of(uint64_t grant)
{
    for (int i = 0; i < found_count && !(grant & FIRST); i++)
        if (found[i].entry.grant == grant) {
            grant = found[i].entry.made_of;
            i = -1;
        }
    return grant;
}

static int who(const struct io *io, const char *path)
{
    struct ps_entry wanted;
    int error = ps_rights(path, &wanted);
    if (error < 0)
        return failed(io, "who", path, error);
    for (int i = 0; i < found_count; i++)
        if (first_of(found[i].entry.grant) == first_of(wanted.grant))
            say(io, &found[i].entry, found[i].path);
    return 0;
}

int do_who(const struct io *io, int argc, char **argv)
{
    int status = 0, error = argc < 2 || argv[1][0] == '-' ? 0 : ps_connect(NULL);
    if (argc < 2 || argv[1][0] == '-')
        return dprintf(io->error, "use: who NAME ...   all entries by which it can be reached, of "
                                  "those that this shell can walk to\n"), 2;
    error = error ? error : collect("", 0);
    if (error)
        return failed(io, "who", "the store", error);
    for (int i = 1; i < argc; i++)
        status |= who(io, argv[i]);
    free(found);
    found = NULL;
    found_count = 0;
    return status;
}

/* ---- cap ---- */

static const char *const limit_words[3] = {"pages", "commits", "versions"};

static void limit_say(const struct io *io, const char *path, enum ps_limit kind)
{
    uint64_t most, used;
    if (ps_limit(path, kind, &most, &used) == 0 && most != PS_NO_LIMIT)
        dprintf(io->out, "  at most %llu %s%s; now %llu\n", (unsigned long long)most,
                limit_words[kind], kind == PS_LIMIT_COMMITS ? " in a second" : "",
                (unsigned long long)used);
}

static int cap_show(const struct io *io, const char *path)
{
    struct ps_entry e;
    char rights[RIGHTS_BYTES], grant[24], of[24];
    int error = ps_rights(path, &e);
    if (error < 0)
        return failed(io, "cap", *path ? path : "the store", error);
    rights_text(e.rights, rights);
    grant_text(e.grant, grant);
    grant_text(e.made_of, of);
    dprintf(io->out, "%s: a %s, %s; grant %s", *path ? path : "this shell's root",
            e.directory ? "directory" : "container", rights, grant);
    dprintf(io->out, e.made_of ? " made of %s\n" : "\n", of);
    for (int i = 0; e.directory && i < 3; i++)
        limit_say(io, path, (enum ps_limit)i);
    return 0;
}

/* `pages` or `commits`, a number or `none`. -EINVAL: it is neither. */
static int cap_limit(const char *path, const char *kind, const char *most)
{
    char *end;
    uint64_t number = strcmp(most, "none") == 0 ? PS_NO_LIMIT : strtoull(most, &end, 10);
    bool good = number == PS_NO_LIMIT || (*most >= '0' && *most <= '9' && !*end);
    for (int i = 0; good && i < 3; i++)
        if (strcmp(kind, limit_words[i]) == 0)
            return ps_limit_set(path, (enum ps_limit)i, number);
    return -EINVAL;
}

static int cap_give(const struct io *io, const char *from, const char *to, const char *text)
{
    unsigned rights = PS_MAY_READ;
    if (text && !rights_parse(text, &rights))
        return complain("cap", "rights are all, or of read,write,delete,rename,manage,grant", 2);
    int has = ps_rights(from, NULL);
    unsigned missing = (rights | PS_MAY_GRANT) & ~(unsigned)has;
    if (has >= 0 && missing) {
        char words[RIGHTS_BYTES];
        rights_text(missing, words);
        dprintf(io->error, "cap: %s: this shell has no right to %s it\n", from, words);
        return 1;
    }
    int handle = has < 0 ? has : ps_handle(from, rights | PS_MAY_GRANT);
    int error = handle < 0 ? handle : ps_link(handle, to, rights);
    if (handle >= 0)
        ps_drop(handle);
    return error ? failed(io, "cap", handle < 0 ? from : to, error) : 0;
}

static int cap_use(const struct io *io)
{
    dprintf(io->error,
            "use: cap [PATH]                   what a path of the store gives\n"
            "     cap give PATH NEW [RIGHTS]   makes NEW, a second name; RIGHTS: read, or of\n"
            "                                  read,write,delete,rename,manage,grant, or all\n"
            "     cap drop NEW                 takes that away, with all that came of it\n"
            "     cap back PATH                takes back all that was given of PATH; it stays\n"
            "     cap limit DIR pages MOST     so many for all containers below; or commits, in a\n"
            "                                  second; none: no limit\n"
            "     cap dir PATH                 makes a directory; rm-container removes it\n");
    return 2;
}

int do_cap(const struct io *io, int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (*what == '-')
        return cap_use(io);
    int error = ps_connect(NULL);
    if (error)
        return failed(io, "cap", "the store", error);
    if (strcmp(what, "give") == 0 && (argc == 4 || argc == 5))
        return cap_give(io, argv[2], argv[3], argv[4]);
    if (strcmp(what, "dir") == 0 && argc == 3)
        error = ps_directory_create(argv[2]);
    else if (strcmp(what, "drop") == 0 && argc == 3)
        error = ps_unlink(argv[2]);
    else if (strcmp(what, "back") == 0 && argc == 3)
        error = ps_take_back(argv[2]);
    else if (strcmp(what, "limit") == 0 && argc == 5)
        error = cap_limit(argv[2], argv[3], argv[4]);
    else
        return argc > 2 ? cap_use(io) : cap_show(io, what);
    if (error < 0)
        return failed(io, "cap", argv[2], error);
    if (strcmp(what, "back") == 0)
        dprintf(io->out, "%d taken back\n", error);
    return 0;
}
