/*
 * encode.c - what a transaction changed, as its manager's log wants it (KD_TXN_DIFF): whole pages,
 * differences, or declared ranges, by the object's encoder (commit.md).
 *
 * Whatever the encoder, a page whose base is older than `full_below` is told whole, and so is one
 * whose base is not in memory. Item copies (item_page.c) are told by what was declared and differs;
 * where that is not enough to know, what was not declared is put back.
 *
 * Locks: none; the call claims the view (QU2), so only it works on the copies. The
 * declarations belong to the owner thread, and are read while it sleeps.
 */
#include "process/vm.h"
#include "store/codeword.h"
#include "store/commit.h"
#include "store/holder.h"
#include "store/item.h"
#include "store/right.h"
#include "store/stack.h"

enum { WORDS = PAGE_BYTES / 8, UNIT_WORDS = UNIT_BYTES / 8 };
enum { BLOCK = 16 };                    /* words that are compared in one piece */
/* RUN_GAP: two runs that lie closer than a header cost less as one. */
enum { RUN_HEAD = sizeof(struct kd_run) / 8, RUN_GAP = RUN_HEAD };

/* struct words: a set of the page's 64-bit words. */
struct words { uint64_t bits[WORDS / 64]; };

static struct words words_that_differ(const uint64_t *a, const uint64_t *b)
{
    struct words w = {{0}};
    for (unsigned i = 0; i < WORDS; i += BLOCK) {
        uint64_t differ = 0;
#pragma GCC unroll 16
        for (unsigned k = i; k < i + BLOCK; k++)
            differ |= a[k] ^ b[k];
        for (unsigned k = i; unlikely(differ) && k < i + BLOCK; k++)
            w.bits[k / 64] |= (uint64_t)(a[k] != b[k]) << k % 64;
    }
    return w;
}

/* run_end is the first word behind `from` that is not in the set. */
static unsigned run_end(const struct words *w, unsigned from)
{
    uint64_t out = ~w->bits[from / 64] >> from % 64;
    while (!out && (from = (from & ~63u) + 64) < WORDS)
        out = ~w->bits[from / 64];
    return out ? from + (unsigned)__builtin_ctzll(out) : WORDS;
}

/* next_run finds the next run of these words at or after `from` (RUN_GAP). False: there is none. */
static bool next_run(const struct words *w, unsigned *from, unsigned *to)
{
    int i = bit_next(w->bits, WORDS, *from);
    if (i < 0)
        return false;
    *from = (unsigned)i;
    do
        *to = run_end(w, (unsigned)i);
    while ((i = bit_next(w->bits, WORDS, *to)) >= 0 && (unsigned)i < *to + RUN_GAP);
    return true;
}

/* ---- declarations ---- */

/* declare declares bytes `first` to `last` of the page, rounded out to words of an item copy, else
 * to units. */
HOT void declare(struct copy *c, unsigned first, unsigned last)
{
    if (!c->items) {
        first &= ~(UNIT_BYTES - 1u);
        last |= UNIT_BYTES - 1u;
        if (!c->groups)
            memset(c->words, 0, sizeof c->words);
    }
    uint64_t bits = ~0ull << first / 8 % 64;
    unsigned k = first / 8 / 64, end = last / 8 / 64;
    for (; k < end; k++, bits = ~0ull) {
        c->groups |= (uint8_t)(1u << k);
        c->words[k] |= bits;
    }
    c->groups |= (uint8_t)(1u << k);
    c->words[k] |= bits & ~0ull >> (63 - last / 8 % 64);
}

/* declare_far is encode_declare for bytes of several pages. */
static RARE void declare_far(struct view *v, vaddr_t at, uint64_t bytes)
{
    for (vaddr_t end = MIN(at + bytes, v->tables.to); at < end && !thread_this()->killed;) {
        vaddr_t page = page_down(at), stop = MIN(end, page + PAGE_BYTES);
        lock_acquire(&v->lock); /* a sweep takes copies */
        pte_t e = right_at(v, page);
        if (right_state(e) == RIGHT_COPY)
            declare(pte_copy(e), (unsigned)(at - page), (unsigned)(stop - 1 - page));
        if ((at = stop) < end)
            (void)right_next(v, &at, PTE_COPY); /* the range may be as large as the store */
        lock_release(&v->lock);
        if (at < end)
            thread_breathe();
    }
}

