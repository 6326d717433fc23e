/* tables.c - tables: how they come and go, who has them, what a program may do to them, and what
 * becomes of the bits of who dies. */
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "locks.h"

enum { LARGE = KD_ITEMS_MOST, LARGE_BYTES = LARGE * sizeof(struct kd_item_entry) };

static int object_new(uint64_t *at)
{
    struct kd_object_create c = {.port = port, .commit_port = commit_port, .cookie = 9, .pages = 4,
                                 .flags = KD_OBJECT_TRANSACTIONAL | KD_OBJECT_ITEMS,
                                 .name = "more"};
    int o = (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    *at = c.base;
    kd_call3(KD_SPACE_ATTACH, getpid(), o, KD_RIGHT_READ | KD_RIGHT_WRITE);
    return o;
}

static void object_end(int o)
{
    kd_call3(KD_SPACE_DETACH, getpid(), o, 0);
    kd_call3(KD_OBJECT_DESTROY, o, 0, 0);
}

static long policy(uint64_t at, unsigned which, uint64_t value)
{
    return kd_call3(KD_CONTAINER_POLICY, (long)at, which, (long)value);
}

static uint64_t used(void) { return process_self().used[KD_LIMIT_MEMORY] / KD_PAGE_BYTES; }

/* What is charged comes back a moment after the call: a page is freed by who uses it last. */
static long comes_back_to(uint64_t before)
{
    for (int i = 0; i < 2000 && used() > before; i++)
        pause_ms(1);
    return (long)(used() - before);
}

/* Touches a table in a child that fork made. */
static int forked(const struct kd_item_table *t)
{
    int status, pid = fork();
    if (pid == 0)
        _exit((int)(((volatile struct kd_item_entry *)t->entries)->waiting & 0));
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void sizes(void)
{
    struct kd_item_table t, again;
    uint64_t at, before = used();
    int o = object_new(&at);
    is(policy(at, KD_POLICY_ITEMS, KD_ITEMS_LEAST / 2) == -EINVAL &&
           policy(at, KD_POLICY_ITEMS, LARGE * 2) == -EINVAL &&
           policy(at, KD_POLICY_ITEMS, 300) == -EINVAL &&
           policy(at, KD_POLICY_OWN, 1 << KD_ITEM_MODES) == -EINVAL &&
           policy(at, KD_POLICY_ITEMS, ~0ull) == -EINVAL, 1, "sizes and rows that there are not");
    is(policy(at, KD_POLICY_ITEMS, KD_ITEMS_LEAST) | policy(at, KD_POLICY_OWN, 1 << KD_ITEM_X), 0,
       "the least table, and a mode that is against X");
    uint64_t without = used();
    is(kd_call3(KD_ITEM_MAP, (long)at, (long)&t, 0), 0, "it is mapped");
    is(t.bits == 8 && t.own == 1 << KD_ITEM_X, 1, "as it was asked for");
    is((long)(used() - without), 8, "its manager is charged for its 8 pages");
    t.entries[0].reserved = t.entries[255].reserved = 1;
    is((long)(used() - without) >= 10, 1, "and who maps it for those that it touches");
    is(kd_call3(KD_ITEM_MAP, (long)at, (long)&again, 0) | (again.entries != t.entries), 0,
       "mapped again, it is the same");
    is(policy(at, KD_POLICY_ITEMS, 4096) & policy(at, KD_POLICY_OWN, 0), -EBUSY, "it stays");
    is(mprotect(t.entries, 4096, PROT_READ | PROT_EXEC), -1, "it does not become code");
    is(forked(&t), SIGSEGV, "fork leaves it out");
    munmap(t.entries, 4096);
    is(kd_call3(KD_ITEM_MAP, (long)at, (long)&again, 0), 0, "unmapped in part: it is mapped anew");
    again.entries[64].reserved = 5;
    is(again.entries != t.entries && again.entries[0].reserved == 1 && t.entries[64].reserved == 5,
       1, "beside the rest, and shows the same");
    munmap(again.entries, 8 * 4096);
    munmap(t.entries, 8 * 4096);
    is(kd_call3(KD_ITEM_MAP, (long)at, (long)&t, 0), 0, "unmapped, it is mapped once more");
    is(t.entries[0].reserved, 1, "with what is in it");
    object_end(o);
    is((long)t.entries[0].reserved, 1, "it can be touched when its object is gone");
    munmap(t.entries, 8 * 4096);
    is(comes_back_to(before), 0, "all is given back");
}

/* Tables until there is no memory for more: how many. */
static int fill(int *objects, struct kd_item_table *t, int most)
{
    uint64_t at;
    for (int n = 0; n < most; n++) {
        objects[n] = object_new(&at);
        policy(at, KD_POLICY_ITEMS, LARGE);
        if (kd_call3(KD_ITEM_MAP, (long)at, (long)&t[n], 0)) {
            object_end(objects[n]);
            return n;
        }
        for (uint64_t i = 0; i < LARGE; i += 32)
            t[n].entries[i].reserved = 1;
    }
    return most;
}

static void memory_at_its_end(void)
{
    enum { MOST = 16 };
    int objects[MOST];
    struct kd_item_table t[MOST];
    uint64_t before = used();
    int n = fill(objects, t, MOST);
    tap_ok(n > 0 && n < MOST, "there is memory for %d large tables, then for none", n);
    opens(0, plain);
    is(locks(0, names[0], KD_ITEM_X) | commits(0), 0, "others lock as ever");
    for (int i = 0; i < n; i++) {
        object_end(objects[i]);
        munmap(t[i].entries, LARGE_BYTES);
    }
    is(comes_back_to(before), 0, "all is given back");
    is(kd_call3(KD_CHECK, 1, 0, 0), 0, "no frame is without a payer");
}

void tables(void)
{
    struct kd_item_table t;
    is(kd_call3(KD_ITEM_MAP, 4096, (long)&t, 0), -ENOENT, "nothing lies there");
    is(kd_call3(KD_ITEM_MAP, (long)base, 8, 0), -EFAULT, "no place for the answer");
    is(kd_call3(KD_ITEM_MAP, (long)(KD_STORE_BASE + (1ull << 30)), (long)&t, 0), -EINVAL,
       "page mode has no locks of items");
    sizes();
    memory_at_its_end();
}

/* ---- who dies ---- */

int holder(void)
{
    static struct context c;
    in_view(&c);
    table_map(base);
    txn_open(&c, plain);
    if (item_lock(names[0], KD_ITEM_X) || item_lock(names[1], KD_ITEM_S))
        return 1;
    child_begun();
    for (;;)
        pause_ms(100);
}

int waiter(void)
{
    static struct context c;
    in_view(&c);
    table_map(base);
    txn_open(&c, plain);
    child_begun();
    return item_lock(names[0], KD_ITEM_X) ? 1 : 0;
}

static int starts(const char *what)
{
    char name[24];
    snprintf(name, sizeof name, "%llu", (unsigned long long)names[0]);
    int pid = child_start(self, what, name);
    kd_call3(KD_SPACE_ATTACH, pid, object, KD_RIGHT_READ | KD_RIGHT_WRITE);
    child_has_begun(pid);
    return pid;
}

static bool waits_for_item(int pid)
{
    static struct kd_view_info all[KD_VIEW_MAX];
    long n = kd_call3(KD_VIEW_LIST, (long)all, KD_VIEW_MAX, 0);
    for (long i = 0; i < n; i++)
        if (all[i].pid == pid && all[i].item_mode)
            return true;
    return false;
}

static void kill_child(int pid)
{
    kd_call3(KD_PROCESS_KILL, pid, 0, 0);
    child_wait(pid);
}

void deaths(void)
{
    int pid = starts("holder");
    opens(0, plain);
    is(locks(0, names[0], KD_ITEM_S), WAITS, "another program has the item");
    kill_child(pid);
    is(ended(0), 0, "it is killed, and the item is free");
    is(all_bits(), 1, "no bit of it is left, in no entry");
    pid = starts("waiter");
    for (int i = 0; i < 5000 && !waits_for_item(pid); i++)
        pause_ms(1);
    opens(1, plain);
    is(locks(1, names[0], KD_ITEM_S), WAITS, "somebody waits behind another program that waits");
    kill_child(pid);
    is(ended(1), 0, "which is killed: the rest of the queue goes on");
    commits(0);
    commits(1);
    is(all_bits(), 0, "no bit is left");
    is((long)entry_of(names[0])->waiting, 0, "and nobody waits");
    pid = starts("waiter");
    is(child_wait(pid), 0, "another program locks the item, and ends within its transaction");
    is(all_bits(), 0, "that leaves no bit either");
}

/* ---- a program that stores whatever it likes ---- */

int wild(void)
{
    uint64_t seed = 1;
    table_map(base);
    child_begun();
    for (;;) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        entry_of(names[seed >> 60 & 1])->holders[(seed >> 50) % KD_ITEM_MODES][seed >> 40 & 1] =
            seed ^ seed << 20;
        entry_of(names[seed >> 60 & 1])->waiting = seed >> 30 & 1;
    }
}

static int wants_both(void *order)
{
    long first = (long)order;
    return (int)(kd_call3(KD_ITEM_LOCK, (long)base, (long)names[first], KD_ITEM_X) |
                 kd_call3(KD_ITEM_LOCK, (long)base, (long)names[!first], KD_ITEM_X));
}

static void *among_them(void *order)
{
    long good = 1;
    table_map(base);
    for (int i = 0; i < 40 && good; i++)
        good = run(wants_both, order, KD_SERIALISABLE, 0) == 0;
    return (void *)good;
}

void spoilt(void)
{
    pthread_t threads[2];
    void *good[2];
    int pid = starts("wild");
    for (long i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, among_them, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], &good[i]);
    is(good[0] && good[1], 1, "beside a program that spoils the table all transactions end");
    is(check(), 0, "and kcheck is clean");
    kill_child(pid);
    memset(table.entries, 0, sizeof *table.entries << table.bits);
}

void end_of_the_object(void)
{
    struct kd_item_table t;
    opens(0, plain), opens(1, plain);
    locks(0, names[0], KD_ITEM_X);
    is(locks(1, names[0], KD_ITEM_X), WAITS, "somebody waits when the object ends");
    kd_call3(KD_OBJECT_DESTROY, object, 0, 0);
    is(ended(1), -EOWNERDEAD, "it is told");
    is(kd_call3(KD_ITEM_MAP, (long)base, (long)&t, 0), -EOWNERDEAD, "there is no table more");
    aborts(0), aborts(1);
    is(all_bits(), 0, "who has the old one clears its bits there");
    munmap(table.entries, sizeof *table.entries << table.bits);
    is(check(), 0, "kcheck at the end");
}
