/*
 * check.c - the verdict: what opening the image gives, then the invariants that no recovery looks
 * at: the bytes of data pages (ST28, ST30), and whether the older checkpoint leads to the same
 * state (ST19, ST20).
 */
#include "view.h"

#include <stdlib.h>
#include <string.h>

/* ---- data pages */

static void page_lost(struct kview *view, const struct kleaf *leaf, uint32_t p, const char *why)
{
    uint64_t page = leaf->index * view->super.extent_pages + p;
    const struct kcontainer *container = kmodel_container(&view->model, leaf->object);
    view->result.pages_lost++;
    kview_find(view, KCHECK_DAMAGE, "ST28",
               "%.63s (container %llu), page %llu at address %#llx: %s",
               container ? container->disk.name : "?", (unsigned long long)leaf->object,
               (unsigned long long)page,
               (unsigned long long)(container ? kview_address(view, container, page) : 0), why);
}

static void extent_verify(struct kview *view, const struct kleaf *leaf, uint8_t *bytes)
{
    const uint32_t *record = kleaf_record(&view->model, leaf);
    const uint32_t *crc = kleaf_crc(&view->model, leaf);
    uint64_t home = kview_home(view, leaf, 0);
    uint32_t wanted = leaf->mask;
    for (uint32_t p = 0; p < view->super.extent_pages; p++)
        if (wanted >> p & 1 && record[p]) {
            wanted &= ~(1u << p);
            view->result.pages_in_log++;
        }
    if (!wanted || view->options.quick)
        return;
    bool whole = kview_read(view, home, bytes, view->super.extent_bytes) == 0;
    for (uint32_t p = 0; p < view->super.extent_pages; p++) {
        uint8_t *page = bytes + (size_t)p * BLOCK_BYTES;
        if (!(wanted >> p & 1))
            continue;
        if (!whole && kview_read(view, home + (uint64_t)p * BLOCK_BYTES, page, BLOCK_BYTES))
            page_lost(view, leaf, p, "it cannot be read");
        else if (kcheck_crc(0, page, BLOCK_BYTES) != crc[p])
            page_lost(view, leaf, p, "its bytes do not match their CRC");
        else
            view->result.pages_verified++;
    }
}

static void lsns_verify(struct kview *view, const struct kleaf *leaf)
{
    for (uint32_t p = 0; p < view->super.extent_pages; p++)
        if (leaf->mask >> p & 1 && !view->result.damage_lsn &&
            kleaf_lsn(leaf)[p] >= view->result.end_lsn)
            page_lost(view, leaf, p, "its version is newer than the log");
}

static int physical_order(const void *a, const void *b, void *model)
{
    const struct kleaf *x = kmodel_leaf_at(model, *(const uint32_t *)a);
    const struct kleaf *y = kmodel_leaf_at(model, *(const uint32_t *)b);
    return x->physical < y->physical ? -1 : x->physical > y->physical;
}

static int pages_verify(struct kview *view)
{
    struct kmodel *model = &view->model;
    uint32_t count = 0, *order = malloc((model->live_leaves + 1) * sizeof *order);
    uint8_t *bytes = malloc(view->super.extent_bytes);
    int error = order && bytes ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < model->leaf_count && !error; i++)
        if (kmodel_leaf_at(model, i))
            order[count++] = i;
    if (!error)
        qsort_r(order, count, sizeof *order, physical_order, model);
    for (uint32_t i = 0; i < count && !error; i++) {
        const struct kleaf *leaf = kmodel_leaf_at(model, order[i]);
        if (i % 64 == 0)
            kview_progress(view, "pages", i, count);
        lsns_verify(view, leaf);
        extent_verify(view, leaf, bytes);
    }
    free(order);
    free(bytes);
    return error;
}

/* ---- the older checkpoint */

static const char *directories_differ(struct kmodel *older, struct kmodel *newer)
{
    if (older->container_count != newer->container_count ||
        older->name_count != newer->name_count || older->next_object != newer->next_object ||
        older->doubt_count != newer->doubt_count)
        return "counts of containers, names, ids or transactions in doubt";
    for (uint32_t i = 0; i < older->container_count; i++) {
        const struct kcontainer *a = &older->containers[i];
        const struct kcontainer *b = kmodel_container(newer, a->object);
        if (!b || memcmp(&a->disk, &b->disk, sizeof a->disk) ||
            a->pages_present != b->pages_present)
            return "a container";
    }
    for (uint32_t i = 0; i < older->name_count; i++) {
        const struct kname *a = &older->names[i];
        const struct kname *b = kmodel_name(newer, a->object, a->value.name);
        if (!b || memcmp(&a->value, &b->value, sizeof a->value))
            return "a named object";
    }
    return NULL;
}

/* A page that the log from the older checkpoint builds, and whose home the newer one trusts, must
 * have the bytes that the newer one's CRC is of. */
static bool page_differs(struct kview *view, struct kmodel *older, const struct kleaf *a,
                         const struct kleaf *b, uint32_t p)
{
    uint8_t bytes[BLOCK_BYTES];
    if (kleaf_lsn(a)[p] != kleaf_lsn(b)[p])
        return true;
    if (kleaf_record(&view->model, b)[p])
        return false;
    if (!kleaf_record(older, a)[p])
        return kleaf_crc(older, a)[p] != kleaf_crc(&view->model, b)[p];
    return !view->options.quick && kview_page(view, older, a, p, bytes) == 0 &&
           kcheck_crc(0, bytes, sizeof bytes) != kleaf_crc(&view->model, b)[p];
}

