/*
 * oo1.c - OO1's application: creation, look-up, traversal, insertion.
 *
 *   oo1 create PARTS          makes the database, anew
 *   oo1 run PARTS ROUNDS      look-ups, traversals, reverse ones and two kinds of insertions, so
 *                             often each
 *   oo1 check PARTS           that all is as it must be; says what it is
 *   oo1 all PARTS ROUNDS      all three in one process
 *   oo1 warm PARTS ROUNDS     the check, by which all is in memory, then look-ups and traversals
 *
 * PARTS: as many as it was created with. `run` prints a line for each round: operation, round,
 * instructions, pages read, flushes, calls of the null procedure, checksum.
 */
#include "oo1.schema.h"
#include "workload.h"

#include <pstore.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PARTS_MAX = 2100000, BATCH = 5000 };
static struct part_table part;
static struct connect_table connect;
static int32_t parts_max;

static _Noreturn void fail(const char *what, int error)
{
    fprintf(stderr, "oo1: %s: %s\n", what, ps_strerror(error));
    exit(1);
}

static int begin(enum ps_mode mode)
{
    int error = part_begin(&part, mode);
    return error ? error : connect_begin(&connect, mode);
}

static void tables_open(int32_t parts)
{
    parts_max = parts + parts / 10 + 1000;
    int error = part_open(&part, (uint64_t)parts_max);
    if (error == 0)
        error = connect_open(&connect, (uint64_t)parts_max * LINKS);
    if (error)
        fail("opening the database", error);
}

static void tables_close(void)
{
    int error = part_close(&part);
    if (error == 0)
        error = connect_close(&connect);
    if (error)
        fail("closing the database", error);
}

/* ---- creation ---- */

static int set_up(void *unused)
{
    (void)unused;
    int error = part_set_up(&part);
    return error ? error : connect_set_up(&connect);
}

static struct part part_draw(struct draws *d, int32_t id)
{
    struct part_values v = draw_part(d);
    struct part row = {.id = id, .x = v.x, .y = v.y, .build = v.build};
    memcpy(row.type, v.type, sizeof row.type);
    return row;
}

/* Three connections to different parts: a key that is there is drawn again. */
static int connections_add(struct draws *d, int32_t from, int32_t count, int anywhere)
{
    for (int made = 0; made < LINKS;) {
        struct connect row = {.from = from, .length = (int32_t)draw(d, RANGE)};
        row.to = anywhere ? 1 + (int32_t)draw(d, (uint32_t)count) : draw_end(d, from, count);
        draw_type(d, row.type);
        int error = connect_insert(&connect, &row);
        if (error && error != -EEXIST)
            return error;
        made += error == 0;
    }
    return 0;
}

struct batch { int32_t first, end, parts; };

static int parts_create(void *arg)
{
    const struct batch *b = arg;
    struct draws d = draws_of((uint64_t)b->first);
    int error = begin(PS_CHANGE);
    for (int32_t id = b->first; id < b->end && error == 0; id++) {
        struct part row = part_draw(&d, id);
        error = part_insert(&part, &row);
    }
    return error;
}

static int connections_create(void *arg)
{
    const struct batch *b = arg;
    struct draws d = draws_of((uint64_t)b->first + PARTS_MAX);
    int error = begin(PS_CHANGE);
    for (int32_t id = b->first; id < b->end && error == 0; id++)
        error = connections_add(&d, id, b->parts, 0);
    return error;
}

static void create(int32_t parts)
{
    int error = storage_operation(set_up, NULL, 1);
    for (int pass = 0; pass < 2; pass++)
        for (int32_t id = 1; id <= parts && error == 0; id += BATCH) {
            struct batch b = {id, id + BATCH <= parts ? id + BATCH : parts + 1, parts};
            error = storage_operation(pass ? connections_create : parts_create, &b, 1);
        }
    if (error)
        fail("creation", error);
}

/* ---- the operations ---- */

struct task { uint64_t seed; };

static int32_t count(void) { return (int32_t)part_count(&part); }

static int look_up(void *arg)
{
    struct draws d = draws_of(((const struct task *)arg)->seed);
    int error = begin(PS_LOOK);
    for (int i = 0; i < LOOKUPS && error == 0; i++) {
        const struct part *p = part_by_id(&part, 1 + (int32_t)draw(&d, (uint32_t)count()));
        if (!p)
            return -errno;
        procedure(p->x, p->y, p->type);
    }
    return error;
}

