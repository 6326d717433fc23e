/*
 * manager_store.c - what clients ask a store of a manager's own (manager_store.h), in the store
 * manager's protocol (store_protocol.h). All is asked and answered in one order (km_protocol).
 */
#include <errno.h>
#include <string.h>

#include "katydid/abi.h"
#include "manager_store_private.h"
#include "pstore.h"

enum { LIST_MOST = 64 };
static union { struct wire_opened opened; struct wire_entry entries[LIST_MOST];
               struct wire_stats stats; struct wire_name names[NAMES_MAX]; } out;

static void answer(struct km_message *m, uint64_t bytes)
{
    m->answer = &out;
    m->answer_bytes = bytes;
}

/* name_in returns the name that a message has, or NULL. */
static const char *name_in(const struct km_message *m)
{
    const char *name = m->data;
    return m->bytes == STORE_NAME_BYTES && memchr(name, 0, STORE_NAME_BYTES) ? name : NULL;
}

/* ---- containers ---- */

static int layout_agrees(const struct wire_open *made, const struct wire_open *asked)
{
    return !asked->bytes || (strcmp(made->type, asked->type) == 0 && made->bytes == asked->bytes &&
                             made->version == asked->version);
}

/* closed ends a scratch container that nobody has open any more. */
static void closed(struct container *c)
{
    if (front.is.scratch && c->opening_count == 0) front_end(c);
}

static int serve_open(struct km_message *m)
{
    struct wire_open *r = m->data;
    int e = 0, writes = r->flags & PS_WRITE;
    if (m->bytes != sizeof *r || !memchr(r->name, 0, sizeof r->name) || !r->name[0] ||
        !memchr(r->type, 0, sizeof r->type))
        return -EINVAL;
    struct container *c = front_named(r->name);
    int make = !c;
    if (c && r->flags & PS_EXCLUSIVE) return -EEXIST;
    if (!c && !(r->flags & PS_CREATE)) return -ENOENT;
    if (c && !layout_agrees(&c->made, r)) return -EMEDIUMTYPE;
    if (make) e = front_make(r, &c);
    if (e) return e;
    e = front_attach(c, m->process, writes != 0);
    if (e && make)
        front_end(c);
    else if (e)
        closed(c); /* what the program before had open has ended */
    if (e) return e;
    const struct named *root = front_name(c, "\1root");
    out.opened = (struct wire_opened){.container = c->id, .base = c->base, .pages = front.is.pages,
                                      .root_address = root ? root->address : 0,
                                      .created = (uint64_t)make,
                                      .form = {[WIRE_FORM_ENCODER] = KD_ENCODER_DIFF}};
    answer(m, sizeof out.opened);
    return 0;
}

static void process_gone(uint64_t process)
{
    for (int i = 0; i < CONTAINERS_MAX; i++) {
        struct container *c = front.containers[i];
        if (!c || !front_opening(c, process)) continue;
        front_left(c, process);
        closed(c);
    }
}

static int serve_delete(struct km_message *m)
{
    const char *name = name_in(m);
    struct container *c = name ? front_named(name) : NULL;
    const struct opening *mine = c ? front_opening(c, m->process) : NULL;
    if (!c) return name ? -ENOENT : -EINVAL;
    if (c->opening_count > (mine ? 1 : 0)) return -EBUSY;
    m->reply[0] = c->id;
    front_end(c);
    return 0;
}

static int serve_list(struct km_message *m)
{
    uint64_t room = m->word[1] && m->word[1] < LIST_MOST ? m->word[1] : LIST_MOST, filled = 0;
    m->reply[0] = 0;
    for (int i = 0; i < CONTAINERS_MAX; i++) m->reply[0] += front.containers[i] != NULL;
    for (uint64_t last = m->word[0]; filled < room;) {
        const struct container *next = NULL;
        for (int i = 0; i < CONTAINERS_MAX; i++)
            if (front.containers[i] && front.containers[i]->id > last &&
                (!next || front.containers[i]->id < next->id))
                next = front.containers[i];
        if (!next) break;
        struct wire_entry *e = &out.entries[filled++];
        *e = (struct wire_entry){.version = next->made.version, .bytes = next->made.bytes,
                                 .container = last = next->id, .base = next->base,
                                 .pages_max = front.is.pages};
        memcpy(e->name, next->made.name, sizeof e->name);
        memcpy(e->type, next->made.type, sizeof e->type);
        for (uint64_t page = 0; page < front.is.pages; page++)
            e->pages_used += next->owner[page] == USED;
    }
    answer(m, filled * sizeof out.entries[0]);
    return 0;
}

