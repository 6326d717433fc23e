/*
 * format.h - what lies on the disk, format version 4. The chapter (disk.md) explains it.
 *
 * All numbers are little-endian. Every CRC is CRC-32C and seeded with the store's uuid, the kind
 * of block, and its own address or LSN (crc_seed), so that a right block in a wrong place fails.
 * All-zero bytes never verify.
 */
#ifndef KATYDID_DISK_FORMAT_H
#define KATYDID_DISK_FORMAT_H

#include "bytes.h"
#include "store.h"

#define BLOCK_BYTES          4096u
#define FORMAT_VERSION       4u
#define FORMAT_ALIKE         3u         /* of these all lies where today's has it */
#define SUPERBLOCK_MAGIC     0x6269644b53746f31ull
#define GROUP_MAGIC          0x70726f75474b6431ull
#define META_MAGIC           0x6174654d4b696431ull
#define SIGNPOST_MAGIC       0x6e6769534b646931ull
#define LABEL_MAGIC          0x6b7369444b646931ull
#define UNFINISHED_MAGIC     0x706f43744b646931ull      /* begins block 0 of a copy being made */
#define DIRECTORY_PAGES_MOST 1024u  /* 8,192 containers, as many as a zone has GiB; and of names */
#define BLANK_BYTES          (8ull << 20)        /* zeros here, among other places: a blank disk */
#define EPOCH_MAX            8u
#define EPOCH_LIMIT          (UINT32_MAX - 1)    /* every epoch is below it */
#define LOG_BYTES_MIN        (4u * BLOCK_BYTES)
#define FLAG_CLEAN           1u
#define FLAG_COPY            2u  /* its groups come from another one's log (spare.c) */

enum crc_kind { CRC_SUPERBLOCK = 1, CRC_GROUP, CRC_MAP, CRC_META, CRC_SIGNPOST, CRC_LABEL };

/* struct checkpoint_disk is one checkpoint. redo_lsn 0: none. The group before redo_lsn has CRC
 * prev_crc, that before scan_lsn scan_crc. Groups in [scan_lsn, redo_lsn) are not applied; they
 * hold SPILL records of transactions that ran when it began, and pages (chunks_disk). */
struct checkpoint_disk {
    le64 redo_lsn;              /*  0  first LSN that is not in the saved metadata */
    le64 scan_lsn;              /*  8  <= redo_lsn: where scanning begins */
    le32 root_crc;              /* 16  of the area's map */
    le32 pages;                 /* 20  metadata pages in the map */
    le32 prev_crc;              /* 24 */
    le32 scan_crc;              /* 28 */
    le64 sequence;              /* 32  1, 2, 3 ...: the larger is the newer */
};
_Static_assert(sizeof(struct checkpoint_disk) == 40, "on-disk size");

/* struct chunks_disk is of a checkpoint by chunks: pages need not be home for it; the image of each
 * that is not, or the changes that lead to it, begin at or behind pages_lsn. The group before has
 * CRC pages_crc. All zeros: the redo LSN, all older pages were home. */
struct chunks_disk {
    le64 pages_lsn;             /*  0  scan_lsn <= pages_lsn <= redo_lsn */
    le32 pages_crc;             /*  8 */
    le32 reserved;              /* 12 */
};
_Static_assert(sizeof(struct chunks_disk) == 16, "on-disk size");

struct epoch_disk {
    le32 epoch;
    le32 reserved;
    le64 first_lsn;
};

/*
 * A superblock slot is at block 0 (slot A) and in the middle of the disk as it was created (slot
 * B). Generation g lies in slot g & 1. Valid when: magic; version; CRC over bytes 12 to 4095, all
 * fields beyond 512 zero; then every field is in range.
 */
