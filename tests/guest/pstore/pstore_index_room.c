/*
 * pstore_index_room.c - indexes when there is little room: transactions that spill, many indexes.
 *
 * Aim     a transaction whose copies spill, its locks of keys among them, commits or aborts as any
 *         other, and its keys stay locked meanwhile; a lazy one, too; more indexes than the store
 *         manager has handles for are opened one after the other, and each is as it was left.
 *         A commit that changes too many pages is refused, those beside it in its group are not;
 *         who waits for a key by ps_retry is woken.
 * Method  the limit of private copies (KD_LIMIT_COPIES) of a child is small, so that the kernel has
 *         its copies spilled. Each index is closed behind its use: the manager gives up those that
 *         nobody has open.
 */
#include <errno.h>
#include <index.h>
#include <pstore.h>
#include <pthread.h>
#include <string.h>

#include "pstore_test.h"

enum { COPIES = 100, PAGES = 200, KEYS = 30, INDEXES = 140, GOOD = 7 };
struct root { char *page[PAGES]; };
static ps_container *box;
static ps_index *x;

static int pages_make(void *unused)
{
    struct root *root = ps_root(box);
    (void)unused;
    for (int i = 0; root && i < PAGES; i++)
        if (!root->page[i] && !(root->page[i] = ps_alloc(box, 4000, NULL))) return -errno;
    return root ? 0 : -errno;
}

/* Keys, then pages, which push the locks out, then the same keys, and others. */
static int much(void *arg)
{
    struct root *root = ps_root(box);
    uint64_t value = *(uint64_t *)arg;
    int e = 0;
    for (uint64_t key = 0; key < KEYS && e == 0; key++)
        e = ps_index_put(x, &key, value);
    for (int i = 0; i < PAGES; i++)
        memset(root->page[i], (int)value, 4000);
    for (uint64_t key = 0; key < 2 * KEYS && e == 0; key++)
        e = ps_index_put(x, &key, value + 1);
    for (int i = 0; i < PAGES; i++)
        root->page[i][7] = (char)(value + 1);
    return e ? e : value % 2 ? 0 : 77;
}

static int found(void *arg)
{
    const struct root *root = ps_root(box);
    uint64_t value = *(uint64_t *)arg, got = 0, keys = 0;
    PS_ACCESS(ps_index_range, r, x, NULL, NULL, PS_UP);
    for (const uint64_t *p; (p = ps_index_next(&r)); keys++)
        got += *p == value + 1;
    for (int i = 0; i < PAGES; i++)
        got += root->page[i][6] == (char)value && root->page[i][7] == (char)(value + 1);
    return errno ? -errno : keys == 2 * KEYS && got == keys + PAGES ? 0 : 78;
}

static int role_spill(void)
{
    uint64_t both[2] = {COPIES, COPIES}, values[] = {1, 2, 3, 4};
    struct kd_system_info before = system_info();
    int bad = kd_call4(302, 0, KD_RLIMIT + KD_LIMIT_COPIES, (long)both, 0) != 0; /* prlimit64 */
    for (int i = 0; i < 4; i++) {
        const struct ps_options lazy = {.lazy = i == 2};
        int r = ps_transaction_opt(much, &values[i], &lazy);
        if (r != (i % 2 ? 77 : 0)) printf("# transaction %d: %s\n", i, ps_strerror(r));
        bad += r != (i % 2 ? 77 : 0);
        r = ps_transaction(found, &values[i / 2 * 2]);
        if (r) printf("# after %d: %s\n", i, ps_strerror(r));
        bad += r != 0;
    }
    bad += system_info().spills == before.spills;
    return bad ? 1 : GOOD;
}

static int count_up(void *number)
{
    uint64_t key = 7, value = 0;
    int r = ps_index_find(x, &key, &value);
    if (r && r != -ENOENT) return r;
    if (value != 0 && value != *(uint64_t *)number) return 79;
    return ps_index_put(x, &key, *(uint64_t *)number);
}

static void many(void)
{
    int bad = 0;
    char name[32];
    for (int round = 0; round < 2; round++)
        for (uint64_t i = 1; i <= INDEXES; i++) {
            sprintf(name, "one of many %d", (int)i);
            x = ps_index_open(name, PS_NUMBERS, PS_CREATE | PS_WRITE);
            int r = x ? ps_transaction(count_up, &i) : -errno;
            if (r && bad++ < 3) printf("# %s: %s\n", name, ps_strerror(r));
            if (x) ps_close(x);
        }
    is(bad, 0, "many indexes, one after the other, twice");
    for (uint64_t i = 1; i <= INDEXES; i += 2) {
        sprintf(name, "one of many %d", (int)i);
        bad += ps_delete(name) != 0;
    }
    is(bad, 0, "half of them are deleted");
}

