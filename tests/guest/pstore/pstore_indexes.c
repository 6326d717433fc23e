/*
 * pstore_indexes.c - many processes at one index that the store manager keeps, and hostile ones.
 *
 * Aim     transactions of several processes in one index are serialisable, ranges without phantoms
 *         among them, at once and in snapshots; a deadlock over keys is found; messages against
 *         all rules, and stores to the manager's pages, are refused and harm nobody.
 * Method  children move values from key to key, some of them abort, others add all up: each range
 *         finds as many keys with the same sum. Two threads take two keys in turn. A child speaks
 *         the protocol by bare calls. `pstore_indexes N`: N moves of each child (250).
 */
#include <errno.h>
#include <index.h>
#include <pstore.h>
#include <pthread.h>
#include <stdlib.h>

#include "pstore_test.h"
#include "store_client.h"

enum { KEYS = 120, SPACE = 400, MOVERS = 3, VALUE = 1000, GOOD = 7, KILLED = 128 };
static ps_index *x;
static uint64_t dice_state;
static unsigned dice(unsigned sides)
{
    dice_state = dice_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(dice_state >> 33) % sides;
}

static int open_index(int flags)
{
    x = ps_index_open("many", PS_NUMBERS, flags);
    return x != NULL;
}

/* ---- children that move, children that add up ---- */

/* The first value from a key on goes to another key that is free, or to the one there. */
static int move(void *aborts)
{
    uint64_t from = dice(SPACE), to = dice(SPACE), there = 0;
    PS_ACCESS(ps_index_range, r, x, &from, NULL, PS_UP);
    const uint64_t *value = ps_index_next(&r);
    if (!value) return errno ? -errno : 0;
    uint64_t key = *(const uint64_t *)ps_index_key(&r), moved = *value;
    if (key == to) return 0;
    int e = ps_index_find(x, &to, &there);
    if (e == 0) { /* they change places */
        e = ps_index_put(x, &to, moved);
        return e ? e : ps_index_put(x, &key, there);
    }
    e = e == -ENOENT ? ps_index_remove(x, &key) : e;
    e = e ? e : ps_index_insert(x, &to, moved);
    return e ? e : *(int *)aborts ? 77 : 0;
}

static int role_move(const char *seed)
{
    int bad = 0, moves = atoi(strchr(seed, ',') + 1);
    dice_state = (uint64_t)atoi(seed);
    for (int i = 0; i < moves; i++) {
        int aborts = dice(5) == 0, r = ps_transaction(move, &aborts);
        bad += r && r != 77;
    }
    return bad ? 1 : GOOD;
}

static int add_up(void *down)
{
    uint64_t keys = 0, sum = 0;
    for (int twice = 0; twice < 2; twice++) {
        PS_ACCESS(ps_index_range, r, x, NULL, NULL, *(int *)down ^ twice ? PS_DOWN : PS_UP);
        for (const uint64_t *p; (p = ps_index_next(&r)); keys++)
            sum += *p;
        if (errno) return -errno;
    }
    return keys == 2 * KEYS && sum == 2ull * KEYS * VALUE ? 0 : 78;
}

static int role_add(const char *seed)
{
    int bad = 0, rounds = atoi(strchr(seed, ',') + 1) / 5;
    for (int i = 0; i < rounds; i++) {
        const struct ps_options snapshot = {.isolation = i % 2 ? PS_SNAPSHOT : PS_SERIALISABLE};
        bad += ps_transaction_opt(add_up, &(int){i / 2 % 2}, &snapshot) != 0;
    }
    return bad ? 2 : GOOD;
}

static int fill(void *unused)
{
    (void)unused;
    for (uint64_t i = 0; i < KEYS; i++) {
        uint64_t key = i * 3;
        int e = ps_index_insert(x, &key, i % 2 ? VALUE + i : VALUE - i - 1);
        if (e) return e;
    }
    return 0;
}

static void many(const char *self, const char *moves)
{
    int child[MOVERS + 2], bad = 0, down = 0;
    struct ps_tree_stats stats;
    char seed[32];
    is(ps_transaction(fill, NULL), 0, "keys");
    for (int i = 0; i < MOVERS + 2; i++) {
        snprintf(seed, sizeof seed, "%d,%s", i + 1, moves);
        child[i] = child_start(self, i < MOVERS ? "move" : "add", seed);
    }
    for (int i = 0; i < MOVERS + 2; i++)
        bad += child_wait_for(child[i], CHILD_ENDS_S) != GOOD;
    is(bad, 0, "three processes move, two add up: always the same");
    is(ps_transaction(add_up, &down), 0, "and at the end");
    tap_ok(ps_index_check(x, &stats, NULL) == 0 && stats.records == KEYS, "the tree is sound");
}

