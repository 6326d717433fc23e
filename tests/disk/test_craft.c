/*
 * test_craft.c - bytes that no store writes, one field at a time, with right checksums.
 *
 * Random mutations find most of what a reader must refuse; here each single rule of superblock,
 * signpost, group and record is broken on its own, and only that one. Also: memory and reads that
 * fail in an open whose log and metadata make it use all its buffers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <string.h>
#include <cmocka.h>

#include "internal.h"
#include "device.h"

static struct device device;
static struct disk_io io;
static struct store *store;
static struct store_report report;
static uint64_t object;

static int open_with(uint32_t flags)
{
    struct store_open_options options = { .flags = flags };
    return store_open(&io, &test_memory, &options, &store, &report);
}

static struct store_group *group_open(void)
{
    struct store_group *group;
    assert_int_equal(store_group_begin(store, &group), 0);
    return group;
}

static void group_done(struct store_group *group)
{
    assert_int_equal(store_group_seal(group), 0);
    assert_int_equal(store_group_write(group), 0);
    assert_int_equal(store_group_apply(group), 0);
}

static void commit_pages(uint64_t from, uint64_t to)
{
    static const uint8_t page[STORE_PAGE_BYTES] = { 7 };
    struct store_group *group = group_open();
    uint32_t position;
    store_txn_begin(group, 1);
    for (; from < to; from++)
        assert_int_equal(store_txn_page(group, object, from, page), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    group_done(group);
}

static void checkpoint(void)
{
    static const uint8_t page[STORE_PAGE_BYTES] = { 7 };
    uint64_t number, lsn, offset, owner;
    int error;
    assert_int_equal(store_checkpoint_begin(store), 0);
    while (store_checkpoint_next(store, &owner, &number, &lsn) == 0) {
        assert_int_equal(store_page_home(store, owner, number, &offset), 0);
        assert_int_equal(io.write(io.context, offset, page, sizeof page), 0);
        assert_int_equal(store_page_cleaned(store, owner, number, lsn,
                                            crc32c(0, page, sizeof page)), 0);
    }
    while ((error = store_checkpoint_seal(store)) == -EAGAIN)
        ;
    assert_int_equal(error, 0);
    assert_int_equal(store_checkpoint_write(store), 0);
    assert_int_equal(store_checkpoint_apply(store), 0);
}

/* An open store with one container, whose creation is in a checkpoint. */
static void make(uint64_t disk_bytes, uint64_t log_bytes)
{
    struct store_options options = { .uuid = { 6 }, .log_bytes = log_bytes };
    struct store_op op = { .type = STORE_OP_CREATE, .name = "c" };
    uint32_t position;
    device_open(&device, disk_bytes);
    io = device_io(&device);
    assert_int_equal(store_format(&io, &test_memory, &options), 0);
    assert_int_equal(open_with(0), 0);
    struct store_group *group = group_open();
    store_txn_begin(group, 1);
    assert_int_equal(store_txn_op(group, &op), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    group_done(group);
    object = op.object;
    checkpoint();
}

static void unmake(void)
{
    store_abandon(store);
    store = NULL;
    device_close(&device);
    assert_int_equal(memory_live, 0);
}

/* ---- superblock and signpost */

typedef void spoil_fn(struct superblock *super);

static void huge(struct superblock *s)         { s->disk_bytes = 1ull << 62; }
static void many_extents(struct superblock *s) { s->extents = s->disk_bytes / s->extent_bytes + 1; }
static void end_early(struct superblock *s)    { s->flags = FLAG_CLEAN; s->end_lsn = 4096; }
static void end_huge(struct superblock *s)     { s->flags = FLAG_CLEAN; s->end_lsn = 1ull << 62; }
static void end_odd(struct superblock *s)      { s->flags = FLAG_CLEAN; s->end_lsn += 8; }
static void epochs_lsn(struct superblock *s)
{
    s->epoch_count = 2;
    s->epochs[1] = (struct epoch_info){ s->epochs[0].epoch + 1, s->epochs[0].first_lsn };
}
static void epochs_number(struct superblock *s)
{
    s->epoch_count = 2;
    s->epochs[1] = (struct epoch_info){ s->epochs[0].epoch, s->epochs[0].first_lsn + 4096 };
}

static void each_field_of_a_superblock_has_its_range(void **state)
{
    (void)state;
    static spoil_fn *const spoils[] = {
        huge, many_extents, end_early, end_huge, end_odd, epochs_lsn, epochs_number };
    static struct superblock_disk slot;
    struct superblock super, out;
    uint32_t version;
    make(1 << 20, 64 << 10);
    super = store->super;
    super.slot = super.generation & 1;
    super.end_lsn = store->end_lsn;
    super.epoch_count = 1;
    uint64_t offset = slot_offset(&super, super.slot);
    superblock_encode(&super, &slot);
    assert_int_equal(superblock_decode(&slot, UINT64_MAX, offset, &out, &version), SLOT_VALID);
    for (uint32_t i = 0; i < sizeof spoils / sizeof spoils[0]; i++) {
        struct superblock bad = super;
        spoils[i](&bad);
        superblock_encode(&bad, &slot);
        assert_int_equal(superblock_decode(&slot, UINT64_MAX, offset, &out, &version),
                         SLOT_DAMAGED);
    }
    unmake();
}

static bool signpost_says(uint32_t version, uint64_t offset)
{
    struct superblock super = { .uuid = { 6 }, .slot_b_offset = offset };
    static struct signpost_disk post;
    uint64_t found;
    signpost_encode(&super, offset, &post);
    post.version = le32_of(version);
    uint32_t crc = crc_seed(super.uuid, CRC_SIGNPOST, SIGNPOST_OFFSET, 0);
    post.crc = le32_of(crc32c(crc, (uint8_t *)&post + 12, sizeof post - 12));
    return signpost_decode(&post, 1 << 20, &found);
}

static void each_field_of_a_signpost_has_its_range(void **state)
{
    (void)state;
    assert_true(signpost_says(FORMAT_VERSION, 1 << 19));
    assert_false(signpost_says(FORMAT_VERSION + 1, 1 << 19));
    assert_false(signpost_says(FORMAT_VERSION, (1 << 19) + 512));
    assert_true(signpost_says(FORMAT_VERSION, 0));      /* a store is being made */
    assert_false(signpost_says(FORMAT_VERSION, 1 << 20));
}

/* Aim: a full table of epochs is refused, not written over: with and without a log to replay. */
static void a_full_table_of_epochs_is_refused(void **state)
{
    (void)state;
    uint8_t block[BLOCK_BYTES];
    for (int replay = 0; replay < 2; replay++) {
        make(1 << 20, 64 << 10);
        commit_pages(0, 2);
        checkpoint();
        struct superblock super = store->super;
        uint64_t from = replay ? super.checkpoints[super.checkpoint_index].redo_lsn
                               : super.checkpoints[!super.checkpoint_index].scan_lsn;
        super.generation++;
        super.epoch_count = EPOCH_MAX;
        super.epochs[0] = (struct epoch_info){ 1, 1 };
        for (uint32_t i = 1; i < EPOCH_MAX; i++)
            super.epochs[i] = (struct epoch_info){ 1 + i, from + i };
        assert_int_equal(superblock_write(&io, &super, block), 0);
        if (replay) {                   /* a group that the first of these epochs has written */
            store->epoch = 1;
            commit_pages(0, 1);
        }
        store_abandon(store);
        uint32_t writes = device.writes;
        assert_int_equal(open_with(0), -EUCLEAN);
        assert_true(replay || device.writes == writes);
        device_close(&device);
        assert_int_equal(memory_live, 0);
    }
}

/* A superblock names an older checkpoint whose log was overwritten: it is not counted as kept. */
static void an_older_checkpoint_without_log_is_not_kept(void **state)
{
    (void)state;
    uint8_t block[BLOCK_BYTES];
    const char *why = "";
    make(1 << 20, 64 << 10);
    for (int i = 0; i < 12; i++) {
        commit_pages(0, 3);
        checkpoint();
    }
    struct superblock super = store->super;
    struct checkpoint_info *older = &super.checkpoints[!super.checkpoint_index];
    assert_true(store->end_lsn > 2 * super.log_bytes);
    super.generation++;
    older->scan_lsn = older->redo_lsn = super.log_bytes;
    assert_int_equal(superblock_write(&io, &super, block), 0);
    store_abandon(store);
    for (int i = 0; i < 2; i++) {       /* and again, with what it has saved */
        assert_int_equal(open_with(0), 0);
        assert_int_equal(store_check(store, &why), 0);
        assert_true(store->end_lsn - store->keep_lsn <= store->super.log_bytes);
        commit_pages(0, 1);
        checkpoint();
        if (!i)
            store_abandon(store);
    }
    unmake();
}

/* ---- groups: headers that nearly hold */

/* The log ends where a group says something that cannot be, whatever its CRC says. */
static void a_header_that_cannot_be_ends_the_log(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        make(1 << 20, 64 << 10);
        commit_pages(0, 1);
        uint64_t lsn = store->applied_lsn;
        commit_pages(1, 2);
        uint8_t *group = device.image + store->super.log_start + lsn % store->super.log_bytes;
        struct group_disk *header = (void *)group;
        uint32_t blocks = le32_get(header->blocks);
        uint64_t left = store->super.log_bytes - lsn % store->super.log_bytes;
        switch (i) {
        case 0: header->blocks = le32_of((uint32_t)(left / BLOCK_BYTES + 1)); break;
        case 1: header->blocks = le32_of((uint32_t)(store->super.log_bytes / BLOCK_BYTES / 2 + 1));
            break;
        case 2: header->payload_bytes = le32_of(blocks * BLOCK_BYTES); break;
        default: header->blocks = le32_of(0); blocks = 1;
        }
        header->crc = le32_of(group_crc(&store->super, group, blocks * BLOCK_BYTES));
        store_abandon(store);
        assert_int_equal(open_with(0), 0);
        assert_int_equal(report.end_lsn, lsn);
        assert_true(report.torn_tail);
        unmake();
    }
}

