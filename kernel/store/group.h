/* group.h - what a view knows of a commit: through stacked managers (stack.c), and of item
 * copies. */
#ifndef KERNEL_GROUP_H
#define KERNEL_GROUP_H

#include "store/store.h"
#include "store/vmask.h"

struct view;

enum { ENLISTED_MAX = 4 };

/* struct view_parts: the bases that a transaction has parts at (parts.c); owner thread. */
struct view_parts {
    uint8_t part;            /* enum kd_part: what the question is about; view lock */
    unsigned count;
    struct port *base[ENLISTED_MAX]; /* while it commits; the last one decides */
    struct port *decides;    /* whose batch came with the commit, or NULL */
    uint8_t id[16];
    struct part_batch { struct port *port; struct data data; } batch[ENLISTED_MAX];
    unsigned batch_count;    /* of other bases; the transaction enlists them */
};

/* struct view_group: a view's question, and its ties to those whose commit is one with its own. */
struct view_group {
    struct port *asked;      /* where its question is; it stays while nobody has answered */
    struct port *other[ENLISTED_MAX - 1]; /* enlisted before; references. View lock */
    unsigned other_count;
    struct view_parts parts;
    bool leaving;            /* its owner would go, but its question is claimed; view lock */
    /* of a transaction that commits; graph lock, but for `rank`, which is the owner thread's */
    struct vmask helpers;
    unsigned again;          /* helpers began anew for this question */
    uint64_t arrival;        /* of the question at its port */
    /* of a helper */
    struct view *of;         /* the transaction that it helps, or NULL */
    bool joined;             /* it is frozen, and goes where that goes */
    unsigned rank;           /* its manager's, whose objects it cannot write; 0: it is none */
    const struct port *port; /* its manager's; compared only */
    uint64_t token;          /* of the question that it works on */
};

/* struct view_items: the item copies of a view's transaction (item_page.c), its locks of items, and
 * the entry that it waits for (item_lock.c). */
struct view_items {
    unsigned count;          /* view lock */
    bool told;               /* once some had changed: no order then, no publication */
    uint64_t order, from;    /* its place in the log's order; the last one as its telling began */
    uint64_t cpus;           /* a struct debt for the frames of those that are being published */
    struct item_note *notes; /* locks of items for who may not write; owner thread */
    unsigned noted;
    struct list link;        /* in the queue of an entry of ... */
    const struct object *queue; /* ... or NULL; with its entries locked, as the others */
    uint32_t entry, mode;    /* which entry that is, and what it wants */
};
/* struct object_items: an object's table of locks (item_lock.c). */
struct object_items {
    struct vm_memory *table; /* or NULL; object's lock; or some entries', while it is not dead */
    uint8_t bits, own;       /* KD_POLICY_ITEMS, a logarithm; KD_POLICY_OWN */
};

#endif
