/*
 * unlogged.c - containers whose pages are in no log: those that are volatile, or rebuilt by their
 * owner after a power cut. A commit says which pages have a new version and where they lie, so a
 * page goes home and comes back as any other; and a start forgets them all.
 *
 * Invariants
 *   UL1  The bytes of pages of a container that is volatile, or to be rebuilt, are in no log. So
 *       recovery passes over all records about them, as it forgets those of its checkpoint: it
 *       has none, and their extents are free, whatever a commit after them used these for.
 *   UL3  Those that are to be rebuilt are kept if nothing follows the newest checkpoint, as after
 *       an orderly end: their pages are home, for they went there before it was sealed.
 *   UL2  A container becomes such a one, or one that logs its pages, only while it has none.
 */
#include "internal.h"

struct record_disk *run_last(const struct store_group *group, enum record_type type,
                             uint64_t object, uint64_t page, uint64_t physical)
{
    struct record_disk *r = record_last(group);
    uint64_t n = group->store->extent_pages, first = r ? le64_get(r->page) : 0;
    bool next = r && le16_get(r->type) == type && le64_get(r->object) == object &&
                first + le64_get(r->base) == page &&
                le64_get(r->physical) + (page / n - first / n) == physical;
    return next ? r : NULL;
}

int store_txn_written(struct store_group *group, uint64_t object, uint64_t page)
{
    uint64_t physical;
    int error = txn_state(group) ?:
                txn_room(group, record_room(0)) ?:
                !plan_unlogged(group, object) ? -EINVAL :                       /* UL1 */
                plan_page_write(group, object, page, NULL, &physical);
    if (error)
        return txn_fail(group, error);
    struct record_disk *record = run_last(group, RECORD_PAGE_CLAIM, object, page, physical);
    if (!record || !(le16_get(record->flags) & RECORD_WRITTEN)) {
        record = record_add(group, RECORD_PAGE_CLAIM, object, page, 0);
        record->flags = le16_of(RECORD_WRITTEN);
        record->physical = le64_of(physical);
    }
    record->base = le64_of(le64_get(record->base) + 1);
    return 0;
}

/* ---- recovery */

bool record_passed(const struct store *store, uint32_t type, uint32_t slot)
{
    bool pages = record_writes(type) || type == RECORD_PAGE_FREE || type == RECORD_PAGE_CLAIM ||
                 type == RECORD_MOVE || type == RECORD_PAGE_HOME;
    return pages && store->replay.on && container_unlogged(directory_slot(store, slot)); /* UL1 */
}

int durability_apply(struct store *store, const struct record_disk *record, uint32_t slot)
{
    uint64_t value = le64_get(record->page);
    bool unlogged = container_unlogged(directory_slot(store, slot));
    if ((value >= STORE_DURABILITY_VOLATILE) != unlogged && store->use[slot].leaves)    /* UL2 */
        return -EUCLEAN;
    return directory_choice(store, slot, RECORD_DURABILITY, value);
}

/* loses tells if a start loses the container's pages; if `same`, only those that are volatile. */
static bool loses(const struct store *store, uint32_t slot, bool same)
{
    const struct container_disk *container = directory_slot(store, slot);
    return le64_get(container->object) && container_unlogged(container) &&
           (!same || le16_get(container->durability) == STORE_DURABILITY_VOLATILE);
}

int unlogged_forget(struct store *store, bool same, uint64_t *lost)
{
    int error = 0;
    for (uint32_t slot = 0; slot < directory_slots(store) && !error; slot++) {
        struct container_disk *container = directory_slot(store, slot);
        if (!loses(store, slot, same) || !store->use[slot].leaves)
            continue;
        store->replay.passed |= !same;  /* the log divides other buckets than it had */
        error = meta_reserve(store, 4);
        if (!error)
            range_free(store, le64_get(container->object), slot, 0, container_pages(container));
        ++*lost;
    }
    return error;
}

void unlogged_lose(struct store *store, bool same, uint64_t *lost)
{
    for (uint32_t slot = 0; slot < directory_slots(store); slot++)
        if (loses(store, slot, same))
            *lost += directory_lose(store, slot);
}

/* ---- a container becomes one, or is one no longer */

/* has_pages tells whether the container has pages, or will when the pending groups are applied. */
static bool has_pages(const struct store *store, uint64_t object)
{
    uint32_t slot;
    bool any = directory_get(store, object, &slot) && store->use[slot].leaves;
    for (int g = 0; g < 2; g++)
        for (uint32_t i = 0; i < store->groups[g].claims.count; i++) {
            const struct entry *claim = &store->groups[g].claims.entries[i];
            any |= claim->object == object && claim->kind == CLAIM_EXTENT;
        }
    return any;
}

/* unlogged_plan plans a durability; a container that begins or ends logging must be empty (UL2). */
int unlogged_plan(struct store_group *group, const struct store_op *op, struct planned_op *out)
{
    bool unlogged = plan_unlogged(group, op->object);
    out->durability = op->durability;
    if (op->durability >= STORE_DURABILITY_LOST)
        return -EINVAL;
    return (op->durability >= STORE_DURABILITY_VOLATILE) != unlogged &&
           (has_pages(group->store, op->object) ||
            doubt_has_range(group, op->object, 0, UINT64_MAX)) ? -ENOTEMPTY : 0;
}
