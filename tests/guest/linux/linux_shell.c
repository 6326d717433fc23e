/*
 * linux_shell.c - the shell as scripts use it.
 *
 * Method  each case is a text, what it prints, and its status.
 */
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <katydid/abi.h>

#include "tap.h"

static const struct {
    const char *text, *output;
    int status;
} cases[] = {
    { "echo hello world", "hello world\n", 0 },
    { "echo 'a  b'  \"c  $?\" d\\ e # remark", "a  b c  0 d e\n", 0 },
    { "false; echo $?; true; echo $?", "1\n0\n", 0 },
    { "true && echo yes || echo no", "yes\n", 0 },
    { "false && echo yes || echo no", "no\n", 0 },
    { "false || false && echo never", "", 1 },
    { "true || echo never; echo on", "on\n", 0 },
    { "echo one\necho two\n\n", "one\ntwo\n", 0 },
    { "exit 7; echo never", "", 7 },
    { "halt 300", "", 44 },
    { "nosuchprogram; echo $?", "127\n", 0 },
    { "/etc/command", "", 126 },
    { "echo x | cat | cat", "x\n", 0 },
    { "true | false", "", 1 },
    { "false | true", "", 0 },
    { "echo a > /tmp/f; echo b >> /tmp/f; cat < /tmp/f; cat /tmp/f", "a\nb\na\nb\n", 0 },
    { "cat /none 2> /tmp/e; echo $?; cat /tmp/e", "1\ncat: /none: No such file or directory\n", 0 },
    { "cat /none 2>&1 | cat", "cat: /none: No such file or directory\n", 0 },
    { "cat < /none; echo $?", "1\n", 0 },
    { "nosuch 2> /tmp/e; echo $?; cat /tmp/e", "127\nsh: nosuch: not found\n", 0 },
    { "cd /tmp && pwd", "/tmp\n", 0 },
    { "mkdir /tmp/d && cd /tmp/d && echo q > z && cp z y && cat y; cd /;"
      "rm /tmp/d/z /tmp/d/y /tmp/d",
      "q\n", 0 },
    { "sleep 0.05 & sleep 0.01 & wait; echo done", "done\n", 0 },
    { "false & wait", "", 1 },
    { "repeat 3 echo a | cat", "a\na\na\n", 0 },
    { "repeat 0 echo a; echo never", "", 2 },
    { "time 2> /tmp/t echo timed; time repeat 2 true", "timed\n", 0 },
    { "sleep 1000 & jobs; kill %1; wait %1; echo $?; jobs", "[1] running  sleep 1000\n137\n", 0 },
    { "sleep 2 & fg; echo $?; fg 2> /tmp/e; echo $?", "sleep 2\n0\n127\n", 0 },
    { "nice 5 echo hi; nice 3 limit memory 8M nice 5 sh -c 'echo $?; exit 4'; echo $?",
      "hi\n0\n4\n", 0 },
    { "nice x true 2> /tmp/e; echo $?; nice 2> /tmp/e; echo $?", "2\n2\n", 0 },
    { "wait %7 2> /tmp/e; echo $?", "127\n", 0 },
    { "A=one B='two words'; echo $A \"$B\" '$A' \\$A $C.", "one two words $A $A .\n", 0 },
    { "A=x; sh -c 'echo $A $HOME'", "x /tmp\n", 0 },
    { "repeat 2 A=x sh -c 'echo $A'; repeat 2 A=z; echo $A", "x\nx\nz\n", 0 },
    { "A=y; A=x sh -c 'echo $A'; echo $A $?", "x\ny 0\n", 0 },
    { "help pwd", "pwd where you are\n", 0 },
    { "help wn none 2> /tmp/e; echo $?; cat /tmp/e",
      "wn   WordNet, read from the container where wn-import put it: wn --help\n1\n"
      "help: none: no command and no program\n", 0 },
    { "echo 'open", "", 2 },
    { "echo a | | echo b", "", 2 },
    { "&& true", "", 2 },
    { "> /tmp/empty; ls /tmp/empty", "         0 /tmp/empty\n", 0 },
    { "sh -c 'echo inner; exit 3'; echo $?", "inner\n3\n", 0 },
    { "echo 'echo from a file' > /tmp/s; sh /tmp/s", "from a file\n", 0 },
    { "echo 'echo $# $1,$2,$3. \\$1 $0' > /tmp/s; sh /tmp/s 'a b' c; echo $#$1",
      "2 a b,c,. $1 /tmp/s\n0\n", 0 },
    { "echo a > /tmp/f; mkdir /tmp/d; cp /tmp/f /tmp/d/; cat /tmp/d/f; cp /tmp/d/f /tmp/g; cat "
      "/tmp/g",
      "a\na\n", 0 },
    { "", "", 0 },
};
#define CASES (int)(sizeof(cases) / sizeof(cases[0]))

static int run(const char *text, char *out, size_t bytes)
{
    const char *const argv[] = {"sh", "-c", text, NULL};
    struct kd_process_create c = { .path = "/bin/sh",
                                   .argv = argv,
                                   .fds = { -1, -1, -1 },
                                   .handle_count = 1,
                                   .handles = { KD_SYSTEM_HANDLE } };
    int ends[2], status = -1;
    size_t n = 0;
    ssize_t r;
    if (pipe(ends))
        return -1;
    c.fds[1] = ends[1];
    long handle = syscall(KD_PROCESS_CREATE, &c);
    close(ends[1]);
    while (handle >= 0 && (r = read(ends[0], out + n, bytes - 1 - n)) > 0)
        n += (size_t)r;
    out[n] = 0;
    close(ends[0]);
    if (handle >= 0) {
        syscall(KD_HANDLE_CLOSE, handle);
        syscall(KD_PROCESS_WAIT, c.pid, &status, 0);
    }
    return status;
}

/* Complaints of the shell go to its descriptor 2, the console: as remarks, TAP ignores them. */
int main(void)
{
    char out[4096];
    tap_plan(CASES);
    for (int i = 0; i < CASES; i++) {
        int status = run(cases[i].text, out, sizeof(out));
        int good = status == cases[i].status && strcmp(out, cases[i].output) == 0;
        if (!good)
            printf("# status %d, output: %s\n", status, out);
        tap_ok(good, "case_%d", i);
    }
    return tap_end();
}
