/*
 * kit_server.c - shared areas: one thread of the process that makes an area keeps it.
 *
 * It gives the area's memory to each process that opens it, puts threads to sleep and wakes them,
 * learns of the end of processes, and runs the area's task. What clients send, and what they store
 * into the area, is not believed: an offset is checked, a word is only compared.
 *
 * Invariants
 *   KS1  A client's number is given once. It is in the list of clients exactly while its process
 *        may have the area in its memory.
 *   KS2  A sleeper's word was what he expected when he was put into the list, and was not a latch
 *        of a process that has ended.
 *   KS3  After a client has gone, everybody who slept is woken and looks again: the one that ended
 *        may have given something up and woken nobody.
 *
 * The memory is pinned, so this thread, which would have to supply a page, never needs one.
 */
#include "answer_private.h"
#include "kit_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "katydid/call.h"

#define CLIENTS_MAX 256

struct sleeper {
    struct sleeper *next;
    uint64_t token, client, offset;
};
struct client {
    struct client *next;
    uint64_t number, process, opens;
};
struct area_server {
    ps_area *area;
    int object;
    uint64_t process, base, numbers;    /* numbers: of clients, given out so far */
    struct client *clients;
    unsigned client_count;
    struct sleeper *sleepers, **last, *unused; /* in order of arrival */
    struct sleeper slots[PS_WAITERS_MAX];
    pthread_t thread;
    uint64_t data[PS_MESSAGE_MAX / 8];  /* what came */
};

static int reply(uint64_t token, int status)
{
    struct kd_message m = {.handle = -1, .status = status};
    return (int)kd_call3(KD_PORT_REPLY, (long)token, (long)&m, 0);
}

int shared_answer(uint64_t token, int result, const void *data, size_t bytes)
{
    struct kd_message m = {.handle = -1, .status = result, .data = data, .data_bytes = bytes};
    long r = message_answer(token, &m, -1, NULL);
    return r == 0 && bytes > m.data_bytes ? -ENOMEM : (int)r;
}

/* ---- who sleeps ---- */

/* server_wake wakes up to `count` of those who sleep for the word at this offset; ~0: for any. Who
 * has gone meanwhile does not count. */
void server_wake(struct area_server *s, uint64_t offset, uint64_t count)
{
    for (struct sleeper **at = &s->sleepers, *w; count > 0 && (w = *at);) {
        if (offset != ~0ull && w->offset != offset) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        if (s->last == &w->next)
            s->last = at;
        if (reply(w->token, 0) == 0)
            count--;
        w->next = s->unused;
        s->unused = w;
    }
}

static struct client *client_of(struct area_server *s, uint64_t process)
{
    struct client *c = s->clients;
    while (c && c->process != process)
        c = c->next;
    return c;
}

static int client_lives(const struct area_server *s, uint64_t number)
{
    const struct client *c = s->clients;
    while (c && c->number != number)
        c = c->next;
    return c != NULL;
}

/* sleep_on lets a client sleep: PS_LATER; or 0: he is to look again. */
static int sleep_on(struct area_server *s, const struct client *c, const struct kd_message *m)
{
    uint64_t offset = m->word[0], seen = m->word[1];
    if (offset % 8 || offset >= s->area->bytes)
        return -EINVAL;
    uint64_t *word = (uint64_t *)(void *)(s->area->memory + offset);
    if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != seen)
        return 0;
    if (m->word[2] && !client_lives(s, LATCH_CLIENT(seen))) {
        __atomic_compare_exchange_n(word, &seen, LATCH_WAITERS | LATCH_DIED, 0, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST);
        return 0;
    }
    struct sleeper *w = s->unused;
    if (!w)
        return -ENOBUFS;
    s->unused = w->next;
    *w = (struct sleeper){NULL, m->token, c->number, offset};
    *s->last = w;
    s->last = &w->next;
    return PS_LATER;
}

/* ---- who has the area open ---- */

