/*
 * pstore_object.c - objects of classes, and sets of them: the parts of a house and its rooms.
 *
 * Aim     DA-47: objects have identity, a class whose ones above are theirs, methods found by the
 *         class and not by a kept pointer; sets of them are added to, asked, gone through; extents
 *         hold what is below a class; a deleted object is stale wherever its identifier lies; what
 *         another process commits is there, and what is undone is not.
 * Method  a small model of a building, by one program; children of fork that build at once.
 */
#include <errno.h>
#include <object.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pstore_test.h"

/* ---- classes: what a thing is worth is asked of its own class ---- */

struct thing { int64_t cents; ps_item_id in; };             /* in: the room that it is in */
struct lamp { struct thing thing; int32_t watts, lit; };
struct room { struct thing thing; ps_item_id things; };     /* a set */
struct methods { int64_t (*worth)(ps_item_id id); };

static ps_file *file;
static ps_part *objects;
static ps_container *nodes;
static const struct ps_class thing_class, lamp_class, room_class;

static int64_t worth(ps_item_id id)
{
    const struct methods *m = ps_object_methods(id);
    return m ? m->worth(id) : -errno;
}
static int64_t thing_worth(ps_item_id id)
{
    const struct thing *t = ps_object_open(id, &thing_class, PS_S);
    return t ? t->cents : -errno;
}
static int add_worth(ps_item_id member, void *sum)
{
    int64_t w = worth(member);
    *(int64_t *)sum += w > 0 ? w : 0;
    return w < 0 ? (int)w : 0;
}
static int64_t room_worth(ps_item_id id)
{
    const struct room *r = ps_object_open(id, &room_class, PS_S);
    int64_t sum = r ? r->thing.cents : 0;
    int error = r ? ps_set_each(&(struct ps_set){r->things, nodes}, add_worth, &sum) : -errno;
    return error ? error : sum;
}
static const struct methods thing_methods = {thing_worth}, room_methods = {room_worth};
static const struct ps_class thing_class = {"thing", NULL, sizeof(struct thing), &thing_methods,
                                            NULL};
static const struct ps_class lamp_class = {"lamp", &thing_class, sizeof(struct lamp), NULL, NULL};
static const struct ps_class room_class = {"room", &thing_class, sizeof(struct room), &room_methods,
                                           NULL};

/* ---- a house ---- */

enum { THINGS = 30, LAMPS = 10, PROCESSES = 3, MORE = 15 };

static ps_item_id room_make(const char *name)
{
    ps_item_id id = ps_object_make(objects, &room_class), things = ps_set_make(objects, nodes);
    struct room *r = id && things ? ps_object_open(id, &room_class, PS_X) : NULL;
    if (!r || ps_object_name(nodes, name, id)) return 0;
    r->things = things;
    return id;
}
static int put_into(const char *name, const struct ps_class *class, int64_t cents)
{
    ps_item_id room = ps_object_named(nodes, name), id = ps_object_make(objects, class);
    const struct room *r = room ? ps_object_open(room, &room_class, PS_S) : NULL;
    struct thing *t = r && id ? ps_object_open(id, class, PS_X) : NULL;
    if (!t) return -errno;
    t->cents = cents;
    t->in = room;
    return ps_set_add(&(struct ps_set){r->things, nodes}, id);
}
static int build(void *unused)
{
    (void)unused;
    if (!room_make("kitchen") || !room_make("attic")) return -errno;
    for (int i = 0; i < THINGS; i++) {
        const struct ps_class *class = i < LAMPS ? &lamp_class : &thing_class;
        int error = put_into(i % 3 ? "kitchen" : "attic", class, i);
        if (error) return error;
    }
    return 0;
}
static int64_t found[4];
static int look(void *unused)
{
    (void)unused;
    memset(found, 0, sizeof found);
    found[0] = worth(ps_object_named(nodes, "kitchen"));
    found[1] = worth(ps_object_named(nodes, "attic"));
    for (ps_item_id i = 0; (i = ps_object_next(objects, &thing_class, i)) != 0;) found[2]++;
    for (ps_item_id i = 0; (i = ps_object_next(objects, &lamp_class, i)) != 0;) found[3]++;
    return found[0] < 0 ? (int)found[0] : found[1] < 0 ? (int)found[1] : 0;
}

static int classes(void *unused)
{
    (void)unused;
    ps_item_id lamp = ps_object_next(objects, &lamp_class, 0);
    ps_item_id attic = ps_object_named(nodes, "attic");
    int good = ps_object_class(lamp) == &lamp_class && ps_object_class(attic) == &room_class &&
               ps_object_open(lamp, &thing_class, PS_S) && ps_object_open(lamp, &lamp_class, PS_S);
    if (!good || ps_object_open(lamp, &room_class, PS_S) || errno != EPROTOTYPE) return -EUCLEAN;
    return ps_object_open(attic, &lamp_class, PS_S) || errno != EPROTOTYPE ? -EUCLEAN : 0;
}
/* A thing is in one of the two sets. */
static int sets(void *unused)
{
    const struct room *k = ps_object_open(ps_object_named(nodes, "kitchen"), &room_class, PS_S);
    const struct room *a = ps_object_open(ps_object_named(nodes, "attic"), &room_class, PS_S);
    struct ps_set kitchen = {k->things, nodes}, attic = {a->things, nodes};
    (void)unused;
    for (ps_item_id i = 0; (i = ps_object_next(objects, &thing_class, i)) != 0;) {
        if (ps_object_class(i) == &room_class) continue;
        if (ps_set_has(&kitchen, i) + ps_set_has(&attic, i) != 1) return -EUCLEAN;
        if (ps_set_has(&attic, i) && ps_set_add(&attic, i) != -EEXIST) return -EUCLEAN;
    }
    int good = ps_set_count(&kitchen) == THINGS * 2 / 3 && ps_set_count(&attic) == THINGS / 3;
    return good ? 0 : -EUCLEAN;
}

