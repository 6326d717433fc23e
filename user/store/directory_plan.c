/*
 * directory_plan.c - changes of directories and grants: planned, and applied when they are durable.
 *
 *     1  checks all that is asked for, with the lock held
 *     2  makes room in the table, so that 4 cannot fail
 *     3  lists the operations of one transaction (RT9): the caller commits them
 *     4  directory_applied: the table becomes what the disk is
 * A plan that fails leaves nothing. While one is pending there is no other, so what 1 saw is so
 * until 4 (RT6).
 *
 * Lock: that of the disk library, held by the caller.
 */
#include "directory_table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct store_layout directory_layout_of = { .type = "directory", .version = 1 };
enum { CATALOGUE_TRIES = 1000 };

/* ---- the list of operations ---- */

void change_begin(struct directory *d)
{
    d->change.count = 0;
    d->change.container = d->change.serial = 0;
    d->change.more = false;
    d->ended_count = d->renamed_count = 0;
    d->plan_root = 0;
}

struct store_op *change_add(struct directory *d, enum store_op_type type, uint64_t object,
                            const char *name)
{
    struct directory_change *c = &d->change;
    struct store_op *op = &c->ops[c->count];
    memset(c->names[c->count], 0, STORE_NAME_BYTES);
    if (name) memcpy(c->names[c->count], name, strnlen(name, STORE_NAME_BYTES - 1));
    *op = (struct store_op){ .type = type, .object = object,
                             .name = name ? c->names[c->count] : NULL };
    c->count++;
    return op;
}

static void change_set(struct directory *d, uint64_t object, const char *name, uint64_t address,
                       uint64_t bytes)
{
    struct store_op *op = change_add(d, STORE_OP_NAME_SET, object, name);
    op->address = address;
    op->bytes = bytes;
}

static uint64_t change_create(struct directory *d, const char *name, bool is_directory,
                              uint64_t number)
{
    struct store_op *op = change_add(d, STORE_OP_CREATE, 0, name);
    op->want_object = number;
    if (!is_directory) return number;
    op->flags = DIRECTORY_FLAG;
    change_add(d, STORE_OP_LAYOUT, number, NULL)->layout = &directory_layout_of;
    return number;
}

/* change_root returns the root's container, which is made if there is none. */
static uint64_t change_root(struct directory *d)
{
    if (d->root) return d->root;
    if (!d->plan_root)
        d->plan_root = change_create(d, DIRECTORY_ROOT_NAME, true, store_object_next(d->store));
    return d->plan_root;
}

static uint64_t change_number(struct directory *d, uint64_t directory)
{
    return directory == DIRECTORY_ROOT ? change_root(d) : directory;
}

struct directory_change *directory_change(struct directory *d)
{
    return d->plan == PLAN_NONE ? NULL : &d->change;
}

static int plan_open(struct directory *d)
{
    if (d->plan != PLAN_NONE) return -EBUSY;
    change_begin(d);
    return 0;
}

/* plan_entry notes the entry that the pending change makes. */
static void plan_entry(struct directory *d, enum plan plan, const struct directory_found *where,
                       uint64_t serial, uint64_t container)
{
    d->plan = plan;
    d->plan_serial = serial;
    d->plan_container = container;
    d->plan_directory = where->directory;
    memcpy(d->plan_name, where->name, STORE_NAME_BYTES);
}

/* ---- where ---- */

static int needs(const struct directory_found *f, uint32_t rights)
{
    return directory_way_needs(f, f->parts, rights, 0);
}

/* needs_above asks for rights of the directory that has the entry. */
static int needs_above(const struct directory_found *f, uint32_t rights)
{
    return directory_way_needs(f, f->parts - 1, rights, 1);
}

/* place_free finds a place for an entry that is not there yet. */
static int place_free(struct directory *d, struct directory_at at, const char *path,
                      struct directory_found *f)
{
    int r = directory_walk(d, at, path, f);
    if (r == 0) return f->name[0] ? -EEXIST : -EINVAL;
    if (r != -ENOENT || !f->name[0]) return r;
    return needs_above(f, DIRECTORY_WRITE);
}

