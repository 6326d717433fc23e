/*
 * holder.c - holders: views that keep rights for another site, and transactions that work for them
 * (holders.md).
 *
 * HO1  A holder touches nothing: its entries are EMPTY or HELD. Nobody enters it, it waits for
 *      nobody, so it is in no cycle, and its rights stand until they are released or it is closed.
 * HO2  What a transaction is given its holder has from the same section on, and keeps behind its
 *      end. A copy is the transaction's alone; when it is gone, the holder has the page
 *      exclusively.
 * HO3  What a holder has its transactions take before queues, recalls and locks of containers.
 * HO4  Each view that begins to wait for a holder is told to the holder's port, alone or in what
 *      KD_VIEW_LIST says then; so is a recall.
 * HO5  What is released none of its transactions has; who waits is woken, and who calls back told.
 * HO6  Rights of a holder that stays outlive its thread and process; nothing else of it does.
 *
 * Locks: leaf, one view, graph, port.
 */
#include "process/handle.h"
#include "store/holder.h"

static uint32_t holders;  /* atomic: so many there are */

/* ---- begin and end ---- */

int holder_begin(struct view *v, const struct kd_begin *b, vaddr_t at)
{
    uint32_t number = v->id;
    __atomic_fetch_add(&holders, 1, __ATOMIC_SEQ_CST);
    struct port *port = handle_find(b->port - 1, HANDLE_PORT, KD_RIGHT_RECEIVE, port_get);
    if (handle_failed(port))
        return (int)(long)port;
    struct badge *until = b->locked ? handle_find((int)b->locked - 1, HANDLE_BADGE, 0, badge_get)
                                    : NULL;
    bool wrong = handle_failed(until);
    lock_acquire(&v->lock);
    v->notices.conflict_port = port;
    v->notices.stays_by = wrong ? NULL : until;
    v->notices.stays_ns = (uint64_t)b->timeout_ms * 1000000;
    lock_release(&v->lock);
    view_leave(v);
    return wrong ? (int)(long)until
                 : copy_to_user(at + offsetof(struct kd_begin, view), &number, sizeof number);
}

void holder_end(struct view *v)
{
    if (v->txn.mode != KD_HOLDER)
        return;
    __atomic_fetch_sub(&holders, 1, __ATOMIC_SEQ_CST);
    if (v->notices.stays_by)
        badge_put(v->notices.stays_by);
    v->notices.stays_by = NULL;
    v->notices.stays_ns = 0;
}

static bool left_by(const struct view *v, const struct thread *t)
{
    return v->state == VIEW_ACTIVE && v->owner == t && v->handle == HANDLE_FORSAKEN;
}

void holders_left(void)
{
    enum { LOOK_NS = 5000000 };
    uint64_t left = arch_time_ns();
    for (struct view *v = views; v < views + KD_VIEW_MAX; v++) {
        if (!left_by(v, thread_this()))
            continue;
        const struct badge *by = v->notices.stays_by;
        uint64_t end = left + v->notices.stays_ns;
        while (arch_time_ns() < end && !v->doom && !(by && badge_ended(by)))
            (void)thread_park_until_uninterrupted(MIN(end, arch_time_ns() + LOOK_NS));
        struct process *p = v->process;
        view_abort(v, EINTR);
        view_destroy(v);
        attachments_end_left(p);
    }
}

int heir_begin(struct view *v, const struct kd_begin *b)
{
    struct view *h = handle_find(b->heir - 1, HANDLE_VIEW, 0, handle_uncounted);
    if (handle_failed(h))
        return (int)(long)h;
    lock_acquire(&h->lock);
    bool holds = view_holds(h) && h->handle == b->heir - 1 && h->process == v->process;
    uint64_t ticket = h->txn.ticket;
    int e = !holds || v->txn.ticket < ticket ? -EINVAL : h->doom ? -EOWNERDEAD : 0;
    lock_release(&h->lock);
    if (e)
        return e;
    view_forget_object(v); /* object_look_up is to see each */
    lock_acquire(&v->lock);
    if (!v->txn.bare)
        right_drop(v, true, false); /* those of before are not the holder's */
    v->txn.heir = (int16_t)h->id;
    v->txn.heir_ticket = ticket;
    lock_release(&v->lock);
    return 0;
}

/* heir_lock locks the holder that v works for. NULL: it is over, or doomed. */
static struct view *heir_lock(const struct view *v)
{
    struct view *h = &views[v->txn.heir];
    lock_acquire(&h->lock);
    if (view_holds(h) && h->txn.ticket == v->txn.heir_ticket && !h->doom)
        return h;
    lock_release(&h->lock);
    return NULL;
}

/* ---- rights ---- */

bool heir_has_it(const struct view *v, const struct leaf *l, unsigned slot)
{
    struct view *h = heir_lock(v);
    if (!h)
        return false;
    bool has = right_at(h, page_address(l, slot)) &&
               (v->wait.want == WANT_READ || l->pages[slot].writer == h->id);
    lock_release(&h->lock);
    return has;
}

