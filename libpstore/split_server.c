/*
 * split_server.c - the server of a split store: functions of the store, and operations, carried out
 * for clients that are another process, or another site (user/sites/modes.md).
 *
 * Each client has a port and a thread, so one who waits for a lock keeps nobody else from
 * committing. What it says is not believed: an object is looked up in the container before a byte
 * of it is touched, and lengths are those that came.
 *
 * Invariants
 *   PF1  A client does what its own handle of the container lets it do, as long as that is good:
 *        one that may only read has snapshots, in which nothing can be stored. The handle is looked
 *        at, and opens nothing here: else the container would be closed here with the handle's end.
 *   PF2  A transaction that is open between two calls of its client ends when the client does, or
 *        is silent for SILENT_MS: nobody waits for its locks without end.
 *        Of a client that has locks of its own it waits for HALF_MS only: they may be what it waits
 *        for.
 *   PF3  What a client read by itself is compared, under locks, before a commit that rests on it.
 *   PF4  A program that was passed a way has operations carried out, and nothing else. Its handle
 *        is that which was shown for the way.
 */
#include "pstore_private.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "katydid/call.h"
#include "split.h"
#include "split_protocol.h"

enum { PATIENCE_MS = 10000, SILENT_MS = 2000, HALF_MS = 200, LOOK_MS = 100, REST_MS = 1000 };
enum { CLIENT = 1, WAY = 2 };           /* numbers of badges: of a client's port; of the server's */
#define ARENA "\6split"

/* struct way: what may be passed to a program that has no handle of the container. */
static struct way {
    int handle;                         /* of the container, as it was shown */
    int used;
    _Atomic int clients;
} ways[SPLIT_WAYS_MAX];

struct split_client {
    int port, handle;                   /* handle: of the container, as it was shown */
    struct way *way;                    /* by which it came, and whose the handle is; NULL: none */
    int writes, active;                 /* active: it has a transaction here */
    int begun;                          /* of its transaction something was said */
    uint64_t silent_ms;                 /* since its last call, while `active` */
    jmp_buf out;                        /* where a transaction goes that the system has undone */
    struct kd_message m;                /* the call */
    size_t kept_bytes;
    _Alignas(8) uint8_t in[SPLIT_DATA_MAX], result[SPLIT_DATA_MAX], kept[SPLIT_DATA_MAX];
};
static ps_container *served;
static const struct ps_operation *known;
static ps_arena *apart;
static _Atomic int clients;

/* ---- a client's transaction ---- */

static void undone(int error, void *client)
{
    struct split_client *k = client;
    k->active = 0;
    longjmp(k->out, error ? error : ECANCELED);
}

static int begin(struct split_client *k)
{
    uint32_t patience = k->m.word[1] == SPLIT_ALLOCATE && k->m.word[5] ? HALF_MS : PATIENCE_MS;
    const struct ps_options options = {.isolation = k->writes ? PS_SERIALISABLE : PS_SNAPSHOT,
                                       .timeout_ms = patience};
    if (k->active)
        return 0;
    int error = ps_begin(&options);
    k->active = error == 0;
    return error;
}

static void give_up(struct split_client *k)
{
    if (k->active)
        ps_rollback();
    k->active = k->begun = 0;
    k->kept_bytes = 0;
}

/* ---- functions ---- */

/* within tells where these bytes lie, which are all in one object of the container. */
static int within(uint64_t object, uint64_t offset, uint64_t bytes, void **at)
{
    const void *p = (const void *)(uintptr_t)object;
    if (ps_container_of(p) != served)
        return -EINVAL;
    uint64_t size = ps_size(p);
    if (offset > size || bytes > size - offset || bytes == 0)
        return -EINVAL;
    *at = (char *)(uintptr_t)object + offset;
    return 0;
}

static void read_all(const volatile char *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += KD_PAGE_BYTES)
        (void)at[i];
    (void)at[bytes - 1];
}

