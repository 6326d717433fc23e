/*
 * right.c - rights: every change of a view's page table entry but the hot ones, which grant.h has
 * (rights.md).
 *
 * Owns      entries and tables of views, and aliases of entries; TLB debts: `stale`, `cpu`, struct
 *           debt; rights that are owed.
 * Not here  who may have which right (fault.c, conflict.c, container_lock.c).
 */
#include "store/evict.h"
#include "store/grant.h"
#include "store/item.h"
#include "store/mapping.h"

enum { R_READ = RIGHT_SHARED | RIGHT_PLAIN, R_NONE = RIGHT_EMPTY | RIGHT_HELD,
       R_ANY = RIGHT_WRONG - 1,
       R_PRIVATE = RIGHT_COPY | RIGHT_FROZEN | RIGHT_SPILLED };
#define CHANGES(X) \
    /* change     finds                         leaves */ \
    X(age,          R_READ,                       R_READ)  /* the clock: ACCESSED becomes USED */  \
    X(hold,         R_READ,                       R_NONE | R_READ) /* EV3: the page goes */ \
    X(keep,         R_NONE,                       RIGHT_HELD) /* a holder's (HO2) */ \
    X(take,         R_ANY,                        RIGHT_EMPTY) /* CF2, of an idle view; a sweep */ \
    X(forget,       RIGHT_HELD,                   RIGHT_EMPTY) /* LF2: its page is away */ \
    X(take_unused,  RIGHT_SHARED,                 RIGHT_EMPTY) /* CF2, of one in a transaction */ \
    X(take_version, RIGHT_SHARED,                 RIGHT_EMPTY) /* CM7: an old version is freed */ \
    X(drop,         RIGHT_HELD | R_READ,          RIGHT_EMPTY) /* CM8, AB4: others wait for it */ \
    X(drop_copy,    R_PRIVATE,                    RIGHT_EMPTY) /* AB2; CM8, if it is unchanged */ \
    X(freeze,       RIGHT_COPY,                   RIGHT_FROZEN) /* CM1: the commit begins */ \
    X(retire,       RIGHT_FROZEN | RIGHT_SPILLED, RIGHT_SHARED | RIGHT_HELD) /* CM7: published */ \
    X(spill,        RIGHT_COPY | RIGHT_FROZEN,    RIGHT_SPILLED) /* the copy goes to the log */ \
    X(unspill,      RIGHT_SPILLED,                RIGHT_COPY) /* it comes back */

#define CHANGE_NUMBER(name, finds, leaves) CHANGE_##name,
#define CHANGE_STATES(name, finds, leaves) {#name, finds, leaves},
enum change { CHANGES(CHANGE_NUMBER) };
static const struct {
    const char *name;
    uint8_t finds, leaves;
} changes[] = { CHANGES(CHANGE_STATES) };

/* ---- looking ---- */

static bool is_other(pte_t *pte, vaddr_t at, void *next)
{
    return (void)at, !(*pte & ((pte_t *)next)[0]) && --((pte_t *)next)[1];
}

pte_t right_next(const struct view *v, vaddr_t *at, pte_t bits)
{
    pte_t next[] = {bits, 2048}; /* entries */
    vaddr_t from = MAX(*at, v->tables.from), to = v->tables.to;
    *at = v->table ? arch_pte_walk(v->table, from, to, is_other, next) : KD_STORE_END;
    pte_t e = *at < v->tables.to ? right_at(v, *at) : 0;
    return e & bits ? e : 0;
}

/* may_have returns the states that the view's entries for the object's pages may have. */
static unsigned may_have(const struct view *v, const struct object *o)
{
    static const uint8_t by_state[] = {
        [VIEW_IDLE] = R_NONE | RIGHT_SHARED,
        /* FROZEN: its commit begins, or was refused */
        [VIEW_ACTIVE] = R_NONE | RIGHT_SHARED | R_PRIVATE,
        [VIEW_COMMITTING] = R_NONE | RIGHT_SHARED | RIGHT_FROZEN | RIGHT_SPILLED,
        [VIEW_PLAIN] = RIGHT_EMPTY, [VIEW_FREE] = RIGHT_EMPTY,
    };
    if (!(o->flags & KD_OBJECT_TRANSACTIONAL))
        return R_NONE | R_READ;
    return v->snapshot_rights ? RIGHT_EMPTY | RIGHT_SHARED : by_state[v->state];
}

