/*
 * pstore_latch.c - latches with before-images, and processes that die while they hold one: KT4.
 *
 * Aim     whatever instruction a process dies at, between wanting a latch and having given it, the
 *         next one gets it, is told if the other one held it, and puts back what was half done;
 *         also who dies while he puts it back.
 * Method  a ring of four numbers that are equal outside of the latch. Workers change it without an
 *         end and are killed at random instants; then others hang at each stage, of which those
 *         inside of a function are made by hand, and are killed there. Others go through the calls
 *         in single steps (the processor's trap flag) and end behind the n-th instruction: a latch
 *         that nobody has, and one whose owner has died. The clock chooses a sample of these, a
 *         larger one in the long tier.
 */
#include <errno.h>
#include <kit_private.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "process.h"
#include "tap.h"

enum { NUMBERS = 4, KILLS = 12, LONG_MS = 20000 };
enum stage { WANTS, HAS, HALF_IMAGE, IMAGE, CHANGED, TWICE, ALL, DROPPED, GIVEN, RESTORES, STAGES };
struct ring {
    struct ps_latch latch;
    struct ps_images images;
    volatile uint64_t number[NUMBERS], ready;
};
static ps_area *area;
static struct ring *ring;

static void nap(void) { nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); }

static _Noreturn void hang(void)
{
    ring->ready = 1;
    for (;;)
        nap();
}

static void stop_at(int stage, int now)
{
    if (stage == now)
        hang();
}

/* One change of the ring; it hangs at that stage. */
static int change(int stage)
{
    stop_at(stage, WANTS);
    int result = ps_latch_take(area, &ring->latch, LONG_MS), error = 0;
    if (result == -EOWNERDEAD) {
        ps_images_restore(area, &ring->images);
        ps_latch_repaired(area, &ring->latch);
    } else if (result != 0) {
        return result;
    }
    stop_at(stage, HAS);
    if (stage == HALF_IMAGE) {          /* written, and not counted */
        ring->images.image[0].at = (uint64_t)((char *)&ring->number[0] - (char *)ring);
        ring->images.image[0].word = 99;
        hang();
    }
    for (int i = 0; i < NUMBERS && !error; i++) {
        error = ps_image(area, &ring->images, (void *)(uintptr_t)&ring->number[i], 8);
        if (i == 1) stop_at(stage, IMAGE);
        ring->number[i]++;
        if (i == 1) stop_at(stage, CHANGED);
    }
    if (stage == TWICE) {               /* a second image of a word is a later one */
        error |= ps_image(area, &ring->images, (void *)(uintptr_t)&ring->number[0], 16);
        ring->number[0] += 100;
        hang();
    }
    stop_at(stage, ALL);
    if (stage == RESTORES) {            /* dies while it puts back: the newest images first */
        ring->number[NUMBERS - 1]--;
        hang();
    }
    ps_images_drop(&ring->images);
    stop_at(stage, DROPPED);
    error |= ps_latch_give(area, &ring->latch);
    stop_at(stage, GIVEN);
    return error;
}

/* ---- in single steps ---- */

static _Atomic long steps, last_step;

static void stepped(int signal)
{
    (void)signal;
    if (++steps == last_step)
        kd_call3(KD_PROCESS_KILL, getpid(), 9, 0);
}

/* The trap flag; below what the compiler may keep behind the stack. */
static inline void step(int on)
{
    if (on)
        __asm__ volatile("leaq -128(%%rsp), %%rsp; pushfq; orq $0x100, (%%rsp); popfq; "
                         "leaq 128(%%rsp), %%rsp" ::: "memory", "cc");
    else
        __asm__ volatile("leaq -128(%%rsp), %%rsp; pushfq; andq $~0x100, (%%rsp); popfq; "
                         "leaq 128(%%rsp), %%rsp" ::: "memory", "cc");
}

/* Takes the latch and gives it, twice, and comes to its end if that are fewer steps. */
static int in_steps(long last)
{
    struct sigaction how = {.sa_handler = stepped};
    sigaction(SIGTRAP, &how, NULL);
    last_step = last;
    int result = 0;
    step(1);
    for (int i = 0; i < 2 && !result; i++) {
        result = ps_latch_take(area, &ring->latch, LONG_MS);
        if (result == -EOWNERDEAD) {
            ps_images_restore(area, &ring->images);
            result = ps_latch_repaired(area, &ring->latch);
        }
        result = result ? result : ps_latch_give(area, &ring->latch);
    }
    step(0);
    return result ? 92 : steps > 40 ? 0 : 93;
}

static int worker(const char *what)
{
    area = ps_area_open("ring");
    if (!area)
        return 90;
    ring = ps_area_memory(area);
    if (strncmp(what, "steps ", 6) == 0)
        return in_steps(atol(what + 6));
    if (strcmp(what, "all") != 0)
        return change(atoi(what));
    for (ring->ready = 1;;)
        if (change(STAGES))
            return 91;
}

