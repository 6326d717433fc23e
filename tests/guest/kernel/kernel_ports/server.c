/* server.c - the server, a process of its own. */
#include "ports.h"

char big[KD_DATA_MAX + 1], answer[KD_DATA_MAX + 1];

long port_new(void) { return kd_call3(KD_PORT_CREATE, 0, 0, 0); }
long call(long port, struct kd_message *m)
{
    return kd_call3(KD_PORT_CALL, port, (long)m, 0);
}
long receive(long port, struct kd_message *m, long ms)
{
    return kd_call3(KD_PORT_RECEIVE, port, (long)m, ms);
}
long reply(uint64_t token, struct kd_message *m)
{
    return kd_call3(KD_PORT_REPLY, (long)token, (long)m, 0);
}
void rest(long ms) { usleep((useconds_t)ms * 1000); }

/* ---- the server ---- */

int serve(const char *name)
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

int start(const char *mode, const char *name)
{
    const char *argv[] = {"kernel_ports", mode, name, NULL};
    struct kd_process_create c = { .path = "/bin/kernel_ports",
                                   .argv = argv,
                                   .fds = { -1, -1, -1 },
                                   .handle_count = 1,
                                   .handles = { KD_SYSTEM_HANDLE } };
    long h = kd_call3(KD_PROCESS_CREATE, (long)&c, 0, 0);
    if (h >= 0)
        kd_call3(KD_HANDLE_CLOSE, h, 0, 0);
    return h < 0 ? (int)h : c.pid;
}

long find(const char *name)
{
    long port = -ENOENT;
    for (int i = 0; i < SURE_MS / 10 && port == -ENOENT; i++) {
        port = kd_call3(KD_NAME_FIND, (long)name, 0, 0);
        if (port == -ENOENT)
            rest(10);
    }
    return port;
}

int wait_for(int pid)
{
    int status = -1;
    kd_call3(KD_PROCESS_WAIT, pid, (long)&status, 0);
    return status;
}
