/*
 * manager.c - km_*: a manager's objects, what it says to the kernel, and a client's way to it. What
 * the kernel says to it: manager_serve.c.
 *
 * A process has one port for what the kernel says of all its objects, and one for its clients,
 * which is published under the name of the first object.
 *
 * KO1  The memory of a struct km_object is never freed, only used for another object: so a thread
 *      may look at one that ends. Its number is new each time; whoever counted itself as a user,
 *      and then finds the number it wants, has the object until object_done.
 *
 * Locks: `lock` guards the table of objects.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "answer_private.h"
#include "katydid/call.h"
#include "manager_private.h"
#include "pstore.h"

#define DISK_SECTOR 512
enum { PRLIMIT64 = 302 };

#define SAME(km, kd) ((unsigned long long)(km) == (unsigned long long)(kd))
_Static_assert(SAME(KM_READ, KD_READ) && SAME(KM_WRITE, KD_WRITE) && KM_CSN_ANY == KD_CSN_ANY &&
                   SAME(KM_PAGE_BYTES, KD_PAGE_BYTES) && SAME(KM_NAME_MAX, KD_NAME_MAX) &&
                   SAME(KM_VIEWS_MAX, KD_VIEW_MAX) && SAME(KM_RESIDENT, KD_PAGE_RESIDENT) &&
                   SAME(KM_WORDS, KD_WORDS) && SAME(KM_CREDITS_CLOSED, KD_CREDITS_CLOSED) &&
                   SAME(KM_DIRTY, KD_PAGE_DIRTY) && SAME(KM_WRITER, KD_PAGE_WRITER) &&
                   SAME(KM_PINNED, KD_PAGE_PINNED) && SAME(KM_USED, KD_PAGE_USED),
               "manager.h says what the kernel means");
_Static_assert(SAME(KM_NORMAL, KD_ADVISE_NORMAL) && SAME(KM_SEQUENTIAL, KD_ADVISE_SEQUENTIAL) &&
                   SAME(KM_RANDOM, KD_ADVISE_RANDOM) && SAME(KM_WILL_NEED, KD_ADVISE_WILL_NEED) &&
                   SAME(KM_DONT_NEED, KD_ADVISE_DONT_NEED) && SAME(KM_EVICT, KD_ADVISE_EVICT) &&
                   SAME(KM_MEMORY, KD_ADVISE_MEMORY) && SAME(KM_FREED, KD_ADVISE_FREED),
               "its advice, too");
_Static_assert(sizeof(struct km_run) == sizeof(struct kd_run) &&
                   offsetof(struct km_run, offset) == offsetof(struct kd_run, offset) &&
                   SAME(KM_RUN_FULL, KD_RUN_FULL) && SAME(KM_RUN_LAST, KD_RUN_LAST),
               "and its runs");

struct manager manager = {.port = -1, .calls = -1, .commits = -1};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned generation;             /* lock; makes numbers new */

static long call1(long number, const void *a) { return kd_call3(number, (long)a, 0, 0); }

/* ---- objects ---- */

static void ports_close(void)
{
    kd_call3(KD_HANDLE_CLOSE, manager.port, 0, 0);
    kd_call3(KD_HANDLE_CLOSE, manager.calls, 0, 0);
    manager.port = manager.calls = -1;
}

/* ports_make makes the manager's ports; name NULL: nothing is published. */
static int ports_make(const char *name)
{
    if (manager.port >= 0) return 0;
    long p = kd_call3(KD_PORT_CREATE, 0, 0, 0);
    long c = p < 0 ? p : kd_call3(KD_PORT_CREATE, 0, 0, 0);
    manager.port = (int)p;
    manager.calls = (int)c;
    long r = c < 0 || !name ? c : kd_call3(KD_NAME_SET, (long)name, c, 0);
    if (r == -EPERM) ps_lacks(KD_RIGHT_NAMES);
    if (r < 0) ports_close();
    return r < 0 ? (int)r : 0;
}

int manager_commit_port(void)
{
    return manager.commits >= 0 ? manager.commits : manager.protocol ? manager.calls : manager.port;
}

