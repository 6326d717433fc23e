/*
 * main.c - kernel_history: histories of random transactions, each checked for serialisability.
 *
 * Aim     isolation: whatever eight threads in three processes do to a few pages on two CPUs, some
 *         serial order shows the same, in real time and in the order of commits; snapshots see a
 *         prefix of it; attempts that are undone see nothing impossible either
 *         (tests/history/check.h). Each fourth access is by a window.
 * Method  workers run random programs and send what they read and wrote to this process, which
 *         meets them between histories and checks. Five parts: with a manager in this process that
 *         commits in groups and recalls rights at random; the same in too little memory; with the
 *         store; the same, with a program that decides about each first touch (decided.c); with
 *         two copies of the pages, one for each of two groups of workers (copies.c).
 *             kernel_history SEED FIRST COUNT [PART]    chooses the same programs again
 */
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "history.h"

static uint64_t window;  /* of a child: its second address of the pages */

/* ---- a worker: one thread of a child ---- */

static _Thread_local struct {
    jmp_buf env;
    int view;
    uint64_t rng, ticket, value, word[KD_WORDS];
    struct record record;
    struct history_txn *txn;
    char stack[8192] __attribute__((aligned(16)));
} me;

static void on_abort(long reason) { longjmp(me.env, (int)reason); }
static uint64_t draw(uint64_t below) { return next(&me.rng) % below; }
static uint64_t stamp(void) { return __atomic_add_fetch(stamps, 1, __ATOMIC_SEQ_CST); }

static void access_one(uint64_t page, uint64_t word, int write)
{
    struct history_access *a = &me.record.accesses[me.record.access_count];
    volatile uint64_t *at = word_at(page * me.word[SAY_STRIDE], word);
    if (draw(4) == 0)
        at = (uint64_t *)((uint64_t)at - base + window);
    a->item = (uint32_t)(page * WORDS + word);
    a->what = write ? HISTORY_WRITE : HISTORY_READ;
    if (write) {                        /* noted first: it may be undone in the store itself */
        a->value = ++me.value;
        me.record.access_count++;
        me.txn->count++;
        *at = a->value;
    } else {
        a->value = *at;
        me.record.access_count++;
        me.txn->count++;
    }
}

static void access_some(int writes)
{
    uint64_t page = draw(me.word[SAY_PAGES]), word = draw(WORDS), whole = draw(4) == 0;
    int write = writes && draw(2), read = !write || draw(2);
    if (draw(8) == 0)
        sched_yield();
    if (write && draw(8) == 0)
        call(KD_TXN_HINT, (long)word_at(page * me.word[SAY_STRIDE], word), 8, KD_HINT_WRITE);
    for (uint64_t w = whole ? 0 : word; w < (whole ? WORDS : word + 1); w++) {
        if (read)
            access_one(page, w, 0);
        if (write)
            access_one(page, w, 1);
    }
}

struct plan { unsigned mode, level; int writes, undo; };
static struct plan plan_draw(void)
{
    uint64_t dice = draw(20);
    return dice < 10   ? (struct plan){ KD_SERIALISABLE, HISTORY_SERIALISABLE, 1, 0 }
           : dice < 12 ? (struct plan){ KD_SERIALISABLE, HISTORY_SERIALISABLE, 0, 0 }
           : dice < 16 ? (struct plan){ KD_SNAPSHOT, HISTORY_SNAPSHOT, 0, 0 }
           : dice < 17 ? (struct plan){ KD_DIRTY_READ, HISTORY_DIRTY_READ, 0, 0 }
           : dice < 18 ? (struct plan){ KD_CONTAINER_LOCK, HISTORY_SERIALISABLE, 1, 0 }
           : dice < 19
               ? (struct plan){ KD_CONTAINER_LOCK | KD_LOCKED_SHARED, HISTORY_SERIALISABLE, 0, 0 }
               : (struct plan){ KD_SERIALISABLE, HISTORY_SERIALISABLE, 1, 1 };
}

/* Of two copies none knows which snapshots the other one has. */
static struct plan plan_for(uint64_t part)
{
    struct plan p = plan_draw();
    if (part == TWICE && p.level != HISTORY_SERIALISABLE)
        p = (struct plan){KD_SERIALISABLE, HISTORY_SERIALISABLE, 0, 0};
    return p;
}

