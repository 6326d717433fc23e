/*
 * bench.c - what the kernel's operations cost, in counted instructions.
 *
 *   bench [GROUP...]     groups: calls, faults, locks, processes, commit; all without an argument
 *   bench checkpoint     how much longer commits take while a checkpoint runs: times, not
 *                        instructions
 *
 * Prints lines `name <tab> unit <tab> value <tab> reach`. Run it with QEMU's -icount on one CPU:
 * there the time stamp counter counts instructions, so a difference of two readings is exact. What
 * it costs to read the counter is measured and taken off. Waiting for the disk is not counted: the
 * kernel reports the time its CPUs were idle.
 *
 * `bench --manager` is the other process: it answers null calls and manages the object "bench",
 * whose pages it decides about itself when it is asked (KM_ASK).
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "katydid/call.h"
#include "pstore.h"
#include "tests/bench/measure.h"

/* PLAIN, SUPPLIED: without transactions */
enum object_kind { FREE, ASKED, PLAIN, SUPPLIED, ITEMS, LOCKED, OBJECTS };
enum { PAGES = 64, ROUNDS = 200, CALL_NULL = 1, CALL_OBJECT = 2, CALL_END = 3 };

static uint64_t read_cost;

static uint64_t best(uint64_t a, uint64_t b) { return a < b ? a : b; }

static void row(const char *name, const char *unit, double value, const char *reach)
{
    printf("%s\t%s\t%.4g\t%s\n", name, unit, value, reach);
}

static _Noreturn void fail(const char *what, long error)
{
    fprintf(stderr, "bench: %s: %s\n", what, ps_strerror((int)error));
    exit(1);
}

/* ---- the manager ---- */

static int serve(void)
{
    int port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    int commit = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    int objects[OBJECTS];
    static char contents[KD_PAGE_BYTES];
    uint64_t token = 0;
    struct kd_message reply = {.handle = -1}, m = {.handle = -1}; /* buffers: none */
    if (kd_call3(KD_NAME_SET, (long)"bench", port, 0))
        return 1;
    for (;;) {
        long e = token ? kd_call4(KD_PORT_REPLY_RECEIVE, (long)token, (long)&reply, port, (long)&m)
                       : kd_call3(KD_PORT_RECEIVE, port, (long)&m, -1);
        token = 0;
        if (e)
            return 2;
        switch (m.kind) {
        case KD_MSG_PAGE: {
            struct kd_supply s = { .object = (int)m.word[5],
                                   .source = KD_SUPPLY_MEMORY, .memory = contents,
                                   .rights = KD_READ | KD_WRITE, .page = m.word[1], .count = 1 };
            if (m.word[3] & KD_PAGE_HERE)
                kd_call6(KD_OBJECT_GRANT, (long)m.word[5], (long)m.word[1], 1, KD_READ,
                         (long)m.word[6], 0);
            else
                kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
            break;
        }
        case CALL_NULL:
            token = m.token; /* and an empty answer */
            break;
        case CALL_OBJECT: { /* word 0: kind -> word 0: address */
            static const unsigned flags_of[OBJECTS] = {
                [FREE] = KD_OBJECT_TRANSACTIONAL, [ASKED] = KD_OBJECT_TRANSACTIONAL,
                [ITEMS] = KD_OBJECT_TRANSACTIONAL | KD_OBJECT_ITEMS,
                [LOCKED] = KD_OBJECT_TRANSACTIONAL | KD_OBJECT_ITEMS
            };
            unsigned kind = m.word[0] % OBJECTS;
            struct kd_object_create c = {.port = port, .commit_port = commit, .pages = PAGES + 1,
                                         .flags = flags_of[kind],
                                         .base = KD_STORE_END - (kind + 1) * (1ull << 30),
                                         .name = "bench"};
            objects[kind] = (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
            struct kd_supply s = {.object = objects[kind], .source = KD_SUPPLY_ZERO,
                                  .rights = kind == ASKED ? 0 : KD_READ | KD_WRITE, .count = PAGES};
            if (kind != SUPPLIED)
                kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
            token = m.token;
            reply.status = (int)kd_call3(KD_SPACE_ATTACH, (long)m.process, objects[kind],
                                         KD_RIGHT_READ | KD_RIGHT_WRITE);
            reply.word[0] = c.base;
            break;
        }
        case CALL_END: return 0;
        default: break;
        }
    }
}

/* ---- the client ---- */

static int start_manager(void)
{
    const char *argv[] = {"bench", "--manager", NULL};
    struct kd_process_create c = {.path = "/bin/bench", .argv = argv, .fds = {-1, -1, -1},
                                  .handle_count = 1, .handles = {KD_SYSTEM_HANDLE}};
    long e = kd_call3(KD_PROCESS_CREATE, (long)&c, 0, 0);
    if (e < 0)
        fail("starting the manager", e);
    long port;
    while ((port = kd_call3(KD_NAME_FIND, (long)"bench", 0, 0)) == -ENOENT)
        kd_call3(24, 0, 0, 0); /* sched_yield */
    return (int)port;
}

static void group_calls(int port)
{
    uint64_t call = ~0ull, null = ~0ull;
    struct kd_message m = {.handle = -1};
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t t = counter();
        kd_call3(39, 0, 0, 0); /* getpid */
        call = best(call, counter() - t - read_cost);
        m.kind = CALL_NULL;
        t = counter();
        kd_call3(KD_PORT_CALL, port, (long)&m, 0);
        null = best(null, counter() - t - read_cost);
    }
    row("null system call (Linux 326)", "instructions", (double)call, "60");
    row("null call to another process and back (Linux, by pipes: 11910)", "instructions",
        (double)null, "800");
}