static bool is_record_of(const struct copy *c, const struct view *v, vaddr_t at, pte_t e)
{
    return c->at == at && c->view == v->id && (c->frame != NULL) == pte_present(e) &&
           (!c->frame || frame_paddr(c->frame) == pte_frame_paddr(e));
}

/* aliases_each: the aliases of the view's entry for `at`, and where they lie. Windows locked. */
#define aliases_each(pte, there, v, at)                                                           \
    for (struct mapping *m = (v)->process->windows.table, *end = m + (v)->process->windows.count;  \
         m < end; m++)                                                                            \
        for (vaddr_t there = at - m->first < m->bytes ? at - m->first + m->at : 0; there;         \
             there = 0)                                                                           \
            for (pte_t *pte = right_entry(v, there); pte && *pte; pte = NULL)

/* alias_wrong tells whether an alias of the entry e differs from it, or e may be taken unseen. */
static bool alias_wrong(const struct view *v, vaddr_t at, pte_t e)
{
    bool wrong = false;
    lock_acquire(&v->process->windows.lock);
    aliases_each(pte, there, v, at)
        wrong |= !pte_present(e) || (*pte ^ e) & PTE_FRAME ||
                 *pte & ~e & (PTE_WRITE | PTE_ACCESSED);
    lock_release(&v->process->windows.lock);
    return wrong;
}

const char *right_check(const struct view *v, const struct leaf *l, unsigned slot, pte_t e)
{
    const struct page *p = &l->pages[slot];
    const struct frame *f = pte_present(e) ? frame_of(pte_frame_paddr(e)) : NULL;
    if (!(right_state(e) & may_have(v, l->object)))
        return "a right in a state that its view cannot have";
    if (e && !vmask_test(&p->mask, v->id))
        return "a right is not in the mask (PG3)";
    if (pte_present(e) && (!f || (f->state != FRAME_USED && f->state != FRAME_LISTED)))
        return "a free frame is mapped (FR1)";
    if (e & PTE_COPY && !is_record_of(pte_copy(e), v, page_address(l, slot), e))
        return "a private copy without its record (SP2)";
    if (e & PTE_COPY && p->writer != (pte_copy(e)->items ? WRITER_NONE : v->id))
        return "a private copy, and another writer (PG2)";
    if (e & PTE_COPY && pte_copy(e)->items && !item_copy_ok(v, pte_copy(e)))
        return "an item copy is not the current version and what was told of it (IT3)";
    if (f && !(e & PTE_COPY) && !v->snapshot_rights && (!page_resident(p) || p->frame != f))
        return "a right to a frame that is not the current version (PG1)";
    return v->aliases && alias_wrong(v, page_address(l, slot), e)
               ? "an alias that allows more than its entry (WI1)" : NULL;
}

/* ---- the change ---- */

/* loses tells whether a TLB may hold `was` while `now` allows less. */
static bool loses(pte_t was, pte_t now)
{
    return pte_present(was) && was & (PTE_ACCESSED | PTE_USED) &&
           (!pte_present(now) || (was ^ now) & PTE_FRAME || was & ~now & PTE_WRITE);
}

static uint64_t cpu_bit(const struct view *v)
{
    if (v->state == VIEW_PLAIN)
        return ~0ull; /* any CPU may run the process; the machine masks out what it has not */
    return 1ull << __atomic_load_n(&v->cpu, __ATOMIC_SEQ_CST);
}

void right_alias_drop(struct view *v, vaddr_t at, bool owed)
{
    lock_acquire(&v->process->windows.lock);
    aliases_each(pte, there, v, at) {
        pte_exchange(pte, 0);
        if (!owed && arch_table_loaded() == v->table)
            arch_flush_page(there); /* WI4 */
        else
            v->stale = true;
    }
    lock_release(&v->process->windows.lock);
    if (!owed && v->stale && arch_table_loaded() == v->table)
        right_flush_due(v); /* an alias may have gone before, for another thread */
}

