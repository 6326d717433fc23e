/*
 * copy.c - the store manager's role as one of two copies of a store (copy.h).
 *
 * Until it is home nothing of the manager runs but what is here, and its port COPY_PORT. When it
 * becomes home the main thread goes on, as behind any start. A home never becomes anything else: it
 * ends (CY2), and init starts it again, which is a start as a copy that does not know what it is.
 */
#include "copy.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "copy_protocol.h"
#include "group.h"
#include "options.h"

static struct role role;
static pthread_cond_t heard = PTHREAD_COND_INITIALIZER;     /* from the other copy; or it is home */
static bool witness_reached;            /* a session with its site */
static bool opened, took;               /* took: it was not home before */
static bool serving;                    /* link has told all; sessions have begun anew */
static store_lsn_t sure_before;         /* as of the last look */
static uint64_t heard_before;           /* role.heard_stamp, as it was before */
static int told_error;                  /* of the role's, that was said */
static uint64_t opened_us, last_word_us, waits, waits_since_us, waited_us, heard_us, groups;
enum { LEASES_GRANTED = 3,              /* from the last word of the home: copy_grace_ms */
       TURN_NS = 100000 };              /* for others, while a log is read for a copy that joins */

static const char *const names[] = {"starting", "home", "spare", "taking over", "out"};
_Static_assert((int)ROLE_OUT == COPY_OUT && (int)ROLE_HOME == COPY_HOME, "one is the other");

bool copy_is(void) { return options.pair[0][0]; }

/* ---- what it becomes ---- */

static void on_opened(void *unused, struct store *store, const struct store_report *report)
{
    (void)unused;
    server.store = store;
    opened_us = now_us();
    last_word_us = role.answered_us;
    report_say(report);
    say("home in the place of %s, term %llu, %llu ms after the last word to another one",
        copy_place(), (unsigned long long)role.term,
        (unsigned long long)(opened_us - last_word_us) / 1000);
    copy_recast_commit(store);
    role_flushed(&role, store_log_applied(store));
    opened = true;
    pthread_cond_broadcast(&heard);
}

static _Noreturn void ends(const char *why)
{
    say("home no more: %s", why);
    _exit(COPY_EXIT);
}

static void on_closing(void *unused, struct store *store)
{
    (void)unused;
    (void)store;
    ends("another site is home");
}

/* copy_place tells in whose place the home is, whichever it is: whose name comes first. */
const char *copy_place(void)
{
    return role.own == 1 ? options.pair[0] : options.pair[1];
}

/* ---- what happens; with the lock held ---- */

static void look(enum role_is was)
{
    if (role.is != was) say("%s, term %llu", names[role.is], (unsigned long long)role.term);
    if (role.error && role.error != told_error)
        say("%s: %s", names[role.is],
            role.error == -ESTALE ? "this copy cannot follow the other one: make it anew of that"
                                  : strerror(-role.error));
    told_error = role.error;
    took |= role.is == ROLE_TAKING;
    store_lsn_t sure = role_sure(&role);
    if (role.is != was || sure != sure_before || role.heard_stamp != heard_before)
        pthread_cond_broadcast(&heard);
    if (sure != sure_before) group_copied();
    sure_before = sure;
    heard_before = role.heard_stamp;
}

void copy_heard(int from, const struct role_message *m)
{
    server_lock();
    enum role_is was = role.is;
    uint64_t now = heard_us = now_us();
    groups += m->kind == ROLE_GROUP;
    bool early = m->kind == ROLE_JOIN && !serving;  /* what is in that session ends with it */
    if (!early) role_receive(&role, from, m, now);
    look(was);
    server_unlock();
}

void copy_reached(int site, bool reached)
{
    server_lock();
    if (site != ROLE_TO_OTHER) {
        witness_reached = reached;
        server_unlock();
        return;
    }
    enum role_is was = role.is;
    role_link(&role, reached, now_us());
    look(was);
    server_unlock();
}

/* lease_look ends a home without lease (CY2); while it has no named mate nobody else is home. */
static void lease_look(uint64_t now)
{
    if (role.is == ROLE_HOME && role.store && role.named && role.frozen &&
        now >= role.heard_stamp + role.lease_us)
        ends("its lease is over, and the witness has not said that it may go on");
}

