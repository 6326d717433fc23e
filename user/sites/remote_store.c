/*
 * remote_store.c - programs at this site speak the store's protocol with `remote`, which passes it
 * on to the home, and has an object of the kernel's for each segment that is open.
 *
 * A container is open at the home once, for the whole site, from its first opening here to its last
 * close; leases of space are the site's so long. What is not in `passed` cannot be asked of another
 * site's store (-EOPNOTSUPP).
 *
 * Invariants
 *   RS1  No CLOSE goes home while an OPEN is under way, for that may be of the same container: the
 *        home would close it behind the answer, of which a program here has it open.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "katydid/call.h"
#include "remote.h"
#include "site.h"
#include "split.h"
#include "split_protocol.h"

_Static_assert((int)SPLIT_OPEN > (int)SITE_NAME && (int)SITE_PEER > (int)STORE_SNAPSHOT &&
                   (int)STORE_SNAPSHOT > (int)REMOTE_LOOK,
               "each request has a number of its own");

/* A request that the home has not answered yet. */
struct request {
    uint64_t number, token, process, container;
    uint64_t word1;                     /* SITE_PEER: of the answer */
    uint32_t kind;
    bool writes, updates;
};
static struct request requests[REQUESTS_MAX];
static struct opening nobody;

/* ---- what is open ---- */

struct container *container_of_id(uint64_t id)
{
    for (struct container *c = remote.containers; id && c < remote.containers + CONTAINERS_MAX; c++)
        if (c->id == id) return c;
    return NULL;
}

struct container *container_at(uint64_t address, struct segment **segment)
{
    for (struct container *c = remote.containers; c < remote.containers + CONTAINERS_MAX; c++)
        for (unsigned i = 0; c->id && i < c->segments; i++) {
            struct segment *s = &c->segment[i];
            if (address < s->base || address >= s->base + s->pages * KD_PAGE_BYTES) continue;
            *segment = s;
            return c;
        }
    return NULL;
}

struct opening *opening_of(uint64_t process, const struct container *c)
{
    for (struct opening *o = remote.openings; o < remote.openings + OPENINGS_MAX; o++)
        if (o->times && o->process == process && o->container == c) return o;
    return NULL;
}

static bool is_open(const struct container *c)
{
    for (struct opening *o = remote.openings; o < remote.openings + OPENINGS_MAX; o++)
        if (o->times && o->container == c) return true;
    return false;
}

/* False: nobody waits for it any more. */
static bool answer(const struct request *r, int status, const struct site_message *m)
{
    struct kd_message reply = {.handle = -1, .status = status};
    if (m) {
        memcpy(reply.word, m->word, sizeof reply.word);
        reply.data = m->data;
        reply.data_bytes = m->bytes;
    }
    return kd_call3(KD_PORT_REPLY, (long)r->token, (long)&reply, 0) != -ESRCH;
}

/* ---- requests to the home ---- */

static struct request *request_free(void)
{
    for (struct request *r = requests; r < requests + REQUESTS_MAX; r++)
        if (!r->number) return r;
    return NULL;
}

static void ask(struct request *r, uint32_t kind, const uint64_t *word, const void *data,
                uint64_t bytes)
{
    struct site_message m = {.kind = SITE_ASK, .number = ++remote.number, .request = kind,
                             .data = data, .bytes = bytes};
    r->number = m.number;
    r->kind = kind;
    memcpy(m.word, word, sizeof m.word);
    remote_send(&m);
}

int store_home_ask(uint32_t kind, uint64_t what, const void *data, size_t bytes, uint64_t token,
                   uint64_t word1)
{
    uint64_t word[SITE_WORDS] = {0, what};
    struct request *r = request_free();
    if (!r) return -EAGAIN;
    *r = (struct request){.token = token, .word1 = word1};
    ask(r, kind, word, data, bytes);
    return 0;
}

/* ---- objects of the kernel ---- */

