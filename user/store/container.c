/*
 * container.c - containers that were opened since the start: their memory objects and who has them.
 *
 * The disk library's directory is the truth about names, addresses and sizes. Here is what is
 * volatile: a memory object of the kernel per segment, made at the first open. It is kept when the
 * last process closes the container, for the next one finds the pages in memory, and room in those
 * that are half full. But handles are few: of OBJECTS_MANY, those that nobody has open are given
 * up, the one first that was closed first, once the cleaner has brought their pages home.
 *
 * Invariants
 *   OC1  A container with openings exists in the directory (delete refuses it).
 *   OC2  Every process in `openings` is attached to all segments with the opening's rights, but for
 *       one that has objects of its own where a segment came later. No other client is.
 *   OC3  `idle` is 0 exactly while there are openings.
 *   OC4  An object is given up in the gate, when no group is in the air, and only if the kernel
 *       finds nothing in it that it alone has: so no group that is applied later is about it.
 *   OC5  An opening is of one program: what a process had open before its execve adds nothing to
 *       what the next one opens, and ends nothing of that, however late its notices come.
 */
#include "group.h"
#include "path.h"

#include <stdlib.h>
#include <string.h>

#include "pstore.h"
#include "index_format.h"

#define IDLE_TRIES 8

struct container *container_by_id(uint64_t id)
{
    struct container *c = server.containers[id % CONTAINER_HASH];
    while (c && c->id != id) c = c->next;
    return c;
}

static struct opening *opening_of(const struct container *c, uint64_t process)
{
    for (unsigned i = 0; i < c->opening_count; i++)
        if (c->openings[i].process == process) return &c->openings[i];
    return NULL;
}

int container_allows(const struct container *c, uint64_t process, uint32_t rights)
{
    const struct opening *o = opening_of(c, process);
    if (c->kept) return o ? -ENOTSUP : -EACCES; /* of a kept one's pages we know nothing */
    bool denied = c->index && rights & KD_RIGHT_WRITE;
    return o && (o->rights & rights) == rights && !denied ? 0 : -EACCES;
}

int container_allows_index(const struct container *c, uint64_t process)
{
    const struct opening *o = opening_of(c, process);
    if (!c->index) return -EINVAL;
    if (c->id == server.changing) return -EBUSY; /* the index is deleted before this */
    return o && o->rights & KD_RIGHT_WRITE ? 0 : -EACCES;
}

bool container_has_opening(const struct container *c, uint64_t process)
{
    return opening_of(c, process) != NULL;
}

bool process_known(uint64_t process)
{
    for (unsigned h = 0; h < CONTAINER_HASH; h++)
        for (struct container *c = server.containers[h]; c; c = c->next)
            if (opening_of(c, process)) return true;
    return false;
}

/* ---- the table and the kernel's objects ---- */

/* segments_make makes the kernel objects of segments that have none yet. */
static int segments_make(struct container *c, const struct store_container *d)
{
    uint64_t first = 0;
    if (c->kept) return 0;
    if (index_kind(d->layout.type) >= 0 && d->segment_count > 0)
        return c->index ? 0
                        : index_make(c, index_kind(d->layout.type), d->segments[0].address,
                                     d->segments[0].pages);
    for (unsigned i = 0; i < d->segment_count; i++) {
        if (i >= c->segment_count) {
            int object = form_object(d, i, c->form);
            if (object < 0) return object;
            c->segment[i].object = object;
            c->segment[i].base = d->segments[i].address;
            c->segment[i].first = first;
            c->segment[i].pages = d->segments[i].pages;
            c->segment_count = i + 1;
            server.objects++;
            audit_wake();
        }
        first += d->segments[i].pages;
    }
    return 0;
}

/* objects_destroy ends the last objects, as many as the kernel lets go; it drops their pages. */
static int objects_destroy(struct container *c, bool if_unused)
{
    int r = c->index ? index_destroy(c, if_unused) : 0;
    while (r == 0 && c->segment_count > 0) {
        r = (int)kd_object_destroy(c->segment[c->segment_count - 1].object, if_unused);
        if (r < 0) break;
        c->segment_count--;
        server.objects--;
    }
    return r;
}

