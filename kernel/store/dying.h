/*
 * dying.h - objects between their manager's death and the end of their sweep (sweep.c; BG3, BG4).
 * Locks: whoever grants asks with the leaf locked; object_dying takes attach_lock.
 */
#ifndef KERNEL_DYING_H
#define KERNEL_DYING_H

#include "store/object.h"

/* object_dies tells whether an object's manager is gone or destroyed it. From before the first one
 * hears of that nothing of the object is granted (BG4). */
static inline bool object_dies(const struct object *o)
{
    return o->dead || (unlikely(__atomic_load_n(&port_deaths, __ATOMIC_RELAXED)) &&
                       (port_dies(o->port) || port_dies(o->commit_port)));
}

enum { DEATH_LOOK_NS = 100000 }; /* asleep: who only yields leaves a sweep no CPU */
/* deaths_wait sleeps until none of p's objects dies (begin, BG3). 0; -EINTR: it is killed. */
int deaths_wait(struct process *p);

/* object_dying finds whether an object of p's with these KD_OBJECT_* dies, and is not swept. */
bool object_dying_look(struct process *p, uint32_t flags);
static inline bool object_dying(struct process *p, uint32_t flags)
{
    return unlikely(__atomic_load_n(&port_deaths, __ATOMIC_SEQ_CST)) && object_dying_look(p, flags);
}

#endif
