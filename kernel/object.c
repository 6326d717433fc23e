/*
 * object.c - memory objects: attachments, pages in and out, the death of a manager (object.h).
 *
 * Locks: objects_lock (list of all), object->lock (attachments), process attach_lock, leaf, view.
 */
#include "object.h"

#include "handle.h"
#include "view.h"

static struct lock objects_lock = LOCK_INIT(RANK_PROCESS_TABLE, "objects");
static struct list objects = {&objects, &objects};
static uint32_t sweeps; /* sweeps of dead objects under way; atomic */
static vaddr_t next_base;

enum { OBJECTS_MAX = 4096 };
static const uint64_t OBJECT_PAGES_MAX = (KD_STORE_END - KD_STORE_BASE) >> PAGE_SHIFT;

void object_init(void)
{
    next_base = KD_STORE_END - KD_ZONE_BYTES; /* the last zone: objects without a place of their own */
}

/* ---- life ---- */

void object_get(struct object *o) { __atomic_fetch_add(&o->references, 1, __ATOMIC_RELAXED); }

static void object_free(struct object *o)
{
    for (uint64_t i = 0; i < o->table_count; i++) {
        for (unsigned k = 0; o->tables[i] && k < LEAF_TABLE; k++)
            kfree(o->tables[i][k]);
        kfree(o->tables[i]);
    }
    kfree(o->tables);
    port_put(o->port);
    port_put(o->commit_port);
    kfree(o);
}

void object_put(struct object *o)
{
    if (__atomic_sub_fetch(&o->references, 1, __ATOMIC_ACQ_REL) == 0)
        object_free(o);
}

