/* hash_look.c - the hash gone through: a generator that changes do not disturb; a check; a
 * picture. */
#include <errno.h>
#include <string.h>

#include "hash_private.h"

/* ---- the generator ---- */

/* A window of hashes, what a bucket had when the generator came to it, is gone through in the order
 * of keys, then the next one. So the generator finds its place again by the key, however buckets
 * split and join. */
enum { NEW_WINDOW, WITHIN, DROPPED, AT_END };

void ps_hash_range(struct ps_hash_range *r)
{
    r->from = 0;
    r->state = NEW_WINDOW;
    r->filter = NULL;
    r->key_length = 0;
}

/* The first slot of a node behind the last key, and with a hash of the window. */
static unsigned slot_behind(const struct ps_hash_range *r, const struct ps_node *n, int inside)
{
    const struct ps_hash_access *a = &r->access;
    _Alignas(16) uint8_t copy[KEY_COPY];
    struct bytes key = {r->key, r->key_length};
    unsigned i = r->state == NEW_WINDOW ? 0 : node_search(&a->base, n, key, 1);
    for (; i < n->count && !inside; i++) {
        uint64_t hash = hash_make(a, node_key(&a->base, n, i, copy));
        if (hash >= r->from && hash <= r->last)
            break;
    }
    return i;
}

/* The record of the window with the least key behind the last; NULL: there is none. */
static void *window_next(struct ps_hash_range *r)
{
    const struct ps_hash_access *a = &r->access;
    _Alignas(16) uint8_t copy[2][KEY_COPY];
    struct bytes least = {NULL, 0};
    void *record = NULL;
    for (uint64_t hash = r->from, high;; hash = high + 1) {
        const struct ps_node *bucket = hash_bucket(a, hash);
        high = hash_high(hash, bucket->depth);
        int inside = hash_low(hash, bucket->depth) >= r->from && high <= r->last;
        for (const struct ps_node *n = bucket; n; n = n->first) {
            unsigned i = slot_behind(r, n, inside);
            if (i == n->count)
                continue;
            struct bytes key = node_key(&a->base, n, i, copy[least.at == copy[0]]);
            if (least.at && node_order(&a->base, key, least) > 0)
                continue;
            least = key;
            record = node_record(&a->base, n, i);
        }
        if (high >= r->last)
            break;
    }
    if (record) {
        memcpy(r->key, least.at, least.length + 1);
        r->key_length = least.length;
    }
    return record;
}

void *ps_hash_next(struct ps_hash_range *r)
{
    struct ps_hash_access *a = &r->access;
    while (a->base.error == 0 && r->state != AT_END) {
        if (r->state == NEW_WINDOW)
            r->last = hash_high(r->from, hash_bucket(a, r->from)->depth);
        void *record = window_next(r);
        if (record) {
            r->state = WITHIN;
            if (!r->filter || r->filter(r->key, record, r->arg))
                return record;
            continue;
        }
        r->state = r->last == UINT64_MAX ? AT_END : NEW_WINDOW;
        r->from = r->last + 1;
    }
    return structure_none(a->base.error);
}

int ps_hash_drop(struct ps_hash_range *r)
{
    int error = structure_refuses(&r->access.base, PS_CHANGE);
    if (error || r->state != WITHIN)
        return error ? error : -EINVAL;
    r->state = DROPPED;
    return ps_hash_remove(&r->access, r->key);
}

/* ---- every invariant ---- */

static const char *check_node(const struct ps_hash_access *a, const struct ps_node *n, uint64_t low,
                              uint64_t high)
{
    _Alignas(16) uint8_t copy[KEY_COPY];
    if ((uintptr_t)n % 16 != 0 || n->level != 0 || n->prefix != 0)
        return "a bucket is not a node of level 0";
    const char *why = node_check(&a->base, n, (struct bytes){0}, (struct bytes){0}, 0);
    for (unsigned i = 0; !why && i < n->count; i++) {
        struct bytes key = node_key(&a->base, n, i, copy);
        uint64_t hash = hash_make(a, key);
        if (hash < low || hash > high)
            why = "a key is in another bucket than its hash says";
        for (const struct ps_node *more = n->first; !why && more; more = more->first) {
            unsigned at = node_search(&a->base, more, key, 0);
            if (at < more->count && node_compare(&a->base, key, more, at) == 0)
                why = "a key is twice in a bucket";
        }
    }
    return why;
}

