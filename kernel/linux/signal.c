/*
 * signal.c - signals: actions of a process, what is blocked and pending, and delivery.
 *
 * A signal is pending in a process or in one of its threads until a thread that does not block it
 * is on its way to user mode. linux.md has the steps.
 *
 * Invariants
 *   SG1  thread->signals.due is set if the thread has something to deliver; it may be set without
 *        need.
 *   SG2  A call that returns -ERESTARTSYS has thread->signals.restart_call set, and `attention`, so
 *       the number never reaches user mode: the call is done again or fails with EINTR.
 *   SG3  A doom of a transaction goes before a signal: no handler is called with registers that an
 *       abort is about to replace.
 *
 * Lock: process->lock guards actions, pending and blocked sets.
 */
#include "linux/linux.h"
#include "memory/frame.h"

enum { ACTION_DEFAULT = 0, ACTION_IGNORE = 1 };
enum { FLAG_NO_CHILD_WAIT = 2, FLAG_RESTORER = 0x4000000, FLAG_STACK = 0x8000000 };
enum { FLAG_RESTART = 0x10000000, FLAG_NO_DEFER = 0x40000000 };
#define FLAG_RESET_HAND 0x80000000ull
#define UNBLOCKABLE (SIGNAL_BIT(SIGNAL_KILL) | SIGNAL_BIT(SIGNAL_STOP))
/* Signals that would stop a process: sending one to a program that does not handle it is
 * -ENOSYS. */
#define STOPS_BY_DEFAULT                                                                          \
    (SIGNAL_BIT(SIGNAL_STOP) | SIGNAL_BIT(SIGNAL_STOP_TYPED) | SIGNAL_BIT(SIGNAL_STOP_READ)       \
     | SIGNAL_BIT(SIGNAL_STOP_WRITE))
#define IGNORED_BY_DEFAULT                                                                        \
    (STOPS_BY_DEFAULT | SIGNAL_BIT(SIGNAL_CHILD) | SIGNAL_BIT(SIGNAL_CONTINUE)                    \
     | SIGNAL_BIT(SIGNAL_URGENT) | SIGNAL_BIT(SIGNAL_WINDOW))

struct signal_actions {
    struct signal_action of[SIGNAL_MAX + 1];
    struct signal_info info[SIGNAL_MAX + 1];   /* of what is pending, by number */
};

/* ---- sending ---- */

static vaddr_t action_of(const struct process *p, int number)
{
    return p->signals.actions ? p->signals.actions->of[number].handler : ACTION_DEFAULT;
}

static vaddr_t handler_of(const struct process *p, int number)
{
    vaddr_t handler = action_of(p, number);
    if (handler == ACTION_DEFAULT && (SIGNAL_BIT(number) & IGNORED_BY_DEFAULT))
        return ACTION_IGNORE;
    return handler;
}

static bool blocks(const struct thread *t, int number)
{
    return t->signals.blocked & SIGNAL_BIT(number);
}

/* receiver chooses a thread of p that does not block the signal, the caller if it can; NULL: none.
 * p->lock held. */
static struct thread *receiver(struct process *p, int number)
{
    struct thread *me = thread_this();
    if (me->process == p && !blocks(me, number))
        return me;
    list_each(struct thread, t, &p->threads, process_link)
        if (!blocks(t, number))
            return t;
    return NULL;
}

/* end_by ends the process as a signal without a handler does. */
static void end_by(struct process *p, int number)
{
    if (number == SIGNAL_ABORT && p == process_this())
        process_kill(p, 128 + number, "it called abort()");
    else if (number == SIGNAL_INTERRUPT || number == SIGNAL_PIPE || number == SIGNAL_END)
        process_end_by(p, number); /* nothing to wonder about */
    else
        process_kill(p, 128 + number, "by signal %d", number);
}

static bool catches(const struct process *p)
{
    return p->signals.actions != NULL;
}

static struct thread *thread_of(struct process *p, uint64_t tid)
{
    list_each(struct thread, t, &p->threads, process_link)
        if (t->id == tid)
            return t;
    return NULL;
}

