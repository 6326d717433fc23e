/*
 * pstore_retry.c - ps_retry: a queue whose consumers sleep until there is a job.
 *
 * Aim     a consumer that finds nothing runs again only when a page that it read has changed, and
 *         then at once; no job is lost or done twice; what it stored before is undone; it makes
 *         nobody wait; time limits and misuse have their errors.
 * Method  runs are counted; the other side goes on when the sleeper's ps_on_abort function has told
 *         that its run is over. From then on no change is missed, whether it sleeps already or not.
 */
#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pstore_test.h"

struct job { struct job *next; uint64_t number; };
struct root {
    struct job *first;
    uint64_t done, sum;
    char apart[8192];
    uint64_t other;                     /* in another page */
};
enum { JOBS = 200, CONSUMERS = 3 };

static ps_container *box;
static _Atomic int runs;
static sem_t sleeping;

static void told(void *unused)
{
    (void)unused;
    sem_post(&sleeping);
}

static int take(void *number)
{
    struct root *root = ps_root(box);
    struct job *job = root->first;
    runs++;
    if (!job) {
        ps_on_abort(told, NULL);
        ps_retry();
    }
    root->first = job->next;
    root->done++;
    root->sum += job->number;
    *(uint64_t *)number = job->number;
    return ps_free(job);
}

static int put(void *number)
{
    struct root *root = ps_root(box);
    struct job *job = ps_new(box, struct job, root);
    *job = (struct job){root->first, *(uint64_t *)number};
    root->first = job;
    return 0;
}

static int elsewhere(void *unused)
{
    ((struct root *)ps_root(box))->other++;
    return (void)unused, 0;
}

static int look(void *out)
{
    *(struct root *)out = *(struct root *)ps_root(box);
    return 0;
}

static void *consumer(void *number)
{
    return (void *)(intptr_t)ps_transaction(take, number);
}

static void wakes(void)
{
    uint64_t got = 0, number = 7;
    void *result;
    pthread_t thread;
    runs = 0;
    pthread_create(&thread, NULL, consumer, &got);
    sem_wait(&sleeping);
    int before = runs;
    is(ps_transaction(elsewhere, NULL), 0, "others commit to another page beside the sleeper");
    is(runs - before, 0, "which sleeps on");
    is(ps_transaction(put, &number), 0, "a job comes");
    pthread_join(thread, &result);
    is((long)(intptr_t)result, 0, "the consumer ends");
    is((long)got, 7, "with the job");
    is(runs, 2, "after two runs");
}

/* ---- many consumers and producers, in two processes ---- */

static void *consume(void *unused)
{
    uint64_t got;
    (void)unused;
    do
        if (ps_transaction(take, &got) != 0)
            return (void *)1;
    while (got != 0);
    return NULL;
}

static int produce(void)
{
    int wrong = 0;
    for (uint64_t number = 1; number <= JOBS; number++)
        wrong += ps_transaction(put, &number) != 0;
    return wrong;
}

static void queue(void)
{
    static struct root end;
    pthread_t thread[CONSUMERS];
    uint64_t last = 0, wrong = 0;
    int status = -1;
    pid_t producer = fork();
    if (producer == 0)
        _exit(produce());
    for (int i = 0; i < CONSUMERS; i++)
        pthread_create(&thread[i], NULL, consume, NULL);
    waitpid(producer, &status, 0);
    is(status, 0, "another process puts its jobs");
    do                                  /* a list: what is put last is taken first */
        ps_transaction(look, &end);
    while (end.first);
    for (int i = 0; i < CONSUMERS; i++)
        wrong += ps_transaction(put, &last) != 0;
    for (int i = 0; i < CONSUMERS; i++) {
        void *result;
        pthread_join(thread[i], &result);
        wrong += result != NULL;
    }
    is((long)wrong, 0, "all consumers end");
    ps_transaction(look, &end);
    is((long)end.done, 1 + JOBS + CONSUMERS, "each job was done");
    is((long)end.sum, 7 + JOBS * (JOBS + 1) / 2, "once");
}

/* ---- what it stored; a page that it wrote itself ---- */

static int store_first(void *unused)
{
    struct root *root = ps_root(box);
    (void)unused;
    runs++;
    if (root->other < 100) {
        root->other++;                  /* undone; and the page still is one that it has read */
        ps_on_abort(told, NULL);
        ps_retry();
    }
    return 0;
}

static int hundred(void *unused)
{
    ((struct root *)ps_root(box))->other = 100;
    return (void)unused, 0;
}

