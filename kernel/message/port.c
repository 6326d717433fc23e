/*
 * port.c - ports: their life and death, queues, names. Calls and receiving: call.c.
 *
 * PO1  An item on a queue is valid. It is `queued` until whoever took it off has read it: whoever
 *     frees its home looks at that, and takes it off first, under the port lock.
 * PO2  A delivered call is answered at most once: its token names a slot and a sequence number.
 * PO3  A dead port has no items and accepts none. Its owner has no handle any more by which to
 *     receive, and there is no object whose requests or commits go to it.
 *
 * Locks: port->lock for queue and receivers; ports_lock for all ports, names, who stands on whom.
 */
#include "message/call_private.h"

#include "block/block.h"
#include "words.h"

static struct lock ports_lock = LOCK_INIT(RANK_PROCESS_TABLE, "ports");
static struct list ports = LIST_INIT(ports);
_Static_assert(sizeof(struct port) <= PAGE_BYTES / PORTS_A_FRAME, "what they are charged as");

/* ---- ports ---- */

void item_prepare(struct item *i, enum item_kind kind)
{
    list_init(&i->link);
    i->kind = kind;
}

uint32_t port_deaths;

static struct port *port_new(struct process *owner)
{
    struct port *p = limit_left(owner, KD_LIMIT_MEMORY) ? kalloc(sizeof *p) : NULL;
    if (!p)
        return NULL;
    __atomic_fetch_add(&owner->limits.ports, 1, __ATOMIC_RELAXED);
    lock_init(&p->lock, RANK_PORT, "port");
    p->references = 1;
    process_get(p->owner = owner);
    p->base = p;
    list_init(&p->items);
    list_init(&p->receivers);
    list_init(&p->credit_queue);
    list_init(&p->badges);
    list_init(&p->objects);
    list_init(&p->above);
    item_prepare(&p->clean, ITEM_CLEAN);
    item_prepare(&p->credit_low, ITEM_CREDIT_LOW);
    item_prepare(&p->notify, ITEM_NOTIFY);
    item_prepare(&p->view_gone, ITEM_VIEW_GONE);
    lock_acquire(&ports_lock);
    list_push_back(&ports, &p->all);
    lock_release(&ports_lock);
    return p;
}

void ports_put(struct port *const *below)
{
    for (unsigned i = 0; i < PORT_BELOW_MAX && below[i]; i++)
        port_put(below[i]);
}

void port_stand(struct port *p)
{
    lock_acquire(&ports_lock);
    for (unsigned i = 0; i < PORT_BELOW_MAX && p->below[i]; i++) {
        p->stands[i].port = p;
        list_push_back(&p->below[i]->above, &p->stands[i].link);
    }
    lock_release(&ports_lock);
}

/* Port table lock held. */
static void stand_not(struct port *p)
{
    for (unsigned i = 0; i < PORT_BELOW_MAX && p->stands[i].port; i++)
        list_remove(&p->stands[i].link);
}

void port_free(struct port *p)
{
    lock_acquire(&ports_lock);
    list_remove(&p->all);
    stand_not(p);
    lock_release(&ports_lock);
    assert(list_empty(&p->receivers) && list_empty(&p->badges) && p->references == 0); /* PO3 */
    /* only notices can be there: a call, a fault or a commit would hold a reference */
    for (struct item *i; (i = list_take(struct item, &p->items, link));) {
        i->queued = false;
        if (item_uses[i->kind].dropped)
            item_uses[i->kind].dropped(i);
    }
    ports_put(p->below);
    __atomic_fetch_sub(&p->owner->limits.ports, 1, __ATOMIC_RELAXED);
    process_put(p->owner);
    kfree(p);
}

