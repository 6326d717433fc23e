/*
 * pstore_relation.c - relations over items: an exchange's subscribers, their calls, their bills.
 *
 * Aim     DA-47: tuples come, are found by key, selected, changed and deleted; two relations are
 *         joined; a view is kept up to date by functions of the tuple's type; keys are there once;
 *         another schema is refused; who selects keeps out who would change the answer; index and
 *         tuples fit each other behind aborts and several processes.
 * Method  the relations as a program would write them; counted and summed by hand beside them.
 */
#include <errno.h>
#include <relation.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pstore_test.h"

/* ---- the schema ---- */

struct subscriber { char name[16]; uint32_t number; int32_t line; };
struct call { uint64_t serial; uint32_t from, to, minutes; };
struct bill { uint32_t number; int32_t calls; int64_t cents; };
PS_RELATION(subscriber, struct subscriber, name);
PS_RELATION(call, struct call, serial);
PS_RELATION(bill, struct bill, number);

enum { CENTS = 7, SUBSCRIBERS = 40, CALLS = 300, PROCESSES = 3, MORE = 20 };
static ps_file *file;
static struct subscriber_relation subscribers;
static struct call_relation calls;
static struct bill_relation bills;

static int open_all(void *unused)
{
    ps_part *tuples = ps_file_part(file, "tuples");
    ps_container *index = ps_part_data(ps_file_part(file, "index"));
    (void)unused;
    return subscriber_open(&subscribers, tuples, index) ?: call_open(&calls, tuples, index)
               ?: bill_open(&bills, tuples, index);
}

/* ---- the view: a bill is what its subscriber's calls add up to ---- */

static int bill_add(const struct call *c, int sign)
{
    struct bill *b = bill_change(&bills, &c->from);
    if (!b && errno == ENOENT && bill_insert(&bills, &(struct bill){.number = c->from}) == 0)
        b = bill_change(&bills, &c->from);
    if (!b)
        return -errno;
    b->calls += sign;
    b->cents += sign * (int64_t)c->minutes * CENTS;
    return 0;
}
static int call_out(ps_item_id id, const void *before, size_t bytes)
{
    (void)id, (void)bytes;
    return before ? bill_add(before, -1) : 0;
}
static int call_in(ps_item_id id, const void *after, size_t bytes)
{
    (void)id, (void)bytes;
    return after ? bill_add(after, 1) : 0;
}
static const struct ps_item_type call_type = {.name = "struct call", .update = call_out,
                                              .commit = call_in};

/* ---- transactions ---- */

static uint32_t number_of(unsigned i) { return 5000000 + i * 17; }
static int enrol(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < SUBSCRIBERS; i++) {
        struct subscriber s = {.number = number_of(i), .line = (int)i};
        snprintf(s.name, sizeof s.name, "subscriber %u", i);
        int error = subscriber_insert(&subscribers, &s);
        if (error) return error;
    }
    return 0;
}
static struct call call_of(uint64_t serial)
{
    return (struct call){serial, number_of(serial * 7 % SUBSCRIBERS),
                         number_of(serial * 11 % SUBSCRIBERS), (uint32_t)(serial % 90)};
}
static int ring(void *serial)
{
    struct call c = call_of(*(uint64_t *)serial);
    return call_insert(&calls, &c);
}
static int ring_and_hang_up(void *serial)
{
    int error = ring(serial);
    return error ? error : -ECANCELED;
}
static int ring_twice(void *unused)
{
    uint64_t serial = 1;
    (void)unused;
    int first = ring(&serial);
    return first == -EEXIST ? 0 : -EUCLEAN;
}

