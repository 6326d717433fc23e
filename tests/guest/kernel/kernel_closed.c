/*
 * kernel_closed.c - memory runs out beside a manager that can clean nothing any more, as a fenced
 * store.
 *
 * Aim     who needs a frame then does not wait for cleaning that never comes: ENOMEM at once, even
 *         if the dirty pages are in use all the time. What is in memory stays readable.
 * Method  This process is the manager; it says KD_CREDITS_CLOSED, and lets small transactions make
 *         pages dirty until one finds no memory. Threads read some of these pages meanwhile, so
 *         each round of the hand finds some used. The clock is the virtual one of --icount, and
 *         there is one CPU (CONTRIBUTING.md says why).
 */
#define PAGES 8000
#define HOME_PAGES 1
#include "own_manager.h"

#include <time.h>

enum { AT_ONCE = 16, HOT = 64, READERS = 3, LIMIT_MS = 1000 };
static _Atomic bool stop;
static _Atomic long reads, reads_failed;

static bool spill_refused(struct kd_message *m)
{
    bool spill = m->kind == (uint32_t)KD_MSG_SPILL;
    if (spill) kd_call3(KD_TXN_REFUSE, (long)m->word[0], (long)m->token, EIO);
    return spill;
}

static int write_some(void *arg)
{
    unsigned first = *(unsigned *)arg;
    for (unsigned i = 0; i < AT_ONCE; i++) *word_of(first + i, 1) = first + i + 1;
    return 0;
}
static int read_some(void *bad)
{
    for (unsigned i = 0; i < HOT; i++) *(long *)bad += *word_of(i, 1) != i + 1;
    return 0;
}

static void *reader(void *arg)
{
    while (!stop) {
        long bad = 0;
        int r = run(read_some, &bad, KD_SERIALISABLE, 0);
        reads++;
        reads_failed += r != 0 || bad != 0;
    }
    return arg;
}

static void is_readable(unsigned first)
{
    long bad = 0;
    int r = run(read_some, &bad, KD_SERIALISABLE, 0);
    tap_ok(r == 0 && bad == 0 && first > PAGES / 2, "what is in memory can be read (%d, %ld)", r,
           bad);
}

static long now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int main(void)
{
    tap_plan(7);
    tap_ok(start_manager((struct own_manager){.pages = PAGES, .home_pages = HOME_PAGES,
                                              .flags = KD_OBJECT_SPILLS,
                                              .messages = spill_refused}),
           "a manager that cleans nothing");
    tap_ok(kd_call3(KD_CREDIT_GRANT, commit_port, (long)KD_CREDITS_CLOSED, 0) > 0, "and says so");
    long started = 0, most = 0;
    int r = 0;
    unsigned first = 0;
    pthread_t t[READERS];
    for (; !r && first < HOT; first += AT_ONCE) r = run(write_some, &first, KD_SERIALISABLE, 0);
    for (unsigned i = 0; i < READERS; i++) pthread_create(&t[i], NULL, reader, NULL);
    for (; !r && first + AT_ONCE <= PAGES; first += AT_ONCE) {
        started = now_ms();
        r = run(write_some, &first, KD_SERIALISABLE, 0);
        if (now_ms() - started > most) most = now_ms() - started;
    }
    stop = true;
    for (unsigned i = 0; i < READERS; i++) pthread_join(t[i], NULL);
    printf("# %u pages are dirty, %d, the longest took %ld ms; %ld reads\n", first, r, most, reads);
    tap_ok(r == -ENOMEM, "memory fills with dirty pages, until a transaction ends with ENOMEM");
    tap_ok(most < LIMIT_MS, "at once");
    tap_ok(reads > 100 && reads_failed == 0, "who reads meanwhile is not disturbed (%ld)",
           reads_failed);
    is_readable(first - AT_ONCE);
    tap_ok(check() == 0, "kcheck");
    return tap_end();
}
