/*
 * evict.c - takes page frames back, and has managers clean dirty ones first (eviction.md).
 *
 * Owns      the thread "evict"; who waits for frames; the limits to the pages of a container.
 * Not here  in which order pages go, and which may (clock.c); frames that lie together
 *           (together.c); anonymous memory (never paged out).
 *
 * EV2  The hand runs ahead of need: it goes on until READY and LAUNDRY hold the frames of some
 *      rounds, or READY alone a low mark's where nothing more is dirty.
 * EV8  Where frames are short, each object gives by its size. Where a container has all that it may
 *      have, whoever brings a page has others of it go.
 * EV9  Threads get frames in the order in which they began to wait, those of managers that take
 *      copies before all others. A thread has its turn until it was given some.
 *
 * Locks: evict lock.
 */
#include "store/evict.h"
#include "store/right.h"
#include "store/spill.h"

/* threads by wait_link: those that wait for a frame (EV9), and those that wait for more */
static struct list hungry = {&hungry, &hungry}, watching = {&watching, &watching};
static uint64_t turns;           /* the last that was given out; evict lock */
static uint64_t rounds_in_vain = 1; /* rounds that found neither clean nor dirty pages, + 1 */
enum { VAIN_ROUNDS_MAX = 3, HUNGRY_NS = 10000000 }; /* a hungry thread looks so often */
static size_t goal;                             /* of evict_more; atomic; 0: none */
#define CLEANING_NS 5000000000ull  /* a manager that does nothing for so long does not count */
struct forgotten evict_forgotten = FORGOTTEN_INIT(evict_forgotten);
static struct list tables_gone = {&tables_gone, &tables_gone}; /* object_link; evict lock */
static struct thread *evictor;
static bool wanted, parked;  /* atomic: evict_wake was called; it has to wake the evictor */

bool evict_short;

bool evict_still_short(void)
{
    bool is = frame_free_count() < frame_low_mark();
    __atomic_store_n(&evict_short, is, __ATOMIC_RELAXED);
    return is;
}

void evict_wake(void)
{
    if (!__atomic_load_n(&evict_short, __ATOMIC_RELAXED))
        (void)evict_still_short();
    __atomic_store_n(&wanted, true, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&parked, __ATOMIC_SEQ_CST) &&
        __atomic_exchange_n(&parked, false, __ATOMIC_SEQ_CST))
        thread_wake(evictor);
}

/* wait_for_work parks the evictor until frames are wanted again, or pages were cleaned. */
static void wait_for_work(void)
{
    __atomic_store_n(&parked, true, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&wanted, __ATOMIC_SEQ_CST))
        thread_park();
    __atomic_store_n(&parked, false, __ATOMIC_SEQ_CST);
}

/* ---- rounds ---- */

/* high_mark is how many free frames are wanted: a quarter more than the low mark, below which the
 * evictor is woken. So one waking frees some hundred pages, and hardly more of the memory than what
 * is kept back is without them. */
static size_t high_mark(void)
{
    return MAX(frame_low_mark() * 5 / 4, __atomic_load_n(&goal, __ATOMIC_RELAXED));
}

static bool frames_short(void) { return frame_free_count() < high_mark(); }

/* ahead is how many pages READY and LAUNDRY are to hold (EV2): of a limited container a third, of
 * the others their part of what one waking frees, three times. */
static uint64_t ahead(const struct object *o)
{
    uint64_t all = 3 * frame_low_mark(), resident = evict_resident_count();
    return MIN(all, o->most == ~0ull ? all * o->resident / MAX(resident, 1u) : o->resident / 3) + 1;
}

static void ask_for_cleaning(struct object *o, uint64_t wanted)
{
    struct item *i = &o->port->clean;
    if (i->queued)
        return;
    item_say(i, ITEM_CLEAN, 0, wanted);
    port_post(o->port, i);
}

static bool goes_first(const struct thread *t) { return t->process && t->process->takes_reserve; }

/* wake_hungry promises free frames to those who wait, in their order (EV9). Managers look again in
 * any case: they may take of the reserve. */
static void wake_hungry(void)
{
    lock_acquire(&evict_lock);
    list_for_safe(link, &hungry) {
        struct thread *t = container_of(link, struct thread, wait_link);
        bool promised = frame_promise();
        if (!promised && !goes_first(t))
            break;
        if (promised)
            list_remove(link);
        thread_wake(t);
    }
    thread_wake_all(&watching);
    lock_release(&evict_lock);
}

/* hand_at is the list whose turn it is: READY, to take pages; else by share (EV10), or, for once,
 * the other one where nothing could go. */
static enum place hand_at(const struct object *o, bool take)
{
    enum place at = o->stuck != (o->in_place[CLOCK] <= o->share) ? PROVEN : CLOCK;
    return take && o->in_place[READY] ? READY : o->in_place[at] ? at : CLOCK + PROVEN - at;
}

