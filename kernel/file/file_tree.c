/*
 * file_tree.c - the tree of named nodes: look up, make, remove, rename, list.
 *
 * Owns      links, names and reference counts of nodes.
 * Not here  the bytes of files (file_memory.c, file_disk.c), open files (file.c).
 *
 * Invariants
 *   FL1  A node with a parent is in its parent's list and in the hash table, once each; the tree
 *       holds one reference to it.
 *   FL2  Children are listed in rising `order`, so a listing goes on correctly after removals.
 *   FL3  A folder has no entry with an empty name, ".", "..", or a name that contains '/'.
 *
 * Locks: tree.lock (RANK_FILE) guards links, names and counts of nodes. Nothing sleeps under it.
 */
#include "base/boot.h"
#include "file/file.h"

#define HASH_BUCKETS 1024

static struct {
    struct lock lock;
    struct node root;
    struct node *hash[HASH_BUCKETS];
    uint64_t next_inode;
    unsigned count;
} tree = {
    .lock = LOCK_INIT(RANK_FILE, "file tree"),
    .root = {.link = LIST_INIT(tree.root.link), .children = LIST_INIT(tree.root.children),
             .listed = &tree.root.children,
             .kind = NODE_FOLDER, .name = "", .references = 1, .read_only = true, .mode = 0555,
             .inode = 1},
    .next_inode = 1,
};

struct component { const char *name; size_t length; bool folder; /* a slash is behind it */ };

static struct node **hash_bucket(const struct node *parent, const char *name, size_t length)
{
    uint64_t h = parent->inode * 0x9e3779b97f4a7c15ull;
    for (size_t i = 0; i < length; i++)
        h = (h ^ (uint8_t)name[i]) * 0x100000001b3ull;
    return &tree.hash[(h >> 32) % HASH_BUCKETS];
}

static bool component_is(struct component c, const char *text)
{
    return strlen(text) == c.length && memcmp(c.name, text, c.length) == 0;
}

static struct node *child_find(struct node *parent, struct component c)
{
    struct node *n = *hash_bucket(parent, c.name, c.length);
    for (; n; n = n->hash_next)
        if (n->parent == parent && component_is(c, n->name))
            return n;
    return NULL;
}

static void child_link(struct node *parent, struct node *n)
{
    assert(!n->parent && parent->kind == NODE_FOLDER); /* FL1 */
    struct node **bucket = hash_bucket(parent, n->name, strlen(n->name));
    n->parent = parent;
    n->order = ++tree.next_inode;
    n->hash_next = *bucket;
    *bucket = n;
    struct list *last = parent->children.prev;
    assert(last == &parent->children ||
           container_of(last, struct node, link)->order < n->order); /* FL2 */
    list_push_back(&parent->children, &n->link);
    parent->time_ns = arch_time_ns();
    for (unsigned height = n->height + 1u; parent && parent->height < height;
         parent = parent->parent)
        parent->height = (uint16_t)height++;
}

static void child_unlink(struct node *n)
{
    struct node **link = hash_bucket(n->parent, n->name, strlen(n->name));
    while (*link != n) /* FL1: it is there */
        link = &(*link)->hash_next;
    *link = n->hash_next;
    n->parent->time_ns = arch_time_ns();
    if (n->parent->listed == &n->link)
        n->parent->listed = n->link.prev;
    list_remove(&n->link);
    if (list_empty(&n->parent->children))
        n->parent->height = 0;
    n->parent = NULL;
}

/* Takes the next component off the path. length 0: there is none left. */
static struct component component_next(const char **path)
{
    struct component c;
    while (**path == '/')
        (*path)++;
    c.name = *path;
    while (**path && **path != '/')
        (*path)++;
    c.length = (size_t)(*path - c.name);
    c.folder = **path == '/';
    return c;
}

