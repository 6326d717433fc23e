/*
 * main.c - kstore: makes, examines, repairs and draws store images on the host.
 */
#include "kstore.h"

#include <string.h>

static const struct command {
    const char *name, *what;
    int (*main)(int count, char **words);
} commands[] = {
    { "create",  "make an empty store",                                      create_main },
    { "info",    "what a store holds, as recovery would leave it",           info_main },
    { "check",   "verify every structure, page and invariant of a store",    check_main },
    { "objects", "objects and bytes in containers, by type",                 objects_main },
    { "leaks",   "objects that no root and no name leads to",                leaks_main },
    { "put",     "make a container out of a file",                           put_main },
    { "backup",  "copy a store, also one that a guest has open",             backup_main },
    { "archive", "put a copy of a store, and its log since, into a directory", archive_main },
    { "restore", "make a store of such an archive, as it was at some time",    restore_main },
    { "get",     "write a container's bytes to a file",                      get_main },
    { "export",  "print a container's objects as lines of JSON",             export_main },
    { "import",  "make a container of such lines",                           import_main },
    { "scrub",   "read every copy, and repair in place what has another",    scrub_main },
    { "salvage", "copy what verifies from a damaged store into a new one",   salvage_main },
    { "dump",    "objects, extents, pages, buckets; or one page",            dump_main },
    { "log",     "the groups and records of the log",                        log_main },
    { "grow",    "make a store and its image larger",                        grow_main },
    { "upgrade", "make a store of an older format one of today's",           upgrade_main },
    { "map",     "draw a picture of the disk, as one HTML file",             map_main },
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void usage(FILE *out)
{
    fprintf(out, "Usage: kstore COMMAND [OPTION...] IMAGE...\n"
                 "Makes, examines, repairs and draws Katydid's stores.\n\n");
    for (int i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].what);
    fprintf(out, "\n`kstore COMMAND --help` lists a command's options.\n\n"
                 "Exit status, of every command:\n"
                 "  0  sound, or done\n"
                 "  1  damage was found, or something could not be saved\n"
                 "  2  wrong use\n"
                 "  3  cannot read, write or allocate\n"
                 "  4  blank, or not a store, or of a newer format\n\n"
                 "Only create, put, import, grow, scrub, upgrade and the targets of archive, "
                 "backup, restore and salvage ever write.\n");
}

int main(int count, char **words)
{
    char name[64];
    if (count > 1 && (!strcmp(words[1], "--help") || !strcmp(words[1], "-h") ||
                      !strcmp(words[1], "help"))) {
        usage(stdout);
        return SOUND;
    }
    for (int i = 0; count > 1 && i < COMMANDS; i++)
        if (!strcmp(words[1], commands[i].name)) {
            snprintf(name, sizeof name, "kstore %s", commands[i].name);
            words[1] = name;
            int status = commands[i].main(count - 1, words + 1);
            progress_end();
            if (fflush(stdout) || ferror(stdout)) {
                perror("kstore: stdout");
                return CANNOT;
            }
            return status;
        }
    if (count > 1)
        fprintf(stderr, "kstore: there is no command %s\n\n", words[1]);
    usage(stderr);
    return WRONG_USE;
}
