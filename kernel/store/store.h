/*
 * store.h - all that other rooms use of the store: memory objects, views that run transactions, old
 * versions, eviction. But its system calls and trap_page_fault() are declared in arch.h. The other
 * headers of store/ are its own. No lock is held where none is named.
 */
#ifndef KERNEL_STORE_H
#define KERNEL_STORE_H

#include "memory/frame.h"
#include "message/message.h"

struct object;

void object_init(void);
void view_init(void);
void evict_init(void);

/* What the store counts since boot, for KD_SYSTEM_INFO: sums; atomic adds. view.c */
extern struct kd_system_info counters;
uint64_t view_copy_count(void);                 /* private copies of all views, about */
uint64_t evict_resident_count(void);            /* pages in memory */
/* kcheck (check.c) looks for broken invariants. 0; -EIO: the log says which. */
int kcheck(void);

/* ---- threads and processes ---- */
paddr_t right_table(struct thread *t);          /* thread_seam.view_table; any lock */
void view_return_to_user(struct trap_frame *f); /* aborts a doomed transaction (thread_seam) */
void view_thread_gone(struct thread *t);        /* process_seam: its transaction ends */
void view_process_gone(struct process *p);      /* the same of its views */
void object_process_gone(struct process *p);    /* ends its objects and attachments */
/* view_forsaken: does a view commit to `to` (NULL: anywhere) that its thread in p has left? */
bool view_forsaken(const struct process *p, const struct port *to);
/* holders_left lets the rights of holders of the calling thread, which has left its process, stand
 * for as long as was asked for, and ends them. process_seam. */
void holders_left(void);
uint64_t version_most_kept(struct process *p);  /* old versions, by one of its snapshots */

/* ---- memory (frame_seam): no frame is free, and pages go ---- */
void evict_wake(void);                          /* with any lock */
/* evict_frame takes a frame for the contents of a page (not zeroed), and waits for eviction and
 * cleaning. NULL: there will be none, or killed. */
must_check struct frame *evict_frame(enum frame_use use);
/* evict_wait waits for some frames. *vain is 0 at first. False: as evict_last, or killed. */
bool evict_wait(uint64_t *vain);
/* evict_more is for a caller that found no frame, however far into the reserve it may go: it has a
 * few hundred pages evicted. `one`: single frames are enough, so it waits in the queue for them
 * (EV9). evict_together is for one that found no `count` frames that lie together, or that fails
 * without more memory: it frees some aligned pieces of memory in which only pages lie. False:
 * nothing could be evicted, or single frames are wanted and pages are not what fills the memory. */
bool evict_more(bool one);
bool evict_together(size_t count);

/* ---- handles (handle_kinds): get with any lock, put with none ---- */
void object_get(void *object);
void object_put(void *object);
int view_close(void *view, int handle);
void snapshot_get(void *snapshot);
void snapshot_put(void *snapshot);

/* ---- messages to managers (item_uses): one was delivered, or cannot be (-errno) ---- */
void page_item_taken(struct item *i, struct notice *n); /* PAGE; port lock */
void page_item_lost(struct notice *n, int error);
void view_item_taken(struct item *i, struct notice *n); /* COMMIT and its kin; port lock */
void view_item_lost(struct notice *n, int error);
void attachment_gone_told(struct item *i);      /* CLIENT_GONE's; frees it */
void store_port_dead(struct port *p);           /* port_seam: views and objects learn it */

/* ---- page I/O of objects (block_call.c), by the page's index ---- */
/* object_io_begin_read finds the frame to read to, object_io_begin_write the version to write, and
 * its number. The frame stays until object_io_end. `wait`: for memory. 0 or -errno. */
must_check int object_io_begin_read(struct object *, uint64_t page, bool wait, struct frame **);
must_check int object_io_begin_write(struct object *, uint64_t page, struct frame **, csn_t *csn);
/* object_io_end returns its status, or -EUCLEAN: what was written may be damaged (codeword.c). */
int object_io_end(struct object *o, uint64_t page, struct frame *frame, bool read, int status);

/* ---- what people are told (look/) ---- */
/* objects_in goes over the objects in a range, and breathes after each. No body leaves it early. */
#define objects_in(o, from, end)                                                                  \
    for (struct object *o = object_next(NULL, from, end); o; o = object_next(o, from, end))
#define objects_each(o) objects_in(o, 0, ~0ull)
struct object *object_next(struct object *before, vaddr_t from, vaddr_t end); /* puts `before` */
struct kd_space_info object_info(const struct object *o, uint32_t rights);
struct kd_space_info attachment_info(const struct attachment *a); /* attach lock of its process */
/* object_use counts pages, whom it is attached to, and read faults by kind. */
enum touch { TOUCH_SEQUENTIAL, TOUCH_CLUSTERED, TOUCH_RANDOM, TOUCH_KINDS };
struct object_use {
    uint64_t resident, dirty, written, versions;
    unsigned users, touches[TOUCH_KINDS];
    bool dead;
};
struct object_use object_use(struct object *o);
/* view_told tells of a view without its lock, in a panic, too: what holds now, perhaps. */
struct view_told {
    unsigned id;
    const struct process *process;   /* compared only */
    const char *does;                /* or NULL: no transaction */
    uint64_t mode, ticket, snapshot; /* enum kd_mode; the last publication that it sees */
    unsigned copies, spilled;
};
struct view_told view_told(const struct view *v);
const struct view *view_at(unsigned id);        /* below KD_VIEW_MAX */
#define PTE_COPY PTE_SOFT1                      /* a bit of an entry: it maps a private copy */

#endif
