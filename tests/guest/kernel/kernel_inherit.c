/*
 * kernel_inherit.c - a manager's next port has the badges of the one that died
 * (tests/model/rights.md: RT11).
 *
 * Aim     A program that finds no names goes on with the handle that it was given when the manager
 *         behind it is killed and started again: it hears -EOWNERDEAD, calls again, and number and
 *         rights are what they were; what had ended stays so. Only who has the disk open, under
 *         whose name both ports were published, inherits.
 * Method  The disk is the one for exports. This process keeps a manager of it, which is killed
 *         twice, and has 150 badges of it; a confined program has one.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "process.h"
#include "tap.h"

enum { OPEN = KD_RIGHT_OWN, ALL = KD_RIGHT_CALL | KD_RIGHT_GRANT | OPEN };
enum { ASK = 1, MAKE, END };
enum { CLIENTS = 7, ENDED = 8, LESS = 9, MANY = 150, LIVES = 3 };

static const char *self;

static struct kd_message ask_with(long by, struct kd_message m, long handle)
{
    m.handle = (int)handle;
    m.handle_rights = handle < 0 ? 0 : KD_RIGHT_CALL;
    m.status = (int)kd_call3(KD_PORT_CALL, by, (long)&m, 0);
    return m;
}
static struct kd_message ask(long by)
{
    return ask_with(by, (struct kd_message){.kind = ASK}, -1);
}
static bool hears(long by, uint64_t value, unsigned rights)
{
    struct kd_message m = ask(by);
    return m.status == 0 && m.word[0] == value && m.word[1] == rights;
}

/* ---- the manager ---- */

static int manages(void)
{
    struct kd_block_info info;
    long disk = kd_call3(KD_BLOCK_OPEN, (long)"export", (long)&info, 0);
    long port = kd_call3(KD_PORT_CREATE, 0, 0, 0);
    if (disk < 0 || port < 0 || kd_call3(KD_NAME_SET, (long)"export", port, 0)) return 1;
    long inherited = kd_call3(KD_BADGE_INHERIT, port, 0, 0);
    for (;;) {
        struct kd_message m = {.handle = -1};
        if (kd_call3(KD_PORT_RECEIVE, port, (long)&m, -1)) return 2;
        struct kd_message reply = {.handle = -1, .word = {m.badge, m.badge_rights}};
        uint64_t of[2] = {0};
        reply.word[2] = (uint64_t)inherited;
        reply.word[3] = (uint64_t)getpid();
        if (m.handle >= 0) {
            kd_call3(KD_BADGE_READ, port, m.handle, (long)of);
            kd_call3(KD_HANDLE_CLOSE, m.handle, 0, 0);
        }
        reply.word[4] = of[0];
        long made = m.kind == MAKE ? kd_call3(KD_BADGE_CREATE, port, (long)m.word[0], ALL) : -1;
        if (made >= 0) {
            reply.handle = (int)made;
            reply.handle_rights = ALL;
        }
        if (m.kind == END)
            reply.word[5] = (uint64_t)kd_call3(KD_BADGE_END, port, (long)m.word[0], 0);
        kd_call3(KD_PORT_REPLY, (long)m.token, (long)&reply, 0);
        kd_call3(KD_HANDLE_CLOSE, made, 0, 0);
    }
}

/* Starts a manager and waits until it can be found and has inherited; a handle of its port. */
static long manager_start(int *pid)
{
    long port;
    *pid = child_start(self, "manages", NULL);
    while ((port = kd_call3(KD_NAME_FIND, (long)"export", 0, 0)) == -ENOENT)
        if (*pid < 0 || kd_call3(KD_PROCESS_WAIT, *pid, 0, KD_WAIT_NOHANG)) return -1;
        else sched_yield();
    (void)ask(port);
    return port;
}

static void manager_kill(int pid)
{
    kd_call3(KD_PROCESS_KILL, pid, 137, 0);
    child_wait(pid);
}

/* ---- a confined program, with one handle: until two managers have answered it. The first does
 * before it is killed, the last lives until then; those between may be gone too soon ---- */

