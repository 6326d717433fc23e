/*
 * pstore_index.c - indexes that the store manager keeps.
 *
 * Aim     whatever transactions do, and whether they commit, a look-up and a range find what a
 *         plain array says, the transaction's own changes among it; which of two transactions waits
 *         for the other is what index.h says, and no other does; two insert into one leaf and
 *         either may abort; a snapshot sees its own time; bounds are errors, not accidents.
 * Method  random operations beside an array. For the waits, one thread has both transactions: one
 *         that would wait for the suspended one waits for itself, and hears EDEADLK at once.
 *         `pstore_index SEED N`: N transactions of each kind (200).
 */
#include <errno.h>
#include <index.h>
#include <pstore.h>
#include <string.h>

#include "pstore_test.h"

enum { KEYS = 700, OPS = 24, TRANSACTIONS = 200 };

static uint64_t dice_state;
static unsigned dice(unsigned sides)
{
    dice_state = dice_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(dice_state >> 33) % sides;
}

/* ---- a key of each number, in the same order ---- */

struct name { _Alignas(8) char text[64]; };
static enum ps_index_kind kind;

static struct name key_of(unsigned number)
{
    struct name n = {{0}};
    uint64_t spread = number * 1000003ull;
    if (kind == PS_NUMBERS)
        memcpy(n.text, &spread, sizeof spread);
    else
        snprintf(n.text, sizeof n.text, "a key with some %s %06u", "text in front of it:", number);
    return n;
}

static int same_key(const void *key, unsigned number)
{
    struct name n = key_of(number);
    return kind == PS_NUMBERS ? memcmp(key, n.text, 8) == 0 : strcmp(key, n.text) == 0;
}

/* ---- beside an array ---- */

/* 0: no such key; `within`: as the running transaction has it */
static uint64_t model[KEYS], within[KEYS];
static ps_index *x;
static long wrong;

static void expect(int good, const char *what, unsigned key)
{
    if (!good && wrong++ < 5)
        printf("# %s, key %u\n", what, key);
}

static void look_at(unsigned key)
{
    struct name n = key_of(key);
    uint64_t value = 0;
    int r = ps_index_find(x, n.text, &value);
    expect(r == (within[key] ? 0 : -ENOENT) && value == within[key], "find", key);
}

static void range_over(unsigned from, unsigned to, int how)
{
    struct name low = key_of(from), high = key_of(to);
    int bounds = (int)dice(4), down = how & PS_DOWN, step = down ? -1 : 1;
    PS_ACCESS(ps_index_range, r, x, bounds & 1 ? low.text : NULL, bounds & 2 ? high.text : NULL,
              how);
    int first = bounds & 1 ? (int)from : 0, last = bounds & 2 ? (int)to : KEYS - 1;
    last -= bounds & 2 && how & PS_BELOW;
    for (int key = down ? last : first; key >= first && key <= last; key += step) {
        if (!within[key])
            continue;
        const uint64_t *value = ps_index_next(&r);
        expect(value && *value == within[key] && same_key(ps_index_key(&r), (unsigned)key), "range",
               (unsigned)key);
        if (!value)
            return;
        if (dice(40))
            continue;
        int r = ps_index_remove(x, key_of((unsigned)key).text);
        expect(r == 0, "what came is removed", (unsigned)key);
        within[key] = 0;
    }
    expect(!ps_index_next(&r) && errno == 0, "the range's end", from);
}

static void change(unsigned key)
{
    struct name n = key_of(key);
    uint64_t value = 1 + dice(1 << 30);
    switch (dice(4)) {
    case 0:
        expect(ps_index_insert(x, n.text, value) == (within[key] ? -EEXIST : 0), "insert", key);
        within[key] = within[key] ? within[key] : value;
        return;
    case 1:
        expect(ps_index_put(x, n.text, value) == 0, "put", key);
        within[key] = value;
        return;
    default:
        expect(ps_index_remove(x, n.text) == (within[key] ? 0 : -ENOENT), "remove", key);
        within[key] = 0;
        return;
    case 2: look_at(key);
    }
}