void encode_declare(struct view *v, const struct kd_range *some, uint64_t n)
{
    lock_acquire(&v->lock); /* a sweep takes copies */
    for (const struct kd_range *r = some; r < some + n; r++) {
        unsigned first = (unsigned)(r->address % PAGE_BYTES);
        if (unlikely(first + r->bytes > PAGE_BYTES)) {
            lock_release(&v->lock);
            declare_far(v, r->address, r->bytes);
            lock_acquire(&v->lock);
            continue;
        }
        pte_t e = r->address < v->tables.to ? right_at(v, page_down(r->address)) : 0;
        if (right_state(e) == RIGHT_COPY)
            declare(pte_copy(e), first, first + (unsigned)r->bytes - 1);
    }
    lock_release(&v->lock);
}

static struct words words_declared(const struct copy *c)
{
    struct words w = {{0}};
    if (c->groups)
        memcpy(w.bits, c->words, sizeof w.bits);
    return w;
}

/* words_told are the declared words that differ: no other does, where an heir has declared any of a
 * page (holders.md). */
static struct words words_told(const struct copy *c, const uint64_t *now, const uint64_t *base)
{
    struct words w = words_declared(c);
    for (int i = 0; (i = bit_next(w.bits, WORDS, (unsigned)i)) >= 0; i++)
        w.bits[i / 64] &= ~((uint64_t)(now[i] == base[i]) << i % 64);
    return w;
}

/* undeclared_undo puts those of the words that differ, which are undeclared, back to the base, and
 * takes them out of the set. 0; -ERANGE: a strict transaction had changed one. */
static int undeclared_undo(const struct view *v, struct copy *c, uint64_t *now,
                           const uint64_t *base, struct words *differ)
{
    struct words declared = words_declared(c);
    for (int i = 0; (i = bit_next(differ->bits, WORDS, (unsigned)i)) >= 0; i++) {
        if (declared.bits[i / 64] >> i % 64 & 1)
            continue;
        if (v->txn.strict) {
            printk("container %s: a store to 0x%lx was not declared", c->leaf->object->name,
                   c->at + (unsigned)i / UNIT_WORDS * UNIT_BYTES);
            return -ERANGE;
        }
        now[i] = base[i];
        differ->bits[i / 64] &= ~(1ull << i % 64);
    }
    return 0;
}

/* ---- one page ---- */

struct diff_out { vaddr_t at, end; };

/* items_out writes words of an item copy, a piece at a time: the leaf is locked meanwhile. What is
 * told of a word is the same at each moment (IT6). 0 or -EFAULT. */
static RARE int items_out(const struct copy *c, vaddr_t to, unsigned from, unsigned n)
{
    enum { PIECE = 32 };
    uint64_t piece[PIECE];
    for (unsigned end = from + n; from < end; from += n, to += n * 8) {
        n = MIN(end - from, PIECE);
        struct item_before before;
        lock_acquire(&c->leaf->lock);
        item_before(&views[c->view], c, &before);
        item_words(c, &before, from, n, piece);
        lock_release(&c->leaf->lock);
        if (copy_to_user(to, piece, n * 8))
            return -EFAULT;
        thread_breathe(); /* all views may have rights to the page */
    }
    return 0;
}

static int run_out(struct diff_out *o, const struct kd_run *r, const struct copy *c)
{
    uint64_t body = (r->bytes + 7u) & ~7u;
    vaddr_t to = o->at + sizeof *r;
    if (copy_to_user(o->at, r, sizeof *r) ||
        (c->items ? items_out(c, to, r->offset / 8u, (unsigned)body / 8)
                  : copy_to_user(to, (char *)frame_memory(c->frame) + r->offset, body)))
        return -EFAULT;
    o->at = to + body;
    return 0;
}

/* PAGE_DIFF_MAX: a page's runs never take more, as runs merge when the gap is smaller than a
 * header. */
enum { PAGE_DIFF_MAX = PAGE_BYTES + 2 * sizeof(struct kd_run) };
/* ADAPTIVE_COMMITS: commits that tell a page whole, without a look, after one that changed
 * ADAPTIVE_BYTES of it. */
