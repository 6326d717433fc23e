/*
 * history/check.c - dependencies between transactions, and the search for a cycle among them.
 *
 * In order: who wrote each value (writes_collect), who added what (adds_collect), the versions of
 * each item by csn (versions_collect), what each read saw (read_check), snapshots against prefixes
 * of the commits (snapshots_check), the graph (edges_collect) and its cycles, shortest first
 * (cycle_find).
 */
#include "check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WW = 1, WR = 2, RW = 4, RT = 8, NONE = 0xffff, HASH_SLOTS = 1 << 15 };

struct write {                          /* one that its transaction did not write over */
    uint64_t value, csn;
    uint32_t item, txn, last;           /* last: of its transaction on this item */
};

static const struct history *h;
static struct history_verdict *verdict;
static struct write writes[HISTORY_ACCESSES_MAX];
static uint32_t write_count;
static uint16_t hash[HASH_SLOTS];       /* index in writes[] + 1 */
static struct write *versions[HISTORY_ACCESSES_MAX]; /* committed and last, by item, then csn */
static uint32_t version_count, item_first[HISTORY_ITEMS_MAX + 1];
static struct add { uint64_t bit; uint32_t txn, at; } adds[HISTORY_ACCESSES_MAX]; /* by item */
static uint32_t add_first[HISTORY_ITEMS_MAX + 1];
static uint8_t edge[HISTORY_TXNS_MAX][HISTORY_TXNS_MAX];
static uint16_t edge_item[HISTORY_TXNS_MAX][HISTORY_TXNS_MAX];

const char *history_kind_name(enum history_kind kind)
{
    static const char *const names[] = {
        "serialisable", "not a history", "garbage", "own write not seen", "G1a, aborted read",
        "G1b, intermediate read", "G1c", "P4, lost update", "G-single", "G2", "not in real time",
        "commit order", "torn snapshot", "last state"};
    return names[kind];
}

/* ---- saying what was found ---- */

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    size_t used = strlen(verdict->text);
    va_list a;
    va_start(a, format);
    vsnprintf(verdict->text + used, sizeof verdict->text - used, format, a);
    va_end(a);
}

static void say_txn(uint32_t t)
{
    const struct history_txn *x = &h->txns[t];
    static const char *const levels[] = {"serialisable", "snapshot", "dirty read"};
    say("#   T%u: worker %u, %s, %s, csn %llu, snapshot %llu, stamps %llu-%llu:", t, x->worker,
        levels[x->level], x->committed ? "committed" : "undone", (unsigned long long)x->csn,
        (unsigned long long)x->snapshot, (unsigned long long)x->began,
        (unsigned long long)x->ended);
    for (uint32_t i = x->first; i < x->first + x->count && i < x->first + 12; i++)
        say(" %c%u=%llx", "rw+l"[h->accesses[i].what], h->accesses[i].item,
            (unsigned long long)h->accesses[i].value);
    say("\n");
}

/* The first thing found is the verdict. */
static int found(enum history_kind kind, uint32_t t, uint32_t item, uint64_t value)
{
    if (verdict->kind)
        return 1;
    verdict->kind = kind;
    say("# %s: T%u, item %u, value %llx\n", history_kind_name(kind), t, item,
        (unsigned long long)value);
    if (t < h->txn_count)
        say_txn(t);
    return 1;
}

/* ---- writes and versions ---- */

static uint32_t slot_of(uint64_t value) { return (uint32_t)(value * 0x9e3779b97f4a7c15ull >> 49); }

static struct write *write_of(uint64_t value)
{
    for (uint32_t s = slot_of(value); hash[s]; s = (s + 1) % HASH_SLOTS)
        if (writes[hash[s] - 1].value == value)
            return &writes[hash[s] - 1];
    return NULL;
}

static int write_add(uint32_t t, const struct history_access *a, int last)
{
    uint32_t s = slot_of(a->value);
    if (a->item >= h->item_count || write_of(a->value) || a->value == h->before[a->item])
        return found(HISTORY_MALFORMED, t, a->item, a->value);
    writes[write_count] = (struct write){a->value, h->txns[t].csn, a->item, t, (uint32_t)last};
    while (hash[s])
        s = (s + 1) % HASH_SLOTS;
    hash[s] = (uint16_t)++write_count;
    return 0;
}

