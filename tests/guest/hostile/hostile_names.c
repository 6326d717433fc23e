/*
 * hostile_names.c - names and handles as a hostile program would like them to be.
 *
 * Aim     Handles that were never given, or are of what is gone, are worth nothing by any request.
 *         Directories in circles, and deeper than may be, end no call late and lose nothing. Who
 *         makes names until there is no room for more hears so, an open then costs what it cost,
 *         and what he gives back is room again. Names are bytes: case and encoding make two of
 *         them, and no control character is in one.
 * Method  Requests by bare calls where the library has none. Costs are counted in instructions.
 *         Paths on the disk that are forged: tests/disk/rights/test_rights_hostile.c; a program
 *         that has little: hostile_confined.c; all of it at random: hostile_monitor.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pstore_test.h"
#include "store_protocol.h"

struct page { uint64_t number; };
#define PAGE PS_LAYOUT(struct page, 1)
enum { READS = PS_MAY_READ | PS_MAY_GRANT, DEEPEST = 64, PARTS = 16, LINKS = 4, MILLION = 1000000,
       OPENS = 30, NUMBERS = 300, READ_AND_GIVE = WIRE_MAY_READ | WIRE_MAY_GRANT };

static int opens(const char *path, int flags)
{
    ps_container *c = ps_open(path, flags, PAGE);
    int result = c ? 0 : -errno;
    if (c) ps_close(c);
    return result;
}

static int opens_by(int handle, const char *path)
{
    ps_container *c = ps_open_by(handle, path, 0, PAGE);
    int result = c ? 0 : -errno;
    if (c) ps_close(c);
    return result;
}

static long ask_with(long by, uint32_t kind, const char *path, long with)
{
    static struct wire_named answer[32];
    char bytes[2 * WIRE_PATH_BYTES] = "";
    struct kd_message m = {.kind = kind, .word = {WIRE_MAY_READ}, .data = bytes,
                           .data_bytes = kind == STORE_RENAME ? sizeof bytes : sizeof bytes / 2,
                           .buffer = answer, .buffer_bytes = sizeof answer, .handle = (int)with,
                           .handle_rights = with < 0 ? 0 : KD_RIGHT_CALL | READ_AND_GIVE};
    strcpy(bytes, path);
    strcpy(bytes + WIRE_PATH_BYTES, "new");
    long r = kd_call3(KD_PORT_CALL, by, (long)&m, 0);
    if (r == 0 && m.handle >= 0) ps_drop(m.handle);
    return r < 0 ? r : m.status;
}
static long ask(long by, uint32_t kind, const char *path) { return ask_with(by, kind, path, -1); }

/* ---- handles ---- */

static int answered(void)
{
    int count = 0;
    for (int h = -2; h < NUMBERS; h++) count += ask(h, STORE_LOOK, "") == 0;
    return count;
}

static void test_forged(void)
{
    int before = answered(), own = ps_handle("box", PS_MAY_ALL), good = own >= 0;
    good &= answered() == before + 1;
    long port = kd_call3(KD_PORT_CREATE, 0, 0, 0);
    for (uint64_t n = 0; n < 64; n++)
        for (int high = 61; high < 64; high++) {
            uint64_t number = 1ull << high | n;
            long badge = kd_call3(KD_BADGE_CREATE, port, (long)number, (long)KD_RIGHTS_BADGE);
            good &= badge >= 0 && ask_with(own, STORE_LOOK, "", badge) == 0 &&
                    ps_link((int)badge, "forged", PS_MAY_READ) < 0;
            ps_drop((int)badge);
        }
    good &= ps_link((int)port, "forged", PS_MAY_READ) < 0 && ps_link(-1, "forged", 1) < 0 &&
            ps_link(NUMBERS, "forged", PS_MAY_READ) < 0 && opens("forged", 0) == -ENOENT;
    ps_drop((int)port);
    ps_drop(own);
    tap_ok(good && answered() == before, "forged handles: numbers, and badges of one's own port");
}

static int is_stale(int h)
{
    static const uint32_t kinds[] = {STORE_LOOK, STORE_ENTRIES, STORE_HANDLE, STORE_MAKE,
                                     STORE_UNLINK, STORE_TAKE_BACK, STORE_DELETE, STORE_RENAME,
                                     STORE_LIST, STORE_LIMIT};
    int stale = opens_by(h, NULL) == -EIDRM && ps_link(h, "stale", PS_MAY_READ) == -EIDRM;
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
        stale &= ask(h, kinds[i], "x") == -EIDRM;
    return stale;
}