/* look_some looks at some pages, where the hand is, and returns their number. */
static unsigned look_some(struct object *o, bool take, uint64_t seen[])
{
    enum { AT_ONCE = 16 };
    struct candidate found[AT_ONCE];
    struct list gone = LIST_INIT(gone);
    unsigned count, most = (unsigned)MIN(AT_ONCE, 4 + o->resident / 64);
    enum place at = hand_at(o, take);
    unsigned went = clock_first(o, at, most, found, &count), left = count;
    uint64_t dirty = seen[LOOK_DIRTY], busy = seen[LOOK_BUSY] + count;
    if (at != READY) { /* from there a page goes unless it proves to be used */
        right_age(found, count);
        left = clock_aside(found, count, take, seen);
    }
    for (unsigned i = 0; i < left; i++)
        seen[clock_look(&found[i], take ? &gone : NULL)]++;
    if (seen[LOOK_DIRTY] > dirty)
        ask_for_cleaning(o, ahead(o));
    frames_free(&gone); /* EV4 */
    o->stuck = seen[LOOK_BUSY] == busy && !o->stuck; /* neither list gives way: they take turns */
    thread_breathe();
    return went;
}

void forgotten_move(struct forgotten *from, struct forgotten *to)
{
    lock_acquire(&evict_lock);
    list_move_all(&from->leaves, &to->leaves);
    list_move_all(&from->frames, &to->frames);
    to->cpus |= from->cpus;
    from->cpus = 0;
    lock_release(&evict_lock);
}

void evict_tables(struct object *o)
{
    object_get(o);
    lock_acquire(&evict_lock);
    list_push_back(&tables_gone, &o->at_port[0].link); /* it is in no port's list any more */
    lock_release(&evict_lock);
}

enum { TABLES_AT_ONCE = 8 };
static unsigned tables_take(struct leaf ***tables[TABLES_AT_ONCE])
{
    for (unsigned n = 0;; n++) {
        lock_acquire(&evict_lock);
        struct object_link *at =
            n < TABLES_AT_ONCE ? list_take(struct object_link, &tables_gone, link) : NULL;
        lock_release(&evict_lock);
        if (!at)
            return n;
        tables[n] = at->object->tables;
        __atomic_store_n(&at->object->tables, NULL, __ATOMIC_RELEASE);
        object_put(at->object);
    }
}

/* forgotten_free frees what was forgotten. A thread that found a leaf, or a table, before, without
 * a lock, has left the kernel by then (LF2). */
static void forgotten_free(void)
{
    struct forgotten gone = FORGOTTEN_INIT(gone);
    uint64_t seen[CPU_MAX];
    struct leaf ***tables[TABLES_AT_ONCE];
    unsigned n = tables_take(tables);
    forgotten_move(&evict_forgotten, &gone);
    if (list_empty(&gone.leaves) && n == 0) /* with the last of some goes a table */
        return;
    arch_shootdown(gone.cpus);
    for (arch_quiet_ask(seen); !arch_quiet(seen); arch_spin_hint())
        thread_breathe();
    while (leaves_stock(&gone.leaves, frame_free_count() < 2 * high_mark() ? frame_low_mark() : 0))
        thread_breathe(); /* where memory is full, the next leaves are made of them */
    while (arch_tables_free(&gone.frames, 8)) /* of leaves, too, which name no other frames */
        thread_breathe();
    if (n == TABLES_AT_ONCE)
        evict_wake(); /* there may be more */
    while (n > 0)
        kfree(tables[--n]);
}

/* leaves_forget frees leaves of which nothing is in use. */
static void leaves_forget(void)
{
    enum { AT_ONCE = 512, IN_VAIN = 2 };
    uint64_t looks = MIN(bare_count, AT_ONCE), left = IN_VAIN;
    struct forgotten gone = FORGOTTEN_INIT(gone);
    for (struct leaf *l; looks-- && left && (l = bare_turn());) {
        struct object *o = l->object;
        left -= !leaf_forget(l, false, &gone);
        object_put(o);
        thread_breathe();
    }
    forgotten_move(&gone, &evict_forgotten);
    forgotten_free();
}

/* goes_on tells whether something `happened`, or did not long ago; or nobody looked for long. */
static bool goes_on(struct patience *p, bool happened)
{
    uint64_t now = arch_time_ns();
    if (happened || now - p->looked_ns > CLEANING_NS)
        p->progress_ns = now;
    p->looked_ns = now;
    return now - p->progress_ns < CLEANING_NS;
}

/* ahead_run has the hand run ahead (EV2), and tells whether there is progress: `enough`, pages that
 * went or were in use; or, if nobody waits for long, some that are cleaned or on their way. */
