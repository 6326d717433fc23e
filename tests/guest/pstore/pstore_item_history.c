/*
 * pstore_item_history.c - histories of random transactions in a container in item mode.
 *
 * Aim     locks of items isolate: whatever six workers in four processes do to items of two pages,
 *         some serial order shows the same, in real time and in the order of commits; snapshots see
 *         a prefix of it; attempts that are undone see nothing impossible either
 *         (tests/history/check.h). No phantoms come up in ranges of keys.
 * Method  items are words, halves of words, counters and places of an ordered set, side by side.
 *         They are read, written (after S, U or nothing), added to, given back, locked by their
 *         page with intentions at it, by key with the next one's gap, or by the container. Three
 *         workers are threads of this process, two are children, the last one may only read. In
 *         each fourth history one of the children is killed; of its last transaction both ends are
 *             tried. pstore_item_history SEED FIRST COUNT    chooses the same programs again
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pstore_private.h"
#include "pstore_test.h"
#include "random.h"
#include "../../history/check.h"

enum {
    THREADS = 3, WRITERS = 5, WORKERS = 6,  /* threads of this process, children, the reader */
    TXNS = 3, ATTEMPTS = 16, ACCESSES = 240, OPS = 5, MANY = 24, /* MANY: accesses of one step */
    PAGES = 2, REGISTERS = 8, HALVES = 8, COUNTERS = 2, SLOTS = 16, KEY = 5000, BITS = 10,
    HALF = REGISTERS, COUNTER = HALF + HALVES, SLOT = COUNTER + COUNTERS, ITEMS = SLOT + SLOTS,
    HISTORIES = 60, HISTORIES_LONG = 2000, KIND_NEXT = 1,
};

/* Items of one sort alternate between the pages. `whole` is what IS, IX, S and X of a page lock. */
struct page {
    uint64_t whole, reg[REGISTERS / PAGES];
    uint32_t half[HALVES / PAGES];
    int64_t counter[COUNTERS / PAGES];
    uint64_t slot[SLOTS / PAGES];           /* present if odd */
    char gap[3000];
};
struct root { struct page *page[PAGES]; };
static ps_container *c;
static struct page *page[PAGES];

struct record {
    struct history_txn txns[ATTEMPTS];
    struct history_access accesses[ACCESSES];
    uint32_t txn_count, access_count;
    int pid, reason;                             /* what ended one that should not have */
};
/* Memory that all processes share. */
static struct shared {
    uint64_t stamps, kill_at;
    int victim;                             /* who is killed then; -1: nobody */
    struct record record[WORKERS];
} *shared;

static int control;                         /* the port of the parent, where workers meet */
static uint64_t seed;
static struct { uint64_t txns, committed, undone, killed, doubtful, adds, loose, scans; } sum;

/* ---- a worker: what it notes ---- */

static _Thread_local struct {
    struct record *record;
    struct history_txn *txn;
    ps_tx *tx;                              /* the library's, which knows numbers of commits */
    uint64_t rng, seed, value;
    unsigned number, bits[COUNTERS], killed; /* killed: whom it has killed, + 1 */
    int kind;
} me;
enum { UPDATES, READS, UNDONE, SNAPSHOT };

static uint64_t draw(uint64_t below) { return next(&me.rng) % below; }

/* Another one is killed at a moment that the parent has chosen, and hears of. */
static uint64_t stamp(void)
{
    uint64_t now = __atomic_add_fetch(&shared->stamps, 1, __ATOMIC_SEQ_CST);
    int victim = shared->victim;
    if (victim >= 0 && now >= shared->kill_at && (unsigned)victim != me.number &&
        __atomic_compare_exchange_n(&shared->victim, &victim, -1, 0, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST)) {
        me.killed = (unsigned)victim + 1;
        kill(shared->record[victim].pid, SIGKILL);
    }
    return now;
}

/* What one of them does may be undone, or its process end, at each instruction: so the access is
 * there before the number of them says so, and a store is noted before it is made. */
