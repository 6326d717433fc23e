/*
 * item_lock.c - locks of items: tables of entries that programs share with the kernel, and what
 * happens to who meets another in one (items.md).
 *
 * Owns      object->items, the queues of entries (view->items.link), view->items.notes.
 * Not here  pages in item mode (item_page.c), the way without a call (libpstore).
 *
 * IT9   A bit of an entry counts while its view's transaction runs or commits. It is judged with
 *       that view locked: an edge, or a stale bit goes, in the same section. A transaction's end
 *       needs nothing in a table to be right.
 * IT10  Who asks sets `waiting` and its bit, and then looks at the others'. If it has to wait, it
 *       takes the bit back. Those in this queue who have an edge to it look again: at its first
 *       look, for they may have seen the bit that it set without a call, and when it leaves the
 *       queue; in between their edges stay, or two would never see each other's. It waits for those
 *       before it, too, unless it has a mode here: then it goes before those that have none.
 * IT11  Who may not write cannot spoil others' locks: it has no table, and its bits are noted, and
 *       cleared at the transaction's end.
 * IT12  A view's number is another's only when all tables were scanned for it.
 * IT13  The kernel trusts nothing in a table, and changes only bits there, and `waiting`.
 *
 * Locks: some entries, one view, graph. Tables are memory of programs: all changes are atomic.
 */
#include "store/fault.h"
#include "store/mapping.h"
#include "store/object_private.h"
#include "store/wait.h"
#include "process/vm.h"

enum { STRIPES = 16, ENTRIES_A_PAGE = PAGE_BYTES / sizeof(struct kd_item_entry) };
_Static_assert(sizeof(struct kd_item_entry) == 128, "an entry lies in one page");

/* A stripe is the entries that share a lock, with the views that wait for one of them, in order. */
static struct stripe { struct lock lock; struct list waiting; } stripes[STRIPES];

struct ask { /* One call for an entry. */
    struct view *v;
    struct object *o;
    struct stripe *s;
    struct kd_item_entry *e;
    uint32_t item, mode;
    bool now;
};

void item_locks_init(void)
{
    for (unsigned i = 0; i < STRIPES; i++) {
        lock_init(&stripes[i].lock, RANK_ITEMS, "items");
        list_init(&stripes[i].waiting);
    }
}

/* ---- tables: o->items.bits stays when there is one ---- */

static struct kd_item_entry *entry_at(const struct vm_memory *m, uint32_t i)
{
    struct kd_item_entry *page = frame_memory(m->frames[i / ENTRIES_A_PAGE]);
    return &page[i % ENTRIES_A_PAGE];
}

long item_policy(struct object *o, uint64_t policy, uint64_t value)
{
    bool own = policy == KD_POLICY_OWN;
    if (!(o->flags & KD_OBJECT_ITEMS) ||
        (own ? value >> KD_ITEM_MODES
             : value < KD_ITEMS_LEAST || value > KD_ITEMS_MOST || value & (value - 1)))
        return -EINVAL;
    lock_acquire(&o->lock);
    long e = o->items.table ? -EBUSY : 0;
    if (!e && own)
        o->items.own = (uint8_t)value;
    else if (!e)
        o->items.bits = (uint8_t)__builtin_ctzll(value);
    lock_release(&o->lock);
    return e;
}

/* tables_take keeps the pages of all tables, whoever opened the containers, to a part of memory. */
static uint64_t tables_taken;           /* pages */
static void tables_give(uint64_t pages)
{
    __atomic_sub_fetch(&tables_taken, pages, __ATOMIC_RELAXED);
}
static bool tables_take(uint64_t pages)
{
    enum { TABLES_PART = 4 };
    uint64_t taken = __atomic_add_fetch(&tables_taken, pages, __ATOMIC_RELAXED);
    if (taken > frame_total_count() / TABLES_PART)
        tables_give(pages);
    return taken <= frame_total_count() / TABLES_PART;
}

/* table_make makes o's table, which its owner is charged for. 0, -EINVAL, -EOWNERDEAD, -ENOMEM. */
static int table_make(struct object *o)
{
    if (!(o->flags & KD_OBJECT_ITEMS))
        return -EINVAL;
    if (__atomic_load_n(&o->items.table, __ATOMIC_ACQUIRE))
        return 0;
    uint8_t bits = o->items.bits;
    uint64_t pages = (1u << bits) / ENTRIES_A_PAGE;
    if (!tables_take(pages))
        return -ENOMEM;
    struct vm_memory *m = o->dead ? NULL : vm_memory_new(pages);
    if (!m) {
        tables_give(pages);
        return o->dead ? -EOWNERDEAD : -ENOMEM;
    }
    lock_acquire(&o->lock);
    bool can = o->items.table || leaf_charge(o, m->pages);
    if (can && !o->items.table) {
        o->items.bits = bits; /* it may have been changed meanwhile: too late */
        __atomic_store_n(&o->items.table, m, __ATOMIC_RELEASE);
        m = NULL;
    }
    lock_release(&o->lock);
    if (m) {
        vm_memory_put(m);
        tables_give(pages);
    }
    return can ? 0 : o->dead ? -EOWNERDEAD : -ENOMEM;
}

