/*
 * view.h - views: execution contexts that run one transaction at a time. Their page tables are the
 * lock table (K1: a right is a PTE).
 *
 *          begin                commit (C1)
 *   IDLE ---------> ACTIVE -------------------> COMMITTING
 *     ^               | abort (A1..A4)              | published (C8) or refused (A)
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
 * PTEs of a view (below KD_STORE_END):
 *   EMPTY   0
 *   SHARED  present, read-only: the current version, or for a snapshot the one it sees
 *   COPY    present, PTE_COPY; writable until C1 freezes it
 *   HELD    not present, PTE_HELD: the page was evicted, the right is kept
 *   SPILLED not present, PTE_COPY, and where its record is: the copy lies in the log (spill.c)
 * PTE_ACCESSED is set by the walker; the kernel moves it to PTE_USED. Neither set: never used.
 *
 * Locks: view->lock (inside a leaf's lock, one view at a time) guards state, PTEs, copies, OWED;
 * graph lock: waits, doom. Everything else belongs to the owner thread.
 */
#ifndef KERNEL_VIEW_H
#define KERNEL_VIEW_H

#include "block/block.h"
#include "base/bug.h"
#include "store/object.h"

#define PTE_USED PTE_SOFT0
#define PTE_COPY PTE_SOFT1
#define PTE_HELD PTE_SOFT2
#define PTE_SHARED (PTE_PRESENT | PTE_USER | PTE_NX)
#define PTE_PRIVATE (PTE_SHARED | PTE_WRITE | PTE_ACCESSED | PTE_DIRTY | PTE_COPY)

enum view_state { VIEW_FREE, VIEW_IDLE, VIEW_ACTIVE, VIEW_COMMITTING, VIEW_PLAIN };
enum view_want { WANT_READ, WANT_WRITE, WANT_READ_FOR_WRITE };
/* PTEs of private copies: a frame's owner is its record; a spilled one's is in the PTE. */
static inline bool pte_is_spilled(pte_t e) { return !pte_present(e) && e & PTE_COPY; }
static inline pte_t pte_spilled(const struct copy *c)
{
    uint64_t at = (uint64_t)((const char *)c - (const char *)arch_phys(0));
    return (at >> 4) << PAGE_SHIFT | PTE_COPY; /* records begin at multiples of 16 */
}
static inline struct copy *pte_copy(pte_t e) /* e has PTE_COPY */
{
    return pte_present(e) ? frame_of(pte_frame_paddr(e))->owner
                          : (struct copy *)((char *)arch_phys(0) + (pte_frame_paddr(e) >> PAGE_SHIFT << 4));
}

enum { WANT_X_MAX = 16, OWED_MAX = 16, LOCKED_MAX = 32, ANSWER_NONE = -1, ANSWER_CLAIMED = -2,
       HANDLE_FORSAKEN = -1 };

/* A commit point whose versions are kept: of a view's transaction, or behind a handle. Versions lock. */
struct snapshot {
    struct list link;               /* registered if it is in the list */
    struct list expired_link;
    struct list versions;           /* that it is keeper of */
    uint64_t sequence;              /* the last publication that it sees */
    bool over;                      /* it ends, or needed too many old versions */
    uint64_t kept, kept_most;       /* of how many it is keeper, and may be */
    uint32_t references;            /* atomic; of one behind a handle */
};

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
    struct list queue_link;
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
    vaddr_t touch_last, touch_next; /* the last page that a read fault gave it; right behind its group */
    uint8_t touch_run;              /* pages in that group, while touches are sequential */

    struct item commit_item, lock_item, gone_item, conflict_item;
    struct port *gone_port, *conflict_port; /* where the last two were posted last; references */
    uint64_t commit_token, received_token; /* of commit_item; what its manager has received last */
    uint8_t asked;                  /* the kind of commit_item: what its manager works on */
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
    vaddr_t ask_at;                 /* with KD_OBJECT_ASK: what was asked last, ... */
    uint64_t ask_token;             /* ... the question's number; view lock, as the next two */
    int ask_access, ask_answer;     /* ... and the manager's word; atomic */
};

extern struct view views[KD_VIEW_MAX];
extern struct lock graph_lock;

/* Somebody waits for the page: the first one looks again. Leaf locked. */
static inline void waiters_wake(const struct page *p)
{
    if (!list_empty(&p->waiters))
        thread_wake(list_first(&p->waiters, struct view, queue_link)->owner);
}