/* change_entry makes the entry what next(entry, x) returns, even if the walker sets a bit
 * meanwhile; returns the old one. The debt is noted; NULL: the caller flushes this CPU, which alone
 * has the table loaded. View locked. */
HOT pte_t change_entry(enum change c, struct view *v, vaddr_t at, pte_t *pte,
                       pte_t next(pte_t, uint64_t), uint64_t x, struct debt *debt)
{
    if (__builtin_expect(v->aliases, 0))
        right_alias_drop(v, at, debt); /* WI2 */
    pte_t e = pte ? pte_load(pte) : 0, now;
    do
        now = next(e, x);
    while (now != e && !pte_compare_exchange(pte, &e, now));
    if (now != e && !(right_state(e) & changes[c].finds && right_state(now) & changes[c].leaves))
        panic("right_%s: finds entry 0x%lx, leaves 0x%lx", changes[c].name, e, now);
    if (debt && (v->aliases || loses(e, now))) { /* WI4: another may have taken an alias */
        v->stale = true;
        debt->cpus |= cpu_bit(v);
    }
    return e;
}

HOT pte_t change(enum change c, struct view *v, vaddr_t at, pte_t next(pte_t, uint64_t), uint64_t x,
                 struct debt *debt)
{
    return change_entry(c, v, at, right_entry(v, at), next, x, debt);
}

/* ---- what an entry becomes; x: a frame where one is named ---- */

static bool maps(pte_t e, paddr_t frame) { return pte_present(e) && pte_frame_paddr(e) == frame; }

static pte_t becomes(pte_t e, uint64_t x) { return (void)e, x; }
static pte_t kept_if_used(pte_t e, uint64_t x) { return right_used(e) ? e : x; }
static pte_t kept_if_copy(pte_t e, uint64_t x) { return e & PTE_COPY ? e : x; }
static pte_t kept_if_not(pte_t e, uint64_t x) { return e == x ? 0 : e; }
static pte_t kept_if_other(pte_t e, uint64_t frame) { return maps(e, frame) ? 0 : e; }
static pte_t frozen(pte_t e, uint64_t x)
{
    return (e & ~(PTE_WRITE | PTE_ACCESSED)) | PTE_USED | x;
}
static pte_t retired(pte_t e, uint64_t x) { return pte_present(e) ? e & ~PTE_COPY : PTE_HELD | x; }
static bool accessed(pte_t e, paddr_t frame) /* as a right: the frame may be a copy by now */
{
    return maps(e, frame) && (e & (PTE_ACCESSED | PTE_COPY)) == PTE_ACCESSED;
}
static pte_t aged(pte_t e, uint64_t frame)
{
    return accessed(e, frame) ? (e & ~PTE_ACCESSED) | PTE_USED : e;
}
enum { ANYWAY = 1 }; /* beside the frame: it goes, accessed or not */
HOT pte_t gone(pte_t e, uint64_t x) /* or aged */
{
    return !maps(e, x & PTE_FRAME) ? e : accessed(e, x) ? aged(e, x) : 0;
}
HOT pte_t held(pte_t e, uint64_t x)
{
    pte_t now = gone(e, x);
    return now || !right_used(e) ? now : PTE_HELD;
}

/* ---- what others do to a view's rights ---- */

/* user_remove takes the view out of the page's mask, and from being its writer. */
static void user_remove(const struct view *v, struct page *p)
{
    vmask_clear(&p->mask, v->id);
    if (p->writer == v->id)
        p->writer = WRITER_NONE;
}

pte_t right_take(struct view *v, struct page *p, vaddr_t at, struct debt *debt)
{
    user_remove(v, p);
    return change(CHANGE_take, v, at, becomes, 0, debt);
}

