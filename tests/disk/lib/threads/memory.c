/*
 * memory.c - malloc of the store manager's files in tests (scripts/build.mk): more than
 * malloc_max at once is not there.
 */
#include <stdint.h>
#include <stdlib.h>

size_t malloc_max = SIZE_MAX;

void *manager_malloc(size_t bytes);

void *manager_malloc(size_t bytes)
{
    return bytes > malloc_max ? NULL : malloc(bytes);
}
