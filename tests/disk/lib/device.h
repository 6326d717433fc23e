/*
 * device.h - a disk in memory that records what is done to it, and can fail.
 *
 * Events: a write is issued, a write completes, a flush is issued, a flush completes, a mark. A
 * write is durable once a flush that was issued after its completion has completed. Two writes in
 * flight must not overlap, and requests are whole blocks inside the disk: else the test aborts.
 */
#ifndef TESTS_DISK_DEVICE_H
#define TESTS_DISK_DEVICE_H

#include "tools/lib/tools.h"

#define SECTOR_BYTES 512u

#define DEVICE_OPEN_MAX 64u

enum event_kind { WRITE_ISSUE, WRITE_COMPLETE, FLUSH_ISSUE, FLUSH_COMPLETE, MARK };

struct event {
    enum event_kind kind;
    uint32_t write;             /* complete: index of its issue event; flush complete: likewise */
    uint64_t offset;            /* flush issue: bytes 0: all that was written, else only there */
    size_t   bytes;
    uint8_t *data;              /* issue: the bytes written */
    uint64_t acked, submitted, proven;  /* mark */
};

struct undo {
    uint64_t offset;
    size_t   bytes, at;         /* place of the old bytes in undo_data */
};

/* One of several disks whose bytes lie in the device's image one after the other. */
struct device_disk {
    struct device *device;
    uint64_t start, bytes;
};

struct device {
    uint8_t *image;
    uint64_t bytes;
    struct device_disk disks[SPAN_DISKS_MAX];
    uint32_t asked;             /* the disk (from 1) of the request that runs */
    uint32_t disk_count;        /* 0: the device is one disk */
    struct span span;           /* of the last device_start */
    struct disk_io span_io;
    /* recording */
    bool     recording;
    uint32_t open[DEVICE_OPEN_MAX], open_count;     /* writes in flight: their issue events */
    struct event *events;
    uint32_t event_count, event_room;
    /* undo: writes since undo_begin can be taken back */
    bool     undoing;
    struct undo *undos;
    uint32_t undo_count, undo_room;
    uint8_t *undo_data;
    size_t   undo_used, undo_size;
    /* failures: request number fail_at (from 1) of the kinds in fail_kinds fails, and, if sticky,
     * every later one */
    uint32_t requests, fail_at, fail_kinds, fired;
    bool     fail_sticky;
    uint32_t fail_disk;                 /* of several disks only this one (from 1) fails; 0: all */
    uint32_t reads, writes, flushes;
    uint64_t bad_at, bad_bytes;         /* cannot be read, until it is written; bad_bytes 0: none */
    uint32_t bad_met;                   /* reads that failed for it */
    uint8_t *read_map;                  /* NULL, or a byte per block: set when it is read */
    uint64_t acked;                     /* by the last mark */
    uint64_t proven;                    /* in the next mark: something durable proves these acked */
    uint64_t acked_at_failure;          /* when the first request failed */
    bool     flushing, failed_in_flush; /* the first failure came while a flush was under way */
    /* called between issue and completion of a flush */
    void   (*in_flush)(void *context);
    void    *in_flush_context;
    void   (*written)(void);    /* called behind each write */
};

enum { FAIL_READ = 1, FAIL_WRITE = 2, FAIL_FLUSH = 4 };

void device_open(struct device *device, uint64_t bytes);        /* all zero */
void device_close(struct device *device);
/* Some disks, each recorded as one: only a flush of its own makes what is written to it durable. */
void device_open_disks(struct device *device, const uint64_t *bytes, uint32_t count);
struct disk_io device_disk_io(struct device *device, uint32_t disk);
/* What a start does first: several disks become one, by their labels. 0, or why not. */
int device_start(struct device *device, struct disk_io *io, struct span_report *report);
/* store_format; of several disks with units of unit_bytes. */
int device_format(struct device *device, const struct store_options *options, uint64_t unit_bytes);
/* The whole, as it was started or formatted last. */
struct disk_io device_io(struct device *device);
uint64_t device_place(const struct device *device, uint64_t offset);    /* in the image */
/* A request in two halves, for tests in whose time others come between; a number for its end. */
uint32_t device_write_begin(struct device *device, uint64_t offset, const void *buffer,
                            size_t bytes);
void device_write_end(struct device *device, uint32_t issue);
uint32_t device_flush_begin(struct device *device);
void device_flush_end(struct device *device, uint32_t issue);
void device_record(struct device *device, bool on);             /* on: forgets earlier events */
void device_mark(struct device *device, uint64_t acked, uint64_t submitted);
void undo_begin(struct device *device);
void undo_save(struct device *device, uint64_t offset, size_t bytes);
void undo_to(struct device *device, uint32_t mark);             /* back to undo_count == mark */

/* Memory that can fail: allocation number memory_fail_at (from 1). memory_live counts. What it
 * hands out holds memory_fill everywhere. */
extern uint8_t memory_fill;
extern uint32_t memory_count, memory_fail_at, memory_fired;
extern int64_t memory_live;
extern const struct disk_memory test_memory;

/* A small generator: the same seed gives the same numbers everywhere. */
uint64_t random_next(uint64_t *state);
uint64_t random_below(uint64_t *state, uint64_t limit);

/* A difference in a transaction, as store_txn_diff_done; `data`: the bytes of the runs, one after
 * the other. */
struct diff_run { uint16_t offset, length; };
int txn_diff(struct store_group *group, uint64_t object, uint64_t page, store_lsn_t base_lsn,
             const struct diff_run *runs, uint32_t run_count, const void *data);

#endif