/* ---- refused beside others ---- */

enum { LONG_KEYS = 7000, AT_ONCE = 500, STEP = 20, WRITERS = 3, WRITES = 150, LONG = 190 };
static _Atomic int over, too_big, bad_writes;

/* Some 18 of them fill a leaf. */
static const char *long_key(unsigned n, char *key)
{
    sprintf(key, "%06u", n);
    memset(key + 6, 'x', LONG);
    key[6 + LONG] = 0;
    return key;
}

static int long_fill(void *from)
{
    char key[256];
    for (unsigned i = 0; i < AT_ONCE; i++) {
        int e = ps_index_insert(x, long_key((*(unsigned *)from + i) * 10, key), 1);
        if (e) return e;
    }
    return 0;
}

/* One in each leaf. */
static int spread(void *unused)
{
    char key[256];
    (void)unused;
    for (unsigned i = 0; i < LONG_KEYS; i += STEP) {
        int e = ps_index_put(x, long_key(i * 10 + 5, key), 3);
        if (e) return e;
    }
    return 0;
}

static int put_one(void *n)
{
    char key[256];
    return ps_index_insert(x, long_key(*(unsigned *)n, key), 2);
}

static void *fails(void *unused)
{
    do {
        int r = ps_transaction(spread, unused);
        too_big += r == -E2BIG;
        bad_writes += r != -E2BIG;
    } while (!over);
    return NULL;
}

static unsigned writes_each(void) { return tap_long() ? WRITES : WRITES / 5; }
static void *writes(void *number)
{
    for (unsigned i = 0; i < writes_each(); i++) {
        unsigned n = i * 400 + 1 + (unsigned)(uintptr_t)number;
        bad_writes += ps_transaction(put_one, &n) != 0;
    }
    return NULL;
}

static void refused_beside_others(void)
{
    pthread_t failing, writer[WRITERS];
    struct ps_tree_stats stats;
    int bad = 0;
    x = ps_index_open("long keys", PS_STRINGS, PS_CREATE | PS_WRITE);
    for (unsigned i = 0; i < LONG_KEYS; i += AT_ONCE)
        bad += !x || ps_transaction(long_fill, &i) != 0;
    is(bad, 0, "many leaves");
    pthread_create(&failing, NULL, fails, NULL);
    for (uintptr_t i = 0; i < WRITERS; i++)
        pthread_create(&writer[i], NULL, writes, (void *)i);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(writer[i], NULL);
    over = 1;
    pthread_join(failing, NULL);
    tap_ok(too_big > 0 && bad_writes == 0, "%d commits were too large, those beside them not",
           too_big);
    tap_ok(ps_index_check(x, &stats, NULL) == 0 &&
               stats.records == LONG_KEYS + WRITERS * writes_each(),
           "the tree is sound, and has what was committed");
}

/* ---- woken by a key ---- */

static _Atomic int runs;

static int wait_for(void *key)
{
    uint64_t value;
    runs++;
    int r = ps_index_find(x, key, &value);
    if (r == -ENOENT) ps_retry();
    return r;
}

static void *waits(void *key) { return (void *)(long)ps_transaction(wait_for, key); }
static int come(void *key) { return ps_index_put(x, key, 1); }

static void retry(void)
{
    pthread_t waiter;
    void *result;
    x = ps_index_open("long keys", PS_STRINGS, PS_WRITE);
    pthread_create(&waiter, NULL, waits, "the key that comes");
    while (!runs)
        pause_ms(1);
    int r = ps_transaction(come, "the key that comes");
    pthread_join(waiter, &result);
    tap_ok(r == 0 && !result && runs > 1, "who waits for a key is woken when it comes");
}

int main(int argc, char **argv)
{
    box = ps_open("room", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    x = ps_index_open("room index", PS_NUMBERS, PS_CREATE | PS_WRITE);
    if (argc > 1)
        return box && x ? role_spill() : 2;
    tap_plan(9);
    is(box && x ? ps_transaction(pages_make, NULL) : -errno, 0, "opened");
    is(child_run(argv[0], "spill", ""), GOOD, "transactions that spill their locks");
    is(ps_index_check(x, NULL, NULL), 0, "the tree is sound");
    many();
    refused_beside_others();
    retry();
    return tap_end();
}
