/*
 * tree.c - a treap: sorted by key as a tree, by priority as a heap.
 *
 * Key and priority of a node never change, and no two are equal; so whatever the order in which
 * nodes came and went, the tree of the same nodes has the same shape.
 */
#include "load.h"

uint64_t tree_key(const struct node *node)
{
    return (uint64_t)node->slot * WORKERS + node->process;
}

/* One to one: multiplications by odd numbers, and shifts folded in. */
uint64_t tree_priority(const struct node *node)
{
    uint64_t x = (tree_key(node) + 1) * 0x9e3779b97f4a7c15u;
    return (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
}

/* Parts a tree into the nodes before a key and those behind it. */
static void split(struct node *tree, uint64_t key, struct node **before, struct node **behind)
{
    while (tree) {
        if (tree_key(tree) < key) {
            SET(*before, tree);
            before = &tree->right;
            tree = tree->right;
        } else {
            SET(*behind, tree);
            behind = &tree->left;
            tree = tree->left;
        }
    }
    SET(*before, NULL);
    SET(*behind, NULL);
}

void tree_insert(struct node **root, struct node *node)
{
    uint64_t key = tree_key(node), priority = tree_priority(node);
    while (*root && tree_priority(*root) > priority)
        root = tree_key(*root) < key ? &(*root)->right : &(*root)->left;
    split(*root, key, &node->left, &node->right);
    SET(*root, node);
}

void tree_delete(struct node **root, const struct node *node)
{
    struct node *left = node->left, *right = node->right;
    while (*root != node)
        root = tree_key(*root) < tree_key(node) ? &(*root)->right : &(*root)->left;
    while (left && right) {
        if (tree_priority(left) > tree_priority(right)) {
            SET(*root, left);
            root = &left->right;
            left = left->right;
        } else {
            SET(*root, right);
            root = &right->left;
            right = right->left;
        }
    }
    SET(*root, left ? left : right);
}