struct leaf *object_leaf(struct object *o, uint64_t page, bool create)
{
    uint64_t n = page / LEAF_PAGES;
    if (page >= o->pages)
        return NULL;
    struct leaf ***slot = &o->tables[n / LEAF_TABLE];
    struct leaf **table = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    if (!table) {
        if (!create || !(table = kalloc(LEAF_TABLE * sizeof *table)))
            return NULL;
        struct leaf **none = NULL;
        if (!__atomic_compare_exchange_n(slot, &none, table, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_ACQUIRE)) {
            kfree(table);
            table = none;
        }
    }
    struct leaf **at = &table[n % LEAF_TABLE], *l = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    if (l || !create || !(l = kalloc(sizeof *l)))
        return l;
    lock_init(&l->lock, RANK_LEAF, "leaf");
    l->object = o;
    l->first = n * LEAF_PAGES;
    list_init(&l->waits);
    for (unsigned i = 0; i < LEAF_PAGES; i++) {
        list_init(&l->pages[i].waiters);
        l->pages[i].writer = WRITER_NONE;
    }
    struct leaf *none = NULL;
    if (!__atomic_compare_exchange_n(at, &none, l, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        kfree(l);
        l = none;
    }
    return l;
}

/* Calls fn for each leaf that exists. */
static void leaves_for(struct object *o, void (*fn)(struct leaf *l, void *arg), void *arg)
{
    for (uint64_t i = 0; i < o->table_count; i++) {
        struct leaf **table = __atomic_load_n(&o->tables[i], __ATOMIC_ACQUIRE);
        for (unsigned k = 0; table && k < LEAF_TABLE; k++) {
            struct leaf *l = __atomic_load_n(&table[k], __ATOMIC_ACQUIRE);
            if (l)
                fn(l, arg);
        }
    }
}

void object_for_each_leaf(void (*fn)(struct leaf *l, void *arg), void *arg)
{
    struct object *done = NULL; /* the one before, kept alive so that its place in the list holds */
    lock_acquire(&objects_lock);
    struct list *l = objects.next;
    while (l != &objects) {
        struct object *o = container_of(l, struct object, all);
        object_get(o);
        lock_release(&objects_lock);
        leaves_for(o, fn, arg);
        if (done)
            object_put(done);
        done = o;
        lock_acquire(&objects_lock);
        l = o->dead ? objects.next : o->all.next; /* it left the list: from the start again */
    }
    lock_release(&objects_lock);
    if (done)
        object_put(done);
}

/* ---- taking rights by force: deaths, detaching, recall ---- */

struct unmap {
    struct process *only;    /* views of this process; NULL: all */
    int reason;              /* active views that lose a PTE are doomed with it; 0: are left alone */
    bool dying;              /* the copies of committing views go too: nobody will publish them */
    uint64_t in_use;         /* pages that active views keep */
    uint64_t shoot;
};

static void copy_take(struct view *v, struct leaf *l, unsigned slot)
{
    list_for_safe(n, &v->copies) {
        struct copy *c = container_of(n, struct copy, link);
        if (c->leaf != l || c->slot != slot)
            continue;
        list_remove(&c->link);
        v->copy_count--;
        v->credits--;
        credit_return(v->enlisted, 1);
        frame_free(c->frame);
        kfree(c);
    }
}

/* One view's PTE for one page. Leaf locked. */
static void unmap_view(struct leaf *l, unsigned slot, struct view *v, struct unmap *u)
{
    struct page *p = &l->pages[slot];
    vaddr_t at = page_address(l, slot);
    lock_acquire(&v->lock);
    pte_t *pte = u->only && v->process != u->only ? NULL : view_pte(v, at);
    pte_t e = pte ? pte_load(pte) : 0;
    bool takes = e != 0;
    if (e && v->state == VIEW_COMMITTING && !u->dying) {
        v->owed = true; /* all its rights go at its end, which is near */
        v->owed_count = OWED_MAX + 1;
        takes = false;
    } else if (e && v->state == VIEW_ACTIVE && !u->reason) {
        u->in_use++;
        takes = false;
    }
    if (takes) {
        e = pte_exchange(pte, 0);
        if (pte_present(e) || e & PTE_HELD) {
            v->stale = true;
            u->shoot |= view_cpu_bit(v);
        }
        vmask_clear(&p->mask, v->id);
        if (p->writer == v->id)
            p->writer = WRITER_NONE;
        if (v->state == VIEW_ACTIVE) {
            lock_acquire(&graph_lock);
            if (!v->doom)
                v->doom = u->reason;
            lock_release(&graph_lock);
            thread_wake(v->owner);
            thread_kick(v->owner);
        }
    }
    bool copy = takes && e & PTE_COPY;
    uint64_t shoot = u->shoot;
    if (copy && shoot)
        arch_shootdown(shoot); /* before its frame is freed (F1) */
    if (copy)
        copy_take(v, l, slot);
    lock_release(&v->lock);
}

static void unmap_page(struct leaf *l, unsigned slot, struct unmap *u)
{
    struct page *p = &l->pages[slot];
    struct vmask mask = p->mask;
    vmask_for(v, &mask)
        unmap_view(l, slot, &views[v], u);
    if (u->shoot)
        arch_shootdown(u->shoot);
    u->shoot = 0;
    if (!list_empty(&p->waiters))
        thread_wake(list_first(&p->waiters, struct view, queue_link)->owner);
}

struct page_wait {
    struct list link;        /* leaf->waits */
    struct thread *thread;
    unsigned slot;
    bool done;
    int error;
    struct item item;        /* the PAGE request, if this one asked */
};

/* The page's waiters learn that it came, or the manager's error. Leaf locked. */
static void waits_end(struct leaf *l, unsigned slot, int error)
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

void page_sweep(struct leaf *l, unsigned slot, int reason)
{
    struct page *p = &l->pages[slot];
    struct unmap u = {.reason = reason, .dying = true};
    unmap_page(l, slot, &u);
    while (p->versions)
        version_free(p, p->versions);
    if (p->frame) {
        if (!(p->flags & PAGE_FILLING))
            evict_remove(p->frame);
        if (p->flags & PAGE_DIRTY)
            count_add(dirty_pages, -1ull);
        frame_free(p->frame);
        p->frame = NULL;
    }
    p->flags = 0;
    p->writer = WRITER_NONE;
    p->csn = p->sequence = 0;
    waits_end(l, slot, -EOWNERDEAD);
}

static void leaf_sweep(struct leaf *l, void *arg)
{
    lock_acquire(&l->lock);
    for (unsigned i = 0; i < LEAF_PAGES; i++)
        page_sweep(l, i, *(int *)arg);
    lock_release(&l->lock);
}

/* The manager is gone, or destroys it: a power cut for the object (A4). */
static void object_die(struct object *o, int reason)
{
    lock_acquire(&o->lock);
    bool was = o->dead;
    if (!was)
        __atomic_fetch_add(&sweeps, 1, __ATOMIC_ACQ_REL);
    o->dead = true;
    lock_release(&o->lock);
    if (was)
        return;
    leaves_for(o, leaf_sweep, &reason);
    lock_acquire(&objects_lock);
    list_remove(&o->all);
    lock_release(&objects_lock);
    count_add(objects, -1ull);
    __atomic_fetch_sub(&sweeps, 1, __ATOMIC_ACQ_REL);
}

void object_wait_for_sweeps(void)
{
    while (__atomic_load_n(&sweeps, __ATOMIC_ACQUIRE))
        thread_yield();
}

/* ---- attachments ---- */

struct object *object_at(struct process *p, vaddr_t at, uint32_t *rights)
{
    struct object *found = NULL;
    lock_acquire(&p->attach_lock);
    unsigned low = 0, high = p->attachment_count;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        struct object *o = p->attachments[middle]->object;
        if (at < o->base)
            high = middle;
        else if (at - o->base >= o->pages << PAGE_SHIFT)
            low = middle + 1;
        else {
            *rights = p->attachments[middle]->rights;
            found = o;
            object_get(o);
            break;
        }
    }
    lock_release(&p->attach_lock);
    return found;
}

