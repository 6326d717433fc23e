/*
 * parts.c - one transaction over several bases, each with a log of its own: two-phase commit
 * (parts.md).
 *
 *     VOTE      each base but the last, one after the other     it could do both, whatever happens
 *     DECIDE    the last one                                    its commit is the transaction's
 *     COMMIT    those that have voted                           published there, too
 *
 * The owner thread asks, as for managers that stack (stack.c), whose question this is. What it
 * knows dies with the machine: then the bases ask each other, by the attempt's id.
 *
 *   BP1  No base is asked to decide before all others have voted, and who has voted hears what
 *        became of it, or dies.
 *   BP2  Nothing of a part is published before the last base has answered DECIDE by a publication;
 *        a base that has voted refuses nothing that is committed.
 *   BP3  From the answer to DECIDE on nobody gives up: a kill, a doom or a time limit is too late.
 *   BP4  Each base publishes its own part, by a number of its own. No snapshot begins while one is
 *        shown and another one is not, of a process that could see both; and one that began while
 *        others were not shows nothing of objects that came later, or in another process.
 *   BP5  No snapshot begins of a process that has objects of a base which has voted for something
 *        and does not know the outcome: others may, and have made something of it that this base
 *        shows. A base says itself how long that is waited for (doubts), and votes for nothing
 *        while somebody waits.
 *   BP6  An attempt's id is that of no other one of any life: what is random differs with each life
 *        of a base, however alike two boots are (seed=).
 *
 * Locks: view. None across a question.
 */
#include "store/commit.h"
#include "store/dying.h"
#include "store/object_private.h"
#include "store/parts.h"
#include "store/stack.h"

enum { LOOK_NS = 200000 };

static uint64_t parts_begun;            /* so many were about to be shown; atomic */
static uint32_t parts_open;             /* sum of what all ports owe, and doubt; atomic */
static uint32_t parts_awaited;          /* snapshots that wait for all of that; atomic */

/* ---- what takes part ---- */

bool parts_possible(const struct view *v, const struct port *p)
{
    bool all = !v->group.rank && p->base->voter.votes && v->txn.enlisted->base->voter.votes;
    for (unsigned i = 0; i < v->group.other_count; i++)
        all &= v->group.other[i]->base->voter.votes;
    return all && !v->txn.enlisted->dead;
}

static bool has_base(const struct view *v, const struct port *base)
{
    bool has = v->txn.enlisted->base == base;
    for (unsigned i = 0; i < v->group.other_count; i++)
        has |= v->group.other[i]->base == base;
    return has;
}

int parts_enlist(struct view *v, int handle, struct port **out)
{
    struct port *p = port_lift(handle);
    if (handle_failed(p))
        return (int)(long)p;
    struct port *commit = object_commit_port_of(p);
    bool dead = __atomic_load_n(&p->dead, __ATOMIC_RELAXED);
    port_put(p);
    *out = commit;
    if (!commit)
        return dead ? -EOWNERDEAD : -EINVAL;
    int e = 0;
    if (commit->rank) {
        e = v->txn.enlisted ? port_other_error(v->txn.enlisted) : -EXDEV;
    } else if (!v->txn.enlisted) {
        v->txn.enlisted = commit;
        return 0;
    } else if (!has_base(v, commit)) {
        e = port_switch(v, commit);
    }
    port_put(commit); /* v has one of its own */
    return e;
}

/* awaited: does a snapshot wait for the base? */
static bool awaited(const struct port *base)
{
    return __atomic_load_n(&base->voter.awaited, __ATOMIC_SEQ_CST) ||
           __atomic_load_n(&parts_awaited, __ATOMIC_SEQ_CST);
}

/* doubts_are sets a port's doubts. Snapshots that are about to begin look again. Port locked. */
static void doubts_are(struct port *p, uint32_t doubts)
{
    uint32_t before = __atomic_exchange_n(&p->voter.doubts, doubts, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&parts_open, doubts - before, __ATOMIC_SEQ_CST);
    if (doubts > before)
        __atomic_fetch_add(&parts_begun, 1, __ATOMIC_SEQ_CST);
}

void parts_port_dead(struct port *p)
{
    lock_acquire(&p->lock);
    doubts_are(p, 0);
    lock_release(&p->lock);
}

