/*
 * checkpoint.c - checkpoint: brings all that is committed home, so that the next start has little
 * to recover. Commits are durable without it.
 */
#include <pstore.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) {
        fputs("use: checkpoint   brings all that is committed home, and waits for it\n", stderr);
        return 2;
    }
    int error = ps_checkpoint();
    if (error) fprintf(stderr, "checkpoint: %s\n", ps_strerror(error));
    return error ? 1 : 0;
}
