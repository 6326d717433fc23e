/*
 * pstore_two.c - a second store disk is attached; one program uses both stores.
 *
 * Aim     containers of both are open at once, each at addresses of its own; a transaction reads
 *         both, follows pointers from one into the other, and writes both: what it wrote, made,
 *         freed and named is there in both or in none; what happens to the manager of one does
 *         not reach the other.
 * Method  the same steps again after the second manager was killed, in the middle of a transaction
 *         too.
 */
#include <pthread.h>
#include <time.h>

#include "pstore_test.h"
#include "store_client.h"

struct root { long value; struct root *other; };
static ps_container *left, *right;
static _Atomic int second_pid;

static ps_container *open_in(const char *store, const char *name)
{
    return ps_connect(store) == 0 ? ps_open(name, PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1))
                                  : NULL;
}

/* It reads nothing in the second store: who used pages of a dead one is undone, and so is, once,
 * who has a right to read there from before. */
static int set_left_alone(void *value)
{
    struct root *l = ps_root(left);
    if (!l)
        return -errno;
    l->value = (long)value;
    return 0;
}

static int set_left(void *value)
{
    struct root *l = ps_root(left), *r = ps_root(right);
    if (!l || !r)
        return -errno;
    l->value = (long)value;
    l->other = r; /* into the other store */
    return 0;
}

/* Frees in one store what it allocated before, and stores to the other: the one has operations for
 * its manager and no changed page. */
static void *large;
static int make_large(void *unused)
{
    (void)unused;
    large = ps_alloc(left, 1 << 16, NULL);
    return large ? 0 : -errno;
}

static int free_left_set_right(void *value)
{
    struct root *r = ps_root(right);
    r->value = (long)value;
    return ps_free(large);
}

static int set_right(void *value)
{
    struct root *r = ps_root(right);
    r->value = (long)value;
    return 0;
}

/* Flushes of one round, counted by `once` with a value that is another one each time. A group of
 * a manager's own may come between (the end of what both stores took part in before; an empty one
 * behind the last), so a round that counts others than expected is followed by another one, at most
 * ten. */
static int flushes_of(int (*once)(long value, long flushes[]), const long expected[],
                      long flushes[], size_t count)
{
    static long value = 15;
    int e = 0, differs = 1;
    for (int round = 0; round < 10 && !e && differs; round++) {
        e = once(value++, flushes);
        differs = memcmp(flushes, expected, count * sizeof *flushes);
    }
    return e;
}

/* Flushes of both stores by lazy commits; of each by ps_flush; of both by ps_flush once more. */
static int flush_both_once(long value, long flushes[])
{
    const struct ps_options lazy = {.lazy = 1, .lazy_ms = 60000};
    int e = ps_flush();
    long first = client_flushes("store"), second = client_flushes("store2");
    if (!e) e = ps_transaction_opt(set_left, (void *)value, &lazy);
    if (!e) e = ps_transaction_opt(set_right, (void *)value, &lazy);
    flushes[0] = client_flushes("store") - first + client_flushes("store2") - second;
    if (!e) e = ps_flush();
    flushes[1] = client_flushes("store") - first;
    flushes[2] = client_flushes("store2") - second;
    if (!e) e = ps_flush();
    flushes[3] = client_flushes("store") - first + client_flushes("store2") - second - 2;
    return e;
}

/* Lazy commits of both; ps_flush makes both durable, by one flush each. */
static void flush_both(void)
{
    static const long expected[] = {0, 1, 1, 0};
    long flushes[4] = {0};
    is(flushes_of(flush_both_once, expected, flushes, 4), 0,
       "lazy commits in both stores, ps_flush");
    is(flushes[0], 0, "the commits cost no flush");
    is(flushes[1], 1, "ps_flush makes them durable by one flush of the first");
    is(flushes[2], 1, "and one of the second");
    is(flushes[3], 0, "once more it costs none");
}

static int through_left(void *sum)
{
    struct root *l = ps_root(left);
    *(long *)sum = l->value * 1000 + l->other->value;
    return 0;
}

static int set_both(void *value);
static int set_both_and_leave(void *value)
{
    set_both(value);
    return -ECANCELED;
}

