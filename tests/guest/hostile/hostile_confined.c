/*
 * hostile_confined.c - a program that was given one container and nothing else.
 *
 * Aim     It opens, reads and writes that one by its name. It finds, opens, counts, changes and
 *         deletes no other, and learns no other name: not by paths, not by numbers and addresses in
 *         bare requests, not by handles that it makes, not by what it forks and starts. Nothing
 *         about the whole store is told to it. What was given is taken back while it is used, and
 *         a directory that is given is all that there is.
 * Method  This program starts itself confined, with a handle; the exit status is the line of the
 *         first answer that was wrong. Beside lie containers with names that must not be heard.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "number.h"
#include "pstore_test.h"
#include "store_protocol.h"

#define WANT(good) do { if (!(good)) exit(__LINE__ % 250 + 1); } while (0)
enum { WRITES = PS_MAY_READ | PS_MAY_WRITE, SECRET = 99, TODO = 7, NUMBERS = 64,
       LIMIT = 4, NAMES = 40 };

/* ---- the confined program; its root is handle 0 ---- */

static char answer[65536];
static struct kd_message reply;

/* A bare request: status, or -errno of the call. */
static long ask(uint32_t kind, uint64_t w0, uint64_t w1, uint64_t w2, const void *data,
                size_t bytes)
{
    reply = (struct kd_message){.kind = kind, .word = {w0, w1, w2}, .data = data,
                                .data_bytes = bytes, .handle = -1, .buffer = answer,
                                .buffer_bytes = sizeof answer};
    memset(answer, 0, sizeof answer);
    long r = kd_call3(KD_PORT_CALL, 0, (long)&reply, 0);
    if (r == 0 && reply.handle >= 0) kd_call3(KD_HANDLE_CLOSE, reply.handle, 0, 0);
    return r < 0 ? r : reply.status;
}

/* Did the last answer have a name that it must not have? */
static int heard(void)
{
    return memmem(answer, sizeof answer, "secret", 6) || memmem(answer, sizeof answer, "hidden", 6);
}

static void asks_for_paths(void)
{
    static const char *const paths[] = {"secret", "todo", "vault", "vault/hidden", "../secret", "/",
                                        "/secret", ".", "\4root", "store:secret", "", "todo/todo"};
    static const uint32_t kinds[] = {STORE_MAKE, STORE_ENTRIES, STORE_UNLINK, STORE_TAKE_BACK,
                                     STORE_DELETE, STORE_LINK, STORE_HOLDERS};
    for (unsigned i = 0; i < sizeof paths / sizeof *paths; i++) {
        char path[2 * WIRE_PATH_BYTES] = "";
        struct wire_open how = {.flags = PS_CREATE | PS_WRITE};
        strcpy(path, paths[i]);
        strcpy(how.name, paths[i]);
        for (unsigned k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            WANT(ask(kinds[k], 0, 0, 0, path, WIRE_PATH_BYTES) < 0);
            WANT(!heard());
        }
        strcpy(path + WIRE_PATH_BYTES, "mine");
        WANT(ask(STORE_RENAME, 0, 0, 0, path, sizeof path) < 0);
        if (!*paths[i]) continue; /* its own */
        WANT(ask(STORE_OPEN, 0, 0, 0, &how, sizeof how) < 0);
        WANT(ask(STORE_LOOK, 0, 0, 0, path, WIRE_PATH_BYTES) < 0);
        WANT(ask(STORE_HANDLE, WIRE_MAY_READ, 0, 0, path, WIRE_PATH_BYTES) < 0);
        WANT(ask(STORE_MANAGED, 0, 0, 0, path, STORE_NAME_BYTES) < 0);
        WANT(ask(STORE_MANAGER, 0, 0, 0, path, STORE_NAME_BYTES) < 0);
    }
}

static void asks_for_numbers(uint64_t own, uint64_t base)
{
    static const uint32_t kinds[] = {STORE_LEASE, STORE_SPACE, STORE_NAMES, STORE_NEXT,
                                     STORE_FORM, STORE_SEGMENT, STORE_DECIDE, STORE_CLOSE};
    static const uint32_t at[] = {STORE_UNLEASE, STORE_HELD, STORE_ADVISE, STORE_PIN};
    char name[STORE_NAME_BYTES] = "\1root";
    for (uint64_t id = 0; id < NUMBERS; id++) {
        if (id == own) continue;
        for (unsigned k = 0; k < sizeof kinds / sizeof *kinds; k++)
            WANT(ask(kinds[k], id, 1, 0, NULL, 0) == -EACCES);
        WANT(ask(STORE_NAMED, id, 0, 0, name, sizeof name) == -EACCES);
    }
    for (uint64_t g = 0; g < NUMBERS; g++) {
        uint64_t address = KD_STORE_BASE + (g << 30);
        if (address == base) continue;
        for (unsigned k = 0; k < sizeof at / sizeof *at; k++)
            WANT(ask(at[k], address, 1, KD_ADVISE_WILL_NEED, NULL, 0) < 0);
        WANT(ask(STORE_WATCH, 1, 0, 0, &address, sizeof address) == -EACCES);
    }
}

