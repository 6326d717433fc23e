/*
 * area.c - loads the metadata of one checkpoint into a model, and checks all of it.
 *
 * Whatever is wrong is a finding, and the walk goes on with the rest, so that a rescue gets what
 * there is. A recovery uses the area only if there is no finding.
 */
#include "view.h"

#include <stdlib.h>
#include <string.h>

struct bucket_page { uint32_t bucket, place, page; };

struct area {
    struct kview *view;
    struct kmodel *model;
    const struct kcheckpoint *checkpoint;
    uint32_t number;
    struct map_entry_disk *map;
    bool header_seen;
    uint64_t header_leaves, header_pages;
    uint32_t header_containers, header_names;
    struct bucket_page *buckets;
    uint32_t bucket_count;
    uint32_t directory_count, directory_last, names_count, names_last;
    uint8_t *seen;              /* directory pages: bit 0, names pages: bit 1; by index */
    int error;
};

/* The bucket of a key: the hash modulo the larger power of two, or, where that bucket is not
 * there yet, modulo the smaller one. */
uint32_t karea_bucket(const struct kmodel *model, uint64_t object, uint64_t index)
{
    uint64_t a = object * 0x9e3779b97f4a7c15ull,
             b = (index + 0x7f4a7c15ull) * 0xbf58476d1ce4e5b9ull;
    uint64_t h = a ^ b;
    h ^= h >> 31;
    h *= 0x94d049bb133111ebull;
    h ^= h >> 29;
    uint64_t half = 1ull << model->hash_level, x = h % (2 * half);
    return (uint32_t)(x < half + model->hash_split ? x : x - half);
}

static bool page_get(struct area *area, uint32_t page, void *bytes)
{
    struct kview *view = area->view;
    uint64_t offset = kslot_page_offset(&view->super, area->number, page);
    if (kview_read(view, offset, bytes, BLOCK_BYTES)) {
        kview_find(view, KCHECK_DAMAGE, "ST18", "metadata page %u of area %u cannot be read", page,
                   area->number);
        return false;
    }
    uint32_t seed = kview_seed(view->super.uuid, CRC_META, page, 0);
    if (kcheck_crc(seed, bytes, BLOCK_BYTES) == le32_get(area->map[page].crc))
        return true;
    kview_find(view, KCHECK_DAMAGE, "ST18", "metadata page %u of area %u: its CRC is wrong", page,
               area->number);
    return false;
}

static bool map_get(struct area *area)
{
    struct kview *view = area->view;
    const struct kcheckpoint *c = area->checkpoint;
    if (!c->redo_lsn || !c->pages || c->pages > view->super.area_pages) {
        kview_find(view, KCHECK_DAMAGE, "ST18", "the superblock names no checkpoint in area %u",
                   area->number);
        return false;
    }
    uint64_t bytes = kslot_map_bytes(c->pages);
    area->map = malloc(bytes);
    area->buckets = malloc(c->pages * sizeof *area->buckets);
    area->seen = calloc(c->pages, 1);
    if (!area->map || !area->buckets || !area->seen) {
        area->error = -ENOMEM;
        return false;
    }
    if (kview_read(view, view->super.area_start[area->number], area->map, bytes) ||
        kcheck_crc(kview_seed(view->super.uuid, CRC_MAP, c->redo_lsn, 0), area->map, bytes) !=
            c->root_crc) {
        kview_find(view, KCHECK_DAMAGE, "ST18", "the map of area %u is damaged", area->number);
        return false;
    }
    return true;
}

/* ---- page 0 */

static void header_read(struct area *area)
{
    struct meta_header_disk header;
    struct kmodel *model = area->model;
    const struct kslot *super = &area->view->super;
    if (le16_get(area->map[0].kind) != META_HEADER) {
        kview_find(area->view, KCHECK_DAMAGE, "ST18", "area %u has no header", area->number);
        return;
    }
    if (!page_get(area, 0, &header))
        return;
    uint32_t level = le32_get(header.hash_level), split = le32_get(header.hash_split);
    uint64_t next = le64_get(header.next_object);
    if (le64_get(header.magic) != META_MAGIC ||
        le64_get(header.redo_lsn) != area->checkpoint->redo_lsn)
        kview_find(area->view, KCHECK_DAMAGE, "ST18", "the header of area %u is of something else",
                   area->number);
    else if (!next || next >> 62 || level > 30 || split >= 1u << level ||
             (1ull << level) + split >= super->area_pages ||
             le32_get(header.cursor_gib) > store_zone_bytes(super->zone) / STORE_SEGMENT_UNIT)
        kview_find(area->view, KCHECK_DAMAGE, "ST24", "the header of area %u: ids, level or split "
                   "pointer out of range", area->number);
    else {
        model->next_object = next;
        model->hash_level = level;
        model->hash_split = split;
        area->header_leaves = le64_get(header.leaves);
        area->header_pages = le64_get(header.pages_present);
        area->header_containers = le32_get(header.containers);
        area->header_names = le32_get(header.names);
        model->doubts_told = le32_get(header.doubts);
        model->doubts_sum = le32_get(header.doubts_sum);
        area->header_seen = true;
    }
}

