/* steps.c - orders of steps that the test says: modes, queues, ends, deadlocks, and who may not
 * write. */
#include "locks.h"

/* All that the given actors do is over. */
static void over(int from, int to)
{
    for (int n = from; n < to; n++)
        aborts(n);
}

/* The model's table (tests/model/items.md), in the order of enum kd_item_mode; OWN is against
 * itself and X. */
static const char *const against[KD_ITEM_MODES] = {
    "..xx.x.", ".xxx.x.", "xxxxxxx", "xxx....", "..x....", "xxx....", "..x...x",
};

void modes(void)
{
    bool good = true, waits = true;
    for (unsigned a = 0; a < KD_ITEM_MODES; a++)
        for (unsigned b = 0; b < KD_ITEM_MODES; b++) {
            bool x = against[a][b] == 'x';
            opens(0, plain), opens(1, plain);
            good = good && locks(0, names[0], a) == 0;
            long r = locks(1, names[0], b | (a & 1 ? CALLS : 0));
            waits = waits && r == (x ? WAITS : 0);
            commits(0);
            good = good && (!x || ended(1) == 0) && commits(1) == 0;
        }
    tap_ok(waits, "49 pairs of modes: those that conflict wait, the others do not");
    tap_ok(good, "and who waited has it at the other's end");
    opens(0, plain), opens(1, plain);
    is(locks(0, names[0], KD_ITEM_S) | locks(0, names[0], KD_ITEM_ADD), 0, "modes add up");
    is(locks(1, names[0], KD_ITEM_S | KD_ITEM_NOW), -EBUSY, "to who reads it is busy, for the ADD");
    is(locks(1, names[0], KD_ITEM_ADD | KD_ITEM_NOW), -EBUSY, "to who adds, for the S");
    is(locks(1, names[2], KD_ITEM_S | KD_ITEM_NOW), -EBUSY, "so is an item that shares the entry");
    is(locks(1, names[1], KD_ITEM_X), 0, "another one is free");
    commits(0);
    is(locks(1, names[0], KD_ITEM_X | KD_ITEM_NOW), 0, "and so are all, when it has ended");
    commits(1);
    is(stale_bits(), 0, "who was refused left no bit");
}

void queues(void)
{
    for (int n = 0; n < 4; n++)
        opens(n, plain);
    locks(0, names[0], KD_ITEM_S);
    is(locks(1, names[0], KD_ITEM_X), WAITS, "a writer waits for a reader");
    is(locks(2, names[0], KD_ITEM_S), WAITS, "a reader that comes later waits for the writer");
    is(shown(1).item_mode, KD_ITEM_X + 1, "KD_VIEW_LIST shows the mode,");
    is(shown(2).item, kd_item_entry(names[0], table.bits), "the entry,");
    is((long)(shown(2).container - base), 0, "the container,");
    is(shown(1).item != 0 && entry_of(names[0])->waiting != 0, 1, "and the table that some wait");
    is(locks(3, names[1], KD_ITEM_X), 0, "who wants another item does not");
    commits(0);
    is(ended(1), 0, "the writer has it first,");
    is(still(2), WAITS, "the reader not yet,");
    commits(1);
    is(ended(2), 0, "but then");
    is((long)entry_of(names[0])->waiting, 0, "nobody waits any more");
    over(2, 4);

    opens(0, plain), opens(1, plain), opens(2, plain);
    locks(0, names[0], KD_ITEM_S), locks(1, names[0], KD_ITEM_S);
    is(locks(2, names[0], KD_ITEM_X), WAITS, "a writer waits for two readers");
    is(locks(0, names[0], KD_ITEM_X), WAITS, "one of those wants to write, and waits, too");
    commits(1);
    is(ended(0), 0, "it goes before who came before it, and nobody is undone");
    is(still(2), WAITS, "who waits on");
    commits(0);
    is(ended(2), 0, "and has it at last");
    commits(2);

    opens(0, plain), opens(1, plain), opens(2, plain);
    locks(0, names[0], KD_ITEM_IX);
    is(locks(1, names[0], KD_ITEM_S), WAITS, "a reader of the whole waits for a writer of a part,");
    is(locks(2, names[0], KD_ITEM_IS), WAITS, "and behind it a reader of a part");
    commits(0);
    is(ended(1), 0, "the first has it");
    is(ended(2), 0, "and the other one with it");
    over(1, 3);

    opens(0, plain), opens(1, plain), opens(2, plain);
    locks(0, names[0], KD_ITEM_S);
    locks(1, names[0], KD_ITEM_X);
    is(locks(2, names[0], KD_ITEM_S), WAITS, "a reader behind a writer");
    kd_call3(KD_VIEW_ABORT, (long)shown(1).view, EINTR, 0);
    is(ended(1), -EINTR, "that is undone by order");
    is(ended(2), 0, "has the item: a writer that has gone keeps nobody out");
    over(0, 3);
    is(stale_bits() + check(), 0, "no bit is left, and kcheck is clean");
}

