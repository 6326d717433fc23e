/*
 * main.c - uDatabase's experiments: one structure mapped, and on an LRU buffer manager.
 *
 *   udatabase build KIND               fills a structure, and copies its units to the raw disk
 *   udatabase run QUERIES FRAMES PERCENT
 *                                      one row, both ways, cold; with 100 PERCENT all in memory
 *
 * KIND: tree, boxes, graph85, graph90, graph95; QUERIES: a number, from 0, of query_files. Both
 * ways run the same object files of libpstore: the container is mapped; the buffer manager
 * (buffer.c) reads the copy of the same bytes, at the same addresses, from a disk of its own.
 * tests/bench/udatabase.sh starts the kernel with as many pages in memory as the buffer manager has
 * in frames.
 */
#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "data.h"
#include "disk/crc32c.h"
#include "katydid/call.h"
#include "layers.h"
#include "pstore.h"
#include "tests/bench/measure.h"

enum { DISK_MIB = 40, BATCH = 500 };
struct root { struct data *data; };

static ps_container *box;
static int kind;

static _Noreturn void fail(const char *what, long error)
{
    fprintf(stderr, "udatabase: %s: %s\n", what, ps_strerror((int)error));
    exit(1);
}

static void container_open(const char *name)
{
    kind = kind_named(name);
    if (kind < 0)
        fail(name, ENOENT);
    box = ps_open(name, PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    if (!box)
        fail("the container", errno);
}

static struct data *data_here(void) { return ((struct root *)ps_root(box))->data; }

static int disk_open(void)
{
    struct kd_block_info info;
    long disk = kd_call3(KD_BLOCK_OPEN, (long)"raw", (long)&info, 0);
    if (disk < 0)
        fail("the raw disk", disk);
    return (int)disk;
}

/* ---- building ---- */

/* Units one after another, in one large object. */
static void *area_take(void *arg, size_t bytes, const void *near)
{
    struct data *d = arg;
    (void)near;
    if (bytes > d->unit_bytes || d->used + d->stride > d->area_bytes) {
        errno = ENOSPC;
        return NULL;
    }
    d->used += d->stride;
    return d->area + d->used - d->stride;
}
static void area_give(void *arg, void *p) { (void)arg, (void)p; }

static struct ps_memory area(struct data *d)
{
    return (struct ps_memory){.take = area_take, .give = area_give, .arg = d};
}

static int begin(void *unused)
{
    (void)unused;
    struct root *root = ps_root(box);
    struct data *d = ps_alloc(box, sizeof *d, NULL);
    uint64_t bytes = (uint64_t)kinds[kind].area_mib << 20, stride = kinds[kind].stride;
    char *p = d ? ps_alloc(box, bytes, NULL) : NULL;
    if (!p)
        return -errno;
    root->data = d;
    d->unit_bytes = kinds[kind].unit_bytes;
    d->stride = (uint32_t)stride;
    d->area = (char *)(((uintptr_t)p + stride - 1) / stride * stride);
    d->area_bytes = bytes - stride;
    d->offset = (uint64_t)kind * DISK_MIB << 20;
    struct ps_memory memory = area(d);
    return data_set_up(d, kind, &memory);
}

static uint64_t next;
static int batch(void *unused)
{
    (void)unused;
    struct data *d = data_here();
    struct ps_memory memory = area(d);
    int error = 0;
    for (uint64_t i = next; !error && i < next + BATCH && i < data_steps(kind); i++)
        error = data_step(d, kind, &memory, i);
    return error;
}

static int disk;
static uint8_t *unit_copy;
static int copy_out(void *unused)
{
    (void)unused;
    struct data *d = data_here();
    long error = 0;
    for (uint64_t i = 0; !error && i < d->used / d->stride; i++) {
        memcpy(unit_copy, d->area + i * d->stride, d->unit_bytes);
        d->sums[i] = crc32c(0, unit_copy, d->unit_bytes);
        error = kd_call4(KD_BLOCK_WRITE, disk, (long)(d->offset + i * d->unit_bytes),
                         (long)unit_copy, d->unit_bytes);
    }
    printf("%s: %lu units of %u bytes\n", kinds[kind].name, d->used / d->stride, d->unit_bytes);
    return (int)error;
}

static void build(const char *name)
{
    container_open(name);
    int error = ps_transaction(begin, NULL);
    for (next = 0; !error && next < data_steps(kind); next += BATCH)
        error = ps_transaction(batch, NULL);
    disk = disk_open();
    unit_copy = malloc(kinds[kind].unit_bytes);
    if (!error)
        error = unit_copy ? ps_transaction(copy_out, NULL) : -ENOMEM;
    if (!error)
        error = (int)kd_call3(KD_BLOCK_FLUSH, disk, 0, 0);
    if (error)
        fail("building", error);
}

/* ---- running ---- */

struct cost { uint64_t cpu, elapsed, reads, bytes, sum; };

static struct kd_system_info system_info(void)
{
    struct kd_system_info s;
    kd_call3(KD_SYSTEM_INFO, (long)&s, 0, 0);
    return s;
}

static unsigned frames, percent;

/* With 100 %: the second time, when all is in memory. */
static struct cost measured(const struct queries *q, const struct source *s)
{
    if (percent == 100)
        (void)queries_run(q, s);
    struct kd_system_info from = system_info();
    uint64_t began = counter();
    struct cost c = {.sum = queries_run(q, s)};
    c.elapsed = counter() - began;
    struct kd_system_info to = system_info();
    c.cpu = c.elapsed - (to.idle_cycles - from.idle_cycles);
    c.reads = to.block_reads - from.block_reads;
    c.bytes = to.block_read_bytes - from.block_read_bytes;
    return c;
}

static const struct queries *queries;
static struct cost mapped_cost, buffered_cost;
static struct data *own;                                    /* the root's copy */

static int look(void *unused)
{
    (void)unused;
    memcpy(own, data_here(), sizeof *own);
    return 0;
}

static int mapped(void *unused)
{
    (void)unused;
    static struct source s;
    s.data = own;
    mapped_cost = measured(queries, &s);
    return 0;
}

static void way_leave(void *way) { buffer_leave(way); }

static void buffered(void)
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
    buffered_cost = measured(queries, &s);
    if (percent != 100 && (buffered_cost.reads != pool.reads ||
                           buffered_cost.bytes != pool.reads * own->unit_bytes))
        printf("# the disks read %lu times, the buffer manager %lu times\n", buffered_cost.reads,
               pool.reads);
}

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

