/*
 * plan.c - what the groups that are not applied yet have laid claim to.
 *
 * Metadata changes only when a group is durable (TR4). Until then a transaction's new extents,
 * pages, containers and addresses are claims: found by the transactions after it, given up when it
 * is refused. Claims are in memory only.
 *
 * Invariants
 *   PL1  A CLAIMED extent belongs to exactly one CLAIM_EXTENT of an unapplied group, or to a chain
 *        (bulk.c), and then to that CLAIM_EXTENT as well while the chain's commit is not applied.
 *   PL2  Claims and planned operations of a group are in the order of its records; undoing a
 *       transaction takes them off the end.
 *   PL3  A plan that was accepted can be applied: space, page numbers and memory are set aside.
 */
#include "internal.h"

#define CLAIMS_KEPT 8192u               /* memory for so many stays with the group */
#define LARGE_GIB   256u

static int claim_add(struct store_group *group, enum claim_kind kind, uint64_t object,
                     uint64_t key, uint64_t value)
{
    return table_add(group->store, &group->claims, object, key, value, kind);
}

static uint64_t name_key(const char *name) /* half of FNV-1a, of a valid name */
{
    uint64_t hash = 0xcbf29ce484222325ull;
    while (*name)
        hash = (hash ^ (uint8_t)*name++) * 0x100000001b3ull;
    return hash >> 32;
}

/* op_add plans an operation, whose record comes next. */
static int op_add(struct store_group *group, const struct planned_op *op)
{
    bool set = op->type == RECORD_NAME_SET;
    if (set || op->type == RECORD_NAME_UNSET) {
        int error = claim_add(group, CLAIM_NAME, op->object, name_key(op->name),
                              2ull * group->used + set);
        group->names_set += set && !error;
        return error;
    }
    int error = array_grow(group->store, &group->ops, group->op_count, &group->op_room,
                           sizeof *group->ops);
    if (!error)
        group->ops[group->op_count++] = *op;
    return error;
}

void plan_rewind(struct store_group *group, uint32_t claims, uint32_t ops)
{
    struct table *table = &group->claims;
    assert(table->count >= claims && group->op_count >= ops);                   /* PL2 */
    while (table->count > claims) {
        const struct entry *claim = &table->entries[--table->count];
        uint32_t *head = &table->entries[claim->at].head;
        assert(*head == table->count + 1);                                      /* PL2 */
        *head = claim->next;
        if (claim->kind == CLAIM_EXTENT)
            extent_unclaim(group->store, claim->value);
        if (claim->kind == CLAIM_NAME)
            group->names_set -= claim->value & 1;
    }
    group->op_count = ops;
}

/* plan_clear forgets what an applied or dropped group claims; extents only claimed become free. */
void plan_clear(struct store_group *group)
{
    plan_rewind(group, 0, 0);
    group->pages_wanted = group->leaves_wanted = 0;
    if (group->claims.room > CLAIMS_KEPT)
        table_free(group->store, &group->claims);
}

void plan_free(struct store_group *group)
{
    table_free(group->store, &group->claims);
    store_release(group->store, group->ops, group->op_room * sizeof *group->ops);
}

/* pending gives the unapplied groups, oldest first: n = 0 or 1. NULL: there is none. */
static const struct store_group *pending(const struct store *store, uint32_t n)
{
    const struct store_group *group = &store->groups[(store->next_apply + n) & 1];
    return group->state == GROUP_IDLE ? NULL : group;
}

/* claim_name is the name that the record of a CLAIM_NAME begins with. */
static const char *claim_name(const struct store_group *group, const struct entry *claim)
{
    return (const char *)group->buffer + claim->value / 2 + sizeof(struct record_disk);
}

