/*
 * hostile_client.c - a confined program whose operations are carried out by a server (PF4 of
 * libpstore/split_server.c; user/sites/modes.md).
 *
 * Aim     It was passed a way to the server of one container, and has operations carried out there,
 *         with the rights that the way has. It has no container, so no page: it opens none, by no
 *         configuration and no name, and by its client's port it reads, stores, locks and makes
 *         nothing. It makes no further way, and no more clients than four. When the grant is taken
 *         back no client begins, and none goes on. A way that nobody has any more is free.
 * Method  This program starts itself as the server, and confined, with a way as handle 0; the exit
 *         status is the line of the first answer that was wrong.
 */
#include <errno.h>
#include <split.h>
#include <split_protocol.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pstore_test.h"

#define WANT(good) do { if (!(good)) exit(__LINE__ % 250 + 1); } while (0)
#define LAYOUT PS_LAYOUT(struct root, 1)
enum { WAY, FIRST = 5, STAYS = 77, CLIENTS = 4, PASSES = 200 };
struct root { int64_t number; char rest[4000]; };

/* ---- the server ---- */

static int operation_set(ps_container *c, void *number)
{
    struct root *root = ps_root(c);
    if (!root) return -errno;
    int64_t before = root->number;
    root->number = *(int64_t *)number;
    *(int64_t *)number = before;
    return 0;
}

static int operation_get(ps_container *c, void *number)
{
    const struct root *root = ps_root(c);
    if (!root) return -errno;
    *(int64_t *)number = root->number;
    return 0;
}

static const struct ps_operation operations[] = {{"set", operation_set, sizeof(int64_t)},
                                                 {"get", operation_get, sizeof(int64_t)}, {0}};

static int serve(void) { return ps_split_serve("box", PS_CREATE | PS_WRITE, LAYOUT, operations); }

/* ---- the confined program ---- */

static int asks(uint32_t kind, int by, uint64_t word1, int shown, int *handle)
{
    static char answer[SPLIT_DATA_MAX];
    int64_t n = 99;
    struct kd_message m = {.kind = kind,
                           .word = {PS_WRITE, word1, KD_STORE_BASE, 0, sizeof n, PS_X},
                           .data = &n, .data_bytes = kind == SPLIT_CALL ? sizeof n : 0,
                           .handle = shown, .handle_rights = shown < 0 ? 0 : KD_RIGHT_CALL,
                           .buffer = answer, .buffer_bytes = sizeof answer};
    long r = kd_call3(KD_PORT_CALL, by, (long)&m, 0);
    if (handle) *handle = r == 0 && m.status == 0 ? m.handle : -1;
    return r < 0 ? (int)r : m.status;
}

static int number_set(ps_split *s, int64_t number, int64_t *before)
{
    *before = number;
    return ps_split_run(s, "set", before, sizeof *before);
}

static void finds_no_page(void)
{
    static const char *const where[] = {"local", "mix"};
    for (int i = 0; i < 2; i++)
        WANT(!ps_split_open("box", PS_WRITE, LAYOUT, where[i], operations));
    WANT(!ps_open("box", PS_WRITE, LAYOUT) && !ps_open("box", 0, NULL));
    WANT(ps_handle("box", PS_MAY_READ) < 0 && ps_split_pass("box", 0) < 0);
    WANT(kd_call3(KD_NAME_FIND, (long)SPLIT_SERVES "box", 0, 0) < 0);
    WANT(!ps_split_open("other", PS_WRITE, NULL, "server", NULL));
    WANT(asks(SPLIT_PASS, WAY, 0, -1, NULL) == -EPERM);
    WANT(asks(SPLIT_PASS, WAY, 0, WAY, NULL) == -EPERM);
}

/* By its client's own port. */
static void calls_no_function(void)
{
    int client;
    WANT(asks(SPLIT_OPEN, WAY, 0, WAY, &client) == 0 && client >= 0); /* what is shown is unseen */
    for (uint64_t function = 0; function < SPLIT_ABORT + 3; function++)
        if (function != SPLIT_RUN)
            WANT(asks(SPLIT_CALL, client, function, -1, NULL) == -EPERM);
    WANT(asks(SPLIT_PASS, client, 0, WAY, NULL) == -ENOSYS);
    kd_call3(KD_HANDLE_CLOSE, client, 0, 0);
}

