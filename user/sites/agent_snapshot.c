/*
 * agent_snapshot.c - snapshots that the site has of this home: when they begin, and pages as they
 * see them (remote.md).
 *
 * SV1  One begins while no commit of the site is between its begin and its answer; as long as it
 *      waits for that, none is taken but one that decides. So what SNAPPED follows in the stream is
 *      what it sees.
 * SV2  It begins and is answered in one section of the lock: no GRANT comes between, so a page that
 *      the site was granted before SNAPPED is not younger than the snapshot.
 * SV5  Nothing is prepared in the store then: what was decided elsewhere, and others know of, is in
 *      it. Nothing was shown from before that was asked until it has begun, so nothing that follows
 *      from a decision since.
 * SV6  STOOD says that nothing was shown here, and nothing voted for, from the snapshot's begin
 *      until STILL came.
 * SV7  A snapshot that is to hold begins when the store's commits stand still, and they do so until
 *      STOOD, or the snapshot's end; or for as long as the store lets them (user/store/hold.c).
 *
 * It waits for all that for a second, and is refused then. One that holds is refused at once while
 * commits are not to be put off again: other homes that hold for it should not do so in vain.
 */
#include "agent.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "katydid/call.h"
#include "pstore.h"

enum { PATIENCE_MS = 1000, PAUSE_MS = 1 };

/* A snapshot of this home. name: SNAP's number, 0: free; shared: of ps_snapshot_share. */
static struct snapshot {
    uint64_t name;
    int shared;
    unsigned readers;
    bool over;
    uint64_t shown;                     /* this kernel's publications when it began */
    uint64_t hold;                      /* number of the store's hold for it; 0: none */
    uint64_t still;                     /* number of the STILL that is to be answered; 0: none */
} snapshots[SNAPSHOTS_MAX];
static struct { struct { uint64_t name; bool holds; } snap[SNAPSHOTS_MAX]; unsigned count; }
    asked;                              /* that are to begin */
static struct { struct site_message get[JOBS_MAX]; unsigned first, count; } reads;

bool snapshot_waits(void) { return asked.count > 0; }

static struct snapshot *snapshot_of(uint64_t name)
{
    for (struct snapshot *s = snapshots; s < snapshots + SNAPSHOTS_MAX; s++)
        if (s->name == name && !s->over) return s;
    return NULL;
}

static void snapped(uint64_t name, int error)
{
    agent_send(&(struct site_message){.kind = SITE_SNAPPED, .answer_to = name,
                                      .error = error < 0 ? -error : error});
}

/* ---- begin ---- */

void snapshot_asked(const struct site_message *m)
{
    agent_lock();
    unsigned there = asked.count;
    for (unsigned i = 0; i < SNAPSHOTS_MAX; i++) there += snapshots[i].name != 0;
    if (m->number == 0 || snapshot_of(m->number)) agent_ends("the site asks twice for a snapshot");
    if (there >= SNAPSHOTS_MAX) {
        snapped(m->number, EAGAIN);
    } else {
        asked.snap[asked.count].name = m->number;
        asked.snap[asked.count++].holds = m->right;
        agent_changed(AGENT_SNAPS);
    }
    agent_unlock();
}

/* What ps_snapshot_share says of a snapshot that begins now; -errno. It waits for other stores of
 * this machine for a moment only (parts.md). */
static int share(void)
{
    int error = ps_begin(&(struct ps_options){.isolation = PS_SNAPSHOT, .timeout_ms = 1});
    if (error) return error;
    int shared = ps_snapshot_share();
    ps_rollback();
    return shared;
}

static uint64_t published(void)
{
    struct kd_system_info now;
    return kd_call3(KD_SYSTEM_INFO, (long)&now, 0, 0) ? 0 : now.publications;
}

/* The same, or -ETIMEDOUT: not yet (SV1, SV5). Locked, but not while the store is asked. */
static int share_clear(struct snapshot *s)
{
    s->shown = published();
    agent_unlock();
    bool none = parts_none();
    agent_lock();
    if (!none || agent.committing) return -ETIMEDOUT;
    int shared = share();
    if (shared <= 0 || published() == s->shown) return shared;
    ps_snapshot_drop(shared);
    return -ETIMEDOUT;
}

/* The same of one that holds: its site's commits are over before, so none is put off. */
static int share_held(struct snapshot *s)
{
    s->shown = ~0ull; /* once its hold has ended nobody knows */
    if (agent.committing) return -ETIMEDOUT;
    agent_unlock();
    int error = parts_hold(&s->hold);
    agent_lock();
    if (error) return error == -EAGAIN && s->hold ? -ETIMEDOUT : error;
    return agent.committing ? -ETIMEDOUT : share();
}

/* Locked, not so while the store is told. 0: its commits stood still until now. */
static int let_go(struct snapshot *s)
{
    uint64_t hold = s->hold;
    s->hold = 0;
    agent_unlock();
    int error = parts_hold_end(hold);
    agent_lock();
    return error;
}

