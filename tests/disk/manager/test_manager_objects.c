/*
 * test_manager_objects.c - the store manager and the kernel's objects: they are made anew for
 * items, and their pages are asked for.
 *
 * Aim     what a guest cannot show: wherever an object cannot be made, or must not go, a container
 *         that is to be made anew has its objects as they were, or all as they are to be, and who
 *         has it open is attached to them (OC2); a question that comes to the manager late does not
 *         take the place of the view's newer one (DE1); while a page is on its way, no version that
 *         was published since counts as settled (SP4), and the page is not called clean: it could
 *         leave, and what is brought take its place. A checkpoint waits for that read. A page that
 *         was freed is told as one of which no version is wanted, if nobody of the same group wrote
 *         it again (GL6). A name that the log refuses (LG6) is that of one commit of its group.
 * Method  lib/threads/rig.h, with objects that fail at a moment, and questions in both orders.
 */
#include "user/store/clean.c"
#include "user/store/decide.c"
#include "user/store/pager.c"

#undef fail
#include "threads/rig.h"

/* ---- made anew ---- */

enum { OBJECTS = 40, SEGMENTS = 3 };
static struct object { bool there, items, attached; } object[OBJECTS];
static int objects, creates_left, destroys_left;    /* then one fails */

static long object_at(long number, long a, long b)
{
    struct object *o = &object[number == KD_OBJECT_DESTROY ? a - OBJECT : b - OBJECT];
    switch (number) {
    case KD_OBJECT_CREATE:
        if (creates_left-- == 0) return -ENOMEM;
        object[objects] = (struct object){
            .there = true, .items = ((struct kd_object_create *)a)->flags & KD_OBJECT_ITEMS};
        return OBJECT + objects++;
    case KD_OBJECT_DESTROY:
        if (b && (o->attached || destroys_left-- == 0)) return -EBUSY;
        CHECK(o->there);
        *o = (struct object){0};
        return 0;
    case KD_SPACE_RIGHTS: return o->attached ? KD_RIGHT_READ : 0;
    default:
        CHECK(o->there);
        o->attached = number == KD_SPACE_ATTACH;
        return 0;
    }
}

/* The container has its segments' objects, all of one sort and attached, and there is no other. */
static void is_whole(const struct container *c, bool items)
{
    int there = 0;
    for (int i = 0; i < OBJECTS; i++) there += object[i].there;
    CHECK(there == SEGMENTS && c->segment_count == SEGMENTS && server.objects == SEGMENTS);
    CHECK(c->form[WIRE_FORM_LOCKING] == items);
    for (unsigned i = 0; i < SEGMENTS; i++) {
        const struct object *o = &object[c->segment[i].object - OBJECT];
        CHECK(o->there && o->attached && o->items == items);
    }
}

/* One creation or one end of an object fails, or none. */
static void child_made_anew(int create, int destroy)
{
    object_call = object_at;
    creates_left = destroys_left = -1;
    client_start();
    for (unsigned i = 1; i < SEGMENTS; i++) CHECK(container_grow(1) == 0);
    server_lock();
    struct container *c = container_by_id(1);
    is_whole(c, false);
    creates_left = create;
    destroys_left = destroy;
    int r = container_remake(c, WIRE_FORM_LOCKING, STORE_LOCKING_ITEM);
    bool failed = (create >= 0 && creates_left < 0) || (destroy >= 0 && destroys_left < 0);
    CHECK((r != 0) == failed);
    is_whole(c, r == 0);
    creates_left = destroys_left = -1;
    CHECK(container_remake(c, WIRE_FORM_LOCKING, STORE_LOCKING_ITEM) == 0);
    is_whole(c, true);
    server_unlock();
    CHECK(commit(0, 4, 7) == 0);
}
static int fails_at;
static void child_all_goes_well(void) { child_made_anew(-1, -1); }
static void child_create_fails(void) { child_made_anew(fails_at, -1); }
static void child_destroy_fails(void) { child_made_anew(-1, fails_at); }

static void a_container_is_made_anew_as_a_whole_or_not_at_all(void **state)
{
    (void)state;
    run_child(child_all_goes_well);
    recover_and_compare();
    for (fails_at = 0; fails_at < 2 * SEGMENTS + 1; fails_at++) run_child(child_create_fails);
    for (fails_at = 0; fails_at < SEGMENTS + 1; fails_at++) run_child(child_destroy_fails);
}

