/*
 * message.h - what `remote` (at a client) and `agent` (at the home) say to each other: frames of
 * frame.h, of the kinds below (remote.md).
 *
 * A page is named by its address, which is the same at all sites. A message that came is hostile
 * until message_take has said true; then every length fits, addresses are those of whole pages in
 * the store region, and rights are rights.
 */
#ifndef USER_SITES_MESSAGE_H
#define USER_SITES_MESSAGE_H

#include "frame.h"

enum site_kind {
    SITE_ASK = FRAME_KIND_OTHERS, /* client: a request of store_protocol.h; answered by TOLD */
    SITE_TOLD,
    SITE_GET,     /* client: page, right, whether its contents are wanted, the ticket of whose
                   * transaction asks, and of how many pages from there on at most, to read; by
                   * GRANT or DENIED */
    SITE_GRANT,   /* page, right, serial, contents or none; of the pages behind it that the home
                   * gives with it, to read: contents, and a serial each, the next one */
    SITE_DENIED,  /* page, error */
    SITE_CALL,    /* home: page, serial, the right that may stay */
    SITE_GONE,    /* client: page, serial, the right that stayed; with a number it is a GET, too: of
                   * the page as it will be, to read */
    SITE_COMMIT,  /* client: batch, runs; by DONE or REFUSED */
    SITE_DONE,
    SITE_REFUSED, /* error */
    SITE_PROBE,   /* home: page, serial: for which GETs do those wait that keep it? By PROBED */
    SITE_PROBED,
    SITE_CANCEL,  /* client: page, the GET's number: nobody wants it any more. By DENIED, if no
                   * GRANT crosses it */
    SITE_SNAP,    /* client: begin a snapshot, whose name is this message's number; right 1: and
                   * hold what others commit until STILL of it; by SNAPPED */
    SITE_SNAPPED, /* error, or 0: behind the DONE of all commits of the site that it sees */
    SITE_SNAP_END, /* client: that one (serial) is over */
    SITE_GET_OLD, /* client: page, as the snapshot (serial) sees it; by OLD */
    SITE_OLD,     /* page, error, or 0 and its contents */
    /* of a COMMIT whose batch begins with WIRE_VOTE (agent_parts.c) */
    SITE_VOTED,   /* home: error, or 0: it can be committed and undone, whatever happens */
    SITE_DECIDE,  /* client: word0, word1 its id, right 1: it is committed, 0: undone; by APPLIED */
    SITE_APPLIED, /* error, or 0: it is committed */
    SITE_STILL,   /* client: was nothing shown, or voted for, since the snapshot (serial) began?
                   * By STOOD */
    SITE_STOOD,   /* error, or 0: so it is */
    SITE_KINDS
};
/* Requests of ASK that are no store's: word1 enum wire_peer_request, data: struct wire_peer ->
 * word0; -> word0, word1 the name of the home's store for its peers. */
enum { SITE_PEER = 0x1200, SITE_NAME };
enum site_right { SITE_NO, SITE_SHARED, SITE_EXCLUSIVE };

#define SITE_PAGE_BYTES 4096u
#define SITE_WORDS 8u
#define SITE_SEGMENTS_MAX 12u
#define SITE_PROBED_MAX 16u
#define SITE_GRANT_MAX 16u               /* pages of a GRANT */

/* A part of a container's memory; container: its number at the home. */
struct site_segment { uint64_t container, base, pages; };

/* A GET that is waited for, by its number; ticket: of the oldest transaction that does. */
struct site_wait { uint64_t number, ticket; };

struct site_message {
    uint16_t kind;
    uint8_t right;                      /* GET, GRANT; CALL, GONE: what stays */
    uint8_t wants;                      /* GET: 1: contents, too */
    uint32_t request;                   /* ASK; COMMIT: kd_commit.flags */
    /* TOLD: 0 or -errno; DENIED, REFUSED: errno; SNAPPED, OLD: 0 or errno */
    int32_t error;
    uint32_t count;                     /* TOLD: segments; PROBED: numbers; GET, GRANT: pages */
    uint64_t number, answer_to;
    uint64_t page, serial;              /* GET: serial: the ticket, 0: none */
    const void *data;                   /* ASK, TOLD, GRANT: contents; COMMIT: the batch */
    size_t bytes;
    const void *runs;                   /* COMMIT */
    size_t runs_bytes;
    /* from here on only what the kind has is set by message_take */
    union {
        uint64_t word[SITE_WORDS];      /* ASK, TOLD */
        struct site_wait waits[SITE_PROBED_MAX]; /* PROBED */
    };
    struct site_segment segment[SITE_SEGMENTS_MAX]; /* TOLD: those that are to be opened now */
};

/* One of the short kinds, which have neither words nor what follows them: only what is before them
 * is cleared. */
#define SITE_SHORT(M, KIND) (memset(M, 0, offsetof(struct site_message, word)), (M)->kind = (KIND))

/* The frame's bytes; 0: it does not fit into so much room. */
size_t message_put(const struct site_message *m, void *frame, size_t room);
/* False: that is no message. Data and runs lie in the frame. */
bool message_take(struct site_message *m, const struct frame *f, const void *frame);

/* The GRANT of a GET whose contents are put behind it, a page after the other: message_grant,
 * put_room, frame_end with SITE_GRANT. */
struct fields_out message_grant(void *frame, size_t room, const struct site_message *get,
                                uint64_t serial);

/* ---- what a transaction changed: runs of bytes of one page each ---- */
struct site_run {
    uint64_t page, serial;
    uint16_t offset, bytes;
    const uint8_t *data;
};                                      /* a frame has the numbers in this order, the data behind */
#define SITE_RUN_HEAD 20u               /* bytes of a run beside its data */
void run_put(struct fields_out *o, const struct site_run *r);
/* False: there is none behind the last one. Of a message that message_take has taken. */
bool run_next(struct fields_in *i, struct site_run *r);
struct fields_in message_runs(const struct site_message *m);
/* A COMMIT whose runs are put one by one: message_commit, run_put ..., frame_end with SITE_COMMIT.
 */
struct fields_out message_commit(void *frame, size_t room, uint32_t flags, const void *batch,
                                 size_t bytes);

#endif
