/*
 * test_spill.c - chains at moments that no workload has: in every state of their groups, with
 * tables that just fit, refused and aged; what a commit says of one and the log does not.
 */
#include "stage.h"

/* Aim: images are told apart by container, page and chain, also where they share a hash head. */
static void many_images_of_chains_and_containers(void **state)
{
    (void)state;
    struct store_chain *chains[2];
    uint64_t objects[2], at;
    uint32_t crc, position;
    make(32 << 20, 8 << 20);
    objects[0] = object;
    struct store_group *group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(create(group, "d", 0, 0, &objects[1]), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    group_done(group);
    assert_int_equal(store_chain_begin(store, 1, &chains[0]), 0);
    assert_int_equal(store_chain_begin(store, 2, &chains[1]), 0);
    for (uint64_t page = 0; page < 100; page += 10) {
        group = group_open();           /* both in one group, by turns */
        for (uint64_t i = page; i < page + 10; i++) {
            assert_int_equal(spill(group, chains[0], objects[0], i), 0);
            assert_int_equal(spill(group, chains[0], objects[1], i), 0);
            assert_int_equal(spill(group, chains[1], objects[0], i * 3), 0);
            assert_int_equal(spill(group, chains[1], objects[1], i + 7), 0);
        }
        group_done(group);
    }
    for (uint64_t page = 0; page < 100; page += 3)
        store_spill_drop(chains[0], objects[page & 1], page);
    for (uint64_t page = 0; page < 100; page++)
        for (int i = 0; i < 2; i++)
            assert_int_equal(store_spill_find(store, chains[0], objects[i], page, &at, &crc),
                             page % 3 == 0 && (page & 1) == (uint64_t)i ? -ENOENT : 0);
    checkpoint(); /* from the older of the two */
    for (int i = 1; i >= 0; i--) {
        group = group_open();
        store_txn_begin(group, 1);
        assert_int_equal(store_txn_chain(group, chains[i]), 0);
        assert_int_equal(store_txn_end(group, &position), 0);
        group_done(group);
    }
    assert_int_equal(store_check(store, &report.message), 0);
    struct store_open_options read_only = { .flags = STORE_READ_ONLY };
    struct store *again;                /* records of a chain that meet in a group count once */
    assert_int_equal(store_open(&io, &test_memory, &read_only, &again, &report), 0);
    assert_int_equal(report.transactions, 2);
    store_abandon(again);
    checkpoint(); /* they are done, and not ended yet */
    store_chain_end(chains[0]);
    store_chain_end(chains[1]);
    unmake();
}

static void chains_in_the_wrong_state(void **state)
{
    (void)state;
    struct store_chain *chain, *other;
    uint32_t position;
    make(4 << 20, 1 << 20);
    assert_int_equal(store_chain_begin(store, 1, &chain), 0);
    assert_int_equal(store_chain_begin(store, 1, &other), 0);
    struct store_group *group = group_open();
    assert_int_equal(store_txn_chain(group, chain), -EINVAL);   /* in no transaction */
    assert_int_equal(spill(group, chain, object, 1), 0);
    assert_int_equal(spill(group, other, object, 1), 0);
    store_txn_begin(group, 1);          /* a record behind the last image: the next begins anew */
    assert_int_equal(store_txn_page(group, object, 9, page_bytes), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    assert_int_equal(spill(group, other, object, 2), 0);
    store_chain_end(other);             /* in the middle of the group */
    assert_int_equal(spill(group, chain, object, 2), 0);
    assert_int_equal(store_group_seal(group), 0);
    assert_int_equal(spill(group, chain, object, 3), -EINVAL);
    struct store_group *second = group_open();
    assert_int_equal(spill(second, chain, object, 4), 0);       /* images in both */
    assert_int_equal(store_group_seal(second), 0);
    assert_int_equal(store_group_write(group), 0);
    assert_int_equal(store_group_apply(group), 0);
    assert_int_equal(store_group_write(second), 0);
    assert_int_equal(store_group_apply(second), 0);
    group = group_open();
    assert_int_equal(spill(group, chain, object, 5), 0);
    assert_int_equal(store_group_seal(group), 0);
    second = group_open();
    assert_int_equal(spill(second, chain, object, 6), 0);
    store_group_cancel(second);         /* only its own images are lost */
    assert_int_equal(store_group_write(group), 0);
    assert_int_equal(store_group_apply(group), 0);
    assert_int_equal(store_chain_pages(chain), 4);
    group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(store_txn_chain(group, chain), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    assert_int_equal(spill(group, chain, object, 7), -EINVAL);  /* its commit is on its way */
    store_txn_begin(group, 1);
    assert_int_equal(store_txn_chain(group, chain), -EINVAL);
    store_txn_cancel(group);
    group_done(group);
    group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(store_txn_chain(group, chain), -EINVAL);   /* it is over */
    store_txn_cancel(group);
    store_group_cancel(group);
    store_chain_end(chain);
    unmake();
}

/* A group of its own holds nothing but the chain's commit. */
static void chain_commit(struct store_chain *chain)
{
    uint32_t position;
    struct store_group *group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(store_txn_chain(group, chain), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    group_done(group);
    store_chain_end(chain);
}

/* Aim: a SPILL record whose table has room for one image only. */
static void a_table_at_the_end_of_a_block(void **state)
{
    (void)state;
    struct store_chain *chain;
    struct diff_run run = { .length = 3844 };
    uint32_t position;
    make(4 << 20, 1 << 20);
    assert_int_equal(store_chain_begin(store, 1, &chain), 0);
    struct store_group *group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(txn_diff(group, object, 0, 0, &run, 1, page_bytes), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    assert_int_equal(group->used % BLOCK_BYTES, 4008);
    for (uint64_t page = 1; page < 4; page++)
        assert_int_equal(spill(group, chain, object, page), 0);
    assert_int_equal(group->records, 4);        /* page, commit, two SPILL records */
    group_done(group);
    chain_commit(chain);
    store_abandon(store);
    assert_int_equal(store_open(&io, &test_memory, NULL, &store, &report), 0);
    assert_int_equal(report.pages, 4);
    unmake();
}

/* Aim: a chain has no more pages than its commit's group has room for; that is said when one more
 * is spilled. One again is no more, and the commit fits. An aged chain stays aged. */
static void a_chain_that_does_not_fit(void **state)
{
    (void)state;
    struct store_open_options small = { .group_bytes = 5 * BLOCK_BYTES };
    struct store_chain *chain;
    uint32_t position;
    make(32 << 20, 8 << 20);
    store_abandon(store);
    assert_int_equal(store_open(&io, &test_memory, &small, &store, &report), 0);
    assert_int_equal(store_chain_begin(store, 1, &chain), 0);
    uint64_t most = 4 * BLOCK_BYTES / sizeof(struct record_disk), page = 0;
    struct store_group *group;
    for (int error = 0; !error;) {
        group = group_open();
        for (uint64_t end = page + 3; page < end && !error; page += !error)
            error = spill(group, chain, object, page);
        assert_int_equal(error, page == most ? -E2BIG : 0);
        if (error)
            assert_int_equal(spill(group, chain, object, 0), 0);
        assert_int_equal(store_group_seal(group), 0);
        assert_int_equal(store_group_issue(group), 0);
        assert_int_equal(store_group_apply(group), 0);
    }
    group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(store_txn_chain(group, chain), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    group_done(group);
    store_chain_end(chain);
    assert_int_equal(store_chain_begin(store, 1, &chain), 0);
    group = group_open();
    chain->hold.expired = true;
    assert_int_equal(spill(group, chain, object, 0), -E2BIG);
    store_group_cancel(group);
    store_chain_end(chain);
    unmake();
}

/* Aim: the check sees each rule of chains broken (CH1, CH2, CH3). */
static void the_check_sees_broken_chains(void **state)
{
    (void)state;
    struct store_chain *chain;
    const char *why;
    uint32_t position;
    make(4 << 20, 1 << 20);
    assert_int_equal(store_chain_begin(store, 1, &chain), 0);
    struct store_group *group = group_open();
    assert_int_equal(spill(group, chain, object, 1), 0);
    assert_int_equal(spill(group, chain, object, 2), 0);
    assert_int_equal(store_check(store, &why), 0);      /* not applied yet */
    group_done(group);
    struct spill_node *node = chain->ends.after, *next = chain->ends.before;
    assert_int_equal(store_check(store, &why), 0);
    uint64_t page = node->page, lsn = node->lsn;
    node->page = next->page;                            /* two of one page, or in a wrong place */
    assert_int_not_equal(store_check(store, &why), 0);
    node->page = page;
    node->lsn = 0;
    assert_int_not_equal(store_check(store, &why), 0);
    chain->hold.expired = true;                              /* an aged chain's log may be gone */
    assert_int_equal(store_check(store, &why), 0);
    chain->hold.expired = false;
    node->lsn = lsn;
    chain_commit(chain);
    assert_int_equal(store_check(store, &why), 0);
    node->lsn = 0;                                      /* committed: its log is needed */
    assert_int_not_equal(store_check(store, &why), 0);
    node->lsn = store->log.applied;                     /* newer than its page */
    assert_int_not_equal(store_check(store, &why), 0);
    node->lsn = lsn;
    uint64_t n = store->extent_pages;
    struct leaf_disk *leaf = hash_find(store, object, page / n, NULL);
    page_dirty_set(store, leaf, (uint32_t)(page % n), false);
    assert_int_not_equal(store_check(store, &why), 0);
    page_dirty_set(store, leaf, (uint32_t)(page % n), true);
    for (node->object = 1000; !logged_find(store, node->object, page, &lsn, &position);)
        node->object++;                                 /* of no container, at the right head */
    assert_int_not_equal(store_check(store, &why), 0);
    node->object = object;
    store->logged_pages++;
    assert_int_not_equal(store_check(store, &why), 0);
    store->logged_pages--;
    unmake();
}

/* ---- what a commit record says */


/* Aim: each number in a chain's commit record must be the one that the log says. */
static void a_chain_is_what_its_commit_says(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 5; i++) {
        uint32_t position;
        make_saved(4 << 20, 1 << 20);
        struct store_chain *chain = chain_of_two();
        struct store_group *group = group_open();
        store_txn_begin(group, 2);
        assert_int_equal(store_txn_chain(group, chain), 0);
        chain->hold.lsn += i == 1 ? BLOCK_BYTES : 0;
        chain->groups += i == 2;
        chain->crc += i == 3;
        chain->number += i == 4;
        assert_int_equal(store_txn_end(group, &position), 0);
        group_done(group);
        store_abandon(store);
        assert_int_equal(open_with(0), i ? -EUCLEAN : 0);
        if (i)
            store = NULL;
        abandon();
    }
}

/* A group of a chain, perhaps with a record that cannot be, and a checkpoint behind it. Its
 * place. */
static uint64_t group_before_redo(bool spoiled)
{
    struct store_chain *chain;
    assert_int_equal(store_chain_begin(store, 2, &chain), 0);
    struct store_group *group = group_open();
    assert_int_equal(spill(group, chain, object, 60), 0);
    if (spoiled)
        record_add(group, RECORD_NOOP, object, 0, 0)->length = le32_of(8);
    assert_int_equal(store_group_seal(group), 0);
    uint64_t at = store->super.log_start + group->lsn % store->super.log_bytes;
    assert_int_equal(store_group_write(group), 0);
    assert_int_equal(store_group_apply(group), spoiled ? -EUCLEAN : 0);
    if (spoiled)                        /* the fence is lifted for a checkpoint behind it */
        store->fence = 0;
    checkpoint();
    return at;
}

/* Aim: a group before the redo LSN that holds no records is refused; one that is lost is not missed
 * when nothing needs it, be it that nothing follows the redo LSN, or a group that was torn. */
static void groups_before_the_redo_lsn(void **state)
{
    (void)state;
    enum { SPOILED, LOST, LOST_AND_TORN, CASES };
    for (int what = 0; what < CASES; what++) {
        make_saved(4 << 20, 1 << 20);
        uint64_t at = group_before_redo(what == SPOILED), behind = store->log.end;
        if (what != LOST)
            commit_pages(0, 1);
        if (what != SPOILED)
            device.image[at + 100] ^= 1;
        if (what == LOST_AND_TORN)
            device.image[store->super.log_start + behind % store->super.log_bytes + 5000] ^= 1;
        store_abandon(store);
        store = NULL;
        assert_int_equal(open_with(what == SPOILED ? 0 : STORE_READ_ONLY),
                         what == SPOILED ? -EUCLEAN : 0);
        assert_int_equal(report.groups, what == SPOILED);
        assert_int_equal(report.torn_tail, what == LOST_AND_TORN);
        abandon();
    }
}

/* Aim: a scan is one lap at most, though a valid group ends behind that. Method: the log that a
 * running chain keeps is released by hand and written over; the scan takes it up at the redo
 * LSN. */
static void a_scan_is_one_lap(void **state)
{
    (void)state;
    make_saved(4 << 20, 16 * BLOCK_BYTES);
    uint64_t scan_lsn = store->log.end;
    group_before_redo(false);
    assert_int_equal(store->super.checkpoints[store->super.checkpoint_index].scan_lsn, scan_lsn);
    store->log.keep = store->log.redo;
    while (store->log.end <= scan_lsn + store->super.log_bytes)
        commit_pages(0, 1);
    store_abandon(store);
    store = NULL;
    assert_int_equal(open_with(0), 0);
    assert_true(report.end_lsn <= scan_lsn + 16 * BLOCK_BYTES);
    abandon();
}

/* ---- no space */

struct levels {
    struct store_stats stats;
    size_t   used;
    int64_t  memory;
    uint32_t records, claims, pages_wanted, leaves_wanted;
};

static struct levels levels_of(const struct store_group *group)
{
    struct levels l = { .used = group->used, .memory = memory_live, .records = group->records,
                        .claims = group->claims.count, .pages_wanted = group->pages_wanted,
                        .leaves_wanted = group->leaves_wanted };
    store_stats(store, &l.stats);
    return l;
}

/* A transaction in this group that ends the chain and writes one page more: what the two say. */
static void chain_try(struct store_group *group, struct store_chain *chain, int chained, int ended)
{
    uint32_t position;
    store_txn_begin(group, 2);
    assert_int_equal(store_txn_chain(group, chain), chained);
    assert_int_equal(store_txn_page(group, object, 0, page_bytes), chained);
    assert_int_equal(store_txn_end(group, &position), ended);
}

static void chain_spilled(struct store_chain **chain, uint64_t from, uint64_t to)
{
    uint64_t at;
    uint32_t crc;
    struct store_group *group = group_open();
    assert_int_equal(store_chain_begin(store, 2, chain), 0);
    for (uint64_t page = from; page < to; page++)
        assert_int_equal(spill(group, *chain, object, page), 0);
    group_done(group);
    assert_int_equal(store_spill_find(store, *chain, object, to - 1, &at, &crc), 0);
}

static void pages_are_there(uint64_t from, uint64_t to, bool there)
{
    struct store_page page;
    for (; from < to; from++) {
        assert_int_equal(store_page_find(store, object, from, &page), 0);
        assert_int_equal(page.present, there);
    }
}

static void op_done(enum store_op_type type, uint64_t from, uint64_t count)
{
    struct store_group *group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(pages_op(group, type, from, count), 0);
    assert_int_equal(txn_next(group), 0);
    group_done(group);
}

/* Aim: a chain's commit for which there are too few extents is refused alone: its neighbours in the
 * group commit, nothing stays claimed or reserved, and when space was freed the same chain commits.
 * Method: four extents are wanted where two are free, so that two are claimed and given back. */
static void a_chain_without_free_extents(void **state)
{
    (void)state;
    struct store_chain *chain;
    struct store_stats stats;
    uint32_t position;
    make_saved(4 << 20, 1 << 20);
    uint64_t n = store->extent_pages;
    chain_spilled(&chain, n, 5 * n);
    commit_pages(0, 1);
    store_stats(store, &stats);
    op_done(STORE_OP_PAGE_CLAIM, 100 * n, (stats.free_extents - 3) * n);
    struct store_group *group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(store_txn_page(group, object, 50 * n, page_bytes), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    assert_int_equal(levels_of(group).stats.free_extents, 2);
    chain_try(group, chain, -ENOSPC, -ENOSPC);
    struct levels before = levels_of(group), after;     /* arrays have grown, and stay */
    for (int i = 0; i < 100; i++) {
        chain_try(group, chain, -ENOSPC, -ENOSPC);
        after = levels_of(group);
        assert_memory_equal(&before, &after, sizeof before);
    }
    assert_int_equal(before.stats.free_extents, 2);
    assert_int_equal(before.claims, 2);                 /* the neighbour's extent and page */
    assert_int_equal(store_chain_pages(chain), 4 * n);
    store_txn_begin(group, 3);
    assert_int_equal(store_txn_page(group, object, 51 * n, page_bytes), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    group_done(group);
    pages_are_there(50 * n, 50 * n + 1, true);
    pages_are_there(51 * n, 51 * n + 1, true);
    pages_are_there(n, 5 * n, false);
    op_done(STORE_OP_PAGE_FREE, 100 * n, 3 * n);
    store_stats(store, &stats);
    assert_int_equal(stats.freed_extents, 3);           /* says that a checkpoint would help */
    group = group_open();
    chain_try(group, chain, -ENOSPC, -ENOSPC);
    store_group_cancel(group);
    checkpoint();
    group = group_open();
    chain_try(group, chain, 0, 0);
    group_done(group);
    store_chain_end(chain);
    pages_are_there(n, 5 * n, true);
    store_stats(store, &stats);
    assert_int_equal(stats.free_extents + stats.claimed_extents, 0);
    assert_int_equal(stats.chains, 0);
    store_abandon(store);
    assert_int_equal(open_with(0), 0);
    pages_are_there(n, 5 * n, true);
    unmake();
}

/* Aim: as above, and the transaction is aborted: of the chain nothing is left, in memory or on
 * disk. */
static void a_chain_without_free_extents_is_aborted(void **state)
{
    (void)state;
    struct store_chain *chain;
    struct store_stats stats;
    uint64_t free_extents = 0;
    int64_t memory = 0;
    make_saved(4 << 20, 1 << 20);
    uint64_t n = store->extent_pages;
    commit_pages(0, 1);
    store_stats(store, &stats);
    op_done(STORE_OP_PAGE_CLAIM, 100 * n, (stats.free_extents - 2) * n);
    for (int i = 0; i < 8; i++) {
        chain_spilled(&chain, n, 4 * n);
        struct store_group *group = group_open();
        chain_try(group, chain, -ENOSPC, -ENOSPC);
        store_group_cancel(group);
        store_chain_end(chain);
        store_stats(store, &stats);
        assert_int_equal(stats.chains + stats.chain_pages + stats.logged_pages, 0);
        if (i) {
            assert_int_equal(memory_live, memory);      /* the first made the heads */
            assert_int_equal(stats.free_extents, free_extents);
        }
        memory = memory_live;
        free_extents = stats.free_extents;
    }
    assert_int_equal(free_extents, 2);
    assert_int_equal(stats.claimed_extents, 0);
    commit_pages(n, 2 * n);                             /* the two can be used */
    commit_pages(2 * n, 3 * n);
    store_abandon(store);
    assert_int_equal(open_with(0), 0);
    pages_are_there(n, 3 * n, true);
    pages_are_there(3 * n, 4 * n, false);
    unmake();
}

/* Aim: a full log does not refuse store_txn_chain, which logs nothing yet, but the end of the
 * transaction: -EAGAIN, and after checkpoints the same chain commits. */
static void a_chain_whose_commit_finds_the_log_full(void **state)
{
    (void)state;
    struct store_open_options small = { .group_bytes = 12 * BLOCK_BYTES };
    struct store_chain *chain;
    make_saved(4 << 20, 256 << 10);
    store_abandon(store);
    assert_int_equal(store_open(&io, &test_memory, &small, &store, &report), 0);
    while (store_log_free(store) > 25 * BLOCK_BYTES)
        commit_pages(0, 4);
    chain_spilled(&chain, 4, 12);
    while (store_log_free(store))
        group_done(group_open());                       /* empty groups */
    struct store_group *group = group_open();
    struct levels before = levels_of(group), after;
    for (int i = 0; i < 3; i++) {
        chain_try(group, chain, 0, -EAGAIN);
        after = levels_of(group);
    }
    assert_memory_equal(&before, &after, sizeof before);
    store_group_cancel(group);
    checkpoint();
    checkpoint();
    group = group_open();
    chain_try(group, chain, 0, 0);
    group_done(group);
    store_chain_end(chain);
    pages_are_there(4, 12, true);
    unmake();
}

/* Aim: a chain's records find no room behind those of others, and do in the next group. */
static void a_chain_that_does_not_fit_beside_others(void **state)
{
    (void)state;
    int error;
    make(4 << 20, 1 << 20);
    struct store_chain *chain = chain_of_two();
    struct store_group *group = group_open();
    store_txn_begin(group, 1);
    for (uint64_t page = 100, full = 1;; page++) {
        error = full ? store_txn_page(group, object, page, page_bytes)
                     : txn_diff(group, object, page, 0, NULL, 0, NULL);
        if (!error)
            error = txn_next(group);
        if (!error)
            continue;
        assert_int_equal(error, -ENOBUFS);
        store_txn_cancel(group);
        store_txn_begin(group, 1);
        if (!full--)
            break;
    }
    assert_int_equal(store_txn_chain(group, chain), -ENOBUFS);
    store_txn_cancel(group);
    group_done(group);
    chain_commit(chain);
    unmake();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_images_of_chains_and_containers),
        cmocka_unit_test(chains_in_the_wrong_state),
        cmocka_unit_test(a_table_at_the_end_of_a_block),
        cmocka_unit_test(a_chain_that_does_not_fit),
        cmocka_unit_test(a_chain_that_does_not_fit_beside_others),
        cmocka_unit_test(the_check_sees_broken_chains),
        cmocka_unit_test(a_chain_is_what_its_commit_says),
        cmocka_unit_test(groups_before_the_redo_lsn),
        cmocka_unit_test(a_scan_is_one_lap),
        cmocka_unit_test(a_chain_without_free_extents),
        cmocka_unit_test(a_chain_without_free_extents_is_aborted),
        cmocka_unit_test(a_chain_whose_commit_finds_the_log_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
