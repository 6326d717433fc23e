/*
 * port.h - ports: synchronous call and reply, and what the kernel tells managers.
 *
 * What is queued at a port is a struct item in the thing it speaks about, in one queue at most.
 *
 * PO1  An item on a queue is valid. It is `queued` until whoever took it off has read it: whoever
 *     frees its home looks at that, and takes it off first, under the port lock.
 * PO2  A delivered call is answered at most once: its token names a slot and a sequence number.
 * PO3  A dead port has no items and accepts none. Its owner has no handle any more by which to
 *     receive, and there is no object whose requests or commits go to it.
 */
#ifndef KERNEL_PORT_H
#define KERNEL_PORT_H

#include "memory/frame.h"
#include "message/voter.h"
#include "process/process.h"

enum item_kind {
    ITEM_CALL = 1, ITEM_PAGE, ITEM_RECALLED, ITEM_COMMIT, ITEM_CONFLICT, ITEM_VIEW_GONE,
    ITEM_CLEAN, ITEM_CREDIT_LOW, ITEM_CLIENT_GONE, ITEM_NOTIFY, ITEM_SPILL, ITEM_UNSPILL,
    ITEM_WANTED, ITEM_KINDS };
struct item {
    struct list link;
    uint8_t kind;
    bool queued;             /* changed under the port lock; atomic */
    union {                  /* what the message will say; set before it is queued, or gathered */
        uint64_t word[KD_WORDS];
        struct item_words { uint64_t word[KD_WORDS]; } words;
    };
    uint64_t process;
};

/* item_say sets what the item's message will say; the other words are 0. Not while it is queued. */
#define item_say(i, what, pid, ...)                                                               \
    do {                                                                                          \
        struct item *said_ = (i);                                                                 \
        said_->kind = (what);                                                                     \
        said_->process = (uint64_t)(pid);                                                         \
        said_->words = (struct item_words){{__VA_ARGS__}};                                        \
    } while (0)

enum { PORT_BELOW_MAX = 4 };
struct port {
    struct lock lock;        /* RANK_PORT */
    uint32_t references, receive_handles; /* atomic; handle.h: HD3 */
    bool dead, serves;       /* serves: it has had objects */
    struct process *owner;   /* a reference; dead when it is gone */
    struct list items, receivers, badges, objects; /* those that ask, or commit, here: object.c */
    struct list all;         /* ports of all processes; port table lock */
    struct item clean, credit_low, notify, view_gone;
    bool spills, wants_gone, tells; /* KD_OBJECT_SPILLS, _NOTICES commit here; KD_PORT_TELLS */
    char name[KD_NAME_MAX];  /* published under this name, or was; port table lock */
    /* credits (credit.c), under `lock` */
    bool credits_used;       /* the manager granted some once: there is a limit */
    bool closed;  /* the manager said that it logs and cleans nothing any more; set once */
    bool exhausted;  /* the manager said that it has no more, and nothing was consumed since */
    uint64_t credits, held, credits_low;
    uint64_t consumed, items_order; /* logged since the last grant of 0; of a base: item_page.c */
    csn_t settled;           /* atomic: nothing older than versions up to it comes (SP4) */
    struct list credit_queue;
    uint32_t commits_held;   /* atomic: of a base: claim.c, commits_hold */
    unsigned rank;           /* of who stands on others (store/stack.c), set once; a store has 0 */
    struct port *base;       /* the one at the bottom of all, perhaps itself */
    struct voter voter;
    struct port *below[PORT_BELOW_MAX]; /* references, or NULL */
    struct list above;       /* by `stands`: the live ones that stand on it; port table lock */
    struct port_link { struct list link; struct port *port; } stands[PORT_BELOW_MAX];
};
extern uint32_t port_deaths; /* atomic: of ports and of objects, under way (BG3) */
void port_check(void *port); /* panics if its queue is wrong (PO1, PO3): handle_kinds */
static inline void port_get(void *port)
{
    __atomic_fetch_add(&((struct port *)port)->references, 1, __ATOMIC_RELAXED);
}
void port_free(struct port *p); /* for port_put: nobody refers to it any more */
void ports_put(struct port *const *below);      /* so many as there are */
/* port_stand has p die with each of `below`; ports_above_die ends all that stand on p. No locks. */
void port_stand(struct port *p);
void ports_above_die(struct port *p);
static inline void port_put(void *port)
{
    struct port *p = port;
    if (__atomic_sub_fetch(&p->references, 1, __ATOMIC_ACQ_REL) == 0)
        port_free(p);
}
/* A port's handles (HD3): one of another process cannot receive; the last that can ends it. */
uint32_t port_handle_held(void *port, const struct process *owner, uint32_t rights);
void port_handle_dropped(void *port, uint32_t rights);
/* port_other_error: why who stored to p's objects cannot store to another's: the next manager's? */
static inline int port_other_error(const struct port *p)
{
    return __atomic_load_n(&p->dead, __ATOMIC_RELAXED) ? -EOWNERDEAD : -EXDEV;
}
bool port_notify(struct port *p, uint64_t bits); /* as port_post */
bool port_dies(const struct port *p); /* it has died, or one that it stands on */
/* port_gone tells that a view's transaction has ended: what it asks next comes behind that. */
void port_gone(struct port *p, unsigned view);
#define PORT_DEAD ((struct thread *)1)
struct thread *port_queue(struct port *p, struct item *i); /* who is to be woken, NULL, PORT_DEAD */
bool port_post(struct port *p, struct item *i); /* the same, and wakes. False: the port is dead */
bool port_withdraw(struct port *p, struct item *i); /* true: it was queued, so nobody saw it */
void item_prepare(struct item *i, enum item_kind kind);
enum { MESSAGE_WORDS = sizeof(struct kd_message) / 8 };
/* struct data: bytes that travel with a message: frames, each one's owner the next, so that a full
 * memory of single frames is no obstacle. Who sent them pays for them, even if it ends before.
 * Without payer: few, in one piece (port.c). {0}: none. */
