/*
 * vfs.c - SQLite's files are containers: a database's bytes lie in chunks of one container, a read
 * transaction of SQLite is a snapshot of the store, a write transaction is a transaction of it.
 *
 * What SQLite's locks become, by level:
 *
 *     SHARED      a snapshot, begun by the first read. It makes nobody wait and waits for nobody.
 *     RESERVED    a transaction, and a second one that holds a page which one can write at a time:
 *                 others get SQLITE_BUSY. The snapshot ends, for nothing can change any more; if
 *                 something has changed since it began, that is SQLITE_BUSY_SNAPSHOT.
 *     EXCLUSIVE   no more than RESERVED, as readers have their snapshots.
 *
 * SQLITE_FCNTL_COMMIT_PHASETWO, behind the last write of a commit, is the store's commit. Whatever
 * else ends the write transaction, ROLLBACK or a crash, undoes all writes. So no journal is needed
 * on the disk: SQLITE_IOCAP_BATCH_ATOMIC has SQLite keep in memory what ROLLBACK TO and failed
 * statements need, and where it wants a file for that, it gets a temporary one, in memory as well.
 *
 * Transactions are suspended while SQLite runs. So the system ends one, when it must, within one of
 * the functions below, by a longjmp to ENTER, and never in the middle of SQLite.
 */
#include <pstore.h>

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "chunks.h"
#include "sqlite3.h"

enum {
    HEADER = 100,                        /* the file's first bytes */
    HEADER_VERSION = 24, VERSION_BYTES = 16, /* ... which differ after each commit */
};

/* The container's root. */
struct sqlite_root {
    struct chunks chunks;                /* the database */
    struct lock *lock;
};
/* Whoever may write has stored to it in a transaction that never commits. */
struct lock { char page[4096]; };

struct file {
    sqlite3_file base;
    const char *name;                    /* SQLite keeps it up to the close */
    int how;                             /* to open the container: PS_WRITE ... */
    ps_container *box;                   /* NULL: nobody has written the database yet */
    int level;                           /* SQLITE_LOCK_ */
    int writes;                          /* `tx` is a write transaction, else a snapshot */
    int lazy;                            /* PRAGMA synchronous=OFF: commits need not be durable */
    ps_tx *tx;                           /* suspended; NULL: none */
    ps_tx *lock;                         /* the same: what holds the lock */
    struct lock *page;
    int number;                          /* its transactions are apart from those of other files */
    int pinned;     /* a read has told SQLite of this state: it must see no other up to UNLOCK */
    uint64_t bytes;                      /* of that state: the size, */
    char header[HEADER];                 /* and the first bytes */
};

static sqlite3_vfs *unix_vfs;
static char taken[256];                  /* numbers of open files */
static jmp_buf out;                      /* where a transaction's end by force leaves to */

static struct file *of(sqlite3_file *base)
{
    return (struct file *)base;
}

static void ended(int error, void *unused)
{
    (void)unused;
    longjmp(out, error);
}

static int result_of(int error)
{
    switch (error < 0 ? -error : error) {
    case 0:         return SQLITE_OK;
    case EBUSY:     return SQLITE_BUSY;
    case ENFILE:    return SQLITE_BUSY;  /* all views of the system are in use */
    case EDEADLK:   return SQLITE_BUSY;
    case ETIMEDOUT: return SQLITE_BUSY;
    case ESTALE:    return SQLITE_BUSY_SNAPSHOT;
    case ENOSPC:    return SQLITE_FULL;
    case E2BIG:     return SQLITE_FULL;
    case EDQUOT:    return SQLITE_FULL;
    case ENOMEM:    return SQLITE_IOERR_NOMEM;
    case EROFS:     return SQLITE_READONLY;
    default:        return SQLITE_IOERR;
    }
}

static int failed(int error, const char *where)
{
    int result = result_of(error);
    if (result != SQLITE_OK && result != SQLITE_BUSY)
        sqlite3_log(result, "%s: %s", where, ps_strerror(error));
    return result;
}

/* SQLite's own message tells no reason, so this one does. */
static int refused(int result, const char *name, const char *why)
{
    sqlite3_log(result, "%s: %s", name, why);
    fprintf(stderr, "sqlite: %s: %s\n", name, why);
    return result;
}

