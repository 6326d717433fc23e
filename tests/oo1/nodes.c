/*
 * nodes.c - trees over files that have to be read: a node is read before the tree looks at it, and
 * written after it was changed.
 *
 * The trees know nothing of files. In the build with file calls the linker (--wrap) puts these
 * functions between tree.c and node.c, both as they are: a child is read when its parent tells
 * where it is, and each function that changes a node says so. In other builds there is nothing to
 * do, and this file is not linked.
 */
#include "files.h"

#include <structures/node.h>

/* A function and the one in its place are of one type. */
#define IN_PLACE_OF(name) __typeof__(name) __real_ps__##name, __wrap_ps__##name

IN_PLACE_OF(node_child);
struct ps_node *__wrap_ps__node_child(const struct ps_node *n, unsigned i)
{
    struct ps_node *child = __real_ps__node_child(n, i);
    index_node_read(child);
    return child;
}

IN_PLACE_OF(node_init);
void __wrap_ps__node_init(struct ps_access *a, struct ps_node *n, unsigned level)
{
    index_node_changed(n);
    __real_ps__node_init(a, n, level);
}

IN_PLACE_OF(node_place);
void *__wrap_ps__node_place(struct ps_access *a, struct ps_node *n, unsigned i, struct bytes key,
                            unsigned record)
{
    index_node_changed(n);
    return __real_ps__node_place(a, n, i, key, record);
}

IN_PLACE_OF(node_insert_fixed);
int __wrap_ps__node_insert_fixed(struct ps_access *a, struct ps_node *n, unsigned i,
                                 const void *key, const void *record)
{
    index_node_changed(n);
    return __real_ps__node_insert_fixed(a, n, i, key, record);
}

IN_PLACE_OF(node_erase);
void __wrap_ps__node_erase(struct ps_access *a, struct ps_node *n, unsigned i)
{
    index_node_changed(n);
    __real_ps__node_erase(a, n, i);
}

IN_PLACE_OF(node_join);
void __wrap_ps__node_join(struct ps_access *a, struct ps_node *left, const struct ps_node *right,
                          struct bytes between)
{
    index_node_changed(left);
    __real_ps__node_join(a, left, right, between);
}
