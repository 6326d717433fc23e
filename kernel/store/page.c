/*
 * page.c - pages in and out: requests to managers, their answers, page I/O.
 *
 * A page that is not resident is asked for once (PAGE_ASKED); threads that need it wait on the
 * leaf. A frame that is being read is FILLING and not resident until the manager supplies it.
 *
 * Locks: leaf. Never held across a message, a user copy or I/O.
 */
#include "store/object_private.h"
#include "store/grant.h"
#include "thread/trace.h"
#include "store/commit.h"
#include "store/evict.h"

struct page_wait {
    struct list link;        /* leaf->waits */
    struct thread *thread;
    unsigned slot;
    bool done;
    int error;
    struct item item;        /* the PAGE request, if this one asked */
};

void waits_end(struct leaf *l, unsigned slot, int error)
{
    l->pages[slot].flags &= (uint8_t)~PAGE_ASKED;
    list_for_safe(n, &l->waits) {
        struct page_wait *w = container_of(n, struct page_wait, link);
        if (w->slot != slot)
            continue;
        list_remove(&w->link);
        w->error = error;
        __atomic_store_n(&w->done, true, __ATOMIC_RELEASE);
        thread_wake(w->thread);
    }
}

int page_request(struct leaf *l, unsigned slot, unsigned access, uint64_t pages, struct view *v,
                 uint64_t deadline_ns)
{
    struct object *o = l->object;
    struct page *p = &l->pages[slot];
    struct page_wait w = {.thread = thread_this(), .slot = slot};
    list_init(&w.item.link);
    list_push_back(&l->waits, &w.link);
    bool alive = !o->dead;
    if (alive && !(p->flags & PAGE_ASKED)) {
        struct process *me = process_this();
        item_say(&w.item, ITEM_PAGE, me->pid, o->cookie, l->first + slot, pages, access,
                 v ? v->id + 1u : 0, (uint64_t)o->handle);
        p->flags |= PAGE_ASKED;
        count(page_requests);
        __atomic_fetch_add(&me->stats.manager_calls, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&me->stats.pages_read, 1, __ATOMIC_RELAXED);
        alive = port_post(o->port, &w.item);
    }
    lock_release(&l->lock);
    int e = alive ? 0 : -EOWNERDEAD;
    while (!e && !__atomic_load_n(&w.done, __ATOMIC_ACQUIRE)) {
        TRACE(WAIT, KD_TRACE_FOR_SUPPLY, page_address(l, slot), 0);
        e = thread_park_until(deadline_ns);
        if (!e && v && v->doom)
            e = -EINTR;
    }
    /* PO1: the page may have come with its neighbours while the request is still queued */
    if (__atomic_load_n(&w.done, __ATOMIC_ACQUIRE)) {
        (void)(w.item.kind && port_withdraw(o->port, &w.item)); /* the leaf may be gone */
        return w.error == -EINTR ? -EAGAIN : w.error;
    }
    lock_acquire(&l->lock); /* it stays as long as w is in its list, and then for this look (LF2) */
    bool unseen = w.item.kind && port_withdraw(o->port, &w.item);
    if (w.done) {
        e = w.error;
    } else {
        list_remove(&w.link);
        if (unseen)
            waits_end(l, slot, 0); /* nobody saw the request: the others ask again */
    }
    lock_release(&l->lock);
    return e == -EINTR ? -EAGAIN : e;
}

static bool plain_allowed(struct process *p, const struct object *o, vaddr_t at, bool write)
{
    uint32_t rights = 0;
    struct object *there = object_at(p, at, &rights);
    bool allowed = there == o && (!write || rights & KD_RIGHT_WRITE);
    if (there)
        object_put(there);
    return allowed;
}

