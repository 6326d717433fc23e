/*
 * internal.h - the open store in memory, and what the files of disk/ offer each other.
 *
 *     open.c        store_open: checkpoint, two scans, the end of recovery; decide.c: its table
 *     span.c        several disks as one; all others see one
 *     store.c       a store in memory, made and ended; the fence, memory, reads
 *     superblock.c  encode, check and write a slot; slots.c: finds it, or what this disk is
 *     meta.c        metadata pages in memory; save to and load from an area
 *     hash.c        linear hashing: (object, extent index) -> leaf; often.h: what is inline
 *     directory.c   containers and names; index.c: finds them
 *     space.c       extents: free, claimed, used, freed
 *     plan.c        claims of groups that are not applied yet
 *     group.c       transactions and groups: encode, seal, write, apply
 *     record.c      walks and applies a group's records; pack.c, operate.c: some kinds of them
 *     scan.c        reads groups back from the ring; image.c: recovery's pages in memory, home
 *     checkpoint.c  begin, next, seal, write, apply; chunk.c: by chunks
 *     chain.c       transactions of several groups; rechain.c: in recovery; prepared.c: of
 *                   several stores; doubt.c: those in doubt
 *     bulk.c        their fresh pages, home before; unlogged.c: pages that are in no log ever
 *     hold.c        who else needs the log; backup.c: a copy of a store at work
 *     roll.c        recovery goes on with an archived log; spare.c: for good; feed.c: its home
 *     page.c        look-ups and home writes; scrub.c: reads every copy, and mends
 *     grow.c        the store takes a larger disk; upgrade.c: one of this format
 *     check.c       invariants; format.c: a new store
 */
#ifndef KATYDID_DISK_INTERNAL_H
#define KATYDID_DISK_INTERNAL_H

#include "errno_numbers.h"
#include "format.h"
#include "store.h"

/*
 * assert(c): c holds, whatever the disk holds, or this program stops. A store manager that does has
 * acknowledged nothing that recovery will not find. Where c costs more than a look it begins with
 * !TESTING ||. never(c): c cannot be true; it is handled all the same. A test build stops there.
 * `make coverage` compiles both out, and the build of a planted bug does so in the file that has
 * it: other checks must find it.
 */
