/*
 * bench-representative.c - a record from another process that has the file structure, as uDatabase
 * has it (section 4.3), and from a container that the program maps itself.
 *
 * uDatabase's application calls the representative, which alone maps the file; both share memory,
 * through which arguments and records go. Here the representative is the server task of an area
 * (kit.h) and holds the records; the application asks it for one record after another.
 * The record comes through the area's memory, at a call or between two semaphores; or in the answer
 * itself, which the kernel copies; or, without the representative, from the container that the
 * application has mapped. The least of ROUNDS, counted instructions.
 */
#include <kit.h>
#include <pstore.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "katydid/call.h"
#include "tests/bench/measure.h"
#include "user/start.h"

enum { RECORDS = 1000, RECORD_BYTES = 2048, ROUNDS = 200 };
struct record { char bytes[RECORD_BYTES]; };
struct root { struct record *records; };
/* What both share. */
struct shared {
    struct ps_semaphore asked, answered, ended;
    uint64_t number, bytes;
    char record[RECORD_BYTES];
};
struct question { uint64_t number, bytes; };

static ps_container *box;
static ps_area *area;
static struct shared *shared;

static _Noreturn void fail(const char *what, long error)
{
    fprintf(stderr, "bench-representative: %s: %s\n", what, ps_strerror((int)error));
    exit(1);
}

static void container_open(void)
{
    box = ps_open("bench-representative", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    if (!box)
        fail("the container", errno);
}

/* ---- the representative ---- */

/* A message says which record is wanted in the answer; an empty one: what `shared` says. */
static int serve(void *records, struct ps_request *r)
{
    const struct record *all = records;
    const struct question q = *(const struct question *)r->message;
    if (r->bytes == 0) {
        memcpy(shared->record, all[shared->number % RECORDS].bytes, shared->bytes);
        return 0;
    }
    memcpy(r->message, all[q.number % RECORDS].bytes, q.bytes);
    r->bytes = q.bytes;
    return 0;
}

/* The other thread: a record for each time that it is asked, until there is none of 0 bytes. */
static void *at_semaphores(void *records)
{
    const struct record *all = records;
    while (ps_semaphore_take(area, &shared->asked, -1) == 0 && shared->bytes > 0) {
        memcpy(shared->record, all[shared->number % RECORDS].bytes, shared->bytes);
        ps_semaphore_give(area, &shared->answered, 1);
    }
    return NULL;
}

/* A copy of the records in its own memory: what the area's threads read is no transaction. */
static int copy(void *to)
{
    memcpy(to, ((struct root *)ps_root(box))->records, RECORDS * sizeof(struct record));
    return 0;
}

static int representative_main(void)
{
    struct record *records = malloc(RECORDS * sizeof *records);
    pthread_t thread;
    container_open();
    int error = records ? ps_transaction(copy, records) : -ENOMEM;
    struct ps_task task = {.serve = serve, .arg = records};
    if (!error && !(area = ps_area_make("bench-representative", sizeof *shared, &task)))
        error = -errno;
    if (error)
        fail("the representative", error);
    shared = ps_area_memory(area);
    if (pthread_create(&thread, NULL, at_semaphores, records))
        fail("a thread", EAGAIN);
    pthread_join(thread, NULL);
    return ps_semaphore_take(area, &shared->ended, -1);
}

/* ---- the application ---- */

static _Alignas(8) char own[RECORD_BYTES];

static void by_call(const struct record *unused, uint64_t number, unsigned bytes)
{
    (void)unused;
    shared->number = number;
    shared->bytes = bytes;
    ps_ask(area, own, 0, -1);
    memcpy(own, shared->record, bytes);
}

static void by_semaphores(const struct record *unused, uint64_t number, unsigned bytes)
{
    (void)unused;
    shared->number = number;
    shared->bytes = bytes;
    ps_semaphore_give(area, &shared->asked, 1);
    ps_semaphore_take(area, &shared->answered, -1);
    memcpy(own, shared->record, bytes);
}

static void by_answer(const struct record *unused, uint64_t number, unsigned bytes)
{
    (void)unused;
    *(struct question *)(void *)own = (struct question){number, bytes};
    ps_ask(area, own, bytes, -1);
}

static void by_mapping(const struct record *records, uint64_t number, unsigned bytes)
{
    memcpy(own, records[number].bytes, bytes);
}

static int fill(void *unused)
{
    struct root *root = ps_root(box);
    (void)unused;
    if (!root->records && !(root->records = ps_alloc(box, RECORDS * sizeof *root->records, NULL)))
        return -errno;
    for (int i = 0; i < RECORDS; i++)
        memset(root->records[i].bytes, i % 255 + 1, RECORD_BYTES);
    return 0;
}

/* Records in no order, each of the right bytes; after a pass in which every page is touched. */
static int measure(void *unused)
{
    static const struct {
        const char *name;
        void (*get)(const struct record *, uint64_t, unsigned);
    } ways[] = {{"through shared memory, by a call", by_call},
                {"through shared memory, by two semaphores", by_semaphores},
                {"in the answer to a call", by_answer},
                {"mapped, no call", by_mapping}};
    enum { WAYS = sizeof ways / sizeof ways[0] };
    static const unsigned sizes[] = {27, 512, 2048};
    const struct record *records = ((struct root *)ps_root(box))->records;
    unsigned long sum = 0;
    (void)unused;
    for (int i = 0; i < RECORDS; i++)
        sum += (unsigned char)records[i].bytes[0];
    for (int way = 0; way < WAYS; way++)
        for (int size = 0; size < 3; size++) {
            uint64_t least = ~0ull;
            for (uint64_t i = 0; i < ROUNDS; i++) {
                uint64_t number = i * 617 % RECORDS, from = counter();
                ways[way].get(records, number, sizes[size]);
                uint64_t spent = counter() - from;
                least = spent < least ? spent : least;
                if (own[sizes[size] - 1] != (char)(number % 255 + 1))
                    return -EIO;
            }
            printf("a record of %u bytes, %s\tinstructions\t%lu\t-\n", sizes[size], ways[way].name,
                   least);
        }
    return sum == 0;
}

int main(int argc, char **argv)
{
    static const char *const served[] = {"bench-representative", "--serve", NULL};
    int serves = argc == 2 && strcmp(argv[1], "--serve") == 0;
    usage(argc, argv, argc == 1 || serves,
          "usage: bench-representative\nRecords from another process and from a mapped container; "
          "run it by `make bench ONLY=udatabase`.\n");
    if (serves)
        return representative_main();
    container_open();
    int error = ps_transaction(fill, NULL);
    if (!error && start_program("/bin/bench-representative", served, 0, 1) < 0)
        error = -errno;
    while (!error && !(area = ps_area_open("bench-representative")))
        if (errno == ENOENT)
            kd_call3(24, 0, 0, 0);      /* sched_yield */
        else
            error = -errno;
    if (error)
        fail("the records or their representative", error);
    shared = ps_area_memory(area);
    error = ps_transaction(measure, NULL);
    shared->bytes = 0;                  /* the representative ends */
    ps_semaphore_give(area, &shared->asked, 1);
    ps_semaphore_give(area, &shared->ended, 1);
    if (error)
        fail("a record", error);
    return 0;
}
