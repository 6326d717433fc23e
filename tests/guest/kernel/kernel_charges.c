/*
 * kernel_charges.c - every frame has one use, and is charged to somebody who can give it back.
 *
 * Aim     the sum over all frames is that of what processes, views and objects have, process by
 *         process: when a process has handles, when memory is forgotten or unmapped, when objects
 *         died whose handles are still held, with many pipes, and with a call that has data, a
 *         commit point with an old version, ports and badges; and while threads end. What a call
 *         has while it waits for memory of its caller's is charged, too.
 * Method  the kernel of tests/bugs/frame-sum.patch adds up when KD_CHECK is asked with 1; others
 *         check as always. More objects die than memory could keep the leaves of.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define PAGES 64
#include "own_manager.h"

enum { CHILDREN = 30, RING_BYTES = 16384, DATA_BYTES = 100000, PORTS = 40 };
enum { OBJECTS = 20, LEAVES = 1024, LEAF_PAGES = 64, REACH = 2 << 20, FAR_BYTES = 32 << 20 };

/* Nobody else does anything: the sum is right. */
static void sum(const char *when)
{
    is(kd_call3(KD_CHECK, 1, 0, 0), 0, when);
}

static uint64_t memory_used(void) { return process_self().used[KD_LIMIT_MEMORY]; }

