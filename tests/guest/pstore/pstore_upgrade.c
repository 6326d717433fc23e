/*
 * pstore_upgrade.c - ps_upgrade: a container goes from one layout to the next, once and whole.
 *
 * Aim     the step gets both roots; in one transaction or in batches all records come over, each
 *         once; what is given up midway can be opened by neither program and goes on where it was;
 *         nobody else has the container open; a step that is done is not begun again.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "pstore_test.h"

struct record_1 { struct record_1 *next; uint32_t value; };
struct root_1 { struct record_1 *first; };
struct record { struct record *next; uint64_t value; char note[16]; };
struct root { struct record *first; uint64_t count, batches; };
struct root_3 { struct record *first; };
#define ONE   PS_LAYOUT_AS("struct root", struct root_1, 1)
#define TWO   PS_LAYOUT(struct root, 2)
#define THREE PS_LAYOUT_AS("struct root", struct root_3, 3)
enum { RECORDS = 500 };

static ps_container *box;
static int calls, give_up_at, batch_records;
static const char *opened_beside;                   /* by the step, as another thread would */

static int fill(void *unused)
{
    struct root_1 *root = ps_root(box);
    for (uint32_t i = 0; i < RECORDS; i++) {
        struct record_1 *r = ps_new(box, struct record_1, root);
        *r = (struct record_1){root->first, i};
        root->first = r;
    }
    return (void)unused, 0;
}

static void made(const char *name)
{
    box = ps_open(name, PS_CREATE | PS_WRITE, ONE);
    if (ps_transaction(fill, NULL) != 0)
        is(1, 0, "the older program fills a container");
    ps_close(box);
}

static int step(void *from, void *to, void *arg)
{
    struct root_1 *old = from;
    struct root *root = to;
    (void)arg;
    if (++calls == give_up_at)
        return -ECANCELED;
    if (opened_beside && !ps_open(opened_beside, 0, ONE))
        return -errno;
    root->batches++;
    for (int i = 0; i < batch_records && old->first; i++) {
        struct record_1 *r = old->first;
        struct record *copy = ps_new(ps_container_of(root), struct record, root);
        old->first = r->next;
        *copy = (struct record){.next = root->first, .value = r->value};
        root->first = copy;
        root->count++;
        ps_free(r);
    }
    return old->first ? PS_MORE : 0;
}

static int third(void *from, void *to, void *arg)
{
    calls++;
    ((struct root_3 *)to)->first = ((struct root *)from)->first;
    return (void)arg, 0;
}

/* All records once, none of the old type, and only what is reached: 1, or 0. */
struct seen { uint64_t count, batches, sum, objects, old; };
static int look(void *arg)
{
    struct seen *s = arg;
    struct root *root = ps_root(box);
    *s = (struct seen){root->count, root->batches, 0, 0, 0};
    for (struct record *r = root->first; r; r = r->next)
        s->sum += r->value;
    for (void *p = NULL; (p = ps_each(box, NULL, p)) != NULL;)
        s->objects++;
    for (void *p = NULL; (p = ps_each(box, "struct record_1", p)) != NULL;)
        s->old++;
    return 0;
}
static struct seen whole(const char *name)
{
    struct seen s = {0};
    box = ps_open(name, PS_WRITE, TWO);
    is(box ? ps_transaction(look, &s) : -errno, 0, "the newer program opens it");
    is((long)s.count, RECORDS, "each record came over once");
    is((long)s.sum, RECORDS * (RECORDS - 1) / 2, "with its value");
    is((long)s.objects, RECORDS + 1, "nothing else is left: the new root is the root");
    is((long)s.old, 0, "nor of the old type");
    if (box)
        ps_close(box);
    return s;
}

static int opens(const char *name, const struct ps_layout *layout)
{
    box = ps_open(name, PS_WRITE, layout);
    return box ? ps_close(box) : -errno;
}

