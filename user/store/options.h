/*
 * options.h - what the kernel's command line tells the store manager; all words but one begin
 * with its name and a dot, "store." or "store2.".
 *
 *     store.checkpoint_ms=N          a checkpoint so long after the first commit that none covers
 *                                    (30000; 0: only when the log wants one, or somebody asks)
 *     store.chunk_pages=N            a checkpoint takes so many pages home together while others
 *                                    commit: 1 to 256 (8); 256: and waits for nobody
 *     store.lazy_ms=N                a lazy commit is durable after so long at the latest, if it
 *                                    does not say itself (100; 0: all commits are strict)
 *     store.kept_ms=N                a container's own manager has so long to begin (10000)
 *     store.linger_ms=N              and goes on for so long when nobody has it open (1000)
 *     store.quick_ms=N               a life of it as short as this counts as a failure, after
 *                                    which the next one has to wait (1000)
 *     store.log_mib=N                size of the log of a store that is made of a blank disk
 *     store.extent_kib=N             and its extents: 4, 8, 16 (unless told), 32 or 64
 *     store.zone=N                   and its zone of addresses, 0 to 7, 16 to 31 (0; of store2 1;
 *                                    ...); ask: the one that init says, or exit STORE_EXIT_ZONE
 *     store.group_kib=N              the largest group; a larger transaction spills (an eighth of
 *                                    the memory, but never more than half of the log)
 *     store.upgrade=yes              a store of an older format becomes one of today's, for good
 *     store.metadata=mapped          metadata in an object that the manager serves itself, instead
 *                                    of memory of its own: to be measured (mapped.c)
 *     store.pair=OWN,OTHER,WITNESS   sites: this store is one of two copies (user/sites/spare.md)
 *     store.copy=asynchronous        its commits do not wait for the other copy
 *     crc=table|instruction|sums     how the kernel and its managers compute checksums, instead of
 *                                    what is fastest now: so that runs that count instructions
 *                                    repeat
 *     store.die=STEP:N[,STEP:N...]   ends the manager, as if killed, when it comes to STEP for the
 *                                    N-th time; the second one is for the manager that init then
 *                                    starts, and so on
 *
 * The steps are those of a commit, CM4 to CM7, of a checkpoint, and of spilling. A test that kills
 * the manager at one must find what a power cut there would have left.
 */
#ifndef USER_STORE_OPTIONS_H
#define USER_STORE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#define EXIT_STEP 99            /* the status of a manager that ended at its step */

enum step {
    STEP_CM4,                    /* "CM4": a view's changes are in the group */
    STEP_CM5,                    /* "CM5": the group is sealed, nothing of it is written */
    STEP_CM5W,                   /* "CM5w": it is written, not flushed */
    STEP_CM5F,                   /* "CM5f": it is flushed: the point of commit has passed */
    STEP_CM6,                    /* "CM6": its metadata are applied, nothing is published */
    STEP_CM7,                    /* "CM7": its views are published */
    STEP_CK1,                    /* "CK1": a checkpoint has begun */
    STEP_CK2,                    /* "CK2": its pages are at home, not flushed */
    STEP_CK3,                    /* "CK3": metadata and superblock are written and flushed */
    STEP_CK4,                    /* "CK4": log space is released */
    STEP_SS1,  /* "SS1": copies of a transaction are in a group of SPILL records */
    STEP_SS2,                    /* "SS2": it is written, the kernel does not know */
    STEP_SS3,                    /* "SS3": the kernel has freed their frames */
    STEP_SS4,                    /* "SS4": one was read back, the kernel does not have it */
    STEP_SS5,                    /* "SS5": copies are written home, and nothing names them */
    STEP_VT1,  /* "VT1": a transaction is prepared, and nobody was told */
    STEP_VT2,  /* "VT2": ... is to be committed, and nothing of that is in the log */
    STEP_COUNT
};

enum { ZONE_ASK = 255 };            /* options.zone: the sites have to agree first */
struct options {
    uint32_t extent_bytes;          /* 0: the library's choice */
    uint32_t zone;                  /* of a store made of a blank disk: 1 for "store2", and so on */
    uint64_t checkpoint_ms;
    uint64_t lazy_ms;
    uint64_t kept_ms, linger_ms, quick_ms;    /* of representatives (kept.c) */
    uint64_t audit_kib;             /* of memory, the same */
    unsigned chunk_pages;           /* go home together while others commit */
    uint64_t scrub_kib;             /* read per second when nobody asks for it; 0: nothing */
    uint64_t group_bytes;           /* 0: a part of memory */
    uint64_t log_bytes;             /* 0: as the library likes */
    bool crc_fixed, mapped;         /* mapped: the metadata are (mapped.c) */
    bool upgrade;
    bool asynchronous;              /* of a copy: commits do not wait for the other one */
    char pair[3][32];               /* own site, the other copy's, the witness's; "": no copy */
};
extern struct options options;

/* options_read reads the kernel's command line; `life` counts from 0 how often init started the
 * manager again. A word that is not understood is said and passed over. */
void options_read(unsigned life);
/* step: this thread is at that step; does not return if it is the one. */
void step(enum step at);

#endif
