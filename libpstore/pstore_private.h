/*
 * pstore_private.h - what the parts of the library know of each other. Programs see pstore.h only.
 *
 * Three things exist, all of them volatile:
 *   ps_store      a connection to a store manager;
 *   ps_container  an open container of this process, shared by its threads;
 *   ps_tx         a view with the transaction that runs in it. It belongs to one thread, and with
 *                 it all that an abort has to take back: leased pages in use, operations for the
 *                 commit.
 *
 * Invariants
 *   TX1  No lock is held while store memory is touched or the kernel is called in a transaction:
 *       from either the thread may leave for tx_landed() and never come back.
 *   TX2  What an abort restores is in the ps_tx, and is right at every instruction.
 *   TX3  A transaction ends once, in tx_ended(), and then nothing of it is left for the next one.
 */
#ifndef PSTORE_PRIVATE_H
#define PSTORE_PRIVATE_H

#include "error_private.h"
#include "pstore.h"
#include "slot.h"
#include "store_protocol.h"

#include <assert.h>
#include <katydid/abi.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>

/* ps_kernel is how this library calls the kernel (pstore_kernel.c); tests put a double there. */
long ps_kernel(long number, long a, long b, long c);

/* ---- stores and containers: store.c, container.c ---- */

#define PS_STORES_MAX 4
#define PS_OPEN_MAX   64
#define PS_SEGMENTS_MAX 16
#define PS_NAMES_MAX  16                  /* names remembered of each container */
#define PS_HOOKS_MAX  64                  /* functions that a transaction may have run at its end */

struct ps_store {
    char name[STORE_NAME_BYTES];
    int port;                             /* -1: not in use */
    _Atomic int lost;                     /* its manager died: connect again before the next use */
    int away;                             /* table_lock: waited for in vain; nobody waits again */
    int confined;                         /* it is reached by handles that were passed (handle.c) */
    unsigned life;                        /* table_lock: the managers that it was connected to */
    uint64_t log_bytes, flushes;          /* at ps_connect, for ps_stats */
    uint32_t zone;                        /* of its containers' addresses */
    _Atomic uint64_t session;             /* another site's: its number there, or 0 (outcome.c) */
};

struct ps_name {
    char name[STORE_NAME_BYTES];
    uint64_t address, bytes;
};

struct ps_container {
    struct ps_store *store;
    _Atomic int opens;                    /* 0: free; how often ps_open gave it out */
    _Atomic uint32_t generation;          /* rises when leases and rights end: close, death */
    int flags;                            /* of all opens together */
    uint64_t id, base;
    int kept, kept_port;                  /* a program serves it; its port, or -1 (table_lock) */
    int busy;                             /* table_lock: it is being opened anew */
    _Atomic unsigned segment_count;       /* those before it never change while it is open */
    struct ps_segment {
        uint64_t base, end;
        struct kd_item_entry *locks;      /* the table of its items (item.c); NULL: by calls */
        unsigned lock_bits;               /* 0: not asked for yet */
    } segment[PS_SEGMENTS_MAX];
    uint32_t root_bytes;                  /* 0: opened without a layout */
    char root_type[STORE_NAME_BYTES];
    _Atomic int encoder;                  /* PS_ENCODE_..., when it was opened or set here */
    _Atomic int durability;               /* PS_DURABLE, ..., PS_LOST: the same */
    _Atomic int items;                    /* PS_LOCK_ITEMS or _PAGES: the same */
    _Atomic int protection;               /* PS_PROTECT_...: the same */
    int by;                               /* the handle that it was opened by; -1: the store's */
    int named;                            /* that is of the container itself */
    char name[WIRE_PATH_BYTES];           /* its path from there */
    _Atomic uint64_t directory;           /* of congeries (directory.c); 0: not known yet */
    _Atomic unsigned names_count;
    struct ps_name names[PS_NAMES_MAX];   /* committed names; those before names_count stay */
};
#define ROOT_NAME "\1root"

/* store_request asks a store: 0 or the answer's -errno; -EOWNERDEAD also notes a manager's end.
 * word: STORE_REQUEST_WORDS in and out. Bytes received go to *answer_bytes unless NULL. */
#define STORE_REQUEST_WORDS 3
int store_request(struct ps_store *s, uint32_t kind, uint64_t word[STORE_REQUEST_WORDS],
                  const void *data, size_t bytes, void *answer, size_t *answer_bytes);
