/* manager_private.h - what the halves of a manager's side share: its objects (manager.c), and the
 * messages that it serves (manager_serve.c), and the store that has started it (kept.c). */
#ifndef MANAGER_PRIVATE_H
#define MANAGER_PRIVATE_H

#include <stddef.h>

#include "katydid/abi.h"
#include "manager.h"

/* A call is what clients ask; CALL_USER: word0 the object's number; CALL_BELOW: a handle of the
 * port where its objects commit, to stand on (km_below_container). */
enum { CALL_OPEN = 1, CALL_USER, CALL_BELOW };
#define NO_OBJECT (~0ull)

struct commit_work;
struct km_object {
    uint64_t number;                    /* place in the table, and how many there were before */
    int users;                          /* KO1; 0: it is free */
    int handle, flags;
    uint64_t base, pages;
    uint64_t cleaned_from;              /* the page behind the one offered last, of the cleaner's */
    const struct km_ops *ops;
    void *user;
    char name[KD_NAME_MAX];
};

extern struct manager {
    int port, calls;                    /* handles; -1: there is no object yet */
    struct km_object *objects[KM_OBJECTS_MAX];
    uint64_t tokens[KD_VIEW_MAX];       /* of the commit that a view waits for */
    /* of a manager that stands on others (manager_below.c): a port for commits, or -1; how it is
     * asked; in a snapshot, the state that it sees */
    int commits, commit_threads;
    void (*commit_below)(const struct kd_message *m, struct commit_work *w);
    void (*page_below)(struct km_request *r);
    uint64_t (*read_at)(void);
    /* of one with a protocol of its own: commits come to `calls`, and messages lie here */
    const struct km_protocol *protocol;
    void *messages;
} manager;

static inline void object_done(struct km_object *o)
{
    __atomic_fetch_sub(&o->users, 1, __ATOMIC_SEQ_CST);
}

/* object_of finds the object of this number, object_at that at this place; NULL: it has ended, or
 * never was. Until object_done it stays what it is (KO1). */
static inline struct km_object *object_of(uint64_t number)
{
    unsigned at = number & 0xffff;
    struct km_object *o = at < KM_OBJECTS_MAX ? manager.objects[at] : NULL;
    if (!o) return NULL;
    __atomic_fetch_add(&o->users, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&o->number, __ATOMIC_SEQ_CST) == number) return o;
    object_done(o);
    return NULL;
}

static inline struct km_object *object_at(unsigned at)
{
    struct km_object *o = manager.objects[at];
    return o ? object_of(__atomic_load_n(&o->number, __ATOMIC_SEQ_CST)) : NULL;
}

/* ---- manager_commit.c: a commit that a thread works on ---- */
struct commit_work {
    struct km_object *changed[KM_OBJECTS_MAX]; /* each with a use, until commit_forget */
    uint8_t by[KM_OBJECTS_MAX];         /* the view that changed them, of the last commit_view */
    unsigned count;
    /* what the view changed; is_all: in these bytes */
    uint64_t view;
    int is_all;
    size_t bytes;
    _Alignas(struct km_run) uint8_t runs[64 << 10];
};
/* commit_view tells the objects that one view of the transaction changed: 0, or what ops->commit or
 * the kernel says. */
long commit_view(struct commit_work *w, uint64_t view, uint64_t token);
void commit_forget(struct commit_work *w); /* it begins anew, or is over */
/* commit_over tells the objects how a commit ended: ops->outcome. */
void commit_over(struct commit_work *w, uint64_t view, int error, uint64_t csn);

/* object_create is km_create with a place: then no name is published. */
int object_create(const char *name, uint64_t base, uint64_t pages, int flags,
                  const struct km_ops *ops, void *user, struct km_object **out);

/* client_open and client_ask are km_open and km_call, by the manager's name, or, if NULL, with a
 * known port; -ETIMEDOUT after so many milliseconds, or by the process's limit. */
void *client_open(const char *manager, int known, uint64_t ms, const char *object, int flags);
int client_ask(const char *manager, int known, uint64_t ms, const char *object, void *message,
               int bytes);

int manager_commit_port(void);          /* commits of all objects go there */
/* manager_below is km_below by a handle of the other's commit port, or of one where it has objects;
 * closes it. A negative `found` is an error, and said. */
int manager_below(long found);

/* kept_begin tells the store that its container is served from now on; 0 also if there is none. */
int kept_begin(void);
/* kept_lets: may a process that asks for this object have it so (KM_READ, KM_WRITE)? -EACCES: it
 * does not have the container open so. 1: it is part of that, and attached by the store alone. */
int kept_lets(const struct km_object *o, uint64_t process, int flags);
/* container_kept_port gives a handle, to be closed, of the port of the program that serves it;
 * -ENOTCONN: none does. Not in an entered view (TX1). */
int container_kept_port(const struct ps_container *c);

#endif