static void note(unsigned item, enum history_what what, uint64_t value)
{
    struct record *r = me.record;
    r->accesses[r->access_count] = (struct history_access){item, what, value};
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    r->access_count++;
    me.txn->count++;
    stamp();
}

static void attempt_begins(void)
{
    struct record *r = me.record;
    struct history_txn *t = &r->txns[r->txn_count];
    *t = (struct history_txn){.level = HISTORY_SERIALISABLE, .worker = me.number,
                              .first = r->access_count, .began = stamp()};
    me.txn = t;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    r->txn_count++;
}

/* ---- items ---- */

static volatile void *place(unsigned item)
{
    struct page *p = page[item % PAGES];
    return item < HALF      ? (volatile void *)&p->reg[item / PAGES]
           : item < COUNTER ? (volatile void *)&p->half[(item - HALF) / PAGES]
           : item < SLOT    ? (volatile void *)&p->counter[(item - COUNTER) / PAGES]
                            : (volatile void *)&p->slot[(item - SLOT) / PAGES];
}
static unsigned bytes_of(unsigned item) { return item >= HALF && item < COUNTER ? 4 : 8; }

static uint64_t value_of(unsigned item)
{
    volatile void *at = place(item);
    return bytes_of(item) == 4 ? *(volatile uint32_t *)at : *(volatile uint64_t *)at;
}
static void look_at(unsigned item) { note(item, HISTORY_READ, value_of(item)); }

static void store(unsigned item, uint64_t low)
{
    me.value += 2;
    uint64_t value = me.value | low;
    note(item, HISTORY_WRITE, value);
    if (bytes_of(item) == 4) *(volatile uint32_t *)place(item) = (uint32_t)value;
    else *(volatile uint64_t *)place(item) = value;
}

static int lock(unsigned item, int mode)
{
    return ps_access((const void *)place(item), bytes_of(item), mode) ? 0 : -errno;
}
static int whole(unsigned p, int mode)
{
    return ps_access(&page[p]->whole, sizeof page[p]->whole, mode) ? 0 : -errno;
}
/* Its page with an intention, then the item. */
static int part(unsigned item, int mode)
{
    int e = whole(item % PAGES, mode == PS_S || mode == PS_U ? PS_IS : PS_IX);
    return e ? e : lock(item, mode);
}

/* ---- what a transaction does ---- */

/* Who may not write may not keep others from writing later. */
static int reading(void) { return draw(3) || me.number == WRITERS ? PS_S : PS_U; }

static int one_read(void)
{
    unsigned item = (unsigned)draw(SLOT);
    int e = part(item, reading());
    if (!e) look_at(item);
    return e;
}

static int one_write(void)
{
    static const int before[] = {-1, PS_S, PS_U, PS_U};
    unsigned item = (unsigned)draw(COUNTER);
    int first = before[draw(4)], e = first < 0 ? 0 : part(item, first);
    if (e) return e;
    if (first >= 0) look_at(item);
    if (draw(3) == 0) sched_yield();
    if ((e = part(item, PS_X))) return e;
    if (draw(2)) look_at(item);
    store(item, 0);
    return 0;
}

/* Sometimes it reads what it added to, or adds to what it read. */
static int one_add(void)
{
    unsigned n = (unsigned)draw(COUNTERS), item = COUNTER + n;
    int read = (int)draw(4), e = read == 0 ? part(item, PS_S) : 0;
    if (e || me.bits[n] == BITS) return e;
    if (read == 0) look_at(item);
    if ((e = whole(item % PAGES, PS_IX))) return e;
    uint64_t bit = 1ull << (me.number * BITS + me.bits[n]++);
    /* its lock first: what is noted is not undone by the wait for it alone */
    if ((e = lock(item, PS_ADD))) return e;
    note(item, HISTORY_ADD, bit);
    if ((e = ps_add((int64_t *)place(item), (int64_t)bit)) || read != 1) return e;
    sched_yield();
    if ((e = part(item, PS_S))) return e;
    look_at(item);
    return 0;
}

