/*
 * pstore_spill.c - transactions larger than memory.
 *
 * Aim     a transaction that changes three times the memory commits (in `make test` twice), and
 *         every byte is there afterwards (in `make test` a third of the pages is looked at), also
 *         after a recovery from a log that is larger than memory; it aborts without a trace; beyond
 *         half the log it gets E2BIG, as soon as that is known; it finds its own changes again; two
 *         of them at once, snapshots beside one, and the death of the client or of the manager in
 *         the middle do no harm. "pstore_spill steps N": the manager ends N times while it takes
 *         pages, at the steps that store.die names (tests/system/store-death.sh); each time the
 *         client hears so, and nothing is left.
 * Method  word w of page p is a hash of p, w and the round that wrote it; some words of each page
 *         are written, all are compared. The kernel counts the copies that spilled.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pstore_test.h"

enum { STEP = 64 };
/* Pages: all of them, of the largest transaction that the log takes, 48 MiB (75 in the long tier),
 * of one that is larger than memory may be, of one that the log refuses. */
static unsigned all = 15100, large = 12400, medium = 2400, too_large = 15000;
static ps_container *box;
static volatile uint64_t (*pages)[512];

static uint64_t word_of(uint64_t page, uint64_t word, uint64_t round)
{
    return round ? (page << 32 | word << 16 | round) * 0x9e3779b97f4a7c15ull : 0;
}

struct range { uint64_t from, count, round; };
static _Atomic uint64_t reached;       /* pages that the last body stored to: not rolled back */

static int make(void *unused)
{
    (void)unused;
    uint64_t *root = ps_root(box);
    *root = (uint64_t)ps_alloc(box, (size_t)all * 4096 - 64, NULL); /* begins in its first page */
    return *root ? 0 : -errno;
}
static int find(void *unused)
{
    (void)unused;
    uint64_t *root = ps_root(box);
    pages = (void *)((*root + 4095) & ~4095ull);
    return 0;
}

static int write_range(void *arg)
{
    const struct range *r = arg;
    for (uint64_t p = r->from; p < r->from + r->count; p++, reached = p - r->from)
        for (uint64_t w = p % STEP; w < 512; w += STEP) pages[p][w] = word_of(p, w, r->round);
    return 0;
}
static int write_and_leave(void *arg)
{
    write_range(arg);
    return 17;
}
static long wrong;
static int check_range(void *arg)
{
    const struct range *r = arg;
    wrong = 0;
    for (uint64_t p = r->from; p < r->from + r->count; p += tap_long() ? 1 : 3)
        for (uint64_t w = 0; w < 512; w++) {
            uint64_t is = pages[p][w];
            if (is != (w % STEP == p % STEP ? word_of(p, w, r->round) : 0) && wrong++ < 3)
                printf("# page %ld word %ld is %lx\n", (long)p, (long)w, (unsigned long)is);
        }
    return wrong ? 1 : 0;
}

/* In parts: what was read stays in no transaction's way. */
static long check(uint64_t from, uint64_t count, uint64_t round)
{
    long bad = 0;
    for (uint64_t p = from; p < from + count; p += 4096) {
        uint64_t n = from + count - p < 4096 ? from + count - p : 4096;
        int r = ps_transaction(check_range, &(struct range){p, n, round});
        if (r) printf("# check from page %ld: %d\n", (long)p, r);
        bad += r != 0;
    }
    return bad;
}

static uint64_t spills(void) { return system_info().spills; }
/* So many more copies have spilled, or half a minute has passed. */
static int spills_reach(uint64_t number)
{
    int tries = 30000;
    while (spills() < number && --tries) pause_ms(1);
    return tries > 0;
}

static void manager_kill(void)
{
    int pid = store_pid();
    is(kd_call3(KD_PROCESS_KILL, pid, 9, 0), 0, "the manager is killed");
    while (pid && store_pid() == pid) pause_ms(1);
}

static void thread_start(pthread_t *thread, void *(*start)(void *), void *arg)
{
    int e = pthread_create(thread, NULL, start, arg);
    if (!e) return;
    printf("Bail out! no thread: %d\n", e);
    exit(1);
}
static int manager_await(void)
{
    int r = -ENOTCONN;
    for (int i = 0; i < 20000; i++) { /* a recovery of 100 MiB takes what it takes */
        r = ps_transaction(find, NULL);
        if (r != -EOWNERDEAD && r != -ENOTCONN) break;
        pause_ms(10);
    }
    return r;
}

