/*
 * object.c - memory objects: their life, and the calls of managers (object.h).
 *
 * Owns      the objects of each port, addresses for objects without one.
 * Not here  what is known of pages (leaf.c), who may map them (attach.c), pages in and out
 *           (page.c), rights taken away (sweep.c), all objects, by address (overlap.c).
 *
 * Locks: objects_lock for the lists.
 */
#include "store/object_private.h"
#include "store/commit.h"
#include "store/item.h"
#include "store/wait.h"

struct lock objects_lock = LOCK_INIT(RANK_PROCESS_TABLE, "objects");
static vaddr_t next_base;
_Static_assert(sizeof(struct object) <= PAGE_BYTES / OBJECTS_A_FRAME, "what they are charged as");

static const uint64_t OBJECT_PAGES_MAX = (KD_STORE_END - KD_STORE_BASE) >> PAGE_SHIFT;

void object_init(void)
{
    /* the last zone: objects without a place of their own */
    next_base = KD_STORE_END - KD_ZONE_BYTES;
}

/* ---- struct copy ----
 * Each CPU keeps some, so that a fault takes no lock for one; too many for one CPU go to a list
 * that all share, few at a time (free_now). They are cut from whole frames and never given back:
 * there are as many as there were copies at a time, each of which had a frame of its own, 25 times
 * as large, and was charged, or is charged itself (spill.h). Memory of a struct copy never serves
 * for anything else (version.c, hand_on). */

_Static_assert(sizeof(struct copy) <= PAGE_BYTES / RECORDS_A_FRAME, "what spilled ones count as");
enum { COPIES_KEPT = 128, COPIES_MOVED = 16 };
static struct { struct copy *first; unsigned count; } copies_kept[CPU_MAX];
static struct lock copies_lock = LOCK_INIT(RANK_KMEM, "copies");
static struct copy *copies_shared;

/* copies_move moves some from one list to another, and returns how many. */
static __attribute__((noinline, cold)) unsigned copies_move(struct copy **from, struct copy **to)
{
    unsigned n = 0;
    lock_acquire(&copies_lock);
    for (struct copy *c; n < COPIES_MOVED && (c = *from); n++) {
        *from = c->next;
        c->next = *to;
        *to = c;
    }
    lock_release(&copies_lock);
    return n;
}

static __attribute__((noinline, cold)) struct copy *copies_refill(unsigned cpu)
{
    unsigned n = copies_move(&copies_shared, &copies_kept[cpu].first);
    struct frame *f = n ? NULL : frame_alloc_raw(FRAME_RECORD);
    if (f) {
        struct copy *all = frame_memory(f);
        n = PAGE_BYTES / sizeof *all;
        for (unsigned i = 0; i < n; i++)
            all[i].next = i + 1 < n ? &all[i + 1] : NULL;
        copies_kept[cpu].first = all;
    }
    copies_kept[cpu].count = n;
    return n ? copy_alloc() : NULL;
}

struct copy *copy_alloc(void)
{
    unsigned cpu = arch_cpu_id();
    struct copy *c = copies_kept[cpu].first;
    if (!c)
        return copies_refill(cpu);
    copies_kept[cpu].first = c->next;
    copies_kept[cpu].count--;
    return c;
}

void copy_free(struct copy *c)
{
    unsigned cpu = arch_cpu_id();
    c->next = copies_kept[cpu].first;
    copies_kept[cpu].first = c;
    if (++copies_kept[cpu].count > COPIES_KEPT)
        copies_kept[cpu].count -= copies_move(&copies_kept[cpu].first, &copies_shared);
}

/* ---- life ---- */

static RARE void object_free(struct object *o)
{
    leaves_free(o);
    overlaps_forget(o);
    kfree(o->tables);
    (void)port_withdraw(o->port, &o->recalled.item);
    port_put(o->port);
    port_put(o->commit_port);
    kfree(o);
}

COUNTED(object, object_free)

/* ---- objects of a port ---- */

/* object_first finds a port's first object: one that transactions enlist, if it has any of these.
 * Objects lock held. */
static struct object *object_first(struct port *p)
{
    return list_empty(&p->objects) ? NULL
                                   : list_first(&p->objects, struct object_link, link)->object;
}

/* object_list puts o on the lists of its ports. Objects lock held. */
static void object_list(struct object *o)
{
    struct port *const ports[] = {o->port, o->commit_port};
    for (unsigned i = 0; i < 2; i++) {
        o->at_port[i].object = o;
        (object_enlists(o) ? list_push_front : list_push_back)(&ports[i]->objects,
                                                               &o->at_port[i].link);
    }
}