static const char *leaves_differ(struct kview *view, struct kmodel *older, uint64_t *object,
                                 uint64_t *page)
{
    struct kmodel *newer = &view->model;
    *object = *page = 0;
    if (older->live_leaves != newer->live_leaves)
        return "the number of extents in use";
    for (uint32_t i = 0; i < older->leaf_count; i++) {
        const struct kleaf *a = kmodel_leaf_at(older, i);
        if (!a)
            continue;
        const struct kleaf *b = kmodel_leaf(newer, a->object, a->index);
        *object = a->object;
        *page = a->index * view->super.extent_pages;
        if (!b || a->physical != b->physical || a->mask != b->mask ||
            a->claimed != b->claimed || a->born != b->born)
            return "a leaf";
        for (uint32_t p = 0; p < view->super.extent_pages; p++)
            if (a->mask >> p & 1 && page_differs(view, older, a, b, p)) {
                *page += p;
                return "a page";
            }
    }
    return NULL;
}

/* Replays the log from the older checkpoint. 0: same end, -ESTALE: the log that it needs is not
 * there, also if what it has in doubt, or a chain, began in groups that are lost. */
static int older_replay(struct kview *view, struct kmodel *older)
{
    struct kcheck_result kept = view->result;
    struct kgroup group;
    const struct kcheckpoint *from = &view->super.checkpoints[!view->base];
    int error = klog_follow(view, !view->base);
    uint64_t end = view->result.end_lsn;
    view->result = kept;
    if (error)
        return error;
    if (end != kept.end_lsn)
        return -ESTALE;
    kunlogged_forget(older, false);
    for (uint32_t i = 0; i < view->group_count && !error; i++) {
        int found = klog_group(view, view->groups[i].lsn, &group);
        error = found == 1 ? kreplay_group(view, older, &group, from) : -EIO;
    }
    kunlogged_lose(older, false);
    if (!error)
        error = kdoubts_count(view, older);
    view->result = kept;
    return error == -EUCLEAN && view->log_hole ? -ESTALE : error;
}

static int older_compare(struct kview *view, struct kmodel *older)
{
    uint64_t object, page;
    int error = older_replay(view, older);
    view->quiet = false;
    if (error == -ESTALE)
        kview_find(view, KCHECK_WARNING, "ST20",
                   "the log that the older checkpoint needs is not whole: should the newest "
                   "checkpoint be damaged as well, there is no way back");
    else if (error == -EUCLEAN)
        kview_find(view, KCHECK_DAMAGE, "ST19", "the log does not fit the older checkpoint");
    if (error)
        return error == -ENOMEM ? error : 0;
    const char *what = directories_differ(older, &view->model);
    if (what)
        kview_find(view, KCHECK_DAMAGE, "ST19", "the two checkpoints recover to different states: "
                   "%s", what);
    what = leaves_differ(view, older, &object, &page);
    if (what)
        kview_find(view, KCHECK_DAMAGE, "ST19", "the two checkpoints recover to different states: "
                   "%s (container %llu, page %llu)", what, (unsigned long long)object,
                   (unsigned long long)page);
    return 0;
}

static int older_check(struct kview *view)
{
    struct kmodel older;
    uint32_t number = !view->base;
    if (view->result.older_checkpoint || view->result.damage_lsn ||
        !view->super.checkpoints[number].redo_lsn)
        return 0;
    view->quiet = true;
    kunlogged_forget(&view->model, false);  /* the older one knows nothing of them */
    kunlogged_lose(&view->model, false);
    int error = karea_load(view, number, &older);
    view->quiet = false;
    if (error == -EUCLEAN) {
        kview_find(view, KCHECK_NOTE, "ST19", "the older checkpoint does not verify, as when the "
                   "power was cut while a new one was written over it");
        error = 0;
    } else if (!error) {
        view->quiet = true;
        error = older_compare(view, &older);
        view->quiet = false;
    }
    kmodel_free(&older);
    return error;
}

/* ---- the whole */

static void result_count(struct kview *view)
{
    struct kcheck_result *r = &view->result;
    const struct kslot *super = &view->super;
    r->containers = view->model.container_count;
    r->names = view->model.name_count;
    r->extents_used = view->model.live_leaves;
    r->pages = view->model.pages_present;
    r->extents_free = super->extents - r->extents_used - kslot_reserved(super);
}

static enum kcheck_verdict verdict_of(const struct kcheck_result *result)
{
    switch (result->error) {
    case -ENODATA:
    case -EMEDIUMTYPE:
    case -EPROTONOSUPPORT:
    case -EOPNOTSUPP:
        return KCHECK_NO_STORE;
    case -EIO:
    case -ENOMEM:
        return KCHECK_CANNOT;
    default:
        return result->error || result->damages ? KCHECK_DAMAGED : KCHECK_SOUND;
    }
}

enum kcheck_verdict kcheck_image(const struct kcheck_io *io, const struct kcheck_options *options,
                                 struct kcheck_result *result)
{
    struct kview view;
    int error = kview_open(&view, io, options, false);
    if (!error) {
        result_count(&view);
        kdoubts_tell(&view);
        error = pages_verify(&view);
        if (!error && !view.options.quick && !view.result.damages)
            error = kstrays_check(&view);
        if (!error)
            error = older_check(&view);
        view.result.error = error;
    }
    *result = view.result;
    result->verdict = verdict_of(result);
    kview_close(&view);
    return result->verdict;
}
