/*
 * cap.c - rights in the store, for a person: ls -l, cap.
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

#define FIRST (1ull << 63)             /* a container's first grant, with its number below */

static int failed(const struct io *io, const char *who, const char *what, int error)
{
    dprintf(io->error, "%s: %s: %s\n", who, *what ? what : "this shell's root",
            ps_strerror(error));
    return 1;
}

/* ---- ls -l ---- */

/* `#N`: the first grant of container N; `N`: a link's. */
void grant_text(uint64_t grant, char out[24])
{
    snprintf(out, 24, grant & FIRST ? "#%llu" : grant ? "%llu" : "-",
             (unsigned long long)(grant & ~FIRST));
}

void entry_say(const struct io *io, const struct ps_entry *e, const char *name)
{
    char rights[RIGHTS_LETTERS], grant[24], of[24];
    rights_letters(e->rights, rights);
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
    const char *colon = strchr(path, ':'), *asked = path;
    int n = ps_connect(colon ? path : NULL);
    path = colon ? colon + 1 : path;
    n = n < 0 ? n : ps_rights(path, &one);
    if (n < 0)
        return failed(io, "ls", asked, n);
    const char *name;
    int status = 0;
    for (int i = 0; !*asked && (name = roots_name(i)); i++) /* containers that were passed */
        status |= *name ? list_rights(io, name) : 0;
    if (!one.directory)
        return *path ? entry_say(io, &one, asked), 0 : status;
    n = entries(path, &all);
    for (int i = 0; i < n; i++)
        entry_say(io, &all[i], all[i].name);
    free(all);
    return n < 0 ? failed(io, "ls", path, n) : status;
}

/* ---- cap ---- */

static const char *const limit_words[] = {"pages", "commits", "versions", "names"};
#define LIMIT_WORDS (int)(sizeof(limit_words) / sizeof(limit_words[0]))

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
        return failed(io, "cap", path, error);
    rights_text(e.rights, rights);
    grant_text(e.grant, grant);
    grant_text(e.made_of, of);
    dprintf(io->out, "%s: a %s, %s; grant %s", *path ? path : "this shell's root",
            e.directory ? "directory" : "container", rights, grant);
    dprintf(io->out, e.made_of ? " made of %s\n" : "\n", of);
    for (int i = 0; e.directory && i < LIMIT_WORDS; i++)
        limit_say(io, path, (enum ps_limit)i);
    return 0;
}

/* One of these words, a number or `none`. */
static int cap_limit(const struct io *io, const char *path, const char *kind, const char *most)
{
    char *end;
    bool none = strcmp(most, "none") == 0;
    uint64_t number = none ? PS_NO_LIMIT : strtoull(most, &end, 10);
    int error = 1; /* nothing was tried */
    bool good = none || (*most >= '0' && *most <= '9' && !*end && number < PS_NO_LIMIT);
    for (int i = 0; good && i < LIMIT_WORDS; i++)
        if (strcmp(kind, limit_words[i]) == 0)
            good = false, error = ps_limit_set(path, (enum ps_limit)i, number);
    if (error == 1)
        return complain("cap", "a limit is of pages, commits, versions or names: a number, or none",
                        2);
    return error < 0 ? failed(io, "cap", path, error) : 0;
}

static int cap_give(const struct io *io, const char *from, const char *to, const char *text)
{
    unsigned rights = PS_MAY_READ;
    if (text && !rights_parse(text, &rights))
        return complain("cap", RIGHTS_WRONG, 2);
    int handle = ps_handle(from, rights | PS_MAY_GRANT);
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
            "                                  read,write,delete,rename,manage,grant, letters of\n"
            "                                  rwdnmg, or all\n"
            "     cap drop NEW                 takes that away, with all that came of it\n"
            "     cap back PATH                takes back all that was given of PATH; it stays\n"
            "     cap limit DIR pages MOST     so many for all containers below; or commits, in a\n"
            "                                  second; or versions, old pages that snapshots\n"
            "                                  keep; or names; MOST none: no limit\n"
            "     cap dir PATH                 makes a directory; rm-container removes it\n");
    return 2;
}

/* A word of cap's own, with too little behind it, if no container has that name. */
static bool is_word(const char *what)
{
    static const char *const words[] = {"give", "drop", "back", "limit", "dir"};
    struct ps_entry e;
    for (int i = 0; i < 5; i++)
        if (strcmp(what, words[i]) == 0)
            return ps_rights(what, &e) < 0;
    return false;
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
        return cap_limit(io, argv[2], argv[3], argv[4]);
    else
        return argc > 2 || is_word(what) ? cap_use(io) : cap_show(io, what);
    if (error < 0)
        return failed(io, "cap", argv[2], error);
    if (strcmp(what, "back") == 0)
        dprintf(io->out, "taken back: %d links, and all handles\n", error);
    return 0;
}
