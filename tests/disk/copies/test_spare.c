/*
 * test_spare.c - a home and its copy: two disks, each of which may lose what it has not flushed.
 *
 * Aim     what a home has acknowledged with its spare is there when the spare takes over, whatever
 *         was cut when; a former home joins again by what its log lacks; nothing that was cut from
 *         a log comes back, nor is anything of it in pages.
 * Method  a world works at the home. Behind each write of its disk the groups that are written go
 *         to the copy; when its flush ends both have them. Lives of that are cut at every event of
 *         the copy's disk; and pairs live on through deaths of either.
 */
#include "crew.h"
#include "internal.h"
#include "life.h"
#include "spare_rig.h"

static uint64_t slot_b_offset;

static void copy_survives(uint64_t seed)
{
    struct enumerate_options options = { .tear = true, .garble = true, .depth = 2,
                                         .second_odds = 100, .third_odds = 200, .second_steps = 3,
                                         .random_subsets = 3, .rot_flips = 4,
                                         .states_max = crew_times() > 1 ? UINT64_MAX : 4000 };
    struct enumerate_result result = { .states = 0 };
    struct store_report report;
    struct device base;
    crew_at("life", seed);
    pair_begin(seed);
    device_open(&base, copy_device()->bytes);
    memcpy(base.image, copy_device()->image, base.bytes);
    require(world_open(world, &report) == 0);
    device_record(copy_device(), true);
    device_mark(copy_device(), 0, 0);
    marks_copy = true;
    require(join() == 0);
    work(40);
    struct store_spare_state state;
    struct store_epochs epochs;
    store_spare_tell(spare, &state, &epochs);
    crew_add(CHECKPOINTS, state.checkpoints);
    copy_device()->recording = marks_copy = false;
    store_spare_abandon(spare);
    spare = NULL;
    enumerate(world, copy_device()->events, copy_device()->event_count, &base, &options, seed,
              &result);
    if (result.failed)
        crew_fail("%s: %s", result.method, result.text);
    crew_add(STATES, result.states);
    crew_add(SECOND, result.second_states);
    device_close(&base);
    pair_end();
}

/* Aim: at every crash state of a spare's disk all is there that was acknowledged, whether it was
 * applied or not, in the middle of its checkpoints, too. */
static void every_crash_state_of_a_spare_has_what_was_acknowledged(void **state)
{
    (void)state;
    assert_true(crew_run(__func__, crew_count(24), copy_survives));
    printf("# %llu groups taken, %llu checkpoints of spares, %llu crash states: %llu after a "
           "second crash\n", (unsigned long long)crew_sum(TAKEN),
           (unsigned long long)crew_sum(CHECKPOINTS), (unsigned long long)crew_sum(STATES),
           (unsigned long long)crew_sum(SECOND));
    assert_true(crew_part() || (crew_sum(STATES) > 10000 && crew_sum(CHECKPOINTS) > 20));
}

/* ---- pairs that live on */

static void record_begin(uint32_t side) { power_on(&sides[side]); }

static void power_cut(uint32_t side, bool slot_lost)
{
    power_off(&sides[side], &random_seed, slot_lost ? slot_b_offset : 0);
    record_begin(side);
}

/* A store that was opened on `side` is the home from now on: which commit has it? */
static void home_goes_on(uint32_t side, struct store *store, uint64_t acked)
{
    const struct world *from = world;
    const char *why = "-";
    require(store_check(store, &why) == 0);
    uint64_t k = commit_of(store, acked, "the home");
    world = &worlds[world == &worlds[0]];
    home_is(side);
    world_resume(world, from, k, store, &sides[side].device);
}

/* It recovers by itself, for the witness has let it, or its record says that it is alone. */
static void starts_alone(uint32_t side)
{
    struct store_report report;
    struct store_open_options options = options_of();
    struct disk_io io = device_io(&sides[side].device);
    struct store *store;
    int error = store_open(&io, &test_memory, &options, &store, &report);
    if (error)
        crew_fail("side %u does not start: %s (error %d)", side, report.message, error);
    home_goes_on(side, store, world->acked);
    crew_add(ALONE, 1);
}

