/*
 * file.c - open files.
 *
 * Owns      struct file. Not here: descriptors (process/descriptor.c).
 * Locks: none. A file's offset is its users' own business, as on other systems; what a write puts
 * where is decided under the lock of the kind of file.
 */
#include "file/file.h"

/* ---- bytes of nodes ---- */

long node_read(struct node *n, void *to, size_t bytes, uint64_t at)
{
    if (!node_has_bytes(n))
        return n->kind == NODE_NULL ? 0 : n->kind == NODE_FOLDER ? -EISDIR : -EINVAL;
    if (n->kind == NODE_MEMORY)
        return memory_read(n, to, bytes, at);
    bytes = at < n->bytes ? MIN(bytes, n->bytes - at) : 0;
    if (n->kind == NODE_DISK)
        return disk_read(n->start + at, to, bytes);
    memcpy(to, (char *)arch_phys(n->start) + at, bytes);
    return (long)bytes;
}

struct frame *node_frame(const struct node *n, uint64_t at)
{
    paddr_t pa = n->start + at;
    bool whole = at < n->bytes && n->bytes - at >= PAGE_BYTES;
    return whole && n->kind == NODE_PLACE && pa % PAGE_BYTES == 0 ? frame_of(pa) : NULL;
}

static long tree_read(struct file *f, void *to, size_t bytes, uint64_t at)
{
    long n = node_read(f->node, to, bytes, at == FILE_HERE ? f->offset : at);
    if (n > 0 && at == FILE_HERE)
        f->offset += (uint64_t)n;
    return n;
}

static long tree_write(struct file *f, const void *from, size_t bytes, uint64_t at)
{
    uint64_t end;
    bool append = f->flags & O_APPEND;
    if (f->node->kind == NODE_NULL)
        return (long)bytes;
    long n = memory_write(f->node, from, bytes, at == FILE_HERE ? f->offset : at, append, &end);
    if (n > 0 && at == FILE_HERE)
        f->offset = end;
    return n;
}

static const struct file_operations tree_operations = {.read = tree_read, .write = tree_write};

/* ---- open files ---- */

struct file *file_new(const struct file_operations *operations, unsigned flags)
{
    struct file *f = kalloc(sizeof(*f));
    if (f)
        *f = (struct file){.references = 1, .operations = operations, .flags = flags};
    return f;
}

void file_get(struct file *f) { __atomic_add_fetch(&f->references, 1, __ATOMIC_RELAXED); }

void file_put(struct file *f)
{
    if (__atomic_sub_fetch(&f->references, 1, __ATOMIC_ACQ_REL))
        return;
    if (f->operations->close)
        f->operations->close(f);
    if (f->node)
        node_put(f->node);
    kfree(f);
}

/* open_check: may the node be opened with these flags? 0, -ENOTDIR, -EISDIR, -EROFS, -EINVAL. */
static int open_check(const struct node *n, unsigned flags)
{
    bool writes = (flags & O_ACCESS) != O_RDONLY || (flags & O_TRUNC);
    if ((flags & O_DIRECTORY) && n->kind != NODE_FOLDER)
        return -ENOTDIR;
    if (flags & O_PATH)
        return 0;
    if ((writes || (flags & O_CREAT)) && n->kind == NODE_FOLDER)
        return -EISDIR;
    if (writes && node_fixed(n))
        return -EROFS;
    return (flags & O_ACCESS) == O_ACCESS ? -EINVAL : 0;
}

int file_open(struct node *from, const char *path, unsigned flags, unsigned mode, struct file **out)
{
    struct node *n;
    if (flags & O_PATH)
        flags = (flags & (O_PATH | O_DIRECTORY | O_CLOEXEC)) | O_ACCESS; /* for no transfer */
    int error = node_find(from, path, &n);
    if (error == -ENOENT && (flags & O_CREAT) && !(flags & O_DIRECTORY)) {
        error = node_make(from, path, NODE_MEMORY, mode, false, &n);
        if (error == -EEXIST && !(flags & O_EXCL)) /* somebody was faster */
            error = node_find(from, path, &n);
    } else if (!error && (flags & O_CREAT) && (flags & O_EXCL)) {
        node_put(n);
        return -EEXIST;
    }
    if (error)
        return error;
    error = open_check(n, flags);
    if (!error && (flags & O_TRUNC) && n->kind == NODE_MEMORY)
        error = memory_resize(n, 0);
    const struct file_operations *operations =
        n->kind == NODE_CONSOLE ? &console_operations : &tree_operations;
    struct file *f = error ? NULL : file_new(operations, flags);
    if (!f) {
        node_put(n);
        return error ? error : -ENOMEM;
    }
    f->node = n;
    *out = f;
    return 0;
}

long file_read(struct file *f, void *to, size_t bytes, uint64_t at)
{
    return f->flags & O_WRONLY ? -EBADF : f->operations->read(f, to, bytes, at);
}

long file_write(struct file *f, const void *from, size_t bytes, uint64_t at)
{
    return file_writes(f) ? f->operations->write(f, from, bytes, at) : -EBADF;
}
