/*
 * behind.c - write-behind: a container whose commits are durable a moment later, in batches, in the
 * order in which they were made (managers.md).
 *
 *     behind box 4 &      serves the object "box" of 4 MiB, kept in the container "behind box"
 *
 * A commit is answered when its changes are in the queue. The writer takes all of the queue at once
 * and stores it to the container below in one transaction: so there are always the first so many
 * commits below, each as a whole, and a power cut leaves a prefix. A page is clean when what is
 * below is what is in memory.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "behind.h"
#include "manager.h"
#include "pstore.h"

enum { QUEUE_BYTES = 1 << 20, GATHER_MS = 20, MIB_MAX = 1024, THREADS = 3, PAGES_A_MIB = 256 };

struct below { uint64_t pages; char *data; };
struct queue { uint64_t commits; size_t used; char runs[QUEUE_BYTES]; };

static struct km_object *object;
static ps_container *below;
static char *data;                      /* its pages, in the container below */
static uint64_t pages;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* all that follows */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct queue queues[2], *filling = &queues[0];
static uint32_t *waiting;               /* runs of each page that are not below yet */
static struct behind_counts counts;
static int broken;                      /* the error with which the container below ended */

/* ---- commits ---- */

static const struct km_run *run_at(const struct queue *q, size_t at)
{
    return (const struct km_run *)(q->runs + at);
}
static size_t run_bytes(const struct km_run *r) { return sizeof *r + ((r->bytes + 7u) & ~7u); }

/* Takes back what a commit has queued so far. Locked. */
static void unqueue(size_t from)
{
    for (size_t at = from; at < filling->used; at += run_bytes(run_at(filling, at)))
        waiting[run_at(filling, at)->page]--;
    filling->used = from;
}

/* Queues what the view changed. -EAGAIN: there is no room until the writer has been here.
 * Locked. */
static int queue_changes(struct km_object *o, uint64_t view)
{
    size_t from = filling->used;
    for (uint64_t cursor = 0; cursor != ~0ull;) {
        size_t room = QUEUE_BYTES - filling->used;
        long n = room < 2 * KM_PAGE_BYTES ? -EAGAIN
                                          : km_diff(o, view, &cursor, filling->runs + filling->used,
                                                    room);
        if (n < 0) {
            unqueue(from);
            return n == -EAGAIN && from == 0 ? -E2BIG : (int)n;
        }
        size_t end = filling->used + (size_t)n;
        for (; filling->used < end; filling->used += run_bytes(run_at(filling, filling->used)))
            waiting[run_at(filling, filling->used)->page]++;
    }
    filling->commits++;
    counts.commits++;
    return 0;
}

static int commit(struct km_object *o, uint64_t view)
{
    int error;
    pthread_mutex_lock(&lock);
    while ((error = broken ? -EIO : queue_changes(o, view)) == -EAGAIN)
        pthread_cond_wait(&changed, &lock);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return error;
}

/* ---- the writer ---- */

static int store_below(void *queue)
{
    const struct queue *q = queue;
    for (size_t at = 0; at < q->used; at += run_bytes(run_at(q, at))) {
        const struct km_run *r = run_at(q, at);
        memcpy(data + r->page * KM_PAGE_BYTES + r->offset, r->data, r->bytes);
    }
    return 0;
}

/* A page with nothing in the queue is as it is below, if no commit has come meanwhile: km_cleaned
 * looks. */
static void page_clean(uint64_t page)
{
    static char bytes[KM_PAGE_BYTES];
    uint64_t csn;
    if (km_read(object, page, bytes, &csn) < 0) return;
    pthread_mutex_lock(&lock);
    if (waiting[page] == 0) (void)km_cleaned(object, page, csn);
    pthread_mutex_unlock(&lock);
}