bool right_forget(struct view *v, struct page *p, vaddr_t at, bool held)
{
    pte_t was = change(CHANGE_forget, v, at, kept_if_not, held ? PTE_HELD : 0, NULL);
    bool none = was == 0 || (held && was == PTE_HELD);
    if (none && p->writer == v->id)
        p->writer = WRITER_NONE; /* if it was to write, it had no copy */
    return none;
}

bool right_take_unused(struct view *v, struct page *p, vaddr_t at, struct debt *debt)
{
    bool none = !right_used(change(CHANGE_take_unused, v, at, kept_if_used, 0, debt));
    if (none)
        user_remove(v, p);
    return none;
}

void right_take_version(struct view *v, struct page *p, vaddr_t at, const struct frame *version,
                        struct debt *debt)
{
    paddr_t frame = frame_paddr(version);
    if (!kept_if_other(change(CHANGE_take_version, v, at, kept_if_other, frame, debt), frame))
        vmask_clear(&p->mask, v->id); /* or each writer of the page would look at it (CF2) */
}

void reach_end(struct reach *r)
{
    if (r->view)
        lock_release(&r->view->lock);
}

/* reach_entry locks a view, and finds its entry. */
HOT pte_t *reach_entry(struct reach *r, struct view *v, vaddr_t at)
{
    bool same = r->view == v;
    if (!same) {
        reach_end(r);
        lock_acquire(&v->lock);
        r->view = v;
    }
    if (!same || at - r->base >= RIGHT_REACH_BYTES) {
        r->base = at & ~(vaddr_t)(RIGHT_REACH_BYTES - 1);
        r->ptes = right_entry(v, r->base);
    }
    return r->ptes ? r->ptes + (at - r->base) / PAGE_BYTES : NULL;
}

enum hold right_hold(struct reach *r, struct leaf *l, unsigned slot, bool anyway,
                     struct debt *debt)
{
    const struct page *p = &l->pages[slot];
    vaddr_t at = page_address(l, slot);
    paddr_t frame = frame_paddr(p->frame) | (anyway ? ANYWAY : 0);
    enum hold hold = HOLD_GONE;
    vmask_each(i, &p->mask) {
        struct view *v = &views[i];
        pte_t *pte = reach_entry(r, v, at), was;
        if (!v->snapshot_rights && (v->state == VIEW_ACTIVE || v->state == VIEW_COMMITTING)) {
            was = change_entry(CHANGE_hold, v, at, pte, held, frame, debt);
            if (maps(was, frame & PTE_FRAME) && right_used(was))
                l->held = view_tickets();
        } else {
            was = change_entry(CHANGE_hold, v, at, pte, gone, frame, debt);
        }
        if (accessed(was, frame))
            hold = HOLD_USED;
        else if (pte_present(was) && was & PTE_COPY)
            hold = HOLD_COPY;
    }
    return hold;
}

void right_keep(struct view *holder, struct leaf *l, unsigned slot)
{
    vaddr_t at = page_address(l, slot);
    right_user_add(holder, l, &l->pages[slot]);
    holder->tables.from = MIN(holder->tables.from, page_down(at));
    holder->tables.to = MAX(holder->tables.to, page_down(at) + PAGE_BYTES);
    change(CHANGE_keep, holder, at, becomes, PTE_HELD, NULL);
}

/* page_age is right_age of one page. */
HOT bool page_age(struct reach *r, const struct leaf *l, const struct page *p, vaddr_t at)
{
    const struct frame *f = __atomic_load_n(&p->frame, __ATOMIC_RELAXED);
    bool used = false;
    if (!f || (p->flags & (PAGE_FILLING | PAGE_PINNED | PAGE_DIRTY) &&
               (p->flags & PAGE_FILLING || page_stays(l, p))))
        return false;
    vmask_each(i, &p->mask) {
        struct view *v = &views[i];
        pte_t *pte = reach_entry(r, v, at);
        if (pte && (accessed(pte_load(pte), frame_paddr(f)) || v->aliases))
            used |= accessed(change_entry(CHANGE_age, v, at, pte, aged, frame_paddr(f), NULL),
                             frame_paddr(f));
    }
    return used;
}

