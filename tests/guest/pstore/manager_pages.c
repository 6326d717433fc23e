/*
 * manager_pages.c - manager.h's calls that the other tests of managers leave out.
 *
 * Aim     a manager with one thread, whose objects are larger than memory, cleans while its supply
 *         waits for memory; km_read, km_clean, km_cleaned, km_push, km_resident and km_pin do what
 *         manager.h says; objects end, 1000 one after the other, and their numbers are not taken
 *         for others'.
 * Method  a child is the manager: it keeps one word of each page, the rest is a pattern made of it.
 *         This program writes pages that memory has no room for, and reads them.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "manager.h"
#include "process.h"
#include "system.h"
#include "tap.h"

enum { PAGES = 9000, WORDS = KM_PAGE_BYTES / 8, MANY = 1000 };
enum { ASK_RESIDENT = 1, ASK_CLEAN, ASK_PIN, ASK_MANY, ASK_COUNTS, ASK_READ, ASK_PUSH,
       ASK_NOTHING };
static const char name[] = "pages";

/* ---- the manager ---- */

static uint64_t home[PAGES], cleaned, stale, wrong, requests;
static struct km_object *object;

static void fill(uint64_t words[WORDS], uint64_t page, uint64_t value)
{
    for (unsigned i = 0; i < WORDS; i++) words[i] = value ? value * (page + i) : 0;
    words[0] = value;
}

static void page(struct km_request *r)
{
    uint64_t words[WORDS];
    requests++;
    fill(words, r->page, home[r->page]);
    wrong += km_supply(r, words, 1) != 0;
}

/* What is not a whole pattern was stored to meanwhile. */
static void clean(struct km_object *o, const uint64_t *pages, unsigned count)
{
    uint64_t words[WORDS], expected[WORDS], csn;
    for (unsigned i = 0; i < count; i++) {
        if (km_read(o, pages[i], words, &csn)) continue;
        int r = km_cleaned(o, pages[i], csn);
        stale += r == -ESTALE;
        if (r) continue;
        cleaned++;
        home[pages[i]] = words[0];
        fill(expected, pages[i], words[0]);
        wrong += memcmp(words, expected, sizeof words) != 0;
    }
}

static long many_objects(void)
{
    static const struct km_ops ops = {.page = page};
    for (int i = 0; i < MANY; i++) {
        struct km_object *o;
        int r = km_create("further", 4, KM_READ, &ops, NULL, &o);
        if (!r) r = km_end(o, 1);
        if (r) return r;
    }
    return 0;
}

/* Two pages, unasked. */
static int pages_push(struct km_object *o, uint64_t first, uint64_t value)
{
    static uint64_t words[2 * WORDS];
    for (uint64_t i = 0; i < 2; i++) fill(words + i * WORDS, first + i, value);
    return km_push(o, first, 2, words);
}

static void call(struct km_object *o, void *message, int bytes)
{
    static uint64_t into[WORDS];
    uint64_t *words = message, csn;
    uint8_t bits = 0;
    if (bytes < 32) return;
    switch (words[0]) {
    case ASK_RESIDENT:
        words[0] = (uint64_t)km_resident(o, words[1], 1, &bits);
        words[1] = bits;
        return;
    case ASK_CLEAN: words[0] = (uint64_t)km_clean(o, words[1], words[2]); return;
    case ASK_PIN: words[0] = (uint64_t)km_pin(o, words[1], 1, (int)words[2]); return;
    case ASK_MANY: words[0] = (uint64_t)many_objects(); return;
    case ASK_READ: words[0] = (uint64_t)km_read(o, words[1], into, &csn); return;
    case ASK_PUSH: words[0] = (uint64_t)pages_push(o, words[1], words[2]); return;
    case ASK_NOTHING: for (;;) pause(); /* never answers */
    default:
        words[0] = cleaned, words[1] = stale, words[2] = wrong, words[3] = requests;
        return;
    }
}

static int side(void)
{
    static const struct km_ops ops = {.page = page, .clean = clean, .call = call};
    memset(home, 0, sizeof home); /* what cleaning stores to is there */
    if (km_create(name, PAGES, KM_READ | KM_WRITE, &ops, NULL, &object)) return 1;
    return km_serve(1) ? 2 : 0;
}

/* ---- its client ---- */

static volatile uint64_t *pages_at;

struct answer { uint64_t words[4]; };
static struct answer ask(uint64_t what, uint64_t one, uint64_t two)
{
    struct answer a = {.words = {what, one, two}};
    int r = km_call(name, name, &a, sizeof a);
    if (r < 0) printf("# call %d: %d\n", (int)what, r);
    return a;
}

