/*
 * names.c - requests about names: making, deleting, renaming, listing, linking, taking back.
 *
 * Each plans a change in directory.c under the lock, by the rights that its caller has then (RT6),
 * and makes it durable before it answers (RT9). One change is planned at a time.
 */
#include "group.h"
#include "path.h"

#include <stdlib.h>
#include <string.h>

#include "index_format.h"

const char *names_path(const void *bytes, size_t room)
{
    return room && memchr(bytes, 0, room) ? bytes : NULL;
}

/* planned makes the change that was planned with this result; the plan, and the walk that it needs,
 * come from one section. */
static int planned(int result)
{
    return result == 0 ? change_commit() : result;
}

/* plan_begin, lock held, waits until nobody plans: the store can be changed, and this is where the
 * caller's paths begin. */
static int plan_begin(struct directory_at *at)
{
    int r = server_writable();
    while (r == 0 && (directory_change(paths) || server.changing)) {
        pthread_cond_wait(&server.changed, &server.lock);
        r = server_writable();
    }
    return r == 0 ? caller_at(at) : r;
}

int names_create(const char *path, const struct store_layout *layout, uint64_t *made)
{
    struct directory_at at;
    server_lock();
    int r = plan_begin(&at);
    if (r == 0) r = directory_make(paths, at, path, false);
    struct directory_change *c = r == 0 ? directory_change(paths) : NULL;
    uint64_t id = c ? c->container : 0;
    if (c && layout->type[0])
        c->ops[c->count++] = (struct store_op){
            .type = STORE_OP_LAYOUT, .object = id, .layout = layout};
    r = planned(r);
    *made = r == 0 ? id : 0;
    server_unlock();
    return r;
}

/* names_delete deletes a container, for its user, or for whoever made it and could not open it,
 * which says by `only` which it is. From the moment `changing` is set nobody can open it, so its
 * last user is the caller, whose openings end with the delete. If the commit fails the container is
 * as it was. */
int names_delete(uint64_t process, const char *path, uint64_t only, uint64_t *id)
{
    struct directory_found found;
    struct directory_at at;
    server_lock();
    int r = plan_begin(&at);
    if (r == 0) r = directory_remove(paths, at, path, &found);
    if (r == 0) {
        if (only && found.container != only)
            r = -ENOENT;
        else if (container_used_beside(found.container, process))
            r = -EBUSY;
        if (r < 0) change_drop();
    }
    if (r == 0) {
        *id = server.changing = found.container;
        r = change_commit();
        if (r == 0) {
            grant_trace(KD_TRACE_DELETED, process, found.serial, found.rights, found.container);
            container_deleted(found.container);
        }
        server.changing = 0;
        pthread_cond_broadcast(&server.changed);
    }
    server_unlock();
    return r;
}

static int names_rename(const char *from, const char *to, uint64_t *id)
{
    struct directory_found found;
    struct directory_at at;
    struct sources by;
    server_lock();
    int r = plan_begin(&at);
    if (r == 0) r = path_walk(from, &found, &by);
    if (r == 0) *id = found.container;
    bool same = r == 0 && strcmp(from, to) == 0;
    if (r == 0 && !same) r = planned(directory_move(paths, at, from, at, to));
    struct container *c = r == 0 && !same ? container_by_id(*id) : NULL;
    if (c) {
        const char *last = strrchr(to, '/');
        last = last ? last + 1 : to;
        memcpy(c->name, last, strlen(last) + 1);
    }
    server_unlock();
    return r;
}

int container_rename(const char *from, const char *to, uint64_t *id)
{
    return names_rename(from, to, id);
}

/* ---- directories and grants ---- */

static int make_directory(const char *path)
{
    struct directory_at at;
    server_lock();
    int r = plan_begin(&at);
    r = planned(r == 0 ? directory_make(paths, at, path, true) : r);
    server_unlock();
    return r;
}

static void named_fill(struct wire_named *out, const struct directory_entry *e)
{
    memcpy(out->name, e->name, sizeof(out->name));
    out->container = e->container;
    out->grant = e->serial;
    out->made_of = e->parent;
    out->rights = e->rights;
    out->directory = e->is_directory;
}

