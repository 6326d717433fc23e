/* clients.c - clients of the server. */
#include "ports.h"

int client_rounds(const char *name, unsigned seed)
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

void test_calls(long port)
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

void test_data(long port)
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

void test_handles(long port)
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