/* ---- records that fit nothing */

static struct store_group *crafted;
static uint32_t crafted_records;

static struct record_disk *put(enum record_type type, uint32_t bytes)
{
    struct record_disk *record = record_add(crafted, type, object, bytes);
    memset(record + 1, 0, bytes);
    crafted_records++;
    return record;
}

static struct record_disk *put_page(enum record_type type, uint64_t page, uint64_t physical)
{
    struct record_disk *record = put(type, type == RECORD_PAGE_FULL ? STORE_PAGE_BYTES : 0);
    record->page = le64_of(page);
    record->physical = le64_of(physical);
    return record;
}

static struct record_disk *put_commit(uint32_t bytes)
{
    uint32_t records = crafted_records;
    struct record_disk *record = put(RECORD_COMMIT, bytes);
    record->page = le64_of(records);
    crafted_records = 0;
    return record;
}

static uint64_t extent_of(enum extent_state what)
{
    uint64_t i = 0;
    while (i < store->super.extents - 1 && store->extents[i].state != what)
        i++;
    return i;
}

static void free_from_beyond(void)
{
    put_page(RECORD_PAGE_FREE, UINT64_MAX, 0);
    put_commit(0);
}
static void free_too_many(void)
{
    put_page(RECORD_PAGE_FREE, 1, 0)->base = le64_of(UINT64_MAX);
    put_commit(0);
}
static void reserved_extent(void)
{
    put_page(RECORD_PAGE_FULL, 40, extent_of(EXTENT_RESERVED));
    put_commit(0);
}
static void image_odd(void)
{
    put_page(RECORD_PAGE_LOGGED, 40, extent_of(EXTENT_FREE))->base =
        le64_of(crafted->store->end_lsn - 8);
    put_commit(0);
}
static void image_before_the_log(void)
{
    put_page(RECORD_PAGE_LOGGED, 40, extent_of(EXTENT_FREE))->base = le64_of(4096);
    put_commit(0);
}
static void image_of_later(void)
{
    put_page(RECORD_PAGE_LOGGED, 40, extent_of(EXTENT_FREE))->base =
        le64_of(crafted->store->end_lsn + 4096);
    put_commit(0);
}
static void image_of_another(void)      /* the group before, whose bytes have another CRC */
{
    put_page(RECORD_PAGE_LOGGED, 40, extent_of(EXTENT_FREE))->base =
        le64_of(crafted->store->end_lsn - 4096);
    put_commit(0);
}
static void no_chain(void)
{
    put_commit(sizeof(struct chain_disk));
}
static void commit_of_odd_length(void)
{
    put_commit(8);
}
static void type_unknown(void)
{
    put(99, 0);
    put_commit(0);
}
static void no_commit(void)
{
    put_page(RECORD_PAGE_FREE, 0, 0);
}
static void object_unknown(void)
{
    put_page(RECORD_PAGE_FREE, 0, 0)->object = le64_of(77);
    put_commit(0);
}
static struct record_disk *put_claim(uint64_t page, uint64_t count, enum extent_state where)
{
    struct record_disk *record = put_page(RECORD_PAGE_CLAIM, page, extent_of(where));
    record->base = le64_of(count);
    return record;
}
static void claim_of_nothing(void)
{
    put_claim(40, 0, EXTENT_FREE);
    put_commit(0);
}
static void claim_from_beyond(void)
{
    put_claim(UINT64_MAX, 1, EXTENT_FREE);
    put_commit(0);
}
static void claim_of_too_many(void)
{
    put_claim(1, UINT64_MAX, EXTENT_FREE);
    put_commit(0);
}
static void claim_for_nobody(void)
{
    put_claim(40, 1, EXTENT_FREE)->object = le64_of(77);
    put_commit(0);
}
static void claim_of_slot_b(void)
{
    put_claim(40, 1, EXTENT_RESERVED);
    put_commit(0);
}
static void claim_with_data(void)
{
    struct record_disk *record = put(RECORD_PAGE_CLAIM, 8);
    record->page = le64_of(40);
    record->base = le64_of(1);
    record->physical = le64_of(extent_of(EXTENT_FREE));
    put_commit(0);
}
static void length_zero(void)
{
    put(RECORD_NOOP, 0)->length = le32_of(0);
}
static void length_zero_inside(void)
{
    put_page(RECORD_PAGE_FREE, 0, 0);
    put_page(RECORD_PAGE_FREE, 0, 0)->length = le32_of(4);
    put_commit(0);
}
static void directory_full(void)        /* one container more than it has slots */
{
    uint32_t slots = store->super.directory_pages_max * (uint32_t)CONTAINERS_PER_PAGE;
    for (uint32_t i = 0; i <= slots; i++) {
        struct record_disk *record = put(RECORD_CREATE, CREATE_BYTES);
        struct container_disk *container = (void *)(record + 1);
        memcpy(container->name, "x-0000", 6);
        for (uint32_t k = 0, n = i; k < 4; k++, n /= 10)
            container->name[5 - k] = (char)('0' + n % 10);
        container->segment_count = le32_of(1);
        container->segments[0].first_gib = le32_of(100 + i);
        container->segments[0].gib = le32_of(1);
        record->object = le64_of(store->next_object + i);
    }
    put_commit(0);
}

