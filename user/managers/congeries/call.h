/*
 * call.h - what is said to /bin/congeries, the manager of a congeries container
 * (managers.md): `km_call_beside(c, NAME, &call, sizeof call)`, NAME being the container's.
 *
 * Each call is done for good when it returns: an abort of the caller's transaction does not take it
 * back. So add before the object is linked, and drop behind the commit that unlinked it
 * (ps_on_commit); what was added in vain is garbage.
 */
#ifndef USER_MANAGERS_CONGERIES_CALL_H
#define USER_MANAGERS_CONGERIES_CALL_H

#include <stdint.h>

enum {
    BLOCK_BYTES = 16384, UNIT_BYTES = 16, UNITS = BLOCK_BYTES / UNIT_BYTES,
    BLOCKS = 128, CONGERIES_MAX = 16, CONGERIES_NAME_BYTES = 24,
};
enum congeries_what {
    CONGERIES_MAKE,     /* name, policy -> congeries; one of this name may be there already */
    CONGERIES_EXPAND,   /* congeries, count -> count: blocks added */
    CONGERIES_ADD,      /* congeries, bytes up to a block's -> address; its bytes may be anything */
    CONGERIES_DROP,     /* address of an object */
    CONGERIES_COLLECT,  /* congeries -> count: objects freed that nothing leads to */
    CONGERIES_RELEASE,  /* congeries -> count: blocks given back */
    CONGERIES_COUNT,    /* congeries -> blocks, objects, bytes (whole units) */
    CONGERIES_PID,      /* -> count: the manager's process */
};
struct congeries_call {
    int32_t what, error;                /* error: 0 or -errno */
    uint32_t congeries, count;
    uint64_t address, bytes;
    uint32_t blocks, objects;
    char name[CONGERIES_NAME_BYTES], policy[8];
};

#endif
