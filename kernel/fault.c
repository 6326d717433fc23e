/*
 * fault.c - page faults, and how a transaction gets a right to a page (D: F1..F7).
 *
 * The path without a conflict never leaves the kernel and takes three locks: the process's list of
 * attached objects, the page's leaf, the view.
 *
 * What F7 needs (credit, frame, record) is taken before the leaf lock and kept "in hand" over
 * retries (G4); what is left in hand goes back at the transaction's end.
 */
#include "view.h"

static const char *access_text(unsigned flags)
{
    return flags & FAULT_EXECUTE ? "jump to" : flags & FAULT_WRITE ? "store to" : "load from";
}

/* ---- F7: what a write needs ---- */

/* 0: credit, frame and record are in hand; -EAGAIN: waited, look again; -errno: doom. */
static int hands_fill(struct view *v, struct object *o)
{
    struct port *port = o->commit_port;
    if (v->enlisted && v->enlisted != port)
        return -EXDEV;
    if (v->pages_max && v->copy_count >= v->pages_max)
        return -E2BIG;
    if (!v->enlisted) {
        port_get(port);
        v->enlisted = port;
    }
    if (!v->credit_hand) {
        int e = credit_take(v, port);
        if (e)
            return e;
        v->credit_hand = port;
    }
    if (!v->copy_hand && !(v->copy_hand = kalloc(sizeof(struct copy))))
        return -ENOMEM;
    if (!v->frame_hand) {
        v->frame_hand = frame_alloc_raw(false);
        if (!v->frame_hand && !(v->frame_hand = evict_frame()))
            return v->doom ? -EAGAIN : -ENOMEM;
    }
    return 0;
}

/* X: writer = v, copy, PTE = COPY, invlpg: the frame changed. Leaf and view locked. */
static void grant_copy(struct view *v, struct leaf *l, unsigned slot, pte_t *pte)
{
    struct page *p = &l->pages[slot];
    struct copy *c = v->copy_hand;
    c->leaf = l;
    c->slot = (uint16_t)slot;
    c->view = v->id;
    c->frame = v->frame_hand;
    c->at = page_address(l, slot);
    c->changed = false;
    v->copy_hand = NULL;
    v->frame_hand = NULL;
    v->credit_hand = NULL;
    v->credits++;
    page_copy(frame_memory(c->frame), frame_memory(p->frame));
    p->writer = (int16_t)v->id;
    list_push_back(&v->copies, &c->link);
    v->copy_count++;
    pte_t old = pte_exchange(pte, pte_make(frame_paddr(c->frame),
                                           PTE_PRESENT | PTE_USER | PTE_WRITE | PTE_NX |
                                               PTE_ACCESSED | PTE_DIRTY | PTE_COPY));
    if (pte_present(old))
        arch_flush_page(c->at);
    count(grants_exclusive);
}

/* S, or X for reading: the current version, read-only, with A = 1: the faulting access uses it. */
static void grant_shared(struct view *v, struct page *p, pte_t *pte)
{
    pte_exchange(pte, pte_make(frame_paddr(p->frame), PTE_PRESENT | PTE_USER | PTE_NX |
                                                          PTE_ACCESSED));
    if (v->want == WANT_READ_FOR_WRITE) {
        p->writer = (int16_t)v->id;
        if (p->rmw)
            p->rmw--;
    }
    count(grants_shared);
}

/* F3: a snapshot sees the newest version that is not younger than it. */
static int snapshot_map(struct view *v, struct leaf *l, unsigned slot, pte_t *pte)
{
    struct page *p = &l->pages[slot];
    struct frame *f = NULL;
    if (v->mode == KD_DIRTY_READ || p->sequence <= v->snapshot) {
        f = p->frame;
    } else {
        struct copy *old = version_find(p, v->snapshot);
        if (old)
            f = old->frame;
    }
    if (!f)
        return -ESTALE;
    lock_acquire(&v->lock);
    pte_exchange(pte, pte_make(frame_paddr(f), PTE_PRESENT | PTE_USER | PTE_NX | PTE_ACCESSED));
    vmask_set(&p->mask, v->id);
    lock_release(&v->lock);
    return 0;
}

/* With KD_OBJECT_ASK each first touch is the manager's decision. 0: it agreed; -EAGAIN. */
static int ask_manager(struct view *v, struct object *o, vaddr_t at, int access)
{
    if (v->ask_at == at && v->ask_access >= access && v->ask_answer == 0)
        return 0;
    v->ask_at = at;
    v->ask_access = access;
    __atomic_store_n(&v->ask_answer, ANSWER_NONE, __ATOMIC_RELEASE);
    v->lock_item.kind = ITEM_LOCK;
    v->lock_item.process = (uint64_t)v->process->pid;
    uint64_t *w = v->lock_item.word;
    w[0] = o->cookie, w[1] = (at - o->base) >> PAGE_SHIFT, w[2] = (uint64_t)access;
    w[3] = v->id, w[4] = (uint64_t)o->handle;
    __atomic_fetch_add(&v->process->stats.manager_calls, 1, __ATOMIC_RELAXED);
    if (!port_post(o->port, &v->lock_item))
        return -EOWNERDEAD;
    int answer, e = 0;
    while ((answer = __atomic_load_n(&v->ask_answer, __ATOMIC_ACQUIRE)) == ANSWER_NONE) {
        if (v->doom || o->dead || e) {
            port_withdraw(o->port, &v->lock_item);
            v->ask_at = 0;
            return o->dead ? -EOWNERDEAD : e == -ETIMEDOUT ? e : -EAGAIN;
        }
        e = thread_park_until(v->deadline_ns);
    }
    if (answer)
        v->ask_at = 0;
    return answer ? -answer : 0;
}

