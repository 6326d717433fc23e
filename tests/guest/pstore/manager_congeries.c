/*
 * manager_congeries.c - /bin/congeries: a container whose manager keeps it as congeries.
 *
 * Aim     the five operations do what the congeries' policy says; objects of two congeries share no
 *         block; garbage is collected, and nothing else, be it linked, young, or dropped twice;
 *         transactions of clients and what the manager keeps are one commit: after the manager was
 *         killed, and in another life, all that was committed is there, at its addresses.
 * Method  a table of pointers in the root, and beside it what each of them must lead to.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "katydid/call.h"
#include "manager.h"
#include "pstore_test.h"
#include "user/managers/congeries.h"

enum { SLOTS = 400, ROUNDS = 700, LIST = 300, LARGE = 6000 };
static const char name[] = "parts";
struct node { struct node *next; uint64_t id, bytes; uint8_t filled[]; };
struct root { struct node *slot[SLOTS]; };
static ps_container *c;
static struct root *root;
static uint64_t expected[SLOTS], ids;
static uint32_t plain, tight, journal;

/* ---- calls ---- */

static struct congeries_call say(int what, uint32_t congeries, uint64_t address, uint64_t bytes,
                                 uint32_t count)
{
    struct congeries_call m = {.what = what, .congeries = congeries, .address = address,
                               .bytes = bytes, .count = count};
    int e = km_call_beside(c, name, &m, sizeof m);
    if (e < 0) m.error = e;
    return m;
}
static uint32_t make(const char *congeries, uint32_t policy)
{
    struct congeries_call m = {.what = CONGERIES_MAKE, .policy = policy};
    strncpy(m.name, congeries, sizeof m.name - 1);
    return km_call_beside(c, name, &m, sizeof m) < 0 || m.error ? 0 : m.congeries;
}
static struct congeries_call count(uint32_t g) { return say(CONGERIES_COUNT, g, 0, 0, 0); }
static int drop(const void *p) { return say(CONGERIES_DROP, 0, (uintptr_t)p, 0, 0).error; }
static int collect(uint32_t g) { return (int)say(CONGERIES_COLLECT, g, 0, 0, 0).count; }

/* ---- transactions ---- */

struct change { uint32_t congeries; uint64_t slot, id, bytes; struct node *old; int linked; };

/* A new object in the slot, or none; `linked`: in front of what is there. */
static int change(void *arg)
{
    struct change *w = arg;
    struct node *n = NULL;
    w->old = root->slot[w->slot];
    if (w->congeries) {
        struct congeries_call m = say(CONGERIES_ADD, w->congeries, 0, sizeof *n + w->bytes, 0);
        if (m.error) return m.error;
        n = (struct node *)(uintptr_t)m.address;
        n->next = w->linked ? w->old : NULL;
        n->id = w->id;
        n->bytes = w->bytes;
        memset(n->filled, (int)w->id, w->bytes);
    }
    root->slot[w->slot] = n;
    return 0;
}
static int slot_set(uint32_t g, uint64_t slot, uint64_t bytes, struct node **old)
{
    struct change w = {.congeries = g, .slot = slot, .id = g ? ++ids : 0, .bytes = bytes};
    int e = ps_transaction(change, &w);
    if (!e) expected[slot] = w.id;
    if (old) *old = w.old;
    return e;
}

/* How many slots are not what they should be. */
static int look(void *out)
{
    int wrong = 0;
    for (int i = 0; i < SLOTS; i++) {
        struct node *n = root->slot[i];
        wrong += (n ? n->id : 0) != expected[i];
        for (uint64_t k = 0; n && k < n->bytes; k++) wrong += n->filled[k] != (uint8_t)n->id;
    }
    *(int *)out = wrong;
    return 0;
}
static int wrong(void)
{
    int n = -1, e = ps_transaction(look, &n);
    return e ? e : n;
}

static int open_it(void)
{
    c = ps_open(name, PS_WRITE, NULL);
    root = c ? ps_address(c) : NULL;
    return c ? 0 : -errno;
}

/* ---- tests ---- */

/* Three objects, and the middle one is dropped and collected: where a fourth one goes, 1: between
 * the others, 2: behind them. */
static int fourth(void *at)
{
    struct node **slot = &root->slot[120];
    *(int *)at = slot[1] > slot[0] && slot[1] < slot[2] ? 1 : slot[1] > slot[2] ? 2 : 0;
    return 0;
}
static int fourth_goes(uint32_t g)
{
    struct node *gone[3];
    int bad = 0, at = 0;
    for (uint64_t i = 120; i < 123; i++) bad |= slot_set(g, i, 1000, NULL);
    bad |= slot_set(0, 121, 0, &gone[1]) | drop(gone[1]);
    (void)collect(g);
    bad |= slot_set(g, 121, 1000, NULL) | ps_transaction(fourth, &at);
    for (uint64_t i = 120; i < 123; i++) bad |= slot_set(0, i, 0, &gone[i - 120]);
    for (int i = 0; i < 3; i++) bad |= drop(gone[i]);
    (void)collect(g);
    return bad ? bad : at;
}