static int object_make(struct km_object *o, unsigned at)
{
    int r = ports_make(o->base ? NULL : o->name);
    if (r < 0) return r;
    o->number = at | (uint64_t)++generation << 16;
    struct kd_object_create create = {
        .port = manager.port, .commit_port = manager_commit_port(), .cookie = o->number,
        .base = o->base, /* 0: the kernel chooses, never the same for two */
        .pages = o->pages,
        .flags = (o->flags & KM_TRANSACTIONAL ? KD_OBJECT_TRANSACTIONAL : 0)
                 | (o->flags & KM_UNLOCKED ? KD_OBJECT_UNLOCKED : 0)
                 | (o->ops->gone ? KD_OBJECT_NOTICES : 0)};
    memcpy(create.name, o->name, sizeof(o->name));
    long handle = call1(KD_OBJECT_CREATE, &create);
    if (handle < 0) {
        o->number = NO_OBJECT;
        return (int)handle;
    }
    o->handle = (int)handle;
    o->base = create.base;
    return 0;
}

/* place_free finds an empty place in the table, with one user; NULL: -EMFILE, -ENOMEM. Locked. */
static struct km_object *place_free(unsigned *at, int *error)
{
    *error = -EMFILE;
    for (*at = 0; *at < KM_OBJECTS_MAX; ++*at) {
        struct km_object **o = &manager.objects[*at];
        int nobody = 0;
        if (!*o) {
            *error = -ENOMEM;
            struct km_object *new = calloc(1, sizeof(*new));
            if (!new) return NULL;
            new->number = NO_OBJECT;
            __atomic_store_n(o, new, __ATOMIC_RELEASE);
        }
        if (__atomic_compare_exchange_n(&(*o)->users, &nobody, 1, 0, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST))
            return *o;
    }
    return NULL;
}

int object_create(const char *name, uint64_t base, uint64_t pages, int flags,
                  const struct km_ops *ops, void *user, struct km_object **out)
{
    unsigned at;
    int r;
    if (!name || !name[0] || pages == 0 || !ops || !out) return -EINVAL;
    if (strlen(name) >= KD_NAME_MAX) return -ENAMETOOLONG;
    pthread_mutex_lock(&lock);
    struct km_object *o = place_free(&at, &r);
    if (o) {
        o->flags = flags;
        o->base = base;
        o->pages = pages;
        o->ops = ops;
        o->user = user;
        o->cleaned_from = 0;
        strcpy(o->name, name);
        r = object_make(o, at);
        if (r < 0)
            object_done(o);
        else
            *out = o;
    }
    pthread_mutex_unlock(&lock);
    return r;
}

int km_create(const char *name, uint64_t pages, int flags, const struct km_ops *ops, void *user,
              struct km_object **out)
{
    return object_create(name, 0, pages, flags, ops, user, out);
}

int km_protocol(const char *name, const struct km_protocol *p)
{
    if (!name || !name[0] || !p || !p->message || manager.port >= 0 || manager.commits >= 0)
        return -EINVAL;
    if (strlen(name) >= KD_NAME_MAX) return -ENAMETOOLONG;
    manager.messages = calloc(1, KD_DATA_MAX);
    int r = manager.messages ? ports_make(name) : -ENOMEM;
    if (r == 0)
        manager.protocol = p;
    else
        free(manager.messages);
    return r;
}

int km_admit(struct km_object *o, uint64_t process, int flags)
{
    if (flags & ~o->flags & KM_WRITE) return -EACCES;
    return (int)kd_call3(KD_SPACE_ATTACH, (long)process, o->handle,
                         flags & KM_WRITE ? KD_RIGHT_READ | KD_RIGHT_WRITE : KD_RIGHT_READ);
}

int km_dismiss(struct km_object *o, uint64_t process)
{
    return (int)kd_call3(KD_SPACE_DETACH, (long)process, o->handle, 0);
}

int km_admitted(struct km_object *o, uint64_t process)
{
    long rights = kd_call3(KD_SPACE_RIGHTS, (long)process, o->handle, 0);
    if (rights <= 0) return (int)rights;
    return rights & KD_RIGHT_WRITE ? KM_READ | KM_WRITE : KM_READ;
}