static void record_begin(const struct plan *p)
{
    struct record *r = &me.record;
    me.txn = &r->txns[r->txn_count++];
    *me.txn = (struct history_txn){.level = p->level, .worker = (uint32_t)me.word[SAY_WORKER],
                                   .first = r->access_count, .began = stamp()};
}

/* One attempt; 0: committed, EDEADLK: again, else it is over. */
static int attempt(uint64_t seed)
{
    int reason = setjmp(me.env);
    if (reason) {
        me.txn->ended = stamp();
        return reason;
    }
    me.rng = seed;
    struct plan p = plan_for(me.word[SAY_PART]);
    struct kd_begin b = { .mode = p.mode,
                          .ticket = me.ticket,
                          .entry = (uint64_t)on_abort,
                          .locked = base,
                          .stack = (uint64_t)(me.stack + sizeof me.stack - 8) };
    record_begin(&p);
    long e = call(KD_TXN_BEGIN, (long)&b, 0, 0);
    if (e) {
        me.txn->ended = stamp();
        return (int)-e;
    }
    me.ticket = b.ticket;
    me.txn->snapshot = b.csn;
    for (uint64_t n = 1 + draw(6); n > 0; n--) {
        access_some(p.writes);
        if (draw(24) == 0) {            /* leaves it and takes it up again */
            call(KD_VIEW_ENTER, -1, 0, 0);
            call(KD_VIEW_ENTER, me.view, 0, 0);
        }
    }
    if (p.undo) {
        call(KD_TXN_ABORT, ECANCELED, 0, 0);
        me.txn->ended = stamp();
        return ECANCELED;
    }
    struct kd_commit k = {.port = -1};
    e = call(KD_TXN_COMMIT, (long)&k, 0, 0);
    me.txn->csn = e ? 0 : k.csn;
    me.txn->committed = e == 0;
    me.txn->ended = stamp();
    return (int)-e;
}

/* 0, or what ended it that should not have: memory may be short for a while. */
static int worker_history(void)
{
    struct record *r = &me.record;
    int reason = 0;
    r->txn_count = r->access_count = 0;
    me.value =
        (me.word[SAY_PART] + 1) << 48 | me.word[SAY_HISTORY] << 20 | me.word[SAY_WORKER] << 14;
    uint64_t seed = mixed(me.word[SAY_SEED] ^ me.word[SAY_HISTORY] << 8, me.word[SAY_WORKER]);
    for (volatile int i = 0; i < TXNS; i++) {
        me.ticket = 0;
        do {
            if (r->txn_count == ATTEMPTS || r->access_count + 8 * 2 * WORDS > ACCESSES)
                return 0;
            reason = attempt(mixed(seed, (uint64_t)i));
            if (reason == ENOMEM || reason == ENOSPC)
                sched_yield();
        } while (reason == EDEADLK || reason == ENOMEM || reason == ENOSPC);
        if (reason && reason != ECANCELED && reason != ESTALE)
            return reason;
    }
    return 0;
}

static void *worker(void *arg)
{
    int reason =
        (me.view = (int)call(KD_VIEW_CREATE, 0, 0, 0)) < 0 || call(KD_VIEW_ENTER, me.view, 0, 0);
    for (;;) {
        struct kd_message m = {.kind = KIND_NEXT, .handle = -1, .data = &me.record,
                               .data_bytes = sizeof me.record, .word = {(uint64_t)reason}};
        long e = call(KD_PORT_CALL, control, (long)&m, 0);
        if (e == -ENOMEM) {             /* the record finds no memory: on purpose there is little */
            sched_yield();
            continue;
        }
        if (e || m.word[SAY_HISTORY] == 0)
            return arg;
        memcpy(me.word, m.word, sizeof me.word);
        reason = worker_history();
    }
}

static int pages_find(void)
{
    struct kd_message m = {.kind = KIND_OPEN, .handle = -1};
    struct wire_opened o;
    control = (int)call(KD_NAME_FIND, (long)"history", 0, 0);
    if (control < 0 || call(KD_PORT_CALL, control, (long)&m, 0))
        return 1;
    base = m.word[0];
    hog_base = m.word[1];
    stamps = (uint64_t *)m.word[2];
    if (base)
        return 0;
    if (client_connect() || client_open("history", PS_WRITE, NULL, 0, 0, &o))
        return 2;
    base = o.base;
    return 0;
}

static int child_open(void)
{
    int e = pages_find();
    window = e ? 0 : (uint64_t)call(KD_MAP, (long)base, PAGES_MAX, KD_RIGHT_READ | KD_RIGHT_WRITE);
    return e ? e : (int64_t)window < 0 ? 3 : 0;
}

