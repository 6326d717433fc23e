/*
 * pstore_keeper.c - containers whose manager is a program that the store starts (ps_manager).
 *
 * Aim     such a container is opened like any other, also by several, after the program's death and
 *         after all sorts of its failures; what a program does wrong harms its own clients only,
 *         and nothing leaks. Hostile settings are refused.
 * Method  this program once more, as the manager: an argument says how it behaves.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "manager.h"
#include "pstore_test.h"
#include "store_client.h"
#include "store_protocol.h"
#include "system.h"

#define SELF "/bin/pstore_keeper"
enum { PAGES = 8, WORDS = 512 };

/* ---- the manager side ---- */

/* What clients and manager share, beside the container: an argument and a record, never copied. */
struct desk { uint64_t argument, record; };
static struct desk *desk;
static uint8_t home[PAGES][4096];       /* private memory: the container, as it is committed */
static const char *dies_at = "";
static ps_container *kept_in;           /* a container of its own, where something is kept */
struct counter { uint64_t calls; };

static void die_at(const char *step)
{
    if (strcmp(dies_at, step) == 0) _exit(7);
}

static void page(struct km_request *r)
{
    static const uint8_t zeros[4096];
    die_at("page");
    if (strcmp(dies_at, "deaf") == 0) return;
    km_supply(r, r->page < PAGES ? home[r->page] : zeros, 1);
}

static int commit(struct km_object *o, uint64_t view)
{
    static uint8_t runs[16384];
    die_at("commit");
    for (uint64_t cursor = 0; cursor != ~0ull;) {
        long bytes = km_diff(o, view, &cursor, runs, sizeof(runs));
        if (bytes < 0) return (int)bytes;
        for (long at = 0; at < bytes;) {
            const struct kd_run *run = (const void *)(runs + at);
            if (run->page >= PAGES) return -ENOSPC;
            memcpy(home[run->page] + run->offset, run + 1, run->bytes);
            at += (long)sizeof(*run) + ((run->bytes + 7) & ~7);
        }
    }
    return 0;
}

static int count_call(void *out)
{
    struct counter *counter = ps_root(kept_in);
    if (!counter) return -errno;
    *(uint64_t *)out = ++counter->calls;
    return 0;
}

enum { ASK_LIMIT = 100, PRLIMIT64 = 302 };
static uint64_t limit_of(uint64_t which)
{
    uint64_t limit[2] = {0};
    long r = kd_call4(PRLIMIT64, getpid(), (long)(KD_RLIMIT + which), 0, (long)limit);
    return r ? (uint64_t)r : limit[0];
}

/* Message 0: the pid. 1: the desk's argument squared is its record. 2: a counter that persists.
 * From ASK_LIMIT on: of what it may have so much. */
static void call(struct km_object *o, void *message, int bytes)
{
    uint64_t *word = message;
    (void)o;
    die_at("call");
    if (bytes != sizeof(*word)) return;
    if (*word == 0) {
        *word = (uint64_t)getpid();
    } else if (*word == 1 && desk) {
        desk->record = desk->argument * desk->argument;
    } else if (*word == 2 && kept_in) {
        int r = ps_transaction(count_call, word);
        if (r) *word = (uint64_t)r;
    } else if (*word >= ASK_LIMIT) {
        *word = limit_of(*word - ASK_LIMIT);
    }
}

/* What is to be kept can be until the last moment. */
static void end(struct km_object *o)
{
    uint64_t calls;
    (void)o;
    die_at("end");
    if (kept_in) ps_transaction(count_call, &calls);
}

static const struct km_ops ops = {.page = page, .commit = commit, .call = call, .end = end};
static const struct km_ops plain = {.call = call};

static int serve(void)
{
    struct km_object *o, *beside;
    int r = km_container(KM_READ | KM_WRITE | KM_TRANSACTIONAL, &ops, NULL, &o);
    if (r == 0) r = km_credit(o, 64) < 0 ? -EIO : 0;
    if (r == 0) r = km_create("desk", 1, KM_READ | KM_WRITE, &plain, NULL, &beside);
    if (r == 0) r = km_attach(beside);
    if (r == 0) desk = km_address(beside);
    printf("serves %s\nin two lines\n", km_container_name());
    fflush(stdout);
    return r ? -r : -km_serve(3);
}

/* An object at another place, or one that is too large, offered as the container's. `dead`: it has
 * ended by then, as that of a program which dies meanwhile. */
