/*
 * manager.h - serve the faults of memory objects (external pagers): policy on top of the kernel's
 * mechanism. managers.md goes from zero fill to a persistent manager in steps, each a program; the
 * store manager is built on the same kernel calls.
 *
 * An *object* is a range of pages at an address that is the same for all. Memory holds some of
 * them, and its *manager*, this process, has the others, in whatever form. Frames belong to the
 * kernel, which lets clean pages go when memory is short; a page that was stored to is *dirty*, and
 * stays until its manager has it. A manager that is wrong, slow or dead harms clients of its own
 * objects only.
 *
 * Results: int is 0 or -errno, pointers are NULL with errno. Errors that all functions have:
 * -EINVAL, no such pages; -ENOMEM.
 */
#ifndef KATYDID_MANAGER_H
#define KATYDID_MANAGER_H

#include <stddef.h>
#include <stdint.h>

const char *ps_strerror(int error);           /* what happened, and what to do: pstore.h */

enum {
    KM_PAGE_BYTES = 4096,
    KM_NAME_MAX = 64,                         /* bytes of a name with its NUL */
    KM_COMMITS_MAX = 16,                      /* of km_commits */
    KM_OBJECTS_MAX = 192,                     /* of a process: each takes one of its 256 handles */
    KM_VIEWS_MAX = 128,                       /* views are smaller numbers than that */
    KM_MESSAGE_BYTES = 4096,                  /* of km_call */
    KM_DISK_PAGES_MAX = 64,                   /* of one km_supply_disk */
};

struct km_object;                             /* a memory object that this process manages */
struct km_request {                           /* answer each exactly once, from any thread */
    struct km_object *object;
    void *user;                               /* as given to km_create */
    uint64_t page, count, view, token;        /* wanted pages; who asks (view + 1, or 0) */
    int access;                               /* KM_READ or KM_WRITE */
};

/* km_ops are the policy; NULL means what stands in brackets. One thread waits for the first page of
 * a request; the others are likely to be touched next: supply them or leave them. `page` and `lock`
 * run in any of km_serve's threads, for several requests at a time; `commit` and `outcome` for one
 * at a time (or: km_commits), and so do `gone`, `clean` and `call`, but beside each other. Memory
 * is short while `clean` runs, and nobody but `clean` makes room: what it stores to was stored to
 * before, so that it takes no page that is new. Of its thread's stack it has 24 KiB. */
struct km_ops {
    void (*page)(struct km_request *r);       /* not resident [zero fill] */
    void (*lock)(struct km_request *r);       /* resident, but a right is wanted [grant] */
    /* `recalled`: a user has ended; km_recall again. Or a request of `lock` that you kept is void
     * (its client's time is up, it is killed, it aborts): km_fail with EAGAIN says which. */
    void (*recalled)(struct km_object *o);
    /* `clean`: frames are wanted back, those of these dirty pages first: km_read or km_write_home
     * each, then km_cleaned [they stay in memory]. */
    void (*clean)(struct km_object *o, const uint64_t *pages, unsigned count);
    /* `commit`: a transaction that stored to o commits: km_diff, then 0; -errno: it aborts [0]. */
    int (*commit)(struct km_object *o, uint64_t view);
    /* `outcome`: how that commit ended, once, after its last `commit`: 0 and its number (csn),
     * which rises from one to the next; or -errno: it is undone; -EIO of a manager that stands on a
     * store: its disk failed, and nobody knows. Tables in this process follow the commits here. */
    void (*outcome)(struct km_object *o, uint64_t view, int error, uint64_t csn);
    void (*gone)(struct km_object *o, uint64_t view); /* end, abort or death */
    void (*credit_low)(struct km_object *o);  /* km_credit: more, or 0: there are no more */
    void (*call)(struct km_object *o, void *message, int bytes); /* your own protocol; in place */
    void (*end)(struct km_object *o); /* of km_container's: nobody has it open, the process ends */
};

