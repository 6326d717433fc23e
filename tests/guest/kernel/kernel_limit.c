/*
 * kernel_limit.c - KD_POLICY_MEMORY: how many pages of a container are in memory at most.
 *
 * Aim     a hard bound: at no moment are there more, whoever brings pages and however many do, for
 *         two containers beside each other, which each keep to their own; what is dirty goes when
 *         it was cleaned, and a slow manager is waited for; what is pinned stays, and then a fault
 *         ends with ENOMEM and not the program; no limit is none.
 * Method  This process is the manager of two objects and there is no store, so what the kernel says
 *         of pages in memory (KD_SYSTEM_INFO) is exactly theirs: a thread looks at that again and
 *         again.
 */
#include <stdlib.h>

enum { PAGES = 600, FIRST = 40, SECOND = 100, LOOKS = 1200, READERS = 3, COOKIE = 7 };

#include "own_manager.h"
#include "pstore_test.h"

static uint8_t second_home[PAGES][KD_PAGE_BYTES];
static int second;
static uint64_t second_base;
static _Atomic long most, samples;
static _Atomic bool stop, cleans = true;

static int object_of(uint64_t cookie) { return cookie == COOKIE ? object : second; }
static uint8_t *home_of(uint64_t cookie, uint64_t page)
{
    return cookie == COOKIE ? home[page] : second_home[page];
}

static void clean(void)
{
    struct kd_page_name names[64];
    long n = cleans ? kd_call3(KD_CLEAN_LIST, (long)names, 64, 0) : 0;
    for (long i = 0; i < n; i++)
        kd_call3(KD_OBJECT_CLEANED, object_of(names[i].cookie), (long)names[i].page, -1);
}

static bool serve_both(struct kd_message *m)
{
    if (m->kind == (uint32_t)KD_MSG_CLEAN) {
        clean();
    } else if (m->kind == (uint32_t)KD_MSG_PAGE) {
        struct kd_supply s = {.object = object_of(m->word[0]), .source = KD_SUPPLY_MEMORY,
                              .rights = KD_READ | KD_WRITE, .page = m->word[1], .count = 1,
                              .memory = home_of(m->word[0], m->word[1]), .csn = next_csn};
        if (kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0) == -ENOMEM)
            kd_call4(KD_OBJECT_FAIL, s.object, (long)s.page, 1, ENOMEM);
    } else {
        return false;
    }
    return true;
}

/* More threads for pages: they come at the same time. */
static void *pager(void *unused)
{
    (void)unused;
    for (;;) {
        struct kd_message m = {.buffer = NULL};
        if (kd_call3(KD_PORT_RECEIVE, port, (long)&m, -1) || !serve_both(&m)) return NULL;
    }
}

static long resident(void) { return (long)system_info().resident_pages; }
static int policy(uint64_t at, long value)
{
    return (int)kd_call3(KD_CONTAINER_POLICY, (long)at, KD_POLICY_MEMORY, value);
}

/* Waits until no more than n pages are in memory. */
static bool comes_to(long n)
{
    for (int i = 0; i < 5000 && resident() > n; i++) pause_ms(1);
    return resident() <= n;
}

static void *sampler(void *unused)
{
    (void)unused;
    while (!stop) {
        long now = resident();
        samples++;
        most = now > most ? now : most;
    }
    return NULL;
}

static volatile uint64_t *second_word(uint64_t page)
{
    return (volatile uint64_t *)(second_base + page * KD_PAGE_BYTES);
}

struct reading { unsigned seed; bool of_first; long wrong, errors; };

static int read_some(void *arg)
{
    struct reading *r = arg;
    for (int i = 0; i < 100; i++) {
        unsigned page = (unsigned)rand_r(&r->seed) % PAGES;
        r->wrong += r->of_first ? *word_of(page, 0) != page + 1 : *second_word(page) != page + 2;
    }
    return 0;
}

static void *reader(void *arg)
{
    struct reading *r = arg;
    for (int i = 0; i < LOOKS / 100; i++) r->errors += run(read_some, r, KD_SERIALISABLE, 0) != 0;
    return NULL;
}

static void two_beside(void)
{
    pthread_t watch, t[2 * READERS];
    struct reading r[2 * READERS];
    long wrong = 0, errors = 0;
    most = samples = 0;
    stop = false;
    pthread_create(&watch, NULL, sampler, NULL);
    for (unsigned i = 0; i < 2 * READERS; i++) {
        r[i] = (struct reading){.seed = i, .of_first = i % 2};
        pthread_create(&t[i], NULL, reader, &r[i]);
    }
    for (unsigned i = 0; i < 2 * READERS; i++) {
        pthread_join(t[i], NULL);
        wrong += r[i].wrong;
        errors += r[i].errors;
    }
    stop = true;
    pthread_join(watch, NULL);
    long last = resident(); /* on one CPU the sampler may have had its turn before any of them */
    most = last > most ? last : most;
    printf("# at most %ld pages at %ld looks\n", most, samples);
    tap_ok(wrong == 0 && errors == 0, "six read two containers that do not fit (%ld, %ld)", wrong,
           errors);
    tap_ok(most <= FIRST + SECOND && samples > 100, "never are there more than both may have");
    tap_ok(most > (FIRST + SECOND) * 9 / 10, "nor many fewer");
    view_anew();
    is(policy(base, 16), 0, "one may have less");
    tap_ok(comes_to(16 + SECOND), "and what is too much goes");
    is(policy(base, FIRST), 0, "it may have as many again");
}