static int lie(uint64_t base, uint64_t pages, int dead)
{
    unsigned long long id = 0, key = 0;
    const char *text = getenv(STORE_KEPT_BY);
    if (!text || sscanf(text, "%*s %llu %llu", &id, &key) != 2) return 1;
    int port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    int store = 0;                      /* its root */
    struct kd_object_create o = {.port = port, .commit_port = port, .base = base, .pages = pages};
    int object = (int)kd_call3(KD_OBJECT_CREATE, (long)&o, 0, 0);
    struct kd_message m = {.kind = STORE_SERVE, .handle = port, .handle_rights = KD_RIGHT_CALL,
                           .word = {id, key}};
    kd_call3(KD_PORT_CALL, store, (long)&m, 0);
    if (dead) kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    m = (struct kd_message){.kind = STORE_SERVE, .handle = object, .word = {id, key, 1, 3},
                            .handle_rights = KD_RIGHT_MANAGE};
    kd_call3(KD_PORT_CALL, store, (long)&m, 0);
    for (;;) pause();                   /* and lives on, whatever it heard */
}

static uint64_t place(void)
{
    unsigned long long base = 0;
    const char *text = getenv(STORE_KEPT_BY);
    if (text) sscanf(text, "%*s %*u %*u %llu", &base);
    return base;
}

static int manager(int argc, char **argv)
{
    const char *how = argv[1];
    dies_at = argc > 2 ? argv[2] : "";
    if (strcmp(how, "serve") == 0) return serve();
    if (strcmp(how, "quits") == 0) return 3;
    if (strcmp(how, "silent") == 0)
        for (;;) pause();
    if (strcmp(how, "elsewhere") == 0) return lie(place() + (64ull << 30), 1, 0);
    if (strcmp(how, "large") == 0) return lie(place(), (1ull << 18) + 1, 0);
    if (strcmp(how, "dies") == 0) return lie(place(), 1, 1);
    if (strcmp(how, "opens") == 0) {
        if (!ps_open(argv[2], 0, NULL)) return 4;
        dies_at = "";
        return serve();
    }
    if (strcmp(how, "counts") == 0) {
        kept_in = ps_open("keeper data", PS_CREATE | PS_WRITE, PS_LAYOUT(struct counter, 1));
        return kept_in ? serve() : 5;
    }
    return 99;
}

/* ---- the client side ---- */

static int set(const char *name, const char *how, const char *more)
{
    const char *words[] = {how, more, NULL};
    return ps_manager(name, SELF, words);
}

static ps_container *opened;

static int get_word(void *out)
{
    const uint64_t *words = ps_address(opened);
    *(uint64_t *)out = words[WORDS];
    return 0;
}
static int set_word(void *value)
{
    uint64_t *words = ps_address(opened);
    words[WORDS] = (uint64_t)(uintptr_t)value;
    return 0;
}
static uint64_t word(void)
{
    uint64_t value = 0;
    int r = ps_transaction(get_word, &value);
    return r ? (uint64_t)r : value;
}

static const char *name_now;            /* of the container that is open */

static uint64_t ask(uint64_t what)
{
    int r = km_call_beside(opened, name_now, &what, sizeof(what));
    return r ? (uint64_t)(int64_t)r : what;
}

static int open_it(const char *name)
{
    name_now = name;
    opened = ps_open(name, PS_WRITE, NULL);
    return opened ? 0 : -errno;
}

/* One attempt to open a container whose manager behaves so; closed and deleted again. */
static int try(const char *how, const char *more)
{
    int r = set("bad", how, more);
    if (r == 0) r = open_it("bad");
    if (r == 0) ps_close(opened);
    int gone = WHEN_FREE(ps_delete("bad"));
    return r ? r : gone;
}

/* Has the process ended? Waits for that. */
static int ends(uint64_t pid)
{
    static struct kd_process_info rows[256];
    for (int tries = 0; tries < 3000; tries++) {
        long n = kd_call3(KD_PROCESS_LIST, (long)rows, 256, 0), there = 0;
        for (long i = 0; i < n && i < 256; i++) there |= rows[i].pid == (int32_t)pid;
        if (!there) return 1;
        pause_ms(10);
    }
    return 0;
}

static void kill_it(uint64_t pid)
{
    kd_call3(KD_PROCESS_KILL, (long)pid, 9, 0);
}

