/* structure_private.h - what the files of the structures share. */
#ifndef PS_STRUCTURE_PRIVATE_H
#define PS_STRUCTURE_PRIVATE_H

#include "structure.h"

#include <errno.h>

/* Setting up: structure_begin fills the head, structure_end makes it valid, or zeros if an error is
 * given, which it returns. */
int structure_begin(struct ps_access *a, const struct ps_instance *i, const struct ps_type *type);
int structure_end(struct ps_access *a, const struct ps_instance *i, int error);
/* Both, for a structure that begins without a node. */
int structure_empty(const struct ps_instance *i, const struct ps_type *type);
/* All is freed: the head is zeros again. */
void structure_clear(struct ps_access *a);

/* FNV-1a, 64 bits; `before`: what came before these bytes, or 0. */
uint64_t structure_hash(uint64_t before, const void *bytes, size_t length);

/* structure_refuses tells why a change must not be: 0, the error of the access object, or
 * -EACCES. */
static inline int structure_refuses(const struct ps_access *a, enum ps_mode mode)
{
    return a->error ? a->error : (int)mode > a->mode ? -EACCES : 0;
}
/* Sets errno from a negative result; NULL. */
void *structure_none(int error);

/* A node of the structure's size, or another object, zeroed, and announced; NULL with errno. */
void *structure_take(const struct ps_access *a);
void *structure_take_near(const struct ps_access *a, size_t bytes, const void *near);
/* Several at once, or none: 0 or -errno. */
int structure_take_all(const struct ps_access *a, void **nodes, unsigned count);
void structure_give(const struct ps_access *a, void *p);

/* The answer of a check: 0; or -EUCLEAN if `what` is wrong; or an error of the access object. */
int structure_sound(int error, const char *what, const char **why);
extern const char structure_unset[];

/* Where a node is just now (ps_memory.fix). */
static inline void *structure_at(const struct ps_access *a, unsigned place, void *node)
{
    return __builtin_expect(a->memory.fix != NULL, 0) ? a->memory.fix(a->memory.arg, place, node)
                                                       : node;
}

/* Every store of a structure is announced by one of these: its memory may want to know before
 * (ps_memory.stores). Here of any bytes. */
static inline void structure_stores(const struct ps_access *a, const void *p, size_t bytes)
{
    if (__builtin_expect(a->memory.stores != NULL, 0))
        a->memory.stores(a->memory.arg, p, bytes);
}
/* ... of a node. */
static inline void structure_changes(const struct ps_access *a, const void *node)
{
    structure_stores(a, node, a->type->node_bytes);
}
/* structure_heads announces a change of the head. */
static inline void structure_heads(const struct ps_access *a)
{
    structure_stores(a, a->head, a->type->head_bytes);
}

/* ... of a node in which it then writes a 0 that is there already: its right is taken at once,
 * before two read it and then wait for each other. */
static inline void structure_claim(const struct ps_access *a, const void *node, uint32_t *zero)
{
    structure_changes(a, node);
    *(volatile uint32_t *)zero = 0;
}

__attribute__((format(printf, 2, 3))) void structure_say(struct ps_sink sink, const char *format,
                                                         ...);

#endif
