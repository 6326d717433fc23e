/*
 * kernel_badges.c - badges of ports: numbers and rights that the kernel attests with each call
 * (tests/model/rights.md: RT1 to RT5).
 *
 * Aim     A server hears by which badge a call comes and with which rights, and nobody can make it
 *         hear anything else: not by forged handles, rights that grow, badges of a port of his own,
 *         a badge that has ended, wherever its handles are then and whichever calls wait. Who was
 *         given a badge, and no names, reaches nothing else. And 100,000 random calls do what a
 *         reference monitor says.
 * Method  This process is the server, and starts itself as client with what each test passes.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "process.h"
#include "system.h"
#include "tap.h"

enum { OPEN = KD_RIGHT_OWN, WRITE = KD_RIGHT_OWN << 1 };
enum { ALL = KD_RIGHT_CALL | KD_RIGHT_GRANT | OPEN | WRITE };
enum { ASK = 1, STOP };
#define HELD_FILE "/tmp/kernel_badges.held"
enum { RANDOM_CALLS = 100000, RACES = 200, SOON_MS = 500 };

static int port;
static const char *self;

static long badge_of(long at, uint64_t value, unsigned rights)
{
    return kd_call3(KD_BADGE_CREATE, at, (long)value, rights);
}
static long badge_end(uint64_t value) { return kd_call3(KD_BADGE_END, port, (long)value, 0); }
static long copy(long handle, unsigned rights)
{
    return kd_call3(KD_HANDLE_COPY, handle, rights, 0);
}
static void drop(long handle)
{
    if (handle >= 0) kd_call3(KD_HANDLE_CLOSE, handle, 0, 0);
}
static long read_badge(long handle, uint64_t out[2])
{
    return kd_call3(KD_BADGE_READ, port, handle, (long)out);
}

/* A call that nobody need receive. */
static long called(long handle)
{
    struct kd_message m = {.kind = ASK, .handle = -1};
    return kd_call3(KD_PORT_CALL_UNTIL, handle, (long)&m, SOON_MS);
}

/* ---- the server: answers what it heard, and what the handle is that came along ---- */

static void *server(void *unused)
{
    struct kd_message m = {.handle = -1};
    while (kd_call3(KD_PORT_RECEIVE, port, (long)&m, -1) == 0) {
        struct kd_message reply = {.handle = -1, .word = {m.badge, m.badge_rights}};
        uint64_t of[2] = {0};
        reply.word[2] = (uint64_t)(m.handle < 0 ? m.handle : read_badge(m.handle, of));
        memcpy(&reply.word[3], of, sizeof of);
        drop(m.handle);
        kd_call3(KD_PORT_REPLY, (long)m.token, (long)&reply, 0);
        if (m.kind == STOP) break;
    }
    return unused;
}

/* Calls by a handle, with a handle of these rights; the answer, or -errno as its status. */
static struct kd_message ask_with(long by, uint32_t kind, long handle, unsigned rights)
{
    struct kd_message m = {.kind = kind, .handle = (int)handle, .handle_rights = rights};
    long r = kd_call3(KD_PORT_CALL, by, (long)&m, 0);
    m.status = (int)r;
    return m;
}
static struct kd_message ask(long by) { return ask_with(by, ASK, -1, 0); }
static bool hears(long by, uint64_t value, unsigned rights)
{
    struct kd_message m = ask(by);
    return m.status == 0 && m.word[0] == value && m.word[1] == rights;
}

static pthread_t serving;
static void serve(void) { pthread_create(&serving, NULL, server, NULL); }
static void serve_no_more(void)
{
    ask_with(port, STOP, -1, 0);
    pthread_join(serving, NULL);
}

/* ---- clients in processes of their own; handle 0 is what they were given ---- */

/* The exit status is the line of the first that was wrong. */
#define WANT(good) do { if (!(good)) exit(__LINE__ % 250 + 1); } while (0)

static long start(const char *role, int handle, unsigned rights, unsigned flags)
{
    const char *argv[] = {self, role, NULL};
    struct kd_process_create p = {.path = "/bin/kernel_badges", .argv = argv, .fds = {-1, -1, -1},
                                  .flags = flags, .handle_count = 1, .handles = {handle},
                                  .handle_rights = {rights}};
    long h = kd_call3(KD_PROCESS_CREATE, (long)&p, 0, 0);
    drop(h);
    return h < 0 ? h : child_wait(p.pid);
}

