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

#include "data.h"
#include "disk/crc32c.h"
#include "katydid/call.h"
#include "layers.h"
#include "pstore.h"
#include "run.h"
#include "tests/bench/measure.h"

enum { DISK_MIB = 40, BATCH = 500 };
struct root { struct data *data; };

static ps_container *box;
static int kind;

_Noreturn void fail(const char *what, long error)
{
    fprintf(stderr, "udatabase: %s: %s\n", what, ps_strerror((int)error));
    exit(1);
}

void container_open(const char *name)
{
    kind = kind_named(name);
    if (kind < 0)
        fail(name, ENOENT);
    box = ps_open(name, PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    if (!box)
        fail("the container", errno);
}

struct data *data_here(void) { return ((struct root *)ps_root(box))->data; }

int disk_open(void)
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

int main(int argc, char **argv)
{
    crc32c_choose(NULL);
    if (argc == 3 && strcmp(argv[1], "build") == 0)
        build(argv[2]);
    else if (argc == 5 && strcmp(argv[1], "run") == 0 && (unsigned)atoi(argv[2]) < 10) {
        run((unsigned)atoi(argv[2]), (unsigned)atoi(argv[3]), (unsigned)atoi(argv[4]));
    } else if (argc == 4 && strcmp(argv[1], "loaded") == 0 && (unsigned)atoi(argv[2]) < 5) {
        loaded((unsigned)atoi(argv[2]), (unsigned)atoi(argv[3]));
    } else if (argc == 4 && strcmp(argv[1], "layers") == 0 && strcmp(argv[3], "build") == 0) {
        layers_build(argv[2]);
    } else if (argc == 4 && strcmp(argv[1], "layers") == 0 && (unsigned)atoi(argv[3]) < 5) {
        layers_run(argv[2], (unsigned)atoi(argv[3]));
    } else
        usage(argc, argv, 0,
              "usage: udatabase build KIND, or udatabase run NUMBER FRAMES PERCENT,\n"
              "       or udatabase loaded NUMBER FRAMES,\n"
              "       or udatabase layers layered|integrated build|NUMBER\n"
              "Wants a disk \"raw\" beside the store; run it by `make bench ONLY=udatabase`.\n");
    return 0;
}
