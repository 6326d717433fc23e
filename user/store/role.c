/*
 * role.c - which of two copies of a store is home (role.h). The rules are NH1 to NH9 and NC4 of
 * tests/model/sites.md; the functions have the names that they have in tests/model/spare.cpp.
 */
#include "role.h"

#include <errno.h>
#include <string.h>

#define ASK_AGAIN_US  100000u
#define JOIN_AGAIN_US 100000u           /* at first, then twice as long, again and again */
#define JOIN_MOST_US  1600000u
#define FEED_AHEAD    (1u << 20)        /* bytes that a mate has not answered yet */
#define FEED_STEP     (256u << 10)      /* bytes of the log that are read at one tick */
#define APPLY_STEP    (1u << 20)        /* bytes of the log that a spare applies at one tick */

static void send(struct role *r, struct role_message *m)
{
    m->number = r->session;
    m->term = r->term;
    r->calls.send(r->calls.context, ROLE_TO_OTHER, m);
}

/* ask asks the witness. Requests are numbered: of what was asked before no answer counts (NM2).
 * What is asked again is the same request, so an answer may take longer than ASK_AGAIN_US. */
static void ask(struct role *r, enum role_kind what, uint32_t mate, uint64_t now)
{
    if (r->asked != (int)what + 1 || r->wants_mate != (mate != 0)) r->ask_number++;
    struct role_message m = { .kind = what, .number = r->ask_number, .site = r->own,
                              .record = { r->term, r->own, mate } };
    r->asked = (int)what + 1;
    r->wants_mate = mate != 0;
    r->asked_us = now;
    r->calls.send(r->calls.context, ROLE_TO_WITNESS, &m);
}

static bool may_ask(const struct role *r, uint64_t now)
{
    return !r->asked || now - r->asked_us >= ASK_AGAIN_US;
}

/* ---- opened and closed ---- */

static bool feeding(const struct role *r)
{
    return r->feed.reader;
}

static void feed_end(struct role *r)
{
    if (feeding(r)) store_feed_end(r->store, &r->feed);
}

static void mate_forget(struct role *r)
{
    feed_end(r);
    r->mate = 0;
    r->named = r->lost = r->frozen = false;
    r->have = 0;
}

static void copy_drop(struct role *r)
{
    if (r->copy) store_spare_abandon(r->copy);
    r->copy = NULL;
}

/* opens opens the store here. What a copy has not applied yet is applied, or recovered. */
static int opens(struct role *r)
{
    struct store_report report;
    struct store_spare_state state = { .joined = false };
    struct store_epochs epochs;
    struct store_open_options how = r->options;
    int error;
    if (r->copy) store_spare_tell(r->copy, &state, &epochs);
    if (state.joined) {
        error = store_spare_take_over(r->copy, &r->store, &report);
        r->copy = NULL;
    } else {
        copy_drop(r);
        how.flags |= STORE_COPIED;
        error = store_open(&r->io, r->memory, &how, &r->store, &report);
    }
    if (error) r->store = NULL;
    r->error = error;
    if (error) return error;
    r->is = ROLE_HOME;
    r->away.begun = false;
    memset(r->sealed, 0, sizeof(r->sealed));
    mate_forget(r);
    r->flushed = store_log_applied(r->store);
    r->calls.opened(r->calls.context, r->store, &report);
    return 0;
}

/* may_open: is the lease over that the former home had from this copy (NH4)? */
static bool may_open(const struct role *r, uint64_t now)
{
    return now >= r->answered_us + r->lease_us;
}

static void alone(struct role *r)
{
    if (r->store)
        mate_forget(r);
    else
        opens(r);
}

/* goes_out: another one is home: what is open here is closed, and this one joins. */
static void goes_out(struct role *r, uint64_t now)
{
    struct store_report report;
    if (r->store) {
        feed_end(r);
        r->calls.closing(r->calls.context, r->store);
        store_abandon(r->store);
        r->store = NULL;
    }
    mate_forget(r);
    copy_drop(r);
    r->is = ROLE_OUT;
    r->asked = 0;
    r->heard_us = now;
    r->join.asked_us = 0;
    r->join.wait_us = JOIN_AGAIN_US;
    r->error = store_spare_open(&r->io, r->memory, &r->options, &r->copy, &report);
    if (r->error) r->copy = NULL;
}

