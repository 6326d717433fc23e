/*
 * kept.c - containers that another program serves: the life of that program, the container's
 * *representative*. It is started by keeper (user/keeper.c), which asks us what to do; which
 * program it is says kept_setting.c.
 *
 *     no entry --open--> STARTS --STORE_SERVE--> SERVES --nobody has it open--> ENDS --> no entry
 *                          |                       |                             |
 *                          +-- it ends, lies or is late; STORE_ENDED ------------+
 *
 * An open waits, without a thread, until the representative has handed over its memory object; then
 * the client is attached to that by us, who know that it lies at the container's place. Each client
 * is attached to `presence`, too, an object of ours, whose port hears of the client's end.
 *
 * Invariants
 *   KP1  A container has one entry at most. The objects of an entry that SERVES, of the container's
 *       first segments, were made at their addresses, are no larger, and were handed over by the
 *       program that the keeper started with the entry's key.
 *   KP2  A client that waits has no opening; it is answered once, when the entry leaves STARTS.
 *   KP3  Nothing here waits for a representative or for the keeper, but kept_stop, for a time.
 *
 * Locks: server.lock for everything, also while answers with handles are sent: a handle is closed
 * by nobody else meanwhile.
 */
#include "group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "options.h"
#include "path.h"
#include "pstore.h"

enum {
    KEPT_MAX = 16,                      /* representatives at a time */
    WAITS_MAX = 128,
    KEPT_STOP_MS = 2000,                /* from the wish to end to the kill */
    DELAY_MS = 10, DELAY_SHIFT_MAX = 9, /* after the first failure; doubled by each further one */
    MORE_MAX = 24,                      /* segments of all but the first: each takes a handle */
};
enum kept_state { KEPT_NONE, KEPT_STARTS, KEPT_SERVES, KEPT_ENDS };
struct kept {
    enum kept_state state;
    uint64_t id, key, process;          /* id: also of one that is over; process 0: not known */
    uint64_t pages[STORE_SEGMENT_MAX];  /* of its objects */
    uint64_t due_us;                    /* STARTS, ENDS: killed then; SERVES: idle; 0: in use */
    uint64_t begun_us;
    uint64_t token;                     /* of STORE_SERVE */
    int port, object[STORE_SEGMENT_MAX];/* handles, -1: none; the first comes last */
    uint32_t segments;                  /* so many objects, with the first */
    int error;                          /* of those who wait */
    uint32_t rights, order;             /* WIRE_START, WIRE_KILL to be told; 0 */
    bool killed;
    unsigned failures;                  /* in a row, before this life */
};
static struct kept kept[KEPT_MAX];
struct wait { uint64_t token, process, id; uint32_t rights, created, now; struct sources by; };
static struct wait waits[WAITS_MAX];
static uint64_t keeper, keeper_token;   /* process; the call that is answered with an order */
static int presence = -1;

#define kept_each(k) for (struct kept *k = kept; k < kept + KEPT_MAX; k++)
#define waits_each(w) for (struct wait *w = waits; w < waits + WAITS_MAX; w++)

static struct kept *kept_of(uint64_t id)
{
    kept_each(k) if (k->state != KEPT_NONE && k->id == id) return k;
    return NULL;
}

static struct kept *kept_keyed(uint64_t id, uint64_t key)
{
    struct kept *k = kept_of(id);
    return k && key && k->key == key ? k : NULL;
}

/* ---- orders to the keeper ---- */

/* delay_ms: so long a program that failed does not start again: 20 ms, 40 ms ... to 5 s. */
static uint64_t delay_ms(const struct kept *k)
{
    unsigned shift = k->failures < DELAY_SHIFT_MAX ? k->failures : DELAY_SHIFT_MAX;
    return k->failures ? DELAY_MS << shift : 0;
}

static bool order_make(const struct kept *k, struct wire_order *o)
{
    struct store_container d;
    memset(o, 0, sizeof(*o));
    *o = (struct wire_order){
        .what = k->order, .container = k->id, .key = k->key, .process = (int64_t)k->process};
    if (k->order == WIRE_KILL) return true;
    int bytes = kept_text(k->id, o->text);
    if (bytes < 0 || store_container_get(server.store, k->id, &d) < 0 ||
        !directory_entry_name(paths, k->id, o->name))
        return false;
    o->text_bytes = (uint32_t)bytes;
    o->base = d.base;
    o->pages = d.segments[0].pages;
    o->segments = d.segment_count;
    o->delay_ms = delay_ms(k);
    return true;
}

static void kept_over(struct kept *k, int error);

