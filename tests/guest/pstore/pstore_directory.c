/*
 * pstore_directory.c - directories, links and handles, by all rights and by fewer.
 *
 * Aim     A path leads to what was made under it, and only there: containers in directories in
 *         directories are made, opened, listed, renamed, moved and deleted; names that none can
 *         have are refused; the root has what it always had. A link gives what it says and not
 *         more, on every way (RT7), and outlives the store manager; what is taken back is gone for
 *         handles in use and on their way, for openings, and for good (RT4, RT10).
 * Method  All by libpstore. What a program that has no other rights can do: hostile_confined.c.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "number.h"
#include "pstore_test.h"
#include "store_protocol.h"

enum { READS = PS_MAY_READ, WRITES = PS_MAY_READ | PS_MAY_WRITE };

static int opens(const char *path, int flags)
{
    ps_container *c = ps_open(path, flags, PAGE);
    int result = c ? 0 : -errno;
    if (c) ps_close(c);
    return result;
}

static int opens_by(int handle, const char *path, int flags)
{
    ps_container *c = ps_open_by(handle, path, flags, PAGE);
    int result = c ? 0 : -errno;
    if (c) ps_close(c);
    return result;
}

static int put_in(const char *path, uint64_t number)
{
    struct job j = {ps_open(path, PS_CREATE | PS_WRITE, PAGE), number};
    int result = j.c ? ps_transaction(number_set, &j) : -errno;
    if (j.c) ps_close(j.c);
    return result;
}

static uint64_t number_in(const char *path)
{
    struct job j = {.c = ps_open(path, 0, PAGE)};
    int result = j.c ? ps_transaction(number_get, &j) : -errno;
    if (j.c) ps_close(j.c);
    return result == 0 ? j.number : 0;
}

/* Is there an entry of this name, and of which kind and rights? */
static int has(const char *directory, const char *name, int kind, unsigned rights)
{
    static struct ps_entry list[64];
    int n = ps_directory_list(directory, list, 64), found = 0;
    for (int i = 0; i < n && i < 64; i++)
        found += strcmp(list[i].name, name) == 0 && list[i].directory == kind &&
                 list[i].rights == rights;
    return found;
}

/* ---- directories ---- */

static void test_paths(void)
{
    tap_ok(ps_directory_create("maps") == 0 && ps_directory_create("maps/old") == 0,
           "a directory in a directory");
    tap_ok(put_in("maps/old/world", 7) == 0 && number_in("maps/old/world") == 7,
           "a container by a path of three parts");
    tap_ok(put_in("world", 8) == 0 && number_in("maps/old/world") == 7 && number_in("world") == 8,
           "one of the same name in the root is another one");
    tap_ok(has("maps", "old", 1, PS_MAY_ALL) == 1 && has("maps/old", "world", 0, PS_MAY_ALL) == 1 &&
               has("", "maps", 1, PS_MAY_ALL) == 1 && has("", "world", 0, PS_MAY_ALL) == 1,
           "each is listed where it is");
    static struct ps_info list[64];
    int n = ps_list(list, 64), worlds = 0, others = 0;
    for (int i = 0; i < n && i < 64; i++) {
        worlds += strcmp(list[i].name, "world") == 0;
        others += strcmp(list[i].name, "maps") == 0 || (unsigned char)list[i].name[0] < ' ';
    }
    tap_ok(worlds == 1 && others == 0, "ps_list has the containers of the root");
    tap_ok(ps_rights("maps/old/world", NULL) == PS_MAY_ALL && ps_rights("", NULL) == PS_MAY_ALL,
           "all rights, without a root of its own");
}

static void test_refused(void)
{
    char deep[300] = "maps";
    while (strlen(deep) < 250) strcat(deep, "/maps");
    tap_ok(opens("maps", 0) == -EISDIR && opens("world/x", 0) == -ENOTDIR &&
               opens("maps/none/world", PS_CREATE) == -ENOENT && opens("maps/none", 0) == -ENOENT,
           "directories are not opened, containers not walked through");
    tap_ok(opens("/world", 0) == -EINVAL && opens("maps//old", 0) == -EINVAL &&
               opens("maps/", PS_CREATE) == -EINVAL && opens("..", 0) == -EINVAL &&
               opens("maps/../world", 0) == -EINVAL && opens(".", PS_CREATE) == -EINVAL,
           "names that none can have");
    strcat(deep, "/maps/maps");
    tap_ok(opens(deep, 0) == -ENAMETOOLONG, "a path that is too long");
    deep[100] = 0;
    tap_ok(opens(deep, 0) < 0 && opens("a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a", 0) < 0, "deep paths");
    tap_ok(ps_directory_create("maps") == -EEXIST && ps_directory_create("world") == -EEXIST &&
               ps_directory_create("none/x") == -ENOENT && ps_directory_create("") == -EINVAL,
           "directories that cannot be made");
    struct ps_entry entry;
    tap_ok(ps_directory_list("none", &entry, 1) == -ENOENT && ps_take_back("none") == -ENOENT &&
               ps_take_back("maps/none") == -ENOENT && ps_unlink("none") == -ENOENT,
           "what is not there has no entries, and nothing of it is taken back");
    tap_ok(ps_delete("maps") == -ENOTEMPTY && ps_delete("") == -EINVAL &&
               ps_rename("maps", "maps/old/maps") == -ELOOP,
           "a directory with entries stays; none into itself");
}

