/*
 * linux_file.c - Linux calls on descriptors: read, write, seek, copy, pipes, terminals. Bytes go
 * through a kernel buffer, a page at a time (linux.md, rule 2).
 */
#include "file/file.h"
#include "process/descriptor.h"
#include "linux/linux.h"

#define SMALL_BYTES 256u
#define VECTORS_MAX 1024
#define TRANSFER_MAX 0x7ffff000ul

enum { SEEK_SET = 0, SEEK_CUR = 1, SEEK_END = 2 };

long call_with_file(file_call *fn, const uint64_t a[6])
{
    struct file *f = fd_file(process_this(), (int)a[0]);
    if (!f)
        return -EBADF;
    long result = fn(f, a);
    file_put(f);
    return result;
}

/* is_stream: a pipe or the terminal, which has no place to read from, and gives what it has. */
static bool is_stream(const struct file *f) { return !f->node || f->node->kind == NODE_CONSOLE; }

/* What a transfer reads or writes in user memory: first what is left of one piece, then `count`
 * further ones, as struct iovec at `at`. */
struct pieces { uint64_t first[2], at, count; };

/* carry moves bytes between the pieces and a buffer; how many, or -EFAULT. */
static long carry(struct pieces *u, char *buffer, size_t bytes, bool write)
{
    size_t done = 0, part;
    int e = 0;
    for (; !e && done < bytes; done += e ? 0 : part) {
        part = MIN(bytes - done, u->first[1]);
        if (part == 0) {
            if (u->count == 0)
                break;
            u->count--;
            e = copy_from_user(u->first, u->at, sizeof(u->first));
            u->at += sizeof(u->first);
            continue;
        }
        e = write ? copy_from_user(buffer + done, u->first[0], part)
                  : copy_to_user(u->first[0], buffer + done, part);
        u->first[0] += part;
        u->first[1] -= part;
    }
    return done ? (long)done : e;
}

/* move goes through a buffer on the stack for a short transfer, or where there is no memory; else
 * through a frame. So what is written comes out as a whole if it is a page at most: nobody else's
 * bytes come between them in a pipe or on the terminal. */
static long move(struct file *f, struct pieces *u, size_t bytes, uint64_t at, bool write)
{
    char small[SMALL_BYTES];
    struct frame *frame = bytes > SMALL_BYTES ? frame_alloc_raw(FRAME_DATA) : NULL;
    char *buffer = frame ? frame_memory(frame) : small;
    size_t done = 0;
    long n = 0;
    while (done < bytes) {
        size_t part = MIN(bytes - done, frame ? PAGE_BYTES : SMALL_BYTES);
        n = write ? carry(u, buffer, part, true) : file_read(f, buffer, part, at);
        if (n > 0)
            n = write ? file_write(f, buffer, (size_t)n, at) : carry(u, buffer, (size_t)n, false);
        if (n <= 0)
            break;
        done += (size_t)n;
        if (at != FILE_HERE)
            at += (uint64_t)n;
        if ((size_t)n < part || (!write && is_stream(f)))
            break;
        thread_breathe();
    }
    if (frame)
        frame_free(frame);
    if (n == -EPIPE)
        (void)!signal_send(process_this(), thread_this()->id, SIGNAL_PIPE, NULL);
    return done ? (long)done : n;
}

static long transfer(struct file *f, const uint64_t a[6], uint64_t at, bool write)
{
    struct pieces u = {.first = {a[1], a[2]}};
    if (!user_range_ok(a[1], a[2]))
        return -EFAULT; /* also if all that is there to be read is shorter */
    return move(f, &u, MIN(a[2], TRANSFER_MAX), at, write);
}

static long transfer_at(struct file *f, const uint64_t a[6], bool write)
{
    if (is_stream(f))
        return -ESPIPE;
    return (int64_t)a[3] < 0 ? -EINVAL : transfer(f, a, a[3], write);
}

/* transfer_vectors looks at all vectors before anything is transferred. */
static long transfer_vectors(struct file *f, const uint64_t a[6], bool write)
{
    struct pieces u = {.at = a[1], .count = a[2]};
    uint64_t v[2], bytes = 0;
    if (a[2] > VECTORS_MAX)
        return -EINVAL;
    for (uint64_t i = 0; i < a[2]; i++) {
        if (copy_from_user(v, a[1] + i * sizeof(v), sizeof(v)))
            return -EFAULT;
        if ((int64_t)v[1] < 0)
            return -EINVAL;
        if (!user_range_ok(v[0], v[1]))
            return -EFAULT;
        bytes += MIN(v[1], TRANSFER_MAX);
    }
    return move(f, &u, MIN(bytes, TRANSFER_MAX), FILE_HERE, write);
}

FILE_CALL(read) { return transfer(f, a, FILE_HERE, false); }
FILE_CALL(write) { return transfer(f, a, FILE_HERE, true); }
FILE_CALL(pread64) { return transfer_at(f, a, false); }
FILE_CALL(pwrite64) { return transfer_at(f, a, true); }
FILE_CALL(readv) { return transfer_vectors(f, a, false); }
FILE_CALL(writev) { return transfer_vectors(f, a, true); }