int signal_send(struct process *p, uint64_t tid, int number, const struct signal_info *info)
{
    bool end = false;
    int error = 0;
    if (number < 0 || number > SIGNAL_MAX)
        return -EINVAL;
    lock_acquire(&p->lock);
    struct thread *t = tid ? thread_of(p, tid) : number ? receiver(p, number) : NULL;
    vaddr_t handler = number ? handler_of(p, number) : ACTION_IGNORE;
    bool blocked = number && (!t || blocks(t, number));
    uint64_t *pending = tid && t ? &t->signals.pending : &p->signals.pending;
    if (tid && !t) {
        error = -ESRCH;
    } else if (number == 0) {
    } else if ((SIGNAL_BIT(number) & STOPS_BY_DEFAULT) && action_of(p, number) == ACTION_DEFAULT) {
        error = -ENOSYS;
    } else if (number >= SIGNAL_REAL_TIME && (*pending & SIGNAL_BIT(number))) {
        error = -EAGAIN;
    } else if (number == SIGNAL_KILL || (handler == ACTION_DEFAULT && !blocked)) {
        end = true;
    } else if (handler != ACTION_IGNORE || blocked) {
        *pending |= SIGNAL_BIT(number);
        if (catches(p)) {
            p->signals.actions->info[number] = info ? *info : (struct signal_info){0};
            p->signals.actions->info[number].number = number;
        }
        if (!blocked)
            thread_signal(t);
    }
    lock_release(&p->lock);
    if (end)
        end_by(p, number);
    return error;
}

bool signal_fault(int number, int code, vaddr_t at)
{
    struct thread *t = thread_this();
    struct process *p = t->process;
    lock_acquire(&p->lock);
    bool handled = handler_of(p, number) > ACTION_IGNORE && !blocks(t, number)
        && !(t->signals.pending & SIGNAL_BIT(number));
    lock_release(&p->lock);
    if (!handled || signal_send(p, t->id, number, NULL))
        return false;
    t->signals.fault_number = (uint8_t)number; /* what others send meanwhile is told elsewhere */
    t->signals.fault_code = (uint8_t)code;
    t->signals.fault_at = at;
    return true;
}

/* ---- waits ---- */

void signal_interrupt(struct process *p) { (void)!signal_send(p, 0, SIGNAL_INTERRUPT, NULL); }

void signal_child_ended(struct process *parent, const struct process *child)
{
    const struct signal_info info = {.code = child->signal ? 2 : 1, .pid = child->pid,
                                     .status = child->signal ? child->signal : child->status};
    (void)!signal_send(parent, 0, SIGNAL_CHILD, &info);
}

/* ---- delivery ---- */

/* Takes the first signal that may be delivered out of the sets; 0: none. process->lock held. */
static int take(struct process *p, struct thread *t)
{
    uint64_t due = (t->signals.pending | p->signals.pending) & ~t->signals.blocked;
    if (!due)
        return 0;
    int number = __builtin_ctzll(due) + 1;
    if (t->signals.pending & SIGNAL_BIT(number))
        t->signals.pending &= ~SIGNAL_BIT(number);
    else
        p->signals.pending &= ~SIGNAL_BIT(number);
    return number;
}

/* finish_call decides what becomes of a call that a signal interrupted: it is done `again`, or
 * fails with EINTR. */
static void finish_call(struct thread *t, struct trap_frame *f, bool again)
{
    if (!t->signals.restart_call)
        return;
    if (trap_result(f) == -ERESTARTSYS && again)
        trap_call_again(f, t->signals.restart_call - 1);
    else if (trap_result(f) == -ERESTARTSYS)
        trap_set_result(f, -EINTR);
    assert(trap_result(f) != -ERESTARTSYS); /* SG2 */
    t->signals.restart_call = 0;
}

enum { STACK_USED = 1, STACK_NONE = 2, STACK_BYTES_MIN = 2048 };

static bool stack_holds(const struct thread *t, vaddr_t sp)
{
    return sp - t->signals.stack - 1 < t->signals.stack_bytes;
}

static struct signal_stack stack_of(const struct thread *t, vaddr_t sp)
{
    return (struct signal_stack){
        .at = t->signals.stack, .bytes = t->signals.stack_bytes,
        .flags = !t->signals.stack_bytes ? STACK_NONE : stack_holds(t, sp) ? STACK_USED : 0};
}

/* stack_set changes the alternate stack; -EPERM while the stack pointer is in the old one. */
static long stack_set(struct thread *t, const struct signal_stack *s, vaddr_t sp)
{
    if (stack_holds(t, sp))
        return -EPERM;
    if (s->flags > STACK_NONE)
        return -EINVAL;
    if (s->flags != STACK_NONE && s->bytes < STACK_BYTES_MIN)
        return -ENOMEM;
    t->signals.stack = s->flags == STACK_NONE ? 0 : s->at;
    t->signals.stack_bytes = s->flags == STACK_NONE ? 0 : s->bytes;
    return 0;
}

static void stack_choose(struct signal_call *c, const struct thread *t, vaddr_t sp)
{
    bool on = stack_holds(t, sp);
    bool enters = (c->action.flags & FLAG_STACK) && t->signals.stack_bytes && !on;
    c->stack = stack_of(t, sp);
    c->bottom = on || enters ? t->signals.stack : 0;
    c->top = enters ? t->signals.stack + t->signals.stack_bytes : 0;
}