static void spare_takes_over(void)
{
    struct store_report report;
    struct store *store;
    int error = store_spare_take_over(spare, &store, &report);
    spare = NULL;
    if (error)
        crew_fail("the spare does not take over: %s (error %d)", report.message, error);
    home_goes_on(!home, store, world->acked);
    crew_add(TAKE_OVERS, 1);
}

/* The home dies in the middle of a commit, of which the copy may have the group, or not. */
static void home_dies(bool slot_lost)
{
    struct store_group *group;
    int error = 0;
    world_chain_end(world);
    cut_off = below(2);
    if (store_group_begin(world->store, &group) == 0 && store_group_seal(group) == 0 && below(4))
        error = below(2) ? store_group_issue(group) : store_group_write(group);
    require(!error);
    cut_off = false;
    power_cut(home, slot_lost);
    world_abandon(world);
}

static void spare_dies(bool slot_lost)
{
    power_cut(!home, slot_lost);
    store_spare_abandon(spare);
    spare = NULL;
}

static void pair_lives(uint64_t seed)
{
    struct store_report report;
    crew_at("pair", seed);
    pair_begin(seed);
    require(world_open(world, &report) == 0);
    slot_b_offset = world->store->super.slot_b_offset;
    record_begin(0);
    record_begin(1);
    for (uint32_t i = 0; i < 14 && world->model.commits + 40 < WORLD_COMMITS; i++) {
        bool lost = below(4) == 0;
        crew_at("round", i);
        if (!spare && join()) {
            copy_all();
            record_begin(!home);
            require(join() == 0);
        }
        work((uint32_t)below(12));
        switch (below(5)) {
        case 0:                         /* the home alone dies */
        case 1:
            home_dies(lost);
            spare_takes_over();
            break;
        case 2:                         /* the spare dies; perhaps commits go on without it */
            spare_dies(lost);
            work((uint32_t)below(6));
            break;
        case 3:                         /* both die; either is first, with the witness's consent */
            home_dies(lost);
            spare_dies(!lost && below(4) == 0);
            starts_alone(below(2) ? !home : home);
            break;
        default:                        /* the home dies, starts again, and goes on alone */
            home_dies(lost);
            store_spare_abandon(spare);
            spare = NULL;
            starts_alone(home);
            work((uint32_t)below(4));
            break;
        }
    }
    for (int i = 0; i < 2; i++) {
        free(sides[i].before);
        sides[i].before = NULL;
    }
    pair_end();
}

/* Aim: homes and spares die, together and one after the other, with what their caches and one of
 * their slots had: whoever goes on has what was acknowledged, and who joins again agrees. */
static void pairs_live_through_deaths(void **state)
{
    (void)state;
    assert_true(crew_run(__func__, crew_count(200), pair_lives));
    printf("# %llu groups taken, %llu take-overs, %llu started alone, %llu joined: %llu with a log "
           "that was cut; %llu copied anew\n", (unsigned long long)crew_sum(TAKEN),
           (unsigned long long)crew_sum(TAKE_OVERS), (unsigned long long)crew_sum(ALONE),
           (unsigned long long)crew_sum(JOINS), (unsigned long long)crew_sum(CUT),
           (unsigned long long)crew_sum(COPIES));
    assert_true(crew_part() || (crew_sum(TAKE_OVERS) > 50 && crew_sum(CUT) > 10 &&
                                crew_sum(COPIES) * 4 < crew_sum(JOINS)));
}

/* ---- single calls */

static struct store_spare *copy_open(void)
{
    struct store_report report;
    struct store_open_options options = options_of();
    struct disk_io io = device_io(copy_device());
    struct store_spare *to;
    assert_int_equal(store_spare_open(&io, &test_memory, &options, &to, &report), 0);
    return to;
}

/* A home with some commits, whose copy is as it was before them. */
static void pair_apart(void)
{
    struct store_report report;
    pair_begin(4);
    assert_int_equal(world_open(world, &report), 0);
    assert_int_equal(join(), 0);
    struct store_spare *gone = spare;
    spare = NULL;
    store_spare_abandon(gone);
    world_commit(world, 1, false);
}

/* Aim: a copy takes the next group of its home, and nothing else: none before it has joined, none
 * of which a byte differs, none twice; nor one with pages that are in no log. */
