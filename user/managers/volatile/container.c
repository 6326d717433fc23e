/*
 * container.c - containers in memory: pages and who may use them, names, and the operations that
 * come with a commit.
 *
 * A page that a commit freed keeps its bytes until the kernel has let it go, which is asked for at
 * once and again when the page is wanted: a snapshot may still see it.
 */
#include "store.h"

struct container *containers[CONTAINERS_MAX];
uint64_t pages_max;

struct container *container_by_id(uint64_t id)
{
    for (int i = 0; i < CONTAINERS_MAX; i++)
        if (containers[i] && containers[i]->id == id)
            return containers[i];
    return NULL;
}

struct container *container_named(const char *name)
{
    for (int i = 0; i < CONTAINERS_MAX; i++)
        if (containers[i] && strcmp(containers[i]->made.name, name) == 0)
            return containers[i];
    return NULL;
}

static int object_make(struct container *c)
{
    struct kd_object_create create = {.port = port, .commit_port = port, .cookie = c->id << 4,
                                      .pages = pages_max,
                                      .flags = KD_OBJECT_TRANSACTIONAL | KD_OBJECT_NOTICES};
    memcpy(create.name, c->made.name, sizeof create.name);
    long object = kd_call3(KD_OBJECT_CREATE, (long)&create, 0, 0);
    if (object < 0)
        return (int)object;
    c->object = (int)object;
    c->base = create.base;
    return 0;
}

int container_make(const struct wire_open *as, struct container **out)
{
    static uint64_t last_id;
    int slot = 0;
    while (slot < CONTAINERS_MAX && containers[slot])
        slot++;
    if (slot == CONTAINERS_MAX)
        return -ENFILE;
    struct container *c = calloc(1, sizeof *c);
    if (!c || !(c->owner = calloc(pages_max, sizeof *c->owner))) {
        free(c);
        return -ENOMEM;
    }
    c->id = ++last_id;
    c->made = *as;
    c->object = -1;
    containers[slot] = *out = c;
    int e = object_make(c);
    if (e)
        container_end(c);
    return e;
}

void container_end(struct container *c)
{
    for (int i = 0; i < CONTAINERS_MAX; i++)
        if (containers[i] == c)
            containers[i] = NULL;
    if (c->object >= 0)
        kd_call3(KD_OBJECT_DESTROY, c->object, 0, 0);
    free(c->owner);
    free(c);
}

/* ---- who has it open ---- */

struct opening *opening_of(struct container *c, uint64_t process)
{
    for (unsigned i = 0; i < c->opening_count; i++)
        if (c->openings[i].process == process)
            return &c->openings[i];
    return NULL;
}

int container_attach(struct container *c, uint64_t process, int writes)
{
    struct opening *o = opening_of(c, process);
    if (!o && c->opening_count == OPENINGS_MAX)
        return -EMFILE;
    if (!o || (writes && !o->writes)) {
        long e = kd_call3(KD_SPACE_ATTACH, (long)process, c->object,
                          KD_RIGHT_READ | (writes ? KD_RIGHT_WRITE : 0));
        if (e < 0)
            return (int)e;
    }
    if (!o) {
        o = &c->openings[c->opening_count++];
        *o = (struct opening){.process = process};
    }
    o->count++;
    o->writes |= writes;
    return 0;
}

void container_detach(struct container *c, uint64_t process, unsigned times)
{
    struct opening *o = opening_of(c, process);
    if (!o)
        return;
    o->count -= times < o->count ? times : o->count;
    if (o->count)
        return;
    *o = c->openings[--c->opening_count];
    kd_call3(KD_SPACE_DETACH, (long)process, c->object, 0);
    for (uint64_t page = 0; page < pages_max; page++)
        if (c->owner[page] == LEASED + process)
            c->owner[page] = FREED; /* a commit may be under way: who leases it next looks */
}

/* ---- pages ---- */

/* Lets go of a page's bytes; whether it has gone, and would come as zeros. */
static int page_gone(struct container *c, uint64_t page)
{
    uint8_t bits = KD_PAGE_RESIDENT;
    kd_call4(KD_OBJECT_INFO, c->object, (long)page, 1, (long)&bits);
    if (bits & KD_PAGE_WRITER)
        return 0;
    kd_call3(KD_OBJECT_CLEANED, c->object, (long)page, (long)KD_CSN_ANY);
    kd_call4(KD_OBJECT_ADVISE, c->object, (long)page, 1, KD_ADVISE_EVICT);
    kd_call4(KD_OBJECT_INFO, c->object, (long)page, 1, (long)&bits);
    return !(bits & KD_PAGE_RESIDENT);
}

static int page_free_for(struct container *c, uint64_t page)
{
    if (c->owner[page] == FREED && page_gone(c, page))
        c->owner[page] = UNUSED;
    return c->owner[page] == UNUSED;
}

int container_lease(struct container *c, uint64_t process, uint64_t count, uint64_t *address)
{
    uint64_t first = c->from, have = 0;
    if (count == 0 || count > pages_max)
        return -EINVAL;
    for (uint64_t looked = 0; have < count; looked++) {
        if (looked == 2 * pages_max)
            return -ENOSPC;
        if (first + have == pages_max)
            first = have = 0;
        if (page_free_for(c, first + have)) {
            have++;
        } else {
            first += have + 1;
            have = 0;
        }
        if (first >= pages_max)
            first = have = 0;
    }
    for (uint64_t i = 0; i < count; i++)
        c->owner[first + i] = (uint32_t)(LEASED + process);
    c->from = first + count == pages_max ? 0 : first + count;
    *address = c->base + first * KD_PAGE_BYTES;
    return 0;
}