static int client_open(struct area_server *s, uint64_t process, struct kd_message *answer)
{
    struct client *c = client_of(s, process);
    if (!c) {
        if (s->client_count == CLIENTS_MAX || s->numbers == UINT32_MAX)
            return -EMFILE;
        long r = kd_call3(KD_SPACE_ATTACH, (long)process, s->object,
                          KD_RIGHT_READ | KD_RIGHT_WRITE);
        if (r < 0)
            return (int)r;
        c = malloc(sizeof(*c));
        if (!c) {
            kd_call3(KD_SPACE_DETACH, (long)process, s->object, 0);
            return -ENOMEM;
        }
        *c = (struct client){s->clients, ++s->numbers, process, 0}; /* KS1 */
        s->clients = c;
        s->client_count++;
    }
    c->opens++;
    answer->word[0] = s->base;
    answer->word[1] = s->area->bytes;
    answer->word[2] = c->number;
    return 0;
}

static void client_gone(struct area_server *s, uint64_t process)
{
    struct client **at = &s->clients, *c;
    while (*at && (*at)->process != process)
        at = &(*at)->next;
    if (!(c = *at))
        return;
    *at = c->next;
    s->client_count--;
    server_wake(s, ~0ull, UINT64_MAX); /* KS3 */
    if (s->area->task.gone)
        s->area->task.gone(s->area->task.arg, c->number);
    free(c);
}

static int client_close(struct area_server *s, struct client *c)
{
    if (--c->opens > 0)
        return 0;
    kd_call3(KD_SPACE_DETACH, (long)c->process, s->object, 0);
    client_gone(s, c->process);
    return 0;
}

/* ---- what comes ---- */

static int ask(struct area_server *s, const struct client *c, const struct kd_message *m,
               struct kd_message *answer)
{
    struct ps_request r = {c->number, m->token, s->data, m->data_bytes};
    if (!s->area->task.serve)
        return -ENOSYS;
    if (m->data_bytes > PS_MESSAGE_MAX)
        return -EMSGSIZE;
    int result = s->area->task.serve(s->area->task.arg, &r);
    answer->data = s->data;
    answer->data_bytes = r.bytes <= m->data_bytes ? r.bytes : 0;
    return r.bytes <= m->data_bytes ? result : -EMSGSIZE;
}

static int client_says(struct area_server *s, const struct kd_message *m, struct kd_message *answer)
{
    struct client *c = client_of(s, m->process);
    if (m->kind == KIT_OPEN)
        return client_open(s, m->process, answer);
    if (!c)
        return -EPERM;
    switch (m->kind) {
    case KIT_CLOSE: return client_close(s, c);
    case KIT_WAIT: return sleep_on(s, c, m);
    case KIT_WAKE:
        server_wake(s, m->word[0], m->word[1]);
        return 0;
    case KIT_ASK: return ask(s, c, m, answer);
    default: return -ENOSYS;
    }
}

/* message_served serves all but the end of the area, which only its maker may say. PS_LATER:
 * nothing is to be answered now. */
static int message_served(struct area_server *s, const struct kd_message *m,
                          struct kd_message *answer)
{
    if (m->kind == (uint32_t)KD_MSG_CLIENT_GONE)
        client_gone(s, m->process);
    return m->kind & (uint32_t)KD_MSG_KERNEL ? PS_LATER : client_says(s, m, answer);
}

static void *serve(void *arg)
{
    struct area_server *s = arg;
    s->area->serves = pthread_self();
    struct kd_message m = {.buffer = s->data, .buffer_bytes = sizeof(s->data)};
    long r = kd_call3(KD_PORT_RECEIVE, s->area->port, (long)&m, -1);
    while (r >= 0 && !(m.kind == KIT_END && m.process == s->process)) {
        struct kd_message answer = {.handle = -1};
        struct kd_message next = {.buffer = s->data, .buffer_bytes = sizeof(s->data)};
        message_unload(&m);
        answer.status = message_served(s, &m, &answer);
        if (answer.status == PS_LATER)
            r = kd_call3(KD_PORT_RECEIVE, s->area->port, (long)&next, -1);
        else
            r = message_answer(m.token, &answer, s->area->port, &next);
        m = next;
    }
    reply(m.token, 0);
    return NULL;
}

/* ---- making one, and its end ---- */