/* view.c */
void view_init(void);
uint64_t view_copy_count(void);                 /* private copies of all views, about */
int view_close(void *view, int handle);         /* for handles (handle_kinds) */
struct view *view_plain(struct process *p);     /* made on first use; NULL: none left */
void view_forsaken_end(struct view *v);         /* of one that is idle now */
/* Does a view commit to `to` (NULL: anywhere) whose thread has left p, not waiting for the outcome? */
bool view_forsaken(const struct process *p, const struct port *to);
void view_abort(struct view *v, int reason);    /* A1..A4, by the owner thread */
long view_end(struct view *v);                  /* C8 */
/* For processes (process_seam): a thread ends, and its transaction; a process, and its views. */
void view_thread_gone(struct thread *t);
void view_process_gone(struct process *p);
/* For threads (thread_seam). */
paddr_t view_table(struct thread *t, bool *stale);
void view_return_to_user(struct trap_frame *f);
uint64_t view_cpu_bit(const struct view *v);    /* for arch_shootdown; after its PTE was changed */
void view_return_hands(struct view *v);
void view_batch_drop(struct view *v);
void view_end_unwritten(struct view *v);      /* the commit of a transaction that wrote nothing */
trap_call txn_begin, txn_commit;              /* begin.c, commit.c: system calls of their own */
pte_t *view_pte(struct view *v, vaddr_t at);    /* NULL: EMPTY */
/* The private copy of a page that is in memory; NULL: none. View locked. */
struct copy *view_copy_at(struct view *v, vaddr_t page);
void view_forget_object(struct view *v);        /* what it looked up last */

void view_owe(struct view *v, vaddr_t at);      /* a right that goes at its end; view locked */
void view_drop_owed(struct view *v, bool all);  /* those, or all; view locked, the caller flushes */

/* begin.c */
long begin_call(unsigned number, const uint64_t a[6]);

/* fault.c */
/* Makes `at` accessible to the view's transaction. 0; -ECANCELED: doomed; -EFAULT: nothing lies there;
 * -EACCES: it is open read-only; -EINVAL: it is not transactional. */
must_check int view_touch(struct view *v, vaddr_t at, bool write);

/* fault_other.c: both -errno, after the program was ended or told, or 0: served. */
int fault_outside(vaddr_t at, unsigned flags); /* in the store region, but by no transaction */
int fault_memory(struct trap_frame *f, vaddr_t at, unsigned flags);

/* group.c */
/* The page at `slot` was granted for reading: its neighbours too, as far as they are free and likely
 * to be read. Leaf locked; at: its address; ptes: the view's entries of the leaf. Never waits. */
void group_grant(struct view *v, struct leaf *l, unsigned slot, vaddr_t at, pte_t *ptes);
/* A page that is not resident: how many to ask for from it on; 0: this one, and no neighbours. */
unsigned group_request(struct view *v, struct leaf *l, unsigned slot, bool write);
long container_policy(vaddr_t at, unsigned policy, uint64_t value);

/* container_lock.c */
enum lock_mode { LOCK_PAGE_READ, LOCK_PAGE_WRITE, LOCK_SHARED, LOCK_EXCLUSIVE };
/* May others have it locked? Then container_admits() decides. Leaf locked. */
static inline bool container_shut(const struct view *v, const struct object *o)
{
    uint32_t state = __atomic_load_n(&o->container_lock.state, __ATOMIC_SEQ_CST);
    return state && state != v->id + 1u;
}
/* May v get a page? If not it is in the container's queue, with edges, and is to sleep. Leaf locked. */
bool container_admits(struct view *v, struct object *o, bool write);
bool container_locked_by(const struct view *v, const struct object *o);
int container_owner(struct object *o);          /* who has it for itself, drained; or WRITER_NONE */
void container_lock_leave(struct view *v);      /* the queue, if it stands in one */
/* Its transaction is over. Locks go before the edges of those that wait for it (they may add one until
 * then), and the edges before nobody drains for it any more (walk_end trusts them). */
void container_locks_end(struct view *v);
bool container_locks_wanted(const struct view *v); /* somebody waits for one of them */
void container_drains_leave(struct view *v);
extern uint32_t container_draining_count;     /* atomic, so that an end need not look */
/* 0; -EBUSY: not without waiting, and !wait; -ECANCELED: doomed or killed; -ETIMEDOUT, -ENOLCK,
 * -EOWNERDEAD. */
must_check int container_lock_take(struct view *v, struct object *o, enum lock_mode mode, bool wait);
must_check int container_lock_at(struct view *v, vaddr_t at, unsigned how); /* KD_TXN_LOCK */
/* A fault at o; when there have been enough of them, it locks o if that is free. */
void container_escalate(struct view *v, struct object *o, bool write);
void container_lock_init(struct container_lock *c);
void container_lock_dead(struct object *o);     /* who waits looks again */

/* conflict.c: queues, callbacks, the waits-for graph */
void queue_leave(struct view *v);               /* leaf locked; wakes the new head (G3) */
enum conflict_result { CONFLICT_GRANT, CONFLICT_BLOCKED, CONFLICT_DOOMED };
enum conflict_result conflict_test(struct view *v, struct leaf *l, unsigned slot, pte_t mine);
/* Takes what v->want conflicts with and may be taken; *shoot: CPUs to shoot down before the leaf is
 * unlocked. True: transactions are left, and v has edges to them. Leaf locked. */
