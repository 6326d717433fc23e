/*
 * indexes.c - one index that two processes insert into and look up in at once: on items, where
 * keys are locked (structures/item_index.h), beside the tree and the hash whose pages are. Then
 * insertions of one process where stores are announced (a guard, declared ranges), and a latch.
 */
#include <kit.h>
#include <structures/hash.h>
#include <structures/item_index.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum { LOADED = 20000, EACH = 5, TIMES = 100, LATCHES = 1000 };
struct key { uint32_t n; };
struct value { uint64_t v; };
static int by_number(const struct key *a, const struct key *b)
{
    return (a->n > b->n) - (a->n < b->n);
}
static uint64_t key_hash(const struct key *key) { return key->n; }
PS_ITEM_TREE(item_tree, struct key, struct value, by_number, key_hash);
PS_ITEM_HASH(item_hash, struct key, struct value, by_number, key_hash);
PS_TREE(page_tree, struct key, struct value, by_number);
PS_HASH(page_hash, struct key, struct value, by_number, key_hash);
struct root {
    struct item_tree_head item_tree;
    struct item_hash_head item_hash;
    struct page_tree_head page_tree;
    struct page_hash_head page_hash;
};
static ps_container *box;
static struct root *root;
static uint64_t runs, sum;

/* Keys in no order; no two numbers have the same. */
static uint32_t key_of(uint32_t number) { return number * 2654435761u; }

