/*
 * request.c - the request threads: what clients ask, and what the kernel tells.
 *
 * A request is answered by the thread that received it, unless it reads pages; one that needs a
 * commit or a checkpoint keeps its thread waiting, and the others go on. Answers never depend on a
 * client.
 */
#include "copy.h"
#include "group.h"
#include "path.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pstore.h"

#define REQUEST_BYTES 1280u     /* the largest request is that of a peer (WIRE_TXN_PEER) */
#define LIST_MAX      64u
#define NAMES_MAX     32u
#define NEXT_MAX      4096u     /* pages looked at for one STORE_NEXT */
#define INIT_PROCESS  1u

union answer {
    struct wire_opened opened;
    struct wire_stats stats;
    struct wire_entry entries[LIST_MAX];
    struct wire_name names[NAMES_MAX];
    struct wire_named named[NAMES_MAX];
    struct wire_holder holders[NAMES_MAX];
    char manager[WIRE_MANAGER_BYTES], path[WIRE_PATH_BYTES];
};

static void answer_data(struct kd_message *reply, const void *data, size_t bytes)
{
    reply->data = data;
    reply->data_bytes = bytes;
}

/* ---- requests ---- */

/* request_open: the path is the name, or, if that is empty, behind. *by: for request_open_kept. */
static int request_open(const struct kd_message *m, struct kd_message *reply, union answer *a,
                        struct sources *by)
{
    const struct wire_open *how = m->buffer;
    if (m->data_bytes < sizeof(*how)) return -EINVAL;
    size_t behind = m->data_bytes - sizeof(*how);
    bool long_path = behind > 0 && !how->name[0];
    if (behind > (long_path ? WIRE_PATH_BYTES : 0)) return -EINVAL;
    const char *path = long_path ? names_path(how + 1, behind)
                                 : names_path(how->name, sizeof(how->name));
    if (!path) return -ENAMETOOLONG;
    answer_data(reply, &a->opened, sizeof(a->opened));
    if (!*path && !caller_is_confined()) return -EINVAL;
    return container_open_by(m->process, path, how, &a->opened, by);
}

static int request_manager(const struct kd_message *m, struct kd_message *reply, union answer *a)
{
    const char *name = m->buffer;
    if (m->data_bytes < STORE_NAME_BYTES) return -EINVAL;
    if (!names_path(name, STORE_NAME_BYTES)) return -ENAMETOOLONG;
    if (m->kind == STORE_MANAGER)
        return container_manager(name, name + STORE_NAME_BYTES, m->data_bytes - STORE_NAME_BYTES);
    int bytes = container_managed(name, a->manager);
    if (bytes > 0) answer_data(reply, a->manager, (size_t)bytes);
    return bytes < 0 ? bytes : 0;
}

static int request_stats(struct kd_message *reply, union answer *a)
{
    struct store_stats d;
    server_lock();
    store_stats(server.store, &d);
    a->stats = (struct wire_stats){
        .commits = d.transactions, .groups = d.groups, .log_writes = server.log_writes,
        .log_bytes = d.log_bytes_written, .flushes = server.log_flushes,
        .checkpoints = d.checkpoints,
        .home_writes = server.home_writes,
        .pages_read = __atomic_load_n(&server.pages_read, __ATOMIC_RELAXED),
        .log_bytes_free = store_log_free(server.store), .log_bytes_total = d.log_bytes,
        .disk_bytes_free = d.free_extents * d.extent_bytes,
        .disk_bytes_total = d.extents * d.extent_bytes, .lsn = d.end_lsn,
        .refused = server.refused, .containers = d.containers};
    server_unlock();
    answer_data(reply, &a->stats, sizeof(a->stats));
    return 0;
}

static int lease_or_find(const struct kd_message *m, struct container *c, uint64_t *page)
{
    if (m->kind == STORE_SPACE) return space_find(c, m->process, m->word[1], m->word[2], page);
    if (m->word[1] == 0 || m->word[1] > c->segment[0].pages) return -EINVAL;
    return space_lease(c, m->process, m->word[1], m->word[2], page);
}