static int role_reads(void)
{
    WANT(hears(0, 7, KD_RIGHT_CALL | OPEN));
    WANT(copy(0, KD_RIGHT_CALL | WRITE) == -EACCES && copy(0, ALL) == -EACCES);
    WANT(copy(0, ~0u) == -EACCES && copy(0, KD_RIGHT_GRANT) == -EACCES);
    long less = copy(0, KD_RIGHT_CALL);
    WANT(less > 0 && hears(less, 7, KD_RIGHT_CALL));
    WANT(copy(less, KD_RIGHT_CALL | OPEN) == -EACCES);
    WANT((int64_t)ask_with(0, ASK, 0, KD_RIGHT_CALL).word[2] == -EACCES); /* no right to grant */
    WANT(start("reads", 0, 0, 0) == -EACCES);
    return 0;
}

static int role_grants(void)
{
    struct kd_message m = ask_with(0, ASK, 0, KD_RIGHT_CALL | OPEN);
    WANT(m.status == 0 && m.word[2] == 0 && m.word[3] == 7);
    WANT(m.word[4] == (KD_RIGHT_CALL | OPEN));
    WANT((int64_t)ask_with(0, ASK, 0, ~0u).word[2] == -EACCES);
    WANT(start("reads", 0, KD_RIGHT_CALL | OPEN, 0) == 0);
    WANT(start("reads", 0, ~0u, 0) == -EACCES);
    return 0;
}

/* It may not receive; what it makes is heard by itself alone. */
static int role_forges(void)
{
    long own = kd_call3(KD_PORT_CREATE, 0, 0, 0), forged = badge_of(own, 7, ALL);
    uint64_t of[2];
    WANT(own > 0 && forged > 0);
    WANT(badge_of(0, 7, ALL) == -EBADF && kd_call3(KD_BADGE_END, 0, 7, 0) == -EBADF);
    WANT(kd_call3(KD_BADGE_READ, 0, forged, (long)of) == -EBADF);
    WANT(kd_call3(KD_BADGE_READ, own, 0, (long)of) == -EXDEV);
    WANT(kd_call3(KD_BADGE_READ, own, forged, (long)of) == 0 && of[0] == 7 && of[1] == ALL);
    struct kd_message m = ask_with(0, ASK, forged, ALL);
    WANT(m.status == 0 && (int64_t)m.word[2] == -EXDEV);
    struct kd_message says = {.kind = ASK, .handle = -1, .badge = 99, .badge_rights = ALL};
    WANT(kd_call3(KD_PORT_CALL, 0, (long)&says, 0) == 0 && says.word[0] == 7);
    for (int h = -2; h < 300; h++)
        WANT(h == 0 || h == own || h == forged || ask(h).status == -EBADF);
    return 0;
}

static void no_names(void)
{
    WANT(kd_call3(KD_NAME_FIND, (long)"badges", 0, 0) == -EPERM);
    WANT(kd_call3(KD_NAME_FIND, (long)"no such name", 0, 0) == -EPERM);
}
static int role_confined(void)
{
    no_names();
    WANT(hears(0, 7, ALL));
    pid_t pid = fork();
    if (pid == 0) {
        no_names();
        WANT(ask(0).status == -EBADF);
        _exit(0);
    }
    WANT(pid > 0 && child_wait(pid) == 0);
    WANT(start("confined too", 0, 0, 0) == 0);
    return 0;
}
static int role_confined_too(void)
{
    no_names();
    return !hears(0, 7, ALL);
}

/* For `caps` and `trace --rights` (tests/system/look.sh): a badge that a child uses; or one that is
 * held until this process is killed. */
static int role_brief(void)
{
    port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    long all = badge_of(port, 7, ALL);
    serve();
    WANT(start("grants", (int)all, 0, 0) == 0);
    serve_no_more();
    WANT(badge_end(7) == 1);
    return 0;
}
static int role_holds(void)
{
    port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    WANT(badge_of(port, 4711, ALL) > 0);
    close(open(HELD_FILE, O_CREAT | O_WRONLY, 0600));
    for (;;) pause();
}
static int role_held(void) /* waits until the one before holds it */
{
    while (access(HELD_FILE, F_OK)) sched_yield();
    return 0;
}

