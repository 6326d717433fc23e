/*
 * manager_store.h - a manager that is a whole store: ps_connect(NAME), and all of libpstore works
 * on it (containers, objects, names, transactions, snapshots), with whatever policy its pages have.
 * user/managers/volatile.c is the smallest one. Nothing of it is kept but by the policy.
 *
 * It has 16 containers, of 128 programs and 256 names each. Not there, -ENOSYS: room hints, indexes
 * of the store's, encoders, watches (ps_retry), backup.
 */
#ifndef KATYDID_MANAGER_STORE_H
#define KATYDID_MANAGER_STORE_H

#include "manager.h"

struct km_store {
    const char *name;                   /* what ps_connect finds */
    uint64_t pages;                     /* of each container */
    int scratch;                        /* a container ends with its last user */
    /* `ops` are of each container's pages. `call` has no use. Without `clean` dirty pages stay, and
     * where memory is full a transaction gets ENOMEM; nobody waits. NULL: that, and zero fill. */
    const struct km_ops *ops;
    void *user;                         /* requests have it */
    /* `freed`: this page holds nothing any more, and is not in memory; it is zero when asked. */
    void (*freed)(struct km_object *o, uint64_t page);
};
/* km_store_serve serves it, with so many threads for pages; returns only on error, -errno: -EEXIST,
 * -EPERM as km_create, -EINVAL. */
int km_store_serve(const struct km_store *s, int threads);

#endif