static int segment_open(struct container *c, uint64_t base, uint64_t pages)
{
    for (unsigned i = 0; i < c->segments; i++)
        if (c->segment[i].base == base) return 0;
    if (c->segments == SITE_SEGMENTS_MAX) return -EMFILE;
    uint64_t zone = wire_zone_base(remote.zone); /* nobody else's addresses */
    if (!wire_zone_has(remote.zone, base) ||
        pages > (wire_zone_bytes(remote.zone) - (base - zone)) / KD_PAGE_BYTES)
        return -EPROTO;
    struct kd_object_create create = {
        .port = remote.port, .commit_port = remote.port, .base = base, .pages = pages,
        .cookie = c->id << 4 | c->segments, .name = "remote",
        .flags = KD_OBJECT_TRANSACTIONAL | KD_OBJECT_VERSIONS};
    long object = kd_call3(KD_OBJECT_CREATE, (long)&create, 0, 0);
    if (object < 0) return (int)object;
    c->segment[c->segments++] = (struct segment){(int)object, base, pages};
    return 0;
}

static int attach(const struct opening *o, const struct segment *s)
{
    return (int)kd_call3(KD_SPACE_ATTACH, (long)o->process, s->object,
                         o->writes ? KD_RIGHT_READ | KD_RIGHT_WRITE : KD_RIGHT_READ);
}

/* Segments that the home has told of: for all that have their container open. */
static int segments_open(const struct site_message *m)
{
    int error = 0;
    for (uint32_t i = 0; !error && i < m->count; i++) {
        struct container *c = container_of_id(m->segment[i].container);
        unsigned before = c ? c->segments : 0;
        if (!c) continue;
        error = segment_open(c, m->segment[i].base, m->segment[i].pages);
        for (struct opening *o = remote.openings; c->segments > before; o++) {
            if (o == remote.openings + OPENINGS_MAX) break;
            if (o->times && o->container == c) (void)attach(o, &c->segment[before]);
        }
    }
    return error;
}

bool store_tell(uint32_t kind, uint64_t of)
{
    uint64_t word[SITE_WORDS] = {of};
    struct request *r = request_free();
    if (!r) return false;
    *r = (struct request){.token = 0};
    ask(r, kind, word, NULL, 0);
    return true;
}

static bool container_end(struct container *c)
{
    if (!store_tell(STORE_CLOSE, c->id)) return false;
    pages_closed(c);
    for (unsigned i = 0; i < c->segments; i++)
        kd_call3(KD_OBJECT_DESTROY, c->segment[i].object, 0, 0);
    *c = (struct container){0};
    return true;
}

/* Containers that nobody has open are closed at home: now (RS1), or when a request is answered. */
static bool close_due;
static void containers_end(void)
{
    for (struct request *r = requests; r < requests + REQUESTS_MAX; r++)
        if (r->number && r->kind == STORE_OPEN) return;
    for (struct container *c = remote.containers; c < remote.containers + CONTAINERS_MAX; c++) {
        if (!c->id || is_open(c)) continue;
        if (!container_end(c)) return;
    }
    close_due = false;
}

static void opening_close(struct opening *o)
{
    const struct container *c = o->container;
    if (--o->times) return;
    for (unsigned i = 0; i < c->segments; i++)
        kd_call3(KD_SPACE_DETACH, (long)o->process, c->segment[i].object, 0);
    *o = nobody;
    close_due = true;
    containers_end();
}

static int opening_make(uint64_t process, struct container *c, bool writes)
{
    struct opening *o = opening_of(process, c);
    for (struct opening *at = remote.openings; !o && at < remote.openings + OPENINGS_MAX; at++)
        if (!at->times) o = at;
    if (!o) return -EMFILE;
    *o = (struct opening){process, c, o->times + 1, o->writes || writes};
    int error = 0;
    for (unsigned i = 0; !error && i < c->segments; i++) error = attach(o, &c->segment[i]);
    if (error) opening_close(o);
    return error;
}

/* The home has opened it: so it is open here. */
static int opened(const struct request *r, const struct site_message *m)
{
    struct wire_opened o;
    if (m->bytes != sizeof o || m->count == 0) return -EPROTO;
    memcpy(&o, m->data, sizeof o);
    struct container *c = container_of_id(o.container);
    for (struct container *at = remote.containers; !c && at < remote.containers + CONTAINERS_MAX;
         at++)
        if (!at->id) c = at;
    if (!c || o.container == 0 || o.container >> 59) return -EMFILE;
    c->id = o.container;
    c->updates |= r->updates;
    close_due = true;                   /* should it fail */
    int error = 0;
    for (uint32_t i = 0; !error && i < m->count; i++)
        error = m->segment[i].container != o.container
                    ? -EPROTO
                    : segment_open(c, m->segment[i].base, m->segment[i].pages);
    if (!error) error = opening_make(r->process, c, r->writes);
    return error;
}

