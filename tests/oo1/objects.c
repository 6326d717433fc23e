/*
 * objects.c - OO1 without files and rows: parts and connections are objects, and connections are
 * pointers. A tree leads from an id to its part.
 *
 *   oo1-objects create WHERE GROWTH PARTS        makes the database, anew
 *   oo1-objects run WHERE GROWTH PARTS ROUNDS    as `oo1 run` does
 *   oo1-objects check WHERE GROWTH PARTS         that all is as it must be; says what it is
 *   oo1-objects all WHERE GROWTH PARTS ROUNDS    all three in one process
 *
 * WHERE an object lies: `heap` is that of the C library, to compare with; the others are
 * containers: `order` of creation, `congeries` (one for each 1 % of the ids), `near` (a connection
 * at its part, a part at one with a near id). GROWTH: ids come `ordered`, as OO1 has them, or at
 * `random`; and so do the connections of parts.
 *
 * `run` prints operation, round, instructions, pages read, flushes, calls, checksum, and how many
 * different pages the objects lie in that the operation came to. Operations that change nothing are
 * done a second time, with "-again".
 */
#include "storage.h"
#include "workload.h"

#include <congeries.h>
#include <pstore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <structures/tree.h>

struct connection;
struct part {
    int32_t id, x, y, build;
    struct connection *out[LINKS], *in; /* in: the first that leads here */
    char type[TYPE_BYTES];
};
struct connection {
    struct part *from, *to;
    struct connection *next_in;         /* that leads to the same part */
    int32_t length;
    char type[TYPE_BYTES];
};
struct id { int32_t n; };
static int by_id(const struct id *a, const struct id *b) { return (a->n > b->n) - (a->n < b->n); }
PS_TREE(parts, struct id, struct part *, by_id);

enum { GROUPS = 100, BATCH = 500, PAGES_MAX = 1 << 16, PARTS_MAX = 2100000 };
struct database {
    struct parts_head parts;
    int32_t count, created;
    ps_congeries *group[GROUPS];
};

enum where { HEAP, ORDER, CONGERIES, NEAR, WHERES };
static const char *const wheres[WHERES] = {"heap", "order", "congeries", "near"};
static enum where where;
static int is_random;
static ps_container *container;
static struct database on_heap;
static struct database *database;
static struct parts parts;
static int32_t *order;                  /* of the ids at creation; volatile */

static _Noreturn void fail(const char *what, int error)
{
    fprintf(stderr, "oo1-objects: %s: %s\n", what, ps_strerror(error));
    exit(1);
}

/* ---- where objects lie ---- */

static void *take(int32_t id, size_t bytes, const void *near, const char *type)
{
    switch (where) {
    case HEAP: return calloc(1, bytes);
    case ORDER: return ps_alloc_as(container, bytes, NULL, type);
    case NEAR: return ps_alloc_as(container, bytes, near, type);
    default: break;
    }
    int64_t group = (int64_t)(id - 1) * GROUPS / database->created;
    return ps_alloc_in(database->group[group < GROUPS ? group : GROUPS - 1], bytes, NULL, type);
}

static int operation(int (*function)(void *), void *arg)
{
    return where == HEAP ? function(arg) : ps_transaction(function, arg);
}

static int place(void)
{
    database = where == HEAP ? &on_heap : ps_root(container);
    if (!database)
        return -errno;
    parts = (struct parts){.head = &database->parts,
                           .memory = where == HEAP ? ps_volatile() : ps_in(container)};
    return 0;
}

/* ---- parts and connections ---- */

static struct part *find(struct parts_keyed *a, int32_t id)
{
    struct part *const *p = parts_find(a, &(struct id){id});
    return p ? *p : NULL;
}

/* A part with a near id, to lie at: one of a few before and behind it. */
static const struct part *neighbour(struct parts_keyed *a, int32_t id)
{
    struct part *found = NULL;
    for (int32_t far = 1; far <= 4 && !found && where == NEAR; far++)
        if (!(found = find(a, id - far)))
            found = find(a, id + far);
    return found;
}