static int list_entries(const char *path, uint64_t *cursor, struct wire_named *out, unsigned room,
                        unsigned *count)
{
    enum { AT_ONCE = 16 };
    struct directory_entry entries[AT_ONCE];
    struct directory_found found;
    struct sources by;
    server_lock();
    int r = path_walk(path, &found, &by);
    struct directory_at at = {.serial = found.serial, .rights = found.rights};
    if (r == 0 && !found.is_directory) r = -ENOTDIR;
    if (r == 0) {
        r = directory_list(paths, at, cursor, entries, room < AT_ONCE ? room : AT_ONCE, count);
        if (r == -ENOENT) { /* that was all */
            *cursor = 0;
            r = 0;
        }
    }
    server_unlock();
    for (unsigned i = 0; r == 0 && i < *count; i++) named_fill(&out[i], &entries[i]);
    return r;
}

static int look(const char *path, struct wire_named *out)
{
    struct directory_found found;
    struct sources by;
    server_lock();
    int r = path_walk(path, &found, &by);
    if (r == 0) {
        *out = (struct wire_named){.container = found.container, .grant = found.serial,
                                   .made_of = directory_parent(paths, found.serial),
                                   .rights = found.rights, .directory = found.is_directory};
        memcpy(out->name, found.name, sizeof(out->name));
    }
    server_unlock();
    return r;
}

static int make_handle(const char *path, uint32_t rights, struct kd_message *reply)
{
    struct directory_found found;
    struct sources by;
    server_lock();
    long h = path_walk(path, &found, &by);
    if (h == 0) h = ticket_handle(&found, &by, rights);
    server_unlock();
    if (h < 0) return (int)h;
    reply->handle = (int)h;
    reply->handle_rights = KD_RIGHT_CALL | rights;
    return 0;
}

static int make_link(uint64_t process, int handle, uint32_t rights, const char *path)
{
    struct directory_at at, of;
    server_lock();
    int r = plan_begin(&at);
    if (r == 0) r = ticket_sent(handle, &of);
    if (r == 0)
        r = directory_needs(of.serial, of.rights, rights | DIRECTORY_GRANT, DIRECTORY_LACK_HANDLE);
    if (r == 0) r = directory_link(paths, of, rights, at, path);
    uint64_t serial = r == 0 ? directory_change(paths)->serial : 0;
    r = planned(r);
    if (r == 0) grant_trace(KD_TRACE_LINKED, process, serial, rights, grant_short(of.serial));
    server_unlock();
    return r;
}

/* take_away takes away, in several transactions if one has no room. *grants: how many ended. */
static int take_away(uint64_t process, const char *path, bool unlink, uint64_t *grants)
{
    unsigned what = unlink ? KD_TRACE_DROPPED : KD_TRACE_TAKEN_BACK;
    bool more = true;
    int r = 0;
    server_lock();
    for (*grants = 0; r == 0 && more;) {
        struct directory_found found;
        struct directory_at at;
        struct sources by;
        uint64_t cursor = 0, serial;
        r = plan_begin(&at);
        if (r == 0) r = path_walk(path, &found, &by);
        struct directory_at of = {.serial = found.serial, .rights = found.rights};
        if (r == 0 && !unlink) r = directory_way_needs(&found, found.parts, DIRECTORY_MANAGE, 0);
        if (r < 0) break;
        r = unlink ? directory_unlink(paths, at, path) : directory_take_back(paths, of, of.serial);
        if (!unlink && (r == 0 || r == -ENOENT)) tickets_end(of.serial);
        if (*grants == 0 && (r == 0 || (r == -ENOENT && !unlink)))
            grant_trace(what, process, of.serial, of.rights, 0);
        if (r == 0) {
            more = directory_change(paths)->more;
            while (directory_ended(paths, &cursor, &serial)) ++*grants;
            r = change_commit();
        } else if (r == -ENOENT && !unlink) { /* there were handles at most */
            more = false;
            r = 0;
        }
    }
    server_unlock();
    return r;
}

