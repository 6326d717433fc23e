/*
 * manager_stacked.c - steps 4 and 5 of "Write your own manager" (libpstore/managers.md).
 *
 * Aim     stacked: one transaction on its container and on one of the store is there as a whole or
 *         not at all, and persists. packed: the same of a container that the store keeps with it,
 *         opened like any other; its pages take less room than they have bytes, of any contents;
 *         where the room ends a commit is refused and undone; it is killed in the midst of commits,
 *         at any moment of many, and its successor has all that was committed.
 * Method  the programs as they are; both containers hold the same number, in several pages.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "manager.h"
#include "pstore_test.h"

enum { WORDS = 512, SOME = 4, MANY = 300, LIVES = 6 };

struct ledger { uint64_t number; };
static ps_container *ledger, *opened;
static uint64_t *words;                 /* of the manager's container */

static int write_both(void *number)
{
    struct ledger *l = ps_root(ledger);
    if (!l) return -errno;
    l->number = *(uint64_t *)number;
    for (unsigned i = 0; i < SOME; i++) words[i * WORDS + i] = l->number;
    return 0;
}

static int write_and_fail(void *number)
{
    int error = write_both(number);
    return error ? error : -ECANCELED;
}

static int read_both(void *number)
{
    const struct ledger *l = ps_root(ledger);
    if (!l) return -errno;
    for (unsigned i = 0; i < SOME; i++)
        if (words[i * WORDS + i] != l->number) return -EUCLEAN;
    *(uint64_t *)number = l->number;
    return 0;
}

/* Both have the number, or a negative errno is returned. */
static long both(void)
{
    uint64_t number = 0;
    int error = ps_transaction(read_both, &number);
    return error ? error : (long)number;
}

static void whole(const char *name)
{
    uint64_t n = 5, m = 6;
    is(both(), 0, name);
    is(ps_transaction(write_both, &n), 0, "one transaction writes it and one of the store");
    is(both(), 5, "both have it");
    is(ps_transaction(write_and_fail, &m), -ECANCELED, "one that gives up");
    is(both(), 5, "changes neither");
    n = 0;
    is(ps_transaction(write_both, &n), 0, "(0 again)");
}

/* ---- step 4 ---- */

static int stacked_start(void)
{
    int pid = child_start("stacked", "book", NULL);
    while (pid > 0 && !(words = km_open("book", "book", KM_READ | KM_WRITE))) sched_yield();
    return pid;
}

static void test_stacked(void)
{
    uint64_t n = 7;
    int pid = stacked_start();
    tap_ok(pid > 0, "stacked is started");
    whole("what it serves is empty");
    is(ps_transaction(write_both, &n), 0, "(7)");
    kill(pid, SIGKILL);
    child_wait(pid);
    is(ps_transaction(write_both, &n) < 0, 1, "it is killed, and its clients hear");
    pid = stacked_start();
    is(both(), 7, "started again it has all from the store");
    n = 0;
    is(ps_transaction(write_both, &n), 0, "and goes on");
    kill(pid, SIGKILL);
    child_wait(pid);
}

/* ---- step 5 ---- */

static int packed_pid(void)
{
    static struct kd_process_info rows[256];
    long n = kd_call3(KD_PROCESS_LIST, (long)rows, 256, 0);
    for (long i = 0; i < n && i < 256; i++)
        if (strcmp(rows[i].name, "packed") == 0) return rows[i].pid;
    return 0;
}

static int packed_open(void)
{
    opened = ps_open("notes", PS_WRITE, NULL);
    words = ps_address(opened);
    return opened ? 0 : -errno;
}

static int ends(int pid)
{
    for (int i = 0; i < 3000 && packed_pid() == pid; i++) pause_ms(10);
    return packed_pid() != pid;
}

/* Page i from SOME on: text that can be packed, or noise that cannot. */
static uint64_t word_of(uint64_t i, uint64_t w, int noise)
{
    uint64_t x = (i * WORDS + w + 1) * 0x9e3779b97f4a7c15ull;
    return noise ? (x ^ x >> 29) * 0xbf58476d1ce4e5b9ull : i + w / 16;
}

struct fill { uint64_t from, to; int noise; };
static int fill(void *arg)
{
    const struct fill *f = arg;
    for (uint64_t i = f->from; i < f->to; i++)
        for (uint64_t w = 0; w < WORDS; w++) words[i * WORDS + w] = word_of(i, w, f->noise);
    return 0;
}