static void *ticker_main(void *unused)
{
    (void)unused;
    for (bool hurries = false;;) {
        nanosleep(&(struct timespec){.tv_nsec = hurries ? TURN_NS : ROLE_TICK_US * 1000}, NULL);
        server_lock();
        enum role_is was = role.is;
        uint64_t now = now_us();
        role_tick(&role, now);
        lease_look(now);
        copy_recast_step(role.is == ROLE_SPARE || role.is == ROLE_TAKING ? role.copy : NULL);
        look(was);
        hurries = role_hurries(&role);
        server_unlock();
    }
    return NULL;
}

/* ---- commits; with the lock held ---- */

void copy_sealed(const struct store_group *group)
{
    if (!copy_is()) return;
    groups++;
    copy_cork(true);
    role_sealed(&role, group, now_us());
    copy_cork(false);
}

bool copy_has(store_lsn_t end)
{
    if (!copy_is()) return true;
    role_flushed(&role, end);
    bool has = role_sure(&role) >= end;
    if (!has && !waits_since_us) waits_since_us = now_us();
    if (!has || !waits_since_us) return has;
    waits++;
    waited_us += heard_us > waits_since_us ? heard_us - waits_since_us : 0;
    waits_since_us = 0;
    return true;
}

void copy_flushed(store_lsn_t end)
{
    while (!copy_has(end)) pthread_cond_wait(&heard, &server.lock);
}

/* copy_confirms asks the other copy, which may have become home without a word to this. */
void copy_confirms(void)
{
    if (!copy_is()) return;
    uint64_t asked_us = now_us();
    role_beat(&role, asked_us);
    while (!role_heard(&role, asked_us)) server_wait(&heard, ROLE_TICK_US);
}

void copy_fenced(void)
{
    if (copy_is() && role.is == ROLE_HOME && role.named && !role.lost)
        ends("its disk takes no more commits");
}

/* copy_stop ends it as by a power cut: the other one goes on from where the log ends. */
_Noreturn void copy_stop(int error)
{
    struct kd_message reply = {.status = error < 0 ? -EIO : 0, .handle = -1};
    kd_reply(server.stop_token, &reply);
    _exit(error < 0 ? 1 : 0);
}

/* ---- a backup of the spare ---- */

struct store_spare *copy_pause(struct store_spare_state *state)
{
    struct store_epochs epochs;
    if (role.is != ROLE_SPARE || role.paused) return NULL;
    role.paused = true;
    store_spare_tell(role.copy, state, &epochs);
    return role.copy;
}

bool copy_is_paused(const struct store_spare *spare, const struct store_spare_state *begun)
{
    struct store_spare_state now;
    struct store_epochs epochs;
    if (role.is != ROLE_SPARE || role.copy != spare) return false;
    store_spare_tell(role.copy, &now, &epochs);
    return now.applied_lsn == begun->applied_lsn && now.checkpoints == begun->checkpoints;
}

void copy_resume(void) { role.paused = false; }

/* ---- what people ask ---- */

static void status_tell(struct copy_status *s)
{
    struct store_spare_state state = {.end_lsn = role.flushed};
    struct store_epochs epochs;
    if (role.copy) store_spare_tell(role.copy, &state, &epochs);
    *s = (struct copy_status){
        .is = role.is, .frozen = role.frozen, .mate = role.mate != 0, .named = role.named,
        .reached = role.reached, .asynchronous = role.asynchronous, .error = role.error,
        .untold = role.vouched, .witness_reached = witness_reached,
        .term = role.term, .end = state.end_lsn, .other_end = role.have,
        .applied = state.applied_lsn, .groups = groups, .waited_us = waited_us, .waits = waits,
        .took_us = opened && took ? opened_us - last_word_us : 0};
    copy_recast_tell(&s->recast);
    strcpy(s->own, options.pair[0]);
    strcpy(s->other, options.pair[1]);
    strcpy(s->witness, options.pair[2]);
}

/* take_over waits until it is home, or will not be. Lock held, dropped. */
static int take_over(bool off)
{
    uint64_t until = now_us() + 20 * role.lease_us;
    int r = off ? role_take_over(&role, now_us()) : role_asks_over(&role, now_us());
    while (r == 0 && role.is == ROLE_TAKING && now_us() < until)
        server_wait(&heard, ROLE_TICK_US);
    return r ? r : role.is == ROLE_HOME && role.store ? 0 : -EAGAIN;
}

