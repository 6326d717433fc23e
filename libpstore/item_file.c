/*
 * item_file.c - database files: named groups of containers, each with rights of its own.
 *
 * Owns      struct ps_file and its partitions, volatile handles of this process; the table in the
 *           container "table" of each file, which says what its partitions are.
 * Not here  what lies in a partition (item_header.c).
 *
 * A partition NAME of the file PATH is the container PATH/NAME, and with PS_PART_APART PATH/NAME.h
 * beside it. The table is written first, so an open with PS_CREATE finishes what a cut left.
 */
#include "item_layer_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRIES_MAX = 2 * PARTS_MAX + 1, KEPT_FLAGS = 63 };

struct part_kept {
    char name[PART_NAME], allocator[PART_NAME];
    uint32_t flags;
    uint16_t durability, protection;
};
struct table { struct part_kept part[PARTS_MAX]; };

struct ps_file {
    char path[WIRE_PATH_BYTES];
    struct table kept;                    /* the table, as it was when the file was opened */
    ps_container *table;
    unsigned count;
    struct ps_part part[PARTS_MAX];
};

static ps_part *parts[PS_OPEN_MAX];       /* by the container of their headers */

ps_part *part_of(const ps_container *headers)
{
    return headers ? parts[container_index(headers)] : NULL;
}

/* ---- containers ---- */

enum { PATH = WIRE_PATH_BYTES + STORE_NAME_BYTES };
static void path_of(char out[PATH], const char *path, const char *name, const char *suffix)
{
    snprintf(out, PATH, "%.*s%s%.*s%s", WIRE_PATH_BYTES - 2, path, *path ? "/" : "",
             STORE_NAME_BYTES - 4, name, suffix);
}

/* open_one opens a container, to write if the path gives that right. */
static ps_container *open_one(const struct ps_file *f, const char *name, const char *suffix,
                              int flags, const struct ps_layout *root)
{
    char path[PATH];
    path_of(path, f->path, name, suffix);
    int may = ps_rights(path, NULL);
    if (may > 0 && !(may & PS_MAY_WRITE))
        flags &= ~PS_WRITE;
    return ps_open(path, flags, root);
}

static int root_find(void *part)
{
    struct ps_part *p = part;
    p->root = ps_root(p->headers);
    p->bytes = p->headers->segment[0].end - p->headers->base;
    return p->root ? 0 : -errno;
}

/* form_set sets what the table says of a container, where that may be written. */
static int form_set(ps_container *c, int locking, const struct part_kept *k)
{
    int result = c->flags & PS_WRITE ? 0 : -EROFS;
    if (result == 0 && c->durability != k->durability && c->durability != PS_LOST)
        result = ps_durability(c, k->durability);
    if (result == 0 && c->items != locking)
        result = ps_locking(c, locking);
    if (result == 0 && c->protection != k->protection)
        result = ps_protection(c, k->protection);
    return result == -EROFS ? 0 : result;
}

static int part_open(struct ps_part *p, const struct part_kept *k, int flags)
{
    static const char *const suffix[] = {"", ".h"};
    const struct ps_layout *root = PS_LAYOUT(struct headers, 1);
    int apart = (p->flags & PS_PART_APART) != 0, items = (p->flags & PS_PART_ITEMS) != 0;
    int locking = items && !(p->flags & PS_PART_PAGES) ? PS_LOCK_ITEMS : PS_LOCK_PAGES;
    p->data = open_one(p->file, p->name, suffix[0], flags, items && !apart ? root : NULL);
    ps_container *headers = p->data && apart ? open_one(p->file, p->name, suffix[1], flags, root)
                            : items          ? p->data
                                             : NULL;
    if (!p->data || (items && !headers))
        return -errno;
    p->headers = headers;
    int result = form_set(p->data, locking, k) ?: apart ? form_set(headers, locking, k) : 0;
    if (result != 0)
        return result;
    if (!headers)
        return 0;
    if (parts[container_index(headers)])
        return -EBUSY;
    result = ps_transaction(root_find, p);
    parts[container_index(headers)] = result == 0 ? p : NULL;
    return result;
}

