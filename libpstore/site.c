/*
 * site.c - containers of other sites: "SITE:PATH" is PATH in the store "SITE/store", whose manager
 * is `remote`; and what the agent of another site needs (site.h).
 */
#include "store_private.h"

#include <errno.h>
#include <string.h>

#include "site.h"

enum { WANT = 1 };                      /* of remote: the site's name; it begins a manager, or says
                                         * -EAGAIN: no site of that name has joined yet */

int ps_site_transaction(int (*fn)(void *arg), void *arg, int holder, uint64_t ticket,
                        struct ps_options options)
{
    options.heir = holder + 1;
    options.helps_token = ticket;
    return (ps_transaction_opt)(fn, arg, &options);
}

uint64_t ps_site_ticket(void) { return tx_active()->begin.ticket; }

int ps_site_batch(const void *batch, size_t bytes)
{
    struct ps_tx *tx = tx_active();
    if (!tx || tx->now->bytes)
        return -EPERM;
    if (bytes > tx->now->size && tx_memory(&tx->now->ops, &tx->now->size, bytes, 0) != 0)
        return -ENOMEM;
    memcpy(tx->now->ops, batch, bytes);
    tx->now->bytes = bytes;
    tx->now->store = store_of_opens();
    return 0;
}

/* ---- notes ---- */

int ps_site_note(ps_container *c, unsigned number, const uint64_t word[2])
{
    char name[] = {WIRE_NOTES, 'a', 'a', 'a', 'a', '\0'};
    for (char *at = name + 1; *at; number /= 16)
        *at++ += (char)(number % 16);
    return tx_op_bytes(tx_active(), WIRE_NOTE, c, word[0], word[1], name, sizeof name - 1);
}

int ps_site_notes(ps_container *c, void (*fn)(unsigned number, const uint64_t word[2]))
{
    struct wire_name names[32];
    uint64_t from = 0;
    do {
        uint64_t request[STORE_REQUEST_WORDS] = {c->id, from};
        size_t bytes = sizeof names;
        int result = store_request(c->store, STORE_NAMES, request, NULL, 0, names, &bytes);
        if (result != 0)
            return result;
        for (size_t i = 0; i < bytes / sizeof names[0]; i++) {
            const char *name = names[i].name;
            unsigned number = 0;
            for (int digit = 4; digit > 0; digit--)
                number = number * 16 + (unsigned)(name[digit] - 'a');
            if (name[0] == WIRE_NOTES)
                fn(number, (uint64_t[]){names[i].address, names[i].bytes});
        }
        from = request[0];
    } while (from);
    return 0;
}

/* ---- what data look like ---- */

static const char *declared;            /* before the first open: no lock */
static __thread char refused[STORE_NAME_BYTES];

int ps_site_declare(const char *text)
{
    if (text && strlen(text) > SITE_TYPES_BYTES)
        return -E2BIG;
    declared = text;
    return 0;
}

size_t site_open_request(const struct ps_store *s, const struct open_request *r,
                         uint8_t to[SITE_OPEN_BYTES])
{
    _Static_assert(SITE_OPEN_BYTES == sizeof *r + SITE_TYPES_BYTES, "one description");
    size_t path = r->open.name[0] || r->named ? 0 : strlen(r->path) + 1, bytes = sizeof r->open;
    struct wire_open open = r->open;
    if (!strchr(s->name, '/'))
        open.flags &= ~(uint32_t)PS_UPDATES;
    memcpy(to, &open, sizeof open);
    memcpy(to + bytes, r->path, path);
    bytes += path;
    if (declared && strchr(s->name, '/')) {
        memcpy(to + bytes, declared, strlen(declared));
        bytes += strlen(declared);
    }
    return bytes;
}

void site_refused(const void *name, size_t bytes)
{
    memcpy(refused, name, bytes < sizeof refused ? bytes : sizeof refused - 1);
    refused[sizeof refused - 1] = 0;
}

const char *ps_site_refused(void) { return refused; }

int ps_site_describe(ps_container *c, const char *text)
{
    size_t bytes = strlen(text);
    char *kept = bytes <= SITE_TYPES_BYTES ? names_private(c, SITE_TYPES_NAME, SITE_TYPES_BYTES)
                                           : NULL;
    if (!kept)
        return bytes <= SITE_TYPES_BYTES ? -errno : -E2BIG;
    memset(kept, 0, SITE_TYPES_BYTES);
    memcpy(kept, text, bytes);
    return 0;
}

