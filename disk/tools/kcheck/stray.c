/*
 * stray.c - pages that somebody stored to and that hold no object.
 *
 * Containers of libpstore keep objects in slotted pages, which begin with a seal made of their own
 * address (libpstore/slot.h); a large object goes on in pages without one, and the page it begins
 * in says in how many. A page that was written and is neither was hit by a wild store: to what was
 * freed, or was never allocated. Nothing of the store is wrong with it, and nobody will ever give
 * it back.
 */
#include "libpstore/slot.h"
#include "view.h"

#include <stdlib.h>

struct strays { uint64_t sealed, count, first; };

static int key_order(const void *a, const void *b, void *model)
{
    const struct kleaf *x = kmodel_leaf_at(model, *(const uint32_t *)a);
    const struct kleaf *y = kmodel_leaf_at(model, *(const uint32_t *)b);
    if (x->object != y->object)
        return x->object < y->object ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* One written page. *covered: the page behind the large object that was met last. */
static void page_look(struct kview *view, const struct kcontainer *container,
                      const struct kleaf *leaf, uint32_t p, uint64_t *covered,
                      struct strays *found)
{
    uint8_t bytes[BLOCK_BYTES];
    uint64_t page = leaf->index * view->super.extent_pages + p;
    uint64_t address = kview_address(view, container, page);
    if (page < *covered || kview_page(view, &view->model, leaf, p, bytes) != 0)
        return;
    uint32_t seal = le32_get(*(const le32 *)bytes), tail = le32_get(*(const le32 *)(bytes + 4));
    uint32_t own = seal ^ (uint32_t)(address / SLOT_PAGE_BYTES);
    if (own == SLOT_SEAL || own == SLOT_SEAL_MARKED) {
        found->sealed++;
        *covered = page + 1 + tail;
    } else if (!found->count++) {
        found->first = address;
    }
}

/* A container without a seal is another library's, or has a file's bytes (kstore put). */
static void strays_tell(struct kview *view, const struct kcontainer *container,
                        const struct strays *found)
{
    if (!found->sealed || !found->count)
        return;
    kview_find(view, KCHECK_WARNING, "", "container %.63s: %llu written pages are of no object, "
               "the first at %#llx: a program stored to what it had freed, or never allocated",
               container->disk.name, (unsigned long long)found->count,
               (unsigned long long)found->first);
}

int kstrays_check(struct kview *view)
{
    struct kmodel *model = &view->model;
    uint32_t *order = malloc(((size_t)model->leaf_count + 1) * sizeof *order), count = 0;
    if (!order)
        return -ENOMEM;
    for (uint32_t i = 0; i < model->leaf_count; i++)
        if (kmodel_leaf_at(model, i))
            order[count++] = i;
    qsort_r(order, count, sizeof *order, key_order, model);
    const struct kcontainer *container = NULL;
    struct strays found = { 0 };
    uint64_t covered = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct kleaf *leaf = kmodel_leaf_at(model, order[i]);
        if (!container || container->object != leaf->object) {
            if (container)
                strays_tell(view, container, &found);
            container = kmodel_container(model, leaf->object);
            found = (struct strays){ 0 };
            covered = 0;
        }
        for (uint32_t p = 0; container && p < view->super.extent_pages; p++)
            if (leaf->mask >> p & 1)
                page_look(view, container, leaf, p, &covered, &found);
    }
    if (container)
        strays_tell(view, container, &found);
    free(order);
    return 0;
}