static int filled(void *arg)
{
    const struct fill *f = arg;
    for (uint64_t i = f->from; i < f->to; i++)
        for (uint64_t w = 0; w < WORDS; w++)
            if (words[i * WORDS + w] != word_of(i, w, f->noise)) return -EUCLEAN;
    return 0;
}

static int empty(void *arg)
{
    const struct fill *f = arg;
    for (uint64_t i = f->from * WORDS; i < f->to * WORDS; i++)
        if (words[i]) return -EUCLEAN;
    return 0;
}

static void test_room(void)
{
    struct fill text = {SOME, SOME + MANY, 0}, noise = {1000, 1040, 1}, much = {2000, 2250, 1};
    is(ps_transaction(fill, &text), 0, "300 pages of text, of 1,200 KiB, go into 1 MiB");
    is(ps_transaction(fill, &noise), 0, "and 40 of noise, which do not become smaller");
    is(ps_transaction(fill, &much), -ENOSPC, "250 more do not");
    is(ps_transaction(empty, &much), 0, "and are undone");
    noise.noise = 0;
    is(ps_transaction(fill, &noise), 0, "what becomes smaller");
    much.to = much.from + 100;
    is(ps_transaction(fill, &much), 0, "makes room for others");
    int pid = packed_pid();
    ps_close(opened);
    tap_ok(ends(pid), "nobody has it open: it ends");
    is(packed_open(), 0, "opened again");
    is(ps_transaction(filled, &text), 0, "the text is there");
    is(ps_transaction(filled, &noise), 0, "what was noise");
    is(ps_transaction(filled, &much), 0, "and what is");
}

static _Atomic uint64_t tried, done;
static _Atomic int over;
static void *writer(void *from)
{
    uint64_t n = *(uint64_t *)from;
    int error;
    do {
        tried = ++n;
        error = ps_transaction(write_both, &n);
        if (!error) done = n;
    } while (!error);
    over = 1;
    return (void *)(long)error;
}

static void test_lives(void)
{
    long now = 0;
    int good = 1;
    for (int life = 0; life < LIVES && good; life++) {
        pthread_t t;
        void *error;
        uint64_t from = tried = done = (uint64_t)now;
        int pid = packed_pid();
        over = 0;
        pthread_create(&t, NULL, writer, &from);
        while (done < from + (unsigned)life % 3 + 1 && !over) sched_yield();
        kd_call3(KD_PROCESS_KILL, pid, 9, 0);
        pthread_join(t, &error);
        /* it may be heard of only now: a commit is refused before the pages in memory go */
        now = WHEN_BACK(both());
        good = error && now >= (long)done && now <= (long)tried && ends(pid) &&
               WHEN_BACK(both()) == now;
        if (!good)
            printf("# life %d: %ld, then %ld of %lu..%lu\n", life, (long)error, now, done, tried);
    }
    tap_ok(good, "it is killed %d times in the midst of commits: its successor has the same as "
           "the store", LIVES);
}

static void test_store(void)
{
    uint64_t n = 99;
    int pid = packed_pid();
    kd_call3(KD_PROCESS_KILL, store_pid(), 9, 0);
    if (!tap_ok(pid && ends(pid), "the store is killed: so is what stands on it"))
        printf("# process %d, now %d\n", pid, packed_pid());
    is(WHEN_BACK(ps_transaction(write_both, &n)), 0, "both are there again");
    is(both(), 99, "and go on");
}

static void test_packed(void)
{
    const char *mib[] = {"1", NULL};
    is(ps_manager("notes", "/bin/packed", mib), 0, "packed is a container's manager");
    is(packed_open(), 0, "which is opened like any other");
    is(ps_pin(words, KM_PAGE_BYTES), -ENOTSUP, "its pages are its manager's to pin");
    is(ps_unpin(words, KM_PAGE_BYTES), -EINVAL, "so there is nothing to unpin");
    whole("and is empty");
    test_room();
    test_lives();
    test_store();
    ps_close(opened);
}

int main(void)
{
    tap_plan(36);
    ledger = ps_open("ledger", PS_CREATE | PS_WRITE, PS_LAYOUT(struct ledger, 1));
    test_stacked();
    test_packed();
    return tap_end();
}
