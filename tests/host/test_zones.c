/*
 * test_zones.c - how sites agree which addresses their new stores get (user/sites/link_zone.c).
 *
 * Aim     sixteen sites that make their stores at the same time get sixteen zones, whatever the
 *         order in which they hear each other, and old stores keep theirs.
 * Method  a HELLO is a copy of what its site said; those under way are delivered in random order,
 *         of one sender in its own order. A site that claims anew says so to all. A site is done at
 *         a random moment when all that it heard last agrees with its claim; it then has a store.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "user/sites/link_zone.c"

enum { SITES = 16 };
/* A HELLO: `nonce` is new with each claim, `echo` the receiver's that was heard last. */
struct said { struct hello hello; unsigned echo; };
static struct self site[SITES];
static struct peer seen[SITES][SITES];          /* [who][of whom]: its last HELLO */
static struct { struct said at[64]; unsigned first, count; } way[SITES][SITES]; /* [from][to] */
static unsigned anew;
static int hurry;                               /* who could be done is, once in so many steps */

static void say(unsigned from, unsigned to)
{
    assert_true(way[from][to].count < 64);
    way[from][to].at[(way[from][to].first + way[from][to].count++) % 64] =
        (struct said){site[from].hello, (unsigned)seen[from][to].hello.nonce};
}

/* Its sessions begin anew. */
static void greet(unsigned from)
{
    site[from].hello.nonce++;
    for (unsigned to = 0; to < SITES; to++)
        if (to != from) {
            seen[from][to].state = LINK_GREETING;
            say(from, to);
        }
}

static void done(unsigned who)
{
    struct hello *h = &site[who].hello;
    h->flags = 0;
    h->store_count = 1;
    h->stores[0].zone = h->claim;
    greet(who);
}

static bool may_end(unsigned who)
{
    bool may = site[who].hello.flags & HELLO_CLAIMS;
    for (unsigned of = 0; may && of < SITES; of++)
        if (of != who) may = zone_settled(&seen[who][of], &site[who].hello, 0, 1);
    return may;
}

static bool hear(unsigned who)
{
    const struct hello *heard[SITES];
    unsigned count = 0;
    for (unsigned of = 0; of < SITES; of++)
        if (seen[who][of].hello.nonce) heard[count++] = &seen[who][of].hello;
    return zone_heard(&site[who], heard, count);
}

static bool deliver(unsigned from, unsigned to)
{
    if (!way[from][to].count) return false;
    const struct said s = way[from][to].at[way[from][to].first];
    struct peer *p = &seen[to][from];
    bool new = p->hello.nonce != s.hello.nonce;
    way[from][to].first = (way[from][to].first + 1) % 64;
    way[from][to].count--;
    p->hello = s.hello;
    p->state = s.echo == site[to].hello.nonce ? LINK_LIVE : LINK_GREETING;
    if (hear(to)) {
        anew++;
        greet(to);
    } else if (new) {
        say(to, from);
    }
    return true;
}

/* `old`: so many have stores of 8 TiB already. */
static void run(unsigned seed, unsigned old, unsigned sites)
{
    srand(seed);
    hurry = seed % 3 ? 1 : 64;
    memset(site, 0, sizeof site);
    memset(seen, 0, sizeof seen);
    memset(way, 0, sizeof way);
    for (unsigned i = 0; i < SITES; i++) {
        struct hello *h = &site[i].hello;
        snprintf(h->site, sizeof h->site, "%c%u", 'a' + rand() % 3, i);
        for (unsigned k = 0; k < SITES; k++) seen[i][k].state = LINK_GREETING;
        if (i < old) {
            h->store_count = 1;
            h->stores[0].zone = i;
        } else if (i < sites) {
            h->flags = HELLO_CLAIMS;
            h->claim = zone_choose(h->site, 0);
        }
    }
    for (unsigned i = 0; i < SITES; i++) greet(i);
    for (unsigned left = SITES * SITES * 30, n = 0; left && n < 1000000; n++) {
        unsigned a = (unsigned)rand() % SITES, b = (unsigned)rand() % SITES;
        left = deliver(a, b) ? SITES * SITES * 30 : left - 1;
        for (unsigned who = 0; who < SITES; who++)
            if (rand() % hurry == 0 && may_end(who)) done(who);
    }
    uint32_t taken = 0;
    for (unsigned i = 0; i < SITES; i++) {
        if (may_end(i)) done(i);
        const struct hello *h = &site[i].hello;
        for (uint32_t k = 0; k < h->store_count; k++) {
            assert_int_equal(taken & zones_of(h->stores[k].zone), 0); /* SZ1 */
            taken |= zones_of(h->stores[k].zone);
        }
    }
    unsigned zones = (unsigned)__builtin_popcount(taken), fit = 16 - 2 * old;
    if (sites - old <= fit)
        assert_int_equal(zones, 2 * old + sites - old);
    else
        assert_true(zones > 2 * old); /* one that claims in vain may keep a zone free */
}

static void sixteen_sites_get_sixteen_zones(void **state)
{
    (void)state;
    anew = 0;
    for (unsigned seed = 1; seed <= 300; seed++) run(seed, 0, 16);
    print_message("300 times 16 sites: %u claims were changed\n", anew);
    assert_true(anew > 1000);
}

static void stores_that_are_there_keep_theirs(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 100; seed++) run(seed, 4, 12);
    for (unsigned seed = 1; seed <= 100; seed++) run(seed, 6, 16); /* not all get one */
}

static void zones_are_parts_of_the_region(void **state)
{
    uint32_t all = 0;
    (void)state;
    for (uint32_t z = 16; z < 32; z++) {
        assert_true(wire_zone_valid(z));
        assert_int_equal(wire_zone_base(z), 0x200000000000ull + (z - 16) * (4ull << 40));
        assert_int_equal(zones_of(z) & all, 0);
        all |= zones_of(z);
    }
    assert_int_equal(all, 0xffff);
    for (uint32_t z = 0; z < 8; z++) {
        assert_int_equal(wire_zone_base(z), 0x200000000000ull + z * (8ull << 40));
        assert_int_equal(zones_of(z), zones_of(16 + 2 * z) | zones_of(17 + 2 * z));
        assert_true(wire_zone_has(z, wire_zone_base(17 + 2 * z)));
        assert_false(wire_zone_has(z, wire_zone_base(z) - 1));
    }
    assert_false(wire_zone_valid(8) || wire_zone_valid(15) || wire_zone_valid(32));
    assert_int_equal(zones_of(12345), 0);
    assert_int_equal(zone_choose("a", 0xffff), 0);
}

/* Who has met a site tells of its store while it is off. */
static void a_site_that_is_off_is_counted(void **state)
{
    struct self b = {.hello = {.site = "b"}}, c = {.hello = {.site = "c", .flags = HELLO_CLAIMS}};
    struct hello a = {.site = "a", .store_count = 1};
    (void)state;
    c.hello.claim = zone_choose("c", 0);
    a.stores[0].zone = c.hello.claim;
    const struct hello *of_a = &a, *of_b = &b.hello;
    assert_false(zone_heard(&b, &of_a, 1));
    assert_true(zone_heard(&c, &of_b, 1));
    assert_int_equal(zones_of(c.hello.claim) & zones_of(a.stores[0].zone), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zones_are_parts_of_the_region),
        cmocka_unit_test(sixteen_sites_get_sixteen_zones),
        cmocka_unit_test(stores_that_are_there_keep_theirs),
        cmocka_unit_test(a_site_that_is_off_is_counted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