bool conflict_take(struct view *v, struct leaf *l, unsigned slot, uint64_t *shoot);
void view_doom(struct view *v, int reason);     /* if it is active; wakes or kicks its owner */
void view_doom_locked(struct view *v, int reason); /* the same; it is, and is locked */
void view_wake_waiters(struct view *v);         /* all that wait for v; after it became idle */
void waits_clear(struct view *v);
void waits_add(struct view *v, const struct vmask *on); /* and searches for a cycle */
void want_x_add(struct view *v, vaddr_t at);
bool want_x_has(const struct view *v, vaddr_t at);

/* credit.c */
must_check int credit_take(struct view *v, struct port *p);
void credit_leave(struct view *v);
void credit_return(struct port *p, uint64_t n);
void credit_consume(struct port *p, uint64_t n);
long credit_grant(struct port *p, uint64_t n);

/* spill.c: the copies that were told with KD_DIFF_SPILL and are not in the log count as not told. For the
 * owner thread, or a manager that has claimed the view. */
void spill_forget_told(struct view *v);

/* copies of records; no locks needed (object.c) */
must_check struct copy *copy_alloc(void);
void copy_free(struct copy *c);

/* encode.c: what the view's copies changed, by their objects' encoders. */
/* Fills the buffer from d->cursor on. The view is claimed. 0, -EINVAL, -EFAULT, -ERANGE. */
must_check int encode_copies(struct view *v, struct kd_diff *d);
/* With KD_DIFF_SPILL. */
must_check int encode_spill(struct view *v, struct kd_diff *d);
/* The transaction is about to store to these bytes; copies of their pages were just made. */
void encode_declare(struct view *v, vaddr_t at, uint64_t bytes);
/* Its first copy from an address on, and what it changed; false: there is none. By the owner thread. */
bool encode_changes(struct view *v, vaddr_t from, struct kd_changes *out);

/* notice.c, for ports (item_uses): commit_item is delivered (port lock), or cannot be; lock_item is (port lock). */
void view_item_taken(struct item *i, struct notice *n);
void view_item_lost(struct notice *n, int error);
void view_lock_taken(struct item *i, struct notice *n);
void store_port_dead(struct port *p); /* for ports (port_seam): views and objects learn it. No locks */

/* commit.c */
/* The view, claimed, if it was delivered to the calling process with this token, asks for one of these
 * (a mask), and is not answered: until view_claim_end() or view_answer() only the caller works on its
 * copies, and its owner sleeps. NULL otherwise. */
enum { ASKED_COMMIT = 1 << ITEM_COMMIT, ASKED_SPILL = 1 << ITEM_SPILL, ASKED_UNSPILL = 1 << ITEM_UNSPILL };
struct view *view_claim(uint64_t id, uint64_t token, unsigned asked);
void view_claim_end(struct view *v);
void view_answer(struct view *v, int answer);
/* No call of the manager's works on copies whose commits go to p until commits_go_on(). -EINTR:
 * killed, and they go on already. */
must_check int commits_hold(struct port *p);
void commits_go_on(struct port *p);
long commit_call(unsigned number, const uint64_t a[6]);

/* spill.c: copies that go to the log and come back. By the owner thread, in a fault. */
bool spill_possible(const struct view *v, const struct port *p);
bool spill_due(const struct view *v, const struct port *p); /* rather than evict pages of others */
/* Both wait for the manager. -EAGAIN: done, or doomed: look again; else an errno. */
must_check int spill_some(struct view *v);
must_check int spill_bring(struct view *v, struct object *o, vaddr_t page); /* hands are full */
long spill_call(unsigned number, const uint64_t a[6]);

/* version.c: publications, snapshots, old versions */
uint64_t version_publish_begin(void);           /* the next number; one publication at a time */
void version_publish(uint64_t sequence);        /* from here on snapshots see it */
void version_publish_end(void);
uint64_t version_newest(void);                  /* the last publication */
/* The record becomes one of an old version, which the publication keeps. Leaf locked. */
void version_add(struct page *p, struct copy *c);
/* `published` has moved: a snapshot keeps it, or it is freed. Leaf locked. */
void version_release(struct copy *c);
void version_free(struct page *p, struct copy *c); /* whoever needs it; leaf locked */
struct copy *version_find(const struct page *p, uint64_t snapshot);
/* Reads published, or takes the shared commit point, and registers in one step. 0; -ESTALE. */
must_check int version_snapshot_begin(struct view *v, struct snapshot *shared);
must_check int version_snapshot_share(struct view *v, struct snapshot *s); /* registers s where v is */
void version_snapshot_init(struct snapshot *s);
void snapshot_get(void *snapshot);
void snapshot_put(void *snapshot);
void version_snapshot_end(struct view *v);
uint64_t version_most_kept(const struct process *p); /* for the one of its snapshots that keeps most */
/* check.c: NULL, or what does not hold of a page's versions (leaf locked), and of all snapshots. */
const char *version_check_page(const struct leaf *l, const struct page *p);
const char *version_check(void);

#endif
