/*
 * agent_outcome.c - what became of a commit whose site has lost the session before the answer: it
 * asks in the next one (remote.md).
 *
 * Each transaction that commits something for the site notes its id under a name of a container of
 * the home's, outcomes/SITE, in rings for each thread that commits. The note travels in the
 * commit's batch and lies in its record (WIRE_NOTE): no page is changed for it. So it is as durable
 * as the commit, a restart of the home finds it, and nothing has to be trimmed. The rings are in
 * memory, too, from the session's begin on.
 *
 * Invariants
 *   AO1  An agent answers for earlier sessions alone. Their agents have ended (SI5), so what they
 *        had not given to the store never commits. The store takes commits in the order in which
 *        they come, and its groups land in order (GL1): what they had given it has ended when the
 *        transaction has that begins this session. The notes are read behind that.
 */
#include "agent.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent_ring.h"
#include "site.h"

struct outcomes { uint64_t session; };
static ps_container *container;
static uint64_t session;                /* 0: the site's commits are not noted */
static struct ring rings[COMMITTERS];   /* locked */

static int session_begin(void *number)
{
    struct outcomes *o = ps_root(container);
    if (!o) return -errno;
    *(uint64_t *)number = ++o->session;
    return 0;
}

static void note_load(unsigned number, const uint64_t word[2])
{
    if (number < COMMITTERS * RING_ENTRIES)
        ring_load(&rings[number / RING_ENTRIES], number % RING_ENTRIES, word[0], word[1]);
}

/* The number need not be durable before a commit of the session is. When that transaction has ended
 * all notes of earlier sessions are there (AO1). */
uint64_t outcome_session(const char *site)
{
    char name[WIRE_PATH_BYTES];
    uint64_t number = 0;
    if (container) return session;
    int error = ps_directory_create("outcomes");
    if (error && error != -EEXIST) return session;
    snprintf(name, sizeof name, "outcomes/%s", site);
    container = ps_open(name, PS_CREATE | PS_WRITE, PS_LAYOUT(struct outcomes, 2));
    if (!container && errno == EPROTO && !ps_delete(name)) /* of a time when notes were in pages */
        container = ps_open(name, PS_CREATE | PS_WRITE, PS_LAYOUT(struct outcomes, 2));
    error = container ? ps_transaction_opt(session_begin, &number,
                                           &(struct ps_options){.lazy = true}) : -errno;
    if (!error && number < RING_SESSIONS) error = ps_site_notes(container, note_load);
    if (!error && number < RING_SESSIONS) session = number;
    return session;
}

/* Has the site anything open to write? Else anybody who says a name could vote by it. */
static bool writes_any(void)
{
    for (const struct container *c = agent.containers; c < agent.containers + CONTAINERS_MAX; c++)
        if (c->id && c->writes) return true;
    return false;
}

int outcome_take(uint8_t *batch, size_t *bytes, uint64_t *number)
{
    *number = 0;
    for (size_t at = 0; at < *bytes;) {
        struct wire_op op;
        if (*bytes - at < sizeof op) return -EINVAL;
        memcpy(&op, batch + at, sizeof op);
        if (op.op_bytes < sizeof op || op.op_bytes > *bytes - at) return -EINVAL;
        if (op.kind != WIRE_ID) {
            const struct container *c = container_of_id(op.container);
            bool part = op.kind == WIRE_VOTE || op.kind == WIRE_DECISION;
            if (part ? !writes_any() : !c || !c->writes) return -EACCES;        /* AK2 */
            at += op.op_bytes;
            continue;
        }
        if (!session || op.value != session || !op.address || *number) return -EINVAL;
        *number = op.address;
        *bytes -= op.op_bytes;
        memmove(batch + at, batch + at + op.op_bytes, *bytes - at);
    }
    return 0;
}

/* Only this thread changes its ring. */
int outcome_note(unsigned thread, uint64_t number)
{
    const struct ring *r = &rings[thread];
    uint64_t word[2] = {number, ring_place(r, session)};
    unsigned at = thread * RING_ENTRIES + (unsigned)r->next;
    return number ? ps_site_note(container, at, word) : 0;
}

void outcome_noted(unsigned thread, uint64_t number)
{
    if (number) ring_note(&rings[thread], session, number);
}

int outcome_look(uint64_t word[SITE_WORDS])
{
    if (!session) return -EAGAIN;
    if (!word[0] || word[0] >= session) return -EINVAL; /* AO1 */
    agent_lock();
    word[0] = ring_find(rings, COMMITTERS, word[0], word[1]);
    agent_unlock();
    return 0;
}
