/*
 * store.h - the on-disk store as its caller (the store manager, a host tool, a test) sees it.
 *
 * The library is freestanding C11. It is handed its I/O, its memory and its clock, and knows
 * neither threads nor system calls. All metadata is in memory while a store is open; pages of
 * data are not: the caller reads and writes them itself, at offsets that it learns here.
 *
 * Errors are negative errno values of Linux (errno_numbers.h). Bytes from disk are input: they can
 * make a call fail, never crash.
 *
 * Locking. The caller serialises all calls on one store with one mutex of its own, except the
 * functions marked NO MUTEX, which do I/O and may run beside all others:
 *
 *     mutex                          no mutex                     mutex
 *     store_group_begin ... _seal    store_group_write            store_group_apply
 *     store_checkpoint_begin, _seal  store_checkpoint_write       store_checkpoint_apply
 *
 * While one group is being written, the next may be begun and filled; groups are written and
 * applied one after the other, in the order in which they were sealed, by one committer. The
 * chapter (disk.md) shows the calls of a commit and of a checkpoint in their order.
 */
#ifndef KATYDID_DISK_STORE_H
#define KATYDID_DISK_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crc32c.h"

#define STORE_PAGE_BYTES        4096u
#define STORE_NAME_BYTES        64u     /* a name with its closing zero: up to 63 characters */
#define STORE_SEGMENT_MAX       12u
#define STORE_SEGMENT_UNIT      (1ull << 30)            /* segments are multiples of 1 GiB */
#define STORE_REGION_BASE       0x200000000000ull       /* addresses of zone 0 begin here */
#define STORE_REGION_BYTES      (64ull << 40)
#define STORE_ZONE_BYTES        (8ull << 40)            /* the most that a zone has */
#define STORE_ZONE_SMALL        16u                     /* the first of 4 TiB */
#define STORE_ZONE_MAX          32u
#define STORE_EXTENT_PAGES_MAX  16u

/* A zone has the addresses of a store's containers. Zones 0 to 7 have 8 TiB each, one behind the
 * other; 16 to 31 are halves of them, in the same order. There are no others. */
static inline bool store_zone_valid(uint32_t zone)
{
    return zone < STORE_ZONE_SMALL / 2 || (zone >= STORE_ZONE_SMALL && zone < STORE_ZONE_MAX);
}
static inline uint64_t store_zone_bytes(uint32_t zone)
{
    return zone < STORE_ZONE_SMALL ? STORE_ZONE_BYTES : STORE_ZONE_BYTES / 2;
}
static inline uint64_t store_zone_base(uint32_t zone)
{
    return STORE_REGION_BASE + zone % STORE_ZONE_SMALL * store_zone_bytes(zone);
}

/* store_lsn_t is a position in the log: a byte offset that never wraps; 0: none. The commit number
 * (csn) of a transaction is its commit record's LSN; a page's LSN is the csn that last wrote it. */
typedef uint64_t store_lsn_t;

#define store_must_check __attribute__((warn_unused_result))

/* ---------------------------------------------------------------- what the caller hands in */

/* struct disk_io does synchronous I/O; a call returns 0 or a negative errno. Offsets and sizes are
 * multiples of 4096. `read` and `write` return when the device has completed the request, `flush`
 * when all writes that completed before it are on stable storage. `bytes`: the disk's size. */
struct disk_io {
    void    *context;
    uint64_t bytes;
    int    (*read)(void *context, uint64_t offset, void *buffer, size_t bytes);
    int    (*write)(void *context, uint64_t offset, const void *buffer, size_t bytes);
    int    (*flush)(void *context);
    /* Optional: flush_log puts what was written to superblocks, log and areas on stable storage,
     * maybe not other writes. A commit needs no more. NULL: flush */
    int    (*flush_log)(void *context);
};

