/*
 * hostile_store.c - bad requests and bad commits to the store manager.
 *
 * Aim     an error for whoever sends them, and the store as it was: another container's data is
 *         read afterwards, and tests/system/bad-input.sh looks at the image.
 * Method  each request with words and data of all kinds; batches of operations that are broken in
 *         one place; then both at random.
 */
#include <pthread.h>
#include <sys/wait.h>

#include "hostile.h"
#include "store_client.h"

enum { KEPT_WORDS = 5000, FUZZ_REQUESTS = 4000, FUZZ_BATCHES = 600 };

struct root { uint64_t count; };
static struct wire_opened mine, other;     /* two containers; `other` is open read-only */
static uint64_t unopened;                   /* the number of one that is not open here */
static char *page_of_mine;

/* ---- what must stay ---- */

static ps_container *kept;

static int kept_fill(void *unused)
{
    (void)unused;
    uint64_t *words = ps_named(kept, "words", KEPT_WORDS * sizeof *words);
    if (!words) return -errno;
    for (uint64_t i = 0; i < KEPT_WORDS; i++) words[i] = i * 0x9e3779b97f4a7c15;
    return 0;
}

static int kept_check(void *unused)
{
    (void)unused;
    const uint64_t *words = ps_named(kept, "words", KEPT_WORDS * sizeof *words);
    if (!words) return -errno;
    for (uint64_t i = 0; i < KEPT_WORDS; i++)
        if (words[i] != i * 0x9e3779b97f4a7c15) return 1;
    return 0;
}

static int role(const char *what)
{
    int fill = strcmp(what, "fill") == 0;
    kept = ps_open("kept", PS_WRITE | (fill ? PS_CREATE : 0), PS_LAYOUT(struct root, 1));
    if (!kept) return errno;
    return -ps_transaction(fill ? kept_fill : kept_check, NULL);
}

/* A copy is there to be told of; the transaction is aborted. */
static long changes_nowhere(void *unused)
{
    (void)unused;
    *page_of_mine = 1;
    for (int i = 0; i < BAD_POINTERS; i++)
        if (CALL(KD_TXN_CHANGES, 0, bad_pointers[i]) != -EFAULT) return 1;
    return 2;
}

/* ---- requests ---- */

static char data[8192], out[65536];

static long request(uint32_t kind, uint64_t w0, uint64_t w1, uint64_t w2, size_t bytes)
{
    return client_call(kind, w0, w1, w2, bytes ? data : NULL, bytes, out, sizeof out);
}

static int refused(const char *what, long r)
{
    if (!is_errno(r)) printf("# %s: %ld\n", what, r);
    return is_errno(r);
}

#define REFUSED(...) good &= refused(#__VA_ARGS__, request(__VA_ARGS__))

static void unknown_kinds(void)
{
    const uint64_t all = ~0ull;
    int good = 1;
    for (unsigned kind = 13; kind < 100; kind++)
        if (kind != STORE_SCRUB && kind != STORE_AUDIT && kind != STORE_WATCH &&
            kind != STORE_FLUSH && kind != STORE_TXN) /* harmless ones */
            REFUSED(kind, 0, 0, 0, 0);
    REFUSED(STORE_WATCH, 0, 0, 0, 7);       /* no whole address */
    REFUSED(STORE_WATCH, 0, 0, 0, 64);      /* of no container */
    REFUSED(STORE_WATCH, all, 1, 0, 64);
    REFUSED(STORE_WAIT, all, 0, 0, 0);      /* no watch was left by them */
    REFUSED(0, 0, 0, 0, 0);
    REFUSED(0x7fffffff, 0, 0, 0, 64);
    REFUSED(0x80000001, 0, 0, 0, 0);
    REFUSED(~0u, all, all, all, 64);
    tap_ok(good, "unknown kinds");
}

