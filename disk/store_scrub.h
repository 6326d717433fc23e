/*
 * store_scrub.h - the part of store.h about scrubbing, which includes it.
 */
#ifndef KATYDID_DISK_STORE_SCRUB_H
#define KATYDID_DISK_STORE_SCRUB_H

#include "store.h"

/* ---------------------------------------------------------------- scrub: rot is found and mended
 * at work
 *
 *   while (store_scrub_next(store, &s) == 0)             a piece of 64 KiB at most
 *       store_scrub_read(store, &s)                      NO MUTEX
 *       if (store_scrub_judge(store, &s) == -EUCLEAN)    something is rotten, or cannot be read
 *           if (store_scrub_seek(store, &s) == 0)        NO MUTEX: and has another copy
 *               store_scrub_holds(store, &s) == 0 && store_scrub_write(store, &s)    (NO MUTEX)
 *           else store_scrub_skip(&s)                    goes on behind it
 *
 * *s is the caller's, zero at first; after a round (-ENOENT) it is ready for the next one. Holds
 * and write are for who runs checkpoints, while no group is open, sealed or unapplied. After a
 * write the piece is read again. What has no other copy: two checkpoints write superblocks and
 * areas anew, and need no log from before; a page is lost, unless memory has it. */

#define STORE_SCRUB_BLOCKS 16u
enum store_scrub_kind { STORE_SCRUB_SLOT, STORE_SCRUB_MAP, STORE_SCRUB_META, STORE_SCRUB_RING,
                        STORE_SCRUB_PAGE,
                        STORE_SCRUB_KINDS };

struct store_scrub {
    enum store_scrub_kind kind;
    uint32_t part;              /* slot A, slot B or signpost; area; blocks of the ring or groups */
    uint64_t at;                /* block, metadata page or extent */
    uint64_t blocks;            /* read so far, in all rounds */
    uint64_t offset, map_offset;/* the piece on the disk */
    uint32_t count;             /* its blocks */
    uint32_t unreadable, skip, written; /* bit i: block i */
    uint32_t again;             /* how often it was found rotten and read again */
    uint32_t bad;               /* after -EUCLEAN: the block, and where it lies */
    uint64_t good_offset;
    uint64_t object, page;      /* PAGE: whose it is */
    /* the library's */
    uint64_t generation, map_generation, index, lsn[STORE_SCRUB_BLOCKS], end_lsn;
    uint32_t crc[STORE_SCRUB_BLOCKS], sum, homes, wanted;
    bool     last, map_lost, found;
    size_t   good_map;          /* bytes of the map that go from memory */
    uint64_t next_lsn;          /* behind the groups that were read */
    uint32_t next_crc;
    int      result;
    uint8_t bytes[STORE_SCRUB_BLOCKS * STORE_PAGE_BYTES], map[STORE_PAGE_BYTES],
        good[STORE_PAGE_BYTES];
};

/* store_scrub_next chooses a piece. -ENOENT: the round is over. -EAGAIN: nothing to read now (a
 * checkpoint runs); call it again. Or the fence. */
store_must_check int store_scrub_next(struct store *store, struct store_scrub *scrub);
void store_scrub_read(struct store *store, struct store_scrub *scrub);
/* store_scrub_judge tells 0: sound; -EAGAIN: it has changed, or is to be read again; -EUCLEAN */
store_must_check int store_scrub_judge(struct store *store, struct store_scrub *scrub);
/* store_scrub_seek looks for another copy. -ENODATA: there is none. -ENOMEM */
store_must_check int store_scrub_seek(struct store *store, struct store_scrub *scrub);
/* store_scrub_holds looks once more. -EAGAIN: the piece has changed, and is left alone. */
store_must_check int store_scrub_holds(struct store *store, struct store_scrub *scrub);
/* store_scrub_write mends the block. -EIO: the place cannot be written. */
store_must_check int store_scrub_write(struct store *store, struct store_scrub *scrub);
void store_scrub_skip(struct store_scrub *scrub);

/* ---------------------------------------------------------------- mending a page in memory
 *
 *   store_mend_begin(store, object, page, &m)
 *   store_mend_read(store, &m)           NO MUTEX
 *   if (store_mend_again(store, &m))     commits went on meanwhile:
 *       store_mend_read(store, &m)       what they added
 *
 * m.bytes is the page's version m.at.lsn then, from its home or, where it is dirty, from its
 * records in the log; zeros if it is not present. For who runs checkpoints: the log stays. */
struct store_mend {
    uint64_t object, page;
    struct store_page at;
    uint64_t from, end, lsn;    /* the library's */
    uint32_t crc;
    uint8_t bytes[STORE_PAGE_BYTES];
};
/* store_mend_begin looks up a page that is to be mended. -ENOENT: no such container */
store_must_check int store_mend_begin(struct store *store, uint64_t object, uint64_t page,
                                      struct store_mend *mend);
bool store_mend_again(struct store *store, struct store_mend *mend);
/* store_mend_read reads it. -EUCLEAN: neither home nor log has it; -ENOMEM; the device's error. */
store_must_check int store_mend_read(struct store *store, struct store_mend *mend);

#endif
