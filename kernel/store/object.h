/*
 * object.h - memory objects: pages that a manager supplies, with versions, rights and waiters.
 *
 * PG1  At most one frame holds the current version of a page; page->frame is it, unless FILLING.
 * PG2  While a view has a COPY of a page, `writer` is that view and no other view has a right to it.
 * PG3  Every view with a PTE for the page that is not EMPTY has its bit in `mask` (a hint: the bit
 *     may stand without a PTE).
 * PG4  A page with a pin, DIRTY, or a writer whose copy is in memory is not evicted.
 *
 * Locks: leaf->lock guards all of its 64 pages and is the page lock of the design. object->lock
 * guards attachments, and the tables of leaves, which are made on first touch and forgotten when nothing of
 * them is in use (leaf.c).
 */
#ifndef KERNEL_OBJECT_H
#define KERNEL_OBJECT_H

#include "memory/frame.h"
#include "message/port.h"
#include "store/counter.h"
#include "store/vmask.h"

enum { LEAF_PAGES = 64, LEAF_TABLE = 512, WRITER_NONE = -1, UNIT_BYTES = 16 };
enum { SCORE_CLUSTERED = 8, SCORE_MAX = 15, SCORE_NEW = SCORE_CLUSTERED }; /* near_score */
enum touch { TOUCH_SEQUENTIAL, TOUCH_CLUSTERED, TOUCH_RANDOM, TOUCH_KINDS };
enum page_flag {
    PAGE_DIRTY = 1,      /* the current version is not home yet */
    PAGE_ASKED = 2,      /* its manager was asked and has not answered */
    PAGE_FILLING = 4,    /* page->frame is being read; not resident */
    PAGE_CLEANING = 8,   /* its current version is being written home */
    PAGE_PINNED = 16,    /* by the manager: not evicted */
    PAGE_NO_WRITE = 32,  /* supplied without KD_WRITE: a write asks the manager again */
    PAGE_MAPPED_WRITE = 64, /* not transactional, mapped writable somewhere: may be dirty */
    PAGE_AWAY = 128,     /* not resident; its version `csn` was published from a spilled copy, so nothing
                          * older may be supplied */
};

/* struct copy: a private copy made at a write fault; publish makes it the struct of the old version. */
struct copy {
    struct list link;        /* view->copies.resident or .spilled (view lock), later keeper->versions (versions lock) */
    struct leaf *leaf;
    uint16_t slot, view;
    bool changed;            /* txn_diff saw a difference: it was logged */
    bool ranges;             /* `declared` says something: which units of UNIT_BYTES (encode.c) */
    uint16_t told;           /* its number in view->copies.told; of no meaning elsewhere */
    struct frame *frame;     /* the copy (NULL: spilled); after publish: the old version */
    uint64_t sequence, superseded; /* old version: seen by snapshots s, sequence <= s < superseded */
    struct copy *next, *previous; /* page->versions */
    struct snapshot *keeper; /* old version: for whom it is kept; NULL: it is none any more. Versions lock */
    struct copy *chain;      /* while it is being published */
    vaddr_t at;
    uint64_t declared[PAGE_BYTES / UNIT_BYTES / 64];
};

struct page {
    struct frame *frame;
    csn_t csn;               /* the manager's number of the current version */
    uint64_t sequence;       /* the kernel's number of its publication; 0: before any snapshot */
    struct vmask mask;
    struct copy *versions;   /* newest first */
    int16_t writer;          /* view or WRITER_NONE */
    uint8_t queue;           /* the first view that waits for it, + 1, or 0; the others follow in a ring */
    uint8_t flags;
    uint8_t rmw;             /* so many first reads still take the page exclusively */
    uint8_t stale;           /* so many supplies on end were older than `csn` */
    uint8_t whole;           /* so many commits still tell it whole (KD_ENCODER_ADAPTIVE) */
};

