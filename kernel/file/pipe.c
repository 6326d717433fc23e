/*
 * pipe.c - pipes: a ring of bytes between open files.
 *
 * Invariants
 *   PI1  0 <= written - taken <= PIPE_BYTES.
 *   PI2  A waiter is on the pipe's one list; whoever changes the pipe's state wakes all of it.
 *   PI3  What one write of up to PIPE_WHOLE bytes brings goes in as a whole.
 *   PI4  All rings take an eighth of memory at most, those of other programs than init and the
 *        shell seven parts of eight of that: pipes never crowd out programs.
 *
 * Lock: pipe->lock (RANK_FILE); not held while a thread sleeps.
 */
#include "file/file.h"
#include "thread/thread.h"

#define PIPE_BYTES 16384u
#define PIPE_WHOLE 4096u        /* PIPE_BUF of POSIX */

struct pipe {
    struct lock lock;
    char *ring;
    uint64_t written, taken;
    bool reader_gone, writer_gone;
    struct list waiters;               /* threads, by wait_link */
};

/* wait_for_change waits until a full or empty pipe has changed: 0. -EAGAIN: the file does not wait.
 * -EINTR, -ERESTARTSYS: the wait was ended. Lock held on entry and return. */
static int wait_for_change(struct file *f)
{
    struct pipe *p = f->pipe;
    return f->flags & O_NONBLOCK ? -EAGAIN
                                 : thread_wait(&p->waiters, &p->lock, thread_park_until_signal);
}

/* carry moves bytes between a buffer and the ring from *at on, up to `end`. */
static size_t carry(struct pipe *p, uint64_t *at, uint64_t end, char *buffer, size_t bytes, bool in)
{
    size_t n = 0;
    for (size_t part; n < bytes && *at < end; n += part, *at += part) {
        char *place = p->ring + *at % PIPE_BYTES;
        part = MIN(MIN(bytes - n, PIPE_BYTES - *at % PIPE_BYTES), end - *at);
        memcpy(in ? place : buffer + n, in ? buffer + n : place, part);
    }
    assert(p->written - p->taken <= PIPE_BYTES); /* PI1 */
    return n;
}

static long pipe_read(struct file *f, void *to, size_t bytes, uint64_t at)
{
    struct pipe *p = f->pipe;
    long result = 0;
    if (at != FILE_HERE)
        return -ESPIPE;
    lock_acquire(&p->lock);
    while (bytes && !(result = (long)carry(p, &p->taken, p->written, to, bytes, false)) &&
           !p->writer_gone) {
        result = wait_for_change(f);
        if (result)
            break;
    }
    thread_wake_all(&p->waiters);
    lock_release(&p->lock);
    return result;
}

static long pipe_write(struct file *f, const void *from, size_t bytes, uint64_t at)
{
    struct pipe *p = f->pipe;
    char *text = (char *)from;
    size_t done = 0;
    int error = 0;
    if (at != FILE_HERE)
        return -ESPIPE;
    lock_acquire(&p->lock);
    while (done < bytes && !error) {
        if (p->reader_gone) {
            error = -EPIPE;
            break;
        }
        bool wait = bytes <= PIPE_WHOLE && PIPE_BYTES - (p->written - p->taken) < bytes; /* PI3 */
        size_t n = wait ? 0 : carry(p, &p->written, p->taken + PIPE_BYTES, text + done,
                                    bytes - done, true);
        done += n;
        if (n)
            thread_wake_all(&p->waiters);
        else
            error = wait_for_change(f);
    }
    lock_release(&p->lock);
    return done ? (long)done : error;
}

static size_t pipes; /* atomic */

static void pipe_close(struct file *f)
{
    struct pipe *p = f->pipe;
    lock_acquire(&p->lock);
    if ((f->flags & O_ACCESS) == O_RDONLY)
        p->reader_gone = true;
    else
        p->writer_gone = true;
    bool free = p->reader_gone && p->writer_gone;
    thread_wake_all(&p->waiters);
    lock_release(&p->lock);
    if (free) {
        kfree(p->ring);
        kfree(p);
        __atomic_fetch_sub(&pipes, 1, __ATOMIC_RELAXED);
    }
}

static const struct file_operations pipe_operations = {
    .read = pipe_read, .write = pipe_write, .close = pipe_close,
};

int pipe_new(struct file **reader, struct file **writer, unsigned flags, bool kept)
{
    uint64_t most = frame_total_count() / 8; /* PI4 */
    most -= kept ? 0 : most / 8;
    bool few = __atomic_add_fetch(&pipes, 1, __ATOMIC_RELAXED) * PIPE_BYTES / PAGE_BYTES <= most;
    struct pipe *p = few ? kalloc(sizeof(*p)) : NULL;
    char *ring = p ? kalloc(PIPE_BYTES) : NULL;
    struct file *r = file_new(&pipe_operations, O_RDONLY | flags);
    struct file *w = file_new(&pipe_operations, O_WRONLY | flags);
    if (!p || !ring || !r || !w) {
        kfree(p);
        kfree(ring);
        kfree(r);
        kfree(w);
        __atomic_fetch_sub(&pipes, 1, __ATOMIC_RELAXED);
        return -ENOMEM;
    }
    lock_init(&p->lock, RANK_FILE, "pipe");
    list_init(&p->waiters);
    p->ring = ring;
    r->pipe = w->pipe = p;
    *reader = r;
    *writer = w;
    return 0;
}
