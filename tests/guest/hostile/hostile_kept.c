/*
 * hostile_kept.c - a container's own manager that would like to have more than its container.
 *
 * Aim     A manager that the store starts has the directory in which its container lies, and
 *         nothing else: it finds no names of the kernel's, opens, makes and lists what is in that
 *         directory, and reaches nothing above or beside it; it manages nothing there, sets no
 *         manager, passes nothing on, and asks nothing of the store as a whole. So a limit of the
 *         directory is its own. A manager of a container in the root has the root, by its handle.
 * Method  This program is the manager, too: it tries all, then serves a page of which the first
 *         word is the line of the first answer that was wrong.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <manager.h>

#include "number.h"
#include "pstore_test.h"
#include "store_protocol.h"

#define SELF "/bin/hostile_kept"
enum { NAMES = 60 };

/* ---- the manager */

static uint64_t wrong;
#define WANT(good) do { if (!(good) && !wrong) wrong = __LINE__; } while (0)

static long ask(uint32_t kind, const void *data, size_t bytes)
{
    static char answer[65536];
    struct kd_message m = {.kind = kind, .data = data, .data_bytes = bytes, .handle = -1,
                           .buffer = answer, .buffer_bytes = sizeof answer};
    long r = kd_call3(KD_PORT_CALL, 0, (long)&m, 0);
    if (r == 0 && m.handle >= 0) kd_call3(KD_HANDLE_CLOSE, m.handle, 0, 0);
    return r < 0 ? r : m.status;
}

static int puts_in(const char *path)
{
    struct job j = {ps_open(path, PS_CREATE | PS_WRITE, PAGE), 1};
    int r = j.c ? ps_transaction(number_set, &j) : -errno;
    if (j.c) ps_close(j.c);
    return r;
}

static void tries_the_kernel(void)
{
    static const char *const found[] = {"store", "kept store", "zone 1", "console"};
    for (unsigned i = 0; i < sizeof found / sizeof *found; i++)
        WANT(kd_call3(KD_NAME_FIND, (long)found[i], 0, 0) == -EPERM);
    for (int h = 1; h < 256; h++) {
        struct kd_message m = {.kind = STORE_LOOK, .data = "", .data_bytes = 1, .handle = -1};
        WANT(kd_call3(KD_PORT_CALL, h, (long)&m, 0) == -EBADF);
    }
}

static void tries_the_store(const char *own)
{
    static const uint32_t whole[] = {STORE_STATS, STORE_CHECKPOINT, STORE_SCRUB, STORE_MANAGER};
    char path[WIRE_PATH_BYTES] = "";
    for (unsigned i = 0; i < sizeof whole / sizeof *whole; i++)
        WANT(ask(whole[i], path, sizeof path) == -EACCES);
    WANT(ps_limit_set("", PS_LIMIT_NAMES, PS_NO_LIMIT) == -EACCES);
    WANT(ps_take_back(own) == -EACCES && ps_holders(own, NULL, 0) == -EACCES);
    WANT(ps_handle("", PS_MAY_READ | PS_MAY_GRANT) == -EACCES);
    WANT(ps_link(0, "again", PS_MAY_READ) < 0);
    WANT(ps_manager(own, SELF, NULL) < 0);
}

static void tries_jail(void)
{
    struct ps_entry list[8];
    int e = 0;
    WANT(ps_directory_list("", list, 8) == 1 && strcmp(list[0].name, "served") == 0);
    WANT(!ps_open("secret", 0, PAGE) && errno == ENOENT);
    WANT(!ps_open("jail/served", 0, PAGE) && errno == ENOENT);
    WANT(!ps_open("../secret", 0, PAGE) && !ps_open("/secret", 0, PAGE));
    WANT(ps_delete("secret") == -ENOENT);
    WANT(puts_in("own") == 0 && ps_directory_list("", NULL, 0) == 2);
    WANT(ps_rename("own", "mine") == 0 && ps_delete("mine") == 0 && puts_in("kept") == 0);
    for (int i = 0; e == 0 && i < 2 * NAMES; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", i);
        e = ps_directory_create(name);
    }
    WANT(e == -EDQUOT);
    tries_the_store("served");
}

static void tries_root(void)
{
    WANT(puts_in("secret") == 0 && puts_in("vault/hidden") == 0 && puts_in("by manager") == 0);
    tries_the_store("served");
}

static void page(struct km_request *r)
{
    static uint64_t words[KM_PAGE_BYTES / 8];
    words[0] = wrong;
    km_supply(r, words, 1);
}

static const struct km_ops ops = {.page = page};

static int manager(const char *what)
{
    struct km_object *o;
    tries_the_kernel();
    if (strcmp(km_container_name(), "served") != 0) wrong = __LINE__;
    if (strcmp(what, "jail") == 0)
        tries_jail();
    else
        tries_root();
    int r = km_container(KM_READ, &ops, NULL, &o);
    return r ? -r : -km_serve(1);
}

/* ---- its client */

static long told(const char *path)
{
    ps_container *c = ps_open(path, 0, NULL);
    long line = c ? (long)*(volatile uint64_t *)ps_address(c) : -errno;
    if (c) ps_close(c);
    return line;
}

static int opens(const char *path)
{
    ps_container *c = ps_open(path, 0, PAGE);
    int e = c ? 0 : -errno;
    if (c) ps_close(c);
    return e;
}

int main(int argc, char **argv)
{
    static const char *const jail[] = {"jail", NULL}, *const root[] = {"root", NULL};
    if (argc > 1 && km_container_name()) return manager(argv[1]);
    tap_plan(6);
    tap_ok(puts_in("secret") == 0 && ps_directory_create("vault") == 0 &&
               puts_in("vault/hidden") == 0 && ps_directory_create("jail") == 0 &&
               ps_limit_set("jail", PS_LIMIT_NAMES, NAMES) == 0,
           "a container, and two directories, of which one has a limit");
    tap_ok(ps_manager("jail/served", SELF, (const char **)jail) == 0, "a manager in that one");
    long line = told("jail/served");
    tap_ok(line == 0, "has that directory, and nothing else: line %ld", line);
    tap_ok(opens("jail/kept") == 0 && opens("secret") == 0, "what it made there stays, for others");
    tap_ok(ps_manager("served", SELF, (const char **)root) == 0, "a manager in the root");
    line = told("served");
    tap_ok(line == 0 && opens("by manager") == 0, "has the root, and manages nothing: line %ld",
           line);
    return tap_end();
}
