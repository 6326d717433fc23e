/*
 * container_name.c - the root and the named objects of a container.
 *
 * A name is found in three places, in this order: among the first few names that this process knows
 * to be committed, among the operations of this transaction (made by it, not committed), at the
 * manager. It is
 * made by WIRE_NAME_SET in the commit's batch; if two transactions make one name, the second is
 * refused with -EEXIST, runs again, and finds the object of the first.
 *
 * A name can be taken away, so what a process remembers may be wrong. The slot of a named object
 * says of which name it is (name_type), and whoever takes a name away changes the slot: it is
 * looked at each time, under the page's lock. The root's name stays.
 */
#include "pstore_private.h"

#include <errno.h>
#include <string.h>

struct found { uint64_t address, bytes; };

static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;

/* name_type is the type of a named object's slot: who has learned an address sees whether it is
 * still the name's. */
static uint32_t name_type(const char *name)
{
    return SLOT_TYPE_NAME | slot_type_of(name);
}

static uint32_t type_at(uint64_t address)
{
    unsigned start;
    uint64_t page = slot_page_of((const void *)(uintptr_t)address, &start);
    return slot_type((const struct slot_page *)(uintptr_t)page, start);
}

/* names_recall finds a remembered name if it still is right; no lock, as entries are only added. */
static const struct ps_name *names_recall(const ps_container *c, const char *name)
{
    for (unsigned i = 0; i < c->names_count; i++)
        if (strcmp(c->names[i].name, name) == 0 &&
            (strcmp(name, ROOT_NAME) == 0 || type_at(c->names[i].address) == name_type(name)))
            return &c->names[i];
    return NULL;
}

static int names_know(const ps_container *c, const char *name, uint64_t address)
{
    for (unsigned i = 0; i < c->names_count; i++)
        if (c->names[i].address == address && strcmp(c->names[i].name, name) == 0)
            return 1;
    return 0;
}

void names_remember(ps_container *c, const char *name, uint64_t address, uint64_t bytes)
{
    pthread_mutex_lock(&names_lock);
    unsigned n = c->names_count;
    if (strcmp(name, DIRECTORY_NAME) == 0)
        c->directory = address;
    if (n < PS_NAMES_MAX && !names_know(c, name, address)) {
        c->names[n] = (struct ps_name){.address = address, .bytes = bytes};
        strncpy(c->names[n].name, name, sizeof c->names[n].name - 1);
        c->names_count = n + 1;
    }
    pthread_mutex_unlock(&names_lock);
}

void names_forget(ps_container *c)
{
    pthread_mutex_lock(&names_lock);
    c->names_count = 0;
    pthread_mutex_unlock(&names_lock);
}

static int find_in(const char *ops, size_t bytes, const ps_container *c, const char *name,
                   struct found *out)
{
    int result = -ENOENT;
    for (size_t at = 0; at < bytes;) {
        const struct wire_op *op = (const struct wire_op *)(ops + at);
        int named = op->kind == WIRE_NAME_SET || op->kind == WIRE_NAME_UNSET;
        if (named && op->container == c->id && strcmp(op->name, name) == 0) {
            *out = (struct found){op->address, op->value};
            result = op->kind == WIRE_NAME_SET ? 0 : -ENODATA;
        }
        at += op->op_bytes;
    }
    return result;
}

/* find_in_transaction finds what the transaction says of a name: 0; -ENOENT; -ENODATA: it goes. */
static int find_in_transaction(const struct ps_tx *tx, const ps_container *c, const char *name,
                               struct found *out)
{
    const struct tx_ops *b = tx->names ? tx_ops_in(tx, c->store) : NULL;
    return b ? find_in(b->ops, b->bytes, c, name, out) : -ENOENT;
}

int names_hold(const ps_container *c, uint64_t address)
{
    unsigned start;
    uint64_t page = slot_page_of((const void *)(uintptr_t)address, &start);
    if (type_at(address) & SLOT_TYPE_NAME)
        return 1;
    /* names_hold has to find the root, too, and what an older Katydid named */
    for (unsigned i = 0; i < c->names_count; i++)
        if (c->names[i].address == address &&
            (strcmp(c->names[i].name, ROOT_NAME) == 0 ||
             !slot_is_marked((struct slot_page *)(uintptr_t)page)))
            return 1;
    const struct ps_tx *tx = tx_active();
    struct found root;
    return tx && find_in_transaction(tx, c, ROOT_NAME, &root) == 0 && root.address == address;
}

static int find_at_manager(ps_container *c, const char *name, struct found *out)
{
    char data[STORE_NAME_BYTES] = {0};
    uint64_t word[STORE_REQUEST_WORDS] = {c->id};
    strncpy(data, name, sizeof data - 1);
    int result = store_request(c->store, STORE_NAMED, word, data, sizeof data, NULL, NULL);
    if (result != 0)
        return result;
    *out = (struct found){word[0], word[1]};
    if (!container_has(c, out->address, out->bytes))
        return -EPROTO;
    struct ps_tx *tx = tx_work_begin();
    names_remember(c, name, out->address, out->bytes);
    tx_work_end(tx);
    return 0;
}

