/*
 * handle.c - directories, handles of containers, and the roots that a process was given.
 *
 * A handle is a badge of the store's port (user/store/directories.md): a request by it begins at
 * its container or directory, and has its rights. What the store manager checks is not checked
 * here; here are only names that the process itself gives to its handles (PS_ROOTS).
 */
#include "pstore_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(PS_MAY_READ << 16 == WIRE_MAY_READ && PS_MAY_WRITE << 16 == WIRE_MAY_WRITE &&
                   PS_MAY_DELETE << 16 == WIRE_MAY_DELETE &&
                   PS_MAY_RENAME << 16 == WIRE_MAY_RENAME && PS_MAY_MANAGE << 16 == WIRE_MAY_MANAGE,
               "one bit means one right");

static uint32_t wire_rights(unsigned rights)
{
    return (rights & 31) << 16 | (rights & PS_MAY_GRANT ? WIRE_MAY_GRANT : 0);
}

int path_copy(char out[WIRE_PATH_BYTES], const char *path)
{
    size_t bytes = path ? strnlen(path, WIRE_PATH_BYTES) : 0;
    if (bytes == 0)
        return -EINVAL;
    if (bytes == WIRE_PATH_BYTES)
        return -ENAMETOOLONG;
    memset(out, 0, WIRE_PATH_BYTES);
    memcpy(out, path, bytes);
    return 0;
}

int paths_copy(char data[2 * WIRE_PATH_BYTES], const char *path, const char *other)
{
    size_t each = STORE_NAME_BYTES;
    int result = tx_active() ? -EBUSY : path_copy(data, path);
    if (result == 0 && (strlen(path) >= each || (other && strlen(other) >= each)))
        each = WIRE_PATH_BYTES;
    if (result == 0 && other)
        result = path_copy(data + each, other);
    return result == 0 ? (int)each : result;
}

/* ---- roots ---- */

/* root_next finds the next root of this store in the text: its handle, and its name in *name, of
 * *length bytes (0: it is a directory). -1: there is none; *text moves on. */
static int root_next(const char **text, const char *store, const char **name, size_t *length)
{
    size_t bytes = strlen(store);
    while (*text && **text) {
        const char *word = *text;
        size_t all = strcspn(word, " ");
        char *end;
        *text = word + all + (word[all] == ' ');
        if (strncmp(word, store, bytes) != 0 || word[bytes] != ':')
            continue;
        long handle = strtol(word + bytes + 1, &end, 10);
        *name = *end == '=' ? end + 1 : end;
        *length = (size_t)(word + all - *name);
        if (handle >= 0 && handle < INT16_MAX && *name <= word + all)
            return (int)handle;
    }
    return -1;
}

/* roots_port returns the first root that is a directory, else the first one. It is not closed. */
long roots_port(struct ps_store *s)
{
    const char *text = getenv(PS_ROOTS), *name;
    size_t length = 1;
    int found = -1, handle;
    while (length > 0 && (handle = root_next(&text, s->name, &name, &length)) >= 0)
        if (found < 0 || length == 0)
            found = handle;
    s->confined = found < 0 ? 0 : length == 0 ? ROOT_DIRECTORY : ROOT_CONTAINERS;
    return found < 0 ? -ENOENT : found;
}

/* store_by_name gives a handle to call the store manager of this name, which the caller closes: a
 * copy of the root, if there is one. */
long store_by_name(const char *name)
{
    struct ps_store s = {.port = -1};
    snprintf(s.name, sizeof s.name, "%s", name);
    long root = roots_port(&s);
    return root < 0 ? ps_kernel(KD_NAME_FIND, (long)name, 0, 0)
                    : ps_kernel(KD_HANDLE_COPY, root, KD_RIGHT_CALL, 0);
}

int root_of(const char *store, const char *path)
{
    const char *text = getenv(PS_ROOTS), *name;
    size_t length;
    int handle;
    while ((handle = root_next(&text, store, &name, &length)) >= 0)
        if (length > 0 && strlen(path) == length && strncmp(path, name, length) == 0)
            return handle;
    return -1;
}