/* ---- questions ---- */

enum { VIEW = 5 };

static void ask_for_page(uint64_t page_asked, uint32_t number)
{
    const struct kd_message m = {.word = {cookie_of(1, 0), page_asked, 0, KD_READ | KD_PAGE_HERE,
                                          VIEW + 1, OBJECT, number}};
    CHECK(decide_asked(&m));
}

/* Of two questions the newer one stays, in whichever order they come. */
static void question_stays(uint32_t older, uint32_t newer, bool late)
{
    ask_for_page(late ? 20 : 10, late ? newer : older);
    ask_for_page(late ? 10 : 20, late ? older : newer);
    CHECK(asked[VIEW].number == newer && asked[VIEW].page == 20 && asked[VIEW].container == 1);
}
static void child_asks(void)
{
    client_start();
    struct kd_message m = {.kind = STORE_DECIDE, .process = CLIENT, .token = 3,
                           .word = {1, WIRE_DECIDE_CALLER}};
    CHECK(decide_request(&m));
    question_stays(100, 101, false);
    question_stays(102, 103, true);
    question_stays(104, 104 + 1000000, true);
    question_stays(1u << 31, (1u << 31) + 1, false);
    question_stays(0xfffffffe, 0xffffffff, true);
    question_stays(0xffffffff, 3, true);    /* numbers begin anew */
    question_stays(4, 5, false);
}
static void a_late_question_does_not_take_a_newer_ones_place(void **state)
{
    (void)state;
    run_child(child_asks);
}

/* ---- pages on their way ---- */

static void settled_after(uint64_t value, bool late)
{
    uint64_t before = server.last_csn;
    CHECK(commit(0, 4, value) == 0);
    server_lock();
    CHECK(server.last_csn > before && settled_told == (late ? before : server.last_csn));
    server_unlock();
}
static void child_settles(void)
{
    struct kd_message m = {.kind = (uint32_t)KD_MSG_PAGE,
                           .word = {cookie_of(1, 0), 2, 1, KD_READ | KD_PAGE_ALONE}};
    client_start();
    settled_after(1, false);
    server_lock();
    struct bring *b = bring_prepare(&m);
    claim(b);
    server_unlock();
    settled_after(2, true);
    server_lock();
    release(b);
    server_unlock();
    settled_after(3, false);
}
/* A page that was written home, of which the kernel is told unless it is being brought. */
static bool tells_clean(void)
{
    uint64_t before = server.home_writes;
    batch.what[0].container = 1;
    batch.what[0].page = 2;
    batch.io[0] = (struct kd_page_io){.page = 2};  /* of no version: the library takes no notice */
    container_by_id(1)->busy++;
    CHECK(batch_settle(0) == 0);
    return server.home_writes > before;
}
static void child_cleans(void)
{
    struct kd_message m = {.kind = (uint32_t)KD_MSG_PAGE,
                           .word = {cookie_of(1, 0), 2, 1, KD_READ | KD_PAGE_ALONE}};
    client_start();
    CHECK(commit(0, 4, 1) == 0);
    server_lock();
    struct bring *b = bring_prepare(&m);
    claim(b);
    CHECK(!tells_clean());
    release(b);
    CHECK(tells_clean());
    server_unlock();
}
static void a_page_that_is_brought_is_not_called_clean(void **state)
{
    (void)state;
    run_child(child_cleans);
    recover_and_compare();
}

/* A page that was in memory, as its neighbours are read by a disk that takes its time; then it
 * changes. A checkpoint waits for that read, however often it looks. */
static void *slow_read(void *unused)
{
    struct kd_message m = {.kind = (uint32_t)KD_MSG_PAGE,
                           .word = {cookie_of(1, 0), 2, 1, KD_READ | KD_PAGE_ALONE}};
    server_lock();
    uint64_t before = home_calls;
    struct bring *b = bring_prepare(&m);
    claim(b);
    while (home_calls < before + 3 * ROUNDS_MAX / 2 && !server.fenced) {
        server_unlock();
        usleep(1000);
        server_lock();
    }
    release(b);
    server_unlock();
    return unused;
}
static void child_checkpoint_beside_read(void)
{
    struct store_page at;
    pthread_t t;
    client_start();
    CHECK(pthread_create(&t, NULL, slow_read, NULL) == 0);
    server_lock();
    while (!is_brought(1, 2)) {
        server_unlock();
        usleep(100);
        server_lock();
    }
    server_unlock();
    CHECK(commit(0, 4, 1) == 0);
    server_lock();
    CHECK(checkpoint_wait() == 0 && !server.fenced);
    CHECK(store_page_find(server.store, 1, 2, &at) == 0 && !at.dirty);
    server_unlock();
    CHECK(pthread_join(t, NULL) == 0);
}
static void a_checkpoint_waits_for_a_slow_read(void **state)
{
    (void)state;
    run_child(child_checkpoint_beside_read);
    recover_and_compare();
}