static void asks_for_all(void)
{
    static const uint32_t kinds[] = {STORE_STATS, STORE_CHECKPOINT, STORE_SCRUB, STORE_BACKUP,
                                     STORE_STOP, STORE_SERVE, STORE_KEEPER, STORE_ENDED};
    for (unsigned k = 0; k < sizeof kinds / sizeof *kinds; k++)
        WANT(ask(kinds[k], 0, 0, 0, "store2", 6) < 0);
    WANT(ask(STORE_LIST, 0, 0, 0, NULL, 0) == 0 && reply.word[0] == 1 && !heard());
    WANT(reply.buffer_bytes == sizeof(struct wire_entry));
    WANT(kd_call3(KD_NAME_FIND, (long)"store", 0, 0) == -EPERM);
}

/* Handles of its own making, and numbers of others. */
static void forges(void)
{
    char path[WIRE_PATH_BYTES] = "mine";
    long port = kd_call3(KD_PORT_CREATE, 0, 0, 0);
    for (uint64_t n = 0; n < 8; n++) {
        long number = (long)(1ull << (56 + n) | n);
        long h = kd_call3(KD_BADGE_CREATE, port, number, (long)KD_RIGHTS_BADGE);
        struct kd_message m = {.kind = STORE_LINK, .word = {WIRE_MAY_READ}, .data = path,
                               .data_bytes = sizeof path, .handle = (int)h,
                               .handle_rights = KD_RIGHT_CALL | WIRE_MAY_READ};
        long r = kd_call3(KD_PORT_CALL, 0, (long)&m, 0);
        WANT(h >= 0 && (r < 0 || m.status < 0));
        kd_call3(KD_HANDLE_CLOSE, h, 0, 0);
    }
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
    for (unsigned right = 1; right; right <<= 1)
        if (right & WIRE_MAY_ALL & ~(WIRE_MAY_READ | WIRE_MAY_WRITE))
            WANT(kd_call3(KD_HANDLE_COPY, 0, (long)(KD_RIGHT_CALL | right), 0) < 0);
    WANT(kd_call3(KD_BADGE_CREATE, 0, 1, KD_RIGHT_CALL) < 0);
}

static _Atomic uint64_t loaded;
static int loads(void *arg)
{
    loaded = *(volatile uint64_t *)arg;
    return 0;
}

/* Whatever lies at addresses of others ends who loads from there, in a transaction, too. */
static void loads_others(uint64_t base)
{
    for (uint64_t g = 0; g < 8; g++) {
        uint64_t address = KD_STORE_BASE + (g << 30);
        if (address == base) continue;
        int status = 0;
        pid_t pid = fork();
        if (pid == 0) _exit(ps_transaction(loads, (void *)(address + 4096)) == 0 ? 1 : 2);
        WANT(pid > 0 && waitpid(pid, &status, 0) == pid);
        WANT(!WIFEXITED(status) || WEXITSTATUS(status) == 2);
    }
}

static int role_one(void)
{
    struct job j = {ps_open("todo", PS_WRITE, PAGE), 0};
    WANT(j.c && ps_transaction(number_get, &j) == 0 && j.number == TODO);
    j.number = TODO + 1;
    WANT(ps_transaction(number_set, &j) == 0);
    WANT(!ps_open("secret", 0, PAGE) && errno == ENOENT);
    WANT(!ps_open("new", PS_CREATE, PAGE) && !ps_open("vault/hidden", 0, PAGE));
    WANT(ps_delete("todo") < 0 && ps_delete("secret") < 0 && ps_rename("todo", "mine") < 0);
    struct ps_info all[4];
    WANT(ps_list(all, 4) == 1);
    asks_for_paths();
    uint64_t base = (uint64_t)ps_address(j.c), own = 0;
    struct wire_open how = {.flags = PS_WRITE};
    WANT(ask(STORE_OPEN, 0, 0, 0, &how, sizeof how) == 0);
    own = ((struct wire_opened *)answer)->container;
    asks_for_numbers(own, base);
    asks_for_all();
    forges();
    loads_others(base);
    return 0;
}

