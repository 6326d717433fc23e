/*
 * revoke.c - a handle is given on, and on again in a message, and all of it ends by one call.
 *
 *     revoke           an owner gives Ann a handle, who sends it on; the owner takes it back
 *
 * The owner makes a container and gives Ann, another program, a handle to read it. She reads, and
 * sends her handle in a message. While that lies at a port and nobody has received it, the owner
 * takes back what he gave. The handle that then comes out of the message is worth nothing, in
 * the hands of Bob, too, to whom it is passed; nor is Ann's own (user/store/directories.md).
 */
#include <errno.h>
#include <pstore.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "start.h"

enum { HANDLE = 0, POST = 1, READ_IT = 1, PASS_ON, ANSWER = 42, LOOK_BYTES = 16384 };
struct note { uint64_t number; };
#define NOTE PS_LAYOUT(struct note, 1)
#define PATH "revoke.note"

struct job { ps_container *c; uint64_t number; };
static int put(void *arg)
{
    struct job *j = arg;
    struct note *n = ps_root(j->c);
    if (!n)
        return -errno;
    n->number = j->number;
    return 0;
}
static int get(void *arg)
{
    struct job *j = arg;
    struct note *n = ps_root(j->c);
    if (!n)
        return -errno;
    j->number = n->number;
    return 0;
}

/* Opens by the handle, reads, closes, and says how that went. */
static void reads(const char *who, int handle)
{
    struct job j = {handle < 0 ? ps_open(PATH, 0, NOTE) : ps_open_by(handle, NULL, 0, NOTE), 0};
    int error = j.c ? ps_transaction(get, &j) : -errno;
    if (j.c)
        ps_close(j.c);
    if (error)
        printf("%s: %s\n", who, ps_strerror(error));
    else
        printf("%s: reads %d\n", who, (int)j.number);
    fflush(stdout);
}

/* ---- Ann and Bob: other programs ---- */

static long post(uint32_t kind, int handle)
{
    struct kd_message m = {.kind = kind, .handle = handle,
                           .handle_rights = start_rights(PS_MAY_READ | PS_MAY_GRANT)};
    return kd_call3(KD_PORT_CALL, POST, (long)&m, 0);
}

static int ann(void)
{
    reads("Ann", HANDLE);
    long error = post(READ_IT, -1);
    if (error == 0)
        error = post(PASS_ON, HANDLE);      /* from here on it lies in the message */
    reads("Ann, again", HANDLE);
    return error != 0;
}

static int bob(void)
{
    reads("Bob, by the handle in the message", HANDLE);
    return 0;
}

/* ---- the owner ---- */

/* Pid, or -errno. The handle may be passed on by who gets it. */
static long start(const char *who, int handle, int port)
{
    const char *words[] = {"revoke", who, NULL};
    static const char *const roots[] = {PS_ROOTS "=store:0=note", NULL};
    struct given given[] = {{handle, start_rights(PS_MAY_READ | PS_MAY_GRANT)},
                            {port, KD_RIGHT_CALL}};
    return start_confined("/bin/revoke", words, roots, given, 2);
}

static int ended(long pid)
{
    int status = 1;
    return pid < 0 || kd_call3(KD_PROCESS_WAIT, pid, (long)&status, 0) < 0 || status;
}

/* Waits until a call of the process lies at a port and nobody has received it: at process 0. */
static void wait_queued(long pid)
{
    static char text[LOOK_BYTES];
    for (;;) {
        long n = kd_call4(KD_LOOK, KD_LOOK_THREADS, pid, (long)text, sizeof text - 1);
        text[n > 0 ? n : 0] = 0;
        if (n <= 0 || strstr(text, "  at 0"))
            return;
        sched_yield();
    }
}

static long receive(int port, struct kd_message *m)
{
    *m = (struct kd_message){.handle = -1};
    return kd_call3(KD_PORT_RECEIVE, port, (long)m, -1);
}

static void answer(const struct kd_message *m)
{
    struct kd_message reply = {.handle = -1};
    kd_call3(KD_PORT_REPLY, (long)m->token, (long)&reply, 0);
}

static int gives_and_takes(int handle, int port)
{
    struct kd_message m;
    long pid = start("ann", handle, port);
    if (pid < 0 || receive(port, &m) < 0)
        return 1;
    answer(&m);
    wait_queued(pid);
    int error = ps_take_back(PATH);
    printf("owner: takes back what was given, while a handle is in a message: %s\n",
           error < 0 ? ps_strerror(error) : "done");
    fflush(stdout);
    if (receive(port, &m) < 0)
        return 1;
    int failed = ended(start("bob", m.handle, port));
    answer(&m);
    failed |= ended(pid);
    reads("owner", -1);
    return failed;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "ann") == 0)
        return ann();
    if (argc == 2 && strcmp(argv[1], "bob") == 0)
        return bob();
    if (argc > 1)
        return fprintf(stderr, "use: revoke   takes a right back that lies in a message\n"), 2;
    struct job j = {ps_open(PATH, PS_CREATE | PS_WRITE, NOTE), ANSWER};
    int error = j.c ? ps_transaction(put, &j) : -errno;
    if (j.c)
        ps_close(j.c);
    int handle = error ? error : ps_handle(PATH, PS_MAY_READ | PS_MAY_GRANT);
    if (handle < 0)
        return fprintf(stderr, "revoke: %s\n", ps_strerror(handle)), 1;
    int failed = gives_and_takes(handle, (int)kd_call3(KD_PORT_CREATE, 0, 0, 0));
    ps_delete(PATH);
    return failed;
}
