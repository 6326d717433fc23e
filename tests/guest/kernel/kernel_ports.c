/*
 * kernel_ports.c - ports: calls, answers, data, handles, tokens, deaths, notices, names.
 *
 * The program is its own server: `kernel_ports --serve NAME` answers by what the message asks for,
 * and threads of this process serve where both ends must be steered. A caller is killed in each
 * state that a call can be in; a server dies with calls queued and delivered.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "katydid/call.h"
#include "tap.h"

enum { OP_ECHO = 1, OP_DIE, OP_HOLD, OP_HANDLE, OP_PASS, OP_EXIT };
enum { THREADS = 4, CLIENTS = 3, ROUNDS = 300, SURE_MS = 60000 };
enum { CHILDREN = 200, HANDLES = 250, LOOK_BYTES = 32768 };

static char big[KD_DATA_MAX + 1], answer[KD_DATA_MAX + 1];

static long port_new(void) { return kd_call3(KD_PORT_CREATE, 0, 0, 0); }
static long call(long port, struct kd_message *m)
{
    return kd_call3(KD_PORT_CALL, port, (long)m, 0);
}
static long receive(long port, struct kd_message *m, long ms)
{
    return kd_call3(KD_PORT_RECEIVE, port, (long)m, ms);
}
static long reply(uint64_t token, struct kd_message *m)
{
    return kd_call3(KD_PORT_REPLY, (long)token, (long)m, 0);
}
static void rest(long ms) { usleep((useconds_t)ms * 1000); }

/* ---- the server ---- */

static int serve(const char *name)
{
    static char data[KD_DATA_MAX];
    long port = port_new();
    uint64_t token = 0;
    struct kd_message m, r;
    if (kd_call3(KD_NAME_SET, (long)name, port, 0))
        return 3;
    for (;;) {
        m = (struct kd_message){.buffer = data, .buffer_bytes = sizeof data};
        long e = token ? kd_call4(KD_PORT_REPLY_RECEIVE, (long)token, (long)&r, port, (long)&m)
                       : receive(port, &m, -1);
        if (e)
            return 4;
        token = m.token;
        r = (struct kd_message){.kind = m.kind};
        switch (m.kind) {
        case OP_ECHO:
            memcpy(r.word, m.word, sizeof r.word);
            r.word[7] = m.process;
            r.data = data;
            r.data_bytes = m.data_bytes;
            r.status = (int)m.word[6];
            break;
        case OP_DIE: return 0;
        case OP_HOLD: token = 0; break; /* delivered, and never answered */
        case OP_HANDLE: /* what did we get, and what can it do? */
            r.word[0] = (uint64_t)(int64_t)m.handle;
            if (m.handle >= 0) {
                r.word[1] = (uint64_t)kd_call3(KD_PORT_NOTIFY, m.handle, 4, 0);
                struct kd_message none = {0};
                r.word[2] = (uint64_t)receive(m.handle, &none, 0);
                kd_call3(KD_HANDLE_CLOSE, m.handle, 0, 0);
            }
            break;
        case OP_PASS: /* a port of ours, with the right to call only */
            r.handle = (int)port;
            r.handle_rights = KD_RIGHT_CALL;
            break;
        default: break;
        }
    }
}

/* The pid of a copy of this program. */
static int start(const char *mode, const char *name)
{
    const char *argv[] = {"kernel_ports", mode, name, NULL};
    struct kd_process_create c = {.path = "/bin/kernel_ports", .argv = argv, .fds = {-1, -1, -1}, .handle_count = 1,
                                  .handles = {KD_SYSTEM_HANDLE}};
    long h = kd_call3(KD_PROCESS_CREATE, (long)&c, 0, 0);
    if (h >= 0)
        kd_call3(KD_HANDLE_CLOSE, h, 0, 0);
    return h < 0 ? (int)h : c.pid;
}

static long find(const char *name)
{
    long port = -ENOENT;
    for (int i = 0; i < SURE_MS / 10 && port == -ENOENT; i++) {
        port = kd_call3(KD_NAME_FIND, (long)name, 0, 0);
        if (port == -ENOENT)
            rest(10);
    }
    return port;
}

