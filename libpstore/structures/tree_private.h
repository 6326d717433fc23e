/* tree_private.h - what the files of the tree share. */
#ifndef PS_TREE_PRIVATE_H
#define PS_TREE_PRIVATE_H

#include "node.h"
#include "structure_private.h"
#include "tree.h"

static inline struct ps_tree *tree_of(const struct ps_tree_access *a)
{
    return (struct ps_tree *)(void *)a->base.head;
}

void tree_descend(struct ps_tree_access *a, struct bytes key, int upper, int to_change);
int tree_step(struct ps_tree_access *a, int back);
void tree_edge(struct ps_tree_access *a, int last);
void tree_erase_here(struct ps_tree_access *a);
/* of all trees, by this thread: cursors see that they must look again */
extern __thread uint64_t tree_changes;

#endif
