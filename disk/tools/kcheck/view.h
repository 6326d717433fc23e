/*
 * view.h - a store image as the format chapter reads it: for the checker, and for the tools that
 * show or save what a disk holds. Nothing here writes.
 *
 * Order of work, each step in a file of its own:
 *     slots.c    which superblock slot to believe; the geometry
 *     area.c     the metadata of one checkpoint, checked, into a model
 *     log.c      the groups from the redo LSN to the end of the log; torn tail or damage
 *     replay.c   their records (record.c), applied to the model; before.c: of pages from before
 *     view.c     all of it in the order of a recovery
 *     check.c    the rest of the invariants
 *     heap.c     the objects of libpstore in the pages of containers
 *     stray.c    pages that hold no object, spoilt slots and arenas
 *
 * A model is what a recovery has in memory: containers, names, leaves. Bytes of pages are not kept:
 * a page that the log writes has a chain of the places of its records.
 */
#ifndef KATYDID_KCHECK_VIEW_H
#define KATYDID_KCHECK_VIEW_H

#include "errno_numbers.h"
#include "format.h"
#include "kcheck.h"

/* ---- slots and geometry */

enum kslot_state { KSLOT_VALID, KSLOT_ZERO, KSLOT_FOREIGN, KSLOT_NEWER, KSLOT_OLDER,
                   KSLOT_DAMAGED };

struct kcheckpoint {
    uint64_t redo_lsn, scan_lsn, sequence;
    uint64_t pages_lsn;         /* pages that were not home begin here: redo_lsn, or before it */
    uint32_t root_crc, pages, prev_crc, scan_crc, pages_crc;
};

struct kepoch { uint64_t first_lsn; uint32_t epoch; };

struct kslot {
    enum kslot_state state;
    const char *why;            /* not valid: the first reason */
    bool     unreadable, unfinished;    /* unfinished: the mark of a copy that is being made */
    uint64_t offset;            /* where it was read */
    uint8_t  uuid[16];
    uint32_t slot, flags, version;
    uint64_t generation, disk_bytes, slot_b_offset, log_start, log_bytes;
    uint32_t extent_bytes, zone;
    uint64_t area_start[2];
    uint32_t area_pages, directory_pages_max, names_pages_max, newest;
    uint64_t data_start, extents, end_lsn;
    struct kcheckpoint checkpoints[2];
    uint32_t epoch_count;
    struct kepoch epochs[EPOCH_MAX];
    /* worked out */
    uint32_t extent_pages, leaf_bytes, leaves_per_page;
};

/* ---- the model */

struct kcontainer {
    uint64_t object;
    uint64_t pages_present;
    struct container_disk disk;
};

struct kname {
    uint64_t object;
    struct name_value_disk value;
};

/* A leaf; lsn[n], crc[n], record[n] follow (kleaf_lsn and so on). record is 0, or the index + 1 of
 * the page's newest record in the log: its home is then not to be believed. */
struct kleaf {
    uint64_t object, index, physical, born;
    uint32_t mask, claimed;             /* present; somebody's and never written */
    uint32_t next_key, next_physical;   /* chains: index + 1 */
    bool     live;
};

struct kpage_record {
    uint64_t data_offset;       /* on the disk */
    uint32_t data_bytes;
    uint32_t before;            /* the record that this difference builds on, index + 1; 0: none */
    bool     full, packed, operations;
};

/* An extent that the log frees, until it is used again. */
struct kfreed { uint64_t physical, object, index, lsn; };

/* A transaction that wrote pages into the log before its commit record. */
struct kchain {
    uint64_t number, head_lsn, last_lsn;    /* first and last group with a SPILL record of it */
    uint32_t groups, crc;                   /* their number, the CRC over their CRCs */
    uint32_t crc_before;                    /* without the last */
};

/* A transaction of several stores that is prepared, or a decision that is kept. */
struct kdoubt {
    uint8_t  id[16], coordinator[16];
    bool     kept;
    uint64_t pages;
    struct prepared_page_disk *table;       /* NULL: kept */
};

