/* fake_store.c - see fake_store.h. */
#include "fake_store.h"

#include "pstore_private.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { CONTAINERS = 4, VIEWS = 16, NAMES = 64, PORT = 7, SEGMENT_PAGES = 262144 };
enum page_state { PAGE_NEVER, PAGE_LEASED, PAGE_USED, PAGE_FREED };

struct saved { struct saved *next; uint64_t page; char before[4096], after[4096]; };
struct fake_view {
    int exists, active, doomed;
    struct kd_begin begin;
    struct saved *saved;                  /* pages written by its transaction */
};
static struct fake_container {
    int exists, opens;
    struct wire_open made;
    uint64_t base, next;
    uint8_t state[FAKE_PAGES];
    uint32_t room[FAKE_PAGES];
} containers[CONTAINERS];
static struct fake_name { uint64_t container, address, bytes; char name[64]; } names[NAMES];
static struct fake_view views[VIEWS];
static int entered = -1, manager_alive, looking;
static unsigned abort_at, space_left;
static int abort_reason, refusal;
static struct fake_name stolen;
uint64_t fake_protocol = STORE_PROTOCOL_VERSION;
struct fake_counts fake_counts;

/* ---- memory ---- */

static struct fake_container *container_at(uint64_t address)
{
    for (int i = 0; i < CONTAINERS; i++)
        if (containers[i].exists && address >= containers[i].base &&
            address < containers[i].base + (uint64_t)FAKE_PAGES * 4096)
            return &containers[i];
    return NULL;
}

static void *pointer(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

static void protect(uint64_t page, int how)
{
    if (mprotect(pointer(page), 4096, how) != 0)
        abort();
}

static void protect_all(int how)
{
    for (int i = 0; i < CONTAINERS; i++)
        if (containers[i].exists)
            mprotect(pointer(containers[i].base), (size_t)FAKE_PAGES * 4096, how);
}

static void hide_all(void)
{
    protect_all(looking ? PROT_READ : PROT_NONE);
}

static void page_save(struct fake_view *v, uint64_t page)
{
    struct saved *s = malloc(sizeof *s);
    s->page = page;
    memcpy(s->before, pointer(page), 4096);
    s->next = v->saved;
    v->saved = s;
}

static void saved_drop(struct fake_view *v)
{
    while (v->saved) {
        struct saved *s = v->saved;
        v->saved = s->next;
        free(s);
    }
}

static void undo(struct fake_view *v)
{
    protect_all(PROT_READ | PROT_WRITE);
    for (struct saved *s = v->saved; s; s = s->next)
        memcpy(pointer(s->page), s->before, 4096);
    hide_all();
    saved_drop(v);
    v->active = 0;
    fake_counts.aborts++;
}

static void die(const char *what, uint64_t address)
{
    fprintf(stderr, "fake kernel: %s at %#llx\n", what, (unsigned long long)address);
    signal(SIGSEGV, SIG_DFL);
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)number;
    ucontext_t *u = context;
    uint64_t address = (uintptr_t)info->si_addr, page = address & ~4095ull;
    int write = (u->uc_mcontext.gregs[REG_ERR] & 2) != 0;
    struct fake_view *v = entered >= 0 ? &views[entered] : NULL;
    if (!container_at(address) || !v || !v->active) {
        die("touched outside a transaction", address);
        return;
    }
    fake_counts.faults++;
    if (abort_at && --abort_at == 0) {
        undo(v);
        u->uc_mcontext.gregs[REG_RIP] = (greg_t)v->begin.entry;
        u->uc_mcontext.gregs[REG_RSP] = (greg_t)v->begin.stack;
        u->uc_mcontext.gregs[REG_RDI] = abort_reason;
        return;
    }
    protect(page, PROT_READ);
    if (write) {
        fake_counts.write_faults++;
        page_save(v, page);
        protect(page, PROT_READ | PROT_WRITE);
    }
}

/* ---- the manager ---- */

static struct fake_container *container_by_id(uint64_t id)
{
    return id >= 1 && id <= CONTAINERS && containers[id - 1].exists ? &containers[id - 1] : NULL;
}

