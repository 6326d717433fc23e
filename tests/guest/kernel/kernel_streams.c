/*
 * kernel_streams.c - byte streams that lead out of the machine and, here, in again.
 *
 * Aim     what is written at one end is read at the other, in order and whole, both ways at once,
 *         however the pieces fall; who reads nothing holds up who writes, and no memory grows; a
 *         stream has one opener, who hears by his port whenever there is something to do; who may
 *         not open disks opens no stream.
 * Method  two of the guest's streams are the ends of one socket of QEMU's. One process has both;
 *         the bytes are a sequence that each end can check.
 */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "katydid/call.h"
#include "system.h"
#include "tap.h"

enum { TOTAL = 600000, PIECE_MOST = 9000, SLOW_TOTAL = 3 << 20,
       UNDER_WAY_MOST = 1 << 20 };

struct end {
    long stream;
    uint64_t sent, got;
    uint32_t send_seed, read_seed;
};
static long port;
static unsigned char buffer[PIECE_MOST];

static long stream_open(const char *name, uint64_t bits)
{
    return kd_call3(KD_STREAM_OPEN, (long)name, port, (long)bits);
}

/* What the device has said of it may have been lost: then it is asked for once more (BS5). */
static long stream_there(const char *name, uint64_t bits)
{
    long stream = stream_open(name, bits);
    for (int ms = 0; stream == -ENODEV && ms < 10000; ms++) {
        pause_ms(1);
        stream = stream_open(name, bits);
    }
    return stream;
}

static uint8_t next_byte(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (uint8_t)(*seed >> 24);
}

static uint64_t heard(void)
{
    struct kd_message m = {0};
    return kd_call3(KD_PORT_RECEIVE, port, (long)&m, -1) < 0 ? 0 : m.word[0];
}

/* send writes as much as is taken, in pieces of all lengths. -errno: something was wrong. */
static long send(struct end *e)
{
    while (e->sent < TOTAL) {
        uint32_t seed = e->send_seed, length = seed % PIECE_MOST + 1;
        if (length > TOTAL - e->sent) length = (uint32_t)(TOTAL - e->sent);
        for (uint32_t i = 0; i < length; i++) buffer[i] = next_byte(&seed);
        long n = kd_call3(KD_STREAM_WRITE, e->stream, (long)buffer, length);
        if (n < 0) return n == -EAGAIN ? 0 : n;
        for (long i = 0; i < n; i++) next_byte(&e->send_seed);
        e->sent += (uint64_t)n;
    }
    return 0;
}

static long take(struct end *e)
{
    for (;;) {
        long n = kd_call3(KD_STREAM_READ, e->stream, (long)buffer, e->got % PIECE_MOST + 1);
        if (n < 0) return n == -EAGAIN ? 0 : n;
        for (long i = 0; i < n; i++)
            if (buffer[i] != next_byte(&e->read_seed)) return -EBADMSG;
        e->got += (uint64_t)n;
    }
}

static void both_ways(struct end *one, struct end *two)
{
    long error = 0;
    unsigned rounds = 0;
    while (!error && (one->got < TOTAL || two->got < TOTAL)) {
        if (!error) error = send(one);
        if (!error) error = send(two);
        if (!error) error = take(one);
        if (!error) error = take(two);
        if (!error && (one->got < TOTAL || two->got < TOTAL)) heard();
        rounds++;
    }
    is(error, 0, "what one end writes the other reads, byte by byte, both ways at once");
    printf("# %d bytes each way in %u rounds\n", TOTAL, rounds);
}

/* connected waits until somebody is at the other end. */
static void connected(long stream)
{
    while (kd_call3(KD_STREAM_WRITE, stream, (long)"", 0) == 0 &&
           kd_call3(KD_STREAM_READ, stream, (long)buffer, 1) == -ENOTCONN)
        heard();
}

/* A writer of three pages beside a reader of one: what is between them stays small. */
static void backpressure(struct end *one, struct end *two)
{
    uint64_t in = 0, out = 0, most = 0;
    struct kd_system_info before, after;
    long n = 0, m = 0;
    kd_call3(KD_SYSTEM_INFO, (long)&before, 0, 0);
    memset(buffer, 7, sizeof(buffer));
    while (out < SLOW_TOTAL && (n >= 0 || n == -EAGAIN) && (m >= 0 || m == -EAGAIN)) {
        if (m == -EAGAIN && n == -EAGAIN) heard();
        for (int i = 0; i < 3; i++) {
            n = kd_call3(KD_STREAM_WRITE, one->stream, (long)buffer, 4096);
            in += n > 0 ? (uint64_t)n : 0;
        }
        m = kd_call3(KD_STREAM_READ, two->stream, (long)buffer, 4096);
        if (m > 0) out += (uint64_t)m;
        if (in - out > most) most = in - out;
    }
    kd_call3(KD_SYSTEM_INFO, (long)&after, 0, 0);
    tap_ok(out >= SLOW_TOTAL && most < UNDER_WAY_MOST,
           "who reads slowly holds up who writes: at most %llu bytes were under way",
           (unsigned long long)most);
    tap_ok(before.free_bytes < after.free_bytes + (1 << 20), "and no memory is gone");
    while (out < in) {
        m = kd_call3(KD_STREAM_READ, two->stream, (long)buffer, sizeof(buffer));
        if (m > 0) out += (uint64_t)m;
        else if (m == -EAGAIN) heard();
        else break;
    }
    tap_ok(out == in, "all of it is read in the end (%llu)", (unsigned long long)out);
}