/* `data` as a name, in requests of all sizes. */
static int names_refused(void)
{
    static const size_t sizes[] = {0,   1,   7,   63,  64,  65,   127,  128,
                                   129, 143, 144, 145, 1000, 1024, 1025, 8192};
    int good = 1;
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        REFUSED(STORE_OPEN, 0, 0, 0, sizes[i]);
        REFUSED(STORE_DELETE, 0, 0, 0, sizes[i]);
        REFUSED(STORE_RENAME, 0, 0, 0, sizes[i]);
        REFUSED(STORE_NAMED, mine.container, 0, 0, sizes[i]);
    }
    return good;
}

static void bad_names(void)
{
    memset(data, 'x', sizeof data); /* no NUL anywhere */
    int endless = names_refused();
    memset(data, 0, sizeof data);
    int empty = names_refused();
    tap_ok(endless && empty, "names without an end, or empty, data of all sizes");
}

static int ranges_refused(void)
{
    const uint64_t m = mine.container, o = other.container, all = ~0ull, big = 1ull << 63;
    int good = 1;
    REFUSED(STORE_HELLO, STORE_PROTOCOL_VERSION + 1, 0, 0, 0);
    REFUSED(STORE_CLOSE, 0, 0, 0, 0);
    REFUSED(STORE_CLOSE, all, 0, 0, 0);
    REFUSED(STORE_CLOSE, unopened, 0, 0, 0);
    REFUSED(STORE_LEASE, all, 1, 0, 0);
    REFUSED(STORE_LEASE, o, 1, 0, 0);
    REFUSED(STORE_LEASE, unopened, 1, 0, 0);
    REFUSED(STORE_LEASE, m, 0, 0, 0);
    REFUSED(STORE_LEASE, m, all, 0, 0);
    REFUSED(STORE_LEASE, m, big, 0, 0);
    REFUSED(STORE_LEASE, m, mine.pages + 1, 0, 0);
    REFUSED(STORE_LEASE, m, 1, 8, 0);
    REFUSED(STORE_LEASE, m, 1, other.base, 0);
    REFUSED(STORE_LEASE, m, 1, all, 0);
    REFUSED(STORE_SPACE, all, 16, 0, 0);
    REFUSED(STORE_SPACE, o, 16, 0, 0);
    REFUSED(STORE_SPACE, m, 0, 0, 0);
    REFUSED(STORE_SPACE, m, all, 0, 0);
    REFUSED(STORE_SPACE, m, 16, other.base, 0);
    REFUSED(STORE_UNLEASE, 0, 1, 0, 0);
    REFUSED(STORE_UNLEASE, all, 1, 0, 0);
    REFUSED(STORE_UNLEASE, mine.base, 0, 0, 0);
    REFUSED(STORE_UNLEASE, mine.base, all, 0, 0);
    return good;
}

static int other_names_refused(void)
{
    const uint64_t m = mine.container, all = ~0ull;
    int good = 1;
    strcpy(data, "no-such");
    REFUSED(STORE_NAMED, m, 0, 0, 64);
    REFUSED(STORE_NAMED, all, 0, 0, 64);
    REFUSED(STORE_NAMED, unopened, 0, 0, 64);
    REFUSED(STORE_DELETE, 0, 0, 0, 64);
    strcpy(data, "kept");
    strcpy(data + 64, "hostile-a");
    REFUSED(STORE_RENAME, 0, 0, 0, 128);
    memset(data + 64, 'y', 64);
    REFUSED(STORE_RENAME, 0, 0, 0, 128);
    return good;
}

static void harmless_words(void)
{
    const uint64_t all = ~0ull;
    int good = request(STORE_LIST, all, 0, 0, 0) >= 0 && request(STORE_LIST, 0, all, all, 0) >= 0
        && request(STORE_STATS, all, all, all, 100) >= 0
        && client_call(STORE_STATS, 0, 0, 0, NULL, 0, out, 1) == -EMSGSIZE
        && client_call(STORE_LIST, 0, 0, 0, NULL, 0, out, 8) == -EMSGSIZE;
    tap_ok(good, "what no word can spoil");
}