static jmp_buf aborted;
static char abort_stack[16384] __attribute__((aligned(16)));
static void on_abort(long reason) { longjmp(aborted, (int)reason); }

static void begin(void)
{
    struct kd_begin b = {.entry = (uint64_t)on_abort,
                         .stack = (uint64_t)(abort_stack + sizeof abort_stack - 8)};
    long e = kd_call3(KD_TXN_BEGIN, (long)&b, 0, 0);
    if (e)
        fail("begin", e);
}

static volatile char *object_of(int port, enum object_kind kind)
{
    struct kd_message m = {.kind = CALL_OBJECT, .word = {kind}};
    long e = kd_call3(KD_PORT_CALL, port, (long)&m, 0);
    if (e)
        fail("object", e);
    return (volatile char *)m.word[0];
}

enum { IN_ORDER = 1, JUMPING = 29 }; /* the step: a jump is never a cluster's next page, nor near */

/* The mean over the pages, and not the best: each page is touched once. */
static double touch_all(volatile char *p, int write, int step)
{
    uint64_t sum = 0;
    for (int i = 0; i < PAGES; i++) {
        volatile char *at = p + (size_t)(i * step % PAGES) * KD_PAGE_BYTES;
        uint64_t t = counter();
        if (write)
            *at = 1;
        else
            (void)*at;
        sum += counter() - t - read_cost;
    }
    return (double)sum / PAGES;
}

/* A page's copy as the kernel makes it. */
static double copy_cost(void)
{
    static uint64_t pages[2][KD_PAGE_BYTES / 8];
    uint64_t cost = ~0ull;
    for (int i = 0; i < ROUNDS; i++) {
        void *to = pages[0], *from = pages[1];
        uint64_t words = KD_PAGE_BYTES / 8, t = counter();
        __asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(words) : : "memory");
        cost = best(cost, counter() - t - read_cost);
    }
    return (double)cost;
}

