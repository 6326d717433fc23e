/*
 * manager.c - km_*: a manager's side of the kernel's messages, and a client's way to its objects.
 *
 * A process has one port for all its objects; it is published under the name of the first. What a
 * policy leaves out is done here as manager.h says. Commits are answered, and pages offered for
 * cleaning, one at a time.
 *
 * Locks: `lock` guards the table of objects while it grows; objects live as long as the process.
 */
#include "manager.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "katydid/call.h"

#define OBJECTS_MAX   64
#define MESSAGE_BYTES 4096
#define DIFF_BYTES    (64u << 10)
#define INFO_PAGES    256

enum { CALL_OPEN = 1, CALL_USER };      /* what clients ask; CALL_USER: word0 the object's number */
enum { TOKEN_PAGE };  /* km_request.token of a page; of a lock: the question's number */

struct km_object {
    int handle, flags;
    uint64_t number, base, pages;
    uint64_t cleaned_from;              /* clean_lock; the page behind the one offered last */
    const struct km_ops *ops;
    void *user;
    char name[KD_NAME_MAX];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t commit_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t clean_lock = PTHREAD_MUTEX_INITIALIZER;
static struct km_object *objects[OBJECTS_MAX];
static unsigned object_count;
static int port = -1;
static uint64_t tokens[KD_VIEW_MAX];    /* of the commit that a view waits for */
static uint64_t last_csn;               /* commit_lock */

static long call1(long number, const void *a) { return kd_call3(number, (long)a, 0, 0); }

/* ---- objects ---- */

static int port_make(const char *name)
{
    if (port >= 0) return 0;
    long p = kd_call3(KD_PORT_CREATE, 0, 0, 0);
    if (p < 0) return (int)p;
    long r = kd_call3(KD_NAME_SET, (long)name, p, 0);
    if (r < 0) {
        kd_call3(KD_HANDLE_CLOSE, p, 0, 0);
        return (int)r;
    }
    port = (int)p;
    return 0;
}

static int object_make(struct km_object *o, const char *name)
{
    if (object_count == OBJECTS_MAX) return -EMFILE;
    int r = port_make(name);
    if (r < 0) return r;
    struct kd_object_create create = {
        .port = port, .commit_port = port, .cookie = object_count,
        .base = 0, /* the kernel chooses, never the same for two */
        .pages = o->pages,
        .flags = (o->flags & KM_TRANSACTIONAL ? KD_OBJECT_TRANSACTIONAL : 0)
                 | (o->flags & KM_ASK ? KD_OBJECT_ASK : 0)
                 | (o->ops->gone ? KD_OBJECT_NOTICES : 0)};
    memcpy(create.name, o->name, sizeof(o->name));
    long handle = call1(KD_OBJECT_CREATE, &create);
    if (handle < 0) return (int)handle;
    o->handle = (int)handle;
    o->base = create.base;
    o->number = object_count;
    objects[object_count] = o;
    __atomic_store_n(&object_count, object_count + 1, __ATOMIC_RELEASE);
    return 0;
}

int km_create(const char *name, uint64_t pages, int flags, const struct km_ops *ops, void *user,
              struct km_object **out)
{
    if (!name || !name[0] || pages == 0 || !ops || !out) return -EINVAL;
    if (strlen(name) >= KD_NAME_MAX) return -ENAMETOOLONG;
    struct km_object *o = calloc(1, sizeof(*o));
    if (!o) return -ENOMEM;
    *o = (struct km_object){.flags = flags, .pages = pages, .ops = ops, .user = user};
    strcpy(o->name, name);
    pthread_mutex_lock(&lock);
    int r = object_make(o, name);
    pthread_mutex_unlock(&lock);
    if (r < 0)
        free(o);
    else
        *out = o;
    return r;
}

static struct km_object *object_of(uint64_t number)
{
    return number < __atomic_load_n(&object_count, __ATOMIC_ACQUIRE) ? objects[number] : NULL;
}

static struct km_object *object_named(const char *name)
{
    for (uint64_t i = 0; object_of(i); i++)
        if (strcmp(objects[i]->name, name) == 0) return objects[i];
    return NULL;
}

void *km_address(struct km_object *o) { return (void *)o->base; }

/* ---- answers ---- */

static uint32_t page_rights(const struct km_object *o)
{
    return KD_READ | (o->flags & KM_WRITE ? KD_WRITE : 0);
}

static int supply(struct km_object *o, uint32_t source, uint64_t page, uint64_t count,
                  const void *memory)
{
    struct kd_supply s = {
        .object = o->handle, .source = source, .rights = page_rights(o), .page = page,
        .count = count, .memory = memory};
    return (int)call1(KD_OBJECT_SUPPLY, &s);
}

int km_supply(struct km_request *r, const void *pages, uint64_t count)
{
    return supply(r->object, KD_SUPPLY_MEMORY, r->page, count, pages);
}

int km_supply_disk(struct km_request *r, int disk, uint64_t sector, uint64_t count)
{
    struct kd_page_io io[64];
    if (count == 0 || count > 64) return -EINVAL;
    for (uint64_t i = 0; i < count; i++)
        io[i] = (struct kd_page_io){
            .object = r->object->handle, .page = r->page + i,
            .offset_bytes = sector * 512 + i * KD_PAGE_BYTES};
    long e = kd_call3(KD_BLOCK_READ_PAGES, disk, (long)io, (long)count);
    for (uint64_t i = 0; e >= 0 && i < count; i++) e = (long)io[i].status;
    return e < 0 ? km_fail(r, EIO) : supply(r->object, KD_SUPPLY_READ, r->page, count, NULL);
}

int km_zero(struct km_request *r)
{
    return supply(r->object, KD_SUPPLY_ZERO, r->page, r->count, NULL);
}

static int lock_answer(struct km_request *r, int error)
{
    return (int)kd_call4(KD_LOCK_ANSWER, r->object->handle, (long)r->token, (long)r->view - 1,
                         error);
}

int km_grant(struct km_request *r)
{
    return r->token != TOKEN_PAGE ? lock_answer(r, 0) : -EINVAL;
}

int km_fail(struct km_request *r, int error)
{
    if (error < 0) error = -error;
    if (r->token != TOKEN_PAGE) return lock_answer(r, -error);
    return (int)kd_call4(KD_OBJECT_FAIL, r->object->handle, (long)r->page, (long)r->count, error);
}

/* ---- unasked ---- */

int km_push(struct km_object *o, uint64_t page, uint64_t count, const void *pages)
{
    return supply(o, KD_SUPPLY_MEMORY, page, count, pages);
}

int km_resident(struct km_object *o, uint64_t page, uint64_t count, uint8_t *bits)
{
    return (int)kd_call4(KD_OBJECT_INFO, o->handle, (long)page, (long)count, (long)bits);
}

int km_recall(struct km_object *o, uint64_t page, uint64_t count, int to)
{
    return (int)kd_call4(KD_OBJECT_RECALL, o->handle, (long)page, (long)count, to);
}

/* The kernel tells the runs of all objects of the view; those of others are taken out. */
static size_t runs_keep(const struct km_object *o, uint8_t *buffer, size_t bytes)
{
    size_t kept = 0;
    for (size_t at = 0; at + sizeof(struct kd_run) <= bytes;) {
        struct kd_run run;
        memcpy(&run, buffer + at, sizeof(run));
        size_t whole = sizeof(run) + ((run.bytes + 7u) & ~7u);
        if (run.cookie == o->number) {
            memmove(buffer + kept, buffer + at, whole);
            kept += whole;
        }
        at += whole;
    }
    return kept;
}

long km_diff(struct km_object *o, uint64_t view, uint64_t *cursor, void *buffer, size_t bytes)
{
    if (view >= KD_VIEW_MAX) return -EINVAL;
    size_t kept = 0;
    while (kept == 0 && *cursor != ~0ull) {
        struct kd_diff d = {.view = view, .token = tokens[view], .cursor = *cursor,
                            .buffer = buffer, .buffer_bytes = bytes};
        long r = call1(KD_TXN_DIFF, &d);
        if (r < 0) return r;
        *cursor = d.cursor;
        kept = runs_keep(o, buffer, d.buffer_bytes);
    }
    return (long)kept;
}

int km_write_home(struct km_object *o, uint64_t page, int disk, uint64_t sector, uint64_t *csn,
                  uint32_t *crc)
{
    struct kd_page_io io = {.object = o->handle, .page = page, .offset_bytes = sector * 512};
    long r = kd_call3(KD_BLOCK_WRITE_PAGES, disk, (long)&io, 1);
    if (r >= 0) r = (long)io.status;
    if (r < 0) return (int)r;
    if (csn) *csn = io.csn;
    if (crc) *crc = io.crc;
    return 0;
}

int km_cleaned(struct km_object *o, uint64_t page, uint64_t csn)
{
    return (int)kd_call3(KD_OBJECT_CLEANED, o->handle, (long)page, (long)csn);
}

int km_pin(struct km_object *o, uint64_t page, uint64_t count, int on)
{
    return (int)kd_call4(KD_OBJECT_PIN, o->handle, (long)page, (long)count, on);
}

int km_advise(struct km_object *o, uint64_t page, uint64_t count, int advice)
{
    return (int)kd_call4(KD_OBJECT_ADVISE, o->handle, (long)page, (long)count, advice);
}

int km_wait(uint64_t view, const uint64_t *blockers, int n)
{
    uint64_t mask[2] = {0, 0};
    for (int i = 0; i < n; i++) {
        if (blockers[i] >= KD_VIEW_MAX) return -EINVAL;
        mask[blockers[i] / 64] |= 1ull << blockers[i] % 64;
    }
    return (int)kd_call3(KD_VIEW_WAIT, (long)view, (long)mask, 0);
}

int km_credit(struct km_object *o, uint64_t copies)
{
    (void)o; /* all objects of a process share its port's credits */
    return (int)kd_call3(KD_CREDIT_GRANT, port, (long)copies, 0);
}

int km_abort(uint64_t view, int error)
{
    return (int)kd_call3(KD_VIEW_ABORT, (long)view, error < 0 ? -error : error, 0);
}

/* ---- what the kernel says ---- */

static void on_page(const struct kd_message *m)
{
    struct km_object *o = object_of(m->word[0]);
    if (!o) return;
    struct km_request r = { .object = o, .user = o->user, .page = m->word[1],
                            .count = m->word[2] ? m->word[2] : 1,
                            .access = (int)m->word[3] & (KD_READ | KD_WRITE),
                            .view = m->word[4],
                            .token = TOKEN_PAGE };
    if (o->ops->page)
        o->ops->page(&r);
    else
        km_zero(&r);
}

static void on_lock(const struct kd_message *m)
{
    struct km_object *o = object_of(m->word[0]);
    if (!o) return;
    struct km_request r = {.object = o, .user = o->user, .page = m->word[1], .count = 1,
                           .access = (int)m->word[2], .view = m->word[3] + 1, .token = m->token};
    if (o->ops->lock)
        o->ops->lock(&r);
    else
        km_grant(&r);
}

/* Which objects did the view change? A bit of each. */
static long changed_objects(uint64_t view, uint64_t token, uint64_t *bits)
{
    static uint8_t buffer[DIFF_BYTES]; /* commit_lock */
    struct kd_diff d = {.view = view, .token = token};
    *bits = 0;
    while (d.cursor != ~0ull) {
        d.buffer = buffer;
        d.buffer_bytes = sizeof(buffer);
        long r = call1(KD_TXN_DIFF, &d);
        if (r < 0) return r;
        for (size_t at = 0; at < d.buffer_bytes;) {
            struct kd_run run;
            memcpy(&run, buffer + at, sizeof(run));
            if (run.cookie < OBJECTS_MAX) *bits |= 1ull << run.cookie;
            at += sizeof(run) + ((run.bytes + 7u) & ~7u);
        }
    }
    return 0;
}

static void on_commit(const struct kd_message *m)
{
    uint64_t view = m->word[0], bits = 0;
    if (view >= KD_VIEW_MAX) return;
    pthread_mutex_lock(&commit_lock);
    tokens[view] = m->token;
    long r = m->word[1] ? changed_objects(view, m->token, &bits) : 0;
    for (uint64_t i = 0; r == 0 && i < OBJECTS_MAX; i++)
        if (bits >> i & 1 && objects[i]->ops->commit)
            r = objects[i]->ops->commit(objects[i], view);
    if (r < 0) {
        kd_call3(KD_TXN_REFUSE, (long)view, (long)m->token, -r);
    } else {
        struct kd_publish p = {.view = view, .token = m->token, .csn = ++last_csn};
        kd_call3(KD_TXN_PUBLISH, (long)&p, 1, 0);
    }
    pthread_mutex_unlock(&commit_lock);
}

/* Dirty pages of the object are offered to its policy: those first that lie behind the one that was
 * offered last. Once round at most. clean_lock: held. */
static uint64_t object_clean(struct km_object *o, uint64_t wanted)
{
    uint8_t bits[INFO_PAGES];
    const uint64_t start = o->cleaned_from;
    for (uint64_t done = 0; done < o->pages && wanted > 0;) {
        uint64_t from = (start + done) % o->pages, count = o->pages - from;
        if (count > INFO_PAGES) count = INFO_PAGES;
        if (count > o->pages - done) count = o->pages - done;
        if (km_resident(o, from, count, bits) < 0) break;
        for (uint64_t p = 0; p < count && wanted > 0; p++) {
            if (!(bits[p] & KD_PAGE_DIRTY)) continue;
            o->ops->clean(o, from + p);
            o->cleaned_from = (from + p + 1) % o->pages;
            wanted--;
        }
        done += count;
    }
    return wanted;
}

static void on_clean(uint64_t wanted)
{
    struct km_object *o;
    pthread_mutex_lock(&clean_lock);
    for (uint64_t i = 0; wanted > 0 && (o = object_of(i)); i++)
        if (o->ops->clean) wanted = object_clean(o, wanted);
    pthread_mutex_unlock(&clean_lock);
}

static void on_gone(const struct kd_message *m)
{
    struct km_object *o;
    for (uint64_t i = 0; (o = object_of(i)); i++)
        if (o->ops->gone) o->ops->gone(o, m->word[0], (int)m->word[1]);
}

static void on_kernel(const struct kd_message *m)
{
    switch (m->kind) {
    case (uint32_t)KD_MSG_PAGE: on_page(m); return;
    case (uint32_t)KD_MSG_LOCK: on_lock(m); return;
    case (uint32_t)KD_MSG_COMMIT: on_commit(m); return;
    case (uint32_t)KD_MSG_CLEAN: on_clean(m->word[0] ? m->word[0] : 1); return;
    case (uint32_t)KD_MSG_VIEW_GONE: on_gone(m); return;
    default: return;
    }
}

/* ---- what clients say ---- */

/* "Open the object of this name": the caller is attached and gets the address. */
static int serve_open(const struct kd_message *m, char *name, struct kd_message *reply)
{
    if (m->data_bytes == 0 || m->data_bytes > KD_NAME_MAX || name[m->data_bytes - 1])
        return -EINVAL;
    struct km_object *o = object_named(name);
    if (!o) return -ENOENT;
    int flags = m->word[0] & KM_WRITE ? KM_READ | KM_WRITE : KM_READ;
    if (flags & ~o->flags & KM_WRITE) return -EACCES;
    reply->word[0] = o->base;
    reply->word[1] = o->number;
    if (!m->word[0]) return 0; /* km_call only wants the number */
    long r = kd_call3(KD_SPACE_ATTACH, (long)m->process, o->handle,
                      KD_RIGHT_READ | (flags & KM_WRITE ? KD_RIGHT_WRITE : 0));
    return r < 0 ? (int)r : 0;
}

static int serve_user(const struct kd_message *m, void *data, struct kd_message *reply)
{
    struct km_object *o = object_of(m->word[0]);
    if (!o) return -ENOENT;
    if (!o->ops->call) return -ENOSYS;
    o->ops->call(o, data, (int)m->data_bytes);
    reply->data = data;
    reply->data_bytes = m->data_bytes;
    return 0;
}

static void *serve(void *unused)
{
    (void)unused;
    uint64_t data[MESSAGE_BYTES / 8];
    struct kd_message m = {.buffer = data, .buffer_bytes = sizeof(data)};
    long r = kd_call3(KD_PORT_RECEIVE, port, (long)&m, -1);
    while (r >= 0) {
        struct kd_message reply = {.handle = -1}, next = {.buffer = data,
                                                          .buffer_bytes = sizeof(data)};
        if (m.kind & KD_MSG_KERNEL) {
            on_kernel(&m);
            r = kd_call3(KD_PORT_RECEIVE, port, (long)&next, -1);
        } else {
            reply.status = m.kind == CALL_OPEN   ? serve_open(&m, (char *)data, &reply)
                           : m.kind == CALL_USER ? serve_user(&m, data, &reply)
                                                 : -ENOSYS;
            r = kd_call4(KD_PORT_REPLY_RECEIVE, (long)m.token, (long)&reply, port, (long)&next);
        }
        m = next;
    }
    return (void *)r;
}

int km_serve(int threads)
{
    if (port < 0 || threads < 1) return -EINVAL;
    for (int i = 1; i < threads; i++) {
        pthread_t thread;
        int r = pthread_create(&thread, NULL, serve, NULL);
        if (r) return -r;
        pthread_detach(thread);
    }
    return (int)(long)serve(NULL);
}

/* ---- clients ---- */

static long client_call(const char *manager, struct kd_message *m)
{
    long found = kd_call3(KD_NAME_FIND, (long)manager, 0, 0);
    if (found < 0) return found;
    long r = kd_call3(KD_PORT_CALL, found, (long)m, 0);
    kd_call3(KD_HANDLE_CLOSE, found, 0, 0);
    return r;
}

static long open_call(const char *manager, const char *object, int flags, struct kd_message *m)
{
    *m = (struct kd_message){.kind = CALL_OPEN, .handle = -1, .word = {(uint64_t)flags},
                             .data = object, .data_bytes = strlen(object) + 1};
    return client_call(manager, m);
}

void *km_open(const char *manager, const char *object, int flags)
{
    struct kd_message m;
    long r = open_call(manager, object, flags, &m);
    if (r < 0) {
        errno = (int)-r;
        return NULL;
    }
    return (void *)m.word[0];
}

int km_call(const char *manager, const char *object, void *message, int bytes)
{
    struct kd_message m;
    if (bytes < 0 || bytes > MESSAGE_BYTES) return -EMSGSIZE;
    long r = open_call(manager, object, 0, &m);
    if (r < 0) return (int)r;
    m = (struct kd_message){.kind = CALL_USER, .handle = -1, .word = {m.word[1]}, .data = message,
                            .data_bytes = (uint64_t)bytes, .buffer = message,
                            .buffer_bytes = (uint64_t)bytes};
    return (int)client_call(manager, &m);
}
