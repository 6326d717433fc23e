/*
 * object.c - objects of classes, and sets of them, over items.
 *
 * Owns      the classes of this process, by the numbers of their names; the heads of sets, in items
 *           of the type "ps_set".
 * Not here  items (item_layer.c), the hash (structures/hash.c).
 */
#include "object.h"

#include <errno.h>
#include <string.h>

#include "pstore_private.h"

enum { CLASSES_MAX = 64 };

static const struct ps_class *_Atomic classes[CLASSES_MAX];

/* ---- classes ---- */

int ps_class_is_a(const struct ps_class *c, const struct ps_class *of)
{
    while (c && c != of)
        c = c->is_a;
    return c != NULL;
}

static const struct ps_class *class_of(uint32_t number)
{
    for (int i = 0; i < CLASSES_MAX; i++) {
        const struct ps_class *c = classes[(number + (unsigned)i) % CLASSES_MAX];
        if (!c || slot_type_of(c->name) == number)
            return c;
    }
    return NULL;
}

int ps_class_add(const struct ps_class *c)
{
    uint32_t number = type_number(c->name);
    if (!number || class_of(number))
        return number ? -EEXIST : -errno;
    if (c->is_a && class_of(slot_type_of(c->is_a->name)) != c->is_a)
        return -ENOENT;
    if (c->bytes == 0 || (c->is_a && c->is_a->bytes > c->bytes) ||
        (c->type && strcmp(c->type->name, c->name) != 0))
        return -EINVAL;
    int error = c->type ? ps_item_type_add(c->type) : 0;
    for (unsigned i = 0; i < CLASSES_MAX && !error; i++) {
        const struct ps_class *none = NULL;
        if (atomic_compare_exchange_strong(&classes[(number + i) % CLASSES_MAX], &none, c))
            return 0;
    }
    return error ? error : -ENOSPC;
}

/* ---- objects ---- */

ps_item_id ps_object_make(ps_part *part, const struct ps_class *c)
{
    return ps_item_make(part, c->name, c->bytes);
}

const struct ps_class *ps_object_class(ps_item_id id)
{
    if (!ps_begin_access(id, PS_S))
        return NULL;
    const struct ps_class *c = class_of(ps_item_header(id)->type);
    errno = c ? errno : ENOENT;
    return c;
}

void *ps_object_open(ps_item_id id, const struct ps_class *as, int mode)
{
    void *object = ps_begin_access(id, mode);
    if (!object || (ps_class_is_a(class_of(ps_item_header(id)->type), as) &&
                    ps_item_bytes(id) >= as->bytes))
        return object;
    errno = EPROTOTYPE;
    return NULL;
}

const void *ps_object_methods(ps_item_id id)
{
    const struct ps_class *c = ps_object_class(id);
    while (c && !c->methods)
        c = c->is_a;
    return c ? c->methods : NULL;
}

ps_item_id ps_object_next(ps_part *part, const struct ps_class *c, ps_item_id previous)
{
    ps_item_id id = previous;
    while ((id = ps_item_next(part, NULL, id)) != 0 &&
           !ps_class_is_a(class_of(ps_item_header(id)->type), c)) {}
    return id;
}

ps_item_id ps_object_named(ps_container *names, const char *name)
{
    const ps_item_id *id = ps_named(names, name, 0);
    if (id && !*id)
        errno = ENOENT;
    return id ? *id : 0;
}

int ps_object_name(ps_container *names, const char *name, ps_item_id id)
{
    ps_item_id *there = ps_named(names, name, sizeof *there);
    if (!there || !ps_access(there, sizeof *there, PS_X))
        return -errno;
    *there = id;
    return 0;
}

/* ---- sets ---- */

struct none { char unused; };
static int id_order(const ps_item_id *a, const ps_item_id *b) { return (*a > *b) - (*a < *b); }
static uint64_t id_hash(const ps_item_id *id) { return *id; }
PS_HASH(members, ps_item_id, struct none, id_order, id_hash);

/* set_open finds the set's members, behind its lock: 0 or -errno. */
static int set_open(const struct ps_set *s, enum ps_mode mode, struct members *m)
{
    void *head = ps_begin_access(s->id, mode == PS_CHANGE ? PS_X : PS_S);
    if (head && ps_item_header(s->id)->type != slot_type_of("ps_set"))
        return -EPROTOTYPE;
    *m = (struct members){.head = head, .memory = ps_in(s->nodes)};
    return head ? 0 : -errno;
}

ps_item_id ps_set_make(ps_part *part, ps_container *nodes)
{
    struct ps_set s = {ps_item_make(part, "ps_set", sizeof(struct members_head)), nodes};
    struct members m;
    int error = !s.id ? -errno : set_open(&s, PS_CHANGE, &m) ?: members_set_up(&m);
    errno = -error;
    return error ? 0 : s.id;
}

int ps_set_add(const struct ps_set *s, ps_item_id member)
{
    struct members m;
    int error = set_open(s, PS_CHANGE, &m);
    if (error)
        return error;
    PS_ACCESS(members_keyed, a, &m, PS_CHANGE);
    return members_insert(&a, &member, &(struct none){0});
}

int ps_set_remove(const struct ps_set *s, ps_item_id member)
{
    struct members m;
    int error = set_open(s, PS_CHANGE, &m);
    if (error)
        return error;
    PS_ACCESS(members_keyed, a, &m, PS_CHANGE);
    return members_remove(&a, &member);
}

int ps_set_has(const struct ps_set *s, ps_item_id member)
{
    struct members m;
    int error = set_open(s, PS_LOOK, &m);
    if (error)
        return error;
    PS_ACCESS(members_keyed, a, &m, PS_LOOK);
    return members_find(&a, &member) ? 1 : errno == ENOENT ? 0 : -errno;
}

int ps_set_each(const struct ps_set *s, int (*fn)(ps_item_id member, void *arg), void *arg)
{
    struct members m;
    int error = set_open(s, PS_LOOK, &m);
    if (error)
        return error;
    PS_ACCESS(members_range, r, &m, PS_LOOK);
    while (!error && members_next(&r))
        error = fn(*members_key(&r), arg);
    return error ? error : -errno;
}

static int count_one(ps_item_id member, void *count)
{
    (void)member;
    ++*(int64_t *)count;
    return 0;
}

int64_t ps_set_count(const struct ps_set *s)
{
    int64_t count = 0;
    int error = ps_set_each(s, count_one, &count);
    return error ? error : count;
}

int64_t ps_set_sweep(const struct ps_set *s)
{
    struct members m;
    int64_t gone = 0;
    int error = set_open(s, PS_CHANGE, &m);
    if (error)
        return error;
    PS_ACCESS(members_range, r, &m, PS_CHANGE);
    while (!error && members_next(&r))
        if (!ps_begin_access(*members_key(&r), PS_S)) {
            error = errno == ESTALE || errno == ENOENT ? members_drop(&r) : -errno;
            gone += error == 0;
        }
    return error ? error : gone;
}

int ps_set_delete(const struct ps_set *s)
{
    struct members m;
    return set_open(s, PS_CHANGE, &m) ?: members_tear_down(&m) ?: ps_item_delete(s->id);
}
