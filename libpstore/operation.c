/*
 * operation.c - what a transaction tells the store manager with its commit: names, pages freed and
 * claimed, room; what the program wants to be run behind its end; and memory that may grow in a
 * transaction.
 */
#include "elsewhere.h"
#include "pstore_private.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define MEMORY_BYTES_MIN 4096u

int tx_memory(char **memory, size_t *size, size_t wanted, size_t kept)
{
    size_t larger = *size ? *size : MEMORY_BYTES_MIN, old_size = *size;
    while (larger < wanted)
        larger *= 2;
    if (larger == old_size)
        return 0;
    char *new = mmap(NULL, larger, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (new == MAP_FAILED)
        return -ENOMEM;
    char *old = *memory;
    if (old)
        memcpy(new, old, kept);
    *memory = new;
    *size = larger;
    if (old)
        munmap(old, old_size);
    return 0;
}

/* ---- of several stores ---- */

const struct tx_ops *tx_ops_in(const struct ps_tx *tx, const struct ps_store *store)
{
    const struct tx_ops *b = tx->batch;
    while (b < tx->batch + TX_STORES_MAX && !(b->bytes && b->store == store))
        b++;
    return b < tx->batch + TX_STORES_MAX ? b : NULL;
}

int tx_ops_of(struct ps_tx *tx, struct ps_store *store)
{
    struct tx_ops *b = (struct tx_ops *)tx_ops_in(tx, store), *any = tx->batch;
    while (!b && any < tx->batch + TX_STORES_MAX && any->bytes)
        any++;
    if (!b && any == tx->batch + TX_STORES_MAX)
        return -EXDEV;
    tx->several |= !b && tx->now->bytes;
    if (!b)
        any->store = store;
    tx->now = b ? b : any;
    return 0;
}

int tx_ops_tell(struct ps_tx *tx)
{
    int result = 0;
    if (tx->indexes_in)
        tx->now = tx->indexes_in; /* a store that votes changes no indexes */
    for (struct tx_ops *b = tx->batch; b < tx->batch + TX_STORES_MAX && result == 0; b++)
        if (b->bytes && b != tx->now) /* which decides */
            result = (int)ps_kernel(KD_TXN_BATCH, b->store->port, (long)b->ops, (long)b->bytes);
    return result == -EBADF ? -ECANCELED : result; /* as a commit (txn.c) */
}

int tx_commit_prepare(struct ps_tx *tx)
{
    int result = tx->items.accesses ? tx->items.accesses(tx) : 0;
    if (result == 0 && tx->heap.used)
        heap_commit_prepare(tx);
    if (result == 0 && tx->several)
        result = tx_ops_tell(tx);
    if (result == 0 && stores_several)
        result = stores_read_flush(tx);
    if (result == 0 && stores_elsewhere)
        result = outcome_mark(tx);
    if (result == 0 && items_declares(&tx->items))
        result = items_declare(tx);
    if (result == 0 && lint_on)
        lint_check(tx);
    return result;
}

void tx_ops_forget(struct ps_tx *tx)
{
    for (int i = 0; tx->several && i < TX_STORES_MAX; i++)
        tx->batch[i].bytes = 0;
    tx->now->bytes = tx->names = tx->now->last = 0;
    tx->several = 0;
    tx->indexes_in = NULL;
}

static void names_in(const char *ops, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        const struct wire_op *op = (const struct wire_op *)(ops + at);
        ps_container *c = ps_container_of((void *)(uintptr_t)op->address);
        if (op->kind == WIRE_NAME_SET && c)
            names_remember(c, op->name, op->address, op->value);
        at += op->op_bytes;
    }
}

void names_committed(const struct ps_tx *tx)
{
    for (int i = 0; i < TX_STORES_MAX; i++)
        names_in(tx->batch[i].ops, tx->batch[i].bytes);
}

/* ops_extend_last makes pages freed or claimed one after the other one operation. */
static int ops_extend_last(struct ps_tx *tx, uint32_t kind, ps_container *c, uint64_t address,
                           uint64_t pages)
{
    if ((kind != WIRE_PAGE_FREE && kind != WIRE_PAGE_CLAIM) || tx->now->bytes == 0)
        return 0;
    struct wire_op *last = (struct wire_op *)(tx->now->ops + tx->now->last);
    if (last->kind != kind || last->container != c->id ||
        last->address + last->value * KD_PAGE_BYTES != address)
        return 0;
    last->value += pages;
    return 1;
}

int tx_op(struct ps_tx *tx, uint32_t kind, ps_container *c, uint64_t address, uint64_t value,
          const char *name)
{
    return tx_op_bytes(tx, kind, c, address, value, name, name ? strlen(name) : 0);
}

int tx_op_bytes(struct ps_tx *tx, uint32_t kind, ps_container *c, uint64_t address,
                uint64_t value, const void *name, size_t length)
{
    size_t bytes = (sizeof(struct wire_op) + (name ? length + 1 : 0) + 7) & ~(size_t)7;
    int result = tx->now->bytes && tx->now->store == c->store ? 0 : tx_ops_of(tx, c->store);
    if (result != 0)
        return result;
    if (ops_extend_last(tx, kind, c, address, value))
        return 0;
    if (tx->now->bytes + bytes > tx->now->size &&
        tx_memory(&tx->now->ops, &tx->now->size, tx->now->bytes + bytes, tx->now->bytes) != 0)
        return -ENOMEM;

    struct wire_op *op = (struct wire_op *)(tx->now->ops + tx->now->bytes);
    memset(op, 0, bytes);
    op->kind = kind;
    op->op_bytes = (uint32_t)bytes;
    op->container = c->id;
    op->address = address;
    op->value = value;
    if (name)
        memcpy(op->name, name, length);
    tx->now->last = tx->now->bytes;
    tx->names += kind == WIRE_NAME_SET || kind == WIRE_NAME_UNSET;
    tx->now->bytes += bytes;
    return 0;
}

/* ---- functions for its end ---- */

static int hook_add(void (*function)(void *argument), void *argument, int commit)
{
    struct ps_tx *tx = tx_active();
    if (!tx || !function)
        return tx ? -EINVAL : -EPERM;
    if (tx->hook_count == PS_HOOKS_MAX)
        return -ENOSPC;
    tx->hook[tx->hook_count] = (struct hook){function, argument, commit};
    tx->hook_count++;
    return 0;
}

int ps_on_commit(void (*function)(void *argument), void *argument)
{
    return error_told(ERROR_OTHER, hook_add(function, argument, 1));
}

int ps_on_abort(void (*function)(void *argument), void *argument)
{
    return error_told(ERROR_OTHER, hook_add(function, argument, 0));
}
