/*
 * agent.c - `agent`: stands at the home for one session of another site (remote.md).
 *
 *     agent SITE      started by link, with the session's handle
 *
 * It is an ordinary client of the local store. A view that is begun as a holder has the rights that
 * the site has cached; threads take pages for it, and store what the site commits. The session ends
 * with the process, and the process with the session: then all of that goes, but what the store has
 * received for commit, which ends by the store's word.
 */
#include "agent.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "katydid/call.h"
#include "link.h"
#include "pstore.h"
#include "turns.h"

struct agent agent = {.pages = {.most = SITE_PAGES_MAX}};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed[AGENT_WAITS] = {
    PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER,
    PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER};

void agent_lock(void) { pthread_mutex_lock(&lock); }
void agent_unlock(void) { pthread_mutex_unlock(&lock); }
void agent_wait_at(pthread_cond_t *c) { pthread_cond_wait(c, &lock); }

static unsigned waiting[AGENT_WAITS];

void agent_wait(enum agent_wait for_what)
{
    waiting[for_what]++;
    pthread_cond_wait(&changed[for_what], &lock);
    waiting[for_what]--;
}

void agent_changed(enum agent_wait for_whom)
{
    if (waiting[for_whom]) pthread_cond_signal(&changed[for_whom]);
}
void agent_changed_all(enum agent_wait for_whom) { pthread_cond_broadcast(&changed[for_whom]); }

_Noreturn void agent_ends(const char *why)
{
    char line[160];
    int n = snprintf(line, sizeof line, "agent of %s: %s", agent.site, why);
    kd_call3(KD_KERNEL_LOG, (long)line, n, 0);
    _exit(1);
}

/* A session that is over takes nothing, and link ends this process when its time has come. In one
 * that goes on each frame counts: the site waits for it. It is not waited for room, with the lock:
 * else two that wait for each other to read would wait for ever. A site that reads nothing of all
 * that it may have asked for has its session ended. */
static void send_frames(const void *frames, size_t bytes)
{
    int error = bytes ? link_post(agent.session, frames, bytes) : -EMSGSIZE;
    if (error && error != -ECONNRESET) agent_ends("link takes no frame");
}

static uint64_t place;                  /* of the last frame; locked */

void agent_send(const struct site_message *m)
{
    static _Alignas(8) uint8_t frame[FRAME_BYTES_MAX]; /* locked */
    size_t bytes = message_put(m, frame, sizeof frame);
    frame_place(frame, ++place);
    send_frames(frame, bytes);
}

/* A thread that hears; its frames go with its next question for what has come. There are two: the
 * one that has time is told first, and carries a COMMIT out itself if that came last, so nobody is
 * woken for it; the other one hears what comes meanwhile. */
struct hearer {
    struct link_inbox inbox;
    _Alignas(8) uint8_t memory[FRAME_BYTES_MAX], sends[4 * AGENT_ROOM];
};
static struct hearer hearers[2];
static _Thread_local struct hearer *own;

void *agent_room(void)
{
    struct link_inbox *i = &own->inbox;
    if (sizeof own->sends - i->sends_bytes < AGENT_ROOM) {
        send_frames(own->sends, i->sends_bytes);
        i->sends_bytes = 0;
    }
    return own->sends + i->sends_bytes;
}

void agent_send_later(size_t bytes)
{
    frame_place(own->sends + own->inbox.sends_bytes, ++place);
    own->inbox.sends_bytes += bytes;
}

void agent_start(void *(*function)(void *), void *argument)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, function, argument)) agent_ends("no thread");
    pthread_detach(thread);
}

struct container *container_at(uint64_t page)
{
    for (struct container *c = agent.containers; c < agent.containers + CONTAINERS_MAX; c++)
        for (unsigned i = 0; c->id && i < c->segments; i++)
            if (page >= c->segment[i].base &&
                (page - c->segment[i].base) / KD_PAGE_BYTES < c->segment[i].pages)
                return c;
    return NULL;
}