enum {
    KM_READ = 1, KM_WRITE = 2,                /* what clients may do; access; rights to a page */
    /* KM_TRANSACTIONAL: touched in transactions only (ps_transaction); commits come to the manager.
     * Else any thread loads and stores, at any time. */
    KM_TRANSACTIONAL = 4,
    KM_ASK = 8,     /* pages are supplied without rights: each first touch comes to `lock` */
    /* KM_UNLOCKED, with KM_TRANSACTIONAL: reads lock nothing and see what was committed last; a
     * page read may be another at the next look; writes lock. What that is worth `commit` says. */
    KM_UNLOCKED = 16,
};

struct ps_container;
/* km_below says, before the first object (km_create, km_container), that this manager keeps what it
 * serves in containers of the store of this name, which it has open; NULL: of the one that ps_open
 * uses. Then `page` runs in a snapshot of them, and `commit` in a transaction that becomes a part
 * of the client's: what both changed is durable together, or undone. `commit` may run again, and
 * may make objects, free them and set names, as any transaction. All must lie in these containers:
 * a manager that starts again has nothing else, and waits here until what its predecessor had
 * passed on is over. -ENOENT: no such manager. Where a container below has a manager of its own,
 * what `commit` stores there is -EXDEV: for those is km_below_container. */
int km_below(const char *store);
/* km_below_container stands on an open container's manager, itself on the store or such a one; all
 * is still one commit. What this one keeps lies in that container, or further below. -ENOTCONN: the
 * container has no manager of its own; -EXDEV: five managers above each other. */
int km_below_container(const struct ps_container *c);
/* km_below_own opens NAME.ENDING in the store of ps_open, made if there is none, with a root of
 * this layout, and then km_below(NULL): what a predecessor did there is over. -ENAMETOOLONG;
 * -ENOTCONN: the name is NULL, as that of km_container_name may be. */
struct ps_layout;
int km_below_own(const char *name, const char *ending, const struct ps_layout *layout,
                 struct ps_container **out);
/* km_commits sets, before km_serve, how many commits, 16 at most, are worked on at a time [1], and
 * the store makes them durable together. `commit` then runs in several threads: the locks of what
 * it touches below keep them apart, and what else it changes needs locks of its own. `outcome`
 * comes for one at a time, but of several in any order: the greater csn is the later one's. */
int km_commits(int threads);
/* km_create makes an object. The first one's name is published; km_open finds others beside it.
 * -EMFILE: too many objects; -EPERM: no right to publish names; -EEXIST: somebody has this one. */
int km_create(const char *name, uint64_t pages, int flags, const struct km_ops *ops, void *user,
              struct km_object **out);
/* km_end ends the object and all its pages; clients that touch it are ended. `o` is no object any
 * more when the last of the functions of its ops that run has returned. if_unused: -EBUSY while a
 * client has it, or memory has what was not cleaned. */
int km_end(struct km_object *o, int if_unused);
/* km_serve serves all objects, with so many threads; returns only on error. There are two more, one
 * that cleans while all others wait for memory, and one for what clients say. */
int km_serve(int threads);
void *km_address(struct km_object *o);        /* where clients see it */
int km_attach(struct km_object *o);           /* this process sees it there, too */

/* ---- a container's own manager (ps_manager): a program that the store starts and stops ----
 * The object for its container, at the container's place; to be called once, before any km_create,
 * which then publishes nothing: further objects are for km_open_beside, by who has the container
 * open, and to be written by who may write it, if anybody may. From km_serve on clients come. When
 * nobody has had it open for a while, ops->end is called, and the process ends.
 * -ENOTCONN: this program was not started as a container's manager. */
int km_container(int flags, const struct km_ops *ops, void *user, struct km_object **out);
const char *km_container_name(void);          /* NULL: as above */
/* KM_CHECKS; once in a program's file says that the program checks its arguments: ps_manager runs
 * `PROGRAM --check NAME ARGUMENTS` in the caller's place, and if that says why not on stderr and
 * exits with another status than 0, nothing is set (-ECHILD). It is a question: it makes nothing,
 * and serves nothing. Who may not start programs is not told; then the first open is. */
#define KM_CHECKS \
    __asm__(".pushsection .note.katydid,\"a\",@note\n .balign 4\n .long 8, 0, 1\n" \
            " .asciz \"Katydid\"\n .popsection")
