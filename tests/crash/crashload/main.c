/*
 * main.c - crashload, the load of scripts/crash: six processes change a store until the power goes.
 *
 *     crashload SEED COUNT [ENCODER [PAGES]]
 *                                   each process makes COUNT steps, beginning where it was; first
 *                                   the containers get this encoder (a number of pstore.h's), and
 *                                   the large object its PAGES, if there is none yet
 *     crashload work PROCESS SEED COUNT
 *     crashload check SEED [N ...]  all invariants (load.h), in one transaction; process i must
 *     have
 *                                   made N[i] steps at least. Prints how many each made.
 *
 * A process prints `ack PROCESS NUMBER` when the commit of its step has returned, never before, in
 * one write. If the store manager dies, it waits for the next one, looks whether the step was
 * `found` or `lost`, and goes on. When a commit says EIO, what became of it is `unknown`; then the
 * process tries once more, and says `fenced`, as it must be, or `ack`.
 */
#include <katydid/call.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "user/start.h"
#include "load.h"

enum { RETRIES = 1000 };                 /* of 10 ms */

static int failed(const char *what, int error)
{
    fprintf(stderr, "crashload: %s: %s\n", what, ps_strerror(error));
    return 1;
}

static int say(const char *word, unsigned process, unsigned number)
{
    char line[48];
    int bytes = snprintf(line, sizeof(line), "%s %u %u\n", word, process, number);
    return write(1, line, (size_t)bytes) == bytes ? 0 : -EPIPE;
}

static int manager_gone(int error) { return error == -EOWNERDEAD || error == -ENOTCONN; }

/* How many steps this process has made; waits for the store manager if it died. */
static int counter_wait(unsigned process, uint64_t *counter)
{
    const char *wrong = NULL;
    int error = -ENOTCONN;
    for (int i = 0; i < RETRIES && manager_gone(error); i++) {
        struct step s = {.process = process};
        error = process < WORKERS    ? ps_transaction(counter_get, &s)
                : process == VOLUMES ? volume_counter(counter, &wrong)
                                     : large_counter(counter, &wrong);
        if (process < WORKERS)
            *counter = s.number;
        if (manager_gone(error))
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    if (wrong)
        fprintf(stderr, "crashload: %s\n", wrong);
    return wrong ? -EBADMSG : error;
}

static int step_make(struct step *s)
{
    if (s->process >= WORKERS)
        return s->process == VOLUMES ? volume_step(s->number) : large_step(s->number);
    int error = s->abort_first ? ps_transaction(step_abort, s) : 0;
    return !error || error == -ECANCELED ? ps_transaction(step_do, s) : error;
}

/* One step, exactly once: when the manager dies in a commit, only the counter can tell whether that
 * was before or after the point of commit. */
static int step_once(struct step *s)
{
    int error = step_make(s);
    while (manager_gone(error)) {
        uint64_t counter = 0;
        error = counter_wait(s->process, &counter);
        if (error || counter >= s->number)
            return error ? error : say("found", s->process, s->number);
        error = say("lost", s->process, s->number);
        if (!error)
            error = step_make(s);
    }
    return error;
}

/* The disk failed: the step may be made or not. No later one is acknowledged. */
static int fenced(struct step *s)
{
    int error = say("unknown", s->process, s->number);
    if (!error)
        error = step_make(s);
    return error == -EIO ? say("fenced", s->process, s->number)
           : error       ? error : say("ack", s->process, s->number);
}

static int work(unsigned process, unsigned count)
{
    uint64_t done = 0;
    int error = counter_wait(process, &done);
    for (unsigned i = 0; i < count && !error; i++) {
        struct step s = step_of(process, (unsigned)++done);
        error = step_once(&s);
        if (error == -EIO) {
            error = fenced(&s);
            break;
        }
        if (!error)
            error = say("ack", process, s.number);
    }
    return error ? failed("work", error) : 0;
}

static long worker_start(const char *process, const char *own_seed, const char *count)
{
    const char *argv[] = {"crashload", "work", process, own_seed, count, NULL};
    return start_program("/bin/crashload", argv, 0, 0);
}

static int work_all(const char *own_seed, const char *count)
{
    static const char *const names[PROCESSES] = {"0", "1", "2", "3", "4", "5"};
    long pid[PROCESSES];
    int wrong = 0;
    for (int i = 0; i < PROCESSES; i++)
        pid[i] = worker_start(names[i], own_seed, count);
    for (int i = 0; i < PROCESSES; i++) {
        int status = 1;
        if (pid[i] > 0)
            kd_call3(KD_PROCESS_WAIT, pid[i], (long)&status, 0);
        wrong |= status != 0;
    }
    puts(wrong ? "crashload: a process failed" : "crashload: all done");
    return wrong;
}

/* Opens the containers and sets them up, when there is a store manager. */
static int begin(int checking, int encoder, uint64_t pages)
{
    int error = -ENOTCONN;
    for (int i = 0; i < RETRIES && manager_gone(error); i++) {
        if (i)
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        container = ps_open("crash", PS_CREATE | PS_WRITE, PS_LAYOUT(struct load, 1));
        error = !container ? -errno : checking ? 0 : ps_transaction(set_up, NULL);
        if (!error && encoder >= 0)
            error = ps_encoder(container, encoder);
        if (!error && pages)
            error = large_begin(pages, encoder);
        if (container && manager_gone(error))
            ps_close(container);
    }
    return error;
}

int main(int argc, char **argv)
{
    int working = argc == 5 && strcmp(argv[1], "work") == 0;
    int checking = argc >= 3 && strcmp(argv[1], "check") == 0;
    if (!working && !checking && (argc < 3 || argc > 5)) {
        fprintf(stderr,
                "usage: crashload SEED COUNT [ENCODER [PAGES]] | crashload check SEED [N ...]\n");
        return 2;
    }
    seed = strtoull(argv[working ? 3 : checking ? 2 : 1], NULL, 10);
    int loading = !working && !checking;
    int error = begin(checking, loading && argc > 3 ? atoi(argv[3]) : -1,
                      loading && argc > 4 ? strtoull(argv[4], NULL, 10) : 0);
    if (checking && !error)
        error = check(argc - 3, argv + 3);
    if (checking)
        return error < 0 ? failed("check", error) : error;
    if (error)
        return failed("set-up", error);
    if (working)
        return work((unsigned)atoi(argv[2]) % PROCESSES, (unsigned)atoi(argv[4]));
    return work_all(argv[1], argv[2]);
}