/* claim_find finds the newest claim, of CLAIM_NAME on `name`; CLAIM_PAGE also _HOME and _FREED. */
static inline const struct entry *claim_find(const struct store *store, enum claim_kind kind,
                                             uint64_t object, uint64_t key, const char *name)
{
    const struct store_group *group = &store->groups[!store->next_apply];
#pragma GCC unroll 2
    for (int n = 0; n < 2; n++, group = &store->groups[store->next_apply]) {
        if (!group->claims.count)       /* as where the group is idle */
            continue;
        const struct entry *claims = group->claims.entries;
        for (uint32_t i = *table_head(&group->claims, object, key); i; i = claims[i - 1].next) {
            const struct entry *claim = &claims[i - 1];
            bool page = kind == CLAIM_PAGE && claim->kind >= CLAIM_PAGE &&
                        claim->kind <= CLAIM_PAGE_FREED;
            if (claim->key == key && claim->object == object && (claim->kind == kind || page) &&
                (!name || name_equal(claim_name(group, claim), name)))
                return claim;
        }
    }
    return NULL;
}

static const struct store_group *group_of(const struct store *store, const struct entry *claim)
{
    const struct store_group *first = &store->groups[0];
    const struct entry *claims = first->claims.entries;
    return claim >= claims && claim < claims + first->claims.count ? first : first + 1;
}

/* A place among the directory operations of the unapplied groups; it begins as all zero. */
struct op_place {
    uint32_t group, op;
};

/* op_next gives the next planned operation, oldest first, or NULL. */
static const struct planned_op *op_next(const struct store *store, struct op_place *at)
{
    for (; at->group < 2; at->group++, at->op = 0) {
        const struct store_group *group = pending(store, at->group);
        if (group && at->op < group->op_count)
            return &group->ops[at->op++];
    }
    return NULL;
}

#define for_each_op(store, op) for (struct op_place place = {0}; ((op) = op_next(store, &place));)

/* ---- containers as they will be when the pending groups are applied */

struct planned_container { bool exists; uint64_t pages; uint32_t segments, durability; };

static struct planned_container plan_container(const struct store *store, uint64_t object)
{
    const struct container_disk *live = directory_get(store, object, NULL);
    struct planned_container plan = { live != NULL, live ? container_pages(live) : 0,
                                      live ? le32_get(live->segment_count) : 0,
                                      live ? le16_get(live->durability) : 0 };
    const struct planned_op *op;
    for_each_op(store, op) {
        if (op->object != object)
            continue;
        if (op->type == RECORD_DELETE)
            plan.exists = false;
        if (op->type == RECORD_CREATE || op->type == RECORD_DURABILITY)
            plan.durability = op->durability;
        if (op->type == RECORD_CREATE || op->type == RECORD_GROW) {
            plan.exists = true;
            plan.pages += op->gib * (STORE_SEGMENT_UNIT / STORE_PAGE_BYTES);
            plan.segments++;
        }
    }
    return plan;
}

static bool plan_name_taken(const struct store *store, const char *name)
{
    uint32_t slot = index_container(store, name);
    uint64_t owner = slot == NO_SLOT ? 0 : le64_get(directory_slot(store, slot)->object);
    const struct planned_op *op;
    for_each_op(store, op) {
        bool names = op->type == RECORD_CREATE || op->type == RECORD_RENAME;
        if (names && name_equal(op->name, name))
            owner = op->object;
        else if (owner == op->object && (names || op->type == RECORD_DELETE))
            owner = 0;
    }
    return owner != 0;
}

static bool plan_named(const struct store *store, uint64_t object, const char *name)
{
    const struct entry *claim = claim_find(store, CLAIM_NAME, object, name_key(name), name);
    return claim ? claim->value & 1 : index_name(store, object, name) != NO_SLOT;
}

static bool plan_range_used(const struct store *store, uint32_t first, uint32_t gib, uint32_t *next)
{
    if (directory_range_used(store, first, gib, next))
        return true;
    const struct planned_op *op;
    for_each_op(store, op)
        if (op->gib && op->first_gib < first + gib && first < op->first_gib + op->gib) {
            *next = op->first_gib + op->gib;
            return true;
        }
    return false;
}

/* plan_range finds an address range from the cursor on, one lap at most; or takes the one at
 * `wanted`, if not 0, which a restored container had. */
