/*
 * kernel_dying.c - what a program sees that hears of its manager's death (begin, BG3 and BG4).
 *
 * Aim     who was told that the manager of a commit is dead begins no transaction in which pages of
 *         that manager are still there: somebody else may have changed them since. Who has used an
 *         item of it does not commit. Who attaches what comes to its addresses sees nothing of it,
 *         and who has nothing of it does not wait for its end. No snapshot of a point before the
 *         death sees what comes to these addresses, but each one of a later point. A manager that
 *         attaches for a client waits for no object that dies there.
 * Method  this process is manager and client of many objects at one port. The manager receives a
 *         commit and closes the port; objects die one after the other, with others' turns between.
 *         The client, on another CPU, reads a page of each when its commit has ended. Of items: the
 *         client commits as soon as the port is dead; the object of its item is the last to go.
 */
#include <signal.h>
#include <sys/wait.h>

#include "own_manager.h"

enum { OBJECTS = 150, TIMES = 10 };

static int at_port, objects[OBJECTS];
static uint64_t at[OBJECTS];

static int read_all(void *seen)
{
    for (unsigned i = 0; i < OBJECTS; i++) {
        (void)*(volatile uint64_t *)at[i];
        ++*(volatile unsigned *)seen;
    }
    return 0;
}

static int write_first(void *unused)
{
    *(volatile uint64_t *)at[0] += 1;
    return unused != NULL;
}

/* The manager: it dies with the first commit. */
static void *manages(void *unused)
{
    uint8_t buffer[KD_PAGE_BYTES];
    struct kd_message m;
    do
        m = (struct kd_message){.buffer = buffer, .buffer_bytes = sizeof buffer, .handle = -1};
    while (!kd_call3(KD_PORT_RECEIVE, at_port, (long)&m, -1) && m.kind != (uint32_t)KD_MSG_COMMIT);
    kd_call3(KD_HANDLE_CLOSE, at_port, 0, 0);
    return unused;
}

static bool made(uint32_t flags)
{
    bool good = (at_port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0)) >= 0;
    for (unsigned i = 0; i < OBJECTS && good; i++) {
        struct kd_object_create c = {.port = at_port, .commit_port = at_port, .pages = 1,
                                     .flags = KD_OBJECT_TRANSACTIONAL | flags, .name = "dying"};
        objects[i] = (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
        at[i] = c.base;
        struct kd_supply s = {.object = objects[i], .source = KD_SUPPLY_ZERO, .count = 1,
                              .rights = KD_READ | KD_WRITE};
        good = objects[i] >= 0 && kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0) == 0 &&
               kd_call3(KD_SPACE_ATTACH, getpid(), objects[i], KD_RIGHT_READ | KD_RIGHT_WRITE) == 0;
    }
    return good;
}

static void unmade(void)
{
    for (unsigned i = 0; i < OBJECTS; i++) {
        kd_call3(KD_SPACE_DETACH, getpid(), objects[i], 0);
        kd_call3(KD_HANDLE_CLOSE, objects[i], 0, 0);
    }
}

static void *closes(void *unused)
{
    kd_call3(KD_HANDLE_CLOSE, at_port, 0, 0);
    return unused;
}

/* The body's item lock is one that nobody else needs: only the death ends it. */
static int item_used(void *port)
{
    pthread_t t;
    long e = kd_call3(KD_ITEM_LOCK, (long)at[0], 0, KD_ITEM_S);
    if (e) return 1;
    (void)*(volatile uint64_t *)at[0];
    pthread_create(&t, NULL, closes, NULL);
    pthread_detach(t);
    while (kd_call3(KD_PORT_OWNER, *(int *)port, 0, 0) >= 0) continue;
    return 0;
}

static int items_die(void)
{
    int good = made(KD_OBJECT_ITEMS);
    int port = (int)kd_call3(KD_HANDLE_COPY, at_port, KD_RIGHT_CALL, 0);
    int result = run(item_used, &port, KD_SERIALISABLE, 0);
    unmade();
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    return good ? result : 1;
}

