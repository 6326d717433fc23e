/*
 * threads.c - POSIX threads: thread-local data, mutexes, conditions, time-outs, keys, barriers,
 * exit. Prints the same on Linux and on Katydid; below it are clone, futex and arch_prctl.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 6, ROUNDS = 2000 };

static _Thread_local long own = 7, zero;
static __thread char text[40] = "as it was in the file";
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static long sum, once_count;

static void say(const char *what, long value)
{
    printf("%s %ld\n", what, value);
    fflush(stdout);
}

static void count_once(void) { once_count++; }

/* Adds to its own variables and to the shared one; returns what its own ones are. */
static void *adds(void *number)
{
    long n = (long)number;
    pthread_once(&once, count_once);
    snprintf(text, sizeof(text), "thread %ld", n);
    for (int i = 0; i < ROUNDS; i++) {
        own += n;
        zero++;
        pthread_mutex_lock(&mutex);
        sum += n;
        pthread_mutex_unlock(&mutex);
    }
    long last = pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
    return (void *)((long)(own == 7 + n * ROUNDS && zero == ROUNDS && text[7] == '0' + n) * 2 +
                    last);
}

static void each_thread_has_its_own_data(void)
{
    pthread_t t[THREADS];
    long right = 0, last = 0;
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (long i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, adds, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(t[i], &result);
        right += (long)result / 2;
        last += (long)result % 2;
    }
    say("threads with their own data", right);
    say("last at the barrier", last);
    say("sum under a mutex", sum);
    say("done once", once_count);
    say("main's own", own);
    say("main's zero", zero);
    printf("main's text: %s\n", text);
}

/* Two threads take turns. */
static int turn;
static void *takes_turns(void *number)
{
    int n = (int)(long)number;
    for (int i = 0; i < 200; i++) {
        pthread_mutex_lock(&mutex);
        while (turn % 2 != n)
            pthread_cond_wait(&changed, &mutex);
        turn++;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void conditions_lose_nothing(void)
{
    pthread_t t[2];
    for (long i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, takes_turns, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    say("turns", turn);
}

static void waits_end_in_time(void)
{
    struct timespec past = {.tv_sec = 1};
    sem_t s;
    sem_init(&s, 0, 1);
    say("semaphore that is free", sem_timedwait(&s, &past));
    say("semaphore that is not", sem_timedwait(&s, &past) == -1 && errno == ETIMEDOUT);
    pthread_mutex_lock(&mutex);
    say("condition that nobody signals",
        pthread_cond_timedwait(&changed, &mutex, &past) == ETIMEDOUT);
    say("mutex that is ours", pthread_mutex_trylock(&mutex) == EBUSY);
    pthread_mutex_unlock(&mutex);
}

static pthread_key_t key;
static long destroyed;
static void destroy(void *value) { destroyed += (long)value; }
static void *sets_key(void *value)
{
    pthread_setspecific(key, value);
    pthread_exit(NULL);
}

static void keys_are_destroyed_at_the_end(void)
{
    pthread_t t[3];
    pthread_key_create(&key, destroy);
    for (long i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, sets_key, (void *)(i + 10));
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    say("destroyed", destroyed);
    say("main's key is not set", pthread_getspecific(key) == NULL);
}

static void *never_ends(void *unused)
{
    (void)unused;
    for (;;)
        pause();
    return NULL;
}

static void exit_ends_all_threads(void)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t t;
        for (int i = 0; i < 3; i++)
            pthread_create(&t, NULL, never_ends, NULL);
        exit(own == 7 ? 21 : 22);                   /* the child's own data are a copy */
    }
    waitpid(pid, &status, 0);
    say("exit beside threads", WEXITSTATUS(status));
}

static void nobody_has_an_affinity(void)
{
    unsigned long mask[16];
    say("affinity of nobody",
        syscall(SYS_sched_getaffinity, 0x3fffffff, sizeof mask, mask) < 0 ? errno : 0);
    say("one's own", syscall(SYS_sched_getaffinity, (long)getpid(), sizeof mask, mask) > 0);
}

int main(void)
{
    nobody_has_an_affinity();
    each_thread_has_its_own_data();
    conditions_lose_nothing();
    waits_end_in_time();
    keys_are_destroyed_at_the_end();
    exit_ends_all_threads();
    return 0;
}
