/*
 * pstore_demos.c - the three programs of the chapter "Who may touch what".
 *
 * Aim     A service that writes where its client's handle says cannot be confused, and one that
 *         goes by a name can; a program that was given one container finds and opens nothing else;
 *         one call ends a handle that was given on, in a message, too.
 * Method  Each program runs as a person would run it, and what it prints is compared.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "process.h"
#include "pstore_test.h"

enum { TEXT = 8192 };
static char text[TEXT];

/* What the line of the shell prints, in `text`; its status. */
static int run(const char *line)
{
    const char *argv[] = {"sh", "-c", line, NULL};
    int ends[2];
    if (pipe(ends) != 0)
        return -1;
    struct kd_process_create p = {.path = "/bin/sh", .argv = argv, .fds = {-1, ends[1], -1}};
    system_pass(&p);
    long handle = kd_call3(KD_PROCESS_CREATE, (long)&p, 0, 0);
    close(ends[1]);
    size_t bytes = 0;
    for (ssize_t n; bytes < TEXT - 1; bytes += (size_t)n)
        if ((n = read(ends[0], text + bytes, TEXT - 1 - bytes)) <= 0)
            break;
    text[bytes] = 0;
    close(ends[0]);
    if (handle >= 0)
        kd_call3(KD_HANDLE_CLOSE, handle, 0, 0);
    return handle < 0 ? -1 : child_wait(p.pid);
}

/* Are these lines there, each beginning so, one behind the other? */
static int says(const char *const *lines, int count)
{
    const char *at = text;
    for (int i = 0; at && i < count; i++) {
        at = strstr(at, lines[i]);
        if (!at)
            printf("# not there: %s\n", lines[i]);
        else
            at += strlen(lines[i]);
    }
    return at != NULL;
}
#define SAYS(...) says((const char *const[]){__VA_ARGS__}, \
                       (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)))

int main(void)
{
    tap_plan(5);
    tap_ok(run("deputy") == 0 &&
               SAYS("bill says 4711\n", "\"deputy.bill\": done\n", "bill says 1\n",
                    "out, here is its handle: done\n", "to write: bill may only be read",
                    "bill says 1\n", "here is a handle to read: not allowed", "out says 4711\n"),
           "the confused deputy: by a name it spoils its bill, by a handle it does not");
    tap_ok(run("todo add milk; cap dir alice; with alice todo add wine; spy todo") == 0 &&
               SAYS("find: todo\n", "read: done\n", "write: done\n"),
           "a program that has all finds all");
    tap_ok(run("run --only alice/todo spy -d todo alice alice/todo none; todo") == 0 &&
               SAYS("find: one without a name\n", "todo, to read: done\n", "todo, to write: done\n",
                    "todo, to delete: a part", "alice, to read: there is no container",
                    "alice/todo, to read: there is no", "none, to read: there is no", "- milk\n"),
           "confinement: it has one container, and finds, opens and deletes nothing else");
    tap_ok(run("revoke") == 0 &&
               SAYS("Ann: reads 42\n", "while a handle is in a message: done\n",
                    "Bob, by the handle in the message: the right to it was taken back",
                    "Ann, again: the right to it was taken back", "owner: reads 42\n"),
           "revocation: one call, and the handle in the message is dead");
    tap_ok(run("rm-container todo; with alice rm-container todo; rm-container alice; check") == 0,
           "all is deleted; kcheck");
    return tap_end();
}
