/*
 * bench-representative.c - a record from another process that has the file structure, as uDatabase
 * has it (section 4.3), and from a container that the program maps itself.
 *
 * uDatabase's application calls the representative, which alone maps the file; both share memory,
 * through which arguments and records go. Here three processes do that: a manager serves an object
 * that is plain shared memory, the representative maps it and a container of records, and the
 * application asks for one record after another: the number goes into the shared memory, a call of
 * the representative's port wakes it, the record comes back through the shared memory. Beside it
 * the record comes in the answer itself, which the kernel copies; and without a call, from the
 * container that the application has mapped. The least of ROUNDS, counted instructions.
 */
#include <manager.h>
#include <pstore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "katydid/call.h"
#include "tests/bench/measure.h"
#include "user/start.h"

enum { RECORDS = 1000, RECORD_BYTES = 2048, ROUNDS = 200 };
enum { CALL_SHARED = 1, CALL_MESSAGE = 2, CALL_END = 3 };
struct record { char bytes[RECORD_BYTES]; };
struct root { struct record *records; };
struct area { uint64_t number, bytes; char record[RECORD_BYTES]; };    /* what both share */

static const char area_name[] = "bench-area", port_name[] = "bench-representative";
static ps_container *box;

static _Noreturn void fail(const char *what, long error)
{
    fprintf(stderr, "bench-representative: %s: %s\n", what, ps_strerror((int)error));
    exit(1);
}

static struct area *area_open(void)
{
    struct area *area;
    while (!(area = km_open(area_name, area_name, KM_READ | KM_WRITE)) && errno == ENOENT)
        kd_call3(24, 0, 0, 0);          /* sched_yield */
    if (!area)
        fail("the shared memory", errno);
    return area;
}

static void container_open(void)
{
    box = ps_open("bench-representative", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    if (!box)
        fail("the container", errno);
}

/* ---- the other processes ---- */

static int manager_main(void)
{
    static const struct km_ops ops = {.page = NULL};
    struct km_object *object;
    int error = km_create(area_name, 1, KM_READ | KM_WRITE, &ops, NULL, &object);
    fail("the manager", error ? error : km_serve(1));
}

/* In a transaction, which lasts as long as the representative: it reads only. */
static int serve(void *unused)
{
    static char answer[RECORD_BYTES];
    struct area *area = area_open();
    const struct record *records = ((struct root *)ps_root(box))->records;
    int port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    struct kd_message m = {.handle = -1}, reply = {.handle = -1};
    long error = kd_call3(KD_NAME_SET, (long)port_name, port, 0);
    (void)unused;
    if (!error)
        error = kd_call3(KD_PORT_RECEIVE, port, (long)&m, -1);
    while (!error && m.kind != CALL_END) {
        reply.data_bytes = 0;
        if (m.kind == CALL_SHARED) {
            memcpy(area->record, records[area->number % RECORDS].bytes, area->bytes);
        } else {
            reply.data = memcpy(answer, records[m.word[0] % RECORDS].bytes, m.word[1]);
            reply.data_bytes = m.word[1];
        }
        error = kd_call4(KD_PORT_REPLY_RECEIVE, (long)m.token, (long)&reply, port, (long)&m);
    }
    kd_call3(KD_PORT_REPLY, (long)m.token, (long)&reply, 0);
    return (int)error;
}

/* ---- the application ---- */

static struct area *shared;
static long port;
static char own[RECORD_BYTES];

static void by_shared_memory(const struct record *unused, uint64_t number, unsigned bytes)
{
    struct kd_message m = {.handle = -1, .kind = CALL_SHARED};
    (void)unused;
    shared->number = number;
    shared->bytes = bytes;
    kd_call3(KD_PORT_CALL, port, (long)&m, 0);
    memcpy(own, shared->record, bytes);
}

static void by_message(const struct record *unused, uint64_t number, unsigned bytes)
{
    struct kd_message m = {.handle = -1, .kind = CALL_MESSAGE, .word = {number, bytes},
                           .buffer = own, .buffer_bytes = bytes};
    (void)unused;
    kd_call3(KD_PORT_CALL, port, (long)&m, 0);
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
    } ways[] = {{"through shared memory, by a call", by_shared_memory},
                {"in the answer to a call", by_message},
                {"mapped, no call", by_mapping}};
    static const unsigned sizes[] = {27, 512, 2048};
    const struct record *records = ((struct root *)ps_root(box))->records;
    unsigned long sum = 0;
    (void)unused;
    for (int i = 0; i < RECORDS; i++)
        sum += (unsigned char)records[i].bytes[0];
    for (int way = 0; way < 3; way++)
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
    const char *manager[] = {"bench-representative", "--manager", NULL};
    const char *server[] = {"bench-representative", "--serve", NULL};
    int serves = argc == 2 && strcmp(argv[1], "--serve") == 0;
    usage(argc, argv, argc == 1 || serves || (argc == 2 && strcmp(argv[1], "--manager") == 0),
          "usage: bench-representative\nRecords from another process and from a mapped container; "
          "run it by `make bench ONLY=udatabase`.\n");
    if (argc == 2 && !serves)
        return manager_main();
    container_open();
    if (serves)
        return ps_transaction(serve, NULL) != 0;
    int error = ps_transaction(fill, NULL);
    if (error)
        fail("the records", error);
    const char *path = "/bin/bench-representative";
    if (start_program(path, manager, 0, 1) < 0 || start_program(path, server, 0, 1) < 0)
        fail("a process", errno);
    shared = area_open();
    while ((port = kd_call3(KD_NAME_FIND, (long)port_name, 0, 0)) == -ENOENT)
        kd_call3(24, 0, 0, 0);
    error = ps_transaction(measure, NULL);
    struct kd_message end = {.handle = -1, .kind = CALL_END};
    kd_call3(KD_PORT_CALL, port, (long)&end, 0);
    if (error)
        fail("a record", error);
    return 0;
}
