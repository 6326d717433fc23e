/*
 * loaded.c - the loaded machine (uDatabase, Table 2): a query file mapped and by the buffer manager
 * at once, on a disk each, among BUSY programs that compute for WORK_NS of each PERIOD_NS, in
 * turns that differ, and walk through memory of their own. The buffer manager has its frames; what
 * is mapped may be kept in all memory that is free.
 */
#include "run.h"

#include <errno.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "katydid/call.h"
#include "pstore.h"
#include "tests/bench/measure.h"

enum { BUSY = 20, WORK_NS = 1000000, PERIOD_NS = 20000000, MEMORY = 256 << 10 };

static _Noreturn void busy(unsigned number)
{
    static volatile uint8_t memory[MEMORY];
    struct timespec pause = {.tv_nsec = PERIOD_NS - WORK_NS + number % 7 * 100000};
    for (unsigned at = 0;; at++) {
        for (uint64_t from = counter(); counter() - from < WORK_NS; at += 64)
            memory[at % MEMORY]++;
        nanosleep(&pause, NULL);
    }
}

/* The process that maps: it opens the container, says so, begins when it is told, and says what
 * that cost. (The raw disk is only for the process that was given it.) */
struct racer { int up[2], down[2]; pid_t pid; };

static void racer_start(struct racer *r, unsigned number, unsigned frames)
{
    struct cost c = {0};
    char byte;
    if (pipe(r->up) || pipe(r->down) || (r->pid = fork()) < 0)
        fail("a process", errno);
    close(r->pid ? r->up[1] : r->up[0]);
    if (r->pid)
        return;
    run_open(number, frames, 10);
    if (write(r->up[1], &c, sizeof c) == sizeof c && read(r->down[0], &byte, 1) == 1)
        c = run_mapped();
    _exit(write(r->up[1], &c, sizeof c) != sizeof c);
}

/* What it says next. */
static struct cost racer_hear(struct racer *r)
{
    struct cost c;
    if (read(r->up[0], &c, sizeof c) != sizeof c)
        fail("the process that maps", EIO);
    return c;
}

static void row(unsigned number, const char *how, const char *what, const char *unit, double value)
{
    printf("loaded, %s, %s, %s\t%s\t%.6g\t-\n", query_files[number].name, how, what, unit, value);
}

static void rows(unsigned number, const char *how, const struct cost *c, double reads)
{
    row(number, how, "elapsed", "ms", (double)c->elapsed / 1e6);
    row(number, how, "CPU of the process", "ms", (double)c->own / 1e6);
    row(number, how, "read", "units", reads);
}

void loaded(unsigned number, unsigned frames)
{
    struct racer racer;
    struct kd_system_info before, after;
    racer_start(&racer, number, frames);
    for (unsigned i = 0; i < BUSY; i++)
        if (fork() == 0)
            busy(i);
    racer_hear(&racer);
    run_open(number, frames, 10);
    kd_call3(KD_SYSTEM_INFO, (long)&before, 0, 0);
    if (write(racer.down[1], "", 1) != 1)
        fail("the process that maps", EIO);
    struct cost b = run_buffered(), m = racer_hear(&racer);
    kd_call3(KD_SYSTEM_INFO, (long)&after, 0, 0);
    waitpid(racer.pid, NULL, 0);        /* the others go on, until the machine is halted */
    double bytes = (double)(after.block_read_bytes - before.block_read_bytes - b.bytes);
    rows(number, "mapped", &m, bytes / TREE_UNIT);
    rows(number, "buffered", &b, (double)b.reads);
    if (m.sum != b.sum)
        fail("the answers differ", EIO);
}
