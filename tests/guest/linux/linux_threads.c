/*
 * linux_threads.c - POSIX threads of an unchanged C library: clone, futex, thread-local data.
 *
 * Aim     no wake-up is lost, nothing is lost between two CPUs, ended threads leave nothing.
 * Method  counters under mutexes, a bounded queue with conditions, time-outs, barriers, and many
 *         short lives, after which the kernel has as much free memory as before.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <katydid/abi.h>

#include "tap.h"

enum { THREADS = 8 };
static int rounds = 4000; /* 20,000 in the long tier */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, emptied = PTHREAD_COND_INITIALIZER;
static long counter;
static _Thread_local long own = 7;

static void *count(void *arg)
{
    for (int i = 0; i < rounds; i++) {
        pthread_mutex_lock(&mutex);
        counter++;
        pthread_mutex_unlock(&mutex);
        own++;
    }
    return (void *)(own + (long)arg);
}

static void mutexes_exclude(void)
{
    pthread_t t[THREADS];
    void *result;
    int good = 1;
    for (long i = 0; i < THREADS; i++)
        good &= pthread_create(&t[i], NULL, count, (void *)i) == 0;
    for (long i = 0; i < THREADS; i++)
        good &= pthread_join(t[i], &result) == 0 && (long)result == 7 + rounds + i;
    tap_ok(counter == THREADS * rounds, "mutexes_exclude");
    tap_ok(good && own == 7, "each_thread_has_its_own_data_and_result");
}

static int queue[4], head, tail;

