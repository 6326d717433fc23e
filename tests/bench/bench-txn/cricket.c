/*
 * cricket.c - Cricket's Table 3: what it costs, per page, to scan 1,280 pages whose reading from a
 * disk is short-circuited; and the three ways of that paper to make it cheaper.
 *
 * Where Cricket's kernel had a page fault and then an address exception, here one fault does both.
 * So (2) and (4) differ only in whether the view has upper page tables there from an earlier
 * transaction.
 */
#include <sys/mman.h>

#include "bench.h"

enum { ASK = KD_OBJECT_TRANSACTIONAL | KD_OBJECT_ASK, KERNEL = KD_OBJECT_TRANSACTIONAL, PLAIN = 0 };
enum { SINGLE = 1, FOUR = 4, ADAPTIVE = 0 };

static double per_page(uint64_t cycles)
{
    return (double)(cycles - counter_cost()) / OBJECT_PAGES;
}

/* The first scan of a view, or the second one in the same view, its rights given up between
 * them. */
static double scan(unsigned flags, unsigned how, unsigned provide, unsigned cluster, int again)
{
    unsigned mode = again ? KD_SERIALISABLE | KD_STRICT : KD_SERIALISABLE;
    if (cluster == SINGLE && flags & KD_OBJECT_ASK)
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

static double getpid_cost, null_cost;

/* What a system call costs, and an empty call to another process and back. */
static void units_measure(void)
{
    uint64_t call = ~0ull, null = ~0ull, cost = counter_cost();
    for (int i = 0; i < 200; i++) {
        uint64_t t = counter();
        kd_call3(39, 0, 0, 0);
        call = least(call, counter() - t);
        t = counter();
        manager_null();
        null = least(null, counter() - t);
    }
    getpid_cost = (double)(call - cost), null_cost = (double)(null - cost);
}

/* One line of the table, and rows; 0: there is no such figure. us: Cricket's. */
static void line(const char *what, double us, double asked, double kernel)
{
    enum { GETPID_US = 108, NULL_US = 1275 };
    char name[160];
    if (us != 0)
        printf("# %-54s %5.0f %5.1f %5.2f", what, us, us / GETPID_US, us / NULL_US);
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
        printf("  %7.0f %5.1f %5.2f", sides[i].value, sides[i].value / getpid_cost,
               sides[i].value / null_cost);
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
    units_measure();
    printf("# Cricket's Table 3 (1990), a page of a scan of 1,280: us there, instructions here "
           "(getpid: %.0f,\n"
           "# null call to another process and back: %.0f), and each as multiples of getpid and of "
           "the null call.\n"
           "# %-54s %17s  %19s  %19s\n# %-54s %5s %5s %5s  %7s %5s %5s  %7s %5s %5s\n",
           getpid_cost, null_cost, "", "Cricket, Mach", "Katydid with ask", "Katydid without", "",
           "us", "getp.", "null", "instr.", "getp.", "null", "instr.", "getp.", "null");
    double fault = scan(PLAIN, MANAGER_RESIDENT, 1, SINGLE, 0);
    line("(1) page fault handled in the kernel", 420, 0, fault);
    line("(2) address exception: the right is asked for", 3180,
         scan(ASK, MANAGER_RESIDENT, 1, SINGLE, 1), scan(KERNEL, MANAGER_RESIDENT, 1, SINGLE, 1));
    line("(3) page requested and provided, less (1)", 3221, 0,
         scan(PLAIN, 0, 1, SINGLE, 0) - fault);
    line("(4) fault and exception, page resident", 3605, scan(ASK, MANAGER_RESIDENT, 1, SINGLE, 0),
         scan(KERNEL, MANAGER_RESIDENT, 1, SINGLE, 0));
    line("(5) fault, exception, requested and provided", 6845, scan(ASK, 0, 1, SINGLE, 0),
         scan(KERNEL, 0, 1, SINGLE, 0));
    line("(5) with 16 KiB provided at once", 4954, scan(ASK, 0, 4, SINGLE, 0),
         scan(KERNEL, 0, 4, SINGLE, 0));
    line("(5) prefetched by the exception, 16 KiB, 4-page locks", 2248,
         scan(ASK, MANAGER_PREFETCH, 4, FOUR, 0), scan(KERNEL, 0, 4, FOUR, 0));
    line("(5) as Katydid does it: clusters and requests that grow", 0, 0,
         scan(KERNEL, 0, 0, ADAPTIVE, 0));
    manager_stop();
}
