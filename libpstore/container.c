/*
 * container.c - containers as this process has them open, and what a fork or a manager's death does
 * to them.
 *
 * Owns      the table of open containers.
 * Not here  stores and requests (store.c), names inside a container (container_name.c), pages
 *           (alloc.c).
 *
 * Locks     table_lock for changes of this table and of that of stores, held across requests to the
 *           manager and therefore taken outside transactions only (TX1; ps_open leaves the view
 *           meanwhile). It is dropped while a container's own manager starts, which may take
 *           seconds; a container that is opened anew then is `busy`, and whoever closes it waits.
 *           Looking an address up takes no lock: entries are never freed, and segments are valid
 *           from the moment `opens` is not zero.
 */
#include "answer_private.h"
#include "store_private.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t settled = PTHREAD_COND_INITIALIZER;  /* a container is not busy any more */
static struct ps_container containers[PS_OPEN_MAX];
static _Atomic unsigned containers_used;      /* entries that were ever open lie below */
_Atomic unsigned container_closes;

/* ---- fork: the child has no handle, so it connects and opens anew at its first use ---- */

static struct ps_tx *fork_tx;  /* table_lock: the transaction that forks, left meanwhile (TX1) */

static void fork_begins(void)
{
    struct ps_tx *tx = tx_work_begin();
    pthread_mutex_lock(&table_lock);
    fork_tx = tx;
}

static void fork_in_parent(void)
{
    struct ps_tx *tx = fork_tx;
    pthread_mutex_unlock(&table_lock);
    tx_work_end(tx);
}

static void fork_in_child(void)
{
    for (struct ps_store *s = NULL; (s = store_next(s));)
        s->port = -1;
    for (ps_container *c = containers; c < containers + containers_used; c++) {
        c->kept_port = -1;                /* or the child would close a handle of its own */
        c->busy = 0;                      /* by threads that the child has not */
        for (unsigned i = 0; i < PS_SEGMENTS_MAX; i++)
            c->segment[i].locks = NULL;   /* nor has it the tables */
    }
    settled = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    stores_note_death();
    tx_forget();
    pthread_mutex_unlock(&table_lock);
}

static void fork_watch(void)
{
    pthread_atfork(fork_begins, fork_in_parent, fork_in_child);
}

/* connect_locked connects to a store; table_lock: held. */
static int connect_locked(const char *store)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fork_watch);
    return store_connect(store);
}

int ps_connect(const char *store)
{
    if (tx_active())
        return -EBUSY;
    pthread_mutex_lock(&table_lock);
    int result = site_or_store(store, connect_locked);
    pthread_mutex_unlock(&table_lock);
    return error_told_if(ERROR_OPEN, result == 0 ? stores_refresh() : result);
}

/* ---- the table of containers ---- */

int container_index(const ps_container *c) { return (int)(c - containers); }
ps_container *container_by_index(int index) { return &containers[index]; }

int container_is_open(const ps_container *c)
{
    uintptr_t offset = (uintptr_t)c - (uintptr_t)containers;
    return offset < sizeof containers && offset % sizeof *c == 0 && c->opens > 0;
}

static struct ps_segment segment_new(uint64_t base, uint64_t pages)
{
    return (struct ps_segment){.base = base, .end = base + pages * KD_PAGE_BYTES};
}

/* segment_of finds the segment that holds `address`; NULL if it is not known (yet). */
static struct ps_segment *segment_of(ps_container *c, uint64_t address)
{
    for (unsigned i = 0; i < c->segment_count; i++)
        if (address >= c->segment[i].base && address < c->segment[i].end)
            return &c->segment[i];
    return NULL;
}

/* segment_learn adds a segment by which a container has grown. The kernel tells what lies at an
 * address; its cookie is the container's number (store_protocol.h). Without table_lock, held too
 * long: two threads may add one segment twice, which does no harm. */
static ps_container *segment_learn(uint64_t address)
{
    struct kd_space_info info;
    if (ps_kernel(KD_CONTAINER_INFO, (long)address, (long)&info, 0) != 0)
        return NULL;
    for (ps_container *c = containers; c < containers + containers_used; c++) {
        unsigned n = c->segment_count;
        if (c->opens == 0 || c->id != STORE_COOKIE_CONTAINER(info.cookie) ||
            !wire_zone_has(c->store->zone, info.base) || n == PS_SEGMENTS_MAX)
            continue;
        c->segment[n] = segment_new(info.base, info.pages);
        c->segment_count = n + 1;
        return c;
    }
    return NULL;
}