/* A program's own explicit transactions, beside SQLite's, must not end in a function of this. */
static void leave(const int *unused)
{
    (void)unused;
    ps_catch(NULL, NULL);
}

/* ENTER returns from the function it stands in when the transaction is ended by force that the
 * thread is in: none of those that are suspended. */
#define ENTER()                                                      \
    __attribute__((cleanup(leave))) const int error_ = setjmp(out);  \
    if (error_)                                                      \
        return failed(error_, __func__);                             \
    ps_catch(ended, NULL)

/* ---- the container ---- */

/* In a snapshot: neither waits for a writer nor makes one wait. */
static int lock_find(void *file)
{
    struct file *f = file;
    struct sqlite_root *root = ps_root(f->box);
    f->page = root ? root->lock : NULL;
    return 0;
}

/* A new container gets its root and its lock. */
static int make(void *file)
{
    struct file *f = file;
    struct sqlite_root *root = ps_root(f->box);
    if (root && !root->lock)
        root->lock = ps_new(f->box, struct lock, root);
    f->page = root ? root->lock : NULL;
    return f->page ? 0 : -errno;
}

static int box_open(struct file *f, int how)
{
    f->box = ps_open(f->name, how, PS_LAYOUT(struct sqlite_root, 1));
    int error = f->box ? ps_transaction_opt(lock_find, f, &(struct ps_options){
                             .isolation = PS_SNAPSHOT}) : -errno;
    if (error == 0 && !f->page)
        error = ps_transaction(make, f);
    if (error && f->box)
        ps_close(f->box);
    f->box = error ? NULL : f->box;
    return error;
}

/* A database that nobody has written has no container, and is empty: then f->box stays NULL. */
static int box_look(struct file *f)
{
    int error = f->box || f->pinned ? 0 : box_open(f, f->how & ~PS_CREATE);
    if (error == -ENOENT && f->level != SQLITE_LOCK_NONE) {
        f->pinned = 1;
        f->bytes = 0;
        memset(f->header, 0, HEADER);
    }
    return error == -ENOENT ? SQLITE_OK : failed(error, "opening");
}

/* ---- transactions ---- */

enum { LOCK_MS = 20 };                   /* so long a writer waits for each try of SQLite's */

static void park(struct file *f)
{
    f->tx = ps_suspend();
}

/* Undoes a suspended transaction; returns also if the system has ended it. */
static void undo(ps_tx **tx)
{
    ps_tx *old = *tx;
    jmp_buf before;
    *tx = NULL;
    memcpy(before, out, sizeof out);
    if (old && setjmp(out) == 0 && ps_resume(old) == 0)
        ps_rollback();
    memcpy(out, before, sizeof out);
}

/* The file has no transaction any more. */
static void give_up(struct file *f)
{
    undo(&f->tx);
    f->writes = 0;
    undo(&f->lock);
}

/* Is what the transaction sees what SQLite was told? Tells it, if nothing was. */
static int pin(struct file *f)
{
    struct sqlite_root *root = ps_root(f->box);
    if (!root)
        return failed(errno, "the root");
    char header[HEADER] = {0};
    chunks_read(&root->chunks, header, root->chunks.bytes < HEADER ? 0 : HEADER, 0);
    if (f->pinned && (root->chunks.bytes != f->bytes ||
                      memcmp(header + HEADER_VERSION, f->header + HEADER_VERSION, VERSION_BYTES)))
        return SQLITE_BUSY_SNAPSHOT;
    memcpy(f->header, header, HEADER);
    f->bytes = root->chunks.bytes;
    f->pinned = 1;
    return SQLITE_OK;
}

/* Goes into the file's transaction; begins a snapshot, if there is none. */
static int resume(struct file *f)
{
    ps_tx *tx = f->tx;
    f->tx = NULL;
    if (tx || f->writes)
        return failed(tx ? ps_resume(tx) : ECANCELED, "going on");
    int error = ps_begin(&(struct ps_options){.isolation = PS_SNAPSHOT});
    if (error)
        return failed(error, "a snapshot");
    int result = pin(f);
    if (result != SQLITE_OK)
        ps_rollback();
    return result;
}

