/*
 * kernel_sparse.c - kernel memory for a container follows what is in use, not what was ever
 * touched.
 *
 * Aim     one page in each 256 KiB of 9 GiB is read with 96 MiB of memory (64 GiB in the long
 *         tier): leaves and page tables of what was touched long ago are given back, while
 *         transactions go on all the time; a touch that has to make room costs at most 1.1 times
 *         one that finds memory empty, and the last 1.1 times the first of those, however much was
 *         touched in between. A process that maps, touches and unmaps a page in each 2 MiB of 60
 *         GiB has all page tables back in the end. Where leaves were
 *         forgotten, a snapshot over its budget is not shown what is newer (LF1), and what a
 *         running transaction has read stays shut to others.
 * Method  own_manager.h; QEMU counts instructions as time, so the time stamp counter counts them.
 *         kernel_sparse marks: only the touches, with a call of getppid before and after each GiB,
 *         where scripts/run --stretch notes what ran (tests/bench/sparse.sh).
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define GIB (1ull << 30)
#define GIB_MOST 64
#define PAGES ((GIB_MOST + 4) * GIB / 4096)
#define HOME_PAGES 4
#include "own_manager.h"

enum { STEP = 64, AT_ONCE = 64, PER_GIB = 4096 };       /* a page of each leaf; touches */
enum { GIB_TEST = 9, FULL = 3 /* GiB, then memory is full */, MAPS = 30000 };
enum { ROOM_COST_PERCENT = 110 }; /* of a touch that finds memory empty */
static struct context reader, snapshot, writer, holder;
static uint64_t next_touch, wrong;
static bool marks;

static uint64_t free_kib(void) { return system_info().free_bytes >> 10; }

static int read_some(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < AT_ONCE; i++)
        wrong += *word_of((unsigned)((next_touch + i) * STEP + STEP / 2), 0) != 0;
    return 0;
}

static void mark(void)
{
    if (marks)
        syscall(SYS_getppid);
}

/* Instructions per touch of the next GiB; 0: it failed. */
static uint64_t read_gib(void)
{
    mark();
    uint64_t before = time_stamp() - system_info().idle_cycles;
    for (unsigned done = 0; done < PER_GIB; done += AT_ONCE, next_touch += AT_ONCE) {
        int e = run(read_some, NULL, 0, 0);
        if (e) {
            printf("# touch %llu: %d, %llu KiB free\n", (unsigned long long)next_touch, e,
                   (unsigned long long)free_kib());
            return 0;
        }
    }
    uint64_t took = time_stamp() - system_info().idle_cycles - before;
    mark();
    return took / PER_GIB;
}

/* *first: a touch of the first GiB, when memory was empty. *full, *last: of the first three when it
 * was full, and the last three, as the clock's hand goes round in two and a half. */
static bool read_all(unsigned gib, uint64_t *first, uint64_t *full, uint64_t *last)
{
    uint64_t took[GIB_MOST];
    for (unsigned i = 0; i < gib; i++)
        if (!(took[i] = read_gib()))
            return false;
    *first = took[0];
    *full = (took[FULL] + took[FULL + 1] + took[FULL + 2]) / 3;
    *last = (took[gib - 1] + took[gib - 2] + took[gib - 3]) / 3;
    printf("# a touch: %llu instructions in the first GiB, %llu in the first three when memory is "
           "full, %llu in the last three: %.2f times the first, %.2f times those; %llu KiB are "
           "free\n",
           (unsigned long long)*first, (unsigned long long)*full, (unsigned long long)*last,
           (double)*last / (double)*first, (double)*last / (double)*full,
           (unsigned long long)free_kib());
    return true;
}

/* ---- what must not be forgotten: the first pages have values ---- */

static int write_first(void *value)
{
    for (unsigned i = 0; i < HOME_PAGES; i++)
        *word_of(i, 0) = *(uint64_t *)value;
    return 0;
}

static int publish_first(uint64_t value, unsigned timeout_ms)
{
    int e = run(write_first, &value, 0, timeout_ms);
    for (long i = 0; i < HOME_PAGES && !e; i++)
        kd_call4(KD_OBJECT_CLEANED, object, i, (long)KD_CSN_ANY, 0);
    return e;
}

/* Begins in its view, and stays open; reads the first page. The value, or -errno if it was
 * ended. */
static long opens(struct context *c, unsigned mode)
{
    long e = txn_open(c, (struct kd_begin){.mode = mode});
    return e ? e : (long)*word_of(0, 0);
}

