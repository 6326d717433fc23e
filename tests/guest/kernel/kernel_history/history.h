/* history.h - what the parts of kernel_history share: sizes, records, and its own manager. */
#ifndef HISTORY_H
#define HISTORY_H

#include <stdbool.h>

#include "random.h"
#include "store_client.h"
#include "../../../history/check.h"

enum {
    WORKERS = 8, PROCESSES = 3,
    PAGES_MAX = 512, WORDS = 4, STEP = 170, /* words of a page that are used: 0, 170, 340, 510 */
    HOG_PAGES = 20480, HOG_GROUP = 64,
    TXNS = 3, ATTEMPTS = 16, ACCESSES = 180,
    KIND_OPEN = 1, KIND_NEXT = 2,
    OWN = 0, SCARCE, STORE, DECIDED, TWICE, PARTS, /* the parts */
    COPIES = 2, COPY_COOKIE = 3,
};

/* What one worker did in one history. It fits a page, as a message of more wants frames that lie
 * side by side, which may never come where memory is full. */
struct record {
    struct history_txn txns[ATTEMPTS];
    struct history_access accesses[ACCESSES];
    uint32_t txn_count, access_count;
};
_Static_assert(sizeof(struct record) < 4000, "a message of one page");
/* What the parent tells a worker in the words of its answers. */
enum { SAY_HISTORY, SAY_SEED, SAY_PAGES, SAY_STRIDE, SAY_WORKER, SAY_PART };

extern uint64_t base, hog_base, *stamps; /* of the pages, and the counter that all share */
static inline long call(long number, long a, long b, long c) { return kd_call3(number, a, b, c); }

static inline volatile uint64_t *word_at(uint64_t page, uint64_t word)
{
    return (volatile uint64_t *)(base + page * KD_PAGE_BYTES) + word * STEP;
}

/* The n-th item goes. */
#define LIST_REMOVE(list, n, count) \
    memmove(&(list)[n], &(list)[(n) + 1], (--(count) - (n)) * sizeof (list)[0])

/* ---- copies.c: the same pages in two objects ---- */
extern int copies[COPIES];
extern uint64_t copies_base[COPIES];
extern _Atomic long copies_moved, copies_wrong; /* rights that went; commits without one */
void copies_asked(const struct kd_message *m);
void copies_recalled(void);
void copies_say(void);
void copies_written(const struct kd_run *r);

/* ---- decided.c: a program decides about first touches in the store ---- */
extern _Atomic long decided_asked, decided_kept;
bool decided_begin(uint64_t container);
bool decided_end(void);
void decided_say(void);         /* which questions it keeps, and what it did last */

/* ---- manager.c ---- */
extern int control, object, hog, stamp_object;  /* control: the port of the parent */
extern uint64_t seed, groups, recalls, own_base;
extern uint64_t home[PAGES_MAX][WORDS], home_csn[PAGES_MAX];
/* The manager of parts OWN and SCARCE begins: are its objects and threads there? */
int manager_start(void);

#endif
