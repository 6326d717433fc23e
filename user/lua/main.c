/*
 * main.c - lua: a Lua whose variables persist; chunks from words, a file, or line by line.
 */
#include "state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "lua - a Lua whose variables persist\n"
    "\n"
    "  lua [--state NAME] [-e CHUNK]... [FILE [ARGUMENT]...]\n"
    "  lua [--state NAME] --dump        prints Lua that makes the state's globals again\n"
    "\n"
    "FILE - is standard input. Without -e and FILE, lines are read from there: each is a\n"
    "transaction that commits by itself, and prints what it returns; an error undoes it. A CHUNK\n"
    "or FILE is one transaction, too. NAME (lua) is a container; several programs may use it at a\n"
    "time.\n"
    "A FILE finds its ARGUMENTs in `...`; `scripts/run --import DIR` brings it into the guest.\n"
    "\n"
    "  commit()         what was done so far is durable; the next transaction begins\n"
    "  begin()          lines do not commit by themselves until commit() or abort()\n"
    "  snapshot()       the globals as last committed, to be read while others go on\n"
    "  abort([TEXT])    all since the last commit is undone, and the chunk ends\n"
    "  os.exit([N])     commits, and ends the program\n"
    "\n"
    "What is printed appears when its transaction is over, once. There is no io but io.write.\n";

/* dump.lua, ending in a zero byte */
extern const char dump_text[];
__asm__(".pushsection .rodata\n"
        "dump_text: .incbin \"user/lua/dump.lua\"\n"
        ".byte 0\n"
        ".popsection\n");

/* All of a file, ending in a zero byte, from malloc; NULL: errno. */
static char *file_read(FILE *file, size_t *bytes)
{
    size_t room = 65536, used = 0, got = 1;
    char *text = malloc(room + 1);
    while (text && got > 0) {
        got = fread(text + used, 1, room - used, file);
        used += got;
        if (used == room) {
            char *larger = realloc(text, 2 * room + 1);
            if (!larger)
                free(text);
            text = larger;
            room *= 2;
        }
    }
    if (text && ferror(file)) {
        int error = errno;
        free(text);
        errno = error;
        return NULL;
    }
    if (text)
        text[used] = 0;
    *bytes = used;
    return text;
}

static int run_text(const char *text, const char *name, char **words)
{
    struct chunk chunk = { .text = text, .name = name, .bytes = strlen(text), .words = words };
    return run(&chunk) != RUN_DONE;
}

static int run_dump(void)
{
    struct chunk chunk = { .text = dump_text, .name = "=dump", .bytes = strlen(dump_text),
                           .looks = 1 };
    return run(&chunk) != RUN_DONE;
}

static int run_file(const char *path, char **words)
{
    char name[256];
    int standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "r");
    struct chunk chunk = { .name = name, .words = words };
    char *text = file ? file_read(file, &chunk.bytes) : NULL;
    int error = errno;
    if (file && !standard)
        fclose(file);
    if (!text)
        return fprintf(stderr, "lua: %s: %s\n", path, strerror(error)), 1;
    if (text[0] == '#')                  /* #! of a script: a comment of Lua, as long */
        memcpy(text, "--", chunk.bytes < 2 ? chunk.bytes : 2);
    snprintf(name, sizeof name, "@%s", standard ? "stdin" : path);
    chunk.text = text;
    int failed = run(&chunk) != RUN_DONE;
    free(text);
    return failed;
}

/* Reads lines, and runs each when it is whole. */
static int run_lines(void)
{
    char *line = NULL, *text = NULL;
    size_t room = 0, used = 0;
    int terminal = isatty(0), failed = 0;
    for (;;) {
        if (terminal)
            printf(used ? ">> " : run_is_open() ? "* " : "> "), fflush(stdout);
        ssize_t got = getline(&line, &room, stdin);
        if (got < 0)
            break;
        char *longer = realloc(text, used + (size_t)got + 1);
        if (!longer)
            return perror("lua"), 1;
        text = longer;
        memcpy(text + used, line, (size_t)got + 1);
        used += (size_t)got;
        struct chunk chunk = { .text = text, .name = "=stdin", .bytes = used, .values = 1 };
        int result = run(&chunk);
        used = result == RUN_PART ? used : 0;
        failed |= result == RUN_FAILED;
    }
    if (used > 0)
        failed |= run_text(text, "=stdin", NULL); /* says what is missing */
    return failed;
}

static int run_all(char **words)
{
    int failed = 0, chunks = 0;
    for (; words[0] && strcmp(words[0], "-e") == 0 && words[1]; words += 2, chunks++)
        failed |= run_text(words[1], "=(command line)", NULL);
    if (words[0])
        return run_file(words[0], words + 1) | failed;
    return chunks ? failed : run_lines();
}

int main(int argc, char **argv)
{
    const char *name = "lua";
    char **words = argv + 1;
    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        return fputs(help, stdout), 0;
    if (words[0] && strcmp(words[0], "--state") == 0 && words[1]) {
        name = words[1];
        words += 2;
    }
    if (words[0] && words[0][0] == '-' && words[0][1] && strcmp(words[0], "--dump") != 0 &&
        (strcmp(words[0], "-e") != 0 || !words[1]))
        return fprintf(stderr, "lua: %s is no option, or lacks its word: lua --help\n", *words), 2;
    int error = state_open(name);
    if (error)
        return fprintf(stderr, "lua: %s: %s\n", name, ps_strerror(error)), 1;
    int failed = words[0] && strcmp(words[0], "--dump") == 0 ? run_dump() : run_all(words);
    if (run_is_open())
        fprintf(stderr, "lua: begin() without commit(): undone\n");
    return failed || run_is_open();
}
