/* store_client.c - requests and transactions of the store manager's protocol. */
#include "store_client.h"

enum { REOPEN_TRIES = 20000, REOPEN_STEP_MS = 5 };

int client_port = -1;
_Thread_local struct kd_message client_reply;

int client_connect(void)
{
    if (client_port < 0)
        client_port = (int)kd_call3(KD_NAME_FIND, (long)"store", 0, 0);
    return client_port < 0 ? client_port : 0;
}

int client_reopen(const char *name, uint32_t flags, struct wire_opened *out)
{
    for (int i = 0; i < REOPEN_TRIES; i++) {
        client_port = -1;
        if (client_connect() == 0 && client_open(name, flags, NULL, 0, 0, out) == 0)
            return 0;
        pause_ms(REOPEN_STEP_MS);
    }
    return -1;
}

long client_call(uint32_t kind, uint64_t w0, uint64_t w1, uint64_t w2, const void *data,
                 size_t bytes, void *out, size_t out_bytes)
{
    client_reply = (struct kd_message){.kind = kind, .handle = -1, .word = {w0, w1, w2},
                                       .data = data, .data_bytes = bytes, .buffer = out,
                                       .buffer_bytes = out_bytes};
    return kd_call3(KD_PORT_CALL, client_port, (long)&client_reply, 0);
}

long client_open(const char *name, uint32_t flags, const char *type, uint32_t version,
                 uint32_t bytes, struct wire_opened *out)
{
    struct wire_open o = {.flags = flags, .version = version, .bytes = bytes};
    strncpy(o.name, name, sizeof(o.name) - 1);
    if (type)
        strncpy(o.type, type, sizeof(o.type) - 1);
    return client_call(STORE_OPEN, 0, 0, 0, &o, sizeof(o), out, sizeof(*out));
}

long client_name(uint32_t kind, uint64_t container, const char *name)
{
    char text[STORE_NAME_BYTES] = {0};
    strncpy(text, name, sizeof(text) - 1);
    return client_call(kind, container, 0, 0, text, sizeof(text), NULL, 0);
}

struct wire_stats client_stats(void)
{
    struct wire_stats s = {0};
    client_call(STORE_STATS, 0, 0, 0, NULL, 0, &s, sizeof(s));
    return s;
}

long client_flushes(const char *name)
{
    struct wire_stats s = {0};
    struct kd_message m = {.kind = STORE_STATS, .handle = -1, .buffer = &s,
                           .buffer_bytes = sizeof s};
    long at = kd_call3(KD_NAME_FIND, (long)name, 0, 0);
    long e = at < 0 ? at : kd_call3(KD_PORT_CALL, at, (long)&m, 0);
    if (at >= 0)
        kd_call3(KD_HANDLE_CLOSE, at, 0, 0);
    return e ? e : (long)(s.flushes - (s.groups - s.commits));
}

void *client_lease(uint64_t container, uint64_t pages, const void *near)
{
    long r = client_call(STORE_LEASE, container, pages, (uint64_t)near, NULL, 0, NULL, 0);
    return r < 0 ? NULL : (void *)client_reply.word[0];
}

/* ---- transactions ---- */

_Thread_local struct client_txn client_txn;
_Thread_local struct kd_commit client_commit;

static void client_aborted(long reason) { longjmp(client_txn.out, (int)reason); }

void client_op(uint32_t kind, uint64_t container, const void *address, uint64_t value,
               const char *name)
{
    struct wire_op *op = (void *)((char *)client_txn.batch + client_txn.batch_bytes);
    size_t bytes = (sizeof(*op) + (name ? strlen(name) + 1 : 0) + 7) & ~(size_t)7;
    memset(op, 0, bytes);
    *op = (struct wire_op){.kind = kind, .op_bytes = (uint32_t)bytes, .container = container,
                            .address = (uint64_t)address, .value = value};
    if (name)
        strcpy(op->name, name);
    client_txn.batch_bytes += bytes;
}

long client_run(long (*fn)(void *), void *arg)
{
    static _Thread_local volatile uint64_t ticket;
    if (!client_txn.view) {
        long view = kd_call3(KD_VIEW_CREATE, 0, 0, 0);
        if (view < 0)
            return view;
        client_txn.view = (int)view + 1;
        kd_call3(KD_VIEW_ENTER, view, 0, 0);
    }
    ticket = 0;
    int reason = setjmp(client_txn.out);
    if (reason && reason != EDEADLK)
        return -reason;
    struct kd_begin begin = {
        .mode = KD_SERIALISABLE, .ticket = ticket, .entry = (uint64_t)client_aborted,
        .stack = (uint64_t)(client_txn.stack + sizeof(client_txn.stack) - 8)};
    client_txn.batch_bytes = 0;
    long r = kd_call3(KD_TXN_BEGIN, (long)&begin, 0, 0);
    if (r < 0)
        return r;
    ticket = begin.ticket;
    r = fn(arg);
    if (r) {
        kd_call3(KD_TXN_ABORT, ECANCELED, 0, 0);
        return r;
    }
    client_commit = (struct kd_commit){ .batch = client_txn.batch,
                                        .batch_bytes = client_txn.batch_bytes,
                                        .port = client_port };
    return kd_call3(KD_TXN_COMMIT, (long)&client_commit, 0, 0);
}
