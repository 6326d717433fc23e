/*
 * hostile_monitor.c - random programs at the store's handles, beside a reference monitor
 * (user/store/directories.md; tests/model/rights.md: RT1 to RT12).
 *
 * Aim     No sequence of opens by path and handle, handles in messages, links, unlinks, takings
 *         back, moves, deletions, closes, ends of programs and deaths of the store manager makes a
 *         right that nobody granted, or takes one that nobody took back; forged handles are worth
 *         nothing, and a handle that was taken back is dead wherever it is, in a message, too. When
 *         the manager dies in the middle of a change, all of it is there or nothing.
 * Method  Four programs, three of them confined, do what this one says, by bare calls. The monitor
 *         (monitor.c) says beforehand whether each may succeed, and with which rights. What is
 *         mapped is asked of the kernel, what is durable of the directories. In `make test` a
 *         sample, in the long tier 100,000 operations. hostile_monitor SEED OPERATIONS repeats a
 *         run.
 */
#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pstore_test.h"
#include "test.h"

enum { SAMPLE = 25000, ALL_OF_THEM = 100000, TRIES = 60000, DEATHS = 6, END_EACH = 300 };

uint64_t allowed, refused;
int store = -1;
struct order o;
struct report r;
static uint64_t seed, rng, operation, operations, deaths, ends, torn;
static const char *self;
static int port = -1, pid[ACTORS], failed;
static uint64_t token[ACTORS];

uint64_t below(uint64_t limit)
{
    rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17;
    return (rng >> 16) % limit;
}

void wrong(int actor, const char *what, const char *path, long got, long wanted)
{
    if (failed++)
        return;
    printf("# seed %lu, operation %lu: program %d, %s \"%s\": %ld, and the monitor says %ld\n"
           "# again: scripts/run --add build/tests/guest/hostile_monitor --allow all -c "
           "'hostile_monitor %lu %lu'\n",
           seed, operation, actor, what, path, got, wanted, seed, operations);
}

/* ---- the programs ---- */

static long store_find(void)
{
    for (int i = 0; i < TRIES; i++) {
        struct kd_message m = {.kind = STORE_HELLO, .word = {STORE_PROTOCOL_VERSION}, .handle = -1};
        long h = kd_call3(KD_NAME_FIND, (long)"store", 0, 0);
        if (h >= 0 && kd_call3(KD_PORT_CALL, h, (long)&m, 0) == 0 && m.status == 0)
            return h;
        kd_call3(KD_HANDLE_CLOSE, h, 0, 0);
        pause_ms(1);
    }
    return -ENOENT;
}

/* What the program says of the last order; a handle that it sends comes to this process. */
void hear(int actor)
{
    struct kd_message m = {.buffer = &r, .buffer_bytes = sizeof r, .handle = -1};
    long e;
    do
        e = kd_call3(KD_PORT_RECEIVE, port, (long)&m, -1);
    while (e == 0 && m.process != (uint64_t)pid[actor]);
    if (e)
        wrong(actor, "receive", "", e, 0);
    token[actor] = m.token;
    if (o.what == DO_SEND)
        r.handle = m.handle;
}

void tell(int actor, long handle, uint32_t rights)
{
    struct kd_message m = {.data = &o, .data_bytes = offsetof(struct order, data) + o.bytes,
                           .handle = (int)handle, .handle_rights = handle < 0 ? 0 : rights};
    long e = kd_call3(KD_PORT_REPLY, (long)token[actor], (long)&m, 0);
    if (e)
        wrong(actor, "reply", "", e, 0);
}

void run(int actor)
{
    if (actor == 0) {
        act(&o, &r);
        return;
    }
    tell(actor, -1, 0);
    hear(actor);
}

void order(enum what what, long handle)
{
    o = (struct order){.what = what, .handle = handle, .with = -1};
}

void drop(int actor, struct held *h)
{
    order(DO_DROP, h->number);
    run(actor);
    if (r.result)
        wrong(actor, "close", "", r.result, 0);
    h->used = false;
}

/* ---- ends and beginnings ---- */

/* It begins with one handle, at most: what another may give it. */
static void begin(int actor)
{
    const char *argv[] = {self, "actor", NULL};
    struct kd_process_create p = {.path = "/bin/hostile_monitor", .argv = argv, .fds = {-1, -1, -1},
                                  .flags = KD_PROCESS_CONFINED, .handle_count = 1,
                                  .handles = {port}, .handle_rights = {KD_RIGHT_CALL}};
    const struct held *h = some_handle(0);
    uint32_t rights = h ? h->rights & some_rights() : 0;
    if (h && h->rights & G) {
        p.handles[p.handle_count] = (int)h->number;
        p.handle_rights[p.handle_count++] = KD_RIGHT_CALL | rights;
    }
    long handle = kd_call3(KD_PROCESS_CREATE, (long)&p, 0, 0);
    pid[actor] = p.pid;
    if (handle < 0) {
        wrong(actor, "begin", "", handle, 0);
        return;
    }
    kd_call3(KD_HANDLE_CLOSE, handle, 0, 0);
    if (p.handle_count == 2)
        now.held[actor][0] = (struct held){true, 1, h->ticket, rights};
    order(DO_TAKE, 0);
    hear(actor);
}