/* select name, minutes from subscriber join call on number = from where minutes > 80 */
static int is_long(const struct call *c, void *limit) { return c->minutes > *(uint32_t *)limit; }
static int number_is(const struct subscriber *s, void *number)
{
    return s->number == *(uint32_t *)number;
}
struct joined { unsigned rows, minutes; };
static int join(void *out)
{
    struct joined *j = out;
    uint32_t limit = 80;
    *j = (struct joined){0};
    struct call_selection outer = call_select(&calls, is_long, &limit);
    for (struct call *c; (c = call_next(&outer)) != NULL;) {
        struct subscriber_selection inner = subscriber_select(&subscribers, number_is, &c->from);
        for (const struct subscriber *s; (s = subscriber_next(&inner)) != NULL; j->rows++)
            j->minutes += s->line >= 0 ? c->minutes : 0;
    }
    return -errno;
}

/* update call set minutes = minutes + 1 where minutes > 80 */
static int lengthen(void *rows)
{
    uint32_t limit = 80;
    struct call_selection s = call_update(&calls, is_long, &limit);
    for (struct call *c; (c = call_next(&s)) != NULL; ++*(int *)rows) c->minutes++;
    return -errno;
}
/* delete from call where minutes > 85 */
static int forget(void *rows)
{
    uint32_t limit = 85;
    struct call_selection s = call_update(&calls, is_long, &limit);
    while (call_next(&s)) {
        int error = call_drop(&s);
        if (error) return error;
        ++*(int *)rows;
    }
    return -errno;
}

/* The bills as the calls say, worked out anew. */
static int bills_fit(void *unused)
{
    int64_t cents[SUBSCRIBERS] = {0};
    int count[SUBSCRIBERS] = {0};
    (void)unused;
    struct call_selection s = call_select(&calls, NULL, NULL);
    for (const struct call *c; (c = call_next(&s)) != NULL;) {
        cents[(c->from - 5000000) / 17] += (int64_t)c->minutes * CENTS;
        count[(c->from - 5000000) / 17]++;
    }
    for (unsigned i = 0; i < SUBSCRIBERS; i++) {
        uint32_t number = number_of(i);
        const struct bill *b = bill_find(&bills, &number);
        if (b ? b->cents != cents[i] || b->calls != count[i] : count[i] != 0) return -EUCLEAN;
    }
    return 0;
}
static int64_t rows[3];
static int check(void *unused)
{
    (void)unused;
    rows[0] = ps_relation_check(&subscribers.all);
    rows[1] = ps_relation_check(&calls.all);
    rows[2] = ps_relation_check(&bills.all);
    return rows[0] < 0 || rows[1] < 0 || rows[2] < 0 ? -EUCLEAN : 0;
}

/* ---- what others may do meanwhile ---- */

static int beside(int (*fn)(void *), void *arg)
{
    ps_tx *tx = ps_suspend();
    int result = ps_begin(&(struct ps_options){.apart = 1, .timeout_ms = 20000});
    if (result == 0 && (result = fn(arg)) != -ETIMEDOUT) ps_rollback();
    ps_resume(tx);
    return result;
}
static int look_up(void *unused)
{
    uint64_t serial = 1;
    (void)unused;
    return call_find(&calls, &serial) ? 0 : -errno;
}
static int insert_now(void *unused)
{
    (void)unused;                       /* what subscriber_insert does first */
    return ps_key(ps_part_data(subscribers.all.tuples),
                  (uintptr_t)subscribers.all.index.base.head, PS_IX | PS_NOW);
}
/* The same for a relation of the same container that nobody selects from: only so is it the key,
 * and no lock of the container, that keeps the other one out. */
static int insert_elsewhere(void *unused)
{
    (void)unused;
    return ps_key(ps_part_data(calls.all.tuples), (uintptr_t)calls.all.index.base.head,
                  PS_IX | PS_NOW);
}
static int select_all(void *unused)
{
    (void)unused;
    struct subscriber_selection s = subscriber_select(&subscribers, NULL, NULL);
    while (subscriber_next(&s)) continue;
    return -errno;
}

/* ---- another schema under the same name ---- */