static int lock(const struct kd_message *m)
{
    void *at;
    uint64_t bytes = ps_container_of((void *)(uintptr_t)m->word[2]) == served
                         ? ps_size((void *)(uintptr_t)m->word[2])
                         : 0;
    int mode = (int)m->word[5], error = within(m->word[2], 0, bytes, &at);
    if (error || (mode != PS_S && mode != PS_X))
        return -EINVAL;
    if (!ps_access(at, bytes, mode))
        return -errno;
    read_all(at, bytes);
    return 0;
}

static int write_at(const struct split_client *k, uint64_t object, uint64_t offset,
                    const void *from, uint64_t bytes)
{
    void *at;
    int error = k->writes ? within(object, offset, bytes, &at) : -EROFS;
    if (error)
        return error;
    if (!ps_access(at, bytes, PS_X))
        return -errno;
    memcpy(at, from, bytes);
    return 0;
}

static int read_at(struct split_client *k)
{
    void *at;
    uint64_t bytes = k->m.word[4];
    int error = bytes > PS_SPLIT_BYTES ? -EINVAL
                                       : within(k->m.word[2], k->m.word[3], bytes, &at);
    if (error)
        return error;
    if (!ps_access(at, bytes, PS_S))
        return -errno;
    memcpy(k->result, at, bytes);
    return (int)bytes;
}

static int record_do(const struct split_client *k, const struct split_record *r)
{
    void *at;
    if (r->writes)
        return write_at(k, r->object, r->offset, r + 1, r->bytes);
    int error = within(r->object, r->offset, r->bytes, &at);
    if (error == -EINVAL)
        return -ESTALE;                                 /* it was freed */
    if (!error && !ps_access(at, r->bytes, PS_S))
        error = -errno;
    return error ? error : memcmp(at, r + 1, r->bytes) ? -ESTALE : 0; /* PF3 */
}

/* records_do carries out the records at `in`: those that were read, or those to be stored; or looks
 * whether they are such. */
enum { READS, WRITES, LOOK };
static int records_do(const struct split_client *k, const uint8_t *in, size_t bytes, int which)
{
    int error = 0;
    for (size_t at = 0; !error && at < bytes;) {
        const struct split_record *r = (const void *)(in + at);
        if (bytes - at < sizeof *r || bytes - at < SPLIT_RECORD_BYTES(r->bytes) || r->writes > 1)
            return -EINVAL;
        error = which == r->writes ? record_do(k, r) : 0;
        at += SPLIT_RECORD_BYTES(r->bytes);
    }
    return error;
}

static int keep(struct split_client *k)
{
    int error = records_do(k, k->in, k->m.buffer_bytes, LOOK);
    if (error || k->m.buffer_bytes > sizeof k->kept - k->kept_bytes)
        return error ? error : -E2BIG;
    memcpy(k->kept + k->kept_bytes, k->in, k->m.buffer_bytes);
    k->kept_bytes += k->m.buffer_bytes;
    return 0;
}

static int commit(struct split_client *k)
{
    int error = records_do(k, k->in, k->m.buffer_bytes, READS);
    if (!error)
        error = records_do(k, k->kept, k->kept_bytes, WRITES);
    if (!error)
        error = records_do(k, k->in, k->m.buffer_bytes, WRITES);
    k->kept_bytes = 0;
    if (error)
        return error;
    k->active = 0;
    return ps_commit();
}

/* allocate puts nothing where a client with locks of its own may have some: each thread has pages
 * of its own in an arena, whose address is known without a look at what may be locked. */
static int allocate(struct split_client *k)
{
    const void *near = (const void *)(uintptr_t)k->m.word[2];
    size_t bytes = k->m.word[4];
    void *object = !k->writes ? NULL
                   : k->m.word[5] ? ps_alloc_in(apart, bytes, NULL, NULL)
                   : ps_alloc(served, bytes, ps_container_of(near) == served ? near : NULL);
    k->m.word[2] = (uintptr_t)object;
    return object ? 0 : k->writes ? -errno : -EROFS;
}