void attachment_gone_delivered(struct item *i)
{
    kfree(container_of(i, struct attachment, gone));
}

/* Ends one attachment that was taken off its process's array. */
static void attachment_end(struct attachment *a, bool tell)
{
    struct object *o = a->object;
    lock_acquire(&o->lock);
    list_remove(&a->object_link);
    lock_release(&o->lock);
    a->gone.kind = ITEM_CLIENT_GONE;
    a->gone.process = (uint64_t)a->pid;
    a->gone.word[0] = o->cookie;
    if (!tell || !port_post(o->port, &a->gone))
        kfree(a);
    object_put(o);
}

static struct attachment *attachment_remove(struct process *p, const struct object *o)
{
    struct attachment *a = NULL;
    lock_acquire(&p->attach_lock);
    for (unsigned i = 0; i < p->attachment_count && !a; i++) {
        if (p->attachments[i]->object != o)
            continue;
        a = p->attachments[i];
        p->attachment_count--;
        memmove(&p->attachments[i], &p->attachments[i + 1],
                (p->attachment_count - i) * sizeof p->attachments[0]);
    }
    lock_release(&p->attach_lock);
    return a;
}

static void leaf_unmap(struct leaf *l, void *arg)
{
    lock_acquire(&l->lock);
    for (unsigned i = 0; i < LEAF_PAGES; i++)
        if (!vmask_empty(&l->pages[i].mask))
            unmap_page(l, i, arg);
    lock_release(&l->lock);
}

static long space_detach(struct process *p, struct object *o)
{
    struct attachment *a = attachment_remove(p, o);
    if (!a)
        return -ENOENT;
    struct unmap u = {.only = p, .reason = EACCES};
    leaves_for(o, leaf_unmap, &u);
    attachment_end(a, false);
    return 0;
}

/* Dead objects in the range make room: their manager's successor brings the containers back. */
static void attachments_clear_dead(struct process *p, const struct object *o)
{
    for (;;) {
        struct object *dead = NULL;
        lock_acquire(&p->attach_lock);
        for (unsigned i = 0; i < p->attachment_count && !dead; i++) {
            struct object *other = p->attachments[i]->object;
            if (other->dead && other->base < o->base + (o->pages << PAGE_SHIFT) &&
                o->base < other->base + (other->pages << PAGE_SHIFT))
                dead = other;
        }
        if (dead)
            object_get(dead);
        lock_release(&p->attach_lock);
        if (!dead)
            return;
        struct attachment *a = attachment_remove(p, dead);
        if (a)
            attachment_end(a, false);
        object_put(dead);
    }
}

enum { ATTACHMENTS_MAX = 1024 };

static bool attachments_grow(struct process *p)
{
    if (p->attachment_count < p->attachment_capacity)
        return true;
    unsigned capacity = p->attachment_capacity ? p->attachment_capacity * 2 : 16;
    if (capacity > ATTACHMENTS_MAX)
        return false;
    struct attachment **bigger = kalloc(capacity * sizeof *bigger);
    if (!bigger)
        return false;
    memcpy(bigger, p->attachments, p->attachment_count * sizeof *bigger);
    kfree(p->attachments);
    p->attachments = bigger;
    p->attachment_capacity = capacity;
    return true;
}

