/*
 * agent_outcome.c - what became of a commit whose site has lost the session before the answer: it
 * asks in the next one (remote.md).
 *
 * Each transaction that commits something for the site notes its id in a container of the home's,
 * outcomes/SITE, in rings of a page for each thread that commits. So the note is as durable as the
 * commit, a restart of the home finds it, and nothing has to be trimmed.
 *
 * Invariants
 *   AO1  An agent answers for earlier sessions alone. Their agents have ended (SI5), so what they
 *        had not given to the store never commits; what they had locks the ring's page until it is
 *        committed or undone, and the answer waits for that.
 */
#include "agent.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent_ring.h"
#include "site.h"

/* The rings begin at the first page behind the session's number. */
struct outcomes {
    uint64_t session;
    uint8_t room[(COMMITTERS + 1) * KD_PAGE_BYTES];
};
static ps_container *container;
static uint64_t session;                /* 0: the site's commits are not noted */

static struct ring *rings(const struct outcomes *o)
{
    uintptr_t behind = (uintptr_t)o->room + KD_PAGE_BYTES - 1;
    return (struct ring *)(behind & ~(uintptr_t)(KD_PAGE_BYTES - 1));
}

static int session_begin(void *number)
{
    struct outcomes *o = ps_root(container);
    if (!o) return -errno;
    *(uint64_t *)number = ++o->session;
    return 0;
}

/* The number need not be durable before a commit of the session is. */
uint64_t outcome_session(const char *site)
{
    char name[WIRE_PATH_BYTES];
    uint64_t number = 0;
    if (container) return session;
    int error = ps_directory_create("outcomes");
    snprintf(name, sizeof name, "outcomes/%s", site);
    if (!error || error == -EEXIST)
        container = ps_open(name, PS_CREATE | PS_WRITE, PS_LAYOUT(struct outcomes, 1));
    if (container &&
        ps_transaction_opt(session_begin, &number, &(struct ps_options){.lazy = true}) == 0)
        session = number;
    return session;
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

int outcome_note(unsigned thread, uint64_t number)
{
    const struct outcomes *o = number ? ps_root(container) : NULL;
    if (number && !o) return -errno;
    if (number) ring_note(&rings(o)[thread], session, number);
    return 0;
}

struct question { uint64_t session, number; enum wire_outcome outcome; };

static int find(void *question)
{
    struct question *q = question;
    const struct outcomes *o = ps_root(container);
    if (!o) return -errno;
    q->outcome = ring_find(rings(o), COMMITTERS, q->session, q->number);
    return 0;
}

int outcome_look(uint64_t word[SITE_WORDS])
{
    struct question q = {.session = word[0], .number = word[1]};
    if (!session) return -EAGAIN;
    if (!q.session || q.session >= session) return -EINVAL; /* AO1 */
    int error = ps_site_transaction(find, &q, agent.holder, 0, (struct ps_options){0});
    word[0] = q.outcome;
    return error;
}