/* ---- the home ---- */

static void lease_ends(struct role *r)
{
    r->lost = r->frozen = true;
    r->asked = 0;
    r->have = 0;
    feed_end(r);
}

static void group_send(struct role *r, const void *group, size_t bytes, size_t used, uint64_t now)
{
    struct role_message m = { .kind = ROLE_GROUP, .stamp = now, .group = group, .bytes = bytes,
                              .used = used };
    store_mark_tell(r->store, &m.mark);
    r->beat_us = now;
    send(r, &m);
}

void role_sealed(struct role *r, const struct store_group *group, uint64_t now)
{
    size_t bytes, used = store_group_sealed_used(group);
    const void *at = store_group_sealed_bytes(group, &bytes);
    if (r->is != ROLE_HOME || !r->store) return;
    for (unsigned i = 1; i < ROLE_GROUPS; i++) r->sealed[i - 1] = r->sealed[i];
    r->sealed[ROLE_GROUPS - 1].at = at;
    r->sealed[ROLE_GROUPS - 1].bytes = bytes;
    r->sealed[ROLE_GROUPS - 1].used = used;
    r->sealed[ROLE_GROUPS - 1].lsn = store_group_csn(group, 0);
    if (r->mate && !r->lost && !feeding(r)) group_send(r, at, bytes, used, now);
}

void role_flushed(struct role *r, store_lsn_t end_lsn)
{
    if (end_lsn > r->flushed) r->flushed = end_lsn;
}

store_lsn_t role_sure(const struct role *r)
{
    if (r->is != ROLE_HOME || !r->store || r->frozen) return 0;
    return r->mate && !r->asynchronous && r->have < r->flushed ? r->have : r->flushed;  /* NH2 */
}

bool role_serves(const struct role *r, uint64_t now)
{
    return r->is == ROLE_HOME && r->store && !r->frozen &&
           (!r->named || now < r->heard_stamp + r->lease_us);           /* NH8 */
}

bool role_heard(const struct role *r, uint64_t asked_us)
{
    return r->is == ROLE_HOME && r->store && !r->frozen &&
           (!r->mate || r->heard_stamp >= asked_us);
}

/* feed_some sends what the mate lacks of the applied log, then the groups that are sealed and not
 * applied: some may have been when it joined. */
static void feed_some(struct role *r, uint64_t now)
{
    const void *group;
    size_t bytes;
    int found = 1;
    store_lsn_t from = r->fed;
    while (r->fed - r->have < FEED_AHEAD && r->fed - from < FEED_STEP &&
           (found = store_feed_next(r->store, &r->feed, &group, &bytes)) > 0) {
        if (r->group_most && bytes > r->group_most) {
            found = -ESTALE;
            break;
        }
        group_send(r, group, bytes, bytes, now);
        r->fed = r->feed.lsn;
    }
    if (found > 0) return;
    if (found == -ESTALE) r->unfed = r->fed + 1;
    if (found < 0) return lease_ends(r);
    feed_end(r);
    for (unsigned i = 0; i < ROLE_GROUPS; i++)
        if (r->sealed[i].at && r->sealed[i].lsn >= store_log_applied(r->store))
            group_send(r, r->sealed[i].at, r->sealed[i].bytes, r->sealed[i].used, now);
}

static bool same_store(const struct role *r, const struct role_message *m)
{
    struct store_stats stats;
    store_stats(r->store, &stats);
    return memcmp(stats.uuid, m->uuid, sizeof(stats.uuid)) == 0 &&
           stats.disk_bytes == m->disk_bytes && stats.log_bytes == m->log_bytes;
}

static void join_refuse(struct role *r, int error)
{
    struct role_message answer = { .kind = ROLE_CATCH_UP };
    answer.error = error == -ESTALE ? error : -EAGAIN;
    feed_end(r);
    send(r, &answer);
}