/* function_do returns the answer's bytes, or -errno, which gives up a transaction begun. */
static int function_do(struct split_client *k)
{
    void *root;
    switch (k->m.word[1]) {
    case SPLIT_ROOT:
        root = ps_root(served);
        k->m.word[2] = (uintptr_t)root;
        return root ? 0 : -errno;
    case SPLIT_LOCK: return lock(&k->m);
    case SPLIT_READ: return read_at(k);
    case SPLIT_WRITE:
        return write_at(k, k->m.word[2], k->m.word[3], k->in, k->m.buffer_bytes);
    case SPLIT_ALLOCATE: return allocate(k);
    case SPLIT_COMMIT: return commit(k);
    default: return -ENOSYS;
    }
}

static int in_transaction(struct split_client *k)
{
    int forced = setjmp(k->out);
    if (forced)
        return -forced;
    int error = begin(k);
    return error ? error : function_do(k);
}

/* ---- operations ---- */

struct work { const struct ps_operation *operation; const uint8_t *said; uint8_t *argument; };

static int run_work(void *arg)
{
    struct work *w = arg;
    memcpy(w->argument, w->said, w->operation->bytes);  /* this may be a repeated run */
    return w->operation->run(served, w->argument);
}

static const struct ps_operation *operation_of(const struct ps_operation *o, const char *name)
{
    while (o && o->name && strcmp(o->name, name) != 0)
        o++;
    return o && o->name ? o : NULL;
}

static int run(struct split_client *k)
{
    size_t bytes = k->m.buffer_bytes;
    const struct ps_options options = {.isolation = k->writes ? PS_SERIALISABLE : PS_SNAPSHOT,
                                       .timeout_ms = PATIENCE_MS};
    if (k->active || bytes < SPLIT_NAME_BYTES || k->in[SPLIT_NAME_BYTES - 1])
        return k->active ? -EBUSY : -EINVAL;
    struct work w = {operation_of(known, (char *)k->in), k->in + SPLIT_NAME_BYTES, k->result};
    if (!w.operation || bytes - SPLIT_NAME_BYTES != w.operation->bytes)
        return w.operation ? -EMSGSIZE : -ENOSYS;
    int error = ps_transaction_opt(run_work, &w, &options);
    return error ? error : (int)w.operation->bytes;
}

/* ---- a client ---- */

/* good checks a handle (PF1): 0; -EIDRM: taken back; -EOWNERDEAD: the store is another one. */
static int good(int handle)
{
    int error = (int)ps_kernel(KD_PORT_SAME, handle, served->store->port, 0);
    return error == 0 || error == -EIDRM ? error : -EOWNERDEAD;
}

static int called(struct split_client *k)
{
    uint64_t function = k->m.word[1];
    int result = 0, error = good(k->handle);
    if (error)
        give_up(k);
    if (error || k->m.kind != SPLIT_CALL)
        return error ? error : -ENOSYS;
    if (function == SPLIT_RUN)
        return run(k);
    if (k->way)
        return -EPERM;                                  /* PF4 */
    if (k->m.word[6] && !k->begun)
        return -ETIMEDOUT;                              /* PF2 */
    if (!k->m.word[6])
        give_up(k);                                     /* what it began it knows no more */
    k->begun = 1;
    if (function == SPLIT_KEEP)
        result = keep(k);
    else if (function != SPLIT_ABORT)
        result = in_transaction(k);
    if (function == SPLIT_ABORT || function == SPLIT_COMMIT || result < 0)
        give_up(k);
    return result;
}