/* place_taken finds an entry that is there. */
static int place_taken(struct directory *d, struct directory_at at, const char *path,
                       struct directory_found *f)
{
    int r = directory_walk(d, at, path, f);
    return r == 0 && !f->name[0] ? -EINVAL : r;
}

static bool catalogue_has(struct directory *d, const char *name)
{
    struct store_container c;
    return store_container_find(d->store, name, &c) == 0;
}

/* catalogue_name makes the catalogue's name of a container that is not in the root. */
static int catalogue_name(struct directory *d, uint64_t number, char name[STORE_NAME_BYTES])
{
    snprintf(name, STORE_NAME_BYTES, "#%llu", (unsigned long long)number);
    for (unsigned i = 2; catalogue_has(d, name); i++) {
        if (i > CATALOGUE_TRIES) return -EEXIST;
        snprintf(name, STORE_NAME_BYTES, "#%llu.%u", (unsigned long long)number, i);
    }
    return 0;
}

static unsigned depth_of(const struct directory *d, uint64_t directory)
{
    uint64_t up[DIRECTORY_DEPTH + 1];
    return directory_up(d, directory, up);
}

/* ---- making and linking ---- */

int directory_make(struct directory *d, struct directory_at at, const char *path,
                   bool is_directory)
{
    struct directory_found f;
    char name[STORE_NAME_BYTES];
    int r = plan_open(d);
    if (r == 0) r = place_free(d, at, path, &f);
    if (r == 0) r = grants_reserve(d, 1);
    if (r < 0) return r;
    uint64_t number = store_object_next(d->store);
    if (is_directory && depth_of(d, f.directory) >= DIRECTORY_DEPTH) return -ELOOP;
    if (f.directory != DIRECTORY_ROOT)
        r = catalogue_name(d, number, name);
    else if (catalogue_has(d, f.name))          /* one that lies elsewhere is called so */
        r = -EEXIST;
    if (r == 0) r = limit_names_take(d, f.directory, f.directory != DIRECTORY_ROOT);
    if (r < 0) return r;
    change_create(d, f.directory == DIRECTORY_ROOT ? f.name : name, is_directory, number);
    if (f.directory != DIRECTORY_ROOT)
        change_set(d, f.directory, f.name, DIRECTORY_FIRST | number, number);
    d->change.container = number;
    d->change.serial = DIRECTORY_FIRST | number;
    plan_entry(d, PLAN_MAKE, &f, d->change.serial, number);
    return 0;
}

/* link_source: what is linked; *rights: what the new grant gets, none its source has not (RT7). */
static int link_source(struct directory *d, struct directory_at of, uint64_t *container,
                       uint32_t *rights)
{
    uint32_t has;
    int r = directory_grant(d, of.serial, container, &has);
    if (r < 0) return r;
    r = directory_needs(of.serial, has & of.rights, DIRECTORY_GRANT, DIRECTORY_LACK_HANDLE);
    if (r < 0) return r;
    *rights &= has & of.rights & DIRECTORY_ALL;
    if (!*rights) return -EACCES;
    uint32_t at = grant_find(d, of.serial);
    return at && d->grants[at].depth >= DIRECTORY_DEPTH ? -EMLINK : 0;
}

int directory_link(struct directory *d, struct directory_at of, uint32_t rights,
                   struct directory_at at, const char *path)
{
    struct directory_found f;
    uint64_t container, serial = d->next;
    char row[STORE_NAME_BYTES];
    int r = plan_open(d);
    if (r == 0) r = link_source(d, of, &container, &rights);
    if (r == 0) r = place_free(d, at, path, &f);
    if (r == 0 && serial >= SERIAL_MAX - 1) r = -ENOSPC;
    if (r == 0) r = grants_reserve(d, 2);
    if (r == 0) r = limit_names_take(d, f.directory, 2);
    if (r < 0) return r;
    uint64_t root = change_root(d), number = change_number(d, container);
    row_name(row, serial);
    change_set(d, number, row, of.serial, rights);
    change_set(d, root, next_serial_name, serial + 1, 0); /* RT8 */
    change_set(d, change_number(d, f.directory), f.name, serial, number);
    d->change.serial = serial;
    plan_entry(d, PLAN_LINK, &f, serial, container);
    d->plan_parent = of.serial;
    d->plan_rights = rights;
    return 0;
}