/* Aim: a group with right checksums and wrong records is R8: told, nothing written. */
static void records_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static void (*const cases[])(void) = { free_from_beyond, free_too_many, reserved_extent,
        image_odd, image_before_the_log, image_of_later, image_of_another, no_chain,
        commit_of_odd_length, type_unknown, no_commit, object_unknown, length_zero,
        claim_of_nothing, claim_from_beyond, claim_of_too_many, claim_for_nobody, claim_of_slot_b,
        claim_with_data,
        length_zero_inside, directory_full };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        make(4 << 20, 1 << 20);
        commit_pages(0, 3);
        crafted = group_open();
        crafted_records = 0;
        cases[i]();
        assert_int_equal(store_group_seal(crafted), 0);
        assert_int_equal(store_group_write(crafted), 0);
        store_abandon(store);
        uint32_t writes = device.writes;
        assert_int_equal(open_with(0), -EUCLEAN);
        assert_string_equal(report.rule, "R8");
        assert_int_equal(device.writes, writes);
        device_close(&device);
        assert_int_equal(memory_live, 0);
    }
}

/* Aim: a group that was spoiled in memory after it was sealed fences the store. */
static void a_group_spoiled_in_memory_fences(void **state)
{
    (void)state;
    make(1 << 20, 64 << 10);
    crafted = group_open();
    put_page(RECORD_PAGE_FREE, 0, 0);
    put_commit(0);
    assert_int_equal(store_group_seal(crafted), 0);
    assert_int_equal(store_group_write(crafted), 0);
    memset(crafted->buffer + sizeof(struct group_disk), 0, sizeof(struct record_disk));
    assert_int_equal(store_group_apply(crafted), -EUCLEAN);
    assert_int_equal(store_error(store), -EUCLEAN);
    assert_int_equal(store_close(store), -EUCLEAN);
    device_close(&device);
    assert_int_equal(memory_live, 0);
}

