/*
 * pstore_errors.c - bad input through the real store manager: each its error, and nothing is lost.
 *
 * Method  a counter is raised between the attempts; if one of them had spoilt anything, the next
 *         transaction would show it.
 */
#include <pthread.h>

#include "pstore_test.h"

struct root { long count; };
struct other { long count, more; };

static ps_container *c;

static int add(void *unused)
{
    (void)unused;
    struct root *root = ps_root(c);
    if (!root)
        return -errno;
    root->count++;
    return 0;
}

static int read_count(void *arg)
{
    struct root *root = ps_root(c);
    *(long *)arg = root ? root->count : -1;
    return 0;
}

static void *error_of(void *p, int wanted, const char *what)
{
    int error = p ? 0 : errno;
    is(error, wanted, what);
    return p;
}

static void opening(void)
{
    char name[80];
    memset(name, 'n', sizeof name - 1);
    name[79] = 0;
    error_of(ps_open("no-such", PS_WRITE, NULL), ENOENT, "open: not there");
    error_of(ps_open("errors", PS_CREATE | PS_EXCLUSIVE, NULL), EEXIST, "open: there already");
    error_of(ps_open("errors", PS_WRITE, PS_LAYOUT(struct other, 1)), EPROTO, "open: another type");
    error_of(ps_open("errors", PS_WRITE, PS_LAYOUT(struct root, 2)), EPROTO,
             "open: another version");
    error_of(ps_open(name, PS_CREATE, NULL), ENAMETOOLONG, "open: a long name");
    error_of(ps_open("", PS_CREATE, NULL), EINVAL, "open: no name");
    error_of(ps_open("a\001", 64, NULL), EINVAL, "open: an unknown flag");
    error_of(ps_open("two\nlines", PS_CREATE, NULL), EINVAL,
             "open: a name of two lines is not made");
    error_of(ps_open("a/b", PS_CREATE, NULL), ENOENT, "open: nor one in no directory");
    error_of(ps_open("a:b", PS_CREATE, NULL), ENOTCONN, "open: nor at a site that is none");
    is(ps_rename("errors", "tab\there"), -EINVAL, "rename: nor given");
    is(ps_rename("errors", "errors/2"), -ENOTDIR, "rename: into a container");
    is(ps_delete("no-such"), -ENOENT, "delete: not there");
    is(ps_rename("no-such", "nicer"), -ENOENT, "rename: not there");
    is(ps_connect("no-such-store"), -ENOTCONN, "connect: no such store");
    is(ps_close((ps_container *)name), -EINVAL, "close: no handle");
}

static int bad_frees(void *unused)
{
    (void)unused;
    char *p = ps_alloc(c, 100, NULL), *root = ps_root(c);
    static char here[32];
    is(ps_free(here), -EINVAL, "free: volatile memory");
    is(ps_free(p + 32), -EINVAL, "free: the middle of an object");
    is(ps_free((void *)8), -EINVAL, "free: a small number");
    is(ps_free(root), -EBUSY, "free: the root");
    is(ps_free(p), 0, "free: an object");
    is(ps_free(p), -EINVAL, "free: twice");
    error_of(ps_alloc(c, 0, NULL), EINVAL, "alloc: nothing");
    error_of(ps_alloc(c, 1ull << 42, NULL), ENOSPC, "alloc: more than a container holds");
    error_of(ps_named(c, "", 8), EINVAL, "named: no name");
    error_of(ps_open("errors2", PS_CREATE, NULL), EBUSY, "open: creating inside a transaction");
    is(ps_delete("errors"), -EBUSY, "delete: inside a transaction");
    is(ps_transaction(add, NULL), -EALREADY, "a transaction begun twice");
    return 0;
}

static int spoil_and_free(void *unused)
{
    (void)unused;
    char *p = ps_alloc(c, 100, NULL);
    memset((void *)((uintptr_t)p & ~4095ull), 0xff, 64); /* the page's header and slots */
    int freed = ps_free(p);
    void *another = ps_alloc(c, 100, p);
    return freed < 0 && another ? 7 : 1;
}

enum { MEBIBYTE = 1 << 20, LARGE_MIB = 100 };

/* Changes more than memory, or the log, can hold. */
static char *pieces[LARGE_MIB];

