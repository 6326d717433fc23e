/*
 * votes_serve.c - what programs ask about transactions of several stores (STORE_TXN): those that
 * may vote, whoever wants to know how it ended, and the agents of other sites, for their stores.
 */
#include <stdlib.h>
#include <string.h>

#include "votes.h"

#define VOTERS_MAX  32u
#define REFUSED_MAX 64u                 /* of voters' COMMITs, the last ones */

static struct { uint64_t token, process; struct store_txn_id id; } asking[VOTERS_MAX];
static uint64_t voters[VOTERS_MAX];     /* processes; 0: none */
static struct { struct store_txn_id id; int error; } refused[REFUSED_MAX];
static unsigned refused_next;

static unsigned voter_of(uint64_t process)
{
    unsigned i = 0;
    while (i < VOTERS_MAX && (!process || voters[i] != process)) i++;
    return i;
}

bool may_vote(uint64_t process) { return voter_of(process) < VOTERS_MAX; }

void vote_told(const struct store_txn_id *id, int status)
{
    struct kd_message reply = {.handle = -1, .status = status};
    if (status < 0) {
        refused[refused_next % REFUSED_MAX].id = *id;
        refused[refused_next++ % REFUSED_MAX].error = status;
    }
    for (unsigned i = 0; i < VOTERS_MAX; i++)
        if (asking[i].token && same_txn(&asking[i].id, id)) {
            kd_reply(asking[i].token, &reply);
            asking[i].token = 0;
        }
}

static int voter_add(uint64_t process)
{
    unsigned at = VOTERS_MAX;
    if (may_vote(process)) return 0;
    for (unsigned i = 0; i < VOTERS_MAX; i++) {
        if (voters[i] && process_parent(voters[i]) == 0) voters[i] = 0; /* it has ended */
        if (!voters[i]) at = i;
    }
    if (at == VOTERS_MAX) return -EAGAIN;
    voters[at] = process;
    return 0;
}

/* Where nobody asks any more. Whoever asks may end before what he asks for comes to its COMMIT. */
static unsigned asking_place(void)
{
    unsigned at = 0;
    while (at < VOTERS_MAX && asking[at].token) at++;
    for (unsigned i = 0; at == VOTERS_MAX && i < VOTERS_MAX; i++)
        if (process_parent(asking[i].process) == 0) at = i;
    return at;
}

/* How it votes, or 1: that is told later. */
static int voted_ask(const struct kd_message *m, const struct store_txn_id *id)
{
    const struct vote *v = vote_of(id);
    if (!may_vote(m->process)) return -EPERM;
    if (m->word[1]) {                   /* its transaction has not come to its COMMIT */
        vote_told(id, -ECANCELED);
        return 0;
    }
    if (v && v->prepared) return 0;
    if (is_undone(id)) return -ECANCELED;
    for (unsigned i = 0; i < REFUSED_MAX; i++)
        if (refused[i].error && same_txn(&refused[i].id, id)) return refused[i].error;
    unsigned at = asking_place();
    if (at == VOTERS_MAX) return -EAGAIN;
    asking[at].token = m->token;
    asking[at].process = m->process;
    asking[at].id = *id;
    return 1;
}

static int doubt_next(const struct kd_message *m, struct kd_message *reply, struct wire_doubt *out)
{
    struct store_doubt d;
    uint32_t cursor = (uint32_t)m->word[1];
    if (store_doubt_next(server.store, &cursor, &d) < 0) return -ENOENT;
    *out = (struct wire_doubt){.id = d.id, .pages = d.pages, .prepared = d.prepared,
                               .participants = d.participants};
    memcpy(out->coordinator, d.coordinator, sizeof(out->coordinator));
    for (uint32_t i = 0; i < d.participants && i < STORE_PARTICIPANTS_MAX; i++) {
        struct store_participant p = store_doubt_participant(&d, i);
        memcpy(out->participant[i].store, p.store, sizeof(p.store));
        out->participant[i].number = p.number;
    }
    reply->word[0] = cursor;
    reply->data = out;
    reply->data_bytes = sizeof(*out);
    return 0;
}

static int hold_ask(const struct kd_message *m, uint64_t *number)
{
    unsigned voter = voter_of(m->process);
    if (voter == VOTERS_MAX) return -EPERM;
    return m->word[1] ? hold_end(voter, m->word[1]) : hold_begin(voter, number);
}

static int name_tell(struct kd_message *reply)
{
    struct store_stats stats;
    store_stats(server.store, &stats);
    memcpy(reply->word, stats.uuid, sizeof(stats.uuid));
    return 0;
}

/* Lock held. */
static int txn_serve(const struct kd_message *m, struct kd_message *reply, struct wire_doubt *out)
{
    const struct store_txn_id *id = m->buffer;
    int r = server_writable();
    if (m->word[0] == WIRE_TXN_NEXT) return doubt_next(m, reply, out);
    if (m->word[0] == WIRE_TXN_VOTER) return r < 0 ? r : voter_add(m->process);
    if (m->word[0] == WIRE_TXN_NAME) return name_tell(reply);
    if (m->word[0] == WIRE_TXN_HOLD) return r < 0 ? r : hold_ask(m, &reply->word[0]);
    if (m->word[0] == WIRE_TXN_PEER)
        return r < 0 ? r : peer_answer((uint32_t)m->word[1], m->buffer, m->data_bytes,
                                       &reply->word[0]);
    if (m->data_bytes != sizeof(*id)) return -EINVAL;
    if (r < 0) return r;
    switch (m->word[0]) {
    case WIRE_TXN_VOTED: return voted_ask(m, id);
    case WIRE_TXN_COMMIT: return vote_decide(id, true, m->word[1]);
    case WIRE_TXN_UNDO: return vote_decide(id, false, m->word[1]);
    case WIRE_TXN_ASK: return outcome_ask(id, &reply->word[0]);
    case WIRE_TXN_FORGET: return decision_forget(id);
    default: return -EINVAL;
    }
}

bool votes_request(const struct kd_message *m)
{
    if (m->kind != STORE_TXN) return false;
    struct kd_message reply = {.handle = -1};
    struct wire_doubt told;
    server_lock();
    int r = txn_serve(m, &reply, &told);
    server_unlock();
    reply.status = r < 0 ? r : 0;
    if (r <= 0) kd_reply(m->token, &reply);
    return true;
}
