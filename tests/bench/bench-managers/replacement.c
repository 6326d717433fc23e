/*
 * replacement.c - the manager "replacement" under each of its policies, on the traces of
 * patterns.c: how many pages it was asked for, beside an exact LRU and the least possible.
 */
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "bench.h"
#include "patterns.h"
#include "user/managers/replacement/policy.h"
#include "user/start.h"

enum { PART = 4, SYSTEM_YIELD = 24 };    /* frames: a PART-th of the pages */
static const char *const names[] = {"kernel", "fifo", "clock", "lru2", "arc"};
static const char path[] = "/tmp/replacement";

/* A file of so many pages; the first word of each is its number. */
static void file_make(unsigned pages)
{
    uint64_t words[KD_PAGE_BYTES / 8] = {0};
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    for (words[0] = 0; words[0] < pages; words[0]++)
        if (write(fd, words, sizeof words) != sizeof words)
            fail(path, -errno);
    close(fd);
}

/* The manager's counts after one run of the trace. */
static struct replacement_counts run_with(const char *policy, const struct trace *t,
                                          unsigned frames)
{
    char digits[12];
    const char *argv[] = {"replacement", policy, digits, path, NULL};
    struct replacement_counts c = {0};
    const volatile uint64_t *words;
    snprintf(digits, sizeof digits, "%u", frames);
    long pid = start_program("/bin/replacement", argv, 0, 1);
    while (pid > 0 && !(words = km_open("replacement", "replacement", KM_READ)))
        kd_call3(SYSTEM_YIELD, 0, 0, 0);
    if (pid < 0)
        fail("replacement", pid);
    for (unsigned i = 0; i < t->count; i++)
        if (words[t->page[i] * (KD_PAGE_BYTES / 8)] != t->page[i])
            fail("a wrong page", -EIO);
    long e = km_call("replacement", "replacement", &c, sizeof c);
    if (e)
        fail("replacement", e);
    server_end(pid);
    return c;
}

/* What a policy that knows each use would ask for. */
static void known_print(const struct trace *t, unsigned frames)
{
    printf("# with each use known:");
    for (const struct policy *const *p = policies(); *p; p++)
        printf(" %s %u", (*p)->name, misses_by(*p, t, frames));
    printf("\n");
}

static void run(void)
{
    char name[128];
    for (unsigned pattern = 0; pattern < PATTERNS; pattern++) {
        struct trace t = trace_make(pattern);
        unsigned frames = t.pages / PART;
        double least = misses_least(&t, frames), lru = misses_lru(&t, frames);
        file_make(t.pages);
        printf("# %s: %u touches of %u pages in %u frames; LRU asks for %.0f, the least is %.0f\n",
               t.name, t.count, t.pages, frames, lru, least);
        known_print(&t, frames);
        for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
            struct replacement_counts c = run_with(names[i], &t, frames);
            snprintf(name, sizeof name, "replacement, %s: pages asked for, policy %s", t.name,
                     names[i]);
            row(name, "times exact LRU", (double)c.requests / lru, "-");
            printf("measured\t%s\t%s\t%u\t%.4f\n", t.name, names[i], frames,
                   1 - (double)c.requests / t.count);
        }
        free(t.page);
    }
}

const struct part replacement_part = {"replacement", run, NULL};