static bool ahead_run(struct object *o, bool enough, uint64_t seen[])
{
    for (int64_t looks = (int64_t)ahead(o), n; looks > 0; looks -= n)
        if (o->in_place[READY] + o->in_place[LAUNDRY] >= ahead(o) ||
            (3 * o->in_place[READY] >= ahead(o) && o->in_place[LAUNDRY] >= o->dirty) ||
            (n = look_some(o, false, seen)) == 0)
            break;
    bool went_on = enough || seen[LOOK_FREED] || seen[LOOK_USED];
    bool comes = (o->in_place[LAUNDRY] && !never_cleaned(o)) || o->charged > o->resident;
    return goes_on(&o->patience, went_on || !comes) && (went_on || comes);
}

/* A round looks at `part` pages of each `of` next, and at so many more in all. */
struct round {
    uint64_t seen[LOOK_BUSY + 1], part, of;
    int64_t looks;
};

/* part_look looks at an object's part, and frees what it can (EV8). */
static void part_look(struct object *o, struct round *r)
{
    int64_t looks = (int64_t)(r->part * o->resident / r->of + 1), n;
    uint64_t freed = r->seen[LOOK_FREED];
    for (; frames_short() && looks > 0 && (n = look_some(o, true, r->seen)) != 0; looks -= n) {
        r->looks -= n;
        if (r->seen[LOOK_FREED] > freed + 64) {
            freed = r->seen[LOOK_FREED];
            leaves_forget();
            wake_hungry();
        }
    }
}

/* evict_round frees frames up to the high mark, with one look at each page of each list (EV10) at
 * most: a list may be all of the object. Then the hand runs ahead. False: no page can go, or for
 * long no manager has cleaned the pages that wait for it. */
static bool evict_round(struct round *r)
{
    leaves_forget(); /* they are frames, and no pages of containers */
    r->of = evict_resident_count() + 1;
    r->looks = (int64_t)(2 * r->of);
    r->part = frame_low_mark() / 4;
    for (int64_t left = 0; frames_short() && r->looks > 0 && r->looks != left; r->part *= 2) {
        left = r->looks;
        objects_each(o)
            part_look(o, r);
    }
    bool enough = !frames_short(), went_on = enough;
    objects_each(o)
        went_on |= ahead_run(o, enough, r->seen);
    return went_on;
}

/* laundry_notice tells a manager of its oldest laundry again: a notice may have come to nothing. */
static void laundry_notice(struct object *o)
{
    if (o->in_place[LAUNDRY])
        ask_for_cleaning(o, ahead(o));
}

