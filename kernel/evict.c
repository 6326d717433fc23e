/*
 * evict.c - takes page frames back, and has managers clean dirty ones first (views.md: E1..E4).
 *
 * Owns      the FIFO of resident pages; the thread "evict".
 * Not here  old versions (version.c), anonymous memory (never paged out), home locations (managers).
 *
 * Resident pages stand in one FIFO, by frame->link, with frame->owner = their leaf and frame->flags
 * = their slot. A look at a page either frees its frame or puts it at the end.
 *
 * E1  Only clean pages without writer, pins, old versions and I/O go (P4).
 * E2  When the looks of a whole round found nothing but dirty pages, their managers get a CLEAN
 *     notice; object_cleaned wakes the thread.
 * E3  Active views that used the page keep the right: HELD. Everybody else: EMPTY. TLBs first, then
 *     the frame is freed (F1).
 *
 * Locks: leaf, evict lock. A page is looked up by its frame under the evict lock with a reference
 * to its object, then locked and checked again.
 */
#include "view.h"

static struct lock evict_lock = LOCK_INIT(RANK_EVICT, "evict");
static struct list fifo = {&fifo, &fifo};
static struct list hungry = {&hungry, &hungry}; /* threads that wait for frames, by wait_link */
static uint64_t resident;
static uint64_t rounds_in_vain;                 /* rounds that found neither clean nor dirty pages */
enum { VAIN_ROUNDS_MAX = 3, HUNGRY_NS = 10000000 }; /* who waits for a frame looks so often */
static size_t goal;                             /* of evict_more; atomic; 0: none */
static struct thread *evictor;

void evict_add(struct leaf *l, unsigned slot)
{
    struct frame *f = l->pages[slot].frame;
    lock_acquire(&evict_lock);
    f->owner = l;
    f->flags = (uint16_t)slot;
    list_push_back(&fifo, &f->link);
    resident++;
    lock_release(&evict_lock);
}

void evict_remove(struct frame *f)
{
    lock_acquire(&evict_lock);
    list_remove(&f->link);
    f->owner = NULL;
    resident--;
    lock_release(&evict_lock);
}

uint64_t evict_resident_count(void)
{
    return resident;
}

void evict_wake(void)
{
    if (evictor)
        thread_wake(evictor);
}

/* E3 for one view. Returns the CPU to shoot at. Leaf locked. */
static uint64_t evict_right(struct view *v, vaddr_t at)
{
    uint64_t shoot = 0;
    lock_acquire(&v->lock);
    pte_t *pte = view_pte(v, at);
    pte_t e = pte ? pte_load(pte) : 0;
    while (pte_present(e)) {
        bool used = e & (PTE_ACCESSED | PTE_USED);
        bool keep = used && !v->snapshot_rights &&
                    (v->state == VIEW_ACTIVE || v->state == VIEW_COMMITTING);
        if (!pte_compare_exchange(pte, &e, keep ? PTE_HELD : 0))
            continue;
        if (used) {
            v->stale = true;
            shoot = view_cpu_bit(v);
        }
        break;
    }
    lock_release(&v->lock);
    return shoot;
}

/* An idle view's right to write that it never used: no copy, nothing is lost (P2). Leaf locked. */
static void writer_forget(struct page *p, vaddr_t at)
{
    struct view *v = &views[p->writer];
    lock_acquire(&v->lock);
    pte_t *pte = view_pte(v, at);
    if (v->state == VIEW_IDLE || v->state == VIEW_FREE || !pte || pte_load(pte) == 0)
        p->writer = WRITER_NONE;
    lock_release(&v->lock);
}

enum look { LOOK_FREED, LOOK_DIRTY, LOOK_BUSY };

static enum look evict_look(struct leaf *l, unsigned slot, struct frame *f)
{
    lock_acquire(&l->lock);
    struct page *p = &l->pages[slot];
    enum look result = LOOK_BUSY;
    bool free = false;
    if (p->frame == f && p->writer != WRITER_NONE)
        writer_forget(p, page_address(l, slot));
    if (p->frame != f || p->flags & (PAGE_FILLING | PAGE_PINNED | PAGE_CLEANING) || f->pins ||
        p->versions || p->writer != WRITER_NONE) /* E1 */
        goto out;
    result = LOOK_DIRTY;
    if (p->flags & PAGE_DIRTY)
        goto out;
    uint64_t shoot = 0;
    vmask_for(v, &p->mask)
        shoot |= evict_right(&views[v], page_address(l, slot));
    if (shoot)
        arch_shootdown(shoot);
    evict_remove(f);
    p->frame = NULL;
    free = true;
    result = LOOK_FREED;
    count(evictions);
out:
    lock_release(&l->lock);
    if (free)
        frame_free(f); /* E4 */
    return result;
}

