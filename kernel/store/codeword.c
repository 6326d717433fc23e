/*
 * codeword.c - codewords of pages (KD_OBJECT_CODEWORDS): what no transaction did to a committed
 * page, a wild DMA, a bad memory cell or the kernel itself did (codewords.md).
 *
 * Owns      the codewords of a leaf's pages, in a frame beside the leaf; KD_OBJECT_AUDIT, _MEND.
 * Not here  what is told and published (item_page.c, encode.c), page I/O (page.c).
 *
 * CW1  The codeword of a region is the XOR of its words in the current frame as they were supplied
 *      and published. It is made at supply, and follows each exchange by the words that change.
 *      Where a copy becomes the current frame, codewords of regions that it was told to change are
 *      made of these, and others stay. So a word that anybody else changed leaves its region wrong,
 *      whatever is published later.
 * CW2  What is told comes from regions whose codewords hold, and out of copies that are what they
 *      were told to be; a copy that is not any more when it is published makes its page damaged.
 * CW3  A page that is damaged before a home write, or behind it, was not brought home.
 * CW4  Who has a copy of a page that is mended does not commit: the copy may have come from the
 *      damage. No page is mended while one of its copies is told and not published, or while it is
 *      written home: what went out may be damaged, which nobody would see behind it (CW3).
 *
 * Locks: leaf, view, port.
 */
#include "store/codeword.h"
#include "store/item.h"
#include "store/object_private.h"
#include "store/wait.h"

enum { REGION_WORDS = PAGE_BYTES / KD_REGIONS / 8, AT_ONCE = 8, AUDIT_MOST = 256 };
_Static_assert(sizeof *((struct leaf *)0)->codewords * LEAF_PAGES == PAGE_BYTES,
               "they are a frame");

static uint64_t sum(const uint64_t *words)
{
    uint64_t x = 0;
#pragma GCC unroll 64
    for (unsigned i = 0; i < REGION_WORDS; i++)
        x ^= words[i];
    return x;
}

void codeword_make(struct leaf *l, unsigned slot)
{
    const uint64_t *now = frame_memory(l->pages[slot].frame);
    for (unsigned r = 0; l->codewords && r < KD_REGIONS; r++)
        l->codewords[slot][r] = sum(now + r * REGION_WORDS);
}

/* sums_of is one number for some regions of a frame: a word that is hit changes it. */
static uint64_t sums_of(const struct frame *f, unsigned regions)
{
    const uint64_t *words = frame_memory(f);
    uint64_t all = 0;
    for (unsigned r; regions; regions &= regions - 1) {
        r = (unsigned)__builtin_ctz(regions);
        uint64_t x = sum(words + r * REGION_WORDS);
        all ^= x << r | x >> 1 >> (63 - r);
    }
    return all;
}

void codeword_tell(struct copy *c, unsigned regions)
{
    if (!c->leaf->codewords)
        return;
    c->regions = (uint8_t)regions;
    c->told = sums_of(c->frame, regions);
}

void codeword_replace(struct leaf *l, const struct copy *c)
{
    const struct frame *f = l->pages[c->slot].frame;
    if (!l->codewords)
        return;
    uint64_t wrong = c->told == sums_of(f, c->regions) ? 0 : ~0ull;
    for (unsigned r = 0; r < KD_REGIONS; r++)
        if (c->regions >> r & 1)
            l->codewords[c->slot][r] = wrong ^ sum((uint64_t *)frame_memory(f) + r * REGION_WORDS);
}

bool codeword_follow(struct leaf *l, const struct copy *c)
{
    uint64_t *now = frame_memory(l->pages[c->slot].frame), *own = frame_memory(c->frame);
    uint64_t told = c->told, *codeword = l->codewords[c->slot];
    _Static_assert(REGION_WORDS == 64, "a region is an element of the set");
    words_each(i, c) {
        uint64_t was = now[i], is = own[i];
        codeword[i / REGION_WORDS] ^= was ^ is;
        told -= item_weight(is, was, i);
        word_exchange(&now[i], &own[i]);
    }
    return !told;
}

void codeword_spoil(struct leaf *l, unsigned slot)
{
    unsigned right = REGIONS_ALL & ~codeword_wrong(l, slot, REGIONS_ALL);
    for (unsigned r = 0; r < KD_REGIONS; r++)
        if (right >> r & 1)
            l->codewords[slot][r] = ~l->codewords[slot][r];
}

unsigned codeword_wrong(const struct leaf *l, unsigned slot, unsigned regions)
{
    const struct page *p = &l->pages[slot];
    unsigned wrong = 0;
    if (!l->codewords || !page_resident(p))
        return 0;
    const uint64_t *now = frame_memory(p->frame);
    for (; regions; regions &= regions - 1) {
        unsigned r = (unsigned)__builtin_ctz(regions);
        wrong |= (unsigned)(l->codewords[slot][r] != sum(now + r * REGION_WORDS)) << r;
    }
    return wrong;
}

bool codeword_tells_right(struct copy *c)
{
    struct leaf *l = c->leaf;
    if (!l->codewords)
        return true;
    lock_acquire(&l->lock);
    bool right = !c->spoilt && c->told == sums_of(c->frame, c->regions) &&
                 !codeword_wrong(l, c->slot, c->regions);
    c->regions = right ? c->regions : 0; /* it is not told */
    lock_release(&l->lock);
    return right;
}

struct look { vaddr_t at, end; bool wrong; };