void ends_and_orders(void)
{
    opens(0, plain), opens(1, plain);
    locks(0, names[0], KD_ITEM_X);
    is(locks(1, names[0], KD_ITEM_S), WAITS, "an item is wanted");
    is(leaves(0, names[0]), 0, "and left before the end");
    is(ended(1), 0, "who waited has it, though that transaction goes on");
    is(locks(0, names[0], KD_ITEM_X), WAITS, "which waits itself now");
    commits(1);
    is(ended(0), 0, "to the other's end");
    locks(0, names[2], KD_ITEM_X);
    is(leaves(0, names[2]), 1, "an entry that was asked for twice stays to the end");
    is(locks(1, names[0], KD_ITEM_S), -ENOENT, "who has no transaction gets no lock");
    commits(0);

    opens(0, plain), opens(1, plain);
    locks(0, names[0], KD_ITEM_X);
    stores(0, base);
    hold_commits = 1;
    is(commits(0), WAITS, "a commit is under way");
    is(locks(1, names[0], KD_ITEM_S), WAITS, "and keeps its locks");
    is(still(1), WAITS, "until it is published");
    hold_commits = 0;
    is(ended(0) | ended(1), 0, "and then they are free");
    commits(1);

    opens(0, plain);
    opens(1, (struct kd_begin){.mode = KD_SERIALISABLE, .timeout_ms = 20});
    locks(0, names[0], KD_ITEM_X);
    locks(1, names[0], KD_ITEM_X);
    is(ended(1), -ETIMEDOUT, "a transaction with a time limit waits no longer than that");
    is(commits(1), -ENOENT, "it is undone");
    over(0, 1);
    is(stale_bits(), 0, "and its bits are gone");

    /* a bit that its owner forgot, of a view without a transaction */
    unsigned view = (unsigned)shown(0).view;
    opens(1, (struct kd_begin){.mode = KD_SERIALISABLE, .timeout_ms = 2000});
    entry_of(names[0])->holders[KD_ITEM_X][view / 64] |= 1ull << view % 64;
    is(locks(1, names[0], KD_ITEM_X), 0, "a bit of a view without a transaction locks nothing");
    is(stale_bits(), 0, "and is cleared by who meets it");
    commits(1);
    opens(2, (struct kd_begin){.mode = KD_SNAPSHOT});
    is(locks(2, names[0], KD_ITEM_S), 0, "what a snapshot does by itself is its own affair,");
    is(kd_call3(KD_ITEM_LOCK, (long)base, (long)names[0], KD_ITEM_S), -ENOENT, "main has none");
    aborts(2);
}

/* Two want one item at the same moment, one by the call: never do both have it. `stale`: there is a
 * bit left of the other one's last transaction. */
static bool both_at_once(bool stale)
{
    bool both = false;
    for (int i = 0; i < 30 && !both; i++) {
        uint64_t bit, *at = bit_of(0, names[0], KD_ITEM_X, &bit);
        if (stale)
            *at |= bit;
        opens(1, plain);
        begins_to_lock(1, names[0], KD_ITEM_X | CALLS);
        opens(0, plain);
        both = locks(0, names[0], KD_ITEM_X | BARGES) == 0 && settles(1) == 0;
        if (now_is(0) == WAITS)
            over(1, 2);
        ended(0);
        over(0, 1);
        ended(1);
        over(1, 2);
    }
    return both;
}