static void group_faults(int port)
{
    int view = (int)kd_call3(KD_VIEW_CREATE, 0, 0, 0);
    if (view < 0 || kd_call3(KD_VIEW_ENTER, view, 0, 0))
        fail("view", view);
    int reason = setjmp(aborted);
    if (reason)
        fail("aborted", reason);
    volatile char *free_pages = object_of(port, FREE), *asked = object_of(port, ASKED);
    volatile char *item_pages = object_of(port, ITEMS);
    volatile char *plain_pages = object_of(port, PLAIN),
                  *supplied_pages = object_of(port, SUPPLIED);
    (void)plain_pages[0]; /* page tables */
    double plain = touch_all(plain_pages, 0, JUMPING);
    (void)supplied_pages[PAGES * KD_PAGE_BYTES];
    double supplied = touch_all(supplied_pages, 0, JUMPING);
    begin();
    (void)free_pages[0]; /* page tables */
    double read = touch_all(free_pages, 0, JUMPING);
    kd_call3(KD_TXN_ABORT, 0, 0, 0);
    begin();
    double write = touch_all(free_pages, 1, IN_ORDER);
    kd_call3(KD_TXN_ABORT, 0, 0, 0);
    begin();
    double ask = touch_all(asked, 0, IN_ORDER);
    kd_call3(KD_TXN_ABORT, 0, 0, 0);
    begin();
    (void)item_pages[0];
    double item_read = touch_all(item_pages, 0, JUMPING);
    kd_call3(KD_TXN_ABORT, 0, 0, 0);
    begin();
    double item_write = touch_all(item_pages, 1, IN_ORDER);
    kd_call3(KD_TXN_ABORT, 0, 0, 0);
    kd_call3(KD_VIEW_ENTER, -1, 0, 0);
    kd_call3(KD_HANDLE_CLOSE, view, 0, 0);
    view = (int)kd_call3(KD_VIEW_CREATE, 0, 0, 0); /* one without rights */
    kd_call3(KD_VIEW_ENTER, view, 0, 0);
    begin();
    (void)free_pages[0];
    double grouped = touch_all(free_pages, 0, IN_ORDER);
    kd_call3(KD_TXN_ABORT, 0, 0, 0);
    kd_call3(KD_VIEW_ENTER, -1, 0, 0);
    row("page supplied by a manager in another process (Linux, userfaultfd: 13030)", "instructions",
        supplied, "3000");
    row("fault of a resident page without transactions", "instructions", plain, "-");
    row("first read of a resident page (Linux, SIGSEGV and mprotect: 9217)", "instructions", read,
        "250");
    row("first read of a resident page, one after the other: in clusters", "instructions", grouped,
        "60");
    row("first read of a resident page, of the fault without transactions", "times", read / plain,
        "1.3");
    row("first write of a resident page: upgrade, private copy (Linux, the same by SIGSEGV: 15030)",
        "instructions", write, "900");
    row("first write of a resident page, beyond the fault without transactions and a page's copy",
        "instructions", write - plain - copy_cost(), "300");
    row("item mode: first read of a resident page", "instructions", item_read, "500");
    row("item mode: first write of a resident page", "instructions", item_write, "1150");
    row("first touch with ask (the manager decides)", "instructions", ask, "2000");
}

/* ---- locks of items, by the calls ---- */

static long item_base;

/* In a transaction of its own: so often an item, and away with it; a second one waits each time. */
static void *take_turns(void *unused)
{
    kd_call3(KD_VIEW_ENTER, kd_call3(KD_VIEW_CREATE, 0, 0, 0), 0, 0);
    begin();
    for (int i = 0; i < ROUNDS; i++) {
        long e = kd_call3(KD_ITEM_LOCK, item_base, 8, KD_ITEM_X);
        if (e)
            fail("an item", e);
        kd_call3(KD_ITEM_WAKE, item_base, 8, 0);
    }
    kd_call3(KD_TXN_ABORT, 0, 0, 0);
    return unused;
}

static void group_locks(int port)
{
    pthread_t threads[2];
    uint64_t lock = ~0ull, leave = ~0ull, turns;
    item_base = (long)object_of(port, LOCKED);
    kd_call3(KD_VIEW_ENTER, kd_call3(KD_VIEW_CREATE, 0, 0, 0), 0, 0);
    begin();
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t t = counter();
        kd_call3(KD_ITEM_LOCK, item_base, 8 * i, KD_ITEM_X);
        lock = best(lock, counter() - t - read_cost);
        t = counter();
        kd_call3(KD_ITEM_WAKE, item_base, 8 * i, 0);
        leave = best(leave, counter() - t - read_cost);
    }
    kd_call3(KD_ITEM_LOCK, item_base, 8, KD_ITEM_X);
    for (int i = 0; i < 2; i++) /* both wait for it, and then for each other */
        pthread_create(&threads[i], NULL, take_turns, NULL);
    for (int i = 0; i < 1000; i++)
        sched_yield();
    turns = counter();
    kd_call3(KD_TXN_ABORT, 0, 0, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    turns = counter() - turns;
    kd_call3(KD_VIEW_ENTER, -1, 0, 0);
    row("lock of an item by the call, without waiting", "instructions", (double)lock, "500");
    row("an item is left by the call", "instructions", (double)leave, "350");
    row("lock of an item that another one leaves: the wait, its sleep and wake", "instructions",
        (double)turns / (2 * ROUNDS) - (double)leave, "4000");
}

