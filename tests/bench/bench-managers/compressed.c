/*
 * compressed.c - a page from the compressed memory manager: the messages, unpacking (LZ4) and the
 * copy. Records of 64 bytes with a number, a pointer and a count; and words of which each fourth is
 * noise, which makes 128 pieces of a page.
 */
#include <unistd.h>

#include "bench.h"
#include "user/managers/compressed.h"
#include "user/start.h"

enum { PAGES = 64, WORDS = KD_PAGE_BYTES / 8, SYSTEM_YIELD = 24 };
static const char name[] = "compressed", path[] = "/bin/compressed";

static uint64_t record_word(unsigned i)
{
    unsigned record = i / 8;
    return i % 8 == 0 ? record : i % 8 == 1 ? 0x200000000000ull + record * 64 : i % 8 == 4 ? 1 : 0;
}

static uint64_t noise_word(unsigned i)
{
    uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull;
    return i % 4 ? i / WORDS : x ^ x >> 29;
}

static void measure(volatile uint64_t *words, uint64_t (*word)(unsigned i), const char *what)
{
    struct compressed_call c = {.what = COMPRESSED_OUT, .count = PAGES};
    for (unsigned i = 0; i < (PAGES + 1) * WORDS; i++)
        words[i] = word(i);
    long e = km_call(name, name, &c, sizeof c);
    if (e < 0 || c.result < 0)
        fail("pages that are packed", e < 0 ? e : c.result);
    if (c.result < PAGES - 1 || c.counts.packed < PAGES) /* one may have gone by itself before */
        fail("pages that are packed", -EBUSY);
    printf("# %d pages in %d bytes\n", (int)c.counts.packed, (int)c.counts.bytes);
    row(what, "instructions", touch_all((volatile char *)words, PAGES, 0), "13030");
}

static void run(void)
{
    const char *argv[] = {name, "1", "1", NULL};
    volatile uint64_t *words;
    if (access(path, X_OK)) {
        printf("# no compressed memory manager without LZ4's source\n");
        return;
    }
    long pid = start_program(path, argv, 0, 1);
    if (pid < 0)
        fail(path, pid);
    while (!(words = km_open(name, name, KM_READ | KM_WRITE)))
        kd_call3(SYSTEM_YIELD, 0, 0, 0);
    measure(words, record_word,
            "page that was packed, of records (Linux, userfaultfd alone: 13030)");
    measure(words, noise_word,
            "page that was packed, a quarter noise (Linux, userfaultfd alone: 13030)");
    server_end(pid);
}

const struct part compressed_part = {"compressed", run, NULL};