static int visit(int32_t id)
{
    const struct part *p = part_by_id(&part, id);
    if (!p)
        return -errno;
    procedure(p->x, p->y, p->type);
    return 0;
}

static int go(int32_t id, int hops)
{
    struct connect_by_from_range r;
    const struct connect *c;
    int error = visit(id);
    if (error || hops == 0 || (error = connect_by_from(&r, &connect, id)))
        return error;
    while (error == 0 && (c = connect_by_from_next(&r)))
        error = go(c->to, hops - 1);
    return error ? error : -errno;
}

static int go_back(int32_t id, int hops)
{
    struct connect_by_to_range r;
    const struct connect *c;
    int error = visit(id);
    if (error || hops == 0 || (error = connect_by_to(&r, &connect, id)))
        return error;
    while (error == 0 && (c = connect_by_to_next(&r)))
        error = go_back(c->from, hops - 1);
    return error ? error : -errno;
}

static int traverse(void *arg)
{
    struct draws d = draws_of(((const struct task *)arg)->seed);
    int error = begin(PS_LOOK);
    return error ? error : go(1 + (int32_t)draw(&d, (uint32_t)count()), HOPS);
}

static int traverse_back(void *arg)
{
    struct draws d = draws_of(((const struct task *)arg)->seed);
    int error = begin(PS_LOOK);
    return error ? error : go_back(1 + (int32_t)draw(&d, (uint32_t)count()), HOPS);
}

/* A hundred parts behind all others, connected to parts that were there before: by the rule of the
 * database, or to any. */
static int insert_parts(void *arg, int anywhere)
{
    struct draws d = draws_of(((const struct task *)arg)->seed);
    int error = begin(PS_CHANGE);
    int32_t first = error ? 0 : count() + 1;
    for (int32_t id = first; id < first + INSERTS && error == 0; id++) {
        struct part row = part_draw(&d, id);
        procedure(row.x, row.y, row.type);
        error = part_insert(&part, &row);
        if (error == 0)
            error = connections_add(&d, id, first - 1, anywhere);
    }
    return error;
}

static int insert(void *arg) { return insert_parts(arg, 0); }
static int insert_anywhere(void *arg) { return insert_parts(arg, 1); }

static const struct { const char *name; int (*run)(void *), changes; } operations[] = {
    {"lookup", look_up, 0},
    {"traversal", traverse, 0},
    {"reverse", traverse_back, 0},
    {"insert", insert, 1},
    {"insert-anywhere", insert_anywhere, 1},
};
enum { OPERATIONS = sizeof operations / sizeof operations[0], LOOKS = 2 };

static void run(int most, int rounds)
{
    for (int i = 0; i < most; i++)
        for (int round = 1; round <= rounds; round++) {
            struct task task = {(uint64_t)(i * 1000 + round)};
            procedure_sum();
            procedure_calls();
            struct storage_costs from = storage_costs();
            int error = storage_operation(operations[i].run, &task, operations[i].changes);
            struct storage_costs to = storage_costs();
            if (error)
                fail(operations[i].name, error);
            printf("%s\t%d\t%lu\t%lu\t%lu\t%lu\t%016lx\n", operations[i].name, round,
                   to.instructions - from.instructions, to.pages_read - from.pages_read,
                   to.flushes - from.flushes, procedure_calls(), procedure_sum());
        }
}

/* ---- the check ---- */

struct found { uint64_t parts, connections, near, sum, types; int32_t least[4], most[4]; };

static void note(struct found *f, int which, int32_t value)
{
    if (value < f->least[which])
        f->least[which] = value;
    if (value > f->most[which])
        f->most[which] = value;
}

