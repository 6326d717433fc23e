/*
 * kernel_versions.c - an old version stays while a snapshot needs that version, and no longer.
 *
 * Aim     a snapshot beside N commits of a page stays readable, whatever N is, and its end costs
 *         what it kept, not what came after it; commit points that need a version one after the
 *         other; pages with old versions go out of memory and come back; an end that has much to
 *         free lets others run; with too many versions one snapshot ends, and no other.
 * Method  own_manager.h; a reader's view and a writer's in one thread. QEMU counts instructions as
 *         time, so the time stamp counter counts them. `kernel_versions N`: so many commits
 *         (50,000).
 */
enum { SCAN_PAGES = 2048, HOME = 2200, PAGES = HOME + 8 * SCAN_PAGES };
#define HOME_PAGES HOME
#include "own_manager.h"

enum { SHARES = 12, MANY = 2000, CROWD = 2000, MOST = 100000, GAP_MOST = 60000 };
static struct context reader, writer;

/* ---- transactions ---- */

struct span { unsigned first, count; uint64_t value; };
static uint64_t wrong;

static int write_span(void *arg)
{
    const struct span *s = arg;
    for (unsigned i = 0; i < s->count; i++)
        *word_of(s->first + i, 0) = s->value;
    return 0;
}

static int read_span(void *arg)
{
    const struct span *s = arg;
    for (unsigned i = 0; i < s->count; i++)
        wrong += *word_of(s->first + i, 0) != s->value;
    return 0;
}

static void publish(unsigned first, unsigned count, uint64_t value)
{
    in_view(&writer);
    wrong += run(write_span, &(struct span){first, count, value}, KD_SERIALISABLE, 0) != 0;
}

/* The reader's snapshot, open until snapshot_end; the writer's transactions run meanwhile. */
static long snapshot_begin(uint32_t handle1)
{
    return txn_open(&reader, (struct kd_begin){.mode = KD_SNAPSHOT, .snapshot = (int32_t)handle1});
}

/* What it sees; 0, -errno if it is ended for it, 1: something else. */
static int sees(unsigned first, unsigned count, uint64_t value)
{
    uint64_t before = wrong;
    in_view(&reader);
    int reason = setjmp(reader.env);
    if (reason)
        return -reason;
    read_span(&(struct span){first, count, value});
    return wrong != before;
}

/* What its end cost. */
static uint64_t snapshot_end(void)
{
    struct kd_commit k = {.port = -1};
    in_view(&reader);
    uint64_t t = time_stamp();
    wrong += kd_call3(KD_TXN_COMMIT, (long)&k, 0, 0) != 0;
    return time_stamp() - t;
}

/* ---- tests ---- */

static void beside_commits(uint64_t n)
{
    uint64_t most = 0;
    publish(0, 2, 7);
    wrong += snapshot_begin(0) != 0;
    int first = sees(0, 1, 7);
    for (uint64_t i = 1; i <= n; i++) {
        publish(0, 1, 7 + i);
        if (i % 1000 == 1)
            most = system_info().versions > most ? system_info().versions : most;
    }
    publish(1, 1, 8);
    tap_ok(first == 0 && sees(0, 1, 7) == 0 && sees(1, 1, 7) == 0,
           "a snapshot beside %lu commits of a page reads what it saw", n);
    tap_ok(most == 1 && system_info().versions == 2,
           "it keeps one version of each page that changed (%lu, %lu)", most,
           (unsigned long)system_info().versions);
    uint64_t cost = snapshot_end();
    tap_ok(cost < MOST && system_info().versions == 0 && check() == 0,
           "and its end costs %lu instructions", cost);
    wrong += snapshot_begin(0) != 0;
    tap_ok(sees(0, 1, 7 + n) == 0 && snapshot_end() < MOST, "the next one sees what is new");
}

static long share(void)
{
    long handle = -1;
    wrong += snapshot_begin(0) != 0;
    handle = kd_call3(KD_SNAPSHOT_SHARE, 0, 0, 0);
    snapshot_end();
    return handle;
}