static void test_moves(void)
{
    tap_ok(ps_rename("maps/old/world", "maps/globe") == 0 && number_in("maps/globe") == 7 &&
               opens("maps/old/world", 0) == -ENOENT,
           "a container is moved");
    tap_ok(ps_rename("maps", "atlas") == 0 && number_in("atlas/globe") == 7 &&
               ps_rename("atlas/globe", "globe") == 0 && number_in("globe") == 7,
           "a directory has another name, and a container of it comes into the root");
    tap_ok(ps_rename("globe", "world") == -EEXIST && ps_rename("globe", "atlas/globe") == 0 &&
               ps_delete("atlas/old") == 0 && ps_delete("atlas/old") == -ENOENT,
           "an empty directory is deleted");
    char name[64], path[256];
    memset(name, 'n', 63);
    name[63] = 0;
    snprintf(path, sizeof path, "atlas/%s", name);
    int directory = ps_directory_create(path);
    snprintf(path, sizeof path, "atlas/%s/%s", name, name);
    tap_ok(directory == 0 && put_in(path, 9) == 0 && number_in(path) == 9 &&
               ps_rename(path, "nine") == 0 && number_in("nine") == 9 && ps_delete("nine") == 0,
           "long names");
    snprintf(path, sizeof path, "atlas/%s", name);
    tap_ok(ps_delete(path) == 0, "and their directory is deleted");
}

/* ---- links and handles ---- */

static void test_rights(void)
{
    int h = ps_handle("atlas/globe", READS | PS_MAY_GRANT);
    tap_ok(h >= 0 && opens_by(h, NULL, 0) == 0 && opens_by(h, NULL, PS_WRITE) == -EACCES,
           "a handle opens, and only for what it is");
    tap_ok(ps_directory_create("guest") == 0 && ps_link(h, "guest/globe", READS) == 0 &&
               number_in("guest/globe") == 7 && opens("guest/globe", PS_WRITE) == -EACCES &&
               opens("atlas/globe", PS_WRITE) == 0,
           "a link to read is not to be written");
    struct ps_entry first = {0}, link = {0};
    tap_ok(ps_rights("atlas/globe", &first) == PS_MAY_ALL &&
               ps_rights("guest/globe", &link) == READS && link.made_of == first.grant &&
               first.made_of == 0,
           "a link knows of which grant it was made");
    tap_ok(ps_link(h, "guest/more", WRITES) < 0 && opens("guest/more", 0) == -ENOENT,
           "no more rights than the handle has");
    tap_ok(ps_link(h, "guest/globe", READS) == -EEXIST &&
               ps_link(h, "none/globe", READS) == -ENOENT,
           "where it cannot be");
    int plain = ps_handle("atlas/globe", WRITES);
    tap_ok(plain >= 0 && ps_link(plain, "guest/second", READS) < 0,
           "without GRANT nothing is linked");
    tap_ok(ps_handle("guest/globe", WRITES) == -EACCES && ps_handle("guest/none", READS) == -ENOENT,
           "no handle of more than the path gives");
    tap_ok(ps_delete("guest/globe") == -EACCES && ps_unlink("atlas/globe") == -EPERM,
           "deleting is a right, and the first entry is no link");
    ps_drop(plain);
    ps_drop(h);
}

static void test_directory_handles(void)
{
    int d = ps_handle("guest", READS), all = ps_handle("atlas", PS_MAY_ALL);
    tap_ok(d >= 0 && opens_by(d, "globe", 0) == 0 && opens_by(d, "new", PS_CREATE) == -EACCES &&
               opens_by(d, "atlas", 0) == -ENOENT && opens_by(d, NULL, 0) == -EISDIR,
           "a path begins at a directory's handle");
    tap_ok(opens_by(all, "new", PS_CREATE | PS_WRITE) == 0 &&
               has("atlas", "new", 0, PS_MAY_ALL) == 1 && ps_delete("atlas/new") == 0,
           "and makes containers there");
    ps_drop(d);
    ps_drop(all);
}

