/*
 * spill.c - transactions larger than memory: private copies that lie in their manager's log
 * (eviction.md). A spilled copy keeps its record (copies.spilled) and `writer`.
 *
 * SP1  A copy is in copies.resident with a frame and a credit, or in copies.spilled with neither.
 *      The first `told` in copies.resident were told whole since the question was asked, and only
 *      those are spilled.
 * SP2  The PTE of a spilled copy names its record; it goes with the record, in one view lock
 *      section.
 * SP3  A call of the manager's that has claimed the view touches no memory but its own process's.
 *      The view can be doomed while it asks, and its wait has the edges that the manager adds
 *      (KD_VIEW_WAIT).
 * SP4  A page that only its manager's log has (PAGE_AWAY) is known until its version is settled:
 *      KD_TXN_PUBLISH has told up to which version no older one is on its way, to be supplied.
 *
 * Locks: view; none across a message or a user copy.
 */
#include "store/commit.h"
#include "store/evict.h"
#include "store/right.h"
#include "store/spill.h"
#include "store/stack.h"
#include "store/wait.h"
#include "process/vm.h"

/* SPILL_MIN: fewer copies are not worth a message. MEMORY_PART: with their bases, copies fill a
 * quarter of memory; PAGES_PART: a quarter of the pages in memory cannot go as they are bases.
 * VIEWS_PART: who has a small part of all copies does not spill for those of others. */
enum { SPILL_MIN = 64, MEMORY_PART = 8, PAGES_PART = 4, VIEWS_PART = 4 };

/* ---- the owner's side ---- */

/* ask puts the question in question.item to the manager. -EAGAIN: the manager did it, or the view
 * is doomed or killed: look again; -ETIMEDOUT; -EOWNERDEAD; the manager's error. */
static int ask(struct view *v)
{
    waits_clear(v);
    __atomic_fetch_add(&v->process->stats.manager_calls, 1, __ATOMIC_RELAXED);
    int e = view_ask(v, v->txn.enlisted);
    waits_clear(v);
    return e && e != EINTR ? -e : -EAGAIN;
}

static bool can_spill(const struct view *v, const struct port *p, uint64_t least)
{
    return p->spills && v->txn.enlisted == p && v->copies.count >= least && !view_stacks(v) &&
           !v->items.count /* IT8 */ && limit_left(v->process, KD_LIMIT_MEMORY);
}

bool spill_possible(const struct view *v, const struct port *p)
{
    return can_spill(v, p, SPILL_MIN);
}

bool spill_for_room(const struct view *v, const struct object *o, uint64_t part)
{
    return o->most != ~0ull && can_spill(v, o->commit_port, MAX(o->most / part, 2u));
}

bool spill_due(const struct view *v, const struct port *p)
{
    uint64_t all = view_copy_count(),
             few = MAX(evict_resident_count() / PAGES_PART, frame_low_mark());
    return spill_possible(v, p) && v->copies.count >= all / VIEWS_PART &&
           all >= MIN(frame_total_count() / MEMORY_PART, few);
}

int spill_some(struct view *v)
{
    item_say(&v->question.item, ITEM_SPILL, v->process->pid, v->id, v->copies.count,
             v->copies.count / 2);
    return ask(v);
}

bool spill_own(void)
{
    struct view *v = thread_this()->view;
    return v && v->state == VIEW_ACTIVE && v->txn.enlisted && !v->commit.batch.first && !v->doom &&
           spill_possible(v, v->txn.enlisted) && spill_some(v) == -EAGAIN && !v->doom;
}

uint64_t spill_leaving(void)
{
    uint64_t n = 0;
    views_each_locked(v, &views_all) {
        const struct process *by = v->question.answer < 0 &&
                                   v->question.received == v->question.token &&
                                   v->question.item.kind != ITEM_UNSPILL && v->group.asked
                                   ? v->group.asked->owner : NULL;
        n += by && by != process_this() && by->takes_reserve ? v->copies.count : 0;
    }
    return n >= SPILL_MIN ? n : 0;
}