/* request_space serves LEASE and SPACE; a full container grows by a segment, once. */
static int request_space(const struct kd_message *m, struct kd_message *reply)
{
    uint64_t page = 0;
    int r = 0;
    for (int try = 0; try < 2; try++) {
        if (r == -ENOSPC) r = container_may_grow(m->process);
        if (r == 0 && try > 0) r = container_grow(m->word[0]);
        if (r < 0) return r;
        server_lock();
        struct container *c = container_by_id(m->word[0]);
        r = c ? container_allows(c, m->process, KD_RIGHT_WRITE) : -ENOENT;
        if (r == 0) r = server_writable(); /* fenced while it grew? */
        if (r == 0) r = lease_or_find(m, c, &page);
        if (r == 0) reply->word[0] = container_address(c, page);
        server_unlock();
        if (r != -ENOSPC) break;
    }
    reply->word[1] = m->kind == STORE_LEASE ? m->word[1] : 1;
    return r;
}

static struct container *container_at(uint64_t address, uint64_t *page)
{
    struct store_container d;
    if (store_container_at(server.store, address, &d, page) < 0) return NULL;
    return container_by_id(d.object);
}

static int request_unlease(const struct kd_message *m)
{
    uint64_t page, count = m->word[1];
    server_lock();
    struct container *c = container_at(m->word[0], &page);
    int r = c ? 0 : -ENOENT;
    if (r == 0 && (count == 0 || count > KD_STORE_END / PAGE_BYTES)) r = -EINVAL;
    if (r == 0) r = space_unlease(c, m->process, page, count);
    server_unlock();
    return r;
}

/* advise_part takes what is within one segment, at most what the pager brings at once. */
static int advise_part(const struct kd_message *m, uint64_t address, uint64_t left, uint64_t *count)
{
    enum { AT_ONCE = 64 };
    struct kd_message wanted = {.word = {0, 0, 0, KD_READ}}; /* nobody has asked for any of them */
    uint64_t page, object_page;
    int object;
    server_lock();
    struct container *c = container_at(address, &page);
    int r = c ? container_allows(c, m->process, KD_RIGHT_READ) : -ENOENT;
    if (r == 0) r = container_object(c->id, page, &object, &object_page);
    if (r == 0) {
        *count = left < AT_ONCE ? left : AT_ONCE;
        if (*count > container_left(c, page)) *count = container_left(c, page);
        wanted.word[0] = c->id << 4; /* the first segment's cookie: pages of the container */
        wanted.word[1] = page;
        wanted.word[2] = *count;
    }
    if (r == 0) (void)kd_object_advise(object, object_page, *count, (enum kd_advice)m->word[2]);
    server_unlock();
    if (r == 0 && m->word[2] == KD_ADVISE_WILL_NEED) pager_bring(&wanted);
    return r;
}

static int request_advise(const struct kd_message *m)
{
    enum { ADVISED_MAX = 1024 };
    uint64_t left = m->word[1], address = m->word[0], count = 0;
    if (m->word[2] != KD_ADVISE_WILL_NEED && m->word[2] != KD_ADVISE_DONT_NEED) return -EINVAL;
    if (m->word[2] == KD_ADVISE_WILL_NEED && left > ADVISED_MAX) left = ADVISED_MAX;
    if (left > KD_STORE_END / PAGE_BYTES) return -EINVAL;
    int r = 0;
    for (; r == 0 && left > 0; left -= count, address += count * PAGE_BYTES)
        r = advise_part(m, address, left, &count);
    return r;
}

static int request_held(const struct kd_message *m, struct kd_message *reply)
{
    uint64_t page;
    struct store_page found;
    server_lock();
    struct container *c = container_at(m->word[0], &page);
    int r = c ? container_allows(c, m->process, KD_RIGHT_READ) : -ENOENT;
    if (r == 0) r = store_page_find(server.store, c->id, page, &found);
    server_unlock();
    reply->word[0] = r == 0 && (found.present || found.claimed);
    return r;
}