/* Given back at once, unless it was asked for twice, or for more. */
static int one_loose(void)
{
    unsigned item = (unsigned)draw(SLOT);
    int mode = reading(), e = part(item, mode), kept = (int)draw(me.number < WRITERS ? 3 : 2);
    if (e || (kept == 1 && (e = lock(item, mode))) ||
        (kept == 2 && (e = lock(item, mode == PS_S ? PS_U : PS_S))))
        return e;
    uint64_t value = value_of(item);
    e = ps_release((const void *)place(item));
    if (e && e != -EINVAL) return e;        /* -EINVAL: it has X there, too */
    note(item, kept ? HISTORY_READ : HISTORY_LOOSE, value);
    return 0;
}

/* All of a page, its parts without locks of their own. */
static int one_whole(int writes)
{
    unsigned p = (unsigned)draw(PAGES);
    int e = whole(p, writes ? PS_X : PS_S);
    for (unsigned item = p; item < SLOT && !e; item += PAGES) look_at(item);
    if (e || !writes) return e;
    unsigned item = (unsigned)draw(COUNTER / PAGES) * PAGES + p;
    e = ps_touch((const void *)place(item), bytes_of(item));
    if (!e) store(item, 0);
    return e;
}

static int present(unsigned slot) { return value_of(SLOT + slot) & 1; }
static unsigned next_present(unsigned slot)
{
    while (slot < SLOTS && !present(slot)) slot++;
    return slot;
}
static int gap_lock(unsigned slot, unsigned *n, int mode)
{
    int e;
    do {
        *n = next_present(slot);
        e = ps_key(c, KEY + *n, mode);
    } while (!e && next_present(slot) != *n);
    return e;
}

/* A range of the set: S at each key in it, and at the first one behind. */
static int one_scan(void)
{
    unsigned at = (unsigned)draw(SLOTS), to = at + 1 + (unsigned)draw(6), n;
    if (to > SLOTS) to = SLOTS;
    while (at < to) {
        int e = gap_lock(at, &n, PS_S);
        if (e) return e;
        for (; at < to && at <= n; at++) look_at(SLOT + at);
        if (draw(4) == 0) sched_yield();
    }
    return 0;
}

/* X at the key; where it is not there, at the next one before. Then it is there, or not. */
static int one_put(void)
{
    unsigned slot = (unsigned)draw(SLOTS), n;
    int e = present(slot) ? ps_key(c, KEY + slot, PS_X) : 0, insert = !present(slot);
    if (!e && insert) e = gap_lock(slot + 1, &n, PS_X);
    if (!e && insert) e = ps_key(c, KEY + slot, PS_X);
    if (e || (insert && present(slot))) return e;
    look_at(SLOT + slot);
    if ((e = ps_touch((const void *)place(SLOT + slot), 8))) return e;
    store(SLOT + slot, insert || draw(3) == 0);
    return 0;
}

static int step(int writes)
{
    switch (draw(writes ? 15 : 6)) {
    case 0: return one_whole(0);
    case 1: return one_loose();
    case 2: case 3: return one_scan();
    case 4: case 5: return one_read();
    case 6: return one_whole(1);
    case 7: case 8: case 9: return one_write();
    case 10: case 11: return one_add();
    default: return one_put();
    }
}

static int body(void *unused)
{
    (void)unused;
    if (me.record->txn_count == ATTEMPTS || me.record->access_count + OPS * MANY > ACCESSES)
        return -ENOBUFS;
    me.rng = me.seed;
    me.tx = ps_suspend();
    int e = ps_resume(me.tx);
    if (e) return e;
    if (me.kind == SNAPSHOT) {              /* began before: of its own time */
        me.txn->snapshot = me.tx->begin.csn;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        me.txn->level = HISTORY_SNAPSHOT;   /* one that is killed earlier has no number */
        for (uint64_t n = 1 + draw(8); n > 0; n--) look_at((unsigned)draw(ITEMS));
        return 0;
    }
    attempt_begins();
    int writes = me.kind != READS;
    unsigned lock_at = draw(8) ? OPS : (unsigned)draw(3), how = !writes || draw(3) == 0;
    for (unsigned i = 0, n = 1 + (unsigned)draw(OPS); i < n && !e; i++) {
        if (i == lock_at) e = ps_lock(c, how ? PS_LOCK_SHARED : 0);
        if (!e) e = step(writes);
        if (draw(6) == 0) sched_yield();
    }
    return e ? e : me.kind == UNDONE ? -ECANCELED : 0;
}