/* ---- unlinking and taking back ---- */

/* end_add ends a grant: its row and, if it is there, its entry. */
static void end_add(struct directory *d, uint32_t at)
{
    const struct grant *g = &d->grants[at];
    char name[STORE_NAME_BYTES];
    row_name(name, g->serial);
    change_add(d, STORE_OP_NAME_UNSET, directory_number(d, g->container), name);
    if (grant_name(d, at, name))
        change_add(d, STORE_OP_NAME_UNSET, directory_number(d, g->directory), name);
    d->ended[d->ended_count++] = at;
}

/* plan_end plans the end of all below `top`, perhaps of it: as much as fits, children first. */
static void plan_end(struct directory *d, uint32_t top, bool itself)
{
    uint32_t at = grant_deepest(d, top);
    while (at && (at != top || itself) && d->change.count + 2 <= DIRECTORY_NAMES) {
        uint32_t next = grant_behind(d, at, top);
        end_add(d, at);
        at = next;
    }
    d->change.more = at && (at != top || itself);
    d->plan = PLAN_END;
}

int directory_unlink(struct directory *d, struct directory_at at, const char *path)
{
    struct directory_found f;
    int r = plan_open(d);
    if (r == 0) r = place_taken(d, at, path, &f);
    if (r == 0) r = needs_above(&f, DIRECTORY_WRITE);
    if (r < 0) return r;
    if (f.serial & DIRECTORY_FIRST) return -EPERM;
    uint32_t grant = grant_find(d, f.serial);
    if (d->grants[grant].child && (r = needs(&f, DIRECTORY_MANAGE)) < 0) return r;
    plan_end(d, grant, true);
    return 0;
}

int directory_take_back(struct directory *d, struct directory_at by, uint64_t target)
{
    uint64_t container;
    uint32_t rights;
    int r = plan_open(d);
    if (r == 0) r = directory_grant(d, by.serial, &container, &rights);
    if (r < 0) return r;
    if (!(rights & by.rights & DIRECTORY_MANAGE)) return -EACCES; /* RT10 */
    uint32_t at = grant_find(d, target);
    if (target == by.serial && (!at || !d->grants[at].child)) return -ENOENT;
    if (!at) return -EIDRM;
    if (!directory_below(d, target, by.serial)) return -EACCES;
    plan_end(d, at, target != by.serial);
    return 0;
}

/* ---- other names ---- */

/* height_of counts directories that stand below one another from this one on, with it. */
static unsigned height_of(struct directory *d, uint64_t directory)
{
    uint64_t up[DIRECTORY_DEPTH + 1];
    unsigned height = 1;
    for (uint32_t i = 1; i < d->top; i++) {
        const struct grant *g = &d->grants[i];
        if (!(g->serial & DIRECTORY_FIRST) || !(g->flags & GRANT_DIRECTORY)) continue;
        unsigned count = directory_up(d, g->container, up);
        for (unsigned n = 0; n < count; n++)
            if (up[n] == directory && n + 2 > height) height = n + 2;
    }
    return height;
}

/* move_check: may the first entry go there, not below itself, nor too deep (DG3)? */
static int move_check(struct directory *d, const struct directory_found *from, uint64_t to)
{
    uint64_t up[DIRECTORY_DEPTH + 1];
    if (!from->is_directory || !(from->serial & DIRECTORY_FIRST)) return 0;
    unsigned count = directory_up(d, to, up);
    bool circle = to == from->container;
    for (unsigned i = 0; i < count; i++) circle |= up[i] == from->container;
    return circle || count + height_of(d, from->container) > DIRECTORY_DEPTH ? -ELOOP : 0;
}

/* move_rights asks for all the entry's rights on this way: the mover gets them elsewhere. */
static int move_rights(struct directory *d, struct directory_found *from,
                       const struct directory_found *to)
{
    uint64_t container;
    uint32_t rights;
    int r = needs_above(from, DIRECTORY_RENAME);
    if (r < 0 || from->directory == to->directory) return r;
    r = directory_way_needs(to, to->parts - 1, DIRECTORY_WRITE, 1 | DIRECTORY_LACK_TO);
    if (r == 0) r = directory_grant(d, from->serial, &container, &rights);
    return r < 0 ? r : needs(from, rights | DIRECTORY_GRANT);
}

