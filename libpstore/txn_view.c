/*
 * txn_view.c - a transaction's view that its thread has left: for a while, to do work that takes
 * locks (TX1); for another transaction (ps_suspend); or behind the library, by a kernel call of the
 * program's; what it may write; and what goes with a view.
 */
#include "pstore_private.h"

#include <errno.h>
#include <sys/mman.h>
#include <time.h>

uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

struct ps_tx *tx_writing(const ps_container *c)
{
    struct ps_tx *tx = tx_active();
    if (tx && tx->writing == c && c)
        return tx;
    int error = !tx                                   ? EPERM
                : !container_is_open(c)               ? EINVAL
                : !(c->flags & PS_WRITE)              ? EROFS
                : tx->options.isolation == PS_SNAPSHOT  ? EROFS
                : tx->options.isolation == PS_DIRTY_READ ? EROFS
                                                      : 0;
    if (error == 0) {
        tx->writing = c;
        tx->items.stored |= (uint64_t)!items_whole(tx, c) << container_index(c);
        return tx;
    }
    errno = error;
    return NULL;
}

struct ps_tx *tx_work_begin(void)
{
    struct ps_tx *tx = tx_active();
    if (tx)
        ps_kernel(KD_VIEW_ENTER, -1, 0, 0);
    return tx;
}

void tx_work_end(struct ps_tx *tx)
{
    if (tx)
        ps_kernel(KD_VIEW_ENTER, tx->view, 0, 0);
}

uint64_t tx_time_left(const struct ps_tx *tx)
{
    uint64_t now = tx && tx->options.timeout_ms ? now_ms() : 0;
    return !now ? ~0ull : now < tx->ends_ms ? tx->ends_ms - now : 0;
}

int tx_left(struct ps_tx *tx, int error)
{
    return ps_kernel(KD_VIEW_ENTER, tx->view, 0, 0) == 0 &&
           ps_kernel(KD_TXN_ABORT, error, 0, 0) == 0;
}

ps_tx *ps_suspend(void)
{
    struct ps_tx *tx = tx_active();
    int result = tx ? (int)ps_kernel(KD_VIEW_ENTER, -1, 0, 0) : -EPERM;
    if (result != 0) {
        errno = -result;
        return NULL;
    }
    tx_current = NULL;
    guard_suspended(tx, 1);
    return tx;
}

void chunks_free(struct item_chunk **list)
{
    for (struct item_chunk *c; (c = *list) != NULL;) {
        *list = c->next;
        __asm__ volatile("" ::: "memory");
        munmap(c, c->size);
    }
}
