/*
 * copy.h - the store manager as one of two copies of a store (user/sites/spare.md): its role, the
 * threads around role.h, and what its commits wait for. A manager without `store.pair` has none of
 * this.
 *
 *     thread    does                                                           file
 *     ticker    role_tick; ends a home that may not be one any more            copy.c
 *     asked     answers at COPY_PORT                                           copy.c
 *     hearer x2 what the other copy, and the witness, say                      copy_link.c
 *     sender    what goes to them                                              copy_link.c
 *
 * copy_recast.c has the ticker of a spare make another layout, which the home puts in.
 *
 * Invariants
 *   CY1  What is sent is queued, with the lock or without, and never waited for; so much at most
 *        waits (QUEUE_MOST). More: the session with that site ends, and what was in it is lost.
 *   CY2  A home whose lease is over ends its process, objects and all, unless the witness has let
 *        it go on before; so does one that is told of another home. What programs had of it ends
 *        then.
 */
#ifndef USER_STORE_COPY_H
#define USER_STORE_COPY_H

#include "recast.h"
#include "role.h"
#include "server.h"

#define COPY_GROUP_MOST ((1u << 20) - 4096u)    /* ROLE_GROUP_MOST of role_wire.h */
enum { COPY_SITES = 2 };                /* to whom: ROLE_TO_OTHER, ROLE_TO_WITNESS */

/* copy_is: is this one of two copies? copy_place: in whose place is its home? Any thread. */
bool copy_is(void);
const char *copy_place(void);
/* copy_run begins, and waits until this copy is home: then server.store is open. False: it cannot
 * be a copy, and has said why. grace_ms: two leases of the sites. */
bool copy_run(const struct disk_io *io, const struct store_open_options *how, unsigned grace_ms);
/* copy_serves: the store answers from now on: link tells the other sites. */
void copy_serves(void);
/* copy_grace_ms: for how many ms other sites may still use what the former home has granted. */
unsigned copy_grace_ms(void);

/* copy_sealed, like all here with the lock held: a group is sealed, before its write. */
void copy_sealed(const struct store_group *group);
/* copy_sends gives to link, or the sender, what copy_sealed has queued. WITHOUT the lock. */
void copy_sends(void);
/* copy_flushed: the log is durable here up to `end`: waits until it is so at the other copy, if it
 * has to be. The lock is dropped meanwhile. */
void copy_flushed(store_lsn_t end);
/* copy_has does not wait: false, it is not there yet; group_copied() is called when it may be. */
bool copy_has(store_lsn_t end);
/* copy_confirms waits until the other copy, if any, has answered what was sent after this call: so
 * this one is home still, and what was read here stands (NC4). Drops the lock meanwhile. */
void copy_confirms(void);
/* copy_fenced: a home that takes no more commits is none: it ends, if the other can go on. */
void copy_fenced(void);
/* copy_stop: init wants the copy to end; error: of its last flush. */
_Noreturn void copy_stop(int error);

/* ---- copy_backup.c, for copy.c ---- */

/* copy_backup is COPY_BACKUP: 0: it is answered when it is done. No lock. */
int copy_backup(const struct kd_message *m);
/* copy.c, for it; with the lock. copy_pause: the spare applies nothing from now on, and its state;
 * NULL: none. copy_is_paused: is it as then, but for what it took? copy_resume: applies. */
struct store_spare *copy_pause(struct store_spare_state *state);
bool copy_is_paused(const struct store_spare *spare, const struct store_spare_state *begun);
void copy_resume(void);

/* ---- copy_recast.c, for copy.c; with the lock ---- */

struct copy_recast;
/* copy_recast_begin is COPY_RECAST at this spare; NULL: it is none. */
int copy_recast_begin(struct store_spare *spare, const char *names, size_t bytes,
                      char refused[RECAST_TYPE_BYTES]);
/* copy_recast_step, a tick of a spare: some more pages. Another spare than at first: no more. */
void copy_recast_step(struct store_spare *spare);
/* copy_recast_commit: the spare is a home now, and nobody uses the store yet. */
void copy_recast_commit(struct store *store);
void copy_recast_tell(struct copy_recast *out);

/* ---- copy_link.c, for copy.c ---- */

/* copy_send queues a message for the sender, or, while corked, for who calls copy_sends. */
void copy_send(void *unused, int to, const struct role_message *m);
void copy_cork(bool on);
/* copy_link_start starts the threads to these sites; the names stay. */
bool copy_link_start(const char *const sites[COPY_SITES]);
/* copy_link_home tells link that this is home, in the place of that site. 0 or -errno. */
int copy_link_home(const char *as, uint32_t zone, uint64_t term);
/* copy_heard (copy.c, for copy_link.c): a message; copy_reached: a site is, or not. No lock. */
void copy_heard(int from, const struct role_message *m);
void copy_reached(int site, bool reached);

#endif
