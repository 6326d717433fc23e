/*
 * recovery.h - what the files of recovery offer each other: slots, its decision table, the log's
 * scan, chains, images, older formats, the check of what was loaded. internal.h includes it.
 */
#ifndef KATYDID_DISK_RECOVERY_H
#define KATYDID_DISK_RECOVERY_H

#include "internal.h"

/* decide.c: facts, and what recovery does about them */
enum slots_fact { SLOTS_GOOD, SLOTS_UNREADABLE, SLOTS_BLANK, SLOTS_FOREIGN, SLOTS_NEWER,
                  SLOTS_OLDER, SLOTS_DAMAGED, SLOTS_FACTS };
/* enum base_fact: which checkpoint is intact */
enum base_fact { BASE_NEWEST, BASE_OLDER, BASE_NONE, BASE_FACTS };
enum log_fact {
    LOG_EMPTY,                  /* nothing after the redo LSN */
    LOG_GROUPS,                 /* groups, then an end that contradicts nothing (torn or not) */
    LOG_DAMAGED,                /* the log ends before something that was acknowledged */
    LOG_UNFIT,                  /* its records do not fit the metadata, or a chain is broken */
    LOG_FACTS
};
enum recovery_action {
    RECOVERY_REFUSE,            /* the error; nothing is written */
    RECOVERY_SALVAGE,           /* the same, but read-only opening goes on */
    RECOVERY_EPOCH,             /* superblock with the next epoch, flush */
    RECOVERY_REPLAY,            /* replay; the same superblock, all home, flush; superblock */
};
struct recovery_rule {
    const char *label;
    uint8_t  slots, base, log;  /* bit f: matches fact f */
    enum recovery_action action;
    int      error;
    const char *message;
};
#define RECOVERY_RULES 12u
struct log_facts {
    uint64_t end_lsn, known_durable;    /* the superblock knows that so much was durable */
    uint64_t groups;                    /* after the redo LSN */
    bool     later_history;             /* a valid group further on contradicts this end */
};
extern const struct recovery_rule recovery_rules[RECOVERY_RULES];
enum slots_fact slots_fact(enum slot_verdict a, enum slot_verdict b, bool blank);
uint32_t slots_newest(bool valid_a, uint64_t generation_a, bool valid_b, uint64_t generation_b);
enum log_fact log_fact(const struct log_facts *facts);
const struct recovery_rule *recovery_decide(enum slots_fact slots, enum base_fact base,
                                            enum log_fact log);
/* recovery_report also notes the rule. Asked too early (the rule needs the log), its error is 0. */
const struct recovery_rule *recovery_report(struct store_report *report, enum slots_fact slots,
                                            enum base_fact base, enum log_fact log);

/* scan.c */
#define UNREADABLE_MAX 64u
struct log_reader {
    struct store *store;
    uint8_t *buffer;
    size_t   room, filled;
    uint64_t lsn;
    /* unreadable blocks, by their place on the disk, hold no group */
    uint64_t unreadable[UNREADABLE_MAX];
    uint32_t unreadable_count;
    uint64_t verified_from;             /* groups from here on were found valid: no CRC again */
};
/* struct fingerprint: two sums over all bytes read, equal if these were the same; their records. */
struct fingerprint { uint64_t sum, weighed, records; };
/* struct scan walks over groups from a checkpoint's scan LSN. What is lost before its pages begin
 * is stepped over: only SPILL records lie there, which the commit that needs one will miss. */
struct scan {
    struct log_reader *reader;
    const struct checkpoint_info *base;
    uint64_t lsn, end;                  /* of the group found; where the next one begins */
    uint64_t until;                     /* the log ends here, whatever lies behind */
    uint32_t prev_crc;
    const uint8_t *group;
    struct fingerprint seen;            /* of all groups found */
};
#define READ_AHEAD_BYTES (256u * 1024)
/* log_reader_open makes a reader that reads `ahead` bytes at once */
int  log_reader_open(struct log_reader *reader, struct store *store, size_t ahead);
void log_reader_close(struct log_reader *reader);
uint32_t group_crc(const struct superblock *super, const uint8_t *group, size_t bytes,
                   size_t zeros);       /* so many at its end are known to be zero */
/* log_next finds the next group of the history at *lsn, or at the ring's start if its end was
 * skipped; *crc is that of the group before. Both move behind it. 1; 0: none; < 0: cannot read. */
int  log_next(struct log_reader *reader, uint64_t *lsn, uint32_t *crc, const uint8_t **group);
struct scan log_scan_begin(struct log_reader *reader, uint32_t area);
int  log_scan_next(struct scan *scan);
/* log_end_unreadable tells if an unreadable group may lie at the log's end, or the ring's start. */
bool log_end_unreadable(struct log_reader *reader, uint64_t end, uint32_t prev_crc);
/* log_end_clear, when no group lies there, writes zeros over the blocks that cannot be read, so
 * that the next start need not ask. A place that takes no write stays as it is. */
