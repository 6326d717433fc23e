/*
 * past.c - pages from parts of the log that a recovery needs no more.
 *
 * The ring keeps old groups until they are overwritten. A version of a page that is found there
 * and has the CRC that the page's leaf gives is the page.
 */
#include "salvage.h"

#include <stdlib.h>
#include <string.h>

static int by_lsn(const void *a, const void *b)
{
    const struct kgroup *x = a, *y = b;
    return x->lsn < y->lsn ? -1 : x->lsn > y->lsn;
}

static void past_read(struct copy *copy)
{
    struct kview *view = copy->from;
    copy->past_read = true;
    for (uint64_t place = 0; place < view->super.log_bytes; place += BLOCK_BYTES) {
        struct kgroup group;
        progress_show(NULL, "the log's past", place, view->super.log_bytes);
        if (klog_any(view, place, &group) == 1 && group.lsn % view->super.log_bytes == place &&
            karray_room((void **)&copy->past, copy->past_count, &copy->past_room,
                        sizeof *copy->past))
            copy->past[copy->past_count++] = group;
    }
    if (copy->past_count)
        qsort(copy->past, copy->past_count, sizeof *copy->past, by_lsn);
}

/* Changes *bytes as the record says; true if it is one of this page. */
static bool record_take(const struct record_disk *record, uint64_t object, uint64_t page,
                        uint8_t *bytes)
{
    const uint8_t *data = (const uint8_t *)(record + 1);
    uint32_t count = le32_get(record->data_bytes);
    if (le64_get(record->object) != object || le64_get(record->page) != page)
        return false;
    if (le16_get(record->type) == RECORD_PAGE_FULL && count == BLOCK_BYTES)
        memcpy(bytes, data, BLOCK_BYTES);
    else if (le16_get(record->type) == RECORD_PAGE_DIFF && !kreplay_runs(data, count)) {
        if (!le64_get(record->base))
            memset(bytes, 0, BLOCK_BYTES);
        kreplay_patch(bytes, data, count);
    } else
        return false;
    return true;
}

bool past_find(struct copy *copy, const struct kleaf *leaf, uint32_t p, uint8_t *bytes)
{
    struct kview *view = copy->from;
    uint64_t page = leaf->index * view->super.extent_pages + p;
    uint32_t wanted = kleaf_crc(&view->model, leaf)[p];
    if (kleaf_record(&view->model, leaf)[p])
        return false;                   /* its bytes are in the log's present, and unreadable */
    if (!copy->past_read)
        past_read(copy);
    memset(bytes, 0, BLOCK_BYTES);
    for (uint32_t i = 0; i < copy->past_count; i++) {
        struct kgroup group;
        if (klog_group(view, copy->past[i].lsn, &group) != 1)
            continue;
        const struct group_disk *header = (const void *)view->buffer;
        size_t at = sizeof *header, next, end = at + le32_get(header->payload_bytes);
        for (uint32_t r = 0; r < group.records; r++, at = next) {
            const struct record_disk *record = kreplay_record(view->buffer, end, at, &next);
            if (!record)
                break;
            if (record_take(record, leaf->object, page, bytes) &&
                kcheck_crc(0, bytes, BLOCK_BYTES) == wanted)
                return true;
        }
    }
    return false;
}

void past_free(struct copy *copy)
{
    free(copy->past);
    copy->past = NULL;
}