/* mate_begins has answers wait for HAVE; then the mate is to have all; then it is named (NH5). */
static void mate_begins(struct role *r, uint64_t now)
{
    struct role_message answer = { .kind = ROLE_CATCH_UP };
    if (r->away.begun) store_hold_end(r->store, &r->away.hold);
    r->away.begun = false;
    r->mate = r->other;
    r->named = false;
    r->have = 0;
    r->asked = 0;
    r->heard_stamp = now;
    answer.lsn = r->fed = r->feed.lsn;
    answer.crc = r->feed.prev_crc;
    answer.sure = r->shown = r->flushed;
    store_mark_tell(r->store, &answer.mark);
    store_epochs_tell(r->store, &answer.epochs);
    send(r, &answer);
}

/* seek_some looks for where the two logs part, step by step. */
static void seek_some(struct role *r, uint64_t now)
{
    int more = store_feed_seek(r->store, &r->feed, FEED_STEP);
    if (more > 0) return;
    if (!more && r->feed.lsn < r->unfed) more = -ESTALE;
    if (more)
        join_refuse(r, more);
    else
        mate_begins(r, now);
}

/* joins serves a copy's JOIN; if it waited for a while it asks again, in another session. */
static void joins(struct role *r, const struct role_message *m, uint64_t now)
{
    if (r->is != ROLE_HOME || !r->store || r->lost || r->mate) {
        r->calls.send(r->calls.context, ROLE_TO_OTHER,
                      &(struct role_message){ .kind = ROLE_CATCH_UP, .number = m->number,
                                              .error = -EAGAIN });
        return;
    }
    r->session = m->number;
    int error = same_store(r, m) ? 0 : -ESTALE;
    if (!error && !(feeding(r) && store_feed_is(r->store, &r->feed, &m->epochs, m->lsn))) {
        feed_end(r);
        error = store_feed_begin(r->store, &r->feed, &m->epochs, m->lsn);
    }
    if (error)
        join_refuse(r, error);
    else
        seek_some(r, now);
}

/* has notes what the mate has; a stamp that was not sent yet is none of ours. */
static void has(struct role *r, const struct role_message *m)
{
    if (r->is != ROLE_HOME || !r->mate || r->lost || m->number != r->session) return;
    if (m->stamp > r->beat_us) return;
    if (m->stamp > r->heard_stamp) r->heard_stamp = m->stamp;
    if (m->kind != ROLE_HAVE) return;
    if (m->lsn > r->have) r->have = m->lsn;
}

void role_beat(struct role *r, uint64_t now)
{
    struct role_message m = { .kind = ROLE_BEAT, .stamp = now };
    if (r->is != ROLE_HOME || !r->mate || r->lost || r->beat_us >= now) return;
    r->beat_us = now;
    send(r, &m);
}

/* patience: a mate silent for so long is lost; the lease's rest is for the witness's answer. */
static uint64_t patience(const struct role *r)
{
    return r->lease_us - r->lease_us / 4;
}

static void home_tick(struct role *r, uint64_t now)
{
    if (!r->mate && !r->away.begun && r->store)
        r->away.begun =
            store_hold_begin(r->store, &r->away.hold, "a spare that is away", false) == 0;
    if (r->mate && !r->lost && now >= r->heard_stamp + patience(r)) lease_ends(r);
    if ((r->lost || r->vouched) && may_ask(r, now))
        ask(r, r->vouched ? ROLE_VOUCHED : ROLE_WANT_RECORD, 0, now);
    if (r->lost) return;
    if (feeding(r) && r->mate) feed_some(r, now);
    if (feeding(r) && !r->mate) seek_some(r, now);
    if (!r->mate || r->lost) return;
    bool all = !feeding(r) && r->have >= r->shown && !r->asynchronous && !r->vouched;
    if (!r->named && all && may_ask(r, now)) ask(r, ROLE_WANT_RECORD, r->mate, now);
    if (now - r->beat_us >= r->lease_us / 4) role_beat(r, now);
}

/* ---- the spare ---- */

static void answers(struct role *r, enum role_kind kind, const struct role_message *to,
                    store_lsn_t lsn, uint64_t now)
{
    struct role_message m = { .kind = kind, .lsn = lsn, .stamp = to->stamp };
    r->answered_us = now;
    send(r, &m);
}

static void takes(struct role *r)
{
    r->is = ROLE_TAKING;
    r->asked = 0;
    r->term = r->record.term;
}