/* keeper_tell tells the keeper, if it asks, the first thing that it is to do. */
static void keeper_tell(void)
{
    static struct wire_order order;
    struct kd_message reply = {.data = &order, .data_bytes = sizeof(order),
                               .handle_rights = KD_RIGHT_CALL | KD_RIGHT_GRANT | WIRE_KEPT_MAY};
    kept_each(k) {
        if (!keeper_token || !k->order) continue;
        if (!order_make(k, &order)) { /* the container is gone */
            kept_over(k, -ENOENT);
            continue;
        }
        reply.handle = k->order == WIRE_START ? (int)ticket_home(keeper, k->id, WIRE_KEPT_MAY) : -1;
        if (kd_reply(keeper_token, &reply) == 0) k->order = 0;
        if (reply.handle >= 0) KD1(KD_HANDLE_CLOSE, reply.handle);
        keeper_token = 0;
    }
}

static void due_in(struct kept *k, uint64_t ms)
{
    k->due_us = now_us() + ms * 1000;
    pthread_cond_signal(&server.work); /* the cleaner looks at the clock for us */
}

/* kept_start has a representative start that is not there yet, or is over. */
static void kept_start(struct kept *k, uint64_t id)
{
    unsigned failures = k->id == id ? k->failures : 0;
    *k = (struct kept){.state = KEPT_STARTS, .id = id, .port = -1, .object = {-1},
                       .segments = 1, .order = WIRE_START, .failures = failures,
                       .begun_us = now_us()};
    if (getrandom(&k->key, sizeof(k->key), 0) != sizeof(k->key)) k->key = k->begun_us;
    k->key |= 1;
    due_in(k, delay_ms(k) + options.kept_ms);
    keeper_tell();
}

/* kept_place finds an entry for a container that has none: its former one, a fresh one, or the one
 * that has been over for longest. NULL: all are in use. */
static struct kept *kept_place(uint64_t id)
{
    struct kept *best = NULL;
    kept_each(k) {
        if (k->state != KEPT_NONE) continue;
        if (k->id == id) return k;
        if (!best || k->begun_us < best->begun_us) best = k;
    }
    return best;
}

static void kill_now(struct kept *k, int error)
{
    if (k->killed) return;
    k->killed = true;
    if (!k->error) k->error = error;
    if (k->order == WIRE_START) { /* nobody has heard of this life */
        kept_over(k, error);
        return;
    }
    k->order = WIRE_KILL;
    keeper_tell();
}

/* end_begin asks a representative to end; who does not is killed. */
static void end_begin(struct kept *k)
{
    struct kd_message reply = {.handle = -1};
    if (k->state == KEPT_STARTS) {
        kill_now(k, -ECANCELED);
    } else if (k->state == KEPT_SERVES) {
        k->state = KEPT_ENDS;
        due_in(k, KEPT_STOP_MS);
        (void)kd_reply(k->token, &reply);
    }
}

/* ---- clients ---- */

static bool waited_for(uint64_t id)
{
    waits_each(w) if (w->token && w->id == id) return true;
    return false;
}

static void refuse(struct wait *w, int error)
{
    struct kd_message reply = {.handle = -1, .status = error};
    (void)kd_reply(w->token, &reply);
    w->token = 0;
}

static int presence_make(void)
{
    struct kd_object_create o = {.port = server.port, .commit_port = server.commit_port, .pages = 1,
                                 .name = "store's clients"};
    if (presence < 0) presence = (int)kd_object_create(&o);
    return presence < 0 ? presence : 0;
}

/* kept_page fails the request: nobody has anything to read there. */
bool kept_page(const struct kd_message *m)
{
    if (m->word[0] != 0) return false; /* the cookie: of no container */
    (void)kd_object_fail(presence, 0, 1, EACCES);
    return true;
}

int kept_attach(uint64_t id, uint64_t process, uint32_t rights)
{
    struct kept *k = kept_of(id);
    if (!k || k->state != KEPT_SERVES) return -EOWNERDEAD;
    if (rights & ~k->rights) return -EACCES;
    int r = presence_make();
    if (r == 0) r = (int)kd_space_attach(process, presence, KD_RIGHT_READ);
    for (unsigned i = 0; r == 0 && i < k->segments; i++)
        r = (int)kd_space_attach(process, k->object[i], rights);
    return r;
}

bool kept_attached(uint64_t process)
{
    return presence >= 0 && kd_space_rights(process, presence) > 0;
}

void kept_detach(uint64_t id, uint64_t process)
{
    struct kept *k = kept_of(id);
    for (unsigned i = 0; k && k->object[0] >= 0 && i < k->segments; i++)
        (void)kd_space_detach(process, k->object[i]);
}

