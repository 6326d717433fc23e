/*
 * test_prepared_crash.c - transactions of several stores: damage to what is in doubt, hostile
 * records about it, and random lives of them with every crash state.
 */
#include "crew.h"
#include "life.h"
#include "opinion.h"
#include "prepared_rig.h"

#define STEPS 30u
#define CHUNK_STEPS 60u

static uint64_t ring(const struct bench *b, uint64_t lsn)
{
    return b->store->super.log_start + lsn % b->store->super.log_bytes;
}

/* Aim (TP5, TP2): a vote whose record or image is lost before the redo LSN is not forgotten: the
 * store says so. */
static void a_lost_vote_is_damage(void **state)
{
    (void)state;
    struct bench b;
    struct store *damaged;
    struct kcheck_result own;
    char said[OPINION_BYTES];
    bench_open(&b, 4 << 20, 1 << 20);
    uint64_t lsn = b.store->log.end;
    assert_int_equal(prepare(&b, 1, 0, 3), 0);
    uint64_t end = b.store->log.end, at = ring(&b, lsn);
    bench_checkpoint(&b);
    assert_int_equal(write_page(&b, 9, 7), 0);
    store_abandon(b.store);
    b.store = NULL;
    for (uint64_t i = 0; i < end - lsn; i += 512) {
        b.device.image[at + i] ^= 1;
        assert_int_equal(store_open(&b.io, &test_memory, NULL, &damaged, &b.report), -EUCLEAN);
        assert_int_not_equal(b.report.damage_lsn, 0);
        assert_string_equal(b.report.rule, "RV8");
        opinion_ask(&b.device, &own, said);
        assert_int_equal(own.error, -EUCLEAN);
        b.device.image[at + i] ^= 1;
    }
    bench_reopen(&b);
    assert_int_equal(decide(&b, 1), 0);
    bench_close(&b);
}

/* Aim (TP5): nor does another one stand in for it, which was decided in what is lost: they are as
 * many. */
static void another_vote_does_not_stand_in(void **state)
{
    (void)state;
    struct bench b;
    struct store *damaged;
    struct kcheck_result own;
    char said[OPINION_BYTES];
    bench_open(&b, 4 << 20, 1 << 20);
    assert_int_equal(prepare(&b, 1, 0, 3), 0);
    assert_int_equal(prepare(&b, 2, 3, 6), 0);
    uint64_t at = ring(&b, b.store->log.end);
    assert_int_equal(bench_alone(&b, 2, store_undo), 0);
    assert_int_equal(prepare(&b, 3, 6, 9), 0);
    bench_checkpoint(&b);
    assert_int_equal(write_page(&b, 9, 7), 0);
    store_abandon(b.store);
    b.store = NULL;
    b.device.image[at] ^= 1;
    assert_int_equal(store_open(&b.io, &test_memory, NULL, &damaged, &b.report), -EUCLEAN);
    assert_string_equal(b.report.rule, "RV8");
    opinion_ask(&b.device, &own, said);
    assert_int_equal(own.error, -EUCLEAN);
    b.device.image[at] ^= 1;
    bench_reopen(&b);
    assert_int_equal(b.report.doubts, 2);
    assert_int_equal(decide(&b, 3), 0);
    bench_close(&b);
}

/* A vote or, of kind 2, a chain in the log, and a checkpoint behind it; then it is over (committed,
 * or of kind 1 undone), and another checkpoint needs nothing of it. */
static void over_between_checkpoints(struct bench *b, int kind)
{
    struct store_chain *chain = NULL;
    struct store_group *group = bench_group(b);
    uint32_t position;
    if (kind == 2) {
        assert_int_equal(store_chain_begin(b->store, 2, &chain), 0);
        assert_int_equal(bench_spill(b, group, chain, 0, 100), 0);
    } else {
        assert_int_equal(prepare_in(b, group, 1, 0, 3, &chain), 0);
    }
    group_done(group);
    bench_checkpoint(b);
    if (kind < 2) {
        assert_int_equal(kind ? bench_alone(b, 1, store_undo) : decide(b, 1), 0);
    } else {
        group = bench_group(b);
        store_txn_begin(group, 2);
        assert_int_equal(store_txn_chain(group, chain), 0);
        assert_int_equal(store_txn_end(group, &position), 0);
        group_done(group);
        store_chain_end(chain);
    }
    bench_checkpoint(b);
}

/* Aim (ST20): the older checkpoint alone needs the log of a vote, or a chain, that is over. When
 * that rots nothing is lost: kcheck warns, as of any log that only the older one needs. */
static void a_vote_that_is_over_is_no_loss(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        struct bench b;
        struct kcheck_result own;
        char said[OPINION_BYTES];
        bench_open(&b, 4 << 20, 1 << 20);
        uint64_t at = ring(&b, b.store->log.end);
        over_between_checkpoints(&b, kind);
        store_abandon(b.store);
        for (int rotten = 0; rotten < 2; rotten++) {
            b.device.image[at] ^= (uint8_t)rotten;
            opinion_ask(&b.device, &own, said);
            if (own.error || own.damages)
                fail_msg("kind %d: %s (error %d)", kind, said, own.error);
            assert_int_equal(own.warnings, rotten);
        }
        assert_int_equal(store_open(&b.io, &test_memory, NULL, &b.store, &b.report), 0);
        assert_int_equal(b.report.doubts, 0);
        page_is(&b, 0, kind == 1 ? 0 : 100);
        bench_close(&b);
    }
}