static int plan_range(struct store *store, uint64_t wanted, uint32_t gib, uint32_t *first)
{
    uint64_t offset = wanted - store_zone_base(store->super.zone), last = zone_gib(store) - gib;
    if (wanted && (offset % STORE_SEGMENT_UNIT || offset / STORE_SEGMENT_UNIT > last))
        return -EINVAL;
    uint32_t at = wanted ? (uint32_t)(offset / STORE_SEGMENT_UNIT) : store->plan_cursor_gib, next;
    for (bool wrapped = false; at > last || plan_range_used(store, at, gib, &next); at = next) {
        if (wanted)
            return -EEXIST;
        if (at > last && wrapped)
            return -ENOSPC;
        wrapped |= at > last;
        next = at > last ? 0 : next;
    }
    store->plan_cursor_gib = at + gib;
    *first = at;
    return 0;
}

/* ---- pages */

struct page_state {
    bool     present, bulk;     /* bulk: the next record is a full image (BH4) */
    uint64_t redo, lsn;         /* or BASE_OPEN and its place in the group that is still open */
    const struct entry *claim;
    struct leaf_disk *leaf;     /* its extent's, if that was looked for */
};

static inline __attribute__((always_inline)) struct page_state
plan_page(const struct store *store, uint64_t object, uint64_t page)
{
    struct page_state state = { .redo = store->log.redo };
    uint32_t n = store->extent_pages, at = (uint32_t)(page % n);
    if ((state.claim = claim_find(store, CLAIM_PAGE, object, page, NULL)) != NULL) {
        const struct store_group *group = group_of(store, state.claim);
        state.bulk = state.claim->kind == CLAIM_PAGE_HOME;
        state.present = state.claim->kind != CLAIM_PAGE_FREED;
        if (state.present)
            state.lsn = (group->state == GROUP_OPEN ? BASE_OPEN : group->lsn) + state.claim->value;
        return state;
    }
    struct leaf_disk *leaf = state.leaf = hash_find(store, object, page / n, NULL);
    if (leaf && le32_get(leaf->mask) >> at & 1) {
        state.present = true;
        state.bulk = store->extents[le64_get(leaf->physical)].bulk >> at & 1;
        state.redo = extent_redo(store, &store->extents[le64_get(leaf->physical)]);
        state.lsn = le64_get(leaf_lsn(store, leaf)[at]);
    }
    return state;
}

/* plan_extent_held gives the bits of the pages of an extent that are present or claimed, or will be
 * when the pending groups are applied. (One that a pending group claims and a later one frees
 * counts until that is applied.) */
uint32_t plan_extent_held(const struct store *store, uint64_t object, uint64_t index)
{
    uint32_t n = store->extent_pages;
    const struct leaf_disk *leaf = hash_find(store, object, index, NULL);
    uint32_t held = leaf ? le32_get(leaf->mask) | le16_get(leaf->claimed) : 0;
    if (!store->groups[0].claims.count && !store->groups[1].claims.count)
        return held;
    for (uint32_t p = 0; p < n; p++) {
        const struct entry *claim = claim_find(store, CLAIM_PAGE, object, index * n + p, NULL);
        if (claim)
            held = (held & ~(1u << p)) | (uint32_t)(claim->kind != CLAIM_PAGE_FREED) << p;
    }
    const struct entry *unwritten = claim_find(store, CLAIM_UNWRITTEN, object, index, NULL);
    return unwritten ? held | (uint32_t)unwritten->value : held;
}

/* plan_top is an index of an extent: none of the container at or above it has a leaf, or will have
 * one when the pending groups are applied. The container exists. */
uint64_t plan_top(const struct store *store, uint64_t object)
{
    uint32_t slot;
    directory_get(store, object, &slot);
    uint64_t top = store->use[slot].top;
    for (uint32_t n = 0; n < 2; n++) {
        const struct store_group *group = pending(store, n);
        for (uint32_t i = 0; group && i < group->claims.count; i++) {
            const struct entry *claim = &group->claims.entries[i];
            if (claim->kind == CLAIM_EXTENT && claim->object == object && claim->key >= top)
                top = claim->key + 1;
        }
    }
    return top;
}