/* move_first changes the catalogue's name of what has its first entry elsewhere now. */
static int move_first(struct directory *d, const struct directory_found *from,
                      const struct directory_found *to)
{
    char name[STORE_NAME_BYTES];
    int r = 0;
    if (to->directory == DIRECTORY_ROOT)
        memcpy(name, to->name, STORE_NAME_BYTES);
    else if (from->directory == DIRECTORY_ROOT)
        r = catalogue_name(d, from->container, name);
    else
        return 0;
    if (r == 0 && catalogue_has(d, name)) r = -EEXIST;
    if (r == 0) change_add(d, STORE_OP_RENAME, from->container, name);
    return r;
}

int directory_move(struct directory *d, struct directory_at at, const char *from,
                     struct directory_at to_at, const char *to)
{
    struct directory_found f, t;
    int r = plan_open(d);
    if (r == 0) r = place_taken(d, at, from, &f);
    if (r < 0) return r;
    r = directory_walk(d, to_at, to, &t);
    bool same = r == 0 && t.directory == f.directory && strcmp(t.name, f.name) == 0;
    if (r == 0 && !same) r = t.name[0] ? -EEXIST : -EINVAL;
    if (r == -ENOENT && t.name[0]) r = 0;
    if (r == 0) r = move_rights(d, &f, &t);
    if (r == 0) r = move_check(d, &f, t.directory);
    if (r == 0) r = grants_reserve(d, 1);
    bool first = r == 0 && f.serial & DIRECTORY_FIRST;
    if (first && !same) r = move_first(d, &f, &t);
    if (r < 0) return r;
    uint64_t number = directory_number(d, f.container);
    if (!same && !(first && f.directory == DIRECTORY_ROOT))
        change_add(d, STORE_OP_NAME_UNSET, directory_number(d, f.directory), f.name);
    if (!same && !(first && t.directory == DIRECTORY_ROOT))
        change_set(d, directory_number(d, t.directory), t.name, f.serial, number);
    plan_entry(d, PLAN_MOVE, &t, f.serial, f.container);
    return 0;
}

/* ---- deleting ---- */

static bool has_entries(struct directory *d, uint64_t directory)
{
    struct store_name entry;
    uint32_t cursor = 0;
    uint64_t number = directory_number(d, directory);
    while (store_name_next(d->store, number, &cursor, &entry) == 0)
        if (!directory_name_reserved(entry.name) &&
            entry_counts(d, directory, &entry))
            return true;
    return false;
}

int directory_remove(struct directory *d, struct directory_at at, const char *path,
                     struct directory_found *out)
{
    struct directory_found own, *f = out ? out : &own;
    char name[STORE_NAME_BYTES];
    int r = plan_open(d);
    if (r == 0) r = place_taken(d, at, path, f);
    if (r == 0) r = needs(f, DIRECTORY_DELETE);
    if (r < 0) return r;
    if (f->container == DIRECTORY_ROOT) return -EPERM;
    if (f->is_directory && has_entries(d, f->container)) return -ENOTEMPTY;
    change_add(d, STORE_OP_DELETE, f->container, NULL);
    /* Entries that find no place here name nothing, and a later start removes them. */
    for (uint32_t g = grant_of(d, f->container, 0); g; g = grant_of(d, f->container, g))
        if (d->change.count < DIRECTORY_NAMES && grant_name(d, g, name))
            change_add(d, STORE_OP_NAME_UNSET, directory_number(d, d->grants[g].directory), name);
    plan_entry(d, PLAN_DELETE, f, f->serial, f->container);
    return 0;
}

bool directory_ended(struct directory *d, uint64_t *cursor, uint64_t *serial)
{
    if (d->plan == PLAN_END && *cursor < d->ended_count) {
        *serial = d->grants[d->ended[(*cursor)++]].serial;
        return true;
    }
    if (d->plan != PLAN_DELETE) return false;
    if (!*cursor) {                             /* the first one, in the table or not */
        *cursor = 1ull << 32;
        *serial = DIRECTORY_FIRST | d->plan_container;
        return true;
    }
    uint32_t g = (uint32_t)*cursor;
    do g = grant_of(d, d->plan_container, g);
    while (g && d->grants[g].serial & DIRECTORY_FIRST);
    if (!g) return false;
    *cursor = 1ull << 32 | g;
    *serial = d->grants[g].serial;
    return true;
}

