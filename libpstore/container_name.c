/*
 * container_name.c - the root and the named objects of a container.
 *
 * A name is found in three places, in this order: among the first few names that this process knows
 * to be committed, among the operations of this transaction (made by it, not committed), at the
 * manager. It is
 * made by WIRE_NAME_SET in the commit's batch; if two transactions make one name, the second is
 * refused with -EEXIST, runs again, and finds the object of the first. Names are never taken away
 * while a container lives, so a remembered one stays right.
 */
#include "pstore_private.h"

#include <errno.h>
#include <string.h>

struct found { uint64_t address, bytes; };

static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;

/* The remembered name, or NULL; without a lock, for entries are only added. */
static const struct ps_name *names_recall(const ps_container *c, const char *name)
{
    for (unsigned i = 0; i < c->names_count; i++)
        if (strcmp(c->names[i].name, name) == 0)
            return &c->names[i];
    return NULL;
}

void names_remember(ps_container *c, const char *name, uint64_t address, uint64_t bytes)
{
    pthread_mutex_lock(&names_lock);
    unsigned n = c->names_count;
    if (n < PS_NAMES_MAX && !names_recall(c, name)) {
        c->names[n] = (struct ps_name){.address = address, .bytes = bytes};
        strncpy(c->names[n].name, name, sizeof c->names[n].name - 1);
        c->names_count = n + 1;
    }
    pthread_mutex_unlock(&names_lock);
}

int names_hold(const ps_container *c, uint64_t address)
{
    for (unsigned i = 0; i < c->names_count; i++)
        if (c->names[i].address == address)
            return 1;
    const struct ps_tx *tx = tx_active();
    for (size_t at = 0; tx && tx->names > 0 && at < tx->ops_bytes;) {
        const struct wire_op *op = (const struct wire_op *)(tx->ops + at);
        if (op->kind == WIRE_NAME_SET && op->address == address)
            return 1;
        at += op->op_bytes;
    }
    return 0;
}

static int find_in_transaction(const struct ps_tx *tx, const ps_container *c, const char *name,
                               struct found *out)
{
    for (size_t at = 0; tx->names > 0 && tx->store == c->store && at < tx->ops_bytes;) {
        const struct wire_op *op = (const struct wire_op *)(tx->ops + at);
        if (op->kind == WIRE_NAME_SET && op->container == c->id &&
            strcmp(op->name, name) == 0) {
            *out = (struct found){op->address, op->value};
            return 0;
        }
        at += op->op_bytes;
    }
    return -ENOENT;
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
    return result != 0 ? find_at_manager(c, name, out) : 0;
}

/* NULL with errno. bytes 0: found, not made. */
static void *find_or_make(ps_container *c, const char *name, size_t bytes)
{
    struct ps_tx *tx = tx_active();
    struct found found;
    int result = !tx ? -EPERM : !container_is_open(c) ? -EINVAL : find(tx, c, name, &found);
    if (result == 0) {
        if (bytes == 0 || found.bytes == 0 || found.bytes == bytes)
            return (void *)(uintptr_t)found.address;
        result = -EPROTO;
    }
    if (result != -ENOENT || bytes == 0 || !(c->flags & PS_WRITE)) {
        errno = -result;
        return NULL;
    }
    if (!tx_writing(c))
        return NULL;
    void *made = heap_alloc(tx, c, bytes, NULL);
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
    void *root = find_or_make(c, ROOT_NAME, container_is_open(c) ? c->root_bytes : 0);
    error_told_by(ERROR_OBJECT, root);
    return noted(root, root ? c->root_bytes : 0, root ? c->root_type : NULL);
}

void *ps_named(ps_container *c, const char *name, size_t bytes)
{
    size_t length = name ? strnlen(name, STORE_NAME_BYTES) : 0;
    if (length > 0 && length < STORE_NAME_BYTES && (unsigned char)name[0] > ' ')
        return noted(error_told_by(ERROR_OBJECT, find_or_make(c, name, bytes)), bytes, name);
    errno = length == STORE_NAME_BYTES ? ENAMETOOLONG : EINVAL;
    return error_told_by(ERROR_OBJECT, NULL);
}
