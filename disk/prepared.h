/*
 * prepared.h - transactions in doubt, in memory, and what prepared.c offers the others. internal.h
 * includes it.
 */
#ifndef KATYDID_DISK_PREPARED_H
#define KATYDID_DISK_PREPARED_H

#include "internal.h"

/*
 *   store_prepare --> pending --apply--> prepared --COMMIT or UNDO applied--> gone
 *   store_txn_decided --> pending --apply--> kept --FORGET applied--> gone
 */
struct doubt_claim { uint64_t object, first, count; };

struct doubt {
    struct doubt *next;         /* the one that came next */
    struct store_txn_id id;
    uint64_t number;            /* ascending */
    bool     prepared;          /* else it is a decision */
    bool     committing;        /* the record at `at` commits it: what was promised is redeemed */
    struct store_group *group;  /* not applied, and holds a record about it at `at`; NULL: none */
    size_t   at;
    uint64_t lsn;               /* of the group that has its record; 0: pending ... */
    uint32_t prev_crc;          /* ... and of the one before that */
    struct store_hold hold;     /* of a decision that is kept */
    struct store_chain *chain;  /* prepared: its images; NULL in recovery */
    struct store_chain *fresh;  /* its images are being written again, into this one */
    uint64_t blocks;            /* what it takes in the log at most (TP2) */
    uint64_t extents;           /* promised; and names (TP3) */
    uint32_t names, claim_count, claim_room;
    struct doubt_claim *claims; /* pages that it claims: sorted, disjoint */
    uint32_t room;              /* bytes of its record */
    struct record_disk record[];        /* PREPARED, KEPT or AGAIN, as it is in the log */
};

/* prepared_bytes returns the size of a PREPARED record's data. */
static inline uint32_t prepared_bytes(uint64_t pages, uint32_t bytes)
{
    return (uint32_t)(sizeof(struct prepared_disk) + pages * sizeof(struct prepared_page_disk)) +
           bytes;
}

/* doubt_blocks counts log blocks for images and a record of so many bytes; each may begin one. */
static inline uint64_t doubt_blocks(uint64_t pages, uint32_t record_bytes)
{
    return pages + (pages != 0) + 1 + record_bytes / BLOCK_BYTES;
}

static inline const struct prepared_disk *prepared_of(const struct record_disk *record)
{
    return (const void *)(record + 1);
}

/* prepared_page_at returns a record's page number i; behind the last one: what is the caller's. */
static inline const struct prepared_page_disk *prepared_page_at(const struct record_disk *record,
                                                                uint64_t i)
{
    return (const struct prepared_page_disk *)(prepared_of(record) + 1) + i;
}

/* prepared_extra returns how many bytes of a PREPARED record are the caller's, behind all else. */
static inline uint32_t prepared_extra(const struct record_disk *record)
{
    return le32_get(record->data_bytes) - prepared_bytes(le64_get(record->page), 0);
}

/* doubt.c */
struct doubt *doubt_find(const struct store *store, const struct store_txn_id *id);
/* doubt_new makes one more, pending, with room for its record. -EAGAIN: there are too many, or they
 * take too much of the log. */
int  doubt_new(struct store *store, const struct store_txn_id *id, bool prepared, uint64_t pages,
               uint32_t room, struct doubt **out);
struct store_hold *hold_of(struct doubt *d);
void doubt_end(struct store *store, struct doubt *d);
/* doubt_promise notes that d's promise is redeemed; `again`: that it is given, or stands again. */
void doubt_promise(struct store *store, const struct doubt *d, bool again);
/* doubt_extents counts extents of which the chain has a page and nobody is sure to have one when it
 * commits: its pages that are there already stay, for nobody else may free them. */
uint64_t doubt_extents(const struct store *store, const struct store_chain *chain);
uint64_t doubt_names_free(const struct store *store);   /* how many more names may be set */
/* doubts_count counts those that are not pending; *sum, if wanted: which (format.h). */
uint32_t doubts_count(const struct store *store, uint32_t *sum);
void doubts_drop(struct store *store);
/* doubt_apply applies a PREPARED or DECIDED record of the group at `lsn`. In recovery also of
 * groups before the redo LSN, which is `redo`. */
int  doubt_apply(struct store *store, const struct record_disk *record, const uint8_t *group,
                 uint64_t lsn, uint64_t redo);
/* doubts_restore, when recovery has met the log, gives each its chain and promise, as before. */
int  doubts_restore(struct store *store);
/* doubt_has_page and doubt_has_range tell if one that is prepared, and is not what this transaction
 * commits (NULL: any), has this page, or one of these (TP4). */
bool doubt_has_page(const struct store *store, const struct store_group *group, uint64_t object,
                    uint64_t page);
bool doubt_has_range(const struct store_group *group, uint64_t object, uint64_t page,
                     uint64_t count);
/* doubt_claims tells if such a one claims one of these pages, and where in *end the claim ends. */
bool doubt_claims(const struct store *store, const struct store_group *group, uint64_t object,
                  uint64_t page, uint64_t count, uint64_t *end);

/* prepared.c */
/* doubts_fit tells if, with the log's end here, all can be written again. Else that is due. */
bool doubts_fit(struct store *store, uint64_t end);
/* doubts_sealed makes places of images LSNs, before the group's CRC is made. */
void doubts_sealed(struct store_group *group);
/* doubts_cancel takes back the records at or behind `from` in the group. */
void doubts_cancel(struct store_group *group, size_t from);
/* doubt_commits tells if the transaction being built may end this chain, which is prepared. */
bool doubt_commits(const struct store_group *group, const struct store_chain *chain);

#endif