int object_plain_fault(struct object *o, struct view *v, vaddr_t at, bool write)
{
    struct process *process = process_this();
    uint64_t index = (at - o->base) >> PAGE_SHIFT;
    unsigned slot = (unsigned)(index % LEAF_PAGES);
    uint64_t vain = evict_vain();
    if (!v)
        v = view_plain(process);
    if (!v)
        return -ENOMEM;
    for (;;) {
        if (thread_this()->killed)
            return -EINTR;
        uint32_t generation = __atomic_load_n(&process->attach_generation, __ATOMIC_SEQ_CST);
        if (!plain_allowed(process, o, at, write))
            return -EACCES;
        struct leaf *l = leaf_lock(o, index);
        if (!l)
            return o->dead ? -EOWNERDEAD : -ENOMEM;
        struct page *p = &l->pages[slot];
        if (o->dead) {
            lock_release(&l->lock);
            return -EOWNERDEAD;
        }
        if (generation != __atomic_load_n(&process->attach_generation, __ATOMIC_SEQ_CST)) {
            lock_release(&l->lock); /* a detach that has passed this leaf would not see the PTE */
            continue;
        }
        if (!page_resident(p) || (write && p->flags & PAGE_NO_WRITE)) {
            int e = page_request(l, slot, write ? KD_WRITE : KD_READ, 1, NULL, ~0ull);
            if (e && e != -EAGAIN)
                return e;
            continue;
        }
        lock_acquire(&v->lock);
        pte_t *pte = view_pte_make(v, at);
        if (pte)
            right_plain(v, l, p, pte, write);
        lock_release(&v->lock);
        if (write && pte) {
            if (!(p->flags & PAGE_DIRTY))
                dirty_count(o, 1);
            p->flags |= PAGE_DIRTY | PAGE_MAPPED_WRITE;
        }
        lock_release(&l->lock);
        if (pte)
            return 0;
        if (!evict_wait(&vain))
            return -ENOMEM;
    }
}

/* a version is published while an older one is on its way, but not so often */
enum { STALE_MAX = 16 };

/* page_install makes `f`, which it consumes, the page's frame. The sequence stays: a page may be
 * read back while a snapshot is older than it. 0 or -ESTALE. Leaf locked. */
static int page_install(struct leaf *l, unsigned slot, struct frame *f, uint32_t rights, csn_t csn)
{
    struct page *p = &l->pages[slot];
    int result = 0, told = 0;
    if (l->object->dead || (page_resident(p) && f != p->frame)) {
        evict_page_back(l->object, f);
        if (rights & KD_WRITE)
            p->flags &= (uint8_t)~PAGE_NO_WRITE;
    } else if (p->flags & PAGE_AWAY && csn < p->csn) {
        /* read before a newer version was published: its faults ask again */
        evict_page_back(l->object, f);
        result = -ESTALE;
        if (++p->stale == STALE_MAX) { /* this manager knows no newer one */
            told = -EIO;
            p->stale = 0;
        }
    } else {
        p->frame = f;
        page_changed(l);
        p->csn = csn;
        p->stale = 0;
        p->flags &= (uint8_t)~(PAGE_FILLING | PAGE_NO_WRITE | PAGE_AWAY);
        if (!(rights & KD_WRITE))
            p->flags |= PAGE_NO_WRITE;
        evict_add(l, slot);
    }
    waits_end(l, slot, told);
    if (told)
        printk("container %s, address 0x%lx: its manager lost what it committed: %lu for %lu",
               l->object->name, page_address(l, slot), csn, p->csn);
    return result;
}

static int supply_one(struct object *o, const struct kd_supply *s, uint64_t i)
{
    unsigned slot = (unsigned)((s->page + i) % LEAF_PAGES);
    bool read = s->source == KD_SUPPLY_READ;
    csn_t csn = s->csn;
    if (read && s->memory && copy_from_user(&csn, (vaddr_t)s->memory + i * sizeof csn, sizeof csn))
        return -EFAULT;
    struct frame *f = read ? NULL : evict_page(o, true);
    int result = read || f ? 0 : -ENOMEM;
    if (f && s->source == KD_SUPPLY_ZERO)
        memset(frame_memory(f), 0, PAGE_BYTES);
    else if (f)
        result = copy_from_user(frame_memory(f), (vaddr_t)s->memory + i * PAGE_BYTES, PAGE_BYTES);
    struct leaf *l = result ? NULL : leaf_lock(o, s->page + i);
    if (!l) {
        if (f)
            evict_page_back(o, f);
        return result || o->dead ? result : -ENOMEM;
    }
    struct page *p = &l->pages[slot];
    if (read) {
        if (p->frame && p->flags & PAGE_FILLING && p->frame->pins == 0) {
            p->flags &= (uint8_t)~PAGE_FILLING;
            f = p->frame;
            p->frame = NULL;
        } else {
            result = -ENOENT; /* it did not come by KD_BLOCK_READ_PAGES */
        }
    } else if (p->flags & PAGE_FILLING) {
        evict_page_back(o, f);
        result = -EBUSY;
        f = NULL;
    }
    if (f)
        result = page_install(l, slot, f, s->rights, csn);
    lock_release(&l->lock);
    return result;
}