/* Attach lock held. 0, -EEXIST: something else lies there. */
static int attachment_insert(struct process *p, struct attachment *a)
{
    struct object *o = a->object;
    unsigned i = 0;
    while (i < p->attachment_count && p->attachments[i]->object->base < o->base)
        i++;
    if (i < p->attachment_count && p->attachments[i]->object == o) {
        p->attachments[i]->rights = a->rights;
        return -EALREADY;
    }
    struct object *before = i ? p->attachments[i - 1]->object : NULL;
    struct object *after = i < p->attachment_count ? p->attachments[i]->object : NULL;
    if ((before && before->base + (before->pages << PAGE_SHIFT) > o->base) ||
        (after && o->base + (o->pages << PAGE_SHIFT) > after->base))
        return -EEXIST;
    if (!attachments_grow(p))
        return -ENOMEM;
    memmove(&p->attachments[i + 1], &p->attachments[i],
            (p->attachment_count - i) * sizeof p->attachments[0]);
    p->attachments[i] = a;
    p->attachment_count++;
    return 0;
}

static long space_attach(struct process *p, struct object *o, uint32_t rights)
{
    if (!rights || rights & ~(uint32_t)(KD_RIGHT_READ | KD_RIGHT_WRITE))
        return -EINVAL;
    if (o->dead)
        return -EOWNERDEAD;
    struct attachment *a = kalloc(sizeof *a);
    if (!a)
        return -ENOMEM;
    *a = (struct attachment){.object = o, .process = p, .pid = p->pid, .rights = rights};
    list_init(&a->gone.link);
    attachments_clear_dead(p, o);
    lock_acquire(&o->lock); /* process list and object list change together */
    lock_acquire(&p->attach_lock);
    int e = p->dying ? -ESRCH : attachment_insert(p, a);
    if (!e) {
        object_get(o);
        list_push_back(&o->attachments, &a->object_link);
    }
    lock_release(&p->attach_lock);
    lock_release(&o->lock);
    if (e)
        kfree(a);
    return e == -EALREADY ? 0 : e;
}

void object_process_gone(struct process *p)
{
    for (;;) { /* what it managed */
        struct object *o = NULL;
        lock_acquire(&objects_lock);
        list_for(l, &objects) {
            struct object *x = container_of(l, struct object, all);
            if (x->owner == p && !o) {
                o = x;
                object_get(o);
            }
        }
        lock_release(&objects_lock);
        if (!o)
            break;
        object_die(o, EOWNERDEAD);
        object_put(o);
    }
    while (p->attachment_count) { /* what it used; its views are gone */
        struct attachment *a = attachment_remove(p, p->attachments[0]->object);
        struct unmap u = {.only = p, .reason = EACCES};
        if (!(a->object->flags & KD_OBJECT_TRANSACTIONAL))
            leaves_for(a->object, leaf_unmap, &u);
        attachment_end(a, true);
    }
    kfree(p->attachments);
    p->attachments = NULL;
}

void object_revoke(struct object *o)
{
    for (;;) {
        struct process *p = NULL;
        lock_acquire(&o->lock);
        if (!list_empty(&o->attachments)) {
            p = list_first(&o->attachments, struct attachment, object_link)->process;
            process_get(p);
        }
        lock_release(&o->lock);
        if (!p)
            return;
        space_detach(p, o);
        process_put(p);
    }
}

struct port *object_commit_port_of(struct port *p)
{
    struct port *found = NULL;
    lock_acquire(&objects_lock);
    list_for(l, &objects) {
        struct object *o = container_of(l, struct object, all);
        if (!found && (o->port == p || o->commit_port == p) &&
            o->flags & KD_OBJECT_TRANSACTIONAL) {
            found = o->commit_port;
            port_get(found);
        }
    }
    lock_release(&objects_lock);
    return found;
}

bool object_manager_of(struct process *manager, struct process *client)
{
    bool is = false;
    if (!client)
        return false;
    lock_acquire(&client->attach_lock);
    for (unsigned i = 0; i < client->attachment_count; i++)
        is |= client->attachments[i]->object->owner == manager;
    lock_release(&client->attach_lock);
    return is;
}

/* ---- pages in ---- */

static void request_prepare(struct page_wait *w, struct leaf *l, unsigned access,
                            const struct view *v)
{
    struct object *o = l->object;
    w->item.kind = ITEM_PAGE;
    w->item.process = (uint64_t)process_this()->pid;
    uint64_t *word = w->item.word;
    word[0] = o->cookie;
    word[1] = l->first + w->slot;
    word[2] = 1;
    word[3] = access;
    word[4] = v ? v->id + 1u : 0;
    word[5] = (uint64_t)o->handle;
}