/* store_request_by asks by a handle (-1: the store's), with one to send along (-1: none), in whose
 * place comes what came with the answer, or -1. handle NULL: neither. */
struct store_handle { int handle; uint32_t rights; };
int store_request_by(struct ps_store *s, int by, struct store_handle *handle, uint32_t kind,
                     uint64_t word[STORE_REQUEST_WORDS], const void *data, size_t bytes,
                     void *answer, size_t *answer_bytes);
uint64_t requests_counted(void);           /* so many were made, STORE_STATS not counted */
struct ps_store *store_of_opens(void);    /* where ps_open looks; NULL: none yet */
int stores_ready(void);                   /* 0: there is one, and those that died are back */
/* request_plain asks about the whole store, in no transaction; *answer: its first word. */
int request_plain(uint32_t kind, const void *data, size_t bytes, uint64_t *answer);
int store_name_copy(char out[STORE_NAME_BYTES], const char *name);  /* -EINVAL, -ENAMETOOLONG */
int path_copy(char out[WIRE_PATH_BYTES], const char *path);         /* the same */
/* paths_copy copies a path or two (other: not NULL), for a request outside transactions: the bytes
 * of each, or -errno. Short ones travel as names always did. */
int paths_copy(char data[2 * WIRE_PATH_BYTES], const char *path, const char *other);
/* container_open_by is ps_open_by, and for `by` -1 ps_open. */
ps_container *container_open_by(int by, const char *path, int flags, const struct ps_layout *root);

/* ---- roots that were passed to the process: handle.c ---- */
struct open_request {
    struct wire_open open;
    char path[WIRE_PATH_BYTES];           /* sent behind it if its name is empty */
    int by;
    int named;                            /* the handle is of the container: no path is sent */
};
enum { ROOT_CONTAINERS = 1, ROOT_DIRECTORY }; /* ps_store.confined */
/* roots_port returns a handle for the store's requests; -ENOENT: nothing was passed for it. */
long roots_port(struct ps_store *s);
long store_by_name(const char *name);
/* root_of returns the handle that was passed for this store's container of this name, or -1. */
int root_of(const char *store, const char *path);
/* may_of makes PS_MAY_... of WIRE_MAY_... */
static inline unsigned may_of(uint32_t rights)
{
    return (rights >> 16 & 31) | (rights & WIRE_MAY_GRANT ? PS_MAY_GRANT : 0);
}
/* roots_by finds the handle at which a confined process's path begins: 0 or -ENOENT. */
int roots_by(const struct ps_store *s, struct open_request *request);
/* roots_at finds what lies at the address by this process's roots of the store: a path of its root
 * directory, *by then is -1, or the container of the handle *by; is PS_WRITE possible? -ENOENT. */
int roots_at(struct ps_store *s, uint64_t address, char path[WIRE_PATH_BYTES], int *flags, int *by);
/* container_touch opens what lies at the address, if it is not open: 0, or -errno. In a
 * transaction, too, but not in its view (tx_work_begin). */
int container_touch(uint64_t address);
extern _Atomic unsigned container_closes; /* ps_close and ps_delete, so many times */
/* path_ask asks about a path ("": the root), with and for a handle perhaps; no transaction. */
int path_ask(uint32_t kind, const char *path, uint64_t word[STORE_REQUEST_WORDS],
             struct store_handle *handle, void *answer, size_t *bytes);
/* lack_told notes that a store's answer was -EACCES, with these words: lack.c. */
void lack_told(const uint64_t word[STORE_REQUEST_WORDS]);
/* lack_at notes, if the result is -EACCES, that the request was about this path, and perhaps
 * another; named: that names a container that was passed to the process. Returns the result. */
int lack_at(int result, const char *path, const char *to, int named);
void stores_note_death(void);
/* stores_find_again connects again to stores whose manager died, and opens their containers. */
int stores_find_again(void);
extern _Atomic int store_death_noted;     /* some manager died, perhaps; no lock */
static inline int stores_refresh(void) { return store_death_noted ? stores_find_again() : 0; }

