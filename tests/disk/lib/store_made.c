/*
 * store_made.c - see store_made.h.
 */
#include "store_made.h"

#include "device.h"
#include "internal.h"

struct store *store_made(const struct disk_io *io, uint64_t log_bytes, uint64_t *object)
{
    struct store_options format = { .uuid = { 7 }, .log_bytes = log_bytes };
    struct store_op op = { .type = STORE_OP_CREATE, .name = "c" };
    struct store_report report;
    struct store_group *group;
    struct store *store = NULL;
    uint32_t position;
    int error = store_format(io, &test_memory, &format) ?:
                store_open(io, &test_memory, NULL, &store, &report) ?:
                store_group_begin(store, &group) ?: store_txn_begin(group, 1) ?:
                store_txn_op(group, &op) ?: store_txn_end(group, &position) ?:
                store_group_seal(group) ?: store_group_write(group) ?: store_group_apply(group);
    *object = op.object;
    return error ? NULL : store;
}