static int wait_for(int pid)
{
    int status = -1;
    kd_call3(KD_PROCESS_WAIT, pid, (long)&status, 0);
    return status;
}

/* ---- the clients ---- */

/* Calls with data of many lengths; 0: every answer was right. */
static int client_rounds(const char *name, unsigned seed)
{
    long port = find(name);
    char out[600], in[600];
    for (int i = 0; i < ROUNDS; i++) {
        seed = seed * 1103515245 + 12345;
        size_t n = seed >> 16 & 511;
        memset(out, (int)(seed >> 8), sizeof out);
        struct kd_message m = {.kind = OP_ECHO, .word = {seed, (uint64_t)i}, .data = out,
                               .data_bytes = n, .buffer = in, .buffer_bytes = sizeof in};
        if (call(port, &m) || m.word[0] != seed || m.word[1] != (uint64_t)i || m.data_bytes != n
            || m.buffer_bytes != n || memcmp(in, out, n) || m.word[7] != (uint64_t)getpid())
            return 1;
    }
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    return 0;
}

static void *client_thread(void *arg)
{
    return (void *)(long)client_rounds("ports.echo", (unsigned)(long)arg);
}

static void test_calls(long port)
{
    struct kd_message m = {.kind = OP_ECHO, .word = {1, 2, 3, 4, 5, 6, 0, 8}};
    tap_ok(call(port, &m) == 0 && m.word[0] == 1 && m.word[5] == 6, "a_call_is_answered");
    tap_ok(m.token == 0 && m.handle == -1 && m.data_bytes == 0,
           "an_answer_has_no_token_and_no_handle");
    m = (struct kd_message){.kind = OP_ECHO, .word[6] = (uint64_t)-EDOM};
    tap_ok(call(port, &m) == -EDOM, "the_status_of_the_answer_is_the_result");
    m = (struct kd_message){.kind = KD_MSG_COMMIT};
    tap_ok(call(port, &m) == -EINVAL, "nobody_imitates_the_kernel");
    tap_ok(call(99, &m) == -EBADF && call(-1, &m) == -EBADF, "a_port_that_is_none");
    tap_ok(kd_call3(KD_PORT_CALL, port, 8, 0) == -EFAULT, "a_message_that_is_nowhere");
    tap_ok(kd_call3(KD_PORT_CALL, port, -64, 0) == -EFAULT, "a_message_in_the_kernel");
    m = (struct kd_message){.kind = OP_ECHO};
    tap_ok(receive(port, &m, 0) == -EACCES, "the_right_to_call_is_not_that_to_receive");

    pthread_t t[THREADS];
    int client[CLIENTS], bad = 0;
    for (long i = 0; i < CLIENTS; i++)
        client[i] = start("--client", "ports.echo");
    for (long i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, client_thread, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++) {
        void *r;
        pthread_join(t[i], &r);
        bad += r != NULL;
    }
    for (int i = 0; i < CLIENTS; i++)
        bad += wait_for(client[i]) != 0;
    tap_ok(bad == 0, "threads_and_processes_call_at_once");
}

static void test_data(long port)
{
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = (char)(i * 7 + i / 4096);
    struct kd_message m = {.kind = OP_ECHO, .data = big, .data_bytes = KD_DATA_MAX,
                           .buffer = answer, .buffer_bytes = KD_DATA_MAX};
    tap_ok(call(port, &m) == 0 && m.data_bytes == KD_DATA_MAX && !memcmp(big, answer, KD_DATA_MAX),
          "the_largest_data_goes_there_and_back");
    m = (struct kd_message){.kind = OP_ECHO, .data = big, .data_bytes = KD_DATA_MAX + 1};
    tap_ok(call(port, &m) == -E2BIG, "one_byte_more_is_too_big");
    m = (struct kd_message){.kind = OP_ECHO, .data = big, .data_bytes = ~0ull};
    tap_ok(call(port, &m) == -E2BIG, "the_largest_number_is_too_big");
    m = (struct kd_message){.kind = OP_ECHO, .data = (void *)16, .data_bytes = 100};
    tap_ok(call(port, &m) == -EFAULT, "data_from_nowhere");
    m = (struct kd_message){.kind = OP_ECHO, .data = big, .data_bytes = 100, .buffer = answer,
                            .buffer_bytes = 99};
    tap_ok(call(port, &m) == -EMSGSIZE, "an_answer_larger_than_the_buffer");
    m = (struct kd_message){.kind = OP_ECHO, .data = big, .data_bytes = 100, .buffer = (void *)16,
                            .buffer_bytes = 100};
    tap_ok(call(port, &m) == -EFAULT, "a_buffer_that_is_nowhere");
    m = (struct kd_message){.kind = OP_ECHO, .word = {9}};
    tap_ok(call(port, &m) == 0 && m.word[0] == 9, "the_next_call_is_as_ever");
}

