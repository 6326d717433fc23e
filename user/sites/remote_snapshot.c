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
 * next SNAP, and LOOK_MS after it was seen last. Of one of several stores this is a part, and
 * another home's manager, or this one, leads (remote_several.c): it asks when that is, and a part
 * ends with it.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "katydid/call.h"
#include "remote.h"

enum { SNAPSHOTS_MAX = 8, LOOK_MS = 20 };

/* name: SNAP's number, 0: free. handle: of the point here, at which `at` is the number; 0: the home
 * has not answered yet: `token` waits for it, if it is not 0. */
static struct snapshot {
    uint64_t name, at, token;
    int handle;
    /* of a part: who leads, and his port's name; the number of what the home has not answered yet,
     * 0: it has, with this error; nobody wants it any more */
    uint64_t leader, asks;
    char leads[STORE_NAME_BYTES];
    int error;
    bool over;
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
        kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
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

int snapshot_point(uint64_t *at)
{
    tick();
    long begun = local_begin();
    long handle = begun < 0 ? begun : kd_call3(KD_SNAPSHOT_SHARE, 0, 0, 0);
    if (begun >= 0) local_end();
    tick();
    *at = (uint64_t)begun;
    return (int)handle;
}

/* ---- end ---- */

static void end(struct snapshot *s)
{
    if (s->handle > 0) kd_call3(KD_HANDLE_CLOSE, s->handle, 0, 0);
    remote_send(&(struct site_message){.kind = SITE_SNAP_END, .serial = s->name});
    *s = (struct snapshot){0};
}

/* A part ends; one that the home has not begun yet when it has. */
static void part_end(struct snapshot *s)
{
    s->over = true;
    if (s->token) told(s->token, -ECANCELED, -1);
    s->token = 0;
    if (s->asks != s->name) end(s);
}

/* Does who leads run still? */
static bool led(const struct snapshot *s)
{
    long port = kd_call3(KD_NAME_FIND, (long)s->leads, 0, 0);
    long owner = port < 0 ? -1 : kd_call3(KD_PORT_OWNER, port, 0, 0);
    if (port >= 0) kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    return owner > 0 && (uint64_t)owner == s->leader;
}

/* Those end whose point nobody sees. How many there are. */
static unsigned look(void)
{
    unsigned n = 0;
    snapshots_each(s)
    {
        if (s->handle > 0 && kd_call3(KD_SNAPSHOT_SHARE, s->handle + 1, 0, 0) <= 0) end(s);
        if (s->leader && !s->over && !led(s)) part_end(s);
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

static bool uses_home(uint64_t process)
{
    for (const struct opening *o = remote.openings; o < remote.openings + OPENINGS_MAX; o++)
        if (o->times && o->process == process) return true;
    return false;
}

static struct snapshot *snapshot_new(bool hold)
{
    struct snapshot *s = snapshots;
    if (look() == SNAPSHOTS_MAX) return NULL;
    while (s->name) s++;
    *s = (struct snapshot){.name = ++remote.number};
    remote_send(&(struct site_message){.kind = SITE_SNAP, .number = s->name, .right = hold});
    return s;
}

/* Of the home alone; or of other stores, too. */
int snapshot_asked(const struct kd_message *m)
{
    if (!uses_home(m->process)) return -EACCES;
    if (m->word[0]) return several_asked(m);
    struct snapshot *s = snapshot_new(false);
    if (!s) return -EAGAIN;
    s->token = m->token;
    return 1;
}

static void looks_more(void)
{
    pthread_mutex_lock(&look_lock);
    looks++;
    pthread_cond_signal(&look_due);
    pthread_mutex_unlock(&look_lock);
}

/* The home has answered a part. */
static void part_told(struct snapshot *s, int error)
{
    s->asks = 0;
    s->error = -error;
    if (s->over) {
        end(s);
    } else if (s->token) {
        told(s->token, s->error, -1);
        s->token = 0;
    }
}

/* Here is the point of what is cached. */
void snapshot_begun(const struct site_message *m)
{
    struct snapshot *s = snapshots;
    while (s < snapshots + SNAPSHOTS_MAX &&
           (s->name != m->answer_to || (s->leader ? s->asks != s->name : s->handle != 0)))
        s++;
    if (!m->answer_to || s == snapshots + SNAPSHOTS_MAX) remote_ends("a SNAPPED of no SNAP");
    if (s->leader) {
        part_told(s, m->error);
        return;
    }
    int handle = m->error ? -m->error : snapshot_point(&s->at);
    told(s->token, handle < 0 ? handle : 0, handle);
    s->token = 0;
    if (m->error) {
        *s = (struct snapshot){0};
    } else if (handle < 0) {
        end(s);
    } else {
        s->handle = handle;
        looks_more();
    }
}

void snapshot_stood(const struct site_message *m)
{
    snapshots_each(s)
        if (m->answer_to && s->leader && s->asks == m->answer_to && s->asks != s->name)
            part_told(s, m->error);
}

/* ---- parts ---- */

static int part_begin(struct kd_message *m)
{
    struct snapshot who = {.leader = m->process};
    if (m->buffer_bytes != sizeof who.leads) return -EINVAL;
    memcpy(who.leads, m->buffer, sizeof who.leads);
    if (!memchr(who.leads, 0, sizeof who.leads) || !strchr(who.leads, '/') || !led(&who))
        return -EPERM;
    if (!uses_home(m->word[0])) return -EACCES;
    struct snapshot *s = snapshot_new(m->word[1]);
    if (!s) return -EAGAIN;
    s->leader = who.leader;
    memcpy(s->leads, who.leads, sizeof s->leads);
    s->asks = m->word[0] = s->name;
    looks_more();
    return 0;
}

int snapshot_part(struct kd_message *m)
{
    struct snapshot *s = snapshots;
    if (m->kind == REMOTE_SNAP) return part_begin(m);
    while (s < snapshots + SNAPSHOTS_MAX &&
           !(s->name == m->word[0] && s->leader == m->process && s->name && !s->over))
        s++;
    if (s == snapshots + SNAPSHOTS_MAX) return -ENOENT;
    if (m->kind == REMOTE_DROP) {
        part_end(s);
    } else if (m->kind == REMOTE_WAIT) {
        if (!s->asks) return s->error;
        s->token = m->token;
        return 1;
    } else if (s->asks) {
        return -EBUSY;
    } else {
        s->at = m->word[1];
        s->asks = ++remote.number;
        remote_send(&(struct site_message){.kind = SITE_STILL, .number = s->asks,
                                           .serial = s->name});
    }
    return 0;
}

/* ---- pages ---- */

static const struct snapshot *snapshot_at(uint64_t at)
{
    snapshots_each(s) if ((s->handle > 0 || s->leader) && s->at == at && !s->over) return s;
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
    several_counted(word + 5);
}
