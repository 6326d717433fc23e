/*
 * pstore_share.c - several processes and threads change one container at the same time.
 *
 * Aim     the result equals some serial order; conversion deadlocks (all read, then write) make
 *         progress; two that make the same root or name end up with one.
 * Method  counters whose total is known; each worker also notes in its own slot what it did, so
 *         that both kinds of page, shared and own, are compared.
 */
#include <pthread.h>

#include "pstore_test.h"

enum { PROCESSES = 2, THREADS = 3, ROUNDS = 400, SLOTS = 8 };
struct slot { long done; char other_page[4080]; };
struct list_item { struct list_item *next; long worker, number; };
struct root { long total; struct list_item *list; struct slot *slot[SLOTS]; };

static ps_container *c;
struct work { int worker; long number; };

static int step(void *arg)
{
    struct work *w = arg;
    struct root *root = ps_root(c);
    if (!root)
        return -errno;
    long total = root->total;             /* everybody reads first ... */
    struct slot *slot = root->slot[w->worker];
    if (!slot && !(slot = root->slot[w->worker] = ps_new(c, struct slot, NULL)))
        return -errno;
    struct list_item *item = ps_new(c, struct list_item, NULL);
    if (!item)
        return -errno;
    *item = (struct list_item){root->list, w->worker, w->number};
    root->list = item;
    slot->done++;
    root->total = total + 1;              /* ... and then writes */
    return 0;
}

static void *work(void *arg)
{
    struct work w = {.worker = *(int *)arg};
    for (w.number = 0; w.number < ROUNDS; w.number++) {
        int result = ps_transaction(step, &w);
        if (result != 0) {
            printf("# worker %d: %s\n", w.worker, ps_strerror(result));
            return (void *)1;
        }
    }
    return NULL;
}

struct sums { long total, done, items, out_of_order; };

static int add_up(void *arg)
{
    struct sums *s = arg;
    struct root *root = ps_root(c);
    long next[SLOTS];
    *s = (struct sums){.total = root->total};
    for (int i = 0; i < SLOTS; i++) {
        next[i] = ROUNDS - 1;
        s->done += root->slot[i] ? root->slot[i]->done : 0;
    }
    for (const struct list_item *item = root->list; item; item = item->next) {
        s->items++;                       /* newest first: each worker's own order is kept */
        s->out_of_order += item->number != next[item->worker]--;
    }
    return 0;
}

static void sums_are(long wanted, const char *who)
{
    struct sums s = {0};
    is(ps_transaction(add_up, &s), 0, who);
    is(s.total, wanted, "  every step counted once");
    is(s.done, wanted, "  in the workers' own pages as well");
    tap_ok(s.items == wanted && s.out_of_order == 0,
           "  and the list has all, each worker's in order");
}

static int child(int worker)
{
    c = ps_open("share", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    return c && work(&worker) == NULL ? 0 : 1;
}

static void processes(const char *self)
{
    int pid[PROCESSES], failed = 0;
    for (int i = 0; i < PROCESSES; i++) {
        char number[2] = {(char)('0' + i), 0};
        pid[i] = child_start(self, number, NULL);
    }
    for (int i = 0; i < PROCESSES; i++)
        failed += child_wait(pid[i]) != 0;
    is(failed, 0, "two processes make container and root, and change it together");
    c = ps_open("share", PS_WRITE, PS_LAYOUT(struct root, 1));
    sums_are(PROCESSES * ROUNDS, "their sums");
}

static void threads(void)
{
    pthread_t thread[THREADS];
    int worker[THREADS];
    long failed = 0;
    for (int i = 0; i < THREADS; i++) {
        worker[i] = PROCESSES + i;
        pthread_create(&thread[i], NULL, work, &worker[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(thread[i], &result);
        failed += (long)result;
    }
    is(failed, 0, "three threads of one process change it together");
    sums_are((PROCESSES + THREADS) * ROUNDS, "all their sums");
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return child(argv[1][0] - '0');
    tap_plan(11);
    ps_delete("share");
    processes(argv[0]);
    threads();
    struct ps_stats s;
    ps_stats(&s);
    printf("# %lu commits, %lu deadlocks, %lu waits of the threads\n", (unsigned long)s.commits,
           (unsigned long)s.deadlocks, (unsigned long)s.lock_waits);
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "the kernel's invariants hold");
    return tap_end();
}