static int step(struct node *at, struct component c, struct node **out)
{
    if (at->kind != NODE_FOLDER)
        return -ENOTDIR;
    if (c.length > FILE_NAME_MAX)
        return -ENAMETOOLONG;
    if (c.length == 0 || component_is(c, "."))
        *out = at;
    else if (component_is(c, ".."))
        *out = at->parent ? at->parent : at;
    else
        *out = child_find(at, c);
    return *out ? 0 : -ENOENT;
}

/* walk follows the path to its last component, which is empty if it has none; *out is the node that
 * this one is to be looked up in. Lock held. */
static int walk(struct node *from, const char *path, struct component *last, struct node **out)
{
    if (!*path)
        return -ENOENT;
    *out = *path == '/' ? &tree.root : from;
    *last = component_next(&path);
    for (struct component c; (c = component_next(&path)).length; *last = c) {
        int error = step(*out, *last, out);
        if (error)
            return error;
    }
    return 0;
}

struct place { struct node *parent, *node; struct component name; };

/* place_find finds a name's folder, and its node, or NULL if nothing has that name. -EEXIST: the
 * name is none that could be made, removed or changed. Lock held. */
static int place_find(struct place *p, struct node *from, const char *path)
{
    int error = walk(from, path, &p->name, &p->parent);
    if (error)
        return error;
    error = step(p->parent, p->name, &p->node);
    if (error && error != -ENOENT)
        return error;
    if (p->name.length == 0 || component_is(p->name, ".") || component_is(p->name, ".."))
        return -EEXIST; /* FL3 */
    if (!p->parent->parent && p->parent != &tree.root)
        return -ENOENT; /* a removed folder, still somebody's working folder */
    return 0;
}

void node_get(struct node *n) { __atomic_add_fetch(&n->references, 1, __ATOMIC_RELAXED); }

void node_put(struct node *n)
{
    if (__atomic_sub_fetch(&n->references, 1, __ATOMIC_ACQ_REL))
        return;
    assert(!n->parent && n != &tree.root); /* FL1 */
    if (n->kind == NODE_MEMORY)
        memory_free(n);
    __atomic_sub_fetch(&tree.count, 1, __ATOMIC_RELAXED);
    kfree(n->name);
    kfree(n);
}

struct node *node_root(void) { return &tree.root; }

int node_find(struct node *from, const char *path, struct node **out)
{
    struct component last;
    lock_acquire(&tree.lock);
    int error = walk(from, path, &last, out) ?: step(*out, last, out);
    if (!error && last.folder && (*out)->kind != NODE_FOLDER)
        error = -ENOTDIR;
    if (!error)
        node_get(*out);
    lock_release(&tree.lock);
    return error;
}

static unsigned depth(const struct node *n)
{
    unsigned d = 0;
    for (; n; n = n->parent)
        d++;
    return d;
}

/* The caller's, or NULL. kalloc() gives zeros. */
static char *name_copy(struct component c)
{
    char *name = kalloc(c.length + 1);
    if (name)
        memcpy(name, c.name, c.length);
    return name;
}

/* Lock held. */
static struct node *node_alloc(struct component c, enum node_kind kind, unsigned mode)
{
    struct node *n = kalloc(sizeof(*n));
    char *name = name_copy(c);
    if (!n || !name) {
        kfree(n);
        kfree(name);
        return NULL;
    }
    n->name = name;
    n->kind = kind;
    n->mode = mode;
    n->inode = ++tree.next_inode;
    n->references = 2; /* the tree's and the caller's */
    n->time_ns = arch_time_ns();
    list_init(n->listed = &n->children);
    list_init(&n->link);
    tree.count++;
    return n;
}

static int make_check(const struct place *p, enum node_kind kind, bool system)
{
    const struct node *old = p->node;
    if (old && !(system && node_fixed(old) && old->kind == kind))
        return -EEXIST;
    if (p->name.folder && kind != NODE_FOLDER)
        return -EISDIR;
    if (p->parent->read_only && !system)
        return -EROFS;
    return tree.count >= FILE_NODES_MAX || depth(p->parent) >= FILE_DEPTH_MAX ? -ENOSPC : 0;
}