/* Aim: a table whose pages are used up refuses a leaf. */
static void a_leaf_without_a_page_is_refused(void **state)
{
    (void)state;
    int error = 0;
    make(4 << 20, 64 << 10);
    while (meta_page_new(store, META_NAMES, 0))
        ;
    for (uint64_t i = 0; i < store->super.extents && !error; i++) {
        uint8_t bytes[8192] = { 0 };
        struct store_group group = { .store = store, .buffer = bytes,
                                     .used = sizeof(struct group_disk) };
        if (store->extents[i].state != EXTENT_FREE)
            continue;
        crafted = &group;
        crafted_records = 0;
        put_page(RECORD_PAGE_FULL, i * store->extent_pages, i);
        put_commit(0);
        struct group_disk *header = (void *)bytes;
        uint64_t txns = 0;
        header->blocks = le32_of(2);
        header->records = le32_of(group.records);
        header->payload_bytes = le32_of((uint32_t)(group.used - sizeof *header));
        error = records_apply(store, bytes, store->end_lsn, &txns);
        assert_true(txns == !error);
    }
    assert_int_equal(error, -EUCLEAN);
    unmake();
}

/* ---- chains before the redo LSN */

/* A chain of two groups; a checkpoint between them; its commit behind. */
static struct store_chain *chain_of_two(void)
{
    static const uint8_t page[STORE_PAGE_BYTES] = { 7 };
    struct store_chain *chain;
    assert_int_equal(store_chain_begin(store, 2, &chain), 0);
    for (uint64_t i = 0; i < 2; i++) {
        struct store_group *group = group_open();
        assert_int_equal(store_spill_page(group, chain, object, 60 + i, page), 0);
        group_done(group);
        if (!i)
            checkpoint();
    }
    return chain;
}

