/*
 * page.c - pages in and out: requests to managers, their answers, page I/O.
 *
 * A page that is not resident is asked for once (PAGE_ASKED); threads that need it wait on the
 * leaf. A frame that is being read is FILLING and not resident until the manager supplies it.
 *
 * Locks: leaf. Never held across a message, a user copy or I/O.
 */
#include "store/object_private.h"
#include "store/codeword.h"
#include "store/evict.h"
#include "store/item.h"
#include "process/vm.h"

/* wait_done ends one wait. Who is given a right stays in the list until it has used it, so that a
 * recall waits for that, and eviction for its next look (EV12). */
static void wait_done(struct page_wait *w, int error, unsigned rights)
{
    struct thread *thread = w->thread;
    w->error = error;
    w->rights = (uint8_t)rights;
    w->due = true;
    if (!rights)
        page_wait_over(w);
    __atomic_store_n(&w->done, true, __ATOMIC_RELEASE); /* it may be gone now */
    thread_wake(thread);
}

bool waits_end(struct leaf *l, unsigned slot, int error, unsigned rights, uint32_t number)
{
    bool found = false;
    l->pages[slot].flags &= (uint8_t)~PAGE_ASKED;
    list_for_safe(n, &l->waits) {
        struct page_wait *w = container_of(n, struct page_wait, link);
        bool asked = number && w->number == number;
        if (asked)
            w->slots |= 1ull << slot;
        bool own = number ? w->number : w->old && error != -EOWNERDEAD;
        if (w->done || w->slot != slot || (own && !asked))
            continue; /* of another page, or it waits for the answer to its own question */
        found |= asked;
        wait_done(w, asked || !number ? error : 0, asked || !number ? rights : 0);
    }
    return found;
}

/* page_ask queues the question of w; results as of port_queue. Leaf locked. */
static struct thread *page_ask(struct page_wait *w, struct leaf *l, unsigned access, uint64_t pages)
{
    struct object *o = l->object;
    struct process *me = process_this();
    struct page *p = &l->pages[w->slot];
    bool away = !(access & (KD_PAGE_HERE | KD_PAGE_OLD));
    if (o->dead)
        return PORT_DEAD;
    if (away && p->flags & PAGE_ASKED)
        return NULL;
    w->number = (uint32_t)__atomic_add_fetch(&counters.page_requests, 1, __ATOMIC_RELAXED) << 1 | 1;
    item_say(&w->item, ITEM_PAGE, me->pid, o->cookie, l->first + w->slot, pages, access,
             w->view ? w->view->id + 1u : 0, (uint64_t)o->handle, w->number,
             w->old ? w->view->snapshot.at : w->view ? w->view->txn.ticket : 0);
    if (away) {
        p->flags |= PAGE_ASKED;
        l->touched |= 1ull << w->slot;
        __atomic_fetch_add(&me->stats.pages_read, 1, __ATOMIC_RELAXED);
    }
    __atomic_fetch_add(&me->stats.manager_calls, 1, __ATOMIC_RELAXED);
    return port_queue(o->port, &w->item);
}

int page_request(struct page_wait *w, struct leaf *l, unsigned slot, unsigned access,
                 uint64_t pages, uint64_t deadline_ns)
{
    struct object *o = l->object;
    deadline_ns = answer_until(deadline_ns);
    page_wait_over(w); /* what it was given before did not suffice */
    w->thread = thread_this();
    w->leaf = l;
    w->at = page_address(l, slot);
    w->slot = (uint8_t)slot;
    w->number = w->rights = 0;
    w->done = false;
    w->old = access & KD_PAGE_OLD;
    list_push_back(&l->waits, &w->link);
    struct thread *manager = page_ask(w, l, access, pages);
    int e = manager == PORT_DEAD ? -EOWNERDEAD : 0;
    lock_release(&l->lock);
    while (!e) {
        TRACE(WAIT, KD_TRACE_FOR_SUPPLY, page_address(l, slot), 0);
        e = manager ? thread_ask_and_park(manager, deadline_ns) : thread_park_until(deadline_ns);
        manager = NULL;
        if (__atomic_load_n(&w->done, __ATOMIC_ACQUIRE))
            break;
        if (!e && w->view && w->view->doom)
            e = -EINTR;
    }
    /* PO1: the page may have come with its neighbours while the request is still queued, or while a
     * receiver, which has the port's lock, reads it */
    if (__atomic_load_n(&w->done, __ATOMIC_ACQUIRE)) {
        __atomic_store_n(&w->due, false, __ATOMIC_RELAXED);
        (void)(w->number && port_withdraw(o->port, &w->item));
        return w->error == -EINTR ? -EAGAIN : w->error;
    }
    lock_acquire(&l->lock); /* it stays as long as w is in its list, and then for this look (LF2) */
    bool unseen = w->number && port_withdraw(o->port, &w->item);
    w->due = false; /* it may have been given the page just now */
    if (w->done) {
        e = w->error;
    } else {
        page_wait_over(w);
        if (unseen && !w->old)
            waits_end(l, slot, 0, 0, w->number); /* nobody saw the request: others ask again */
        else if (!unseen)
            port_post(o->port, &o->recalled.item); /* RE4 */
    }
    lock_release(&l->lock);
    return e == -EINTR ? -EAGAIN : e;
}