static int killed(const char *self, const char *what, int naps)
{
    ring->ready = 0;
    int pid = child_start(self, what, NULL);
    while (!ring->ready)
        nap();
    while (naps-- > 0)
        nap();
    kd_call3(KD_PROCESS_KILL, pid, 9, 0);
    return child_wait(pid);
}

static int is_whole(void)
{
    for (int i = 1; i < NUMBERS; i++)
        if (ring->number[i] != ring->number[0])
            return 0;
    return ring->images.used == 0;
}

/* Takes the latch, told or not; whether all is as it should be. */
static int look(int *told)
{
    int result = ps_latch_take(area, &ring->latch, LONG_MS);
    *told = result == -EOWNERDEAD;
    if (*told) {
        ps_images_restore(area, &ring->images);
        ps_latch_repaired(area, &ring->latch);
    } else if (result != 0) {
        return 0;
    }
    int whole = is_whole();
    return ps_latch_give(area, &ring->latch) == 0 && ring->latch.word == 0 && whole;
}

static void test_stages(const char *self)
{
    static const struct { const char *what; int told, adds; } expect[STAGES] = {
        [WANTS] = {"before it takes it", 0, 0},
        [HAS] = {"behind the exchange", 1, 0},
        [HALF_IMAGE] = {"within the making of an image", 1, 0},
        [IMAGE] = {"between an image and its change", 1, 0},
        [CHANGED] = {"behind a change", 1, 0},
        [TWICE] = {"behind a second change of a word", 1, 0},
        [ALL] = {"behind all changes", 1, 0},
        [DROPPED] = {"without images", 1, 1},
        [GIVEN] = {"when it has given it", 0, 1},
        [RESTORES] = {"while it puts back", 1, 0},
    };
    for (int stage = 0; stage < STAGES; stage++) {
        char text[4];
        uint64_t before = ring->number[0];
        int told;
        snprintf(text, sizeof text, "%d", stage);
        killed(self, text, 0);
        int whole = look(&told);
        tap_ok(whole && told == expect[stage].told &&
                   ring->number[0] == before + (uint64_t)expect[stage].adds,
               "killed %s (%d %d %ld)", expect[stage].what, whole, told,
               (long)(ring->number[0] - before));
    }
}

/* It dies behind each instruction; `died`: who had the latch before it has died, too. */
static void test_steps(const char *self, int died, long every)
{
    long deaths = 0, wrong = 0, held = 0, n = 1 + time(NULL) % every;
    int status = 1;
    for (; status && n < 100000; n += every) {
        char text[24], has[4];
        int told = 0;
        snprintf(text, sizeof text, "steps %ld", n);
        snprintf(has, sizeof has, "%d", CHANGED);
        if (died)
            killed(self, has, 0);
        status = child_run(self, text, NULL);
        int had = (ring->latch.word & (LATCH_OWNER | LATCH_DIED)) != 0;
        int whole = look(&told);
        deaths += status != 0;
        held += told;
        if (!whole || told != had || (status != 0 && status != SIGKILL)) {
            printf("# step %ld: %d %d %d %d\n", n, status, whole, told, had);
            wrong++;
        }
    }
    is(wrong, 0, died ? "killed at each instruction, the latch of a dead one's"
                      : "killed at each instruction of taking and giving");
    tap_ok(status == 0 && held > 0 && held < deaths, "%ld deaths, of %ld that had it", deaths,
           held);
}

static void test_limits(void)
{
    uint64_t outside = 0;
    is(ps_latch_take(area, &ring->latch, 0), 0, "a latch");
    is(ps_image(area, &ring->images, &outside, 8), -EINVAL, "no image of what is not in the area");
    is(ps_image(area, &ring->images, ring, PS_IMAGES_MAX * 8 + 8), -ENOSPC, "nor of so much");
    ps_images_drop(&ring->images);
    is(ps_latch_give(area, &ring->latch), 0, "given");
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return worker(argv[1]);
    tap_plan(STAGES + 11);
    area = ps_area_make("ring", sizeof(struct ring), NULL);
    if (!tap_ok(area != NULL, "an area (%d)", errno))
        return 1;
    ring = ps_area_memory(area);
    int whole = 0, told, times = 0;
    for (int i = 0; i < KILLS; i++) {
        killed(argv[0], "all", i % 4);
        whole += look(&told);
        times += told;
    }
    is(whole, KILLS, "killed at any instant: the ring is whole");
    tap_ok(times > 0, "%d of %d held the latch", times, KILLS);
    test_stages(argv[0]);
    test_steps(argv[0], 0, tap_long() ? 1 : 5);
    test_steps(argv[0], 1, tap_long() ? 5 : 20);
    test_limits();
    return tap_end();
}
