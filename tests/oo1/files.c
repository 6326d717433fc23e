/* files.c - OO1's second layer: files of rows, and the memory of trees. */
#include "files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAGIC 0x31544c4954525331ull
#define INDEX_MAGIC 0x3158444e4953314full
enum { BLOCK = 4096, CHANGED_MAX = 64, INDEXES = 8 };

static uint64_t blocks(uint64_t bytes) { return (bytes + BLOCK - 1) / BLOCK * BLOCK; }

/* Brings bytes to their place, which is known. */
static int bring(struct storage *s, uint64_t at, size_t bytes)
{
    storage_seek(s, at);
    return storage_read(s, bytes) ? 0 : -errno;
}

static int written(struct storage *s, uint64_t at, size_t bytes)
{
    storage_seek(s, at);
    return storage_write(s, bytes);
}

/* ---- rows ---- */

int rows_open(struct rows *r, const char *name, uint64_t row_bytes, uint64_t rows_max)
{
    *r = (struct rows){.row_bytes = row_bytes, .rows_max = rows_max};
    if (rows_max > UINT32_MAX)
        return -EFBIG;
    r->storage = storage_open(name, BLOCK + blocks(row_bytes * rows_max));
    return r->storage ? 0 : -errno;
}

int rows_close(struct rows *r) { return storage_close(r->storage); }

static int rows_head_read(struct rows *r)
{
    storage_seek(r->storage, 0);
    r->head = storage_read(r->storage, sizeof *r->head);
    return r->head ? 0 : -errno;
}

int rows_set_up(struct rows *r)
{
    int error = rows_head_read(r);
    if (error || r->head->magic)
        return error ? error : -EEXIST;
    *r->head = (struct rows_head){ROWS_MAGIC, 0, r->row_bytes};
    return written(r->storage, 0, sizeof *r->head);
}

int rows_begin(struct rows *r)
{
    int error = rows_head_read(r);
    if (error)
        return error;
    if (r->head->magic != ROWS_MAGIC)
        return r->head->magic ? -EUCLEAN : -ENODATA;
    return r->head->row_bytes == r->row_bytes ? 0 : -EPROTOTYPE;
}

static uint64_t row_at(const struct rows *r, uint64_t number)
{
    return BLOCK + number * r->row_bytes;
}

const void *rows_get(struct rows *r, uint64_t number)
{
    if (number >= r->head->count) {
        errno = EUCLEAN;
        return NULL;
    }
    storage_seek(r->storage, row_at(r, number));
    return storage_read(r->storage, r->row_bytes);
}

int rows_add(struct rows *r, const void *row)
{
    uint64_t number = r->head->count;
    if (number == r->rows_max)
        return -ENOSPC;
    storage_seek(r->storage, row_at(r, number));
    void *place = storage_read(r->storage, r->row_bytes);
    if (!place)
        return -errno;
    memcpy(place, row, r->row_bytes);
    int error = written(r->storage, row_at(r, number), r->row_bytes);
    if (error)
        return error;
    r->head->count++;
    return written(r->storage, 0, sizeof *r->head);
}

/* ---- trees ---- */

static struct index *indexes[INDEXES];   /* that are open */
static struct ps_node *changed[CHANGED_MAX]; /* since the last index_written */
static unsigned changed_count;

int index_open(struct index *index, const char *name, uint64_t key_bytes, uint64_t rows_max)
{
    *index = (struct index){.key_bytes = key_bytes};
    /* an entry has a key, a row's number and a slot of 2 bytes; nodes are half full at least */
    index->bytes_max = blocks(rows_max * (key_bytes + 8) * 5 / 2) + 16 * BLOCK;
    index->storage = storage_open(name, index->bytes_max);
    for (int i = 0; i < INDEXES && index->storage; i++)
        if (!indexes[i]) {
            indexes[i] = index;
            return 0;
        }
    return index->storage ? -EMFILE : -errno;
}

int index_close(struct index *index)
{
    for (int i = 0; i < INDEXES; i++)
        if (indexes[i] == index)
            indexes[i] = NULL;
    return storage_close(index->storage);
}

static int index_head_read(struct index *index)
{
    storage_seek(index->storage, 0);
    index->head = storage_read(index->storage, sizeof *index->head);
    changed_count = 0;
    return index->head ? 0 : -errno;
}

int index_set_up(struct index *index)
{
    int error = index_head_read(index);
    if (error || index->head->magic)
        return error ? error : -EEXIST;
    index->head->magic = INDEX_MAGIC;
    index->head->used = BLOCK;
    index->head->key_bytes = index->key_bytes;
    index->has_changed = 1;
    return 0;
}

int index_begin(struct index *index)
{
    int error = index_head_read(index);
    if (error)
        return error;
    if (index->head->magic != INDEX_MAGIC)
        return index->head->magic ? -EUCLEAN : -ENODATA;
    return index->head->key_bytes == index->key_bytes ? 0 : -EPROTOTYPE;
}

static uint64_t node_at(const struct index *index, const void *node)
{
    return (uint64_t)((const char *)node - (const char *)index->head);
}

int index_look(struct index *index)
{
    return bring(index->storage, node_at(index, index->head->tree.root), PS_NODE_BYTES);
}

int index_written(struct index *index)
{
    int error = 0;
    for (; changed_count > 0 && error == 0; changed_count--)
        error = written(index->storage, node_at(index, changed[changed_count - 1]),
                        PS_NODE_BYTES);
    if (error || !index->has_changed)
        return error;
    index->has_changed = 0;
    return written(index->storage, 0, sizeof *index->head);
}

static int has_changed(const struct ps_node *node)
{
    for (unsigned i = 0; i < changed_count; i++)
        if (changed[i] == node)
            return 1;
    return 0;
}

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "oo1: %s\n", what);
    abort();
}

/* The open index in which the node lies. */
static struct index *index_of(const struct ps_node *node)
{
    for (int i = 0; i < INDEXES; i++)
        if (indexes[i] && node_at(indexes[i], node) < indexes[i]->bytes_max)
            return indexes[i];
    fail("a node lies in no index");
}

void index_node_read(struct ps_node *node)
{
    struct index *index = index_of(node);
    if (!has_changed(node) && bring(index->storage, node_at(index, node), PS_NODE_BYTES))
        fail("a node cannot be read");
}

void index_node_changed(struct ps_node *node)
{
    if (has_changed(node))
        return;
    if (changed_count == CHANGED_MAX)
        fail("too many nodes were changed at once");
    changed[changed_count++] = node;
}

/* Nodes are blocks of the file, from its second one on; those that came back are a list. */
static void *node_take(void *arg, size_t bytes, const void *near)
{
    struct index *index = arg;
    struct index_head *head = index->head;
    uint64_t at = head->free ? head->free : head->used;
    (void)near;
    if (bytes > BLOCK || at + BLOCK > index->bytes_max || bring(index->storage, at, BLOCK)) {
        errno = bytes > BLOCK ? EINVAL : ENOSPC;
        return NULL;
    }
    char *node = (char *)head + at;
    if (head->free)
        head->free = *(uint64_t *)(void *)node;
    else
        head->used += BLOCK;
    index->has_changed = 1;
    return memset(node, 0, BLOCK);
}

static void node_give(void *arg, void *node)
{
    struct index *index = arg;
    *(uint64_t *)node = index->head->free;
    index->head->free = node_at(index, node);
    index->has_changed = 1;
    if (written(index->storage, index->head->free, sizeof(uint64_t)))
        fail("a node cannot be written");
}

struct ps_memory index_memory(struct index *index)
{
    return (struct ps_memory){.take = node_take, .give = node_give, .arg = index};
}