static void requests(void)
{
    unknown_kinds();
    bad_names();
    int ranges = ranges_refused(), names = other_names_refused();
    tap_ok(ranges && names, "words that name nothing, or what is others'");
    harmless_words();
}

/* ---- watches ---- */

/* A process opens a container, sets all the watches that it may, waits for none, closes, ends. */
static int watcher(void)
{
    struct wire_opened o;
    if (client_reopen("hostile-a", 0, &o) < 0) return 1;
    for (uint64_t key = 0; key < 32; key++)
        if (client_call(STORE_WATCH, key, 0, 0, &o.base, sizeof o.base, NULL, 0) != 0) return 2;
    return request(STORE_CLOSE, o.container, 0, 0, 0) == 0 ? 0 : 3;
}

enum { SLEEPER = 7 };
static int awake;                       /* atomic */
static void *sleeper(void *unused)
{
    if (client_call(STORE_WAIT, SLEEPER, 0, 0, NULL, 0, NULL, 0) == 0)
        __atomic_store_n(&awake, 1, __ATOMIC_RELEASE);
    return unused;
}

/* One thread sleeps by a watch that another one makes anew, again and again: it is woken, however
 * late it goes to sleep. */
static void watch_anew(void)
{
    pthread_t thread;
    long r = client_call(STORE_WATCH, SLEEPER, 0, 0, &page_of_mine, sizeof page_of_mine, NULL, 0);
    if (r == 0) r = -pthread_create(&thread, NULL, sleeper, NULL);
    for (int i = 0; r == 0 && !__atomic_load_n(&awake, __ATOMIC_ACQUIRE) && i < 60000; i++) {
        r = client_call(STORE_WATCH, SLEEPER, 0, 0, &page_of_mine, sizeof page_of_mine, NULL, 0);
        pause_ms(1);
    }
    client_call(STORE_WATCH, SLEEPER, 0, 0, NULL, 0, NULL, 0);
    tap_ok(r == 0 && awake, "who sleeps by a watch that is made anew is woken (%ld)", r);
}

static void watches(void)
{
    int wrong = 0;
    for (int i = 0; i < 5; i++) {
        int status = -1;
        pid_t pid = fork();
        if (pid == 0) _exit(watcher());
        waitpid(pid, &status, 0);
        if (status) printf("# watcher %d: %#x\n", i, (unsigned)status), wrong++;
    }
    tap_ok(!wrong, "watches of processes that closed and ended are in nobody's way");
}

/* ---- batches ---- */

struct attempt { const void *bytes; size_t count; int store; };

/* The batch as it is, perhaps with a page that was changed. */
static long attempt_run(void *arg)
{
    const struct attempt *a = arg;
    memcpy(client_txn.batch, a->bytes, a->count);
    client_txn.batch_bytes = a->count;
    if (a->store) *(volatile uint64_t *)page_of_mine += 1;
    return 0;
}

static long commit(const void *bytes, size_t count, int store)
{
    struct attempt a = {bytes, count, store};
    return client_run(attempt_run, &a);
}

static uint64_t raw[64];

static struct wire_op *op(uint32_t kind, uint64_t container, uint64_t address, uint64_t value,
                           const char *name)
{
    struct wire_op *o = (void *)raw;
    memset(raw, 0, sizeof raw);
    size_t bytes = (sizeof *o + (name ? strlen(name) + 1 : 0) + 7) & ~(size_t)7;
    *o = (struct wire_op){.kind = kind, .op_bytes = (uint32_t)bytes, .container = container,
                           .address = address, .value = value};
    if (name) strcpy(o->name, name);
    return o;
}

static int good;

static void op_refused(const char *what, const struct wire_op *o, size_t bytes)
{
    for (int store = 0; store < 2; store++) {
        long r = commit(o, bytes ? bytes : o->op_bytes, store);
        if (!is_errno(r)) printf("# %s%s: %ld\n", what, store ? ", with a page" : "", r), good = 0;
    }
}

#define OP(...) op_refused(#__VA_ARGS__, op(__VA_ARGS__), 0)

