/*
 * handle.c - handle tables (handle.h).
 *
 * Locks: p->handle_lock. References are dropped outside it: the last one may end an object.
 */
#include "handle.h"

#include "block.h"
#include "object.h"
#include "port.h"
#include "view.h"

struct handle_slot {
    enum handle_type type;
    uint32_t rights;
    void *object;
};

void handle_ref(enum handle_type type, void *object)
{
    switch (type) {
    case HANDLE_PROCESS: process_get(object); break;
    case HANDLE_PORT: port_get(object); break;
    case HANDLE_OBJECT: object_get(object); break;
    default: break; /* views belong to their thread, disks live for ever */
    }
}

void handle_put(enum handle_type type, void *object)
{
    switch (type) {
    case HANDLE_PROCESS: process_put(object); break;
    case HANDLE_PORT: port_put(object); break;
    case HANDLE_OBJECT: object_put(object); break;
    default: break;
    }
}

/* What else ends when a slot is emptied. */
static void handle_dropped(enum handle_type type, void *object)
{
    if (type == HANDLE_BLOCK)
        block_released(object);
    handle_put(type, object);
}

static bool handle_table_ready(struct process *p)
{
    if (p->handles)
        return true;
    struct handle_slot *table = kalloc(PROCESS_HANDLES_MAX * sizeof(struct handle_slot));
    if (!table)
        return false;
    lock_acquire(&p->handle_lock);
    if (!p->handles) {
        p->handles = table;
        table = NULL;
    }
    lock_release(&p->handle_lock);
    kfree(table);
    return true;
}

static int handle_install(struct process *p, int slot, enum handle_type type, void *object,
                          uint32_t rights)
{
    if (!handle_table_ready(p))
        return -ENOMEM;
    int result = -EMFILE;
    lock_acquire(&p->handle_lock);
    if (slot < 0) {
        for (slot = 0; slot < PROCESS_HANDLES_MAX; slot++)
            if (p->handles[slot].type == HANDLE_NONE)
                break;
    }
    if (slot < PROCESS_HANDLES_MAX && p->handles[slot].type == HANDLE_NONE) {
        p->handles[slot] = (struct handle_slot){type, rights, object};
        p->handle_count++;
        result = slot;
    }
    lock_release(&p->handle_lock);
    return result;
}

int handle_new(struct process *p, enum handle_type type, void *object, uint32_t rights)
{
    return handle_install(p, -1, type, object, rights);
}

void *handle_get(int handle, enum handle_type type, uint32_t rights, int *error)
{
    struct process *p = process_this();
    void *object = NULL;
    *error = -EBADF;
    if ((unsigned)handle >= PROCESS_HANDLES_MAX || !p->handles)
        return NULL;
    lock_acquire(&p->handle_lock);
    struct handle_slot *s = &p->handles[handle];
    if (s->type == type) {
        if ((s->rights & rights) == rights) {
            object = s->object;
            handle_ref(type, object);
            *error = 0;
        } else {
            *error = -EACCES;
        }
    }
    lock_release(&p->handle_lock);
    return object;
}

int handle_close(struct process *p, int handle)
{
    if ((unsigned)handle >= PROCESS_HANDLES_MAX || !p->handles)
        return -EBADF;
    lock_acquire(&p->handle_lock);
    struct handle_slot *s = &p->handles[handle], old = *s;
    if (old.type == HANDLE_VIEW || old.type == HANDLE_NONE) {
        lock_release(&p->handle_lock);
        return old.type == HANDLE_VIEW ? view_close(old.object, handle) : -EBADF;
    }
    *s = (struct handle_slot){0};
    p->handle_count--;
    lock_release(&p->handle_lock);
    handle_dropped(old.type, old.object);
    return 0;
}

void handle_forget(struct process *p, int handle)
{
    lock_acquire(&p->handle_lock);
    p->handles[handle] = (struct handle_slot){0};
    p->handle_count--;
    lock_release(&p->handle_lock);
}

int handle_pass_rights(struct process *from, int handle, struct process *to, int to_slot,
                       uint32_t rights)
{
    if ((unsigned)handle >= PROCESS_HANDLES_MAX || !from->handles)
        return -EBADF;
    lock_acquire(&from->handle_lock);
    struct handle_slot s = from->handles[handle];
    bool passes = s.type != HANDLE_NONE && s.type != HANDLE_VIEW && s.type != HANDLE_BLOCK;
    if (passes)
        handle_ref(s.type, s.object);
    lock_release(&from->handle_lock);
    if (!passes)
        return s.type == HANDLE_NONE ? -EBADF : -EPERM;
    int result = -EACCES;
    if (rights == 0 || (s.rights & rights) == rights)
        result = handle_install(to, to_slot, s.type, s.object, rights ? rights : s.rights); /* H2 */
    if (result < 0)
        handle_put(s.type, s.object);
    return result;
}

int handle_pass(struct process *from, int handle, struct process *to, int to_slot)
{
    return handle_pass_rights(from, handle, to, to_slot, 0);
}

void handle_process_gone(struct process *p)
{
    for (int i = 0; p->handles && i < PROCESS_HANDLES_MAX; i++) {
        struct handle_slot old = p->handles[i];
        if (old.type == HANDLE_NONE)
            continue;
        p->handles[i] = (struct handle_slot){0};
        handle_dropped(old.type, old.object);
    }
    p->handle_count = 0;
    kfree(p->handles);
    p->handles = NULL;
}

long handle_call(unsigned number, const uint64_t a[6])
{
    struct process *p = process_this();
    switch (number) {
    case KD_HANDLE_CLOSE: return handle_close(p, (int)a[0]);
    case KD_HANDLE_COPY:
        return a[1] ? handle_pass_rights(p, (int)a[0], p, -1, (uint32_t)a[1]) : -EINVAL;
    case KD_OBJECT_REVOKE: {
        int error;
        struct object *o = handle_get((int)a[0], HANDLE_OBJECT, KD_RIGHT_MANAGE, &error);
        if (!o)
            return error;
        object_revoke(o);
        object_put(o);
        return 0;
    }
    default: return -ENOSYS;
    }
}
