/*
 * main.c - volatile: a store whose containers are in memory alone (managers.md).
 *
 *     volatile &                      the store "volatile", containers of up to 64 MiB each
 *     volatile --scratch mine 16 &    the store "mine", 16 MiB each; each ends with its last user
 *
 * It speaks the store manager's protocol (store_protocol.h), so ps_connect("volatile") or
 * PS_STORE=volatile is all that a program has to say. Transactions are isolated and atomic,
 * snapshots work; a commit writes nothing anywhere. One thread serves all, in one order.
 */
#include <stdio.h>

#include "pstore.h"
#include "store.h"

enum { DEFAULT_MIB = 64, MIB_MAX = 4096, DIFF_BYTES = 64 << 10, LIST_MOST = 64 };
int port = -1;
static int scratch;
static uint64_t last_csn, commits;
static union { uint64_t words[KD_DATA_MAX / 8]; struct wire_open open;
               char name[STORE_NAME_BYTES]; } in;
static union { struct wire_opened opened; struct wire_entry entries[LIST_MOST];
               struct wire_stats stats; struct wire_name names[NAMES_MAX]; } out;

/* ---- containers ---- */

static int layout_agrees(const struct wire_open *made, const struct wire_open *asked)
{
    return !asked->bytes || (strcmp(made->type, asked->type) == 0 && made->bytes == asked->bytes &&
                             made->version == asked->version);
}

static int serve_open(const struct kd_message *m, struct kd_message *reply)
{
    struct wire_open *r = &in.open;
    int e = 0, writes = r->flags & PS_WRITE;
    if (m->data_bytes != sizeof *r || !memchr(r->name, 0, sizeof r->name) || !r->name[0] ||
        !memchr(r->type, 0, sizeof r->type))
        return -EINVAL;
    struct container *c = container_named(r->name);
    int make = !c;
    if (c && r->flags & PS_EXCLUSIVE) return -EEXIST;
    if (!c && !(r->flags & PS_CREATE)) return -ENOENT;
    if (c && !layout_agrees(&c->made, r)) return -EMEDIUMTYPE;
    if (make) e = container_make(r, &c);
    if (e) return e;
    e = container_attach(c, m->process, writes != 0);
    if (e && make) container_end(c);
    if (e) return e;
    const struct named *root = name_find(c, "\1root");
    out.opened = (struct wire_opened){.container = c->id, .base = c->base, .pages = pages_max,
                                      .root_address = root ? root->address : 0,
                                      .created = (uint64_t)make, .encoder = KD_ENCODER_DIFF};
    reply->data = &out;
    reply->data_bytes = sizeof out.opened;
    return 0;
}

/* Scratch: what nobody has open any more is gone. */
static void closed(struct container *c)
{
    if (scratch && c->opening_count == 0) container_end(c);
}

static void process_gone(uint64_t process)
{
    for (int i = 0; i < CONTAINERS_MAX; i++) {
        struct container *c = containers[i];
        const struct opening *o = c ? opening_of(c, process) : NULL;
        if (!o) continue;
        container_detach(c, process, o->count);
        closed(c);
    }
}

static int serve_delete(const struct kd_message *m, struct kd_message *reply)
{
    if (m->data_bytes != STORE_NAME_BYTES || !memchr(in.name, 0, STORE_NAME_BYTES)) return -EINVAL;
    struct container *c = container_named(in.name);
    const struct opening *mine = c ? opening_of(c, m->process) : NULL;
    if (!c) return -ENOENT;
    if (c->opening_count > (mine ? 1 : 0)) return -EBUSY;
    reply->word[0] = c->id;
    container_end(c);
    return 0;
}

static int serve_list(const struct kd_message *m, struct kd_message *reply)
{
    uint64_t room = m->word[1] && m->word[1] < LIST_MOST ? m->word[1] : LIST_MOST, filled = 0;
    reply->word[0] = 0;
    for (int i = 0; i < CONTAINERS_MAX; i++) reply->word[0] += containers[i] != NULL;
    for (uint64_t last = m->word[0]; filled < room;) {
        const struct container *next = NULL;
        for (int i = 0; i < CONTAINERS_MAX; i++)
            if (containers[i] && containers[i]->id > last &&
                (!next || containers[i]->id < next->id))
                next = containers[i];
        if (!next) break;
        struct wire_entry *e = &out.entries[filled++];
        *e = (struct wire_entry){.version = next->made.version, .bytes = next->made.bytes,
                                 .container = last = next->id, .base = next->base,
                                 .pages_max = pages_max};
        memcpy(e->name, next->made.name, sizeof e->name);
        memcpy(e->type, next->made.type, sizeof e->type);
        for (uint64_t page = 0; page < pages_max; page++)
            e->pages_used += next->owner[page] == USED;
    }
    reply->data = &out;
    reply->data_bytes = filled * sizeof out.entries[0];
    return 0;
}