/* roots_by has a container that was passed opened by its handle; another path leads on from the
 * root directory, if there is one. */
int roots_by(const struct ps_store *s, struct open_request *request)
{
    int handle = root_of(s->name, request->path);
    if (handle < 0)
        return s->confined == ROOT_DIRECTORY ? 0 : -ENOENT;
    request->by = handle;
    request->named = 1;
    return 0;
}

/* root_at asks for one root's way to what lies at the address; *flags: what it gives at least. */
static int root_at(struct ps_store *s, int by, uint64_t address, char path[WIRE_PATH_BYTES],
                   int *flags)
{
    uint64_t word[STORE_REQUEST_WORDS] = {address};
    size_t bytes = WIRE_PATH_BYTES;
    int result = store_request_by(s, by, NULL, STORE_AT, word, NULL, 0, path, &bytes);
    if (result == 0 && (bytes == 0 || strnlen(path, bytes) != bytes - 1))
        result = -EPROTO;
    *flags = word[0] & WIRE_MAY_WRITE ? PS_WRITE : 0;
    return result;
}

int roots_at(struct ps_store *s, uint64_t address, char path[WIRE_PATH_BYTES], int *flags, int *by)
{
    const char *text = getenv(PS_ROOTS), *name;
    size_t length;
    int result = -ENOENT, handle;
    *by = -1;
    if (s->confined != ROOT_CONTAINERS)
        result = root_at(s, -1, address, path, flags);
    while (s->confined && (result == -ENOENT || (result == 0 && *flags == 0)) &&
           (handle = root_next(&text, s->name, &name, &length)) >= 0) {
        char other[WIRE_PATH_BYTES];
        int others = 0;
        if (length == 0 || root_at(s, handle, address, other, &others) != 0 ||
            (result == 0 && !others))
            continue;
        *by = handle;
        *flags = others;
        result = 0;
    }
    return result;
}

/* ---- requests ---- */

int path_ask(uint32_t kind, const char *path, uint64_t word[STORE_REQUEST_WORDS],
             struct store_handle *handle, void *answer, size_t *bytes)
{
    char data[WIRE_PATH_BYTES] = "";
    int result = tx_active() ? -EBUSY : !path ? -EINVAL : *path ? path_copy(data, path) : 0;
    if (result == 0)
        result = stores_ready();
    int by = result == 0 && store_of_opens()->confined ? root_of(store_of_opens()->name, path) : -1;
    if (by >= 0)
        *data = 0;
    if (result == 0)
        result = store_request_by(store_of_opens(), by, handle, kind, word, data, sizeof data,
                                  answer, bytes);
    return lack_at(result, path, NULL, by >= 0);
}

int ps_directory_create(const char *path)
{
    uint64_t word[STORE_REQUEST_WORDS] = {0};
    return error_told(ERROR_NAMES, path_ask(STORE_MAKE, path, word, NULL, NULL, NULL));
}

static void entry_of_wire(struct ps_entry *out, const struct wire_named *e)
{
    *out = (struct ps_entry){.directory = e->directory != 0, .rights = may_of(e->rights),
                             .grant = e->grant, .made_of = e->made_of};
    memcpy(out->name, e->name, sizeof out->name);
    out->name[sizeof out->name - 1] = '\0';
}

static int list(const char *path, struct ps_entry *out, int count)
{
    enum { ENTRIES = 32 };
    struct wire_named entries[ENTRIES];
    uint64_t word[STORE_REQUEST_WORDS] = {0};
    int all = 0;
    if (count < 0 || (count > 0 && !out))
        return -EINVAL;
    do {
        size_t bytes = sizeof entries;
        int result = path_ask(STORE_ENTRIES, path, word, NULL, entries, &bytes);
        if (result != 0)
            return result;
        for (size_t i = 0; i < bytes / sizeof entries[0]; i++, all++)
            if (all < count)
                entry_of_wire(&out[all], &entries[i]);
    } while (word[0]);
    return all;
}

