/*
 * kernel_item_kills.c - a client that stores to pages in item mode dies at each step, one after the
 * other.
 *
 * Aim     whatever the client is doing, another transaction with copies of the same pages keeps
 *         what is its own, sees what was published and nothing else, and commits; others get the
 *         locks of items that it had or waited for; no copy, view, version or bit of a lock is left
 *         behind, and kcheck is clean.
 * Method  as kernel_kills.c: a client runs three transactions and is killed by its n-th trace event
 *         for n = 1, 2, ... until it comes to its end alive. This process is the manager and the
 *         other writer, and a thread of it takes and leaves the same locks all the time. The clock
 *         chooses each third event; `kernel_item_kills all` and the long tier take all.
 */
#include "katydid/trace.h"
#include "own_manager.h"

enum { PAGES = 4, ITS = 3, MINE = 4, SUM = 5, STATUS_END = 9, STEPS_MAX = 1500 };
static struct context mine_context, look_context, lock_context;
static struct kd_item_table table;
static _Atomic long locks_taken, locks_failed;
static _Atomic bool over;

static void declare(volatile void *at, uint64_t bytes)
{
    struct kd_range r = {(uint64_t)at, bytes};
    kd_call3(KD_TXN_DECLARE, (long)&r, 1, 0);
}

static void put(uint64_t page, unsigned i, uint64_t value)
{
    *word_of(page, i) = value;
    declare(word_of(page, i), 8);
}

static void add(uint64_t page, unsigned i)
{
    __atomic_fetch_add(word_of(page, i), 1, __ATOMIC_SEQ_CST);
    declare(word_of(page, i), 8);
}

/* ---- locks: one for each page ---- */

static long lock(uint64_t page)
{
    return kd_call3(KD_ITEM_LOCK, (long)base, (long)page * 64, KD_ITEM_X);
}

/* All bits of a view, cleared as a library does it, where it knows which. */
static void unlock(uint32_t view)
{
    for (uint64_t page = 0; page < PAGES; page++)
        for (unsigned k = 0; k < KD_ITEM_MODES; k++)
            __atomic_fetch_and(&table.entries[kd_item_entry(page * 64, table.bits)]
                                    .holders[k][view / 64], ~(1ull << view % 64), __ATOMIC_SEQ_CST);
}

static long map_table(void) { return kd_call3(KD_ITEM_MAP, (long)base, (long)&table, 0); }

static long bits_left(void)
{
    long n = 0;
    for (uint64_t i = 0; i < 1ull << table.bits; i++)
        for (unsigned k = 0; k < KD_ITEM_MODES * 2; k++)
            n += table.entries[i].holders[k / 2][k % 2] != 0;
    return n;
}

/* Others' locks: each in a transaction of its own, which waits for the client's at most as long as
 * that has them. */
static void *neighbour(void *unused)
{
    const struct kd_begin how = {.mode = KD_SERIALISABLE, .timeout_ms = 20000};
    in_view(&lock_context);
    map_table();
    uint32_t view = table.view;
    for (volatile uint64_t page = 0; !over; page = (page + 1) % (PAGES - 1)) {
        if (setjmp(lock_context.env))
            locks_failed++;
        else if (txn_open(&lock_context, how) || lock(page) ||
                 kd_call3(KD_TXN_ABORT, 1, 0, 0))
            locks_failed++;
        unlock(view);
        locks_taken++;
        pause_ms(1);
    }
    return unused;
}

/* ---- the client ---- */

static int writes(void *value)
{
    unlock(table.view);
    for (uint64_t page = 0; page < PAGES - 1; page++) {
        if (lock(page))
            return 2;
        put(page, ITS, (uint64_t)value);
        add(page, SUM);
    }
    *word_of(1, 9) = 666; /* not declared */
    return 0;
}
static int gives_up(void *value) { return writes(value), 1; }
static int reads(void *unused) { return (void)unused, (int)(*word_of(0, ITS) & 0); }