/* table_map maps o's table, once there is one. Its address, or -errno. */
static long table_map(struct process *p, struct object *o)
{
    lock_acquire(&o->lock);
    struct vm_memory *m = o->items.table; /* it goes when o dies */
    if (m)
        vm_memory_get(m);
    lock_release(&o->lock);
    long at = m ? vm_memory_map(p, m) : -EOWNERDEAD;
    if (m)
        vm_memory_put(m);
    return at;
}

long kd_item_map(const uint64_t a[6])
{
    uint32_t rights;
    struct process *p = process_this();
    const struct view *v = thread_this()->view;
    struct object *o = object_at(p, mapping_first(p, a[0], 1), &rights);
    if (!o)
        return -ENOENT;
    long at = table_make(o);
    if (!at && rights & KD_RIGHT_WRITE) {
        p->locks_items = true;
        at = table_map(p, o);
    }
    struct kd_item_table t = {.entries = (struct kd_item_entry *)at, .bits = o->items.bits,
                              .own = o->items.own, .view = v ? v->id : ~0u};
    object_put(o);
    return at < 0 ? at : copy_to_user(a[1], &t, sizeof t) ? -EFAULT : 0;
}

/* ---- bits ---- */

static void bit_set(struct kd_item_entry *e, unsigned mode, unsigned view)
{
    __atomic_fetch_or(&e->holders[mode][view / 64], 1ull << view % 64, __ATOMIC_SEQ_CST);
}

static void bit_clear(struct kd_item_entry *e, unsigned mode, unsigned view)
{
    uint64_t bit = 1ull << view % 64, *word = &e->holders[mode][view / 64];
    if (__atomic_load_n(word, __ATOMIC_RELAXED) & bit)
        __atomic_fetch_and(word, ~bit, __ATOMIC_SEQ_CST);
}

static void bits_clear(struct kd_item_entry *e, unsigned view)
{
    for (unsigned k = 0; k < KD_ITEM_MODES; k++)
        bit_clear(e, k, view);
}

/* holders_of returns who has one of the modes of a set. */
static inline struct vmask holders_of(const struct kd_item_entry *e, uint32_t modes)
{
    struct vmask m = {0};
    for (; modes; modes &= modes - 1) {
        const uint64_t *of = e->holders[__builtin_ctz(modes)];
        m.word[0] |= __atomic_load_n(&of[0], __ATOMIC_SEQ_CST);
        m.word[1] |= __atomic_load_n(&of[1], __ATOMIC_SEQ_CST);
    }
    return m;
}

static bool has_any(const struct kd_item_entry *e, uint32_t modes, unsigned view)
{
    struct vmask m = holders_of(e, modes);
    return vmask_test(&m, view);
}

/* entry_lock locks the stripe of q->item, and finds that entry. False: its table is gone
 * (item_locks_end). */
static bool entry_lock(struct ask *q)
{
    q->s = &stripes[q->item % STRIPES];
    lock_acquire(&q->s->lock);
    q->e = q->o->dead ? NULL : entry_at(q->o->items.table, q->item);
    return q->e;
}

/* ---- queues; the stripe locked ---- */

#define queue_each(u, q)                                      \
    list_each(struct view, u, &(q)->s->waiting, items.link) \
        if (u->items.queue == (q)->o && u->items.entry == (q)->item)

/* queue_wake has those look again that wait for v here. */
static void queue_wake(const struct ask *q)
{
    if (list_empty(&q->s->waiting))
        return;
    lock_acquire(&graph_lock);
    queue_each(u, q)
        if (vmask_test(&u->wait.holders, q->v->id)) {
            vmask_clear(&u->wait.holders, q->v->id);
            thread_wake(u->owner);
        }
    lock_release(&graph_lock);
}

static void queue_enter(const struct ask *q, bool first)
{
    struct list *at = &q->s->waiting;
    if (q->v->items.queue)
        return;
    if (first)
        at = at->next;
    q->v->items.queue = q->o;
    q->v->items.entry = q->item;
    q->v->items.mode = q->mode;
    q->v->wait.lock_base = q->o->base;
    list_insert_before(at, &q->v->items.link);
}

static void queue_quit(const struct ask *q)
{
    queue_wake(q);
    if (q->v->items.queue)
        list_remove(&q->v->items.link);
    q->v->items.queue = NULL;
    queue_each(u, q)
        return;
    if (q->e)
        __atomic_store_n(&q->e->waiting, 0, __ATOMIC_SEQ_CST);
}

