/*
 * salvage.h - the two halves below salvage.c: copy.c fills the new store, past.c finds pages in
 * parts of the old log that a recovery needs no more.
 */
#ifndef KATYDID_SALVAGE_H
#define KATYDID_SALVAGE_H

#include "kstore.h"

struct past { uint64_t object, page, lsn, offset; uint32_t bytes; };    /* a record, on the disk */

struct copy {
    struct kview *from;
    struct image *to_image;
    struct disk_io io;
    struct store *to;
    struct store_group *group;          /* open, or NULL */
    struct copied { uint64_t object, page; uint8_t *bytes; } *pending;  /* pages in the group */
    uint32_t pending_count, pending_room;
    uint64_t pages, from_past, losses;
    struct past *past;                  /* every record of a page in the ring, by page and age */
    uint32_t past_count, past_room;
    bool     past_read;
};

/* Results: 0 or the store's error. */
int  copy_begin(struct copy *copy);
int  copy_op(struct copy *copy, struct store_op *op);
int  copy_page(struct copy *copy, uint64_t object, uint64_t page, const uint8_t *bytes);
int  copy_end(struct copy *copy, bool close, int error);  /* error: give up. Frees everything */

/* past_find tells whether bytes with this page's CRC are somewhere in the ring, and reads them. */
bool past_find(struct copy *copy, const struct kleaf *leaf, uint32_t page, uint8_t *bytes);
void past_free(struct copy *copy);

#endif