enum { ADAPTIVE_BYTES = PAGE_BYTES * 15 / 16, ADAPTIVE_COMMITS = 2 };

static int whole_out(struct diff_out *o, struct kd_run *r, struct copy *c)
{
    r->offset = 0;
    r->bytes = PAGE_BYTES;
    r->flags = KD_RUN_FULL | KD_RUN_LAST;
    if (!c->items)
        codeword_tell(c, REGIONS_ALL);
    return run_out(o, r, c);
}

/* regions_of tells in which regions these words are. */
static unsigned regions_of(const struct words *w)
{
    unsigned regions = 0;
    for (unsigned r = 0; r < KD_REGIONS; r++)
        regions |= (unsigned)(w->bits[r] != 0) << r;
    return regions;
}

/* runs_out writes the page's runs, from the first one, [from, to), on. 0 or -EFAULT. */
HOT int runs_out(struct diff_out *o, struct kd_run *r, const struct copy *c,
                 const struct words *w, unsigned from, unsigned to)
{
    for (bool more = true; more;) {
        unsigned next = to, next_to = 0;
        more = next_run(w, &next, &next_to);
        r->offset = (uint16_t)(from * 8);
        r->bytes = (uint16_t)((to - from) * 8);
        r->flags = more ? 0 : KD_RUN_LAST;
        int e = run_out(o, r, c);
        if (e)
            return e;
        from = next;
        to = next_to;
    }
    return 0;
}

static __attribute__((noinline)) int diff_page(const struct view *v, struct copy *c,
                                               struct diff_out *o, uint64_t full_below, bool whole)
{
    struct page *p = &c->leaf->pages[c->slot];
    const struct object *object = c->leaf->object;
    uint64_t *now = frame_memory(c->frame);
    const uint64_t *base = page_resident(p) ? frame_memory(p->frame) : NULL;
    struct kd_run r = {object->cookie, c->leaf->first + c->slot, p->csn, 0, 0, 0};
    unsigned encoder = object->encoder, from = 0, to = 0;
    bool ranges = encoder == KD_ENCODER_RANGES;
    vaddr_t start = o->at;
    if (whole || !base) { /* evicted while the copy was spilled */
        c->changed |= !whole;
        return whole_out(o, &r, c);
    }
    bool full = p->csn < full_below || encoder == KD_ENCODER_FULL;
    struct words w;
    int e = 0;
    if (ranges) {
        w = words_that_differ(now, base);
        if ((e = undeclared_undo(v, c, now, base, &w)))
            return e;
    }
    if (full && !ranges) {
        c->changed = memcmp(now, base, PAGE_BYTES) != 0; /* which words differ is of no use */
    } else {
        w = ranges                     ? words_declared(c)
            : heir_is(v) && c->groups ? words_told(c, now, base)
                                      : words_that_differ(now, base);
        c->changed = next_run(&w, &from, &to);
    }
    if (!c->changed)
        return 0;
    bool again = !full && encoder == KD_ENCODER_ADAPTIVE && p->whole;
    p->whole -= again;
    if (full || again)
        return whole_out(o, &r, c);
    codeword_tell(c, regions_of(&w));
    e = runs_out(o, &r, c, &w, from, to);
    if (!e && encoder == KD_ENCODER_ADAPTIVE && o->at - start >= ADAPTIVE_BYTES)
        p->whole = ADAPTIVE_COMMITS;
    return e;
}

enum { FEW = 32, FEW_RUNS = FEW * (RUN_HEAD + 1) }; /* words; each has a run, or fills RUN_GAP */
#define MANY (~0ull)

/* few_runs writes runs of the declared words that an item copy's transaction changed, where those
 * are few, and returns their bytes; MANY: they are not. Words that were declared and not changed
 * are declared no more; no other is looked at (IT5). *sum: their item_sum. Leaf locked. */