/* Aim: each number in a chain's commit record must be the one that the log says. */
static void a_chain_is_what_its_commit_says(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 5; i++) {
        uint32_t position;
        make(4 << 20, 1 << 20);
        struct store_chain *chain = chain_of_two();
        struct store_group *group = group_open();
        store_txn_begin(group, 2);
        assert_int_equal(store_txn_chain(group, chain), 0);
        chain->head_lsn += i == 1 ? BLOCK_BYTES : 0;
        chain->groups += i == 2;
        chain->crc += i == 3;
        chain->number += i == 4;
        assert_int_equal(store_txn_end(group, &position), 0);
        group_done(group);
        store_abandon(store);
        assert_int_equal(open_with(0), i ? -EUCLEAN : 0);
        if (i)
            store = NULL;
        unmake();
    }
}

/* Aim: a group before the redo LSN that holds no records is refused; one that is lost is not missed
 * when nothing needs it, also when nothing follows the redo LSN. */
static void groups_before_the_redo_lsn(void **state)
{
    (void)state;
    static const uint8_t page[STORE_PAGE_BYTES] = { 7 };
    for (int spoiled = 0; spoiled < 2; spoiled++) {
        struct store_chain *chain;
        make(4 << 20, 1 << 20);
        assert_int_equal(store_chain_begin(store, 2, &chain), 0);
        crafted = group_open();
        assert_int_equal(store_spill_page(crafted, chain, object, 60, page), 0);
        if (spoiled)
            put(RECORD_NOOP, 0)->length = le32_of(8);
        assert_int_equal(store_group_seal(crafted), 0);
        uint64_t at = store->super.log_start + crafted->lsn % store->super.log_bytes;
        assert_int_equal(store_group_write(crafted), 0);
        int applied = store_group_apply(crafted);
        if (spoiled) {                  /* the fence is lifted for a checkpoint behind it */
            assert_int_equal(applied, -EUCLEAN);
            store->fence = 0;
        }
        checkpoint();
        if (spoiled)
            commit_pages(0, 1);
        else
            device.image[at + 100] ^= 1;
        store_abandon(store);
        assert_int_equal(open_with(spoiled ? 0 : STORE_READ_ONLY), spoiled ? -EUCLEAN : 0);
        if (spoiled)
            store = NULL;
        else
            assert_int_equal(report.groups, 0);
        unmake();
    }
}

