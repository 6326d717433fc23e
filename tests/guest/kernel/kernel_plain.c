/*
 * kernel_plain.c - dirty pages of an object that is not transactional, and a manager without a
 * disk.
 *
 * Aim     KD_OBJECT_READ gives a manager a page as it is; KD_OBJECT_CLEANED then says whether
 *         anybody has stored to it since. So pages may leave memory, and no store is lost, whatever
 *         threads do at the same time.
 * Method  the manager keeps two words of each page, and all else of it is zero: so it needs no
 *         memory to speak of. Two threads count in the first and then in the last word of their own
 *         pages, of which there are more than memory holds. A supply waits for memory, so one
 *         thread more than can wait for pages receives, and one cleans.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "system.h"
#include "tap.h"

enum { PAGES = 7500, WORDS = 512, LAST = WORDS - 1, THREADS = 2, STEPS = 12000, HOT = 64,
       SILENT = PAGES - 1 };

static int port, object;
static uint64_t base;
static uint64_t home[PAGES][2], counted[PAGES];
static _Atomic long cleaned, stale, failed, silent;
static sem_t wanted;                    /* cleaning */

/* ---- the manager ---- */

static long supply(uint64_t page)
{
    uint64_t words[WORDS] = {home[page][0]};
    words[LAST] = home[page][1];
    struct kd_supply s = {.object = object, .source = KD_SUPPLY_MEMORY,
                          .rights = KD_READ | KD_WRITE, .page = page, .count = 1, .memory = words};
    return kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
}

static long take(uint64_t page, void *words, void *csn)
{
    return kd_call4(KD_OBJECT_READ, object, (long)page, (long)words, (long)csn);
}

/* The old words go home again where the page was stored to meanwhile. */
static long clean(uint64_t page)
{
    uint64_t words[WORDS], csn, before[2] = {home[page][0], home[page][1]};
    long e = take(page, words, &csn);
    if (e) return e;
    home[page][0] = words[0];
    home[page][1] = words[LAST];
    e = kd_call3(KD_OBJECT_CLEANED, object, (long)page, (long)csn);
    if (e) memcpy(home[page], before, sizeof before);
    return e;
}

/* What is to go first, and between them pages that are stored to at this moment. */
static void clean_some(void)
{
    static struct kd_page_name names[256];
    long n = kd_call3(KD_CLEAN_LIST, (long)names, 256, 0);
    for (long i = 0; i < 2 * n; i++) {
        long e = clean(i % 2 ? (uint64_t)i % HOT : names[i / 2].page);
        cleaned += e == 0;
        stale += e == -ESTALE;
        failed += e && e != -ESTALE && e != -ENOENT;
    }
}

static void *cleaner(void *unused)
{
    while (sem_wait(&wanted) == 0) clean_some();
    return unused;
}

static void *pager(void *unused)
{
    for (;;) {
        struct kd_message m = {.handle = -1};
        if (kd_call3(KD_PORT_RECEIVE, port, (long)&m, -1)) return unused;
        if (m.kind == (uint32_t)KD_MSG_PAGE && m.word[1] == SILENT)
            silent++;
        else if (m.kind == (uint32_t)KD_MSG_PAGE)
            failed += supply(m.word[1]) != 0;
        else if (m.kind == (uint32_t)KD_MSG_CLEAN)
            sem_post(&wanted);
    }
}

