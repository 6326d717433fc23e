/*
 * asked.c - a first touch of a page in memory, by who decides about it: the kernel, which has the
 * right; a thread of the client's own, which calls the manager for the lock, as Cricket's authors
 * tried (their footnote 2); the store manager; a program that the store forwards the question to.
 * What a manager costs that decides itself is in pages.c.
 *
 * The client's own thread is put together from what there is: the client has made the object, so
 * questions come to its port, and the manager only says yes. In earnest no manager could let it: a
 * client that answers for itself is locked by nobody.
 */
#include <pthread.h>
#include <unistd.h>

#include "bench.h"
#include "decide.h"

enum { PAGES = 64, MANAGER = 1, PROGRAM = 2, RW = KD_READ | KD_WRITE };
static const char manager_name[] = "bench-asked", container_name[] = "bench asked";

/* ---- servers ---- */

static int serve_locks(void)
{
    struct kd_message reply = {.handle = -1}, m = {.handle = -1};
    int port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    if (kd_call3(KD_NAME_SET, (long)manager_name, port, 0))
        return 1;
    long e = kd_call3(KD_PORT_RECEIVE, port, (long)&m, -1);
    while (!e)
        e = kd_call4(KD_PORT_REPLY_RECEIVE, (long)m.token, (long)&reply, port, (long)&m);
    return 2;
}

static int serve_program(void)
{
    struct ps_question q = {0};
    ps_container *c = ps_open(container_name, PS_WRITE, NULL);
    int e = c ? ps_decide(c, PS_DECIDE_PROGRAM) : -errno;
    kd_call3(KD_NAME_SET, (long)"bench-asked-program", kd_call3(KD_PORT_CREATE, 0, 0, 0), 0);
    while (!e && !(e = ps_decide_next(c, &q)))
        q.answer = PS_GRANT;
    return 3;
}

static int serve(int number) { return number == MANAGER ? serve_locks() : serve_program(); }

/* ---- the client's own thread ---- */

static int port, manager_port, object;
static void *handle(void *arg)
{
    struct kd_message m = {.handle = -1}, lock;
    while (kd_call3(KD_PORT_RECEIVE, port, (long)&m, -1) == 0) {
        if (m.kind != (uint32_t)KD_MSG_PAGE || !(m.word[3] & KD_PAGE_HERE))
            continue;
        lock = (struct kd_message){.kind = 1, .handle = -1, .word = {m.word[1], m.word[3]}};
        if (kd_call3(KD_PORT_CALL, manager_port, (long)&lock, 0) == 0)
            kd_call6(KD_OBJECT_GRANT, object, (long)m.word[1], 1,
                     m.word[3] & KD_WRITE ? RW : KD_READ, (long)m.word[6], 0);
    }
    return arg;
}

static char *object_make(void)
{
    port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    struct kd_object_create o = {.port = port, .commit_port = port, .pages = PAGES + 1,
                                 .flags = KD_OBJECT_TRANSACTIONAL, .name = "bench-asked"};
    object = (int)kd_call3(KD_OBJECT_CREATE, (long)&o, 0, 0);
    struct kd_supply s = {.object = object, .source = KD_SUPPLY_ZERO, .count = PAGES + 1};
    pthread_t t;
    long e = object < 0 ? object : kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
    if (!e)
        e = kd_call3(KD_SPACE_ATTACH, getpid(), object, RW);
    if (e || pthread_create(&t, NULL, handle, NULL))
        fail("an object of its own", e);
    pthread_detach(t);
    return (char *)o.base;
}

static double touches(volatile char *pages)
{
    txn_begin();
    (void)pages[PAGES * KD_PAGE_BYTES]; /* page tables */
    double mean = touch_all(pages, PAGES, 0);
    txn_undo();
    return mean;
}

static void by_own_thread(void)
{
    long pid = server_start(&asked_part, MANAGER, manager_name, &manager_port);
    volatile char *pages = object_make();
    int view = view_new();
    double own = touches(pages);
    kd_call4(KD_OBJECT_RECALL, object, 0, PAGES + 1, 0);
    kd_call4(KD_OBJECT_GRANT, object, 0, PAGES + 1, RW);
    row("first touch, the kernel has the right", "instructions", touches(pages), "400");
    row("first touch, a thread of the client's own calls the manager for the lock", "instructions",
        own, "-");
    view_end(view);
    server_end(pid);
}

/* ---- containers of the store ---- */

static ps_container *container;
static volatile char *first;
static int pages_make(void *unused)
{
    (void)unused;
    char *at = ps_alloc(container, (size_t)(PAGES + 2) * KD_PAGE_BYTES, NULL);
    if (!at)
        return -errno;
    first = (char *)(((uintptr_t)at + KD_PAGE_BYTES - 1) & ~(uintptr_t)(KD_PAGE_BYTES - 1));
    for (unsigned i = 0; i <= PAGES; i++)
        first[(size_t)i * KD_PAGE_BYTES] = 1;
    return 0;
}
static int pages_touch(void *mean)
{
    (void)first[PAGES * KD_PAGE_BYTES];
    *(double *)mean = touch_all(first, PAGES, 0);
    return 0;
}
static double container_touches(void)
{
    double mean = 0;
    int e = ps_transaction(pages_touch, &mean);
    if (e)
        fail(container_name, e);
    return mean;
}

static void by_store(void)
{
    container = ps_open(container_name, PS_CREATE | PS_WRITE, NULL);
    int e = container ? ps_transaction(pages_make, NULL) : -errno;
    if (!e)
        e = ps_decide(container, PS_DECIDE_STORE);
    if (e)
        fail(container_name, e);
    row("first touch of a container's page, the store manager decides", "instructions",
        container_touches(), "-");
    e = ps_decide(container, PS_DECIDE_KERNEL);
    long pid = server_start(&asked_part, PROGRAM, "bench-asked-program", NULL);
    if (e || ps_decide(container, PS_DECIDE_KERNEL) != -EBUSY)
        fail("a program that decides", e);
    row("first touch of a container's page, a program decides, asked by the store", "instructions",
        container_touches(), "-");
    server_end(pid);
    ps_close(container);
    ps_delete(container_name);
}

static void run(void)
{
    by_own_thread();
    by_store();
}

const struct part asked_part = {"asked", run, serve};
