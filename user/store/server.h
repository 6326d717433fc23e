/*
 * server.h - what the parts of the store manager share.
 *
 *     thread         waits on      does                                             file
 *     pager x 6      port          pages, requests of clients, notices; at most     pager.c
 *                                  three of them wait for the disk                  request.c
 *     committer      commit port   collects transactions into groups, writes them   commit.c
 *                    batch.c
 *     publisher      group.c       flushes and publishes a group beside the next    group.c
 *     unspiller      spill.c       reads pages of transactions back from the log    spill.c
 *     cleaner        server.work   home writes, checkpoints, credits, repairs       clean.c
 *     scrubber       scrub.c       reads every copy when there is time              scrub.c
 *     backup         -             copies the store to another disk, when asked     backup.c
 * Programs that serve containers in our place: kept.c. Names, rights and handles: directory.h,
 * path.c, names.c.
 *
 * Locks. `server.lock` guards the disk library (but for its functions marked NO MUTEX), the table
 * of containers, and all counters. It is never held across disk I/O or a wait for another thread,
 * but it is held across calls that the kernel answers at once. The *gate* is a flag under it: who
 * has passed it is the committer, from the start of a group until it is written. A checkpoint
 * begins inside the gate, when no group is in the air, so it always finds everything committed also
 * applied and published.
 *
 * Invariants
 *   MG1  A transaction is published only after store_group_write() has returned 0 for its group; a
 *       lazy one after store_group_issue() has.
 *   MG2  The disk library knows of a home write before the kernel does: a page that the kernel may
 *       evict can be read back from where the library says.
 *   MG3  Two threads never bring the same page into memory at one time (pager.c).
 *   MG4  After the fence no group is launched, nothing is cleaned or checkpointed, and no request
 *       is granted that only serves writing (request.c).
 *   MG5  A page goes home only in a version that is durable in the log (batch_write, clean.c).
 */
#ifndef USER_STORE_SERVER_H
#define USER_STORE_SERVER_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kd.h"
#include "span.h"
#include "store.h"
#include "store_protocol.h"

#define STORE_NICE       (-10)      /* of its threads: programs wait for them */
#define PAGER_THREADS    6u
#define CONTAINER_HASH   64u
#define CLEAN_BATCH      256u       /* pages per home write call */
#define CREDIT_BYTES     4160u      /* log space set aside for one private copy */
#define ROOT_NAME        "\1root"   /* the name under which a client registers its root object */

/* struct run: pages that nobody else may be given: leased to a process; freed and perhaps still in
 * memory (owner NOBODY); or of a process that closed the container and may be committing still
 * (CLOSED). Runs of a container are sorted and do not overlap. */
struct run { uint64_t first, count, owner; };
#define NOBODY 0
#define CLOSED ~0ull

/* struct sources: by which grants and handles an opening or handle came: it ends with each. */
#define SOURCES_MAX 6u
struct sources { uint64_t of[SOURCES_MAX]; unsigned count; };
struct opening { uint64_t process; uint32_t count, rights; struct sources by; };
struct index;                           /* index.c */

struct container {
    struct container *next;
    uint64_t id;
    char name[STORE_NAME_BYTES];
    unsigned busy;                  /* users of its handles without the lock: no forgetting */
    uint64_t idle; /* 0: a process has it open; else server.idle_clock when the last
                    * one closed it */
    bool leaving;                   /* the cleaner brings its pages home, to give it up */
    uint32_t form[WIRE_FORMS];      /* how it is logged, locked and protected (form.c) */
    unsigned operate_rest;          /* pages that are not looked at for operations (changes.c) */
    unsigned chunk;                 /* pages that go home together (clean.c); 0: no matter */
    bool consistent;                /* and while nobody commits */
    uint32_t segment_count;
    struct {
        int object;                 /* the kernel's memory object */
        uint64_t base, first, pages;/* address; number of its first page in the container */
    } segment[STORE_SEGMENT_MAX];
    struct opening *openings;
    unsigned opening_count, opening_room;
    struct run *runs;
    unsigned run_count, run_room;
    uint64_t lease_next;            /* where leases without a wish are looked for */
    uint64_t forgotten;             /* versions.c: pages of a segment before this one were */
    uint16_t *room; /* per page: free bytes / 16 when last heard of, and above 8 bits its
                     * tag; NULL: no page */
    uint64_t room_pages;            /* size of it */
    uint64_t room_top;              /* no page at or above has any */
    struct index *index;            /* it is one that we keep; else NULL */
    bool kept;                      /* another program serves it (kept.c): it has no segment here */
    uint32_t decided;               /* enum wire_decide: who decides about first touches */
    struct deciding *deciding;      /* decide.c: the program that does; or NULL */
    uint64_t decision;              /* so many times that was changed */
    bool opens;                     /* the kernel does again, and is to be told for each page */
};

