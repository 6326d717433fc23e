/*
 * split.c - functions of the store at the client or at a server, as a configuration says
 * (user/sites/modes.md). This is the client; split_server.c is the server.
 *
 * Where locks are the client's and commits the server's, a transaction has two halves. The client's
 * reads and locks as any, keeps what it read and wrote as records, and is undone; then the server
 * compares what was read, stores what was written, and commits. Between the two somebody may get
 * in: then the comparison fails, and it runs again; after TRIES times with all functions at the
 * server, where nobody can.
 */
#include "pstore_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "katydid/call.h"
#include "split.h"
#include "split_protocol.h"

enum { READ = 1, LOCK = 2, LOG = 4, COMMIT = 8, ABORT = 16, ALLOCATE = 32, ALL = 63 };
/* VIEW is that of halves of transactions: the server may want what this thread used in others. */
enum { TRIES = 3, PATIENCE_MS = 500, NEW_MAX = 64, VIEW = 0x51717 };

struct records { size_t bytes; _Alignas(8) uint8_t at[SPLIT_DATA_MAX]; };
struct made { uint64_t object, bytes; };

struct ps_split {
    unsigned configured, here;          /* functions at the client: as opened, of this run */
    int port;
    uint64_t number;                    /* of this client, at another site */
    ps_container *c;                    /* NULL: no page comes here; of another site it is open, so
                                         * that this one hears of our end, and none comes either */
    const struct ps_operation *operations;
    struct ps_split_counts counts;
    /* of a transaction */
    int active, error, begun;           /* begun: the server has a part of it */
    struct records reads, writes;
    struct made made[NEW_MAX];          /* what the server has allocated for it */
    unsigned made_count;
    _Alignas(8) uint8_t sent[SPLIT_DATA_MAX];
};

/* ---- configurations ---- */

static __thread const char *why = "";
const char *ps_split_why(void) { return why; }

static const struct { const char *name; unsigned function; } functions[] = {
    {"read", READ}, {"lock", LOCK}, {"log", LOG}, {"commit", COMMIT}, {"abort", ABORT},
    {"allocate", ALLOCATE}};

static int together(unsigned here, unsigned functions_)
{
    return (here & functions_) == 0 || (here & functions_) == functions_;
}

/* broken tells which rule the configuration breaks; NULL: none. */
static const char *broken(unsigned here)
{
    if (!together(here, READ | LOCK))
        return "read and lock have one place: a load takes its lock";
    if (!together(here, COMMIT | ABORT | ALLOCATE))
        return "commit, abort and allocate have one place: they end together";
    if (here & COMMIT && here != ALL)
        return "who commits has lock and log: it commits what it has stored";
    return NULL;
}

/* pairs reads the bits of "read=client lock=server ...", each function once; or -1. */
static int pairs(const char *text)
{
    unsigned here = 0, said = 0;
    for (const char *at = text; *at;) {
        size_t n = strcspn(at, "="), bit = 0;
        for (unsigned i = 0; i < sizeof functions / sizeof *functions; i++)
            if (strlen(functions[i].name) == n && strncmp(functions[i].name, at, n) == 0)
                bit = functions[i].function;
        at += n;
        int client = strncmp(at, "=client", 7) == 0;
        if (!bit || said & bit || (!client && strncmp(at, "=server", 7) != 0))
            return -1;
        said |= (unsigned)bit;
        here |= client ? (unsigned)bit : 0;
        at += 7;
        if (*at && *at++ != ' ')
            return -1;
    }
    return said == ALL ? (int)here : -1;
}

static int configuration(const char *text)
{
    int here = strcmp(text, "local") == 0    ? ALL
               : strcmp(text, "mix") == 0    ? READ | LOCK | LOG
               : strcmp(text, "server") == 0 ? 0
                                             : pairs(text);
    why = here < 0 ? "local, mix, server, or six pairs as read=client, with a space between"
                   : broken((unsigned)here);
    return why ? -EINVAL : here;
}

/* ---- the server ---- */

static int call(ps_split *p, struct kd_message *m, void *answer, size_t room)
{
    m->kind = SPLIT_CALL;
    m->word[0] = p->number;
    m->handle = -1;
    m->buffer = answer;
    m->buffer_bytes = room;
    p->counts.calls++;
    long r = kd_call3(KD_PORT_CALL, p->port, (long)m, 0);
    if ((r == -EBADF || r == -EIDRM) && !m->status)
        r = -EOWNERDEAD;                /* the server has not said so */
    return r < 0 ? (int)r : m->status;
}

