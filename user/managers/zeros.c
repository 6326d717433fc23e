/*
 * zeros.c - the least manager: memory that programs share, zero until somebody stores to it.
 *
 *     zeros &             serves the object "zeros", 1 GiB
 *
 * Step 1 of libpstore/managers.md. It has no policy at all: a page that is touched first is zero,
 * and one that was stored to stays in memory, since nobody else has it. So programs may store to as
 * many pages as memory has room for.
 */
#include <stdio.h>
#include <string.h>

#include "manager.h"

#define PAGES (1ull << 18)              /* 1 GiB */

int main(void)
{
    static const struct km_ops ops = {0};
    struct km_object *object;
    int error = km_create("zeros", PAGES, KM_READ | KM_WRITE, &ops, NULL, &object);
    if (!error) error = km_serve(1);
    fprintf(stderr, "zeros: cannot serve: %s\n", ps_strerror(error));
    return 1;
}
