/*
 * kernel_leaving.c - copies leave memory before programs end for it.
 *
 * Aim     where programs have most of the memory, copies begin to spill while there are frames for
 *         others still, though they are few themselves. Where they have filled memory, and their
 *         manager, which was asked to take some, is slow, who needs a frame meanwhile waits, and
 *         gets one when they have gone; if the manager does nothing for long, not for ever.
 * Method  own_manager.h, with a manager that takes its time; the one that needs frames is a child,
 *         which wants some more than are free.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { PAGES = 16384, HOG_MORE = 100, SLOW_MS = 1500, STATUS_KILLED = 77 };

#include "own_manager.h"
#include "pstore_test.h"

static _Atomic bool silent;             /* the manager answers no SPILL */
static _Atomic bool stop;               /* no more pages are to be changed */
static _Atomic bool early;              /* the first SPILL is enough */
static _Atomic long spills, free_then;

static uint64_t frames_free(void) { return system_info().free_bytes / KD_PAGE_BYTES; }

/* What was told goes nowhere: nobody reads it again. */
static void take_copies(const struct kd_message *m)
{
    static uint8_t buffer[64 * (KD_PAGE_BYTES + sizeof(struct kd_run))];
    uint64_t gone = 0;
    while (gone < m->word[2]) {
        struct kd_diff d = {.view = m->word[0], .token = m->token, .flags = KD_DIFF_SPILL,
                            .buffer = buffer, .buffer_bytes = sizeof buffer};
        if (kd_call3(KD_TXN_DIFF, (long)&d, 0, 0) || !d.pages) break;
        gone += d.pages;
        kd_call4(KD_TXN_SPILLED, (long)m->word[0], (long)m->token, (long)d.pages, 0);
    }
    kd_call4(KD_TXN_SPILLED, (long)m->word[0], (long)m->token, 0, 1);
}

static bool serve(struct kd_message *m)
{
    if (m->kind != (uint32_t)KD_MSG_SPILL) return false;
    if (!spills++) free_then = (long)frames_free();
    if (early) stop = true;
    else pause_ms(SLOW_MS);
    while (silent) pause_ms(1);
    take_copies(m);
    return true;
}

static int write_all(void *unused)
{
    for (uint64_t p = 0; p < PAGES && !stop; p++) *word_of(p, 1) = p;
    return unused ? 0 : 17;
}
static void *writer(void *unused) { return (void *)(long)run(write_all, unused, 0, 0); }

/* Takes some more than are free, when the copies are on their way; with `all`, than would be if the
 * pages in memory went, too: these may, whatever the manager does. */
static const char *const on_their_way = "/tmp/leaving";
static int hog(bool all)
{
    child_begun();
    while (access(on_their_way, F_OK)) pause_ms(5);
    size_t more = HOG_MORE + (all ? system_info().resident_pages : 0);
    size_t bytes = (frames_free() + more) * KD_PAGE_BYTES;
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return 1;
    for (size_t i = 0; i < bytes; i += KD_PAGE_BYTES) at[i] = 1;
    return 0;
}

/* Each takes so much of what is free that a sixth of memory is in the end, and keeps it. */
enum { KEEPERS = 4 };
static uint64_t keep_frames(int left)
{
    return (frames_free() - system_info().memory_bytes / KD_PAGE_BYTES / 6) / (uint64_t)left;
}
static _Noreturn void keeper(int left)
{
    size_t bytes = keep_frames(left) * KD_PAGE_BYTES;
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; at != MAP_FAILED && i < bytes; i += KD_PAGE_BYTES) at[i] = 1;
    child_begun();
    for (;;) pause_ms(1000);
}

/* The evictor begins at a 32nd of memory; half of that is for managers and the like. */
static void test_early(const char *self)
{
    int pid[KEEPERS];
    bool begun = true, ended = true;
    for (int i = 0; i < KEEPERS; i++) {
        const char left[] = {(char)('0' + KEEPERS - i), 0};
        pid[i] = child_start(self, "keeper", left);
        begun &= child_has_begun(pid[i]);
    }
    long all = (long)(system_info().memory_bytes / KD_PAGE_BYTES);
    early = true;
    int e = run(write_all, NULL, 0, 0);
    early = false;
    for (int i = 0; i < KEEPERS; i++) {
        kd_call3(KD_PROCESS_KILL, pid[i], STATUS_KILLED, 0);
        ended &= child_wait(pid[i]) == STATUS_KILLED;
    }
    tap_ok(begun && e == 17 && spills && free_then > all / 64 + all / 256 && ended,
           "few copies spill, where programs have most of the memory, in time: %ld of %ld frames "
           "are free (%d)", free_then, all, e);
}

static int beside(const char *self, int *written)
{
    pthread_t thread;
    void *result = (void *)1;
    long before = spills;
    int pid = child_start(self, silent ? "all" : "some", NULL);
    bool begun = child_has_begun(pid);
    stop = false;
    pthread_create(&thread, NULL, writer, NULL);
    while (begun && spills == before) pause_ms(1);
    close(open(on_their_way, O_CREAT | O_WRONLY, 0600));
    int status = child_wait(pid);
    unlink(on_their_way);
    silent = false;
    stop = true;
    pthread_join(thread, &result);
    *written = (int)(long)result;
    return status;
}

int main(int argc, char **argv)
{
    int written;
    if (argc > 2) keeper(atoi(argv[2]));
    if (argc > 1) return hog(argv[1][0] == 'a');
    setvbuf(stdout, NULL, _IOLBF, 0);
    tap_plan(5);
    tap_ok(start_manager((struct own_manager){.pages = PAGES, .home_pages = 1,
                                              .flags = KD_OBJECT_SPILLS, .messages = serve}),
           "a manager that takes copies");
    test_early(argv[0]);
    int status = beside(argv[0], &written);
    tap_ok(status == 0 && written == 17 && spills > 0,
           "who needs frames waits for copies that are about to leave (%d, %d)", status, written);
    silent = true;
    status = beside(argv[0], &written);
    tap_ok(status != 0 && written == 17, "if their manager does nothing, not for ever (%d, %d)",
           status, written);
    is(check(), 0, "kcheck");
    return tap_end();
}