void log_end_clear(struct log_reader *reader, uint64_t end);
int  log_find_damage(struct log_reader *reader, uint64_t end, uint64_t *damage);
/* log_group_any finds the first whole group at or behind *lsn in the ring, of any age. 1; -ENOENT:
 * none before `until`. */
int  log_group_any(struct log_reader *reader, uint64_t *lsn, uint64_t until, const uint8_t **group);

/* log_group_follows tells if bytes from elsewhere are the whole group that comes next in the log of
 * this store, of any epoch. */
bool log_group_follows(const struct store *store, const uint8_t *group, size_t bytes);

/* record.c */
struct record_walk {
    const uint8_t *bytes;
    size_t   at, end;
    uint32_t left;
};
int  record_next(struct record_walk *walk, const struct record_disk **record);  /* 1, 0 end, <0 */
struct record_walk group_walk(const uint8_t *group);
bool group_loads(const uint8_t *group); /* has it pages that are in no log (PAGE_HOME)? feed.c */
int  records_apply(struct store *store, const uint8_t *group, uint64_t lsn, uint64_t *txns);
/* record_writes tells if a record of this type makes a new version of one page. */
static inline bool record_writes(uint32_t type)
{
    return type == RECORD_PAGE_FULL || type == RECORD_PAGE_DIFF || type == RECORD_PAGE_OP ||
           type == RECORD_PAGE_LOGGED;
}
/* records_visit calls `visit` with each record of a group's transactions, and its transaction's
 * number: the LSN of the commit record (RC1). Ends with the first error. */
typedef int record_visit(struct store *store, void *context, const struct record_disk *record,
                         uint64_t csn);
int  records_visit(struct store *store, const uint8_t *group, uint64_t lsn, record_visit *visit,
                   void *context);
/* record_page_valid tells if a record of a page, unpacked, has valid data for its type. */
bool record_page_valid(const struct record_disk *record);
bool page_record_valid(const struct container_disk *container, const struct record_disk *record);
/* record_page makes `page`, which holds the version before, what a valid record of a whole page, a
 * difference or operations says. */
void record_page(const struct record_disk *record, uint8_t *page);

/* range_free frees pages [from, end) of a container. */
void range_free(struct store *store, uint64_t object, uint32_t slot, uint64_t from, uint64_t end);

/* unlogged.c */
/* record_passed tells if recovery passes over a record of this type and container. */
bool record_passed(const struct store *store, uint32_t type, uint32_t slot);
int  durability_apply(struct store *store, const struct record_disk *record, uint32_t slot);
/* unlogged_forget and unlogged_lose drop what a start must not find of containers whose pages are
 * in no log (UL1); `same`: only of volatile ones (UL3). One, before the log is followed: pages; the
 * other, after it: all that leads to them. *lost: more than 0 if there was something. */
int  unlogged_forget(struct store *store, bool same, uint64_t *lost);
void unlogged_lose(struct store *store, bool same, uint64_t *lost);

/* pack.c: record_unpack returns a packed record as it was before. NULL: it is damaged. */
struct unpacked { struct record_disk record; uint8_t data[2 * STORE_PAGE_BYTES]; };
void packer_drop(struct store *store);
bool record_packed(const struct record_disk *record);
const struct record_disk *record_unpack(const struct record_disk *record, struct unpacked *to);

/* record_last is the open transaction's last record or NULL; record_shrink gives it other data. */
struct record_disk *record_last(const struct store_group *group);
/* run_last (unlogged.c) is that one, if of this type, and of pages right before this; or NULL. */
struct record_disk *run_last(const struct store_group *group, enum record_type type,
                             uint64_t object, uint64_t page, uint64_t physical);
void group_reach(struct store_group *group, size_t end);  /* bytes before it may be written */
void record_shrink(struct store_group *group, const void *data, uint32_t bytes);

/* operate.c: operations_check: 0, -EINVAL; operations_apply makes a page of the version before */
int  operations_check(const uint8_t *data, uint32_t bytes);
void operations_apply(const uint8_t *data, uint32_t bytes, uint8_t *page);

/* rechain.c */
int  spill_note(struct store *store, const struct record_disk *record, const uint8_t *group,
                uint64_t lsn);
int  spills_note(struct store *store, const uint8_t *group, uint64_t lsn, uint64_t redo);
int  chain_verify(struct store *store, const struct chain_disk *chain);
/* chain_stands checks that the chain is as it was before the group at `lsn`, the last one met. */
int  chain_stands(const struct store *store, const struct chain_disk *chain, uint64_t lsn);
void chain_restore(struct store_chain *chain, uint64_t number);  /* as the log has it */
int  logged_read(struct store *store, const struct record_disk *record, uint64_t lsn,
                 uint8_t *image);