static void answer(struct split_client *k, int result)
{
    struct kd_message reply = {.handle = -1, .status = result < 0 ? result : 0,
                               .data = k->result, .data_bytes = result > 0 ? (size_t)result : 0};
    memcpy(reply.word, k->m.word, sizeof reply.word);
    if (k->m.handle >= 0)
        kd_call3(KD_HANDLE_CLOSE, k->m.handle, 0, 0);
    kd_call3(KD_PORT_REPLY, (long)k->m.token, (long)&reply, 0);
}

static void *serve_client(void *client)
{
    struct split_client *k = client;
    ps_catch(undone, k);
    for (;;) {
        k->m = (struct kd_message){.buffer = k->in, .buffer_bytes = sizeof k->in, .handle = -1};
        long r = kd_call3(KD_PORT_RECEIVE, k->port, (long)&k->m, k->begun ? LOOK_MS : REST_MS);
        if (r >= 0 && k->m.token) {
            k->silent_ms = 0;
            answer(k, called(k));
            continue;
        }
        if (kd_call3(KD_BADGE_USED, k->port, CLIENT, 0) <= 0)
            break;
        k->silent_ms += LOOK_MS;
        if (k->begun && k->silent_ms >= SILENT_MS)
            give_up(k);                                 /* PF2 */
    }
    give_up(k);
    kd_call3(KD_HANDLE_CLOSE, k->port, 0, 0);
    if (k->way)
        k->way->clients--;
    else
        kd_call3(KD_HANDLE_CLOSE, k->handle, 0, 0);
    free(k);
    clients--;
    return NULL;
}

/* ---- who comes ---- */

/* may tells whether the handle is one of the container, to read or to write it (PF1). */
static int may(int handle, int writes)
{
    const char path[WIRE_PATH_BYTES] = "";
    struct wire_named named;
    size_t bytes = sizeof named;
    uint64_t word[STORE_REQUEST_WORDS] = {0};
    uint32_t wanted = WIRE_MAY_READ | (writes ? WIRE_MAY_WRITE : 0);
    int error = good(handle);
    if (!error)
        error = store_request_by(served->store, handle, NULL, STORE_LOOK, word, path, sizeof path,
                                 &named, &bytes);
    if (error || bytes != sizeof named || named.directory || named.container != served->id)
        return error ? error : -EXDEV;
    return wanted & ~named.rights ? -EACCES : 0;
}

/* way_of returns the way by which a call comes; NULL: by the name of the port. */
static struct way *way_of(const struct kd_message *m)
{
    return m->badge_rights ? &ways[m->badge - WAY] : NULL;
}

static int client_begin(struct kd_message *m)
{
    struct way *way = way_of(m);
    int writes = (m->word[0] & PS_WRITE) != 0, error = may(way ? way->handle : m->handle, writes);
    int full = clients == SPLIT_CLIENTS_MAX || (way && way->clients == SPLIT_WAY_CLIENTS);
    struct split_client *k = error || full ? NULL : calloc(1, sizeof *k);
    if (!k)
        return error ? error : full ? -EMFILE : -ENOMEM;
    pthread_t thread;
    k->writes = writes;
    k->way = way;
    k->handle = way ? way->handle : m->handle;
    k->port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    int badge = k->port < 0 ? k->port
                            : (int)kd_call3(KD_BADGE_CREATE, k->port, CLIENT,
                                            KD_RIGHT_CALL | KD_RIGHT_GRANT);
    clients++;
    if (way)
        way->clients++;
    error = badge < 0 ? badge : -pthread_create(&thread, NULL, serve_client, k);
    if (!error) {
        pthread_detach(thread);
        m->handle = way ? m->handle : -1;               /* the handle stays with the client */
        return badge;
    }
    clients--;
    if (way)
        way->clients--;
    if (badge >= 0)
        kd_call3(KD_HANDLE_CLOSE, badge, 0, 0);
    if (k->port >= 0)
        kd_call3(KD_HANDLE_CLOSE, k->port, 0, 0);
    free(k);
    return error;
}