static int request_named(const struct kd_message *m, struct kd_message *reply)
{
    struct store_name found;
    const char *name = m->buffer;
    if (m->data_bytes != STORE_NAME_BYTES || !memchr(name, 0, STORE_NAME_BYTES)) return -EINVAL;
    server_lock();
    struct container *c = container_by_id(m->word[0]);
    int r = c ? container_allows(c, m->process, KD_RIGHT_READ) : -ENOENT;
    if (r == 0) r = store_name_find(server.store, c->id, name, &found);
    server_unlock();
    if (r < 0) return r;
    reply->word[0] = found.address;
    reply->word[1] = found.bytes;
    return 0;
}

static int request_list_names(const struct kd_message *m, struct kd_message *reply, union answer *a)
{
    uint32_t cursor = (uint32_t)m->word[1];
    unsigned filled = 0;
    struct store_name found;
    server_lock();
    struct container *c = container_by_id(m->word[0]);
    int r = c ? container_allows(c, m->process, KD_RIGHT_READ) : -ENOENT;
    while (r == 0 && filled < NAMES_MAX &&
           store_name_next(server.store, c->id, &cursor, &found) == 0) {
        memcpy(a->names[filled].name, found.name, STORE_NAME_BYTES);
        a->names[filled].address = found.address;
        a->names[filled++].bytes = found.bytes;
    }
    server_unlock();
    reply->word[0] = filled == NAMES_MAX ? cursor : 0;
    answer_data(reply, a->names, filled * sizeof(a->names[0]));
    return r;
}

static bool page_is_held(const struct container *c, uint64_t page)
{
    struct store_page found;
    return store_page_find(server.store, c->id, page, &found) == 0 &&
           (found.present || found.claimed);
}

/* held_after, lock held: the run behind `page`, in a segment; *page: its first, or go on there. */
static uint64_t held_after(struct container *c, uint64_t *page)
{
    unsigned last = c->segment_count - 1;
    uint64_t end = c->segment[last].first + c->segment[last].pages, looked = 0, count = 0;
    while (*page < end && looked < NEXT_MAX && !page_is_held(c, *page)) ++*page, looked++;
    if (*page >= end || looked == NEXT_MAX) {
        if (*page >= end) *page = 0;
        return 0;
    }
    uint64_t left = container_left(c, *page);
    while (count < left && looked < NEXT_MAX && page_is_held(c, *page + count)) count++, looked++;
    return count;
}

static int request_next(const struct kd_message *m, struct kd_message *reply)
{
    uint64_t page = 0, count = 0;
    server_lock();
    struct container *c = container_by_id(m->word[0]);
    int r = c ? container_allows(c, m->process, KD_RIGHT_READ) : -ENOENT;
    if (r == 0 && m->word[1] && !container_page(c, m->word[1], &page)) r = -EINVAL;
    if (r == 0) page += m->word[1] != 0;
    if (r == 0) count = held_after(c, &page);
    if (count) reply->word[0] = container_address(c, page);
    if (r == 0 && !count && page) reply->word[2] = container_address(c, page - 1);
    reply->word[1] = count;
    server_unlock();
    return r;
}

uint64_t process_parent(uint64_t process)
{
    uint64_t parent = 0;
    for (long room = 0, n = 8; n > room;) { /* again, if there are more by now */
        room = n + 8;
        struct kd_process_info *all = calloc((size_t)room, sizeof(*all));
        n = all ? KD2(KD_PROCESS_LIST, all, room) : 0;
        for (long i = 0; i < n && i < room; i++)
            if ((uint64_t)all[i].pid == process) parent = (uint64_t)all[i].parent;
        free(all);
        if (parent) break;
    }
    return parent;
}

/* request_hello tells a program of another version so, and once the kernel's log: it may be too
 * old to say why. */
static int request_hello(const struct kd_message *m, struct kd_message *reply)
{
    static _Atomic unsigned told;
    struct store_stats stats;
    store_stats(server.store, &stats);
    reply->word[0] = STORE_PROTOCOL_VERSION;
    reply->word[1] = server.log_bytes;
    reply->word[2] = stats.zone;
    if (m->word[2]) {
        uint64_t parent = process_parent(m->process);
        server_lock();
        kept_hello(m->process, parent, m->word[1], m->word[2]);
        server_unlock();
    }
    if (m->word[0] == STORE_PROTOCOL_VERSION) return 0;
    if (atomic_exchange(&told, (unsigned)m->process) == (unsigned)m->process)
        return -EPROTONOSUPPORT;
    say("process %u was built for version %llu of the store's protocol, this is %u: build it again "
        "with the "
        "libpstore that belongs to this Katydid",
        (unsigned)m->process, (unsigned long long)m->word[0], STORE_PROTOCOL_VERSION);
    return -EPROTONOSUPPORT;
}