/* `alloc` gives memory aligned to 16 bytes, of any contents, or NULL; `free` gets the same size. */
struct disk_memory {
    void  *context;
    void *(*alloc)(void *context, size_t bytes);
    void  (*free)(void *context, void *memory, size_t bytes);
    /* Optional: alloc_zeroed gives zeroed memory of which only touched pages cost anything. Tables
     * of the disk's size then take time and memory for what the store holds, not for the disk. */
    void *(*alloc_zeroed)(void *context, size_t bytes);
};

/* ---------------------------------------------------------------- create, open, close */

struct store_options {
    uint8_t  uuid[16];          /* must differ for every store ever made on this disk */
    uint64_t log_bytes;         /* 0: 32 MiB, or an eighth of a smaller disk */
    uint32_t extent_bytes;      /* 0: 16 KiB; else 4, 8, 16, 32 or 64 KiB */
    uint32_t zone;              /* 0..7: which 8 TiB of addresses its containers get */
    size_t   group_bytes;       /* what it will be opened with: there must be memory */
    uint64_t data_start;        /* 0, or where extents begin, behind all else (span.c) */
};

/* store_format writes an empty store, whatever the disk held. -EINVAL, -ENOSPC (disk too small),
 * -ENOMEM (or too little to open it: nothing is written), or the device's error. A power cut inside
 * leaves what the disk held (until the first flush is done), a blank disk, or the new store. */
store_must_check
int store_format(const struct disk_io *io, const struct disk_memory *memory,
                 const struct store_options *options);
/* store_memory returns how many bytes such a store takes, open and empty; 0: it cannot be made. */
uint64_t store_memory(const struct disk_io *io, const struct store_options *options);

enum {
    STORE_READ_ONLY = 1,        /* recover in memory only: nothing is ever written */
    STORE_GROW      = 2,        /* after recovery: use the whole disk, if it has grown */
    STORE_UPGRADE   = 4,        /* a store of an older format becomes one of this (upgrade.c) */
    STORE_COPIED    = 8,        /* it has, or had, a spare (store_spare.h): both slots name its new
                                 * epoch, durably, before it is open */
};

struct store_open_options {
    uint32_t flags;
    size_t   group_bytes;       /* largest group, so largest transaction; 0: 4 MiB, at most log/2 */
    uint64_t grow_bytes;        /* STORE_GROW: to this size; 0: the whole disk */
    uint32_t image_pages;  /* recovery holds so many pages at most in memory; 0: all of the log */
    const struct disk_clock *clock;
    struct store_roll *roll;    /* backup.h: the disk holds a copy: go on with what was
                                 * archived; or NULL */
    uint32_t step_pages;  /* metadata pages that a call of a checkpoint handles; 0: 64, the most */
};

/* struct store_report says what store_open found, also when it fails. */
struct store_report {
    uint64_t    groups, transactions, pages;    /* replayed; pages written home */
    uint64_t    lost;                           /* not 0: containers that are volatile, or to be
                                                 * rebuilt, have lost what they had */
    store_lsn_t redo_lsn, end_lsn;              /* where replay began and where the log ends */
    store_lsn_t damage_lsn;                     /* first lost LSN of acknowledged history, or 0 */
    bool        was_clean;                      /* closed properly last time */
    bool        torn_tail;                      /* an unacknowledged last group was cut off */
    bool        older_checkpoint;               /* newest checkpoint damaged, the older one used */
    uint32_t log_unreadable; /* blocks of the log's ring that cannot be read: they hold
                              * nothing that is needed, or damage_lsn is set */
    bool        slot_bad[2];                    /* superblock slots that did not verify */
    uint32_t    version;                        /* of the format found */
    uint64_t    cut_bytes;                      /* -EUCLEAN: the store has so many, the disk less */
    bool        grown;                          /* STORE_GROW: it is larger now */
    int         grow_error;                     /* why it is not; an open store is as it was */
    /* 0 without a clock; the second: of the log's first scan, which applies nothing */
    uint64_t    microseconds, verify_microseconds;
    uint32_t    doubts;                         /* prepared, or decided and kept (prepared.c) */
    const char *rule;                           /* of the decision table (disk.md): "RV1" ... */
    const char *message;                        /* static text: what is wrong and what to do */
};

