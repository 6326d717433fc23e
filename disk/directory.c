/*
 * directory.c - containers and their named objects, in metadata pages.
 *
 * Slots are searched one after the other: a store has hundreds of containers, and the store
 * manager remembers those that are open.
 *
 * Invariants
 *   D1  Names of containers are unique; ids are below next_object and never given twice.
 *   D2  No two segments overlap, and all lie inside the zone.
 *   D3  A named object belongs to a container that exists; its name is unique there.
 *   D4  container_pages[slot] is the sum of the mask bits of the container's leaves.
 */
#include "internal.h"

#define ZONE_GIB ((uint32_t)(STORE_ZONE_BYTES / STORE_SEGMENT_UNIT))

bool name_valid(const char *name)
{
    uint32_t length = 0;
    while (length < STORE_NAME_BYTES && name[length])
        length++;
    return length > 0 && length < STORE_NAME_BYTES;
}

bool name_equal(const char *a, const char *b)
{
    for (uint32_t i = 0; i < STORE_NAME_BYTES; i++) {
        if (a[i] != b[i])
            return false;
        if (!a[i])
            return true;
    }
    return true;
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

struct container_disk *directory_slot(const struct store *store, uint32_t slot)
{
    uint8_t *page = store->pages[store->directory[slot / CONTAINERS_PER_PAGE]].bytes;
    return (struct container_disk *)page + slot % CONTAINERS_PER_PAGE;
}

static void directory_touch(struct store *store, uint32_t slot)
{
    meta_touch(store, store->directory[slot / CONTAINERS_PER_PAGE]);
}

struct container_disk *directory_get(const struct store *store, uint64_t object, uint32_t *slot)
{
    for (uint32_t i = 0; object && i < directory_slots(store); i++) {
        struct container_disk *container = directory_slot(store, i);
        if (le64_get(container->object) == object) {
            if (slot)
                *slot = i;
            return container;
        }
    }
    return NULL;
}

struct container_disk *directory_find(const struct store *store, const char *name)
{
    for (uint32_t i = 0; i < directory_slots(store); i++) {
        struct container_disk *container = directory_slot(store, i);
        if (le64_get(container->object) && name_equal(container->name, name))
            return container;
    }
    return NULL;
}

uint64_t container_pages(const struct container_disk *container)
{
    uint64_t gib = 0;
    for (uint32_t i = 0; i < le32_get(container->segment_count); i++)
        gib += le32_get(container->segments[i].gib);
    return gib * (STORE_SEGMENT_UNIT / STORE_PAGE_BYTES);
}

static bool segment_valid(uint32_t first_gib, uint32_t gib)
{
    return gib > 0 && gib <= ZONE_GIB && first_gib <= ZONE_GIB - gib;
}

bool container_valid(const struct store *store, const struct container_disk *container)
{
    (void)store;
    uint32_t segments = le32_get(container->segment_count);
    if (!name_valid(container->name) || segments < 1 || segments > STORE_SEGMENT_MAX ||
        le32_get(container->encoder) >= STORE_ENCODER_COUNT)
        return false;
    for (uint32_t i = 0; i < segments; i++)
        if (!segment_valid(le32_get(container->segments[i].first_gib),
                           le32_get(container->segments[i].gib)))
            return false;
    return !container->layout.type[0] || name_valid(container->layout.type);
}

/* Does [first, first + gib) meet a segment of any container? *next is then behind that one. */
bool directory_range_used(const struct store *store, uint32_t first_gib, uint32_t gib,
                          uint32_t *next_gib)
{
    for (uint32_t i = 0; i < directory_slots(store); i++) {
        const struct container_disk *container = directory_slot(store, i);
        if (!le64_get(container->object))
            continue;
        for (uint32_t s = 0; s < le32_get(container->segment_count); s++) {
            uint32_t first = le32_get(container->segments[s].first_gib);
            uint32_t end = first + le32_get(container->segments[s].gib);
            if (first < first_gib + gib && first_gib < end) {
                *next_gib = end;
                return true;
            }
        }
    }
    return false;
}

/* A new page of slots for directory or names. */
static int slots_grow(struct store *store, enum meta_kind kind, uint32_t *list, uint32_t *count,
                      uint32_t max)
{
    if (*count == max)
        return -ENOSPC;
    uint32_t page = meta_page_new(store, kind, *count);
    if (!page)
        return -ENOSPC;
    list[(*count)++] = page;
    return 0;
}

/* The space between the cursor and the end of the new segment is not handed out again before the
 * cursor wraps. */
static void cursor_pass(struct store *store, uint32_t first_gib, uint32_t gib)
{
    store->cursor_gib = first_gib + gib;
}

int directory_create(struct store *store, uint64_t object, const struct container_disk *image,
                     uint64_t csn)
{
    uint32_t slot = 0, next;
    if (!container_valid(store, image) || le32_get(image->segment_count) != 1 ||
        object < store->next_object || object >> 62 || directory_find(store, image->name))
        return -EUCLEAN;
    uint32_t first = le32_get(image->segments[0].first_gib), gib = le32_get(image->segments[0].gib);
    if (directory_range_used(store, first, gib, &next))
        return -EUCLEAN;
    while (slot < directory_slots(store) && le64_get(directory_slot(store, slot)->object))
        slot++;
    if (slot == directory_slots(store)) {
        int error = slots_grow(store, META_DIRECTORY, store->directory, &store->directory_count,
                               store->super.directory_pages_max);
        if (error)
            return error;
    }
    struct container_disk *container = directory_slot(store, slot);
    directory_touch(store, slot);
    memset(container, 0, sizeof *container);
    memcpy(container, image, CREATE_BYTES);
    container->object = le64_of(object);
    container->created = le64_of(csn);
    store->use[slot] = (struct container_use){ .pages = 0 };
    store->containers++;
    store->next_object = BUG(BUG_ID_AGAIN) ? object : object + 1;
    cursor_pass(store, first, gib);
    return 0;
}

static void names_drop(struct store *store, uint64_t object)
{
    for (uint32_t i = 0; i < names_slots(store); i++) {
        struct name_disk *name = names_slot(store, i);
        if (le64_get(name->object) != object)
            continue;
        if (BUG(BUG_NAMES_STAY))
            continue;
        meta_touch(store, store->names_list[i / NAMES_PER_PAGE]);
        memset(name, 0, sizeof *name);
        store->names--;
    }
}

/* The container's slot and names; its leaves and extents are the caller's (record.c). */
int directory_delete(struct store *store, uint64_t object)
{
    uint32_t slot;
    struct container_disk *container = directory_get(store, object, &slot);
    if (!container)
        return -EUCLEAN;
    names_drop(store, object);
    directory_touch(store, slot);
    memset(container, 0, sizeof *container);
    store->containers--;
    return 0;
}

int directory_rename(struct store *store, uint64_t object, const char *name)
{
    uint32_t slot;
    struct container_disk *container = directory_get(store, object, &slot);
    if (!container || !name_valid(name) || directory_find(store, name))
        return -EUCLEAN;
    if (!BUG(BUG_RENAME_TOUCH))
        directory_touch(store, slot);
    name_copy(container->name, name);
    return 0;
}

int directory_grow(struct store *store, uint64_t object, uint32_t first_gib, uint32_t gib)
{
    uint32_t slot, next;
    struct container_disk *container = directory_get(store, object, &slot);
    if (!container || !segment_valid(first_gib, gib) ||
        directory_range_used(store, first_gib, gib, &next))
        return -EUCLEAN;
    uint32_t count = le32_get(container->segment_count);
    if (count == STORE_SEGMENT_MAX)
        return -EUCLEAN;
    directory_touch(store, slot);
    container->segments[count].first_gib = le32_of(first_gib);
    container->segments[count].gib = le32_of(gib);
    container->segment_count = le32_of(count + 1);
    cursor_pass(store, first_gib, gib);
    return 0;
}

int directory_layout(struct store *store, uint64_t object, const struct layout_disk *layout)
{
    uint32_t slot;
    struct container_disk *container = directory_get(store, object, &slot);
    if (!container || (layout->type[0] && !name_valid(layout->type)))
        return -EUCLEAN;
    directory_touch(store, slot);
    container->layout = *layout;
    return 0;
}

int directory_encoder(struct store *store, uint64_t object, uint64_t encoder)
{
    uint32_t slot;
    struct container_disk *container = directory_get(store, object, &slot);
    if (!container || encoder >= STORE_ENCODER_COUNT)
        return -EUCLEAN;
    directory_touch(store, slot);
    container->encoder = le32_of((uint32_t)encoder);
    return 0;
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

static uint32_t names_index(const struct store *store, uint64_t object, const char *name)
{
    uint32_t i = 0;
    for (; i < names_slots(store); i++) {
        const struct name_disk *slot = names_slot(store, i);
        if (le64_get(slot->object) == object && (!object || name_equal(slot->value.name, name)))
            break;
    }
    return i;
}

struct name_disk *names_find(const struct store *store, uint64_t object, const char *name)
{
    uint32_t i = names_index(store, object, name);
    return object && i < names_slots(store) ? names_slot(store, i) : NULL;
}

int directory_name_set(struct store *store, uint64_t object, const struct name_value_disk *value)
{
    if (!directory_get(store, object, NULL) || !name_valid(value->name))
        return -EUCLEAN;
    uint32_t i = names_index(store, BUG(BUG_NAME_TWICE) ? 0 : object, value->name);
    if (i == names_slots(store) || BUG(BUG_NAME_TWICE)) {
        i = names_index(store, 0, NULL);        /* a free slot */
        if (i == names_slots(store)) {
            int error = slots_grow(store, META_NAMES, store->names_list, &store->names_count,
                                   store->super.names_pages_max);
            if (error)
                return error;
        }
        store->names++;
    }
    struct name_disk *slot = names_slot(store, i);
    meta_touch(store, store->names_list[i / NAMES_PER_PAGE]);
    memset(slot, 0, sizeof *slot);
    slot->object = le64_of(object);
    slot->value = *value;
    return 0;
}

int directory_name_unset(struct store *store, uint64_t object, const char *name)
{
    uint32_t i = names_index(store, object, name);
    if (!object || i == names_slots(store))
        return -EUCLEAN;
    if (!BUG(BUG_UNSET_TOUCH))
        meta_touch(store, store->names_list[i / NAMES_PER_PAGE]);
    memset(names_slot(store, i), 0, sizeof(struct name_disk));
    store->names--;
    return 0;
}

/* ---- look-ups for the caller */

static void container_fill(const struct store *store, const struct container_disk *from,
                           uint32_t slot, struct store_container *out)
{
    memset(out, 0, sizeof *out);
    uint64_t zone = STORE_REGION_BASE + store->super.zone * STORE_ZONE_BYTES;
    out->object = le64_get(from->object);
    memcpy(out->name, from->name, STORE_NAME_BYTES);
    out->flags = le32_get(from->flags);
    out->encoder = (enum store_encoder)le32_get(from->encoder);
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
    memcpy(out->layout.type, from->layout.type, STORE_NAME_BYTES);
    out->layout.version = le32_get(from->layout.version);
    out->layout.bytes = le32_get(from->layout.bytes);
    out->root = le64_get(from->layout.root);
    out->created = le64_get(from->created);
}

int store_container_find(struct store *store, const char *name, struct store_container *out)
{
    const struct container_disk *container = directory_find(store, name);
    return container ? store_container_get(store, le64_get(container->object), out) : -ENOENT;
}

int store_container_get(struct store *store, uint64_t object, struct store_container *out)
{
    uint32_t slot;
    const struct container_disk *container = directory_get(store, object, &slot);
    if (!container)
        return -ENOENT;
    container_fill(store, container, slot, out);
    return 0;
}

int store_container_at(struct store *store, uint64_t address, struct store_container *out,
                       uint64_t *page)
{
    uint64_t zone = STORE_REGION_BASE + store->super.zone * STORE_ZONE_BYTES;
    if (address < zone || address - zone >= STORE_ZONE_BYTES)
        return -ENOENT;
    for (uint32_t slot = 0; slot < directory_slots(store); slot++) {
        const struct container_disk *container = directory_slot(store, slot);
        if (!le64_get(container->object))
            continue;
        container_fill(store, container, slot, out);
        uint64_t before = 0;
        for (uint32_t s = 0; s < out->segment_count; s++) {
            uint64_t at = address - out->segments[s].address;
            if (address >= out->segments[s].address &&
                at / STORE_PAGE_BYTES < out->segments[s].pages) {
                *page = before + at / STORE_PAGE_BYTES;
                return 0;
            }
            before += out->segments[s].pages;
        }
    }
    return -ENOENT;
}

int store_container_next(struct store *store, uint64_t after, struct store_container *out)
{
    uint32_t best = UINT32_MAX;
    uint64_t best_object = UINT64_MAX;
    for (uint32_t slot = 0; slot < directory_slots(store); slot++) {
        uint64_t object = le64_get(directory_slot(store, slot)->object);
        if (object > after && object < best_object) {
            best = slot;
            best_object = object;
        }
    }
    if (best == UINT32_MAX)
        return -ENOENT;
    container_fill(store, directory_slot(store, best), best, out);
    return 0;
}

static void name_fill(const struct name_disk *from, struct store_name *out)
{
    memcpy(out->name, from->value.name, STORE_NAME_BYTES);
    out->address = le64_get(from->value.address);
    out->bytes = le64_get(from->value.bytes);
}

int store_name_find(struct store *store, uint64_t object, const char *name, struct store_name *out)
{
    const struct name_disk *slot = names_find(store, object, name);
    if (!slot)
        return -ENOENT;
    name_fill(slot, out);
    return 0;
}

int store_name_next(struct store *store, uint64_t object, uint32_t *cursor, struct store_name *out)
{
    while (object && *cursor < names_slots(store)) {
        const struct name_disk *slot = names_slot(store, (*cursor)++);
        if (le64_get(slot->object) == object) {
            name_fill(slot, out);
            return 0;
        }
    }
    return -ENOENT;
}
