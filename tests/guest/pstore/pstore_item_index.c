/*
 * pstore_item_index.c - the tree and the hash on items (structures/item_index.h): NX1 to NX5.
 *
 * Aim     who changes different keys of one leaf does not wait for the other; who changes, or
 *         inserts into, what another one has looked at does; a split stays when its insertion is
 *         undone; processes that insert, remove, look up and scan at once leave what the reference
 *         has, aborts and kills in the middle included; all of it in a container of pages, too.
 * Method  two transactions of one thread, one of them suspended: the second would wait for ever, so
 *         it gets -EDEADLK. Then children of fork with random work. The reference is an array of
 *         items that each transaction changes with both indexes, so all three are equal always.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <structures/item_index.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pstore_test.h"

enum { KEYS = 2000, PROCESSES = 3, STEPS = 60, EACH = 4, RANGE = 30, KILLS = 6 };
struct number { uint32_t n; };
struct record { uint64_t value, twice; };
static int by_number(const struct number *a, const struct number *b)
{
    return (a->n > b->n) - (a->n < b->n);
}
static uint64_t number_hash(const struct number *key) { return key->n; }
PS_ITEM_TREE(tree, struct number, struct record, by_number, number_hash);
PS_ITEM_HASH(hash, struct number, struct record, by_number, number_hash);
struct root {
    struct tree_head tree;
    struct hash_head hash;
    uint64_t *model;                    /* of each key its value; 0: it is not there */
};
static ps_container *box;
static struct root *root;
static struct tree tree;
static struct hash hash;
static unsigned seed;

static unsigned draw(unsigned below)
{
    seed = seed * 1103515245 + 12345;
    return (seed >> 8) % below;
}

static int set_up(void *unused)
{
    (void)unused;
    root = ps_root(box);
    tree = (struct tree){.head = &root->tree, .memory = ps_in(box)};
    hash = (struct hash){.head = &root->hash, .memory = ps_in(box)};
    if (root->model) return 0;
    if (!ps_write(&root->model)) return -errno;
    root->model = ps_alloc(box, KEYS * sizeof *root->model, NULL);
    int error = root->model ? tree_set_up(&tree) : -errno;
    return error ? error : hash_set_up(&hash);
}

/* ---- one key: in both, and in the reference ---- */

static int put(uint32_t n, uint64_t value)
{
    struct record r = {value, 2 * value};
    PS_ACCESS(tree_keyed, t, &tree, PS_CHANGE);
    PS_ACCESS(hash_keyed, h, &hash, PS_CHANGE);
    uint64_t *model = ps_write(&root->model[n]);
    if (!model) return -errno;
    int there = *model != 0, error;
    if (!value) {
        error = tree_remove(&t, &(struct number){n});
        if (error != (there ? 0 : -ENOENT)) return error ? error : -EUCLEAN;
        error = hash_remove(&h, &(struct number){n});
        if (error != (there ? 0 : -ENOENT)) return error ? error : -EUCLEAN;
    } else {
        error = tree_insert(&t, &(struct number){n}, &r);
        if (error != (there ? -EEXIST : 0)) return error ? error : -EUCLEAN;
        error = hash_put(&h, &(struct number){n}, &r);
        if (error) return error;
        struct record *old = there ? tree_change(&t, &(struct number){n}) : NULL;
        if (there && !old) return -errno;
        if (old) *old = r;
    }
    *model = value;
    return 0;
}

static int look(uint32_t n)
{
    PS_ACCESS(tree_keyed, t, &tree, PS_LOOK);
    PS_ACCESS(hash_keyed, h, &hash, PS_LOOK);
    const uint64_t *model = ps_read(&root->model[n]);
    if (!model) return -errno;
    const struct record *a = tree_find(&t, &(struct number){n});
    if (!a && errno != ENOENT) return -errno;
    const struct record *b = hash_find(&h, &(struct number){n});
    if (!b && errno != ENOENT) return -errno;
    uint64_t value = *model;
    if (!value) return a || b ? -EUCLEAN : 0;
    return a && b && a->value == value && b->value == value && a->twice == 2 * value &&
                   b->twice == 2 * value
               ? 0 : -EUCLEAN;
}