static int is_usual(int e) { return !e || e == -ECANCELED || e == -ENOBUFS || e == -ESTALE; }

static void transaction(int may_write)
{
    uint64_t dice = mixed(me.seed, 7) / 8 % 12;
    me.kind = dice < 2 ? SNAPSHOT : dice < 3 || !may_write ? READS : dice < 4 ? UNDONE : UPDATES;
    /* few wait for the disk */
    struct ps_options how = {.isolation = me.kind == SNAPSHOT ? PS_SNAPSHOT : PS_SERIALISABLE,
                             .lazy = me.kind == UPDATES && me.seed / 8 % 16 != 0};
    uint32_t before = me.record->txn_count;
    if (me.kind == SNAPSHOT) attempt_begins();
    int e = ps_transaction_opt(body, NULL, &how);
    uint64_t now = stamp();
    struct history_txn *t = me.record->txns, *last = t + me.record->txn_count - 1;
    if (last >= t + before && !e) {
        last->csn = me.kind == SNAPSHOT ? 0 : me.tx->committed_at;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        last->committed = 1;
    }
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* one that has ended is in no doubt: that is last */
    for (uint32_t i = before; i < me.record->txn_count; i++) t[i].ended = now;
    if (!is_usual(e)) me.record->reason = e;
}

static void worker_history(uint64_t history)
{
    struct record *r = me.record;
    memset(me.bits, 0, sizeof me.bits);
    me.value = (history << 3 | me.number) << 10; /* it fits half a word */
    for (unsigned i = 0; i < TXNS && r->txn_count < ATTEMPTS &&
                         r->access_count + OPS * MANY <= ACCESSES; i++) {
        me.seed = mixed(mixed(seed ^ history << 8, me.number), i);
        transaction(me.number < WRITERS);
    }
}

static void *worker(void *number)
{
    me.record = &shared->record[me.number = (unsigned)(uintptr_t)number];
    for (;;) {
        struct kd_message m = {.kind = KIND_NEXT, .handle = -1, .word = {me.number, me.killed}};
        if (kd_call3(KD_PORT_CALL, control, (long)&m, 0) || !m.word[0]) return NULL;
        me.killed = 0;
        worker_history(m.word[0]);
    }
}

/* ---- the parent ---- */

static int port, memory;                    /* of what is shared */
static uint64_t tokens[WORKERS];

static long attach(pid_t to)
{
    return kd_call3(KD_SPACE_ATTACH, to, memory, KD_RIGHT_READ | KD_RIGHT_WRITE);
}

static void child_begin(unsigned number)
{
    struct kd_space_info info;
    pid_t pid = fork();
    if (pid) {
        attach(pid);
        shared->record[number].pid = pid;
        return;
    }
    while (kd_call3(KD_CONTAINER_INFO, (long)shared, (long)&info, 0)) sched_yield();
    control = (int)kd_call3(KD_NAME_FIND, (long)"item-history", 0, 0);
    if (number == WRITERS) {
        ps_close(c);
        c = ps_open("item-history", 0, NULL);
        if (!c) _exit(1);
    }
    worker((void *)(uintptr_t)number);
    _exit(0);
}

/* Waits until all have been through the history. In the place of who was killed another one comes.
 * Returns who that was; -1: nobody. */
