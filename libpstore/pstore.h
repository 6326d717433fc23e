/*
 * pstore.h - persistent memory with transactions.
 *
 * A container is a range of memory that keeps its contents and its address for ever. Inside a
 * transaction its objects are read and written by plain C; loads and stores take the locks, and a
 * commit makes all of it durable or none. Results: int is 0 or -errno, pointers are NULL with
 * errno.
 *
 * Volatile memory and output are NOT rolled back when a transaction is run again or aborted.
 *
 * The first part is what every program needs (user/todo.c needs no more):
 *
 *     struct item { struct item *next; char text[]; };
 *     struct list { struct item *first; };            the root object: all else hangs on it
 *
 *     c = ps_open("todo", PS_CREATE | PS_WRITE, PS_LAYOUT(struct list, 1));
 *     error = ps_transaction(add, "milk");            calls add("milk"), where
 *         struct list *list = ps_root(c);             it is found, at the same address for ever
 *         struct item *item = ps_alloc(c, sizeof *item + 5, list);
 */
#ifndef PSTORE_H
#define PSTORE_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define PS_NORETURN [[noreturn]]
#else
#define PS_NORETURN _Noreturn
#endif

typedef struct ps_container ps_container; /* a volatile handle; never store one */
typedef struct ps_tx ps_tx;               /* a suspended transaction */

/* ---- what every program needs ---- */

/* A layout says what the root object is; each open checks it (-EPROTO). PS_LAYOUT_AS: T is how this
 * program calls the type that the container calls `name`, for ps_upgrade. */
