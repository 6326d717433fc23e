/*
 * unlogged.c - containers whose pages are in no log: a start finds nothing of them (UL1). What is
 * left of them on the disk is forgotten in the model, too, before the log is followed and after.
 */
#include "view.h"

bool kunlogged(const struct kcontainer *container)
{
    return le16_get(container->disk.durability) >= STORE_DURABILITY_VOLATILE;
}

static bool loses(struct kmodel *model, uint64_t object, bool same)
{
    const struct kcontainer *c = kmodel_container(model, object);
    return c && kunlogged(c) &&
           (!same || le16_get(c->disk.durability) == STORE_DURABILITY_VOLATILE);
}

void kunlogged_forget(struct kmodel *model, bool same)
{
    for (uint32_t i = 0; i < model->leaf_count; i++) {
        struct kleaf *leaf = kmodel_leaf_at(model, i);
        if (!leaf || !loses(model, leaf->object, same))
            continue;
        model->pages_present -= kbits(leaf->mask);
        kmodel_container(model, leaf->object)->pages_present -= kbits(leaf->mask);
        kmodel_leaf_remove(model, leaf);
    }
}

void kunlogged_lose(struct kmodel *model, bool same)
{
    for (uint32_t i = 0; i < model->name_count;)
        if (le64_get(model->names[i].value.address) && loses(model, model->names[i].object, same))
            kmodel_name_remove(model, &model->names[i]);
        else
            i++;
    for (uint32_t i = 0; i < model->container_count; i++) {
        struct container_disk *disk = &model->containers[i].disk;
        if (!loses(model, model->containers[i].object, same))
            continue;
        disk->layout.root = le64_of(0);
        if (le16_get(disk->durability) == STORE_DURABILITY_REBUILD)
            disk->durability = le16_of(STORE_DURABILITY_LOST);
    }
}

/* What a recovery passes over. */
bool kunlogged_passes(struct kmodel *model, const struct record_disk *record)
{
    unsigned type = le16_get(record->type);
    const struct kcontainer *container = kmodel_container(model, le64_get(record->object));
    bool pages = type == RECORD_PAGE_FULL || type == RECORD_PAGE_DIFF || type == RECORD_PAGE_FREE ||
                 type == RECORD_PAGE_LOGGED || type == RECORD_PAGE_CLAIM || type == RECORD_MOVE ||
                 type == RECORD_PAGE_HOME || type == RECORD_PAGE_OP;
    return pages && container && kunlogged(container);
}

const char *kunlogged_change(struct kmodel *model, struct kcontainer *container, uint64_t value)
{
    if (value >= STORE_DURABILITY_COUNT)
        return "there is no such durability";
    bool same = kunlogged(container) == (value >= STORE_DURABILITY_VOLATILE);
    for (uint32_t i = 0; i < model->leaf_count && !same; i++) {
        const struct kleaf *leaf = kmodel_leaf_at(model, i);
        if (leaf && leaf->object == container->object)
            return "its pages begin, or end, to be in the log, and it has some (UL2)";
    }
    container->disk.durability = le16_of((uint16_t)value);
    return NULL;
}
