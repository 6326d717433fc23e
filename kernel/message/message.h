/*
 * message.h - ports: synchronous call and reply, and what the kernel tells managers; badges:
 * numbers of a port's owner, for its callers. The other header of message/ is its own.
 */
#ifndef KERNEL_MESSAGE_H
#define KERNEL_MESSAGE_H

#include "katydid/trace.h"
#include "process/handle.h"

/* struct item: what is queued at a port, in the thing it speaks about, in one queue at most. */
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
    unsigned rank;           /* of who stands on others (store/stack.c), set once; a store has 0 */
    struct port *base;       /* the one at the bottom of all, perhaps itself */
    struct voter {           /* of a base, in transactions of several (store/parts.c) */
        bool votes;          /* it has a name; both are set once */
        uint8_t name[16];
        /* atomic: transactions that others show, perhaps, and it not yet; snapshots that wait */
        uint32_t owes, awaited;
        uint32_t doubts;     /* atomic: its manager's count of what it has voted for (BP5) */
    } voter;
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
bool port_notify(struct port *p, uint64_t bits); /* as port_post */
bool port_dies(const struct port *p); /* it has died, or one that it stands on */
void port_gone(struct port *p, unsigned view); /* its transaction ended; the next comes behind */
#define PORT_DEAD ((struct thread *)1)
struct thread *port_queue(struct port *p, struct item *i); /* who is to be woken, NULL, PORT_DEAD */
bool port_post(struct port *p, struct item *i); /* the same, and wakes. False: the port is dead */
bool port_withdraw(struct port *p, struct item *i); /* true: it was queued, so nobody saw it */
/* struct data: bytes that travel with a message, in single frames, each one's owner the next. Who
 * sent them pays, even if it ends before. No payer: few, in one piece (port.c). {0}: none. */
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
    /* taken: it goes to a receiver, and is told what this adds beside the words. Port lock held. */
    void (*taken)(struct item *i, struct notice *n);
    void (*lost)(struct notice *n, int error); /* not received: EMSGSIZE, EIO. No lock */
    void (*dropped)(struct item *i);  /* was delivered, or nobody will hear it any more */
};
extern const struct item_use item_uses[ITEM_KINDS];
void port_words_taken(struct item *i, struct notice *n); /* there: what was gathered is told */
extern const struct port_seam { void (*dead)(struct port *p); } port_seam; /* no lock; all told */
/* ---- calls ---- */
void call_thread_gone(struct thread *t);     /* for processes (process_seam): its slot for calls */
bool call_served_from(int pid);
uint64_t call_next_token(void);
/* call_path tells where t's call is now, and the call made in it ...: pids, 0: not received yet. */
enum { CALL_PATH_MAX = 16 };
unsigned call_path(const struct thread *t, int pids[CALL_PATH_MAX]);
uint64_t locus_serves(const struct thread *t); /* a number of the call that t serves; 0: none */
/* ---- badges ---- */
struct badge {
    uint32_t references;     /* atomic */
    bool ended;              /* atomic; set once */
    struct port *port;       /* a reference; NULL: a mark. Changes with badges_lock, when dead */
    uint64_t value;
    struct list link;        /* port->badges; badge.c */
};
struct port *badge_port(struct badge *b); /* a reference */
/* badge_trace traces what is done with h, if that is a badge; child: to whom, or 0. No locks. */
void badge_trace(enum kd_trace_badge what, const struct handle_slot *h, int child);
void badge_get(void *badge);
void badge_put(void *badge);
void badge_check(void *badge); /* port_check of its port */
static inline bool badge_ended(const struct badge *b)
{
    return __atomic_load_n(&b->ended, __ATOMIC_SEQ_CST);
}
/* port_lift finds the port to which calls by this handle of the calling process come, its own or a
 * badge's, with a reference; an error pointer as badge_lift's. KD_RIGHT_CALL. */
struct port *port_lift(int handle);

#endif