int kept_object(uint64_t id, uint64_t number, uint64_t *pages)
{
    const struct kept *k = kept_of(id);
    if (!k || number >= k->segments) return -ENOENT;
    *pages = k->pages[number];
    return k->object[number];
}

/* admit opens the container for a client that waits, and answers it. The entry SERVES. */
static int admit(struct kept *k, const struct wait *w)
{
    struct container *c = container_by_id(k->id);
    int r = c ? container_opened(c, w->process, w->rights, &w->by) : -ENOENT;
    if (r < 0) return r;
    k->due_us = 0;
    struct wire_opened opened = {.container = k->id, .base = 0, .pages = k->pages[0],
                                 .created = w->created, .kept = k->segments};
    memcpy(opened.form, c->form, sizeof(opened.form));
    struct store_container d;
    if (store_container_get(server.store, k->id, &d) == 0) opened.base = d.base;
    opened.root_address = opened.base;
    struct kd_message reply = {.handle = k->port, .handle_rights = KD_RIGHT_CALL, .data = &opened,
                               .data_bytes = sizeof(opened)};
    r = (int)kd_reply(w->token, &reply);
    if (r < 0) container_closed(c, w->process);
    return r == -ESRCH ? 0 : r;
}

/* stands_on: does this process, or a representative that it stands on, wait for the container? Then
 * its own representative would wait for itself. Each entry is looked at once: `seen`. */
static bool stands_on(uint64_t process, uint64_t id, uint32_t *seen)
{
    _Static_assert(KEPT_MAX <= 32, "a bit for each");
    kept_each(k) {
        uint32_t bit = 1u << (k - kept);
        if (k->state == KEPT_NONE || !process || *seen & bit) continue;
        struct container *c = container_by_id(k->id);
        bool uses = c && container_has_opening(c, process);
        waits_each(w) uses |= w->token && w->process == process && w->id == k->id;
        if (!uses) continue;
        *seen |= bit;
        if (k->id == id || stands_on(k->process, id, seen)) return true;
    }
    return false;
}

static bool circle(uint64_t process, uint64_t id)
{
    const struct kept *target = kept_of(id);
    kept_each(k) {
        if (k->state == KEPT_NONE || k->process != process) continue;
        uint32_t seen = 0;
        if (k->id == id || (target && stands_on(target->process, k->id, &seen))) return true;
    }
    return false;
}

static int open_locked(const struct wait *how)
{
    struct kept *k = kept_of(how->id);
    struct wait *place = NULL;
    if (circle(how->process, how->id)) return -ELOOP;
    if (k && k->state == KEPT_SERVES) {
        int r = admit(k, how);
        if (r != -EOWNERDEAD) return r;
        end_begin(k); /* the object is gone: another life */
    }
    if (how->now) return -EINPROGRESS;
    waits_each(w) if (!w->token) place = w;
    if (server.stop_token || !place || (!k && !(k = kept_place(how->id)))) return -EAGAIN;
    *place = *how;
    if (k->state == KEPT_NONE) kept_start(k, how->id);
    return 0;
}

void kept_open(const struct kd_message *m, const struct wire_opened *o, const struct sources *by)
{
    const struct wire_open *how = m->buffer;
    struct wait w = {.token = m->token, .process = m->process, .id = o->container,
                     .created = (uint32_t)o->created, .now = how->now, .by = *by,
                     .rights = KD_RIGHT_READ | (how->flags & PS_WRITE ? KD_RIGHT_WRITE : 0)};
    server_lock();
    int r = open_locked(&w);
    if (r < 0) refuse(&w, r);
    decide_settle();
    server_unlock();
}

void kept_idle(uint64_t id)
{
    struct kept *k = kept_of(id);
    if (k && k->state == KEPT_SERVES) due_in(k, options.linger_ms);
}

/* ---- its life ---- */

/* kept_over notes that the program has ended, or never began. Who waited for this life hears why;
 * who came later has another one. */
static void kept_over(struct kept *k, int error)
{
    bool began = k->state != KEPT_STARTS;
    uint64_t us = now_us() - k->begun_us;
    if (k->port >= 0) KD1(KD_HANDLE_CLOSE, k->port);
    for (unsigned i = 0; i < k->segments; i++)
        if (k->object[i] >= 0) KD1(KD_HANDLE_CLOSE, k->object[i]);
    server.objects -= k->segments - 1;
    k->port = k->object[0] = -1;
    k->segments = 1;
    k->failures = began && us > options.quick_ms * 1000 ? 0 : k->failures + (k->state != KEPT_ENDS);
    k->state = KEPT_NONE;
    k->order = 0;
    k->begun_us = now_us();
    waits_each(w)
        if (!began && w->token && w->id == k->id) refuse(w, k->error ? k->error : error);
    if (waited_for(k->id)) kept_start(k, k->id);
    pthread_cond_broadcast(&server.changed);
}

