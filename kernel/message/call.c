/*
 * call.c - synchronous calls: a caller's message to a receiver, the receiver's answer back, and
 * how receivers get everything else that is queued at their port.
 *
 * A thread that calls has a slot of the fixed table `calls`, from its first call to its end. No
 * lock is held while a message is copied into the slot or out of it.
 *
 * A slot's `word` is its sequence number, its place in the table and its state. Without the state
 * it is the call's token. Whoever changes the state of a call that others know does so by a
 * compare-exchange of the whole word: a late or forged token finds another word (PO2).
 *
 *      call_send         (receiver)       call_deliver         call_claim         call_done
 *  IDLE -------> QUEUED ---------> TAKEN ----------> DELIVERED ---------> ANSWERING ---> ANSWERED
 *                  |                 |                   |                    |             |
 *  caller leaves: IDLE            ORPHAN               IDLE                ORPHAN       (returns)
 *
 *   state      who may touch the slot                       who leaves it
 *   IDLE       its thread                                   its thread (as from ANSWERED)
 *   QUEUED     nobody; the item is at the port              receiver, port_die, port_withdraw
 *   TAKEN      one receiver, which copies it                call_open, call_fail
 *   DELIVERED  nobody; the server has the token             call_claim, calls_port_dead
 *   ANSWERING  one thread of the server, which fills it     call_done, call_open
 *   ANSWERED   its thread
 *   ORPHAN     who had it in TAKEN or ANSWERING             call_free
 *
 * A caller that is killed, or waits no longer, leaves from any of them (call_abandon), whatever the
 * server does: only a slot that is in somebody's hands stays behind, and they free it.
 *
 * A port may die while threads of its owner hold calls in TAKEN or ANSWERING. `forsaken` tells
 * them, as soon as the call would be DELIVERED, that nobody is to answer it any more.
 *
 * Locks: the port's, for queue and receivers. calls_lock for the list of free slots, and for who
 * leaves a call behind in others' hands.
 */
#include "message/call_private.h"

struct lock calls_lock = LOCK_INIT(RANK_PORT, "calls");
static struct call calls[CALLS_MAX];
static struct call *free_calls;     /* the last one freed first: few are ever used */
static struct call *calls_end = calls; /* behind all that were used once, and are set up; atomic */

/* The token of the thread's next call, for traces; 0 before its first. */
uint64_t call_next_token(void)
{
    const struct call *c = thread_this()->call;
    return c ? (c->word & ~STATE_MASK) + SEQUENCE_ONE : 0;
}

/* call_served_from: has process `pid` a call that the calling process received and has not
 * answered? Such a process asks for something, so it may be given something (kd_space_attach). */
bool call_served_from(int pid)
{
    for (const struct call *c = calls; c < __atomic_load_n(&calls_end, __ATOMIC_SEQ_CST); c++) {
        if ((__atomic_load_n(&c->word, __ATOMIC_ACQUIRE) & STATE_MASK) == CALL_DELIVERED &&
            c->pid == (uint64_t)pid && c->server == process_this())
            return true;
    }
    return false;
}

/* ---- slots ---- */

static RARE struct call *call_new(void)
{
    if (!limit_charge(process_this(), KD_LIMIT_MESSAGES, 1))
        return NULL;
    lock_acquire(&calls_lock);
    struct call *c = free_calls;
    if (c) {
        free_calls = c->next_free;
    } else if (calls_end < calls + CALLS_MAX) {
        c = calls_end;
        c->word = SEQUENCE_ONE | (uint64_t)(c - calls) << STATE_BITS;
        item_prepare(&c->item, ITEM_CALL);
        __atomic_store_n(&calls_end, c + 1, __ATOMIC_SEQ_CST);
    }
    lock_release(&calls_lock);
    if (!c) {
        limit_uncharge(process_this(), KD_LIMIT_MESSAGES, 1);
        return NULL;
    }
    c->caller = thread_this();
    c->pid = (uint64_t)process_this()->pid;
    thread_this()->call = c;
    return c;
}

/* call_drop frees what travels with the message: its data, its handle, its badge. */
static RARE void call_drop(struct call *c)
{
    data_drop(&c->data);
    handle_drop(&c->passed);
    handle_drop(&c->by);
    c->laden = false;
}

static RARE void call_free(struct call *c)
{
    assert(!c->item.queued); /* PO1 */
    call_drop(c);
    call_set(c, call_token(c), CALL_IDLE);
    lock_acquire(&calls_lock);
    c->next_free = free_calls;
    free_calls = c;
    lock_release(&calls_lock);
}

/* ---- what both directions do ---- */