struct kmodel {
    uint32_t extent_pages;
    uint64_t next_object;
    uint32_t hash_level, hash_split;
    struct kcontainer *containers;
    uint32_t container_count, container_room, container_last;
    struct kname *names;
    uint32_t name_count, name_room;
    uint8_t *leaves;
    size_t   leaf_size;
    uint32_t leaf_count, leaf_room;     /* slots in use, dead ones among them */
    uint32_t *by_key, *by_physical;     /* heads of chains, head_count each */
    uint32_t head_count, live_leaves;
    uint64_t pages_present;
    struct kpage_record *records;
    uint32_t record_count, record_room;
    struct kfreed *freed;
    uint32_t freed_count, freed_room;
    struct kchain *chains;
    uint32_t chain_count, chain_room;
    struct kdoubt *doubts;
    uint32_t doubt_count, doubt_room;
    uint32_t doubts_told, doubts_sum;   /* by the checkpoint: so many at its redo LSN, and which */
    bool     doubts_counted;
};

/* ---- the log */

struct kgroup {
    uint64_t lsn, offset, bytes, durable_lsn, first_tag;
    uint32_t epoch, prev_crc, crc, records;
};

struct kview {
    struct kcheck_io io;
    struct kcheck_options options;
    struct kcheck_result result;
    struct kslot slots[2];
    bool     signpost_valid, being_made;
    uint8_t  making[16];                /* the signpost's uuid */
    struct kslot super;         /* the one believed */
    bool     rescue;            /* go on where a recovery stops */
    bool     archived;          /* a version from FORMAT_ALIKE on will do: it is only read */
    bool     quiet;             /* findings are counted and not reported */
    enum kcheck_level at_most;  /* findings are reported at this level at most */
    uint64_t problems;          /* damage found since it was last set to 0, quiet or not */
    uint32_t base;              /* the checkpoint used */
    bool     base_loaded;
    struct kmodel model;
    struct kgroup *groups;      /* from the base's scan LSN on */
    uint32_t group_count, group_room;
    bool     log_hole;          /* before the checkpoint's pages_lsn groups are missing */
    uint32_t last_crc;
    uint64_t damaged_record_lsn;
    uint64_t unreadable[64];            /* places in the ring, told already */
    uint32_t unreadable_count;
    uint8_t *buffer;            /* one group, and what reads it */
    size_t   buffer_bytes;
};

/* crc.c */
uint32_t kview_seed(const uint8_t uuid[16], uint32_t kind, uint64_t address, uint32_t epoch);

/* view.c */
/* 0, or what kcheck_result.error says. The view must be closed in either case. */
int  kview_open(struct kview *view, const struct kcheck_io *io,
                const struct kcheck_options *options, bool rescue);
void kview_close(struct kview *view);
int  kview_read(struct kview *view, uint64_t offset, void *buffer, size_t bytes);
int  kview_buffer(struct kview *view, size_t bytes);    /* view->buffer holds this much, -ENOMEM */
void kview_find(struct kview *view, enum kcheck_level level, const char *label,
                const char *text, ...) __attribute__((format(printf, 4, 5)));
void kview_progress(struct kview *view, const char *what, uint64_t done, uint64_t of);
/* The bytes of a page that is present: from the log or from its home. -EUCLEAN: wrong CRC. */
int  kview_page(struct kview *view, struct kmodel *model, const struct kleaf *leaf, uint32_t page,
                uint8_t *bytes);
uint64_t kview_home(const struct kview *view, const struct kleaf *leaf, uint32_t page);
uint64_t kview_address(const struct kview *view, const struct kcontainer *container,
                       uint64_t page);

/* slots.c */
void kslots_read(struct kview *view);
int  kslots_choose(struct kview *view);         /* 0 and view->super, or the error of opening */
uint64_t kslot_map_bytes(uint32_t pages);
uint64_t kslot_page_offset(const struct kslot *super, uint32_t area, uint32_t page);
bool kslot_reserves(const struct kslot *super, uint64_t extent);  /* holds slot B or an area */
uint64_t kslot_reserved(const struct kslot *super);               /* how many do */

/* area.c: 0, -EUCLEAN (problems were found, the model holds the rest), -ENOMEM */
int  karea_load(struct kview *view, uint32_t area, struct kmodel *model);
uint32_t karea_bucket(const struct kmodel *model, uint64_t object, uint64_t index);

