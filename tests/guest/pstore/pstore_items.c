/*
 * pstore_items.c - locks of items by libpstore (item.c): LI1 to LI4, IL1 to IL10.
 *
 * Aim     each pair of modes conflicts, or not, as the table says; neighbours in a page do not;
 *         what is given back is free, and what was asked for twice is not; a list that is full
 *         locks the container; keys that are not there are locked; adders do not wait for adders;
 *         deadlocks end, and who read what it then wrote is none again; a reader without the right
 *         to write locks, too; nothing of who is killed stays; where pages are locked the same
 *         program runs.
 * Method  two transactions of one thread, one of them suspended, ask with PS_NOW; then threads, and
 *         children of fork, which are killed.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pstore_test.h"

enum { WORDS = 300, MODES = 7, THREADS = 3, ROUNDS = 40, KEYS = 32, MANY = 1200, ADDS = 150000 };

struct array { uint64_t word[WORDS]; };
struct root {
    struct array *a;
    int64_t sum;
    uint64_t count, key[KEYS];
    uint64_t *many;
};
static ps_container *box;
static struct root *root;
static int deadlocks_begun;

static int build(void *unused)
{
    (void)unused;
    root = ps_root(box);
    if (!ps_write(root)) return -errno;
    root->a = ps_new(box, struct array, NULL);
    root->many = ps_alloc(box, MANY * 16, NULL);
    return root->a && root->many ? 0 : -errno;
}

static uint64_t *word(unsigned i) { return &root->a->word[i]; }

/* 0: it has it; 1: another one is in the way; else -errno. */
static int ask(const void *p, int mode)
{
    void *got = ps_access(p, 8, mode | PS_NOW);
    return got == p ? 0 : errno == EBUSY ? 1 : -errno;
}

/* ---- pairs ---- */

static int other_asks(const void *p, int mode)
{
    ps_tx *mine = ps_suspend();
    int result = ps_begin(&(struct ps_options){.apart = 1});
    if (result == 0) result = ask(p, mode);
    ps_rollback();
    int back = ps_resume(mine);
    return back ? back : result;
}

static const char wanted[MODES][MODES + 1] = {
    /*        S U X A IS IX O */
    [PS_S] = "0011011", [PS_U] = "0111011", [PS_X] = "1111111", [PS_ADD] = "1110001",
    [PS_IS] = "0010001", [PS_IX] = "1110001", [PS_OWN] = "1111111",
};

/* One has mode a and another one mode o beside it; the first asks for mode b, too. 0: it gets that;
 * 1: the other one is in the way; else something went wrong. */
static int one_more(int a, int o, int b)
{
    ps_begin(NULL);
    int has = ask(word(1), a);
    ps_tx *mine = ps_suspend();
    ps_begin(&(struct ps_options){.apart = 1});
    has |= ask(word(1), o);
    ps_tx *others = ps_suspend();
    has |= ps_resume(mine);
    int more = ask(word(1), b);
    ps_rollback();
    has |= ps_resume(others);
    ps_rollback();
    return has ? -EUCLEAN : more;
}

/* Who shares an item gets another mode only if that can be shared with the other one. */
static void test_shared(void)
{
    int wrong = 0;
    for (int i = 0; i < MODES * MODES * MODES; i++) {
        int a = i / MODES / MODES, o = i / MODES % MODES, b = i % MODES;
        int more = wanted[a][o] == '0' ? one_more(a, o, b) : wanted[o][b] - '0';
        if (more == wanted[o][b] - '0') continue;
        printf("# mode %d beside %d, then %d: %d\n", a, o, b, more);
        wrong++;
    }
    is(wrong, 0, "who has a mode beside another one gets one more as the table says");
}

static void test_pairs(void)
{
    int wrong = 0;
    for (int a = 0; a < MODES; a++)
        for (int b = 0; b < MODES; b++) {
            ps_begin(NULL);
            int first = ask(word(1), a), second = other_asks(word(1), b);
            ps_rollback();
            if (first != 0 || second != wanted[a][b] - '0') {
                printf("# mode %d, then %d: %d, %d\n", a, b, first, second);
                wrong++;
            }
        }
    is(wrong, 0, "each pair of modes conflicts as the table says");
    ps_begin(NULL);
    is(ask(word(1), PS_X), 0, "X at an item");
    is(other_asks(word(2), PS_X), 0, "and at its neighbour by another one");
    is(ask(word(1), PS_S) + ask(word(1), PS_ADD), 0, "modes that it has already are had");
    ps_rollback();
    ps_begin(NULL);
    is(other_asks(word(1), PS_X), 0, "all is free behind the end");
    is(ask(word(3), PS_S), 0, "S,");
    is(ask(word(3), PS_ADD), 0, "and ADD beside it:");
    is(other_asks(word(3), PS_S) + other_asks(word(3), PS_ADD), 2, "both exclude others");
    is(ask(word(3), 9), -EINVAL, "there is no such mode");
    is(ps_key(box, 77, PS_X), 0, "a number");
    ps_rollback();
    is(ps_access(word(1), 8, PS_S) ? 0 : errno, EPERM, "not outside of transactions");
    struct ps_options snapshot = {.isolation = PS_SNAPSHOT};
    ps_begin(&snapshot);
    is(ps_read(word(1)) == word(1) ? 0 : errno, 0, "in a snapshot nothing is locked");
    is(other_asks(word(1), PS_X), 0, "by nobody");
    ps_rollback();
}

