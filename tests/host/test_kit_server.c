/*
 * test_kit_server.c - the thread that keeps a shared area, when the kernel has no memory.
 *
 * Aim     an answer whose data find no memory in the kernel is given again, and if there is none
 *         for long the asker hears -ENOMEM; the area goes on serving.
 * Method  kit_server.c itself over a kernel whose only work is to hand it messages and take its
 *         answers. Between processes: tests/guest/pstore/pstore_kit.c.
 */
#define KATYDID_CALL_H
#include "katydid/abi.h"
static long kd_call4(long number, long a, long b, long c, long d);
static long kd_call3(long number, long a, long b, long c) { return kd_call4(number, a, b, c, 0); }
#include <time.h>
static unsigned waits;
#define nanosleep(time, left) ((void)(time), waits++)   /* nobody has to wait here */
#include "libpstore/answer.c"
#include "libpstore/kit_server.c"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { PORT = 5, OBJECT = 6, ASKS = 4, FIRST = 100, PAGE = KD_PAGE_BYTES };
static _Alignas(16) char memory[PAGE];

/* How often the answer to each finds no memory; then what it was. */
static int failures[ASKS];
static struct { int status; uint64_t bytes, value; } answers[ASKS];
static int asked;

static long next_message(struct kd_message *m)
{
    const uint64_t value = (uint64_t)asked;
    *m = (struct kd_message){.kind = asked < ASKS ? KIT_ASK : KIT_END, .handle = -1,
                             .process = (uint64_t)getpid(), .token = (uint64_t)(FIRST + asked),
                             .buffer = m->buffer, .data_bytes = sizeof(value)};
    memcpy(m->buffer, &value, sizeof(value));
    asked++;
    return 0;
}

static long answer(uint64_t token, const struct kd_message *m)
{
    const unsigned i = (unsigned)token - FIRST;
    if (i < ASKS && m->data_bytes && failures[i]-- > 0)
        return -ENOMEM;
    if (i < ASKS) {
        answers[i].status = m->status;
        answers[i].bytes = m->data_bytes;
        memcpy(&answers[i].value, m->data_bytes ? m->data : "\0\0\0\0\0\0\0", 8);
    }
    return 0;
}

static long kd_call4(long number, long a, long b, long c, long d)
{
    long r = 0;
    switch (number) {
    case KD_PORT_CREATE: return PORT;
    case KD_OBJECT_CREATE:
        ((struct kd_object_create *)a)->base = (uintptr_t)memory;
        return OBJECT;
    case KD_OBJECT_PIN: return c;
    case KD_NAME_FIND: return -ENOENT;
    case KD_PORT_RECEIVE: return next_message((void *)b);
    case KD_PORT_REPLY: return answer((uint64_t)a, (void *)b);
    case KD_PORT_REPLY_RECEIVE:
        r = answer((uint64_t)a, (void *)b);
        return r ? r : next_message((void *)d);
    default: return 0;
    }
}

/* Every second one is answered by ps_answer. */
static int doubles(void *area, struct ps_request *r)
{
    uint64_t value = 2 * *(uint64_t *)r->message;
    *(uint64_t *)r->message = value;
    if (value / 2 % 2 == 0)
        return 0;
    ps_answer(area, r->token, 0, &value, sizeof(value));
    return PS_LATER;
}

static void without_memory(void **state)
{
    static ps_area any = {.port = PORT};
    const struct ps_task task = {.serve = doubles, .arg = &any};
    (void)state;
    failures[0] = failures[1] = 3;
    failures[2] = failures[3] = 1 << 20;
    ps_area *made = ps_area_make("desk", 8, &task);
    assert_non_null(made);
    assert_int_equal(ps_area_close(made), 0);
    for (unsigned i = 0; i < ASKS; i++) {
        assert_int_equal(answers[i].status, i < 2 ? 0 : -ENOMEM);
        assert_int_equal(answers[i].bytes, i < 2 ? 8 : 0);
        assert_int_equal(answers[i].value, i < 2 ? 2 * i : 0);
    }
    assert_int_equal(asked, ASKS + 1);
    assert_int_equal(waits, 206);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