static int written_later(const struct history_txn *x, uint32_t i)
{
    for (uint32_t k = i + 1; k < x->first + x->count; k++)
        if (h->accesses[k].what == HISTORY_WRITE && h->accesses[k].item == h->accesses[i].item)
            return 1;
    return 0;
}

static int writes_collect(void)
{
    write_count = 0;
    memset(hash, 0, sizeof hash);
    if (h->txn_count > HISTORY_TXNS_MAX || h->access_count > HISTORY_ACCESSES_MAX ||
        h->item_count > HISTORY_ITEMS_MAX)
        return found(HISTORY_MALFORMED, h->txn_count, h->item_count, 0);
    for (uint32_t t = 0; t < h->txn_count; t++) {
        const struct history_txn *x = &h->txns[t];
        int wrote = 0;
        for (uint32_t i = x->first; i < x->first + x->count; i++) {
            const int what = (int)h->accesses[i].what;
            wrote |= what == HISTORY_WRITE || what == HISTORY_ADD;
            if (what == HISTORY_WRITE && write_add(t, &h->accesses[i], !written_later(x, i)))
                return 1;
        }
        if (x->committed && (wrote != (x->csn != 0) || (wrote && x->level)))
            return found(HISTORY_MALFORMED, t, 0, x->csn);
    }
    return 0;
}

/* ---- additions ---- */

static int add_add(uint32_t item, uint32_t t, uint32_t i)
{
    const struct history_access *a = &h->accesses[i];
    uint32_t *end = &add_first[item + 1];
    if (a->item != item)
        return 0;
    for (uint32_t k = add_first[item]; k < *end; k++)
        if (adds[k].bit == a->value)
            return found(HISTORY_MALFORMED, t, item, a->value);
    if (a->what == HISTORY_WRITE ? *end > add_first[item] : a->value & (a->value - 1) || !a->value)
        return found(HISTORY_MALFORMED, t, item, a->value);
    if (a->what == HISTORY_ADD)
        adds[(*end)++] = (struct add){a->value, t, i};
    return 0;
}

static int adds_collect(void)
{
    for (uint32_t item = 0; item < h->item_count; item++) {
        add_first[item + 1] = add_first[item];
        for (uint32_t t = 0; t < h->txn_count; t++)
            for (uint32_t i = h->txns[t].first; i < h->txns[t].first + h->txns[t].count; i++)
                if ((h->accesses[i].what == HISTORY_ADD || h->accesses[i].what == HISTORY_WRITE) &&
                    add_add(item, t, i))
                    return 1;
    }
    return 0;
}

/* Additions to an item; there is none to one that is written. */
#define adds_each(a, of) \
    for (const struct add *a = adds + add_first[of]; a < adds + add_first[(of) + 1]; a++)

static int is_added_to(uint32_t item) { return add_first[item + 1] > add_first[item]; }
static int saw(uint32_t i, const struct add *a)
{
    return ((h->accesses[i].value - h->before[h->accesses[i].item]) & a->bit) != 0;
}

/* Whether read i of t saw all of what it may have seen, and nothing else. */
static int sum_check(uint32_t t, uint32_t i)
{
    const struct history_access *of = &h->accesses[i];
    uint64_t left = of->value - h->before[of->item];
    adds_each(a, of->item) {
        left &= ~a->bit;
        if (a->txn == t && saw(i, a) != (a->at < i))
            return found(HISTORY_OWN_WRITE, t, of->item, of->value);
        if (a->txn != t && saw(i, a) && !h->txns[a->txn].committed)
            return found(HISTORY_G1A, t, of->item, of->value);
        adds_each(b, of->item)
            if (a->txn != t && a->txn == b->txn && saw(i, a) != saw(i, b))
                return found(HISTORY_G1B, t, of->item, of->value);
    }
    return left ? found(HISTORY_GARBAGE, t, of->item, of->value) : 0;
}

static int by_item_and_csn(const void *a, const void *b)
{
    const struct write *x = *(struct write *const *)a, *y = *(struct write *const *)b;
    return x->item != y->item ? (x->item < y->item ? -1 : 1)
           : x->csn < y->csn  ? -1
                              : x->csn > y->csn;
}

