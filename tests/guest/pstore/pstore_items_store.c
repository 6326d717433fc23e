/*
 * pstore_items_store.c - containers in item mode (PS_LOCK_ITEMS) and the store: IT5 to IT8.
 *
 * Aim     the form is set only while nobody else is there, is listed and stays; two processes store
 *         to one page at the same time, and each commits or aborts alone; many writers of one page
 *         in each group lose nothing, and snapshots see whole transactions; the manager's death
 *         loses nothing; what was not declared is undone.
 * Method  ps_touch declares; nothing is locked, each writer has words of its own. The other process
 *         is a child of fork, which commits while a transaction of this one is open.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pstore_test.h"

enum { PAGES = 3, WRITERS = 4, ROUNDS = 30, WORDS = 256 };

struct array { uint64_t word[WORDS]; char gap[4096 - WORDS * 8 - 64]; };
struct root { struct array *of[PAGES]; };
static ps_container *box;

static void put(uint64_t *word, uint64_t value)
{
    ps_touch(word, sizeof *word);
    *word = value;
}

static int build(void *unused)
{
    (void)unused;
    struct root *r = ps_root(box);
    ps_touch(r, sizeof *r);
    for (int i = 0; i < PAGES; i++) r->of[i] = ps_new(box, struct array, NULL);
    return r->of[PAGES - 1] ? 0 : -errno;
}

struct word { unsigned at; uint64_t value; };
static int store(void *arg)
{
    const struct word *w = arg;
    struct root *r = ps_root(box);
    for (int i = 0; i < PAGES; i++) put(&r->of[i]->word[w->at], w->value);
    return 0;
}
static int look(void *arg)
{
    struct word *w = arg;
    w->value = ((struct root *)ps_root(box))->of[0]->word[w->at];
    return 0;
}
static long value_of(unsigned at)
{
    struct word w = {.at = at};
    int error = ps_transaction(look, &w);
    return error ? error : (long)w.value;
}

/* ---- the form ---- */

static struct ps_info all_listed(void)
{
    struct ps_info info[16], none = {.locking = -1};
    int n = ps_list(info, 16);
    for (int i = 0; i < n && i < 16; i++)
        if (strcmp(info[i].name, "items") == 0) return info[i];
    return none;
}
static int listed(void)
{
    return all_listed().locking;
}
static int set_within(void *unused)
{
    (void)unused;
    return ps_locking(box, PS_LOCK_ITEMS);
}
static int set_by_child(int locking)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) _exit(-ps_locking(box, locking));
    return waitpid(pid, &status, 0) == pid ? -WEXITSTATUS(status) : -ECHILD;
}

static void test_form(void)
{
    is(listed(), PS_LOCK_PAGES, "a new container locks pages");
    is(ps_locking(box, 2), -EINVAL, "there are two ways");
    is(ps_transaction(set_within, NULL), -EBUSY, "not inside a transaction");
    is(set_by_child(PS_LOCK_ITEMS), -EBUSY, "not while another process has it open");
    is(WHEN_FREE(ps_encoder(box, PS_ENCODE_FULL)), 0, "with another encoder ...");
    is(ps_locking(box, PS_LOCK_ITEMS), -EINVAL, "... it cannot be");
    is(ps_encoder(box, PS_ENCODE_DIFF), 0, "as it was");
    struct word w = {7, 70};
    is(ps_transaction(store, &w), 0, "pages are stored, and not home yet");
    is(ps_locking(box, PS_LOCK_ITEMS), 0, "items from now on");
    is(listed(), PS_LOCK_ITEMS, "which is listed");
    is(value_of(7), 70, "what was stored is there");
    is(ps_encoder(box, PS_ENCODE_FULL), -EINVAL, "and no encoder but that of differences");
    is(set_by_child(PS_LOCK_PAGES), -EBUSY, "not back, either, while another process has it open");
    is(set_by_child(PS_LOCK_ITEMS), 0, "what it is may be said again");
    is(ps_protection(box, 4), -EINVAL, "there is no such protection");
    is(WHEN_FREE(ps_protection(box, PS_PROTECT_GUARD | PS_PROTECT_CODEWORDS)), 0, "two at once");
    is(all_listed().protection, PS_PROTECT_GUARD | PS_PROTECT_CODEWORDS, "which are listed");
    is(value_of(7), 70, "what was stored is there");
    is(ps_protection(box, PS_PROTECT_NONE), 0, "none again");
}