/* ask calls a transaction's function: what fails ends it. word6: the server has a part of it. */
static int ask(ps_split *p, struct kd_message *m, void *answer, size_t room)
{
    m->word[6] = (uint64_t)p->begun;
    int error = p->error ? p->error : call(p, m, answer, room);
    p->begun = !error;
    p->error = error;
    return error;
}

static int find(const char *name, const char *prefix)
{
    char whole[KD_NAME_MAX];
    if (strlen(name) + strlen(prefix) >= sizeof whole)
        return -ENAMETOOLONG;
    strcpy(whole, prefix);
    strcat(whole, name);
    return (int)kd_call3(KD_NAME_FIND, (long)whole, 0, 0);
}

static const char *last_of(const char *container)
{
    const char *slash = strrchr(container, '/');
    return slash ? slash + 1 : container;
}

/* server_ask asks SPLIT_OPEN or SPLIT_PASS: the handle that is answered. */
static int server_ask(int port, uint32_t kind, int flags, int shown, uint32_t rights)
{
    struct kd_message m = {.kind = kind, .word = {(uint64_t)flags & PS_WRITE}, .handle = shown,
                           .handle_rights = rights};
    long r = kd_call3(KD_PORT_CALL, port, (long)&m, 0);
    if (r == 0)
        r = m.status;
    return error_told_if(ERROR_SPLIT, r < 0 ? (int)r : m.handle < 0 ? -EPROTO : m.handle);
}

/* server_here asks the server of this machine, which is shown a handle of the container. */
static int server_here(const char *container, uint32_t kind, int flags)
{
    int port = find(last_of(container), SPLIT_SERVES);
    if (port < 0)
        return error_told(ERROR_SPLIT, port);
    unsigned may = PS_MAY_READ | (flags & PS_WRITE ? PS_MAY_WRITE : 0);
    int shown = ps_handle(container, may | PS_MAY_GRANT);
    int by = shown < 0 ? shown
                       : server_ask(port, kind, flags, shown, KD_RIGHT_CALL | may * KD_RIGHT_OWN);
    if (shown >= 0)
        ps_drop(shown);
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    return by;
}

/* server_of finds the server; a way to it that was passed to this program comes first. */
static int server_of(const char *container, int flags)
{
    int way = root_of(SPLIT_ROOTS, last_of(container));
    return way >= 0 ? server_ask(way, SPLIT_OPEN, flags, -1, 0)
                    : server_here(container, SPLIT_OPEN, flags);
}

int ps_split_pass(const char *container, int flags)
{
    return strchr(container, ':') ? error_told(ERROR_SPLIT, -EOPNOTSUPP)
                                  : server_here(container, SPLIT_PASS, flags);
}

/* server_there asks the server of another site: `remote` passes on what is said. */
static int server_there(ps_split *p, const char *container, int flags)
{
    char store[KD_NAME_MAX];
    const char *name = strchr(container, ':') + 1;
    size_t n = (size_t)(name - container) - 1;
    if (n + sizeof "/store" > sizeof store)
        return -ENAMETOOLONG;
    memcpy(store, container, n);
    strcpy(store + n, "/store");
    p->port = (int)kd_call3(KD_NAME_FIND, (long)store, 0, 0);
    struct kd_message m = {.kind = SPLIT_OPEN, .word = {(uint64_t)flags & PS_WRITE}, .handle = -1,
                           .data = name, .data_bytes = strlen(name) + 1};
    long r = p->port < 0 ? p->port : kd_call3(KD_PORT_CALL, p->port, (long)&m, 0);
    p->number = m.word[0];
    return error_told_if(ERROR_SPLIT, r < 0 ? (int)r : m.status);
}

/* ---- opening ---- */

static int open_split(ps_split *p, const char *container, int flags, const struct ps_layout *root)
{
    int far = strchr(container, ':') != NULL, maps = (p->configured & READ) != 0;
    int opens = p->configured & COMMIT ? ~0 : ~(PS_CREATE | PS_EXCLUSIVE);
    if (maps || far)
        p->c = ps_open(container, maps ? flags & opens : 0, maps ? root : NULL);
    if ((maps || far) && !p->c)
        return -errno;
    if (p->configured & COMMIT)
        return 0;
    if (far)
        return server_there(p, container, flags);
    p->port = server_of(container, flags);
    return p->port < 0 ? p->port : 0;
}