/* The newest group's records, to be changed; then its CRC is made anew. */
static struct record_disk *crafted(struct bench *b, uint64_t lsn, uint32_t type)
{
    uint8_t *group = b->device.image + b->store->super.log_start +
                     lsn % b->store->super.log_bytes;
    struct record_walk walk = group_walk(group);
    const struct record_disk *record;
    while (record_next(&walk, &record) > 0)
        if (le16_get(record->type) == type)
            return (struct record_disk *)record;
    fail();
    return NULL;
}

/* Every byte of a PREPARED and of a DECIDED record in turn, in a group of a right CRC: the store
 * opens or refuses, never crashes, and kcheck says the same. */
static void hostile_records_are_refused_or_harmless(void **state)
{
    (void)state;
    struct bench b;
    uint32_t refused = 0, opened = 0;
    for (int kind = 0; kind < 3; kind++) {
        bench_open(&b, 4 << 20, 256 << 10);
        struct store_chain *chain = NULL;
        if (kind)
            assert_int_equal(prepare(&b, 1, 0, 3), 0);
        uint64_t lsn = b.store->log.end;
        if (kind == 0) {
            struct store_group *group = bench_group(&b);
            assert_int_equal(prepare_in(&b, group, 1, 0, 3, &chain), 0);
            group_done(group);
        } else if (kind == 1)
            assert_int_equal(decide(&b, 1), 0);
        else
            assert_int_equal(bench_alone(&b, 1, store_undo), 0);
        uint8_t *group = b.device.image + ring(&b, lsn);
        struct record_disk *record = crafted(&b, lsn, kind ? RECORD_DECIDED : RECORD_PREPARED);
        uint32_t length = le32_get(record->length);
        struct superblock super = b.store->super;
        store_abandon(b.store);
        b.store = NULL;
        for (uint32_t i = 0; i < length * 3; i++) {
            struct group_disk *header = (void *)group;
            uint8_t *byte = (uint8_t *)record + i / 3, was = *byte;
            le32 crc = header->crc;
            *byte = i % 3 == 0 ? was ^ 1 : i % 3 == 1 ? was ^ 0x80 : (uint8_t)~was;
            header->crc = le32_of(group_crc(&super, group, group_bytes(group), 0));
            struct kcheck_result own;
            char said[OPINION_BYTES];
            opinion_ask(&b.device, &own, said);
            undo_begin(&b.device);
            int error = store_open(&b.io, &test_memory, NULL, &b.store, &b.report);
            if (error != own.error)
                fail_msg("kind %d, byte %u: the store says %d, kcheck %d", kind, i / 3, error,
                         own.error);
            if (!error)
                store_abandon(b.store);
            undo_to(&b.device, 0);
            b.device.undoing = false;
            b.store = NULL;
            opened += !error;
            refused += error != 0;
            *byte = was;
            header->crc = crc;
        }
        bench_close(&b);
    }
    printf("# %u changed records opened, %u refused\n", opened, refused);
    assert_true(opened > 100 && refused > 100);
}

/* ---- lives */

enum { STATES, SECOND, THIRD, VOTES };

static void lives_of(uint64_t kind, uint64_t seed, uint64_t states_max)
{
    struct enumerate_options options = {
        .tear = true, .garble = true, .depth = 2, .third_odds = 200, .second_steps = 3,
        .random_subsets = 3, .rot_flips = 4,
        .states_max = crew_times() > 1 ? UINT64_MAX : states_max,
        .second_odds = seed % 2 ? 40 : 500 };
    struct enumerate_result result = { .states = 0 };
    crew_at("life", seed);
    life_run(kind | (LIFE_DOUBTS + seed), kind ? CHUNK_STEPS : STEPS, &options, &result);
    if (result.failed)
        crew_fail("%s: %s", result.method, result.text);
    if (memory_live)
        crew_fail("%lld bytes of memory are lost", (long long)memory_live);
    crew_add(STATES, result.states);
    crew_add(SECOND, result.second_states);
    crew_add(THIRD, result.third_states);
}

static void life_survives(uint64_t seed)
{
    lives_of(0, seed, 4000);
}

static void life_by_chunks_survives(uint64_t seed)
{
    lives_of(LIFE_CHUNKS, seed, crew_long() ? 4000 : 800);
}

/* Aim: no crash state loses a vote or a decision, invents one, or has a part of one. */
static void lives_of_prepared_transactions_survive_every_crash_state(void **state)
{
    (void)state;
    uint64_t lives = crew_count(24);
    assert_true(crew_run(__func__, lives, life_survives));
    printf("# %llu lives, %llu crash states: %llu after a second crash, %llu after a third\n",
           (unsigned long long)lives, (unsigned long long)crew_sum(STATES),
           (unsigned long long)crew_sum(SECOND), (unsigned long long)crew_sum(THIRD));
    assert_true(crew_part() || crew_sum(STATES) > 1000);
}

/* Aim: the same when the pages of a redo point are those of a sweep (CU3): votes whose records and
 * images lie before it, or are written again in it, and decisions behind it. */
static void lives_of_both_survive_every_crash_state(void **state)
{
    (void)state;
    uint64_t lives = crew_count(crew_long() ? 24 : 9);
    assert_true(crew_run(__func__, lives, life_by_chunks_survives));
    printf("# %llu crash states, %llu after a second crash\n", (unsigned long long)crew_sum(STATES),
           (unsigned long long)crew_sum(SECOND));
    assert_true(crew_part() || crew_sum(STATES) > 1000);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_vote_is_damage),
        cmocka_unit_test(another_vote_does_not_stand_in),
        cmocka_unit_test(a_vote_that_is_over_is_no_loss),
        cmocka_unit_test(hostile_records_are_refused_or_harmless),
        cmocka_unit_test(lives_of_prepared_transactions_survive_every_crash_state),
        cmocka_unit_test(lives_of_both_survive_every_crash_state),
    };
    (void)argc;
    crew_begin(argv[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