static __attribute__((noinline)) int plan_see(struct store_group *group, uint64_t object)
{
    struct planned_container plan = plan_container(group->store, object);
    if (!plan.exists)
        return -ENOENT;
    group->seen.object = object;
    group->seen.pages = plan.pages;
    group->seen.durability = plan.durability;
    return 0;
}

static inline int plan_seen(struct store_group *group, uint64_t object) /* mostly the last one */
{
    return object && group->seen.object == object ? 0 : plan_see(group, object);
}

enum store_durability store_txn_durability(struct store_group *group, uint64_t object)
{
    return plan_seen(group, object) ? STORE_DURABILITY_FULL : group->seen.durability;
}

bool plan_unlogged(struct store_group *group, uint64_t object)
{
    return store_txn_durability(group, object) >= STORE_DURABILITY_VOLATILE;
}

int plan_pages_exist(struct store_group *group, uint64_t object, uint64_t page, uint64_t count)
{
    return plan_seen(group, object) ?:
           page <= group->seen.pages && count <= group->seen.pages - page ? 0 : -EINVAL;
}

uint32_t plan_spares(const struct store *store)
{
    const struct store_group *a = &store->groups[0], *b = &store->groups[1];
    return a->pages_wanted + b->pages_wanted + 2 +
           hash_pages_for(store, a->leaves_wanted + b->leaves_wanted);
}

/* plan_want sets aside memory for applying all that is planned (ME2). */
static int plan_want(struct store_group *group, uint32_t pages, uint32_t leaves)
{
    group->pages_wanted += pages;
    group->leaves_wanted += leaves;
    return meta_reserve(group->store, plan_spares(group->store));
}

static uint64_t plan_physical(const struct store *store, uint64_t object, uint64_t index)
{
    const struct leaf_disk *leaf = hash_find(store, object, index, NULL);
    if (leaf && !store->space.moves)
        return le64_get(leaf->physical);
    const struct entry *claim = claim_find(store, CLAIM_EXTENT, object, index, NULL);
    return claim ? claim->value : leaf ? le64_get(leaf->physical) : UINT64_MAX;
}

/* plan_extent_new claims a free extent, `near` if that is one, for this place in the container. */
static int plan_extent_new(struct store_group *group, uint64_t object, uint64_t index,
                           uint64_t near, uint64_t *physical)
{
    struct store *store = group->store;
    *physical = extent_claim(store, near);
    if (*physical == UINT64_MAX)
        return -ENOSPC;
    assert(store->extents[*physical].state == EXTENT_CLAIMED);                  /* PL1 */
    int error = claim_add(group, CLAIM_EXTENT, object, index, *physical);
    if (error)
        extent_unclaim(store, *physical);
    return error;
}

static int plan_extent(struct store_group *group, uint64_t object, uint64_t index,
                       uint64_t *physical)
{
    *physical = plan_physical(group->store, object, index);
    if (*physical != UINT64_MAX)
        return 0;
    uint64_t near = index ? plan_physical(group->store, object, index - 1) : UINT64_MAX;
    return plan_extent_new(group, object, index, near == UINT64_MAX ? near : near + 1, physical) ?:
           plan_want(group, 0, 1);
}

int plan_page_write(struct store_group *group, uint64_t object, uint64_t page, uint64_t *base,
                    uint64_t *physical)
{
    struct store *store = group->store;
    int error = plan_pages_exist(group, object, page, 1) ?:                     /* TP4 */
                store->doubts.prepared && doubt_has_page(store, group, object, page) ? -EBUSY : 0;
    if (error)
        return error;
    struct page_state state = plan_page(store, object, page);
    if (state.present && state.claim && group_of(store, state.claim) == group &&
        state.claim >= group->claims.entries + group->txn_claims)
        return -EINVAL;                 /* twice in one transaction */
    if (base && *base == STORE_BASE_NEWEST && state.present)
        *base = state.lsn;
    if (base && (*base ? !state.present || state.lsn != *base || *base < state.redo ||
                             state.bulk
                       : state.present))
        return -ESTALE;
    if (state.leaf && !store->space.moves)
        *physical = le64_get(state.leaf->physical);
    else if ((error = plan_extent(group, object, page / store->extent_pages, physical)))
        return error;
    return claim_add(group, CLAIM_PAGE, object, page, 0);
}