struct server {
    const char *name;               /* "store": of the disk, of the port, and before what it says */
    int port, commit_port;
    struct disk_io disk;                /* the store's, made of one or several (device.c) */
    int index_commit_port;              /* our own commits, of indexes */
    struct store *store;
    unsigned extent_pages;
    uint64_t log_bytes;

    pthread_mutex_t lock;
    pthread_cond_t changed;         /* the gate, checkpoints done, pages brought */
    pthread_cond_t work;            /* for the cleaner */
    bool gate_taken, gate_wanted;   /* wanted: by the cleaner, who goes before the committer */
    uint64_t launched, landed;      /* groups (group.h) */
    int fenced;                     /* 0, or the error that ended this store's commits */
    bool read_only;                 /* the store is damaged: what is left of it may be read */
    struct {
        uint64_t wanted, done;
        uint64_t failed;            /* so many were wanted when one last found no memory */
        uint64_t due_us;            /* by the clock; 0: nothing was committed since the last */
    } checkpoints;
    uint64_t clean_wanted;          /* pages */
    bool credit_low;                /* the kernel asked for credits */
    bool credit_short;              /* and got none: ask again after the next commit */
    uint64_t changing;              /* the container that is being deleted, or given another form
                                     * (form.c); 0: none */
    uint64_t credits;               /* granted and not yet spent by a commit */
    uint64_t stop_token;            /* the request to stop, answered by the cleaner; 0: none */
    struct container *containers[CONTAINER_HASH];
    unsigned objects;               /* of the kernel, one for each segment of these */
    uint64_t idle_clock;
    /* rooms: wanted by who found no handle for an object; looked for, for them */
    struct { uint64_t wanted, done; } rooms;
    bool idle_due;                  /* there are many objects, and one more of them is not in use */
    unsigned pagers_busy;           /* perhaps wait for the kernel, or for room in the queue */
    uint64_t pagers_done;
    uint64_t last_csn;              /* no page has a version that is newer */
    uint64_t durable_csn;           /* this version and all before are; else see lazy_due_us */
    uint64_t lazy_due_us;           /* when by the clock the log is flushed; 0: no lazy one waits */
    uint64_t log_writes, log_flushes;   /* as seen at the device: one of each per group */
    uint64_t refused, home_writes, pages_read;
};
extern struct server server;

static inline void server_lock(void) { pthread_mutex_lock(&server.lock); }
static inline void server_unlock(void) { pthread_mutex_unlock(&server.lock); }
/* server_wait waits for the condition, or for so many microseconds: 0, or ETIMEDOUT. Lock held. */
int server_wait(pthread_cond_t *condition, uint64_t us);
void server_pause(long ms);             /* lock held, dropped meanwhile */

/* disk_of_client (request.c): a handle of the disk that a client names, or -errno; *bytes: size. */
long disk_of_client(const struct kd_message *m, uint64_t *bytes);
/* main.c. */
struct store_report;
void report_say(const struct store_report *report);
int disk_format(const struct disk_io *io, uint64_t group_bytes);
bool thread_make_with(void *(*body)(void *), void *argument);
/* say writes a line into the kernel's log, "store: ...". */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* server_fence: the store takes no more commits; it says why, once, before anybody hears of the
 * error. Lock held, dropped while it is said. */
void server_fence(const char *what, int error);
/* server_writable: 0, or the error for who wants to change the store. The disk library knows of a
 * failed write as soon as that has returned, and is asked, too. Lock held. */
int server_writable(void);

