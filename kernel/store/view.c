/*
 * view.c - views: create, enter, begin, end, abort, and their calls (view.h has states and PTEs).
 *
 * Locks: view->lock; see view.h. The table of views is taken under views_lock.
 */
#include "store/commit.h"
#include "store/fault.h"
#include "store/holder.h"
#include "store/item.h"
#include "store/mapping.h"
#include "store/parts.h"
#include "store/right.h"
#include "store/spill.h"
#include "store/stack.h"
#include "store/wait.h"

#include "process/handle.h"

struct view views[KD_VIEW_MAX];
const struct vmask views_all = {{~0ull, ~0ull}};
struct kd_system_info counters;
static struct lock views_lock = LOCK_INIT(RANK_VIEWS, "views");

void view_init(void)
{
    for (unsigned i = 0; i < KD_VIEW_MAX; i++) {
        struct view *v = &views[i];
        v->id = (uint16_t)i;
        vmask_set(&v->self, i);
        lock_init(&v->lock, RANK_VIEW, "view");
        list_init(&v->copies.resident);
        list_init(&v->copies.spilled);
        list_init(&v->tables.cut);
        list_init(&v->wait.link);
        list_init(&v->credits.link);
        list_init(&v->wait.lock_link);
        list_init(&v->items.link);
        version_snapshot_init(&v->snapshot.seen);
        list_init(&v->question.item.link);
        page_wait_init(&v->supply, v);
        list_init(&v->notices.conflict.link);
    }
    item_locks_init();
}

uint64_t view_copy_count(void)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < KD_VIEW_MAX; i++)
        sum += views[i].copies.count;
    return sum;
}

struct vmask view_tabled;

pte_t *view_pte_make(struct view *v, vaddr_t at)
{
    enum { MOST = 3 };
    pte_t *pte = arch_pte(v->table, at, NULL);
    if (pte || !limit_charge(v->process, KD_LIMIT_MEMORY, MOST))
        return pte;
    uint64_t made = 0;
    pte = arch_pte(v->table, at, &made);
    v->tables.charged += made;
    vmask_mark(&view_tabled, v->id, true);
    limit_uncharge(v->process, KD_LIMIT_MEMORY, MOST - made);
    return pte;
}

void view_tables_gone(struct view *v, uint64_t n)
{
    v->tables.charged -= n;
    limit_uncharge(v->process, KD_LIMIT_MEMORY, n);
}

struct view *view_lock_next(struct view *v, const struct vmask *m)
{
    int next = vmask_next(m, v ? v->id + 1u : 0);
    if (v)
        lock_release(&v->lock);
    if (next < 0)
        return NULL;
    lock_acquire(&views[next].lock);
    return &views[next];
}

/* view_show lets t, the calling thread, work in v from now on; NULL: in none. */
static void view_show(struct thread *t, struct view *v)
{
    t->view = v;
    t->view_number = v ? (uint8_t)(v->id + 1) : 0;
    thread_use_table();
}

void view_leave(struct view *v)
{
    if (v->owner->view == v)
        view_show(v->owner, NULL);
}

/* ---- create and close ---- */

static struct view *view_take(struct process *p, uint8_t state)
{
    struct view *found = NULL;
    if (!limit_charge(p, KD_LIMIT_VIEWS, 1))
        return NULL;
    lock_acquire(&views_lock);
    unsigned end = limit_may_take_kept(p) ? KD_VIEW_MAX : KD_VIEW_MAX - VIEWS_KEPT;
    views_each_locked(v, &views_all) {
        if (found || v->state != VIEW_FREE || v->id >= end)
            continue;
        found = v;
        v->state = state;
        v->process = p;
    }
    lock_release(&views_lock);
    if (!found)
        limit_uncharge(p, KD_LIMIT_VIEWS, 1);
    return found;
}

/* view_give gives back a view without copies, in no queue; its table is the caller's from now
 * on. */
