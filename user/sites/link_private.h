/* link_private.h - what the files of `link` that call the kernel share. */
#ifndef USER_SITES_LINK_PRIVATE_H
#define USER_SITES_LINK_PRIVATE_H

#include "link_peer.h"

#include "katydid/call.h"

/* Of the handles of link itself that remote and the witness have; those of sessions are above. */
enum { LINK_BADGE = 1, LINK_BADGE_WITNESS };

/* One of the two programs that have to do with a site, and its handle of the session. */
struct client {
    uint64_t badge;                     /* 0: none has the session */
    bool over;                          /* the session has ended, its client not yet */
    /* calls that wait for frames, by their tokens, or 0: one that has time, one until then, which
     * gets them first; batches: answers with frames so far */
    struct { uint64_t token, room, until; } receives[2];
    uint64_t batches;
    int pid;                            /* an agent's process; remote's, or another opener's */
    bool running;                       /* agent: its end has not been heard */
    uint64_t end_by;                    /* agent: told to end, and killed then; 0: not yet */
};

struct site {
    struct peer peer;                   /* first: of the callbacks' argument */
    char stream[LINK_SITE_BYTES];       /* its name */
    int handle;                         /* of the stream */
    bool readable, writable;            /* it may be: something changed, or was left */
    struct client agent, remote, copy;  /* receive FRAME_HOME, FRAME_CLIENT and FRAME_COPY */
    uint64_t left;                      /* badge of an agent that died: its rights stand (SI5); 0 */
    char told[2][LINK_WHY_BYTES];       /* why it is refused, by us and by it: as the log has it */
};

struct link {
    struct self self;
    int port;
    char agent[64], remote[64];         /* programs; "": none */
    char witness[64];                   /* whose witness this site is: "A,B"; "": nobody's */
    int witness_pid;                    /* 0: it is to be started again */
    int home_pid;                       /* of the store manager that is home of two; 0: none */
    bool open_to_all;                   /* LINK_OPEN by anybody: for tests */
    bool claims_anew;                   /* what was claimed is another's: all are to hear it */
    int remote_pid;
    unsigned remote_ends;               /* in a row, of lives that were short */
    uint64_t remote_began, remote_due;  /* when it was started; when it is to be, or 0 */
    uint64_t served;                    /* ticks that calls of others took, so far */
    unsigned count;
    struct site sites[LINK_SITES_MAX];
};
extern struct link link_all;

uint64_t now_ns(void);                  /* as it is since the last message or write */
uint64_t clock_look(void);
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The client that receives frames to `to`. */
struct client *client_of(struct site *s, unsigned to);

/* link_stream.c: moves what can be moved now; true: there is more, without another notice. */
bool stream_work(struct site *s);
bool stream_open(struct site *s, unsigned number);

void serve_late(struct site *s);        /* who waited for frames until now */
/* link_serve.c: a call; frames, or the end, for one who waits; opens that wait for this site */
bool serve(struct kd_message *m, struct waiting **incoming); /* true: it waits for the answer */
void serve_frames(struct site *s, unsigned to);
void serve_end(struct client *c, int error);
void serve_opens(void);
/* link_copy.c: may it have LINK_COPY? LINK_HOME; the witness; has the home ended? */
bool copy_may(const struct kd_message *m);
int copy_home(const struct kd_message *m, const char *name);
void copy_look(void);
bool copy_of_pair(void);                /* is there a port COPY_PORT? */
int client_badge(struct client *c);   /* a new handle, and its badge */

/* link_agent.c: the two programs */
extern const struct peer_ops site_ops;
void agent_needed(struct site *s);
void remote_start(void);
int program_start(const char *path, const char *argument, uint32_t rights, int handle);
void programs_look(void);               /* who has ended? whose time is up? */
uint64_t programs_deadline(void);
void client_gone(struct site *s, struct client *c, const char *why);

#endif