void item_locks_end(struct object *o)
{
    for (struct stripe *s = stripes; s < stripes + STRIPES; s++) {
        lock_acquire(&s->lock);
        list_each(const struct view, u, &s->waiting, items.link)
            thread_wake(u->owner);
        lock_release(&s->lock);
    }
    lock_acquire(&o->lock);
    struct vm_memory *m = o->items.table;
    o->items.table = NULL;
    lock_release(&o->lock);
    if (m) {
        tables_give(m->pages);
        vm_memory_put(m);
    }
}

/* ---- the call ---- */

/* judge tells whether w, which is locked, is in the way; then v has an edge to it (IT9). */
static bool judge(const struct ask *q, struct view *w, uint32_t against)
{
    if (!has_any(q->e, against, w->id))
        return false; /* it left the item meanwhile */
    if (w->state == VIEW_ACTIVE || w->state == VIEW_COMMITTING) {
        if (!q->now)
            waits_edge(q->v, w);
        return true;
    }
    bits_clear(q->e, w->id);
    return false;
}

/* blocked tells whether v has to wait; then it stands in the queue, with edges to all of `on` that
 * are in the way (IT10), unless it does not wait. */
static bool blocked(const struct ask *q, uint32_t against, struct vmask on)
{
    uint32_t others = ((1u << KD_ITEM_MODES) - 1) & ~(1u << q->mode);
    bool is = false, first = has_any(q->e, others, q->v->id);
    struct vmask before = {0};
    group_clear(q->v, &on);
    views_each_locked(w, &on)
        is |= judge(q, w, against);
    queue_each(u, q) {
        if (u == q->v || first)
            break;
        vmask_set(&before, u->id);
    }
    group_clear(q->v, &before);
    is |= !vmask_empty(&before);
    if (!is || q->now)
        return is;
    queue_enter(q, first);
    waits_add(q->v, &before, WAIT_ALL);
    return true;
}

/* look_once is one look at the entry: 0: it has the mode; -EAGAIN: it stands in the queue; -EBUSY:
 * it does not wait; -EOWNERDEAD. */
static int look_once(struct ask *q)
{
    uint32_t against = kd_item_against(q->mode, q->o->items.own);
    int e = entry_lock(q) ? 0 : -EOWNERDEAD;
    if (e) {
        lock_release(&q->s->lock);
        return e;
    }
    waits_clear(q->v);
    if (!q->v->items.queue)
        queue_wake(q);
    __atomic_store_n(&q->e->waiting, 1, __ATOMIC_SEQ_CST);
    bit_set(q->e, q->mode, q->v->id);
    struct vmask on = holders_of(q->e, against);
    vmask_clear(&on, q->v->id);
    if (vmask_empty(&on) && list_empty(&q->s->waiting)) {
        __atomic_store_n(&q->e->waiting, 0, __ATOMIC_SEQ_CST);
    } else if (blocked(q, against, on)) {
        bit_clear(q->e, q->mode, q->v->id);
        e = q->now ? -EBUSY : -EAGAIN;
    } else {
        queue_quit(q);
    }
    lock_release(&q->s->lock);
    return e;
}

/* give_up takes back what is left of a call in vain. */
static void give_up(struct ask *q)
{
    bool there = entry_lock(q);
    waits_clear(q->v);
    if (there)
        bit_clear(q->e, q->mode, q->v->id);
    queue_quit(q);
    lock_release(&q->s->lock);
}

/* wait_for waits until v has the mode. 0; -EBUSY; -ECANCELED: doomed or killed; -ETIMEDOUT;
 * -EOWNERDEAD. */
static int wait_for(struct ask *q)
{
    struct view *v = q->v;
    int e = v->doom ? -ECANCELED : 0;
    while (!e && (e = look_once(q)) == -EAGAIN) {
        __atomic_fetch_add(&v->process->stats.lock_waits, 1, __ATOMIC_RELAXED);
        e = waits_sleep(v, KD_TRACE_FOR_ITEM, q->o->base, q->item);
    }
    if (e)
        give_up(q);
    return e;
}

/* ---- who may not write ---- */

/* held: which of v->locks.held. again: it was asked for more than once, so it is kept to the end */
struct item_note { uint16_t item; uint8_t held; bool again; };
_Static_assert(KD_ITEM_NOTES * sizeof(struct item_note) == PAGE_BYTES, "notes fill a frame");

static struct item_note *note_of(struct view *v, const struct object *o, uint32_t item)
{
    for (unsigned i = 0; i < v->items.noted; i++) {
        struct item_note *n = &v->items.notes[i];
        if (n->item == item && v->locks.held[n->held] == o)
            return n;
    }
    return NULL;
}

