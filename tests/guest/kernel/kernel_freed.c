/*
 * kernel_freed.c - pages that their manager says were freed, and snapshots that are older (LF3).
 *
 * Aim     such a snapshot sees a freed page as it was while that is in memory, and then ends with
 *         ESTALE, never with the zeros that the page is since: if it was in memory, in the log
 *         alone, out of it, or of a leaf that is not there, in more ranges than the kernel notes.
 *         What was not freed it reads, zeros of pages that nobody has written, too; a later
 *         snapshot reads zeros. Without a snapshot nothing is published. One that has expired is
 *         as any other. So it is when the object is destroyed unused, and comes back (VS6).
 * Method  own_manager.h: its home keeps what was committed, and is zeroed where pages are freed.
 */
enum { LEAF = 64, TABLE = 512 * LEAF, PAGES = 40 * TABLE, HOME = 4 * LEAF };
#define HOME_PAGES HOME
#include "own_manager.h"

static struct context reader, writer;
struct span { uint64_t first, count, value; };
static uint64_t wrong;

static int write_span(void *arg)
{
    const struct span *s = arg;
    for (uint64_t i = 0; i < s->count; i++) *word_of(s->first + i, 0) = s->value;
    return 0;
}

static void publish(uint64_t first, uint64_t count, uint64_t value)
{
    in_view(&writer);
    wrong += run(write_span, &(struct span){first, count, value}, KD_SERIALISABLE, 0) != 0;
}

static void snapshot_begin(void)
{
    wrong += txn_open(&reader, (struct kd_begin){.mode = KD_SNAPSHOT}) != 0;
}

/* What it sees: 0; -errno if it is ended for it; 1: something else. */
static long sees(uint64_t first, uint64_t count, uint64_t value)
{
    in_view(&reader);
    volatile bool other = false;
    int reason = setjmp(reader.env);
    if (reason) return -reason;
    for (uint64_t i = 0; i < count; i++) other |= *word_of(first + i, 0) != value;
    return other;
}

static void snapshot_end(void)
{
    struct kd_commit k = {.port = -1};
    in_view(&reader);
    wrong += kd_call3(KD_TXN_COMMIT, (long)&k, 0, 0) != 0;
}

static long advise(uint64_t page, uint64_t count, enum kd_advice advice)
{
    return kd_call4(KD_OBJECT_ADVISE, object, (long)page, (long)count, advice);
}

/* They are home, and leave memory. */
static void out(uint64_t page, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        kd_call3(KD_OBJECT_CLEANED, object, (long)(page + i), (long)KD_CSN_ANY);
    wrong += advise(page, count, KD_ADVISE_EVICT) != (long)count;
}

/* The manager has nothing of them any more; how many are in memory. */
static long freed(uint64_t page, uint64_t count)
{
    for (uint64_t i = page; i < page + count && i < HOME; i++) memset(home[i], 0, sizeof home[i]);
    return advise(page, count, KD_ADVISE_FREED);
}

static void in_memory_and_out(void)
{
    publish(0, 4, 7);
    out(2, 2);
    snapshot_begin();
    is(freed(0, 3), 2, "of three pages that are freed two are in memory");
    tap_ok(sees(0, 2, 7) == 0 && sees(3, 1, 7) == 0,
           "a snapshot of before sees those, and one that was out and is not freed");
    out(0, 1);
    tap_ok(sees(1, 1, 7) == 0 && sees(0, 1, 7) == -ESTALE, "one that leaves meanwhile ends it");
    publish(4, 1, 7);
    out(4, 1);
    snapshot_begin();
    freed(4, 1);
    is(sees(4, 1, 7), -ESTALE, "so does one that was out");
    snapshot_begin();
    tap_ok(sees(0, 1, 0) == 0 && sees(2, 1, 0) == 0 && sees(4, 1, 0) == 0 && sees(3, 1, 7) == 0,
           "one that begins then sees zeros, and what was left");
    publish(0, 1, 8);
    snapshot_end();
    snapshot_begin();
    out(0, 1);
    publish(2, 1, 9);
    tap_ok(sees(0, 1, 8) == 0 && sees(2, 1, 0) == 0, "what is written anew is as all pages");
    snapshot_end();
    publish(5, 1, 7);
    snapshot_begin();
    freed(5, 1);
    publish(5, 1, 8);
    is(sees(5, 1, 7), 0, "one that is written while it is in memory is seen as it was");
    snapshot_end();
    snapshot_begin();
    wrong += kd_call3(KD_OBJECT_CLEANED, object, 5, (long)next_csn - 1) != 0;
    publish(6, 1, 8);
    wrong += advise(5, 1, KD_ADVISE_EVICT) != 1;
    is(sees(5, 1, 8), 0, "and then as all pages, once it was home");
    snapshot_end();
    publish(7, 1, 7);
    snapshot_begin();
    freed(7, 1);
    (void)kd_call3(KD_OBJECT_CLEANED, object, 7, (long)next_csn - 1);
    wrong += advise(7, 1, KD_ADVISE_EVICT) != 1;
    is(sees(7, 1, 7), -ESTALE, "one whose write home was under way when it was freed ends it");
}

/* A page without a leaf: nobody has come near it since the object was made. */
static void without_leaf(void)
{
    uint64_t near = 2 * LEAF, far = 3 * TABLE + 5;
    memset(home[near + 1], 1, 8);
    snapshot_begin();
    is(freed(near, 2), 0, "pages that nobody has touched are freed");
    tap_ok(sees(near + 2, 1, 0) == 0 && sees(near - 1, 1, 0) == 0,
           "an older snapshot reads zeros beside them");
    is(sees(near + 1, 1, 0), -ESTALE, "and none of them");
    snapshot_begin();
    is(sees(near, 3, 0), 0, "a later one does");
    is(freed(far, 2 * TABLE), 0, "pages of three tables");
    tap_ok(sees(far - 1, 1, 0) == 0 && sees(far + 2 * TABLE, 1, 0) == 0, "not those at the ends");
    is(sees(far + TABLE, 1, 0), -ESTALE, "in the middle");
    snapshot_begin();
    freed(far, 1);
    is(sees(far, 1, 0), -ESTALE, "freed once more");
    snapshot_begin();
    is(sees(far, 1, 0), 0, "a later one");
    snapshot_end();
}

