/*
 * indexes.c - an index that the store manager keeps (index.h), beside a B+-tree of one's own.
 *
 * Look-ups are the second pass of a transaction, so that pages and rights are at hand. Calls of the
 * kernel are those of the library, which come through ps_kernel() here; messages are its calls of
 * ports, and pages that the kernel asks a manager for. Instructions count those of kernel and store
 * manager, too, and no waiting for the disk.
 */
#include <errno.h>
#include <index.h>
#include <katydid/call.h>
#include <pstore.h>
#include <structures/tree.h>

#include "tests/bench/bench-structures/indexes.h"
#include "tests/bench/measure.h"

enum { KEYS = 20000, AT_ONCE = 1000, LOOKS = 2000, INSERTS = 100 };
struct number { uint64_t n; };
struct record { uint64_t value; };
static int by_number(const struct number *a, const struct number *b)
{
    return (a->n > b->n) - (a->n < b->n);
}
PS_TREE(plain, struct number, struct record, by_number);
struct root { struct plain_head tree; };

static ps_container *box;
static ps_index *kept;
static struct plain tree;
static uint64_t calls, called, messages, begun, spent;

/* In the place of the library's own. */
long ps_kernel(long number, long a, long b, long c);
long ps_kernel(long number, long a, long b, long c)
{
    calls++;
    messages += number == KD_PORT_CALL || number == KD_PORT_CALL_UNTIL;
    return kd_call3(number, a, b, c);
}

static struct kd_system_info system_now(void)
{
    struct kd_system_info info = {0};
    kd_call3(KD_SYSTEM_INFO, (long)&info, 0, 0);
    return info;
}

static void need(int good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "bench-structures: %s: %s\n", what, ps_strerror(-errno));
    exit(1);
}

static void row(const char *what, const char *unit, double value, const char *reach)
{
    printf("%s\t%s\t%.0f\t%s\n", what, unit, value, reach);
}

/* Each number below KEYS once, in no order. */
static uint64_t scattered(uint64_t i) { return i * 6151 % KEYS; }

static int fill(void *from)
{
    PS_ACCESS(plain_keyed, a, &tree, PS_CHANGE);
    for (uint64_t i = *(uint64_t *)from; i < *(uint64_t *)from + AT_ONCE; i++) {
        uint64_t key = i * 2;
        int e = ps_index_insert(kept, &key, i);
        e = e ? e : plain_insert(&a, &(struct number){key}, &(struct record){i});
        if (e) return e;
    }
    return 0;
}

static int set_up(void *unused)
{
    struct root *root = ps_root(box);
    (void)unused;
    if (!root) return -errno;
    tree = (struct plain){.head = &root->tree, .memory = ps_in(box)};
    return plain_set_up(&tree);
}

/* ---- look-ups ---- */

static int look_kept(void)
{
    uint64_t value;
    for (uint64_t i = 0; i < LOOKS; i++) {
        uint64_t key = scattered(i) * 2;
        if (ps_index_find(kept, &key, &value) || value != key / 2) return -EINVAL;
    }
    return 0;
}

static int look_plain(void)
{
    PS_ACCESS(plain_keyed, a, &tree, PS_LOOK);
    for (uint64_t i = 0; i < LOOKS; i++) {
        const struct record *r = plain_find(&a, &(struct number){scattered(i) * 2});
        if (!r || r->value != scattered(i)) return -EINVAL;
    }
    return 0;
}

static int range_kept(void)
{
    uint64_t from = 1000, seen = 0;
    PS_ACCESS(ps_index_range, r, kept, &from, NULL, PS_UP);
    while (seen < LOOKS && ps_index_next(&r)) seen++;
    return seen == LOOKS ? 0 : -EINVAL;
}

static int range_plain(void)
{
    uint64_t seen = 0;
    PS_ACCESS(plain_range, r, &tree, &(struct number){1000}, NULL, PS_UP, PS_LOOK);
    while (seen < LOOKS && plain_next(&r)) seen++;
    return seen == LOOKS ? 0 : -EINVAL;
}

static int twice(void *pass)
{
    int (*run)(void) = *(int (**)(void))pass, e = run();
    uint64_t pages = system_now().page_requests;
    calls = messages = 0;
    begun = counter();
    e = e ? e : run();
    spent = counter() - begun;
    called = calls;
    messages += system_now().page_requests - pages;
    return e;
}

static void looks(const char *what, int (*pass)(void), int snapshot)
{
    const struct ps_options how = {.isolation = snapshot ? PS_SNAPSHOT : PS_SERIALISABLE};
    char name[128];
    need(ps_transaction_opt(twice, &pass, &how) == 0, what);
    row(what, "instructions", (double)spent / LOOKS, "-");
    if (pass != look_kept && pass != range_kept)
        return;
    snprintf(name, sizeof name, "%s: messages of %d", what, LOOKS);
    row(name, "messages", (double)messages, "0");
    snprintf(name, sizeof name, "%s: calls of the kernel of %d", what, LOOKS);
    row(name, "calls", (double)called, "0");
}

/* ---- insertions ---- */

static int insert_kept(void *number)
{
    uint64_t key = 2 * scattered(*(uint64_t *)number) + 1;
    return ps_index_insert(kept, &key, key);
}

static int insert_plain(void *number)
{
    PS_ACCESS(plain_keyed, a, &tree, PS_CHANGE);
    uint64_t key = 2 * scattered(*(uint64_t *)number) + 1;
    return plain_insert(&a, &(struct number){key}, &(struct record){key});
}

static void inserts(const char *what, int (*insert)(void *number), uint64_t first)
{
    uint64_t idle = system_now().idle_cycles;
    begun = counter();
    for (uint64_t i = first; i < first + INSERTS; i++)
        need(ps_transaction(insert, &i) == 0, what);
    uint64_t took = counter() - begun - (system_now().idle_cycles - idle);
    row(what, "instructions", (double)took / INSERTS, "-");
}

void indexes(void)
{
    box = ps_open("bench-indexes", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    kept = ps_index_open("bench-indexes.kept", PS_NUMBERS, PS_CREATE | PS_WRITE);
    need(box && kept, "the containers");
    need(ps_transaction(set_up, NULL) == 0, "set-up");
    for (uint64_t i = 0; i < KEYS; i += AT_ONCE)
        need(ps_transaction(fill, &i) == 0, "fill");
    ps_checkpoint();
    looks("kept index: look-up, cached", look_kept, 0);
    looks("kept index: look-up in a snapshot, cached", look_kept, 1);
    looks("a tree of one's own: look-up, cached", look_plain, 0);
    looks("kept index: next of a range, cached", range_kept, 0);
    looks("a tree of one's own: next of a range, cached", range_plain, 0);
    inserts("kept index: insert with commit", insert_kept, 0);
    inserts("a tree of one's own: insert with commit", insert_plain, 0);
}
