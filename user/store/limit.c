/*
 * limit.c - limits of directories: how much all that has its first entry below one may take.
 *
 * Most stores have none, and then nothing is counted. The pages that are held are added up from the
 * disk library when a limit is set, and when something moves or goes; in between the caller says
 * what is more and less (quota.c). Commits are counted by the second, which begins with the first
 * of them. Old versions the kernel counts (versions.c).
 *
 * Lock: that of the disk library, held by the caller.
 */
#include "directory_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const limit_names[LIMITS] = { "\5pages", "\5commits", "\5versions" };

void limit_name(char name[STORE_NAME_BYTES], enum directory_limit kind)
{
    memset(name, 0, STORE_NAME_BYTES);
    memcpy(name, limit_names[kind], strlen(limit_names[kind]));
}

bool limit_of_name(const char *name, enum directory_limit *kind)
{
    for (unsigned i = 0; i < LIMITS; i++) {
        *kind = (enum directory_limit)i;
        if (strcmp(name, limit_names[i]) == 0) return true;
    }
    return false;
}

static struct limit *limit_of(const struct directory *d, uint64_t directory)
{
    for (uint32_t i = 0; i < d->limit_count; i++)
        if (d->limits[i].directory == directory) return &d->limits[i];
    return NULL;
}

int limits_reserve(struct directory *d)
{
    if (d->limit_count < d->limit_room) return 0;
    uint32_t room = d->limit_room ? 2 * d->limit_room : 8;
    void *more = realloc(d->limits, room * sizeof(*d->limits));
    if (!more) return -ENOMEM;
    d->limits = more;
    d->limit_room = room;
    return 0;
}

void limits_forget(struct directory *d, uint64_t directory)
{
    struct limit *l = limit_of(d, directory);
    if (l) *l = d->limits[--d->limit_count];
}

static void limit_put(struct directory *d, uint64_t directory, enum directory_limit kind,
                      uint64_t most)
{
    struct limit *l = limit_of(d, directory);
    bool any = false;
    if (!l) {
        l = &d->limits[d->limit_count++];
        *l = (struct limit){ .directory = directory };
        for (unsigned i = 0; i < LIMITS; i++) l->most[i] = LIMIT_NONE;
    }
    l->most[kind] = most;
    for (unsigned i = 0; i < LIMITS; i++) any |= l->most[i] != LIMIT_NONE;
    if (!any) limits_forget(d, directory);
}

void limits_count_again(struct directory *d)
{
    struct store_container c = { .object = 0 };
    d->limits_counted++;
    if (!d->limit_count) return;
    for (uint32_t i = 0; i < d->limit_count; i++) d->limits[i].used[LIMIT_PAGES] = 0;
    while (store_container_next(d->store, c.object, &c) == 0)
        directory_limit_count(d, c.object, LIMIT_PAGES,
                              (int64_t)(c.pages_present + c.pages_claimed));
}

void limit_apply(struct directory *d, uint64_t directory, enum directory_limit kind, uint64_t most)
{
    limit_put(d, directory, kind, most);
    struct limit *l = limit_of(d, directory);
    if (l && kind == LIMIT_COMMITS) l->used[kind] = 0;     /* a second begins */
    limits_count_again(d);
}

int limits_read(struct directory *d)
{
    struct store_name name;
    enum directory_limit kind;
    uint32_t cursor = 0;
    uint64_t object;
    int r, error = 0;
    do {
        r = store_name_any(d->store, &cursor, 4096, &object, &name);
        if (r < 0 || !limit_of_name(name.name, &kind)) continue;
        if (!directory_is(d, directory_of_number(d, object))) continue;
        error = limits_reserve(d);
        if (error == 0) limit_put(d, directory_of_number(d, object), kind, name.address);
    } while (r != -ENOENT && error == 0);
    limits_count_again(d);
    return error;
}

uint64_t directory_limit_get(struct directory *d, uint64_t directory, enum directory_limit kind)
{
    const struct limit *l = limit_of(d, directory);
    return l ? l->most[kind] : LIMIT_NONE;
}

int directory_limit_check(struct directory *d, uint64_t container, enum directory_limit kind,
                          uint64_t more, uint64_t *full)
{
    uint64_t up[DIRECTORY_DEPTH + 1];
    if (!d->limit_count) return 0;
    for (unsigned i = directory_up(d, container, up); i-- > 0;) {
        const struct limit *l = limit_of(d, up[i]);
        if (!l || l->most[kind] == LIMIT_NONE) continue;
        if (l->used[kind] <= l->most[kind] && more <= l->most[kind] - l->used[kind]) continue;
        *full = up[i];
        return -EDQUOT;
    }
    return 0;
}

void directory_limit_count(struct directory *d, uint64_t container, enum directory_limit kind,
                           int64_t more)
{
    uint64_t up[DIRECTORY_DEPTH + 1];
    if (!d->limit_count) return;
    for (unsigned i = directory_up(d, container, up); i-- > 0;) {
        struct limit *l = limit_of(d, up[i]);
        if (!l) continue;
        bool less = more < 0 && (uint64_t)-more > l->used[kind];
        l->used[kind] = less ? 0 : l->used[kind] + (uint64_t)more;
    }
}

uint64_t directory_limit_used(struct directory *d, uint64_t directory, enum directory_limit kind)
{
    const struct limit *l = limit_of(d, directory);
    return l ? l->used[kind] : 0;
}

bool directory_limit_next(const struct directory *d, enum directory_limit kind, uint32_t *cursor,
                          uint64_t *directory)
{
    while (*cursor < d->limit_count && d->limits[*cursor].most[kind] == LIMIT_NONE) ++*cursor;
    if (*cursor >= d->limit_count) return false;
    *directory = d->limits[(*cursor)++].directory;
    return true;
}

void directory_limits_count(struct directory *d) { limits_count_again(d); }

uint64_t directory_limits_counted(const struct directory *d) { return d->limits_counted; }

bool directory_limited(const struct directory *d) { return d->limit_count > 0; }

/* ---- commits ---- */

#define SECOND_US 1000000u

void directory_commit_mark(struct directory *d, uint64_t container)
{
    uint64_t up[DIRECTORY_DEPTH + 1];
    for (unsigned i = directory_up(d, container, up); i-- > 0;) {
        struct limit *l = limit_of(d, up[i]);
        if (l) l->marked = true;
    }
}

int directory_commit_check(struct directory *d, uint64_t now_us, uint64_t *full)
{
    for (uint32_t i = 0; i < d->limit_count; i++) {
        struct limit *l = &d->limits[i];
        if (!l->marked) continue;
        if (!l->used[LIMIT_COMMITS] || now_us - l->since_us >= SECOND_US) {
            l->used[LIMIT_COMMITS] = 0;
            l->since_us = now_us;
        }
        if (l->used[LIMIT_COMMITS] < l->most[LIMIT_COMMITS]) continue;
        *full = l->directory;
        return -EDQUOT;
    }
    return 0;
}

void directory_commit_end(struct directory *d, bool made)
{
    for (uint32_t i = 0; i < d->limit_count; i++) {
        d->limits[i].used[LIMIT_COMMITS] += made && d->limits[i].marked;
        d->limits[i].marked = false;
    }
}
