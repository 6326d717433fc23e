/*
 * test_read_asked.c - which stores are asked before a commit, as they were only read
 * (stores_read_flush of libpstore/store.c; NC4, NC9).
 *
 * Aim     each store where the transaction has read and changes nothing, if it changes something
 *         elsewhere; of a lazy one the stores of other sites alone. One that is no more, or whose
 *         session has ended, undoes it: its locks may have ended with that.
 * Method  the store of this machine and two of other sites; all that a transaction can have done in
 *         each, and which of them answers. The kernel undoes by itself who used pages of a store of
 *         this machine that is no more.
 */
#include "libpstore/store.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <cmocka.h>

enum { STORES = 3, NOTHING = 0, READS, CHANGES, DID };
static int did[STORES];
static unsigned asked, dead;            /* stores */
static const uint32_t zone[STORES] = {WIRE_ZONE_SMALL, WIRE_ZONE_SMALL + 1, WIRE_ZONE_SMALL + 3};

long ps_kernel(long number, long a, long b, long c)
{
    if (number == KD_TXN_CHANGES) {
        for (int i = 0; i < STORES; i++) {
            uint64_t page = wire_zone_base(zone[i]) + 5 * KD_PAGE_BYTES;
            if (page < (uint64_t)a || did[i] < (c & CHANGES_READ ? READS : CHANGES)) continue;
            ((struct kd_changes *)b)->address = page;
            return 0;
        }
        return -ENOENT;
    }
    struct kd_message *m = (void *)b;
    assert_int_equal(number, KD_PORT_CALL);
    assert_int_equal(m->kind, STORE_FLUSH);
    asked |= 1u << a;
    return dead >> a & 1 ? -EOWNERDEAD : 0;
}


static void those_that_were_read_are_asked(void **state)
{
    (void)state;
    unsigned commits = 0, undone = 0;
    stores_count = STORES;
    for (unsigned i = 0; i < STORES; i++) {
        snprintf(stores[i].name, sizeof stores[i].name, i ? "site%u/store" : "store", i);
        stores[i].port = (int)i;
        stores[i].zone = zone[i];
    }
    for (int all = 0; all < DID * DID * DID; all++)
        for (unsigned how = 0; how < 4 << STORES; how++) {
            bool lazy = how & 1, batch = how & 2, changes = batch;
            struct ps_tx tx = {.options.lazy = lazy};
            unsigned wanted = 0;
            tx.now = tx.batch;
            tx.now->bytes = batch;
            dead = how >> 2;
            for (int i = 0, rest = all; i < STORES; i++, rest /= DID) {
                did[i] = rest % DID;
                changes |= did[i] == CHANGES;
                wanted |= (unsigned)(did[i] == READS && (!lazy || i)) << i;
            }
            asked = 0;
            int result = stores_read_flush(&tx);
            if (!changes) wanted = 0;
            assert_int_equal(result, wanted & dead & ~1u ? -EOWNERDEAD : 0);
            if (result) assert_true(asked & dead);
            else assert_int_equal(asked, wanted);
            assert_int_equal(asked & ~wanted, 0);
            commits += !result;
            undone += result != 0;
        }
    print_message("# %u commits, %u undone\n", commits, undone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(those_that_were_read_are_asked)};
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