static RARE int call_data_in(struct call *c)
{
    c->laden = true;
    return data_in(&c->data, (vaddr_t)c->message.data, c->message.data_bytes);
}

static RARE int handle_in(struct call *c)
{
    const struct kd_message *m = &c->message;
    int e = m->handle < 0 ? -1
                          : handle_lift(process_this(), m->handle, m->handle_rights,
                                        KD_RIGHT_GRANT, &c->passed);
    c->laden |= c->passed.type != HANDLE_NONE;
    badge_trace(KD_TRACE_PASSED, &c->passed, 0);
    return e ? e : -1;
}

/* message_in copies the sender's message into the slot, with its data and handle. 0; -EFAULT,
 * -E2BIG, -ENOMEM. A handle that cannot be sent tells its error to the receiver. */
HOT int message_in(struct call *c, vaddr_t at)
{
    struct kd_message *m = &c->message;
    int e = user_words_in(m, at, MESSAGE_WORDS);
    if (unlikely(e))
        return e;
    if (unlikely(m->data_bytes) && (e = call_data_in(c)))
        return e;
    m->handle = unlikely(m->handle_rights) ? handle_in(c) : -1;
    return 0;
}

/* extras_out hands data, handle and badge out. 0; -EMSGSIZE: the data do not fit; -EFAULT; -EIDRM:
 * the badge has ended (RT4). */
static RARE int extras_out(struct call *c, void *buffer, uint64_t room)
{
    const struct badge *by = c->by.type ? c->by.object : NULL;
    if (by && badge_ended(by))
        return -EIDRM;
    if (by) {
        c->message.badge = by->value;
        c->message.badge_rights = c->by.rights;
    }
    if (c->data.bytes > room)
        return -EMSGSIZE;
    if (data_out((vaddr_t)buffer, &c->data))
        return -EFAULT;
    badge_trace(KD_TRACE_GOT, &c->passed, 0);
    if (c->passed.type)
        c->message.handle = handle_install(process_this(), -1, &c->passed);
    return 0;
}

/* message_out copies the slot's message to the user's struct at `at`, whose buffer fields were read
 * before. Data and handle have left the slot if this succeeds. 0, -EMSGSIZE, -EFAULT. */
HOT int message_out(struct call *c, vaddr_t at, void *buffer, uint64_t room)
{
    struct kd_message *m = &c->message;
    m->data = NULL;
    m->data_bytes = 0;
    m->buffer = buffer;
    m->buffer_bytes = 0;
    if (unlikely(c->laden)) {
        int e = extras_out(c, buffer, room);
        if (e)
            return e;
        m->data_bytes = m->buffer_bytes = c->data.bytes;
        call_drop(c);
    }
    return user_words_out(at, m, MESSAGE_WORDS);
}

/* ---- call ---- */

/* call_send gives a call to a receiver that waits, or queues it if others are before it. Returns
 * the receiver to be woken, or NULL. Port lock held. */
HOT struct thread *call_send(struct call *c, uint64_t token, struct port *p)
{
    struct thread *receiver = list_take(struct thread, &p->receivers, wait_link);
    if (likely(receiver && list_empty(&p->items))) {
        c->servant = receiver;
        call_set(c, token, CALL_TAKEN);
        __atomic_store_n(&receiver->given, c, __ATOMIC_RELEASE);
    } else {
        c->servant = NULL;
        call_set(c, token, CALL_QUEUED);
        assert(!c->item.queued && !p->dead); /* PO3 */
        c->item.queued = true;
        list_push_back(&p->items, &c->item.link);
    }
    return receiver;
}

/* call_and_park wakes the receiver and sleeps, by a direct switch if that can be. */
HOT int call_and_park(struct call *c, struct thread *receiver, uint64_t deadline)
{
    if (likely(deadline == THREAD_NEVER))
        return thread_call_and_park(receiver);
    thread_locus(receiver, thread_this(), c);
    return thread_ask_and_park(receiver, deadline);
}

/* call_wait sleeps until the call is answered: 0. -EINTR, -ETIMEDOUT: given up, the slot is idle or
 * not ours any more. */
HOT int call_wait(struct call *c, uint64_t token, struct thread *receiver, uint64_t deadline)
{
    int e = likely(receiver) ? call_and_park(c, receiver, deadline) : 0;
    while (unlikely(__atomic_load_n(&c->word, __ATOMIC_ACQUIRE) != (token | CALL_ANSWERED))) {
        if (e && call_abandon(c, token))
            return e;
        if (__atomic_load_n(&c->cut, __ATOMIC_SEQ_CST) == token && call_told(c, token))
            return -EINTR;
        e = thread_park_until(deadline);
    }
    return 0;
}