static void test_handles(long port)
{
    long mine = port_new();
    struct kd_message m = {.kind = OP_HANDLE, .handle = (int)mine, .handle_rights = KD_RIGHT_CALL};
    tap_ok(call(port, &m) == 0 && (int64_t)m.word[0] >= 0 && m.word[1] == 0, "a_handle_travels");
    tap_ok((int64_t)m.word[2] == -EACCES, "with_the_rights_that_were_said_and_no_more");
    struct kd_message n = {0};
    tap_ok(receive(mine, &n, SURE_MS) == 0 && n.kind == (uint32_t)KD_MSG_NOTIFY && n.word[0] == 4,
          "it_is_the_same_port");
    m = (struct kd_message){.kind = OP_HANDLE, .handle = (int)mine};
    tap_ok(call(port, &m) == 0 && (int64_t)m.word[0] == -1, "without_rights_nothing_travels");
    m = (struct kd_message){.kind = OP_HANDLE, .handle = (int)port,
                            .handle_rights = KD_RIGHT_CALL | KD_RIGHT_RECEIVE};
    tap_ok(call(port, &m) == 0 && (int64_t)m.word[0] == -EACCES, "no_right_is_won_on_the_way");
    m = (struct kd_message){.kind = OP_HANDLE, .handle = 77, .handle_rights = KD_RIGHT_CALL};
    tap_ok(call(port, &m) == 0 && (int64_t)m.word[0] == -EBADF, "a_handle_that_is_none");
    m = (struct kd_message){.kind = OP_PASS};
    bool ok = call(port, &m) == 0 && m.handle >= 0;
    int got = m.handle;
    n = (struct kd_message){.kind = OP_ECHO, .word = {5}};
    tap_ok(ok && call(got, &n) == 0 && n.word[0] == 5, "an_answer_brings_a_handle");
    tap_ok(receive(got, &n, 0) == -EACCES, "with_fewer_rights");
    kd_call3(KD_HANDLE_CLOSE, got, 0, 0);
    int before = -1, after = -1;
    for (int i = 0; i < 300; i++) { /* more than a table has slots */
        long e = (m = (struct kd_message){.kind = OP_PASS}, call(port, &m));
        if (e || m.handle < 0)
            break;
        after = m.handle;
        if (i == 0)
            before = m.handle;
        kd_call3(KD_HANDLE_CLOSE, m.handle, 0, 0);
    }
    tap_ok(before >= 0 && before == after, "closed_handles_are_free_again");
    kd_call3(KD_HANDLE_CLOSE, mine, 0, 0);
}

/* ---- both ends here ---- */

