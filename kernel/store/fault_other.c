/*
 * fault_other.c - faults that no transaction serves: memory of the process itself, objects that are
 * not transactional, and forbidden touches, which end the program with the reason; guards.
 *
 * Locks: none are held on entry.
 */
#include "base/signal.h"
#include "store/evict.h"
#include "store/fault.h"
#include "store/grant.h"
#include "store/mapping.h"

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

/* plain_looks is plain_fault, which ends the wait *w. */
static int plain_looks(struct object *o, struct view *v, struct page_wait *w, vaddr_t at,
                       bool write, uint32_t generation)
{
    struct process *process = process_this();
    uint64_t index = (at - o->base) >> PAGE_SHIFT, vain = 0;
    unsigned slot = (unsigned)(index % LEAF_PAGES);
    if (!v && !(v = view_plain(process)))
        return -ENOMEM;
    for (;;) {
        if (thread_this()->killed)
            return -EINTR;
        struct leaf *l = leaf_lock(o, index);
        if (!l)
            return o->dead ? -EOWNERDEAD : -ENOMEM;
        struct page *p = &l->pages[slot];
        if (o->dead ||
            generation != __atomic_load_n(&process->attach_generation, __ATOMIC_SEQ_CST)) {
            lock_release(&l->lock); /* a detach that has passed this leaf would not see the PTE */
            return o->dead ? -EOWNERDEAD : 0; /* who may not touch it any more faults again */
        }
        if (!page_resident(p) || page_closed(p, false, w->rights, write)) {
            unsigned access = (write ? KD_WRITE : KD_READ) | (page_resident(p) ? KD_PAGE_HERE : 0);
            int e = page_request(w, l, slot, access, 1, ~0ull);
            if (e && e != -EAGAIN)
                return e;
            continue;
        }
        lock_acquire(&v->lock);
        pte_t *pte = view_pte_make(v, at);
        if (pte)
            right_plain(v, l, p, pte, write);
        lock_release(&v->lock);
        if (write && pte) {
            if (!(p->flags & PAGE_DIRTY))
                dirty_count(o, 1);
            p->flags |= PAGE_DIRTY | PAGE_MAPPED_WRITE;
        }
        lock_release(&l->lock);
        if (pte)
            return 0;
        if (!evict_wait(&vain))
            return -ENOMEM;
    }
}

/* plain_fault serves a fault on an object that is not transactional. `generation`: the process's
 * attach_generation before the object was looked up; if it has changed, nothing is done. */
static int plain_fault(struct object *o, struct view *v, vaddr_t at, bool write,
                       uint32_t generation)
{
    struct page_wait w;
    page_wait_init(&w, NULL);
    int e = plain_looks(o, v, &w, at, write, generation);
    struct leaf *l = w.leaf; /* it stays as long as w is in its list */
    if (l) {
        lock_acquire(&l->lock);
        page_wait_over(&w);
        lock_release(&l->lock);
    }
    return e;
}

/* forbidden tells why an object allows no such touch outside transactions; NULL: it does. */
static const char *forbidden(const struct object *o, unsigned flags, uint32_t rights)
{
    const struct view *v = thread_this()->view;
    bool write = flags & FAULT_WRITE, within = v && v->state == VIEW_ACTIVE;
    return flags & FAULT_EXECUTE                 ? " is not executable"
           : write && !(rights & KD_RIGHT_WRITE) ? " is open read-only"
           : flags & FAULT_KEY ? " is guarded, and no access is open (ps_write opens one)"
           : write && o->flags & KD_OBJECT_GUARD && within
               ? " is guarded, and the page was not touched (ps_touch, ps_write)"
           : o->flags & KD_OBJECT_TRANSACTIONAL ? " touched outside a transaction" : NULL;
}

int fault_outside(vaddr_t at, unsigned flags)
{
    struct process *p = process_this();
    uint32_t rights, generation = __atomic_load_n(&p->attach_generation, __ATOMIC_SEQ_CST);
    struct object *o = object_at(p, at, &rights);
    vaddr_t shown = mapping_first(p, at, 1); /* by a window; else `at` or 0 */
    const char *why = o                      ? forbidden(o, flags, rights)
                      : shown && shown != at ? "its window does not allow it"
                                             : "no container lies there";
    const struct thread *t = thread_this();
    int e = why ? -EFAULT : plain_fault(o, t->view, at, flags & FAULT_WRITE, generation);
    if (!why && e && !t->killed)
        why = e == -ETIMEDOUT ? ": its manager did not answer in time"
                              : ": its manager failed the page";
    if (why)
        e = kill_for(flags, at, why, o ? o->name : NULL);
    if (o)
        object_put(o);
    return e;
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