/* process_parent (request.c) tells whose child a process is; 0: it is not there. No lock. */
uint64_t process_parent(uint64_t process);
/* server_notice takes a message of the kernel that wants no answer. No lock. */
void server_notice(const struct kd_message *m);
/* request_advised, by a thread that reads: brings the pages of STORE_ADVISE, STORE_PIN; answers. */
void request_advised(const struct kd_message *m);

/* gate.c; lock held on entry and return, dropped while waiting. */
void gate_enter(bool cleaner);
void gate_leave(void);
/* checkpoint_wait waits until a checkpoint that began after the call is done; 0, the fence, or
 * -ENOMEM: no memory to begin it (the cleaner goes on trying). Not in the gate. */
int checkpoint_wait(void);

/* container.c; lock held. */
struct container *container_by_id(uint64_t id);
int container_object(uint64_t id, uint64_t page, int *object, uint64_t *object_page);
bool container_page(const struct container *c, uint64_t address, uint64_t *page);
/* container_left counts the pages from this one to the end of its segment; 1 at least. */
uint64_t container_left(const struct container *c, uint64_t page);
uint64_t container_address(const struct container *c, uint64_t page);
/* container_allows: 0, or -EACCES: it was not opened with these rights. Nobody writes an index. */
int container_allows(const struct container *c, uint64_t process, uint32_t rights);
/* container_allows_index does so for what a commit changes in an index; -EINVAL: it is none. */
int container_allows_index(const struct container *c, uint64_t process);
bool process_known(uint64_t process);
/* The cookie of a kernel object names container and segment. */
static inline uint64_t cookie_of(uint64_t id, unsigned segment) { return id << 4 | segment; }
int cookie_page(uint64_t cookie, uint64_t object_page, uint64_t *id, uint64_t *page);
/* idle_choose marks containers that nobody has open as leaving, those first that were closed first,
 * until so few objects would be left. True: there are any. */
bool idle_choose(unsigned left);
/* idle_give_up gives up leaving containers that are not in use. In the gate, no group flies. */
void idle_give_up(void);
/* No lock held: requests of clients. */
/* by: of a kept container, how it was reached. container_open: by the path in how->name. */
int container_open_by(uint64_t process, const char *path, const struct wire_open *how,
                      struct wire_opened *out, struct sources *by);
int container_open(uint64_t process, const struct wire_open *how, struct wire_opened *out);
int container_close(uint64_t process, uint64_t id);
/* container_rename: *id: the container's. */
int container_rename(const char *from, const char *to, uint64_t *id);
int container_grow(uint64_t id);
int container_may_grow(uint64_t process);           /* -EDQUOT: not for this one */
/* container_alone, lock held: 0; -EBUSY: another process than this one has it open; -ENOENT. */
int container_alone(uint64_t id, uint64_t process);
/* container_remake makes its kernel objects anew with another form: 0; -EBUSY: they are in use, and
 * as they were. Lock held, in the gate, when no group is in the air (OC4). */
int container_remake(struct container *c, enum wire_form which, uint32_t value);
/* form.c: a container's form is how its pages are logged, what is locked in it, what protects it:
 * `which` is an enum wire_form. */
int container_form(uint64_t process, uint64_t id, uint64_t which, uint64_t value);
void form_of(const struct store_container *d, uint32_t form[WIRE_FORMS]);
uint32_t form_encoder(uint32_t encoder); /* KD_ENCODER_* of a container with this form of the log */
uint32_t form_flags(const uint32_t form[WIRE_FORMS]); /* KD_OBJECT_* of its kernel objects */
/* form_object makes the kernel's object for a segment: its handle or -errno. */
int form_object(const struct store_container *d, unsigned i, const uint32_t form[WIRE_FORMS]);
int container_chunk(uint64_t process, uint64_t id, uint64_t pages);
void form_remake(struct container *c); /* by the cleaner. Lock held, in the gate */
void process_gone(uint64_t process);
/* container_opened, lock held, notes one opening more. -EIDRM: a source has ended; -EMLINK. */
int container_opened(struct container *c, uint64_t process, uint32_t rights,
                     const struct sources *by);
/* Lock held. openings_end ends those with this source; container_used_beside: others have it open;
 * container_deleted drops what is left of a deleted one (and, meanwhile, the lock). */
