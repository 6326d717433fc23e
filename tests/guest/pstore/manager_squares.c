/*
 * manager_squares.c - managers beside the store manager: computed pages, own protocols, failures.
 *
 * Aim     manager.h serves more than one manager; a manager that fails, refuses or dies harms its
 *         own objects only.
 * Method  /bin/squares as it is; and this program once more as a manager of its own objects: one
 *         that counts its requests, one whose pages fail, one that is transactional and keeps what
 *         is committed in its own memory.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "manager.h"
#include "store_client.h"

/* ---- the manager side: this program with an argument ---- */

enum { SIDE_PAGES = 8 };
static uint64_t requests;
static uint8_t home[SIDE_PAGES][4096];

static void count_page(struct km_request *r)
{
    requests++;
    uint64_t words[512] = {requests, r->page};
    km_supply(r, words, 1);
}
static void count_call(struct km_object *o, void *message, int bytes)
{
    (void)o;
    if (bytes == sizeof(requests)) memcpy(message, &requests, sizeof(requests));
}
static void bad_page(struct km_request *r) { km_fail(r, EIO); }
static void home_page(struct km_request *r) { km_supply(r, home[r->page], 1); }

/* What the view changed goes home; word 511 of a page must stay 0. */
static int home_commit(struct km_object *o, uint64_t view)
{
    static uint8_t runs[16384];
    for (int pass = 0; pass < 2; pass++)
        for (uint64_t cursor = 0; cursor != ~0ull;) {
            long bytes = km_diff(o, view, &cursor, runs, sizeof(runs));
            if (bytes < 0) return (int)bytes;
            for (long at = 0; at < bytes;) {
                const struct kd_run *run = (const void *)(runs + at);
                if (run->offset + run->bytes > 4088) return -EPERM;
                if (pass) memcpy(home[run->page] + run->offset, run + 1, run->bytes);
                at += (long)sizeof(*run) + ((run->bytes + 7) & ~7);
            }
        }
    return 0;
}
static void home_clean(struct km_object *o, const uint64_t *pages, unsigned count)
{
    (void)o; (void)pages; (void)count;
}

static int side(void)
{
    static const struct km_ops count = {.page = count_page, .call = count_call};
    static const struct km_ops bad = {.page = bad_page};
    static const struct km_ops keep = { .page = home_page,
                                        .commit = home_commit,
                                        .clean = home_clean };
    static const struct km_ops zero = {0};
    struct km_object *o;
    if (km_create("count", SIDE_PAGES, KM_READ, &count, NULL, &o)) return 1;
    if (km_create("bad", SIDE_PAGES, KM_READ, &bad, NULL, &o)) return 2;
    if (km_create("zero", SIDE_PAGES, KM_READ | KM_WRITE, &zero, NULL, &o)) return 3;
    if (km_create("home", SIDE_PAGES, KM_READ | KM_WRITE | KM_TRANSACTIONAL, &keep, NULL, &o))
        return 4;
    if (km_credit(o, 64) < 0) return 5;
    return km_serve(2) ? 6 : 0;
}

/* ---- the client side ---- */

static int start(const char *path, const char *argument)
{
    const char *argv[] = {path, argument, NULL};
    struct kd_process_create c = { .path = path,
                                   .argv = argv,
                                   .fds = { -1, -1, -1 },
                                   .handle_count = 1,
                                   .handles = { KD_SYSTEM_HANDLE } };
    return kd_call3(KD_PROCESS_CREATE, (long)&c, 0, 0) < 0 ? -1 : c.pid;
}