static int ends_badly;
static int operations(void *count)
{
    unsigned grows = dice(3);
    memcpy(within, model, sizeof within);
    for (unsigned n = dice(*(unsigned *)count); n > 0; n--) {
        unsigned key = dice(KEYS);
        change(key);
        if (grows && !within[key]) {
            expect(ps_index_insert(x, key_of(key).text, key + 1) == 0, "insert", key);
            within[key] = key + 1;
        }
        if (dice(12) == 0)
            range_over(dice(KEYS / 2), KEYS / 2 + dice(KEYS / 2),
                       (dice(2) ? PS_UP : PS_DOWN) | (dice(2) ? PS_BELOW : 0));
    }
    return ends_badly ? 77 : 0;
}

static void beside_an_array(enum ps_index_kind which, const char *name, unsigned transactions)
{
    unsigned some = OPS, many = 300;
    struct ps_tree_stats stats;
    const char *why;
    kind = which;
    wrong = 0;
    memset(model, 0, sizeof model);
    x = ps_index_open(name, kind, PS_CREATE | PS_WRITE);
    if (!tap_ok(x != NULL, "%s: made", name))
        return;
    for (unsigned t = 0; t < transactions; t++) {
        ends_badly = dice(4) == 0;
        int r = ps_transaction(operations, dice(20) ? &some : &many);
        expect(r == (ends_badly ? 77 : 0), "a transaction's end", t);
        if (!ends_badly)
            memcpy(model, within, sizeof model);
    }
    long records = 0;
    for (unsigned i = 0; i < KEYS; i++)
        records += model[i] != 0;
    is(wrong, 0, "what was found is what the array says");
    int r = ps_index_check(x, &stats, &why);
    tap_ok(r == 0 && (long)stats.records == records, "the tree is sound: %s, %ld of %ld records",
           why ? why : "yes", (long)stats.records, records);
}

/* ---- who waits for whom ---- */

static int insert(const char *key, uint64_t value) { return ps_index_insert(x, key, value); }

static int keys_set(void *unused)
{
    (void)unused;
    PS_ACCESS(ps_index_range, r, x, NULL, NULL, PS_UP);
    while (ps_index_next(&r)) {
        int e = ps_index_remove(x, ps_index_key(&r));
        if (e) return e;
    }
    int e = insert("b", 2);
    e = e ? e : insert("d", 4);
    e = e ? e : insert("f", 6);
    return e ? e : insert("h", 8);
}

/* "i d": inserts d, "r d": removes, "p d": puts, "f d": finds; "u b f", "d b f": a range upwards or
 * down, "." for no bound. Whether it succeeds does not matter. */
static void act(const char *what)
{
    char from[2] = {what[2]}, to[2] = {what[3] ? what[4] : 0};
    uint64_t value;
    switch (what[0]) {
    case 'i': (void)ps_index_insert(x, from, 9); return;
    case 'r': (void)ps_index_remove(x, from); return;
    case 'p': (void)ps_index_put(x, from, 9); return;
    case 'f': (void)ps_index_find(x, from, &value); return;
    default: break;
    }
    PS_ACCESS(ps_index_range, r, x, *from == '.' ? NULL : from, *to == '.' ? NULL : to,
              what[0] == 'u' ? PS_UP : PS_DOWN);
    while (ps_index_next(&r))
        ;
}

static int acts(void *what)
{
    act(what);
    return 78;
}

/* While `first` is not over, does `second` wait? */
static void waits(const char *first, const char *second, int wanted)
{
    const struct ps_options apart = {.apart = 1, .retries = 1};
    int r = ps_begin(NULL);
    act(first);
    ps_tx *tx = ps_suspend();
    int got = (ps_transaction_opt)(acts, (void *)(uintptr_t)second, &apart);
    r = r ? r : ps_resume(tx);
    r = r ? r : ps_rollback();
    tap_ok(r == 0 && got == (wanted ? -EDEADLK : 78), "\"%s\" %s while \"%s\" is not over (%d)",
           second, wanted ? "waits" : "goes on", first, got);
}

/* ---- two insert into one leaf ---- */

static int insert_key(void *key) { return insert(key, 1); }
static int there(void *key)
{
    uint64_t value;
    int r = ps_index_find(x, key, &value);
    return r == -ENOENT ? 79 : r;
}