static void view_give(struct view *v)
{
    limit_uncharge(v->process, KD_LIMIT_VIEWS, 1);
    lock_acquire(&v->lock);
    view_tables_gone(v, v->tables.charged);
    v->table = 0;
    v->aliases = false;
    v->owner = NULL;
    v->process = NULL;
    v->txn.ticket = 0;
    v->state = VIEW_FREE; /* last: from here on another process may have it */
    lock_release(&v->lock);
}

struct view *view_plain(struct process *p)
{
    struct view *v = __atomic_load_n(&p->plain, __ATOMIC_ACQUIRE);
    if (v || !(v = view_take(p, VIEW_PLAIN)))
        return v;
    v->table = p->home.table;
    v->owner = NULL;
    struct view *none = NULL;
    if (!__atomic_compare_exchange_n(&p->plain, &none, v, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
        view_give(v);
        v = none;
    }
    return v;
}

long kd_view_create(const uint64_t a[6])
{
    (void)a;
    struct process *p = process_this();
    struct view *v = view_take(p, VIEW_IDLE);
    if (!v)
        return -ENFILE;
    objects_strip(v); /* of who had its number before */
    bool charged = limit_charge(p, KD_LIMIT_MEMORY, 1);
    paddr_t table = charged ? arch_table_new_view(p->home.table) : 0;
    long h = table ? handle_new(p, HANDLE_VIEW, v, KD_RIGHT_MANAGE) : -ENOMEM;
    lock_acquire(&v->lock);
    right_tables_new(v, table);
    v->tables.charged = charged;
    v->owner = thread_this();
    v->doom = 0;
    v->handle = (int)h;
    lock_release(&v->lock);
    if (h < 0) {
        view_give(v);
        if (table)
            arch_table_free(table, true);
    }
    return h;
}

void view_forget_object(struct view *v)
{
    if (v->last.object)
        object_put(v->last.object);
    v->last.object = NULL;
    v->last.leaf = NULL;
    v->reserve.page = NULL;
}

/* view_destroy gives up every right with the table. By the owner thread, after an abort. */
void view_destroy(struct view *v)
{
    assert(v->state == VIEW_IDLE && !v->wait.page && !v->copies.count && !v->copies.spilled_count);
    view_leave(v);
    if (v->handle >= 0)
        handle_forget(v->process, v->handle);
    view_forget_object(v);
    right_tables_free(v);
    item_view_gone(v);
    view_give(v);
}

int view_close(void *view, int handle)
{
    struct view *v = view;
    if (v->owner != thread_this() || v->handle != handle)
        return -EPERM;
    if (v->state == VIEW_ACTIVE)
        view_abort(v, ECANCELED);
    view_destroy(v);
    return 0;
}

/* view_forsake takes v out of its process; its owner, the caller, waits on for a manager that has
 * the commit, or until a holder's time is over. */
static void view_forsake(struct view *v)
{
    view_leave(v);
    handle_forget(v->process, v->handle);
    lock_acquire(&v->lock);
    v->handle = HANDLE_FORSAKEN;
    lock_release(&v->lock);
    arch_table_leave(v->table);
}

bool view_forsaken(const struct process *p, const struct port *to)
{
    bool is = false;
    if (!limit_used(p, KD_LIMIT_VIEWS))
        return false;
    views_each_locked(v, &views_all)
        is |= v->process == p && v->handle == HANDLE_FORSAKEN &&
              (view_holds(v) || (v->txn.enlisted && (!to || view_enlists(v, to))));
    return is;
}

/* view_thread_gone, in t, which ends, aborts and frees its views, but for one that commits, and
 * holders that stay (HO6). */
void view_thread_gone(struct thread *t)
{
    for (unsigned i = 0; i < KD_VIEW_MAX; i++) {
        struct view *v = &views[i];
        if (v->state == VIEW_FREE || v->state == VIEW_PLAIN || v->owner != t)
            continue;
        bool stays = holder_stays(v) && t->killed;
        if (v->state == VIEW_ACTIVE && !stays)
            view_abort(v, EINTR);
        if (v->state == VIEW_COMMITTING || stays)
            view_forsake(v);
        else
            view_destroy(v);
        thread_breathe(); /* a thread may have a hundred of them */
    }
}

void view_process_gone(struct process *p)
{
    struct view *v = p->plain;
    if (!v)
        return;
    lock_acquire(&v->lock);
    arch_tables_cut(v->table, KD_STORE_BASE, KD_WINDOW_END, &v->tables.cut); /* FR1: it goes late */
    arch_flush_all();
    lock_release(&v->lock);
    while (arch_tables_free(&v->tables.cut, 32))
        thread_breathe();
    view_give(v);
    p->plain = NULL;
}

long kd_view_enter(const uint64_t a[6])
{
    int handle = (int)a[0];
    struct thread *t = thread_this();
    struct view *v = handle < 0 ? NULL : handle_find(handle, HANDLE_VIEW, 0, handle_uncounted);
    if (handle_failed(v))
        return (long)v;
    if (v && v->owner != t)
        return -EPERM;
    if (v && view_holds(v))
        return -EBUSY; /* HO1 */
    if (t->view == v)
        return 0;
    view_show(t, v);
    return 0;
}

/* conflict_over takes the notice of a conflict back, where it may still stand (PO1). */
static void conflict_over(struct view *v)
{
    port_withdraw(v->notices.conflict_port, &v->notices.conflict);
    if (v->txn.mode == KD_HOLDER)
        holder_unheard(v);
    port_put(v->notices.conflict_port);
    v->notices.conflict_port = NULL;
}

/* view_idle makes the view IDLE (CM8, AB4) in one section: rights that others waited for go, then
 * IDLE; only then wake. Managers look at `enlisted` from outside, under the view lock. */
static inline __attribute__((always_inline)) void view_idle(struct view *v, bool drop_want_x)
{
    bool all = v->txn.strict || (v->locks.count && container_locks_wanted(v));
    lock_acquire(&v->lock);
    if (v->owed.count || drop_want_x || all)
        right_drop(v, all, drop_want_x);
    v->deliver = false;
    struct port *port = v->txn.enlisted;
    if (port) {
        limit_uncharge(v->process, KD_LIMIT_COPIES, v->credits.charged);
        v->credits.charged = 0;
    }
    /* else no search can come by: v waits for no view */
    if (v->doom || port || !waits_none(v)) {
        lock_acquire(&graph_lock);
        waits_none_now(v);
        v->doom = 0;
        lock_release(&graph_lock);
        v->txn.enlisted = NULL;
    }
    v->state = VIEW_IDLE;
    lock_release(&v->lock);
    if (port) {
        port_put(port);
        while (v->group.other_count)
            port_put(v->group.other[--v->group.other_count]);
    }
    if (unlikely(v->owed.detached)) {
        v->owed.detached = false; /* it is IDLE: nobody sets it */
        objects_strip(v);         /* its process may attach another object there */
    }
    if (v->notices.conflict_port)
        conflict_over(v);
    if (v->locks.count)
        container_locks_end(v);
    if (!vmask_empty(&v->wait.waiters))
        view_wake_waiters(v);
    if (__atomic_load_n(&view_ends_watched, __ATOMIC_SEQ_CST)) {
        container_drains_leave(v);
        recall_user_gone(v);
    }
}

static void view_return_hands(struct view *v)
{
    if (v->credits.waiting)
        credit_leave(v);
    if (v->reserve.credits)
        credit_return(v->txn.enlisted, v->reserve.credits);
    if (v->reserve.frame)
        frame_free(v->reserve.frame);
    if (v->reserve.copy)
        copy_free(v->reserve.copy);
    v->reserve = (struct view_reserve){0};
}

/* drop_first drops the first copy of a list: PTE EMPTY, flushed, writer none, frame and credit
 * back. False: there is none. */
static bool drop_first(struct view *v, struct list *from)
{
    lock_acquire(&v->lock);
    struct copy *c = list_empty(from) ? NULL : list_first(from, struct copy, link);
    lock_release(&v->lock);
    if (!c)
        return false;
    struct leaf *l = c->leaf;
    struct page *p = &l->pages[c->slot];
    struct frame *frame = NULL;
    lock_acquire(&l->lock);
    lock_acquire(&v->lock);
    bool there = !list_empty(from) && list_first(from, struct copy, link) == c;
    if (there) {
        right_drop_copy(v, p, c);
        frame = c->frame;
        view_copy_out(v, c, frame);
        waiters_wake(p);
    } /* else a sweep took it: its manager died */
    lock_release(&v->lock);
    if (there)
        heir_return(v, p);
    struct port *port = l->object->commit_port; /* v has a reference */
    lock_release(&l->lock);
    if (there)
        copy_free(c);
    if (frame) {
        frame_free(frame);
        credit_return(port, 1);
    }
    return true;
}

static void drop_copies(struct view *v, struct list *from)
{
    while (drop_first(v, from))
        thread_breathe();
}

/* view_gone_notice tells the managers that a transaction ended, each that hears of such or may hold
 * pages of it. */
static void view_gone_notice(struct view *v)
{
    struct port *port = v->txn.enlisted;
    for (unsigned i = v->group.other_count;; port = v->group.other[i]) {
        if (port->wants_gone || v->commit.chained)
            port_gone(port, v->id);
        if (i-- == 0)
            break;
    }
    v->commit.chained = false;
}

/* view_over gives back what the transaction has, but for its rights. It was published, or is
 * undone, and has left all queues as its fault or call ended (fault_ended). */
HOT void view_over(struct view *v)
{
    if (v->copies.count | v->copies.spilled_count) {
        drop_copies(v, &v->copies.resident); /* AB2; or those that nothing was changed in */
        drop_copies(v, &v->copies.spilled);
    }
    if (v->txn.enlisted) {
        item_leaves_log(v); /* if its manager died */
        view_gone_notice(v); /* AB3 */
    }
    const struct view_reserve *r = &v->reserve;
    if (r->credits | v->credits.waiting | (uintptr_t)r->frame | (uintptr_t)r->copy)
        view_return_hands(v);
    if (!list_empty(&v->snapshot.seen.link))
        version_snapshot_end(v);
}

void view_abort(struct view *v, int reason)
{
    TRACE_RARE(ABORT, reason, v->txn.ticket, 0);
    if (v->group.rank)
        helper_leave(v);
    holder_end(v);
    view_over(v);
    data_drop(&v->commit.batch);
    parts_drop(v);
    __atomic_fetch_add(&v->process->stats.aborts, 1, __ATOMIC_RELAXED);
    if (reason == EDEADLK)
        __atomic_fetch_add(&v->process->stats.deadlocks, 1, __ATOMIC_RELAXED);
    v->txn.aborts++;
    view_idle(v, true);          /* AB4 */
}

/* view_end ends a transaction that was published, or wrote nothing (CM8). A doom that comes now is
 * too late: the transaction ended before it. */
void view_end(struct view *v)
{
    view_over(v);
    v->txn.ticket = 0; /* so the next begin is a new one, and forgets aborts and want-X */
    __atomic_fetch_add(&v->process->stats.commits, 1, __ATOMIC_RELAXED);
    view_idle(v, false);
}

/* view_return_to_user delivers an abort on the way to user mode (AB5), but only out of a touch of a
 * container: from anywhere else it could leave the program in the middle of malloc. */
void view_return_to_user(struct trap_frame *f)
{
    struct view *v = thread_this()->view;
    if (!v || !v->deliver || !v->doom || v->state != VIEW_ACTIVE)
        return;
    int reason = v->doom;
    vaddr_t entry = v->txn.entry, stack = v->txn.stack;
    view_abort(v, reason);
    trap_redirect(f, entry, stack, (uint64_t)reason);
}

long kd_container_info(const uint64_t a[6])
{
    uint32_t rights;
    struct process *p = process_this();
    struct object *o = object_at(p, mapping_first(p, a[0], 1), &rights);
    if (!o)
        return -ENOENT;
    struct kd_space_info info = object_info(o, rights);
    object_put(o);
    return copy_to_user(a[1], &info, sizeof info);
}

long kd_view_stats(const uint64_t a[6])
{
    struct kd_view_stats stats;
    process_stats(process_this(), &stats);
    return copy_to_user(a[0], &stats, sizeof stats);
}