static int request_checkpoint(void)
{
    server_lock();
    int r = checkpoint_wait();
    server_unlock();
    return r;
}

/* request_reads takes WILL_NEED and pins, which wait for the disk (pager.c). */
static bool request_reads(const struct kd_message *m)
{
    if (!(m->kind == STORE_ADVISE && m->word[2] == KD_ADVISE_WILL_NEED) &&
        !(m->kind == STORE_PIN && m->word[2] == 1))
        return false;
    pager_advise(m);
    return true;
}

void request_advised(const struct kd_message *m)
{
    struct kd_message reply = {.status = m->kind == STORE_PIN ? pins_pin(m) : request_advise(m),
                               .handle = -1};
    kd_reply(m->token, &reply);
}

/* request_stop leaves init's wish to end to the cleaner, who answers (clean.c). */
static bool request_stop(const struct kd_message *m)
{
    if (m->kind != STORE_STOP || m->process != INIT_PROCESS) return false;
    server_lock();
    server.stop_token = m->token;
    pthread_cond_signal(&server.work);
    server_unlock();
    return true;
}

/* request_scrub: word0 0: only the numbers. Else the scrubber answers (scrub.c). */
static bool request_scrub(const struct kd_message *m)
{
    if (m->kind != STORE_SCRUB) return false;
    struct kd_message reply = {.status = m->word[0] ? scrub_ask(m->token) : 0, .handle = -1};
    if (m->word[0] && reply.status == 0) return true;
    server_lock();
    scrub_numbers(&reply);
    server_unlock();
    kd_reply(m->token, &reply);
    return true;
}

/* request_open_kept has kept_open answer, if another program serves the container. */
static bool request_open_kept(const struct kd_message *m, const struct kd_message *reply,
                              const union answer *a, const struct sources *by)
{
    if (m->kind != STORE_OPEN || reply->status != OPEN_KEPT) return false;
    kept_open(m, &a->opened, by);
    return true;
}

/* disk_of_client opens the disk that the client names, by his right to do so, which is given up at
 * once. Handles of disks do not travel. */
long disk_of_client(const struct kd_message *m, uint64_t *bytes)
{
    char name[STORE_NAME_BYTES] = {0};
    struct kd_block_info info;
    if (m->data_bytes == 0 || m->data_bytes >= sizeof(name)) return -EINVAL;
    memcpy(name, m->buffer, m->data_bytes);
    long right = m->handle < 0 ? -1 : KD2(KD_HANDLE_COPY, m->handle, KD_RIGHT_DISKS);
    long disk = right < 0 ? -EPERM : KD2(KD_BLOCK_OPEN, name, &info);
    if (right >= 0) KD1(KD_HANDLE_CLOSE, right);
    if (disk >= 0) *bytes = info.bytes;
    return disk;
}

/* request_backup begins a backup; the thread that copies answers (backup.c). */
static bool request_backup(const struct kd_message *m)
{
    if (m->kind != STORE_BACKUP) return false;
    uint64_t bytes;
    struct kd_message reply = {.handle = -1};
    long disk = disk_of_client(m, &bytes);
    if (m->handle >= 0) KD1(KD_HANDLE_CLOSE, m->handle);
    reply.status = disk < 0 ? (int)disk
                            : backup_begin(m->token, (int)disk, bytes, m->word[0] == 1);
    if (reply.status == 0) return true;
    if (disk >= 0) KD1(KD_HANDLE_CLOSE, disk);
    reply.word[0] = disk < 0;
    kd_reply(m->token, &reply);
    return true;
}

static int request_flush(void)
{
    server_lock();
    int r = group_flush();
    copy_confirms();
    server_unlock();
    return r < 0 ? -EIO : 0;
}