static int set_both(void *value)
{
    struct root *l = ps_root(left);
    l->value = (long)value;
    l->other->value = (long)value;
    return 0;
}

/* What the thread read before, in another transaction, is no page of this one. */
static int retry_left(void *unused)
{
    (void)unused;
    if (*(long *)ps_root(left) != -1)
        ps_retry();
    return 0;
}

static int retry_both(void *unused)
{
    long sum;
    (void)unused;
    through_left(&sum);
    ps_retry();
}

/* Sleeps until the sum is another one; how often it looked. */
static _Atomic int looks;
static int retry_sum(void *unused)
{
    static long before;
    long sum;
    (void)unused;
    through_left(&sum);
    if (looks++ == 0)
        before = sum;
    if (sum == before)
        ps_retry();
    return 0;
}

static void *set_later(void *set)
{
    while (!looks)
        pause_ms(1);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    return (void *)(long)ps_transaction((int (*)(void *))set,
                                        (void *)(set == (void *)set_right ? 5L : 11L));
}

static void sleeps_until(int (*set)(void *), const char *which)
{
    const struct ps_options late = {.timeout_ms = 20000};
    pthread_t thread;
    looks = 0;
    pthread_create(&thread, NULL, set_later, (void *)set);
    is(ps_transaction_opt(retry_sum, NULL, &late), 0, which);
    pthread_join(thread, NULL);
    is(looks, 2, "by one look more");
}

/* Sleeps until one of the two has the name. */
static int retry_names(void *unused)
{
    (void)unused;
    const void *l = ps_named(left, "late", 0), *r = ps_named(right, "late", 0);
    if (!l && !r)
        ps_retry();
    return 0;
}

static int name_left(void *unused)
{
    (void)unused;
    return ps_named(left, "late", sizeof(long)) ? 0 : -errno;
}

/* A thread that has read no page. */
static void *sleeps_for_names(void *unused)
{
    const struct ps_options late = {.timeout_ms = 20000};
    (void)unused;
    return (void *)(long)ps_transaction_opt(retry_names, NULL, &late);
}

static void names_wake(void)
{
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, sleeps_for_names, NULL);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    is(ps_transaction(name_left, NULL), 0, "a name in the first");
    pthread_join(thread, &result);
    is((long)result, 0, "wakes who has missed it there, and another one in the second behind it");
}

static int copy_left(void *unused)
{
    struct root *l = ps_root(left);
    (void)unused;
    l->value = l->other->value;
    return 0;
}

/* What follows from a lazy commit in the other store is not durable without it: flushes of the
 * first store by a strict commit; of the second by a reader, a lazy commit, a strict one, the same
 * again. */
static int follow_lazy_once(long value, long flushes[])
{
    const struct ps_options lazy = {.lazy = 1, .lazy_ms = 60000};
    long first = client_flushes("store"), second = client_flushes("store2"), sum = 0;
    int e = ps_transaction_opt(set_right, (void *)value, &lazy);
    if (!e) e = ps_transaction(through_left, &sum);
    flushes[1] = client_flushes("store2") - second;
    if (!e) e = ps_transaction_opt(copy_left, NULL, &lazy);
    flushes[2] = client_flushes("store2") - second;
    if (!e) e = ps_transaction(copy_left, NULL);
    flushes[0] = client_flushes("store") - first;
    flushes[3] = client_flushes("store2") - second;
    if (!e) e = ps_transaction(copy_left, NULL);
    flushes[4] = client_flushes("store2") - second;
    return e;
}

static void follow_lazy(void)
{
    static const long expected[] = {1, 0, 0, 1, 1};
    long flushes[5] = {0};
    is(flushes_of(follow_lazy_once, expected, flushes, 5), 0,
       "a lazy commit in the second, and in the first what follows from it");
    is(flushes[1], 0, "who only reads it costs no flush");
    is(flushes[2], 0, "nor does a lazy commit in the first that follows from it");
    is(flushes[0], 1, "a strict one in the first that follows from it costs one flush there");
    is(flushes[3], 1, "and one of the second");
    is(flushes[4], 1, "once more costs none there");
}

