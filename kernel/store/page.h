/*
 * page.h - pages of memory objects, with versions, rights and waiters; their private copies; leaves
 * of 64 pages.
 *
 * PG1  At most one frame holds the current version of a page; page->frame is it, unless FILLING.
 * PG2  While a view has a COPY of a page, `writer` is that view and no other view has a right to
 *      it; but for item copies (IT1).
 * PG3  Every view with a PTE for the page that is not EMPTY has its bit in `mask` (a hint: the bit
 *      may stand alone).
 * PG4  A page with a pin, DIRTY, item copies, or a writer whose copy is in memory is not evicted.
 *
 * Locks: leaf->lock guards all of its 64 pages and is the page lock of the design.
 */
#ifndef KERNEL_PAGE_H
#define KERNEL_PAGE_H

#include "store/store.h"
#include "store/vmask.h"

#define count(field) ((void)__atomic_fetch_add(&counters.field, 1, __ATOMIC_RELAXED))
#define count_add(field, n) ((void)__atomic_fetch_add(&counters.field, (n), __ATOMIC_RELAXED))

enum { LEAF_PAGES = 64, LEAF_TABLE = 512, WRITER_NONE = -1, UNIT_BYTES = 16 };
enum page_flag {
    PAGE_DIRTY = 1,      /* the current version is not home yet */
    PAGE_ASKED = 2,      /* its manager was asked and has not answered */
    PAGE_FILLING = 4,    /* page->frame is being read; not resident */
    PAGE_CLEANING = 8,   /* its current version is being written home */
    PAGE_PINNED = 16,    /* by the manager: not evicted */
    PAGE_MAPPED_WRITE = 32, /* not transactional, mapped writable somewhere: may be dirty */
    /* not resident; its version `csn` was published from a spilled copy: nothing older comes */
    PAGE_AWAY = 64,
    PAGE_FREED = 128,    /* here for older snapshots alone (LF3) */
};
/* Pages [first, end) were freed: so they are of this sequence where they have no leaf (LF3). */
struct freed { uint64_t first, end, sequence; };
/* page->closed: rights (KD_READ, KD_WRITE) that the kernel does not have, so that a touch asks for
 * them; and, shifted by this, those that are called back: who uses the page has them still. */
enum { CLOSED_RECALLED = 2, CLOSED_ALL = KD_READ | KD_WRITE };

/* struct copy: a private copy of a write fault; publish makes it the struct of the old version. */
struct copy {
    /* view->copies.resident or .spilled (view lock), later keeper->versions (versions lock) */
    struct list link;
    struct leaf *leaf;
    uint16_t view;
    uint8_t slot;
    bool changed;            /* kd_txn_diff saw a difference: it was logged */
    uint8_t groups;          /* which elements of `words` are not 0, and may be looked at */
    bool items;              /* an item copy: others may have one of the page, too (item_page.c) */
    bool spoilt;             /* of a page that was mended: it is not told (CW4) */
    /* item copy: it was told with what was not declared still in it (VS4); else: those that were
     * told, 0: none (CW2) */
    union { bool rough; uint8_t regions; };
    struct frame *frame;     /* the copy (NULL: spilled); after publish: the old version */
    /* old version: for whom it is kept; NULL: it is none any more. Versions lock */
    struct snapshot *keeper;
    union {
        struct copy *chain;  /* while it is being published */
        uint64_t told;       /* the sum of what the log has of it (IT6, CW2) */
    };
    vaddr_t at;
    /* which words are declared; of an item copy, once it is told: which it changed */
    uint64_t words[PAGE_BYTES / 8 / 64];
    /* old version: seen by snapshots s, sequence <= s < superseded; in page->versions */
    uint64_t sequence, superseded;
    struct copy *next, *previous;
};
_Static_assert(sizeof(struct copy) % 16 == 0, "a SPILLED entry names it in units of 16 bytes");

enum place { CLOCK, PROVEN, LAUNDRY, READY, PLACES }; /* the lists of resident pages (clock.c) */

struct page {
    struct frame *frame;
    csn_t csn;               /* the manager's number of the current version */
    uint64_t sequence;       /* the kernel's number of its publication; 0: before any snapshot */
    struct vmask mask;
    struct copy *versions;   /* newest first */
    int16_t writer;          /* view or WRITER_NONE */
    uint8_t flags;
    uint8_t stale;           /* so many supplies on end were older than `csn` */
    union {
        struct {
            uint8_t queue;  /* the first view that waits for it, + 1, or 0; the others in a ring */
            uint8_t rmw;     /* so many first reads still take the page exclusively */
            uint8_t closed;  /* recall.c */
            union {
                uint8_t whole;  /* so many commits still tell it whole (KD_ENCODER_ADAPTIVE) */
                uint8_t copies; /* of an object in item mode: so many item copies there are */
            };
        };
        uint32_t looks;      /* the same in one word, for one look at all */
    };
};

struct leaf {
    struct lock lock;        /* RANK_LEAF */
    struct list link;        /* of bare leaves while `resident` is 0 (evict lock), or gone ones */
    uint32_t resident;       /* pages in the lists of the evictor */
    bool gone;               /* out of its table: unused, and the last look ends soon (LF2) */
    uint64_t held;           /* rights are HELD for transactions with a smaller ticket only */
    struct object *object;
    uint64_t first;          /* page index of pages[0] */
    struct list waits;       /* struct page_wait: for pages that are not resident */
    uint64_t touched;        /* all other pages are as they were made: nobody came near them */
    uint64_t floor;          /* of its object, when it was made (LF1) */
    struct vmask kept;       /* views that may know it as last.leaf */
    struct vmask users;      /* all masks of the pages, or more */
    /* so often a page got another frame; counted behind that (fault.c: hand_copy) */
    uint64_t changes;
    uint64_t proven;         /* pages that are, or were when they went (EV10) */
    uint64_t (*codewords)[KD_REGIONS]; /* of each page (codeword.c): a frame; NULL */
    uint32_t left[LEAF_PAGES]; /* object->left when it went, or 0 */
    struct page pages[LEAF_PAGES];
};
_Static_assert(sizeof(struct page) == 56 && sizeof(struct leaf) <= PAGE_BYTES, "a leaf is a frame");

static inline void page_changed(struct leaf *l) /* leaf locked */
{
    __atomic_store_n(&l->changes, l->changes + 1, __ATOMIC_RELEASE);
}
static inline bool page_resident(const struct page *p)
{
    return p->frame && !(p->flags & PAGE_FILLING);
}
enum { LOOKS_ACCESS = 0xffffff };        /* of page->looks: all but `whole` and `copies` */
/* page_open tells that nobody waits for the page, that it is not to be taken exclusively, and that
 * the kernel has the right to give. */
static inline bool page_open(const struct page *p, bool write)
{
    unsigned access = write ? KD_WRITE : KD_READ;
    return !(p->looks & (0xffffu | (access | access << CLOSED_RECALLED) << 16));
}
/* page_closed tells whether an access is to be asked for. `user`: the view uses the page; `given`:
 * rights that it was given. Leaf locked. */
static inline bool page_closed(const struct page *p, bool user, unsigned given, bool write)
{
    unsigned closed = user ? p->closed : p->closed | p->closed >> CLOSED_RECALLED;
    return closed & ~given & (write ? KD_WRITE : KD_READ) && (write || !user);
}

#endif