struct one { long port, result; struct kd_message m; int done; };
static void *one_call(void *arg)
{
    struct one *o = arg;
    o->result = call(o->port, &o->m);
    __atomic_store_n(&o->done, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void *one_call_until(void *arg)
{
    struct one *o = arg;
    o->result = kd_call3(KD_PORT_CALL_UNTIL, o->port, (long)&o->m, o->done ? SURE_MS : 300);
    return NULL;
}

/* The kernel loads from an address (`port`): it faults, and waits as a program's load would. */
static void *one_load(void *arg)
{
    struct one *o = arg;
    o->result = kd_call3(KD_KERNEL_LOG, o->port, 8, 0);
    return NULL;
}

static void test_tokens(void)
{
    long port = port_new();
    struct one a = {.port = port, .m = {.kind = 1}}, b = {.port = port, .m = {.kind = 2}};
    pthread_t ta, tb;
    struct kd_message ma = {0}, mb = {0}, r = {.word = {11}};
    pthread_create(&ta, NULL, one_call, &a);
    tap_ok(receive(port, &ma, SURE_MS) == 0 && ma.kind == 1 && ma.token,
           "a_delivered_call_has_a_token");
    int hits = 0;
    for (unsigned i = 0; i < 64; i++)
        hits += reply(ma.token ^ 1ull << i, &r) != -ESRCH;
    tap_ok(hits == 0, "a_token_with_any_bit_wrong_answers_nothing");
    tap_ok(reply(0, &r) == -ESRCH && reply(~0ull, &r) == -ESRCH, "nor_do_zero_and_all_ones");
    tap_ok(kd_call3(KD_PORT_REPLY, (long)ma.token, 8, 0) == -EFAULT, "an_answer_from_nowhere");
    struct kd_message huge = {.data = big, .data_bytes = KD_DATA_MAX + 1};
    tap_ok(reply(ma.token, &huge) == -E2BIG && !a.done, "an_answer_too_big_leaves_the_call_open");
    pthread_create(&tb, NULL, one_call, &b);
    receive(port, &mb, SURE_MS);
    tap_ok(mb.token != ma.token, "two_calls_have_two_tokens");
    r.word[0] = 22;
    tap_ok(reply(mb.token, &r) == 0, "the_second_is_answered_first");
    pthread_join(tb, NULL);
    r.word[0] = 11;
    tap_ok(reply(ma.token, &r) == 0, "then_the_first");
    pthread_join(ta, NULL);
    tap_ok(a.result == 0 && a.m.word[0] == 11 && b.m.word[0] == 22,
           "each_caller_has_its_own_answer");
    tap_ok(reply(ma.token, &r) == -ESRCH, "a_token_is_good_once");
    tap_ok(receive(port, &ma, 0) == -EAGAIN, "polling_an_empty_port");
    tap_ok(receive(port, &ma, 20) == -ETIMEDOUT, "waiting_ends_in_time");
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
}

static void test_small_buffer(void)
{
    long port = port_new();
    pthread_t ta;
    struct one c = {.port = port, .m = {.kind = 3, .data = big, .data_bytes = 64}};
    pthread_create(&ta, NULL, one_call, &c);
    struct kd_message ma = {.buffer = answer, .buffer_bytes = 63};
    long e;
    do e = receive(port, &ma, 50);
    while (e == -ETIMEDOUT && !__atomic_load_n(&c.done, __ATOMIC_ACQUIRE)); /* the call may come late */
    tap_ok(e == -ETIMEDOUT, "a_receiver_with_too_small_a_buffer_waits_on");
    pthread_join(ta, NULL);
    tap_ok(c.result == -EMSGSIZE, "and_the_caller_is_told");
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
}

/* A process whose threads call us: killed while its call is queued, delivered, being answered. */
static void test_killed_callers(void)
{
    long port = port_new();
    struct kd_message m = {0}, r = {.word = {1}};
    int client;
    tap_ok(kd_call3(KD_NAME_SET, (long)"ports.kill", port, 0) == 0, "a_name_is_given");

    client = start("--one", "ports.kill"); /* queued: nobody receives */
    rest(150);
    kd_call3(KD_PROCESS_KILL, client, 9, 0);
    wait_for(client);
    tap_ok(receive(port, &m, 0) == -EAGAIN, "a_caller_killed_in_the_queue_leaves_nothing_there");

    client = start("--one", "ports.kill"); /* delivered */
    bool ok = receive(port, &m, SURE_MS) == 0;
    kd_call3(KD_PROCESS_KILL, client, 9, 0);
    wait_for(client);
    tap_ok(ok && reply(m.token, &r) == -ESRCH, "an_answer_to_a_killed_caller_comes_too_late");
    uint64_t late = m.token;

    int bad = 0; /* at any moment: its two threads call as fast as we answer */
    for (int i = 0; i < 40; i++) {
        client = start("--loop", "ports.kill");
        for (int k = 0; k < 5 + i; k++)
            if (receive(port, &m, 1000) == 0 && m.process == (uint64_t)client) {
                long e = reply(m.token, &r);
                bad += e != 0 && e != -ESRCH;
            }
        kd_call3(KD_PROCESS_KILL, client, 9, 0);
        while (receive(port, &m, 0) == 0)
            reply(m.token, &r);
        wait_for(client);
    }
    tap_ok(bad == 0, "callers_killed_at_any_moment");
    tap_ok(reply(late, &r) == -ESRCH, "and_the_old_token_is_still_dead");
    tap_ok(kd_call3(KD_CHECK, 0, 0, 0) == 0, "kcheck_after_the_kills");
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
}

static void test_dead_server(void)
{
    int server = start("--serve", "ports.dies");
    long port = find("ports.dies");
    struct one held = {.port = port, .m = {.kind = OP_HOLD, .data = big, .data_bytes = 5000}};
    pthread_t t;
    pthread_create(&t, NULL, one_call, &held); /* delivered, never answered */
    rest(100);
    struct kd_message m = {.kind = OP_DIE};
    tap_ok(call(port, &m) == -EOWNERDEAD, "the_call_that_killed_the_server");
    pthread_join(t, NULL);
    tap_ok(held.result == -EOWNERDEAD, "a_delivered_call_of_a_server_that_died");
    tap_ok(held.m.kind == OP_HOLD && held.m.data == big, "its_message_is_untouched");
    wait_for(server);
    tap_ok(call(port, &m) == -EOWNERDEAD, "a_later_call");
    tap_ok(kd_call3(KD_PORT_NOTIFY, port, 1, 0) == -EOWNERDEAD, "a_later_notice");
    tap_ok(kd_call3(KD_NAME_FIND, (long)"ports.dies", 0, 0) == -ENOENT, "its_name_went_with_it");
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);

    server = start("--idle", "ports.idle"); /* has a port, never receives */
    port = find("ports.idle");
    struct one queued[THREADS];
    pthread_t q[THREADS];
    for (int i = 0; i < THREADS; i++) {
        queued[i] = (struct one){.port = port,
                                 .m = {.kind = OP_ECHO, .data = big, .data_bytes = 100}};
        pthread_create(&q[i], NULL, one_call, &queued[i]);
    }
    rest(100);
    kd_call3(KD_PROCESS_KILL, server, 9, 0);
    int bad = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(q[i], NULL);
        bad += queued[i].result != -EOWNERDEAD;
    }
    wait_for(server);
    tap_ok(bad == 0, "queued_calls_of_a_server_that_died");
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
}