int container_kept_port(const ps_container *c);  /* manager_private.h */
int container_index(const ps_container *c);
ps_container *container_by_index(int index);
int container_is_open(const ps_container *c);
/* container_form tells the store manager a part of c's form (enum wire_form); *kept: our copy. */
void form_take(ps_container *c, const uint32_t form[WIRE_FORMS]);    /* as the store says */
int container_form(ps_container *c, uint32_t which, int value, _Atomic int *kept);
struct ps_segment *container_segment(ps_container *c, uint64_t address);    /* NULL: it is none */
/* container_has tells whether [address, + bytes) are addresses of c, in one segment. */
int container_has(ps_container *c, uint64_t address, uint64_t bytes);
/* segments_lock locks the segments from this one on, for the active transaction. */
int segments_lock(ps_container *c, unsigned from, int how);
/* container_lock does that, and locks the keys (LI5). */
int container_lock(ps_container *c, unsigned from, int how);
/* container_lease and container_space lease pages: 0, -ENOSPC, -ENOENT (no page is known). */
int container_lease(ps_container *c, uint64_t pages, uint64_t near, uint64_t *address,
                    uint64_t *got);
int container_space(ps_container *c, uint64_t bytes, uint64_t near, uint64_t *address);
void container_unlease(ps_container *c, uint64_t address, uint64_t pages);

/* ---- names: container_name.c ---- */
/* names_remember keeps a committed name; not in an entered view (TX1). */
void names_remember(ps_container *c, const char *name, uint64_t address, uint64_t bytes);
/* names_forget forgets all names; not while another thread uses the container. */
void names_forget(ps_container *c);
/* names_object returns, in the active transaction, the object of that name, made if `bytes` is not
 * 0, with this number as its type. NULL with errno. */
void *names_object(ps_container *c, const char *name, size_t bytes, uint32_t type);
/* names_private is ps_named with a name of the library's own. */
void *names_private(ps_container *c, const char *name, size_t bytes);
/* names_find tells where the object of that name is, made by the active transaction or, if the
 * manager may be asked, committed; 0: there is none. */
uint64_t names_find(const struct ps_tx *tx, ps_container *c, const char *name, int ask);
/* names_hold tells whether a remembered object, or one that the transaction names, begins there. */
int names_hold(const ps_container *c, uint64_t address);

/* ---- pages leased to a transaction's view: alloc.c ---- */

#define PAGE_OF(address)   ((uint64_t)(address) & ~(uint64_t)(KD_PAGE_BYTES - 1))
#define EXTENT_BYTES       16384u
#define EXTENT_OF(address) ((uint64_t)(address) / EXTENT_BYTES)

#define RANGES_MAX 64
#define NEARS_MAX  64
#define ROOMS_MAX  64
/* FILLS are what a view fills at once, of arenas some in each set, found by the address. */
#define FILL_SETS 64u
#define FILL_WAYS 4u
#define FILLS (PS_OPEN_MAX + FILL_SETS * FILL_WAYS)

struct lease {                            /* [next, end) is free for new pages */
    uint64_t next, end;
    uint64_t mark;                        /* `next` when the transaction began */
    ps_container *container;
    uint32_t generation;
};
struct fill {                             /* of one container, or of an arena in it */
    uint64_t arena;                       /* 0: none */
    uint64_t current, mark;               /* page that objects go to; mark: at begin */
    uint32_t generation, lease_pages;
    int asked;                            /* the manager was asked for a page with room */
    /* what an arena says: pages of a block, 0: not looked up yet; units left free in a page */
    unsigned block_pages, keep;
};
struct near_page { uint64_t extent, page; };
struct room { ps_container *container; uint64_t page; };

struct heap {
    int used;                             /* in this transaction */
    unsigned lease_count;
    struct fill fill[FILLS];              /* by container, then the arenas */
    unsigned arenas;                      /* how many of those places were taken */
    struct lease lease[RANGES_MAX];
    struct near_page near[NEARS_MAX];     /* where objects near an extent went */
    struct room room[ROOMS_MAX];          /* pages whose room changed, by page number */
};

/* ---- items locked by a transaction: item.c ---- */