static void only_the_next_group_is_taken(void **state)
{
    (void)state;
    struct store_spare_state s;
    struct store_epochs theirs, ours;
    struct store_feed f;
    struct store_mark mark;
    store_lsn_t have;
    const void *group;
    size_t bytes;
    pair_apart();
    struct store_spare *to = copy_open();
    store_spare_tell(to, &s, &theirs);
    assert_int_equal(feed_begin(&f, &theirs, s.end_lsn), 0);
    assert_int_equal(f.lsn, s.end_lsn);
    store_lsn_t lsn = f.lsn;
    uint32_t crc = f.prev_crc;
    store_mark_tell(world->store, &mark);
    store_epochs_tell(world->store, &ours);
    assert_int_equal(store_feed_next(world->store, &f, &group, &bytes), 1);
    uint8_t *changed = malloc(bytes);
    assert_non_null(changed);
    memcpy(changed, group, bytes);
    assert_int_equal(store_spare_take(to, changed, bytes, &mark), -EINVAL);
    assert_int_equal(store_spare_apply(to, 0), -EINVAL);
    assert_int_equal(store_spare_join(to, lsn, crc, &ours, lsn, &mark), 0);
    for (size_t i = 0; i < bytes; i++) {
        changed[i] ^= 1;
        assert_int_equal(store_spare_take(to, changed, bytes, &mark), -EINVAL);
        changed[i] ^= 1;
    }
    assert_int_equal(store_spare_take(to, changed, bytes - BLOCK_BYTES, &mark), -EINVAL);
    assert_int_equal(store_spare_taken(to, &have), -EINVAL);
    struct record_disk *record = (void *)(changed + sizeof(struct group_disk));
    struct group_disk *header = (void *)changed;
    for (int i = 0; i < 3; i++) {       /* of another epoch, another history, another place */
        header->epoch = le32_of(le32_get(header->epoch) + (i == 0));
        header->prev_crc.byte[0] ^= i == 1;
        header->lsn = le64_of(le64_get(header->lsn) + (i == 2) * BLOCK_BYTES);
        header->crc = le32_of(group_crc(&world->store->super, changed, bytes, 0));
        assert_int_equal(store_spare_take(to, changed, bytes, &mark), -EINVAL);
        memcpy(changed, group, bytes);
    }
    le16 type = record->type;
    le32 sum = header->crc;
    record->type = le16_of(RECORD_PAGE_HOME);
    header->crc = le32_of(group_crc(&world->store->super, changed, bytes, 0));
    assert_int_equal(store_spare_take(to, changed, bytes, &mark), -EOPNOTSUPP);
    record->type = type;
    header->crc = sum;
    assert_int_equal(store_spare_take(to, changed, bytes, &mark), 0);
    assert_int_equal(store_spare_taken(to, &have), -EINVAL);    /* it is not written */
    assert_int_equal(store_spare_write(to), 0);
    assert_int_equal(store_spare_taken(to, &have), 0);
    assert_int_equal(have, lsn + bytes);
    assert_int_equal(store_spare_take(to, changed, bytes, &mark), -EINVAL);
    store_spare_tell(to, &s, &theirs);
    assert_int_equal(s.applied_lsn <= lsn, 1);      /* the home may not have it (SE2) */
    assert_int_equal(store_spare_apply(to, 0), 0);
    store_spare_tell(to, &s, &theirs);
    assert_int_equal(s.applied_lsn, lsn);
    free(changed);
    store_feed_end(world->store, &f);
    store_spare_abandon(to);
    pair_end();
}

/* How many slots, of what no cut can take away, have the newest epoch of these. */
static uint32_t slots_naming(const struct device *device, const struct store_epochs *epochs)
{
    uint32_t naming = 0, version;
    for (int i = 0; i < 2; i++) {
        uint64_t at = i ? slot_b_offset : 0;
        struct superblock super;
        bool pending = false;
        assert_int_equal(superblock_decode((void *)(device->image + at), device->bytes, at, &super,
                                           &version), SLOT_VALID);
        for (uint32_t e = 0; e < device->event_count; e++)
            pending |= device->events[e].kind == WRITE_ISSUE && device->events[e].offset == at &&
                       !write_durable(device, e);
        naming += !pending && super.epochs[super.epoch_count - 1].epoch ==
                                  epochs->of[epochs->count - 1].epoch;
    }
    return naming;
}

