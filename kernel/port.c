/*
 * port.c - calls, replies, notices (port.h).
 *
 * A call is a slot of a fixed table; its token is (sequence, slot), so that a late or forged answer
 * is told from a right one. The caller sleeps in its slot; the server's receive copies the message
 * out of it, the server's reply copies the answer into it.
 *
 * Locks: port->lock for queue and receivers; a call's state changes under calls_lock, which is of
 * the same rank: never both at once.
 */
#include "port.h"

#include "handle.h"
#include "object.h"
#include "view.h"

enum { CALLS_MAX = 2048, TOKEN_SLOT_BITS = 16 };
enum call_state {
    CALL_FREE,      /* in the free list */
    CALL_QUEUED,    /* at a port; only the caller and the port know it */
    CALL_DELIVERED, /* a server has the token */
    CALL_ANSWERED,  /* the answer is in the slot */
};

struct call {
    struct item item;            /* first member: an ITEM_CALL's home */
    enum call_state state;       /* calls_lock */
    uint32_t sequence;
    struct thread *caller;       /* NULL: it gave up */
    struct port *port;
    struct kd_message message;   /* the request, then the answer */
    void *data;                  /* kernel copy of the data of either */
    uint64_t data_bytes;
    int32_t passed;              /* answer: a handle of the caller, or -1 */
    struct process *process;     /* the caller's, compared and for handle passing while it sleeps */
    struct call *next_free;
};

static struct lock calls_lock = LOCK_INIT(RANK_PORT, "calls");
static struct lock ports_lock = LOCK_INIT(RANK_PROCESS_TABLE, "ports");
static struct call calls[CALLS_MAX];
static struct call *free_calls;
static struct list ports;

void port_init(void)
{
    list_init(&ports);
    for (int i = CALLS_MAX; i-- > 0;) {
        calls[i].next_free = free_calls;
        free_calls = &calls[i];
    }
}

/* ---- ports ---- */

static void item_prepare(struct item *i, enum item_kind kind)
{
    list_init(&i->link);
    i->kind = kind;
}

struct port *port_new(struct process *owner)
{
    struct port *p = kalloc(sizeof *p);
    if (!p)
        return NULL;
    lock_init(&p->lock, RANK_PORT, "port");
    p->references = 1;
    p->owner = owner;
    list_init(&p->items);
    list_init(&p->receivers);
    list_init(&p->credit_queue);
    item_prepare(&p->clean, ITEM_CLEAN);
    item_prepare(&p->credit_low, ITEM_CREDIT_LOW);
    item_prepare(&p->notify, ITEM_NOTIFY);
    lock_acquire(&ports_lock);
    list_push_back(&ports, &p->all);
    lock_release(&ports_lock);
    return p;
}

void port_get(struct port *p) { __atomic_fetch_add(&p->references, 1, __ATOMIC_RELAXED); }

/* Notices that nobody will hear: a call, a fault or a commit would hold a reference to the port. */
static void items_drop(struct port *p)
{
    struct list *l;
    while ((l = list_pop(&p->items))) {
        struct item *i = container_of(l, struct item, link);
        i->queued = false;
        if (i->kind == ITEM_CLIENT_GONE)
            attachment_gone_delivered(i);
    }
}

