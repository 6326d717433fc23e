/*
 * remote.h - the parts of `remote`, the manager of another site's containers (remote.md).
 *
 * Nothing here waits for the home, but for a thread that leads snapshots (remote_several.c): what
 * it is asked goes into a frame, and what it answers finds who asked. One lock guards all state; a
 * call of the kernel may be made with it.
 */
#ifndef USER_SITES_REMOTE_H
#define USER_SITES_REMOTE_H

#include <stdbool.h>
#include <stdint.h>

#include "katydid/abi.h"
#include "message.h"
#include "pages.h"
#include "store_protocol.h"

/* To "SITE/store" beside store_protocol.h: -> words: how many of each were sent or came, in the
 * session: GET, GRANT, CALL, GONE, COMMIT or DECIDE, their answers, ASK, DENIED. */
enum { REMOTE_COUNTS = 0x1000,
       REMOTE_LOOK,     /* -> words: pages cached here, of them writable, pages waited for at the
                         * moment; in the session asked for, called back, given back, denied,
                         * commits */
       REMOTE_SNAPSHOTS, /* -> words: SNAP, SNAP_END, GET_OLD, OLD in the session; snapshots of the
                          * home that there are; of several homes, led here: rounds,
                          * snapshots refused, snapshots given */
       REMOTE_PAGES,    /* -> word0: pages that came, in the session */
};
/* From the manager of another home's containers here, or this one, that leads a snapshot of
 * several stores (remote_several.c); data: its port's name, of STORE_NAME_BYTES. -EPERM: it is
 * none. */
enum { REMOTE_SNAP = 0x1010, /* word0 the program, word1 1: hold -> word0 the part's name; SNAP */
       REMOTE_STILL,    /* word0 the part's name, word1 the number of this kernel's point; STILL */
       REMOTE_WAIT,     /* word0 the name: -> when the home has answered, what it said */
       REMOTE_DROP,     /* word0 the name: it is over */
};

enum { CONTAINERS_MAX = 64, OPENINGS_MAX = 256, REQUESTS_MAX = 64 };

struct segment { int object; uint64_t base, pages; };   /* object: its handle; -1: none */
struct container {
    uint64_t id;                        /* 0: free */
    unsigned segments;
    bool writes;                        /* somebody here may write it */
    bool updates;                       /* what is called back is to be sent anew (modes.md) */
    struct segment segment[SITE_SEGMENTS_MAX];
};
struct opening { uint64_t process; struct container *container; unsigned times; bool writes; };

extern struct remote {
    int port, session;
    uint32_t zone;                      /* of the home's addresses */
    uint64_t number;                    /* of the last request */
    uint64_t counts[SITE_KINDS], came;  /* of messages; of pages' contents */
    struct site_pages pages;
    struct container containers[CONTAINERS_MAX];
    struct opening openings[OPENINGS_MAX];
} remote;

uint64_t remote_now(void);              /* nanoseconds, of the clock that only runs */
void remote_lock(void);
void remote_unlock(void);
/* Sends it, or ends the process, since the session is over. */
void remote_send(const struct site_message *m);
uint64_t remote_place(void);            /* of the next frame; locked */
/* Where a frame of so many bytes may be put, which goes with the thread's next question for what
 * the home says; NULL: none may. remote_frame_is: so many it has; 0: there is none after all. */
enum { REMOTE_FRAME = 8192 };
uint8_t *remote_frame(void);
void remote_frame_is(size_t bytes);
_Noreturn void remote_ends(const char *why);

/* ---- remote_store.c: what programs ask (store_protocol.h), and what the home says to it ---- */
void store_asked(const struct kd_message *m);
void store_told(const struct site_message *m);
void store_client_gone(uint64_t process);
struct opening *opening_of(uint64_t process, const struct container *c);
struct container *container_of_id(uint64_t id);
struct container *container_at(uint64_t address, struct segment **segment);