static int role(const char *what)
{
    if (strcmp(what, "brief") == 0) return role_brief();
    if (strcmp(what, "holds") == 0) return role_holds();
    if (strcmp(what, "held") == 0) return role_held();
    if (strcmp(what, "reads") == 0) return role_reads();
    if (strcmp(what, "grants") == 0) return role_grants();
    if (strcmp(what, "forges") == 0) return role_forges();
    if (strcmp(what, "confined") == 0) return role_confined();
    return role_confined_too();
}

/* ---- tests ---- */

static long same(long a, long b) { return kd_call3(KD_PORT_SAME, a, b, 0); }

static void test_rights(void)
{
    long all = badge_of(port, 7, ALL), reader = copy(all, KD_RIGHT_CALL | OPEN);
    tap_ok(hears(all, 7, ALL) && hears(reader, 7, KD_RIGHT_CALL | OPEN),
           "number and rights are heard");
    struct kd_message plain = ask_with(port, ASK, all, ALL);
    tap_ok(hears(port, 0, 0) && plain.status == 0 && plain.word[0] == 0 && plain.word[1] == 0,
           "a call by the port's own handle has neither");
    long mute = copy(all, KD_RIGHT_GRANT);
    is(ask(mute).status, -EACCES, "without the right to call: nothing");
    is(kd_call3(KD_PORT_NOTIFY, all, 1, 0), -EBADF, "a badge is no port");
    is(start("grants", (int)all, 0, 0), 0, "rights go along, in messages and to children");
    is(start("reads", (int)all, KD_RIGHT_CALL | OPEN, 0), 0, "and never grow");
    is(start("forges", (int)all, 0, 0), 0, "forged handles and badges of one's own port");
    is(start("confined", (int)all, 0, KD_PROCESS_CONFINED), 0, "without names, children too");
    is(start("confined", (int)all, 0, 4), -EINVAL, "a flag that there is not");
    is(badge_of(port, 1, 0), -EINVAL, "a badge without the right to call");
    is(badge_of(port, 1, KD_RIGHT_CALL | KD_RIGHT_RECEIVE), -EINVAL, "or with that to receive");
    long own = kd_call3(KD_PORT_CREATE, 0, 0, 0), other = badge_of((int)own, 7, ALL);
    tap_ok(same(all, port) == 0 && same(port, reader) == 0 && same(all, reader) == 0 &&
               same(other, own) == 0,
           "which port a handle is of is told to who has one of it");
    tap_ok(same(all, own) == -EXDEV && same(other, port) == -EXDEV && same(all, other) == -EXDEV &&
               same(mute, all) == -EACCES && same(all, mute) == -EACCES && same(200, all) == -EBADF,
           "and nothing about others");
    is(kd_call3(KD_BADGE_END, own, 7, 0), 1, "a badge ends");
    is(same(own, other), -EIDRM, "and is of no port");
    drop(all), drop(mute), drop(reader), drop(own), drop(other);
}

/* ---- who pays: the port's owner, whoever holds the handles ---- */

enum { A_FRAME = 64, HELD = 2 * A_FRAME };      /* 64 badges are charged as a frame */

static uint64_t memory_used(void) { return process_self().used[KD_LIMIT_MEMORY]; }

static long badges_until(long handles[], int most, uint64_t limit)
{
    struct rlimit was, now;
    int n = 0;
    getrlimit(KD_RLIMIT + KD_LIMIT_MEMORY, &was);
    now = (struct rlimit){limit ? limit : was.rlim_cur, was.rlim_max};
    setrlimit(KD_RLIMIT + KD_LIMIT_MEMORY, &now);
    while (n < most && (handles[n] = badge_of(port, 3, ALL)) >= 0) n++;
    setrlimit(KD_RLIMIT + KD_LIMIT_MEMORY, &was);
    return n < most ? handles[n] : 0;
}

static void test_charge(void)
{
    static long held[HELD], more[HELD];
    memset(more, -1, sizeof more);
    uint64_t before = memory_used();
    is(badges_until(held, HELD, 0), 0, "badges are made");
    uint64_t used = memory_used();
    is((long)(used - before), HELD / A_FRAME * 4096, "their port's owner pays for them");
    is(badges_until(more, HELD, used), -ENOMEM, "and makes none beyond its limit of memory");
    long more_of_them = 0;
    for (int i = 0; i < HELD; i++) more_of_them += more[i] >= 0;
    is(badge_end(3), HELD + more_of_them, "all of a number end, however many");
    tap_ok(called(held[0]) == -EIDRM && called(held[HELD - 1]) == -EIDRM,
           "the first and the last");
    for (int i = 0; i < HELD; i++) drop(held[i]), drop(more[i]);
    is((long)memory_used(), (long)before, "until they are gone");
}

