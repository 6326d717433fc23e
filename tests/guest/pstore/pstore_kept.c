/*
 * pstore_kept.c - what the store believes of the programs that serve containers, and what clients
 * have of them: segments, waits, handles.
 *
 * Aim     a container of several segments is served in all of them; while one's manager starts,
 *         other containers can be opened and closed; a call to a manager goes to no other port,
 *         whatever is closed meanwhile; and nobody serves a container whom the keeper has not
 *         started for it, though he knows its key. A call waits no longer than its transaction.
 *         Old versions of what a manager serves count for the limits of its container's directory.
 * Method  this program once more, as the manager. It tells the test where it is to be held:
 *         so each step happens when the test says so.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "manager.h"
#include "pstore_test.h"
#include "store_client.h"
#include "store_protocol.h"

#define SELF "/bin/pstore_kept"
enum { PAGES = 262144, SEGMENTS = 3, SEGMENTS_MAX = 12, HELD = 7 };

/* ---- the manager side ---- */

static struct km_object *object[SEGMENTS_MAX + 1];
static uint8_t home[SEGMENTS_MAX + 1][2][4096]; /* of each segment the first page and the last */

/* A manager is confined, so it meets the test in a container: who is held says so there, and goes
 * on when that is answered. */
struct gate { uint64_t asked, heard; char answered[64], text[256]; };
static ps_container *gate;

struct held { const char *text; uint64_t number; };

static int gate_ask(void *arg)
{
    struct held *h = arg;
    struct gate *g = ps_root(gate);
    if (!g) return -errno;
    if (g->asked != g->heard) ps_retry();
    snprintf(g->text, sizeof g->text, "%s", h->text);
    h->number = ++g->asked;
    return 0;
}

static int gate_wait(void *arg)
{
    const struct held *h = arg;
    const struct gate *g = ps_root(gate);
    if (!g) return -errno;
    if (!g->answered[h->number % 64]) ps_retry();
    return 0;
}

static int gate_open(void)
{
    if (!gate) gate = ps_open("gate", PS_CREATE | PS_WRITE, PS_LAYOUT(struct gate, 1));
    return gate ? 0 : -errno;
}

static long held(const char *text)
{
    struct held h = {text, 0};
    int r = gate_open();
    if (r == 0) r = ps_transaction(gate_ask, &h);
    return r == 0 ? ps_transaction(gate_wait, &h) : r;
}

static uint8_t *home_of(const struct km_object *o, uint64_t page)
{
    int i = 0;
    while (object[i] != o) i++;
    return page == 0 ? home[i][0] : page == km_pages(o) - 1 ? home[i][1] : NULL;
}

static void page(struct km_request *r)
{
    const uint8_t *bytes = home_of(r->object, r->page);
    if (!bytes || km_supply(r, bytes, 1)) km_fail(r, ENOSPC);
}

static int commit(struct km_object *o, uint64_t view)
{
    static uint8_t runs[16384];
    for (uint64_t cursor = 0; cursor != ~0ull;) {
        long n = km_diff(o, view, &cursor, runs, sizeof runs);
        if (n < 0) return (int)n;
        for (const struct km_run *r = km_run_first(runs, n); r; r = km_run_next(r, runs, n)) {
            uint8_t *to = home_of(o, r->page);
            if (!to) return -ENOSPC;
            memcpy(to + r->offset, r->data, r->bytes);
        }
    }
    return 0;
}

static void call(struct km_object *o, void *message, int bytes)
{
    uint64_t *word = message;
    (void)o;
    if (bytes != sizeof *word) return;
    if (*word == HELD) held("");
    *word = (uint64_t)getpid();
}

/* Serves so many segments, at least those that the container has. */
static int serve(unsigned segments)
{
    static const struct km_ops ops = {.page = page, .commit = commit, .call = call};
    int r = km_container(KM_READ | KM_WRITE | KM_TRANSACTIONAL, &ops, NULL, &object[0]);
    for (unsigned i = 1; r == 0 && i < segments; i++) r = km_container_more(&ops, NULL, &object[i]);
    return r ? -r : -km_serve(2);
}