/* A sum over the keys from first on; or an error below 0. */
static int64_t scan(uint32_t first, uint32_t last)
{
    int64_t sum = 0;
    struct number from = {first}, to = {last};
    PS_ACCESS(tree_range, r, &tree, &from, &to, PS_UP, PS_LOOK);
    uint32_t before = 0;
    for (const struct record *record; (record = tree_next(&r)); before = tree_key(&r)->n) {
        if (tree_key(&r)->n < first || tree_key(&r)->n > last ||
            (before && tree_key(&r)->n <= before))
            return -EUCLEAN;
        sum += (int64_t)(record->value % 1000 + 1) * (tree_key(&r)->n + 1);
    }
    return errno ? -errno : sum;
}

static int scans(uint32_t first)
{
    int64_t sum = scan(first, first + RANGE - 1), model = 0;
    if (sum < 0) return (int)sum;
    for (uint32_t n = first; n < first + RANGE; n++) {
        const uint64_t *value = ps_read(&root->model[n]);
        if (!value) return -errno;
        if (*value) model += (int64_t)(*value % 1000 + 1) * (n + 1);
    }
    sched_yield();
    int64_t again = scan(first, first + RANGE - 1);
    return again < 0 ? (int)again : sum == model && again == sum ? 0 : -EUCLEAN;
}

/* ---- what each process does ---- */

struct work { unsigned who, step; };
static int step(void *arg)
{
    const struct work *w = arg;
    seed = w->who * 7919 + w->step * 104729;
    int error = 0;
    for (unsigned i = 0; i < EACH && !error; i++) {
        uint32_t n = draw(KEYS - RANGE);
        switch (draw(8)) {
        case 0: error = scans(n); break;
        case 1:
        case 2: error = look(n); break;
        case 3: error = put(n, 0); break;
        default: error = put(n, 1 + w->step * 10 + w->who);
        }
        if (!error && draw(2)) error = look(n);
    }
    return error ? error : draw(6) == 0 ? -ECANCELED : 0;
}

static int works(unsigned who, unsigned first, unsigned count)
{
    int bad = 0;
    for (struct work w = {who, first}; w.step < first + count; w.step++) {
        int error = ps_transaction(step, &w);
        if (error && error != -ECANCELED && bad++ < 3)
            fprintf(stderr, "# process %u, step %u: %d\n", who, w.step, error);
    }
    return bad;
}

/* ---- what is there ---- */

static struct ps_items_stats tree_stats, hash_stats;
static int verify(void *wrong)
{
    const char *why = NULL;
    uint64_t records = 0, seen = 0;
    int bad = 0;
    PS_ACCESS(tree_keyed, t, &tree, PS_LOOK);
    PS_ACCESS(hash_keyed, h, &hash, PS_LOOK);
    PS_ACCESS(hash_range, r, &hash, PS_LOOK);
    if (ps_items_check(&t.access, &tree_stats, &why)) printf("# tree: %s\n", why), bad++;
    if (ps_items_check(&h.access, &hash_stats, &why)) printf("# hash: %s\n", why), bad++;
    for (uint32_t n = 0; n < KEYS; n++) {
        records += root->model[n] != 0;
        bad += look(n) != 0;
    }
    for (const struct record *record; (record = hash_next(&r)); seen++)
        bad += record->value != root->model[hash_key(&r)->n];
    if (records != tree_stats.records || records != hash_stats.records || seen != records)
        printf("# %lu records; tree %lu, hash %lu, gone through %lu\n", records,
               tree_stats.records, hash_stats.records, seen), bad++;
    *(int *)wrong = bad;
    return 0;
}
static int wrong_now(void)
{
    int wrong = -1;
    struct ps_options snapshot = {.isolation = PS_SNAPSHOT};
    int error = ps_transaction_opt(verify, &wrong, &snapshot);
    return error ? error : wrong;
}

/* ---- two transactions of one thread ---- */

