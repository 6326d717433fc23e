/*
 * chunks.h - the bytes of a database, of which each may be read and written, in objects of a
 * container: chunks of 1 MiB, the first one in five pieces, so that a small database is small.
 *
 * Chunks that were never written are not there, and read as zeros. All is done in a transaction of
 * the caller's, which a fault may end at any access.
 */
#ifndef SQLITE_CHUNKS_H
#define SQLITE_CHUNKS_H

#include <pstore.h>

enum {
    CHUNK = 1 << 20,                     /* bytes of the database in one object */
    FIRST_CHUNKS = 5,                    /* the first CHUNK, in objects of 64, 64, 128, ... KiB */
    TABLE = 256,
};

/* Kept. NULL: zeros, never written. */
struct chunk_table { char *chunk[TABLE]; };
struct chunks {
    uint64_t bytes;                      /* of the database */
    char *first[FIRST_CHUNKS];
    struct chunk_table *table[TABLE];
};

/* What was never written, or lies behind all that was, reads as zeros. */
void chunks_read(struct chunks *c, char *to, uint64_t count, uint64_t offset);
/* The database grows if need be. 0, or -errno: a part may have been written. */
int chunks_write(ps_container *box, struct chunks *c, const char *from, uint64_t count,
                 uint64_t offset);
/* Frees the chunks behind the first `bytes`; the rest of the last one becomes zeros, for the
 * database may grow again. It does not grow by this. 0 or -errno. */
int chunks_cut(struct chunks *c, uint64_t bytes);

#endif
