/*
 * linux_path.c - Linux calls on names: open, stat, folders. And KD_FILE_PART.
 */
#include "file/file.h"
#include "process/descriptor.h"
#include "linux/linux.h"

#define HERE (-100)                    /* AT_FDCWD */
enum { AT_NO_FOLLOW = 0x100, AT_REMOVEDIR = 0x200, AT_NO_AUTOMOUNT = 0x800,
       AT_EMPTY_PATH = 0x1000 };

/* A path from user memory, and the node it starts from (with a reference), or NULL: it is none. */
struct path {
    struct node *from;
    char text[FILE_PATH_MAX];
};

static int path_get(struct path *p, int fd, vaddr_t user)
{
    long n = copy_string_from_user(p->text, user, sizeof(p->text));
    p->from = NULL;
    if (n < 0)
        return (int)n;
    if (fd == HERE || p->text[0] == '/') {
        p->from = cwd_get(process_this());
        return 0;
    }
    struct file *f = fd_file(process_this(), fd);
    if (!f)
        return -EBADF;
    p->from = f->node;
    int error = p->from ? 0 : -ENOTDIR;
    if (!error)
        node_get(p->from);
    file_put(f);
    return error;
}

static void path_put(struct path *p)
{
    if (p->from)
        node_put(p->from);
}

/* with_node finds the node at a path of the caller's and calls fn(node, arg); fn's result or
 * -errno. */
typedef long node_call(struct node *n, uint64_t arg);
static long with_node(int fd, vaddr_t path, node_call *fn, uint64_t arg)
{
    struct path p;
    struct node *n;
    long result = path_get(&p, fd, path) ?: node_find(p.from, p.text, &n);
    path_put(&p);
    if (result)
        return result;
    result = fn(n, arg);
    node_put(n);
    return result;
}

/* ---- open ---- */

/* masked: the mode of a node that the caller makes, without the bits of its umask. */
static unsigned masked(uint64_t mode, unsigned bits)
{
    return mode & bits & ~process_this()->files.umask;
}

static long open_at(int fd, vaddr_t user, uint64_t flags, uint64_t mode)
{
    struct path p;
    struct file *f;
    int error = path_get(&p, fd, user) ?:
                file_open(p.from, p.text, (unsigned)flags, masked(mode, 07777), &f);
    path_put(&p);
    return error ?: fd_new(process_this(), f, 0, flags & O_CLOEXEC);
}

long linux_open(const uint64_t a[6]) { return open_at(HERE, a[0], a[1], a[2]); }
long linux_openat(const uint64_t a[6]) { return open_at((int)a[0], a[1], a[2], a[3]); }

/* ---- stat ---- */

struct linux_stat {
    uint64_t dev, ino, nlink;
    uint32_t mode, uid, gid, pad;
    uint64_t rdev;
    int64_t size, blksize, blocks;
    int64_t atime[2], mtime[2], ctime[2];
    int64_t unused[3];
};
_Static_assert(sizeof(struct linux_stat) == 144, "Linux's size");

/* type_of: a node's four bits above those of its mode. */
static uint32_t type_of(enum node_kind kind)
{
    return kind == NODE_FOLDER ? 4 : kind == NODE_CONSOLE || kind == NODE_NULL ? 2 : 8;
}

static bool is_read_only(const struct node *n)
{
    return n->kind == NODE_FOLDER ? n->read_only : node_fixed(n);
}

static long stat_out(struct node *n, uint64_t user)
{
    struct linux_stat s = {.nlink = 1, .blksize = PAGE_BYTES, .mode = 0010000 | 0600 /* a pipe */};
    if (n) {
        uint64_t time = n->time_ns;
        s.ino = n->inode;
        s.mode = n->mode | type_of(n->kind) << 12;
        s.size = (int64_t)n->bytes;
        s.blocks = (s.size + 511) / 512;
        s.mtime[0] = s.atime[0] = s.ctime[0] = (int64_t)(time / NS_PER_S);
        s.mtime[1] = s.atime[1] = s.ctime[1] = (int64_t)(time % NS_PER_S);
    }
    return copy_to_user(user, &s, sizeof(s));
}