/* To read: nothing else. */
static int role_reads(void)
{
    struct job j = {ps_open("todo", 0, PAGE), 0};
    struct wire_open how = {.flags = PS_WRITE};
    WANT(j.c && ps_transaction(number_get, &j) == 0);
    WANT(!ps_open("todo", PS_WRITE, PAGE) && errno == EACCES);
    WANT(ps_holders("todo", NULL, 0) == -EACCES);
    WANT(ask(STORE_OPEN, 0, 0, 0, &how, sizeof how) == -EACCES);
    return 0;
}

/* A directory: what is in it, and paths that begin there. */
static int role_directory(void)
{
    struct ps_entry list[4];
    WANT(ps_directory_list("", list, 4) == 1 && strcmp(list[0].name, "hidden") == 0);
    WANT(ps_open("hidden", 0, PAGE) && !ps_open("secret", 0, PAGE) && errno == ENOENT);
    WANT(!ps_open("vault/hidden", 0, PAGE) && !ps_open("made", PS_CREATE, PAGE) && errno == EACCES);
    WANT(ps_directory_create("made") == -EACCES && ps_delete("hidden") == -EACCES);
    WANT(ps_handle("hidden", PS_MAY_ALL) == -EACCES);
    return 0;
}

/* Reads until it can no more: by an error, or the end that a load makes. */
static int role_loops(void)
{
    struct job j = {ps_open("todo", 0, PAGE), 0};
    WANT(j.c && ps_transaction(number_get, &j) == 0);
    child_begun();
    while (ps_transaction(number_get, &j) == 0)
        ;
    WANT(!ps_open("todo", 0, PAGE) && errno == EIDRM);
    return 0;
}

/* Writes in a transaction, and commits when the right to it has been taken back. */
static int set_late(void *arg)
{
    char path[WIRE_PATH_BYTES] = "";
    int r = number_set(arg);
    child_begun();
    while (r == 0 && ask(STORE_LOOK, 0, 0, 0, path, sizeof path) != -EIDRM) sched_yield();
    return r;
}
static int role_commits(void)
{
    struct job j = {ps_open("todo", PS_WRITE, PAGE), SECRET};
    WANT(j.c && ps_transaction(set_late, &j) < 0);
    return 0;
}

/* A new container with one object: it takes a page at least. */
static int puts_in(const char *path)
{
    struct job j = {ps_open(path, PS_CREATE | PS_WRITE, PAGE), 1};
    int r = j.c ? ps_transaction(number_set, &j) : -errno;
    if (j.c) ps_close(j.c);
    return r;
}

/* A directory with a limit, and no right to manage it: however it is gone about, it holds. */
static int role_limited(void)
{
    static const uint64_t words[] = {0, 1, 2, 1ull << 32, ~0ull};
    char path[WIRE_PATH_BYTES] = "";
    uint64_t most, used;
    int r = 0;
    for (int i = 0; r == 0 && i <= LIMIT; i++) {
        snprintf(path, sizeof path, "box%d", i);
        r = puts_in(path);
    }
    WANT(r == -EDQUOT && puts_in("box0") == 0);
    WANT(ps_directory_create("sub") == 0 && ps_directory_create("sub/sub") == 0);
    WANT(puts_in("more") == -EDQUOT && puts_in("sub/more") == -EDQUOT);
    WANT(puts_in("sub/sub/more") == -EDQUOT);
    WANT(ps_rename("box0", "sub/box0") < 0 || puts_in("box0") == -EDQUOT);
    int h = ps_handle("sub", PS_MAY_READ | PS_MAY_WRITE);
    WANT(h >= 0 && ps_link(h, "again", PS_MAY_READ | PS_MAY_WRITE) < 0);
    WANT(ps_limit_set("", PS_LIMIT_PAGES, 1000) == -EACCES);
    WANT(ps_limit_set("sub", PS_LIMIT_PAGES, PS_NO_LIMIT) == -EACCES);
    memset(path, 0, sizeof path);
    for (unsigned k = 0; k < 5; k++)
        for (unsigned s = 0; s < 5; s++)
            WANT(ask(STORE_LIMIT, words[k], words[s], ~0ull, path, sizeof path) < 0 ||
                 words[s] == 0);
    WANT(ps_limit("", PS_LIMIT_PAGES, &most, &used) == 0 && most == LIMIT && used <= LIMIT);
    WANT(puts_in("last") == -EDQUOT);
    return 0;
}