ps_container *ps_container_of(const void *p)
{
    uint64_t address = (uintptr_t)ps_home(p);
    if (address < KD_STORE_BASE || address >= KD_STORE_END)
        return NULL;
    for (ps_container *c = containers; c < containers + containers_used; c++)
        if (c->opens > 0 && segment_of(c, address))
            return c;
    return segment_learn(address);
}

struct ps_segment *container_segment(ps_container *c, uint64_t address)
{
    struct ps_segment *s = segment_of(c, address);
    return s || ps_container_of((void *)(uintptr_t)address) != c ? s : segment_of(c, address);
}

int container_has(ps_container *c, uint64_t address, uint64_t bytes)
{
    const struct ps_segment *s = container_segment(c, address);
    return s && bytes <= s->end - address;
}

/* container_entry (table_lock: held) finds an open container's entry, else a free one, or NULL. */
static ps_container *container_entry(struct ps_store *s, uint64_t id)
{
    ps_container *free_entry = NULL;
    for (ps_container *c = containers; c < containers + PS_OPEN_MAX; c++) {
        if (c->opens > 0 && c->store == s && c->id == id)
            return c;
        if (c->opens == 0 && !free_entry)
            free_entry = c;
    }
    return free_entry;
}

/* ---- open and close ---- */

/* opened_is_sound looks at a range: the manager is believed only inside the store region. */
static int opened_is_sound(const struct wire_opened *o, size_t bytes)
{
    return bytes == sizeof *o && o->base >= KD_STORE_BASE && o->base < KD_STORE_END &&
           o->base % KD_PAGE_BYTES == 0 && o->pages > 0 &&
           o->pages <= (KD_STORE_END - o->base) / KD_PAGE_BYTES;
}

/* request_open asks to open it; *kept: the port of its program, or -1: the store manager's. */
static int request_open(struct ps_store *s, const struct open_request *r,
                        struct wire_opened *opened, int *kept)
{
    uint64_t word[STORE_REQUEST_WORDS] = {0};
    size_t bytes = sizeof *opened;
    struct store_handle handle = {.handle = -1};
    uint8_t request[SITE_OPEN_BYTES];
    /* whoever showed us the handle might answer calls by it himself */
    int result = r->by < 0 ? 0 : (int)ps_kernel(KD_PORT_SAME, r->by, s->port, 0);
    if (result == 0)
        result = store_request_by(s, r->by, &handle, STORE_OPEN, word, request,
                                  site_open_request(s, r, request), opened, &bytes);
    *kept = result == 0 ? handle.handle : -1;
    return result == 0 && !opened_is_sound(opened, bytes) ? -EPROTO : result;
}

/* request_open_unlocked drops table_lock while the container's own manager starts, or what a dead
 * one had there is going (open_again); if the store manager died meanwhile and is back, it knows
 * nothing of this open: -EOWNERDEAD. */
static int request_open_unlocked(struct ps_store *s, struct open_request *r,
                                 struct wire_opened *opened, int *kept)
{
    unsigned life = s->life;
    r->open.now = 1;
    int result = request_open(s, r, opened, kept);
    r->open.now = 0;
    if (result != -EINPROGRESS)
        return result;
    unsigned times = 0;
    pthread_mutex_unlock(&table_lock);
    do
        result = request_open(s, r, opened, kept);
    while (open_again(result, &times));
    pthread_mutex_lock(&table_lock);
    if (result == 0 && s->life != life) {
        if (*kept >= 0)
            ps_kernel(KD_HANDLE_CLOSE, *kept, 0, 0);
        result = -EOWNERDEAD;
    }
    return result;
}

static void request_close(struct ps_store *s, uint64_t id)
{
    uint64_t word[STORE_REQUEST_WORDS] = {id};
    store_request(s, STORE_CLOSE, word, NULL, 0, NULL, NULL);
}

/* kept_port sets the handle: nobody calls through it, but through copies (container_kept_port). */
static void kept_port(ps_container *c, int port)
{
    if (c->kept_port >= 0)
        ps_kernel(KD_HANDLE_CLOSE, c->kept_port, 0, 0);
    c->kept_port = port;
}

/* segments_ask learns the segments of a container with a manager of its own, whose objects have its
 * cookies. `count`: so many are served. */