void seen_drop(struct store *store);
/* seen_forget, when the group at `lsn` is applied, drops chains that left the ring, if many. */
void seen_forget(struct store *store, uint64_t lsn);

/* roll.c */
int  roll_forward(struct store *store, struct store_roll *roll, struct store_report *report);
/* roll_stops tells if the transaction of this commit record, and all behind it, are not wanted. */
bool roll_stops(struct store *store, const struct record_disk *commit, uint64_t csn);
int  roll_end(struct store *store, const uint8_t uuid[16]);
/* roll_load gets from the archive `count` pages that a load brought home, each of its CRC. */
store_must_check int roll_load(struct store *store, uint64_t csn, uint64_t offset, const le32 *crc,
                               uint32_t count);

/* image.c */
const uint8_t *image_bytes(const struct store *store, uint64_t number);     /* NULL: none */
store_must_check int images_home(struct store *store);
void images_drop(struct store *store);
void image_drop(struct store *store, uint64_t extent, uint32_t page);
/* images_spare notes the places that the group at `lsn` has PAGE_HOME records of. */
store_must_check int images_spare(struct store *store, const uint8_t *group, uint64_t lsn);
/* images_before makes images of pages that were not home (IG4), of a group between where the
 * checkpoint's pages begin and its redo LSN. */
store_must_check int images_before(struct store *store, const uint8_t *group, uint64_t lsn);
/* image_write does to its page's image what a record says; the leaf tells of the version before. */
store_must_check int image_write(struct store *store, const struct record_disk *record,
                                 struct leaf_disk *leaf, uint32_t page, uint64_t lsn);

/* upgrade.c: a version other than FORMAT_VERSION must be store_upgradable */
struct format_step {
    uint32_t from;              /* this version; the step leads to the next */
    void   (*superblock)(struct superblock_disk *block);
    void   (*page)(uint32_t kind, uint8_t *bytes);      /* a metadata page */
    bool     log_differs;       /* its groups cannot be replayed: there must be none */
};
extern const struct format_step *format_steps;
extern uint32_t format_step_count;
void upgrade_superblock(struct superblock_disk *block, uint32_t version);
void upgrade_page(uint32_t version, uint32_t kind, uint8_t *bytes);
bool upgrade_needs_empty_log(uint32_t version);

/* chunk.c */
static inline uint64_t extent_redo(const struct store *store, const struct extent *extent)
{
    return MAX(store->log.redo, extent->redo);
}
/* pages_begin_lsn tells where the pages begin that recovery needs from this checkpoint on. */
static inline uint64_t pages_begin_lsn(const struct checkpoint_info *checkpoint)
{
    return checkpoint->pages_lsn ? checkpoint->pages_lsn : checkpoint->redo_lsn;
}
bool sweep_end(struct store *store, struct checkpoint_info *info);

/* open.c, for spare.c as well; the comments are there */
int  base_load(struct store *store, uint32_t *area, enum base_fact *fact,
               struct store_report *report);
uint64_t known_durable(const struct superblock *super);
void marks_set(struct store *store, uint32_t area);
int  group_replay(struct store *store, const struct scan *scan, struct store_report *report);
int  doubts_compare(struct store *store, const struct checkpoint_info *base, uint64_t lsn,
                    struct store_report *report);
int  log_recovered(struct store *store, bool same, struct store_report *report);
int  recovery_end(struct store *store, bool replayed, struct store_report *report);

/* feed.c: epochs_decode reads a table; epochs_common tells how far two logs may be the same */
bool epochs_decode(const struct store_epochs *in, struct superblock *super);    /* is it one? */
uint64_t epochs_common(const struct superblock *a, const struct superblock *b, uint64_t end);

/* slots.c */
#define SMALLEST_BYTES (8ull * BLOCK_BYTES)
/* slots_find finds the superblock to believe, and notes the rule; or that rule's error, or -ENOMEM.
 * *twin_first: its twin is to be written before any area is (SB4). */
int  slots_find(const struct disk_io *io, const struct disk_memory *memory, bool upgrade,
                struct superblock *super, bool *twin_first, struct store_report *report);
/* superblock_again writes the newest slot, as it is in its format, to the other one, as the next
 * generation; `scratch` is 4 KiB. -EIO, too, if the slot is no longer what was believed (SB3). */
int superblock_again(const struct disk_io *io, struct superblock *super, void *scratch);
void epochs_forget(struct superblock *super, uint64_t keep_lsn);    /* those that end before it */

/* check.c; -EUCLEAN: *why is a static text */
#define FAIL(text) do { *why = (text); return -EUCLEAN; } while (0)
typedef int leaf_visit(struct store *store, const struct leaf_disk *leaf, const char **why);
int  metadata_check(struct store *store, leaf_visit *visit, const char **why);
int  store_rebuild_extents(struct store *store, const char **why);

#endif