static int serve(const struct kd_message *m, struct kd_message *reply, union answer *a,
                 struct sources *by)
{
    switch (m->kind) {
    case STORE_HELLO: return request_hello(m, reply);
    case STORE_OPEN: return request_open(m, reply, a, by);
    case STORE_CLOSE: return container_close(m->process, m->word[0]);
    case STORE_LIST: return names_list(m, reply, a->entries, LIST_MAX);
    case STORE_AT: return names_at(m, reply, a->path);
    case STORE_DELETE:
    case STORE_RENAME:
    case STORE_MAKE:
    case STORE_ENTRIES:
    case STORE_LOOK:
    case STORE_HANDLE:
    case STORE_LINK:
    case STORE_UNLINK:
    case STORE_LIMIT:
    case STORE_TAKE_BACK: return names_request(m, reply, a->named, NAMES_MAX);
    case STORE_HOLDERS: return holders_request(m, reply, a->holders, NAMES_MAX);
    case STORE_LEASE:
    case STORE_SPACE: return request_space(m, reply);
    case STORE_UNLEASE: return request_unlease(m);
    case STORE_NAMED: return request_named(m, reply);
    case STORE_STATS: return request_stats(reply, a);
    case STORE_CHECKPOINT: return request_checkpoint();
    case STORE_FLUSH: return request_flush();
    case STORE_FORM:
        return container_form(m->process, m->word[0], m->word[1], m->word[2]);
    case STORE_CHUNK: return container_chunk(m->process, m->word[0], m->word[1]);
    case STORE_ADVISE: return request_advise(m);
    case STORE_HELD: return request_held(m, reply);
    case STORE_PIN: return m->word[2] ? -EINVAL : pins_unpin(m);
    case STORE_NAMES: return request_list_names(m, reply, a);
    case STORE_NEXT: return request_next(m, reply);
    case STORE_WATCH: return watch_request(m);
    case STORE_MANAGER:
    case STORE_MANAGED: return request_manager(m, reply, a);
    case STORE_ENDED: return kept_ended(m);
    case STORE_SEGMENT:
        return container_segment(m->process, m->word[0], m->word[1], reply->word);
    case STORE_STOP: return -EPERM;
    default: return -ENOSYS;
    }
}

/* serves_writing: does it change the store, or is it of use only to who will? */
static bool serves_writing(const struct kd_message *m)
{
    const struct wire_open *how = m->buffer;
    switch (m->kind) {
    case STORE_OPEN:
        return m->data_bytes >= sizeof(*how) && (how->flags & PS_CREATE) &&
               (how->flags & PS_EXCLUSIVE);
    case STORE_DELETE:
    case STORE_RENAME:
    case STORE_MAKE:
    case STORE_LINK:
    case STORE_UNLINK:
    case STORE_TAKE_BACK:
    case STORE_LEASE:
    case STORE_SPACE:
    case STORE_CHECKPOINT:
    case STORE_MANAGER:
    case STORE_FORM:
    case STORE_CHUNK: return true;
    default: return false;
    }
}

/* request_refused: who came by a handle hears nothing of the whole store, unless that is the root's
 * with the right to manage; nor of containers he has not open, nor if they are there. */
static int request_refused(const struct kd_message *m)
{
    const struct container *c = NULL;
    uint64_t page;
    int r = -EACCES;
    server_lock();
    switch (m->kind) {
    case STORE_STATS:
    case STORE_CHECKPOINT:
    case STORE_SCRUB:
    case STORE_BACKUP:
    case STORE_TXN:
    case STORE_MANAGER: r = caller_manages(); break;
    case STORE_AUDIT: r = m->word[0] == 2 ? 0 : caller_manages(); break;
    case STORE_CLOSE:
    case STORE_LEASE:
    case STORE_SPACE:
    case STORE_NAMED:
    case STORE_FORM:
    case STORE_CHUNK:
    case STORE_NAMES:
    case STORE_NEXT:
    case STORE_SEGMENT:
    case STORE_DECIDE: c = container_by_id(m->word[0]); break;
    case STORE_UNLEASE:
    case STORE_ADVISE:
    case STORE_HELD:
    case STORE_PIN: c = container_at(m->word[0], &page); break;
    default: r = 0;
    }
    if (c && container_has_opening(c, m->process)) r = 0;
    server_unlock();
    return r;
}

