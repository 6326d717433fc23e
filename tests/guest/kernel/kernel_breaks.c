/*
 * kernel_breaks.c - streams whose other end goes and comes again, while much is on its way.
 *
 * Aim     however often the other end goes before it has read what was written, there is room to
 *         write to the next one.
 * Method  two of the guest's streams are the ends of one socket of QEMU's; the third leads to its
 *         monitor, and has the far end replaced whenever the near one is full. The near end loses
 *         its connection then, in the middle of a piece. QEMU may leave that port without output
 *         until it breaks once more, so a connection that brings nothing is broken anew: of those
 *         one in two does.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "katydid/call.h"
#include "system.h"
#include "tap.h"

enum { BREAKS = 20, TRIES = 8, QUIET_MS = 200, COMES_MS = 1500 };
static long port, near, far, monitor;
static char buffer[4096], path[200];

static long stream_open(const char *name, uint64_t bits)
{
    return kd_call3(KD_STREAM_OPEN, (long)name, port, (long)bits);
}

/* heard: whether something came within that time. */
static bool heard(long ms)
{
    struct kd_message m = {0};
    return kd_call3(KD_PORT_RECEIVE, port, (long)&m, ms) >= 0;
}

static long stream_read(long stream)
{
    return kd_call3(KD_STREAM_READ, stream, (long)buffer, sizeof(buffer) - 1);
}

/* connected waits until somebody is at the other end, who may have been another before. */
static void connected(long stream)
{
    long r;
    while ((r = stream_read(stream)) != -EAGAIN)
        if (r == -ENOTCONN) heard(-1);
}

static void say(const char *words)
{
    for (size_t sent = 0, all = strlen(words); sent < all;) {
        long n = kd_call3(KD_STREAM_WRITE, monitor, (long)words + (long)sent, (long)(all - sent));
        if (n > 0) sent += (size_t)n;
        else heard(QUIET_MS);
    }
}

/* path_find asks the monitor where the near end listens. */
static bool path_find(void)
{
    static char answer[16384];
    size_t have = 0;
    say("info chardev\n");
    for (;;) {
        long n = stream_read(monitor);
        if (n < 0 && !heard(10000)) return false;
        for (long i = 0; i < n && have < sizeof(answer) - 1; i++) answer[have++] = buffer[i];
        answer[have] = 0;
        const char *at = strstr(answer, "near: filename=unix:");
        if (at && strchr(at, ',')) return sscanf(at, "near: filename=unix:%199[^,]", path) == 1;
    }
}

/* fill writes until nothing more is taken for a while: how much. */
static uint64_t fill(void)
{
    uint64_t bytes = 0;
    long n;
    memset(buffer, 7, sizeof(buffer));
    do {
        while ((n = kd_call3(KD_STREAM_WRITE, near, (long)buffer, sizeof(buffer))) > 0)
            bytes += (uint64_t)n;
    } while (heard(QUIET_MS));
    return bytes;
}

/* again has another far end come. */
static void again(void)
{
    char words[300];
    snprintf(words, sizeof(words), "chardev-change far socket,path=%s\n", path);
    say(words);
    while (stream_read(near) != -ECONNRESET) heard(-1);
    connected(near);
    while (stream_read(monitor) > 0) {}
    while (stream_read(far) > 0) {}
}

/* comes: whether what is written is read. */
static bool comes(void)
{
    for (unsigned i = 0; i < TRIES; i++, again()) {
        long r = kd_call3(KD_STREAM_WRITE, near, (long)"here", 4);
        if (r < 0) printf("# no room: %ld\n", r);
        while (stream_read(far) <= 0)
            if (!heard(COMES_MS)) break;
        if (memcmp(buffer, "here", 4) == 0) return true;
    }
    return false;
}

int main(void)
{
    unsigned breaks = 0;
    uint64_t least = UINT64_MAX;
    port = kd_call3(KD_PORT_CREATE, 0, 0, 0);
    near = stream_open("near", 1);
    far = stream_open("far", 2);
    monitor = stream_open("monitor", 4);
    tap_plan(2);
    connected(near);
    connected(far);
    connected(monitor);
    if (!tap_ok(path_find(), "the monitor says where the near end listens: %s", path))
        return tap_end();
    do {
        uint64_t bytes = fill();
        least = bytes < least ? bytes : least;
        again();
        memset(buffer, 0, 4);
    } while (comes() && ++breaks < BREAKS);
    tap_ok(breaks == BREAKS, "what is written comes behind each of %u breaks, of %d; before each "
           "at least %llu bytes were on their way", breaks, BREAKS, (unsigned long long)least);
    return tap_end();
}