int page_request(struct leaf *l, unsigned slot, unsigned access, struct view *v,
                 uint64_t deadline_ns)
{
    struct object *o = l->object;
    struct page *p = &l->pages[slot];
    struct page_wait w = {.thread = thread_this(), .slot = slot};
    list_init(&w.item.link);
    list_push_back(&l->waits, &w.link);
    bool alive = !o->dead;
    if (alive && !(p->flags & PAGE_ASKED)) {
        request_prepare(&w, l, access, v);
        p->flags |= PAGE_ASKED;
        count(page_requests);
        struct process *me = process_this();
        __atomic_fetch_add(&me->stats.manager_calls, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&me->stats.pages_read, 1, __ATOMIC_RELAXED);
        alive = port_post(o->port, &w.item);
    }
    lock_release(&l->lock);
    int e = alive ? 0 : -EOWNERDEAD;
    while (!e && !__atomic_load_n(&w.done, __ATOMIC_ACQUIRE)) {
        e = thread_park_until(deadline_ns);
        if (!e && v && v->doom)
            e = -EINTR;
    }
    lock_acquire(&l->lock);
    if (w.done) {
        e = w.error;
    } else {
        list_remove(&w.link);
        if (w.item.kind && port_withdraw(o->port, &w.item))
            waits_end(l, slot, 0); /* nobody saw the request: the others ask again */
    }
    lock_release(&l->lock);
    return e == -EINTR ? -EAGAIN : e;
}

int object_plain_fault(struct object *o, struct view *v, vaddr_t at, bool write)
{
    struct process *process = process_this();
    uint64_t index = (at - o->base) >> PAGE_SHIFT;
    unsigned slot = (unsigned)(index % LEAF_PAGES);
    struct leaf *l = object_leaf(o, index, true);
    if (!v)
        v = view_plain(process);
    if (!l || !v)
        return -ENOMEM;
    for (;;) {
        if (thread_this()->killed)
            return -EINTR;
        lock_acquire(&l->lock);
        struct page *p = &l->pages[slot];
        if (o->dead) {
            lock_release(&l->lock);
            return -EOWNERDEAD;
        }
        if (!page_resident(p) || (write && p->flags & PAGE_NO_WRITE)) {
            int e = page_request(l, slot, write ? KD_WRITE : KD_READ, NULL, ~0ull);
            if (e && e != -EAGAIN)
                return e;
            continue;
        }
        lock_acquire(&v->lock);
        pte_t *pte = arch_pte(v->table, at, true);
        if (pte) {
            pte_exchange(pte, pte_make(frame_paddr(p->frame),
                                       PTE_PRESENT | PTE_USER | PTE_NX | PTE_ACCESSED |
                                           (write ? PTE_WRITE | PTE_DIRTY : 0)));
            vmask_set(&p->mask, v->id);
        }
        lock_release(&v->lock);
        if (write && pte) {
            if (!(p->flags & PAGE_DIRTY))
                count(dirty_pages);
            p->flags |= PAGE_DIRTY | PAGE_MAPPED_WRITE;
        }
        lock_release(&l->lock);
        return pte ? 0 : -ENOMEM;
    }
}

/* Installs one page's contents. Leaf locked. `f` is consumed. */
static void page_install(struct leaf *l, unsigned slot, struct frame *f, uint32_t rights, csn_t csn)
{
    struct page *p = &l->pages[slot];
    if (l->object->dead || (page_resident(p) && f != p->frame)) {
        frame_free(f);
        if (rights & KD_WRITE)
            p->flags &= (uint8_t)~PAGE_NO_WRITE;
    } else {
        p->frame = f;
        p->csn = csn;
        p->sequence = 0;
        p->flags &= (uint8_t)~(PAGE_FILLING | PAGE_NO_WRITE);
        if (!(rights & KD_WRITE))
            p->flags |= PAGE_NO_WRITE;
        evict_add(l, slot);
    }
    waits_end(l, slot, 0);
}