static int child_main(int threads)
{
    pthread_t t[WORKERS];
    if (child_open())
        return 1;
    for (int i = 0; i < threads; i++)
        pthread_create(&t[i], NULL, worker, NULL);
    for (int i = 0; i < threads; i++)
        pthread_join(t[i], NULL);
    return 0;
}

/* Reads more pages than memory has, again and again; ends by being killed. */
static int hog_main(void)
{
    struct kd_begin b = {.mode = KD_DIRTY_READ, .entry = (uint64_t)on_abort,
                         .stack = (uint64_t)(me.stack + sizeof me.stack - 8)};
    if (child_open() || call(KD_VIEW_ENTER, call(KD_VIEW_CREATE, 0, 0, 0), 0, 0))
        return 1;
    for (volatile uint64_t page = 0;; page = (page + HOG_GROUP) % HOG_PAGES) {
        if (setjmp(me.env) == 0 && call(KD_TXN_BEGIN, (long)&b, 0, 0) == 0) {
            for (volatile int i = 0; i < HOG_GROUP; i++)
                if (*(volatile uint64_t *)(hog_base + (page + (unsigned)i) * KD_PAGE_BYTES))
                    return 1;
            call(KD_TXN_ABORT, 0, 0, 0);
        }
    }
}

static struct wire_opened opened;       /* the container of the store */
static long store_start(void)
{
    struct wire_opened o;
    if (opened.base) {
        base = opened.base;
        return 0;
    }
    long e = client_connect();
    if (e == 0 && (e = client_open("history", PS_CREATE | PS_WRITE, NULL, 0, 0, &o)) == 0)
        e = client_lease(o.container, PAGES_MAX, NULL) == (void *)o.base ? 0 : -ENOSPC;
    base = e ? 0 : o.base;
    if (!e)
        opened = o;
    return e;
}

/* ---- the parent: meets the workers between histories ---- */

static struct record records[WORKERS];
static struct history_txn txns[HISTORY_TXNS_MAX];
static struct history_access accesses[HISTORY_ACCESSES_MAX];
static uint64_t before[PAGES_MAX * WORDS], after[PAGES_MAX * WORDS];
static struct { uint64_t histories, txns, committed, accesses, part, pages, stride; } sum;

static int start(const char *role, const char *argument)
{
    const char *argv[] = {"kernel_history", role, argument, NULL};
    struct kd_process_create c = { .path = "/bin/kernel_history",
                                   .argv = argv,
                                   .fds = { -1, -1, -1 },
                                   .handle_count = 1,
                                   .handles = { KD_SYSTEM_HANDLE } };
    long handle = call(KD_PROCESS_CREATE, (long)&c, 0, 0);
    if (handle >= 0)
        call(KD_HANDLE_CLOSE, handle, 0, 0);
    return handle < 0 ? (int)handle : c.pid;
}

static bool in_store(int part) { return part == STORE || part == DECIDED; }

/* Every other child has the other copy. */
static void open_answer(const struct kd_message *m, int part)
{
    static unsigned opens;
    unsigned copy = opens++ % COPIES;
    const int objects[] = {part == TWICE ? copies[copy] : object, hog, stamp_object};
    uint64_t at = in_store(part) ? 0 : part == TWICE ? copies_base[copy] : base;
    struct kd_message reply = {.handle = -1, .word = {at, hog_base, (uint64_t)stamps}};
    for (int i = in_store(part) ? 2 : 0; i < 3 && !reply.status; i++)
        reply.status = (int)call(KD_SPACE_ATTACH, (long)m->process, objects[i],
                                 KD_RIGHT_READ | KD_RIGHT_WRITE);
    call(KD_PORT_REPLY, (long)m->token, (long)&reply, 0);
}

/* Who waits for whom, when nobody comes any more. */
static void views_say(void)
{
    static struct kd_view_info list[KD_VIEW_MAX];
    long n = call(KD_VIEW_LIST, (long)list, KD_VIEW_MAX, 0);
    for (long i = 0; i < n; i++)
        printf("# view %lu of %d/%d: state %lu, doom %lu, mode %u, %lu copies, waits for %lx %lx, "
               "page %lx, "
               "locks %lx\n",
               list[i].view, list[i].pid, list[i].tid, list[i].state, list[i].doom, list[i].mode,
               list[i].copies, list[i].waits[0], list[i].waits[1], list[i].page, list[i].locked);
    copies_say();
    decided_say();
}