/* directory.c */
bool kname_valid(const char name[STORE_NAME_BYTES]);
bool kname_equal(const char a[STORE_NAME_BYTES], const char b[STORE_NAME_BYTES]);
uint64_t kcontainer_pages(const struct container_disk *container);
bool kcontainer_valid(uint32_t zone, const struct container_disk *container);
bool ksegment_valid(uint32_t zone, uint32_t first_gib, uint32_t gib);
void kdirectory_check(struct kview *view, const struct kmodel *model);

/* model.c */
void kmodel_init(struct kmodel *model, uint32_t extent_pages);
void kmodel_free(struct kmodel *model);
struct kcontainer *kmodel_container(struct kmodel *model, uint64_t object);
int  kmodel_container_add(struct kmodel *model, const struct container_disk *container);
void kmodel_container_remove(struct kmodel *model, struct kcontainer *container);
struct kname *kmodel_name(struct kmodel *model, uint64_t object, const char *name);
int  kmodel_name_add(struct kmodel *model, uint64_t object, const struct name_value_disk *value);
void kmodel_name_remove(struct kmodel *model, struct kname *name);
struct kleaf *kmodel_leaf(struct kmodel *model, uint64_t object, uint64_t index);
struct kleaf *kmodel_owner(struct kmodel *model, uint64_t physical);
struct kleaf *kmodel_leaf_add(struct kmodel *model, uint64_t object, uint64_t index,
                              uint64_t physical);               /* NULL: no memory */
void kmodel_leaf_remove(struct kmodel *model, struct kleaf *leaf);
struct kleaf *kmodel_leaf_at(const struct kmodel *model, uint32_t slot);     /* NULL: dead */
uint32_t kmodel_record_add(struct kmodel *model, const struct kpage_record *record);    /* 0: no */
int  kmodel_freed_add(struct kmodel *model, const struct kfreed *freed);
uint32_t kbits(uint32_t mask);
/* Makes room for one more in an array that doubles; false: no memory. */
bool karray_room(void **array, uint32_t count, uint32_t *room, size_t bytes);

static inline uint64_t *kleaf_lsn(const struct kleaf *leaf) { return (uint64_t *)(leaf + 1); }
static inline uint32_t *kleaf_crc(const struct kmodel *model, const struct kleaf *leaf)
{
    return (uint32_t *)(kleaf_lsn(leaf) + model->extent_pages);
}
static inline uint32_t *kleaf_record(const struct kmodel *model, const struct kleaf *leaf)
{
    return kleaf_crc(model, leaf) + model->extent_pages;
}

/* log.c */
/* The whole group that begins at this place of the ring, of whatever LSN. Where the disk cannot be
 * read is none, and a warning. */
int  klog_any(struct kview *view, uint64_t place, struct kgroup *group);
/* The group at exactly this LSN, with all its bytes in view->buffer. 1, 0, or -EIO, -ENOMEM. */
int  klog_group(struct kview *view, uint64_t lsn, struct kgroup *group);
/* Fills view->groups from the checkpoint's scan LSN on, log_hole, and result.end_lsn. */
int  klog_follow(struct kview *view, uint32_t checkpoint);
int  klog_judge(struct kview *view);            /* torn tail or damage: result.damage_lsn */
void klog_epochs(struct kview *view);           /* has the next start room for its epoch? */
uint32_t klog_epoch(const struct kslot *super, uint64_t lsn);

/* packed.c: is the record's data packed? It unpacked, at most so much: its size; -EUCLEAN. */
#define KUNPACKED_BYTES (2 * BLOCK_BYTES)
bool kpacked(const struct record_disk *record);
const char *kpage_wrong(const struct record_disk *record);  /* of a page; NULL: its data is fine */
int  kunpack(const uint8_t *from, uint32_t bytes, uint8_t to[KUNPACKED_BYTES]);

/* operate.c: operations that are fine (NULL; else why not), and what they make of a page. */
const char *koperations(const uint8_t *data, uint32_t bytes);
void koperate(uint8_t *page, const uint8_t *data, uint32_t bytes);