static int supply_one(struct object *o, const struct kd_supply *s, uint64_t i)
{
    struct leaf *l = object_leaf(o, s->page + i, true);
    unsigned slot = (unsigned)((s->page + i) % LEAF_PAGES);
    struct frame *f = NULL;
    if (!l)
        return -ENOMEM;
    if (s->source != KD_SUPPLY_READ) {
        f = frame_alloc_raw(false);
        if (!f)
            f = evict_frame();
        if (!f)
            return -ENOMEM;
        int e = 0;
        if (s->source == KD_SUPPLY_ZERO)
            memset(frame_memory(f), 0, PAGE_BYTES);
        else
            e = copy_from_user(frame_memory(f), (vaddr_t)s->memory + i * PAGE_BYTES, PAGE_BYTES);
        if (e) {
            frame_free(f);
            return e;
        }
    }
    int result = 0;
    lock_acquire(&l->lock);
    struct page *p = &l->pages[slot];
    if (s->source == KD_SUPPLY_READ) {
        if (p->frame && p->flags & PAGE_FILLING && p->frame->pins == 0) {
            p->flags &= (uint8_t)~PAGE_FILLING;
            f = p->frame;
            p->frame = NULL;
        } else {
            result = -ENOENT; /* it did not come by KD_BLOCK_READ_PAGES */
        }
    } else if (p->flags & PAGE_FILLING) {
        frame_free(f);
        result = -EBUSY;
        f = NULL;
    }
    if (f)
        page_install(l, slot, f, s->rights, s->csn);
    lock_release(&l->lock);
    return result;
}

static long object_supply(vaddr_t at)
{
    struct kd_supply s;
    int e;
    if (copy_from_user(&s, at, sizeof s))
        return -EFAULT;
    struct object *o = handle_get(s.object, HANDLE_OBJECT, KD_RIGHT_MANAGE, &e);
    if (!o)
        return e;
    if (s.source > KD_SUPPLY_READ || !(s.rights & KD_READ) || s.count == 0 || s.page >= o->pages ||
        s.count > o->pages - s.page)
        e = -EINVAL;
    for (uint64_t i = 0; !e && i < s.count; i++)
        e = supply_one(o, &s, i);
    object_put(o);
    return e;
}

static void page_drop_filling(struct page *p)
{
    if (p->flags & PAGE_FILLING) {
        p->flags &= (uint8_t)~PAGE_FILLING;
        frame_free(p->frame);
        p->frame = NULL;
    }
}

/* Calls fn for each page of a range that has a leaf, leaf locked. */
static void pages_for(struct object *o, uint64_t page, uint64_t n,
                      void (*fn)(struct leaf *l, unsigned slot, void *arg), void *arg)
{
    for (uint64_t i = page; i < page + n; i++) {
        struct leaf *l = object_leaf(o, i, false);
        if (!l)
            continue;
        lock_acquire(&l->lock);
        fn(l, (unsigned)(i % LEAF_PAGES), arg);
        lock_release(&l->lock);
    }
}

static void page_fail(struct leaf *l, unsigned slot, void *arg)
{
    page_drop_filling(&l->pages[slot]);
    waits_end(l, slot, -*(int *)arg);
}

static void page_recall(struct leaf *l, unsigned slot, void *arg)
{
    unmap_page(l, slot, arg);
}

static void page_pin(struct leaf *l, unsigned slot, void *arg)
{
    struct page *p = &l->pages[slot];
    p->flags = (uint8_t)(*(int *)arg ? p->flags | PAGE_PINNED : p->flags & ~PAGE_PINNED);
}

static void page_cleaned(struct leaf *l, unsigned slot, void *arg)
{
    struct page *p = &l->pages[slot];
    csn_t *csn = arg; /* becomes 0 if this was the current version */
    if (!page_resident(p) || p->csn != *csn || p->flags & PAGE_MAPPED_WRITE)
        return;
    if (p->flags & PAGE_DIRTY)
        count_add(dirty_pages, -1ull);
    p->flags &= (uint8_t)~PAGE_DIRTY;
    *csn = ~0ull;
}

struct info { uint8_t bits[256]; uint64_t first; };
static void page_info(struct leaf *l, unsigned slot, void *arg)
{
    struct info *info = arg;
    const struct page *p = &l->pages[slot];
    uint8_t bits = 0;
    if (page_resident(p))
        bits = (uint8_t)(KD_PAGE_RESIDENT | (p->flags & PAGE_DIRTY ? KD_PAGE_DIRTY : 0) |
                         (p->writer != WRITER_NONE ? KD_PAGE_WRITER : 0) |
                         (p->flags & PAGE_PINNED ? KD_PAGE_PINNED : 0));
    info->bits[l->first + slot - info->first] = bits;
}

static long object_info(struct object *o, uint64_t page, uint64_t n, vaddr_t out)
{
    for (uint64_t done = 0; done < n; done += sizeof(((struct info *)0)->bits)) {
        struct info info = {.first = page + done};
        uint64_t part = MIN(n - done, sizeof info.bits);
        pages_for(o, page + done, part, page_info, &info);
        if (copy_to_user(out + done, info.bits, part))
            return -EFAULT;
    }
    return 0;
}