/*
 * store_open opens a store: recovery, then ready for work. Results other than 0:
 *   -ENODATA         blank disk: the first blocks are zero and no superblock is found, or creation
 *                    was cut off; the caller may format it
 *   -EMEDIUMTYPE     foreign data: not a store, never to be formatted without being asked
 *   -EPROTONOSUPPORT a store of a newer version (report->version) or with unknown features
 *   -EOPNOTSUPP      a store of an older format (report->version), or its log must be empty and
 *                    is not: see STORE_UPGRADE
 *   -EUCLEAN         a store, but damaged: report says where; STORE_READ_ONLY may open what is
 *                    left up to damage_lsn
 *   -EIO, -ENOMEM, -EINVAL
 * Recovery decides validity before it writes anything; it ends with: flush, pages home and
 * metadata, flush, superblock with the next epoch, flush.
 */
struct store;
store_must_check
int store_open(const struct disk_io *io, const struct disk_memory *memory,
               const struct store_open_options *options, struct store **out,
               struct store_report *report);

extern const uint32_t store_format_version;     /* today's */
/* store_upgradable tells whether there is a way from this version of the format to today's. */
bool store_upgradable(uint32_t version);
/* store_close ends a store cleanly: no page is dirty any more (else -EBUSY, and it stays open).
 * After 0, or any error but -EBUSY, the store is gone. */
store_must_check int store_close(struct store *store);
/* store_abandon drops the memory and writes nothing, like a power cut; also after an error. */
void store_abandon(struct store *store);

/* store_error returns 0 or the sticky error after a failed write or flush (error fence). Since then
 * what would write returns it; look-ups still work. The way out is to abandon and open again. */
int store_error(const struct store *store);

/* ---------------------------------------------------------------- pages */

struct store_page {
    bool        present;        /* false: never written, reads as zeros; other fields are 0 ... */
    bool        claimed;        /* ... but this one: held all the same (STORE_OP_PAGE_CLAIM) */
    bool        dirty;          /* newer in memory and log than at home: the disk copy is stale */
    /* Of a dirty page committed by a chain: where it lies in the log as a whole, perhaps only
     * there. Read it from there, also to write it home; its CRC must be log_crc. Else 0. */
    uint64_t    log_offset_bytes;
    uint32_t    log_crc;
    uint64_t    offset_bytes;   /* home location on the disk */
    store_lsn_t lsn;            /* csn that last wrote it: the base LSN of a difference */
    uint32_t    crc;            /* valid if !dirty: crc32c(0, page, 4096) must equal it */
};

/* store_pages_find tells where pages lie that follow each other; store_page_find, where one does.
 * 0, or -ENOENT: no such container, *out is not set. Never -EIO: no I/O is done. */
store_must_check
int store_pages_find(struct store *store, uint64_t object, uint64_t page, uint32_t count,
                     struct store_page *out);
store_must_check
int store_page_find(struct store *store, uint64_t object, uint64_t page, struct store_page *out);

/* store_page_read reads a page and checks its CRC; one that is not there reads as zeros. -EUCLEAN:
 * wrong CRC. -EBUSY: dirty, so only the caller has it. (Host tools, tests, read-only recovery.) */
store_must_check
int store_page_read(struct store *store, uint64_t object, uint64_t page, void *bytes);

/* store_pages_unused finds the first run of `count` pages >= `from` of a container that no commit
 * (applied or planned) holds or claims and for which `skip` (or NULL; for leases) is false. For
 * skip, `next` is set to the first page to try after a true answer, or the first that a false
 * answer does not cover (preset to page + 1). -ENOSPC: none below its size. */