struct port *object_commit_port_of(struct port *p)
{
    lock_acquire(&objects_lock);
    const struct object *o = object_first(p);
    struct port *found = o && object_enlists(o) ? o->commit_port : NULL;
    if (found)
        port_get(found);
    lock_release(&objects_lock);
    return found;
}

/* ---- calls ---- */

static struct object *object_new(const struct kd_object_create *c, struct port *port,
                                 struct port *commit_port)
{
    struct object *o = kalloc(sizeof *o);
    if (!o)
        return NULL;
    *o = (struct object){
        .references = 1, .flags = c->flags, .cookie = c->cookie, .base = c->base, .pages = c->pages,
        .owner = process_this(), .port = port, .commit_port = commit_port,
        .most = ~0ull, .near_score = SCORE_NEW,
        .items = {NULL, __builtin_ctz(KD_ITEMS_DEFAULT), (1 << KD_ITEM_MODES) - 1},
        .table_count = (c->pages + LEAF_PAGES * LEAF_TABLE - 1) / (LEAF_PAGES * LEAF_TABLE),
    };
    o->tables = leaf_tables_new(o->table_count);
    object_charge(o->owner, 1);
    if (!o->tables || !limit_left(o->owner, KD_LIMIT_MEMORY) ||
        !limit_charge(o->owner, KD_LIMIT_MEMORY, object_table_frames(o))) {
        object_charge(o->owner, -1);
        kfree(o->tables);
        kfree(o);
        return NULL;
    }
    lock_init(&o->lock, RANK_OBJECT, "object");
    list_init(&o->attachments);
    container_lock_init(&o->container_lock);
    for (unsigned i = 0; i < PLACES; i++)
        list_init(&o->places[i]);
    if (commit_port->rank)
        o->floor = version_newest(); /* its pages are of a later time than snapshots there are */
    item_say(&o->recalled.item, ITEM_RECALLED, 0, c->cookie);
    list_init(&o->recalled.item.link);
    memcpy(o->name, c->name, sizeof o->name);
    o->name[sizeof o->name - 1] = 0;
    return o;
}

static bool object_create_ok(const struct kd_object_create *c)
{
    const unsigned how = KD_OBJECT_UNLOCKED | KD_OBJECT_ITEMS; /* of transactions, one of them */
    if (c->flags & ~509u || c->pages == 0 || c->pages > OBJECT_PAGES_MAX ||
        (c->flags & how) == how || (c->flags & KD_OBJECT_VERSIONS && c->flags & how) ||
        (c->flags & (how | KD_OBJECT_GUARD | KD_OBJECT_CODEWORDS | KD_OBJECT_VERSIONS) &&
         !(c->flags & KD_OBJECT_TRANSACTIONAL)))
        return false;
    if (c->base == 0)
        return c->pages <= KD_ZONE_BYTES / 8 / PAGE_BYTES;
    return c->base % PAGE_BYTES == 0 && c->base >= KD_STORE_BASE && c->base < KD_STORE_END &&
           c->pages <= (KD_STORE_END - c->base) >> PAGE_SHIFT;
}

/* base_choose finds a range for an object that names none; the cursor wraps and does not reuse
 * before. */
static vaddr_t base_choose(uint64_t pages)
{
    uint64_t bytes = ((pages << PAGE_SHIFT) + (1ull << 30) - 1) >> 30 << 30;
    lock_acquire(&objects_lock);
    if (next_base + bytes > KD_STORE_END)
        next_base = KD_STORE_END - KD_ZONE_BYTES;
    vaddr_t base = next_base;
    next_base += bytes;
    lock_release(&objects_lock);
    return base;
}