void openings_end(uint64_t serial);
bool container_used_beside(uint64_t id, uint64_t process);
void container_deleted(uint64_t id);
/* container_let_go forgets one that nobody has open, if the kernel lets its objects go; else
 * -EBUSY. Lock held, in the gate, when no group is in the air (OC4). */
int container_let_go(struct container *c);
bool container_has_opening(const struct container *c, uint64_t process);
int container_closed(struct container *c, uint64_t process);

/* kept_setting.c, kept.c: containers that other programs serve. Lock held, unless it says
 * otherwise. */
enum { OPEN_KEPT = 1 };             /* of container_open: kept_open is to answer */
/* kept_text reads a container's program and arguments: so many bytes; -ENOENT. */
int kept_text(uint64_t id, char text[WIRE_MANAGER_BYTES]);
bool kept_is(uint64_t id);
/* container_manager sets the program that serves the container at the path: text is its name and
 * arguments, a NUL behind each; empty: the container is served here. No lock. */
int container_manager(const char *path, const char *text, size_t bytes);
/* container_managed reads that text: its bytes, or -ENOENT. No lock. */
int container_managed(const char *path, char text[WIRE_MANAGER_BYTES]);
/* struct kept_names: the operations that set a container's program, in one transaction. */
enum { KEPT_NAMES = 9, KEPT_OPS = 2 * KEPT_NAMES };
struct kept_names {
    struct store_op ops[KEPT_OPS];
    char name[KEPT_OPS][STORE_NAME_BYTES];
    unsigned count;
};
void kept_names_make(struct kept_names *n, uint64_t id, const char *text, size_t bytes);
bool kept_name(const char *name);
/* kept_end ends the program that serves a container; -EBUSY: somebody waits to be served. */
int kept_end(uint64_t id);
void kept_idle(uint64_t id);        /* nobody has it open any more */
int kept_attach(uint64_t id, uint64_t process, uint32_t rights);
void kept_detach(uint64_t id, uint64_t process);
bool kept_attached(uint64_t process);   /* to anything here, by the program that it is now */
void kept_hello(uint64_t process, uint64_t parent, uint64_t id, uint64_t key);
/* kept_object, lock held: the kernel's object of a segment, and its pages; of a kept container its
 * representative's, if there is one now. -ENOENT. */
int kept_object(uint64_t id, uint64_t number, uint64_t *pages);
int container_object_of(const struct container *c, uint64_t number, uint64_t *pages);
/* container_segment: place, pages of an open container's segment. -EACCES, -ENOENT. No lock. */
int container_segment(uint64_t process, uint64_t id, uint64_t number, uint64_t place[2]);
/* kept_look does what is due by the clock; kept_due_us: when the next is, or 0. */
void kept_look(void);
uint64_t kept_due_us(void);
void kept_stop(void);               /* all end, or are waited for in vain; lock dropped meanwhile */
/* kept_request, no lock: true: the request is answered, or will be. */
bool kept_request(const struct kd_message *m);
bool kept_handle(const struct kd_message *m);   /* does the request come with a handle? */
void kept_open(const struct kd_message *m, const struct wire_opened *o, const struct sources *by);
int kept_ended(const struct kd_message *m);
bool kept_page(const struct kd_message *m);     /* of the object that tells clients' ends */

/* space.c; lock held. */
int space_lease(struct container *c, uint64_t process, uint64_t count, uint64_t near,
                uint64_t *first);
int space_find(struct container *c, uint64_t process, uint64_t hint, uint64_t near,
               uint64_t *page);
/* space_leased: are all these pages leased by the process? */
bool space_leased(const struct container *c, uint64_t process, uint64_t first, uint64_t count);
int space_unlease(struct container *c, uint64_t process, uint64_t first, uint64_t count);
void space_process_gone(struct container *c, uint64_t process, bool closed);
void space_room(struct container *c, uint64_t page, uint64_t hint); /* as in WIRE_ROOM */
void space_freed(struct container *c, uint64_t first, uint64_t count);

/* commit.c */
int committer_init(void);
void *committer_main(void *unused);
/* commit_own commits a transaction of the manager's own, by the caller's thread, in its own group.
 * An operation with object 0 is about that of the one before it. No lock. */