static bool sufficient(pte_t e, enum view_want want)
{
    return pte_present(e) && (want != WANT_WRITE || pte_writable(e));
}

/* One look at the page, F2 to F7. 0: granted; -EAGAIN: look again (it waited); else an errno. */
static int fault_look(struct view *v, struct object *o, struct leaf *l, unsigned slot, pte_t *pte)
{
    struct page *p = &l->pages[slot];
    bool write = v->want == WANT_WRITE;
    lock_acquire(&l->lock);
    if (o->dead || v->attach_generation != __atomic_load_n(&v->process->attach_generation,
                                                           __ATOMIC_SEQ_CST)) {
        lock_release(&l->lock); /* what was looked up is not so any more */
        return o->dead ? -EOWNERDEAD : -ENXIO;
    }
    if (!page_resident(p) || (write && p->flags & PAGE_NO_WRITE)) { /* F2 */
        int e = page_request(l, slot, write ? KD_WRITE : KD_READ, v, v->deadline_ns);
        return e ? e : -EAGAIN;
    }
    pte_t e = pte_load(pte);
    int result = 0;
    if (v->snapshot_rights) {
        result = snapshot_map(v, l, slot, pte);
        goto out;
    }
    if (e & PTE_HELD && v->want == WANT_READ) { /* F4 */
        lock_acquire(&v->lock);
        pte_exchange(pte, pte_make(frame_paddr(p->frame),
                                   PTE_PRESENT | PTE_USER | PTE_NX | PTE_ACCESSED | PTE_USED));
        lock_release(&v->lock);
        goto out;
    }
    if (v->want == WANT_READ && (p->rmw || (v->want_x_count && want_x_has(v, page_address(l, slot)))))
        v->want = WANT_READ_FOR_WRITE;
    switch (conflict_test(v, l, slot, e)) {
    case CONFLICT_GRANT:
        queue_leave(v);
        lock_acquire(&v->lock);
        vmask_set(&p->mask, v->id); /* P3 */
        if (write)
            grant_copy(v, l, slot, pte);
        else
            grant_shared(v, p, pte);
        lock_release(&v->lock);
        break;
    case CONFLICT_BLOCKED:
        lock_release(&l->lock);
        __atomic_fetch_add(&v->process->stats.lock_waits, 1, __ATOMIC_RELAXED);
        result = thread_park_until(v->deadline_ns);
        return result == -ETIMEDOUT ? result : -EAGAIN; /* R6: from F1, keeping the place */
    case CONFLICT_DOOMED: result = -EAGAIN; break;
    }
out:
    lock_release(&l->lock);
    return result;
}

static void queue_leave_locked(struct view *v)
{
    struct leaf *l = v->queue_leaf;
    if (!l)
        return;
    lock_acquire(&l->lock);
    queue_leave(v);
    lock_release(&l->lock);
}

/* The entry for `at`, with its tables made. They stay as long as the view, so the last one found is
 * kept. */
static pte_t *own_pte(struct view *v, vaddr_t at)
{
    enum { REACH_BYTES = 512 * PAGE_BYTES };
    if (at - v->last_base >= REACH_BYTES || !v->last_ptes) {
        vaddr_t base = at & ~(vaddr_t)(REACH_BYTES - 1);
        pte_t *ptes = arch_pte(v->table, base, true);
        if (!ptes)
            return NULL;
        v->last_ptes = ptes;
        v->last_base = base;
    }
    return v->last_ptes + ((at - v->last_base) >> PAGE_SHIFT);
}

int view_fault(struct view *v, struct object *o, vaddr_t at, enum view_want want)
{
    at &= ~(vaddr_t)(PAGE_BYTES - 1);
    uint64_t index = (at - o->base) >> PAGE_SHIFT;
    unsigned slot = (unsigned)(index % LEAF_PAGES);
    struct leaf *l = object_leaf(o, index, true);
    pte_t *pte = own_pte(v, at);
    int e = l && pte ? 0 : -ENOMEM;
    if (want == WANT_WRITE && v->snapshot_rights)
        e = -EROFS;
    struct thread *me = thread_this();
    while (!e) {
        if (v->doom || me->killed) { /* F1 */
            e = -ECANCELED;
            break;
        }
        if (sufficient(pte_load(pte), want))
            break;
        v->want = (uint8_t)want;
        if (o->flags & KD_OBJECT_ASK && (e = ask_manager(v, o, at, want == WANT_WRITE ? 2 : 1)))
            goto next;
        if (want == WANT_WRITE && (e = hands_fill(v, o)))
            goto next;
        e = fault_look(v, o, l, slot, pte);
        if (!e)
            break;
    next:
        if (e == -EAGAIN)
            e = 0;
    }
    if (v->queue_page)
        queue_leave_locked(v);
    if (e == -ENXIO) /* the caller looks the address up again */
        return e;
    if (e && e != -ECANCELED) {
        view_doom(v, -e);
        e = -ECANCELED;
    }
    if (e && !v->doom)
        view_doom(v, EINTR);
    return e;
}

