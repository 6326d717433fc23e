/*
 * pstore_quota.c - limits of directories, kept by the store manager.
 *
 * Aim     A transaction that would pass the limit of pages of a directory above its containers is
 *         refused whole, with -EDQUOT, and all that was there is there; the same with an ancestor's
 *         limit, for two programs that share a directory, by whatever link the container is
 *         reached, and after the store manager was killed. Who is over a limit that was lowered
 *         changes and frees what he has, and takes nothing more. Limits of commits in a second. Of
 *         old versions there are no more than the limit: a snapshot that needs one is too old, and
 *         no commit is refused for it. Names, of entries and of objects, are no more than the limit
 *         says, whoever makes them, and what goes makes room.
 * Method  Limits are set from what ps_limit tells of the pages in use, so no layout is assumed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pstore_test.h"

enum { ITEM = 4096 - 64, MANY = 40 };   /* each item takes a page of its own */
struct root { uint64_t count, number; char *item[2 * MANY]; };
#define ROOT PS_LAYOUT(struct root, 1)

struct job { ps_container *c; unsigned count; };

/* One item and more in one transaction. */
static int take(void *arg)
{
    const struct job *j = arg;
    struct root *r = ps_root(j->c);
    if (!r) return -errno;
    for (unsigned i = 0; i < j->count; i++) {
        char *item = ps_alloc(j->c, ITEM, NULL);
        if (!item) return -errno;
        memset(item, 'x', ITEM);
        r->item[r->count++] = item;
    }
    return 0;
}

static int give_back(void *arg)
{
    const struct job *j = arg;
    struct root *r = ps_root(j->c);
    int e = r ? 0 : -errno;
    for (unsigned i = 0; e == 0 && i < j->count && r->count > 0; i++) {
        e = ps_free(r->item[--r->count]);
        r->item[r->count] = NULL;
    }
    return e;
}

static int change(void *arg)
{
    const struct job *j = arg;
    struct root *r = ps_root(j->c);
    if (!r) return -errno;
    r->number++;
    for (unsigned i = 0; i < r->count; i++) r->item[i][0]++;
    return 0;
}

static uint64_t counted;
static int look(void *arg)
{
    const struct job *j = arg;
    struct root *r = ps_root(j->c);
    counted = r ? r->count : ~0ull;
    return 0;
}

static int run(ps_container *c, int (*what)(void *), unsigned count)
{
    struct job j = {c, count};
    return ps_transaction(what, &j);
}
static uint64_t items(ps_container *c) { return run(c, look, 0) == 0 ? counted : ~0ull; }

static uint64_t used(const char *directory)
{
    uint64_t most, now = 0;
    return ps_limit(directory, PS_LIMIT_PAGES, &most, &now) == 0 ? now : ~0ull;
}
static int pages_set(const char *directory, uint64_t most)
{
    return ps_limit_set(directory, PS_LIMIT_PAGES, most);
}

/* Takes page by page until that is refused: how it was, and how many it took. */
static int take_all(ps_container *c, unsigned *taken)
{
    int e = 0;
    for (*taken = 0; e == 0 && *taken < MANY; *taken += e == 0) e = run(c, take, 1);
    return e;
}

static ps_container *opened(const char *path) { return ps_open(path, PS_CREATE | PS_WRITE, ROOT); }

/* ---- the other program */

static int other(const char *path)
{
    ps_container *c = opened(path);
    unsigned taken;
    int e = c ? take_all(c, &taken) : -errno;
    if (e != -EDQUOT) return 1;
    return 10 + (int)taken;
}

/* ---- */

static ps_container *a, *b, *out;

static void test_pages(void)
{
    unsigned taken;
    uint64_t most, now;
    is(ps_directory_create("up") | ps_directory_create("up/in"), 0, "two directories");
    a = opened("up/in/a");
    out = opened("outside");
    tap_ok(a && out && run(a, take, 2) == 0 && run(out, take, 2) == 0, "containers");
    is(ps_limit("up/in", PS_LIMIT_PAGES, &most, &now) | (most != PS_NO_LIMIT), 0, "no limit yet");
    is(pages_set("up/in", 1000), 0, "a limit is set");
    uint64_t before = used("up/in");
    tap_ok(before > 0 && before < 100, "and what is there is counted (%ld)", (long)before);
    is(pages_set("up/in", before + 5), 0, "five pages more");
    is(run(a, take, 12), -EDQUOT, "a transaction that passes it is refused");
    tap_ok(strstr(ps_strerror(-EDQUOT), "limit") != NULL, "in words");
    tap_ok(items(a) == 2 && used("up/in") == before, "and nothing of it is there");
    is(take_all(a, &taken), -EDQUOT, "page by page it ends, too");
    tap_ok(taken >= 1 && taken <= 5 && items(a) == 2 + taken && used("up/in") <= before + 5,
           "after what fits (%d)", (int)taken);
    is(run(a, change, 0), 0, "what is there can be changed");
    is(run(out, take, 5), 0, "and others are not concerned");
}