int commit_own(struct store_op *ops, unsigned count);

/* index.c: B+-trees that clients read and we change. */
struct index_op {
    struct container *container;
    bool set;                       /* else: unset */
    uint32_t length;                /* of the key */
    uint64_t value;
    const uint8_t *key;             /* in the batch; with a NUL behind it */
};
/* index_make, lock held, makes an index's kernel objects: 0 or -errno, and nothing of it. */
int index_make(struct container *c, int kind, uint64_t base, uint64_t pages);
/* index_key_ok: can this be a key of the index? */
bool index_key_ok(const struct container *c, const char *key, uint64_t length);
/* index_destroy ends its kernel objects, as kd_object_destroy does. */
int index_destroy(struct container *c, bool if_unused);
int index_attach(const struct container *c, uint64_t process, uint32_t rights);
void index_detach(const struct container *c, uint64_t process);
/* index_lock_page, lock held: is this kernel page a lock of an index? */
bool index_lock_page(uint64_t cookie);
/* index_lock_clean: a transaction stored to such a page, against all rules. Lock held. */
void index_lock_clean(uint64_t cookie, uint64_t page);
/* index_lock_request supplies such a page, if one is wanted: true. No lock. */
bool index_lock_request(const struct kd_message *m);
int index_init(void);
void *index_main(void *unused);     /* the thread that changes indexes */

/* batch.c: the operations that come with a commit, checked. */
struct free_range { uint64_t container, first, count; };
struct batch {
    struct store_op *ops;           /* for the disk library, in order; names lie in the batch */
    unsigned op_count;
    struct free_range *freed;
    unsigned freed_count;
    uint64_t pages;                 /* freed or claimed */
    struct { uint64_t container, page, bytes; } *rooms;
    unsigned room_count;
    struct store_layout layout;     /* of the operation that changes one, if there is one */
    struct index_op *changes;       /* of indexes */
    unsigned change_count;
    const struct wire_vote *vote;   /* of a transaction of several stores; in the batch, or NULL */
    const struct wire_decision *decision;
    unsigned participants;
    struct store_op note;           /* its name NULL: none */
    bool note_made;                 /* there was none of this name */
    void *memory;
};
/* batch_fetch puts what the views that helped a COMMIT say behind its batch, in its buffer of so
 * many bytes (data_bytes grow). False: too many, it is refused. By the committer. */
bool batch_fetch(struct kd_message *m, uint64_t most);
/* batch_parse, lock held, fills *b from hostile bytes, those of the COMMIT fetched last, each
 * operation as its process may say it; or -EINVAL, -ENOENT, -EACCES, -EEXIST, -E2BIG, -ENOMEM. */
int batch_parse(struct batch *b, const uint8_t *bytes);
bool batch_frees(const struct batch *b, uint64_t container, uint64_t page);
void batch_release(struct batch *b);

/* votes.c */
void votes_start(void);                 /* what earlier lives have prepared */
/* grace_begin: for so many ms no page is granted, if anything is exported to others. No lock */
void grace_begin(unsigned ms);
/* hold_takes (hold.c; by the committer) puts a COMMIT aside, or refuses it; hold_next: one of those
 * goes on; hold_idle: how many milliseconds may be waited (-1: for ever), nothing in hand. */
bool hold_takes(const struct kd_message *m);
bool hold_next(struct kd_message *m);
long hold_idle(long timeout_ms);
bool votes_wanted(const struct kd_message *m);      /* of a COMMIT: does it want a vote? */
void votes_vote(const struct kd_message *m);        /* which is told, or it is refused. No lock */
void votes_renew(void);                 /* what is due. By the committer; no lock */
bool votes_request(const struct kd_message *m);     /* STORE_TXN: answered, or later. No lock */
/* votes_hold, lock held: true: the page request waits for an outcome; votes_held: one would. */
bool votes_hold(const struct kd_message *m, uint64_t container, uint64_t page);
bool votes_held(uint64_t container, uint64_t page);
/* parts.c: transactions that have parts in other stores of this machine, which the kernel asks for.
 * By the committer: part_of_commit tells what part (enum kd_part) the COMMIT received is. */
