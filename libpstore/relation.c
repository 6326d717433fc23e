/*
 * relation.c - tuples that are items, with a hash of their keys beside them.
 *
 * Owns      the index's head, an object of the index's container that has the schema's name.
 * Not here  tuples (item_layer.c), the hash (structures/hash.c).
 *
 *   TU1  Each tuple has one entry in the index, under its key, and each entry a tuple.
 */
#include "relation.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

uint64_t ps_bytes_hash(const void *bytes, size_t count)
{
    uint64_t hash = count, word;
    for (const char *at = bytes; count > 0; at += sizeof word) {
        word = 0;
        size_t part = count < sizeof word ? count : sizeof word;
        memcpy(&word, at, part);
        hash = ((hash << 23 | hash >> 41) ^ word) * 0x9e3779b97f4a7c15ull;
        count -= part;
    }
    return hash;
}

/* whole locks the relation as a whole, by the number of its index's head. */
static int whole(const struct ps_relation *r, int mode)
{
    return ps_key(ps_part_data(r->tuples), (uintptr_t)r->index.base.head, mode);
}

int ps_relation_open(struct ps_relation *r, const struct ps_schema *schema, ps_part *tuples,
                     ps_container *index)
{
    char name[64];
    snprintf(name, sizeof name, "relation %s", schema->index.name);
    struct ps_head *head = ps_named(index, name, sizeof(struct ps_hash));
    if (!head)
        return -errno;
    struct ps_instance instance = {.head = head, .memory = ps_in(index)};
    int error = head->fingerprint ? 0 : ps_hash_set_up(&instance, &schema->index);
    *r = (struct ps_relation){.schema = schema, .tuples = tuples};
    ps_access_open(&r->index.base, &instance, &schema->index, PS_CHANGE);
    return error ? error : r->index.base.error;
}

ps_item_id ps_relation_id(const struct ps_relation *r, const void *key)
{
    struct ps_hash_access a = r->index;
    const ps_item_id *id = ps_hash_find(&a, key, PS_LOOK);
    return id ? *id : 0;
}

void *ps_relation_find(const struct ps_relation *r, const void *key, int mode)
{
    int error = whole(r, mode == PS_S ? PS_IS : PS_IX);
    ps_item_id id = error ? 0 : ps_relation_id(r, key);
    if (error)
        errno = -error;
    return id ? ps_begin_access(id, mode) : NULL;
}

int ps_relation_insert(const struct ps_relation *r, const void *tuple)
{
    const char *key = (const char *)tuple + r->schema->key_at;
    struct ps_hash_access a = r->index;
    int error = whole(r, PS_IX);
    if (error || ps_hash_find(&a, key, PS_LOOK))
        return error ? error : -EEXIST;
    if (errno != ENOENT)
        return -errno;
    ps_item_id id = ps_item_make(r->tuples, r->schema->type, r->schema->bytes);
    if (!id)
        return -errno;
    error = ps_item_put(id, tuple, r->schema->bytes) ?: ps_hash_insert(&a, key, &id, 0); /* TU1 */
    if (error)
        ps_item_delete(id);
    return error;
}

int ps_relation_delete(const struct ps_relation *r, const void *key)
{
    struct ps_hash_access a = r->index;
    int error = whole(r, PS_IX);
    ps_item_id id = error ? 0 : ps_relation_id(r, key);
    if (!id)
        return error ? error : -errno;
    return ps_hash_remove(&a, key) ?: ps_item_delete(id);
}

void *ps_selection_next(struct ps_selection *s)
{
    int error = s->at ? 0 : whole(s->of, s->mode);
    while (!error && (s->at = ps_item_next(s->of->tuples, s->of->schema->type, s->at)) != 0) {
        void *tuple = ps_begin_access(s->at, PS_S);
        if (tuple && s->where && !s->where(tuple, s->arg))
            continue;
        return tuple && s->mode == PS_X ? ps_begin_access(s->at, PS_X) : tuple;
    }
    if (error)
        errno = -error;
    return NULL;
}

int64_t ps_relation_check(const struct ps_relation *r)
{
    int64_t tuples = 0, entries = 0;
    struct ps_selection s = {.of = r, .mode = PS_S};
    for (const char *t; (t = ps_selection_next(&s)) != NULL; tuples++)
        if (ps_relation_id(r, t + r->schema->key_at) != s.at ||
            ps_item_bytes(s.at) != r->schema->bytes)
            return -EUCLEAN;
    if (errno)
        return -errno;
    struct ps_hash_range range;
    range.access = r->index;
    ps_hash_range(&range);
    for (const ps_item_id *id; (id = ps_hash_next(&range)) != NULL; entries++)
        if (!ps_begin_access(*id, PS_S))
            return -EUCLEAN;
    return errno ? -errno : entries == tuples ? tuples : -EUCLEAN;
}