struct leaf {
    struct lock lock;        /* RANK_LEAF */
    struct list link;        /* in the list of bare leaves while `resident` is 0 (evict lock), or of gone ones */
    uint32_t resident;       /* pages in the lists of the evictor */
    bool gone;               /* taken out of its table: nothing of it is used, and the last look ends soon (LF2) */
    uint64_t held;           /* rights are HELD for transactions with a smaller ticket only */
    struct object *object;
    uint64_t first;          /* page index of pages[0] */
    struct list waits;       /* struct page_wait: for pages that are not resident */
    uint64_t touched;        /* pages that ever had a frame: all others are as they were made, or asked for */
    struct vmask kept;       /* views that may know it as last.leaf */
    struct vmask users;      /* all masks of the pages, or more */
    uint64_t changes;        /* so often a page got another frame; counted behind that (fault.c: hand_copy) */
    struct page pages[LEAF_PAGES];
};
_Static_assert(sizeof(struct page) == 56 && sizeof(struct leaf) <= PAGE_BYTES, "a leaf is a frame");

/* container_lock.c */
enum { CONTAINER_BUSY = ~0u };
struct container_lock {
    uint32_t state;          /* atomic: 0: nobody has or wants it; a view + 1: that one alone has it;
                              * CONTAINER_BUSY: a fault must look closer */
    int16_t exclusive, drainer; /* views or WRITER_NONE */
    struct vmask shared;
    struct vmask drains;     /* the drainer waits for these: they may still get pages */
    bool first_walk, again;
    struct list queue;       /* views, by wait.lock_link */
    struct list draining_link;
};

struct object {
    uint32_t references;     /* atomic: handle, attachments, walks under way */
    uint32_t flags;          /* KD_OBJECT_* */
    uint32_t encoder;        /* KD_ENCODER_*; read anew for each page */
    bool dead;               /* its manager is gone or destroyed it; set before the sweep */
    struct process *owner;   /* compared only */
    struct port *port, *commit_port;
    uint64_t cookie, base, pages;
    int handle;              /* the manager's number for it, in messages */
    struct lock lock;        /* RANK_OBJECT */
    struct list attachments;
    struct list all;
    struct container_lock container_lock;
    uint32_t escalate;       /* faults after which a transaction tries to lock it; 0: never */
    uint8_t near_score;      /* cluster.c: high: read faults lie near each other */
    uint8_t cluster_fixed;     /* pages that a read fault maps; 0: as touches suggest */
    uint32_t touches[TOUCH_KINDS]; /* read faults by kind, about: for people */
    uint64_t dirty;          /* atomic: pages that its manager is to clean */
    struct leaf ***tables;   /* [pages / 64 / 512] -> [512] -> leaf; changed with the object locked (LF2) */
    uint64_t table_count;
    uint64_t leaf_frames;    /* charged to its owner: leaves and their tables */
    uint64_t floor;          /* the youngest sequence of a page that was forgotten with its leaf (LF1) */
    char name[KD_NAME_MAX];
};

/* An attachment lets a process map the object. On the process's sorted array and on the object's list. */
struct attachment {
    struct object *object;   /* one reference */
    struct process *process;
    int pid;
    uint32_t rights;
    struct list object_link;
    struct item gone;        /* CLIENT_GONE; the attachment is freed when it was delivered */
};

void object_init(void);
/* copy_alloc and copy_free: struct copy; no locks needed. */
must_check struct copy *copy_alloc(void);
void copy_free(struct copy *c);
void object_get(void *object);
void object_put(void *object);
void object_revoke(struct object *o);
/* object_wait_for_sweeps returns when no sweep of a dead manager's objects is under way (begin, BG3). */
void object_wait_for_sweeps(void);
extern uint32_t object_sweeps;               /* of dead objects, under way; atomic */
/* object_at finds the object at an address of a process; a reference, or NULL; *rights are the client's. */
struct object *object_at(struct process *p, vaddr_t at, uint32_t *rights);
/* object_leaf finds a page's leaf; NULL: none (and !create), no memory, or the owner is at its
 * limit. Not for sleeps (LF2). */
struct leaf *object_leaf(struct object *o, uint64_t page, bool create);
bool leaf_over(struct object *o); /* the owner's limit is reached */
/* leaf_forget: if nothing of the leaf is in use, its frames go to the list, to be freed by LF2.
 * False: it is in use. */