static int client(void)
{
    uint64_t last = 0;
    for (int lives = 0; lives < 2;) {
        struct kd_message m = ask(0);
        if (kd_call3(KD_NAME_FIND, (long)"export", 0, 0) != -EPERM) return 1;
        if (m.status == -EOWNERDEAD) {
            sched_yield();
            continue;
        }
        if (m.status) return 2;
        if (m.word[0] != CLIENTS || m.word[1] != (KD_RIGHT_CALL | OPEN)) return 3;
        lives += m.word[3] != last;
        last = m.word[3];
        child_begun();
    }
    return 0;
}

static int client_start(long by)
{
    const char *argv[] = {self, "client", NULL};
    struct kd_process_create p = {.path = "/bin/kernel_inherit", .argv = argv, .fds = {-1, -1, -1},
                                  .flags = KD_PROCESS_CONFINED, .handle_count = 1,
                                  .handles = {(int)by}, .handle_rights = {KD_RIGHT_CALL | OPEN}};
    long h = kd_call3(KD_PROCESS_CREATE, (long)&p, 0, 0);
    kd_call3(KD_HANDLE_CLOSE, h, 0, 0);
    return h < 0 ? (int)h : p.pid;
}

/* ---- tests ---- */

static long made[MANY];

static long make(long port, uint64_t number)
{
    return ask_with(port, (struct kd_message){.kind = MAKE, .word = {number}}, -1).handle;
}
static long end(long port, uint64_t number)
{
    return (long)ask_with(port, (struct kd_message){.kind = END, .word = {number}}, -1).word[5];
}

/* Nobody is there who has the disk: others try. */
static void test_others(void)
{
    struct kd_block_info info;
    long port = kd_call3(KD_PORT_CREATE, 0, 0, 0);
    is(kd_call3(KD_BADGE_INHERIT, port, 0, 0), -EPERM, "not by a port without a name");
    is(kd_call3(KD_NAME_SET, (long)"inherit.other", port, 0), 0, "a name that is no disk's");
    is(kd_call3(KD_BADGE_INHERIT, port, 0, 0), -EPERM, "not by one with another name");
    is(kd_call3(KD_NAME_SET, (long)"export", port, 0), -EPERM, "the disk's is not to be had");
    long disk = kd_call3(KD_BLOCK_OPEN, (long)"export", (long)&info, 0);
    is(kd_call3(KD_NAME_SET, (long)"export", port, 0), 0, "but by who has it open");
    kd_call3(KD_HANDLE_CLOSE, disk, 0, 0);
    is(kd_call3(KD_BADGE_INHERIT, port, 0, 0), -EPERM, "not by who has it open no more");
    kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
}

static void test_life(long port, long less)
{
    is((long)ask(port).word[2], MANY, "the next manager inherits all");
    tap_ok(hears(made[CLIENTS], CLIENTS, ALL) && hears(made[MANY - 1], MANY - 1, ALL) &&
           hears(less, LESS, KD_RIGHT_CALL), "they say what they said");
    is(ask(made[ENDED]).status, -EIDRM, "what had ended has");
    struct kd_message m = ask_with(made[CLIENTS], (struct kd_message){.kind = ASK}, made[LESS]);
    is((long)m.word[4], LESS, "one in a message is read");
}

int main(int argc, char **argv)
{
    int pid;
    self = argv[0];
    if (argc > 1) return strcmp(argv[1], "client") ? manages() : client();
    tap_plan(22);
    long port = manager_start(&pid);
    is((long)ask(port).word[2], 0, "the first manager inherits nothing");
    for (int i = 0; i < MANY; i++) made[i] = make(port, (uint64_t)i);
    long less = kd_call3(KD_HANDLE_COPY, made[LESS], KD_RIGHT_CALL, 0);
    is(end(port, ENDED), 1, "a badge is ended");
    int program = client_start(made[CLIENTS]);
    tap_ok(child_has_begun(program), "a confined program is answered");
    for (int life = 1; life < LIVES; life++) {
        manager_kill(pid);
        is(ask(made[CLIENTS]).status, -EOWNERDEAD, "nobody answers");
        kd_call3(KD_HANDLE_CLOSE, port, 0, 0);
        if (life == 1) test_others();
        port = manager_start(&pid);
        test_life(port, less);
    }
    is(child_wait(program), 0, "the confined program went on with what it had");
    is(end(port, CLIENTS), 1, "the last manager ends one");
    is(kd_call3(KD_CHECK, 0, 0, 0), 0, "kcheck");
    manager_kill(pid);
    return tap_end();
}
