/*
 * store_commit.c - the store manager from one client: directory, commits, batches, leases.
 *
 * Aim     each request and each operation of the protocol, right and wrong.
 * Method  bare calls (store_client.h) on a fresh store; counters are compared before and after.
 */
#include <stdlib.h>

#include "store_client.h"

static struct wire_opened box;
static uint64_t *page;              /* leased pages of the container "box" */

static long write_word(void *value)
{
    page[0] = (uint64_t)value;
    return 0;
}
static long write_and_abort(void *value)
{
    page[0] = (uint64_t)value;
    return -ECANCELED;
}
static long read_word(void *out)
{
    *(uint64_t *)out = page[0];
    return 0;
}
static uint64_t value_now(void)
{
    uint64_t v = ~0ull;
    return client_run(read_word, &v) == 0 ? v : ~0ull;
}

static void test_directory(void)
{
    struct wire_opened o;
    tap_ok(client_call(STORE_HELLO, STORE_PROTOCOL_VERSION, 0, 0, NULL, 0, NULL, 0) == 0 &&
               client_reply.word[1] > 0, "hello");
    tap_ok(client_call(STORE_HELLO, 99, 0, 0, NULL, 0, NULL, 0) == -EPROTONOSUPPORT,
           "another version of the protocol is refused");
    tap_ok(client_open("box", 0, NULL, 0, 0, &o) == -ENOENT, "nothing is there yet");
    tap_ok(client_open("box", PS_CREATE | PS_WRITE, "int", 1, 8, &box) == 0 && box.created &&
               box.base >= KD_STORE_BASE && box.pages == 262144 && !box.root_address,
           "a container is created");
    tap_ok(client_open("box", PS_CREATE | PS_EXCLUSIVE, NULL, 0, 0, &o) == -EEXIST,
           "exclusive: it exists");
    tap_ok(client_open("box", PS_WRITE, "int", 1, 8, &o) == 0 && o.base == box.base && !o.created,
           "the same layout opens it, at the same address");
    tap_ok(client_open("box", 0, "int", 2, 8, &o) == -EPROTO, "another layout does not");
    tap_ok(client_open("", PS_CREATE, NULL, 0, 0, &o) == -EINVAL, "a name must not be empty");
    tap_ok(client_open("two", PS_CREATE, NULL, 0, 0, &o) == 0 && o.base != box.base,
           "a second container lies elsewhere");
    struct wire_entry list[64];
    long r = client_call(STORE_LIST, 0, 0, 0, NULL, 0, list, sizeof(list));
    tap_ok(r == 0 && client_reply.word[0] == 2 && strcmp(list[0].name, "box") == 0 &&
               strcmp(list[0].type, "int") == 0 && list[0].base == box.base,
           "both are listed");
    char names[2][STORE_NAME_BYTES] = {"two", "three"};
    tap_ok(client_call(STORE_RENAME, 0, 0, 0, names, sizeof(names), NULL, 0) == 0 &&
               client_open("two", 0, NULL, 0, 0, &o) == -ENOENT &&
               client_open("three", 0, NULL, 0, 0, &o) == 0,
           "rename");
    tap_ok(client_name(STORE_DELETE, 0, "three") == 0 &&
               client_open("three", 0, NULL, 0, 0, &o) == -ENOENT,
           "delete");
    tap_ok(client_call(77, 0, 0, 0, NULL, 0, NULL, 0) == -ENOSYS, "an unknown request");
    tap_ok(client_call(STORE_OPEN, 0, 0, 0, "x", 1, NULL, 0) == -EINVAL, "an open cut short");
}

/* When the empty group behind the last one has been written: it comes when nothing else has for a
 * while. */
static struct wire_stats sealed(void)
{
    uint64_t groups = client_stats().groups;
    for (int i = 0; i < 300 && client_stats().groups == groups; i++) usleep(10000);
    return client_stats();
}

