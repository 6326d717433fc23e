/*
 * index.c - finds containers and named objects by id, name and address.
 *
 * Only the directory's pages are on the disk. The index is made from them at each open and kept
 * along; with it no look-up walks over the containers, so a store of thousands is as quick as one
 * of a few.
 *
 * Invariants
 *   IX1  store->ids lists the slots of all containers by ascending id.
 *   IX2  The slot of a container or named object is in the chain of its name's head; container
 *       slots come first, named objects behind them (name_entry).
 *   IX3  store->owners[g] is the slot + 1 of the container that has GiB g of the zone, or 0;
 *       index.owned counts those that are not 0.
 *   IX4  No slot below index.free_container, free_name is free.
 */
#include "internal.h"

uint32_t containers_max(const struct superblock *super)
{
    return super->directory_pages_max * (uint32_t)CONTAINERS_PER_PAGE;
}

uint32_t index_entries_max(const struct superblock *super)
{
    return containers_max(super) + super->names_pages_max * (uint32_t)NAMES_PER_PAGE;
}

/* index_heads_max is a power of two: one head for about four entries, of which few are used. */
uint32_t index_heads_max(const struct superblock *super)
{
    uint32_t few = MAX(index_entries_max(super) / 4, 16u);
    return 2u << (31 - __builtin_clz(few - 1));
}

/* ---- ids */

