/*
 * kept_setting.c - which program serves a container (ps_manager), as the store's directory has it.
 *
 * The setting is names of the container, which no program can make, list or take away: kept_head
 * with the length of the text, and pieces of the text. So it is logged, recovered, copied and
 * deleted like all names, and its look-up reads no disk.
 *
 * Locks: server.lock, held by the caller; the last two functions take it themselves.
 */
#include "group.h"
#include "index_format.h"
#include "path.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE_BYTES = 60, PIECES_MAX = WIRE_MANAGER_BYTES / PIECE_BYTES };
static const char kept_head[] = "\3manager";

bool kept_name(const char *name) { return name[0] == kept_head[0]; }

/* kept_text: -ENOENT: none, or one that is not whole: nobody but us writes it. */
int kept_text(uint64_t id, char text[WIRE_MANAGER_BYTES])
{
    struct store_name found;
    uint32_t cursor = 0;
    uint64_t bytes = 0, got = 0;
    if (store_name_find(server.store, id, kept_head, &found) < 0) return -ENOENT;
    bytes = found.bytes;
    while (bytes <= WIRE_MANAGER_BYTES && store_name_next(server.store, id, &cursor, &found) == 0) {
        unsigned piece = (unsigned char)found.name[1] - 'A';
        size_t length = strlen(found.name);
        if (!kept_name(found.name) || piece >= PIECES_MAX) continue;
        if (length < 3 || length - 2 > PIECE_BYTES) continue;
        memcpy(text + piece * PIECE_BYTES, found.name + 2, length - 2);
        got += length - 2;
    }
    for (uint64_t i = 0; i < got; i++)
        if (text[i] == '\n') text[i] = 0;
    return got == bytes && bytes && !text[bytes - 1] ? (int)bytes : -ENOENT;
}

bool kept_is(uint64_t id)
{
    struct store_name found;
    return store_name_find(server.store, id, kept_head, &found) == 0;
}

static struct store_op *name_add(struct kept_names *n, enum store_op_type type, uint64_t id)
{
    struct store_op *op = &n->ops[n->count];
    *op = (struct store_op){.type = type, .object = id, .name = n->name[n->count]};
    memset(n->name[n->count++], 0, STORE_NAME_BYTES);
    return op;
}

/* pieces_set cuts the text into pieces, with a line's end for each NUL. */
static void pieces_set(struct kept_names *n, uint64_t id, const char *text, size_t bytes)
{
    struct store_op *head = name_add(n, STORE_OP_NAME_SET, id);
    memcpy(n->name[n->count - 1], kept_head, sizeof(kept_head));
    head->bytes = bytes;
    for (size_t at = 0; at < bytes; at += PIECE_BYTES) {
        size_t part = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        char *name = n->name[n->count];
        (void)name_add(n, STORE_OP_NAME_SET, id);
        name[0] = kept_head[0];
        name[1] = (char)('A' + at / PIECE_BYTES);
        for (size_t i = 0; i < part; i++) name[2 + i] = text[at + i] ? text[at + i] : '\n';
    }
}

void kept_names_make(struct kept_names *n, uint64_t id, const char *text, size_t bytes)
{
    struct store_name found;
    uint32_t cursor = 0;
    n->count = 0;
    if (bytes) pieces_set(n, id, text, bytes);
    unsigned made = n->count;
    while (n->count < KEPT_OPS && store_name_next(server.store, id, &cursor, &found) == 0) {
        bool stays = !kept_name(found.name);
        for (unsigned i = 0; i < made && !stays; i++) stays = strcmp(found.name, n->name[i]) == 0;
        if (stays) continue;
        (void)name_add(n, STORE_OP_NAME_UNSET, id);
        memcpy(n->name[n->count - 1], found.name, STORE_NAME_BYTES);
    }
}

/* ---- a program is set, or none ---- */

/* text_check checks a text: a program by its path, then its arguments. */
static int text_check(const char *text, size_t bytes)
{
    if (bytes > WIRE_MANAGER_BYTES) return -E2BIG;
    if (bytes && (text[0] != '/' || text[bytes - 1])) return -EINVAL;
    for (size_t i = 0; i < bytes; i++)
        if (text[i] && ((unsigned char)text[i] < ' ' || text[i] == 127)) return -EINVAL;
    return !bytes || access(text, X_OK) == 0 ? 0 : -errno;
}

