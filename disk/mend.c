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

/* Makes of m->bytes what the record of a transaction says; -EUCLEAN: nothing that could be. */
static int record_mend(const struct store *store, struct store_mend *m,
                       const struct record_disk *record, uint64_t csn)
{
    struct unpacked unpacked;
    uint32_t type = le16_get(record->type);
    uint64_t base = le64_get(record->base);
    bool full = type == RECORD_PAGE_FULL, logged = type == RECORD_PAGE_LOGGED;
    if (le64_get(record->object) != m->object || le64_get(record->page) != m->page ||
        !(full || logged || type == RECORD_PAGE_DIFF || type == RECORD_PAGE_OP))
        return 0;
    record = record_unpack(record, &unpacked);
    if (!record || !record_page_valid(record))
        return -EUCLEAN;
    if (logged) {
        int error = block_read(&store->io, ring_offset(store, base), m->bytes,
                               le32_get(record->crc));
        if (error)
            return error;
    } else if (full || !base || base == m->lsn) {                                       /* MD1 */
        record_page(record, m->bytes);
    } else {
        csn = 0;
    }
    m->lsn = csn;
    return 0;
}

/* The transactions of a group, each by its commit record, whose LSN is its number (RC1). */
static int group_mend(const struct store *store, struct store_mend *m, const uint8_t *group,
                      uint64_t lsn)
{
    struct record_walk walk = group_walk(group), ahead = walk;
    const struct record_disk *record;
    int more, error = 0;
    while (!error && (more = record_next(&ahead, &record)) > 0) {
        if (le16_get(record->type) != RECORD_COMMIT)
            continue;
        uint64_t csn = lsn + (uint64_t)((const uint8_t *)record - group);
        while (!error && walk.at < ahead.at && record_next(&walk, &record) > 0)
            error = record_mend(store, m, record, csn);
    }
    return error ? error : more;
}

static int log_mend(struct store *store, struct store_mend *m)
{
    struct log_reader reader;
    const uint8_t *group;
    int error = log_reader_open(&reader, store, READ_AHEAD_BYTES);
    while (!error && m->from < m->end &&
           (error = log_next(&reader, &m->from, &m->crc, &group)) > 0)
        error = group_mend(store, m, group, m->from - group_bytes(group));
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