/* Becomes the one that may write, until `lock` is undone. */
static int lock_take(struct file *f)
{
    int error = ps_begin(&(struct ps_options){.timeout_ms = LOCK_MS,
                                               .apart = 2 * f->number + 1});
    if (error)
        return failed(error, "the lock");
    f->page->page[0]++;                  /* no other page: what it reads, the writer cannot write */
    f->lock = ps_suspend();
    return SQLITE_OK;
}

static int write_begin(struct file *f)
{
    int error = f->box ? 0 : box_open(f, f->how);
    int result = error ? failed(error, "making it") : lock_take(f);
    if (result != SQLITE_OK)
        return result;
    error = ps_begin(&(struct ps_options){.lazy = f->lazy, .apart = 2 * f->number + 2});
    result = error ? failed(error, "a transaction") : pin(f);
    ps_tx *writer = error ? NULL : ps_suspend();
    undo(result == SQLITE_OK ? &f->tx : &writer);
    if (result != SQLITE_OK)
        return undo(&f->lock), result;
    f->tx = writer;
    f->writes = 1;
    return SQLITE_OK;
}

static int write_commit(struct file *f)
{
    int result = resume(f);
    if (result != SQLITE_OK)
        return result;
    f->pinned = 0;
    if ((result = pin(f)) != SQLITE_OK)
        return park(f), result;
    int error = ps_commit();
    f->writes = 0;
    undo(&f->lock);
    return failed(error, "the commit");
}

/* What a commit that failed is told as: SQLite drops the pages that it has in memory then, which it
 * keeps if it hears SQLITE_BUSY, though they were undone. */
static int commit_result(int result)
{
    int again = (result & 0xff) == SQLITE_BUSY;
    return again ? SQLITE_IOERR : result;
}

/* ---- SQLite's methods of a file ---- */

static int file_close(sqlite3_file *base)
{
    struct file *f = of(base);
    ENTER();
    give_up(f);
    if (f->box)
        ps_close(f->box);
    taken[f->number] = 0;
    return SQLITE_OK;
}