struct superblock_disk {
    le64 magic;                 /*   0 */
    le32 crc;                   /*   8 */
    le32 version;               /*  12 */
    uint8_t uuid[16];           /*  16 */
    le64 features;              /*  32  unknown bits: refuse */
    le32 slot;                  /*  40 */
    le32 flags;                 /*  44  FLAG_CLEAN, FLAG_COPY */
    le64 generation;            /*  48 */
    le64 disk_bytes;            /*  56 */
    le64 slot_b_offset;         /*  64 */
    le64 log_start;             /*  72 */
    le64 log_bytes;             /*  80 */
    le32 extent_bytes;          /*  88 */
    le32 zone;                  /*  92 */
    le64 area_start[2];         /*  96 */
    le32 area_pages;            /* 112  capacity of each area, map not counted */
    le32 directory_pages_max;   /* 116 */
    le32 names_pages_max;       /* 120 */
    le32 checkpoint_index;      /* 124  the newest of checkpoints[] */
    le64 data_start;            /* 128 */
    le64 extents;               /* 136 */
    struct checkpoint_disk checkpoints[2];  /* 144 */
    le64 end_lsn;               /* 224  clean: the log ends exactly here */
    le32 reserved;              /* 232 */
    le32 epoch_count;           /* 236 */
    struct epoch_disk epochs[EPOCH_MAX];    /* 240 */
    struct chunks_disk chunks[2];           /* 368  of each checkpoint */
    uint8_t zero[BLOCK_BYTES - 400];
};
_Static_assert(sizeof(struct superblock_disk) == BLOCK_BYTES, "on-disk size");
_Static_assert(offsetof(struct superblock_disk, checkpoints) == 144, "on-disk place");
_Static_assert(offsetof(struct superblock_disk, epochs) == 240, "on-disk place");
_Static_assert(offsetof(struct superblock_disk, chunks) == 368, "on-disk place");

/*
 * The signpost, block 1, tells where slot B is, for when slot A cannot be read; the disk may have
 * grown since its middle was measured. Written when the store is created: before anything else with
 * slot_b_offset 0, when all is there with the offset. With 0 the disk is blank, unless a valid slot
 * of this uuid has generation GENERATION_MADE or later. Valid when: magic; version; CRC over bytes
 * 12 to 4095.
 */
struct signpost_disk {
    le64 magic;                 /*   0 */
    le32 crc;                   /*   8 */
    le32 version;               /*  12 */
    uint8_t uuid[16];           /*  16 */
    le64 slot_b_offset;         /*  32 */
    uint8_t zero[BLOCK_BYTES - 40];
};
_Static_assert(sizeof(struct signpost_disk) == BLOCK_BYTES, "on-disk size");
#define SIGNPOST_OFFSET      BLOCK_BYTES
#define GENERATION_MADE      2u  /* slot A's in a new store: all but the signpost is there */

/*
 * A label marks one of several disks that hold one store, in its first and its last block. Valid
 * when: magic; CRC over bytes 12 to 4095, seeded with the copy's place; version; fields in range.
 */
#define LABEL_VERSION        1u
struct label_disk {
    le64 magic;                 /*   0 */
    le32 crc;                   /*   8 */
    le32 version;               /*  12 */
    uint8_t uuid[16];           /*  16  of the store */
    le32 count;                 /*  32  disks, 2 to 4 */
    le32 number;                /*  36  of this one, from 0 */
    le64 making;                /*  40  1: perhaps not all of the store is there; 0 */
    le64 unit_bytes;            /*  48  lie on one disk before the next has its turn */
    le64 units;                 /*  56  on each disk */
    le64 head_bytes;            /*  64  lie on disk 0 before that: superblock, log, areas */
    le64 disk_bytes;            /*  72  of this one, in whole blocks */
    uint8_t zero[BLOCK_BYTES - 80];
};
_Static_assert(sizeof(struct label_disk) == BLOCK_BYTES, "on-disk size");

