/*
 * collected.h - a mutator's side of /bin/collected, a heap of cells that is collected while it is
 * used (managers.md). One thread at a time uses a heap.
 *
 * A value is a number, odd, or the address of a cell, or 0. Values that live beyond the next
 * collected_cons stand in `root`, where a collection finds and changes them.
 */
#ifndef USER_MANAGERS_COLLECTED_H
#define USER_MANAGERS_COLLECTED_H

#include <stdint.h>

#include "manager.h"

struct collected_cell { uint64_t car, cdr; };
enum {
    COLLECTED_ROOTS = 64, COLLECTED_CHUNK_PAGES = 8,
    COLLECTED_CHUNK = 1,                /* -> free cells, `at` to `end`; collect: before the next */
    COLLECTED_FLIP,                     /* root -> root: a collection begins */
    COLLECTED_COUNTS,                   /* -> counts, as all have them */
};
struct collected_counts { uint64_t flips, copied, by_fault, by_scanner; }; /* cells, pages, pages */
struct collected_call {
    int32_t what, error;                /* error: 0 or -errno */
    uint64_t at, end, collect;
    struct collected_counts counts;
    uint64_t root[COLLECTED_ROOTS + 2]; /* the last two are collected_cons's */
};
struct collected {
    const char *name;
    struct collected_call call;         /* root: the mutator's */
};

static inline int collected_say(struct collected *h, int what)
{
    h->call.what = what;
    int e = km_call(h->name, h->name, &h->call, sizeof h->call);
    return e < 0 ? e : h->call.error;
}

/* A collection begins: all values but those in h->call.root are forgotten. 0 or -errno. */
static inline int collected_flip(struct collected *h)
{
    int e = collected_say(h, COLLECTED_FLIP);
    h->call.at = h->call.end = 0;
    return e;
}

static inline struct collected_cell *collected_at(uint64_t value)
{
    return (struct collected_cell *)(uintptr_t)value;
}

/* A new cell; 0: the heap is full. */
static inline uint64_t collected_cons(struct collected *h, uint64_t car, uint64_t cdr)
{
    uint64_t *own = h->call.root + COLLECTED_ROOTS;
    if (h->call.at == h->call.end) {
        own[0] = car, own[1] = cdr;
        int e = h->call.collect ? collected_flip(h) : 0;
        if (!e) e = collected_say(h, COLLECTED_CHUNK);
        car = own[0], cdr = own[1];
        own[0] = own[1] = 0;
        if (e) return 0;
    }
    *collected_at(h->call.at) = (struct collected_cell){car, cdr};
    h->call.at += sizeof(struct collected_cell);
    return h->call.at - sizeof(struct collected_cell);
}

static inline uint64_t collected_number(int64_t n) { return (uint64_t)n << 1 | 1; }
static inline int64_t collected_value(uint64_t number) { return (int64_t)number >> 1; }

#endif
