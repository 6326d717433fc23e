/*
 * link_peer.h - another site, and the session with it: bytes in, bytes out, time in (link_peer.c).
 * Nothing here calls the kernel, so a test on the host can run two of them against each other.
 */
#ifndef USER_SITES_LINK_PEER_H
#define USER_SITES_LINK_PEER_H

#include "link.h"

#define LINK_THEY_SAY "the other site says: "   /* before the reason of a refusal by it */

#define LINK_PROTOCOL 4u
#define LEASE_NS_MIN 1000000ull
#define LEASE_NS_MAX 60000000000ull
#define TIME_NEVER UINT64_MAX
enum { OWN_BYTES = 512 };              /* the largest frame of link's own */
/* Flags of HELLO: this site is a home; it is to get a store, and claims a zone for it; its first
 * store is one of two copies, and named only while it is the home of the two (spare.md). */
enum { HELLO_HAS_AGENT = 1, HELLO_CLAIMS = 2, HELLO_PAIR = 4 };

/* What a site says of itself. */
struct hello {
    uint32_t protocol, flags, store_count;
    char site[LINK_SITE_BYTES];
    uint64_t boot, nonce, lease_ns;
    uint32_t zones, claim;              /* zones_of those of all stores heard of; of HELLO_CLAIMS */
    struct link_store stores[LINK_STORES_MAX];
    char as[LINK_SITE_BYTES];           /* the site in whose place it is home; "": its own */
    uint64_t proof;                     /* that it has the key; 0 without one (link_key.c) */
};

/* This site, as all its peers say it. */
struct self { struct hello hello; bool has_key; uint64_t key[2]; };

/* link_hello.c: the fields of HELLO; the proof is for the session of this nonce. hello_take: NULL,
 * or what is wrong with it. */
size_t hello_put(const struct self *self, uint64_t nonce, uint64_t echo, uint8_t *at);
const char *hello_take(struct hello *h, const struct self *self, const struct frame *f,
                       const uint8_t *at);
bool site_name_good(const char *name);
/* link_hello.c: does a program that wants the home of this name want this site? */
bool hello_stands_for(const struct hello *h, const char *name);
/* link_zone.c: the small zones that a zone is, a bit for each; a free one for this site, 0: there
 * is none; all that HELLO names. zone_heard: these HELLOs came last, one of them just now. True:
 * `self` claims another zone now, and is to say so to all. zone_settled: does this site not stand
 * against what we claim? One that is not there does until away_ms are over. */
struct peer;
uint32_t zones_of(uint32_t zone);
uint32_t zone_choose(const char *site, uint32_t taken);
uint32_t zones_heard(const struct hello *h);
bool zone_heard(struct self *self, const struct hello *const heard[], unsigned count);
bool zone_settled(const struct peer *p, const struct hello *own, uint64_t waited_ms,
                  uint64_t away_ms);
/* link_key.c: 128 bits of a text; a check value of bytes (SipHash-2-4). */
void key_make(uint64_t key[2], const char *text);
uint64_t key_check(const uint64_t key[2], const void *bytes, size_t count);

/* A frame that waits; `token`: whoever sent it waits for the answer, or 0. place: SO3. */
struct waiting { struct waiting *next; uint64_t token, place; uint32_t bytes; uint8_t frame[]; };
struct queue { struct waiting *first, **last; uint64_t bytes; };

/* Frames to one receiver, by its enum frame_to: those that came for ours, those of ours to theirs.
 * The counts are of bytes in this session; sent - their_freed and came - freed are at most
 * LINK_WINDOW (SO1). places: of the frames that have begun to go out (SO3). */
struct lane {
    struct queue in, out;
    uint64_t came, freed, told, sent, their_freed;
    uint64_t places, given;             /* given: places of frames that brought none */
};

struct peer;
struct peer_ops {
    uint64_t (*nonce)(void);
    /* NULL, or why there can be no session with it */
    const char *(*accept)(struct peer *p, const struct hello *h);
    void (*live)(struct peer *p);
    void (*ended)(struct peer *p);      /* p->why; what waited is gone */
    bool (*wanted)(struct peer *p, unsigned to); /* may the other site send to it? */
    void (*arrived)(struct peer *p, unsigned to);
    void (*answer)(uint64_t token, int error);   /* of a sender */
};

