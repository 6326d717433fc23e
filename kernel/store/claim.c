/*
 * claim.c - the question that a view asks a manager: asked, received, claimed, answered.
 *
 *                      KD_PORT_RECEIVE      view_claim
 *   view_ask ---> NONE --------------> NONE ----------> CLAIMED ----> 0 or an errno: view_answer
 *                  |                    ^                  |
 *                  |                    +------------------+ view_claim_end
 *                  +----> ECANCELED: the owner gives up
 *
 * QU1  A view asks one thing at a time, and its owner thread sleeps meanwhile: to commit, to spill
 *      copies, or to bring one back. The item in the view says what. The token is new with each
 *      question, and an answer needs the one that was received last.
 * QU2  The owner alone gives up, and not while a call of the manager's has claimed the view. A
 *      COMMIT that its base has received may be durable: then the owner waits on, and if it was
 *      killed it leaves its process, which can end (commit_forsaken).
 * QU3  The sweep of an object that dies takes nothing of a view that a call has claimed, whichever
 *      manager's: it waits for the call's end, and then has a turn, a moment in which no other call
 *      claims the view. So who claims it again and again keeps no sweep out, and no sweep a call.
 *
 * Locks: view. No lock is held while a thread sleeps.
 */
#include "store/commit.h"
#include "store/parts.h"
#include "store/stack.h"
#include "store/wait.h"

/* ---- the owner's side ---- */

/* why_give_up returns why the owner would rather not wait on, an errno; 0: it waits. */
static int why_give_up(const struct view *v)
{
    return thread_this()->killed ? EINTR
           : v->txn.deadline_ns != ~0ull && arch_time_ns() >= v->txn.deadline_ns ? ETIMEDOUT
           : !v->doom ? 0
           : v->question.item.kind == ITEM_COMMIT ? v->doom : EAGAIN;
}

/* give_up takes the question back (QU2). True: nobody answers it any more. */
static bool give_up(struct view *v, struct port *port)
{
    if (v->group.parts.part >= KD_PART_COMMIT)
        return false; /* BP3 */
    if (v->question.item.kind == ITEM_COMMIT && !port->rank)
        return port_withdraw(port, &v->question.item) || v->question.received != v->question.token;
    lock_acquire(&v->lock);
    bool can = v->question.answer == ANSWER_NONE;
    if (can)
        v->question.answer = ECANCELED;
    v->group.leaving = !can; /* while it is claimed */
    lock_release(&v->lock);
    if (can)
        port_withdraw(port, &v->question.item);
    return can;
}

/* await is the sleep of view_ask, for which it is inline. */
HOT int await(struct view *v, struct port *port)
{
    static const uint8_t waits_for[ITEM_KINDS] = {
        [ITEM_COMMIT] = KD_TRACE_FOR_COMMIT, [ITEM_SPILL] = KD_TRACE_FOR_SPILL,
        [ITEM_UNSPILL] = KD_TRACE_FOR_SPILL};
    bool firm = v->question.item.kind == ITEM_COMMIT && !(port && port->rank);
    int answer;
    while ((answer = __atomic_load_n(&v->question.answer, __ATOMIC_ACQUIRE)) < 0) {
        TRACE(WAIT, waits_for[v->question.item.kind], 0, 0);
        int e = why_give_up(v);
        if (e && port && give_up(v, port))
            return e;
        if (!process_this() || (e == EINTR && !firm))
            thread_park();
        else if (e == EINTR)
            process_thread_part();
        else
            (void)!thread_park_until(e ? THREAD_NEVER : v->txn.deadline_ns);
    }
    return answer;
}

int view_ask(struct view *v, struct port *port)
{
    assert(v->owner == thread_this()); /* QU1 */
    v->question.token++;
    v->group.asked = port;
    v->copies.diff_cursor = v->copies.told = 0;
    /* nobody answers before this */
    __atomic_store_n(&v->question.answer, ANSWER_NONE, __ATOMIC_RELEASE);
    if (port->rank && v->question.item.kind == ITEM_COMMIT)
        stack_waits(v);
    return port_post(port, &v->question.item) ? await(v, port) : port_death(port);
}

int view_await(struct view *v) { return await(v, NULL); }

void view_answer(struct view *v, int answer)
{
    struct thread *owner = v->owner; /* once it is answered, it may give up the view */
    __atomic_store_n(&v->question.answer, answer, __ATOMIC_RELEASE);
    thread_wake(owner);
}

/* ---- the manager's side ---- */

/* part_admits tells whether the part that is asked may be published, voted for, or refused (BP2):
 * who voted does what is decided. View locked. */
static bool part_admits(const struct view *v, unsigned asked)
{
    unsigned part = v->group.parts.part;
    return !(asked & ASKED_BASE && (part == KD_PART_VOTE || part == KD_PART_UNDO)) &&
           !(asked & ASKED_VOTE && part != KD_PART_VOTE) &&
           !(asked & ASKED_REFUSAL && part == KD_PART_COMMIT);
}

/* A sweep that met a claim has its turn for TURN_NS, which is longer than it sleeps, also where a
 * machine is slow or busy; and for LOOK_NS behind what it did there last. Who is to claim looks so
 * often. */
enum { TURN_NS = 50000000, LOOK_NS = 1000000 };

