/*
 * kernel_proven.c - which pages stay when more are touched than memory holds (EV10).
 *
 * Aim     pages that are used again and again outlive a scan of any length; others take their place
 *         when the use moves on; a page that went and comes back soon is one of them; where all
 *         pages that came last are pinned, proven ones go.
 * Method  own_manager.h; a container that may have FRAMES pages in memory (KD_POLICY_MEMORY); what
 *         is asked for is counted.
 */
enum { PAGES = 12000, FRAMES = 240, HOT = 100, APART = 160, SCAN = 1500,
       OTHERS = 1000, SCANNED = 2000, BETWEEN = 4000, PINNED = 11000 }; /* from these pages on */
#define HOME_PAGES 1
#include "own_manager.h"
#include "pstore_test.h"

static uint64_t requests(void) { return system_info().page_requests; }

static int read_one(void *page) { return *word_of((uintptr_t)page, 0) ? -EIO : 0; }

/* Reads each page of the range, in a transaction of its own; how many were asked for. */
static long reads(uintptr_t first, uintptr_t count)
{
    uint64_t before = requests();
    for (uintptr_t page = first; page < first + count; page++)
        if (run(read_one, (void *)page, KD_SERIALISABLE, 0)) return -1;
    return (long)(requests() - before);
}

/* The pages from `first` on are used ten times, each time behind others that are used once. */
static long use(uintptr_t first)
{
    static uintptr_t others = BETWEEN;
    long last = 0;
    for (int i = 0; i < 10; i++, others += APART) {
        last = reads(first, HOT);
        (void)reads(others, APART);
    }
    return last;
}

static void pins(void)
{
    long pinned = 0;
    int e = 0;
    for (uintptr_t page = PINNED; !e && page < PAGES; page++) {
        e = run(read_one, (void *)page, KD_SERIALISABLE, 0);
        pinned += kd_call4(KD_OBJECT_PIN, object, (long)page, 1, 1) == 1;
    }
    tap_ok(e == -ENOMEM && pinned == FRAMES, "proven pages go where others are pinned (%d, %ld)", e,
           pinned);
    kd_call4(KD_OBJECT_PIN, object, 0, PAGES, 0);
}

/* New pages are used, then so many others once: these send them out, and what came back too late is
 * none of those that stay. */
static void comes_back(uintptr_t first, long others, bool soon)
{
    bool away = reads(first, HOT) == HOT && reads(OTHERS, others) == others;
    long asked = reads(first, HOT);
    long scanned = reads(SCANNED, SCAN), again = reads(first, HOT);
    tap_ok(away && asked == HOT && scanned == SCAN &&
               (soon ? again >= 0 && again <= HOT / 20 : again == HOT),
           "what comes back when %ld others came %s (%ld, %ld, %ld)", others,
           soon ? "stays" : "goes again", asked, scanned, again);
}

int main(void)
{
    tap_plan(7);
    struct own_manager how = {.pages = PAGES, .home_pages = HOME_PAGES};
    if (!start_manager(how)) return printf("Bail out! no manager\n"), 1;
    kd_call4(KD_OBJECT_ADVISE, object, 0, PAGES, KD_ADVISE_RANDOM);
    is(kd_call3(KD_CONTAINER_POLICY, (long)base, KD_POLICY_MEMORY, FRAMES), 0, "a limit");
    comes_back(5 * HOT, 3 * FRAMES, false);
    comes_back(6 * HOT, FRAMES + 60, true);
    long asked = use(0), scanned = reads(SCANNED, SCAN), left = reads(0, HOT);
    tap_ok(asked == 0 && scanned == SCAN && left >= 0 && left <= HOT / 20,
           "what is used again and again stays when %d others are used once (%ld, %ld, %ld)",
           SCAN, asked, scanned, left);
    asked = use(HOT) + use(2 * HOT) + use(3 * HOT);
    left = reads(0, HOT);
    tap_ok(asked >= 0 && asked <= HOT / 20 && left > HOT / 2,
           "when the use moves on others stay, and they go (%ld, %ld)", asked, left);
    pins();
    tap_ok(check() == 0, "kcheck");
    return tap_end();
}
