/*
 * before.c - pages that were not home when a checkpoint by chunks was saved.
 *
 * Their records lie before its redo LSN, and its metadata has their versions already. So here a
 * record only becomes a part of its page's chain, if it leads to the version that is there.
 */
#include "view.h"

static int page_note(struct kview *view, struct kmodel *model, const struct record_disk *record,
                     uint64_t data_offset, uint32_t *newest, uint64_t scan_lsn, const char **why)
{
    uint8_t image[BLOCK_BYTES];
    uint32_t type = le16_get(record->type);
    uint64_t base = le64_get(record->base);
    bool full = type == RECORD_PAGE_FULL || type == RECORD_PAGE_LOGGED;
    struct kpage_record note = { .data_offset = data_offset, .full = full,
                                 .packed = kpacked(record),
                                 .operations = type == RECORD_PAGE_OP,
                                 .before = !full && base ? *newest : 0,
                                 .data_bytes = le32_get(record->data_bytes) };
    if (!full && base && !*newest)
        return 0;                       /* its home is right */
    if (type == RECORD_PAGE_LOGGED) {
        note.data_offset = view->super.log_start + base % view->super.log_bytes;
        note.data_bytes = BLOCK_BYTES;
        *why = "its image is not in the log";
        if (base % BLOCK_BYTES || base < scan_lsn)
            return -EUCLEAN;
        if (kview_read(view, note.data_offset, image, sizeof image))
            return -EIO;
        if (kcheck_crc(0, image, sizeof image) != le32_get(record->crc))
            return -EUCLEAN;
    }
    *newest = kmodel_record_add(model, &note);
    return *newest ? 0 : -ENOMEM;
}

static int record_note(struct kview *view, struct kmodel *model, const struct record_disk *record,
                       uint64_t data_offset, uint64_t csn, uint64_t scan_lsn, const char **why)
{
    uint32_t type = le16_get(record->type), n = model->extent_pages;
    uint64_t page = le64_get(record->page);
    uint32_t p = (uint32_t)(page % n);
    if (type != RECORD_PAGE_FULL && type != RECORD_PAGE_DIFF && type != RECORD_PAGE_LOGGED &&
        type != RECORD_PAGE_OP)
        return 0;
    struct kleaf *leaf = kmodel_leaf(model, le64_get(record->object), page / n);
    if (!leaf || leaf->physical != le64_get(record->physical) || !(leaf->mask >> p & 1) ||
        csn > kleaf_lsn(leaf)[p])
        return 0;
    struct kcontainer *container = kmodel_container(model, leaf->object);
    *why = container && page < kcontainer_pages(&container->disk) ? kpage_wrong(record)
                                                    : "it is outside of any container";
    return *why ? -EUCLEAN
                : page_note(view, model, record, data_offset, &kleaf_record(model, leaf)[p],
                            scan_lsn, why);
}

int kbefore_group(struct kview *view, struct kmodel *model, const struct kgroup *group,
                  const struct kcheckpoint *from, size_t *at, const char **why)
{
    const struct group_disk *header = (const void *)view->buffer;
    size_t bytes = sizeof *header + le32_get(header->payload_bytes), next = sizeof *header;
    size_t first = next;                /* of the transaction */
    int error = 0;
    for (uint32_t left = group->records; left && !error; left--) {
        size_t here = next;
        const struct record_disk *record = kreplay_record(view->buffer, bytes, here, &next);
        *why = "a record is malformed";
        if (!record)
            return -EUCLEAN;
        if (le16_get(record->type) != RECORD_COMMIT)
            continue;
        for (*at = first; *at < here && !error; first = *at) {
            record = kreplay_record(view->buffer, bytes, *at, at);
            error = record_note(view, model, record, group->offset + first + sizeof *record,
                                group->lsn + here, from->scan_lsn, why);
        }
        first = next;
    }
    return error;
}
