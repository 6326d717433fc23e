/* chunks.c - the bytes of a database in objects of a container. */
#include "chunks.h"

#include <errno.h>
#include <string.h>

enum {
    FIRST_CHUNK = CHUNK >> (FIRST_CHUNKS - 1),
};

/* The place of the chunk's address that has this byte, or NULL: no table; or errno, if it was to be
 * made, in this container. *at: the byte in the chunk, *bytes: how large the chunk is. */
static char **chunk_place(ps_container *make, struct chunks *c, uint64_t offset, uint64_t *at,
                          uint64_t *bytes)
{
    if (offset < CHUNK) {
        unsigned i = 0;
        for (*at = offset, *bytes = FIRST_CHUNK; offset >= 2ull * FIRST_CHUNK << i; i++)
            ;
        i += offset >= FIRST_CHUNK;
        if (i > 0) {
            *bytes = (uint64_t)FIRST_CHUNK << (i - 1);
            *at = offset - *bytes;
        }
        return &c->first[i];
    }
    uint64_t index = offset / CHUNK;
    *at = offset % CHUNK;
    *bytes = CHUNK;
    if (index / TABLE >= TABLE)
        return errno = ENOSPC, NULL;
    struct chunk_table **table = &c->table[index / TABLE];
    if (!*table && make)
        *table = ps_new(make, struct chunk_table, c);
    return *table ? &(*table)->chunk[index % TABLE] : NULL;
}

void chunks_read(struct chunks *c, char *to, uint64_t count, uint64_t offset)
{
    while (count > 0) {
        uint64_t at = 0, room = CHUNK;
        char **chunk = chunk_place(NULL, c, offset, &at, &room);
        uint64_t part = count < room - at ? count : room - at;
        if (chunk && *chunk)
            memcpy(to, *chunk + at, part);
        else
            memset(to, 0, part);
        to += part;
        offset += part;
        count -= part;
    }
}

int chunks_write(ps_container *box, struct chunks *c, const char *from, uint64_t count,
                 uint64_t offset)
{
    uint64_t end = offset + count;
    while (count > 0) {
        uint64_t at, room;
        char **chunk = chunk_place(box, c, offset, &at, &room);
        if (chunk && !*chunk)
            *chunk = ps_alloc(box, room, NULL);
        if (!chunk || !*chunk)
            return -errno;
        uint64_t part = count < room - at ? count : room - at;
        memcpy(*chunk + at, from, part);
        from += part;
        offset += part;
        count -= part;
    }
    if (c->bytes < end)
        c->bytes = end;
    return 0;
}

int chunks_cut(struct chunks *c, uint64_t bytes)
{
    int error = 0;
    for (uint64_t offset = bytes; offset < c->bytes && error == 0;) {
        uint64_t at = 0, room = CHUNK;
        char **chunk = chunk_place(NULL, c, offset, &at, &room);
        if (chunk && *chunk && at > 0)
            memset(*chunk + at, 0, room - at);
        else if (chunk && *chunk && (error = ps_free(*chunk)) == 0)
            *chunk = NULL;
        offset += room - at;
    }
    if (error == 0 && c->bytes != bytes)
        c->bytes = bytes;
    return error;
}
