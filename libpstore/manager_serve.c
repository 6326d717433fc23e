/*
 * manager_serve.c - a manager's threads: what the kernel says of its objects, and what clients say.
 *
 * Work, that is pages, questions and commits, may wait for memory or for other managers. Cleaning
 * makes memory, so a thread must be there for it at any time:
 *
 * KO2  Of the threads that receive from the kernel, `workers` at most do work. The one that is left
 *      keeps what is to be done for the first that is ready (held), and cleans.
 *
 * Commits are answered, and pages offered for cleaning, one at a time; but several commits if a
 * manager that stands on others says so (km_commits).
 *
 * Locks: protocol_lock, then commit_lock; clean_lock; held_lock for the list.
 */
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "katydid/call.h"
#include "answer_private.h"
#include "manager_private.h"

#define STACK_BYTES (32u << 10)
enum { INFO_PAGES = 256, CLEAN_AT_ONCE = 256, HELD_MAX = 256 };

static pthread_mutex_t protocol_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t commit_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t clean_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t held_lock = PTHREAD_MUTEX_INITIALIZER;
static struct { struct kd_message messages[HELD_MAX]; unsigned first, count; } held;
static int working, workers;            /* atomic */
static uint64_t last_csn;               /* commit_lock */

/* ---- pages and questions ---- */

static void on_page(const struct kd_message *m)
{
    struct km_object *o = object_of(m->word[0]);
    if (!o) return;
    int here = (m->word[3] & KD_PAGE_HERE) != 0;
    struct km_request r = { .object = o, .user = o->user, .page = m->word[1],
                            .count = m->word[2] && !here ? m->word[2] : 1,
                            .access = (int)m->word[3] & (KD_READ | KD_WRITE),
                            .view = m->word[4], .token = m->word[6] };
    void (*policy)(struct km_request *) = here ? o->ops->lock : o->ops->page;
    if (policy && !here && manager.page_below)
        manager.page_below(&r);
    else if (policy)
        policy(&r);
    else if (here)
        km_grant(&r);
    else
        km_answer(&r, NULL, r.count, 0);
    object_done(o);
}

static void on_recalled(const struct kd_message *m)
{
    struct km_object *o = object_of(m->word[0]);
    if (o && o->ops->recalled) o->ops->recalled(o);
    if (o) object_done(o);
}

/* ---- commits ---- */

static void on_commit(const struct kd_message *m)
{
    static struct commit_work work; /* commit_lock */
    uint64_t view = m->word[0];
    if (view >= KD_VIEW_MAX) return;
    const struct km_protocol *p = manager.protocol;
    pthread_mutex_lock(&commit_lock);
    long checked = p && p->commit ? p->commit(m->process, m->buffer, m->buffer_bytes) : 0;
    long r = checked == 0 && m->word[1] ? commit_view(&work, view, m->token) : checked;
    if (r < 0) {
        kd_call3(KD_TXN_REFUSE, (long)view, (long)m->token, -r);
    } else {
        struct kd_publish p = {.view = view, .token = m->token, .csn = ++last_csn};
        r = kd_call3(KD_TXN_PUBLISH, (long)&p, 1, 0);
    }
    commit_over(&work, view, (int)r, last_csn);
    if (p && p->outcome && checked == 0)
        p->outcome(m->process, m->buffer, m->buffer_bytes, (int)r);
    pthread_mutex_unlock(&commit_lock);
}

/* ---- cleaning ---- */

static void clean_named(const struct kd_page_name *names, uint64_t count)
{
    uint64_t pages[CLEAN_AT_ONCE];
    for (uint64_t i = 0, n; i < count; i += n) {
        struct km_object *o = object_of(names[i].cookie);
        for (n = 0; i + n < count && names[i + n].cookie == names[i].cookie; n++)
            pages[n] = names[i + n].page;
        if (o && o->ops->clean) o->ops->clean(o, pages, (unsigned)n);
        if (o) object_done(o);
    }
}

/* range_clean offers at most `most` dirty pages of the range to the object's policy; how many. */
static uint64_t range_clean(struct km_object *o, uint64_t from, uint64_t count, uint64_t most)
{
    uint64_t pages[INFO_PAGES], offered = 0;
    for (uint64_t done = 0, n; done < count && offered < most; done += n) {
        uint8_t bits[INFO_PAGES];
        unsigned dirty = 0;
        n = count - done < INFO_PAGES ? count - done : INFO_PAGES;
        if (km_resident(o, from + done, n, bits) < 0) break;
        for (uint64_t p = 0; p < n && offered + dirty < most; p++)
            if (bits[p] & KD_PAGE_DIRTY) pages[dirty++] = from + done + p;
        if (dirty) o->ops->clean(o, pages, dirty);
        if (dirty) o->cleaned_from = (pages[dirty - 1] + 1) % o->pages;
        offered += dirty;
    }
    return offered;
}