/* Asks before the store manager knows who it is: its library says so when it connects. */
static int asks(const char *key)
{
    char kept[256];
    snprintf(kept, sizeof kept, "%s", key);
    unsetenv(STORE_KEPT_BY);
    return held(kept) || setenv(STORE_KEPT_BY, kept, 1);
}

static int manager(char **argv)
{
    if (strcmp(argv[1], "asks") == 0 && asks(getenv(STORE_KEPT_BY))) return 4;
    return serve((unsigned)atoi(argv[2]));
}

/* ---- the client side ---- */

static ps_container *opened;
static const char *name_now;
static uint64_t *segment[SEGMENTS], pages[SEGMENTS];

static int set(const char *name, const char *how, const char *more)
{
    const char *words[] = {how, more, NULL};
    return ps_manager(name, SELF, words);
}

static int open_it(const char *name)
{
    name_now = name;
    opened = ps_open(name, PS_WRITE, NULL);
    return opened ? 0 : -errno;
}

static uint64_t ask(uint64_t what)
{
    int r = km_call_beside(opened, name_now, &what, sizeof what);
    return r ? (uint64_t)(int64_t)r : what;
}

/* What a manager says that is held; it goes on when its number is answered. */
static int gate_hear(void *arg)
{
    struct held *h = arg;
    struct gate *g = ps_root(gate);
    if (!g) return -errno;
    if (g->asked == g->heard) ps_retry();
    h->number = g->heard = g->asked;
    g->answered[h->number % 64] = 0;
    strcpy((char *)h->text, g->text);
    return 0;
}

static uint64_t hear(char *text)
{
    struct held h = {text, 0};
    return ps_transaction(gate_hear, &h) == 0 ? h.number : 0;
}

static int gate_answer(void *number)
{
    struct gate *g = ps_root(gate);
    if (!g) return -errno;
    g->answered[(uintptr_t)number % 64] = 1;
    return 0;
}

static int go_on(uint64_t number) { return ps_transaction(gate_answer, (void *)number); }

/* ---- segments ---- */

/* Returns when it has ended. */
static void kill_it(int pid)
{
    static struct kd_process_info rows[256];
    kd_call3(KD_PROCESS_KILL, pid, 9, 0);
    for (int there = 1; there; pause_ms(there)) {
        long n = kd_call3(KD_PROCESS_LIST, (long)rows, 256, 0);
        there = 0;
        for (long i = 0; i < n && i < 256; i++) there |= rows[i].pid == pid;
    }
}

static int segments_find(unsigned count)
{
    unsigned found = 0;
    while (found < count && (segment[found] = ps_segment(opened, found, &pages[found]))) found++;
    return (int)found;
}

static uint64_t *last_of(int i) { return segment[i] + (pages[i] - 1) * 512; }

static int write_all(void *value)
{
    for (int i = 0; i < SEGMENTS; i++) {
        segment[i][1] = (uint64_t)(uintptr_t)value + (uint64_t)i;
        last_of(i)[511] = (uint64_t)(uintptr_t)value * 2 + (uint64_t)i;
    }
    return 0;
}

static int read_all(void *value)
{
    int bad = ps_lock(opened, PS_LOCK_SHARED) != 0;
    for (int i = 0; i < SEGMENTS; i++)
        bad += segment[i][1] != (uint64_t)(uintptr_t)value + (uint64_t)i ||
               last_of(i)[511] != (uint64_t)(uintptr_t)value * 2 + (uint64_t)i;
    return bad;
}

static int read_between(void *unused)
{
    (void)unused;
    return (int)segment[2][pages[2] / 2 * 512];
}

static int read_zeros(void *unused)
{
    (void)unused;
    uint64_t any = 0;
    for (int i = 0; i < SEGMENTS; i++) any |= segment[i][1] | last_of(i)[511];
    return any != 0;
}