/* A call here waits for this answer. */
static void request_told(const struct request *asked, const struct site_message *m)
{
    struct site_message told = *m;
    int error = m->error;
    if (asked->kind == SITE_PEER) {
        told.word[1] = asked->word1;
        answer(asked, error, &told);
        return;
    }
    if (!error)
        error = asked->kind == STORE_OPEN   ? opened(asked, m)
                : asked->kind == SPLIT_OPEN ? split_opened(asked->process, m->word[0])
                                            : segments_open(m);
    if (!answer(asked, error, m) && !error && asked->kind == SPLIT_OPEN) split_close(m->word[0]);
}

void store_told(const struct site_message *m)
{
    for (struct request *r = requests; r < requests + REQUESTS_MAX; r++) {
        if (!m->answer_to || r->number != m->answer_to) continue;
        struct request asked = *r;
        *r = (struct request){0};
        if (asked.kind == STORE_WAIT) watch_told(asked.number);
        if (asked.kind == SITE_NAME) parts_named(m->error, m->word);
        if (asked.token) request_told(&asked, m);
        if (close_due) containers_end();
        splits_end();
        return;
    }
}

/* ---- what programs ask ---- */

enum { OF_NONE, OF_READER, OF_WRITER };  /* what word0, a container, is to be open for */
static const struct { uint32_t kind; int open; } passed[] = {
    {STORE_HELLO, OF_NONE},   {STORE_OPEN, OF_NONE},     {STORE_LIST, OF_NONE},
    {STORE_LOOK, OF_NONE},    {STORE_ENTRIES, OF_NONE},  {STORE_STATS, OF_NONE},
    {STORE_FLUSH, OF_NONE},   {STORE_LEASE, OF_WRITER},  {STORE_SPACE, OF_WRITER},
    {STORE_NAMED, OF_READER}, {STORE_NAMES, OF_READER},  {STORE_NEXT, OF_READER},
    {STORE_SEGMENT, OF_READER}, {STORE_OUTCOME, OF_NONE},
};

static int close_asked(const struct kd_message *m)
{
    struct container *c = container_of_id(m->word[0]);
    struct opening *o = c ? opening_of(m->process, c) : NULL;
    if (!o) return -EACCES;
    opening_close(o);
    return 0;
}

/* By the address of a page: those are the site's, whichever program asks. */
static int address_asked(const struct kd_message *m)
{
    struct segment *s;
    struct container *c = container_at(m->word[0], &s);
    const struct opening *o = c ? opening_of(m->process, c) : NULL;
    if (!o) return -EACCES;
    return m->kind != STORE_UNLEASE || o->writes ? 0 : -EACCES;
}

int store_pass(const struct kd_message *m)
{
    uint64_t word[SITE_WORDS];
    memcpy(word, m->word, sizeof word);
    struct request *r = request_free();
    if (!r) return -EAGAIN;
    *r = (struct request){.token = m->token, .process = m->process, .kind = m->kind};
    if (m->kind == STORE_HELLO) word[1] = word[2] = 0;
    if (m->kind == STORE_OPEN) {
        struct wire_open open;
        if (m->buffer_bytes < sizeof open) return -EINVAL;
        memcpy(&open, m->buffer, sizeof open);
        r->writes = open.flags & 1 << 2;
        r->updates = open.flags & PS_UPDATES;
        open.flags &= ~(uint32_t)PS_UPDATES;     /* a matter of this site's */
        memcpy(m->buffer, &open, sizeof open);
    }
    ask(r, m->kind, word, m->buffer, m->buffer_bytes);
    return 1;
}