static int meet(void)
{
    enum { ALL = (1 << WORKERS) - 1 };
    int killed = -1, status, again = -1;
    for (unsigned come = 0; come != ALL;) {
        struct kd_message m = {.handle = -1};
        long e = kd_call3(KD_PORT_RECEIVE, control, (long)&m, 60000);
        unsigned number = (unsigned)m.word[0];
        if (e) {
            printf("# of the workers there are %x: %ld\n", come, e);
            exit(1);
        }
        come |= 1u << number;
        tokens[number] = m.token;
        if (m.word[1]) {
            killed = again = (int)m.word[1] - 1;
            kill(shared->record[killed].pid, SIGKILL); /* its killer may have been undone there */
            waitpid(shared->record[killed].pid, &status, 0);
            come |= 1u << killed;
            sum.killed++;
        }
        if (come == ALL && again >= 0) {    /* now, as no thread of this one is at work */
            child_begin((unsigned)again);
            come &= ~(1u << again);
            again = -1;
        }
    }
    return killed;
}

static void go(uint64_t history)
{
    uint64_t rng = mixed(seed, history);
    int victim = THREADS + (int)(next(&rng) % (WRITERS - THREADS));
    for (int i = 0; i < WORKERS; i++)
        shared->record[i].txn_count = shared->record[i].access_count = 0;
    shared->kill_at = shared->stamps + 2 + next(&rng) % 150;
    __atomic_store_n(&shared->victim, history % 4 ? -1 : victim, __ATOMIC_SEQ_CST);
    for (int i = 0; i < WORKERS; i++) {
        struct kd_message reply = {.handle = -1, .word = {history}};
        kd_call3(KD_PORT_REPLY, (long)tokens[i], (long)&reply, 0);
    }
}

/* Behind the lock nobody's commit is on its way any more. */
static int look(void *values)
{
    int e = ps_lock(c, 0);
    for (unsigned i = 0; i < ITEMS && !e; i++) ((uint64_t *)values)[i] = value_of(i);
    return e;
}

static struct history_txn txns[WORKERS * ATTEMPTS];
static struct history_access accesses[WORKERS * ACCESSES];

static struct history history_join(const uint64_t *before, const uint64_t *after)
{
    struct history h = {txns, accesses, before, after, 0, 0, ITEMS};
    for (int i = 0; i < WORKERS; i++) {
        const struct record *r = &shared->record[i];
        memcpy(&accesses[h.access_count], r->accesses, r->access_count * sizeof accesses[0]);
        for (uint32_t t = 0; t < r->txn_count; t++) {
            txns[h.txn_count] = r->txns[t];
            txns[h.txn_count].first += h.access_count;
            sum.committed += r->txns[t].committed;
            h.txn_count++;
        }
        h.access_count += r->access_count;
    }
    sum.txns += h.txn_count;
    for (uint32_t i = 0; i < h.access_count; i++) {
        sum.adds += accesses[i].what == HISTORY_ADD;
        sum.loose += accesses[i].what == HISTORY_LOOSE;
        sum.scans += accesses[i].item >= SLOT;
    }
    return h;
}

/* The last one of who was killed may have committed, anywhere among the others, and not said so. */
static struct history_txn *doubtful(const struct history *h)
{
    struct history_txn *of = NULL;
    for (uint32_t t = 0; t < h->txn_count; t++)
        if (!txns[t].ended) {
            of = &txns[t];
            of->ended = shared->stamps + 1; /* if it was in one at all */
        }
    for (uint32_t i = 0; of && !of->committed && i < of->count; i++) {
        uint32_t what = accesses[of->first + i].what;
        if (what == HISTORY_WRITE || what == HISTORY_ADD) return of;
    }
    return NULL;
}

static int committed_somewhere(const struct history *h, struct history_txn *of)
{
    static struct history_verdict verdict;
    of->committed = 1;
    sum.doubtful++;
    for (uint32_t t = 0; t < h->txn_count; t++) { /* behind each; numbers are not dense */
        if (&txns[t] != of && !txns[t].csn) continue;
        of->csn = &txns[t] == of ? 1 : txns[t].csn + 1;
        history_check(h, &verdict);
        if (verdict.kind == HISTORY_GOOD) return 1;
    }
    return 0;
}

