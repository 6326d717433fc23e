/*
 * process_call.c - the calls on processes: create, wait, kill, list, halt, log.
 *
 * All that a call needs from the caller's memory is copied before a lock is taken, and results are
 * copied out after.
 */
#include "linux/linux_private.h"

#include "file/file.h"
#include "process/descriptor.h"
#include "process/handle.h"
#include "store/object.h"
#include "store/evict.h"

#define ARGUMENTS_MAX 1024
#define ARGUMENT_BYTES_MAX 65536

static int strings_add(struct process_strings *s, vaddr_t array)
{
    for (unsigned i = 0; array; i++) {
        vaddr_t at;
        if (copy_from_user(&at, array + i * sizeof(at), sizeof(at)))
            return -EFAULT;
        if (!at)
            break;
        if (s->count >= s->count_max)
            return -E2BIG;
        long n = copy_string_from_user(s->bytes + s->used, at, s->capacity - s->used);
        if (n < 0)
            return n == -ENAMETOOLONG ? -E2BIG : (int)n;
        s->pointers[s->count++] = s->bytes + s->used;
        s->used += (size_t)n + 1;
    }
    s->pointers[s->count++] = NULL;
    return 0;
}

void process_strings_free(struct process_strings *s)
{
    kfree(s->pointers);
    kfree(s->bytes);
    *s = (struct process_strings){0};
}

static int strings_read(struct process_strings *s, vaddr_t argv, vaddr_t envp,
                        const char *const **env)
{
    s->pointers = kalloc((s->count_max + 2) * sizeof(char *));
    s->bytes = kalloc(s->capacity);
    int error = s->pointers && s->bytes ? strings_add(s, argv) : -ENOMEM;
    if (!error) {
        *env = s->pointers + s->count;
        error = strings_add(s, envp);
    }
    return error;
}

/* process_strings_new copies argv and envp in. It tries with one frame first, which suffices nearly
 * always and is there when longer pieces of memory are not. 0, -E2BIG, -EFAULT, -ENOMEM. */
int process_strings_new(struct process_strings *s, vaddr_t argv, vaddr_t envp,
                        const char *const **env)
{
    *s = (struct process_strings){.capacity = PAGE_BYTES, .count_max = 200};
    int error = strings_read(s, argv, envp, env);
    if (error == -E2BIG) {
        process_strings_free(s);
        *s = (struct process_strings){.capacity = ARGUMENT_BYTES_MAX, .count_max = ARGUMENTS_MAX};
        error = strings_read(s, argv, envp, env);
    }
    return error;
}

/* endow gives the new process descriptors 0, 1, 2 and the handles that are passed. 0 or -errno. */
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
        int result = handle_pass(parent, c->handles[i], 0, p, (int)i);
        if (result < 0)
            return result;
    }
    p->flags = c->flags | parent->flags; /* a program in the foreground starts others there */
    return 0;
}