/* The same with names: the store's are not its to use up, by whatever kind of name. */
static int name_more(void *arg)
{
    const struct job *j = arg;
    char name[32];
    int e = 0;
    for (unsigned i = 0; e == 0 && i < j->number; i++) {
        snprintf(name, sizeof name, "name%u", i);
        e = ps_named(j->c, name, 8) ? 0 : -errno;
    }
    return e;
}

static int role_names(void)
{
    char path[WIRE_PATH_BYTES];
    uint64_t most, used;
    int e = 0, made;
    WANT(ps_directory_create("sub") == 0);
    struct job j = {ps_open("sub/box", PS_CREATE | PS_WRITE, PAGE), 2 * NAMES};
    WANT(j.c && ps_transaction(name_more, &j) == -EDQUOT);
    int h = ps_handle("sub", PS_MAY_READ | PS_MAY_GRANT);
    WANT(h >= 0);
    for (made = 0; e == 0 && made < 2 * NAMES; made++) {
        snprintf(path, sizeof path, made % 2 ? "sub/link%d" : "link%d", made);
        e = ps_link(h, path, PS_MAY_READ);
    }
    WANT(e == -EDQUOT && made > 10);
    for (e = made = 0; e == 0 && made < 2 * NAMES; made++) {
        snprintf(path, sizeof path, made % 2 ? "sub/new%d" : "new%d", made);
        e = made % 3 ? ps_directory_create(path) : puts_in(path);
    }
    WANT(e == -EDQUOT && ps_rename("sub/box", "sub/other") == 0);
    j.number = 3;
    WANT(ps_transaction(name_more, &j) == -EDQUOT);
    for (int kind = 0; kind < 5; kind++)
        WANT(ps_limit_set("sub", (enum ps_limit)kind, PS_NO_LIMIT) < 0);
    WANT(ps_limit("", PS_LIMIT_NAMES, &most, &used) == 0 && most == NAMES && used <= NAMES);
    return 0;
}

/* A link of a container that others have open by its first grant: who manages the link hears of
 * openings and handles by that, and of no others. */
static int role_manages(void)
{
    struct ps_holder h[8];
    ps_container *c = ps_open("lent", 0, PAGE);
    WANT(c && ps_holders("lent", h, 8) == 2 && ps_holders("lent", NULL, 0) == 2);
    WANT(!h[0].badge && h[0].process == getpid() && h[0].rights == PS_MAY_READ);
    WANT(h[1].badge && h[1].handles > 0 && h[1].process != getpid() && h[1].grant == h[0].grant);
    WANT(ps_close(c) == 0 && ps_holders("lent", h, 8) == 1 && h[0].badge);
    WANT(ps_holders("none", h, 8) < 0);
    return 0;
}

/* ---- who gives ---- */

static const char *self;

/* Without the right to grant: what may be given on, is. */
static int give(const char *role, int handle, unsigned rights, const char *roots)
{
    const char *argv[] = {self, role, NULL}, *envp[] = {roots, NULL};
    struct kd_process_create p = {.path = "/bin/hostile_confined", .argv = argv, .envp = envp,
                                  .fds = {-1, -1, -1}, .flags = KD_PROCESS_CONFINED,
                                  .handle_count = 1, .handles = {handle},
                                  .handle_rights = {KD_RIGHT_CALL | (rights & 31) << 16 |
                                                    (rights & PS_MAY_GRANT ? KD_RIGHT_GRANT : 0)}};
    long h = kd_call3(KD_PROCESS_CREATE, (long)&p, 0, 0);
    if (h >= 0) kd_call3(KD_HANDLE_CLOSE, h, 0, 0);
    return h < 0 ? (int)h : p.pid;
}

static ps_container *made(const char *path, uint64_t number)
{
    struct job j = {ps_open(path, PS_CREATE | PS_WRITE, PAGE), number};
    return j.c && ps_transaction(number_set, &j) == 0 ? j.c : NULL;
}

static uint64_t number_of(ps_container *c)
{
    struct job j = {c, 0};
    return ps_transaction(number_get, &j) == 0 ? j.number : 0;
}