/* ---- what clients ask about a container that they have open ---- */

static int serve_named(const struct kd_message *m, struct container *c, struct kd_message *reply)
{
    if (m->data_bytes != STORE_NAME_BYTES || !memchr(in.name, 0, STORE_NAME_BYTES)) return -EINVAL;
    const struct named *n = name_find(c, in.name);
    if (!n) return -ENOENT;
    reply->word[0] = n->address;
    reply->word[1] = n->bytes;
    return 0;
}

static int serve_names(const struct container *c, struct kd_message *reply)
{
    for (unsigned i = 0; i < c->name_count; i++) {
        out.names[i] = (struct wire_name){.address = c->names[i].address,
                                          .bytes = c->names[i].bytes};
        memcpy(out.names[i].name, c->names[i].name, STORE_NAME_BYTES);
    }
    reply->word[0] = 0;
    reply->data = &out;
    reply->data_bytes = c->name_count * sizeof out.names[0];
    return 0;
}

static int serve_next(const struct kd_message *m, const struct container *c,
                      struct kd_message *reply)
{
    uint64_t page = m->word[1] ? (m->word[1] - c->base) / KD_PAGE_BYTES + 1 : 0, count = 0;
    while (page < pages_max && c->owner[page] != USED) page++;
    while (page + count < pages_max && c->owner[page + count] == USED) count++;
    reply->word[0] = count ? c->base + page * KD_PAGE_BYTES : 0;
    reply->word[1] = count;
    reply->word[2] = 0;
    return 0;
}

static int serve_open_container(const struct kd_message *m, struct kd_message *reply)
{
    struct container *c = container_by_id(m->word[0]);
    const struct opening *o = c ? opening_of(c, m->process) : NULL;
    if (!o) return c ? -EACCES : -ENOENT;
    switch (m->kind) {
    case STORE_CLOSE:
        container_detach(c, m->process, 1);
        closed(c);
        return 0;
    case STORE_LEASE:
        reply->word[1] = m->word[1];
        return o->writes ? container_lease(c, m->process, m->word[1], reply->word) : -EACCES;
    case STORE_NAMED: return serve_named(m, c, reply);
    case STORE_NAMES: return serve_names(c, reply);
    case STORE_NEXT: return serve_next(m, c, reply);
    case STORE_SPACE: return -ENOENT; /* room hints are not kept */
    case STORE_ENCODER: return m->word[1] == KD_ENCODER_DIFF ? 0 : -ENOSYS;
    default: return -ENOSYS;
    }
}

static int serve_address(const struct kd_message *m, struct kd_message *reply)
{
    for (int i = 0; i < CONTAINERS_MAX; i++) {
        struct container *c = containers[i];
        uint64_t page = c ? (m->word[0] - c->base) / KD_PAGE_BYTES : pages_max;
        if (page >= pages_max || m->word[0] < c->base) continue;
        if (!opening_of(c, m->process)) return -EACCES;
        reply->word[0] = c->owner[page] == USED;
        if (m->kind == STORE_UNLEASE)
            container_unlease(c, m->process, m->word[0], m->word[1]);
        return 0;
    }
    return -ENOENT;
}

static int serve(const struct kd_message *m, struct kd_message *reply)
{
    switch (m->kind) {
    case STORE_HELLO:
        reply->word[0] = STORE_PROTOCOL_VERSION;
        return m->word[0] == STORE_PROTOCOL_VERSION ? 0 : -EPROTONOSUPPORT;
    case STORE_OPEN: return serve_open(m, reply);
    case STORE_DELETE: return serve_delete(m, reply);
    case STORE_LIST: return serve_list(m, reply);
    case STORE_HELD:
    case STORE_UNLEASE: return serve_address(m, reply);
    case STORE_ADVISE:
    case STORE_CHECKPOINT:
    case STORE_FLUSH: return 0; /* as durable as it ever will be */
    case STORE_STATS:
        out.stats = (struct wire_stats){.commits = commits};
        reply->data = &out;
        reply->data_bytes = sizeof out.stats;
        return 0;
    default: return serve_open_container(m, reply);
    }
}

/* ---- what the kernel asks ---- */