static void test_stale(void)
{
    int h = ps_handle("box", PS_MAY_ALL), good = h >= 0 && opens_by(h, NULL) == 0;
    good &= ps_rename("box", "other") == 0 && opens_by(h, NULL) == 0 && ps_take_back("other") == 0;
    good &= is_stale(h);
    ps_drop(h);
    h = ps_handle("other", PS_MAY_ALL);
    good &= ps_delete("other") == 0 && is_stale(h) && opens("other", PS_CREATE) == 0;
    good &= is_stale(h) && ps_rename("other", "box") == 0 && is_stale(h);
    ps_drop(h);
    good &= ask(h, STORE_LOOK, "") == -EBADF;
    tap_ok(good, "stale handles: of what was taken back, deleted, made again; closed ones");
}

/* ---- circles and depth ---- */

static int link_to(const char *of, const char *path)
{
    int h = ps_handle(of, PS_MAY_ALL);
    int result = h < 0 ? h : ps_link(h, path, PS_MAY_ALL);
    ps_drop(h);
    return result;
}

static void round_and_round(char *path, int times)
{
    strcpy(path, "ring");
    while (times-- > 0) strcat(path, "/self");
    strcat(path, "/x");
}

static void test_circles(void)
{
    char path[WIRE_PATH_BYTES];
    int good = ps_directory_create("ring") == 0 && ps_directory_create("ring/b") == 0 &&
               opens("ring/x", PS_CREATE) == 0 && link_to("ring", "ring/self") == 0 &&
               link_to("ring", "ring/b/up") == 0;
    for (int times = 0; times < 2 * PARTS; times++) {
        round_and_round(path, times);
        int wanted = times <= LINKS ? 0 : times <= PARTS - 2 ? -EMLINK : -ELOOP;
        good &= opens(path, 0) == wanted;
    }
    good &= opens("ring/b/up/b/up/b/up/x", 0) == 0 &&
            ps_directory_list("ring/self/b/up", NULL, 0) == 3;
    tap_ok(good, "directories in circles: walked as far as a path is long, and listed");
    good = ps_rename("ring", "ring/self/ring") == -ELOOP && ps_rename("ring", "ring/b/up/c") < 0 &&
           ps_rename("ring/b", "ring/b/up/self/b2") == 0 && ps_delete("ring") == -ENOTEMPTY &&
           ps_delete("ring/self") == -ENOTEMPTY && ps_delete("ring/b2") == -ENOTEMPTY;
    tap_ok(good, "directories in circles: none comes below itself, or goes with what is in it");
    good = ps_take_back("ring") == 2 && ps_delete("ring/b2") == 0 && ps_delete("ring/x") == 0 &&
           ps_delete("ring") == 0;
    tap_ok(good, "directories in circles: taken back they are trees again, and deleted");
}

static void test_deep(void)
{
    char path[WIRE_PATH_BYTES];
    int base[DEEPEST + 1], good = ps_directory_create("d") == 0;
    base[1] = ps_handle("d", PS_MAY_ALL);
    for (int i = 2; i <= DEEPEST; i++) {
        int from = i <= PARTS ? 1 : (i - 1) / (PARTS - 1) * (PARTS - 1) + 1;
        if (from == i) from -= PARTS - 1;
        for (path[0] = 0; from + (int)(strlen(path) + 1) / 2 < i;)
            strcat(path, path[0] ? "/d" : "d");
        good &= ask(base[from], STORE_MAKE, path) == 0;
        base[i] = i % (PARTS - 1) == 1 ? handle_by(base[from], path, WIRE_MAY_ALL) : -1;
    }
    int last = (DEEPEST - 1) / (PARTS - 1) * (PARTS - 1) + 1;
    for (path[0] = 0; last + (int)(strlen(path) + 1) / 2 < DEEPEST + 1;)
        strcat(path, path[0] ? "/d" : "d");
    good &= ask(base[last], STORE_MAKE, path) == -ELOOP;
    tap_ok(good, "deep paths: %d directories below one another, and no more", DEEPEST);
    good = ps_directory_create("e") == 0 && ps_rename("d", "e/d") == -ELOOP && ps_delete("e") == 0;
    for (path[0] = 0; strlen(path) < 2 * PARTS - 1;) strcat(path, path[0] ? "/d" : "d");
    good &= ps_rights(path, NULL) == PS_MAY_ALL;
    strcat(path, "/d");
    good &= ps_rights(path, NULL) == -ELOOP;
    while (strlen(path) < WIRE_PATH_BYTES - 2) strcat(path, "/d");
    good &= ps_rights(path, NULL) < 0;
    for (int i = DEEPEST; i > 1; i--) {
        int from = (i - 2) / (PARTS - 1) * (PARTS - 1) + 1;
        for (path[0] = 0; from + (int)(strlen(path) + 1) / 2 < i;)
            strcat(path, path[0] ? "/d" : "d");
        good &= ask(base[from], STORE_DELETE, path) == 0;
    }
    for (int i = 1; i <= DEEPEST; i += PARTS - 1) ps_drop(base[i]);
    tap_ok(good && ps_delete("d") == 0, "deep paths: %d parts are walked, and no deeper tree made",
           PARTS);
}