/* The holder is the view of the thread that begins it: this one, which lives as long. If it dies
 * the site does not know that yet, and uses what it has: so the rights stand until link ends the
 * session's badge, which is when the site must have noticed; or, if link dies, too, for two leases.
 */
static int holder_begin(void)
{
    static struct { uint64_t word[512]; } stack; /* is not used: nothing ever lands there */
    agent.port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    agent.holder = (int)kd_call3(KD_VIEW_CREATE, 0, 0, 0);
    if (agent.port < 0 || agent.holder < 0) return agent.port < 0 ? agent.port : agent.holder;
    struct link_session session;
    struct kd_begin begin = {.mode = KD_SERIALISABLE | KD_HOLDER, .port = agent.port + 1,
                             .entry = (uintptr_t)agent_changed, .stack = (uintptr_t)(&stack + 1),
                             .locked = LINK_HANDLE + 1};
    long r = link_session(agent.session, &session);
    begin.timeout_ms = r ? 0 : (uint32_t)(2 * session.lease_ns / 1000000);
    if (r == 0) r = kd_call3(KD_VIEW_ENTER, agent.holder, 0, 0);
    if (r == 0) r = kd_call3(KD_TXN_BEGIN, (long)&begin, 0, 0);
    agent.view = begin.view;
    return (int)r;
}

static void heard(const struct site_message *m, const struct frame *f, const uint8_t *at)
{
    switch (m->kind) {
    case SITE_GET: page_get(m); return;
    case SITE_GONE: page_gone(m); return;
    case SITE_CANCEL: page_cancel(m); return;
    case SITE_COMMIT: commit_do(m, at, f->bytes); return;
    case SITE_ASK:
        if (!split_ask(m)) store_ask(m);
        return;
    case SITE_DECIDE: parts_decided(m); return;
    case SITE_PROBED: page_probed(m); return;
    case SITE_SNAP: snapshot_asked(m); return;
    case SITE_STILL: snapshot_still(m); return;
    case SITE_SNAP_END: snapshot_over(m); return;
    case SITE_GET_OLD: snapshot_read(m); return;
    default: agent_ends("the site says what no client says");
    }
}

static _Noreturn void *hear(void *hearer)
{
    struct hearer *h = own = hearer;
    struct link_inbox *i = &h->inbox;
    struct frame f;
    struct site_message m;
    const uint8_t *at;
    i->memory = h->memory;
    i->sends = h->sends;
    while (link_receive(agent.session, i, &f, &at) == 0) {
        bool last = i->at == i->bytes;
        turn_await(i->batch);
        if (!message_take(&m, &f, at)) agent_ends("the site says what is no message");
        /* who commits has sent all that it has to send */
        if (m.kind == SITE_COMMIT && last && i->wait_ms && !i->sends_bytes &&
            commit_here(&m, h->memory + (at - h->memory)))
            continue;
        heard(&m, &f, at);
        if (last) turn_ends();
    }
    agent_ends("its session is over");
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "agent: link starts it, for each session of another site\n");
        return 2;
    }
    agent.site = argv[1];
    agent.session = LINK_HANDLE;
    int error = ps_connect(NULL);
    if (!error) error = store_begin(argv[1]);
    if (!error) error = holder_begin();
    if (error) agent_ends(ps_strerror(error));
    for (int i = 0; i < GETTERS; i++) agent_start(page_work, NULL);
    for (int i = 0; i < COMMITTERS - 1; i++) agent_start(commit_work, NULL);
    agent_start(page_hear, NULL);
    agent_start(store_work, NULL);
    agent_start(snapshot_work, NULL);
    for (int i = 0; i < OLD_READERS; i++) agent_start(snapshot_read_work, NULL);
    hearers[1].inbox.wait_ms = 1;
    agent_start(hear, &hearers[1]);
    hear(&hearers[0]);
}
