/*
 * remote_parts.c - transactions that have a part at the home and others elsewhere: the kernel's
 * questions to a base that votes (kernel/store/parts.md) go to the home's store, and that speaks
 * with the stores here, and they with it.
 *
 *     KD_PART_VOTE            COMMIT with WIRE_VOTE, VOTED
 *     KD_PART_DECIDE          COMMIT with WIRE_DECISION, DONE or REFUSED
 *     KD_PART_COMMIT, _UNDO   DECIDE, APPLIED
 *     KD_PART_ASK             the store that decides is asked here, until it answers; then DECIDE
 *
 * When this process ends, or the session, the kernel and the home each know what to do: as if a
 * store manager had died, which has voted or has not.
 *
 * Invariants
 *   PS1  The home is believed to be the store whose name it says once in a session, before anybody
 *        stores to a second base; and speaks for that one, and no other, by the port "peer ZONE"
 *        of this process.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "katydid/call.h"
#include "link.h"
#include "remote.h"
#include "rest.h"

enum { ASK_MS = 100, CALL_MS = 2000, PARTS_HEAD = 512 };

static struct part {
    struct store_txn_id id;
    uint8_t decides[16];                /* the name of the base that does */
    uint64_t number, token;             /* of the DECIDE that is under way; of the kernel's call */
    bool voted, commits;
    bool asks;                          /* who decides is to be asked */
} parts[KD_VIEW_MAX];

/* ---- the kernel's questions ---- */

static size_t vote_put(uint8_t *to, const struct kd_parts *k)
{
    struct wire_vote v;
    memcpy(&v.id, k->id, sizeof v.id);
    memcpy(v.coordinator, k->base[k->count - 1], sizeof v.coordinator);
    memcpy(to, &v, sizeof v);
    return sizeof v;
}

static size_t decision_put(uint8_t *to, const struct kd_parts *k)
{
    memcpy(to, k->id, sizeof k->id);
    size_t bytes = sizeof k->id;
    for (unsigned i = 0; i + 1 < k->count; i++, bytes += sizeof(struct wire_participant)) {
        struct wire_participant p = {.number = i};
        memcpy(p.store, k->base[i], sizeof p.store);
        memcpy(to + bytes, &p, sizeof p);
    }
    return bytes;
}

const void *parts_batch(const struct kd_message *m, size_t *bytes)
{
    static _Alignas(8) uint8_t all[PARTS_HEAD + KD_DATA_MAX];
    struct kd_parts k = {.view = m->word[0], .token = m->token};
    unsigned part = (unsigned)(m->word[3] >> KD_PART_SHIFT);
    if (part == KD_PART_ALL) return m->buffer ? m->buffer : all;
    if (kd_call3(KD_TXN_PARTS, (long)&k, 0, 0) < 0 || k.count < 2 || k.count > KD_PARTS_MAX)
        return NULL;
    struct wire_op *op = (void *)all;
    bool votes = part == KD_PART_VOTE;
    size_t head = votes ? vote_put(all + sizeof *op, &k) : decision_put(all + sizeof *op, &k);
    *op = (struct wire_op){.kind = votes ? WIRE_VOTE : WIRE_DECISION,
                           .op_bytes = (uint32_t)(sizeof *op + head)};
    memcpy(all + op->op_bytes, m->buffer, m->buffer_bytes);
    *bytes = op->op_bytes + m->buffer_bytes;
    struct part *p = &parts[k.view];
    *p = (struct part){.voted = votes};
    memcpy(&p->id, k.id, sizeof p->id);
    memcpy(p->decides, k.base[k.count - 1], sizeof p->decides);
    return all;
}

void parts_refused(uint64_t view) { parts[view] = (struct part){0}; }

static void decide(struct part *p, bool commits)
{
    struct site_message m = {.kind = SITE_DECIDE, .number = ++remote.number, .right = commits};
    p->number = m.number;
    p->commits = commits;
    p->asks = false;
    memcpy(m.word, &p->id, sizeof p->id);
    remote_send(&m);
}

bool parts_outcome(const struct kd_message *m)
{
    unsigned part = (unsigned)(m->word[3] >> KD_PART_SHIFT);
    if (part < KD_PART_COMMIT) return false;
    remote_lock();
    struct part *p = &parts[m->word[0]];
    p->token = m->token;
    if (!p->voted)
        kd_call3(KD_TXN_REFUSE, (long)m->word[0], (long)m->token, ECANCELED);
    else if (part == KD_PART_ASK)
        p->asks = true;
    else
        decide(p, part == KD_PART_COMMIT);
    remote_unlock();
    return true;
}

/* A home that does not know it any more has been told by who decides. */
void parts_applied(const struct site_message *m)
{
    for (uint64_t view = 0; view < KD_VIEW_MAX; view++) {
        struct part *p = &parts[view];
        if (!m->answer_to || p->number != m->answer_to) continue;
        if (p->commits && m->error && m->error != ENOENT)
            remote_ends("the home has undone what it had voted for");
        bool commits = p->commits;
        uint64_t token = p->token;
        *p = (struct part){0};
        commit_end(view, token, commits ? 0 : ECANCELED);
        return;
    }
}

/* ---- who decides is gone, and comes back ---- */

static long peer_find(uint32_t zone)
{
    char name[STORE_NAME_BYTES];
    snprintf(name, sizeof name, "peer %u", (unsigned)zone);
    return kd_call3(KD_NAME_FIND, (long)name, 0, 0);
}

