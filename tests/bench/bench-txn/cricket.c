/*
 * cricket.c - Cricket's Tables 2 and 3: what single operations cost; and what it costs, per page,
 * to scan 1,280 pages whose reading from a disk is short-circuited, with the three ways of that
 * paper to make it cheaper, and the fourth that it expects to do more: one lock for all.
 *
 * Where Cricket's kernel had a page fault and then an address exception, here one fault does both.
 * So (2) and (4) differ only in whether the view has upper page tables there from an earlier
 * transaction.
 */
#include <sys/mman.h>

#include "bench.h"

enum { ASK = KD_OBJECT_TRANSACTIONAL | OBJECT_ASKS, KERNEL = KD_OBJECT_TRANSACTIONAL, PLAIN = 0 };
enum { SINGLE = 1, FOUR = 4, ADAPTIVE = 0 };

/* ---- Table 2 ---- */

static char from_page[KD_PAGE_BYTES], to_page[KD_PAGE_BYTES];
static char *protected_page;

static void do_getpid(int unused) { kd_call3(39, 0, 0, 0), (void)unused; }
static void do_protect(int round)
{
    mprotect(protected_page, KD_PAGE_BYTES, round & 1 ? PROT_READ : PROT_READ | PROT_WRITE);
}
static void do_copy(int unused)
{
    memcpy(to_page, from_page, sizeof to_page);
    __asm__ volatile("" : : "r"(to_page) : "memory");
    (void)unused;
}
static void do_null(int unused) { manager_null(), (void)unused; }
static void do_page_out(int unused) { manager_page_out(), (void)unused; }
static void do_page_in(int unused) { manager_page_in(from_page), (void)unused; }
static void do_nothing(int unused) { (void)unused; }
static void after_page_out(int unused) { manager_page_back(), (void)unused; }

/* Each operation as its paper's loop does it, the mean of many; `after` is not counted. */
static const struct operation {
    const char *what;
    double us;
    void (*run)(int round), (*after)(int round);
} operations[] = {
    { "getpid", 108, do_getpid, do_nothing },
    { "vm_protect: mprotect of a page in memory", 490, do_protect, do_nothing },
    { "bcopy of a page of 4 KiB: memcpy", 585, do_copy, do_nothing },
    { "null RPC: null call to another process", 1275, do_null, do_nothing },
    { "page out of line: lent by the answer, not touched", 1316, do_page_out, after_page_out },
    { "page in line: copied with the call", 4493, do_page_in, do_nothing },
};
enum { GETPID = 0, NULL_CALL = 3, OPERATIONS = sizeof operations / sizeof *operations };
static double costs[OPERATIONS];

static void operations_measure(void)
{
    enum { ROUNDS = 1000 };
    uint64_t cost = counter_cost();
    protected_page = mmap(NULL, KD_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                          -1, 0);
    if (protected_page == MAP_FAILED)
        fail("memory", -errno);
    *protected_page = 1;
    for (int k = 0; k < OPERATIONS; k++) {
        uint64_t sum = 0;
        for (int i = 0; i < ROUNDS; i++) {
            uint64_t t = counter();
            operations[k].run(i);
            sum += counter() - t - cost;
            operations[k].after(i);
        }
        costs[k] = (double)sum / ROUNDS;
    }
    munmap(protected_page, KD_PAGE_BYTES);
}

static void table2(void)
{
    char name[160];
    operations_measure();
    printf("# Cricket's Table 2 (1990): us on Mach, instructions here, as multiples of getpid\n"
           "# %-54s %5s %5s  %7s %5s\n", "", "us", "getp.", "instr.", "getp.");
    for (int k = 0; k < OPERATIONS; k++) {
        double ratio = operations[k].us / operations[0].us;
        printf("# %-54s %5.0f %5.1f  %7.0f %5.1f\n", operations[k].what, operations[k].us, ratio,
               costs[k], costs[k] / costs[GETPID]);
        snprintf(name, sizeof name, "Table 2: %s (Cricket, of getpid: %.1f times, here: %.1f)",
                 operations[k].what, ratio, costs[k] / costs[GETPID]);
        row(name, "instructions", costs[k], "-");
    }
}

/* ---- Table 3 ---- */

static double per_page(uint64_t cycles)
{
    return (double)(cycles - counter_cost()) / OBJECT_PAGES;
}

/* The first scan of a view, or the second one in the same view, its rights given up between
 * them. */
static double scan(unsigned flags, unsigned how, unsigned provide, unsigned cluster, int again)
{
    unsigned mode = again ? KD_SERIALISABLE | KD_STRICT : KD_SERIALISABLE;
    if (cluster == SINGLE && flags & OBJECT_ASKS)
        cluster = ADAPTIVE; /* objects that ask have no clusters but fixed ones */
    volatile char *pages = manager_object(flags, how, provide, cluster);
    int view = view_new();
    uint64_t t = 0;
    for (int i = 0; i <= again; i++) {
        if (flags)
            txn_begin(mode);
        t = touch(pages, OBJECT_PAGES, 1, 0);
        if (flags)
            txn_end();
    }
    view_end(view);
    return per_page(t);
}

