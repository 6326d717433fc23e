/*
 * spread_place.c - which part each leaf of a structure goes to.
 *
 * Leaves that are neighbours in the order of keys are read by one range query, so they are to be on
 * different disks. But a leaf gets its place when it is made, by a split, and between its
 * neighbours others are made later. Here the whole history is known: leaves only come, so those
 * that were made before a leaf, in the order of keys, are its neighbours of that moment.
 */
#include "spread_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Leaves are 1 to n here; 0 and n + 1 are the ends of the list. */
struct history {
    unsigned n, parts;
    const unsigned *order;              /* leaves, from 0, as they were made */
    uint32_t *left, *right;             /* neighbours, when it was made */
    uint64_t load[PS_PARTS_MAX];
    uint8_t *part;
};

/* Takes leaves out of the list, the last one first: what is beside each then was beside it when it
 * was made. */
static void neighbours_find(struct history *h)
{
    for (uint32_t i = 0; i <= h->n + 1; i++) {
        h->left[i] = i ? i - 1 : 0;
        h->right[i] = i <= h->n ? i + 1 : i;
    }
    for (unsigned i = h->n; i-- > 0;) {
        uint32_t leaf = h->order[i] + 1;
        h->right[h->left[leaf]] = h->right[leaf];
        h->left[h->right[leaf]] = h->left[leaf];
    }
}

/* neighbourhood tells how much of the leaf's neighbourhood each part has: the nearest leaf on each
 * side counts 1, the next 1/2, then 1/3, as far as a query that gives each part two leaves. */
static void neighbourhood(const struct history *h, uint32_t leaf, uint64_t *weight)
{
    enum { ONE = 720720 };      /* a multiple of 1 to 2 * PS_PARTS_MAX */
    uint32_t left = leaf, right = leaf;
    memset(weight, 0, h->parts * sizeof *weight);
    for (unsigned step = 1; step <= 2 * h->parts; step++) {
        left = h->left[left];
        right = h->right[right];
        if (left > 0)
            weight[h->part[left - 1]] += ONE / step;
        if (right <= h->n)
            weight[h->part[right - 1]] += ONE / step;
    }
}

/* The part that has least of the neighbourhood; of several the one that has least of all. */
static unsigned balanced(const struct history *h, uint32_t leaf)
{
    uint64_t weight[PS_PARTS_MAX];
    unsigned best = 0;
    neighbourhood(h, leaf, weight);
    for (unsigned p = 1; p < h->parts; p++)
        if (weight[p] < weight[best] ||
            (weight[p] == weight[best] && h->load[p] < h->load[best]))
            best = p;
    return best;
}

/* The history again, forwards. */
static void leaves_place(struct history *h, enum ps_placement rule)
{
    for (unsigned i = 0; i < h->n; i++) {
        uint32_t leaf = h->order[i] + 1;
        h->right[h->left[leaf]] = h->left[h->right[leaf]] = leaf;
        unsigned p = rule == PS_ROUND_ROBIN ? i % h->parts : balanced(h, leaf);
        h->part[leaf - 1] = (uint8_t)p;
        h->load[p]++;
    }
}

int spread_place(const unsigned *order, unsigned leaves, unsigned parts, enum ps_placement rule,
                 uint8_t *part)
{
    struct history h = {.n = leaves, .parts = parts, .order = order, .part = part};
    uint32_t *space = malloc(2 * ((size_t)leaves + 2) * sizeof *space);
    if (!space)
        return -ENOMEM;
    h.left = space;
    h.right = space + leaves + 2;
    neighbours_find(&h);
    leaves_place(&h, rule);
    free(space);
    return 0;
}