static void test_ancestor(void)
{
    unsigned taken;
    is(pages_set("up/in", PS_NO_LIMIT), 0, "no limit any more");
    is(run(a, take, 8), 0, "and all is allowed");
    is(pages_set("up", 1000), 0, "a limit of the directory above");
    uint64_t now = used("up");
    is(pages_set("up", now + 4) | pages_set("up/in", 1000), 0, "and a wide one of its own");
    is(take_all(a, &taken), -EDQUOT, "the one above counts");
    tap_ok(taken <= 4 && used("up") <= now + 4, "(%d)", (int)taken);
}

static void test_lowered(void)
{
    uint64_t had = items(a), now = used("up");
    is(pages_set("up", 1), 0, "the limit is lowered below what is used");
    tap_ok(run(a, change, 0) == 0 && run(a, take, 3) == -EDQUOT && items(a) == had,
           "what is there stays, and can be changed; nothing more");
    is(run(a, give_back, 4), 0, "it can be freed");
    tap_ok(used("up") < now && items(a) == had - 4, "and is counted less (%ld of %ld)",
           (long)used("up"), (long)now);
}

/* Two programs in one directory, each with a container: together they have what the limit says. */
static void test_two(const char *self)
{
    uint64_t now = used("up");
    unsigned mine;
    b = opened("up/b");                 /* a container without pages is none of the limit's */
    is(pages_set("up", now + 12), 0, "twelve pages for two programs");
    int pid = child_start(self, "other", "up/b");
    int e = take_all(a, &mine), status = child_wait(pid);
    tap_ok(e == -EDQUOT && status >= 10, "both are refused in the end (%d, %d)", e, status);
    tap_ok(used("up") <= now + 12 && used("up") + 3 > now + 12, "and have it together (%ld of %ld)",
           (long)used("up"), (long)(now + 12));
    is(run(a, take, 3), -EDQUOT, "no more for one");
}

/* By a link, in another directory without a limit: the container is where it is. */
static void test_link(void)
{
    int h = ps_handle("up/in/a", PS_MAY_READ | PS_MAY_WRITE | PS_MAY_GRANT);
    is(h < 0 ? h : ps_link(h, "linked", PS_MAY_READ | PS_MAY_WRITE), 0, "a link in the root");
    ps_container *c = ps_open("linked", PS_WRITE, ROOT);
    tap_ok(c && run(c, take, 8) == -EDQUOT, "no way around the limit");
    is(ps_directory_create("up/in/sub"), 0, "a directory below");
    ps_container *d = opened("up/in/sub/d");
    tap_ok(d && run(d, take, 8) == -EDQUOT, "nor there");
    if (c) ps_close(c);
    if (d) ps_close(d);
    ps_drop(h);
}

static void test_commits(void)
{
    int e = 0, made = 0;
    is(ps_limit_set("up", PS_LIMIT_COMMITS, 0), 0, "no commits at all");
    tap_ok(run(a, change, 0) == -EDQUOT && run(out, change, 0) == 0, "none there; elsewhere yes");
    is(ps_limit_set("up", PS_LIMIT_COMMITS, 3), 0, "three in a second");
    for (int i = 0; i < 2000 && e == 0; made += e == 0, i++) e = run(a, change, 0);
    tap_ok(e == -EDQUOT && made >= 3, "the one that is too many is refused (%d)", made);
    is(ps_limit_set("up", PS_LIMIT_COMMITS, PS_NO_LIMIT) | run(a, change, 0), 0, "no limit");
}

