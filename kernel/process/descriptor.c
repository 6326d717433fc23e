/*
 * descriptor.c - the numbers that a process has for open files, and its working folder
 * (descriptor.h).
 *
 * Owns      process->files.
 * Lock: process->files.lock.
 */
#include "process/descriptor.h"

#include "file/file.h"

struct file *fd_file(struct process *p, int fd)
{
    if (fd < 0 || fd >= PROCESS_FILES_MAX)
        return NULL;
    lock_acquire(&p->files.lock);
    struct file *f = p->files.of[fd];
    if (f)
        file_get(f);
    lock_release(&p->files.lock);
    return f;
}

int fd_limit(const struct process *p)
{
    return (int)MIN(p->limits.most[KD_LIMIT_FILES], (uint64_t)PROCESS_FILES_MAX);
}

uint64_t fd_count(const struct process *p)
{
    uint64_t n = 0;
    for (int fd = 0; fd < PROCESS_FILES_MAX; fd++)
        n += p->files.of[fd] != NULL;
    return n;
}

int fd_new(struct process *p, struct file *f, int lowest, bool close_on_exec)
{
    int fd = MAX(lowest, 0);
    lock_acquire(&p->files.lock);
    while (fd < fd_limit(p) && p->files.of[fd])
        fd++;
    bool free = fd < fd_limit(p);
    if (free) {
        p->files.of[fd] = f;
        p->files.close_on_exec |= (uint64_t)close_on_exec << fd;
    }
    lock_release(&p->files.lock);
    if (!free)
        file_put(f);
    return free ? fd : -EMFILE;
}

/* fd_replace puts f, or NULL, there, and drops what was there. False: that was nothing. */
static bool fd_replace(struct process *p, int fd, struct file *f, bool close_on_exec)
{
    lock_acquire(&p->files.lock);
    struct file *old = p->files.of[fd];
    p->files.of[fd] = f;
    p->files.close_on_exec &= ~(1ull << fd);
    p->files.close_on_exec |= (uint64_t)close_on_exec << fd;
    lock_release(&p->files.lock);
    if (old)
        file_put(old);
    return old;
}

int fd_set(struct process *p, int fd, struct file *f, bool close_on_exec)
{
    bool good = fd >= 0 && fd < fd_limit(p);
    if (good)
        (void)fd_replace(p, fd, f, close_on_exec);
    else
        file_put(f);
    return good ? fd : -EBADF;
}

int fd_close(struct process *p, int fd)
{
    return fd >= 0 && fd < PROCESS_FILES_MAX && fd_replace(p, fd, NULL, false) ? 0 : -EBADF;
}

void fd_close_all(struct process *p)
{
    for (int fd = 0; fd < PROCESS_FILES_MAX; fd++)
        (void)!fd_close(p, fd);
}

void fd_close_on_exec(struct process *p, int fd, bool close)
{
    if (fd < 0 || fd >= PROCESS_FILES_MAX)
        return;
    lock_acquire(&p->files.lock);
    p->files.close_on_exec &= ~(1ull << fd);
    p->files.close_on_exec |= (uint64_t)close << fd;
    lock_release(&p->files.lock);
}

bool fd_closes_on_exec(struct process *p, int fd)
{
    return fd >= 0 && fd < PROCESS_FILES_MAX && (p->files.close_on_exec >> fd & 1);
}

struct node *cwd_get(struct process *p)
{
    lock_acquire(&p->files.lock);
    struct node *n = p->files.cwd;
    node_get(n);
    lock_release(&p->files.lock);
    return n;
}
