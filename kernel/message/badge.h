/* badge.h - badges: numbers of a port's owner, for its callers (badge.c). */
#ifndef KERNEL_BADGE_H
#define KERNEL_BADGE_H

#include "message/port.h"
#include "process/handle.h"

#include "katydid/trace.h"

struct badge {
    uint32_t references;     /* atomic */
    bool ended;              /* atomic; set once */
    struct port *port;       /* a reference; NULL: a mark. Changes with badges_lock, when dead */
    uint64_t value;
    struct list link;        /* port->badges; badge.c */
};
struct port *badge_port(struct badge *b); /* a reference */
/* badges_inherit makes some badges of a dead port the heir's, in the order that marks want; how
 * many: the caller has their references to `from`. Port table lock. */
unsigned badges_inherit(struct port *from, struct port *heir);
/* badge_trace says what the calling process does with a badge, if h is one; child: to whom, or 0.
 * No locks. */
void badge_trace(enum kd_trace_badge what, const struct handle_slot *h, int child);
void badge_get(void *badge);
void badge_put(void *badge);
void badge_check(void *badge); /* port_check of its port */
static inline bool badge_ended(const struct badge *b)
{
    return __atomic_load_n(&b->ended, __ATOMIC_SEQ_CST);
}
/* badge_lift is handle_lift for a badge of the calling process. 0, -EBADF; -EIDRM (it has ended),
 * -EACCES (it lacks one of these rights): *passed is to be dropped also then. */
must_check int badge_lift(int handle, uint32_t rights, struct handle_slot *passed);
/* port_lift finds the port to which calls by this handle of the calling process come, its own or a
 * badge's, with a reference; an error pointer as badge_lift's. KD_RIGHT_CALL. */
struct port *port_lift(int handle);

#endif