static int open_wrong(void *unused)
{
    struct ps_schema wrong = call_schema_;
    struct ps_relation r;
    (void)unused;
    wrong.index.key_bytes = 4;
    return ps_relation_open(&r, &wrong, calls.all.tuples,
                            ps_part_data(ps_file_part(file, "index")));
}

static int client(unsigned n)
{
    for (uint64_t i = 0; i < MORE; i++) {
        uint64_t serial = 1000 * (n + 1) + i;
        int error = i % 5 == 4 ? ps_transaction(ring_and_hang_up, &serial) + ECANCELED
                               : ps_transaction(ring, &serial);
        if (error) return 1;
    }
    return 0;
}

int main(void)
{
    static const struct ps_part_wish wish[] = {
        {.name = "tuples", .flags = PS_PART_ITEMS | PS_PART_APART | PS_PART_CHECKED},
        {.name = "index"}};
    struct joined j;
    int error = 0, changed = 0, status;
    tap_plan(28);
    is(ps_item_type_add(&call_type), 0, "calls are a type with functions");
    file = ps_file_open("exchange-book", PS_CREATE | PS_WRITE, wish, 2);
    is(file ? ps_transaction(open_all, NULL) : -errno, 0, "DA-47: three relations are made");
    is(ps_transaction(open_all, NULL), 0, "and opened again");
    is(ps_transaction(open_wrong, NULL), -EPROTOTYPE, "DA-47: another schema is refused");
    is(ps_transaction(enrol, NULL), 0, "subscribers are inserted");
    for (uint64_t i = 0; i < CALLS && !error; i++) error = ps_transaction(ring, &i);
    is(error, 0, "calls, each by a transaction");
    is(ps_transaction(ring_twice, NULL), 0, "DA-47: a key is there once");
    is(ps_transaction(check, NULL), 0, "TU1: tuples and indexes fit");
    tap_ok(rows[0] == SUBSCRIBERS && rows[1] == CALLS && rows[2] == SUBSCRIBERS, "all are there");
    is(ps_transaction(bills_fit, NULL), 0, "DA-33: bills, a view, are what the calls say");

    unsigned want_rows = 0, want_minutes = 0;
    for (uint64_t i = 0; i < CALLS; i++) {
        struct call c = call_of(i);
        want_rows += c.minutes > 80;
        want_minutes += c.minutes > 80 ? c.minutes : 0;
    }
    is(ps_transaction(join, &j), 0, "DA-47: a join");
    tap_ok(want_rows > 0 && j.rows == want_rows && j.minutes == want_minutes,
           "finds what it should");
    is(ps_transaction(lengthen, &changed), 0, "DA-47: tuples are updated by a condition");
    is(changed, (long)want_rows, "those that fit");
    is(ps_transaction(bills_fit, NULL), 0, "and the bills with them");
    changed = 0;
    is(ps_transaction(forget, &changed), 0, "DA-47: tuples are deleted by a condition");
    is(ps_transaction(check, NULL), 0, "TU1: and from the index");
    is(rows[1], CALLS - changed, "those that fit");
    is(ps_transaction(bills_fit, NULL), 0, "and the bills with them");

    is(ps_begin(NULL) ?: select_all(NULL), 0, "who selects");
    is(beside(look_up, NULL), 0, "lets others look up");
    is(beside(insert_now, NULL), -EBUSY, "and nobody insert: no phantoms");
    is(beside(insert_elsewhere, NULL), 0, "but into other relations");
    is(ps_commit(), 0, "to its end");

    for (unsigned n = 0; n < PROCESSES; n++)
        if (fork() == 0) _exit(client(n));
    for (error = 0; wait(&status) > 0;) error |= status;
    is(error, 0, "several processes insert, and give some up");
    is(ps_transaction(check, NULL), 0, "TU1: tuples and indexes fit");
    is(rows[1], CALLS - changed + PROCESSES * MORE * 4 / 5, "those that were committed are there");
    is(ps_transaction(bills_fit, NULL), 0, "with their bills");
    return tap_end();
}
