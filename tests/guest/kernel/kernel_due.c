/*
 * kernel_due.c - EV12: a page that came is there for the fault that waited for it.
 *
 * Aim     where a container may have few pages in memory, and more pages come with one that was
 *         asked for than it may have, nobody asks for that one twice.
 * Method  This process is the manager of two objects, one without transactions. It answers each
 *         question with the page and many before it, in one call, in which the last page comes
 *         first. With one CPU the fault, whose thread is nice, runs when all of them have come.
 */
#include <sys/resource.h>

#include "own_manager.h"

enum { PAGES = 600, LIMIT = 16, BEFORE = 48, LOOKS = 60, STRIDE = 97, PATIENCE = 3, NICE = 19,
       COOKIE = 8 };

static int plain;
static uint64_t last = ~0ull, plain_base;
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
    struct kd_supply s = {.object = m->word[0] == COOKIE ? plain : object,
                          .source = KD_SUPPLY_MEMORY, .rights = KD_READ | KD_WRITE,
                          .page = page - others,
                          .count = others + 1, .memory = home[page - others], .csn = next_csn};
    (void)kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
    return true;
}

static int look(void *at)
{
    int wrong = 0;
    for (uint64_t i = 0; i < LOOKS; i++) {
        uint64_t page = BEFORE + i * STRIDE % (PAGES - BEFORE);
        wrong += *(volatile uint64_t *)((uint64_t)at + page * KD_PAGE_BYTES) != page + 1;
    }
    return wrong;
}

static void once(const char *what)
{
    tap_ok(asked > LOOKS / 2 && again == 0, "%s is asked for once (%u questions, %u again)", what,
           asked, again);
    asked = again = 0;
}

static int few_pages(uint64_t at)
{
    return (int)kd_call3(KD_CONTAINER_POLICY, (long)at, KD_POLICY_MEMORY, LIMIT);
}

int main(void)
{
    tap_plan(7);
    struct own_manager how = {.pages = PAGES, .messages = serve};
    if (!start_manager(how)) return printf("Bail out! no manager\n"), 1;
    struct kd_object_create c = {.port = port, .commit_port = commit_port, .cookie = COOKIE,
                                 .pages = PAGES, .name = "plain"};
    plain = (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    plain_base = c.base;
    long e = kd_call3(KD_SPACE_ATTACH, getpid(), plain, KD_RIGHT_READ | KD_RIGHT_WRITE);
    is((int)e, 0, "a plain object, too");
    for (uint64_t i = 0; i < PAGES; i++) *(uint64_t *)home[i] = i + 1;
    is(few_pages(base) | few_pages(plain_base), 0, "few pages of each");
    setpriority(PRIO_PROCESS, 0, NICE);
    is(run(look, (void *)base, KD_SERIALISABLE, 0), 0, "all is read by a transaction");
    once("what it reads");
    is(look((void *)plain_base), 0, "all of a plain object");
    once("that");
    tap_ok(check() == 0, "kcheck");
    return tap_end();
}
