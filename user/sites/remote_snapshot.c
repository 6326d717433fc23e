/*
 * remote_snapshot.c - snapshots: a state of the home, and of what is cached here, for programs of
 * this site (remote.md).
 *
 * SV3  When SNAPPED comes a snapshot of this kernel begins, before anything else that the home says
 *      is acted upon: what is cached then is as the home's snapshot has it. Its number is no other
 *      snapshot's of this machine that begins before or after it.
 * SV4  What is not cached comes by GET_OLD, for the snapshots of that number alone; what comes by
 *      GRANT is newer than all of them.
 *
 * A snapshot ends at the home when nobody here sees its point any more: that is looked for at the
 * next SNAP, and LOOK_MS after it was seen last.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "katydid/call.h"
#include "remote.h"

enum { SNAPSHOTS_MAX = 8, LOOK_MS = 20, ROUNDS = 3 };

/* name: SNAP's number, 0: free. handle: of the point here, at which `at` is the number; 0: the home
 * has not answered yet: `token` waits for it. */
static struct snapshot {
    uint64_t name, at, token;
    int handle;
    bool others;                        /* the program has other stores, too */
    unsigned rounds;
    uint64_t seen, steps;               /* this kernel's publications before SNAP; own ones */
} snapshots[SNAPSHOTS_MAX];

/* What views wait for: the answer to GET_OLD `number`; 0: a GRANT, after which they begin anew. */
static struct wait { uint64_t page, name, number; uint32_t question; } waits[KD_VIEW_MAX];
static bool grants_awaited;             /* some of them wait for a GRANT, or did */

static pthread_mutex_t look_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t look_due = PTHREAD_COND_INITIALIZER;
static unsigned looks;                  /* snapshots that are there, as look_lock has it */

#define snapshots_each(s) \
    for (struct snapshot *s = snapshots; s < snapshots + SNAPSHOTS_MAX; s++)

static void told(uint64_t token, int status, int handle)
{
    struct kd_message reply = {.handle = handle, .handle_rights = handle < 0 ? 0 : KD_RIGHT_READ,
                               .status = status};
    kd_call3(KD_PORT_REPLY, (long)token, (long)&reply, 0);
}

/* ---- this kernel's numbers ---- */

/* The time goes on, so no snapshot has this number that has begun, or that begins from now on. */
static void tick(void)
{
    struct kd_supply s = {.source = KD_SUPPLY_MEMORY | KD_SUPPLY_NEWER};
    for (struct container *c = remote.containers; c < remote.containers + CONTAINERS_MAX; c++) {
        if (!c->id || !c->segments) continue;
        s.object = c->segment[0].object;
        if (kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0) == 0) remote.steps++;
        return;
    }
}

/* A snapshot of this kernel's, in a view of the calling thread's; its number, or -errno. */
static long local_begin(void)
{
    static __thread int view;
    static struct { uint64_t word[512]; } stack; /* is not used: it touches nothing */
    struct kd_begin begin = {.mode = KD_SNAPSHOT, .entry = (uintptr_t)local_begin, .timeout_ms = 1,
                             .stack = (uintptr_t)(&stack + 1)};
    if (!view) view = (int)kd_call3(KD_VIEW_CREATE, 0, 0, 0) + 1;
    long r = view <= 0 ? view - 1 : kd_call3(KD_VIEW_ENTER, view - 1, 0, 0);
    if (r == 0) r = kd_call3(KD_TXN_BEGIN, (long)&begin, 0, 0);
    return r ? r : (long)begin.csn;
}

static void local_end(void) { kd_call3(KD_TXN_ABORT, ECANCELED, 0, 0); }

/* ---- end ---- */

static void end(struct snapshot *s)
{
    if (s->handle > 0) kd_call3(KD_HANDLE_CLOSE, s->handle, 0, 0);
    remote_send(&(struct site_message){.kind = SITE_SNAP_END, .serial = s->name});
    *s = (struct snapshot){0};
}

/* Those end whose point nobody sees. How many there are. */
static unsigned look(void)
{
    unsigned n = 0;
    snapshots_each(s)
    {
        if (s->handle > 0 && kd_call3(KD_SNAPSHOT_SHARE, s->handle + 1, 0, 0) <= 0) end(s);
        n += s->name != 0;
    }
    return n;
}

void *snapshots_look(void *unused)
{
    static const struct timespec moment = {.tv_nsec = LOOK_MS * 1000000};
    for (;;) {
        pthread_mutex_lock(&look_lock);
        while (!looks) pthread_cond_wait(&look_due, &look_lock);
        pthread_mutex_unlock(&look_lock);
        nanosleep(&moment, NULL);
        remote_lock();
        unsigned n = look();
        pthread_mutex_lock(&look_lock);
        looks = n;
        pthread_mutex_unlock(&look_lock);
        remote_unlock();
    }
    return unused;
}

/* ---- begin ---- */

/* Asks the home. What other stores have shown meanwhile is to be found out then. */
static int ask(struct snapshot *s)
{
    long seen = s->others ? local_begin() : 0;
    if (seen < 0) return (int)seen;
    if (s->others) local_end();
    s->seen = (uint64_t)seen;
    s->steps = remote.steps;
    s->name = ++remote.number;
    remote_send(&(struct site_message){.kind = SITE_SNAP, .number = s->name});
    return 0;
}