/* 1: the home answers. */
static int asked(const struct kd_message *m)
{
    if (m->kind == STORE_CLOSE) return close_asked(m);
    if (m->kind == STORE_ADVISE) return 0; /* a hint */
    if (m->kind == STORE_SNAPSHOT) return snapshot_asked(m);
    if (m->kind >= SPLIT_OPEN && m->kind <= SPLIT_CLOSE) {
        int error = split_asked(m);
        return error || m->kind == SPLIT_CLOSE ? error : store_pass(m);
    }
    if (m->kind == STORE_WATCH || m->kind == STORE_WAIT) {
        struct kd_message own = *m;
        return watch_asked(&own);
    }
    if (m->kind == STORE_UNLEASE || m->kind == STORE_HELD) {
        int error = address_asked(m);
        return error ? error : store_pass(m);
    }
    for (unsigned i = 0; i < sizeof passed / sizeof *passed; i++) {
        if (passed[i].kind != m->kind) continue;
        const struct container *c = passed[i].open ? container_of_id(m->word[0]) : NULL;
        const struct opening *o = c ? opening_of(m->process, c) : NULL;
        if (passed[i].open && (!o || (passed[i].open == OF_WRITER && !o->writes))) return -EACCES;
        return store_pass(m);
    }
    return -EOPNOTSUPP;
}

static void counts_told(const struct kd_message *m)
{
    const uint64_t *n = remote.counts;
    const struct site_message told = {
        .word = {n[SITE_GET], n[SITE_GRANT], n[SITE_CALL], n[SITE_GONE],
                 n[SITE_COMMIT] + n[SITE_DECIDE],
                 n[SITE_DONE] + n[SITE_REFUSED] + n[SITE_VOTED] + n[SITE_APPLIED], n[SITE_ASK],
                 n[SITE_DENIED]}};
    answer(&(struct request){.token = m->token}, 0, &told);
}

/* looked_at says what is here of the home, and what went to and fro for it. */
static void looked_at(const struct kd_message *m)
{
    const uint64_t *n = remote.counts;
    uint64_t cached = 0, writable = 0, waits = 0;
    for (size_t i = 0; i < remote.pages.room; i++) {
        const struct site_page *p = &remote.pages.at[i];
        cached += p->page && p->right != SITE_NO;
        writable += p->page && p->right == SITE_EXCLUSIVE;
        waits += p->page && p->asked;
    }
    const struct site_message told = {
        .word = {cached, writable, waits, n[SITE_GET], n[SITE_CALL], n[SITE_GONE], n[SITE_DENIED],
                 n[SITE_COMMIT]}};
    answer(&(struct request){.token = m->token}, 0, &told);
}

static void snapshots_told(const struct kd_message *m)
{
    struct site_message counted = {0};
    snapshots_counted(counted.word);
    answer(&(struct request){.token = m->token}, 0, &counted);
}

static void pages_told(const struct kd_message *m)
{
    answer(&(struct request){.token = m->token}, 0,
           &(struct site_message){.word = {remote.came}});
}

/* Who leads and does not wait any more has no name for what has begun. */
static void part_asked(const struct kd_message *m)
{
    struct kd_message own = *m;
    int status = snapshot_part(&own);
    if (status > 0) return;
    bool told = answer(&(struct request){.token = m->token}, status,
                       &(struct site_message){.word = {own.word[0]}});
    if (told || status || m->kind != REMOTE_SNAP) return;
    own.kind = REMOTE_DROP;
    (void)snapshot_part(&own);
}

void store_asked(const struct kd_message *m)
{
    static void (*const looks[])(const struct kd_message *) = {counts_told, looked_at,
                                                               snapshots_told, pages_told};
    uint32_t look = m->kind - REMOTE_COUNTS;
    bool part = m->kind >= REMOTE_SNAP && m->kind <= REMOTE_DROP;
    remote_lock();
    int status = part || look < sizeof looks / sizeof *looks ? 1 : asked(m);
    if (part)
        part_asked(m);
    else if (look < sizeof looks / sizeof *looks)
        looks[look](m);
    else if (status <= 0)
        answer(&(struct request){.token = m->token}, status, NULL);
    remote_unlock();
}

void store_client_gone(uint64_t process)
{
    remote_lock();
    split_client_gone(process);
    for (struct opening *o = remote.openings; o < remote.openings + OPENINGS_MAX; o++)
        if (o->times && o->process == process) {
            o->times = 1;
            opening_close(o);
        }
    watches_end(process);
    remote_unlock();
}
