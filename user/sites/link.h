/*
 * link.h - what `link` and its clients, `remote` and `agent`, say to each other.
 *
 * link owns the streams, the queues of frames and the sessions. A client has a *handle of a
 * session*, a badge of link's port (kernel/message/badge.c): by it, it sends and receives whole
 * frames (frame.h) of this session, in order. All are calls of the client's; link calls nobody.
 *
 *   remote  started by link, once; has a handle of link itself at LINK_HANDLE. It opens a session
 *           with each home by its name. Frames that it sends go to the home's agent.
 *   agent   started by link for each session in which a frame to it came, when the agent of the one
 *           before has ended; has the handle of the session at LINK_HANDLE, and the client's name
 *           as argv[1]. What it sends goes to the client's `remote`.
 *
 * At KD_SYSTEM_HANDLE remote has the system's, with KD_RIGHT_NAMES; agent has no such right.
 *
 * One thread receives, or two: link_receive gives one frame after the other, and waits. Any thread
 * sends; link_send waits while 256 KiB of its role wait here for the other side, which takes
 * LINK_WINDOW bytes that its client has not received.
 *
 * The end of a session (the stream broke; silence, or nothing answered, for a lease; a frame that
 * cannot be; the end of link or of either client; either site is home in the place of another one
 * now, or no more; that one came, or a later home of its store: link_agent.c):
 *
 *   remote  link_receive and link_send say -ECONNRESET from then on, and what had come and was not
 *           received is gone. It revokes the home's objects, and *then* link_close()s the handle or
 *           opens the site anew: only then link says HELLO again. Other sites go on meanwhile.
 *   agent   link_send says -ECONNRESET, link_receive waits: the session is DYING. When that is
 *           over, link_receive says -EIDRM, and the agent ends: at once, or it is killed.
 *
 * If a client ends, its session ends, and both sites begin another one. If link ends, all handles
 * say -EOWNERDEAD for good: remote revokes all and ends, agents end; init starts link again.
 */
#ifndef USER_SITES_LINK_H
#define USER_SITES_LINK_H

#include <stdint.h>

#include "frame.h"

#define LINK_NAME "link"                /* of its port: for LINK_LOOK */
#define LINK_SITE_BYTES 32u             /* a site's name with its NUL: a-z A-Z 0-9 . - _ */
#define LINK_SITES_MAX 15u              /* streams of a machine */
#define LINK_STORES_MAX 4u
#define LINK_STORE_BYTES 16u
#define LINK_WINDOW (2u << 20)          /* bytes that wait to be received, at most; per role */
enum { LINK_HANDLE = 1 };               /* of the programs that link starts */

enum link_request {
    LINK_OPEN = 1,  /* by the handle of link; data: the home's name, a NUL. Waits until its session
                     * is LIVE -> with the session's handle; data: struct link_session. -EBUSY: it
                     * is open; -ECONNREFUSED: one of the sites refuses it (`sites` says why);
                     * -EINVAL: no name; -EAGAIN: too many wait; -EPERM: by no such handle.
                     * (A caller who will not wait for ever: KD_PORT_CALL_UNTIL) */
    LINK_SESSION,   /* by a session's -> data: struct link_session */
    LINK_SEND,      /* by a session's; data: a frame as frame_end leaves it, kind at least
                     * FRAME_KIND_OTHERS; word0: 1: one or more, and none is waited for room.
                     * -ECONNRESET; -EINVAL: no such frame; -EAGAIN: 8 MiB wait already */
    LINK_RECEIVE,   /* by a session's; word0: room; word1: 0; or milliseconds, some more or less: of
                     * an agent any number, and it waits without end; data: nothing, or frames to be
                     * sent before, as with word0 1 -> data: one frame or more, whole ones, in
                     * order, in so much room; word1: the how manieth answer that is, for two may
                     * receive: one with word1 0 and one with a time, which comes first, and hears
                     * -ETIMEDOUT then. -ECONNRESET; -EMSGSIZE: the next one, word0, needs more;
                     * -EBUSY: such a one receives already; errors of LINK_SEND */
    LINK_CLOSE,     /* by a session's: this client is done with it; a LIVE one ends thereby */
    LINK_COPY,      /* a copy of a store, which has the port COPY_PORT, or its witness; data: a
                     * site's name, a NUL. As LINK_OPEN, but frames go to the copy, or witness, of
                     * that site, and when the session ends nothing waits for this client */
    LINK_HOME,      /* from that copy: word0 its term, word1 its zone, data: the name of the site
                     * in whose place it is home; word0 0: it is not. All sessions begin anew. It
                     * ends with its process. -EPERM; -EINVAL */
    LINK_LOOK,      /* by any; word0 from which site on -> word0 how many there are; word1: ticks of
                     * the time stamp counter that calls of others took; data: struct link_site[]
                     */
};