/* ---- given back ---- */

static void test_release(void)
{
    ps_begin(NULL);
    is(ask(word(4), PS_S), 0, "S");
    is(ps_release(word(4)), 0, "is given back");
    is(other_asks(word(4), PS_X), 0, "and free");
    is(ask(word(4), PS_S) + ask(word(4), PS_S), 0, "asked for twice");
    is(ps_release(word(4)), 0, "it is not given back by one");
    is(other_asks(word(4), PS_X), 1, "but kept");
    is(ask(word(5), PS_X), 0, "X");
    is(ps_release(word(5)), -EINVAL, "is never given back");
    is(ask(word(7), PS_S) + ask(word(7), PS_U), 0, "asked for in two modes");
    is(ps_release(word(7)), 0, "it is not given back by one, either:");
    is(other_asks(word(7), PS_U), 1, "the stronger mode is kept");
    is(ask(word(8), PS_S) + ask(word(8), PS_IS) + ps_release(word(8)), 0, "nor is S");
    is(other_asks(word(8), PS_X), 1, "beside an intention");
    int wrong = 0;
    for (unsigned i = 0; i < 2000; i++) wrong += ask(word(6), PS_U) || ps_release(word(6));
    is(wrong, 0, "the list does not grow by what is given back");
    ps_rollback();
}

/* ---- many ---- */

static int store_many(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < MANY; i++) {
        uint64_t *w = ps_write(&root->many[2 * i]);
        if (!w) return -errno;
        *w += i;
    }
    return 0;
}
static int check_many(void *unused)
{
    (void)unused;
    int wrong = 0;
    for (unsigned i = 0; i < MANY; i++) wrong += *ps_read(&root->many[2 * i]) != i;
    return wrong;
}

/* ---- threads ---- */

static void threads(void *(*run)(void *), const char *what)
{
    pthread_t thread[THREADS];
    void *result;
    long bad = 0;
    for (uintptr_t i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, run, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], &result), bad += (long)result;
    is(bad, 0, what);
}

/* The first who finds the key missing makes it. */
static int insert(void *arg)
{
    unsigned key = *(unsigned *)arg;
    int result = ps_key(box, 1000 + key, PS_S);
    if (result || *ps_read(&root->key[key])) return result;
    sched_yield();
    result = ps_key(box, 1000 + key, PS_X);
    if (result) return result;
    uint64_t *at = ps_write(&root->key[key]), *count = ps_write(&root->count);
    if (!at || !count) return -errno;
    ++*at;
    ++*count;
    return 0;
}
static void *inserter(void *unused)
{
    long bad = 0;
    (void)unused;
    for (unsigned key = 0; key < KEYS; key++) bad += ps_transaction(insert, &key) != 0;
    return (void *)bad;
}

static int add(void *unused)
{
    (void)unused;
    int result = ps_add(&root->sum, 1);
    sched_yield();
    return result;
}
static void *adder(void *unused)
{
    long bad = 0;
    for (int i = 0; i < ROUNDS; i++) bad += ps_transaction(add, unused) != 0;
    return (void *)bad;
}
static void test_adders_beside(void)
{
    ps_begin(NULL);
    is(ps_add(&root->sum, 1), 0, "one adds,");
    ps_tx *mine = ps_suspend();
    ps_begin(&(struct ps_options){.apart = 1});
    is(ps_add(&root->sum, 1), 0, "another one, too,");
    is(ps_commit(), 0, "and commits before it");
    ps_resume(mine);
    is(ps_commit(), 0, "as it does");
    is(ps_add((int64_t *)((char *)&root->sum + 1), 1), -EINVAL, "to whole numbers only");
}

/* One adds so often, to two counters in turns, that its list of ranges is handed over again and
 * again; another one commits additions to the first, whose word begins its page. */
