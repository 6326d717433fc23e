/*
 * agent_split.c - functions of the store that the site has carried out by a server here
 * (modes.md): what its programs say goes to the server's port, and the answer back.
 *
 * The server is shown a handle of the container by the path that is exported to the site, so it
 * does what the site may. Each client has a thread: one whose call waits for a lock keeps nobody
 * else's from the server, who may be the one who has it.
 */
#include "agent.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "katydid/call.h"
#include "pstore.h"
#include "split_protocol.h"

enum { CLIENTS_MAX = 16 };

/* Guarded by the agent's lock, but `answer`, which its thread alone has. */
struct client {
    uint64_t number;                    /* 0: free */
    int port;                           /* a handle of its server's; -1: not yet */
    bool busy, ends;
    struct site_message m;              /* the call, while busy */
    pthread_cond_t comes;
    _Alignas(8) uint8_t said[SPLIT_DATA_MAX], answer[SPLIT_DATA_MAX];
};
static struct client *clients[CLIENTS_MAX];
static uint64_t number_last;

static void told(uint64_t number, int error, const struct kd_message *k)
{
    struct site_message m = {.kind = SITE_TOLD, .answer_to = number, .error = error};
    if (k) {
        memcpy(m.word, k->word, sizeof m.word);
        m.data = k->buffer;
        m.bytes = k->buffer_bytes;
    }
    agent_send(&m);
}

static struct client *client_of(uint64_t number)
{
    for (int i = 0; number && i < CLIENTS_MAX; i++)
        if (clients[i] && clients[i]->number == number) return clients[i];
    return NULL;
}

static void client_free(struct client *c)
{
    for (int i = 0; i < CLIENTS_MAX; i++)
        if (clients[i] == c) clients[i] = NULL;
    if (c->port >= 0) kd_call3(KD_HANDLE_CLOSE, c->port, 0, 0);
    pthread_cond_destroy(&c->comes);
    free(c);
}

/* ---- its thread; not locked ---- */

static int server_open(struct client *c)
{
    char path[WIRE_PATH_BYTES], name[KD_NAME_MAX];
    const char *said = (const char *)c->said, *slash = strrchr(said, '/');
    unsigned may = PS_MAY_READ | (c->m.word[0] & PS_WRITE ? PS_MAY_WRITE : 0);
    if (snprintf(path, sizeof path, "%s/%s", store_exports(), said) >= (int)sizeof path ||
        snprintf(name, sizeof name, SPLIT_SERVES "%s", slash ? slash + 1 : said) >=
            (int)sizeof name)
        return -ENAMETOOLONG;
    int shown = ps_handle(path, may | PS_MAY_GRANT);
    if (shown < 0) return shown;
    long port = kd_call3(KD_NAME_FIND, (long)name, 0, 0);
    struct kd_message k = {.kind = SPLIT_OPEN, .word = {c->m.word[0] & PS_WRITE}, .handle = shown,
                           .handle_rights = KD_RIGHT_CALL | may * KD_RIGHT_OWN};
    long r = port < 0 ? port : kd_call3(KD_PORT_CALL, port, (long)&k, 0);
    if (port >= 0) kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    ps_drop(shown);
    c->port = r < 0 ? -1 : k.handle;
    return r < 0 ? (int)r : k.status ? k.status : k.handle < 0 ? -EPROTO : 0;
}

static int server_call(struct client *c, struct kd_message *k)
{
    *k = (struct kd_message){.kind = SPLIT_CALL, .data = c->said, .data_bytes = c->m.bytes,
                             .handle = -1, .buffer = c->answer, .buffer_bytes = sizeof c->answer};
    memcpy(k->word, c->m.word, sizeof k->word);
    long r = kd_call3(KD_PORT_CALL, c->port, (long)k, 0);
    if (k->handle >= 0) kd_call3(KD_HANDLE_CLOSE, k->handle, 0, 0);
    if (r < 0) k->buffer_bytes = 0;
    return (r == -EIDRM || r == -EBADF) && !k->status ? -EOWNERDEAD : r < 0 ? (int)r : k->status;
}

static void *client_work(void *client)
{
    struct client *c = client;
    struct kd_message k = {.word = {c->number}};
    int error = server_open(c);
    agent_lock();
    told(c->m.number, error, error ? NULL : &k);
    c->busy = false;
    while (!error && !c->ends) {
        while (!c->busy && !c->ends) agent_wait_at(&c->comes);
        if (!c->busy) break;
        agent_unlock();
        int result = server_call(c, &k);
        agent_lock();
        told(c->m.number, result, &k);
        c->busy = false;
    }
    client_free(c);
    agent_unlock();
    return NULL;
}

/* ---- what the site says ---- */

/* The data of the call are kept. */
static void call_take(struct client *c, const struct site_message *m)
{
    c->m = *m;
    memcpy(c->said, m->data, m->bytes);
    c->busy = true;
}

static int client_begin(const struct site_message *m)
{
    int at = 0;
    while (at < CLIENTS_MAX && clients[at]) at++;
    if (m->bytes == 0 || m->bytes > KD_NAME_MAX || ((const char *)m->data)[m->bytes - 1])
        return -EINVAL;
    struct client *c = at == CLIENTS_MAX ? NULL : calloc(1, sizeof *c);
    if (!c) return at == CLIENTS_MAX ? -EMFILE : -ENOMEM;
    pthread_cond_init(&c->comes, NULL);
    c->number = ++number_last;
    c->port = -1;
    call_take(c, m);
    clients[at] = c;
    agent_start(client_work, c);
    return 0;
}

static int client_call(const struct site_message *m)
{
    struct client *c = client_of(m->word[0]);
    if (!c || c->ends || m->bytes > sizeof c->said) return c && !c->ends ? -E2BIG : -ENOENT;
    if (c->busy) return -EBUSY;
    call_take(c, m);
    pthread_cond_signal(&c->comes);
    return 0;
}

bool split_ask(const struct site_message *m)
{
    if (m->request < SPLIT_OPEN || m->request > SPLIT_CLOSE) return false;
    agent_lock();
    struct client *c = m->request == SPLIT_CLOSE ? client_of(m->word[0]) : NULL;
    int error = m->request == SPLIT_OPEN ? client_begin(m)
                : m->request == SPLIT_CALL ? client_call(m) : c ? 0 : -ENOENT;
    if (c) {
        c->ends = true;
        pthread_cond_signal(&c->comes);
    }
    if (error || m->request == SPLIT_CLOSE) told(m->number, error, NULL);
    agent_unlock();
    return true;
}
