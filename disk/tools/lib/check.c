/*
 * check.c - the invariants of an open store in memory, walked: store_check. (`kstore check` walks
 * the disk by itself, with other code.)
 */
#include "tools.h"

#include "internal.h"

static int leaf_compare(struct store *store, const struct leaf_disk *leaf, const char **why)
{
    const struct extent *e = &store->extents[le64_get(leaf->physical)];
    if (e->state != EXTENT_USED || extent_leaf(store, e, NULL) != leaf)
        FAIL("an extent's owner is not the leaf that names it (EX1)");
    if (e->index >= store->use[e->slot].top)
        FAIL("an extent lies above its container's top");
    if (e->dirty & ~le32_get(leaf->mask))
        FAIL("a page that does not exist is dirty (EX3)");
    return 0;
}

static int extents_check(const struct store *store, const char **why)
{
    uint64_t count[EXTENT_STATES] = { 0 }, dirty = 0;
    for (uint64_t i = 0; i < store->super.extents; i++) {
        const struct extent *e = &store->extents[i];
        count[extent_state(store, i)]++;
        dirty += __builtin_popcount(e->dirty);
        if (e->dirty && e->state != EXTENT_USED)
            FAIL("an extent that is not used is dirty (EX3)");
    }
    if (count[EXTENT_USED] != store->kept.leaves)
        FAIL("used extents and leaves differ in number (ST21)");
    if (count[EXTENT_FREE] != store->space.free ||
        count[EXTENT_CLAIMED] != store->space.claimed ||
        count[EXTENT_FREED] != store->space.freed ||
        dirty != store->space.dirty)
        FAIL("a count of extents or dirty pages is wrong (ST23)");
    return 0;
}

static bool node_sound(const struct store *store, const struct spill_node *node)
{
    struct store_page page;
    const struct store_chain *chain = node->chain;
    if (node_find(store, chain, node->object, node->page) != node)
        return false;                                                   /* CH1 */
    if (!node->group && !(chain && chain->hold.expired) && node->lsn < store->log.keep)
        return false;                                                   /* CH3 */
    return chain || (store_page_find((struct store *)store, node->object, node->page, &page) == 0 &&
                     page.dirty && page.lsn > node->lsn);               /* CH2 */
}

static bool chains_sound(const struct store *store)
{
    uint64_t logged = 0;
    for (uint32_t i = 0; store->spill_heads && i < store->spill_head_count; i++)
        for (const struct spill_node *node = store->spill_heads[i]; node; node = node->next) {
            logged += !node->chain;
            if (!node_sound(store, node))
                return false;
        }
    return logged == store->logged_pages;
}

static int log_check(const struct store *store, const char **why)
{
    if (store->log.keep > store->log.redo || store->log.redo > store->log.applied ||
        store->log.durable > store->log.applied || store->log.applied > store->log.end ||
        store->log.end - store->log.keep > store->super.log_bytes)
        FAIL("the log's marks are out of order (ST20)");
    if (!chains_sound(store))
        FAIL("an image in the log is not what its page needs (CH1 to CH3)");
    return 0;
}

int store_check(struct store *store, const char **why)
{
    *why = NULL;
    int error = metadata_check(store, leaf_compare, why);
    if (!error && (extents_check(store, why) || log_check(store, why)))
        error = -EUCLEAN;
    return error;
}
