/* item_layer_private.h - what the parts of the item layer know of each other. */
#ifndef PS_ITEM_LAYER_PRIVATE_H
#define PS_ITEM_LAYER_PRIVATE_H

#include "item_layer.h"
#include "pstore_private.h"

enum { PARTS_MAX = 16, PART_NAME = 24, SLAB_ITEMS = 63, ROOM_CLASSES = 112 };
enum { TYPE_HOLE = 0x80000000u };       /* of a header: free room, in the list of its class */

/* A slab is a page of headers: they are at multiples of 64 bytes, for ever (IH1). */
struct slab {
    uint32_t seal, unused;
    struct slab *next;
    struct ps_item item[SLAB_ITEMS];
};
_Static_assert(sizeof(struct ps_item) == 64, "on-disk size");
_Static_assert(sizeof(struct slab) == 4048, "the largest object of a page");

/* struct headers is the root of a container with headers. */
struct headers {
    struct slab *first;
    ps_arena *arena;                    /* of the allocator "arena" */
    uint64_t at, end;                   /* of "apart": what of the last region is free, ... */
    uint64_t regions, lost;             /* ... bytes of all, and those that nobody will get */
    struct ps_item *hole[ROOM_CLASSES];
};

struct ps_part {
    struct ps_file *file;
    char name[PART_NAME];
    unsigned flags;
    const struct ps_allocator *allocator;
    ps_container *data, *headers;
    struct headers *root;
    uint64_t bytes;                     /* of the headers' first segment */
    struct slab *_Atomic slab;          /* a hint: where a header may be free */
};

/* PART_OPENED says that stores to the partition's pages, up to the block's end, are meant. */
static inline struct ps_tx *part_opened(const ps_part *p)
{
    return (p->data->protection | p->headers->protection) & PS_PROTECT_GUARD ? guard_open_rare()
                                                                             : NULL;
}
#define PART_OPENED(p) __attribute__((cleanup(guard_shut))) struct ps_tx *opened_ = part_opened(p)

/* ---- item_file.c ---- */
ps_part *part_of(const ps_container *headers);                      /* NULL: of none */

/* ---- item_header.c ---- */
/* header_take takes a free header, to be written by the transaction; NULL with errno. */
struct ps_item *header_take(struct ps_tx *tx, ps_part *p);
void header_free(struct ps_item *item);                             /* its generation ends */
/* header_write says that the header is about to be stored to. 0 or -EROFS. */
int header_write(struct ps_tx *tx, ps_part *p, struct ps_item *item);
ps_item_id id_of(const ps_part *p, const struct ps_item *item);
/* header_of finds the header, of some kind, to which an identifier leads; NULL: EINVAL. */
struct ps_item *header_of(ps_item_id id, ps_part **part);
uint64_t header_sum(const struct ps_item *item);                    /* of the data (PS_PART_SUMS) */
void header_forget(void);                                           /* a part is closed */
/* header_is checks, behind the lock, that it is the identifier's item: 0, -ESTALE, -ENOENT. */
int header_is(const ps_part *p, const struct ps_item *item, ps_item_id id);
const struct ps_allocator *allocator_named(const char *name);

#endif