static void test_settings(void)
{
    static char much[500];
    char text[64];
    const char *words[] = {much, NULL}, *odd[] = {"a\nb", NULL};
    memset(much, 'x', sizeof(much) - 1);
    is(ps_manager("k", "pstore_keeper", NULL), -EINVAL, "a program is a path");
    is(ps_manager("k", "/bin/nothing", NULL), -ENOENT, "of one that is there");
    is(ps_manager("k", SELF, words), -E2BIG, "arguments have an end");
    is(ps_manager("k", SELF, odd), -EINVAL, "and no control characters");
    is(ps_manager("", SELF, NULL), -EINVAL, "a name is not empty");
    is(ps_manager("k\n", SELF, NULL), -EINVAL, "nor of two lines");
    is(ps_manager("k", NULL, NULL), -ENOENT, "there is nothing to be taken away");
    ps_container *c = ps_open("k", PS_WRITE, NULL);
    tap_ok(!c && errno == ENOENT, "and no container was made of all that");
    c = ps_open("own", PS_CREATE | PS_WRITE, PS_LAYOUT(struct counter, 1));
    is(ps_manager("own", SELF, NULL), -EBUSY, "a container that somebody has open");
    ps_close(c);
    kept_in = ps_open("keeper data", PS_CREATE | PS_WRITE, PS_LAYOUT(struct counter, 1));
    uint64_t calls = 0;
    is(ps_transaction(count_call, &calls), 0, "a container with pages");
    ps_close(kept_in);
    is(ps_manager("keeper data", SELF, NULL), -ENOTEMPTY, "has no other manager");
    is(set("own", "quits", NULL), 0, "one without has");
    tap_ok(ps_manager_of("own", text, sizeof(text)) == 24 && !strcmp(text, SELF " quits"),
           "and says which (%s)", text);
    is(set("own", "silent", "x"), 0, "it gets another one");
    tap_ok(ps_manager_of("own", text, sizeof(text)) == 27 && !strcmp(text, SELF " silent x"),
           "(%s)", text);
    is(ps_manager("own", NULL, NULL), 0, "or the store again");
    is(ps_manager_of("own", text, sizeof(text)), -ENOENT, "(none)");
    c = ps_open("own", PS_WRITE, PS_LAYOUT(struct counter, 1));
    kept_in = c;
    is(c ? ps_transaction(count_call, &calls) : -errno, 0, "and is as it was");
    ps_close(c);
    is(ps_delete("own"), 0, "(deleted)");
}

static struct wire_opened hostile;

/* A commit that gives the container a manager, past all checks of ps_manager. */
static long name_by_hand(void *name)
{
    static char *page;
    if (!page) page = client_lease(hostile.container, 1, NULL);
    if (!page) return -ENOSPC;
    *page = 1;
    client_op(WIRE_NAME_SET, hostile.container, page, 15, name);
    return 0;
}

/* Nobody takes the part of the keeper, or of a representative, but who was made that. */
static void test_hostile(void)
{
    uint64_t out[512];
    is(client_connect(), 0, "a client without the library");
    is(client_call(STORE_KEEPER, 1, 0, 0, NULL, 0, out, sizeof(out)), -EPERM,
       "who is no keeper gets no orders");
    is(client_call(STORE_KEEPER, 0, 0, 0, NULL, 0, out, sizeof(out)), -EPERM, "nor later");
    is(client_call(STORE_SERVE, 1, 1, 0, NULL, 0, out, sizeof(out)), -ESRCH, "no key is guessed");
    is(client_call(STORE_SERVE, 0, 0, 1, NULL, 0, out, sizeof(out)), -ESRCH, "nor left out");
    is(client_call(STORE_ENDED, 1, 1, 0, NULL, 0, out, sizeof(out)), -ESRCH, "no end is told");
    is(client_call(STORE_MANAGER, 0, 0, 0, "short", 5, out, sizeof(out)), -EINVAL, "half a name");
    is(client_open("hostile", PS_CREATE | PS_WRITE, NULL, 0, 0, &hostile), 0, "a container");
    is(client_run(name_by_hand, "any"), 0, "has a name by a commit");
    is(client_run(name_by_hand, "\3manager"), -EINVAL, "but gets no manager");
    is(ps_manager_of("hostile", (char *)out, sizeof(out)), -ENOENT, "(none)");
}