int kept_end(uint64_t id)
{
    struct kept *k = kept_of(id);
    if (waited_for(id)) return -EBUSY;
    if (k) end_begin(k);
    return 0;
}

/* process_is: is this process the program that was started for k? The keeper makes one child for
 * each entry, and the kernel gives no process's number to another one. */
static int process_is(struct kept *k, uint64_t process, uint64_t parent)
{
    if (k->process) return k->process == process ? 0 : -EPERM;
    if (!keeper || parent != keeper) return -EPERM;
    kept_each(other)
        if (other->state != KEPT_NONE && other->process == process) return -EPERM;
    k->process = process;
    return 0;
}

void kept_hello(uint64_t process, uint64_t parent, uint64_t id, uint64_t key)
{
    struct kept *k = kept_keyed(id, key);
    if (k) (void)process_is(k, process, parent);
}

/* object_check: is it an object for this segment of the container, at its place? We attach it to
 * find out. -ECHILD: its program has died meanwhile, and it with that. */
static int object_check(struct kept *k, unsigned segment, int object)
{
    struct store_container d;
    struct kd_space_info info = {0};
    int r = store_container_get(server.store, k->id, &d);
    if (r == 0 && segment >= d.segment_count) r = -EINVAL;
    if (r < 0) return r;
    uint64_t base = d.segments[segment].address, pages = d.segments[segment].pages;
    r = (int)kd_space_attach((uint64_t)getpid(), object, KD_RIGHT_READ);
    if (r < 0) return r == -EOWNERDEAD ? -ECHILD : -EBADMSG;
    r = (int)KD2(KD_CONTAINER_INFO, base, &info);
    if (kd_space_detach((uint64_t)getpid(), object) < 0) return -ECHILD;
    if (r < 0 || info.base != base || info.pages > pages) return -EBADMSG;
    k->pages[segment] = info.pages;
    k->object[segment] = object;
    return 0;
}

static int serves(struct kept *k, const struct kd_message *m)
{
    int r = m->handle < 0 || k->port < 0 ? -EBADMSG : object_check(k, 0, m->handle);
    if (r < 0) {
        kill_now(k, r);
        return r;
    }
    k->rights = (uint32_t)m->word[3] & (KD_RIGHT_READ | KD_RIGHT_WRITE);
    k->token = m->token;
    k->state = KEPT_SERVES;
    k->due_us = 0;
    waits_each(w) {
        if (!w->token || w->id != k->id) continue;
        r = admit(k, w);
        if (r < 0) refuse(w, r);
        w->token = 0;
    }
    struct container *c = container_by_id(k->id);
    if (!c || c->opening_count == 0) kept_idle(k->id);
    return 1;
}

/* serves_more adds one more object, behind those that there are. */
static int serves_more(struct kept *k, const struct kd_message *m)
{
    unsigned all = 0;
    kept_each(each) all += each->state != KEPT_NONE ? each->segments - 1 : 0;
    if (m->handle < 0 || m->word[3] != k->segments || k->segments == STORE_SEGMENT_MAX)
        return -EINVAL;
    int r = all < MORE_MAX ? object_check(k, k->segments, m->handle) : -EMFILE;
    if (r < 0) return r;
    k->segments++;
    server.objects++;
    return 0;
}

/* serve_whose: the entry that the message is about, if its program, which is starting, sent it. */
static int serve_whose(const struct kd_message *m, uint64_t parent, struct kept **k)
{
    *k = kept_keyed(m->word[0], m->word[1]);
    if (!*k || (*k)->state != KEPT_STARTS || (*k)->killed) return -ESRCH;
    return process_is(*k, m->process, parent);
}

/* serve_place (WIRE_SERVE_PLACE): the container grows if it has no more than the segments before
 * this one. No lock: it may wait for a commit. */
static int serve_place(const struct kd_message *m, uint64_t parent, uint64_t place[2])
{
    struct store_op op = {.type = STORE_OP_GROW, .object = m->word[0]};
    struct store_container d;
    struct kept *k;
    for (;;) {
        server_lock();
        int r = serve_whose(m, parent, &k);
        if (r == 0) r = store_container_get(server.store, op.object, &d);
        server_unlock();
        if (r == 0 && m->word[3] > d.segment_count) r = -EINVAL;
        if (r == 0 && m->word[3] == d.segment_count) {
            r = commit_own(&op, 1);
            if (r == 0) continue;
        }
        if (r < 0) return r;
        place[0] = d.segments[m->word[3]].address;
        place[1] = d.segments[m->word[3]].pages;
        return 0;
    }
}