static void on_page(const struct kd_message *m)
{
    struct kd_supply s = {.object = (int)m->word[5], .source = KD_SUPPLY_ZERO,
                          .rights = KD_READ | KD_WRITE, .page = m->word[1],
                          .count = m->word[2] ? m->word[2] : 1};
    if (kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0) == -ENOMEM)
        kd_call4(KD_OBJECT_FAIL, s.object, (long)s.page, (long)s.count, ENOMEM);
}

/* The kernel compares each copy with its base when it tells what changed, and publishes those that
 * differ. Their pages are in use from now on. */
static long changes_note(const struct kd_message *m)
{
    static uint8_t runs[DIFF_BYTES];
    struct kd_diff d = {.view = m->word[0], .token = m->token};
    while (d.cursor != ~0ull) {
        d.buffer = runs;
        d.buffer_bytes = sizeof runs;
        long e = kd_call3(KD_TXN_DIFF, (long)&d, 0, 0);
        if (e < 0) return e;
        for (size_t at = 0; at < d.buffer_bytes;) {
            const struct kd_run *run = (const void *)(runs + at);
            page_written(run->cookie, run->page);
            at += sizeof *run + ((run->bytes + 7u) & ~7u);
        }
    }
    return 0;
}

static void on_commit(const struct kd_message *m)
{
    const uint8_t *batch = (const uint8_t *)&in;
    long e = batch_check(m->process, batch, m->buffer_bytes);
    if (!e && m->word[1]) e = changes_note(m);
    if (e) {
        kd_call3(KD_TXN_REFUSE, (long)m->word[0], (long)m->token, -e);
        return;
    }
    struct kd_publish p = {.view = m->word[0], .token = m->token, .csn = ++last_csn};
    if (kd_call3(KD_TXN_PUBLISH, (long)&p, 1, 0) < 0) return;
    batch_apply(batch, m->buffer_bytes);
    commits++;
}

static void on_kernel(const struct kd_message *m)
{
    if (m->kind == (uint32_t)KD_MSG_PAGE) on_page(m);
    if (m->kind == (uint32_t)KD_MSG_COMMIT) on_commit(m);
    if (m->kind == (uint32_t)KD_MSG_CLIENT_GONE) process_gone(m->process);
}

static int serve_all(const char *name)
{
    struct kd_message m, reply;
    port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    long e = port < 0 ? port : kd_call3(KD_NAME_SET, (long)name, port, 0);
    if (!e) e = kd_call3(KD_CREDIT_GRANT, port, (long)KD_CREDITS_CLOSED, 0); /* cleans nothing */
    for (uint64_t token = 0; e >= 0;) {
        m = (struct kd_message){.buffer = &in, .buffer_bytes = sizeof in};
        e = token ? kd_call4(KD_PORT_REPLY_RECEIVE, (long)token, (long)&reply, port, (long)&m)
                  : kd_call3(KD_PORT_RECEIVE, port, (long)&m, -1);
        if (token && e == -ENOMEM && reply.data_bytes) { /* none for the data: it is told so */
            reply.status = -ENOMEM;
            reply.data_bytes = 0;
            e = 0;
            continue;
        }
        token = 0;
        if (e < 0) break;
        if (m.kind & KD_MSG_KERNEL) {
            on_kernel(&m);
            continue;
        }
        reply = (struct kd_message){.handle = -1};
        m.data_bytes = m.buffer_bytes;
        reply.status = serve(&m, &reply);
        if (m.handle >= 0) kd_call3(KD_HANDLE_CLOSE, m.handle, 0, 0);
        token = m.token;
    }
    return (int)e;
}

int main(int argc, char **argv)
{
    scratch = argc > 1 && strcmp(argv[1], "--scratch") == 0;
    const char *name = argc > 1 + scratch ? argv[1 + scratch] : scratch ? "scratch" : "volatile";
    uint64_t mib = argc > 2 + scratch ? strtoull(argv[2 + scratch], NULL, 10) : DEFAULT_MIB;
    if (argc > 3 + scratch || name[0] == '-' || mib == 0 || mib > MIB_MAX) {
        fprintf(stderr, "usage: volatile [--scratch] [NAME [MIB]]\n"
                        "A store in memory; each of its containers has up to MIB MiB (%d).\n",
                DEFAULT_MIB);
        return 2;
    }
    pages_max = mib << 8;
    int e = serve_all(name);
    fprintf(stderr, "volatile: cannot serve %s: %s\n", name, strerror(-e));
    return 1;
}
