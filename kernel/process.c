/*
 * process.c - processes: birth, threads, death, waiting.
 *
 * A process dies in this order. Somebody sets `dying` and kills its threads (process_kill,
 * process_exit). Each thread leaves by process_thread_leave(), on its way back to user mode or out
 * of an interruptible wait; in it, view_thread_gone() ends its transactions. The last one runs the
 * hooks of views, ports, handles and objects, closes the files, frees the memory and the page
 * tables, and turns the process into an entry with a status. The parent's wait takes that entry.
 *
 * Invariants
 *   R1  A process is in the table from its creation until its parent, or init in its place, has
 *       waited for it; the table holds one reference, each thread another.
 *   R2  `status` does not change any more once `dying` is set.
 *   R3  A thread is in process->threads from its start until process_thread_leave() takes it off.
 *       One that is added to a dying process is killed in the same section.
 *
 * Locks: table.lock (parents, ends, the list), then process->lock (threads, dying, status).
 */
#include "process.h"

#include "file.h"
#include "futex.h"
#include "handle.h"
#include "vm.h"

#define ARGUMENTS_MAX 1024
#define BACKTRACE_MAX 6
#define ARGUMENT_BYTES_MAX 65536

static struct {
    struct lock lock;
    struct list all;
    unsigned count;
    int init;                /* pid of the first process */
} table = {.lock = LOCK_INIT(RANK_PROCESS_TABLE, "processes")};

struct thread_begin {        /* how a thread enters user mode */
    struct trap_frame registers;
    uint64_t fs_base;
    vaddr_t entry, stack;    /* of a process's first thread */
};

void process_get(struct process *p)
{
    __atomic_add_fetch(&p->references, 1, __ATOMIC_RELAXED);
}

void process_put(struct process *p)
{
    if (__atomic_sub_fetch(&p->references, 1, __ATOMIC_ACQ_REL) == 0)
        kfree(p);
}

/* table.lock held. */
static struct process *process_lookup(int pid)
{
    list_for (l, &table.all) {
        struct process *p = container_of(l, struct process, link);
        if (p->pid == pid)
            return p;
    }
    return NULL;
}

struct process *process_find(int pid)
{
    lock_acquire(&table.lock);
    struct process *p = process_lookup(pid);
    if (p && p->ended)
        p = NULL;
    if (p)
        process_get(p);
    lock_release(&table.lock);
    return p;
}

/* ---- birth ---- */

/* Out of user mode's sight: its space is empty, it has no thread and is not in the table. */
static struct process *process_new(const char *path, struct process *parent, struct node *cwd)
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
    lock_init(&p->lock, RANK_PROCESS, "process");
    lock_init(&p->file_lock, RANK_PROCESS, "descriptors");
    lock_init(&p->handle_lock, RANK_HANDLES, "handles");
    lock_init(&p->attach_lock, RANK_ATTACH, "attachments");
    list_init(&p->link);
    list_init(&p->threads);
    list_init(&p->waiters);
    p->cwd = cwd;
    if (vm_space_new(p)) {
        kfree(p);
        return NULL;
    }
    return p;
}

/* What process_end() and a failed creation share: nothing runs in it any more. */
static void process_strip(struct process *p)
{
    view_process_gone(p);
    port_process_gone(p);
    handle_process_gone(p);
    object_process_gone(p);
    fd_close_all(p);
    vm_space_free(p);
    node_put(p->cwd);
    p->cwd = NULL;
}

static void table_free(struct process *p)
{
    paddr_t top = p->table;
    p->table = 0;
    arch_table_free(top, false);
}

/* A process that never ran, nor was in the table. */
static void process_discard(struct process *p)
{
    process_strip(p);
    table_free(p);
    process_put(p);
}

/* A thread that was killed before it began leaves at once. */
static struct thread_begin begin_take(void *arg)
{
    struct thread_begin b = *(struct thread_begin *)arg;
    kfree(arg);
    if (thread_this()->killed)
        process_thread_leave();
    return b;
}

static void begin_process(void *arg)
{
    struct thread_begin b = begin_take(arg);
    arch_user_enter(b.entry, b.stack, 0);
}