static void segments_ask(ps_container *c, uint64_t count)
{
    for (unsigned n = c->segment_count; n < count && n < PS_SEGMENTS_MAX; n++) {
        uint64_t word[STORE_REQUEST_WORDS] = {c->id, n};
        if (store_request(c->store, STORE_SEGMENT, word, NULL, 0, NULL, NULL) != 0)
            return;
        struct wire_opened o = {.base = word[0], .pages = word[1]};
        if (!opened_is_sound(&o, sizeof o))
            return;
        c->segment[n] = segment_new(o.base, o.pages);
        c->segment_count = n + 1;
    }
}

static void container_fill(ps_container *c, struct ps_store *s, const struct open_request *r,
                           const struct wire_opened *opened)
{
    const struct wire_open *request = &r->open;
    if (c->opens == 0) {
        c->kept = opened->kept != 0;
        c->kept_port = -1;
        c->store = s;
        c->id = opened->container;
        c->flags = 0;
        c->root_bytes = c->root_type[0] = 0;
        c->names_count = 0;
        c->directory = 0;
        strcpy(c->name, r->path);
        c->by = r->by;
        c->named = r->named;
        c->base = opened->base;
        c->segment[0] = segment_new(opened->base, opened->pages);
        c->segment_count = 1;
        if (containers_used <= (unsigned)container_index(c))
            containers_used = (unsigned)container_index(c) + 1;
    }
    c->flags |= (int)request->flags & (PS_WRITE | PS_UPDATES);
    form_take(c, opened->form);
    if (request->bytes) {
        c->root_bytes = request->bytes;
        memcpy(c->root_type, request->type, sizeof c->root_type);
    }
    if (opened->root_address)
        names_remember(c, ROOT_NAME, opened->root_address, c->root_bytes);
    c->opens++;
}

/* open_locked opens a container in this store; NULL: in that of ps_open. table_lock: held, perhaps
 * dropped meanwhile; outside a view. */
static int open_locked(struct ps_store *s, struct open_request *request, ps_container **out)
{
    struct wire_opened opened;
    int port = -1, result = s || store_of_opens() ? 0 : connect_locked(NULL);
    s = s ? s : store_of_opens();
    if (result == 0 && s->confined && request->by < 0)
        result = roots_by(s, request);
    if (result == 0 && request->named)
        request->open.name[0] = 0;
    if (result == 0)
        result = request_open_unlocked(s, request, &opened, &port);
    ps_container *c = result == 0 ? container_entry(s, opened.container) : NULL;
    if (!c && port >= 0)
        ps_kernel(KD_HANDLE_CLOSE, port, 0, 0);
    if (result != 0)
        return result;
    if (!c) {
        request_close(s, opened.container);
        return -EMFILE;
    }
    container_fill(c, s, request, &opened);
    segments_ask(c, opened.kept);
    kept_port(c, port);
    *out = c;
    return 0;
}

static int open_request_make(struct open_request *request, int by, const char *path, int flags,
                             const struct ps_layout *root)
{
    struct wire_open *r = &request->open;
    memset(request, 0, sizeof *request);
    request->by = by;
    request->named = by >= 0 && !path;
    if (flags & ~(PS_CREATE | PS_EXCLUSIVE | PS_WRITE | PS_UPDATES) ||
        (flags & (PS_CREATE | PS_EXCLUSIVE)) == PS_EXCLUSIVE)
        return -EINVAL;
    int result = request->named ? 0 : path_copy(request->path, path);
    if (result == 0 && strlen(request->path) < sizeof r->name)
        strcpy(r->name, request->path);
    if (result == 0 && root)
        result = root->bytes ? store_name_copy(r->type, root->type) : -EINVAL;
    if (result == 0 && root && !type_number(root->type))
        result = -errno;
    r->flags = (uint32_t)flags;
    r->version = root ? root->version : 0;
    r->bytes = root ? root->bytes : 0;
    return result;
}

ps_container *container_open_by(int by, const char *path, int flags, const struct ps_layout *root)
{
    struct open_request request;
    struct ps_store *store = NULL;
    ps_container *c = NULL;
    const char *rest = by < 0 ? site_path(path) : path;
    int result = open_request_make(&request, by, rest, flags, root);
    if (result == 0)
        result = !tx_active() ? stores_refresh() : flags & PS_CREATE ? -EBUSY : 0;
    if (result == 0) {
        struct ps_tx *tx = tx_work_begin();
        pthread_mutex_lock(&table_lock);
        result = rest != path ? site_connect(path, connect_locked, &store) : 0;
        if (result == 0)
            result = open_locked(store, &request, &c);
        pthread_mutex_unlock(&table_lock);
        tx_work_end(tx);
    }
    if (error_told(rest != path ? ERROR_SITE : ERROR_OPEN,
                   lack_at(result, path, NULL, request.named && by < 0)) != 0)
        errno = -result;
    return c;
}