static volatile uint64_t *at(uint64_t page) { return pages_at + page * WORDS; }

static void write_page(uint64_t page, uint64_t value)
{
    for (unsigned i = 1; i < WORDS; i++) at(page)[i] = value * (page + i);
    at(page)[0] = value;
}

static void one_page(void)
{
    write_page(5, 3);
    is((long)ask(ASK_RESIDENT, 5, 0).words[1], KM_RESIDENT | KM_DIRTY, "a page is dirty");
    is((long)ask(ASK_CLEAN, 0, 10).words[0], 0, "cleaning on the manager's wish");
    struct answer a = ask(ASK_RESIDENT, 5, 0), counts = ask(ASK_COUNTS, 0, 0);
    tap_ok(a.words[1] == KM_RESIDENT && counts.words[0] == 1 && counts.words[2] == 0,
           "it is clean, and no other page was");
    is((long)ask(ASK_CLEAN, PAGES - 1, 2).words[0], -EINVAL, "not beyond the end");
    is((long)ask(ASK_READ, 6, 0).words[0], -ENOENT, "what is not in memory is not read");
    tap_ok((long)ask(ASK_PIN, 5, 1).words[0] == 1 &&
               (long)ask(ASK_RESIDENT, 5, 0).words[1] == (KM_RESIDENT | KM_PINNED),
           "a page is pinned");
}

static void unasked(void)
{
    uint64_t before = ask(ASK_COUNTS, 0, 0).words[3];
    is((long)ask(ASK_PUSH, 20, 9).words[0], 0, "two pages are brought unasked");
    tap_ok(at(20)[0] == 9 && at(21)[5] == 9 * 26 && ask(ASK_COUNTS, 0, 0).words[3] == before,
           "nobody asks for them when they are touched");
    write_page(21, 4);
    tap_ok((long)ask(ASK_PUSH, 20, 10).words[0] == 0 && at(20)[0] == 9 && at(21)[0] == 4,
           "a page that is there stays as it is");
    (void)at(22)[0];
    is((long)(ask(ASK_COUNTS, 0, 0).words[3] - before), 1, "another one is asked for");
}

static void more_than_memory(void)
{
    long bad = 0;
    for (uint64_t round = 1; round < 3; round++)
        for (uint64_t p = 0; p < PAGES; p++) write_page(p, round * 1000 + p % 7);
    is((long)ask(ASK_RESIDENT, 5, 0).words[1] & KM_PINNED, KM_PINNED, "what is pinned stays");
    is((long)ask(ASK_PIN, 5, 0).words[0], 1, "until it is not");
    for (uint64_t p = 0; p < PAGES; p++)
        bad += at(p)[0] != 2000 + p % 7 || at(p)[WORDS - 1] != (2000 + p % 7) * (p + WORDS - 1);
    struct answer a = ask(ASK_COUNTS, 0, 0);
    printf("# %d pages cleaned, %d stored to meanwhile\n", (int)a.words[0], (int)a.words[1]);
    tap_ok(a.words[0] > PAGES && bad == 0, "more pages than memory are written and read");
    is((long)a.words[2], 0, "and what is kept are whole pages");
}

static void no_answer(int pid)
{
    uint64_t words[4] = {ASK_NOTHING}, both[2] = {20, ~0ull};
    is(kd_call4(302, 0, KD_RLIMIT + KD_LIMIT_ANSWER, (long)both, 0), 0, "20 ms for an answer");
    is(km_call(name, name, words, sizeof words), -ETIMEDOUT, "a call is not answered");
    tap_ok(!km_open(name, name, KM_READ) && errno == ETIMEDOUT, "then nothing is opened");
    is((long)at(6)[0], 2006, "pages come nevertheless");
    kill(pid, SIGKILL);
    child_wait(pid);
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) return side();
    tap_plan(21);
    int pid = child_start("/bin/manager_pages", "side", NULL);
    for (int i = 0; i < 3000 && !pages_at; i++) {
        pages_at = km_open(name, name, KM_READ | KM_WRITE);
        if (!pages_at) pause_ms(2);
    }
    if (!tap_ok(pid > 0 && pages_at, "a manager with one thread")) return tap_end();
    one_page();
    unasked();
    more_than_memory();
    is((long)ask(ASK_MANY, 0, 0).words[0], 0, "a thousand objects begin and end");
    tap_ok(!km_open(name, "further", KM_READ) && errno == ENOENT, "none is left");
    no_answer(pid);
    return tap_end();
}