/* ---- an open in which everything is needed, and not to be had */

/* A small group, then one that is larger than what the scan reads ahead, then a chain's groups. */
static uint64_t before_large;           /* the LSN of the group before the last one */

static void make_large(void)
{
    make(16 << 20, 4 << 20);
    commit_pages(0, 1);
    commit_pages(1, 90);
    struct store_chain *chain = chain_of_two();
    struct store_group *group = group_open();
    uint32_t position;
    store_txn_begin(group, 2);
    assert_int_equal(store_txn_chain(group, chain), 0);
    assert_int_equal(store_txn_end(group, &position), 0);
    before_large = store->end_lsn;
    group_done(group);
    commit_pages(1, 90);
    store_abandon(store);
    store = NULL;
    undo_begin(&device);
}

/* Opens with the i-th allocation failing, for each i; what must come out of the last. */
static void open_without_memory(int last)
{
    int error = -ENOMEM;
    for (uint32_t i = 1; error == -ENOMEM; i++) {
        memory_count = memory_fired = 0;
        memory_fail_at = i;
        error = open_with(0);
        assert_true(memory_fired ? error == -ENOMEM : error == last);
        memory_fail_at = 0;
        if (!error)
            store_abandon(store);
        undo_to(&device, 0);
        assert_int_equal(memory_live, 0);
    }
}

static void an_open_without_memory_says_so(void **state)
{
    (void)state;
    make_large();
    open_without_memory(0);
    struct superblock super;
    uint32_t version;
    struct superblock other;
    assert_int_equal(superblock_decode((void *)device.image, device.bytes, 0, &super, &version), 0);
    uint64_t b = super.slot_b_offset;
    assert_int_equal(superblock_decode((void *)(device.image + b), device.bytes, b, &other,
                                       &version), 0);
    if (other.generation > super.generation)
        super = other;
    uint32_t newest = super.checkpoint_index;
    uint64_t at = super.log_start + super.checkpoints[newest].redo_lsn % super.log_bytes;
    device.image[super.area_start[newest]] ^= 1;        /* and with the older checkpoint */
    open_without_memory(0);
    device.image[super.area_start[newest]] ^= 1;
    device.image[at + 100] ^= 1;
    open_without_memory(-EUCLEAN);
    device.image[at + 100] ^= 1;
    at = super.log_start + before_large % super.log_bytes;
    device.image[at + 100] ^= 1;        /* what proves a loss is a large group */
    open_without_memory(-EUCLEAN);
    store = NULL;
    unmake();
}