/* Of commit points each of which needs a version of page 4, every second one two of page 5, too. */
static void several(void)
{
    long handles[SHARES];
    int good = 1;
    publish(4, 2, 1000);
    for (unsigned i = 0; i < SHARES; i++) {
        handles[i] = share();
        publish(4, 1, 1001 + i);
        publish(4, 1, 1001 + i);
        if (i % 2) publish(5, 1, 1001 + i);
    }
    tap_ok(system_info().versions == SHARES + SHARES / 2 && check() == 0,
           "%d commit points keep %lu versions", SHARES, (unsigned long)system_info().versions);
    is((long)process_self().used[KD_LIMIT_VERSIONS], 2, "of which one has two");
    static const int order[SHARES] = {3, 11, 0, 1, 10, 7, 6, 8, 2, 4, 9, 5};
    for (unsigned gone = 0; gone < SHARES; gone++) {
        unsigned versions = 0, pairs = 0;
        for (unsigned i = 0; i < SHARES; i++) {
            if (handles[i] < 0) continue;
            versions++;
            pairs |= 1u << i / 2;
            good &= snapshot_begin((uint32_t)handles[i] + 1) == 0 && sees(4, 1, 1000 + i) == 0 &&
                    sees(5, 1, 1000 + i / 2 * 2) == 0;
            snapshot_end();
        }
        good &= system_info().versions == versions + (unsigned)__builtin_popcount(pairs) &&
                check() == 0;
        kd_call3(KD_HANDLE_CLOSE, handles[order[gone]], 0, 0);
        handles[order[gone]] = -1;
    }
    is((long)process_self().used[KD_LIMIT_VERSIONS], 0, "and none when all are closed");
    tap_ok(good && system_info().versions == 0,
           "each sees its own, in whatever order they end, and keeps no other");
}

static long forget(unsigned page, unsigned count)
{
    return kd_call4(KD_OBJECT_ADVISE, object, page, count, KD_ADVISE_FORGET);
}

/* The manager takes old versions of its pages away, whoever needs them. */
static void forgotten(void)
{
    long handles[3];
    publish(4, 3, 500);
    for (unsigned i = 0; i < 3; i++) {
        handles[i] = share();
        publish(4, 3, 501 + i);
    }
    wrong += snapshot_begin((uint32_t)handles[1] + 1) != 0;
    tap_ok(forget(0, 0) == 9 && sees(4, 3, 501) == 0, "three commit points keep nine versions");
    tap_ok(forget(5, 1) == 6 && system_info().versions == 6 && check() == 0,
           "all old ones of a page go at once, of whichever");
    tap_ok(sees(4, 1, 501) == 0 && sees(6, 1, 501) == 0, "what is left is seen as before");
    is(sees(5, 1, 501), -ESTALE, "what is gone ends the snapshot");
    tap_ok(snapshot_begin((uint32_t)handles[2] + 1) == 0 && sees(4, 1, 502) == 0 &&
               forget(0, PAGES) == 0 && sees(5, 1, 502) == -ESTALE && check() == 0,
           "so it is while a snapshot has one mapped");
    wrong += snapshot_begin(0) != 0;
    tap_ok(sees(4, 3, 503) == 0, "a new one sees what is current");
    snapshot_end();
    for (unsigned i = 0; i < 3; i++) kd_call3(KD_HANDLE_CLOSE, handles[i], 0, 0);
    tap_ok(forget(0, 0) == 0 && system_info().versions == 0 && check() == 0, "nothing is left");
}

static int scan(void *arg)
{
    volatile uint64_t sum = 0;
    for (unsigned i = 0; i < SCAN_PAGES; i++)
        sum += *word_of((unsigned)(uintptr_t)arg + i, 0);
    return 0;
}

static int goes_out(unsigned page)
{
    in_view(&writer);
    for (unsigned rounds = 0; page_resident(page) && rounds < 40; rounds++) {
        kd_call4(KD_OBJECT_CLEANED, object, page, (long)KD_CSN_ANY, 0);
        kd_call4(KD_OBJECT_ADVISE, object, page, 1, KD_ADVISE_DONT_NEED);
        run(scan, (void *)(uintptr_t)(HOME + rounds % 8 * SCAN_PAGES), KD_SERIALISABLE, 0);
    }
    return !page_resident(page);
}

static void out_of_memory(void)
{
    publish(8, 2, 20);
    wrong += snapshot_begin(0) != 0;
    int good = sees(8, 1, 20) == 0;
    publish(8, 2, 21);
    tap_ok(good && goes_out(8) && goes_out(9), "pages with old versions go out");
    tap_ok(system_info().versions == 2 && check() == 0 && sees(8, 2, 20) == 0 &&
               !page_resident(8) && !page_resident(9),
           "the snapshot still sees those, and asks for no page");
    in_view(&writer);
    wrong += run(read_span, &(struct span){8, 2, 21}, KD_SERIALISABLE, 0) != 0;
    tap_ok(page_resident(8) && sees(8, 2, 20) == 0 && check() == 0,
           "also when the pages have come back");
    tap_ok(goes_out(8) && goes_out(9), "and gone again");
    publish(8, 2, 22);
    tap_ok(sees(8, 2, 20) == 0 && system_info().versions == 2,
           "commits of such pages leave the snapshot its own");
    snapshot_end();
    long now = share();
    wrong += snapshot_begin(0) != 0; /* of what is current: mapped, and then out */
    good = sees(8, 2, 22) == 0;
    tap_ok(good && goes_out(8) && check() == 0 && sees(8, 2, 22) == 0,
           "what a snapshot maps that is current goes out, and comes back");
    snapshot_end();
    kd_call3(KD_HANDLE_CLOSE, now, 0, 0);
    tap_ok(system_info().versions == 0, "nothing is left (%lu)",
           (unsigned long)system_info().versions);
}