static int manager_open(const struct wire_open *r, struct wire_opened *o)
{
    struct fake_container *c = NULL, *empty = NULL;
    if (!r->name[0])
        return -ENAMETOOLONG; /* it comes as a path, and here are no directories */
    for (int i = CONTAINERS - 1; i >= 0; i--) {
        if (containers[i].exists && strcmp(containers[i].made.name, r->name) == 0)
            c = &containers[i];
        if (!containers[i].exists)
            empty = &containers[i];
    }
    memset(o, 0, sizeof *o);
    if (!c && !(r->flags & PS_CREATE))
        return -ENOENT;
    if (c && r->flags & PS_EXCLUSIVE)
        return -EEXIST;
    if (c && r->bytes && (strcmp(c->made.type, r->type) || c->made.bytes != r->bytes ||
                          c->made.version != r->version))
        return -EPROTO;
    if (!c && !empty)
        return -ENOSPC;
    if (!c) {
        c = empty;
        memset(c, 0, sizeof *c);
        c->made = *r;
        c->exists = 1;
        c->base = KD_STORE_BASE + (uint64_t)(c - containers) * SEGMENT_PAGES * 4096;
        if (mmap(pointer(c->base), (size_t)FAKE_PAGES * 4096, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED)
            abort();
        o->created = 1;
    }
    c->opens++;
    o->container = (uint64_t)(c - containers) + 1;
    o->base = c->base;
    o->pages = SEGMENT_PAGES;
    for (int i = 0; i < NAMES; i++)
        if (names[i].container == o->container && strcmp(names[i].name, ROOT_NAME) == 0)
            o->root_address = names[i].address;
    return 0;
}

static int pages_are_free(const struct fake_container *c, uint64_t first, uint64_t pages)
{
    for (uint64_t i = first; i < first + pages; i++)
        if (i >= FAKE_PAGES || (c->state[i] != PAGE_NEVER && c->state[i] != PAGE_FREED))
            return 0;
    return 1;
}

static int manager_lease(uint64_t word[])
{
    struct fake_container *c = container_by_id(word[0]);
    uint64_t pages = word[1];
    if (!c)
        return -ENOENT;
    if (pages > space_left)
        return -ENOSPC;
    uint64_t first = word[2] ? (word[2] - c->base) / 4096 : 0;
    while (first < FAKE_PAGES && !pages_are_free(c, first, pages))
        first++;
    if (first >= FAKE_PAGES)
        return -ENOSPC;
    for (uint64_t i = first; i < first + pages; i++)    /* what was freed comes back as zeros */
        if (c->state[i] == PAGE_FREED) {  /* ... and not as the transaction's own stores */
            mprotect(pointer(c->base + i * 4096), 4096, PROT_READ | PROT_WRITE);
            memset(pointer(c->base + i * 4096), 0, 4096);
            mprotect(pointer(c->base + i * 4096), 4096, looking ? PROT_READ : PROT_NONE);
        }
    memset(&c->state[first], PAGE_LEASED, pages);
    space_left -= (unsigned)pages;
    fake_counts.leases++;
    word[0] = c->base + first * 4096;
    return 0;
}

static int manager_space(uint64_t word[])
{
    struct fake_container *c = container_by_id(word[0]);
    fake_counts.spaces++;
    for (uint64_t i = 0; c && i < FAKE_PAGES; i++)
        if (c->state[i] == PAGE_USED && c->room[i] >= word[1] &&
            WIRE_ROOM_TAG_OF(c->room[i]) == WIRE_ROOM_TAG_OF(word[1])) {
            word[0] = c->base + i * 4096;
            return 0;
        }
    return -ENOENT;
}

static int manager_named(uint64_t word[], const char *name)
{
    for (int i = 0; i < NAMES; i++)
        if (names[i].container == word[0] && strcmp(names[i].name, name) == 0) {
            word[0] = names[i].address;
            word[1] = names[i].bytes;
            return 0;
        }
    return -ENOENT;
}

static int manager_name_set(uint64_t container, const char *name, uint64_t address, uint64_t bytes)
{
    uint64_t word[2] = {container};
    if (manager_named(word, name) == 0)
        return -EEXIST;
    for (int i = 0; i < NAMES; i++)
        if (names[i].container == 0) {
            names[i] =
                (struct fake_name){ .container = container, .address = address, .bytes = bytes };
            strncpy(names[i].name, name, 63);
            fake_counts.names++;
            return 0;
        }
    return -ENOSPC;
}

static int manager_list(struct kd_message *m)
{
    struct wire_entry *e = m->buffer;
    uint64_t all = 0, told = 0;
    for (int i = 0; i < CONTAINERS; i++) {
        if (!containers[i].exists)
            continue;
        all++;
        if ((uint64_t)i + 1 <= m->word[0] || (m->word[1] && told == m->word[1]) ||
            (told + 1) * sizeof *e > m->buffer_bytes)
            continue;
        memset(&e[told], 0, sizeof *e);
        memcpy(e[told].name, containers[i].made.name, 64);
        e[told++].container = (uint64_t)i + 1;
    }
    m->word[0] = all;
    m->buffer_bytes = told * sizeof *e;
    return 0;
}

static int manager_delete(const char *name)
{
    for (int i = 0; i < CONTAINERS; i++)
        if (containers[i].exists && strcmp(containers[i].made.name, name) == 0) {
            if (containers[i].opens)
                return -EBUSY;
            containers[i].exists = 0;
            return 0;
        }
    return -ENOENT;
}

/* The next run of used pages behind an address. */
static int manager_next(const struct fake_container *c, uint64_t word[])
{
    uint64_t page = word[1] ? (word[1] - c->base) / 4096 + 1 : 0, end;
    while (page < FAKE_PAGES && c->state[page] != PAGE_USED)
        page++;
    for (end = page; end < FAKE_PAGES && c->state[end] == PAGE_USED;)
        end++;
    word[0] = page < FAKE_PAGES ? c->base + page * 4096 : 0;
    word[1] = end - page;
    word[2] = 0;
    return 0;
}

static int manager_call(struct kd_message *m)
{
    struct fake_container *c = container_by_id(m->word[0]);
    fake_counts.requests++;
    switch (m->kind) {
    case STORE_HELLO: {
        int known = m->word[0] == fake_protocol;
        m->word[0] = fake_protocol;
        return known ? 0 : -EPROTONOSUPPORT;
    }
    case STORE_OPEN:
        m->buffer_bytes = sizeof(struct wire_opened);
        return manager_open(m->data, m->buffer);
    case STORE_CLOSE:
        if (!c)
            return -ENOENT;
        c->opens--;
        return 0;
    case STORE_DELETE: return manager_delete(m->data);
    case STORE_LIST: return manager_list(m);
    case STORE_LEASE: return manager_lease(m->word);
    case STORE_SPACE: return manager_space(m->word);
    case STORE_UNLEASE:
        c = container_at(m->word[0]);
        memset(&c->state[(m->word[0] - c->base) / 4096], PAGE_NEVER, m->word[1]);
        space_left += (unsigned)m->word[1];
        return 0;
    case STORE_NEXT: return c ? manager_next(c, m->word) : -ENOENT;
    case STORE_NAMED: return manager_named(m->word, m->data);
    case STORE_STATS:
        memset(m->buffer, 0, sizeof(struct wire_stats));
        m->buffer_bytes = sizeof(struct wire_stats);
        return 0;
    default: return -ENOSYS;
    }
}

/* ---- commit ---- */

static int op_apply(const struct wire_op *op)
{
    struct fake_container *c = container_by_id(op->container);
    uint64_t page = (op->address - c->base) / 4096;
    switch (op->kind) {
    case WIRE_NAME_SET:
        return manager_name_set(op->container, op->name, op->address, op->value);
    case WIRE_PAGE_FREE:
        for (uint64_t i = page; i < page + op->value; i++) {
            space_left += c->state[i] != PAGE_FREED && c->state[i] != PAGE_NEVER;
            c->state[i] = PAGE_FREED;
            c->room[i] = 0;
            memset(pointer(c->base + i * 4096), 0xab, 4096);
        }
        fake_counts.pages_freed += (unsigned)op->value;
        return 0;
    case WIRE_PAGE_CLAIM:
        for (uint64_t i = page; i < page + op->value; i++) {
            fake_counts.wrong_pages += c->state[i] == PAGE_NEVER || c->state[i] == PAGE_FREED;
            c->state[i] = PAGE_USED;
        }
        return 0;
    case WIRE_ROOM: c->room[page] = (uint32_t)op->value; return 0;
    default: return -EINVAL;
    }
}

static void pages_count(struct fake_view *v)
{
    for (struct saved *s = v->saved; s; s = s->next) {
        struct fake_container *c = container_at(s->page);
        uint8_t *state = &c->state[(s->page - c->base) / 4096];
        if (*state == PAGE_NEVER || *state == PAGE_FREED)
            fake_counts.wrong_pages += memcmp(s->before, pointer(s->page), 4096) != 0;
        else
            *state = PAGE_USED;
    }
}

/* The first error of the batch, before anything is applied. */
static int batch_check(const char *batch, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes;) {
        const struct wire_op *op = (const void *)(batch + at);
        uint64_t word[2] = {op->container};
        if (op->kind == WIRE_NAME_SET && manager_named(word, op->name) == 0)
            return -EEXIST;
        at += op->op_bytes;
    }
    return 0;
}