void port_put(struct port *p)
{
    if (__atomic_sub_fetch(&p->references, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    lock_acquire(&ports_lock);
    list_remove(&p->all);
    lock_release(&ports_lock);
    assert(list_empty(&p->receivers));
    items_drop(p);
    kfree(p);
}

/* The queue's new head is given to a waiting receiver, if there is one. Port lock held. */
static struct thread *port_receiver_next(struct port *p)
{
    struct list *l = list_pop(&p->receivers);
    return l ? container_of(l, struct thread, wait_link) : NULL;
}

/* Returns false if the port is dead; *receiver is to be woken. */
static bool port_enqueue(struct port *p, struct item *i, struct thread **receiver)
{
    *receiver = NULL;
    lock_acquire(&p->lock);
    bool alive = !p->dead;
    if (alive && !i->queued) {
        i->queued = true;
        list_push_back(&p->items, &i->link);
        *receiver = port_receiver_next(p);
    }
    lock_release(&p->lock);
    return alive;
}

bool port_post(struct port *p, struct item *i)
{
    struct thread *receiver;
    bool alive = port_enqueue(p, i, &receiver);
    if (receiver)
        thread_wake(receiver);
    return alive;
}

bool port_withdraw(struct port *p, struct item *i)
{
    lock_acquire(&p->lock);
    bool was = i->queued;
    if (was) {
        list_remove(&i->link);
        i->queued = false;
    }
    lock_release(&p->lock);
    return was;
}

/* ---- slots ---- */

static uint64_t call_token(const struct call *c)
{
    return (uint64_t)c->sequence << TOKEN_SLOT_BITS | (uint64_t)(c - calls);
}

static struct call *call_new(struct port *port)
{
    lock_acquire(&calls_lock);
    struct call *c = free_calls;
    if (c) {
        free_calls = c->next_free;
        c->state = CALL_QUEUED;
        c->sequence++;
    }
    lock_release(&calls_lock);
    if (!c)
        return NULL;
    item_prepare(&c->item, ITEM_CALL);
    c->caller = thread_this();
    c->process = process_this();
    c->port = port;
    c->passed = -1;
    c->data = NULL;
    c->data_bytes = 0;
    return c;
}

static void call_free(struct call *c)
{
    kfree(c->data);
    c->data = NULL;
    lock_acquire(&calls_lock);
    c->state = CALL_FREE;
    c->caller = NULL;
    c->next_free = free_calls;
    free_calls = c;
    lock_release(&calls_lock);
}

/* Claims a delivered call for answering; NULL: forged, late or answered (M2). */
static struct call *call_claim(uint64_t token)
{
    uint64_t slot = token & ((1u << TOKEN_SLOT_BITS) - 1);
    if (slot >= CALLS_MAX)
        return NULL;
    struct call *c = &calls[slot];
    struct process *me = process_this();
    lock_acquire(&calls_lock);
    bool right = c->state == CALL_DELIVERED && call_token(c) == token && c->port->owner == me;
    if (right)
        c->state = CALL_QUEUED; /* nobody else can claim it now */
    lock_release(&calls_lock);
    return right ? c : NULL;
}

/* ---- messages to and from user memory ---- */

static int message_data_in(const struct kd_message *m, void **data)
{
    *data = NULL;
    if (m->data_bytes == 0)
        return 0;
    if (m->data_bytes > KD_DATA_MAX)
        return -E2BIG;
    *data = kalloc(m->data_bytes);
    if (!*data)
        return -ENOMEM;
    if (copy_from_user(*data, (vaddr_t)m->data, m->data_bytes)) {
        kfree(*data);
        *data = NULL;
        return -EFAULT;
    }
    return 0;
}

/* Writes a message and its data to the user's struct at `at`, whose buffer fields were read before.
 * -EMSGSIZE: the data does not fit; -EFAULT. */
static int message_out(vaddr_t at, struct kd_message *m, const void *data, uint64_t bytes,
                       void *buffer, uint64_t buffer_bytes)
{
    if (bytes > buffer_bytes)
        return -EMSGSIZE;
    m->data = NULL;
    m->data_bytes = bytes;
    m->buffer = buffer;
    m->buffer_bytes = bytes;
    if (bytes && copy_to_user((vaddr_t)buffer, data, bytes))
        return -EFAULT;
    return copy_to_user(at, m, sizeof *m);
}

/* ---- call ---- */

/* The caller was killed while it waited: gives the slot up, now or when the server answers. */
static bool call_abandon(struct call *c)
{
    if (port_withdraw(c->port, &c->item))
        return true;
    lock_acquire(&calls_lock);
    bool mine = c->state != CALL_ANSWERED && c->state != CALL_QUEUED;
    if (mine)
        c->state = CALL_QUEUED;
    lock_release(&calls_lock);
    return mine;
}

static void call_wait(struct call *c, struct thread *receiver, int *error)
{
    *error = 0;
    int r = receiver ? thread_wake_and_park(receiver) : 0;
    while (__atomic_load_n(&c->state, __ATOMIC_ACQUIRE) != CALL_ANSWERED) {
        if (r == -EINTR && call_abandon(c)) {
            *error = -EINTR;
            return;
        }
        if (r == -EINTR)
            thread_park(); /* a server is answering at this moment */
        else
            r = thread_park_until(~0ull);
    }
}

static long port_call(int handle, vaddr_t at)
{
    struct kd_message m;
    int error;
    if (copy_from_user(&m, at, sizeof m))
        return -EFAULT;
    struct port *port = handle_get(handle, HANDLE_PORT, KD_RIGHT_CALL, &error);
    if (!port)
        return error;
    struct call *c = call_new(port);
    if (!c) {
        port_put(port);
        return -EAGAIN;
    }
    long result = message_data_in(&m, &c->data);
    if (result)
        goto out;
    c->message = m;
    c->data_bytes = m.data_bytes;
    struct thread *receiver;
    if (m.kind & KD_MSG_KERNEL || !port_enqueue(port, &c->item, &receiver)) {
        result = m.kind & KD_MSG_KERNEL ? -EINVAL : -EOWNERDEAD;
        goto out;
    }
    call_wait(c, receiver, &error);
    if (error) {
        result = error;
        goto out;
    }
    struct kd_message answer = c->message;
    answer.token = 0;
    answer.handle = c->passed;
    result = answer.status;
    error = message_out(at, &answer, c->data, c->data_bytes, m.buffer, m.buffer_bytes);
    if (error)
        result = error;
out:
    call_free(c);
    port_put(port);
    return result;
}

/* Puts an answer into a claimed call; returns the caller, to be woken. */
static struct thread *call_answer(struct call *c, int status)
{
    struct thread *caller = c->caller;
    c->message.status = status;
    lock_acquire(&calls_lock);
    c->state = CALL_ANSWERED;
    lock_release(&calls_lock);
    return caller;
}

/* ---- receive ---- */

static void message_of_item(struct item *i, struct kd_message *m)
{
    static const uint32_t kinds[] = {
        [ITEM_PAGE] = KD_MSG_PAGE, [ITEM_LOCK] = KD_MSG_LOCK, [ITEM_COMMIT] = KD_MSG_COMMIT,
        [ITEM_CONFLICT] = KD_MSG_CONFLICT, [ITEM_VIEW_GONE] = KD_MSG_VIEW_GONE,
        [ITEM_CLEAN] = KD_MSG_CLEAN, [ITEM_CREDIT_LOW] = KD_MSG_CREDIT_LOW,
        [ITEM_CLIENT_GONE] = KD_MSG_CLIENT_GONE, [ITEM_NOTIFY] = KD_MSG_NOTIFY,
    };
    memset(m, 0, sizeof *m);
    m->kind = kinds[i->kind];
    m->handle = -1;
    m->process = i->process;
    memcpy(m->word, i->word, sizeof m->word);
}

struct received {
    struct kd_message message;
    void *data;
    uint64_t data_bytes;
    struct call *call;
    struct view *commit;
    int pass_from_handle;
};

/* Takes the head of the queue; false: empty. Port lock held on entry, released on return. */
static bool port_take(struct port *p, struct received *r)
{
    struct list *l = list_pop(&p->items);
    if (!l) {
        lock_release(&p->lock);
        return false;
    }
    struct item *i = container_of(l, struct item, link);
    i->queued = false;
    *r = (struct received){.pass_from_handle = -1};
    switch (i->kind) {
    case ITEM_CALL:
        r->call = container_of(i, struct call, item);
        r->message = r->call->message;
        break;
    case ITEM_COMMIT:
        message_of_item(i, &r->message);
        r->commit = container_of(i, struct view, commit_item);
        r->message.token = r->commit->commit_token;
        r->data = r->commit->batch;
        r->data_bytes = r->commit->batch_bytes;
        r->commit->batch = NULL;
        break;
    case ITEM_CLIENT_GONE:
        message_of_item(i, &r->message);
        attachment_gone_delivered(i);
        break;
    case ITEM_NOTIFY:
        i->word[0] = p->notify_bits;
        p->notify_bits = 0;
        message_of_item(i, &r->message);
        break;
    default: message_of_item(i, &r->message); break;
    }
    lock_release(&p->lock);
    return true;
}

/* Gives what was taken to the receiver. 0; -EFAULT (receiver's fault); 1: the sender was told that
 * its data does not fit, receive again. */
static int port_deliver(struct received *r, vaddr_t at, void *buffer, uint64_t bytes)
{
    struct call *c = r->call;
    if (c) {
        r->message.token = call_token(c);
        r->message.process = (uint64_t)c->process->pid;
        r->message.status = 0;
        r->data_bytes = c->data_bytes;
        if (c->data_bytes <= bytes && r->message.handle >= 0 && r->message.handle_rights)
            r->message.handle = handle_pass_rights(c->process, r->message.handle, process_this(),
                                                   -1, r->message.handle_rights);
        else
            r->message.handle = -1;
    }
    int e = message_out(at, &r->message, c ? c->data : r->data, r->data_bytes, buffer, bytes);
    kfree(r->data);
    if (c) {
        kfree(c->data);
        c->data = NULL;
        c->data_bytes = 0;
        if (e) {
            thread_wake(call_answer(c, e == -EMSGSIZE ? -EMSGSIZE : -EIO));
        } else {
            lock_acquire(&calls_lock);
            c->state = CALL_DELIVERED;
            struct thread *caller = c->caller;
            bool killed = caller->killed;
            lock_release(&calls_lock);
            if (killed)
                thread_wake(caller); /* it may have found the slot between two states */
        }
    } else if (r->commit && e) {
        view_commit_answer(r->commit, e == -EMSGSIZE ? EMSGSIZE : EIO);
    }
    return e == -EMSGSIZE ? 1 : e;
}

/* Waits for an item. `first` is woken, by a direct switch if we have to sleep. */
static long port_receive(struct port *p, vaddr_t at, int64_t timeout_ms, struct thread *first)
{
    struct thread *me = thread_this();
    struct kd_message m;
    long result = -EFAULT;
    if (copy_from_user(&m, at, sizeof m))
        goto out;
    uint64_t deadline = timeout_ms < 0 ? ~0ull : arch_time_ns() + (uint64_t)timeout_ms * 1000000;
    for (;;) {
        struct received r;
        lock_acquire(&p->lock);
        if (p->dead || p->owner != process_this()) {
            lock_release(&p->lock);
            result = -EPERM;
            goto out;
        }
        if (list_empty(&p->items) && timeout_ms != 0) {
            list_push_back(&p->receivers, &me->wait_link);
            lock_release(&p->lock);
            int e = first && deadline == ~0ull ? thread_wake_and_park(first) : 0;
            if (first && deadline != ~0ull)
                thread_wake(first);
            if (!first || deadline != ~0ull)
                e = thread_park_until(deadline);
            first = NULL;
            lock_acquire(&p->lock);
            list_remove(&me->wait_link);
            if (e && list_empty(&p->items)) {
                lock_release(&p->lock);
                return e;
            }
        }
        if (!port_take(p, &r)) {
            if (timeout_ms == 0) {
                result = -EAGAIN;
                goto out;
            }
            continue;
        }
        if (first)
            thread_wake(first);
        first = NULL;
        result = port_deliver(&r, at, m.buffer, m.buffer_bytes);
        if (result <= 0)
            return result;
    }
out:
    if (first)
        thread_wake(first);
    return result;
}

/* Fills the answer into a claimed call. Returns the caller to wake. */
static int port_reply_fill(uint64_t token, vaddr_t at, struct thread **caller)
{
    struct kd_message m;
    void *data;
    if (copy_from_user(&m, at, sizeof m))
        return -EFAULT;
    int e = message_data_in(&m, &data);
    if (e)
        return e;
    struct call *c = call_claim(token);
    if (!c) {
        kfree(data);
        return -ESRCH;
    }
    c->passed = m.handle < 0 || !m.handle_rights
                    ? -1
                    : handle_pass_rights(process_this(), m.handle, c->process, -1,
                                                  m.handle_rights);
    c->message = m;
    c->data = data;
    c->data_bytes = m.data_bytes;
    *caller = call_answer(c, m.status);
    return 0;
}

/* ---- ends ---- */

/* Every caller, delivered or queued, learns that nobody will answer. */
static void port_die(struct port *p)
{
    struct list items;
    list_init(&items);
    lock_acquire(&p->lock);
    p->dead = true;
    p->name[0] = 0;
    struct list *l;
    while ((l = list_pop(&p->items))) {
        struct item *i = container_of(l, struct item, link);
        i->queued = false;
        if (i->kind == ITEM_CALL || i->kind == ITEM_CLIENT_GONE)
            list_push_back(&items, l); /* M1: the others may go at any time, with their threads */
    }
    lock_release(&p->lock);
    while ((l = list_pop(&items))) {
        struct item *i = container_of(l, struct item, link);
        if (i->kind == ITEM_CALL)
            thread_wake(call_answer(container_of(i, struct call, item), -EOWNERDEAD));
        else if (i->kind == ITEM_CLIENT_GONE)
            attachment_gone_delivered(i);
    }
    for (int i = 0; i < CALLS_MAX; i++) {
        struct call *c = &calls[i];
        lock_acquire(&calls_lock);
        bool mine = c->state == CALL_DELIVERED && c->port == p;
        if (mine)
            c->state = CALL_QUEUED;
        lock_release(&calls_lock);
        if (mine)
            thread_wake(call_answer(c, -EOWNERDEAD));
    }
    view_port_dead(p);
}

void port_process_gone(struct process *process)
{
    for (;;) {
        struct port *found = NULL;
        lock_acquire(&ports_lock);
        list_for(l, &ports) {
            struct port *p = container_of(l, struct port, all);
            if (p->owner == process && !p->dead && !found) {
                found = p;
                port_get(p);
            }
        }
        lock_release(&ports_lock);
        if (!found)
            return;
        port_die(found);
        port_put(found);
    }
}

/* ---- names ---- */

static struct port *port_named(const char *name)
{
    list_for(l, &ports) {
        struct port *p = container_of(l, struct port, all);
        if (!p->dead && strcmp(p->name, name) == 0)
            return p;
    }
    return NULL;
}

static long name_set(vaddr_t at, int handle)
{
    char name[KD_NAME_MAX];
    int error;
    long n = copy_string_from_user(name, at, sizeof name);
    if (n <= 0)
        return n ? n : -EINVAL;
    struct port *p = handle_get(handle, HANDLE_PORT, KD_RIGHT_RECEIVE, &error);
    if (!p)
        return error;
    lock_acquire(&ports_lock);
    long result = port_named(name) ? -EEXIST : 0;
    if (!result)
        memcpy(p->name, name, sizeof name);
    lock_release(&ports_lock);
    port_put(p);
    return result;
}

static long name_find(vaddr_t at)
{
    char name[KD_NAME_MAX];
    long n = copy_string_from_user(name, at, sizeof name);
    if (n <= 0)
        return n ? n : -EINVAL;
    lock_acquire(&ports_lock);
    struct port *p = port_named(name);
    if (p)
        port_get(p);
    lock_release(&ports_lock);
    if (!p)
        return -ENOENT;
    int h = handle_new(process_this(), HANDLE_PORT, p, KD_RIGHT_CALL);
    if (h < 0)
        port_put(p);
    return h;
}

/* ---- calls of the kernel ---- */

static long port_create(void)
{
    struct port *p = port_new(process_this());
    if (!p)
        return -ENOMEM;
    int h = handle_new(process_this(), HANDLE_PORT, p,
                       KD_RIGHT_CALL | KD_RIGHT_RECEIVE | KD_RIGHT_MANAGE);
    if (h < 0)
        port_put(p);
    return h;
}

static long port_notify(int handle, uint64_t bits)
{
    int error;
    struct port *p = handle_get(handle, HANDLE_PORT, KD_RIGHT_CALL, &error);
    if (!p)
        return error;
    lock_acquire(&p->lock);
    p->notify_bits |= bits;
    lock_release(&p->lock);
    bool alive = port_post(p, &p->notify);
    port_put(p);
    return alive ? 0 : -EOWNERDEAD;
}

static long reply_receive(const uint64_t a[6], bool reply, int handle, vaddr_t next, int64_t timeout)
{
    int error;
    struct thread *caller = NULL;
    struct port *p = handle_get(handle, HANDLE_PORT, KD_RIGHT_RECEIVE, &error);
    if (!p)
        return error;
    long result = reply ? port_reply_fill(a[0], a[1], &caller) : 0;
    if (result == 0 || result == -ESRCH) /* an answer that came too late stops nobody */
        result = port_receive(p, next, timeout, caller);
    port_put(p);
    return result;
}

long port_syscall(unsigned number, const uint64_t a[6])
{
    switch (number) {
    case KD_PORT_CREATE: return port_create();
    case KD_PORT_CALL: return port_call((int)a[0], a[1]);
    case KD_PORT_RECEIVE: return reply_receive(a, false, (int)a[0], a[1], (int64_t)a[2]);
    case KD_PORT_REPLY: {
        struct thread *caller;
        int e = port_reply_fill(a[0], a[1], &caller);
        if (!e)
            thread_wake(caller);
        return e;
    }
    case KD_PORT_REPLY_RECEIVE: return reply_receive(a, true, (int)a[2], a[3], -1);
    case KD_PORT_NOTIFY: return port_notify((int)a[0], a[1]);
    case KD_NAME_SET: return name_set(a[0], (int)a[1]);
    case KD_NAME_FIND: return name_find(a[0]);
    default: return -ENOSYS;
    }
}