void page_item_taken(struct item *i, struct notice *n)
{
    struct page_wait *w = container_of(i, struct page_wait, item);
    n->home = w->view ? w : NULL; /* others lie on a stack */
}

void page_item_lost(struct notice *n, int error)
{
    struct page_wait *w = n->home;
    struct leaf *l = w ? __atomic_load_n(&w->leaf, __ATOMIC_ACQUIRE) : NULL;
    if (!l)
        return;
    lock_acquire(&l->lock); /* it is there for this look (LF2) */
    if (w->leaf == l)
        waits_end(l, w->slot, -error, 0, (uint32_t)n->message.word[6]);
    lock_release(&l->lock);
}

/* STALE_MAX: this often at most a page that came is older than what was published meanwhile */
enum { STALE_MAX = 16 };

/* page_give gives the kernel rights to the page. Leaf locked. */
static void page_give(struct page *p, unsigned rights)
{
    p->closed &= (uint8_t)~(rights | rights << CLOSED_RECALLED);
}

/* page_install makes `f`, which it consumes, the page's frame. The sequence stays: a page may be
 * read back while a snapshot is older than it. 0 or -ESTALE. Leaf locked. */
static int page_install(struct leaf *l, unsigned slot, struct frame *f, const struct kd_supply *s,
                        csn_t csn)
{
    struct page *p = &l->pages[slot];
    int result = 0, told = 0;
    l->touched |= 1ull << slot;
    if (l->object->dead || (page_resident(p) && f != p->frame)) {
        evict_page_back(l->object, f);
    } else if ((p->flags & PAGE_AWAY && csn < p->csn) ||
               (l->object->commit_port->rank && csn < p->sequence)) {
        /* read before a newer version was published (SK11): its faults ask again */
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
        p->flags &= (uint8_t)~(PAGE_FILLING | PAGE_AWAY | PAGE_FREED);
        p->closed |= CLOSED_ALL;
        evict_add(l, slot);
        codeword_make(l, slot);
    }
    if (!s->number && !result)
        page_give(p, s->rights);
    waits_end(l, slot, told, result ? 0 : s->rights, s->number);
    if (told)
        printk("container %s, address 0x%lx: its manager lost what it committed: %lu for %lu",
               l->object->name, page_address(l, slot), csn, p->csn);
    return result;
}

static int supply_one(struct object *o, const struct kd_supply *s, uint64_t i, uint64_t newest)
{
    unsigned slot = (unsigned)((s->page + i) % LEAF_PAGES);
    bool read = s->source == KD_SUPPLY_READ;
    csn_t csn = s->csn;
    if (read && s->memory && copy_from_user(&csn, (vaddr_t)s->memory + i * sizeof csn, sizeof csn))
        return -EFAULT;
    bool zeros = s->source == KD_SUPPLY_ZERO;
    struct frame *f = read ? NULL : zeros ? evict_page_zeroed(o) : evict_page(o, true);
    int result = read || f ? 0 : -ENOMEM;
    if (f && !zeros)
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
        result = page_install(l, slot, f, s, csn);
    if (newest && !result && p->frame == f)
        p->sequence = newest; /* no snapshot that began before has seen it */
    lock_release(&l->lock);
    return result;
}

/* rights_ok: none, to read, or to read and write. */
static bool rights_ok(uint64_t rights)
{
    return rights == 0 || rights == KD_READ || rights == (KD_READ | KD_WRITE);
}

enum { SUPPLY_AT_ONCE = 64 }; /* pages; then others have their turn */

