/*
 * store_attach.c - a client with an object of its own where a container is to be.
 *
 * Aim     an open that is refused for that leaves the client the rights that it had: none to a
 *         container that it does not have open, and none to write one that it has open for reading.
 *         When the object has gone, the container opens.
 * Method  the object lies in the second of two segments, or where an index has its locks;
 *         KD_CONTAINER_INFO says what the client may do where the container begins. The segment
 *         that comes while the client has the container open is a child's doing.
 */
#include "index_format.h"
#include "store_client.h"

enum { FEW = 8, GIB_PAGES = 1 << 18 };

static int port;
static long object;

/* The client's own object comes to these addresses. */
static bool lies_at(uint64_t base, uint64_t pages)
{
    port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    struct kd_object_create o = {.port = port, .commit_port = port, .pages = pages, .base = base,
                                 .flags = KD_OBJECT_TRANSACTIONAL, .name = "own"};
    object = kd_call3(KD_OBJECT_CREATE, (long)&o, 0, 0);
    return object >= 0 && kd_call3(KD_SPACE_ATTACH, getpid(), object, KD_RIGHT_READ) == 0;
}

static void goes(void)
{
    kd_call3(KD_SPACE_DETACH, getpid(), object, 0);
    kd_call3(KD_HANDLE_CLOSE, object, 0, 0);
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
}

/* What this process may do there: KD_RIGHT_*; -ENOENT: nothing. */
static long may(uint64_t address)
{
    struct kd_space_info info = {0};
    long e = kd_call3(KD_CONTAINER_INFO, (long)address, (long)&info, 0);
    return e ? e : (long)info.rights;
}

static long closes(const struct wire_opened *box)
{
    return client_call(STORE_CLOSE, box->container, 0, 0, NULL, 0, NULL, 0);
}

/* The container gets its second segment: where that is, or 0. */
static uint64_t grows(const struct wire_opened *box)
{
    return client_lease(box->container, box->pages, NULL)
               ? (uint64_t)client_lease(box->container, FEW, NULL)
               : 0;
}

static int grower(void)
{
    struct wire_opened box;
    return client_open("raised", PS_WRITE, NULL, 0, 0, &box) < 0 || !grows(&box);
}

/* It has the container `name` closed, which begins at base, and opens it with its own object at
 * `at`, and without. */
static void refused(const char *name, uint64_t base, uint64_t at)
{
    struct wire_opened box;
    tap_ok(may(base) == -ENOENT && lies_at(at, 1), "%s is closed, and an own object lies there",
           name);
    is(client_open(name, 0, NULL, 0, 0, &box), -EEXIST, "it is not opened");
    is(may(base), -ENOENT, "and nothing of it is left to the client");
    goes();
    is(client_open(name, 0, NULL, 0, 0, &box), 0, "when that object has gone it is opened");
    is(may(base), KD_RIGHT_READ, "and may be read");
    is(closes(&box), 0, "and closed");
}

static void raised(const char *self)
{
    struct wire_opened box;
    bool good = client_open("raised", PS_CREATE | PS_WRITE, NULL, 0, 0, &box) == 0 &&
                closes(&box) == 0 && client_open("raised", 0, NULL, 0, 0, &box) == 0;
    uint64_t end = box.base + box.pages * KD_PAGE_BYTES;
    tap_ok(good && lies_at(end, 4 * GIB_PAGES), "one is open for reading, an object behind it");
    is(child_run(self, "grows", NULL), 0, "it grows there");
    is(client_open("raised", PS_WRITE, NULL, 0, 0, &box), -EEXIST, "it is not opened for writing");
    is(may(box.base), KD_RIGHT_READ, "the client may read it still, but not write");
    goes();
    is(client_open("raised", PS_WRITE, NULL, 0, 0, &box), 0, "when that object has gone it is");
    is(may(end), KD_RIGHT_READ | KD_RIGHT_WRITE, "the new segment, too");
}

int main(int argc, char **argv)
{
    struct wire_opened box;
    if (client_connect() < 0) {
        printf("Bail out! there is no store\n");
        return 1;
    }
    if (argc > 1) return grower();
    tap_plan(21);
    bool good = client_open("pair", PS_CREATE | PS_WRITE, NULL, 0, 0, &box) == 0;
    uint64_t second = good ? grows(&box) : 0;
    tap_ok(second && closes(&box) == 0, "a container of two segments");
    refused("pair", box.base, second);
    good = client_open("keys", PS_CREATE | PS_WRITE, index_layouts[0], 1, 8, &box) == 0;
    tap_ok(good && closes(&box) == 0, "an index");
    refused("keys", box.base, box.base + INDEX_PAGES(box.pages) * KD_PAGE_BYTES);
    raised(argv[0]);
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck");
    return tap_end();
}