static int find(const struct ps_tx *tx, ps_container *c, const char *name, struct found *out)
{
    const struct ps_name *known = names_recall(c, name);
    if (known) {
        *out = (struct found){known->address, known->bytes};
        return 0;
    }
    int result = find_in_transaction(tx, c, name, out);
    return result == -ENODATA ? -ENOENT : result != 0 ? find_at_manager(c, name, out) : 0;
}

uint64_t names_find(const struct ps_tx *tx, ps_container *c, const char *name, int ask)
{
    struct found found;
    int result = ask ? find(tx, c, name, &found) : find_in_transaction(tx, c, name, &found);
    return result == 0 ? found.address : 0;
}

void *names_object(ps_container *c, const char *name, size_t bytes, uint32_t type)
{
    struct ps_tx *tx = tx_active();
    struct found found;
    int result = !tx ? -EPERM : !container_is_open(c) ? -EINVAL : find(tx, c, name, &found);
    if (result == 0) {
        if (bytes == 0 || found.bytes == 0 || found.bytes == bytes)
            return (void *)(uintptr_t)found.address;
        result = -EPROTO;
    }
    if (tx && result == -ENOENT)
        retry_missed(tx, c->store);
    if (result != -ENOENT || bytes == 0 || !(c->flags & PS_WRITE)) {
        errno = -result;
        return NULL;
    }
    if (!tx_writing(c))
        return NULL;
    void *made = heap_alloc(tx, c, bytes, NULL, type, 0);
    result = made ? tx_op(tx, WIRE_NAME_SET, c, (uintptr_t)made, bytes, name) : -errno;
    if (result == 0)
        return made;
    if (made)
        ps_free(made);
    errno = -result;
    return NULL;
}

static void *noted(void *object, size_t bytes, const char *what)
{
    if (lint_on && object)
        lint_note(object, bytes, what);
    return object;
}

void *ps_root(ps_container *c)
{
    void *root = names_object(c, ROOT_NAME, container_is_open(c) ? c->root_bytes : 0,
                              container_is_open(c) ? slot_type_of(c->root_type) : 0);
    error_told_by(container_is_open(c) && !c->root_bytes ? ERROR_NO_LAYOUT : ERROR_OBJECT, root);
    return noted(root, root ? c->root_bytes : 0, root ? c->root_type : NULL);
}

void *names_private(ps_container *c, const char *name, size_t bytes)
{
    return names_object(c, name, bytes, name_type(name));
}

/* name_is_wrong refuses names of the library's own, too, which begin with a control character. */
static int name_is_wrong(const char *name)
{
    size_t length = name ? strnlen(name, STORE_NAME_BYTES) : 0;
    if (length == STORE_NAME_BYTES)
        return -ENAMETOOLONG;
    return length == 0 || (unsigned char)name[0] <= ' ' ? -EINVAL : 0;
}

void *ps_named(ps_container *c, const char *name, size_t bytes)
{
    int wrong = name_is_wrong(name);
    if (wrong == 0)
        return noted(error_told_by(ERROR_OBJECT, names_object(c, name, bytes, name_type(name))),
                     bytes, name);
    errno = -wrong;
    return error_told_by(ERROR_OBJECT, NULL);
}

/* ---- names listed and taken away ---- */

static int name_remove(ps_container *c, const char *name)
{
    struct found found;
    unsigned start;
    struct ps_tx *tx = tx_writing(c);
    GUARD_OPENED(c);
    int result = !tx ? -errno : name_is_wrong(name);
    if (result == 0)
        result = find(tx, c, name, &found);
    if (result != 0)
        return result;
    struct slot_page *page =
        (struct slot_page *)(uintptr_t)slot_page_of((void *)(uintptr_t)found.address, &start);
    if (slot_retype(page, start, 0) != 0)
        return -ENOTSUP;
    return tx_op(tx, WIRE_NAME_UNSET, c, 0, 0, name);
}

int ps_name_remove(ps_container *c, const char *name)
{
    return error_told(ERROR_OBJECT, name_remove(c, name));
}

/* names_list lists committed names, those that the library uses itself left out. */
static int names_list(ps_container *c, struct ps_name_info *out, int count)
{
    enum { ENTRIES = 32 };
    struct wire_name names[ENTRIES];
    uint64_t from = 0;
    int all = 0;
    if (!container_is_open(c) || count < 0 || (count > 0 && !out))
        return -EINVAL;
    do {
        uint64_t word[STORE_REQUEST_WORDS] = {c->id, from};
        size_t bytes = sizeof names;
        int result = store_request(c->store, STORE_NAMES, word, NULL, 0, names, &bytes);
        if (result != 0)
            return result;
        for (size_t i = 0; i < bytes / sizeof names[0]; i++) {
            names[i].name[STORE_NAME_BYTES - 1] = '\0';
            if (name_is_wrong(names[i].name))
                continue;
            if (all < count) {
                out[all] = (struct ps_name_info){.object = (void *)(uintptr_t)names[i].address,
                                                 .bytes = names[i].bytes};
                memcpy(out[all].name, names[i].name, sizeof out[all].name);
            }
            all++;
        }
        from = word[0];
    } while (from);
    return all;
}

int ps_names(ps_container *c, struct ps_name_info *out, int count)
{
    int result = tx_active() ? 0 : stores_refresh();
    return error_told(ERROR_OTHER, result == 0 ? names_list(c, out, count) : result);
}