static bool start(void)
{
    pthread_t t;
    port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    struct kd_object_create c = {.port = port, .commit_port = port, .pages = PAGES,
                                 .name = "plain"};
    object = (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    base = c.base;
    pthread_create(&t, NULL, cleaner, NULL);
    for (int i = 0; i < THREADS + 1; i++) pthread_create(&t, NULL, pager, NULL);
    return object >= 0 &&
           kd_call3(KD_SPACE_ATTACH, getpid(), object, KD_RIGHT_READ | KD_RIGHT_WRITE) == 0;
}

/* ---- one page ---- */

static volatile uint64_t *at(uint64_t page) { return (uint64_t *)(base + page * KD_PAGE_BYTES); }

static unsigned bits_of(uint64_t page)
{
    uint8_t bits = 0;
    kd_call4(KD_OBJECT_INFO, object, (long)page, 1, (long)&bits);
    return bits;
}

static void one_page(void)
{
    static uint64_t words[WORDS];
    uint64_t csn = 99;
    at(3)[7] = 5;
    is(bits_of(3), KD_PAGE_RESIDENT | KD_PAGE_DIRTY, "a page that was stored to is dirty");
    is(kd_call3(KD_OBJECT_CLEANED, object, 3, 0), -ESTALE, "and not clean before it was read");
    tap_ok(take(3, words, &csn) == 0 && words[7] == 5 && csn == 0, "its manager reads it");
    is(bits_of(3), KD_PAGE_RESIDENT | KD_PAGE_DIRTY, "which alone leaves it dirty");
    at(3)[7] = 6;
    is(kd_call3(KD_OBJECT_CLEANED, object, 3, (long)csn), -ESTALE,
       "a store behind that: what was read is old");
    tap_ok(take(3, words, &csn) == 0 && words[7] == 6 &&
               kd_call3(KD_OBJECT_CLEANED, object, 3, (long)csn) == 0,
           "read once more, the page is clean");
    is(bits_of(3), KD_PAGE_RESIDENT, "and says so");
    at(3)[7] = 7;
    is(bits_of(3), KD_PAGE_RESIDENT | KD_PAGE_DIRTY, "until the next store");
}

static void refusals(void)
{
    static uint64_t words[WORDS];
    uint64_t csn;
    is(take(4, words, &csn), -ENOENT, "a page that is not in memory");
    is(take(PAGES, words, &csn), -ENOENT, "one behind the end");
    is(take(3, (void *)at(4), &csn), -EINVAL, "into a container");
    is(take(3, (void *)16, &csn), -EFAULT, "to where nothing is");
    is(take(3, words, (void *)16), -EFAULT, "its number to where nothing is");
    is(kd_call4(KD_OBJECT_READ, port, 3, (long)words, (long)&csn), -EBADF, "of what is no object");
    tap_ok(take(3, words, &csn) == 0 && words[7] == 7, "and the page is as it was");
}

/* ---- a page that does not come ---- */

static int limit_answer(uint64_t ms)
{
    uint64_t both[2] = {ms, ~0ull};
    return (int)kd_call4(302, 0, KD_RLIMIT + KD_LIMIT_ANSWER, (long)both, 0); /* prlimit64 */
}

/* A system call touches the page; a thread of its own would be ended. */
static long touch_silent(void) { return kd_call3(KD_NAME_FIND, (long)at(SILENT), 0, 0); }

static void silent_manager(void)
{
    is(limit_answer(30), 0, "a program waits 30 ms for an answer");
    is(touch_silent(), -EFAULT, "and no longer, where none comes");
    tap_ok(touch_silent() == -EFAULT && silent == 1, "nor when it was asked for before");
    is((long)at(5)[0], 0, "pages that come are not late");
    is(limit_answer(~0ull), 0, "it waits for ever again");
    is(kd_call4(KD_OBJECT_FAIL, object, SILENT, 1, EIO), 0, "the manager fails the page");
}

/* ---- more than memory holds ---- */

static void *count_on(void *mine)
{
    uint64_t random = (uintptr_t)mine + 88172645463325252ull;
    for (long i = 0; i < STEPS; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        /* half of them some pages, so that these are stored to while they are cleaned */
        uint64_t page = random % (random >> 63 ? PAGES : HOT);
        page = page / THREADS * THREADS + (uintptr_t)mine;
        if (page >= SILENT) continue;
        counted[page]++;
        at(page)[0]++;
        at(page)[LAST]++;
    }
    return NULL;
}

static void storm(void)
{
    pthread_t t[THREADS];
    long wrong = 0;
    at(3)[7] = 0;
    uint64_t before = system_info().evictions;
    for (uintptr_t i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, count_on, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    for (uint64_t p = 0; p < SILENT; p++)
        if (at(p)[0] != counted[p] || at(p)[LAST] != counted[p]) {
            if (!wrong++)
                printf("# page %d: %d and %d instead of %d\n", (int)p, (int)at(p)[0],
                       (int)at(p)[LAST], (int)counted[p]);
        }
    printf("# %ld cleaned, %ld stored to meanwhile, %d evicted\n", cleaned, stale,
           (int)(system_info().evictions - before));
    tap_ok(cleaned > PAGES / 16 && system_info().evictions - before > PAGES / 16,
           "more pages than memory holds leave it");
    is(failed, 0, "their manager is refused nothing");
    is(wrong, 0, "and no store is lost");
}

int main(void)
{
    tap_plan(25);
    tap_ok(start(), "a manager");
    one_page();
    refusals();
    silent_manager();
    storm();
    return tap_end();
}