static int64_t *counter;
static _Atomic int adds_over;
static volatile int64_t committed;
static int add_often(void *unused)
{
    (void)unused;
    int result = 0;
    for (int i = 0; !result && i < ADDS; i++) result = ps_add(&counter[i % 2 * 8], 1);
    return result;
}
static int add_once(void *unused)
{
    (void)unused;
    return ps_add(counter, 1);
}
static void *adds_beside(void *unused)
{
    while (!adds_over) committed = committed + (ps_transaction(add_once, unused) == 0);
    return unused;
}
static int look_counter(void *out) { return *(int64_t *)out = *ps_read(counter), 0; }
static void test_add_often(void)
{
    enum { TIMES = 6, TIMES_MOST = 60, BESIDE = 600 };
    pthread_t thread;
    int times = 0;
    int64_t before = 0, after = 0;
    int result = 0;
    counter = (int64_t *)(((uintptr_t)root->many + KD_PAGE_BYTES) & -(uintptr_t)KD_PAGE_BYTES);
    result |= ps_transaction(look_counter, &before);
    pthread_create(&thread, NULL, adds_beside, NULL);
    for (; times < TIMES || (times < TIMES_MOST && committed < BESIDE); times++)
        result |= ps_transaction(add_often, NULL);
    adds_over = 1;
    pthread_join(thread, NULL);
    result |= ps_transaction(look_counter, &after);
    printf("# %ld beside\n", (long)committed);
    is(result ? result : (long)(after - before), (long)times * ADDS / 2 + (long)committed,
       "none of another one's additions is lost while a list of ranges is handed over");
}

/* All move from word to word, in different directions, after they have read both. */
struct move { unsigned from, to; };
static int move(void *arg)
{
    const struct move *m = arg;
    if (!ps_read(word(m->from)) || !ps_read(word(m->to))) return -errno;
    sched_yield();
    uint64_t *from = ps_write(word(m->from)), *to = ps_write(word(m->to));
    if (!from || !to) return -errno;
    --*from;
    ++*to;
    return 0;
}
static void *mover(void *arg)
{
    unsigned n = (unsigned)(uintptr_t)arg;
    long bad = 0;
    for (int i = 0; i < ROUNDS; i++) {
        struct move m = {10 + (n + (unsigned)i) % 3, 10 + (n + (unsigned)i * 2 + 1) % 3};
        bad += ps_transaction(move, &m) != 0;
    }
    return (void *)bad;
}
static int total(void *out)
{
    *(uint64_t *)out = *ps_read(word(10)) + *ps_read(word(11)) + *ps_read(word(12));
    return 0;
}

/* ---- keys, and locks of the container ---- */

static int other_locks(int how)
{
    ps_tx *mine = ps_suspend();
    int result = ps_begin(&(struct ps_options){.apart = 1});
    if (result == 0) result = ps_lock(box, how | PS_LOCK_NOW);
    ps_rollback();
    int back = ps_resume(mine);
    return back ? back : result;
}

static _Atomic int key_had;
static int take_key(void *mode)
{
    int error = ps_key(box, 55, *(int *)mode);
    key_had = error == 0;
    return error;
}
static void *key_taker(void *mode) { return (void *)(long)ps_transaction(take_key, mode); }

static int somebody_waits(void)
{
    static struct kd_view_info views[KD_VIEW_MAX];
    long n = kd_call3(KD_VIEW_LIST, (long)views, KD_VIEW_MAX, 0);
    for (long i = 0; i < n; i++)
        if (views[i].waits[0] | views[i].waits[1]) return 1;
    return 0;
}

/* Whether a key is had by another one while this one has locked the container. */
static int key_beside(int how, int mode)
{
    pthread_t thread;
    void *result = NULL;
    key_had = 0;
    ps_begin(NULL);
    int error = ps_lock(box, how);
    pthread_create(&thread, NULL, key_taker, &mode);
    while (!key_had && !somebody_waits()) sched_yield();
    int had = key_had;
    ps_rollback();
    pthread_join(thread, &result);
    return error ? error : result ? (int)(long)result : !key_had ? -EIO : had;
}

static void test_keys_and_locks(void)
{
    ps_begin(NULL);
    is(ps_key(box, 55, PS_S), 0, "a key to read");
    is(other_locks(0), -EBUSY, "a lock of the container waits for it,");
    is(other_locks(PS_LOCK_SHARED), 0, "a shared one does not");
    is(ps_key(box, 56, PS_X), 0, "another one to write:");
    is(other_locks(PS_LOCK_SHARED), -EBUSY, "a shared lock waits for that");
    ps_rollback();
    is(key_beside(0, PS_S) + key_beside(0, PS_X), 0, "keys wait for a lock of the container");
    is(key_beside(PS_LOCK_SHARED, PS_S), 1, "to read, not for a shared one,");
    is(key_beside(PS_LOCK_SHARED, PS_X), 0, "but to write");
    ps_begin(NULL);
    is(ps_key(box, 55, PS_X) + ps_lock(box, 0) + ps_key(box, 57, PS_X), 0,
       "one's own are not in the way");
    ps_rollback();
}