/* ---- a deadlock over keys ---- */

static pthread_barrier_t both;
struct pair { uint64_t first, second; int attempts; };

static int take_two(void *arg)
{
    struct pair *p = arg;
    int e = ps_index_put(x, &p->first, VALUE);
    if (p->attempts++ == 0) pthread_barrier_wait(&both);
    return e ? e : ps_index_put(x, &p->second, VALUE);
}

static void *take(void *pair) { return (void *)(long)ps_transaction(take_two, pair); }

static int put_two(void *arg)
{
    struct pair *p = arg;
    int e = ps_index_insert(x, &p->first, VALUE);
    return e ? e : ps_index_insert(x, &p->second, VALUE);
}

/* The keys are there: two that insert at the end would wait for each other's gap. */
static void deadlock(void)
{
    struct pair one = {1000, 2000, 0}, two = {2000, 1000, 0};
    is(ps_transaction(put_two, &one), 0, "two keys");
    pthread_t thread;
    void *other;
    pthread_barrier_init(&both, NULL, 2);
    pthread_create(&thread, NULL, take, &one);
    long r = (long)take(&two);
    pthread_join(thread, &other);
    tap_ok(r == 0 && !other && one.attempts + two.attempts > 2,
           "two take two keys in turn: one of them runs again (%d runs)",
           one.attempts + two.attempts);
}

/* ---- against the rules ---- */

static struct wire_opened index_opened, box;

static void raw_op(uint32_t kind, uint64_t container, uint64_t length, const char *key,
                   size_t bytes)
{
    struct wire_op *op = (void *)((char *)client_txn.batch + client_txn.batch_bytes);
    size_t size = (sizeof *op + bytes + 7) & ~(size_t)7;
    memset(op, 0, size);
    *op = (struct wire_op){.kind = kind, .op_bytes = (uint32_t)size, .container = container,
                           .address = length, .value = 5};
    memcpy(op->name, key, bytes);
    client_txn.batch_bytes += size;
}

struct raw { uint32_t kind; uint64_t container, length; size_t bytes; const char *key; };
static long raw(void *arg)
{
    const struct raw *w = arg;
    raw_op(w->kind, w->container, w->length, w->key, w->bytes);
    return 0;
}

static int bad_calls;
static void refused(long got, long wanted, const char *what)
{
    if (got == wanted) return;
    printf("# %s: %ld, not %ld\n", what, got, wanted);
    bad_calls++;
}

static long too_many(void *unused)
{
    (void)unused;
    for (uint64_t key[2] = {5000}; client_txn.batch_bytes + 64 < sizeof client_txn.batch; key[0]++)
        raw_op(WIRE_INDEX_SET, index_opened.container, 8, (const char *)key, 9);
    return 0;
}

/* A store that nobody declared, or did, to a lock. */
static long store_to_lock(void *declared)
{
    volatile uint64_t *lock =
        (void *)(uintptr_t)(index_opened.base + index_opened.pages / 2 * KD_PAGE_BYTES);
    if (declared) kd_call3(KD_TXN_HINT, (long)lock, 8, KD_HINT_WRITE);
    *lock = 77;
    return 0;
}

static void messages(void)
{
    const uint64_t id = index_opened.container;
    struct raw w = {WIRE_INDEX_SET, id, 8, 9, "12345678"};
    refused(client_run(raw, &w), 0, "a change without any lock");
    refused(client_run(raw, &(struct raw){WIRE_INDEX_UNSET, id, 8, 9, "12345678"}), 0, "back");
    refused(client_run(raw, &(struct raw){WIRE_INDEX_SET, id, 7, 9, "12345678"}), -EINVAL, "short");
    refused(client_run(raw, &(struct raw){WIRE_INDEX_SET, id, 800, 9, "12345678"}), -EINVAL,
            "long");
    refused(client_run(raw, &(struct raw){WIRE_INDEX_SET, id, ~0ull, 9, "12345678"}), -EINVAL,
            "a length without end");
    refused(client_run(raw, &(struct raw){WIRE_INDEX_SET, id, 8, 8, "12345678"}), -EINVAL,
            "no NUL");
    refused(client_run(raw, &(struct raw){WIRE_INDEX_SET, box.container, 8, 9, "12345678"}),
            -EINVAL, "of no index");
    refused(client_run(raw, &(struct raw){WIRE_INDEX_SET, 999999, 8, 9, "12345678"}), -ENOENT,
            "of nothing");
    refused(client_run(raw, &(struct raw){WIRE_NAME_SET, id, index_opened.base, 5, "name"}),
            -EACCES, "a name");
    refused(client_run(raw, &(struct raw){WIRE_PAGE_FREE, id, index_opened.base, 0, ""}), -EACCES,
            "pages freed");
    refused(client_run(raw, &(struct raw){WIRE_LAYOUT, id, 0, 2, "t"}), -EACCES, "a layout");
    struct wire_opened other;
    char long_name[256] = "a";
    refused(client_open("strings of it", PS_CREATE | PS_WRITE, "ps_index strings", 1, 8, &other), 0,
            "opened");
    refused(client_run(raw, &(struct raw){WIRE_INDEX_SET, other.container, 3, 4, "a\0b"}), -EINVAL,
            "a NUL within");
    memset(long_name, 'n', 255);
    refused(client_run(raw, &(struct raw){WIRE_INDEX_SET, other.container, 254, 255, long_name}),
            -EINVAL, "a long string");
    refused(client_run(too_many, NULL), 0, "many changes of one key each");
    refused(client_call(STORE_LEASE, id, 1, 0, NULL, 0, NULL, 0), -EACCES, "a lease");
    refused(client_call(STORE_SPACE, id, 64, 0, NULL, 0, NULL, 0), -EACCES, "room");
    refused(client_call(STORE_FORM, id, 1, 0, NULL, 0, NULL, 0), -EACCES, "an encoder");
    refused(client_run(store_to_lock, NULL), 0, "a store to a lock");
    refused(client_run(store_to_lock, &w), 0, "and a declared one");
    refused(client_call(STORE_CHECKPOINT, 0, 0, 0, NULL, 0, NULL, 0), 0, "a checkpoint");
}

