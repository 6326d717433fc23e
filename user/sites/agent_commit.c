/*
 * agent_commit.c - commits of the site: its runs of bytes are stored into the home's pages by a
 * transaction here, and committed with its batch, as anybody's.
 */
#include "agent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "site.h"
#include "turns.h"

/* One that waits for a thread has a copy of its frame and of what that says. */
struct commit {
    struct commit *next;
    const struct site_message *m;
    uint8_t *batch;                     /* in the frame, as the rest of m */
    size_t batch_bytes;                 /* without its id */
    struct convert_image *images;       /* pages as the site has them when it has committed */
    bool converts;                      /* one of its containers has types */
    uint64_t id;                        /* 0: none (agent_outcome.c) */
    unsigned thread, runs;
    size_t room;                        /* of frame */
    struct site_message said;
    _Alignas(8) uint8_t frame[];
};
enum { COMMITS_BYTES_MAX = 8 << 20, ROOM_LEAST = 8192, SPARES_MAX = COMMITTERS };
static struct commit *first, **last = &first, *spares;
static size_t waiting_bytes;            /* of those in the queue; more than the most run again */
static unsigned spare_count;

/* Memory for a frame: one of a commit before, if it is a small one, as most are. */
static struct commit *commit_new(size_t bytes)
{
    size_t room = bytes < ROOM_LEAST ? ROOM_LEAST : bytes;
    struct commit *c = room == ROOM_LEAST ? spares : NULL;
    if (c) {
        spares = c->next;
        spare_count--;
    } else {
        c = malloc(sizeof *c + room);
    }
    if (c) c->room = room;
    return c;
}

void commit_free(struct commit *c)
{
    if (c->room != ROOM_LEAST || spare_count == SPARES_MAX) {
        free(c);
        return;
    }
    c->next = spares;
    spares = c;
    spare_count++;
}

static struct site_message *answer_put(struct site_message *to, uint64_t number, int error)
{
    SITE_SHORT(to, error ? SITE_REFUSED : SITE_DONE);
    to->answer_to = number;
    to->error = error < 0 ? -error : error;
    return to;
}

static void answer(uint64_t number, int error)
{
    struct site_message m;
    agent_send(answer_put(&m, number, error));
}

/* Where the batch of a COMMIT lies in its frame. */
static void commit_begin(struct commit *c, const struct site_message *m, uint8_t *frame)
{
    c->m = m;
    c->batch = frame + ((const uint8_t *)m->data - frame);
    c->batch_bytes = m->bytes;
    c->images = NULL;
    c->converts = false;
    c->runs = 0;
    c->thread = COMMITTERS - 1;         /* unless one of the others takes it */
}

/* Where the same bytes lie in the copy of the frame. */
static const void *moved(const void *at, const uint8_t *frame, const struct commit *c)
{
    return at ? c->frame + ((const uint8_t *)at - frame) : NULL;
}

void commit_do(const struct site_message *m, const uint8_t *frame, size_t bytes)
{
    agent_lock();
    bool room = waiting_bytes + (bytes < ROOM_LEAST ? ROOM_LEAST : bytes) <= COMMITS_BYTES_MAX;
    struct commit *c = room ? commit_new(bytes) : NULL;
    if (c) {
        memcpy(c->frame, frame, bytes);
        c->said = *m;
        c->said.data = moved(m->data, frame, c);
        c->said.runs = moved(m->runs, frame, c);
        commit_begin(c, &c->said, c->frame);
        c->next = NULL;
        if (!parts_commit(c)) {
            *last = c;
            last = &c->next;
            waiting_bytes += c->room;
            agent_changed(AGENT_COMMITS);
        }
    } else {
        answer(m->number, room ? -ENOMEM : -EDEADLK);
    }
    agent_unlock();
}

/* ---- the pages of a commit ---- */

/* Each page once, as its runs follow each other. False: that was the last one. */
static bool page_next(struct fields_in *i, uint64_t *page, uint64_t *serial)
{
    struct site_run r;
    uint64_t before = *page;
    do
        if (!run_next(i, &r)) return false;
    while (r.page == before);
    *page = r.page;
    *serial = r.serial;
    return true;
}

/* So many of its pages are let go; CALLs that were put off are due. */
static void pages_let(const struct commit *c, unsigned held)
{
    struct fields_in i = message_runs(c->m);
    uint64_t page = 0, serial;
    for (; held > 0 && page_next(&i, &page, &serial); held--) {
        struct site_page *p = pages_find(&agent.pages, page);
        container_let(container_at(page));
        page_call(p, home_committed(p));
    }
}

