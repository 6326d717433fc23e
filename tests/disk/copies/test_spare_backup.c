/*
 * test_spare_backup.c - the disk of a spare is copied, block by block, while it takes groups.
 *
 * Aim     the copy is a store, of a moment not before the copying began; what the log has had
 *         meanwhile is not in it, not even in parts.
 * Method  the rig of test_spare.c, whose spare applies nothing meanwhile; if its log is full, and
 *         it has to, that is noticed, and the copy is given up.
 */
#include "crew.h"
#include "internal.h"
#include "life.h"
#include "spare_rig.h"

/* ---- backups of a spare */

/* The copied disk is a store, with a state of the home's that is not older than the begin. */
static void backup_opens(struct device *copied, uint64_t acked)
{
    struct store_report report;
    struct store_open_options options = options_of();
    struct disk_io io = device_io(copied);
    struct store *store;
    const char *why = "-";
    int error = store_open(&io, &test_memory, &options, &store, &report);
    if (error)
        crew_fail("a backup is not opened: %s (error %d)", report.message, error);
    if (store_check(store, &why) || report.torn_tail)
        crew_fail("a backup is not sound: %s", why);
    (void)commit_of(store, acked, "a backup");
    store_abandon(store);
    crew_add(BACKUPS, 1);
}

static void backup_made(struct device *copied)
{
    enum { PIECE = 16 * STORE_PAGE_BYTES };
    struct store_spare_state before, after;
    struct store_epochs epochs;
    uint64_t acked = world->acked;
    store_spare_tell(spare, &before, &epochs);
    paused = true;
    for (uint64_t at = 0; at < copied->bytes; at += STORE_PAGE_BYTES) {
        if (at % PIECE == 0 && below(40) == 0)
            work(1);
        if (store_spare_needs(spare, before.end_lsn, at))
            memcpy(copied->image + at, copy_device()->image + at, STORE_PAGE_BYTES);
        else
            memset(copied->image + at, 0, STORE_PAGE_BYTES);
    }
    paused = false;
    store_spare_tell(spare, &after, &epochs);
    if (before.applied_lsn == after.applied_lsn && before.checkpoints == after.checkpoints)
        backup_opens(copied, acked);
    else
        crew_add(VOID, 1);
}

static void spare_is_backed_up(uint64_t seed)
{
    struct store_report report;
    struct device copied;
    crew_at("backups", seed);
    pair_begin(seed);
    device_open(&copied, copy_device()->bytes);
    require(world_open(world, &report) == 0 && join() == 0);
    for (uint32_t i = 0; i < 6; i++) {
        work(8 + (uint32_t)below(20));
        backup_made(&copied);
    }
    device_close(&copied);
    pair_end();
}

/* Aim: the disk of a spare is copied while it takes groups, and the copy is a store of a moment not
 * before the begin, whole, without a torn end; unless the log was full, which is noticed. */
static void a_spare_is_backed_up_at_work(void **state)
{
    (void)state;
    assert_true(crew_run(__func__, crew_count(24), spare_is_backed_up));
    printf("# %llu backups of spares at work, %llu given up\n",
           (unsigned long long)crew_sum(BACKUPS), (unsigned long long)crew_sum(VOID));
    assert_true(crew_part() || crew_sum(BACKUPS) > 20);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_spare_is_backed_up_at_work),
    };
    (void)argc;
    crew_begin(argv[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
