/*
 * remote_several.c - snapshots of a program that uses several stores: several homes, or a home and
 * this machine's own (remote.md).
 *
 *     STORE_SNAPSHOT, others        to the manager of one of the homes, which leads
 *     REMOTE_SNAP to each home's    SNAP, SNAPPED
 *     REMOTE_WAIT                   ... and when all have answered, a snapshot of this kernel
 *     REMOTE_STILL to each          STILL, STOOD: nothing was shown there since SNAPPED
 *     REMOTE_DROP to each           SNAP_END
 *
 * Invariants
 *   SV8  A home that stood still from before this kernel's snapshot began until after it has at
 *        that moment the state that its own has. So all have, and this machine's own stores, in
 *        which nothing is prepared then: one state of one moment. Else all are asked again.
 *   SV9  After PATIENCE rounds the homes are to hold (agent_snapshot.c). One that has held a moment
 *        ago refuses; between rounds there is time to rest, more each time: in the end more than
 *        any home wants, so that all are ready at once, however often the one or the other was.
 *
 * One thread does all this, for one program after the other; it waits for homes, without the lock,
 * for WAIT_MS at most. The manager that leads asks itself as it asks the others.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "katydid/call.h"
#include "link.h"
#include "remote.h"

enum { JOBS_MAX = 8, POINTS_MAX = 8, HOMES_MAX = LINK_SITES_MAX, PATIENCE = 2, ROUNDS = 8,
       REST_MS = 10, WAIT_MS = 3000, DROP_MS = 250, LOOK_MS = 20, BEGIN_TRIES = 200,
       LATE_MAX = 64 };

/* A part of a snapshot: of which home's manager, under which name; 0: there is none. */
struct part { char store[STORE_NAME_BYTES]; uint64_t name; };
struct several { unsigned count; int handle; struct part part[HOMES_MAX]; };

static struct job { uint64_t token, process; struct several homes; } jobs[JOBS_MAX];
static unsigned first_job, job_count;
static struct several points[POINTS_MAX];   /* handle 0: free; the thread's alone */
static struct part late[LATE_MAX];          /* not dropped in time: the thread's alone */
static unsigned late_count;
static unsigned rounds, refused, given;     /* for counts */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t due = PTHREAD_COND_INITIALIZER;
static char own[STORE_NAME_BYTES];

/* ---- what a program asks ---- */

int several_asked(const struct kd_message *m)
{
    const char *at = m->buffer, *end = at + m->buffer_bytes;
    struct job j = {.token = m->token, .process = m->process, .homes = {.count = 1}};
    memcpy(j.homes.part[0].store, own, sizeof own);
    for (size_t bytes; at < end; at += bytes) {
        bytes = strnlen(at, (size_t)(end - at)) + 1;
        if (bytes > (size_t)(end - at) || bytes > STORE_NAME_BYTES || !strchr(at, '/') ||
            j.homes.count == HOMES_MAX)
            return -EINVAL;
        memcpy(j.homes.part[j.homes.count++].store, at, bytes);
    }
    pthread_mutex_lock(&lock);
    int error = job_count == JOBS_MAX ? -EAGAIN : 1;
    if (error == 1) jobs[(first_job + job_count++) % JOBS_MAX] = j;
    pthread_cond_signal(&due);
    pthread_mutex_unlock(&lock);
    return error;
}

/* ---- the managers of the homes ---- */

static int ask(struct part *p, uint32_t kind, const uint64_t word[2])
{
    struct kd_message m = {.kind = kind, .handle = -1, .word = {word[0], word[1]}, .data = own,
                           .data_bytes = sizeof own};
    long port = kd_call3(KD_NAME_FIND, (long)p->store, 0, 0);
    if (port < 0) return -ENOENT;
    long r = kd_call3(KD_PORT_CALL_UNTIL, port, (long)&m, kind == REMOTE_DROP ? DROP_MS : WAIT_MS);
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    if (r == 0 && m.handle >= 0) kd_call3(KD_HANDLE_CLOSE, m.handle, 0, 0);
    int error = r < 0 ? (int)r : m.status;
    if (!error && kind == REMOTE_SNAP) p->name = m.word[0];
    return error;
}

/* False: its home has not heard it in time. What is dropped already is none there. */
static bool part_drop(struct part *p)
{
    return ask(p, REMOTE_DROP, (uint64_t[]){p->name, 0}) != -ETIMEDOUT;
}

static void drop(struct several *s)
{
    for (struct part *p = s->part; p < s->part + s->count; p++) {
        if (p->name && !part_drop(p) && late_count < LATE_MAX) late[late_count++] = *p;
        p->name = 0;
    }
}

static int wait_all(struct several *s)
{
    int error = 0;
    for (struct part *p = s->part; p < s->part + s->count && !error; p++)
        if (p->name) error = ask(p, REMOTE_WAIT, (uint64_t[]){p->name, 0});
    return error;
}

