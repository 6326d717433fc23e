/*
 * manager_commit.c - one commit that a manager works on: which objects it changed, their policies'
 * `commit`, and what these ask of it (km_diff).
 *
 * The changes that are told to find the objects are kept for km_diff, if they are not too many: the
 * kernel compares pages only once.
 *
 * Locks: one, while a policy hears an outcome; a struct commit_work is its thread's (at_work).
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "katydid/call.h"
#include "manager_private.h"

static __thread const struct commit_work *at_work; /* whose km_diff may look there */

static size_t run_bytes(const struct kd_run *run)
{
    return sizeof(*run) + ((run->bytes + 7u) & ~7u);
}

/* work_note notes the object of a run as changed by this view, and uses it. */
static void work_note(struct commit_work *w, uint64_t cookie, uint64_t view)
{
    struct km_object *o;
    unsigned i = 0;
    while (i < w->count && w->changed[i]->number != cookie) i++;
    if (i == w->count) {
        if (i == KM_OBJECTS_MAX || !(o = object_of(cookie))) return;
        w->changed[i] = o;
        w->count++;
    }
    w->by[i] = (uint8_t)view;
}

static long work_look(struct commit_work *w, uint64_t view, uint64_t token)
{
    struct kd_diff d = {.view = view, .token = token};
    struct kd_run run;
    int times = 0;
    for (; d.cursor != ~0ull; times++) {
        d.buffer = w->runs;
        d.buffer_bytes = sizeof(w->runs);
        long r = kd_call3(KD_TXN_DIFF, (long)&d, 0, 0);
        if (r < 0) return r;
        for (size_t at = 0; at < d.buffer_bytes; at += run_bytes(&run)) {
            memcpy(&run, w->runs + at, sizeof(run));
            work_note(w, run.cookie, view);
        }
    }
    w->view = view;
    w->bytes = d.buffer_bytes;
    w->is_all = times == 1;
    return 0;
}

long commit_view(struct commit_work *w, uint64_t view, uint64_t token)
{
    manager.tokens[view] = token;
    w->is_all = 0;
    memset(w->by, KM_VIEWS_MAX, w->count); /* those behind are set as they come */
    long r = work_look(w, view, token);
    at_work = w;
    for (unsigned i = 0; r == 0 && i < w->count; i++)
        if (w->by[i] == view && w->changed[i]->ops->commit)
            r = w->changed[i]->ops->commit(w->changed[i], view);
    at_work = NULL;
    return r;
}

void commit_forget(struct commit_work *w)
{
    while (w->count > 0) object_done(w->changed[--w->count]);
}

void commit_over(struct commit_work *w, uint64_t view, int error, uint64_t csn)
{
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER; /* of several threads (km_commits) */
    for (unsigned i = 0; i < w->count; i++) {
        if (!w->changed[i]->ops->outcome) continue;
        pthread_mutex_lock(&one);
        w->changed[i]->ops->outcome(w->changed[i], view, error, error ? 0 : csn);
        pthread_mutex_unlock(&one);
    }
    commit_forget(w);
}

/* runs_keep copies the object's runs to `to`, perhaps the same place, and tells how many bytes. */
static size_t runs_keep(const struct km_object *o, uint8_t *to, const uint8_t *runs, size_t bytes)
{
    size_t kept = 0;
    for (size_t at = 0, whole; at + sizeof(struct kd_run) <= bytes; at += whole) {
        struct kd_run run;
        memcpy(&run, runs + at, sizeof(run));
        whole = run_bytes(&run);
        if (run.cookie != o->number) continue;
        if (to + kept != runs + at) memmove(to + kept, runs + at, whole);
        kept += whole;
    }
    return kept;
}

long km_diff(struct km_object *o, uint64_t view, uint64_t *cursor, void *buffer, size_t bytes)
{
    const struct commit_work *w = at_work;
    if (view >= KD_VIEW_MAX) return -EINVAL;
    if (w && w->view == view && w->is_all && w->bytes <= bytes && *cursor == 0) {
        *cursor = ~0ull;
        return (long)runs_keep(o, buffer, w->runs, w->bytes);
    }
    size_t kept = 0;
    while (kept == 0 && *cursor != ~0ull) {
        struct kd_diff d = {.view = view, .token = manager.tokens[view], .cursor = *cursor,
                            .buffer = buffer, .buffer_bytes = bytes};
        long r = kd_call3(KD_TXN_DIFF, (long)&d, 0, 0);
        if (r < 0) return r;
        *cursor = d.cursor;
        kept = runs_keep(o, buffer, buffer, d.buffer_bytes);
    }
    return (long)kept;
}

int km_diff_each(struct km_object *o, uint64_t view,
                 int (*each)(const struct km_run *r, void *user), void *user)
{
    const struct commit_work *w = at_work;
    bool known = w && w->view == view && w->is_all; /* of all objects */
    uint64_t buffer[1024], cursor = 0;
    const void *runs = known ? (const void *)w->runs : buffer;
    while (cursor != ~0ull) {
        long n = known ? (long)w->bytes : km_diff(o, view, &cursor, buffer, sizeof buffer);
        if (n < 0) return (int)n;
        if (known) cursor = ~0ull;
        for (const struct km_run *r = km_run_first(runs, n); r; r = km_run_next(r, runs, n)) {
            int error = r->object == o->number ? each(r, user) : 0;
            if (error) return error;
        }
    }
    return 0;
}