/*
 * struct group_disk is a group's header; records follow it, zeros fill the last block. Valid at LSN
 * x when, in this order: magic; uuid_low; lsn == x (else a stale lap); epoch is the one the
 * superblock's table gives for x (else a tail that a crash cut off); prev_crc is that of the group
 * before (else another history); blocks fits; crc, over bytes 0 to 59 and 64 to the end of the last
 * block (else torn). No other field is believed before all hold.
 */
struct group_disk {
    le64 magic;                 /*  0 */
    le64 lsn;                   /*  8 */
    le64 durable_lsn;           /* 16  all before it was acknowledged when this was sealed */
    le64 first_tag;             /* 24 */
    le32 uuid_low;              /* 32 */
    le32 epoch;                 /* 36 */
    le32 prev_crc;              /* 40 */
    le32 blocks;                /* 44 */
    le32 records;               /* 48 */
    le32 payload_bytes;         /* 52 */
    le32 reserved;              /* 56 */
    le32 crc;                   /* 60 */
};
_Static_assert(sizeof(struct group_disk) == 64, "on-disk size");

enum record_type {
    RECORD_PAGE_FULL = 1,       /* object, page, physical; 4096 bytes */
    RECORD_PAGE_DIFF,           /* object, page, physical, base; runs */
    RECORD_PAGE_FREE,           /* object, page, base = count */
    RECORD_CREATE,              /* object; CREATE_BYTES of a container slot */
    RECORD_DELETE,              /* object */
    RECORD_RENAME,              /* object; name */
    RECORD_GROW,                /* object; le32 first GiB in the zone, le32 GiB */
    RECORD_LAYOUT,              /* object; struct layout_disk */
    RECORD_NAME_SET,            /* object; struct name_value_disk */
    RECORD_NAME_UNSET,          /* object; name */
    RECORD_COMMIT,              /* object = tag, page = records of the transaction before it, base
                                 * = time (ns since 1970, UTC; 0: not known), physical = id; no
                                 * data, or struct chain_disk */
    RECORD_NOOP,
    RECORD_SPILL,               /* outside of a transaction: base = chain, page = images; a table of
                                 * struct spill_disk up to the next block, then so many pages */
    RECORD_PAGE_LOGGED,         /* object, page, physical; base = LSN of its image, crc */
    RECORD_ENCODER,             /* object; page = encoder */
    RECORD_PAGE_CLAIM,          /* object, page, base = count; physical: of the first page's extent,
                                 * those that follow lie in the extents behind it. RECORD_WRITTEN:
                                 * they were written, too, and their bytes are in no log */
    RECORD_LOCKING,             /* object; page = locking */
    RECORD_PROTECTION,          /* object; page = protection */
    RECORD_DURABILITY,          /* object; page = durability */
    RECORD_PAGE_HOME = 20,      /* object, page, base = count; physical, as of PAGE_CLAIM: extents
                                 * that are given by this transaction; le32 crc of each page, whose
                                 * bytes are at home */
    RECORD_PAGE_OP,             /* object, page, physical, base; operations (operate.c) */
    RECORD_PREPARED = 23,       /* outside of a transaction: base = chain, page = its pages; struct
                                 * prepared_disk, so many struct prepared_page_disk, the caller's */
    RECORD_DECIDED,             /* page = enum decided, base = participants; struct decided_disk, so
                                 * many struct participant_disk */
    RECORD_MOVE = 25,           /* object, page: the first of an extent; physical: where it lies
                                 * now. Its present pages are claimed until a record that
                                 * follows writes them */
    RECORD_TYPES
};

_Static_assert(RECORD_PAGE_FREE == (int)STORE_OP_PAGE_FREE &&
               RECORD_NAME_UNSET == (int)STORE_OP_NAME_UNSET &&
               RECORD_ENCODER == (int)STORE_OP_ENCODER &&
               RECORD_DURABILITY == (int)STORE_OP_DURABILITY, "an operation is its record");

