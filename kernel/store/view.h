/*
 * view.h - views: execution contexts that run one transaction at a time. Their page tables are the
 * lock table (right.h).
 *
 *          begin                commit (CM1)
 *   IDLE ---------> ACTIVE -------------------> COMMITTING
 *     ^               | abort (AB1..AB4)            | published (CM8) or refused (AB)
 *     +---------------+-----------------------------+
 *
 *   state       what holds
 *   FREE        no table; its slot may be taken
 *   IDLE        no copies, in no queue; its PTEs are cached rights, taken by others without asking
 *   ACTIVE      its owner thread runs a transaction; `doom` may be set by anybody
 *   COMMITTING  copies are read-only and complete; it cannot be doomed. Its owner sleeps, and has left its
 *               process if it was killed: then the handle is HANDLE_FORSAKEN
 *   PLAIN       maps objects that are not transactional for the threads of a process
 *
 * Locks: view->lock (inside a leaf's lock, one at a time) guards state, PTEs, copies, OWED; graph lock:
 * waits, doom. Everything else belongs to the owner thread.
 */
#ifndef KERNEL_VIEW_H
#define KERNEL_VIEW_H

#include "block/block.h"
#include "store/object.h"
#include "store/version.h"

enum view_state { VIEW_FREE, VIEW_IDLE, VIEW_ACTIVE, VIEW_COMMITTING, VIEW_PLAIN };
enum view_want { WANT_READ, WANT_WRITE, WANT_READ_FOR_WRITE };
enum { WANT_X_MAX = 16, OWED_MAX = 16, LOCKED_MAX = 32, ANSWER_NONE = -1, ANSWER_CLAIMED = -2,
       HANDLE_FORSAKEN = -1 };

struct view {
    uint16_t id;
    struct lock lock;               /* RANK_VIEW */
    struct vmask self;              /* its own bit */
    uint8_t state;
    bool snapshot_rights;           /* its PTEs are those of a snapshot: no rights */
    bool untouched;                 /* it waits for its first lock: no right was used in this transaction */
    bool owed, stale;               /* others wait for it; a shootdown may be due to it */
    int cpu;                        /* where its table was loaded last */
    paddr_t table;
    vaddr_t tables_from, tables_to; /* all its entries for the store lie between them; owner thread */
    uint64_t tables;                /* page tables that its process is charged for; view lock */
    struct list tables_cut;         /* tables of rights that went all at once, not freed yet; owner thread */
    struct list copies, spilled;    /* private copies: in memory, in the log */
    struct list told;               /* those in memory that its manager was told to spill, numbered */
    struct list *diff_next;         /* the first copy that the next KD_TXN_DIFF tells; view lock */
    unsigned copy_count, spilled_count;
    unsigned owed_count;            /* OWED_MAX + 1: too many, all rights go */
    vaddr_t owed_at[OWED_MAX];

    struct thread *owner;
    struct process *process;
    int handle;
    bool strict;                    /* its rights end with the transaction */
    uint32_t mode, weight, aborts, pages_max;
    uint64_t ticket, deadline_ns;
    vaddr_t entry, stack;           /* where an abort by the system goes on */
    uint64_t snapshot;              /* the last publication that it sees; ~0: whatever is published */
    uint64_t newest;                /* as a snapshot's, it maps no younger version but what it owes; owner thread */
    struct snapshot seen;           /* the same, while it is registered */
    unsigned want_x_count;          /* pages that a retry takes exclusively at first touch */
    vaddr_t want_x[WANT_X_MAX];
    struct port *enlisted;          /* the commit port of its writes; a reference. Cleared under
                                     * the view lock */
    uint64_t credits_hand;          /* taken and not used yet */
    struct frame *frame_hand;
    struct copy *copy_hand;
    struct page *hand_page;         /* frame_hand holds its contents if its leaf has changed so often */
    uint64_t hand_changes;
    uint64_t credits;               /* held by its copies */
    uint64_t copies_charged;        /* to its process: those, what is in hand, and what was logged since */

