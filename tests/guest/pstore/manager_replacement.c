/*
 * manager_replacement.c - /bin/replacement, which decides what pages of it are in memory.
 *
 * Aim     under each policy all words are right and never more pages are in memory than the manager
 *         says; FIFO asks for exactly the pages of a FIFO; policies that see uses keep what is
 *         used beside a scan. Clients that are killed cost it nothing; when the kernel is short of
 *         memory and takes pages, they come again; a page that cannot be read ends who touches
 *         it; a manager that is killed can be started again.
 * Method  a boot without a store: the kernel's count of pages in memory is the manager's.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "manager.h"
#include "press.h"
#include "process.h"
#include "system.h"
#include "tap.h"
#include "user/managers/replacement/policy.h"
#include "user/start.h"

enum { PAGES = 300, FRAMES = 40, TOUCHES = 4000, WORDS = KD_PAGE_BYTES / 8, HOT = 25, ROUNDS = 40,
       SCANNED = 30, KILLS = 10, LEFT = 90 };
static const char path[] = "/tmp/pages";
static const volatile uint64_t *words;
static int manager;

static int file_make(void)
{
    uint64_t page[WORDS] = {0};
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600), bad = fd < 0;
    for (uint64_t i = 0; i < PAGES && !bad; i++) {
        page[0] = page[WORDS - 1] = i * 7 + 1;
        bad = write(fd, page, i < PAGES - 1 ? sizeof page : 16) < 16; /* the last is short */
    }
    close(fd);
    return !bad;
}

static int wrong(unsigned page)
{
    return words[page * WORDS] != page * 7 + 1 ||
           words[page * WORDS + WORDS - 1] != (page < PAGES - 1 ? page * 7 + 1 : 0);
}

static int serve(const char *policy)
{
    char digits[12];
    const char *argv[] = {"replacement", policy, digits, path, NULL};
    snprintf(digits, sizeof digits, "%d", FRAMES);
    manager = (int)start_program("/bin/replacement", argv, 0, 1);
    words = NULL;
    for (int i = 0; i < 30000 && manager > 0 && !words; i++) {
        words = km_open("replacement", "replacement", KM_READ);
        if (!words) pause_ms(1);
    }
    return words != NULL;
}

static void serve_end(void)
{
    kd_call3(KD_PROCESS_KILL, manager, 9, 0);
    kd_call3(KD_PROCESS_WAIT, manager, 0, 0);
}

static struct replacement_counts counts(void)
{
    struct replacement_counts c = {0};
    km_call("replacement", "replacement", &c, sizeof c);
    return c;
}

/* The requests of a FIFO of FRAMES pages; touches are those of touch_some. */
static unsigned fifo(unsigned page, unsigned requests)
{
    static unsigned ring[FRAMES];
    for (unsigned i = 0; i < FRAMES && i < requests; i++)
        if (ring[i] == page) return requests;
    ring[requests % FRAMES] = page;
    return requests + 1;
}

static unsigned touch_some(unsigned *seed, unsigned *fifo_requests, long *most)
{
    unsigned bad = 0;
    for (int i = 0; i < TOUCHES; i++) {
        unsigned page = (unsigned)rand_r(seed) % (1 + (unsigned)rand_r(seed) % PAGES);
        bad += wrong(page) != 0;
        *fifo_requests = fifo(page, *fifo_requests);
        long now = (long)system_info().resident_pages;
        *most = now > *most ? now : *most;
    }
    return bad;
}

/* Pages that are used twice, and a scan, by turns. */
static unsigned hot_and_scanned(void)
{
    unsigned bad = 0, next = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < 2 * HOT; i++) bad += wrong(i % HOT) != 0;
        for (unsigned i = 0; i < SCANNED; i++) bad += wrong(HOT + next++ % (PAGES - HOT)) != 0;
    }
    return bad;
}

static uint64_t policy_runs(const char *name)
{
    unsigned seed = 5, in_fifo = 0, bad;
    long most = 0;
    if (!tap_ok(serve(name), "%s serves", name)) return 0;
    bad = touch_some(&seed, &in_fifo, &most);
    struct replacement_counts c = counts(), d;
    int limited = most > FRAMES / 2 && most <= FRAMES && c.requests > FRAMES;
    bad += hot_and_scanned();
    d = counts();
    tap_ok(bad == 0 && limited, "%s: all words are right, at most %d pages in memory (%ld)", name,
           FRAMES, most);
    if (strcmp(name, "fifo") == 0)
        tap_ok(c.requests == in_fifo && c.evicted == in_fifo - FRAMES && c.again == 0,
               "fifo asks for what a FIFO asks for (%ld, %u)", (long)c.requests, in_fifo);
    serve_end();
    return d.requests - c.requests;
}

