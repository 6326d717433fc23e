/*
 * hostile_shown.c - handles that a client shows to a server, which are not what they should be.
 *
 * Aim     A server that opens by its client's handle (ps_open_by) asks the store, and nobody else:
 *         a handle of a port of the client's own, whether it lies, waits for ever or is dead, is
 *         refused at once, and what the server has open stays what it is. So it is with numbers of
 *         no handle, and handles of other things. By a handle of the store it gets what that gives,
 *         and no more.
 * Method  The client's port is served by a thread of this process, which answers each open as if it
 *         were of the server's own container.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "number.h"
#include "pstore_test.h"
#include "store_protocol.h"

static ps_container *made(const char *path)
{
    struct job j = {ps_open(path, PS_CREATE | PS_WRITE, PAGE), 1};
    return j.c && ps_transaction(number_set, &j) == 0 ? j.c : NULL;
}

/* ---- the client's own port */

static int own;
static struct wire_opened lie;          /* about the server's bill */
static _Atomic unsigned lies;

static void *liar(void *unused)
{
    static char data[1024];
    struct kd_message m = {.buffer = data, .buffer_bytes = sizeof data, .handle = -1}, reply;
    while (kd_call3(KD_PORT_RECEIVE, own, (long)&m, -1) == 0) {
        lies += m.kind == STORE_OPEN;
        reply = (struct kd_message){.data = &lie, .data_bytes = sizeof lie, .handle = -1};
        kd_call3(KD_PORT_REPLY, (long)m.token, (long)&reply, 0);
        m = (struct kd_message){.buffer = data, .buffer_bytes = sizeof data, .handle = -1};
    }
    return unused;
}

/* What the store says of it, by a bare request. */
static int truth(const char *path, struct wire_opened *out)
{
    struct wire_open how = {0};
    strcpy(how.name, path);
    long store = kd_call3(KD_NAME_FIND, (long)"store", 0, 0);
    struct kd_message m = {.kind = STORE_OPEN, .data = &how, .data_bytes = sizeof how,
                           .handle = -1, .buffer = out, .buffer_bytes = sizeof *out};
    long r = kd_call3(KD_PORT_CALL, store, (long)&m, 0);
    kd_call3(KD_HANDLE_CLOSE, store, 0, 0);
    return (int)r;
}

static int error_by(int handle, const char *path, int flags)
{
    ps_container *c = ps_open_by(handle, path, flags, NULL);
    int e = c ? 0 : -errno;
    if (c) ps_close(c);
    return e;
}

int main(void)
{
    uint64_t rights = KD_RIGHT_CALL | KD_RIGHT_GRANT | 31u * KD_RIGHT_OWN;
    pthread_t thread;
    tap_plan(14);
    ps_container *bill = made("bill"), *out = made("out");
    tap_ok(bill && out && truth("bill", &lie) == 0, "the server's bill, and a container");
    own = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    int mute = (int)kd_call3(KD_PORT_CREATE, 0, 0, 0);
    int forged = (int)kd_call3(KD_BADGE_CREATE, own, 7, (long)rights);
    int waits = (int)kd_call3(KD_BADGE_CREATE, mute, 7, (long)rights);
    tap_ok(own >= 0 && forged >= 0 && waits >= 0 && pthread_create(&thread, NULL, liar, NULL) == 0,
           "ports of the client's own");
    is(error_by(forged, NULL, PS_WRITE), -EXDEV, "a badge of a port that lies is refused");
    is(error_by(forged, "out", PS_WRITE), -EXDEV, "with a path, too");
    is(error_by(own, NULL, 0), -EXDEV, "so is the port itself");
    is((int)lies, 0, "nobody asked it");
    if (lies) return tap_end();         /* the next one would be waited for */
    tap_ok(strstr(ps_strerror(-EXDEV), "store") != NULL, "in words");
    is(error_by(waits, NULL, 0), -EXDEV, "one that never answers is not waited for");
    kd_call3(KD_HANDLE_CLOSE, mute, 0, 0);
    is(error_by(waits, NULL, 0), -EXDEV, "nor a dead one");
    is(error_by(200, NULL, 0), -EBADF, "the number of no handle");
    struct ps_stats before, after;
    ps_stats(&before);
    struct job j = {bill, 2};
    is(ps_transaction(number_set, &j), 0, "the store is where it was");
    ps_stats(&after);
    is((int)(after.requests - before.requests), 0, "and is not connected to anew");
    int h = ps_handle("out", PS_MAY_READ | PS_MAY_GRANT);
    tap_ok(error_by(h, NULL, 0) == 0 && error_by(h, NULL, PS_WRITE) == -EACCES,
           "a handle of the store gives what it gives");
    tap_ok(ps_close(bill) == 0 && ps_close(out) == 0 && ps_delete("out") == 0 &&
               kd_call3(KD_CHECK, 0, 0, 0) == 0,
           "kcheck");
    return tap_end();
}