static int write_ten(void *from)
{
    for (unsigned i = 0; i < 10; i++) ++*word_of((unsigned)(uintptr_t)from + i, 0);
    return 0;
}
static int write_back(void *from)
{
    for (unsigned i = 0; i < 10; i++) --*word_of((unsigned)(uintptr_t)from + i, 0);
    return 0;
}

static void writers(void)
{
    int r = 0;
    long before = resident();
    most = 0;
    for (uintptr_t at = 0; !r && at + 10 <= PAGES; at += 10) {
        r = run(write_ten, (void *)at, KD_SERIALISABLE, 0);
        r = r ? r : run(write_back, (void *)at, KD_SERIALISABLE, 0);
        most = resident() > most ? resident() : most;
    }
    tap_ok(r == 0 && most <= before + FIRST && most <= FIRST + SECOND,
           "all of it is written, part by part, and goes when it is clean (%d, %ld)", r, most);
}

static int read_one(void *page) { return *word_of((unsigned)(uintptr_t)page, 0) ? 0 : 1; }

static void pins(void)
{
    int r = 0;
    long pinned = 0;
    unsigned page = 0;
    for (; !r && page < PAGES; page++) {
        r = run(read_one, (void *)(uintptr_t)page, KD_SERIALISABLE, 0);
        pinned += kd_call4(KD_OBJECT_PIN, object, page, 1, 1) == 1;
    }
    is(r, -ENOMEM, "pages are pinned until a fault finds no room: it ends so, and no program does");
    tap_ok(pinned == FIRST, "as many as there may be (%ld)", pinned);
    is(kd_call4(KD_OBJECT_PIN, object, 0, PAGES, 0), FIRST, "they are let go");
    is(run(read_one, (void *)(uintptr_t)(page - 1), KD_SERIALISABLE, 0), 0, "and it goes on");
}

static void *read_beside(void *result)
{
    *(int *)result = run(read_one, (void *)(PAGES - 1ul), KD_SERIALISABLE, 0);
    return NULL;
}

/* After a long idle time all pages are dirty or pinned, and the manager takes its time. What it did
 * not clean while nobody asked does not count against it. */
static void idle(void)
{
    enum { DIRTY = 30, IDLE_MS = 5100 };
    static uint8_t bits[PAGES];
    int r = 0;
    pthread_t t;
    view_anew();
    cleans = false;
    for (uintptr_t at = 0; !r && at < DIRTY; at += 10)
        r = run(write_ten, (void *)at, KD_SERIALISABLE, 0);
    for (uintptr_t page = PAGES / 2; !r && page < PAGES / 2 + FIRST - DIRTY; page++) {
        r = run(read_one, (void *)page, KD_SERIALISABLE, 0);
        kd_call4(KD_OBJECT_PIN, object, (long)page, 1, 1);
    }
    is(r, 0, "as many pages as may be are dirty or pinned");
    kd_call6(KD_OBJECT_INFO, object, 0, PAGES, (long)bits, KD_INFO_USES, 0); /* none is used */
    pause_ms(IDLE_MS);
    pthread_create(&t, NULL, read_beside, &r);
    for (int i = 0; i < 20; i++) pause_ms(10);
    cleans = true;
    pthread_join(t, NULL);
    is(r, 0, "a manager that is slow to clean after an idle time is waited for");
    kd_call4(KD_OBJECT_PIN, object, 0, PAGES, 0);
}

static void no_limit(void)
{
    struct kd_supply s = {.object = second, .source = KD_SUPPLY_ZERO, .rights = KD_READ | KD_WRITE,
                          .count = PAGES};
    is((int)kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0), 0, "all pages are supplied by one call");
    s.count = SECOND / 2;
    for (int i = 0; i < 4; i++) (void)kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
    s.count = PAGES;
    is((int)kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0), 0, "and again, some when they are there");
    tap_ok(resident() <= FIRST + SECOND && resident() > SECOND * 9 / 10,
           "and as many stay as may (%ld)", resident());
    is(policy(base, 0), 0, "no limit any more");
    s.object = object;
    is((int)kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0), 0, "all pages come");
    tap_ok(resident() > PAGES && resident() <= PAGES + SECOND, "and stay (%ld)", resident());
    is((int)kd_call3(KD_OBJECT_DESTROY, second, 0, 0), 0, "one ends");
    is(resident(), PAGES, "and the other keeps its pages");
}

int main(void)
{
    tap_plan(24);
    struct own_manager how = {.pages = PAGES, .messages = serve_both};
    if (!start_manager(how)) return printf("Bail out! no manager\n"), 1;
    struct kd_object_create c = {.port = port, .commit_port = commit_port, .cookie = COOKIE + 1,
                                 .flags = KD_OBJECT_TRANSACTIONAL, .pages = PAGES,
                                 .name = "second"};
    second = (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    second_base = c.base;
    kd_call3(KD_SPACE_ATTACH, getpid(), second, KD_RIGHT_READ | KD_RIGHT_WRITE);
    for (unsigned i = 0; i < PAGES; i++) {
        *(uint64_t *)home[i] = i + 1;
        *(uint64_t *)second_home[i] = i + 2;
    }
    pthread_t pagers[3];
    for (unsigned i = 0; i < 3; i++) pthread_create(&pagers[i], NULL, pager, NULL);
    is(policy(base, 15), -EINVAL, "a limit that is none");
    is(policy(base, FIRST) | policy(second_base, SECOND), 0, "a limit for each");
    two_beside();
    writers();
    pins();
    idle();
    no_limit();
    tap_ok(check() == 0, "kcheck");
    return tap_end();
}