static void bad_lengths(void)
{
    const uint64_t m = mine.container, at = (uint64_t)page_of_mine;
    struct wire_op *p;
    for (unsigned bytes = 1; bytes < 32; bytes++) {
        p = op(WIRE_PAGE_FREE, m, at, 1, NULL);
        op_refused("a batch cut short", p, bytes);
    }
    static const uint32_t sizes[] = {
        0, 1, 8, 24, 31, 33, 36, 40, 4096, 1u << 31, ~0u, ~0u - 7, ~7u
    };
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        p = op(WIRE_ROOM, m, at, 1, NULL);
        p->op_bytes = sizes[i];
        op_refused("op_bytes", p, 32);
    }
    p = op(WIRE_ROOM, m, at, 1, NULL);
    op_refused("a good operation with bytes behind it", p, 40);
}

static void bad_names_in_batches(void)
{
    const uint64_t m = mine.container, at = (uint64_t)page_of_mine;
    char name[300];
    struct wire_op *p = op(WIRE_NAME_SET, m, at, 8, "endless");
    memset(p->name, 'n', 64);
    p->op_bytes = 32 + 64;
    op_refused("a name without NUL", p, 96);
    p->op_bytes = 32 + 56;
    op_refused("a name without NUL", p, 88);
    memset(name, 'n', sizeof name);
    name[64] = 0;
    OP(WIRE_NAME_SET, m, at, 8, name);
    name[64] = 'n', name[200] = 0;
    OP(WIRE_NAME_SET, m, at, 8, name);
    OP(WIRE_NAME_SET, m, at, 8, "");
    OP(WIRE_NAME_SET, m, at, 8, NULL);
    OP(WIRE_NAME_UNSET, m, 0, 0, NULL);
    OP(WIRE_NAME_UNSET, m, 0, 0, "no-such");
    OP(WIRE_LAYOUT, m, 0, WIRE_LAYOUT_VALUE(2, 8), NULL);
    OP(WIRE_LAYOUT, m, 0, WIRE_LAYOUT_VALUE(2, 8), "");
    OP(WIRE_LAYOUT, m, 0, WIRE_LAYOUT_VALUE(2, 0), "struct nothing");
    OP(WIRE_LAYOUT, m, 0, WIRE_LAYOUT_VALUE(2, 8), name);
    op(WIRE_LAYOUT, m, 0, WIRE_LAYOUT_VALUE(2, 8), "first");
    memcpy(raw + 5, raw, 40);
    op_refused("two layouts", (void *)raw, 80);
}

static void bad_containers(void)
{
    const uint64_t m = mine.container, all = ~0ull, at = (uint64_t)page_of_mine;
    good = 1;
    for (uint32_t kind = 0; kind < WIRE_LAYOUT + 2; kind++) {
        OP(kind, 0, at, 1, "name");
        OP(kind, all, at, 1, "name");
        OP(kind, unopened, at, 1, "name");
        OP(kind, other.container, other.base, 1, "name");
    }
    OP(0, m, at, 1, "name");
    OP(WIRE_LAYOUT + 1, m, at, 1, "name");
    OP(~0u, m, at, 1, "name");
    tap_ok(good, "containers that are not there, not open, open read-only; unknown kinds");
}

