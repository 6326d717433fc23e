/*
 * rechain.c - recovery's view of chains: which groups each has, and the pages that a commit names.
 *
 * Invariant
 *   A commit record that ends a chain is believed only if the scan met exactly the groups that the
 *   writer counted: same first LSN, same number, same CRC over their CRCs.
 */
#include "internal.h"

#define CHAINS_SEEN 1024u       /* of more, those that have left the ring are forgotten */

struct chain_seen {
    uint64_t number, head_lsn, last_lsn;
    uint32_t groups, crc;
    uint32_t head_prev;         /* CRC of the group before the first */
    uint32_t crc_before;        /* without the last group */
};

/* seen_find looks from the newest on: a chain's records are close to each other. */
static struct chain_seen *seen_find(const struct store *store, uint64_t number)
{
    for (uint32_t i = store->replay.seen_count; i-- > 0;)
        if (store->replay.seen[i].number == number)
            return &store->replay.seen[i];
    return NULL;
}

/* spill_note notes one SPILL record of the group at `lsn`. */
int spill_note(struct store *store, const struct record_disk *record, const uint8_t *group,
               uint64_t lsn)
{
    const struct group_disk *header = (const void *)group;
    uint64_t number = le64_get(record->base);
    struct chain_seen *seen = seen_find(store, number);
    int error = seen ? 0 : array_grow(store, &store->replay.seen, store->replay.seen_count,
                                      &store->replay.seen_room, sizeof *seen);
    if (error || (seen && seen->last_lsn == lsn))
        return error;
    if (!seen) {
        seen = &store->replay.seen[store->replay.seen_count++];
        *seen = (struct chain_seen){ .number = number, .head_lsn = lsn, .crc = (uint32_t)number };
    }
    if (!seen->groups++)
        seen->head_prev = le32_get(header->prev_crc);
    seen->last_lsn = lsn;
    seen->crc_before = seen->crc;
    seen->crc = crc32c(seen->crc, header->crc.byte, sizeof header->crc);
    return 0;
}

/* spills_note notes SPILL records of a group before the redo LSN, and what is in doubt. */
int spills_note(struct store *store, const uint8_t *group, uint64_t lsn, uint64_t redo)
{
    struct record_walk walk = group_walk(group);
    const struct record_disk *record;
    int more, error = 0;
    while (!error && (more = record_next(&walk, &record)) > 0) {
        uint32_t type = le16_get(record->type);
        if (type == RECORD_SPILL)
            error = spill_note(store, record, group, lsn);
        if (type == RECORD_PREPARED || type == RECORD_DECIDED)
            error = doubt_apply(store, record, group, lsn, redo);
    }
    return error ?: more;
}

/* chain_verify checks that a commit record's chain holds. The chain is over then. */
int chain_verify(struct store *store, const struct chain_disk *chain)
{
    struct chain_seen *seen = seen_find(store, le64_get(chain->chain));
    if (!seen || seen->head_lsn != le64_get(chain->head_lsn) ||
        seen->groups != le32_get(chain->groups) || seen->crc != le32_get(chain->crc))
        return -EUCLEAN;
    *seen = store->replay.seen[--store->replay.seen_count];
    return 0;
}

int chain_stands(const struct store *store, const struct chain_disk *chain, uint64_t lsn)
{
    const struct chain_seen *seen = seen_find(store, le64_get(chain->chain));
    bool here = seen && seen->last_lsn == lsn;          /* that group is not counted */
    uint32_t groups = seen ? seen->groups - here : 0;
    uint32_t crc = !seen ? (uint32_t)le64_get(chain->chain) : here ? seen->crc_before : seen->crc;
    return groups == le32_get(chain->groups) && crc == le32_get(chain->crc) &&
           le64_get(chain->head_lsn) == (groups ? seen->head_lsn : 0) ? 0 : -EUCLEAN;
}

void chain_restore(struct store_chain *chain, uint64_t number)
{
    const struct chain_seen *seen = seen_find(chain->store, number);
    chain->number = number;
    chain->crc = (uint32_t)number;
    if (!seen)
        return;
    chain->groups = seen->groups;
    chain->crc = seen->crc;
    hold_enter(chain->store, &chain->hold, seen->head_lsn, seen->head_prev);
}

/* logged_read reads the image that a PAGE_LOGGED record of the group at `lsn` names. */
int logged_read(struct store *store, const struct record_disk *record, uint64_t lsn,
                uint8_t *image)
{
    uint64_t at = le64_get(record->base);
    if (at % BLOCK_BYTES || at < store->replay.from || at >= lsn)
        return -EUCLEAN;
    return block_read(&store->io, ring_offset(store, at), image, le32_get(record->crc));
}

void seen_forget(struct store *store, uint64_t lsn)
{
    uint32_t kept = 0, count = store->replay.seen_count;
    for (uint32_t i = 0; count > CHAINS_SEEN && i < count; i++)
        if (store->replay.seen[i].last_lsn + store->super.log_bytes >= lsn)
            store->replay.seen[kept++] = store->replay.seen[i];
    store->replay.seen_count = count > CHAINS_SEEN ? kept : count;
}

void seen_drop(struct store *store)
{
    store_release(store, store->replay.seen, store->replay.seen_room * sizeof *store->replay.seen);
    store->replay.seen = NULL;
    store->replay.seen_count = store->replay.seen_room = 0;
}