static int part_add(struct parts_keyed *a, struct draws *d, int32_t id, struct part **made)
{
    struct part_values v = draw_part(d);
    struct part *p = take(id, sizeof *p, neighbour(a, id), "struct part");
    *made = p;
    if (!p)
        return -errno;
    *p = (struct part){.id = id, .x = v.x, .y = v.y, .build = v.build};
    memcpy(p->type, v.type, sizeof p->type);
    procedure(p->x, p->y, p->type);
    database->count++;
    return parts_insert(a, &(struct id){id}, &p);
}

static int is_connected(const struct part *from, const struct part *to, int made)
{
    for (int i = 0; i < made; i++)
        if (from->out[i]->to == to)
            return 1;
    return 0;
}

static int connections_add(struct parts_keyed *a, struct draws *d, struct part *from,
                           int32_t count, int anywhere)
{
    const int32_t id = from ? from->id : 0;
    for (int made = 0; from && made < LINKS;) {
        int32_t end = anywhere ? 1 + (int32_t)draw(d, (uint32_t)count) : draw_end(d, id, count);
        struct part *to = find(a, end);
        if (!to || is_connected(from, to, made))
            continue;
        struct connection *c = take(id, sizeof *c, from, "struct connection");
        if (!c)
            return -errno;
        *c = (struct connection){from, to, to->in, (int32_t)draw(d, RANGE), {0}};
        draw_type(d, c->type);
        to->in = c;
        from->out[made++] = c;
    }
    return from ? 0 : -EUCLEAN;
}

/* ---- creation ---- */

static int set_up(void *created)
{
    int error = place();
    if (error)
        return error;
    database->created = *(int32_t *)created;
    for (int i = 0; i < GROUPS && where == CONGERIES; i++)
        if (!(database->group[i] = ps_congeries_make(container, NULL, NULL)))
            return -errno;
    return parts_set_up(&parts);
}

struct batch { int32_t first, end; int connects; };

static int batch_create(void *arg)
{
    const struct batch *b = arg;
    int error = place();
    PS_ACCESS(parts_keyed, a, &parts, PS_CHANGE);
    for (int32_t i = b->first; i < b->end && error == 0; i++) {
        int32_t id = order[i];
        struct draws d = draws_of((uint64_t)id + (b->connects ? PARTS_MAX : 0));
        struct part *p;
        error = b->connects ? connections_add(&a, &d, find(&a, id), database->created, 0)
                            : part_add(&a, &d, id, &p);
    }
    return error;
}

static void order_make(int32_t count)
{
    struct draws d = draws_of(7);
    order = malloc((size_t)count * sizeof *order);
    if (!order)
        fail("the order of creation", ENOMEM);
    for (int32_t i = 0; i < count; i++) {
        int32_t other = is_random ? (int32_t)draw(&d, (uint32_t)i + 1) : i;
        order[i] = order[other];
        order[other] = i + 1;
    }
}

static void create(int32_t count)
{
    int error = operation(set_up, &count);
    order_make(count);
    for (int pass = 0; pass < 2; pass++)
        for (int32_t i = 0; i < count && error == 0; i += BATCH) {
            struct batch b = {i, i + BATCH < count ? i + BATCH : count, pass};
            error = operation(batch_create, &b);
        }
    if (error)
        fail("creation", error);
}

/* ---- the operations ---- */

/* The pages of objects that an operation has come to: a table of addresses; NULL while nobody
 * counts, so that counting does not count. */
static uint64_t *touched;

static void touch(const void *p)
{
    uint64_t page = (uintptr_t)p >> 12, at = page * 0x9e3779b97f4a7c15u >> 48;
    if (!touched)
        return;
    while (touched[at % PAGES_MAX] && touched[at % PAGES_MAX] != page)
        at++;
    touched[at % PAGES_MAX] = page;
}

static int visit(const struct part *p)
{
    touch(p);
    procedure(p->x, p->y, p->type);
    return 0;
}

