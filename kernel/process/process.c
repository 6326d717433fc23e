/*
 * process.c - processes: birth, threads, death, waiting (processes.md tells the order of an end).
 *
 * Invariants
 *   PR1  A process is in the table from its creation until its parent, or init in its place, has
 *       waited for it; the table holds one reference, each thread another.
 *   PR2  `status` does not change any more once `dying` is set.
 *   PR3  A thread is in process->threads from its start until process_thread_leave() takes it off.
 *       One that is added to a dying process is killed in the same section.
 *
 * Locks: process_table.lock (parents, ends, the list), then process->lock (threads, dying, status).
 */
#include "process/process_make.h"

#include "base/signal.h"
#include "file/file.h"
#include "process/descriptor.h"
#include "process/handle.h"
#include "process/vm_private.h"

#define BACKTRACE_MAX 6
#define STACK_TRIES 16

struct process_table process_table = {.lock = LOCK_INIT(RANK_PROCESS_TABLE, "processes"),
                                      .all = LIST_INIT(process_table.all)};

static void process_free(struct process *p)
{
    assert(!p->limits.badges && !p->limits.objects && !p->dirty); /* LM1 */
    kfree(p);
}
COUNTED(process, process_free) /* PR1 */

/* process_table.lock held. */
static struct process *lookup(int pid)
{
    list_each(struct process, p, &process_table.all, link)
        if (p->pid == pid)
            return p;
    return NULL;
}

struct process *process_find(int pid)
{
    lock_acquire(&process_table.lock);
    struct process *p = lookup(pid);
    if (p && p->ended)
        p = NULL;
    if (p)
        process_get(p);
    lock_release(&process_table.lock);
    return p;
}

/* descends: is p of the family, or did one of its ancestors belong to it? One walk is enough, since
 * a parent stands in the list before its children. process_table.lock held. */
static bool descends(const struct process *p, int family)
{
    int pid = p->pid;
    for (const struct list *l = process_table.all.prev; l != &process_table.all; l = l->prev) {
        const struct process *q = container_of(l, struct process, link);
        if (q->pid == pid && q->family == family)
            return true;
        if (q->pid == pid)
            pid = q->parent;
    }
    return false;
}

bool process_in_reach_locked(const struct process *p, uint32_t right)
{
    if (p->pid == process_table.init && right == KD_RIGHT_PROCESSES)
        return p == process_this();
    return descends(p, process_this()->family) || handle_held(HANDLE_PROCESS, p, KD_RIGHT_MANAGE)
        || system_allows(right);
}

bool process_in_reach(const struct process *p, uint32_t right)
{
    lock_acquire(&process_table.lock);
    bool in_reach = process_in_reach_locked(p, right);
    lock_release(&process_table.lock);
    return in_reach;
}

/* ---- birth ---- */

struct process *process_new(const char *path, struct process *parent, struct node *cwd)
{
    struct process *p = kalloc(sizeof(*p));
    if (!p)
        return NULL;
    const char *name = path;
    for (const char *s = path; *s; s++)
        if (*s == '/')
            name = s + 1;
    strlcpy(p->name, name, sizeof(p->name));
    p->references = 1;
    p->pid = (int)thread_id_alloc();
    p->parent = parent ? parent->pid : 0;
    p->family = p->pid;
    lock_init(&p->lock, RANK_PROCESS, "process");
    lock_init(&p->files.lock, RANK_PROCESS, "descriptors");
    lock_init(&p->handle_lock, RANK_HANDLES, "handles");
    lock_init(&p->attach_lock, RANK_ATTACH, "attachments");
    lock_init(&p->windows.lock, RANK_MAPPING, "windows");
    list_init(&p->link);
    list_init(&p->threads);
    list_init(&p->waiters);
    p->files.cwd = cwd;
    p->files.umask = parent ? parent->files.umask : 022;
    limit_begin(p, parent, NULL);
    if (vm_space_new(p)) {
        kfree(p);
        return NULL;
    }
    return p;
}

/* process_strip ends what a process has, when nothing runs in it any more: at its end, or after a
 * failed creation. */
static void process_strip(struct process *p)
{
    assert(list_empty(&p->threads)); /* PR3 */
    for (unsigned i = 0; process_seam.gone[i]; i++, thread_breathe())
        process_seam.gone[i](p);
    vm_space_free(p);
    node_put(p->files.cwd);
    p->files.cwd = NULL;
}

static void table_free(struct process *p)
{
    paddr_t top = p->home.table;
    p->home.table = 0;
    p->limits.tables = 0;
    arch_table_free(top, false);
}

