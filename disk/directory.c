/*
 * directory.c - containers and their named objects, in metadata pages.
 *
 * They are found by index.c, which follows each change.
 *
 * Invariants
 *   DR1  Names of containers are unique; ids are below next_object and never given twice.
 *   DR2  No two segments overlap, and all lie inside the zone.
 *   DR3  A named object belongs to a container that exists; its name is unique there.
 *   DR4  container_pages[slot] is the sum of the mask bits of the container's leaves.
 */
#include "internal.h"

bool name_valid(const char *name)
{
    uint32_t length = 0;
    while (length < STORE_NAME_BYTES && name[length])
        length++;
    return length && length < STORE_NAME_BYTES;
}

bool name_equal(const char *a, const char *b)
{
    uint32_t i = 0;
    while (i < STORE_NAME_BYTES - 1 && a[i] == b[i] && a[i])
        i++;
    return a[i] == b[i];
}

void name_copy(char to[STORE_NAME_BYTES], const char *from)
{
    memset(to, 0, STORE_NAME_BYTES);
    for (uint32_t i = 0; i < STORE_NAME_BYTES - 1 && from[i]; i++)
        to[i] = from[i];
}

uint32_t directory_slots(const struct store *store)
{
    return store->directory_count * (uint32_t)CONTAINERS_PER_PAGE;
}

static void directory_touch(struct store *store, uint32_t slot)
{
    meta_touch(store, store->directory[slot / CONTAINERS_PER_PAGE]);
}

struct container_disk *directory_search(const struct store *store, uint64_t object,
                                        uint32_t *slot)
{
    uint32_t found = object && store->directory_count ? index_from_id(store, object) : NO_SLOT;
    struct container_disk *container = found == NO_SLOT ? NULL : directory_slot(store, found);
    if (!container || le64_get(container->object) != object)
        return NULL;
    *(uint32_t *)&store->numbers.container = found;
    if (slot)
        *slot = found;
    return container;
}

uint64_t container_pages(const struct container_disk *container)
{
    uint64_t gib = 0;
    for (uint32_t i = 0; i < le32_get(container->segment_count); i++)
        gib += le32_get(container->segments[i].gib);
    return gib * (STORE_SEGMENT_UNIT / STORE_PAGE_BYTES);
}

static bool segment_valid(const struct store *store, uint32_t first_gib, uint32_t gib)
{
    return gib > 0 && gib <= zone_gib(store) && first_gib <= zone_gib(store) - gib;
}

/* choices[] has what a container has one of a few of, by the record that changes it: the places in
 * its slot and in an operation. */
#define CHOICE(count, name) \
    { count, offsetof(struct container_disk, name), offsetof(struct store_op, name) }
static const struct { uint32_t count; size_t at, wanted; } choices[RECORD_TYPES] = {
    [RECORD_ENCODER] = CHOICE(STORE_ENCODER_COUNT, encoder),
    [RECORD_LOCKING] = CHOICE(STORE_LOCKING_COUNT, locking),
    [RECORD_PROTECTION] = CHOICE(STORE_PROTECTION_COUNT, protection),
    [RECORD_DURABILITY] = CHOICE(STORE_DURABILITY_COUNT, durability),
};

uint32_t choice_count(uint32_t type)
{
    return type < RECORD_TYPES ? choices[type].count : 0;
}

uint32_t choice_value(const struct store_op *op)
{
    const char *from = (const char *)op;
    return choice_count(op->type) ? *(const uint32_t *)(from + choices[op->type].wanted) : 0;
}

static bool choices_valid(const struct container_disk *container)
{
    bool valid = true;
    for (uint32_t type = 0; type < RECORD_TYPES; type++)
        if (choices[type].count)
            valid &= le16_get(*(const le16 *)((const char *)container + choices[type].at)) <
                     choices[type].count;
    return valid;
}

bool container_valid(const struct store *store, const struct container_disk *container)
{
    uint32_t segments = le32_get(container->segment_count);
    if (!name_valid(container->name) || segments < 1 || segments > STORE_SEGMENT_MAX ||
        !choices_valid(container))
        return false;
    for (uint32_t i = 0; i < segments; i++)
        if (!segment_valid(store, le32_get(container->segments[i].first_gib),
                           le32_get(container->segments[i].gib)))
            return false;
    return !container->layout.type[0] || name_valid(container->layout.type);
}

