/*
 * index_range.c - generators of indexes that the store manager keeps: what is committed and what
 * the transaction has changed, in one order. Each key passed is locked with the gap before it.
 */
#include "index_private.h"

#include <errno.h>
#include <string.h>

enum { RANGE_NEW, RANGE_WITHIN, RANGE_OVER };

struct ps_index_range ps_index_range_open(ps_index *x, const void *from, const void *to, int how)
{
    return (struct ps_index_range){ .index = x, .from = from, .to = to, .how = how,
                                    .error = how & ~(PS_DOWN | PS_BELOW) ? -EINVAL : 0 };
}

void ps_index_range_close(struct ps_index_range *r)
{
    r->state = RANGE_OVER;
}

const void *ps_index_key(const struct ps_index_range *r)
{
    return r->key;
}

/* is_beyond tells whether the key lies behind the range's end, in its direction. */
static int is_beyond(const struct look *l, const struct ps_index_range *r, struct bytes key)
{
    const void *bound = r->how & PS_DOWN ? r->from : r->to;
    if (!bound)
        return 0;
    int order = key_order(l, key, key_of(l, bound));
    return r->how & PS_DOWN ? order < 0 : order > 0 || (order == 0 && r->how & PS_BELOW);
}

/* where_next tells where the range's next key is: what to look for. */
static enum where where_next(const struct ps_index_range *r)
{
    if (r->state == RANGE_WITHIN)
        return r->how & PS_DOWN ? BELOW : ABOVE;
    if (r->how & PS_DOWN)
        return !r->to ? LAST : r->how & PS_BELOW ? BELOW : BELOW_OR_AT;
    return r->from ? AT_OR_ABOVE : FIRST;
}

static struct bytes key_from(const struct look *l, const struct ps_index_range *r)
{
    const void *start = r->how & PS_DOWN ? r->to : r->from;
    if (r->state == RANGE_WITHIN)
        return (struct bytes){r->key, r->length};
    return start ? key_of(l, start) : (struct bytes){0};
}

/* gap_above_lock locks the gap in which a range down begins, before the first key above it. */
static int gap_above_lock(struct look *l, const struct ps_index_range *r)
{
    struct key found;
    uint64_t value;
    if (!r->to)
        return lock_take(l, NULL, LOCK_GAP, 0);
    int is = gap_lock(l, key_of(l, r->to), r->how & PS_BELOW ? AT_OR_ABOVE : ABOVE, 0, &found,
                      &value);
    return is < 0 ? is : 0;
}

/* committed_next finds the next committed key, locked with the gap before it; behind the range's
 * end it locks only the gap that a range upwards ends in. 1, 0 or -errno. */
static int committed_next(const struct ps_tx *tx, struct look *l, const struct ps_index_range *r,
                          struct key *found, uint64_t *value)
{
    struct bytes key = key_from(l, r);
    enum where where = where_next(r);
    if (reads_only(tx))
        return committed_near(l, key, where, found, value);
    for (;;) {
        int is = r->how & PS_DOWN ? committed_near(l, key, where, found, value)
                                  : gap_lock(l, key, where, 0, found, value);
        struct bytes at = key_bytes(found);
        if (is <= 0 || is_beyond(l, r, at))
            return is;
        int result = lock_take(l, &at, LOCK_KEY, 0);
        if (result == 0 && r->how & PS_DOWN)
            result = lock_take(l, &at, LOCK_GAP, 0);
        if (result != 0 || look_holds(l))
            return result < 0 ? result : is;
        struct key again;
        int now = committed_near(l, key, where, &again, value);
        if (now < 0 || (now && key_order(l, key_bytes(&again), at) == 0))
            return now;
    }
}

/* op_next finds the transaction's next change in that direction, or NULL. */
static struct wire_op *op_next(const struct ps_tx *tx, const struct look *l,
                               const struct ps_index_range *r)
{
    struct bytes key = key_from(l, r);
    enum where where = where_next(r);
    int here, back = r->how & PS_DOWN;
    int after = where == ABOVE || where == BELOW_OR_AT || where == LAST;
    unsigned i = op_search(tx, l, where == FIRST || where == LAST ? NULL : &key, after, &here);
    if (back && (i == 0 || op_at(tx, i - 1)->container != l->container->id))
        return NULL;
    return back ? op_at(tx, i - 1) : here ? op_at(tx, i) : NULL;
}

/* range_step goes a step: 1: a key is there; 2: this transaction removed it; 0: the end; -errno. */
static int range_step(const struct ps_tx *tx, struct look *l, struct ps_index_range *r)
{
    struct key found;
    int back = r->how & PS_DOWN;
    int is = back && r->state == RANGE_NEW && !reads_only(tx) ? gap_above_lock(l, r) : 0;
    if (is == 0)
        is = committed_next(tx, l, r, &found, &r->value);
    if (is < 0)
        return is;
    const struct wire_op *op = op_next(tx, l, r);
    if (!op && !is)
        return 0;
    int order = !op ? 1 : !is ? 0 : key_order(l, op_key(op), key_bytes(&found));
    int own = op && (!is || (back ? order >= 0 : order <= 0));
    struct bytes next = own ? op_key(op) : key_bytes(&found);
    if (is_beyond(l, r, next))
        return 0;
    r->length = next.length;
    memcpy(r->key, next.at, next.length);
    r->key[next.length] = 0;
    r->state = RANGE_WITHIN;
    if (own)
        r->value = op->value;
    return own && op->kind == WIRE_INDEX_UNSET ? 2 : 1;
}

const uint64_t *ps_index_next(struct ps_index_range *r)
{
    struct look *l = look_in_transaction(r->index);
    if (r->error == 0 && !l)
        r->error = -errno;
    if (r->error == 0 && ((r->from && key_refused(l, key_of(l, r->from))) ||
                          (r->to && key_refused(l, key_of(l, r->to)))))
        r->error = -EOVERFLOW;
    int is = r->error ? r->error : r->state == RANGE_OVER ? 0 : 2;
    while (is == 2)
        is = range_step(tx_active(), l, r);
    if (is > 0)
        return &r->value;
    r->error = error_told_if(ERROR_INDEX, is);
    r->state = RANGE_OVER;
    errno = -is;
    return NULL;
}
