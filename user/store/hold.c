/*
 * hold.c - commits stand still for a moment, so that a snapshot of several homes may begin
 * (user/sites/remote.md: SV7).
 *
 *     WIRE_TXN_HOLD, again and again    0: what had come is over, and nothing is prepared
 *     COMMIT                            is put aside; with a part elsewhere it is refused, and runs
 *                                       again: what it would end another hold may wait for
 *     WIRE_TXN_HOLD with the number     what was put aside goes on
 *
 * Invariants
 *   WH1  From the first 0 to its end, as long as that says 0, nothing is published.
 *   WH2  A hold ends after HOLD_US, whoever wants it to go on, and none begins for REST times as
 *        long as it was: commits have four fifths of the time. Whoever asks meanwhile shares it.
 *   WH3  Plain commits go on in the order in which they came: what comes while some are aside waits
 *        behind them, also when the hold is over. (Whoever has ended may have left some: AO1.)
 */
#include <stdlib.h>
#include <string.h>

#include "votes.h"

enum { HOLD_US = 250000, REST = 4, ASIDE_BYTES = 4 << 20 };

static struct {
    uint64_t number, since_us, rest_us; /* rest_us: none begins before */
    uint64_t holders;                   /* a mask of voters */
    bool on;                            /* atomic; by the committer without the lock */
    bool idle;                          /* the committer has nothing in hand since it began */
} hold;

struct aside { struct aside *next; struct kd_message m; uint8_t data[]; };
static struct aside *first, **last = &first; /* by the committer alone */
static size_t aside_bytes;

/* ---- who holds; lock held ---- */

static void hold_over(void)
{
    hold.rest_us = now_us() + REST * (now_us() - hold.since_us);
    hold.holders = 0;
    __atomic_store_n(&hold.on, false, __ATOMIC_RELAXED);
    kd_notify(server.commit_port, NOTICE_LAZY);
}

static void hold_look(void)
{
    if (hold.on && now_us() - hold.since_us >= HOLD_US) hold_over();           /* WH2 */
}

static bool in_doubt(void)
{
    struct store_doubt d;
    uint64_t cursor = 0;
    while (store_doubt_next(server.store, &cursor, &d) == 0)
        if (d.prepared) return true;
    return false;
}

int hold_begin(unsigned voter, uint64_t *number)
{
    hold_look();
    if (!hold.on) {
        if (now_us() < hold.rest_us) return -EAGAIN;
        hold.since_us = now_us();
        hold.number++;
        hold.idle = false;
        __atomic_store_n(&hold.on, true, __ATOMIC_RELAXED);
        kd_notify(server.commit_port, NOTICE_LAZY);
    }
    hold.holders |= 1ull << voter;
    *number = hold.number;
    return hold.idle && !group_flying() && !in_doubt() ? 0 : -EAGAIN;           /* WH1 */
}

int hold_end(unsigned voter, uint64_t number)
{
    hold_look();
    bool stood = hold.on && hold.number == number && hold.holders >> voter & 1;
    if (stood) hold.holders &= ~(1ull << voter);
    if (stood && !hold.holders) hold_over();
    return stood ? 0 : -ESTALE;
}

/* ---- the committer ---- */

/* part_refuse refuses a part of a transaction of several stores. Lock held. */
static void part_refuse(const struct kd_message *m, const struct wire_op *op)
{
    struct store_txn_id id;
    bool votes = op->kind == WIRE_VOTE && m->data_bytes >= sizeof(*op) + sizeof(id);
    if (votes) memcpy(&id, op + 1, sizeof(id));
    if (votes && may_vote(m->process)) vote_told(&id, -EDEADLK);
    /* An agent's transaction, which has a DECISION, is run again by its site only. */
    kd_txn_refuse(m->word[0], m->token, op->kind == WIRE_DECISION ? EALREADY : EDEADLK);
    server.refused++;
}

static int put_aside(const struct kd_message *m)
{
    struct aside *a = aside_bytes + m->data_bytes > ASIDE_BYTES
                          ? NULL : malloc(sizeof(*a) + m->data_bytes);
    if (!a) return -ENOMEM;
    *a = (struct aside){.m = *m};
    memcpy(a->data, m->buffer, m->data_bytes);
    *last = a;
    last = &a->next;
    aside_bytes += m->data_bytes;
    return 0;
}

bool hold_takes(const struct kd_message *m)
{
    static const struct wire_op none;
    const struct wire_op *op = m->data_bytes >= sizeof(*op) ? m->buffer : &none;
    unsigned part = (unsigned)(m->word[3] >> KD_PART_SHIFT);
    if (!first && !__atomic_load_n(&hold.on, __ATOMIC_RELAXED)) return false;
    server_lock();
    hold_look();
    bool plain = part == KD_PART_ALL && op->kind != WIRE_VOTE && op->kind != WIRE_DECISION;
    bool ends = part == KD_PART_ALL || part == KD_PART_VOTE || part == KD_PART_DECIDE;
    bool takes = plain ? hold.on || first : hold.on && ends;                    /* WH3 */
    if (takes && (!plain || put_aside(m) < 0)) part_refuse(m, op);
    server_unlock();
    return takes;
}

bool hold_next(struct kd_message *m)
{
    struct aside *a = first;
    if (!a || __atomic_load_n(&hold.on, __ATOMIC_RELAXED)) return false;
    void *buffer = m->buffer;
    *m = a->m;
    m->buffer = buffer;
    memcpy(buffer, a->data, m->data_bytes);
    aside_bytes -= m->data_bytes;
    first = a->next;
    if (!first) last = &first;                                                  /* WH3 */
    free(a);
    return true;
}

long hold_idle(long timeout_ms)
{
    if (!__atomic_load_n(&hold.on, __ATOMIC_RELAXED)) return timeout_ms;
    server_lock();
    hold_look();
    hold.idle |= hold.on;
    uint64_t held = now_us() - hold.since_us;
    long left = hold.on && held < HOLD_US ? (long)((HOLD_US - held) / 1000) + 1 : timeout_ms;
    server_unlock();
    return timeout_ms < 0 || left < timeout_ms ? left : timeout_ms;
}