HANDLE_CALL(kd_port_votes, struct port *p, HANDLE_PORT, KD_RIGHT_RECEIVE, 0)
{
    struct kd_voter k;
    if (a[2] > UINT16_MAX)
        return -EINVAL;
    if (copy_from_user(&k, a[1], sizeof k))
        return -EFAULT;
    lock_acquire(&p->lock);
    int e = p->dead ? -EBADF : p->rank ? -EINVAL : !p->name[0] ? -EPERM : 0;
    if (!e && p->voter.votes) {
        e = memcmp(p->voter.name, k.name, sizeof k.name) ? -EBUSY : 0;
    } else if (!e) {
        memcpy(p->voter.name, k.name, sizeof k.name);
        random_mix(&k, sizeof k); /* BP6 */
        __atomic_store_n(&p->voter.votes, true, __ATOMIC_RELEASE);
    }
    if (!e)
        doubts_are(p, (uint32_t)a[2]);
    lock_release(&p->lock);
    return e ? e : awaited(p);
}

HANDLE_CALL(kd_port_owner, struct port *p, HANDLE_PORT, KD_RIGHT_CALL, 0)
{
    (void)a;
    return __atomic_load_n(&p->dead, __ATOMIC_RELAXED) ? -EOWNERDEAD : p->owner->pid;
}

/* ---- batches ---- */

static struct part_batch *batch_for(struct view *v, const struct port *base)
{
    struct view_parts *p = &v->group.parts;
    struct part_batch *b = p->batch;
    while (b < p->batch + p->batch_count && b->port != base)
        b++;
    return b < p->batch + p->batch_count ? b : NULL;
}

/* decider returns the base that decides: the one whose batch comes with the commit, or that of the
 * last store. */
static struct port *decider(const struct view *v)
{
    struct port *decides = v->group.parts.decides;
    return decides ? decides : v->txn.enlisted->base;
}

bool parts_batch_twice(struct view *v)
{
    return v->commit.batch.first && v->txn.enlisted && batch_for(v, decider(v));
}

struct data *parts_batch(struct view *v)
{
    if (v->commit.batch.first && v->group.asked == decider(v))
        return &v->commit.batch;
    struct part_batch *b = batch_for(v, v->group.asked);
    return b ? &b->data : NULL;
}

void parts_drop(struct view *v)
{
    struct view_parts *p = &v->group.parts;
    while (p->batch_count)
        data_drop(&p->batch[--p->batch_count].data);
}

long kd_txn_batch(const uint64_t a[6])
{
    struct view *v = thread_this()->view;
    struct port *port;
    if (!v || v->state != VIEW_ACTIVE)
        return -ENOENT;
    if (a[2] == 0 || v->snapshot_rights)
        return -EINVAL;
    int e = parts_enlist(v, (int)a[0], &port);
    if (e)
        return e;
    if (batch_for(v, port))
        return -EEXIST;
    struct view_parts *p = &v->group.parts;
    struct part_batch *b = &p->batch[p->batch_count]; /* at most one for each that is enlisted */
    *b = (struct part_batch){.port = port};
    e = data_in(&b->data, a[1], a[2]);
    p->batch_count += !e;
    return e;
}

/* ---- the commit ---- */

static void base_add(struct view_parts *p, struct port *base)
{
    unsigned i = 0;
    while (i < p->count && p->base[i] != base)
        i++;
    p->base[i] = base;
    p->count += i == p->count;
}

/* parts_find lists the bases; the last one decides. */
static void parts_find(struct view *v)
{
    struct view_parts *p = &v->group.parts;
    struct port *last = decider(v);
    p->count = 0;
    for (unsigned i = 0; i < v->group.other_count; i++)
        if (v->group.other[i]->base != last)
            base_add(p, v->group.other[i]->base);
    if (v->txn.enlisted->base != last)
        base_add(p, v->txn.enlisted->base);
    base_add(p, last);
}

/* part_ask asks one of the bases. As view_ask. */
static int part_ask(struct view *v, struct port *base, enum kd_part part)
{
    lock_acquire(&v->lock);
    v->group.parts.part = (uint8_t)part;
    lock_release(&v->lock);
    uint64_t *word = &v->question.item.word[3], flags = *word & UINT32_MAX;
    *word = flags | (uint64_t)part << KD_PART_SHIFT;
    uint64_t logged = v->commit.logged;
    v->commit.logged = v->commit.logged_spilled = 0; /* of this part alone (kd_txn_publish) */
    int answer = group_ask_at(v, base);
    v->commit.logged += logged;
    return answer;
}

static void parts_owe(struct view *v, uint32_t many)
{
    const struct view_parts *p = &v->group.parts;
    for (unsigned i = 0; i + 1 < p->count; i++)
        __atomic_fetch_add(&p->base[i]->voter.owes, many, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&parts_open, many * (p->count - 1), __ATOMIC_SEQ_CST);
    if (many == 1)
        __atomic_fetch_add(&parts_begun, 1, __ATOMIC_SEQ_CST);
}

