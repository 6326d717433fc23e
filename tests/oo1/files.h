/*
 * files.h - OO1's second layer: files of rows of one size, and B+-trees.
 *
 * Each is a file of the layer below; the trees are those of <structures/tree.h>. Neither keeps
 * bytes for later or makes anything durable: what an operation needs it reads, what it changed it
 * writes. Errors are -errno.
 */
#ifndef OO1_FILES_H
#define OO1_FILES_H

#include "storage.h"

#include <structures/tree.h>

/* ---- rows ---- */

struct rows_head { uint64_t magic, count, row_bytes; };
struct rows {
    struct storage *storage;
    struct rows_head *head;
    uint64_t row_bytes, rows_max;
};
struct row_number { uint32_t n; };      /* what trees lead to */

int rows_open(struct rows *r, const char *name, uint64_t row_bytes, uint64_t rows_max);
int rows_close(struct rows *r);
int rows_set_up(struct rows *r);        /* -EEXIST */
int rows_begin(struct rows *r);         /* first in each operation. -ENODATA: never set up */
static inline uint64_t rows_count(const struct rows *r) { return r->head->count; }
/* The row of that number; NULL with errno: EIO, EUCLEAN (there is none). */
const void *rows_get(struct rows *r, uint64_t number);
int rows_add(struct rows *r, const void *row); /* -ENOSPC */

/* ---- trees ---- */

struct index_head { uint64_t magic, used, free, key_bytes; struct ps_tree tree; };
struct index {
    struct storage *storage;
    struct index_head *head;
    uint64_t key_bytes, bytes_max;
    int has_changed;                    /* the head */
};

int index_open(struct index *index, const char *name, uint64_t key_bytes, uint64_t rows_max);
int index_close(struct index *index);
int index_set_up(struct index *index);  /* before the tree is. -EEXIST */
int index_begin(struct index *index);   /* first in each operation. -ENODATA */
int index_look(struct index *index);    /* before each look into the tree, or change */
int index_written(struct index *index); /* after each change */
struct ps_memory index_memory(struct index *index);
static inline struct ps_tree *index_tree(struct index *index) { return &index->head->tree; }

/* A node of any open index comes to its place; one of the index that index_look was called for last
 * was changed. Only nodes.c needs them, where there are files that have to be read. */
void index_node_read(struct ps_node *node);
void index_node_changed(struct ps_node *node);

#endif