/* ---- a million names ---- */

static uint64_t open_cost(const char *path)
{
    uint64_t least = ~0ull;
    ps_container *first = ps_open(path, 0, PAGE);
    for (int i = 0; first && i < OPENS; i++) {
        uint64_t t = time_stamp();
        int result = opens(path, 0);
        t = time_stamp() - t;
        if (result == 0 && t < least) least = t;
    }
    if (first) ps_close(first);
    return least;
}

static int count_up(void *arg)
{
    struct page *p = ps_root(arg);
    return p ? (int)(p->number++ & 0) : -errno;
}

static void test_million(void)
{
    char path[32];
    int made = 0, error = 0, h = ps_handle("box", READS);
    ps_container *c = ps_open("box", PS_WRITE, PAGE);
    int good = h >= 0 && c && ps_directory_create("many") == 0 &&
               ps_directory_create("many/in") == 0 && ps_transaction(count_up, c) == 0 &&
               ps_link(h, "many/in/box", PS_MAY_READ) == 0;
    uint64_t before = open_cost("box"), deep = open_cost("many/in/box");
    for (; error == 0 && made < MILLION; made += error == 0) {
        snprintf(path, sizeof path, "many/%d", made);
        error = ps_link(h, path, PS_MAY_READ);
    }
    tap_ok(good && error == -ENOSPC && made > 100,
           "a million names: %d, then there is no room for more: %d", made, error);
    uint64_t after = open_cost("box"), deep_after = open_cost("many/in/box");
    tap_ok(after * 10 <= before * 11 && deep_after * 10 <= deep * 11,
           "a million names: an open costs what it did: %lu instructions, then %lu; %lu, then %lu",
           before, after, deep, deep_after);
    tap_ok(c && ps_transaction(count_up, c) == 0 && opens("many/0", 0) == 0 &&
               ps_link(h, "one", PS_MAY_READ) == -ENOSPC &&
               ps_directory_list("many", NULL, 0) == made + 1,
           "a million names: what is there is opened, listed and changed");
    tap_ok(ps_unlink("many/7") == 0 && ps_link(h, "many/again", PS_MAY_READ) == 0 &&
               ps_link(h, "many/more", PS_MAY_READ) == -ENOSPC,
           "a million names: one that goes makes room for one");
    tap_ok(ps_take_back("box") == made + 1 && ps_directory_list("many", NULL, 0) == 1 &&
               ps_delete("many/in") == 0 && ps_delete("many") == 0,
           "a million names: one call takes all of them back");
    if (c) ps_close(c);
    ps_drop(h);
}

/* ---- which names ---- */

static void test_encoding(void)
{
    static const char *const names[] = {
        "name", "Name", "NAME", " name", "name ", "\xc3\xa4", "a\xcc\x88", "\xc3\x84", "A\xcc\x88",
        "\xe4", "\xff\xfe", "\xc0\xaf", "\xed\xa0\x80", "\xe2\x80\xae", "\xef\xac\x81", "fi"};
    enum { COUNT = sizeof names / sizeof *names };
    struct ps_entry list[COUNT];
    int good = ps_directory_create("in") == 0;
    char path[64];
    for (int i = 0; i < COUNT; i++) {
        snprintf(path, sizeof path, "in/%s", names[i]);
        good &= opens(path, 0) == -ENOENT && opens(path, PS_CREATE | PS_EXCLUSIVE) == 0;
    }
    good &= ps_directory_list("in", list, COUNT) == COUNT;
    for (int i = 0; i < COUNT; i++) {
        int same = 0;
        for (int k = 0; k < COUNT; k++) same += strcmp(list[k].name, names[i]) == 0;
        snprintf(path, sizeof path, "in/%s", names[i]);
        good &= same == 1 && ps_delete(path) == 0;
    }
    tap_ok(good, "names that differ in case and encoding are different names, well formed or not");
    good = 1;
    for (int c = 1; c < ' ' + 1; c++) {
        snprintf(path, sizeof path, "in/a%cb", c < ' ' ? c : 127);
        good &= opens(path, PS_CREATE) == -EINVAL && ps_directory_create(path) == -EINVAL;
    }
    good &= ps_directory_create("in/a:b") == -EINVAL && ps_directory_create("in/..") == -EINVAL;
    tap_ok(good && ps_directory_list("in", NULL, 0) == 0 && ps_delete("in") == 0,
           "names that differ: no control character is in one");
}

int main(void)
{
    tap_plan(16);
    tap_ok(opens("box", PS_CREATE) == 0, "a container");
    test_forged();
    test_stale();
    test_circles();
    test_deep();
    test_million();
    test_encoding();
    tap_ok(ps_delete("box") == 0 && kd_call3(KD_CHECK, 0, 0, 0) == 0, "all is deleted; kcheck");
    return tap_end();
}
