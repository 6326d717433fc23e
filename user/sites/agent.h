/*
 * agent.h - the parts of `agent`, which stands at the home for one session of another site
 * (remote.md).
 *
 * One lock guards all state, and frames get their places with it: so a GRANT is in the stream
 * before a CALL of the same page. It is not held across what waits for the store or for other
 * transactions.
 */
#ifndef USER_SITES_AGENT_H
#define USER_SITES_AGENT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "katydid/abi.h"
#include "message.h"
#include "pages.h"
#include "store_protocol.h"

enum {
    GETTERS = 8, COMMITTERS = 4,        /* threads; the last one that commits hears, too */
    OLD_READERS = 2,                    /* threads that read for snapshots */
    SNAPSHOTS_MAX = 8,                  /* of the site */
    JOBS_MAX = 1024,                    /* GETs and GET_OLDs that wait for a thread, each */
    CONTAINERS_MAX = 64,
    SITE_PAGES_MAX = 1 << 20,
    AGENT_ROOM = FRAME_HEADER + 32 + SITE_GRANT_MAX * KD_PAGE_BYTES, /* for the longest GRANT */
};

struct container {
    uint64_t id;                        /* 0: free */
    bool writes, closes;                /* closes: as soon as it is not busy */
    unsigned busy;                      /* GETs and COMMITs under way */
    struct convert *types;              /* NULL: the site's data look as here */
    unsigned segments;
    struct site_segment segment[SITE_SEGMENTS_MAX];
};

extern struct agent {
    const char *site;                   /* its name */
    int session, holder, port;          /* handles: of link's, of the view, of what it hears */
    uint64_t view;                      /* the holder's number */
    int store, root;                    /* handles: of the store's port, of what the site may see */
    uint64_t serial;                    /* of the last grant */
    unsigned committing;                /* commits from their begin to their answer; parts, too */
    struct site_pages pages;
    struct container containers[CONTAINERS_MAX];
} agent;

void agent_lock(void);
void agent_unlock(void);
/* What threads wait for: work of six kinds. */
enum agent_wait { AGENT_GETS, AGENT_COMMITS, AGENT_ASKS, AGENT_SNAPS, AGENT_OLDS, AGENT_PARTS,
                  AGENT_WAITS };
void agent_wait(enum agent_wait for_what); /* until agent_changed; leaves the lock meanwhile */
void agent_changed(enum agent_wait for_whom); /* wakes one: a piece of work is one thread's */
void agent_changed_all(enum agent_wait for_whom);
void agent_wait_at(pthread_cond_t *c);          /* the same, of a condition of the caller's */
void agent_start(void *(*function)(void *), void *argument);
_Noreturn void agent_ends(const char *why);
void agent_send(const struct site_message *m);
/* For a thread that hears, locked: room for a frame; so many bytes of it are one, which is sent
 * when the thread asks for what comes next, and before what is sent from now on. */
void *agent_room(void);
void agent_send_later(size_t bytes);
struct container *container_at(uint64_t page);
struct container *container_of_id(uint64_t id); /* that the site has open; NULL: none */

/* ---- agent_store.c: the store's protocol, in the site's name ---- */
int store_begin(const char *site);      /* 0 or -errno */
void *store_work(void *unused);         /* a thread */
void store_ask(const struct site_message *m);
void container_let(struct container *c);        /* a GET or COMMIT of it has ended; locked */
const char *store_exports(void);        /* the directory of what the site may open */

/* ---- agent_split.c: functions that a server here carries out for the site (modes.md) ---- */
bool split_ask(const struct site_message *m);   /* false: it is none of these requests */

/* ---- agent_page.c ---- */
void page_get(const struct site_message *m);
void page_gone(const struct site_message *m);
void page_cancel(const struct site_message *m);
void page_call(struct site_page *p, int due); /* sends a CALL, if one is due */
void pages_release(const struct site_segment *s);
void *page_work(void *unused);          /* takes pages, in some threads */
void *page_hear(void *unused);          /* hears who wants them back */
void page_probed(const struct site_message *m);
void page_site_commits(void);           /* it has got on, so its patience begins anew */