static int asked(const struct kd_message *m, struct copy_status *s, char *refused)
{
    int r = 0;
    if (m->kind != COPY_STATUS && m->kind != COPY_TAKE_OVER && m->kind != COPY_RECAST)
        return -ENOSYS;
    long right = m->kind == COPY_STATUS ? 0
                 : m->handle < 0        ? -EPERM : KD2(KD_HANDLE_COPY, m->handle, KD_RIGHT_DISKS);
    if (right < 0) return -EPERM;
    if (m->kind != COPY_STATUS) KD1(KD_HANDLE_CLOSE, right);
    server_lock();
    enum role_is was = role.is;
    if (m->kind == COPY_STATUS)
        status_tell(s);
    else if (m->kind == COPY_RECAST)
        r = copy_recast_begin(role.is == ROLE_SPARE ? role.copy : NULL, m->buffer,
                              m->buffer_bytes, refused);
    else
        r = take_over(m->word[0] == 1);
    look(was);
    server_unlock();
    return r;
}

static int asked_port;

static void *asked_main(void *unused)
{
    (void)unused;
    for (;;) {
        struct copy_status s;
        char name[2 * STORE_NAME_BYTES], refused[RECAST_TYPE_BYTES] = "";
        struct kd_message m = {.handle = -1, .buffer = name, .buffer_bytes = sizeof(name)};
        struct kd_message reply = {.handle = -1};
        if (kd_receive(asked_port, &m, -1) < 0) exit(1);
        if (m.token) {
            reply.status = m.kind == COPY_BACKUP ? copy_backup(&m) : asked(&m, &s, refused);
            if (m.kind == COPY_STATUS) {
                reply.data = &s;
                reply.data_bytes = sizeof(s);
            }
            if (m.kind == COPY_RECAST) {
                reply.data = refused;
                reply.data_bytes = sizeof(refused);
            }
        }
        if (m.handle >= 0) KD1(KD_HANDLE_CLOSE, m.handle);
        bool later = m.kind == COPY_BACKUP && reply.status == 0;
        if (m.token && !later) kd_reply(m.token, &reply);
    }
}

/* ---- the beginning ---- */

/* disk_ready makes the store at the first of the two if the disk is blank, as only at the
 * beginning; the other one is a copy of that. */
static bool disk_ready(const struct disk_io *io, const struct store_open_options *how)
{
    struct store_spare *spare;
    struct store_report report;
    int r = store_spare_open(io, &disk_memory, how, &spare, &report);
    if (r == 0) store_spare_abandon(spare);
    if (r == -ENODATA && role.own == 1) r = disk_format(io, how->group_bytes);
    else if (r == -ENODATA)
        say("refused: this disk is blank: it has to begin as a copy of %s's", options.pair[1]);
    if (r == 0 || r == -ESTALE) return true;
    if (r != -ENODATA) say("refused: %s", report.message ? report.message : strerror(-r));
    return false;
}

bool copy_run(const struct disk_io *io, const struct store_open_options *how, unsigned grace_ms)
{
    const char *const sites[COPY_SITES] = {options.pair[1], options.pair[2]};
    bool earlier = strcmp(options.pair[0], options.pair[1]) < 0;
    role = (struct role){
        .calls = {NULL, copy_send, on_opened, on_closing}, .io = *io, .memory = &disk_memory,
        .options = *how, .own = earlier ? 1 : 2, .other = earlier ? 2 : 1,
        .lease_us = grace_ms ? grace_ms * 500ull : ROLE_LEASE_US,
        .group_most = COPY_GROUP_MOST, .asynchronous = options.asynchronous};
    if (!disk_ready(io, how)) return false;
    asked_port = (int)kd_system(KD_PORT_CREATE, 0, 0, 0, 0);
    if (asked_port < 0 || KD2(KD_NAME_SET, COPY_PORT, asked_port) < 0) {
        say("the name \"%s\" is taken", COPY_PORT);
        return false;
    }
    server_lock();
    role_start(&role, now_us());
    server_unlock();
    if (!copy_link_start(sites) || !thread_make(ticker_main) || !thread_make(asked_main))
        return false;
    server_lock();
    while (!opened) pthread_cond_wait(&heard, &server.lock);
    server_unlock();
    return true;
}

unsigned copy_grace_ms(void)
{
    uint64_t over = last_word_us + LEASES_GRANTED * role.lease_us, now = now_us();
    return over > now ? (unsigned)((over - now + 999) / 1000) : 0;
}

void copy_serves(void)
{
    struct store_stats stats;
    server_lock();
    store_stats(server.store, &stats);
    uint64_t term = role.term;
    server_unlock();
    int r = copy_link_home(copy_place(), stats.zone, term);
    server_lock();
    serving = true;
    server_unlock();
    if (r) say("link does not tell the other sites: %s", strerror(-r));
}