bool plan_extent_fresh(const struct store *store, uint64_t object, uint64_t index)
{
    return plan_physical(store, object, index) == UINT64_MAX;
}

int plan_extent_home(struct store_group *group, uint64_t object, uint64_t index, uint64_t physical,
                     uint32_t mask)
{
    uint32_t n = group->store->extent_pages;
    int error = plan_pages_exist(group, object, index * n, n) ?:
                !plan_extent_fresh(group->store, object, index) ? -ESTALE :
                claim_add(group, CLAIM_EXTENT, object, index, physical) ?: plan_want(group, 0, 1);
    for (uint32_t p = 0; p < n && !error; p++)
        if (mask >> p & 1)
            error = claim_add(group, CLAIM_PAGE_HOME, object, index * n + p, 0);
    return error;
}

/* plan_extent_claim claims `bits` of the extent's pages: their extent is assigned now. */
int plan_extent_claim(struct store_group *group, uint64_t object, uint64_t index, uint32_t bits,
                      uint64_t *physical)
{
    int error = plan_extent(group, object, index, physical);
    const struct entry *before = claim_find(group->store, CLAIM_UNWRITTEN, object, index, NULL);
    return error ? error : claim_add(group, CLAIM_UNWRITTEN, object, index,
                                     bits | (before ? before->value : 0));
}

bool plan_page_present(const struct store *store, uint64_t object, uint64_t page)
{
    return plan_page(store, object, page).present;
}

/* plan_extent_move gives the extent another place, whether it has one already or will. */
int plan_extent_move(struct store_group *group, uint64_t object, uint64_t index,
                     uint64_t *physical)
{
    int error = !plan_extent_held(group->store, object, index) ? -ENOENT :
                plan_extent_new(group, object, index, UINT64_MAX, physical);
    group->store->space.moves += !error;
    return error;
}

static int plan_extent_free(struct store_group *group, uint64_t object, uint64_t index,
                            uint64_t from, uint64_t to)
{
    uint64_t first = index * group->store->extent_pages, last = first + group->store->extent_pages;
    uint32_t held = plan_extent_held(group->store, object, index);
    int error = 0;
    for (uint64_t page = first < from ? from : first; page < to && page < last && !error; page++)
        if (held >> (page - first) & 1)
            error = claim_add(group, CLAIM_PAGE_FREED, object, page, 0);
    return error;
}

int plan_page_free(struct store_group *group, uint64_t object, uint64_t page, uint64_t count)
{
    struct store *store = group->store;
    uint64_t n = store->extent_pages;
    int error = plan_pages_exist(group, object, page, count) ?:
                doubt_has_range(group, object, page, count) ? -EBUSY :          /* TP4 */
                plan_want(group, 1, 0); /* a shrinking table takes a page before it gives one */
    if (error)
        return error;
    uint32_t slot = NO_SLOT;
    uint64_t end = page + count,
             top = directory_get(store, object, &slot) ? plan_top(store, object) : end;
    end = end / n >= top ? top * n : end;   /* nothing lies behind; most are almost empty */
    if (end <= page || (end - page) / n <= store->space.top) {
        for (uint64_t i = page / n; i * n < end && !error; i++)
            error = plan_extent_free(group, object, i, page, end);
        return error;
    }
    for (uint64_t i = 0; i < store->space.top && !error; i++)
        if (store->extents[i].state == EXTENT_USED && store->extents[i].slot == slot)
            error = plan_extent_free(group, object, store->extents[i].index, page, page + count);
    for (int g = 0; g < 2; g++)
        for (uint32_t i = 0; i < store->groups[g].claims.count && !error; i++) {
            struct entry claim = store->groups[g].claims.entries[i];
            if (claim.kind == CLAIM_EXTENT && claim.object == object)
                error = plan_extent_free(group, object, claim.key, page, page + count);
        }
    return error;
}

