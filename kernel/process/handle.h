/*
 * handle.h - handles: a process's numbers for kernel objects, with rights.
 *
 * HD1  A slot in use holds one reference to its object.
 * HD2  A handle never has more rights than the one it was copied from.
 * HD3  port->receive_handles is how many slots of its owner have the right to receive; no other
 *     slot has it. When the last is emptied the port dies.
 */
#ifndef KERNEL_HANDLE_H
#define KERNEL_HANDLE_H

#include "process/process.h"

enum handle_type {
    HANDLE_NONE, HANDLE_PROCESS, HANDLE_PORT, HANDLE_OBJECT, HANDLE_VIEW, HANDLE_BLOCK,
    HANDLE_BADGE, HANDLE_SNAPSHOT, HANDLE_STREAM,
    HANDLE_SYSTEM, /* of no object: what it may do is in its rights */
    HANDLE_TYPES,
};

/* handle_kinds: what is done with objects of each type; kernel/seams.c has the table. The last
 * four may be NULL: nothing. */
struct handle_kind {
    bool travels;                /* handles of it may be passed on */
    /* get and put: one more reference, or one less; handle_uncounted: there are none */
    void (*get)(void *object);
    void (*put)(void *object);
    /* held: a slot of `owner` is about to refer to it; which of these rights it may have. Handle
     * lock. */
    uint32_t (*held)(void *object, const struct process *owner, uint32_t rights);
    /* dropped: a slot was emptied; its reference is dropped afterwards. */
    void (*dropped)(void *object, uint32_t rights);
    /* close ends a handle of the calling process, its slot by handle_forget(): 0, -errno. */
    int (*close)(void *object, int handle);
    void (*check)(void *object);  /* panics if it is wrong: kcheck. No locks */
};
extern const struct handle_kind handle_kinds[HANDLE_TYPES];
void handle_uncounted(void *object);
/* COUNTED(badge, badge_free): badge_get and badge_put, for handle_kinds: a struct badge has one
 * more reference, or one less; badge_free ends one that has none. */
#define COUNTED(name, free)                                                                       \
    void name##_get(void *object)                                                                 \
    {                                                                                             \
        __atomic_fetch_add(&((struct name *)object)->references, 1, __ATOMIC_RELAXED);            \
    }                                                                                             \
    void name##_put(void *object)                                                                 \
    {                                                                                             \
        struct name *o = object;                                                                  \
        uint32_t left = __atomic_sub_fetch(&o->references, 1, __ATOMIC_ACQ_REL);                  \
        assert(left != UINT32_MAX); /* HD1 */                                                     \
        if (unlikely(left == 0))                                                                  \
            free(o);                                                                              \
    }

/* handle_new always consumes one reference to `object`. The number, -EMFILE, -ENOMEM. */
must_check int handle_new(struct process *p, enum handle_type type, void *object, uint32_t rights);
static inline void handle_put(enum handle_type type, void *object)
{
    handle_kinds[type].put(object);
}

void handle_process_gone(struct process *p); /* closes all (process_seam); managers die here */
void handle_check(struct process *p); /* panics if a slot is wrong */
/* struct handle_slot: an entry of the table, or a handle on its way in a message: a reference that
 * is in no table. HANDLE_NONE: none. */
struct handle_slot {
    enum handle_type type;
    uint32_t rights;
    void *object;
};
/* handle_find finds the object behind a handle of the calling process, for which `get` takes a
 * reference; or a negative errno, for which handle_failed() is true: -EBADF (no such handle, or
 * another type), -EACCES (a right is missing). Inline, as each message looks up two handles. `has`
 * is told which rights the handle has. */
static inline bool handle_failed(const void *found) { return (uintptr_t)found > (uintptr_t)-4096; }
must_check static inline __attribute__((always_inline)) void *
handle_find_rights(int handle, enum handle_type type, uint32_t rights, void (*get)(void *object),
                   uint32_t *has)
{
    struct process *p = process_this();
    void *object = (void *)-(long)EBADF;
    if ((unsigned)handle >= PROCESS_HANDLES_MAX || !p->handles)
        return object;
    lock_acquire(&p->handle_lock);
    struct handle_slot *s = &p->handles[(unsigned)handle];
    if (__builtin_expect(s->type == type, 1)) {
        object = (void *)-(long)EACCES;
        if (__builtin_expect(!(rights & ~s->rights), 1)) {
            object = s->object;
            get(object);
            *has = s->rights;
        }
    }
    lock_release(&p->handle_lock);
    return object;
}
#define handle_find(handle, type, rights, get)                                                    \
    handle_find_rights(handle, type, rights, get, &(uint32_t){0})
/* handle_held: has the calling process a handle of this type and object (NULL: any), with all these
 * rights? */
bool handle_held(enum handle_type type, const void *object, uint32_t rights);
/* system_allows: has the calling process the system's handle with this right, KD_RIGHT_DISKS or
 * another? */
static inline bool system_allows(uint32_t right) { return handle_held(HANDLE_SYSTEM, NULL, right); }
must_check int handle_close(struct process *p, int handle);
void handle_forget(struct process *p, int handle); /* empties the slot, and no more */
/* handle_lift makes *passed a reference to the object of a handle of `from`, with the rights asked
 * for (0: all of the handle's; HD2). 0, -EBADF, -EPERM (it does not travel), -EACCES: fewer rights,
 * or a badge without those that it `needs` (RT2). */
must_check int handle_lift(struct process *from, int handle, uint32_t rights, uint32_t needs,
                           struct handle_slot *passed);
/* handle_install makes *passed, which becomes empty, a handle of p in a given free slot, or in any
 * with slot -1. Its number, or -errno. */
must_check int handle_install(struct process *p, int slot, struct handle_slot *passed);
/* handle_pass does both: a copy of a handle of `from` for `to`. */
must_check int handle_pass(struct process *from, int handle, uint32_t rights, struct process *to,
                           int slot);
void handle_drop(struct handle_slot *passed);

/* HANDLE_CALL(kd_port_notify, struct port *p, HANDLE_PORT, KD_RIGHT_CALL, 0) { ... }: a call whose
 * argument 0 is a handle with this right; its body gets the object, too, whose reference is dropped
 * behind it. -EBADF, -EACCES: there is no such handle. */
#define HANDLE_CALL(name, parameter, type, rights, argument)                                      \
    static long name##_of(parameter, const uint64_t a[6]);                                        \
    long name(const uint64_t a[6])                                                                \
    {                                                                                             \
        void *object = handle_find((int)a[argument], type, rights, handle_kinds[type].get);       \
        long result = handle_failed(object) ? (long)object : name##_of(object, a);                \
        if (!handle_failed(object))                                                               \
            handle_put(type, object);                                                             \
        return result;                                                                            \
    }                                                                                             \
    static long name##_of(parameter, const uint64_t a[6])

#endif