/* serve_handle: STORE_SERVE with a handle. 1: answered later. *taken: the handle is ours now. */
static int serve_handle(const struct kd_message *m, uint64_t parent, bool *taken)
{
    struct kept *k;
    int r = serve_whose(m, parent, &k);
    if (r < 0) return r;
    if (m->word[2] == WIRE_SERVE_PORT) {
        if (m->handle < 0 || k->port >= 0) r = -EINVAL;
        if (r == 0) k->port = m->handle;
    } else {
        r = m->word[2] == WIRE_SERVE_FIRST ? serves(k, m) : serves_more(k, m);
    }
    *taken = r >= 0;
    return r;
}

static int serve_request(const struct kd_message *m, uint64_t place[2], bool *taken)
{
    uint64_t parent = process_parent(m->process);
    if (m->word[2] == WIRE_SERVE_PLACE) return serve_place(m, parent, place);
    server_lock();
    int r = serve_handle(m, parent, taken);
    decide_settle();
    server_unlock();
    return r;
}

/* keeper_new: a new keeper knows of no program that runs: it shall end those it can. */
static void keeper_new(uint64_t process)
{
    keeper = process;
    keeper_token = 0;
    kept_each(k) {
        if (k->state == KEPT_NONE || k->order == WIRE_START) continue;
        if (!k->process) {
            kept_over(k, -EAGAIN);
            continue;
        }
        k->killed = false;
        kill_now(k, -EAGAIN);
        if (k->state == KEPT_SERVES) k->state = KEPT_ENDS;
    }
}

static int keeper_request(const struct kd_message *m)
{
    if (m->word[0] == 1) {
        long right = m->handle < 0 ? -1 : KD2(KD_HANDLE_COPY, m->handle, KD_RIGHT_PROCESSES);
        if (right < 0) return -EPERM;
        KD1(KD_HANDLE_CLOSE, right);
        keeper_new(m->process);
    }
    if (m->process != keeper) return -EPERM;
    keeper_token = m->token;
    keeper_tell();
    return 1;
}

bool kept_handle(const struct kd_message *m)
{
    return m->kind == STORE_SERVE || m->kind == STORE_KEEPER;
}

bool kept_request(const struct kd_message *m)
{
    struct kd_message reply = {.handle = -1};
    bool taken = false;
    if (!kept_handle(m)) return false;
    if (m->kind == STORE_SERVE) {
        reply.status = serve_request(m, reply.word, &taken);
    } else {
        server_lock();
        reply.status = keeper_request(m);
        server_unlock();
    }
    if (m->handle >= 0 && !taken) KD1(KD_HANDLE_CLOSE, m->handle);
    if (reply.status <= 0) (void)kd_reply(m->token, &reply);
    return true;
}

int kept_ended(const struct kd_message *m)
{
    int64_t status = (int64_t)m->word[2];
    server_lock();
    struct kept *k = m->process == keeper ? kept_keyed(m->word[0], m->word[1]) : NULL;
    if (k) kept_over(k, status < 0 ? -ENOEXEC : -ECHILD);
    server_unlock();
    return k ? 0 : -ESRCH;
}

/* ---- time ---- */

uint64_t kept_due_us(void)
{
    uint64_t due = 0;
    kept_each(k) {
        if (k->state == KEPT_NONE || !k->due_us || k->killed) continue;
        if (!due || k->due_us < due) due = k->due_us;
    }
    return due;
}

void kept_look(void)
{
    uint64_t due = kept_due_us(), now = due ? now_us() : 0;
    if (!due || now < due) return;
    kept_each(k) {
        if (k->state == KEPT_NONE || !k->due_us || now < k->due_us) continue;
        if (k->state == KEPT_SERVES)
            end_begin(k);
        else
            kill_now(k, -ETIMEDOUT);
    }
}

void kept_stop(void)
{
    uint64_t until = now_us() + 2 * KEPT_STOP_MS * 1000;
    waits_each(w) if (w->token) refuse(w, -EAGAIN);
    kept_each(k) if (k->state != KEPT_NONE) end_begin(k);
    for (;;) {
        bool any = false;
        kept_each(k) any |= k->state != KEPT_NONE;
        if (!any || !keeper || now_us() >= until) return;
        kept_look();
        server_wait(&server.changed, 20000);
    }
}