struct data { void *first; uint64_t bytes; struct process *payer; /* a reference */ };
/* data_in copies bytes of the caller's, and may wait for frames. -E2BIG, -ENOMEM, -EFAULT: none. */
must_check int data_in(struct data *d, vaddr_t from, uint64_t bytes);
must_check int data_out(vaddr_t to, const struct data *d);
void data_drop(struct data *d);

/* A notice is a message of the kernel, copied out of its item, whose home may go away. */
struct notice {
    struct kd_message message;
    void *home;
    struct data data;        /* message.data_bytes of them */
};
/* item_uses: what is done with items of each kind; NULL: nothing. kernel/seams.c has the table. */
struct item_use {
    uint32_t message;            /* KD_MSG_* */
    /* taken: the item is off the queue and goes to a receiver; the function adds what the notice
     * tells beside the words. Port lock held. */
    void (*taken)(struct item *i, struct notice *n);
    /* lost: the receiver could not take it: EMSGSIZE, EIO. No lock */
    void (*lost)(struct notice *n, int error);
    void (*dropped)(struct item *i);  /* was delivered, or nobody will hear it any more */
};
extern const struct item_use item_uses[ITEM_KINDS];
void port_words_taken(struct item *i, struct notice *n); /* there: what was gathered is told */
extern const struct port_seam { void (*dead)(struct port *p); } port_seam; /* no lock; all told */

/* notice_deliver copies a notice, just taken off the queue, to the receiver's struct. 0; -EFAULT;
 * -EMSGSIZE: it did not fit and is lost. Port lock held on entry, not on return. */
must_check int notice_deliver(struct port *p, struct item *i, vaddr_t at);

/* call.c */
void call_thread_gone(struct thread *t);     /* for processes (process_seam): its slot for calls */
void call_taken(struct item *i);             /* off the queue, in the taker's hands; port lock */
void call_refuse(struct item *i, int error); /* a call that was taken: its caller is told */
void calls_port_dead(struct port *p);        /* the callers of delivered calls are told */
bool call_served_from(int pid);
uint64_t call_next_token(void);
/* call_path tells where t's call is now, and the call made in it ...: pids, 0: not received yet. */
enum { CALL_PATH_MAX = 16 };
unsigned call_path(const struct thread *t, int pids[CALL_PATH_MAX]);
uint64_t locus_serves(const struct thread *t); /* a number of the call that t serves; 0: none */

#endif
