/*
 * kernel_revoke.c - AT3: KD_OBJECT_REVOKE while the object is attached again and again.
 *
 * Aim     it ends each attachment that there was when it was called, once, and then returns: who
 *         attaches again keeps no manager in the kernel.
 * Method  one CPU; a thread looks which of 48 idle programs have the object no more, counts them,
 *         and attaches it to them again, while a nicer one revokes it.
 */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "own_manager.h"

enum { PAGES = 16000, PROGRAMS = 48, TIMES = 20, NICE = 5 };

static pid_t program[PROGRAMS];
static _Atomic bool over, returned;
static _Atomic long rounds, ended, result;

static long rights(pid_t of) { return kd_call3(KD_SPACE_RIGHTS, of, object, 0); }

static void *attaches(void *unused)
{
    for (; !over; rounds++)
        for (int i = 0; i < PROGRAMS && !over; i++)
            if (rights(program[i]) == 0) {
                ended++;
                kd_call3(KD_SPACE_ATTACH, program[i], object, KD_RIGHT_READ);
            }
    return unused;
}

static void *revokes(void *unused)
{
    setpriority(PRIO_PROCESS, 0, NICE);
    result = kd_call3(KD_OBJECT_REVOKE, object, 0, 0);
    returned = true;
    return unused;
}

/* A round later all are attached, and nobody ends that. */
static void all_attached(void)
{
    for (long since = rounds; rounds < since + 2;) sched_yield();
}

static bool revoke_ends_each_once(void)
{
    pthread_t t;
    all_attached();
    ended = 0;
    returned = false;
    pthread_create(&t, NULL, revokes, NULL);
    while (!returned && ended <= PROGRAMS) pause_ms(1);
    bool in_time = returned;
    over = !in_time; /* then it returns */
    pthread_join(t, NULL);
    if (in_time) all_attached();
    return in_time && result == 0 && ended == PROGRAMS;
}

static int touch(void *unused)
{
    for (uint64_t i = 0; i < PAGES; i++) (void)*word_of(i, 0);
    return unused != NULL;
}

int main(void)
{
    pthread_t t;
    int good = 0, left = 0;
    tap_plan(4);
    if (!start_manager((struct own_manager){.pages = PAGES, .home_pages = 1}))
        return printf("Bail out! no manager\n"), 1;
    run(touch, NULL, KD_SERIALISABLE, 0); /* each end of an attachment walks the leaves */
    for (int i = 0; i < PROGRAMS; i++)
        if ((program[i] = fork()) == 0)
            for (;;) pause();
    pthread_create(&t, NULL, attaches, NULL);
    while (good < TIMES && revoke_ends_each_once()) good++;
    is(good, TIMES, "it ends each once, while others attach");
    over = true;
    pthread_join(t, NULL);
    kd_call3(KD_SPACE_ATTACH, program[0], object, KD_RIGHT_READ);
    is((int)kd_call3(KD_OBJECT_REVOKE, object, 0, 0), 0, "when nobody does");
    for (int i = 0; i < PROGRAMS; i++) left += rights(program[i]) != 0;
    tap_ok(left == 0 && rights(getpid()) == 0, "nobody has it any more");
    for (int i = 0; i < PROGRAMS; i++) {
        kill(program[i], SIGKILL);
        waitpid(program[i], NULL, 0);
    }
    tap_ok(check() == 0, "kcheck");
    return tap_end();
}
