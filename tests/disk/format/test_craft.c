/*
 * test_craft.c - bytes that no store writes, one field at a time, with right checksums.
 *
 * Random mutations find most of what a reader must refuse; here each single rule of superblock,
 * signpost, group and record is broken on its own, and only that one.
 */
#include "stage.h"

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

static void epoch_last(struct superblock *s)   { s->epochs[0].epoch = UINT32_MAX - 1; }

static void each_field_of_a_superblock_has_its_range(void **state)
{
    (void)state;
    static spoil_fn *const spoils[] = {
        huge, many_extents, end_early, end_huge, end_odd, epochs_lsn, epochs_number,
        epoch_last };
    static struct superblock_disk slot;
    struct superblock super, out;
    uint32_t version;
    make_saved(1 << 20, 64 << 10);
    super = store->super;
    super.slot = super.generation & 1;
    super.end_lsn = store->log.end;
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
    abandon();
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
        make_saved(1 << 20, 64 << 10);
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
            store->log.epoch = 1;
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
    make_saved(1 << 20, 64 << 10);
    for (int i = 0; i < 12; i++) {
        commit_pages(0, 3);
        checkpoint();
    }
    struct superblock super = store->super;
    struct checkpoint_info *older = &super.checkpoints[!super.checkpoint_index];
    assert_true(store->log.end > 2 * super.log_bytes);
    super.generation++;
    older->scan_lsn = older->redo_lsn = super.log_bytes;
    assert_int_equal(superblock_write(&io, &super, block), 0);
    store_abandon(store);
    for (int i = 0; i < 2; i++) {       /* and again, with what it has saved */
        assert_int_equal(open_with(0), 0);
        assert_int_equal(store_check(store, &why), 0);
        assert_true(store->log.end - store->log.keep <= store->super.log_bytes);
        commit_pages(0, 1);
        checkpoint();
        if (!i)
            store_abandon(store);
    }
    abandon();
}

/* ---- groups: headers that nearly hold */

/* The log ends where a group says something that cannot be, whatever its CRC says. */
static void a_header_that_cannot_be_ends_the_log(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        make_saved(1 << 20, 64 << 10);
        commit_pages(0, 1);
        uint64_t lsn = store->log.applied;
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
        case 3: header->epoch = le32_of(EPOCH_LIMIT); break;
        default: header->blocks = le32_of(0); blocks = 1;
        }
        header->crc = le32_of(group_crc(&store->super, group, blocks * BLOCK_BYTES, 0));
        store_abandon(store);
        assert_int_equal(open_with(0), 0);
        assert_int_equal(report.end_lsn, lsn);
        assert_int_equal(report.torn_tail, i != 3);     /* of no epoch that can be */
        abandon();
    }
}

/* ---- records that fit nothing */

static struct store_group *crafted;
static uint32_t crafted_records;

