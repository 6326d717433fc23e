/* node.c - a node of records in the order of their keys: entries, search, prefix, and how nodes are
 * cut and joined. */
#include "node.h"

#include <string.h>

static unsigned rounded(unsigned bytes, unsigned to)
{
    return (bytes + to - 1) & ~(to - 1);
}

/* Bytes of an entry up to a record of variable size, whose key is stored with that many bytes. */
static unsigned front_bytes(const struct ps_access *a, unsigned level, unsigned length)
{
    const unsigned fixed = a->shape[level > 0].entry_bytes;
    return fixed ? fixed
                 : rounded(a->shape[level > 0].key_at + 2 + length, a->shape[level > 0].align);
}

unsigned node_entry_bytes(const struct ps_access *a, unsigned level, unsigned length,
                          unsigned record)
{
    return front_bytes(a, level, length) + rounded(record, a->shape[0].align);
}

static unsigned prefix_bytes(const struct ps_access *a, unsigned prefix)
{
    return rounded(prefix, a->shape[0].align);
}

static struct bytes prefix_of(const struct ps_access *a, const struct ps_node *n)
{
    return (struct bytes){ (const uint8_t *)n + a->head->node_bytes - n->prefix, n->prefix };
}

void node_init(struct ps_access *a, struct ps_node *n, unsigned level)
{
    *n = (struct ps_node){ .level = (uint16_t)level, .heap = (uint16_t)a->head->node_bytes };
}

static void *payload(const struct ps_node *n, unsigned i)
{
    return (uint8_t *)(uintptr_t)n + n->slot[i];
}

struct bytes node_suffix(const struct ps_access *a, const struct ps_node *n, unsigned i)
{
    const uint8_t *key = (const uint8_t *)n + n->slot[i] + node_key_at(a, n);
    if (a->type->key_bytes)
        return (struct bytes){ key, a->type->key_bytes };
    return (struct bytes){ key + 2, *(const uint16_t *)(const void *)key };
}

void *node_record(const struct ps_access *a, const struct ps_node *n, unsigned i)
{
    unsigned skip = 0;
    if (a->type->variable && n->level == 0)
        skip = front_bytes(a, 0, node_suffix(a, n, i).length);
    return (uint8_t *)payload(n, i) + skip;
}

unsigned node_record_bytes(const struct ps_access *a, const struct ps_node *n, unsigned i)
{
    return a->type->variable && n->level == 0 ? *(const uint16_t *)payload(n, i) : 0;
}

static unsigned entry_bytes(const struct ps_access *a, const struct ps_node *n, unsigned i)
{
    return node_entry_bytes(a, n->level, node_suffix(a, n, i).length, node_record_bytes(a, n, i));
}

/* The whole key; strings are put together in copy, with a 0 behind them. */
struct bytes node_key(const struct ps_access *a, const struct ps_node *n, unsigned i, uint8_t *copy)
{
    struct bytes prefix = prefix_of(a, n), suffix = node_suffix(a, n, i);
    memcpy(copy, prefix.at, prefix.length);
    memcpy(copy + prefix.length, suffix.at, suffix.length);
    copy[prefix.length + suffix.length] = 0;
    return (struct bytes){ copy, prefix.length + suffix.length };
}

struct ps_node *node_child(const struct ps_node *n, unsigned i)
{
    return i == 0 ? n->first : *(struct ps_node **)payload(n, i - 1);
}

unsigned node_key_max(const struct ps_access *a)
{
    unsigned strings = a->head->node_bytes / 16;
    return a->type->key_bytes ? a->type->key_bytes : strings < PS_KEY_MAX ? strings : PS_KEY_MAX;
}

/* ---- order ---- */

unsigned node_common(struct bytes a, struct bytes b)
{
    unsigned i = 0, least = a.length < b.length ? a.length : b.length;
    while (i < least && a.at[i] == b.at[i])
        i++;
    return i;
}

static int bytes_compare(struct bytes a, struct bytes b)
{
    int c = memcmp(a.at, b.at, a.length < b.length ? a.length : b.length);
    return c != 0 ? c : (a.length > b.length) - (a.length < b.length);
}

