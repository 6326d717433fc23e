/*
 * pstore_item_layer.c - files of partitions, items behind headers, brackets, functions of types.
 *
 * Aim     a row for each thing that the Dali paper says of them, numbered DA-N: groups of
 *         containers with rights each, headers apart from data that move, identifiers with
 *         generations, brackets that end by themselves, copies, allocators by name, partitions
 *         without locks, without a log, with a guard; and that a client with stray stores cannot
 *         damage headers and allocation data that lie apart.
 * Method  this program; transactions of one thread, one of them suspended; itself again, confined
 *         to a view of the file, as the client that stores where it should not.
 */
#include <errno.h>
#include <fcntl.h>
#include <item_layer.h>
#include <kit.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pstore_test.h"
#include "user/start.h"

enum { PAGE = 4096, MANY = 200 };
enum { READS = PS_MAY_READ, WRITES = PS_MAY_READ | PS_MAY_WRITE };

/* ---- an allocator of the test's own: all items of one size ---- */

static int takes, gives;
static void *own_take(ps_part *p, uint32_t type, size_t bytes, uint64_t *room)
{
    (void)type;
    takes++;
    *room = 512;
    errno = ENOSPC;
    return bytes <= 512 ? ps_alloc(ps_part_data(p), 512, NULL) : NULL;
}
static int own_give(ps_part *p, void *data, uint64_t room, struct ps_item *spare)
{
    (void)p, (void)room, (void)spare;
    gives++;
    return ps_free(data);
}
static int own_check(ps_part *p, const struct ps_item *item)
{
    (void)p;
    return item->room == 512 ? 0 : -EUCLEAN;
}
static const struct ps_allocator own = {"sized", own_take, own_give, own_check};

static const struct ps_part_wish wish[] = {
    {.name = "calls", .allocator = "apart",
     .flags = PS_PART_ITEMS | PS_PART_APART | PS_PART_CHECKED},
    {.name = "plain", .flags = PS_PART_ITEMS},
    {.name = "grove", .allocator = "arena", .flags = PS_PART_ITEMS | PS_PART_APART},
    {.name = "sized", .allocator = "sized", .flags = PS_PART_ITEMS},
    {.name = "stray", .allocator = "apart",
     .flags = PS_PART_ITEMS | PS_PART_APART | PS_PART_CHECKED | PS_PART_PAGES},
    {.name = "loose", .allocator = "objects",
     .flags = PS_PART_ITEMS | PS_PART_APART | PS_PART_PAGES},
    {.name = "guarded", .flags = PS_PART_ITEMS | PS_PART_APART, .protection = PS_PROTECT_GUARD},
    {.name = "brief", .flags = PS_PART_ITEMS | PS_PART_APART, .durability = PS_VOLATILE},
    {.name = "index"},
};
enum { PARTS = sizeof wish / sizeof *wish };
static ps_file *file;
static ps_part *calls, *plain;

static int open_file(int flags)
{
    file = ps_file_open("switch", flags | PS_WRITE, flags ? wish : NULL, flags ? PARTS : 0);
    calls = file ? ps_file_part(file, "calls") : NULL;
    plain = file ? ps_file_part(file, "plain") : NULL;
    return calls && plain ? 0 : -errno;
}

/* ---- what transactions do ---- */

static ps_item_id id, other;
static void *before;

static int make_one(void *part)
{
    id = ps_item_make(part, "struct call", 100);
    char *data = id ? ps_begin_access(id, PS_X) : NULL;
    if (!data) return -errno;
    memset(data, 7, 100);
    before = data;
    return 0;
}
static int grow_one(void *unused)
{
    (void)unused;
    return ps_item_resize(id, 5000);
}
static int shrink_one(void *unused)
{
    (void)unused;
    return ps_item_resize(id, 50) ?: ps_item_resize(id, 45) ?: ps_item_resize(id, 60);
}
struct seen { size_t bytes; long sevens, zeros; void *data; };
static int look(void *out)
{
    struct seen *s = out;
    const char *data = s->data = ps_begin_access(id, PS_S);
    if (!data) return -errno;
    s->bytes = ps_item_bytes(id);
    s->sevens = s->zeros = 0;
    for (size_t i = 0; i < s->bytes; i++) {
        s->sevens += data[i] == 7;
        s->zeros += data[i] == 0;
    }
    return ps_end_access(id, PS_S);
}
static int delete_one(void *unused)
{
    (void)unused;
    return ps_item_delete(id);
}
static int make_again(void *part)
{
    for (int i = 0; i < 63; i++)        /* one of them is in the header that became free */
        if (!(other = ps_item_make(part, "struct call", 60)) || (other ^ id) << 23 == 0)
            return other ? 0 : -errno;
    return -ENOENT;
}

