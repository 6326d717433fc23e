/*
 * test_structures.c - the structures of libpstore but the tree, on volatile memory, against models.
 *
 * Method: tests/structures has for each structure its operations beside a model. Here all nodes lie
 * in an arena, so that an abort is a copy of the arena from before the transaction; the n-th
 * allocation fails for each n; what is torn down has left nothing; and each byte that an operation
 * changed was announced before (ps_memory.stores). A failure prints the seed: STRUCTURES_SEED=N
 * repeats it. 20,000 operations of each structure, 400,000 in the long tier.
 */
#include "tests/structures/subject.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---- the arena: blocks of powers of two, each behind its class ---- */

enum { ARENA_BYTES = 8 << 20, CLASSES = 22 };
static struct arena {
    size_t used;
    unsigned taken, fail_in;    /* fail_in: this allocation fails; 0: none */
    void *free[CLASSES];
    _Alignas(16) uint8_t kept[SUBJECT_BYTES];
    _Alignas(16) uint8_t bytes[ARENA_BYTES];
} arena, before;

static void *arena_take(void *arg, size_t bytes, const void *near)
{
    (void)near;
    if (arena.fail_in && --arena.fail_in == 0) {
        errno = ENOSPC;
        return NULL;
    }
    unsigned class = 5;
    while ((size_t)1 << class < bytes + 16)
        class++;
    uint8_t *p = arena.free[class];
    if (p)
        memcpy(&arena.free[class], p, sizeof(void *));
    else
        p = arena.bytes + arena.used + 16, arena.used += (size_t)1 << class;
    assert_true(arena.used <= ARENA_BYTES && arg == &arena);
    p[-16] = (uint8_t)class;
    arena.taken++;
    return memset(p, 0, bytes);
}

static void arena_give(void *arg, void *p)
{
    unsigned class = ((uint8_t *)p)[-16];
    assert_true(arg == &arena && class >= 5 && class < CLASSES);
    memset((uint8_t *)p - 16, 0xa5, (size_t)1 << class);
    memcpy(p, &arena.free[class], sizeof(void *));
    arena.free[class] = p;
    arena.taken--;
}

static void arena_copy(struct arena *to, const struct arena *from)
{
    memcpy(to, from, offsetof(struct arena, bytes) + from->used);
}

/* ---- what is done to each subject ---- */

static uint32_t seed(void)
{
    return getenv("STRUCTURES_SEED") ? (uint32_t)atoi(getenv("STRUCTURES_SEED")) : 1;
}

static void begin(const struct subject *s)
{
    memset(&arena, 0, offsetof(struct arena, bytes));
    assert_in_range(s->bytes, 1, SUBJECT_BYTES);
    s->place(arena.kept, (struct ps_memory){.take = arena_take, .give = arena_give, .arg = &arena});
    subject_seed = seed();
    subject_difference = NULL;
}

static void compare(const struct subject *s, const char *when)
{
    if (!subject_difference)
        s->compare();
    if (subject_difference)
        fail_msg("%s, %s: %s; STRUCTURES_SEED=%u repeats it", s->name, when, subject_difference,
                 seed());
}

static void random_operations(void **state)
{
    const struct subject *s = *state;
    const char *tier = getenv("TEST_TIER");
    unsigned count = tier && strcmp(tier, "long") == 0 ? 400000 : 20000;
    begin(s);
    assert_int_equal(s->set_up(), 0);
    assert_int_equal(s->set_up(), -EEXIST);
    for (unsigned round = 0; round < count;) {
        arena_copy(&before, &arena);
        for (unsigned n = 1 + draw(400); n-- > 0; round++)
            assert_int_equal(s->operation(round / 3000 % 2 == 0), 0);
        compare(s, "before the commit");
        if (draw(4) == 0)
            arena_copy(&arena, &before);
        compare(s, "after it or an abort");
    }
    assert_int_equal(s->tear_down(), 0);
    assert_int_equal(arena.taken, 0);
}

/* The head is copied elsewhere after each round, as ps_upgrade's steps do, and where it was is
 * spoilt: no node points to it. */