struct thread *port_queue(struct port *p, struct item *i)
{
    struct thread *receiver = NULL;
    lock_acquire(&p->lock);
    if (p->dead) {
        receiver = PORT_DEAD;
    } else if (!i->queued) {
        i->queued = true;
        TRACE(POST, (uintptr_t)i, i->kind - ITEM_CALL, (uint64_t)p->owner->pid);
        list_push_back(&p->items, &i->link);
        receiver = list_take(struct thread, &p->receivers, wait_link);
    }
    lock_release(&p->lock);
    return receiver;
}

bool port_post(struct port *p, struct item *i)
{
    struct thread *receiver = port_queue(p, i);
    if (receiver && receiver != PORT_DEAD)
        thread_wake(receiver);
    return receiver != PORT_DEAD;
}

bool port_withdraw(struct port *p, struct item *i)
{
    if (!__atomic_load_n(&i->queued, __ATOMIC_ACQUIRE))
        return false;
    lock_acquire(&p->lock);
    bool was = i->queued;
    if (was) {
        list_remove(&i->link);
        i->queued = false;
    }
    lock_release(&p->lock);
    return was;
}

/* port_gather adds to what an item of the port will say, and queues it: it stands for all that
 * comes until it is taken off. False: the port is dead. */
static bool port_gather(struct port *p, struct item *i, unsigned word, uint64_t bits)
{
    lock_acquire(&p->lock);
    i->word[word] |= bits;
    lock_release(&p->lock);
    return port_post(p, i);
}

void port_words_taken(struct item *i, struct notice *n)
{
    (void)n;
    i->words = (struct item_words){0};
}

bool port_notify(struct port *p, uint64_t bits) { return port_gather(p, &p->notify, 0, bits); }

void port_gone(struct port *p, unsigned view)
{
    (void)port_gather(p, &p->view_gone, view / 64, 1ull << view % 64);
}

/* ---- data ---- */

static uint64_t pages_of(uint64_t bytes) { return (bytes + PAGE_BYTES - 1) >> PAGE_SHIFT; }

/* Few bytes lie in one of some pieces that all messages share, as long as one is free: that is no
 * frame, and nobody pays. `taken` has a bit for each. */
enum { SMALL_BYTES = 256, SMALL_COUNT = 256 };
static struct { uint64_t taken[SMALL_COUNT / 64]; uint8_t at[SMALL_COUNT][SMALL_BYTES]; } small;

static void *small_take(void)
{
    for (unsigned i = 0; i < SMALL_COUNT / 64; i++) {
        uint64_t left = ~__atomic_load_n(&small.taken[i], __ATOMIC_RELAXED), bit = left & -left;
        if (bit && !(__atomic_fetch_or(&small.taken[i], bit, __ATOMIC_ACQUIRE) & bit))
            return small.at[i * 64 + (unsigned)__builtin_ctzll(bit)];
    }
    return NULL;
}

static void small_free(const void *piece)
{
    size_t i = (size_t)((const uint8_t *)piece - small.at[0]) / SMALL_BYTES;
    __atomic_fetch_and(&small.taken[i / 64], ~(1ull << i % 64), __ATOMIC_RELEASE);
}

void data_drop(struct data *d)
{
    if (d->first && !d->payer)
        small_free(d->first);
    if (d->payer) {
        for (struct frame *f = d->first, *next; f; f = next) {
            next = f->owner;
            frame_free(f);
        }
        limit_uncharge(d->payer, KD_LIMIT_MEMORY, pages_of(d->bytes));
        process_put(d->payer);
    }
    *d = (struct data){0};
}

static RARE int data_in_frames(struct data *d, vaddr_t from, uint64_t bytes)
{
    struct process *me = process_this();
    enum frame_use use = me->takes_reserve ? FRAME_MANAGER : FRAME_DATA;
    void **end = &d->first;
    int e = 0;
    if (!limit_charge(me, KD_LIMIT_MEMORY, pages_of(bytes)))
        return -ENOMEM;
    process_get(me);
    d->payer = me;
    for (uint64_t at = 0; !e && at < bytes; at += PAGE_BYTES) {
        struct frame *f = frame_alloc_raw(use);
        if (!f && !(f = frame_seam.take(FRAME_DATA))) {
            e = -ENOMEM;
            break;
        }
        *end = f;
        end = &f->owner;
        e = copy_from_user(frame_memory(f), from + at, MIN(bytes - at, PAGE_BYTES));
        if (at / PAGE_BYTES % 8 == 7)
            thread_breathe(); /* a mebibyte is 150,000 instructions; most are a page or two */
    }
    return e;
}