/* ---- the end of a badge ---- */

static void *ask_thread(void *by) { return (void *)(long)ask((long)by).status; }

/* Does a call of this process's wait at a port, received by nobody? */
static bool is_queued(void)
{
    static char text[16384];
    long n = kd_call4(KD_LOOK, KD_LOOK_THREADS, getpid(), (long)text, sizeof text - 1);
    text[n > 0 ? n : 0] = 0;
    return strstr(text, "  at 0") != NULL;
}

/* What `handles PID` shows. */
static void test_look(void)
{
    static char text[32768];
    long h = badge_of(port, 4711, KD_RIGHT_CALL | WRITE);
    long n = kd_call4(KD_LOOK, KD_LOOK_HANDLES, getpid(), (long)text, sizeof text - 1);
    text[n > 0 ? n : 0] = 0;
    tap_ok(strstr(text, "badge    --c---  4711, own 2  of kernel_badges[") != NULL,
           "number, rights and whose it is are shown");
    drop(h);
}

static void test_queued(long reader)
{
    struct kd_message m = {.handle = -1};
    void *status;
    pthread_t t;
    pthread_create(&t, NULL, ask_thread, (void *)reader);
    while (!is_queued()) sched_yield();
    is(badge_end(8), 2, "both badges of this number end");
    is(badge_end(8), 0, "once");
    is(kd_call3(KD_PORT_RECEIVE, port, (long)&m, 0), -EAGAIN,
       "the call that waited is not received");
    pthread_join(t, &status);
    is((long)status, -EIDRM, "its caller hears it");
}

static void test_end(void)
{
    long all = badge_of(port, 8, ALL), twin = badge_of(port, 8, ALL);
    long other = badge_of(port, 9, ALL);
    long reader = copy(all, KD_RIGHT_CALL | OPEN);
    uint64_t of[2];
    test_queued(reader);
    is(read_badge(all, of), -EIDRM, "and they are read no more");
    long again = copy(all, KD_RIGHT_CALL);
    is(called(all), -EIDRM, "a call by one fails at once, though nobody receives");
    serve();
    tap_ok(ask(all).status == -EIDRM && ask(reader).status == -EIDRM && ask(twin).status == -EIDRM,
           "calls by them fail");
    tap_ok(again >= 0 && ask(again).status == -EIDRM, "so do copies");
    tap_ok(hears(other, 9, ALL), "another badge is as before");
    is((long)ask_with(other, ASK, all, ALL).word[2], -EIDRM, "a message may bring it: it is dead");
    is(start("reads", (int)all, KD_RIGHT_CALL | OPEN, 0) > 0, 1, "in a child, too");
    long fresh = badge_of(port, 8, ALL);
    tap_ok(hears(fresh, 8, ALL) && ask(all).status == -EIDRM,
           "a new one of the number wakes no old one");
    serve_no_more();
    drop(all), drop(other), drop(twin), drop(reader), drop(again), drop(fresh);
}

/* A handle that is in a message when its badge ends arrives, and is worth nothing. */
static void *sends(void *both)
{
    const long *h = both;
    return (void *)(long)ask_with(h[0], ASK, h[1], ALL).status;
}

static void test_in_flight(void)
{
    long by = badge_of(port, 1, ALL), gone = badge_of(port, 2, ALL), both[2] = {by, gone};
    struct kd_message m = {.handle = -1}, reply = {.handle = -1};
    pthread_t t;
    pthread_create(&t, NULL, sends, both);
    while (!is_queued()) sched_yield();
    drop(gone);                         /* the message holds the last reference */
    badge_end(2);
    is(kd_call3(KD_PORT_RECEIVE, port, (long)&m, 0), 0, "the message comes");
    tap_ok(m.badge == 1 && m.handle >= 0 && ask(m.handle).status == -EIDRM,
           "its handle is worth nothing");
    kd_call3(KD_PORT_REPLY, (long)m.token, (long)&reply, 0);
    pthread_join(t, NULL);
    drop(m.handle), drop(by);
}

/* Another thread calls again and again: when the end has returned, no call by it is received. */
static _Atomic long racing;
static void *races(void *unused)
{
    while (racing != -1) ask(racing);
    return unused;
}