/* In another transaction, while this thread's first one stays open; what `fn` returns. */
static int beside(int (*fn)(void *), void *arg)
{
    ps_tx *tx = ps_suspend();
    int result = ps_begin(&(struct ps_options){.apart = 1, .timeout_ms = 20000});
    if (result == 0) {
        result = fn(arg);
        ps_rollback();
    }
    ps_resume(tx);
    return result;
}
static int writes_now(void *unused)
{
    (void)unused;
    return ps_begin_access(id, PS_X | PS_NOW) ? 0 : -errno;
}

/* ---- DA-06, 13, 15 ---- */

static void test_file(void)
{
    struct ps_part_wish more[] = {
        {.name = "calls", .allocator = "apart", .flags = PS_PART_ITEMS | PS_PART_APART}};
    is(ps_allocator_add(&own), 0, "an allocator of the program's own");
    is(open_file(PS_CREATE), 0, "DA-06: a file is made, by one name");
    tap_ok(ps_rights("switch/calls", NULL) == PS_MAY_ALL &&
               ps_rights("switch/calls.h", NULL) == PS_MAY_ALL &&
               ps_rights("switch/plain.h", NULL) == -ENOENT &&
               ps_rights("switch/index", NULL) == PS_MAY_ALL &&
               ps_rights("switch/table", NULL) == PS_MAY_ALL,
           "DA-06: its partitions and the table are containers, with rights each");
    is(ps_file_close(file), 0, "it is closed");
    tap_ok(!ps_file_open("switch", PS_CREATE | PS_WRITE, more, 1) && errno == EPROTO,
           "DA-06: who wants a partition otherwise is told");
    is(ps_delete("switch/grove.h") ?: open_file(0), -ENOENT, "one of its containers is not there");
    is(open_file(PS_CREATE), 0, "as behind a cut: it is made again");
    is(ps_file_close(file) ?: open_file(0), 0, "DA-06: it is opened, with what it has");
    tap_ok(!ps_file_open("switch", PS_WRITE, NULL, 0) && errno == EBUSY, "once in a process");
}

static void test_header(void)
{
    struct seen s;
    is(ps_transaction(make_one, calls), 0, "an item");
    ps_begin(NULL);
    const struct ps_item *item = ps_item_header(id);
    tap_ok(ps_container_of(item) == ps_part_headers(calls) &&
               ps_container_of(item->data) == ps_part_data(calls) &&
               ps_part_data(calls) != ps_part_headers(calls),
           "DA-13: its header is in another container than its data");
    tap_ok(item->bytes == 100 && item->room == 112 && item->type && item->data == before,
           "DA-13: which knows type, size and data");
    ps_commit();
    is(ps_transaction(grow_one, NULL), 0, "it grows");
    is(ps_transaction(look, &s), 0, "and is found");
    tap_ok(s.data != before && s.bytes == 5000 && s.sevens == 100 && s.zeros == 4900,
           "DA-13: elsewhere, under the same identifier, with what was in it");
    is(ps_transaction(shrink_one, NULL) ?: ps_transaction(look, &s), 0, "it shrinks, grows again");
    tap_ok(s.bytes == 60 && s.sevens == 45 && s.zeros == 15, "and what it lost is zeros");
}