/* ---- two processes, one page ---- */

static int child_stores(struct word w)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) _exit(ps_transaction(store, &w) != 0);
    return waitpid(pid, &status, 0) == pid ? status : -1;
}
/* The child is another process from the fork on; its parent's transaction is not its own. */
static int store_around(void *arg)
{
    struct word *w = arg;
    int error = store(&w[0]);
    if (!error && child_stores(w[1])) error = -ECHILD;
    return error ? error : w[0].value == 0 ? -ECANCELED : 0;
}

static void test_two(void)
{
    struct word both[2] = {{0, 1}, {1, 2}};
    is(ps_transaction(store_around, both), 0, "two processes store to one page, and commit");
    tap_ok(value_of(0) == 1 && value_of(1) == 2, "each has its word");
    struct word undone[2] = {{0, 0}, {1, 3}};
    is(ps_transaction(store_around, undone), -ECANCELED, "one commits, the other aborts");
    tap_ok(value_of(0) == 1 && value_of(1) == 3, "which undoes its own word alone");
}

/* ---- many ---- */

static _Atomic int torn, stop;

static int compare(void *unused)
{
    (void)unused;
    struct root *r = ps_root(box);
    for (int w = 0; w < WORDS; w++)
        for (int i = 1; i < PAGES; i++) torn += r->of[i]->word[w] != r->of[0]->word[w];
    return 0;
}
static void *reader(void *unused)
{
    struct ps_options snapshot = {.isolation = PS_SNAPSHOT};
    long bad = 0;
    while (!stop) bad += ps_transaction_opt(compare, unused, &snapshot) != 0;
    return (void *)bad;
}
static int count(void *arg)
{
    struct root *r = ps_root(box);
    uint64_t n = *(uintptr_t *)arg;
    for (int i = 0; i < PAGES; i++) {
        uint64_t *w = &r->of[i]->word[16 + n];
        put(w, *w + 1);
        if (i == 1) sched_yield();
    }
    return 0;
}
static void *writer(void *arg)
{
    uintptr_t n = (uintptr_t)arg;
    long bad = 0;
    for (int i = 0; i < ROUNDS; i++) bad += ps_transaction(count, &n) != 0;
    return (void *)bad;
}

static int manager_dies(void)
{
    int pid = store_pid(), r = -ENOTCONN;
    struct word w = {0};
    kd_call3(KD_PROCESS_KILL, pid, 9, 0);
    while (store_pid() == pid) pause_ms(1);
    for (int i = 0; i < 20000; i++) {
        r = ps_transaction(look, &w);
        if (r != -EOWNERDEAD && r != -ENOTCONN) break;
        pause_ms(10);
    }
    return r;
}

static void test_many(void)
{
    pthread_t thread[WRITERS + 1];
    void *result;
    long bad = 0, sum = 0;
    for (uintptr_t i = 0; i < WRITERS; i++) pthread_create(&thread[i], NULL, writer, (void *)i);
    pthread_create(&thread[WRITERS], NULL, reader, NULL);
    for (int i = 0; i < WRITERS; i++) pthread_join(thread[i], &result), bad += (long)result;
    stop = 1;
    pthread_join(thread[WRITERS], &result);
    is(bad + (long)result, 0, "many writers of the same pages, beside a snapshot's reader");
    is(torn, 0, "no half of a transaction was seen");
    is(manager_dies(), 0, "the manager died, and recovered");
    for (unsigned i = 0; i < WRITERS; i++) sum += value_of(16 + i);
    is(sum, WRITERS * ROUNDS, "every commit is there");
    ps_transaction(compare, NULL);
    tap_ok(torn == 0 && value_of(0) == 1 && value_of(1) == 3, "as a whole");
    is(listed(), PS_LOCK_ITEMS, "the form, too");
}

/* ---- what is not declared ---- */

static int store_more(void *arg)
{
    struct root *r = ps_root(box);
    r->of[0]->word[100] = 5;
    return store(arg);
}

