/* hash_private.h - what the files of the hash share. */
#ifndef PS_HASH_PRIVATE_H
#define PS_HASH_PRIVATE_H

#include "hash.h"
#include "node.h"
#include "structure_private.h"

static inline struct ps_hash *hash_of(const struct ps_hash_access *a)
{
    return (struct ps_hash *)(void *)a->base.head;
}

/* Of a key, all 64 bits mixed. */
uint64_t hash_make(const struct ps_hash_access *a, struct bytes key);
struct ps_node *hash_bucket(const struct ps_hash_access *a, uint64_t hash);
/* The lowest and the highest hash of those that lead to the same bucket, of that depth. */
uint64_t hash_low(uint64_t hash, unsigned depth);
uint64_t hash_high(uint64_t hash, unsigned depth);

#endif
