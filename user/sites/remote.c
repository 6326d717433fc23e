/*
 * remote.c - `remote`: the manager of containers whose home is another site (remote.md).
 *
 *     remote          started by link; begins a manager for each home that a program asks for
 *     remote SITE     such a manager: serves the port "SITE/store" in one session with the home
 *
 * A manager ends when its session does, and with it all that this site had cached of the home: its
 * objects, so transactions that used them. Then the first process lets go of the session, and
 * begins the next one. Programs wait for that as for a store that is started again (its name
 * "kept SITE/store").
 *
 * Threads of a manager: some hear kernel and programs, one the home. None of these waits for the
 * home, but one of the former that has sent a GET, for some 20 ms. Who waits has a thread apart: to
 * ask other stores (remote_parts.c), and to lead snapshots (remote_several.c).
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "katydid/call.h"
#include "link.h"
#include "pstore.h"
#include "remote.h"
#include "turns.h"

enum { THREADS = 3, SITE_PAGES_MAX = 1 << 22, WANT = 1, LOOK_EACH = 8, LOOK_MS = 20 };

struct remote remote = {.pages = {.most = SITE_PAGES_MAX}};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void remote_lock(void) { pthread_mutex_lock(&lock); }
void remote_unlock(void) { pthread_mutex_unlock(&lock); }

uint64_t remote_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void say(const char *why)
{
    char line[160];
    int n = snprintf(line, sizeof line, "remote: %s", why);
    kd_call3(KD_KERNEL_LOG, (long)line, n, 0);
}

_Noreturn void remote_ends(const char *why)
{
    say(why);
    _exit(1);
}

/* A thread that hears kernel and programs sends a GET, or a small COMMIT, with its question for
 * what the home says, which is mostly the answer: that is one call of link's for both. One does so
 * at a time. */
struct hearer { struct link_inbox inbox; _Alignas(8) uint8_t frame[REMOTE_FRAME]; };
static _Thread_local struct hearer *own;    /* NULL: no such thread */
static bool awaits;                         /* one of them does; atomic */

uint8_t *remote_frame(void)
{
    bool may = own && !__atomic_load_n(&awaits, __ATOMIC_RELAXED) &&
               !__atomic_exchange_n(&awaits, true, __ATOMIC_RELAXED);
    return may ? own->frame : NULL;
}

void remote_frame_is(size_t bytes)
{
    own->inbox.sends_bytes = bytes;
    if (!bytes) __atomic_store_n(&awaits, false, __ATOMIC_RELAXED);
}

void remote_send(const struct site_message *m)
{
    static _Alignas(8) uint8_t frame[FRAME_BYTES_MAX]; /* locked */
    uint8_t *with = m->kind == SITE_GET ? remote_frame() : NULL, *at = with ? with : frame;
    size_t bytes = message_put(m, at, with ? REMOTE_FRAME : sizeof frame);
    remote.counts[m->kind]++;
    frame_place(at, remote_place());
    if (with) remote_frame_is(bytes);
    if (!bytes || (!with && link_post(remote.session, frame, bytes)))
        remote_ends("the session with the home is over");
}

uint64_t remote_place(void)
{
    static uint64_t place;
    return ++place;
}

/* ---- a manager: what the home says ---- */

static void heard(const struct site_message *m, const struct link_inbox *inbox)
{
    turn_await(inbox->batch);
    remote_lock();
    remote.counts[m->kind]++;
    switch (m->kind) {
    case SITE_GRANT: page_granted(m); break;
    case SITE_DENIED: page_denied(m); break;
    case SITE_CALL: page_called(m); break;
    case SITE_PROBE: page_probed(m); break;
    case SITE_TOLD: store_told(m); break;
    case SITE_SNAPPED: snapshot_begun(m); break;
    case SITE_STOOD: snapshot_stood(m); break;
    case SITE_OLD: snapshot_page_told(m); break;
    case SITE_DONE:
    case SITE_VOTED:
    case SITE_REFUSED: commit_answered(m); break;
    case SITE_APPLIED: parts_applied(m); break;
    default: remote_ends("the home says what no home says");
    }
    remote_unlock();
    if (inbox->at == inbox->bytes) turn_ends();
}

/* Hears what comes together next; nothing, if it waits for no longer. */
static void hear(struct link_inbox *inbox)
{
    struct frame f;
    const uint8_t *at;
    struct site_message m;
    do {
        int r = link_receive(remote.session, inbox, &f, &at);
        if (r == -ETIMEDOUT) return;
        if (r) remote_ends("the session with the home is over");
        if (!message_take(&m, &f, at)) remote_ends("the home says what is no message");
        heard(&m, inbox);
    } while (inbox->at < inbox->bytes);
}

