/*
 * pstore_dying.c - a program opens a container, or an area, where an object of its own is dying.
 *
 * Aim     the open ends well when that has gone: nobody hears that it was asked for again.
 * Method  this process makes an object over the container's addresses, attaches it to itself and
 *         ends its port. As soon as that is dead it opens the container; the sweep of so many pages
 *         goes on, on another CPU. The same with an area, which a child keeps.
 */
#include <kit.h>
#include <pthread.h>
#include <unistd.h>

#include "pstore_test.h"

enum { TIMES = 20, PAGES = 16384 };
struct root { uint64_t number; };

static ps_container *c;
static int port, copy;
static long object;

static int write_root(void *number)
{
    ((struct root *)ps_root(c))->number = *(uint64_t *)number;
    return 0;
}

static int read_root(void *number)
{
    *(uint64_t *)number = ((struct root *)ps_root(c))->number;
    return 0;
}

static int lies_there(uint64_t at)
{
    port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    copy = (int)kd_call3(KD_HANDLE_COPY, port, KD_RIGHT_CALL, 0);
    struct kd_object_create o = {.port = port, .commit_port = port, .pages = PAGES, .base = at,
                                 .flags = KD_OBJECT_TRANSACTIONAL};
    object = kd_call3(KD_OBJECT_CREATE, (long)&o, 0, 0);
    struct kd_supply s = {.object = (int)object, .source = KD_SUPPLY_ZERO, .count = PAGES,
                          .rights = KD_READ};
    return object >= 0 && kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0) == 0 &&
           kd_call3(KD_SPACE_ATTACH, getpid(), object, KD_RIGHT_READ) == 0;
}

static void *dies(void *unused)
{
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    return unused;
}

/* Is `opens` right while an object of this process dies at these addresses? How many times. */
static int right_while_dying(uint64_t at, int (*opens)(void))
{
    int right = 0;
    for (int i = 0; i < TIMES; i++) {
        pthread_t t;
        int there = lies_there(at);
        pthread_create(&t, NULL, dies, NULL);
        while (kd_call3(KD_PORT_OWNER, copy, 0, 0) >= 0) continue;
        right += opens() && there;
        pthread_join(t, NULL);
        kd_call3(KD_HANDLE_CLOSE, copy, 0, 0);
        kd_call3(KD_HANDLE_CLOSE, object, 0, 0);
    }
    return right;
}

static int container_opens(void)
{
    uint64_t number = 0;
    c = ps_open("dying", 0, PS_LAYOUT(struct root, 1));
    return c && ps_transaction(read_root, &number) == 0 && number == 7 && ps_close(c) == 0;
}

static uint64_t area_at;

static int area_opens(void)
{
    ps_area *a = ps_area_open("dying area");
    area_at = a ? (uint64_t)ps_area_memory(a) : 0;
    return a && *(volatile uint64_t *)area_at == 8 && ps_area_close(a) == 0;
}

static void area_keep(void)
{
    ps_area *a = ps_area_make("dying area", KD_PAGE_BYTES, NULL);
    if (a) *(volatile uint64_t *)ps_area_memory(a) = 8;
    child_begun();
    for (;;) pause();
}

int main(int argc, char **argv)
{
    if (argc > 1) area_keep();
    tap_plan(5);
    ps_delete("dying");
    c = ps_open("dying", PS_CREATE | PS_WRITE, PS_LAYOUT(struct root, 1));
    uint64_t at = c ? (uint64_t)ps_segment(c, 0, NULL) : 0, number = 7;
    tap_ok(c && ps_transaction(write_root, &number) == 0 && ps_close(c) == 0, "a container");
    is(right_while_dying(at, container_opens), TIMES,
       "while objects of its own die at its addresses it is opened, and is what it was");
    int child = child_start(argv[0], "keeps", NULL);
    tap_ok(child_has_begun(child) && area_opens(), "an area");
    is(right_while_dying(area_at, area_opens), TIMES, "it is opened so, too");
    kd_call3(KD_PROCESS_KILL, child, 9, 0);
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck");
    return tap_end();
}