/* km_container_pages counts the first segment's; km_fail answers a touch of an unwanted one. */
uint64_t km_container_pages(void);
/* km_container_more is for the next segment, with the first call the second: its object, at its
 * place, anywhere; its pages count from 0. If the container has no further segment it gets one
 * more, for good, as large as all before it together (1, 1, 2, 4 GiB ...; from 256 GiB on twice
 * that). Between km_container and km_serve. Nobody serves the segments for which it is not called.
 * -ENOSPC: it has 12; -EMFILE: the store would need more than 24 handles for such segments. */
int km_container_more(const struct km_ops *ops, void *user, struct km_object **out);
unsigned km_container_segments(void);         /* so many there are when the program starts */
uint64_t km_pages(const struct km_object *o);

/* ---- a protocol of its own ----
 * Whoever speaks another one with its clients than km_open and km_call gets what they send as it
 * comes (KD_PORT_CALL, or a library of its own; libpstore's is store_protocol.h, and whoever wants
 * that one takes manager_store.h, which is built on this). All functions, those of transactions
 * too, run one at a time, in the order in which the port has them. */
enum { KM_WORDS = 8 };
struct km_message {
    uint64_t process;                         /* of whom it comes */
    uint32_t kind;
    uint64_t word[KM_WORDS], reply[KM_WORDS]; /* reply: 0 at first */
    void *data;                               /* what came with it; until the function returns */
    uint64_t bytes;
    const void *answer;                       /* what goes with the reply; until the next message */
    uint64_t answer_bytes;                    /* 0 at first */
};
struct km_protocol {
    int (*message)(struct km_message *m);     /* the reply's status: 0 or -errno */
    /* `commit`: a transaction commits that stored to objects, or has a batch (KD_TXN_COMMIT) for
     * this manager: before ops->commit of each object. 0; -errno: it aborts. NULL: 0. */
    int (*commit)(uint64_t process, const void *batch, uint64_t bytes);
    /* `outcome`: how that ended, once: behind ops->outcome. Not of one that `commit` refused. */
    void (*outcome)(uint64_t process, const void *batch, uint64_t bytes, int error);
    void (*gone)(uint64_t process);           /* it had objects, and has ended, or executes anew */
};
/* km_protocol, before the first object, publishes `name`, and no object's. Errors: those of
 * km_create; -EINVAL: there is an object, or a manager below (km_below). */
int km_protocol(const char *name, const struct km_protocol *p);
/* km_admit lets a process touch o, as by km_open (KM_READ, KM_WRITE); km_dismiss no longer.
 * -EINPROGRESS: something of a dead manager's is there still: the client may ask again. */
int km_admit(struct km_object *o, uint64_t process, int flags);
int km_dismiss(struct km_object *o, uint64_t process);
/* km_admitted returns what the process may touch o for, as km_admit; 0: it may not. An execve ends
 * what the program before might; `gone` comes later. -ESRCH: there is no such process. */
int km_admitted(struct km_object *o, uint64_t process);

/* ---- answers: each ends the request ----
 * Not if it fails: km_fail then does. But for -ESTALE (km_below): what was read has a newer version
 * by now, and the kernel asks again. */
int km_supply(struct km_request *r, const void *pages, uint64_t count);
/* km_answer is what `page` ends with, mostly: it supplies so many pages, NULL: of zeros; or if
 * there is an error, it is km_fail with that, of so many pages, one at least. */
void km_answer(struct km_request *r, const void *pages, uint64_t count, int error);
int km_supply_disk(struct km_request *r, int disk, uint64_t sector, uint64_t count);
/* km_zero answers all pages that were asked for: r->count = 1 before it, if you may have others. */
int km_zero(struct km_request *r);
/* km_grant answers `lock` with the right, for this touch alone. -ESRCH: nobody waits for it any
 * more. */
int km_grant(struct km_request *r);
/* km_fail fails all pages that were asked for. The client's thread gets the error, of either sign;
 * -ESRCH: who asked waits no more. EAGAIN ends nothing, the client waits on. Who keeps a request of
 * `lock` for later does that first, and then calls this with EAGAIN: -ESRCH: forget it; 0: if its
 * client goes, `recalled` is called. */