ps_container *ps_open(const char *name, int flags, const struct ps_layout *root)
{
    return container_open_by(-1, name, flags, root);
}

/* touch_locked opens what lies there. table_lock: held, perhaps dropped meanwhile; in no view. */
static int touch_locked(uint64_t address)
{
    char path[WIRE_PATH_BYTES];
    int flags, by, result = store_of_opens() ? 0 : connect_locked(NULL);
    if (result != 0)
        return result;
    result = -ENOENT;
    for (struct ps_store *s = NULL; result != 0 && result != -EBUSY && (s = store_next(s));) {
        struct open_request request;
        ps_container *c;
        result = roots_at(s, address, path, &flags, &by);
        if (result == 0)
            result = open_request_make(&request, by, by < 0 ? path : NULL, flags, NULL);
        if (result == 0)
            result = open_locked(s, &request, &c);
    }
    return result;
}

int container_touch(uint64_t address)
{
    struct kd_space_info info;
    int result = tx_active() ? 0 : stores_refresh();
    pthread_mutex_lock(&table_lock);
    while (result == 0 && ps_kernel(KD_CONTAINER_INFO, (long)address, (long)&info, 0) != 0) {
        result = touch_locked(address);
        if (result == -EBUSY)       /* it is being changed: that ends */
            result = sched_yield();
        else if (result == 0 && ps_kernel(KD_CONTAINER_INFO, (long)address, (long)&info, 0) != 0)
            result = -ENOENT;       /* another one has the path; or it was taken back already */
    }
    pthread_mutex_unlock(&table_lock);
    return result;
}

int ps_close(ps_container *c)
{
    if (tx_active())
        return -EBUSY;
    pthread_mutex_lock(&table_lock);
    while (container_is_open(c) && c->busy)
        pthread_cond_wait(&settled, &table_lock);
    int result = container_is_open(c) ? 0 : -EINVAL;
    if (result == 0) {
        if (c->opens == 1) {
            c->generation++;                  /* leases end with the last close */
            items_forget(c);
            kept_port(c, -1);
        }
        container_closes++;
        request_close(c->store, c->id);
        c->opens--;
    }
    pthread_mutex_unlock(&table_lock);
    return error_told(ERROR_OTHER, result);
}

/* ---- after a manager's death ---- */

/* reopen_once opens a container anew once; table_lock: held. */
static int reopen_once(ps_container *c, struct open_request *request)
{
    struct wire_opened opened;
    int port, result = request_open_unlocked(c->store, request, &opened, &port);
    kept_port(c, result == 0 ? port : -1);
    if (result != 0)
        return result;
    if (opened.container != c->id || opened.base != c->base)
        return -ESTALE;
    form_take(c, opened.form);
    if (c->durability >= PS_VOLATILE)   /* they may have been lost */
        c->names_count = 0;
    items_forget(c);
    segments_ask(c, opened.kept);
    return 0;
}

/* reopen opens it anew. table_lock: held, perhaps dropped meanwhile. A container keeps its address
 * for ever, so that every pointer stays right. */
static int reopen(ps_container *c, int times)
{
    struct open_request request = {.open.flags = (uint32_t)c->flags};
    int result = 0;
    request.by = c->by;
    request.named = c->named;
    strcpy(request.path, c->name);
    if (!c->named && strlen(c->name) < sizeof request.open.name)
        strcpy(request.open.name, c->name);
    c->busy++;
    for (int i = 0; i < times && result == 0; i++)
        result = reopen_once(c, &request);
    c->busy--;
    pthread_cond_broadcast(&settled);
    if (result == 0)
        c->generation++;
    return result;
}

/* kept_refresh opens containers whose managers may have died anew, where they were, with the object
 * of that manager's successor. One that has none stays as it is; the others go on. */
static void kept_refresh(const struct ps_store *s)
{
    for (ps_container *c = containers; c < containers + containers_used; c++)
        if (c->opens > 0 && c->store == s && c->kept && reopen(c, 1) == 0)
            request_close(c->store, c->id);
}