/* call_make sends the message in the slot to the port and waits for the answer in the slot. 0;
 * -ECANCELED: that of the server, if there is one, but the locus is gone; -errno. */
HOT long call_make(struct call *c, struct port *port, uint64_t deadline)
{
    uint64_t token = call_token(c) + SEQUENCE_ONE;
    const struct call *outer = thread_this()->given;
    c->depth = 0;
    if (unlikely(outer) && (c->depth = outer->depth + 1) >= DEPTH_MAX)
        return -ELOOP;
    if (unlikely(c->message.kind & KD_MSG_KERNEL))
        return -EINVAL;
    c->port = port;
    c->server = port->owner;
    c->error = 0;
    lock_acquire(&port->lock);
    if (unlikely(port->dead)) {
        lock_release(&port->lock);
        return -EOWNERDEAD;
    }
    struct thread *receiver = call_send(c, token, port);
    lock_release(&port->lock);
    int e = call_wait(c, token, receiver, deadline);
    if (likely(!e) && likely(!(e = c->error)) && unlikely(c->cut == token))
        e = -ECANCELED;
    return e;
}

/* call_badged is handle_find for the port of a badge, which goes with the call. */
static RARE struct port *call_badged(struct call *c, int handle)
{
    int e = badge_lift(handle, KD_RIGHT_CALL, &c->by);
    c->laden = true;
    if (e) {
        call_drop(c);
        return (void *)(long)e;
    }
    badge_trace(KD_TRACE_USED, &c->by, 0);
    return badge_port(c->by.object);
}

HOT long call_until(const uint64_t a[6], uint64_t deadline)
{
    struct thread *me = thread_this();
    struct call *c = me->call;
    if (unlikely(!c) && !(c = call_new()))
        return -EAGAIN;
    struct port *port = handle_find((int)a[0], HANDLE_PORT, KD_RIGHT_CALL, port_get);
    if (unlikely(handle_failed(port))) {
        port = (long)port == -EBADF ? call_badged(c, (int)a[0]) : port;
        if (handle_failed(port))
            return (long)port;
    }
    long result = message_in(c, a[1]);
    void *buffer = c->message.buffer;
    uint64_t room = c->message.buffer_bytes;
    if (likely(!result))
        result = call_make(c, port, deadline);
    if (likely(!result) || (result == -ECANCELED && me->call)) {
        c->message.token = 0;
        int e = message_out(c, a[1], buffer, room);
        result = e ? e : result ? result : c->message.status;
    }
    if (unlikely(result) && me->call)
        call_drop(c);
    port_put(port);
    return result;
}

long kd_port_call(const uint64_t a[6]) { return call_until(a, THREAD_NEVER); }

long kd_port_call_until(const uint64_t a[6])
{
    return call_until(a, arch_time_ns() + MIN(a[2], (uint64_t)INT32_MAX) * 1000000);
}

/* ---- answers ---- */

/* call_done says that the answer is in the slot. Returns the caller, to be woken; NULL: it is
 * gone. */
HOT struct thread *call_done(struct call *c, uint64_t token, enum call_state from)
{
    struct thread *caller = c->caller;
    if (likely(call_move(c, token, from, CALL_ANSWERED)))
        return caller;
    call_free(c);
    return NULL;
}

/* call_fail answers, for the kernel, a call that the calling thread has claimed. */
static RARE void call_fail(struct call *c, enum call_state from, int error)
{
    assert(from == CALL_TAKEN || from == CALL_ANSWERING); /* PO2 */
    call_drop(c);
    c->error = error;
    struct thread *caller = call_done(c, call_token(c), from);
    if (caller)
        thread_wake(caller);
}

/* call_lost answers a delivered call whose port is dead. */
static RARE void call_lost(struct call *c, uint64_t token)
{
    if (call_move(c, token, CALL_DELIVERED, CALL_ANSWERING))
        call_fail(c, CALL_ANSWERING, -EOWNERDEAD);
}

/* A call that the thread serves ends with it: nobody else knows of it. */
void call_thread_gone(struct thread *t)
{
    struct call *served = t->given;
    uint64_t token = served ? call_token(served) : 0;
    if (served && served->servant == t)
        call_lost(served, token);
    if (served)
        locus_home(t);
    thread_locus_end(t); /* also if its slot stayed behind: who answered its call before that */
    if (!t->call)
        return;
    limit_uncharge(t->process, KD_LIMIT_MESSAGES, 1);
    call_free(t->call);
    t->call = NULL;
}