/* ---- what comes to the same addresses ---- */

enum { WIDE = 4096, PIECE = 64 };
static uint64_t wide;

static long wide_made(int port, uint64_t base, uint8_t value)
{
    static uint8_t bytes[PIECE * KD_PAGE_BYTES];
    struct kd_object_create c = {.port = port, .commit_port = port, .pages = WIDE, .base = base,
                                 .flags = KD_OBJECT_TRANSACTIONAL, .name = "wide"};
    long object = kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    wide = c.base;
    memset(bytes, value, sizeof bytes);
    for (uint64_t i = 0; i < WIDE && object >= 0; i += PIECE) {
        struct kd_supply s = {.object = (int)object, .source = KD_SUPPLY_MEMORY, .page = i,
                              .count = PIECE, .memory = bytes,
                              .rights = KD_READ | KD_WRITE};
        if (kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0)) return -1;
    }
    return object;
}

static int read_wide(void *values)
{
    for (uint64_t i = 0; i < WIDE; i++)
        ((unsigned *)values)[*(volatile uint8_t *)(wide + i * KD_PAGE_BYTES)]++;
    return 0;
}

/* The next manager's object is attached as soon as the one before is dead: its pages are read, and
 * none of the other's, to which this view has rights still. How many of these there were. */
static int others_read(void)
{
    pthread_t t;
    unsigned values[3] = {0};
    at_port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    int next = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0), copy;
    long first = wide_made(at_port, 0, 1), second;
    kd_call3(KD_SPACE_ATTACH, getpid(), first, KD_RIGHT_READ | KD_RIGHT_WRITE);
    bool good = run(read_wide, values, KD_SERIALISABLE, 0) == 0 && values[1] == WIDE;
    second = wide_made(next, wide, 2);
    copy = (int)kd_call3(KD_HANDLE_COPY, at_port, KD_RIGHT_CALL, 0);
    pthread_create(&t, NULL, closes, NULL);
    while (kd_call3(KD_PORT_OWNER, copy, 0, 0) >= 0) continue;
    while (kd_call3(KD_SPACE_ATTACH, getpid(), second, KD_RIGHT_READ) == -EEXIST) continue;
    values[1] = 0;
    int e = run(read_wide, values, KD_SERIALISABLE, 0);
    pthread_join(t, NULL);
    if (e || !good) return -1;
    kd_call3(KD_HANDLE_CLOSE, copy, 0, 0);
    kd_call3(KD_SPACE_DETACH, getpid(), second, 0);
    kd_call3(KD_HANDLE_CLOSE, next, 0, 0);
    kd_call3(KD_HANDLE_CLOSE, first, 0, 0);
    kd_call3(KD_HANDLE_CLOSE, second, 0, 0);
    return (int)values[1];
}

enum { BESIDE = 600 }; /* objects of its port, which go before the one that is looked at */

/* What a manager attaches for another process: while something dies there, that is refused at once.
 * Of TIMES deaths, how many were met; -1: it was refused also when that had gone. */
static int met_by_manager(void)
{
    int met = 0, pid = fork(), e = pid < 0;
    if (pid == 0)
        for (;;) pause();
    for (int n = 0; n < TIMES && !e; n++) {
        pthread_t t;
        bool refused = false;
        at_port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
        int next = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
        int copy = (int)kd_call3(KD_HANDLE_COPY, at_port, KD_RIGHT_CALL, 0);
        long first = wide_made(at_port, 0, 1), second = wide_made(next, wide, 2);
        kd_call3(KD_SPACE_ATTACH, pid, first, KD_RIGHT_READ);
        for (int i = 0; i < BESIDE; i++) {
            struct kd_object_create c = {.port = at_port, .commit_port = at_port, .pages = 1,
                                         .flags = KD_OBJECT_TRANSACTIONAL};
            kd_call3(KD_HANDLE_CLOSE, kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0), 0, 0);
        }
        pthread_create(&t, NULL, closes, NULL);
        while (kd_call3(KD_PORT_OWNER, copy, 0, 0) >= 0) continue;
        while ((e = (int)kd_call3(KD_SPACE_ATTACH, pid, second, KD_RIGHT_READ)) == -EINPROGRESS)
            refused = true;
        met += refused;
        pthread_join(t, NULL);
        kd_call3(KD_SPACE_DETACH, pid, second, 0);
        kd_call3(KD_HANDLE_CLOSE, next, 0, 0);
        kd_call3(KD_HANDLE_CLOSE, copy, 0, 0);
        kd_call3(KD_HANDLE_CLOSE, first, 0, 0);
        kd_call3(KD_HANDLE_CLOSE, second, 0, 0);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return e ? -1 : met;
}