static void server_free(struct area_server *s)
{
    while (s->clients) {
        struct client *c = s->clients;
        s->clients = c->next;
        free(c);
    }
    if (s->object >= 0)
        kd_call3(KD_HANDLE_CLOSE, s->object, 0, 0);
    if (s->area->port >= 0)
        kd_call3(KD_HANDLE_CLOSE, s->area->port, 0, 0);
    free(s->area);
    free(s);
}

/* thread_end ends the thread that serves. */
static void thread_end(struct area_server *s)
{
    struct kd_message m = {.kind = KIT_END, .handle = -1};
    kd_call3(KD_PORT_CALL, s->area->port, (long)&m, 0);
    pthread_join(s->thread, NULL);
}

void server_end(struct area_server *s)
{
    thread_end(s);
    server_free(s);
}

/* memory_make makes the area's memory: zeros that stay where they are. */
static int memory_make(struct area_server *s, const char *name, uint64_t pages)
{
    struct kd_object_create create = {.port = s->area->port, .commit_port = s->area->port,
                                      .pages = pages};
    strcpy(create.name, name);
    long r = kd_call3(KD_OBJECT_CREATE, (long)&create, 0, 0);
    if (r < 0)
        return (int)r;
    s->object = (int)r;
    s->base = create.base;
    struct kd_supply zeros = {.object = s->object, .source = KD_SUPPLY_ZERO,
                              .rights = KD_READ | KD_WRITE, .count = pages};
    r = kd_call3(KD_OBJECT_SUPPLY, (long)&zeros, 0, 0);
    if (r >= 0)
        r = kd_call4(KD_OBJECT_PIN, s->object, 0, (long)pages, 1);
    return r < 0 ? (int)r : r < (long)pages ? -ENOMEM : 0;
}

/* name_make names the area; a name that is taken is another's, or something else's. */
static int name_make(const ps_area *a, const char *name)
{
    long other = kd_call3(KD_NAME_FIND, (long)name, 0, 0);
    if (other >= 0) {
        kd_call3(KD_HANDLE_CLOSE, other, 0, 0);
        return -EEXIST;
    }
    return (int)kd_call3(KD_NAME_SET, (long)name, a->port, 0);
}

static int server_begin(struct area_server *s, const char *name, uint64_t pages)
{
    ps_area *a = s->area;
    long port = kd_call3(KD_PORT_CREATE, 0, 0, 0);
    if (port < 0)
        return (int)port;
    a->port = (int)port;
    a->bytes = pages * KD_PAGE_BYTES;
    s->process = (uint64_t)getpid();
    s->last = &s->sleepers;
    for (unsigned i = 0; i < PS_WAITERS_MAX; i++) {
        s->slots[i].next = s->unused;
        s->unused = &s->slots[i];
    }
    int error = memory_make(s, name, pages);
    struct kd_message opened;
    if (error == 0)
        error = client_open(s, s->process, &opened); /* client 1 */
    a->owner = LATCH_OF_CLIENT(1);
    a->memory = (char *)s->base;
    if (error == 0)
        error = -pthread_create(&s->thread, NULL, serve, s);
    if (error)
        return error;
    error = name_make(a, name); /* the last: from here on others come */
    if (error)
        thread_end(s);
    return error;
}

ps_area *ps_area_make(const char *name, size_t bytes, const struct ps_task *task)
{
    const uint64_t pages = (bytes + KD_PAGE_BYTES - 1) / KD_PAGE_BYTES;
    int error = !name || !name[0] || bytes == 0 || bytes > PS_AREA_MAX ? -EINVAL
                : strlen(name) >= KD_NAME_MAX                          ? -ENAMETOOLONG
                                                                       : 0;
    struct area_server *s = error ? NULL : calloc(1, sizeof(*s));
    ps_area *a = s ? calloc(1, sizeof(*a)) : NULL;
    if (!a) {
        free(s);
        errno = error ? -error : ENOMEM;
        return error_told_by(ERROR_AREA, NULL);
    }
    *a = (ps_area){.port = -1, .server = s};
    if (task)
        a->task = *task;
    s->area = a;
    s->object = -1;
    error = server_begin(s, name, pages);
    if (error == 0)
        return a;
    server_free(s);
    errno = -error;
    return error_told_by(ERROR_AREA, NULL);
}
