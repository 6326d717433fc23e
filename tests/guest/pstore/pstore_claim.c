/*
 * pstore_claim.c - an object of several pages keeps them, written or not.
 *
 * Aim     pages of a committed object that nobody ever wrote are given to nobody else: after the
 *         process that allocated it has ended, after the manager's death, before and after a
 *         checkpoint; what was not committed is given out again; freed pages are zeros when used
 *         anew.
 * Method  processes allocate large objects and write nothing, or half; others fill all the small
 *         pages that they can get from the manager next to them. tests/system/claims.sh does it
 *         across boots.
 */
#include "pstore_test.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

enum { LARGE = 16, LARGE_BYTES = 65536, SMALL = 64, SMALL_BYTES = 3000, WRITTEN = 5 * 4096 };
struct root { uint32_t count; uint8_t *large[LARGE]; };

static ps_container *c;

static int make(void *unused)
{
    (void)unused;
    struct root *root = ps_root(c);
    uint8_t *p = ps_alloc(c, LARGE_BYTES, NULL);
    if (!p || root->count == LARGE)
        return errno;
    root->large[root->count++] = p;
    return 0;
}

static int make_and_die(void *unused)
{
    if (make(unused) == 0)
        _exit(3);
    return 1;
}

/* Objects of nearly a page each, from leases of this process. */
static int fill(void *unused)
{
    (void)unused;
    for (int i = 0; i < SMALL; i++) {
        uint8_t *p = ps_alloc(c, SMALL_BYTES, NULL);
        if (!p)
            return errno;
        memset(p, 0xee, SMALL_BYTES);
    }
    return 0;
}

/* Large object i has `written` bytes of 0x11, then zeros. */
static int holds(const struct root *root, uint32_t i, uint32_t written)
{
    for (uint32_t at = 0; at < LARGE_BYTES; at++)
        if (root->large[i][at] != (at < written ? 0x11 : 0)) {
            printf("# object %u: byte %u is %#x\n", i, at, root->large[i][at]);
            return 0;
        }
    return 1;
}

static int check(void *first_written)
{
    const struct root *root = ps_root(c);
    for (uint32_t i = 0; i < root->count; i++)
        if (!holds(root, i, i == 0 && first_written ? WRITTEN : 0))
            return 1;
    return root->count ? 0 : 2;
}

static int write_first(void *unused)
{
    (void)unused;
    memset(((struct root *)ps_root(c))->large[0], 0x11, WRITTEN);
    return 0;
}

static int free_all(void *unused)
{
    (void)unused;
    struct root *root = ps_root(c);
    int result = 0;
    while (root->count > 0 && result == 0)
        result = ps_free(root->large[--root->count]);
    return result;
}

/* Waits for a manager: a killed one is started again. */
static int child(const char *what)
{
    for (int i = 0; i < 12000 && !c; i++) {
        c = ps_open("claim", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
        if (!c)
            nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    if (!c)
        return 90;
    if (strcmp(what, "checkpoint") == 0)
        return -ps_checkpoint();
    int result = !strcmp(what, "make")  ? ps_transaction(make, NULL)
               : !strcmp(what, "die")   ? ps_transaction(make_and_die, NULL)
               : !strcmp(what, "fill")  ? ps_transaction(fill, NULL)
               : !strcmp(what, "write") ? ps_transaction(write_first, NULL)
               : !strcmp(what, "free")  ? ps_transaction(free_all, NULL)
               : !strcmp(what, "half")  ? ps_transaction(check, c)
                                        : ps_transaction(check, NULL);
    return result < 0 ? -result : result;
}

static int manager_kill(void) { return (int)kd_call3(KD_PROCESS_KILL, store_pid(), 9, 0); }

static void filled_and(const char *self, const char *how, const char *when)
{
    char text[128];
    snprintf(text, sizeof text, "%s, others allocate and fill", when);
    is(child_run(self, "fill", NULL), 0, text);
    snprintf(text, sizeof text, "%s, the large objects are untouched", when);
    is(child_run(self, how, NULL), 0, text);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return child(argv[1]);
    tap_plan(23);
    ps_delete("claim");
    is(child_run(argv[0], "make", NULL), 0, "a process allocates, writes nothing and ends");
    filled_and(argv[0], "check", "after its end");
    is(child_run(argv[0], "die", NULL), 3, "a process ends inside its transaction");
    is(child_run(argv[0], "make", NULL), 0, "another allocates");
    filled_and(argv[0], "check", "after that");
    is(manager_kill(), 0, "the manager is killed");
    filled_and(argv[0], "check", "after its restart");
    is(child_run(argv[0], "make", NULL), 0, "one more is allocated");
    is(child_run(argv[0], "checkpoint", NULL), 0, "a checkpoint is taken");
    is(manager_kill(), 0, "the manager is killed again");
    filled_and(argv[0], "check", "after that restart");
    is(child_run(argv[0], "write", NULL), 0, "the first pages of one are written");
    is(manager_kill(), 0, "and the manager is killed");
    filled_and(argv[0], "half", "with one half written");
    is(child_run(argv[0], "free", NULL), 0, "all are freed");
    is(child_run(argv[0], "make", NULL), 0, "one more is allocated in their place");
    filled_and(argv[0], "check", "where others were freed");
    return tap_end();
}
