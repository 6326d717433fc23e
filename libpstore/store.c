/*
 * store.c - connections to store managers, and requests to them.
 *
 * Owns      the table of stores. An entry stays: when its manager has died another one is found
 *           under its name (stores_refresh, in container.c).
 *
 * Locks     Who changes the table, or a connection, holds container.c's table_lock; requests take
 *           none.
 */
#include "store_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RESTART_SECONDS 10              /* a manager that died is waited for */

static struct ps_store stores[PS_STORES_MAX];
static unsigned stores_count;
int stores_several;
static struct ps_store *opens_store;    /* the one connected to last */
static _Atomic uint64_t requests;       /* for ps_stats, which does not count its own */
_Atomic int store_death_noted;

struct ps_store *store_next(struct ps_store *s)
{
    s = s ? s + 1 : stores;
    return s < stores + stores_count ? s : NULL;
}

struct ps_store *store_after(struct ps_store *s) { return store_next(s); }

struct ps_store *store_of_opens(void)
{
    return opens_store;
}

void store_opens(struct ps_store *s) { opens_store = s; }

/* ---- requests ---- */

uint64_t requests_counted(void)
{
    return requests;
}

int store_request_by(struct ps_store *s, int by, struct store_handle *handle, uint32_t kind,
                     uint64_t word[STORE_REQUEST_WORDS], const void *data, size_t bytes,
                     void *answer, size_t *answer_bytes)
{
    struct kd_message m = {
        .kind = kind,
        .data = data,
        .data_bytes = bytes,
        .buffer = answer,
        .buffer_bytes = answer_bytes ? *answer_bytes : 0,
        .handle = handle ? handle->handle : -1,
        .handle_rights = handle ? handle->rights : 0,
    };
    if (by < 0 && s->port < 0 && s->away)
        return -ENOTCONN;
    memcpy(m.word, word, STORE_REQUEST_WORDS * sizeof word[0]);
    requests += kind != STORE_STATS;
    int result = (int)ps_kernel(KD_PORT_CALL, by >= 0 ? by : s->port, (long)&m, 0);
    if (result == -EOWNERDEAD || result == -EBADF) {
        atomic_store(&s->lost, 1);
        atomic_store(&store_death_noted, 1);
        return -EOWNERDEAD;
    }
    if (result == -EACCES && m.status == -EACCES)
        lack_told(m.word);
    if (result == -EPROTOTYPE && kind == STORE_OPEN)
        site_refused(m.word, sizeof m.word);
    if (result != 0)
        return result;
    if (kind == STORE_OPEN && strchr(s->name, '/'))
        s->session = m.word[7];
    memcpy(word, m.word, STORE_REQUEST_WORDS * sizeof word[0]);
    if (answer_bytes)
        *answer_bytes = m.buffer_bytes;
    if (handle)
        handle->handle = m.handle;
    else if (m.handle >= 0)
        ps_kernel(KD_HANDLE_CLOSE, m.handle, 0, 0);
    return m.status;
}

int store_request(struct ps_store *s, uint32_t kind, uint64_t word[STORE_REQUEST_WORDS],
                  const void *data, size_t bytes, void *answer, size_t *answer_bytes)
{
    return store_request_by(s, -1, NULL, kind, word, data, bytes, answer, answer_bytes);
}

int store_name_copy(char out[STORE_NAME_BYTES], const char *name)
{
    size_t bytes = name ? strnlen(name, STORE_NAME_BYTES) : 0;
    if (bytes == 0)
        return -EINVAL;
    if (bytes == STORE_NAME_BYTES)
        return -ENAMETOOLONG;
    memset(out, 0, STORE_NAME_BYTES);
    memcpy(out, name, bytes);
    return 0;
}

int ps_flush(void)
{
    int busy = tx_active() != NULL, result = busy ? -EBUSY : 0;
    for (unsigned i = 0; i < stores_count && !busy; i++) {
        uint64_t word[STORE_REQUEST_WORDS] = {0};
        int error = store_request(&stores[i], STORE_FLUSH, word, NULL, 0, NULL, NULL);
        result = result == 0 ? error : result;
    }
    return error_told(ERROR_OTHER, result);
}

/* store_is_used: is the first used page from the store's addresses on, of this transaction, its? */
static int store_is_used(const struct ps_store *s, int how, uint64_t *at)
{
    struct kd_changes page;
    uint64_t base = wire_zone_base(s->zone);
    if (ps_kernel(KD_TXN_CHANGES, (long)base, (long)&page, how | CHANGES_WHERE) != 0)
        return 0;
    *at = page.address;
    return wire_zone_has(s->zone, page.address);
}

int store_changed(const struct ps_store *s, uint64_t *page) { return store_is_used(s, 0, page); }

static int is_elsewhere(const struct ps_store *s) { return strchr(s->name, '/') != NULL; }