/* ---- an end in portions ---- */

static _Atomic int gap_stop;
static _Atomic uint64_t gap, gap_rounds;

static void *looks_for_gaps(void *arg)
{
    uint64_t last = time_stamp(), now;
    for (; !gap_stop; last = now) {
        now = time_stamp();
        if (now - last > gap) gap = now - last;
        gap_rounds++;
    }
    return arg;
}

static void portions(void)
{
    pthread_t t;
    for (unsigned i = 0; i < MANY; i += 100) publish(100 + i, 100, 30);
    wrong += snapshot_begin(0) != 0;
    for (unsigned i = 0; i < MANY; i += 100) publish(100 + i, 100, 31);
    uint64_t kept = system_info().versions;
    in_view(&reader);
    pthread_create(&t, NULL, looks_for_gaps, NULL);
    while (!gap_rounds) usleep(1000);

    gap = 0;
    uint64_t cost = snapshot_end(), worst = gap;
    gap_stop = 1;
    pthread_join(t, NULL);
    tap_ok(kept == MANY && system_info().versions == 0, "a snapshot that kept %lu versions ends",
           kept);
    tap_ok(worst && worst < GAP_MOST,
           "in portions: another thread stands still for %lu instructions of %lu", worst, cost);
}

/* Old versions take a quarter of memory at most, less than two commit points want here. */
static void over_the_budget(void)
{
    long handles[2];
    uint64_t most = 0;
    publish(100, CROWD, 40);
    for (unsigned k = 0; k < 2; k++) {
        handles[k] = share();
        for (unsigned i = 0; i < CROWD; i += 100) {
            publish(100 + i, 100, 41 + k);
            most = system_info().versions > most ? system_info().versions : most;
        }
    }
    for (unsigned i = 0; i < 100 && system_info().versions > CROWD + 1; i++)
        publish(0, 1, i); /* each takes some away */
    uint64_t budget = system_info().memory_bytes / KD_PAGE_BYTES / 4;
    tap_ok(most > CROWD && most <= budget + 100 && system_info().versions == CROWD + 1 &&
               check() == 0,
           "%lu versions are too many, %lu are left", most, (unsigned long)system_info().versions);
    long late = snapshot_begin((uint32_t)handles[0] + 1);
    tap_ok(late == -ESTALE && snapshot_begin((uint32_t)handles[1] + 1) == 0 &&
               sees(100, CROWD, 41) == 0,
           "the snapshot that kept the most is over; the other one sees its own");
    snapshot_end();
    kd_call3(KD_HANDLE_CLOSE, handles[0], 0, 0);
    kd_call3(KD_HANDLE_CLOSE, handles[1], 0, 0);
    tap_ok(system_info().versions == 0, "and keeps no other");
}

/* A page that comes while a snapshot is there is of a later time, if its manager says so. */
static bool newer;
static bool hears(struct kd_message *m)
{
    if (!newer || m->kind != (uint32_t)KD_MSG_PAGE)
        return false;
    struct kd_supply s = {.object = object, .source = KD_SUPPLY_MEMORY | KD_SUPPLY_NEWER,
                          .rights = KD_READ | KD_WRITE, .page = m->word[1], .count = 1,
                          .memory = home[m->word[1]]};
    wrong += kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0) != 0;
    return true;
}
static void newer_than_snapshots(void)
{
    for (unsigned page = 10; page < 13; page++) {
        publish(page, 1, 50);
        kd_call3(KD_OBJECT_CLEANED, object, page, (long)KD_CSN_ANY);
    }
    kd_call4(KD_OBJECT_ADVISE, object, 10, 2, KD_ADVISE_EVICT);
    snapshot_begin(0);
    newer = true;
    tap_ok(!page_resident(10) && sees(12, 1, 50) == 0 && sees(10, 1, 50) == -ESTALE,
           "a page supplied as newer is not seen by a snapshot of before");
    snapshot_begin(0);
    tap_ok(sees(10, 1, 50) == 0 && sees(12, 1, 50) == 0, "but by the next one");
    publish(10, 1, 51);
    tap_ok(sees(10, 1, 50) == 0, "which keeps it beside a commit");
    snapshot_end();
    newer = false;
}

int main(int argc, char **argv)
{
    uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 50000;
    tap_plan(32);
    tap_ok(start_manager((struct own_manager){.pages = PAGES, .home_pages = HOME_PAGES,
                                              .messages = hears}),
           "an object of this process's own");
    newer_than_snapshots();
    beside_commits(n);
    several();
    forgotten();
    portions();
    out_of_memory();
    over_the_budget();
    tap_ok(wrong == 0, "nothing failed on the way (%lu)", wrong);
    return tap_end();
}