static void handle(struct process *p, struct thread *t, struct trap_frame *f, struct signal_call *c,
                   int number)
{
    finish_call(t, f, c->action.flags & FLAG_RESTART);
    stack_choose(c, t, trap_stack_pointer(f));
    if (!(c->action.flags & FLAG_RESTORER) || arch_signal_enter(f, c)) {
        process_kill(p, 128 + SIGNAL_ACCESS, "no stack for the handler of signal %d", number);
        return;
    }
    lock_acquire(&p->lock);
    t->signals.blocked |= c->action.mask
        | (c->action.flags & FLAG_NO_DEFER ? 0 : SIGNAL_BIT(number));
    t->signals.blocked &= ~UNBLOCKABLE;
    if (c->action.flags & FLAG_RESET_HAND)
        p->signals.actions->of[number].handler = ACTION_DEFAULT;
    lock_release(&p->lock);
}

/* deliver takes one signal that is due and acts on it. False: there is none. */
static bool deliver(struct process *p, struct thread *t, struct trap_frame *f)
{
    struct signal_call c = {0};
    lock_acquire(&p->lock);
    int number = take(p, t);
    vaddr_t handler = number ? handler_of(p, number) : ACTION_IGNORE;
    if (number && catches(p)) {
        c.action = p->signals.actions->of[number];
        c.info = p->signals.actions->info[number];
        c.info.number = number;
    }
    if (number && number == t->signals.fault_number) {
        c.info = (struct signal_info){
            .number = number, .code = t->signals.fault_code, .address = t->signals.fault_at};
        t->signals.fault_number = 0;
    }
    c.mask = t->signals.suspended ? t->signals.before : t->signals.blocked;
    if (number)
        t->signals.suspended = false;
    lock_release(&p->lock);
    if (number && handler == ACTION_DEFAULT)
        end_by(p, number);
    else if (handler > ACTION_IGNORE)
        handle(p, t, f, &c, number);
    return number != 0;
}

void signal_return_to_user(struct trap_frame *f)
{
    struct thread *t = thread_this();
    struct process *p = t->process;
    __atomic_store_n(&t->signals.due, false, __ATOMIC_SEQ_CST);
    while (!p->dying && deliver(p, t, f)) {
    }
    finish_call(t, f, true);
}

/* ---- birth and end ---- */

int signal_copy(struct process *to)
{
    struct process *from = process_this();
    struct signal_actions *copy = kalloc(sizeof(*copy));
    if (!copy)
        return -ENOMEM;
    lock_acquire(&from->lock);
    if (catches(from))
        memcpy(copy, from->signals.actions, sizeof(*copy));
    lock_release(&from->lock);
    to->signals.actions = copy;
    return 0;
}

void signal_reset(struct process *p)
{
    lock_acquire(&p->lock);
    for (int i = 1; catches(p) && i <= SIGNAL_MAX; i++) {
        vaddr_t handler = p->signals.actions->of[i].handler;
        p->signals.actions->of[i] = (struct signal_action){
            .handler = handler == ACTION_IGNORE ? ACTION_IGNORE : ACTION_DEFAULT};
    }
    lock_release(&p->lock);
}

void signal_process_free(struct process *p)
{
    lock_acquire(&p->lock); /* others may send it signals still */
    struct signal_actions *actions = p->signals.actions;
    p->signals.actions = NULL;
    lock_release(&p->lock);
    kfree(actions);
}

/* ---- the calls ---- */

static struct signal_actions *actions_get(struct process *p)
{
    struct signal_actions *new = p->signals.actions ? NULL : kalloc(sizeof(*new));
    lock_acquire(&p->lock);
    if (!p->signals.actions) {
        p->signals.actions = new;
        new = NULL;
    }
    lock_release(&p->lock);
    kfree(new);
    return p->signals.actions;
}

/* process->lock held. */
static void forget(struct process *p, int number)
{
    p->signals.pending &= ~SIGNAL_BIT(number);
    list_each(struct thread, t, &p->threads, process_link)
        t->signals.pending &= ~SIGNAL_BIT(number);
}

bool signal_wants_no_child(struct process *p)
{
    lock_acquire(&p->lock);
    const struct signal_action *a = catches(p) ? &p->signals.actions->of[SIGNAL_CHILD] : NULL;
    bool none = a && (a->handler == ACTION_IGNORE || (a->flags & FLAG_NO_CHILD_WAIT));
    lock_release(&p->lock);
    return none;
}

