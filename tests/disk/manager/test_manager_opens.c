/*
 * test_manager_opens.c - the store manager opens a container that it has just made, while its name
 * becomes another one's.
 *
 * Aim     who makes a container and cannot open it takes that one back, and no other. Who finds
 *         another one by the name has not made it.
 * Method  lib/threads/rig.h. The open finds no room for an object and waits. Meanwhile another
 *         process deletes what was made, and gives its name to a container of its own.
 */
#define room_wait cleaner_room_wait     /* of user/store/clean.c */
#include "user/store/clean.c"
#undef room_wait

#undef fail
#include "threads/rig.h"

enum { OTHER = CLIENT + 1 };

static bool full, renames, room_comes;
static unsigned waits;

static long object_at(long number, long a, long b)
{
    (void)a, (void)b;
    return number != KD_OBJECT_CREATE ? 0 : full ? -EMFILE : OBJECT;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_open_takes_back_what_it_made_and_no_other),
        cmocka_unit_test(who_opens_what_has_the_name_by_now_has_not_made_it),
    };
    memory_share();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