/* An item is left just when somebody comes to wait for it: does that one ever wait to the end? */
static bool left_in_between(void)
{
    bool good = true;
    for (int i = 0; i < 40 && good; i++) {
        opens(0, plain), opens(1, (struct kd_begin){.timeout_ms = 1000});
        locks(0, names[0], KD_ITEM_X);
        begins_to_lock(1, names[0], KD_ITEM_X | CALLS);
        for (volatile int k = 0; k < i * 500; k++)
            ;
        leaves(0, names[0]);
        good = ended(1) == 0;
        over(0, 2);
    }
    return good;
}

void races(void)
{
    is(both_at_once(false), 0, "one without a call and one by the call: one of them has the item");
    is(both_at_once(true), 0, "also where a bit was left behind");
    is(left_in_between(), 1, "an item is left while somebody comes: that one has it");

    uint64_t bit, *at = bit_of(2, names[0], KD_ITEM_X, &bit);
    opens(0, plain), opens(1, plain), opens(2, plain);
    locks(0, names[0], KD_ITEM_X);
    *at |= bit;
    is(locks(1, names[0], KD_ITEM_X), WAITS, "somebody waits, also for one that tries just now");
    is(locks(2, names[0], KD_ITEM_X | CALLS), WAITS, "that one takes its bit back, and waits");
    is(still(1) + still(2), 2 * WAITS, "behind the first: this is no deadlock");
    commits(0);
    is(ended(1), 0, "they have it in turn");
    commits(1);
    is(ended(2), 0, "each");
    commits(2);
    is(stale_bits(), 0, "no bit is left");
}

/* Page 0 of an object in page mode beside the other. */
static uint64_t other_base;
static int other;

bool other_pages(struct kd_message *m)
{
    if (m->kind != (uint32_t)KD_MSG_PAGE || (int)m->word[5] != other)
        return false;
    struct kd_supply s = {.object = other, .source = KD_SUPPLY_ZERO, .rights = KD_READ | KD_WRITE,
                          .page = m->word[1], .count = 1};
    kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
    return true;
}

