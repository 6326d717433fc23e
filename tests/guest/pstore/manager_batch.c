/*
 * manager_batch.c - what a manager on the store says to it with its clients' commits: objects that
 * it makes and frees, names (SK20).
 *
 * Aim     `commit` makes objects, frees others and sets names in the container below, as any
 *         transaction does, and all of it is there with the client's transaction or not at all:
 *         when the client has operations of its own, when the manager refuses, when it is killed
 *         in the midst of commits. What is freed is used again.
 * Method  a child keeps each page in an object of its own, made anew with each change, of a size
 *         that differs; a page's second word tells it what to do beside.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>

#include "manager.h"
#include "pstore_test.h"

enum { PAGES = 8, SIZES = 5, MANY = 120, LIVES = 5 };
enum { KEEP, NAME, REFUSE };            /* what a page's second word says */
static const char name[] = "batch";
struct page { uint64_t word[KM_PAGE_BYTES / 8]; };

/* ---- the manager ---- */

struct root { struct page *page[PAGES]; };
static ps_container *box;
static struct root *root;

static void page(struct km_request *r)
{
    static const struct page zero;
    km_supply(r, root->page[r->page] ? root->page[r->page] : &zero, 1);
}

/* The page goes into a new object, of 1 to 5 pages; the old one is freed. */
static int change(uint64_t at, const struct km_run *r)
{
    struct page *old = root->page[at];
    uint64_t size = (1 + (old ? old->word[0] : 0) % SIZES) * sizeof *old;
    struct page *new = ps_alloc(box, size, NULL);
    if (!new) return -errno;
    memset(new, 0, sizeof *new);
    if (old) memcpy(new, old, sizeof *old);
    memcpy((char *)new + r->offset, r->data, r->bytes);
    root->page[at] = new;
    if (new->word[1] == NAME && !ps_named(box, "taken", sizeof(uint64_t))) return -errno;
    return new->word[1] == REFUSE ? -EDOM : old ? ps_free(old) : 0;
}

static int commit(struct km_object *o, uint64_t view)
{
    uint64_t runs[1024];
    for (uint64_t cursor = 0; cursor != ~0ull;) {
        long n = km_diff(o, view, &cursor, runs, sizeof runs);
        if (n < 0) return (int)n;
        for (const struct km_run *r = km_run_first(runs, n); r; r = km_run_next(r, runs, n)) {
            int e = change(r->page, r);
            if (e) return e;
        }
    }
    return 0;
}

static int set_up(void *unused)
{
    (void)unused;
    root = ps_root(box);
    return root ? 0 : -errno;
}