static void the_head_moves(void **state)
{
    static _Alignas(16) uint8_t other[SUBJECT_BYTES];
    const struct subject *s = *state;
    uint8_t *from = arena.kept, *to = other;
    begin(s);
    assert_int_equal(s->set_up(), 0);
    for (unsigned round = 0; round < 40; round++) {
        for (unsigned n = 1 + draw(400); n-- > 0;)
            assert_int_equal(s->operation(round / 10 % 2 == 0), 0);
        memcpy(to, from, SUBJECT_BYTES);
        memset(from, 0xa5, SUBJECT_BYTES);
        s->place(to, (struct ps_memory){.take = arena_take, .give = arena_give, .arg = &arena});
        compare(s, "after its head was moved");
        uint8_t *swap = from;
        from = to;
        to = swap;
    }
    assert_int_equal(s->tear_down(), 0);
    assert_int_equal(arena.taken, 0);
}

static void each_allocation_fails(void **state)
{
    const struct subject *s = *state;
    unsigned failed = 0;
    begin(s);
    for (unsigned n = 1; arena.fail_in == 0; n++) {
        arena.fail_in = n;
        int error = s->set_up();
        assert_true(error == (arena.fail_in ? 0 : -ENOSPC) && (error == 0 || arena.taken == 0));
    }
    for (unsigned round = 0; round < 6000; round++) {
        arena.fail_in = 1 + round % 6;
        int error = s->operation(1);
        if (error || round % 500 == 0)
            compare(s, "after an allocation failed");
        assert_true(error == 0 || error == -ENOSPC);
        failed += error != 0;
    }
    assert_in_range(failed, 10, 6000);
    arena.fail_in = 0;
    assert_int_equal(s->tear_down(), 0);
    assert_int_equal(arena.taken, 0);
}

/* ---- stores are announced ---- */

/* What an announcement names becomes in `before` what it is after the operation: then both arenas
 * are the same, but for what the allocator stores. */
static struct { uintptr_t at; size_t bytes; } told[4096];
static unsigned told_count;

static void announced(void *arg, const void *p, size_t bytes)
{
    assert_true(arg == &arena && told_count < sizeof told / sizeof told[0]);
    told[told_count].at = (uintptr_t)p;
    told[told_count++].bytes = bytes;
}

static void given(void *arg, void *p)
{
    announced(arg, (uint8_t *)p - 16, (size_t)1 << ((uint8_t *)p)[-16]);
    arena_give(arg, p);
}

static void *taken(void *arg, size_t bytes, const void *near)
{
    uint8_t *p = arena_take(arg, bytes, near);
    if (p)                      /* what the block holds now is nobody's store */
        memcpy(before.bytes + (p - 16 - arena.bytes), p - 16, (size_t)1 << p[-16]);
    return p;
}

static int unannounced(const uint8_t *now, uint8_t *was, size_t bytes)
{
    for (unsigned i = 0; i < told_count; i++)
        if (told[i].at - (uintptr_t)now < bytes)
            memcpy(was + (told[i].at - (uintptr_t)now), (const void *)told[i].at, told[i].bytes);
    return memcmp(now, was, bytes) != 0;
}

static void stores_are_announced(void **state)
{
    const struct subject *s = *state;
    const unsigned count = 6000;
    begin(s);
    s->place(arena.kept, (struct ps_memory){.take = taken, .give = given, .arg = &arena,
                                            .stores = announced});
    for (unsigned round = 0; round < count; round++) {
        arena_copy(&before, &arena);
        told_count = 0;
        assert_int_equal(round == 0          ? s->set_up()
                         : round + 1 < count ? s->operation(round / 2000 % 2 == 0)
                                             : s->tear_down(),
                         0);
        if (unannounced(arena.kept, before.kept, s->heads) ||
            unannounced(arena.bytes, before.bytes, arena.used))
            fail_msg("%s: operation %u stored what it had not announced", s->name, round);
    }
}

int main(void)
{
    static const struct CMUnitTest parts[] = {
        {.name = "stores are announced", .test_func = stores_are_announced},
        {.name = "random operations", .test_func = random_operations},
        {.name = "an allocation fails", .test_func = each_allocation_fails},
        {.name = "the head moves", .test_func = the_head_moves},
    };
    static struct CMUnitTest tests[64];
    static char names[64][64];
    size_t count = 0;
    for (int i = 0; i == 0 || subjects[i - 1]; i++) {
        const struct subject *s = subjects[i] ? subjects[i] : &subject_btree;
        for (int part = subjects[i] ? 0 : 1; part < 4; part++, count++) { /* the tree on a device */
            snprintf(names[count], sizeof names[count], "%s: %s", s->name, parts[part].name);
            tests[count] = (struct CMUnitTest){names[count], parts[part].test_func, NULL, NULL,
                                               (void *)(uintptr_t)s};
        }
    }
    return _cmocka_run_group_tests("structures", tests, count, NULL, NULL);
}