static void begin_thread(void *arg)
{
    struct thread_begin b = begin_take(arg);
    arch_set_fs_base(&thread_this()->arch, b.fs_base);
    arch_user_resume(&b.registers);
}

/* Loads a program into a process that is not in the table yet and has no thread, so that the caller
 * can hand things over before it runs. */
static int process_load(const char *path, const char *const *argv, const char *const *envp,
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
    error = p && b ? elf_load(p, image, path, argv, envp, &b->entry, &b->stack) : -ENOMEM;
    node_put(image);
    if (error) {
        if (p)
            process_discard(p);
        kfree(b);
    }
    *begin = b;
    *out = p;
    return error;
}

/* Into the table (R1) and off it goes; nothing fails after its thread exists. */
static int process_launch(struct process *p, struct thread_begin *b)
{
    lock_acquire(&table.lock);
    bool room = table.count < PROCESS_MAX;
    table.count += room;
    lock_release(&table.lock);
    struct thread *t = room ? thread_new(p, begin_process, b, p->name) : NULL;
    lock_acquire(&table.lock);
    if (t) {
        t->id = (uint64_t)p->pid;
        process_get(p); /* the table's, */
        process_get(p); /* and the thread's */
        list_push_back(&p->threads, &t->process_link);
        p->thread_count = 1;
        list_push_back(&table.all, &p->link);
    } else if (room) {
        table.count--;
    }
    lock_release(&table.lock);
    if (t)
        thread_start(t);
    return t ? 0 : room ? -ENOMEM : -EAGAIN;
}

int process_create(const char *path, const char *const *argv, const char *const *envp,
                   struct process *parent, struct process **out)
{
    struct thread_begin *b;
    int error = process_load(path, argv, envp, parent, &b, out);
    if (error)
        return error;
    error = process_launch(*out, b);
    if (error) {
        kfree(b);
        process_discard(*out);
    }
    return error;
}

long process_thread_new(const struct trap_frame *registers, uint64_t fs_base,
                        vaddr_t clear_child_tid, vaddr_t parent_tid, vaddr_t child_tid)
{
    struct process *p = process_this();
    uint32_t tid = (uint32_t)thread_id_alloc();
    if ((parent_tid && copy_to_user(parent_tid, &tid, sizeof(tid)))
        || (child_tid && copy_to_user(child_tid, &tid, sizeof(tid))))
        return -EFAULT;
    if (p->thread_count >= PROCESS_THREADS_MAX)
        return -EAGAIN;
    struct thread_begin *b = kalloc(sizeof(*b));
    struct thread *t = b ? thread_new(p, begin_thread, b, p->name) : NULL;
    if (!t) {
        kfree(b);
        return -EAGAIN;
    }
    b->registers = *registers;
    b->fs_base = fs_base;
    t->id = tid;
    t->clear_child_tid = clear_child_tid;
    arch_thread_copy_fpu(&t->arch, &thread_this()->arch);
    lock_acquire(&p->lock);
    process_get(p);
    list_push_back(&p->threads, &t->process_link);
    p->thread_count++;
    if (p->dying) /* R3 */
        thread_kill(t);
    lock_release(&p->lock);
    thread_start(t);
    return tid;
}

/* ---- death ---- */

/* Sets the status and tells the threads to leave. True: nobody had done it before. */
static bool process_condemn(struct process *p, int status)
{
    lock_acquire(&p->lock);
    bool first = !p->dying;
    if (first) {
        p->dying = true;
        p->status = status & 255; /* R2 */
    }
    list_for (l, &p->threads)
        thread_kill(container_of(l, struct thread, process_link));
    lock_release(&p->lock);
    return first;
}

void process_exit(struct process *p, int status)
{
    process_condemn(p, status);
}

/* Who called, as far as frame pointers lead through code: one line, so that it stays together in
 * the log. The addresses are those of the calls, not behind them. */
static void backtrace(struct process *p, vaddr_t frame_pointer, char *out, size_t bytes)
{
    uint64_t frame[2];
    size_t n = 0;
    out[0] = 0;
    for (int i = 0; i < BACKTRACE_MAX && n < bytes - 1; i++) {
        if (frame_pointer % 8 || copy_from_user(frame, frame_pointer, sizeof(frame))
            || !vm_is_code(p, frame[1]))
            break;
        n += (size_t)snprintk(out + n, bytes - n, "%s %s+0x%lx", i ? "" : ", called from", p->name,
                              (unsigned long)frame[1] - 1);
        if (frame[0] <= frame_pointer)
            break;
        frame_pointer = frame[0];
    }
}