_Static_assert((int)WIRE_LIMIT_PAGES == LIMIT_PAGES && (int)WIRE_LIMIT_COMMITS == LIMIT_COMMITS &&
                   (int)WIRE_LIMIT_VERSIONS == LIMIT_VERSIONS &&
                   (int)WIRE_LIMIT_NAMES == LIMIT_NAMES,
               "limits have the numbers that clients say");

/* limit_request: looks need no more than a way to the directory. */
static int limit_request(const struct kd_message *m, const char *path, uint64_t word[2])
{
    enum directory_limit kind = (enum directory_limit)m->word[0];
    struct directory_found found;
    struct directory_at at;
    struct sources by;
    if (m->word[0] > WIRE_LIMIT_NAMES || m->word[1] > 1) return -EINVAL;
    server_lock();
    int r = 0;
    if (m->word[1]) {
        r = plan_begin(&at);
        r = planned(r == 0 ? directory_limit_set(paths, at, path, kind, m->word[2]) : r);
    }
    if (r == 0) r = path_walk(path, &found, &by);
    if (r == 0 && !found.is_directory) r = -ENOTDIR;
    if (r == 0) {
        word[0] = directory_limit_get(paths, found.container, kind);
        word[1] = kind != LIMIT_VERSIONS ? directory_limit_used(paths, found.container, kind)
                  : word[0] == LIMIT_NONE ? 0 : versions_held(found.container);
    }
    server_unlock();
    return r;
}

static int by_path(const struct kd_message *m, const char *path, struct kd_message *reply,
                   struct wire_named *out, unsigned room, unsigned *count)
{
    switch (m->kind) {
    case STORE_MAKE: return make_directory(path);
    case STORE_ENTRIES:
        reply->word[0] = m->word[0];
        return list_entries(path, &reply->word[0], out, room, count);
    case STORE_LOOK: *count = 1; return look(path, out);
    case STORE_HANDLE: return make_handle(path, (uint32_t)m->word[0], reply);
    case STORE_LINK: return make_link(m->process, m->handle, (uint32_t)m->word[0], path);
    case STORE_LIMIT: return limit_request(m, path, reply->word);
    case STORE_UNLINK:
    case STORE_TAKE_BACK:
        return take_away(m->process, path, m->kind == STORE_UNLINK, &reply->word[0]);
    default: return -ENOSYS;
    }
}

int names_request(const struct kd_message *m, struct kd_message *reply, struct wire_named *out,
                  unsigned room)
{
    const char *names = m->buffer;
    size_t each = m->kind == STORE_RENAME ? m->data_bytes / 2 : m->data_bytes;
    bool size_known = each == STORE_NAME_BYTES || each == WIRE_PATH_BYTES;
    unsigned count = 0;
    if (!size_known || (m->kind == STORE_RENAME && m->data_bytes % 2)) return -EINVAL;
    const char *path = names_path(names, each);
    bool about_root = m->kind == STORE_ENTRIES || m->kind == STORE_LOOK ||
                      m->kind == STORE_HANDLE || m->kind == STORE_LIMIT;
    if (!path) return -ENAMETOOLONG;
    if (!*path && !about_root) return -EINVAL;
    if (m->kind == STORE_DELETE) return names_delete(m->process, path, 0, &reply->word[0]);
    if (m->kind == STORE_RENAME) {
        const char *to = names_path(names + each, each);
        return to ? names_rename(path, to, &reply->word[0]) : -ENAMETOOLONG;
    }
    int r = by_path(m, path, reply, out, room, &count);
    reply->data = out;
    reply->data_bytes = r == 0 ? count * sizeof(*out) : 0;
    return r;
}

/* ---- what lies at an address ---- */