static void *storer(void *unused)
{
    (void)unused;
    return (void *)(intptr_t)ps_transaction(store_first, NULL);
}

static void stores(void)
{
    static struct root seen;
    pthread_t thread;
    void *result;
    runs = 0;
    while (sem_trywait(&sleeping) == 0)
        ;
    pthread_create(&thread, NULL, storer, NULL);
    sem_wait(&sleeping);
    ps_transaction(look, &seen);
    is((long)seen.other, 2, "what a sleeper stored is undone");
    is(ps_transaction(hundred, NULL), 0, "a page that it had changed itself changes");
    pthread_join(thread, &result);
    is((long)(intptr_t)result, 0, "it wakes");
    is(runs, 2, "and runs once more");
}

/* ---- a root that is not there: no page says so ---- */

static ps_container *letters;

static int letter_take(void *out)
{
    uint64_t *letter = ps_root(letters);
    if (!*letter) {
        ps_on_abort(told, NULL);
        ps_retry();
    }
    *(uint64_t *)out = *letter;
    *letter = 0;
    return 0;
}

static int letter_put(void *number)
{
    uint64_t *letter = ps_root(letters);
    if (*letter)
        ps_retry();
    *letter = *(uint64_t *)number;
    return 0;
}

static void *receiver(void *sum)
{
    uint64_t got = 0;
    for (int i = 0; i < JOBS && ps_transaction(letter_take, &got) == 0; i++)
        *(uint64_t *)sum += got;
    return NULL;
}

static void letter_box(void)
{
    uint64_t sum = 0, wrong = 0;
    pthread_t thread;
    letters = ps_open("letters", PS_CREATE | PS_WRITE, PS_LAYOUT_AS("letter", uint64_t, 1));
    while (sem_trywait(&sleeping) == 0)
        ;
    pthread_create(&thread, NULL, receiver, &sum);
    sem_wait(&sleeping);
    for (uint64_t i = 1; i <= JOBS; i++)
        wrong += ps_transaction(letter_put, &i) != 0;
    pthread_join(thread, NULL);
    is((long)wrong, 0, "letters are put where no root was");
    is((long)sum, JOBS * (JOBS + 1) / 2, "each is taken, and none put upon another");
}

/* ---- a name that is made between the look for it and the wait ---- */

enum { LOOKERS = 40 };          /* more than a process may have watches */
static ps_container *names;     /* nobody has read a page of it, so its pages wait for nobody */
static sem_t looked;
static int look_result;

static int name_make(void *name)
{
    return ps_named(names, name, sizeof(uint64_t)) ? 0 : -errno;
}

static void *namer(void *name)
{
    return (void *)(intptr_t)ps_transaction(name_make, name);
}

static int name_wait(void *name)
{
    pthread_t thread;
    if (ps_named(names, name, 0))
        return 0;
    if (runs++ == 0) {                  /* nobody has set a watch yet */
        pthread_create(&thread, NULL, namer, name);
        pthread_join(thread, NULL);
    }
    ps_retry();
}

static const struct ps_options ten_seconds = {.timeout_ms = 10000};

static void *looker(void *name)
{
    runs = 0;
    look_result = ps_transaction_opt(name_wait, name, &ten_seconds);
    sem_post(&sleeping);
    sem_wait(&looked);
    return NULL;
}

static void late_names(void)
{
    static char name[LOOKERS][16];
    pthread_t thread[LOOKERS];
    int count = 0;
    names = ps_open("names", PS_CREATE | PS_WRITE, PS_LAYOUT_AS("names", uint64_t, 1));
    sem_init(&looked, 0, 0);
    while (sem_trywait(&sleeping) == 0)
        ;
    while (count < LOOKERS && look_result == 0) {
        snprintf(name[count], sizeof name[count], "late %d", count);
        pthread_create(&thread[count], NULL, looker, name[count]);
        sem_wait(&sleeping);
        count++;
    }
    for (int i = 0; i < count; i++)
        sem_post(&looked);
    for (int i = 0; i < count; i++)
        pthread_join(thread[i], NULL);
    is(look_result, 0,
       "a name that is made before the watch is set ends each wait, and no watch stays");
}

/* ---- more pages than one message names ---- */

enum { WIDE = 300 };
struct wide { uint64_t word[WIDE][4096 / sizeof(uint64_t)]; };
static ps_container *wide;

