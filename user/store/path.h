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

/* No lock: the request that this thread serves from now on came by this badge, or by the port
 * itself. */
void caller_set(const struct kd_message *m);
bool caller_is_confined(void);          /* it came by a badge */
/* The answer is -EACCES: it says, and a trace does, which right was not there. */
void caller_refused(const struct kd_message *m, struct kd_message *reply);
/* Where his paths begin; -EIDRM: his handle was taken back. */
int caller_at(struct directory_at *at);
/* 0, or -EACCES: only who has the root directory with MANAGE may ask about the whole store. */
int caller_manages(void);

/* Where the path leads, and by which grants. As directory_walk, and -EMLINK: by too many links. */
int path_walk(const char *path, struct directory_found *found, struct sources *by);
/* The same, to a container: -EISDIR, and -EACCES without all of these rights. */
int path_container(const char *path, uint32_t rights, struct directory_found *found,
                   struct sources *by);
bool sources_hold(const struct sources *by);    /* none of them has ended */
bool sources_have(const struct sources *by, uint64_t serial);
int sources_add(struct sources *to, const struct sources *more);    /* -EMLINK: too many */
/* The one that is a grant of this container; 0: none. *handle: a handle is among them. */
uint64_t sources_grant(const struct sources *by, uint64_t container, bool *handle);

/* An event GRANT of enum kd_trace_grant, for who traces. */
void grant_trace(unsigned what, uint64_t process, uint64_t serial, uint32_t rights, uint64_t more);
uint32_t grant_short(uint64_t serial);  /* as such an event has it in its upper half */

/* Waits until no change is planned. */
void change_wait(void);
/* Makes the planned change durable, the lock dropped meanwhile; then ends what came of the grants
 * that it removes. What was planned is no more, whatever the result. */
int change_commit(void);
void change_drop(void);

/* Handles. The badge's number for what a path leads to, -errno; and of such a handle that a
 * client sent along. */
long ticket_handle(const struct directory_found *found, const struct sources *by, uint32_t rights);
int ticket_sent(int handle, struct directory_at *at);
/* The same of the directory that the container's first entry lies in, for this process. */
long ticket_home(uint64_t process, uint64_t container, uint32_t rights);
/* The first one behind *number; who asked for it. False: there is none. */
bool ticket_after(uint64_t *number, uint64_t *serial, uint64_t *process);
/* All that came of this grant by tickets ends. */
void tickets_end(uint64_t serial);

int paths_open(void);                   /* at the start; before anybody is served. No lock */

/* names.c; no lock: requests. */
int names_create(const char *path, const struct store_layout *layout);
int names_delete(uint64_t process, const char *path, uint64_t *id);
int names_request(const struct kd_message *m, struct kd_message *reply, struct wire_named *out,
                  unsigned room);
/* holders.c: who has what the path leads to, and what was granted out of it; needs MANAGE. */
int holders_request(const struct kd_message *m, struct kd_message *reply, struct wire_holder *out,
                    unsigned room);
int names_list(const struct kd_message *m, struct kd_message *reply, struct wire_entry *out,
               unsigned room);
/* STORE_AT. */
int names_at(const struct kd_message *m, struct kd_message *reply, char path[WIRE_PATH_BYTES]);
/* A path in a message: so many bytes, with a NUL. NULL: -EINVAL. */
const char *names_path(const void *bytes, size_t room);

#endif
