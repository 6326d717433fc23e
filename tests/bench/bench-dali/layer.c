/*
 * layer.c - what the item layer costs: brackets beside plain locks, types with functions, a
 * relation; and what a pointer to a lock in an item's header would save of the hash of its address
 * (3.4).
 */
#include <item_layer.h>
#include <relation.h>

#include "bench.h"

enum { ITEMS = 10000, EACH = 100, ROUNDS = 21, STEP = 7919, PAIRS = 10000, ENTRIES_BITS = 12 };
enum { KEPT = 512 };

/* ---- a lock found by hash, and by pointer ---- */

struct header { void *data; struct kd_item_entry *lock; char rest[48]; };
static struct kd_item_entry entries[1 << ENTRIES_BITS];
static struct header headers[KEPT];
typedef uint64_t pair __attribute__((vector_size(16), may_alias));

static inline void lock_unlock(volatile struct kd_item_entry *e)
{
    volatile uint64_t *mask = &e->holders[PS_S][0];
    __atomic_fetch_or(mask, 1, __ATOMIC_SEQ_CST);
    const volatile uint64_t *of[] = {e->holders[PS_X], e->holders[PS_OWN], e->holders[PS_ADD],
                                     e->holders[PS_IX]};
    pair any = *(const volatile pair *)of[0] | *(const volatile pair *)of[1] |
               *(const volatile pair *)of[2] | *(const volatile pair *)of[3];
    if ((any[0] | any[1]) & ~1ull)
        fail("a lock that nobody has", EBUSY);
    __atomic_fetch_and(mask, ~1ull, __ATOMIC_RELEASE);
}

static __attribute__((noinline)) void by_hash(void)
{
    for (unsigned i = 0; i < PAIRS; i++) {
        uint64_t name = (uint64_t)&headers[i % KEPT];
        lock_unlock(&entries[name * 0x9e3779b97f4a7c15ull >> (64 - ENTRIES_BITS)]);
    }
}

static __attribute__((noinline)) void by_pointer(void)
{
    for (unsigned i = 0; i < PAIRS; i++)
        lock_unlock(headers[i % KEPT].lock);
}

static double pairs(void (*run)(void))
{
    run();
    uint64_t t = counter();
    run();
    return (double)(counter() - t) / PAIRS;
}

/* ---- brackets ---- */

static ps_file *file;
static ps_item_id id[ITEMS];
static struct tuple *plain[ITEMS];
struct packed_tuple { uint64_t key, value; };
PS_RELATION(row, struct tuple, key);
static struct row_relation rows;

static size_t pack(const void *from, size_t bytes, void *to, size_t room)
{
    memcpy(to, from, bytes - 1 <= room ? bytes - 1 : 0);
    return bytes - 1;
}
static int unpack(const void *from, size_t stored, void *to, size_t bytes)
{
    ((char *)to)[bytes - 1] = 0;
    memcpy(to, from, stored);
    return 0;
}
static int nothing(ps_item_id i, const void *data, size_t bytes)
{
    return i && data && bytes ? 0 : -EINVAL;
}
static const struct ps_item_type types[] = {
    {.name = "hooked", .first = nothing}, {.name = "packed", .pack = pack, .unpack = unpack}};

static int make(void *type)
{
    for (unsigned i = 0; i < ITEMS; i++) {
        id[i] = ps_item_make(ps_file_part(file, "tuples"), type, sizeof(struct tuple));
        struct tuple *t = id[i] ? ps_begin_access(id[i], PS_X) : NULL;
        if (!t)
            return -errno;
        t->value = i;
        plain[i] = ps_item_header(id[i])->data;
    }
    return 0;
}
static int fill(void *unused)
{
    (void)unused;
    int e = row_open(&rows, ps_file_part(file, "rows"), ps_part_data(ps_file_part(file, "index")));
    for (uint64_t i = 0; i < ITEMS && e == 0; i++)
        e = row_insert(&rows, &(struct tuple){i, i});
    return e;
}