int km_fail(struct km_request *r, int error);

/* ---- pages, unasked, at any time ----
 * Each version of a page has a number, its *csn*: 0 when it was supplied, the commit's number when
 * a transaction stored to it. Pages that are not transactional keep theirs; the kernel sees by
 * itself whether they were stored to. */
#define KM_CSN_ANY (~0ull)
enum {
    KM_RESIDENT = 1, KM_DIRTY = 2,
    KM_WRITER = 4,                            /* a transaction may be storing to it */
    KM_PINNED = 8,
    KM_USED = 32,                             /* km_used */
};
enum km_advice {
    KM_NORMAL, KM_SEQUENTIAL, KM_RANDOM,      /* of the whole object: how many pages faults want */
    KM_WILL_NEED, KM_DONT_NEED,               /* the last to go, the first to go */
    KM_EVICT,                                 /* they go now, if they are clean; how many did */
    KM_MEMORY,                                /* `count` pages of o in memory at most; from 16 */
    /* nobody wants them any more, whichever version they are: as km_cleaned of each, and snapshots
     * that are older do not take zeros for them (-ESTALE). -EINVAL: o is on another manager's */
    KM_FREED = 8,
};
int km_push(struct km_object *o, uint64_t page, uint64_t count, const void *pages); /* prefetch */
/* km_resident gives KM_RESIDENT and so on of each page. */
int km_resident(struct km_object *o, uint64_t page, uint64_t count, uint8_t *bits);
/* km_used does so too, and KM_USED of pages used since this was last asked, or since they came. */
int km_used(struct km_object *o, uint64_t page, uint64_t count, uint8_t *bits);
/* km_read copies a page from memory; its csn for km_cleaned. Who stores to it from here on makes it
 * dirty anew. -ENOENT: not in memory; -EBUSY: another thread of this process reads or writes it. */
int km_read(struct km_object *o, uint64_t page, void *bytes, uint64_t *csn);
/* km_cleaned says that the manager has the page as km_read or km_write_home gave it. -ESTALE: it
 * was stored to since, is still dirty, and comes to `clean` once more before anybody asks for it:
 * what was read may be half of a store, so it may lie where it is kept, but is to be shown to
 * nobody. KM_CSN_ANY: whatever it is, its manager has it, or wants it no more. */
int km_cleaned(struct km_object *o, uint64_t page, uint64_t csn);
/* km_clean has `clean` called for those that are dirty; not to be called in it. */
int km_clean(struct km_object *o, uint64_t page, uint64_t count);
/* km_grant_all gives all rights to pages in memory: the kernel asks for none until a recall. */
int km_grant_all(struct km_object *o, uint64_t page, uint64_t count, int rights);
/* km_recall calls rights back but for `to`, KM_READ or 0; KM_DROP: clean pages leave memory. How
 * many of them transactions still use, to their ends, and which views (`users`, or NULL). Newcomers
 * come to `lock` from now on. */
enum { KM_DROP = 4 };
int km_recall(struct km_object *o, uint64_t page, uint64_t count, int to, uint64_t users[2]);
/* km_pin keeps those in memory that are there; how many. -ENOMEM: no more may (`limit pins`). */
int km_pin(struct km_object *o, uint64_t page, uint64_t count, int on);
/* km_advise takes an enum km_advice; to how many pages in memory it applies. */
int km_advise(struct km_object *o, uint64_t page, uint64_t count, int advice);

/* ---- transactions ---- */
/* A struct km_run is a run of bytes that a transaction changed; they follow it. */
enum { KM_RUN_FULL = 1, KM_RUN_LAST = 2 };    /* the whole page; the last run of this page */
struct km_run {
    uint64_t object, page, base_csn;          /* object: for the kernel; the version it changed */
    uint16_t offset, bytes;                   /* in the page */
    uint32_t flags;
    uint8_t data[];
};
/* km_diff, in ops->commit, puts the next runs of o into a buffer of at least 1.5 pages; how many
 * bytes. *cursor is 0 at first, and ~0 when all is told. From 0 on all is told once more. */