/* The scan by a transaction that locks the container: its begin is part of the price. */
static double scan_locked(unsigned flags, unsigned how, unsigned provide, unsigned cluster)
{
    volatile char *pages = manager_object(flags, how, provide, cluster);
    int view = view_new();
    struct kd_begin b = txn_how(KD_CONTAINER_LOCK | KD_LOCKED_SHARED);
    b.locked = (uint64_t)pages;
    uint64_t t = counter();
    long e = kd_call3(KD_TXN_BEGIN, (long)&b, 0, 0);
    if (e)
        fail("begin with a container lock", e);
    touch(pages, OBJECT_PAGES, 1, 0);
    t = counter() - t;
    txn_end();
    view_end(view);
    return per_page(t);
}

/* One line of the table, and rows; 0: there is no such figure. us: Cricket's. */
static void line(const char *what, double us, double asked, double kernel)
{
    char name[160];
    if (us != 0)
        printf("# %-54s %5.0f %5.1f %5.2f", what, us, us / operations[GETPID].us,
               us / operations[NULL_CALL].us);
    else
        printf("# %-54s %5s %5s %5s", what, "-", "-", "-");
    const struct {
        const char *how;
        double value;
    } sides[] = { { "with ask", asked }, { "without", kernel } };
    for (int i = 0; i < 2; i++) {
        if (sides[i].value == 0) {
            printf("  %7s %5s %5s", "-", "-", "-");
            continue;
        }
        printf("  %7.0f %5.1f %5.2f", sides[i].value, sides[i].value / costs[GETPID],
               sides[i].value / costs[NULL_CALL]);
    }
    printf("\n");
    for (int i = 0; i < 2; i++)
        if (sides[i].value != 0) {
            snprintf(name, sizeof name, "Table 3, %s: %s", sides[i].how, what);
            row(name, "instructions", sides[i].value, "-");
        }
}

void group_cricket(void)
{
    manager_start();
    table2();
    printf("# Cricket's Table 3 (1990), a page of a scan of 1,280: us there, instructions here "
           "(getpid: %.0f,\n"
           "# null call to another process and back: %.0f), and each as multiples of getpid and of "
           "the null call.\n"
           "# %-54s %17s  %19s  %19s\n# %-54s %5s %5s %5s  %7s %5s %5s  %7s %5s %5s\n",
           costs[GETPID], costs[NULL_CALL], "", "Cricket, Mach", "Katydid with ask",
           "Katydid without", "", "us", "getp.", "null", "instr.", "getp.",
           "null", "instr.", "getp.", "null");
    double fault = scan(PLAIN, MANAGER_RESIDENT, 1, SINGLE, 0);
    line("(1) page fault handled in the kernel", 420, 0, fault);
    line("(2) address exception: the right is asked for", 3180,
         scan(ASK, MANAGER_RESIDENT, 1, SINGLE, 1), scan(KERNEL, MANAGER_RESIDENT, 1, SINGLE, 1));
    line("(3) page requested and provided, less (1)", 3221, 0,
         scan(PLAIN, 0, 1, SINGLE, 0) - fault);
    line("(4) fault and exception, page resident", 3605, scan(ASK, MANAGER_RESIDENT, 1, SINGLE, 0),
         scan(KERNEL, MANAGER_RESIDENT, 1, SINGLE, 0));
    line("(4) the same, the container locked", 0, 0,
         scan_locked(KERNEL, MANAGER_RESIDENT, 1, ADAPTIVE));
    line("(5) fault, exception, requested and provided", 6845, scan(ASK, 0, 1, SINGLE, 0),
         scan(KERNEL, 0, 1, SINGLE, 0));
    line("(5) with 16 KiB provided at once", 4954, scan(ASK, 0, 4, SINGLE, 0),
         scan(KERNEL, 0, 4, SINGLE, 0));
    line("(5) prefetched by the exception, 16 KiB, 4-page locks", 2248,
         scan(ASK, MANAGER_PREFETCH, 4, FOUR, 0), scan(KERNEL, 0, 4, FOUR, 0));
    line("(5) prefetched, 16 KiB, the container locked", 0,
         scan_locked(ASK, MANAGER_PREFETCH, 4, FOUR), scan_locked(KERNEL, 0, 4, FOUR));
    line("(5) as Katydid does it: clusters and requests that grow", 0, 0,
         scan(KERNEL, 0, 0, ADAPTIVE, 0));
    line("(5) the same, the container locked", 0, 0, scan_locked(KERNEL, 0, 0, ADAPTIVE));
    manager_stop();
}