static void test_large(void)
{
    uint64_t before = spills();
    int r = ps_transaction(write_range, &(struct range){0, large, 1});
    is(r, 0, "a large transaction commits");
    struct kd_system_info info = system_info();
    printf("# memory %ld MiB, %ld copies spilled\n", (long)(info.memory_bytes >> 20),
           (long)(spills() - before));
    tap_ok((tap_long() ? 3 : 2) * info.memory_bytes < (uint64_t)large * 4096 &&
               spills() - before > large / 2,
           "of %u MiB, with much less memory", large / 256);
    is(check(0, large, 1), 0, "every word is there");
    manager_kill();
    is(manager_await(), 0, "what the log has of it, more than memory, is recovered");
    is(check(0, large, 1), 0, "every word is there again");
    is(ps_transaction(write_range, &(struct range){0, large / 2, 1}), 0, "half of it once more");
    is(ps_checkpoint(), 0, "a checkpoint brings home what was never in memory since");
    manager_kill();
    is(manager_await(), 0, "it is back");
    is(check(0, large, 1), 0, "every word is still there");
}

static void test_abort(void)
{
    is(ps_transaction(write_and_leave, &(struct range){ 0, medium * 2, 2 }), 17,
       "a large one aborts");
    is(check(0, medium * 2, 1), 0, "without a trace");
    int r = ps_transaction(write_range, &(struct range){0, too_large, 3});
    is(r, -E2BIG, "one that half of the log cannot hold is refused");
    tap_ok(reached > large && reached < too_large,
           "as soon as that is known: behind %ld of %d pages, not at the commit", (long)reached,
           too_large);
    is(check(0, medium, 1), 0, "and leaves none");
    is(check(large, too_large - large, 0), 0, "nowhere");
}

static int write_twice(void *arg)
{
    struct range *r = arg, second = *r;
    write_range(r);
    if (check_range(r)) return 1; /* its own changes, most of them from the log */
    second.round++;
    return write_range(&second);
}

/* With a guard (FT8): what was announced stays so when it has gone into the log. */
static int announced_twice(void *arg)
{
    const struct range *r = arg;
    const void *first = (const void *)(uintptr_t)pages[r->from];
    return ps_touch(first, r->count * 4096) ? 1 : write_twice(arg);
}
static int none_announced(void *arg)
{
    struct range r = *(struct range *)arg;
    if (!tap_long()) r.count /= 8;
    struct range beside = {r.from + r.count, 1, r.round};
    return announced_twice(&r) || write_range(&beside);
}
static void test_guard(void)
{
    struct range r = {100, medium, 4};
    uint64_t before = spills();
    int status = 0;
    is(ps_transaction(write_range, &(struct range){100, medium, 5}), 0, "pages of the log's");
    is(ps_protection(box, PS_PROTECT_GUARD), 0, "a guard, while nobody has read them");
    is(ps_transaction(announced_twice, &r) || spills() < before + medium / 8, 0,
       "pages that were announced are changed when they have spilled, too");
    is(check(100, medium, 5), 0, "its last word counts");
    pid_t pid = fork();
    if (pid == 0) _exit(ps_transaction(none_announced, &r) != 0);
    is(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) ? WTERMSIG(status) : -1, SIGSEGV,
       "a page beside them is not");
    is(ps_protection(box, PS_PROTECT_NONE), 0, "no guard");
}

static void test_again(void)
{
    is(ps_transaction(write_twice, &(struct range){100, medium, 4}), 0,
       "a transaction reads and changes what it spilled");
    is(check(100, medium, 5), 0, "its last word counts");
}

static void *writer(void *arg) { return (void *)(long)ps_transaction(write_range, arg); }

static _Atomic int stop;
struct seen { long whole, stale, bad; };

static int look(void *arg)
{
    uint64_t from = 100, to = 100 + 2 * medium - 1, *out = arg;
    uint64_t first = pages[from][from % STEP], last = pages[to][to % STEP];
    out[0] = first;
    out[1] = last;
    return 0;
}
static void *reader(void *arg)
{
    struct seen *seen = arg;
    struct ps_options snapshot = {.isolation = PS_SNAPSHOT};
    while (!stop) {
        uint64_t w[2] = {0, 0};
        pause_ms(1);
        int r = ps_transaction_opt(look, w, &snapshot);
        int old = w[0] == word_of(100, 100 % STEP, 5);
        int new = w[0] == word_of(100, 100 % STEP, 6) || w[0] == word_of(100, 100 % STEP, 7);
        uint64_t p = 100 + 2 * medium - 1, round = w[0] == word_of(100, 100 % STEP, 6) ? 6 : 7;
        if (r == -ESTALE) seen->stale++;
        else if (r == 0 && ((old && w[1] == word_of(p, p % STEP, 1)) ||
                            (new &&w[1] == word_of(p, p % STEP, round))))
            seen->whole++;
        else if (seen->bad++ < 3)
            printf("# reader: %d, %lx %lx\n", r, (unsigned long)w[0], (unsigned long)w[1]);
    }
    return NULL;
}