long kd_object_create(const uint64_t a[6])
{
    struct kd_object_create c;
    if (copy_from_user(&c, a[0], sizeof c))
        return -EFAULT;
    if (!object_create_ok(&c))
        return -EINVAL;
    if (!c.base) {
        c.base = base_choose(c.pages);
        if (copy_to_user(a[0], &c, sizeof c))
            return -EFAULT;
    }
    struct port *port = handle_find(c.port, HANDLE_PORT, KD_RIGHT_RECEIVE, port_get);
    if (handle_failed(port))
        return (long)port;
    struct port *commit_port = handle_find(c.commit_port, HANDLE_PORT, KD_RIGHT_RECEIVE, port_get);
    if (handle_failed(commit_port)) {
        port_put(port);
        return (long)commit_port;
    }
    /* Both are this process's (HD3): the object and its commits end together, with it. */
    lock_acquire(&commit_port->lock); /* its rank and base stay from now on */
    commit_port->serves |= (c.flags & KD_OBJECT_TRANSACTIONAL) != 0;
    lock_release(&commit_port->lock);
    bool stacked = c.flags & (KD_OBJECT_ITEMS | KD_OBJECT_CODEWORDS) && commit_port->rank; /* IT8 */
    struct object *o = stacked ? NULL : object_new(&c, port, commit_port);
    if (!o) {
        port_put(port);
        port_put(commit_port);
        return stacked ? -EXDEV : -ENOMEM;
    }
    commit_port->wants_gone |= (c.flags & KD_OBJECT_NOTICES) != 0;
    commit_port->spills |= (c.flags & KD_OBJECT_SPILLS) != 0;
    bool trusted = limit_may_take_kept(process_this()) || system_allows(KD_RIGHT_DISKS) ||
                   handle_held(HANDLE_BLOCK, NULL, 0);
    if (c.flags & KD_OBJECT_SPILLS && trusted)
        process_this()->takes_reserve = true;
    /* for the lists: object_die() takes it off and puts it, closing a handle does not */
    object_get(o);
    lock_acquire(&objects_lock);
    object_list(o);
    object_place(o);
    lock_release(&objects_lock);
    count(objects);
    object_meets(o);
    /* PO3: a thread that closes a port meanwhile finds the object in the list, or this one sees
     * that it is dead */
    bool dead = __atomic_load_n(&port->dead, __ATOMIC_SEQ_CST) ||
                __atomic_load_n(&commit_port->dead, __ATOMIC_SEQ_CST);
    if (!dead)
        object_get(o); /* for the handle, which another thread may close at once */
    long h = dead ? -EBADF : handle_new(process_this(), HANDLE_OBJECT, o, KD_RIGHTS_OBJECT);
    o->handle = (int)h;
    if (h < 0)
        (void)object_die(o, false);
    object_put(o);
    return h;
}

struct use { unsigned writers; bool kept; };

/* page_use adds to *arg, a struct use, whether a transaction stores to the page, and whether memory
 * holds what the manager could not supply again: a version that is not home, or one that a snapshot
 * sees. PAGE_AWAY is no such use: the manager has the version, and no older supply finds a dead
 * object. */
static void page_use(struct leaf *l, unsigned slot, void *arg)
{
    const unsigned KEPT =
        PAGE_DIRTY | PAGE_FILLING | PAGE_CLEANING | PAGE_PINNED | PAGE_MAPPED_WRITE;
    struct use *use = arg;
    const struct page *p = &l->pages[slot];
    unsigned state = p->writer != WRITER_NONE ? views[p->writer].state : VIEW_IDLE;
    use->writers += state == VIEW_ACTIVE || state == VIEW_COMMITTING || item_copies(l, p);
    use->kept |= p->versions || p->flags & KEPT;
}

static bool object_in_use(struct object *o)
{
    lock_acquire(&o->lock);
    bool used = object_used(o);
    lock_release(&o->lock);
    if (used)
        return true;
    struct use use = {0};
    (void)pages_for(o, 0, o->pages, page_use, &use);
    return use.writers || use.kept;
}

struct object_use object_use(struct object *o)
{
    struct use use = {0};
    (void)pages_for(o, 0, o->pages, page_use, &use);
    struct object_use told = {o->resident, o->dirty, use.writers, o->versions, .dead = o->dead};
    memcpy(told.touches, o->touches, sizeof told.touches);
    lock_acquire(&o->lock);
    list_for(l, &o->attachments)
        told.users++;
    lock_release(&o->lock);
    return told;
}

void objects_end(struct port *p)
{
    for (struct object *o; ; object_put(o)) {
        lock_acquire(&objects_lock);
        if ((o = object_first(p)))
            object_get(o);
        lock_release(&objects_lock);
        if (!o)
            return;
        (void)object_die(o, false); /* also by a thread that is killed */
        thread_breathe(); /* another thread may be destroying it, and wait for this CPU */
    }
}

OBJECT_CALL(kd_object_destroy, 0)
{
    if (a[1] > 1)
        return -EINVAL;
    if ((a[1] && object_in_use(o)) || !object_die(o, a[1]))
        return -EBUSY;
    return handle_close(process_this(), (int)a[0]);
}

/* kd_object_encoder refuses RANGES (-EBUSY) while transactions have stored undeclared: these stores
 * would be lost. */
OBJECT_CALL(kd_object_encoder, 0)
{
    uint32_t before = o->encoder;
    struct use use = {0};
    if (a[1] > KD_ENCODER_ADAPTIVE || (a[1] && o->flags & KD_OBJECT_ITEMS))
        return -EINVAL;
    o->encoder = (uint32_t)a[1];
    if (o->encoder == KD_ENCODER_RANGES && before != KD_ENCODER_RANGES)
        (void)pages_for(o, 0, o->pages, page_use, &use);
    if (use.writers)
        o->encoder = before;
    return use.writers ? -EBUSY : 0;
}