struct ps_tx;
#define HELD_MAX    1024u
#define AGAIN_WORDS 64u
#define WANTS_MAX   16u
#define GUARD_TOLD 64u
#define GUARD_OPEN 32u
struct guard {
    unsigned depth;                       /* functions of the library that store */
    unsigned brackets;                    /* accesses to write that are not released, of them ... */
    unsigned noted;                       /* ... these, so many, in any order */
    unsigned used;                        /* by this transaction */
    uint64_t open[GUARD_OPEN];
    uint64_t told[GUARD_TOLD];            /* by its number: this page the kernel was told of */
};
struct items {
    int used;                             /* in this transaction */
    unsigned word;                        /* where the view's bit is in each mask ... */
    uint64_t bit;                         /* ... 0: not known yet */
    _Alignas(16) uint64_t others[2];      /* all bits but that */
    struct {
        uint64_t base;                    /* of a segment ... */
        uint64_t bytes, stores;           /* 0, or at hand: to read; to write, too */
        struct kd_item_entry *entries;    /* NULL: locks are calls */
        unsigned shift;
        int guards;                       /* its container has a guard: no stores, but they come */
        int writes;                       /* as stores, and kept for the next one, as are: */
        uint64_t stored;
        const struct ps_segment *segment;
    } place;
    uint64_t stored;                      /* containers of items that it may store to, by index */
    int too_large;                        /* ... and is to lock as a whole, when it runs again */
    uint64_t locked;                      /* containers that it has locked as a whole, by index */
    uint8_t segments[PS_OPEN_MAX];        /* with so many: one that grows is whole no more */
    unsigned count;
    int any_again;
    struct kd_range *next;                /* behind the last one of: */
    volatile uint64_t *held[HELD_MAX];    /* masks with its bit */
    struct kd_range range[1 + KD_RANGES_MAX];     /* declared, and not handed over; from 1 on */
    uint64_t again[AGAIN_WORDS];          /* a bit by the entry's number: asked for twice */
    /* what a reader wanted more of, and got a deadlock */
    uint64_t wanted, want[WANTS_MAX];
    unsigned wants;
    /* `chunk` has what brackets keep (item_layer.c); `accesses` ends them, NULL: there are none */
    struct item_chunk { struct item_chunk *next; size_t size, used; } *chunk;
    int (*accesses)(struct ps_tx *tx);
    struct guard guard;                   /* guard.c */
};
/* ---- guards: guard.c ---- */
struct ps_tx *guard_open_rare(void);
void guard_shut_rare(struct ps_tx *tx);
static inline struct ps_tx *guard_open(const ps_container *c)
{
    return c && c->protection & PS_PROTECT_GUARD ? guard_open_rare() : NULL;
}
static inline void guard_shut(struct ps_tx **tx)
{
    if (*tx)
        guard_shut_rare(*tx);
}
/* GUARD_OPENED says that stores to pages of c up to the block's end are the library's: meant. */
#define GUARD_OPENED(c) \
    __attribute__((cleanup(guard_shut))) struct ps_tx *opened_ = guard_open(c)
/* guard_access notes that the program will store to these bytes of c, with a guard. 0 or -errno. */
int guard_access(struct ps_tx *tx, const ps_container *c, uint64_t at, uint64_t bytes);
/* guard_released says that the program has done so there. False: nothing is open there (GD3). */
int guard_released(struct guard *g, uint64_t at);
void guard_moved(struct guard *g, uint64_t from, uint64_t to);  /* what was open there is here */
void guard_bracket(struct guard *g, uint64_t at);       /* the same, where it is known (GD2) */
static inline int guard_knows(const struct guard *g, uint64_t at, uint64_t bytes)
{
    uint64_t page = PAGE_OF(at);
    return g->told[page / KD_PAGE_BYTES % GUARD_TOLD] == page &&
           at + bytes <= page + KD_PAGE_BYTES;
}
void guard_ended(struct ps_tx *tx);
/* guard_suspended says that the thread leaves the transaction, or is in it again. */
void guard_suspended(const struct ps_tx *tx, int suspended);

void items_use(struct items *t);          /* items_ended is to be called */
/* items_declare hands over what was declared: 0 or -errno. */
int items_declare(struct ps_tx *tx);
static inline int items_declares(const struct items *t)     /* is there anything? */
{
    return t->used && t->next - t->range > 1;
}
/* items_store says, in item mode, that stores to these bytes are meant. */
void items_store(struct ps_tx *tx, const ps_container *c, uint64_t at, uint64_t bytes);
/* items_too_large tells, when a transaction that fits into no log, or not into memory, is to end,
 * whether it runs again with the containers locked that it stores items to: then it spills. */