ps_split *ps_split_open(const char *container, int flags, const struct ps_layout *root,
                        const char *text, const struct ps_operation *operations)
{
    int error = configuration(text);
    ps_split *p = error < 0 ? NULL : calloc(1, sizeof *p);
    if (!p) {
        errno = error < 0 ? -error : ENOMEM;
        return NULL;
    }
    p->configured = (unsigned)error;
    p->operations = operations;
    p->port = -1;
    error = open_split(p, container, flags, root);
    if (!error)
        return p;
    struct error_last told = error_last;                /* ps_close tells of itself */
    ps_split_close(p);
    error_last = told;
    errno = -error;
    return NULL;
}

void ps_split_close(ps_split *p)
{
    if (!p || p->active)
        return;
    struct kd_message m = {.kind = SPLIT_CLOSE, .word = {p->number}, .handle = -1};
    if (p->number)
        kd_call3(KD_PORT_CALL, p->port, (long)&m, 0);
    if (p->port >= 0)
        kd_call3(KD_HANDLE_CLOSE, p->port, 0, 0);
    if (p->c)
        ps_close(p->c);
    free(p);
}

void ps_split_counts(const ps_split *p, struct ps_split_counts *out) { *out = p->counts; }

/* ---- operations ---- */

struct work {
    ps_split *p;
    const struct ps_operation *operation;
    const void *said;
    void *argument;
};

static int run_work(void *arg)
{
    struct work *w = arg;
    memcpy(w->argument, w->said, w->operation->bytes);
    return w->operation->run(w->p->c, w->argument);
}

static int run_here(ps_split *p, const char *name, void *argument, size_t bytes)
{
    const struct ps_operation *o = p->operations;
    while (o && o->name && strcmp(o->name, name) != 0)
        o++;
    if (!o || !o->name || o->bytes != bytes)
        return o && o->name ? -EMSGSIZE : -ENOSYS;
    uint8_t done[PS_SPLIT_BYTES];
    struct work w = {p, o, argument, done};
    int error = ps_transaction(run_work, &w);
    if (!error)
        memcpy(argument, done, bytes);
    return error;
}

int ps_split_run(ps_split *p, const char *name, void *argument, size_t bytes)
{
    size_t n = strlen(name);
    if (p->active || ps_active() || bytes > PS_SPLIT_BYTES || n >= SPLIT_NAME_BYTES)
        return p->active || ps_active() ? -EBUSY : -EINVAL;
    if (p->configured & COMMIT)
        return run_here(p, name, argument, bytes);
    memset(p->sent, 0, SPLIT_NAME_BYTES);
    memcpy(p->sent, name, n);
    memcpy(p->sent + SPLIT_NAME_BYTES, argument, bytes);
    struct kd_message m = {.word = {0, SPLIT_RUN}, .data = p->sent,
                           .data_bytes = SPLIT_NAME_BYTES + bytes};
    return call(p, &m, argument, bytes);
}

/* ---- records ---- */

static int record_add(struct records *to, const void *object, size_t offset, const void *data,
                      size_t bytes, int writes)
{
    struct split_record r = {(uintptr_t)object, (uint32_t)offset, (uint16_t)bytes,
                             (uint16_t)writes};
    if (to->bytes + SPLIT_RECORD_BYTES(bytes) > PS_SPLIT_RECORDS / 2)
        return -E2BIG;
    memset(to->at + to->bytes, 0, SPLIT_RECORD_BYTES(bytes));
    memcpy(to->at + to->bytes, &r, sizeof r);
    memcpy(to->at + to->bytes + sizeof r, data, bytes);
    to->bytes += SPLIT_RECORD_BYTES(bytes);
    return 0;
}