static long commit(struct fake_view *v, struct kd_commit *k)
{
    if (stolen.container)
        manager_name_set(stolen.container, stolen.name, stolen.address, stolen.bytes);
    stolen.container = 0;
    int result = refusal ? -refusal : batch_check(k->batch, k->batch_bytes);
    refusal = 0;
    if (result != 0) {
        undo(v);
        return result;
    }
    protect_all(PROT_READ | PROT_WRITE);
    pages_count(v);
    for (uint64_t at = 0; at < k->batch_bytes;) {
        const struct wire_op *op = (const void *)((const char *)k->batch + at);
        if (op_apply(op) != 0)
            abort();
        at += op->op_bytes;
    }
    hide_all();
    saved_drop(v);
    v->active = 0;
    fake_counts.commits++;
    return 0;
}

/* ---- the kernel ---- */

static void leave(void)
{
    if (entered < 0)
        return;
    protect_all(PROT_READ | PROT_WRITE);
    for (struct saved *s = views[entered].saved; s; s = s->next) {
        memcpy(s->after, pointer(s->page), 4096);
        memcpy(pointer(s->page), s->before, 4096);
    }
    hide_all();
    entered = -1;
}

static long enter(int view)
{
    if (view >= VIEWS || (view >= 0 && !views[view].exists))
        return -EBADF;
    leave();
    entered = view;
    if (view < 0)
        return 0;
    protect_all(PROT_READ | PROT_WRITE);
    for (struct saved *s = views[view].saved; s; s = s->next)
        memcpy(pointer(s->page), s->after, 4096);
    hide_all();
    return 0;
}

