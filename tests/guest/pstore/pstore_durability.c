/*
 * pstore_durability.c - locking, form of the log and durability of a container (ps_locking,
 * ps_encoder, ps_durability): four properties with protection, each kept for itself.
 *
 * Aim     what makes no sense together is refused, by the table of user/store/logs.md, and all else
 *         is kept; after the manager's death, which is a power cut for its containers, a durable
 *         one has all, a lazy one the first so many commits, a volatile one nothing, and one that
 *         is to be rebuilt nothing, and says so until it is; so does an index.
 * Method  the table is walked whole. The manager is killed; init starts another.
 */
#include <index.h>
#include <stdlib.h>
#include <string.h>

#include "pstore_test.h"
#include "store_client.h"

enum { WORDS = 3000, LAZY = 1000, FLUSHES = 8 };
struct root { uint64_t count, word[WORDS]; };
static ps_container *box;

/* ---- the table ---- */

/* Rows: encoders; columns: locking by pages and by items, each durable, lazy, volatile, rebuilt. */
static const char *const table[] = {
    [PS_ENCODE_DIFF] = "yyyy yyyy",     [PS_ENCODE_FULL] = "yy-- ----",
    [PS_ENCODE_RANGES] = "yy-- ----",   [PS_ENCODE_ADAPTIVE] = "yy-- ----",
    [PS_ENCODE_COMPRESSED] = "yy-- yy--", [PS_ENCODE_OPERATIONS] = "yy-- ----",
};

static int form_is(int encoder, int locking, int durability)
{
    struct ps_info all[64];
    int n = ps_list(all, 64);
    for (int i = 0; i < n && i < 64; i++)
        if (strcmp(all[i].name, "form") == 0)
            return all[i].encoder == encoder && all[i].locking == locking &&
                   all[i].durability == durability;
    return 0;
}

/* Sets the properties in the order that `order` says; the first error. */
static int form_set(ps_container *c, int encoder, int locking, int durability, const char *order)
{
    int r = 0;
    for (; *order && r == 0; order++)
        r = *order == 'e' ? ps_encoder(c, encoder) : *order == 'l' ? ps_locking(c, locking)
                                                                   : ps_durability(c, durability);
    return r;
}

static int table_walked(const char *order)
{
    int wrong = 0;
    for (int e = PS_ENCODE_DIFF; e <= PS_ENCODE_OPERATIONS; e++)
        for (int l = PS_LOCK_PAGES; l <= PS_LOCK_ITEMS; l++)
            for (int d = PS_DURABLE; d <= PS_REBUILD; d++) {
                ps_container *c = ps_open("form", PS_CREATE | PS_WRITE, NULL);
                int sense = table[e][5 * l + d] == 'y', r = form_set(c, e, l, d, order);
                if (r != (sense ? 0 : -EINVAL) || (sense && !form_is(e, l, d))) {
                    printf("# %s: encoder %d, locking %d, durability %d: %d\n", order, e, l, d, r);
                    wrong++;
                }
                ps_delete("form");
            }
    return wrong;
}

/* ---- what a power cut leaves ---- */

static int manager_kill(void)
{
    int pid = store_pid();
    long r = kd_call3(KD_PROCESS_KILL, pid, 9, 0);
    while (store_pid() == pid || store_pid() <= 0) {}
    return (int)r;
}

static int add(void *unused)
{
    (void)unused;
    struct root *r = ps_root(box);
    if (!r) return -errno;
    r->word[r->count] = r->count + 1;
    r->count++;
    return 0;
}

static int look(void *out)
{
    const struct root *r = ps_root(box);
    if (!r) return -errno;
    for (uint64_t i = 0; i < WORDS; i++)
        if (r->word[i] != (i < r->count ? i + 1 : 0)) return -EUCLEAN;
    *(long *)out = (long)r->count;
    return 0;
}

static long count_now(void)
{
    long n = 0;
    int error = -EOWNERDEAD;
    for (int i = 0; error == -EOWNERDEAD && i < 100; i++) error = ps_transaction(look, &n);
    return error ? error : n;
}

