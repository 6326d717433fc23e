/*
 * checkpoint.c - checkpoint: brings all that is committed home, so that the next start has little to
 * recover. Commits are durable without it.
 */
#include <pstore.h>
#include <stdio.h>

int main(void)
{
    int error = ps_checkpoint();
    if (error) fprintf(stderr, "checkpoint: %s\n", ps_strerror(error));
    return error ? 1 : 0;
}