struct record_disk {
    le32 length;                /*  0  of the whole record, a multiple of 8 */
    le16 type;                  /*  4 */
    le16 flags;                 /*  6  RECORD_PACKED, RECORD_WRITTEN */
    le32 data_bytes;            /*  8  payload without padding */
    le32 crc;                   /* 12  PAGE_LOGGED: plain CRC-32C of the image; else 0 */
    le64 object;                /* 16 */
    le64 page;                  /* 24 */
    le64 base;                  /* 32 */
    le64 physical;              /* 40  extent number */
};
_Static_assert(sizeof(struct record_disk) == 48, "on-disk size");
#define RECORD_PACKED        1u         /* data is packed by LZ4: PAGE_FULL, PAGE_DIFF */
#define RECORD_WRITTEN       2u

/*
 * A chain is a transaction that wrote pages into the log before its commit. Image i of a SPILL
 * record is in the i-th block behind the record's table, which ends at a block's end. The commit
 * record names the first group that has a SPILL record of the chain, how many have one, and the
 * CRC-32C (seed: the chain's number, low half) of their headers' CRCs, in order.
 */
struct spill_disk {
    le64 object;                /*  0 */
    le64 page;                  /*  8 */
    le32 crc;                   /* 16  plain CRC-32C of the image */
    le32 reserved;              /* 20 */
};
_Static_assert(sizeof(struct spill_disk) == 24, "on-disk size");

struct chain_disk {
    le64 chain;                 /*  0  number: epoch << 32 | 1, 2, 3 ... */
    le64 head_lsn;              /*  8 */
    le32 groups;                /* 16 */
    le32 crc;                   /* 20 */
};
_Static_assert(sizeof(struct chain_disk) == 24, "on-disk size");

/*
 * A prepared transaction of several stores has voted yes: its images are in the log, its end is not
 * decided. `chain` tells of the groups before this one. An outcome is of an id: UNDO and COMMIT end
 * what is prepared; KEPT is a decision of this store that others may ask for, until FORGET, AGAIN
 * the same in a later part of the log. COMMIT and KEPT are in the transaction that they are about,
 * the others outside of one.
 */
struct prepared_disk {
    uint8_t id[16];             /*  0 */
    uint8_t coordinator[16];    /* 16 */
    struct chain_disk chain;    /* 32  head_lsn 0: there is no group before */
    le32 names;                 /* 56  so many may be set when it commits */
    le32 reserved;              /* 60 */
};
_Static_assert(sizeof(struct prepared_disk) == 64, "on-disk size");

struct prepared_page_disk {
    le64 object;                /*  0 */
    le64 page;                  /*  8 */
    le64 lsn;                   /* 16  of its image */
    le32 crc;                   /* 24  plain CRC-32C of the image */
    le32 reserved;              /* 28 */
};
_Static_assert(sizeof(struct prepared_page_disk) == 32, "on-disk size");

enum decided { DECIDED_UNDO, DECIDED_COMMIT, DECIDED_KEPT, DECIDED_FORGET, DECIDED_AGAIN,
               DECIDED_COUNT };

struct decided_disk { uint8_t id[16]; };
struct participant_disk {
    uint8_t store[16];          /*  0 */
    le64 number;                /* 16 */
};
_Static_assert(sizeof(struct participant_disk) == 24, "on-disk size");

struct layout_disk {
    char type[STORE_NAME_BYTES];
    le32 version;
    le32 bytes;
    le64 root;
};

struct name_value_disk {
    char name[STORE_NAME_BYTES];
    le64 address;
    le64 bytes;
};
_Static_assert(sizeof(struct layout_disk) == 80, "on-disk size");
_Static_assert(sizeof(struct name_value_disk) == 80, "on-disk size");

/*
 * A metadata area has a map (one entry per page, whole blocks), then the pages. Page 0 is the
 * header. The map's CRC is in the superblock; a page's CRC is in the map.
 */