static void test_generation(void)
{
    struct seen s;
    is(ps_transaction(delete_one, NULL), 0, "it is deleted");
    is(ps_transaction(look, &s), -ESTALE, "DA-15: its identifier is stale");
    is(ps_transaction(make_again, calls), 0, "another one gets the header");
    is(ps_transaction(look, &s), -ESTALE, "DA-15: and the old identifier does not find it");
    is(ps_transaction(delete_one, NULL), -ESTALE, "nor deletes it");
    ps_transaction(make_one, plain);
    ps_transaction(delete_one, NULL);
    is(ps_transaction(look, &s), -ENOENT, "in a partition that does not check it, it is not there");
    is(ps_transaction(make_again, plain), 0, "and when another one has its header");
    is(ps_transaction(look, &s), 0, "DA-15: that one is found");
    is(ps_part_switch(plain, PS_PART_CHECKED, 1), 0, "the partition is to check them");
    is(ps_transaction(look, &s), -ESTALE, "DA-15: from then on it does");
    is(ps_part_switch(plain, PS_PART_CHECKED, 0), 0, "and no more");
    id = 4711;
    is(ps_transaction(look, &s), -EINVAL, "a number that is none");
    id = (uintptr_t)ps_address(ps_part_data(plain)) / 64 + 1;
    is(ps_transaction(look, &s), -EINVAL, "nor one of something else in the container");
}

/* ---- DA-28, 30, 31 ---- */

static int bypass(void *unused)
{
    int32_t *number = ps_access(ps_item_header(id)->data, sizeof *number, PS_X);
    (void)unused;
    if (!number) return -errno;
    *number = 4711;
    return 0;
}
static int put_long(void *unused)
{
    char text[300];
    (void)unused;
    memset(text, 'x', sizeof text);
    return ps_item_put(id, text, sizeof text);
}
static int get(void *out) { return (int)ps_item_get(id, out, 4); }
static int protect(void *rights) { return ps_item_protect(id, *(unsigned *)rights); }

static void test_brackets(void)
{
    struct seen s;
    int number = 0;
    unsigned rights = READS;
    ps_transaction(make_one, calls);
    ps_begin(NULL);
    tap_ok(ps_begin_access(id, PS_S) && ps_end_access(id, PS_S) == 0, "an access begins and ends");
    is(beside(writes_now, NULL), -EBUSY, "DA-28: the lock stays to the transaction's end");
    is(ps_commit(), 0, "which ends it");
    ps_begin(NULL);
    tap_ok(ps_begin_access(id, PS_S | PS_BRIEF) && ps_end_access(id, PS_S | PS_BRIEF) == 0,
           "one in a mode that gives the lock back");
    is(beside(writes_now, NULL), 0, "DA-28: ends it at the bracket");
    tap_ok(ps_begin_access(id, PS_X) != NULL, "one that nobody ends");
    is(beside(writes_now, NULL), -EBUSY, "keeps others out");
    is(ps_commit(), 0, "DA-28: and is ended by the commit");
    is(ps_transaction(bypass, NULL), 0, "brackets are bypassed");
    is(ps_transaction(get, &number), 100, "a copy is got,");
    is(number, 4711, "DA-30: with what was stored by a plain pointer");
    is(ps_transaction(put_long, NULL), 0, "a longer one is put");
    is(ps_transaction(look, &s), 0, "and");
    is((long)s.bytes, 300, "DA-30: has its size");
    is(ps_transaction(protect, &rights), 0, "an item is protected");
    is(ps_transaction(put_long, NULL), -EACCES, "DA-14: its header says who may");
    is(ps_transaction(look, &s), 0, "and it is still read");
    rights = WRITES;
    is(ps_transaction(protect, &rights), 0, "no more");
    is(ps_part_switch(calls, PS_PART_UNLOCKED, 1), 0, "locks of a partition are switched off");
    ps_begin(NULL);
    tap_ok(ps_begin_access(id, PS_X) != NULL, "an access to write");
    is(beside(writes_now, NULL), 0, "DA-31: keeps nobody out");
    ps_rollback();
    is(ps_file_close(file) ?: open_file(0), 0, "the file is opened again");
    ps_begin(NULL);
    ps_begin_access(id, PS_X);
    is(beside(writes_now, NULL), 0, "DA-31: the table says so");
    ps_rollback();
    is(ps_part_switch(calls, PS_PART_UNLOCKED, 0), 0, "and on");
}