static void *one_receive(void *arg)
{
    struct one *o = arg;
    o->result = receive(o->port, &o->m, SURE_MS);
    return NULL;
}

/* The last handle with the right to receive is closed, in a process that goes on: whoever waits at the
 * port is told, wherever its call is. */
static void test_closed_port(void)
{
    long port = port_new(), second = kd_call3(KD_HANDLE_COPY, port, KD_RIGHT_RECEIVE, 0);
    long caller = kd_call3(KD_HANDLE_COPY, port, KD_RIGHT_CALL, 0);
    struct one o[3];
    pthread_t t[3];
    struct kd_message m = {.buffer = answer, .buffer_bytes = sizeof answer}, r = {.handle = -1};
    kd_call3(KD_NAME_SET, (long)"ports.closed", port, 0);
    for (int i = 0; i < 3; i++) { /* one that is received, two in the queue */
        o[i] = (struct one){.port = caller, .m = {.kind = 1, .data = big, .data_bytes = 100}, .done = 1};
        pthread_create(&t[i], NULL, one_call_until, &o[i]);
    }
    tap_ok(receive(second, &m, SURE_MS) == 0 && kd_call3(KD_HANDLE_CLOSE, port, 0, 0) == 0,
           "a_port_with_a_second_handle_loses_one");
    tap_ok(kd_call3(KD_PORT_NOTIFY, caller, 1, 0) == 0, "and_lives");
    kd_call3(KD_HANDLE_CLOSE, second, 0, 0);
    int bad = 0;
    for (int i = 0; i < 3; i++) {
        pthread_join(t[i], NULL);
        bad += o[i].result != -EOWNERDEAD;
    }
    tap_ok(bad == 0, "calls_at_a_port_whose_last_receive_handle_is_closed_end");
    tap_ok(reply(m.token, &r) == -ESRCH, "and_are_not_to_be_answered");
    tap_ok(call(caller, &r) == -EOWNERDEAD && kd_call3(KD_PORT_NOTIFY, caller, 1, 0) == -EOWNERDEAD
              && kd_call3(KD_NAME_FIND, (long)"ports.closed", 0, 0) == -ENOENT, "the_port_is_dead_and_has_no_name");
    kd_call3(KD_HANDLE_CLOSE, caller, 0, 0);
}

