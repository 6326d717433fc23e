/*
 * manager_exec.c - a program that has a container of a manager's store open (manager_store.h) puts
 * another one in its place, which opens it, too, before the store hears of that.
 *
 * Aim     the new program has what it opened, and what the store hears late does not end it.
 * Method  the store's only thread for pages and notices waits in `page` until the new program has
 *         looked. A page that was asked for behind the notice comes when that was served.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "manager.h"
#include "manager_store.h"
#include "pstore_test.h"

enum { PAGES = 1024, BLOCK = 100 * KM_PAGE_BYTES, FAR = 64, MAGIC = 4711 };
enum { READY, BLOCKED, GO, SERVED, EVENTS };
struct root { long value; char *block; };
static int event[EVENTS][2];

static void tell(int e)
{
    if (write(event[e][1], "", 1) != 1) abort();
}
static void hear(int e)
{
    char byte;
    if (read(event[e][0], &byte, 1) != 1) abort();
}

/* ---- the store ---- */

static void page(struct km_request *r)
{
    static int once;
    if (r->page > FAR && !once++) {
        tell(BLOCKED);
        hear(GO);
    }
    r->count = 1;
    if (km_zero(r) == -ENOMEM) km_fail(r, ENOMEM);
}

static void *serve(void *unused)
{
    static const struct km_ops ops = {.page = page};
    km_store_serve(&(struct km_store){.name = "mine", .pages = PAGES, .ops = &ops}, 1);
    return unused;
}

/* ---- who has its thread wait ---- */

static ps_container *c;

static int make(void *unused)
{
    struct root *root = ps_root(c);
    (void)unused;
    root->value = MAGIC;
    root->block = ps_alloc(c, BLOCK, NULL);
    return root->block ? 0 : -errno;
}

static int look(void *page)
{
    struct root *root = ps_root(c);
    return root->value != MAGIC ? -EIO : page ? root->block[(long)page * KM_PAGE_BYTES] : 0;
}

static int opens(const char *name, int flags)
{
    while (ps_connect("mine")) sched_yield();
    c = ps_open(name, flags, PS_LAYOUT(struct root, 1));
    return !c;
}

static int asks(void)
{
    hear(READY);
    if (opens("slow", PS_CREATE | PS_WRITE) || ps_transaction(make, NULL)) return 1;
    if (ps_transaction(look, (void *)80) || ps_transaction(look, (void *)90)) return 2;
    tell(SERVED);
    return 0;
}

/* ---- who puts another program in its place ---- */

static int before(const char *self)
{
    char text[EVENTS][2][16];
    if (opens("box", PS_CREATE | PS_WRITE) || ps_transaction(make, NULL)) return 1;
    tell(READY);
    hear(BLOCKED);
    for (int i = 0; i < EVENTS; i++)
        for (int k = 0; k < 2; k++) snprintf(text[i][k], sizeof text[i][k], "%d", event[i][k]);
    execl("/bin/manager_exec", self, text[GO][1], text[SERVED][0], (char *)NULL);
    return 2;
}

static int after(char **argv)
{
    event[GO][1] = atoi(argv[1]);
    event[SERVED][0] = atoi(argv[2]);
    if (opens("box", 0)) return 3;
    if (ps_transaction(look, NULL)) return 4;
    tell(GO);
    hear(SERVED);
    if (ps_transaction(look, NULL)) return 5;
    return ps_close(c) ? 6 : 0;
}

int main(int argc, char **argv)
{
    if (argc > 1) return after(argv);
    tap_plan(4);
    for (int i = 0; i < EVENTS; i++)
        if (pipe(event[i])) return 1;
    int opener = fork();
    if (opener == 0) _exit(before(argv[0]));
    int asker = fork();
    if (asker == 0) _exit(asks());
    pthread_t store;
    pthread_create(&store, NULL, serve, NULL);
    is(child_wait(opener), 0, "the new program has the container, also when the store has heard");
    tell(GO); /* if it did not come so far */
    is(child_wait(asker), 0, "who had the store wait goes on");
    is(opens("box", PS_WRITE) ? -errno : ps_close(c), 0, "the container can be opened");
    is(ps_delete("box"), 0, "and deleted: nobody has it open");
    return tap_end();
}