/* manager_prepare, lock held: of a container without pages that nobody has open, our objects go: in
 * the gate, when no group is in the air (OC4). */
static int manager_prepare(const struct store_container *d)
{
    struct container *c = container_by_id(d->object);
    if (c && c->opening_count) return -EBUSY;
    if (index_kind(d->layout.type) >= 0) return -EINVAL;
    if (d->pages_present || d->pages_claimed) return -ENOTEMPTY;
    int r = kept_end(d->object);
    return r == 0 && c ? container_let_go(c) : r;
}

/* manager_make makes one that is not there, in one change. Lock held, dropped for the commit. */
static int manager_make(const char *path, struct kept_names *names, const char *text, size_t bytes)
{
    struct directory_at at;
    int r = caller_at(&at);
    if (r == 0) r = directory_make(paths, at, path, false);
    if (r < 0) return r;
    struct directory_change *c = directory_change(paths);
    kept_names_make(names, c->container, text, bytes);
    for (unsigned i = 0; i < names->count; i++) c->ops[c->count++] = names->ops[i];
    return change_commit();
}

/* manager_set passes the gate so that no group is in the air while the objects go. */
static int manager_set(struct kept_names *names, const char *path, const char *text, size_t bytes)
{
    struct directory_found found;
    struct store_container d;
    struct sources by;
    while (server.changing || directory_change(paths))
        pthread_cond_wait(&server.changed, &server.lock);
    int r = path_container(path, DIRECTORY_WRITE | DIRECTORY_MANAGE, &found, &by);
    if (r == -ENOENT && bytes) return manager_make(path, names, text, bytes);
    if (r == 0) r = store_container_get(server.store, found.container, &d);
    if (r < 0) return r;
    server.changing = d.object; /* nobody opens it */
    gate_enter(true);
    r = manager_prepare(&d);
    if (r == 0) kept_names_make(names, d.object, text, bytes);
    gate_leave();
    server_unlock();
    if (r == 0 && names->count) r = commit_own(names->ops, names->count);
    server_lock();
    server.changing = 0;
    pthread_cond_broadcast(&server.changed);
    return r;
}

int container_manager(const char *path, const char *text, size_t bytes)
{
    int r = text_check(text, bytes);
    struct kept_names *names = r == 0 ? malloc(sizeof(*names)) : NULL;
    if (r == 0 && !names) r = -ENOMEM;
    server_lock();
    if (r == 0) r = server_writable();
    if (r == 0) r = caller_manages(); /* the program runs with all that the keeper gives it */
    if (r == 0) {
        do r = manager_set(names, path, text, bytes);
        while (r == -EEXIST);
    }
    directory_limits_count(paths); /* the container's names count where it lies */
    quota_again();
    server_unlock();
    free(names);
    return r;
}

int container_managed(const char *path, char text[WIRE_MANAGER_BYTES])
{
    struct directory_found found;
    struct sources by;
    server_lock();
    int r = path_container(path, DIRECTORY_READ, &found, &by);
    if (r == 0) r = kept_text(found.container, text);
    server_unlock();
    return r;
}

/* ---- segments ---- */

int container_segment(uint64_t process, uint64_t id, uint64_t number, uint64_t place[2])
{
    struct store_container d;
    server_lock();
    const struct container *c = container_by_id(id);
    int r = c && container_has_opening(c, process) ? 0 : -EACCES;
    if (r == 0) r = store_container_get(server.store, id, &d);
    if (r == 0 && container_object_of(c, number, &place[1]) < 0) r = -ENOENT;
    if (r == 0) place[0] = d.segments[number].address;
    server_unlock();
    return r;
}

int container_object_of(const struct container *c, uint64_t number, uint64_t *pages)
{
    if (c->kept) return kept_object(c->id, number, pages);
    if (number >= c->segment_count) return -ENOENT;
    *pages = c->segment[number].pages;
    return c->segment[number].object;
}