static int file_read(sqlite3_file *base, void *to, int count, sqlite3_int64 offset)
{
    struct file *f = of(base);
    ENTER();
    int result = box_look(f);
    if (result == SQLITE_OK && !f->box)
        return memset(to, 0, (size_t)count), SQLITE_IOERR_SHORT_READ;
    int whole = f->pinned && offset + count <= HEADER && !f->writes; /* at each begin */
    if (result == SQLITE_OK && !whole)
        result = resume(f);
    if (result != SQLITE_OK)
        return result;
    struct sqlite_root *root = whole ? NULL : ps_root(f->box);
    uint64_t bytes = root ? root->chunks.bytes : f->bytes, from = (uint64_t)offset;
    uint64_t wanted = (uint64_t)count, got = from >= bytes ? 0 : bytes - from;
    got = got < wanted ? got : wanted;
    if (whole)
        memcpy(to, f->header + from, got);
    else {
        chunks_read(&root->chunks, to, got, from);
        park(f);
    }
    memset((char *)to + got, 0, wanted - got);
    return got == wanted ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

static int file_write(sqlite3_file *base, const void *from, int count, sqlite3_int64 offset)
{
    struct file *f = of(base);
    if (!f->writes)
        return SQLITE_IOERR_WRITE;
    ENTER();
    int result = resume(f);
    if (result != SQLITE_OK)
        return result;
    struct sqlite_root *root = ps_root(f->box);
    int error = root ? chunks_write(f->box, &root->chunks, from, (uint64_t)count,
                                    (uint64_t)offset) : -errno;
    park(f);
    return failed(error, "a write");
}

static int file_truncate(sqlite3_file *base, sqlite3_int64 bytes)
{
    struct file *f = of(base);
    if (!f->writes)
        return SQLITE_IOERR_TRUNCATE;
    ENTER();
    int result = resume(f);
    if (result != SQLITE_OK)
        return result;
    struct sqlite_root *root = ps_root(f->box);
    int error = root ? chunks_cut(&root->chunks, (uint64_t)bytes) : -errno;
    park(f);
    return failed(error, "making it shorter");
}

static int file_size(sqlite3_file *base, sqlite3_int64 *bytes)
{
    struct file *f = of(base);
    ENTER();
    int result = box_look(f);
    if (result == SQLITE_OK && !f->box)
        return *bytes = 0, SQLITE_OK;
    if (result == SQLITE_OK && (!f->pinned || f->writes)) {
        result = resume(f);
        if (result != SQLITE_OK)
            return result;
        struct sqlite_root *root = ps_root(f->box);
        *bytes = root ? (sqlite3_int64)root->chunks.bytes : 0;
        park(f);
        return SQLITE_OK;
    }
    *bytes = (sqlite3_int64)f->bytes;
    return result;
}

static int file_sync(sqlite3_file *base, int flags)
{
    (void)base;
    (void)flags;
    return SQLITE_OK;                    /* the commit does that */
}

static int file_lock(sqlite3_file *base, int level)
{
    struct file *f = of(base);
    if (level <= f->level)
        return SQLITE_OK;
    ENTER();
    int result = level >= SQLITE_LOCK_RESERVED && !f->writes ? write_begin(f) : SQLITE_OK;
    if (result == SQLITE_OK)
        f->level = level;
    return result;
}

static int file_unlock(sqlite3_file *base, int level)
{
    struct file *f = of(base);
    if (level >= f->level)
        return SQLITE_OK;
    f->level = level;
    if (level == SQLITE_LOCK_NONE)
        f->pinned = 0;
    ENTER();
    if (f->writes || level == SQLITE_LOCK_NONE)
        give_up(f);
    return SQLITE_OK;
}

static int file_reserved(sqlite3_file *base, int *answer)
{
    (void)base;
    *answer = 0;                         /* asked for hot journals, which there are none of */
    return SQLITE_OK;
}

/* One that would promise what this file cannot do answers what is so. */
static int pragma(struct file *f, char **word)
{
    if (sqlite3_stricmp(word[1], "locking_mode") == 0)
        return word[0] = sqlite3_mprintf("normal"), SQLITE_OK;
    static const char *const off[] = { "off", "no", "false", "0" };
    if (sqlite3_stricmp(word[1], "synchronous") == 0 && word[2])
        for (unsigned i = f->lazy = 0; i < sizeof off / sizeof off[0]; i++)
            f->lazy |= sqlite3_stricmp(word[2], off[i]) == 0;
    return SQLITE_NOTFOUND;
}

static int commit_enter(struct file *f)
{
    ENTER();
    return write_commit(f);
}

static int file_control(sqlite3_file *base, int what, void *argument)
{
    struct file *f = of(base);
    if (what == SQLITE_FCNTL_COMMIT_PHASETWO)
        return f->writes ? commit_result(commit_enter(f)) : SQLITE_OK;
    ENTER();
    switch (what) {
    case SQLITE_FCNTL_PRAGMA:
        return pragma(f, argument);
    case SQLITE_FCNTL_SYNC:              /* argument: the super-journal of several databases */
        return argument ? refused(SQLITE_IOERR, argument, "several databases cannot commit "
                                  "together: commit one after the other") : SQLITE_OK;
    case SQLITE_FCNTL_BEGIN_ATOMIC_WRITE: /* a part of the transaction, which is a batch already */
    case SQLITE_FCNTL_COMMIT_ATOMIC_WRITE:
    case SQLITE_FCNTL_ROLLBACK_ATOMIC_WRITE:
        return SQLITE_OK;
    default:
        return SQLITE_NOTFOUND;
    }
}

static int file_sector(sqlite3_file *base)
{
    (void)base;
    return 4096;
}

static int file_device(sqlite3_file *base)
{
    (void)base;
    return SQLITE_IOCAP_ATOMIC | SQLITE_IOCAP_POWERSAFE_OVERWRITE | SQLITE_IOCAP_SAFE_APPEND |
           SQLITE_IOCAP_SEQUENTIAL | SQLITE_IOCAP_UNDELETABLE_WHEN_OPEN | SQLITE_IOCAP_BATCH_ATOMIC;
}

/* ---- SQLite's methods of a file system ---- */

static const sqlite3_io_methods methods = {
    .iVersion = 1, .xClose = file_close, .xRead = file_read, .xWrite = file_write,
    .xTruncate = file_truncate, .xSync = file_sync, .xFileSize = file_size, .xLock = file_lock,
    .xUnlock = file_unlock, .xCheckReservedLock = file_reserved, .xFileControl = file_control,
    .xSectorSize = file_sector, .xDeviceCharacteristics = file_device,
};

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *base, int flags, int *got)
{
    struct file *f = of(base);
    (void)vfs;
    enum { TEMPORARY = SQLITE_OPEN_TEMP_JOURNAL | SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
                       SQLITE_OPEN_EXCLUSIVE | SQLITE_OPEN_DELETEONCLOSE };
    if (!name || !(flags & SQLITE_OPEN_MAIN_DB))
        return unix_vfs->xOpen(unix_vfs, NULL, base, TEMPORARY, got);
    memset(f, 0, sizeof *f);
    while (taken[f->number] && ++f->number < (int)sizeof taken)
        ;
    if (f->number == (int)sizeof taken)
        return refused(SQLITE_CANTOPEN, name, "this program has 256 databases open");
    int how = (flags & SQLITE_OPEN_CREATE ? PS_CREATE : 0) |
              (flags & SQLITE_OPEN_EXCLUSIVE ? PS_EXCLUSIVE : 0) |
              (flags & SQLITE_OPEN_READWRITE ? PS_WRITE : 0);
    if (name[0] == '/')                  /* else it would be a new container, and empty */
        return refused(SQLITE_CANTOPEN, name, "files are opened as file:/NAME?vfs=unix-none");
    f->name = name;
    f->how = how;
    int error = box_open(f, how & ~PS_CREATE);
    if (error && !(error == -ENOENT && how & PS_CREATE)) {
        return refused(error == -ENFILE ? SQLITE_BUSY : SQLITE_CANTOPEN, name, ps_strerror(error));
    }
    taken[f->number] = 1;
    base->pMethods = &methods;
    if (got)
        *got = flags;
    return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
    (void)vfs;
    (void)name;
    (void)sync;
    return SQLITE_OK;                    /* a journal, which went when it was closed */
}