struct forgotten { struct list leaves, tables; uint64_t cpus; }; /* frames, by link; those to shoot at before */
bool leaf_forget(struct leaf *l, struct forgotten *gone);
/* object_leaf_find is object_leaf for a leaf that exists; page < o->pages. */
static inline struct leaf *object_leaf_find(struct object *o, uint64_t page)
{
    struct leaf **table = __atomic_load_n(&o->tables[page / LEAF_PAGES / LEAF_TABLE],
                                          __ATOMIC_ACQUIRE);
    return table ? __atomic_load_n(&table[page / LEAF_PAGES % LEAF_TABLE], __ATOMIC_ACQUIRE) : NULL;
}
struct leaf *leaf_lock_new(struct object *o, uint64_t page);
/* leaf_lock makes (waiting for memory) or finds a leaf and locks it, not gone. NULL: none, or
 * killed. No locks held. */
static inline struct leaf *leaf_lock(struct object *o, uint64_t page)
{
    struct leaf *l = object_leaf_find(o, page);
    if (!l)
        return leaf_lock_new(o, page);
    lock_acquire(&l->lock);
    if (!l->gone)
        return l;
    lock_release(&l->lock);
    return leaf_lock_new(o, page);
}
static inline vaddr_t page_address(const struct leaf *l, unsigned slot)
{
    return l->object->base + ((l->first + slot) << PAGE_SHIFT);
}
static inline void page_changed(struct leaf *l) /* leaf locked */
{
    __atomic_store_n(&l->changes, l->changes + 1, __ATOMIC_RELEASE);
}
static inline bool page_resident(const struct page *p)
{
    return p->frame && !(p->flags & PAGE_FILLING);
}

/* page_request asks the manager for a page, or more behind it, and waits. Leaf locked on entry, not
 * on return. 0: look again; -errno of the manager; -EINTR: killed, doomed; -ETIMEDOUT. */
must_check int page_request(struct leaf *l, unsigned slot, unsigned access, uint64_t pages,
                            struct view *v, uint64_t deadline_ns);
/* attachments_end_left: a commit that p left behind is over; if p has ended, its attachments end, too. */
void attachments_end_left(struct process *p);
/* objects_end destroys the objects of a process; p not NULL: those that ask, or commit, there. A
 * killed thread leaves the rest to its process's end. */
void objects_end(const struct process *owner, const struct port *p);
/* object_commit_port_of: the commit port of objects that are served at `p`; a reference, or NULL. */
struct port *object_commit_port_of(struct port *p);
/* object_manager_of tells whether `client` has an object of `manager` attached. */
bool object_manager_of(struct process *manager, struct process *client);
/* object_process_gone ends a process's objects and attachments; objects_sum_dirty sets managers'
 * process->dirty. */
void object_process_gone(struct process *p);
void objects_sum_dirty(void);
/* object_plain_fault serves a fault on an object that is not transactional. */
must_check int object_plain_fault(struct object *o, struct view *v, vaddr_t at, bool write);

/* object_for_each_leaf calls fn for each leaf of each object (check.c). */
void object_for_each_leaf(void (*fn)(struct leaf *l, void *arg), void *arg);
/* kcheck (check.c) looks for broken invariants. 0; -EIO: the log says which. */
int kcheck(void);

/* Functions for block_call.c: page I/O to and from object frames. */
must_check int object_io_begin_read(struct object *o, uint64_t page, struct frame **frame);
void object_io_end_read(struct object *o, uint64_t page, struct frame *frame, int status);
must_check int object_io_begin_write(struct object *o, uint64_t page, struct frame **frame,
                                     csn_t *csn);
void object_io_end_write(struct object *o, uint64_t page, struct frame *frame);

void attachment_gone_told(struct item *i); /* for ports (item_uses): its CLIENT_GONE item; frees it */

static inline void dirty_count(struct object *o, int n)
{
    count_add(dirty_pages, (uint64_t)(int64_t)n);
    __atomic_fetch_add(&o->dirty, (uint64_t)(int64_t)n, __ATOMIC_RELAXED);
}

#endif