static void make_other(void)
{
    struct kd_object_create c = {.port = port, .commit_port = commit_port, .cookie = 8, .pages = 4,
                                 .flags = KD_OBJECT_TRANSACTIONAL, .name = "pages",
                                 .base = KD_STORE_BASE + (1ull << 30)};
    other = (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    other_base = c.base;
    kd_call3(KD_SPACE_ATTACH, getpid(), other, KD_RIGHT_READ | KD_RIGHT_WRITE);
}

/* Of two that wait for each other one is undone, and the other one goes on: which was it? */
static int loser(int a, int b)
{
    for (;;) {
        long x = now_is(a), y = now_is(b);
        if (x == -EDEADLK)
            return ended(b) == 0 ? a : -1;
        if (y == -EDEADLK)
            return ended(a) == 0 ? b : -1;
        if (x != WAITS && y != WAITS)
            return -1;
        sched_yield();
    }
}

static const struct kd_begin light = {.mode = KD_SERIALISABLE, .weight = 1, .timeout_ms = 4000},
                             heavy = {.mode = KD_SERIALISABLE, .weight = 9, .timeout_ms = 4000};

void deadlocks(void)
{
    make_other();
    opens(0, heavy), opens(1, light);
    locks(0, names[0], KD_ITEM_X), locks(1, names[1], KD_ITEM_X);
    is(locks(0, names[1], KD_ITEM_X), WAITS, "two items crosswise: one waits");
    locks(1, names[0], KD_ITEM_X);
    is(loser(0, 1), 1, "the lighter one is undone");
    over(0, 2);

    opens(0, light), opens(1, heavy);
    locks(0, names[0], KD_ITEM_S), locks(1, names[0], KD_ITEM_S);
    is(locks(0, names[0], KD_ITEM_X), WAITS, "two who read want to write");
    locks(1, names[0], KD_ITEM_X);
    is(loser(0, 1), 0, "one of them goes");
    over(0, 2);

    opens(0, heavy), opens(1, heavy), opens(2, light);
    for (int n = 0; n < 3; n++)
        locks(n, n == 0 ? names[0] : names[1] + (n == 2), KD_ITEM_X);
    locks(0, names[1], KD_ITEM_X), locks(1, names[1] + 1, KD_ITEM_X);
    locks(2, names[0], KD_ITEM_X);
    is(loser(2, 1), 2, "a circle of three");
    over(0, 3);

    opens(0, heavy), opens(1, light);
    locks(0, names[0], KD_ITEM_X);
    is(stores(1, other_base), 0, "a page of a container in page mode is written");
    is(stores(0, other_base), WAITS, "who has an item waits for it");
    locks(1, names[0], KD_ITEM_X);
    is(loser(0, 1), 1, "an item and a page crosswise");
    over(0, 2);

    opens(2, heavy), opens(3, light); /* these have touched no page of it before */
    is(locks(2, names[0], KD_ITEM_X), 0, "an item is locked, no page is touched");
    is(locks_all(3, base, 0), 0, "another one locks the container");
    is(loads(2, base), WAITS, "who has the item waits for the container");
    locks(3, names[0], KD_ITEM_X);
    is(loser(2, 3), 3, "an item and its container crosswise");
    over(2, 4);
    is(stale_bits() + check(), 0, "no bit is left, and kcheck is clean");
}

/* ---- who may not write ---- */

static long reads_as(uint64_t name, unsigned how)
{
    return kd_call3(KD_ITEM_LOCK, (long)base, (long)name, how);
}

/* A child that has the object open to read only: its results, added up in bits. */
int reader(void)
{
    static struct context c;
    struct kd_item_table t = {.entries = (void *)8};
    int bad = 0;
    bad |= (kd_call3(KD_ITEM_MAP, (long)base, (long)&t, 0) != 0 || t.entries != NULL) << 0;
    bad |= (reads_as(names[0], KD_ITEM_S) != -ENOENT) << 1;
    txn_open(&c, plain);
    for (unsigned mode = 0; mode < KD_ITEM_MODES; mode++)
        if (mode != KD_ITEM_S && mode != KD_ITEM_IS)
            bad |= (reads_as(names[0], mode) != -EACCES) << 2;
    bad |= (reads_as(names[0], KD_ITEM_S) || reads_as(names[0], KD_ITEM_S)) << 3;
    bad |= (kd_call3(KD_TXN_ABORT, 1, 0, 0) != 0) << 4;
    txn_open(&c, plain);
    int n = 0;
    while (reads_as((uint64_t)n * 8, KD_ITEM_IS) == 0 && n < 2 * KD_ITEM_NOTES)
        n++;
    bad |= (n < KD_ITEM_NOTES || reads_as((uint64_t)n * 8, KD_ITEM_IS) != -ENOLCK) << 5;
    kd_call3(KD_TXN_ABORT, 1, 0, 0);
    txn_open(&c, plain);
    bad |= (reads_as(names[0], KD_ITEM_S) != 0) << 6;
    if (bad)
        return bad;
    child_begun();
    for (;;)
        pause_ms(100);
}

void readers(void)
{
    char name[24];
    snprintf(name, sizeof name, "%llu", (unsigned long long)names[0]);
    int pid = child_start(self, "reader", name);
    kd_call3(KD_SPACE_ATTACH, pid, object, KD_RIGHT_READ);
    is(child_has_begun(pid), 1, "who may not write has no table, and reads items by the call");
    is(all_bits(), 1, "bits of its earlier transactions are gone");
    opens(0, plain);
    is(locks(0, names[0], KD_ITEM_X), WAITS, "a writer waits for it");
    kd_call3(KD_PROCESS_KILL, pid, 0, 0);
    child_wait(pid);
    is(ended(0), 0, "to its end");
    commits(0);
    is(stale_bits(), 0, "none of its bits is left");
}