/* segment_of returns the segment that has GiB g of the zone, which is the container's. */
static uint32_t segment_of(const struct container_disk *container, uint32_t g)
{
    uint32_t s = 0;
    while (g - le32_get(container->segments[s].first_gib) >= le32_get(container->segments[s].gib))
        s++;
    return s;
}

/* directory_range_used tells if a segment is in this range; *next_gib is then behind the last. */
bool directory_range_used(const struct store *store, uint32_t first_gib, uint32_t gib,
                          uint32_t *next_gib)
{
    uint32_t g = first_gib + gib;
    while (g > first_gib && index_owner(store, g - 1) == NO_SLOT)
        g--;
    if (g == first_gib)
        return false;
    const struct container_disk *container = directory_slot(store, index_owner(store, g - 1));
    const struct segment_disk *segment = &container->segments[segment_of(container, g - 1)];
    *next_gib = le32_get(segment->first_gib) + le32_get(segment->gib);
    return true;
}

/* slot_take takes the first free slot of the directory or, with `names`, of the names, perhaps on a
 * new page. In a free one the object is 0. */
static int slot_take(struct store *store, bool names, uint32_t *slot)
{
    uint32_t *free = names ? &store->index.free_name : &store->index.free_container;
    uint32_t *list = names ? store->names_list : store->directory;
    uint32_t *count = names ? &store->names_count : &store->directory_count;
    uint32_t most = names ? store->super.names_pages_max : store->super.directory_pages_max;
    uint32_t slots = names ? names_slots(store) : directory_slots(store);
    while (*free < slots && le64_get(names ? names_slot(store, *free)->object
                                           : directory_slot(store, *free)->object))
        ++*free;
    if (*free == slots) {
        enum meta_kind kind = names ? META_NAMES : META_DIRECTORY;
        uint32_t page = *count == most ? 0 : meta_page_new(store, kind, *count);
        if (!page)
            return -ENOSPC;
        list[(*count)++] = page;
    }
    *slot = (*free)++;
    return 0;
}

int directory_create(struct store *store, uint64_t object, const struct container_disk *image,
                     uint64_t csn)
{
    uint32_t slot, next;
    if (!container_valid(store, image) || le32_get(image->segment_count) != 1 ||
        object < store->kept.next_object || object >> 62 ||
        index_container(store, image->name) != NO_SLOT)
        return -EUCLEAN;
    uint32_t first = le32_get(image->segments[0].first_gib), gib = le32_get(image->segments[0].gib);
    if (directory_range_used(store, first, gib, &next))
        return -EUCLEAN;
    int error = slot_take(store, false, &slot);
    if (error)
        return error;
    struct container_disk *container = directory_slot(store, slot);
    directory_touch(store, slot);
    memset(container, 0, sizeof *container);
    memcpy(container, image, CREATE_BYTES);
    container->object = le64_of(object);
    container->created = le64_of(csn);
    store->use[slot] = (struct container_use){ .pages = 0 };
    index_container_enter(store, slot);
    store->kept.containers++;
    store->kept.next_object = object + 1;
    /* addresses before it are not handed out again before the cursor wraps */
    store->kept.cursor_gib = first + gib;
    return 0;
}

static void name_drop(struct store *store, uint32_t slot)
{
    meta_touch(store, store->names_list[slot / NAMES_PER_PAGE]);
    index_name_drop(store, slot);
    memset(names_slot(store, slot), 0, sizeof(struct name_disk));
    store->kept.names--;
}

/* directory_delete frees a slot and its names; leaves and extents are the caller's (record.c). */
void directory_delete(struct store *store, uint32_t slot)
{
    struct container_disk *container = directory_slot(store, slot);
    for (uint32_t i = 0; i < names_slots(store); i++)
        if (le64_get(names_slot(store, i)->object) == le64_get(container->object))
            name_drop(store, i);
    directory_touch(store, slot);
    index_container_drop(store, slot);
    memset(container, 0, sizeof *container);
    store->kept.containers--;
}

