/*
 * kernel_object_handle.c - a memory object is a handle, too: sent in a message, and mapped by whom
 * it was sent to.
 *
 * Aim     a client maps an object itself, with the rights of the handle that a message brought and
 *         with no more, into itself and nobody else; it passes the handle on, to a process that the
 *         manager has never heard of; nothing else of the object is in reach for them. A manager
 *         maps the object into a client that asks it to, by a call, and into no other.
 * Method  this process is the manager. Its child is a client; that one's child another.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "process.h"
#include "system.h"
#include "tap.h"

enum { PAGES = 16, READER = KD_RIGHT_READ, WRITER = KD_RIGHT_READ | KD_RIGHT_WRITE };
enum { ASK_HANDLE = 1, ASK_MAPPED };    /* calls; word[0] of the first: rights */
static const char name[] = "object_handle";

static int port, object;
static uint64_t base;
static char *self;

static long attach(int pid, int handle, unsigned rights)
{
    return kd_call3(KD_SPACE_ATTACH, pid, handle, rights);
}

static long rights(int pid, int handle) { return kd_call3(KD_SPACE_RIGHTS, pid, handle, 0); }

/* ---- the manager ---- */

/* Word 0 of page n is n + 1. */
static void page(uint64_t n)
{
    static uint64_t words[KD_PAGE_BYTES / 8];
    words[0] = n + 1;
    struct kd_supply s = {.object = object, .source = KD_SUPPLY_MEMORY, .memory = words,
                          .rights = KD_READ | KD_WRITE, .page = n, .count = 1};
    kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0);
}

static void *manager(void *unused)
{
    struct kd_message m = {.handle = -1};
    while (kd_call3(KD_PORT_RECEIVE, port, (long)&m, -1) >= 0) {
        struct kd_message reply = {.handle = -1, .word = {base}};
        if (m.kind == (uint32_t)KD_MSG_PAGE) page(m.word[1]);
        if (!m.token) continue;
        if (m.kind == ASK_HANDLE) {
            reply.handle = object;
            reply.handle_rights = (uint32_t)m.word[0];
        } else {
            reply.status = (int)attach((int)m.process, object, READER);
        }
        kd_call3(KD_PORT_REPLY, (long)m.token, (long)&reply, 0);
    }
    return unused;
}

/* ---- clients ---- */

static long ask(uint32_t kind, uint64_t rights, int *handle)
{
    long found = kd_call3(KD_NAME_FIND, (long)name, 0, 0);
    struct kd_message m = {.kind = kind, .handle = -1, .word = {rights}};
    long r = found < 0 ? found : kd_call3(KD_PORT_CALL, found, (long)&m, 0);
    base = m.word[0];
    *handle = m.handle;
    return r < 0 ? r : m.status;
}

static volatile uint64_t *word_of(uint64_t n) { return (uint64_t *)(base + n * KD_PAGE_BYTES); }

/* A system call that touches it: a load would end the program. */
static long touch(uint64_t n) { return kd_call3(KD_NAME_FIND, (long)word_of(n), 0, 0); }

/* The exit status is the line of the first that was wrong. */
#define WANT(good) do { if (!(good)) exit(__LINE__ % 250 + 1); } while (0)

/* Handle 0 is the object's, which this one got from another client. */
static int passed(const char *at)
{
    base = strtoull(at, NULL, 16);
    WANT(touch(1) == -EFAULT);
    WANT(attach(getpid(), 0, WRITER) == -EACCES);
    WANT(attach(getpid(), 0, READER) == 0);
    WANT(*word_of(1) == 2 && *word_of(5) == 55);
    return 0;
}

static int pass_on(int handle)
{
    char at[32];
    const char *argv[] = {self, "passed", at, NULL};
    struct kd_process_create p = {.path = "/bin/kernel_object_handle", .argv = argv,
                                  .fds = {-1, -1, -1}, .handle_count = 1, .handles = {handle}};
    snprintf(at, sizeof at, "%llx", (unsigned long long)base);
    long h = kd_call3(KD_PROCESS_CREATE, (long)&p, 0, 0);
    return h < 0 ? (int)h : child_wait(p.pid);
}

