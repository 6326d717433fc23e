/*
 * model.c - containers, names and leaves in memory: arrays, and two chained tables for leaves.
 *
 * The tables have nothing to do with the linear hash on the disk.
 */
#include "view.h"

#include <stdlib.h>
#include <string.h>

#define HEADS_FIRST 64u

uint32_t kbits(uint32_t mask)
{
    return (uint32_t)__builtin_popcount(mask);
}

bool karray_room(void **array, uint32_t count, uint32_t *room, size_t bytes)
{
    if (count < *room)
        return true;
    uint32_t more = *room ? 2 * *room : 16;
    void *grown = more > *room ? realloc(*array, more * bytes) : NULL;
    if (!grown)
        return false;
    *array = grown;
    *room = more;
    return true;
}

void kmodel_init(struct kmodel *model, uint32_t extent_pages)
{
    memset(model, 0, sizeof *model);
    model->extent_pages = extent_pages;
    model->leaf_size = sizeof(struct kleaf) + extent_pages * (8u + 4u + 4u);
    model->next_object = 1;
}

void kmodel_free(struct kmodel *model)
{
    free(model->containers);
    free(model->names);
    free(model->leaves);
    free(model->by_key);
    free(model->by_physical);
    free(model->records);
    free(model->freed);
    free(model->chains);
    kdoubts_free(model);
    memset(model, 0, sizeof *model);
}

/* ---- containers and names */

struct kcontainer *kmodel_container(struct kmodel *model, uint64_t object)
{
    uint32_t last = model->container_last;
    if (last < model->container_count && model->containers[last].object == object)
        return &model->containers[last];
    for (uint32_t i = 0; i < model->container_count; i++)
        if (model->containers[i].object == object) {
            model->container_last = i;
            return &model->containers[i];
        }
    return NULL;
}

int kmodel_container_add(struct kmodel *model, const struct container_disk *container)
{
    if (!karray_room((void **)&model->containers, model->container_count, &model->container_room,
                     sizeof *model->containers))
        return -ENOMEM;
    model->containers[model->container_count++] =
        (struct kcontainer){ .object = le64_get(container->object), .disk = *container };
    return 0;
}

void kmodel_container_remove(struct kmodel *model, struct kcontainer *container)
{
    *container = model->containers[--model->container_count];
}

struct kname *kmodel_name(struct kmodel *model, uint64_t object, const char *name)
{
    for (uint32_t i = 0; i < model->name_count; i++)
        if (model->names[i].object == object && kname_equal(model->names[i].value.name, name))
            return &model->names[i];
    return NULL;
}

int kmodel_name_add(struct kmodel *model, uint64_t object, const struct name_value_disk *value)
{
    if (!karray_room((void **)&model->names, model->name_count, &model->name_room,
                     sizeof *model->names))
        return -ENOMEM;
    model->names[model->name_count++] = (struct kname){ object, *value };
    return 0;
}

void kmodel_name_remove(struct kmodel *model, struct kname *name)
{
    *name = model->names[--model->name_count];
}

/* ---- leaves */

static struct kleaf *leaf_slot(const struct kmodel *model, uint32_t slot)
{
    return (struct kleaf *)(model->leaves + slot * model->leaf_size);
}

struct kleaf *kmodel_leaf_at(const struct kmodel *model, uint32_t slot)
{
    struct kleaf *leaf = leaf_slot(model, slot);
    return leaf->live ? leaf : NULL;
}

static uint32_t head_of(const struct kmodel *model, uint64_t a, uint64_t b)
{
    uint64_t sum = (a ^ b >> 32 ^ b << 32) * 0xd6e8feb86659fd93ull + b;
    return (uint32_t)(sum >> 32 ^ sum) & (model->head_count - 1);
}

static uint32_t *key_head(const struct kmodel *model, const struct kleaf *leaf)
{
    return &model->by_key[head_of(model, leaf->object, leaf->index)];
}

