/* view.h - views: execution contexts that run one transaction at a time (views.md). Locks:
 * view->lock (inside a leaf's lock, one at a time) guards state, PTEs, copies, owed; graph lock:
 * wait.holders, doom. Everything else belongs to the owner thread. */
#ifndef KERNEL_VIEW_H
#define KERNEL_VIEW_H

#include "store/group.h"
#include "store/object.h"
#include "store/recall.h"
#include "store/version.h"

enum view_state { VIEW_FREE, VIEW_IDLE, VIEW_ACTIVE, VIEW_COMMITTING, VIEW_PLAIN };
enum view_want { WANT_READ, WANT_WRITE, WANT_READ_FOR_WRITE };
enum { WANT_X_MAX = 16, OWED_MAX = 16, LOCKED_MAX = 32, ANSWER_NONE = -1, ANSWER_CLAIMED = -2,
       HANDLE_FORSAKEN = -1 };
struct view {
    uint16_t id;
    struct lock lock;                   /* RANK_VIEW */
    struct vmask self;                  /* its own bit */
    uint8_t state;
    bool snapshot_rights;               /* its PTEs are those of a snapshot: no rights */
    bool stale, aliases;  /* a shootdown may be due to it; it may have entries of windows */
    int cpu;                            /* where its table was loaded last */
    paddr_t table;
    struct view_tables {  /* Page tables for the store, which its process is charged for. */
        vaddr_t from, to;  /* all its entries for the store lie between them; owner thread */
        uint64_t charged;               /* how many; view lock */
        struct list cut;  /* tables of rights that went all at once, not freed yet; owner thread */
    } tables;
    struct view_copies {                /* Private copies: in memory, in the log. */
        struct list resident, spilled;
        struct list *diff_next;  /* the first copy that the next KD_TXN_DIFF tells; view lock */
        uint64_t diff_cursor;           /* of diff_next; 0: there is none */
        unsigned count, spilled_count;  /* `count` have a credit each (SP1) */
        uint64_t told;  /* so many of the first in `resident` were told with KD_DIFF_SPILL */
    } copies;
    struct view_items items;
    struct view_owed {  /* Rights that others wait for: they go when the transaction ends. */
        bool recalled;                  /* a manager calls some of them back */
        bool detached;                  /* of an object that its process lost meanwhile (OV1) */
        unsigned count;                 /* OWED_MAX + 1: too many, all rights go */
        vaddr_t at[OWED_MAX];
    } owed;
    struct thread *owner;
    struct process *process;
    int handle;
    int doom;                           /* graph lock; 0 or the reason, an errno */
    bool deliver;                       /* a touch found the doom: abort before user mode goes on */
    struct view_txn {  /* The transaction: how it began, and what its retries are to do. */
        bool strict, meant;  /* its rights end with it; it may store to pages with a guard */
        bool untouched, now; /* it waits for its first lock: no right was used; KD_HINT_NOW */
        bool bare;                      /* it began without rights, behind a worker (holder.c) */
        int16_t heir;                   /* the holder that it works for, or WRITER_NONE */
        uint32_t mode, weight, aborts, pages_max;
        uint64_t ticket, heir_ticket, deadline_ns;
        vaddr_t entry, stack;           /* where an abort by the system goes on */
        unsigned want_x_count;          /* pages that a retry takes exclusively at first touch */
        vaddr_t want_x[WANT_X_MAX];
        struct port *enlisted;  /* the commit port of its last write; a reference. View lock */
    } txn;
    struct view_snapshot {              /* The snapshot that the transaction reads. */
        uint64_t at;  /* the last publication that it sees; ~0: whatever is published */
        uint64_t newest;  /* it maps no younger version but what it owes; owner thread */
        struct snapshot seen;           /* the same, while it is registered */
    } snapshot;
    struct view_reserve {               /* The reserve of the next copy: taken and not used yet. */
        uint64_t credits, changes;
        struct frame *frame;
        struct copy *copy;
        struct page *page; /* whose bytes the frame has, if its leaf changed `changes` times */
    } reserve;
    struct view_credits {               /* Credits for copies, and the queue for them. */
        uint64_t charged;  /* to its process: copies', its reserve, and what was logged since */
        struct list link;               /* port lock */
        bool waiting;
    } credits;
    struct view_wait {  /* Waits for a page or a container, and the edges of the graph of waits. */
        struct leaf *leaf;  /* the leaf whose lock guards the page's queue; owner thread */
        vaddr_t at, lock_base;          /* the addresses of what it waits for, for KD_VIEW_LIST */
        struct page *page;              /* the page in whose queue it stands, or NULL */
        struct list link;               /* in the ring of the views that wait for it */
        bool upgrade, is_told, drains;  /* is_told: told may have some; drains: a container */
        uint8_t want, kind;             /* kind: enum wait_kind, of the holders */
        struct list lock_link;          /* locks_lock; in the queue of ... */
        struct object *object;          /* ... or NULL; set by the owner thread */
        struct vmask holders, told, waiters; /* graph lock; by managers; a hint for its end */
    } wait;
    struct view_locks {                 /* Containers that it has locked; owner thread. */
        struct object *held[LOCKED_MAX]; /* references */
        unsigned count;
        vaddr_t base;                   /* of the first, for KD_VIEW_LIST */
        uint64_t faults, escalate_at;  /* the transaction's; when objects are to be locked */
    } locks;
    struct view_last {                  /* Results of the owner thread's last lookup, at a fault. */
        struct object *object;          /* a reference; good while `generation` is the process's */
        uint32_t rights, generation;    /* rights: KD_RIGHT_*, RIGHTS_GUARDED */
        pte_t *ptes;                    /* 512 entries for 2 MiB from `base`; tables stay */
        vaddr_t base;
        struct leaf *leaf;              /* of the object, or NULL; its pages begin at ... */
        vaddr_t leaf_base;
        pte_t *leaf_ptes;               /* ... and these are their 64 entries */
    } last;
    struct page_wait supply;            /* its fault waits for a page, or was given a right */
    struct view_touch {                 /* Touches in sequence, for clusters. */
        vaddr_t last, next;  /* the last page that a read fault gave it; right behind its cluster */
        uint8_t run;                    /* pages in that cluster, while touches are sequential */
    } touch;
    struct view_question {              /* The question to its manager (claim.c). */
        struct item item;
        uint64_t token, received;  /* of the item, view lock; what its manager has received last */
        vaddr_t at;                     /* the page that UNSPILL is about */
        int answer;  /* atomic: ANSWER_NONE, ANSWER_CLAIMED, 0, or a refusal's errno */
        uint64_t turn_end_ns;           /* atomic: until then no call claims it; or 0 */
    } question;
    struct view_group group;
    struct view_notices {  /* A notice to a manager, or to a holder's port; a reference. */
        struct item conflict;
        struct port *conflict_port;
        struct badge *stays_by;         /* a holder's rights outlive its thread until that ends */
        uint64_t stays_ns;              /* ... at most for so long */
    } notices;
    struct view_commit {                /* The commit: its data, and what is in the log. */
        struct data batch;
        uint64_t logged, logged_spilled;
        csn_t csn;
        bool chained;  /* its manager may hold pages of the transaction: it hears of its abort */
    } commit;
};
extern struct view views[KD_VIEW_MAX];
extern const struct vmask views_all;
/* views_each_locked goes through the views of a mask; each is locked in its turn of the loop. */
#define views_each_locked(v, m) \
    for (struct view *v = view_lock_next(NULL, (m)); v; v = view_lock_next(v, (m)))
struct view *view_lock_next(struct view *v, const struct vmask *m);

struct view *view_plain(struct process *p);     /* made on first use; NULL: none left */
void view_destroy(struct view *v);              /* of one that is idle; by its owner thread */
void view_abort(struct view *v, int reason);    /* AB1..AB4, by the owner thread */
void view_forget_object(struct view *v);        /* what it looked up last */
uint64_t view_tickets(void);  /* a transaction that begins later has this one or a greater */

#endif