int km_attach(struct km_object *o) { return km_admit(o, (uint64_t)getpid(), o->flags & KM_WRITE); }

int km_end(struct km_object *o, int if_unused)
{
    long r = kd_call3(KD_OBJECT_DESTROY, o->handle, if_unused != 0, 0);
    if (r < 0) return (int)r;
    __atomic_store_n(&o->number, NO_OBJECT, __ATOMIC_SEQ_CST);
    object_done(o);
    return 0;
}

void *km_address(struct km_object *o) { return (void *)o->base; }
uint64_t km_pages(const struct km_object *o) { return o->pages; }

/* ---- answers ---- */

static uint32_t page_rights(const struct km_object *o)
{
    return o->flags & KM_ASK ? 0 : KD_READ | (o->flags & KM_WRITE ? KD_WRITE : 0);
}

static int supply(struct km_object *o, uint32_t source, uint64_t page, uint64_t count,
                  const void *memory)
{
    struct kd_supply s = {
        .object = o->handle, .source = source, .rights = page_rights(o), .page = page,
        .count = count, .memory = memory, .csn = manager.read_at ? manager.read_at() : 0};
    return (int)call1(KD_OBJECT_SUPPLY, &s);
}

int km_supply(struct km_request *r, const void *pages, uint64_t count)
{
    return supply(r->object, KD_SUPPLY_MEMORY, r->page, count, pages);
}

void km_answer(struct km_request *r, const void *pages, uint64_t count, int error)
{
    r->count = count ? count : 1;
    if (!error && (pages ? km_supply(r, pages, count) : km_zero(r)) == -ENOMEM) error = ENOMEM;
    if (error) (void)km_fail(r, error);
}

int km_supply_disk(struct km_request *r, int disk, uint64_t sector, uint64_t count)
{
    struct kd_page_io io[KM_DISK_PAGES_MAX];
    if (count == 0 || count > KM_DISK_PAGES_MAX) return -EINVAL;
    for (uint64_t i = 0; i < count; i++)
        io[i] = (struct kd_page_io){
            .object = r->object->handle, .page = r->page + i,
            .offset_bytes = sector * DISK_SECTOR + i * KD_PAGE_BYTES};
    long e = kd_call3(KD_BLOCK_READ_PAGES, disk, (long)io, (long)count);
    for (uint64_t i = 0; e >= 0 && i < count; i++) e = (long)io[i].status;
    return e < 0 ? km_fail(r, EIO) : supply(r->object, KD_SUPPLY_READ, r->page, count, NULL);
}

int km_zero(struct km_request *r)
{
    return supply(r->object, KD_SUPPLY_ZERO, r->page, r->count, NULL);
}

int km_grant(struct km_request *r)
{
    return (int)kd_call6(KD_OBJECT_GRANT, r->object->handle, (long)r->page, (long)r->count,
                         r->access & KM_WRITE ? KD_READ | KD_WRITE : KD_READ, (long)r->token, 0);
}

int km_grant_all(struct km_object *o, uint64_t page, uint64_t count, int rights)
{
    return (int)kd_call4(KD_OBJECT_GRANT, o->handle, (long)page, (long)count, rights);
}