long km_diff(struct km_object *o, uint64_t view, uint64_t *cursor, void *buffer, size_t bytes);
/* km_diff_each tells all runs, in the order of pages: each(run, user). 0; what is not 0 ends it. */
int km_diff_each(struct km_object *o, uint64_t view,
                 int (*each)(const struct km_run *r, void *user), void *user);
/* for (r = km_run_first(buffer, n); r; r = km_run_next(r, buffer, n)) */
static inline const struct km_run *km_run_at(const void *at, const void *buffer, long bytes)
{
    return (const char *)at < (const char *)buffer + bytes ? (const struct km_run *)at : NULL;
}
static inline const struct km_run *km_run_first(const void *buffer, long bytes)
{
    return km_run_at(buffer, buffer, bytes);
}
static inline const struct km_run *km_run_next(const struct km_run *r, const void *buffer,
                                               long bytes)
{
    return km_run_at(r->data + ((r->bytes + 7u) & ~7u), buffer, bytes);
}
/* km_credit lets transactions make so many private copies more, of all objects here; each that is
 * committed consumes one, so a commit never finds its manager without room. How many are left. A
 * process that never says so gives any number. KM_CREDITS_CLOSED: no, and nothing is ever cleaned:
 * where dirty pages fill the memory a transaction gets ENOMEM at once; once, o may be NULL. */
#define KM_CREDITS_CLOSED (1ull << 32)
int km_credit(struct km_object *o, uint64_t copies);
int km_wait(uint64_t view, const uint64_t *blockers, int n); /* a wait of the manager's own */
int km_abort(uint64_t view, int error);

/* ---- disks ----
 * Offsets and sizes are whole sectors. What was written is durable after km_disk_flush. */
/* km_disk_open opens a disk for this process alone; its size. -EBUSY: somebody has it; -EPERM: this
 * program may not open disks (the shell's `allow disks`). */
int km_disk_open(const char *name, uint64_t *bytes);
int km_disk_read(int disk, uint64_t offset_bytes, void *to, size_t bytes);
int km_disk_write(int disk, uint64_t offset_bytes, const void *from, size_t bytes);
int km_disk_flush(int disk);
/* km_write_home writes a dirty page from its frame; csn for km_cleaned, CRC-32C: or NULL. */
int km_write_home(struct km_object *o, uint64_t page, int disk, uint64_t sector, uint64_t *csn,
                  uint32_t *crc);

/* ---- clients of a manager. A manager is published under the name of its first object. ----
 * Whoever does not trust it to answer has a limit (`limit answer MILLISECONDS PROGRAM`, resource
 * KD_RLIMIT + KD_LIMIT_ANSWER of setrlimit): then these calls return -ETIMEDOUT, a transaction that
 * waits for a page aborts with ETIMEDOUT, and a thread that touches one without a transaction is
 * ended. A commit that the store has received, or a manager that stands on nobody, is
 * waited for; one that a manager keeps from passing on aborts with ETIMEDOUT. */
/* km_open (KM_READ, KM_WRITE) returns its address. -ENOENT: nobody serves it (yet: who has just
 * started the manager tries again). `manager` is a name of the kernel's, for whom has those (`allow
 * names`); or else a path in the process's directory, of a container with a manager of its own: the
 * object is one beside it, and the container stays open. */
void *km_open(const char *manager, const char *object, int flags);
int km_call(const char *manager, const char *object, void *message, int bytes); /* to ops->call */
/* km_open_beside does so with an open container's manager. Objects of its beside the container are
 * memory that manager and clients share: volatile, and nobody locks it but they. -ENOTCONN: the
 * store manager serves it; -EACCES: c is not open so; -EOWNERDEAD: ps_open starts it again;
 * -ETIMEDOUT: as above, or the timeout_ms of the transaction in which it is called is over. */
void *km_open_beside(const struct ps_container *c, const char *object, int flags);
int km_call_beside(const struct ps_container *c, const char *object, void *message, int bytes);

#endif
