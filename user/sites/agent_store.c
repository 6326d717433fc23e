/*
 * agent_store.c - requests of the site to the store, in its name: one after the other, by the
 * handle of the directory that is exported to it (`store export`). What the site has open, this
 * process has open; leases of space are this process's, and end with it.
 *
 *   AK1  A CLOSE waits for GETs and COMMITs of its container, which may be as long as another home
 *        likes, and an OPEN waits for the CLOSE of its container. Both are put behind what else
 *        the site asks.
 *   AK2  A site gets space and names, and changes them by its COMMITs, of what it has open itself.
 *        This process has more open: the notes (agent_outcome.c), where no limit of what was
 *        exported counts. By this file's thread, which alone opens and closes.
 */
#include "agent.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "katydid/call.h"
#include "pstore.h"
#include "site.h"

enum { ASKS_MAX = 64, WAITS_MAX = 32, ASK_BYTES_MAX = 8192 }; /* a store takes less, and types */

/* A request, with its data behind it. */
struct ask {
    struct ask *next;
    uint64_t container;                 /* that it was put behind for (AK1); 0: it was not */
    struct site_message m;
    _Alignas(8) uint8_t data[];
};
static struct ask *first, **last = &first;
static unsigned count, waits;           /* waits: threads that wait for a commit */
static char exports[WIRE_PATH_BYTES];   /* the directory of what the site may open */
static const char *site_name;
static _Alignas(8) uint8_t answer_data[KD_DATA_MAX / 2];

int store_begin(const char *site)
{
    const char *name = getenv("PS_STORE");
    agent.store = (int)kd_call3(KD_NAME_FIND, (long)(name && *name ? name : "store"), 0, 0);
    snprintf(exports, sizeof exports, "exports/%s", site);
    site_name = site;
    agent.root = -1;
    return agent.store < 0 ? agent.store : 0;
}

const char *store_exports(void) { return exports; }

/* What is exported may come while the session lasts, and be taken back. */
static bool root_have(void)
{
    if (agent.root >= 0 && kd_call3(KD_PORT_SAME, agent.root, agent.store, 0) < 0) {
        ps_drop(agent.root);
        agent.root = -1;
    }
    if (agent.root < 0) agent.root = ps_handle(exports, PS_MAY_READ | PS_MAY_WRITE);
    if (agent.root == -EOWNERDEAD || agent.root == -ENOTCONN) /* that is not "not exported" */
        agent_ends("the store has ended");
    return agent.root >= 0;
}

/* Locked. */
static void ask_add(struct ask *a)
{
    a->next = NULL;
    *last = a;
    last = &a->next;
    count++;
}

void store_ask(const struct site_message *m)
{
    int error = m->bytes > ASK_BYTES_MAX ? -E2BIG : -EAGAIN;
    struct ask *a = error == -E2BIG ? NULL : malloc(sizeof *a + m->bytes);
    agent_lock();
    if (!a || count == ASKS_MAX) {
        free(a);
        agent_send(&(struct site_message){.kind = SITE_TOLD, .answer_to = m->number,
                                          .error = error});
    } else {
        a->m = *m;
        a->container = 0;
        memcpy(a->data, m->data, m->bytes);
        ask_add(a);
        agent_changed(AGENT_ASKS);
    }
    agent_unlock();
}

/* ---- the store ---- */

static long call(int by, struct site_message *m, const void *data, size_t bytes)
{
    struct kd_message k = {.kind = m->request, .data = data, .data_bytes = bytes, .handle = -1,
                           .buffer = answer_data, .buffer_bytes = sizeof answer_data};
    memcpy(k.word, m->word, sizeof k.word);
    long r = kd_call3(KD_PORT_CALL, by, (long)&k, 0);
    if (r == -EOWNERDEAD) agent_ends("the store has ended");
    if (r < 0) return r;
    if (k.handle >= 0) kd_call3(KD_HANDLE_CLOSE, k.handle, 0, 0);
    memcpy(m->word, k.word, sizeof m->word);
    m->data = answer_data;
    m->bytes = k.buffer_bytes;
    return k.status;
}

struct container *container_of_id(uint64_t id)
{
    for (struct container *c = agent.containers; id && c < agent.containers + CONTAINERS_MAX; c++)
        if (c->id == id) return c;
    return NULL;
}

static void segment_note(struct site_message *told, struct container *c, uint64_t base,
                         uint64_t pages)
{
    for (unsigned i = 0; i < c->segments; i++)
        if (c->segment[i].base == base) return;
    if (c->segments == SITE_SEGMENTS_MAX) return;
    c->segment[c->segments++] = (struct site_segment){c->id, base, pages};
    told->segment[told->count++] = c->segment[c->segments - 1];
}

