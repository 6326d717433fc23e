/*
 * deputy.c - the confused deputy: a service that writes where its client says, by name, by handle.
 *
 *     deputy           runs the service, and a client that wants the service's bill spoilt
 *
 * The service may write its own bill, and the client may not. If the client says the place by a
 * name, the service opens it by its own right: it is confused, and writes over its bill. If the
 * client sends a handle, the service opens by that, with the client's rights, and nothing else
 * can happen. No line of the service asks who the client is (user/store/directories.md).
 */
#include <errno.h>
#include <pstore.h>
#include <stdio.h>
#include <string.h>

#include "start.h"

enum { BY_NAME = 1, BY_HANDLE, BYE, RESULT = 4711, ROOT = 0, SERVICE = 1 };
struct work { uint64_t result; };
#define WORK PS_LAYOUT(struct work, 1)

struct job { ps_container *c; uint64_t result; };
static int put(void *arg)
{
    struct job *j = arg;
    struct work *w = ps_root(j->c);
    if (!w)
        return -errno;
    w->result = j->result;
    return 0;
}
static int get(void *arg)
{
    struct job *j = arg;
    struct work *w = ps_root(j->c);
    if (!w)
        return -errno;
    j->result = w->result;
    return 0;
}

/* The work of the service: the result goes into what was opened. */
static int compile_into(ps_container *c, uint64_t result)
{
    struct job j = {c, result};
    int error = c ? ps_transaction(put, &j) : -errno;
    if (c)
        ps_close(c);
    return error;
}

static uint64_t result_in(const char *path)
{
    struct job j = {ps_open(path, 0, WORK), 0};
    int error = j.c ? ps_transaction(get, &j) : -errno;
    if (j.c)
        ps_close(j.c);
    return error ? 0 : j.result;
}

/* ---- the client; its root directory has `out`, and `bill` to read ---- */

/* What the service says: 0 or -errno. */
static int ask(uint32_t kind, const char *name, int handle, unsigned rights)
{
    struct kd_message m = {.kind = kind, .data = name, .data_bytes = name ? strlen(name) + 1 : 0,
                           .handle = handle, .handle_rights = start_rights(rights)};
    long error = kd_call3(KD_PORT_CALL, SERVICE, (long)&m, 0);
    return error ? (int)error : m.status;
}

/* By a handle with these rights, if there is one to be had. */
static int ask_by_handle(const char *path, unsigned rights)
{
    int handle = ps_handle(path, rights | PS_MAY_GRANT);
    int error = handle < 0 ? handle : ask(BY_HANDLE, NULL, handle, rights);
    if (handle >= 0)
        ps_drop(handle);
    return error;
}

static void say(const char *how, int error)
{
    printf("%s: %s\n", how, error ? ps_strerror(error) : "done");
    fflush(stdout);
}

static int client(void)
{
    say("client: into what you call \"deputy.bill\"", ask(BY_NAME, "deputy.bill", -1, 0));
    say("client: into my out, here is its handle",
        ask_by_handle("out", PS_MAY_READ | PS_MAY_WRITE));
    say("client: into the bill, I want a handle to write",
        ask_by_handle("bill", PS_MAY_READ | PS_MAY_WRITE));
    say("client: into the bill, here is a handle to read", ask_by_handle("bill", PS_MAY_READ));
    return ask(BYE, NULL, -1, 0) != 0;
}

/* ---- the service ---- */

static int serve_one(const struct kd_message *m)
{
    if (m->kind == BY_NAME)     /* by the service's own right: do not do this */
        return compile_into(ps_open(m->buffer, PS_WRITE, WORK), RESULT);
    if (m->kind == BY_HANDLE)   /* by the client's */
        return compile_into(ps_open_by(m->handle, NULL, PS_WRITE, WORK), RESULT);
    return m->kind == BYE ? 0 : -ENOSYS;
}

static void serve(int port)
{
    char name[64];
    for (uint32_t kind = 0; kind != BYE;) {
        struct kd_message m = {.buffer = name, .buffer_bytes = sizeof name - 1, .handle = -1};
        struct kd_message reply = {.handle = -1};
        memset(name, 0, sizeof name);
        if (kd_call3(KD_PORT_RECEIVE, port, (long)&m, -1) < 0)
            return;
        kind = m.kind;
        reply.status = serve_one(&m);
        if (kind == BY_NAME || kind == BY_HANDLE)
            printf("service: the bill says %d\n", (int)result_in("deputy.bill"));
        fflush(stdout);
        if (m.handle >= 0)
            ps_drop(m.handle);
        compile_into(ps_open("deputy.bill", PS_WRITE, WORK), 1);    /* as it was */
        kd_call3(KD_PORT_REPLY, (long)m.token, (long)&reply, 0);
    }
}

/* A directory for the client: a container of its own, and the bill to read. */
static int prepare(void)
{
    int error = compile_into(ps_open("deputy.bill", PS_CREATE | PS_WRITE, WORK), 1);
    if (!error)
        error = ps_directory_create("deputy");
    if (!error)
        error = compile_into(ps_open("deputy/out", PS_CREATE | PS_WRITE, WORK), 0);
    int bill = error ? error : ps_handle("deputy.bill", PS_MAY_READ | PS_MAY_GRANT);
    if (bill >= 0)
        error = ps_link(bill, "deputy/bill", PS_MAY_READ | PS_MAY_GRANT);
    if (bill >= 0)
        ps_drop(bill);
    return bill < 0 ? bill : error;
}

static void clean(void)
{
    static const char *const paths[] = {"deputy/out", "deputy.bill", "deputy"};
    ps_unlink("deputy/bill");
    for (int i = 0; i < 3; i++)
        ps_delete(paths[i]);
}

int main(int argc, char **argv)
{
    static const char *const words[] = {"deputy", "client", NULL};
    static const char *const roots[] = {PS_ROOTS "=store:0", NULL};
    if (argc == 2 && strcmp(argv[1], "client") == 0)
        return client();
    if (argc > 1)
        return fprintf(stderr, "use: deputy   runs a service and a client that would spoil its "
                               "bill\n"), 2;
    int error = prepare();
    int port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    int root = error ? error : ps_handle("deputy", PS_MAY_ALL);
    struct given given[] = {{root, start_rights(PS_MAY_READ | PS_MAY_WRITE | PS_MAY_GRANT)},
                            {port, KD_RIGHT_CALL}};
    long pid = root < 0 ? root : start_confined("/bin/deputy", words, roots, given, 2);
    if (pid > 0)
        serve(port);
    int status = 0;
    if (pid > 0)
        kd_call3(KD_PROCESS_WAIT, pid, (long)&status, 0);
    else
        fprintf(stderr, "deputy: %s\n", ps_strerror((int)pid));
    printf("service: the client's out says %d\n", (int)result_in("deputy/out"));
    clean();
    return pid < 0 || status;
}
