/*
 * frame.c - frames between sites: header, CRC, fields. Pure: no calls, no memory of its own.
 *
 * Invariants
 *   SF1  A field that is not whole sets `bad`, or `full`, for good: who looks once at the end has
 *        seen all. Nothing outside of [at, end) is touched.
 */
#include "frame.h"

#include <string.h>

#include "disk/crc32c.h"

enum { CRC_BEGINS = 12 };               /* behind magic, bytes and crc */

/* ---- fields ---- */

void put_bytes(struct fields_out *o, const void *from, size_t bytes)
{
    uint8_t *at = put_room(o, bytes);
    if (at && bytes)
        memcpy(at, from, bytes);
}

void put_text(struct fields_out *o, const char *text)
{
    size_t bytes = strlen(text);
    o->full |= bytes > UINT16_MAX;
    put_u16(o, (uint16_t)bytes);
    put_bytes(o, text, bytes);
}

void take_text(struct fields_in *i, char *to, size_t room)
{
    size_t bytes = take_u16(i);
    const uint8_t *at = take_bytes(i, bytes);
    i->bad |= !at || bytes >= room || memchr(at, 0, bytes);
    if (i->bad)
        bytes = 0;
    if (bytes)
        memcpy(to, at, bytes);
    to[bytes] = 0;
}

bool take_end(const struct fields_in *i) { return !i->bad && i->at == i->end; }

/* ---- headers ---- */

/* A header lies in memory as in a frame: fields follow each other without gaps, each aligned. */
_Static_assert(sizeof(struct frame) == FRAME_HEADER, "no gaps");
_Static_assert(offsetof(struct frame, kind) == CRC_BEGINS, "the CRC is of all behind itself");

bool frame_head(struct frame *f, const void *at, size_t bytes)
{
    if (bytes < FRAME_HEADER) {
        *f = (struct frame){0};
        return false;
    }
    memcpy(f, at, sizeof *f);
    return f->magic == FRAME_MAGIC && f->bytes >= FRAME_HEADER && f->bytes <= FRAME_BYTES_MAX &&
           f->to < FRAME_TOS && f->zero == 0;
}

bool frame_whole(const struct frame *f, const void *at, size_t bytes)
{
    return bytes >= f->bytes && f->bytes >= FRAME_HEADER &&
           crc32c(0, (const uint8_t *)at + CRC_BEGINS, f->bytes - CRC_BEGINS) == f->crc;
}

void frame_seal(struct frame *f, void *at)
{
    f->magic = FRAME_MAGIC;
    memcpy(at, f, sizeof *f);
    f->crc = crc32c(0, (const uint8_t *)at + CRC_BEGINS, f->bytes - CRC_BEGINS);
    memcpy(at, f, sizeof *f);
}

struct fields_out frame_begin(void *at, size_t room)
{
    uint8_t *bytes = at;
    room = room < FRAME_BYTES_MAX ? room : FRAME_BYTES_MAX;
    struct fields_out o = {bytes, bytes, bytes + room, false};
    put_room(&o, FRAME_HEADER);
    return o;
}

size_t frame_end(struct fields_out *o, uint16_t kind, uint64_t number, uint64_t answer_to)
{
    struct frame f = {.magic = FRAME_MAGIC, .bytes = (uint32_t)(o->at - o->begin), .kind = kind,
                      .number = number, .answer_to = answer_to};
    if (o->full)
        return 0;
    memcpy(o->begin, &f, sizeof f);
    return f.bytes;
}

void frame_place(void *frame, uint64_t place)
{
    memcpy((uint8_t *)frame + offsetof(struct frame, time), &place, sizeof place);
}

struct fields_in frame_fields(const struct frame *f, const void *at)
{
    const uint8_t *bytes = at;
    return (struct fields_in){bytes + FRAME_HEADER, bytes + f->bytes, false};
}