struct task { uint64_t seed; };

static int look_up(void *arg)
{
    struct draws d = draws_of(((const struct task *)arg)->seed);
    int error = place();
    PS_ACCESS(parts_keyed, a, &parts, PS_LOOK);
    for (int i = 0; i < LOOKUPS && error == 0; i++) {
        const struct part *p = find(&a, 1 + (int32_t)draw(&d, (uint32_t)database->count));
        if (!p)
            return -errno;
        visit(p);
    }
    return error;
}

static void go(const struct part *p, int hops)
{
    visit(p);
    for (int i = 0; i < LINKS && hops > 0; i++) {
        touch(p->out[i]);
        go(p->out[i]->to, hops - 1);
    }
}

static void go_back(const struct part *p, int hops)
{
    visit(p);
    for (const struct connection *c = hops > 0 ? p->in : NULL; c; c = c->next_in) {
        touch(c);
        go_back(c->from, hops - 1);
    }
}

static int start(void *arg, void (*walk)(const struct part *, int))
{
    struct draws d = draws_of(((const struct task *)arg)->seed);
    int error = place();
    if (error)
        return error;
    PS_ACCESS(parts_keyed, a, &parts, PS_LOOK);
    const struct part *p = find(&a, 1 + (int32_t)draw(&d, (uint32_t)database->count));
    if (p)
        walk(p, HOPS);
    return p ? 0 : -errno;
}

static int traverse(void *arg) { return start(arg, go); }
static int traverse_back(void *arg) { return start(arg, go_back); }

static int insert_parts(void *arg, int anywhere)
{
    struct draws d = draws_of(((const struct task *)arg)->seed);
    int error = place();
    if (error)
        return error;
    PS_ACCESS(parts_keyed, a, &parts, PS_CHANGE);
    int32_t first = database->count + 1;
    for (int32_t id = first; id < first + INSERTS && error == 0; id++) {
        struct part *p;
        if ((error = part_add(&a, &d, id, &p)) == 0)
            error = connections_add(&a, &d, p, first - 1, anywhere);
    }
    return error;
}

static int insert(void *arg) { return insert_parts(arg, 0); }
static int insert_anywhere(void *arg) { return insert_parts(arg, 1); }

static const struct { const char *name, *again; int (*run)(void *); } operations[] = {
    {"traversal", "traversal-again", traverse}, /* first: after a boot it is a cold one */
    {"lookup", "lookup-again", look_up},
    {"reverse", "reverse-again", traverse_back},
    {"insert", NULL, insert},
    {"insert-anywhere", NULL, insert_anywhere},
};
enum { OPERATIONS = sizeof operations / sizeof operations[0] };

/* How many pages; a run of its own. */
static unsigned pages_of(int (*run)(void *), struct task *task)
{
    unsigned pages = 0;
    touched = calloc(PAGES_MAX, sizeof *touched);
    if (!touched || operation(run, task))
        fail("counting pages", ENOMEM);
    for (unsigned i = 0; i < PAGES_MAX; i++)
        pages += touched[i] != 0;
    free(touched);
    touched = NULL;
    return pages;
}

static void once(const char *name, int round, int (*run)(void *), int changes, uint64_t seed)
{
    struct task task = {seed};
    procedure_sum();
    procedure_calls();
    struct storage_costs from = storage_costs();
    int error = operation(run, &task);
    struct storage_costs to = storage_costs();
    uint64_t calls = procedure_calls(), sum = procedure_sum();
    if (error)
        fail(name, error);
    printf("%s\t%d\t%lu\t%lu\t%lu\t%lu\t%016lx\t%u\n", name, round,
           to.instructions - from.instructions, to.pages_read - from.pages_read,
           to.flushes - from.flushes, calls, sum, changes ? 0 : pages_of(run, &task));
}

