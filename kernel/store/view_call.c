/*
 * view_call.c - what managers ask of transactions from outside: all of them, one that is to abort,
 * one that waits; and what people are told of them.
 *
 * A manager reaches the views of processes that have an object of that manager attached.
 *
 * Locks: one view at a time; none across a user copy.
 */
#include "store/holder.h"

static long abort_it(struct view *v, const void *reason)
{
    if (v->state == VIEW_ACTIVE)
        view_doom_locked(v, *(const int *)reason);
    return v->state == VIEW_ACTIVE ? 0 : v->state == VIEW_COMMITTING ? -EBUSY : -ESRCH;
}

/* waits_for_caller tells whether v waits for a holder of the caller's, which therefore does not go
 * away. View locked. */
static bool waits_for_caller(const struct view *v)
{
    vmask_for(h, &v->wait.holders)
        if (views[h].process == process_this() && view_holds(&views[h]))
            return true;
    return false;
}

/* view_reach calls fn with the view locked, if a process has it that has attached an object of the
 * caller's, or, to abort it, the caller itself, or who waits for its holder. -EPERM: none has;
 * -ESRCH: it does not have it any more. */
static long view_reach(uint64_t id, long (*fn)(struct view *v, const void *arg), const void *arg)
{
    struct view *v = &views[id];
    lock_acquire(&v->lock); /* as long as it is in the view, the process exists */
    struct process *p = v->process;
    if (p)
        process_get(p);
    bool own = fn == abort_it && (p == process_this() || waits_for_caller(v));
    lock_release(&v->lock);
    long result = own || object_manager_of(process_this(), p) ? -ESRCH : -EPERM;
    lock_acquire(&v->lock);
    if (result == -ESRCH && v->process == p)
        result = fn(v, arg);
    lock_release(&v->lock);
    if (p)
        process_put(p);
    return result;
}

long kd_view_abort(const uint64_t a[6])
{
    int reason = (int)a[1];
    bool ok = a[0] < KD_VIEW_MAX && reason > 0 && reason < 4096;
    return ok ? view_reach(a[0], abort_it, &reason) : -EINVAL;
}

/* its end, which needs the lock, takes the edges away; or its next look */
static long wait_add(struct view *v, const void *on)
{
    if (view_holds(v) || (v->state != VIEW_ACTIVE && v->state != VIEW_COMMITTING))
        return -ESRCH;
    waits_add(v, on, WAIT_TOLD);
    return v->doom ? -EDEADLK : 0;
}

long kd_view_wait(const uint64_t a[6])
{
    struct vmask m;
    if (a[0] >= KD_VIEW_MAX || copy_from_user(&m, a[1], sizeof m))
        return a[0] >= KD_VIEW_MAX ? -EINVAL : -EFAULT;
    long result = view_reach(a[0], wait_add, &m);
    return result == -EPERM ? -ESRCH : result;
}

long kd_view_list(const uint64_t a[6])
{
    long n = 0;
    for (int i = 0; i < KD_VIEW_MAX; i++) {
        struct view *v = &views[i];
        lock_acquire(&v->lock);
        struct kd_view_info info = {
            .view = v->id, .state = v->state, .doom = (uint64_t)v->doom, .ticket = v->txn.ticket,
            .weight = v->txn.weight, .copies = v->copies.count + v->copies.spilled_count,
            .snapshot_csn = list_empty(&v->snapshot.seen.link) ? 0 : v->snapshot.at,
            .mode = v->txn.mode, .want = v->wait.want,
            .page = v->wait.page ? v->wait.at : v->supply.at,
            .container = v->wait.object || v->items.queue || v->wait.drains ? v->wait.lock_base : 0,
            .item = v->items.queue ? v->items.entry : 0,
            .item_mode = v->items.queue ? v->items.mode + 1 : 0,
            .locked_count = v->locks.count, .locked = v->locks.count ? v->locks.base : 0,
            .waits = {v->wait.holders.word[0] | v->wait.told.word[0],
                      v->wait.holders.word[1] | v->wait.told.word[1]},
            .pid = v->process ? v->process->pid : 0, .tid = v->owner ? (int)v->owner->id : 0,
        };
        lock_release(&v->lock);
        if (info.state == VIEW_FREE)
            continue;
        if ((uint64_t)n < a[1] &&
            copy_to_user(a[0] + (uint64_t)n * sizeof info, &info, sizeof info))
            return -EFAULT;
        n++;
    }
    return n;
}

static const char *view_does(const struct view *v)
{
    if (v->state == VIEW_ACTIVE)
        return v->doom ? "runs, is to abort" : "runs";
    return v->state != VIEW_COMMITTING            ? NULL
           : v->question.item.queued              ? "commits, waits for its manager"
           : v->question.answer == ANSWER_CLAIMED ? "commits, its manager works on it"
           : v->question.answer == ANSWER_NONE    ? "commits, its manager has it"
                                                  : "commits, is answered";
}

struct view_told view_told(const struct view *v)
{
    return (struct view_told){
        v->id, v->process, view_does(v), v->txn.mode, v->txn.ticket, v->snapshot.at,
        v->copies.count, v->copies.spilled_count};
}

const struct view *view_at(unsigned id) { return &views[id]; }