static long create_from(const struct kd_process_create *c, const char *path,
                        const char *const *argv, const char *const *envp, vaddr_t pid_out)
{
    struct process *parent = process_this(), *p;
    struct thread_begin *b;
    int handle = -1;
    long result = process_room() ? process_load(path, argv, envp, parent, &b, &p) : -EAGAIN;
    if (result)
        return result;
    int32_t pid = p->pid;
    limit_begin(p, parent, c->limits);
    result = endow(parent, p, c);
    if (!result)
        result = copy_to_user(pid_out, &pid, sizeof(pid));
    if (!result) {
        process_get(p);
        result = handle = handle_new(parent, HANDLE_PROCESS, p, KD_RIGHT_MANAGE);
        if (handle >= 0)
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

static long create_once(vaddr_t user)
{
    struct kd_process_create c;
    struct process_strings s = {0};
    const char *const *envp = NULL;
    char path[FILE_PATH_MAX];
    if (copy_from_user(&c, user, sizeof(c)))
        return -EFAULT;
    if (c.handle_count > KD_HANDLES_PASSED_MAX || (c.flags & ~(uint32_t)KD_PROCESS_FOREGROUND))
        return -EINVAL;
    long result = copy_string_from_user(path, (vaddr_t)c.path, sizeof(path));
    if (result < 0)
        return result;
    result = process_strings_new(&s, (vaddr_t)c.argv, (vaddr_t)c.envp, &envp);
    if (!result)
        result = create_from(&c, path, s.pointers, envp,
                             user + offsetof(struct kd_process_create, pid));
    process_strings_free(&s);
    return result;
}

enum { MEMORY_TRIES = 16 };

/* A process needs some memory in pieces of several frames; they may be there when the pages that
 * lie in their way have gone. */
long kd_process_create(const uint64_t a[6])
{
    long result = create_once(a[0]);
    for (int i = 0; result == -ENOMEM && i < MEMORY_TRIES && evict_together(STACK_FRAMES); i++)
        result = create_once(a[0]);
    return result;
}

/* Takes an ended child that matches out of the table; *any: there are some. Table lock held. */
static struct process *child_take(int parent, int pid, bool *any)
{
    list_each(struct process, p, &process_table.all, link) {
        if (p->parent != parent || (pid != -1 && pid != p->pid && pid != -p->group))
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

int process_wait_child(int pid, bool no_hang, int (*park)(uint64_t), struct process **out)
{
    struct process *me = process_this();
    int error = 0;
    bool any;
    lock_acquire(&process_table.lock);
    while (!error) {
        any = false;
        *out = child_take(me->pid, pid, &any);
        if (*out) {
            me->children_ns += (*out)->home.cpu_ns + (*out)->children_ns;
            break;
        }
        if (!any || no_hang) {
            error = any ? -EAGAIN : -ECHILD;
            break;
        }
        error = thread_wait(&me->waiters, &process_table.lock, park);
    }
    lock_release(&process_table.lock);
    return error;
}

long process_thread_nice(uint64_t id, const int *nice)
{
    long result = -ESRCH;
    lock_acquire(&process_table.lock);
    list_each(struct process, p, &process_table.all, link) {
        lock_acquire(&p->lock);
        list_each(struct thread, t, &p->threads, process_link) {
            if (t->id != id)
                continue;
            bool may = !nice || process_in_reach_locked(p, KD_RIGHT_PROCESSES);
            if (nice && may)
                t->nice = (int8_t)*nice;
            result = may ? 20 - t->nice : -EPERM;
        }
        lock_release(&p->lock);
    }
    lock_release(&process_table.lock);
    return result;
}

long kd_process_wait(const uint64_t a[6])
{
    int pid = (int)a[0];
    vaddr_t status = a[1];
    uint64_t flags = a[2];
    struct process *child;
    if (flags & ~(uint64_t)KD_WAIT_NOHANG)
        return -EINVAL;
    int error = process_wait_child(pid, flags & KD_WAIT_NOHANG, thread_park_until, &child);
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
    i->state = p->ended ? 2 : p->dying;
    i->frames = p->frames;
    i->cpu_ns = p->home.cpu_ns;
    limit_info(p, i->used, i->most);
    strlcpy(i->name, p->name, sizeof(i->name));
    process_stats(p, &i->stats);
}

/* The process with the lowest number above `last`; false: none. */
static bool info_next(int last, struct kd_process_info *info)
{
    struct process *next = NULL;
    lock_acquire(&process_table.lock);
    list_each(struct process, p, &process_table.all, link)
        if (p->pid > last && (!next || p->pid < next->pid))
            next = p;
    if (next)
        info_fill(info, next);
    lock_release(&process_table.lock);
    return next != NULL;
}

/* kd_process_list copies the processes out one by one, so it needs no memory. Returns how many
 * there are. */
long kd_process_list(const uint64_t a[6])
{
    struct kd_process_info info = {0};
    uint64_t n = 0;
    for (; info_next(info.pid, &info); n++)
        if (n < a[1] && copy_to_user(a[0] + n * sizeof info, &info, sizeof info))
            return -EFAULT;
    return (long)n;
}

long kd_process_kill(const uint64_t a[6])
{
    struct process *p = process_find((int)a[0]);
    if (!p)
        return -ESRCH;
    bool may = process_in_reach(p, KD_RIGHT_PROCESSES);
    if (may)
        process_kill(p, (int)a[1], "by process %d", process_this()->pid);
    process_put(p);
    return may ? 0 : -EPERM;
}

long kd_halt(const uint64_t a[6])
{
    if (!system_allows(KD_RIGHT_HALT))
        return -EPERM;
    printk("exit status %d", (int)a[0] & 255);
    arch_power_off(0);
}

long kd_kernel_log(const uint64_t a[6])
{
    char line[256];
    size_t n = MIN(a[1], sizeof(line) - 1);
    if (copy_from_user(line, a[0], n))
        return -EFAULT;
    line[n] = 0;
    for (size_t i = 0; i < n; i++) /* one call is one line, of text */
        if ((uint8_t)line[i] < ' ')
            line[i] = ' ';
    printk("%s[%d]: %s", process_this()->name, process_this()->pid, line);
    return (long)n;
}