void process_discard(struct process *p, struct thread_begin *b)
{
    kfree(b);
    if (!p)
        return;
    process_strip(p);
    table_free(p);
    process_put(p);
}

/* A thread that was killed before it began leaves at once. */
static void begin_thread(void *arg)
{
    struct thread_begin b = *(struct thread_begin *)arg;
    kfree(arg);
    if (thread_this()->killed)
        process_thread_leave();
    if (!b.resumes)
        arch_user_enter(b.entry, b.stack, 0);
    arch_set_fs_base(&thread_this()->arch, b.fs_base);
    arch_user_resume(&b.registers);
}

/* begin_in makes t, which is to begin with b, a thread of p (PR3). One that resumes inherits the
 * mask of signals and the FPU's state of the thread that makes it. p locked, or not in the table
 * yet. */
static void begin_in(struct process *p, struct thread *t, const struct thread_begin *b, uint64_t id)
{
    t->id = id;
    t->pid = p->pid;
    t->clear_child_tid = b->clear_child_tid;
    if (b->resumes) {
        t->signals.blocked = thread_this()->signals.blocked;
        arch_thread_copy_fpu(&t->arch, &thread_this()->arch);
    }
    process_get(p);
    list_push_back(&p->threads, &t->process_link);
    p->thread_count++;
}

int process_load(const char *path, const char *const *argv, const char *const *envp,
                 struct process *parent, struct thread_begin **begin, struct process **out)
{
    struct node *image;
    struct node *cwd = parent ? cwd_get(parent) : node_root();
    if (!parent)
        node_get(cwd);
    int error = node_find(cwd, path, &image);
    struct process *p = error ? NULL : process_new(path, parent, cwd);
    if (!p)
        node_put(cwd);
    if (error)
        return error;
    struct thread_begin *b = kalloc(sizeof(*b));
    error = p && b ? process_seam.load(p, image, path, argv, envp, &b->entry, &b->stack) : -ENOMEM;
    node_put(image);
    if (error)
        process_discard(p, b);
    *begin = b;
    *out = p;
    return error;
}

bool process_room(void)
{
    const struct process *me = process_this();
    return process_table.count < (me ? me->limits.most[KD_LIMIT_PROCESSES] : PROCESS_MAX);
}

/* thread_make makes a thread of p that is to begin with b; its stack is frames in one piece. */
static struct thread *thread_make(struct process *p, struct thread_begin *b)
{
    struct thread *t = thread_new(p, begin_thread, b, p->name);
    for (int i = 0; !t && i < STACK_TRIES && frame_seam.together(STACK_FRAMES); i++)
        t = thread_new(p, begin_thread, b, p->name);
    return t;
}

int process_launch(struct process *p, struct thread_begin *b)
{
    lock_acquire(&process_table.lock);
    bool room = process_room();
    process_table.count += room;
    lock_release(&process_table.lock);
    struct thread *t = room ? thread_make(p, b) : NULL;
    lock_acquire(&process_table.lock);
    if (t) {
        begin_in(p, t, b, (uint64_t)p->pid);
        if (b->resumes) {
            t->signals.stack = thread_this()->signals.stack;
            t->signals.stack_bytes = thread_this()->signals.stack_bytes;
        }
        process_get(p); /* the table's */
        (void)limit_charge_some(p, KD_LIMIT_THREADS, 1);
        list_push_back(&process_table.all, &p->link);
    } else if (room) {
        process_table.count--;
    }
    lock_release(&process_table.lock);
    if (t) {
        trace_name(p->pid, p->name);
        thread_start(t);
    }
    return t ? 0 : room ? -ENOMEM : -EAGAIN;
}

long process_thread_new(const struct trap_frame *registers, uint64_t fs_base,
                        vaddr_t clear_child_tid, vaddr_t parent_tid, vaddr_t child_tid)
{
    struct process *p = process_this();
    uint32_t tid = (uint32_t)thread_id_alloc();
    if ((parent_tid && copy_to_user(parent_tid, &tid, sizeof(tid)))
        || (child_tid && copy_to_user(child_tid, &tid, sizeof(tid))))
        return -EFAULT;
    if (!limit_charge(p, KD_LIMIT_THREADS, 1))
        return -EAGAIN;
    struct thread_begin *b = kalloc(sizeof(*b));
    struct thread *t = b ? thread_make(p, b) : NULL;
    if (!t) {
        kfree(b);
        limit_uncharge(p, KD_LIMIT_THREADS, 1);
        return -EAGAIN;
    }
    b->registers = *registers;
    b->fs_base = fs_base;
    b->clear_child_tid = clear_child_tid;
    b->resumes = true;
    lock_acquire(&p->lock);
    begin_in(p, t, b, tid);
    if (p->dying) /* PR3 */
        thread_kill(t);
    lock_release(&p->lock);
    thread_start(t);
    return tid;
}