/* Has the site the pages still? Then they are held; how many; -errno. */
static int pages_hold(struct commit *c, unsigned *held)
{
    struct fields_in i = message_runs(c->m);
    uint64_t page = 0, serial;
    for (*held = 0; page_next(&i, &page, &serial); ++*held) {
        struct site_page *p = pages_find(&agent.pages, page);
        struct container *k = container_at(page);
        if (!p || !k || !k->writes || !home_commits(p, serial)) return -EACCES;
        k->busy++;
        c->converts |= k->types != NULL;
    }
    return 0;
}

static int store(void *commit)
{
    struct commit *c = commit;
    if (c->runs++ && parts_of(c->batch, c->batch_bytes) == WIRE_VOTE)
        return -EDEADLK;                /* its vote was refused: the next one has another id */
    int error = c->batch_bytes ? ps_site_batch(c->batch, c->batch_bytes) : 0;
    if (!error) error = outcome_note(c->thread, c->id);
    return error ? error : convert_store(c->m, c->converts, &c->images);
}

void commit_run(struct commit *c, void (*tell)(struct commit *c, int error))
{
    uint32_t lazy = c->m->request;
    struct ps_options options = {.lazy = lazy != 0 && lazy != STORE_BULK,
                                 .lazy_ms = lazy < STORE_BULK ? lazy : 0};
    unsigned held = 0;
    int error = outcome_take(c->batch, &c->batch_bytes, &c->id);
    if (c->id && parts_of(c->batch, c->batch_bytes) == WIRE_VOTE) error = -EINVAL; /* has no ring */
    if (!error) error = pages_hold(c, &held);
    if (!error) {
        agent_unlock();
        error = ps_site_transaction(store, c, agent.holder, 0, options);
        agent_lock();
    }
    if (error == -EOWNERDEAD) agent_ends("the store has ended under a commit");
    convert_stored(&c->images, !error);
    if (!error) outcome_noted(c->thread, c->id);
    if (!error) page_site_commits();
    tell(c, error);
    pages_let(c, held);
}

uint64_t commit_number(const struct commit *c) { return c->m->number; }

const uint8_t *commit_batch(const struct commit *c, size_t *bytes)
{
    *bytes = c->batch_bytes;
    return c->batch;
}

/* Who was asked for the decision before it came has said "undone": the site tries again. */
static int told(int error) { return error == -EALREADY ? -EDEADLK : error; }

static void committed(struct commit *c, int error) { answer(c->m->number, told(error)); }

static void committed_here(struct commit *c, int error)
{
    struct site_message m;
    agent_send_later(message_put(answer_put(&m, c->m->number, told(error)), agent_room(),
                                 AGENT_ROOM));
}

/* The first, or while a snapshot waits the first that decides: others' votes wait for that. NULL:
 * there is none. */
static struct commit *commit_take(void)
{
    struct commit **at = &first;
    while (*at && snapshot_waits() &&
           parts_of((*at)->batch, (*at)->batch_bytes) != WIRE_DECISION)
        at = &(*at)->next;
    struct commit *c = *at;
    if (!c) return NULL;
    *at = c->next;
    if (last == &c->next) last = at;
    waiting_bytes -= c->room;
    return c;
}

static void commit_carry_out(struct commit *c, void (*tell)(struct commit *c, int error))
{
    agent.committing++;
    commit_run(c, tell);
    agent.committing--;
}

void *commit_work(void *unused)
{
    static unsigned threads;
    agent_lock();
    const unsigned thread = threads++;
    for (;;) {
        struct commit *c = commit_take();
        if (!c) {
            agent_wait(AGENT_COMMITS);
            continue;
        }
        c->thread = thread;
        commit_carry_out(c, committed);
        commit_free(c);
    }
    return unused;
}

bool commit_here(const struct site_message *m, uint8_t *frame)
{
    static struct commit c;
    agent_lock();
    bool here = !first && !snapshot_waits() && !parts_of(m->data, m->bytes);
    if (here) {
        turn_ends();                    /* what comes next is heard when its pages are held */
        commit_begin(&c, m, frame);
        commit_carry_out(&c, committed_here);
    }
    agent_unlock();
    return here;
}