/* look_at looks at those bytes that lie in one page. */
static unsigned look_at(struct leaf *l, unsigned slot, unsigned end, void *arg)
{
    enum { BYTES = PAGE_BYTES / KD_REGIONS };
    struct look *k = arg;
    vaddr_t page = page_address(l, slot);
    unsigned from = (unsigned)(MAX(k->at, page) - page) / BYTES;
    unsigned to = (unsigned)(MIN(k->end - page, PAGE_BYTES) - 1) / BYTES;
    if (k->wrong || thread_this()->killed)
        return end;
    lock_acquire(&l->lock); /* it is there for this look (LF2) */
    k->wrong = codeword_wrong(l, slot, (2u << to) - (1u << from));
    lock_release(&l->lock);
    return slot + 1;
}

int codeword_at(struct object *o, vaddr_t at, uint64_t bytes)
{
    struct look k = {at, at + bytes, false};
    if (bytes > object_end(o) - at)
        return -EINVAL;
    at -= o->base;
    leaves_in(o, at >> PAGE_SHIFT, page_up(at + bytes) >> PAGE_SHIFT, look_at, &k);
    return k.wrong ? -EIO : 0;
}

/* ---- the audit ---- */

static unsigned audit(struct leaf *l, unsigned slot, unsigned end, void *arg)
{
    struct kd_damage *d = arg;
    unsigned stop = MIN(end, slot + AT_ONCE);
    if (d->regions || d->looked >= AUDIT_MOST)
        return end;
    lock_acquire(&l->lock);
    for (; slot < stop && !d->regions; slot++) {
        d->looked += page_resident(&l->pages[slot]);
        d->regions = codeword_wrong(l, slot, REGIONS_ALL);
        d->page = l->first + slot + !d->regions;
    }
    lock_release(&l->lock);
    return d->regions ? end : slot;
}

OBJECT_CALL(kd_object_audit, 0)
{
    struct kd_damage d = {0};
    if (!range_ok(o, a[1], a[2]) || !(o->flags & KD_OBJECT_CODEWORDS))
        return -EINVAL;
    leaves_in(o, a[1], a[1] + a[2], audit, &d);
    if (!d.regions && d.looked < AUDIT_MOST)
        d.page = a[1] + a[2];
    return copy_to_user(a[3], &d, sizeof d) ? -EFAULT : d.regions ? -EUCLEAN : 0;
}

/* ---- a page is mended ---- */

/* is_told tells whether v's copy may be in the log, and waits for its publication. */
static bool is_told(const struct view *v, const struct copy *c)
{
    return c->items ? v->items.order != 0 : c->regions && v->state == VIEW_COMMITTING;
}

/* copies_spoil sees to it that no copy of the page commits (CW4). False: one is told. Leaf
 * locked. */
static bool copies_spoil(struct leaf *l, const struct page *p, vaddr_t at)
{
    bool told = false;
    views_each_locked(v, &p->mask)
        told |= right_at(v, at) & PTE_COPY && is_told(v, pte_copy(right_at(v, at)));
    views_each_locked(v, &p->mask) {
        pte_t e = right_at(v, at);
        if (told || !(e & PTE_COPY))
            continue;
        pte_copy(e)->spoilt = true;
        if (v->state == VIEW_ACTIVE)
            view_doom_locked(v, EIO);
    }
    struct port *port = l->object->commit_port;
    lock_acquire(&port->lock);
    port->items_order++; /* who is being told is told anew, and refused (IT6) */
    lock_release(&port->lock);
    return !told;
}

/* page_mend puts the page's right words back, also into old versions that took wrong ones along; if
 * that were too many, old versions are to go, and it returns true. Leaf locked. */
static bool page_mend(struct leaf *l, unsigned slot, const uint64_t *right)
{
    enum { WORDS = PAGE_BYTES / 8, STEPS_MAX = 4096 };
    struct page *p = &l->pages[slot];
    uint64_t *now = frame_memory(p->frame);
    unsigned steps = 0;
    for (unsigned i = 0; i < WORDS; i++) {
        for (struct copy *c = p->versions; now[i] != right[i] && c && steps < STEPS_MAX;
             c = c->next, steps++) {
            uint64_t *word = (uint64_t *)frame_memory(c->frame) + i;
            *word = *word == now[i] ? right[i] : *word;
        }
        __atomic_store_n(&now[i], right[i], __ATOMIC_RELAXED);
    }
    page_changed(l);
    codeword_make(l, slot);
    return steps == STEPS_MAX;
}

OBJECT_CALL(kd_object_mend, 0)
{
    unsigned slot = a[1] % LEAF_PAGES;
    bool forget = false;
    if (!range_ok(o, a[1], 1) || !(o->flags & KD_OBJECT_CODEWORDS))
        return -EINVAL;
    struct frame *f = frame_alloc_raw(FRAME_PAGE);
    long e = !f ? -ENOMEM : copy_from_user(frame_memory(f), a[2], PAGE_BYTES);
    struct leaf *l = e ? NULL : object_leaf_find(o, a[1]);
    if (l) {
        lock_acquire(&l->lock); /* it is there for this look (LF2) */
        struct page *p = &l->pages[slot];
        e = !page_resident(p) ? -ENOENT
            : p->csn != a[3] && a[3] != KD_CSN_ANY ? -ESTALE
            : p->flags & PAGE_CLEANING || !copies_spoil(l, p, page_address(l, slot)) ? -EBUSY : 0;
        forget = !e && page_mend(l, slot, frame_memory(f));
        lock_release(&l->lock);
    } else if (!e) {
        e = -ENOENT;
    }
    if (f)
        frame_free(f);
    if (forget)
        leaves_in(o, a[1], a[1] + 1, version_forget, NULL);
    return e;
}
