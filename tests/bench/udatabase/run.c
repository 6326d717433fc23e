/* run.c - a query file, mapped and by the buffer manager: what each costs, beside Table 1 of the
 * paper. */
#include "run.h"

#include <errno.h>
#include <time.h>

#include "buffer.h"
#include "katydid/call.h"
#include "pstore.h"
#include "tests/bench/measure.h"

static struct kd_system_info system_info(void)
{
    struct kd_system_info s;
    kd_call3(KD_SYSTEM_INFO, (long)&s, 0, 0);
    return s;
}

static uint64_t own_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static const struct queries *queries;
static unsigned frames, percent;
static struct data *own;                                    /* the root's copy */

/* With 100 %: the second time, when all is in memory. */
static struct cost measured(const struct source *s)
{
    if (percent == 100)
        (void)queries_run(queries, s);
    struct kd_system_info from = system_info();
    uint64_t began = counter(), ns = own_ns();
    struct cost c = {.sum = queries_run(queries, s)};
    c.elapsed = counter() - began;
    c.own = own_ns() - ns;
    struct kd_system_info to = system_info();
    c.cpu = c.elapsed - (to.idle_cycles - from.idle_cycles);
    c.reads = to.block_reads - from.block_reads;
    c.bytes = to.block_read_bytes - from.block_read_bytes;
    return c;
}

static int look(void *unused)
{
    (void)unused;
    memcpy(own, data_here(), sizeof *own);
    return 0;
}

void run_open(unsigned number, unsigned buffers, unsigned of_memory)
{
    queries = &query_files[number];
    frames = buffers;
    percent = of_memory;
    container_open(queries->kind);
    own = malloc(sizeof *own);
    int error = own ? ps_transaction(look, NULL) : -ENOMEM;
    if (!error)                                             /* what is asked for at once */
        error = (int)kd_call3(KD_CONTAINER_POLICY, (long)own->area, KD_POLICY_CLUSTER,
                              own->stride / KD_PAGE_BYTES);
    if (error)
        fail(queries->name, error);
}

/* As many bytes as the buffer manager's frames have, and a page for the root, and one that is just
 * coming. */
static void run_limit(void)
{
    unsigned pages = percent == 100 ? 0 : frames * own->unit_bytes / KD_PAGE_BYTES + 2;
    int error = (int)kd_call3(KD_CONTAINER_POLICY, (long)own->area, KD_POLICY_MEMORY, pages);
    if (error)
        fail(queries->name, error);
}

static int mapped(void *cost)
{
    static struct source s;
    s.data = own;
    *(struct cost *)cost = measured(&s);
    return 0;
}

struct cost run_mapped(void)
{
    struct cost c;
    int error = ps_transaction(mapped, &c);
    if (error)
        fail(queries->name, error);
    return c;
}

static void way_leave(void *way) { buffer_leave(way); }

struct cost run_buffered(void)
{
    static struct source s;
    static struct buffer_pool pool;
    static struct buffer_way ways[WALKS];
    struct buffer_file file = {.disk = disk_open(), .base = (uint64_t)own->area,
                               .offset = own->offset, .units = own->used / own->stride,
                               .unit_bytes = own->unit_bytes,
                               .stride = own->stride, .sums = own->sums};
    int error = buffer_open(&pool, &file, frames);
    if (error)
        fail("the buffer manager", error);
    s.data = own;
    s.leave = way_leave;
    for (int i = 0; i < WALKS; i++) {
        ways[i].pool = &pool;
        s.memory[i] = (struct ps_memory){.arg = &ways[i], .fix = buffer_fix};
    }
    struct cost c = measured(&s);
    c.reads = pool.reads;
    c.bytes = pool.reads * own->unit_bytes;
    return c;
}

/* ---- rows ---- */

static void row(const char *what, const char *unit, double value, const char *reach)
{
    printf("%s, %u %%, %u frames, %s\t%s\t%.4g\t%s\n", queries->name, percent, frames, what, unit,
           value, reach);
}

/* Mapped over buffered, beside what the paper has: CPU, elapsed or reads. */
static void ratio(const char *what, int column, double mapped, double buffered, const char *reach)
{
    char text[80];
    const double(*paper)[3] = queries->paper[percent == 5];
    snprintf(text, sizeof text, "mapped over buffered, %s (paper %.2f)", what,
             paper[0][column] / paper[1][column]);
    row(text, "ratio", mapped / buffered, reach);
}

/* On a disk that takes READ_US for each read, and a processor of 1,000 instructions a microsecond;
 * what this host's disk takes says little. In microseconds. */
static double elapsed(const struct cost *c)
{
    enum { READ_US = 100 };
    return (double)c->cpu / 1000 + (double)c->reads * READ_US;
}

/* What the paper says of its rows, of these three ratios: CPU is less, the others differ by ten per
 * cent at most. */
static void claim(char text[64], const double ratios[3])
{
    static const char *const names[] = {"CPU", "elapsed", "reads"};
    text[0] = 0;
    for (int i = 0; i < 3; i++) {
        int holds = ratios[i] <= (i ? 1.1 : 1) && (i == 0 || ratios[i] >= 0.9);
        sprintf(text + strlen(text), "%s%s %s", i ? ", " : "", names[i], holds ? "yes" : "no");
    }
}

static void claims(const double ratios[3])
{
    const double(*paper)[3] = queries->paper[percent == 5];
    double papers[3];
    char ours[64], theirs[64];
    for (int i = 0; i < 3; i++)
        papers[i] = paper[0][i] / paper[1][i];
    claim(ours, ratios);
    claim(theirs, papers);
    printf("%s, %u %%, less CPU, the others within 10 %%\tin the paper: %s\t%s\t-\n", queries->name,
           percent, theirs, ours);
}

static void rows(const struct cost *m, const struct cost *b)
{
    double units = (double)m->bytes / own->unit_bytes;
    row("mapped, CPU", "M instructions", (double)m->cpu / 1e6, "-");
    row("buffered, CPU", "M instructions", (double)b->cpu / 1e6, "-");
    if (percent == 100) {
        row("mapped over buffered, CPU", "ratio", (double)m->cpu / (double)b->cpu, "1");
        return;
    }
    row("mapped, elapsed at 100 us a read", "ms", elapsed(m) / 1000, "-");
    row("buffered, elapsed at 100 us a read", "ms", elapsed(b) / 1000, "-");
    row("mapped, read", "units", units, "-");
    row("mapped, requests", "reads", (double)m->reads, "-");
    row("buffered, read", "units", (double)b->reads, "-");
    ratio("CPU", 0, (double)m->cpu, (double)b->cpu, "1");
    ratio("elapsed at 100 us a read", 1, elapsed(m), elapsed(b), "1.1");
    row("mapped over buffered, elapsed on this host", "ratio",
        (double)m->elapsed / (double)b->elapsed, "-");
    ratio("units read", 2, units, (double)b->reads, "1.05");
    claims((double[]){(double)m->cpu / (double)b->cpu, elapsed(m) / elapsed(b),
                      units / (double)b->reads});
}

void run(unsigned number, unsigned buffers, unsigned of_memory)
{
    run_open(number, buffers, of_memory);
    run_limit();
    struct cost buffered = run_buffered(), mapped = run_mapped();
    rows(&mapped, &buffered);
    if (mapped.sum != buffered.sum)
        fail("the answers differ", EIO);
}