int items_too_large(struct ps_tx *tx);
/* items_lock_stored locks these at the begin of that run: 0 or -errno. */
int items_lock_stored(struct ps_tx *tx);
/* items_ended clears the bits of a transaction that has ended like this. */
void items_ended(struct ps_tx *tx, int result);
/* items_lock is ps_access of an item, where c has such; mode perhaps with PS_NOW. 0, -errno. */
int items_lock(struct ps_tx *tx, ps_container *c, uint64_t at, int mode);
/* items_release is ps_release of a name in the table of the segment of c in which `at` lies. */
int items_release(struct ps_tx *tx, ps_container *c, uint64_t at, uint64_t name);
/* items_lock_whole locks all of c if it has items, which the library needs for what it does not do
 * item by item: 0 or -errno. */
int items_lock_whole(struct ps_tx *tx, ps_container *c);
/* items_whole tells whether c's pages are the transaction's alone: it locks pages, or all of c. */
int items_whole(const struct ps_tx *tx, const ps_container *c);
/* items_lock_keys locks c shared: nobody locks a key to write. 0, -EBUSY, -errno. */
int items_lock_keys(struct ps_tx *tx, ps_container *c, int now);
/* items_lock_all notes that the transaction has locked all of c: so many segments. */
void items_lock_all(struct ps_tx *tx, const ps_container *c, unsigned segments);
/* items_forget forgets the tables of c, which are others from now on. */
void items_forget(ps_container *c);
/* slot_page_of finds an object's slot: one at a page's first byte began in the page before. */
uint64_t slot_page_of(const void *p, unsigned *start);
static inline struct slot_page *slotted(uint64_t page)
{
    return (struct slot_page *)(uintptr_t)page;
}

static inline uint64_t units_of(uint64_t bytes)
{
    return (bytes + SLOT_UNIT_BYTES - 1) / SLOT_UNIT_BYTES;
}

/* heap_page_touch gets a page's write right by a store that changes nothing: one fault, not two. */
static inline void heap_page_touch(uint64_t page)
{
    __asm__ volatile("orb $0, (%0)" ::"r"(page) : "memory", "cc");
}

/* heap_block takes a block of a lease: empty pages, of no arena, filled by nobody. 0: errno. */
uint64_t heap_block(struct ps_tx *tx, ps_container *c, unsigned pages);
/* heap_blocks_add adds spare blocks to an arena. 0 or -errno, perhaps when some are there. */
int heap_blocks_add(struct ps_tx *tx, ps_container *c, uint64_t arena, uint64_t blocks);
/* heap_fill_anew makes this view forget the arena and fill this page next, 0: look for one. */
void heap_fill_anew(struct ps_tx *tx, const ps_container *c, uint64_t arena, uint64_t page);
/* heap_fills tells whether this view fills a page of the arena at this moment. */
int heap_fills(struct ps_tx *tx, const ps_container *c, uint64_t arena);
/* heap_page_free frees the page, and `tail` more, with the commit. */
int heap_page_free(struct ps_tx *tx, ps_container *c, uint64_t page, uint64_t tail);
/* heap_page_after finds the lowest page above `after` that this transaction leased; 0: none. */
uint64_t heap_page_after(const struct heap *h, const ps_container *c, uint64_t after);
int heap_page_is_new(const struct heap *h, const ps_container *c, uint64_t page);
void heap_commit_prepare(struct ps_tx *tx);
void heap_committed(struct heap *h);
void heap_aborted(struct heap *h);
void heap_release(struct heap *h);        /* gives the leases back */
/* heap_declare declares pages in which the library stores whole, for PS_ENCODE_RANGES. */
void heap_declare(const ps_container *c, uint64_t page, uint64_t pages);
/* heap_room_note has a page's room told to the store manager with the commit. */
void heap_room_note(struct ps_tx *tx, ps_container *c, uint64_t page);
/* heap_meet makes the heap forget what it knew of an earlier opening of this container. */
void heap_meet(struct ps_tx *tx, const ps_container *c);
/* heap_pages_back gives others what became free in this page and the `tail` behind it. */
int heap_pages_back(struct ps_tx *tx, ps_container *c, uint64_t page, uint32_t tail);
/* heap_pages_zero zeroes what is not zero, so that a page fresh from the manager is not copied: for
 * pages of an older lease, which a wild store may have hit since. */
