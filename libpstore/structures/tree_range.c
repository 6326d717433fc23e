/* tree_range.c - generators of the B+-tree: a position that survives changes, in both
 * directions. */
#include "tree_private.h"

#include <errno.h>
#include <string.h>

enum { AT_EDGE, BEFORE_KEY, WITHIN, DROPPED, AT_END };

void ps_tree_range(struct ps_tree_range *r, const void *from, const void *to, int how)
{
    struct ps_tree_access *a = &r->access;
    const void *start = how & PS_DOWN ? to : from;
    r->how = how;
    r->filter = NULL;
    r->equals = 0;
    r->last = how & PS_DOWN ? from : to;
    r->state = start ? BEFORE_KEY : AT_EDGE;
    if (a->base.error == 0 && how & ~(PS_DOWN | PS_BELOW))
        a->base.error = -EINVAL;
    if (a->base.error)
        return;
    struct bytes key = start ? node_probe(&a->base, start) : (struct bytes){ r->key, 0 };
    if (key.length > PS_KEY_MAX)
        a->base.error = -EOVERFLOW;
    else
        memcpy(r->key, key.at, key.length);
    r->key_length = key.length;
    r->last_length = r->last ? node_probe(&a->base, r->last).length : 0;
}

/* From a place between two slots to the one in the generator's direction; 0: there is none. */
static int settle(struct ps_tree_access *a, int back)
{
    if (!back)
        return a->path[0].at < a->path[0].node->count || tree_step(a, 0);
    if (a->path[0].at == 0 && !tree_step(a, 1))
        return 0;
    a->path[0].at--;
    return 1;
}

static int is_here(const struct ps_tree_range *r)
{
    return node_compare(&r->access.base, (struct bytes){ r->key, r->key_length },
                        r->access.path[0].node, r->access.path[0].at) == 0;
}

/* Finds the place again after a change, by its key, and by how many records of that key came. */
static int seek(struct ps_tree_range *r)
{
    struct ps_tree_access *a = &r->access;
    int back = r->how & PS_DOWN, without = r->state == BEFORE_KEY && r->how & PS_BELOW;
    r->seen = tree_changes;
    if (r->state == AT_EDGE)
        tree_edge(a, back);
    else
        tree_descend(a, (struct bytes){ r->key, r->key_length }, back && !without, 0);
    int found = settle(a, back);
    for (uint32_t n = r->equals; found && n > 0 && is_here(r); n--) {
        a->path[0].at += !back;
        found = settle(a, back);
    }
    return found;
}

static int forward(struct ps_tree_range *r)
{
    if (r->state != WITHIN || r->seen != tree_changes)
        return r->state != AT_END && seek(r);
    r->access.path[0].at += !(r->how & PS_DOWN);
    return settle(&r->access, r->how & PS_DOWN);
}

/* Remembers where it is. */
static void note(struct ps_tree_range *r)
{
    struct ps_tree_access *a = &r->access;
    int again = r->equals > 0 && (a->base.head->flags & PS_DUPLICATES) && is_here(r);
    r->equals = again ? r->equals + 1 : 1;
    r->key_length = node_key(&a->base, a->path[0].node, a->path[0].at, r->key).length;
    r->state = WITHIN;
}

static int is_beyond(const struct ps_tree_range *r)
{
    if (!r->last)
        return 0;
    int order = node_order(&r->access.base, (struct bytes){ r->key, r->key_length },
                           (struct bytes){ r->last, r->last_length });
    return r->how & PS_DOWN ? order < 0 : order > 0 || (order == 0 && r->how & PS_BELOW);
}

void *ps_tree_next(struct ps_tree_range *r)
{
    struct ps_tree_access *a = &r->access;
    while (a->base.error == 0 && forward(r)) {
        note(r);
        if (is_beyond(r))
            break;
        void *record = node_record(&a->base, a->path[0].node, a->path[0].at);
        if (!r->filter || r->filter(r->key, record, r->arg))
            return record;
    }
    r->state = AT_END;
    errno = -a->base.error;
    return NULL;
}

int ps_tree_drop(struct ps_tree_range *r)
{
    struct ps_tree_access *a = &r->access;
    int error = structure_refuses(&a->base, PS_CHANGE);
    if (error)
        return error;
    if (r->state != WITHIN)
        return -EINVAL;
    r->equals--;
    if (r->seen != tree_changes && !(seek(r) && is_here(r)))
        return -ENOENT;
    structure_changes(&a->base, a->path[0].node);
    tree_erase_here(a);
    r->state = DROPPED;
    return 0;
}
