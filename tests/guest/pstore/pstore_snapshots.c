/*
 * pstore_snapshots.c - a state that one snapshot saw, seen again by others.
 *
 * Aim     ps_snapshot_share: later snapshots and other processes see exactly that state, however
 *         much is committed meanwhile; what a snapshot mapped is never shown to the next one as
 *         current. One that needs more old pages than its process may keep says ESTALE.
 * Method  numbers on many pages, changed together; every snapshot must find all alike. The child is
 *         this program, with the handle.
 */
#include <stdlib.h>

#include "pstore_test.h"

enum { PAGES = 40, STEP = 4096 };

struct root { char *numbers; };
static ps_container *c;
static long wanted;

static long *number(int i)
{
    return (long *)(((struct root *)ps_root(c))->numbers + (size_t)i * STEP);
}

static int make(void *unused)
{
    (void)unused;
    struct root *root = ps_root(c);
    root->numbers = ps_alloc(c, (size_t)PAGES * STEP, NULL);
    return root->numbers ? 0 : -errno;
}
static int add(void *unused)
{
    (void)unused;
    for (int i = 0; i < PAGES; i++)
        ++*number(i);
    return 0;
}
static int all_alike(void *unused)
{
    (void)unused;
    for (int i = 0; i < PAGES; i++)
        if (*number(i) != wanted)
            return 1;
    return 0;
}
static int half_alike(void *unused)
{
    (void)unused;
    for (int i = 0; i < PAGES / 2; i++)
        if (*number(i) != wanted)
            return 1;
    return 0;
}
static int share(void *out)
{
    int e = all_alike(NULL);
    *(int *)out = ps_snapshot_share();
    return e;
}

static int see(int (*body)(void *), void *arg, int snapshot)
{
    struct ps_options o = {.isolation = PS_SNAPSHOT, .snapshot = snapshot};
    return ps_transaction_opt(body, arg, &o);
}

static int child(const char *number_wanted)
{
    c = ps_open("snapshots", 0, PS_LAYOUT(struct root, 1));
    wanted = atol(number_wanted);
    if (!c || see(all_alike, NULL, 1)) /* handle 0 */
        return 1;
    wanted += 5;
    return see(all_alike, NULL, 0) ? 2 : 0;
}

static int child_with(const char *self, int snapshot, const char *argument)
{
    char path[128];
    const char *name = strrchr(self, '/'), *argv[] = {self, argument, NULL};
    struct kd_process_create p = { .path = path,
                                   .argv = argv,
                                   .fds = { -1, -1, -1 },
                                   .handle_count = 1,
                                   .handles = { snapshot - 1 } };
    snprintf(path, sizeof path, "/bin/%s", name ? name + 1 : self);
    long handle = kd_call3(KD_PROCESS_CREATE, (long)&p, 0, 0);
    if (handle < 0)
        return (int)handle;
    kd_call3(KD_HANDLE_CLOSE, handle, 0, 0);
    return child_wait(p.pid);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return child(argv[1]);
    int first = 0, second = 0;
    tap_plan(18);
    ps_delete("snapshots");
    c = ps_open("snapshots", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    is(c && ps_transaction(make, NULL) == 0 && ps_transaction(add, NULL) == 0, 1, "numbers, all 1");

    wanted = 1;
    is(see(share, &first, 0), 0, "a snapshot sees them");
    tap_ok(first > 0, "and shares what it sees");
    for (int i = 0; i < 5; i++)
        ps_transaction(add, NULL);
    is(see(all_alike, NULL, first), 0, "later, the same state again");
    wanted = 6;
    is(see(all_alike, NULL, 0), 0, "without it the newest state");
    wanted = 1;
    is(see(half_alike, NULL, first), 0, "the old one, in half of the pages");
    wanted = 6;
    is(see(all_alike, NULL, 0), 0, "and the newest one in all");
    is(see(share, &second, 0), 0, "a second one is shared");
    is(child_with(argv[0], first, "1"), 0,
       "another process sees exactly the first state, then the newest");
    is(ps_snapshot_drop(first), 0, "it is dropped");
    is(see(all_alike, NULL, first), -EBADF, "and cannot be seen any more");
    is(see(all_alike, NULL, second), 0, "the second one can");

    for (wanted = 6; wanted < 30; wanted++)
        if (see(half_alike, NULL, 0) || ps_transaction(add, NULL))
            break;
    is(wanted, 30, "snapshots amid commits see each state when it is the newest");
    uint64_t few[2] = {PAGES / 2, PAGES / 2}; /* old pages that one snapshot may need */
    int third = 0;
    kd_call4(302, 0, KD_RLIMIT + KD_LIMIT_VERSIONS, (long)few, 0); /* prlimit64 */
    is(see(share, &third, 0) == 0 && ps_transaction(add, NULL) == 0, 1,
       "a third, which may need few old pages");
    is(see(all_alike, NULL, third), -ESTALE, "and needs more: it has expired");
    is(see(all_alike, (wanted++, NULL), 0), 0, "the newest state can be seen");

    is(ps_snapshot_share(), -EPERM, "there is nothing to share outside a transaction");
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck is clean");
    return tap_end();
}