static void test_closed_under_receiver(void)
{
    long port = port_new();
    struct one o = {.port = port};
    pthread_t t;
    pthread_create(&t, NULL, one_receive, &o);
    rest(50);
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    pthread_join(t, NULL);
    tap_ok(o.result == -EBADF, "a_receiver_whose_handle_is_closed_waits_no_longer");
}

/* An object keeps its port, but receives nothing. */
static void test_closed_under_object(void)
{
    long port = port_new();
    struct one o[2];
    pthread_t t[2];
    struct kd_message m = {.buffer = answer, .buffer_bytes = sizeof answer};
    struct kd_object_create c = {.port = (int)port, .commit_port = (int)port, .pages = 4};
    long object = kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    kd_call3(KD_SPACE_ATTACH, getpid(), object, KD_RIGHT_READ);
    o[0] = (struct one){.port = (long)c.base};
    pthread_create(&t[0], NULL, one_load, &o[0]);
    tap_ok(object >= 0 && receive(port, &m, SURE_MS) == 0 && m.kind == (uint32_t)KD_MSG_PAGE, "a_page_is_asked_for");
    o[1] = (struct one){.port = (long)c.base + 4096};
    pthread_create(&t[1], NULL, one_load, &o[1]); /* its request stays in the queue */
    rest(50);
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    tap_ok(o[0].result == -EFAULT && o[1].result == -EFAULT, "faults_that_wait_for_a_closed_port_end");
    tap_ok(kd_call3(KD_KERNEL_LOG, (long)c.base, 8, 0) == -EFAULT, "so_do_later_ones");
    kd_call3(KD_HANDLE_CLOSE, object, 0, 0);
}

static long meeting; /* 1: the other thread runs; 2: both go */
static int close_delay;

static void *one_close(void *arg)
{
    __atomic_store_n(&meeting, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&meeting, __ATOMIC_ACQUIRE) != 2) continue;
    for (volatile int i = 0; i < close_delay; i++) continue;
    kd_call3(KD_HANDLE_CLOSE, (long)arg, 0, 0);
    return NULL;
}

/* Aim: of an object that is made while its port is closed, nobody waits for pages: it ends with the port.
 * Method: it is large, so its making takes as long as the port's end, which begins a bit later each time. */
static void test_closed_while_made(void)
{
    enum { TRIES = 100 };
    int made = 0, bad = 0;
    for (int i = 0; i < TRIES; i++) {
        long port = port_new();
        struct kd_object_create c = {.port = (int)port, .commit_port = (int)port,
                                     .base = KD_STORE_BASE, .pages = KD_ZONE_BYTES / 2 / 4096};
        pthread_t t;
        meeting = 0;
        close_delay = i * 15;
        pthread_create(&t, NULL, one_close, (void *)port);
        while (!__atomic_load_n(&meeting, __ATOMIC_ACQUIRE)) continue;
        __atomic_store_n(&meeting, 2, __ATOMIC_RELEASE);
        long object = kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
        pthread_join(t, NULL);
        if (object < 0) {
            bad += object != -EBADF;
            continue;
        }
        made++;
        bad += kd_call3(KD_SPACE_ATTACH, getpid(), object, KD_RIGHT_READ) != -EOWNERDEAD;
        kd_call3(KD_HANDLE_CLOSE, object, 0, 0);
    }
    printf("# %d of %d objects were made, %d bad\n", made, TRIES, bad);
    tap_ok(bad == 0, "an_object_made_while_its_port_is_closed_ends");
}