/* By bare calls: the view that is entered is not the library's. */
static int role_hostile(const char *what)
{
    if (client_connect() ||
        client_open("many", *what == 'r' ? 0 : PS_WRITE, NULL, 0, 0, &index_opened) ||
        client_open("hostile box", PS_CREATE | PS_WRITE, "box", 1, 64, &box))
        return 3;
    struct raw w = {WIRE_INDEX_SET, index_opened.container, 8, 9, "12345678"};
    if (*what == 'r') {
        refused(client_run(raw, &w), -EACCES, "a change of what is open for reading");
        refused(kd_call3(KD_TXN_LOCK, (long)index_opened.base, KD_LOCK_SHARED, 0), -ENOENT, "lock");
    } else {
        messages();
    }
    return bad_calls ? 4 : GOOD;
}

static struct ps_info info[32];

static int store_there(void *page)
{
    uint64_t at = info[0].base;
    *(volatile uint64_t *)(uintptr_t)(at + (uint64_t)atoi(page) * KD_PAGE_BYTES) = 1;
    return 0;
}

static int role_store(char *page)
{
    int n = ps_list(info, 32);
    for (int i = 0; i < n && i < 32; i++)
        if (strcmp(info[i].name, "many") == 0) info[0] = info[i];
    return strcmp(info[0].name, "many") ? 6 : ps_transaction(store_there, page);
}

static void hostile(const char *self)
{
    int down = 0;
    is(child_run(self, "hostile", "w"), GOOD, "messages against the rules");
    is(child_run(self, "hostile", "r"), GOOD, "those of who may only read");
    for (const char *page = "0\0" "1\0" "2\0"; *page; page += 2)
        tap_ok(child_run(self, "store", page) >= KILLED, "who stores to page %s is ended", page);
    is(child_run(self, "remove", ""), GOOD, "what they put is removed");
    is(ps_transaction(add_up, &down), 0, "all is as it was");
    is(ps_index_check(x, NULL, NULL), 0, "and sound");
}

/* The keys of the others: all are above. */
static int remove_others(void *unused)
{
    uint64_t from = SPACE;
    (void)unused;
    PS_ACCESS(ps_index_range, r, x, &from, NULL, PS_UP);
    while (ps_index_next(&r)) {
        uint64_t key = *(const uint64_t *)ps_index_key(&r);
        int e = ps_index_remove(x, &key);
        if (e) return e;
    }
    return -errno;
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "hostile") == 0)
        return role_hostile(argv[2]);
    if (argc > 2 && !open_index(PS_WRITE))
        return 5;
    if (argc > 2 && strcmp(argv[1], "move") == 0)
        return role_move(argv[2]);
    if (argc > 2 && strcmp(argv[1], "add") == 0)
        return role_add(argv[2]);
    if (argc > 2 && strcmp(argv[1], "store") == 0)
        return role_store(argv[2]);
    if (argc > 2)
        return ps_transaction(remove_others, NULL) == 0 ? GOOD : 1;
    tap_plan(15);
    tap_ok(open_index(PS_CREATE | PS_WRITE), "opened");
    many(argv[0], argc > 1 ? argv[1] : "250");
    deadlock();
    hostile(argv[0]);
    return tap_end();
}