static void an_open_that_cannot_read_says_so(void **state)
{
    (void)state;
    make_large();
    uint32_t fired = 1;
    for (uint32_t i = 1; fired; i++) {
        device.fail_kinds = FAIL_READ;
        device.requests = device.fired = 0;
        device.fail_at = i;
        device.fail_sticky = true;
        int error = open_with(0);
        fired = device.fired;
        device.fail_kinds = 0;
        assert_true(fired ? error == -EIO || error == -EUCLEAN || !error : !error);
        if (!error)
            store_abandon(store);
        undo_to(&device, 0);
        assert_int_equal(memory_live, 0);
    }
    store = NULL;
    unmake();
}

/* A disk that gives zeros from some read on: what was verified is not there a moment later. */
static uint32_t reads_left;

static int read_some(void *context, uint64_t offset, void *buffer, size_t bytes)
{
    struct disk_io real = device_io(context);
    int error = real.read(real.context, offset, buffer, bytes);
    if (!reads_left)
        memset(buffer, 0, bytes);
    else
        reads_left--;
    return error;
}

static void a_disk_that_forgets_is_told(void **state)
{
    (void)state;
    const char *why;
    uint32_t opened = 0, refused = 0;
    make_large();
    for (uint32_t i = 3; !opened; i++) {
        reads_left = i;
        io.read = read_some;
        int error = open_with(0);
        opened = reads_left > 0;        /* not one read of it was wrong */
        assert_true(!opened || !error);
        refused += error == -EIO || error == -EUCLEAN;
        if (!error) {
            assert_int_equal(store_check(store, &why), 0);
            store_abandon(store);
        }
        undo_to(&device, 0);
    }
    assert_true(refused > 3);
    store = NULL;
    unmake();
}

/* A blank disk of which the first blocks cannot all be read is not called blank. */
static void an_unreadable_block_is_not_blank(void **state)
{
    (void)state;
    device_open(&device, 1 << 20);
    io = device_io(&device);
    assert_int_equal(open_with(0), -ENODATA);
    for (uint32_t i = 4; i < 7; i++) {
        device.fail_kinds = FAIL_READ;
        device.requests = 0;
        device.fail_at = i;
        device.fail_sticky = true;
        assert_int_equal(open_with(0), -EMEDIUMTYPE);
    }
    device.fail_kinds = 0;
    device_close(&device);
    assert_int_equal(memory_live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_field_of_a_superblock_has_its_range),
        cmocka_unit_test(each_field_of_a_signpost_has_its_range),
        cmocka_unit_test(a_full_table_of_epochs_is_refused),
        cmocka_unit_test(an_older_checkpoint_without_log_is_not_kept),
        cmocka_unit_test(a_header_that_cannot_be_ends_the_log),
        cmocka_unit_test(records_that_do_not_fit_are_refused),
        cmocka_unit_test(a_group_spoiled_in_memory_fences),
        cmocka_unit_test(a_leaf_without_a_page_is_refused),
        cmocka_unit_test(a_chain_is_what_its_commit_says),
        cmocka_unit_test(groups_before_the_redo_lsn),
        cmocka_unit_test(an_open_without_memory_says_so),
        cmocka_unit_test(an_open_that_cannot_read_says_so),
        cmocka_unit_test(a_disk_that_forgets_is_told),
        cmocka_unit_test(an_unreadable_block_is_not_blank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