static void test_undeclared(void)
{
    struct word w = {101, 6};
    is(ps_transaction(store_more, &w), 0, "a store to a word that was not declared");
    tap_ok(value_of(100) == 0 && value_of(101) == 6, "is undone at the commit");
    ps_strict(1);
    is(ps_transaction(store_more, &w), -ERANGE, "and fails it, if that is strict");
    ps_strict(0);
}

/* ---- what would have to spill ---- */

enum { MANY = 100, HUGE = 700 }; /* whole pages: of a group's 64, of all memory that it may have */
static char *filled;
static int runs;
static int fill(void *unused)
{
    (void)unused;
    char *p = filled = ps_alloc(box, HUGE * 4096ul, NULL);
    return p ? 0 : -errno;
}
static int fill_items(void *pages)
{
    runs++;
    for (size_t i = 0; i < *(size_t *)pages; i++) {
        if (!ps_access(filled + i * 4096, 4096, PS_X)) return -errno;
        memset(filled + i * 4096, 1 + runs, 4096);
    }
    return 0;
}
/* So that nothing fits whose words are not told: each page as a whole. */
static long fills(size_t pages)
{
    runs = 0;
    int error = ps_transaction(fill_items, &pages);
    return error ? error : runs;
}
static int all_filled(void *pages)
{
    for (size_t i = 0; i < *(size_t *)pages * 4096; i++)
        if (filled[i] != 3) return 1;
    return 0;
}

static int fill_explicitly(size_t pages)
{
    runs = 0;
    int error = ps_begin(NULL);
    if (!error) error = fill_items(&pages);
    return error ? error : ps_commit();
}

static void test_too_large(void)
{
    size_t pages = MANY;
    is(ps_transaction(fill, NULL), 0, "room for many pages, under a lock of the container");
    is(fills(8), 1, "a transaction that fits runs once;");
    is(fills(MANY), 2, "one that would have to spill runs again, with the container locked");
    is(ps_transaction(all_filled, &pages), 0, "and is there");
    is(manager_dies(), 0, "(the manager died)");
    is(ps_transaction(all_filled, &pages), 0, "and stays");
    is(fill_explicitly(MANY), -E2BIG, "one that nobody runs again ends");
    is(ps_transaction(all_filled, &pages), 0, "and leaves nothing");
    is(value_of(0), 1, "as all else is");
}

/* ---- the largest tables, of as many containers as there may be */

static int has_table(void *container)
{
    return (int)kd_call3(KD_ITEM_WAKE, (long)ps_address(container), 1, 0);
}
/* How many containers get one; *end: why the next one does not. */
static int tables(int *end)
{
    enum { MOST = 40, ENTRIES = 65536 };
    static ps_container *c[MOST];
    int n = 0;
    for (*end = 0; n < MOST && !*end; n += !*end) {
        char name[16];
        snprintf(name, sizeof name, "table %d", n);
        c[n] = ps_open(name, PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
        *end = c[n] ? ps_locking(c[n], PS_LOCK_ITEMS) : -errno;
        if (!*end) *end = ps_policy(c[n], KD_POLICY_ITEMS, ENTRIES);
        if (!*end) *end = ps_transaction(has_table, c[n]);
        if (c[n]) ps_close(c[n]);
        if (*end) ps_delete(name);
    }
    for (int i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "table %d", i);
        ps_delete(name);
    }
    return n;
}

static void test_tables(void)
{
    enum { TABLE_KIB = 8192 };
    int end, n = tables(&end);
    long kib = (long)(system_info().memory_bytes / 1024);
    tap_ok(n > 0 && n * TABLE_KIB <= kib / 4 && end == -ENOMEM,
           "all tables together take a quarter of memory at most: %d (%d)", n, end);
    is(tables(&end), n, "and are given back with their containers");
}

int main(void)
{
    tap_plan(47);
    box = ps_open("items", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    is(box ? ps_transaction(build, NULL) : -errno, 0, "a container is made");
    test_form();
    test_two();
    test_many();
    test_undeclared();
    test_tables();
    test_too_large();
    is(ps_locking(box, PS_LOCK_PAGES), 0, "pages again");
    is(ps_transaction(fill, NULL), 0, "then that transaction is none too large");
    is(value_of(0), 1, "with all that was there");
    return tap_end();
}