/* More ranges than there is room for. */
static void many(void)
{
    enum { RANGES = 20, APART = 4 * LEAF, FIRST = 10 * TABLE };
    int good = 1;
    for (unsigned i = 0; i < RANGES; i++) {
        snapshot_begin();
        for (unsigned k = 0; k < RANGES; k++) freed(FIRST + (k * 7 % RANGES) * APART, 3);
        good &= sees(FIRST - 1, 1, 0) == 0 && sees(FIRST + RANGES * APART, 1, 0) == 0;
        good &= sees(FIRST + i * APART + 2, 1, 0) == -ESTALE;
    }
    tap_ok(good && check() == 0, "of %d ranges each page is known, none before and behind", RANGES);
    snapshot_begin();
    uint64_t free_before = system_info().free_bytes;
    freed(20 * TABLE, 16 * TABLE);
    tap_ok(free_before - system_info().free_bytes < 64 << 10, "two GiB of them take no memory");
    is(sees(30 * TABLE, 1, 0), -ESTALE, "and are known");
}

static void without_snapshots(void)
{
    uint64_t before = system_info().publications;
    freed(30 * TABLE, TABLE);
    tap_ok(before && system_info().publications == before, "without a snapshot nothing is noted");
    snapshot_begin();
    is(sees(30 * TABLE + LEAF, 1, 0), 0, "nor kept from a later one");
    tap_ok(freed(0, PAGES + 1) == -EINVAL && freed(PAGES, 1) == -EINVAL && freed(0, 0) == -EINVAL,
           "pages that there are");
    snapshot_end();
}

/* A snapshot that needed too many old versions runs on, and keeps nothing any more. */
static void expired(void)
{
    static const uint64_t freed_one[] = {8, 3 * LEAF};
    uint64_t few[2] = {1, 1};
    kd_call4(302, 0, KD_RLIMIT + KD_LIMIT_VERSIONS, (long)few, 0); /* prlimit64 */
    for (unsigned i = 0; i < 2; i++) {
        publish(8, 8, 7);
        out(8, 1);
        snapshot_begin();
        wrong += sees(12, 1, 7) != 0;
        publish(9, 2, 8);
        for (unsigned k = 0; k < 4; k++) publish(0, 1, k);
        uint64_t before = system_info().publications;
        freed(freed_one[i], 1);
        tap_ok(system_info().versions == 0 && system_info().publications == before &&
                   sees(12, 1, 7) == 0,
               "one that has expired runs on");
        is(sees(freed_one[i], 1, i ? 0 : 7), -ESTALE, "and ends where it would see zeros");
    }
}

/* The object goes, and comes back; what that said. */
static int comes_back(bool made_before)
{
    struct kd_object_create c = {.port = port, .commit_port = commit_port, .cookie = 7,
                                 .flags = KD_OBJECT_TRANSACTIONAL, .base = base, .pages = PAGES,
                                 .name = "test"};
    int next = made_before ? (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0) : -1;
    kd_call3(KD_SPACE_DETACH, getpid(), object, 0);
    int e = (int)kd_call3(KD_OBJECT_DESTROY, object, 1, 0);
    if (e) return e;
    object = made_before ? next : (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    return (int)kd_call3(KD_SPACE_ATTACH, getpid(), object, KD_RIGHT_READ | KD_RIGHT_WRITE);
}

/* A snapshot that has not touched the object: others end when it is detached. */
static void snapshot_anew(void)
{
    in_view(&reader);
    view_anew();
    reader.view = 0;
    snapshot_begin();
}

static void unused(void)
{
    enum { HERE = 20, AWAY, LATER, UNCHANGED, NO_LEAF = 35 * TABLE };
    static const uint64_t changed[] = {HERE, AWAY, NO_LEAF, LATER};
    for (unsigned i = 0; i < 2 * sizeof changed / sizeof *changed; i++) {
        uint64_t page = changed[i / 2], value = page == LATER ? 8 : 0;
        publish(HERE, 4, 7);
        for (uint64_t k = 0; k < HOME; k++)
            kd_call3(KD_OBJECT_CLEANED, object, (long)k, (long)KD_CSN_ANY);
        out(AWAY, 1);
        snapshot_anew();
        if (page != LATER) {
            freed(page, 1);
        } else {
            publish(LATER, 1, 8);
            out(LATER, 1);
            advise(LATER, 1, KD_ADVISE_FORGET);
        }
        is(comes_back(i & 1), 0, "an object goes unused, and comes back");
        is(sees(page, 1, value), -ESTALE, "a snapshot from before a change ends");
        snapshot_anew();
        is(comes_back(i & 1), 0, "it goes again");
        is(sees(page, 1, value) ?: sees(UNCHANGED, 1, 7), 0, "one of after the change does not");
        snapshot_end();
    }
}

int main(void)
{
    tap_plan(63);
    tap_ok(start_manager((struct own_manager){.pages = PAGES, .home_pages = HOME_PAGES}),
           "an object of this process's own");
    in_memory_and_out();
    without_leaf();
    many();
    without_snapshots();
    expired();
    unused();
    is((long)wrong, 0, "nothing else failed");
    is(check(), 0, "kcheck is clean");
    return tap_end();
}
