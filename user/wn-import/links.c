/*
 * links.c - phase 2: file offsets in links become pointers; one batch in a transaction. With its
 * links a synset's sense keys are known, so its words get their tag counts here too.
 *
 * The map from (pos, file offset) to address is volatile: two sorted arrays for each part of
 * speech, 12 bytes for a synset, copied from the batches, which hold both in the file's order.
 */
#include "import.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct {
    uint32_t count;
    uint32_t *offsets;                      /* ascending */
    struct wn_synset **synsets;
} map[WN_POS_END];
static int map_built;

/* Room for the synsets of every part of speech. */
static int map_allocate(const struct wn_root *root)
{
    uint32_t counts[WN_POS_END] = {0};

    for (const struct wn_batch *b = root->first; b != NULL; b = b->next)
        if (b->kind > WN_SYNSETS && b->kind < WN_POS_END)
            counts[b->kind] += b->count;
    for (int pos = WN_NOUN; pos < WN_POS_END; pos++) {
        free(map[pos].offsets);
        free(map[pos].synsets);
        map[pos].count = 0;
        map[pos].offsets = malloc((counts[pos] + 1) * sizeof(uint32_t));
        map[pos].synsets = malloc((counts[pos] + 1) * sizeof(struct wn_synset *));
        if (map[pos].offsets == NULL || map[pos].synsets == NULL)
            return -ENOMEM;
    }
    return 0;
}

int map_build(const struct wn_root *root)
{
    if (map_built)
        return 0;
    int error = map_allocate(root);
    if (error != 0)
        return error;
    for (const struct wn_batch *b = root->first; b != NULL; b = b->next) {
        if (b->kind == WN_SYNSETS || b->kind >= WN_POS_END)
            continue;
        memcpy(map[b->kind].offsets + map[b->kind].count, b->keys, b->count * sizeof(uint32_t));
        memcpy(map[b->kind].synsets + map[b->kind].count, b->objects, b->count * sizeof(void *));
        map[b->kind].count += b->count;
    }
    map_built = 1;                          /* last: a transaction run again starts afresh */
    return 0;
}

struct wn_synset *map_find(uint32_t pos, uint32_t file_offset)
{
    if (pos == 0 || pos >= WN_POS_END)
        return NULL;
    uint32_t low = 0, high = map[pos].count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (map[pos].offsets[middle] < file_offset)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == map[pos].count || map[pos].offsets[low] != file_offset)
        return NULL;
    return map[pos].synsets[low];
}

static int synset_link(struct import *im, struct wn_synset *synset)
{
    for (uint32_t i = 0; i < synset->link_count; i++) {
        uint64_t name = (uintptr_t)synset->links[i].target;
        struct wn_synset *target = map_find((uint32_t)(name >> 32), (uint32_t)name);
        if (target == NULL)
            return import_malformed(im, data_names[synset->pos - 1], synset->file_offset,
                                    "it points at a synset that is not there");
        synset->links[i].target = target;
    }
    for (uint32_t i = 0; i < synset->word_count; i++) {
        uint32_t count = counts_find(synset, &synset->words[i]);
        if (count != 0)
            synset->words[i].tag_count = count;
    }
    return 0;
}

int links_step(struct import *im, struct wn_root *root)
{
    struct wn_progress *progress = &root->progress;
    struct wn_batch *batch = progress->batch;
    int error = map_build(root);

    if (error == 0)
        error = counts_build(im);
    for (uint32_t i = 0; error == 0 && i < batch->count; i++)
        error = synset_link(im, batch->objects[i]);
    if (error != 0)
        return error;
    progress->batch = batch->next;
    progress->byte_offset += batch->count;  /* here it counts synsets */
    if (progress->batch == NULL) {
        progress->phase = WN_PHASE_ENTRIES;
        progress->byte_offset = 0;
    }
    return 0;
}
