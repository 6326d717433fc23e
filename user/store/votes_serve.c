/*
 * votes_serve.c - what programs ask about transactions of several stores (STORE_TXN): those that
 * may vote, whoever wants to know how it ended, and the agents of other sites, for their stores;
 * and the shares that sites have of votes and decisions (VO11).
 */
#include <stdlib.h>
#include <string.h>

#include "votes.h"

#define VOTERS_MAX  32u
#define REFUSED_MAX 64u                 /* of voters' COMMITs, the last ones */

static struct { uint64_t token, process; struct store_txn_id id; } asking[VOTERS_MAX];
static struct { uint64_t process; char site[WIRE_SITE_BYTES]; } voters[VOTERS_MAX];
static struct { struct store_txn_id id; int error; } refused[REFUSED_MAX];
static unsigned refused_next;

static unsigned voter_of(uint64_t process)
{
    unsigned i = 0;
    while (i < VOTERS_MAX && (!process || voters[i].process != process)) i++;
    return i;
}

bool may_vote(uint64_t process) { return voter_of(process) < VOTERS_MAX; }

const char *voter_site(uint64_t process)
{
    return may_vote(process) ? voters[voter_of(process)].site : "";
}

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

static int voter_add(const struct kd_message *m)
{
    unsigned at = VOTERS_MAX;
    if (m->data_bytes >= WIRE_SITE_BYTES) return -EINVAL;
    if (may_vote(m->process)) return 0;
    for (unsigned i = 0; i < VOTERS_MAX; i++) {
        uint64_t *process = &voters[i].process;
        if (*process && process_parent(*process) == 0) *process = 0; /* it has ended */
        if (!*process) at = i;
    }
    if (at == VOTERS_MAX) return -EAGAIN;
    memset(&voters[at], 0, sizeof(voters[at]));
    voters[at].process = m->process;
    memcpy(voters[at].site, m->buffer, m->data_bytes);
    return 0;
}

/* ---- shares (VO11) ---- */

/* struct share: what one site has, or all; since when, the oldest of it. */
struct share { uint64_t has, since_us; };

static void share_add(struct share s[2], bool own, uint64_t n, uint64_t at_us)
{
    for (int i = own ? 0 : 1; i < 2; i++) {
        if (!s[i].has || at_us < s[i].since_us) s[i].since_us = at_us;
        s[i].has += n;
    }
}

static int share_room(const struct share s[2], uint64_t n, uint64_t places)
{
    const uint64_t most[2] = {places / 2, places / 4 * 3};
    for (int i = 0; i < 2; i++)
        if (s[i].has + n > most[i])
            return s[i].has && now_us() - s[i].since_us < FULL_US ? -EDEADLK : -EDQUOT;
    return 0;
}

int vote_share(const struct vote *v)
{
    struct share count[2] = {0}, bytes[2] = {0};
    for (const struct vote *o = votes; *v->site && o < votes + STORE_PREPARED_MAX; o++) {
        bool own = strcmp(o->site, v->site) == 0;
        if (!o->used || !*o->site || o == v) continue;
        share_add(count, own, 1, o->begun_us);
        share_add(bytes, own, o->bytes, o->begun_us);
    }
    return !*v->site ? 0 : share_room(count, 1, STORE_PREPARED_MAX) ?:
                           share_room(bytes, v->bytes, server.log_bytes / 8);
}

/* struct made, a decision: until its group has landed nobody knows whether it is kept. */
static struct made {
    char site[WIRE_SITE_BYTES];         /* "": free */
    struct store_txn_id id;
    uint64_t group, at_us;
} made[STORE_DECISIONS_MAX];

static bool made_stands(const struct made *d)
{
    struct store_doubt is;
    return server.landed <= d->group ||
           (store_doubt_find(server.store, &d->id, &is) == 0 && !is.prepared);
}

void decision_note(const char *site, const struct store_txn_id *id)
{
    struct made *d = made;
    while (d < made + STORE_DECISIONS_MAX && *d->site) d++;
    if (d == made + STORE_DECISIONS_MAX) return;
    *d = (struct made){.id = *id, .group = server.launched, .at_us = now_us()};
    strcpy(d->site, site);
}

/* decision_room asks for room; forgotten ones are looked for only if there seems to be none. */
static int decision_room(const char *site, const struct store_txn_id *id, bool looks)
{
    struct share count[2] = {0};
    for (struct made *d = made; d < made + STORE_DECISIONS_MAX; d++) {
        if (same_txn(&d->id, id) || (looks && !made_stands(d))) *d->site = '\0';
        if (*d->site) share_add(count, strcmp(d->site, site) == 0, 1, d->at_us);
    }
    return share_room(count, 1, STORE_DECISIONS_MAX);
}

int decision_share(const char *site, const struct store_txn_id *id)
{
    int r = !*site || decision_room(site, id, false) == 0 ? 0 : decision_room(site, id, true);
    if (r == 0 && *site) decision_note(site, id);
    return r;
}

/* asking_place: where nobody asks now. Who asks may end before what he asks for comes to COMMIT. */
static unsigned asking_place(void)
{
    unsigned at = 0;
    while (at < VOTERS_MAX && asking[at].token) at++;
    for (unsigned i = 0; at == VOTERS_MAX && i < VOTERS_MAX; i++)
        if (process_parent(asking[i].process) == 0) at = i;
    return at;
}

/* voted_ask tells how a transaction is voted on, or 1: that is told later. */
static int voted_ask(const struct kd_message *m, const struct store_txn_id *id)
{
    const struct vote *v = vote_of(id);
    if (!may_vote(m->process)) return -EPERM;
    if (m->word[1]) {                   /* the asker's transaction has not come to its COMMIT */
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
    uint64_t cursor = m->word[1];
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

/* txn_serve serves STORE_TXN, lock held. */
static int txn_serve(const struct kd_message *m, struct kd_message *reply, struct wire_doubt *out)
{
    const struct store_txn_id *id = m->buffer;
    int r = server_writable();
    if (m->word[0] == WIRE_TXN_NEXT) return doubt_next(m, reply, out);
    if (m->word[0] == WIRE_TXN_VOTER) return r < 0 ? r : voter_add(m);
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