static const char *check_bucket(const struct ps_hash_access *a, uint64_t hash,
                                struct ps_hash_stats *stats, uint64_t *used)
{
    const struct ps_hash *h = hash_of(a);
    const struct ps_node *bucket = hash_bucket(a, hash);
    if (!bucket || bucket->depth > h->depth || hash_low(hash, bucket->depth) != hash)
        return "a bucket does not begin where the one before it ends";
    uint64_t high = hash_high(hash, bucket->depth);
    uint64_t span = (uint64_t)1 << (h->depth - bucket->depth);
    struct ps_node **entry = &h->directory[h->depth ? hash >> (64 - h->depth) : 0];
    for (uint64_t i = 0; i < span; i++)
        if (entry[i] != bucket)
            return "the directory leads to another bucket";
    const char *why = NULL;
    for (const struct ps_node *n = bucket; !why && n; n = n->first) {
        why = check_node(a, n, hash, high);
        if (!why && n != bucket && n->count == 0)
            why = "a further node of a bucket is empty";
        stats->records += n->count;
        stats->overflow += n != bucket;
        *used += node_used(n);
    }
    stats->buckets++;
    return why;
}

static const char *check(const struct ps_hash_access *a, struct ps_hash_stats *stats)
{
    uint64_t hash = 0, used = 0;
    if (!hash_of(a)->directory || hash_of(a)->depth > 32)
        return "the head is spoilt";
    stats->depth = (uint32_t)hash_of(a)->depth;
    do {
        const char *why = check_bucket(a, hash, stats, &used);
        if (why)
            return why;
        hash = hash_high(hash, hash_bucket(a, hash)->depth) + 1;
    } while (hash != 0);
    stats->fill = (uint32_t)(used * 100 / (stats->buckets + stats->overflow) /
                             (a->base.head->node_bytes - sizeof(struct ps_node)));
    return NULL;
}

int ps_hash_check(const struct ps_hash_access *a, struct ps_hash_stats *stats, const char **why)
{
    struct ps_hash_stats own = {0};
    const char *what = a->base.error ? structure_unset : check(a, &own);
    if (stats)
        *stats = own;
    return structure_sound(a->base.error, what, why);
}

/* ---- a picture ---- */

enum { WIDTH = 2048, HEIGHT = 120, SHOWN = 256 };

int ps_hash_draw(const struct ps_hash_access *a, struct ps_sink sink)
{
    if (a->base.error)
        return a->base.error;
    structure_say(sink, "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
                        "font-family='sans-serif'>\n", WIDTH, HEIGHT + 30);
    structure_say(sink, "<text x='6' y='18' font-size='13'>%s, directory of 2^%u; buckets, "
                        "blue: bytes in use</text>\n",
                  a->base.type->name, (unsigned)hash_of(a)->depth);
    uint64_t hash = 0;
    for (int shown = 0; shown < SHOWN; shown++) {
        const struct ps_node *n = hash_bucket(a, hash);
        unsigned high = node_used(n) * HEIGHT / a->base.head->node_bytes;
        double x = (double)(hash >> 32) * WIDTH / 4294967296.0;
        double wide = WIDTH / (double)((uint64_t)1 << n->depth);
        structure_say(sink, "<rect x='%.1f' y='%u' width='%.1f' height='%u' fill='%s'/>\n", x,
                      30 + HEIGHT - high, wide, high, n->first ? "#47a" : "#9bd");
        structure_say(sink, "<rect x='%.1f' y='30' width='%.1f' height='%d' fill='none' "
                            "stroke='black'/>\n", x, wide, HEIGHT);
        hash = hash_high(hash, n->depth) + 1;
        if (hash == 0)
            break;
    }
    structure_say(sink, "</svg>\n");
    return 0;
}