static int versions_collect(void)
{
    version_count = 0;
    for (uint32_t i = 0; i < write_count; i++)
        if (writes[i].last && h->txns[writes[i].txn].committed)
            versions[version_count++] = &writes[i];
    qsort(versions, version_count, sizeof versions[0], by_item_and_csn);
    for (uint32_t item = 0, i = 0; item <= h->item_count; item++) {
        while (i < version_count && versions[i]->item < item)
            i++;
        item_first[item] = i;
    }
    for (uint32_t i = 1; i < version_count; i++)
        if (versions[i]->item == versions[i - 1]->item && versions[i]->csn == versions[i - 1]->csn)
            return found(HISTORY_MALFORMED, versions[i]->txn, versions[i]->item, versions[i]->csn);
    return 0;
}

static int last_state_check(void)
{
    for (uint32_t item = 0; item < h->item_count; item++) {
        uint32_t end = item_first[item + 1];
        int changed = end > item_first[item];
        uint64_t last = changed ? versions[end - 1]->value : h->before[item];
        adds_each(a, item)
            last += h->txns[a->txn].committed ? a->bit : 0;
        if (h->after[item] != last)
            return found(HISTORY_LAST_STATE, changed ? versions[end - 1]->txn : h->txn_count, item,
                         h->after[item]);
    }
    return 0;
}

/* ---- reads ---- */

/* What the transaction itself stored there before access i, or NULL. */
static const struct history_access *own_write(const struct history_txn *x, uint32_t i)
{
    for (uint32_t k = i; k-- > x->first;)
        if (h->accesses[k].what == HISTORY_WRITE && h->accesses[k].item == h->accesses[i].item)
            return &h->accesses[k];
    return NULL;
}

/* The version after that of `w` (NULL: after the state before), or NULL. */
static const struct write *version_after(uint32_t item, const struct write *w)
{
    for (uint32_t i = item_first[item]; i < item_first[item + 1]; i++)
        if (!w || versions[i]->csn > w->csn)
            return versions[i];
    return NULL;
}

static int read_check(uint32_t t, uint32_t i)
{
    const struct history_access *a = &h->accesses[i], *own = own_write(&h->txns[t], i);
    const struct write *w = write_of(a->value);
    if (a->item >= h->item_count)
        return found(HISTORY_MALFORMED, t, a->item, a->value);
    if (is_added_to(a->item))
        return sum_check(t, i);
    if (own)
        return own->value != a->value ? found(HISTORY_OWN_WRITE, t, a->item, a->value) : 0;
    if (!w)
        return a->value != h->before[a->item] ? found(HISTORY_GARBAGE, t, a->item, a->value) : 0;
    if (w->item != a->item || w->txn == t)
        return found(HISTORY_GARBAGE, t, a->item, a->value);
    if (!h->txns[w->txn].committed)
        return found(HISTORY_G1A, t, a->item, a->value);
    return w->last ? 0 : found(HISTORY_G1B, t, a->item, a->value);
}

/* Calls fn for each read. */
static int reads_each(int (*fn)(uint32_t t, uint32_t i))
{
    for (uint32_t t = 0; t < h->txn_count; t++)
        for (uint32_t i = h->txns[t].first; i < h->txns[t].first + h->txns[t].count; i++)
            if ((h->accesses[i].what == HISTORY_READ || h->accesses[i].what == HISTORY_LOOSE) &&
                fn(t, i))
                return 1;
    return 0;
}

/* ---- snapshots: all commits up to one csn, and none after it ---- */

/* the last csn that it must have seen, the first that not */
struct prefix { uint64_t low, high; };

static struct prefix prefix_of(const struct history_txn *x)
{
    struct prefix p = {0, ~0ull};
    for (uint32_t i = x->first; i < x->first + x->count; i++) {
        const struct write *w = write_of(h->accesses[i].value);
        const struct write *next = version_after(h->accesses[i].item, w);
        if (w && w->csn > p.low)
            p.low = w->csn;
        if (next && next->csn < p.high)
            p.high = next->csn;
        adds_each(a, h->accesses[i].item) {
            uint64_t csn = h->txns[a->txn].csn;
            if (saw(i, a) && csn > p.low)
                p.low = csn;
            if (!saw(i, a) && h->txns[a->txn].committed && csn < p.high)
                p.high = csn;
        }
    }
    for (uint32_t u = 0; u < h->txn_count; u++)
        if (h->txns[u].committed && h->txns[u].ended < x->began && h->txns[u].csn > p.low)
            p.low = h->txns[u].csn;     /* acknowledged before it began */
    return p;
}

