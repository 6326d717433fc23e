/*
 * pstore_pin.c - ps_pin: pages of a container that stay in memory.
 *
 * Aim     pinned pages are brought and stay while memory is short and others go; a program pins no
 *         more than its limit, and no other's; ps_unpin, ps_close, a program's end and its death
 *         let them go, but not what another program pins; wrong use is told.
 * Method  a container that fills half of the memory; squares fill all of it. Requests for pages are
 *         counted. The limit is that of a child.
 */
#include <signal.h>
#include <unistd.h>

#include "press.h"
#include "pstore_test.h"

enum { PAGES = 4000, STEP = 100, FROM = 1000, COUNT = 300, WORDS = KD_PAGE_BYTES / 8 };
enum { BYTES = COUNT * KD_PAGE_BYTES, PRLIMIT64 = 302 };
struct root { uint64_t *array; };
static ps_container *c;
static uint64_t *array;

static int make(void *unused)
{
    (void)unused;
    struct root *r = ps_root(c);
    if (r && !r->array) r->array = ps_alloc(c, (size_t)PAGES * KD_PAGE_BYTES, NULL);
    array = r ? r->array : NULL;
    return array ? 0 : -errno;
}

static int fill(void *from)
{
    for (uintptr_t i = (uintptr_t)from; i < (uintptr_t)from + STEP; i++) array[i * WORDS] = i + 1;
    return 0;
}

static int sum(void *from)
{
    for (uintptr_t i = (uintptr_t)from; i < (uintptr_t)from + COUNT; i++)
        if (array[i * WORDS] != i + 1) return 1;
    return 0;
}

/* Requests for pages that reading COUNT of them took; -1: they are not what they were. */
static long requests(uintptr_t from)
{
    struct ps_stats before, after;
    ps_stats(&before);
    int e = ps_transaction(sum, (void *)from);
    ps_stats(&after);
    return e ? -1 : (long)(after.pages_read - before.pages_read);
}

static void *at(uintptr_t page) { return array + page * WORDS; }

static int pressed(void) { return press_memory(tap_long() ? 2 * PAGES : PAGES); }

static void test_stay(void)
{
    is(ps_pin(at(FROM), BYTES), 0, "300 pages are pinned");
    tap_ok(pressed(), "memory is short");
    is(requests(FROM), 0, "they are still there");
    tap_ok(requests(2000) > 0, "others have gone");
    tap_ok(pressed() && requests(FROM) == 0, "once more");
    is(ps_unpin(at(FROM), BYTES), 0, "unpinned");
    tap_ok(pressed() && requests(FROM) > 0, "they go, too");
    is(ps_pin(at(2000), BYTES), 0, "pages that are not in memory");
    is(requests(2000), 0, "come before they are touched");
    is(ps_unpin(at(2000), BYTES), 0, "(unpinned)");
}

static int open_it(void)
{
    c = ps_open("pinned", PS_WRITE, PS_LAYOUT(struct root, 1));
    return c ? ps_transaction(make, NULL) : -errno;
}

/* A child: pins, tells it by its end (ends), or lives until it is killed (lives). */
static int child(const char *what)
{
    uint64_t limit[2] = {COUNT + 10, ~0ull};
    if (kd_call4(PRLIMIT64, 0, KD_RLIMIT + KD_LIMIT_PINS, (long)limit, 0) || open_it()) return 1;
    if (ps_pin(at(FROM), BYTES)) return 2;
    if (ps_pin(at(2000), 11 * KD_PAGE_BYTES) != -ENOMEM) return 3;
    if (ps_pin(at(2000), 10 * KD_PAGE_BYTES) || ps_pin(at(0), 1) != -ENOMEM) return 4;
    if (ps_unpin(at(2000), 10 * KD_PAGE_BYTES) || ps_pin(at(0), 1)) return 5;
    if (strcmp(what, "kill") == 0) kill(getpid(), SIGKILL);
    if (strcmp(what, "close") == 0) return ps_close(c);
    return 0;
}

static void test_ends(const char *self)
{
    is(child_run(self, "child", "end"), 0, "a program pins as many as its limit allows, no more");
    tap_ok(pressed() && requests(FROM) > 0, "and its end lets them go");
    is(child_run(self, "child", "kill"), 128 + SIGKILL, "one that is killed");
    tap_ok(pressed() && requests(FROM) > 0, "pins nothing any more");
    is(child_run(self, "child", "close"), 0, "nor does one that closes");
    is(ps_pin(at(FROM + 100), BYTES), 0, "two programs pin the same pages");
    is(child_run(self, "child", "end"), 0, "one ends");
    tap_ok(pressed() && requests(FROM + 100) == 0, "they stay for the other");
    is(ps_close(c), 0, "which closes");
    is(open_it(), 0, "(opened again)");
    tap_ok(pressed() && requests(FROM + 100) > 0, "now they go");
}

int main(int argc, char **argv)
{
    int e = 0;
    if (argc > 2) return child(argv[2]);
    tap_plan(28);
    c = ps_open("pinned", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    is(c ? ps_transaction(make, NULL) : -errno, 0, "an array of 16 MB");
    for (uintptr_t i = 0; i < PAGES && !e; i += STEP) e = ps_transaction(fill, (void *)i);
    is(e ? e : ps_checkpoint(), 0, "it is filled, and home");
    test_stay();
    test_ends(argv[0]);
    is(ps_pin(&e, 1), -ENOENT, "what is no container's");
    is(ps_pin(array, 0), -ENOENT, "nothing");
    is(ps_unpin(at(FROM), BYTES), -EINVAL, "what is not pinned");
    is(ps_pin(array, (size_t)PAGES * KD_PAGE_BYTES), -ENOMEM, "too much");
    is(requests(FROM) >= 0, 1, "(and nothing is lost)");
    return tap_end();
}