/* ---- remote_split.c: functions that a server at the home carries out (modes.md) ---- */
/* May it be passed on? 0 or -errno. */
int split_asked(const struct kd_message *m);
/* The home has begun a client for this process, or told so in vain. */
int split_opened(uint64_t process, uint64_t number);
void split_close(uint64_t number);
void split_client_gone(uint64_t process);
/* Those that have ended and of which the home could not be told yet. */
void splits_end(void);
/* Asks the home for what no program waits for. False: not now, too many requests are under way. */
bool store_tell(uint32_t request, uint64_t word);

/* Passes it on, to be answered (token 0: to nobody) when the home has. 1, or -EAGAIN, -EINVAL. */
int store_pass(const struct kd_message *m);

/* ---- remote_watch.c: STORE_WATCH and STORE_WAIT; locked ---- */
int watch_asked(struct kd_message *m);  /* 1: it has been passed on; 0 or -errno: the answer */
void watch_told(uint64_t number);       /* the answer to this request */
void watches_end(uint64_t process);

/* ---- remote_page.c: pages ---- */
void page_asked(const struct kd_message *m);
/* Looks for GETs that nobody wants, if `now` and when it is time. In so many milliseconds it is to
 * be called so; -1: no GET is open. */
int pages_look(bool now);
void page_granted(const struct site_message *m);
void page_denied(const struct site_message *m);
void page_called(const struct site_message *m);
void page_probed(const struct site_message *m);
void pages_recalled(uint64_t cookie);
void pages_closed(const struct container *c);   /* its objects end */
/* The page is asked for if it is not here. False: it is here, or is called back. */
bool page_bring(uint64_t page);

/* ---- remote_commit.c: commits ---- */
void commit_asked(const struct kd_message *m);
void commit_answered(const struct site_message *m);
/* The view's COMMIT is answered: 0: published; or refused with this errno. */
void commit_end(uint64_t view, uint64_t token, int error);

/* ---- remote_parts.c: transactions that have parts elsewhere, too ---- */
/* The batch of a COMMIT as the home gets it, with what is asked of it; until the next call. NULL:
 * the kernel asks it no more. */
const void *parts_batch(const struct kd_message *m, size_t *bytes);
bool parts_outcome(const struct kd_message *m); /* of what has voted; true: that is what it was */
void parts_refused(uint64_t view);              /* it has not voted */
void parts_applied(const struct site_message *m);
void parts_named(int error, const uint64_t word[2]);    /* the home's store; 0, or -errno */
void *parts_hear(void *unused);                 /* a thread: stores here ask the home's */

/* ---- of remote_store.c, for it ---- */
/* Asks the home, SITE_NAME or SITE_PEER; the answer goes to that call, with word1 as is given. 0;
 * -EAGAIN */
int store_home_ask(uint32_t kind, uint64_t what, const void *data, size_t bytes, uint64_t token,
                   uint64_t word1);

/* ---- remote_snapshot.c: snapshots; locked, but for snapshots_look ---- */
int snapshot_asked(const struct kd_message *m); /* 1: the home answers */
void snapshot_begun(const struct site_message *m);
void snapshot_stood(const struct site_message *m);
/* REMOTE_SNAP and what follows: 1: it is answered later; 0, or -errno; words are the answer's. */
int snapshot_part(struct kd_message *m);
/* A point of what is published here, at *at, which is no other snapshot's. A handle, or -errno. */
int snapshot_point(uint64_t *at);
/* A snapshot wants a page that is not here. */
void snapshot_page_asked(uint64_t page, const struct kd_message *m);
void snapshot_page_told(const struct site_message *m);
void snapshot_page_came(uint64_t page); /* or was denied: for those that see what is cached */
void snapshots_counted(uint64_t word[SITE_WORDS]);
void *snapshots_look(void *unused);     /* a thread: ends those that nobody sees */

/* ---- remote_several.c: snapshots of several stores ---- */
int several_asked(const struct kd_message *m);  /* 1: it is answered later; -EAGAIN, -EINVAL */
void *several_work(void *site);         /* a thread */
void several_counted(uint64_t word[3]); /* rounds; snapshots refused; snapshots given */

#endif
