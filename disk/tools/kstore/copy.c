/*
 * copy.c - fills a store through its own interface: one transaction per operation or page, groups
 * as large as they get, pages home at once, checkpoints when they are due. Votes and decisions that
 * are in the store are written again when that is due, as the store manager does it.
 */
#include "salvage.h"
#include "mend.h"

#include <stdlib.h>
#include <string.h>

#define TRIES 4                         /* in a new group, behind a checkpoint; again, with another
                                         * one, if what is in doubt had to be written again first */

int copy_begin(struct copy *copy)
{
    struct store_report report;
    copy->io = image_disk_io(copy->to_image);
    return store_open(&copy->io, &host_memory, NULL, &copy->to, &report);
}

/* All pages are home already, so a checkpoint has nothing to wait for. */
static int checkpoint(struct copy *copy)
{
    int error = mend_checkpoint(copy->to);
    return error ? error : mend_checkpoint(copy->to);
}

static int page_home(struct copy *copy, const struct copied *page)
{
    struct store_page found;
    int error = store_page_find(copy->to, page->object, page->page, &found);
    if (error || !found.dirty)
        return error;
    error = copy->io.write(copy->io.context, found.offset_bytes, page->bytes, STORE_PAGE_BYTES);
    return error ? error : store_page_cleaned(copy->to, page->object, page->page, found.lsn,
                                              crc32c(0, page->bytes, STORE_PAGE_BYTES));
}

static int group_end(struct store_group *group)
{
    int error = store_group_seal(group);
    if (!error)
        error = store_group_write(group);
    int applied = store_group_apply(group);
    return error ? error : applied;
}

/* doubts_renew writes again what is in doubt and due, before the next group (SB5, TP2). */
static int doubts_renew(struct copy *copy)
{
    int error = 0;
    while (!error && store_doubts_due(copy->to)) {
        struct store_group *group;
        error = store_group_begin(copy->to, &group);
        int more = error ? error : store_doubts_renew(group);
        if (!error && more < 0)
            store_group_cancel(group);
        error = more < 0 ? more : group_end(group);
    }
    return error;
}

static int group_commit(struct copy *copy)
{
    struct store_group *group = copy->group;
    copy->group = NULL;
    if (!group)
        return 0;
    if (!store_group_txns(group)) {
        store_group_cancel(group);
        return 0;
    }
    int error = group_end(group);
    for (uint32_t i = 0; i < copy->pending_count; i++) {
        if (!error)
            error = page_home(copy, &copy->pending[i]);
        free(copy->pending[i].bytes);
    }
    copy->pending_count = 0;
    if (!error && store_should_checkpoint(copy->to))
        error = checkpoint(copy);
    return error;
}

/* txn_run writes one transaction: an operation, or else a page. */
static int txn_run(struct copy *copy, struct store_op *op, uint64_t object, uint64_t page,
                   const uint8_t *bytes)
{
    uint32_t position;
    int error = copy->group ? 0 : doubts_renew(copy);
    if (!error && !copy->group)
        error = store_group_begin(copy->to, &copy->group);
    if (!error)
        error = store_txn_begin(copy->group, 0);
    if (error)
        return error;
    if (op)
        store_txn_op(copy->group, op);
    else
        store_txn_page(copy->group, object, page, bytes);
    return store_txn_end(copy->group, &position);
}

/* Again in a new group when this one is full, and after checkpoints when the log is. */
static int txn_retry(struct copy *copy, struct store_op *op, uint64_t object, uint64_t page,
                     const uint8_t *bytes)
{
    int error = txn_run(copy, op, object, page, bytes);
    for (int try = 0; try < TRIES && (error == -ENOBUFS || error == -EAGAIN); try++) {
        int committed = group_commit(copy);
        if (!committed && (error == -EAGAIN || try))
            committed = checkpoint(copy);
        if (committed)
            return committed;
        error = txn_run(copy, op, object, page, bytes);
    }
    return error;
}

int copy_op(struct copy *copy, struct store_op *op)
{
    int error = txn_retry(copy, op, 0, 0, NULL);
    int committed = group_commit(copy);         /* later operations build on it */
    return error ? error : committed;
}

int copy_page(struct copy *copy, uint64_t object, uint64_t page, const uint8_t *bytes)
{
    int error = txn_retry(copy, NULL, object, page, bytes);
    if (error)
        return error;
    if (!karray_room((void **)&copy->pending, copy->pending_count, &copy->pending_room,
                     sizeof *copy->pending))
        return -ENOMEM;
    struct copied *kept = &copy->pending[copy->pending_count];
    *kept = (struct copied){ object, page, malloc(STORE_PAGE_BYTES) };
    if (!kept->bytes)
        return -ENOMEM;
    memcpy(kept->bytes, bytes, STORE_PAGE_BYTES);
    copy->pending_count++;
    copy->pages++;
    return 0;
}

int copy_end(struct copy *copy, bool close, int error)
{
    if (!error)
        error = group_commit(copy);
    for (uint32_t i = 0; i < copy->pending_count; i++)
        free(copy->pending[i].bytes);
    free(copy->pending);
    if (error || !close)
        store_abandon(copy->to);
    else
        error = store_close(copy->to);
    return error;
}