enum meta_kind { META_FREE, META_HEADER, META_DIRECTORY, META_NAMES, META_BUCKET };

struct map_entry_disk {
    le32 crc;
    le16 kind;
    le16 chain;                 /* bucket pages: place in the bucket's chain, from 0 */
    le32 index;                 /* bucket number, or place among the pages of its kind */
    le32 saved;                 /* low half of the sequence of the checkpoint that first saved these
                                 * bytes; 0: not known */
};
_Static_assert(sizeof(struct map_entry_disk) == 16, "on-disk size");

struct meta_header_disk {
    le64 magic;                 /*  0 */
    le64 redo_lsn;              /*  8  must equal the superblock's */
    le64 next_object;           /* 16 */
    le32 cursor_gib;            /* 24  next address range */
    le32 hash_level;            /* 28 */
    le32 hash_split;            /* 32 */
    le32 containers;            /* 36 */
    le32 names;                 /* 40 */
    le32 doubts;                /* 44  prepared transactions and kept decisions; 0 before there were
                                 *     any */
    le64 leaves;                /* 48 */
    le64 pages_present;         /* 56 */
    le32 doubts_sum;            /* 64  of CRCs of their ids, seeded with 1 if a decision; then | 1.
                                 *     0: none, or from before there was this */
    uint8_t zero[BLOCK_BYTES - 68];
};
_Static_assert(sizeof(struct meta_header_disk) == BLOCK_BYTES, "on-disk size");

struct segment_disk {
    le32 first_gib;             /* from the start of the zone */
    le32 gib;
};

struct container_disk {
    le64 object;                /*   0  0: the slot is free */
    char name[STORE_NAME_BYTES];/*   8 */
    le32 flags;                 /*  72 */
    le32 segment_count;         /*  76 */
    struct segment_disk segments[STORE_SEGMENT_MAX];    /* 80 */
    struct layout_disk layout;  /* 176 */
    le16 encoder;               /* 256  enum store_encoder */
    le16 locking;               /* 258  enum store_locking; 0 before there was one */
    le16 durability;            /* 260  enum store_durability; 0 before there was one */
    le16 protection;            /* 262  STORE_PROTECT_*; 0 before there was one */
    le64 created;               /* 264 */
    uint8_t reserved[512 - 272];
};
_Static_assert(sizeof(struct container_disk) == 512, "on-disk size");
#define CREATE_BYTES         offsetof(struct container_disk, created)
#define CONTAINERS_PER_PAGE  (BLOCK_BYTES / sizeof(struct container_disk))

struct name_disk {
    le64 object;                /*  0  0: free */
    struct name_value_disk value;
    uint8_t reserved[40];
};
_Static_assert(sizeof(struct name_disk) == 128, "on-disk size");
#define NAMES_PER_PAGE       (BLOCK_BYTES / sizeof(struct name_disk))

/* A bucket page has this header, then `count` leaves, no holes. */
struct bucket_disk {
    le32 count;
    le32 bucket;
    le64 reserved;
};
_Static_assert(sizeof(struct bucket_disk) == 16, "on-disk size");

/* A leaf maps one extent of a container; le32 crc[n], le64 lsn[n] follow, n = pages per extent. A
 * page that is claimed belongs to somebody and was never written: it reads as zeros, has neither
 * CRC nor LSN (both 0), and its place on the disk means nothing. No bit is set in both. */
struct leaf_disk {
    le64 object;                /*  0 */
    le64 index;                 /*  8  page / pages per extent */
    le64 physical;              /* 16  extent number on this disk */
    le64 born;                  /* 24  csn that assigned the extent */
    le32 mask;                  /* 32  bit p: page p exists */
    le16 disk;                  /* 36  disk number: 0 */
    le16 claimed;               /* 38  bit p: page p is claimed */
};
_Static_assert(sizeof(struct leaf_disk) == 40, "on-disk size");

#endif
