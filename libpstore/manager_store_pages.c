/*
 * manager_store_pages.c - the containers of a store of a manager's own: pages and who may use them,
 * names, and the operations that come with a commit.
 *
 * A page that a commit freed keeps its bytes until the kernel has let it go, which is asked for at
 * once and again when the page is wanted: a snapshot may still see it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "manager_private.h"
#include "manager_store_private.h"

struct front front;

struct container *front_by_id(uint64_t id)
{
    for (int i = 0; i < CONTAINERS_MAX; i++)
        if (front.containers[i] && front.containers[i]->id == id) return front.containers[i];
    return NULL;
}

struct container *front_named(const char *name)
{
    for (int i = 0; i < CONTAINERS_MAX; i++)
        if (front.containers[i] && strcmp(front.containers[i]->made.name, name) == 0)
            return front.containers[i];
    return NULL;
}

/* object_make makes a container's object, by whose number clients know its addresses. */
static int object_make(struct container *c)
{
    int e = km_create(c->made.name, front.is.pages, KM_READ | KM_WRITE | KM_TRANSACTIONAL,
                      &front.ops, front.is.user, &c->object);
    if (e) return e;
    c->id = STORE_COOKIE_CONTAINER(c->object->number);
    c->base = (uint64_t)(uintptr_t)km_address(c->object);
    return 0;
}

int front_make(const struct wire_open *as, struct container **out)
{
    int slot = 0;
    while (slot < CONTAINERS_MAX && front.containers[slot]) slot++;
    if (slot == CONTAINERS_MAX) return -ENFILE;
    struct container *c = calloc(1, sizeof *c);
    if (!c || !(c->owner = calloc(front.is.pages, sizeof *c->owner))) {
        free(c);
        return -ENOMEM;
    }
    c->made = *as;
    front.containers[slot] = *out = c;
    int e = object_make(c);
    if (e) front_end(c);
    return e;
}

void front_end(struct container *c)
{
    for (int i = 0; i < CONTAINERS_MAX; i++)
        if (front.containers[i] == c) front.containers[i] = NULL;
    if (c->object) (void)km_end(c->object, 0);
    free(c->owner);
    free(c);
}

/* ---- who has it open ---- */

struct opening *front_opening(struct container *c, uint64_t process)
{
    for (unsigned i = 0; i < c->opening_count; i++)
        if (c->openings[i].process == process) return &c->openings[i];
    return NULL;
}

void front_left(struct container *c, uint64_t process)
{
    const struct opening *o = front_opening(c, process);
    if (o && km_admitted(c->object, process) <= 0) front_detach(c, process, o->count);
}

int front_attach(struct container *c, uint64_t process, int writes)
{
    front_left(c, process);
    struct opening *o = front_opening(c, process);
    if (!o && c->opening_count == OPENINGS_MAX) return -EMFILE;
    if (!o || (writes && !o->writes)) {
        int e = km_admit(c->object, process, writes ? KM_READ | KM_WRITE : KM_READ);
        if (e) return e;
    }
    if (!o) {
        o = &c->openings[c->opening_count++];
        *o = (struct opening){.process = process};
    }
    o->count++;
    o->writes |= writes;
    return 0;
}

void front_detach(struct container *c, uint64_t process, unsigned times)
{
    struct opening *o = front_opening(c, process);
    if (!o) return;
    o->count -= times < o->count ? times : o->count;
    if (o->count) return;
    *o = c->openings[--c->opening_count];
    (void)km_dismiss(c->object, process);
    for (uint64_t page = 0; page < front.is.pages; page++)
        if (c->owner[page] == LEASED + process)
            c->owner[page] = FREED; /* a commit may be under way: who leases it next looks */
}

/* ---- pages ---- */

/* page_gone lets go of a page's bytes; true: it has gone, and would come as zeros. */
static int page_gone(struct container *c, uint64_t page)
{
    uint8_t bits = KM_RESIDENT;
    (void)km_resident(c->object, page, 1, &bits);
    if (bits & KM_WRITER) return 0;
    if (km_advise(c->object, page, 1, KM_FREED) < 0)
        (void)km_cleaned(c->object, page, KM_CSN_ANY);
    (void)km_advise(c->object, page, 1, KM_EVICT);
    (void)km_resident(c->object, page, 1, &bits);
    if (!(bits & KM_RESIDENT) && front.is.freed) front.is.freed(c->object, page);
    return !(bits & KM_RESIDENT);
}

static int page_free_for(struct container *c, uint64_t page)
{
    if (c->owner[page] == FREED && page_gone(c, page)) c->owner[page] = UNUSED;
    return c->owner[page] == UNUSED;
}