/* range_ok tells whether [page, page + n) are pages of o, at least one. */
static bool range_ok(const struct object *o, uint64_t page, uint64_t n)
{
    return n > 0 && page < o->pages && n <= o->pages - page;
}

enum { SUPPLY_AT_ONCE = 64 }; /* pages; then others have their turn */

long kd_object_supply(const uint64_t a[6])
{
    struct kd_supply s;
    int e;
    if (copy_from_user(&s, a[0], sizeof s))
        return -EFAULT;
    struct object *o = handle_get(s.object, HANDLE_OBJECT, KD_RIGHT_MANAGE, &e);
    if (!o)
        return e;
    if (s.source > KD_SUPPLY_READ || !(s.rights & KD_READ) || !range_ok(o, s.page, s.count))
        e = -EINVAL;
    /* the last comes first: mostly the first is waited for, and finds the others here then */
    for (uint64_t i = s.count; i-- > 0 && (!e || e == -ESTALE);) {
        int failed = supply_one(o, &s, i);
        e = failed ? failed : e;
        if (i && i % SUPPLY_AT_ONCE == 0)
            thread_breathe();
        if (thread_this()->killed && !e)
            e = -EINTR;
    }
    object_put(o);
    return e;
}

void page_drop_filling(struct leaf *l, struct page *p)
{
    if (p->flags & PAGE_FILLING) {
        p->flags &= (uint8_t)~PAGE_FILLING;
        evict_page_back(l->object, p->frame);
        p->frame = NULL;
    }
}

struct each { void (*fn)(struct leaf *l, unsigned slot, void *arg); void *arg; };
static unsigned leaf_each(struct leaf *l, unsigned slot, unsigned end, void *each)
{
    const struct each *e = each;
    lock_acquire(&l->lock);
    for (; slot < end; slot++)
        e->fn(l, slot, e->arg);
    lock_release(&l->lock);
    return end;
}

/* pages_for calls fn for each page of a range that has a leaf, with the leaf locked. 0; -EINVAL: no
 * such range. */
static long pages_for(struct object *o, uint64_t page, uint64_t n,
                      void (*fn)(struct leaf *l, unsigned slot, void *arg), void *arg)
{
    struct each each = {fn, arg};
    if (!range_ok(o, page, n))
        return -EINVAL;
    leaves_in(o, page, page + n, leaf_each, &each);
    return 0;
}

/* error_for_client replaces errors that mean "look again" to a fault; a manager's refusal does
 * not. */
static int error_for_client(int error)
{
    return error == EAGAIN || error == EINTR || error == ENXIO || error == ECANCELED ? EIO : error;
}

static void page_fail(struct leaf *l, unsigned slot, void *arg)
{
    int error = *(int *)arg;
    page_drop_filling(l, &l->pages[slot]);
    if (error != EAGAIN) /* the manager tries again: threads that wait go on waiting */
        waits_end(l, slot, -error_for_client(error));
}

/* page_pin pins a page that is in memory, or unpins it. The owner lives while its object is not
 * dead. */
struct pinning { bool on; long result; };
static void page_pin(struct leaf *l, unsigned slot, void *arg)
{
    struct page *p = &l->pages[slot];
    struct pinning *pinning = arg;
    bool is = p->flags & PAGE_PINNED;
    if (l->object->dead || pinning->result < 0 || (pinning->on && !page_resident(p)))
        return;
    if (pinning->on && !is && !limit_charge(l->object->owner, KD_LIMIT_PINS, 1)) {
        pinning->result = -ENOMEM;
        return;
    }
    if (!pinning->on && is)
        limit_uncharge(l->object->owner, KD_LIMIT_PINS, 1);
    p->flags = (uint8_t)(pinning->on ? p->flags | PAGE_PINNED : p->flags & ~PAGE_PINNED);
    pinning->result += pinning->on || is;
}