static void test_beside(void)
{
    pthread_t thread[3];
    struct seen seen = {0, 0, 0};
    struct range a = {100, 2 * medium, 6}, b = {large / 2, 2 * medium, 6};
    void *result[2];
    stop = 0;
    thread_start(&thread[2], reader, &seen);
    thread_start(&thread[0], writer, &a);
    thread_start(&thread[1], writer, &b);
    for (int i = 0; i < 2; i++) pthread_join(thread[i], &result[i]);
    stop = 1;
    pthread_join(thread[2], NULL);
    tap_ok(!result[0] && !result[1], "two large ones at once (%ld, %ld)", (long)result[0],
           (long)result[1]);
    tap_ok(seen.whole > 0 && seen.bad == 0,
           "snapshots see all of one or nothing (%ld; %ld too old)", seen.whole, seen.stale);
    is(check(100, 2 * medium, 6) + check(large / 2, 2 * medium, 6), 0, "both are there");
    a = (struct range){100, 2 * medium, 7};
    b = (struct range){100, 2 * medium, 7};
    for (int i = 0; i < 2; i++) thread_start(&thread[i], writer, i ? &b : &a);
    for (int i = 0; i < 2; i++) pthread_join(thread[i], &result[i]);
    tap_ok(!result[0] && !result[1], "and on the same pages (%ld, %ld)", (long)result[0],
           (long)result[1]);
    is(check(100, 2 * medium, 7), 0, "one after the other");
}

static void test_deaths(const char *self)
{
    uint64_t before = spills();
    int pid = child_start(self, "child", "");
    tap_ok(spills_reach(before + 500), "a child spills");
    kd_call3(KD_PROCESS_KILL, pid, 9, 0);
    child_wait(pid);
    is(check(100, medium, 7), 0, "a client dies while it spills: no trace");
    is(ps_transaction(write_range, &(struct range){100, medium, 8}), 0, "and the next one spills");
    pthread_t thread;
    struct range r = {100, 3 * medium, 9};
    ps_checkpoint();
    void *result;
    before = spills();
    thread_start(&thread, writer, &r);
    tap_ok(spills_reach(before + 500), "a thread spills");
    manager_kill();
    pthread_join(thread, &result);
    tap_ok((long)result == -EOWNERDEAD || !result,
           "the manager dies while it takes pages: undone, or run again (%ld)", (long)result);
    is(manager_await(), 0, "it is back");
    is(check(100, medium, result ? 8 : 9), 0, "what was committed is there, and no more");
    is(ps_transaction(write_range, &r), 0, "the same transaction once more");
    is(check(100, 3 * medium, 9), 0, "is there");
}

static int child(void)
{
    box = ps_open("large", PS_WRITE, NULL);
    if (!box || ps_transaction(find, NULL)) return 1;
    return ps_transaction(write_and_leave, &(struct range){100, large, 20});
}

static int steps(int deaths)
{
    struct range r = {100, 3 * medium, 1};
    tap_plan(1 + 3 * deaths + 5);
    is(ps_transaction(make, NULL) || ps_transaction(find, NULL), 0, "an object");
    for (int i = 0; i < deaths; i++) {
        is(ps_transaction(write_twice, &r), -EOWNERDEAD, "the manager ends while it takes pages");
        is(manager_await(), 0, "it is back");
        is(check(100, 3 * medium, 0), 0, "nothing is left");
    }
    is(ps_transaction(write_range, &r), 0, "the next one commits");
    manager_kill();
    is(manager_await(), 0, "recovered");
    is(check(100, 3 * medium, 1), 0, "it is there");
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck");
    return tap_end();
}

int main(int argc, char **argv)
{
    box = ps_open("large", PS_CREATE | PS_WRITE, PS_LAYOUT(uint64_t, 1));
    if (!box) {
        printf("Bail out! no container: %s\n", ps_strerror(errno));
        return 1;
    }
    if (tap_long() || argc > 2) all = 22200, large = 19100, too_large = 22100;
    if (argc > 2 && !strcmp(argv[1], "steps")) return steps(atoi(argv[2]));
    if (argc > 1) return child();
    tap_plan(2 + 11 + 6 + 2 + 6 + 5 + 10 + 1);
    is(ps_transaction(make, NULL), 0, "an object");
    is(ps_transaction(find, NULL), 0, "is found");
    test_large();
    test_abort();
    test_again();
    test_guard();
    test_beside();
    test_deaths(argv[0]);
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck");
    return tap_end();
}
