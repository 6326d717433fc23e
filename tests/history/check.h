/*
 * history/check.h - was this history serialisable? A pure function on what transactions read,
 * wrote and added.
 *
 * Every write stores a value that is stored once only, so a read names the write that it saw. From
 * that, and from the order of commits (csn), follow the dependencies between transactions:
 *
 *      wr   read what the other wrote           ww   wrote over what the other wrote
 *      rw   read what the other wrote over      rt   began when the other had ended (real time)
 *
 * A history is serialisable if these have no cycle (Adya 1999). Attempts that were undone count as
 * readers: they, too, must not have seen what no serial order shows.
 *
 * Additions commute, so there is no ww among them. Each adds a power of two that nobody else adds
 * to that item, which is only added to: so a read names all the additions that it saw.
 */
#ifndef HISTORY_CHECK_H
#define HISTORY_CHECK_H

#include <stdint.h>

enum { HISTORY_TXNS_MAX = 512, HISTORY_ACCESSES_MAX = 16384, HISTORY_ITEMS_MAX = 4096 };

enum history_level { HISTORY_SERIALISABLE, HISTORY_SNAPSHOT, HISTORY_DIRTY_READ };

enum history_what {
    HISTORY_READ, HISTORY_WRITE,
    HISTORY_ADD,                        /* value: what was added */
    HISTORY_LOOSE,                      /* a read whose lock was given back: of commits */
};
struct history_access {
    uint32_t item, what;
    uint64_t value;
};
struct history_txn {
    uint32_t level, committed;
    uint32_t worker, first, count;      /* accesses[first .. first + count) in program order */
    uint64_t csn;                       /* of a committed update; 0: wrote nothing */
    uint64_t snapshot;                  /* of a snapshot: numbers that rise with what they see */
    uint64_t began, ended;              /* stamps of one counter, taken around it */
};
struct history {
    const struct history_txn *txns;
    const struct history_access *accesses;
    const uint64_t *before, *after;     /* the items' values when nothing runs */
    uint32_t txn_count, access_count, item_count;
};

enum history_kind {
    HISTORY_GOOD,
    HISTORY_MALFORMED,  /* not a history: values stored twice, csn missing or double */
    HISTORY_GARBAGE,                    /* read what nobody wrote there */
    HISTORY_OWN_WRITE,                  /* did not read its own write */
    HISTORY_G1A,                        /* aborted read */
    HISTORY_G1B,                        /* intermediate read */
    HISTORY_G1C,  /* cycle of ww and wr; not of ww alone (G0): csn orders them */
    HISTORY_LOST_UPDATE,                /* P4: two read one version and both wrote over it */
    HISTORY_G_SINGLE,                   /* cycle with one rw: read skew */
    HISTORY_G2,                         /* cycle with more: write skew */
    HISTORY_REAL_TIME,                  /* cycle that needs rt: serialisable, but not in time */
    HISTORY_CSN_ORDER,                  /* depends on a later csn */
    HISTORY_SNAPSHOT_TORN,              /* saw no prefix of the commits, or the wrong one */
    HISTORY_LAST_STATE,                 /* the last version is not what is there afterwards */
};
struct history_verdict {
    enum history_kind kind;
    char text[1600];                    /* what was found, in lines that begin with # */
};

/* Not for two threads at once: its tables are static. */
void history_check(const struct history *h, struct history_verdict *out);
const char *history_kind_name(enum history_kind kind);

#endif
