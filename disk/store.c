/*
 * store.c - the store in memory: made, ended; and what all files of disk/ use: the fence, memory,
 * reads.
 */
#include "internal.h"

#define READ_TRIES 3

int fence_set(struct store *store, int error)
{
    int none = 0;
    __atomic_compare_exchange_n(&store->fence, &none, error, false, __ATOMIC_ACQ_REL,
                                __ATOMIC_ACQUIRE);
    return fence_get(store);
}

int store_error(const struct store *store)
{
    return fence_get(store);
}

/* ---- memory */

void *store_alloc(const struct store *store, size_t bytes)
{
    bytes = bytes ? bytes : 1;
    if (store->memory.alloc_zeroed)
        return store->memory.alloc_zeroed(store->memory.context, bytes);
    void *memory = store->memory.alloc(store->memory.context, bytes);
    if (memory)
        memset(memory, 0, bytes);
    return memory;
}

void store_release(const struct store *store, void *memory, size_t bytes)
{
    if (memory)
        store->memory.free(store->memory.context, memory, bytes ? bytes : 1);
}

int array_grow(struct store *store, void *array, uint32_t count, uint32_t *room, size_t size)
{
    if (count < *room)
        return 0;
    uint32_t more = *room ? *room * 2 : 64;
    void *larger = store->memory.alloc(store->memory.context, more * size), *elements;
    if (!larger)
        return -ENOMEM;
    memcpy(&elements, array, sizeof elements);
    if (count)
        memcpy(larger, elements, count * size);
    store_release(store, elements, *room * size);
    memcpy(array, &larger, sizeof larger);
    *room = more;
    return 0;
}

int table_grow(struct store *store, struct table *table)
{
    struct entry *entries;
    int error = array_grow(store, &table->entries, table->count, &table->room, sizeof *entries);
    if (error)
        return error;
    entries = table->entries;
    for (uint32_t i = 0; i < table->room; i++)
        entries[i].head = 0;            /* the heads grow along */
    for (uint32_t i = 0; i < table->count; i++)
        table_link(table, &entries[i], i + 1);
    return 0;
}

void table_free(struct store *store, struct table *table)
{
    store_release(store, table->entries, table->room * sizeof *table->entries);
    *table = (struct table){ .count = 0 };
}

static void elements_swap(uint8_t *a, uint8_t *b, size_t size)
{
    for (size_t i = 0; i < size; i += 8) {
        uint64_t word = load64(a + i);
        store64(a + i, load64(b + i));
        store64(b + i, word);
    }
}

/* heap_sink lets element `at` of a heap of `count`, the largest on top, sink to its place. */
static void heap_sink(uint8_t *heap, size_t at, size_t count, size_t size, array_less *less)
{
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        child += child + 1 < count && less(heap + child * size, heap + (child + 1) * size);
        if (!less(heap + at * size, heap + child * size))
            return;
        elements_swap(heap + at * size, heap + child * size, size);
    }
}

/* array_sort is heapsort: in place, and never slow. */
void array_sort(void *array, size_t count, size_t size, array_less *less)
{
    for (size_t i = count / 2; i-- > 0;)
        heap_sink(array, i, count, size, less);
    for (size_t left = count; left-- > 1;) {
        elements_swap(array, (uint8_t *)array + left * size, size);
        heap_sink(array, 0, left, size, less);
    }
}

/* ---- reading */

int io_read(const struct disk_io *io, uint64_t offset, void *buffer, size_t bytes)
{
    int error = -EIO;
    for (int i = 0; i < READ_TRIES && error; i++)
        error = io->read(io->context, offset, buffer, bytes);
    return error;
}

int block_read(const struct disk_io *io, uint64_t offset, void *block, uint32_t crc)
{
    return io_read(io, offset, block, BLOCK_BYTES) ?:
           (crc32c(0, block, BLOCK_BYTES) == crc ? 0 : -EUCLEAN);
}

bool bytes_zero(const void *bytes, size_t count)
{
    const uint8_t *p = bytes;
    for (; count >= 32; p += 32, count -= 32)   /* by words: an emulator pays for each load */
        if (load64(p) | load64(p + 8) | load64(p + 16) | load64(p + 24))
            return false;
    while (count && !*p)
        p++, count--;
    return !count;
}

/* ---- tables whose size the superblock gives */

void table_sizes(const struct superblock *super, size_t bytes[TABLES])
{
    size_t pages = super->area_pages, containers = containers_max(super);
    const size_t sizes[TABLES] = {
        pages * sizeof(struct meta_page), pages * sizeof(uint32_t), pages * sizeof(uint32_t),
        pages * sizeof(uint32_t), containers * sizeof(struct container_use),
        super->extents * sizeof(struct extent), area_map_bytes(super->area_pages),
        containers * sizeof(uint32_t), index_heads_max(super) * sizeof(uint32_t),
        index_entries_max(super) * sizeof(uint32_t),
        store_zone_bytes(super->zone) / STORE_SEGMENT_UNIT * sizeof(uint32_t),
    };
    memcpy(bytes, sizes, sizeof sizes);
}

void tables_release(const struct store *store, const struct superblock *super,
                    void *const tables[TABLES])
{
    size_t bytes[TABLES];
    table_sizes(super, bytes);
    for (int i = 0; i < TABLES; i++)
        store_release(store, tables[i], bytes[i]);
}

int tables_make(const struct store *store, const struct superblock *super, void *tables[TABLES])
{
    size_t bytes[TABLES];
    int error = 0;
    table_sizes(super, bytes);
    for (int i = 0; i < TABLES; i++) {
        tables[i] = store_alloc(store, bytes[i]);
        error = tables[i] ? error : -ENOMEM;
    }
    return error;
}

/* ---- begin and end */

/* store_new makes a store in memory with nothing loaded. */
int store_new(const struct disk_io *io, const struct disk_memory *memory,
              const struct superblock *super, struct store **out)
{
    struct store *store = memory->alloc(memory->context, sizeof *store);
    if (!store)
        return -ENOMEM;
    memset(store, 0, sizeof *store);
    store->io = *io;
    store->memory = *memory;
    store->super = *super;
    store->extent_pages = super->extent_bytes / BLOCK_BYTES;
    store->leaf_bytes = leaf_bytes_for(super->extent_bytes);
    store->leaves_per_page = (uint32_t)(BLOCK_BYTES - sizeof(struct bucket_disk)) /
                             store->leaf_bytes;
    store->groups[0].store = store->groups[1].store = store;
    store->step_pages = PART_PAGES;
    *out = store;
    return 0;
}

void store_abandon(struct store *store)
{
    if (!store)
        return;
    for (int i = 0; i < 2; i++) {
        plan_free(&store->groups[i]);
        store_release(store, store->groups[i].buffer, store->group_bytes);
    }
    doubts_drop(store);
    chains_drop(store);
    seen_drop(store);
    checkpoint_drop(store);
    images_drop(store);
    meta_teardown(store);
    packer_drop(store);
    tables_release(store, &store->super, store->tables);
    struct disk_memory memory = store->memory;
    memory.free(memory.context, store, sizeof *store);
}

/* ---- the log */

int store_log_flush(struct store *store)
{
    int error = fence_get(store) ?:
                (store->io.flush_log ?: store->io.flush)(store->io.context);
    if (error)
        fence_set(store, error);
    return error;
}

store_lsn_t store_log_applied(const struct store *store)
{
    return store->log.applied;
}

void store_log_flushed(struct store *store, store_lsn_t lsn)
{
    store->log.durable = MAX(store->log.durable, lsn);
}