/* ---- DA-19 ---- */

static int make_many(void *part)
{
    for (int i = 0; i < MANY; i++)
        if (!(id = ps_item_make(part, "struct call", 40 + (size_t)i % 60))) return -errno;
    return 0;
}
static int where(void *out)
{
    *(ps_arena **)out = ps_arena_of(ps_item_header(id)->data);
    return 0;
}
static int count(void *part)
{
    int n = 0;
    for (ps_item_id i = 0; (i = ps_item_next(part, "struct call", i)) != 0;) n++;
    return n;
}
/* Each second item is deleted; then there are so many anew. */
static int churn(void *part)
{
    int n = 0;
    for (ps_item_id i = 0, gone; (gone = ps_item_next(part, "struct call", i)) != 0;) {
        i = gone;
        if (n++ % 2 == 0 && ps_item_delete(gone) != 0) return -EUCLEAN;
    }
    return make_many(part);
}
static const char *why;
static int check(void *part) { return ps_part_check(part, &why); }

static void test_allocators(void)
{
    ps_arena *arena = NULL;
    static const char *const name[] = {"calls", "plain", "grove", "sized", "stray", "loose"};
    for (unsigned i = 0; i < sizeof name / sizeof *name; i++) {
        ps_part *p = ps_file_part(file, name[i]);
        int had = ps_transaction(count, p), bad = ps_transaction(make_many, p);
        int good = !bad && ps_transaction(count, p) == had + MANY;
        for (int k = 0; k < 4 && good; k++) good = ps_transaction(churn, p) == 0;
        bad = ps_transaction(check, p);
        tap_ok(good && !bad, "DA-19: %s, items come and go, all is sound%s%s", name[i],
               bad ? ": " : "", bad && why ? why : "");
        if (p == ps_file_part(file, "grove")) {
            ps_transaction(where, &arena);
            tap_ok(arena != NULL, "DA-19: in an arena");
        }
    }
    tap_ok(takes >= 5 * MANY && gives > MANY, "DA-19: the program's own was asked");
}

/* ---- other properties of a partition: a guard, nothing logged ---- */

enum { FOUND = 42 };
static ps_part *guarded;
static volatile char *wild_at;
static void on_wild(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    _exit((volatile char *)info->si_addr == wild_at ? FOUND : 1);
}
static int wild_step;
/* Stores within brackets; then one behind them (1), or to the header (2). */
static int store_wildly(void *unused)
{
    char *data = ps_begin_access(id, PS_X);
    (void)unused;
    if (!data) return -errno;
    *data = 5;
    int error = wild_step == 3 ? ps_item_resize(id, 3000) : 0;
    if (wild_step == 4 && ps_begin_access(id, PS_X)) {      /* the inner one ends itself only */
        error = ps_end_access(id, PS_X | PS_BRIEF);
        *data = 7;
    }
    error = error ?: ps_end_access(id, PS_X);
    if (wild_step == 3) data = ps_item_header(id)->data;
    wild_at = wild_step == 2 ? (char *)&ps_item_header(id)->bytes : data + 1;
    if (!error && wild_step) *wild_at = 6;
    return error;
}
static int wild_child(int step)
{
    int status = 0;
    struct sigaction action = {.sa_sigaction = on_wild, .sa_flags = SA_SIGINFO};
    if (fork() == 0) {
        sigaction(SIGSEGV, &action, NULL);
        wild_step = step;
        _exit(ps_transaction(store_wildly, NULL) ? 2 : 0);
    }
    wait(&status);
    return WEXITSTATUS(status);
}
static int has_keys(void)
{
    uint32_t a = 7, b, c = 0, d;
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    return c >> 4 & 1;
}

