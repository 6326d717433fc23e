/*
 * handle.c - handle tables (handle.h).
 *
 * Locks: p->handle_lock. References are dropped outside it: the last one may end an object.
 */
#include "memory/frame.h"
#include "process/handle.h"

void handle_uncounted(void *object) { (void)object; }

/* slot_dropped ends what an emptied slot stood for: its charge, its object's reference. False: it
 * was empty. */
static bool slot_dropped(struct process *p, const struct handle_slot *old)
{
    if (old->type == HANDLE_NONE)
        return false;
    limit_uncharge(p, KD_LIMIT_HANDLES, 1);
    if (handle_kinds[old->type].dropped)
        handle_kinds[old->type].dropped(old->object, old->rights);
    handle_put(old->type, old->object);
    return true;
}

enum { TABLE_BYTES = PROCESS_HANDLES_MAX * sizeof(struct handle_slot) };
_Static_assert(TABLE_BYTES == PAGE_BYTES, "a table counts as one frame (limit.c)");

static bool handle_table_ready(struct process *p)
{
    if (p->handles)
        return true;
    struct handle_slot *table = limit_memory_left(p) ? kalloc(TABLE_BYTES) : NULL;
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

/* slot_fill fills a slot of p's table; with -1 the first that is free. Its number, or -EMFILE. */
static int slot_fill(struct process *p, int slot, struct handle_slot h)
{
    int result = -EMFILE;
    lock_acquire(&p->handle_lock);
    if (slot < 0) {
        for (slot = 0; slot < PROCESS_HANDLES_MAX; slot++)
            if (p->handles[slot].type == HANDLE_NONE)
                break;
    }
    if (slot < PROCESS_HANDLES_MAX && p->handles[slot].type == HANDLE_NONE) {
        if (handle_kinds[h.type].held)
            h.rights = handle_kinds[h.type].held(h.object, p, h.rights);
        assert(h.object != NULL || h.type >= HANDLE_SNAPSHOT); /* HD1 */
        p->handles[slot] = h;
        result = slot;
    }
    lock_release(&p->handle_lock);
    return result;
}

int handle_install(struct process *p, int slot, struct handle_slot *passed)
{
    int result = handle_table_ready(p) ? 0 : -ENOMEM;
    if (!result && !limit_charge(p, KD_LIMIT_HANDLES, 1))
        result = -EMFILE;
    else if (!result && (result = slot_fill(p, slot, *passed)) < 0)
        limit_uncharge(p, KD_LIMIT_HANDLES, 1);
    if (result < 0)
        handle_put(passed->type, passed->object);
    passed->type = HANDLE_NONE;
    return result;
}

int handle_new(struct process *p, enum handle_type type, void *object, uint32_t rights)
{
    return handle_install(p, -1, &(struct handle_slot){type, rights, object});
}

bool handle_held(enum handle_type type, const void *object, uint32_t rights)
{
    struct process *p = process_this();
    bool held = false;
    lock_acquire(&p->handle_lock);
    for (int i = 0; p->handles && i < PROCESS_HANDLES_MAX && !held; i++) {
        const struct handle_slot *s = &p->handles[i];
        held = s->type == type && (!object || s->object == object) && !(rights & ~s->rights);
    }
    lock_release(&p->handle_lock);
    return held;
}

int handle_close(struct process *p, int handle)
{
    if ((unsigned)handle >= PROCESS_HANDLES_MAX || !p->handles)
        return -EBADF;
    lock_acquire(&p->handle_lock);
    struct handle_slot *s = &p->handles[handle], old = *s;
    if (!handle_kinds[old.type].close)
        *s = (struct handle_slot){0};
    lock_release(&p->handle_lock);
    if (handle_kinds[old.type].close)
        return handle_kinds[old.type].close(old.object, handle);
    return slot_dropped(p, &old) ? 0 : -EBADF;
}

void handle_forget(struct process *p, int handle)
{
    lock_acquire(&p->handle_lock);
    p->handles[handle] = (struct handle_slot){0};
    lock_release(&p->handle_lock);
    limit_uncharge(p, KD_LIMIT_HANDLES, 1);
}

int handle_lift(struct process *from, int handle, uint32_t rights, uint32_t needs,
                struct handle_slot *passed)
{
    if ((unsigned)handle >= PROCESS_HANDLES_MAX || !from->handles)
        return -EBADF;
    int result = 0;
    lock_acquire(&from->handle_lock);
    struct handle_slot s = from->handles[handle];
    if (s.type == HANDLE_NONE)
        result = -EBADF;
    else if (!handle_kinds[s.type].travels)
        result = -EPERM;
    else if (rights & ~s.rights || (s.type == HANDLE_BADGE && needs & ~s.rights))
        result = -EACCES;
    else
        handle_kinds[s.type].get(s.object);
    lock_release(&from->handle_lock);
    if (!result)
        *passed = (struct handle_slot){s.type, rights ? rights : s.rights, s.object};
    assert(result || !(passed->rights & ~s.rights)); /* HD2 */
    return result;
}

void handle_drop(struct handle_slot *passed)
{
    if (passed->type != HANDLE_NONE)
        handle_put(passed->type, passed->object);
    passed->type = HANDLE_NONE;
}

int handle_pass(struct process *from, int handle, uint32_t rights, struct process *to, int slot)
{
    struct handle_slot passed = {0};
    return handle_lift(from, handle, rights, from == to ? 0 : KD_RIGHT_GRANT, &passed) ?:
           handle_install(to, slot, &passed);
}

void handle_process_gone(struct process *p)
{
    for (int i = 0; p->handles && i < PROCESS_HANDLES_MAX; i++) {
        lock_acquire(&p->handle_lock); /* others may look at the table: KD_LOOK, KD_CHECK */
        struct handle_slot old = p->handles[i];
        p->handles[i] = (struct handle_slot){0};
        lock_release(&p->handle_lock);
        (void)slot_dropped(p, &old);
        if (old.type != HANDLE_NONE)
            thread_breathe();
    }
    lock_acquire(&p->handle_lock);
    struct handle_slot *table = p->handles;
    p->handles = NULL;
    lock_release(&p->handle_lock);
    kfree(table);
}

long kd_handle_close(const uint64_t a[6]) { return handle_close(process_this(), (int)a[0]); }

long kd_handle_copy(const uint64_t a[6])
{
    struct process *p = process_this();
    return a[1] ? handle_pass(p, (int)a[0], (uint32_t)a[1], p, -1) : -EINVAL;
}

void handle_check(struct process *p)
{
    for (int i = 0; i < PROCESS_HANDLES_MAX; i++, thread_breathe()) {
        lock_acquire(&p->handle_lock);
        const struct handle_slot s = p->handles ? p->handles[i] : (struct handle_slot){0};
        assert(s.type < HANDLE_TYPES); /* HD1 */
        assert(s.type == HANDLE_NONE || s.type >= HANDLE_SNAPSHOT || s.object != NULL); /* HD1 */
        bool looks = handle_kinds[s.type].check;
        if (looks)
            handle_kinds[s.type].get(s.object); /* it may be the last one when the lock is free */
        lock_release(&p->handle_lock);
        if (looks) {
            handle_kinds[s.type].check(s.object);
            handle_kinds[s.type].put(s.object);
        }
    }
}
