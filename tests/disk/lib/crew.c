/*
 * crew.c - see crew.h.
 */
#include "crew.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define WORKERS_MAX 64u

struct worker {
    pid_t    pid;
    uint64_t seed, step;
    char     what[32];
    bool     told;              /* it has said itself what is wrong */
};

/* Shared by the processes of a crew. */
static struct board {
    uint64_t next, end;         /* seeds */
    bool     stop;
    uint64_t tallies[CREW_TALLIES];
    struct worker workers[WORKERS_MAX];
} *board;

static struct worker *self;
static int progress = -1;       /* a file: how far this crew is, for scripts/test */
static const char *program_name = "?", *test_name = "?";

static uint64_t number(const char *name, uint64_t preset)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 0) : preset;
}

/* Of every test program: ONLY= some of its tests. */
__attribute__((constructor)) static void choose(void)
{
    if (getenv("ONLY"))
        cmocka_set_test_filter(getenv("ONLY"));
}

void crew_begin(const char *program)
{
    program_name = program;
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        abort();
}

static bool tier_is(const char *tier)
{
    const char *text = getenv("TEST_TIER");
    return text && !strcmp(text, tier);
}

bool crew_long(void)
{
    return number("LONG", 0) != 0 || tier_is("long");
}

bool crew_part(void)
{
    return number("N", 0) || number("SEED", 0);
}

bool crew_short(void)
{
    return tier_is("check");
}

uint64_t crew_times(void)
{
    return crew_long() ? number("TIMES", 1) : 0;
}

uint64_t crew_count(uint64_t count)
{
    return number("N", crew_long() ? count * CREW_LONG * crew_times()
                                   : (count + CREW_TEST - 1) / CREW_TEST);
}

uint64_t crew_all(uint64_t count)
{
    return number("N", count);
}

void crew_add(uint32_t tally, uint64_t amount)
{
    __atomic_fetch_add(&board->tallies[tally], amount, __ATOMIC_RELAXED);
}

uint64_t crew_sum(uint32_t tally)
{
    return board->tallies[tally];
}

void crew_at(const char *what, uint64_t step)
{
    snprintf(self->what, sizeof self->what, "%s", what);
    self->step = step;
}

static void repeat_print(const struct worker *worker)
{
    printf("# seed %llu, %s %llu; again: %sSEED=%llu N=1 ONLY=%s %s\n",
           (unsigned long long)worker->seed, worker->what, (unsigned long long)worker->step,
           crew_long() ? "LONG=1 " : crew_short() ? "TEST_TIER=check " : "",
           (unsigned long long)worker->seed, test_name, program_name);
    fflush(stdout);
}

void crew_fail(const char *format, ...)
{
    va_list arguments;
    char text[400];
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    printf("# %s\n", text);
    fflush(stdout);
    if (!self)
        abort();                        /* in no crew: under a fuzzer */
    repeat_print(self);
    self->told = true;
    __atomic_store_n(&board->stop, true, __ATOMIC_RELAXED);
    exit(1);
}

static void progress_open(void)
{
    char path[4096];
    const char *folder = getenv("TEST_TMP");
    if (folder && progress < 0 &&
        snprintf(path, sizeof path, "%s/progress", folder) < (int)sizeof path)
        progress = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
}

static void progress_note(uint64_t done, uint64_t count)
{
    char text[128];
    snprintf(text, sizeof text, "%.80s %llu of %llu", test_name, (unsigned long long)done,
             (unsigned long long)count);
    size_t length = strlen(text);
    memset(text + length, ' ', sizeof text - 1 - length);
    text[sizeof text - 1] = '\n';
    if (progress >= 0 && pwrite(progress, text, sizeof text, 0) < 0)
        progress = -1;
}

static void work(crew_job *job)
{
    uint64_t first = number("SEED", 1);
    while (!__atomic_load_n(&board->stop, __ATOMIC_RELAXED)) {
        self->seed = __atomic_fetch_add(&board->next, 1, __ATOMIC_RELAXED);
        if (self->seed >= board->end)
            break;
        progress_note(self->seed - first, board->end - first);
        crew_at("start", 0);
        job(self->seed);
    }
    crew_at("end", 0);
    exit(0);
}

/* A child that ended badly without a word crashed: say where. */
static bool wait_for(struct worker *worker)
{
    int status;
    if (waitpid(worker->pid, &status, 0) != worker->pid)
        return false;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (!worker->told) {
        printf("# a job %s %d\n", WIFSIGNALED(status) ? "was ended by signal" : "ended with status",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        repeat_print(worker);
    }
    board->stop = true;
    return false;
}

bool crew_run(const char *test, uint64_t count, crew_job *job)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t workers = (uint32_t)number("JOBS", cores > 0 ? (uint64_t)cores : 1), started = 0;
    bool good = true;
    *board = (struct board){ .next = number("SEED", 1) };
    board->end = board->next + count;
    test_name = test;
    progress_open();
    if (workers > WORKERS_MAX)
        workers = WORKERS_MAX;
    fflush(NULL);
    for (; started < workers && started < count; started++) {
        self = &board->workers[started];
        pid_t pid = fork();
        if (pid == 0)
            work(job);
        self->pid = pid;
        if (pid < 0) {
            good = false;
            break;
        }
    }
    for (uint32_t i = 0; i < started; i++)
        if (!wait_for(&board->workers[i]))
            good = false;
    return good;
}