/* ---- the table ---- */

struct wanted { struct ps_file *file; const struct ps_part_wish *wish; int count; };

static int wish_check(const struct ps_part_wish *w)
{
    size_t length = strlen(w->name);
    int apart = (w->flags & PS_PART_APART) != 0;
    const char *allocator = w->allocator ? w->allocator : "objects";
    return length == 0 || length >= PART_NAME || strpbrk(w->name, "./") ||
                   strcmp(w->name, "table") == 0 || w->flags & ~KEPT_FLAGS ||
                   strlen(allocator) >= PART_NAME || !allocator_named(allocator) ||
                   (w->flags & PS_PART_SUMS && w->flags & PS_PART_UNLOCKED) ||
                   ((apart || w->flags & (PS_PART_CHECKED | PS_PART_SUMS)) &&
                    !(w->flags & PS_PART_ITEMS)) ||
                   (strcmp(allocator, "apart") == 0 && !apart)
               ? -EINVAL
               : 0;
}

static int table_write(void *arg)
{
    const struct wanted *w = arg;
    struct table *t = ps_root(w->file->table);
    for (int i = 0; t && i < w->count; i++) {
        const char *allocator = w->wish[i].allocator ? w->wish[i].allocator : "objects";
        struct part_kept *k = t->part;
        while (k < t->part + PARTS_MAX && k->name[0] && strcmp(k->name, w->wish[i].name) != 0)
            k++;
        if (k == t->part + PARTS_MAX)
            return -ENOSPC;
        struct part_kept wanted = {.flags = w->wish[i].flags,
                                   .durability = (uint16_t)w->wish[i].durability,
                                   .protection = (uint16_t)w->wish[i].protection};
        strcpy(wanted.name, w->wish[i].name);
        strcpy(wanted.allocator, allocator);
        if (k->name[0] && memcmp(k, &wanted, sizeof wanted) != 0)
            return -EPROTO;
        *k = wanted;
    }
    return t ? 0 : -errno;
}

static int table_read(void *file)
{
    struct ps_file *f = file;
    const struct table *t = ps_root(f->table);
    f->count = 0;
    if (t)
        f->kept = *t;
    for (unsigned i = 0; t && i < PARTS_MAX && t->part[i].name[0]; i++) {
        const struct part_kept *k = &t->part[i];
        struct ps_part *p = &f->part[f->count++];
        *p = (struct ps_part){.file = f, .flags = k->flags & KEPT_FLAGS};
        memcpy(p->name, k->name, PART_NAME - 1);
        char allocator[PART_NAME] = {0};
        memcpy(allocator, k->allocator, PART_NAME - 1);
        if (!(p->allocator = allocator_named(allocator)))
            return -ENOTSUP;
    }
    return t ? 0 : -errno;
}

/* ---- what programs call ---- */

ps_file *ps_file_open(const char *path, int flags, const struct ps_part_wish *wish, int count)
{
    int result = path && strlen(path) + PART_NAME + 3 < WIRE_PATH_BYTES ? 0 : -EINVAL;
    struct ps_file *f = result == 0 ? calloc(1, sizeof *f) : NULL;
    if (result == 0 && !f)
        result = -ENOMEM;
    for (int i = 0; result == 0 && i < count; i++)
        result = wish_check(&wish[i]);
    if (result == 0 && flags & PS_CREATE && (result = ps_directory_create(path)) == -EEXIST)
        result = 0;
    if (result == 0) {
        strcpy(f->path, path);
        f->table = open_one(f, "table", "", flags & ~PS_EXCLUSIVE, PS_LAYOUT(struct table, 1));
        result = f->table ? 0 : -errno;
    }
    struct wanted wanted = {f, wish, count};
    if (result == 0 && count > 0 && flags & PS_CREATE)
        result = ps_transaction(table_write, &wanted);
    if (result == 0)
        result = ps_transaction(table_read, f);
    for (unsigned i = 0; result == 0 && i < f->count; i++) {
        result = part_open(&f->part[i], &f->kept.part[i], flags & ~PS_EXCLUSIVE);
        if (result != 0)
            f->count = i + 1;
    }
    if (result == 0)
        return f;
    if (f)
        ps_file_close(f);
    errno = -result;
    return NULL;
}