static void test_commit(void)
{
    page = client_lease(box.container, 4, NULL);
    if (!tap_ok(page && (uint64_t)page >= box.base, "a lease of 4 pages")) exit(1);
    tap_ok(client_run(write_word, (void *)1) == 0 && client_commit.csn && client_commit.copies == 1,
           "a first commit");
    struct wire_stats before, after;
    long r = 0;
    /* an empty group may come between, where others work on the host */
    for (int i = 0; i < 20; i++) {
        before = client_stats();
        r |= client_run(write_word, (void *)(uint64_t)(3 + i));
        after = client_stats();
        if (after.groups == before.groups + 1 && after.flushes == before.flushes + 1 &&
            after.log_writes == before.log_writes + 1)
            break;
    }
    tap_ok(r == 0 && client_run(write_word, (void *)2) == 0, "a second");
    tap_ok(after.commits == before.commits + 1 && after.log_writes == before.log_writes + 1 &&
               after.flushes == before.flushes + 1,
           "one commit: one write, one flush (%d %d %d)", (int)(after.commits - before.commits),
           (int)(after.log_writes - before.log_writes), (int)(after.flushes - before.flushes));
    tap_ok(after.log_bytes - before.log_bytes <= 8192, "of %llu bytes",
           (unsigned long long)(after.log_bytes - before.log_bytes));
    tap_ok(value_now() == 2, "it is read back");
    tap_ok(client_run(write_and_abort, (void *)3) == -ECANCELED && value_now() == 2,
           "what is aborted was never there");
    uint64_t value = 0;
    for (int i = 0; i < 5; i++) {
        before = sealed();
        value = value_now();
        after = client_stats();
        if (after.groups == before.groups) break;
    }
    tap_ok(value == 2 && after.groups == before.groups, "a reader logs nothing");
    for (int i = 0; i < 5; i++) {
        before = i ? sealed() : client_stats();
        r = client_run(write_word, (void *)2);
        after = client_stats();
        if (after.groups == before.groups) break;
    }
    tap_ok(r == 0 && after.groups == before.groups,
           "a store of what was there already needs no log");
}

/* ---- batches ---- */

struct op {
    uint32_t kind;
    uint64_t container;
    const void *address;
    uint64_t value;
    const char *name;
};

static long write_with_op(void *arg)
{
    const struct op *o = arg;
    page[1]++;
    client_op(o->kind, o->container, o->address, o->value, o->name);
    return 0;
}
static long op_run(uint32_t kind, uint64_t container, const void *address, uint64_t value,
                   const char *name)
{
    struct op o = {kind, container, address, value, name};
    return client_run(write_with_op, &o);
}
static long garbage(void *arg)
{
    size_t bytes = (size_t)arg;
    page[1]++;
    memset(client_txn.batch, 0x5a, bytes);
    client_txn.batch_bytes = bytes;
    return 0;
}
static long read_second(void *out)
{
    *(uint64_t *)out = page[1];
    return 0;
}

static void test_batch(void)
{
    uint64_t id = box.container, count = 0;
    char *base = (char *)box.base;
    tap_ok(op_run(WIRE_NAME_SET, id, page, 4096, "first") == 0, "a name is set");
    tap_ok(client_name(STORE_NAMED, id, "first") == 0 && client_reply.word[0] == (uint64_t)page &&
               client_reply.word[1] == 4096,
           "and found");
    tap_ok(op_run(WIRE_NAME_SET, id, page, 8, "first") == -EEXIST, "a name is set once");
    tap_ok(op_run(WIRE_NAME_UNSET, id, NULL, 0, "none") == -ENOENT, "unset of none");
    tap_ok(op_run(WIRE_NAME_UNSET, id, NULL, 0, "first") == 0 &&
               client_name(STORE_NAMED, id, "first") == -ENOENT,
           "unset");
    tap_ok(op_run(WIRE_NAME_SET, id, page, 8, "\1root") == 0, "the root's name is set");
    tap_ok(op_run(WIRE_NOTE, id, (void *)5, 6, "\aone") == 0 &&
               op_run(WIRE_NOTE, id, (void *)7, 8, "\aone") == 0 &&
               client_name(STORE_NAMED, id, "\aone") == 0 && client_reply.word[0] == 7 &&
               client_reply.word[1] == 8,
           "two words are noted, in place of others");
    struct wire_opened o;
    tap_ok(client_open("box", 0, NULL, 0, 0, &o) == 0 && o.root_address == (uint64_t)page,
           "an open tells the root");
    long bad[] = {
        op_run(99, id, page, 0, NULL), op_run(WIRE_NAME_SET, id, page, 8, NULL),
        op_run(WIRE_NAME_SET, id, base - 8, 8, "x"),
        op_run(WIRE_PAGE_FREE, id, page, 0, NULL),
        op_run(WIRE_PAGE_FREE, id, (char *)page + 8, 1, NULL),
        op_run(WIRE_PAGE_FREE, id, page, ~0ull, NULL),
        op_run(WIRE_PAGE_FREE, id, base, 1u << 20, NULL),
        op_run(WIRE_ROOM, id, (void *)16, 8, NULL), op_run(WIRE_NOTE, id, page, 8, "one"),
        op_run(WIRE_NOTE, id, page, 8, NULL), op_run(WIRE_NAME_SET, id, page, 8, "\aone"),
        op_run(WIRE_NAME_UNSET, id, page, 8, "\aone")};
    int wrong = 0;
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) wrong += bad[i] != -EINVAL;
    tap_ok(wrong == 0, "12 wrong operations are refused");
    tap_ok(op_run(WIRE_ROOM, 4711, page, 8, NULL) == -ENOENT, "an unknown container");
    wrong = 0;
    for (size_t bytes = 1; bytes < 80; bytes++)
        wrong += client_run(garbage, (void *)bytes) != -EINVAL;
    tap_ok(wrong == 0, "garbage of 79 sizes is refused");
    client_run(read_second, &count);
    tap_ok(count == 5, "nothing of a refused transaction is left (%llu)",
           (unsigned long long)count);
}