/* ---- points of before ---- */

static int next_port, point;
static long wide_object;

/* What comes to these addresses is of this value. */
static bool wide_next(int port, uint8_t value)
{
    wide_object = wide_made(port, wide, value);
    return kd_call3(KD_SPACE_ATTACH, getpid(), wide_object, KD_RIGHT_READ) == 0;
}

/* It goes, and nobody has it attached any more. */
static long wide_gone(int unused)
{
    kd_call3(KD_SPACE_DETACH, getpid(), wide_object, 0);
    return kd_call3(KD_OBJECT_DESTROY, wide_object, unused, 0);
}

static int share_point(void *value)
{
    *(int *)value = *(volatile uint8_t *)wide;
    point = (int)kd_call3(KD_SNAPSHOT_SHARE, 0, 0, 0);
    return point < 0;
}

static int read_value(void *value)
{
    *(int *)value = *(volatile uint8_t *)wide;
    return 0;
}

/* What a snapshot sees, of the point or of now; -errno if it ends. */
static int seen_at(int shared)
{
    int value = 0;
    const struct kd_begin there = {.mode = KD_SNAPSHOT, .snapshot = shared};
    int e = run_like(read_value, &value, &there);
    return e ? e : value;
}

static void points(void)
{
    int value = 0;
    at_port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    next_port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    wide = 0;
    bool good = wide_next(at_port, 1) && run(share_point, &value, KD_SNAPSHOT, 0) == 0;
    is(good && value == 1 && wide_gone(1) == 0 && wide_next(at_port, 1) && seen_at(point + 1) == 1,
       1, "what nobody used comes back as it was: a point of before sees it");
    kd_call3(KD_SPACE_DETACH, getpid(), wide_object, 0);
    closes(NULL);
    good = wide_next(next_port, 2);
    is(seen_at(point + 1), -ESTALE, "what the next manager has there, no point of before sees");
    is(good ? seen_at(0) : -1, 2, "but the next snapshot does");
    kd_call3(KD_HANDLE_CLOSE, point, 0, 0);
}

/* A begin tells the ticket, and waits for that page: then the object dies, and another one comes,
 * before the snapshot runs that has its point. */
static int tell_port, tell_object;
static jmp_buf ended;

static void ends(long reason) { longjmp(ended, (int)reason); }

static void *waits_to_tell(void *unused)
{
    struct kd_message m = {.handle = -1};
    while (!kd_call3(KD_PORT_RECEIVE, tell_port, (long)&m, -1) && m.kind != (uint32_t)KD_MSG_PAGE)
        m = (struct kd_message){.handle = -1};
    kd_call3(KD_OBJECT_DESTROY, wide_object, 0, 0);
    bool good = wide_next(next_port, 3);
    if (good) kd_call4(KD_OBJECT_GRANT, tell_object, 0, 1, KD_READ | KD_WRITE);
    return unused;
}

