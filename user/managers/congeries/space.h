/* space.h - what the manager keeps in the store, and what space.c does with it. */
#ifndef CONGERIES_SPACE_H
#define CONGERIES_SPACE_H

#include "call.h"

enum { WORDS = UNITS / 64 };

struct block {
    uint32_t congeries, reserved;       /* 0: free */
    uint64_t used[WORDS], start[WORDS], dropped[WORDS]; /* bits of its units */
};
struct congeries { char name[CONGERIES_NAME_BYTES]; uint32_t policy, newest; };
/* Of the container NAME.blocks. */
struct root {
    struct congeries congeries[CONGERIES_MAX]; /* from 1 */
    struct block block[BLOCKS];         /* [0] is the client's root, one object */
    uint64_t collections;               /* read by commits, written by collections (CG4) */
    char *data;                         /* memory for the blocks' pages, and one page more */
};

/* Once, in a transaction: the root, the blocks' bytes, and where clients see them. */
void space_begin(struct root *root, const char *data, char *address);
/* In a transaction, one at a time: 0 or -errno. */
int space_call(struct congeries_call *c);
/* Before all in a commit's helper (CG4). */
void space_commit(void);
/* The view's commit stores to these bytes of the container; and how it ended: then they are of no
 * young object (CG2), or it is as if nothing had been. */
void space_stored(uint64_t view, uint64_t offset, uint64_t bytes);
void space_outcome(uint64_t view, int error);

#endif