/* container_forget forgets a container, and waits for those who use a handle. */
static void container_forget(struct container *c)
{
    while (c->busy) pthread_cond_wait(&server.changed, &server.lock);
    struct container **at = &server.containers[c->id % CONTAINER_HASH];
    while (*at != c) at = &(*at)->next;
    *at = c->next;
    decide_end(c, 0);
    objects_destroy(c, false);
    free(c->openings);
    free(c->runs);
    free(c->room);
    free(c);
}

int container_let_go(struct container *c)
{
    int r = objects_destroy(c, true);
    if (r == 0) container_forget(c);
    return r;
}

static int container_load(const struct store_container *d, struct container **out)
{
    char text[WIRE_MANAGER_BYTES];
    struct container *c = container_by_id(d->object);
    if (!c) {
        c = calloc(1, sizeof(*c));
        if (!c) return -ENOMEM;
        c->id = d->object;
        memcpy(c->name, d->name, sizeof(c->name));
        form_of(d, c->form);
        c->kept = kept_text(d->object, text) > 0;
        c->idle = ++server.idle_clock;
        c->next = server.containers[c->id % CONTAINER_HASH];
        server.containers[c->id % CONTAINER_HASH] = c;
    }
    int r = segments_make(c, d);
    if (r < 0 && c->segment_count == 0) container_forget(c);
    *out = c;
    return r;
}

/* ---- openings ---- */

/* left_out: is that what a process hears that is ending (CLIENT_GONE will follow), or has objects
 * of its own where the container is to be? Others do not suffer for it. */
static bool left_out(int error)
{
    return error == -ESRCH || error == -EEXIST || error == -EINPROGRESS;
}

static int attach_all(const struct container *c, uint64_t process, uint32_t rights)
{
    int r = 0;
    if (c->kept) return kept_attach(c->id, process, rights);
    if (c->index) return index_attach(c, process, rights);
    for (unsigned i = 0; r >= 0 && i < c->segment_count; i++)
        r = (int)kd_space_attach(process, c->segment[i].object, rights);
    return r < 0 ? r : 0;
}

static void detach_all(const struct container *c, uint64_t process)
{
    if (c->kept) kept_detach(c->id, process);
    if (c->index) index_detach(c, process);
    for (unsigned i = 0; !c->index && i < c->segment_count; i++)
        kd_space_detach(process, c->segment[i].object);
}

/* attach_undo: when attach_all has failed, part of it is done. The process gets the rights back
 * that it had before; without memory for that, none. */
static void attach_undo(const struct container *c, uint64_t process, uint32_t had)
{
    int r = had ? attach_all(c, process, had) : -ENOENT;
    if (r < 0 && !left_out(r)) detach_all(c, process);
}

/* opening_end: `closed`: the program goes on, and what it had leased may be in a commit. */
static void opening_end(struct container *c, struct opening *o, bool closed)
{
    uint64_t process = o->process;
    pins_end(c->id, process);
    decide_end(c, process);
    detach_all(c, process);
    *o = c->openings[--c->opening_count];
    space_process_gone(c, process, closed);
    if (!process_known(process)) watches_end(process);
    if (c->opening_count > 0) return;
    c->idle = ++server.idle_clock;
    if (c->kept) kept_idle(c->id);
    server.idle_due |= server.objects > OBJECTS_MANY;
    if (server.idle_due) pthread_cond_signal(&server.work);
}

/* attached: has the program that the process is now this container, which it has open? An execve
 * ends what the one before was attached to; then the kernel says so. */
static bool attached(const struct container *c, uint64_t process)
{
    return c->kept ? kept_attached(process) : kd_space_rights(process, c->segment[0].object) > 0;
}

/* openings_left_end ends those of programs that are no more: nothing is attached for them. */
static void openings_left_end(struct container *c)
{
    for (unsigned i = c->opening_count; i-- > 0;)
        if (!attached(c, c->openings[i].process)) opening_end(c, &c->openings[i], false);
}

/* programs_end ends the openings of the programs that the process was before (OC5). */
static void programs_end(uint64_t process)
{
    for (unsigned h = 0; h < CONTAINER_HASH; h++)
        for (struct container *c = server.containers[h]; c; c = c->next) {
            struct opening *o = opening_of(c, process);
            if (o && !attached(c, process)) opening_end(c, o, false);
        }
}