/* ---- directory and names */

static void container_take(struct area *area, const struct container_disk *container)
{
    uint64_t object = le64_get(container->object);
    if (!object)
        return;
    if (!kcontainer_valid(area->view->super.zone, container) ||
        (area->header_seen && object >= area->model->next_object)) {
        kview_find(area->view, KCHECK_DAMAGE, "DR1", "container %llu: its entry is out of range",
                   (unsigned long long)object);
        return;
    }
    if (kmodel_container_add(area->model, container))
        area->error = -ENOMEM;
}

static void name_take(struct area *area, const struct name_disk *name)
{
    uint64_t object = le64_get(name->object);
    if (!object)
        return;
    if (!kname_valid(name->value.name))
        kview_find(area->view, KCHECK_DAMAGE, "DR3", "a named object of container %llu has no name",
                   (unsigned long long)object);
    else if (kmodel_name_add(area->model, object, &name->value))
        area->error = -ENOMEM;
}

/* Directory and names pages carry their place; each place occurs once, from 0 without holes. */
static bool place_enter(struct area *area, uint32_t page, uint8_t bit, uint32_t max,
                        uint32_t *count, uint32_t *last)
{
    uint32_t index = le32_get(area->map[page].index);
    if (index >= max || index >= area->checkpoint->pages || area->seen[index] & bit) {
        kview_find(area->view, KCHECK_DAMAGE, "ST18",
                   "metadata page %u of area %u has a place that "
                   "is taken or out of range",
                   page, area->number);
        return false;
    }
    area->seen[index] |= bit;
    ++*count;
    *last = index > *last ? index : *last;
    return true;
}

static void slots_page(struct area *area, uint32_t page, bool directory)
{
    uint8_t bytes[BLOCK_BYTES];
    const struct kslot *super = &area->view->super;
    bool placed = directory ? place_enter(area, page, 1, super->directory_pages_max,
                                          &area->directory_count, &area->directory_last)
                            : place_enter(area, page, 2, super->names_pages_max,
                                          &area->names_count, &area->names_last);
    if (!page_get(area, page, bytes) || !placed)
        return;
    for (size_t i = 0; directory && i < CONTAINERS_PER_PAGE; i++)
        container_take(area, (const struct container_disk *)bytes + i);
    for (size_t i = 0; !directory && i < NAMES_PER_PAGE; i++)
        name_take(area, (const struct name_disk *)bytes + i);
}

/* ---- buckets and leaves */

static const char *leaf_wrong(struct area *area, const struct leaf_disk *leaf, uint32_t bucket,
                              struct kcontainer **container)
{
    struct kmodel *model = area->model;
    const struct kslot *super = &area->view->super;
    uint64_t object = le64_get(leaf->object), index = le64_get(leaf->index);
    uint64_t physical = le64_get(leaf->physical);
    uint32_t mask = le32_get(leaf->mask), claimed = le16_get(leaf->claimed);
    *container = kmodel_container(model, object);
    if (!*container)
        return "it belongs to no container (ST24)";
    if (index >= kcontainer_pages(&(*container)->disk) / super->extent_pages)
        return "it lies outside its container (ST24)";
    if (!(mask | claimed) || (mask | claimed) >> super->extent_pages || le16_get(leaf->disk))
        return "its page masks or disk number are out of range (ST24)";
    if (mask & claimed)
        return "a page that was written is claimed as unwritten (HS4)";
    if (area->header_seen && karea_bucket(model, object, index) != bucket)
        return "it is in the wrong bucket (ST24)";
    if (kmodel_leaf(model, object, index))
        return "it occurs twice (ST24)";
    if (physical >= super->extents || kslot_reserves(super, physical))
        return "it names an extent that does not exist (ST21)";
    if (kmodel_owner(model, physical))
        return "its extent has another owner as well (ST21)";
    return NULL;
}

static void leaf_take(struct area *area, const uint8_t *at, uint32_t bucket)
{
    const struct leaf_disk *disk = (const void *)at;
    struct kmodel *model = area->model;
    struct kcontainer *container;
    uint64_t object = le64_get(disk->object), index = le64_get(disk->index);
    const char *why = leaf_wrong(area, disk, bucket, &container);
    if (why) {
        kview_find(area->view, KCHECK_DAMAGE, "", "the leaf of container %llu, extent %llu: %s",
                   (unsigned long long)object, (unsigned long long)index, why);
        return;
    }
    struct kleaf *leaf = kmodel_leaf_add(model, object, index, le64_get(disk->physical));
    if (!leaf) {
        area->error = -ENOMEM;
        return;
    }
    leaf->born = le64_get(disk->born);
    leaf->mask = le32_get(disk->mask);
    leaf->claimed = le16_get(disk->claimed);
    const le32 *crc = (const void *)(disk + 1);
    const le64 *lsn = (const void *)(crc + model->extent_pages);
    for (uint32_t p = 0; p < model->extent_pages; p++) {
        kleaf_crc(model, leaf)[p] = le32_get(crc[p]);
        kleaf_lsn(leaf)[p] = le64_get(lsn[p]);
    }
    container->pages_present += kbits(leaf->mask);
    model->pages_present += kbits(leaf->mask);
}