/* ---- processes ---- */

static int wait_for(pid_t pid)
{
    int status = -1;
    return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

static int lock_and_wait(void *fd)
{
    char byte = 1;
    if (!ps_write(word(20))) return -errno;
    *word(20) = 1;
    if (write(*(int *)fd, &byte, 1) != 1) return -EIO;
    for (;;) pause();
}
static int increment(void *unused)
{
    (void)unused;
    uint64_t *w = ps_write(word(20));
    if (!w) return -errno;
    *w += 10;
    return 0;
}
static void test_killed(void)
{
    int fd[2];
    char byte;
    is(pipe(fd), 0, "another process");
    pid_t pid = fork();
    if (pid == 0) _exit(ps_transaction(lock_and_wait, &fd[1]) != 0);
    is(read(fd[0], &byte, 1), 1, "has locked an item, and stored to it");
    ps_begin(NULL);
    is(ask(word(20), PS_S), 1, "which is held");
    ps_rollback();
    pid_t waiter = fork();
    if (waiter == 0) _exit(ps_transaction(increment, NULL) != 0);
    kill(pid, SIGKILL);
    is(WIFSIGNALED(wait_for(pid)), 1, "it is killed;");
    is(wait_for(waiter), 0, "who waits for it gets the item");
    ps_begin(NULL);
    is(ask(word(20), PS_S), 0, "which is free then,");
    is((long)*word(20), 10, "and as it was");
    ps_rollback();
}

static int reader(int in, int out)
{
    char byte = 0;
    ps_begin(NULL);
    int again = ask(word(23), PS_S) | ask(word(23), PS_S) | ps_release(word(23));
    if (write(out, &byte, 1) != 1 || read(in, &byte, 1) != 1 || again) return 98;
    int free = ask(word(21), PS_S), taken = ask(word(22), PS_S), more = ask(word(21), PS_X);
    int back = ps_release(word(21));
    ps_rollback();
    return free != 0 || taken != 1 || more != -EROFS || back != 0;
}
static void test_reader(void)
{
    pid_t pid;
    int in[2], out[2];
    char byte = 0;
    ps_begin(NULL);
    is(ask(word(22), PS_X) | pipe(in) | pipe(out), 0, "an item is locked");
    pid = fork();
    if (pid == 0) {
        ps_close(box);
        box = ps_open("items", 0, NULL);
        _exit(box ? reader(in[0], out[1]) : 99);
    }
    is(read(out[0], &byte, 1), 1, "who may only read asks twice for one, and gives it back once:");
    is(other_asks(word(23), PS_X), 1, "it is kept");
    is(write(in[1], &byte, 1), 1, "(it goes on)");
    is(wait_for(pid), 0, "who may only read waits for it, and reads others");
    ps_rollback();
}

/* ---- */

static uint64_t number_of(int (*look)(void *))
{
    uint64_t n = 0;
    int error = ps_transaction(look, &n);
    return error ? (uint64_t)error : n;
}
static int look_sum(void *out) { return *(int64_t *)out = *ps_read(&root->sum), 0; }
static int look_count(void *out) { return *(uint64_t *)out = *ps_read(&root->count), 0; }
static long deadlocks(void)
{
    struct ps_stats s;
    ps_stats(&s);
    return (long)s.deadlocks - deadlocks_begun;
}

int main(void)
{
    tap_plan(72);
    box = ps_open("items", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    is(box ? ps_locking(box, PS_LOCK_ITEMS) : -errno, 0, "a container in item mode");
    is(ps_transaction(build, NULL), 0, "with some objects");
    test_pairs();
    test_shared();
    test_release();
    is(ps_transaction(store_many, NULL), 0, "more items than the list has room for");
    is(ps_transaction(check_many, NULL), 0, "are all stored");
    threads(inserter, "who finds a key missing inserts it");
    is((long)number_of(look_count), KEYS, "each once");
    threads(adder, "all add");
    is((long)number_of(look_sum), THREADS * ROUNDS, "and nothing is lost");
    test_adders_beside();
    is((long)number_of(look_sum), THREADS * ROUNDS + 2, "both count");
    test_add_often();
    threads(mover, "readers that want to write: deadlocks end");
    is((long)number_of(total), 0, "and leave nothing");
    printf("# %ld deadlocks\n", deadlocks());
    test_keys_and_locks();
    test_killed();
    test_reader();
    is(WHEN_FREE(ps_locking(box, PS_LOCK_PAGES)), 0, "pages");
    is(ps_transaction(store_many, NULL), 0, "the same program stores,");
    threads(adder, "adds");
    threads(mover, "and moves");
    is((long)number_of(total), 0, "and nothing is lost, either");
    is((long)number_of(look_sum), 2 * THREADS * ROUNDS + 2, "nor added twice");
    return tap_end();
}
