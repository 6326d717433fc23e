/*
 * store_full.c - a disk so small that it fills up: clear errors, and the way back.
 *
 * Aim     when no extent is free, a transaction that needs one ends with -ENOSPC and leaves
 *         nothing, in memory or on the disk; changes of pages that are there, aborts, frees and
 *         deletes still work, and what they give back can be used again. Nobody hangs.
 * Method  a store of 16 MiB (store_full.opts), a container filled until it refuses; three threads
 *         fill at once.
 */
#include <pthread.h>

#include "store_client.h"

enum { PART = 64, THREADS = 3, WORDS = 512 };

static struct wire_opened box;
static pthread_mutex_t client = PTHREAD_MUTEX_INITIALIZER;     /* client_reply is shared */

struct span { uint64_t *first; uint64_t pages, value; };

static long fill(void *argument)
{
    const struct span *s = argument;
    for (uint64_t p = 0; p < s->pages; p++) s->first[p * WORDS] = s->value;
    return 0;
}
static long fill_and_abort(void *argument)
{
    fill(argument);
    return -ECANCELED;
}
static long add_up(void *argument)
{
    struct span *s = argument;
    s->value = 0;
    for (uint64_t p = 0; p < s->pages; p++) s->value += s->first[p * WORDS];
    return 0;
}
static long free_span(void *argument)
{
    const struct span *s = argument;
    client_op(WIRE_PAGE_FREE, box.container, s->first, s->pages, NULL);
    return 0;
}

static struct span kept[4096];
static unsigned kept_count;

/* Fills until it is refused; what the refusal said. */
static void *filler(void *unused)
{
    long r = 0;
    (void)unused;
    for (int i = 0; r == 0 && i < 1000; i++) {
        struct span s = {.pages = PART, .value = 1};
        pthread_mutex_lock(&client);
        s.first = client_lease(box.container, PART, NULL);
        pthread_mutex_unlock(&client);
        if (!s.first) return (void *)-ENOBUFS;
        r = client_run(fill, &s);
        pthread_mutex_lock(&client);
        if (r == 0) kept[kept_count++] = s;
        pthread_mutex_unlock(&client);
    }
    return (void *)r;
}

static long checkpoint(void)
{
    return client_call(STORE_CHECKPOINT, 0, 0, 0, NULL, 0, NULL, 0);
}

static void filled(void)
{
    pthread_t thread[THREADS];
    void *said[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, filler, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], &said[i]);
    tap_ok((long)said[0] == -ENOSPC && (long)said[1] == -ENOSPC && (long)said[2] == -ENOSPC,
           "all who fill the disk hear ENOSPC (%ld %ld %ld) after %u parts", (long)said[0],
           (long)said[1], (long)said[2], kept_count);
    tap_ok(kept_count > 10, "much was stored before");
}

static void refused(void)
{
    struct span all = {.first = kept[0].first, .pages = PART};
    checkpoint(); /* so that none comes by itself meanwhile */
    tap_ok(client_run(add_up, &all) == 0 && all.value == PART, "what is stored can be read");
    struct wire_stats before = client_stats();
    struct span more = { .first = client_lease(box.container, PART, NULL),
                         .pages = PART,
                         .value = 9 };
    tap_ok(client_run(fill_and_abort, &more) == -ECANCELED, "an abort works");
    tap_ok(client_run(fill, &more) == -ENOSPC, "a commit that needs space is refused again");
    struct wire_stats after = client_stats();
    tap_ok(after.disk_bytes_free == before.disk_bytes_free && after.lsn - before.lsn <= 4096,
           "neither leaves a trace on the disk (%llu bytes of log, an empty group at most)",
           (unsigned long long)(after.lsn - before.lsn));
}

static void room_again(void)
{
    struct wire_stats before = client_stats();
    struct span old = {.first = kept[1].first, .pages = PART, .value = 2};
    tap_ok(client_run(fill, &old) == 0, "pages that have their place are changed");
    struct span gone = kept[2];
    tap_ok(client_run(free_span, &gone) == 0 && checkpoint() == 0 && checkpoint() == 0
               && client_stats().disk_bytes_free > before.disk_bytes_free,
           "pages are freed, and their extents after a checkpoint");
    struct span anew = {.first = client_lease(box.container, PART / 2, NULL), .pages = PART / 2,
                        .value = 3};
    long r = client_run(fill, &anew);
    tap_ok(r == 0, "there is room again (%ld)", r);
}

static void deleted(void)
{
    client_call(STORE_CLOSE, box.container, 0, 0, NULL, 0, NULL, 0);
    long r = client_name(STORE_DELETE, 0, "box");
    tap_ok(r == 0 && checkpoint() == 0 && checkpoint() == 0
               && client_stats().disk_bytes_free > client_stats().disk_bytes_total * 9 / 10,
           "the container is deleted, and nearly all is free (%ld)", r);
}

int main(void)
{
    tap_plan(11);
    if (client_connect() < 0
        || client_open("box", PS_CREATE | PS_WRITE, NULL, 0, 0, &box) < 0) {
        printf("Bail out! there is no store\n");
        return 1;
    }
    filled();
    refused();
    room_again();
    deleted();
    tap_ok(kd_call3(KD_CHECK, 0, 0, 0) == 0, "kcheck");
    return tap_end();
}
