/*
 * directory_who.c - who can reach a container, and by which path one who has a root can: from its
 * grants up to the directories that have their entries, and from those on up.
 *
 * Each directory is looked at once, so circles end. A step of directory_who tells one entry and
 * takes no longer than there are directories on the way; directory_way looks at each grant once at
 * most, of which there are no more than names: whoever has many hides no way of others.
 *
 * Lock: that of the disk library, held by the caller.
 */
#include "directory_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* queue_add puts a container behind the others, if it is not among them. */
static int queue_add(struct directory_who_cursor *w, uint64_t container)
{
    for (uint32_t i = 0; i < w->tail; i++)
        if (w->queue[i] == container) return 0;
    if ((w->tail & (w->tail + 1)) == 0) {       /* 0, 1, 3, 7 ...: twice as many and one */
        void *more = realloc(w->queue, (2 * (size_t)w->tail + 1) * sizeof(*w->queue));
        if (!more) return -ENOMEM;
        w->queue = more;
    }
    w->queue[w->tail++] = container;
    return 0;
}

static int who_tell(struct directory *d, struct directory_who_cursor *w, uint32_t at,
                    struct directory_who *out)
{
    const struct grant *g = &d->grants[at];
    out->directory = g->directory;
    out->entry.serial = g->serial;
    out->entry.parent = g->parent ? d->grants[g->parent].serial : 0;
    out->entry.container = g->container;
    out->entry.rights = g->rights;
    out->entry.is_directory = g->flags & GRANT_DIRECTORY;
    return queue_add(w, g->directory);
}

/* who_in_root tells the entry that is the catalogue's name. 1: it is none in the root. */
static int who_in_root(struct directory *d, struct directory_who_cursor *w, uint64_t container,
                       struct directory_who *out)
{
    struct store_container c;
    if (container == DIRECTORY_ROOT || store_container_get(d->store, container, &c) < 0 ||
        !in_root(d, &c))
        return 1;
    out->directory = DIRECTORY_ROOT;
    out->entry = (struct directory_entry){ .serial = DIRECTORY_FIRST | container,
                                           .container = container, .rights = DIRECTORY_ALL,
                                           .is_directory = c.flags & DIRECTORY_FLAG };
    memcpy(out->entry.name, c.name, STORE_NAME_BYTES);
    return queue_add(w, DIRECTORY_ROOT);
}

int directory_who(struct directory *d, uint64_t container, struct directory_who_cursor *w,
                  struct directory_who *out)
{
    int r = w->tail ? 0 : queue_add(w, container);
    if (r < 0) return r;
    if (w->tail == 1 && !w->first && !w->row) w->changes = d->changes;
    if (w->changes != d->changes) return -ESTALE;
    memset(out, 0, sizeof(*out));
    for (; w->head < w->tail; w->head++, w->row = 0, w->first = false) {
        uint64_t of = w->queue[w->head];
        if (!w->first) {
            w->first = true;
            r = who_in_root(d, w, of, out);
            if (r <= 0) return r;
        }
        while ((w->row = grant_of(d, of, w->row)))
            if (grant_name(d, w->row, out->entry.name)) return who_tell(d, w, w->row, out);
    }
    return -ENOENT;
}

void directory_who_end(struct directory_who_cursor *w)
{
    free(w->queue);
    *w = (struct directory_who_cursor){ .queue = NULL };
}

/* ---- a path, upwards ---- */

#define WAY_ROOT UINT32_MAX

/* struct place: a container, and by which of its entries it leads down to the one looked for. row:
 * of the entry below; same: another place of its hash, and one; 0: none. */
struct place { uint64_t container; uint32_t row, below, parts, same; };
struct ascent {
    struct place *at;                   /* as many as there are entries, and two */
    uint32_t *first, heads;             /* by hash: the first place, and one */
    uint32_t head, tail;
    uint64_t root;                      /* where the path begins */
    uint32_t wanted;                    /* rights that each entry has */
};

static int ascent_begin(const struct directory *d, struct ascent *w, uint64_t container)
{
    uint32_t room = d->top + 2;
    for (w->heads = 1; w->heads < room;) w->heads *= 2;
    w->at = calloc(1, room * sizeof(*w->at) + w->heads * sizeof(*w->first));
    if (!w->at) return -ENOMEM;
    w->first = (uint32_t *)(w->at + room);
    w->at[w->tail++].container = container;
    return 0;
}

/* place_add makes the directory of an entry of this place one, too. Is it the root? */
static bool place_add(struct ascent *w, uint64_t directory, uint32_t row)
{
    const struct place *from = &w->at[w->head];
    uint32_t *first = &w->first[(directory * 0x9e3779b97f4a7c15ull >> 32) & (w->heads - 1)];
    for (uint32_t i = *first; i; i = w->at[i - 1].same)
        if (w->at[i - 1].container == directory) return false;
    if (from->parts == DIRECTORY_PARTS || directory == w->at[0].container) return false;
    w->at[w->tail++] = (struct place){ .container = directory, .row = row, .below = w->head,
                                       .parts = from->parts + 1, .same = *first };
    *first = w->tail;
    return directory == w->root;
}

/* place_look looks at all entries of the place's container. True: the root is reached. */
static bool place_look(struct directory *d, struct ascent *w)
{
    uint64_t of = w->at[w->head].container;
    struct store_container c;
    char name[STORE_NAME_BYTES];
    if (of != DIRECTORY_ROOT && store_container_get(d->store, of, &c) == 0 && in_root(d, &c) &&
        place_add(w, DIRECTORY_ROOT, WAY_ROOT))
        return true;
    for (uint32_t row = 0; (row = grant_of(d, of, row));) {
        const struct grant *g = &d->grants[row];
        if ((g->rights & w->wanted) == w->wanted && grant_name(d, row, name) &&
            place_add(w, g->directory, row))
            return true;
    }
    return false;
}

/* way_tell writes the path from the last place, which is the root, down. */
static int way_tell(struct directory *d, const struct ascent *w, char path[DIRECTORY_PATH])
{
    size_t used = 0;
    for (uint32_t i = w->tail - 1; i > 0; i = w->at[i].below) {
        char name[STORE_NAME_BYTES];
        struct store_container c;
        if (w->at[i].row != WAY_ROOT) {
            if (!grant_name(d, w->at[i].row, name)) return -ENOENT;
        } else {
            int r = store_container_get(d->store, w->at[w->at[i].below].container, &c);
            if (r < 0) return r;
            memcpy(name, c.name, sizeof(name));
        }
        size_t length = strlen(name);
        if (used + length + 2 > DIRECTORY_PATH) return -ENAMETOOLONG;
        if (used) path[used++] = '/';
        memcpy(path + used, name, length + 1);
        used += length;
    }
    return 0;
}

int directory_way(struct directory *d, struct directory_at at, uint64_t container, uint32_t wanted,
                  char path[DIRECTORY_PATH])
{
    struct ascent w = { .wanted = wanted };
    uint32_t rights;
    int r = directory_grant(d, at.serial, &w.root, &rights);
    if (r < 0) return r;
    path[0] = 0;
    if ((rights & at.rights & wanted) != wanted) return -ENOENT;
    if (w.root == container) return 0;
    r = ascent_begin(d, &w, container);
    if (r < 0) return r;
    for (r = -ENOENT; w.head < w.tail; w.head++)
        if (place_look(d, &w)) {
            r = way_tell(d, &w, path);
            break;
        }
    free(w.at);
    return r;
}