static int writer(void)
{
    int handle;
    WANT(ask(ASK_HANDLE, WRITER, &handle) == 0 && handle >= 0);
    WANT(touch(1) == -EFAULT);
    WANT(attach(getppid(), handle, READER) == -EACCES);
    WANT(attach(getpid(), handle, 0) == -EINVAL && attach(getpid(), handle, 4) == -EACCES);
    WANT(attach(getpid(), handle, WRITER) == 0);
    WANT(*word_of(1) == 2);
    *word_of(5) = 55;
    int less = (int)kd_call3(KD_HANDLE_COPY, handle, KD_RIGHT_READ, 0);
    WANT(less >= 0 && pass_on(less) == 0);
    WANT(kd_call3(KD_SPACE_DETACH, getpid(), less, 0) == 0 && touch(1) == -EFAULT);
    WANT(attach(getpid(), less, READER) == 0 && *word_of(5) == 55);
    WANT(kd_call3(KD_SPACE_DETACH, getppid(), handle, 0) == -EACCES);
    return 0;
}

static int reader(void)
{
    uint8_t bits;
    int handle;
    struct kd_supply s = {.source = KD_SUPPLY_ZERO, .page = 9, .count = 1};
    WANT(ask(ASK_HANDLE, READER, &handle) == 0 && handle >= 0);
    s.object = handle;
    WANT(kd_call3(KD_OBJECT_SUPPLY, (long)&s, 0, 0) == -EACCES);
    WANT(kd_call4(KD_OBJECT_INFO, handle, 0, 1, (long)&bits) == -EACCES);
    WANT(kd_call4(KD_OBJECT_PIN, handle, 0, 1, 1) == -EACCES);
    WANT(kd_call3(KD_OBJECT_REVOKE, handle, 0, 0) == -EACCES);
    WANT(kd_call3(KD_OBJECT_DESTROY, handle, 0, 0) == -EACCES);
    WANT(kd_call3(KD_HANDLE_COPY, handle, WRITER, 0) < 0);
    WANT(rights(getpid(), handle) == -EACCES);
    WANT(attach(getpid(), handle, WRITER) == -EACCES);
    WANT(attach(getpid(), handle, READER) == 0 && *word_of(3) == 4);
    *word_of(3) = 1; /* ends it */
    return 0;
}

static int asks(void)
{
    int handle;
    WANT(ask(ASK_MAPPED, 0, &handle) == 0 && handle < 0);
    WANT(*word_of(3) == 4);
    return 0;
}

static void test_clients(void)
{
    is(child_run(self, "writer", ""), 0,
       "a client gets an object in a message, maps it itself, and passes it on");
    is((long)*word_of(5), 55, "what it stored is in it");
    is(child_run(self, "reader", ""), 128 + SIGSEGV,
       "a handle to read: no store, and none of its manager's calls");
    is(child_run(self, "asks", ""), 0, "one that asks is mapped by the manager");
}

int main(int argc, char **argv)
{
    pthread_t t;
    self = argv[0];
    if (argc > 2 && strcmp(argv[1], "passed") == 0) return passed(argv[2]);
    if (argc > 1 && strcmp(argv[1], "writer") == 0) return writer();
    if (argc > 1 && strcmp(argv[1], "reader") == 0) return reader();
    if (argc > 1 && strcmp(argv[1], "asks") == 0) return asks();
    tap_plan(10);
    port = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    struct kd_object_create c = {.port = port, .commit_port = port, .pages = PAGES};
    object = (int)kd_call3(KD_OBJECT_CREATE, (long)&c, 0, 0);
    base = c.base;
    is(object >= 0 ? kd_call3(KD_NAME_SET, (long)name, port, 0) : object, 0, "an object");
    pthread_create(&t, NULL, manager, NULL);
    is(rights(getpid(), object), 0, "nobody has it mapped");
    is(attach(getpid(), object, WRITER), 0, "its manager maps it");
    is(rights(getpid(), object), WRITER, "and hears with which rights");
    is(rights(1, object), 0, "others have none");
    test_clients();
    is(attach(1, object, READER), -EPERM, "who does not ask is not mapped");
    return tap_end();
}