long linux_rt_sigaction(const uint64_t a[6])
{
    struct process *p = process_this();
    struct signal_action new, old = {0};
    int number = (int)a[0];
    if (number < 1 || number > SIGNAL_MAX || a[3] != sizeof(uint64_t)
        || (a[1] && (SIGNAL_BIT(number) & UNBLOCKABLE)))
        return -EINVAL;
    if (a[1] && copy_from_user(&new, a[1], sizeof(new)))
        return -EFAULT;
    if (a[1] && !actions_get(p))
        return -ENOMEM;
    lock_acquire(&p->lock);
    if (catches(p))
        old = p->signals.actions->of[number];
    if (a[1]) {
        new.mask &= ~UNBLOCKABLE;
        p->signals.actions->of[number] = new;
        if (handler_of(p, number) == ACTION_IGNORE)
            forget(p, number);
    }
    lock_release(&p->lock);
    return a[2] ? copy_to_user(a[2], &old, sizeof(old)) : 0;
}

/* mask_set changes the thread's mask; a signal that may be delivered now comes before the next
 * instruction of user mode. */
static void mask_set(struct thread *t, uint64_t mask)
{
    struct process *p = t->process;
    lock_acquire(&p->lock);
    t->signals.blocked = mask & ~UNBLOCKABLE;
    if ((t->signals.pending | p->signals.pending) & ~t->signals.blocked)
        thread_signal(t);
    lock_release(&p->lock);
}

long linux_rt_sigprocmask(const uint64_t a[6])
{
    enum { BLOCK, UNBLOCK, SET };
    struct thread *t = thread_this();
    uint64_t old = t->signals.blocked, set;
    if (a[3] != sizeof(set))
        return -EINVAL;
    if (a[1] && copy_from_user(&set, a[1], sizeof(set)))
        return -EFAULT;
    if (a[2] && copy_to_user(a[2], &old, sizeof(old)))
        return -EFAULT;
    if (!a[1])
        return 0;
    if (a[0] > SET)
        return -EINVAL;
    mask_set(t, a[0] == BLOCK ? old | set : a[0] == UNBLOCK ? old & ~set : set);
    return 0;
}

long linux_rt_sigpending(const uint64_t a[6])
{
    struct thread *t = thread_this();
    uint64_t pending = (t->signals.pending | t->process->signals.pending) & t->signals.blocked;
    return a[1] == sizeof(pending) ? copy_to_user(a[0], &pending, sizeof(pending)) : -EINVAL;
}

long linux_rt_sigsuspend(const uint64_t a[6])
{
    struct thread *t = thread_this();
    uint64_t set;
    if (a[1] != sizeof(set))
        return -EINVAL;
    if (copy_from_user(&set, a[0], sizeof(set)))
        return -EFAULT;
    t->signals.before = t->signals.blocked;
    t->signals.suspended = true; /* the handler's frame gets the mask from before */
    mask_set(t, set);
    return linux_pause(a);
}

long linux_rt_sigreturn(const uint64_t a[6])
{
    struct thread *t = thread_this();
    struct trap_frame registers;
    struct signal_stack stack;
    uint64_t mask;
    (void)a;
    if (arch_signal_leave(&registers, &mask, &stack)) {
        process_kill(t->process, 128 + SIGNAL_ACCESS, "no frame of a signal to return through");
        return 0;
    }
    mask_set(t, mask);
    (void)stack_set(t, &stack, trap_stack_pointer(&registers)); /* a bad one changes nothing */
    arch_user_resume(&registers);
}

long linux_sigaltstack(const uint64_t a[6])
{
    struct thread *t = thread_this();
    vaddr_t sp = trap_stack_pointer(arch_user_frame(&t->arch));
    struct signal_stack new, old = stack_of(t, sp);
    if (a[0] && copy_from_user(&new, a[0], sizeof(new)))
        return -EFAULT;
    long error = a[0] ? stack_set(t, &new, sp) : 0;
    return error || !a[1] ? error : copy_to_user(a[1], &old, sizeof(old));
}

/* kill, tkill, tgkill: to one thread of the process, or with tid 0 to the process. */
static long send_to(int pid, int tid, int number)
{
    const struct signal_info info = {.code = tid ? -6 : 0, .pid = process_this()->pid};
    struct process *p = process_find(pid);
    if (!p)
        return -ESRCH;
    bool may = process_in_reach(p, KD_RIGHT_PROCESSES);
    long result = may ? signal_send(p, (uint64_t)tid, number, &info) : -EPERM;
    process_put(p);
    return result;
}

long linux_kill(const uint64_t a[6])
{
    int pid = (int)a[0];
    return pid > 0 ? send_to(pid, 0, (int)a[1]) : -EPERM; /* one process at a time */
}

long linux_tgkill(const uint64_t a[6])
{
    int pid = (int)a[0], tid = (int)a[1];
    return pid > 0 && tid > 0 ? send_to(pid, tid, (int)a[2]) : -EINVAL;
}

long linux_tkill(const uint64_t a[6])
{
    int tid = (int)a[0];
    return tid > 0 ? send_to(process_this()->pid, tid, (int)a[1]) : -EINVAL;
}
