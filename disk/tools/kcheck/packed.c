/*
 * packed.c - records whose data is packed by LZ4: bit 0 of a record's flags, types 1 and 2.
 */
#include "lz4/lz4.h"
#include "view.h"

bool kpacked(const struct record_disk *record)
{
    unsigned type = le16_get(record->type);
    return (type == RECORD_PAGE_FULL || type == RECORD_PAGE_DIFF) &&
           (le16_get(record->flags) & RECORD_PACKED);
}

int kunpack(const uint8_t *from, uint32_t bytes, uint8_t to[KUNPACKED_BYTES])
{
    if (bytes > KUNPACKED_BYTES)
        return -EUCLEAN;
    int n = LZ4_decompress_safe((const char *)from, (char *)to, (int)bytes, KUNPACKED_BYTES);
    return n < 0 ? -EUCLEAN : n;
}

const char *kpage_wrong(const struct record_disk *record)
{
    uint8_t unpacked[KUNPACKED_BYTES];
    const uint8_t *data = (const uint8_t *)(record + 1);
    int bytes = (int)le32_get(record->data_bytes);
    unsigned type = le16_get(record->type);
    if (kpacked(record)) {
        bytes = kunpack(data, (uint32_t)bytes, unpacked);
        data = unpacked;
    }
    if (bytes < 0)
        return "it cannot be unpacked";
    if (type == RECORD_PAGE_FULL && bytes != BLOCK_BYTES)
        return "it is not a whole page";
    if (type == RECORD_PAGE_LOGGED && bytes)
        return "it has a wrong size";
    if (type == RECORD_PAGE_OP)
        return koperations(data, (uint32_t)bytes);
    return type == RECORD_PAGE_DIFF ? kreplay_runs(data, (uint32_t)bytes) : NULL;
}