/* Waits until all workers have called; 0, or what one of them reports. */
static int workers_meet(uint64_t *tokens, int part)
{
    int bad = 0;
    for (int n = 0; n < WORKERS;) {
        struct kd_message m = { .handle = -1,
                                .buffer = &records[n],
                                .buffer_bytes = sizeof records[n] };
        long e = call(KD_PORT_RECEIVE, control, (long)&m, 20000);
        if (e) {
            printf("# %d of %d workers came\n", n, WORKERS);
            for (int i = 0; i < n; i++)
                printf("#   worker %u with %u attempts\n", records[i].txns[0].worker,
                       records[i].txn_count);
            views_say();
            return (int)e;
        }
        if (m.kind == KIND_OPEN)
            open_answer(&m, part);
        if (m.kind != KIND_NEXT)
            continue;
        bad = bad ? bad : (int)m.word[0];
        tokens[n++] = m.token;
    }
    return bad;
}

static void workers_go(const uint64_t *tokens, uint64_t history)
{
    for (int i = 0; i < WORKERS; i++) {
        struct kd_message reply = {
            .handle = -1, .word = { history, seed, sum.pages, sum.stride, (uint64_t)i, sum.part }
        };
        long e = call(KD_PORT_REPLY, (long)tokens[i], (long)&reply, 0);
        if (e)
            printf("# worker %d is not answered: %ld\n", i, e);
    }
}

static long state_read_body(void *arg)
{
    for (uint64_t i = 0; i < sum.pages * WORDS; i++)
        ((uint64_t *)arg)[i] = *word_at(i / WORDS * sum.stride, i % WORDS);
    return 0;
}

static struct history history_join(void)
{
    struct history h = {txns, accesses, before, after, 0, 0, (uint32_t)(sum.pages * WORDS)};
    for (int i = 0; i < WORKERS; i++) {
        const struct record *r = &records[i];
        memcpy(&accesses[h.access_count], r->accesses, r->access_count * sizeof accesses[0]);
        for (uint32_t t = 0; t < r->txn_count; t++) {
            txns[h.txn_count] = r->txns[t];
            txns[h.txn_count++].first += h.access_count;
            sum.committed += r->txns[t].committed;
        }
        h.access_count += r->access_count;
    }
    sum.txns += h.txn_count;
    sum.accesses += h.access_count;
    return h;
}

/* Small working sets mostly, next to each other or a leaf apart. */
static void shape_choose(uint64_t history)
{
    static const uint64_t pages[] = { 8, 8, 8, 8, 16, 16, 32, 64 },
                          strides[] = { 1, 1, 7, 1, 7, 1, 7, 1 };
    sum.pages = history % 50 == 49 ? PAGES_MAX : pages[history % 8];
    sum.stride = history % 50 == 49 ? 1 : strides[history % 8];
}

static int history_run(uint64_t *tokens, uint64_t history, int part)
{
    static struct history_verdict verdict;
    shape_choose(history);
    long e = client_run(state_read_body, before);
    workers_go(tokens, history);
    int bad = workers_meet(tokens, part);
    e = e ? e : client_run(state_read_body, after);
    if (bad || e) {
        printf("# history %lu: a worker ended with %d, reading the state with %ld\n", history, bad,
               e);
        return 1;
    }
    struct history h = history_join();
    history_check(&h, &verdict);
    sum.histories++;
    if (verdict.kind != HISTORY_GOOD)
        printf("# history %lu of seed %lu:\n%s", history, seed, verdict.text);
    return verdict.kind != HISTORY_GOOD;
}

/* Runs histories [first, first + count) with new workers; how many were good. */
static uint64_t part_run(int part, uint64_t first, uint64_t count)
{
    static const char *const threads[PROCESSES] = {"3", "3", "2"};
    uint64_t tokens[WORKERS], good = 0;
    int pid[PROCESSES], status, bad = 0, hog_pid = part == SCARCE ? start("hog", "0") : 0;
    for (int i = 0; i < PROCESSES; i++)
        bad |= (pid[i] = start("workers", threads[i])) < 0;
    bad = bad ? bad : workers_meet(tokens, part);
    if (bad)
        printf("# the workers did not start: %d\n", bad);
    while (!bad && good < count && !(bad = history_run(tokens, first + good, part)))
        good++;
    if (bad)
        printf("# again: scripts/run %s--memory 48 --add build/tests/guest/kernel_history -c "
               "'kernel_history %lu %lu 1 %d'\n",
               in_store(part) ? "" : "--no-store ", seed, first + good, part);
    workers_go(tokens, 0);
    if (hog_pid > 0) {
        call(KD_PROCESS_KILL, hog_pid, 0, 0);
        call(KD_PROCESS_WAIT, hog_pid, (long)&status, 0);
    }
    for (int i = 0; i < PROCESSES; i++)
        if (pid[i] > 0)
            call(bad ? KD_PROCESS_KILL : KD_PROCESS_WAIT, pid[i], (long)&status, 0);
    return good;
}