int data_in(struct data *d, vaddr_t from, uint64_t bytes)
{
    if (bytes > KD_DATA_MAX)
        return -E2BIG;
    *d = (struct data){.first = bytes <= SMALL_BYTES ? small_take() : NULL, .bytes = bytes};
    int e = d->first ? copy_from_user(d->first, from, bytes) : data_in_frames(d, from, bytes);
    if (e)
        data_drop(d);
    return e;
}

int data_out(vaddr_t to, const struct data *d)
{
    const struct frame *f = d->first;
    int e = 0;
    if (!d->payer)
        return d->bytes ? copy_to_user(to, d->first, d->bytes) : 0;
    for (uint64_t at = 0; !e && at < d->bytes; at += PAGE_BYTES, f = f->owner) {
        e = copy_to_user(to + at, frame_memory(f), MIN(d->bytes - at, PAGE_BYTES));
        if (at / PAGE_BYTES % 8 == 7)
            thread_breathe();
    }
    return e;
}

/* ---- what the kernel says ---- */

_Static_assert(KD_MSG_UNSPILL - KD_MSG_KERNEL == ITEM_UNSPILL - ITEM_CALL,
               "traces tell both by one number");

/* notice_of makes a notice of an item that was taken off the queue. Port lock held. */
static void notice_of(struct item *i, const struct item_use *use, struct notice *n)
{
    struct kd_message *m = &n->message;
    assert(i->queued && i->kind > ITEM_CALL && i->kind < ITEM_KINDS); /* PO1 */
    TRACE(TAKE, (uintptr_t)i, i->kind - ITEM_CALL, i->process);
    m->kind = use->message; /* each field by itself: notice_out sets the others */
    m->status = 0;
    m->token = 0;
    m->process = i->process;
    arch_copy_words(m->word, i->word, KD_WORDS);
    m->data = NULL;
    m->data_bytes = 0;
    m->handle = -1;
    m->handle_rights = 0;
    n->home = NULL;
    n->data = (struct data){0};
    if (use->taken)
        use->taken(i, n);
    __atomic_store_n(&i->queued, !list_empty(&i->link), __ATOMIC_RELEASE); /* PO1: it was read */
    if (use->dropped)
        use->dropped(i);
}

/* notice_out copies a notice to the receiver's message at `at`. 0, -EFAULT, -EMSGSIZE. */
static int notice_out(struct notice *n, vaddr_t at)
{
    struct kd_message *m = &n->message;
    if (user_words_in(&m->buffer, at + offsetof(struct kd_message, buffer), 2))
        return -EFAULT;
    if (m->data_bytes > m->buffer_bytes)
        return -EMSGSIZE;
    m->buffer_bytes = m->data_bytes;
    if (unlikely(m->data_bytes) && data_out((vaddr_t)m->buffer, &n->data))
        return -EFAULT;
    return user_words_out(at, m, MESSAGE_WORDS);
}

int notice_deliver(struct port *p, struct item *i, vaddr_t at)
{
    const struct item_use *use = &item_uses[i->kind];
    struct notice n;
    notice_of(i, use, &n);
    lock_release(&p->lock);
    int e = notice_out(&n, at);
    if (unlikely(n.data.first))
        data_drop(&n.data);
    if (e && use->lost)
        use->lost(&n, e == -EMSGSIZE ? EMSGSIZE : EIO);
    return e;
}

/* ---- ends ---- */

/* items_end ends some items of a dead port: who called learns that nobody will answer. False: there
 * was none. */
