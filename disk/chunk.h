/*
 * chunk.h - the sweep of a checkpoint by chunks (chunk.c). internal.h includes it.
 */
#ifndef KATYDID_DISK_CHUNK_H
#define KATYDID_DISK_CHUNK_H

#include <stdbool.h>
#include <stdint.h>

/* A sweep gives one chunk after the other its redo point (chunk.c). */
struct sweep {
    bool     on, done;          /* done: every extent had its turn */
    uint64_t lsn, scan_lsn;     /* the log that is needed then begins here; of chains and holds */
    uint32_t crc, scan_crc;
    uint64_t cursor;            /* extents below it had their turn */
    uint64_t newest;            /* redo point of any chunk */
    uint64_t old;               /* dirty pages that are older than their chunk's redo point */
};

#endif
