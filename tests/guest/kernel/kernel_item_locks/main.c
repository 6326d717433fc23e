/*
 * kernel_item_locks - locks of items (KD_ITEM_MAP, KD_ITEM_LOCK, KD_ITEM_WAKE), without a store.
 *
 * Aim     modes that conflict exclude each other, and no others; queues are fair; who waits is
 *         woken, and undone only in a cycle, over items, pages and containers; who ends or dies at
 *         any point leaves nothing locked; a table is memory that somebody pays for, and nothing
 *         that a program stores to it does more than keep others waiting.
 * Method  own_manager.h, with the way that a library has without a call (user.c). Actors are
 *         threads with a transaction each that do one step at a time; scenarios.c runs the model's
 *         scenarios freely. `kernel_item_locks N`: so many rounds of each (60).
 */
#include "locks.h"

const char *self;
uint64_t names[ITEMS];

/* names_choose finds an item that shares its entry with item 0, and one that does not. */
static void names_choose(uint64_t first)
{
    uint32_t of = kd_item_entry(first, 12);
    names[0] = first;
    names[2] = first + 16;
    while (kd_item_entry(names[2], 12) != of)
        names[2] += 16;
    names[1] = names[2] + 16;
    while (kd_item_entry(names[1], 12) == of || kd_item_entry(names[1] + 1, 12) == of)
        names[1] += 16;
}

static int child(const char *what, const char *first)
{
    struct kd_space_info info;
    base = KD_STORE_BASE;
    names_choose(strtoull(first, NULL, 10));
    while (kd_call3(KD_CONTAINER_INFO, (long)base, (long)&info, 0))
        pause_ms(1);
    return strcmp(what, "reader") == 0   ? reader()
           : strcmp(what, "holder") == 0 ? holder()
           : strcmp(what, "waiter") == 0 ? waiter() : wild();
}

int main(int argc, char **argv)
{
    self = argv[0];
    setvbuf(stdout, NULL, _IONBF, 0);
    if (argc > 2)
        return child(argv[1], argv[2]);
    tap_plan(141);
    struct own_manager how = {.pages = PAGES, .home_pages = 8, .flags = KD_OBJECT_ITEMS,
                              .messages = other_pages};
    tap_ok(start_manager(how), "a manager of pages in item mode");
    names_choose(base + 64);
    is(kd_call3(KD_CONTAINER_POLICY, (long)base, KD_POLICY_OWN,
                1 << KD_ITEM_X | 1 << KD_ITEM_OWN), 0, "a mode of its own, against itself and X");
    is(table_map(base), 0, "a table of locks");
    modes();
    queues();
    ends_and_orders();
    races();
    deadlocks();
    readers();
    deaths();
    scenarios(argc > 1 ? atol(argv[1]) : 60);
    spoilt();
    tables();
    end_of_the_object();
    return tap_end();
}