int heir_share(const struct view *v, struct leaf *l, unsigned slot)
{
    struct view *h = heir_lock(v);
    if (!h)
        return -EOWNERDEAD;
    bool made = view_pte_make(h, page_address(l, slot));
    if (made)
        right_keep(h, l, slot);
    lock_release(&h->lock);
    return made ? 0 : -ENOMEM;
}

void heir_owes(struct view *v, struct leaf *l, unsigned slot)
{
    lock_acquire(&v->lock);
    right_owe(v, page_address(l, slot));
    lock_release(&v->lock);
    if (v->wait.want == WANT_READ_FOR_WRITE)
        heir_gets_back(v, &l->pages[slot]);
}

void heir_gets_back(const struct view *v, struct page *p)
{
    struct view *h = heir_lock(v);
    if (!h)
        return;
    p->writer = (int16_t)h->id;
    lock_release(&h->lock);
}

void heir_looks(struct view *v, const struct object *o)
{
    if (o && heir_is(v) && o->flags & (KD_OBJECT_ITEMS | KD_OBJECT_UNLOCKED))
        view_doom(v, EOPNOTSUPP);
}

bool heir_opens(struct view *v, struct leaf *l, unsigned slot)
{
    struct page_wait *w = &v->supply;
    if (!page_resident(&l->pages[slot]) || !heir_has_it(v, l, slot))
        return false;
    page_wait_over(w);
    w->leaf = l;
    w->slot = (uint8_t)slot;
    w->number = 0;
    w->error = 0;
    w->rights = KD_READ | KD_WRITE;
    w->done = true;
    list_push_back(&l->waits, &w->link);
    return true;
}

bool heirs_use(const struct view *holder, struct leaf *l, unsigned slot)
{
    bool use = false;
    views_each_locked(v, &l->pages[slot].mask)
        use |= (v->state == VIEW_ACTIVE || v->state == VIEW_COMMITTING) &&
               v->txn.heir == holder->id && v->txn.heir_ticket == holder->txn.ticket &&
               right_at(v, page_address(l, slot));
    return use;
}

bool heirs_lack(const struct vmask *heirs, const struct vmask *rights, vaddr_t at)
{
    struct vmask lack = {0};
    bool is = false;
    vmask_for(i, heirs) {
        struct view *h = heir_is(&views[i]) ? heir_lock(&views[i]) : NULL;
        if (h && !vmask_test(rights, h->id))
            vmask_set(&lack, (unsigned)i);
        if (h)
            lock_release(&h->lock);
    }
    views_each_locked(v, &lack)
        is |= right_at(v, at) != 0; /* else it has ended meanwhile, and its holder was another */
    return is;
}

const char *holder_wrong(const struct view *v, pte_t e)
{
    return view_holds(v) && right_state(e) & ~(RIGHT_EMPTY | RIGHT_HELD)
               ? "a holder has more than a right (HO1)" : NULL;
}

/* ---- notices ---- */

/* tell posts a notice of the holder's; `more`: what stood there unheard is to be looked for
 * (KD_VIEW_LIST). View locked. */
static void tell(struct view *h, vaddr_t at, uint64_t pages, const struct view *v)
{
    struct item *i = &h->notices.conflict;
    struct port *port = h->notices.conflict_port;
    if (!view_holds(h) || !port)
        return;
    bool more = port_withdraw(port, i);
    item_say(i, ITEM_WANTED, 0, h->id, at, pages,
             v && v->wait.want != WANT_READ ? KD_WRITE : KD_READ, v ? v->id : h->id,
             v ? v->txn.ticket : 0, more, (uint64_t)h->doom);
    port_post(port, i);
}

/* holder_recall tells of a recall by another notice. Of two unheard ones it becomes one of all that
 * lies between, as there is no list of them. */
static void holder_recall(struct view *h, vaddr_t at, uint64_t pages, unsigned access)
{
    struct item *i = &h->supply.item; /* it has no faults */
    struct port *port = h->notices.conflict_port;
    vaddr_t end = at + (pages << PAGE_SHIFT);
    if (!view_holds(h) || !port)
        return;
    if (port_withdraw(port, i)) {
        at = MIN(at, i->word[1]);
        end = MAX(end, i->word[1] + (i->word[2] << PAGE_SHIFT));
        access |= (unsigned)i->word[3];
    }
    item_say(i, ITEM_WANTED, 0, h->id, at, (end - at) >> PAGE_SHIFT, access & KD_WRITE ?: KD_READ,
             h->id);
    port_post(port, i);
}

void holders_recall(const struct vmask *users, vaddr_t at, uint64_t pages, unsigned access)
{
    if (__atomic_load_n(&holders, __ATOMIC_SEQ_CST))
        views_each_locked(h, users)
            holder_recall(h, at, pages, access);
}

void holder_unheard(struct view *h) { port_withdraw(h->notices.conflict_port, &h->supply.item); }

void holders_tell(const struct view *v, vaddr_t at, uint64_t pages)
{
    struct vmask m = v->wait.holders;
    if (__atomic_load_n(&holders, __ATOMIC_SEQ_CST))
        views_each_locked(h, &m)
            tell(h, at, pages, v);
}

void holder_doomed(struct view *h) { tell(h, 0, 0, NULL); }