static int vfs_access(sqlite3_vfs *vfs, const char *name, int what, int *answer)
{
    (void)vfs;
    (void)name;
    (void)what;
    *answer = 0;                         /* asked of journals */
    return SQLITE_OK;
}

static int vfs_path(sqlite3_vfs *vfs, const char *name, int room, char *path)
{
    (void)vfs;
    sqlite3_snprintf(room, path, "%s", name);
    return SQLITE_OK;
}

static sqlite3_vfs vfs = {
    .iVersion = 2, .mxPathname = 63, .zName = "katydid",
    .xOpen = vfs_open, .xDelete = vfs_delete, .xAccess = vfs_access, .xFullPathname = vfs_path,
};

/* Writers wait for each other, five seconds at most, unless a program says otherwise. */
static int patience(sqlite3 *db, char **message, const void *unused)
{
    (void)message;
    (void)unused;
    return sqlite3_busy_timeout(db, 5000);
}

/* SQLITE_EXTRA_INIT: what sqlite3_initialize() calls last. */
int katydid_vfs(const char *unused)
{
    (void)unused;
    unix_vfs = sqlite3_vfs_find(NULL);
    int ours = sizeof(struct file), its = unix_vfs->szOsFile; /* one of both lies in the room */
    vfs.szOsFile = ours > its ? ours : its;
    vfs.xRandomness = unix_vfs->xRandomness;
    vfs.xSleep = unix_vfs->xSleep;
    vfs.xCurrentTime = unix_vfs->xCurrentTime;
    vfs.xCurrentTimeInt64 = unix_vfs->xCurrentTimeInt64;
    vfs.xGetLastError = unix_vfs->xGetLastError;
    sqlite3_auto_extension((void (*)(void))patience);
    return sqlite3_vfs_register(&vfs, 1);
}
