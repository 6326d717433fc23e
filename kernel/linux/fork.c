/*
 * fork.c - processes as Linux makes them: clone, fork, execve; and waiting for them. What a child
 * gets, and how execve ends the old program, is told in linux.md.
 */
#include "linux/linux.h"

#include "file/file.h"
#include "process/descriptor.h"
#include "process/handle.h"
#include "process/vm.h"
#include "store/store.h"

#define LOOK_NS 1000000u

/* ---- fork ---- */

static void descriptors_copy(struct process *to, struct process *from)
{
    lock_acquire(&from->files.lock);
    for (int fd = 0; fd < PROCESS_FILES_MAX; fd++) {
        to->files.of[fd] = from->files.of[fd];
        if (to->files.of[fd])
            file_get(to->files.of[fd]);
    }
    to->files.close_on_exec = from->files.close_on_exec;
    lock_release(&from->files.lock);
}

/* child_copy gives the child everything but a thread. 0 or -ENOMEM. */
static int child_copy(struct process *p, struct process *parent)
{
    p->flags = parent->flags;
    p->family = parent->family;
    int error = vm_copy_space(p, parent) ?: signal_copy(p);
    if (!error)
        descriptors_copy(p, parent);
    return error;
}

/* The registers are the child's. Its pid, -ENOMEM, -EAGAIN, -EFAULT. */
static long process_fork(const struct trap_frame *registers, vaddr_t child_tid, bool set,
                         bool clear)
{
    struct process *parent = process_this();
    if (!process_room())
        return -EAGAIN;
    struct node *cwd = cwd_get(parent);
    struct process *p = process_new(parent->name, parent, cwd);
    struct thread_begin *b = kalloc(sizeof(*b));
    if (!p)
        node_put(cwd);
    int error = p && b ? child_copy(p, parent) : -ENOMEM;
    uint32_t tid = p ? (uint32_t)p->pid : 0;
    if (!error && set)
        error = vm_copy_to(p, child_tid, &tid, sizeof(tid));
    if (!error) {
        b->registers = *registers;
        b->fs_base = arch_get_fs_base(&thread_this()->arch);
        b->resumes = true;
        b->clear_child_tid = clear ? child_tid : 0;
        error = process_launch(p, b);
    }
    if (error) {
        process_discard(p, b);
        return error;
    }
    process_put(p);
    return tid;
}

/* linux_clone makes a thread as pthread_create wants it (one address space, one set of files), or
 * forks. vfork is fork: the child gets copies, so the parent need not wait for it. Other
 * combinations: -ENOSYS. The registers are complete: trap.S stored those that a call keeps. */
long linux_clone(const uint64_t a[6])
{
    enum { CLONE_VM = 0x100, CLONE_FS = 0x200, CLONE_FILES = 0x400, CLONE_SIGHAND = 0x800,
           CLONE_VFORK = 0x4000, CLONE_THREAD = 0x10000, CLONE_SYSVSEM = 0x40000,
           CLONE_SETTLS = 0x80000, CLONE_PARENT_SETTID = 0x100000, CLONE_CHILD_CLEARTID = 0x200000,
           CLONE_DETACHED = 0x400000, CLONE_CHILD_SETTID = 0x1000000 };
    const uint64_t needed = CLONE_VM | CLONE_THREAD | CLONE_FILES;
    const uint64_t threads = needed | CLONE_FS | CLONE_SIGHAND | CLONE_SYSVSEM | CLONE_SETTLS
        | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID | CLONE_DETACHED | CLONE_CHILD_SETTID;
    const uint64_t forks = CLONE_VM | CLONE_VFORK | CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID;
    struct thread *t = thread_this();
    struct trap_frame registers = *arch_user_frame(&t->arch);
    trap_set_result(&registers, 0);
    if (a[1])
        trap_set_stack(&registers, a[1]);
    if ((a[0] & ~forks) == SIGNAL_CHILD && (a[0] & (CLONE_VM | CLONE_VFORK)) != CLONE_VM)
        return process_fork(&registers, a[3], a[0] & CLONE_CHILD_SETTID,
                            a[0] & CLONE_CHILD_CLEARTID);
    if ((a[0] & needed) != needed || (a[0] & ~threads) || !a[1])
        return -ENOSYS;
    return process_thread_new(&registers,
                              a[0] & CLONE_SETTLS ? a[4] : arch_get_fs_base(&t->arch),
                              a[0] & CLONE_CHILD_CLEARTID ? a[3] : 0,
                              a[0] & CLONE_PARENT_SETTID ? a[2] : 0,
                              a[0] & CLONE_CHILD_SETTID ? a[3] : 0);
}

long linux_fork(const uint64_t a[6])
{
    const uint64_t b[6] = {SIGNAL_CHILD};
    return (void)a, linux_clone(b);
}

/* ---- execve ---- */

/* The other threads leave, and what they commit is done. False: somebody else ends the process, or
 * execs in it. */
static bool alone(struct process *p)
{
    struct thread *me = thread_this();
    for (;;) {
        lock_acquire(&p->lock);
        bool single = p->thread_count == 1, stop = p->dying || me->killed;
        list_each(struct thread, t, &p->threads, process_link)
            if (t != me && !stop)
                thread_kill(t);
        lock_release(&p->lock);
        if (stop || (single && !view_forsaken(p, NULL)))
            return !stop;
        if (thread_park_until(arch_time_ns() + LOOK_NS) == -EINTR)
            return false;
    }
}

