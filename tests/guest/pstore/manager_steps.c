/*
 * manager_steps.c - the programs of the chapter "Write your own manager" (libpstore/managers.md).
 *
 * Aim     each step does what the chapter says of it. zeros: zero pages, shared by programs.
 *         changed: computed pages that may be stored to, more of them than memory holds, and what
 *         does not fit into its list stays in memory. Step 3 is manager_compressed.c's.
 * Method  the programs as they are, with 32 MiB of memory; this program is their client.
 */
#include <errno.h>
#include <signal.h>
#include <stdint.h>

#include "manager.h"
#include "process.h"
#include "system.h"
#include "tap.h"
#include "user/start.h"

enum { WORDS = KM_PAGE_BYTES / 8, MANY = 9000, STEP = 61 };

static volatile uint64_t *words;

static int serve(const char *name, const char *path)
{
    const char *argv[] = {name, NULL};
    int pid = (int)start_program(path, argv, 0, 1);
    words = NULL;
    for (int i = 0; i < 30000 && pid > 0 && !words; i++) {
        words = km_open(name, name, KM_READ | KM_WRITE);
        if (!words) pause_ms(2);
    }
    return tap_ok(pid > 0 && words, "%s is served", name) ? pid : 0;
}

static void end(int pid, const char *name)
{
    kill(pid, SIGKILL);
    child_wait(pid);
    tap_ok(!km_open(name, name, KM_READ) && errno == ENOENT, "%s ends", name);
}

static void zeros(void)
{
    int pid = serve("zeros", "/bin/zeros");
    uint64_t sum = 0;
    if (!pid) return;
    for (uint64_t p = 0; p < 1000; p++) sum += words[p * STEP * WORDS + p % WORDS];
    tap_ok(sum == 0, "pages are zero");
    for (uint64_t p = 0; p < 1000; p++) words[p * STEP * WORDS + p % WORDS] = p;
    is(child_run("/bin/manager_steps", "reads", "zeros"), 0,
       "another program sees what was stored");
    end(pid, "zeros");
}

/* In each page one word, which differs from page to page. */
static uint64_t place(uint64_t page) { return page * WORDS + page * STEP % WORDS; }

static void changed(void)
{
    int pid = serve("changed", "/bin/changed");
    long wrong = 0;
    if (!pid) return;
    for (uint64_t i = 1; i < 1u << 27; i = i * 3 + 1) wrong += words[i] != i * i;
    is(wrong, 0, "words are computed");
    uint64_t before = system_info().evictions;
    for (uint64_t p = 0; p < MANY; p++) words[place(p)] = p + 7;
    for (uint64_t p = 0; p < MANY; p++) words[place(p) ^ 1]++;
    for (uint64_t p = 0; p < MANY; p++) {
        uint64_t other = place(p) ^ 1;
        wrong += words[place(p)] != p + 7 || words[other] != other * other + 1 ||
                 words[other ^ 2] != (other ^ 2) * (other ^ 2);
    }
    uint64_t went = system_info().evictions - before;
    printf("# %d pages went\n", (int)went);
    tap_ok(wrong == 0 && went > MANY / 2,
           "more pages than memory are stored to, and nothing is lost");
    for (uint64_t p = 0; p < 400; p++) /* more than its list has room for */
        for (unsigned i = 0; i < WORDS; i++) words[p * WORDS + i] = 3 * p + i + 1;
    for (uint64_t p = MANY; p < 2 * MANY; p++) wrong += words[p * WORDS] != p * WORDS * p * WORDS;
    for (uint64_t p = 0; p < 400; p++)
        for (unsigned i = 0; i < WORDS; i++) wrong += words[p * WORDS + i] != 3 * p + i + 1;
    is(wrong, 0, "what its list has no room for stays in memory");
    end(pid, "changed");
}

static int reads(const char *name)
{
    const volatile uint64_t *w = km_open(name, name, KM_READ);
    for (uint64_t p = 0; w && p < 1000; p++)
        if (w[p * STEP * WORDS + p % WORDS] != p) return 1;
    return w ? 0 : 2;
}

int main(int argc, char **argv)
{
    if (argc > 2) return reads(argv[2]);
    tap_plan(10);
    zeros();
    changed();
    tap_ok(kd_call3(KD_CHECK, 0, 0, 0) == 0, "kcheck");
    return tap_end();
}