static int bucket_order(const void *a, const void *b)
{
    const struct bucket_page *x = a, *y = b;
    if (x->bucket != y->bucket)
        return x->bucket < y->bucket ? -1 : 1;
    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    return x->page < y->page ? -1 : x->page > y->page;
}

/* Sorted by bucket and place, the pages must read 0:0 0:1 .. 1:0 .., with every bucket there. */
static void chains_check(struct area *area)
{
    uint32_t buckets = (1u << area->model->hash_level) + area->model->hash_split, bucket = 0;
    for (uint32_t i = 0; i < area->bucket_count; i++) {
        const struct bucket_page *b = &area->buckets[i];
        bool first = !i || b[-1].bucket != b->bucket;
        if (first ? b->place || b->bucket != bucket++ : b->place != b[-1].place + 1) {
            kview_find(area->view, KCHECK_DAMAGE, "ST24", "area %u: bucket %u, or one before it, "
                       "has a hole in its chain", area->number, b->bucket);
            return;
        }
    }
    if (bucket != buckets)
        kview_find(area->view, KCHECK_DAMAGE, "ST24", "area %u has %u buckets and needs %u",
                   area->number, bucket, buckets);
}

static void bucket_read(struct area *area, uint32_t i)
{
    uint8_t bytes[BLOCK_BYTES];
    const struct bucket_page *b = &area->buckets[i];
    uint32_t most = area->view->super.leaves_per_page;
    if (!page_get(area, b->page, bytes))
        return;
    const struct bucket_disk *head = (const void *)bytes;
    uint32_t count = le32_get(head->count);
    bool last = i + 1 == area->bucket_count || b[1].bucket != b->bucket;
    if (le32_get(head->bucket) != b->bucket || count > most || (!last && count < most) ||
        (!count && b->place)) {
        kview_find(area->view, KCHECK_DAMAGE, "ST24", "bucket page %u of area %u: its header is "
                   "wrong", b->page, area->number);
        count = count < most ? count : most;
    }
    for (uint32_t l = 0; l < count && !area->error; l++)
        leaf_take(area, bytes + sizeof *head + l * area->view->super.leaf_bytes, b->bucket);
}

/* ---- the whole */

static void pages_sort_out(struct area *area)
{
    for (uint32_t i = 1; i < area->checkpoint->pages && !area->error; i++) {
        const struct map_entry_disk *entry = &area->map[i];
        switch (le16_get(entry->kind)) {
        case META_FREE:
            break;
        case META_DIRECTORY:
        case META_NAMES:
            slots_page(area, i, le16_get(entry->kind) == META_DIRECTORY);
            break;
        case META_BUCKET:
            area->buckets[area->bucket_count++] =
                (struct bucket_page){ le32_get(entry->index), le16_get(entry->chain), i };
            break;
        default:
            kview_find(area->view, KCHECK_DAMAGE, "ST18", "metadata page %u of area %u is of no "
                       "known kind", i, area->number);
        }
    }
    if ((area->directory_count && area->directory_last + 1 != area->directory_count) ||
        (area->names_count && area->names_last + 1 != area->names_count))
        kview_find(area->view, KCHECK_DAMAGE, "ST18", "area %u: a page of directory or names is "
                   "missing", area->number);
}

static void counts_check(struct area *area)
{
    const struct kmodel *m = area->model;
    if (area->header_seen && (area->header_containers != m->container_count ||
                              area->header_names != m->name_count))
        kview_find(area->view, KCHECK_DAMAGE, "ST23", "area %u: the counts of containers or names "
                   "are wrong", area->number);
    if (area->header_seen && (area->header_leaves != m->live_leaves ||
                              area->header_pages != m->pages_present))
        kview_find(area->view, KCHECK_DAMAGE, "ST23", "area %u: the counts of leaves or pages are "
                   "wrong", area->number);
}

static void area_read(struct area *area)
{
    if (!map_get(area))
        return;
    header_read(area);
    pages_sort_out(area);
    kdirectory_check(area->view, area->model);
    qsort(area->buckets, area->bucket_count, sizeof *area->buckets, bucket_order);
    if (area->header_seen)
        chains_check(area);
    for (uint32_t i = 0; i < area->bucket_count && !area->error; i++) {
        if (i % 256 == 0)
            kview_progress(area->view, "metadata", i, area->bucket_count);
        bucket_read(area, i);
    }
    counts_check(area);
}

int karea_load(struct kview *view, uint32_t number, struct kmodel *model)
{
    struct area area = { .view = view, .model = model, .number = number,
                         .checkpoint = &view->super.checkpoints[number] };
    kmodel_init(model, view->super.extent_pages);
    view->problems = 0;
    area_read(&area);
    free(area.map);
    free(area.buckets);
    free(area.seen);
    return area.error ? area.error : view->problems ? -EUCLEAN : 0;
}