/* What lies at an address that the store has named: a segment that the site has not heard of yet.
 */
static void segment_learn(struct site_message *told, uint64_t address)
{
    struct kd_space_info info;
    if (address < KD_STORE_BASE || address >= KD_STORE_END) return;
    if (kd_call3(KD_CONTAINER_INFO, (long)address, (long)&info, 0) != 0) return;
    struct container *c = container_of_id(STORE_COOKIE_CONTAINER(info.cookie));
    if (c) segment_note(told, c, info.base, info.pages);
}

void container_let(struct container *c)
{
    if (!--c->busy && c->closes) agent_changed(AGENT_ASKS);
}

static void close_container(struct container *c)
{
    struct site_message m = {.request = STORE_CLOSE, .word = {c->id}};
    for (unsigned i = 0; i < c->segments; i++) pages_release(&c->segment[i]);
    convert_free(c->types);
    *c = (struct container){0};
    agent_unlock();
    (void)call(agent.store, &m, NULL, 0);
    agent_lock();
}

/* Pages are what a site caches: whoever locks or logs in another way is not for it. */
static int opened_refuse(const struct wire_opened *o)
{
    if (o->kept || o->form[WIRE_FORM_LOCKING]) return -EOPNOTSUPP;
    return o->form[WIRE_FORM_ENCODER] == KD_ENCODER_RANGES ? -EOPNOTSUPP : 0;
}

/* What the site declares fits what is known here. -EPROTOTYPE: `refused` does not. */
static int types_check(struct convert *declared, uint64_t id, uint64_t refused[SITE_WORDS])
{
    struct site_message m = {.request = STORE_NAMED, .word = {id}};
    char name[STORE_NAME_BYTES] = SITE_TYPES_NAME;
    agent_lock();
    const struct container *c = container_of_id(id);
    bool same = !c || convert_same(c->types, declared);
    agent_unlock();
    if (c || !declared) return same ? 0 : -EBUSY;
    long r = call(agent.store, &m, name, sizeof name);
    if (r < 0 && r != -ENOENT) return (int)r;
    return convert_known(declared, r < 0 ? 0 : m.word[0], (char *)refused);
}

/* Containers are made in what was exported, by that grant's right, and not beside it. */
static bool lies_beside(const struct wire_open *open, const char *behind, size_t bytes)
{
    const char *path = open->name[0] ? open->name : behind;
    return !memchr(path, '/', strnlen(path, open->name[0] ? sizeof open->name : bytes));
}

static int open_container(struct site_message *told, struct ask *a)
{
    struct wire_opened o;
    struct wire_open open;
    struct convert *declared;
    size_t asked = a->m.bytes;
    uint64_t refused[SITE_WORDS] = {0};
    if (asked < sizeof open) return -EINVAL;
    if (!root_have()) return -EACCES;
    int error = convert_declared(a->data, &asked, &declared);
    if (error) return error;
    memcpy(&open, a->data, sizeof open);
    bool beside = lies_beside(&open, (char *)a->data + sizeof open, asked - sizeof open);
    if (beside) open.flags &= ~(uint32_t)PS_CREATE;
    memcpy(a->data, &open, sizeof open);
    long r = beside && open.flags & PS_EXCLUSIVE ? -EACCES
                                                 : call(agent.root, told, a->data, asked);
    if (r < 0 || told->bytes != sizeof o) {
        convert_free(declared);
        return r < 0 ? (int)r : -EPROTO;
    }
    memcpy(&o, told->data, sizeof o);
    error = opened_refuse(&o);
    told->word[7] = 0;
    if (!error && open.flags & PS_WRITE) told->word[7] = outcome_session(site_name);
    if (!error) error = types_check(declared, o.container, refused);
    agent_lock();
    struct container *c = container_of_id(o.container);
    bool again = c != NULL;
    if (c && c->closes) {
        a->container = c->id;
        error = -EAGAIN;
    }
    for (struct container *at = agent.containers;
         !error && !c && at < agent.containers + CONTAINERS_MAX; at++)
        if (!at->id) c = at;
    if (!error && !c) error = -EMFILE;
    if (!error) {
        c->id = o.container;
        c->writes |= (open.flags & PS_WRITE) != 0;
        segment_note(told, c, o.base, o.pages);
    }
    if (!error && !again) {
        c->types = declared;
        declared = NULL;
    }
    convert_free(declared);
    agent_unlock();
    if (error || again) { /* the site is one opener */
        struct site_message m = {.request = STORE_CLOSE, .word = {o.container}};
        size_t bytes = told->bytes;
        (void)call(agent.store, &m, NULL, 0);
        memcpy(answer_data, &o, bytes);
        if (error) memcpy(told->word, refused, sizeof refused);
        if (error) return error;
    }
    for (unsigned n = 1; n < SITE_SEGMENTS_MAX; n++) {
        struct site_message m = {.request = STORE_SEGMENT, .word = {o.container, n}};
        if (call(agent.store, &m, NULL, 0) != 0) break;
        agent_lock();
        segment_note(told, c, m.word[0], m.word[1]);
        agent_unlock();
    }
    memcpy(answer_data, &o, sizeof o);
    told->data = answer_data;
    told->bytes = sizeof o;
    told->count = 0;
    agent_lock();
    for (unsigned i = 0; i < c->segments; i++) told->segment[told->count++] = c->segment[i];
    agent_unlock();
    return 0;
}