static void part_test(int part, uint64_t first, uint64_t count)
{
    static const char *const names[] = { "with a manager of their own", "in too little memory",
                                         "in the store", "that a program decides",
                                         "on two copies" };
    struct kd_system_info a = {0}, b = {0};
    sum.histories = sum.txns = sum.committed = sum.accesses = 0;
    sum.part = (uint64_t)part;
    base = in_store(part) ? 0 : part == TWICE ? copies_base[0] : own_base;
    bool good_start = !in_store(part) || store_start() == 0;
    if (!good_start || (part == DECIDED && !decided_begin(opened.container))) {
        tap_ok(0, "the store opens");
        return;
    }
    call(KD_SYSTEM_INFO, (long)&a, 0, 0);
    uint64_t good = part_run(part, first, count);
    call(KD_SYSTEM_INFO, (long)&b, 0, 0);
    tap_ok(good == count && !call(KD_CHECK, 0, 0, 0),
           "%lu of %lu histories %s are serialisable; kcheck", good, count, names[part]);
    printf("# %lu attempts, %lu committed, %lu accesses; %lu deadlocks, %lu callbacks, %lu "
           "shootdowns, "
           "%lu evictions, %lu recalls, %lu groups, %lu ms\n",
           sum.txns, sum.committed, sum.accesses, b.deadlocks - a.deadlocks,
           b.callbacks - a.callbacks, b.shootdowns - a.shootdowns, b.evictions - a.evictions,
           recalls, groups, (b.uptime_ns - a.uptime_ns) / 1000000);
    if (part == DECIDED)
        tap_ok(decided_end() && decided_asked > 8 * (long)good && (count < 20 || decided_kept > 0),
               "%ld questions, of which %ld were kept", decided_asked, decided_kept);
    if (part == TWICE)
        tap_ok(copies_moved > 4 * (long)good && copies_wrong == 0,
               "rights went %ld times from copy to copy; %ld were where they were not given",
               copies_moved, copies_wrong);
    tap_ok(sum.committed > good * 8 &&
               (part != SCARCE || count < 50 || b.evictions > a.evictions + 1000) &&
               (count < 50 || b.deadlocks > a.deadlocks),
           "which had transactions, deadlocks and what is said above");
}

int main(int argc, char **argv)
{
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 0) : 1,
             count = argc > 3 ? strtoull(argv[3], NULL, 0) : 0;
    struct timespec now;
    if (argc > 2 && strcmp(argv[1], "workers") == 0)
        return child_main(atoi(argv[2]));
    if (argc > 2 && strcmp(argv[1], "hog") == 0)
        return hog_main();
    clock_gettime(CLOCK_MONOTONIC, &now);
    seed = argc > 1 ? strtoull(argv[1], NULL, 0)
                    : mixed((uint64_t)now.tv_nsec, (uint64_t)now.tv_sec) >> 32;
    tap_plan(argc > 4 ? 3 + (atoi(argv[4]) >= DECIDED) : 13);
    tap_ok(manager_start(), "a manager in this process; seed %lu", seed);
    static const uint64_t some[PARTS] = {60, 10, 10, 7, 8},
                          all[PARTS] = {1800, 60, 150, 100, 300};
    const uint64_t *counts = tap_long() ? all : some;
    struct kd_system_info s = {0};
    call(KD_SYSTEM_INFO, (long)&s, 0, 0);
    /* CPUs that the host does not have wait for each other */
    for (int part = OWN; part < PARTS; part++)
        if (argc < 5 || atoi(argv[4]) == part)
            part_test(part, first,
                      count        ? count
                      : s.cpus > 2 ? counts[part] * 2 / s.cpus
                                   : counts[part]);
    return tap_end();
}
