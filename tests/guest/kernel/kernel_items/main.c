/*
 * kernel_items - pages in item mode (KD_OBJECT_ITEMS), without a store.
 *
 * Aim     transactions that store to different words of one page neither wait for each other nor
 *         lose a word, whatever becomes of either; snapshots see one moment; additions commute;
 *         what is told is what is published, in the order of the log; what was not declared is
 *         undone; pages with copies stay in memory; locks of the container wait for them.
 * Method  own_manager.h. Most tests run several transactions from one thread, so that each order of
 *         steps is one that the test says. `kernel_items N`: so many rounds of load.c (70; in the
 *         long tier 150).
 */
#include "kernel_items.h"

const char *self;

static long create(uint32_t flags)
{
    struct kd_object_create o = {.port = port, .commit_port = commit_port, .flags = flags,
                                 .pages = 1, .name = "none"};
    return kd_call3(KD_OBJECT_CREATE, (long)&o, 0, 0);
}

static void what_is_refused(void)
{
    is(create(KD_OBJECT_ITEMS), -EINVAL, "item mode is for transactions");
    is(create(KD_OBJECT_TRANSACTIONAL | KD_OBJECT_ITEMS | KD_OBJECT_UNLOCKED), -EINVAL,
       "and not for pages without locks");
    is(kd_call3(KD_OBJECT_ENCODER, object, KD_ENCODER_FULL, 0), -EINVAL,
       "it has an encoding of its own");
    is(kd_call3(KD_TXN_DECLARE, 0, 0, 0), -ENOENT, "a declaration needs a transaction");
}

/* Stores to one page, when it may, or to more and more, and stays in the transaction. */
static _Noreturn void child(bool greedy)
{
    static struct context c;
    struct kd_space_info info;
    base = KD_STORE_BASE;
    while (kd_call3(KD_CONTAINER_INFO, (long)base, (long)&info, 0))
        pause_ms(1);
    begin(&c, KD_SERIALISABLE);
    put(GREEDY_PAGE - !greedy, 1, 99);
    for (uint64_t page = HOME_PAGES; greedy && page < PAGES; page++)
        put(page, 1, 99);
    child_begun();
    for (;;)
        pause_ms(100);
}

int main(int argc, char **argv)
{
    self = argv[0];
    setvbuf(stdout, NULL, _IONBF, 0);
    if (argc > 2 && strcmp(argv[1], "child") == 0)
        child(strcmp(argv[2], "greedy") == 0);
    tap_plan(119);
    struct own_manager how = {.pages = PAGES, .home_pages = HOME_PAGES, .flags = KD_OBJECT_ITEMS,
                              .messages = gathers};
    tap_ok(start_manager(how), "a manager of pages in item mode");
    what_is_refused();
    pages_of_two();
    scenarios();
    order_of_log();
    snapshot_elsewhere();
    snapshot_amid();
    many_writers(argc > 1 ? atol(argv[1]) : tap_long() ? 150 : 70);
    memory_at_its_end();
    end_of_the_object();
    return tap_end();
}
