/*
 * view_call.c - what managers ask of transactions from outside: all of them, one that is to abort,
 * one that waits.
 *
 * A manager reaches the views of processes that have an object of that manager attached.
 *
 * Locks: one view at a time; none across a user copy.
 */
#include "store/wait.h"

/* view_client returns the view's process, with a reference, if it has attached an object of the
 * caller's; or NULL. */
static struct process *view_client(struct view *v)
{
    lock_acquire(&v->lock); /* as long as it is in the view, the process exists */
    struct process *p = v->process;
    if (p)
        process_get(p);
    lock_release(&v->lock);
    if (object_manager_of(process_this(), p))
        return p;
    if (p)
        process_put(p);
    return NULL;
}

long kd_view_abort(const uint64_t a[6])
{
    uint64_t id = a[0];
    int reason = (int)a[1];
    if (id >= KD_VIEW_MAX || reason <= 0 || reason >= 4096)
        return -EINVAL;
    struct view *v = &views[id];
    struct process *p = view_client(v);
    if (!p)
        return -EPERM;
    long result = -ESRCH; /* it has no transaction, or is a stranger's by now */
    lock_acquire(&v->lock);
    if (v->process == p && v->state == VIEW_ACTIVE) {
        view_doom_locked(v, reason);
        result = 0;
    } else if (v->process == p && v->state == VIEW_COMMITTING) {
        result = -EBUSY;
    }
    lock_release(&v->lock);
    process_put(p);
    return result;
}

long kd_view_wait(const uint64_t a[6])
{
    uint64_t id = a[0];
    struct vmask m;
    if (id >= KD_VIEW_MAX || copy_from_user(&m, a[1], sizeof m))
        return id >= KD_VIEW_MAX ? -EINVAL : -EFAULT;
    struct view *v = &views[id];
    struct process *p = view_client(v);
    if (!p)
        return -ESRCH;
    lock_acquire(&v->lock); /* its end takes the edges away */
    bool runs = v->process == p && (v->state == VIEW_ACTIVE || v->state == VIEW_COMMITTING);
    if (runs)
        waits_add(v, &m);
    long result = !runs ? -ESRCH : v->doom ? -EDEADLK : 0;
    lock_release(&v->lock);
    process_put(p);
    return result;
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
            .mode = v->txn.mode, .want = v->wait.want, .page = v->wait.page ? v->wait.at : 0,
            .container = v->wait.object ? v->wait.lock_base : 0,
            .locked_count = v->locks.count, .locked = v->locks.count ? v->locks.base : 0,
            .waits = {v->wait.holders.word[0], v->wait.holders.word[1]},
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