long kd_object_supply(const uint64_t a[6])
{
    struct kd_supply s;
    int e = 0;
    if (copy_from_user(&s, a[0], sizeof s))
        return -EFAULT;
    struct object *o = handle_find(s.object, HANDLE_OBJECT, KD_RIGHT_MANAGE, object_get);
    if (handle_failed(o))
        return (long)o;
    bool newer = s.source & KD_SUPPLY_NEWER, old = s.source & KD_SUPPLY_OLD;
    s.source &= ~(uint32_t)KD_SUPPLY_NEWER;
    if (old)
        e = object_supply_old(o, &s);
    else if (s.source > KD_SUPPLY_READ || !rights_ok(s.rights) ||
             (!(newer && !s.count) && !range_ok(o, s.page, s.count)))
        e = -EINVAL;
    uint64_t newest = newer && !e ? version_tick() : 0;
    /* the last comes first: mostly the first is waited for, and finds the others here then */
    for (uint64_t i = old ? 0 : s.count; i-- > 0 && (!e || e == -ESTALE);) {
        int failed = supply_one(o, &s, i, newest);
        e = failed ? failed : e;
        if (i && i % SUPPLY_AT_ONCE == 0)
            thread_breathe();
        if (thread_this()->killed)
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

/* error_for_client replaces errors that mean "look again" to a fault; a manager's refusal does
 * not. */
static int error_for_client(int error)
{
    return error == EAGAIN || error == EINTR || error == ENXIO || error == ECANCELED ? EIO : error;
}

struct answer { unsigned what; uint32_t number; bool found; };
static void page_fail(struct leaf *l, unsigned slot, void *arg)
{
    struct answer *a = arg;
    page_drop_filling(l, &l->pages[slot]);
    if (a->what != EAGAIN)
        a->found |= waits_end(l, slot, -error_for_client((int)a->what), 0, a->number);
    else /* the manager tries again: threads that wait go on waiting */
        list_each(const struct page_wait, w, &l->waits, link)
            a->found |= !w->done && w->slot == slot && w->number == a->number;
}

/* page_grant gives rights to a page that is here. */
static void page_grant(struct leaf *l, unsigned slot, void *arg)
{
    struct answer *a = arg;
    bool here = page_resident(&l->pages[slot]);
    if (here && !a->number)
        page_give(&l->pages[slot], a->what);
    a->found |= waits_end(l, slot, 0, here ? a->what : 0, a->number);
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

/* page_freed: nobody wants the page any more but snapshots that are older than `number`. */
struct freeing { uint64_t number, looked; long here; bool cleaned; };
static void page_freed(struct leaf *l, unsigned slot, void *arg)
{
    struct page *p = &l->pages[slot];
    struct freeing *f = arg;
    bool here = page_resident(p), dirty = p->flags & PAGE_DIRTY;
    csn_t any = KD_CSN_ANY;
    if (l->gone)
        return;
    if (!here || dirty)
        page_cleaned(l, slot, &any);
    f->cleaned |= dirty;
    f->looked++;
    f->here += here;
    l->touched |= 1ull << slot;
    if (here)
        p->flags |= PAGE_FREED;
    else
        p->sequence = MAX(p->sequence, f->number);
}

/* pages_freed: the number is later than each snapshot, or without one the last there is: those
 * that are over are older than that. */
static long pages_freed(struct object *o, uint64_t page, uint64_t n)
{
    struct freeing f = {.number = version_newest()};
    uint64_t oldest = version_oldest();
    if (oldest != UINT64_MAX)
        f.number = version_tick();
    (void)pages_for(o, page, n, page_freed, &f);
    if (f.looked < n) { /* some have no leaf, or it goes just now */
        leaves_freed(o, (struct freed){page, page + n, f.number}, oldest);
        f.here = 0;
        (void)pages_for(o, page, n, page_freed, &f);
    }
    if (f.cleaned)
        evict_wake();
    return f.here;
}

struct advice { bool needed; long count; };
static void page_advise(struct leaf *l, unsigned slot, void *arg)
{
    struct advice *advice = arg;
    advice->count += evict_advise(l, slot, advice->needed);
}

struct info { uint8_t bits[256]; uint64_t first; bool uses, used; };
static void page_info(struct leaf *l, unsigned slot, void *arg)
{
    struct info *info = arg;
    const struct page *p = &l->pages[slot];
    uint8_t bits = p->writer != WRITER_NONE || item_copies(l, p) ? KD_PAGE_WRITER : 0;
    if (page_resident(p))
        bits |= (uint8_t)(KD_PAGE_RESIDENT | (p->flags & PAGE_DIRTY ? KD_PAGE_DIRTY : 0) |
                          (p->flags & PAGE_PINNED ? KD_PAGE_PINNED : 0));
    bits |= (uint8_t)((p->flags & PAGE_AWAY ? KD_PAGE_AWAY : 0) |
                      (p->closed & KD_READ ? KD_PAGE_CLOSED : 0) |
                      (p->closed >> CLOSED_RECALLED ? KD_PAGE_RECALLED : 0));
    if (info->uses && page_resident(p) && evict_used(l, slot))
        bits |= KD_PAGE_USED;
    info->used |= bits & KD_PAGE_USED;
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

int object_io_end(struct object *o, uint64_t page, struct frame *frame, bool read, int status)
{
    struct leaf *l = object_leaf_find(o, page);
    struct page *p = l ? &l->pages[page % LEAF_PAGES] : NULL;
    if (l) /* else its manager has failed the page meanwhile, or it has died */
        lock_acquire(&l->lock);
    frame_unpin(frame);
    if (p && !read) {
        p->flags &= (uint8_t)~PAGE_CLEANING;
        status = codeword_wrong(l, page % LEAF_PAGES, REGIONS_ALL) ? -EUCLEAN : status; /* CW3 */
    } else if (p && status && p->frame == frame)
        page_drop_filling(l, p);
    if (l)
        lock_release(&l->lock);
    return status;
}

int object_io_begin_write(struct object *o, uint64_t page, struct frame **frame, csn_t *csn)
{
    struct leaf *l = page < o->pages ? object_leaf_find(o, page) : NULL;
    if (!l)
        return -ENOENT;
    lock_acquire(&l->lock);
    struct page *p = &l->pages[page % LEAF_PAGES];
    int e = page_resident(p) ? p->flags & PAGE_CLEANING || p->csn > *csn - 1 ? -EBUSY : 0 : -ENOENT;
    if (!e && codeword_wrong(l, page % LEAF_PAGES, REGIONS_ALL)) /* CW3 */
        e = -EUCLEAN;
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

/* kd_object_read does for a manager without a disk what a write does: stores from here on make the
 * page dirty anew. */
OBJECT_CALL(kd_object_read, 0)
{
    struct frame *f;
    csn_t csn = 0;
    int e = vm_own(a[2], PAGE_BYTES) ?: object_io_begin_write(o, a[1], &f, &csn);
    if (e)
        return e;
    e = copy_to_user(a[2], frame_memory(f), PAGE_BYTES);
    return object_io_end(o, a[1], f, false, e) ?: copy_to_user(a[3], &csn, sizeof csn);
}

/* ---- what managers say of pages ---- */

OBJECT_CALL(kd_object_fail, 0)
{
    struct answer answer = {(unsigned)a[3], (uint32_t)a[4], false};
    long e = answer.what - 1 >= 4095 ? -EINVAL : pages_for(o, a[1], a[2], page_fail, &answer);
    return e ? e : answer.number && !answer.found ? -ESRCH : 0;
}

/* kd_object_grant answers the question of that number and no other: who asked may have gone, or may
 * ask something else by now. */
OBJECT_CALL(kd_object_grant, 0)
{
    struct answer answer = {(unsigned)a[3], (uint32_t)a[4], false};
    long e = rights_ok(a[3]) ? pages_for(o, a[1], a[2], page_grant, &answer) : -EINVAL;
    return e ? e : answer.number && !answer.found ? -ESRCH : 0;
}

OBJECT_CALL(kd_object_info, 0)
{
    if (!range_ok(o, a[1], a[2]))
        return -EINVAL;
    for (uint64_t done = 0; done < a[2]; done += sizeof(((struct info *)0)->bits)) {
        struct info info = {.first = a[1] + done, .uses = a[4] == KD_INFO_USES};
        uint64_t part = MIN(a[2] - done, sizeof info.bits);
        (void)pages_for(o, a[1] + done, part, page_info, &info);
        if (info.used)
            arch_shootdown(~0ull); /* an entry that stays in a TLB would hide the next use */
        if (copy_to_user(a[3] + done, info.bits, part))
            return -EFAULT;
        thread_breathe();
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
    bool looks = a[3] == KD_ADVISE_FORGET && !a[2];
    if ((!range_ok(o, a[1], a[2]) && !looks) || a[3] > KD_ADVISE_FREED)
        return -EINVAL;
    if (a[3] < KD_ADVISE_WILL_NEED)
        return object_policy(o, KD_POLICY_CLUSTER, clusters[a[3]]);
    if (a[3] == KD_ADVISE_MEMORY)
        return object_policy(o, KD_POLICY_MEMORY, a[2]);
    if (a[3] == KD_ADVISE_FORGET) {
        leaves_in(o, a[1], a[1] + a[2], version_forget, NULL);
        return (long)o->versions;
    }
    if (a[3] == KD_ADVISE_FREED)
        return o->commit_port->rank ? -EINVAL : pages_freed(o, a[1], a[2]);
    if (a[3] == KD_ADVISE_EVICT)
        leaves_in(o, a[1], a[1] + a[2], evict_now, &advice.count);
    else
        (void)pages_for(o, a[1], a[2], page_advise, &advice);
    return advice.count;
}

OBJECT_CALL(kd_object_pin, 0)
{
    struct pinning pinning = {.on = (int)a[3]};
    return pages_for(o, a[1], a[2], page_pin, &pinning) ?: pinning.result;
}
