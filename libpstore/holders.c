/*
 * holders.c - what can be walked to, and who holds it now.
 *
 * Both are lists for people and their tools: user/sh/who.c, user/trace/names.c.
 */
#include "pstore_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- entries ---- */

struct walk {
    int (*fn)(const char *path, const struct ps_entry *e, void *arg);
    void *arg;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct ps_entry *)a)->name, ((const struct ps_entry *)b)->name);
}

static int walk(const struct walk *w, const char *path, const struct ps_entry *all, int count);

/* walk_below tells all entries of a directory in the order of their names; one below that cannot be
 * listed has none. */
static int walk_below(const struct walk *w, const char *path, int first)
{
    int room = ps_directory_list(path, NULL, 0);
    struct ps_entry *all = room > 0 ? calloc((size_t)room, sizeof *all) : NULL;
    int n = room <= 0 ? room : all ? ps_directory_list(path, all, room) : -ENOMEM;
    n = n < room ? n : room;
    if (n > 0)
        qsort(all, (size_t)n, sizeof *all, by_name);
    int result = n > 0 ? walk(w, path, all, n) : first ? n : 0;
    free(all);
    return result;
}

/* walk enters a directory by its first entry only, of which there is one: circles end. */
static int walk(const struct walk *w, const char *path, const struct ps_entry *all, int count)
{
    char below[WIRE_PATH_BYTES];
    int result = 0;
    for (int i = 0; i < 2 * count && result == 0; i++) {
        const struct ps_entry *e = &all[i % count];
        if (snprintf(below, sizeof below, "%s%s%s", path, *path ? "/" : "", e->name) >=
            (int)sizeof below)
            continue;
        if (i < count)
            result = w->fn(below, e, w->arg);
        else if (e->directory && !e->made_of && e->rights & PS_MAY_READ)
            result = walk_below(w, below, 0);
    }
    return result;
}

int ps_walk(const char *path, int (*fn)(const char *path, const struct ps_entry *e, void *arg),
            void *arg)
{
    struct walk w = {fn, arg};
    return error_told(ERROR_NAMES, walk_below(&w, path, 1));
}

/* ---- holders ---- */

static int holders(const char *path, struct ps_holder *out, int count)
{
    enum { AT_ONCE = 32 };
    struct wire_holder got[AT_ONCE];
    uint64_t word[STORE_REQUEST_WORDS] = {0};
    int all = 0;
    if (count < 0 || (count > 0 && !out))
        return -EINVAL;
    do {
        size_t bytes = sizeof got;
        int result = path_ask(STORE_HOLDERS, path, word, NULL, got, &bytes);
        if (result != 0)
            return result;
        for (size_t i = 0; i < bytes / sizeof got[0]; i++, all++)
            if (all < count)
                out[all] = (struct ps_holder){.process = (int)got[i].process,
                                              .manager = (int)word[1], .grant = got[i].grant,
                                              .badge = got[i].badge,
                                              .rights = may_of(got[i].rights),
                                              .handles = got[i].handles};
    } while (word[0]);
    return all;
}

int ps_holders(const char *path, struct ps_holder *out, int count)
{
    return error_told(ERROR_NAMES, holders(path, out, count));
}