/* note notes an entry, so that the end clears it (IT11). 0, -ENOLCK, -ENOMEM. */
static int note(struct view *v, struct object *o, uint32_t item)
{
    unsigned i = 0;
    while (i < v->locks.count && v->locks.held[i] != o)
        i++;
    if (i == LOCKED_MAX || v->items.noted == KD_ITEM_NOTES)
        return -ENOLCK;
    if (!v->items.notes) {
        if (!limit_charge(v->process, KD_LIMIT_MEMORY, 1))
            return -ENOMEM;
        v->items.notes = kalloc_raw(PAGE_BYTES);
        if (!v->items.notes) {
            limit_uncharge(v->process, KD_LIMIT_MEMORY, 1);
            return -ENOMEM;
        }
    }
    if (i == v->locks.count) { /* kept to the end as if it was locked */
        object_get(o);
        if (i == 0)
            v->locks.base = o->base;
        v->locks.held[v->locks.count++] = o;
    }
    v->items.notes[v->items.noted++] = (struct item_note){(uint16_t)item, (uint8_t)i, false};
    return 0;
}

void item_notes_end(struct view *v)
{
    while (v->items.noted) {
        const struct item_note *n = &v->items.notes[--v->items.noted];
        struct ask q = {.o = v->locks.held[n->held], .item = n->item};
        if (entry_lock(&q))
            bits_clear(q.e, v->id);
        lock_release(&q.s->lock);
    }
}

/* reader_may tells whether who may not write may ask: 0; 1: it has the mode; -errno. */
static int reader_may(struct ask *q)
{
    bool has = entry_lock(q) && has_any(q->e, 1u << q->mode, q->v->id);
    lock_release(&q->s->lock);
    if (q->mode != KD_ITEM_S && q->mode != KD_ITEM_IS)
        return -EACCES; /* it would keep those out who may do more than it may */
    struct item_note *n = note_of(q->v, q->o, q->item);
    if (n)
        n->again = true;
    return has ? 1 : n ? 0 : note(q->v, q->o, q->item);
}

/* ---- calls ---- */

/* ask_for finds the number of a name's entry. 0 or -errno. */
static int ask_for(struct ask *q, vaddr_t at, uint64_t name, uint32_t *rights)
{
    q->v = thread_this()->view;
    if (!q->v || q->v->state != VIEW_ACTIVE)
        return -ENOENT;
    q->o = view_object_at(q->v, mapping_first(q->v->process, at, 1), rights);
    int e = !q->o ? -ENOENT : q->v->snapshot_rights ? -EINVAL : table_make(q->o);
    if (e)
        return e;
    q->item = kd_item_entry(name, q->o->items.bits);
    return 0;
}

long kd_item_lock(const uint64_t a[6])
{
    struct ask q;
    uint32_t rights;
    int e = (a[2] & ~(uint64_t)KD_ITEM_NOW) < KD_ITEM_MODES ? ask_for(&q, a[0], a[1], &rights)
                                                            : -EINVAL;
    if (e)
        return e;
    q.mode = (uint32_t)a[2] & ~(uint32_t)KD_ITEM_NOW;
    q.now = a[2] & KD_ITEM_NOW;
    if (rights & RIGHTS_STORE)
        q.v->process->locks_items = true;
    else
        e = reader_may(&q);
    return e ? MIN(e, 0) : lock_over(q.v, wait_for(&q));
}

long kd_item_wake(const uint64_t a[6])
{
    struct ask q;
    uint32_t rights;
    int e = ask_for(&q, a[0], a[1], &rights);
    if (e)
        return e;
    if (!(rights & RIGHTS_STORE)) {
        struct item_note *n = note_of(q.v, q.o, q.item);
        if (!n || n->again)
            return 0;
        *n = q.v->items.notes[--q.v->items.noted];
    }
    if (entry_lock(&q)) {
        bits_clear(q.e, q.v->id);
        queue_wake(&q);
    }
    lock_release(&q.s->lock);
    return 0;
}

/* ---- the end of a view ---- */

/* scan takes a view's bits out of a table (IT12). */
static void scan(struct object *o, const struct view *v)
{
    enum { AT_ONCE = 1024 };
    for (uint32_t from = 0, end = 1u << o->items.bits; from < end; from += AT_ONCE) {
        lock_acquire(&o->lock);
        for (uint32_t i = from; o->items.table && i < MIN(from + AT_ONCE, end); i++)
            bits_clear(entry_at(o->items.table, i), v->id);
        lock_release(&o->lock);
        thread_breathe();
    }
}

void item_view_gone(struct view *v)
{
    limit_uncharge(v->process, KD_LIMIT_MEMORY, v->items.notes != NULL);
    kfree(v->items.notes);
    v->items.notes = NULL;
    if (v->process->locks_items)
        objects_each(o)
            scan(o, v);
}