/* New pages go past the log; to change old ones, all of them must fit into half of it. */
static int pieces_made(void *unused)
{
    (void)unused;
    for (long i = 0; i < LARGE_MIB; i++)
        if (!(pieces[i] = ps_alloc(c, MEBIBYTE, NULL)))
            return -errno;
    return 0;
}

static int too_much(void *unused)
{
    (void)unused;
    for (long i = 0; i < LARGE_MIB; i++)
        for (int at = 0; at < MEBIBYTE; at += 4096)
            pieces[i][at]++;
    return 0;
}

static int is_open_elsewhere(const char *self)
{
    int status = child_run(self, "delete", NULL);
    return status == EBUSY ? 0 : -status;
}

/* FNV-1a makes the same 31 bits of these two. */
#define TWIN  "struct t388934"
#define OTHER "struct t778010"
static int twins(void *unused)
{
    static const struct ps_field none[] = {{0}};
    ps_arena *arena = ps_arena_make(c);
    (void)unused;
    is(ps_alloc_as(c, 16, NULL, TWIN) != NULL, 1, "an object of a type");
    error_of(ps_alloc_as(c, 16, NULL, OTHER), ENOTUNIQ, "none of another type of the same number");
    error_of(ps_alloc_in(arena, 16, NULL, OTHER), ENOTUNIQ, "nor in an arena");
    error_of(ps_each(c, OTHER, NULL), ENOTUNIQ, "it is not looked for");
    is(ps_describe(OTHER, none), -ENOTUNIQ, "nor described");
    is(strncmp(ps_strerror(ENOTUNIQ), "two types have the same number", 30), 0, "the error says");
    return ps_each(c, TWIN, NULL) ? 0 : -ENOENT;
}

static int root_of(void *bare)
{
    error_of(ps_root(bare), ENOENT, "no root is made without a layout");
    is(strstr(ps_strerror(ENOENT), "opened without a layout") != NULL, 1, "the error says why");
    return 0;
}

static void types(void)
{
    const struct ps_layout other = {OTHER, 1, 16};
    is(ps_transaction(twins, NULL), 0, "the first of the types is used on");
    error_of(ps_open("twins", PS_CREATE, &other), ENOTUNIQ, "open: a root of the other type");
    ps_container *bare = ps_open("bare", PS_CREATE | PS_WRITE, NULL);
    is(ps_transaction(root_of, bare), 0, "a container without a layout");
    ps_close(bare);
}

/* Leaves the transaction behind the library. */
static int leaves(void *result)
{
    add(NULL);
    kd_call3(KD_VIEW_ENTER, -1, 0, 0);
    return *(int *)result;
}

static void views(void)
{
    int commits = 0, aborts = 7;
    is(ps_transaction(leaves, &commits), -EBADFD, "a view left by a kernel call: no commit");
    tap_ok(strstr(ps_strerror(-EBADFD), "KD_VIEW_ENTER") != NULL, "and the text says why");
    is(ps_transaction(leaves, &aborts), 7, "nor is it in the way of an abort");
    kd_call3(KD_VIEW_ENTER, -1, 0, 0);
    is(ps_transaction(add, NULL), 0, "left outside of transactions it is entered again");
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return -ps_delete("errors");
    tap_plan(50);
    ps_delete("errors");
    c = ps_open("errors", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    is(ps_transaction(add, NULL), 0, "a counter is made");
    opening();
    types();
    is(is_open_elsewhere(argv[0]), 0, "delete: another process has it open");
    is(ps_transaction(bad_frees, NULL), 0, "all that inside one transaction, which commits");
    is(ps_transaction(spoil_and_free, NULL), 7, "a spoilt page gives errors, and is undone");
    long count = 0;
    int result = ps_transaction(pieces_made, NULL);
    for (int i = 0; i < 2 && result == 0; i++)
        result = ps_transaction(too_much, NULL);
    printf("# %d MiB in one transaction: %d, %s\n", LARGE_MIB, result, ps_strerror(result));
    tap_ok(result == -ENOMEM || result == -E2BIG || result == -ENOSPC,
           "a transaction larger than memory is refused");
    is(ps_transaction(add, NULL), 0, "and the next one commits");
    views();
    is(ps_transaction(read_count, &count) ? -1 : count, 3, "nothing was lost");
    return tap_end();
}
