/*
 * spy.c - a program that nobody should trust: it tries what it can reach.
 *
 *     spy NAME...              lists what it finds, and tries to open these
 *     spy -d NAME...           and to delete them
 *     run --only todo spy NAME...          the same as a program that was given one container
 *
 * It is confinement as an experiment: under `run --only` it opens what it was given, and finds no
 * other name (user/store/directories.md).
 */
#include <errno.h>
#include <pstore.h>
#include <stdio.h>
#include <string.h>

enum { NAMES = 64 };

static void finds(void)
{
    static struct ps_info list[NAMES];
    int n = ps_list(list, NAMES);
    printf("containers that I find: ");
    if (n < 0)
        printf("%s\n", ps_strerror(n));
    for (int i = 0; i < n && i < NAMES; i++)
        printf("%s%s", i ? ", " : "", *list[i].name ? list[i].name : "one without a name");
    if (n >= 0)
        printf("%s\n", n ? "" : "none");
}

/* 0, or -errno. Of whatever type it is. */
static int opens(const char *name, int flags)
{
    ps_container *c = ps_open(name, flags, NULL);
    if (!c)
        return -errno;
    ps_close(c);
    return 0;
}

static void says(const char *name, const char *what, int error)
{
    printf("%s, %s: %s\n", name, what, error ? ps_strerror(error) : "done");
}

int main(int argc, char **argv)
{
    int deletes = argc > 1 && strcmp(argv[1], "-d") == 0;
    if (argc == 1 || (argv[1][0] == '-' && !deletes))
        return fprintf(stderr, "use: spy [-d] NAME...\n"), 2;
    finds();
    for (int i = 1 + deletes; i < argc; i++) {
        says(argv[i], "to read", opens(argv[i], 0));
        says(argv[i], "to write", opens(argv[i], PS_WRITE));
        if (deletes)
            says(argv[i], "to delete", ps_delete(argv[i]));
    }
    return 0;
}