/* call_open lets the server answer the call from now on. */
HOT void call_open(struct call *c, uint64_t token, enum call_state from)
{
    if (unlikely(!call_move(c, token, from, CALL_DELIVERED)))
        call_free(c);
    else if (unlikely(__atomic_load_n(&c->forsaken, __ATOMIC_SEQ_CST) == token))
        call_lost(c, token);
}

/* call_of finds a delivered call of the calling process; NULL: forged, late or answered (PO2). */
HOT struct call *call_of(uint64_t token)
{
    uint64_t slot = token >> STATE_BITS & ((1u << SLOT_BITS) - 1);
    struct call *c = &calls[slot];
    if (unlikely(slot >= CALLS_MAX || token & STATE_MASK ||
                 __atomic_load_n(&c->word, __ATOMIC_ACQUIRE) != (token | CALL_DELIVERED) ||
                 c->server != process_this()))
        return NULL;
    return c;
}

/* call_claim: call_of for answering. The server is read between two looks at the word, so it is
 * that of this very call. */
HOT struct call *call_claim(uint64_t token)
{
    struct call *c = call_of(token);
    return likely(c && call_move(c, token, CALL_DELIVERED, CALL_ANSWERING)) ? c : NULL;
}

/* A call that thread s was given, and serves no more, is answered by another. */
static RARE void call_served_by(struct thread *s, struct call *c)
{
    if (__atomic_compare_exchange_n(&s->given, &c, NULL, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        thread_locus(s, s, NULL);
}

/* call_served: the calling thread has the answer of c; who served it does so no more. */
HOT void call_served(struct call *c)
{
    struct thread *me = thread_this();
    if (likely(me->given == c))
        me->given = NULL;
    else
        call_served_by(c->servant, c);
}

/* call_answer puts the server's message into the slot of the call that it answers. 0: *caller is to
 * be woken, if it is not NULL. -ESRCH: there is no such call any more; -EFAULT, -E2BIG, -ENOMEM:
 * still to be answered. */
HOT int call_answer(uint64_t token, vaddr_t at, struct thread **caller)
{
    struct call *c = call_claim(token);
    if (unlikely(!c))
        return -ESRCH;
    int e = message_in(c, at);
    if (unlikely(e)) { /* it still is to be answered */
        call_drop(c);
        call_open(c, token, CALL_ANSWERING);
        return e;
    }
    call_served(c);
    *caller = call_done(c, token, CALL_ANSWERING);
    return 0;
}

void call_taken(struct item *i)
{
    struct call *c = container_of(i, struct call, item);
    assert((c->word & STATE_MASK) == CALL_QUEUED && i->queued); /* PO1 */
    call_set(c, call_token(c), CALL_TAKEN);
    __atomic_store_n(&i->queued, false, __ATOMIC_RELEASE);
}

void call_refuse(struct item *i, int error)
{
    call_fail(container_of(i, struct call, item), CALL_TAKEN, error);
}

void calls_port_dead(struct port *p)
{
    for (struct call *c = calls; c < __atomic_load_n(&calls_end, __ATOMIC_SEQ_CST); c++) {
        uint64_t word = __atomic_load_n(&c->word, __ATOMIC_ACQUIRE);
        if ((word & STATE_MASK) == CALL_IDLE || c->port != p)
            continue;
        uint64_t token = word & ~STATE_MASK, last = __atomic_load_n(&c->forsaken, __ATOMIC_SEQ_CST);
        while (last < token && !__atomic_compare_exchange_n(&c->forsaken, &last, token, false,
                                                            __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            continue; /* never back: the slot's next call may be another dying port's */
        call_lost(c, token);
    }
}

/* ---- receive ---- */

enum { RECEIVE_AGAIN = 1 };

/* call_deliver copies a call that is TAKEN to its receiver. 0; -EFAULT (the receiver's fault);
 * RECEIVE_AGAIN: the data did not fit, or the badge has ended, which the caller was told. */
HOT int call_deliver(struct call *c, vaddr_t at)
{
    struct kd_message *m = &c->message;
    uint64_t token = call_token(c);
    int e = user_words_in(&m->buffer, at + offsetof(struct kd_message, buffer), 2);
    if (likely(!e)) {
        m->token = token;
        m->process = c->pid;
        m->status = 0;
        e = message_out(c, at, m->buffer, m->buffer_bytes);
    }
    if (unlikely(e)) {
        bool callers = e == -EMSGSIZE || e == -EIDRM;
        locus_home(thread_this());
        call_fail(c, CALL_TAKEN, callers ? e : -EIO);
        return callers ? RECEIVE_AGAIN : e;
    }
    call_open(c, token, CALL_TAKEN);
    return 0;
}

/* call_receive is call_deliver for a call that was queued, and now is not. Port lock held on entry,
 * not on return. */
static RARE int call_receive(struct port *p, struct item *i, vaddr_t at)
{
    struct call *c = container_of(i, struct call, item);
    struct thread *me = thread_this();
    me->given = c;
    c->servant = me;
    thread_locus(me, c->caller, c); /* which is there: it would have to take back the item */
    call_taken(i);
    lock_release(&p->lock);
    return call_deliver(c, at);
}

/* item_deliver takes the queue's head and copies it to the receiver; results as of call_deliver.
 * Port lock held on entry, not on return. */
HOT int item_deliver(struct port *p, vaddr_t at)
{
    struct item *i = list_first(&p->items, struct item, link);
    list_remove(&i->link);
    if (i->kind == ITEM_CALL)
        return call_receive(p, i, at);
    int e = notice_deliver(p, i, at);
    return e == -EMSGSIZE ? RECEIVE_AGAIN : e;
}

/* answered wakes a caller whose server need not wait for the next call. */
static RARE void answered(struct thread *caller)
{
    locus_home(thread_this());
    thread_wake(caller);
}

/* port_receive waits for an item until the deadline (0: not at all) and delivers it. `first` (may
 * be NULL), whose call was just answered, is woken before the wait, or before the return. A call
 * that the thread still serves is put off. 0; -EAGAIN, -ETIMEDOUT, -EINTR, -EBADF
 * (dead port), -EFAULT. */
HOT long port_receive(struct port *p, vaddr_t at, uint64_t deadline, struct thread *first)
{
    struct thread *me = thread_this();
    long result;
    if (unlikely(me->given))
        locus_home(me);
    lock_acquire(&p->lock);
    for (;;) {
        result = -EBADF;
        if (unlikely(p->dead))
            break;
        if (likely(list_empty(&p->items))) {
            result = -EAGAIN;
            if (deadline == 0)
                break;
            list_push_front(&p->receivers, &me->wait_link); /* its caches are the warmest */
            lock_release(&p->lock);
            int e = likely(first) ? thread_answer_and_park(first) : thread_park_until(deadline);
            first = NULL;
            struct call *c = __atomic_load_n(&me->given, __ATOMIC_ACQUIRE);
            if (unlikely(!c)) { /* mostly it was given a call: then no lock is needed */
                lock_acquire(&p->lock);
                list_remove(&me->wait_link);
                c = me->given;
                if (!c && (!e || !list_empty(&p->items)))
                    continue;
                lock_release(&p->lock);
                if (!c)
                    return e;
            }
            result = call_deliver(c, at);
        } else {
            if (first)
                answered(first);
            first = NULL;
            result = item_deliver(p, at);
        }
        if (likely(result != RECEIVE_AGAIN))
            goto out;
        lock_acquire(&p->lock);
    }
    lock_release(&p->lock);
out:
    if (unlikely(first))
        answered(first);
    return result;
}

/* ---- the calls of the kernel ---- */

HANDLE_CALL(kd_port_receive, struct port *p, HANDLE_PORT, KD_RIGHT_RECEIVE, 0)
{
    int64_t timeout_ms = (int64_t)a[2];
    uint64_t deadline = timeout_ms < 0 ? THREAD_NEVER
                        : timeout_ms   ? arch_time_ns() + (uint64_t)timeout_ms * 1000000 : 0;
    return port_receive(p, a[1], deadline, NULL);
}

long kd_port_reply(const uint64_t a[6])
{
    struct thread *caller;
    int e = call_answer(a[0], a[1], &caller);
    if (!thread_this()->given)
        locus_home(thread_this());
    if (!e && caller)
        thread_wake(caller);
    return e;
}

long kd_call_state(const uint64_t a[6])
{
    const struct call *c = call_of(a[0]);
    uint64_t cut = c ? __atomic_load_n(&c->cut, __ATOMIC_SEQ_CST) : 0;
    return !c ? -ESRCH : cut == a[0] ? -ECANCELED : 0;
}

long kd_port_reply_receive(const uint64_t a[6])
{
    struct thread *caller = NULL;
    struct port *p = handle_find((int)a[2], HANDLE_PORT, KD_RIGHT_RECEIVE, port_get);
    if (unlikely(handle_failed(p)))
        return (long)p;
    long result = call_answer(a[0], a[1], &caller);
    if (likely(result == 0 || result == -ESRCH)) /* an answer that came too late stops nobody */
        result = port_receive(p, a[3], THREAD_NEVER, caller);
    port_put(p);
    return result;
}