/* Who found no room hears when there is some, though nothing comes to be read. */
static void room(struct end *one, struct end *two)
{
    long n;
    while (kd_call3(KD_STREAM_WRITE, one->stream, (long)buffer, 4096) > 0) {}
    do {
        do /* what is read there makes room here */
            while (kd_call3(KD_STREAM_READ, two->stream, (long)buffer, 4096) > 0) {}
        while (!(heard() & 1));
        n = kd_call3(KD_STREAM_WRITE, one->stream, (long)buffer, 4096);
    } while (n == -EAGAIN);
    is(n, 4096, "who waits for room hears of it");
}

/* program starts this one again, to do `what`, with the right to disks or without any; its end of
 * the pipe is its standard output. Its pid. */
static int program(const char *what, bool disks, int output)
{
    struct kd_process_create c = {.path = "/bin/kernel_streams",
                                  .argv = (const char *[]){"kernel_streams", what, NULL},
                                  .fds = {-1, output, -1},
                                  .handle_count = disks ? 1 : 0,
                                  .handles = {KD_SYSTEM_HANDLE},
                                  .handle_rights = {KD_RIGHT_DISKS}};
    return kd_call3(KD_PROCESS_CREATE, (long)&c, 0, 0) < 0 ? -1 : c.pid;
}

static int status_of(int pid)
{
    int status = -1;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void openers(struct end *one)
{
    int status;
    is(stream_open("none such", 1), -ENODEV, "a stream of another name is not there");
    is(stream_open("", 1), -ENODEV, "nor one without a name");
    is(stream_open("one", 1), -EBUSY, "who has it open is alone");
    is(kd_call3(KD_STREAM_OPEN, (long)"two", one->stream, 1), -EBADF, "notices go to a port");
    is(kd_call3(KD_STREAM_READ, port, (long)buffer, 1), -EBADF, "a port is no stream");
    is(kd_call3(KD_STREAM_WRITE, one->stream, 16, 100), -EFAULT, "what is not there is not sent");
    is(status_of(program("open", false, -1)), EPERM, "without the right to disks: nothing");
    long alone = stream_open("alone", 4);
    tap_ok(alone >= 0, "a stream without another end opens");
    is(kd_call3(KD_STREAM_READ, alone, (long)buffer, 1), -ENOTCONN, "nothing is read from it");
    is(kd_call3(KD_STREAM_WRITE, alone, (long)buffer, 1), -ENOTCONN, "nor written to it");
    pid_t pid = fork(); /* a child has no handles; its end is not the stream's */
    if (pid == 0) _exit(kd_call3(KD_STREAM_READ, alone, (long)buffer, 1) == -EBADF ? 0 : 1);
    waitpid(pid, &status, 0);
    is(status, 0, "a child has not its parent's streams");
    is(kd_call3(KD_HANDLE_CLOSE, alone, 0, 0), 0, "it closes");
    alone = stream_open("alone", 4);
    tap_ok(alone >= 0, "and opens again");
    kd_call3(KD_HANDLE_CLOSE, alone, 0, 0);
}

/* own: a program that opens the stream which is nobody's, says so, and stays. */
static _Noreturn void own(void)
{
    char c = stream_open("alone", 1) >= 0;
    (void)!write(1, &c, 1);
    for (;;) pause();
}

static void killed_owner(void)
{
    int ready[2];
    char c = 0;
    if (pipe(ready)) return;
    int pid = program("own", true, ready[1]);
    bool opened = read(ready[0], &c, 1) == 1 && c;
    bool busy = stream_open("alone", 4) == -EBUSY;
    kill(pid, SIGKILL);
    status_of(pid);
    long again = stream_open("alone", 4);
    tap_ok(opened && busy && again >= 0, "a stream outlives who had it open (%d, %d, %ld)", opened,
           busy, again);
    kd_call3(KD_HANDLE_CLOSE, again, 0, 0);
}

int main(int argc, char **argv)
{
    struct end one = {.send_seed = 1, .read_seed = 2}, two = {.send_seed = 2, .read_seed = 1};
    port = kd_call3(KD_PORT_CREATE, 0, 0, 0);
    if (argc > 1) {
        if (strcmp(argv[1], "own") == 0) own();
        return (int)-stream_open("two", 1);
    }
    one.stream = stream_there("one", 1);
    two.stream = stream_there("two", 2);
    tap_plan(20);
    tap_ok(one.stream >= 0 && two.stream >= 0, "two streams open (%ld, %ld)", one.stream,
           two.stream);
    connected(one.stream);
    connected(two.stream);
    both_ways(&one, &two);
    backpressure(&one, &two);
    room(&one, &two);
    openers(&one);
    killed_owner();
    return tap_end();
}