static int tells_late(void)
{
    static uint8_t page[KD_PAGE_BYTES], stack[8192] __attribute__((aligned(16)));
    struct kd_begin begin = {.mode = KD_SNAPSHOT, .entry = (uint64_t)ends,
                             .stack = (uint64_t)(stack + sizeof stack - 8)};
    struct kd_object_create c = {.pages = 1};
    pthread_t t;
    c.port = c.commit_port = tell_port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    tell_object = (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    memcpy(page, &begin, sizeof begin);
    struct kd_supply s = {.object = tell_object, .source = KD_SUPPLY_MEMORY, .count = 1,
                          .memory = page, .rights = KD_READ};
    if (kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0) ||
        kd_call3(KD_SPACE_ATTACH, getpid(), tell_object, KD_RIGHT_READ | KD_RIGHT_WRITE))
        return -1;
    pthread_create(&t, NULL, waits_to_tell, NULL);
    int e = setjmp(ended), value = 0;
    if (!e) {
        e = (int)kd_call3(KD_TXN_BEGIN, (long)c.base, 0, 0);
        if (!e) read_value(&value);
        kd_call3(KD_TXN_ABORT, ECANCELED, 0, 0);
    }
    pthread_join(t, NULL);
    wide_gone(0);
    kd_call3(KD_HANDLE_CLOSE, next_port, 0, 0);
    kd_call3(KD_HANDLE_CLOSE, tell_port, 0, 0);
    return e ? -e : value;
}

/* ---- deaths of others ---- */

enum { MANAGERS = 20, BEGINS = 300 };
static _Atomic bool over_with;
static _Atomic unsigned deaths;

/* A manager that begins and ends for ever: some thread of these is always in a death. */
static void *lives_and_dies(void *unused)
{
    while (!over_with) {
        int port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
        struct kd_object_create c = {.port = port, .commit_port = port, .pages = 4096,
                                     .flags = KD_OBJECT_TRANSACTIONAL};
        long object = kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
        kd_call3(KD_HANDLE_CLOSE, object, 0, 0);
        deaths += object >= 0 && kd_call3(KD_HANDLE_CLOSE, port, 0, 0) == 0;
    }
    return unused;
}

static int begins_beside(void)
{
    pthread_t t[MANAGERS];
    unsigned begun = 0, seen = 0;
    bool good = made(0);
    for (int i = 0; i < MANAGERS; i++) pthread_create(&t[i], NULL, lives_and_dies, NULL);
    while (deaths < MANAGERS) pause_ms(1);
    for (int i = 0; i < BEGINS; i++) begun += run(read_all, &seen, KD_SERIALISABLE, 0) == 0;
    over_with = true;
    for (int i = 0; i < MANAGERS; i++) pthread_join(t[i], NULL);
    kd_call3(KD_HANDLE_CLOSE, at_port, 0, 0);
    unmade();
    return good && seen == BEGINS * OBJECTS ? (int)begun : -1;
}

int main(void)
{
    unsigned late = 0;
    int good = 0, told = 0, over = 0, items = 0;
    tap_plan(13);
    for (int n = 0; n < TIMES; n++) {
        pthread_t t;
        unsigned seen = 0;
        good += made(0) && run(read_all, &seen, KD_SERIALISABLE, 0) == 0 && seen == OBJECTS;
        pthread_create(&t, NULL, manages, NULL);
        told += run(write_first, NULL, KD_SERIALISABLE, 0) == -EOWNERDEAD;
        seen = 0;
        over += run(read_all, &seen, KD_SERIALISABLE, 0) == -EOWNERDEAD;
        late += seen;
        pthread_join(t, NULL);
        unmade();
    }
    for (int n = 0; n < TIMES; n++) items += items_die() == -EOWNERDEAD;
    is(good, TIMES, "all pages are there");
    is(told, TIMES, "a commit hears that its manager died");
    is(over, TIMES, "so does the next transaction");
    is((long)late, 0, "which reads no page that was its");
    is(items, TIMES, "who has used an item of it does not commit");
    is(others_read(), 0, "who attaches what the next manager has there reads nothing older");
    int met = met_by_manager();
    tap_ok(met > 0, "who attaches for another process does not wait for that (%d of %d)", met,
           TIMES);
    points();
    is(tells_late(), -ESTALE, "nor does one see it that had its point, and did not run yet");
    is(begins_beside(), BEGINS, "who has no object of those that die does not wait for them");
    is(check(), 0, "kcheck");
    return tap_end();
}