#if defined KATYDID_TEST
#define TESTING 1
#else
#define TESTING 0
#endif
#undef assert
#if defined KATYDID_COVERAGE || defined KATYDID_PLANTED
#define assert(condition) ((void)sizeof(condition))
#define never(condition) ((void)sizeof(condition), 0)
#else
#define assert(condition) ((condition) ? (void)0 : __builtin_trap())
#define never(condition) ((condition) && (!TESTING || (__builtin_trap(), 1)))
#endif

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
static inline uint64_t round_block(uint64_t bytes)      /* up */
{
    return (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
}

/* key_hash mixes an object and a key in it, for tables in memory (hash.c's is in the format). */
static inline uint32_t key_hash(uint64_t object, uint64_t key)
{
    return (uint32_t)((object * 0x9e3779b97f4a7c15ull ^ key * 0xbf58476d1ce4e5b9ull) >> 32);
}

/* ---- fields of a superblock, decoded */

struct checkpoint_info {
    uint64_t redo_lsn, scan_lsn, sequence;
    uint64_t pages_lsn;         /* 0: redo_lsn */
    uint32_t root_crc, pages, prev_crc, scan_crc, pages_crc;
};

struct superblock {
    uint8_t  uuid[16];
    uint32_t format;            /* the version that the metadata on the disk has */
    uint32_t slot, flags, extent_bytes, zone;
    uint64_t generation, disk_bytes, slot_b_offset, log_start, log_bytes;
    uint64_t area_start[2], data_start, extents, end_lsn;
    uint32_t area_pages, directory_pages_max, names_pages_max, checkpoint_index, epoch_count;
    struct checkpoint_info checkpoints[2];
    struct epoch_info epochs[EPOCH_MAX];
};

/* ---- metadata pages */

#define PART_PAGES 64u          /* read or written in one request */

struct meta_page {
    uint8_t *bytes;             /* NULL: the page number is free */
    uint8_t *kept;              /* the page when the running checkpoint began; NULL: not needed */
    uint32_t index;  /* bucket number, or place in the list of its kind; free: next free */
    uint32_t next;              /* bucket pages: next page of the chain, 0 ends it */
    uint32_t serial;            /* the newest checkpoint that needs no more of what is in `bytes` */
    uint16_t place;             /* bucket pages: how many pages of its chain are before it */
    uint8_t  kind;
    uint8_t  dirty;             /* bit a: changed since area a saved it */
};

/* ---- extents
 *
 *   FREE --claim--> CLAIMED --apply--> USED --apply--> FREED --begin, end of a checkpoint--> FREE
 *    ^                 |
 *    +---- rewind -----+
 *
 * A freed extent notes which checkpoint will save the free; once that is durable, the extent counts
 * as FREE (extent_state), so that a checkpoint walks over none. One that is written again by the
 * same container before that goes back to USED. RESERVED holds slot B of the superblock, or a part
 * of a metadata area. One CLAIMED by a chain (bulk.c) says so in `bulk`; no rewind frees it.
 */
enum extent_state { EXTENT_FREE, EXTENT_CLAIMED, EXTENT_USED, EXTENT_FREED, EXTENT_RESERVED,
                    EXTENT_STATES };

struct extent {
    union {
        uint64_t redo;          /* USED: its chunk's redo point, if that is newer than log.redo */
        uint64_t freed;         /* FREED: the checkpoint that will save that */
    };
    uint32_t slot, index;       /* USED: its container's directory slot; its leaf's index */
    uint16_t dirty;             /* bit p: page p is newer in the log than at home */
    uint16_t homed;             /* bit p: recovery has built page p and written it home */
    uint16_t bulk;              /* bit p: page p's newest record is PAGE_HOME (BH4) */
    uint8_t  state;
};

/* struct index finds containers and named objects: made at each open, on no disk (index.c). */
struct index {
    uint32_t id_count;          /* entries of `ids` */
    uint32_t owned;             /* entries of `owners` that are not 0 */
    uint32_t free_container, free_name; /* no slot below is free */
};

/* struct container_use counts what a container has of the data region. */
struct container_use {
    uint64_t pages;             /* present */
    uint64_t claimed;
    uint64_t leaves;
    uint64_t top;               /* no extent of it at or above this index has a leaf */
};

/* ---- tables in memory, found by key (store.c): claims of groups, images of recovery */

struct entry {
    uint64_t object, key, value;
    uint32_t next;              /* next entry in the chain of its hash head, index + 1 */
    uint32_t head;              /* first entry of the chain with this entry's number; index + 1 */
    uint32_t kind;
    uint32_t at;                /* the number of its own head (often.h) */
};

struct table {
    struct entry *entries;
    uint32_t count, room;       /* room for a power of two, with as many heads */
};

/* ---- groups and their claims */

/* A claim's key is an extent's index, or a page, or the hash of a name. Its value is the extent's
 * number; of a page the commit record's place in the group; UNWRITTEN, of pages of an extent that a
 * transaction claims: bit p: page p; NAME, of an object: 2 * its record's place in the group,
 * + 1: set. */
enum claim_kind { CLAIM_EXTENT = 1, CLAIM_PAGE, CLAIM_PAGE_HOME, CLAIM_PAGE_FREED, CLAIM_UNWRITTEN,
                  CLAIM_NAME };

/* struct planned_op is a directory operation not yet applied; those on object names are claims. */
struct planned_op {
    uint32_t type;              /* enum record_type */
    uint32_t first_gib, gib, durability;
    uint64_t object;
    char     name[STORE_NAME_BYTES];
};

enum group_state { GROUP_IDLE, GROUP_OPEN, GROUP_SEALED, GROUP_ISSUED, GROUP_DURABLE,
                   GROUP_FAILED };

struct store_group {
    struct store *store;
    enum group_state state;
    int       error;            /* of write or flush */
    uint8_t  *buffer;           /* store->group_bytes */
    size_t    used, bytes;      /* filled; whole blocks once sealed */
    struct { size_t from, to; } zero;   /* the buffer is zero between; kept from group to group */
    uint64_t  lsn;              /* once sealed */
    uint32_t  records, txns;
    uint32_t  open_base;        /* the place of the last record of LG5, or 0 */
    struct table claims;
    struct planned_op *ops;
    uint32_t  op_count, op_room;
    uint32_t  names_set;        /* CLAIM_NAMEs that set a name */
    uint32_t  pages_wanted;     /* metadata pages that applying may take at most, but for ... */
    uint32_t  leaves_wanted;    /* new leaves */
    /* the transaction being built */
    bool      in_txn;
    int       txn_error;
    uint64_t  tag, first_tag;
    size_t    txn_used;
    struct { size_t at, max; } diff;        /* room for a difference that is being written */
    uint32_t  txn_claims, txn_ops, txn_records, txn_wanted, txn_leaves, txn_open_base;
    uint64_t  txn_next_object;
    uint32_t  txn_cursor_gib;
    struct store_chain *txn_chain;  /* the chain that this transaction ends */
    size_t    last_at;          /* where the last record began, unless that was taken off */
    struct { size_t at; struct store_chain *chain; } spill; /* the last SPILL record; NULL: none */
    struct { uint64_t object, pages; uint32_t durability; } seen;   /* the container last checked */
    struct {                    /* what commit records say beside the tag */
        uint64_t id, time;
        uint32_t last;          /* the place of the last one; its base is that of the one before */
    } commits;
};

struct checkpoint {
    bool      running, sealed, done;
    bool      short_of_memory;  /* a page could not be kept */
    int       error;
    uint32_t  area;
    struct checkpoint_info info;    /* pages: of metadata when it began, numbers below this */
    uint64_t  cursor;
    uint64_t  home_below;       /* pages older than this go home first: redo_lsn; 0: none */
    uint64_t  pages_old;        /* dirty data pages older than home_below */
    uint32_t  visited;          /* metadata pages of lower numbers have had their turn */
    uint32_t  part_count;       /* pages in the part that is to be written */
    bool      flush_first;      /* the last checkpoint's twin, or the log, may not be durable */
    bool      clean, recovery;  /* recovery: also begins the next epoch */
    struct superblock next;
};

/* A sweep gives one chunk after the other its redo point (chunk.c). */
struct sweep {
    bool     on, done;          /* done: every extent had its turn */
    struct checkpoint_info from;        /* pages: the log that is needed then; scan: with chains */
    uint64_t cursor;            /* extents below it had their turn */
    uint64_t newest;            /* redo point of any chunk */
    uint64_t old;               /* dirty pages that are older than their chunk's redo point */
};

/* struct images holds recovery's pages (image.c). An entry's object is extent number * extent_pages
 * + page, its value points to the page's bytes; 0: the page was freed. */
struct images {
    struct table table;
    uint32_t  limit;            /* 0: none */
    uint64_t  written;          /* pages that went home */
};

#define LEAVES_NEAR 256         /* a power of two */
#define TABLES      11
#define TABLES_KEPT 7           /* the first ones, when a store grows; index.c fills the others */

struct store {
    struct disk_io io;
    struct disk_memory memory;
    struct superblock super;    /* as last written */
    uint32_t  flags;
    int       fence;            /* read and written by atomic_fence_* only */
    uint32_t  extent_pages, leaf_bytes, leaves_per_page;
    size_t    group_bytes;
    void     *packer;           /* the committer's memory (pack.c); NULL: nothing was packed yet */

    struct {                    /* LSNs: the log up to ... */
        uint64_t end;           /* ... the last sealed group, whose CRC is crc */
        uint64_t applied;       /* ... the last applied group, of applied_crc */
        uint64_t durable;       /* ... the last one that is also flushed */
        uint64_t redo;          /* newest checkpoint begun: store_full_below */
        uint64_t keep;          /* log before it may be overwritten */
        uint64_t twin;          /* end when the last superblock's twin was written; 0: durable */
        uint64_t bulk;          /* the newest csn of PAGE_HOME records applied; 0: none */
        uint32_t crc, applied_crc, epoch;
        uint32_t epoch_seen;    /* recovery: the newest of valid groups behind the log's end */
        bool     short_of;      /* -EAGAIN was returned since the last checkpoint began */
    } log;
    struct store_group groups[2];
    uint32_t  next_group, next_apply;   /* the groups to begin and to apply next */

    union {
        void *tables[TABLES];   /* what has the size that the superblock gives (store.c) */
        struct {
            struct meta_page *pages;    /* super.area_pages of them; page 0 is the header */
            uint32_t *heads;            /* bucket -> first page */
            uint32_t *directory, *names_list;   /* page numbers by place */
            struct container_use *use;  /* by directory slot */
            struct extent *extents;
            struct map_entry_disk *map; /* of each page as last saved or loaded (checkpoint.c) */
            uint32_t *ids;              /* container slots by ascending id */
            uint32_t *name_heads, *name_next;   /* chains of names; entry + 1 */
            uint32_t *owners;           /* of each GiB of the zone: slot + 1 */
        };
    };

    /* metadata */
    uint8_t  *part;             /* PART_PAGES pages on their way to or from an area, and a block */
    uint32_t  part_numbers[PART_PAGES];
    uint32_t  meta_dirty[2];    /* pages with dirty bit a */
    struct {                    /* numbers of metadata pages */
        uint32_t limit;         /* all numbers in use are below it */
        uint32_t free;          /* how many numbers have no page */
        uint32_t first;         /* head of a list of those, by `index`; 0 ends it */
        uint32_t fresh;         /* from this number on none was ever used */
        struct leaf_near { uint32_t page, slot; } near[LEAVES_NEAR];    /* hash.c; page 0: none */
        uint32_t container;     /* a hint: the slot that directory_get found last; or 0 */
    } numbers;
    uint32_t  directory_count, names_count;
    struct header_kept {        /* what an area's header keeps (meta.c) */
        uint64_t next_object, leaves, pages_present;
        uint32_t cursor_gib, hash_level, hash_split, containers, names, doubts, doubts_sum;
    } kept;
    uint64_t  plan_next_object;
    uint32_t  plan_cursor_gib;
    struct { uint8_t *first; uint32_t count; } spares;  /* page buffers, linked in 8 bytes */
    struct index index;

    struct {                    /* extents */
        uint64_t cursor, free, claimed, freed, dirty;   /* dirty: pages in them */
        uint64_t top;           /* no extent from here on was used since the store was opened */
        uint64_t old;           /* freed extents whose free is in the running checkpoint */
        uint64_t serial, reuse; /* of frees from now on; older than this are durable */
        uint64_t moves;         /* planned in groups that are not applied; 0 when there is none */
    } space;

    /* chains and holds */
    struct store_hold *holds;
    struct store_chain *chains;
    struct {                    /* of several stores (prepared.c) */
        struct doubt *first;
        uint32_t prepared, kept;    /* also those that are not applied */
        uint32_t names;         /* promised and not redeemed (TP3) */
        uint64_t extents, serial;
        uint64_t blocks;        /* log blocks that all take at most (TP2) */
        uint64_t anew_lsn;      /* for want of room, what is held before is written again ... */
        bool     renewing;      /* ... and now into what was left for that */
    } doubts;
    struct spill_node **spill_heads;
    uint32_t  chain_serial, spill_head_count;
    uint64_t  logged_pages;     /* committed images whose page is not home */

    struct {                    /* recovery */
        bool on, homes_begun;   /* pages are rebuilt, too, in `images`; homes_begin was called */
        bool passed;            /* records were passed over, or leaves forgotten (UL1) */
        bool twin_first;        /* the newest superblock has no twin */
        bool advance;           /* the next start may find a newer checkpoint than this one did */
        struct store_roll *roll;/* or NULL */
        bool rolling;           /* what the disk's own log holds is applied */
        bool counted;           /* what was in doubt at the redo LSN (TP5) */
        uint64_t from;          /* where the scan began */
        struct table bulk;      /* extent -> LSN of its last PAGE_HOME record (IG3) */
        struct chain_seen *seen;    /* chains whose commit was not met yet */
        uint32_t seen_count, seen_room;
        struct images images;
    } replay;
    struct checkpoint checkpoint;
    struct sweep sweep;
    bool      area_rotten;      /* the newest area, found by the scrub */
    uint32_t  checkpoint_serial;
    uint32_t  step_pages;       /* a call under the mutex copies so many metadata pages at most */
    struct store_stats counters;
};

/* store.c */
static inline int fence_get(const struct store *store)
{
    return __atomic_load_n(&store->fence, __ATOMIC_ACQUIRE);
}
/* A function that makes steps in their order ends with the first error: a() ?: b() ?: c(). */
int  io_read(const struct disk_io *io, uint64_t offset, void *buffer, size_t bytes);
/* block_read reads a block whose CRC is known; -EUCLEAN: it has another one. */
int  block_read(const struct disk_io *io, uint64_t offset, void *block, uint32_t crc);
static inline int io_write(const struct disk_io *io, uint64_t offset, const void *of, size_t bytes)
{
    return io->write(io->context, offset, of, bytes);
}
static inline int io_flush(const struct disk_io *io) { return io->flush(io->context); }
static inline bool groups_idle(const struct store *store)
{
    return store->groups[0].state == GROUP_IDLE && store->groups[1].state == GROUP_IDLE;
}
/* ring_offset tells at which byte of the disk LSN `lsn` lies, in the log's ring. */
static inline uint64_t ring_offset(const struct store *store, uint64_t lsn)
{
    return store->super.log_start + lsn % store->super.log_bytes;
}
static inline size_t group_bytes(const uint8_t *group)          /* the size in a believed header */
{
    return (size_t)le32_get(((const struct group_disk *)group)->blocks) * BLOCK_BYTES;
}
int  fence_set(struct store *store, int error);     /* the first error wins; returns it */
void *store_alloc(const struct store *store, size_t bytes);     /* zeroed, or NULL */
void store_release(const struct store *store, void *memory, size_t bytes);
bool bytes_zero(const void *bytes, size_t count);
/* array_grow makes room for one more element; `array` is where the pointer to the elements is */
int  array_grow(struct store *store, void *array, uint32_t count, uint32_t *room, size_t size);
void table_free(struct store *store, struct table *table);
typedef bool array_less(const void *a, const void *b);
/* array_sort puts `count` elements in ascending order; `size` is a multiple of 8 */
void array_sort(void *array, size_t count, size_t size, array_less *less);
int  store_new(const struct disk_io *io, const struct disk_memory *memory,
               const struct superblock *super, struct store **out);
void table_sizes(const struct superblock *super, size_t bytes[TABLES]);
/* tables_make allocates tables of zeros. -ENOMEM: some are NULL, the others are there. */
int  tables_make(const struct store *store, const struct superblock *super, void *tables[TABLES]);
void tables_release(const struct store *store, const struct superblock *super,
                    void *const tables[TABLES]);

/* directory.c: names; open.c */
bool name_valid(const char *name);                  /* 1 to 63 characters, zero filled or not */
void name_copy(char to[STORE_NAME_BYTES], const char *from);    /* zero filled */
bool name_equal(const char *a, const char *b);

/* superblock_twin writes the same to the other slot, as the next generation; the caller flushes */
int  superblock_twin(struct store *store, struct superblock *super);
int  superblock_advance(struct store *store);     /* the next epoch begins; the caller flushes */
store_must_check int homes_begin(struct store *store);  /* before recovery's first write but this */
uint32_t epoch_next(const struct store *store);     /* newer than all of which anything is seen */
int  tables_setup(struct store *store);
int  tables_renew(struct store *store);              /* and all metadata is forgotten */
int  buffers_setup(struct store *store);
size_t group_bytes_choose(size_t wanted, const struct superblock *super);

/* superblock.c */
uint32_t crc_seed(const uint8_t uuid[16], enum crc_kind kind, uint64_t address, uint32_t epoch);
uint32_t map_seed(const struct superblock *super, uint32_t area);   /* the seed of its root_crc */
uint32_t meta_crc(const struct superblock *super, uint64_t page, const void *bytes);
/* block_crc returns the CRC of a slot, the signpost or a label. */
uint32_t block_crc(const void *block, enum crc_kind kind, uint64_t address);
enum slot_verdict { SLOT_VALID, SLOT_ZERO, SLOT_FOREIGN, SLOT_NEWER, SLOT_OLDER,
                    SLOT_DAMAGED, SLOT_UNREADABLE, SLOT_VERDICTS };
void superblock_encode(const struct superblock *in, struct superblock_disk *out);
enum slot_verdict superblock_decode(const struct superblock_disk *in, uint64_t disk_bytes,
                                    uint64_t offset, struct superblock *out, uint32_t *version);
uint64_t slot_offset(const struct superblock *super, uint32_t slot);
uint64_t slot_b_place(uint64_t disk_bytes);
void signpost_encode(const struct superblock *super, uint64_t slot_b_offset,
                     struct signpost_disk *out);
bool signpost_decode(const struct signpost_disk *in, uint64_t disk_bytes, uint64_t *slot_b_offset);
void superblock_seal(struct superblock_disk *block);    /* this version, and the CRC */
int  superblock_write(const struct disk_io *io, const struct superblock *super, void *block);
bool units_valid(const struct superblock *super);   /* the size of extents, and the zone */
bool epochs_valid(const struct superblock *super);  /* they are in range and ascend */
uint32_t epoch_at(const struct superblock *super, uint64_t lsn);
bool epoch_fits(const struct superblock *super, uint32_t epoch, uint64_t lsn);
int  epoch_begin(struct superblock *super, uint32_t epoch, uint64_t lsn, uint64_t keep_lsn);

/* meta.c */
int  meta_setup(struct store *store);
void meta_forget(struct store *store);          /* all pages; the tables are the caller's */
void meta_teardown(struct store *store);
int  meta_reserve(struct store *store, uint32_t pages);     /* spare buffers at hand, or -ENOMEM */
#define SPARES_KEPT 64u         /* of what a large group had reserved */
void meta_trim(struct store *store, uint32_t kept);         /* gives back all but so many */
uint32_t meta_page_new(struct store *store, enum meta_kind kind, uint32_t index);  /* 0: none */
void meta_page_drop(struct store *store, uint32_t page);
void meta_dirty_set(struct store *store, uint32_t page, uint8_t areas);
void meta_differs(struct store *store);      /* makes all dirty: areas may hold anything */
void meta_header_encode(struct store *in, uint64_t redo_lsn);   /* page 0 from the counters */
static inline void *meta_block(const struct store *store)   /* scratch for one block */
{
    return store->part + (size_t)PART_PAGES * BLOCK_BYTES;
}
int  meta_load(struct store *store, uint32_t area);
uint64_t area_map_bytes(uint32_t area_pages);
uint64_t area_bytes(uint32_t area_pages);
uint64_t area_page_offset(const struct superblock *super, uint32_t area, uint32_t page);
uint32_t area_pages_for(uint64_t extents, uint32_t extent_bytes, uint32_t directory,
                        uint32_t names);
uint32_t leaf_bytes_for(uint32_t extent_bytes);

/* hash.c */
uint32_t hash_buckets(const struct store *store);
uint32_t hash_bucket(const struct store *store, uint64_t object, uint64_t index);
uint32_t hash_pages_for(const struct store *store, uint32_t leaves);
struct leaf_disk *hash_insert(struct store *store, uint64_t object, uint64_t index,
                              uint32_t *page);
void hash_remove(struct store *store, uint64_t object, uint64_t index);

/* directory.c */
static inline uint32_t zone_gib(const struct store *store)
{
    return (uint32_t)(store_zone_bytes(store->super.zone) / STORE_SEGMENT_UNIT);
}
uint32_t directory_slots(const struct store *store);
uint64_t container_pages(const struct container_disk *container);
bool container_valid(const struct store *store, const struct container_disk *container);
struct name_disk *names_slot(const struct store *store, uint32_t slot);
uint32_t names_slots(const struct store *store);
int  directory_create(struct store *store, uint64_t object, const struct container_disk *image,
                      uint64_t csn);
void directory_delete(struct store *store, uint32_t slot);
int  directory_rename(struct store *store, uint32_t slot, const char *name);
int  directory_grow(struct store *store, uint32_t slot, const struct segment_disk *segment);
int  directory_layout(struct store *store, uint32_t slot, const struct layout_disk *layout);
/* choice_count returns from how many values a record of this type chooses one; 0: from none. */
uint32_t choice_count(uint32_t type);
uint32_t choice_value(const struct store_op *op);       /* what an operation chooses */
int  directory_choice(struct store *store, uint32_t slot, uint32_t type, uint64_t value);
bool container_unlogged(const struct container_disk *container);    /* volatile, or rebuilt */
bool directory_lose(struct store *store, uint32_t slot);    /* false: nothing has changed */
/* directory_name_set and directory_name_unset are for a container that exists */
int  directory_name_set(struct store *store, uint64_t object, const struct name_value_disk *value);
int  directory_name_unset(struct store *store, uint64_t object, const char *name);
bool directory_range_used(const struct store *store, uint32_t first_gib, uint32_t gib,
                          uint32_t *next_gib);

/* index.c: what is looked up is a slot, or NO_SLOT */
#define NO_SLOT UINT32_MAX
uint32_t containers_max(const struct superblock *super);
uint32_t index_entries_max(const struct superblock *super);
uint32_t index_heads_max(const struct superblock *super);
void index_fill(struct store *store);
uint32_t index_from_id(const struct store *store, uint64_t object);     /* the first not below it */
uint32_t index_container(const struct store *store, const char *name);
uint32_t index_name(const struct store *store, uint64_t object, const char *name);
uint32_t index_owner(const struct store *store, uint32_t gib);
void index_container_enter(struct store *store, uint32_t slot);
void index_container_drop(struct store *store, uint32_t slot);
void index_segment_enter(struct store *store, uint32_t slot, const struct segment_disk *segment);
void index_rename(struct store *store, uint32_t slot, const char *name);
void index_name_enter(struct store *store, uint32_t slot);
void index_name_drop(struct store *store, uint32_t slot);
bool index_holds_container(const struct store *store, uint32_t slot);

/* space.c */
uint64_t extent_claim(struct store *store, uint64_t near);  /* extent number, or UINT64_MAX */
void extent_unclaim(struct store *store, uint64_t extent);
int  extent_use(struct store *store, uint64_t extent, uint32_t slot, uint64_t index);
struct leaf_disk *extent_leaf(struct store *store, const struct extent *e, uint32_t *at);
void extent_free(struct store *store, uint64_t extent);
enum extent_state extent_state(const struct store *store, uint64_t extent);
void extents_age(struct store *store);          /* a checkpoint begins: it saves all frees so far */
void extents_recycle(struct store *store);      /* that is durable: those extents are free */
uint64_t extent_offset(const struct store *store, uint64_t extent);
bool extent_reserved(const struct superblock *super, uint64_t extent);

/* plan.c */
void plan_clear(struct store_group *group);
void plan_rewind(struct store_group *group, uint32_t claims, uint32_t ops);
void plan_free(struct store_group *group);
#define BASE_OPEN (1ull << 63)          /* marks a base whose LSN comes when its group is sealed */
/* plan_page_write claims a page; replaces a *base STORE_BASE_NEWEST; base NULL: a full image. */
int  plan_page_write(struct store_group *group, uint64_t object, uint64_t page, uint64_t *base,
                     uint64_t *physical);
/* plan_pages_exist checks that a container has, or will have, these pages. 0, -ENOENT, -EINVAL */
int  plan_pages_exist(struct store_group *group, uint64_t object, uint64_t page, uint64_t count);
bool plan_unlogged(struct store_group *group, uint64_t object);     /* its pages are in no log */
/* unlogged_plan (unlogged.c) plans a change of durability. 0, -EINVAL, -ENOTEMPTY (UL2) */
int unlogged_plan(struct store_group *group, const struct store_op *op, struct planned_op *out);
int  plan_page_free(struct store_group *group, uint64_t object, uint64_t page, uint64_t count);
/* plan_extent_home claims an extent that a chain has claimed, and its pages in `mask`, for this
 * transaction. -ESTALE: somebody else has pages in it by now. */
int  plan_extent_home(struct store_group *group, uint64_t object, uint64_t index, uint64_t physical,
                      uint32_t mask);
/* plan_extent_fresh tells if a chain may claim it: nobody has, no group wants, any of its pages. */
bool plan_extent_fresh(const struct store *store, uint64_t object, uint64_t index);
int  plan_extent_claim(struct store_group *group, uint64_t object, uint64_t index, uint32_t bits,
                       uint64_t *physical);
int  plan_extent_move(struct store_group *group, uint64_t object, uint64_t at, uint64_t *physical);
uint32_t plan_spares(const struct store *store);    /* metadata pages for all that is planned */
bool plan_page_present(const struct store *store, uint64_t object, uint64_t page);
int  plan_op(struct store_group *group, struct store_op *op, struct planned_op *out);

uint32_t plan_extent_held(const struct store *store, uint64_t object, uint64_t index);
uint64_t plan_top(const struct store *store, uint64_t object);

/* group.c */
/* log_place returns the LSN of a group of this size that follows `lsn` (LG1). */
uint64_t log_place(const struct store *store, uint64_t lsn, uint64_t bytes);
int  log_full(struct store *store);                 /* notes it; -EAGAIN */
bool log_fits(struct store *store, size_t bytes);
int  txn_state(const struct store_group *group);
int  txn_fail(struct store_group *group, int error);
int  txn_room(const struct store_group *group, size_t bytes);
uint32_t record_room(uint32_t data_bytes);          /* a record's size in a group */
struct record_disk *record_add(struct store_group *group, enum record_type type, uint64_t object,
                               uint64_t page, uint32_t data_bytes);

/* hold.c */
void hold_enter(struct store *store, struct store_hold *hold, uint64_t lsn, uint32_t prev_crc);
bool hold_too_old(const struct store *store, const struct store_hold *hold, uint64_t end_lsn);
void holds_scan_from(struct store *store, struct checkpoint *checkpoint);
void holds_oldest(const struct store *store, struct checkpoint_info *info);
void holds_tell(const struct store *store, struct store_stats *out);

/* checkpoint.c */
void checkpoint_begin_at(struct store *store, uint64_t redo_lsn, uint32_t prev_crc);
void checkpoint_drop(struct store *store);
void checkpoint_freeze(struct store *store, uint32_t page);     /* it is about to change */
int  checkpoint_finish(struct store *store);  /* seals, writes: for who is alone with the store */

/* grow.c */
int  grow_to(struct store *store, uint64_t bytes);

/* format.c */
#define EXTENT_BYTES 16384u             /* unless the options say otherwise */
uint32_t directory_pages_for(uint64_t disk_bytes);      /* pages of containers, and of names */
/* store_data_start tells where extents would begin on such a disk; 0: no store can be made. */
uint64_t store_data_start(uint64_t disk_bytes, const struct store_options *options);

#include "often.h"
#include "chain.h"
#include "prepared.h"
#include "recovery.h"

#endif