static _Noreturn void *hear_home(void *unused)
{
    static _Alignas(8) uint8_t memory[FRAME_BYTES_MAX];
    struct link_inbox inbox = {.memory = memory};
    (void)unused;
    for (;;) hear(&inbox);
}

/* ---- what kernel and programs say ---- */

static void on_message(const struct kd_message *m)
{
    switch (m->kind) {
    case (uint32_t)KD_MSG_PAGE: page_asked(m); return;
    case (uint32_t)KD_MSG_RECALLED: pages_recalled(m->word[0]); return;
    case (uint32_t)KD_MSG_COMMIT: commit_asked(m); return;
    case (uint32_t)KD_MSG_CLIENT_GONE: store_client_gone(m->process ? m->process : m->word[0]);
        return;
    default:
        if (m->handle >= 0) kd_call3(KD_HANDLE_CLOSE, m->handle, 0, 0);
        if (!(m->kind & (uint32_t)KD_MSG_KERNEL)) store_asked(m);
    }
}

static void *hear_here(void *unused)
{
    void *data = calloc(1, KD_DATA_MAX);
    (void)unused;
    if (!data) remote_ends("no memory");
    bool look = false;                  /* the clock costs a call of the kernel's */
    struct hearer me = {.inbox = {.memory = data, .sends = me.frame, .wait_ms = LOOK_MS}};
    own = &me;
    for (unsigned n = 1;; n++) {
        struct kd_message m = {.buffer = data, .buffer_bytes = KD_DATA_MAX, .handle = -1};
        long r = kd_call3(KD_PORT_RECEIVE, remote.port, (long)&m, pages_look(look));
        look = r < 0 || n % LOOK_EACH == 0;
        if (r == -EAGAIN || r == -ETIMEDOUT) continue;
        if (r < 0) remote_ends("its port ended");
        on_message(&m);
        if (!me.inbox.sends_bytes) continue;
        hear(&me.inbox);
        __atomic_store_n(&awaits, false, __ATOMIC_RELAXED);
    }
}

static void start(void *(*function)(void *), void *argument)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, function, argument)) remote_ends("no thread");
    pthread_detach(thread);
}

/* Nothing can be had in this session: another one at once would bring no more. */
static _Noreturn void wait_for_end(const char *why)
{
    say(why);
    hear_home(NULL);
}

/* The home's addresses are its containers' alone, as those of each store of this machine. */
static void zone_claim(void)
{
    char name[STORE_NAME_BYTES];
    struct link_session s;
    uint64_t small = wire_zone_bytes(WIRE_ZONE_SMALL);
    if (link_session(remote.session, &s)) remote_ends("the session with the home is over");
    if (s.store_count == 0) wait_for_end("the home has no store");
    remote.zone = s.stores[0].zone;
    uint64_t first = WIRE_ZONE_SMALL + (wire_zone_base(remote.zone) - WIRE_REGION_BASE) / small;
    for (uint64_t i = 0; i < wire_zone_bytes(remote.zone) / small; i++) {
        snprintf(name, sizeof name, "zone %llu", (unsigned long long)(first + i));
        if (kd_call3(KD_NAME_SET, (long)name, remote.port, 0) < 0)
            wait_for_end("the home's store has its addresses in the zone of another store here");
    }
}

static void serve(const char *site)
{
    char name[STORE_NAME_BYTES];
    snprintf(name, sizeof name, "%s/store", site);
    remote.session = LINK_HANDLE;
    remote.port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    if (remote.port < 0) remote_ends("no port");
    zone_claim();
    remote_lock();
    (void)store_home_ask(SITE_NAME, 0, NULL, 0, 0, 0);
    remote_unlock();
    start(hear_home, NULL);
    start(snapshots_look, NULL);
    start(several_work, (void *)site);
    for (int i = 1; i < THREADS; i++) start(hear_here, NULL);
    start(parts_hear, NULL);
    if (kd_call3(KD_NAME_SET, (long)name, remote.port, 0) < 0)
        remote_ends("it may not publish its name");
    hear_here(NULL);
}

/* ---- the first process: a manager for each home ---- */

static struct home { char site[LINK_SITE_BYTES]; } homes[LINK_SITES_MAX];

static long manager_start(const char *site, int session)
{
    const char *argv[] = {"remote", site, NULL};
    struct kd_process_create p = {.path = "/bin/remote", .argv = argv, .fds = {-1, -1, -1},
                                  .handle_count = 2,
                                  .handles = {KD_SYSTEM_HANDLE, session}};
    long handle = kd_call3(KD_PROCESS_CREATE, (long)&p, 0, 0);
    if (handle < 0) return handle;
    kd_call3(KD_HANDLE_CLOSE, handle, 0, 0);
    return p.pid;
}

