/*
 * directory_who.c - who can reach a container: from its grants up to the directories that have
 * their entries, and from those on up.
 *
 * Each directory is looked at once, so circles end. A step tells one entry and takes no longer than
 * there are directories on the way.
 *
 * Lock: that of the disk library, held by the caller.
 */
#include "directory_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Behind the others, if it is not among them. */
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

/* A container whose first entry is the catalogue's name. 1: this one has none in the root. */
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