/* Aim: who joins names the home's epochs in both slots, and who opens its own, before any group
 * (SE3): by a join, a take-over, a start. */
static void both_slots_name_an_epoch(void **state)
{
    (void)state;
    struct store_report report;
    struct store_epochs epochs;
    struct store *store;
    pair_begin(4);
    assert_int_equal(world_open(world, &report), 0);
    slot_b_offset = world->store->super.slot_b_offset;
    device_record(copy_device(), true);
    assert_int_equal(join(), 0);
    store_epochs_tell(world->store, &epochs);
    assert_int_equal(slots_naming(copy_device(), &epochs), 2);
    world_commit(world, 1, false);
    device_record(copy_device(), true);
    assert_int_equal(store_spare_take_over(spare, &store, &report), 0);
    spare = NULL;
    store_epochs_tell(store, &epochs);
    assert_int_equal(slots_naming(copy_device(), &epochs), 2);
    store_abandon(store);
    for (int i = 0; i < 2; i++) {       /* with groups to be replayed, and without */
        struct store_open_options options = options_of();
        struct disk_io io = device_io(&sides[0].device);
        device_record(&sides[0].device, true);
        assert_int_equal(store_open(&io, &test_memory, &options, &store, &report), 0);
        store_epochs_tell(store, &epochs);
        assert_int_equal(slots_naming(&sides[0].device, &epochs), 2);
        store_abandon(store);
    }
    pair_end();
}

/* Aim: what is no common log of the two is not joined; and a copy that lacks what its home had made
 * durable does not become one. */
static void other_logs_are_not_joined(void **state)
{
    (void)state;
    struct store_spare_state s;
    struct store_epochs theirs, ours, wrong;
    struct store_report report;
    struct store *store;
    struct store_mark mark;
    struct store_feed f;
    pair_apart();
    struct store_spare *to = copy_open();
    store_spare_tell(to, &s, &theirs);
    assert_int_equal(feed_begin(&f, &theirs, s.end_lsn), 0);
    store_epochs_tell(world->store, &ours);
    store_mark_tell(world->store, &mark);
    assert_int_equal(store_spare_join(to, f.lsn, f.prev_crc + 1, &ours, 0, &mark), -ESTALE);
    assert_int_equal(store_spare_join(to, f.lsn + BLOCK_BYTES, f.prev_crc, &ours, 0, &mark),
                     -ESTALE);
    wrong = ours;
    wrong.count = 0;
    assert_int_equal(store_spare_join(to, f.lsn, f.prev_crc, &wrong, 0, &mark), -ESTALE);
    wrong.count = STORE_EPOCHS + 1;
    assert_int_equal(store_spare_join(to, f.lsn, f.prev_crc, &wrong, 0, &mark), -ESTALE);
    wrong = ours;                       /* an older home: what is cut would come back */
    wrong.of[wrong.count - 1].epoch--;
    assert_int_equal(store_spare_join(to, f.lsn, f.prev_crc, &wrong, 0, &mark), -ESTALE);
    wrong = ours;                       /* the home's epoch began behind the copy's end */
    wrong.of[wrong.count].epoch = wrong.of[wrong.count - 1].epoch + 1;
    wrong.of[wrong.count++].first_lsn = f.lsn + BLOCK_BYTES;
    assert_int_equal(store_spare_join(to, f.lsn, f.prev_crc, &wrong, f.lsn, &mark), 0);
    assert_int_equal(store_spare_join(to, f.lsn, f.prev_crc, &wrong, f.lsn, &mark), -EINVAL);
    assert_int_equal(store_spare_take_over(to, &store, &report), -EUCLEAN);
    store_feed_end(world->store, &f);
    assert_int_equal(store_feed_begin(world->store, &f, &(struct store_epochs){ .count = 9 }, 0),
                     -ESTALE);
    store_feed_end(world->store, &f);
    pair_end();
}

/* The copy's disk, recovered from its newest area, or without it from the other one, has what was
 * acknowledged. */