/* Look-ups and walks, a second time, and then what changes the database. */
static void run(int rounds)
{
    for (int pass = 0; pass < 3; pass++)
        for (int i = 0; i < OPERATIONS; i++)
            for (int round = 1; round <= rounds && (pass == 2) == !operations[i].again; round++)
                once(pass == 1 ? operations[i].again : operations[i].name, round,
                     operations[i].run, pass == 2, (uint64_t)(i * 1000 + round));
}

/* ---- the check ---- */

struct found { uint64_t parts, connections, in, near, sum; const char *why; };

static int part_check(struct found *f, const struct part *p, int32_t id)
{
    if (p->id != id)
        return -EUCLEAN;
    for (int i = 0; i < LINKS; i++) {
        const struct connection *c = p->out[i];
        if (!c || c->from != p || is_connected(p, c->to, i))
            return -EUCLEAN;
        f->near += id <= database->created && is_near(id, c->to->id, database->created);
        f->sum = f->sum * 31 + (uint64_t)c->to->id;
    }
    for (const struct connection *c = p->in; c; c = c->next_in, f->in++)
        if (c->to != p)
            return -EUCLEAN;
    f->parts++;
    f->connections += LINKS;
    f->sum = f->sum * 31 + (uint64_t)p->x * 7 + (uint64_t)p->y;
    return 0;
}

static int check_all(void *arg)
{
    struct found *f = arg;
    struct ps_tree_stats stats;
    *f = (struct found){0};
    int error = place();
    if (error)
        return error;
    PS_ACCESS(parts_keyed, a, &parts, PS_LOOK);
    if ((error = ps_tree_check(&a.access, &stats, &f->why)))
        return error;
    for (int32_t id = 1; id <= database->count && error == 0; id++) {
        const struct part *p = find(&a, id);
        error = p ? part_check(f, p, id) : -EUCLEAN;
    }
    return error           ? error
           : f->in == f->connections && stats.records == f->parts ? 0 : -EUCLEAN;
}

static void check(int32_t count)
{
    struct found f;
    int error = operation(check_all, &f);
    if (error)
        fail(f.why ? f.why : "check", error);
    printf("%lu parts, %lu connections, %lu in 1000 near, sum %016lx, sound\n", f.parts,
           f.connections, f.near * 1000 / ((uint64_t)count * LINKS), f.sum);
}

/* ---- the command ---- */

static void container_open(int anew)
{
    char name[64];
    if (where == HEAP)
        return;
    snprintf(name, sizeof name, "oo1-%s-%s", wheres[where], is_random ? "random" : "ordered");
    int error = anew ? ps_delete(name) : 0;
    if (error && error != -ENOENT)
        fail(name, error);
    container = ps_open(name, PS_CREATE | PS_WRITE, PS_LAYOUT(struct database, 1));
    if (!container)
        fail(name, errno);
}

static int number(const char *text, int least, int most)
{
    char *end;
    long n = strtol(text, &end, 10);
    return *end || end == text || n < least || n > most ? -1 : (int)n;
}

int main(int argc, char **argv)
{
    const char *what = argc >= 5 ? argv[1] : "";
    int all = strcmp(what, "all") == 0, makes = all || strcmp(what, "create") == 0,
        runs = all || strcmp(what, "run") == 0, checks = all || strcmp(what, "check") == 0;
    while (argc >= 5 && where < WHERES && strcmp(argv[2], wheres[where]) != 0)
        where++;
    is_random = argc >= 5 && strcmp(argv[3], "random") == 0;
    int32_t count = argc >= 5 ? number(argv[4], 20, PARTS_MAX) : -1;
    int rounds = argc == 6 ? number(argv[5], 1, 900) : 1;
    if (count < 0 || rounds < 0 || where == WHERES || argc != 5 + runs ||
        !(makes || runs || checks) || (!is_random && strcmp(argv[3], "ordered") != 0))
        return fprintf(stderr, "use: oo1-objects create|run|check|all heap|order|congeries|near "
                               "ordered|random PARTS [ROUNDS of run and all]\n"), 2;
    container_open(makes);
    if (makes)
        create(count);
    if (runs)
        run(rounds);
    if (checks)
        check(count);
    return 0;
}