typedef bool store_skip_fn(void *context, uint64_t object, uint64_t page, uint64_t *next);
store_must_check
int store_pages_unused(struct store *store, uint64_t object, uint64_t from, uint64_t count,
                       store_skip_fn *skip, void *context, uint64_t *first);

/* ---------------------------------------------------------------- commit groups */

struct store_group;

/* store_group_begin opens a group. -EBUSY: one is open already, or two are unapplied. */
store_must_check int store_group_begin(struct store *store, struct store_group **out);

/* Transactions of a group follow one another. Errors of the calls in between stick: later calls
 * return the same error, and store_txn_end undoes the transaction's records and claims and returns
 * it. `tag` is the caller's number for the transaction; it is only logged.
 *
 * Errors of store_txn_end (and of each call before it)
 *   -ENOBUFS   does not fit into this group any more: seal it, use the next one
 *   -E2BIG     does not fit into any group
 *   -EAGAIN    the log has no room: run a checkpoint (up to two), then try again
 *   -ENOSPC    no free extent, directory slot or address range (store_stats: freed_extents says
 *              whether a checkpoint would help)
 *   -ENOMEM, -EINVAL, -ENOENT, -EEXIST, -ESTALE (see store_txn_diff_space), sticky error
 */
int store_txn_begin(struct store_group *group, uint64_t tag);
/* store_txn_end ends a transaction; *position finds its commit record for store_group_csn(). */
store_must_check int store_txn_end(struct store_group *group, uint32_t *position);
void store_txn_cancel(struct store_group *group);
/* store_txn_id gives the commit record, beside the tag, an id, the caller's as well (0 unless given
 * between begin and end). store_group_time gives them all, before the seal, the time of it, in
 * nanoseconds since 1970, UTC (0: not known). */
void store_txn_id(struct store_group *group, uint64_t id);
void store_group_time(struct store_group *group, uint64_t nanoseconds);
/* store_txn_pages tells what the open transaction says so far, record by record: *cursor is 0 at
 * first; false: that was all. count 0: the record is about the object, not about pages of it. */
struct store_txn_pages { uint64_t object, page, count; bool freed; };
bool store_txn_pages(const struct store_group *group, size_t *cursor, struct store_txn_pages *out);

/* store_txn_page logs a full image. */
int store_txn_page(struct store_group *group, uint64_t object, uint64_t page, const void *bytes);

/* store_txn_move gives the extent of this page (its first) another place on the disk. bytes[i]: all
 * of page + i, of each that is present; all are logged, so a move costs what writing them would,
 * and they are dirty then. -ENOENT: nothing of the extent is present or claimed. -EINVAL: bytes of
 * a page are missing, or one was written in this transaction before; or the container's pages are
 * in no log. */
int store_txn_move(struct store_group *group, uint64_t object, uint64_t page,
                   const void *const bytes[]);

/*
 * store_txn_diff_space gives space for up to `bytes_max` bytes of runs, and store_txn_diff_done
 * logs `bytes` of them: a difference from the page's version `base_lsn` (0: zeros, if it is not
 * present). -ESTALE if the base is not the page's newest version, or if 0 < base_lsn <
 * store_full_below(): send a full image instead. STORE_BASE_NEWEST: against the newest version,
 * maybe of a transaction before in the same group; -ESTALE if there is none.
 *
 * Runs: le16 offset, le16 length, then the bytes; they follow each other without padding,
 * ascending, not overlapping, inside the page. A page has at most one record per transaction.
 */
#define STORE_BASE_NEWEST UINT64_MAX
int store_txn_diff_space(struct store_group *group, uint32_t bytes_max, void **runs);
int store_txn_diff_done(struct store_group *group, uint64_t object, uint64_t page,
                        store_lsn_t base_lsn, uint32_t bytes);

/* NO MUTEX. store_txn_pack packs the record of the page that was added last, if that makes it
 * smaller. 0, or the transaction's error. */