/* The number of the first of these pages, all in the container; or pages_max. */
static uint64_t pages_at(const struct container *c, uint64_t address, uint64_t count)
{
    uint64_t page = (address - c->base) / KD_PAGE_BYTES;
    return address < c->base || address % KD_PAGE_BYTES || page >= pages_max || count == 0 ||
                   count > pages_max - page ? pages_max : page;
}

void container_unlease(struct container *c, uint64_t process, uint64_t address, uint64_t count)
{
    uint64_t page = pages_at(c, address, count);
    for (; page < pages_max && count; page++, count--)
        if (c->owner[page] == LEASED + process)
            c->owner[page] = FREED;
}

void page_written(uint64_t cookie, uint64_t page)
{
    struct container *c = container_by_id(STORE_COOKIE_CONTAINER(cookie));
    if (c && page < pages_max)
        c->owner[page] = USED;
}

/* ---- what comes with a commit ---- */

struct named *name_find(struct container *c, const char *name)
{
    for (unsigned i = 0; i < c->name_count; i++)
        if (strcmp(c->names[i].name, name) == 0)
            return &c->names[i];
    return NULL;
}

static const struct wire_op *next_op(const struct wire_op *op)
{
    return (const void *)((const char *)op + op->op_bytes);
}

/* A name may be taken away and set anew in one commit. */
static int name_check(struct container *c, const struct wire_op *first, const struct wire_op *op)
{
    int there = name_find(c, op->name) != NULL, set = op->kind == WIRE_NAME_SET;
    unsigned count = c->name_count + 1;
    for (; first != op; first = next_op(first)) {
        count += first->kind == WIRE_NAME_SET;
        if (first->container == op->container && strcmp(first->name, op->name) == 0 &&
            (first->kind == WIRE_NAME_SET || first->kind == WIRE_NAME_UNSET))
            there = first->kind == WIRE_NAME_SET;
    }
    if (set)
        return there ? -EEXIST : count > NAMES_MAX ? -ENOSPC : 0;
    return there ? 0 : -ENOENT;
}

static int pages_check(const struct container *c, uint64_t process, const struct wire_op *op)
{
    uint64_t first = pages_at(c, op->address, op->value);
    if (first == pages_max)
        return -EINVAL;
    for (uint64_t page = first; op->kind == WIRE_PAGE_CLAIM && page < first + op->value; page++)
        if (c->owner[page] != LEASED + process && c->owner[page] != USED)
            return -EACCES;
    return 0;
}

static int op_check(uint64_t process, const struct wire_op *first, const struct wire_op *op)
{
    struct container *c = container_by_id(op->container);
    const struct opening *o = c ? opening_of(c, process) : NULL;
    size_t room = op->op_bytes - sizeof *op, length = strnlen(op->name, room);
    int named = length > 0 && length < room && length < STORE_NAME_BYTES;
    if (!o || !o->writes)
        return c ? -EACCES : -ENOENT;
    switch (op->kind) {
    case WIRE_NAME_SET:
    case WIRE_NAME_UNSET: return named ? name_check(c, first, op) : -EINVAL;
    case WIRE_PAGE_FREE:
    case WIRE_PAGE_CLAIM: return pages_check(c, process, op);
    case WIRE_ROOM: return 0; /* a hint */
    case WIRE_LAYOUT: return !named ? -EINVAL : c->opening_count > 1 ? -EBUSY : 0;
    default: return -ENOSYS;
    }
}

int batch_check(uint64_t process, const uint8_t *bytes, uint64_t count)
{
    const struct wire_op *op;
    for (uint64_t at = 0; at < count; at += op->op_bytes) {
        op = (const void *)(bytes + at);
        if (count - at < sizeof *op || op->op_bytes < sizeof *op || op->op_bytes % 8 ||
            op->op_bytes > count - at)
            return -EINVAL;
        int e = op_check(process, (const void *)bytes, op);
        if (e)
            return e;
    }
    return 0;
}

static void layout_apply(struct container *c, const struct wire_op *op)
{
    memset(c->made.type, 0, sizeof c->made.type);
    strcpy(c->made.type, op->name);
    c->made.version = (uint32_t)op->value;
    c->made.bytes = (uint32_t)(op->value >> 32);
}

static void pages_apply(struct container *c, const struct wire_op *op)
{
    uint64_t page = pages_at(c, op->address, op->value), end = page + op->value;
    for (; page < end; page++) {
        c->owner[page] = op->kind == WIRE_PAGE_CLAIM ? USED : FREED;
        if (op->kind == WIRE_PAGE_FREE)
            (void)page_free_for(c, page);
    }
}

static void op_apply(struct container *c, const struct wire_op *op)
{
    if (op->kind == WIRE_NAME_UNSET) {
        *name_find(c, op->name) = c->names[c->name_count - 1];
        c->name_count--;
    } else if (op->kind == WIRE_NAME_SET) {
        struct named *n = &c->names[c->name_count++];
        *n = (struct named){.address = op->address, .bytes = op->value};
        strcpy(n->name, op->name);
    } else if (op->kind == WIRE_LAYOUT) {
        layout_apply(c, op);
    } else if (op->kind != WIRE_ROOM) {
        pages_apply(c, op);
    }
}

void batch_apply(const uint8_t *bytes, uint64_t count)
{
    const struct wire_op *op;
    for (uint64_t at = 0; at < count; at += op->op_bytes) {
        op = (const void *)(bytes + at);
        op_apply(container_by_id(op->container), op);
    }
}