static void page_cleaned(struct leaf *l, unsigned slot, void *arg)
{
    struct page *p = &l->pages[slot];
    csn_t *csn = arg; /* becomes KD_CSN_ANY if this was the current version */
    bool same = p->csn == *csn || *csn == KD_CSN_ANY;
    if (!page_resident(p) && *csn == KD_CSN_ANY)
        p->flags &= (uint8_t)~PAGE_AWAY;
    if (!page_resident(p) || !same || p->flags & PAGE_MAPPED_WRITE)
        return;
    if (p->flags & PAGE_DIRTY)
        dirty_count(l->object, -1);
    p->flags &= (uint8_t)~PAGE_DIRTY;
    evict_cleaned(p->frame);
    *csn = KD_CSN_ANY;
}

struct advice { bool needed; long count; };
static void page_advise(struct leaf *l, unsigned slot, void *arg)
{
    struct advice *advice = arg;
    advice->count += evict_advise(l, slot, advice->needed);
}

struct info { uint8_t bits[256]; uint64_t first; };
static void page_info(struct leaf *l, unsigned slot, void *arg)
{
    struct info *info = arg;
    const struct page *p = &l->pages[slot];
    uint8_t bits = p->writer != WRITER_NONE ? KD_PAGE_WRITER : 0;
    if (page_resident(p))
        bits |= (uint8_t)(KD_PAGE_RESIDENT | (p->flags & PAGE_DIRTY ? KD_PAGE_DIRTY : 0) |
                          (p->flags & PAGE_PINNED ? KD_PAGE_PINNED : 0));
    if (p->flags & PAGE_AWAY)
        bits |= KD_PAGE_AWAY;
    info->bits[l->first + slot - info->first] = bits;
}

/* ---- page I/O (block_call.c) ---- */

int object_io_begin_read(struct object *o, uint64_t page, bool wait, struct frame **frame)
{
    if (page >= o->pages)
        return -EINVAL;
    struct leaf *l = object_leaf_find(o, page);
    if (l && __atomic_load_n(&l->pages[page % LEAF_PAGES].frame, __ATOMIC_RELAXED))
        return -EALREADY; /* before a frame is taken; below it is looked at with the lock */
    struct frame *f = evict_page(o, wait);
    l = f ? leaf_lock(o, page) : NULL;
    if (f && !l)
        evict_page_back(o, f);
    if (!l)
        return o->dead ? -EOWNERDEAD : -ENOMEM;
    struct page *p = &l->pages[page % LEAF_PAGES];
    int e = o->dead ? -EOWNERDEAD : p->frame ? -EALREADY : 0;
    if (!e) {
        p->frame = f;
        p->flags |= PAGE_FILLING;
        l->touched |= 1ull << page % LEAF_PAGES;
        frame_pin(f);
    }
    lock_release(&l->lock);
    if (e)
        evict_page_back(o, f);
    *frame = f;
    return e;
}

void object_io_end(struct object *o, uint64_t page, struct frame *frame, bool read, int status)
{
    struct leaf *l = object_leaf_find(o, page);
    struct page *p = l ? &l->pages[page % LEAF_PAGES] : NULL;
    if (l) /* else its manager has failed the page meanwhile, or it has died */
        lock_acquire(&l->lock);
    frame_unpin(frame);
    if (p && !read)
        p->flags &= (uint8_t)~PAGE_CLEANING;
    else if (p && status && p->frame == frame)
        page_drop_filling(l, p);
    if (l)
        lock_release(&l->lock);
}