/* written_over puts what this transaction has written itself over what was read. */
static void written_over(const ps_split *p, const void *object, size_t offset, void *to,
                         size_t bytes)
{
    for (size_t at = 0; at < p->writes.bytes;) {
        const struct split_record *r = (const void *)(p->writes.at + at);
        size_t from = r->offset > offset ? r->offset : offset;
        size_t end = r->offset + r->bytes < offset + bytes ? r->offset + r->bytes : offset + bytes;
        if (r->object == (uintptr_t)object && from < end)
            memcpy((char *)to + (from - offset), (const char *)(r + 1) + (from - r->offset),
                   end - from);
        at += SPLIT_RECORD_BYTES(r->bytes);
    }
}

static const struct made *made_of(const ps_split *p, const void *object)
{
    for (unsigned i = 0; i < p->made_count; i++)
        if (p->made[i].object == (uintptr_t)object)
            return &p->made[i];
    return NULL;
}

/* within: are these bytes in one object? New ones are the server's alone: not touched here. */
static int within(const ps_split *p, const void *object, size_t offset, size_t bytes)
{
    const struct made *m = made_of(p, object);
    size_t size = m ? m->bytes : ps_container_of(object) == p->c ? ps_size(object) : 0;
    return bytes > 0 && bytes <= PS_SPLIT_BYTES && offset <= size && bytes <= size - offset
               ? 0
               : -EINVAL;
}

/* ---- functions ---- */

/* told makes what fails the transaction's error. */
static int told(ps_split *p, int error)
{
    if (error && !p->error)
        p->error = error;
    return error;
}

void *ps_split_root(ps_split *p)
{
    struct kd_message m = {.word = {0, SPLIT_ROOT}};
    void *root = p->here & READ             ? ps_root(p->c)
                 : ask(p, &m, NULL, 0) == 0 ? (void *)(uintptr_t)m.word[2]
                                            : NULL;
    if (!root)
        errno = -told(p, p->error ? p->error : -errno);
    return root;
}

static int lock_here(const void *object, size_t offset, size_t bytes, int mode)
{
    const volatile char *at = ps_access((const char *)object + offset, bytes, mode);
    if (!at)
        return -errno;
    for (size_t i = 0; i < bytes; i += KD_PAGE_BYTES)
        (void)at[i];
    (void)at[bytes - 1];
    return 0;
}

int ps_split_lock(ps_split *p, const void *object, int mode)
{
    struct kd_message m = {.word = {0, SPLIT_LOCK, (uintptr_t)object, 0, 0, (uint64_t)mode}};
    if (mode != PS_S && mode != PS_X)
        return told(p, -EINVAL);
    if (!(p->here & LOCK))
        return ask(p, &m, NULL, 0);
    size_t size = made_of(p, object)                ? 0
                  : ps_container_of(object) == p->c ? ps_size(object) : 0;
    if (made_of(p, object))
        return 0;
    return told(p, size ? lock_here(object, 0, size, mode) : -EINVAL);
}

static int read_here(ps_split *p, const void *object, size_t offset, void *to, size_t bytes)
{
    int error = within(p, object, offset, bytes), made = made_of(p, object) != NULL;
    if (!error && !made)
        error = lock_here(object, offset, bytes, PS_S);
    if (error)
        return error;
    if (made)
        memset(to, 0, bytes);
    else
        memcpy(to, (const char *)object + offset, bytes);
    return made || p->here & COMMIT ? 0 : record_add(&p->reads, object, offset, to, bytes, 0);
}

int ps_split_read(ps_split *p, const void *object, size_t offset, void *to, size_t bytes)
{
    struct kd_message m = {.word = {0, SPLIT_READ, (uintptr_t)object, offset, bytes}};
    int error = p->here & READ ? read_here(p, object, offset, to, bytes) : ask(p, &m, to, bytes);
    if (!error)
        written_over(p, object, offset, to, bytes);
    return told(p, error);
}

/* keep sends a record to the server as it is made; the server keeps it. */
static int keep(ps_split *p, const void *object, size_t offset, const void *from, size_t bytes)
{
    struct records one = {0};
    (void)record_add(&one, object, offset, from, bytes, 1);
    struct kd_message m = {.word = {0, SPLIT_KEEP}, .data = one.at, .data_bytes = one.bytes};
    return ask(p, &m, NULL, 0);
}

