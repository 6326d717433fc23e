/*
 * often.h - what a commit asks for each page, when the page is planned and when its record is
 * applied; inline, since calls would be most of its price. internal.h includes it.
 */
#ifndef KATYDID_DISK_OFTEN_H
#define KATYDID_DISK_OFTEN_H

#include "internal.h"

/* ---- a leaf: its CRCs and LSNs, by page of its extent */

static inline le32 *leaf_crc(struct leaf_disk *leaf) { return (le32 *)(leaf + 1); }
static inline le64 *leaf_lsn(const struct store *store, struct leaf_disk *leaf)
{
    return (le64 *)((uint8_t *)(leaf + 1) + 4 * store->extent_pages);
}

/* ---- hash.c */

static inline struct leaf_disk *bucket_leaf(const struct store *store, const uint8_t *page,
                                            uint32_t slot)
{
    return (struct leaf_disk *)(page + sizeof(struct bucket_disk) + slot * store->leaf_bytes);
}

static inline uint32_t bucket_count(const uint8_t *page)
{
    return le32_get(((const struct bucket_disk *)page)->count);
}

static inline bool leaf_is(const struct leaf_disk *leaf, uint64_t object, uint64_t index)
{
    return le64_get(leaf->index) == index && le64_get(leaf->object) == object;
}

static inline struct leaf_near *leaf_near(const struct store *store, uint64_t object,
                                          uint64_t index)
{
    return (struct leaf_near *)&store->numbers.near[(index + object * 37) % LEAVES_NEAR];
}

/* hash_search finds a leaf by its chain and notes it as near; NULL: there is none. */
struct leaf_disk *hash_search(const struct store *store, uint64_t object, uint64_t index,
                              uint32_t *page);

/* hash_find finds a leaf, or NULL; *page, if wanted: the metadata page where it is. */
static inline struct leaf_disk *hash_find(const struct store *store, uint64_t object,
                                          uint64_t index, uint32_t *page)
{
    const struct leaf_near *hint = leaf_near(store, object, index);         /* HS5 */
    const struct meta_page *at = &store->pages[hint->page];
    if (at->kind == META_BUCKET && hint->slot < bucket_count(at->bytes)) {
        struct leaf_disk *leaf = bucket_leaf(store, at->bytes, hint->slot);
        if (leaf_is(leaf, object, index)) {
            if (page)
                *page = hint->page;
            return leaf;
        }
    }
    return hash_search(store, object, index, page);
}

/* ---- meta.c: before each change of a page's bytes */

static inline void meta_touch(struct store *store, uint32_t page)
{
    if (store->checkpoint.running)
        checkpoint_freeze(store, page); /* a checkpoint that needs the page as it is copies it */
    if (store->pages[page].dirty != 3)
        meta_dirty_set(store, page, 3);
}

/* ---- directory.c */

/* directory_search finds a container, or NULL; *slot, if wanted: its place. */
struct container_disk *directory_search(const struct store *store, uint64_t object,
                                        uint32_t *slot);

static inline struct container_disk *directory_slot(const struct store *store, uint32_t slot)
{
    uint8_t *page = store->pages[store->directory[slot / CONTAINERS_PER_PAGE]].bytes;
    return (struct container_disk *)page + slot % CONTAINERS_PER_PAGE;
}

static inline struct container_disk *directory_get(const struct store *store, uint64_t object,
                                                   uint32_t *slot)
{
    uint32_t last = store->numbers.container;
    struct container_disk *found = store->directory_count && object ? directory_slot(store, last)
                                                                    : NULL;
    if (!found || le64_get(found->object) != object)
        return directory_search(store, object, slot);
    if (slot)
        *slot = last;
    return found;
}

/* ---- space.c */

/* page_dirty_set says whether a page is newer in the log than at home, while its leaf has the LSN
 * of the version before. */
static inline void page_dirty_set(struct store *store, struct leaf_disk *leaf, uint32_t page,
                                  bool dirty)
{
    uint16_t bit = (uint16_t)(1u << page);
    struct extent *e = &store->extents[le64_get(leaf->physical)];
    bool was = e->dirty & bit;
    assert(e->state == EXTENT_USED);                                            /* EX3 */
    if (was) {
        uint64_t lsn = le64_get(leaf_lsn(store, leaf)[page]);
        store->checkpoint.pages_old -= lsn < store->checkpoint.home_below;
        store->sweep.old -= lsn < e->redo;
    }
    if (was == dirty)
        return;
    store->space.dirty += dirty ? 1 : -1ull;
    e->dirty ^= bit;
}

/* ---- store.c: tables */

static inline uint32_t *table_head(const struct table *table, uint64_t object, uint64_t key)
{
    return &table->entries[key_hash(object, key) & (table->room - 1)].head;
}

/* table_link makes an entry, whose number is its index + 1, the first of its chain. */
static inline void table_link(const struct table *table, struct entry *entry, uint32_t number)
{
    entry->at = key_hash(entry->object, entry->key) & (table->room - 1);
    uint32_t *head = &table->entries[entry->at].head;
    entry->next = *head;
    *head = number;
}

/* table_find returns the newest entry of this object and key, or NULL. */
static inline struct entry *table_find(const struct table *table, uint64_t object, uint64_t key)
{
    uint32_t at = table->count ? *table_head(table, object, key) : 0;
    while (at && (table->entries[at - 1].key != key || table->entries[at - 1].object != object))
        at = table->entries[at - 1].next;
    return at ? &table->entries[at - 1] : NULL;
}

int  table_grow(struct store *store, struct table *table);     /* makes room for more */

/* table_add adds an entry: 0 or -ENOMEM. */
static inline int table_add(struct store *store, struct table *table, uint64_t object,
                            uint64_t key, uint64_t value, uint32_t kind)
{
    if (table->count == table->room && table_grow(store, table))
        return -ENOMEM;
    struct entry *entry = &table->entries[table->count++];
    entry->object = object;
    entry->key = key;
    entry->value = value;
    entry->kind = kind;
    table_link(table, entry, table->count);
    return 0;
}

/* ---- group.c: a difference */

/* runs_check checks that runs ascend, do not overlap, lie inside the page and use all the bytes. */
static inline int runs_check(const uint8_t *runs, uint32_t bytes)
{
    uint32_t reached = 0;
    while (bytes) {
        if (bytes < 4)
            return -EINVAL;
        uint32_t offset = runs[0] | runs[1] << 8, length = runs[2] | runs[3] << 8;
        if (offset < reached || !length || offset + length > STORE_PAGE_BYTES ||
            length > bytes - 4)
            return -EINVAL;
        reached = offset + length;
        runs += 4 + length;
        bytes -= 4 + length;
    }
    return 0;
}

#endif