/* Of each kind the same: set up; insertions; look-ups. */
struct some { uint32_t first, count, step; int (*op)(const struct some *s); };
#define KIND(NAME)                                                                                \
    static struct NAME NAME##_now(void)                                                           \
    {                                                                                             \
        return (struct NAME){.head = &root->NAME, .memory = ps_in(box)};                          \
    }                                                                                             \
    static int NAME##_begin(void) { struct NAME i = NAME##_now(); return NAME##_set_up(&i); }     \
    static int NAME##_more(const struct some *s)                                                  \
    {                                                                                             \
        struct NAME now = NAME##_now();                                                           \
        PS_ACCESS(NAME##_keyed, a, &now, PS_CHANGE);                                              \
        int e = 0;                                                                                \
        for (uint32_t i = 0; i < s->count && !e; i++) {                                           \
            uint32_t n = key_of(s->first + i * s->step);                                          \
            e = NAME##_insert(&a, &(struct key){n}, &(struct value){n});                          \
        }                                                                                         \
        return e;                                                                                 \
    }                                                                                             \
    static int NAME##_look(const struct some *s)                                                  \
    {                                                                                             \
        struct NAME now = NAME##_now();                                                           \
        PS_ACCESS(NAME##_keyed, a, &now, PS_LOOK);                                                \
        for (uint32_t i = 0; i < s->count; i++) {                                                 \
            uint32_t n = key_of(s->first + i * s->step);                                          \
            const struct value *value = NAME##_find(&a, &(struct key){n});                        \
            if (!value)                                                                           \
                return -errno;                                                                    \
            sum += value->v;                                                                      \
        }                                                                                         \
        return 0;                                                                                 \
    }
KIND(item_tree)
KIND(item_hash)
KIND(page_tree)
KIND(page_hash)
static const struct kind {
    const char *name, *how;
    int items;
    int (*begin)(void), (*add)(const struct some *s), (*look)(const struct some *s);
} kinds[] = {
    {"the tree", "items", 1, item_tree_begin, item_tree_more, item_tree_look},
    {"the tree", "pages", 0, page_tree_begin, page_tree_more, page_tree_look},
    {"the hash", "items", 1, item_hash_begin, item_hash_more, item_hash_look},
    {"the hash", "pages", 0, page_hash_begin, page_hash_more, page_hash_look},
};
static const struct kind *kind;

static int do_some(void *arg)
{
    const struct some *s = arg;
    runs++;
    return s->op(s);
}
static int make_root(void *unused)
{
    (void)unused;
    root = ps_root(box);
    return kind->begin();
}

struct told { uint64_t waits, again; };
static struct told work(unsigned who, int adds)
{
    struct kd_view_stats s = {0}, before = {0};
    kd_call3(KD_VIEW_STATS, (long)&before, 0, 0);
    runs = 0;
    for (uint32_t i = 0; i < TIMES; i++) {
        struct some some = {adds ? LOADED + i * 2 * EACH + who : (i * 2 + who) * EACH * 17, EACH,
                            adds ? 2 : 1, adds ? kind->add : kind->look};
        int e = ps_transaction(do_some, &some);
        if (e)
            fail(kind->name, e);
    }
    kd_call3(KD_VIEW_STATS, (long)&s, 0, 0);
    return (struct told){s.lock_waits - before.lock_waits, runs - TIMES};
}

/* Instructions of an operation of two processes. */
static double both(int adds, struct told *told)
{
    int go[2], back[2];
    struct told other = {0};
    if (pipe(go) || pipe(back))
        fail("a pipe", errno);
    long pid = fork();
    if (pid == 0) {
        struct some one = {0, EACH, 1, kind->look};
        if (ps_transaction(do_some, &one) || write(back[1], &other, sizeof other) < 0 ||
            read(go[0], &other, 1) != 1)
            _exit(1);
        other = work(1, adds);
        _exit(write(back[1], &other, sizeof other) != sizeof other);
    }
    if (pid < 0 || read(back[0], &other, sizeof other) != sizeof other)
        fail("another process", EIO);
    uint64_t t = busy();
    if (write(go[1], "", 1) != 1)
        fail("a pipe", errno);
    *told = work(0, adds);
    if (read(back[0], &other, sizeof other) != sizeof other || wait(NULL) != pid)
        fail("another process", EIO);
    told->waits += other.waits;
    told->again += other.again;
    close(go[0]), close(go[1]), close(back[0]), close(back[1]);
    return (double)(busy() - t) / (2 * TIMES * EACH);
}

/* Of one process, all at hand. */
static double alone(unsigned count)
{
    struct some some = {0, count, 1, kind->look};
    uint64_t least = ~0ull;
    for (int i = 0; i < 5; i++) {
        uint64_t t = counter();
        int e = ps_transaction(do_some, &some);
        t = counter() - t;
        if (e)
            fail(kind->name, e);
        least = t < least ? t : least;
    }
    return (double)least / count;
}

static void say(const char *what, const char *unit, double value)
{
    char text[120];
    snprintf(text, sizeof text, "%s on %s: %s", kind->name, kind->how, what);
    row(text, unit, value, "-");
}

static void latch(void)
{
    ps_area *a = ps_area_private(4096, NULL);
    struct ps_latch *l = a ? ps_area_memory(a) : NULL;
    if (!l || ps_latch_take(a, l, -1) || ps_latch_give(a, l))
        fail("a latch", errno);
    uint64_t t = counter();
#pragma GCC unroll 10
    for (int i = 0; i < LATCHES; i++) {
        ps_latch_take(a, l, -1);
        ps_latch_give(a, l);
    }
    t = counter() - t;
    row("a latch taken and given, with both calls", "instructions", (double)t / LATCHES, "25");
    ps_area_close(a);
}

/* ---- where stores are announced ---- */

static const struct form { const char *name; int protection, encoder; } forms[] = {
    {"no announcement", PS_PROTECT_NONE, PS_ENCODE_DIFF},
    {"a guard", PS_PROTECT_GUARD, PS_ENCODE_DIFF},
    {"declared ranges", PS_PROTECT_NONE, PS_ENCODE_RANGES},
};
enum { FORMS = sizeof forms / sizeof *forms };

/* Opens it anew, with 20,000 keys. */
static void index_open(const struct form *f, int items)
{
    box = ps_open("bench-index", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    int e = box ? ps_locking(box, items ? PS_LOCK_ITEMS : PS_LOCK_PAGES) : -errno;
    e = e ? e : ps_encoder(box, f->encoder);
    e = e ? e : ps_protection(box, f->protection);
    e = e ? e : ps_transaction(make_root, NULL);
    for (uint32_t n = 0; n < LOADED && !e; n += 100)
        e = ps_transaction(do_some, &(struct some){n, 100, 1, kind->add});
    if (e)
        fail(kind->name, e);
}

static void index_close(void)
{
    ps_close(box);
    ps_delete("bench-index");
}

/* Instructions of an insertion of one process, so many in a transaction. */
static double insertions(uint32_t each)
{
    uint64_t t = busy();
    for (uint32_t i = 0; i < TIMES; i++) {
        int e = ps_transaction(do_some, &(struct some){LOADED + i * each, each, 1, kind->add});
        if (e)
            fail(kind->name, e);
    }
    return (double)(busy() - t) / (TIMES * each);
}

static void announced(void)
{
    static const uint32_t each[] = {5, 50};
    char text[120];
    double none[2];
    for (int f = 0; f < FORMS; f++)
        for (int i = 0; i < 2; i++) {
            index_open(&forms[f], 0);
            double is = insertions(each[i]);
            none[i] = f == 0 ? is : none[i];
            snprintf(text, sizeof text, "%s, %s: an insertion, %u in a transaction", kind->name,
                     forms[f].name, each[i]);
            row(text, "instructions", is, "-");
            snprintf(text, sizeof text, "%s, %s: the same, of none", kind->name, forms[f].name);
            if (f > 0)
                row(text, "times", is / none[i], "-");
            index_close();
        }
}

void group_indexes(void)
{
    struct told told;
    for (kind = kinds; kind < kinds + 4; kind++) {
        index_open(&forms[0], kind->items);
        double insert = both(1, &told);
        say("an insertion, 5 in a transaction, two processes", "instructions", insert);
        say("their waits", "waits", (double)told.waits);
        say("what they ran again", "transactions", (double)told.again);
        say("a look-up, 5 in a transaction, two processes", "instructions", both(0, &told));
        say("a look-up, 100 in a transaction, cached", "instructions", alone(100));
        index_close();
        if (!kind->items)
            announced();
    }
    latch();
}