/* part_paid: a base shows its part, or has died, and nothing of it is granted (BG4). */
static void part_paid(struct port *base)
{
    __atomic_fetch_sub(&base->voter.owes, 1, __ATOMIC_SEQ_CST);
    __atomic_fetch_sub(&parts_open, 1, __ATOMIC_SEQ_CST);
}

/* snapshots_first lets snapshots that wait for one of the bases go first, or they might wait for
 * ever: what they wait for ends by itself. Before the first vote: they wait for those, too. */
static void snapshots_first(struct view *v)
{
    const struct view_parts *p = &v->group.parts;
    for (unsigned i = 0; i < p->count; i++)
        while (awaited(p->base[i]) && !v->doom && arch_time_ns() < v->txn.deadline_ns &&
               !thread_this()->killed)
            (void)!thread_park_until(arch_time_ns() + LOOK_NS);
}

/* decide asks the last base. *outcome: what the others are to hear. */
static int decide(struct view *v, enum kd_part *outcome)
{
    const struct view_parts *p = &v->group.parts;
    parts_owe(v, 1);
    int answer = part_ask(v, p->base[p->count - 1], KD_PART_DECIDE);
    if (answer == EOWNERDEAD && v->question.received != v->question.token)
        answer = ECANCELED; /* it never knew of it */
    *outcome = !answer                                       ? KD_PART_COMMIT
               : answer == EOWNERDEAD || answer == EIO       ? KD_PART_ASK
                                                             : KD_PART_UNDO;
    if (*outcome == KD_PART_UNDO)
        parts_owe(v, -1u);
    return answer;
}

/* parts_tell tells the first `voted` bases the outcome. Whoever finds it out tells it to the
 * others. Returns what the transaction hears. */
static int parts_tell(struct view *v, unsigned voted, enum kd_part outcome, int answer)
{
    const struct view_parts *p = &v->group.parts;
    bool owes = outcome != KD_PART_UNDO;
    for (unsigned i = 0; i < voted; i++) {
        int said = part_ask(v, p->base[i], outcome);
        if (owes)
            part_paid(p->base[i]);
        if (outcome != KD_PART_ASK || said == EOWNERDEAD)
            continue;
        outcome = said ? KD_PART_UNDO : KD_PART_COMMIT;
        answer = said ? ECANCELED : 0;
    }
    return outcome == KD_PART_ASK ? EIO : answer; /* nobody knows, nor is there who asks */
}

int parts_ask(struct view *v)
{
    struct view_parts *p = &v->group.parts;
    parts_find(v);
    if (p->count == 1)
        return group_ask_at(v, p->base[0]);
    random_bytes(p->id, sizeof p->id);
    enum kd_part outcome = KD_PART_UNDO;
    unsigned voted = 0;
    int answer = 0;
    snapshots_first(v);
    while (!answer && voted + 1 < p->count) {
        answer = part_ask(v, p->base[voted], KD_PART_VOTE);
        voted += !answer;
    }
    if (answer == EOWNERDEAD)
        answer = ECANCELED; /* it is undone, for certain */
    if (!answer)
        answer = decide(v, &outcome);
    csn_t csn = v->commit.csn;
    answer = parts_tell(v, voted, outcome, answer);
    v->commit.csn = csn ? csn : v->commit.csn;
    lock_acquire(&v->lock);
    p->part = KD_PART_ALL;
    p->count = 0;
    lock_release(&v->lock);
    return answer;
}

/* ---- the bases' side ---- */

long kd_txn_parts(const uint64_t a[6])
{
    struct kd_parts k;
    if (copy_from_user(&k, a[0], sizeof k))
        return -EFAULT;
    struct view *v = view_claim(k.view, k.token, ASKED_COMMIT);
    if (!v)
        return -ESRCH;
    const struct view_parts *p = &v->group.parts;
    memcpy(k.id, p->id, sizeof k.id);
    k.part = p->part;
    k.count = p->part ? p->count : 0;
    for (unsigned i = 0; i < k.count; i++)
        memcpy(k.base[i], p->base[i]->voter.name, sizeof k.base[i]);
    view_claim_end(v);
    return copy_to_user(a[0], &k, sizeof k) ? -EFAULT : 0;
}

long kd_txn_voted(const uint64_t a[6])
{
    struct view *v = view_claim(a[0], a[1], ASKED_COMMIT | ASKED_VOTE);
    if (!v)
        return -ESRCH;
    view_answer(v, 0);
    return 0;
}