int node_make(struct node *from, const char *path, enum node_kind kind, unsigned mode, bool system,
              struct node **out)
{
    struct place p;
    lock_acquire(&tree.lock);
    int error = place_find(&p, from, path) ?: make_check(&p, kind, system);
    if (!error && !(*out = node_alloc(p.name, kind, mode)))
        error = -ENOMEM;
    if (!error && p.node)
        child_unlink(p.node);
    if (!error)
        child_link(p.parent, *out);
    lock_release(&tree.lock);
    if (!error && p.node)
        node_put(p.node);
    return error;
}

int node_part(struct node *from, const char *path, const struct node *whole, uint64_t offset,
              uint64_t bytes)
{
    struct node *n;
    if (whole && (!node_fixed(whole) || offset > whole->bytes || bytes > whole->bytes - offset))
        return -EINVAL;
    int error = node_make(from, path, whole ? whole->kind : NODE_FOLDER, 0555, true, &n);
    if (error)
        return error;
    n->read_only = true;
    if (whole) {
        n->start = whole->start + offset;
        n->bytes = bytes;
    }
    node_put(n);
    return 0;
}

static int remove_check(const struct place *p, bool folder)
{
    bool is_folder = p->node && p->node->kind == NODE_FOLDER;
    if (!p->node)
        return -ENOENT;
    if (p->parent->read_only)
        return -EROFS;
    if ((folder || p->name.folder) && !is_folder)
        return -ENOTDIR;
    if (!folder && is_folder)
        return -EISDIR;
    return list_empty(&p->node->children) ? 0 : -ENOTEMPTY;
}

int node_remove(struct node *from, const char *path, bool folder)
{
    struct place p;
    lock_acquire(&tree.lock);
    int error = place_find(&p, from, path) ?: remove_check(&p, folder);
    if (!error)
        child_unlink(p.node);
    lock_release(&tree.lock);
    if (!error)
        node_put(p.node);
    return error != -EEXIST ? error : folder ? -EINVAL : -EISDIR;
}

static bool is_inside(const struct node *n, const struct node *folder)
{
    for (; n; n = n->parent)
        if (n == folder)
            return true;
    return false;
}

/* rename_check: 0 if a's node may take b's place, and that of the node there, else the errno that
 * says why not. Lock held. */
static int rename_check(const struct place *a, const struct place *b, bool replaces)
{
    const struct node *n = a->node, *old = b->node;
    bool folder = n && n->kind == NODE_FOLDER;
    if (!n)
        return -ENOENT;
    if (old && !replaces)
        return -EEXIST;
    if (a->parent->read_only || b->parent->read_only)
        return -EROFS;
    if ((a->name.folder || b->name.folder) && !folder)
        return -ENOTDIR;
    if (!folder && n->kind != NODE_MEMORY)
        return -EXDEV; /* a file's bytes may leave the read-only parts of the tree only as a copy */
    if (is_inside(b->parent, n))
        return -EINVAL;
    if (depth(b->parent) + n->height >= FILE_DEPTH_MAX)
        return -ENOSPC;
    if (old && folder != (old->kind == NODE_FOLDER))
        return folder ? -ENOTDIR : -EISDIR;
    return !old || list_empty(&old->children) ? 0 : -ENOTEMPTY;
}

int node_rename(struct node *from, const char *path, struct node *to_from, const char *to_path,
                bool replaces)
{
    struct place a, b;
    char *name = NULL;
    lock_acquire(&tree.lock);
    int error = place_find(&a, from, path) ?: place_find(&b, to_from, to_path);
    bool same = !error && a.node && a.node == b.node && replaces; /* two ways to write one name */
    if (!same)
        error = error == -EEXIST ? -EBUSY : error ?: rename_check(&a, &b, replaces);
    if (!same && !error && !(name = name_copy(b.name)))
        error = -ENOMEM;
    if (name) {
        child_unlink(a.node);
        if (b.node)
            child_unlink(b.node);
        char *old = a.node->name;
        a.node->name = name;
        name = old;
        child_link(b.parent, a.node);
    }
    lock_release(&tree.lock);
    if (name && b.node)
        node_put(b.node);
    kfree(name);
    return error;
}