struct ps_layout { const char *type; uint32_t version, bytes; };
#ifdef __cplusplus                            /* v is a constant there */
#define PS_LAYOUT(T, v)                                         \
    ([]() {                                                     \
        static const ps_layout layout = { #T, (v), sizeof(T) }; \
        return &layout;                                         \
    }())
#define PS_LAYOUT_AS(name, T, v)                                \
    ([]() {                                                     \
        static const ps_layout layout = {(name), (v), sizeof(T)}; \
        return &layout;                                         \
    }())
#else
#define PS_LAYOUT(T, v) (&(struct ps_layout){#T, (v), sizeof(T)})
#define PS_LAYOUT_AS(name, T, v) (&(struct ps_layout){(name), (v), sizeof(T)})
#endif

/* Flags of ps_open. Without PS_WRITE a container is read-only: a store ends the program (SIGSEGV),
 * as into a constant. In a snapshot a store ends the transaction, which returns -EROFS. */
enum { PS_CREATE = 1, PS_EXCLUSIVE = 2, PS_WRITE = 4 };
/* ps_open opens the container of this name; PS_CREATE makes it if there is none. NULL with errno.
 * Not inside a transaction (-EBUSY), unless it exists.
 * -EPROTO: the layout is another one; ps_upgrade is for that. NULL as root: none is asked for, and
 * ps_root makes none (ps_named does). -ENOTUNIQ: see ps_alloc_as.
 * -EMFILE: 64 containers are open in this process, or 1 GiB segments of some 240 in all processes;
 * -EDQUOT: 128 in this one. A store has addresses for 8,192 of them; -ENOSPC: all are taken.
 * -ENOTCONN: the store's manager, or its home, is away. */
ps_container *ps_open(const char *name, int flags, const struct ps_layout *root);
int ps_close(ps_container *c);          /* never needed: the process's end closes */

/* ps_transaction calls fn(arg) as a transaction: fn returns 0 to commit; any other value undoes all
 * that it stored and is returned. After a deadlock fn runs again from its start, so it must not
 * depend on volatile memory that it changed. Any load or store may leave fn; nothing after it runs
 * then (longjmp rules for locals). -EIO and -EOWNERDEAD from a commit: its outcome is unknown, look
 * before you do it again. Of another site's container the library asks for it, in the next session
 * with that site: then it returns 0, -ECANCELED (undone), or, if there is none within 30 s,
 * -ENOTRECOVERABLE: unknown. -ENOTCONN: a manager, or another site's home, is away, and has been
 * waited for ten seconds; fn was not run. While other stores are there the next ones do not wait,
 * and -EOWNERDEAD undoes those that use pages of the one that is away. */
int ps_transaction(int (*fn)(void *arg), void *arg);
/* ps_abort leaves fn, from any depth: ps_transaction undoes it and returns -error. An errno with
 * either sign; 0: EINVAL. */
PS_NORETURN void ps_abort(int error);

/* Objects are zeroed, 16-byte aligned, and at the same address for ever. In a transaction only.
 * Store pointers into containers only: one to the stack, to malloc's memory or to static data is
 * kept as it is and leads nowhere in the next run. ps_lint() finds them. */
/* ps_root returns the root: the object of the layout given at open, from which all others are
 * found. The first transaction that may write makes it, zeroed; until then NULL with EROFS in a
 * snapshot, with ENOENT if the container was opened without PS_WRITE or without a layout. */
void *ps_root(ps_container *c);
/* ps_alloc makes an object of 1 byte to 1 GiB (ENOSPC). `near`: one that is used with it, or NULL:
 * it comes into the same page, the same extent, or close by, in this order (Cricket 5.1.4). NULL
 * with errno: EROFS, ENOSPC, EINVAL. */
void *ps_alloc(ps_container *c, size_t bytes, const void *near);
/* ps_alloc_as does the same and keeps the type's text with the object, as a number of 31 bits, for
 * ps_each, ps_lint and kstore. ENOTUNIQ: this process has used another type of the same number. */
void *ps_alloc_as(ps_container *c, size_t bytes, const void *near, const char *type);
#define ps_new(c, T, near) ((T *)ps_alloc_as((c), sizeof(T), (near), #T))
/* ps_free deletes the object: its bytes may be given out again once the transaction commits.
 * -EINVAL: no object begins at p; -EBUSY: it has a name, or is the root. NULL does nothing. */
int ps_free(void *p);

/* ps_strerror returns the text of an errno > 0 or < 0: what happened, and what to do; of an error
 * that is the program's own just what it means. */
const char *ps_strerror(int error);
/* ps_lacks notes that a call of the kernel's was refused (-EPERM) for want of a right of the
 * system's handle: KD_RIGHT_DISKS, _NAMES, _PROCESSES or _LOOK (0: it is about the whole store, and
 * the process is confined). What ps_strerror says of EPERM next is how that right is given. Returns
 * -EPERM. */
int ps_lacks(unsigned right);

/* ---- containers ----
 * A transaction reads every container that its process has open, and writes those of up to four
 * stores: all of it or nothing, for a second flush (kernel/store/parts.md). -EXDEV: with items, or
 * managers that stand on different stores. Not to be called inside a transaction (-EBUSY), except
 * ps_open of an existing one. */
/* ps_connect chooses the store of later opens, deletions and lists: "store", or "store2" to
 * "store4" on further disks, or "SITE:", what that site has exported to this one. NULL: the one
 * that PS_STORE names in the environment, or "store"; done by ps_open, too. */
int ps_connect(const char *store);
/* ps_delete deletes the container itself, with all entries and links that lead to it, by whichever
 * of them: ps_unlink takes only a link away. A directory must be empty (-ENOTEMPTY). Closes it
 * where this process has it open, however often, so no other thread may be at work in it. -EBUSY
 * while other processes have it open; -ENOENT; -EACCES. */
int ps_delete(const char *name);
int ps_rename(const char *from, const char *to);
struct ps_info {
    char name[64], type[64];
    uint32_t version, root_bytes;
    uint64_t base, pages_used, pages_max;               /* used: of objects, written or not */
    int encoder;                                        /* PS_ENCODE_... */
    int managed;                                        /* 1: a program serves it (ps_manager) */
    int locking;                                        /* PS_LOCK_PAGES, PS_LOCK_ITEMS */
    int protection;                                     /* PS_PROTECT_... */
    int durability;                                     /* PS_DURABLE, ..., PS_LOST */
};
int ps_list(struct ps_info *out, int count);  /* how many there are; fills at most count */
int ps_checkpoint(void);                                /* all that is committed is at home when it
                                                         * returns; never needed for durability */
/* ---- directories, handles, rights: who may touch what (user/store/directories.md) ----
 * A name of ps_open, ps_delete, ps_rename and the calls below may be a path: "a/b/c" is the entry c
 * of directory b in directory a. It begins at the process's root of the store, "" is the root
 * itself, and nothing names what is above it. Parts have 1 to 63 bytes, a path 255 and 16 parts. An
 * entry leads to a container or a directory with rights; a path gives those that all its entries
 * and the root have. Not inside transactions (-EBUSY), except ps_open and ps_open_by of what
 * exists. */
enum {                          /* of a container;          of a directory */
    PS_MAY_READ = 1,            /* open it to read;         walk through it, list it */
    PS_MAY_WRITE = 2,           /* open it to write;        make, link and unlink entries */
    PS_MAY_DELETE = 4,          /* delete it;               delete what its entries name */
    PS_MAY_RENAME = 8,          /* -;                       give an entry another name */
    PS_MAY_MANAGE = 16,         /* take back what was granted out of this;       the same */
    PS_MAY_GRANT = 32,          /* link it, pass a handle on to others;          the same */
    PS_MAY_ALL = 63
};
/* ps_directory_create makes an empty directory; ps_delete removes such a one (-ENOTEMPTY). -EEXIST;
 * -ENOENT: a part of the path is not there; -ENOTDIR: one is a container; -EACCES: no WRITE. */
int ps_directory_create(const char *path);
struct ps_entry {
    char name[64];
    int directory;                              /* 1; 0: a container */
    unsigned rights;                            /* PS_MAY_..., on this path */
    uint64_t grant, made_of;                    /* serial of its grant, and of the one above; 0 */
};
/* ps_directory_list lists a directory, "" the root: how many entries; fills at most count. */
int ps_directory_list(const char *path, struct ps_entry *out, int count);
/* ps_walk calls fn for each entry that can be walked to from `path` ("": the root), with its path,
 * until it returns other than 0, which is returned; each directory is entered once, by its first
 * entry. -errno: of the directory `path`; what is below, and cannot be listed, is left out. */
int ps_walk(const char *path, int (*fn)(const char *path, const struct ps_entry *e, void *arg),
            void *arg);
/* ps_holders lists who holds what the path leads to, by its grant or one made out of it: processes
 * that have it open, and handles. As ps_directory_list; needs PS_MAY_MANAGE. */
struct ps_holder {
    int process;                        /* that has it open, or asked for the handles */
    int manager;                        /* the store manager's pid */
    uint64_t grant;
    uint64_t badge;                     /* 0: open; else the number of these handles at `manager` */
    unsigned rights, handles;           /* of an opening: PS_MAY_...; how many handles there are */
};
int ps_holders(const char *path, struct ps_holder *out, int count);
/* ps_rights tells what the path names, in *out unless NULL, and returns its rights > 0. */
int ps_rights(const char *path, struct ps_entry *out);

/* ps_handle makes a handle of the container or directory: a number >= 0 of this process, with those
 * of `rights` that the path gives (-EACCES: one is missing). It can be passed to a program that is
 * started (kd_process_create.handles; PS_ROOTS) or sent in a message, with as many rights or fewer;
 * by others than its first holder only with PS_MAY_GRANT. It ends with the grant, or ps_drop. */
int ps_handle(const char *path, unsigned rights);
int ps_drop(int handle);
/* ps_open_by is ps_open with a handle's rights, whosever it was: path begins at its directory;
 * NULL: it is of the container itself. These rights are looked at here and not later: what the
 * process has open is one ps_container with the rights of all its opens together, so a server that
 * will store for a client opens with PS_WRITE by the client's handle (else -EACCES). The handle may
 * be dropped behind it; but a container opened by a dropped handle is not found again after the
 * store manager's death, with which handles end. Only the store is asked: -EXDEV: the handle is not
 * of the store that ps_open looks in. -EIDRM: what it was made of was taken back; -EBADF. */
ps_container *ps_open_by(int handle, const char *path, int flags, const struct ps_layout *root);

/* ps_open_on_touch(1): from now on a first load or store where nothing is open opens what lies
 * there, if the process's root leads to it: by one of the shortest paths, to write if one gives
 * that right, else to read, as ps_open(path, flags, NULL) would; ps_container_of tells which it is.
 * In every thread, in a transaction or not, in what fork makes. A touch of anything else ends the
 * program as it does with 0, or comes to the handler of SIGSEGV that the program had before; one
 * that it sets later passes on, to the one that sigaction told it, what is not its own. Of stores
 * that the program has connected to, or that of ps_open; 64 containers are open at most. Not for a
 * pointer whose memory a system call reads or writes: that is -EFAULT. Where the store manager has
 * died, ps_transaction returns -EOWNERDEAD (a transaction of ps_begin ends the program). The
 * calling thread gets a stack for signals, if it has none. What it was, 0 in the beginning; or
 * -ENOMEM. */
int ps_open_on_touch(int on);

/* ps_link makes a second entry for what `handle` names (ps_handle with PS_MAY_GRANT), under a path
 * that is not there yet, with these rights or fewer: durable, until ps_unlink, ps_take_back, or the
 * end of the grant that the handle is of. */
int ps_link(int handle, const char *path, unsigned rights);
/* ps_unlink removes an entry that ps_link made, its grant, and all that was granted out of that:
 * links, handles wherever they are, and openings, which end before the call returns (loads and
 * stores there then end the program). -EPERM: the entry is the container's first one (ps_delete,
 * ps_rename). */
int ps_unlink(const char *path);
/* ps_take_back takes back all that was granted out of an entry, which stays: links and handles made
 * of it, and openings by these. Needs PS_MAY_MANAGE. How many grants went, or -errno. */
int ps_take_back(const char *path);
/* A limit says what all containers below a directory ("": the root) may take together: pages that
 * they hold, commits that change them in a second, old versions of their pages that snapshots keep
 * in memory, and names: entries (a link is two), and objects with names in the containers. What
 * would pass a limit of pages, commits or names of a directory above is undone and returns -EDQUOT;
 * what is over a limit already may still be changed, and freed. Versions that are too many go when
 * the next commit has been made, and a snapshot that needs one ends with -ESTALE. It holds for who
 * comes by whatever link. Setting needs PS_MAY_MANAGE. */
enum ps_limit { PS_LIMIT_PAGES, PS_LIMIT_COMMITS, PS_LIMIT_VERSIONS, PS_LIMIT_NAMES };
#define PS_NO_LIMIT UINT64_MAX
int ps_limit_set(const char *directory, enum ps_limit kind, uint64_t most);
/* ps_limit asks: *most: PS_NO_LIMIT, or the limit; *used: what is held. Either may be NULL. */
int ps_limit(const char *directory, enum ps_limit kind, uint64_t *most, uint64_t *used);
/* A program finds its roots in its environment: PS_ROOTS="STORE:N ...", handle number N is its root
 * directory of the store of that name; "STORE:N=NAME": of a container, which it opens by NAME. Of a
 * store that is not named there it looks for the store manager by name, as long as it is not
 * confined (KD_PROCESS_CONFINED). */
#define PS_ROOTS "PS_ROOTS"

/* An encoder says how commits write changed pages to the log: what differs, whole pages, what
 * ps_touch declared, or difference and whole page by what earlier commits of the page changed, or
 * what differs, packed by LZ4, or what was done to the page. Kept with the container;
 * user/store/logs.md says which is for what.
 * With PS_ENCODE_RANGES a transaction keeps what it stored to bytes that ps_touch declared, rounded
 * out to units of 16, and to pages in which it allocated or freed; any other store is undone at the
 * commit, or after ps_strict(1) fails it with -ERANGE. Of a transaction larger than memory, pages
 * that went into the log ahead of the commit are kept whole.
 * -EBUSY: to or from PS_ENCODE_RANGES while others have it open or a transaction stores to it. */
enum { PS_ENCODE_DIFF, PS_ENCODE_FULL, PS_ENCODE_RANGES, PS_ENCODE_ADAPTIVE, PS_ENCODE_COMPRESSED,
       PS_ENCODE_OPERATIONS };
int ps_encoder(ps_container *c, int encoder);
/* ps_locking sets what transactions lock in c: pages, by loads and stores, or items, by ps_access
 * (items.md). Kept with the container. No other thread may be at work in it. In item mode no
 * transaction spills: one that would ends with -E2BIG or -ENOMEM. -EBUSY: others have it open, or
 * it is pinned, a snapshot needs a page of it, or a program decides about its pages; -EINVAL: its
 * encoder is not PS_ENCODE_DIFF; -ENOTSUP: a program serves it. */
enum { PS_LOCK_PAGES, PS_LOCK_ITEMS };
int ps_locking(ps_container *c, int locking);
/* ps_durability sets what a power cut leaves of c, kept with it (user/store/logs.md). PS_LAZY: of
 * commits that changed only such containers the last may be missing, as if each had been lazy
 * (ps_options). VOLATILE: c is empty, without a root, at each start. PS_REBUILD: only after a power
 * cut; then ps_lost says 1 to whoever opens c, until ps_durability(c, PS_REBUILD) says that it has
 * been built again. Neither is logged, so commits cost little; evicted pages go to the disk as
 * others do. An index may have each. -ENOTEMPTY: c has pages, which would begin, or end, to be in
 * the log; -EINVAL: an encoder was chosen for it, which means nothing without a log. */
enum { PS_DURABLE, PS_LAZY, PS_VOLATILE, PS_REBUILD, PS_LOST };
int ps_durability(ps_container *c, int durability);
int ps_lost(const ps_container *c);
/* ps_protection sets what protects c from stray stores (protection.md); several are or-ed. Kept
 * with the container, and changed as ps_locking is, with its errors. With GUARD a store ends the
 * program, at its place, unless it was announced: to a page that this transaction has given to
 * ps_touch, or to ps_access to write; in item mode, where the processor has protection keys,
 * between such a call and ps_release, too. A system call that would store elsewhere is EFAULT.
 * CODEWORDS: what anything but a transaction does to committed pages in memory, a broken device,
 * say, is found and mended before it reaches the disk; transactions that had changed such a page
 * end with EIO. -EINVAL: it is volatile. */
enum { PS_PROTECT_NONE, PS_PROTECT_GUARD = 1, PS_PROTECT_CODEWORDS = 2 };
int ps_protection(ps_container *c, int protection);
/* ps_declares tells whether stores to c are to be announced (ps_touch, ps_access): it has a guard,
 * or PS_ENCODE_RANGES. */
int ps_declares(const ps_container *c);

/* ps_manager makes a program the container's manager: whoever opens the container has its pages
 * from that program, at the container's place, and the store starts it at the first open, again
 * after its death, and ends it when nobody has the container open. Kept with the container, which
 * is made if there is none. program: a path, /bin/squares; arguments: NULL-terminated, or NULL;
 * program NULL: the store manager again. manager.h says how such a program is written.
 * -EBUSY: somebody has it open; -ENOTEMPTY: it has pages in the store; -ENOENT, -EACCES: the
 * program is not there, or is none; -E2BIG: more than 480 bytes in all; -EINVAL: no path, control
 * characters, or an index; -ECHILD: the program, which checks its arguments (manager.h), refuses
 * them, and has said why on stderr. */
int ps_manager(const char *name, const char *program, const char *const *arguments);
/* ps_manager_of gives "program argument ...", at most `bytes` with its NUL; returns the whole
 * length, or -ENOENT: the store manager serves it, or there is none. */
int ps_manager_of(const char *name, char *text, size_t bytes);
void *ps_address(const ps_container *c);      /* where it begins, for ever; NULL: it is not open */
/* ps_segment tells where segment `number` begins, for ever, and its pages (NULL: not wanted). The
 * first, 0, is at ps_address; a container gets more as it grows (km_container_more: of one with a
 * manager of its own), each anywhere. -ENOENT: it has no such segment; -EINVAL: not open. */
void *ps_segment(const ps_container *c, unsigned number, uint64_t *pages);

/* ps_upgrade makes a container of an older version of the program one of the newer layout:
 *     step(from, to, arg)     copies from the old root object to the new one, in a transaction.
 * It returns 0: that was all; PS_MORE: commit this batch, and call step again; anything else: undo
 * this batch, and return it. `to` is zeroed before the first batch; what is in `from` and `to` and
 * what hangs on them stays between batches, also over a power cut: so a step that moves things over
 * goes on where it was when the program calls ps_upgrade again. When it has returned 0 it is never
 * called again: in the same commit `to` becomes the root and `from` is freed. Like any function of
 * a transaction it may be run again. Pointers to the old root are the step's to change.
 * Until an upgrade in batches is done, ps_open with either layout fails (-EPROTO).
 * PS_LAYOUT_AS gives `from` the type that the container has by the old program's name for it.
 * To be called before ps_open, at each start; one call for each version (1 to 2, then 2 to 3).
 * 0: it is done, or the container is of another layout than `from` (ps_open will say if that is
 * right), or there is none. -EBUSY: somebody has it open, perhaps this process; -EINVAL: a version
 * is 2^31 or more, or not less than the next one; or what ps_open, ps_transaction, step return. */
enum { PS_MORE = 1 };
int ps_upgrade(const char *name, const struct ps_layout *from, const struct ps_layout *to,
               int (*step)(void *from, void *to, void *arg), void *arg);

/* ---- transactions with options, by hand, in snapshots ---- */
enum { PS_SERIALISABLE, PS_SNAPSHOT, PS_DIRTY_READ, PS_CONTAINER_LOCK };
struct ps_options {
    /* retries 0: without limit; the lightest is a deadlock's victim */
    int isolation, retries, weight;
    uint32_t timeout_ms, pages_max; /* 0: none. The time is looked at when it waits for others or a
                                     * page; a fn that only computes is not stopped */
    ps_container *locked; /* PS_CONTAINER_LOCK: this one, as a whole, until the end: nobody
                           * else reads or writes it; snapshots go on */
    int shared;                     /* ... others may read it, nobody writes */
    int snapshot;                   /* PS_SNAPSHOT: 0, or of ps_snapshot_share: that state again */
    /* `lazy` 1: a lazy commit: 0 comes when it is in the log and others see it, before it is
     * durable: that it is with the next strict commit or ps_flush, or after lazy_ms at most (0: as
     * long as the store likes, 100). A power cut before loses it, with all commits behind it and
     * none before it. */
    int lazy;
    uint32_t lazy_ms;
    /* `bulk` 1: a load (ps_bulk): the commit writes new pages to their places, past the log. Not
     * lazy; in containers that lock items, and those with a manager of their own, it is as any. */
    int bulk;
    /* `apart` N > 0: in a view that the thread uses for transactions of this number alone. Rights
     * stay with a view, so a transaction that stays open beside others of its thread (ps_suspend)
     * would make them wait for pages that an earlier one has used; this one only for what it and
     * earlier ones of its number have used. Not for snapshots, which have views of their own. */
    int apart;
    /* `helps`, of km_below: the commit that this works for, view + 1, and its token */
    uint32_t helps;
    uint64_t helps_token;
    int heir;                       /* of site.h: a view's handle + 1 */
};
/* ps_flush waits until every commit that was answered before the call, by anybody in the stores
 * that this process uses, is durable. 0; -EBUSY: in a transaction; -EIO: the disk has failed, and
 * what was lazy may be lost; -EOWNERDEAD: the manager died; what of it was lost is the last, and
 * the next transaction can look; -ENOTCONN: another site's home is away. The other stores are
 * flushed all the same; the first error is told. */
int ps_flush(void);
int ps_transaction_opt(int (*fn)(void *arg), void *arg, const struct ps_options *opt);
/* ps_bulk is ps_transaction for much new data: c is locked as a whole until the end, and pages that
 * nobody has stored to before go past the log, each written once, where it will stay. One commit,
 * or nothing at all: an abort, a kill or a power cut leaves no trace, and takes no space. It may be
 * larger than the memory and the log; -ENOSPC: than the disk. Old pages go into the log, as ever.
 * The new ones are not in memory afterwards. -EINVAL: c is not open. */
int ps_bulk(ps_container *c, int (*fn)(void *arg), void *arg);
/* ps_retry undoes the transaction, sleeps until a commit changes a page that it has read, and runs
 * fn again: `if (!queue->first) ps_retry();` waits for a job without polling. It may run again for
 * less: a page may hold more than what was read, and pages read by earlier transactions of
 * this thread count, too. Meanwhile it makes nobody wait. ps_on_abort functions are run before it
 * sleeps.
 * ps_transaction returns -ETIMEDOUT once it has waited timeout_ms in all; -EINVAL: no page was
 * read and no name missed, or it is a snapshot or dirty read; -EDEADLK: the thread has another
 * transaction suspended, which somebody might wait for;
 * -EDQUOT: 32 threads of this process sleep so, or 128 in all. Ends the program outside
 * ps_transaction's functions. */
PS_NORETURN void ps_retry(void);
/* ps_apart makes a change that stays whatever becomes of the transaction, in a container of items:
 * the split of a full node, say. Undoes the transaction, carries change(arg) out as one of its own,
 * and runs the first again; arg is not in the stack of its function. Returns if the transaction has
 * c to itself, or its pages, or gets it by ps_lock, which it does when it was run again often, and
 * of ps_begin: 0, and it makes the change itself; or -errno. */
int ps_apart(ps_container *c, int (*change)(void *arg), void *arg);
int ps_begin(const struct ps_options *opt);   /* for interpreters: explicit; -EALREADY if begun */
int ps_commit(void);                          /* -EDEADLK and others: it was undone */
int ps_rollback(void);
int ps_catch(void (*handler)(int error, void *arg), void *arg); /* where the system's aborts of an
                                               * explicit transaction go; it must not return */
ps_tx *ps_suspend(void);                      /* this thread leaves its transaction ... */
int ps_resume(ps_tx *tx);                     /* ... and takes it up again */
int ps_strict(int on); /* 1: a load or store outside a transaction always ends
                        * the program, also where rights are cached
                        * otherwise; slower, good for tests. Returns what it
                        * was */
/* ps_snapshot_share, in a snapshot, returns a number > 0 for the state that it sees, or -errno.
 * Later snapshots of this process see the same state if `snapshot` in their options is that number;
 * another process, too, with the number under which it received the handle (number - 1,
 * KD_PROCESS_CREATE or a message) plus 1. Old pages are kept for it until ps_snapshot_drop, or
 * until they are too many, or their manager dies: then -ESTALE. */
int ps_snapshot_share(void);
int ps_snapshot_drop(int snapshot);
int ps_active(void);                          /* 1 inside a transaction */
/* function(argument) is run once, behind the active transaction's end, if that is a commit
 * (ps_on_commit) or anything else (ps_on_abort); in the order of the calls, before ps_transaction
 * or ps_commit returns, and may begin transactions. To print what is durable, to free what a run
 * took from malloc. Nothing of this is stored. A run that is undone and done again counts as
 * aborted: its ps_on_abort functions are run before the next run, its ps_on_commit functions never.
 * If the outcome of a commit is unknown (-EIO, -EOWNERDEAD, -ENOTRECOVERABLE) none is run. Of an
 * explicit transaction that the system aborts, they run before the ps_catch handler, on its 64 KiB
 * stack. They must return. -EPERM: no transaction; -ENOSPC: it has 64 already. */
int ps_on_commit(void (*function)(void *argument), void *argument);
int ps_on_abort(void (*function)(void *argument), void *argument);

/* ps_place is the place of a commit's call, for ps_lint. A call through a pointer has none. */
extern __thread const char *ps_place;
#define PS_TEXT_(n) #n
#define PS_TEXT(n) PS_TEXT_(n)
#define PS_HERE (ps_place = __FILE__ ":" PS_TEXT(__LINE__))
#define ps_transaction(...) (PS_HERE, ps_transaction(__VA_ARGS__))
#define ps_transaction_opt(...) (PS_HERE, ps_transaction_opt(__VA_ARGS__))
#define ps_bulk(...) (PS_HERE, ps_bulk(__VA_ARGS__))
#define ps_commit() (PS_HERE, ps_commit())

/* ---- more of objects; in a transaction only ---- */
void *ps_named(ps_container *c, const char *name, size_t bytes); /* found, or created zeroed */
/* ps_names lists names; of a container opened without PS_WRITE they cannot be removed. */
struct ps_name_info { char name[64]; void *object; size_t bytes; };
int ps_names(ps_container *c, struct ps_name_info *out,
             int count); /* how many are committed; fills at most
                          * count, in no order; also outside transactions */
/* ps_name_remove, in a transaction, removes the name with the commit; its object stays, like one of
 * ps_alloc, and pointers to it stay right, also in other programs: ps_free it, or keep it. Who asks
 * for the name from now on makes a new object. -ENOENT; -ENOTSUP: an older Katydid made it. The
 * root has no such name. */
int ps_name_remove(ps_container *c, const char *name);
/* ps_realloc gives the object another size; its contents stay as far as they fit, bytes behind
 * ps_size(p) are zero. In place if it becomes smaller, or what lies behind it is free; else a new
 * object near it, and p is freed: whoever points to it must be told. NULL: nothing was done.
 * -EINVAL: no object begins at p (also NULL), or bytes is 0; -EBUSY: it has a name, or is a root;
 * -ENOSPC. A large object keeps whole pages, so ps_size may say up to 4,095 more. */
void *ps_realloc(void *p, size_t bytes);
/* ps_strdup copies the text into a new object */
char *ps_strdup(ps_container *c, const char *text, const void *near);
/* ps_each returns the next object of this type (as given to ps_alloc_as) behind `previous`, in no
 * order that means anything; NULL as previous: the first; NULL as type: of any or none, roots and
 * named ones, too. NULL: the end, with errno 0, or an error: EPERM, EINVAL (also in a snapshot),
 * EOWNERDEAD.
 *     for (T *p = NULL; (p = ps_each(c, "T", p)) != NULL;) ...
 * p may be freed in the loop. Reads, and so locks, each page that holds objects. What the loop
 * allocates may or may not come up; so may what others commit meanwhile, unless ps_lock came
 * first. */
void *ps_each(ps_container *c, const char *type, const void *previous);

/* An arena: objects that share pages with each other and with nothing else in the container: what
 * is written often apart from what is read often. It costs a page at least, and one for each thread
 * that allocates in it. Keep the pointer in the container. Its pages go back to the store when it
 * is freed, not before. congeries.h: with a name, rules, blocks; collected, locked, released. */
typedef struct ps_arena ps_arena;
ps_arena *ps_arena_make(ps_container *c);
/* ps_alloc_in is ps_alloc_as in an arena; type may be NULL. -EINVAL: no arena. ps_free and
 * ps_realloc take its objects as any other. */
void *ps_alloc_in(ps_arena *arena, size_t bytes, const void *near, const char *type);
#define ps_new_in(arena, T, near) ((T *)ps_alloc_in((arena), sizeof(T), (near), #T))
int ps_arena_free(ps_arena *arena); /* with all its objects. -EINVAL: no arena; -EUCLEAN: a page of
                                     * it is spoilt, give the transaction up */
ps_arena *ps_arena_of(const void *p);         /* NULL: of none */
size_t ps_size(const void *p); /* bytes asked for, rounded up to 16; of more than 4,048 bytes
                                * perhaps 32 more */
ps_container *ps_container_of(const void *p); /* NULL: p is not persistent */
int ps_touch(const void *p, size_t bytes);    /* about to write: takes the write right at once; with
                                               * PS_ENCODE_RANGES declares what is kept */
int ps_prefetch(const void *p, size_t bytes);
/* ---- items: what is locked in a container in item mode (ps_locking; items.md) ----
 * An item is any bytes, named by the first of them. Others that are locked by themselves share no
 * byte with it. Waits until the transaction has the mode there besides those it has, and keeps it
 * to the end: PS_S to read, PS_U to read what may be written later, PS_X to write, PS_ADD for
 * ps_add, PS_IS and PS_IX at a whole whose parts are locked to read or to write, PS_OWN as the
 * container's users agree. What is stored under PS_X and PS_OWN is kept; other stores are undone at
 * the commit. Loads without a lock see what is committed, at any moment of it. Returns p; a
 * deadlock leaves fn. In a container that locks pages, PS_X is ps_touch, PS_U the same without a
 * store, and the loads lock.
 * NULL: EBUSY (PS_NOW, or-ed: instead of waiting); EPERM: no transaction; EINVAL: not persistent,
 * no such mode; EROFS; ENOMEM, EOWNERDEAD; EIO (PS_CHECK, or-ed: with PS_PROTECT_CODEWORDS the
 * bytes are compared with what was committed, and mended): that could not be. In snapshots and
 * dirty reads nothing is locked. After 1,024 items the transaction locks the whole container. */
enum { PS_S, PS_U, PS_X, PS_ADD, PS_IS, PS_IX, PS_OWN, PS_NOW = 16, PS_CHECK = 32 };
void *ps_access(const void *p, size_t bytes, int mode);
#define ps_read(p)  ((const __typeof__(*(p)) *)ps_access((p), sizeof *(p), PS_S))
#define ps_write(p) ((__typeof__(p))ps_access((p), sizeof *(p), PS_X))
/* ps_key is ps_access of a number that programs agree on: keys that are not there, gaps, names. In
 * a container that locks pages it does nothing. 0 or -errno. */
int ps_key(ps_container *c, uint64_t key, int mode);
/* ps_add adds to an aligned number. Who adds waits for no other who adds; who reads waits for them.
 * 0 or -errno. */
int ps_add(int64_t *p, int64_t delta);
/* ps_release gives back a lock of PS_S, PS_U or PS_IS at p before the end: the transaction is then
 * not serialisable as to this item. Nothing, if it was asked for more than once, or its entry of
 * the table is shared. -EINVAL: stores may have been made under it. With PS_PROTECT_GUARD these end
 * here, once as many accesses to write were released as made; the lock stays. */
int ps_release(const void *p);
enum { PS_LOCK_SHARED = 1, PS_LOCK_NOW = 2 }; /* NOW: -EBUSY instead of waiting */
int ps_lock(ps_container *c, int how); /* locks all of it until the transaction's end; -EROFS:
                                        * only shared, it is open for reading */
/* A policy says how all users get the pages of c; -EROFS unless it is open for writing. */
enum {
    PS_GROUP = 1, /* pages that a first read brings, a power of 2 up to 64;
                   * 0: as touches suggest (the default). 1: and no
                   * neighbours are read from disk either */
    PS_ESCALATE = 2, /* page faults after which a transaction locks c if that
                      * is free; 0: never (the default) */
    PS_CHUNK = 6, /* pages, 1 to 256, that a checkpoint takes home together, between commits of
                   * others: fewer make their commits wait less, more make the checkpoint shorter.
                   * 0: the store chooses (the default) */
    PS_CONSISTENT = 0x10000, /* or-ed to these: and nobody commits until a chunk is home, so that
                              * all its pages there are of one moment */
    PS_MEMORY = 3 /* pages of c in memory at a time, at least 16; 0: any number (the default).
                   * What one transaction has stored does not count until its commit */
};
int ps_policy(ps_container *c, int which, unsigned value);
/* ps_advise says what will be done with these bytes, without a lock, also outside transactions.
 * NORMAL, SEQUENTIAL and RANDOM are of the whole container (PS_GROUP 0, 64, 1), so -EROFS unless it
 * is open for writing. WILL_NEED brings pages into memory, up to 4 MiB, and keeps them longest;
 * DONT_NEED: they may go first. 0, or -ENOENT: nothing that is open lies there. */
enum { PS_NORMAL, PS_SEQUENTIAL, PS_RANDOM, PS_WILL_NEED, PS_DONT_NEED };
int ps_advise(const void *p, size_t bytes, int advice);
/* ps_pin brings the pages of these bytes into memory and keeps them, so no load waits for the disk;
 * they lie in one of the container's segments. No lock is taken, and what is stored is as durable
 * as elsewhere. Until ps_unpin with the same bytes, the last ps_close of the container, the
 * program's end, or the store manager's death.
 * -ENOMEM: more pages than the program may pin (the shell's `limit pins N PROGRAM`), or the store;
 * -EMFILE: 256 ranges are pinned, by all programs; -ENOENT: nothing that is open lies there;
 * -ENOTSUP: the container has a manager of its own (ps_manager); -EIO: a page cannot be read;
 * -EINVAL: (ps_unpin) these bytes are not pinned. */
int ps_pin(const void *p, size_t bytes);
int ps_unpin(const void *p, size_t bytes);

/* ---- windows: bytes of a container at a second address ----
 * What a transaction loads and stores by a window it loads and stores in the container: the same
 * locks, one private copy, one commit. The address is of this process and this run: pointers that
 * are kept, ps_alloc's `near`, ps_free and ps_size want the one in the container. */
/* ps_window shows [from, from + bytes), and what else lies in their pages; they lie in one object,
 * or in one of the container's first 1 GiB and its further segments; `from` may lie in a window,
 * too, which may end before this one. flags: 0, stores then end the program, though the container
 * is open for writing; PS_WRITE. Returns where `from` lies there. It ends by ps_window_end, or
 * ps_close; a child of fork has none. NULL: EINVAL: not so many bytes of one that is open; EROFS:
 * PS_WRITE, and container or window are to read; EMFILE: there are 32; ENOMEM. */
void *ps_window(const void *from, size_t bytes, int flags);
/* ps_window_end ends what ps_window returned. -EINVAL: none begins there. */
int ps_window_end(void *window);
/* ps_home returns the address in its container of what a window shows at p; else p. */
void *ps_home(const void *p);

/* ---- seeing what happened; values of this process since ps_connect ---- */
struct ps_stats {
    uint64_t commits, aborts, deadlocks, read_faults, write_faults, lock_waits;
    /* messages to the store manager: manager_calls of faults, of which pages_read ask for a page;
     * requests of this library, those of ps_stats not counted */
    uint64_t manager_calls, pages_read, pages_logged, log_bytes, flushes, requests;
};
void ps_stats(struct ps_stats *out);
/* ps_lint(1) makes each commit write a line to standard error for every word that it changed in a
 * container and that now is an address in the stack, the heap, other volatile memory or the
 * program: where it lies, its object's type or name and field as far as this process learned them
 * (ps_new, ps_root, ps_named, ps_describe) while it was on, and the line of the commit call. A
 * number may look like an address. Likewise for a store to no object, one line for each page: to
 * what was freed, or never allocated. Returns what it was; a process begins with 1 if PS_LINT=1 is
 * in its environment. */
int ps_lint(int on);
struct ps_field { const char *name; uint32_t offset, bytes; };
#define PS_FIELD(T, f) {#f, offsetof(T, f), sizeof(((T *)0)->f)}
/* ps_describe tells the type's fields, 16 at most, up to one without a name; for 32 types. -ENOSPC,
 * -E2BIG; -ENOTUNIQ: see ps_alloc_as. */
int ps_describe(const char *type, const struct ps_field *fields);

#ifdef __cplusplus
}
#endif

#endif