/* One run of it, which gives up at its n-th call (0: never). */
static int run(const char *name, int records, int n)
{
    calls = 0;
    give_up_at = n;
    batch_records = records;
    return ps_upgrade(name, ONE, TWO, step, NULL);
}

static void at_once(void)
{
    made("once");
    is(run("once", RECORDS, 1), -ECANCELED, "a step that fails leaves the container as it was");
    is(opens("once", ONE), 0, "the older program opens it");
    is(run("once", RECORDS, 0), 0, "a step in one transaction");
    is((long)whole("once").batches, 1, "one batch was committed");
    is(opens("once", ONE), -EPROTO, "the older program is refused");
    is(run("once", RECORDS, 0), 0, "a second call has nothing to do");
    is(calls, 0, "and does not call the step");
    is(ps_upgrade("once", TWO, THREE, third, NULL), 0, "the next version");
    is(run("once", RECORDS, 0) == 0 && calls == 0, 1, "older steps let the newest alone");
    is(opens("once", THREE), 0, "which opens");
}

static void in_batches(void)
{
    made("batches");
    is(run("batches", 100, 4), -ECANCELED, "given up after three batches");
    is(opens("batches", ONE), -EPROTO, "the older program cannot open what is half done");
    is(opens("batches", TWO), -EPROTO, "nor can the newer one");
    is(run("batches", 100, 0), 0, "the next call goes on");
    is(calls, 2, "where it was");
    is((long)whole("batches").batches, 5, "five batches in all");
}

/* Another process has it open while this one tries. */
static void beside_others(void)
{
    int ready[2], go[2], status;
    char byte = 0;
    made("others");
    if (pipe(ready) || pipe(go))
        return;
    pid_t child = fork();
    if (child == 0) {
        int good = ps_open("others", 0, ONE) && write(ready[1], &byte, 1) == 1 &&
                   read(go[0], &byte, 1) == 1;
        _exit(good ? 0 : 1);
    }
    (void)!read(ready[0], &byte, 1);
    is(run("others", 100, 0), -EBUSY, "not while another process has it open");
    is(opens("others", ONE), 0, "and nothing has changed");
    (void)!write(go[1], &byte, 1);
    waitpid(child, &status, 0);
    is(status, 0, "which had no trouble");
    box = ps_open("others", PS_WRITE, ONE);
    is(run("others", 100, 0), -EBUSY, "nor while this one has");
    ps_close(box);
    opened_beside = "others";
    is(run("others", RECORDS, 0), -EBUSY, "nor if another thread opens it meanwhile");
    opened_beside = NULL;
    box = ps_open("others", PS_WRITE, ONE);
    is(box && ps_close(box) == 0 && ps_close(box) == 0, 1, "and nothing has changed");
    is(WHEN_FREE(run("others", 100, 0)), 0, "but then");
    whole("others");
}

static int body(void *unused)
{
    return (void)unused, run("once", 1, 0);
}

static void what_is_not(void)
{
    is(run("no-such", 1, 0), 0, "no container: nothing to do");
    is(ps_close(ps_open("bare", PS_CREATE | PS_WRITE, ONE)), 0, "a container without a root");
    is(run("bare", 1, 0), 0, "is upgraded");
    is(calls, 0, "without a step");
    is(opens("bare", TWO), 0, "and is of the newer layout");
    is(ps_upgrade("bare", TWO, ONE, step, NULL), -EINVAL, "not backwards");
    is(ps_upgrade("bare", ONE, TWO, NULL, NULL), -EINVAL, "not without a step");
    is(strstr(ps_strerror(EINVAL), "ps_upgrade") != NULL, 1, "the error says what it wants");
    is(ps_transaction(body, NULL), -EBUSY, "not in a transaction");
}

int main(void)
{
    tap_plan(47);
    at_once();
    in_batches();
    beside_others();
    what_is_not();
    return tap_end();
}
