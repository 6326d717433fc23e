/*
 * heap.c - the written pages of containers as libpstore fills them, and the objects in them.
 *
 * Written from libpstore/slot.h, of which the structures are used and no function: objects lie in
 * slotted pages, which begin with a seal made of their own address; a large object goes on in pages
 * without one, and the page that it begins in says in how many. Programs write all of that, so a
 * container may hold anything.
 */
#include "libpstore/slot.h"
#include "view.h"

#include <stdlib.h>
#include <string.h>

#define OBJECT_BYTES_MAX (1ull << 30)           /* of one that ps_alloc makes */

static int key_order(const void *a, const void *b, void *model)
{
    const struct kleaf *x = kmodel_leaf_at(model, *(const uint32_t *)a);
    const struct kleaf *y = kmodel_leaf_at(model, *(const uint32_t *)b);
    if (x->object != y->object)
        return x->object < y->object ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static void page_decode(struct kheap_page *page)
{
    const uint8_t *bytes = page->bytes;
    uint32_t own = le32_get(*(const le32 *)bytes) ^ (uint32_t)(page->address / SLOT_PAGE_BYTES);
    page->marked = own == SLOT_SEAL_MARKED;
    page->sealed = page->marked || own == SLOT_SEAL;
    page->tail = page->sealed ? le32_get(*(const le32 *)(bytes + 4)) : 0;
    page->arena = page->marked ? le64_get(*(const le64 *)(bytes + 16)) : 0;
    page->next = page->marked ? le64_get(*(const le64 *)(bytes + 24)) : 0;
}

/* *covered: the number of the page behind the large object that was met last. */
static int leaf_visit(struct kview *view, const struct kleaf *leaf, struct kheap_page *page,
                      uint64_t *covered, kheap_page_fn *visit, void *context)
{
    int error = 0;
    for (uint32_t p = 0; p < view->super.extent_pages && !error; p++) {
        uint64_t number = leaf->index * view->super.extent_pages + p;
        if (!(leaf->mask >> p & 1) || number < *covered ||
            kview_page(view, &view->model, leaf, p, page->bytes) != 0)
            continue;
        page->address = kview_address(view, page->container, number);
        page_decode(page);
        if (page->sealed)
            *covered = number + 1 + page->tail;
        error = visit(context, page);
    }
    return error;
}

int kheap_pages(struct kview *view, kheap_page_fn *visit, void *context)
{
    struct kmodel *model = &view->model;
    uint32_t *order = malloc(((size_t)model->leaf_count + 1) * sizeof *order), count = 0;
    struct kheap_page page = { 0 };
    uint64_t covered = 0;
    int error = order ? 0 : -ENOMEM;
    for (uint32_t i = 0; !error && i < model->leaf_count; i++)
        if (kmodel_leaf_at(model, i))
            order[count++] = i;
    if (!error)
        qsort_r(order, count, sizeof *order, key_order, model);
    for (uint32_t i = 0; i < count && !error; i++) {
        const struct kleaf *leaf = kmodel_leaf_at(model, order[i]);
        kview_progress(view, "objects", i, count);
        if (!page.container || page.container->object != leaf->object) {
            page.container = kmodel_container(model, leaf->object);
            covered = 0;
        }
        if (page.container)
            error = leaf_visit(view, leaf, &page, &covered, visit, context);
    }
    free(order);
    return error;
}

/* ---- the objects of one page */

struct slots {
    const struct kheap_page *page;
    unsigned count, unused, stack, free, size, area;    /* size of a slot; area: its units */
};

static const uint8_t *slot_bytes(const struct slots *s, unsigned i)
{
    size_t header = s->page->marked ? sizeof(struct slot_page_marked) : sizeof(struct slot_page);
    return s->page->bytes + header + (size_t)i * s->size;
}

static bool slots_read(const struct kheap_page *page, struct slots *s)
{
    size_t header = page->marked ? sizeof(struct slot_page_marked) : sizeof(struct slot_page);
    *s = (struct slots){ page, page->bytes[8], page->bytes[9], page->bytes[10], page->bytes[11],
                         page->marked ? sizeof(struct slot_marked) : sizeof(struct slot), 0 };
    s->area = (unsigned)((header + (size_t)s->count * s->size + SLOT_UNIT_BYTES - 1) /
                         SLOT_UNIT_BYTES);
    return s->count <= SLOT_COUNT_MAX && s->unused <= s->count && s->area + s->stack <= SLOT_UNITS;
}

/* The object of slot i; used[]: the units that others have. False: it lies wrong. */
static bool object_read(const struct slots *s, unsigned i, bool used[SLOT_UNITS],
                        struct kobject *object)
{
    const uint8_t *slot = slot_bytes(s, i);
    bool runs = slot[1] == SLOT_RUNS_ON;
    unsigned start = runs && !slot[0] ? SLOT_UNITS : slot[0];
    unsigned end = runs ? SLOT_UNITS : start + slot[1];
    if (start < s->area || end > SLOT_UNITS)
        return false;
    for (unsigned unit = start; unit < end; unit++) {
        if (used[unit])
            return false;
        used[unit] = true;
    }
    object->address = s->page->address + start * SLOT_UNIT_BYTES;
    object->bytes = (end - start) * SLOT_UNIT_BYTES;
    object->bytes += runs ? (uint64_t)s->page->tail * SLOT_PAGE_BYTES : 0;
    object->type = s->page->marked ? le32_get(*(const le32 *)(slot + 2)) : 0;
    return object->bytes && object->bytes <= OBJECT_BYTES_MAX + SLOT_PAGE_BYTES;
}

const char *kheap_objects(const struct kheap_page *page, struct kobject *objects, unsigned *count)
{
    bool used[SLOT_UNITS] = { false };
    unsigned unused = 0, runs = 0, taken = 0, lowest = SLOT_UNITS;
    const char *wrong = NULL;
    struct slots s;
    *count = 0;
    if (!page->sealed || !slots_read(page, &s))
        return "SL2";
    for (unsigned i = 0; i < s.count; i++) {
        const uint8_t *slot = slot_bytes(&s, i);
        unused += !slot[1];
        runs += slot[1] == SLOT_RUNS_ON;
        if (!slot[1])
            wrong = wrong || !slot[0] ? wrong : "SL4";
        else if (object_read(&s, i, used, &objects[*count]))
            ++*count;
        else
            wrong = wrong ? wrong : "SL2";
    }
    for (unsigned unit = 0; unit < SLOT_UNITS; unit++) {
        taken += used[unit];
        if (used[unit] && lowest == SLOT_UNITS)
            lowest = unit;
    }
    if (!wrong && taken + s.area + s.free != SLOT_UNITS)
        wrong = "SL3";
    if (!wrong && (unused != s.unused || SLOT_UNITS - lowest != s.stack))
        wrong = "SL4";
    return wrong ? wrong : runs > 1 || (!runs && page->tail) ? "SL5" : NULL;
}