void right_age(struct candidate c[], unsigned n)
{
    struct reach r = {0};
    for (; n--; c++) {
        struct leaf *l = c->leaf;
        uint64_t others = c->cluster & ~(1ull << c->slot);
        c->used |= page_age(&r, l, c->page, page_address(l, c->slot));
        for (; unlikely(others); others &= others - 1) {
            unsigned slot = (unsigned)__builtin_ctzll(others);
            c->used |= page_age(&r, l, &l->pages[slot], page_address(l, slot));
        }
    }
    reach_end(&r);
}

void right_pay(struct debt *debt)
{
    if (!debt->cpus)
        return;
    count(shootdowns);
    if (debt->cpus == 1ull << arch_cpu_id())
        arch_flush_all();
    else
        arch_shootdown(debt->cpus);
    debt->cpus = 0;
}

/* ---- private copies ---- */

void right_freeze(struct view *v, vaddr_t at, bool many)
{
    pte_t *pte = right_entry(v, at);
    if (likely(!v->aliases && right_state(*pte) == RIGHT_COPY))
        pte_exchange(pte, frozen(*pte, 0)); /* its owner does nothing meanwhile */
    else
        change(CHANGE_freeze, v, at, frozen, 0, NULL);
    if (many)
        v->stale = true;
    else
        arch_flush_page(at);
}

void right_retire(struct view *v, vaddr_t at) { change(CHANGE_retire, v, at, retired, 0, NULL); }

void right_retire_item(struct view *v, vaddr_t at, const struct frame *f, struct debt *debt)
{
    pte_t now = pte_make(frame_paddr(f), PTE_SHARED | PTE_USED);
    if (unlikely(v->aliases)) {
        change(CHANGE_retire, v, at, becomes, now, debt);
        return;
    }
    pte_t was = pte_exchange(right_entry(v, at), now);
    assert(right_state(was) == RIGHT_FROZEN);
    v->stale = true;
    debt->cpus |= cpu_bit(v);
}

void right_drop_copy(struct view *v, struct page *p, const struct copy *c)
{
    assert(p->writer == (c->items ? WRITER_NONE : v->id)); /* PG2 */
    change(CHANGE_drop_copy, v, c->at, becomes, 0, NULL);
    if (arch_table_loaded() == v->table)
        arch_flush_page(c->at);
    else
        v->stale = true;
    p->writer = WRITER_NONE;
}

void right_guard(struct view *v, vaddr_t at)
{
    pte_t *pte = arch_pte(v->table, at, NULL), e = pte ? pte_load(pte) : 0;
    if (right_state(e) != RIGHT_COPY || e & PTE_GUARDED)
        return;
    pte_exchange(pte, e | PTE_GUARDED);
    arch_flush_page(at);
}

void right_spill(struct view *v, const struct copy *c, struct debt *debt)
{
    uint64_t record = (uint64_t)((const char *)c - (const char *)arch_phys(0));
    change(CHANGE_spill, v, c->at, becomes, (record >> 4) << PAGE_SHIFT | PTE_COPY, debt); /* SP2 */
}

void right_unspill(struct view *v, const struct copy *c)
{
    change(CHANGE_unspill, v, c->at, becomes, pte_make(frame_paddr(c->frame), PTE_PRIVATE), NULL);
}

/* ---- begin and end ---- */

void right_owe(struct view *v, vaddr_t at)
{
    if (v->owed.count < OWED_MAX)
        v->owed.at[v->owed.count] = at;
    if (v->owed.count <= OWED_MAX)
        v->owed.count++;
}

void right_owe_all(struct view *v) { v->owed.count = OWED_MAX + 1; }

static void tables_none(struct view *v)
{
    v->tables.from = KD_STORE_END;
    v->tables.to = KD_STORE_BASE;
    v->last.ptes = NULL;
    v->last.leaf = NULL;
    v->owed.count = 0;
}

static void drop_each(struct view *v, const vaddr_t *at, unsigned n)
{
    while (n--)
        change(CHANGE_drop, v, at[n], kept_if_copy, 0, NULL);
}

/* right_drop gives up rights. Where all go, their tables go instead of the entries, however many
 * there are; later faults free them (own_ptes_make). The masks still name the view, as they may. */