/* sweep_has_turn tells whether a sweep has its turn (QU3). */
static bool sweep_has_turn(const struct view *v)
{
    uint64_t end = __atomic_load_n(&v->question.turn_end_ns, __ATOMIC_RELAXED);
    return unlikely(end) && arch_time_ns() < end;
}

bool view_claimed(const struct view *v)
{
    struct view *of = v->group.joined ? group_of(v) : (struct view *)v;
    bool is = __atomic_load_n(&of->question.answer, __ATOMIC_ACQUIRE) == ANSWER_CLAIMED;
    if (is || sweep_has_turn(of))
        __atomic_store_n(&of->question.turn_end_ns, arch_time_ns() + (is ? TURN_NS : LOOK_NS),
                         __ATOMIC_RELAXED);
    return is;
}

/* claim_once claims the view for a manager's call. 0; -ESRCH: not such a view, its message was not
 * received (a token can be guessed), or another thread works on it; -EAGAIN: in a moment (QU3). */
static int claim_once(struct view *v, uint64_t token, unsigned asked)
{
    int e = -ESRCH;
    lock_acquire(&v->lock);
    const struct port *p = v->group.asked; /* there, while nobody has answered */
    if (asked >> v->question.item.kind & 1 && v->question.token == token &&
        v->question.received == token && v->question.answer == ANSWER_NONE &&
        p->owner == process_this() && !p->dead && !(asked & ASKED_BASE && p->rank) &&
        part_admits(v, asked)) {
        e = sweep_has_turn(v) ? -EAGAIN : 0;
        if (!e)
            v->question.answer = ANSWER_CLAIMED;
    }
    lock_release(&v->lock);
    return e;
}

/* view_claim_end gives the view back. Its owner may have been doomed meanwhile, and could not go
 * (QU2); the port may have died. */
void view_claim_end(struct view *v)
{
    lock_acquire(&v->lock);
    assert(v->question.answer == ANSWER_CLAIMED); /* QU2 */
    const struct port *p = v->group.asked;
    bool dead = __atomic_load_n(&p->dead, __ATOMIC_SEQ_CST);
    __atomic_store_n(&v->question.answer, dead ? port_death(p) : ANSWER_NONE, __ATOMIC_RELEASE);
    if ((dead || v->group.leaving) && v->owner)
        thread_wake(v->owner);
    v->group.leaving = false;
    lock_release(&v->lock);
}

struct view *view_claim(uint64_t id, uint64_t token, unsigned asked)
{
    int e = -ESRCH;
    while (id < KD_VIEW_MAX && (e = claim_once(&views[id], token, asked)) == -EAGAIN &&
           thread_park_until(arch_time_ns() + LOOK_NS) != -EINTR)
        continue; /* with one CPU a loop that yields would keep a sweep's timer out */
    return e ? NULL : &views[id];
}

int views_claim(const struct kd_publish *list, uint64_t n, unsigned asked)
{
    for (uint64_t i = 0; i < n; i++)
        if (!view_claim(list[i].view, list[i].token, asked)) {
            while (i)
                view_claim_end(&views[list[--i].view]);
            return -ESRCH;
        }
    return 0;
}

/* ---- for ports: the item is delivered, or cannot be; the manager is gone ---- */

void view_item_taken(struct item *i, struct notice *n)
{
    struct view *v = container_of(i, struct view, question.item);
    n->home = v;
    n->message.token = v->question.token;
    /* else its owner takes it back: give_up */
    if (!v->doom || i->kind != ITEM_COMMIT || v->group.parts.part >= KD_PART_COMMIT)
        v->question.received = v->question.token;
    if (v->group.asked->rank)
        return; /* the batch is for the base */
    struct data *batch = i->kind == ITEM_COMMIT ? parts_batch(v) : NULL; /* a SPILL brings none */
    if (!batch)
        return;
    n->data = *batch;
    n->message.data_bytes = n->data.bytes;
    *batch = (struct data){0};
}

void view_item_lost(struct notice *n, int error)
{
    struct view *v = n->home;
    lock_acquire(&v->lock);
    if (v->question.token == n->message.token && v->question.answer == ANSWER_NONE)
        view_answer(v, error);
    lock_release(&v->lock);
}

/* views_port_dead answers all views that wait for the word of a manager that is gone. Where a
 * thread of the manager works on a view still, its call answers, or its end (view_claim_end). A
 * group that a stacked manager is part of is undone, unless the base has it (SK14). */
static void views_port_dead(struct port *p)
{
    views_each_locked(v, &views_all) { /* else its next transaction could be doomed for this one */
        bool part = view_enlists(v, p), commits = v->state == VIEW_COMMITTING;
        if (part && v->state == VIEW_ACTIVE)
            view_doom_locked(v, EOWNERDEAD);
        else if (commits && !p->rank && v->group.asked == p && v->question.answer == ANSWER_NONE)
            view_answer(v, EOWNERDEAD);
        else if (part && commits)
            group_doom(v);
    }
    lock_acquire(&p->lock);
    for (struct view *v; (v = list_take(struct view, &p->credit_queue, credits.link));) {
        v->credits.waiting = false;
        thread_wake(v->owner);
    }
    lock_release(&p->lock);
}

void store_port_dead(struct port *p)
{
    views_port_dead(p);
    parts_port_dead(p);
    objects_end(p);
    ports_above_die(p); /* SK17 */
}
