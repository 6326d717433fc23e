/*
 * frame.h - what travels between two sites: frames, and how fields are put into them and taken out.
 *
 * A frame is a header of FRAME_HEADER bytes and its fields, at most FRAME_BYTES_MAX together; all
 * numbers are little-endian, without padding. Who sends fills in kind, number and answer_to and the
 * fields (frame_begin, put_..., frame_end); `link` fills in the rest on its way out, checks it on
 * its way in, and gives the frame on as it came. A frame is input: what it says is looked at with
 * the functions below alone, which never read or write outside of it.
 */
#ifndef USER_SITES_FRAME_H
#define USER_SITES_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FRAME_MAGIC 0x5344594bu         /* "KYDS" */
#define FRAME_HEADER 64u
#define FRAME_BYTES_MAX (1u << 20)      /* with the header: what one message of the kernel takes */

/* To whom in a site a frame goes. */
enum frame_to { FRAME_LINK, FRAME_HOME, FRAME_CLIENT, FRAME_COPY, FRAME_TOS };
/* Kinds of link's own. Those of agent and remote begin at FRAME_KIND_OTHERS. */
enum frame_kind { FRAME_HELLO = 1, FRAME_BEAT, FRAME_REFUSED, FRAME_KIND_OTHERS = 16 };

/* The header, in this order from byte 0 on; crc is of all bytes behind it. */
struct frame {
    uint32_t magic, bytes, crc;
    uint16_t kind;
    uint8_t to, zero;
    uint64_t session;                   /* the nonce that its receiver sent last */
    uint32_t sequence;                  /* in this session and direction: 1, 2, 3 ... */
    uint32_t held;                      /* microseconds from hearing `heard` to sending this */
    uint64_t time;                      /* the sender's clock, nanoseconds; to link: the frame's
                                         * place among those of its sender, or 0 (frame_place) */
    uint64_t heard;                     /* the receiver's time in the last frame that came of it */
    uint64_t number, answer_to;         /* of a request; of the request that this answers, or 0 */
};

/* frame_head reads the header at the begin of `bytes` bytes. False: there are too few, or no header
 * can look like that (magic, length, receiver, zero); the CRC is not looked at. */
bool frame_head(struct frame *f, const void *at, size_t bytes);
/* frame_whole: are there all bytes of the frame with this header, and does the CRC fit them? */
bool frame_whole(const struct frame *f, const void *at, size_t bytes);
/* frame_seal writes the header, with its magic and CRC, before the fields that lie there. */
void frame_seal(struct frame *f, void *at);

/* ---- fields ---- */

/* Where fields are put, and whether there was too little room for one of them (then for all behind
 * it as well, and `at` stays). */
struct fields_out { uint8_t *begin, *at, *end; bool full; };
/* Where fields are taken out; bad: one was not whole, it and all behind it are 0, or empty. */
struct fields_in { const uint8_t *at, *end; bool bad; };

/* frame_begin begins a frame in so much memory, behind its header. */
struct fields_out frame_begin(void *at, size_t room);
/* frame_end writes what `link` leaves as it is. The frame's bytes; 0: there was not enough room. */
size_t frame_end(struct fields_out *o, uint16_t kind, uint64_t number, uint64_t answer_to);
/* frame_place: link sends it behind those of its sender with earlier places, 1, 2, 3 ..., as soon
 * as it has them all, whichever comes first. */
void frame_place(void *frame, uint64_t place);
/* frame_fields: those of a whole frame. */
struct fields_in frame_fields(const struct frame *f, const void *at);

/* put_room: room for so many bytes that the caller writes himself; NULL: there is not enough.
 * put_u8 ... put_u64 put a number, its least byte first, as the machine has it. */
static inline uint8_t *put_room(struct fields_out *o, size_t bytes)
{
    o->full |= bytes > (size_t)(o->end - o->at); /* SF1 */
    if (o->full)
        return NULL;
    uint8_t *at = o->at;
    o->at += bytes;
    return at;
}

#define PUT(NAME, TYPE)                                                                            \
    static inline void NAME(struct fields_out *o, TYPE value)                                      \
    {                                                                                              \
        uint8_t *at = put_room(o, sizeof value);                                                   \
        if (at)                                                                                    \
            memcpy(at, &value, sizeof value);                                                      \
    }
PUT(put_u8, uint8_t)
PUT(put_u16, uint16_t)
PUT(put_u32, uint32_t)
PUT(put_u64, uint64_t)
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers lie as frames have them");

void put_bytes(struct fields_out *o, const void *from, size_t bytes);
void put_text(struct fields_out *o, const char *text);  /* its length as u16, its bytes */

/* take_bytes: where so many bytes lie in the frame; NULL: they do not. */
static inline const uint8_t *take_bytes(struct fields_in *i, size_t bytes)
{
    i->bad |= bytes > (size_t)(i->end - i->at); /* SF1 */
    if (i->bad)
        return NULL;
    const uint8_t *at = i->at;
    i->at += bytes;
    return at;
}

#define TAKE(NAME, TYPE)                                                                           \
    static inline TYPE NAME(struct fields_in *i)                                                   \
    {                                                                                              \
        TYPE value = 0;                                                                            \
        const uint8_t *at = take_bytes(i, sizeof value);                                           \
        if (at)                                                                                    \
            memcpy(&value, at, sizeof value);                                                      \
        return value;                                                                              \
    }
TAKE(take_u8, uint8_t)
TAKE(take_u16, uint16_t)
TAKE(take_u32, uint32_t)
TAKE(take_u64, uint64_t)

/* take_text copies a text with a NUL; one that does not fit, or has a NUL itself, is bad. */
void take_text(struct fields_in *i, char *to, size_t room);
/* take_end: true if nothing was bad and nothing is left. */
bool take_end(const struct fields_in *i);

#endif
