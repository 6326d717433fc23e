/* both.c - ports whose two ends are here. */
#include "ports.h"

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

void test_tokens(void)
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

void test_small_buffer(void)
{
    long port = port_new();
    pthread_t ta;
    struct one c = {.port = port, .m = {.kind = 3, .data = big, .data_bytes = 64}};
    pthread_create(&ta, NULL, one_call, &c);
    struct kd_message ma = {.buffer = answer, .buffer_bytes = 63};
    long e;
    do e = receive(port, &ma, 50);
    /* the call may come late */
    while (e == -ETIMEDOUT && !__atomic_load_n(&c.done, __ATOMIC_ACQUIRE));
    tap_ok(e == -ETIMEDOUT, "a_receiver_with_too_small_a_buffer_waits_on");
    pthread_join(ta, NULL);
    tap_ok(c.result == -EMSGSIZE, "and_the_caller_is_told");
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
}

void test_killed_callers(void)
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

void test_dead_server(void)
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

void test_closed_port(void)
{
    long port = port_new(), second = kd_call3(KD_HANDLE_COPY, port, KD_RIGHT_RECEIVE, 0);
    long caller = kd_call3(KD_HANDLE_COPY, port, KD_RIGHT_CALL, 0);
    struct one o[3];
    pthread_t t[3];
    struct kd_message m = {.buffer = answer, .buffer_bytes = sizeof answer}, r = {.handle = -1};
    kd_call3(KD_NAME_SET, (long)"ports.closed", port, 0);
    for (int i = 0; i < 3; i++) { /* one that is received, two in the queue */
        o[i] = (struct one){ .port = caller,
                             .m = { .kind = 1, .data = big, .data_bytes = 100 },
                             .done = 1 };
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
    tap_ok(call(caller, &r) == -EOWNERDEAD &&
               kd_call3(KD_PORT_NOTIFY, caller, 1, 0) == -EOWNERDEAD &&
               kd_call3(KD_NAME_FIND, (long)"ports.closed", 0, 0) == -ENOENT,
           "the_port_is_dead_and_has_no_name");
    kd_call3(KD_HANDLE_CLOSE, caller, 0, 0);
}

void test_closed_under_receiver(void)
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

void test_closed_under_object(void)
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
    tap_ok(object >= 0 && receive(port, &m, SURE_MS) == 0 && m.kind == (uint32_t)KD_MSG_PAGE,
           "a_page_is_asked_for");
    o[1] = (struct one){.port = (long)c.base + 4096};
    pthread_create(&t[1], NULL, one_load, &o[1]); /* its request stays in the queue */
    rest(50);
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    tap_ok(o[0].result == -EFAULT && o[1].result == -EFAULT,
           "faults_that_wait_for_a_closed_port_end");
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

void test_closed_while_made(void)
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

void test_notices(void)
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

void test_timeouts(void)
{
    long port = port_new();
    struct one a = {.port = port, .m = {.kind = 7, .data = big, .data_bytes = 3000}};
    struct kd_message m = {.buffer = big, .buffer_bytes = sizeof big}, r = {.handle = -1};
    tap_ok(kd_call3(KD_PORT_CALL_UNTIL, port, (long)&a.m, 20) == -ETIMEDOUT,
           "a_call_that_nobody_takes_times_out");
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
    tap_ok(receive(port, &m, SURE_MS) == 0 && m.token != late && reply(late, &r) == -ESRCH &&
               reply(m.token, &r) == 0,
           "and_does_not_answer_the_next");
    pthread_join(t, NULL);
    tap_ok(a.result == 0, "which_is_answered_in_time");
    tap_ok(reply(m.token, &r) == -ESRCH, "once");
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
}

void test_names(void)
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
    tap_ok(kd_call3(KD_NAME_SET, (long)"store", port, 0) == wanted &&
               kd_call3(KD_NAME_SET, (long)"store2", port, 0) == 0,
           "the_name_of_a_disk_is_for_who_has_the_disk");
    kd_call3(KD_HANDLE_CLOSE, found, 0, 0);
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    tap_ok(kd_call3(KD_NAME_FIND, (long)"ports.name", 0, 0) == -ENOENT,
           "a_name_goes_with_its_port");
    kd_call3(KD_HANDLE_CLOSE, other, 0, 0);
}
