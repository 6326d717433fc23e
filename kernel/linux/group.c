/*
 * group.c - groups of processes and sessions: who is in which, and signals to a group.
 *
 * A child of fork is in its parent's group and session; a program that KD_PROCESS_CREATE started
 * begins its own. Numbers are those of the process that began the group or session, and are never
 * used again. The terminal knows nothing of groups: Ctrl-C ends what is in the foreground.
 *
 * Lock: process_table.lock guards group and session of all processes.
 */
#include "linux/linux.h"
#include "linux/signal.h"
#include "process/process_make.h"

/* process_table.lock held. */
static bool group_exists(int group, int session)
{
    list_each(const struct process, p, &process_table.all, link)
        if (p->group == group && (!session || p->session == session))
            return true;
    return false;
}

/* group_check: may the caller put p into that group? 0 or -errno. process_table.lock held. */
static int group_check(const struct process *p, int group)
{
    const struct process *me = process_this();
    if (!p || (p != me && p->parent != me->pid))
        return -ESRCH;
    if (p->session != me->session)
        return -EPERM;
    if (p != me && p->execs)
        return -EACCES;
    if (p->session == p->pid || (group != p->pid && !group_exists(group, p->session)))
        return -EPERM;
    return 0;
}

long linux_setpgid(const uint64_t a[6])
{
    int pid = a[0] ? (int)a[0] : process_this()->pid, group = a[1] ? (int)a[1] : pid;
    if (group < 0)
        return -EINVAL;
    lock_acquire(&process_table.lock);
    struct process *p = process_lookup(pid);
    int error = group_check(p, group);
    if (!error)
        p->group = group;
    lock_release(&process_table.lock);
    return error;
}

long linux_setsid(const uint64_t a[6])
{
    struct process *me = process_this();
    (void)a;
    lock_acquire(&process_table.lock);
    bool leads = group_exists(me->pid, 0);
    if (!leads)
        me->group = me->session = me->pid;
    lock_release(&process_table.lock);
    return leads ? -EPERM : me->pid;
}

static long group_of(int pid, bool session)
{
    lock_acquire(&process_table.lock);
    const struct process *p = pid ? process_lookup(pid) : process_this();
    long result = !p ? -ESRCH : session ? p->session : p->group;
    lock_release(&process_table.lock);
    return result;
}

long linux_getpgid(const uint64_t a[6]) { return group_of((int)a[0], false); }
long linux_getsid(const uint64_t a[6]) { return group_of((int)a[0], true); }
long linux_getpgrp(const uint64_t a[6]) { return (void)a, group_of(0, false); }

/* member_next finds the group's member with the lowest number above `last`; a reference, or
 * NULL. */
static struct process *member_next(int group, int last)
{
    struct process *next = NULL;
    lock_acquire(&process_table.lock);
    list_each(struct process, p, &process_table.all, link)
        if (p->group == group && !p->ended && p->pid > last && (!next || p->pid < next->pid))
            next = p;
    if (next)
        process_get(next);
    lock_release(&process_table.lock);
    return next;
}

long group_signal(int group, int (*send)(struct process *p, int number), int number)
{
    long result = -ESRCH;
    struct process *p;
    for (int last = 0; (p = member_next(group, last)); process_put(p)) {
        int error = send(p, number);
        last = p->pid;
        if (result)
            result = error; /* one success is enough */
    }
    return result;
}