/* What is being read: a header, then the frame; before a session, HELLOs are looked for. */
struct reader { uint8_t head[OWN_BYTES]; uint32_t have; struct waiting *body; };
/* What is being written: a frame of link's own, or the first of a lane. */
struct writer { const uint8_t *at; uint32_t left; struct waiting *body; uint8_t own[OWN_BYTES]; };

struct peer {
    const struct self *self;
    const struct peer_ops *ops;
    uint32_t state;                     /* enum link_state */
    bool connected, hold;               /* hold: set by the owner; no HELLO is said */
    bool hello_due, refuse_due;
    uint64_t nonce, theirs, told;       /* ours, theirs as heard, the one that our HELLO named */
    /* HELLO with this nonce was said at `first` first, last at greeted; no more is before then */
    uint64_t first, greeted, quiet_until;
    uint64_t lease, began, dying_until; /* dying_until: of what the last session granted */
    uint32_t in_sequence, out_sequence, violations, turn, sessions;
    /* heard: our time in what they heard last; their_time: theirs, heard at their_at */
    uint64_t heard, their_time, their_at, last_in, last_out, round_trip;
    struct lane lanes[FRAME_TOS];
    struct reader reader;
    struct writer writer;
    struct hello hello;                 /* of the other one */
    uint64_t frames_in, frames_out, bytes_in, bytes_out;
    char why[LINK_WHY_BYTES];
};

void peer_begin(struct peer *p, const struct self *self, const struct peer_ops *ops);
/* Of a peer that has just begun: nothing is said or heard before `when`, since programs here may
 * use until then what the other site granted to a link that is no more. */
void peer_later(struct peer *p, uint64_t when);
/* Somebody is at the other end of the stream; nobody is, or not the same as before. */
void peer_connected(struct peer *p, uint64_t now);
void peer_away(struct peer *p, const char *why, uint64_t now);
/* Is what comes to be read now? What came; what is to be written; so much of it was. */
bool peer_reads(const struct peer *p, uint64_t now);
void peer_input(struct peer *p, const uint8_t *at, size_t bytes, uint64_t now);
size_t peer_output(struct peer *p, const uint8_t **at, uint64_t now);
void peer_written(struct peer *p, size_t bytes, uint64_t now);
/* Looks what time has brought; when to do that again at the latest. */
void peer_tick(struct peer *p, uint64_t now);
uint64_t peer_deadline(const struct peer *p);
/* Ends the session, if there is one. peer_anew: what our HELLO says has changed, and whoever has
 * heard it, or is about to, hears it anew (SI7). */
void peer_end(struct peer *p, const char *why, uint64_t now);
void peer_anew(struct peer *p, const char *why, uint64_t now);
/* The owner holds no more. */
void peer_release(struct peer *p);
/* A frame for the other site; it is the peer's from now on. 0: done; 1: `token` is answered later;
 * -errno, and the frame is gone. */
int peer_send(struct peer *p, unsigned to, struct waiting *w, uint64_t token);
/* The frame that came first for `to`, or NULL; it has been received: it is gone. */
const struct waiting *peer_first(const struct peer *p, unsigned to);
void peer_received(struct peer *p, unsigned to);

/* ---- of link_peer.c, link_in.c and link_out.c, for each other ---- */

void peer_over(struct peer *p, const char *why, uint64_t now); /* its fault: see peer_quiet */
void peer_refused(struct peer *p, const char *why, uint64_t now);
void peer_hello(struct peer *p, const struct frame *f, const uint8_t *at, uint64_t now);
void reader_begin(struct reader *r);    /* and gives its memory back */
void writer_begin(struct peer *p);      /* the same; who waits for that frame hears -ECONNRESET */
uint64_t beat_due(const struct peer *p);    /* when a BEAT is to be sent */

/* link_queue.c */
struct waiting *waiting_new(uint32_t bytes);  /* not zeroed; NULL: no memory */
void waiting_free(struct waiting *w);   /* or NULL */
void queue_begin(struct queue *q);
void queue_add(struct queue *q, struct waiting *w);     /* behind all but those of later places */
struct waiting *queue_take(struct queue *q);    /* the first; NULL */

#endif