static void test_notices(void)
{
    long port = port_new();
    struct kd_message m = {0};
    kd_call3(KD_PORT_NOTIFY, port, 1, 0);
    kd_call3(KD_PORT_NOTIFY, port, 8, 0);
    tap_ok(receive(port, &m, 0) == 0 && m.kind == (uint32_t)KD_MSG_NOTIFY && m.word[0] == 9
              && m.token == 0, "bits_are_gathered");
    tap_ok(receive(port, &m, 0) == -EAGAIN, "and_told_once");
    kd_call3(KD_PORT_NOTIFY, port, 2, 0);
    struct one a = {.port = port, .m = {.kind = 5}};
    pthread_t t;
    pthread_create(&t, NULL, one_call, &a);
    rest(50);
    tap_ok(receive(port, &m, 0) == 0 && m.word[0] == 2, "first_come");
    tap_ok(receive(port, &m, SURE_MS) == 0 && m.kind == 5, "first_served");
    reply(m.token, &m);
    pthread_join(t, NULL);
    tap_ok(kd_call3(KD_PORT_NOTIFY, port, 1, 0) == 0, "a_notice_to_a_port_that_is_then_closed");
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
}

/* A caller that waits so long and no longer, wherever its call is then. */
static void test_timeouts(void)
{
    long port = port_new();
    struct one a = {.port = port, .m = {.kind = 7, .data = big, .data_bytes = 3000}};
    struct kd_message m = {.buffer = big, .buffer_bytes = sizeof big}, r = {.handle = -1};
    tap_ok(kd_call3(KD_PORT_CALL_UNTIL, port, (long)&a.m, 20) == -ETIMEDOUT, "a_call_that_nobody_takes_times_out");
    tap_ok(receive(port, &m, 0) == -EAGAIN, "and_is_not_there_any_more");
    pthread_t t;
    bool taken = false;
    for (int i = 0; i < 20 && !taken; i++) { /* its time may be up before it is taken */
        pthread_create(&t, NULL, one_call_until, &a);
        taken = receive(port, &m, 1000) == 0 && m.kind == 7;
        pthread_join(t, NULL);
    }
    uint64_t late = m.token;
    tap_ok(taken && a.result == -ETIMEDOUT, "one_that_nobody_answers_too");
    tap_ok(reply(late, &r) == -ESRCH, "its_answer_comes_too_late");
    a.done = 1; /* it waits longer */
    pthread_create(&t, NULL, one_call_until, &a);
    tap_ok(receive(port, &m, SURE_MS) == 0 && m.token != late && reply(late, &r) == -ESRCH && reply(m.token, &r) == 0,
           "and_does_not_answer_the_next");
    pthread_join(t, NULL);
    tap_ok(a.result == 0, "which_is_answered_in_time");
    tap_ok(reply(m.token, &r) == -ESRCH, "once");
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
}

static void test_names(void)
{
    long port = port_new(), other = port_new();
    char name[KD_NAME_MAX + 1];
    memset(name, 'n', sizeof name);
    tap_ok(kd_call3(KD_NAME_SET, (long)"ports.name", port, 0) == 0, "a_name");
    tap_ok(kd_call3(KD_NAME_SET, (long)"ports.name", other, 0) == -EEXIST, "that_is_taken");
    long found = kd_call3(KD_NAME_FIND, (long)"ports.name", 0, 0);
    tap_ok(found >= 0 && kd_call3(KD_NAME_SET, (long)"ports.mine", found, 0) == -EACCES,
          "who_found_a_port_cannot_name_it");
    tap_ok(kd_call3(KD_NAME_SET, (long)"", port, 0) == -EINVAL, "an_empty_name");
    tap_ok(kd_call3(KD_NAME_SET, (long)name, port, 0) == -ENAMETOOLONG, "a_name_too_long");
    tap_ok(kd_call3(KD_NAME_FIND, 8, 0, 0) == -EFAULT, "a_name_that_is_nowhere");
    struct kd_block_info info; /* the store manager has it, if it is there */
    long wanted = kd_call3(KD_BLOCK_OPEN, (long)"store", (long)&info, 0) == -ENODEV ? 0 : -EPERM;
    tap_ok(kd_call3(KD_NAME_SET, (long)"store", port, 0) == wanted
               && kd_call3(KD_NAME_SET, (long)"store2", port, 0) == 0, "the_name_of_a_disk_is_for_who_has_the_disk");
    kd_call3(KD_HANDLE_CLOSE, found, 0, 0);
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    tap_ok(kd_call3(KD_NAME_FIND, (long)"ports.name", 0, 0) == -ENOENT,
           "a_name_goes_with_its_port");
    kd_call3(KD_HANDLE_CLOSE, other, 0, 0);
}