/* Another process: exit 0 if it sees the same. */
static int reader(const char *name)
{
    if (open_it(name)) return 90;
    if (segments_find(SEGMENTS) != SEGMENTS) return 91;
    return ps_transaction(read_all, (void *)1000);
}

static uint64_t pages_listed(const char *name)
{
    static struct ps_info info[64];
    int n = ps_list(info, 64);
    for (int i = 0; i < n && i < 64; i++)
        if (strcmp(info[i].name, name) == 0) return info[i].pages_max;
    return 0;
}

static void test_segments(const char *self)
{
    is(set("wide", "serves", "3"), 0, "a container whose manager wants three segments");
    is(open_it("wide"), 0, "is opened");
    is(segments_find(SEGMENTS), SEGMENTS, "it has them");
    tap_ok(segment[0] == ps_address(opened) && pages[0] == PAGES && pages[1] == PAGES &&
               pages[2] == 2 * PAGES,
           "of 1, 1 and 2 GiB");
    tap_ok(!ps_segment(opened, SEGMENTS, NULL) && errno == ENOENT, "and no more");
    is(ps_transaction(write_all, (void *)1000), 0, "first and last pages of all are written");
    is(ps_transaction(read_all, (void *)1000), 0, "locked, and read");
    is(child_run(self, "reads", "wide"), 0, "by another process, too");
    is(ps_transaction(read_between, NULL), -ENOSPC, "a page between them is the manager's to fail");
    uint64_t *before = segment[2];
    uint64_t pid = ask(0);
    kill_it((int)pid);
    is(WHEN_BACK(ps_transaction(read_zeros, NULL)), 0,
       "its successor begins with pages of its own");
    is(ps_transaction(write_all, (void *)3), 0, "and serves all segments");
    is(ps_transaction(read_all, (void *)3), 0, "(read)");
    tap_ok(segments_find(SEGMENTS) == SEGMENTS && segment[2] == before && ask(0) != pid,
           "where they were");
    is(ps_close(opened), 0, "(closed)");
    tap_ok(pages_listed("wide") == 4 * PAGES, "they are listed");
    is(WHEN_FREE(set("wide", "serves", "2")), 0, "it gets a manager that serves two");
    is(open_it("wide"), 0, "is opened");
    is(segments_find(SEGMENTS), 2, "and two are served");
    is(ps_close(opened), 0, "(closed)");
    is(WHEN_FREE(ps_delete("wide")), 0, "(deleted)");
    is(set("wider", "serves", "12"), 0, "one that wants twelve");
    is(open_it("wider"), 0, "has them");
    is(ps_close(opened), 0, "(closed)");
    WHEN_FREE(set("wider", "serves", "13"));
    is(open_it("wider"), -ECHILD, "there is no thirteenth");
    is(WHEN_FREE(ps_delete("wider")), 0, "(deleted)");
}

/* ---- waits ---- */

static void *open_slow(void *name)
{
    ps_container *c = ps_open(name, PS_WRITE, NULL);
    return (void *)(intptr_t)(c ? ps_close(c) : -errno);
}

static int joined(pthread_t t)
{
    void *result = NULL;
    pthread_join(t, &result);
    return (int)(intptr_t)result;
}

static void test_waits(void)
{
    pthread_t first, second;
    char text[256];
    is(set("slow", "asks", "1"), 0, "a container whose manager takes its time");
    pthread_create(&first, NULL, open_slow, "slow");
    uint64_t token = hear(text);
    pthread_create(&second, NULL, open_slow, "slow");
    ps_container *c = ps_open("other", PS_CREATE | PS_WRITE, NULL);
    tap_ok(c != NULL, "another container is opened meanwhile");
    is(ps_close(c), 0, "and closed");
    is(ps_delete("other"), 0, "and deleted");
    go_on(token);
    is(joined(first), 0, "then the first opens, which waited");
    is(joined(second), 0, "and who came later");
    is(WHEN_FREE(ps_delete("slow")), 0, "(deleted)");
}

