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
 *
 * It waits for all that for a second, and is refused then.
 */
#include "agent.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "katydid/call.h"
#include "pstore.h"

enum { PATIENCE_MS = 1000, PAUSE_MS = 1 };

/* A snapshot of this home. name: SNAP's number, 0: free; shared: of ps_snapshot_share. */
static struct snapshot { uint64_t name; int shared; unsigned readers; bool over; }
    snapshots[SNAPSHOTS_MAX];
static struct { uint64_t name[SNAPSHOTS_MAX]; unsigned count; } asked; /* that are to begin */
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
        asked.name[asked.count++] = m->number;
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
static int share_clear(void)
{
    uint64_t before = published();
    agent_unlock();
    bool none = parts_none();
    agent_lock();
    if (!none || agent.committing) return -ETIMEDOUT;
    int shared = share();
    if (shared <= 0 || published() == before) return shared;
    ps_snapshot_drop(shared);
    return -ETIMEDOUT;
}

/* The first that was asked for. */
static void begin(void)
{
    static const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000};
    int shared = share_clear();
    for (int ms = 0; shared == -ETIMEDOUT && ms < PATIENCE_MS; ms += PAUSE_MS) {
        agent_unlock();
        nanosleep(&pause, NULL);
        agent_lock();
        shared = share_clear();
    }
    struct snapshot *s = snapshot_of(0);
    if (shared > 0) *s = (struct snapshot){.name = asked.name[0], .shared = shared};
    snapped(asked.name[0], shared > 0 ? 0 : shared == -ETIMEDOUT ? EAGAIN : shared);
    memmove(asked.name, asked.name + 1, --asked.count * sizeof asked.name[0]);
}

void *snapshot_work(void *unused)
{
    agent_lock();
    for (;;) {
        while (!asked.count) agent_wait(AGENT_SNAPS);
        begin();
        for (int i = 0; i < COMMITTERS; i++) agent_changed(AGENT_COMMITS);
    }
    return unused;
}

/* ---- end ---- */

static void end(struct snapshot *s)
{
    s->over = true;
    if (s->readers) return;
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
        container_at(get.page)->busy--;
        agent_changed(AGENT_BUSY);
    }
    return unused;
}
