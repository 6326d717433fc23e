/*
 * check.c - what was loaded is checked when a store is opened, and the table of extents made from
 * the leaves. (`kstore check` walks the disk by itself, with other code.)
 */
#include "internal.h"

/* ---- the directory (DR1 to DR3) */

static int directory_check(const struct store *store, const char **why)
{
    uint32_t count = 0, gib = 0;
    for (uint32_t i = 0; i < directory_slots(store); i++) {
        const struct container_disk *c = directory_slot(store, i);
        if (!le64_get(c->object))
            continue;
        count++;
        if (!container_valid(store, c) || le64_get(c->object) >= store->kept.next_object)
            FAIL("a container's entry is out of range (DR1, DR2)");
        if (!index_holds_container(store, i))
            FAIL("two containers share an id, a name or addresses (DR1, DR2)");
        for (uint32_t s = 0; s < le32_get(c->segment_count); s++)
            gib += le32_get(c->segments[s].gib);
    }
    if (count != store->kept.containers || count != store->index.id_count)
        FAIL("the count of containers is wrong");
    if (gib != store->index.owned)
        FAIL("two segments of a container overlap (DR2)");
    return 0;
}

static int names_check(const struct store *store, const char **why)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < names_slots(store); i++) {
        const struct name_disk *name = names_slot(store, i);
        uint64_t object = le64_get(name->object);
        if (!object)
            continue;
        count++;
        if (!name_valid(name->value.name) || !directory_get(store, object, NULL))
            FAIL("a named object belongs to no container (DR3)");
        if (index_name(store, object, name->value.name) != i)
            FAIL("a name occurs twice in a container (DR3)");
    }
    if (count != store->kept.names)
        FAIL("the count of named objects is wrong");
    return 0;
}

/* ---- the hash table (HS1 to HS3, ST24) */

static int leaf_check(const struct store *store, const struct leaf_disk *leaf, uint32_t bucket,
                      const char **why)
{
    uint64_t object = le64_get(leaf->object), index = le64_get(leaf->index);
    uint32_t mask = le32_get(leaf->mask), claimed = le16_get(leaf->claimed);
    const struct container_disk *container = directory_get(store, object, NULL);
    if (!container || index >= container_pages(container) / store->extent_pages)
        FAIL("a leaf belongs to no container or lies outside it");
    if (!(mask | claimed) || (mask | claimed) >> store->extent_pages || le16_get(leaf->disk))
        FAIL("a leaf's page masks or disk number are out of range");
    if (mask & claimed)
        FAIL("a page that was written is claimed as unwritten (HS4)");
    if (hash_bucket(store, object, index) != bucket)
        FAIL("a leaf is in the wrong bucket (HS1)");
    if (le64_get(leaf->physical) >= store->super.extents)
        FAIL("a leaf names an extent that does not exist");
    return 0;
}

/* ---- no key twice in a chain (HS2): sorted, since a hostile chain may hold all leaves of the
 * store */

struct key { uint64_t object, index; };
struct keys { struct key *of; uint32_t count, room; };

static bool key_less(const void *left, const void *right)
{
    const struct key *a = left, *b = right;
    return a->object < b->object || (a->object == b->object && a->index < b->index);
}

static bool key_twice(const struct keys *keys)
{
    array_sort(keys->of, keys->count, sizeof *keys->of, key_less);
    uint32_t i = 1;
    while (i < keys->count && key_less(&keys->of[i - 1], &keys->of[i]))
        i++;
    return i < keys->count;
}

/* page_check checks a page of a bucket's chain: its header, its leaves, whose keys it notes. */
static int page_check(struct store *store, uint32_t bucket, uint32_t at, leaf_visit *visit,
                      struct keys *keys, const char **why)
{
    const uint8_t *page = store->pages[at].bytes;
    uint32_t count = bucket_count(page);
    if (le32_get(((const struct bucket_disk *)page)->bucket) != bucket ||
        count > store->leaves_per_page || (!count && at != store->heads[bucket]) ||
        (store->pages[at].next && count != store->leaves_per_page))
        FAIL("a bucket page's header is wrong (HS3)");
    for (uint32_t i = 0; i < count; i++) {
        const struct leaf_disk *leaf = bucket_leaf(store, page, i);
        if (leaf_check(store, leaf, bucket, why) || visit(store, leaf, why))
            return -EUCLEAN;
        if (array_grow(store, &keys->of, keys->count, &keys->room, sizeof *keys->of))
            return -ENOMEM;
        keys->of[keys->count++] = (struct key){ le64_get(leaf->object), le64_get(leaf->index) };
    }
    return 0;
}

static int leaves_walk(struct store *store, leaf_visit *visit, struct keys *keys,
                       const char **why)
{
    uint64_t leaves = 0;
    for (uint32_t bucket = 0; bucket < hash_buckets(store); bucket++) {
        keys->count = 0;
        for (uint32_t at = store->heads[bucket]; at; at = store->pages[at].next) {
            int error = page_check(store, bucket, at, visit, keys, why);
            if (error)
                return error;
        }
        if (key_twice(keys))
            FAIL("an extent is mapped twice (HS2)");
        leaves += keys->count;
    }
    if (leaves != store->kept.leaves)
        FAIL("the count of leaves is wrong");
    return 0;
}

int metadata_check(struct store *store, leaf_visit *visit, const char **why)
{
    struct keys keys = {0};
    int error = directory_check(store, why) ?: names_check(store, why) ?:
                leaves_walk(store, visit, &keys, why);
    store_release(store, keys.of, keys.room * sizeof *keys.of);
    return error;
}

/* ---- extents from leaves, at open */

static int leaf_enter(struct store *store, const struct leaf_disk *leaf, const char **why)
{
    uint32_t slot;
    uint64_t top = le64_get(leaf->index) + 1;
    directory_get(store, le64_get(leaf->object), &slot);
    if (extent_use(store, le64_get(leaf->physical), slot, le64_get(leaf->index)))
        FAIL("two leaves name one extent (ST21)");
    store->use[slot].pages += __builtin_popcount(le32_get(leaf->mask));
    store->use[slot].claimed += __builtin_popcount(le16_get(leaf->claimed));
    store->use[slot].leaves++;
    store->use[slot].top = MAX(store->use[slot].top, top);
    return 0;
}

/* extents_reserve reserves extents that overlap these bytes, if extent_reserved() says so. */
static void extents_reserve(struct store *store, uint64_t from, uint64_t bytes)
{
    uint64_t start = store->super.data_start, unit = store->super.extent_bytes;
    uint64_t first = from > start ? (from - start) / unit : 0;
    for (uint64_t i = first; i < store->super.extents && start + i * unit < from + bytes; i++)
        if (store->extents[i].state == EXTENT_FREE && extent_reserved(&store->super, i)) {
            store->extents[i].state = EXTENT_RESERVED;
            store->space.free--;
        }
}

int store_rebuild_extents(struct store *store, const char **why)
{
    uint64_t n = store->super.extents, pages = 0;
    store->space.free = n;
    store->space.claimed = store->space.freed = store->space.old = store->space.dirty = 0;
    for (int i = 0; i < 2; i++)
        extents_reserve(store, store->super.area_start[i], area_bytes(store->super.area_pages));
    extents_reserve(store, store->super.slot_b_offset, BLOCK_BYTES);
    index_fill(store);
    int error = metadata_check(store, leaf_enter, why);
    if (error)
        return error;
    for (uint32_t slot = 0; slot < directory_slots(store); slot++)
        pages += store->use[slot].pages;
    if (pages != store->kept.pages_present)
        FAIL("the count of pages is wrong (ST23)");
    return 0;
}