/* The tree's order of two keys, or of two that have lost the same prefix. */
int node_order(const struct ps_access *a, struct bytes left, struct bytes right)
{
    if (a->descending) {
        struct bytes swapped = left;
        left = right;
        right = swapped;
    }
    return a->compare ? a->compare(left.at, right.at) : bytes_compare(left, right);
}

/* The key against the node's prefix, in the tree's order: 0 if it has that prefix. */
static int prefix_compare(const struct ps_access *a, struct bytes key, const struct ps_node *n)
{
    struct bytes prefix = prefix_of(a, n);
    unsigned common = node_common(key, prefix);
    int c = common == prefix.length ? 0
            : common == key.length  ? -1
                                    : key.at[common] - prefix.at[common];
    return a->descending ? -c : c;
}

int node_compare(const struct ps_access *a, struct bytes key, const struct ps_node *n, unsigned i)
{
    int c = n->prefix ? prefix_compare(a, key, n) : 0;
    return c != 0 ? c
                  : node_order(a, (struct bytes){ key.at + n->prefix, key.length - n->prefix },
                               node_suffix(a, n, i));
}

/* The search among keys of one size in ascending order, where nothing has to be found out for each
 * of them, by an order that the type has not in its own search. */
__attribute__((noinline)) static unsigned search_fixed(const struct ps_access *a,
                                                       const struct ps_node *n,
                                                       const uint8_t *key, int how)
{
    int (*const compare)(const void *, const void *) = a->compare;
    const uint8_t *keys = (const uint8_t *)n + node_key_at(a, n);
    const uint16_t *low = n->slot;
    const int least = !(how & NODE_UPPER);
    unsigned count = n->count, half = how & NODE_AT_END ? count - 1 : count / 2;
    for (; count > 0; half = count / 2) {
        if (compare(key, keys + low[half]) >= least) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return (unsigned)(low - n->slot);
}

__attribute__((noinline)) static unsigned search_any(const struct ps_access *a,
                                                     const struct ps_node *n, struct bytes key,
                                                     int how)
{
    unsigned low = 0, high = n->count;
    if (n->prefix) {
        int c = prefix_compare(a, key, n);
        if (c != 0)
            return c < 0 ? 0 : n->count;
        key = (struct bytes){ key.at + n->prefix, key.length - n->prefix };
    }
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (node_order(a, key, node_suffix(a, n, middle)) >= !(how & NODE_UPPER))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

unsigned node_search_untyped(const struct ps_access *a, const struct ps_node *n, struct bytes key,
                             int how)
{
    return a->type->key_bytes && !a->descending ? search_fixed(a, n, key.at, how)
                                                : search_any(a, n, key, how);
}

/* ---- room ---- */

unsigned node_used(const struct ps_node *n)
{
    return n->live + n->count * (unsigned)sizeof n->slot[0];
}

static unsigned capacity(const struct ps_access *a)
{
    return a->head->node_bytes - (unsigned)sizeof(struct ps_node);
}

int node_is_small(const struct ps_access *a, const struct ps_node *n)
{
    return node_used(n) < capacity(a) / 3;
}

/* Bytes that slots first..end would use behind a prefix of that length. */
static unsigned bytes_with(const struct ps_access *a, const struct ps_node *n, unsigned first,
                           unsigned end, unsigned prefix)
{
    unsigned sum = (end - first) * (unsigned)sizeof n->slot[0];
    for (unsigned i = first; i < end; i++)
        sum += node_entry_bytes(a, n->level, node_suffix(a, n, i).length + n->prefix - prefix,
                                node_record_bytes(a, n, i));
    return sum;
}

/* The prefix that the node can keep when this key comes. */
static unsigned prefix_with(const struct ps_access *a, const struct ps_node *n, struct bytes key)
{
    return n->prefix ? node_common(key, prefix_of(a, n)) : 0;
}

int node_has_room(const struct ps_access *a, const struct ps_node *n, struct bytes key,
                  unsigned record)
{
    unsigned prefix = prefix_with(a, n, key);
    unsigned used = prefix == n->prefix
                        ? node_used(n)
                        : bytes_with(a, n, 0, n->count, prefix) + prefix_bytes(a, prefix);
    return used + 2 + node_entry_bytes(a, n->level, key.length - prefix, record) <=
           capacity(a) * (unsigned)a->fill / 100;
}

int node_has_room_for(const struct ps_access *a, const struct ps_node *n, unsigned i,
                      unsigned record)
{
    unsigned without = node_used(n) - rounded(node_record_bytes(a, n, i), a->shape[0].align);
    return without + rounded(record, a->shape[0].align) <= capacity(a);
}

/* ---- entries ---- */

static void prefix_set(struct ps_access *a, struct ps_node *n, const uint8_t *from, unsigned length)
{
    unsigned bytes = prefix_bytes(a, length);
    n->prefix = (uint16_t)length;
    n->live = (uint16_t)bytes;
    n->heap = (uint16_t)(a->head->node_bytes - bytes);
    memcpy((uint8_t *)n + a->head->node_bytes - length, from, length);
}

static void copy_16(uint16_t *to, const uint16_t *from) { memcpy(to, from, 16); }

/* Makes room for slot i, from the last slot down, eight at a time: memmove goes upwards byte by
 * byte. The lowest eight may lie over those above, and are read first. */
static inline void slots_rise(struct ps_node *n, unsigned i)
{
    uint16_t *slot = &n->slot[i], lowest[8];
    unsigned count = n->count - i;
    if (count >= 8) {
        copy_16(lowest, slot);
        for (; count > 8; count -= 8)
            copy_16(slot + count - 7, slot + count - 8);
        copy_16(slot + 1, lowest);
        return;
    }
    if (count >= 4) {
        memcpy(lowest, slot + count - 4, 8);
        memcpy(slot + count - 3, lowest, 8);
        count -= 4;
    }
    if (count > 2)
        slot[3] = slot[2];
    if (count > 1)
        slot[2] = slot[1];
    if (count > 0)
        slot[1] = slot[0];
}

/* Lays an entry with such a key, which the caller writes, below all others. */
static uint8_t *entry_make(struct ps_access *a, struct ps_node *n, unsigned i, unsigned length,
                           unsigned record)
{
    unsigned bytes = node_entry_bytes(a, n->level, length, record);
    slots_rise(n, i);
    n->heap = (uint16_t)(n->heap - bytes);
    n->live = (uint16_t)(n->live + bytes);
    n->slot[i] = n->heap;
    n->count++;
    uint8_t *key = (uint8_t *)n + n->heap + node_key_at(a, n);
    if (a->type->variable && n->level == 0)
        *(uint16_t *)payload(n, i) = (uint16_t)record;
    if (a->type->key_bytes)
        return key;
    *(uint16_t *)(void *)key = (uint16_t)length;
    return key + 2;
}

/* The same of entries of one size, which are copied as they are. */
static void append_fixed(struct ps_node *n, const struct ps_node *from, unsigned first,
                         unsigned end, unsigned entry_bytes)
{
    for (unsigned i = first; i < end; i++) {
        n->heap = (uint16_t)(n->heap - entry_bytes);
        n->slot[n->count++] = n->heap;
        memcpy(payload(n, n->count - 1u), payload(from, i), entry_bytes);
    }
    n->live = (uint16_t)(n->live + (end - first) * entry_bytes);
}

void node_append(struct ps_access *a, struct ps_node *n, const struct ps_node *from, unsigned first,
                 unsigned end)
{
    _Alignas(16) uint8_t key[KEY_COPY];
    const unsigned fixed = a->type->variable ? 0 : a->shape[n->level > 0].entry_bytes;
    if (fixed) {
        append_fixed(n, from, first, end, fixed);
        return;
    }
    for (unsigned i = first; i < end; i++) {
        struct bytes whole = node_key(a, from, i, key);
        unsigned record = node_record_bytes(a, from, i);
        uint8_t *copy = entry_make(a, n, n->count, whole.length - n->prefix, record);
        memcpy(copy, whole.at + n->prefix, whole.length - n->prefix);
        memcpy(payload(n, n->count - 1u), payload(from, i), node_key_at(a, n));
        if (record)
            memcpy(node_record(a, n, n->count - 1u), node_record(a, from, i), record);
    }
}

void node_fill(struct ps_access *a, struct ps_node *n, const struct ps_node *from, unsigned first,
               unsigned end)
{
    _Alignas(16) uint8_t low[KEY_COPY], high[KEY_COPY];
    if (!a->type->key_bytes && n->level == 0 && end > first) {
        struct bytes lowest = node_key(a, from, first, low);
        prefix_set(a, n, low, node_common(lowest, node_key(a, from, end - 1, high)));
    }
    node_append(a, n, from, first, end);
}

/* Lays all entries anew, without holes, behind a prefix that all their keys share. */
static void node_pack(struct ps_access *a, struct ps_node *n, unsigned prefix)
{
    _Alignas(16) uint8_t copy[PS_NODE_MAX], low[KEY_COPY];
    const struct ps_node *old = (const struct ps_node *)(const void *)copy;
    memcpy(copy, n, a->head->node_bytes);
    node_init(a, n, old->level);
    n->first = old->first;
    n->depth = old->depth;
    struct bytes from = prefix > old->prefix ? node_key(a, old, 0, low) : prefix_of(a, old);
    prefix_set(a, n, from.at, prefix);
    node_append(a, n, old, 0, old->count);
}

void *node_place(struct ps_access *a, struct ps_node *n, unsigned i, struct bytes key,
                 unsigned record)
{
    unsigned prefix = prefix_with(a, n, key);
    unsigned end = (unsigned)sizeof *n + 2 * (n->count + 1u);
    if (prefix != n->prefix ||
        n->heap < end + node_entry_bytes(a, n->level, key.length - prefix, record))
        node_pack(a, n, prefix);
    memcpy(entry_make(a, n, i, key.length - prefix, record), key.at + prefix, key.length - prefix);
    return node_record(a, n, i);
}

/* memcpy, without a call for the sizes that most keys and records have. */
static inline void copy(void *to, const void *from, unsigned bytes)
{
    if (bytes == 4)
        memcpy(to, from, 4);
    else if (bytes == 8)
        memcpy(to, from, 8);
    else
        memcpy(to, from, bytes);
}

int node_insert_fixed(struct ps_access *a, struct ps_node *n, unsigned i, const void *key,
                      const void *record)
{
    const struct ps_type *t = a->type;
    const unsigned bytes = a->shape[0].entry_bytes;
    if (node_used(n) + sizeof n->slot[0] + bytes > capacity(a) * (unsigned)a->fill / 100)
        return 0;
    if (n->heap < sizeof *n + sizeof n->slot[0] * (n->count + 1u) + bytes)
        node_pack(a, n, 0);
    slots_rise(n, i);
    n->heap = (uint16_t)(n->heap - bytes);
    n->live = (uint16_t)(n->live + bytes);
    n->slot[i] = n->heap;
    n->count++;
    uint8_t *entry = payload(n, i);
    copy(entry, record, t->record_bytes);
    copy(entry + a->shape[0].key_at, key, t->key_bytes);
    return 1;
}

void node_erase(struct ps_access *a, struct ps_node *n, unsigned i)
{
    unsigned bytes = entry_bytes(a, n, i);
    n->live = (uint16_t)(n->live - bytes);
    if (n->slot[i] == n->heap)
        n->heap = (uint16_t)(n->heap + bytes);
    memmove(&n->slot[i], &n->slot[i + 1], (n->count - i - 1u) * sizeof n->slot[0]);
    n->count--;
}

void *node_resize(struct ps_access *a, struct ps_node *n, unsigned i, struct bytes key,
                  unsigned record)
{
    unsigned align = a->shape[0].align;
    if (rounded(record, align) != rounded(node_record_bytes(a, n, i), align)) {
        node_erase(a, n, i);
        return node_place(a, n, i, key, record);
    }
    *(uint16_t *)payload(n, i) = (uint16_t)record;
    return node_record(a, n, i);
}

/* ---- joining ---- */

/* The prefix of both together: of the first and the last key. */
static unsigned join_prefix(const struct ps_access *a, const struct ps_node *left,
                            const struct ps_node *right)
{
    _Alignas(16) uint8_t low[KEY_COPY], high[KEY_COPY];
    if (a->type->key_bytes || left->level > 0)
        return 0;
    const struct ps_node *begin = left->count ? left : right, *end = right->count ? right : left;
    if (begin->count == 0)
        return 0;
    return node_common(node_key(a, begin, 0, low), node_key(a, end, end->count - 1u, high));
}

int node_join_fits(const struct ps_access *a, const struct ps_node *left,
                   const struct ps_node *right, struct bytes between)
{
    unsigned prefix = join_prefix(a, left, right);
    unsigned parting = left->level ? 2 + node_entry_bytes(a, left->level, between.length, 0) : 0;
    return prefix_bytes(a, prefix) + bytes_with(a, left, 0, left->count, prefix) + parting +
               bytes_with(a, right, 0, right->count, prefix) <=
           capacity(a);
}

void node_join(struct ps_access *a, struct ps_node *left, const struct ps_node *right,
               struct bytes between)
{
    _Alignas(16) uint8_t low[KEY_COPY] = { 0 };
    unsigned prefix = join_prefix(a, left, right);
    if (prefix)
        node_key(a, left->count ? left : right, 0, low);
    if (left->count == 0)
        prefix_set(a, left, low, prefix);
    else
        node_pack(a, left, prefix);
    if (left->level)
        *(struct ps_node **)node_place(a, left, left->count, between, 0) = right->first;
    node_append(a, left, right, 0, right->count);
}

/* ---- every invariant ---- */

/* Entries lie between the slots and the prefix, none over another, and their bytes are what the
 * header says. */
static const char *check_room(const struct ps_access *a, const struct ps_node *n)
{
    uint8_t taken[PS_NODE_MAX / 2] = { 0 };
    unsigned sum = (n->prefix + a->shape[0].align - 1) & ~(a->shape[0].align - 1);
    unsigned end = a->head->node_bytes - sum;
    unsigned least = node_key_at(a, n) + (a->type->key_bytes ? a->type->key_bytes : 2);
    if (n->prefix > (a->type->key_bytes ? 0 : node_key_max(a)))
        return "a prefix is longer than any key";
    if (n->heap % a->shape[n->level > 0].align != 0)
        return "the next entry of a node would lie askew";
    if (sum > a->head->node_bytes || n->heap > end || sizeof *n + n->count * 2u > n->heap)
        return "slots, entries and prefix of a node overlap";
    for (unsigned i = 0; i < n->count; i++) {
        unsigned at = n->slot[i], align = a->shape[n->level > 0].align;
        if (at < n->heap || at + least > end || at % align != 0)
            return "a slot leads outside the entries of its node";
        unsigned bytes = entry_bytes(a, n, i);
        if (bytes > end - at || memchr(taken + at / 2, 1, bytes / 2))
            return "two entries of a node overlap";
        memset(taken + at / 2, 1, bytes / 2);
        sum += bytes;
    }
    return sum == n->live ? NULL : "a node's bytes in use are not the sum of its entries";
}

/* low <= key < high, keys ascend; equal ones only among duplicates. */
static const char *check_order(const struct ps_access *a, const struct ps_node *n, struct bytes low,
                               struct bytes high, int equals)
{
    _Alignas(16) uint8_t key[KEY_COPY];
    for (unsigned i = 0; i < n->count; i++) {
        if (node_suffix(a, n, i).length + n->prefix > node_key_max(a))
            return "a key is too long";
        struct bytes k = node_key(a, n, i, key);
        if ((low.at && node_order(a, low, k) > 0) || (high.at && node_order(a, k, high) >= equals))
            return "a key lies outside what its parent says";
        if (i + 1u < n->count && node_compare(a, k, n, i + 1) >= equals)
            return "the keys of a node are not in order";
    }
    return NULL;
}

const char *node_check(const struct ps_access *a, const struct ps_node *n, struct bytes low,
                       struct bytes high, int equals)
{
    const char *why = check_room(a, n);
    return why ? why : check_order(a, n, low, high, equals);
}