void process_kill(struct process *p, int status, const char *format, ...)
{
    char text[160], trace[256];
    va_list arguments;
    struct thread *t = thread_this();
    if (!process_condemn(p, status))
        return;
    va_start(arguments, format);
    vsnprintk(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (t->process != p) {
        printk("%s[%d]: killed: %s", p->name, p->pid, text);
        return;
    }
    const struct trap_frame *f = arch_user_frame(&t->arch);
    backtrace(p, trap_frame_pointer(f), trace, sizeof(trace));
    printk("%s[%d]: killed: %s, at %s+0x%lx%s", p->name, p->pid, text, p->name,
           (unsigned long)trap_place(f), trace);
}

void trap_user_exception(struct trap_frame *f, const char *what)
{
    (void)f;
    process_kill(process_this(), 128 + 11, "%s", what);
}

/* Children go to init; wakes whoever waits for this end. table.lock held. */
static void tell_family(struct process *p)
{
    struct process *init = process_lookup(table.init), *parent = process_lookup(p->parent);
    struct list *l;
    list_for (c, &table.all) {
        struct process *child = container_of(c, struct process, link);
        if (child->parent == p->pid)
            child->parent = table.init;
    }
    if (!parent || parent->ended)
        p->parent = table.init;
    struct process *woken[] = {init, parent};
    for (unsigned i = 0; i < ARRAY_COUNT(woken); i++)
        while (woken[i] && (l = list_pop(&woken[i]->waiters)))
            thread_wake(container_of(l, struct thread, wait_link));
}

/* The last thread has left; runs in it. */
static void process_end(struct process *p)
{
    process_strip(p);
    thread_this()->process = NULL; /* it wants no table of its own from here on */
    table_free(p);
    lock_acquire(&table.lock);
    p->ended = true;
    tell_family(p);
    lock_release(&table.lock);
    if (p->pid == table.init)
        panic("init ended with status %d: nothing is left to run", p->status);
}

_Noreturn void process_thread_leave(void)
{
    struct thread *t = thread_this();
    struct process *p = t->process;
    view_thread_gone(t);
    futex_thread_gone(t);
    lock_acquire(&p->lock);
    list_remove(&t->process_link);
    bool last = --p->thread_count == 0;
    if (last && !p->dying) { /* every thread ended by itself */
        p->dying = true;
        p->status = 0;
    }
    lock_release(&p->lock);
    if (last)
        process_end(p);
    t->process = NULL;
    process_put(p);
    thread_exit();
}

/* ---- Ctrl-C ---- */

static unsigned foreground_for(void (*fn)(struct process *p))
{
    unsigned count = 0;
    lock_acquire(&table.lock);
    list_for (l, &table.all) {
        struct process *p = container_of(l, struct process, link);
        if (!(p->flags & KD_PROCESS_FOREGROUND) || p->ended)
            continue;
        count++;
        if (fn)
            fn(p);
    }
    lock_release(&table.lock);
    return count;
}

static void interrupt(struct process *p) { process_exit(p, 128 + 2); }
void process_interrupt(void) { foreground_for(interrupt); }
bool process_foreground(void) { return foreground_for(NULL) > 0; }

/* ---- calls ---- */

/* Strings of the caller's, copied into one piece of kernel memory. */
struct strings {
    const char **pointers;
    char *bytes;
    size_t used;
    unsigned count;
};

static int strings_add(struct strings *s, vaddr_t array)
{
    for (unsigned i = 0; array; i++) {
        vaddr_t at;
        if (copy_from_user(&at, array + i * sizeof(at), sizeof(at)))
            return -EFAULT;
        if (!at)
            break;
        if (s->count >= ARGUMENTS_MAX)
            return -E2BIG;
        long n = copy_string_from_user(s->bytes + s->used, at, ARGUMENT_BYTES_MAX - s->used);
        if (n < 0)
            return n == -ENAMETOOLONG ? -E2BIG : (int)n;
        s->pointers[s->count++] = s->bytes + s->used;
        s->used += (size_t)n + 1;
    }
    s->pointers[s->count++] = NULL;
    return 0;
}

static int strings_new(struct strings *s, vaddr_t argv, vaddr_t envp, const char *const **env)
{
    s->pointers = kalloc((ARGUMENTS_MAX + 2) * sizeof(char *));
    s->bytes = kalloc(ARGUMENT_BYTES_MAX);
    int error = s->pointers && s->bytes ? strings_add(s, argv) : -ENOMEM;
    if (!error) {
        *env = s->pointers + s->count;
        error = strings_add(s, envp);
    }
    return error;
}

/* Descriptors 0, 1, 2 and the handles that are passed. */
static int endow(struct process *parent, struct process *p, const struct kd_process_create *c)
{
    for (int i = 0; i < 3; i++) {
        struct file *f = fd_file(parent, c->fds[i] == -1 ? i : c->fds[i]);
        if (!f && c->fds[i] != -1)
            return -EBADF;
        if (f)
            (void)!fd_set(p, i, f);
    }
    for (unsigned i = 0; i < c->handle_count; i++) {
        int result = handle_pass(parent, c->handles[i], p, (int)i);
        if (result < 0)
            return result;
    }
    p->flags = c->flags;
    return 0;
}

static long create_from(const struct kd_process_create *c, const char *path,
                        const char *const *argv, const char *const *envp, vaddr_t pid_out)
{
    struct process *parent = process_this(), *p;
    struct thread_begin *b;
    int handle = -1;
    long result = process_load(path, argv, envp, parent, &b, &p);
    if (result)
        return result;
    int32_t pid = p->pid;
    result = endow(parent, p, c);
    if (!result)
        result = copy_to_user(pid_out, &pid, sizeof(pid));
    if (!result) {
        process_get(p);
        result = handle = handle_new(parent, HANDLE_PROCESS, p, KD_RIGHT_MANAGE);
        if (handle < 0)
            process_put(p);
        else
            result = process_launch(p, b);
    }
    if (result < 0) {
        if (handle >= 0)
            (void)!handle_close(parent, handle);
        kfree(b);
        process_discard(p);
        return result;
    }
    process_put(p);
    return handle;
}

static long call_create(vaddr_t user)
{
    struct kd_process_create c;
    struct strings s = {0};
    const char *const *envp = NULL;
    char path[FILE_PATH_MAX];
    if (copy_from_user(&c, user, sizeof(c)))
        return -EFAULT;
    if (c.handle_count > KD_HANDLES_PASSED_MAX || (c.flags & ~(uint32_t)KD_PROCESS_FOREGROUND))
        return -EINVAL;
    long result = copy_string_from_user(path, (vaddr_t)c.path, sizeof(path));
    if (result < 0)
        return result;
    result = strings_new(&s, (vaddr_t)c.argv, (vaddr_t)c.envp, &envp);
    if (!result)
        result = create_from(&c, path, s.pointers, envp,
                             user + offsetof(struct kd_process_create, pid));
    kfree(s.pointers);
    kfree(s.bytes);
    return result;
}

/* table.lock held. An ended child that matches comes out of the table; *any: there are some. */
static struct process *child_take(int parent, int pid, bool *any)
{
    list_for (l, &table.all) {
        struct process *p = container_of(l, struct process, link);
        if (p->parent != parent || (pid != -1 && pid != p->pid))
            continue;
        *any = true;
        if (!p->ended)
            continue;
        list_remove(&p->link);
        table.count--;
        return p;
    }
    return NULL;
}

static long call_wait(int pid, vaddr_t status, uint64_t flags)
{
    struct process *me = process_this(), *child;
    struct thread *t = thread_this();
    int error = 0;
    bool any;
    if (flags & ~(uint64_t)KD_WAIT_NOHANG)
        return -EINVAL;
    lock_acquire(&table.lock);
    while (!error) {
        any = false;
        child = child_take(me->pid, pid, &any);
        if (child)
            break;
        if (!any)
            error = -ECHILD;
        else if (flags & KD_WAIT_NOHANG)
            error = -EAGAIN;
        if (error)
            break;
        list_init(&t->wait_link);
        list_push_back(&me->waiters, &t->wait_link);
        lock_release(&table.lock);
        error = thread_park_until(~0ull);
        lock_acquire(&table.lock);
        list_remove(&t->wait_link);
    }
    lock_release(&table.lock);
    if (error)
        return error == -EAGAIN ? 0 : error;
    int32_t value = child->status;
    long result = child->pid;
    process_put(child); /* the table's */
    if (status && copy_to_user(status, &value, sizeof(value)))
        return -EFAULT;
    return result;
}

static void info_fill(struct kd_process_info *i, struct process *p)
{
    i->pid = p->pid;
    i->parent = p->parent;
    i->threads = p->thread_count;
    i->handles = p->handle_count;
    i->views = p->view_count;
    i->state = p->ended ? 2 : p->dying;
    i->frames = p->frames;
    i->cpu_ns = p->cpu_ns;
    strlcpy(i->name, p->name, sizeof(i->name));
}

static long call_list(vaddr_t user, uint64_t count)
{
    struct kd_process_info *infos = kalloc(PROCESS_MAX * sizeof(*infos));
    uint64_t n = 0;
    if (!infos)
        return -ENOMEM;
    lock_acquire(&table.lock);
    list_for (l, &table.all)
        info_fill(&infos[n++], container_of(l, struct process, link));
    lock_release(&table.lock);
    long result = (long)n;
    if (copy_to_user(user, infos, MIN(n, count) * sizeof(*infos)))
        result = -EFAULT;
    kfree(infos);
    return result;
}

static long call_kill(int pid, int status)
{
    struct process *p = process_find(pid);
    if (!p)
        return -ESRCH;
    if (pid == table.init) {
        process_put(p);
        return -EPERM;
    }
    process_kill(p, status, "by process %d", process_this()->pid);
    process_put(p);
    return 0;
}

static long call_halt(int status)
{
    struct process *p = process_this();
    if (p->pid != table.init && p->parent != table.init)
        return -EPERM;
    printk("exit status %d", status & 255);
    arch_power_off(0);
}

static long call_log(vaddr_t text, uint64_t bytes)
{
    char line[256];
    size_t n = MIN(bytes, sizeof(line) - 1);
    if (copy_from_user(line, text, n))
        return -EFAULT;
    line[n] = 0;
    for (size_t i = 0; i < n; i++) /* one call is one line, of text */
        if ((uint8_t)line[i] < ' ')
            line[i] = ' ';
    printk("%s[%d]: %s", process_this()->name, process_this()->pid, line);
    return (long)n;
}

unsigned process_count(void)
{
    return table.count;
}

void process_check(void)
{
    lock_acquire(&table.lock);
    list_for (l, &table.all) {
        struct process *p = container_of(l, struct process, link);
        if (!p->ended)
            vm_check(p);
    }
    lock_release(&table.lock);
}

long process_call(unsigned number, const uint64_t a[6])
{
    switch (number) {
    case KD_PROCESS_CREATE: return call_create(a[0]);
    case KD_PROCESS_WAIT: return call_wait((int)a[0], a[1], a[2]);
    case KD_PROCESS_KILL: return call_kill((int)a[0], (int)a[1]);
    case KD_PROCESS_LIST: return call_list(a[0], a[1]);
    case KD_HALT: return call_halt((int)a[0]);
    case KD_KERNEL_LOG: return call_log(a[0], a[1]);
    default: return system_call(number, a);
    }
}

void process_init(void)
{
    list_init(&table.all);
}

void process_start_first(void)
{
    static const char *const argv[] = {"/bin/init", NULL}, *const envp[] = {NULL};
    struct process *p;
    struct thread_begin *b;
    struct file *f;
    int error = process_load("/bin/init", argv, envp, NULL, &b, &p);
    if (!error)
        error = file_open(node_root(), "/dev/console", O_RDWR, &f);
    if (error)
        panic("cannot start /bin/init: error %d; is there an initrd?", -error);
    for (int fd = 0; fd < 3; fd++) {
        file_get(f);
        (void)!fd_set(p, fd, f);
    }
    file_put(f);
    table.init = p->pid;
    error = process_launch(p, b);
    if (error)
        panic("cannot start /bin/init: error %d", -error);
    process_put(p);
}
