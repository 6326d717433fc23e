/*
 * object.h - memory objects: pages that a manager supplies (page.h).
 * Locks: object->lock guards attachments, and the tables of leaves, which are made on first touch
 * and forgotten when nothing of them is in use (leaf.c).
 */
#ifndef KERNEL_OBJECT_H
#define KERNEL_OBJECT_H

#include "store/group.h"
#include "store/page.h"

enum { SCORE_CLUSTERED = 8, SCORE_MAX = 15, SCORE_NEW = SCORE_CLUSTERED }; /* near_score */

/* container_lock.c */
enum { CONTAINER_BUSY = ~0u };
struct container_lock {
    uint32_t state; /* atomic: 0: nobody has or wants it; a view + 1: that one alone has it;
                     * CONTAINER_BUSY: a fault must look closer */
    int16_t exclusive, drainer; /* views or WRITER_NONE */
    struct vmask shared, drains; /* the drainer waits for these: they may still get pages */
    bool first_walk, again;
    struct list draining_link, queue; /* queue: views, by wait.lock_link */
};

struct object {
    uint32_t references;     /* atomic: handle, attachments, walks under way */
    uint32_t flags, encoder; /* KD_OBJECT_*; KD_ENCODER_*, read anew for each page */
    bool dead, swept;        /* its manager is gone or destroyed it: before, and behind the sweep */
    bool overlaps;           /* another one lies at some of its addresses, or did; its lock */
    struct process *owner;   /* it lives until the object is in no list (object_die) */
    struct port *port, *commit_port;
    uint64_t cookie, base, pages;
    int handle;              /* the manager's number for it, in messages */
    struct lock lock;        /* RANK_OBJECT */
    struct list attachments;
    struct object_link { struct list link; struct object *object; } at_port[2]; /* object.c */
    struct object_place { struct object *left, *right; vaddr_t reach; uint32_t weight; } place;
    struct container_lock container_lock;
    uint32_t escalate;       /* faults after which a transaction tries to lock it; 0: never */
    uint8_t near_score;      /* cluster.c: high: read faults lie near each other */
    uint8_t cluster_fixed;     /* pages that a read fault maps; 0: as touches suggest */
    uint32_t touches[TOUCH_KINDS]; /* read faults by kind, about: for people */
    uint64_t dirty;          /* atomic: pages that its manager is to clean */
    struct list places[PLACES]; /* clock.c, evict lock: its resident pages */
    uint64_t in_place[PLACES], resident;
    uint32_t left;           /* atomic: so many pages went, about */
    uint64_t share;          /* so many pages that are not proven may stay (EV10); 0: not known */
    bool stuck;              /* nothing could go where the hand looked last */
    struct patience { uint64_t looked_ns, progress_ns; } patience; /* ahead_run: of cleaning */
    uint64_t charged, most;  /* pages in memory and on their way; how many may be: EV7 */
    struct leaf ***tables;   /* [pages / 64 / 512] -> [512] -> leaf; object's lock (LF2) */
    uint64_t table_count, versions; /* versions: old ones of its pages; versions lock */
    uint64_t leaf_frames;    /* charged to its owner: leaves and their tables */
    struct { /* floor: the youngest sequence of a page that was forgotten with its leaf (LF1) */
        uint64_t floor, freed_count;
        struct freed freed[8]; /* LF3; its lock */
    };
    struct object_items items;
    struct recalled {        /* Views that use pages which are called back (recall.c). */
        struct vmask users, all; /* graph lock; with those of `below` */
        struct recalled *up, *below[2]; /* the tree of those that have users; a reference */
        struct item item;    /* RECALLED, to `port` */
    } recalled;
    char name[KD_NAME_MAX];
};

/* An attachment lets a process map the object; on its sorted array, and on the object's list. */
struct attachment {
    struct object *object;   /* one reference */
    struct process *process, *manager; /* who maps it; who has its port, a reference */
    uint32_t rights;
    uint64_t turn;           /* they stand in the object's list in this order */
    struct list object_link;
    struct item gone;        /* CLIENT_GONE; the attachment is freed when it was delivered */
};

/* objects_strip takes a view without entries out of the masks of objects that overlap (OV1). */
void objects_strip(struct view *v);
/* copy_alloc and copy_free: struct copy; no locks needed. */
must_check struct copy *copy_alloc(void);
void copy_free(struct copy *c);
/* object_at finds the object at an address of p; a reference, or NULL; *rights are the client's. */
struct object *object_at(struct process *p, vaddr_t at, uint32_t *rights);
/* object_leaf finds or makes a page's leaf; page < o->pages, as for the others. NULL: no memory, or
 * the limit. Not for sleeps (LF2). */
struct leaf *object_leaf(struct object *o, uint64_t page);
int leaf_refused(struct object *o); /* why there is none: -EOWNERDEAD; -ENOMEM, by a limit; 0 */
/* table_of finds the table of leaves that a page's is in, or NULL. */
static inline struct leaf **table_of(const struct object *o, uint64_t page)
{
    struct leaf ***tables = __atomic_load_n(&o->tables, __ATOMIC_ACQUIRE);
    if (unlikely(!tables)) /* swept */
        return NULL;
    return __atomic_load_n(&tables[page / LEAF_PAGES / LEAF_TABLE], __ATOMIC_ACQUIRE);
}
/* object_leaf_find is object_leaf for a leaf that exists. */
static inline struct leaf *object_leaf_find(const struct object *o, uint64_t page)
{
    struct leaf **table = table_of(o, page);
    return table ? __atomic_load_n(&table[page / LEAF_PAGES % LEAF_TABLE], __ATOMIC_ACQUIRE) : NULL;
}
struct leaf *leaf_lock_new(struct object *o, uint64_t page);
/* leaf_lock makes (waiting for memory) or finds a leaf, and locks it. NULL: none, or killed. */
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
/* attachments_end_left: a commit that p left behind is over; if p has ended, so do attachments. */
void attachments_end_left(struct process *p);
/* objects_end destroys the objects that ask, or commit, at a port, which is dead. */
void objects_end(struct port *p);
struct port *object_commit_port_of(struct port *p); /* of p's newest object: a reference, or NULL */
long object_policy(struct object *o, uint64_t policy, uint64_t value); /* KD_POLICY_*: 0, -EINVAL */
/* object_manager_of tells whether `client` has an object of `manager` attached. */
bool object_manager_of(struct process *manager, struct process *client);
/* leaf_fn does something for a portion of a leaf's pages [slot, end), which starts at `slot`.
 * Returns where that ended: the rest follows, after others had their turn. */
typedef unsigned leaf_fn(struct leaf *l, unsigned slot, unsigned end, void *arg);
void leaves_for(struct object *o, leaf_fn *fn, void *arg);

static inline void dirty_count(struct object *o, int n)
{
    count_add(dirty_pages, (uint64_t)(int64_t)n);
    __atomic_fetch_add(&o->dirty, (uint64_t)(int64_t)n, __ATOMIC_RELAXED);
    __atomic_fetch_add(&o->owner->dirty, (uint64_t)(int64_t)n, __ATOMIC_RELAXED);
}

#endif