enum { FILL = 200000 };
static int fill_large(void *part)
{
    ps_item_id large = ps_item_make(part, "struct call", FILL);
    char *data = large ? ps_begin_access(large, PS_X) : NULL;
    for (int i = 0; data && i < FILL; i++) data[i] = (char)(i * 7 + i / 100);
    return data ? 0 : -errno;
}
static uint64_t logged_by(ps_part *part)
{
    struct ps_stats before_it, behind;
    ps_stats(&before_it);
    if (ps_transaction(fill_large, part)) return FILL / 2;
    ps_stats(&behind);
    return behind.log_bytes - before_it.log_bytes;
}

static void test_properties(void)
{
    struct seen s;
    guarded = ps_file_part(file, "guarded");
    is(ps_transaction(make_one, guarded), 0, "DA-37: items in a partition with a guard: made,");
    is(ps_transaction(grow_one, NULL) ?: ps_transaction(shrink_one, NULL), 0, "moved,");
    is(wild_child(0), 0, "stored to within brackets");
    is(wild_child(1), has_keys() ? FOUND : 0, "and not behind them,");
    is(wild_child(2), FOUND, "nor a header");
    is(wild_child(3), has_keys() ? FOUND : 0, "nor behind that of one that moved,");
    is(wild_child(4), has_keys() ? FOUND : 0, "nor of two;");
    is(ps_transaction(churn, guarded) ?: ps_transaction(check, guarded), 0, "they come and go,");
    is(ps_transaction(delete_one, NULL), 0, "and are deleted");
    ps_part *brief = ps_file_part(file, "brief");
    is(ps_transaction(make_one, brief) ?: ps_transaction(look, &s), 0, "items that are not logged");
    is((long)s.bytes, 100, "are there");
    tap_ok(logged_by(brief) < FILL / 4 && logged_by(plain) > FILL * 3 / 4,
           "DA-31: what they hold is not in the log, as that of others is");
}

/* ---- DA-07: this program again, confined to a view ---- */

static int spoil_data(void *part)
{
    for (ps_item_id i = 0; (i = ps_item_next(part, NULL, i)) != 0;) {
        uint64_t page = (uint64_t)ps_item_header(i)->data / PAGE * PAGE;
        memset((void *)page, 0x5a, PAGE);
    }
    return 0;
}
static int store_header(void *part)
{
    struct ps_item *item = (struct ps_item *)ps_item_header(ps_item_next(part, NULL, 0));
    item->data = item;
    return 0;
}
static int change_item(void *part)
{
    char *data = ps_begin_access(ps_item_next(part, NULL, 0), PS_X);
    if (!data) return -errno;
    *data = 1;
    return 0;
}
static int delete_item(void *part) { return ps_item_delete(ps_item_next(part, NULL, 0)); }

static int client(const char *what)
{
    file = ps_file_open("", PS_WRITE, NULL, 0);
    ps_part *p = file ? ps_file_part(file, what[1] == 'l' ? "loose" : "stray") : NULL;
    if (!p) return 100;
    switch (what[0]) {
    case 'c': return -ps_transaction(change_item, p);
    case 'd': return -ps_transaction(delete_item, p);
    case 'm': return -ps_transaction(make_one, p);
    case 'u': return -ps_part_switch(p, PS_PART_UNLOCKED, 1);
    case 's': return -ps_transaction(spoil_data, p);
    default: return -ps_transaction(store_header, p);
    }
}
static int run_client(const char *what)
{
    static const char *const environment[] = {"PS_ROOTS=store:0", NULL};
    const char *argv[] = {"pstore_item_layer", what, NULL};
    struct given given = {ps_handle("clients", WRITES | PS_MAY_GRANT), start_rights(WRITES)};
    long pid = given.handle;
    if (pid >= 0) pid = start_confined("/bin/pstore_item_layer", argv, environment, &given, 1);
    ps_drop(given.handle);
    return child_wait((int)pid);
}

static uint64_t sum_of_headers(ps_part *p)
{
    uint64_t sum = 0;
    for (ps_item_id i = 0; (i = ps_item_next(p, NULL, i)) != 0;) {
        const struct ps_item *item = ps_item_header(i);
        sum = sum * 31 + (uint64_t)item->data + item->bytes + item->room + item->type;
    }
    return sum;
}
static ps_part *summed;
static int sum_headers(void *out)
{
    *(uint64_t *)out = sum_of_headers(summed);
    return 0;
}

