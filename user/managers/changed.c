/*
 * changed.c - computed words that may be stored to: only those that were changed are kept.
 *
 *     changed &           serves the object "changed", 1 GiB: word i of it is i * i at first
 *
 * Step 2 of libpstore/managers.md. Pages are computed when they are touched. Those that the kernel
 * wants to free are read, and the words that differ from what is computed go to a list; so the
 * object may be larger than memory, as long as few words of it change.
 *
 * Locks: `lock` guards the lists.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "manager.h"

enum { PAGES = 1 << 18, WORDS = KM_PAGE_BYTES / 8, CHANGES = 1 << 17 };

struct change { uint64_t value; uint32_t next; uint16_t word; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct change changes[CHANGES];  /* 0: none */
static uint32_t of_page[PAGES], unused; /* the first of a list */
static uint8_t coming[PAGES];           /* answers that bring the page at this moment; atomic */

static uint64_t computed(uint64_t i) { return i * i; }

/* The page as it was when it left memory. */
static void make(uint64_t page, uint64_t words[WORDS])
{
    for (unsigned i = 0; i < WORDS; i++) words[i] = computed(page * WORDS + i);
    pthread_mutex_lock(&lock);
    for (uint32_t c = of_page[page]; c; c = changes[c].next)
        words[changes[c].word] = changes[c].value;
    pthread_mutex_unlock(&lock);
}

/* The page that is wanted, and unasked the next one. Until both have arrived neither is cleaned:
 * else a store could go home between make and km_push, and what is pushed would be older. */
static void page(struct km_request *r)
{
    uint64_t words[WORDS], pages = r->page + 1 < PAGES ? 2 : 1;
    for (uint64_t i = 0; i < pages; i++) {
        __atomic_fetch_add(&coming[r->page + i], 1, __ATOMIC_SEQ_CST);
        make(r->page + i, words);
        int error = i ? km_push(r->object, r->page + i, 1, words) : km_supply(r, words, 1);
        if (error && !i) km_fail(r, -error);
        __atomic_fetch_sub(&coming[r->page + i], 1, __ATOMIC_SEQ_CST);
    }
}

/* ---- what was changed; lock: held ---- */

static void forget(uint64_t page)
{
    for (uint32_t c = of_page[page], next; c; c = next) {
        next = changes[c].next;
        changes[c].next = unused;
        unused = c;
    }
    of_page[page] = 0;
}

/* 0: there are too many changes. */
static int keep(uint64_t page, const uint64_t words[WORDS])
{
    forget(page);
    for (unsigned i = 0; i < WORDS; i++) {
        uint32_t c = unused;
        if (words[i] == computed(page * WORDS + i)) continue;
        if (!c) return 0;
        unused = changes[c].next;
        changes[c] = (struct change){words[i], of_page[page], (uint16_t)i};
        of_page[page] = c;
    }
    return 1;
}

/* A page of which not all can be kept stays dirty, and thereby in memory. */
static void clean(struct km_object *o, const uint64_t *pages, unsigned count)
{
    uint64_t words[WORDS], csn;
    for (unsigned i = 0; i < count; i++) {
        if (km_read(o, pages[i], words, &csn)) continue;
        pthread_mutex_lock(&lock);
        int kept = !__atomic_load_n(&coming[pages[i]], __ATOMIC_SEQ_CST) && keep(pages[i], words);
        pthread_mutex_unlock(&lock);
        if (kept) km_cleaned(o, pages[i], csn);
    }
}

int main(void)
{
    static const struct km_ops ops = {.page = page, .clean = clean};
    struct km_object *object;
    memset(of_page, 0, sizeof of_page); /* memory that `clean` stores to is there before */
    for (uint32_t c = 1; c < CHANGES; c++) changes[c].next = c + 1 < CHANGES ? c + 1 : 0;
    unused = 1;
    int error = km_create("changed", PAGES, KM_READ | KM_WRITE, &ops, NULL, &object);
    if (!error) error = km_serve(2);
    fprintf(stderr, "changed: cannot serve: %s\n", ps_strerror(error));
    return 1;
}