void heap_pages_zero(uint64_t page, uint64_t pages);
/* heap_alloc is ps_alloc_as with the transaction known; type, arena: or 0. NULL and errno. */
void *heap_alloc(struct ps_tx *tx, ps_container *c, size_t bytes, const void *near, uint32_t type,
                 uint64_t arena);

/* ---- leases: lease.c ---- */
/* lease_more gets another lease of so many pages, near `near` unless that is 0. 0 or -errno. */
int lease_more(struct heap *h, ps_container *c, uint64_t pages, uint64_t near, struct lease **out);
/* lease_start tells where `pages` from a multiple of `align` on lie in the lease; 0: no room. */
uint64_t lease_start(const struct lease *l, uint64_t pages, uint64_t align);
/* lease_find returns the lease with room for such pages that is closest to `near` and not farther
 * than `distance`; near 0: the youngest. NULL: none. */
struct lease *lease_find(struct heap *h, const ps_container *c, uint64_t pages, uint64_t align,
                         uint64_t near, uint64_t distance);
/* lease_take takes such pages. Other leases stay where they are. */
uint64_t lease_take(struct heap *h, struct lease *l, uint64_t pages, uint64_t align);

/* ---- arenas: arena.c ---- */
#define BLOCK_PAGES_MAX 64u
/* arena_block_next returns the page behind this one in its block, of the same arena; 0: none. */
uint64_t arena_block_next(uint64_t arena, unsigned block_pages, uint64_t page);
/* arena_link returns the page behind which new ones of this arena are put: the last one of the
 * block that is filled, or of the first block. 0: of no arena. */
uint64_t arena_link(ps_container *c, uint64_t arena, uint64_t current);
/* arena_second finds the page behind the first: the last newcomer put his block there. 0: none. */
uint64_t arena_second(uint64_t arena);
/* arena_pages_format makes these pages empty ones of the arena, behind `link` (0: in no list). */
void arena_pages_format(ps_container *c, uint64_t arena, uint64_t page, unsigned pages,
                        uint64_t link);
/* arena_knobs tells an arena's knobs, blocks as they are, and how many spare blocks it has. */
uint64_t arena_knobs(const ps_arena *arena, unsigned *block_pages, unsigned *fill);
/* arena_spare_forget makes spare blocks empty ones, as others are. */
void arena_spare_forget(ps_container *c, const ps_arena *arena);
/* arena_spare_take takes a spare block; 0: none. */
uint64_t arena_spare_take(ps_container *c, uint64_t arena);
/* arena_spare_add makes a spare block of these pages, behind the one that ends with `link`, or in
 * front. Its last page. */
uint64_t arena_spare_add(ps_container *c, uint64_t arena, uint64_t page, unsigned pages,
                         uint64_t link);
/* arena_make makes an arena; block_pages: a power of 2 up to BLOCK_PAGES_MAX; fill: percent, 0:
 * 100. NULL: errno. */
ps_arena *arena_make(ps_container *c, unsigned block_pages, unsigned fill);
/* arena_is tells whether it is, committed or not, an arena of this container. */
int arena_is(ps_container *c, const ps_arena *arena);
/* arena_page_after returns the page behind `page` (0: the first) in the list, and how many follow
 * that without a header. 0: the end; 1: -EUCLEAN, the list is spoilt. */
uint64_t arena_page_after(ps_container *c, const ps_arena *arena, uint64_t page, uint64_t *tail);

/* ---- congeries by name and by type: directory.c ---- */
#define DIRECTORY_NAME "\2congeries"
/* directory_arena_of returns the arena that a rule says for objects of a type; 0: none. */
uint64_t directory_arena_of(struct ps_tx *tx, ps_container *c, uint32_t type);
/* directory_name_of returns an arena's name; empty: it has none. */
const char *directory_name_of(ps_container *c, const ps_arena *arena);
/* directory_forget removes name and rules of an arena. 0 or -errno. */
int directory_forget(ps_container *c, const ps_arena *arena);

#define OBJECT_BYTES_MAX (1ull << 30)     /* a container's first segment */

/* ---- types: types.c ---- */
/* type_number is slot_type_of(), remembered; 0, ENOTUNIQ: another type of this process has it */
uint32_t type_number(const char *type);

/* ---- transactions: txn.c ---- */