unsigned part_of_commit(void);
/* part_receive takes one whose batch is here. False: it is no commit of its own, and dealt with. */
bool part_receive(struct kd_message *m);
/* part_batch adds to a batch what its part says. 0; -EINVAL: that says such things itself. */
int part_batch(struct batch *b);
bool parts_start(void); /* this store's name for the kernel, the port that others ask, threads */
bool parts_serve(void); /* ... and answers these */
bool thread_make(void *(*body)(void *));
/* votes_name: does a prepared transaction set or unset this name? */
bool votes_name(const struct store_op *op);

/* spill.c: by the committer thread, but for the last. */
#define TOUCH_BYTES (1u << 20)          /* of the group buffers are always memory */
#define SPILL_GROUP_PAGES 240u          /* of a group of SPILL records: they fit there */
/* spill_message deals with SPILL, UNSPILL and VIEW_GONE: true. No lock. */
bool spill_message(const struct kd_message *m);
/* spill_needs_gate: must that be outside the gate, for it may pass the gate itself? */
bool spill_needs_gate(const struct kd_message *m);
/* spill_chain, lock held: the chain of the view's transaction, or NULL. */
struct store_chain *spill_chain(uint64_t view);
/* spill_end: a view's transaction is over; its logged pages count no more, or were applied. */
void spill_end(uint64_t view);
/* spill_committed is called after its commit was published: whoever waits has a turn. */
void spill_committed(uint64_t view);
/* spill_for_commit logs the copies of a COMMIT that fits no group, first. 0, or why none does. */
int spill_for_commit(struct kd_message *m);
/* spill_commit, in a transaction that is being added, ends its view's chain, if any. */
int spill_commit(struct store_group *disk, const struct kd_message *m, const struct batch *b);
void *unspill_main(void *unused);

/* watch.c */
int watch_request(const struct kd_message *m);      /* STORE_WATCH. No lock */
bool watch_wait(const struct kd_message *m);        /* a STORE_WAIT: it is, or will be, answered */
/* Lock held: a commit changes these pages of a container; watch_all_change: perhaps all. */
void watch_changes(uint64_t id, uint64_t page, uint64_t count);
void watch_all_change(void);
void watches_end(uint64_t process); /* who waits looks again */

/* pins.c: STORE_PIN. No lock; the first waits for the disk. */
int pins_pin(const struct kd_message *m);
int pins_unpin(const struct kd_message *m);
/* pins_end: the process has the container open no more. Lock held. */
void pins_end(uint64_t container, uint64_t process);

/* decide.c: who decides about first touches. No lock, unless it says so. */
bool decide_request(const struct kd_message *m);    /* STORE_DECIDE: it is, or will be, answered */
bool decide_asked(const struct kd_message *m);      /* PAGE, of one in memory: dealt with */
void decide_recalled(uint64_t cookie);
/* decide_end, lock held: the process (0: whoever does) does not decide any more. */
void decide_end(struct container *c, uint64_t process);
void decide_settle(void);   /* behind it, in the same section. Lock held, dropped if that is long */

/* clean.c */
/* log_page_read reads a page out of the log; its CRC must be `crc`. 0, -EIO, -EUCLEAN. No lock. */
int log_page_read(uint64_t offset, uint32_t crc, void *bytes);
void *cleaner_main(void *unused);
uint64_t credits_target(void);
void credits_update(bool all);      /* lock held */
#define OBJECTS_MANY 192u           /* of the 256 handles; from there on some are given up ... */
#define SEGMENTS_EACH 128u          /* that one process may have open: half are for others */
#define OBJECTS_FEW  160u           /* ... until there are so few, or all are in use */
/* room_wait waits until the cleaner has tried to give up an object. Lock held. */
void room_wait(void);
/* cleaner_step, between two pieces of the cleaner's work: if a group is in the air and the log has
 * room, it waits until that has landed. Lock held. */
void cleaner_step(void);

/* scrub.c */
void *scrub_main(void *unused);
bool scrub_repair_due(void);        /* lock held */
void scrub_repair(void);            /* by the cleaner; lock held, dropped for the disk */
void scrub_numbers(struct kd_message *reply);   /* lock held: rounds, KiB read, put back, lost */
/* scrub_ask: STORE_SCRUB: 0, the token is answered when a round that begins now has ended; or why
 * not. No lock. */