int stores_read_flush(const struct ps_tx *tx)
{
    struct kd_changes page;
    int result = 0;
    if (stores_count < 2 ||
        (tx->now->bytes == 0 && ps_kernel(KD_TXN_CHANGES, 0, (long)&page, CHANGES_WHERE) != 0))
        return 0;
    for (struct ps_store *s = stores; s < stores + stores_count && result == 0; s++) {
        uint64_t word[STORE_REQUEST_WORDS] = {0};
        uint64_t at;
        if (tx->options.lazy && !is_elsewhere(s))
            continue;
        /* Copies are few and in a list; for what was read tables of pages are walked. */
        if (!store_is_used(s, 0, &at) && store_is_used(s, CHANGES_READ, &at))
            result = store_request(s, STORE_FLUSH, word, NULL, 0, NULL, NULL);
        if ((result == -EOWNERDEAD || result == -ENOTCONN) && !is_elsewhere(s))
            result = 0;     /* whoever used its pages is undone by the kernel */
    }
    return result;
}

/* ---- connecting ---- */

/* store_hello tells for which container a representative was started: so the store knows whom it
 * would make wait for itself. */
int store_hello(struct ps_store *s)
{
    uint64_t word[STORE_REQUEST_WORDS] = {STORE_PROTOCOL_VERSION};
    const char *kept = getenv(STORE_KEPT_BY);
    size_t length = strlen(s->name);
    if (kept && strncmp(kept, s->name, length) == 0 && kept[length] == ' ') {
        char *end;
        word[1] = strtoull(kept + length, &end, 10);
        word[2] = strtoull(end, NULL, 10);
    }
    int result = store_request(s, STORE_HELLO, word, NULL, 0, NULL, NULL);
    if (result == 0)
        s->zone = wire_zone_valid((uint32_t)word[2]) ? (uint32_t)word[2] : 0;
    return result == 0 && word[0] != STORE_PROTOCOL_VERSION ? -EPROTONOSUPPORT : result;
}

/* store_comes_back asks for init's port of this name: init will start the dead manager again. */
static int store_comes_back(const struct ps_store *s)
{
    char name[sizeof s->name + sizeof STORE_KEPT];
    snprintf(name, sizeof name, STORE_KEPT "%s", s->name);
    long port = ps_kernel(KD_NAME_FIND, (long)name, 0, 0);
    if (port >= 0)
        ps_kernel(KD_HANDLE_CLOSE, port, 0, 0);
    return port >= 0;
}

/* store_port finds the manager's port; one that just died is waited for, but once. -ENOENT */
static long store_port(const struct ps_store *s)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    struct timespec now, begun;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (;;) {
        long port = ps_kernel(KD_NAME_FIND, (long)s->name, 0, 0);
        int again = port == -ENOENT ? site_again(s->name) : 0;
        if (port != -ENOENT || again < 0 || s->away || !(again || store_comes_back(s)))
            return again < 0 ? again : port;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec - begun.tv_sec > RESTART_SECONDS)
            return port;
        nanosleep(&moment, NULL);
    }
}

/* store_drop closes the port; a root stays: it is the process's own. */
void store_drop(struct ps_store *s)
{
    if (s->port >= 0 && !s->confined)
        ps_kernel(KD_HANDLE_CLOSE, s->port, 0, 0);
    s->port = -1;
}

/* store_find gets a port to the manager; -ENOTCONN if none is published under the name. */
int store_find(struct ps_store *s)
{
    long port = roots_port(s);
    if (port == -ENOENT)
        port = store_port(s);
    if (port < 0)
        return port == -ENOENT ? -ENOTCONN : (int)port;
    s->port = (int)port;
    int result = store_hello(s);
    if (result == 0) {
        atomic_store(&s->lost, 0);
        s->away = 0;
        s->life++;
    } else {
        store_drop(s);
    }
    return result;
}

static void store_baseline(struct ps_store *s)
{
    struct wire_stats stats;
    size_t bytes = sizeof stats;
    uint64_t word[STORE_REQUEST_WORDS] = {0};
    if (store_request(s, STORE_STATS, word, NULL, 0, &stats, &bytes) == 0 &&
        bytes == sizeof stats) {
        s->log_bytes = stats.log_bytes;
        s->flushes = stats.flushes;
    }
}

int store_connect(const char *store)
{
    char name[STORE_NAME_BYTES];
    const char *first = getenv("PS_STORE");
    int result = store_name_copy(name, store ? store : first && *first ? first : "store");
    if (result != 0)
        return result;
    for (unsigned i = 0; i < stores_count; i++)
        if (strcmp(stores[i].name, name) == 0) {
            opens_store = &stores[i];
            return 0;
        }
    if (stores_count == PS_STORES_MAX)
        return -EMFILE;
    struct ps_store *s = &stores[stores_count];
    memcpy(s->name, name, sizeof name);
    result = store_find(s);
    if (result != 0)
        return result;
    store_baseline(s);
    stores_elsewhere += is_elsewhere(s);
    stores_several = ++stores_count > 1 || stores_elsewhere;
    opens_store = s;
    return 0;
}

void stores_note_death(void)
{
    for (unsigned i = 0; i < stores_count; i++)
        atomic_store(&stores[i].lost, 1);     /* stores_refresh() finds out which */
    atomic_store(&store_death_noted, 1);
}