static int part_check(struct found *f, int32_t id, int32_t created)
{
    struct connect_by_from_range r;
    const struct part *p = part_by_id(&part, id);
    int links = 0, error;
    if (!p || p->id != id)
        return -EUCLEAN;
    note(f, 0, p->x);
    note(f, 1, p->y);
    note(f, 2, p->build);
    f->types |= 1u << (p->type[TYPE_BYTES - 1] - '0');
    f->sum = f->sum * 31 + (uint64_t)p->x * 7 + (uint64_t)p->y;
    if ((error = connect_by_from(&r, &connect, id)))
        return error;
    for (const struct connect *c; (c = connect_by_from_next(&r)); links++) {
        note(f, 3, c->length);
        f->near += id <= created && (uint64_t)is_near(id, c->to, created);
        f->sum = f->sum * 31 + (uint64_t)c->to;
        if (c->from != id || !connect_by_from_to(&connect, id, c->to))
            return -EUCLEAN;
    }
    f->parts++;
    f->connections += (uint64_t)links;
    return links == LINKS ? 0 : -EUCLEAN;
}

static int tree_check(const struct ps_tree_access *a, uint64_t records)
{
    struct ps_tree_stats stats;
    const char *why;
    int error = ps_tree_check(a, &stats, &why);
    if (error)
        fprintf(stderr, "oo1: %s\n", why);
    return error ? error : stats.records == records ? 0 : -EUCLEAN;
}

static int trees_check(void)
{
    uint64_t parts = part_count(&part), connections = connect_count(&connect);
    int error = index_look(&part.by_id);
    if (error == 0)
        error = tree_check(&part.keyed_by_id.access, parts);
    if (error == 0 && (error = index_look(&connect.by_from_to)) == 0)
        error = tree_check(&connect.keyed_by_from_to.access, connections);
    if (error == 0 && (error = index_look(&connect.by_from)) == 0)
        error = tree_check(&connect.keyed_by_from.access, connections);
    if (error == 0 && (error = index_look(&connect.by_to)) == 0)
        error = tree_check(&connect.keyed_by_to.access, connections);
    return error;
}

struct checking { struct found found; int32_t created; };

static int check_all(void *arg)
{
    struct checking *c = arg;
    struct found *f = &c->found;
    *f = (struct found){.least = {RANGE, RANGE, RANGE, RANGE}, .most = {-1, -1, -1, -1}};
    int error = begin(PS_LOOK);
    for (int32_t id = 1; error == 0 && id <= count(); id++)
        error = part_check(f, id, c->created);
    return error ? error : trees_check();
}

static void check(int32_t created)
{
    struct checking c = {.created = created};
    int error = storage_operation(check_all, &c, 0);
    if (error)
        fail("check", error);
    const struct found *f = &c.found;
    printf("%lu parts, %lu connections, %lu in 1000 near, types %lx, x %d to %d, y %d to %d, "
           "built %d to %d, length %d to %d, sum %016lx, sound\n",
           f->parts, f->connections, f->near * 1000 / ((uint64_t)created * LINKS), f->types,
           f->least[0], f->most[0], f->least[1], f->most[1], f->least[2], f->most[2],
           f->least[3], f->most[3], f->sum);
}

/* ---- the command ---- */

static int number(const char *text, int least, int most)
{
    char *end;
    long n = strtol(text, &end, 10);
    return *end || end == text || n < least || n > most ? -1 : (int)n;
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    int all = strcmp(what, "all") == 0;
    int32_t parts = argc > 2 ? number(argv[2], 20, PARTS_MAX) : -1;
    int rounds = argc > 3 ? number(argv[3], 1, 1000) : -1;
    int makes = all || strcmp(what, "create") == 0, warm = strcmp(what, "warm") == 0,
        runs = all || warm || strcmp(what, "run") == 0,
        checks = all || strcmp(what, "check") == 0;
    if (parts < 0 || argc != (runs ? 4 : 3) || (runs && rounds < 0) || !(makes || runs || checks))
        return fprintf(stderr, "use: oo1 create PARTS | check PARTS | run PARTS ROUNDS | "
                               "all PARTS ROUNDS | warm PARTS ROUNDS (20 to %d parts)\n",
                       PARTS_MAX), 2;
    int error = makes ? storage_delete() : 0;
    if (error && error != -ENOENT)
        fail("deleting the old database", error);
    tables_open(parts);
    if (makes)
        create(parts);
    if (warm)
        check(parts);
    if (runs)
        run(warm ? LOOKS : OPERATIONS, rounds);
    if (checks)
        check(parts);
    tables_close();
    return 0;
}
