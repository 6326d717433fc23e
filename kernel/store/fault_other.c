/*
 * fault_other.c - faults that no transaction serves: memory of the process itself, objects that are
 * not transactional, and forbidden touches, which end the program with the reason; guards.
 *
 * Locks: none are held.
 */
#include "base/signal.h"
#include "store/fault.h"
#include "store/mapping.h"
#include "store/right.h"

/* ---- guards (FT8, FT9) ---- */

bool guard_allows(struct view *v, vaddr_t at, enum view_want want)
{
    return v->last.rights & RIGHTS_GUARDED &&
           (v->txn.meant || v->snapshot_rights || want != WANT_WRITE ||
            right_state(right_at(v, page_down(at))) & (RIGHT_COPY | RIGHT_SPILLED));
}

void guard_key(struct view *v, vaddr_t at)
{
    lock_acquire(&v->lock);
    if (v->last.object->flags & KD_OBJECT_ITEMS)
        right_guard(v, page_down(at));
    lock_release(&v->lock);
}

static const char *access_text(unsigned flags)
{
    return flags & FAULT_EXECUTE ? "jump to" : flags & FAULT_WRITE ? "store to" : "load from";
}

static int kill_for(unsigned flags, vaddr_t at, const char *why, const char *name)
{
    if (flags & FAULT_FROM_KERNEL)
        return -EFAULT;
    if (!process_seam.fault(SIGNAL_ACCESS, SIGNAL_CODE_NOTHING, at))
        process_kill(process_this(), 139, "%s%s%s: %s 0x%lx", name ? "container " : "",
                     name ? name : "", why, access_text(flags), at);
    return -EFAULT;
}

static bool in_transaction(void)
{
    const struct view *v = thread_this()->view;
    return v && v->state == VIEW_ACTIVE;
}

int fault_outside(vaddr_t at, unsigned flags)
{
    struct process *p = process_this();
    uint32_t rights, generation = __atomic_load_n(&p->attach_generation, __ATOMIC_SEQ_CST);
    struct object *o = object_at(p, at, &rights);
    vaddr_t shown = mapping_first(p, at, 1); /* by a window; else `at` or 0 */
    int result;
    if (!o)
        result = kill_for(flags, at, shown && shown != at ? "its window does not allow it"
                                                          : "no container lies there", NULL);
    else if (flags & FAULT_EXECUTE)
        result = kill_for(flags, at, " is not executable", o->name);
    else if (flags & FAULT_WRITE && !(rights & KD_RIGHT_WRITE))
        result = kill_for(flags, at, " is open read-only", o->name);
    else if (flags & FAULT_KEY)
        result = kill_for(flags, at, " is guarded, and no access is open (ps_write opens one)",
                          o->name);
    else if (o->flags & KD_OBJECT_GUARD && flags & FAULT_WRITE && in_transaction())
        result = kill_for(flags, at,
                          " is guarded, and the page was not touched (ps_touch, ps_write)",
                          o->name);
    else if (o->flags & KD_OBJECT_TRANSACTIONAL)
        result = kill_for(flags, at, " touched outside a transaction", o->name);
    else {
        result = object_plain_fault(o, thread_this()->view, at, flags & FAULT_WRITE, generation);
        if (result && !thread_this()->killed)
            result = kill_for(flags, at,
                              result == -ETIMEDOUT ? ": its manager did not answer in time"
                                                   : ": its manager failed the page", o->name);
    }
    if (o)
        object_put(o);
    return result;
}

int fault_memory(struct trap_frame *f, vaddr_t at, unsigned flags)
{
    enum { STACK_NEAR_BYTES = 64 << 10 }; /* so near the stack pointer it is the stack that grew */
    struct process *p = process_this();
    assert(p);
    int e = flags & FAULT_KEY ? -EACCES : vm_fault(p, at, flags);
    int signal = e == -EIO ? SIGNAL_BUS : SIGNAL_ACCESS;
    if (e && !(flags & FAULT_FROM_KERNEL) && !thread_this()->killed
        && (e == -ENOMEM || !process_seam.fault(
                signal, e == -EFAULT ? SIGNAL_CODE_NOTHING : SIGNAL_CODE_REFUSED, at)))
        process_kill(p, 128 + signal, "%s: %s 0x%lx",
                     e == -ENOMEM
                         ? limit_memory_left(p) ? "out of memory" : "its memory limit is reached"
                     : flags & FAULT_KEY ? "its protection keys do not allow it"
                     : !(flags & FAULT_EXECUTE) &&
                             at - trap_stack_pointer(f) + STACK_NEAR_BYTES < 2 * STACK_NEAR_BYTES
                         /* a thread's ends at a page without rights, the first one's at none */
                         ? "stack overflow"
                         : e == -EACCES ? "access not allowed"
                           : e == -EIO  ? "its file has no such bytes"
                                        : "nothing is mapped there",
                     access_text(flags), at);
    return e ? -EFAULT : 0;
}

/* ---- page tables, windows ---- */

/* table_memory is leaf_memory for a page table of the view's. Tables of windows make room for it;
 * where its process has no room still, all rights go with the end. */
int table_memory(struct view *v)
{
    bool full = limit_left(v->process, KD_LIMIT_MEMORY) < 3;
    lock_acquire(&v->lock);
    bool more = v->aliases || !list_empty(&v->tables.cut);
    if (v->aliases)
        right_aliases_drop(v);
    else if (full && !more)
        right_owe_all(v);
    lock_release(&v->lock);
    return more ? -EAGAIN : full ? -ENOMEM : leaf_memory(v, 0);
}

/* window_fault serves a touch of a window as one of the page's first address, and then lets the
 * window's entry follow (WI3). If the right goes in between, the touch faults again. */
int window_fault(vaddr_t at, unsigned flags)
{
    struct thread *t = thread_this();
    struct mapping m;
    bool write = flags & FAULT_WRITE, here = mapping_at(t->process, at, &m);
    if (!here || (write && !(m.rights & KD_RIGHT_WRITE)) || flags & FAULT_EXECUTE)
        return fault_outside(at, flags);
    if (flags & FAULT_KEY)
        return fault_outside(at - m.at + m.first, flags);
    for (int e = 0, looks = 0;; looks++) {
        struct view *v = t->view ? t->view : t->process->plain;
        bool active = v && v->state == VIEW_ACTIVE;
        int made = v ? right_alias(v, page_down(at), write) : -EAGAIN;
        if (made == -ENOMEM && (made = table_memory(v)) != -EAGAIN)
            return active ? fault_ended(v, made) : fault_outside(at, flags);
        if (!made || looks)
            return 0;
        vaddr_t first = at - m.at + m.first;
        if ((e = active ? store_touch(v, first, flags) : fault_outside(first, flags)))
            return e;
    }
}