int scrub_ask(uint64_t token);

/* audit.c */
void *audit_main(void *unused);
bool audit_mend_due(void);          /* lock held */
void audit_mend_one(void);          /* by the cleaner; lock held, dropped for the disk */
/* audit_mend, likewise, mends a page if it is damaged, or has its home right until it can (AU3): 0,
 * also if it is not; else the fence. in_gate: the cleaner is there, to stay. */
int audit_mend(uint64_t id, uint64_t page, bool in_gate);
void audit_wake(void);              /* lock held: there are pages with codewords now */
bool audit_request(const struct kd_message *m); /* STORE_AUDIT. No lock */
void audit_hurry(void);             /* lock held: a round is made at once */
void audit_numbers(struct kd_message *reply);   /* lock held: rounds, pages, damaged, mended */
/* audit_ask: STORE_AUDIT: 0, the token is answered when a round that begins now has ended; or why
 * not. No lock. */
int audit_ask(uint64_t token);
int audit_page(uint64_t process, uint64_t address); /* of a page; 0: it is done. No lock */

/* backup.c */
/* backup_begin: STORE_BACKUP to a disk of so many bytes: 0, the token is answered when the copy is
 * done, and the handle is closed; or why not. No lock. */
int backup_begin(uint64_t token, int disk, uint64_t bytes, bool force);
void backup_stop(void); /* the store is about to be closed; lock held from now on */

/* pager.c, request.c: no lock */
void pager_init(void);                              /* before any thread */
/* pager_request, pager_advise deal with a PAGE, STORE_ADVISE, or leave it to a reading thread. */
void pager_request(const struct kd_message *m);
void pager_advise(const struct kd_message *m);
/* pager_bring, by a thread that reads, brings what is on disk and nobody brings yet. */
void pager_bring(const struct kd_message *m);
bool is_brought(uint64_t container, uint64_t page);   /* lock held: does somebody bring it? */
/* pager_settled, lock held, tells up to which version nothing older is on its way (SP4). */
uint64_t pager_settled(void);
/* pager_brings_open, lock held: pages that will have rights of their own are on their way. */
bool pager_brings_open(uint64_t id);
void *pager_main(void *unused);

/* device.c */
extern const struct disk_memory disk_memory;
extern const struct disk_clock disk_clock;
static inline uint64_t now_us(void) { return disk_clock.microseconds(NULL); }
uint64_t time_of_day(void);             /* nanoseconds since 1970, UTC */
extern _Thread_local uint64_t device_reads, device_writes, device_flushes; /* of this thread */
/* device_gentle: the calling thread's writes go in pieces, and let groups go first. */
void device_gentle(bool on);
/* disks_join makes server.disk of these. As span_open. */
int disks_join(const int handles[], const uint64_t bytes[], uint32_t count,
                struct span_report *report);
uint32_t device_count(void);
/* device_workers: false: a thread was not made, which only makes it slower. */
bool device_workers(void);
/* device_pages is KD_BLOCK_READ_PAGES or _WRITE_PAGES of at most CLEAN_BATCH pages. No lock. */
void device_pages(bool writes, struct kd_page_io *io, unsigned count);
/* memory_touch makes sure that so much of the group buffers is memory already, for the next group;
 * what 256 groups in a row have not needed is given back. -ENOMEM: all memory is copies, or other
 * programs'. No lock, outside the gate. */
int memory_touch(size_t bytes);

/* ---- mapped.c: the metadata in an object of the manager's own (store.metadata=mapped) ---- */
/* mapped_alloc: NULL: no memory. Zeros, but for a page that was freed. */
void *mapped_alloc(size_t bytes);
/* mapped_free: false: the memory is not of mapped_alloc. */
bool mapped_free(void *memory, size_t bytes);
bool mapped_has(const void *memory);
/* mapped_io is KD_BLOCK_READ or KD_BLOCK_WRITE, from or to such memory. */
long mapped_io(long number, int disk, uint64_t offset, void *buffer, size_t bytes);

#endif