static bool items_end(struct port *p, struct list *all)
{
    enum { AT_ONCE = 64 };
    struct list items = LIST_INIT(items);
    unsigned n = 0;
    lock_acquire(&p->lock);
    for (struct item *i; n < AT_ONCE && (i = list_take(struct item, all, link)); n++) {
        if (i->kind == ITEM_CALL)
            call_taken(i);
        if (i->kind == ITEM_CALL || item_uses[i->kind].dropped)
            list_push_back(&items, &i->link);
        else /* PO1: it may go at once, with its thread */
            __atomic_store_n(&i->queued, false, __ATOMIC_RELEASE);
    }
    lock_release(&p->lock);
    for (struct item *i; (i = list_take(struct item, &items, link));) {
        if (i->kind == ITEM_CALL)
            call_refuse(i, -EOWNERDEAD);
        else
            item_uses[i->kind].dropped(i);
    }
    return n;
}

/* port_die ends a port: every caller, delivered or queued, hears of it. Nobody who does begins a
 * transaction before its objects have gone (BG3). */
static void port_die(struct port *p)
{
    struct list items = LIST_INIT(items);
    lock_acquire(&p->lock);
    bool was = p->dead; /* with what it stands on (SK17) */
    __atomic_fetch_add(&port_deaths, !was, __ATOMIC_SEQ_CST);
    __atomic_store_n(&p->dead, true, __ATOMIC_SEQ_CST);
    thread_wake_all(&p->receivers);
    if (!list_empty(&p->items))
        list_move_all(&p->items, &items); /* PO3; port_withdraw finds them there, too */
    lock_release(&p->lock);
    while (items_end(p, &items))
        thread_breathe();
    if (was)
        return;
    if (p->rank) {
        lock_acquire(&ports_lock);
        stand_not(p);
        lock_release(&ports_lock);
    }
    calls_port_dead(p);
    port_seam.dead(p);
    __atomic_fetch_sub(&port_deaths, 1, __ATOMIC_SEQ_CST);
}

bool port_dies(const struct port *p)
{
    bool is = __atomic_load_n(&p->dead, __ATOMIC_SEQ_CST);
    for (unsigned i = 0; !is && i < PORT_BELOW_MAX && p->below[i]; i++)
        is = port_dies(p->below[i]); /* as deep as its rank */
    return is;
}

/* port_above finds a port that stands on p and lives; a reference, or NULL. */
static struct port *port_above(struct port *p)
{
    struct port *found = NULL;
    lock_acquire(&ports_lock);
    for (struct port_link *k; !found && (k = list_take(struct port_link, &p->above, link));) {
        lock_acquire(&k->port->lock); /* while it is not dead, it has a handle */
        if (!k->port->dead)
            port_get(found = k->port);
        lock_release(&k->port->lock);
    }
    lock_release(&ports_lock);
    return found;
}

void ports_above_die(struct port *p)
{
    for (struct port *q; (q = port_above(p)); thread_breathe()) {
        port_die(q);
        port_put(q);
    }
}

uint32_t port_handle_held(void *port, const struct process *owner, uint32_t rights)
{
    struct port *p = port;
    if (p->owner != owner)
        rights &= ~(uint32_t)KD_RIGHT_RECEIVE;
    if (rights & KD_RIGHT_RECEIVE)
        __atomic_fetch_add(&p->receive_handles, 1, __ATOMIC_RELAXED);
    return rights;
}

void port_handle_dropped(void *port, uint32_t rights)
{
    struct port *p = port;
    if (!(rights & KD_RIGHT_RECEIVE))
        return;
    uint32_t left = __atomic_sub_fetch(&p->receive_handles, 1, __ATOMIC_ACQ_REL);
    assert(left != UINT32_MAX); /* HD3 */
    if (left == 0)
        port_die(p);
}