int object_io_begin_write(struct object *o, uint64_t page, struct frame **frame, csn_t *csn)
{
    struct leaf *l = object_leaf(o, page, false);
    if (!l)
        return -ENOENT;
    lock_acquire(&l->lock);
    struct page *p = &l->pages[page % LEAF_PAGES];
    int e = page_resident(p) ? p->flags & PAGE_CLEANING || p->csn > *csn - 1 ? -EBUSY : 0 : -ENOENT;
    /* not transactional: no thread is to store meanwhile */
    if (!e && p->flags & PAGE_MAPPED_WRITE) {
        UNMAP(u, .reason = 0);
        unmap_page(l, (unsigned)(page % LEAF_PAGES), &u);
        unmap_end(&u);
        p->flags &= (uint8_t)~PAGE_MAPPED_WRITE;
    }
    if (!e) {
        p->flags |= PAGE_CLEANING;
        frame_pin(p->frame);
        *frame = p->frame;
        *csn = p->csn;
    }
    lock_release(&l->lock);
    return e;
}

/* ---- what managers say of pages ---- */

/* view_asks tells whether the view asks o's manager (KD_OBJECT_ASK) and has no answer. View
 * locked. */
static bool view_asks(const struct view *v, const struct object *o)
{
    const struct view_question *q = &v->question;
    /* it stays meanwhile */
    return q->kind == ITEM_LOCK && q->answer == ANSWER_NONE && v->last.object == o;
}

void asks_look_again(const struct object *o)
{
    views_each_locked(v, &views_all)
        if (view_asks(v, o))
            thread_wake(v->owner);
}

/* kd_lock_answer answers the question with this number, and no other: the view may have gone on to
 * the next. */
OBJECT_CALL(kd_lock_answer, 0)
{
    uint64_t token = a[1], view = a[2];
    int64_t answer = (int64_t)a[3];
    if (view >= KD_VIEW_MAX || answer > 0 || answer < -4095)
        return -EINVAL;
    struct view *v = &views[view];
    lock_acquire(&v->lock);
    bool asks = view_asks(v, o) && v->question.token == token && v->question.received == token;
    if (asks)
        view_answer(v, error_for_client((int)-answer));
    lock_release(&v->lock);
    return asks ? 0 : -ESRCH;
}

OBJECT_CALL(kd_object_fail, 0)
{
    int error = (int)a[3];
    return error <= 0 || error >= 4096 ? -EINVAL : pages_for(o, a[1], a[2], page_fail, &error);
}

OBJECT_CALL(kd_object_recall, 0)
{
    UNMAP(u, .reason = 0);
    if (!range_ok(o, a[1], a[2]))
        return -EINVAL;
    leaves_in(o, a[1], a[1] + a[2], leaf_unmap, &u);
    return (long)u.in_use;
}

OBJECT_CALL(kd_object_info, 0)
{
    if (!range_ok(o, a[1], a[2]))
        return -EINVAL;
    for (uint64_t done = 0; done < a[2]; done += sizeof(((struct info *)0)->bits)) {
        struct info info = {.first = a[1] + done};
        uint64_t part = MIN(a[2] - done, sizeof info.bits);
        (void)pages_for(o, a[1] + done, part, page_info, &info);
        if (copy_to_user(a[3] + done, info.bits, part))
            return -EFAULT;
    }
    return 0;
}

OBJECT_CALL(kd_object_cleaned, 0)
{
    csn_t csn = a[2];
    long e = pages_for(o, a[1], 1, page_cleaned, &csn);
    if (!e && csn == KD_CSN_ANY)
        evict_wake();
    return e ? e : csn == KD_CSN_ANY ? 0 : -ESTALE;
}

OBJECT_CALL(kd_object_advise, 0)
{
    static const uint8_t clusters[] = {[KD_ADVISE_SEQUENTIAL] = LEAF_PAGES, [KD_ADVISE_RANDOM] = 1};
    struct advice advice = {.needed = a[3] == KD_ADVISE_WILL_NEED};
    if (!range_ok(o, a[1], a[2]) || a[3] > KD_ADVISE_DONT_NEED)
        return -EINVAL;
    if (a[3] < KD_ADVISE_WILL_NEED)
        __atomic_store_n(&o->cluster_fixed, clusters[a[3]], __ATOMIC_RELAXED);
    else
        (void)pages_for(o, a[1], a[2], page_advise, &advice);
    return advice.count;
}

OBJECT_CALL(kd_object_pin, 0)
{
    struct pinning pinning = {.on = (int)a[3]};
    long e = pages_for(o, a[1], a[2], page_pin, &pinning);
    return e ? e : pinning.result;
}
