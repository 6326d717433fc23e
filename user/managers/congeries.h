/*
 * congeries.h - what is said to /bin/congeries, the manager of a congeries container
 * (managers.md): `km_call_beside(c, NAME, &call, sizeof call)`, NAME being the container's.
 *
 * Each call is done for good when it returns: an abort of the caller's transaction does not take it
 * back. So add before the object is linked, and drop behind the commit that unlinked it
 * (ps_on_commit); what was added in vain is garbage.
 */
#ifndef USER_MANAGERS_CONGERIES_H
#define USER_MANAGERS_CONGERIES_H

#include <stdint.h>

enum {
    BLOCK_BYTES = 16384, UNIT_BYTES = 16, UNITS = BLOCK_BYTES / UNIT_BYTES,
    BLOCKS = 128, ALL = BLOCKS * UNITS, CONGERIES_MAX = 16, CONGERIES_NAME_BYTES = 24,
};
enum congeries_policy { CONGERIES_PLAIN, CONGERIES_TIGHT, CONGERIES_LOG, CONGERIES_POLICIES };
enum congeries_what {
    CONGERIES_MAKE,     /* name, policy -> congeries; one of this name may be there already */
    CONGERIES_EXPAND,   /* congeries, count -> count: blocks added */
    CONGERIES_ADD,      /* congeries, bytes up to a block's -> address; its bytes may be anything */
    CONGERIES_DROP,     /* address of an object */
    CONGERIES_COLLECT,  /* congeries -> count: objects freed that nothing leads to */
    CONGERIES_RELEASE,  /* congeries -> count: blocks given back */
    CONGERIES_COUNT,    /* congeries -> blocks, objects */
};
struct congeries_call {
    int32_t what, error;                /* error: 0 or -errno */
    uint32_t congeries, count, policy, blocks, objects;
    uint64_t address, bytes;
    char name[CONGERIES_NAME_BYTES];
};

/* What is kept, of the container NAME.blocks. */
struct congeries_root {
    struct congeries { char name[CONGERIES_NAME_BYTES]; uint32_t policy; }
        congeries[CONGERIES_MAX];       /* from 1 */
    uint8_t owner[BLOCKS];              /* each block's congeries, or 0; [0] is the client's root */
    uint8_t unit[ALL];                  /* those of the root are an object each */
    uint64_t word[ALL][UNIT_BYTES / 8]; /* what they hold */
};

#endif