/* The FIFO's head, moved to its end; NULL: empty. Its object is kept alive. */
static struct frame *evict_next(struct leaf **l, unsigned *slot)
{
    struct frame *f = NULL;
    lock_acquire(&evict_lock);
    if (!list_empty(&fifo)) {
        f = list_first(&fifo, struct frame, link);
        list_remove(&f->link);
        list_push_back(&fifo, &f->link);
        *l = f->owner;
        *slot = f->flags;
        object_get((*l)->object);
    }
    lock_release(&evict_lock);
    return f;
}

/* So many free frames are wanted. */
static size_t high_mark(void)
{
    return MAX(frame_low_mark() * 2, __atomic_load_n(&goal, __ATOMIC_RELAXED));
}

static void ask_for_cleaning(struct object *o, uint64_t wanted)
{
    struct item *i = &o->port->clean;
    if (i->queued)
        return;
    i->kind = ITEM_CLEAN;
    i->word[0] = wanted;
    port_post(o->port, i);
}

static void wake_hungry(void)
{
    lock_acquire(&evict_lock);
    struct list *l;
    while ((l = list_pop(&hungry)))
        thread_wake(container_of(l, struct thread, wait_link));
    lock_release(&evict_lock);
}

/* Looks at each resident page at most once. */
static void evict_round(uint64_t *freed, uint64_t *dirty)
{
    struct object *asked = NULL;
    *freed = *dirty = 0;
    uint64_t looks = resident;
    while (looks-- && frame_free_count() < high_mark()) {
        struct leaf *l = NULL;
        unsigned slot = 0;
        struct frame *f = evict_next(&l, &slot);
        if (!f)
            return;
        enum look look = evict_look(l, slot, f);
        *freed += look == LOOK_FREED;
        *dirty += look == LOOK_DIRTY;
        if (look == LOOK_DIRTY && l->object != asked) {
            asked = l->object;
            ask_for_cleaning(asked, high_mark());
        }
        object_put(l->object);
        if (look == LOOK_FREED && *freed % 64 == 0)
            wake_hungry();
    }
}

static void evict_main(void *arg)
{
    (void)arg;
    for (;;) {
        uint64_t freed = 0, dirty = 0;
        if (frame_free_count() < high_mark())
            evict_round(&freed, &dirty);
        if (!freed && !dirty && frame_free_count() < high_mark())
            __atomic_fetch_add(&rounds_in_vain, 1, __ATOMIC_RELEASE);
        if (!freed || frame_free_count() >= high_mark())
            __atomic_store_n(&goal, 0, __ATOMIC_RELAXED);
        if (freed)
            wake_hungry();
        if (!freed)
            thread_park(); /* until frames are wanted again, or pages were cleaned */
        else
            thread_yield();
    }
}

void evict_init(void)
{
    evictor = thread_new(NULL, evict_main, NULL, "evict");
    assert(evictor);
    thread_start(evictor);
}

struct frame *evict_frame(void)
{
    struct thread *me = thread_this();
    uint64_t vain = __atomic_load_n(&rounds_in_vain, __ATOMIC_ACQUIRE);
    for (;;) {
        struct frame *f = frame_alloc_raw(false);
        if (f)
            return f;
        if (me->killed || (me->view && me->view->doom) ||
            __atomic_load_n(&rounds_in_vain, __ATOMIC_ACQUIRE) - vain >= VAIN_ROUNDS_MAX)
            return NULL;
        lock_acquire(&evict_lock);
        list_push_back(&hungry, &me->wait_link);
        lock_release(&evict_lock);
        evict_wake();
        (void)!thread_park_until(arch_time_ns() + HUNGRY_NS);
        lock_acquire(&evict_lock);
        list_remove(&me->wait_link);
        lock_release(&evict_lock);
    }
}

enum { MORE_FRAMES = 256, MORE_TRIES = 4 };

bool evict_more(void)
{
    struct thread *me = thread_this();
    size_t before = frame_free_count();
    for (int i = 0; i < MORE_TRIES && !me->killed; i++) {
        lock_acquire(&evict_lock);
        list_push_back(&hungry, &me->wait_link);
        lock_release(&evict_lock);
        __atomic_store_n(&goal, before + MORE_FRAMES, __ATOMIC_RELAXED);
        evict_wake();
        (void)!thread_park_until(arch_time_ns() + HUNGRY_NS);
        lock_acquire(&evict_lock);
        list_remove(&me->wait_link);
        lock_release(&evict_lock);
        if (frame_free_count() > before)
            return true;
    }
    return false;
}