static void *open_wait(const char *manager, const char *object, int flags)
{
    void *at = NULL;
    for (int i = 0; i < 30000 && !at; i++) {
        at = km_open(manager, object, flags);
        if (!at) nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    return at;
}

static uint64_t count_requests(void)
{
    uint64_t n = 0;
    return km_call("count", "count", &n, sizeof(n)) < 0 ? ~0ull : n;
}

/* Runs this program once more, to touch `object`; its status. */
static int toucher(const char *self, const char *object)
{
    int status = -1, pid = start(self, object);
    if (pid > 0) kd_call3(KD_PROCESS_WAIT, pid, (long)&status, 0);
    return status;
}
static int touch(const char *object)
{
    volatile uint64_t *at = km_open("count", object, KM_READ);
    if (!at) return 99;
    uint64_t word = *at;
    (void)word;
    return 0;
}

static volatile uint64_t *kept;
static long keep_write(void *value)
{
    kept[3] = (uint64_t)value;
    kept[512] = (uint64_t)value + 1;
    return 0;
}
static long keep_forbidden(void *value)
{
    kept[3] = (uint64_t)value;
    kept[511] = 1;
    return 0;
}
static long keep_read(void *out)
{
    *(uint64_t *)out = kept[3] + kept[512] + kept[511];
    return 0;
}

static void test_squares(void)
{
    int pid = start("/bin/squares", NULL);
    const uint64_t *squares = open_wait("squares", "squares", KM_READ);
    if (!tap_ok(pid > 0 && squares, "the squares are served")) return;
    int wrong = 0;
    for (uint64_t n = 1; n < 8ull << 30; n = n * 3 + 1) wrong += squares[n] != n * n;
    for (uint64_t n = 0; n < 20000; n++) wrong += squares[n] != n * n;
    tap_ok(wrong == 0, "and are right, near the end of 64 GiB as well");
    tap_ok(!km_open("squares", "squares", KM_READ | KM_WRITE) && errno == EACCES,
           "nobody may write them");
    tap_ok(!km_open("squares", "cubes", KM_READ) && errno == ENOENT, "there are no cubes");
    kd_call3(KD_PROCESS_KILL, pid, 9, 0);
    kd_call3(KD_PROCESS_WAIT, pid, 0, 0);
    tap_ok(!km_open("squares", "squares", KM_READ), "a dead manager serves nothing");
}

static void test_own(const char *self)
{
    int pid = start(self, "side");
    volatile uint64_t *count = open_wait("count", "count", KM_READ);
    if (!tap_ok(pid > 0 && count, "a manager with four objects (%d, %d)", pid, errno)) return;
    uint64_t first = count[0], again = count[0], other = count[512 * 3 + 1];
    tap_ok(first == again && other == 3 && count_requests() == 2, "each page is asked for once");
    volatile uint64_t *zero = km_open("count", "zero", KM_READ | KM_WRITE);
    int fine = zero && zero[700] == 0;
    if (fine) zero[700] = 5;
    tap_ok(fine && zero[700] == 5, "no policy: zeros, and memory that can be written");
    tap_ok(toucher(self, "bad") > 0, "who touches a page that fails is ended");
    tap_ok(toucher(self, "zero") == 0, "the others are not");

    kept = km_open("count", "home", KM_READ | KM_WRITE);
    uint64_t sum = 1;
    long r = kept ? client_run(keep_write, (void *)20) : -1;
    if (r == 0) r = client_run(keep_read, &sum);
    tap_ok(r == 0 && sum == 41, "a transaction on an object of its own (%llu)",
           (unsigned long long)sum);
    tap_ok(client_run(keep_forbidden, (void *)30) == -EPERM, "the manager may refuse a commit");
    tap_ok(client_run(keep_read, &sum) == 0 && sum == 41, "nothing of it is left");
    kd_call3(KD_PROCESS_KILL, pid, 9, 0);
    kd_call3(KD_PROCESS_WAIT, pid, 0, 0);
    tap_ok(client_run(keep_read, &sum) < 0, "after its manager's death an object is gone");
}

int main(int argc, char **argv)
{
    if (argc > 1) return strcmp(argv[1], "side") == 0 ? side() : touch(argv[1]);
    tap_plan(16);
    test_squares();
    test_own("/bin/manager_squares");
    struct wire_stats s = {0};
    tap_ok(client_connect() == 0 && (s = client_stats(), s.log_bytes_total > 0),
           "the store manager is unharmed");
    tap_ok(kd_call3(KD_CHECK, 0, 0, 0) == 0, "kcheck");
    return tap_end();
}