/* The server sees within a second that a client has gone. */
static ps_split *opens_soon(void)
{
    ps_split *s = NULL;
    for (int i = 0; i < 3000 && !s; i++) {
        s = ps_split_open("box", PS_WRITE, NULL, "server", NULL);
        if (!s && errno != EMFILE) break;
        if (!s) nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return s;
}

static void has_four(void)
{
    ps_split *s[CLIENTS];
    int64_t n;
    for (int i = 0; i < CLIENTS; i++) WANT((s[i] = opens_soon()));
    WANT(!ps_split_open("box", PS_WRITE, NULL, "server", NULL) && errno == EMFILE);
    for (int i = 0; i < CLIENTS; i++) WANT(number_set(s[i], FIRST, &n) == 0);
    ps_split_close(s[0]);
    WANT((s[0] = opens_soon()));
    for (int i = 0; i < CLIENTS; i++) ps_split_close(s[i]);
}

static int writer(void)
{
    int64_t n;
    ps_split *s = ps_split_open("box", PS_WRITE, NULL, "server", NULL);
    WANT(s && number_set(s, FIRST, &n) == 0 && n == 0);
    WANT(number_set(s, FIRST, &n) == 0 && n == FIRST);
    WANT(!ps_split_root(s) && errno == EPERM);
    ps_split_close(s);
    finds_no_page();
    calls_no_function();
    has_four();
    return 0;
}

static int reader(void)
{
    int64_t n = 0;
    WANT(!ps_split_open("box", PS_WRITE, NULL, "server", NULL) && errno == EACCES);
    ps_split *s = ps_split_open("box", 0, NULL, "server", NULL);
    WANT(s && ps_split_run(s, "get", &n, sizeof n) == 0 && n == FIRST);
    WANT(number_set(s, 7, &n) == -EROFS);
    return 0;
}

/* Goes on until it may no more. */
static int stays(void)
{
    int64_t n;
    int error = 0;
    ps_split *s = opens_soon(); /* those that closed may still be among the four */
    WANT(s && number_set(s, STAYS, &n) == 0);
    for (int i = 0; i < 6000 && !error; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        error = ps_split_run(s, "get", &n, sizeof n);
    }
    return error < 0 ? -error : 0;
}

static int opens(void) { return opens_soon() ? 0 : errno; }

/* ---- who passes it ---- */

static int begins(const char *role, int way)
{
    const char *argv[] = {"hostile_client", role, NULL};
    const char *envp[] = {"PS_ROOTS=" SPLIT_ROOTS ":0=box", NULL};
    struct kd_process_create p = {.path = "/bin/hostile_client", .argv = argv, .envp = envp,
                                  .fds = {-1, -1, -1}, .flags = KD_PROCESS_CONFINED,
                                  .handles = {way}, .handle_rights = {KD_RIGHT_CALL},
                                  .handle_count = 1};
    long h = kd_call3(KD_PROCESS_CREATE, (long)&p, 0, 0);
    if (h >= 0) kd_call3(KD_HANDLE_CLOSE, h, 0, 0);
    return h < 0 ? (int)h : p.pid;
}

static int confined(const char *role, int way)
{
    int pid = begins(role, way);
    return pid < 0 ? pid : child_wait(pid);
}

/* A program has it open when the container is taken back. */
static int stays_behind(int way, int *taken)
{
    int64_t n = 0;
    ps_split *s = ps_split_open("box", 0, NULL, "server", operations);
    int pid = begins("stays", way);
    for (int i = 0; i < 60000 && s && pid > 0 && n != STAYS
                    && ps_split_run(s, "get", &n, sizeof n) == 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    *taken = ps_take_back("box");
    int status = n == STAYS ? child_wait(pid) : -1;
    ps_split_close(s);
    return status;
}

static int pass_soon(int flags)
{
    int way = -ENOENT;
    for (int i = 0; i < 3000 && way == -ENOENT; i++) {
        way = ps_split_pass("box", flags);
        if (way == -ENOENT) nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return way;
}

static int many(void)
{
    int way[SPLIT_WAYS_MAX + 1], n = 0;
    for (int i = 0; i < PASSES; i++) {
        int one = ps_split_pass("box", PS_WRITE);
        if (one < 0) return i;
        ps_drop(one);
    }
    while (n <= SPLIT_WAYS_MAX && (way[n] = ps_split_pass("box", 0)) >= 0) n++;
    int error = way[n];
    for (int i = 0; i < n; i++) ps_drop(way[i]);
    return error;
}

int main(int argc, char **argv)
{
    const char *role = argc > 1 ? argv[1] : "";
    if (!strcmp(role, "serve")) return serve() != 0;
    if (!strcmp(role, "writer")) return writer();
    if (!strcmp(role, "reader")) return reader();
    if (!strcmp(role, "opens")) return opens();
    if (!strcmp(role, "stays")) return stays();
    tap_plan(9);
    int pid = child_start(argv[0], "serve", NULL), way = pass_soon(PS_WRITE);
    tap_ok(pid > 0 && way >= 0, "a way to the server (%d)", way);
    int status = confined("writer", way);
    tap_ok(status == 0, "by it a program has operations, four clients, and nothing else (%d)",
           status);
    int reads = ps_split_pass("box", 0);
    status = confined("reader", reads);
    tap_ok(reads >= 0 && status == 0, "one to read stores nothing (%d)", status);
    status = many();
    tap_ok(status == -EMFILE, "ways that nobody has are free; 64 are there at most (%d)", status);
    status = confined("opens", way);
    int taken, after = stays_behind(way, &taken);
    tap_ok(status == 0 && taken >= 0, "what was granted is taken back (%d)", taken);
    tap_ok(after == EIDRM, "who has it open has it no more (%d)", after);
    status = confined("opens", way);
    tap_ok(status == EIDRM, "so nobody begins by it any more (%d)", status);
    kd_call3(KD_PROCESS_KILL, pid, 1, 0);
    tap_ok(child_wait(pid) == 1, "the server ends");
    tap_ok(kd_call3(KD_CHECK, 0, 0, 0) == 0, "kcheck");
    return tap_end();
}