int ps_directory_list(const char *path, struct ps_entry *out, int count)
{
    return error_told(ERROR_NAMES, list(path, out, count));
}

int ps_rights(const char *path, struct ps_entry *out)
{
    struct wire_named named;
    size_t bytes = sizeof named;
    uint64_t word[STORE_REQUEST_WORDS] = {0};
    int result = path_ask(STORE_LOOK, path, word, NULL, &named, &bytes);
    if (result == 0 && bytes != sizeof named)
        result = -EPROTO;
    if (result == 0 && out)
        entry_of_wire(out, &named);
    return error_told(ERROR_NAMES, result == 0 ? (int)may_of(named.rights) : result);
}

/* ---- handles ---- */

int ps_handle(const char *path, unsigned rights)
{
    uint64_t word[STORE_REQUEST_WORDS] = {wire_rights(rights)};
    struct store_handle handle = {.handle = -1};
    int result = rights & ~(unsigned)PS_MAY_ALL ? -EINVAL : 0;
    if (result == 0)
        result = path_ask(STORE_HANDLE, path, word, &handle, NULL, NULL);
    if (result == 0 && handle.handle < 0)
        result = -EPROTO;
    return error_told(ERROR_NAMES, result == 0 ? handle.handle : result);
}

int ps_drop(int handle)
{
    return (int)ps_kernel(KD_HANDLE_CLOSE, handle, 0, 0);
}

ps_container *ps_open_by(int handle, const char *path, int flags, const struct ps_layout *root)
{
    if (handle >= 0)
        return container_open_by(handle, path, flags, root);
    errno = EBADF;
    return NULL;
}

int ps_link(int handle, const char *path, unsigned rights)
{
    uint32_t wanted = wire_rights(rights);
    uint64_t word[STORE_REQUEST_WORDS] = {wanted};
    struct store_handle sent = {.handle = handle,
                                .rights = KD_RIGHT_CALL | wanted | WIRE_MAY_GRANT};
    int result = handle < 0 ? -EBADF : !wanted || rights & ~(unsigned)PS_MAY_ALL ? -EINVAL : 0;
    if (result == 0)
        result = path_ask(STORE_LINK, path, word, &sent, NULL, NULL);
    return error_told(ERROR_NAMES, result);
}

static int take_away(uint32_t kind, const char *path)
{
    uint64_t word[STORE_REQUEST_WORDS] = {0};
    int result = path_ask(kind, path, word, NULL, NULL, NULL);
    return error_told(ERROR_NAMES, result == 0 ? (int)word[0] : result);
}

int ps_unlink(const char *path)
{
    int result = take_away(STORE_UNLINK, path);
    return result < 0 ? result : 0;
}

int ps_take_back(const char *path)
{
    return take_away(STORE_TAKE_BACK, path);
}

/* ---- limits ---- */

_Static_assert(PS_LIMIT_PAGES == (int)WIRE_LIMIT_PAGES &&
                   PS_LIMIT_COMMITS == (int)WIRE_LIMIT_COMMITS &&
                   PS_LIMIT_VERSIONS == (int)WIRE_LIMIT_VERSIONS &&
                   PS_LIMIT_NAMES == (int)WIRE_LIMIT_NAMES,
               "limits go through as they are");

int ps_limit_set(const char *directory, enum ps_limit kind, uint64_t most)
{
    uint64_t word[STORE_REQUEST_WORDS] = {(uint64_t)kind, 1, most};
    return error_told(ERROR_NAMES, path_ask(STORE_LIMIT, directory, word, NULL, NULL, NULL));
}

int ps_limit(const char *directory, enum ps_limit kind, uint64_t *most, uint64_t *used)
{
    uint64_t word[STORE_REQUEST_WORDS] = {(uint64_t)kind};
    int result = path_ask(STORE_LIMIT, directory, word, NULL, NULL, NULL);
    if (result == 0 && most)
        *most = word[0];
    if (result == 0 && used)
        *used = word[1];
    return error_told(ERROR_NAMES, result);
}
