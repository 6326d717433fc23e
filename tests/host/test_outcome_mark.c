/*
 * test_outcome_mark.c - which commits get an id, to be asked for (libpstore/outcome.c).
 *
 * Aim     a commit that another site's store decides has one, by whatever it changes there, pages
 *         or names alone; no other has.
 * Method  three stores, of which two are other sites'; a transaction with any pages and batches of
 *         these. The kernel's rule says which of them decides: the store of the batch that goes
 *         with the commit, else that of the pages.
 */
#include "libpstore/outcome.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <cmocka.h>

enum { STORES = 3, OWN = 0, SESSION = 5, ID = 70 };
static struct ps_store stores_[STORES];
static ps_container boxes[STORES], *marked;
static uint64_t said;                   /* the session of the id */
static int changed[STORES];             /* pages of this store */
_Atomic int store_death_noted;

struct ps_store *store_after(struct ps_store *s)
{
    return !s ? stores_ : s + 1 < stores_ + STORES ? s + 1 : NULL;
}

int store_changed(const struct ps_store *s, uint64_t *page)
{
    *page = (uintptr_t)&boxes[s - stores_];
    return changed[s - stores_];
}

ps_container *ps_container_of(const void *address)
{
    return address ? &boxes[(ps_container *)address - boxes] : NULL;
}

ps_container *container_by_index(int i) { return &boxes[i < STORES ? i : 0]; }
int container_is_open(const ps_container *c) { return c->opens > 0; }

int tx_op_bytes(struct ps_tx *tx, uint32_t kind, ps_container *c, uint64_t address, uint64_t value,
                const void *bytes, size_t count)
{
    (void)tx, (void)bytes, (void)count;
    assert_true(kind == WIRE_ID && address);
    marked = c;
    said = value;
    return 0;
}

int stores_find_again(void) { return 0; }
void stores_note_death(void) {}
int store_request(struct ps_store *s, uint32_t kind, uint64_t word[STORE_REQUEST_WORDS],
                  const void *data, size_t bytes, void *answer, size_t *answer_bytes)
{
    (void)s, (void)kind, (void)word, (void)data, (void)bytes, (void)answer, (void)answer_bytes;
    return 0;
}

/* The store of the batch that goes with the commit, or -1; those of which pages have changed. */
static void commit(int batch, unsigned pages)
{
    struct wire_op op = {.kind = WIRE_NAME_SET, .op_bytes = sizeof op};
    static struct ps_tx tx;
    tx = (struct ps_tx){.now = tx.batch};
    if (batch >= 0) {
        op.container = boxes[batch].id;
        tx.now->store = &stores_[batch];
        tx.now->ops = (char *)&op;
        tx.now->bytes = sizeof op;
    }
    for (int i = 0; i < STORES; i++) changed[i] = pages >> i & 1;
    marked = NULL;
    assert_int_equal(outcome_mark(&tx), 0);
}

static void what_another_site_decides_has_an_id(void **state)
{
    (void)state;
    unsigned with = 0;
    for (int i = 0; i < STORES; i++) {
        stores_[i].session = i == OWN ? 0 : SESSION + (uint64_t)i;
        boxes[i] = (ps_container){.store = &stores_[i], .opens = 1, .id = ID};  /* of each store */
    }
    for (int batch = -1; batch < STORES; batch++)
        for (unsigned pages = 0; pages < 1 << STORES; pages++) {
            bool own = batch == OWN || (batch < 0 && pages & 1 << OWN);
            bool changes = batch >= 0 || pages;
            commit(batch, pages);
            assert_int_equal(marked != NULL, changes && !own);
            assert_int_equal(outcome_marked(), marked != NULL);
            if (!marked) continue;
            long of = marked - boxes;
            assert_true(batch >= 0 ? of == batch : (long)(pages >> of & 1));
            assert_int_equal(said, SESSION + (uint64_t)of);
            with++;
        }
    assert_int_equal(with, 3 + 2 * 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_another_site_decides_has_an_id)};
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