/* ---- who serves ---- */

static long say(uint64_t kind, uint64_t id, uint64_t key, uint64_t what, int handle)
{
    struct kd_message m = {.kind = (uint32_t)kind, .handle = handle, .word = {id, key, what, 1},
                           .handle_rights = KD_RIGHT_CALL};
    if (kind == STORE_HELLO) m.word[0] = STORE_PROTOCOL_VERSION, m.word[1] = id, m.word[2] = key;
    long r = kd_call3(KD_PORT_CALL, client_port, (long)&m, 0);
    return r ? r : m.status;
}

static void test_impostor(void)
{
    pthread_t opener;
    char text[256] = "";
    unsigned long long id = 0, key = 0;
    is(set("lent", "asks", "1"), 0, "a container whose manager tells its key");
    pthread_create(&opener, NULL, open_slow, "lent");
    uint64_t token = hear(text);
    tap_ok(sscanf(text, "%*s %llu %llu", &id, &key) == 2, "somebody else has it");
    int port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    is(say(STORE_HELLO, id, key, 0, -1), 0, "(and says so)");
    is(say(STORE_SERVE, id, key, WIRE_SERVE_PORT, port), -EPERM, "his port is not taken");
    is(say(STORE_SERVE, id, key, WIRE_SERVE_PLACE, -1), -EPERM, "nor is the container made larger");
    is(say(STORE_SERVE, id, key, WIRE_SERVE_FIRST, port), -EPERM, "nor does he serve it");
    is(say(STORE_ENDED, id, key, 9, -1), -ESRCH, "nor tell its end");
    go_on(token);
    is(joined(opener), 0, "whom the keeper started serves it");
    tap_ok(pages_listed("lent") == PAGES, "(as it was)");
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
}

/* ---- handles ---- */

static void *ask_held(void *unused)
{
    (void)unused;
    return (void *)(uintptr_t)ask(HELD);
}

static void *ask_pid(void *unused)
{
    (void)unused;
    return (void *)(uintptr_t)ask(0);
}

static int other_port, other_heard;
static void *listen_there(void *unused)
{
    struct kd_message m = {.handle = -1}, reply = {.handle = -1};
    while (kd_call3(KD_PORT_RECEIVE, other_port, (long)&m, -1) == 0) {
        other_heard++;
        kd_call3(KD_PORT_REPLY, (long)m.token, (long)&reply, 0);
    }
    return unused;
}

/* A thread of ours waits for a server that has not received its call. */
static int queued(void)
{
    static char text[8192];
    long n = kd_call4(KD_LOOK, KD_LOOK_THREADS, getpid(), (long)text, sizeof text - 1);
    text[n > 0 ? n : 0] = 0;
    return strstr(text, "at 0\n") != NULL;
}

static int ask_in(void *pid)
{
    *(uint64_t *)pid = ask(0);
    return 0;
}

/* The thread `held_one` holds the manager's only thread for clients, so the other's first message
 * of two is queued, when the container is closed and the number of its handle is another port's. */
static void test_handles(const char *self)
{
    pthread_t held_one, other, listener;
    char text[256];
    uint64_t pid = 0;
    is(set("calls", "serves", "1"), 0, "a container whose manager is called");
    is(open_it("calls"), 0, "is opened");
    is(ps_transaction(ask_in, &pid), 0, "in a transaction");
    tap_ok((int64_t)pid > 0 && ask(0) == pid, "and outside of one");
    int child = child_start(self, "keeps", "calls"); /* so that its manager stays */
    uint64_t kept_open = hear(text);
    pthread_create(&held_one, NULL, ask_held, NULL);
    uint64_t token = hear(text);
    pthread_create(&other, NULL, ask_pid, NULL);
    while (!queued()) pause_ms(1);
    is(ps_close(opened), 0, "it is closed while a call is on its way");
    other_port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    pthread_create(&listener, NULL, listen_there, NULL);
    go_on(token);
    is((long)joined(held_one), (long)pid, "the call that was there returns");
    is((long)joined(other), (long)pid, "and the one behind it, which takes two messages");
    is(other_heard, 0, "no port that got the number of the container's heard anything");
    kd_call3(KD_HANDLE_CLOSE, other_port, 0, 0);
    pthread_join(listener, NULL);
    go_on(kept_open);
    is(child_wait(child), 0, "(closed)");
}