static void catches_up(struct role *r, const struct role_message *m, uint64_t now)
{
    if (r->is != ROLE_OUT || !r->join.asked_us || m->number != r->session || !r->copy) return;
    r->join.asked_us = 0;
    if (m->error == -ESTALE) r->error = -ESTALE;
    if (m->error) return;
    r->error = store_spare_join(r->copy, m->lsn, m->crc, &m->epochs, m->sure, &m->mark);
    if (r->error) return;
    r->is = ROLE_SPARE;
    r->named = false;
    r->asked = 0;
    r->term = m->term;
    r->record = (struct role_record){ m->term, r->other, 0 };
    r->heard_us = now;
    answers(r, ROLE_HAVE, m, m->lsn, now);
}

static void group(struct role *r, const struct role_message *m, uint64_t now)
{
    store_lsn_t have;
    if (r->is != ROLE_SPARE || m->number != r->session || m->term < r->term) return;    /* NH1 */
    r->heard_us = now;
    if (store_spare_take(r->copy, m->group, m->bytes, &m->mark) ||
        store_spare_write(r->copy) || store_spare_taken(r->copy, &have))
        return goes_out(r, now);
    answers(r, ROLE_HAVE, m, have, now);
}

static void spare_tick(struct role *r, uint64_t now)
{
    if (now - r->heard_us >= r->lease_us) {     /* it is silent */
        if (r->named)
            takes(r);
        else
            goes_out(r, now);
    } else if (!r->paused && store_spare_apply(r->copy, APPLY_STEP) < 0) {
        goes_out(r, now);
    }
}

static void join_ask(struct role *r, uint64_t now)
{
    struct role_message m = { .kind = ROLE_JOIN };
    struct store_spare_state state;
    store_spare_tell(r->copy, &state, &m.epochs);
    m.lsn = state.end_lsn;
    memcpy(m.uuid, state.uuid, sizeof(m.uuid));
    m.disk_bytes = state.disk_bytes;
    m.log_bytes = state.log_bytes;
    r->session = now << 1 | (r->own & 1);       /* never that of another join */
    if (r->join.asked_us && r->join.wait_us < JOIN_MOST_US) r->join.wait_us *= 2;
    r->join.asked_us = now;
    send(r, &m);
}

/* out_tick: one that is in the record, and hears of no home, was left by it: it may take over. */
static void out_tick(struct role *r, uint64_t now)
{
    bool mate = r->record.home == r->other && r->record.mate == r->own;
    if (r->copy && r->error != -ESTALE && r->reached &&
        (!r->join.asked_us || now - r->join.asked_us >= r->join.wait_us))
        join_ask(r, now);
    if (now - r->heard_us < 2 * r->lease_us) return;
    if (mate && r->copy && r->error != -ESTALE) {
        takes(r);
    } else if (may_ask(r, now)) {
        ask(r, ROLE_READ_RECORD, 0, now);
    }
}

/* ---- the witness's answers ---- */

static void given(struct role *r, const struct role_message *m, uint64_t now)
{
    bool vouched = r->asked == ROLE_VOUCHED + 1;
    if ((!vouched && r->asked != ROLE_WANT_RECORD + 1) || m->record.home != r->own ||
        (m->record.mate != 0) != r->wants_mate)
        return;
    if (r->is == ROLE_TAKING && !may_open(r, now)) return;      /* asked again, and told then */
    r->record = m->record;
    r->asked = 0;
    r->term = m->record.term;
    if (r->is == ROLE_TAKING) {
        opens(r);
    } else if (r->is == ROLE_HOME && m->record.mate) {
        struct role_message named = { .kind = ROLE_NAMED };
        r->named = true;
        send(r, &named);
    } else if (r->is == ROLE_HOME && (r->lost || !vouched)) {
        alone(r);
    }
    if (vouched) r->vouched = false;
}

static void told(struct role *r, const struct role_message *m, uint64_t now)
{
    if (!r->asked || r->vouched) return;        /* a person knows better than the record */
    r->record = m->record;
    r->asked = 0;
    bool mine = r->record.home == r->own, mate = r->record.mate == r->own;
    if (r->is == ROLE_SPARE) return;
    if (!mine && mate && r->is == ROLE_TAKING) {
        r->term = r->record.term;
    } else if (!mine) {
        if (r->is != ROLE_OUT) goes_out(r, now);
    } else if (r->is == ROLE_HOME || r->record.mate) {
        r->term = r->record.term;
        if (r->is == ROLE_HOME) return;
        copy_drop(r);                           /* recovers nothing before it may (NH6) */
        r->is = ROLE_HOME;
        r->frozen = r->lost = true;
    } else if (may_open(r, now)) {
        r->term = r->record.term;
        alone(r);
    } else if (r->is != ROLE_TAKING) {
        copy_drop(r);
        r->is = ROLE_STARTING;
    }
}