static int snapshots_check(void)
{
    static struct prefix prefixes[HISTORY_TXNS_MAX];
    for (uint32_t t = 0; t < h->txn_count; t++) {
        if (h->txns[t].level != HISTORY_SNAPSHOT)
            continue;
        prefixes[t] = prefix_of(&h->txns[t]);
        for (uint32_t u = 0; u <= t; u++) {
            const struct history_txn *x = &h->txns[t], *y = &h->txns[u];
            if (y->level != HISTORY_SNAPSHOT)
                continue;
            if ((x->snapshot <= y->snapshot && prefixes[t].low >= prefixes[u].high) ||
                (y->snapshot <= x->snapshot && prefixes[u].low >= prefixes[t].high)) {
                found(HISTORY_SNAPSHOT_TORN, t, 0, prefixes[t].low);
                say("#   must have seen csn %llu, and not %llu\n",
                    (unsigned long long)(x->snapshot <= y->snapshot ? prefixes[t] : prefixes[u])
                        .low,
                    (unsigned long long)(x->snapshot <= y->snapshot ? prefixes[u] : prefixes[t])
                        .high);
                say_txn(u);
                return 1;
            }
        }
    }
    return 0;
}

/* ---- the graph ---- */

static void edge_add(uint32_t from, uint32_t to, uint8_t kind, uint32_t item)
{
    if (from == to)
        return;
    if (!edge[from][to] || kind < (edge[from][to] & -edge[from][to]))
        edge_item[from][to] = (uint16_t)item;
    edge[from][to] |= kind;
}

static int read_edges(uint32_t t, uint32_t i)
{
    const struct history_access *a = &h->accesses[i];
    if (h->txns[t].level == HISTORY_DIRTY_READ || a->what == HISTORY_LOOSE)
        return 0;
    adds_each(by, a->item)
        if (saw(i, by))
            edge_add(by->txn, t, WR, a->item);
        else if (h->txns[by->txn].committed)
            edge_add(t, by->txn, RW, a->item);
    if (own_write(&h->txns[t], i) || is_added_to(a->item))
        return 0;
    const struct write *w = write_of(a->value), *next = version_after(a->item, w);
    if (w)
        edge_add(w->txn, t, WR, a->item);
    if (next)
        edge_add(t, next->txn, RW, a->item);
    return 0;
}

static void edges_collect(void)
{
    for (uint32_t t = 0; t < h->txn_count; t++)
        memset(edge[t], 0, h->txn_count);
    for (uint32_t i = 1; i < version_count; i++)
        if (versions[i]->item == versions[i - 1]->item)
            edge_add(versions[i - 1]->txn, versions[i]->txn, WW, versions[i]->item);
    reads_each(read_edges);
    for (uint32_t t = 0; t < h->txn_count; t++)
        for (uint32_t u = 0; u < h->txn_count; u++)
            if (h->txns[t].ended < h->txns[u].began && h->txns[t].level != HISTORY_DIRTY_READ &&
                h->txns[u].level != HISTORY_DIRTY_READ)
                edge_add(t, u, RT, 0);
}

/* Dependencies of updates agree with the order of their commits. */
static int csn_order_check(void)
{
    for (uint32_t t = 0; t < h->txn_count; t++)
        for (uint32_t u = 0; u < h->txn_count; u++) {
            const struct history_txn *x = &h->txns[t], *y = &h->txns[u];
            if (edge[t][u] && x->committed && y->committed && x->csn && y->csn &&
                x->csn >= y->csn) {
                found(HISTORY_CSN_ORDER, t, edge_item[t][u], x->csn);
                say_txn(u);
                return 1;
            }
        }
    return 0;
}

/* ---- cycles ---- */

