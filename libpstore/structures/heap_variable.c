/*
 * heap_variable.c - a variable heap: allocations of any size within one block of memory.
 *
 * Chunks follow each other from `low` to the end, and new ones come below the lowest. A chunk has a
 * header of two bytes: of an allocation how many bytes were asked for, of a hole its size, followed
 * by the offset of the next hole. The first hole that suits is taken, else the chunk comes below
 * all others (ps_variable_reserve does that in the caller). Neighbours that are free become one,
 * and a hole that is the lowest chunk is none any more. Nothing outside the block is touched, so
 * the heap works wherever it lies, also at another address.
 */
#include "heap.h"

#include <errno.h>
#include <string.h>

struct chunk {
    uint16_t header;            /* PS_VARIABLE_TAKEN and bytes; of a hole its size */
    uint16_t next;              /* of a hole: offset of the next hole, or 0 */
};

static struct chunk *chunk_at(const struct ps_variable *h, unsigned offset)
{
    return (struct chunk *)((uintptr_t)h + offset);
}

static int is_taken(const struct chunk *c) { return c->header & PS_VARIABLE_TAKEN; }

static unsigned chunk_size(const struct ps_variable *h, const struct chunk *c)
{
    return is_taken(c) ? ps_variable_chunk(h, c->header & ~PS_VARIABLE_TAKEN) : c->header;
}

struct ps_variable *ps_variable_make(void *memory, size_t bytes, unsigned align)
{
    struct ps_variable *h = memory;
    if (!memory || (align != 2 && align != 4 && align != 8) || (uintptr_t)memory % align ||
        bytes < PS_VARIABLE_MIN || bytes > PS_VARIABLE_MAX) {
        errno = EINVAL;
        return NULL;
    }
    const uint16_t end = (uint16_t)((bytes + 2) / align * align - 2);     /* bytes are aligned */
    *h = (struct ps_variable){.front = sizeof *h, .low = end, .end = end,
                              .mask = (uint16_t)(align - 1)};
    return h;
}

/* Takes a chunk out of the first hole that suits, all of it or so that the rest is a hole, or from
 * below all others: the offset of its bytes, or -ENOSPC. */
static int64_t chunk_take(struct ps_variable *h, size_t bytes, size_t front)
{
    const unsigned size = ps_variable_chunk(h, bytes), room = h->low - h->front;
    uint16_t *link = &h->free;
    struct chunk *c = NULL;
    if (room < front)
        return -ENOSPC;
    for (; *link; link = &c->next) {
        c = chunk_at(h, *link);
        if (c->header == size || c->header >= size + sizeof *c)
            break;
    }
    unsigned offset = *link;
    if (!offset && room < front + size)
        return -ENOSPC;
    if (!offset) {
        offset = h->low = (uint16_t)(h->low - size);
    } else {                            /* all of a hole, or its upper part */
        h->holes = (uint16_t)(h->holes - size);
        if (c->header == size)
            *link = c->next;
        else
            offset += c->header = (uint16_t)(c->header - size);
    }
    chunk_at(h, offset)->header = (uint16_t)(PS_VARIABLE_TAKEN | bytes);
    h->front = (uint16_t)(h->front + front);
    return offset + 2;
}

int64_t ps_variable_search(struct ps_variable *h, size_t bytes, size_t front,
                           const struct ps_expansion *e)
{
    int64_t offset = chunk_take(h, bytes, front);
    if (offset != -ENOSPC || !e)
        return offset;
    int error = e->expand(e->arg, bytes);
    return error ? error : chunk_take(h, bytes, front);
}

int64_t ps_variable_take(struct ps_variable *h, size_t bytes, const struct ps_expansion *expansion)
{
    if (bytes == 0 || bytes > PS_VARIABLE_MAX ||
        ps_variable_chunk(h, bytes) > (unsigned)(h->end - h->front))
        return bytes ? -EMSGSIZE : -EINVAL;
    int64_t offset = ps_variable_reserve(h, bytes, 0, expansion);
    if (offset > 0)
        memset(ps_variable_here(h, (uint64_t)offset), 0, bytes);
    return offset;
}

/* The chunk of an allocation, or NULL. */
static struct chunk *taken_at(const struct ps_variable *h, uint64_t offset)
{
    if ((offset & h->mask) || offset < h->low + 2u || offset >= h->end)
        return NULL;
    struct chunk *c = chunk_at(h, (unsigned)offset - 2);
    return is_taken(c) && chunk_size(h, c) <= h->end - (offset - 2) ? c : NULL;
}

/* The hole at this offset takes in the next one, if that lies behind it. */
static void hole_join(const struct ps_variable *h, unsigned offset)
{
    struct chunk *c = chunk_at(h, offset);
    if (c->next != offset + c->header)
        return;
    const struct chunk *behind = chunk_at(h, c->next);
    c->header = (uint16_t)(c->header + behind->header);
    c->next = behind->next;
}

int ps_variable_give(struct ps_variable *h, uint64_t offset)
{
    struct chunk *c = taken_at(h, offset);
    unsigned own = (unsigned)offset - 2;
    uint16_t *link = &h->free, *before = NULL;  /* what leads to the hole behind, and before */
    if (!c)
        return -ENOENT;
    while (*link && *link < own) {
        before = link;
        link = &chunk_at(h, *link)->next;
    }
    *c = (struct chunk){(uint16_t)chunk_size(h, c), *link};
    h->holes = (uint16_t)(h->holes + c->header);
    *link = (uint16_t)own;
    hole_join(h, own);
    if (before)
        hole_join(h, *before);
    if (h->free == h->low) {            /* the lowest chunk */
        const struct chunk *lowest = chunk_at(h, h->low);
        h->low = (uint16_t)(h->low + lowest->header);
        h->holes = (uint16_t)(h->holes - lowest->header);
        h->free = lowest->next;
    }
    return 0;
}

void *ps_variable_at(const struct ps_variable *h, uint64_t offset)
{
    if (taken_at(h, offset))
        return ps_variable_here(h, offset);
    errno = ENOENT;
    return NULL;
}

size_t ps_variable_bytes(const struct ps_variable *h, uint64_t offset)
{
    return taken_at(h, offset) ? ps_variable_length(h, offset) : 0;
}

uint64_t ps_variable_next(const struct ps_variable *h, uint64_t offset)
{
    unsigned at = h->low;
    if (offset)
        at = (unsigned)offset - 2 + chunk_size(h, chunk_at(h, (unsigned)offset - 2));
    while (at < h->end && !is_taken(chunk_at(h, at)) && chunk_at(h, at)->header)
        at += chunk_at(h, at)->header;
    return at < h->end && is_taken(chunk_at(h, at)) ? at + 2 : 0;
}

int ps_variable_check(const struct ps_variable *h, const char **why)
{
    unsigned holes = 0, hole = h->free, at = h->low, size = 0;
    const char *what = h->front > h->low ? "allocations reach into what is the owner's" : NULL;
    int hole_before = 1;                /* nor is the lowest chunk one */
    for (; !what && at < h->end; at += size) {
        const struct chunk *c = chunk_at(h, at);
        size = chunk_size(h, c);
        if (size < sizeof *c || (size & h->mask) || size > h->end - at)
            what = "a chunk has a wrong size";
        else if (!is_taken(c) && (hole != at || hole_before))
            what = "the holes are not in order, lie side by side, or below all others";
        hole_before = !is_taken(c);
        if (hole_before) {
            holes += size;
            hole = c->next;
        }
    }
    if (!what && (holes != h->holes || hole))
        what = "the head does not count its holes right";
    if (why)
        *why = what;
    return what ? -EUCLEAN : 0;
}
