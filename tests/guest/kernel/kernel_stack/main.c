/*
 * kernel_stack - managers that stack: one commit through several managers (store/stack.md).
 *
 * Aim     what a client changed, and what its managers changed on its behalf, become visible in one
 *         publication or not at all; who waits for each other, who dies, and who lies does not
 *         change that.
 * Method  the manager of own_manager.h is the base; stacked_manager.h makes managers over it, and
 *         over each other, in this process. kcheck after each part.
 */
#include "parts.h"

struct stacked upper = {.key = 0x5555555555555555}, top = {.key = 0x0f0f0f0f0f0f0f0f},
               single = {.key = 0x3333333333333333};

uint64_t at_home(uint64_t page, unsigned i)
{
    uint64_t x;
    memcpy(&x, home[page] + i * 8, 8);
    return x;
}

int write_both(void *arg)
{
    const struct change *c = arg;
    *word_at(c->base, c->page, 3) = c->value;
    if (c->q) *word_of(Q_PAGE, 0) = c->q;
    return 0;
}

int commit_both(uint64_t base, uint64_t page, uint64_t value, uint64_t q)
{
    return run(write_both, &(struct change){base, page, value, q}, KD_SERIALISABLE, 0);
}

int look_both(void *arg)
{
    struct look *l = arg;
    l->value = *word_at(l->base, l->page, 3);
    l->q = *word_of(Q_PAGE, 0);
    return 0;
}

bool is_now(uint64_t base, uint64_t page, uint64_t value, uint64_t q)
{
    struct look l = {.base = base, .page = page};
    int e = run(look_both, &l, KD_SERIALISABLE, 0);
    long wrong = check();
    bool good = !e && !wrong && l.value == value && l.q == q;
    if (!good)
        printf("# %d: %lu for %lu, %lu for %lu, kcheck %ld\n", e, l.value, value, l.q, q, wrong);
    return good;
}

static uint64_t publications(void) { return system_info().publications; }

static void two(void)
{
    uint64_t before = publications();
    int e = commit_both(upper.base, 2, 77, 88);
    tap_ok(e == 0 && upper.outcome == 0 && upper.commits == 1,
           "a transaction writes a stacked container and one of the base (%d, %ld)", e,
           upper.outcome);
    tap_ok(publications() == before + 1, "all is one publication (%lu)", publications() - before);
    tap_ok(at_home(2, 3) == (77 ^ upper.key) && at_home(Q_PAGE, 0) == 88,
           "the base has what the manager wrote, and what its client wrote");
    tap_ok(is_now(upper.base, 2, 77, 88), "both are read back, kcheck");
    e = commit_both(upper.base, 5, 99, 0);
    tap_ok(e == 0 && at_home(5, 3) == (99 ^ upper.key) && is_now(upper.base, 5, 99, 88),
           "a transaction writes the stacked container only (%d)", e);
}

static void three(void)
{
    uint64_t before = publications();
    long commits = upper.commits;
    int e = commit_both(top.base, 1, 1234, 5);
    tap_ok(e == 0 && top.commits == 1 && upper.commits == commits + 1 &&
               (upper.helpers | upper.helpers_high),
           "a chain of three: each manager is asked once (%d)", e);
    tap_ok(publications() == before + 1 && at_home(Q_PAGE, 0) == 5 &&
               at_home(1 + UPPER_AT, 3) == (1234 ^ upper.key ^ top.key),
           "its changes are one publication");
    struct look l = {.base = top.base, .page = 1};
    e = run(look_both, &l, KD_SNAPSHOT, 0);
    tap_ok(e == 0 && l.value == 1234 && l.q == 5 && !check(), "a snapshot sees them, kcheck");
}

static void begin(void)
{
    bool good = start_manager((struct own_manager){.pages = PAGES, .messages = batches_look});
    upper.below = base;
    long e = stacked_start(&upper, &port, 1, UPPER_PAGES, 2);
    tap_ok(good && e == 0, "a base, a manager that stands on it (%ld)", e);
    top.below = upper.base + UPPER_AT * KD_PAGE_BYTES;
    e = stacked_start(&top, &upper.port, 1, TOP_PAGES, 1);
    tap_ok(e == 0, "and one that stands on that (%ld)", e);
    single.below = base + SIDE_AT * KD_PAGE_BYTES;
    e = stacked_start(&single, &port, 1, SIDE_PAGES, 1);
    tap_ok(e == 0, "and one beside, with one thread (%ld)", e);
}

int main(void)
{
    tap_plan(3 + 5 + 3 + RULES + OWN + SUPPLY + DEADLOCKS + STALLS + DEATHS + BASE_DIES);
    begin();
    two();
    three();
    part_rules();
    part_own();
    part_supply();
    part_deadlocks();
    part_stalls();
    part_deaths();
    part_base_dies();
    return tap_end();
}