/* way_free finds a place for one more; those that nobody has any more are free. */
static struct way *way_free(int port)
{
    struct way *found = NULL;
    for (struct way *w = ways; w < ways + SPLIT_WAYS_MAX; w++) {
        if (w->used && !w->clients && kd_call3(KD_BADGE_USED, port, WAY + (w - ways), 0) <= 0) {
            kd_call3(KD_HANDLE_CLOSE, w->handle, 0, 0);
            w->used = 0;
        }
        found = w->used ? found : w;
    }
    return found;
}

/* way_begin makes a way, which keeps the handle shown. Who came by one makes none. */
static int way_begin(int port, struct kd_message *m)
{
    int error = way_of(m) ? -EPERM : may(m->handle, (m->word[0] & PS_WRITE) != 0);
    struct way *w = error ? NULL : way_free(port);
    int badge = w ? (int)kd_call3(KD_BADGE_CREATE, port, WAY + (w - ways),
                                  KD_RIGHT_CALL | KD_RIGHT_GRANT)
                  : error ? error : -EMFILE;
    if (badge < 0)
        return badge;
    w->handle = m->handle;
    w->used = 1;
    m->handle = -1;
    return badge;
}

static int serve(int port)
{
    for (;;) {
        char data[64];
        struct kd_message m = {.buffer = data, .buffer_bytes = sizeof data, .handle = -1};
        long r = kd_call3(KD_PORT_RECEIVE, port, (long)&m, -1);
        if (r < 0)
            return (int)r;
        if (!m.token)
            continue;
        int badge = m.kind == SPLIT_OPEN   ? client_begin(&m)
                    : m.kind == SPLIT_PASS ? way_begin(port, &m) : -ENOSYS;
        struct kd_message reply = {.status = badge < 0 ? badge : 0,
                                   .handle = badge < 0 ? -1 : badge,
                                   .handle_rights = KD_RIGHT_CALL | (m.kind == SPLIT_PASS
                                                                         ? KD_RIGHT_GRANT : 0)};
        if (m.handle >= 0)
            kd_call3(KD_HANDLE_CLOSE, m.handle, 0, 0);
        kd_call3(KD_PORT_REPLY, (long)m.token, (long)&reply, 0);
        if (badge >= 0)
            kd_call3(KD_HANDLE_CLOSE, badge, 0, 0);
    }
}

/* prepare makes what a client's half would only make to have it undone, or be waited for. */
static int prepare(void *wants_root)
{
    ps_arena **kept = names_private(served, ARENA, sizeof *kept);
    if (kept && !*kept)
        *kept = ps_arena_make(served);
    apart = kept ? *kept : NULL;
    return !apart || (wants_root && !ps_root(served)) ? -errno : 0;
}

int ps_split_serve(const char *container, int flags, const struct ps_layout *root,
                   const struct ps_operation *operations)
{
    char name[KD_NAME_MAX];
    const char *slash = strrchr(container, '/'), *last = slash ? slash + 1 : container;
    if (strlen(last) + sizeof SPLIT_SERVES > sizeof name)
        return -ENAMETOOLONG;
    strcpy(name, SPLIT_SERVES);
    strcat(name, last);
    long other = kd_call3(KD_NAME_FIND, (long)name, 0, 0);
    if (other >= 0) {
        kd_call3(KD_HANDLE_CLOSE, other, 0, 0);
        return error_told(ERROR_SPLIT, -EEXIST);
    }
    served = ps_open(container, flags, root);
    int made = !served ? -errno
               : served->items ? -ENOTSUP       /* what is read there may be a part of an item */
                               : ps_transaction(prepare, (void *)root);
    if (made)
        return made;
    known = operations;
    long port = kd_call3(KD_PORT_CREATE, 0, 0, 0);
    long error = port < 0 ? port : kd_call3(KD_NAME_SET, (long)name, port, 0);
    if (error == -EPERM)
        return ps_lacks(KD_RIGHT_NAMES);
    return error < 0 ? (int)error : serve((int)port);
}