static void *produce(void *arg)
{
    (void)arg;
    for (int i = 1; i <= 5000; i++) {
        pthread_mutex_lock(&mutex);
        while (head - tail == 4)
            pthread_cond_wait(&emptied, &mutex);
        queue[head++ % 4] = i;
        pthread_cond_signal(&filled);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void *consume(void *arg)
{
    long *sum = arg;
    for (int i = 0; i < 5000; i++) {
        pthread_mutex_lock(&mutex);
        while (head == tail)
            pthread_cond_wait(&filled, &mutex);
        *sum += queue[tail++ % 4];
        pthread_cond_broadcast(&emptied);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void conditions_wake(void)
{
    pthread_t t[4];
    long sum[2] = {0, 0};
    pthread_create(&t[0], NULL, produce, NULL);
    pthread_create(&t[1], NULL, produce, NULL);
    pthread_create(&t[2], NULL, consume, &sum[0]);
    pthread_create(&t[3], NULL, consume, &sum[1]);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    tap_ok(sum[0] + sum[1] == 2l * 5000 * 5001 / 2, "conditions_lose_no_wake_up");
}

static void waits_end_in_time(void)
{
    struct timespec until, now;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 20000000;
    if (until.tv_nsec >= 1000000000)
        until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_mutex_lock(&mutex);
    int error = pthread_cond_timedwait(&filled, &mutex, &until);
    pthread_mutex_unlock(&mutex);
    clock_gettime(CLOCK_REALTIME, &now);
    tap_ok(error == ETIMEDOUT && (now.tv_sec > until.tv_sec
               || (now.tv_sec == until.tv_sec && now.tv_nsec >= until.tv_nsec)),
           "a_wait_ends_in_time");
    sem_t s;
    sem_init(&s, 0, 0);
    tap_ok(sem_timedwait(&s, &until) < 0 && errno == ETIMEDOUT, "a_past_time_does_not_wait");
}

static pthread_barrier_t barrier;
static _Atomic int phase[THREADS];

static void *march(void *arg)
{
    long me = (long)arg, wrong = 0;
    for (int i = 1; i <= 200; i++) {
        phase[me] = i;
        pthread_barrier_wait(&barrier);
        for (int k = 0; k < THREADS; k++)
            wrong += phase[k] < i;
        pthread_barrier_wait(&barrier);
    }
    return (void *)wrong;
}

static void barriers_hold(void)
{
    pthread_t t[THREADS];
    void *wrong;
    long sum = 0;
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, march, (void *)i);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(t[i], &wrong);
        sum += (long)wrong;
    }
    tap_ok(sum == 0, "barriers_hold");
}

static void *nothing(void *arg) { return arg; }

static void *floats(void *arg)
{
    volatile double x = (double)(long)arg, y = 1;
    for (int i = 0; i < 300000; i++)
        y = y * 0.5 + x;
    return (void *)(long)(y * 1000 + 0.5);
}

static void registers_are_kept(void)
{
    pthread_t t[4];
    void *r;
    int good = 1;
    for (long i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, floats, (void *)(i + 1));
    for (long i = 0; i < 4; i++) {
        pthread_join(t[i], &r);
        good &= (long)r == (i + 1) * 2000;
    }
    tap_ok(good, "floating_point_survives_preemption");
}

static long free_memory(void)
{
    struct kd_system_info s;
    syscall(KD_SYSTEM_INFO, &s);
    return (long)s.free_bytes;
}

static int lives(int n)
{
    pthread_attr_t detached;
    pthread_t t;
    int good = 1;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    for (int i = 0; i < n; i++) {
        good &= pthread_create(&t, NULL, nothing, NULL) == 0 && pthread_join(t, NULL) == 0;
        while (pthread_create(&t, &detached, nothing, NULL) == EAGAIN)
            usleep(1000);
    }
    usleep(100000);
    return good;
}

static void ended_threads_leave_nothing(void)
{
    int good = lives(50);
    long before = free_memory();
    good &= lives(500);
    long lost = before - free_memory();
    printf("# %ld bytes\n", lost);
    tap_ok(good && lost < 256 * 1024, "a_thousand_threads_leave_nothing");
}

static void *map_and_unmap(void *arg)
{
    volatile int *stop = arg;
    long rounds = 0;
    do {
        char *p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            return (void *)-1;
        for (int i = 0; i < 65536; i += 4096) {
            if (p[i] != 0)
                return (void *)-2;
            p[i] = 1;
        }
        munmap(p, 65536);
        rounds++;
    } while (!*stop);
    return (void *)rounds;
}

static void unmapped_frames_are_clean_elsewhere(void)
{
    pthread_t t[3];
    volatile int stop = 0;
    void *r;
    int good = 1;
    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, map_and_unmap, (void *)&stop);
    usleep(300000);
    stop = 1;
    for (int i = 0; i < 3; i++) {
        pthread_join(t[i], &r);
        good &= (long)r > 0;
    }
    tap_ok(good, "new_memory_is_zero_while_others_unmap");
}

/* One thread takes pages away, makes them read-only, and gives them back, while another hands them
 * to calls that read and write them. */
static char *shaky;
static void *shake(void *stop)
{
    enum { BYTES = 65536 };
    for (unsigned i = 0; !*(volatile int *)stop; i++) {
        char *at = shaky + i % 16 * 4096;
        if (i % 3 == 0)
            munmap(at, 4096);
        else if (i % 3 == 1)
            mprotect(at, 4096, PROT_READ);
        else
            mmap(shaky, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                 0);
    }
    return NULL;
}

static void memory_goes_away_during_calls(void)
{
    static volatile int stop;
    int ends[2], good = pipe(ends) == 0;
    long faults = 0, port = syscall(KD_PORT_CREATE, 0), own_faults = 0;
    pthread_t t;
    shaky = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_create(&t, NULL, shake, (void *)&stop);
    /* the other one may begin late */
    for (int i = 0; i < 3000 || (i < 300000 && !(faults && own_faults)); i++) {
        char *at = shaky + i % 60000 * 1237l % 60000;
        long r[] = { syscall(SYS_uname, at), syscall(SYS_getrandom, at, 5000, 0),
                     syscall(SYS_write, ends[1], at, 4000), syscall(SYS_clock_gettime, 1, at),
                     syscall(SYS_stat, at, at) };
        if (r[2] > 0) /* so that it is not full */
            for (long left = r[2]; left > 0;) {
                char buffer[4096];
                left -= syscall(SYS_read, ends[0], buffer, left);
            }
        for (int k = 0; k < 5; k++) faults += r[k] < 0;
        syscall(KD_PORT_NOTIFY, port, 1);
        long own[] = {syscall(KD_SYSTEM_INFO, at), syscall(KD_LOOK, KD_LOOK_LOG, 0, at, 5000),
                      syscall(KD_PORT_RECEIVE, port, at, 0), syscall(KD_PROCESS_LIST, at, 2),
                      syscall(KD_KERNEL_COMMAND_LINE, at, 3000)};
        for (int k = 0; k < 5; k++) own_faults += own[k] < 0;
        good &= own[0] <= 0 && own[1] <= 5000 && own[2] <= 0;
        good &= r[0] <= 0 && r[1] <= 5000 && r[2] <= 4000 && r[3] <= 0;
    }
    stop = 1;
    pthread_join(t, NULL);
    close(ends[0]), close(ends[1]);
    syscall(KD_HANDLE_CLOSE, port);
    tap_ok(good && faults > 0 && own_faults > 0,
           "memory_that_goes_away_during_calls (%ld and %ld faults)", faults, own_faults);
}

enum { LINES = 3000, LINE = 1000 };

static void *say(void *arg)
{
    static char text[2][LINE - 1];
    const long *a = arg;
    memset(text[a[1]], (int)('a' + a[1]), LINE - 1);
    struct iovec v[] = {{text[a[1]], LINE - 1}, {"\n", 1}};
    for (int i = 0; i < LINES; i++) writev((int)a[0], v, 2);
    return NULL;
}

/* What is printed is a line and its end: writev has two parts. A pipe that is nearly full takes
 * neither half of a line. */
static void lines_stay_whole(void)
{
    static char buffer[2 * LINES * LINE];
    int ends[2], mixed = 0;
    size_t have = 0;
    pipe(ends);
    pthread_t t[2];
    long a[2][2] = {{ends[1], 0}, {ends[1], 1}};
    for (int i = 0; i < 2; i++) pthread_create(&t[i], NULL, say, a[i]);
    for (ssize_t n = 1; have < sizeof buffer && n > 0; have += (size_t)n)
        n = read(ends[0], buffer + have, sizeof buffer - have);
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
    for (char *line = buffer; line < buffer + have; line += LINE) {
        char other = line[0] == 'a' ? 'b' : 'a';
        mixed += memchr(line, other, LINE - 1) != NULL || line[LINE - 1] != '\n';
    }
    close(ends[0]), close(ends[1]);
    tap_ok(have == sizeof buffer && !mixed, "lines_of_two_threads_stay_whole (%d mixed)", mixed);
}

int main(void)
{
    tap_plan(12);
    if (tap_long()) rounds = 20000;
    mutexes_exclude();
    conditions_wake();
    waits_end_in_time();
    barriers_hold();
    registers_are_kept();
    ended_threads_leave_nothing();
    unmapped_frames_are_clean_elsewhere();
    memory_goes_away_during_calls();
    lines_stay_whole();
    tap_ok(syscall(KD_CHECK) == 0, "kcheck");
    return tap_end();
}