static void filled(const char *name, int durability)
{
    box = ps_open(name, PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    is(ps_durability(box, durability), 0, name);
    int bad = 0;
    for (int i = 0; i < 20; i++) bad += ps_transaction(add, NULL) != 0;
    is(bad ? bad : count_now(), 20, "twenty commits are there");
}

static void reopened(const char *name)
{
    ps_close(box);
    for (int i = 0; i < 1000 && !(box = ps_open(name, PS_WRITE, PS_LAYOUT(struct root, 1))); i++) {}
}

static void unlogged_is_lost(const char *name, int durability, int lost)
{
    filled(name, durability);
    is(ps_durability(box, PS_DURABLE), -ENOTEMPTY, "it has pages, which are in no log");
    is(ps_lost(box), 0, "nothing is lost");
    manager_kill();
    is(count_now(), 0, "after the manager's death it is empty, for who had it open, too");
    reopened(name);
    is(ps_lost(box), lost, "who opens it is told");
    is(ps_transaction(add, NULL) ?: count_now(), 1, "it takes commits");
    ps_checkpoint();
    is(ps_transaction(add, NULL) ?: count_now(), 2, "beside a checkpoint");
    if (lost) is(ps_durability(box, PS_REBUILD) ?: ps_lost(box), 0, "it was built again");
    manager_kill();
    reopened(name);
    is(count_now(), 0, "and empty after the next");
    is(ps_lost(box), lost, "of which is told as well");
    ps_close(box);
}

static void lazy_is_first_so_many(void)
{
    filled("lazy", PS_LAZY);
    uint64_t before = (uint64_t)client_flushes("store");
    double begun = clock_s(CLOCK_MONOTONIC);
    int bad = 0;
    for (int i = 0; i < LAZY; i++) bad += ps_transaction(add, NULL) != 0;
    uint64_t took = (uint64_t)client_flushes("store") - before;
    int most = FLUSHES + (int)((clock_s(CLOCK_MONOTONIC) - begun) * 10); /* of the clock */
    is(bad ? bad : count_now(), 20 + LAZY, "a thousand commits");
    tap_ok(took <= (unsigned)most, "took at most %d flushes (%llu)", most,
           (unsigned long long)took);
    manager_kill();
    long n = count_now();
    tap_ok(n >= 20 && n <= 20 + LAZY, "of which the first so many are there after the death (%ld)",
           n);
    is(ps_transaction(add, NULL), 0, "it goes on");
    ps_flush();
    n = count_now();
    manager_kill();
    is(count_now(), n, "what was flushed stays");
    ps_close(box);
}

/* ---- an index ---- */

static ps_index *names;
static int fill(void *unused)
{
    (void)unused;
    uint64_t key = 0;
    int r = 0;
    for (; r == 0 && key < 200; key++) r = ps_index_insert(names, &key, key + 7);
    return r;
}
static int one(void *unused)
{
    (void)unused;
    uint64_t key = 11, value = 0;
    int r = ps_index_find(names, &key, &value);
    return r ? r : value == 18 ? 0 : -EUCLEAN;
}
static int found(void)
{
    int r = -EOWNERDEAD;
    for (int i = 0; r == -EOWNERDEAD && i < 100; i++) r = ps_transaction(one, NULL);
    return r;
}

static void index_is_rebuilt(void)
{
    names = ps_index_open("numbers", PS_NUMBERS, PS_CREATE | PS_WRITE);
    is(ps_durability(names, PS_REBUILD), 0, "an index is to be rebuilt after a power cut");
    is(ps_transaction(fill, NULL) ?: found(), 0, "it is filled");
    manager_kill();
    is(found(), -ENOENT, "after the manager's death it is empty");
    ps_close(names);
    names = ps_index_open("numbers", PS_NUMBERS, PS_WRITE);
    is(ps_lost(names), 1, "who opens it is told");
    is(ps_transaction(fill, NULL) ?: ps_durability(names, PS_REBUILD) ?: found(), 0,
       "it is rebuilt");
    is(ps_lost(names) ?: ps_index_check(names, NULL, NULL), 0, "and sound");
    ps_close(names);
}

int main(void)
{
    tap_plan(42);
    is(table_walked("eld"), 0, "the table, walked whole: encoder, locking, durability");
    is(table_walked("dle"), 0, "and the other way round");
    uint64_t before = (uint64_t)client_flushes("store");
    filled("durable", PS_DURABLE);
    tap_ok((uint64_t)client_flushes("store") - before >= 20, "each durable commit is flushed");
    manager_kill();
    is(count_now(), 20, "durable: all are there after the manager's death");
    is(ps_durability(box, PS_VOLATILE), -ENOTEMPTY, "its pages are in the log");
    is(ps_durability(box, PS_LOST), -EINVAL, "nobody asks for a lost one");
    ps_close(box);
    unlogged_is_lost("volatile", PS_VOLATILE, 0);
    unlogged_is_lost("rebuild", PS_REBUILD, 1);
    lazy_is_first_so_many();
    index_is_rebuilt();
    static const char *const all[] = {"durable", "volatile", "rebuild", "lazy", "numbers"};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) ps_delete(all[i]);
    return tap_end();
}
