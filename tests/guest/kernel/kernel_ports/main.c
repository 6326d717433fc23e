/*
 * kernel_ports - ports: calls, answers, data, handles, tokens, deaths, notices, names.
 *
 * The program is its own server: `kernel_ports --serve NAME` answers by what the message asks for,
 * and threads of this process serve where both ends must be steered. A caller is killed in each
 * state that a call can be in; a server dies with calls queued and delivered.
 */
#include "ports.h"

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
static _Atomic int looked_at, looks;
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
    tap_ok(!bad && (looks || !beside), "handles_are_looked_at_while_their_process_ends (%d, %d)",
           bad, looks);
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
