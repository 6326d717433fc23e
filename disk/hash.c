/*
 * hash.c - linear hashing: (object, extent index) -> leaf.
 *
 * Buckets 0 .. 2^level + split - 1; those below `split` are addressed with one bit more. When the
 * table is three quarters full, bucket `split` is divided in two, so the table grows one page at
 * a time and no insertion ever rehashes everything; when less than half of a smaller table would be
 * full, the last bucket goes back into the one that it came from. A bucket is a chain of pages; all
 * but the last are full.
 *
 * Invariants
 *   HS1  A leaf is in the bucket that hash_bucket() gives at the current level and split.
 *   HS2  No (object, index) occurs twice.
 *   HS3  In a chain only the last page may have room, and only the first may be empty.
 *   HS4  Of a leaf no page is both present and claimed; one of them at least is one of the two.
 *   HS5  What `near` says of a leaf is a hint: where a leaf was found last. It is believed if a
 *        bucket's page has that leaf there (HS2).
 */
#include "internal.h"

static uint64_t mix(uint64_t object, uint64_t index)
{
    uint64_t h = object * 0x9e3779b97f4a7c15ull ^ (index + 0x7f4a7c15ull) * 0xbf58476d1ce4e5b9ull;
    h = (h ^ h >> 31) * 0x94d049bb133111ebull;
    return h ^ h >> 29;
}

uint32_t hash_buckets(const struct store *store)
{
    return (1u << store->kept.hash_level) + store->kept.hash_split;
}

uint32_t hash_bucket(const struct store *store, uint64_t object, uint64_t index)
{
    uint64_t h = mix(object, index);
    uint32_t bucket = (uint32_t)h & ((1u << store->kept.hash_level) - 1);
    if (bucket < store->kept.hash_split)
        bucket = (uint32_t)h & ((2u << store->kept.hash_level) - 1);
    return bucket;
}

static void bucket_count_set(uint8_t *page, uint32_t count)
{
    ((struct bucket_disk *)page)->count = le32_of(count);
}

struct leaf_disk *hash_search(const struct store *store, uint64_t object, uint64_t index,
                              uint32_t *page)
{
    uint32_t at = store->heads[hash_bucket(store, object, index)];
    for (; at; at = store->pages[at].next) {
        uint8_t *bytes = store->pages[at].bytes;
        uint32_t count = bucket_count(bytes);
        for (uint32_t slot = 0; slot < count; slot++) {
            struct leaf_disk *leaf = bucket_leaf(store, bytes, slot);
            if (leaf_is(leaf, object, index)) {
                *leaf_near(store, object, index) = (struct leaf_near){at, slot};
                if (page)
                    *page = at;
                return leaf;
            }
        }
    }
    return NULL;
}

static uint32_t bucket_page_new(struct store *store, uint32_t bucket)
{
    uint32_t page = meta_page_new(store, META_BUCKET, bucket);
    if (page)
        ((struct bucket_disk *)store->pages[page].bytes)->bucket = le32_of(bucket);
    return page;
}

/* bucket_append makes room for one more leaf at the end of a bucket's chain, which always has a
 * page; NULL: there is no page more. */
static struct leaf_disk *bucket_append(struct store *store, uint32_t bucket, uint32_t *page)
{
    uint32_t at = store->heads[bucket], last = 0;
    for (; at; last = at, at = store->pages[at].next)
        if (bucket_count(store->pages[at].bytes) < store->leaves_per_page)
            break;
    if (!at) {
        at = bucket_page_new(store, bucket);
        if (!at)
            return NULL;
        store->pages[last].next = at;
        store->pages[at].place = (uint16_t)(store->pages[last].place + 1);
    }
    uint8_t *bytes = store->pages[at].bytes;
    uint32_t count = bucket_count(bytes);
    meta_touch(store, at);
    bucket_count_set(bytes, count + 1);
    *page = at;
    return bucket_leaf(store, bytes, count);
}

/* bucket_shrink moves the last leaf of a chain into a hole. Returns the page gone with it, or 0. */
static uint32_t bucket_shrink(struct store *store, uint32_t bucket, struct leaf_disk *hole)
{
    uint32_t at = store->heads[bucket], before = 0;
    while (store->pages[at].next) {
        before = at;
        at = store->pages[at].next;
    }
    uint8_t *bytes = store->pages[at].bytes;
    assert(bucket_count(bytes));                                                /* HS3 */
    uint32_t count = bucket_count(bytes) - 1;
    struct leaf_disk *last = bucket_leaf(store, bytes, count);
    meta_touch(store, at);
    if (last != hole)
        memcpy(hole, last, store->leaf_bytes);
    bucket_count_set(bytes, count);
    if (count || !before)
        return 0;
    store->pages[before].next = 0;
    meta_page_drop(store, at);
    return at;
}