int store_txn_pack(struct store_group *group);

/* NO MUTEX. store_txn_operate makes the difference that was added last operations on `before`, the
 * version that it is against, if that takes less. 1: it does; 0: no change; or the transaction's
 * error. */
int store_txn_operate(struct store_group *group, const void *before);

/* store_txn_written notes a new version of a page of a container that is volatile, or to be
 * rebuilt, whose bytes are not logged. -EINVAL: they are to be. */
int store_txn_written(struct store_group *group, uint64_t object, uint64_t page);
/* store_txn_durability is the container's, for what follows in the group; FULL: there is none. */
enum store_durability store_txn_durability(struct store_group *group, uint64_t object);

/* store_full_below returns an LSN: a page whose newest version is older needs a full image (redo
 * LSN of the newest checkpoint begun). Changes only in store_checkpoint_begin. */
store_lsn_t store_full_below(const struct store *store);
/* store_chunk_full_below is the same of a page whose chunk has a redo point of its own: not below
 * the other. store_full_newest is the newest of these. */
store_lsn_t store_full_newest(const struct store *store);
store_lsn_t store_chunk_full_below(const struct store *store, uint64_t object, uint64_t page);

/* ---------------------------------------------------------------- operations */

/* enum store_encoder: how page commits are logged; the caller acts on it, the store keeps it. */
enum store_encoder {
    STORE_ENCODER_DIFF,         /* what differs from the base */
    STORE_ENCODER_FULL,         /* whole pages */
    STORE_ENCODER_RANGES,       /* what the program declared */
    STORE_ENCODER_ADAPTIVE,     /* whole pages or differences, by what earlier commits changed */
    STORE_ENCODER_COMPRESSED,   /* what differs, packed by LZ4 (store_txn_pack) */
    STORE_ENCODER_OPERATIONS,   /* what was done, if that takes less (store_txn_operate) */
    STORE_ENCODER_COUNT
};

enum store_locking { STORE_LOCKING_PAGE, STORE_LOCKING_ITEM, STORE_LOCKING_COUNT }; /* likewise */
/* STORE_PROTECT_* say what protects a container's pages from stray stores, or-ed; likewise. */
enum { STORE_PROTECT_GUARD = 1, STORE_PROTECT_CODEWORDS = 2, STORE_PROTECTION_COUNT = 4 };

/* enum store_durability: what a power cut leaves of a container. LAZY is the caller's to act on.
 * From VOLATILE on the bytes of its pages are in no log (store_txn_written): a start finds it
 * without pages and named objects; REBUILD only after a power cut, and then it is LOST, until its
 * owner says REBUILD again. */
enum store_durability {
    STORE_DURABILITY_FULL,
    STORE_DURABILITY_LAZY,      /* its commits need not wait for a flush */
    STORE_DURABILITY_VOLATILE,
    STORE_DURABILITY_REBUILD,
    STORE_DURABILITY_LOST,      /* not to be asked for */
    STORE_DURABILITY_COUNT
};

struct store_layout {           /* fingerprint of the root object */
    char     type[STORE_NAME_BYTES];
    uint32_t version, bytes;
};

enum store_op_type {            /* the numbers of their records (format.h) */
    STORE_OP_PAGE_FREE = 3, /* object, page, count (pages that are not present are skipped) */
    STORE_OP_CREATE,     /* name, flags, encoder, locking, protection, durability; sets object and
                          * address (1 GiB) */
    STORE_OP_DELETE,     /* object; its pages and names go with it */
    STORE_OP_RENAME,     /* object, name */
    STORE_OP_GROW,       /* object; one more segment, that doubles it, or triples it from
                          * 256 GiB on; sets address */
    STORE_OP_LAYOUT,     /* object, layout, address of the root object (0: none) */
    STORE_OP_NAME_SET,   /* object, name, address, bytes: made or replaced */
    STORE_OP_NAME_UNSET, /* object, name */
    STORE_OP_ENCODER = 15, /* object, encoder */
    STORE_OP_PAGE_CLAIM, /* object, page, count: they are somebody's though nobody wrote them,
                          * have an extent each and still read as zeros (those that are
                          * present are skipped) */
    STORE_OP_LOCKING,    /* object, locking */
    STORE_OP_PROTECTION, /* object, protection */
    STORE_OP_DURABILITY, /* object, durability; -ENOTEMPTY: it has pages, and only with one of the
                          * two they would be in the log */
};