/* ---- what happens ---- */

void role_start(struct role *r, uint64_t now)
{
    r->is = ROLE_STARTING;
    r->answered_us = r->heard_us = now;         /* this copy may have given a lease a moment ago */
    r->ask_number = now;
    ask(r, ROLE_READ_RECORD, 0, now);
}

void role_tick(struct role *r, uint64_t now)
{
    if (r->is == ROLE_STARTING && may_ask(r, now)) ask(r, ROLE_READ_RECORD, 0, now);
    if (r->is == ROLE_TAKING && may_ask(r, now)) ask(r, ROLE_WANT_RECORD, 0, now);
    if (r->is == ROLE_HOME) home_tick(r, now);
    if (r->is == ROLE_SPARE) spare_tick(r, now);
    if (r->is == ROLE_OUT) out_tick(r, now);
}

void role_link(struct role *r, bool reached, uint64_t now)
{
    r->reached = reached;
    if (reached) return;
    r->join.asked_us = 0;
    if (r->is == ROLE_HOME && r->mate && !r->lost) lease_ends(r);
    if (r->is == ROLE_HOME && !r->mate) feed_end(r);
    if (r->is != ROLE_SPARE) return;
    if (!r->named) return goes_out(r, now);
    uint64_t silent = now - r->lease_us / 2;    /* a home that lives is let go on before that */
    if (r->heard_us > silent) r->heard_us = silent;
}

static void from_witness(struct role *r, const struct role_message *m, uint64_t now)
{
    if (m->number != r->ask_number) return;                             /* NM2 */
    if (m->kind == ROLE_GIVEN) given(r, m, now);
    if (m->kind == ROLE_RECORD) told(r, m, now);
}

void role_receive(struct role *r, int from, const struct role_message *m, uint64_t now)
{
    if (from == ROLE_TO_WITNESS) return from_witness(r, m, now);
    switch (m->kind) {
    case ROLE_JOIN: return joins(r, m, now);
    case ROLE_CATCH_UP: return catches_up(r, m, now);
    case ROLE_GROUP: return group(r, m, now);
    case ROLE_HAVE:
    case ROLE_HEARD: return has(r, m);
    case ROLE_NAMED:
        if (r->is != ROLE_SPARE || m->number != r->session) return;
        r->named = true;
        r->heard_us = now;
        r->term = m->term;
        r->record = (struct role_record){ m->term, r->other, r->own };
        return;
    case ROLE_BEAT:
        if (r->is != ROLE_SPARE || m->number != r->session) return;
        r->heard_us = now;
        return answers(r, ROLE_HEARD, m, 0, now);
    default: return;
    }
}

int role_asks_over(struct role *r, uint64_t now)
{
    (void)now;
    bool mate = r->record.home == r->other && r->record.mate == r->own;
    if (r->is == ROLE_HOME) return -EBUSY;
    if (!r->copy || !mate || (r->is == ROLE_SPARE ? !r->named : r->is != ROLE_OUT)) return -EAGAIN;
    takes(r);
    return 0;
}

int role_take_over(struct role *r, uint64_t now)
{
    if (r->is == ROLE_HOME && !r->lost) return -EBUSY;
    r->asked = 0;
    if (r->is == ROLE_HOME) {
        alone(r);
    } else {
        r->term++;
        r->is = ROLE_TAKING;
        r->answered_us = now;
        opens(r);
    }
    r->vouched = !r->error;
    return r->error;
}

bool role_hurries(const struct role *r)
{
    return r->is == ROLE_HOME && feeding(r) && (!r->mate || r->fed - r->have < FEED_AHEAD);
}

void role_end(struct role *r)
{
    feed_end(r);
    copy_drop(r);
    if (r->store) store_abandon(r->store);
    r->store = NULL;
}