/* ---- death ---- */

/* kill_some tells some threads to leave that do not know it yet. False: now all know. */
static bool kill_some(struct process *p)
{
    enum { AT_ONCE = 16 };
    unsigned found = 0;
    lock_acquire(&p->lock);
    list_each(struct thread, t, &p->threads, process_link)
        if (!t->killed && found++ < AT_ONCE)
            thread_kill(t);
    lock_release(&p->lock);
    return found > AT_ONCE;
}

/* Sets the status and tells the threads to leave. True: nobody had done it before. */
static bool process_condemn(struct process *p, int status, int signal)
{
    lock_acquire(&p->lock);
    bool first = !p->dying;
    if (first) {
        p->dying = true;
        p->dying_ns = arch_time_ns();
        p->status = status & 255; /* PR2 */
        p->signal = signal;
    }
    lock_release(&p->lock);
    while (kill_some(p))
        thread_breathe();
    return first;
}

void process_exit(struct process *p, int status) { process_condemn(p, status, 0); }
void process_end_by(struct process *p, int signal) { process_condemn(p, 128 + signal, signal); }

/* A back trace as one line, so that it stays together in the log. Its addresses are those of calls,
 * not behind. */
struct back { char text[320]; size_t n; };

static void back_add(struct back *b, const struct process *p, vaddr_t at)
{
    if (b->n < sizeof(b->text) - 1)
        b->n += (size_t)snprintk(b->text + b->n, sizeof(b->text) - b->n, "%s %s+0x%lx",
                                 b->n ? "" : ", called from", p->name, at - 1);
}

/* back_look searches the stack below the first frame, where code without frame pointers (the C
 * library's) has left its return addresses: a word that points behind a call probably is one. */
static void back_look(struct process *p, const struct trap_frame *f, struct back *b)
{
    enum { LOOK_BYTES = 16384 };
    uint64_t word;
    vaddr_t at = (trap_stack_pointer(f) + 7) & ~7ull, end = at + LOOK_BYTES;
    for (; at < end && at != trap_frame_pointer(f) && !copy_from_user(&word, at, sizeof(word));
         at += 8) {
        if (vm_is_code(p, word) && user_calls_before(word))
            back_add(b, p, word);
        if (at % 4096 == 0)
            thread_breathe();
    }
}

/* backtrace follows frame pointers as far as they lead through code, and adds each caller. */
static void backtrace(struct process *p, const struct trap_frame *f, struct back *b)
{
    uint64_t frame[2] = {trap_frame_pointer(f), 0};
    back_look(p, f, b);
    for (vaddr_t at = 0, i = 0; i < BACKTRACE_MAX && frame[0] > at; i++) {
        at = frame[0];
        if (at % 8 || copy_from_user(frame, at, sizeof(frame)) || !vm_is_code(p, frame[1]))
            break;
        back_add(b, p, frame[1]);
    }
}

