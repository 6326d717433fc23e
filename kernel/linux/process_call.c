/*
 * process_call.c - the calls on processes: create, kill, list, halt, log.
 *
 * All that a call needs from the caller's memory is copied before a lock is taken, and results are
 * copied out after.
 */
#include "linux/linux.h"

#include "file/file.h"
#include "message/message.h"
#include "process/descriptor.h"
#include "process/handle.h"

#define ARGUMENTS_MAX 1024
#define ARGUMENT_BYTES_MAX (65536 + (ARGUMENTS_MAX + 2) * sizeof(char *)) /* with pointers */

/* Strings of the caller's, argv and behind it envp, copied into one piece of kernel memory. */
struct strings {
    const char **pointers;             /* that memory; the strings lie behind them */
    char *bytes;                       /* that memory */
    size_t used, capacity;             /* of it */
    unsigned count, count_max;
};

/* string_add copies a string in pieces of a page, and breathes between them. 0 or -errno. */
static int string_add(struct strings *s, vaddr_t from)
{
    for (size_t room; (room = MIN(s->capacity - s->used, PAGE_BYTES)) > 0; thread_breathe()) {
        long n = copy_string_from_user(s->bytes + s->used, from, room);
        if (n != -ENAMETOOLONG) {
            s->used += n < 0 ? 0 : (size_t)n + 1;
            return n < 0 ? (int)n : 0;
        }
        s->used += room;
        from += room;
    }
    return -E2BIG;
}

static int strings_add(struct strings *s, vaddr_t array)
{
    for (unsigned i = 0; array; i++) {
        vaddr_t at;
        if (copy_from_user(&at, array + i * sizeof(at), sizeof(at)))
            return -EFAULT;
        if (!at)
            break;
        if (s->count >= s->count_max)
            return -E2BIG;
        s->pointers[s->count++] = s->bytes + s->used;
        int error = string_add(s, at);
        if (error)
            return error;
    }
    s->pointers[s->count++] = NULL;
    return 0;
}

static int strings_read(struct strings *s, vaddr_t argv, vaddr_t envp, const char *const **env)
{
    const char **all = s->pointers = limit_alloc(process_this(), s->capacity);
    if (!all)
        return -ENOMEM;
    s->bytes = (char *)all;
    s->used = (s->count_max + 2) * sizeof *all;
    int error = strings_add(s, argv);
    *env = all + s->count;
    return error ?: strings_add(s, envp);
}

/* One frame is tried first, for 126 strings: it suffices nearly always, and is there when longer
 * pieces of memory are not. */
long process_load_user(vaddr_t path, vaddr_t argv, vaddr_t envp, struct thread_begin **begin,
                       struct process **out)
{
    struct strings s = {.capacity = PAGE_BYTES, .count_max = PAGE_BYTES / 32 - 2};
    const char *const *env;
    char text[FILE_PATH_MAX];
    long result = copy_string_from_user(text, path, sizeof(text));
    if (result < 0)
        return result;
    result = strings_read(&s, argv, envp, &env);
    if (result == -E2BIG) {
        limit_free(process_this(), s.pointers, s.capacity);
        s = (struct strings){.capacity = ARGUMENT_BYTES_MAX, .count_max = ARGUMENTS_MAX};
        result = strings_read(&s, argv, envp, &env);
    }
    if (!result)
        result = process_load(text, s.pointers, env, process_this(), begin, out);
    limit_free(process_this(), s.pointers, s.capacity);
    return result;
}

/* endow gives the new process descriptors 0, 1, 2 and the handles that are passed. 0 or -errno. */
static int endow(struct process *parent, struct process *p, const struct kd_process_create *c)
{
    for (int i = 0; i < 3; i++) {
        struct file *f = fd_file(parent, c->fds[i] == -1 ? i : c->fds[i]);
        if (!f && c->fds[i] != -1)
            return -EBADF;
        if (f)
            (void)!fd_set(p, i, f, false);
    }
    for (unsigned i = 0; i < c->handle_count; i++) {
        int result = handle_pass(parent, c->handles[i], c->handle_rights[i], p, (int)i);
        if (result < 0)
            return result;
        badge_trace(KD_TRACE_PASSED, &p->handles[i], p->pid);
    }
    p->flags = c->flags | parent->flags; /* a program in the foreground starts others there */
    return 0;
}

long kd_process_create(const uint64_t a[6])
{
    struct process *parent = process_this(), *p;
    struct kd_process_create c;
    struct thread_begin *b;
    int handle = -1;
    if (copy_from_user(&c, a[0], sizeof(c)))
        return -EFAULT;
    if (c.handle_count > KD_HANDLES_PASSED_MAX || c.flags > KD_PROCESS_FLAGS)
        return -EINVAL;
    long result = process_room() ? process_load_user((vaddr_t)c.path, (vaddr_t)c.argv,
                                                     (vaddr_t)c.envp, &b, &p) : -EAGAIN;
    if (result)
        return result;
    int32_t pid = p->pid;
    limit_begin(p, parent, c.limits);
    result = endow(parent, p, &c) ?:
             copy_to_user(a[0] + offsetof(struct kd_process_create, pid), &pid, sizeof(pid));
    if (!result) {
        process_get(p);
        result = handle = handle_new(parent, HANDLE_PROCESS, p, KD_RIGHT_MANAGE);
    }
    if (handle >= 0)
        result = process_launch(p, b);
    if (result < 0) {
        if (handle >= 0)
            (void)!handle_close(parent, handle);
        process_discard(p, b);
        return result;
    }
    process_put(p);
    return handle;
}

/* Where the call of the first of its threads is that waits for one; 0: none does. */
static int call_at(struct process *p)
{
    int pids[CALL_PATH_MAX], at = 0;
    lock_acquire(&p->lock);
    list_each(const struct thread, t, &p->threads, process_link) {
        unsigned n = at ? 0 : call_path(t, pids);
        at = n ? pids[n - 1] : at;
    }
    lock_release(&p->lock);
    return at;
}

static void info_fill(struct kd_process_info *i, struct process *p)
{
    i->pid = p->pid;
    i->parent = p->parent;
    i->state = p->ended ? 2 : p->dying;
    i->frames = p->frames;
    i->cpu_ns = p->home.cpu_ns;
    i->at = call_at(p);
    limit_info(p, i->used, i->most);
    strlcpy(i->name, p->name, sizeof(i->name));
    process_stats(p, &i->stats);
}

/* kd_process_list copies the processes out one by one, so it needs no memory. Returns how many
 * there are. */
long kd_process_list(const uint64_t a[6])
{
    struct kd_process_info info = {0};
    uint64_t n = 0;
    for (struct process *p; (p = process_after(info.pid)); n++) {
        info_fill(&info, p);
        process_put(p);
        if (n < a[1] && copy_to_user(a[0] + n * sizeof info, &info, sizeof info))
            return -EFAULT;
    }
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