static void test_wild(void)
{
    uint64_t sum, now;
    ps_part *stray = ps_file_part(file, "stray"), *loose = ps_file_part(file, "loose");
    is(ps_file_view("switch", "clients", WRITES, READS), 0, "DA-06: a view with fewer rights");
    tap_ok(ps_rights("clients/stray", NULL) == WRITES &&
               ps_rights("clients/stray.h", NULL) == READS,
           "DA-06: to write data, and to read headers and allocation data");
    summed = stray;
    ps_transaction(sum_headers, &sum);
    is(run_client("cs"), 0, "DA-07: a client of the view changes items");
    is(run_client("ms"), EROFS, "DA-07: makes none");
    is(run_client("ds"), EROFS, "DA-07: deletes none");
    is(run_client("us"), EROFS, "DA-31: and switches nothing off");
    int status = run_client("hs");
    tap_ok(status > 128, "DA-07: one that stores to a header is ended (%d)", status);
    is(run_client("ss"), 0, "DA-07: one stores all over the data,");
    ps_transaction(sum_headers, &now);
    tap_ok(now == sum && ps_transaction(check, stray) == 0,
           "DA-07: and headers and allocation data are sound");
    tap_ok(ps_transaction(churn, stray) == 0 && ps_transaction(check, stray) == 0,
           "DA-07: items come and go");
    is(run_client("sl"), 0, "the same where allocation data lie with the data");
    is(ps_transaction(check, loose), -EUCLEAN, "DA-07: there they are lost");
}

/* ---- DA-07, 32: a client asks a trusted process for items ---- */

struct asked { uint64_t bytes, id; };
static int make_asked(void *arg)
{
    struct asked *a = arg;
    a->id = ps_item_make(calls, "struct call", a->bytes);
    return a->id ? 0 : -errno;
}
static int serve(void *unused, struct ps_request *r)
{
    (void)unused;
    return ps_transaction(make_asked, r->message);
}
static int fill_asked(void *arg)
{
    const struct asked *a = arg;
    char *data = ps_begin_access(a->id, PS_X);
    if (!data) return -errno;
    memset(data, 9, a->bytes);
    return 0;
}
/* A client of the view that may find names. */
static int asker(void)
{
    struct asked a = {.bytes = 77};
    ps_file *view = ps_file_open("clients", PS_WRITE, NULL, 0);
    ps_area *area = ps_area_open("item_layer");
    if (!view || !area) return 100;
    int result = ps_ask(area, &a, sizeof a, 20000);
    return result ? -result : -ps_transaction(fill_asked, &a);
}
static int nines(void *out)
{
    char bytes[77];
    for (ps_item_id i = 0; (i = ps_item_next(calls, "struct call", i)) != 0;)
        *(int *)out += ps_item_get(i, bytes, 77) == 77 && bytes[0] == 9 && bytes[76] == 9;
    return 0;
}

static void test_asked(const char *self)
{
    int n = 0;
    struct ps_task task = {.serve = serve};
    ps_area *area = ps_area_make("item_layer", 4096, &task);
    is(area ? child_run(self, "ask", NULL) : -errno, 0,
       "DA-07: a client asks a trusted process for an item, and fills it");
    ps_area_close(area);
    is(ps_transaction(nines, &n), 0, "the items");
    is(n, 1, "are one more");
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return ps_allocator_add(&own) ? 101
               : !strcmp(argv[1], "ask") ? asker() : client(argv[1]);
    tap_plan(94);
    test_file();
    test_header();
    test_generation();
    test_brackets();
    test_allocators();
    test_properties();
    test_wild();
    test_asked(argv[0]);
    is(ps_file_close(file), 0, "the file is closed");
    is(ps_file_delete("clients"), 0, "DA-06: the view is deleted");
    is(ps_rights("switch/calls", NULL), PS_MAY_ALL, "the file not");
    is(ps_file_delete("switch"), 0, "DA-06: and the file");
    is(ps_rights("switch/calls", NULL), -ENOENT, "with all that was in it");
    return tap_end();
}