static long sees(struct context *c)
{
    in_view(c);
    int reason = setjmp(c->env);
    return reason ? -reason : (long)*word_of(0, 0);
}

/* A snapshot that needs more versions than it may have. */
static bool snapshot_over(void)
{
    struct rlimit few = {HOME_PAGES - 1, RLIM_INFINITY};
    in_view(&writer);
    bool good = publish_first(1, 0) == 0 &&
                syscall(SYS_prlimit64, 0, KD_RLIMIT + KD_LIMIT_VERSIONS, &few, NULL) == 0 &&
                opens(&snapshot, KD_SNAPSHOT) == 1;
    in_view(&writer);
    return good && publish_first(2, 0) == 0;
}

static void *writes(void *result)
{
    *(int *)result = publish_first(3, 50);
    return NULL;
}

/* A holder (KD_HOLDER) gets a page of a leaf that nobody else needs, by a worker that is undone. */
enum { SITE_PAGE = 5 * STEP + 1 };
static struct context site, worker;
static void site_reads(void)
{
    txn_open(&site, (struct kd_begin){.mode = KD_HOLDER, .port = port + 1});
    txn_open(&worker, (struct kd_begin){.mode = KD_HEIR, .heir = site.view + 1});
    (void)*word_of(SITE_PAGE, 0);
    kd_call3(KD_TXN_ABORT, ECANCELED, 0, 0);
}
static int write_it(void *unused)
{
    *word_of(SITE_PAGE, 0) = 9;
    return (int)(uintptr_t)unused;
}

/* A transaction has read the first page, which then goes out of memory; another one wants to write
 * it. The same of a holder and its page. */
static void right_stays(void)
{
    int result = -1;
    pthread_t t;
    site_reads();
    long before = opens(&holder, 0);
    in_view(&reader);
    bool far = read_gib() && read_gib() && read_gib();
    in_view(&holder);
    pthread_create(&t, NULL, writes, &result);
    pthread_join(t, NULL);
    tap_ok(far && before == 2 && result == -ETIMEDOUT && sees(&holder) == 2,
           "what a running transaction has read stays shut to others (%ld, %d)", before, result);
    kd_call3(KD_TXN_ABORT, ECANCELED, 0, 0);
    in_view(&writer);
    tap_ok(run(write_it, NULL, 0, 50) == -ETIMEDOUT &&
               kd_call3(KD_HANDLE_CLOSE, site.view, 0, 0) == 0 &&
               run(write_it, NULL, 0, 50) == 0,
           "and what a holder has, to its end");
}

/* KiB that are less free than before. */
static long map_far(void)
{
    uint64_t before = free_kib();
    for (uint64_t i = 0; i < (tap_long() ? MAPS : MAPS / 4); i++) {
        char *at = mmap((char *)0x4100000000 + (i << 21), KD_PAGE_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (at == MAP_FAILED)
            return -1;
        *at = 1;
        munmap(at, KD_PAGE_BYTES);
    }
    return (long)before - (long)free_kib();
}

int main(int argc, char **argv)
{
    unsigned gib = tap_long() ? GIB_MOST : GIB_TEST;
    uint64_t first = 0, full = 0, last = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    marks = argc == 2 && !strcmp(argv[1], "marks");
    tap_plan(marks ? 1 : 8);
    if (!start_manager((struct own_manager){.pages = PAGES, .home_pages = HOME_PAGES})) {
        printf("Bail out! no object\n");
        return 1;
    }
    if (marks) {
        in_view(&reader);
        tap_ok(read_all(GIB_TEST, &first, &full, &last), "touches");
        return tap_end();
    }
    long lost = map_far();
    tap_ok(lost >= 0 && lost < 256, "page tables of what was unmapped are free: %ld KiB are not",
           lost);
    bool over = snapshot_over();
    in_view(&reader);
    bool read = read_all(gib, &first, &full, &last);
    tap_ok(read && wrong == 0, "a page in each 256 KiB of %u GiB is read", gib);
    tap_ok(last && (100 * last <= ROOM_COST_PERCENT * first || !time_stamp_counts()),
           "with full memory a touch costs little more");
    tap_ok(last && (10 * last <= 11 * full || !time_stamp_counts()),
           "and no more after many GiB than when it had just become full");
    long old = sees(&snapshot);
    tap_ok(over && old == -ESTALE,
           "a snapshot whose versions are gone is not shown newer ones (%ld)", old);
    right_stays();
    tap_ok(check() == 0, "all is consistent");
    return tap_end();
}
