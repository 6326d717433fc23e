/*
 * record.c - a record of the log as bytes: where it ends, and the runs of a difference.
 */
#include "view.h"

#include <string.h>

const struct record_disk *kreplay_record(const uint8_t *group, size_t bytes, size_t at,
                                         size_t *next)
{
    const struct record_disk *record = (const void *)(group + at);
    if (at > bytes || bytes - at < sizeof *record)
        return NULL;
    uint64_t length = le32_get(record->length), data = le32_get(record->data_bytes);
    if (length > bytes - at || length != (sizeof *record + data + 7) / 8 * 8)
        return NULL;
    *next = at + length;
    return record;
}

const char *kreplay_runs(const uint8_t *runs, uint32_t bytes)
{
    uint32_t least = 0;
    while (bytes) {
        uint32_t offset, length;
        if (bytes < 4)
            return "its runs end in the middle";
        offset = runs[0] + 256u * runs[1];
        length = runs[2] + 256u * runs[3];
        if (!length || length > bytes - 4 || offset + length > STORE_PAGE_BYTES)
            return "a run leaves the page or the record";
        if (offset < least)
            return "its runs do not ascend";
        least = offset + length;
        runs += 4 + length;
        bytes -= 4 + length;
    }
    return NULL;
}

void kreplay_patch(uint8_t *page, const uint8_t *runs, uint32_t bytes)
{
    for (const uint8_t *end = runs + bytes; runs < end;) {
        uint32_t offset = runs[0] + 256u * runs[1], length = runs[2] + 256u * runs[3];
        memcpy(page + offset, runs + 4, length);
        runs += 4 + length;
    }
}