static int close_asked(struct ask *a)
{
    agent_lock();
    struct container *c = container_of_id(a->m.word[0]);
    if (c && c->busy) {
        c->closes = true;
        a->container = c->id;
    } else if (c) {
        close_container(c);
    }
    agent_unlock();
    return c ? 0 : -ENOENT;
}

static int request(struct site_message *told, struct ask *a)
{
    int by = agent.store;
    switch (told->request) {
    case STORE_OPEN: return open_container(told, a);
    case STORE_CLOSE: return close_asked(a);
    case STORE_OUTCOME: return outcome_look(told->word);
    case SITE_PEER: return parts_peer(told->word, a->data, a->m.bytes);
    case SITE_NAME: return parts_name(told->word);
    case STORE_LIST:
    case STORE_LOOK:
    case STORE_ENTRIES:
        if (!root_have()) return -EACCES;
        by = agent.root;
        break;
    case STORE_LEASE:
    case STORE_SPACE:
    case STORE_NAMED:
    case STORE_NAMES:
    case STORE_NEXT:
    case STORE_SEGMENT:
        if (!container_of_id(told->word[0])) return -EACCES;                    /* AK2 */
        break;
    case STORE_UNLEASE:
    case STORE_HELD:
        if (!container_at(told->word[0])) return -EACCES;
        break;
    case STORE_HELLO:
    case STORE_STATS:
    case STORE_FLUSH:
    case STORE_WATCH: break;
    default: return -EOPNOTSUPP;
    }
    int status = (int)call(by, told, a->data, a->m.bytes);
    agent_lock();
    if (!status && told->request != STORE_HELLO && told->request != STORE_HELD)
        segment_learn(told, told->word[0]);
    agent_unlock();
    return status;
}

/* One that waits for a commit has a thread of its own. */
static void *wait_work(void *ask)
{
    struct ask *a = ask;
    struct kd_message k = {.kind = STORE_WAIT, .word = {a->m.word[0]}, .handle = -1};
    long r = kd_call3(KD_PORT_CALL, agent.store, (long)&k, 0);
    if (r == -EOWNERDEAD) agent_ends("the store has ended");
    agent_lock();
    agent_send(&(struct site_message){.kind = SITE_TOLD, .answer_to = a->m.number,
                                      .error = r < 0 ? (int)r : k.status});
    waits--;
    agent_unlock();
    free(a);
    return NULL;
}

/* Is it such a one? Locked. */
static bool wait_begins(struct ask *a)
{
    if (a->m.request != STORE_WAIT || waits == WAITS_MAX) return false;
    waits++;
    agent_start(wait_work, a);
    return true;
}

/* Takes the first that need not wait for its container (AK1); NULL: there is none. Locked. */
static struct ask *ask_take(void)
{
    for (struct ask **at = &first, *a; (a = *at); at = &a->next) {
        const struct container *c = container_of_id(a->container);
        if (c && (a->m.request == STORE_CLOSE ? c->busy != 0 : c->closes)) continue;
        *at = a->next;
        if (!a->next) last = at;
        count--;
        return a;
    }
    return NULL;
}

void *store_work(void *unused)
{
    for (struct ask *a;;) {
        agent_lock();
        while (!(a = ask_take())) agent_wait(AGENT_ASKS);
        bool waits_now = wait_begins(a);
        agent_unlock();
        if (waits_now) continue;
        struct site_message told = {.kind = SITE_TOLD, .answer_to = a->m.number,
                                    .request = a->m.request};
        memcpy(told.word, a->m.word, sizeof told.word);
        a->container = 0;
        told.error = request(&told, a);
        if (told.error < 0) told.bytes = 0;
        agent_lock();
        if (a->container)
            ask_add(a);
        else
            agent_send(&told);
        agent_unlock();
        if (!a->container) free(a);
    }
    return unused;
}
