/*
 * index.c - server-kept indexes, as a program uses them: locks of keys, and a transaction's own
 * changes, which are laid over what is committed (index_look.c).
 *
 * Locks  are touches of pages that mean nothing: a right to a page is a lock, and deadlocks, time
 *        limits and the end of a transaction take care of it like of any other. Each is taken
 *        before the look that it protects, or the look is repeated behind it.
 * Changes are operations of the commit; at most one of each key. They are found by their order.
 *
 * What is uncommitted is in no page, so gaps lie between committed keys, and who inserts keeps the
 * next key's gap until its end: then the scan that waited for it finds the new key.
 */
#include "index_private.h"

#include <errno.h>
#include <string.h>

enum { EXCLUSIVE_MOST = 128, SHARED_MOST = 1024 };

static void looks_end(struct ps_tx *tx)
{
    struct looks *all = looks_of(tx);
    all->count = 0;
    for (unsigned i = 0; i < INDEXES && all->look[i].container; i++) {
        struct look *l = &all->look[i];
        l->used = 0;
        l->whole = NOT_WHOLE;
        l->shared = l->exclusive = 0;
    }
}

static const ps_container *looked_at(const struct ps_tx *tx, unsigned i)
{
    for (const struct look *l = looks_of(tx)->look; l < looks_of(tx)->look + INDEXES; l++)
        if (l->used && i-- == 0)
            return l->container;
    return NULL;
}

/* ---- locks ---- */

int lock_take(struct look *l, const struct bytes *key, enum lock which, int exclusive)
{
    unsigned hash = key ? 1 + structure_hash(0, key->at, key->length) % (INDEX_LOCKS / 2 - 1) : 0;
    uint64_t base = l->container->base + pages_of(l->container) * KD_PAGE_BYTES;
    volatile uint8_t *page = (volatile uint8_t *)(uintptr_t)base +
                             (2 * hash + which) * (uint64_t)KD_PAGE_BYTES;
    if (l->whole == WHOLE_EXCLUSIVE || (l->whole && !exclusive))
        return 0;
    unsigned *count = exclusive ? &l->exclusive : &l->shared;
    if (++*count > (exclusive ? EXCLUSIVE_MOST : SHARED_MOST)) {
        int result = (int)ps_kernel(KD_TXN_LOCK, (long)base, exclusive ? 0 : KD_LOCK_SHARED, 0);
        if (result == 0)
            l->whole = exclusive ? WHOLE_EXCLUSIVE : WHOLE_SHARED;
        return result;
    }
    if (exclusive)
        *page = 0;                      /* as it is: it is the right that is wanted */
    else
        (void)*page;
    return 0;
}

int gap_lock(struct look *l, struct bytes key, enum where where, int exclusive, struct key *found,
             uint64_t *value)
{
    struct key next;
    int is = committed_near(l, key, where, found, value), locked;
    for (;;) {
        struct bytes at = key_bytes(found);
        if (is < 0 || (locked = lock_take(l, is ? &at : NULL, LOCK_GAP, exclusive)) != 0)
            return is < 0 ? is : locked;
        if (l->stamp && look_holds(l))
            return is;
        int now = committed_near(l, key, where, &next, value);
        if (now < 0)
            return now;
        if (now == is && (!is || key_order(l, key_bytes(&next), at) == 0))
            return is;
        is = now;
        *found = next;
    }
}

/* ---- a view's indexes ---- */

/* look_of finds the active transaction's look; NULL with errno. */
static struct look *look_of(struct ps_tx *tx, ps_container *c)
{
    struct look *chosen = tx->indexes ? &looks_of(tx)->look[0] : NULL;
    if (chosen && chosen->container == c && chosen->used && chosen->generation == c->generation)
        return chosen;                  /* mostly it is the one */
    chosen = NULL;
    int kind = container_is_open(c) ? index_kind_of(c) : -1;
    int error = kind < 0 ? -EINVAL : 0;
    if (error == 0)
        error = tx_memory(&tx->indexes, &tx->indexes_size, sizeof(struct looks), 0);
    index_ended = looks_end;
    index_used = looked_at;
    for (unsigned i = 0; error == 0 && i < INDEXES; i++) {
        struct look *l = &looks_of(tx)->look[i];
        if (l->container == c && l->kind == kind) {
            l->used = 1;
            return l;
        }
        if (!l->used && (!chosen || chosen->container))
            chosen = l;
    }
    if (error == 0 && !chosen)
        error = -EMFILE;
    if (error != 0) {
        errno = -error;
        return NULL;
    }
    chosen->container = c;
    chosen->kind = kind;
    chosen->stamp = 0;
    chosen->used = 1;
    return chosen;
}

struct look *look_in_transaction(ps_container *c)
{
    struct ps_tx *tx = tx_active();
    if (!tx)
        errno = EPERM;
    return tx ? look_of(tx, c) : NULL;
}

/* ---- a transaction's own changes ---- */

struct wire_op *op_at(const struct ps_tx *tx, unsigned i)
{
    return (struct wire_op *)(void *)(tx->indexes_in->ops + looks_of(tx)->op[i]);
}

struct bytes op_key(const struct wire_op *op)
{
    return (struct bytes){(const uint8_t *)op->name, (unsigned)op->address};
}