    struct leaf *queue_leaf;        /* the leaf whose lock guards the next four; owner thread */
    vaddr_t queue_at, lock_base;    /* the addresses of what it waits for, for KD_VIEW_LIST */
    struct page *queue_page;        /* the page in whose queue it stands, or NULL */
    struct list queue_link;         /* in the ring of those who wait for the page */
    bool upgrade;
    uint8_t want;
    struct list lock_link;          /* locks_lock; in the queue of ... */
    struct object *lock_at;         /* ... or NULL; set by the owner thread */
    struct object *locked[LOCKED_MAX]; /* containers that it has locked; references; owner thread */
    unsigned locked_count;
    vaddr_t locked_base;            /* of the first, for KD_VIEW_LIST */
    uint64_t faults, escalate_at;   /* of the transaction, at objects that are to be locked then */
    struct list credit_link;        /* port lock */
    bool credit_waiting;

    struct vmask waits, waited_by;  /* graph lock; waited_by: a hint, whom its end may wake */
    int doom;                       /* graph lock; 0 or the reason, an errno */
    bool deliver;                   /* a touch found the doom: abort before user mode goes on */

    /* What the owner thread's last fault looked up. */
    struct object *last_object;     /* a reference; good while attach_generation is the process's */
    uint32_t last_rights, attach_generation;
    pte_t *last_ptes;               /* 512 entries for 2 MiB from last_base; tables stay */
    vaddr_t last_base;
    struct leaf *last_leaf;         /* of last_object, or NULL; its pages begin at ... */
    vaddr_t last_leaf_base;
    pte_t *last_leaf_ptes;          /* ... and these are their 64 entries */
    vaddr_t touch_last, touch_next; /* the last page that a read fault gave it; right behind its cluster */
    uint8_t touch_run;              /* pages in that cluster, while touches are sequential */

    struct item commit_item, gone_item, conflict_item; /* the first: what it asks, whatever that is (claim.c) */
    struct port *gone_port, *conflict_port; /* where the last two were posted last; references */
    uint64_t commit_token, received_token; /* of commit_item, view lock; what its manager has received last */
    uint8_t asked;                  /* the kind of commit_item: what its manager works on; view lock */
    uint16_t told_count;            /* the number of the last copy in `told` */
    uint64_t diff_cursor;           /* of diff_next; 0: there is none */
    bool chained;                   /* its manager may hold pages of this transaction: it hears of its
                                     * abort */
    vaddr_t bring_at;               /* the page that UNSPILL is about */
    struct frame *batch;            /* data_in */
    uint64_t batch_bytes;
    int answer;                     /* atomic: ANSWER_NONE, ANSWER_CLAIMED, 0, or a refusal's errno */
    csn_t commit_csn;
    uint64_t logged, logged_spilled;
    vaddr_t ask_at;                 /* with KD_OBJECT_ASK: what its manager agreed to last, or 0; owner thread */
    int ask_access;
};

extern struct view views[KD_VIEW_MAX];
/* The views of a mask, each locked while it is looked at; the loop must go to its end. */
#define views_each_locked(v, m) for (struct view *v = view_lock_next(NULL, (m)); v; v = view_lock_next(v, (m)))
struct view *view_lock_next(struct view *v, const struct vmask *m);

void view_init(void);
uint64_t view_copy_count(void);                 /* private copies of all views, about */
int view_close(void *view, int handle);         /* for handles (handle_kinds) */
struct view *view_plain(struct process *p);     /* made on first use; NULL: none left */
void view_destroy(struct view *v);              /* of one that is idle; by its owner thread */
/* Does a view commit to `to` (NULL: anywhere) whose thread has left p, not waiting for the outcome? */
bool view_forsaken(const struct process *p, const struct port *to);
void view_abort(struct view *v, int reason);    /* AB1..AB4, by the owner thread */
long view_end(struct view *v);                  /* CM8 */
/* For processes (process_seam): a thread ends, and its transaction; a process, and its views. */
void view_thread_gone(struct thread *t);
void view_process_gone(struct process *p);
/* For threads (thread_seam). */
void view_return_to_user(struct trap_frame *f);
void view_batch_drop(struct view *v);
void view_end_unwritten(struct view *v);      /* the commit of a transaction that wrote nothing */
/* The entry for `at`, with its tables made; NULL: no memory, or the process's limit. View locked. */
pte_t *view_pte_make(struct view *v, vaddr_t at);
void view_tables_gone(struct view *v, uint64_t n); /* so many of its page tables are free, or will be; view locked */
void view_forget_object(struct view *v);        /* what it looked up last */
uint64_t view_tickets(void);                    /* a transaction that begins later has this one or a greater */

#endif