/* ---- snapshots ---- */

/* owing finds a base, `which` or, if that is NULL, any, that has objects which the process has, and
 * is in doubt of something (BP5); or owes something, and the process has objects of another one,
 * too: of one alone nobody sees a half. A reference, or NULL. */
static struct port *owing(struct process *p, const struct port *which)
{
    struct port *found = NULL, *doubts = NULL, *other = NULL;
    bool several = false;
    lock_acquire(&p->attach_lock);
    for (unsigned i = 0; i < p->attachment_count && !doubts; i++) {
        struct port *base = p->attachments[i]->object->commit_port->base;
        if (!base->voter.votes)
            continue;
        several |= other && other != base;
        other = base;
        if (which && which != base)
            continue;
        if (__atomic_load_n(&base->voter.owes, __ATOMIC_SEQ_CST))
            found = base;
        if (__atomic_load_n(&base->voter.doubts, __ATOMIC_SEQ_CST))
            doubts = base;
    }
    found = doubts ? doubts : several ? found : NULL;
    if (found)
        port_get(found);
    lock_release(&p->attach_lock);
    return found;
}

static bool nothing_owed(void)
{
    return !__atomic_load_n(&parts_open, __ATOMIC_SEQ_CST);
}

/* base NULL: of who has no object, to whom the snapshot's point is nobody's in particular. */
static bool owes_still(struct process *p, const struct port *base)
{
    struct port *found = base ? owing(p, base) : NULL;
    if (found)
        port_put(found);
    return base ? found != NULL : !nothing_owed();
}

/* moment_passes parks the thread for a moment. 0; -ETIMEDOUT, -EINTR. */
static int moment_passes(uint64_t until_ns)
{
    return arch_time_ns() >= until_ns                           ? -ETIMEDOUT
           : thread_park_until(arch_time_ns() + LOOK_NS) == -EINTR ? -EINTR
                                                                   : 0;
}

/* owed_wait waits until no base owes the process anything, and none of its is in doubt, at one
 * moment, behind which `*begun` is stale. */
static int owed_wait(struct process *p, uint64_t until_ns, uint64_t *begun)
{
    int e = 0;
    while (!e) {
        *begun = __atomic_load_n(&parts_begun, __ATOMIC_SEQ_CST);
        if (nothing_owed())
            break;
        struct port *base = p->attachment_count ? owing(p, NULL) : NULL;
        if (!base && p->attachment_count)
            break;
        uint32_t *waits = base ? &base->voter.awaited : &parts_awaited;
        __atomic_fetch_add(waits, 1, __ATOMIC_SEQ_CST);
        while (!e && owes_still(p, base))
            e = moment_passes(until_ns);
        __atomic_fetch_sub(waits, 1, __ATOMIC_SEQ_CST);
        if (base)
            port_put(base);
    }
    return e;
}

int parts_snapshot_begin(struct view *v, uint32_t timeout_ms)
{
    uint64_t until = timeout_ms ? arch_time_ns() + (uint64_t)timeout_ms * 1000000 : UINT64_MAX;
    for (struct process *p = v->process;;) {
        uint64_t begun;
        uint32_t generation = __atomic_load_n(&p->attach_generation, __ATOMIC_SEQ_CST);
        int e = owed_wait(p, until, &begun);
        bool all = nothing_owed();
        if (!e)
            e = version_snapshot_begin(v, NULL);
        v->snapshot.seen.given = false;
        v->snapshot.seen.only = all ? 0 : p->pid;
        v->snapshot.seen.generation = generation;
        bool dying = object_dying(p, KD_OBJECT_TRANSACTIONAL, 0, ~0ull); /* it owes nothing (BG3) */
        if (e || (!dying && __atomic_load_n(&parts_begun, __ATOMIC_SEQ_CST) == begun))
            return e;
        version_snapshot_end(v); /* one was about to be shown meanwhile */
        if ((e = deaths_wait(p, KD_OBJECT_TRANSACTIONAL, 0, ~0ull)))
            return e;
    }
}

int parts_torn(const struct view *v)
{
    const struct snapshot *s = &v->snapshot.seen;
    const struct process *p = v->process;
    if (likely(!s->only) || v->snapshot.at == ~0ull ||
        (s->only == p->pid &&
         s->generation == __atomic_load_n(&p->attach_generation, __ATOMIC_SEQ_CST)))
        return 0;
    return s->given ? -ESTALE : -EDEADLK;
}