static struct record_disk *put(enum record_type type, uint32_t bytes)
{
    struct record_disk *record = record_add(crafted, type, object, 0, bytes);
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
        le64_of(crafted->store->log.end - 8);
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
        le64_of(crafted->store->log.end + 4096);
    put_commit(0);
}
static void image_of_another(void)      /* the group before, whose bytes have another CRC */
{
    put_page(RECORD_PAGE_LOGGED, 40, extent_of(EXTENT_FREE))->base =
        le64_of(crafted->store->log.end - 4096);
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
    put(RECORD_TYPES, 0);
    put_commit(0);
}
static void encoder_unknown(void)
{
    put_page(RECORD_ENCODER, STORE_ENCODER_COUNT, 0);
    put_commit(0);
}
static void locking_unknown(void)
{
    put_page(RECORD_LOCKING, STORE_LOCKING_COUNT, 0);
    put_commit(0);
}
static void protection_unknown(void)
{
    put_page(RECORD_PROTECTION, STORE_PROTECTION_COUNT, 0);
    put_commit(0);
}
static void durability_unknown(void)
{
    put_page(RECORD_DURABILITY, STORE_DURABILITY_COUNT, 0);
    put_commit(0);
}
static void out_of_the_log_with_pages(void)                                     /* UL2 */
{
    put_page(RECORD_DURABILITY, STORE_DURABILITY_VOLATILE, 0);
    put_commit(0);
}
static void written_and_not_logged(void)                                        /* UL1 */
{
    struct record_disk *record = put_page(RECORD_PAGE_CLAIM, 40, extent_of(EXTENT_FREE));
    record->base = le64_of(1);
    record->flags = le16_of(RECORD_WRITTEN);
    put_commit(0);
}
static void packed_by_nobody(void)                                              /* PK1 */
{
    struct record_disk *record = put_page(RECORD_PAGE_FULL, 40, extent_of(EXTENT_FREE));
    record->flags = le16_of(RECORD_PACKED);
    put_commit(0);
}
static void operations_on(uint64_t base, const uint8_t *data, uint32_t bytes)
{
    struct record_disk *record = put(RECORD_PAGE_OP, bytes);
    memcpy(record + 1, data, bytes);
    record->page = le64_of(40);
    record->base = le64_of(base);
    record->physical = le64_of(extent_of(EXTENT_FREE));
    put_commit(0);
}
static void operation_behind_its_page(void)         /* 16 at 4,090, that stood 100 before */
{
    operations_on(0, (const uint8_t[]){ 0xe9, 0x7f, 16, 0xc8, 1 }, 5);
}
static void operation_from_behind_its_page(void)    /* 16 bytes, of those from 4,090 on */
{
    operations_on(0, (const uint8_t[]){ 1, 16, 0xf5, 63 }, 4);
}
static void operation_unknown(void)
{
    operations_on(0, (const uint8_t[]){ 3, 1, 1, 1 }, 4);
}
static void operation_cut_off(void)
{
    operations_on(0, (const uint8_t[]){ 0, 4, 1, 1, 1 }, 5);
}
static void operation_on_nothing(void)              /* what it is against is not there */
{
    operations_on(4096, (const uint8_t[]){ 2, 1, 1, 0 }, 3);
}
static void locking_unknown_at_first(void)
{
    struct record_disk *record = put(RECORD_CREATE, CREATE_BYTES);
    struct container_disk *container = (void *)(record + 1);
    memcpy(container->name, "x", 2);
    container->segment_count = container->segments[0].gib = le32_of(1);
    container->segments[0].first_gib = le32_of(100);
    container->locking = le16_of(STORE_LOCKING_COUNT);
    record->object = le64_of(store->kept.next_object);
    put_commit(0);
}
static void move_over_another(void)
{
    put_page(RECORD_MOVE, 0, extent_of(EXTENT_USED));
    put_commit(0);
}
static void move_to_what_is_reserved(void)
{
    put_page(RECORD_MOVE, 0, extent_of(EXTENT_RESERVED));
    put_commit(0);
}
static void move_of_half_an_extent(void)
{
    put_page(RECORD_MOVE, 1, extent_of(EXTENT_FREE));
    put_commit(0);
}
static void move_of_nothing(void)
{
    put_page(RECORD_MOVE, 4096, extent_of(EXTENT_FREE));
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
static void claim_runs_into_slot_b(void)  /* its first extent is free, the one behind is not */
{
    struct record_disk *record = put_claim(40, 2 * store->extent_pages, EXTENT_FREE);
    record->physical = le64_of(extent_of(EXTENT_RESERVED) - 1);
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
/* 2 pages from `page` on that are said to be home. */
static struct record_disk *put_home(uint64_t page, enum extent_state where)
{
    struct record_disk *record = put(RECORD_PAGE_HOME, 2 * sizeof(le32));
    record->object = le64_of(object);
    record->page = le64_of(page);
    record->base = le64_of(2);
    record->physical = le64_of(extent_of(where));
    return record;
}
static void home_of_nothing(void)
{
    struct record_disk *record = put_home(40, EXTENT_FREE);
    record->base = record->page;
    put_commit(0);
}
static void home_of_another_size(void)
{
    put_home(40, EXTENT_FREE)->base = le64_of(3);
    put_commit(0);
}
static void home_of_a_size_that_wraps(void)
{
    put_home(40, EXTENT_FREE)->base = le64_of((1ull << 62) + 2);
    put_commit(0);
}
static void home_from_beyond(void)
{
    put_home(UINT64_MAX - 1, EXTENT_FREE);
    put_commit(0);
}
static void home_for_nobody(void)
{
    put_home(40, EXTENT_FREE)->object = le64_of(77);
    put_commit(0);
}
static void home_in_slot_b(void)
{
    put_home(40, EXTENT_RESERVED);
    put_commit(0);
}
static void home_in_an_extent_of_before(void)       /* the container's own, another page of it */
{
    put_home(1, EXTENT_USED)->base = le64_of(2);
    put_commit(0);
}
static void home_over_a_page_of_it(void)            /* both of one transaction */
{
    put_page(RECORD_PAGE_FULL, 40, extent_of(EXTENT_FREE));
    put_home(40, EXTENT_FREE);
    put_commit(0);
}
static void difference_from_home(void)
{
    struct record_disk *record;
    uint64_t csn;
    put_home(40, EXTENT_FREE);
    csn = crafted->store->log.end + crafted->used;
    put_commit(0);
    record = put_page(RECORD_PAGE_DIFF, 40, extent_of(EXTENT_FREE));
    record->base = le64_of(csn);
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
        record->object = le64_of(store->kept.next_object + i);
    }
    put_commit(0);
}

/* Aim: a group with right checksums and wrong records is RV8: told, nothing written. */
static void records_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static void (*const cases[])(void) = { free_from_beyond, free_too_many, reserved_extent,
        image_odd, image_before_the_log, image_of_later, image_of_another, no_chain,
        commit_of_odd_length, type_unknown, encoder_unknown, locking_unknown,
        locking_unknown_at_first, protection_unknown, move_over_another, move_to_what_is_reserved,
        move_of_half_an_extent, move_of_nothing, durability_unknown, out_of_the_log_with_pages,
        written_and_not_logged, packed_by_nobody, operation_behind_its_page,
        operation_from_behind_its_page, operation_unknown,
        operation_cut_off, operation_on_nothing, no_commit, object_unknown, length_zero,
        claim_of_nothing, claim_from_beyond, claim_of_too_many, claim_for_nobody, claim_of_slot_b,
        claim_runs_into_slot_b, claim_with_data, home_of_nothing, home_of_another_size,
        home_of_a_size_that_wraps, home_from_beyond, home_for_nobody, home_in_slot_b,
        home_in_an_extent_of_before, home_over_a_page_of_it, difference_from_home,
        length_zero_inside, directory_full };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        make_saved(4 << 20, 1 << 20);
        commit_pages(0, 3);
        crafted = group_open();
        crafted_records = 0;
        cases[i]();
        assert_int_equal(store_group_seal(crafted), 0);
        assert_int_equal(store_group_write(crafted), 0);
        store_abandon(store);
        uint32_t writes = device.writes;
        assert_int_equal(open_with(0), -EUCLEAN);
        assert_string_equal(report.rule, "RV8");
        assert_int_equal(device.writes, writes);
        device_close(&device);
        assert_int_equal(memory_live, 0);
    }
}

/* Aim: a group that was spoiled in memory after it was sealed fences the store. */
static void a_group_spoiled_in_memory_fences(void **state)
{
    (void)state;
    make_saved(1 << 20, 64 << 10);
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
    make_saved(4 << 20, 64 << 10);
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
        error = records_apply(store, bytes, store->log.end, &txns);
        assert_true(txns == !error);
    }
    assert_int_equal(error, -EUCLEAN);
    abandon();
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