/* ---- the other processes ---- */

static _Noreturn void idle(const char *name)
{
    long port = port_new();
    kd_call3(KD_NAME_SET, (long)name, port, 0);
    for (;;)
        rest(1000);
}

static void *call_for_ever(void *arg)
{
    char data[300] = "x";
    for (;;) {
        struct kd_message m = {.kind = 1, .data = data, .data_bytes = 0};
        call((long)arg, &m);
    }
    return NULL;
}

/* Another thread asks for the handles of children that end. */
static volatile int looked_at, looks;
static void *looker(void *text)
{
    while (looked_at >= 0)
        if (looked_at)
            looks += kd_call4(KD_LOOK, KD_LOOK_HANDLES, looked_at, (long)text, LOOK_BYTES) > 0;
    return NULL;
}

static void test_looks_at_the_end(void)
{
    static char text[LOOK_BYTES];
    pthread_t t;
    int bad = 0;
    pthread_create(&t, NULL, looker, text);
    for (int i = 0; i < CHILDREN; i++) {
        int made[2];
        char c = 1;
        bad += pipe(made) != 0;
        int pid = fork();
        if (!pid) {
            for (int k = 0; k < HANDLES; k++)
                port_new();
            _exit(write(made[1], &c, 1) != 1);
        }
        bad += read(made[0], &c, 1) != 1;
        looked_at = pid;
        bad += wait_for(pid) != 0;
        close(made[0]);
        close(made[1]);
    }
    looked_at = -1;
    pthread_join(t, NULL);
    bool beside = sysconf(_SC_NPROCESSORS_ONLN) > 1; /* else a process ends between two looks */
    tap_ok(!bad && (looks || !beside), "handles_are_looked_at_while_their_process_ends (%d, %d)", bad, looks);
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "--serve"))
        return serve(argv[2]);
    if (argc == 3 && !strcmp(argv[1], "--client"))
        return client_rounds(argv[2], (unsigned)getpid());
    if (argc == 3 && !strcmp(argv[1], "--idle"))
        idle(argv[2]);
    if (argc == 3 && !strcmp(argv[1], "--one")) {
        struct kd_message m = {.kind = 1};
        return call(find(argv[2]), &m) != 0;
    }
    if (argc == 3 && !strcmp(argv[1], "--loop")) {
        pthread_t t;
        long port = find(argv[2]);
        pthread_create(&t, NULL, call_for_ever, (void *)port);
        call_for_ever((void *)port);
    }
    tap_plan(86);
    int server = start("--serve", "ports.echo");
    long port = find("ports.echo");
    tap_ok(server > 0 && port >= 0, "a_server_is_found_by_its_name");
    test_calls(port);
    test_data(port);
    test_handles(port);
    test_tokens();
    test_small_buffer();
    test_killed_callers();
    test_dead_server();
    test_closed_port();
    test_closed_under_receiver();
    test_closed_under_object();
    test_closed_while_made();
    test_notices();
    test_names();
    test_timeouts();
    test_looks_at_the_end();
    struct kd_message m = {.kind = OP_DIE};
    call(port, &m);
    tap_ok(wait_for(server) == 0, "the_server_ends");
    tap_ok(kd_call3(KD_CHECK, 0, 0, 0) == 0, "kcheck");
    return tap_end();
}
