/* spread_private.h - what structures say of their nodes, so that they can be spread over parts and
 * read in parallel. */
#ifndef PS_SPREAD_PRIVATE_H
#define PS_SPREAD_PRIVATE_H

#include "../error_private.h"
#include "spread.h"
#include "structure_private.h"

/* A query as an administrator keeps it: bounds of a tree, or a box (in `from`) and what is asked of
 * it. A bound that is not there: -1. */
struct spread_query {
    int32_t how;                        /* enum ps_query */
    int16_t from_bytes, to_bytes;
    _Alignas(16) uint8_t from[PS_KEY_MAX], to[PS_KEY_MAX];
};

/* A record as it is handed out: this, the key, the record, each at a multiple of 8. */
struct spread_found {
    uint32_t bytes;                     /* all three */
    uint16_t key_bytes, record_bytes;   /* key: of a string with its NUL */
};
static inline size_t spread_padded(size_t bytes) { return (bytes + 7) & ~(size_t)7; }
/* Where they are put; NULL in `to`: it does not fit. */
struct spread_batch { char *to, *end; };
int spread_put(struct spread_batch *b, const void *key, size_t key_bytes, const void *record,
               size_t record_bytes);

enum { SPREAD_END = ~0u };
struct ps_spread_kind {
    unsigned (*level)(const void *node);                /* 0: a leaf */
    unsigned (*children)(const struct ps_access *a, const void *branch);
    void **(*child)(const struct ps_access *a, void *branch, unsigned i);
    void **(*root)(struct ps_head *head);
    void (*bare)(struct ps_head *head); /* forgets nodes that are not below the root; may be NULL */
    /* The first child from i on that may lead to what is asked for, or SPREAD_END. */
    unsigned (*wanted)(const struct ps_access *a, const struct spread_query *q, const void *branch,
                       unsigned i);
    /* Puts what is asked for into the batch, from record i of a leaf on. The record at which it did
     * not fit any more, or SPREAD_END. */
    unsigned (*extract)(const struct ps_access *a, const struct spread_query *q, const void *leaf,
                        unsigned i, struct spread_batch *to);
};

/* order: leaves, counted in the order of keys, as they were made. part: which part each goes to. 0;
 * -ENOMEM. */
int spread_place(const unsigned *order, unsigned leaves, unsigned parts, enum ps_placement rule,
                 uint8_t *part);


/* fn(arg) in a transaction that changes one part; or, as a snapshot (0: of now), reads all. */
int segment_write(const struct ps_segment *s, int (*fn)(void *), void *arg);
int segment_read(const struct ps_segment *s, int snapshot, int (*fn)(void *), void *arg);

#endif