/* ---- memory, threads, processes ---- */

static double anonymous(void)
{
    char *p = mmap(NULL, (PAGES + 64) * KD_PAGE_BYTES, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        fail("memory", -errno);
    p[PAGES * KD_PAGE_BYTES] = 1; /* page tables */
    double mean = touch_all(p, 1, IN_ORDER);
    munmap(p, (PAGES + 64) * KD_PAGE_BYTES);
    return mean;
}

static volatile int yielding;
static void *yield(void *unused)
{
    while (yielding)
        sched_yield();
    return unused;
}

/* Two threads that yield to each other: each call is one switch. */
static double thread_switch(void)
{
    pthread_t other;
    yielding = 1;
    if (pthread_create(&other, NULL, yield, NULL))
        fail("a thread", -EAGAIN);
    sched_yield();
    uint64_t t = counter();
    for (int i = 0; i < ROUNDS; i++)
        sched_yield();
    t = counter() - t;
    yielding = 0;
    pthread_join(other, NULL);
    return (double)t / (2 * ROUNDS);
}

static double fork_exit_wait(void)
{
    uint64_t least = ~0ull;
    for (int i = 0; i < ROUNDS / 10; i++) {
        uint64_t t = counter();
        int pid = fork(), status = 0;
        if (pid == 0)
            _exit(0);
        if (pid < 0 || waitpid(pid, &status, 0) != pid)
            fail("fork", -errno);
        least = best(least, counter() - t - read_cost);
    }
    return (double)least;
}

static void group_processes(void)
{
    row("anonymous page fault, zeroed page (Linux 3327)", "instructions", anonymous(), "900");
    row("thread switch, by sched_yield", "instructions", thread_switch(), "-");
    row("fork, exit and wait of a small static program", "instructions", fork_exit_wait(), "-");
}

/* ---- commits to the store ---- */

struct root { uint64_t value; };
static ps_container *container;
static int body(void *arg)
{
    struct root *r = ps_root(container);
    r->value += *(uint64_t *)arg;
    return 0;
}

static uint64_t busy(void)
{
    struct kd_system_info s;
    uint64_t now = counter();
    kd_call3(KD_SYSTEM_INFO, (long)&s, 0, 0);
    return now - s.idle_cycles;
}

static void group_commit(void)
{
    container = ps_open("bench", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    if (!container)
        fail("opening the container", errno);
    uint64_t one = 1, least = ~0ull;
    for (int i = 0; i < 3; i++)
        if (ps_transaction(body, &one))
            fail("commit", -EIO);
    struct kd_system_info a, b;
    kd_call3(KD_SYSTEM_INFO, (long)&a, 0, 0);
    enum { COMMITS = 50 };
    for (int i = 0; i < COMMITS; i++) {
        uint64_t t = busy();
        if (ps_transaction(body, &one))
            fail("commit", -EIO);
        least = best(least, busy() - t);
    }
    kd_call3(KD_SYSTEM_INFO, (long)&b, 0, 0);
    double writes = (double)(b.block_writes - a.block_writes) / COMMITS;
    row("commit of one changed page, all processes and the kernel (fdatasync 32545, SQLite 67724, "
        "LMDB 108161)",
        "instructions", (double)least, "25000");
    row("commit of one changed page: writes (SQLite 1, LMDB 4.9)", "writes", writes, "1");
    row("commit of one changed page: bytes a write (of all writes: SQLite 9523, LMDB 20480)",
        "bytes", (double)(b.block_write_bytes - a.block_write_bytes) / COMMITS / writes, "8192");
    row("commit of one changed page: flushes (SQLite 1, LMDB 2)", "flushes",
        (double)(b.block_flushes - a.block_flushes) / COMMITS, "1");
    ps_close(container);
    ps_delete("bench");
}

/* ---- commits while a checkpoint runs ---- */

enum { BULK_PAGES = 512, COMMITS_MIN = 200, CHECKPOINTS = 5 };
struct latency { uint64_t sum, longest, count; };

static int dirty(void *arg)
{
    static char *bulk;
    if (!bulk && !(bulk = ps_alloc(container, BULK_PAGES * 4096ul, NULL)))
        return -errno;
    for (int i = 0; i < BULK_PAGES; i++)
        *(uint64_t *)(bulk + 4096 * i) += *(uint64_t *)arg;
    return 0;
}

static void commit_timed(struct latency *l)
{
    uint64_t one = 1, t = counter();
    if (ps_transaction(body, &one))
        fail("commit", -EIO);
    t = counter() - t;
    l->sum += t;
    l->longest = l->longest > t ? l->longest : t;
    l->count++;
}

static int checkpoint_ended;
static void *checkpoint_run(void *unused)
{
    int error = ps_checkpoint();
    if (error)
        fail("checkpoint", error);
    __atomic_store_n(&checkpoint_ended, 1, __ATOMIC_RELEASE);
    return unused;
}

static void group_checkpoint(void)
{
    struct latency without = {0}, during = {0};
    uint64_t one = 1;
    container = ps_open("bench-checkpoint", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    if (!container)
        fail("opening the container", errno);
    for (int i = 0; i < CHECKPOINTS; i++) {
        pthread_t thread;
        if (ps_transaction(dirty, &one) || ps_transaction(body, &one))
            fail("commit", -EIO);
        for (int k = 0; k < COMMITS_MIN / CHECKPOINTS; k++)
            commit_timed(&without);
        checkpoint_ended = 0;
        if (pthread_create(&thread, NULL, checkpoint_run, NULL))
            fail("a thread", -EAGAIN);
        do
            commit_timed(&during);
        while (!__atomic_load_n(&checkpoint_ended, __ATOMIC_ACQUIRE));
        pthread_join(thread, NULL);
    }
    row("commits during the checkpoints, in the guest", "commits", (double)during.count, "-");
    row("commit during a checkpoint against without, in the guest, mean", "times",
        (double)during.sum / (double)during.count / ((double)without.sum / (double)without.count),
        "2");
    row("commit during a checkpoint against without, in the guest, longest", "times",
        (double)during.longest / (double)without.longest, "2");
    ps_close(container);
    ps_delete("bench-checkpoint");
}

static int wanted(int argc, char **argv, const char *group)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], group) == 0)
            return 1;
    return argc == 1;
}