static void bad_addresses(void)
{
    const uint64_t m = mine.container, all = ~0ull, at = (uint64_t)page_of_mine;
    good = 1;
    OP(WIRE_NAME_SET, m, 0, 8, "name");
    OP(WIRE_NAME_SET, m, all, 8, "name");
    OP(WIRE_NAME_SET, m, other.base, 8, "name");
    OP(WIRE_NAME_SET, m, mine.base - 1, 8, "name");
    OP(WIRE_PAGE_CLAIM, m, other.base, 1, NULL);
    OP(WIRE_PAGE_CLAIM, m, at + 8, 1, NULL);
    OP(WIRE_PAGE_CLAIM, m, at, 0, NULL);
    OP(WIRE_PAGE_CLAIM, m, at, all, NULL);
    OP(WIRE_PAGE_CLAIM, m, mine.base, mine.pages + 1, NULL);
    OP(WIRE_PAGE_CLAIM, m, mine.base + (mine.pages - 1) * 4096, 1, NULL); /* nobody leased it */
    OP(WIRE_PAGE_FREE, m, other.base, 1, NULL);
    OP(WIRE_PAGE_FREE, m, at + 8, 1, NULL);
    OP(WIRE_PAGE_FREE, m, at, 0, NULL);
    OP(WIRE_PAGE_FREE, m, at, all, NULL);
    OP(WIRE_PAGE_FREE, m, at, 1ull << 52, NULL);
    OP(WIRE_PAGE_FREE, m, mine.base, mine.pages + 1, NULL);
    OP(WIRE_PAGE_FREE, m, 0, 1, NULL);
    OP(WIRE_PAGE_FREE, m, all - 4095, 2, NULL);
    OP(WIRE_ROOM, m, other.base, 1, NULL);
    OP(WIRE_ROOM, m, all, 1, NULL);
    tap_ok(good, "addresses outside the container");
}

/* The first name is good, the second is not: neither is there afterwards. */
static void half_good(void)
{
    const uint64_t m = mine.container, at = (uint64_t)page_of_mine;
    op(WIRE_NAME_SET, m, at, 8, "first");
    struct wire_op *second = (void *)(raw + 5);
    *second = (struct wire_op){.kind = WIRE_NAME_UNSET, .op_bytes = 40, .container = m};
    strcpy(second->name, "nosuch");
    good = refused("two operations", commit(raw, 80, 1));
    good &= client_name(STORE_NAMED, m, "first") == -ENOENT;
    tap_ok(good, "one bad operation undoes all of them");
}

static void batches(void)
{
    const uint64_t m = mine.container, at = (uint64_t)page_of_mine;
    good = 1;
    bad_lengths();
    bad_names_in_batches();
    tap_ok(good, "batches that are not well formed");
    bad_containers();
    bad_addresses();
    half_good();
    good = commit(op(WIRE_PAGE_FREE, m, mine.base + 100 * 4096, 3, NULL), 32, 0) <= 0;
    tap_ok(good, "pages that were never used are freed, or not");
    const char root[] = "\1root";
    commit(op(WIRE_NAME_SET, m, at, 8, root), 40, 0);
    tap_ok(refused("root", commit(op(WIRE_NAME_SET, m, at, 8, root), 40, 1)),
           "the root's name is set once");
}

/* ---- at random ---- */

static uint64_t dice_state = 7;

static uint64_t dice(void)
{
    dice_state = dice_state * 6364136223846793005 + 1442695040888963407;
    return dice_state >> 33;
}

static uint64_t any_word(void)
{
    const uint64_t some[] = { 0, 1, 2, ~0ull, 1ull << 63, mine.container, other.container, unopened,
                              mine.base, mine.base + 4096, other.base,
                              (uint64_t)page_of_mine,
                              4096,
                              64,
                              100 };
    return dice() % 8 ? some[dice() % (sizeof some / sizeof some[0])] : dice() << 20;
}

static void requests_at_random(void)
{
    long results[2] = {0};
    for (int i = 0; i < FUZZ_REQUESTS; i++) {
        for (int k = 0; k < 20; k++) data[dice() % 256] = (char)(dice() % 3 ? 'a' + dice() % 2 : 0);
        uint32_t kind = dice() % 16 ? (uint32_t)(dice() % 12 + 1) : (uint32_t)dice();
        if (kind == STORE_CLOSE || (kind == STORE_CHECKPOINT && i % 64)) continue;
        size_t bytes = dice() % 2   ? dice() % 300
                       : dice() % 2 ? sizeof(struct wire_open)
                                    : 64 * (dice() % 3);
        results[request(kind, any_word(), any_word(), any_word(), bytes) >= 0]++;
    }
    printf("# %ld requests were refused, %ld not\n", results[0], results[1]);
    tap_ok(results[0] > 100, "%d requests at random", FUZZ_REQUESTS);
}