static int history_run(uint64_t number)
{
    static uint64_t before[ITEMS], after[ITEMS];
    static struct history_verdict verdict;
    int e = ps_transaction(look, before), wrong = 0;
    go(number);
    int killed = meet();
    shared->victim = -1;
    if (!e) e = ps_transaction(look, after);
    struct history h = history_join(before, after);
    struct history_txn *of = doubtful(&h);
    history_check(&h, &verdict);
    for (int i = 0; i < WORKERS; i++) wrong = wrong ? wrong : shared->record[i].reason;
    int good = !e && !wrong &&
               (verdict.kind == HISTORY_GOOD || (of && committed_somewhere(&h, of)));
    if (!good)
        printf("# history %lu of seed %lu: look %d, a worker %d, killed %d\n%s", number, seed, e,
               wrong, killed, verdict.kind == HISTORY_GOOD ? "" : verdict.text);
    return good;
}

/* ---- the beginning ---- */

static void *pager(void *unused)
{
    for (;;) {
        struct kd_message m = {.handle = -1};
        if (kd_call3(KD_PORT_RECEIVE, port, (long)&m, -1)) return unused;
        struct kd_supply s = {.object = memory, .count = 1, .source = KD_SUPPLY_ZERO,
                              .page = m.word[1], .rights = KD_READ | KD_WRITE};
        if (m.kind == (uint32_t)KD_MSG_PAGE) kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
    }
}

static int shared_make(void)
{
    pthread_t thread;
    struct kd_object_create o = {.commit_port = -1, .name = "records",
                                 .pages = sizeof *shared / KD_PAGE_BYTES + 1};
    o.port = port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    o.commit_port = port;
    control = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    memory = (int)kd_call3(KD_OBJECT_CREATE, (long)&o, 0, 0);
    shared = (struct shared *)o.base;
    return memory < 0 || kd_call3(KD_NAME_SET, (long)"item-history", control, 0) ||
                   pthread_create(&thread, NULL, pager, NULL)
               ? -ENOMEM
               : (int)attach(getpid());
}

static int build(void *unused)
{
    (void)unused;
    struct root *root = ps_root(c);
    if (!ps_write(root)) return -errno;
    for (int i = 0; i < PAGES; i++) page[i] = root->page[i] = ps_new(c, struct page, NULL);
    return page[PAGES - 1] ? 0 : -errno;
}

static int begin(void)
{
    c = ps_open("item-history", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    int e = c ? ps_locking(c, PS_LOCK_ITEMS) : -errno;
    e = e ? e : ps_transaction(build, NULL);
    return e ? e : shared_make();
}

int main(int argc, char **argv)
{
    struct timespec now;
    pthread_t thread[THREADS];
    clock_gettime(CLOCK_MONOTONIC, &now);
    seed = argc > 1 ? strtoull(argv[1], NULL, 0)
                    : mixed((uint64_t)now.tv_nsec, (uint64_t)now.tv_sec) >> 32;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 0) : 1, good = 0;
    uint64_t count = argc > 3 ? strtoull(argv[3], NULL, 0)
                     : tap_long() ? HISTORIES_LONG : HISTORIES;
    struct kd_system_info a = system_info();
    tap_plan(4);
    if (!tap_ok(begin() == 0, "a container in item mode; seed %lu", seed)) return tap_end();
    for (unsigned i = THREADS; i < WORKERS; i++) child_begin(i);
    for (uintptr_t i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, worker, (void *)i);
    meet();
    while (good < count && history_run(first + good)) good++;
    go(0);
    struct kd_system_info b = system_info();
    tap_ok(good == count, "%lu of %lu histories are serialisable over items", good, count);
    printf("# %lu attempts, %lu committed, %lu deadlocks; %lu additions, %lu reads given back, "
           "%lu accesses of keys; %lu killed, of whom %lu had committed\n", sum.txns, sum.committed,
           b.deadlocks - a.deadlocks, sum.adds, sum.loose, sum.scans, sum.killed, sum.doubtful);
    tap_ok(good < 20 || (sum.committed > good * 6 && b.deadlocks > a.deadlocks && sum.adds > good &&
                         sum.loose > good / 2 && sum.scans > good && sum.killed),
           "which had all of that");
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck is clean");
    return tap_end();
}