/* object_clean offers any dirty pages, first those behind the last offered ones. Once round. */
static uint64_t object_clean(struct km_object *o, uint64_t wanted)
{
    uint64_t from = o->cleaned_from;
    uint64_t offered = range_clean(o, from, o->pages - from, wanted);
    return offered + range_clean(o, 0, from, wanted - offered);
}

/* clean_some cleans what the kernel's list says is to go first. While memory is not short there is
 * none, and too much is dirty of some object. */
static void clean_some(uint64_t wanted)
{
    struct kd_page_name names[CLEAN_AT_ONCE];
    long n = kd_call3(KD_CLEAN_LIST, (long)names,
                      wanted < CLEAN_AT_ONCE ? (long)wanted : CLEAN_AT_ONCE, 0);
    if (n > 0) clean_named(names, (uint64_t)n);
    for (unsigned i = 0; n == 0 && wanted > 0 && i < KM_OBJECTS_MAX; i++) {
        struct km_object *o = object_at(i);
        if (o && o->ops->clean) wanted -= object_clean(o, wanted);
        if (o) object_done(o);
    }
}

/* on_clean leaves it to a thread that is cleaning already. */
static void on_clean(uint64_t wanted)
{
    static uint64_t most;
    static unsigned asked;
    unsigned seen;
    __atomic_store_n(&most, wanted, __ATOMIC_SEQ_CST);
    if (__atomic_fetch_add(&asked, 1, __ATOMIC_SEQ_CST)) return;
    pthread_mutex_lock(&clean_lock);
    do {
        seen = __atomic_load_n(&asked, __ATOMIC_SEQ_CST);
        clean_some(__atomic_load_n(&most, __ATOMIC_SEQ_CST));
    } while (!__atomic_compare_exchange_n(&asked, &seen, 0, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    pthread_mutex_unlock(&clean_lock);
}

int km_clean(struct km_object *o, uint64_t page, uint64_t count)
{
    if (count == 0 || page >= o->pages || count > o->pages - page || !o->ops->clean) return -EINVAL;
    pthread_mutex_lock(&clean_lock);
    uint64_t from = o->cleaned_from;
    range_clean(o, page, count, count);
    o->cleaned_from = from;
    pthread_mutex_unlock(&clean_lock);
    return 0;
}

/* ---- notices ---- */

static void on_gone(const struct kd_message *m)
{
    for (unsigned i = 0; i < KM_OBJECTS_MAX; i++) {
        struct km_object *o = object_at(i);
        for (uint64_t view = 0; o && o->ops->gone && view < KD_VIEW_MAX; view++)
            if (m->word[view / 64] >> view % 64 & 1) o->ops->gone(o, view);
        if (o) object_done(o);
    }
}

static void on_client_gone(const struct kd_message *m)
{
    if (!manager.protocol || !manager.protocol->gone) return;
    pthread_mutex_lock(&protocol_lock);
    manager.protocol->gone(m->process);
    pthread_mutex_unlock(&protocol_lock);
}

/* on_credit_low asks the first object with a policy for credits, which are the process's. */
static void on_credit_low(void)
{
    for (unsigned i = 0, told = 0; i < KM_OBJECTS_MAX && !told; i++) {
        struct km_object *o = object_at(i);
        if (o && o->ops->credit_low) o->ops->credit_low(o), told = 1;
        if (o) object_done(o);
    }
}

/* ---- threads ---- */

static void work(const struct kd_message *m)
{
    switch (m->kind) {
    case (uint32_t)KD_MSG_PAGE: on_page(m); return;
    case (uint32_t)KD_MSG_RECALLED: on_recalled(m); return;
    case (uint32_t)KD_MSG_COMMIT: on_commit(m); return;
    case (uint32_t)KD_MSG_VIEW_GONE: on_gone(m); return;
    case (uint32_t)KD_MSG_CREDIT_LOW: on_credit_low(); return;
    case (uint32_t)KD_MSG_CLIENT_GONE: on_client_gone(m); return;
    default: return;
    }
}

/* held_keep keeps a message. False: too much is kept already. */
static int held_keep(const struct kd_message *m)
{
    pthread_mutex_lock(&held_lock);
    int room = held.count < HELD_MAX;
    if (room) held.messages[(held.first + held.count) % HELD_MAX] = *m;
    __atomic_store_n(&held.count, held.count + (unsigned)room, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&held_lock);
    return room;
}

static int held_take(struct kd_message *m)
{
    pthread_mutex_lock(&held_lock);
    int some = held.count > 0;
    if (some) *m = held.messages[held.first];
    held.first = (held.first + (unsigned)some) % HELD_MAX;
    __atomic_store_n(&held.count, held.count - (unsigned)some, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&held_lock);
    return some;
}

static int working_more(int by) { return __atomic_add_fetch(&working, by, __ATOMIC_SEQ_CST); }

/* held_work works off what is kept, while not too many are at work (KO2). Who kept the last of it,
 * or ended the work before, looks here behind that: one of them sees it. */
static void held_work(void)
{
    struct kd_message m;
    while (__atomic_load_n(&held.count, __ATOMIC_SEQ_CST) > 0 &&
           __atomic_load_n(&working, __ATOMIC_SEQ_CST) < workers) {
        if (working_more(1) <= workers)
            while (held_take(&m)) work(&m);
        working_more(-1);
    }
}

static void on_kernel(const struct kd_message *m)
{
    if (m->kind == (uint32_t)KD_MSG_CLEAN) {
        on_clean(m->word[0] ? m->word[0] : 1);
        return;
    }
    if (working_more(1) <= workers || !held_keep(m)) work(m);
    working_more(-1);
    held_work();
}

static int segments_have(struct dl_phdr_info *program, size_t bytes, void *unused)
{
    (void)bytes, (void)unused;
    for (unsigned i = 0; i < program->dlpi_phnum; i++) {
        const ElfW(Phdr) *s = &program->dlpi_phdr[i];
        const volatile char *at = (const char *)program->dlpi_addr + s->p_vaddr;
        for (size_t n = 0; s->p_type == PT_LOAD && n < s->p_memsz; n += KM_PAGE_BYTES) (void)at[n];
    }
    return 0;
}

/* program_have has the program in memory before that is short, and a thread's stack: code that runs
 * for the first time is waited for, perhaps with a lock that cleaning needs. */
static void program_have(void) { dl_iterate_phdr(segments_have, NULL); }
static __attribute__((noinline)) void stack_have(void)
{
    volatile char stack[STACK_BYTES];
    for (size_t at = 0; at < sizeof(stack); at += KM_PAGE_BYTES / 2) stack[at] = 0;
}

static void *serve_kernel(void *unused)
{
    (void)unused;
    struct kd_message m = {.handle = -1};
    stack_have();
    long r;
    while ((r = kd_call3(KD_PORT_RECEIVE, manager.port, (long)&m, -1)) >= 0) on_kernel(&m);
    return (void *)r;
}

/* refuse_call refuses calls of the commit port; managers above have handles (CALL_BELOW). */
static void refuse_call(const struct kd_message *m)
{
    const struct kd_message reply = {.handle = -1, .status = -ENOSYS};
    if (m->handle >= 0) kd_call3(KD_HANDLE_CLOSE, m->handle, 0, 0);
    kd_call3(KD_PORT_REPLY, (long)m->token, (long)&reply, 0);
}

static void *serve_commits(void *work)
{
    struct kd_message m = {.handle = -1};
    stack_have();
    long r;
    while ((r = kd_call3(KD_PORT_RECEIVE, manager.commits, (long)&m, -1)) >= 0)
        if (m.kind == (uint32_t)KD_MSG_COMMIT)
            manager.commit_below(&m, work);
        else if (m.kind & (uint32_t)KD_MSG_KERNEL)
            on_kernel(&m);
        else
            refuse_call(&m);
    return (void *)r;
}

/* ---- what clients say ---- */

static struct km_object *object_named(const char *name)
{
    for (unsigned i = 0; i < KM_OBJECTS_MAX; i++) {
        struct km_object *o = object_at(i);
        if (o && strcmp(o->name, name) == 0) return o;
        if (o) object_done(o);
    }
    return NULL;
}

/* open_for gives the caller of this message the object, and its address. */
static int open_for(const struct kd_message *m, struct km_object *o, struct kd_message *reply)
{
    int flags = m->word[0] & KM_WRITE ? KM_READ | KM_WRITE : KM_READ;
    if (flags & ~o->flags & KM_WRITE) return -EACCES;
    reply->word[0] = o->base;
    reply->word[1] = o->number;
    if (!m->word[0]) return 0; /* km_call only wants the number */
    int lets = kept_lets(o, m->process, flags);
    if (lets) return lets < 0 ? lets : 0;
    long r = kd_call3(KD_SPACE_ATTACH, (long)m->process, o->handle,
                      KD_RIGHT_READ | (flags & KM_WRITE ? KD_RIGHT_WRITE : 0));
    return r < 0 ? (int)r : 0;
}

/* serve_open serves "Open the object of this name." */
static int serve_open(const struct kd_message *m, char *name, struct kd_message *reply)
{
    if (m->data_bytes == 0 || m->data_bytes > KD_NAME_MAX || name[m->data_bytes - 1])
        return -EINVAL;
    struct km_object *o = object_named(name);
    if (!o) return -ENOENT;
    int r = open_for(m, o, reply);
    object_done(o);
    return r;
}

static int serve_below(struct kd_message *reply)
{
    reply->handle = manager_commit_port();
    reply->handle_rights = KD_RIGHT_CALL;
    return 0;
}

static int serve_user(const struct kd_message *m, void *data, struct kd_message *reply)
{
    struct km_object *o = object_of(m->word[0]);
    if (!o) return -ENOENT;
    int r = o->ops->call ? 0 : -ENOSYS;
    if (!r) o->ops->call(o, data, (int)m->data_bytes);
    object_done(o);
    reply->data = data;
    reply->data_bytes = r ? 0 : m->data_bytes;
    return r;
}

static void *serve_clients(void *unused)
{
    (void)unused;
    uint64_t data[KM_MESSAGE_BYTES / 8];
    struct kd_message m = {.buffer = data, .buffer_bytes = sizeof(data)};
    stack_have();
    long r = kd_call3(KD_PORT_RECEIVE, manager.calls, (long)&m, -1);
    while (r >= 0) {
        struct kd_message reply = {.handle = -1}, next = {.buffer = data,
                                                          .buffer_bytes = sizeof(data)};
        reply.status = m.kind == CALL_OPEN   ? serve_open(&m, (char *)data, &reply)
                       : m.kind == CALL_USER ? serve_user(&m, data, &reply)
                       : m.kind == CALL_BELOW ? serve_below(&reply)
                                             : -ENOSYS;
        message_unload(&m);
        r = message_answer(m.token, &reply, manager.calls, &next);
        m = next;
    }
    return (void *)r;
}

static void protocol_message(const struct kd_message *m, struct kd_message *reply)
{
    struct km_message k = {.process = m->process, .kind = m->kind, .data = m->buffer,
                           .bytes = m->buffer_bytes};
    memcpy(k.word, m->word, sizeof(k.word));
    *reply = (struct kd_message){.handle = -1};
    reply->status = manager.protocol->message(&k);
    memcpy(reply->word, k.reply, sizeof(k.reply));
    reply->data = k.answer;
    reply->data_bytes = k.answer_bytes;
    message_unload(m);
}

/* serve_protocol serves what clients of the manager's own protocol say, and commits, in order. */
static void *serve_protocol(void *unused)
{
    const struct kd_message room = {.buffer = manager.messages, .buffer_bytes = KD_DATA_MAX};
    struct kd_message m = room, reply, next;
    (void)unused;
    stack_have();
    long r = kd_call3(KD_PORT_RECEIVE, manager.calls, (long)&m, -1);
    for (; r >= 0; m = next) {
        int asked = !(m.kind & (uint32_t)KD_MSG_KERNEL);
        int commits = m.kind == (uint32_t)KD_MSG_COMMIT;
        if (asked || commits) pthread_mutex_lock(&protocol_lock);
        if (asked)
            protocol_message(&m, &reply);
        else if (commits)
            on_commit(&m);
        else
            on_kernel(&m);
        if (asked || commits) pthread_mutex_unlock(&protocol_lock);
        next = room;
        r = asked ? message_answer(m.token, &reply, manager.calls, &next)
                  : kd_call3(KD_PORT_RECEIVE, manager.calls, (long)&next, -1);
    }
    return (void *)r;
}

static int thread_start(void *(*serve)(void *), void *arg)
{
    pthread_t thread;
    int r = pthread_create(&thread, NULL, serve, arg);
    if (!r) pthread_detach(thread);
    return -r;
}

/* commits_start makes threads of a manager that stands on others: each works on one commit. */
static int commits_start(void)
{
    int n = manager.commits < 0 ? 0 : manager.commit_threads, r = 0;
    struct commit_work *works = n ? calloc((size_t)n, sizeof(*works)) : NULL;
    if (n && !works) return -ENOMEM;
    for (size_t at = 0; at < (size_t)n * sizeof(*works); at += KM_PAGE_BYTES)
        ((volatile char *)works)[at] = 0; /* the page is there before memory is short */
    for (int i = 0; r == 0 && i < n; i++) r = thread_start(serve_commits, &works[i]);
    return r;
}

int km_serve(int threads)
{
    if (manager.port < 0 || threads < 1) return -EINVAL;
    __atomic_store_n(&workers, threads, __ATOMIC_SEQ_CST);
    memset(held.messages, 0, sizeof(held.messages)); /* before memory is short */
    program_have();
    int r = thread_start(manager.protocol ? serve_protocol : serve_clients, NULL);
    if (r == 0) r = commits_start();
    if (r == 0) r = kept_begin();
    for (int i = 0; r == 0 && i < threads; i++) r = thread_start(serve_kernel, NULL);
    return r ? r : (int)(long)serve_kernel(NULL);
}
