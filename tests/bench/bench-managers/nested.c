/*
 * nested.c - a call into a manager that calls another manager before it answers: what the nested
 * call and its return add, and the same by manager.h's km_call, with the name looked up each time.
 */
#include "bench.h"

enum { ROUNDS = 200, CALL_NULL = 1, CALL_NESTED = 2, OUTER = 1, INNER = 2, BY_LIBRARY = 3 };
static const char *const names[] = {"", "bench-nested-outer", "bench-nested-inner",
                                    "bench-nested-km"};

static void call(struct km_object *o, void *message, int bytes)
{
    (void)o, (void)message, (void)bytes;
}

static int serve_library(void)
{
    static const struct km_ops ops = {.call = call};
    struct km_object *object;
    int e = km_create(names[BY_LIBRARY], 1, KM_READ, &ops, NULL, &object);
    return e ? e : km_serve(1);
}

/* Answers null calls; a nested one after a null call to the inner server. */
static int serve(int number)
{
    struct kd_message reply = {.handle = -1}, m = {.handle = -1}, inner = {.handle = -1};
    uint64_t token = 0;
    if (number == BY_LIBRARY)
        return serve_library();
    long below = number == OUTER ? kd_call3(KD_NAME_FIND, (long)names[INNER], 0, 0) : -1;
    int port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    if (kd_call3(KD_NAME_SET, (long)names[number], port, 0))
        return 1;
    for (;;) {
        long e = token ? kd_call4(KD_PORT_REPLY_RECEIVE, (long)token, (long)&reply, port, (long)&m)
                       : kd_call3(KD_PORT_RECEIVE, port, (long)&m, -1);
        if (e)
            return 2;
        token = m.token;
        reply.status = 0;
        if (m.kind == CALL_NESTED) {
            inner.kind = CALL_NULL;
            reply.status = (int)kd_call3(KD_PORT_CALL, below, (long)&inner, 0);
        }
    }
}

static double call_cost(int port, uint32_t kind)
{
    struct kd_message m = {.handle = -1};
    uint64_t least = ~0ull, cost = counter_cost();
    for (int i = 0; i < ROUNDS; i++) {
        m.kind = kind;
        uint64_t t = counter();
        long e = kd_call3(KD_PORT_CALL, port, (long)&m, 0);
        t = counter() - t - cost;
        if (e)
            fail("a call", e);
        least = t < least ? t : least;
    }
    return (double)least;
}

static double library_cost(void)
{
    uint64_t least = ~0ull, word = 0, cost = counter_cost();
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t t = counter();
        int e = km_call(names[BY_LIBRARY], names[BY_LIBRARY], &word, sizeof word);
        t = counter() - t - cost;
        if (e < 0)
            fail("km_call", e);
        least = t < least ? t : least;
    }
    return (double)least;
}

static void run(void)
{
    int outer, inner;
    long inner_pid = server_start(&nested_part, INNER, names[INNER], &inner);
    long outer_pid = server_start(&nested_part, OUTER, names[OUTER], &outer);
    long library_pid = server_start(&nested_part, BY_LIBRARY, names[BY_LIBRARY], NULL);
    double plain = call_cost(outer, CALL_NULL), nested = call_cost(outer, CALL_NESTED);
    row("null call to a manager and back, from plain memory", "instructions", plain, "800");
    row("null nested call: what a manager's call to the next one adds, with the return",
        "instructions", nested - plain, "850");
    row("call to a manager by manager.h: km_call of 8 bytes, found by name", "instructions",
        library_cost(), "-");
    server_end(library_pid);
    server_end(outer_pid);
    server_end(inner_pid);
}

const struct part nested_part = {"nested", run, serve};