unsigned op_search(const struct ps_tx *tx, const struct look *l, const struct bytes *key,
                   int after, int *here)
{
    unsigned low = 0, high = looks_of(tx)->count;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        const struct wire_op *op = op_at(tx, middle);
        int order = op->container < l->container->id   ? -1
                    : op->container > l->container->id ? 1
                    : !key                             ? (after ? -1 : 1)
                                                       : key_order(l, op_key(op), *key);
        if (order < 0 || (order == 0 && after))
            low = middle + 1;
        else
            high = middle;
    }
    *here = low < looks_of(tx)->count && op_at(tx, low)->container == l->container->id;
    return low;
}

/* op_find finds the change of exactly this key, or NULL. */
static struct wire_op *op_find(const struct ps_tx *tx, const struct look *l, struct bytes key)
{
    int here;
    unsigned i = op_search(tx, l, &key, 0, &here);
    return here && key_order(l, op_key(op_at(tx, i)), key) == 0 ? op_at(tx, i) : NULL;
}

static int op_add(struct ps_tx *tx, const struct look *l, struct bytes key, uint32_t kind,
                  uint64_t value)
{
    struct looks *all = looks_of(tx);
    int here;
    unsigned i = op_search(tx, l, &key, 0, &here);
    int result = tx->indexes_in && tx->indexes_in->store != l->container->store
                     ? -EXDEV : tx_ops_of(tx, l->container->store);
    uint32_t offset = (uint32_t)tx->now->bytes;
    if (result == 0)
        result = all->count == INDEX_OPS_MAX ? -E2BIG
                                             : tx_op_bytes(tx, kind, l->container, key.length,
                                                           value, key.at, key.length);
    if (result != 0)
        return result;
    tx->indexes_in = tx->now;
    memmove(&all->op[i + 1], &all->op[i], (all->count - i) * sizeof all->op[0]);
    all->op[i] = offset;
    all->count++;
    return 0;
}

/* ---- the calls ---- */

int key_refused(const struct look *l, struct bytes key)
{
    return l->kind == PS_STRINGS && key.length > INDEX_KEY_MAX ? -EOVERFLOW : 0;
}

ps_index *ps_index_open(const char *name, enum ps_index_kind kind, int flags)
{
    if ((unsigned)kind >= INDEX_KINDS) {
        errno = EINVAL;
        return error_told_by(ERROR_INDEX, NULL);
    }
    const struct ps_layout layout = { .type = index_layouts[kind], .version = 1, .bytes = 8 };
    ps_index *x = ps_open(name, flags, &layout);
    return !x && errno == EPROTO ? error_told_by(ERROR_INDEX, NULL) : x;
}

static int find(ps_index *x, const void *key, uint64_t *value)
{
    struct look *l = look_in_transaction(x);
    if (!l)
        return -errno;
    struct ps_tx *tx = tx_active();
    struct bytes probe = key_of(l, key);
    int result = key_refused(l, probe);
    if (result != 0)
        return result;
    const struct wire_op *op = op_find(tx, l, probe);
    if (op) {
        *value = op->value;
        return op->kind == WIRE_INDEX_SET ? 0 : -ENOENT;
    }
    if (!reads_only(tx))
        result = lock_take(l, &probe, LOCK_KEY, 0);
    if (result == 0)
        result = committed_find(l, key, value);
    return result < 0 ? result : result ? 0 : -ENOENT;
}

int ps_index_find(ps_index *x, const void *key, uint64_t *value)
{
    return error_told_if(ERROR_INDEX, find(x, key, value));
}

enum change { INSERT, PUT, REMOVE };

/* change_lock takes the locks of a change, and tells whether the key is there: 1, 0 or -errno. */
static int change_lock(struct ps_tx *tx, struct look *l, const void *key, struct bytes probe,
                       enum change how)
{
    struct key next;
    uint64_t value;
    int result = lock_take(l, &probe, LOCK_KEY, 1);
    int committed = result ? result : committed_find(l, key, &value);
    if (committed < 0)
        return committed;
    const struct wire_op *op = op_find(tx, l, probe);
    int is = op ? op->kind == WIRE_INDEX_SET : committed;
    if (committed && how == REMOVE)
        result = lock_take(l, &probe, LOCK_GAP, 1);
    else if (!committed && how != REMOVE && !(is && how == INSERT))
        result = gap_lock(l, probe, ABOVE, 1, &next, &value);
    return result < 0 ? result : is;
}

static int change(ps_index *x, const void *key, uint64_t value, enum change how)
{
    struct ps_tx *tx = tx_writing(x);
    struct look *l = tx ? look_of(tx, x) : NULL;
    if (!l)
        return -errno;
    struct bytes probe = key_of(l, key);
    int result = key_refused(l, probe);
    int is = result ? result : change_lock(tx, l, key, probe, how);
    if (is < 0)
        return is;
    if (is == (how == INSERT) && how != PUT)
        return how == INSERT ? -EEXIST : -ENOENT;
    uint32_t kind = how == REMOVE ? WIRE_INDEX_UNSET : WIRE_INDEX_SET;
    struct wire_op *op = op_find(tx, l, probe);
    if (!op)
        return op_add(tx, l, probe, kind, value);
    op->kind = kind;
    op->value = value;
    return 0;
}

int ps_index_insert(ps_index *x, const void *key, uint64_t value)
{
    return error_told_if(ERROR_INDEX, change(x, key, value, INSERT));
}

int ps_index_put(ps_index *x, const void *key, uint64_t value)
{
    return error_told_if(ERROR_INDEX, change(x, key, value, PUT));
}

int ps_index_remove(ps_index *x, const void *key)
{
    return error_told_if(ERROR_INDEX, change(x, key, 0, REMOVE));
}
