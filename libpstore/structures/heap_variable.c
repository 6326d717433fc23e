/*
 * heap_variable.c - a variable heap: allocations of any size within one block of memory.
 *
 * All of the block is chunks, one behind the other, each with a header of 8 bytes: its size, and of
 * a hole the offset of the next one. The first hole that is large enough is taken; neighbours that
 * are free become one. Nothing outside the block is touched, so the heap works wherever it lies,
 * also at another address.
 */
#include "heap.h"

#include <errno.h>
#include <string.h>

struct chunk {
    uint32_t bytes;             /* with this header; a multiple of 8 */
    uint32_t next;              /* of a hole: offset of the next hole, or 0; else TAKEN */
};
enum { LEAST = 16 };            /* a hole that would be smaller stays with the allocation */
#define TAKEN 0x7a4b11edu

static struct chunk *chunk_at(const struct ps_variable *h, uint64_t offset)
{
    return (struct chunk *)((uintptr_t)h + offset);
}

struct ps_variable *ps_variable_make(void *memory, size_t bytes)
{
    struct ps_variable *h = memory;
    if (!memory || (uintptr_t)memory % 8 || bytes < PS_VARIABLE_MIN || bytes > PS_VARIABLE_MAX) {
        errno = EINVAL;
        return NULL;
    }
    *h = (struct ps_variable){.bytes = (uint32_t)(bytes & ~(size_t)7), .free = sizeof *h};
    *chunk_at(h, sizeof *h) = (struct chunk){.bytes = h->bytes - (uint32_t)sizeof *h};
    return h;
}

/* Takes a chunk out of the first hole that has it: its offset, or -ENOSPC. */
static int64_t chunk_take(struct ps_variable *h, uint32_t bytes)
{
    uint32_t *link = &h->free;
    while (*link && chunk_at(h, *link)->bytes < bytes)
        link = &chunk_at(h, *link)->next;
    uint32_t offset = *link;
    if (!offset)
        return -ENOSPC;
    struct chunk *c = chunk_at(h, offset);
    if (c->bytes - bytes >= LEAST) {
        *chunk_at(h, offset + bytes) = (struct chunk){c->bytes - bytes, c->next};
        *link = offset + bytes;
        c->bytes = bytes;
    } else {
        *link = c->next;
    }
    c->next = TAKEN;
    h->used += c->bytes;
    h->count++;
    memset(c + 1, 0, c->bytes - sizeof *c);
    return (int64_t)(offset + sizeof *c);
}

int64_t ps_variable_take(struct ps_variable *h, size_t bytes, const struct ps_expansion *expansion)
{
    uint32_t most = h->bytes - (uint32_t)(sizeof *h + sizeof(struct chunk));
    if (bytes == 0 || bytes > most)
        return bytes ? -EMSGSIZE : -EINVAL;
    uint32_t wanted = ((uint32_t)bytes + 7) / 8 * 8 + (uint32_t)sizeof(struct chunk);
    if (wanted < LEAST)
        wanted = LEAST;
    int64_t offset = chunk_take(h, wanted);
    if (offset != -ENOSPC || !expansion)
        return offset;
    int error = expansion->expand(expansion->arg, bytes);
    return error ? error : chunk_take(h, wanted);
}

/* The chunk of an allocation, or NULL. */
static struct chunk *taken_at(const struct ps_variable *h, uint64_t offset)
{
    if (offset % 8 || offset < sizeof *h + sizeof(struct chunk) || offset >= h->bytes)
        return NULL;
    struct chunk *c = chunk_at(h, offset - sizeof *c);
    return c->next == TAKEN && c->bytes <= h->bytes - (offset - sizeof *c) ? c : NULL;
}

/* The hole at this offset takes in the next one, if that lies behind it. */
static void hole_join(const struct ps_variable *h, uint32_t offset)
{
    struct chunk *c = chunk_at(h, offset);
    if (c->next != offset + c->bytes)
        return;
    const struct chunk *behind = chunk_at(h, c->next);
    c->bytes += behind->bytes;
    c->next = behind->next;
}

int ps_variable_give(struct ps_variable *h, uint64_t offset)
{
    struct chunk *c = taken_at(h, offset);
    uint32_t own = (uint32_t)(offset - sizeof *c), before = 0, *link = &h->free;
    if (!c)
        return -ENOENT;
    while (*link && *link < own) {
        before = *link;
        link = &chunk_at(h, *link)->next;
    }
    c->next = *link;
    *link = own;
    h->used -= c->bytes;
    h->count--;
    hole_join(h, own);
    if (before)
        hole_join(h, before);
    return 0;
}

void *ps_variable_at(const struct ps_variable *h, uint64_t offset)
{
    struct chunk *c = taken_at(h, offset);
    if (!c)
        errno = ENOENT;
    return c ? c + 1 : NULL;
}

size_t ps_variable_bytes(const struct ps_variable *h, uint64_t offset)
{
    const struct chunk *c = taken_at(h, offset);
    return c ? c->bytes - sizeof *c : 0;
}

uint64_t ps_variable_next(const struct ps_variable *h, uint64_t offset)
{
    uint64_t at = sizeof *h;
    if (offset)
        at = offset - sizeof(struct chunk) + chunk_at(h, offset - sizeof(struct chunk))->bytes;
    while (at < h->bytes && chunk_at(h, at)->next != TAKEN && chunk_at(h, at)->bytes)
        at += chunk_at(h, at)->bytes;
    return at < h->bytes && chunk_at(h, at)->bytes ? at + sizeof(struct chunk) : 0;
}

int ps_variable_check(const struct ps_variable *h, const char **why)
{
    uint32_t used = 0, count = 0, hole = h->free, at = sizeof *h;
    const char *what = NULL;
    int hole_before = 0;
    for (; !what && at < h->bytes; at += chunk_at(h, at)->bytes) {
        const struct chunk *c = chunk_at(h, at);
        int taken = c->next == TAKEN;
        if (c->bytes < LEAST || c->bytes % 8 || c->bytes > h->bytes - at)
            what = "a chunk has a wrong size";
        else if (!taken && (hole != at || hole_before))
            what = "the holes are not in order, or lie side by side";
        used += taken ? c->bytes : 0;
        count += (uint32_t)taken;
        hole = taken ? hole : c->next;
        hole_before = !taken;
        if (what)
            break;
    }
    if (!what && (used != h->used || count != h->count || hole))
        what = "the head does not count right";
    if (why)
        *why = what;
    return what ? -EUCLEAN : 0;
}
