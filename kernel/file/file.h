/*
 * file.h - files: the tree of nodes, open files, descriptors.
 *
 * A node is a thing with a name (file_tree.c); a file is one opening of it, shared by the
 * descriptors that were copied from one another (file.c, process/descriptor.h). Kernel buffers
 * only: callers in linux_file.c carry bytes between these and user memory.
 */
#ifndef KERNEL_FILE_H
#define KERNEL_FILE_H

#include "memory/frame.h"

#define FILE_NAME_MAX  255
#define FILE_PATH_MAX  1024      /* bytes of a path with its NUL */
#define FILE_DEPTH_MAX 32
#define FILE_NODES_MAX 65536
#define FILE_HERE      (~0ull)   /* read or write at the file's own offset, and move it */

enum node_kind {
    NODE_FOLDER,
    NODE_MEMORY,                 /* bytes in frames: file_memory.c */
    NODE_PLACE,                  /* bytes where the boot loader put them; fixed */
    NODE_DISK,                   /* bytes on the import disk: file_disk.c; fixed */
    NODE_CONSOLE, NODE_NULL,
};

struct node {
    struct list link;            /* in its folder; tree lock, as are all links and names */
    struct node *hash_next;
    struct node *parent;         /* NULL: removed, or the root */
    struct list children;        /* of a folder, in rising `order` */
    struct list *listed;         /* of these, or their list: how far the last listing has come */
    char *name;
    enum node_kind kind;
    bool read_only;              /* a folder: only node_part() makes or removes anything in it */
    uint16_t height;  /* at least the folders between this one and the deepest node in it */
    uint16_t mode;               /* Linux's 12 bits; no right to read or write depends on them */
    uint32_t references;         /* atomic; the tree holds one */
    uint64_t inode, order;
    uint64_t bytes;              /* NODE_MEMORY: memory lock */
    uint64_t time_ns;            /* last change, since boot */
    struct frame *top;           /* NODE_MEMORY: a tree of frames, file_memory.c */
    uint64_t start;              /* fixed bytes: a physical address, or an offset on the disk */
};

/* ---- file_tree.c ---- */
void file_tree_init(void);           /* the first folders, the boot module, its first program */
struct node *node_root(void);
void node_get(struct node *n);
void node_put(struct node *n);
/* node_find walks a path from `from`, or from the root (/...); a reference to the node in *out. */
must_check int node_find(struct node *from, const char *path, struct node **out);
/* node_make makes an empty node at the path: -EEXIST, -EROFS, -ENOENT, -ENOTDIR, -EISDIR, -ENOSPC,
 * -ENOMEM, -ENAMETOOLONG. With `system` read-only folders do not count, and a fixed file makes way
 * for one of its kind. A reference in *out. */
must_check int node_make(struct node *from, const char *path, enum node_kind kind, unsigned mode,
                         bool system, struct node **out);
/* node_part makes a file whose bytes are a part of a fixed file; `whole` NULL: a read-only folder.
 * 0, -EINVAL, or as node_make with `system`. */
must_check int node_part(struct node *from, const char *path, const struct node *whole,
                         uint64_t offset, uint64_t bytes);
must_check int node_remove(struct node *from, const char *path, bool folder);
/* node_rename has a file replace a file, a folder an empty folder, if it `replaces`; or -EEXIST. */
must_check int node_rename(struct node *from, const char *path, struct node *to_from,
                           const char *to_path, bool replaces);
/* node_path tells the node's path; its length with the NUL, or -ERANGE, -ENOENT (removed). */
must_check long node_path(struct node *n, char *buffer, size_t bytes);
struct node_entry { uint64_t inode, order; enum node_kind kind; char name[FILE_NAME_MAX + 1]; };
/* node_next finds the first child behind `order` (0: the first of all). False: no more. */
bool node_next(struct node *folder, uint64_t order, struct node_entry *out);

/* ---- by kind; kernel buffers, may sleep ---- */
static inline bool node_fixed(const struct node *n)
{
    return n->kind == NODE_PLACE || n->kind == NODE_DISK;
}
static inline bool node_has_bytes(const struct node *n) /* NULL: a pipe */
{
    return n && (n->kind == NODE_MEMORY || node_fixed(n));
}
long node_read(struct node *n, void *to, size_t bytes, uint64_t at);  /* short only at the end */
/* node_frame: the frame of the page at `at` of a file that the boot loader brought; or NULL. */
struct frame *node_frame(const struct node *n, uint64_t at);
long memory_read(struct node *n, void *to, size_t bytes, uint64_t at);
long memory_write(struct node *n, const void *from, size_t bytes, uint64_t at, bool append,
                  uint64_t *end);
must_check int memory_resize(struct node *n, uint64_t bytes);
void memory_free(struct node *n);
long disk_read(uint64_t disk_offset, void *to, size_t bytes);
void file_disk_init(void);           /* /dev/import, if there is such a disk */

/* ---- open files ---- */
struct file;
struct file_operations {
    long (*read)(struct file *f, void *to, size_t bytes, uint64_t at);
    long (*write)(struct file *f, const void *from, size_t bytes, uint64_t at);
    void (*close)(struct file *f);           /* the last reference went */
};
enum { /* Linux's open flags */
    O_ACCESS = 3, O_RDONLY = 0, O_WRONLY = 1, O_RDWR = 2, O_CREAT = 0100, O_EXCL = 0200,
    O_TRUNC = 01000, O_APPEND = 02000, O_NONBLOCK = 04000, O_DIRECTORY = 0200000,
    O_CLOEXEC = 02000000, O_PATH = 010000000,
};
struct file {
    uint32_t references;
    unsigned flags;
    const struct file_operations *operations;
    struct node *node;                       /* NULL: a pipe */
    struct pipe *pipe;
    uint64_t offset;
};

/* file_open opens what the path names; `mode` is that of a file that it makes. */
must_check int file_open(struct node *from, const char *path, unsigned flags, unsigned mode,
                         struct file **out);
must_check struct file *file_new(const struct file_operations *operations, unsigned flags);
void file_get(struct file *f);
static inline bool file_writes(const struct file *f)
{
    return (f->flags & O_ACCESS) == O_WRONLY || (f->flags & O_ACCESS) == O_RDWR;
}
void file_put(struct file *f);
long file_read(struct file *f, void *to, size_t bytes, uint64_t at);
long file_write(struct file *f, const void *from, size_t bytes, uint64_t at);

/* ---- pipe.c ---- */
/* pipe_new makes a pipe; kept: it may be of the part that is kept for init and the shell (PI4). */
must_check int pipe_new(struct file **reader, struct file **writer, unsigned flags, bool kept);

/* ---- console.c: the terminal on the first serial port, as ioctl sees it ---- */
void console_init(void);
extern const struct file_operations console_operations;
struct terminal_modes {            /* the kernel's struct termios of Linux */
    uint32_t input, output, control, local;
    uint8_t line, characters[19];
};
_Static_assert(sizeof(struct terminal_modes) == 36, "Linux's size");

/* The functions that Ctrl-C needs; kernel/seams.c names them. Both run in an interrupt, with no
 * lock held. */
struct console_seam {
    bool (*foreground)(void);      /* is a program in the foreground? */
    void (*interrupt)(void);       /* ends those that are, or lets them handle it */
};
extern const struct console_seam console_seam;

void console_modes(struct terminal_modes *out);
void console_set_modes(const struct terminal_modes *m, bool flush);

#endif