int front_lease(struct container *c, uint64_t process, uint64_t count, uint64_t *address)
{
    uint64_t first = c->from, have = 0;
    if (count == 0 || count > front.is.pages) return -EINVAL;
    for (uint64_t looked = 0; have < count; looked++) {
        if (looked == 2 * front.is.pages) return -ENOSPC;
        if (first + have == front.is.pages) first = have = 0;
        if (page_free_for(c, first + have)) {
            have++;
        } else {
            first += have + 1;
            have = 0;
        }
        if (first >= front.is.pages) first = have = 0;
    }
    for (uint64_t i = 0; i < count; i++) c->owner[first + i] = (uint32_t)(LEASED + process);
    c->from = first + count == front.is.pages ? 0 : first + count;
    *address = c->base + first * KM_PAGE_BYTES;
    return 0;
}

/* pages_at returns the first of these pages, all in the container; or front.is.pages. */
static uint64_t pages_at(const struct container *c, uint64_t address, uint64_t count)
{
    uint64_t page = (address - c->base) / KM_PAGE_BYTES;
    return address < c->base || address % KM_PAGE_BYTES || page >= front.is.pages || count == 0 ||
                   count > front.is.pages - page ? front.is.pages : page;
}

void front_unlease(struct container *c, uint64_t process, uint64_t address, uint64_t count)
{
    uint64_t page = pages_at(c, address, count);
    for (; page < front.is.pages && count; page++, count--)
        if (c->owner[page] == LEASED + process) c->owner[page] = FREED;
}

/* use: the kernel compares each copy with its base when it tells what changed, and publishes those
 * that differ. Their pages are in use from now on. Then it is the policy's turn. */
static int use(const struct km_run *r, void *container)
{
    ((struct container *)container)->owner[r->page] = USED;
    return 0;
}

int front_commit(struct km_object *o, uint64_t view)
{
    struct container *c = front_by_id(STORE_COOKIE_CONTAINER(o->number));
    int error = c ? km_diff_each(o, view, use, c) : 0;
    if (error) return error;
    return front.is.ops && front.is.ops->commit ? front.is.ops->commit(o, view) : 0;
}

/* ---- what comes with a commit ---- */

struct named *front_name(struct container *c, const char *name)
{
    for (unsigned i = 0; i < c->name_count; i++)
        if (strcmp(c->names[i].name, name) == 0) return &c->names[i];
    return NULL;
}

static const struct wire_op *next_op(const struct wire_op *op)
{
    return (const void *)((const char *)op + op->op_bytes);
}

/* name_check checks an operation on a name, which one commit may take away and set anew. */
static int name_check(struct container *c, const struct wire_op *first, const struct wire_op *op)
{
    int there = front_name(c, op->name) != NULL, set = op->kind == WIRE_NAME_SET;
    unsigned count = c->name_count + 1;
    for (; first != op; first = next_op(first)) {
        count += first->kind == WIRE_NAME_SET;
        if (first->container == op->container && strcmp(first->name, op->name) == 0 &&
            (first->kind == WIRE_NAME_SET || first->kind == WIRE_NAME_UNSET))
            there = first->kind == WIRE_NAME_SET;
    }
    if (set) return there ? -EEXIST : count > NAMES_MAX ? -ENOSPC : 0;
    return there ? 0 : -ENOENT;
}

static int pages_check(const struct container *c, uint64_t process, const struct wire_op *op)
{
    uint64_t first = pages_at(c, op->address, op->value);
    if (first == front.is.pages) return -EINVAL;
    for (uint64_t page = first; op->kind == WIRE_PAGE_CLAIM && page < first + op->value; page++)
        if (c->owner[page] != LEASED + process && c->owner[page] != USED) return -EACCES;
    return 0;
}

static int op_check(uint64_t process, const struct wire_op *first, const struct wire_op *op)
{
    struct container *c = front_by_id(op->container);
    const struct opening *o = c ? front_opening(c, process) : NULL;
    size_t room = op->op_bytes - sizeof *op, length = strnlen(op->name, room);
    int named = length > 0 && length < room && length < STORE_NAME_BYTES;
    if (!o || !o->writes) return c ? -EACCES : -ENOENT;
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

int front_check(uint64_t process, const void *batch, uint64_t bytes)
{
    const struct wire_op *op;
    for (uint64_t at = 0; at < bytes; at += op->op_bytes) {
        op = (const void *)((const char *)batch + at);
        if (bytes - at < sizeof *op || op->op_bytes < sizeof *op || op->op_bytes % 8 ||
            op->op_bytes > bytes - at)
            return -EINVAL;
        int e = op_check(process, batch, op);
        if (e) return e;
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
        if (op->kind == WIRE_PAGE_FREE) (void)page_free_for(c, page);
    }
}

static void op_apply(struct container *c, const struct wire_op *op)
{
    if (op->kind == WIRE_NAME_UNSET) {
        *front_name(c, op->name) = c->names[c->name_count - 1];
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

void front_outcome(uint64_t process, const void *batch, uint64_t bytes, int error)
{
    const struct wire_op *op;
    (void)process;
    front.commits += !error;
    for (uint64_t at = 0; at < bytes && !error; at += op->op_bytes) {
        op = (const void *)((const char *)batch + at);
        op_apply(front_by_id(op->container), op);
    }
}