static void one_leaf(int first_aborts, int second_aborts)
{
    const struct ps_options apart = {.apart = 1, .retries = 1};
    int bad = ps_transaction(keys_set, NULL) != 0;
    bad += ps_begin(NULL) != 0 || insert("c", 1) != 0;
    ps_tx *tx = ps_suspend();
    if (second_aborts)
        bad += (ps_transaction_opt)(acts, (void *)(uintptr_t) "i e", &apart) != 78;
    else
        bad += (ps_transaction_opt)(insert_key, (void *)(uintptr_t) "e", &apart) != 0;
    bad += ps_resume(tx) != 0;
    bad += (first_aborts ? ps_rollback() : ps_commit()) != 0;
    bad += ps_transaction(there, (void *)(uintptr_t) "c") != (first_aborts ? 79 : 0);
    bad += ps_transaction(there, (void *)(uintptr_t) "e") != (second_aborts ? 79 : 0);
    bad += ps_transaction(there, (void *)(uintptr_t) "d") != 0;
    tap_ok(bad == 0, "two insert into a leaf, the first %s, the second %s",
           first_aborts ? "aborts" : "commits", second_aborts ? "aborts" : "commits");
}

static void locks(void)
{
    int before = ps_strict(1);          /* no right of the transaction before stays */
    kind = PS_STRINGS;
    x = ps_index_open("locks", PS_STRINGS, PS_CREATE | PS_WRITE);
    is(ps_transaction(keys_set, NULL), 0, "four keys in one leaf");
    waits("i c", "i e", 0);
    waits("i c", "p d", 0);
    waits("i c", "f d", 0);
    waits("i c", "f c", 1);
    waits("i c", "f e", 0);
    waits("i c", "i c", 1);
    waits("i c", "i ca", 1);
    waits("i i", "i j", 1);
    waits("f c", "i c", 1);
    waits("f c", "f c", 0);
    waits("f d", "p d", 1);
    waits("f d", "r d", 1);
    waits("p d", "i e", 0);
    waits("p d", "p f", 0);
    waits("r d", "f f", 0);
    waits("r d", "i c", 1);
    waits("r d", "i e", 0);
    waits("i c", "r d", 1);
    waits("u b d", "i c", 1);
    waits("u b d", "i e", 1);   /* the gap in which it ends */
    waits("u b d", "i g", 0);
    waits("u b d", "p f", 0);
    waits("u b d", "r f", 1);   /* else "e" would come into the next key's gap */
    waits("u b d", "i a", 1);
    waits("u c d", "p b", 0);
    waits("u . .", "i i", 1);
    waits("d d f", "i e", 1);
    waits("d d f", "i c", 1);
    waits("d d f", "i g", 1);   /* the gap in which it begins */
    waits("d d f", "i i", 0);
    waits("d d f", "p h", 0);
    waits("d d f", "r h", 1);
    waits("d . .", "i i", 1);
    waits("i c", "u b d", 1);
    waits("i c", "u f h", 0);
    waits("i e", "d f h", 1);
    waits("r f", "u b d", 1);
    waits("u b d", "u b f", 0);
    for (int i = 0; i < 4; i++)
        one_leaf(i & 1, i & 2);
    (void)ps_strict(before);
}

static int sees(void *unused)
{
    uint64_t value = 0;
    (void)unused;
    return ps_index_find(x, "d", &value) ? 80 : (int)value;
}

static int put_d(void *value) { return ps_index_put(x, "d", *(uint64_t *)value); }
static int put_d_in_snapshot(void *value) { return put_d(value) == -EROFS ? 81 : 0; }

static void snapshots(void)
{
    uint64_t value = 44;
    const struct ps_options snapshot = {.isolation = PS_SNAPSHOT};
    const struct ps_options dirty = {.isolation = PS_DIRTY_READ};
    int bad = ps_transaction(keys_set, NULL) != 0 || ps_begin(&snapshot) != 0 || sees(NULL) != 4;
    ps_tx *tx = ps_suspend();
    bad += ps_transaction(put_d, &value) != 0;
    bad += ps_transaction(sees, NULL) != 44;
    bad += ps_resume(tx) != 0 || sees(NULL) != 4 || ps_commit() != 0;
    bad += ps_transaction_opt(sees, NULL, &dirty) != 44;
    is(bad, 0, "a snapshot sees the index of its time, others the newest");
    is(ps_transaction_opt(put_d_in_snapshot, &value, &snapshot), 81, "and changes nothing");
}