enum { TX_READS, TX_PLAIN };              /* TX_READS: snapshots and dirty reads; then `apart` */
enum { TX_STORES_MAX = 4 };               /* that one transaction changes */
struct ps_tx {
    uint64_t landing;  /* this struct: the word at which the landing stack begins */
    struct ps_tx *next;                   /* the thread's others */
    int view;
    int kind;                             /* what its view is for: TX_... */
    int active, explicit_, again;         /* again: how it ended lets ps_transaction run it again */
    int plain;                            /* it was prepared without options, by ps_transaction */
    int reason;                           /* how it ended: -errno */
    uint64_t committed_at;                /* a commit's number; 0: it changed nothing */
    unsigned aborts;
    pthread_t owner;
    void *frame;                          /* of ps_transaction: which of two is the inner one */
    const char *place;                    /* FILE:LINE of its ps_transaction or ps_begin */
    jmp_buf env;
    struct kd_begin begin;
    struct ps_options options;
    const ps_container *writing;          /* tx_writing() found it to be writable */
    struct tx_ops {                       /* operations for the commit, for each store */
        struct ps_store *store;
        char *ops;                        /* struct wire_op[] */
        size_t bytes, size, last;         /* last: offset of the last one */
    } batch[TX_STORES_MAX], *now;         /* now: of the store that was spoken of last */
    struct tx_ops *indexes_in;            /* those with changes of indexes, or NULL */
    size_t names;                         /* how many of them set a name, or unset one */
    int several;                          /* there are operations for several stores */
    int directories;                      /* it makes one: what directory.c looks for */
    unsigned hook_count;  /* what is run once it is known how the transaction ended */
    int abandoned;  /* its frames were jumped over: they are still to be run */
    int busy;                             /* they run: no transaction is begun in this ps_tx */
    struct {
        int waits;                        /* ps_retry: it sleeps until one of these tells it */
        struct ps_store *watched[PS_STORES_MAX]; /* which have a watch of this view; NULL: none */
        uint64_t since_ms;                /* when it first waited for that; 0: not yet */
        unsigned missed;                  /* a mask of stores: it looked there for a missing name */
        int looks_again;                  /* ... and does so once more, with its watch set */
    } retry;
    uint64_t ends_ms;                     /* with timeout_ms: when its time is up (now_ms) */
    struct hook {
        void (*function)(void *argument);
        void *argument;
        int commit;
    } hook[PS_HOOKS_MAX];
    char *indexes;                        /* of index.c: struct looks, or NULL */
    size_t indexes_size;
    char *map;                            /* of lint.c */
    size_t map_size;
    char *scratch;                        /* for tables of one call (congeries_collect.c) */
    size_t scratch_size;
    /* `held` are pages that ps_each knows of */
    struct { const ps_container *container; uint64_t first, end; } held;
    struct heap heap;
    struct items items;
};

void chunks_free(struct item_chunk **list);     /* one after the other: an abort may come */

extern _Thread_local struct ps_tx *tx_current;    /* its view is entered; it may be idle */
/* tx_active returns the calling thread's transaction if one is active, else NULL. */
static inline struct ps_tx *tx_active(void)
{
    return tx_current && tx_current->active ? tx_current : NULL;
}
uint64_t tx_read_at(void); /* of a snapshot: the state that it sees; else 0 */
/* tx_forget makes this thread, in a child of fork, one that has begun nothing. */
void tx_forget(void);
/* tx_writing returns the active transaction, to change c; NULL with errno: EPERM, EINVAL, EROFS. */
struct ps_tx *tx_writing(const ps_container *c);
/* tx_ops_of makes the store's operations those of `now`; 0, -EXDEV: there are too many stores. */
int tx_ops_of(struct ps_tx *tx, struct ps_store *store);
/* tx_ops_in returns the store's operations, or NULL. */
const struct tx_ops *tx_ops_in(const struct ps_tx *tx, const struct ps_store *store);
/* tx_ops_tell tells the kernel all but those of `now`, which go with the commit: 0 or -errno. */
int tx_ops_tell(struct ps_tx *tx);
extern int stores_several;               /* more than one store is connected, or another site's */
/* stores_read_flush asks, before the commit of a transaction that changes something, the stores
 * where it has only read. What it has read there is durable then, lazy commits too
 * (kernel/store/parts.md), and still as it was at a moment at which it had all its locks; a lazy
 * one asks other sites' stores alone. 0 or -errno: with -EOWNERDEAD what it has read may have
 * changed. */