/* The first that was asked for. */
static void begin(void)
{
    static const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000};
    struct snapshot new = {.name = asked.snap[0].name};
    int (*try)(struct snapshot *s) = asked.snap[0].holds ? share_held : share_clear;
    new.shared = try(&new);
    for (int ms = 0; new.shared == -ETIMEDOUT && ms < PATIENCE_MS; ms += PAUSE_MS) {
        agent_unlock();
        nanosleep(&pause, NULL);
        agent_lock();
        new.shared = try(&new);
    }
    if (new.shared > 0) *snapshot_of(0) = new;
    snapped(new.name, new.shared > 0 ? 0 : new.shared == -ETIMEDOUT ? EAGAIN : new.shared);
    memmove(asked.snap, asked.snap + 1, --asked.count * sizeof asked.snap[0]);
    if (new.shared <= 0 && new.hold) (void)let_go(&new);
}

/* ---- end ---- */

static void stood(uint64_t number, int error)
{
    agent_send(&(struct site_message){.kind = SITE_STOOD, .answer_to = number, .error = error});
}

static void end(struct snapshot *s)
{
    s->over = true;
    if (s->hold) agent_changed(AGENT_SNAPS);
    if (s->readers || s->hold) return;
    if (s->still) stood(s->still, ENOENT);
    ps_snapshot_drop(s->shared);
    *s = (struct snapshot){0};
}

void snapshot_over(const struct site_message *m)
{
    agent_lock();
    struct snapshot *s = m->serial ? snapshot_of(m->serial) : NULL;
    if (s) end(s);
    agent_unlock();
}

/* ---- did it stand still? ---- */

void snapshot_still(const struct site_message *m)
{
    agent_lock();
    struct snapshot *s = m->serial ? snapshot_of(m->serial) : NULL;
    if (!m->number || (s && s->still)) agent_ends("the site asks twice whether nothing was shown");
    if (s) {
        s->still = m->number;
        agent_changed(AGENT_SNAPS);
    } else {
        stood(m->number, ENOENT);
    }
    agent_unlock();
}

/* One of which STILL has come, or that is over and holds. */
static struct snapshot *still_due(void)
{
    for (struct snapshot *s = snapshots; s < snapshots + SNAPSHOTS_MAX; s++)
        if (s->name && (s->still || (s->over && s->hold))) return s;
    return NULL;
}

/* What was voted for is looked for first: it is shown later. Locked, not so meanwhile. */
static bool nothing_shown(const struct snapshot *s)
{
    agent_unlock();
    bool none = parts_none();
    agent_lock();
    return none && published() == s->shown;
}

static void still(struct snapshot *s)
{
    s->readers++;
    bool same = s->hold ? let_go(s) == 0 : nothing_shown(s);
    s->readers--;
    if (s->still) stood(s->still, same ? 0 : EAGAIN);
    s->still = 0;
    if (s->over) end(s);
}

void *snapshot_work(void *unused)
{
    agent_lock();
    for (;;) {
        struct snapshot *s;
        while (!(s = still_due()) && !asked.count) agent_wait(AGENT_SNAPS);
        if (s) {
            still(s);
            continue;
        }
        begin();
        for (int i = 0; i < COMMITTERS; i++) agent_changed(AGENT_COMMITS);
    }
    return unused;
}

/* ---- pages ---- */

void snapshot_read(const struct site_message *m)
{
    struct site_message old = {.kind = SITE_OLD, .answer_to = m->number, .page = m->page};
    agent_lock();
    struct container *c = container_at(m->page);
    old.error = !c ? EACCES : reads.count == JOBS_MAX ? EAGAIN : 0;
    if (old.error) {
        agent_send(&old);
    } else {
        c->busy++;
        reads.get[(reads.first + reads.count++) % JOBS_MAX] = *m;
        agent_changed(AGENT_OLDS);
    }
    agent_unlock();
}

struct page { uint64_t at; uint8_t contents[SITE_PAGE_BYTES]; };
static int copy(void *page)
{
    struct page *p = page;
    memcpy(p->contents, (const void *)p->at, SITE_PAGE_BYTES);
    return convert_page(p->at, p->contents);
}

/* Locked, but not while it reads: the snapshot stays meanwhile. */
static void answer(const struct site_message *get)
{
    struct page page = {.at = get->page};
    struct site_message old = {.kind = SITE_OLD, .answer_to = get->number, .page = get->page,
                               .data = page.contents};
    struct snapshot *s = get->serial ? snapshot_of(get->serial) : NULL;
    int error = s ? 0 : -ESTALE;
    if (s) {
        struct ps_options how = {.isolation = PS_SNAPSHOT, .snapshot = s->shared};
        s->readers++;
        agent_unlock();
        error = ps_transaction_opt(copy, &page, &how);
        agent_lock();
        s->readers--;
        if (s->over) end(s);
    }
    old.error = error < 0 ? -error : error;
    agent_send(&old);
}

void *snapshot_read_work(void *unused)
{
    agent_lock();
    for (;;) {
        while (!reads.count) agent_wait(AGENT_OLDS);
        struct site_message get = reads.get[reads.first];
        reads.first = (reads.first + 1) % JOBS_MAX;
        reads.count--;
        answer(&get);
        container_let(container_at(get.page));
    }
    return unused;
}