void process_gone(uint64_t process)
{
    server_lock();
    programs_end(process);
    decide_settle();
    server_unlock();
}

int container_opened(struct container *c, uint64_t process, uint32_t rights,
                     const struct sources *by)
{
    if ((c->kept || opening_of(c, process)) && !attached(c, process)) programs_end(process);
    struct opening *o = opening_of(c, process);
    struct sources all = o ? o->by : (struct sources){0};
    int r = sources_hold(by) ? sources_add(&all, by) : -EIDRM;
    if (r < 0) return r;
    if (!o && c->opening_count == c->opening_room) {
        unsigned room = c->opening_room ? 2 * c->opening_room : 4;
        void *more = realloc(c->openings, room * sizeof(*o));
        if (!more) return -ENOMEM;
        c->openings = more;
        c->opening_room = room;
    }
    if (!o || c->kept || (rights & ~o->rights)) { /* kept: its object may be another one now */
        uint32_t had = o ? o->rights : 0;
        r = attach_all(c, process, rights | had);
        if (r < 0) attach_undo(c, process, had);
        if (r < 0) return r;
    }
    if (!o) {
        o = &c->openings[c->opening_count++];
        *o = (struct opening){.process = process};
    }
    bool handle;
    uint64_t serial = sources_grant(by, c->id, &handle);
    grant_trace(KD_TRACE_OPENED | (handle ? KD_TRACE_BY_HANDLE : 0), process, serial,
                rights * DIRECTORY_READ, c->id);
    o->count++;
    o->rights |= rights;
    o->by = all;
    c->idle = 0;
    c->leaving = false;
    return 0;
}

/* spares_make makes objects for all segments, or none: -errno. */
static int spares_make(const struct container *c, const struct store_container *d,
                       const uint32_t *form, int *spare)
{
    unsigned i = 0;
    int object = 0;
    for (; i < c->segment_count && (object = form_object(d, i, form)) >= 0; i++) spare[i] = object;
    for (; object < 0 && i-- > 0;) kd_object_destroy(spare[i], 0);
    return object < 0 ? object : 0;
}

/* spares_take needs no memory: some objects go, perhaps all. Those as they were, or as they are to
 * be, come into their places, and the other spare ones go. 0, or why not all went. */
static int spares_take(struct container *c, const int *as_was, const int *as_is)
{
    unsigned count = c->segment_count;
    int r = objects_destroy(c, true);
    for (unsigned i = 0; i < count; i++) {
        bool taken = i >= c->segment_count;
        if (taken) c->segment[i].object = r == 0 ? as_is[i] : as_was[i];
        if (r < 0 || !taken) kd_object_destroy(as_is[i], 0);
        if (r == 0 || !taken) kd_object_destroy(as_was[i], 0);
    }
    server.objects += count - c->segment_count;
    c->segment_count = count;
    return r;
}

int container_remake(struct container *c, enum wire_form which, uint32_t value)
{
    struct store_container d;
    int as_was[STORE_SEGMENT_MAX], as_is[STORE_SEGMENT_MAX];
    uint32_t form[WIRE_FORMS];
    memcpy(form, c->form, sizeof(form));
    form[which] = value;
    int r = store_container_get(server.store, c->id, &d);
    if (r == 0) r = spares_make(c, &d, form, as_is);
    if (r < 0) return r;
    r = spares_make(c, &d, c->form, as_was);
    for (unsigned i = 0; r < 0 && i < c->segment_count; i++) kd_object_destroy(as_is[i], 0);
    if (r < 0) return r;
    openings_left_end(c);
    for (unsigned o = 0; o < c->opening_count; o++) detach_all(c, c->openings[o].process);
    r = spares_take(c, as_was, as_is);
    if (r == 0) c->form[which] = value;
    int made = 0;
    for (unsigned o = 0; made == 0 && o < c->opening_count; o++) {
        made = attach_all(c, c->openings[o].process, c->openings[o].rights);
        if (left_out(made)) made = 0;
    }
    return r < 0 ? r : made;
}

