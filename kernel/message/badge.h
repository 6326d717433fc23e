/* badge.h - badges: numbers of a port's owner, for its callers (badge.c). */
#ifndef KERNEL_BADGE_H
#define KERNEL_BADGE_H

#include "message/port.h"
#include "process/handle.h"

struct badge {
    uint32_t references;     /* atomic */
    bool ended;              /* atomic; set once */
    struct port *port;       /* a reference */
    uint64_t value;
    struct list link;        /* port->badges; badge.c */
};
void badge_get(void *badge);
void badge_put(void *badge);
static inline bool badge_ended(const struct badge *b)
{
    return __atomic_load_n(&b->ended, __ATOMIC_SEQ_CST);
}
/* badge_lift is handle_lift for a badge of the calling process. 0, -EBADF, -EIDRM (*passed is to be
 * dropped also then). */
must_check int badge_lift(int handle, struct handle_slot *passed);

#endif
