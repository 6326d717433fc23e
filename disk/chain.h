/*
 * chain.h - chains in memory, and what chain.c offers the others. internal.h includes it.
 */
#ifndef KATYDID_DISK_CHAIN_H
#define KATYDID_DISK_CHAIN_H

#include "internal.h"

struct spill_node {
    struct spill_node *next;    /* next node in its place of the hash table */
    struct spill_node *before, *after;  /* the ring of its chain, oldest first */
    struct store_chain *chain;  /* NULL: committed */
    struct store_group *group;  /* its image's, not applied yet; NULL: it is, or this is `ends` */
    uint64_t  object, page;
    uint64_t  lsn;              /* of the image; its place in the group until that is sealed */
    uint32_t  crc;
};

struct store_chain {
    struct store *store;
    struct store_chain *next;
    struct spill_node ends;     /* ends of the ring: behind the newest node, before the oldest */
    uint64_t  tag, number, count;
    struct store_hold hold;     /* lsn: of its first group; 0: none is sealed */
    uint32_t  groups, crc;
    struct table homes;         /* bulk.c: object, index -> its extent; kind: bits of pages */
    uint32_t *home_crcs;        /* extent_pages for each of them */
    uint32_t  home_crc_room;
    uint64_t  home_pages;       /* bits in all of them */
    bool      home_unflushed;
    uint8_t   spilled_in;       /* group_bit of unapplied groups with SPILL records of it */
    bool      done;             /* committed and applied */
    bool      prepared;         /* prepared.c has it; orphan: ends with its commit's group */
    bool      orphan;
    struct store_group *commit_group;   /* holds its commit record, not applied yet */
};

/* node_find returns the page's node in this chain, or NULL; chain NULL: the committed image */
struct spill_node *node_find(const struct store *store, const struct store_chain *chain,
                             uint64_t object, uint64_t page);
/* chain_too_long tells if records of so many images more would not fit the commit's group. */
bool chain_too_long(const struct store_chain *chain, uint32_t more);
struct spill_node *node_first(const struct store *store, uint64_t object, uint64_t page);
/* chain_node_add, in recovery, adds an image that is applied. */
int  chain_node_add(struct store_chain *chain, uint64_t object, uint64_t page, uint64_t lsn,
                    uint32_t crc);
void chains_drop(struct store *store);
void chains_sealed(struct store_group *group, uint32_t prev_crc);
void chains_ended(struct store_group *group, bool cancelled);
void chain_encode(const struct store_chain *chain, struct chain_disk *out);
void logged_enter(struct store *store, uint64_t object, uint64_t page, uint64_t lsn);
void logged_forget(struct store *store, uint64_t object, uint64_t page);
bool logged_find(const struct store *store, uint64_t object, uint64_t page, uint64_t *offset_bytes,
                 uint32_t *crc);
uint64_t chains_count(const struct store *store, uint64_t *pages);

/* bulk.c */
/* bulk_record_bytes returns what the records of a chain's pages at home take at most. */
uint64_t bulk_record_bytes(const struct store_chain *chain);
int  bulk_find(const struct store_chain *chain, uint64_t object, uint64_t page,
               uint64_t *offset_bytes, uint32_t *crc);
void bulk_drop(struct store_chain *chain, uint64_t object, uint64_t page);
int  bulk_pages_log(struct store_group *group, const struct store_chain *chain);
void bulk_end(struct store_chain *chain);

/* misleading.c */
/* passes_for_group tells if a start would take the block for a group of this store; data_misleads
 * if it might one that begins in these bytes, which lie at a multiple of 8 of a record's;
 * txn_misleads if it would one that begins in the transaction, which ends with this record. */
bool passes_for_group(const struct store *store, const void *block);
bool data_misleads(const void *data, size_t bytes);
bool txn_misleads(const struct store_group *group, const struct record_disk *commit);

#endif
