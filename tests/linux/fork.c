/*
 * fork.c - fork, execve, wait, pipes between processes, descriptors across exec.
 * Prints the same on Linux and on Katydid; `fork child ARG` is what it execs.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *self;

static void say(const char *what, long value)
{
    printf("%s %ld\n", what, value);
    fflush(stdout);
}

static void memory_is_copied(void)
{
    static int shared = 1;
    int *heap = malloc(1 << 20), status, ends[2];
    heap[1000] = 2;
    if (pipe(ends))
        exit(9);
    pid_t pid = fork();
    if (pid == 0) {
        shared = 10;
        heap[1000] = 20;
        dprintf(ends[1], "child sees %d %d", shared, heap[1000]);
        _exit(shared + heap[1000]);
    }
    char text[64] = "";
    close(ends[1]);
    ssize_t n = read(ends[0], text, sizeof(text) - 1);
    say("waited for the child", waitpid(pid, &status, 0) == pid);
    say("exit status", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    printf("%.*s; parent sees %d %d\n", (int)n, text, shared, heap[1000]);
    say("no more children", waitpid(-1, &status, 0) == -1 && errno == ECHILD);
    close(ends[0]);
    free(heap);
}

static void signals_end_children(void)
{
    static const int numbers[] = {SIGTERM, SIGKILL, SIGABRT, SIGSEGV, SIGPIPE};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        int status;
        pid_t pid = fork();
        if (pid == 0)
            for (;;)
                pause();
        kill(pid, numbers[i]);
        waitpid(pid, &status, 0);
        printf("signal %d: signalled %d by %d\n", numbers[i], WIFSIGNALED(status) != 0,
               WTERMSIG(status));
    }
    fflush(stdout);
}

static void exec_replaces(void)
{
    int keep = open("/dev/null", O_WRONLY), drop = open("/dev/null", O_WRONLY | O_CLOEXEC), status;
    char keep_text[16], drop_text[16];
    snprintf(keep_text, sizeof(keep_text), "%d", keep);
    snprintf(drop_text, sizeof(drop_text), "%d", drop);
    pid_t pid = fork();
    if (pid == 0) {
        execl(self, self, "child", keep_text, drop_text, NULL);
        _exit(126);
    }
    waitpid(pid, &status, 0);
    say("exec gave", WEXITSTATUS(status));
    close(keep);
    close(drop);
    pid = fork();
    if (pid == 0) {
        execl("/none/such", "such", NULL);
        _exit(errno == ENOENT ? 44 : 45);
    }
    waitpid(pid, &status, 0);
    say("a missing program gives", WEXITSTATUS(status));
}

static void spawn_works(void)
{
    extern char **environ;
    char *argv[] = {(char *)self, "child", "1", "63", NULL};
    pid_t pid;
    int status;
    fflush(stdout);
    int error = posix_spawn(&pid, self, NULL, NULL, argv, environ);
    waitpid(pid, &status, 0);
    say("spawned", error);
    say("it gave", WEXITSTATUS(status));
    say("a missing program", posix_spawn(&pid, "/none/such", NULL, NULL, argv, environ) == ENOENT);
}

static void a_pipeline(void)
{
    int ends[2], status, sum = 0;
    char c;
    if (pipe(ends))
        exit(9);
    for (int i = 0; i < 3; i++)
        if (fork() == 0) {
            dup2(ends[1], 1);
            close(ends[0]);
            close(ends[1]);
            for (int k = 0; k < 1000; k++)
                if (write(1, "x", 1) != 1)
                    _exit(1);
            _exit(0);
        }
    close(ends[1]);
    while (read(ends[0], &c, 1) == 1)
        sum++;
    for (int i = 0; i < 3; i++)
        wait(&status);
    close(ends[0]);
    say("bytes through the pipe", sum);
}

static void storm(void)
{
    int count = 0, status;
    for (int i = 0; i < 40; i++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(i);
        if (i % 4 == 3)
            for (int k = 0; k < 4; k++)
                count += wait(&status) > 0;
    }
    say("storm", count);
}

static int child(int argc, char **argv)
{
    const char *home = getenv("TESTED");
    printf("child: %d arguments, TESTED=%s, kept %d, dropped %d\n", argc, home ? home : "",
           fcntl(atoi(argv[2]), F_GETFD) == 0, fcntl(atoi(argv[3]), F_GETFD) == -1);
    return 33;
}

int main(int argc, char **argv)
{
    self = argv[0];
    if (argc > 1)
        return child(argc, argv);
    setenv("TESTED", "yes", 1);
    memory_is_copied();
    signals_end_children();
    exec_replaces();
    spawn_works();
    a_pipeline();
    storm();
    return 0;
}