/* Answers what is there, at most `count`; how many of them came by the badge. */
static int answered(uint64_t value, int count)
{
    struct kd_message m = {.handle = -1}, reply = {.handle = -1};
    int by = 0;
    while (count-- > 0 && kd_call3(KD_PORT_RECEIVE, port, (long)&m, 0) == 0) {
        by += m.badge == value;
        kd_call3(KD_PORT_REPLY, (long)m.token, (long)&reply, 0);
    }
    return by;
}

static void test_races(void)
{
    pthread_t t;
    int late = 0;
    racing = -2;
    pthread_create(&t, NULL, races, NULL);
    for (int i = 0; i < RACES; i++) {
        uint64_t value = 100 + (uint64_t)i;
        racing = badge_of(port, value, ALL);
        while (!answered(value, 1)) sched_yield();
        (void)answered(value, i % 8);
        badge_end(value);
        late += answered(value, 1000);
        drop(racing);
    }
    racing = -1;
    while (pthread_tryjoin_np(t, NULL) != 0) (void)answered(0, 1000);
    is(late, 0, "behind the end no call by it is received");
}

/* ---- random calls against a reference monitor ---- */

enum { SLOTS = 60, NUMBERS = 12 };
static struct known { bool used, ended; uint64_t value; unsigned rights; long handle; } slot[SLOTS];
static uint64_t seed = 0x9e3779b97f4a7c15;

static unsigned dice(unsigned sides)
{
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return (unsigned)(seed >> 33) % sides;
}

static bool one_end(uint64_t value)
{
    long ended = badge_end(value), live = 0;
    for (int i = 0; i < SLOTS; i++)
        if (slot[i].used && slot[i].value == value && !slot[i].ended) slot[i].ended = true, live++;
    return live ? ended > 0 && ended <= live : ended == 0; /* several handles may be of one badge */
}

/* One random call; is its result what the monitor says? */
static bool one(struct known *from, struct known *to)
{
    static const unsigned masks[] = {KD_RIGHT_CALL, KD_RIGHT_GRANT, OPEN, WRITE, ALL,
                                     KD_RIGHT_CALL | WRITE, KD_RIGHT_CALL | KD_RIGHT_GRANT | OPEN};
    unsigned rights = masks[dice(sizeof masks / sizeof masks[0])], what = dice(50);
    uint64_t value = dice(NUMBERS), of[2] = {0};
    long r = read_badge(from->handle, of);
    if (!from->used ? r != -EBADF
        : from->ended ? r != -EIDRM : r != 0 || of[0] != from->value || of[1] != from->rights)
        return false;
    if (what == 0) return one_end(value);
    if (what < 15 && from->used) {
        r = kd_call3(KD_HANDLE_CLOSE, from->handle, 0, 0);
        *from = (struct known){.handle = -1};
        return r == 0;
    }
    if (to->used) return true;
    if (what < 30 && from->used) {
        r = copy(from->handle, rights);
        if (rights & ~from->rights) return r == -EACCES;
        *to = *from;
    } else {
        r = badge_of(port, value, rights);
        if (!(rights & KD_RIGHT_CALL)) return r == -EINVAL;
        *to = (struct known){.used = true, .value = value};
    }
    to->rights = rights;
    to->handle = r;
    return r >= 0;
}

static void test_random(void)
{
    int good = 0;
    for (int i = 0; i < SLOTS; i++) slot[i].handle = -1;
    for (int i = 0; i < RANDOM_CALLS; i++) good += one(&slot[dice(SLOTS)], &slot[dice(SLOTS)]);
    is(good, RANDOM_CALLS, "random calls do what the monitor says");
    for (int i = 0; i < SLOTS; i++) drop(slot[i].handle);
}

static void test_port_ends(void)
{
    long at = kd_call3(KD_PORT_CREATE, 0, 0, 0), by = badge_of(at, 5, ALL);
    drop(at);
    is(ask(by).status, -EOWNERDEAD, "a badge of a port that died");
    is(start("reads", (int)by, 0, 0) > 0, 1, "which is passed on as any other");
    drop(by);
}

int main(int argc, char **argv)
{
    self = argv[0];
    if (argc > 1) return role(argv[1]);
    tap_plan(42);
    port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    uint64_t handles = process_self().used[KD_LIMIT_HANDLES];
    serve();
    test_rights();
    serve_no_more();
    test_charge();
    test_look();
    test_end();
    test_in_flight();
    test_races();
    test_random();
    test_port_ends();
    is((long)process_self().used[KD_LIMIT_HANDLES], (long)handles, "no handle is left");
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck");
    return tap_end();
}