/* Takes away, again and again, what no edge leads to; whether anything is left. */
static int cyclic(uint8_t kinds)
{
    static uint16_t in[HISTORY_TXNS_MAX], ready[HISTORY_TXNS_MAX];
    uint32_t head = 0, tail = 0;
    for (uint32_t u = 0; u < h->txn_count; u++) {
        in[u] = 0;
        for (uint32_t t = 0; t < h->txn_count; t++)
            in[u] = (uint16_t)(in[u] + ((edge[t][u] & kinds) != 0));
        if (in[u] == 0)
            ready[tail++] = (uint16_t)u;
    }
    while (head < tail) {
        uint32_t t = ready[head++];
        for (uint32_t u = 0; u < h->txn_count; u++)
            if (edge[t][u] & kinds && --in[u] == 0)
                ready[tail++] = (uint16_t)u;
    }
    return tail < h->txn_count;
}

/* The shortest way from `start` back to it: path[0] = start, and so on; its length, or 0. */
static uint32_t cycle_from(uint32_t start, uint8_t kinds, uint16_t *path)
{
    static uint16_t before[HISTORY_TXNS_MAX], queue[HISTORY_TXNS_MAX];
    uint32_t head = 0, tail = 0;
    memset(before, 0xff, sizeof before);
    queue[tail++] = (uint16_t)start;
    while (head < tail) {
        uint32_t t = queue[head++];
        for (uint32_t u = 0; u < h->txn_count; u++) {
            if (!(edge[t][u] & kinds) || before[u] != NONE)
                continue;
            before[u] = (uint16_t)t;
            queue[tail++] = (uint16_t)u;
            if (u != start)
                continue;
            uint32_t length = 1;
            for (uint32_t b = t; b != start; b = before[b])
                length++;
            for (uint32_t b = t, at = length; at-- > 0; b = before[b])
                path[at] = (uint16_t)b;
            return length;
        }
    }
    return 0;
}

static enum history_kind cycle_kind(const uint16_t *path, uint32_t length, uint8_t kinds)
{
    uint32_t count[9] = {0}, item[9] = {0};
    for (uint32_t i = 0; i < length; i++) {
        uint8_t k = edge[path[i]][path[(i + 1) % length]] & kinds;
        k &= (uint8_t)-k;               /* the strongest */
        count[k]++;
        item[k] = edge_item[path[i]][path[(i + 1) % length]];
    }
    return count[RT]                                                   ? HISTORY_REAL_TIME
           : count[RW] > 1                                             ? HISTORY_G2
           : count[RW] && length == 2 && count[WW] && item[WW] == item[RW] ? HISTORY_LOST_UPDATE
           : count[RW]                                                 ? HISTORY_G_SINGLE
                                                                       : HISTORY_G1C;
}

static int cycle_find(uint8_t kinds)
{
    static uint16_t path[HISTORY_TXNS_MAX], best[HISTORY_TXNS_MAX];
    uint32_t best_length = 0;
    if (!cyclic(kinds))
        return 0;
    for (uint32_t t = 0; t < h->txn_count; t++) {
        uint32_t length = cycle_from(t, kinds, path);
        if (length && (!best_length || length < best_length)) {
            best_length = length;
            memcpy(best, path, sizeof best);
        }
    }
    verdict->kind = cycle_kind(best, best_length, kinds);
    say("# %s: a cycle of %u\n", history_kind_name(verdict->kind), best_length);
    for (uint32_t i = 0; i < best_length; i++) {
        uint32_t t = best[i], u = best[(i + 1) % best_length];
        uint8_t k = edge[t][u] & kinds;
        say_txn(t);
        say("#     -%s%s%s%s item %u->\n", k & WW ? " ww" : "", k & WR ? " wr" : "",
            k & RW ? " rw" : "", k & RT ? " rt" : "", edge_item[t][u]);
    }
    return 1;
}

void history_check(const struct history *history, struct history_verdict *out)
{
    h = history;
    verdict = out;
    *out = (struct history_verdict){.kind = HISTORY_GOOD};
    if (writes_collect() || adds_collect() || versions_collect() || reads_each(read_check))
        return;
    edges_collect();
    /* the narrowest anomaly first */
    if (cycle_find(WW | WR) || cycle_find(WW | WR | RW) || snapshots_check() ||
        csn_order_check() || cycle_find(WW | WR | RW | RT))
        return;
    last_state_check();
}
