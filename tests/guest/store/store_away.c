/*
 * store_away.c - transactions larger than memory, over a container in which pages lie far apart.
 *
 * Aim     what the kernel has of a page that only the log has goes when memory is wanted (SP4):
 *         bulks that change a page in each of more leaves than memory has frames commit one after
 *         the other, and the pages are found: in `make test` a third of them is looked for.
 * Method  leases of a GiB, whose address space costs nothing; a page has the number of its leaf.
 */
#include "store_client.h"
#include "pstore_test.h"

enum { LEAF_WORDS = 64 * 512, GIB_LEAVES = 4096, BULK = 2048, BULKS = 9, PART = 256 };
static struct wire_opened box;
static uint64_t *gib[BULK * BULKS / GIB_LEAVES + 1];

static uint64_t *word_of(uint64_t leaf)
{
    return gib[leaf / GIB_LEAVES] + leaf % GIB_LEAVES * LEAF_WORDS;
}
static long change(void *bulk)
{
    uint64_t first = (uint64_t)bulk * BULK;
    for (uint64_t leaf = first; leaf < first + BULK; leaf++) *word_of(leaf) = leaf + 1;
    return 0;
}
static long look(void *part) /* few: what a transaction has read keeps its leaf */
{
    uint64_t first = (uint64_t)part * PART, bad = 0;
    for (uint64_t leaf = first; leaf < first + PART; leaf++) bad += *word_of(leaf) != leaf + 1;
    return bad ? -EBADMSG : 0;
}

int main(void)
{
    long e = 0;
    uint64_t spilled = system_info().spills;
    bool leased = client_reopen("far", PS_CREATE | PS_WRITE, &box) == 0;
    for (unsigned i = 0; leased && i < sizeof gib / sizeof *gib; i++)
        leased = (gib[i] = client_lease(box.container, box.pages, NULL));
    tap_plan(5);
    tap_ok(leased, "a large container");
    for (uint64_t i = 0; i < BULKS && leased && !e; i++) e = client_run(change, (void *)i);
    is(e, 0, "bulks in it commit");
    spilled = system_info().spills - spilled;
    tap_ok(spilled > BULK * BULKS / 2 && BULK * BULKS > 2 * system_info().memory_bytes / 4096,
           "most of their pages had spilled, each of another leaf: %llu",
           (unsigned long long)spilled);
    for (uint64_t i = 0; i < BULKS * BULK / PART && leased && !e; i += tap_long() ? 1 : 3)
        e = client_run(look, (void *)i);
    is(e, 0, "and are there");
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck");
    return tap_end();
}