/* ---- snapshots ---- */

/* home_snapshot returns the handle of a point at which all homes have a part, too; -ENOENT: there
 * is no such. The first home's manager asks the others. */
static int home_snapshot(void)
{
    struct ps_store *home = NULL;
    struct store_handle point = {.handle = -1};
    char others[PS_STORES_MAX * STORE_NAME_BYTES];
    size_t bytes = 0;
    unsigned all = 0;
    for (struct ps_store *s = NULL; (s = store_next(s));) {
        size_t length = strlen(s->name) + 1;
        if (s->away)
            continue;           /* who uses its pages is undone */
        all++;
        if (!strchr(s->name, '/'))
            continue;
        if (home && bytes + length > sizeof others)
            return -ENOENT;
        if (home) {
            memcpy(others + bytes, s->name, length);
            bytes += length;
        }
        home = home ? home : s;
    }
    if (!home)
        return -ENOENT;
    uint64_t word[STORE_REQUEST_WORDS] = {all > 1};
    int result = store_request_by(home, -1, &point, STORE_SNAPSHOT, word, others, bytes, NULL,
                                  NULL);
    return result == 0 ? point.handle : result == -EAGAIN || result == -EACCES ? -ENOENT : result;
}

int site_snapshot_begin(struct ps_tx *tx)
{
    int point = home_snapshot();
    if (point < 0 && point != -ENOENT)
        return point;
    tx->begin.snapshot = point < 0 ? 0 : point + 1;
    int result = (int)ps_kernel(KD_TXN_BEGIN, (long)&tx->begin, 0, 0);
    if (point >= 0)
        ps_kernel(KD_HANDLE_CLOSE, point, 0, 0);
    return result;
}

/* ---- SITE:PATH ---- */

/* site_want has `remote` begin a manager for the site's store, if it has not yet. */
static int site_want(const char *site)
{
    struct kd_message m = {.kind = WANT, .data = site, .data_bytes = strlen(site) + 1,
                           .handle = -1};
    long port = ps_kernel(KD_NAME_FIND, (long)"remote", 0, 0);
    if (port < 0)
        return -ENOTCONN;
    long result = ps_kernel(KD_PORT_CALL, port, (long)&m, 0);
    ps_kernel(KD_HANDLE_CLOSE, port, 0, 0);
    return result < 0 ? (int)result : m.status;
}

int site_again(const char *store)
{
    char site[STORE_NAME_BYTES] = {0};
    const char *slash = strchr(store, '/');
    if (!slash)
        return 0;
    memcpy(site, store, (size_t)(slash - store));
    return site_want(site) == -ECONNREFUSED ? -ECONNREFUSED : 1;
}

const char *site_path(const char *path)
{
    const char *colon = path ? strchr(path, ':') : NULL;
    return colon ? colon + 1 : path;
}

/* site_store tells the name of the site's store, which is begun, if it is not there. */
static int site_store(char store[STORE_NAME_BYTES], const char *path)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    const char *rest = site_path(path);
    size_t bytes = (size_t)(rest - path);
    if (bytes < 2 || bytes + sizeof "/store" > STORE_NAME_BYTES ||
        strspn(path, good) < bytes - 1)
        return -EINVAL;
    memcpy(store, path, bytes - 1);
    store[bytes - 1] = 0;
    int result = site_want(store);
    memcpy(store + bytes - 1, "/store", sizeof "/store");
    return result == -EAGAIN ? 0 : result;          /* store_port waits */
}

int site_connect(const char *path, int (*connect)(const char *store), struct ps_store **out)
{
    char store[STORE_NAME_BYTES];
    struct ps_store *before = store_of_opens();
    int result = site_store(store, path);
    if (result == 0)
        result = connect(store);
    if (result == 0)
        *out = store_of_opens();
    store_opens(before);
    return result;
}

int site_or_store(const char *store, int (*connect)(const char *store))
{
    struct ps_store *site;
    if (site_path(store) == store)
        return connect(store);
    int result = site_connect(store, connect, &site);
    if (result == 0)
        store_opens(site);
    return result;
}
