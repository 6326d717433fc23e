/*
 * test_rights_random.c - random operations on directories beside a reference monitor.
 *
 * Aim     no sequence of opens, links, moves, revocations, passed handles and power cuts makes a
 *         right that nobody granted, or takes one that nobody took back (RT6 to RT10).
 * Method  four actors have handles, of which some are stale, and do anything with them. The monitor
 *         keeps containers, grants and entries as three plain lists, and says beforehand what each
 *         call must answer; it knows nothing of serials but that two are never the same. Plans are
 *         committed, refused, or cut off before or behind their commit; in between everything is
 *         compared. `make test` takes 100,000 operations, the long tier five times as many (N=
 *         times 2,000).
 */
#include <stdlib.h>

#include "crew.h"
#include "directory_rig.h"

enum { OPERATIONS = 2000, SEEDS = 100, ACTORS = 4, HANDLES = 8, BOXES = 40, GRANTS = 160, NAMES = 7,
       NONE = -1 };
static const char *const names[NAMES] = { "a", "A", "b", "\xc3\xa4", "a\xcc\x88", " a", "c" };

struct box { bool live, is_directory; uint64_t number; };
struct right { bool live; uint64_t serial; int box, above, in; uint32_t rights; const char *name; };
static struct box box[BOXES];           /* 0: the root */
static struct right right[GRANTS];
static struct directory_at held[ACTORS][HANDLES];
static uint64_t random_state, seed, step, last_serial, last_number;
static uint64_t refused, granted;

