/*
 * role_wire.h - messages of role.h as frames (frame.h): a home, its spare and the witness are
 * sites, and link carries their frames in order.
 *
 * A group must fit into a frame: a home with a spare makes none larger (ROLE_GROUP_MOST).
 */
#ifndef USER_SITES_ROLE_WIRE_H
#define USER_SITES_ROLE_WIRE_H

#include "frame.h"
#include "user/store/role.h"

#define ROLE_FRAME 64u                  /* the first kind */
#define ROLE_GROUP_MOST (FRAME_BYTES_MAX - 4096u)

/* role_put: the frame's bytes; 0: they do not fit into so much room. */
size_t role_put(const struct role_message *m, void *frame, size_t room);
/* role_get: false: that is no message. A group's bytes may be anything; they lie in the frame, or
 * in `memory` of ROLE_GROUP_MOST bytes. NULL: who reads it wants no groups. */
bool role_get(struct role_message *m, const struct frame *f, const void *frame, uint8_t *memory);

#endif