static void rows(void)
{
    const struct cost *m = &mapped_cost, *b = &buffered_cost;
    double units = (double)m->bytes / own->unit_bytes;
    row("mapped, CPU", "M instructions", (double)m->cpu / 1e6, "-");
    row("buffered, CPU", "M instructions", (double)b->cpu / 1e6, "-");
    if (percent == 100) {
        row("mapped over buffered, CPU", "ratio", (double)m->cpu / (double)b->cpu, "1");
        return;
    }
    row("mapped, read", "units", units, "-");
    row("mapped, requests", "reads", (double)m->reads, "-");
    row("buffered, read", "units", (double)b->reads, "-");
    ratio("CPU", 0, (double)m->cpu, (double)b->cpu, "1");
    ratio("elapsed at 100 us a read", 1, elapsed(m), elapsed(b), "1.1");
    row("mapped over buffered, elapsed on this host", "ratio",
        (double)m->elapsed / (double)b->elapsed, "-");
    ratio("units read", 2, units, (double)b->reads, "1.05");
}

static void run(unsigned number)
{
    queries = &query_files[number];
    container_open(queries->kind);
    own = malloc(sizeof *own);
    int error = own ? ps_transaction(look, NULL) : -ENOMEM;
    buffered();
    if (!error)                                             /* what is asked for at once */
        error = (int)kd_call3(KD_CONTAINER_POLICY, (long)own->area, KD_POLICY_CLUSTER,
                              own->stride / KD_PAGE_BYTES);
    if (!error)
        error = ps_transaction(mapped, NULL);
    if (error)
        fail(queries->name, error);
    rows();
    if (mapped_cost.sum != buffered_cost.sum)
        fail("the answers differ", EIO);
}

int main(int argc, char **argv)
{
    crc32c_choose(NULL);
    if (argc == 3 && strcmp(argv[1], "build") == 0)
        build(argv[2]);
    else if (argc == 5 && strcmp(argv[1], "run") == 0 && (unsigned)atoi(argv[2]) < 10) {
        frames = (unsigned)atoi(argv[3]);
        percent = (unsigned)atoi(argv[4]);
        run((unsigned)atoi(argv[2]));
    } else if (argc == 4 && strcmp(argv[1], "layers") == 0 && strcmp(argv[3], "build") == 0) {
        layers_build(argv[2]);
    } else if (argc == 4 && strcmp(argv[1], "layers") == 0 && (unsigned)atoi(argv[3]) < 5) {
        layers_run(argv[2], (unsigned)atoi(argv[3]));
    } else
        usage(argc, argv, 0,
              "usage: udatabase build KIND, or udatabase run NUMBER FRAMES PERCENT,\n"
              "       or udatabase layers layered|integrated build|NUMBER\n"
              "Wants a disk \"raw\" beside the store; run it by `make bench ONLY=udatabase`.\n");
    return 0;
}