static int store_refresh(struct ps_store *s)
{
    if (s->port >= 0 && store_hello(s) == 0) {
        atomic_store(&s->lost, 0);
        kept_refresh(s);
        return 0;
    }
    store_drop(s);
    int result = store_find(s);
    for (ps_container *c = containers; result == 0 && c < containers + PS_OPEN_MAX; c++)
        if (c->opens > 0 && c->store == s)
            result = reopen(c, c->opens);
    if (result != 0)
        atomic_store(&s->lost, 1);
    return result;
}

/* stores_find_again looks each time for a store that was waited for in vain. While another one is
 * there only who uses the one that is away hears of it. */
int stores_find_again(void)
{
    int result = 0, there = 0;
    pthread_mutex_lock(&table_lock);
    atomic_store(&store_death_noted, 0);
    for (struct ps_store *s = NULL; (s = store_next(s));) {
        int error = atomic_load(&s->lost) ? store_refresh(s) : 0, known = s->away;
        s->away = error == -ENOTCONN;
        there += error == 0;
        if (error != 0)
            atomic_store(&store_death_noted, 1);
        if (result == 0 && !(known && s->away))
            result = error;
    }
    for (struct ps_store *s = NULL; there == 0 && (s = store_next(s)); s->away = 0)
        result = result == 0 && s->away ? -ENOTCONN : result;
    pthread_mutex_unlock(&table_lock);
    return result;
}

int stores_ready(void)
{
    return store_of_opens() ? stores_refresh() : ps_connect(NULL);
}

/* ---- delete, rename ---- */

int request_plain(uint32_t kind, const void *data, size_t bytes, uint64_t *answer)
{
    uint64_t word[STORE_REQUEST_WORDS] = {0};
    int result = stores_ready();
    if (result == 0)
        result = store_request(store_of_opens(), kind, word, data, bytes, NULL, NULL);
    *answer = word[0];
    return result;
}

/* request_names asks to delete a container, or to give it the last of these names; it has that also
 * where this process has it open. */
static int request_names(uint32_t kind, const char *data, size_t bytes)
{
    uint64_t id;
    container_closes++;
    int result = request_plain(kind, data, bytes, &id);
    pthread_mutex_lock(&table_lock);
    ps_container *c = result == 0 ? container_entry(store_of_opens(), id) : NULL;
    while (c && c->opens > 0 && c->busy)
        pthread_cond_wait(&settled, &table_lock);
    if (c && c->opens > 0 && kind == STORE_DELETE) {
        c->generation++;
        items_forget(c);
        kept_port(c, -1);
        c->opens = 0;
    } else if (c && c->opens > 0) {
        strcpy(c->name, data + bytes / 2);
    }
    pthread_mutex_unlock(&table_lock);
    return result;
}

int ps_delete(const char *name)
{
    char data[2 * WIRE_PATH_BYTES];
    int result = paths_copy(data, name, NULL);
    if (result > 0)
        result = request_names(STORE_DELETE, data, (size_t)result);
    return error_told(ERROR_NAMES, lack_at(result, name, NULL, 0));
}

int ps_rename(const char *from, const char *to)
{
    char data[2 * WIRE_PATH_BYTES];
    int result = to ? paths_copy(data, from, to) : -EINVAL;
    if (result > 0)
        result = request_names(STORE_RENAME, data, 2 * (size_t)result);
    return error_told(ERROR_NAMES, lack_at(result, from, to, 0));
}

int container_kept_port(const ps_container *c)
{
    pthread_mutex_lock(&table_lock);
    int port = container_is_open(c) && c->kept_port >= 0 ? c->kept_port : -ENOTCONN;
    if (port >= 0)
        port = (int)ps_kernel(KD_HANDLE_COPY, port, KD_RIGHT_CALL, 0);
    pthread_mutex_unlock(&table_lock);
    return port;
}

int container_form(ps_container *c, uint32_t which, int value, _Atomic int *kept)
{
    pthread_mutex_lock(&table_lock);
    int result = container_is_open(c) ? 0 : -EINVAL;
    uint64_t word[STORE_REQUEST_WORDS] = {result == 0 ? c->id : 0, which, (uint64_t)value};
    if (result == 0)
        result = store_request(c->store, STORE_FORM, word, NULL, 0, NULL, NULL);
    if (result == 0) {
        items_forget(c);
        *kept = value;
    }
    pthread_mutex_unlock(&table_lock);
    return result;
}