void right_drop(struct view *v, bool all, bool want_x)
{
    if (all || v->owed.count > OWED_MAX) {
        const struct view_copies *c = &v->copies;
        assert(list_empty(&c->resident) && list_empty(&c->spilled)); /* SP1 */
        if (v->aliases)
            right_aliases_drop(v);
        arch_tables_cut(v->table, v->tables.from, v->tables.to, &v->tables.cut);
        tables_none(v);
    }
    drop_each(v, v->owed.at, v->owed.count);
    drop_each(v, v->txn.want_x, want_x ? v->txn.want_x_count : 0);
    v->owed.count = 0;
    v->stale = true; /* suspended: its CPU flushes before it is used again */
    if (arch_table_loaded() == v->table)
        right_flush_due(v);
}

struct vmask right_snapshots;

void right_kind(struct view *v, bool snapshot)
{
    if (v->snapshot_rights != snapshot)
        vmask_mark(&right_snapshots, v->id, snapshot);
    v->snapshot_rights = snapshot;
}

/* ---- windows ---- */

void right_aliases_drop(struct view *v)
{
    arch_tables_cut(v->table, KD_WINDOW_BASE, KD_WINDOW_END, &v->tables.cut);
    v->aliases = false;
    if (arch_table_loaded() == v->table)
        arch_flush_all();
}

/* alias_make makes the alias of *of, which allows the access; `without`: bits that the window does
 * not give. View and windows locked. */
static int alias_make(struct view *v, vaddr_t at, pte_t *of, pte_t without)
{
    pte_t *pte = view_pte_make(v, at), e = pte_load(of);
    if (!pte)
        return -ENOMEM;
    v->aliases = true;
    while (!(e & PTE_ACCESSED) && !pte_compare_exchange(of, &e, e | PTE_ACCESSED)) /* WI3 */
        ;
    pte_t kept = (PTE_PRIVATE | PTE_GUARDED) & ~PTE_COPY & ~without;
    pte_exchange(pte, pte_make(pte_frame_paddr(e), (e & kept) | PTE_ACCESSED));
    return 0;
}

int right_alias(struct view *v, vaddr_t at, bool write)
{
    struct process_windows *w = &v->process->windows;
    int result = -EAGAIN;
    lock_acquire(&v->lock);
    view_tables_gone(v, arch_tables_free(&v->tables.cut, 4)); /* more than are made here */
    lock_acquire(&w->lock);
    const struct mapping *m = mapping_find(v->process, at);
    pte_t *of = m ? right_entry(v, at - m->at + m->first) : NULL;
    pte_t without = m && m->rights & KD_RIGHT_WRITE ? 0 : PTE_WRITE, e = of ? pte_load(of) : 0;
    if (pte_present(e) && (!write || pte_writable(e & ~without)))
        result = alias_make(v, at, of, without);
    lock_release(&w->lock);
    lock_release(&v->lock);
    return result;
}

/* ---- tables ---- */

paddr_t right_table(struct thread *t)
{
    struct view *v = t->view;
    int cpu = (int)arch_cpu_id();
    if (v->cpu == cpu)
        return v->table;
    __atomic_store_n(&v->cpu, cpu, __ATOMIC_SEQ_CST);
    return v->table | 1; /* it ran elsewhere since: our TLB may be old (KR5) */
}

void right_tables_new(struct view *v, paddr_t table)
{
    v->table = table;
    v->cpu = (int)arch_cpu_id();
    right_kind(v, false);
    v->stale = v->aliases = false;
    tables_none(v);
}

void right_tables_free(struct view *v)
{
    lock_acquire(&v->lock);
    paddr_t table = v->table;
    uint64_t cpus = cpu_bit(v);
    v->last.ptes = NULL;
    v->table = 0; /* others find EMPTY from now on */
    v->aliases = false;
    lock_release(&v->lock);
    arch_shootdown(cpus);
    while (arch_tables_free(&v->tables.cut, 32))
        thread_breathe();
    arch_table_free(table, true);
}