static int wide_take(void *unused)
{
    const struct wide *w = ps_root(wide);
    uint64_t sum = 0;
    (void)unused;
    for (int i = 0; i < WIDE; i++)
        sum += w->word[i][0];
    if (sum == 0) {
        ps_on_abort(told, NULL);
        ps_retry();
    }
    return 0;
}

static int wide_put(void *page)
{
    ((struct wide *)ps_root(wide))->word[*(int *)page][0] ^= 1;
    return 0;
}

static void *wide_taker(void *unused)
{
    (void)unused;
    return (void *)(intptr_t)ps_transaction_opt(wide_take, NULL,
                                                &ten_seconds);
}

static void many_pages(void)
{
    static const int pages[] = {0, 127, 128, 255, 256, WIDE - 1};
    int wrong = 0, twice = 0;
    wide = ps_open("wide", PS_CREATE | PS_WRITE, PS_LAYOUT(struct wide, 1));
    wrong |= ps_transaction(wide_put, &twice) | ps_transaction(wide_put, &twice);
    for (unsigned i = 0; i < sizeof pages / sizeof pages[0] && !wrong; i++) {
        int page = pages[i];
        void *result;
        pthread_t thread;
        while (sem_trywait(&sleeping) == 0)
            ;
        pthread_create(&thread, NULL, wide_taker, NULL);
        sem_wait(&sleeping);
        wrong |= ps_transaction(wide_put, &page);
        pthread_join(thread, &result);
        wrong |= result != NULL || ps_transaction(wide_put, &page) != 0;
    }
    is(wrong, 0, "of many pages that were read each one wakes");
}

/* ---- limits and mistakes ---- */

enum { CHANGES_MOST = 20000 };

static int never_told(void *unused)
{
    (void)unused;
    if (((struct root *)ps_root(box))->other != ~0ull) {
        ps_on_abort(told, NULL);
        ps_retry();
    }
    return 0;
}

static void *sleeper(void *done)
{
    void *result = (void *)(intptr_t)ps_transaction_opt(never_told, NULL,
                                                        &(struct ps_options){.timeout_ms = 500});
    *(volatile int *)done = 1;
    sem_post(&sleeping);
    return result;
}

/* Each sleep ends soon, and yet all of them together are limited. The limit is long, so that no
 * sleep reaches it by itself on a busy host: RETRY_NO_LIMIT, which limits each one, is found. */
static void all_sleeps_are_limited(void)
{
    volatile int done = 0;
    int changes = 0;
    void *result;
    pthread_t thread;
    while (sem_trywait(&sleeping) == 0)
        ;
    pthread_create(&thread, NULL, sleeper, (void *)&done);
    while (sem_wait(&sleeping) == 0 && !done && changes < CHANGES_MOST)
        changes += ps_transaction(elsewhere, NULL) == 0;
    pthread_join(thread, &result);
    tap_ok((long)(intptr_t)result == -ETIMEDOUT && changes < CHANGES_MOST,
           "the limit is for all sleeps together, however many changes wake it");
}

static int never(void *unused)
{
    (void)unused;
    if (((struct root *)ps_root(box))->other != ~0ull)
        ps_retry();
    return 0;
}

static int within(void *unused)
{
    ps_tx *outer = ps_suspend();
    int result = ps_transaction(never, NULL);
    (void)unused;
    return ps_resume(outer) == 0 ? result : -ENOTSUP;
}

static void limits(void)
{
    is(ps_transaction_opt(never, NULL, &(struct ps_options){.timeout_ms = 50}), -ETIMEDOUT,
       "a time limit ends the wait");
    is(ps_transaction(elsewhere, NULL), 0, "and nothing is left of it");
    is(ps_transaction_opt(never, NULL, &(struct ps_options){.isolation = PS_SNAPSHOT}), -EINVAL,
       "a snapshot never changes");
    is(strstr(ps_strerror(EINVAL), "nothing to wait for") != NULL, 1, "the error says so");
    is(ps_transaction(within, NULL), -EDEADLK, "not while the thread has another transaction");
    is(strstr(ps_strerror(EDEADLK), "suspended") != NULL, 1, "the error says so");
}

int main(void)
{
    tap_plan(26);
    sem_init(&sleeping, 0, 0);
    box = ps_open("retry", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    is(ps_transaction(elsewhere, NULL), 0, "a queue is made");
    wakes();
    queue();
    stores();
    letter_box();
    late_names();
    many_pages();
    all_sleeps_are_limited();
    limits();
    return tap_end();
}
