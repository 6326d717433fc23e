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

/* object_dying finds whether an object of p in [from, end) with these KD_OBJECT_* dies, and is not
 * swept. */
bool object_dying_look(struct process *p, uint32_t flags, vaddr_t from, vaddr_t end);
static inline bool object_dying(struct process *p, uint32_t flags, vaddr_t from, vaddr_t end)
{
    return unlikely(__atomic_load_n(&port_deaths, __ATOMIC_SEQ_CST)) &&
           object_dying_look(p, flags, from, end);
}

/* deaths_wait sleeps until no such object dies (begin, BG3; attach). 0; -EINTR: it is killed. */
int deaths_sleep(struct process *p, uint32_t flags, vaddr_t from, vaddr_t end);
static inline int deaths_wait(struct process *p, uint32_t flags, vaddr_t from, vaddr_t end)
{
    return object_dying(p, flags, from, end) ? deaths_sleep(p, flags, from, end) : 0;
}

#endif
