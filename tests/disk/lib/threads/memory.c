/*
 * memory.c - malloc of the store manager's files in tests (scripts/build.mk): more than
 * malloc_max at once is not there.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

size_t malloc_max = SIZE_MAX;
atomic_uint malloc_refused;

void *manager_malloc(size_t bytes);

void *manager_malloc(size_t bytes)
{
    malloc_refused += bytes > malloc_max;
    return bytes > malloc_max ? NULL : malloc(bytes);
}
