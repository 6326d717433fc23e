/*
 * linux_refused.c - what Linux can do and Katydid cannot is refused, and never only seems to be done.
 *
 * Aim     a program that needs such a call learns it from an errno.
 * Method  each is called as a program would; Linux would succeed in most. tests/linux/ has what is the same.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <katydid/abi.h>

#include "tap.h"

static int refused(long result, int error) { return result == -1 && errno == error; }

static void locks_on_files(void)
{
    int fd = open("/tmp/locked", O_CREAT | O_RDWR, 0600), good = 1;
    const int commands[] = {F_GETLK, F_SETLK, F_SETLKW, F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW};
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        good &= refused(fcntl(fd, commands[i], &l), ENOLCK);
    }
    tap_ok(good, "records_of_files_cannot_be_locked");
    tap_ok(refused(flock(fd, LOCK_EX), ENOLCK) && refused(flock(99, LOCK_EX), EBADF), "nor_files");
    close(fd);
    unlink("/tmp/locked");
}

int main(void)
{
    tap_plan(2);
    locks_on_files();
    return tap_end();
}
