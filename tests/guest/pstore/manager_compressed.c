/*
 * manager_compressed.c - the compressed memory manager (user/managers/compressed.c).
 *
 * Aim     pages that memory has no room for are written and read, and what is packed never passes
 *         the limit; what cannot be packed is refused, to the program that wants it; clients that
 *         are killed at any step, or say what makes no sense, change nothing for others; pages that
 *         are sent out while they are stored to lose no store; a manager that is killed leaves a
 *         system in which the next one starts.
 * Method  32 MiB of memory, an object of 64 MiB, 8 MiB for what is packed. Each page is a pattern
 *         that is made of one word. Without LZ4's source there is no such program, and no test.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "manager.h"
#include "process.h"
#include "system.h"
#include "tap.h"
#include "user/managers/compressed.h"
#include "user/start.h"

enum { MIB = 64, LIMIT_MIB = 8, PAGES = MIB << 8, WRITTEN = 7500, WORDS = KM_PAGE_BYTES / 8,
       STORM = 64, FOREIGN = 8192, STEP = 37,
       STORM_ROUNDS = 60 };
static const char name[] = "compressed", self[] = "/bin/manager_compressed";

static volatile uint64_t *pages;

static volatile uint64_t *at(uint64_t page) { return pages + page * WORDS; }

static int open_pages(void)
{
    pages = km_open(name, name, KM_READ | KM_WRITE);
    return pages != NULL;
}

static struct compressed_call ask(uint64_t what, uint64_t page, uint64_t count)
{
    struct compressed_call c = {.what = what, .page = page, .count = count};
    int r = km_call(name, name, &c, sizeof c);
    if (r < 0) c.result = r;
    return c;
}

/* An eighth of the page is noise, the rest repeats. */
static uint64_t pattern(uint64_t page, unsigned i, uint64_t value)
{
    uint64_t x = (page * WORDS + i + value) * 0x9e3779b97f4a7c15ull;
    return i == 0 ? value : i % 8 ? value : x ^ x >> 29;
}

static void write_page(uint64_t page, uint64_t value)
{
    for (unsigned i = 0; i < WORDS; i++) at(page)[i] = pattern(page, i, value);
}

static int page_is(uint64_t page, uint64_t value)
{
    for (unsigned i = 0; i < WORDS; i++)
        if (at(page)[i] != pattern(page, i, value)) return 0;
    return 1;
}

static long pages_wrong(uint64_t value, uint64_t step)
{
    long wrong = 0;
    for (uint64_t p = 0; p < WRITTEN; p += step) wrong += !page_is(p, value + p % 5);
    return wrong;
}

/* ---- this program as a client that is killed, or refused ---- */

static _Noreturn void child(const char *what, long number)
{
    if (!open_pages()) _exit(3);
    if (strcmp(what, "noise") == 0) /* nothing of this can be packed: at last the manager refuses */
        for (uint64_t p = FOREIGN, x = 1; p < PAGES; p++)
            for (unsigned i = 0; i < WORDS; i++)
                at(p)[i] = x = x * 6364136223846793005ull + 1442695040888963407ull;
    if (strcmp(what, "noise") == 0) _exit(0);
    /* "killed": after so many steps, in the middle of one */
    for (long i = 0; i < 400; i++) {
        if (i == number) kill(getpid(), SIGKILL);
        at(FOREIGN + (uint64_t)(i * STEP) % 1024)[i % WORDS] = (uint64_t)i;
        if (i % 50 == 49) ask(COMPRESSED_OUT, FOREIGN, 512);
    }
    _exit(0);
}

/* ---- the tests ---- */

