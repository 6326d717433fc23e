/*
 * kernel_stays.c - rights of a holder that outlive its process.
 *
 * Aim     a holder's rights stand behind the death of its process for as long as it has asked for,
 *         or until a badge ends; the death of that badge's port is not its end. The process is gone
 *         meanwhile, and views, rights and charges are as before in the end.
 * Method  own_manager.h. A child holds pages and is killed; this program wants one of them.
 */
#define LONG_MS 20000
#define STAYS_MS 1500
enum { PAGES = 16 };
#include "own_manager.h"
#include <sched.h>
#include <stdlib.h>

#define STRING_OF(x) #x
#define STRING(x) STRING_OF(x)
enum { RW = KD_READ | KD_WRITE, BADGE = 7, BADGE_HANDLE = 1, HELD = 6 };

/* Processes that the manager has heard of that they have ended. */
static _Atomic int clients_gone;
static bool hears(struct kd_message *m)
{
    bool gone = m->kind == (uint32_t)KD_MSG_CLIENT_GONE;
    clients_gone += gone;
    return gone;
}

static int stores(void *page) { ++*word_of((unsigned)(uintptr_t)page, 0); return 0; }
static void *number(unsigned page) { return (void *)(uintptr_t)page; }

static long now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static struct kd_view_info list[KD_VIEW_MAX];
static long views_used(void) { return kd_call3(KD_VIEW_LIST, (long)list, KD_VIEW_MAX, 0); }

static long holder_begin(struct kd_begin *b, int *view)
{
    static char stack[64];
    *view = (int)kd_call3(KD_VIEW_CREATE, 0, 0, 0);
    b->mode = KD_HOLDER;
    b->entry = (uint64_t)holder_begin;
    b->stack = (uint64_t)stack;
    kd_call3(KD_VIEW_ENTER, *view, 0, 0);
    long e = kd_call3(KD_TXN_BEGIN, (long)b, 0, 0);
    kd_call3(KD_VIEW_ENTER, mine ? mine->view : -1, 0, 0);
    return e;
}

/* ---- the child: holds a page until the badge at BADGE_HANDLE ends, or for a time ---- */

static int child(const char *ms)
{
    struct kd_space_info info;
    int port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0), view;
    base = KD_STORE_BASE;
    while (kd_call3(KD_CONTAINER_INFO, (long)base, (long)&info, 0))
        sched_yield(); /* its parent attaches it now */
    struct kd_begin b = {.timeout_ms = (uint32_t)atoi(ms), .locked = BADGE_HANDLE + 1,
                         .port = port + 1};
    if (holder_begin(&b, &view))
        return 2;
    struct kd_begin heir = {.mode = KD_HEIR, .heir = view + 1, .timeout_ms = LONG_MS};
    if (run_like(stores, number(HELD), &heir))
        return 3;
    child_begun();
    for (;;)
        pause_ms(1000);
}

/* Its pid; it has a new badge of the port's. */
static int child_new(const char *self, int its_port, const char *ms)
{
    char path[128];
    const char *name = strrchr(self, '/'), *argv[] = {self, ms, NULL};
    int badge = (int)kd_call3(KD_BADGE_CREATE, its_port, BADGE,
                                KD_RIGHT_CALL | KD_RIGHT_GRANT);
    struct kd_process_create p = {.path = path, .argv = argv, .fds = {-1, -1, -1},
                                  .handle_count = 2, .handles = {badge, badge},
                                  .handle_rights = {KD_RIGHT_CALL, KD_RIGHT_CALL}};
    snprintf(path, sizeof path, "/bin/%s", name ? name + 1 : self);
    if (kd_call3(KD_PROCESS_CREATE, (long)&p, 0, 0) < 0)
        return -1;
    kd_call3(KD_HANDLE_CLOSE, badge, 0, 0);
    kd_call3(KD_SPACE_ATTACH, p.pid, object, RW);
    return child_has_begun(p.pid) ? p.pid : -1;
}

static bool killed(int pid)
{
    kd_call3(KD_PROCESS_KILL, pid, 9, 0);
    return pid > 0 && child_wait(pid) == 9;
}

/* How long a store to the page waits. */
static long waits(void)
{
    long before = now_ms();
    return run(stores, number(HELD), 0, LONG_MS) ? -1 : now_ms() - before;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return child(argv[1]);
    tap_plan(9);
    tap_ok(start_manager((struct own_manager){.pages = PAGES, .messages = hears}),
           "a manager");
    int link = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    run(stores, number(0), 0, LONG_MS);
    long used = views_used(), waited;

    bool gone = killed(child_new(argv[0], link, STRING(STAYS_MS)));
    tap_ok(gone && check() == 0 && views_used() > used && !clients_gone,
           "rights outlive their process, of whose end their manager hears behind them");
    waited = waits();
    tap_ok(waited > STAYS_MS / 2 && waited < STAYS_MS + LONG_MS / 2, "for as long as it has asked");
    while (!clients_gone) sched_yield();

    gone = killed(child_new(argv[0], link, STRING(LONG_MS)));
    waited = run(stores, number(HELD), 0, 200);
    tap_ok(gone && waited == -ETIMEDOUT, "they stand");
    kd_call3(KD_BADGE_END, link, BADGE, 0);
    waited = waits();
    tap_ok(waited >= 0 && waited < LONG_MS / 2, "until their badge ends");

    int other = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    int pid = child_new(argv[0], other, STRING(STAYS_MS));
    kd_call3(KD_HANDLE_CLOSE, other, 0, 0);
    gone = killed(pid);
    waited = waits();
    tap_ok(gone && waited > STAYS_MS / 2, "the end of its port is not the badge's");

    gone = killed(child_new(argv[0], link, "0"));
    waited = waits();
    tap_ok(gone && waited >= 0 && waited < STAYS_MS / 2, "who asked for no time leaves nothing");

    struct kd_begin wrong = {.port = link + 1, .locked = (uint64_t)object + 1};
    int view;
    tap_ok(holder_begin(&wrong, &view) == -EBADF, "what is no badge is refused");
    kd_call3(KD_HANDLE_CLOSE, view, 0, 0);
    while (views_used() != used)
        sched_yield();
    is(check(), 0, "all is as before");
    return tap_end();
}
