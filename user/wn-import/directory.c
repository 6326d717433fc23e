/*
 * directory.c - phase 5: one hash table over all entries and notes.
 *
 * Open addressing with linear probing in segments of 64 KiB: a probe reads one page, seldom two.
 * Words come in alphabetical order, so filling it in place would touch a thousand pages in every
 * transaction. It is therefore filled in volatile memory (4 MB), always in the order of the
 * batches, and then copied: the same picture after each restart, each page written once.
 */
#include "import.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SEGMENTS_PER_STEP 16                /* 1 MiB in a transaction */

static struct wn_slot *image;
static uint32_t image_slots;

/* Slots for this many keys, at most two thirds of them in use; 0: too many. */
static uint32_t slots_for(uint32_t keys)
{
    uint32_t slots = WN_SEGMENT_SLOTS;
    while (slots < keys + keys / 2)
        slots *= 2;
    return slots <= WN_SEGMENT_SLOTS * WN_SEGMENTS_MAX ? slots : 0;
}

static void image_add(const void *object, uint32_t hash, uint8_t kind)
{
    uint32_t i = wn_slot_first(hash, image_slots);
    while (image[i].object != NULL)
        i = (i + 1) & (image_slots - 1);
    image[i].object = object;
    image[i].hash = hash;
    image[i].kind = kind;
}

static int image_build(struct import *im, const struct wn_root *root)
{
    image_slots = slots_for(root->entry_count + root->note_count);
    if (image_slots == 0)
        return import_malformed(im, "index.*", 0, "more words than the directory can hold");
    free(image);
    image = calloc(image_slots, sizeof(*image));
    if (image == NULL)
        return -ENOMEM;
    for (const struct wn_batch *b = root->first; b != NULL; b = b->next)
        for (uint32_t i = 0; b->kind > WN_ENTRIES && i < b->count; i++)
            image_add(b->objects[i], b->keys[i], b->kind);
    return 0;
}

int directory_step(struct import *im, struct wn_root *root)
{
    static int built;
    struct wn_progress *progress = &root->progress;
    int error = built ? 0 : image_build(im, root);

    if (error != 0)
        return error;
    built = 1;
    root->segment_count = image_slots / WN_SEGMENT_SLOTS;
    uint32_t end = progress->file + SEGMENTS_PER_STEP;
    if (end > root->segment_count)
        end = root->segment_count;
    for (; progress->file < end; progress->file++) {
        struct wn_segment *segment = ps_new(im->container, struct wn_segment, NULL);
        if (segment == NULL)
            return -errno;
        memcpy(segment, image + (size_t)progress->file * WN_SEGMENT_SLOTS, sizeof(*segment));
        root->segments[progress->file] = segment;
    }
    if (progress->file == root->segment_count)
        progress->phase = WN_DONE;
    return 0;
}