static void both_areas_recover(void)
{
    struct store_spare_state s;
    struct store_epochs epochs;
    store_spare_tell(spare, &s, &epochs);
    const struct store *copy = store_spare_pages(spare);
    const struct superblock *super = &copy->super;
    bool two = copy->log.keep == super->checkpoints[!super->checkpoint_index].scan_lsn;
    for (int older = 0; older < 1 + two; older++) {
        struct store_report report;
        struct store_open_options options = options_of();
        struct device disk;
        struct store *store;
        device_open(&disk, copy_device()->bytes);
        memcpy(disk.image, copy_device()->image, disk.bytes);
        disk.image[super->area_start[super->checkpoint_index]] ^= (uint8_t)older;
        struct disk_io io = device_io(&disk);
        int error = store_open(&io, &test_memory, &options, &store, &report);
        if (error)
            crew_fail("area %d of the copy: %s (error %d)", older, report.message, error);
        require(report.end_lsn == s.end_lsn);
        commit_of(store, world->acked, "the copy");
        store_abandon(store);
        device_close(&disk);
    }
}

static void copy_stays(uint64_t seed)
{
    struct store_report report;
    crew_at("copy", seed);
    pair_begin(seed);
    require(world_open(world, &report) == 0);
    for (uint32_t i = 0; i < 3 * EPOCH_MAX; i++) {
        struct store_spare_state s;
        struct store_epochs epochs;
        crew_at("start", i);
        if (join())
            crew_fail("the copy cannot join any more");
        both_areas_recover();
        for (uint32_t part = 0; part < 3; part++) {
            work(2);
            require(store_spare_apply(spare, 0) >= 0);
            both_areas_recover();
        }
        store_spare_tell(spare, &s, &epochs);
        crew_add(CHECKPOINTS, s.checkpoints);
        world_chain_end(world);
        world_abandon(world);
        if (below(5) == 0) {
            spare_takes_over();
        } else {
            store_spare_abandon(spare);
            spare = NULL;
            starts_alone(home);
        }
    }
    pair_end();
}

/* Aim: a copy that stays one joins its home however often that starts, for it keeps no epoch of
 * which it has no log; and it keeps those that a recovery of its own needs, also from its older
 * checkpoint. */
static void a_copy_joins_however_often_its_home_starts(void **state)
{
    (void)state;
    assert_true(crew_run(__func__, crew_count(48), copy_stays));
    printf("# %llu joins, %llu take-overs, %llu checkpoints of copies\n",
           (unsigned long long)crew_sum(JOINS), (unsigned long long)crew_sum(TAKE_OVERS),
           (unsigned long long)crew_sum(CHECKPOINTS));
    assert_true(crew_part() || crew_sum(CHECKPOINTS) * 2 > crew_sum(JOINS));
}

/* Aim: a copy that joins knows of the newest checkpoint of its home, although no group comes behind
 * it: it keeps no more of its log than that one, so it has room for what its home has room for. */
static void who_joins_keeps_no_more_log_than_its_home(void **state)
{
    (void)state;
    struct store_report report;
    struct store_spare_state s;
    struct store_epochs epochs;
    pair_begin(4);
    assert_int_equal(world_open(world, &report), 0);
    assert_int_equal(join(), 0);
    paused = true;                      /* it takes, and applies nothing */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(world_commit(world, 1, false), 0);
        assert_int_equal(world_checkpoint(world), 0);
    }
    struct store_spare *gone = spare;
    spare = NULL;
    store_spare_abandon(gone);
    assert_int_equal(join(), 0);
    store_spare_tell(spare, &s, &epochs);
    assert_true(s.groups == 0 && s.applied_lsn < s.end_lsn);
    assert_int_equal(store_spare_apply(spare, 0), 0);
    store_spare_tell(spare, &s, &epochs);
    assert_int_equal(s.applied_lsn, s.end_lsn);
    assert_true(store_spare_pages(spare)->log.keep >= world->store->log.keep);
    paused = false;
    pair_end();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_next_group_is_taken),
        cmocka_unit_test(other_logs_are_not_joined),
        cmocka_unit_test(both_slots_name_an_epoch),
        cmocka_unit_test(a_copy_joins_however_often_its_home_starts),
        cmocka_unit_test(who_joins_keeps_no_more_log_than_its_home),
        cmocka_unit_test(every_crash_state_of_a_spare_has_what_was_acknowledged),
        cmocka_unit_test(pairs_live_through_deaths),
    };
    (void)argc;
    crew_begin(argv[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