/* ---- taking back ---- */

static void test_take_back(void)
{
    int h = ps_handle("atlas/globe", READS | PS_MAY_GRANT), own = ps_handle("atlas", READS);
    ps_container *c = ps_open("guest/globe", 0, PAGE);
    tap_ok(h >= 0 && own >= 0 && c && ps_take_back("atlas/globe") >= 1, "taken back");
    tap_ok(opens("guest/globe", 0) == -ENOENT && has("guest", "globe", 0, READS) == 0,
           "links are gone");
    tap_ok(opens_by(h, NULL, 0) == -EIDRM && opens_by(own, "globe", 0) == 0, "handles, too");
    ps_close(c);
    struct job j = {ps_open("atlas/globe", 0, PAGE), 0};
    tap_ok(j.c && ps_transaction(number_get, &j) == 0 && j.number == 7,
           "the grant itself is there");
    if (j.c) ps_close(j.c);
    ps_drop(h);
    h = ps_handle("atlas/globe", READS | PS_MAY_GRANT);
    tap_ok(ps_link(h, "guest/again", READS) == 0 && ps_unlink("guest/again") == 0 &&
               opens("guest/again", 0) == -ENOENT && opens_by(h, NULL, 0) == 0,
           "unlinking takes one link");
    ps_drop(h);
    ps_drop(own);
}

/* A directory that was linked: what was reached by it ends with the link. */
static void test_take_back_directory(void)
{
    unsigned lends = READS | PS_MAY_WRITE | PS_MAY_MANAGE | PS_MAY_GRANT;
    int d = ps_handle("atlas", lends);
    tap_ok(ps_link(d, "guest/shared", lends) == 0,
           "a directory linked");
    int by = ps_handle("guest/shared/globe", READS | PS_MAY_GRANT);
    tap_ok(by >= 0 && opens_by(by, NULL, 0) == 0 && ps_link(by, "guest/kept", READS) == -EMLINK,
           "what is reached by a link is not linked further");
    int shared = ps_handle("guest/shared", READS | PS_MAY_GRANT);
    int below = handle_by(shared, "globe", WIRE_MAY_READ | WIRE_MAY_GRANT);
    tap_ok(below >= 0 && opens_by(below, NULL, 0) == 0 &&
               ps_link(below, "guest/kept", READS) == -EMLINK &&
               ps_link(shared, "guest/same", READS) == 0,
           "nor by a handle of the link; the link itself is");
    tap_ok(ps_unlink("guest/shared") == 0 && opens_by(by, NULL, 0) == -EIDRM &&
               opens("guest/shared/globe", 0) == -ENOENT && opens_by(below, NULL, 0) == -EIDRM &&
               opens("guest/same/globe", 0) == -ENOENT && opens("guest/kept", 0) == -ENOENT,
           "and ends with it");
    ps_drop(shared);
    ps_drop(below);
    ps_drop(d);
    ps_drop(by);
}

/* ---- beyond the manager ---- */

static void test_death(void)
{
    int h = ps_handle("atlas/globe", WRITES | PS_MAY_GRANT);
    tap_ok(ps_link(h, "guest/lasting", READS) == 0 && ps_link(h, "guest/short", READS) == 0 &&
               ps_unlink("guest/short") == 0,
           "two links, one of them unlinked");
    int manager = store_pid();
    tap_ok(manager > 0 && kd_call3(KD_PROCESS_KILL, manager, 9, 0) == 0, "the store manager dies");
    int first = opens("guest/lasting", 0); /* may find the dead one; the next one waits */
    for (int i = 0; i < 3 && first == -EOWNERDEAD; i++) first = opens("guest/lasting", 0);
    tap_ok(first == 0 && number_in("guest/lasting") == 7 &&
               opens("guest/lasting", PS_WRITE) == -EACCES && opens("guest/short", 0) == -ENOENT,
           "the link is there again with its rights, the other is not");
    int ended = ps_take_back("atlas/globe");
    tap_ok(ended == 1 && opens("guest/lasting", 0) == -ENOENT,
           "and can be taken back");
    ps_drop(h);
}

static void test_end(void)
{
    tap_ok(ps_delete("atlas/globe") == 0 && ps_delete("atlas") == 0 && ps_delete("guest") == 0 &&
               ps_delete("world") == 0,
           "all is deleted");
    tap_ok(kd_call3(KD_CHECK, 0, 0, 0) == 0, "kcheck");
}

int main(void)
{
    tap_plan(43);
    test_paths();
    test_refused();
    test_moves();
    test_rights();
    test_directory_handles();
    test_take_back();
    test_take_back_directory();
    test_death();
    test_end();
    return tap_end();
}