struct store_op {
    enum store_op_type type;
    uint32_t    flags;
    uint64_t    object;
    uint64_t    page, count;
    uint64_t    address, bytes;
    const char *name;
    const struct store_layout *layout;
    enum store_encoder encoder;
    enum store_locking locking;
    uint32_t    protection;
    enum store_durability durability;
    /* want_object and want_address are a restored container's, else 0: the id (not below any that
     * was given, else -EEXIST) and, with CREATE and GROW, the address (-EEXIST: in use). */
    uint64_t    want_object, want_address;
};
int store_txn_op(struct store_group *group, struct store_op *op);

uint32_t store_group_txns(const struct store_group *group); /* transactions accepted so far */

/* store_group_cancel drops an open group that is not to be written (all refused). */
void store_group_cancel(struct store_group *group);

/* store_group_seal fixes the group's LSN and CRC. An empty one becomes a no-op group: write one
 * when idle for about 100 ms, it protects the last commit from being taken for a torn tail.
 * -EAGAIN: log full (empty group only); the group stays open. */
store_must_check int store_group_seal(struct store_group *group);
store_lsn_t store_group_csn(const struct store_group *group, uint32_t position);

/* NO MUTEX. store_group_write does one contiguous write, completion, one flush, completion. Its
 * return with 0 IS THE POINT OF COMMIT of every transaction in the group. Any error: outcome
 * unknown, the store is fenced. */
store_must_check int store_group_write(struct store_group *group);

/* NO MUTEX, optional. store_group_issue does the write of a sealed group only, maybe while the
 * flush of store_group_write of the group before runs: this saves a write's time. store_group_write
 * then only flushes. It makes nothing durable. */
store_must_check int store_group_issue(struct store_group *group);

/* store_group_apply applies the group's records to the metadata, in log order, and ends the group
 * (also after a failed write, of it or of the one before: then nothing is applied, the sticky error
 * is returned, and the outcome is unknown). A group may be applied when it is issued: it has no
 * transactions, or only such as may be lost by a power cut, with all after them, until a later
 * group is written or the log is flushed. Till then no home may be written that has them. */
store_must_check int store_group_apply(struct store_group *group);

/* NO MUTEX. store_log_flush makes durable what store_log_applied said before, if it returns 0;
 * store_log_flushed (under the mutex) says so to the library. An error fences the store. */
store_must_check int store_log_flush(struct store *store);
store_lsn_t store_log_applied(const struct store *store);       /* the end of the groups applied */
void store_log_flushed(struct store *store, store_lsn_t lsn);

/* ---------------------------------------------------------------- home writes and checkpoint */

/* store_page_home tells where a dirty page goes. Write only bytes that are committed and applied,
 * never two writes of one page at a time. -ENOENT: the page is gone (freed meanwhile). */
store_must_check
int store_page_home(struct store *store, uint64_t object, uint64_t page, uint64_t *offset_bytes);

/* store_page_cleaned notes that version `lsn` is home; crc is crc32c(0, bytes, 4096). -ESTALE: a
 * newer version was committed meanwhile, the page stays dirty. -ENOENT: gone. */
int store_page_cleaned(struct store *store, uint64_t object, uint64_t page, store_lsn_t lsn,
                       uint32_t crc);