static void policies(void)
{
    struct node *gone[40];
    int bad = 0;
    plain = make("plain things", CONGERIES_PLAIN);
    tight = make("tight things", CONGERIES_TIGHT);
    journal = make("journal", CONGERIES_LOG);
    tap_ok(plain && tight && journal && make("journal", CONGERIES_LOG) == journal,
           "three congeries");
    for (uint64_t i = 0; i < 40; i++)
        bad |= slot_set(plain, i, 1000, NULL) | slot_set(tight, 40 + i, 1000, NULL) |
               slot_set(journal, 80 + i, 1000, NULL);
    is(bad, 0, "each with objects");
    tap_ok(count(plain).blocks == 3 && count(tight).blocks == 3 && count(journal).blocks == 8,
           "they expand by a block, or by eight");
    for (uint64_t i = 0; i < 40; i++) bad |= slot_set(0, i, 0, &gone[i]) || drop(gone[i]);
    tap_ok(!bad && count(plain).objects == 0 && count(plain).blocks == 3,
           "plain: what is dropped is free, its blocks stay");
    is(say(CONGERIES_RELEASE, plain, 0, 0, 0).count, 3, "until they are released");
    for (uint64_t i = 0; i < 40; i++) bad |= slot_set(0, 40 + i, 0, &gone[i]) || drop(gone[i]);
    tap_ok(!bad && count(tight).blocks == 0, "tight: the last object takes its block along");
    for (uint64_t i = 0; i < 40; i++) bad |= slot_set(0, 80 + i, 0, &gone[i]) || drop(gone[i]);
    tap_ok(!bad && count(journal).objects == 40, "log: what is dropped stays");
    is(collect(journal), 40, "until it is collected");
    is(say(CONGERIES_EXPAND, plain, 0, 0, 5).count, 5, "blocks ahead of need");
    tap_ok(fourth_goes(plain) == 1 && fourth_goes(tight) == 1,
           "an object goes where there is room");
    is(fourth_goes(journal), 2, "log: behind all others");
}

static int build_list(void *cut)
{
    struct node *n = root->slot[0];
    for (int i = 0; cut && n && i < LIST / 3; i++) n = n->next;
    if (cut && n) n->next = NULL;
    return n || !cut ? 0 : -ENOENT;
}

static void garbage(void)
{
    int bad = 0;
    for (int i = 0; i < LIST && !bad; i++) {
        struct change w = {.congeries = tight, .id = ++ids, .bytes = 100, .linked = 1};
        bad = ps_transaction(change, &w);
    }
    expected[0] = ids;
    is(bad, 0, "a list");
    is(collect(tight), 0, "all of which is reached");
    uint64_t added = say(CONGERIES_ADD, tight, 0, 100, 0).address;
    is(collect(tight), 0, "what no commit has stored to is young");
    is(ps_transaction(build_list, &bad), 0, "the list is cut");
    is(collect(tight), LIST - LIST / 3 - 1, "the rest is garbage");
    tap_ok(wrong() == 0 && count(tight).objects == LIST / 3 + 2, "and nothing else");
    tap_ok(drop((void *)added) == 0 && drop((void *)added) == -EINVAL, "a drop, twice");
}

static ps_container *blocks;
static uint64_t *young_ones[3];

/* Stores to three young objects, and to where the manager keeps the middle one: so the commit,
 * whether it begins with the first or the last, stores one and is then undone (-EXDEV). */
static int store_in_vain(void *unused)
{
    struct congeries_root *r = ps_root(blocks);
    (void)unused;
    if (!r) return -errno;
    for (int i = 0; i < 3; i++) *young_ones[i] = 1;
    r->word[((uintptr_t)young_ones[1] - (uintptr_t)root) / UNIT_BYTES][0] = 2;
    return 0;
}

static void undone(void)
{
    blocks = ps_open("parts.blocks", PS_WRITE, NULL);
    (void)collect(plain);
    int bad = 0;
    for (int i = 0; i < 3; i++)
        young_ones[i] = (uint64_t *)(uintptr_t)say(CONGERIES_ADD, plain, 0, LARGE, 0).address;
    tap_ok(blocks && young_ones[0] && (uintptr_t)young_ones[2] / 4096 >
               (uintptr_t)young_ones[1] / 4096 &&
               (uintptr_t)young_ones[1] / 4096 > (uintptr_t)young_ones[0] / 4096,
           "three young objects");
    is(ps_transaction(store_in_vain, NULL), -EXDEV, "a commit that stored to one is undone");
    is(collect(plain), 0, "all are young still");
    for (int i = 0; i < 3; i++) bad |= drop(young_ones[i]);
    is(bad, 0, "(dropped)");
    is(ps_close(blocks), 0, "(closed)");
}

