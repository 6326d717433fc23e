/*
 * directory.c - names, and the ways that they lead: paths are walked, directories listed.
 *
 * Only names that count are entries (DG2): who forges a name on the disk, or keeps one of a grant
 * that is gone, has nothing. A path is as long as its parts, whatever circles there are.
 *
 * Lock: that of the disk library, held by the caller.
 */
#include "directory_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LIST_PIECE = 4096 };
#define LIST_NAMES (1ull << 63)         /* of a cursor: names of a directory come now */

/* ---- names ---- */

bool name_byte_ok(unsigned char c)
{
    return c >= ' ' && c != 127 && c != '/' && c != ':';
}

bool directory_name_ok(const char *name)
{
    size_t length = strnlen(name, STORE_NAME_BYTES);
    if (length == 0 || length == STORE_NAME_BYTES) return false;
    for (size_t i = 0; i < length; i++)
        if (!name_byte_ok((unsigned char)name[i])) return false;
    return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

bool directory_name_reserved(const char *name) { return name[0] >= 3 && name[0] <= 5; }

/* part_take moves the first part of *path into `name`, and *path behind it and its slash. */
static int part_take(const char **path, char name[STORE_NAME_BYTES])
{
    size_t length = strcspn(*path, "/");
    if (length >= STORE_NAME_BYTES) return -ENAMETOOLONG;
    memset(name, 0, STORE_NAME_BYTES);
    memcpy(name, *path, length);
    *path += length;
    if (**path && !*++*path) return -EINVAL;    /* nothing behind a slash */
    return directory_name_ok(name) ? 0 : -EINVAL;
}

/* ---- containers ---- */

uint64_t directory_number(const struct directory *d, uint64_t directory)
{
    return directory == DIRECTORY_ROOT ? d->root : directory;
}

uint64_t directory_of_number(const struct directory *d, uint64_t number)
{
    return number && number == d->root ? DIRECTORY_ROOT : number;
}

bool directory_is(const struct directory *d, uint64_t container)
{
    struct store_container c;
    if (container == DIRECTORY_ROOT) return true;
    return store_container_get(d->store, container, &c) == 0 && c.flags & DIRECTORY_FLAG &&
           container != d->root;
}

bool is_placed(const struct directory *d, uint64_t container)
{
    uint32_t at = grant_find(d, DIRECTORY_FIRST | container);
    return at && d->grants[at].flags & GRANT_ENTRY;
}

uint64_t directory_home(const struct directory *d, uint64_t container)
{
    uint32_t at = grant_find(d, DIRECTORY_FIRST | container);
    return at && d->grants[at].flags & GRANT_ENTRY ? d->grants[at].directory : DIRECTORY_ROOT;
}

bool in_root(const struct directory *d, const struct store_container *c)
{
    return directory_name_ok(c->name) && !is_placed(d, c->object);
}

unsigned directory_up(const struct directory *d, uint64_t container,
                      uint64_t up[DIRECTORY_DEPTH + 1])
{
    unsigned count = 0;
    uint64_t at = container;
    while (at != DIRECTORY_ROOT && count <= DIRECTORY_DEPTH)
        up[count++] = at = directory_home(d, at);
    return count;
}

/* ---- grants ---- */

int directory_grant(struct directory *d, uint64_t serial, uint64_t *container, uint32_t *rights)
{
    struct store_container c;
    uint32_t at = grant_find(d, serial);
    uint64_t number = serial & ~DIRECTORY_FIRST;
    *container = at ? d->grants[at].container : number;
    *rights = at ? d->grants[at].rights : DIRECTORY_ALL;
    if (at || serial == DIRECTORY_ROOT_SERIAL) return 0;
    return serial & DIRECTORY_FIRST && number != d->root &&
                   store_container_get(d->store, number, &c) == 0
               ? 0
               : -EIDRM;
}

uint64_t directory_parent(const struct directory *d, uint64_t serial)
{
    uint32_t at = grant_find(d, serial);
    return at && d->grants[at].parent ? d->grants[d->grants[at].parent].serial : 0;
}

bool directory_below(const struct directory *d, uint64_t serial, uint64_t above)
{
    uint32_t at = grant_find(d, serial);
    while (at && d->grants[at].serial != above) at = d->grants[at].parent;
    return at || serial == above;
}

bool entry_counts(const struct directory *d, uint64_t directory, const struct store_name *entry)
{
    uint32_t at = grant_find(d, entry->address);
    const struct grant *g = &d->grants[at];
    if (!at || g->container != directory_of_number(d, entry->bytes)) return false;
    /* The entry's move is durable, and the table hears of it next. */
    if (d->plan == PLAN_MOVE && g->serial == d->plan_serial && directory == d->plan_directory &&
        strcmp(entry->name, d->plan_name) == 0)
        return true;
    return g->flags & GRANT_ENTRY && g->directory == directory && g->slot == entry->slot;
}

bool grant_name(struct directory *d, uint32_t grant, char name[STORE_NAME_BYTES])
{
    const struct grant *g = &d->grants[grant];
    struct store_name entry;
    uint32_t slot = g->slot;
    uint64_t object;
    if (!(g->flags & GRANT_ENTRY) || store_name_any(d->store, &slot, 1, &object, &entry) < 0 ||
        object != directory_number(d, g->directory) || entry.address != g->serial)
        return false;
    memcpy(name, entry.name, STORE_NAME_BYTES);
    return true;
}

bool directory_entry_name(struct directory *d, uint64_t container, char name[STORE_NAME_BYTES])
{
    struct store_container c;
    uint32_t at = grant_find(d, DIRECTORY_FIRST | container);
    if (at && grant_name(d, at, name)) return true;
    if (store_container_get(d->store, container, &c) < 0) return false;
    memcpy(name, c.name, STORE_NAME_BYTES);
    return true;
}

/* ---- a way ---- */

_Thread_local struct directory_lack directory_lack;

int directory_needs(uint64_t serial, uint32_t has, uint32_t rights, uint32_t up)
{
    if (!(rights & ~has)) return 0;
    directory_lack = (struct directory_lack){serial, has, rights & ~has, up};
    return -EACCES;
}

int directory_way_needs(const struct directory_found *f, unsigned at, uint32_t rights, uint32_t up)
{
    const struct directory_step *s = f->way + at;
    uint32_t missing = rights & ~s->rights;
    for (; s > f->way && !(missing & ~s->own); s--) up++;
    return missing ? directory_needs(s->serial, s->rights, rights, up) : 0;
}

/* way_add adds a step to the way, which leads to what *out is now. */
static void way_add(struct directory_found *out, uint32_t own)
{
    out->way[out->parts] = (struct directory_step){ out->serial, own, out->rights };
}

static int found_in_root(struct directory *d, struct directory_found *out)
{
    struct store_container c;
    if (store_container_find(d->store, out->name, &c) < 0 || !in_root(d, &c)) return -ENOENT;
    out->serial = DIRECTORY_FIRST | c.object;
    out->container = c.object;
    out->is_directory = c.flags & DIRECTORY_FLAG;
    out->rights = out->way[out->parts - 1].rights;
    way_add(out, DIRECTORY_ALL);
    return 0;
}

/* found_look looks out->name up in out->directory: the rights of both (RT7). */
static int found_look(struct directory *d, struct directory_found *out)
{
    struct store_name entry;
    uint64_t number = directory_number(d, out->directory);
    if (out->directory == DIRECTORY_ROOT && found_in_root(d, out) == 0) return 0;
    if (!number || store_name_find(d->store, number, out->name, &entry) < 0 ||
        !entry_counts(d, out->directory, &entry))
        return -ENOENT;
    const struct grant *g = &d->grants[grant_find(d, entry.address)];
    out->serial = g->serial;
    out->container = g->container;
    out->is_directory = g->flags & GRANT_DIRECTORY;
    out->rights = out->way[out->parts - 1].rights & g->rights;
    way_add(out, g->rights);
    return 0;
}

/* walk_step goes from what *out has to one of its entries; `rest` of the path is behind. */
static int walk_step(struct directory *d, struct directory_found *out, const char *rest)
{
    uint32_t up = 1 + (*rest != 0);
    if (!out->is_directory) return -ENOTDIR;
    while ((rest = strchr(rest, '/'))) rest++, up++;
    int r = directory_way_needs(out, out->parts, DIRECTORY_READ, up);
    if (r < 0) return r;
    out->parts++;
    out->directory = out->container;
    out->serial = out->container = 0;
    out->rights = 0;
    out->is_directory = false;
    return found_look(d, out);
}

int directory_walk(struct directory *d, struct directory_at at, const char *path,
                   struct directory_found *out)
{
    memset(out, 0, sizeof(*out));
    if (strnlen(path, DIRECTORY_PATH) == DIRECTORY_PATH) return -ENAMETOOLONG;
    int r = directory_grant(d, at.serial, &out->container, &out->rights);
    if (r < 0) return r;
    out->serial = at.serial;
    out->rights &= at.rights;
    out->is_directory = directory_is(d, out->container);
    way_add(out, out->rights);
    while (r == 0 && *path) {
        if (out->parts == DIRECTORY_PARTS) return -ELOOP;
        r = part_take(&path, out->name);
        if (r == 0) r = walk_step(d, out, path);
        bool link = r == 0 && !(out->serial & DIRECTORY_FIRST);
        if (link && out->links < 4) out->link[out->links] = out->serial;
        out->links += link;
        if (r == -ENOENT && *path) memset(out, 0, sizeof(*out));
    }
    return r;
}

/* ---- lists ---- */

/* list_catalogue lists entries by the catalogue's names: those of the root. 1: that was all. */
static int list_catalogue(struct directory *d, uint64_t *cursor, unsigned *looks,
                          struct directory_entry *out)
{
    struct store_container c;
    while (*looks > 0) {
        --*looks;
        if (store_container_next(d->store, *cursor, &c) < 0) {
            *cursor = LIST_NAMES;
            return 1;
        }
        *cursor = c.object;
        if (!in_root(d, &c)) continue;
        *out = (struct directory_entry){ .serial = DIRECTORY_FIRST | c.object,
                                         .container = c.object, .rights = DIRECTORY_ALL,
                                         .is_directory = c.flags & DIRECTORY_FLAG };
        memcpy(out->name, c.name, STORE_NAME_BYTES);
        return 0;
    }
    return -EAGAIN;
}

static int list_names(struct directory *d, uint64_t directory, uint64_t *cursor, unsigned *looks,
                      struct directory_entry *out)
{
    uint64_t number = directory_number(d, directory), object;
    struct store_name entry;
    while (number && *looks > 0) {
        uint32_t slot = (uint32_t)*cursor, from = slot;
        int r = store_name_any(d->store, &slot, *looks, &object, &entry);
        *cursor = LIST_NAMES | slot;
        *looks -= slot - from;
        if (r < 0) return r;
        if (object != number || directory_name_reserved(entry.name) ||
            !entry_counts(d, directory, &entry))
            continue;
        const struct grant *g = &d->grants[grant_find(d, entry.address)];
        *out = (struct directory_entry){ .serial = g->serial, .container = g->container,
                                         .parent = g->parent ? d->grants[g->parent].serial : 0,
                                         .rights = g->rights,
                                         .is_directory = g->flags & GRANT_DIRECTORY };
        memcpy(out->name, entry.name, STORE_NAME_BYTES);
        return 0;
    }
    return number ? -EAGAIN : -ENOENT;
}

int directory_list(struct directory *d, struct directory_at at, uint64_t *cursor,
                   struct directory_entry *out, unsigned most, unsigned *count)
{
    struct directory_found of;
    unsigned looks = LIST_PIECE;
    *count = 0;
    int r = directory_walk(d, at, "", &of);
    if (r < 0) return r;
    if (!of.is_directory) return -ENOTDIR;
    r = directory_way_needs(&of, 0, DIRECTORY_READ, 0);
    if (r < 0) return r;
    if (of.container != DIRECTORY_ROOT) *cursor |= LIST_NAMES;
    while (*count < most) {
        r = *cursor & LIST_NAMES ? list_names(d, of.container, cursor, &looks, &out[*count])
                                 : list_catalogue(d, cursor, &looks, &out[*count]);
        if (r < 0) return r == -EAGAIN ? 0 : r;
        if (r == 0) out[(*count)++].rights &= of.rights;
    }
    return 0;
}

/* ---- start and end ---- */

int directory_open(struct store *store, struct directory **out, struct directory_report *report)
{
    struct directory_report own;
    if (!report) report = &own;
    *report = (struct directory_report){ .grants = 0 };
    struct directory *d = calloc(1, sizeof(*d));
    if (!d) return -ENOMEM;
    d->store = store;
    int r = grants_reserve(d, 1);
    if (r == 0) r = grants_read(d, report);
    if (r == 0) r = limits_read(d);
    if (r < 0)
        directory_close(d);
    else
        *out = d;
    return r;
}

void directory_close(struct directory *d)
{
    free(d->grants);
    free(d->by_serial);
    free(d->limits);
    free(d);
}