#define check(condition) \
    do { \
        if (!(condition)) \
            fail_msg("SEED=%llu, operation %llu, line %d: %s", (unsigned long long)seed, \
                     (unsigned long long)step, __LINE__, #condition); \
    } while (0)

static uint64_t below(uint64_t limit)
{
    return random_below(&random_state, limit);
}

static uint32_t some_rights(void)
{
    uint32_t rights = 0;
    if (below(3) == 0)
        return ALL;
    for (int i = 0; i < 5; i++)
        rights |= below(4) ? DIRECTORY_READ << i : 0;
    return rights | (below(4) ? G : 0);
}

/* ---- the monitor */

struct seen { int error, grant, box, in; uint32_t rights, in_rights; const char *name; bool last; };

static int right_of(uint64_t serial)
{
    for (int i = 0; i < GRANTS; i++)
        if (right[i].live && right[i].serial == serial)
            return i;
    return NONE;
}

static int entry_of(int in, const char *name)
{
    for (int i = 0; i < GRANTS; i++)
        if (right[i].live && right[i].in == in && right[i].name == name)
            return i;
    return NONE;
}

struct way { unsigned parts; const char *part[3]; char text[64]; };

static struct seen walked(struct directory_at from, const struct way *way)
{
    struct seen s = { .grant = right_of(from.serial), .in = NONE, .name = NULL };
    if (s.grant == NONE)
        return (struct seen){ .error = -EIDRM, .grant = NONE };
    s.rights = from.rights & right[s.grant].rights;
    for (unsigned i = 0; i < way->parts; i++) {
        int here = right[s.grant].box;
        if (!box[here].is_directory)
            return (struct seen){ .error = -ENOTDIR, .grant = NONE };
        if (!(s.rights & R))
            return (struct seen){ .error = -EACCES, .grant = NONE };
        s.in = here;
        s.in_rights = s.rights;
        s.name = way->part[i];
        s.last = i + 1 == way->parts;
        s.grant = entry_of(here, way->part[i]);
        if (s.grant == NONE) {
            s.error = -ENOENT;
            return s;
        }
        s.rights &= right[s.grant].rights;
    }
    s.box = right[s.grant].box;
    return s;
}

static bool is_first(int grant)
{
    return right[grant].above == NONE;
}

static bool is_below(int grant, int above)
{
    while (grant != NONE && grant != above)
        grant = right[grant].above;
    return grant == above;
}

static void end_below(int grant, bool itself)
{
    bool gone[GRANTS];
    for (int i = 0; i < GRANTS; i++)
        gone[i] = right[i].live && is_below(i, grant) && (itself || i != grant);
    for (int i = 0; i < GRANTS; i++)
        right[i].live &= !gone[i];
}

static int first_of(int of)
{
    for (int i = 0; i < GRANTS; i++)
        if (right[i].live && right[i].box == of && is_first(i))
            return i;
    return NONE;
}

/* Is the directory `to`, or one above it, this one? */
static bool lies_in(int to, int directory)
{
    while (to != directory && to != 0)
        to = right[first_of(to)].in;
    return to == directory;
}

static unsigned depth_of_box(int of)
{
    unsigned depth = 0;
    for (; of != 0; depth++)
        of = right[first_of(of)].in;
    return depth;
}

static int free_box(void)
{
    int i = 0;
    while (i < BOXES && box[i].live)
        i++;
    return i < BOXES ? i : NONE;
}

static int free_right(void)
{
    int i = 0;
    while (i < GRANTS && right[i].live)
        i++;
    return i < GRANTS ? i : NONE;
}

/* ---- everything is compared */

static void compare_list(int of)
{
    struct directory_entry entry[5];
    struct directory_at from = { right[first_of(of)].serial, ALL };
    uint64_t cursor = 0;
    unsigned count, all = 0, wanted = 0;
    int r;
    do {
        r = directory_list(dir, from, &cursor, entry, 1 + (unsigned)below(5), &count);
        check(r == 0 || r == -ENOENT);
        for (unsigned i = 0; i < count; i++) {
            int g = right_of(entry[i].serial);
            check(g != NONE && right[g].in == of);
            check(strcmp(right[g].name, entry[i].name) == 0);
            check(entry[i].rights == right[g].rights);
            check(entry[i].container == box[right[g].box].number);
            check(entry[i].is_directory == box[right[g].box].is_directory);
        }
        all += count;
    } while (r == 0);
    for (int i = 0; i < GRANTS; i++)
        wanted += right[i].live && right[i].in == of;
    check(all == wanted);
}

static void compare(void)
{
    uint64_t container, links = 0;
    uint32_t rights;
    for (int i = 0; i < GRANTS; i++) {
        if (!right[i].live)
            continue;
        int above = right[i].above;
        links += !is_first(i);
        check(directory_grant(dir, right[i].serial, &container, &rights) == 0);
        check(container == box[right[i].box].number && rights == right[i].rights);
        check(directory_parent(dir, right[i].serial) == (above == NONE ? 0 : right[above].serial));
    }
    check(dir->links == links);
    for (int i = 0; i < BOXES; i++)
        if (box[i].live && box[i].is_directory)
            compare_list(i);
}

static void reopen(void)
{
    dir_reopen();
    check(dir_report.forged + dir_report.dangling + dir_report.lost == 0);
    check(dir->next > last_serial);
    compare();
}

/* ---- what a plan becomes: true, it happened */

static bool becomes(int planned, bool wanted)
{
    check((planned == 0) == wanted);
    granted += planned == 0;
    refused += planned != 0;
    if (planned)
        return false;
    uint64_t how = below(40);
    struct directory_change *change = directory_change(dir);
    if (how == 0) {
        directory_dropped(dir);
        return false;
    }
    if (how == 1) {                     /* cut off before the commit */
        directory_dropped(dir);
        reopen();
        return false;
    }
    check(!change->count || ops_commit(change->ops, change->count) == 0);
    if (how == 2)                       /* durable, and nobody has heard of it */
        dir_reopen();
    else
        directory_applied(dir);
    return true;
}

/* ---- operations */

static struct way some_way(void)
{
    uint64_t which = below(20);
    struct way way = { .parts = which == 0 ? 0 : which < 13 ? 1 : which < 18 ? 2 : 3 };
    for (unsigned i = 0; i < way.parts; i++) {
        way.part[i] = names[below(NAMES)];
        strcat(strcat(way.text, i ? "/" : ""), way.part[i]);
    }
    return way;
}

/* The first actor has the root when it wants; who holds one that is gone often gets another. */
static struct directory_at *some_handle(void)
{
    uint64_t actor = below(ACTORS), given = below(GRANTS);
    struct directory_at *handle = &held[actor][below(HANDLES)];
    if (actor == 0 && below(2))
        *handle = ROOT;
    if (right_of(handle->serial) != NONE || below(10) == 0)
        return handle;
    while (!right[given].live)
        given = below(GRANTS);
    *handle = (struct directory_at){ right[given].serial, some_rights() };
    return handle;
}

/* Mostly of a directory. */
static struct directory_at *some_place(void)
{
    struct directory_at *handle = some_handle();
    for (int i = 0; i < 4; i++) {
        int grant = right_of(handle->serial);
        if (grant != NONE && box[right[grant].box].is_directory && handle->rights & R)
            break;
        handle = some_handle();
    }
    return handle;
}

static bool place_ok(const struct seen *s)
{
    return s->error == -ENOENT && s->last && s->in_rights & W;
}

static void op_walk(struct directory_at *from)
{
    struct way way = some_way();
    struct seen s = walked(*from, &way);
    struct directory_found f;
    int r = directory_walk(dir, *from, way.text, &f);
    check(r == s.error);
    if (r)
        return;
    check(f.serial == right[s.grant].serial && f.rights == s.rights);
    check(f.container == box[s.box].number && !(f.rights & ~from->rights));
    for (int g = s.grant; g != NONE; g = right[g].above)
        check(!(f.rights & ~right[g].rights));          /* nothing that was not granted */
    struct directory_at got = { f.serial, f.rights & some_rights() };
    if (below(2))
        held[(from - held[0]) / HANDLES][below(HANDLES)] = got;
    else if (f.rights & G)
        *some_handle() = got;
}

static void op_make(struct directory_at from)
{
    struct way way = some_way();
    struct seen s = walked(from, &way);
    int b = free_box(), g = free_right();
    bool is_directory = below(3);
    if (b == NONE || g == NONE)
        return;
    bool ok = place_ok(&s) && !(is_directory && depth_of_box(s.in) >= DIRECTORY_DEPTH);
    int r = directory_make(dir, from, way.text, is_directory);
    uint64_t number = dir->change.container, serial = dir->change.serial;
    if (!becomes(r, ok))
        return;
    check(number > last_number);
    last_number = number;
    box[b] = (struct box){ true, is_directory, number };
    right[g] = (struct right){ true, serial, b, NONE, s.in, ALL, s.name };
    *some_handle() = (struct directory_at){ serial, ALL };
}

static void op_link(struct directory_at of, struct directory_at to)
{
    struct way way = some_way();
    struct seen s = walked(to, &way);
    int from = right_of(of.serial), g = free_right();
    uint32_t asked = some_rights();
    if (g == NONE)
        return;
    uint32_t has = from == NONE ? 0 : of.rights & right[from].rights;
    int r = directory_link(dir, of, asked, to, way.text);
    uint64_t serial = dir->change.serial;
    bool root_made = box[0].live && dir->plan_root;
    if (!becomes(r, has & G && has & asked && place_ok(&s)))
        return;
    check(serial > last_serial);
    last_serial = serial;
    if (root_made)
        last_number = dir->root;
    right[g] = (struct right){ true, serial, right[from].box, from, s.in, has & asked, s.name };
}

static void op_unlink(struct directory_at from)
{
    struct way way = some_way();
    struct seen s = walked(from, &way);
    bool ok = s.error == 0 && s.in != NONE && s.in_rights & W && !is_first(s.grant), child = false;
    for (int i = 0; ok && i < GRANTS; i++)
        child |= right[i].live && right[i].above == s.grant;
    if (becomes(directory_unlink(dir, from, way.text), ok && (!child || s.rights & M)))
        end_below(s.grant, true);
}

static void op_move(struct directory_at from, struct directory_at to)
{
    struct way way = some_way(), target = some_way();
    struct seen s = walked(from, &way), t = walked(to, &target);
    bool ok = s.error == 0 && s.in != NONE && s.in_rights & N;
    bool same = ok && t.error == 0 && t.in == s.in && t.name == s.name;
    ok = ok && (same || (t.error == -ENOENT && t.last));
    if (ok && t.in != s.in)
        ok = t.in_rights & W && !((right[s.grant].rights | G) & ~s.rights);
    if (ok && is_first(s.grant) && box[s.box].is_directory)
        ok = !lies_in(t.in, s.box);
    if (becomes(directory_move(dir, from, way.text, to, target.text), ok)) {
        right[s.grant].in = t.in;
        right[s.grant].name = t.name;
    }
}

static void op_remove(struct directory_at from)
{
    struct way way = some_way();
    struct seen s = walked(from, &way);
    bool ok = s.error == 0 && s.in != NONE && s.in_rights & s.rights & D && s.box != 0;
    for (int i = 0; ok && i < GRANTS; i++)
        ok = !(right[i].live && right[i].in == s.box);
    if (!becomes(directory_remove(dir, from, way.text, NULL), ok))
        return;
    box[s.box].live = false;
    for (int i = 0; i < GRANTS; i++)
        right[i].live &= right[i].box != s.box;
}

static void op_take_back(struct directory_at by)
{
    int from = right_of(by.serial), target = (int)below(GRANTS);
    for (int i = 0; i < 8 && (!right[target].live || is_first(target)); i++)
        target = (int)below(GRANTS);
    bool any = false;
    if (below(10) == 0 && from != NONE)
        target = from;
    uint64_t serial = right[target].serial;     /* perhaps of one that is gone */
    bool ok = from != NONE && by.rights & right[from].rights & M && right[target].live &&
              is_below(target, from);
    for (int i = 0; ok && i < GRANTS; i++)
        any |= right[i].live && right[i].above == target;
    int r = directory_take_back(dir, by, serial);
    if (becomes(r, ok && (target != from || any)))
        end_below(target, target != from);
}

static void operate(void)
{
    struct directory_at *from = some_place(), *other = some_place();
    switch (below(20)) {
    case 0: case 1: case 2: case 3: case 4: op_walk(from); break;
    case 5: case 6: op_make(*from); break;
    case 7: case 8: case 9: case 10: case 11: op_link(*some_handle(), *other); break;
    case 12: op_unlink(*from); break;
    case 13: case 14: op_move(*from, *other); break;
    case 15:
        if (below(4) == 0)
            op_remove(*from);
        break;
    case 16: op_take_back(*some_handle()); break;
    case 17: *other = (struct directory_at){ from->serial, from->rights & some_rights() }; break;
    default: held[0][below(HANDLES)] = ROOT;
    }
    if (below(50) == 0)
        compare();
    if (below(100) == 0)
        reopen();
}

static void one_seed(void)
{
    random_state = seed;
    memset(box, 0, sizeof box);
    memset(right, 0, sizeof right);
    memset(held, 0, sizeof held);
    last_serial = 0;
    dir_make(16 << 20, 256 << 10);
    last_number = object;
    box[0] = (struct box){ true, true, DIRECTORY_ROOT };
    box[1] = (struct box){ true, false, object };
    right[0] = (struct right){ true, DIRECTORY_ROOT_SERIAL, 0, NONE, NONE, ALL, NULL };
    right[1] = (struct right){ true, DIRECTORY_FIRST | object, 1, NONE, 0, ALL, names[6] };
    held[0][0] = ROOT;
    for (step = 1; step <= OPERATIONS; step++)
        operate();
    compare();
    reopen();
    dir_unmake();
}

static void random_operations_grant_what_the_monitor_grants(void **state)
{
    const char *given = getenv("SEED");
    uint64_t first = given ? strtoull(given, NULL, 10) : 1, count = given ? 1 : crew_count(SEEDS);
    (void)state;
    refused = granted = 0;
    for (seed = first; seed < first + count; seed++)
        one_seed();
    printf("# %llu operations: %llu changes, %llu refused\n",
           (unsigned long long)(count * OPERATIONS), (unsigned long long)granted,
           (unsigned long long)refused);
    assert_true(given || granted > count * OPERATIONS / 20);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_operations_grant_what_the_monitor_grants),
    };
    (void)argc;
    crew_begin(argv[0]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