/* ---- old versions ---- */

static int shared;
static int share(void *unused)
{
    (void)unused;
    shared = segment[0][1] ? -EIO : ps_snapshot_share();
    return shared < 0 ? shared : 0;
}

static int write_one(void *value)
{
    segment[0][1] = (uint64_t)(uintptr_t)value;
    return 0;
}

static int read_old(void *unused)
{
    (void)unused;
    return segment[0][1] ? -EIO : 0;
}

static int versions(void)
{
    uint64_t now = 99;
    ps_limit("up", PS_LIMIT_VERSIONS, NULL, &now);
    return (int)now;
}

static void test_versions(void)
{
    const struct ps_options look = {.isolation = PS_SNAPSHOT};
    is(ps_directory_create("up") | set("up/kept", "serves", "1"), 0, "one in a directory");
    is(ps_limit_set("up", PS_LIMIT_VERSIONS, 9), 0, "which has a limit of old versions");
    is(open_it("up/kept"), 0, "is opened");
    is(segments_find(1) == 1 ? versions() : -1, 0, "no version is there");
    is(ps_transaction_opt(share, NULL, &look), 0, "a state is kept");
    is(ps_transaction(write_one, (void *)5), 0, "and changed");
    is(versions(), 1, "its old version counts for the directory");
    const struct ps_options old = {.isolation = PS_SNAPSHOT, .snapshot = shared};
    is(ps_transaction_opt(read_old, NULL, &old), 0, "and is seen");
    is(ps_limit_set("up", PS_LIMIT_VERSIONS, 0) | go_on(60) | go_on(60), 0, "none may be there");
    is(versions(), 0, "and none is, when the store has committed");
    is(ps_transaction_opt(read_old, NULL, &old), -ESTALE, "the state is too old");
    is(ps_snapshot_drop(shared) | ps_close(opened), 0, "(closed)");
}

/* ---- time ---- */

static int ask_for_long(void *unused)
{
    (void)unused;
    return (int)(int64_t)ask(HELD);
}

static void *answer_all(void *unused)
{
    char text[256];
    for (uint64_t number; (number = hear(text));) go_on(number);
    return unused;
}

/* Nobody hears the manager, which is held, before the transaction has ended. If that has not cut
 * its call (loci), a thread answers. */
static void test_time(void)
{
    const struct ps_options hurry = {.timeout_ms = 50};
    pthread_t listener;
    is(open_it("calls"), 0, "a container whose manager is called");
    is(ps_transaction_opt(ask_for_long, NULL, &hurry), -ETIMEDOUT,
       "a transaction's time is up while it calls: it ends");
    pthread_create(&listener, NULL, answer_all, NULL);
    tap_ok((int64_t)ask(0) > 0, "and the manager answers others");
    is(ps_close(opened), 0, "(closed)");
}

static int keeps(const char *name)
{
    return open_it(name) ? 1 : held("") ? 2 : 0;
}

int main(int argc, char **argv)
{
    if (getenv(STORE_KEPT_BY)) return manager(argv);
    if (argc > 2) return strcmp(argv[1], "keeps") == 0 ? keeps(argv[2]) : reader(argv[2]);
    tap_plan(69);
    is(gate_open(), 0, "who is held is heard here");
    is(client_connect(), 0, "a client without the library, too");
    test_segments(argv[0]);
    test_waits();
    test_impostor();
    test_handles(argv[0]);
    test_time();
    test_versions();
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck");
    return tap_end();
}