void openings_end(uint64_t serial)
{
    for (unsigned h = 0; h < CONTAINER_HASH; h++)
        for (struct container *c = server.containers[h]; c; c = c->next)
            for (unsigned i = c->opening_count; i-- > 0;)
                if (sources_have(&c->openings[i].by, serial)) {
                    struct opening *o = &c->openings[i];
                    bool handle;
                    grant_trace(KD_TRACE_LOST_IT, o->process, sources_grant(&o->by, c->id, &handle),
                                o->rights * DIRECTORY_READ, c->id);
                    opening_end(c, o, true);
                }
}

static bool others_have_open(const struct container *c, uint64_t process)
{
    return c->opening_count > 1 || (c->opening_count == 1 && c->openings[0].process != process);
}

/* in_use_beside: do others have it open, or other threads of this process? */
static bool in_use_beside(const struct container *c, uint64_t process)
{
    return others_have_open(c, process) || (c->opening_count == 1 && c->openings[0].count > 1);
}

bool container_used_beside(uint64_t id, uint64_t process)
{
    const struct container *c = container_by_id(id);
    return c && others_have_open(c, process);
}

int container_alone(uint64_t id, uint64_t process)
{
    const struct container *c = container_by_id(id);
    return !c ? -ENOENT : in_use_beside(c, process) ? -EBUSY : 0;
}

int container_closed(struct container *c, uint64_t process)
{
    struct opening *o = c ? opening_of(c, process) : NULL;
    if (o && --o->count == 0) opening_end(c, o, true);
    return o ? 0 : -ENOENT;
}

int container_close(uint64_t process, uint64_t id)
{
    server_lock();
    int r = container_closed(container_by_id(id), process);
    decide_settle();
    server_unlock();
    return r;
}

/* ---- requests ---- */

static int layout_check(const struct store_container *d, const struct wire_open *how)
{
    if (!how->type[0] || !d->layout.type[0]) return 0;
    return strcmp(d->layout.type, how->type) == 0 && d->layout.version == how->version
                   && d->layout.bytes == how->bytes
               ? 0
               : -EPROTO;
}

static void layout_from(struct store_layout *layout, const struct wire_open *how)
{
    memset(layout, 0, sizeof(*layout));
    memcpy(layout->type, how->type, sizeof(layout->type));
    layout->version = how->version;
    layout->bytes = how->bytes;
}

void container_deleted(uint64_t id)
{
    struct container *c = container_by_id(id);
    bool index = c && c->index; /* what the index thread has begun would end with it */
    if (index) gate_enter(false);
    if (c && c->opening_count) opening_end(c, c->openings, true);
    if (c) container_forget(c);
    if (index) gate_leave();
}

/* segments_allowed: -EDQUOT: a process with so many segments more would leave too few to others. */
static int segments_allowed(uint64_t process, unsigned more)
{
    for (unsigned h = 0; h < CONTAINER_HASH; h++)
        for (struct container *c = server.containers[h]; c; c = c->next)
            if (opening_of(c, process)) more += c->segment_count;
    return more > SEGMENTS_EACH ? -EDQUOT : 0;
}

int container_may_grow(uint64_t process)
{
    server_lock();
    int r = segments_allowed(process, 1);
    server_unlock();
    return r;
}

/* open_found is an open's part under the lock; -ENOENT: the container was deleted meanwhile. */
static int open_found(uint64_t process, const char *path, const struct wire_open *how,
                      struct wire_opened *out, struct sources *by)
{
    uint32_t rights = KD_RIGHT_READ | (how->flags & PS_WRITE ? KD_RIGHT_WRITE : 0);
    struct directory_found found;
    struct store_container d;
    struct store_name root;
    struct container *c = NULL;
    int r = path_container(path, rights * DIRECTORY_READ, &found, by);
    if (r == 0) r = store_container_get(server.store, found.container, &d);
    if (r == 0 && (d.object == server.changing || group_changes_layout(d.object))) r = -EBUSY;
    if (r == 0) r = layout_check(&d, how);
    bool open =
        r == 0 && container_by_id(d.object) && opening_of(container_by_id(d.object), process);
    if (r == 0 && !open) r = segments_allowed(process, d.segment_count);
    if (r == 0) r = container_load(&d, &c);
    if (r == 0) out->container = d.object;
    if (r == 0 && c->kept) return OPEN_KEPT;
    if (r == 0) r = container_opened(c, process, rights, by);
    if (r < 0) return r;
    *out = (struct wire_opened){
        .container = d.object, .base = d.base, .pages = d.segments[0].pages,
        .created = out->created};
    memcpy(out->form, c->form, sizeof(out->form));
    if (store_name_find(server.store, d.object, ROOT_NAME, &root) == 0)
        out->root_address = root.address;
    return 0;
}