static int serve(void)
{
    static const struct km_ops ops = {.page = page, .commit = commit};
    struct km_object *object;
    box = ps_open("batch.kept", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    int e = box ? km_below("store") : -errno;
    if (!e) e = ps_transaction(set_up, NULL);
    if (!e) e = km_create(name, PAGES, KM_READ | KM_WRITE | KM_TRANSACTIONAL, &ops, NULL, &object);
    return e ? e : km_serve(2);
}

/* ---- the client ---- */

struct ledger { uint64_t number; struct page *kept; };
static ps_container *ledger;
static struct page *pages;              /* of the manager's */
static const char *program;
static int manager_pid;

struct say { uint64_t number, what; };

/* Page, ledger, and an object of the ledger's: this client has a batch, too. */
static int say(void *arg)
{
    const struct say *s = arg;
    struct ledger *l = ps_root(ledger);
    if (!l) return -errno;
    struct page *old = l->kept, *p = &pages[s->number % PAGES];
    l->number = s->number;
    l->kept = ps_alloc(ledger, sizeof *old, NULL);
    if (!l->kept) return -errno;
    l->kept->word[9] = s->number;
    p->word[0] = s->number;
    p->word[1] = s->what;
    p->word[511] = ~s->number;
    return old ? ps_free(old) : 0;
}

static int look(void *number)
{
    struct ledger *l = ps_root(ledger);
    if (!l) return -errno;
    const struct page *p = &pages[l->number % PAGES];
    *(uint64_t *)number = l->number;
    if (!l->number) return 0;
    return l->kept->word[9] == l->number && p->word[0] == l->number &&
                   p->word[511] == ~l->number ? 0 : -EUCLEAN;
}

/* What client and manager have alike, or a negative errno. */
static long number_now(void)
{
    uint64_t number = 0;
    int e = WHEN_BACK(ps_transaction(look, &number));
    return e ? e : (long)number;
}

static int say_now(uint64_t number, uint64_t what)
{
    struct say s = {number, what};
    return ps_transaction(say, &s);
}

static bool manager_begin(void)
{
    manager_pid = child_start(program, "serve", NULL);
    while (manager_pid > 0 && !(pages = km_open(name, name, KM_READ | KM_WRITE))) sched_yield();
    return manager_pid > 0;
}

static void manager_end(void)
{
    kill(manager_pid, SIGKILL);
    child_wait(manager_pid);
}

static uint64_t kept_kib(void)
{
    struct ps_info info[16];
    int n = ps_list(info, 16);
    for (int i = 0; i < n && i < 16; i++)
        if (!strcmp(info[i].name, "batch.kept")) return info[i].pages_used * 4;
    return 0;
}

static void whole(void)
{
    int e = say_now(1, KEEP);
    tap_ok(e == 0 && number_now() == 1, "a commit for which the manager makes an object (%d)", e);
    uint64_t n = 2;
    for (; n < MANY / 2 && !e; n++) e = say_now(n, KEEP);
    uint64_t kib = kept_kib();
    for (; n < MANY && !e; n++) e = say_now(n, KEEP);
    tap_ok(e == 0 && number_now() == MANY - 1,
           "%d more, with objects made and freed by both (%d)", MANY - 2, e);
    tap_ok(kib && kept_kib() == kib, "what is freed is used again (%lu KiB, then %lu)", kib,
           kept_kib());
    e = say_now(500, REFUSE);
    tap_ok(e == -EDOM && number_now() == MANY - 1, "refused behind it: all is as before (%d)", e);
    e = say_now(501, NAME);
    tap_ok(e == 0 && number_now() == 501, "a name is set with it (%d)", e);
    manager_end();
    tap_ok(manager_begin() && number_now() == 501, "its successor finds all of it below");
}

static int name_taken(void *c)
{
    struct ps_name_info names[4];
    int n = ps_names(c, names, 4);
    return n == 1 && !strcmp(names[0].name, "taken") ? 0 : n < 0 ? n : -EUCLEAN;
}

/* ---- it is killed ---- */

static _Atomic uint64_t tried, done;
static _Atomic int over;
static void *writer(void *from)
{
    uint64_t n = *(uint64_t *)from;
    int e;
    do {
        tried = ++n;
        e = say_now(n, KEEP);
        if (!e) done = n;
    } while (!e);
    over = 1;
    return (void *)(long)e;
}

static void lives(void)
{
    long now = number_now();
    bool good = true;
    for (int life = 0; life < LIVES && good; life++) {
        pthread_t t;
        void *e;
        uint64_t from = tried = done = (uint64_t)now;
        over = 0;
        pthread_create(&t, NULL, writer, &from);
        while (done < from + (unsigned)life % 3 + 1 && !over) sched_yield();
        manager_end();
        pthread_join(t, &e);
        good = e && manager_begin();
        now = number_now();
        good &= now >= (long)done && now <= (long)tried;
        if (!good)
            printf("# life %d: %ld, then %ld of %lu..%lu\n", life, (long)e, now, done, tried);
    }
    tap_ok(good, "killed %d times in the midst of commits: both have the same", LIVES);
    int e = say_now(5000, KEEP);
    tap_ok(e == 0 && number_now() == 5000, "and go on (%d)", e);
}

int main(int argc, char **argv)
{
    if (argc > 1) return serve() != 0;
    program = argv[0];
    tap_plan(10);
    ledger = ps_open("batch.ledger", PS_CREATE | PS_WRITE, PS_LAYOUT(struct ledger, 1));
    tap_ok(ledger && manager_begin(), "a manager on the store");
    whole();
    ps_container *kept = ps_open("batch.kept", 0, NULL);
    int e = kept ? ps_transaction(name_taken, kept) : -errno;
    tap_ok(e == 0, "others see the name (%d)", e);
    lives();
    manager_end();
    return tap_end();
}