static int client(long n)
{
    struct kd_space_info info;
    base = KD_STORE_BASE;
    while (kd_call3(KD_CONTAINER_INFO, (long)base, (long)&info, 0))
        pause_ms(1);
    in_view(&mine_context);
    map_table();
    die_at_event(n);
    bool good = run(writes, (void *)(uintptr_t)n, KD_SERIALISABLE, 0) == 0;
    good = good && run(gives_up, NULL, KD_SERIALISABLE, 0) == 1;
    unlock(table.view);
    good = good && run(reads, NULL, KD_SNAPSHOT, 0) == 0;
    return good ? STATUS_END : 1;
}

/* ---- the other writer, and what must be true after each life ---- */

static bool commits(struct context *c)
{
    struct kd_commit k = {.port = -1};
    in_view(c);
    return kd_call3(KD_TXN_COMMIT, (long)&k, 0, 0) == 0;
}

static uint64_t home_word(uint64_t page, unsigned i)
{
    uint64_t value;
    memcpy(&value, home[page] + i * sizeof value, sizeof value);
    return value;
}

/* What a new transaction sees is what is home; and all pages tell of the same commits. */
static bool is_whole(long n)
{
    bool good = txn_open(&look_context, (struct kd_begin){.mode = KD_SERIALISABLE}) == 0;
    for (uint64_t page = 0; page < PAGES - 1; page++)
        for (unsigned i = ITS; i <= SUM; i++)
            good = good && *word_of(page, i) == home_word(page, i) &&
                   *word_of(page, i) == *word_of(0, i);
    good = good && *word_of(1, 9) == 0 && *word_of(0, MINE) == (uint64_t)n;
    return commits(&look_context) && good;
}

/* A commit may outlive its client, and a thread's kernel stack its end by a moment. In the end
 * there are no copies, no old versions, and no frames without a payer. */
static bool comes_to_rest(void)
{
    for (int i = 0; i < 20000; i++) {
        bool none = system_info().copies == 0 && system_info().versions == 0;
        if (none && kd_call3(KD_CHECK, 1, 0, 0) == 0)
            return true;
        pause_ms(1);
    }
    return false;
}

static int life(const char *self, long n)
{
    char text[24];
    snprintf(text, sizeof text, "%ld", n);
    int pid = child_start(self, "client", text);
    kd_call3(KD_SPACE_ATTACH, pid, object, KD_RIGHT_READ | KD_RIGHT_WRITE);
    return child_wait(pid);
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "client") == 0)
        return client(atol(argv[2]));
    bool all = argc > 1 || tap_long(), good = true;
    long every = all ? 1 : 3, lives = 0, n = 1 + (all ? 0 : time(NULL) % 3);
    int status = 0;
    tap_plan(6);
    struct own_manager how = {.pages = PAGES, .flags = KD_OBJECT_ITEMS};
    tap_ok(start_manager(how) && kd_call3(KD_TRACE, KD_TRACE_START, 0, 0) > 0 &&
               die_at_event(0) == 0 && map_table() == 0, "pages in item mode, and ends by choice");
    pthread_t locks;
    pthread_create(&locks, NULL, neighbour, NULL);
    for (; n < STEPS_MAX && good && status != STATUS_END; n += every, lives++) {
        good = txn_open(&mine_context, (struct kd_begin){.mode = KD_SERIALISABLE}) == 0;
        for (uint64_t page = 0; page < PAGES - 1; page++) {
            put(page, MINE, (uint64_t)n);
            add(page, SUM);
        }
        status = life(argv[0], n);
        good = good && check() == 0 && commits(&mine_context) && comes_to_rest() && is_whole(n) &&
               check() == 0;
    }
    tap_ok(good, "a client dies at %ld events, the last %ld: both sides are whole", lives,
           n - every);
    tap_ok(status == STATUS_END && lives > 10, "until it comes to its end alive (%d)", status);
    is((long)comes_to_rest(), 1, "no copy and no version is left");
    over = true;
    pthread_join(locks, NULL);
    tap_ok(!locks_failed && locks_taken > lives, "others took %ld locks meanwhile", locks_taken);
    is(bits_left(), 0, "no bit of a lock is left");
    kd_call3(KD_TRACE, KD_TRACE_STOP, 0, 0);
    return tap_end();
}