/* ---- agent_commit.c ---- */
void commit_do(const struct site_message *m, const uint8_t *frame, size_t bytes);
/* By the thread that hears it, whose turn ends with it. False: another one is to do it. */
bool commit_here(const struct site_message *m, uint8_t *frame);
void *commit_work(void *unused);
struct commit;                          /* a COMMIT as it came */
/* Carries it out, locked, not so while it waits; `tell` is said how it ended before its pages are
 * let go. */
void commit_run(struct commit *c, void (*tell)(struct commit *c, int error));
void commit_free(struct commit *c);
uint64_t commit_number(const struct commit *c);
const uint8_t *commit_batch(const struct commit *c, size_t *bytes);

/* ---- agent_parts.c: transactions with parts in several stores ---- */
/* WIRE_VOTE or WIRE_DECISION, if a batch begins with that; else 0. */
uint32_t parts_of(const uint8_t *batch, size_t bytes);
/* Takes a COMMIT that asks for a vote, or that decides; locked. False: it is none, or decides and
 * is to be carried out as any other. */
bool parts_commit(struct commit *c);
bool parts_none(void);                  /* nothing is prepared in the store; asks it */
/* The store's commits stand still, those of others, too (user/store/hold.c): 0, and the hold's
 * number; -EAGAIN: not yet. parts_hold_end: 0: they stood until now. */
int parts_hold(uint64_t *number);
int parts_hold_end(uint64_t number);
void parts_decided(const struct site_message *m);       /* DECIDE */
/* Of requests of the site: of its store, in its name; the name of the one here. */
int parts_peer(uint64_t word[SITE_WORDS], const void *data, size_t bytes);
int parts_name(uint64_t word[SITE_WORDS]);

/* ---- agent_outcome.c: commits that another session may ask for ---- */
uint64_t outcome_session(const char *site); /* this session's number, upwards; 0: there is none */
/* Takes the id out of a batch; *number 0: it has none. 0; -EINVAL; -EACCES: it changes what the
 * site has not open to write. Locked. */
int outcome_take(uint8_t *batch, size_t *bytes, uint64_t *number);
int outcome_note(unsigned thread, uint64_t number); /* in the transaction, last of its batch */
void outcome_noted(unsigned thread, uint64_t number);   /* it is committed; locked */
int outcome_look(uint64_t word[SITE_WORDS]);    /* STORE_OUTCOME */

/* ---- agent_snapshot.c: snapshots for the site ---- */
void snapshot_asked(const struct site_message *m);
void snapshot_still(const struct site_message *m);
void snapshot_over(const struct site_message *m);
void snapshot_read(const struct site_message *m);
bool snapshot_waits(void);              /* one is to begin, so no commit does now; locked */
void *snapshot_work(void *unused);      /* a thread begins them */
void *snapshot_read_work(void *unused); /* some read pages for them */

/* ---- agent_convert.c: a site whose data look otherwise (types.md) ---- */
struct convert_image;
/* Of a request to open, what the site declares is taken from behind it. 0: *declared, or NULL:
 * nothing; -EBADMSG: no description; -E2BIG, -ENOMEM. */
int convert_declared(uint8_t *request, size_t *bytes, struct convert **declared);
/* Against the container's own description at this address, 0: it has none. -EPROTOTYPE: `refused`
 * is described at one side alone; or what the transaction says that reads it. */
int convert_known(struct convert *v, uint64_t at, char refused[48]);
bool convert_same(const struct convert *a, const struct convert *b);
void convert_free(struct convert *v);           /* locked, if a container had it */
int convert_page(uint64_t page, uint8_t contents[SITE_PAGE_BYTES]);  /* as the site has it */
void convert_granted(const struct site_page *p, bool contents);     /* locked */
/* In the transaction of a commit: its runs are stored; `converts`: a container of theirs has types.
 * convert_stored is then said how it ended, locked. */
int convert_store(const struct site_message *m, bool converts, struct convert_image **made);
void convert_stored(struct convert_image **made, bool committed);

#endif