static void more_than_memory(void)
{
    uint64_t before = system_info().evictions;
    for (uint64_t p = 0; p < WRITTEN; p++) write_page(p, 1000 + p % 5);
    is(pages_wrong(1000, 1), 0, "more pages than memory are read as they were written");
    struct compressed_counts c = ask(COMPRESSED_COUNTS, 0, 0).counts;
    printf("# %d pages packed into %d KiB, in slots of %d KiB; %d evicted, %d supplied\n",
           (int)c.packed, (int)(c.bytes >> 10), (int)(c.memory >> 10),
           (int)(system_info().evictions - before), (int)c.supplied);
    tap_ok(c.packed > WRITTEN / 4 && c.bytes < c.packed * KM_PAGE_BYTES / 2 && c.supplied > 500,
           "packed, they need less than half");
    tap_ok(c.bytes <= c.memory && c.memory <= c.limit && c.limit == LIMIT_MIB << 20,
           "and no more than the limit");
}

static void out_and_in(void)
{
    static const struct compressed_counts none;
    struct compressed_call c = {.result = 0};
    /* The kernel may send some out between, or on a busy host all: memory is short here. */
    for (int i = 0; i < 100 && c.result == 0; i++) {
        for (uint64_t p = 0; p < 16; p++) memset((void *)at(p), 0, KM_PAGE_BYTES);
        c = ask(COMPRESSED_OUT, 0, 16);
    }
    tap_ok(c.result > 0 && c.result <= 16, "zero pages go (%d that had not gone)", (int)c.result);
    long wrong = 0;
    for (uint64_t p = 0; p < 16; p++) wrong += at(p)[0] || at(p)[WORDS - 1];
    tap_ok(wrong == 0 && ask(COMPRESSED_COUNTS, 0, 0).counts.supplied == c.counts.supplied,
           "and come again as zeros, from no slot");
    for (uint64_t p = 0; p < 16; p++) write_page(p, 1000 + p % 5);
    is((long)ask(COMPRESSED_OUT, PAGES - 1, 2).result, -EINVAL, "nothing goes beyond the end");
    uint64_t odd = 77;
    tap_ok(km_call(name, name, &odd, sizeof odd) >= 0 && odd == 77 &&
               km_call(name, "other", &odd, sizeof odd) == -ENOENT &&
               memcmp(&c.counts, &none, sizeof none) != 0,
           "what makes no sense is not answered");
}

static _Atomic int storm_ends;
static _Atomic uint64_t rounds[2];

/* Both threads go through all pages in order, each with two words of its own in them. */
static void *storm_writer(void *number)
{
    uintptr_t mine = (uintptr_t)number;
    for (uint64_t n = 1; !storm_ends; rounds[mine] = n++)
        for (uint64_t p = 0; p < STORM; p++) {
            at(p)[1 + mine] = n;
            at(p)[WORDS - 1 - mine] = n;
        }
    return NULL;
}

/* Meanwhile memory is short, so answers wait for it. */
static void *presser(void *unused)
{
    for (uint64_t x = 1; !storm_ends;) {
        x = x * 6364136223846793005ull + 1442695040888963407ull;
        volatile uint64_t *word = at(STORM + (x >> 33) % (WRITTEN - STORM)) + 2;
        *word = *word;
    }
    return unused;
}

/* Pages are sent out while two threads count in them; in the end each must show what was counted.
 * They come back several at a time, so that some come twice at the same time. */
static void storm(void)
{
    pthread_t t[3];
    long wrong = 0;
    pthread_create(&t[2], NULL, presser, NULL);
    for (uintptr_t i = 0; i < 2; i++) pthread_create(&t[i], NULL, storm_writer, (void *)i);
    for (int i = 0; i < STORM_ROUNDS || rounds[0] < 3 || rounds[1] < 3; i++)
        ask(COMPRESSED_OUT, 0, STORM);
    storm_ends = 1;
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    struct compressed_counts c = ask(COMPRESSED_OUT, 0, STORM).counts;
    for (uint64_t p = 0; p < STORM; p++)
        for (unsigned i = 0; i < 2; i++)
            wrong += at(p)[1 + i] != rounds[i] || at(p)[WORDS - 1 - i] != rounds[i];
    printf("# %d rounds, %d stored to while they were packed\n", (int)(rounds[0] + rounds[1]),
           (int)c.stale);
    is(wrong, 0, "no store is lost in pages that are sent out again and again");
    for (uint64_t p = 0; p < STORM; p++) write_page(p, 1000 + p % 5);
}