int ps_split_write(ps_split *p, void *object, size_t offset, const void *from, size_t bytes)
{
    struct kd_message m = {.word = {0, SPLIT_WRITE, (uintptr_t)object, offset}, .data = from,
                           .data_bytes = bytes};
    if (bytes == 0 || bytes > PS_SPLIT_BYTES)
        return told(p, -EINVAL);
    if (!(p->here & (LOCK | LOG)))
        return ask(p, &m, NULL, 0);
    int error = p->here & LOCK ? within(p, object, offset, bytes) : 0;
    if (!error && p->here & LOCK && !made_of(p, object))
        error = lock_here(object, offset, bytes, PS_X);
    if (!error && p->here & COMMIT) {
        memcpy((char *)object + offset, from, bytes);
        return 0;
    }
    if (!error)
        error = record_add(&p->writes, object, offset, from, bytes, 1);
    if (!error && !(p->here & LOG))
        error = keep(p, object, offset, from, bytes);
    return told(p, error);
}

void *ps_split_alloc(ps_split *p, size_t bytes, const void *near)
{
    struct kd_message m = {.word = {0, SPLIT_ALLOCATE, (uintptr_t)near, 0, bytes,
                                    (p->here & LOCK) != 0}};
    void *object = NULL;
    int error;
    if (p->here & ALLOCATE) {
        object = ps_alloc(p->c, bytes, near);
        error = object ? 0 : -errno;
    } else {
        error = p->made_count == NEW_MAX ? -E2BIG : ask(p, &m, NULL, 0);
        object = error ? NULL : (void *)(uintptr_t)m.word[2];
        if (object)
            p->made[p->made_count++] = (struct made){(uintptr_t)object, bytes};
    }
    if (error)
        errno = -told(p, error);
    return object;
}

/* ---- transactions ---- */

struct body { ps_split *p; int (*fn)(ps_split *p, void *arg); void *arg; int sends; };

/* server_forget ends what the server has of a run that is over. */
static void server_forget(ps_split *p)
{
    struct kd_message m = {.word = {0, SPLIT_ABORT}};
    if (p->begun)
        (void)call(p, &m, NULL, 0);
    p->begun = p->error = 0;
    p->reads.bytes = p->writes.bytes = p->made_count = 0;
}

static int body_run(struct body *b)
{
    server_forget(b->p);
    int error = b->fn(b->p, b->arg);
    return b->p->error ? b->p->error : error;
}

static int server_commit(ps_split *p)
{
    struct kd_message m = {.word = {0, SPLIT_COMMIT}, .data = p->sent,
                           .data_bytes = p->reads.bytes};
    memcpy(p->sent, p->reads.at, p->reads.bytes);
    if (p->here & LOG) {
        memcpy(p->sent + p->reads.bytes, p->writes.at, p->writes.bytes);
        m.data_bytes += p->writes.bytes;
    }
    int error = ask(p, &m, NULL, 0);
    p->begun = 0;
    return error;
}

/* body_here runs in the client's own transaction, which is undone where the server commits. What
 * only read ends by itself: its locks are all that it needs. */
static int body_here(void *arg)
{
    struct body *b = arg;
    b->sends = 0;
    int error = body_run(b);
    b->sends = !error && !(b->p->here & COMMIT) && (b->p->writes.bytes || b->p->begun);
    return error ? error : b->sends;
}

static int once(struct body *b)
{
    ps_split *p = b->p;
    const struct ps_options options = {.timeout_ms = p->here & COMMIT ? 0 : PATIENCE_MS,
                                       .apart = p->here & COMMIT ? 0 : VIEW};
    int error = p->here & LOCK ? ps_transaction_opt(body_here, b, &options) : body_run(b);
    if (p->here & COMMIT)
        return error;
    if (p->here & LOCK ? b->sends : !error)
        error = server_commit(p);
    server_forget(p);
    return error;
}

int ps_split_transaction(ps_split *p, int (*fn)(ps_split *p, void *arg), void *arg)
{
    struct body b = {p, fn, arg, 0};
    int error, failed = 0;
    if (p->active || ps_active())
        return -EBUSY;
    p->active = 1;
    p->here = p->configured;
    do {
        error = once(&b);
        int between = error == -ESTALE || error == -EDEADLK ||
                      (error == -ETIMEDOUT && p->here & LOCK);
        if (!between || p->here & COMMIT)
            break;
        p->counts.again++;
        if (++failed == TRIES || error == -ETIMEDOUT)
            p->here = 0;
    } while (1);
    p->active = 0;
    return error;
}
