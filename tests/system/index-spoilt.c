/*
 * index-spoilt.c - for index-spoilt.sh: an index whose pages are none.
 *
 *     index-spoilt NAME       looks up and puts in the index of that name, and in a sound one; then
 *                             has the store manager change both without a look, as no friend would
 */
#include <errno.h>
#include <index.h>
#include <katydid/call.h>
#include <pstore.h>
#include <stdio.h>
#include <stdlib.h>
#include <store_protocol.h>
#include <string.h>

static ps_index *x;

static int find(void *unused)
{
    uint64_t key = 5, value;
    (void)unused;
    int r = ps_index_find(x, &key, &value);
    return r == -ENOENT ? 0 : r;
}

static int put(void *unused)
{
    uint64_t key = 5;
    (void)unused;
    return ps_index_put(x, &key, 1);
}

static uint64_t container_of(const char *name)
{
    struct ps_info all[16];
    struct kd_space_info space = {0};
    int n = ps_list(all, 16);
    for (int i = 0; i < n && i < 16; i++)
        if (strcmp(all[i].name, name) == 0)
            kd_call3(KD_CONTAINER_INFO, (long)all[i].base, (long)&space, 0);
    return STORE_COOKIE_CONTAINER(space.cookie);
}

/* By bare calls, in a view of its own. */
static int put_blindly(const char *name)
{
    static char stack[8192] __attribute__((aligned(16)));
    struct { struct wire_op op; uint64_t key, end; } batch = {
        {.kind = WIRE_INDEX_SET, .op_bytes = sizeof batch, .container = container_of(name),
         .address = sizeof batch.key, .value = 1}, 5, 0};
    struct kd_begin begin = {.entry = (uintptr_t)abort, .stack = (uintptr_t)stack + 8184};
    struct kd_commit commit = {.batch = &batch, .batch_bytes = sizeof batch};
    long view = kd_call3(KD_VIEW_CREATE, 0, 0, 0);
    commit.port = (int)kd_call3(KD_NAME_FIND, (long)"store", 0, 0);
    if (view < 0 || kd_call3(KD_VIEW_ENTER, view, 0, 0) ||
        kd_call3(KD_TXN_BEGIN, (long)&begin, 0, 0))
        return -EINVAL;
    return (int)kd_call3(KD_TXN_COMMIT, (long)&commit, 0, 0);
}

static const char *word(int r)
{
    return r == 0 ? "done" : r == -EUCLEAN || r == -EPROTOTYPE ? "spoilt" : strerror(-r);
}

int main(int argc, char **argv)
{
    const char *names[2] = {argc > 1 ? argv[1] : "", "sound"};
    for (int i = 0; i < 2; i++) {
        x = ps_index_open(names[i], PS_NUMBERS, PS_WRITE | (i ? PS_CREATE : 0));
        if (!x)
            return printf("%s: %s\n", names[i], strerror(errno)), 1;
        int first = ps_transaction(find, NULL), second = ps_transaction(put, NULL);
        printf("%s: find %s, put %s\n", i ? "sound" : "spoilt", word(first), word(second));
    }
    for (int i = 0; i < 2; i++)
        printf("%s: the manager's word: %s\n", i ? "sound" : "spoilt", word(put_blindly(names[i])));
    return 0;
}