static long view_create(void)
{
    for (int i = 0; i < VIEWS; i++)
        if (!views[i].exists) {
            views[i] = (struct fake_view){.exists = 1};
            return i;
        }
    return -EMFILE;
}

/* At each begin, for cmocka has a handler of its own for each test. */
static void faults_catch(void)
{
    static char stack[65536];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_sigaction = on_fault,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigaltstack(&alternate, NULL);
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
}

static long begin(struct kd_begin *b)
{
    static uint64_t tickets;
    if (entered < 0)
        return -EINVAL;
    if (!manager_alive)
        return -EOWNERDEAD;
    if (b->ticket == 0)
        b->ticket = ++tickets;
    faults_catch();
    views[entered].begin = *b;
    views[entered].active = 1;
    return 0;
}

long ps_kernel(long number, long a, long b, long c)
{
    (void)c;
    struct kd_message *m = (struct kd_message *)b;
    switch (number) {
    case KD_NAME_FIND: return manager_alive ? PORT : -ENOENT;
    case KD_HANDLE_CLOSE: return 0;
    case KD_PORT_CALL:
        if (!manager_alive || a != PORT)
            return -EOWNERDEAD;
        m->status = manager_call(m);
        return 0;
    case KD_VIEW_CREATE: return view_create();
    case KD_VIEW_ENTER: return enter((int)a);
    case KD_TXN_BEGIN: return begin((struct kd_begin *)a);
    case KD_TXN_COMMIT: return commit(&views[entered], (struct kd_commit *)a);
    case KD_TXN_ABORT: undo(&views[entered]); return 0;
    case KD_TXN_HINT: return 0;
    case KD_VIEW_STATS: memset((void *)a, 0, sizeof(struct kd_view_stats)); return 0;
    case KD_CONTAINER_INFO: return -ENOENT;
    default: return -ENOSYS;
    }
}

/* ---- what tests turn ---- */

void fake_reset(void)
{
    for (int i = 0; i < VIEWS; i++) {
        saved_drop(&views[i]);
        views[i].active = 0;
    }
    memset(containers, 0, sizeof containers);
    memset(names, 0, sizeof names);
    memset(&fake_counts, 0, sizeof fake_counts);
    memset(&stolen, 0, sizeof stolen);
    looking = 0;
    manager_alive = 1;
    abort_at = 0;
    refusal = 0;
    space_left = FAKE_PAGES;
}

void fake_abort_at_fault(unsigned nth, int reason)
{
    abort_at = nth;
    abort_reason = reason;
}

void fake_refuse_commit(int error)
{
    refusal = error;
}

void fake_steal_name(const char *name, uint64_t address, uint64_t bytes)
{
    stolen = (struct fake_name){.container = 1, .address = address, .bytes = bytes};
    strncpy(stolen.name, name, sizeof stolen.name - 1);
}

void fake_space_left(unsigned pages)
{
    space_left = pages;
}

void fake_manager_dies(int starts_again)
{
    manager_alive = starts_again;
    for (int i = 0; i < VIEWS; i++)
        if (views[i].active)
            undo(&views[i]);
    for (int i = 0; i < CONTAINERS; i++) {
        containers[i].opens = 0;
        for (unsigned page = 0; page < FAKE_PAGES; page++) {
            if (containers[i].state[page] == PAGE_LEASED)
                containers[i].state[page] = PAGE_NEVER;
            containers[i].room[page] = 0;
        }
    }
}

unsigned fake_used_pages(uint64_t *address, unsigned count)
{
    unsigned used = 0;
    for (unsigned i = 0; i < FAKE_PAGES; i++)
        if (containers[0].state[i] == PAGE_USED) {
            if (used < count)
                address[used] = containers[0].base + (uint64_t)i * 4096;
            used++;
        }
    return used;
}

void fake_look(int on)
{
    looking = on;
    hide_all();
}
