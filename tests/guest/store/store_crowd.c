/*
 * store_crowd.c - many clients and a log that is far too small for what they write.
 *
 * Aim     a full log makes committers wait for a checkpoint, and nobody is refused: not while
 *         others fill the log as well, not while all together want more copies than there are
 *         credits. One transaction that could never be logged hears so, alone.
 * Method  a log of 1 MiB (store_crowd.opts); threads of two processes rewrite pages, fifteen times
 *         the log in all, or six; every word read back says page, thread and round.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "store_client.h"

enum { THREADS = 12, ROUNDS = 7, ROUNDS_TEST = 3, PAGES = 16, WORDS = 512, TOO_MANY = 400 };

static struct wire_opened box;
static uint64_t rounds = ROUNDS;

struct work { uint64_t *first, id, round, pages; long result; };

static uint64_t word_of(const struct work *w, uint64_t page, uint64_t word)
{
    return (w->id << 48 | w->round << 32 | page << 16 | word) * 0x9e3779b97f4a7c15ull;
}

static long fill(void *argument)
{
    const struct work *w = argument;
    for (uint64_t p = 0; p < w->pages; p++)
        for (uint64_t i = 0; i < WORDS; i++) w->first[p * WORDS + i] = word_of(w, p, i);
    return 0;
}

static long look(void *argument)
{
    const struct work *w = argument;
    for (uint64_t p = 0; p < w->pages; p++)
        for (uint64_t i = 0; i < WORDS; i++)
            if (w->first[p * WORDS + i] != word_of(w, p, i)) return -EBADMSG;
    return 0;
}

static void *client(void *argument)
{
    struct work *w = argument;
    for (w->round = 1; w->round <= rounds && w->result == 0; w->round++)
        w->result = client_run(fill, w);
    w->round--;
    if (w->result == 0) w->result = client_run(look, w);
    return NULL;
}

/* All threads of this process; the first error. */
static long crowd(uint64_t id)
{
    static struct work work[THREADS];
    pthread_t thread[THREADS];
    long result = 0;
    for (uint64_t i = 0; i < THREADS; i++)
        work[i] = (struct work){ .first = client_lease(box.container, PAGES, NULL),
                                 .id = id * THREADS + i,
                                 .pages = PAGES };
    for (int i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, client, &work[i]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        if (result == 0) result = work[i].result;
    }
    return result;
}

int main(int argc, char **argv)
{
    const char *arguments[] = {argv[0], "other", NULL};
    struct kd_process_create other = { .path = "/bin/store_crowd",
                                       .argv = arguments,
                                       .envp = (const char *const *)environ,
                                       .fds = { -1, -1, -1 } };
    bool first = argc == 1;
    if (!tap_long()) rounds = ROUNDS_TEST;
    if (client_connect() < 0 || client_open("crowd", PS_CREATE | PS_WRITE, NULL, 0, 0, &box) < 0) {
        if (first) printf("Bail out! there is no store\n");
        return 1;
    }
    if (!first) return (int)-crowd(1);
    tap_plan(8);
    struct wire_stats before = client_stats();
    tap_ok(before.log_bytes_total == 1 << 20, "the log has 1 MiB");
    int status = -1;
    long handle = kd_call3(KD_PROCESS_CREATE, (long)&other, 0, 0);
    long r = crowd(0);
    kd_call3(KD_PROCESS_WAIT, other.pid, (long)&status, 0);
    tap_ok(r == 0, "%d clients commit %d times, and nobody is refused (%ld)", THREADS,
           (int)rounds, r);
    tap_ok(handle >= 0 && status == 0, "nor in another process beside them (%d)", status);
    struct wire_stats after = client_stats();
    uint64_t logged = after.log_bytes - before.log_bytes,
             checkpoints = after.checkpoints - before.checkpoints;
    tap_ok(logged > 10u * rounds / ROUNDS << 20 && checkpoints * (1 << 20) > logged,
           "%llu KiB of log went through it, by %llu checkpoints", (unsigned long long)logged >> 10,
           (unsigned long long)checkpoints);
    struct work large = {.first = client_lease(box.container, TOO_MANY, NULL), .pages = TOO_MANY};
    r = client_run(fill, &large);
    tap_ok(r == 0, "a transaction of new pages beyond half the log commits (%ld)", r);
    large.round = 1;
    r = client_run(fill, &large);
    tap_ok(r == -E2BIG, "one that changes as many old ones is too big (%ld)", r);
    large.pages = PAGES;
    large.round = 2;
    r = client_run(fill, &large);
    tap_ok(r == 0 && client_run(look, &large) == 0, "and the next one is not (%ld)", r);
    tap_ok(kd_call3(KD_CHECK, 0, 0, 0) == 0, "kcheck");
    return tap_end();
}