/* id_place finds the place of the first container whose id is not below `object`. */
static uint32_t id_place(const struct store *store, uint64_t object)
{
    uint32_t low = 0, high = store->index.id_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (le64_get(directory_slot(store, store->ids[middle])->object) < object)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint32_t index_from_id(const struct store *store, uint64_t object)
{
    uint32_t place = id_place(store, object);
    return place < store->index.id_count ? store->ids[place] : NO_SLOT;
}

/* ---- names */

/* name_entry is the entry of a named object; a container's entry is its slot. */
static uint32_t name_entry(const struct store *store, uint32_t slot)
{
    return containers_max(&store->super) + slot;
}

static uint32_t *head_of(const struct store *store, uint64_t object, const char *name)
{
    uint64_t hash = object * 0x9e3779b97f4a7c15ull ^ 0xcbf29ce484222325ull;
    for (uint32_t i = 0; i < STORE_NAME_BYTES && name[i]; i++) /* FNV-1a: names are short */
        hash = (hash ^ (uint8_t)name[i]) * 0x100000001b3ull;
    hash ^= hash >> 32; /* the last letters are in the low bits, the first ones in the high */
    return &store->name_heads[hash & (index_heads_max(&store->super) - 1)];
}

static void name_link(struct store *store, uint64_t object, const char *name, uint32_t entry)
{
    uint32_t *head = head_of(store, object, name);
    store->name_next[entry] = *head;
    *head = entry + 1;
}

static void name_unlink(struct store *store, uint64_t object, const char *name, uint32_t entry)
{
    uint32_t *link = head_of(store, object, name);
    while (*link != entry + 1) {
        if (never(!*link))
            return;
        link = &store->name_next[*link - 1];
    }
    *link = store->name_next[entry];
}

uint32_t index_container(const struct store *store, const char *name)
{
    for (uint32_t at = *head_of(store, 0, name); at; at = store->name_next[at - 1])
        if (at <= containers_max(&store->super) &&
            name_equal(directory_slot(store, at - 1)->name, name))
            return at - 1;
    return NO_SLOT;
}

uint32_t index_name(const struct store *store, uint64_t object, const char *name)
{
    uint32_t first = containers_max(&store->super);
    for (uint32_t at = *head_of(store, object, name); at; at = store->name_next[at - 1]) {
        if (at <= first)
            continue;
        const struct name_disk *found = names_slot(store, at - 1 - first);
        if (le64_get(found->object) == object && name_equal(found->value.name, name))
            return at - 1 - first;
    }
    return NO_SLOT;
}

void index_name_enter(struct store *store, uint32_t slot)
{
    const struct name_disk *name = names_slot(store, slot);
    name_link(store, le64_get(name->object), name->value.name, name_entry(store, slot));
}

void index_name_drop(struct store *store, uint32_t slot)
{
    const struct name_disk *name = names_slot(store, slot);
    name_unlink(store, le64_get(name->object), name->value.name, name_entry(store, slot));
    store->index.free_name = MIN(store->index.free_name, slot);
}

void index_rename(struct store *store, uint32_t slot, const char *name)
{
    struct container_disk *container = directory_slot(store, slot);
    name_unlink(store, 0, container->name, slot);
    name_copy(container->name, name);
    name_link(store, 0, container->name, slot);
}

/* ---- addresses */

void index_segment_enter(struct store *store, uint32_t slot, const struct segment_disk *segment)
{
    uint32_t first = le32_get(segment->first_gib), gib = le32_get(segment->gib);
    for (uint32_t g = first; g < first + gib; g++) {
        store->index.owned += !store->owners[g];
        store->owners[g] = slot + 1;
    }
}

uint32_t index_owner(const struct store *store, uint32_t gib)
{
    return store->owners[gib] ? store->owners[gib] - 1 : NO_SLOT;
}

/* ---- containers as a whole; their segments lie inside the zone */

void index_container_enter(struct store *store, uint32_t slot)
{
    const struct container_disk *container = directory_slot(store, slot);
    uint32_t place = id_place(store, le64_get(container->object));
    uint32_t *at = store->ids + place;
    memmove(at + 1, at, (store->index.id_count - place) * sizeof *at);
    *at = slot;
    store->index.id_count++;
    name_link(store, 0, container->name, slot);
    for (uint32_t s = 0; s < le32_get(container->segment_count); s++)
        index_segment_enter(store, slot, &container->segments[s]);
}

void index_container_drop(struct store *store, uint32_t slot)
{
    const struct container_disk *container = directory_slot(store, slot);
    struct index *x = &store->index;
    uint32_t place = id_place(store, le64_get(container->object));
    uint32_t *at = store->ids + place;
    x->id_count--;
    memmove(at, at + 1, (x->id_count - place) * sizeof *at);
    name_unlink(store, 0, container->name, slot);
    for (uint32_t s = 0; s < le32_get(container->segment_count); s++) {
        uint32_t gib = le32_get(container->segments[s].gib);
        uint32_t first = le32_get(container->segments[s].first_gib);
        memset(store->owners + first, 0, gib * sizeof *store->owners);
        x->owned -= gib;
    }
    x->free_container = MIN(x->free_container, slot);
}

/* index_fill enters all that the directory's pages hold, which may be hostile: what is left out,
 * the check sees missing. The tables are new. */
void index_fill(struct store *store)
{
    store->index = (struct index){ .id_count = 0 };
    for (uint32_t i = 0; i < directory_slots(store) && store->index.id_count < zone_gib(store); i++)
        if (container_valid(store, directory_slot(store, i)) &&
            le64_get(directory_slot(store, i)->object))
            index_container_enter(store, i);
    for (uint32_t i = 0; i < names_slots(store); i++)
        if (le64_get(names_slot(store, i)->object))
            index_name_enter(store, i);
}

/* index_holds_container tells if each key of the container finds it, not another (IX1 to IX3). */
bool index_holds_container(const struct store *store, uint32_t slot)
{
    const struct container_disk *container = directory_slot(store, slot);
    if (index_from_id(store, le64_get(container->object)) != slot ||
        index_container(store, container->name) != slot)
        return false;
    for (uint32_t s = 0; s < le32_get(container->segment_count); s++) {
        uint32_t first = le32_get(container->segments[s].first_gib);
        for (uint32_t g = first; g < first + le32_get(container->segments[s].gib); g++)
            if (index_owner(store, g) != slot)
                return false;
    }
    return true;
}
