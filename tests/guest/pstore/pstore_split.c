/*
 * pstore_split.c - functions of the store at the client or at a server (user/sites/modes.md).
 *
 * Aim     the server believes nothing: what was read by a client is compared before a commit rests
 *         on it, bytes lie within an object, a client does what its handle lets it do. A client
 *         that is silent, or whose handle is taken back, loses its transaction and hears so, and
 *         nobody else does. A transaction sees what it has written itself, wherever that is; what
 *         is undone leaves nothing, what is new nothing half.
 * Method  this program starts itself as the server, and is a client by the library and by messages
 *         that it makes by hand.
 */
#include <errno.h>
#include <split.h>
#include <split_protocol.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pstore_test.h"

struct root { int64_t number, other; char rest[4000]; };
#define LAYOUT PS_LAYOUT(struct root, 1)
#define LOG_THERE "read=client lock=client log=server commit=server abort=server allocate=server"
#define BIG (5ll << 32 | 200)
#define LOG_HERE "read=server lock=server log=client commit=server abort=server allocate=server"

static int operation_set(ps_container *c, void *number)
{
    struct root *root = ps_root(c);
    if (!root)
        return -errno;
    int64_t before = root->number;
    root->number = *(int64_t *)number;
    *(int64_t *)number = before;
    return 0;
}

static const struct ps_operation operations[] = {{"set", operation_set, sizeof(int64_t)}, {0}};

static int server(void)
{
    return ps_split_serve("split", PS_CREATE | PS_WRITE, LAYOUT, operations) ? 1 : 0;
}

/* ---- by hand ---- */

static ps_container *c;
static struct root *root;

static int by_hand(unsigned may, int flags)
{
    long port = kd_call3(KD_NAME_FIND, (long)SPLIT_SERVES "split", 0, 0);
    int shown = ps_handle("split", may | PS_MAY_GRANT);
    struct kd_message m = {.kind = SPLIT_OPEN, .word = {(uint64_t)flags}, .handle = shown,
                           .handle_rights = KD_RIGHT_CALL | may * KD_RIGHT_OWN};
    long r = kd_call3(KD_PORT_CALL, port, (long)&m, 0);
    ps_drop(shown);
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    return r ? (int)r : m.status ? m.status : m.handle;
}

struct said { int function; const void *object; uint64_t offset, bytes, mode, begun; };

static _Alignas(8) uint8_t answer[SPLIT_DATA_MAX];

static int say(int by, struct said s, const void *data, size_t bytes)
{
    struct kd_message m = {.kind = SPLIT_CALL, .handle = -1, .data = data, .data_bytes = bytes,
                           .buffer = answer, .buffer_bytes = sizeof answer,
                           .word = {0, (uint64_t)s.function, (uintptr_t)s.object, s.offset,
                                    s.bytes, s.mode, s.begun}};
    long r = kd_call3(KD_PORT_CALL, by, (long)&m, 0);
    return r ? (int)r : m.status;
}

static int set(void *number)
{
    root->number = *(int64_t *)number;
    return 0;
}

static int get(void *number)
{
    *(int64_t *)number = root->number;
    return 0;
}

static int find(void *unused)
{
    (void)unused;
    root = ps_root(c);
    return 0;
}

static int64_t number_now(void)
{
    const struct ps_options options = {.timeout_ms = 8000};
    int64_t n = -1;
    return ps_transaction_opt(get, &n, &options) ? -1 : n;
}

struct record { struct split_record head; int64_t value; };

static int commit(int by, int64_t seen, int64_t stored)
{
    struct record r[2] = {{{(uintptr_t)root, 0, 8, 0}, seen}, {{(uintptr_t)root, 0, 8, 1}, stored}};
    return say(by, (struct said){.function = SPLIT_COMMIT}, r, sizeof r);
}

/* A commit that rests on `seen`, and whose store the server keeps. On a busy host the client may be
 * silent for too long in between (PF2). */
static int commit_kept(int by, int64_t seen, int64_t stored)
{
    struct record kept = {{(uintptr_t)root, 0, 8, 1}, stored};
    struct record read = {{(uintptr_t)root, 0, 8, 0}, seen};
    int r = -ETIMEDOUT;
    for (int i = 0; i < 20 && r == -ETIMEDOUT; i++) {
        r = say(by, (struct said){.function = SPLIT_KEEP}, &kept, sizeof kept);
        if (r == 0)
            r = say(by, (struct said){.function = SPLIT_COMMIT, .begun = 1}, &read, sizeof read);
    }
    return r;
}

static void keeps(int by)
{
    int r = commit_kept(by, 7, 9);
    tap_ok(r == -ESTALE && number_now() == 8,
           "what the server keeps is not stored if what was read is not true (%d),", r);
    r = commit_kept(by, 8, 9);
    tap_ok(r == 0 && number_now() == 9, "and is if it is, of the same bytes (%d)", r);
    commit(by, 9, 8);
}