int directory_rename(struct store *store, uint32_t slot, const char *name)
{
    if (!name_valid(name) || index_container(store, name) != NO_SLOT)
        return -EUCLEAN;
    directory_touch(store, slot);
    index_rename(store, slot, name);
    return 0;
}

int directory_grow(struct store *store, uint32_t slot, const struct segment_disk *segment)
{
    struct container_disk *container = directory_slot(store, slot);
    uint32_t first_gib = le32_get(segment->first_gib), gib = le32_get(segment->gib), next;
    uint32_t count = le32_get(container->segment_count);
    if (!segment_valid(store, first_gib, gib) ||
        directory_range_used(store, first_gib, gib, &next) ||
        count == STORE_SEGMENT_MAX)
        return -EUCLEAN;
    directory_touch(store, slot);
    container->segments[count] = *segment;
    container->segment_count = le32_of(count + 1);
    index_segment_enter(store, slot, segment);
    store->kept.cursor_gib = first_gib + gib;
    return 0;
}

int directory_layout(struct store *store, uint32_t slot, const struct layout_disk *layout)
{
    if (layout->type[0] && !name_valid(layout->type))
        return -EUCLEAN;
    directory_touch(store, slot);
    directory_slot(store, slot)->layout = *layout;
    return 0;
}

int directory_choice(struct store *store, uint32_t slot, uint32_t type, uint64_t value)
{
    struct container_disk *container = directory_slot(store, slot);
    if (value >= choices[type].count)
        return -EUCLEAN;
    directory_touch(store, slot);
    *(le16 *)((char *)container + choices[type].at) = le16_of((uint16_t)value);
    return 0;
}

bool container_unlogged(const struct container_disk *container)
{
    return le16_get(container->durability) >= STORE_DURABILITY_VOLATILE;
}

/* directory_lose empties a container whose pages are in no log, at a start: its named objects go,
 * but for the caller's own (of address 0), and its root. REBUILD is LOST from now on. */
bool directory_lose(struct store *store, uint32_t slot)
{
    struct container_disk *container = directory_slot(store, slot);
    bool any = le64_get(container->layout.root) != 0;
    for (uint32_t i = 0; i < names_slots(store); i++) {
        const struct name_disk *name = names_slot(store, i);
        if (!le64_get(name->value.address) ||
            le64_get(name->object) != le64_get(container->object))
            continue;
        name_drop(store, i);
        any = true;
    }
    if (le64_get(container->layout.root))
        directory_touch(store, slot);
    container->layout.root = le64_of(0);
    if (le16_get(container->durability) == STORE_DURABILITY_REBUILD) {
        directory_touch(store, slot);
        container->durability = le16_of(STORE_DURABILITY_LOST);
        any = true;
    }
    return any;
}

uint32_t names_slots(const struct store *store)
{
    return store->names_count * (uint32_t)NAMES_PER_PAGE;
}

struct name_disk *names_slot(const struct store *store, uint32_t slot)
{
    uint8_t *page = store->pages[store->names_list[slot / NAMES_PER_PAGE]].bytes;
    return (struct name_disk *)page + slot % NAMES_PER_PAGE;
}

int directory_name_set(struct store *store, uint64_t object, const struct name_value_disk *value)
{
    if (!name_valid(value->name))
        return -EUCLEAN;
    uint32_t i = index_name(store, object, value->name);
    bool made = i == NO_SLOT;
    int error = made ? slot_take(store, true, &i) : 0;
    if (error)
        return error;
    struct name_disk *slot = names_slot(store, i);
    meta_touch(store, store->names_list[i / NAMES_PER_PAGE]);
    memset(slot, 0, sizeof *slot);
    slot->object = le64_of(object);
    slot->value = *value;
    store->kept.names += made;
    if (made)
        index_name_enter(store, i);
    return 0;
}

int directory_name_unset(struct store *store, uint64_t object, const char *name)
{
    uint32_t i = index_name(store, object, name);
    if (i == NO_SLOT)
        return -EUCLEAN;
    name_drop(store, i);
    return 0;
}

/* ---- look-ups for the caller */