/* ---- space ---- */

static long free_page(void *at)
{
    *(uint64_t *)at = 77;
    client_op(WIRE_PAGE_FREE, box.container, at, 1, NULL);
    return 0;
}

static void test_space(void)
{
    char *a = client_lease(box.container, 8, NULL), *b = client_lease(box.container, 8, NULL);
    tap_ok(a && b && (b >= a + 8 * 4096 || a >= b + 8 * 4096), "leases do not overlap");
    char *near = client_lease(box.container, 1, b);
    tap_ok(near && near > b && near < b + 64 * 4096, "a lease near an address");
    tap_ok(!client_lease(box.container, 0, NULL) && !client_lease(4711, 1, NULL),
           "wrong leases are refused");
    tap_ok(client_call(STORE_UNLEASE, (uint64_t)a, 8, 0, NULL, 0, NULL, 0) == 0 &&
               client_lease(box.container, 8, NULL) == a,
           "what is given back is leased again");
    tap_ok(client_call(STORE_SPACE, box.container, 100, 0, NULL, 0, NULL, 0) == -ENOENT,
           "no page is known to have room");
    tap_ok(op_run(WIRE_ROOM, box.container, page, 1000, NULL) == 0 &&
               client_call(STORE_SPACE, box.container, 900, (uint64_t)a, NULL, 0, NULL, 0) == 0 &&
               client_reply.word[0] == (uint64_t)page,
           "a page with room is found");
    tap_ok(client_call(STORE_SPACE, box.container, 1200, 0, NULL, 0, NULL, 0) == -ENOENT,
           "but not for more than it has");
    uint64_t used = 0, left = 0;
    struct wire_entry e[4];
    client_run(write_word, (void *)9);
    client_call(STORE_LIST, 0, 4, 0, NULL, 0, e, sizeof(e));
    used = e[0].pages_used;
    long r = client_run(free_page, a);
    client_call(STORE_LIST, 0, 4, 0, NULL, 0, e, sizeof(e));
    left = e[0].pages_used;
    tap_ok(r == 0 && left == used, "a page that is written and freed at once takes no space");
    r = client_run(free_page, page);
    client_call(STORE_LIST, 0, 4, 0, NULL, 0, e, sizeof(e));
    tap_ok(r == 0 && e[0].pages_used == used - 1, "a freed page is gone");
    tap_ok(client_lease(box.container, 1, page) != (char *)page,
           "and not given out while its old contents are in memory");
}

static void test_end(void)
{
    tap_ok(client_call(STORE_CHECKPOINT, 0, 0, 0, NULL, 0, NULL, 0) == 0, "a checkpoint");
    struct wire_stats s = client_stats();
    tap_ok(s.checkpoints >= 1 && s.containers == 1 && s.refused > 80, "counters");
    tap_ok(client_name(STORE_DELETE, 0, "box") == 0, "delete by the last who has it open");
    tap_ok(client_open("box", 0, NULL, 0, 0, &box) == -ENOENT, "it is gone");
    tap_ok(kd_call3(KD_CHECK, 0, 0, 0) == 0, "kcheck");
}

int main(void)
{
    tap_plan(50);
    if (client_connect() < 0) {
        printf("Bail out! there is no store\n");
        return 1;
    }
    test_directory();
    test_commit();
    test_batch();
    test_space();
    test_end();
    return tap_end();
}
