/*
 * check.c - kcheck: walks the kernel's structures and compares them with each other (views.md).
 *
 * Each leaf is looked at under its lock, so the check may run beside everything else; errors are
 * counted, and the first ones told in the log.
 */
#include "store/evict.h"
#include "store/codeword.h"
#include "store/holder.h"
#include "store/item.h"
#include "store/object_private.h"

struct walk {
    struct view *view;
    unsigned errors;
};

/* deny complains where what is denied is so, of an address. */
static void deny(struct walk *w, bool so, const char *what, vaddr_t at)
{
    if (so && w->errors++ < 20)
        printk("kcheck: view %d, 0x%lx: %s", w->view ? w->view->id : -1, at, what);
}

/* check_rights looks at each view's entry for the page. Returns how many are item copies. */
static unsigned check_rights(struct walk *w, struct leaf *l, unsigned slot)
{
    vaddr_t at = page_address(l, slot);
    int owner = container_owner(l->object), writable = -1; /* rights are given with the leaf lock */
    unsigned copies = 0;
    struct vmask rights = {0}, heirs = {0};
    for (int i = 0; i < KD_VIEW_MAX; i++) {
        struct view *v = w->view = &views[i];
        if (v->state == VIEW_FREE ||
            (l->object->overlaps && !vmask_test(&l->pages[slot].mask, (unsigned)i)))
            continue; /* the entry is of another object's page (OV1) */
        lock_acquire(&v->lock);
        pte_t e = right_at(v, at);
        const char *broken = right_check(v, l, slot, e) ?: holder_wrong(v, e);
        deny(w, broken, broken, at);
        if (e && !v->snapshot_rights && v->state != VIEW_PLAIN) {
            vmask_set(&rights, (unsigned)i);
            if (heir_is(v) && v->state != VIEW_IDLE)
                vmask_set(&heirs, (unsigned)i);
            deny(w, owner != WRITER_NONE && owner != i,
                 "a right in a container that another view has locked", at);
            bool item = e & PTE_COPY && !broken && pte_copy(e)->items;
            copies += item;
            if (e & PTE_COPY && !item)
                writable = i;
        }
        lock_release(&v->lock);
    }
    w->view = NULL;
    deny(w, !vmask_empty(&heirs) && heirs_lack(&heirs, &rights, at),
         "a right that its holder has not (HO2)", at);
    if (writable >= 0)
        group_clear(&views[writable], &rights); /* SK6, HO2 */
    deny(w, writable >= 0 && !vmask_empty(&rights) && !(l->object->flags & KD_OBJECT_UNLOCKED),
         "a COPY and a right of another view (PG2)", at);
    return copies;
}

/* check_page looks at one page at a time: it may be in each view, and have many item copies. */
static unsigned check_page(struct leaf *l, unsigned slot, unsigned end, void *walk)
{
    struct walk *w = walk;
    const struct page *p = &l->pages[slot], made = {.sequence = l->floor, .writer = WRITER_NONE};
    vaddr_t at = page_address(l, slot);
    (void)end;
    lock_acquire(&l->lock);
    bool here = page_resident(p);
    const uint64_t *now = here ? frame_memory(p->frame) : NULL;
    const char *wrong = p->versions ? version_check_page(l, p) : NULL;
    deny(w, check_rights(w, l, slot) != item_copies(l, p),
         "item copies and their count differ (IT1)", at);
    deny(w, wrong, wrong, at);
    deny(w, !vmask_within(&p->mask, &l->users), "a mask is not in its leaf's sum", at);
    deny(w, codeword_wrong(l, slot, REGIONS_ALL), "a page and its codewords differ (CW1)", at);
    deny(w, !(l->touched >> slot & 1) && memcmp(p, &made, sizeof made),
         "a page is not as it was made, and not touched", at);
    deny(w, here && p->flags & PAGE_AWAY, "resident and away", at);
    deny(w, here && p->frame->owner != l, "a resident page is in no list of the evictor", at);
    deny(w, here && p->frame->flags & ZEROS && (*now || memcmp(now, now + 1, PAGE_BYTES - 8)),
         "a page is said to hold zeros, and does not (EV11)", at);
    deny(w, !here && p->flags & PAGE_DIRTY, "dirty and not resident (PG4)", at);
    lock_release(&l->lock);
    return slot + 1;
}

int kcheck(void)
{
    struct walk w = {0};
    objects_each(o) {
        deny(&w, object_misplaced(o), "the tree of objects is wrong (OV3, OV4)", o->base);
        deny(&w, recall_wrong(o), "the tree of objects with users is wrong (RE5)", o->base);
        leaves_for(o, check_page, &w);
    }
    const char *wrong = version_check();
    deny(&w, wrong, wrong, 0);
    views_each_locked(v, &views_all) {
        unsigned n = 0, spilled = 0;
        w.view = v;
        list_for(l, &v->copies.resident)
            n++;
        list_for(l, &v->copies.spilled)
            spilled++;
        deny(&w, n != v->copies.count || spilled != v->copies.spilled_count,
             "copies, and their count by which they have credits, differ", 0);
        deny(&w, v->state == VIEW_IDLE && n + spilled, "an idle view has copies", 0);
        bool over = v->state == VIEW_IDLE || v->state == VIEW_FREE;
        deny(&w, over && (v->wait.page || v->wait.object || v->items.queue || v->credits.waiting),
             "a view without a transaction stands in a queue", 0);
        deny(&w, over && (v->reserve.credits || v->reserve.frame || v->reserve.copy),
             "a view without a transaction has something in hand", 0);
        lock_acquire(&graph_lock);
        const struct view *of = v->group.of;
        deny(&w, (over && (of || !vmask_empty(&v->group.helpers))) ||
                     (of && !vmask_test(&of->group.helpers, v->id)),
             "a helper without its transaction (GR1)", 0);
        lock_release(&graph_lock);
    }
    return w.errors ? -EIO : 0;
}