/* One peer; by ask_all alone. False: it is not there, is no such store, or rests. */
static bool peer_ask(uint32_t zone, struct kd_message *m)
{
    static struct rest rests[2 * WIRE_ZONE_SMALL];
    const uint64_t number = m->word[1];
    long port = peer_find(zone), r = -EAGAIN;
    uint64_t owner = port < 0 ? 0 : (uint64_t)kd_call3(KD_PORT_OWNER, port, 0, 0);
    if (port < 0) return false;
    if (rest_over(&rests[zone], owner, remote_now() / 1000))
        r = kd_call3(KD_PORT_CALL_UNTIL, port, (long)m, CALL_MS);
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    if (r == -ETIMEDOUT) rest_begin(&rests[zone], owner, remote_now() / 1000);
    return r >= 0 && m->status >= 0 && m->word[1] == number;
}

/* 0; -ENOENT: it is not there. Not locked. */
static int peers_ask(const struct wire_peer *q, uint64_t *outcome)
{
    static uint64_t number;
    for (uint32_t zone = 0; zone < 2 * WIRE_ZONE_SMALL; zone++) {
        struct kd_message m = {.kind = WIRE_PEER_OUTCOME, .handle = -1, .data = q,
                               .word = {remote.zone, ++number}, .data_bytes = sizeof *q};
        if (!wire_zone_valid(zone) || zone == remote.zone || !peer_ask(zone, &m)) continue;
        *outcome = m.word[0];
        return 0;
    }
    return -ENOENT;
}

/* Locked, not so while it asks. */
static void ask_for(struct part *p)
{
    struct wire_peer q = {.count = 1, .id = {p->id}};
    uint64_t outcome = WIRE_IN_DOUBT;
    memcpy(q.store, p->decides, sizeof q.store);
    remote_unlock();
    int error = peers_ask(&q, &outcome);
    remote_lock();
    bool same = p->asks && !memcmp(&p->id, &q.id[0], sizeof p->id);
    if (!error && same && outcome != WIRE_IN_DOUBT) decide(p, outcome == WIRE_COMMITTED);
}

static void *ask_all(void *unused)
{
    const struct timespec while_ = {.tv_nsec = ASK_MS * 1000000};
    for (;;) {
        remote_lock();
        for (struct part *p = parts; p < parts + KD_VIEW_MAX; p++)
            if (p->asks) ask_for(p);
        remote_unlock();
        nanosleep(&while_, NULL);
    }
    return unused;
}

/* ---- stores of this machine ask the home's, as each other ---- */

static int peer_port = -1;
static struct { bool said; uint8_t name[16]; } home;    /* locked */

void parts_named(int error, const uint64_t word[2])
{
    home.said = !error;
    memcpy(home.name, word, sizeof home.name);
    struct kd_voter voter = {.life = remote_now()};
    memcpy(voter.name, word, sizeof voter.name);
    if (error || kd_call3(KD_PORT_VOTES, remote.port, (long)&voter, 0) < 0) {
        static const char line[] = "remote: the home takes no part in transactions of several";
        kd_call3(KD_KERNEL_LOG, (long)line, sizeof line - 1, 0);
    }
}

/* Is that the store of the zone, or who speaks for it? */
static bool peer_known(const struct kd_message *m)
{
    long port = m->word[0] < 2 * WIRE_ZONE_SMALL ? peer_find((uint32_t)m->word[0]) : -1;
    long owner = port < 0 ? -1 : kd_call3(KD_PORT_OWNER, port, 0, 0);
    if (port >= 0) kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    return owner > 0 && (uint64_t)owner == m->process;
}

/* A home that may lie hears nothing of what another store is asked, and answers nothing (PS1). */
static void peer_asked(const struct kd_message *m)
{
    const struct wire_peer *q = m->buffer;
    struct kd_message reply = {.handle = -1, .status = -EPERM};
    if (m->buffer_bytes != sizeof *q) {
        reply.status = -EINVAL;
    } else if (peer_known(m)) {
        remote_lock();
        bool its = home.said && !memcmp(q->store, home.name, sizeof home.name);
        reply.status = its ? store_home_ask(SITE_PEER, m->kind, q, m->buffer_bytes, m->token,
                                            m->word[1])
                           : -ENOENT;
        remote_unlock();
        if (reply.status == 0) return;
    }
    kd_call3(KD_PORT_REPLY, (long)m->token, (long)&reply, 0);
}

void *parts_hear(void *unused)
{
    static _Alignas(8) struct wire_peer q;
    char name[STORE_NAME_BYTES];
    pthread_t thread;
    snprintf(name, sizeof name, "peer %u", (unsigned)remote.zone);
    peer_port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    if (peer_port < 0 || kd_call3(KD_NAME_SET, (long)name, peer_port, 0) < 0 ||
        pthread_create(&thread, NULL, ask_all, NULL))
        remote_ends("it cannot speak for the home's store");
    for (;;) {
        struct kd_message m = {.buffer = &q, .buffer_bytes = sizeof q, .handle = -1};
        if (kd_call3(KD_PORT_RECEIVE, peer_port, (long)&m, -1) < 0) continue;
        if (m.handle >= 0) kd_call3(KD_HANDLE_CLOSE, m.handle, 0, 0);
        if (!(m.kind & (uint32_t)KD_MSG_KERNEL) && m.token) peer_asked(&m);
    }
    return unused;
}