/* store_should_checkpoint tells if one is worth while: 0 no, 1 soon, 2 now (commits are about to be
 * refused). Run them until it says 0; the older one's log is kept, so it can take two. */
int store_should_checkpoint(const struct store *store);
/*
 *   store_checkpoint_begin(store)            notes the redo LSN
 *   while (store_checkpoint_next(store, &object, &page, &lsn) == 0)
 *       write the page home, wait, store_page_cleaned()          (in ascending disk order)
 *   while (store_checkpoint_seal(store) == -EAGAIN)      copies a part of the metadata
 *       store_checkpoint_write(store)                    NO MUTEX: writes that part
 *   store_checkpoint_write(store)            NO MUTEX: the last part, flush, superblock, flush
 *   store_checkpoint_apply(store)            releases log space and freed extents
 *
 * Commits go on meanwhile. Begin returns -EBUSY while a group is open or unapplied (call it
 * between two groups) or a checkpoint runs. Seal returns -EBUSY while pages are still to go home
 * (ask _next again), and -ENOMEM if commits changed metadata that was to be saved and it could not
 * be kept as it was: the checkpoint is over, nothing is lost, and another may begin.
 */
store_must_check int store_checkpoint_begin(struct store *store);
/* store_checkpoint_next finds a page to write home. -ENOENT: none left (a page that was handed out
 * and is still dirty comes again in the next round, after one -ENOENT). -EAGAIN: none found yet,
 * call it again. A page may be rewritten home at a newer version as well: it then needs a full
 * image that is in the log, so it no longer holds the checkpoint up. */
store_must_check int store_checkpoint_next(struct store *store, uint64_t *object, uint64_t *page,
                                           store_lsn_t *lsn);
store_must_check int store_checkpoint_seal(struct store *store);
store_must_check int store_checkpoint_write(struct store *store);
store_must_check int store_checkpoint_apply(struct store *store);

/*
 * A sweep goes by chunks: runs of pages of a container get a redo point each, one after the other,
 * and a checkpoint then waits for no page.
 *
 *   store_sweep_begin(store)
 *   while ((e = store_chunk_begin(store, size, context, &chunk)) != -ENOENT)    between two groups
 *       while (e == 0 && store_chunk_next(store, &chunk, &page, &lsn) != -ENOENT)
 *           write the page home, wait, store_page_cleaned()
 *   store_checkpoint_begin(store), and so on: store_checkpoint_next has none
 *
 * A checkpoint that begins before a sweep is through waits for all pages, and ends the sweep.
 */
#define STORE_CHUNK_MAX 256u            /* pages */
struct store_chunk { uint64_t object, page, count, cursor; };
typedef uint64_t store_chunk_fn(void *context, uint64_t object);    /* its pages; 0: an extent's */
/* store_sweep_begin starts one. -EBUSY: a checkpoint runs, or a failed one left pages: run one. */
store_must_check int store_sweep_begin(struct store *store);
/* store_chunk_begin gives the next chunk with a dirty page its redo point, and clean ones before
 * it. -EAGAIN: none found yet, call it again. -EBUSY: a group is open or unapplied, or a page of
 * the chunk before is not home. -ENOENT: that was all, a checkpoint may begin. */
store_must_check int store_chunk_begin(struct store *store, store_chunk_fn *size, void *context,
                                       struct store_chunk *chunk);
/* store_chunk_next finds the next page that is older than that. -EAGAIN: one that was handed out is
 * still dirty, they come again. -ENOENT: all are home. */
store_must_check int store_chunk_next(struct store *store, struct store_chunk *chunk,
                                      uint64_t *page, store_lsn_t *lsn);

/* store_dirty_next finds any dirty page, in disk order after *cursor (start at 0): for cleaning in
 * the background and before store_close. -ENOENT: none left. */
store_must_check int store_dirty_next(struct store *store, uint64_t *cursor, uint64_t *object,
                                      uint64_t *page, store_lsn_t *lsn);

