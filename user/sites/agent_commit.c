/*
 * agent_commit.c - commits of the site: its runs of bytes are stored into the home's pages by a
 * transaction here, and committed with its batch, as anybody's.
 */
#include "agent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "site.h"

/* The frame is kept as it came, and m points into it. */
struct commit {
    struct commit *next;
    struct site_message m;
    struct convert_image *images;       /* pages as the site has them when it has committed */
    size_t batch_bytes;                 /* without its id */
    uint64_t id;                        /* 0: none (agent_outcome.c) */
    unsigned thread, runs;
    size_t room;                        /* of frame */
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

static void answer(uint64_t number, int error)
{
    agent_send(&(struct site_message){.kind = error ? SITE_REFUSED : SITE_DONE,
                                      .answer_to = number, .error = error < 0 ? -error : error});
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
        c->m = *m;
        c->m.data = moved(m->data, frame, c);
        c->m.runs = moved(m->runs, frame, c);
        c->images = NULL;
        c->runs = 0;
        c->next = NULL;
        c->batch_bytes = m->bytes;
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
    struct fields_in i = message_runs(&c->m);
    uint64_t page = 0, serial;
    for (; held > 0 && page_next(&i, &page, &serial); held--) {
        struct site_page *p = pages_find(&agent.pages, page);
        container_let(container_at(page));
        page_call(p, home_committed(p));
    }
}

/* Has the site the pages still? Then they are held; how many; -errno. */
static int pages_hold(const struct commit *c, unsigned *held)
{
    struct fields_in i = message_runs(&c->m);
    uint64_t page = 0, serial;
    for (*held = 0; page_next(&i, &page, &serial); ++*held) {
        struct site_page *p = pages_find(&agent.pages, page);
        struct container *k = container_at(page);
        if (!p || !k || !k->writes || !home_commits(p, serial)) return -EACCES;
        k->busy++;
    }
    return 0;
}

static int store(void *commit)
{
    struct commit *c = commit;
    if (c->runs++ && parts_of(c->m.data, c->batch_bytes) == WIRE_VOTE)
        return -EDEADLK;                /* its vote was refused: the next one has another id */
    int error = c->batch_bytes ? ps_site_batch(c->m.data, c->batch_bytes) : 0;
    if (!error) error = outcome_note(c->thread, c->id);
    return error ? error : convert_store(&c->m, &c->images);
}

void commit_run(struct commit *c, void (*tell)(struct commit *c, int error))
{
    struct ps_options options = {.lazy = c->m.request != 0 && c->m.request != STORE_BULK,
                                 .lazy_ms = c->m.request < STORE_BULK ? c->m.request : 0};
    unsigned held = 0;
    uint8_t *batch = c->frame + ((const uint8_t *)c->m.data - c->frame);
    int error = outcome_take(batch, &c->batch_bytes, &c->id);
    if (c->id && parts_of(batch, c->batch_bytes) == WIRE_VOTE) error = -EINVAL; /* has no ring */
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

uint64_t commit_number(const struct commit *c) { return c->m.number; }

const uint8_t *commit_batch(const struct commit *c, size_t *bytes)
{
    *bytes = c->batch_bytes;
    return c->m.data;
}

/* Who was asked for the decision before it came has said "undone": the site tries again. */
static void committed(struct commit *c, int error)
{
    answer(c->m.number, error == -EALREADY ? -EDEADLK : error);
}

/* The first, or while a snapshot waits the first that decides: others' votes wait for that. NULL:
 * there is none. */
static struct commit *commit_take(void)
{
    struct commit **at = &first;
    while (*at && snapshot_waits() &&
           parts_of((*at)->m.data, (*at)->batch_bytes) != WIRE_DECISION)
        at = &(*at)->next;
    struct commit *c = *at;
    if (!c) return NULL;
    *at = c->next;
    if (last == &c->next) last = at;
    waiting_bytes -= c->room;
    return c;
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
        agent.committing++;
        commit_run(c, committed);
        agent.committing--;
        commit_free(c);
    }
    return unused;
}
