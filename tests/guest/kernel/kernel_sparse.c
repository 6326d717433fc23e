/*
 * kernel_sparse.c - kernel memory for a container follows what is in use, not what was ever touched.
 *
 * Aim     one page in each 256 KiB of 6 GiB is read with 96 MiB of memory (64 GiB in the long tier): leaves and
 *         page tables of what was touched long ago are given back, while transactions go on all the time; the
 *         last GiB costs no more instructions per touch than the first one that finds memory full. A process
 *         that maps, touches and unmaps a page in each 2 MiB of 60 GiB has all page tables back in the end.
 * Method  own_manager.h; QEMU counts instructions as time, so the time stamp counter counts them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define GIB (1ull << 30)
#define GIB_MOST 64
#define PAGES (GIB_MOST * GIB / 4096)
#define HOME_PAGES 1
#include "own_manager.h"

enum { STEP = 64, AT_ONCE = 64, PER_GIB = 4096 };       /* a page of each leaf; touches */
enum { GIB_TEST = 6, GIB_FULL = 3, MAPS = 30000 };      /* from that GiB on memory is full */
static struct context reader;
static uint64_t next_touch, wrong;

static void in_view(struct context *c)
{
    if (!c->view)
        c->view = (int)kd_call3(KD_VIEW_CREATE, 0, 0, 0);
    mine = c;
    kd_call3(KD_VIEW_ENTER, c->view, 0, 0);
}

static uint64_t counter(void)
{
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high)::"memory");
    return (uint64_t)high << 32 | low;
}

static struct kd_system_info info(void)
{
    struct kd_system_info s = {0};
    kd_call3(KD_SYSTEM_INFO, (long)&s, 0, 0);
    return s;
}

static uint64_t free_kib(void) { return info().free_bytes >> 10; }

static int read_some(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < AT_ONCE; i++)
        wrong += *word_of((unsigned)((next_touch + i) * STEP), 0) != 0;
    return 0;
}

/* Instructions per touch of the next GiB; 0: it failed. */
static uint64_t read_gib(void)
{
    uint64_t before = counter();
    for (unsigned done = 0; done < PER_GIB; done += AT_ONCE, next_touch += AT_ONCE) {
        int e = run(read_some, NULL, 0, 0);
        if (e) {
            printf("# touch %llu: %d, %llu KiB free\n", (unsigned long long)next_touch, e,
                   (unsigned long long)free_kib());
            return 0;
        }
    }
    return (counter() - before) / PER_GIB;
}

static bool read_all(unsigned gib, uint64_t *first, uint64_t *last)
{
    for (unsigned i = 0; i < gib; i++) {
        *last = read_gib();
        *first = i <= GIB_FULL ? *last : *first;
        if (!*last)
            return false;
    }
    printf("# a touch: %llu instructions in the first GiB with full memory, %llu in the last; %llu KiB are free\n",
           (unsigned long long)*first, (unsigned long long)*last, (unsigned long long)free_kib());
    return true;
}

/* KiB that are less free than before. */
static long map_far(void)
{
    uint64_t before = free_kib();
    for (uint64_t i = 0; i < MAPS; i++) {
        char *at = mmap((char *)0x4100000000 + (i << 21), KD_PAGE_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (at == MAP_FAILED)
            return -1;
        *at = 1;
        munmap(at, KD_PAGE_BYTES);
    }
    return (long)before - (long)free_kib();
}

int main(void)
{
    bool is_long = getenv("TEST_TIER") && !strcmp(getenv("TEST_TIER"), "long");
    unsigned gib = is_long ? GIB_MOST : GIB_TEST;
    uint64_t first = 0, last = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    tap_plan(4);
    if (!start_manager(0)) {
        printf("Bail out! no object\n");
        return 1;
    }
    long lost = map_far();
    tap_ok(lost >= 0 && lost < 256, "page tables of what was unmapped are free: %ld KiB are not", lost);
    in_view(&reader);
    tap_ok(read_all(gib, &first, &last) && wrong == 0, "a page in each 256 KiB of %u GiB is read", gib);
    tap_ok(last && last * 10 <= first * 11, "the last GiB costs what the first did, or a tenth more");
    tap_ok(check() == 0, "all is consistent");
    return tap_end();
}
