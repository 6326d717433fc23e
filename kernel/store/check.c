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

struct walk {
    struct view *view;
    unsigned errors;
};

static void complain(struct walk *w, const char *what, vaddr_t at)
{
    if (w->errors++ < 20)
        printk("kcheck: view %d, 0x%lx: %s", w->view ? w->view->id : -1, at, what);
}

static unsigned check_leaf(struct leaf *l, unsigned slot, unsigned end, void *walk)
{
    struct walk *w = walk;
    end = slot + 1; /* it may be in each view, and have many item copies */
    lock_acquire(&l->lock);
    int owner = container_owner(l->object); /* rights are given with the leaf locked */
    for (; slot < end; slot++) {
        struct page *p = &l->pages[slot];
        vaddr_t at = page_address(l, slot);
        int writable = -1;
        unsigned copies = 0;
        struct vmask rights = {0}, heirs = {0};
        for (int i = 0; i < KD_VIEW_MAX; i++) {
            struct view *v = w->view = &views[i];
            if (v->state == VIEW_FREE)
                continue;
            lock_acquire(&v->lock);
            pte_t e = right_at(v, at);
            const char *broken = right_check(v, l, slot, e) ?: holder_wrong(v, e);
            if (broken)
                complain(w, broken, at);
            if (e && !v->snapshot_rights && v->state != VIEW_PLAIN) {
                vmask_set(&rights, (unsigned)i);
                if (heir_is(v) && v->state != VIEW_IDLE)
                    vmask_set(&heirs, (unsigned)i);
                if (owner != WRITER_NONE && owner != i)
                    complain(w, "a right in a container that another view has locked", at);
                bool item = e & PTE_COPY && !broken && pte_copy(e)->items;
                copies += item;
                if (e & PTE_COPY && !item)
                    writable = i;
            }
            lock_release(&v->lock);
        }
        w->view = NULL;
        if (!vmask_empty(&heirs) && heirs_lack(&heirs, &rights, at))
            complain(w, "a right that its holder has not (HO2)", at);
        const char *wrong = p->versions ? version_check_page(l, p) : NULL;
        if (wrong)
            complain(w, wrong, at);
        if ((p->mask.word[0] & ~l->users.word[0]) | (p->mask.word[1] & ~l->users.word[1]))
            complain(w, "a mask is not in its leaf's sum", at);
        if (writable >= 0)
            group_clear(&views[writable], &rights); /* SK6, HO2 */
        if (writable >= 0 && !vmask_empty(&rights) && !(l->object->flags & KD_OBJECT_UNLOCKED))
            complain(w, "a COPY and a right of another view (PG2)", at);
        if (copies != item_copies(l, p))
            complain(w, "item copies and their count differ (IT1)", at);
        if (codeword_wrong(l, slot, REGIONS_ALL))
            complain(w, "a page and its codewords differ (CW1)", at);
        struct page made = {.sequence = l->floor, .writer = WRITER_NONE};
        if (!(l->touched >> slot & 1) && memcmp(p, &made, sizeof made))
            complain(w, "a page is not as it was made, and not touched", at);
        if (p->flags & PAGE_AWAY && p->frame && !(p->flags & PAGE_FILLING))
            complain(w, "resident and away", at);
        if (page_resident(p) && p->frame->owner != l)
            complain(w, "a resident page is in no list of the evictor", at);
        const uint64_t *now = page_resident(p) ? frame_memory(p->frame) : NULL;
        if (now && p->frame->flags & ZEROS && (*now || memcmp(now, now + 1, PAGE_BYTES - 8)))
            complain(w, "a page is said to hold zeros, and does not (EV11)", at);
        if (p->flags & PAGE_DIRTY && !page_resident(p))
            complain(w, "dirty and not resident (PG4)", at);
    }
    lock_release(&l->lock);
    return end;
}

static void check_object(struct object *o, void *arg) { leaves_for(o, check_leaf, arg); }

int kcheck(void)
{
    struct walk w = {0};
    object_for_each(check_object, &w);
    const char *wrong = version_check();
    if (wrong)
        complain(&w, wrong, 0);
    views_each_locked(v, &views_all) {
        unsigned n = 0, spilled = 0;
        w.view = v;
        list_for(l, &v->copies.resident)
            n++;
        list_for(l, &v->copies.spilled)
            spilled++;
        if (n != v->copies.count || spilled != v->copies.spilled_count)
            complain(&w, "copies, and their count by which they have credits, differ", 0);
        if (v->state == VIEW_IDLE && n + spilled)
            complain(&w, "an idle view has copies", 0);
        bool over = v->state == VIEW_IDLE || v->state == VIEW_FREE;
        if (over && (v->wait.page || v->wait.object || v->items.queue || v->credits.waiting))
            complain(&w, "a view without a transaction stands in a queue", 0);
        if (over && (v->reserve.credits || v->reserve.frame || v->reserve.copy))
            complain(&w, "a view without a transaction has something in hand", 0);
        lock_acquire(&graph_lock);
        const struct view *of = v->group.of;
        if ((over && (of || !vmask_empty(&v->group.helpers))) ||
            (of && !vmask_test(&of->group.helpers, v->id)))
            complain(&w, "a helper without its transaction (GR1)", 0);
        lock_release(&graph_lock);
    }
    return w.errors ? -EIO : 0;
}