static void policies_run(void)
{
    static const char *const names[] = {"fifo", "clock", "lru2", "arc", "kernel"};
    uint64_t asked[5];
    for (int i = 0; i < 5; i++) asked[i] = policy_runs(names[i]);
    printf("# beside scans: fifo %d, clock %d, lru2 %d, arc %d, kernel %d\n", (int)asked[0],
           (int)asked[1], (int)asked[2], (int)asked[3], (int)asked[4]);
    tap_ok(asked[2] < ROUNDS * (SCANNED + HOT / 3) && asked[3] < ROUNDS * (SCANNED + HOT / 3) &&
               asked[0] > ROUNDS * (SCANNED + HOT / 2),
           "lru2 and arc keep what is used again, fifo does not");
}

/* Touches pages below `end` for ever. */
static int toucher(unsigned seed, unsigned end)
{
    words = km_open("replacement", "replacement", KM_READ);
    while (words) {
        if (wrong((unsigned)rand_r(&seed) % end)) return 1;
        child_begun();
    }
    return 2;
}

static void clients_die(const char *self)
{
    int bad = 0;
    char seed[12];
    for (int i = 0; i < KILLS; i++) {
        int pids[2];
        for (int k = 0; k < 2; k++) {
            snprintf(seed, sizeof seed, "%d", 2 * i + k + 1);
            pids[k] = child_start(self, "touch", seed);
        }
        for (int k = 0; k < 2; k++) bad += !child_has_begun(pids[k]);
        pause_ms(i);
        for (int k = 0; k < 2; k++) {
            kill(pids[k], SIGKILL);
            bad += child_wait(pids[k]) < 100; /* it found a wrong word */
        }
        for (unsigned page = 0; page < PAGES; page += 7) bad += wrong(page);
        bad += system_info().resident_pages > FRAMES;
    }
    is(bad, 0, "clients are killed, and the manager serves on");
}

static void memory_ends(void)
{
    enum { USED = 10 };
    int bad = 0;
    for (unsigned page = 100; page < 100 + FRAMES; page++) bad += wrong(page);
    for (unsigned page = 0; page < USED; page++) bad += wrong(page); /* the last that came */
    bad += !press_memory(2000);
    uint64_t left = system_info().resident_pages, again = counts().again;
    for (unsigned page = 0; page < USED; page++) bad += wrong(page);
    again = counts().again - again;
    for (unsigned page = 0; page < PAGES; page++) bad += wrong(page);
    tap_ok(left < FRAMES && !bad && again == USED,
           "the kernel takes pages when it is short, and they come again (%d left, %d again)",
           (int)left, (int)again);
    tap_ok(system_info().resident_pages <= FRAMES, "and no more than before are in memory");
}

static int touch_one(unsigned page)
{
    words = km_open("replacement", "replacement", KM_READ);
    return words && !wrong(page) ? 17 : 1;
}

static void unreadable(const char *self)
{
    bool fine = wrong(1) == 0;
    for (unsigned page = 100; page < 200; page++) fine &= !wrong(page); /* page 1 has gone */
    int fd = open(path, O_WRONLY);
    tap_ok(ftruncate(fd, LEFT * KD_PAGE_BYTES) == 0 && fine, "the file loses its end");
    close(fd);
    int status = child_run(self, "one", "280");
    tap_ok(status > 1 && status != 17, "who touches a page that is no more is ended (%d)", status);
    is(child_run(self, "one", "1"), 17, "the others are there");
}

static void manager_dies(const char *self)
{
    int pid = child_start(self, "left", "3");
    bool begun = child_has_begun(pid);
    serve_end();
    tap_ok(begun && child_wait(pid) > 100,
           "a client dies with its next touch of a dead manager's page");
    tap_ok(serve("arc") && !wrong(5), "the manager is started again");
    serve_end();
}

int main(int argc, char **argv)
{
    if (argc > 2) {
        unsigned number = (unsigned)atoi(argv[2]);
        return argv[1][0] == 'o' ? touch_one(number)
                                 : toucher(number, argv[1][0] == 't' ? PAGES : LEFT);
    }
    tap_plan(24);
    if (!tap_ok(file_make(), "a file of %d pages", PAGES)) return tap_end();
    policies_run();
    tap_ok(serve("fifo"), "fifo once more: what it holds is known");
    clients_die(argv[0]);
    memory_ends();
    unreadable(argv[0]);
    manager_dies(argv[0]);
    const char *argv_bad[] = {"replacement", "mru", "40", path, NULL};
    int status = 0, pid = (int)start_program("/bin/replacement", argv_bad, 0, 1);
    kd_call3(KD_PROCESS_WAIT, pid, (long)&status, 0);
    is(status >> 8 ? status >> 8 : status, 2, "no such policy");
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck");
    return tap_end();
}