static void descriptors_close(struct process *p)
{
    for (int fd = 0; fd < PROCESS_FILES_MAX; fd++)
        if (p->files.close_on_exec >> fd & 1)
            (void)!fd_close(p, fd);
    p->files.close_on_exec = 0;
}

/* Ends what the old program was, and puts the space of `loaded` in the place of its own. */
static void become(struct process *p, struct process *loaded)
{
    struct thread *t = thread_this();
    view_thread_gone(t);
    view_process_gone(p);
    handle_process_gone(p);
    object_process_gone(p);
    descriptors_close(p);
    signal_reset(p);
    vm_exchange(p, loaded);
    thread_use_table();
    lock_acquire(&p->lock);
    strlcpy(p->name, loaded->name, sizeof(p->name));
    trace_name(p->pid, p->name);
    lock_release(&p->lock);
    t->clear_child_tid = 0;
    t->signals.stack_bytes = 0;
    t->signals.restart_call = 0;
    arch_set_fs_base(&t->arch, 0);
    arch_thread_set_fpu(&t->arch, NULL);
}

long linux_execve(const uint64_t a[6])
{
    struct process *p = process_this(), *loaded;
    struct thread_begin *b;
    long error = process_load_user(a[0], a[1], a[2], &b, &loaded); /* nobody sees it */
    if (error)
        return error;
    struct thread_begin begin = *b;
    kfree(b);
    if (!alone(p)) {
        process_discard(loaded, NULL);
        return -EINTR;
    }
    become(p, loaded);
    process_discard(loaded, NULL);
    arch_user_enter(begin.entry, begin.stack, 0);
}

/* ---- waiting for children ---- */

/* How a child ended, and the CPU time that it and its own took. */
struct child_end { int32_t status, signal; uint64_t cpu_ns; };

/* Takes an ended child that matches out of the table; *any: there are some. Table lock held. */
static struct process *child_take(int parent, int pid, bool *any)
{
    list_each(struct process, p, &process_table.all, link) {
        if (p->parent != parent || (pid != -1 && pid != p->pid && pid != -p->family))
            continue;
        *any = true;
        if (!p->ended)
            continue;
        list_remove(&p->link);
        process_table.count--;
        return p;
    }
    return NULL;
}

/* wait_child takes an ended child out of the table (pid -1: any; below: of the family -pid),
 * waiting by `park`: its pid; 0: none has ended, only with no_hang; -ECHILD; or what park
 * returned. */
static long wait_child(int pid, bool no_hang, int (*park)(uint64_t), struct child_end *out)
{
    struct process *me = process_this(), *child = NULL;
    int error = 0;
    bool any = true;
    lock_acquire(&process_table.lock);
    while (!error) {
        any = false;
        child = child_take(me->pid, pid, &any);
        if (child || !any || no_hang)
            break;
        error = thread_wait(&me->waiters, &process_table.lock, park);
    }
    if (child)
        me->children_ns += child->home.cpu_ns + child->children_ns;
    lock_release(&process_table.lock);
    if (!child)
        return any ? error : -ECHILD;
    *out = (struct child_end){child->status, child->signal, child->home.cpu_ns};
    pid = child->pid;
    process_put(child); /* the table's */
    return pid;
}

long kd_process_wait(const uint64_t a[6])
{
    struct child_end end;
    if (a[2] & ~(uint64_t)KD_WAIT_NOHANG)
        return -EINVAL;
    long pid = wait_child((int)a[0], a[2] & KD_WAIT_NOHANG, thread_park_until, &end);
    if (pid > 0 && a[1] && copy_to_user(a[1], &end.status, sizeof(end.status)))
        return -EFAULT;
    return pid;
}

static long times_out(vaddr_t user, uint64_t ns)
{
    const uint64_t used[18] = {ns / NS_PER_S, ns % NS_PER_S / 1000}; /* the rest: not counted */
    return user ? copy_to_user(user, used, sizeof(used)) : 0;
}

long linux_wait4(const uint64_t a[6])
{
    enum { WNOHANG = 1, WUNTRACED = 2, WCONTINUED = 8 };
    struct child_end end = {0};
    int pid = a[0] ? (int)a[0] : -process_this()->family;
    if (a[2] & ~(uint64_t)(WNOHANG | WUNTRACED | WCONTINUED))
        return -EINVAL;
    long result = wait_child(pid, a[2] & WNOHANG, thread_park_until_signal, &end);
    int32_t status = end.signal ? end.signal : (end.status & 255) << 8;
    if (result > 0 && ((a[1] && copy_to_user(a[1], &status, sizeof(status)))
                       || times_out(a[3], end.cpu_ns)))
        return -EFAULT;
    return result;
}

long linux_getrusage(const uint64_t a[6])
{
    enum { RUSAGE_SELF = 0, RUSAGE_CHILDREN = -1, RUSAGE_THREAD = 1 };
    int who = (int)a[0];
    if (who != RUSAGE_SELF && who != RUSAGE_CHILDREN && who != RUSAGE_THREAD)
        return -EINVAL;
    uint64_t thread_ns = thread_account();
    return times_out(a[1], who == RUSAGE_SELF     ? process_this()->home.cpu_ns
                           : who == RUSAGE_THREAD ? thread_ns
                                                  : process_this()->children_ns);
}