int km_fail(struct km_request *r, int error)
{
    return (int)kd_call6(KD_OBJECT_FAIL, r->object->handle, (long)r->page, (long)r->count,
                         error < 0 ? -error : error, (long)r->token, 0);
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

int km_used(struct km_object *o, uint64_t page, uint64_t count, uint8_t *bits)
{
    return (int)kd_call6(KD_OBJECT_INFO, o->handle, (long)page, (long)count, (long)bits,
                         KD_INFO_USES, 0);
}

int km_recall(struct km_object *o, uint64_t page, uint64_t count, int to, uint64_t users[2])
{
    return (int)kd_call6(KD_OBJECT_RECALL, o->handle, (long)page, (long)count, to, (long)users, 0);
}

int km_write_home(struct km_object *o, uint64_t page, int disk, uint64_t sector, uint64_t *csn,
                  uint32_t *crc)
{
    struct kd_page_io io = {.object = o->handle, .page = page,
                            .offset_bytes = sector * DISK_SECTOR};
    long r = kd_call3(KD_BLOCK_WRITE_PAGES, disk, (long)&io, 1);
    if (r >= 0) r = (long)io.status;
    if (r < 0) return (int)r;
    if (csn) *csn = io.csn;
    if (crc) *crc = io.crc;
    return 0;
}

int km_read(struct km_object *o, uint64_t page, void *bytes, uint64_t *csn)
{
    return (int)kd_call4(KD_OBJECT_READ, o->handle, (long)page, (long)bytes, (long)csn);
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
    return (int)kd_call3(KD_CREDIT_GRANT, manager_commit_port(), (long)copies, 0);
}

int km_abort(uint64_t view, int error)
{
    return (int)kd_call3(KD_VIEW_ABORT, (long)view, error < 0 ? -error : error, 0);
}

/* ---- disks ---- */

int km_disk_open(const char *name, uint64_t *bytes)
{
    struct kd_block_info info = {0};
    long disk = kd_call3(KD_BLOCK_OPEN, (long)name, (long)&info, 0);
    if (disk >= 0) *bytes = info.bytes;
    return (int)disk;
}

int km_disk_read(int disk, uint64_t offset_bytes, void *to, size_t bytes)
{
    return (int)kd_call4(KD_BLOCK_READ, disk, (long)offset_bytes, (long)to, (long)bytes);
}

int km_disk_write(int disk, uint64_t offset_bytes, const void *from, size_t bytes)
{
    return (int)kd_call4(KD_BLOCK_WRITE, disk, (long)offset_bytes, (long)from, (long)bytes);
}

int km_disk_flush(int disk) { return (int)kd_call3(KD_BLOCK_FLUSH, disk, 0, 0); }

/* ---- clients ---- */

/* call_until waits as long as the process does for managers (`limit answer`), `ms` at most. */
static long call_until(long port, uint64_t ms, struct kd_message *m)
{
    uint64_t limit[2] = {~0ull, ~0ull};
    kd_call4(PRLIMIT64, 0, KD_RLIMIT + KD_LIMIT_ANSWER, 0, (long)limit);
    if (ms > limit[0]) ms = limit[0];
    if (ms > INT_MAX) return kd_call3(KD_PORT_CALL, port, (long)m, 0);
    return kd_call3(KD_PORT_CALL_UNTIL, port, (long)m, (long)ms);
}

/* client_call calls a manager by its name, or one whose port is known already. */
static long client_call(const char *manager, int known, uint64_t ms, struct kd_message *m)
{
    long found = manager ? kd_call3(KD_NAME_FIND, (long)manager, 0, 0) : known;
    if (found < 0) return found;
    long r = call_until(found, ms, m);
    if (manager) kd_call3(KD_HANDLE_CLOSE, found, 0, 0);
    return r;
}

static long open_call(const char *manager, int known, uint64_t ms, const char *object, int flags,
                      struct kd_message *m)
{
    *m = (struct kd_message){.kind = CALL_OPEN, .handle = -1, .word = {(uint64_t)flags},
                             .data = object, .data_bytes = strlen(object) + 1};
    return client_call(manager, known, ms, m);
}

void *client_open(const char *manager, int known, uint64_t ms, const char *object, int flags)
{
    struct kd_message m;
    unsigned times = 0;
    long r;
    do
        r = open_call(manager, known, ms, object, flags, &m);
    while (open_again(r, &times));
    if (r < 0) {
        errno = (int)-r;
        return NULL;
    }
    return (void *)m.word[0];
}

int client_ask(const char *manager, int known, uint64_t ms, const char *object, void *message,
               int bytes)
{
    struct kd_message m;
    if (bytes < 0 || bytes > KM_MESSAGE_BYTES) return -EMSGSIZE;
    long r = open_call(manager, known, ms, object, 0, &m);
    if (r < 0) return (int)r;
    m = (struct kd_message){.kind = CALL_USER, .handle = -1, .word = {m.word[1]}, .data = message,
                            .data_bytes = (uint64_t)bytes, .buffer = message,
                            .buffer_bytes = (uint64_t)bytes};
    return (int)client_call(manager, known, ms, &m);
}
