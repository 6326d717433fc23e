/*
 * remote_commit.c - commits: what a transaction changed goes home as one COMMIT, and is published
 * here when DONE comes. Whether it happened is the home's word alone.
 *
 * A COMMIT is one frame. What does not fit is refused with E2BIG, and undone.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "katydid/call.h"
#include "link.h"
#include "remote.h"

enum { DIFF_BYTES = 64 << 10 };

/* One that is under way, by its view. */
struct pending { uint64_t number, token; };
static struct pending pending[KD_VIEW_MAX];
static uint64_t last_csn;

static int run_add(struct fields_out *o, const struct kd_run *run, const uint8_t *data)
{
    struct container *c = container_of_id(STORE_COOKIE_CONTAINER(run->cookie));
    if (!c || run->cookie % 16 >= c->segments) return -EIO;
    uint64_t page = c->segment[run->cookie % 16].base + run->page * KD_PAGE_BYTES;
    const struct site_page *known = pages_find(&remote.pages, page);
    if (!known || known->right != SITE_EXCLUSIVE) return -EIO;
    run_put(o, &(struct site_run){.page = page, .serial = known->serial, .offset = run->offset,
                                  .bytes = run->bytes, .data = data});
    return o->full ? -E2BIG : 0;
}

static int runs_add(struct fields_out *o, const struct pending *p, uint64_t view)
{
    static _Alignas(struct kd_run) uint8_t runs[DIFF_BYTES];
    struct kd_diff d = {.view = view, .token = p->token};
    int error = 0;
    while (!error && d.cursor != ~0ull) {
        d.buffer = runs;
        d.buffer_bytes = sizeof runs;
        error = (int)kd_call3(KD_TXN_DIFF, (long)&d, 0, 0);
        struct kd_run run;
        for (size_t at = 0; !error && at < d.buffer_bytes;) {
            memcpy(&run, runs + at, sizeof run);
            error = run_add(o, &run, runs + at + sizeof run);
            at += sizeof run + ((run.bytes + 7u) & ~7u);
        }
    }
    return error;
}

/* ---- the batch: operations only on what its process may write ---- */

static int batch_check(uint64_t process, const uint8_t *batch, uint64_t bytes)
{
    const struct wire_op *op;
    for (uint64_t at = 0; at < bytes; at += op->op_bytes) {
        op = (const void *)(batch + at);
        if (bytes - at < sizeof *op || op->op_bytes < sizeof *op || op->op_bytes % 8 ||
            op->op_bytes > bytes - at)
            return -EINVAL;
        const struct container *c = container_of_id(op->container);
        const struct opening *o = c ? opening_of(process, c) : NULL;
        if (!o || !o->writes) return -EACCES;
    }
    return 0;
}

/* The frame's bytes, or -errno. */
static long commit_frame(const struct pending *p, const struct kd_message *m, uint8_t *frame,
                         size_t room)
{
    size_t bytes_all = m->buffer_bytes;
    int error = batch_check(m->process, m->buffer, m->buffer_bytes);
    const void *batch = error ? NULL : parts_batch(m, &bytes_all);
    if (!batch) return error ? error : -ECANCELED;
    uint32_t flags = m->word[3] >> KD_PART_SHIFT ? 0 : (uint32_t)m->word[3]; /* no part is lazy */
    struct fields_out o = message_commit(frame, room, flags, batch, bytes_all);
    if (m->word[1]) error = runs_add(&o, p, m->word[0]);
    size_t bytes = error ? 0 : frame_end(&o, SITE_COMMIT, p->number, 0);
    if (bytes) frame_place(frame, remote_place());
    return error ? error : bytes ? (long)bytes : -E2BIG;
}

/* The same, of a commit that is pending from now on. */
static long commit_begins(const struct kd_message *m, uint8_t *frame, size_t room)
{
    struct pending *p = &pending[m->word[0]];
    remote_lock();
    *p = (struct pending){.number = ++remote.number, .token = m->token};
    long bytes = commit_frame(p, m, frame, room);
    if (bytes < 0) *p = (struct pending){0};
    remote.counts[SITE_COMMIT] += bytes > 0;
    remote_unlock();
    return bytes;
}

/* Frames of commits may be large, and wait for room; so they do that one by one, without the lock.
 * What goes home meanwhile has to do with other pages: those of the commit stay as they are. */
static long commit_send(const struct kd_message *m)
{
    static pthread_mutex_t sending = PTHREAD_MUTEX_INITIALIZER;
    static _Alignas(8) uint8_t frame[FRAME_BYTES_MAX];  /* by who sends */
    pthread_mutex_lock(&sending);
    long bytes = commit_begins(m, frame, sizeof frame);
    if (bytes > 0 && link_send(remote.session, frame, (size_t)bytes))
        remote_ends("the session with the home is over");
    pthread_mutex_unlock(&sending);
    return bytes;
}

/* What one page has differ, or all of it, is no longer than the kernel tells it. */
static bool commit_small(const struct kd_message *m)
{
    return m->word[1] + m->word[2] <= 1 && m->buffer_bytes <= REMOTE_FRAME / 4;
}

void commit_asked(const struct kd_message *m)
{
    if (m->word[0] >= KD_VIEW_MAX || parts_outcome(m)) return;
    uint8_t *with = commit_small(m) ? remote_frame() : NULL;
    long bytes = with ? commit_begins(m, with, REMOTE_FRAME) : commit_send(m);
    if (with) remote_frame_is(bytes > 0 ? (size_t)bytes : 0);
    if (bytes < 0) kd_call3(KD_TXN_REFUSE, (long)m->word[0], (long)m->token, (int)-bytes);
}

void commit_end(uint64_t view, uint64_t token, int error)
{
    struct pending *p = &pending[view];
    struct kd_publish publish = {.view = view, .token = token, .csn = last_csn + 1};
    if (error) {
        kd_call3(KD_TXN_REFUSE, (long)view, (long)token, error);
    } else {
        last_csn++;
        kd_call3(KD_TXN_PUBLISH, (long)&publish, 1, 0);
    }
    *p = (struct pending){0};
}

void commit_answered(const struct site_message *m)
{
    uint64_t view = 0;
    while (view < KD_VIEW_MAX && !(m->answer_to && pending[view].number == m->answer_to)) view++;
    if (view == KD_VIEW_MAX) return;
    struct pending *p = &pending[view];
    if (m->kind == SITE_VOTED && !m->error) {
        p->number = 0;                  /* its outcome comes by another message */
        kd_call3(KD_TXN_VOTED, (long)view, (long)p->token, 0);
        return;
    }
    if (m->error) parts_refused(view);
    commit_end(view, p->token, m->error);
}
