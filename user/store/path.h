/*
 * path.h - requests by paths: who calls, where his paths lead, and what ends with a grant.
 *
 * Lock held everywhere, unless it is said otherwise.
 */
#ifndef USER_STORE_PATH_H
#define USER_STORE_PATH_H

#include "directory.h"
#include "katydid/trace.h"
#include "server.h"

extern struct directory *paths;         /* the store's; from paths_open on */

/* caller_set, no lock: the request that this thread serves from now on came by this badge, or by
 * the port itself. */
void caller_set(const struct kd_message *m);
bool caller_is_confined(void);          /* it came by a badge */
/* caller_refused: the answer is -EACCES: it says, and a trace does, which right was missing. */
void caller_refused(const struct kd_message *m, struct kd_message *reply);
/* caller_at: where the caller's paths begin; -EIDRM: his handle was taken back. */
int caller_at(struct directory_at *at);
/* caller_manages: 0; -EACCES: only who has the root with MANAGE may ask about the whole store. */
int caller_manages(void);

/* path_walk finds where a path leads, by which grants. As directory_walk; -EMLINK: many links. */
int path_walk(const char *path, struct directory_found *found, struct sources *by);
/* path_container does so to a container: -EISDIR, and -EACCES without all of these rights. */
int path_container(const char *path, uint32_t rights, struct directory_found *found,
                   struct sources *by);
bool sources_hold(const struct sources *by);    /* none of them has ended */
bool sources_have(const struct sources *by, uint64_t serial);
int sources_add(struct sources *to, const struct sources *more);    /* -EMLINK: too many */
/* sources_grant: which is a grant of this container; 0: none. *handle: is a handle among them? */
uint64_t sources_grant(const struct sources *by, uint64_t container, bool *handle);

/* grant_trace is an event GRANT of enum kd_trace_grant, for who traces. */
void grant_trace(unsigned what, uint64_t process, uint64_t serial, uint32_t rights, uint64_t more);
uint32_t grant_short(uint64_t serial);  /* as such an event has it in its upper half */

/* change_wait waits until no change is planned. */
void change_wait(void);
/* change_commit makes the planned change durable, the lock dropped meanwhile; then ends what came
 * of the grants it removes. What was planned is no more, whatever the result. */
int change_commit(void);
void change_drop(void);

/* Handles. ticket_handle: the badge's number for what a path leads to, or -errno; ticket_sent:
 * where paths by such a handle begin, which a client sent along. */
long ticket_handle(const struct directory_found *found, const struct sources *by, uint32_t rights);
int ticket_sent(int handle, struct directory_at *at);
/* ticket_home makes one of the directory of a container's first entry, for this process. */
long ticket_home(uint64_t process, uint64_t container, uint32_t rights);
/* ticket_after: the first one behind *number, and who asked for it. False: there is none. */
bool ticket_after(uint64_t *number, uint64_t *serial, uint64_t *process);
/* tickets_end ends all that came of this grant by tickets. */
void tickets_end(uint64_t serial);

int paths_open(void);                   /* at the start; before anybody is served. No lock */

/* names.c: these functions serve requests; no lock. *made: its number. `only`: of the container
 * that is to go, whatever else has the name by now; 0: whichever has it. */
int names_create(const char *path, const struct store_layout *layout, uint64_t *made);
int names_delete(uint64_t process, const char *path, uint64_t only, uint64_t *id);
int names_request(const struct kd_message *m, struct kd_message *reply, struct wire_named *out,
                  unsigned room);
/* holders_request (holders.c) tells who has what a path leads to, and what came of it; MANAGE. */
int holders_request(const struct kd_message *m, struct kd_message *reply, struct wire_holder *out,
                    unsigned room);
int names_list(const struct kd_message *m, struct kd_message *reply, struct wire_entry *out,
               unsigned room);
/* names_at answers STORE_AT. */
int names_at(const struct kd_message *m, struct kd_message *reply, char path[WIRE_PATH_BYTES]);
/* names_path: a path in a message: so many bytes, with a NUL. NULL: -EINVAL. */
const char *names_path(const void *bytes, size_t room);

#endif