long linux_stat(const uint64_t a[6]) { return with_node(HERE, a[0], stat_out, a[1]); }
FILE_CALL(fstat) { return stat_out(f->node, a[1]); }

long linux_newfstatat(const uint64_t a[6])
{
    char first;
    if (a[3] & ~(uint64_t)(AT_NO_FOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH))
        return -EINVAL;
    if ((a[3] & AT_EMPTY_PATH) && !copy_from_user(&first, a[1], 1) && !first) {
        const uint64_t b[6] = {a[0], a[2]};
        return linux_fstat(b);
    }
    return with_node((int)a[0], a[1], stat_out, a[2]);
}

static long access_check(struct node *n, uint64_t mode)
{
    enum { MAY_RUN = 1, MAY_WRITE = 2 };
    if ((mode & MAY_WRITE) && is_read_only(n))
        return -EROFS;
    return (mode & MAY_RUN) && !(n->mode & 0111) ? -EACCES : 0;
}

static long access_at(int fd, vaddr_t path, uint64_t mode)
{
    return mode > 7 ? -EINVAL : with_node(fd, path, access_check, mode);
}

long linux_access(const uint64_t a[6]) { return access_at(HERE, a[0], a[1]); }
long linux_faccessat(const uint64_t a[6]) { return access_at((int)a[0], a[1], a[2]); }

/* ---- modes ---- */

static long mode_set(struct node *n, uint64_t mode)
{
    if (!n || is_read_only(n))
        return n ? -EROFS : -EINVAL;
    n->mode = mode & 07777;
    return 0;
}

long linux_chmod(const uint64_t a[6]) { return with_node(HERE, a[0], mode_set, a[1]); }
long linux_fchmodat(const uint64_t a[6]) { return with_node((int)a[0], a[1], mode_set, a[2]); }
FILE_CALL(fchmod) { return mode_set(f->node, a[1]); }

long linux_umask(const uint64_t a[6])
{
    return __atomic_exchange_n(&process_this()->files.umask, (unsigned)a[0] & 0777,
                               __ATOMIC_RELAXED);
}

/* ---- the working folder ---- */

long linux_getcwd(const uint64_t a[6])
{
    char text[FILE_PATH_MAX];
    struct node *cwd = cwd_get(process_this());
    long n = node_path(cwd, text, MIN(a[1], sizeof(text)));
    node_put(cwd);
    if (n > 0 && copy_to_user(a[0], text, (size_t)n))
        return -EFAULT;
    return n;
}

/* cwd_set makes n the working folder. 0 or -ENOTDIR. */
static long cwd_set(struct node *n, uint64_t unused)
{
    struct process *p = process_this();
    (void)unused;
    if (!n || n->kind != NODE_FOLDER)
        return -ENOTDIR;
    node_get(n);
    lock_acquire(&p->files.lock);
    struct node *old = p->files.cwd;
    p->files.cwd = n;
    lock_release(&p->files.lock);
    node_put(old);
    return 0;
}

long linux_chdir(const uint64_t a[6]) { return with_node(HERE, a[0], cwd_set, 0); }
FILE_CALL(fchdir) { return (void)a, cwd_set(f->node, 0); }

/* ---- making and removing ---- */

static long make_at(int fd, vaddr_t user, uint64_t mode)
{
    struct path p;
    struct node *n;
    int error = path_get(&p, fd, user) ?:
                node_make(p.from, p.text, NODE_FOLDER, masked(mode, 01777), false, &n);
    path_put(&p);
    if (!error)
        node_put(n);
    return error;
}

static long remove_at(int fd, vaddr_t user, bool folder)
{
    struct path p;
    int error = path_get(&p, fd, user) ?: node_remove(p.from, p.text, folder);
    path_put(&p);
    return error;
}