static void compares(int by)
{
    int64_t n = 7;
    ps_transaction(set, &n);
    tap_ok(commit(by, 6, 8) == -ESTALE && number_now() == 7,
           "a commit that rests on what is no more is refused");
    tap_ok(commit(by, 7, 8) == 0 && number_now() == 8, "one that rests on what is true is done");
    struct record r = {{(uintptr_t)root, 4088, 16, 0}, 0};
    tap_ok(say(by, (struct said){.function = SPLIT_COMMIT}, &r, sizeof r) == -EINVAL,
           "a record that is shorter than it says");
}

static void within(int by)
{
    const char *p = (const char *)root;
    const struct said wrong[] = {
        {.function = SPLIT_READ, .object = root, .offset = sizeof *root - 8, .bytes = 32},
        {.function = SPLIT_READ, .object = root, .offset = ~7ull, .bytes = 16},
        {.function = SPLIT_READ, .object = root, .bytes = PS_SPLIT_BYTES + 1},
        {.function = SPLIT_READ, .object = p + 16, .bytes = 8},
        {.function = SPLIT_READ, .object = wrong, .bytes = 8},
        {.function = SPLIT_READ, .object = p + (1ull << 29), .bytes = 8},
        {.function = SPLIT_LOCK, .object = p + 16, .mode = PS_S},
        {.function = SPLIT_LOCK, .object = root, .mode = PS_OWN},
        {.function = SPLIT_WRITE, .object = root, .offset = 1 << 20},
        {.function = SPLIT_ALLOCATE, .bytes = 0}};
    int64_t n = 5;
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int r = say(by, wrong[i], &n, wrong[i].function == SPLIT_WRITE ? sizeof n : 0);
        tap_ok(r == -EINVAL, "a place that is none: %u (%d)", i, r);
    }
    tap_ok(number_now() == 8, "and nothing was stored");
}

static void rights(void)
{
    int by = by_hand(PS_MAY_READ, PS_WRITE);
    tap_ok(by == -EACCES, "who shows a handle to read is no writer (%d)", by);
    by = by_hand(PS_MAY_READ, 0);
    int64_t n = 9;
    tap_ok(say(by, (struct said){.function = SPLIT_READ, .object = root, .bytes = 8}, NULL, 0) == 0,
           "he reads");
    tap_ok(say(by, (struct said){.function = SPLIT_WRITE, .object = root}, &n, 8) == -EROFS,
           "and stores nothing,");
    tap_ok(commit(by, 8, 9) == -EROFS, "by no record,");
    tap_ok(say(by, (struct said){.function = SPLIT_ALLOCATE, .bytes = 8}, NULL, 0) == -EROFS,
           "no allocation,");
    char run[SPLIT_NAME_BYTES + 8] = "set";
    memcpy(run + SPLIT_NAME_BYTES, &n, 8);
    tap_ok(say(by, (struct said){.function = SPLIT_RUN}, run, sizeof run) == -EROFS &&
           number_now() == 8, "no operation");
    kd_call3(KD_HANDLE_CLOSE, by, 0, 0);
}

static void silence(int by)
{
    int64_t n = 11;
    struct said write = {.function = SPLIT_WRITE, .object = root};
    tap_ok(say(by, write, &n, 8) == 0, "a write at the server");
    const struct ps_options options = {.timeout_ms = 8000};
    ps_transaction_opt(set, &(int64_t){12}, &options);
    tap_ok(number_now() == 12, "others go on when its client is silent");
    int r = say(by, (struct said){.function = SPLIT_COMMIT, .begun = 1}, NULL, 0);
    tap_ok(r == -ETIMEDOUT && number_now() == 12, "who hears so when it speaks again (%d)", r);
    write.begun = 0;
    tap_ok(say(by, write, &n, 8) == 0 && say(by, (struct said){.function = SPLIT_READ,
               .object = root, .bytes = 8}, NULL, 0) == 0 && *(int64_t *)(void *)answer == 12,
           "what was begun before is not part of a transaction that begins");
    say(by, (struct said){.function = SPLIT_ABORT, .begun = 1}, NULL, 0);
}