/* A store of a site. Its addresses are the zone's (wire_zone_base). */
struct link_store { char name[LINK_STORE_BYTES]; uint32_t zone, reserved; uint64_t term; };

struct link_session {
    char own[LINK_SITE_BYTES], site[LINK_SITE_BYTES];   /* site: the other one */
    uint64_t own_boot, boot;            /* numbers of the starts of the two machines: for ids */
    uint64_t number;                    /* of the session, the same at both sites */
    uint64_t lease_ns;                  /* L, the smaller of the two sites' */
    uint32_t store_count, reserved;
    struct link_store stores[LINK_STORES_MAX];          /* of the other site */
};

enum link_state { LINK_AWAY, LINK_GREETING, LINK_LIVE, LINK_LOST, LINK_REFUSED };
enum { LINK_WHY_BYTES = 160 };
struct link_site {
    char site[LINK_SITE_BYTES];         /* "": it has not said */
    char as[LINK_SITE_BYTES];           /* the site in whose place it is home; "": its own */
    char stream[LINK_SITE_BYTES];       /* of the machine */
    uint32_t state, store_count;
    uint32_t sessions, dying;           /* so far; 1: an agent of the last one stands still */
    uint64_t round_trip_ns;             /* of the last frame; 0: none */
    uint64_t their_ns, heard_ns;        /* its clock as that left, and ours as it came; 0: none */
    uint64_t frames_in, frames_out, bytes_in, bytes_out;
    uint64_t waits_in, waits_out;       /* bytes that wait at the moment */
    int32_t agent, remote;              /* pids, or 0 */
    struct link_store stores[LINK_STORES_MAX];
    char why[LINK_WHY_BYTES];           /* the last session ended, or was refused */
};

/* ---- link_client.c ---- */

/* Opens a session with a home, waits until it is LIVE. The handle; -errno. */
int link_open(const char *site, struct link_session *s);
int link_open_by(int link, const char *site, struct link_session *s); /* by a handle of link */
/* The same for a copy of a store, or a witness (LINK_COPY). */
int link_copy(int link, const char *site, struct link_session *s);
/* The session of a handle, LINK_HANDLE in an agent. 0 or -errno. */
int link_session(int handle, struct link_session *s);
int link_close(int handle);
/* Sends `bytes` bytes that frame_end left at `at`. 0 or -errno. Any thread. */
int link_send(int handle, const void *at, size_t bytes);
/* The same by one who cannot wait, as he has a lock: -EAGAIN: so much waits that the other site
 * takes nothing. */
int link_post(int handle, const void *at, size_t bytes);

/* What is received: one to a receiving thread. memory is of FRAME_BYTES_MAX bytes, aligned to 8.
 * sends: frames that are sent when link is asked for the next ones, so by no call of their own;
 * wait_ms, batch: word1 of LINK_RECEIVE, and of the last answer. */
struct link_inbox {
    uint8_t *memory;
    size_t at, bytes;
    const void *sends;
    size_t sends_bytes;
    uint64_t wait_ms, batch;
};
/* The next frame, whole and checked; its bytes lie at *at until the next call. 0; -errno: the
 * session has ended (-ECONNRESET at remote). */
int link_receive(int handle, struct link_inbox *inbox, struct frame *f, const uint8_t **at);

#endif