HOT uint64_t few_runs(struct copy *c, const uint64_t *base, csn_t base_csn,
                      uint64_t out[FEW_RUNS], uint64_t *sum)
{
    const struct leaf *l = c->leaf;
    const uint64_t *now = frame_memory(c->frame);
    uint64_t *to = out;
    struct kd_run *run = NULL;
    unsigned end = 0;
    for (unsigned groups = c->groups; groups; groups &= groups - 1) {
        unsigned k = (unsigned)__builtin_ctz(groups);
        uint64_t changed = c->words[k];
        for (uint64_t left = changed; left; left &= left - 1) {
            unsigned i = k * 64 + (unsigned)__builtin_ctzll(left);
            if (now[i] == base[i]) {
                changed ^= left & -left;
                continue;
            }
            if (to > out + FEW_RUNS - (RUN_HEAD + 1))
                return MANY;
            *sum += item_weight(now[i], base[i], i);
            if (!run || i >= end + RUN_GAP) {
                run = (struct kd_run *)to;
                *run = (struct kd_run){l->object->cookie, l->first + c->slot, base_csn,
                                       (uint16_t)(i * 8), 0, 0};
                to += RUN_HEAD;
                end = i;
            }
            while (end < i)
                *to++ = base[end++]; /* not declared, or not changed */
            *to++ = now[end++];
            run->bytes = (uint16_t)(end * 8 - run->offset);
        }
        c->words[k] = changed;
        c->groups ^= (uint8_t)(!changed << k);
    }
    if (run)
        run->flags = KD_RUN_LAST;
    c->rough = true;
    return (uint64_t)(to - out) * 8;
}
_Static_assert(_Alignof(struct kd_run) <= 8, "runs lie in words");

/* few_behind makes the words of these runs what the log is to have behind others' (IT6). Leaf
 * locked. */
static RARE void few_behind(const struct copy *c, const struct item_before *before, uint64_t *runs,
                            uint64_t bytes)
{
    for (uint64_t *end = runs + bytes / 8; runs < end;) {
        const struct kd_run *run = (const struct kd_run *)runs;
        item_behind(c, before, run->offset / 8u, run->bytes / 8u, runs + RUN_HEAD);
        runs += RUN_HEAD + run->bytes / 8u;
    }
}

/* few_diff is item_diff where few declared words differ, and the page is not due as a whole: one
 * look at it, and one copy to the manager. 0; -EFAULT; -EAGAIN: it is not so. */
static int few_diff(struct view *v, struct copy *c, struct diff_out *o, uint64_t full_below)
{
    struct leaf *l = c->leaf;
    const struct page *p = &l->pages[c->slot];
    __asm__("" : "+r"(p)); /* or it is computed anew at each use */
    struct item_before before;
    uint64_t runs[FEW_RUNS], bytes = MANY, sum = 0;
    lock_acquire(&l->lock);
    before.count = 0;
    before.changed = p->copies > 1 && item_before(v, c, &before) && before.changed;
    csn_t base = before.changed ? KD_CSN_ANY : p->csn;
    if (base >= full_below)
        bytes = few_runs(c, frame_memory(p->frame), base, runs, &sum);
    if (bytes != MANY) {
        c->changed = bytes;
        item_told(v, c, sum);
        if (unlikely(before.count))
            few_behind(c, &before, runs, bytes);
    }
    lock_release(&l->lock);
    if (bytes == MANY || copy_to_user(o->at, runs, bytes))
        return bytes == MANY ? -EAGAIN : -EFAULT;
    o->at += bytes;
    return 0;
}

/* item_diff_any is item_diff for any number of declared words, with a look at all of the page. */
static RARE int item_diff_any(struct view *v, struct copy *c, struct diff_out *o,
                              uint64_t full_below, bool *whole)
{
    struct leaf *l = c->leaf;
    struct page *p = &l->pages[c->slot];
    struct kd_run r = {l->object->cookie, l->first + c->slot, 0, 0, 0, 0};
    struct item_before before;
    bool alone = l->object->container_lock.exclusive == v->id;
    unsigned from = 0, to = 0;
    lock_acquire(&l->lock);
    uint64_t *now = frame_memory(c->frame);
    const uint64_t *base = frame_memory(p->frame);
    struct words w = words_that_differ(now, base);
    int e = alone ? 0 : undeclared_undo(v, c, now, base, &w); /* IT5 */
    c->changed = next_run(&w, &from, &to);
    c->rough = false;
    memcpy(c->words, w.bits, sizeof c->words);
    c->groups = (uint8_t)regions_of(&w);
    item_told(v, c, item_sum(c, false));
    item_before(v, c, &before);
    r.base_csn = before.changed ? KD_CSN_ANY : p->csn;
    lock_release(&l->lock);
    *whole = r.base_csn < full_below;
    if (e || !c->changed)
        return e;
    return *whole ? whole_out(o, &r, c) : runs_out(o, &r, c, &w, from, to);
}

