/*
 * replace.c - random updates over a container that is larger than memory: the pages that had to be
 * read, and how many an exact LRU would have read in the same trace: one of as many frames as held
 * pages, and one of all frames of the machine, where the kernel, programs, page tables and copies
 * would take none.
 *
 * Two traces. Uniform: every page is as likely as every other; then all policies miss equally
 * often, and the ratio shows only how much of the memory holds pages, all the time. Skewed: three
 * of four updates are of an eighth of the pages, as of an index and its leaves; then it shows who
 * is thrown out, too.
 */
#include "bench.h"

struct root { char *pages; };
static ps_container *c;
static uint64_t pages, updates;
static uint32_t *trace;
static uint64_t seed = 88172645463325252ull;
static uint64_t next(void)
{
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed >> 11;
}

static int fill(void *arg)
{
    struct root *r = ps_root(c);
    uint64_t *from = arg;
    if (!r->pages && !(r->pages = ps_alloc(c, (size_t)pages * KD_PAGE_BYTES, NULL)))
        return -errno;
    for (uint64_t i = *from; i < *from + 512 && i < pages; i++)
        r->pages[i * KD_PAGE_BYTES + 64] = 1;
    return 0;
}
static int update(void *arg)
{
    struct root *r = ps_root(c);
    ++*(uint64_t *)(r->pages + (size_t)*(uint32_t *)arg * KD_PAGE_BYTES + 128);
    return 0;
}

/* Misses of an exact LRU of `room` pages over the trace from `from` on; before it warms up. */
static uint64_t lru(uint64_t room, uint64_t from)
{
    uint32_t *newer = calloc(pages + 1, sizeof *newer), *older = calloc(pages + 1, sizeof *older);
    uint8_t *in = calloc(pages + 1, 1);
    uint32_t ring = (uint32_t)pages; /* the list's head: its `older` is the newest */
    uint64_t used = 0, missed = 0;
    if (!newer || !older || !in)
        fail("the simulation", ENOMEM);
    newer[ring] = older[ring] = ring;
    for (uint64_t i = 0; i < updates; i++) {
        uint32_t p = trace[i];
        missed += !in[p] && i >= from;
        if (in[p]) {
            older[newer[p]] = older[p], newer[older[p]] = newer[p];
        } else if (used == room) {
            uint32_t last = newer[ring];
            older[newer[last]] = ring, newer[ring] = newer[last];
            in[last] = 0;
        } else {
            used++;
        }
        in[p] = 1;
        older[p] = older[ring], newer[p] = ring;
        newer[older[ring]] = p, older[ring] = p;
    }
    free(newer);
    free(older);
    free(in); /* the next trace wants the memory */
    return missed;
}

/* The first half warms up, the second half counts. */
static void replay(const char *name, const char *reach_all)
{
    uint64_t most = 0, sum = 0, samples = 0, before = 0, warm = updates / 2;
    struct kd_system_info s;
    int e = 0;
    for (uint64_t i = 0; i < updates && !e; i++) {
        if (i == warm)
            before = system_now().page_requests;
        e = ps_transaction(update, &trace[i]);
        if (i > warm && i % 16 == 0) {
            s = system_now();
            most = s.resident_pages > most ? s.resident_pages : most;
            sum += s.resident_pages;
            samples++;
        }
    }
    if (e)
        fail("updating", e);
    uint64_t read = system_now().page_requests - before, ideal = lru(most, warm);
    uint64_t all = system_now().memory_bytes / KD_PAGE_BYTES, ideal_all = lru(all, warm);
    char name_all[120];
    printf("# %llu random updates over %llu pages, %llu in memory (at most %llu): %llu read, LRU "
           "%llu; "
           "of %llu frames %llu\n",
           (unsigned long long)(updates - warm), (unsigned long long)pages,
           (unsigned long long)(sum / samples), (unsigned long long)most, (unsigned long long)read,
           (unsigned long long)ideal, (unsigned long long)all, (unsigned long long)ideal_all);
    row(name, "times exact LRU", (double)read / (double)ideal, "1.1");
    snprintf(name_all, sizeof name_all, "%s, by all frames", name);
    row(name_all, "times exact LRU", (double)read / (double)ideal_all, reach_all);
}

void group_replace(uint64_t page_count, uint64_t update_count)
{
    pages = page_count, updates = update_count;
    trace = calloc(updates, sizeof *trace);
    ps_delete("bench-replace");
    c = ps_open("bench-replace", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    int e = c && trace ? 0 : -ENOMEM;
    for (uint64_t i = 0; i < pages && !e; i += 512)
        e = ps_transaction(fill, &i);
    if (e)
        fail("filling", e);
    for (uint64_t i = 0; i < updates; i++)
        trace[i] = (uint32_t)(next() % pages);
    replay("replacement, 64 MiB of memory over 256 MiB, uniform: pages read", "-");
    for (uint64_t i = 0; i < updates; i++)
        trace[i] = (uint32_t)(next() % 4 ? next() % (pages / 8) : next() % pages);
    replay("replacement, 64 MiB of memory over 256 MiB, skewed: pages read", "1.3");
    ps_close(c);
    ps_delete("bench-replace");
}