/* ---- bounds ---- */

static int insert_numbers(void *most)
{
    for (uint64_t i = 0; i < *(uint64_t *)most; i++) {
        uint64_t key = i * 77777;
        int r = ps_index_put(x, &key, i);
        if (r) return r;
    }
    return 0;
}

/* One in each leaf. */
static int spread(void *leaves)
{
    for (uint64_t i = 0; i < *(uint64_t *)leaves; i++) {
        uint64_t key = i * 1000 + 1;
        int r = ps_index_put(x, &key, i);
        if (r) return r;
    }
    return 0;
}

static int fill(void *from)
{
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t key = (*(uint64_t *)from + i) * 10;
        int r = ps_index_insert(x, &key, i);
        if (r) return r;
    }
    return 0;
}

static int long_key(void *bytes)
{
    char key[300];
    memset(key, 'k', sizeof key);
    key[*(int *)bytes] = 0;
    return ps_index_put(x, key, 1);
}

static void bounds(void)
{
    ps_index *strings = x;
    struct ps_tree_stats stats;
    const char *why;
    x = ps_index_open("bounds", PS_NUMBERS, PS_CREATE | PS_WRITE);
    is(ps_transaction(insert_numbers, &(uint64_t){1024}), 0, "1,024 changes in a transaction");
    is(ps_transaction(insert_numbers, &(uint64_t){1025}), -E2BIG, "no more");
    int bad = 0;
    for (uint64_t i = 10000; i < 70000; i += 1000)
        bad += ps_transaction(fill, &i) != 0;
    is(bad, 0, "60,000 keys");
    is(ps_transaction(spread, &(uint64_t){200}), 0, "changes in 200 leaves");
    is(ps_transaction(spread, &(uint64_t){700}), -E2BIG, "in too many for one transaction");
    is(ps_index_check(x, &stats, &why), 0, "the tree is sound");
    tap_ok(stats.height == 3, "of %u levels", stats.height);
    x = strings;
    is(ps_transaction(long_key, &(int){253}), 0, "a string of 253 bytes");
    is(ps_transaction(long_key, &(int){254}), -EOVERFLOW, "and none of 254");
    is(ps_index_put(x, "none", 1), -EPERM, "none outside of a transaction");
    tap_ok(!ps_index_open("locks", PS_NUMBERS, 0) && errno == EPROTO, "no other kind");
}

/* ---- deleted while this process has it open ---- */

static int look_up(void *key)
{
    uint64_t value;
    return ps_index_find(x, key, &value);
}
static int root_of(void *c) { return ps_named(c, "root", 8) ? 0 : -errno; }

static void deleted(void)
{
    ps_container *c = ps_open("goes", PS_CREATE | PS_WRITE, NULL);
    uint64_t one = 1;
    x = ps_index_open("index goes", PS_NUMBERS, PS_CREATE | PS_WRITE);
    int bad = ps_transaction(insert_numbers, &one) != 0 || ps_transaction(root_of, c) != 0;
    is(bad || ps_rename("index goes", "index gone") || ps_rename("goes", "gone"), 0,
       "an index and a container have other names");
    is(ps_delete("index gone") || ps_delete("gone"), 0, "and are deleted, open as they are");
    is(ps_transaction(look_up, &one), -EINVAL, "the index is not open any more");
    is(ps_transaction(insert_numbers, &one), -EINVAL, "and is not changed");
    is(ps_index_check(x, NULL, NULL), -EINVAL, "nor walked");
    is(ps_transaction(root_of, c), -EINVAL, "nor is the container");
    is(ps_close(x), -EINVAL, "and is not closed twice");
    x = ps_index_open("index goes", PS_NUMBERS, PS_CREATE | PS_WRITE);
    is(ps_transaction(look_up, &one), -ENOENT, "a new one of its first name is empty");
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    unsigned transactions = argc > 2 ? (unsigned)atoi(argv[2]) : TRANSACTIONS;
    dice_state = seed;
    tap_plan(70);
    printf("# again: pstore_index %llu %u\n", (unsigned long long)seed, transactions);
    beside_an_array(PS_NUMBERS, "numbers", transactions);
    beside_an_array(PS_STRINGS, "strings", transactions);
    locks();
    snapshots();
    bounds();
    deleted();
    return tap_end();
}