/* The last client: all handles that were made of the container's entry go. */
static void taken_back(int by, ps_split *s)
{
    int64_t before = number_now(), n = before + 1;
    struct said write = {.function = SPLIT_WRITE, .object = root};
    tap_ok(say(by, write, &n, 8) == 0 && ps_take_back("split") >= 0,
           "what it was shown is taken back in the midst of a transaction");
    int r = say(by, (struct said){.function = SPLIT_COMMIT, .begun = 1}, NULL, 0);
    tap_ok(r == -EIDRM && number_now() == before, "which is undone (%d)", r);
    r = say(by, write, &n, 8);
    tap_ok(r == -EIDRM && number_now() == before, "nor does one begin (%d)", r);
    r = ps_split_run(s, "set", &n, sizeof n);
    tap_ok(r == -EIDRM && number_now() == before, "nor an operation (%d)", r);
    by = by_hand(PS_MAY_READ | PS_MAY_WRITE, PS_WRITE);
    r = commit(by, before, n);
    tap_ok(by >= 0 && r == 0 && number_now() == n, "the server goes on with others (%d)", r);
}

/* ---- by the library ---- */

struct new { int64_t number, other; };
struct run { int result; int64_t seen; struct new *made; };

static int body(ps_split *s, void *arg)
{
    struct run *r = arg;
    struct root *at = ps_split_root(s);
    int64_t n = 100, half[2] = {1, 2};
    int error = ps_split_lock(s, at, PS_X);
    if (!error)
        error = ps_split_write(s, at, 0, &n, 8);
    n = BIG;
    if (!error)
        error = ps_split_write(s, at, 0, &n, 8);
    if (!error)
        error = ps_split_read(s, at, 4, half, 12);
    r->seen = half[0];
    r->made = error ? NULL : ps_split_alloc(s, sizeof *r->made, at);
    int64_t zero = 1;
    if (r->made)
        error = ps_split_read(s, r->made, 8, &zero, 8);
    if (r->made && !error)
        error = ps_split_write(s, r->made, 8, &n, 8);
    return error ? error : zero ? -EILSEQ : r->result;
}

static int look(void *made)
{
    const struct new *new = made;
    return ps_size(new) && new->other == BIG && new->number == 0 ? 0 : -ENOENT;
}

/* Runs it until nobody got in between; a server waits for a moment only (PF2), so on a busy host
 * its client's time may be up, too. `again`: how often somebody did the last time. */
static int run_alone(ps_split *s, struct run *r, uint64_t *again)
{
    const struct run begins = *r;
    struct ps_split_counts before, after;
    int error;
    for (int i = 0; i < 20; i++) {
        *r = begins;
        ps_split_counts(s, &before);
        error = ps_split_transaction(s, body, r);
        ps_split_counts(s, &after);
        *again = after.again - before.again;
        if (*again == 0 && error != -ETIMEDOUT)
            break;
    }
    return error;
}

static void whole(const char *configuration)
{
    ps_split *s = ps_split_open("split", PS_WRITE, LAYOUT, configuration, operations);
    struct run r = {.result = -ECANCELED};
    int64_t n = 50;
    uint64_t again = 0;
    tap_ok(s != NULL, "%s (%d)", configuration, errno);
    ps_transaction(set, &n);
    int error = run_alone(s, &r, &again);
    tap_ok(error == -ECANCELED && number_now() == 50 && ps_transaction(look, r.made) == -ENOENT,
           "what is undone leaves nothing (%d)", error);
    r = (struct run){.seen = -1};
    error = run_alone(s, &r, &again);
    tap_ok(error == 0 && number_now() == BIG, "what is committed is there (%d)", error);
    tap_ok(r.seen == 5, "a half of a number that it has written, and what lies behind it");
    tap_ok(ps_transaction(look, r.made) == 0, "what is new is there as a whole");
    struct ps_split_counts counts;
    ps_split_counts(s, &counts);
    tap_ok(again == 0 && (counts.calls == 0) == (strcmp(configuration, "local") == 0),
           "and nobody got in between (%llu times)",
           (unsigned long long)again);
    n = 77;
    error = ps_split_run(s, "set", &n, sizeof n);
    tap_ok(error == 0 && n == BIG && number_now() == 77, "an operation, and its answer (%d)",
           error);
    ps_split_close(s);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return server();
    tap_plan(68);
    int pid = child_start(argv[0], "serve", NULL), tries = 0;
    ps_split *s = NULL;
    while (!s && tries++ < 2000) {
        s = ps_split_open("split", PS_WRITE, LAYOUT, "server", operations);
        if (!s)
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    c = ps_open("split", PS_WRITE, LAYOUT);
    if (!tap_ok(pid > 0 && s && c, "a server, and its client (%d)", errno))
        return 1;
    ps_transaction(find, NULL);
    int by = by_hand(PS_MAY_READ | PS_MAY_WRITE, PS_WRITE);
    tap_ok(by >= 0, "a client by hand (%d)", by);
    compares(by);
    keeps(by);
    within(by);
    rights();
    silence(by);
    whole("local");
    whole("mix");
    whole(LOG_THERE);
    whole(LOG_HERE);
    whole("server");
    taken_back(by, s);
    ps_split_close(s);
    return tap_end();
}