/* at_locked looks for a way with the right to write, first. No way: as if nothing were there. */
static int at_locked(uint64_t address, char path[WIRE_PATH_BYTES], uint32_t *rights)
{
    static const uint32_t wanted[] = {DIRECTORY_READ | DIRECTORY_WRITE, DIRECTORY_READ};
    struct store_container c;
    struct directory_found found;
    struct directory_at at;
    struct sources by;
    uint64_t page;
    int r = store_container_at(server.store, address, &c, &page) < 0 ? -ENOENT : caller_at(&at);
    int way = -ENOENT;
    for (unsigned i = server.read_only; r == 0 && way < 0 && i < 2; i++) {
        way = directory_way(paths, at, c.object, wanted[i], path);
        if (way == 0) way = path_container(path, wanted[i], &found, &by);
        if (way == 0) *rights = wanted[i];
    }
    return r == 0 && way < 0 ? -ENOENT : r;
}

int names_at(const struct kd_message *m, struct kd_message *reply, char path[WIRE_PATH_BYTES])
{
    uint32_t rights = 0;
    server_lock();
    int r = at_locked(m->word[0], path, &rights);
    server_unlock();
    reply->word[0] = rights;
    reply->data = path;
    reply->data_bytes = r == 0 ? strlen(path) + 1 : 0;
    return r;
}

/* ---- the containers of the caller's root, by their numbers ---- */

static void entry_fill(struct wire_entry *e, const struct store_container *d, const char *name)
{
    memset(e, 0, sizeof(*e));
    memcpy(e->name, name, sizeof(e->name));
    memcpy(e->type, d->layout.type, sizeof(e->type));
    e->version = d->layout.version;
    e->bytes = d->layout.bytes;
    e->container = d->object;
    e->base = d->base;
    e->pages_used = d->pages_present + d->pages_claimed;
    e->pages_max = d->pages;
    form_of(d, e->form);
    e->kept = kept_is(d->object);
}

/* entry_add adds to a list in the order of numbers, of which only the first `room` are wanted. */
static unsigned entry_add(struct wire_entry *out, unsigned filled, unsigned room,
                          const struct directory_entry *e)
{
    struct store_container d;
    unsigned i = filled;
    while (i > 0 && out[i - 1].container > e->container) i--;
    if (i == room || (i > 0 && out[i - 1].container == e->container)) return filled;
    if (store_container_get(server.store, e->container, &d) < 0) return filled;
    if (filled < room) filled++;
    memmove(&out[i + 1], &out[i], (filled - 1 - i) * sizeof(*out));
    entry_fill(&out[i], &d, e->name);
    return filled;
}

/* list_one lists a root that is one container: one entry, without a name. */
static int list_one(struct directory_at at, uint64_t after, struct wire_entry *out, uint64_t *all,
                    unsigned *filled)
{
    struct directory_entry e = {.serial = at.serial};
    int r = directory_grant(paths, at.serial, &e.container, &e.rights);
    *all = r == 0;
    *filled = r == 0 && e.container > after ? entry_add(out, 0, 1, &e) : 0;
    return r;
}

static int list_locked(uint64_t after, struct wire_entry *out, unsigned room, uint64_t *all,
                       unsigned *filled)
{
    enum { AT_ONCE = 16 };
    struct directory_entry entries[AT_ONCE];
    struct directory_at at;
    uint64_t cursor = 0;
    unsigned count;
    *all = *filled = 0;
    int r = caller_at(&at);
    while (r == 0) {
        r = directory_list(paths, at, &cursor, entries, AT_ONCE, &count);
        if (r == -ENOTDIR) return list_one(at, after, out, all, filled);
        for (unsigned i = 0; (r == 0 || r == -ENOENT) && i < count; i++) {
            *all += !entries[i].is_directory;
            if (!entries[i].is_directory && entries[i].container > after)
                *filled = entry_add(out, *filled, room, &entries[i]);
        }
    }
    return r == -ENOENT ? 0 : r;
}

int names_list(const struct kd_message *m, struct kd_message *reply, struct wire_entry *out,
               unsigned room)
{
    unsigned filled;
    if (m->word[1] && m->word[1] < room) room = (unsigned)m->word[1];
    server_lock();
    int r = list_locked(m->word[0], out, room, &reply->word[0], &filled);
    server_unlock();
    reply->data = out;
    reply->data_bytes = r == 0 ? filled * sizeof(*out) : 0;
    return r;
}
