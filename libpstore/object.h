/*
 * object.h - objects: items (item_layer.h) of classes, which have identity and come in sets.
 *
 * A class says how large its objects are, whose they are too (`is_a`: their first bytes are those
 * of that class), and what can be done with them: `methods`, a table of functions. An object keeps
 * its class's name as its header's type, not a pointer to such a table, so there is nothing to mend
 * when another program, or the next build of this one, finds it: ps_object_methods leads from the
 * object to this program's table.
 *
 * A set is an item, too: a hash of identifiers, whose nodes lie in a container that locks pages. An
 * object's extent, all objects of its class and of those below it, needs none: ps_object_next.
 *
 * In a transaction, as all about items. Sets and extents give identifiers; that of an object which
 * was deleted is -ESTALE in a partition with PS_PART_CHECKED, and ps_set_sweep takes it out.
 */
#ifndef PS_OBJECT_H
#define PS_OBJECT_H

#include <item_layer.h>
#include <structures/hash.h>

struct ps_class {
    const char *name;
    const struct ps_class *is_a;        /* NULL: of none */
    size_t bytes;
    const void *methods;                /* NULL: as those of is_a */
    const struct ps_item_type *type;    /* functions (of the same name), or NULL */
};
/* ps_class_add makes a class known from now on; `c` stays where it is. Its is_a comes before it
 * (-ENOENT), and is not larger (-EINVAL). -EEXIST; -ENOSPC: 64 are known; what ps_item_type_add
 * returns. */
int ps_class_add(const struct ps_class *c);
int ps_class_is_a(const struct ps_class *c, const struct ps_class *of);

ps_item_id ps_object_make(ps_part *part, const struct ps_class *c);
/* ps_object_class returns the class; NULL: ENOENT: it is not known here, or as ps_begin_access. */
const struct ps_class *ps_object_class(ps_item_id id);
/* ps_object_open begins an access to an object, which has to be of class `as` (EPROTOTYPE). */
void *ps_object_open(ps_item_id id, const struct ps_class *as, int mode);
/* ps_object_methods returns the nearest table of methods from its class up; NULL. */
const void *ps_object_methods(ps_item_id id);
/* ps_object_next: an extent's next object, of that class or below, behind `previous` (0: first). */
ps_item_id ps_object_next(ps_part *part, const struct ps_class *c, ps_item_id previous);
/* ps_object_named: where programs begin, the identifier of that name, 0: ENOENT; and its change. */
ps_item_id ps_object_named(ps_container *names, const char *name);
int ps_object_name(ps_container *names, const char *name, ps_item_id id);

/* ---- sets ---- */

/* A ps_set is an instance, volatile: the set of this identifier, with nodes in that container. */
struct ps_set { ps_item_id id; ps_container *nodes; };
ps_item_id ps_set_make(ps_part *part, ps_container *nodes);
int ps_set_add(const struct ps_set *s, ps_item_id member);     /* -EEXIST */
int ps_set_remove(const struct ps_set *s, ps_item_id member);  /* -ENOENT */
int ps_set_has(const struct ps_set *s, ps_item_id member);     /* 1, 0, -errno */
/* ps_set_each calls fn for each member, in no order, until one returns other than 0: that. */
int ps_set_each(const struct ps_set *s, int (*fn)(ps_item_id member, void *arg), void *arg);
int64_t ps_set_count(const struct ps_set *s);
/* ps_set_sweep takes out what is deleted: how many. */
int64_t ps_set_sweep(const struct ps_set *s);
int ps_set_delete(const struct ps_set *s);                      /* its members stay */

#endif
