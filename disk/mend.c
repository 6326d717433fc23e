/*
 * mend.c - makes a page anew whose copy in memory was damaged, of a store that is at work.
 *
 * A clean page is read from its home. A dirty one is built from its records, as recovery would
 * build it: the first one since the older checkpoint began is complete, so its home is not needed.
 * Nothing else of the store is changed or replayed.
 *
 * MD1  What is handed out is the version that the page's leaf names, with each record between: a
 *      difference counts only behind the version that it names as its base.
 */
#include "internal.h"

int store_mend_begin(struct store *store, uint64_t object, uint64_t page, struct store_mend *m)
{
    const struct checkpoint_info *from = store->super.checkpoints;
    m->object = object;
    m->page = page;
    from += from->scan_lsn != store->log.keep;
    m->from = store->log.keep;
    m->crc = from->scan_crc;
    m->end = store->log.applied;
    m->lsn = 0;
    memset(m->bytes, 0, sizeof m->bytes);
    return store_page_find(store, object, page, &m->at);
}

bool store_mend_again(struct store *store, struct store_mend *m)
{
    struct store_page before = m->at;
    m->end = store->log.applied;
    if (store_page_find(store, m->object, m->page, &m->at) || !m->at.present)
        memset(m->bytes, 0, sizeof m->bytes);
    return m->at.present && (!before.present || m->at.lsn != before.lsn);
}

/* record_mend makes of m->bytes what a record says; -EUCLEAN: nothing that could be. */
static int record_mend(struct store *store, void *context, const struct record_disk *record,
                       uint64_t csn)
{
    struct store_mend *m = context;
    struct unpacked unpacked;
    uint32_t type = le16_get(record->type);
    uint64_t base = le64_get(record->base);
    if (le64_get(record->object) != m->object || le64_get(record->page) != m->page ||
        !record_writes(type))
        return 0;
    record = record_unpack(record, &unpacked);
    if (!record || !record_page_valid(record))
        return -EUCLEAN;
    if (type == RECORD_PAGE_LOGGED) {
        int error = block_read(&store->io, ring_offset(store, base), m->bytes,
                               le32_get(record->crc));
        if (error)
            return error;
    } else if (type == RECORD_PAGE_FULL || !base || base == m->lsn) {      /* MD1 */
        record_page(record, m->bytes);
    } else {
        csn = 0;
    }
    m->lsn = csn;
    return 0;
}

static int log_mend(struct store *store, struct store_mend *m)
{
    struct log_reader reader;
    const uint8_t *group;
    int error = log_reader_open(&reader, store, READ_AHEAD_BYTES);
    while (!error && m->from < m->end &&
           (error = log_next(&reader, &m->from, &m->crc, &group)) > 0)
        error = records_visit(store, group, m->from - group_bytes(group), record_mend, m);
    log_reader_close(&reader);
    return error ? error : m->lsn == m->at.lsn ? 0 : -EUCLEAN;                          /* MD1 */
}

int store_mend_read(struct store *store, struct store_mend *m)
{
    if (!m->at.present)
        return 0;
    if (m->at.dirty)
        return log_mend(store, m);
    return block_read(&store->io, m->at.offset_bytes, m->bytes, m->at.crc);
}