/* request: a fenced store grants nothing that only serves writing, with a commit or without: who
 * heard EIO and tries again is not to believe that the store works. */
static int request(const struct kd_message *m, struct kd_message *reply, union answer *a,
                   struct sources *by)
{
    int r = 0;
    if (serves_writing(m)) {
        server_lock();
        r = server_writable();
        server_unlock();
    }
    if (r == 0) r = serve(m, reply, a, by);
    bool tells = m->kind == STORE_WATCH && caller_is_confined();
    return tells && r == -ENOENT ? -EACCES : r;
}

/* ---- the kernel ---- */

void server_notice(const struct kd_message *m)
{
    switch (m->kind) {
    case (uint32_t)KD_MSG_CLIENT_GONE: process_gone(m->process); return;
    case (uint32_t)KD_MSG_RECALLED: decide_recalled(m->word[0]); return;
    case (uint32_t)KD_MSG_CLEAN:
    case (uint32_t)KD_MSG_CREDIT_LOW:
        server_lock();
        if (m->kind == (uint32_t)KD_MSG_CLEAN)
            server.clean_wanted += m->word[0] ? m->word[0] : 1;
        else
            server.credit_low = true;
        pthread_cond_signal(&server.work);
        server_unlock();
        return;
    default: return; /* CONFLICT, VIEW_GONE, NOTIFY: nothing here belongs to a view */
    }
}

/* ---- the threads ---- */

void *pager_main(void *unused)
{
    (void)unused;
    uint64_t buffer[REQUEST_BYTES / 8];
    static _Thread_local union answer answer;
    struct sources by;
    struct kd_message m = {.buffer = buffer, .buffer_bytes = sizeof(buffer)}, reply;
    long r = kd_receive(server.port, &m, -1);
    while (r >= 0) {
        uint64_t token = m.token;
        int handle = m.handle; /* nobody else asked for one, and the table has an end */
        int refused;
        bool answered = !(m.kind & KD_MSG_KERNEL);
        if (m.kind == STORE_BACKUP || kept_handle(&m)) handle = -1;
        if (answered) caller_set(&m);
        if (m.kind == (uint32_t)KD_MSG_PAGE) {
            pager_request(&m);
        } else if (m.kind & KD_MSG_KERNEL) {
            server_notice(&m);
        } else if (caller_is_confined() && (refused = request_refused(&m)) < 0) {
            if (m.kind == STORE_BACKUP || kept_handle(&m)) handle = m.handle;
            reply = (struct kd_message){.handle = -1, .status = refused};
        } else if (request_stop(&m) || request_reads(&m) || request_scrub(&m) ||
                   audit_request(&m) || request_backup(&m) || watch_wait(&m) || kept_request(&m) ||
                   decide_request(&m) || votes_request(&m)) {
            answered = false;
        } else {
            reply = (struct kd_message){.handle = -1};
            reply.status = request(&m, &reply, &answer, &by);
            if (reply.status < 0) reply.data_bytes = 0;
            answered = !request_open_kept(&m, &reply, &answer, &by);
        }
        if (handle >= 0) KD1(KD_HANDLE_CLOSE, handle);
        if (answered && !(m.kind & KD_MSG_KERNEL)) caller_refused(&m, &reply);
        m.buffer = buffer;
        m.buffer_bytes = sizeof(buffer);
        if (answered && reply.handle >= 0) { /* the client has a copy of it */
            (void)kd_reply(token, &reply);
            KD1(KD_HANDLE_CLOSE, reply.handle);
            answered = false;
        }
        r = answered ? kd_reply_receive(token, &reply, server.port, &m)
                     : kd_receive(server.port, &m, -1);
        if (r == -ENOMEM && answered) { /* the kernel had no memory for the data of the answer */
            reply = (struct kd_message){.handle = -1, .status = -ENOMEM};
            r = kd_reply_receive(token, &reply, server.port, &m);
        }
    }
    say("a request thread ends: error %ld", -r);
    return NULL;
}