static void evict_main(void *arg)
{
    struct list none = LIST_INIT(none);
    (void)arg;
    for (;;) {
        struct round r = {.part = 0};
        __atomic_store_n(&wanted, false, __ATOMIC_SEQ_CST);
        forgotten_free();
        if (frames_short() && !evict_round(&r)) {
            while (leaves_stock(&none, 0))
                thread_breathe();
            __atomic_fetch_add(&rounds_in_vain, 1, __ATOMIC_RELEASE);
        }
        bool short_of = frames_short(), freed = r.seen[LOOK_FREED];
        if (short_of && !freed && !r.seen[LOOK_USED])
            objects_each(o)
                laundry_notice(o);
        if (!freed || !short_of)
            __atomic_store_n(&goal, 0, __ATOMIC_RELAXED);
        if (freed || frame_spare()) /* leaves may have been enough */
            wake_hungry();
        if (!freed && !(short_of && r.seen[LOOK_USED]))
            wait_for_work();
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

/* ---- those who wait ---- */

/* queue_up puts the caller into the queue, at its turn (EV9). Evict lock held. */
static void queue_up(struct thread *me)
{
    struct list *at = hungry.prev;
    if (!me->turn)
        me->turn = ++turns;
    for (; at != &hungry; at = at->prev) {
        const struct thread *t = container_of(at, struct thread, wait_link);
        if (goes_first(me) == goes_first(t) ? t->turn < me->turn : goes_first(t))
            break;
    }
    list_push_front(at, &me->wait_link); /* behind `at` */
}

/* short_sleep is called and returns with the evict lock held, and drops it meanwhile. */
static void short_sleep(void)
{
    lock_release(&evict_lock);
    evict_wake();
    (void)!thread_park_until(arch_time_ns() + HUNGRY_NS);
    lock_acquire(&evict_lock);
}

/* hungry_wait sleeps until the caller is given frames, or HUNGRY_NS have passed. True: they are
 * there if it looks at once (FR5). */
static bool hungry_wait(void)
{
    struct thread *me = thread_this();
    lock_acquire(&evict_lock);
    frame_wait_begin();
    queue_up(me);
    short_sleep();
    bool promised = list_empty(&me->wait_link);
    if (promised)
        me->turn = 0;
    list_remove(&me->wait_link);
    frame_wait_end(promised);
    lock_release(&evict_lock);
    return promised;
}

/* watch sleeps until frames were freed, whoever is given them, or HUNGRY_NS have passed. */
static void watch(void)
{
    lock_acquire(&evict_lock);
    list_push_back(&watching, &thread_this()->wait_link);
    short_sleep();
    list_remove(&thread_this()->wait_link);
    lock_release(&evict_lock);
}

static uint64_t evict_vain(void) { return __atomic_load_n(&rounds_in_vain, __ATOMIC_ACQUIRE); }

static bool in_vain(uint64_t since) { return evict_vain() - since >= VAIN_ROUNDS_MAX; }

bool evict_last(void)
{
    static struct patience patience; /* evict lock */
    static uint64_t before;
    if (spill_own())
        return true;
    uint64_t leaving = spill_leaving();
    lock_acquire(&evict_lock);
    bool comes = goes_on(&patience, leaving != before) && leaving;
    before = leaving;
    lock_release(&evict_lock);
    return comes || limit_end_largest(false);
}

bool evict_wait(uint64_t *vain)
{
    bool none = *vain && in_vain(*vain); /* there is nothing to be evicted or cleaned */
    if (none || *vain == 0)
        *vain = evict_vain();
    if (none && frame_free_count() < frame_low_mark() && !evict_last() &&
        frame_free_count() < frame_low_mark())
        return false; /* else somebody ended meanwhile */
    if (!thread_this()->killed)
        (void)hungry_wait();
    return !thread_this()->killed;
}

void evict_slow_writer(struct object *o)
{
    uint64_t mark = frame_total_count() / 2, dirty = __atomic_load_n(&o->dirty, __ATOMIC_RELAXED);
    if (dirty <= mark || never_cleaned(o) || thread_this()->killed)
        return;
    count(write_waits);
    ask_for_cleaning(o, dirty - mark);
    watch();
}

HOT struct frame *frame_by(struct frame *alloc(enum frame_use use), enum frame_use use)
{
    struct thread *me = thread_this();
    for (uint64_t vain = 0;;) {
        struct frame *f = alloc(use);
        if (f || (me->view && me->view->doom) || !evict_wait(&vain))
            return f;
    }
}

struct frame *evict_frame(enum frame_use use) { return frame_by(frame_alloc_raw, use); }

struct frame *evict_page_zeroed(struct object *o)
{
    unsigned how = KD_OBJECT_TRANSACTIONAL | KD_OBJECT_ITEMS | KD_OBJECT_UNLOCKED |
                   KD_OBJECT_CODEWORDS; /* nobody stores to what was published, or mends it */
    struct frame *f = frame_by(frame_alloc, FRAME_PAGE);
    if (f && o->most != ~0ull && !evict_room(o, f, true))
        return NULL;
    if (f && (o->flags & how) == KD_OBJECT_TRANSACTIONAL)
        f->flags |= ZEROS; /* EV11 */
    return f;
}

/* room_make frees pages of o until there are 1/32 fewer than it may have. False: there is no
 * progress, not even by cleaning. *again: it may be tried again at once. */
static bool room_make(struct object *o, bool *again)
{
    uint64_t seen[LOOK_BUSY + 1] = {0}, most = o->most - o->most / 32 - 1;
    int64_t looks = (int64_t)o->resident, n;
    for (; o->charged > most && looks > 0 && (n = look_some(o, true, seen)) != 0; looks -= n) {}
    *again = seen[LOOK_FREED] || seen[LOOK_USED];
    return ahead_run(o, o->charged <= most, seen);
}

bool evict_room(struct object *o, struct frame *f, bool wait)
{
    bool again;
    for (unsigned vain = 0; !clock_charge(o, f);) {
        vain += !room_make(o, &again);
        if (again)
            continue;
        if (!wait || vain == VAIN_ROUNDS_MAX || thread_this()->killed) {
            frame_free(f);
            return false;
        }
        laundry_notice(o);
        watch();
    }
    return true;
}

void evict_limit(struct object *o, uint64_t most)
{
    bool again = true;
    __atomic_store_n(&o->most, most, __ATOMIC_RELAXED);
    while (o->charged > most && again && !thread_this()->killed)
        (void)room_make(o, &again);
}

bool evict_more(bool one)
{
    enum { MORE_FRAMES = 256 };
    const struct thread *me = thread_this();
    uint64_t vain = evict_vain();
    size_t before = frame_free_count();
    bool came = false;
    while (!came && !me->killed && !(me->view && me->view->doom) && !in_vain(vain)) {
        __atomic_store_n(&goal, before + MORE_FRAMES, __ATOMIC_RELAXED);
        if (one)
            came = hungry_wait();
        else
            watch();
        came |= frame_free_count() > before;
    }
    return came;
}