/* unlogged.c: containers that are volatile, or to be rebuilt. */
bool kunlogged(const struct kcontainer *container);
/* What a start does not find; `same`: of those that are to be rebuilt nothing is gone (UL3). Before
 * the log is followed: their pages; after it: all else that leads to these. */
void kunlogged_forget(struct kmodel *model, bool same);
void kunlogged_lose(struct kmodel *model, bool same);
bool kunlogged_passes(struct kmodel *model, const struct record_disk *record);
/* A record of its durability: NULL; or what is wrong with it. */
const char *kunlogged_change(struct kmodel *model, struct kcontainer *container, uint64_t value);

/* heap.c */
struct kheap_page {             /* a written page that is not the inside of a large object */
    const struct kcontainer *container;
    uint64_t address;
    bool     sealed, marked;    /* slotted; of the newer kind */
    uint32_t tail;              /* pages that follow and are of its large object */
    uint64_t arena, next;       /* of a marked page: the arena it is of (0: none), its next page */
    uint8_t  bytes[BLOCK_BYTES];
};
/* bytes: rounded up to 16; type: slot_type_of() of its type's text, 0: unknown */
struct kobject { uint64_t address, bytes; uint32_t type; };
typedef int kheap_page_fn(void *context, const struct kheap_page *page);
/* Calls `visit` for all of them, by container and address, until it returns something else than 0:
 * that, or -ENOMEM. Pages that cannot be read are left out. */
int  kheap_pages(struct kview *view, kheap_page_fn *visit, void *context);
/* The objects of a slotted page that lie inside it and over no other (at most SLOT_COUNT_MAX); the
 * invariant of slot.h that is broken, or NULL. */
const char *kheap_objects(const struct kheap_page *page, struct kobject *objects, unsigned *count);

/* stray.c: warns of pages that hold no object, of spoilt ones, and of arenas. 0, -ENOMEM. */
int  kstrays_check(struct kview *view);

/* chains.c; *why, and what a function returns that is a text: what is wrong, else NULL */
int  kchain_extend(struct kmodel *model, const struct kgroup *group, uint64_t number);
/* Of a commit record: all groups of the chain must be the ones that it was written for. */
const char *kchain_end(struct kmodel *model, const struct record_disk *commit);
/* Is it about a transaction in doubt, and outside of any? */
bool kdoubt_alone(const struct record_disk *record);
/* scan_lsn: of a group before the redo LSN, where the scan began; else 0. */
int  kdoubt_apply(struct kmodel *model, const struct kgroup *group,
                  const struct record_disk *record, uint64_t scan_lsn, const char **why);
/* The redo LSN is reached: as many are in doubt as the checkpoint says, or a finding. */
int  kdoubts_count(struct kview *view, struct kmodel *model);
int  kdoubts_end(struct kview *view);       /* the log's end: their images are there */
void kdoubts_tell(struct kview *view);      /* a note of each */
void kdoubts_free(struct kmodel *model);

/* replay.c */
/* Applies the group in view->buffer; of one before the checkpoint's redo LSN only SPILL records
 * count, and from its pages_lsn on what leads to the versions of pages that it has. 0, -EUCLEAN (a
 * finding says why), -ENOMEM, -EIO. */
int  kreplay_group(struct kview *view, struct kmodel *model, const struct kgroup *group,
                   const struct kcheckpoint *from);
/* before.c: the same of a group between the checkpoint's pages_lsn and its redo LSN. *at: the place
 * behind a record that is wrong, and *why */
int  kbefore_group(struct kview *view, struct kmodel *model, const struct kgroup *group,
                   const struct kcheckpoint *from, size_t *at, const char **why);
/* record.c */
const char *kreplay_runs(const uint8_t *runs, uint32_t bytes);  /* NULL: fine; else why not */
void kreplay_patch(uint8_t *page, const uint8_t *runs, uint32_t bytes);
/* The record at `at` of a group's bytes; NULL if it is malformed. *next is the place behind it. */
const struct record_disk *kreplay_record(const uint8_t *group, size_t bytes, size_t at,
                                         size_t *next);

#endif