/* A home of which the program has nothing open has no part. */
static int snap_all(struct several *s, uint64_t process, bool hold)
{
    int error = 0;
    for (struct part *p = s->part; p < s->part + s->count && !error; p++) {
        error = ask(p, REMOTE_SNAP, (uint64_t[]){process, hold});
        if (error == -EACCES) error = 0;
    }
    return error ? error : wait_all(s);
}

static int still_all(struct several *s, uint64_t at)
{
    int error = 0;
    for (struct part *p = s->part; p < s->part + s->count && !error; p++)
        if (p->name) error = ask(p, REMOTE_STILL, (uint64_t[]){p->name, at});
    return error ? error : wait_all(s);
}

/* One round: 0: there is a point; -EAGAIN: they did not stand still; or another -errno. */
static int try(struct job *j, bool hold, struct several *s)
{
    static const struct timespec moment = {.tv_nsec = 1000000};
    uint64_t at = 0;
    *s = j->homes;
    int error = snap_all(s, j->process, hold);
    if (!error) {
        s->handle = -ETIMEDOUT;
        for (int i = 0; i < BEGIN_TRIES && s->handle == -ETIMEDOUT; i++) {
            if (i) nanosleep(&moment, NULL);
            remote_lock();
            s->handle = snapshot_point(&at);
            remote_unlock();
        }
        error = s->handle < 0 ? s->handle : still_all(s, at);
    }
    if (!error) return 0;
    if (s->handle > 0) kd_call3(KD_HANDLE_CLOSE, s->handle, 0, 0);
    drop(s);
    return error;
}

/* Before round i, from 0 on. */
static void rest(unsigned i)
{
    unsigned ms = i > PATIENCE ? REST_MS << 2 * (i - PATIENCE - 1) : 0;
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    if (ms) nanosleep(&time, NULL);
}

static void begin(struct job *j)
{
    struct several *s = points;
    struct kd_message reply = {.handle = -1, .status = -EAGAIN};
    while (s < points + POINTS_MAX && s->handle) s++;
    for (unsigned i = 0; s < points + POINTS_MAX && i < ROUNDS && reply.status == -EAGAIN; i++) {
        rest(i);
        reply.status = try(j, i >= PATIENCE, s);
        __atomic_add_fetch(&rounds, 1, __ATOMIC_RELAXED);
    }
    if (reply.status == 0) {
        reply.handle = s->handle;
        reply.handle_rights = KD_RIGHT_READ;
        __atomic_add_fetch(&given, 1, __ATOMIC_RELAXED);
    } else {
        if (s < points + POINTS_MAX) s->handle = 0;
        __atomic_add_fetch(&refused, 1, __ATOMIC_RELAXED);
        if (reply.status == -ENOENT || reply.status == -ETIMEDOUT || reply.status == -EOWNERDEAD)
            reply.status = -EAGAIN;     /* one of the homes is away */
    }
    kd_call3(KD_PORT_REPLY, (long)j->token, (long)&reply, 0);
}

/* Those end whose point nobody sees any more, and one part that should have ended. How many are
 * left. */
static unsigned look(void)
{
    static unsigned turn;       /* one that does not answer holds up no other */
    unsigned n = 0, at = late_count ? turn++ % late_count : 0;
    if (late_count && part_drop(&late[at])) late[at] = late[--late_count];
    for (struct several *s = points; s < points + POINTS_MAX; s++) {
        if (!s->handle) continue;
        if (kd_call3(KD_SNAPSHOT_SHARE, s->handle + 1, 0, 0) > 0) {
            n++;
            continue;
        }
        kd_call3(KD_HANDLE_CLOSE, s->handle, 0, 0);
        drop(s);
        s->handle = 0;
    }
    return n + late_count;
}

void *several_work(void *site)
{
    static const struct timespec moment = {.tv_nsec = LOOK_MS * 1000000};
    snprintf(own, sizeof own, "%s/store", (const char *)site);
    for (;;) {
        unsigned there = look();
        pthread_mutex_lock(&lock);
        while (!job_count && !there) pthread_cond_wait(&due, &lock);
        struct job *j = job_count ? &jobs[first_job] : NULL;
        pthread_mutex_unlock(&lock);
        if (!j) {
            nanosleep(&moment, NULL);
            continue;
        }
        begin(j);
        pthread_mutex_lock(&lock);
        first_job = (first_job + 1) % JOBS_MAX;
        job_count--;
        pthread_mutex_unlock(&lock);
    }
    return site;
}

void several_counted(uint64_t word[3])
{
    word[0] = __atomic_load_n(&rounds, __ATOMIC_RELAXED);
    word[1] = __atomic_load_n(&refused, __ATOMIC_RELAXED);
    word[2] = __atomic_load_n(&given, __ATOMIC_RELAXED);
}