static uint64_t rng = 88172645463325252ull;
static uint64_t draw(uint64_t below)
{
    rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17;
    return (rng >> 11) % below;
}

static void random_changes(void)
{
    const uint32_t all[] = {plain, tight, journal};
    int bad = 0, collected = 0;
    for (int i = 0; i < ROUNDS && !bad; i++) {
        struct node *old = NULL;
        uint32_t g = all[draw(3)];
        uint64_t slot = 1 + draw(SLOTS - 1), bytes = draw(20) == 0 ? LARGE : draw(300);
        bad = slot_set(draw(3) ? g : 0, slot, bytes, &old);
        if (!bad && old && draw(2)) bad = drop(old); /* else it is garbage */
        if (draw(40) == 0) collected += collect(g);
        if (draw(40) == 0) (void)say(CONGERIES_RELEASE, g, 0, 0, 0);
    }
    printf("# %d collected, %u objects, %u blocks\n", collected, count(tight).objects,
           count(tight).blocks);
    is(bad, 0, "random changes");
    is(wrong(), 0, "each object is what it should be");
    uint32_t live = 0, there = 0;
    for (int i = 1; i < SLOTS; i++) live += expected[i] != 0;
    for (int i = 0; i < 3; i++) (void)collect(all[i]);
    for (int i = 0; i < 3; i++) there += count(all[i]).objects;
    is((long)there, (long)live + LIST / 3 + 1, "and nothing else is left when all is collected");
}

static int manager_pid(void)
{
    static struct kd_process_info rows[256];
    long n = kd_call3(KD_PROCESS_LIST, (long)rows, 256, 0);
    for (long i = 0; i < n && i < 256; i++)
        if (strcmp(rows[i].name, "congeries") == 0) return rows[i].pid;
    return 0;
}

/* Kills the manager, and opens the container until another one answers. */
static int manager_anew(void)
{
    int first = manager_pid(), e = 0, said = -EOWNERDEAD;
    kill(first, SIGKILL);
    for (int i = 0; i < 3000 && !e && (said || manager_pid() == first); i++) {
        ps_close(c);
        pause_ms(1);
        if (!(e = open_it())) said = count(plain).error;
    }
    return e ? e : said;
}

static void another_life(void)
{
    struct congeries_call before = count(tight), after, added;
    void *address = root;
    added = say(CONGERIES_ADD, plain, 0, 500, 0);
    is(manager_anew(), 0, "the manager is killed, and started again");
    after = count(tight);
    tap_ok(root == address && wrong() == 0 && after.objects == before.objects &&
               after.blocks == before.blocks,
           "all is there as it was, at its addresses");
    tap_ok(added.error == 0 && collect(plain) == 1, "what was young has nobody any more");
    is(slot_set(plain, 5, 77, NULL) | wrong(), 0, "and it goes on");
}

static void nonsense(void)
{
    tap_ok(say(CONGERIES_ADD, 9, 0, 16, 0).error == -EINVAL &&
               say(CONGERIES_ADD, plain, 0, 0, 0).error == -EINVAL &&
               say(CONGERIES_ADD, plain, 0, BLOCK_BYTES + 1, 0).error == -EINVAL,
           "no object in no congeries, of no size, or larger than a block");
    tap_ok(drop(root) == -EINVAL && drop(&root->slot[2]) == -EINVAL && drop(NULL) == -EINVAL &&
               drop((char *)root + BLOCKS * BLOCK_BYTES) == -EINVAL,
           "what is no object is not dropped");
    tap_ok(say(99, plain, 0, 0, 0).error == -EINVAL && make("other", 3) == 0 &&
               make("", CONGERIES_PLAIN) == 0,
           "nor is there any other call or policy");
    tap_ok(say(CONGERIES_EXPAND, plain, 0, 0, 1000).count < BLOCKS &&
               say(CONGERIES_ADD, tight, 0, BLOCK_BYTES, 0).error == -ENOSPC,
           "a full container says so");
}

int main(void)
{
    tap_plan(36);
    is(ps_manager(name, "/bin/congeries", NULL), 0, "a container gets the manager");
    is(open_it(), 0, "and is opened");
    if (!c) return tap_end();
    policies();
    garbage();
    undone();
    random_changes();
    another_life();
    nonsense();
    return tap_end();
}
