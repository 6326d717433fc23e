/*
 * badge.c - badges: a number that a port's owner chose, attested to it with each call that comes by
 * a handle of the badge (messages.md; tests/model/rights.md: RT1 to RT5).
 *
 * Lock: badges_lock, for the lists of all ports, whose each badge is, and what their owners have.
 */
#include "memory/frame.h"
#include "message/call_private.h"

enum { AT_ONCE = 64 }; /* under the lock */
static struct lock badges_lock = LOCK_INIT(RANK_PORT, "badges");
_Static_assert(sizeof(struct badge) <= PAGE_BYTES / BADGES_A_FRAME, "what they are charged as");

static void badge_free(struct badge *b)
{
    lock_acquire(&badges_lock);
    list_remove(&b->link);
    b->port->owner->limits.badges--;
    lock_release(&badges_lock);
    port_put(b->port);
    kfree(b);
}
COUNTED(badge, badge_free)

struct port *badge_port(struct badge *b)
{
    lock_acquire(&badges_lock);
    struct port *p = b->port;
    port_get(p);
    lock_release(&badges_lock);
    return p;
}

void badge_check(void *badge)
{
    struct port *p = badge_port(badge);
    port_check(p);
    port_put(p);
}

void badge_trace(enum kd_trace_badge what, const struct handle_slot *h, int child)
{
    if (!trace_on || h->type != HANDLE_BADGE)
        return;
    struct badge *b = h->object;
    struct port *p = badge_port(b);
    TRACE(BADGE, what | p->owner->pid << 8, b->value, h->rights | (uint64_t)child << 32);
    port_put(p);
}

unsigned badges_inherit(struct port *from, struct port *heir)
{
    unsigned n = 0;
    lock_acquire(&badges_lock);
    for (struct badge *b; n < AT_ONCE; n++) {
        b = list_first(&from->badges, struct badge, link);
        if (list_empty(&from->badges) || !b->port) /* the mark of an end that is under way */
            break;
        list_remove(&b->link);
        list_push_front(&heir->badges, &b->link);
        port_get(b->port = heir);
    }
    from->owner->limits.badges -= n;
    heir->owner->limits.badges += n;
    lock_release(&badges_lock);
    return n;
}

int badge_lift(int handle, uint32_t rights, struct handle_slot *passed)
{
    struct badge *b = handle_find_rights(handle, HANDLE_BADGE, 0, badge_get, &passed->rights);
    if (handle_failed(b))
        return -EBADF;
    *passed = (struct handle_slot){HANDLE_BADGE, passed->rights, b};
    return badge_ended(b) ? -EIDRM : rights & ~passed->rights ? -EACCES : 0;
}

HANDLE_CALL(kd_badge_create, struct port *p, HANDLE_PORT, KD_RIGHT_RECEIVE, 0)
{
    if (!(a[2] & KD_RIGHT_CALL) || a[2] & ~(uint64_t)KD_RIGHTS_BADGE)
        return -EINVAL;
    struct badge *b = limit_left(p->owner, KD_LIMIT_MEMORY) ? kalloc(sizeof *b) : NULL;
    if (!b)
        return -ENOMEM;
    b->references = 1;
    b->value = a[1];
    port_get(b->port = p);
    lock_acquire(&badges_lock);
    list_push_front(&p->badges, &b->link); /* behind all marks */
    p->owner->limits.badges++;
    lock_release(&badges_lock);
    TRACE(BADGE, KD_TRACE_MADE | p->owner->pid << 8, a[1], a[2]);
    return handle_new(process_this(), HANDLE_BADGE, b, (uint32_t)a[2]);
}

/* The port's badges of a number that have not ended: how many, and they end if they are to. */
static long badges_of(struct port *p, uint64_t number, bool end)
{
    struct badge mark = {.ended = true}; /* in the list: here the walk goes on */
    struct list *at = &mark.link;
    long found = 0;
    lock_acquire(&badges_lock);
    for (list_push_front(&p->badges, at); at != &p->badges; lock_acquire(&badges_lock)) {
        at = mark.link.next;
        list_remove(&mark.link);
        for (unsigned n = 0; n < AT_ONCE && at != &p->badges; n++, at = at->next) {
            struct badge *b = container_of(at, struct badge, link);
            if (b->value != number || badge_ended(b))
                continue;
            found++;
            if (end)
                __atomic_store_n(&b->ended, true, __ATOMIC_SEQ_CST);
        }
        list_insert_before(at, &mark.link);
        lock_release(&badges_lock);
        thread_breathe();
    }
    list_remove(&mark.link);
    lock_release(&badges_lock);
    return found;
}

HANDLE_CALL(kd_badge_end, struct port *p, HANDLE_PORT, KD_RIGHT_RECEIVE, 0)
{
    long ended = badges_of(p, a[1], true);
    TRACE(BADGE, KD_TRACE_ENDED | p->owner->pid << 8, a[1], 0);
    return ended;
}

HANDLE_CALL(kd_badge_used, struct port *p, HANDLE_PORT, KD_RIGHT_RECEIVE, 0)
{
    return badges_of(p, a[1], false);
}

HANDLE_CALL(kd_badge_read, struct port *p, HANDLE_PORT, KD_RIGHT_RECEIVE, 0)
{
    struct handle_slot passed = {0};
    int e = badge_lift((int)a[1], 0, &passed);
    const struct badge *b = passed.object;
    if (!e && b->port != p)
        e = -EXDEV; /* RT5 */
    if (!e)
        e = user_words_out(a[2], (uint64_t[]){b->value, passed.rights}, 2);
    handle_drop(&passed);
    return e;
}

struct port *port_lift(int handle)
{
    struct handle_slot by = {0};
    struct port *port = handle_find(handle, HANDLE_PORT, KD_RIGHT_CALL, port_get);
    if (!handle_failed(port) || (long)port != -EBADF)
        return port;
    int e = badge_lift(handle, KD_RIGHT_CALL, &by);
    port = e ? (void *)(long)e : badge_port(by.object);
    handle_drop(&by);
    return port;
}

long kd_port_same(const uint64_t a[6])
{
    struct port *p = port_lift((int)a[0]), *other = handle_failed(p) ? p : port_lift((int)a[1]);
    long result = handle_failed(other) ? (long)other : p == other ? 0 : -EXDEV;
    if (!handle_failed(other))
        port_put(other);
    if (!handle_failed(p))
        port_put(p);
    return result;
}