_Static_assert(KD_RIGHT_READ * DIRECTORY_READ == DIRECTORY_READ &&
                   KD_RIGHT_WRITE * DIRECTORY_READ == DIRECTORY_WRITE,
               "rights of a grant are those of an object, higher up");

/* open_or_refuse: with PS_CREATE and PS_EXCLUSIVE there is nothing, or what this open has made. */
static int open_or_refuse(uint64_t process, const char *path, const struct wire_open *how,
                          struct wire_opened *out, struct sources *by)
{
    struct directory_found found;
    bool new = how->flags & PS_CREATE && how->flags & PS_EXCLUSIVE;
    int r = new ? path_walk(path, &found, by) : 0;
    if (new && r == 0 && (!out->created || found.container != out->created)) r = -EEXIST;
    return r == 0 ? open_found(process, path, how, out, by) : r;
}

/* open_with_room tries that again when the cleaner has given up what nobody has open. */
static int open_with_room(uint64_t process, const char *path, const struct wire_open *how,
                          struct wire_opened *out, struct sources *by)
{
    server_lock();
    int r = open_or_refuse(process, path, how, out, by);
    for (int try = 0; r == -EMFILE && try < IDLE_TRIES; try++) {
        room_wait();
        r = open_or_refuse(process, path, how, out, by);
    }
    decide_settle();
    server_unlock();
    return r;
}

/* container_open_by makes what is not there. If an open fails that goes, unless somebody has it, or
 * its name is another one's by now. Until the end out->created is the number of what was made. */
int container_open_by(uint64_t process, const char *path, const struct wire_open *how,
                      struct wire_opened *out, struct sources *by)
{
    struct store_layout layout;
    int r = memchr(how->type, 0, STORE_NAME_BYTES) ? 0 : -ENAMETOOLONG;
    if (r == 0 && server.read_only && (how->flags & PS_WRITE)) r = -EROFS;
    if (r < 0) return r;
    layout_from(&layout, how);
    for (out->created = 0;;) {
        uint64_t id;
        r = open_with_room(process, path, how, out, by);
        if (r < 0 && r != -ENOENT && out->created)
            (void)names_delete(process, path, out->created, &id);
        if (r != -ENOENT || !(how->flags & PS_CREATE)) break;
        r = names_create(path, &layout, &out->created);
        if (r < 0 && (r != -EEXIST || how->flags & PS_EXCLUSIVE)) return r;
    }
    out->created = r >= 0 && out->created == out->container;
    return r;
}

int container_open(uint64_t process, const struct wire_open *how, struct wire_opened *out)
{
    struct sources by;
    const char *path = names_path(how->name, sizeof(how->name));
    return path ? container_open_by(process, path, how, out, &by) : -ENAMETOOLONG;
}

/* ---- it grows ---- */

/* grown_make, lock held, makes the objects of segments that were added. */
static int grown_make(uint64_t id, struct container **c)
{
    struct store_container d;
    *c = container_by_id(id);
    int r = *c ? store_container_get(server.store, id, &d) : -ENOENT;
    return r == 0 ? segments_make(*c, &d) : r;
}

int container_grow(uint64_t id)
{
    struct store_op op = {.type = STORE_OP_GROW, .object = id};
    struct container *c;
    int r = commit_own(&op, 1);
    if (r < 0) return r;
    server_lock();
    r = grown_make(id, &c);
    for (int try = 0; r == -EMFILE && try < IDLE_TRIES; try++) {
        room_wait();
        r = grown_make(id, &c);
    }
    if (r == 0) openings_left_end(c);
    for (unsigned i = 0; r == 0 && i < c->opening_count; i++) {
        int e = attach_all(c, c->openings[i].process, c->openings[i].rights);
        if (!left_out(e)) r = e;
    }
    decide_settle();
    server_unlock();
    return r;
}