/* ---- what clients ask about a container that they have open ---- */

static int serve_named(struct km_message *m, struct container *c)
{
    const char *name = name_in(m);
    const struct named *n = name ? front_name(c, name) : NULL;
    if (!n) return name ? -ENOENT : -EINVAL;
    m->reply[0] = n->address;
    m->reply[1] = n->bytes;
    return 0;
}

static int serve_names(struct km_message *m, const struct container *c)
{
    for (unsigned i = 0; i < c->name_count; i++) {
        out.names[i] = (struct wire_name){.address = c->names[i].address,
                                          .bytes = c->names[i].bytes};
        memcpy(out.names[i].name, c->names[i].name, STORE_NAME_BYTES);
    }
    m->reply[0] = 0;
    answer(m, c->name_count * sizeof out.names[0]);
    return 0;
}

static int serve_next(struct km_message *m, const struct container *c)
{
    uint64_t page = m->word[1] ? (m->word[1] - c->base) / KM_PAGE_BYTES + 1 : 0, count = 0;
    while (page < front.is.pages && c->owner[page] != USED) page++;
    while (page + count < front.is.pages && c->owner[page + count] == USED) count++;
    m->reply[0] = count ? c->base + page * KM_PAGE_BYTES : 0;
    m->reply[1] = count;
    m->reply[2] = 0;
    return 0;
}

static int serve_open_container(struct km_message *m)
{
    struct container *c = front_by_id(m->word[0]);
    const struct opening *o = c ? front_opening(c, m->process) : NULL;
    if (!o) return c ? -EACCES : -ENOENT;
    switch (m->kind) {
    case STORE_CLOSE:
        front_detach(c, m->process, 1);
        closed(c);
        return 0;
    case STORE_LEASE:
        m->reply[1] = m->word[1];
        return o->writes ? front_lease(c, m->process, m->word[1], m->reply) : -EACCES;
    case STORE_NAMED: return serve_named(m, c);
    case STORE_NAMES: return serve_names(m, c);
    case STORE_NEXT: return serve_next(m, c);
    case STORE_SPACE: return -ENOENT; /* room hints are not kept */
    case STORE_FORM:
        return m->word[1] == WIRE_FORM_ENCODER && m->word[2] == KD_ENCODER_DIFF ? 0 : -ENOSYS;
    default: return -ENOSYS;
    }
}

static int serve_address(struct km_message *m)
{
    for (int i = 0; i < CONTAINERS_MAX; i++) {
        struct container *c = front.containers[i];
        uint64_t page = c ? (m->word[0] - c->base) / KM_PAGE_BYTES : front.is.pages;
        if (page >= front.is.pages || m->word[0] < c->base) continue;
        if (!front_opening(c, m->process)) return -EACCES;
        m->reply[0] = c->owner[page] == USED;
        if (m->kind == STORE_UNLEASE)
            front_unlease(c, m->process, m->word[0], m->word[1]);
        return 0;
    }
    return -ENOENT;
}

static int serve(struct km_message *m)
{
    switch (m->kind) {
    case STORE_HELLO:
        m->reply[0] = STORE_PROTOCOL_VERSION;
        return m->word[0] == STORE_PROTOCOL_VERSION ? 0 : -EPROTONOSUPPORT;
    case STORE_OPEN: return serve_open(m);
    case STORE_DELETE: return serve_delete(m);
    case STORE_LIST: return serve_list(m);
    case STORE_HELD:
    case STORE_UNLEASE: return serve_address(m);
    case STORE_ADVISE:
    case STORE_CHECKPOINT:
    case STORE_FLUSH: return 0; /* as durable as it ever will be */
    case STORE_STATS:
        out.stats = (struct wire_stats){.commits = front.commits};
        answer(m, sizeof out.stats);
        return 0;
    default: return serve_open_container(m);
    }
}

int km_store_serve(const struct km_store *s, int threads)
{
    static const struct km_protocol protocol = {serve, front_check, front_outcome, process_gone};
    if (!s->name || s->pages == 0 || s->pages > UINT32_MAX || front.is.name) return -EINVAL;
    front.is = *s;
    if (s->ops) front.ops = *s->ops;
    front.ops.commit = front_commit;
    int e = km_protocol(s->name, &protocol);
    if (!e && !front.ops.clean) e = km_credit(NULL, KM_CREDITS_CLOSED);
    return e ? e : km_serve(threads);
}