FILE_CALL(lseek)
{
    int64_t to;
    if (is_stream(f) || f->node->kind == NODE_NULL)
        return -ESPIPE;
    uint64_t from = a[2] == SEEK_SET ? 0 : a[2] == SEEK_CUR ? f->offset : f->node->bytes;
    if (a[2] > SEEK_END || __builtin_add_overflow((int64_t)from, (int64_t)a[1], &to) || to < 0)
        return -EINVAL;
    f->offset = (uint64_t)to;
    return to;
}

long linux_close(const uint64_t a[6]) { return fd_close(process_this(), (int)a[0]); }

/* ---- copies of descriptors ---- */

/* A further descriptor of the file: the lowest free one from `lowest` on, or -errno. */
static long copy(struct file *f, int lowest, bool close_on_exec)
{
    file_get(f);
    return fd_new(process_this(), f, lowest, close_on_exec);
}

/* The same with the number `to`. */
static long copy_to(struct file *f, int to, bool close_on_exec)
{
    file_get(f);
    return fd_set(process_this(), to, f, close_on_exec);
}

FILE_CALL(dup) { return (void)a, copy(f, 0, false); }
FILE_CALL(dup2) { return a[0] == a[1] ? (int)a[0] : copy_to(f, (int)a[1], false); }

FILE_CALL(dup3)
{
    bool ok = a[0] != a[1] && !(a[2] & ~(uint64_t)O_CLOEXEC);
    return ok ? copy_to(f, (int)a[1], a[2] & O_CLOEXEC) : -EINVAL;
}

static long pipe_make(vaddr_t out, unsigned flags)
{
    struct process *p = process_this();
    struct file *ends[2];
    int fds[2];
    if (flags & ~(unsigned)(O_CLOEXEC | O_NONBLOCK))
        return -EINVAL;
    bool kept = limit_may_take_kept(process_this());
    int error = pipe_new(&ends[0], &ends[1], flags & O_NONBLOCK, kept);
    if (error)
        return error;
    for (int i = 0; i < 2; i++)
        fds[i] = fd_new(p, ends[i], 0, flags & O_CLOEXEC);
    error = MIN(fds[0], fds[1]) < 0 ? -EMFILE : copy_to_user(out, fds, sizeof(fds));
    for (int i = 0; i < 2 && error; i++)
        (void)!fd_close(p, fds[i]);
    return error;
}

long linux_pipe(const uint64_t a[6]) { return pipe_make(a[0], 0); }
long linux_pipe2(const uint64_t a[6]) { return pipe_make(a[0], (unsigned)a[1]); }

FILE_CALL(fcntl)
{
    enum { F_DUPFD = 0, F_GETFD = 1, F_SETFD = 2, F_GETFL = 3, F_SETFL = 4, F_GETLK = 5,
           F_SETLK = 6, F_SETLKW = 7, F_OFD_GETLK = 36, F_OFD_SETLK = 37, F_OFD_SETLKW = 38,
           F_DUPFD_CLOEXEC = 1030 };
    switch (a[1]) {
    case F_DUPFD:
    case F_DUPFD_CLOEXEC:
        return a[2] < (uint64_t)fd_limit(process_this())
            ? copy(f, (int)a[2], a[1] == F_DUPFD_CLOEXEC) : -EINVAL;
    case F_GETFD: return fd_closes_on_exec(process_this(), (int)a[0]);
    case F_SETFD: fd_close_on_exec(process_this(), (int)a[0], a[2] & 1); return 0;
    case F_GETFL: return f->flags & ~(unsigned)(O_CREAT | O_EXCL | O_TRUNC | O_CLOEXEC);
    case F_SETFL:
        f->flags = (f->flags & ~(unsigned)(O_APPEND | O_NONBLOCK))
            | ((unsigned)a[2] & (O_APPEND | O_NONBLOCK));
        return 0;
    case F_GETLK:
    case F_SETLK:
    case F_SETLKW:
    case F_OFD_GETLK:
    case F_OFD_SETLK:
    case F_OFD_SETLKW: return -ENOLCK; /* nobody could be kept out */
    default: return -EINVAL;
    }
}

FILE_CALL(flock) { return (void)f, (void)a, -ENOLCK; }

/* Files in memory are as safe as they will ever be; containers are what survives. */
FILE_CALL(fsync) { return (void)a, is_stream(f) ? -EINVAL : 0; }

FILE_CALL(ftruncate)
{
    bool ok = f->node && f->node->kind == NODE_MEMORY && file_writes(f) && (int64_t)a[1] >= 0;
    return ok ? memory_resize(f->node, a[1]) : -EINVAL;
}

/* ---- terminals ---- */

static long terminal_call(uint64_t request, vaddr_t user)
{
    enum { TCGETS = 0x5401, TCSETS, TCSETSW, TCSETSF, TIOCGWINSZ = 0x5413 };
    static const uint16_t window[4] = {25, 80}; /* a serial line does not tell */
    struct terminal_modes m;
    switch (request) {
    case TCGETS:
        console_modes(&m);
        return copy_to_user(user, &m, sizeof(m));
    case TCSETS:
    case TCSETSW:
    case TCSETSF:
        if (copy_from_user(&m, user, sizeof(m)))
            return -EFAULT;
        console_set_modes(&m, request == TCSETSF);
        return 0;
    case TIOCGWINSZ: return copy_to_user(user, window, sizeof(window));
    default: return -ENOTTY;
    }
}

FILE_CALL(ioctl)
{
    return f->node && f->node->kind == NODE_CONSOLE ? terminal_call(a[1], a[2]) : -ENOTTY;
}