static bool queued(unsigned i)
{
    pthread_mutex_lock(&kernel);
    bool is = view[i].queued;
    pthread_mutex_unlock(&kernel);
    return is;
}

/* Of four pages that one transaction frees another one in its group writes the last two. */
static void child_frees(void)
{
    enum { FREED = 2, WRITTEN = 4, END = 6 };
    client_start();
    CHECK(commit(0, 8, 1) == 0);
    struct wire_op op = {.kind = WIRE_PAGE_FREE, .op_bytes = sizeof(op), .container = 1,
                         .address = container_by_id(1)->segment[0].base + FREED * PAGE_BYTES,
                         .value = END - FREED};
    server_lock();
    gate_enter(false);
    server_unlock();
    commit_post(2, 20, 1, 2); /* it goes alone; so those that wait behind it have one group */
    while (queued(2)) usleep(1000);
    next_batch = &op;
    next_batch_bytes = sizeof(op);
    commit_post(0, 16, 1, 2);
    commit_post(1, WRITTEN, END - WRITTEN, 2);
    server_lock();
    gate_leave();
    server_unlock();
    CHECK(commit_wait(2) == 0 && commit_wait(0) == 0 && commit_wait(1) == 0);
    server_lock(); /* the answers come before it has told */
    for (uint64_t p = 0; p < PAGES; p++) CHECK(unwanted[p] == (p >= FREED && p < WRITTEN));
    server_unlock();
    for (uint64_t p = FREED; p < WRITTEN; p++) shared->acknowledged[p] = shared->tried[p] = 0;
}
static void a_freed_page_is_told_unless_it_is_written_again(void **state)
{
    (void)state;
    run_child(child_frees);
    recover_and_compare();
}

/* One of a group gives an object a name that begins as a group of the log does. */
static void child_names(void)
{
    static struct { struct wire_op op; char name[STORE_NAME_BYTES]; } naming;
    uint64_t magic = GROUP_MAGIC;
    client_start();
    naming.op = (struct wire_op){.kind = WIRE_NAME_SET, .op_bytes = sizeof(naming), .container = 1,
                                 .address = container_by_id(1)->segment[0].base, .value = 8};
    memset(naming.name, 'x', sizeof(naming.name) - 1);
    for (int refused = 0; refused < 2; refused++) {
        if (refused) memcpy(naming.name + 16, &magic, sizeof(magic));
        server_lock();
        gate_enter(false);
        server_unlock();
        for (unsigned i = 0; i < 4; i++) {
            if (i == 2) next_batch = &naming;
            if (i == 2) next_batch_bytes = sizeof(naming);
            commit_post(i, 8 * i, 1, 5 + (uint64_t)refused);
        }
        server_lock();
        gate_leave();
        server_unlock();
        for (unsigned i = 0; i < 4; i++)
            CHECK(commit_wait(i) == (i == 2 && refused ? -EINVAL : 0));
    }
    CHECK(commit(16, 1, 9) == 0);
}
static void a_name_that_begins_as_a_group_is_refused_alone(void **state)
{
    (void)state;
    run_child(child_names);
    recover_and_compare();
}

static void what_is_on_its_way_is_older_than_what_is_settled(void **state)
{
    (void)state;
    run_child(child_settles);
    recover_and_compare();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_container_is_made_anew_as_a_whole_or_not_at_all),
        cmocka_unit_test(a_late_question_does_not_take_a_newer_ones_place),
        cmocka_unit_test(what_is_on_its_way_is_older_than_what_is_settled),
        cmocka_unit_test(a_page_that_is_brought_is_not_called_clean),
        cmocka_unit_test(a_checkpoint_waits_for_a_slow_read),
        cmocka_unit_test(a_freed_page_is_told_unless_it_is_written_again),
        cmocka_unit_test(a_name_that_begins_as_a_group_is_refused_alone),
    };
    memory_share();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