int spill_bring(struct view *v, struct object *o, vaddr_t page)
{
    v->question.at = page;
    item_say(&v->question.item, ITEM_UNSPILL, v->process->pid, v->id, o->cookie,
             (page - o->base) >> PAGE_SHIFT);
    return ask(v);
}

/* ---- the manager's side ---- */

/* copy_spill puts a copy among the spilled; all of it counts as declared, so it is logged whole.
 * View locked. */
static struct frame *copy_spill(struct view *v, struct copy *c, struct debt *debt)
{
    struct frame *f = c->frame;
    right_spill(v, c, debt);
    memset(c->words, 0xff, sizeof c->words);
    c->groups = 0xff;
    c->frame = NULL;
    f->owner = NULL;
    list_remove(&c->link);
    list_push_back(&v->copies.spilled, &c->link);
    v->copies.count--;
    view_spilled(v, 1);
    return f;
}

/* copies_spill_some spills the first n copies. TLBs first, then frames go (FR1). */
static void copies_spill_some(struct view *v, uint64_t n)
{
    struct list frames = LIST_INIT(frames);
    struct debt debt = {0};
    lock_acquire(&v->lock);
    assert(n <= v->copies.count); /* SP1 */
    while (n--) {
        struct copy *c = list_first(&v->copies.resident, struct copy, link);
        list_push_back(&frames, &copy_spill(v, c, &debt)->link);
    }
    right_pay(&debt);
    lock_release(&v->lock);
    frames_free(&frames);
}

/* copies_spill spills the first n copies, or as many as were told: others are not in the log. */
static uint64_t copies_spill(struct view *v, uint64_t n)
{
    enum { AT_ONCE = 128 };
    uint64_t spilled = 0, all = MIN(n, v->copies.told);
    for (uint64_t part; (part = MIN(all - spilled, AT_ONCE)); spilled += part) {
        copies_spill_some(v, part);
        thread_breathe();
    }
    v->copies.told = 0;
    credit_consume(v->txn.enlisted, spilled);
    v->credits.charged -= spilled;
    limit_uncharge(v->process, KD_LIMIT_COPIES, spilled);
    count_add(spills, spilled);
    return spilled;
}

long kd_txn_spilled(const uint64_t a[6])
{
    struct view *v = view_claim(a[0], a[1], ASKED_COMMIT | ASKED_SPILL);
    if (!v)
        return -ESRCH;
    uint64_t spilled = copies_spill(v, a[2]);
    if (a[3] && v->question.item.kind == ITEM_SPILL)
        view_answer(v, 0);
    else
        view_claim_end(v);
    return (long)spilled;
}

/* copy_unspill makes a spilled copy one in memory again, with the frame in hand (SP1). View
 * locked. */
static void copy_unspill(struct view *v, struct copy *c)
{
    struct frame *f = v->reserve.frame;
    v->reserve.frame = NULL;
    v->reserve.credits--;
    c->frame = f;
    f->owner = c;
    list_remove(&c->link);
    list_push_back(&v->copies.resident, &c->link);
    view_spilled(v, -1);
    v->copies.count++;
    right_unspill(v, c);
}

long kd_txn_unspill(const uint64_t a[6])
{
    vaddr_t bytes = a[2];
    int own = vm_own(bytes, PAGE_BYTES);
    if (own)
        return own;
    struct view *v = view_claim(a[0], a[1], ASKED_UNSPILL);
    if (!v)
        return -ESRCH;
    /* the frame in hand stays there: the owner sleeps in view_ask() */
    if (copy_from_user(frame_memory(v->reserve.frame), bytes, PAGE_BYTES)) {
        view_claim_end(v);
        return -EFAULT;
    }
    lock_acquire(&v->lock);
    pte_t e = right_at(v, v->question.at);
    if (right_state(e) == RIGHT_SPILLED) /* else a sweep took it */
        copy_unspill(v, pte_copy(e));
    lock_release(&v->lock);
    view_answer(v, 0);
    return 0;
}