/* container_tell fills *out for a slot's container. NO_SLOT: -ENOENT. */
static int container_tell(const struct store *store, uint32_t slot, struct store_container *out)
{
    if (slot == NO_SLOT)
        return -ENOENT;
    const struct container_disk *from = directory_slot(store, slot);
    memset(out, 0, sizeof *out);
    uint64_t zone = store_zone_base(store->super.zone);
    out->object = le64_get(from->object);
    memcpy(out->name, from->name, STORE_NAME_BYTES);
    out->flags = le32_get(from->flags);
    out->encoder = (enum store_encoder)le16_get(from->encoder);
    out->locking = (enum store_locking)le16_get(from->locking);
    out->protection = le16_get(from->protection);
    out->durability = (enum store_durability)le16_get(from->durability);
    out->segment_count = le32_get(from->segment_count);
    for (uint32_t i = 0; i < out->segment_count; i++) {
        out->segments[i].address = zone + le32_get(from->segments[i].first_gib) *
                                              STORE_SEGMENT_UNIT;
        out->segments[i].pages = le32_get(from->segments[i].gib) *
                                 (STORE_SEGMENT_UNIT / STORE_PAGE_BYTES);
        out->pages += out->segments[i].pages;
    }
    out->base = out->segments[0].address;
    out->pages_present = store->use[slot].pages;
    out->pages_claimed = store->use[slot].claimed;
    memcpy(out->layout.type, from->layout.type, STORE_NAME_BYTES);
    out->layout.version = le32_get(from->layout.version);
    out->layout.bytes = le32_get(from->layout.bytes);
    out->root = le64_get(from->layout.root);
    out->created = le64_get(from->created);
    return 0;
}

int store_container_find(struct store *store, const char *name, struct store_container *out)
{
    return container_tell(store, index_container(store, name), out);
}

int store_container_get(struct store *store, uint64_t object, struct store_container *out)
{
    uint32_t slot = NO_SLOT;
    directory_get(store, object, &slot);
    return container_tell(store, slot, out);
}

int store_container_at(struct store *store, uint64_t address, struct store_container *out,
                       uint64_t *page)
{
    uint64_t zone = store_zone_base(store->super.zone);
    if (address < zone || address - zone >= store_zone_bytes(store->super.zone))
        return -ENOENT;
    uint32_t g = (uint32_t)((address - zone) / STORE_SEGMENT_UNIT), slot = index_owner(store, g);
    int error = container_tell(store, slot, out);
    if (error)
        return error;
    uint32_t at = segment_of(directory_slot(store, slot), g);
    *page = (address - out->segments[at].address) / STORE_PAGE_BYTES;
    for (uint32_t s = 0; s < at; s++)
        *page += out->segments[s].pages;
    return 0;
}

int store_container_next(struct store *store, uint64_t after, struct store_container *out)
{
    return container_tell(store, after < UINT64_MAX ? index_from_id(store, after + 1) : NO_SLOT,
                          out);
}

static int name_tell(const struct store *store, uint32_t slot, struct store_name *out)
{
    if (slot == NO_SLOT)
        return -ENOENT;
    const struct name_disk *from = names_slot(store, slot);
    memcpy(out->name, from->value.name, STORE_NAME_BYTES);
    out->address = le64_get(from->value.address);
    out->bytes = le64_get(from->value.bytes);
    out->slot = slot;
    return 0;
}

int store_name_find(struct store *store, uint64_t object, const char *name, struct store_name *out)
{
    return name_tell(store, index_name(store, object, name), out);
}

int store_name_next(struct store *store, uint64_t object, uint32_t *cursor, struct store_name *out)
{
    while (object && *cursor < names_slots(store)) {
        uint32_t slot = (*cursor)++;
        if (le64_get(names_slot(store, slot)->object) == object)
            return name_tell(store, slot, out);
    }
    return -ENOENT;
}

int store_name_any(struct store *store, uint32_t *cursor, uint32_t most, uint64_t *object,
                   struct store_name *out)
{
    while (*cursor < names_slots(store)) {
        if (most-- == 0)
            return -EAGAIN;
        uint32_t slot = (*cursor)++;
        *object = le64_get(names_slot(store, slot)->object);
        if (*object)
            return name_tell(store, slot, out);
    }
    return -ENOENT;
}

uint64_t store_object_next(const struct store *store)
{
    return store->plan_next_object;
}
