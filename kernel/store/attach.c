/*
 * attach.c - attachments: which process may map which object.
 *
 * AT1  A process's attachments are an array, sorted by address; no two overlap. Each object has a
 *      list of its own.
 * AT2  What lies at the addresses of a dead object of a process is attached when that is swept.
 * AT3  A revoke ends each attachment that there is when it begins, and goes on for none that comes
 *      later: a client that attaches again keeps no manager in the kernel.
 *
 * Locks: object->lock, then process attach_lock; both to change an attachment.
 */
#include "store/object_private.h"
#include "store/dying.h"
#include "store/mapping.h"
#include "store/version.h"

enum { ATTACHMENTS_MAX = 1024 };
_Static_assert(sizeof(struct attachment) <= PAGE_BYTES / CLIENTS_A_FRAME, "as it is charged");
static uint64_t turns;                          /* attachments that there were; atomic */

/* attachment_after finds the place of p's first attachment that ends behind `at`. Attach lock
 * held. */
static unsigned attachment_after(const struct process *p, vaddr_t at)
{
    unsigned low = 0, high = p->attachment_count;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (object_end(p->attachments[middle]->object) > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

struct object *object_at(struct process *p, vaddr_t at, uint32_t *rights)
{
    struct object *found = NULL;
    lock_acquire(&p->attach_lock);
    unsigned i = attachment_after(p, at);
    if (i < p->attachment_count && p->attachments[i]->object->base <= at) {
        *rights = p->attachments[i]->rights;
        found = p->attachments[i]->object;
        object_get(found);
    }
    lock_release(&p->attach_lock);
    return found;
}

struct kd_space_info object_info(const struct object *o, uint32_t rights)
{
    struct kd_space_info info = {o->base, o->pages, o->cookie, rights, o->flags, {0}};
    memcpy(info.name, o->name, sizeof info.name);
    return info;
}

struct kd_space_info attachment_info(const struct attachment *a)
{
    return object_info(a->object, a->rights);
}

/* attachment_new: the manager pays for it until it has heard of its end, whenever that is. */
static struct attachment *attachment_new(struct object *o, struct process *p, uint32_t rights)
{
    struct process *manager = o->port->owner;
    struct attachment *a = kalloc(sizeof *a);
    if (!a)
        return NULL;
    *a = (struct attachment){.object = o, .process = p, .manager = manager, .rights = rights};
    list_init(&a->gone.link);
    process_get(manager);
    __atomic_fetch_add(&manager->limits.clients, 1, __ATOMIC_RELAXED);
    return a;
}

static void attachment_free(struct attachment *a)
{
    __atomic_fetch_sub(&a->manager->limits.clients, 1, __ATOMIC_RELAXED);
    process_put(a->manager);
    kfree(a);
}

void attachment_gone_told(struct item *i)
{
    attachment_free(container_of(i, struct attachment, gone));
}

/* attachment_end ends an attachment that is off its process's array. */
static void attachment_end(struct attachment *a, bool tell)
{
    struct object *o = a->object;
    lock_acquire(&o->lock);
    list_remove(&a->object_link);
    lock_release(&o->lock);
    item_say(&a->gone, ITEM_CLIENT_GONE, a->process->pid, o->cookie);
    if (!tell || !port_post(o->port, &a->gone))
        attachment_free(a);
    object_put(o);
}

/* attachment_remove takes an attachment off p's array: that to o; with `dead`, one to a dead object
 * in o's range, which is swept; with o NULL any, but for those whose manager has a commit that p
 * left behind and hears of p's end when it has answered. NULL: there is none. */
static struct attachment *attachment_remove(struct process *p, const struct object *o, bool dead)
{
    struct attachment *a = NULL;
    lock_acquire(&p->attach_lock);
    for (unsigned i = 0; i < p->attachment_count && !a; i++) {
        const struct object *at = p->attachments[i]->object;
        if (dead ? !at->swept || at->base >= object_end(o) || o->base >= object_end(at)
            : o  ? at != o
                 : view_forsaken(p, at->commit_port))
            continue;
        a = p->attachments[i];
        p->attachment_count--;
        __atomic_fetch_add(&p->attach_generation, 1, __ATOMIC_SEQ_CST);
        memmove(&p->attachments[i], &p->attachments[i + 1],
                (p->attachment_count - i) * sizeof p->attachments[0]);
    }
    lock_release(&p->attach_lock);
    return a;
}

static long space_detach(struct process *p, struct object *o)
{
    struct attachment *a = attachment_remove(p, o, false);
    if (!a)
        return -ENOENT;
    (void)mappings_end(p, 0, o->base, o->pages << PAGE_SHIFT);
    UNMAP(u, .only = p, .reason = EACCES);
    leaves_for(o, leaf_unmap, &u);
    attachment_end(a, false);
    return 0;
}

static bool attachments_grow(struct process *p)
{
    if (p->attachment_count < p->attachment_capacity)
        return true;
    unsigned room = p->attachment_capacity ? p->attachment_capacity * 2 : 16;
    struct attachment **bigger = room > ATTACHMENTS_MAX ? NULL : kalloc(room * sizeof *bigger);
    if (!bigger)
        return false;
    memcpy(bigger, p->attachments, p->attachment_count * sizeof *bigger);
    kfree(p->attachments);
    p->attachments = bigger;
    p->attachment_capacity = room;
    return true;
}

/* attachment_insert puts a into the process's sorted array. 0; -EALREADY: only the rights are new,
 * and a->rights is what was lost; -EEXIST: another object lies there. Attach lock held. */
static int attachment_insert(struct process *p, struct attachment *a)
{
    struct object *o = a->object;
    unsigned i = attachment_after(p, o->base);
    struct attachment *there = i < p->attachment_count ? p->attachments[i] : NULL;
    if (there && there->object == o) {
        uint32_t before = there->rights;
        there->rights = a->rights;
        a->rights = before & ~a->rights;
        __atomic_fetch_add(&p->attach_generation, 1, __ATOMIC_SEQ_CST);
        return -EALREADY;
    }
    if (there && there->object->base < object_end(o))
        return -EEXIST;
    if (!limit_left(a->manager, KD_LIMIT_MEMORY) || !attachments_grow(p))
        return -ENOMEM;
    memmove(&p->attachments[i + 1], &p->attachments[i],
            (p->attachment_count - i) * sizeof p->attachments[0]);
    assert(i <= p->attachment_count && p->attachment_count < p->attachment_capacity); /* AT1 */
    p->attachments[i] = a;
    p->attachment_count++;
    __atomic_fetch_add(&p->attach_generation, 1, __ATOMIC_SEQ_CST);
    return 0;
}

/* consents tells whether this client lets the calling manager map objects into it. A mapping takes
 * addresses, and its manager may abort transactions. So the client must have asked: by a call that
 * is being served, or by an attachment from before; a parent may lay out its children. */
static bool consents(struct process *client)
{
    struct process *me = process_this();
    return client == me || client->parent == me->pid || call_served_from(client->pid) ||
           object_manager_of(me, client);
}

static unsigned leaf_ages(struct leaf *l, unsigned slot, unsigned end, void *floor)
{
    (void)slot;
    lock_acquire(&l->lock);
    l->floor = MAX(l->floor, *(uint64_t *)floor);
    for (struct page *p = l->pages; p < l->pages + LEAF_PAGES; p++)
        p->sequence = p->versions ? p->sequence : MAX(p->sequence, l->floor);
    lock_release(&l->lock);
    return end;
}

/* object_ages makes pages that nobody could see before as young as what lay there asks for (VS6):
 * the object may have been made, and supplied, while that was still there. */
static void object_ages(struct object *o)
{
    uint64_t first = version_first(o->base);
    lock_acquire(&o->lock);
    bool ages = first > o->floor;
    o->floor = MAX(o->floor, first);
    lock_release(&o->lock);
    if (ages)
        leaves_for(o, leaf_ages, &first);
}

static long space_attach(struct process *p, struct object *o, uint32_t rights)
{
    if (!consents(p))
        return -EPERM;
    if (!rights || rights & ~(uint32_t)(KD_RIGHT_READ | KD_RIGHT_WRITE))
        return -EINVAL;
    struct attachment *a = o->dead ? NULL : attachment_new(o, p, rights);
    if (!a)
        return o->dead ? -EOWNERDEAD : -ENOMEM;
    /* a dead manager's objects there make room: its successor brings the containers back. Until
     * they are swept p's views have entries to their pages, which would be taken for o's (AT2).
     * A manager that attaches for p waits for none of p's: it serves others, too. */
    int e = 0;
    if (object_dying(p, 0, o->base, object_end(o)))
        e = p == process_this() ? deaths_sleep(p, 0, o->base, object_end(o)) : -EINPROGRESS;
    if (e) {
        attachment_free(a);
        return e;
    }
    for (struct attachment *old; (old = attachment_remove(p, o, true));)
        attachment_end(old, false);
    if (list_empty(&o->attachments))
        object_ages(o);
    lock_acquire(&o->lock); /* process list and object list change together */
    lock_acquire(&p->attach_lock);
    e = p->dying ? -ESRCH : o->dead ? -EOWNERDEAD : attachment_insert(p, a);
    if (!e) {
        object_get(o);
        a->turn = __atomic_add_fetch(&turns, 1, __ATOMIC_RELAXED);
        list_push_back(&o->attachments, &a->object_link);
    }
    lock_release(&p->attach_lock);
    lock_release(&o->lock);
    if (e == -EALREADY && a->rights) {
        UNMAP(u, .only = p, .reason = EACCES);
        leaves_for(o, leaf_unmap, &u);
    }
    if (e)
        attachment_free(a);
    return e == -EALREADY ? 0 : e;
}

static void attachments_end(struct process *p)
{
    struct attachment *a;
    while ((a = attachment_remove(p, NULL, false))) { /* what it used; its views are gone */
        UNMAP(u, .only = p, .reason = EACCES);
        if (!(a->object->flags & KD_OBJECT_TRANSACTIONAL))
            leaves_for(a->object, leaf_unmap, &u);
        attachment_end(a, true);
    }
    lock_acquire(&p->attach_lock); /* execve: the process goes on, and may be given others */
    struct attachment **table = p->attachment_count ? NULL : p->attachments;
    if (table) {
        p->attachments = NULL;
        p->attachment_capacity = 0;
    }
    lock_release(&p->attach_lock);
    kfree(table);
}

void object_process_gone(struct process *p)
{
    /* its ports are dead, and its objects with them, unless another thread is at it still */
    while (__atomic_load_n(&p->limits.objects, __ATOMIC_ACQUIRE))
        thread_breathe();
    (void)mappings_end(p, 0, 0, ~0ull);
    attachments_end(p);
}

void attachments_end_left(struct process *p)
{
    lock_acquire(&p->lock);
    bool gone = p->thread_count == 0;
    lock_release(&p->lock);
    if (gone)
        attachments_end(p);
}

/* attached_until returns the process of o's first attachment, if that has this turn or an earlier
 * one; a reference, or NULL. */
static struct process *attached_until(struct object *o, uint64_t turn)
{
    struct process *p = NULL;
    lock_acquire(&o->lock);
    if (!list_empty(&o->attachments)) {
        const struct attachment *a = list_first(&o->attachments, struct attachment, object_link);
        p = a->turn <= turn ? a->process : NULL;
    }
    if (p)
        process_get(p);
    lock_release(&o->lock);
    return p;
}

/* kd_object_revoke ends the attachments that there are now, and waits for none that come
 * meanwhile. */
OBJECT_CALL(kd_object_revoke, 0)
{
    enum { LOOK_NS = 100000 };
    (void)a;
    lock_acquire(&o->lock); /* whatever is in its list has a smaller turn than what comes */
    uint64_t last = __atomic_load_n(&turns, __ATOMIC_RELAXED);
    lock_release(&o->lock);
    while (!thread_this()->killed) {
        struct process *p = attached_until(o, last);
        if (!p)
            return 0;
        if (space_detach(p, o)) /* somebody else ends it, and may wait for this CPU */
            (void)thread_park_until(arch_time_ns() + LOOK_NS);
        process_put(p);
        thread_breathe();
    }
    return -EINTR;
}

bool object_manager_of(struct process *manager, struct process *client)
{
    bool is = false;
    if (!client)
        return false;
    lock_acquire(&client->attach_lock);
    for (unsigned i = 0; i < client->attachment_count; i++)
        is |= !client->attachments[i]->object->dead &&
              client->attachments[i]->object->owner == manager;
    lock_release(&client->attach_lock);
    return is;
}

/* space_call maps o into a process, or ends that: for o's managers, and for itself for whoever was
 * given a handle with these rights to its pages. */
static long space_call(struct object *o, const uint64_t a[6], bool on, uint32_t rights)
{
    struct process *p = process_find((int)a[0]);
    bool may = handle_held(HANDLE_OBJECT, o, KD_RIGHT_MANAGE) ||
               (p == process_this() && handle_held(HANDLE_OBJECT, o, rights));
    long r = !p ? -ESRCH : !may ? -EACCES : on ? space_attach(p, o, rights) : space_detach(p, o);
    if (p)
        process_put(p);
    return r;
}

HANDLE_CALL(kd_space_attach, struct object *o, HANDLE_OBJECT, 0, 1)
{
    return space_call(o, a, true, (uint32_t)a[2]);
}

HANDLE_CALL(kd_space_detach, struct object *o, HANDLE_OBJECT, 0, 1)
{
    return space_call(o, a, false, 0);
}

HANDLE_CALL(kd_space_rights, struct object *o, HANDLE_OBJECT, KD_RIGHT_MANAGE, 1)
{
    struct process *p = process_find((int)a[0]);
    uint32_t rights = 0;
    if (!p)
        return -ESRCH;
    lock_acquire(&p->attach_lock);
    unsigned i = attachment_after(p, o->base);
    if (i < p->attachment_count && p->attachments[i]->object == o)
        rights = p->attachments[i]->rights;
    lock_release(&p->attach_lock);
    process_put(p);
    return rights;
}
