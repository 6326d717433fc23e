/*
 * tuples.c - the database of Dali's benchmark: 100,000 tuples, a key and a value of 8 bytes each,
 * and a hash index of the keys. A look-up takes the lock of its tuple to read, an update to write.
 *
 * The index is an array of twice as many places, in which the next one is tried where one is taken
 * by another key. It is there before the tuples are looked up, and does not change.
 */
#include "bench.h"

enum { PLACES = 262144 };
struct root { struct tuple *tuple; uint32_t *index; };
static ps_container *c;
static struct tuple *tuples;
static uint32_t *places;
static uint32_t seed = 1;
static volatile uint64_t found;

uint64_t key_draw(void)
{
    seed = seed * 1664525u + 1013904223u;
    return ((uint64_t)seed * TUPLES >> 32) * 1000003;
}

static inline uint64_t place_of(uint64_t key)
{
    return key * 0x9e3779b97f4a7c15ull >> 46;
}
_Static_assert(PLACES == 1 << (64 - 46), "the hash is a place");

struct tuple *tuple_of(uint64_t key)
{
    for (uint64_t at = place_of(key); places[at]; at = (at + 1) % PLACES) {
        struct tuple *t = &tuples[places[at] - 1];
        if (t->key == key)
            return t;
    }
    return NULL;
}

static int make(void *unused)
{
    (void)unused;
    struct root *root = ps_root(c);
    if (!ps_write(root))
        return -errno;
    if (!root->tuple) {
        root->tuple = ps_alloc(c, TUPLES * sizeof *root->tuple, NULL);
        root->index = ps_alloc(c, PLACES * sizeof *root->index, NULL);
    }
    tuples = root->tuple;
    places = root->index;
    return tuples && places ? 0 : -errno;
}

struct part { unsigned first, count; };
static int load(void *arg)
{
    const struct part *p = arg;
    int error = ps_lock(c, 0);
    for (unsigned i = p->first; error == 0 && i < p->first + p->count; i++) {
        uint64_t at = place_of(i * 1000003ull);
        while (places[at])
            at = (at + 1) % PLACES;
        tuples[i] = (struct tuple){.key = i * 1000003ull};
        places[at] = i + 1;
    }
    return error;
}

void tuples_open(void)
{
    c = ps_open("bench-dali", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    int e = c ? ps_transaction(make, NULL) : -errno;
    if (e)
        fail("the container", e);
}

ps_container *tuples_container(void)
{
    return c;
}

void tuples_load(unsigned each, int items)
{
    if (c) {
        ps_close(c);
        ps_delete("bench-dali");
    }
    tuples_open();
    int e = ps_locking(c, items ? PS_LOCK_ITEMS : PS_LOCK_PAGES);
    for (struct part p = {.count = each}; e == 0 && p.first < TUPLES; p.first += each)
        e = ps_transaction(load, &p);
    if (e)
        fail("loading", e);
}

void tuples_protect(int protection)
{
    int e = ps_protection(c, protection);
    if (e)
        fail("its protection", e);
}

/* ---- what is done to them ---- */

int operations(void *arg)
{
    const struct work *w = arg;
    for (unsigned i = 0, next = w->one_in; i < w->count; i++) {
        struct tuple *t = tuple_of(key_draw());
        if (--next == 0) {
            next = w->one_in;
            if (!(t = ps_write(t)))
                return -errno;
            t->value++;
        } else {
            const struct tuple *r = ps_read(t);
            if (!r)
                return -errno;
            found += r->value;
        }
    }
    return 0;
}

static int look_at_all(void *sum)
{
    *(uint64_t *)sum = 0;
    for (unsigned i = 0; i < TUPLES; i++) {
        const struct tuple *t = tuple_of(i * 1000003ull);
        if (!t)
            return -ENOENT;
        *(uint64_t *)sum += t->value;
    }
    return 0;
}

void tuples_touch(void)
{
    uint64_t sum;
    int e = ps_transaction(look_at_all, &sum);
    if (e)
        fail("a tuple", e);
}

enum { PAGE_TUPLES = KD_PAGE_BYTES / sizeof(struct tuple), SETTLED_AT_ONCE = 100 };

/* One tuple of each page is changed, from that page on. */
static int change_each(void *arg)
{
    unsigned first = *(unsigned *)arg, last = first + SETTLED_AT_ONCE * PAGE_TUPLES;
    for (unsigned i = first; i < last && i < TUPLES; i += PAGE_TUPLES) {
        struct tuple *t = ps_write(&tuples[i]);
        if (!t)
            return -errno;
        t->value++;
    }
    return 0;
}

void tuples_settle(void)
{
    int e = ps_checkpoint();
    for (unsigned i = 0; e == 0 && i < TUPLES; i += SETTLED_AT_ONCE * PAGE_TUPLES)
        e = ps_transaction(change_each, &i);
    if (e)
        fail("all pages of tuples", e);
}
