/* structure.c - what all structures share: their heads are made and checked, access objects
 * opened. */
#include "structure_private.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

uint64_t structure_hash(uint64_t before, const void *bytes, size_t length)
{
    uint64_t hash = before ? before : 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
    return hash;
}

/* All in which the programs that built a structure and open it might differ. */
static uint64_t fingerprint(const struct ps_instance *i, const struct ps_type *type)
{
    const char *order = i->compare_name ? i->compare_name : type->compare_name;
    const char *texts[] = { type->structure, type->name, order ? order : "" };
    uint32_t sizes[] = { type->key_bytes, type->record_bytes, type->node_bytes,
                         (uint32_t)i->flags };
    uint64_t hash = 0;
    for (int n = 0; n < 3; n++)
        hash = structure_hash(hash, texts[n], strlen(texts[n]) + 1);
    return structure_hash(hash, sizes, sizeof sizes);
}

static void shapes_make(struct ps_access *a)
{
    const struct ps_type *t = a->type;
    unsigned key_align = t->key_bytes ? t->key_align : 2;
    for (int branch = 0; branch < 2; branch++) {
        unsigned payload = branch ? sizeof(void *) : t->record_bytes;
        unsigned align = branch ? _Alignof(void *) : t->record_align;
        align = align > key_align ? align : key_align;
        a->shape[branch].align = align;
        a->shape[branch].key_at = (payload + key_align - 1) & ~(key_align - 1);
        a->shape[branch].entry_bytes =
            t->key_bytes ? (a->shape[branch].key_at + t->key_bytes + align - 1) & ~(align - 1) : 0;
    }
}

static void access_make(struct ps_access *a, const struct ps_instance *i,
                        const struct ps_type *type, enum ps_mode mode)
{
    int memory = mode == PS_LOOK || (i->memory.take && i->memory.give);
    *a = (struct ps_access){ .head = i->head,
                             .type = type,
                             .memory = i->memory,
                             .compare = i->compare ? i->compare : type->compare,
                             .search = i->compare || i->flags & PS_DESCENDING ? NULL : type->search,
                             .error = i->head && memory ? 0 : -EINVAL,
                             .mode = mode,
                             .descending = (i->flags & PS_DESCENDING) != 0,
                             .fill = 100 };
    shapes_make(a);
}

void ps_access_open(struct ps_access *a, const struct ps_instance *i, const struct ps_type *type,
                    enum ps_mode mode)
{
    access_make(a, i, type, mode);
    if (a->error == 0 && i->head->fingerprint == 0)
        a->error = -ENODATA;
    else if (a->error == 0 && i->head->fingerprint != fingerprint(i, type))
        a->error = -EPROTOTYPE;
}

static int instance_is_bad(const struct ps_instance *i, const struct ps_type *type)
{
    return !i->head || !i->memory.take || !i->memory.give ||
           (i->name && strlen(i->name) >= sizeof i->head->name) ||
           ((uint32_t)i->flags & ~type->flags) || (i->compare && !i->compare_name) ||
           type->node_bytes < PS_NODE_MIN || type->node_bytes > PS_NODE_MAX ||
           type->node_bytes % 16 != 0;
}

int structure_begin(struct ps_access *a, const struct ps_instance *i, const struct ps_type *type)
{
    if (instance_is_bad(i, type))
        return -EINVAL;
    if (i->head->fingerprint != 0)
        return -EEXIST;
    access_make(a, i, type, PS_CHANGE);
    structure_heads(a);
    memset(i->head, 0, type->head_bytes);
    i->head->node_bytes = type->node_bytes;
    i->head->flags = (uint16_t)i->flags;
    if (i->name)
        strcpy(i->head->name, i->name);
    return 0;
}

int structure_end(struct ps_access *a, const struct ps_instance *i, int error)
{
    if (error)
        structure_clear(a);
    else
        i->head->fingerprint = fingerprint(i, a->type);
    return error;
}

int structure_empty(const struct ps_instance *i, const struct ps_type *type)
{
    struct ps_access a;
    int error = structure_begin(&a, i, type);
    return error ? error : structure_end(&a, i, 0);
}

void structure_clear(struct ps_access *a)
{
    structure_heads(a);
    memset(a->head, 0, a->type->head_bytes);
}

void *structure_none(int error)
{
    errno = -error;
    return NULL;
}

const char structure_unset[] = "the structure was never set up, or with other types";

int structure_sound(int error, const char *what, const char **why)
{
    if (why)
        *why = what;
    return error ? error : what ? -EUCLEAN : 0;
}

void *structure_take_near(const struct ps_access *a, size_t bytes, const void *near)
{
    void *p = a->memory.take(a->memory.arg, bytes, near);
    if (p)
        structure_stores(a, p, bytes);
    return p;
}

void *structure_take(const struct ps_access *a)
{
    return structure_take_near(a, a->type->node_bytes, NULL);
}

int structure_take_all(const struct ps_access *a, void **nodes, unsigned count)
{
    unsigned taken = 0;
    while (taken < count && (nodes[taken] = structure_take(a)))
        taken++;
    if (taken == count)
        return 0;
    int error = errno;
    while (taken > 0)
        structure_give(a, nodes[--taken]);
    return -error;
}

void structure_give(const struct ps_access *a, void *p)
{
    a->memory.give(a->memory.arg, p);
}

void structure_say(struct ps_sink sink, const char *format, ...)
{
    char text[256];
    va_list words;
    va_start(words, format);
    vsnprintf(text, sizeof text, format, words);
    va_end(words);
    sink.write(sink.arg, text);
}