struct op { int what; uint32_t n; };
enum { PUT, REMOVE, FIND, TREE_RANGE, HASH_RANGE, HASH_FIND, HASH_PUT };
static int does(void *arg)
{
    const struct op *op = arg;
    PS_ACCESS(hash_keyed, h, &hash, PS_CHANGE);
    PS_ACCESS(hash_range, r, &hash, PS_LOOK);
    struct record record = {7, 14};
    int64_t sum = 0;
    switch (op->what) {
    case PUT: return put(op->n, 7);
    case REMOVE: return put(op->n, 0);
    case FIND: return look(op->n);
    case TREE_RANGE: sum = scan(op->n, op->n + 99); return sum < 0 ? (int)sum : 0;
    case HASH_FIND:
        return hash_find(&h, &(struct number){op->n}) || errno == ENOENT ? 0 : -errno;
    case HASH_PUT: return hash_put(&h, &(struct number){op->n}, &record);
    }
    while (hash_next(&r)) continue;
    return -errno;
}
static int does_in_vain(void *arg)
{
    int error = does(arg);
    return error ? error : -ECANCELED;
}
/* What the second gets while the first is open; both are undone. */
static int beside(struct op first, struct op second)
{
    ps_begin(NULL);
    int error = does(&first);
    ps_tx *tx = ps_suspend();
    struct ps_options o = {.apart = 1, .retries = 1, .timeout_ms = 20000};
    if (error == 0) error = ps_transaction_opt(does_in_vain, &second, &o);
    ps_resume(tx);
    ps_rollback();
    return error == -ECANCELED ? 0 : error;
}

/* Who waits for an insertion in front of the next key sees it then: the next key is another one. */
static int scan_few(void *sum)
{
    *(int64_t *)sum = scan(151, 160);
    return *(int64_t *)sum < 0 ? (int)*(int64_t *)sum : 0;
}
static _Atomic int scanned;
static void *scanner(void *sum)
{
    long result = ps_transaction(scan_few, sum);
    scanned = 1;
    return (void *)result;
}
static uint64_t waits(void)
{
    struct kd_view_stats s = {0};
    kd_call3(KD_VIEW_STATS, (long)&s, 0, 0);
    return s.lock_waits;
}
static void test_waits(void)
{
    pthread_t thread;
    void *result;
    int64_t alone = 0, sum = 0;
    is(ps_transaction(scan_few, &alone), 0, "a range");
    ps_begin(NULL);
    is(put(155, 7), 0, "somebody inserts into it");
    uint64_t before = waits();
    pthread_create(&thread, NULL, scanner, &sum);
    while (waits() == before && !scanned) sched_yield();
    is(ps_commit(), 0, "and commits, while another one waits");
    pthread_join(thread, &result);
    is((long)result, 0, "who then");
    is((long)(sum - alone), 8 * 156, "sees what has come");
    is(ps_transaction(does, &(struct op){REMOVE, 155}), 0, "as it was");
}

static int make_row(void *unused)
{
    int error = 0;
    (void)unused;
    for (uint32_t n = 100; n < 400 && !error; n += 10) error = put(n, n);
    return error;
}

static void test_beside(void)
{
    is(ps_transaction(make_row, NULL), 0, "some records");
    is(beside((struct op){PUT, 101}, (struct op){PUT, 301}), 0,
       "two insert into one leaf, and do not wait");
    is(beside((struct op){REMOVE, 100}, (struct op){REMOVE, 300}), 0, "nor two who remove");
    is(beside((struct op){PUT, 100}, (struct op){FIND, 300}), 0, "nor who looks");
    is(beside((struct op){PUT, 100}, (struct op){FIND, 100}), -EDEADLK, "... but for the same key");
    is(beside((struct op){FIND, 105}, (struct op){PUT, 105}), -EDEADLK,
       "who has looked for what is not there is protected");
    is(beside((struct op){TREE_RANGE, 150}, (struct op){PUT, 155}), -EDEADLK,
       "who has gone through a range is, too: within,");
    is(beside((struct op){TREE_RANGE, 155}, (struct op){PUT, 157}), -EDEADLK, "at its begin,");
    is(beside((struct op){TREE_RANGE, 150}, (struct op){PUT, 249}), -EDEADLK, "at its end;");
    is(beside((struct op){TREE_RANGE, 150}, (struct op){REMOVE, 200}), -EDEADLK, "of removals;");
    is(beside((struct op){TREE_RANGE, 150}, (struct op){PUT, 265}), 0, "not behind the next key");
    is(beside((struct op){TREE_RANGE, 350}, (struct op){PUT, 1900}), -EDEADLK,
       "a range to the end: nobody inserts there");
    is(beside((struct op){REMOVE, 200}, (struct op){TREE_RANGE, 150}), -EDEADLK,
       "a range waits for who removes");
    is(beside((struct op){PUT, 155}, (struct op){TREE_RANGE, 151}), -EDEADLK, "... or inserts");
    test_waits();
    is(beside((struct op){HASH_FIND, 105}, (struct op){HASH_PUT, 105}), -EDEADLK,
       "in the hash: a key that is not there");
    is(beside((struct op){HASH_FIND, 105}, (struct op){HASH_PUT, 106}), 0, "another one");
    is(beside((struct op){HASH_RANGE, 0}, (struct op){HASH_PUT, 106}), -EDEADLK, "all of them");
    is(wrong_now(), 0, "and nothing of it is left");
}