/* The transactional object at `at`, by what the view found last if that still holds. Not counted: it
 * is the view's own reference. */
static struct object *view_object_at(struct view *v, vaddr_t at, uint32_t *rights)
{
    struct object *o = v->last_object;
    uint32_t generation = __atomic_load_n(&v->process->attach_generation, __ATOMIC_SEQ_CST);
    if (!o || v->attach_generation != generation || at - o->base >= o->pages << PAGE_SHIFT) {
        o = object_at(v->process, at, &v->last_rights);
        view_forget_object(v);
        v->attach_generation = generation; /* read before the look: if it changed, it is seen */
        v->last_object = o;
    }
    *rights = v->last_rights;
    return o;
}

int view_touch(struct view *v, vaddr_t at, bool write)
{
    uint32_t rights;
    for (;;) {
        struct object *o = view_object_at(v, at, &rights);
        if (!o)
            return -EFAULT;
        if (!(o->flags & KD_OBJECT_TRANSACTIONAL))
            return -EINVAL;
        if (write && !(rights & KD_RIGHT_WRITE))
            return -EACCES;
        int e = view_fault(v, o, at, write ? WANT_WRITE : WANT_READ);
        if (e != -ENXIO)
            return e;
    }
}

/* ---- the entry from the trap ---- */

static int kill_for(struct trap_frame *f, unsigned flags, vaddr_t at, const char *why,
                    const char *name)
{
    (void)f;
    if (flags & FAULT_FROM_KERNEL)
        return -EFAULT;
    process_kill(process_this(), 139, "%s%s%s: %s 0x%lx", name ? "container " : "",
                 name ? name : "", why, access_text(flags), at);
    return -EFAULT;
}

/* What cannot be served ends the program with the reason. */
static int store_fault_bad(struct trap_frame *f, vaddr_t at, unsigned flags)
{
    struct process *p = process_this();
    uint32_t rights;
    struct object *o = object_at(p, at, &rights);
    int result;
    if (!o)
        result = kill_for(f, flags, at, "no container lies there", NULL);
    else if (flags & FAULT_EXECUTE)
        result = kill_for(f, flags, at, " is not executable", o->name);
    else if (flags & FAULT_WRITE && !(rights & KD_RIGHT_WRITE))
        result = kill_for(f, flags, at, " is open read-only", o->name);
    else if (o->flags & KD_OBJECT_TRANSACTIONAL)
        result = kill_for(f, flags, at, " touched outside a transaction", o->name);
    else {
        result = object_plain_fault(o, thread_this()->view, at, flags & FAULT_WRITE);
        if (result && !thread_this()->killed)
            result = kill_for(f, flags, at, ": its manager failed the page", o->name);
    }
    if (o)
        object_put(o);
    return result;
}

static int store_fault(struct trap_frame *f, vaddr_t at, unsigned flags)
{
    struct view *v = thread_this()->view;
    if (!v || v->state != VIEW_ACTIVE || flags & FAULT_EXECUTE)
        return store_fault_bad(f, at, flags);
    struct kd_view_stats *stats = &v->process->stats;
    __atomic_fetch_add(flags & FAULT_WRITE ? &stats->write_faults : &stats->read_faults, 1,
                       __ATOMIC_RELAXED);
    int e = view_touch(v, at, flags & FAULT_WRITE);
    if (e == -EFAULT || e == -EINVAL || e == -EACCES)
        return store_fault_bad(f, at, flags);
    return flags & FAULT_FROM_KERNEL ? e : 0; /* a doom takes effect on the way back */
}

int trap_page_fault(struct trap_frame *f, vaddr_t at, unsigned flags)
{
    struct process *p = process_this();
    assert(p);
    if (flags & FAULT_WRITE)
        count(write_faults);
    else
        count(read_faults);
    if (at >= KD_STORE_BASE && at < KD_STORE_END)
        return store_fault(f, at, flags);
    int e = vm_fault(p, at, flags);
    if (e && !(flags & FAULT_FROM_KERNEL) && !thread_this()->killed)
        process_kill(p, 139, "%s: %s 0x%lx",
                     e == -ENOMEM ? "out of memory"
                     : e == -EACCES ? "access not allowed"
                                    : "nothing is mapped there",
                     access_text(flags), at);
    return e ? -EFAULT : 0;
}
