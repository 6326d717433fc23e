/*
 * kernel_remains.c - an object is destroyed if it is unused, and what is left of one that has gone.
 *
 * Aim     who attaches an object while the kernel looks through it for use has it, and what he
 *         commits is kept; who keeps handles to large objects that are gone keeps no memory; what
 *         the next life made while the old one still died, and supplied, is seen by no point of
 *         before, as what it makes later (VS6); of two ranges that two threads free at once each is
 *         as young as its own free (LF3).
 * Method  own_manager.h; objects with so many leaves that each walk over them takes long.
 */
#include "own_manager.h"

enum { LEAVES = 12000, LEAF = 64, PAGES = (LEAVES + 64) * LEAF, LAST = LEAVES * LEAF };
static struct context old, young, writer;
static _Atomic int go;
static _Atomic long said;

static bool fill(void)
{
    bool good = true;
    for (uint64_t i = 0; i < LEAVES; i++) {
        struct kd_supply s = {.object = object, .source = KD_SUPPLY_ZERO, .page = i * LEAF,
                              .count = 1, .rights = KD_READ | KD_WRITE};
        good &= kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0) == 0;
    }
    return good;
}

static long attach(int o)
{
    return kd_call3(KD_SPACE_ATTACH, getpid(), o, KD_RIGHT_READ | KD_RIGHT_WRITE);
}

static long sees(struct context *c, uint64_t page, uint64_t value)
{
    in_view(c);
    int reason = setjmp(c->env);
    return reason ? -reason : *word_of(page, 0) != value;
}

static bool commits(struct context *c)
{
    struct kd_commit k = {.port = -1};
    in_view(c);
    return kd_call3(KD_TXN_COMMIT, (long)&k, 0, 0) == 0;
}

/* ---- freed by two threads at once ---- */

static void *frees_many(void *unused)
{
    while (!go) continue;
    said = kd_call4(KD_OBJECT_ADVISE, object, 0, LAST + 1, KD_ADVISE_FREED);
    return unused;
}

/* The first free has its number, and walks; a snapshot begins; what is freed then is younger. */
static void two_frees(void)
{
    pthread_t t;
    bool good = txn_open(&old, (struct kd_begin){.mode = KD_SNAPSHOT}) == 0;
    said = -1;
    go = 0;
    pthread_create(&t, NULL, frees_many, NULL);
    uint64_t before = system_info().publications;
    go = 1;
    while (system_info().publications == before) continue;
    good &= txn_open(&young, (struct kd_begin){.mode = KD_SNAPSHOT}) == 0;
    good &= kd_call4(KD_OBJECT_ADVISE, object, LAST + 1, 1, KD_ADVISE_FREED) == 0;
    bool beside = said < 0;
    pthread_join(t, NULL);
    is(sees(&young, LAST + 1, 0), -ESTALE, "a snapshot between two frees does not see the second");
    tap_ok(good && said == LEAVES, "of %d pages in memory that the first freed (beside it: %d)",
           LEAVES, beside);
    in_view(&old);
    view_anew();
    in_view(&young);
    view_anew();
    old.view = young.view = 0;
}

/* ---- looked through for use ---- */

static void *destroys(void *unused)
{
    while (!go) continue;
    said = kd_call3(KD_OBJECT_DESTROY, object, 1, 0);
    return unused;
}

static int store(void *unused)
{
    *word_of(3, 0) = 77;
    return unused != NULL;
}

static void attached_meanwhile(void)
{
    pthread_t t;
    in_view(&writer);
    kd_call3(KD_SPACE_DETACH, getpid(), object, 0);
    said = 1;
    go = 0;
    pthread_create(&t, NULL, destroys, NULL);
    go = 1;
    for (volatile int i = 0; i < 20000; i++) continue;
    long e = attach(object);
    if (!e) e = run(store, NULL, KD_SERIALISABLE, 0);
    pthread_join(t, NULL);
    tap_ok(e == 0 ? said == -EBUSY : said == 0,
           "an object that somebody attached, and wrote, stays (%ld, destroyed %ld)", e,
           (long)said);
}

/* ---- large ones that are gone ---- */

static void gone(void)
{
    enum { ROUNDS = 40, TIB_PAGES = 1 << 28 };
    int p = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0), good = 1;
    int copies[ROUNDS];
    uint64_t before = system_info().free_bytes, least = ~0ull;
    for (int i = 0; i < ROUNDS; i++) {
        struct kd_object_create c = {.port = p, .commit_port = p, .pages = 32ull * TIB_PAGES,
                                     .base = KD_STORE_BASE, .flags = KD_OBJECT_TRANSACTIONAL,
                                     .name = "gone"};
        long o = kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
        copies[i] = (int)kd_call3(KD_HANDLE_COPY, o, KD_RIGHT_READ, 0);
        good &= copies[i] >= 0 && kd_call3(KD_OBJECT_DESTROY, o, 0, 0) == 0;
    }
    for (int ms = 0; ms < 10000 && least > 8 << 20; ms++) {
        pause_ms(1);
        uint64_t now = system_info().free_bytes, less = now < before ? before - now : 0;
        least = less < least ? less : least;
    }
    tap_ok(good && least <= 8 << 20, "%d handles of 32 TiB that are gone keep %lu KiB", ROUNDS,
           least >> 10);
    for (int i = 0; i < ROUNDS; i++) kd_call3(KD_HANDLE_CLOSE, copies[i], 0, 0);
    kd_call3(KD_HANDLE_CLOSE, p, 0, 0);
}

/* ---- made while the old one dies ---- */

static void next_life(void)
{
    static uint8_t nine[KD_PAGE_BYTES] __attribute__((aligned(KD_PAGE_BYTES))) = {9};
    struct kd_object_create c = {.flags = KD_OBJECT_TRANSACTIONAL, .cookie = 7, .base = base,
                                 .pages = PAGES, .name = "next"};
    c.port = c.commit_port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    long good = txn_open(&old, (struct kd_begin){.mode = KD_SNAPSHOT});
    long point = kd_call3(KD_SNAPSHOT_SHARE, 0, 0, 0);
    good |= !commits(&old);
    int next = (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    struct kd_supply s = {.object = next, .source = KD_SUPPLY_MEMORY, .page = LAST + 2, .count = 1,
                          .rights = KD_READ | KD_WRITE, .memory = nine};
    good |= kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
    good |= kd_call3(KD_OBJECT_DESTROY, object, 0, 0) | attach(next);
    good |= txn_open(&old, (struct kd_begin){.mode = KD_SNAPSHOT, .snapshot = (uint32_t)point + 1});
    tap_ok(good == 0 && point >= 0, "a point of before its manager's next life");
    is(sees(&old, LAST + 2, 9), -ESTALE, "does not see what that brought before the old one went");
    good = txn_open(&young, (struct kd_begin){.mode = KD_SNAPSHOT});
    is(good ?: sees(&young, LAST + 2, 9), 0, "a later one does");
    good = commits(&young);
    tap_ok(good, "and ends");
}

int main(void)
{
    tap_plan(10);
    tap_ok(start_manager((struct own_manager){.pages = PAGES, .home_pages = 64}) && fill(),
           "an object with many leaves");
    two_frees();
    attached_meanwhile();
    if (said == 0) return tap_end();
    gone();
    next_life();
    is(check(), 0, "kcheck is clean");
    return tap_end();
}