static unsigned at;
static unsigned next(void)
{
    return at = (at + STEP) % ITEMS;
}
static uint64_t sum;
enum { LOOPS, PLAIN, BRACKETS, COPIES, ROWS, PLAIN_WRITE, WRITE };
struct access_work { int how; unsigned count; };
static int accesses(void *arg)
{
    const struct access_work *w = arg;
    for (unsigned i = 0; i < w->count; i++) {
        unsigned n = next();
        struct tuple copy = {0};
        const struct tuple *t = w->how == LOOPS      ? plain[n]
                                : w->how == PLAIN    ? ps_read(plain[n])
                                : w->how == BRACKETS ? ps_begin_access(id[n], PS_S)
                                : w->how == ROWS     ? row_find(&rows, &(uint64_t){n})
                                : w->how == COPIES   ? &copy
                                : w->how == WRITE    ? ps_begin_access(id[n], PS_X)
                                                     : ps_write(plain[n]);
        if (!t || (w->how == COPIES && ps_item_get(id[n], &copy, sizeof copy) < 0) ||
            (w->how == BRACKETS && ps_end_access(id[n], PS_S)))
            return -errno;
        sum += w->how == LOOPS ? (uintptr_t)t : t->value;
    }
    return 1;                             /* nothing is committed */
}

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static double cost(int how)
{
    uint64_t each[2][ROUNDS];
    for (int i = 0; i < 2 * ROUNDS; i++) {
        struct access_work w = {how, i % 2 ? 2 * EACH : EACH};
        uint64_t t = busy();
        int e = ps_transaction(accesses, &w);
        each[i % 2][i / 2] = busy() - t;
        if (e != 1)
            fail("an access", e);
    }
    for (int i = 0; i < 2; i++)
        qsort(each[i], ROUNDS, sizeof **each, by_value);
    return ((double)each[1][ROUNDS / 2] - (double)each[0][ROUNDS / 2]) / EACH;
}

static void make_all(const char *type)
{
    int e = ps_transaction(make, (void *)type);
    if (e)
        fail("items", e);
}

void group_layer(void)
{
    static const struct ps_part_wish wish[] = {
        {.name = "tuples", .flags = PS_PART_ITEMS | PS_PART_APART | PS_PART_CHECKED},
        {.name = "rows", .allocator = "apart", .flags = PS_PART_ITEMS | PS_PART_APART},
        {.name = "index"}};
    for (unsigned i = 0; i < KEPT; i++)
        headers[i].lock = &entries[(uint64_t)&headers[i] * 0x9e3779b97f4a7c15ull >>
                                   (64 - ENTRIES_BITS)];
    double hash = pairs(by_hash), pointer = pairs(by_pointer);
    row("lock and unlock, the entry by a hash of the address", "instructions", hash, "-");
    row("the same by a pointer in the header", "instructions", pointer, "-");
    row("what the hash costs more (the paper: avoid hashing)", "instructions", hash - pointer, "-");
    file = ps_file_open("bench-layer", PS_CREATE | PS_WRITE, wish, 3);
    if (!file || ps_item_type_add(&types[0]) || ps_item_type_add(&types[1]))
        fail("a file", errno);
    make_all("struct tuple");
    double loop = cost(LOOPS);
    row("a tuple locked to read by ps_read", "instructions", cost(PLAIN) - loop, "-");
    row("an access by brackets", "instructions", cost(BRACKETS) - loop, "-");
    row("a copy by ps_item_get", "instructions", cost(COPIES) - loop, "-");
    row("a tuple locked to write by ps_write", "instructions", cost(PLAIN_WRITE) - loop, "-");
    row("an access to write", "instructions", cost(WRITE) - loop, "-");
    make_all("hooked");
    row("an access by brackets, a type with a function", "instructions", cost(BRACKETS) - loop,
        "-");
    make_all("packed");
    row("the same, of a type that packs", "instructions", cost(BRACKETS) - loop, "-");
    int e = ps_transaction(fill, NULL);
    if (e)
        fail("a relation", e);
    row("a look-up in a relation", "instructions", cost(ROWS) - loop, "-");
}