/* A child's status. What it needs at its start may be refused: frames that lie together, while
 * those that are free do not. Then pages come and go, until some do. */
static int child_once(const char *what, const char *number)
{
    int status, tries = 0;
    while ((status = child_run(self, what, number)) == -ENOMEM && tries++ < 3000) {
        if (tries % 20 == 0) (void)pages_wrong(1000, 1 + (uint64_t)tries / 20 % 7);
        pause_ms(5);
    }
    struct kd_system_info now = system_info();
    if (tries)
        printf("# %s %s: refused %d times, for want of memory (%lu KiB free, %lu pages dirty)\n",
               what, number, tries, now.free_bytes >> 10, now.dirty_pages);
    return status;
}

static void others(void)
{
    int odd = 0, status;
    for (int i = 0; i < 8; i++) {
        char number[8];
        snprintf(number, sizeof number, "%d", i * 53);
        odd += (status = child_once("killed", number)) != 128 + SIGKILL;
        if (status != 128 + SIGKILL) printf("# client %s: status %d\n", number, status);
    }
    is(odd, 0, "clients are killed, at eight different steps");
    is(pages_wrong(1000, 7), 0, "nothing of others changes");
    status = child_once("noise", "0");
    struct compressed_counts c = ask(COMPRESSED_COUNTS, 0, 0).counts;
    printf("# noise: status %d; %d KiB of %d, %d left in memory\n", status, (int)(c.memory >> 10),
           (int)(c.limit >> 10), (int)c.left);
    tap_ok(status == 139 && c.memory <= c.limit, "what cannot be packed is refused at the limit");
    is(pages_wrong(1000, 7), 0, "and nothing of others changes");
}

static int serve(void)
{
    char mib[8], limit[8];
    const char *argv[] = {name, mib, limit, NULL};
    snprintf(mib, sizeof mib, "%d", MIB);
    snprintf(limit, sizeof limit, "%d", LIMIT_MIB);
    int pid = (int)start_program("/bin/compressed", argv, 0, 1);
    for (int i = 0; i < 30000 && pid > 0 && !open_pages(); i++) pause_ms(2);
    return pid;
}

static void deaths(int pid)
{
    for (int i = 0; i < 4; i++) {
        int client = child_start(self, "killed", i % 2 ? "390" : "0");
        for (int p = 0; p < 40 * i; p++) write_page((uint64_t)p, 5);
        kill(pid, SIGKILL);
        child_wait(pid);
        int status = child_wait(client);
        pid = serve();
        if (!pages || (status != 128 + SIGKILL && status != 139 && status != 3))
            printf("# death %d: the client's status %d\n", i, status);
        if (!pages || at(0)[0]) break;
        write_page(3, 6);
    }
    tap_ok(pages && at(0)[0] == 0 && page_is(3, 6), "after its death the next one starts empty");
    kill(pid, SIGKILL);
    child_wait(pid);
    tap_ok(!open_pages() && errno == ENOENT, "and when it ends, nobody serves");
}

int main(int argc, char **argv)
{
    if (argc > 2) child(argv[1], atol(argv[2]));
    if (access("/bin/compressed", X_OK)) {
        printf("1..0 # skip without LZ4's source (scripts/source lz4)\n");
        return 0;
    }
    tap_plan(16);
    int pid = serve();
    if (!tap_ok(pid > 0 && pages, "compressed memory is served")) return tap_end();
    more_than_memory();
    out_and_in();
    storm();
    others();
    deaths(pid);
    tap_ok(kd_call3(KD_CHECK, 0, 0, 0) == 0, "kcheck");
    return tap_end();
}
