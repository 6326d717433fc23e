/* index_private.h - what the files of the indexes that the store manager keeps share. */
#ifndef PS_INDEX_PRIVATE_H
#define PS_INDEX_PRIVATE_H

#include "index.h"
#include "index_format.h"
#include "pstore_private.h"
#include "structures/tree_private.h"

enum { LEVELS = 8, INDEXES = 16, MARGIN = 68 << 10 };
enum whole { NOT_WHOLE, WHOLE_SHARED, WHOLE_EXCLUSIVE };

/* A look is what a view knows of an index, and has locked of it in its transaction. */
struct look {
    ps_container *container;            /* NULL: free */
    uint32_t generation;
    int used;                           /* in this transaction */
    int kind;
    enum whole whole;
    unsigned shared, exclusive;         /* touches */
    int torn, spoilt;                   /* this look met a publication; a page is damaged */
    int placed;                         /* the path leads to what committed_near() found last */
    uint64_t stamp;                     /* what `access` and the copies are of; 0: of nothing */
    struct ps_tree tree;
    struct ps_tree_access access;
    struct ps_node *node[LEVELS];       /* of which there is a copy */
    _Alignas(16) uint8_t copy[LEVELS][INDEX_NODE_BYTES];
};
struct looks {
    unsigned count;                     /* of ops */
    uint32_t op[INDEX_OPS_MAX];         /* where they are in tx->ops, by index and key */
    struct look look[INDEXES];
    uint8_t behind[MARGIN];             /* a slot of 16 bits and a key lead here at most */
};


/* A struct key is a copy: numbers need not be aligned where they come from. */
struct key { uint32_t length; _Alignas(16) uint8_t at[INDEX_KEY_MAX + 3]; };

static inline struct looks *looks_of(const struct ps_tx *tx)
{
    return (struct looks *)(void *)tx->indexes;
}

static inline struct bytes key_bytes(const struct key *k)
{
    return (struct bytes){k->at, k->length};
}

/* ---- index_look.c: what is committed ---- */
uint64_t pages_of(const ps_container *c);
int index_kind_of(const ps_container *c);           /* -1: it is no index */
struct bytes key_of(const struct look *l, const void *key);
int key_order(const struct look *l, struct bytes a, struct bytes b);
/* look_holds tells whether what the last look saw is still so. */
int look_holds(const struct look *l);
/* committed_find finds the committed value: 1 and *value, 0: none, -errno. */
int committed_find(struct look *l, const void *key, uint64_t *value);
enum where { AT_OR_ABOVE, ABOVE, BELOW_OR_AT, BELOW, FIRST, LAST };
/* committed_near finds the committed key there: 1, with *found and *value; 0: none; -errno. */
int committed_near(struct look *l, struct bytes key, enum where where, struct key *found,
                   uint64_t *value);

/* ---- index.c: locks, and the transaction's own changes ---- */
/* look_in_transaction returns the active transaction's look; NULL with errno. */
struct look *look_in_transaction(ps_container *c);
/* reads_only tells whether it is a snapshot or dirty read, which lock nothing. */
static inline int reads_only(const struct ps_tx *tx)
{
    return tx->kind == TX_READS;
}
int key_refused(const struct look *l, struct bytes key);
enum lock { LOCK_KEY, LOCK_GAP };
/* lock_take locks the key, or the gap before it; NULL: that behind the last key. 0 or -errno. */
int lock_take(struct look *l, const struct bytes *key, enum lock which, int exclusive);
/* gap_lock is committed_near() with the gap before the key locked, or that behind the last key. */
int gap_lock(struct look *l, struct bytes key, enum where where, int exclusive, struct key *found,
             uint64_t *value);
struct wire_op *op_at(const struct ps_tx *tx, unsigned i);
struct bytes op_key(const struct wire_op *op);
/* op_search finds the first operation at or behind this key of the index (after: behind it); *here:
 * it is of this index. key NULL: its first one; after: behind its last one. */
unsigned op_search(const struct ps_tx *tx, const struct look *l, const struct bytes *key,
                   int after, int *here);

#endif