static uint32_t *physical_head(const struct kmodel *model, const struct kleaf *leaf)
{
    return &model->by_physical[head_of(model, leaf->physical, 0)];
}

static void chains_enter(struct kmodel *model, uint32_t slot)
{
    struct kleaf *leaf = leaf_slot(model, slot);
    uint32_t *key = key_head(model, leaf), *physical = physical_head(model, leaf);
    leaf->next_key = *key;
    leaf->next_physical = *physical;
    *key = *physical = slot + 1;
}

static bool heads_grow(struct kmodel *model)
{
    uint32_t count = model->head_count ? 2 * model->head_count : HEADS_FIRST;
    uint32_t *key = calloc(count, sizeof *key), *physical = calloc(count, sizeof *physical);
    if (!key || !physical) {
        free(key);
        free(physical);
        return false;
    }
    free(model->by_key);
    free(model->by_physical);
    model->by_key = key;
    model->by_physical = physical;
    model->head_count = count;
    for (uint32_t i = 0; i < model->leaf_count; i++)
        if (leaf_slot(model, i)->live)
            chains_enter(model, i);
    return true;
}

struct kleaf *kmodel_leaf(struct kmodel *model, uint64_t object, uint64_t index)
{
    if (!model->head_count)
        return NULL;
    uint32_t at = model->by_key[head_of(model, object, index)];
    for (; at; at = leaf_slot(model, at - 1)->next_key) {
        struct kleaf *leaf = leaf_slot(model, at - 1);
        if (leaf->object == object && leaf->index == index)
            return leaf;
    }
    return NULL;
}

struct kleaf *kmodel_owner(struct kmodel *model, uint64_t physical)
{
    if (!model->head_count)
        return NULL;
    uint32_t at = model->by_physical[head_of(model, physical, 0)];
    for (; at; at = leaf_slot(model, at - 1)->next_physical)
        if (leaf_slot(model, at - 1)->physical == physical)
            return leaf_slot(model, at - 1);
    return NULL;
}

struct kleaf *kmodel_leaf_add(struct kmodel *model, uint64_t object, uint64_t index,
                              uint64_t physical)
{
    if (!karray_room((void **)&model->leaves, model->leaf_count, &model->leaf_room,
                     model->leaf_size))
        return NULL;
    if (model->leaf_count >= model->head_count && !heads_grow(model))
        return NULL;
    struct kleaf *leaf = leaf_slot(model, model->leaf_count);
    memset(leaf, 0, model->leaf_size);
    leaf->object = object;
    leaf->index = index;
    leaf->physical = physical;
    leaf->live = true;
    chains_enter(model, model->leaf_count++);
    model->live_leaves++;
    return leaf;
}

void kmodel_leaf_remove(struct kmodel *model, struct kleaf *leaf)
{
    uint32_t slot = (uint32_t)((size_t)((uint8_t *)leaf - model->leaves) / model->leaf_size) + 1;
    uint32_t *at = key_head(model, leaf);
    while (*at != slot)
        at = &leaf_slot(model, *at - 1)->next_key;
    *at = leaf->next_key;
    at = physical_head(model, leaf);
    while (*at != slot)
        at = &leaf_slot(model, *at - 1)->next_physical;
    *at = leaf->next_physical;
    leaf->live = false;
    model->live_leaves--;
}

/* ---- what replay notes */

uint32_t kmodel_record_add(struct kmodel *model, const struct kpage_record *record)
{
    if (!karray_room((void **)&model->records, model->record_count, &model->record_room,
                     sizeof *model->records))
        return 0;
    model->records[model->record_count++] = *record;
    return model->record_count;
}

int kmodel_freed_add(struct kmodel *model, const struct kfreed *freed)
{
    if (!karray_room((void **)&model->freed, model->freed_count, &model->freed_room,
                     sizeof *model->freed))
        return -ENOMEM;
    model->freed[model->freed_count++] = *freed;
    return 0;
}