/* Fills a batch with operations; how many words they take. */
static size_t batch_at_random(uint64_t words[64])
{
    size_t used = 0;
    while (used + 12 < 64 && dice() % 4) {
        struct wire_op *o = (void *)(words + used);
        size_t count = 4 + dice() % 3;
        *o = (struct wire_op){.kind = (uint32_t)(dice() % 6), .op_bytes = (uint32_t)count * 8,
                               .container = dice() % 4 ? mine.container : any_word(),
                               .address = any_word(), .value = any_word()};
        if (count > 4) o->name[0] = (char)('a' + dice() % 3);
        if (dice() % 16 == 0) o->op_bytes = (uint32_t)dice();
        used += count;
    }
    return used;
}

static void batches_at_random(void)
{
    long results[2] = {0};
    for (int i = 0; i < FUZZ_BATCHES; i++) {
        uint64_t bytes[64] = {0};
        size_t used = batch_at_random(bytes);
        results[commit(bytes, used * 8 - (dice() % 16 == 0 && used), dice() % 2 != 0) >= 0]++;
    }
    printf("# %ld commits were refused, %ld not\n", results[0], results[1]);
    tap_ok(results[0] > 100, "%d batches at random", FUZZ_BATCHES);
}

static struct wire_entry at_first[64];     /* what was there */

static int was_there(const char *name)
{
    for (int i = 0; i < 64; i++)
        if (strcmp(at_first[i].name, name) == 0) return 1;
    return 0;
}

static void containers_delete(void)
{
    static struct wire_entry list[64];
    for (int deleted = 1; deleted;) { /* 64 at a time */
        deleted = 0;
        client_call(STORE_LIST, 0, 64, 0, NULL, 0, list, sizeof list);
        for (uint64_t n = client_reply.data_bytes / sizeof list[0], i = 0; i < n; i++) {
            if (was_there(list[i].name)) continue;
            deleted +=
                client_call(STORE_DELETE, 0, 0, 0, list[i].name, STORE_NAME_BYTES, NULL, 0) == 0;
        }
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) return role(argv[1]);
    tap_plan(24);
    is(child_run(argv[0], "fill", NULL), 0, "data that must stay");
    is(client_connect(), 0, "the store manager is there");
    client_open("hostile-b", PS_CREATE | PS_WRITE, NULL, 0, 0, &other);
    client_call(STORE_CLOSE, other.container, 0, 0, NULL, 0, NULL, 0);
    tap_ok(client_open("hostile-a", PS_CREATE | PS_WRITE, NULL, 0, 0, &mine) == 0
               && client_open("hostile-b", 0, NULL, 0, 0, &other) == 0, "two containers");
    page_of_mine = client_lease(mine.container, 1, NULL);
    client_call(STORE_LIST, 0, 64, 0, NULL, 0, at_first, sizeof at_first);
    for (int i = 0; i < 64; i++)
        if (strcmp(at_first[i].name, "kept") == 0) unopened = at_first[i].container;
    tap_ok(page_of_mine && unopened && commit(NULL, 0, 1) == 0,
           "a page, and a commit that is right");
    const struct wire_stats before = client_stats();
    const struct counts counts = counts_now();
    is(client_run(changes_nowhere, NULL), 2, "txn_changes: memory that is nowhere");
    requests();
    watches();
    watch_anew();
    batches();
    requests_at_random();
    batches_at_random();
    containers_delete();
    tap_ok(client_stats().containers == before.containers, "the containers are those that were");
    is(commit(NULL, 0, 1), 0, "a commit that is right, again");
    is(client_call(STORE_CHECKPOINT, 0, 0, 0, NULL, 0, NULL, 0), 0, "a checkpoint");
    is(child_run(argv[0], "check", NULL), 0, "the data is as it was");
    tap_ok(counts_back(counts, MANAGER_KEEPS),
           "frames, objects, processes, views, handles and credits are back");
    return tap_end();
}
