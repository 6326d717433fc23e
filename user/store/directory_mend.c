/*
 * directory_mend.c - what a start finds and mends, before anybody is served.
 *
 * Stores from before there were directories may have containers whose names would be taken for
 * paths; and names may be left over that name nothing: entries of containers that were deleted with
 * more of them than one transaction has, or rows and entries that somebody forged. Each piece is a
 * transaction that is whole in itself, so a start that is cut off leaves less for the next one.
 *
 * Lock: that of the disk library, held by the caller.
 */
#include "directory_table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { MEND_PIECE = 4096 };

/* ---- names with bytes that an entry's name cannot have ---- */

static bool name_taken(struct directory *d, const char *name)
{
    struct store_container c;
    struct store_name link;
    for (uint32_t i = 0; i < d->change.count; i++)
        if (strcmp(d->change.names[i], name) == 0) return true;
    return store_container_find(d->store, name, &c) == 0 ||
           (d->root && store_name_find(d->store, d->root, name, &link) == 0);
}

/* name_mended makes "a_b" of "a/b"; if that is taken "a_b_2", "a_b_3" ... */
static void name_mended(struct directory *d, const char *from, char to[STORE_NAME_BYTES])
{
    char base[STORE_NAME_BYTES] = "", end[16] = "";
    memcpy(base, from, strnlen(from, STORE_NAME_BYTES - 1));
    for (char *c = base; *c; c++)
        if (!name_byte_ok((unsigned char)*c)) *c = '_';
    if (strcmp(base, ".") == 0 || strcmp(base, "..") == 0) base[0] = '_';
    for (unsigned i = 2;; i++) {
        size_t most = STORE_NAME_BYTES - 1 - strlen(end);
        snprintf(to, STORE_NAME_BYTES, "%.*s%s", (int)most, base, end);
        if (!name_taken(d, to)) return;
        snprintf(end, sizeof(end), "_%u", i);
    }
}

/* containers_mend mends names; the manager's own, which is none in the root, stays. */
static bool containers_mend(struct directory *d)
{
    struct store_container c;
    char to[STORE_NAME_BYTES];
    while (d->change.count < DIRECTORY_NAMES &&
           store_container_next(d->store, d->mend_container, &c) == 0) {
        d->mend_container = c.object;
        if (directory_name_ok(c.name) || strcmp(c.name, DIRECTORY_ROOT_NAME) == 0) continue;
        name_mended(d, c.name, to);
        memcpy(d->renamed[d->renamed_count++].from, c.name, STORE_NAME_BYTES);
        change_add(d, STORE_OP_RENAME, c.object, to);
    }
    return d->change.count > 0;
}

/* ---- what names nothing ---- */

static bool row_counts(struct directory *d, uint64_t number, const struct store_name *row)
{
    uint64_t serial = row_serial(row->name);
    uint32_t at = serial && !(serial & DIRECTORY_FIRST) ? grant_find(d, serial) : 0;
    if (number == d->root && strcmp(row->name, next_serial_name) == 0) return true;
    return at && d->grants[at].container == directory_of_number(d, number);
}

static bool is_left_over(struct directory *d, uint64_t number, const struct store_name *name)
{
    uint64_t directory = directory_of_number(d, number);
    if (name->name[0] == 4) return !row_counts(d, number, name);
    if (directory_name_reserved(name->name) || !directory_is(d, directory)) return false;
    return !entry_counts(d, directory, name);
}

static bool names_mend(struct directory *d)
{
    struct store_name name;
    uint64_t object;
    int r = 0;
    while (d->change.count < DIRECTORY_NAMES && r != -ENOENT) {
        r = store_name_any(d->store, &d->mend_slot, MEND_PIECE, &object, &name);
        if (r == 0 && is_left_over(d, object, &name))
            change_add(d, STORE_OP_NAME_UNSET, object, name.name);
    }
    return d->change.count > 0;
}

int directory_mend(struct directory *d)
{
    if (d->plan != PLAN_NONE) return -EBUSY;
    change_begin(d);
    if (!containers_mend(d) && !names_mend(d)) return -ENOENT;
    d->plan = PLAN_MEND;
    return 0;
}

bool directory_renamed(const struct directory *d, unsigned i, const char **from, const char **to)
{
    if (i >= d->renamed_count) return false;
    *from = d->renamed[i].from;
    *to = d->change.names[i];
    return true;
}
