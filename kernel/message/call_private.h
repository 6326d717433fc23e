/* call_private.h - what the files of message/ share: the slots of calls (call.c, locus.c), and what
 * ports, badges and calls ask of each other. */
#ifndef KERNEL_CALL_PRIVATE_H
#define KERNEL_CALL_PRIVATE_H

#include "message/message.h"

/* A thread has at most one slot, and at most one ORPHAN of others in its hands. */
enum { CALLS_MAX = 2 * THREADS_MAX, STATE_BITS = 4, SLOT_BITS = 16 };
enum { DEPTH_MAX = 16 };         /* calls in calls: walks over them are as long */
_Static_assert(CALLS_MAX <= 1 << SLOT_BITS, "a slot's number fits into its word");
#define STATE_MASK ((1ull << STATE_BITS) - 1)
#define SEQUENCE_ONE (1ull << (STATE_BITS + SLOT_BITS))

enum call_state {
    CALL_IDLE, CALL_QUEUED, CALL_TAKEN, CALL_DELIVERED, CALL_ANSWERING, CALL_ANSWERED, CALL_ORPHAN,
};

struct call {
    struct item item;            /* an ITEM_CALL's home */
    uint64_t word;               /* atomic: sequence, slot, state */
    struct thread *caller;       /* whose slot it is */
    struct thread *servant;      /* who was given it last; NULL: nobody yet */
    unsigned depth;              /* in how many calls it is made */
    uint64_t pid;                /* the caller's */
    struct process *server;      /* compared only: who may answer */
    struct port *port;           /* the caller's reference; others only compare it */
    int error;                   /* of an answer that the kernel gave, or 0 */
    bool laden;                  /* there are data, a handle or a badge */
    struct kd_message message;   /* the request, then the answer */
    struct data data;            /* of either, copied */
    struct handle_slot passed;  /* the handle that travels with either */
    struct handle_slot by;       /* the badge by which the request comes, if it does */
    uint64_t forsaken;  /* atomic: token of the last call that was sent when its port died */
    uint64_t cut;       /* atomic: token of the last call whose locus went away meanwhile */
    struct call *next_free;
};

extern struct lock calls_lock;

HOT uint64_t call_token(const struct call *c)
{
    return __atomic_load_n(&c->word, __ATOMIC_ACQUIRE) & ~STATE_MASK;
}

/* call_set stores a state without a look at the old one: only where nobody else can change it at
 * this moment. */
HOT void call_set(struct call *c, uint64_t token, enum call_state state)
{
    __atomic_store_n(&c->word, token | state, __ATOMIC_RELEASE);
}

HOT bool call_move(struct call *c, uint64_t token, enum call_state from, enum call_state to)
{
    uint64_t expected = token | from;
    return __atomic_compare_exchange_n(&c->word, &expected, token | to, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
}

/* locus_home has the calling thread serve nothing from now on, and act for itself. */
void locus_home(struct thread *me);
/* call_abandon ends the caller's wait. False: the answer is there after all. */
bool call_abandon(struct call *c, uint64_t token);
/* call_told: the locus of the caller's call went away. True: nobody had the call yet, it is off. */
bool call_told(struct call *c, uint64_t token);

/* ---- for port.c ---- */
void call_taken(struct item *i);             /* off the queue, in the taker's hands; port lock */
void call_refuse(struct item *i, int error); /* a call that was taken: its caller is told */
void calls_port_dead(struct port *p);        /* the callers of delivered calls are told */
/* badges_inherit makes some badges of a dead port the heir's, in the order that marks want; how
 * many: the caller has their references to `from`. Port table lock. */
unsigned badges_inherit(struct port *from, struct port *heir);

/* ---- for call.c ---- */
enum { MESSAGE_WORDS = sizeof(struct kd_message) / 8 };
void item_prepare(struct item *i, enum item_kind kind);
/* notice_deliver copies a notice, just taken off the queue, to the receiver's struct. 0; -EFAULT;
 * -EMSGSIZE: it did not fit and is lost. Port lock held on entry, not on return. */
must_check int notice_deliver(struct port *p, struct item *i, vaddr_t at);
/* badge_lift is handle_lift for a badge of the calling process. 0, -EBADF; -EIDRM (it has ended),
 * -EACCES (it lacks one of these rights): *passed is to be dropped also then. */
must_check int badge_lift(int handle, uint32_t rights, struct handle_slot *passed);

#endif