static void end(int actor)
{
    order(DO_END, 0);
    tell(actor, -1, 0);
    int status = child_wait(pid[actor]);
    if (status)
        wrong(actor, "end", "", status, 0);
    actor_died(actor);
    ends++;
}

/* All programs begin anew; handles of this one and in the mail are of the dead manager's port. */
static void manager_gone(void)
{
    manager_died();
    kd_call3(KD_HANDLE_CLOSE, store, 0, 0);
    for (int a = 1; a < ACTORS; a++)
        end(a);
    for (int b = 0; b < BOXES; b++)
        now.box[b].ghost = false;
    store = (int)store_find();
    for (int a = 1; a < ACTORS; a++)
        begin(a);
    deaths++;
}

static void kill_manager(void)
{
    long e = kd_call3(KD_PROCESS_KILL, store_pid(), 9, 0);
    if (e)
        wrong(0, "kill of the manager", "", e, 0);
}

/* It dies while nothing changes. */
static void death(void)
{
    kill_manager();
    manager_gone();
    compare();
}

/* It dies while it makes a change: that is there as a whole or not at all. Init starts it again
 * eight times, and then no more. */
static void op_torn(int actor, const struct held *h)
{
    static struct monitor before, after;
    struct way way = some_place(h);
    struct seen s = walked(h, &way);
    int b = box_free(), g = grant_free();
    if (!actor || b == NONE || g == NONE || s.error != -ENOENT || !s.last || !(s.in_rights & W))
        return;
    before = now;
    request(h, STORE_MAKE, way.text);
    tell(actor, -1, 0);
    for (uint64_t i = below(200); i > 0; i--)
        sched_yield();
    kill_manager();
    hear(actor);
    bool answered = r.result == 0;
    now.box[b] = (struct box){.live = true, .is_directory = true};
    now.grant[g] = (struct grant){true, 0, b, NONE, s.in, s.name, ALL};
    manager_gone();
    after = now;
    if (compared() == 0)
        return;
    torn++;
    now = after;
    memcpy(now.box, before.box, sizeof now.box);
    memcpy(now.grant, before.grant, sizeof now.grant);
    if (answered)
        wrong(actor, "lost", way.text, 0, 1);
    compare();
}

/* ---- all of it ---- */

static void begin_all(void)
{
    rng = seed * 0x9e3779b97f4a7c15 | 1;
    now.box[0] = (struct box){.live = true, .is_directory = true};
    now.grant[0] = (struct grant){.live = true, .serial = 1ull << 63, .above = NONE, .in = NONE,
                                  .rights = ALL};
    store = (int)store_find();
    for (int i = 0; i < HANDLES; i++)
        op_handle(0, NULL);
    for (int a = 1; a < ACTORS; a++)
        begin(a);
}

static void random_operations(void)
{
    for (operation = 1; operation <= operations && !failed; operation++) {
        int actor = (int)below(ACTORS);
        struct held *h = some_handle(actor);
        if (h && !ticket_works(h->ticket) && below(4))
            drop(actor, h);
        else if (actor && !h) {
            op_handle(0, NULL);
            op_take(actor);
        } else {
            operate(actor, h);
        }
        if (below(END_EACH) == 0) {
            int dies = 1 + (int)below(ACTORS - 1);
            end(dies);
            begin(dies);
        }
        if (below(100) == 0)
            compare();
        actor = 1 + (int)below(ACTORS - 1);
        h = some_handle(actor);
        uint64_t before = deaths, due = (deaths + 1) * operations / (DEATHS + 1);
        if (h && deaths < DEATHS && operation > due)
            op_torn(actor, h);
        if (deaths == before && deaths < DEATHS && operation > due + operations / 20)
            death(); /* there was no room for a change, for long */
    }
}

int main(int argc, char **argv)
{
    struct timespec t;
    self = argv[0];
    if (argc > 1 && strcmp(argv[1], "actor") == 0)
        return actor_main();
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    clock_gettime(CLOCK_MONOTONIC, &t);
    seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)t.tv_nsec % 1000000;
    operations = argc > 2 ? strtoull(argv[2], NULL, 0)
                 : tap_long() ? ALL_OF_THEM : SAMPLE;
    tap_plan(4);
    port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    begin_all();
    random_operations();
    compare();
    tap_ok(!failed, "%lu random operations of four programs do what the monitor says; seed %lu",
           operations, seed);
    tap_ok(failed || (allowed > operations / 20 && refused > operations / 20),
           "%lu were allowed, %lu refused", allowed, refused);
    tap_ok(failed || (deaths > 0 && ends > deaths * (ACTORS - 1)),
           "%lu programs ended, and the manager %lu times: %lu changes were cut off", ends, deaths,
           torn);
    tap_ok(kd_call3(KD_CHECK, 0, 0, 0) == 0, "kcheck");
    return tap_end();
}