static void *keep(void *home)
{
    static const struct timespec moment = {.tv_nsec = 10000000};
    const char *site = home;
    for (;;) {
        struct link_session session;
        int status, handle = link_open(site, &session);
        if (handle == -EAGAIN || handle == -EBUSY || handle == -ECONNRESET ||
            handle == -ECONNREFUSED) {
            nanosleep(&moment, NULL);
            continue;
        }
        if (handle < 0) remote_ends("link opens no session");
        long pid = manager_start(site, handle);
        if (pid < 0) remote_ends("a manager cannot be started");
        kd_call3(KD_PROCESS_WAIT, pid, (long)&status, 0);
        link_close(handle);
    }
}

/* A name that no site has said, by a slip perhaps, gets no place among the homes: -EAGAIN if one
 * has not said its name yet, else -ENXIO. */
static int site_there(const char *site)
{
    static struct link_site all[LINK_SITES_MAX + 1]; /* the first one is this site */
    struct kd_message m = {.kind = LINK_LOOK, .buffer = all, .buffer_bytes = sizeof all,
                           .handle = -1};
    long r = kd_call3(KD_PORT_CALL, LINK_HANDLE, (long)&m, 0);
    int there = r < 0 ? (int)r : -ENXIO;
    for (size_t i = 1; r >= 0 && i < m.buffer_bytes / sizeof *all; i++)
        if ((strcmp(all[i].site, site) == 0 || strcmp(all[i].as, site) == 0) && there)
            there = all[i].state == LINK_REFUSED ? -ECONNREFUSED : 0;
        else if (!all[i].site[0] && there == -ENXIO)
            there = -EAGAIN;
    return there;
}

/* "A program wants a store of this site." */
static int want(const char *site, size_t bytes)
{
    char name[STORE_NAME_BYTES];
    struct home *h = homes;
    if (bytes < 2 || bytes > LINK_SITE_BYTES || strnlen(site, bytes) != bytes - 1) return -EINVAL;
    for (; h < homes + LINK_SITES_MAX && h->site[0]; h++)
        if (strcmp(h->site, site) == 0) return 0;
    int there = site_there(site);
    if (there || h == homes + LINK_SITES_MAX) return there ? there : -EMFILE;
    long port = kd_call3(KD_PORT_CREATE, 0, 0, 0);
    snprintf(name, sizeof name, STORE_KEPT "%s/store", site);
    long r = port < 0 ? port : kd_call3(KD_NAME_SET, (long)name, port, 0);
    if (r < 0) return (int)r;
    memcpy(h->site, site, bytes);
    start(keep, h->site);
    return 0;
}

/* "A store of this machine looks for one that may be at any of them." */
static int want_all(void)
{
    static struct link_site all[LINK_SITES_MAX + 1];
    struct kd_message m = {.kind = LINK_LOOK, .buffer = all, .buffer_bytes = sizeof all,
                           .handle = -1};
    long r = kd_call3(KD_PORT_CALL, LINK_HANDLE, (long)&m, 0);
    for (size_t i = 1; r >= 0 && i < m.buffer_bytes / sizeof *all; i++)
        if (all[i].state == LINK_LIVE && all[i].store_count)
            (void)want(all[i].site, strlen(all[i].site) + 1);
    return r < 0 ? (int)r : 0;
}

/* Link starts a successor when it is started again: so this process ends with it. It hears of that
 * by the end of a call, for a site that there never is. */
static void *link_watch(void *unused)
{
    static const struct timespec moment = {.tv_nsec = 100000000};
    struct link_session session;
    (void)unused;
    while (link_open("-", &session) != -EOWNERDEAD) nanosleep(&moment, NULL);
    remote_ends("link has ended");
}

static int keep_all(void)
{
    start(link_watch, NULL);
    long port = kd_call3(KD_PORT_CREATE, 0, 0, 0);
    long r = port < 0 ? port : kd_call3(KD_NAME_SET, (long)"remote", port, 0);
    while (r >= 0) {
        char site[LINK_SITE_BYTES];
        struct kd_message m = {.buffer = site, .buffer_bytes = sizeof site, .handle = -1};
        r = kd_call3(KD_PORT_RECEIVE, port, (long)&m, -1);
        if (r < 0 || !m.token) continue;
        if (m.handle >= 0) kd_call3(KD_HANDLE_CLOSE, m.handle, 0, 0);
        struct kd_message reply = {.handle = -1, .status =
                                       m.kind == WANT ? want(site, m.buffer_bytes)
                                       : m.kind == STORE_SITES_WANT ? want_all() : -ENOSYS};
        kd_call3(KD_PORT_REPLY, (long)m.token, (long)&reply, 0);
    }
    return (int)r;
}

int main(int argc, char **argv)
{
    if (argc == 2) serve(argv[1]);
    fprintf(stderr, "remote: cannot serve: %s\n", ps_strerror(keep_all()));
    return 1;
}
