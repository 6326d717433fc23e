/*
 * limit.c - limits of directories: how much all that has its first entry below one may take.
 *
 * Most stores have none, and then nothing is counted. The pages that are held are added up from the
 * disk library when a limit is set, and when something moves or goes; in between the caller says
 * what is more and less (quota.c). Commits are counted by the second, which begins with the first
 * of them. Old versions the kernel counts (versions.c).
 *
 * Names are those of the disk library: entries, objects that have a name, what a container is kept
 * with. They count where their container lies, and a directory's own with what is below it; a link
 * counts as two where its entry is: who makes it pays, not whose container it is of.
 *
 * Lock: that of the disk library, held by the caller.
 */
#include "directory_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { NEXT_LOOKS = 64 };

static const char *const limit_names[LIMITS] = { "\5pages", "\5commits", "\5versions",
                                                 "\5names" };

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

/* limit_from: limits lie in the order of their directories: the first of this one or behind. */
static uint32_t limit_from(const struct directory *d, uint64_t directory)
{
    uint32_t low = 0, high = d->limit_count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (d->limits[mid].directory < directory)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static struct limit *limit_of(const struct directory *d, uint64_t directory)
{
    uint32_t i = limit_from(d, directory);
    return i < d->limit_count && d->limits[i].directory == directory ? &d->limits[i] : NULL;
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
    struct limit *l = limit_of(d, directory), *end = d->limits + d->limit_count;
    if (!l) return;
    memmove(l, l + 1, (size_t)(end - l - 1) * sizeof(*l));
    d->limit_count--;
}

static void limit_put(struct directory *d, uint64_t directory, enum directory_limit kind,
                      uint64_t most)
{
    struct limit *l = limit_of(d, directory);
    bool any = false;
    if (!l) {
        l = &d->limits[limit_from(d, directory)];
        memmove(l + 1, l, (size_t)(d->limits + d->limit_count++ - l) * sizeof(*l));
        *l = (struct limit){ .directory = directory };
        for (unsigned i = 0; i < LIMITS; i++) l->most[i] = LIMIT_NONE;
    }
    l->most[kind] = most;
    for (unsigned i = 0; i < LIMITS; i++) any |= l->most[i] != LIMIT_NONE;
    if (!any) limits_forget(d, directory);
}

/* counted_by lists directories that count such things of a container's, nearest first. */
static unsigned counted_by(const struct directory *d, uint64_t container,
                           enum directory_limit kind, uint64_t up[DIRECTORY_DEPTH + 2])
{
    unsigned own = kind == LIMIT_NAMES && directory_is(d, container);
    up[0] = container;
    return own + directory_up(d, container, up + own);
}

static bool any_of(const struct directory *d, enum directory_limit kind)
{
    for (uint32_t i = 0; i < d->limit_count; i++)
        if (d->limits[i].most[kind] != LIMIT_NONE) return true;
    return false;
}

/* name_payer tells where the name counts: of a link's row where the entry is. */
static uint64_t name_payer(const struct directory *d, uint64_t number, const char *name)
{
    uint64_t serial = row_serial(name);
    uint32_t at = serial ? grant_find(d, serial) : 0;
    return at && d->grants[at].flags & GRANT_ENTRY ? d->grants[at].directory
                                                   : directory_of_number(d, number);
}

static void names_count(struct directory *d)
{
    struct store_name name;
    uint32_t cursor = 0;
    uint64_t object;
    int r;
    do {
        r = store_name_any(d->store, &cursor, 4096, &object, &name);
        if (r == 0 && strcmp(name.name, next_serial_name) != 0)
            directory_limit_count(d, name_payer(d, object, name.name), LIMIT_NAMES, 1);
    } while (r != -ENOENT);
}

void limits_count_again(struct directory *d)
{
    struct store_container c = { .object = 0 };
    d->limits_counted++;
    if (!d->limit_count) return;
    for (uint32_t i = 0; i < d->limit_count; i++)
        d->limits[i].used[LIMIT_PAGES] = d->limits[i].used[LIMIT_NAMES] = 0;
    if (any_of(d, LIMIT_NAMES)) names_count(d);
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
    uint64_t up[DIRECTORY_DEPTH + 2];
    if (!d->limit_count) return 0;
    for (unsigned i = counted_by(d, container, kind, up); i-- > 0;) {
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
    uint64_t up[DIRECTORY_DEPTH + 2];
    if (!d->limit_count) return;
    for (unsigned i = counted_by(d, container, kind, up); i-- > 0;) {
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
    for (uint32_t looks = 0; looks < d->limit_count && looks < NEXT_LOOKS; looks++) {
        if (*cursor >= d->limit_count) *cursor = 0;
        const struct limit *l = &d->limits[(*cursor)++];
        *directory = l->directory;
        if (l->most[kind] != LIMIT_NONE) return true;
    }
    return false;
}

/* ---- names of a plan ---- */

int limit_names_take(struct directory *d, uint64_t directory, uint32_t names)
{
    uint64_t full;
    int r = directory_limit_check(d, directory, LIMIT_NAMES, names, &full);
    d->plan_names = r == 0 ? names : 0;
    d->plan_payer = directory;
    d->plan_counted = d->limits_counted;
    directory_limit_count(d, directory, LIMIT_NAMES, (int64_t)d->plan_names);
    return r;
}

/* limit_names_end: if all was counted anew meanwhile, nobody knows whether with these names. */
void limit_names_end(struct directory *d, bool made)
{
    bool again = d->plan_names && d->plan_counted != d->limits_counted;
    if (d->plan_names && !made && !again)
        directory_limit_count(d, d->plan_payer, LIMIT_NAMES, -(int64_t)d->plan_names);
    d->plan_names = 0;
    if (again) limits_count_again(d);
}

void limit_names_gone(struct directory *d, uint64_t directory, uint32_t names)
{
    directory_limit_count(d, directory, LIMIT_NAMES, -(int64_t)names);
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
        if (!l || l->marked) continue;
        l->marked = true;
        l->marked_next = d->marked;
        d->marked = (uint32_t)(l - d->limits) + 1;
    }
}

int directory_commit_check(struct directory *d, uint64_t now_us, uint64_t *full)
{
    for (uint32_t i = d->marked; i; i = d->limits[i - 1].marked_next) {
        struct limit *l = &d->limits[i - 1];
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
    for (; d->marked; d->marked = d->limits[d->marked - 1].marked_next) {
        d->limits[d->marked - 1].used[LIMIT_COMMITS] += made;
        d->limits[d->marked - 1].marked = false;
    }
}
