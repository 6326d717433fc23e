/*
 * locus.c - chains of calls: where each is, and what happens when the caller of one goes away
 * (messages.md).
 *
 * A locus is a thread wherever its call is: who serves the call acts for it, in its time and at its
 * priority, and so does who serves a call that the server makes meanwhile (messages.md).
 *
 * LO1  A thread serves a call while its `given` is the call's slot, the slot's `servant` is the
 *      thread, and the call waits for an answer. It serves one at a time.
 * LO2  A thread acts for another (thread->locus) only while it serves a call, or until the end of
 *      the system call that answers it; so never after the other has left that call.
 */
#include "message/call_private.h"

void locus_home(struct thread *me)
{
    me->given = NULL;
    thread_locus(me, me, NULL);
}

uint64_t locus_serves(const struct thread *t)
{
    const struct call *c = __atomic_load_n(&t->given, __ATOMIC_ACQUIRE);
    return c ? call_token(c) : 0;
}

/* call_inside finds the call that thread t waits for now, and its token; NULL: none. */
static struct call *call_inside(const struct thread *t, uint64_t *token)
{
    struct call *c = __atomic_load_n(&t->call, __ATOMIC_ACQUIRE);
    uint64_t word = c ? __atomic_load_n(&c->word, __ATOMIC_ACQUIRE) : CALL_IDLE;
    unsigned state = word & STATE_MASK;
    *token = word & ~STATE_MASK;
    return state != CALL_IDLE && state != CALL_ANSWERED && c->caller == t ? c : NULL;
}

/* call_cut: the locus of c, which `root` serves, goes away. Who serves c acts for itself, and who
 * serves calls inside of it for that one; these calls will tell their callers, each when it ends.
 * Returns who waits for the innermost of them; NULL: there is none. */
static struct thread *call_cut(const struct call *c, struct thread *root)
{
    struct thread *waits = NULL, *s = root;
    for (unsigned i = 0; i < DEPTH_MAX && s && thread_locus(s, root, c); i++) {
        uint64_t token;
        struct call *inside = call_inside(s, &token);
        if (!inside)
            break;
        __atomic_store_n(&inside->cut, token, __ATOMIC_SEQ_CST);
        waits = s;
        c = inside;
        s = c->servant;
    }
    return waits;
}

bool call_told(struct call *c, uint64_t token)
{
    bool off = port_withdraw(c->port, &c->item);
    if (off)
        call_set(c, token, CALL_IDLE);
    else if (c->port->tells)
        port_notify(c->port, KD_NOTIFY_CUT);
    return off;
}

unsigned call_path(const struct thread *t, int pids[CALL_PATH_MAX])
{
    unsigned n = 0;
    uint64_t token;
    for (const struct call *c = call_inside(t, &token); c && n < CALL_PATH_MAX;) {
        const struct thread *s = c->servant;
        pids[n++] = s ? s->pid : 0;
        c = s && s->given == c ? call_inside(s, &token) : NULL;
    }
    return n;
}

/* call_leave takes a call, which is in no queue, out of the caller's hands: its new state;
 * CALL_ANSWERED: it is too late. calls_lock is held. */
static enum call_state call_leave(struct call *c, uint64_t token)
{
    for (;;) { /* others may move it on meanwhile, but not for ever: ANSWERED is the end */
        if (__atomic_load_n(&c->word, __ATOMIC_ACQUIRE) == (token | CALL_ANSWERED))
            return CALL_ANSWERED;
        if (call_move(c, token, CALL_DELIVERED, CALL_IDLE))
            return CALL_IDLE;
        if (call_move(c, token, CALL_TAKEN, CALL_ORPHAN) ||
            call_move(c, token, CALL_ANSWERING, CALL_ORPHAN))
            return CALL_ORPHAN;
    }
}

bool call_abandon(struct call *c, uint64_t token)
{
    struct port *port = c->port;
    if (port_withdraw(port, &c->item)) {
        call_set(c, token, CALL_IDLE);
        return true;
    }
    lock_acquire(&calls_lock); /* an orphan is nobody else's before it was cut */
    enum call_state left = call_leave(c, token);
    struct thread *waits = left == CALL_ANSWERED ? NULL : call_cut(c, c->servant);
    lock_release(&calls_lock);
    if (left == CALL_ANSWERED)
        return false;
    if (left == CALL_ORPHAN) {
        limit_uncharge(process_this(), KD_LIMIT_MESSAGES, 1);
        thread_this()->call = NULL;
    }
    if (waits)
        thread_wake(waits);
    else if (port->tells)
        port_notify(port, KD_NOTIFY_CUT);
    return true;
}