/* ---- what became of it ---- */

/* applied_entry notes that the grant's entry lies where the plan says. */
static void applied_entry(struct directory *d, uint32_t at)
{
    struct store_name entry;
    uint64_t number = directory_number(d, d->plan_directory);
    if (number && store_name_find(d->store, number, d->plan_name, &entry) == 0)
        grant_entry(d, at, d->plan_directory, entry.slot);
}

static void applied_link(struct directory *d)
{
    uint32_t parent = d->plan_parent & DIRECTORY_FIRST ? grant_first(d, d->plan_container)
                                                       : grant_find(d, d->plan_parent);
    applied_entry(d, grant_add(d, d->plan_serial, d->plan_container, parent, d->plan_rights));
    d->next = d->plan_serial + 1;
}

static void applied_end(struct directory *d, uint32_t at)
{
    const struct grant *g = &d->grants[at];
    bool entry = g->flags & GRANT_ENTRY;
    limit_names_gone(d, entry ? g->directory : g->container, 1 + entry);
    grant_end(d, at);
}

static void applied_move(struct directory *d)
{
    bool first = d->plan_serial & DIRECTORY_FIRST, root = d->plan_directory == DIRECTORY_ROOT;
    uint32_t at = first && !root ? grant_first(d, d->plan_container)
                                 : grant_find(d, d->plan_serial);
    if (!at) return;                            /* in the root, by the catalogue's name */
    if (!first || !root) {
        applied_entry(d, at);
    } else {
        d->grants[at].flags &= (uint8_t)~GRANT_ENTRY;
        d->grants[at].directory = DIRECTORY_ROOT;
    }
}

void directory_applied(struct directory *d)
{
    if (d->plan_root) d->root = d->plan_root;
    switch (d->plan) {
    case PLAN_MAKE:
        if (d->plan_directory != DIRECTORY_ROOT)
            applied_entry(d, grant_first(d, d->plan_container));
        break;
    case PLAN_LINK: applied_link(d); break;
    case PLAN_END:
        for (uint32_t i = 0; i < d->ended_count; i++) applied_end(d, d->ended[i]);
        break;
    case PLAN_MOVE: applied_move(d); break;
    case PLAN_DELETE:
        grants_end(d, d->plan_container);
        limits_forget(d, d->plan_container);
        break;
    case PLAN_LIMIT: limit_apply(d, d->plan_directory, d->plan_limit, d->plan_most); break;
    case PLAN_MEND:
    case PLAN_NONE: break;
    }
    if (d->plan == PLAN_MOVE || d->plan == PLAN_DELETE || d->plan == PLAN_MEND)
        limits_count_again(d);
    limit_names_end(d, true);
    d->plan = PLAN_NONE;
    d->plan_root = 0;
    d->changes++;
}

void directory_dropped(struct directory *d)
{
    limit_names_end(d, false);
    d->plan = PLAN_NONE;
    d->plan_root = 0;
}

/* ---- limits ---- */

int directory_limit_set(struct directory *d, struct directory_at at, const char *path,
                        enum directory_limit kind, uint64_t most)
{
    struct directory_found f;
    char name[STORE_NAME_BYTES];
    int r = plan_open(d);
    if (r == 0) r = directory_walk(d, at, path, &f);
    if (r < 0) return r;
    if (!f.is_directory) return -ENOTDIR;
    r = needs(&f, DIRECTORY_MANAGE);
    if (r == 0) r = limits_reserve(d);
    bool is = directory_limit_get(d, f.container, kind) != LIMIT_NONE;
    if (r == 0) r = limit_names_take(d, f.container, !is && most != LIMIT_NONE);
    if (r < 0) return r;
    limit_name(name, kind);
    if (most != LIMIT_NONE)
        change_set(d, change_number(d, f.container), name, most, 0);
    else if (is)
        change_add(d, STORE_OP_NAME_UNSET, directory_number(d, f.container), name);
    d->plan = PLAN_LIMIT;
    d->plan_directory = f.container;
    d->plan_limit = kind;
    d->plan_most = most;
    return 0;
}
