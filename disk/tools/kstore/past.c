/*
 * past.c - pages from parts of the log that a recovery needs no more.
 *
 * The ring keeps old groups until they are overwritten. A version of a page that is found there
 * and has the CRC that the page's leaf gives is the page. The ring is read once; what is kept of it
 * is where the records of each page are.
 */
#include "salvage.h"

#include <stdlib.h>
#include <string.h>

#define RECORD_BLOCKS_MOST 4u           /* a difference has up to two pages of runs */

/* By page, then by age. */
static int past_order(const void *a, const void *b)
{
    const struct past *x = a, *y = b;
    if (x->object != y->object)
        return x->object < y->object ? -1 : 1;
    if (x->page != y->page)
        return x->page < y->page ? -1 : 1;
    return x->lsn < y->lsn ? -1 : x->lsn > y->lsn;
}

static bool past_add(struct copy *copy, const struct record_disk *record, uint64_t lsn,
                     uint64_t offset)
{
    uint32_t type = le16_get(record->type);
    if (type != RECORD_PAGE_FULL && type != RECORD_PAGE_DIFF && type != RECORD_PAGE_OP)
        return true;
    if (!karray_room((void **)&copy->past, copy->past_count, &copy->past_room, sizeof *copy->past))
        return false;
    copy->past[copy->past_count++] = (struct past){
        .object = le64_get(record->object), .page = le64_get(record->page), .lsn = lsn,
        .offset = offset, .bytes = le32_get(record->length) };
    return true;
}

/* The records of the group in the view's buffer. False: out of memory. */
static bool group_note(struct copy *copy, const struct kgroup *group)
{
    const uint8_t *bytes = copy->from->buffer;
    size_t at = sizeof(struct group_disk), next;
    size_t end = at + le32_get(((const struct group_disk *)(const void *)bytes)->payload_bytes);
    for (uint32_t r = 0; r < group->records; r++, at = next) {
        const struct record_disk *record = kreplay_record(bytes, end, at, &next);
        if (!record)
            return true;
        if (!past_add(copy, record, group->lsn + at, group->offset + at))
            return false;
    }
    return true;
}

static void past_read(struct copy *copy)
{
    struct kview *view = copy->from;
    copy->past_read = true;
    for (uint64_t place = 0; place < view->super.log_bytes; place += BLOCK_BYTES) {
        struct kgroup group;
        progress_show(NULL, "the log's past", place, view->super.log_bytes);
        if (klog_any(view, place, &group) != 1 || group.lsn % view->super.log_bytes != place)
            continue;
        if (!group_note(copy, &group))
            break;
        place += group.bytes - BLOCK_BYTES;
    }
    if (copy->past_count)
        qsort(copy->past, copy->past_count, sizeof *copy->past, past_order);
}

/* Changes *bytes as the record says; true if it is one of this page. */
static bool record_take(const struct record_disk *record, uint64_t object, uint64_t page,
                        uint8_t *bytes)
{
    const uint8_t *data = (const uint8_t *)(record + 1);
    uint32_t count = le32_get(record->data_bytes);
    uint8_t unpacked[KUNPACKED_BYTES];
    if (le64_get(record->object) != object || le64_get(record->page) != page)
        return false;
    if (kpacked(record)) {
        int n = kunpack(data, count, unpacked);
        count = n < 0 ? 0 : (uint32_t)n;
        data = unpacked;
    }
    uint32_t type = le16_get(record->type);
    if (type != RECORD_PAGE_FULL && !le64_get(record->base))
        memset(bytes, 0, BLOCK_BYTES);
    if (type == RECORD_PAGE_FULL && count == BLOCK_BYTES)
        memcpy(bytes, data, BLOCK_BYTES);
    else if (type == RECORD_PAGE_DIFF && !kreplay_runs(data, count))
        kreplay_patch(bytes, data, count);
    else if (type == RECORD_PAGE_OP && !koperations(data, count))
        koperate(bytes, data, count);
    else
        return false;
    return true;
}

/* The first record of this page, or of one behind it. */
static uint32_t past_first(const struct copy *copy, uint64_t object, uint64_t page)
{
    const struct past wanted = { .object = object, .page = page };
    uint32_t low = 0, high = copy->past_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (past_order(&copy->past[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
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
    for (uint32_t i = past_first(copy, leaf->object, page); i < copy->past_count; i++) {
        const struct past *past = &copy->past[i];
        uint8_t blocks[RECORD_BLOCKS_MOST * BLOCK_BYTES];
        uint64_t skip = past->offset % BLOCK_BYTES;
        uint64_t read = (skip + past->bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
        if (past->object != leaf->object || past->page != page)
            break;
        if (read > sizeof blocks || kview_read(view, past->offset - skip, blocks, read))
            continue;
        const struct record_disk *record = (const void *)(blocks + skip);
        if (le32_get(record->data_bytes) > past->bytes - sizeof *record)
            continue;                   /* the disk gives other bytes than before */
        if (record_take(record, leaf->object, page, bytes) &&
            kcheck_crc(0, bytes, BLOCK_BYTES) == wanted)
            return true;
    }
    return false;
}

void past_free(struct copy *copy)
{
    free(copy->past);
    copy->past = NULL;
}
