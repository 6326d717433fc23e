/* beside.c - an editor of a board in the middle of its work, and another process that looks. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static int to_editor[2], from_editor[2];
static const char *part;

/* The editor has carried the commands out when their answers are here, so many lines. */
static void edit(const char *format, int lines) {
    char c;
    if (dprintf(to_editor[1], format, part, part) < 0)
        printf("gone");
    for (; lines > 0; lines--) {
        printf("editor: ");
        for (c = 0; c != '\n' && read(from_editor[0], &c, 1) == 1;)
            putchar(c);
    }
    fflush(stdout);
}

static void look(void) {
    char list[64];
    snprintf(list, sizeof list, "list %s", part);
    printf("beside: ");
    fflush(stdout);
    if (fork() == 0) {
        execl("/bin/board", "board", "tiny", list, NULL);
        _exit(127);
    }
    wait(NULL);
}

int main(int argc, char **argv) {
    part = argc > 1 ? argv[1] : "";
    if (pipe(to_editor) != 0 || pipe(from_editor) != 0)
        return 1;
    int editor = fork();
    if (editor == 0) {
        dup2(to_editor[0], 0);
        dup2(from_editor[1], 1);
        close(to_editor[1]);
        execl("/bin/board", "board", "tiny", NULL);
        _exit(127);
    }
    edit("move %s 7 0 1000\nlist %s\n", 2);
    look();
    edit("save\n", 1);
    look();
    edit("move %s 1 0\nat 0 list %s\n", 2);
    edit("at 1 list %s\n", 1);
    edit("undo\nlist %s\n", 1);
    close(to_editor[1]);
    close(from_editor[1]);
    waitpid(editor, NULL, 0);
    return 0;
}