int ps_file_close(ps_file *f)
{
    if (ps_active())
        return -EBUSY;
    header_forget();
    for (struct ps_part *p = f->part; p < f->part + f->count; p++) {
        if (p->headers && part_of(p->headers) == p)
            parts[container_index(p->headers)] = NULL;
        if (p->headers && p->headers != p->data)
            ps_close(p->headers);
        if (p->data)
            ps_close(p->data);
    }
    if (f->table)
        ps_close(f->table);
    free(f);
    return 0;
}

/* each_entry calls fn for each entry of the directory, with its path. */
static int each_entry(const char *path, int (*fn)(const char *path, const struct ps_entry *e,
                                                  void *arg), void *arg)
{
    struct ps_entry entry[ENTRIES_MAX];
    char name[PATH];
    int count = ps_directory_list(path, entry, ENTRIES_MAX), result = 0;
    for (int i = 0; i < count && i < ENTRIES_MAX && result == 0; i++) {
        path_of(name, path, entry[i].name, "");
        result = fn(name, &entry[i], arg);
    }
    return count < 0 ? count : result;
}

static int entry_delete(const char *path, const struct ps_entry *e, void *unused)
{
    (void)unused;
    return e->made_of ? ps_unlink(path) : ps_delete(path);
}

int ps_file_delete(const char *path)
{
    return each_entry(path, entry_delete, NULL) ?: ps_delete(path);
}

struct view { const char *path; unsigned data, headers; };
static int entry_link(const char *path, const struct ps_entry *e, void *arg)
{
    const struct view *v = arg;
    char name[PATH];
    size_t length = strlen(e->name);
    int headers = strcmp(e->name, "table") == 0 || (length > 2 && e->name[length - 2] == '.');
    unsigned rights = headers ? v->headers : v->data;
    int handle = ps_handle(path, rights | PS_MAY_GRANT);
    path_of(name, v->path, e->name, "");
    int result = handle < 0 ? handle : ps_link(handle, name, rights);
    if (handle >= 0)
        ps_drop(handle);
    return result;
}

int ps_file_view(const char *path, const char *view, unsigned data, unsigned headers)
{
    struct view v = {view, data, headers};
    return ps_directory_create(view) ?: each_entry(path, entry_link, &v);
}

ps_part *ps_file_part(ps_file *f, const char *name)
{
    for (struct ps_part *p = f->part; p < f->part + f->count; p++)
        if (strcmp(p->name, name) == 0)
            return p;
    errno = ENOENT;
    return NULL;
}

ps_container *ps_part_data(const ps_part *p) { return p->data; }
ps_container *ps_part_headers(const ps_part *p) { return p->headers; }

struct switched { const ps_part *part; unsigned flags; };
static int table_switch(void *arg)
{
    const struct switched *s = arg;
    struct table *t = ps_root(s->part->file->table);
    for (struct part_kept *k = t ? t->part : NULL; k && k < t->part + PARTS_MAX; k++)
        if (strcmp(k->name, s->part->name) == 0)
            k->flags = s->flags;
    return t ? 0 : -errno;
}

int ps_part_switch(ps_part *p, unsigned flag, int on)
{
    struct switched s = {p, on ? p->flags | flag : p->flags & ~flag};
    if (!(p->flags & PS_PART_ITEMS) || flag & ~(unsigned)(PS_PART_CHECKED | PS_PART_UNLOCKED) ||
        (flag & PS_PART_UNLOCKED && p->flags & PS_PART_SUMS))
        return -EINVAL;
    int result = p->file->table->flags & PS_WRITE ? ps_transaction(table_switch, &s) : -EROFS;
    if (result == 0)
        p->flags = s.flags;
    return result;
}
