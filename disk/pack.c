/*
 * pack.c - records whose bytes are packed by LZ4: of a whole page, or of a difference.
 *
 * Such a record says so in its flags, and data_bytes is what it takes packed. What it is unpacked
 * fits into two pages, as any record of one page does; else, or if the bytes are none of LZ4's, it
 * is damage. The library (lz4/) is the reference one, as it is.
 *
 * Invariants
 *   PK1  Who applies a record unpacks it first, and checks what comes out as he would check what
 *       was never packed; so nobody else need know.
 */
#include "internal.h"
#define LZ4_HC_STATIC_LINKING_ONLY      /* ..._fastReset */
#include "lz4/lz4hc.h"

#define PACK_LEAST 64u                  /* of fewer bytes nothing is gained */
#define PACK_HIGH 2048u                 /* from so many bytes on high compression pays, ... */
#define PACK_LEVEL 3                    /* ... of this level: higher ones gain nothing on a page */

struct record_disk *record_last(const struct store_group *group)
{
    bool any = group->last_at >= group->txn_used && group->last_at < group->used;
    return any ? (void *)(group->buffer + group->last_at) : NULL;
}

void record_shrink(struct store_group *group, const void *data, uint32_t bytes)
{
    struct record_disk *record = (void *)(group->buffer + group->last_at);
    uint32_t length = record_room(bytes);
    group_reach(group, group->used);
    memcpy(record + 1, data, bytes);
    memset((uint8_t *)(record + 1) + bytes, 0, length - sizeof *record - bytes);
    record->length = le32_of(length);
    record->data_bytes = le32_of(bytes);
    group->used = group->last_at + length;
}

/* compress packs into less than 7/8, or returns 0 or less. High compression looks for longer
 * matches than plain does, and takes a quarter of a MiB, once; without that memory it is plain. */
static int compress(struct store *store, const char *from, uint32_t size, char *to)
{
    int bytes = (int)size, most = bytes - bytes / 8;
    if (size >= PACK_HIGH && !store->packer) {
        store->packer = store_alloc(store, sizeof(LZ4_streamHC_t));
        if (store->packer)
            LZ4_initStreamHC(store->packer, sizeof(LZ4_streamHC_t));
    }
    if (size < PACK_HIGH || !store->packer)
        return LZ4_compress_default(from, to, bytes, most);
    return LZ4_compress_HC_extStateHC_fastReset(store->packer, from, to, bytes, most, PACK_LEVEL);
}

void packer_drop(struct store *store)
{
    store_release(store, store->packer, sizeof(LZ4_streamHC_t));
}

int store_txn_pack(struct store_group *group)
{
    char packed[2 * STORE_PAGE_BYTES];
    struct record_disk *record = record_last(group);
    int error = txn_state(group);
    if (error || !record)
        return error;
    uint32_t bytes = le32_get(record->data_bytes), type = le16_get(record->type);
    if ((type != RECORD_PAGE_FULL && type != RECORD_PAGE_DIFF) || le16_get(record->flags) ||
        bytes < PACK_LEAST)
        return 0;
    int n = compress(group->store, (const char *)(record + 1), bytes, packed);
    if (n <= 0)
        return 0;                       /* the record does not become smaller */
    record_shrink(group, packed, (uint32_t)n);
    record->flags = le16_of(RECORD_PACKED);
    return 0;
}

bool record_packed(const struct record_disk *record)
{
    uint32_t type = le16_get(record->type);
    return (type == RECORD_PAGE_FULL || type == RECORD_PAGE_DIFF) &&
           le16_get(record->flags) & RECORD_PACKED;
}

const struct record_disk *record_unpack(const struct record_disk *record, struct unpacked *to)
{
    if (!record_packed(record))
        return record;
    uint32_t bytes = le32_get(record->data_bytes);
    int n = bytes > sizeof to->data
                ? -1
                : LZ4_decompress_safe((const char *)(record + 1), (char *)to->data, (int)bytes,
                                      (int)sizeof to->data);
    if (n < 0)
        return NULL;
    to->record = *record;
    to->record.flags = le16_of(0);
    to->record.data_bytes = le32_of((uint32_t)n);
    return &to->record;
}