uint64_t store_log_free(const struct store *store);     /* bytes a group may still take */

/* ---------------------------------------------------------------- the directory */

struct store_segment { uint64_t address, pages; };

struct store_container {
    uint64_t object;            /* id, never reused */
    char     name[STORE_NAME_BYTES];
    uint64_t base;              /* address of the first segment */
    uint64_t pages;             /* of all segments */
    uint64_t pages_present;     /* committed pages */
    uint64_t pages_claimed;     /* held and never written */
    uint32_t flags;             /* the caller's */
    enum store_encoder encoder;
    enum store_locking locking;
    uint32_t protection;        /* STORE_PROTECT_* */
    enum store_durability durability;
    uint32_t segment_count;     /* page numbers run on from one segment to the next */
    struct store_segment segments[STORE_SEGMENT_MAX];
    struct store_layout layout; /* type[0] == 0: none yet */
    uint64_t root;              /* address of the root object, or 0 */
    store_lsn_t created;
};

struct store_name {
    char     name[STORE_NAME_BYTES];
    uint64_t address, bytes;
    uint32_t slot;              /* its place among all names, as long as it is there */
};

/* The look-ups that follow return -ENOENT if they find nothing. */
store_must_check int store_container_find(struct store *store, const char *name,
                                          struct store_container *out);
store_must_check int store_container_get(struct store *store, uint64_t object,
                                         struct store_container *out);
/* store_container_at finds the container whose segments hold this address, and its page there. */
store_must_check int store_container_at(struct store *store, uint64_t address,
                                        struct store_container *out, uint64_t *page);
/* store_container_next goes by ascending object id: the first with an id > after. */
store_must_check int store_container_next(struct store *store, uint64_t after,
                                          struct store_container *out);
store_must_check int store_name_find(struct store *store, uint64_t object, const char *name,
                                     struct store_name *out);
/* store_name_next goes over the named objects of a container; *cursor starts at 0. */
store_must_check int store_name_next(struct store *store, uint64_t object, uint32_t *cursor,
                                     struct store_name *out);
/* store_name_any finds the first name of any container at or behind *cursor, in `most` places: 0,
 * and *cursor is behind it; -EAGAIN: none among these, go on at *cursor; -ENOENT: none. */
store_must_check int store_name_any(struct store *store, uint32_t *cursor, uint32_t most,
                                    uint64_t *object, struct store_name *out);
/* store_object_next returns the number that the next container gets, for STORE_OP_CREATE with
 * want_object: if another one is made before, that is -EEXIST. */
uint64_t store_object_next(const struct store *store);

/* ---------------------------------------------------------------- seeing what happened */

struct store_stats {
    uint64_t disk_bytes, log_bytes, log_used_bytes;
    uint64_t extent_bytes, extents, free_extents, claimed_extents, freed_extents;
    uint64_t pages_present, pages_dirty;
    uint64_t containers, names;
    uint64_t groups, transactions, group_writes, flushes, log_bytes_written, checkpoints;
    uint64_t checkpoint_step_pages;     /* most metadata pages that one call of a checkpoint took */
    uint64_t generation;
    uint32_t epoch, zone;
    store_lsn_t end_lsn, redo_lsn, older_redo_lsn;      /* the log is kept from the last one */
    uint64_t chains, chain_pages, logged_pages;         /* running; committed, not yet home */
    uint32_t    prepared, decisions;                    /* in doubt; kept (store_prepared.h) */
    uint64_t    holds, holds_expired;                   /* that stand; ever */
    const char *hold_owner, *expired_owner;             /* of the oldest; of the last. Or NULL */
    uint8_t  uuid[16];
};
void store_stats(const struct store *store, struct store_stats *out);

#include "backup.h"
#include "store_chain.h"
#include "store_prepared.h"
#include "store_scrub.h"
#include "store_spare.h"

#endif