static void tables_of_forgotten_memory(void)
{
    char *far = mmap(NULL, FAR_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t before = memory_used();
    for (size_t i = 0; far != MAP_FAILED && i < FAR_BYTES; i += REACH)
        far[i] = 1;
    uint64_t filled = memory_used();
    madvise(far, FAR_BYTES, MADV_DONTNEED);
    uint64_t after = memory_used();
    tap_ok(filled - before >= 2 * (FAR_BYTES / REACH - 1) * KD_PAGE_BYTES && after <= before,
           "page tables of forgotten memory are given back: %llu, %llu, %llu KiB",
           (unsigned long long)before >> 10, (unsigned long long)filled >> 10,
           (unsigned long long)after >> 10);
    munmap(far, FAR_BYTES);
}

/* An object of which one page in each leaf is in memory; a second handle to it, or -errno. */
static long object_with_leaves(int *first)
{
    struct kd_object_create c = {.port = port, .commit_port = commit_port, .cookie = 8,
                                 .flags = KD_OBJECT_TRANSACTIONAL, .name = "leaves",
                                 .pages = (uint64_t)LEAVES * LEAF_PAGES};
    *first = (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    for (uint64_t i = 0; i < LEAVES; i++) {
        struct kd_supply s = {.object = *first, .source = KD_SUPPLY_ZERO,
                              .rights = KD_READ | KD_WRITE, .page = i * LEAF_PAGES, .count = 1};
        long e = kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
        if (e)
            return e;
    }
    return kd_call3(KD_HANDLE_COPY, *first, KD_RIGHT_MANAGE, 0);
}

static void leaves_of_dead_objects(void)
{
    int first;
    long held = 0, e = 0;
    uint64_t before = memory_used();
    for (unsigned i = 0; i < OBJECTS && held >= 0 && !e; i++) {
        held = object_with_leaves(&first);
        e = kd_call3(KD_OBJECT_DESTROY, first, 0, 0);
        if (i == 0)
            sum("when an object has died of which a handle is held");
    }
    tap_ok(held >= 0 && e == 0 && memory_used() == before,
           "%d objects die, of which handles are held: %ld, %ld", OBJECTS, held, e);
}

/* How many pipes this process and so many children have, all at once. */
static long pipes_made(int children)
{
    int said[2], pids[CHILDREN], ends[2];
    long n, all = 0;
    (void)!pipe(said);
    for (int i = 0; i < children; i++) {
        if ((pids[i] = fork()) == 0) {
            for (n = 0; pipe(ends) == 0; n++) {}
            (void)!write(said[1], &n, sizeof n);
            for (;;)
                pause();
        }
        (void)!read(said[0], &n, sizeof n);
        all += n;
    }
    sum("when they are there");
    for (int i = 0; i < children; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    close(said[0]);
    close(said[1]);
    return all;
}

static void pipes_of_all(void)
{
    uint64_t eighth = system_info().memory_bytes / 8;
    long most = (long)((eighth - eighth / 8) / RING_BYTES), others = 4; /* the shell has some */
    long first = pipes_made(CHILDREN), again = pipes_made(CHILDREN);
    tap_ok(first > most - others && first <= most && again == first,
           "pipes of programs take 7/64 of memory at most, %ld: %ld, %ld", most, first, again);
}

/* A call with data that nobody receives, a read that waits, ports, badges, and a commit point with
 * an old version. */
static int call_at, reads[2];
static void *calls(void *data)
{
    struct kd_message m = {.handle = -1, .data = data, .data_bytes = DATA_BYTES};
    kd_call3(KD_PORT_CALL, call_at, (long)&m, 0);
    return NULL;
}

static void *waits(void *data) { return (void *)read(reads[0], data, KD_PAGE_BYTES); }

static int put(void *unused) { return (*word_of(0, 0) += 1) == 0 || unused; }
static int share(void *out)
{
    *(long *)out = kd_call3(KD_SNAPSHOT_SHARE, 0, 0, 0);
    return *word_of(0, 0) == 0;
}

static void all_at_once(void)
{
    static char data[DATA_BYTES], line[KD_PAGE_BYTES];
    long point = -1, badge = 0, ports[PORTS];
    pthread_t caller, reader;
    int e = run(put, NULL, 0, 0) ?: run(share, &point, KD_SNAPSHOT, 0) ?: run(put, NULL, 0, 0);
    uint64_t before = memory_used();
    for (int i = 0; i < PORTS; i++)
        ports[i] = kd_call3(KD_PORT_CREATE, 0, 0, 0);
    call_at = (int)ports[0];
    badge = kd_call3(KD_BADGE_CREATE, call_at, 1, KD_RIGHT_CALL);
    (void)!pipe(reads);
    pthread_create(&caller, NULL, calls, data);
    pthread_create(&reader, NULL, waits, line);
    while (memory_used() < before + DATA_BYTES)
        pause_ms(1);
    sum("with a call that has data, a read, badges, ports and an old version");
    for (int i = 0; i < PORTS; i++)
        kd_call3(KD_HANDLE_CLOSE, ports[i], 0, 0);
    kd_call3(KD_HANDLE_CLOSE, badge, 0, 0);
    kd_call3(KD_HANDLE_CLOSE, point, 0, 0);
    (void)!write(reads[1], "x", 1);
    pthread_join(caller, NULL);
    pthread_join(reader, NULL);
    close(reads[0]);
    close(reads[1]);
    e = e ?: (int)kd_call3(KD_SPACE_DETACH, getpid(), object, 0);
    tap_ok(e == 0 && point >= 0 && badge >= 0, "all of that was there: %d, %ld, %ld", e, point,
           badge);
}

/* ---- what a call has while a copy to or from its caller's memory waits for a page ---- */

enum { LOOK_BYTES = 1 << 20, LONG_BYTES = 1 << 16, ASKED = 16 };
static struct kd_object_create slow = {.pages = 2 * ASKED, .name = "slow"};
static void *looks(void *unused)
{
    kd_call4(KD_LOOK, KD_LOOK_MAP, getpid(), (long)slow.base, LOOK_BYTES);
    return unused;
}

/* There is no such program, and its second argument is in that memory. */
static void *starts(void *unused)
{
    static char first[4000];
    const char *argv[] = {first, (const char *)slow.base + ASKED * KD_PAGE_BYTES, NULL};
    struct kd_process_create p = {.path = "/none", .argv = argv, .fds = {-1, -1, -1}};
    memset(first, 'x', sizeof first - 1);
    kd_call3(KD_PROCESS_CREATE, (long)&p, 0, 0);
    return unused;
}

/* The page comes when this process has looked at what is charged. */
static void while_it_waits(int at, void *(*call)(void *), uint64_t bytes, const char *what)
{
    uint64_t before = memory_used();
    struct kd_message m = {.handle = -1};
    struct kd_supply s = {.object = at, .source = KD_SUPPLY_ZERO, .rights = KD_READ | KD_WRITE,
                          .count = ASKED};
    pthread_t t;
    pthread_create(&t, NULL, call, NULL);
    long e = kd_call3(KD_PORT_RECEIVE, slow.port, (long)&m, -1);
    uint64_t waiting = memory_used();
    s.page = m.word[1];
    e = e ?: kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
    pthread_join(t, NULL);
    tap_ok(e == 0 && waiting >= before + bytes && memory_used() < before + bytes / 2,
           "%s is charged while it waits: %llu, %llu, %llu KiB", what,
           (unsigned long long)before >> 10, (unsigned long long)waiting >> 10,
           (unsigned long long)memory_used() >> 10);
}

static void copies_that_wait(void)
{
    slow.port = slow.commit_port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    int at = (int)kd_call3(KD_OBJECT_CREATE, (long)&slow, 0, 0);
    is(kd_call3(KD_SPACE_ATTACH, getpid(), at, KD_RIGHT_READ | KD_RIGHT_WRITE), 0, "slow memory");
    while_it_waits(at, looks, LOOK_BYTES, "a text for people");
    while_it_waits(at, starts, LONG_BYTES, "what a new program is given");
    kd_call3(KD_HANDLE_CLOSE, slow.port, 0, 0);
}

/* ---- threads ---- */

/* The stack of a thread that has ended is free a little later: a look may meet that. */
static _Atomic bool over;
static void *ends(void *arg) { return arg; }
static void *threads_end(void *unused)
{
    for (pthread_t t; !over; pause_ms(4))
        if (pthread_create(&t, NULL, ends, unused) == 0) pthread_join(t, NULL);
    return NULL;
}
static void while_threads_end(void)
{
    enum { LOOKS = 100 };
    pthread_t t;
    int wrong = 0;
    pthread_create(&t, NULL, threads_end, NULL);
    for (int i = 0; i < LOOKS && !wrong; i++) wrong += kd_call3(KD_CHECK, 1, 0, 0) != 0;
    over = true;
    pthread_join(t, NULL);
    is(wrong, 0, "and while threads end");
}

int main(void)
{
    tap_plan(16);
    sum("before anything");
    is(start_manager((struct own_manager){.pages = PAGES}), true, "a manager");
    sum("when there is one");
    tables_of_forgotten_memory();
    leaves_of_dead_objects();
    pipes_of_all();
    all_at_once();
    copies_that_wait();
    while_threads_end();
    sum("in the end");
    return tap_end();
}