/* bucket_split divides bucket `split`: leaves whose next hash bit is set go to the new last bucket.
 * If no page is left for it, the table only grows fuller. */
static void bucket_split(struct store *store)
{
    uint32_t from = store->kept.hash_split, to = hash_buckets(store);
    if (never(to >= store->super.area_pages))   /* each bucket has a page of its own */
        return;
    store->heads[to] = bucket_page_new(store, to);
    if (!store->heads[to])
        return;
    if (++store->kept.hash_split == 1u << store->kept.hash_level) {
        store->kept.hash_level++;
        store->kept.hash_split = 0;
    }
    uint32_t at = store->heads[from], slot = 0;
    while (at) {
        uint8_t *bytes = store->pages[at].bytes;
        if (slot >= bucket_count(bytes)) {
            at = store->pages[at].next;
            slot = 0;
            continue;
        }
        struct leaf_disk *leaf = bucket_leaf(store, bytes, slot);
        if (hash_bucket(store, le64_get(leaf->object), le64_get(leaf->index)) == from) {
            slot++;
            continue;
        }
        uint32_t page;
        struct leaf_disk *moved = bucket_append(store, to, &page);
        assert(hash_bucket(store, le64_get(leaf->object), le64_get(leaf->index)) == to);  /* HS1 */
        if (never(!moved))              /* ME2; the leaf is left where check finds it */
            return;
        memcpy(moved, leaf, store->leaf_bytes);
        meta_touch(store, at);
        if (bucket_shrink(store, from, leaf) == at)
            break;
    }
}

/* hash_pages_for tells how many pages `leaves` more leaves take at most. By themselves an overflow
 * page and a new bucket each; together not more than fill the pages of as many full ones, and of
 * the buckets that they make (area_pages_for counts the same way). */
uint32_t hash_pages_for(const struct store *store, uint32_t leaves)
{
    uint64_t c = store->leaves_per_page, all = store->kept.leaves + leaves;
    uint64_t now = hash_buckets(store), buckets = all * 4 / (3 * c) + 2;
    uint64_t together = all / c + 1 + (buckets > now ? buckets - now : 0);
    return together < 2ull * leaves ? (uint32_t)together : 2 * leaves;
}

/* hash_insert makes a leaf, zero but for its key, whatever was at its place; NULL: no page (ME2).
 * The key is not there yet. */
struct leaf_disk *hash_insert(struct store *store, uint64_t object, uint64_t index, uint32_t *page)
{
    uint64_t room = (uint64_t)hash_buckets(store) * store->leaves_per_page;
    assert(!TESTING || !hash_find(store, object, index, NULL));                 /* HS2 */
    if ((store->kept.leaves + 1) * 4 > room * 3)
        bucket_split(store);
    struct leaf_disk *leaf = bucket_append(store, hash_bucket(store, object, index), page);
    if (!leaf)
        return NULL;
    memset(leaf, 0, store->leaf_bytes);
    leaf->object = le64_of(object);
    leaf->index = le64_of(index);
    store->kept.leaves++;
    return leaf;
}

/* bucket_merge puts the last bucket back into the one it was split from. Page by page as many are
 * given back as taken, but for one at first: without a spare one it is put off. */
static void bucket_merge(struct store *store)
{
    uint32_t from = hash_buckets(store) - 1, page;
    if (!store->spares.count || never(!store->numbers.free))
        return;
    if (!store->kept.hash_split)
        store->kept.hash_split = 1u << --store->kept.hash_level;
    uint32_t into = --store->kept.hash_split;
    for (;;) {
        uint32_t at = store->heads[from];
        while (store->pages[at].next)
            at = store->pages[at].next;
        uint32_t count = bucket_count(store->pages[at].bytes);
        if (!count)
            break;
        struct leaf_disk *last = bucket_leaf(store, store->pages[at].bytes, count - 1);
        assert(hash_bucket(store, le64_get(last->object), le64_get(last->index)) == into); /* HS1 */
        memcpy(bucket_append(store, into, &page), last, store->leaf_bytes);
        bucket_shrink(store, from, last);
    }
    meta_page_drop(store, store->heads[from]);
    store->heads[from] = 0;
}

void hash_remove(struct store *store, uint64_t object, uint64_t index)
{
    uint32_t page;
    struct leaf_disk *leaf = hash_find(store, object, index, &page);
    if (never(!leaf))
        return;
    meta_touch(store, page);
    bucket_shrink(store, hash_bucket(store, object, index), leaf);
    store->kept.leaves--;
    if (store->kept.leaves * 2 < (uint64_t)(hash_buckets(store) - 1) * store->leaves_per_page)
        bucket_merge(store);
}
