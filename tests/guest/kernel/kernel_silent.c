/*
 * kernel_silent.c - a disk that leaves requests waiting is told of in the log.
 *
 * Aim     the log says once that the disk does not answer, when a request has waited for ten
 *         seconds, not again before that time has doubled, and that it answers only when the last
 *         one that waited has its answer (BK5).
 * Method  a disk that QEMU slows down; so many reads at once that the last waits for longer than
 *         ten seconds and less than twenty. They end one after the other, one in a second.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "katydid/call.h"
#include "tap.h"

enum { READS = 15, BYTES = 65536, LOG_BYTES = 65536 };

static int disk, failed;
static char memory[READS][BYTES], log_text[LOG_BYTES + 1];

static void *read_one(void *at)
{
    long error = kd_call4(KD_BLOCK_READ, disk, 0, (long)at, BYTES);
    __atomic_fetch_add(&failed, error != 0, __ATOMIC_RELAXED);
    return NULL;
}

/* How often the log says this of the disk; *seconds is what it said the last time, *at where. */
static int said(const char *words, long *seconds, const char **at)
{
    int count = 0;
    for (const char *p = log_text; (p = strstr(p, words)) != NULL; p++) {
        count++;
        *seconds = strtol(p + strlen(words), NULL, 10);
        *at = p;
    }
    return count;
}

int main(void)
{
    struct kd_block_info info;
    pthread_t threads[READS];
    long silent = 0, answered = 0;
    const char *silent_at = NULL, *answered_at = NULL;
    tap_plan(6);
    disk = (int)kd_call3(KD_BLOCK_OPEN, (long)"slow", (long)&info, 0);
    tap_ok(disk >= 0, "the disk opens");
    int started = 0;
    while (started < READS &&
           pthread_create(&threads[started], NULL, read_one, memory[started]) == 0)
        started++;
    is(started, READS, "readers start");
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    is(failed, 0, "reads that wait for so long end well");
    long n = kd_call4(KD_LOOK, KD_LOOK_LOG, 0, (long)log_text, LOG_BYTES);
    log_text[n > 0 ? n : 0] = '\0';
    int silences = said("disk slow does not answer for ", &silent, &silent_at);
    int answers = said("disk slow answers after ", &answered, &answered_at);
    tap_ok(silences == 1 && silent >= 10,
           "the log says once that the disk does not answer: %d, %ld s", silences, silent);
    tap_ok(answers == 1 && answered >= silent && silent_at < answered_at,
           "and then once that it does: %d, %ld s", answers, answered);
    tap_ok(answered >= READS - 4, "which is when the last one that waited has its answer");
    return tap_end();
}