long node_path(struct node *n, char *buffer, size_t bytes)
{
    long result = -ERANGE;
    size_t at = bytes;
    lock_acquire(&tree.lock);
    if (bytes < 2)
        goto out;
    buffer[--at] = 0;
    if (n == &tree.root)
        buffer[--at] = '/';
    for (struct node *here = n; here != &tree.root; here = here->parent) {
        if (!here->parent) {
            result = -ENOENT;
            goto out;
        }
        size_t length = strlen(here->name);
        if (at < length + 1)
            goto out;
        memcpy(buffer + (at -= length), here->name, length);
        buffer[--at] = '/';
    }
    memmove(buffer, buffer + at, bytes - at);
    result = (long)(bytes - at);
out:
    lock_release(&tree.lock);
    return result;
}

bool node_next(struct node *folder, uint64_t order, struct node_entry *out)
{
    lock_acquire(&tree.lock);
    struct list *all = &folder->children, *at = folder->listed;
    if (at != all && container_of(at, struct node, link)->order > order)
        at = all; /* a listing from its start, or beside another one */
    do {
        at = at->next;
    } while (at != all && container_of(at, struct node, link)->order <= order);
    if (at != all) {
        const struct node *n = container_of(folder->listed = at, struct node, link);
        out->inode = n->inode;
        out->order = n->order;
        out->kind = n->kind;
        strlcpy(out->name, n->name, sizeof(out->name));
    }
    lock_release(&tree.lock);
    return at != all;
}

/* make_first makes a node that stays; the tree's reference is enough for it. */
static struct node *make_first(const char *path, enum node_kind kind, unsigned mode)
{
    struct node *n;
    int error = node_make(&tree.root, path, kind, mode, true, &n);
    if (error)
        panic("files: cannot make %s: %d", path, error);
    n->read_only = mode == 0555;
    node_put(n);
    return n;
}

/* boot_module makes /dev/initrd of the boot module, an archive that init takes apart, and /bin/init
 * of its first member. The file's size stands in octal in the member's header. */
static void boot_module(void)
{
    enum { HEADER_BYTES = 512, SIZE_AT = 124, SIZE_DIGITS = 11 };
    const struct boot_module *m = &boot_info.module;
    const char *header = arch_phys(m->start);
    uint64_t bytes = 0;
    struct node *n = make_first("dev/initrd", NODE_PLACE, 0444);
    n->start = m->start;
    n->bytes = m->bytes; /* 0: there is no module */
    for (int i = 0; i < SIZE_DIGITS && m->bytes >= HEADER_BYTES; i++)
        bytes = bytes << 3 | (header[SIZE_AT + i] & 7);
    if (node_part(&tree.root, "bin/init", n, HEADER_BYTES, bytes))
        printk("the boot module's first member is no file");
}

void file_tree_init(void)
{
    static const struct { const char *path; enum node_kind kind; unsigned mode; } first[] = {
        {"bin", NODE_FOLDER, 0555}, {"dev", NODE_FOLDER, 0555}, {"etc", NODE_FOLDER, 0755},
        {"tmp", NODE_FOLDER, 01777}, {"export", NODE_FOLDER, 0755},
        {"dev/console", NODE_CONSOLE, 0666}, {"dev/tty", NODE_CONSOLE, 0666},
        {"dev/null", NODE_NULL, 0666},
    };
    for (unsigned i = 0; i < ARRAY_COUNT(first); i++)
        make_first(first[i].path, first[i].kind, first[i].mode);
    boot_module();
}