/* ---- page I/O (block_call.c) ---- */

int object_io_begin_read(struct object *o, uint64_t page, struct frame **frame)
{
    if (page >= o->pages)
        return -EINVAL;
    struct leaf *l = object_leaf(o, page, true);
    struct frame *f = l ? frame_alloc_raw(false) : NULL;
    if (l && !f)
        f = evict_frame();
    if (!f)
        return -ENOMEM;
    lock_acquire(&l->lock);
    struct page *p = &l->pages[page % LEAF_PAGES];
    int e = o->dead ? -EOWNERDEAD : p->frame ? -EALREADY : 0;
    if (!e) {
        p->frame = f;
        p->flags |= PAGE_FILLING;
        frame_pin(f);
    }
    lock_release(&l->lock);
    if (e)
        frame_free(f);
    *frame = f;
    return e;
}

void object_io_end_read(struct object *o, uint64_t page, struct frame *frame, int status)
{
    struct leaf *l = object_leaf(o, page, false);
    lock_acquire(&l->lock);
    struct page *p = &l->pages[page % LEAF_PAGES];
    frame_unpin(frame);
    if (status && p->frame == frame)
        page_drop_filling(p);
    lock_release(&l->lock);
}

int object_io_begin_write(struct object *o, uint64_t page, struct frame **frame, csn_t *csn)
{
    struct leaf *l = object_leaf(o, page, false);
    if (!l)
        return -ENOENT;
    lock_acquire(&l->lock);
    struct page *p = &l->pages[page % LEAF_PAGES];
    int e = !page_resident(p) ? -ENOENT : p->flags & PAGE_CLEANING ? -EBUSY : 0;
    if (!e && p->flags & PAGE_MAPPED_WRITE) { /* not transactional: nobody stores meanwhile */
        struct unmap u = {.reason = 0};
        unmap_page(l, (unsigned)(page % LEAF_PAGES), &u);
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

void object_io_end_write(struct object *o, uint64_t page, struct frame *frame)
{
    struct leaf *l = object_leaf(o, page, false);
    lock_acquire(&l->lock);
    l->pages[page % LEAF_PAGES].flags &= (uint8_t)~PAGE_CLEANING;
    lock_release(&l->lock);
    frame_unpin(frame);
}

/* ---- calls ---- */

static struct object *object_new(const struct kd_object_create *c, struct port *port,
                                 struct port *commit_port)
{
    struct object *o = kalloc(sizeof *o);
    if (!o)
        return NULL;
    o->table_count = (c->pages + LEAF_PAGES * LEAF_TABLE - 1) / (LEAF_PAGES * LEAF_TABLE);
    o->tables = kalloc(o->table_count * sizeof *o->tables);
    if (!o->tables) {
        kfree(o);
        return NULL;
    }
    lock_init(&o->lock, RANK_OBJECT, "object");
    list_init(&o->attachments);
    o->references = 1;
    o->flags = c->flags;
    o->owner = process_this();
    o->port = port;
    o->commit_port = commit_port;
    o->cookie = c->cookie;
    o->base = c->base;
    o->pages = c->pages;
    memcpy(o->name, c->name, sizeof o->name);
    o->name[sizeof o->name - 1] = 0;
    return o;
}

static bool object_create_ok(const struct kd_object_create *c)
{
    if (c->flags & ~7u || c->pages == 0 || c->pages > OBJECT_PAGES_MAX)
        return false;
    if (c->base == 0)
        return c->pages <= KD_ZONE_BYTES / 8 / PAGE_BYTES;
    return c->base % PAGE_BYTES == 0 && c->base >= KD_STORE_BASE && c->base < KD_STORE_END &&
           c->pages <= (KD_STORE_END - c->base) >> PAGE_SHIFT;
}

/* A range for an object that does not care; the cursor wraps and does not reuse before. */
static vaddr_t base_choose(uint64_t pages)
{
    uint64_t bytes = (pages << PAGE_SHIFT) + (1ull << 30) - 1;
    bytes &= ~((1ull << 30) - 1);
    lock_acquire(&objects_lock);
    if (next_base + bytes > KD_STORE_END)
        next_base = KD_STORE_END - KD_ZONE_BYTES;
    vaddr_t base = next_base;
    next_base += bytes;
    lock_release(&objects_lock);
    return base;
}

static long object_create(vaddr_t at)
{
    struct kd_object_create c;
    int e;
    if (copy_from_user(&c, at, sizeof c))
        return -EFAULT;
    if (!object_create_ok(&c))
        return -EINVAL;
    if (!c.base)
        c.base = base_choose(c.pages);
    struct port *port = handle_get(c.port, HANDLE_PORT, KD_RIGHT_RECEIVE, &e);
    if (!port)
        return e;
    struct port *commit_port = handle_get(c.commit_port, HANDLE_PORT, KD_RIGHT_RECEIVE, &e);
    struct object *o = commit_port ? object_new(&c, port, commit_port) : NULL;
    if (!o) {
        port_put(port);
        if (commit_port)
            port_put(commit_port);
        return commit_port ? -ENOMEM : e;
    }
    if (c.flags & KD_OBJECT_NOTICES)
        commit_port->wants_gone = true;
    lock_acquire(&objects_lock);
    list_push_back(&objects, &o->all);
    lock_release(&objects_lock);
    count(objects);
    long h = handle_new(process_this(), HANDLE_OBJECT, o, KD_RIGHT_MANAGE);
    o->handle = (int)h;
    if (h < 0) {
        object_die(o, EOWNERDEAD);
        object_put(o);
    }
    return h;
}

/* The asker of a page with KD_OBJECT_ASK. */
static long lock_answer(struct object *o, uint64_t page, uint64_t view, int64_t answer)
{
    if (view >= KD_VIEW_MAX || page >= o->pages || answer > 0 || answer < -4095)
        return -EINVAL;
    struct view *v = &views[view];
    if (v->ask_at != o->base + (page << PAGE_SHIFT) || v->ask_answer != ANSWER_NONE || !v->owner)
        return -ESRCH;
    __atomic_store_n(&v->ask_answer, (int)-answer, __ATOMIC_RELEASE);
    thread_wake(v->owner);
    return 0;
}

static long space_call(unsigned number, struct object *o, int pid, uint32_t rights)
{
    struct process *p = process_find(pid);
    if (!p)
        return -ESRCH;
    long e = number == KD_SPACE_ATTACH ? space_attach(p, o, rights) : space_detach(p, o);
    process_put(p);
    return e;
}

static long pages_call(unsigned number, struct object *o, const uint64_t a[6])
{
    uint64_t page = a[1], n = a[2];
    if (number == KD_OBJECT_CLEANED)
        n = 1;
    if (number == KD_LOCK_ANSWER)
        return lock_answer(o, page, a[2], (int64_t)a[3]);
    if (n == 0 || page >= o->pages || n > o->pages - page)
        return -EINVAL;
    int word = (int)a[3];
    switch (number) {
    case KD_OBJECT_FAIL:
        if (word <= 0 || word >= 4096)
            return -EINVAL;
        pages_for(o, page, n, page_fail, &word);
        return 0;
    case KD_OBJECT_RECALL: {
        struct unmap u = {.reason = 0};
        pages_for(o, page, n, page_recall, &u);
        return (long)u.in_use;
    }
    case KD_OBJECT_INFO: return object_info(o, page, n, a[3]);
    case KD_OBJECT_CLEANED: {
        csn_t csn = a[2];
        pages_for(o, page, 1, page_cleaned, &csn);
        if (csn == ~0ull)
            evict_wake();
        return csn == ~0ull ? 0 : -ESTALE;
    }
    case KD_OBJECT_PIN: pages_for(o, page, n, page_pin, &word); return 0;
    default: return -ENOSYS;
    }
}

long object_syscall(unsigned number, const uint64_t a[6])
{
    int error;
    if (number == KD_OBJECT_CREATE)
        return object_create(a[0]);
    if (number == KD_OBJECT_SUPPLY)
        return object_supply(a[0]);
    bool space = number == KD_SPACE_ATTACH || number == KD_SPACE_DETACH;
    struct object *o = handle_get((int)a[space ? 1 : 0], HANDLE_OBJECT, KD_RIGHT_MANAGE, &error);
    if (!o)
        return error;
    long result;
    if (space)
        result = space_call(number, o, (int)a[0], (uint32_t)a[2]);
    else if (number == KD_OBJECT_DESTROY) {
        object_die(o, EOWNERDEAD);
        result = handle_close(process_this(), (int)a[0]);
    } else
        result = pages_call(number, o, a);
    object_put(o);
    return result;
}