static long rename_at(int fd, vaddr_t user, int to_fd, vaddr_t to_user, uint64_t flags)
{
    enum { RENAME_NO_REPLACE = 1 };
    if (flags & ~(uint64_t)RENAME_NO_REPLACE)
        return -EINVAL;
    struct path from, to;
    to.from = NULL;
    long error = path_get(&from, fd, user) ?: path_get(&to, to_fd, to_user) ?:
                 node_rename(from.from, from.text, to.from, to.text, !flags);
    path_put(&from);
    path_put(&to); /* none, if the first was wrong */
    return error;
}

long linux_mkdir(const uint64_t a[6]) { return make_at(HERE, a[0], a[1]); }
long linux_mkdirat(const uint64_t a[6]) { return make_at((int)a[0], a[1], a[2]); }
long linux_rmdir(const uint64_t a[6]) { return remove_at(HERE, a[0], true); }
long linux_unlink(const uint64_t a[6]) { return remove_at(HERE, a[0], false); }
long linux_rename(const uint64_t a[6]) { return rename_at(HERE, a[0], HERE, a[1], 0); }
long linux_renameat(const uint64_t a[6]) { return rename_at((int)a[0], a[1], (int)a[2], a[3], 0); }

long linux_renameat2(const uint64_t a[6])
{
    return rename_at((int)a[0], a[1], (int)a[2], a[3], a[4]);
}

long linux_unlinkat(const uint64_t a[6])
{
    bool known = !(a[2] & ~(uint64_t)AT_REMOVEDIR);
    return known ? remove_at((int)a[0], a[1], a[2] & AT_REMOVEDIR) : -EINVAL;
}

long linux_readlink(const uint64_t a[6])
{
    const uint64_t b[6] = {a[0], 0};
    return linux_access(b) ?: -EINVAL; /* nothing is a link */
}

/* ---- parts of the boot module and the import disk ---- */

long kd_file_part(const uint64_t a[6])
{
    struct process *me = process_this();
    if (me->pid != process_table.init)
        return -EPERM;
    struct file *f = fd_file(me, (int)a[1]);
    struct node *whole = f ? f->node : NULL;
    struct path p;
    long result = whole || (int)a[1] == -1 ? path_get(&p, HERE, a[0]) : -EBADF;
    if (!result) {
        result = node_part(p.from, p.text, whole, a[2], a[3]);
        path_put(&p);
    }
    if (f)
        file_put(f);
    return result;
}

/* ---- listing ---- */

/* entry_out copies one struct linux_dirent64 out; returns its length, 0 if it does not fit, or
 * -EFAULT. */
static long entry_out(const struct node_entry *e, vaddr_t to, size_t room)
{
    uint8_t out[24 + FILE_NAME_MAX + 1];
    size_t name = strlen(e->name) + 1, bytes = (19 + name + 7) & ~(size_t)7;
    if (bytes > room)
        return 0;
    memset(out, 0, sizeof(out));
    memcpy(out, &e->inode, 8);
    memcpy(out + 8, &e->order, 8);
    memcpy(out + 16, &(uint16_t){(uint16_t)bytes}, 2);
    out[18] = (uint8_t)type_of(e->kind);
    memcpy(out + 19, e->name, name);
    return copy_to_user(to, out, bytes) ? -EFAULT : (long)bytes;
}

FILE_CALL(getdents64)
{
    struct node_entry e;
    uint64_t done = 0;
    long n = 0;
    if (!f->node || f->node->kind != NODE_FOLDER)
        return -ENOTDIR;
    while (node_next(f->node, f->offset, &e)) {
        n = entry_out(&e, a[1] + done, a[2] - done);
        if (n == 0 && done == 0)
            n = -EINVAL;
        if (n <= 0)
            break;
        f->offset = e.order;
        done += (uint64_t)n;
    }
    return done ? (long)done : n;
}