/* ---- directory operations: checks, ids, addresses; *out is what the record needs */

static int plan_create(struct store_group *group, struct store_op *op, struct planned_op *out)
{
    struct store *store = group->store;
    uint32_t containers = store->kept.containers;
    const struct planned_op *planned;
    if (!op->name || !name_valid(op->name) || op->encoder >= STORE_ENCODER_COUNT ||
        op->locking >= STORE_LOCKING_COUNT || op->protection >= STORE_PROTECTION_COUNT ||
        op->durability >= STORE_DURABILITY_LOST)
        return -EINVAL;
    if (plan_name_taken(store, op->name))
        return -EEXIST;
    for_each_op(store, planned)
        containers += planned->type == RECORD_CREATE;
    if (containers >= store->super.directory_pages_max * CONTAINERS_PER_PAGE)
        return -ENOSPC;
    out->gib = 1;
    out->durability = op->durability;
    if (op->want_object && (op->want_object < store->plan_next_object || op->want_object >> 62))
        return -EEXIST;
    int error = plan_range(store, op->want_address, out->gib, &out->first_gib);
    if (error)
        return error;
    out->object = op->object = op->want_object ? op->want_object : store->plan_next_object;
    store->plan_next_object = out->object + 1;
    return plan_want(group, 1, 0);
}

static int plan_grow(struct store_group *group, struct store_op *op, struct planned_op *out)
{
    struct planned_container plan = plan_container(group->store, op->object);
    if (!plan.exists)
        return -ENOENT;
    out->gib = (uint32_t)(plan.pages / (STORE_SEGMENT_UNIT / STORE_PAGE_BYTES));
    if (out->gib >= LARGE_GIB)          /* so that the last segments reach several TiB */
        out->gib *= 2;
    if (plan.segments >= STORE_SEGMENT_MAX || out->gib > zone_gib(group->store))
        return -ENOSPC;
    return plan_range(group->store, op->want_address, out->gib, &out->first_gib);
}

static int plan_simple(struct store_group *group, const struct store_op *op,
                       struct planned_op *out)
{
    const struct store *store = group->store;
    bool named = op->type == STORE_OP_RENAME || op->type == STORE_OP_NAME_SET ||
                 op->type == STORE_OP_NAME_UNSET;
    if (named && (!op->name || !name_valid(op->name)))
        return -EINVAL;
    if (!plan_container(store, op->object).exists)
        return -ENOENT;
    switch (op->type) {
    case STORE_OP_DELETE:
        return doubt_has_range(group, op->object, 0, UINT64_MAX) ? -EBUSY : plan_want(group, 1, 0);
    case STORE_OP_RENAME: return plan_name_taken(store, op->name) ? -EEXIST : 0;
    case STORE_OP_LAYOUT:
        return op->layout && (!op->layout->type[0] || name_valid(op->layout->type)) ? 0 : -EINVAL;
    case STORE_OP_DURABILITY: return unlogged_plan(group, op, out);
    case STORE_OP_NAME_SET:
        return !plan_named(store, op->object, op->name) &&
               doubt_names_free(store) <= store->doubts.names ? -ENOSPC         /* TP3 */
                                                              : plan_want(group, 1, 0);
    case STORE_OP_NAME_UNSET: return plan_named(store, op->object, op->name) ? 0 : -ENOENT;
    default: return choice_value(op) < choice_count(op->type) ? 0 : -EINVAL;
    }
}

int plan_op(struct store_group *group, struct store_op *op, struct planned_op *out)
{
    *out = (struct planned_op){ .type = op->type, .object = op->object };
    int error = op->type == STORE_OP_CREATE ? plan_create(group, op, out)
              : op->type == STORE_OP_GROW   ? plan_grow(group, op, out)
                                            : plan_simple(group, op, out);
    if (error)
        return error;
    if (op->name)
        name_copy(out->name, op->name);
    if (out->gib)
        op->address = store_zone_base(group->store->super.zone) +
                      out->first_gib * STORE_SEGMENT_UNIT;
    group->seen.object = 0;
    return op_add(group, out);
}
