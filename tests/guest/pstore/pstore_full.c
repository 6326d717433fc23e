/*
 * pstore_full.c - a memory that is full of pages: 256 MiB, or 128 in `make test`.
 *
 * Aim     85 % of the frames hold pages of containers; and programs that need frames beside that
 *         get them, as pages go: a fork of a process larger than all that is free, pipes, a file in
 *         memory, a large text of KD_LOOK; the file, and memory that is asked for at once
 *         (MADV_POPULATE_WRITE), also where programs have most of the memory, and pages hold less
 *         than a quarter of it.
 * Method  more pages than there are frames are read, once. Pages that were never stored to cost the
 *         disk nothing. Before each part they are read again, so that little is free.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pstore_test.h"

enum { PAGES = 72 << 10, PAGES_TEST = 34 << 10, PIECE = 512, FULL_PERCENT = 85, FEW_PERCENT = 22,
       WORDS = KD_PAGE_BYTES / 8 };
enum { LARGE = 24 << 20, LARGE_TEST = 12 << 20, PIPES = 24, PARTS = 8, TEXT_BYTES = 64 << 10 };
struct root { uint64_t *pages; };
static ps_container *c;
static const volatile uint64_t *pages;
static char *memory;
static size_t total = PAGES, large = LARGE; /* pages; bytes of a process, of a file */

static int make(void *unused)
{
    (void)unused;
    struct root *root = ps_root(c);
    if (!root->pages) root->pages = ps_alloc(c, total * KD_PAGE_BYTES, NULL);
    pages = root->pages;
    return root->pages ? 0 : -errno;
}

static int look(void *first)
{
    uint64_t sum = 0;
    for (uint64_t i = *(uint64_t *)first, end = i + PIECE; i < end; i++) sum |= pages[i * WORDS];
    return sum ? -EPROTO : 0;
}

/* Reads `count` pages, of those that were read longest ago. 0 or -errno. */
static int fill(uint64_t count)
{
    static uint64_t next;
    int e = 0;
    for (uint64_t done = 0; !e && done < count; done += PIECE, next = (next + PIECE) % total)
        e = ps_transaction(look, &next);
    return e;
}

/* Pages are read until a `part` would not find what it needs. */
static void with_full_memory(bool (*part)(void), const char *what)
{
    uint64_t before = large;
    int e = 0;
    for (int n = 0; e == 0 && before >= large && n < PARTS; n++) {
        e = fill(total / PARTS);
        before = system_info().free_bytes;
    }
    bool good = e == 0 && before < large && part();
    tap_ok(good, "%s (%d, %d, %llu KiB were free)", what, e, errno,
           (unsigned long long)before >> 10);
}

static bool forks(void)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) _exit(memory[large / 2] != 1);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static bool pipes(void)
{
    int ends[PIPES][2], n = 0;
    while (n < PIPES && pipe(ends[n]) == 0) n++;
    for (int i = 0; i < n; i++) close(ends[i][0]), close(ends[i][1]);
    return n == PIPES;
}

static bool file(void)
{
    int to = open("/tmp/full", O_CREAT | O_WRONLY | O_TRUNC, 0600);
    ssize_t written = write(to, memory, large);
    close(to), unlink("/tmp/full");
    return written == (ssize_t)large;
}

static bool few(const struct kd_system_info *s)
{
    return s->resident_pages * 100 < s->memory_bytes / KD_PAGE_BYTES * FEW_PERCENT;
}

/* The program takes memory of its own, as much as it may, until pages hold few frames. */
static bool beside_few_pages(bool (*part)(void))
{
    struct kd_system_info s = system_info();
    size_t most = s.memory_bytes / 8 * 5, used = 0;
    char *own = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own == MAP_FAILED) return false;
    for (; used < most && !few(&s); s = system_info())
        for (size_t end = used + (1 << 20); used < end && used < most; used += KD_PAGE_BYTES)
            own[used] = 1;
    printf("# the program has %zu MiB, and %llu frames hold pages\n", used >> 20,
           (unsigned long long)s.resident_pages);
    bool good = part();
    munmap(own, most);
    return few(&s) && good;
}
static bool file_beside_few_pages(void) { return beside_few_pages(file); }

/* Another process does it, as there is a limit to what one may have. */
static int start[2] = {-1, -1};
static pid_t populator;

static void populate(void)
{
    enum { POPULATE_WRITE = 23 }; /* MADV_POPULATE_WRITE, which musl lacks */
    char go;
    free(memory);
    char *at = mmap(NULL, large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || read(start[0], &go, 1) != 1) _exit(1);
    _exit(madvise(at, large, POPULATE_WRITE) ? errno : at[large - 1] ? 1 : 0);
}

static bool populated(void)
{
    int status = -1;
    bool ended = write(start[1], "", 1) == 1 && waitpid(populator, &status, 0) == populator;
    if (status) printf("# %d\n", WEXITSTATUS(status));
    return ended && status == 0;
}
static bool populated_beside_few_pages(void) { return beside_few_pages(populated); }

static bool text(void)
{
    return kd_call4(KD_LOOK, KD_LOOK_OBJECTS, 0, (long)memory, TEXT_BYTES - 1) > 0;
}

int main(void)
{
    tap_plan(10);
    if (!tap_long()) total = PAGES_TEST, large = LARGE_TEST;
    c = ps_open("full", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    is(c ? ps_transaction(make, NULL) : -errno, 0, "a container");
    is(fill(total), 0, "all of it is read");
    struct kd_system_info s = system_info();
    uint64_t frames = s.memory_bytes / KD_PAGE_BYTES;
    tap_ok(total > frames && s.resident_pages * 100 >= frames * FULL_PERCENT,
           "of %llu frames %llu hold pages: %llu of 1000", (unsigned long long)frames,
           (unsigned long long)s.resident_pages,
           (unsigned long long)(s.resident_pages * 1000 / frames));
    memory = malloc(large);
    if (memory) memset(memory, 1, large);
    with_full_memory(forks, "a process of much memory forks");
    with_full_memory(pipes, "pipes are made");
    with_full_memory(file, "a file as large is written");
    with_full_memory(text, "the kernel tells a text");
    with_full_memory(file_beside_few_pages, "the file also where pages hold less than a quarter");
    populator = pipe(start) == 0 ? fork() : -1;
    if (populator == 0) populate();
    with_full_memory(populated_beside_few_pages, "memory is populated there, too");
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck");
    return tap_end();
}
