/*
 * take.c - a holder takes pages that nobody keeps from it, without a transaction (holders.md).
 *
 * HO7  What is taken so is free: it is in memory, nobody waits for it, it is not called back, and
 *      no transaction has a right that stands against it. Nobody is waited for, asked or told.
 * HO8  The bytes are of the version that the right is for: its frame is pinned in the section that
 *      gives the right, and what a holder has nobody publishes.
 *
 * Locks: leaf, one view.
 */
#include "store/dying.h"
#include "store/fault.h"
#include "store/grant.h"
#include "store/holder.h"
#include "store/object_private.h"

struct take {
    struct view *holder;
    struct object *object;
    uint32_t generation;                /* of attachments, before the object was found */
    bool write;
};

/* is_free takes idle rights that stand against it. Leaf locked. */
static bool is_free(const struct take *t, struct leaf *l, unsigned slot)
{
    struct page *p = &l->pages[slot];
    struct vmask others = {0};
    struct debt debt = {0};
    bool is = true;
    if (t->write)
        others = p->mask;
    else if (p->writer != WRITER_NONE)
        vmask_set(&others, (unsigned)p->writer);
    vmask_clear(&others, t->holder->id);
    views_each_locked(w, &others)
        is = is && view_yields(w, p, page_address(l, slot), !t->write, &debt);
    right_pay(&debt);
    return is;
}

/* give gives the right to the holder, if it is one still. Leaf locked. */
static bool give(struct take *t, struct leaf *l, unsigned slot)
{
    struct view *h = t->holder;
    struct page *p = &l->pages[slot];
    lock_acquire(&h->lock);
    bool may = view_holds(h) && !h->doom && h->process == process_this() &&
               view_pte_make(h, page_address(l, slot));
    if (may)
        right_keep(h, l, slot);
    if (may && t->write)
        p->writer = (int16_t)h->id;
    lock_release(&h->lock);
    return may;
}

/* take_page takes one page, and returns its frame, pinned; NULL: it is not free. */
static struct frame *take_page(struct take *t, uint64_t index)
{
    struct object *o = t->object;
    struct leaf *l = object_leaf_find(o, index);
    unsigned slot = index % LEAF_PAGES;
    if (!l)
        return NULL;
    struct page *p = &l->pages[slot];
    lock_acquire(&l->lock);
    bool attached = t->generation == __atomic_load_n(&process_this()->attach_generation,
                                                     __ATOMIC_SEQ_CST);
    bool taken = !l->gone && !object_dies(o) && attached && page_resident(p) &&
                 page_open(p, t->write) && !container_shut(t->holder, o) && is_free(t, l, slot) &&
                 give(t, l, slot);
    struct frame *f = taken ? p->frame : NULL;
    if (f)
        frame_pin(f);
    lock_release(&l->lock);
    return f;
}

static bool takes_pages(const struct object *o, uint32_t rights, bool write)
{
    uint32_t how = o->flags & (KD_OBJECT_TRANSACTIONAL | KD_OBJECT_ITEMS | KD_OBJECT_UNLOCKED);
    return how == KD_OBJECT_TRANSACTIONAL && (!write || rights & KD_RIGHT_WRITE);
}

/* take_all takes pages from the first one on, up to one that is not free, and copies them to `to`,
 * if that is not 0. How many; -EFAULT. */
static long take_all(struct take *t, uint64_t page, uint64_t pages, vaddr_t to)
{
    long taken = 0;
    for (struct frame *f; taken < (long)pages && (f = take_page(t, page + (uint64_t)taken));
         taken++) {
        vaddr_t at = to + (vaddr_t)taken * PAGE_BYTES;
        bool fits = !to || copy_to_user(at, frame_memory(f), PAGE_BYTES) == 0;
        frame_unpin(f);
        if (!fits)
            return -EFAULT;
        if (taken % 8 == 7)
            thread_breathe();
    }
    return taken;
}

HANDLE_CALL(kd_txn_take, struct view *h, HANDLE_VIEW, 0, 0)
{
    struct take t = {.holder = h, .write = a[3] & KD_WRITE};
    uint32_t rights;
    t.generation = __atomic_load_n(&process_this()->attach_generation, __ATOMIC_SEQ_CST);
    t.object = object_at(process_this(), a[1], &rights);
    if (!t.object)
        return -ENOENT;
    uint64_t page = (a[1] - t.object->base) >> PAGE_SHIFT;
    long result = -EINVAL;
    bool ok = a[2] <= KD_TAKE_MAX && range_ok(t.object, page, a[2]) && a[1] % PAGE_BYTES == 0 &&
              (a[3] & ~(uint64_t)KD_WRITE) == KD_READ;
    if (ok && takes_pages(t.object, rights, t.write))
        result = take_all(&t, page, a[2], a[4]);
    object_put(t.object);
    return result;
}