void process_kill(struct process *p, int status, const char *format, ...)
{
    char text[160];
    struct back trace = {.n = 0};
    va_list arguments;
    struct thread *t = thread_this();
    if (!process_condemn(p, status, status > 128 ? status - 128 : SIGNAL_KILL))
        return;
    va_start(arguments, format);
    vsnprintk(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (t->process != p) {
        printk("%s[%d]: killed: %s", p->name, p->pid, text);
        return;
    }
    const struct trap_frame *f = arch_user_frame(&t->arch);
    backtrace(p, f, &trace);
    printk("%s[%d]: killed: %s, at %s+0x%lx%s", p->name, p->pid, text, p->name,
           trap_place(f), trace.text);
    arch_print_trap(f);
    process_seam.killed(p);
}

void trap_user_exception(struct trap_frame *f, const char *what)
{
    int signal = trap_signal(f);
    if (!process_seam.fault(signal, SIGNAL_CODE_NOTHING, trap_place(f)))
        process_kill(process_this(), 128 + signal, "%s", what);
}

/* tell_family gives the children to init and wakes whoever waits for this end. process_table.lock
 * held. */
static void tell_family(struct process *p)
{
    struct process *init = lookup(process_table.init), *parent = lookup(p->parent);
    list_each(struct process, child, &process_table.all, link) {
        if (child->parent == p->pid)
            child->parent = process_table.init;
    }
    if (!parent || parent->ended || process_seam.wants_no_child(parent))
        p->parent = process_table.init;
    if (init)
        thread_wake_all(&init->waiters);
    if (parent)
        thread_wake_all(&parent->waiters);
}

/* process_end turns the process into an entry with a status; the last thread, which has left, runs
 * it. */
static void process_end(struct process *p)
{
    TRACE_RARE(EXIT, p->status, 0, 0);
    process_strip(p);
    thread_this()->process = NULL; /* it wants no table of its own from here on */
    table_free(p);
    lock_acquire(&process_table.lock);
    assert(p->dying && p->thread_count == 0 && !p->ended); /* PR3 */
    p->ended = true;
    tell_family(p);
    int pid = p->parent;
    lock_release(&process_table.lock);
    struct process *parent = process_find(pid);
    if (parent) {
        process_seam.child_ended(parent, p);
        process_put(parent);
    }
    if (p->pid == process_table.init)
        panic("init ended with status %d: nothing is left to run", p->status);
}

void process_thread_part(void)
{
    struct thread *t = thread_this();
    struct process *p = t->process;
    for (unsigned i = 0; process_seam.thread_gone[i]; i++)
        process_seam.thread_gone[i](t);
    lock_acquire(&p->lock);
    list_remove(&t->process_link);
    assert(p->thread_count > 0); /* PR3 */
    bool last = --p->thread_count == 0;
    limit_uncharge(p, KD_LIMIT_THREADS, 1);
    if (last && !p->dying) { /* every thread ended by itself */
        p->dying = true;
        p->status = 0;
    }
    lock_release(&p->lock);
    if (last)
        process_end(p);
    t->process = NULL;
}

_Noreturn void process_thread_leave(void)
{
    struct process *p = process_this();
    process_thread_part();
    process_seam.left();
    process_put(p);
    thread_exit();
}

/* ---- Ctrl-C ---- */

static unsigned foreground_for(void (*fn)(struct process *p))
{
    unsigned count = 0;
    lock_acquire(&process_table.lock);
    list_each(struct process, p, &process_table.all, link) {
        if (!(p->flags & KD_PROCESS_FOREGROUND) || p->ended)
            continue;
        count++;
        if (fn)
            fn(p);
    }
    lock_release(&process_table.lock);
    return count;
}

void process_interrupt(void) { foreground_for(process_seam.interrupt); }
bool process_foreground(void) { return foreground_for(NULL) > 0; }

void process_stats(const struct process *p, struct kd_view_stats *out)
{
    *out = p->stats;
    out->disk_bytes = p->home.disk_bytes;
}

unsigned process_count(void) { return process_table.count; }

struct process *process_after(int pid)
{
    struct process *next = NULL;
    lock_acquire(&process_table.lock);
    list_each(struct process, p, &process_table.all, link)
        if (p->pid > pid && (!next || p->pid < next->pid))
            next = p;
    if (next)
        process_get(next);
    lock_release(&process_table.lock);
    return next;
}

void process_check(void)
{
    int pid = 0;
    for (struct process *p; (p = process_after(pid));) {
        vm_check(p); /* of a process that ends no region is left before its page table goes */
        handle_check(p);
        pid = p->pid;
        process_put(p);
        thread_breathe();
    }
}

void process_start_first(void)
{
    static const char *const argv[] = {"/bin/init", NULL}, *const envp[] = {NULL};
    struct process *p;
    struct thread_begin *b;
    struct file *f;
    int error = process_load("/bin/init", argv, envp, NULL, &b, &p);
    if (!error)
        error = file_open(node_root(), "/dev/console", O_RDWR, 0, &f);
    if (error)
        panic("cannot start /bin/init: error %d; %s", -error,
              error == -ENOMEM ? "the machine needs more memory (48 MiB do)"
                               : "is there an initrd?");
    for (int fd = 0; fd < 3; fd++) {
        file_get(f);
        (void)!fd_set(p, fd, f, false);
    }
    file_put(f);
    process_table.init = p->pid;
    p->takes_reserve = true;
    error = handle_new(p, HANDLE_SYSTEM, NULL, KD_RIGHTS_SYSTEM);
    error = error == KD_SYSTEM_HANDLE ? process_launch(p, b) : error;
    if (error)
        panic("cannot start /bin/init: error %d", -error);
    process_put(p);
}