/* item_diff is diff_page for an item copy. Where the log has the page of others, it has it since
 * the last checkpoint, so it is not told whole. */
static int item_diff(struct view *v, struct copy *c, struct diff_out *o, uint64_t full_below)
{
    struct leaf *l = c->leaf;
    bool any = v->txn.strict || l->object->container_lock.exclusive == v->id, whole = false;
    int e = any ? -EAGAIN : few_diff(v, c, o, full_below);
    if (e == -EAGAIN)
        e = item_diff_any(v, c, o, full_below, &whole);
    if (e || !c->changed)
        return e;
    return !l->codewords || item_tells_right(v, c, whole) ? 0 : -EIO;
}

enum { OTHERS_AT_ONCE = 1024 };

/* encode_copies fills the buffer from d->cursor on, with pages of objects that commit to the port;
 * the view is claimed. 0, -EINVAL, -EFAULT, -ERANGE. */
static int encode_copies(struct view *v, const struct port *port, struct kd_diff *d)
{
    /* The view is claimed: no sweep takes a copy meanwhile (QU3). */
    struct diff_out out = {(vaddr_t)d->buffer, (vaddr_t)d->buffer + d->buffer_bytes};
    bool whole = d->flags & KD_DIFF_SPILL;
    uint64_t told = whole ? v->copies.told : d->cursor;
    if (!whole && told != v->copies.diff_cursor && told)
        return -EINVAL;
    struct list *l = told ? v->copies.diff_next : v->copies.resident.next;
    unsigned others = 0, done = 0;
    if (!told && v->items.count)
        item_take_back(v);
    v->commit.chained |= whole;
    d->pages = 0;
    for (; l != &v->copies.resident && out.end - out.at >= PAGE_DIFF_MAX; l = l->next, told++) {
        struct copy *c = container_of(l, struct copy, link);
        if (c->leaf->object->commit_port != port) { /* another manager's */
            if (++others % OTHERS_AT_ONCE == 0)
                thread_breathe();
            continue;
        }
        int e = c->items ? item_diff(v, c, &out, d->full_below)
                         : diff_page(v, c, &out, d->full_below, whole);
        if (e)
            return e;
        if (!c->items && (whole || c->changed) && !codeword_tells_right(c))
            return -EIO; /* CW2 */
        d->pages += whole || c->changed;
        pages_breathe(item_copies(c->leaf, &c->leaf->pages[c->slot]) > 1, &done);
    }
    if (l != &v->copies.resident && out.at == (vaddr_t)d->buffer && d->pages == 0 &&
        d->buffer_bytes < PAGE_DIFF_MAX)
        return -EINVAL;
    v->copies.diff_next = l; /* a sweep may take copies before the next call (copy_take) */
    v->copies.diff_cursor = whole ? 0 : told;
    v->copies.told = whole ? told : 0;
    d->cursor = l == &v->copies.resident ? ~0ull : told;
    d->buffer_bytes = out.at - (vaddr_t)d->buffer;
    return d->cursor == ~0ull && v->items.count ? item_tell_end(v) : 0;
}

/* batch_out copies the batch of v's helper h to the base, and says whose it is (SK20). */
static int batch_out(const struct view *v, const struct view *h, struct kd_diff *d)
{
    if (h == v || v->group.asked != h->txn.enlisted->base)
        return -EINVAL;
    if (h->commit.batch.bytes > d->buffer_bytes)
        return -E2BIG;
    d->buffer_bytes = h->commit.batch.bytes;
    d->pages = (uint64_t)h->process->pid;
    return data_out((vaddr_t)d->buffer, &h->commit.batch);
}