/* A child of fork, which has none of its parent's handles, as a client; its exit. */
static int child_asks(void)
{
    int status = -1;
    uint64_t parents = ask(0);
    pid_t pid = fork();
    if (pid == 0) _exit(word() != 77 ? 1 : ask(0) != parents ? 2 : ask(0) != parents ? 3 : 0);
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Another process, as a client. */
static int reader(const char *name)
{
    if (open_it(name)) return 90;
    struct desk *d = km_open_beside(opened, "desk", KM_READ | KM_WRITE);
    /* no name of the kernel's is that of a container: it is a path in the directory */
    if (!d || !km_open(name, "desk", KM_READ | KM_WRITE)) return 91;
    if (km_open(name, "no desk", KM_READ) || errno != ENOENT) return 95;
    uint64_t what = 1;
    if (km_call(name, name, &what, sizeof what) || what != 1) return 96;
    d->argument = 12;
    if (ask(1) != 1) return 92;
    if (child_asks()) return 94;
    return d->record == 144 ? (int)word() : 93;
}

static void test_use(const char *self)
{
    struct ps_info info[64];
    is(set("mine", "serve", NULL), 0, "a container with a manager");
    is(open_it("mine"), 0, "is opened");
    void *at = ps_address(opened);
    is(ps_transaction(set_word, (void *)77), 0, "written in a transaction");
    is((long)word(), 77, "and read");
    is(child_run(self, "reads", "mine"), 77,
       "by another process and its child, which share memory with the manager beside it");
    is(set("mine", "serve", NULL), -EBUSY, "meanwhile it keeps its manager");
    int n = ps_list(info, 64), listed = 0;
    for (int i = 0; i < n && i < 64; i++)
        listed |= !strcmp(info[i].name, "mine") && info[i].managed && info[i].base == (uintptr_t)at;
    tap_ok(listed, "it is listed");
    tap_ok(!ps_alloc(opened, 16, NULL) && errno == EPERM, "(outside of a transaction)");
    uint64_t first = ask(0), quarter = system_info().memory_bytes / 4 / KD_PAGE_BYTES;
    tap_ok(ask(ASK_LIMIT + KD_LIMIT_PROCESSES) == 1 && ask(ASK_LIMIT + KD_LIMIT_HANDLES) == 64 &&
               ask(ASK_LIMIT + KD_LIMIT_THREADS) == 32 &&
               ask(ASK_LIMIT + KD_LIMIT_MEMORY) / KD_PAGE_BYTES == quarter,
           "it may have so much, no more");
    ps_close(opened);
    tap_ok(ends(first), "nobody has it open: its manager ends");
    is(open_it("mine"), 0, "opened again");
    tap_ok(ask(0) != first && ps_address(opened) == at, "there is another, and the same place");
    is((long)word(), 0, "what was in the memory of the first is gone");
}

static int alloc_there(void *unused)
{
    (void)unused;
    return ps_alloc(opened, 16, NULL) ? 0 : -errno;
}

static void test_death(void)
{
    uint64_t pid = ask(0);
    is(ps_transaction(alloc_there, NULL), -ENOTSUP, "the store allocates nothing there");
    kill_it(pid);
    tap_ok(ends(pid), "a manager is killed while it has nothing to do");
    long r = ps_transaction(set_word, (void *)5);
    tap_ok(r == -EOWNERDEAD || r == 0, "its client hears, at most once (%ld)", r);
    is(ps_transaction(set_word, (void *)6), 0, "the next transaction finds its successor");
    tap_ok(ask(0) != pid && (int64_t)ask(0) > 0, "which can be asked");
    ps_close(opened);
}

/* It dies in the midst of something: then the client hears that, and the next open works. */
static void test_steps(void)
{
    static const char *const step[] = {"page", "commit", "call", "end"};
    for (unsigned i = 0; i < 4; i++) {
        is(set("steps", "serve", step[i]), 0, step[i]);
        int r = open_it("steps");
        if (r == 0 && i < 2) r = ps_transaction(set_word, (void *)1);
        if (r == 0 && i == 2) r = (int)ask(1);
        if (r == 0 && i == 3) ps_close(opened);
        is(r, i < 3 ? -EOWNERDEAD : 0, "is where it dies");
        if (i < 3) is(ps_close(opened), 0, "(closed)");
        is(WHEN_FREE(set("steps", "serve", NULL)), 0, "another one");
        is(open_it("steps"), 0, "is opened");
        is(ps_transaction(set_word, (void *)1), 0, "and serves");
        is(ps_close(opened), 0, "(closed)");
    }
    is(WHEN_FREE(ps_delete("steps")), 0, "(deleted)");
}

static void test_failures(void)
{
    is(try("quits", NULL), -ECHILD, "one that ends at once");
    is(try("elsewhere", NULL), -EBADMSG, "one whose memory lies elsewhere");
    is(try("large", NULL), -EBADMSG, "one whose memory is too large");
    is(try("dies", NULL), -ECHILD, "one whose memory ends as it offers it");
    is(try("opens", "bad"), -ECHILD, "one that opens its own container is told so, and ends");
    is(set("a", "opens", "b"), 0, "two");
    is(set("b", "opens", "a"), 0, "that open each other");
    is(open_it("a"), -ECHILD, "do not wait for ever");
    is(set("b", "serve", NULL), 0, "one upon the other");
    is(open_it("a"), 0, "works");
    ps_close(opened);
    WHEN_FREE(ps_delete("b"));
    is(open_it("a"), -ECHILD, "until that is deleted");
    is(WHEN_FREE(ps_delete("a")), 0, "(deleted)");
}

/* What the manager keeps, it keeps in a container of its own, by ordinary transactions. */
static void test_kept(void)
{
    is(set("counted", "counts", NULL), 0, "one that keeps something");
    is(open_it("counted"), 0, "opened");
    uint64_t first = ask(2), pid = ask(0);
    kill_it(pid);
    ps_close(opened);
    tap_ok(ends(pid), "killed");
    is(open_it("counted"), 0, "opened again");
    uint64_t next = ask(2);
    tap_ok((int64_t)first > 0 && next == first + 1, "its transactions were durable (%lld, %lld)",
           (long long)first, (long long)next);
    ps_close(opened);
}

/* One that does not answer holds up who touches its memory, for as long as that one likes. */
static void test_deaf(void)
{
    const struct ps_options hurry = {.timeout_ms = 100};
    is(set("deaf", "serve", "deaf"), 0, "one that answers no page");
    is(open_it("deaf"), 0, "is opened");
    is(ps_transaction_opt(set_word, (void *)1, &hurry), -ETIMEDOUT, "a transaction has a limit");
    is(ps_close(opened), 0, "(closed)");
}

static int pid_of(const char *name)
{
    static struct kd_process_info rows[256];
    long n = kd_call3(KD_PROCESS_LIST, (long)rows, 256, 0);
    for (long i = 0; i < n && i < 256; i++)
        if (strcmp(rows[i].name, name) == 0) return rows[i].pid;
    return 0;
}

/* Who starts managers dies, then the store: what they have started ends, and all goes on. */
static void test_services(void)
{
    is(open_it("mine"), 0, "open");
    uint64_t pid = ask(0), keeper = (uint64_t)pid_of("keeper");
    kill_it(keeper);
    tap_ok(keeper && ends(keeper) && ends(pid), "the keeper is killed: so are its programs");
    is(ps_close(opened), 0, "(closed)");
    is(open_it("mine"), 0, "another keeper starts another");
    pid = ask(0);
    is(ps_transaction(set_word, (void *)8), 0, "which serves");
    kill_it((uint64_t)store_pid());
    tap_ok(ends(pid), "the store is killed: so is the manager");
    is(WHEN_BACK(ps_transaction(set_word, (void *)9)), 0,
       "store, keeper and manager are there again");
    is((long)word(), 9, "(read)");
    is(ps_close(opened), 0, "(closed)");
}

static void test_leaks(void)
{
    enum { ROUNDS = 1000 };
    struct kd_process_info before = {0}, after;
    uint64_t free_before = 0;
    int bad = 0;
    for (int i = 0; i < ROUNDS; i++) {
        bad += open_it("mine") != 0 || ps_close(opened) != 0;
        if (i < ROUNDS / 10) {
            before = process_self();
            free_before = system_info().free_bytes;
        }
    }
    after = process_self();
    uint64_t free_after = system_info().free_bytes;
    is(bad, 0, "opened and closed a thousand times");
    is((long)after.used[KD_LIMIT_HANDLES], (long)before.used[KD_LIMIT_HANDLES], "no handle left");
    tap_ok(free_after + (256u << 10) > free_before, "nor memory (%llu, %llu KiB free)",
           (unsigned long long)free_before >> 10, (unsigned long long)free_after >> 10);
}

int main(int argc, char **argv)
{
    if (getenv(STORE_KEPT_BY)) return manager(argc, argv);
    if (argc > 2 && strcmp(argv[1], "open") == 0) {
        int r = open_it(argv[2]);
        if (r == 0 && argc > 3) printf("%lld\n", (long long)ask((uint64_t)atoi(argv[3])));
        return -r;
    }
    if (argc > 2) return reader(argv[2]);
    tap_plan(109);
    test_settings();
    test_hostile();
    test_use(argv[0]);
    test_death();
    test_steps();
    test_failures();
    test_kept();
    test_deaf();
    test_services();
    test_leaks();
    return tap_end();
}