static void written(struct queue *q, int error)
{
    pthread_mutex_lock(&lock);
    broken = error;
    for (size_t at = 0; at < q->used && !error; at += run_bytes(run_at(q, at)))
        waiting[run_at(q, at)->page]--;
    counts.durable += error ? 0 : q->commits;
    counts.batches += !error;
    pthread_mutex_unlock(&lock);
    for (size_t at = 0; at < q->used && !error; at += run_bytes(run_at(q, at)))
        if (run_at(q, at)->flags & KM_RUN_LAST) page_clean(run_at(q, at)->page);
    pthread_mutex_lock(&lock);
    q->used = q->commits = 0;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void *write_all(void *unused)
{
    const struct timespec gather = {.tv_nsec = GATHER_MS * 1000000};
    for (int error = 0; !error;) {
        pthread_mutex_lock(&lock);
        while (filling->used == 0)
            pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
        nanosleep(&gather, NULL);
        pthread_mutex_lock(&lock);
        struct queue *q = filling;
        filling = q == &queues[0] ? &queues[1] : &queues[0]; /* empty: its batch is below */
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
        error = ps_transaction(store_below, q);
        if (error) fprintf(stderr, "behind: nothing is kept any more: %s\n", ps_strerror(error));
        written(q, error);
    }
    return unused;
}

/* ---- pages, calls ---- */

struct wanted { uint64_t page; char bytes[KM_PAGE_BYTES]; };
static int load_below(void *wanted)
{
    struct wanted *w = wanted;
    memcpy(w->bytes, data + w->page * KM_PAGE_BYTES, KM_PAGE_BYTES);
    return 0;
}

static void page(struct km_request *r)
{
    static const struct ps_options snapshot = {.isolation = PS_SNAPSHOT};
    struct wanted w = {.page = r->page};
    int error = ps_transaction_opt(load_below, &w, &snapshot);
    if (!error) error = km_supply(r, w.bytes, 1);
    if (error) km_fail(r, EIO);
}

static void call(struct km_object *o, void *message, int bytes)
{
    struct behind_counts *c = message;
    (void)o;
    if (bytes != sizeof *c) return;
    pthread_mutex_lock(&lock);
    for (uint64_t now = counts.commits; c->flush && counts.durable < now && !broken;)
        pthread_cond_wait(&changed, &lock);
    c->flush = 0;
    c->commits = counts.commits;
    c->durable = counts.durable;
    c->batches = counts.batches;
    pthread_mutex_unlock(&lock);
}

/* ---- the program ---- */

static int make_below(void *unused)
{
    struct below *root = ps_root(below);
    (void)unused;
    if (root && !root->data) {
        root->pages = pages;
        root->data = ps_alloc(below, (pages + 1) * KM_PAGE_BYTES, NULL);
    }
    if (!root || !root->data) return -errno;
    if (root->pages != pages) return -EMEDIUMTYPE;
    data = (char *)(((uintptr_t)root->data + KM_PAGE_BYTES - 1) & ~(uintptr_t)(KM_PAGE_BYTES - 1));
    return 0;
}

static int serve(const char *name)
{
    static const struct km_ops ops = {.page = page, .commit = commit, .call = call};
    char container[KM_NAME_MAX + 8];
    pthread_t writer;
    snprintf(container, sizeof container, "behind %s", name);
    below = ps_open(container, PS_CREATE | PS_WRITE, PS_LAYOUT(struct below, 1));
    int error = below ? ps_transaction(make_below, NULL) : -errno;
    waiting = calloc(pages, sizeof *waiting);
    if (!error && !waiting) error = -ENOMEM;
    if (!error) error = km_create(name, pages, KM_READ | KM_WRITE | KM_TRANSACTIONAL, &ops, NULL,
                                  &object);
    if (!error) error = -pthread_create(&writer, NULL, write_all, NULL);
    return error ? error : km_serve(THREADS);
}

int main(int argc, char **argv)
{
    uint64_t mib = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
    if (mib == 0 || mib > MIB_MAX || strlen(argv[1]) >= KM_NAME_MAX - 8) {
        fprintf(stderr, "usage: behind NAME MIB\n");
        return 2;
    }
    pages = mib * PAGES_A_MIB;
    int error = serve(argv[1]);
    fprintf(stderr, "behind: cannot serve %s: %s\n", argv[1], ps_strerror(error));
    return 1;
}