long kd_txn_diff(const uint64_t a[6])
{
    struct kd_diff d;
    if (copy_from_user(&d, a[0], sizeof d))
        return -EFAULT;
    int e = vm_own((vaddr_t)d.buffer, d.buffer_bytes); /* the owner cannot go while it is claimed */
    if (e)
        return e;
    struct view *v = group_claim(d.view, d.token), *told = &views[d.view % KD_VIEW_MAX];
    if (!v)
        return -ESRCH;
    e = d.flags & KD_DIFF_BATCH       ? batch_out(v, told, &d)
        : d.flags && (view_stacks(v) || told->items.count) ? -E2BIG
                                    : encode_copies(told, v->group.asked, &d);
    __atomic_fetch_add(&v->process->stats.log_bytes, e ? 0 : d.buffer_bytes, __ATOMIC_RELAXED);
    view_claim_end(v);
    TRACE_RARE(DIFF, d.view, d.pages, d.buffer_bytes);
    return e ? e : copy_to_user(a[0], &d, sizeof d);
}

/* ---- for the transaction itself ---- */

/* changes_at tells of the page at out->address, if a sweep has not taken its copy since the leaf
 * was found: that is there for this look (LF2), and while it is locked the base stands still
 * (IT2). */
static void changes_at(struct view *v, struct leaf *l, struct kd_changes *out)
{
    lock_acquire(&l->lock);
    lock_acquire(&v->lock);
    pte_t e = right_at(v, out->address);
    if (e & PTE_COPY) {
        const struct copy *c = pte_copy(e);
        const struct page *p = &l->pages[c->slot];
        memset(out->words, 0xff, sizeof out->words);
        if (c->frame && page_resident(p)) {
            struct words w = words_that_differ(frame_memory(c->frame), frame_memory(p->frame));
            memcpy(out->words, w.bits, sizeof out->words);
        }
    }
    lock_release(&v->lock);
    lock_release(&l->lock);
}

/* copies_from is an address from `from` on, at or before the view's first copy there, and *exact if
 * it is that. Who has few copies, or none, looks through no tables for them. */
static vaddr_t copies_from(struct view *v, vaddr_t from, bool *exact)
{
    enum { FEW = 8 };
    vaddr_t first = KD_STORE_END;
    lock_acquire(&v->lock); /* a sweep takes copies */
    *exact = !v->copies.spilled_count && v->copies.count <= FEW;
    if (!*exact)
        first = from;
    else
        list_for(l, &v->copies.resident) {
            vaddr_t at = container_of(l, struct copy, link)->at;
            first = at >= from ? MIN(first, at) : first;
        }
    lock_release(&v->lock);
    return first;
}

/* changes_next tells the view's first copy from an address on, or with CHANGES_READ also what it
 * has read, and unless CHANGES_WHERE what it changed; false: there is none. By the owner thread. */
enum { CHANGES_READ = 1, CHANGES_WHERE = 2 };
static bool changes_next(struct view *v, vaddr_t from, unsigned how, struct kd_changes *out)
{
    bool read = how & CHANGES_READ, exact = false;
    pte_t e = 0, bits = read ? PTE_COPY | PTE_HELD | PTE_ACCESSED | PTE_USED : PTE_COPY;
    from = page_up(MIN(from, KD_STORE_END));
    from = read ? from : copies_from(v, from, &exact);
    if (exact && how & CHANGES_WHERE) {
        out->address = from;
        return from < v->tables.to;
    }
    while (!e && from < v->tables.to) { /* its own thread alone makes tables */
        lock_acquire(&v->lock);
        e = right_next(v, &from, bits);
        *out = (struct kd_changes){.address = from};
        struct leaf *l = e & PTE_COPY ? pte_copy(e)->leaf : NULL;
        lock_release(&v->lock);
        if (l && !(how & CHANGES_WHERE))
            changes_at(v, l, out);
        thread_breathe();
    }
    return e;
}

TXN_CALL(kd_txn_changes)
{
    struct kd_changes changes;
    if (!changes_next(v, a[0], (unsigned)a[2], &changes))
        return -ENOENT;
    size_t bytes = a[2] & CHANGES_WHERE ? sizeof changes.address : sizeof changes;
    return copy_to_user(a[1], &changes, bytes) ? -EFAULT : 0;
}