static bool uses_home(uint64_t process)
{
    for (const struct opening *o = remote.openings; o < remote.openings + OPENINGS_MAX; o++)
        if (o->times && o->process == process) return true;
    return false;
}

int snapshot_asked(const struct kd_message *m)
{
    if (!uses_home(m->process)) return -EACCES;
    if (look() == SNAPSHOTS_MAX) return -EAGAIN;
    struct snapshot *s = snapshots;
    while (s->name) s++;
    *s = (struct snapshot){.token = m->token, .others = m->word[0] != 0};
    int error = ask(s);
    if (error) *s = (struct snapshot){0};
    return error ? error : 1;
}

static void refuse(struct snapshot *s, int error)
{
    told(s->token, error, -1);
    end(s);
}

/* Here is the point of what is cached. Did all else stand still since SNAP went? Then that is one
 * state, too, of this moment and of the home's; else it is tried again. */
void snapshot_begun(const struct site_message *m)
{
    struct snapshot *s = snapshots;
    while (s < snapshots + SNAPSHOTS_MAX && (s->name != m->answer_to || s->handle)) s++;
    if (!m->answer_to || s == snapshots + SNAPSHOTS_MAX) remote_ends("a SNAPPED of no SNAP");
    if (m->error) {
        told(s->token, -m->error, -1);
        *s = (struct snapshot){0};
        return;
    }
    tick();
    long at = local_begin();
    long handle = at < 0 ? at : kd_call3(KD_SNAPSHOT_SHARE, 0, 0, 0);
    if (at >= 0) local_end();
    bool same = at >= 0 && (!s->others || (uint64_t)at - s->seen == remote.steps - s->steps);
    tick();
    if (handle < 0) {
        refuse(s, (int)handle);
    } else if (same) {
        s->at = (uint64_t)at;
        s->handle = (int)handle;
        told(s->token, 0, s->handle);
        pthread_mutex_lock(&look_lock);
        looks++;
        pthread_cond_signal(&look_due);
        pthread_mutex_unlock(&look_lock);
    } else {
        struct snapshot again = {.token = s->token, .others = true, .rounds = s->rounds + 1};
        s->handle = (int)handle;
        end(s);
        *s = again;
        int error = s->rounds == ROUNDS ? -EAGAIN : ask(s);
        if (!error) return;
        told(s->token, error, -1);
        *s = (struct snapshot){0};
    }
}

/* ---- pages ---- */

static const struct snapshot *snapshot_at(uint64_t at)
{
    snapshots_each(s) if (s->handle > 0 && s->at == at) return s;
    return NULL;
}

static void answer(struct wait *w, int error)
{
    struct segment *s;
    if (container_at(w->page, &s))
        kd_call6(KD_OBJECT_FAIL, s->object, (long)((w->page - s->base) / KD_PAGE_BYTES), 1, error,
                 w->question, 0);
    *w = (struct wait){0};
}

/* Of a snapshot that has no part at the home: it sees what was cached. The page is brought for the
 * next one. */
void snapshot_page_asked(uint64_t page, const struct kd_message *m)
{
    if (m->word[4] - 1 >= KD_VIEW_MAX) return;
    struct wait *w = &waits[m->word[4] - 1];
    const struct snapshot *s = snapshot_at(m->word[7]);
    *w = (struct wait){.page = page, .question = (uint32_t)m->word[6]};
    if (!s) {
        grants_awaited = true;
        if (!page_bring(page)) answer(w, ESTALE);
        return;
    }
    w->name = s->name;
    w->number = ++remote.number;
    remote_send(&(struct site_message){.kind = SITE_GET_OLD, .number = w->number, .page = page,
                                       .serial = s->name});
}

void snapshot_page_came(uint64_t page)
{
    bool more = false;
    if (!grants_awaited) return;
    for (struct wait *w = waits; w < waits + KD_VIEW_MAX; w++) {
        if (w->page == page && !w->number) answer(w, ESTALE);
        more |= w->page && !w->number;
    }
    grants_awaited = more;
}

void snapshot_page_told(const struct site_message *m)
{
    struct segment *s;
    struct wait *w = waits;
    while (w < waits + KD_VIEW_MAX && (w->number != m->answer_to || w->page != m->page)) w++;
    if (!m->answer_to || w == waits + KD_VIEW_MAX || !container_at(m->page, &s)) return;
    const struct snapshot *of = snapshots;
    while (of < snapshots + SNAPSHOTS_MAX && of->name != w->name) of++;
    int error = of == snapshots + SNAPSHOTS_MAX ? ESTALE : m->error;
    if (!error) {
        struct kd_supply supply = {.object = s->object, .csn = of->at, .count = 1,
                                   .source = KD_SUPPLY_MEMORY | KD_SUPPLY_OLD,
                                   .number = w->question, .memory = m->data,
                                   .page = (m->page - s->base) / KD_PAGE_BYTES};
        long r = kd_call3(KD_OBJECT_SUPPLY, (long)&supply, 0, 0);
        error = r == 0 || r == -ESRCH ? 0 : (int)-r;
    }
    if (error)
        answer(w, error);
    else
        *w = (struct wait){0};
}

void snapshots_counted(uint64_t word[SITE_WORDS])
{
    const uint64_t *n = remote.counts;
    const uint64_t told[] = {n[SITE_SNAP], n[SITE_SNAP_END], n[SITE_GET_OLD], n[SITE_OLD]};
    memcpy(word, told, sizeof told);
    snapshots_each(s) word[4] += s->name != 0;
}