/* The same loop takes the same number of instructions each time, but hardly the same time. */
static int counts_instructions(void)
{
    uint64_t last = 0;
    int same = 0;
    for (int i = 0; i < 16; i++) {
        uint64_t t = counter();
        for (int k = 0; k < 1000; k++)
            __asm__ volatile("");
        t = counter() - t;
        same += t == last;
        last = t;
    }
    return same >= 8;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--manager") == 0)
        return serve();
    if (argc == 2 && strcmp(argv[1], "checkpoint") == 0) {
        group_checkpoint();
        return 0;
    }
    usage(argc, argv, 1,
          "usage: bench [calls] [faults] [locks] [processes] [commit], or bench checkpoint\n"
          "Counts instructions; run it by `make bench ONLY=kernel`, which boots with -icount.\n");
    read_cost = ~0ull;
    for (int i = 0; i < 100; i++) {
        uint64_t t = counter();
        read_cost = best(read_cost, counter() - t);
    }
    if (!counts_instructions())
        fputs("bench: the counter counts time here, not instructions: do not compare with the "
              "reach; "
              "`make bench ONLY=kernel`\n",
              stderr);
    if (wanted(argc, argv, "calls") || wanted(argc, argv, "faults") ||
        wanted(argc, argv, "locks")) {
        int port = start_manager();
        if (wanted(argc, argv, "calls"))
            group_calls(port);
        if (wanted(argc, argv, "faults"))
            group_faults(port);
        if (wanted(argc, argv, "locks"))
            group_locks(port);
        struct kd_message end = {.kind = CALL_END};
        kd_call3(KD_PORT_CALL, port, (long)&end, 0);
    }
    if (wanted(argc, argv, "processes"))
        group_processes();
    if (wanted(argc, argv, "commit"))
        group_commit();
    return 0;
}