int stores_read_flush(const struct ps_tx *tx);
/* store_after returns the store behind s in the table, NULL: the first; store_changed tells whether
 * the running transaction has changed a page of its: that page. */
struct ps_store *store_after(struct ps_store *s);
int store_changed(const struct ps_store *s, uint64_t *page);
/* Flags of KD_TXN_CHANGES: pages that were read, too; only where they are. */
enum { CHANGES_READ = 1, CHANGES_WHERE = 2 };
/* tx_commit_prepare does what comes before a commit, where there is some of it: accesses,
 * allocations, stores, what is declared, the lint's look. */
int tx_commit_prepare(struct ps_tx *tx);
void tx_ops_forget(struct ps_tx *tx);           /* all of them */
void names_committed(const struct ps_tx *tx) __attribute__((cold));  /* those that it has set */
/* tx_op adds an operation to the commit; 0, -EXDEV, -ENOMEM. */
int tx_op(struct ps_tx *tx, uint32_t kind, ps_container *c, uint64_t address, uint64_t value,
          const char *name);
/* tx_op_bytes does the same, with so many bytes as its name, and a NUL behind them. */
int tx_op_bytes(struct ps_tx *tx, uint32_t kind, ps_container *c, uint64_t address,
                uint64_t value, const void *name, size_t length);
/* tx_memory makes *memory, of *size bytes, larger and keeps its first bytes; not malloc, which
 * locks (TX1). 0 or -ENOMEM. */
int tx_memory(char **memory, size_t *size, size_t wanted, size_t kept);
/* tx_entry (txn_entry.S) is where the kernel sends the thread of a transaction that it aborted. */
extern const char tx_entry[];
_Noreturn void tx_landed(int reason, struct ps_tx *tx);
/* tx_work_begin leaves the view for work that takes locks (TX1). Returns what tx_work_end wants. */
struct ps_tx *tx_work_begin(void);
void tx_work_end(struct ps_tx *tx);
/* tx_time_left tells milliseconds left of timeout_ms; ~0: it has none. The kernel does not count
 * outside of its view: who waits there limits the wait. */
uint64_t tx_time_left(const struct ps_tx *tx);
/* tx_left aborts the transaction if its view still has it while the thread is in another one: the
 * program left it by KD_VIEW_ENTER, behind the library. Whether that was so. */
int tx_left(struct ps_tx *tx, int error);
uint64_t now_ms(void);

/* ---- manager_check.c ---- */
/* manager_check asks a program that checks its arguments, if it says so: 0, or -ECHILD, refused. */
int manager_check(const char *name, const char *program, const char *const *arguments);

/* ---- index.c ---- */
/* index_ended forgets an ended transaction's changes of indexes and its locks of keys. */
extern void (*index_ended)(struct ps_tx *tx);
/* index_used finds the i-th index that it has looked at; NULL: no more. Only if tx->indexes. */
extern const ps_container *(*index_used)(const struct ps_tx *tx, unsigned i);

/* ---- retry.c ---- */
/* retry_watch has the stores tell of changes of what the active transaction has read: 0, -EINVAL
 * (nothing), -EDQUOT. */
int retry_watch(struct ps_tx *tx);
/* retry_missed notes that the transaction has looked there for a name that is not there. */
void retry_missed(struct ps_tx *tx, const struct ps_store *store);
/* retry_wait sleeps until then, behind the end. 0: it is to be run again; -ETIMEDOUT. */
int retry_wait(struct ps_tx *tx);
/* retry_end makes the stores, behind the last run, forget what they have not told yet. */
void retry_end(struct ps_tx *tx);

/* ---- lint.c ---- */
extern int lint_on;
/* lint_check reports what ps_lint() looks for in the active transaction, before its commit. */
void lint_check(struct ps_tx *tx);
/* lint_freed notes that the transaction has freed this object. */
void lint_freed(const struct ps_tx *tx, const void *object, uint64_t bytes);
/* lint_note keeps an object's type or name, for messages. */
void lint_note(const void *object, uint64_t bytes, const char *what);
/* lint_moved notes an object's new address, or size; what it is called stays. */
void lint_moved(const void *from, const void *to, uint64_t bytes);

#include "elsewhere.h"
#endif
