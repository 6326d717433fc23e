/*
 * kernel_due.c - EV12: a page that came is there for the fault that waited for it.
 *
 * Aim     where a container may have few pages in memory, and more pages come with one that was
 *         asked for than it may have, nobody asks for that one twice.
 * Method  This process is the manager of the object. It answers each question with the page and
 *         many before it, in one call, in which the last page comes first. With one CPU the fault,
 *         whose thread is nice, runs when all of them have come.
 */
#include <sys/resource.h>

#include "own_manager.h"

enum { PAGES = 600, LIMIT = 16, BEFORE = 48, LOOKS = 60, STRIDE = 97, PATIENCE = 3, NICE = 19 };

static uint64_t last = ~0ull;
static unsigned on_end, asked, again;

/* After some questions for the same page it comes alone, so that the test ends. */
static bool serve(struct kd_message *m)
{
    if (m->kind != (uint32_t)KD_MSG_PAGE) return false;
    uint64_t page = m->word[1];
    on_end = page == last ? on_end + 1 : 0;
    last = page;
    asked++;
    again += on_end > 0;
    uint64_t others = on_end < PATIENCE ? BEFORE : 0;
    struct kd_supply s = {.object = object, .source = KD_SUPPLY_MEMORY,
                          .rights = KD_READ | KD_WRITE, .page = page - others,
                          .count = others + 1, .memory = home[page - others], .csn = next_csn};
    (void)kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
    return true;
}

static unsigned wrong;
static int look(void *unused)
{
    (void)unused;
    for (uint64_t i = 0; i < LOOKS; i++) {
        uint64_t page = BEFORE + i * STRIDE % (PAGES - BEFORE);
        wrong += *word_of(page, 0) != page + 1;
    }
    return 0;
}

int main(void)
{
    tap_plan(4);
    struct own_manager how = {.pages = PAGES, .messages = serve};
    if (!start_manager(how)) return printf("Bail out! no manager\n"), 1;
    for (uint64_t i = 0; i < PAGES; i++) *(uint64_t *)home[i] = i + 1;
    is((int)kd_call3(KD_CONTAINER_POLICY, (long)base, KD_POLICY_MEMORY, LIMIT), 0, "few pages");
    setpriority(PRIO_PROCESS, 0, NICE);
    is(run(look, NULL, KD_SERIALISABLE, 0) || wrong, 0, "all is read");
    tap_ok(asked > LOOKS / 2 && again == 0, "and asked for once (%u questions, %u again)", asked,
           again);
    tap_ok(check() == 0, "kcheck");
    return tap_end();
}
