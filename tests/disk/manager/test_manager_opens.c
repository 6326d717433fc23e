/*
 * test_manager_opens.c - the store manager opens containers: one that it has just made, while its
 * name becomes another one's; and for a process that has become another program.
 *
 * Aim     who makes a container and cannot open it takes that one back, and no other. Who finds
 *         another one by the name has not made it. An opening is of one program (OC5).
 * Method  lib/threads/rig.h. The open finds no room for an object and waits. Meanwhile another
 *         process deletes what was made, and gives its name to a container of its own. An execve
 *         takes all attachments, and the kernel says so before or behind what the new program asks.
 */
#define room_wait cleaner_room_wait     /* of user/store/clean.c */
#include "user/store/clean.c"
#undef room_wait

#undef fail
#include "threads/rig.h"

enum { OTHER = CLIENT + 1 };

enum { OBJECTS = 8 };
static bool full, renames, room_comes;
static unsigned waits;
static int objects;
static bool attached_to[OBJECTS];       /* is the client? */

static long object_at(long number, long a, long b)
{
    if (number == KD_OBJECT_DESTROY) return 0;
    if (number == KD_OBJECT_CREATE && full) return -EMFILE;
    CHECK(objects < OBJECTS);
    if (number == KD_OBJECT_CREATE) return OBJECT + objects++;
    bool *its = &attached_to[b - OBJECT];
    if (a != CLIENT) return 0;
    if (number == KD_SPACE_RIGHTS) return *its ? KD_RIGHT_READ : 0;
    *its = number == KD_SPACE_ATTACH;
    return 0;
}

static uint64_t number_of(const char *name)
{
    struct wire_opened out;
    struct wire_open how = {0};
    strcpy(how.name, name);
    int r = container_open(OTHER, &how, &out);
    if (r == 0) CHECK(container_close(OTHER, out.container) == 0);
    CHECK(r == 0 || r == -ENOENT);
    return r == 0 ? out.container : 0;
}

static int say_names(uint32_t kind, const char *name, const char *to)
{
    char names[2][STORE_NAME_BYTES] = {{0}};
    strcpy(names[0], name);
    if (to) strcpy(names[1], to);
    const struct kd_message m = {.kind = kind, .process = OTHER, .buffer = names,
                                 .data_bytes = to ? sizeof(names) : sizeof(names[0])};
    return manager_request(&m);
}

/* In place of the cleaner's: the other process is done before it has looked for room. */
void room_wait(void)
{
    if (waits++ == 0) {
        server_unlock();
        CHECK(say_names(STORE_DELETE, "x", NULL) == 0);
        if (renames) CHECK(say_names(STORE_RENAME, "y", "x") == 0);
        server_lock();
    }
    full = !room_comes;
}

/* x is opened with this type and these flags; *y is the other one's container. */
static int x_opens(const char *type, uint32_t flags, struct wire_opened *out, uint64_t *y)
{
    struct wire_open how = {.name = "y", .type = "rows", .flags = PS_CREATE};
    object_call = object_at;
    client_start();
    CHECK(container_open(OTHER, &how, out) == 0 && out->created);
    CHECK(container_close(OTHER, out->container) == 0);
    *y = out->container;
    how = (struct wire_open){.name = "x", .flags = PS_CREATE | PS_WRITE | flags};
    strcpy(how.type, type);
    full = true;
    int r = container_open(CLIENT, &how, out);
    full = false;
    CHECK(waits > 0);
    return r;
}

static void child_other_layout(void)
{
    struct wire_opened out;
    uint64_t y;
    renames = true;
    CHECK(x_opens("cells", 0, &out, &y) == -EPROTO);
    CHECK(number_of("x") == y && !number_of("y"));
}

static void child_no_room(void)
{
    struct wire_opened out;
    uint64_t y;
    CHECK(x_opens("cells", 0, &out, &y) == -EMFILE);
    CHECK(!number_of("x") && number_of("y") == y);
}

static void child_room(void)
{
    struct wire_opened out;
    uint64_t y;
    renames = room_comes = true;
    CHECK(x_opens("rows", 0, &out, &y) == 0);
    CHECK(out.container == y && !out.created);
}

static void child_room_exclusive(void)
{
    struct wire_opened out;
    uint64_t y;
    renames = room_comes = true;
    CHECK(x_opens("rows", PS_EXCLUSIVE, &out, &y) == -EEXIST);
    CHECK(number_of("x") == y);
}

static void child_made_anew(void)
{
    struct wire_opened out;
    uint64_t y;
    room_comes = true;
    CHECK(x_opens("rows", PS_EXCLUSIVE, &out, &y) == 0);
    CHECK(out.container != y && out.created && number_of("x") == out.container);
}

static void a_failed_open_takes_back_what_it_made_and_no_other(void **state)
{
    (void)state;
    run_child(child_no_room);
    run_child(child_other_layout);
}

static void who_opens_what_has_the_name_by_now_has_not_made_it(void **state)
{
    (void)state;
    run_child(child_room);
    run_child(child_room_exclusive);
    run_child(child_made_anew);
}

/* ---- another program ---- */

static void execs(void) { memset(attached_to, 0, sizeof(attached_to)); }

static bool has(const struct wire_opened *box, uint32_t rights)
{
    server_lock();
    struct container *c = container_by_id(box->container);
    bool is = container_allows(c, CLIENT, rights) == 0;
    CHECK(is || container_allows(c, CLIENT, rights) == -EACCES);
    server_unlock();
    return is;
}

static void opens(const char *name, uint32_t flags, struct wire_opened *out)
{
    struct wire_open how = {.flags = flags};
    strcpy(how.name, name);
    CHECK(container_open(CLIENT, &how, out) == 0);
}

/* It opens for reading what the program before had open for writing. */
static void child_opens_again(void)
{
    struct wire_opened box;
    object_call = object_at;
    client_start();
    execs();
    opens("box", 0, &box);
    CHECK(has(&box, KD_RIGHT_READ) && !has(&box, KD_RIGHT_WRITE));
    process_gone(CLIENT);
    process_gone(CLIENT);
    CHECK(has(&box, KD_RIGHT_READ) && attached_to[0]);
    CHECK(container_close(CLIENT, box.container) == 0 && !attached_to[0]);
    CHECK(container_close(CLIENT, box.container) == -ENOENT);
}

static void child_opens_another(void)
{
    struct wire_opened box, other;
    object_call = object_at;
    client_start();
    opens("box", 0, &box);
    opens("other", PS_CREATE, &other);
    execs();
    opens("other", 0, &other);
    process_gone(CLIENT);
    CHECK(!has(&box, KD_RIGHT_READ) && has(&other, KD_RIGHT_READ));
}

/* The container grows before the store hears that the program is gone. */
static void child_grows(void)
{
    struct wire_opened box;
    object_call = object_at;
    client_start();
    opens("box", 0, &box);
    execs();
    CHECK(container_grow(box.container) == 0 && !has(&box, KD_RIGHT_READ));
    CHECK(!attached_to[0] && !attached_to[1]);
}

static void a_program_has_what_it_opened_and_not_what_the_one_before_had(void **state)
{
    (void)state;
    run_child(child_opens_again);
    run_child(child_opens_another);
    run_child(child_grows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_open_takes_back_what_it_made_and_no_other),
        cmocka_unit_test(who_opens_what_has_the_name_by_now_has_not_made_it),
        cmocka_unit_test(a_program_has_what_it_opened_and_not_what_the_one_before_had),
    };
    memory_share();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