static void test_death(void)
{
    uint64_t most = 0, now = used("up"), again = 0;
    ps_close(a);
    int manager = store_pid(), e;
    tap_ok(manager > 0 && kd_call3(KD_PROCESS_KILL, manager, 9, 0) == 0, "the store manager dies");
    do e = ps_limit("up", PS_LIMIT_PAGES, &most, &again); while (e == -EOWNERDEAD);
    tap_ok(e == 0 && again == now, "its next one counts the same (%d, %ld, %ld)", e, (long)again,
           (long)now);
    a = opened("up/in/a");
    tap_ok(a && run(a, take, 8) == -EDQUOT && run(a, change, 0) == 0, "and refuses the same");
}

/* ---- old versions, which snapshots keep */

static uint64_t versions(const char *directory)
{
    uint64_t now = ~0ull;
    ps_limit(directory, PS_LIMIT_VERSIONS, NULL, &now);
    return now;
}

static int shared;
static int share(void *arg)
{
    int e = look(arg);
    shared = ps_snapshot_share();
    return shared < 0 ? shared : e;
}
/* The first byte of each item, added up, as it was when `shared` was made. */
static uint64_t summed;
static int sum(void *arg)
{
    const struct job *j = arg;
    const struct root *r = ps_root(j->c);
    if (!r) return -errno;
    summed = r->number;
    for (unsigned i = 0; i < r->count; i++) summed += (unsigned char)r->item[i][0];
    return 0;
}
static int old(ps_container *c, int (*what)(void *))
{
    struct job j = {c, 0};
    struct ps_options o = {.isolation = PS_SNAPSHOT, .snapshot = what == sum ? shared : 0};
    return ps_transaction_opt(what, &j, &o);
}

static void test_versions(void)
{
    is(ps_limit_set("up", PS_LIMIT_PAGES, PS_NO_LIMIT) |
           ps_limit_set("up/in", PS_LIMIT_PAGES, PS_NO_LIMIT), 0, "pages without limit");
    run(a, give_back, 2 * MANY);
    run(out, give_back, 2 * MANY);
    tap_ok(run(a, take, 10) == 0 && run(out, take, 10) == 0, "ten items in each of two");
    is(ps_limit_set("up", PS_LIMIT_VERSIONS, 1000), 0, "a limit of old versions");
    is((int)versions("up"), 0, "there are none");
    is(old(a, share), 0, "a state is kept");
    tap_ok(run(a, change, 0) == 0 && versions("up") >= 10, "of what is changed there are versions");
    uint64_t first = versions("up");
    tap_ok(run(out, change, 0) == 0 && versions("up") == first, "others are not counted");
    tap_ok(old(a, sum) == 0 && old(out, sum) == 0, "and the state is seen");
    uint64_t was = summed;
    is(ps_limit_set("up", PS_LIMIT_VERSIONS, first), 0, "as many as there are");
    tap_ok(run(a, change, 0) == 0 && versions("up") == first && old(a, sum) == 0,
           "another commit needs no more");
    is(ps_limit_set("up/in", PS_LIMIT_VERSIONS, 5), 0, "five, of the directory below");
    is(run(a, change, 0), 0, "no commit is refused");
    tap_ok(versions("up/in") <= 5 && versions("up") <= 5, "and there are five at most (%d)",
           (int)versions("up/in"));
    is(old(a, sum), -ESTALE, "the state is too old");
    tap_ok(old(out, sum) == 0 && summed == was, "elsewhere it is seen as ever");
    tap_ok(old(a, look) == 0 && items(a) == 10, "a new snapshot sees what is there");
    is(ps_snapshot_drop(shared), 0, "dropped");
    tap_ok(versions("up") == 0 && versions("up/in") == 0, "there are none again");
    is(ps_limit_set("up", PS_LIMIT_VERSIONS, PS_NO_LIMIT) |
           ps_limit_set("up/in", PS_LIMIT_VERSIONS, PS_NO_LIMIT), 0, "no limit");
}

/* ---- names */

struct named { ps_container *c; int first, count, remove; };

static int name_all(void *arg)
{
    const struct named *n = arg;
    char name[16];
    int e = 0;
    for (int i = 0; e == 0 && i < n->count; i++) {
        snprintf(name, sizeof name, "n%d", n->first + i);
        e = n->remove ? ps_name_remove(n->c, name) : ps_named(n->c, name, 8) ? 0 : -errno;
    }
    return e;
}

static int name_some(ps_container *c, int first, int count, int remove)
{
    struct named n = {c, first, count, remove};
    return ps_transaction(name_all, &n);
}