static int killed_inside(void *value)
{
    struct root *r = ps_root(right);
    r->value = (long)value;
    kd_call3(KD_PROCESS_KILL, second_pid, 9, 0);
    while (second_pid) /* until the abort takes this thread out */
        *(volatile long *)&r->value = (long)value;
    return 0;
}

/* The younger of the two managers. */
static int find_second(void)
{
    static struct kd_process_info list[64];
    long n = kd_call3(KD_PROCESS_LIST, (long)list, 64, 0);
    int pid = -1;
    for (long i = 0; i < n && i < 64; i++)
        if (strcmp(list[i].name, "store") == 0 && list[i].parent == 1 && list[i].pid > pid)
            pid = list[i].pid;
    return pid;
}

/* Does it until the manager is there again. */
static int insist(int (*fn)(void *), void *arg)
{
    int result = -1;
    for (int i = 0; i < 30000; i++) {
        result = ps_transaction(fn, arg);
        if (result != -ENOTCONN && result != -EOWNERDEAD)
            return result;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    return result;
}

static int listed(const char *store, const char *name)
{
    static struct ps_info list[16];
    int n = ps_connect(store) == 0 ? ps_list(list, 16) : 0, found = 0;
    for (int i = 0; i < n; i++)
        found += strcmp(list[i].name, name) == 0;
    return found;
}

int main(void)
{
    long sum = 0;
    tap_plan(45);
    left = open_in("store", "left");
    right = open_in("store2", "right");
    if (!tap_ok(left && right, "containers of both stores are open"))
        return 1;
    ps_container *same = open_in("store2", "left");
    tap_ok(same && same != left, "one name in two stores is two containers");
    is(listed("store", "left") + 10 * listed("store", "right"), 1, "the first store lists its own");
    is(listed("store2", "left") + 10 * listed("store2", "right"), 11, "and the second its own");
    is(ps_transaction(set_left, (void *)3), 0, "objects made in both by one transaction");
    is(ps_transaction(through_left, &sum) + sum, 3000, "are there");
    is(ps_transaction(set_right, (void *)4), 0, "a commit to the second");
    is(ps_transaction(set_left, (void *)3), 0, "a commit to the first");
    is(ps_transaction(through_left, &sum), 0,
       "a transaction reads both, by a pointer from one into the other");
    is(sum, 3004, "and sees what was committed");
    const struct ps_options soon = {.timeout_ms = 50};
    is(ps_transaction_opt(retry_both, NULL, &soon), -ETIMEDOUT,
       "one that read both waits for both");
    sleeps_until(set_right, "a change in the second wakes it");
    sleeps_until(set_left, "and one in the first");
    names_wake();
    is(ps_transaction(set_right, (void *)4), 0, "a commit to the second");
    is(ps_transaction(set_left, (void *)3), 0, "and to the first");
    ps_transaction(through_left, &sum);
    is(ps_transaction_opt(retry_left, NULL, &soon), -ETIMEDOUT,
       "one that reads the first waits for it, after one that read both");
    is(ps_transaction(set_both_and_leave, (void *)9), -ECANCELED, "one that writes both, undone");
    ps_transaction(through_left, &sum);
    is(sum, 3004, "has changed neither");
    is(ps_transaction(set_both, (void *)9), 0, "one that writes both");
    ps_transaction(through_left, &sum);
    is(sum, 9009, "has changed both");
    is(ps_transaction(make_large, NULL), 0, "pages in the first");
    is(ps_transaction(free_left_set_right, (void *)8), 0, "freed there, and a store to the second");
    ps_transaction(through_left, &sum);
    is(sum, 9008, "is one transaction");
    second_pid = find_second();
    is(kd_call3(KD_PROCESS_KILL, second_pid, 9, 0), 0, "the second manager is killed");
    is(insist(set_left_alone, (void *)5), 0, "the first store goes on");
    is(insist(set_right, (void *)6), 0, "the second is there again, at the same address");
    ps_transaction(through_left, &sum);
    is(sum, 5006, "with all that was committed");
    second_pid = find_second();
    is(ps_transaction(killed_inside, (void *)7), -EOWNERDEAD,
       "a transaction whose manager dies says so");
    is(insist(through_left, &sum), 0, "both are read again");
    is(sum, 5006, "and what it did is undone");
    flush_both();
    follow_lazy();
    return tap_end();
}