static ps_item_id gone;
static int delete_lamp(void *unused)
{
    (void)unused;
    gone = ps_object_next(objects, &lamp_class, 0);
    return ps_item_delete(gone);
}
static int open_gone(void *unused)
{
    (void)unused;
    return ps_object_open(gone, &thing_class, PS_S) ? 0 : -errno;
}
static int sweep(void *count)
{
    static const char *const names[] = {"kitchen", "attic"};
    for (int i = 0; i < 2; i++) {
        const struct room *r = ps_object_open(ps_object_named(nodes, names[i]), &room_class, PS_S);
        int64_t swept = r ? ps_set_sweep(&(struct ps_set){r->things, nodes}) : -errno;
        if (swept < 0) return (int)swept;
        *(int64_t *)count += swept;
    }
    return 0;
}
static int empty_attic(void *unused)
{
    (void)unused;
    const struct room *r = ps_object_open(ps_object_named(nodes, "attic"), &room_class, PS_S);
    return r ? ps_set_delete(&(struct ps_set){r->things, nodes}) : -errno;
}

/* ---- several at once ---- */

struct more { int undo; };
static int more(void *arg)
{
    int error = put_into("kitchen", &thing_class, 1);
    return error ? error : ((const struct more *)arg)->undo ? -ECANCELED : 0;
}
static int client(void)
{
    for (int i = 0; i < MORE; i++) {
        struct more m = {i % 3 == 2};
        if (ps_transaction(more, &m) != (m.undo ? -ECANCELED : 0)) return 1;
    }
    return 0;
}

int main(void)
{
    static const struct ps_part_wish wish[] = {
        {.name = "objects", .flags = PS_PART_ITEMS | PS_PART_APART | PS_PART_CHECKED},
        {.name = "nodes"}};
    static const struct ps_class orphan = {"orphan", &room_class, 4, NULL, NULL};
    int64_t swept = 0, before;
    int error = 0, status;
    tap_plan(22);
    is(ps_class_add(&lamp_class), -ENOENT, "a class comes behind the one above it");
    is(ps_class_add(&thing_class) ?: ps_class_add(&lamp_class) ?: ps_class_add(&room_class), 0,
       "DA-47: three classes");
    is(ps_class_add(&orphan), -EINVAL, "an object is not smaller than one of the class above");
    is(ps_class_add(&lamp_class), -EEXIST, "a class once");
    file = ps_file_open("house", PS_CREATE | PS_WRITE, wish, 2);
    objects = file ? ps_file_part(file, "objects") : NULL;
    nodes = file ? ps_part_data(ps_file_part(file, "nodes")) : NULL;
    is(file ? ps_transaction(build, NULL) : -errno, 0, "a house is built");
    is(ps_transaction(look, NULL), 0, "what it is worth");
    tap_ok(found[0] == 300 && found[1] == 135, "DA-47: is asked of each object's class");
    tap_ok(found[2] == THINGS + 2 && found[3] == LAMPS, "DA-47: extents, with the classes below");
    is(ps_transaction(classes, NULL), 0, "DA-47: an object is one of its class and those above");
    is(ps_transaction(sets, NULL), 0, "DA-47: sets have what was added, once");

    is(ps_transaction(delete_lamp, NULL), 0, "an object is deleted");
    is(ps_transaction(open_gone, NULL), -ESTALE, "DA-15: its identifier is stale");
    is(ps_transaction(look, NULL), -ESTALE, "in the set, too");
    is(ps_transaction(sweep, &swept), 0, "sets are swept");
    is(swept, 1, "DA-47: of it");
    is(ps_transaction(look, NULL), 0, "and are sound");
    tap_ok(found[2] == THINGS + 1 && found[3] == LAMPS - 1, "as extents are");

    before = found[0];
    for (int n = 0; n < PROCESSES; n++)
        if (fork() == 0) _exit(client());
    while (wait(&status) > 0) error |= status;
    is(error, 0, "several processes add to one set, and give some up");
    is(ps_transaction(look, NULL), 0, "what was committed");
    is(found[0] - before, PROCESSES * MORE * 2 / 3, "is in it");
    is(ps_transaction(empty_attic, NULL), 0, "a set is deleted");
    is(ps_transaction(look, NULL), -ESTALE, "and stale");
    return tap_end();
}
