/*
 * kernel_urgent.c - one CPU; a manager of niceness 19 publishes a large commit, and others compute.
 *
 * Aim     one publication is open at a time in the machine, so who publishes gets the CPU as if it
 *         had just woken up: nobody's commit waits until a nice manager has computed its share.
 * Method  a manager with two threads that take commits. One takes that of many pages, becomes nice
 *         and publishes. The other one publishes commits of one page meanwhile, one after another,
 *         while threads of niceness 0 count in loops: what they count during a commit is what that
 *         waited for. QEMU counts instructions as time here, so a run repeats itself.
 */
#include "own_manager.h"

#include <sys/resource.h>

enum { PAGES = 8000, HOGS = 2, UNIT = 2000, LONG = 8000, NICE = 19 };
static _Atomic bool told, published, large_ended;
static _Atomic int stop;
static _Atomic long counted[HOGS];

static void *hog(void *number)
{
    while (!stop) {
        for (volatile long i = 0; i < UNIT; i++) {}
        counted[(long)(uintptr_t)number]++;
    }
    return NULL;
}

static long counted_by_all(void)
{
    long sum = 0;
    for (int i = 0; i < HOGS; i++) sum += counted[i];
    return sum;
}

/* The first commit is the large one. */
static bool publishes_nicely(struct kd_message *m)
{
    static uint8_t buffer[1 << 20];
    struct kd_diff d = {.view = m->word[0], .token = m->token};
    if (m->kind != (uint32_t)KD_MSG_COMMIT || told) return false;
    for (long e = 0; e == 0 && d.cursor != ~0ull;) {
        d.buffer = buffer;
        d.buffer_bytes = sizeof buffer;
        e = kd_call3(KD_TXN_DIFF, (long)&d, 0, 0);
    }
    struct kd_publish p = {m->word[0], m->token, next_csn++};
    setpriority(PRIO_PROCESS, 0, NICE);
    told = true;
    long e = kd_call3(KD_TXN_PUBLISH, (long)&p, 1, 0);
    published = true;
    if (e) printf("# publish: %ld\n", e);
    return true;
}

static void *takes_small_ones(void *unused)
{
    struct kd_message m = {.handle = -1};
    while (!told) pause_ms(1);
    while (kd_call3(KD_PORT_RECEIVE, commit_port, (long)&m, -1) == 0) serve_commit(&m);
    return unused;
}

static int write_large(void *unused)
{
    for (uint64_t i = 0; i < PAGES; i++) *word_of(i, 0) = i + 1;
    return unused != NULL;
}

static int write_small(void *unused)
{
    *word_of(PAGES, 0) += 1;
    return unused != NULL;
}

static void *commits_large(void *result)
{
    *(int *)result = run(write_large, NULL, KD_SERIALISABLE, 0);
    large_ended = true;
    return result;
}

int main(void)
{
    pthread_t hogs[HOGS], large, t;
    int result = -1;
    long most = 0, commits = 0;
    struct own_manager how = {.pages = PAGES + 1, .home_pages = 1, .messages = publishes_nicely};
    tap_plan(4);
    bool good = start_manager(how) && pthread_create(&t, NULL, takes_small_ones, NULL) == 0 &&
                pthread_create(&large, NULL, commits_large, &result) == 0;
    while (good && !told) pause_ms(1);
    for (long i = 0; i < HOGS; i++)
        good = pthread_create(&hogs[i], NULL, hog, (void *)(uintptr_t)i) == 0 && good;
    tap_ok(good && !published, "a large commit is about to be published");
    for (; good && !published; commits++) {
        long before = counted_by_all();
        good = run(write_small, NULL, KD_SERIALISABLE, 0) == 0;
        long waited = counted_by_all() - before;
        most = waited > most ? waited : most;
    }
    stop = 1;
    while (!large_ended) pause_ms(1);
    tap_ok(good && commits > 0, "%ld small commits beside it", commits);
    tap_ok(most < LONG, "none waits for longer than others take to count to %ld", most);
    tap_ok(result == 0 && check() == 0, "the large one is published");
    return tap_end();
}