/* ---- splits ---- */

struct many { uint32_t first, count; int end; };
static int insert_many(void *arg)
{
    const struct many *m = arg;
    int error = 0;
    for (uint32_t i = 0; i < m->count && !error; i++) error = put(m->first + i, 9);
    return error ? error : m->end;
}

static void test_splits(void)
{
    uint64_t leaves = tree_stats.leaves, buckets = hash_stats.leaves;
    is(ps_transaction(insert_many, &(struct many){400, 150, -ECANCELED}), -ECANCELED,
       "insertions that split leaves are undone");
    is(wrong_now(), 0, "their keys are not there,");
    tap_ok(tree_stats.leaves > leaves && hash_stats.leaves > buckets, "the leaves are: %lu, %lu",
           tree_stats.leaves, hash_stats.leaves);
    is(ps_begin(NULL), 0, "an explicit transaction");
    is(insert_many(&(struct many){400, 600, 0}), 0, "inserts many");
    is(ps_commit(), 0, "and commits");
    is(ps_transaction(insert_many, &(struct many){1000, 900, 0}), 0, "a function, more than items "
                                                                     "may be");
    is(wrong_now(), 0, "all is there");
    for (uint32_t n = 401; n < 1900; n += 100)
        if (ps_transaction(does, &(struct op){REMOVE, n})) break;
    is(wrong_now(), 0, "also without some");
}

/* ---- processes ---- */

static void test_processes(unsigned first)
{
    pid_t pid[PROCESSES];
    int status, bad = 0;
    for (unsigned i = 0; i < PROCESSES; i++)
        if ((pid[i] = fork()) == 0) _exit(works(i, first, STEPS) != 0);
    for (unsigned i = 0; i < PROCESSES; i++) bad += waitpid(pid[i], &status, 0) != pid[i] || status;
    is(bad, 0, "processes insert, remove, look up and scan at once");
    is(wrong_now(), 0, "and leave what the reference has");
}

static void test_kills(void)
{
    int bad = 0;
    for (unsigned i = 0; i < KILLS; i++) {
        pid_t pid = fork();
        if (pid == 0) _exit(works(10 + i, 1000, 100000));
        seed = i * 77;
        bad += works(5, 2000 + i * 20, 3 + draw(12));
        kill(pid, SIGKILL);
        bad += waitpid(pid, NULL, 0) != pid;
    }
    is(bad, 0, "processes are killed while they do so");
    is(wrong_now(), 0, "nothing half done is left");
}

static int tear_down(void *unused)
{
    (void)unused;
    const uint64_t *seal = (const uint64_t *)(void *)root->tree.kept.root + PS_NODE_BYTES / 8 - 1;
    int was = *seal != 0, error = tree_tear_down(&tree);
    error = error ? error : hash_tear_down(&hash);
    return error ? error : was && *seal == 0 ? 0 : -EUCLEAN;
}
static int count_objects(void *count)
{
    for (void *p = NULL; (p = ps_each(box, NULL, p));) ++*(int *)count;
    return 0;
}

static void open_box(const char *name, int locking)
{
    box = ps_open(name, PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    is(box ? ps_locking(box, locking) : -errno, 0, "a container");
    is(ps_transaction(set_up, NULL), 0, "both are set up");
}

int main(void)
{
    tap_plan(46);
    open_box("indexes", PS_LOCK_ITEMS);
    test_beside();
    test_splits();
    test_processes(0);
    test_kills();
    is(ps_transaction(tear_down, NULL), 0, "torn down");
    int count = 0;
    ps_transaction(count_objects, &count);
    is(count, 2, "no node is left");
    ps_close(box);
    open_box("indexes-of-pages", PS_LOCK_PAGES);
    is(ps_transaction(insert_many, &(struct many){0, 1000, 0}), 0, "many, in a container of pages");
    test_processes(0);
    return tap_end();
}