/* Two in a, then one in b. */
static int name_two(void *unused)
{
    struct named n = {a, 50, 2, 0}, m = {b, 50, 1, 0};
    (void)unused;
    int e = name_all(&n);
    return e == 0 ? name_all(&m) : e;
}

static uint64_t names(const char *directory)
{
    uint64_t now = ~0ull;
    ps_limit(directory, PS_LIMIT_NAMES, NULL, &now);
    return now;
}

static int error_of(ps_container *c)
{
    int e = c ? 0 : -errno;
    if (c) ps_close(c);
    return e;
}

static void test_names(void)
{
    uint64_t up, in;
    int h = ps_handle("outside", PS_MAY_READ | PS_MAY_GRANT);
    is(ps_limit_set("up", PS_LIMIT_NAMES, 1000) | ps_limit_set("up/in", PS_LIMIT_NAMES, 1000), 0,
       "limits of names");
    up = names("up");
    in = names("up/in");
    is(name_some(a, 0, 10, 0), 0, "ten objects with names");
    tap_ok(names("up") == up + 10 && names("up/in") == in + 10, "are counted on the way up");
    is(name_some(out, 0, 10, 0), 0, "and elsewhere");
    is(ps_limit_set("up/in", PS_LIMIT_NAMES, in + 12), 0, "two more");
    is(name_some(a, 10, 3, 0), -EDQUOT, "three are refused");
    tap_ok(names("up/in") == in + 10 && name_some(a, 10, 1, 0) == 0, "and none is made; one is");
    tap_ok(ps_link(h, "up/in/link", PS_MAY_READ) == -EDQUOT, "a link is two");
    is(error_of(ps_open("up/in/new", PS_CREATE | PS_WRITE, ROOT)), 0, "a container is one");
    tap_ok(error_of(ps_open("up/in/more", PS_CREATE | PS_WRITE, ROOT)) == -EDQUOT &&
               strstr(ps_strerror(-EDQUOT), "limit of names") != NULL, "and no more, in words");
    tap_ok(ps_directory_create("up/in/dir") == -EDQUOT && name_some(a, 20, 1, 0) == -EDQUOT &&
               ps_directory_create("up/dir") == 0 && name_some(out, 20, 1, 0) == 0,
           "nothing else either; above and elsewhere yes");
    tap_ok(name_some(a, 0, 2, 1) == 0 && names("up/in") == in + 10, "names that go are room again");
    is(ps_link(h, "up/in/link", PS_MAY_READ), 0, "for a link");
    tap_ok(name_some(a, 0, 1, 0) == -EDQUOT && ps_take_back("outside") == 1 &&
               name_some(a, 0, 2, 0) == 0, "which, taken back, is room again");
    is(ps_limit_set("up", PS_LIMIT_NAMES, names("up")), 0, "the directory above is full");
    is(ps_limit_set("up/in", PS_LIMIT_NAMES, PS_NO_LIMIT), 0, "(a limit is a name, too)");
    tap_ok(name_some(a, 20, 1, 0) == 0 && name_some(a, 21, 1, 0) == -EDQUOT, "counts as well");
    up = names("up");
    int e = ps_limit_set("up", PS_LIMIT_NAMES, up + 2);
    for (int i = 0; e == 0 && i < 4; i++) e = run(a, change, 0);   /* a group is counted anew */
    is(e, 0, "two more");
    is(ps_transaction(name_two, NULL), -EDQUOT, "three of two containers are too many");
    tap_ok(names("up") == up && name_some(a, 21, 2, 0) == 0, "and none of them counts");
    is(ps_limit_set("up", PS_LIMIT_NAMES, PS_NO_LIMIT) | name_some(a, 25, 5, 0), 0, "no limit");
    ps_drop(h);
}

static void test_refused(void)
{
    is(pages_set("outside", 5), -ENOTDIR, "a container has no limit");
    is(pages_set("none", 5), -ENOENT, "nor has what is not there");
    is(ps_limit_set("up", (enum ps_limit)7, 5), -EINVAL, "nor of anything");
}

int main(int argc, char **argv)
{
    if (argc > 2) return other(argv[2]);
    tap_plan(83);
    test_pages();
    test_ancestor();
    test_lowered();
    test_two(argv[0]);
    test_link();
    test_commits();
    test_refused();
    test_death();
    test_versions();
    test_names();
    tap_ok(kd_call3(KD_CHECK, 0, 0, 0) == 0, "kcheck");
    return tap_end();
}