int main(int argc, char **argv)
{
    self = argv[0];
    const char *role = argc > 1 ? argv[1] : "";
    if (strcmp(role, "one") == 0) return role_one();
    if (strcmp(role, "reads") == 0) return role_reads();
    if (strcmp(role, "directory") == 0) return role_directory();
    if (strcmp(role, "loops") == 0) return role_loops();
    if (strcmp(role, "commits") == 0) return role_commits();
    if (strcmp(role, "limited") == 0) return role_limited();
    if (strcmp(role, "names") == 0) return role_names();
    if (strcmp(role, "manages") == 0) return role_manages();

    tap_plan(15);
    ps_container *todo = made("todo", TODO), *secret = made("secret", SECRET), *hidden = NULL;
    if (ps_directory_create("vault") == 0) hidden = made("vault/hidden", SECRET + 1);
    tap_ok(todo && secret && hidden, "three containers, one in a directory");
    int one = ps_handle("todo", WRITES | PS_MAY_GRANT);
    int read = ps_handle("todo", PS_MAY_READ | PS_MAY_GRANT);
    int vault = ps_handle("vault", PS_MAY_READ | PS_MAY_GRANT);
    int status = child_wait(give("one", one, WRITES, "PS_ROOTS=store:0=todo"));
    tap_ok(status == 0, "given one to write, it has that and nothing else: %d", status);
    tap_ok(number_of(todo) == TODO + 1 && number_of(secret) == SECRET &&
               number_of(hidden) == SECRET + 1,
           "the others are as they were");
    status = child_wait(give("reads", read, PS_MAY_READ, "PS_ROOTS=store:0=todo"));
    tap_ok(status == 0, "given to read, it reads: %d", status);
    unsigned lent = PS_MAY_READ | PS_MAY_MANAGE;
    int link = ps_handle("todo", lent | PS_MAY_GRANT);
    if (link >= 0 && ps_link(link, "lent", lent | PS_MAY_GRANT) == 0)
        link = ps_handle("lent", lent | PS_MAY_GRANT);
    status = child_wait(give("manages", link, lent, "PS_ROOTS=store:0=lent"));
    tap_ok(status == 0, "given to manage, it hears who has it by what it manages: %d", status);
    status = child_wait(give("directory", vault, PS_MAY_READ, "PS_ROOTS=store:0"));
    tap_ok(status == 0, "given a directory, it has that: %d", status);
    int jail = ps_directory_create("jail");
    if (jail == 0) jail = ps_limit_set("jail", PS_LIMIT_PAGES, LIMIT);
    if (jail == 0) jail = ps_handle("jail", PS_MAY_ALL);
    unsigned most = WRITES | PS_MAY_DELETE | PS_MAY_RENAME;
    status = jail < 0 ? jail : child_wait(give("limited", jail, most, "PS_ROOTS=store:0"));
    tap_ok(status == 0, "given a directory with a limit, it cannot pass that: %d", status);
    uint64_t used = LIMIT + 1;
    tap_ok(ps_limit("jail", PS_LIMIT_PAGES, NULL, &used) == 0 && used <= LIMIT && used > 0,
           "nor did it");
    jail = ps_directory_create("names");
    if (jail == 0) jail = ps_limit_set("names", PS_LIMIT_NAMES, NAMES);
    if (jail == 0) jail = ps_handle("names", PS_MAY_ALL);
    unsigned gives = most | PS_MAY_GRANT;
    status = jail < 0 ? jail : child_wait(give("names", jail, gives, "PS_ROOTS=store:0"));
    tap_ok(status == 0, "given one with a limit of names, it makes so many: %d", status);
    int pid = give("loops", read, PS_MAY_READ, "PS_ROOTS=store:0=todo");
    tap_ok(child_has_begun(pid) && ps_take_back("todo") >= 0, "taken back while it reads");
    status = child_wait_for(pid, CHILD_ENDS_S);
    tap_ok(status != -ETIMEDOUT && status != -EBUSY, "and it reads no more: %d", status);
    tap_ok(number_of(todo) == TODO + 1 && !ps_open_by(read, NULL, 0, PAGE) && errno == EIDRM,
           "who gave it goes on");
    one = ps_handle("todo", WRITES | PS_MAY_GRANT);
    pid = give("commits", one, WRITES, "PS_ROOTS=store:0=todo");
    tap_ok(child_has_begun(pid) && ps_take_back("todo") >= 0, "taken back while it writes");
    status = child_wait_for(pid, CHILD_ENDS_S);
    tap_ok(status != -ETIMEDOUT && status != -EBUSY && number_of(todo) == TODO + 1,
           "what it wrote before is not committed behind that: %d", status);
    ps_close(todo);
    ps_close(secret);
    ps_close(hidden);
    tap_ok(ps_delete("todo") == 0 && ps_delete("secret") == 0 && ps_delete("vault/hidden") == 0 &&
               ps_delete("vault") == 0 && kd_call3(KD_CHECK, 0, 0, 0) == 0,
           "all is deleted; kcheck");
    return tap_end();
}