void port_check(void *port)
{
    enum { ITEMS_CHECKED = 4096 }; /* the others' turn comes */
    struct port *p = port;
    unsigned n = 0;
    lock_acquire(&p->lock);
    assert(!p->dead || list_empty(&p->items)); /* PO3 */
    for (struct list *k = p->items.next; k != &p->items && n++ < ITEMS_CHECKED; k = k->next)
        assert(container_of(k, struct item, link)->queued &&
               container_of(k, struct item, link)->kind); /* PO1 */
    lock_release(&p->lock);
}

/* ---- names ---- */

/* port_named finds the port that has the name, or a dead one that had it and has badges. Those with
 * a name are in front of all others. */
static struct port *port_named(const char *name, bool dead)
{
    list_each(struct port, p, &ports, all) {
        if (!p->name[0])
            break;
        if (p->dead == dead && strcmp(p->name, name) == 0 && !(dead && list_empty(&p->badges)))
            return p;
    }
    return NULL;
}

static bool disk_held(const struct block_device *d) { return handle_held(HANDLE_BLOCK, d, 0); }

/* name_allowed: may the calling process publish this name? A store's clients find it by the name of
 * its disk, which only the process that has the disk may take; so that name is safe also while the
 * manager is dead. */
static bool name_allowed(const char *name)
{
    const struct block_device *d = block_find(name);
    return system_allows(KD_RIGHT_NAMES) && (!d || disk_held(d));
}

HANDLE_CALL(kd_name_set, struct port *p, HANDLE_PORT, KD_RIGHT_RECEIVE, 1)
{
    char name[KD_NAME_MAX];
    long n = copy_string_from_user(name, a[0], sizeof name);
    if (n <= 0)
        return n ? n : -EINVAL;
    if (!name_allowed(name))
        return -EPERM;
    lock_acquire(&ports_lock);
    bool taken = port_named(name, false);
    if (!taken) {
        memcpy(p->name, name, sizeof name);
        list_remove(&p->all);
        list_push_front(&ports, &p->all);
    }
    lock_release(&ports_lock);
    return taken ? -EEXIST : 0;
}

long kd_name_find(const uint64_t a[6])
{
    char name[KD_NAME_MAX];
    long n = copy_string_from_user(name, a[0], sizeof name);
    if (process_this()->flags & KD_PROCESS_CONFINED)
        return -EPERM;
    if (n <= 0)
        return n ? n : -EINVAL;
    lock_acquire(&ports_lock);
    struct port *p = port_named(name, false);
    if (p)
        port_get(p);
    lock_release(&ports_lock);
    return p ? handle_new(process_this(), HANDLE_PORT, p, KD_RIGHT_CALL) : -ENOENT;
}

HANDLE_CALL(kd_badge_inherit, struct port *p, HANDLE_PORT, KD_RIGHT_RECEIVE, 0)
{
    long all = 0;
    (void)a;
    for (struct port *from = p; from; thread_breathe()) {
        lock_acquire(&ports_lock);
        const struct block_device *d = block_find(p->name);
        bool may = d && disk_held(d); /* RT11 */
        from = may ? port_named(p->name, true) : NULL;
        unsigned n = from ? badges_inherit(from, p) : 0;
        lock_release(&ports_lock);
        if (!may)
            return -EPERM;
        for (all += n; n > 0; n--)
            port_put(from); /* it was there as long as its badges referred to it */
    }
    return all;
}

/* ---- calls of the kernel ---- */

long kd_port_create(const uint64_t a[6])
{
    const uint32_t all = KD_RIGHT_CALL | KD_RIGHT_RECEIVE | KD_RIGHT_MANAGE;
    if (a[0] & ~(uint64_t)KD_PORT_TELLS)
        return -EINVAL;
    struct port *p = port_new(process_this());
    if (p)
        p->tells = a[0];
    return p ? handle_new(process_this(), HANDLE_PORT, p, all) : -ENOMEM;
}

HANDLE_CALL(kd_port_notify, struct port *p, HANDLE_PORT, KD_RIGHT_CALL, 0)
{
    return port_notify(p, a[1]) ? 0 : -EOWNERDEAD;
}
